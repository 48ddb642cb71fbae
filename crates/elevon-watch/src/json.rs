//! What disks did, as JSON: an object for each interval.

use serde_json::{Value, json};

use crate::finding::Standing;
use crate::now::{Calls, DiskNow, Now, RowNow, heat_floor};
use crate::text::sampled;

/// Version of the format.
const VERSION: u64 = 1;

/// Returns an interval as an object. Times and latencies are nanoseconds, rates are by second.
pub fn now(now: &Now) -> Value {
    json!({
        "version": VERSION,
        "at_ns": now.at,
        "lost_events": now.lost,
        "followed": now.followed,
        "sampled": sampled(now),
        "disks": now.disks.iter().map(|disk| disk_value(disk, now.at)).collect::<Vec<_>>(),
    })
}

fn disk_value(disk: &DiskNow, at: u64) -> Value {
    let heat = disk.heat.last().map(|counts| {
        let rows = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        rows.map(|(row, count)| json!([heat_floor(row), count])).collect::<Vec<_>>()
    });
    json!({
        "name": disk.name,
        "device": disk.device.to_string(),
        "scheduler": disk.scheduler,
        "seconds": disk.seconds,
        "read": calls(&disk.read),
        "write": calls(&disk.write),
        "discards": disk.discards,
        "flushes": disk.flushes,
        "merges": disk.merges,
        "splits": disk.splits,
        "requeues": disk.requeues,
        "errors": disk.errors,
        "waiting_ns": percentiles(disk.waiting),
        "in_device_ns": percentiles(disk.in_device),
        "depth": disk.depth,
        "busy": disk.busy,
        "kernel_util": disk.kernel_util,
        "latency_last_second": heat,
        "rows": disk.rows.iter().map(row).collect::<Vec<_>>(),
        "findings": disk.findings.iter().map(|standing| finding(standing, at)).collect::<Vec<_>>(),
    })
}

fn calls(calls: &Calls) -> Value {
    json!({ "requests": calls.requests, "bytes": calls.bytes })
}

fn percentiles(of: [Option<u64>; 2]) -> Value {
    json!({ "p50": of[0], "p99": of[1] })
}

fn row(row: &RowNow) -> Value {
    let unit = row.unit.as_ref().map(|(kind, name)| json!({ "kind": kind.name(), "name": name }));
    json!({
        "name": row.name,
        "process": row.process,
        "unit": unit,
        "read": calls(&row.read),
        "write": calls(&row.write),
        "others": row.others,
        "waiting_ns": percentiles(row.waiting),
        "in_device_ns": percentiles(row.in_device),
        "depth": row.depth,
        "prio": row.prio,
        "errors": row.errors,
    })
}

fn finding(standing: &Standing, at: u64) -> Value {
    let of = &standing.finding;
    let figures: serde_json::Map<String, Value> =
        of.figures.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    json!({
        "kind": of.kind.name(),
        "title": of.title,
        "who": of.who,
        "held_ns": at.saturating_sub(standing.since),
        "figures": figures,
        "evidence": of.evidence,
        "advice": of.advice,
    })
}
