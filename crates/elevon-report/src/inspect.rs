//! Reports of `elevon inspect` as text, JSON and HTML: pure functions of an
//! [`elevon_trace::analysis::Inspection`].

mod json;
mod page;
mod tables;
mod text;

pub use json::json;
pub use page::{MAX_ON_PAGE, PageRequests, page};
pub use text::text;

use elevon_trace::TraceKind;
use elevon_trace::analysis::Inspection;

/// Returns what is selected of the trace, and what of the report is of more than that.
fn selected(found: &Inspection) -> String {
    let words = found.selection.words();
    if !found.selection.has_owners() {
        return words;
    }
    format!(
        "{words} (of all I/O there: events, findings, depth in device, utilisation, and depth, waiting and busy over time)"
    )
}

/// Returns the end of the title of what is of all I/O although only some of it is selected.
fn of_all(found: &Inspection) -> &'static str {
    if found.selection.has_owners() { ", of all I/O" } else { "" }
}

/// Returns the step of an I/O that the trace shows first, and the waits before it, which it cannot
/// show; `None` if it shows no I/O.
fn waits_before(found: &Inspection) -> Option<(&'static str, Vec<&'static str>)> {
    let has = |names: &[&str]| {
        let mut rows = TraceKind::NAMES.iter().zip(found.events);
        rows.any(|(kind, count)| count > 0 && names.contains(kind))
    };
    let mut waits =
        vec!["limits of io.max", "room for dirty pages", "locks and journals of file systems"];
    let first = if has(&["queue"]) {
        return Some(("queued", waits));
    } else if has(&["io"]) {
        return Some(("recorded", waits));
    } else if has(&["getrq", "io_start"]) {
        "allocated"
    } else if has(&["insert"]) {
        "inserted"
    } else if has(&["issue"]) {
        "issued"
    } else {
        return None;
    };
    waits.extend(["tags", "writeback throttling", "io.cost", "io.latency"]);
    waits.extend((first == "issued").then_some("the I/O scheduler"));
    Some((first, waits))
}

/// Names the waits that the trace cannot show.
fn not_shown(found: &Inspection) -> Option<String> {
    let (first, waits) = waits_before(found)?;
    let above = if waits.len() == 3 { ", above the block layer" } else { "" };
    Some(format!("Not shown: waits before an I/O is {first}{above}: {}.", waits.join(", ")))
}

/// Version of the JSON that [`json`] writes. It increases if a key changes its meaning or is
/// removed.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// Percentiles in the reports: millionths and name.
const PERCENTILES: [(u64, &str); 5] =
    [(500_000, "p50"), (900_000, "p90"), (950_000, "p95"), (990_000, "p99"), (999_000, "p99.9")];
