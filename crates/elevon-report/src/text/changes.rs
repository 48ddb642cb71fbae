//! Settings that were changed for tenants during the run.

use std::fmt::Write as _;

use elevon_result::number::{grouped, span};
use elevon_result::result::RunResult;

/// Maximum number of changes in the report; JSON has all.
const MAX_CHANGES: usize = 50;

/// Writes a line per change. A tenant's own section shows the settings before the first change.
pub(super) fn section(out: &mut String, run: &RunResult) {
    if run.changes.is_empty() {
        return;
    }
    out.push_str("\nSettings changed during the run (those in the rows above held before):\n");
    for change in run.changes.iter().take(MAX_CHANGES) {
        let at = span(change.at.get() as f64);
        let _ = writeln!(out, "  from {at} on: {} {}: {}", change.tenant, change.file, change.text);
    }
    if let hidden @ 1.. = run.changes.len().saturating_sub(MAX_CHANGES) {
        let _ = writeln!(out, "  {} more are in the JSON report", grouped(hidden as u64));
    }
}
