//! What jobs and tenants did over time, and what changed meanwhile.

use serde_json::{Value, json};

use crate::result::{Change, OwnerPoint, OwnerResult};

/// `elevon.series.tenants` and `elevon.series.jobs`: counts of each interval.
pub(super) fn owners(key: &str, owners: &[OwnerResult]) -> Value {
    let point = |point: &OwnerPoint| json!({ "at_ns": point.at.get(), "bytes": point.bytes, "ios": point.ios });
    let owner = |owner: &OwnerResult| {
        let mut out = json!({ "points": owner.points.iter().map(point).collect::<Vec<_>>() });
        out[key] = json!(owner.name);
        out
    };
    owners.iter().map(owner).collect()
}

/// `elevon.changes`: what was set during the run, and from when on it was in force.
pub(super) fn changes(changes: &[Change]) -> Value {
    let change = |change: &Change| json!({ "at_ns": change.at.get(), "tenant": change.tenant, "file": change.file, "text": change.text });
    changes.iter().map(change).collect()
}
