//! I/O of jobs and tenants over time, and changes of settings during the run.

use serde_json::{Value, json};

use elevon_result::result::{Change, OwnerPoint, OwnerResult};

/// Returns `elevon.series.tenants` or `elevon.series.jobs`: the counts of each interval.
pub(super) fn owners(key: &str, owners: &[OwnerResult]) -> Value {
    let point = |point: &OwnerPoint| json!({ "at_ns": point.at.get(), "bytes": point.bytes, "ios": point.ios });
    let owner = |owner: &OwnerResult| {
        let mut out = json!({ "points": owner.points.iter().map(point).collect::<Vec<_>>() });
        out[key] = json!(owner.name);
        out
    };
    owners.iter().map(owner).collect()
}

/// Returns `elevon.changes`: each setting that was changed during the run, and when it took effect.
pub(super) fn changes(changes: &[Change]) -> Value {
    let change = |change: &Change| json!({ "at_ns": change.at.get(), "tenant": change.tenant, "file": change.file, "text": change.text });
    changes.iter().map(change).collect()
}
