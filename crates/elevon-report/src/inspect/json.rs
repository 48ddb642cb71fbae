//! The inspection as JSON. Times are nanoseconds of the trace's clock, sizes bytes. Values that the
//! trace lacks are `null` or omitted.

use elevon_core::stats::LatencyStat;
use elevon_result::summary::{latency_deviation, latency_mean};
use elevon_trace::analysis::{
    DEPTH_ROWS, Finding, Group, Inspection, ProcessStats, Seeks, SizeStat, Slot, Stages,
    depth_row_name,
};
use elevon_trace::{ReadReport, Recorded, Selection, TraceKind};
use serde_json::{Map, Value, json};

use super::tables::Told;
use super::{PERCENTILES, SCHEMA_VERSION};

/// Returns the whole inspection, with a newline at its end.
pub fn json(found: &Inspection) -> String {
    let told = Told::by(found);
    let value = json!({
        "schema_version": SCHEMA_VERSION,
        "trace": trace(&found.report),
        "device": found.device.to_string(),
        "device_name": found.name,
        "disk": found.disk.map(|disk| disk.to_string()),
        "selected": (!found.selection.is_all()).then(|| selected(found)),
        "trace_start_ns": found.start,
        "start_ns": found.span.map(|(first, _)| first),
        "end_ns": found.span.map(|(_, last)| last),
        "duration_ns": found.duration(),
        "observed_ns": found.observed,
        "events": events(&found.events, true),
        "events_without_device": events(&found.events_without_device, false),
        "events_without_time": found.untimed,
        "findings": found.findings.iter().map(finding).collect::<Vec<_>>(),
        "bios": bios(found),
        "requests": requests(found),
        "splits": (told.requests || found.counts.splits > 0).then_some(found.counts.splits),
        "merges": told.requests.then(|| json!({
            "back": found.counts.back_merges,
            "front": found.counts.front_merges,
            "request": found.counts.request_merges,
        })),
        "requeues": told.requests.then_some(found.counts.requeues),
        "requests_given_back": told.requests.then_some(found.counts.given_back),
        "partial_completions": told.requests.then_some(found.counts.partial),
        "errors": told.errors.then_some(found.counts.errors),
        "not_followed": (told.requests || told.errors).then(|| json!({
            "completions_without_beginning": found.counts.unmatched,
            "completions_missing": found.counts.overdue,
            "latencies_across_gaps": found.counts.across_gaps,
            "forgotten_at_gaps": found.counts.forgotten,
            "bios_under_way_at_end": found.bios_under_way,
            "requests_under_way_at_end": found.requests_under_way,
        })),
        "latency": by_group(|group| stages(&found.stages[group as usize])),
        "not_shown": super::waits_before(found).map(|(first, waits)| json!({ "before": first, "waits": waits })),
        "sequentiality": { "queued": seeks(&found.queue_seeks), "issued": seeks(&found.issue_seeks) },
        "depth": told.depth.then(|| depth(found)),
        "utilisation": told.utilisation.then(|| utilisation(found)),
        "priorities": priorities(found),
        "processes": found.processes.iter().map(|row| process(row, told)).collect::<Vec<_>>(),
        "timeline": timeline(found),
    });
    format!("{value:#}\n")
}

/// What of the trace is selected, and which keys are of all I/O in the window all the same.
fn selected(found: &Inspection) -> Value {
    let Selection { from, until, processes, cgroups } = &found.selection;
    let of_all: &[&str] = match found.selection.has_owners() {
        true => &[
            "events",
            "findings",
            "depth",
            "utilisation",
            "timeline.slots.in_device",
            "timeline.slots.waiting",
            "timeline.slots.busy",
        ],
        false => &[],
    };
    json!({ "from_ns": from, "until_ns": until, "processes": processes, "cgroups": cgroups, "of_all_io": of_all })
}

fn trace(report: &ReadReport) -> Value {
    let place = |place: &elevon_trace::Place| {
        let file = report.files.get(place.file as usize).cloned().unwrap_or_default();
        format!("{file}: {}", place.at)
    };
    json!({
        "format": report.format.name(),
        "files": report.files,
        "events": report.events,
        "other_lines_or_records": report.other,
        "devices": report.devices.iter().map(|(device, events)| json!({
            "device": device.to_string(), "events": events,
        })).collect::<Vec<_>>(),
        "damaged": report.skipped.iter().map(|skipped| json!({
            "expected": skipped.reason, "count": skipped.count, "first": place(&skipped.first),
        })).collect::<Vec<_>>(),
        "gaps": report.gap_count,
        "lost_events": (report.uncounted_gaps == 0).then_some(report.lost),
        "overwritten_events": report.overwritten,
        "clock": report.clock,
        "resolution_ns": report.resolution_ns,
        "notes": report.notes,
        "recorded": report.recorded.as_deref().map(recorded),
    })
}

/// Returns what the trace or a file beside it says of how it was recorded, by key.
fn recorded(notes: &Recorded) -> Value {
    notes.iter().map(|(key, value)| (key.to_owned(), json!(value))).collect::<Map<_, _>>().into()
}

/// Returns counts by kind. Kinds that do not occur are omitted, or 0 if `all` is true.
fn events(counts: &[u64], all: bool) -> Value {
    let rows = TraceKind::NAMES.iter().zip(counts).filter(|&(_, &count)| all || count > 0);
    rows.map(|(name, &count)| ((*name).to_owned(), json!(count))).collect::<Map<_, _>>().into()
}

fn finding(finding: &Finding) -> Value {
    json!({
        "kind": finding.kind.name(),
        "title": finding.title,
        "weight_permille": finding.weight,
        "first_ns": finding.when.map(|(first, _)| first),
        "last_ns": finding.when.map(|(_, last)| last),
        "processes": finding.who,
        "figures": finding.figures.iter().map(|&(name, value)| (name.to_owned(), json!(value)))
            .collect::<Map<_, _>>(),
        "evidence": finding.evidence,
        "advice": finding.advice,
    })
}

/// Returns an object with a key for each group that has a value.
fn by_group(mut of: impl FnMut(Group) -> Option<Value>) -> Value {
    let rows =
        Group::ALL.into_iter().filter_map(|group| Some((group.name().to_owned(), of(group)?)));
    rows.collect::<Map<_, _>>().into()
}

fn bios(found: &Inspection) -> Value {
    let told = Told::by(found).completions;
    by_group(|group| {
        let at = group as usize;
        let flag = |counts: &[u64; Group::COUNT]| (found.mix.flagged[at] > 0).then_some(counts[at]);
        let completed = found.counts.bios_completed[at];
        (found.counts.bios[at] > 0).then(|| {
            json!({
                "count": found.counts.bios[at],
                "bytes": found.counts.bio_bytes[at],
                "completed": (told || completed > 0).then_some(completed),
                "sync": flag(&found.mix.sync),
                "meta": flag(&found.mix.meta),
                "readahead": flag(&found.mix.readahead),
                "fua": flag(&found.mix.fua),
                "preflush": flag(&found.mix.preflush),
                "sizes": sizes(&found.bio_sizes.groups[at]),
            })
        })
    })
}

fn requests(found: &Inspection) -> Value {
    by_group(|group| {
        let at = group as usize;
        (found.counts.issued[at] + found.counts.completed[at] > 0).then(|| {
            json!({
                "issued": found.counts.issued[at],
                "completed": found.counts.completed[at],
                "bytes": found.counts.completed_bytes[at],
                "sizes": sizes(&found.request_sizes.groups[at]),
            })
        })
    })
}

fn sizes(stat: &SizeStat) -> Value {
    let rows = stat.rows.iter().enumerate().filter(|&(_, &count)| count > 0);
    let at_most: Map<String, Value> =
        rows.map(|(row, &count)| ((512u64 << row).to_string(), json!(count))).collect();
    let mean = stat.bytes.checked_div(stat.count);
    json!({
        "min": (stat.count > 0).then_some(stat.min),
        "max": (stat.count > 0).then_some(stat.max),
        "mean": mean,
        "at_most_bytes": at_most,
    })
}

fn stages(stages: &Stages) -> Option<Value> {
    let rows = [
        ("queue_to_allocated", &stages.queue_to_allocated),
        ("allocated_to_inserted", &stages.allocated_to_inserted),
        ("inserted_to_issued", &stages.inserted_to_issued),
        ("allocated_to_issued", &stages.allocated_to_issued),
        ("issued_to_completed", &stages.issued_to_completed),
        ("first_issued_to_completed", &stages.first_issued_to_completed),
        ("request_total", &stages.request_total),
        ("bio_total", &stages.bio_total),
    ];
    let rows = rows.into_iter().filter(|(_, stat)| stat.count > 0);
    let rows: Map<String, Value> =
        rows.map(|(name, stat)| (name.to_owned(), latency(stat))).collect();
    (!rows.is_empty()).then(|| rows.into())
}

fn latency(stat: &LatencyStat) -> Value {
    let any = |value: f64| (stat.count > 0).then_some(value);
    let percentiles =
        PERCENTILES.map(|(millionths, name)| (name.to_owned(), json!(stat.percentile(millionths))));
    json!({
        "count": stat.count,
        "min_ns": (stat.count > 0).then_some(stat.min),
        "mean_ns": any(latency_mean(stat)),
        "stddev_ns": any(latency_deviation(stat)),
        "max_ns": (stat.count > 0).then_some(stat.max),
        "percentile_ns": percentiles.into_iter().collect::<Map<_, _>>(),
    })
}

fn seeks(seeks: &Seeks) -> Value {
    json!({
        "count": seeks.distances.count,
        "sequential": seeks.sequential,
        "mean_sectors": seeks.mean(),
        "median_sectors": seeks.distances.percentile(500_000),
    })
}

fn depth(found: &Inspection) -> Value {
    let rows = (0..DEPTH_ROWS)
        .filter(|&row| found.depths.rows[row].time + found.depths.rows[row].latency.count > 0);
    let rows: Vec<Value> = rows
        .map(|at| {
            let row = &found.depths.rows[at];
            json!({
                "depth": depth_row_name(at),
                "time_ns": row.time,
                "completed": row.completed.round() as u64,
                "bytes": row.bytes.round() as u64,
                "issued": row.latency.count,
                "issued_to_completed_mean_ns": row.mean_latency(),
                "issued_to_completed_p99_ns": row.latency.percentile(990_000),
            })
        })
        .collect();
    let time = found.depths.time();
    json!({
        "max": found.depths.max,
        "mean": (time > 0).then(|| found.depths.integral as f64 / time as f64),
        "mean_while_busy": found.depths.mean_busy_depth(),
        "busy_ns": found.depths.busy(),
        "rows": rows,
    })
}

fn utilisation(found: &Inspection) -> Value {
    let busy = &found.utilisation;
    json!({
        "hz": elevon_trace::analysis::HZ.0,
        "sampled_ms": busy.sampled_ms,
        "inflight_ms": busy.inflight_ms,
        "precise_ms": busy.precise_ms,
        "exact_ns": busy.exact.get(),
    })
}

fn priorities(found: &Inspection) -> Value {
    let rows = found.mix.priorities.iter().map(|row| {
        json!({
            "class": row.prio.class().name(),
            "level": row.prio.level(),
            "requests": by_group(|group| {
                let count = row.requests[group as usize];
                (count > 0).then(|| json!(count))
            }),
            "latency": latency(&row.latency),
        })
    });
    rows.collect()
}

fn process(row: &ProcessStats, told: Told) -> Value {
    json!({
        "id": row.id,
        "name": row.name,
        "bios": by_group(|group| (row.bios[group as usize] > 0).then(|| json!(row.bios[group as usize]))),
        "bytes": by_group(|group| (row.bytes[group as usize] > 0).then(|| json!(row.bytes[group as usize]))),
        "requests": by_group(|group| (row.requests[group as usize] > 0).then(|| json!(row.requests[group as usize]))),
        "splits": (told.requests || row.splits > 0).then_some(row.splits),
        "merges": told.requests.then_some(row.merges),
        "sequential_bios": row.sequential,
        "device_time_ns": told.depth.then_some(row.device_time),
        "latency": by_group(|group| {
            let stat = &row.latency[group as usize];
            (stat.count > 0).then(|| latency(stat))
        }),
    })
}

fn timeline(found: &Inspection) -> Value {
    let line = &found.timeline;
    let told = Told::by(found);
    let column = |of: &dyn Fn(&Slot) -> u64| line.slots.iter().map(of).collect::<Vec<_>>();
    let moved = |of: &dyn Fn(&Slot) -> u64| told.completions.then(|| column(of));
    let in_device = |of: &dyn Fn(&Slot) -> u64| told.depth.then(|| column(of));
    let (read, write) = (Group::Read as usize, Group::Write as usize);
    json!({
        "start_ns": line.start,
        "slot_ns": line.width,
        "queued": column(&|slot| slot.queued),
        "lost_ns": (found.report.gap_count > 0).then(|| column(&|slot| slot.lost)),
        "reads_completed": moved(&|slot| slot.completed[read]),
        "writes_completed": moved(&|slot| slot.completed[write]),
        "read_bytes": moved(&|slot| slot.bytes[read]),
        "write_bytes": moved(&|slot| slot.bytes[write]),
        "busy_ns": in_device(&|slot| slot.busy),
        "in_device_request_ns": in_device(&|slot| slot.in_device),
        "waiting_request_ns": in_device(&|slot| slot.waiting),
        "latency_max_ns": moved(&|slot| slot.latency_max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_has_the_deviation_that_other_reports_show() {
        let mut stat = LatencyStat::default();
        assert!(
            latency(&stat)["stddev_ns"].is_null()
                && latency(&stat)["percentile_ns"]["p50"].is_null()
        );
        [2, 4, 4, 4, 5, 5, 7, 9].into_iter().for_each(|value| stat.add(value));
        assert_eq!(latency(&stat)["stddev_ns"], (32.0f64 / 7.0).sqrt());
    }
}
