//! Tables of the text report of an inspection.

use comfy_table::Table;
use elevon_core::stats::LatencyStat;
use elevon_result::number::{bytes_binary, grouped, span};
use elevon_result::summary::latency_mean;
use elevon_trace::TraceKind;
use elevon_trace::analysis::{
    DEPTH_ROWS, Group, Inspection, SIZE_ROWS, Slot, Stages, depth_row_name, percent,
};

use super::PERCENTILES;
use crate::text::{align_right, plain_table, push_table};

/// Maximum number of processes in the text.
const MAX_PROCESSES: usize = 20;
/// Maximum number of lines in the table over time.
const TIME_LINES: usize = 12;

/// Returns the groups that have I/O.
fn groups(found: &Inspection) -> Vec<Group> {
    let counts = &found.counts;
    let has = |group: &Group| {
        let at = *group as usize;
        counts.bios[at] + counts.issued[at] + counts.completed[at] > 0
    };
    Group::ALL.into_iter().filter(has).collect()
}

fn put(out: &mut String, title: &str, mut table: Table) {
    out.push('\n');
    if !title.is_empty() {
        out.push_str(title);
        out.push('\n');
    }
    align_right(&mut table);
    push_table(out, &table);
}

fn mean(sum: u64, count: u64) -> String {
    sum.checked_div(count).map_or_else(|| "-".to_owned(), |mean| bytes_binary(mean as f64))
}

fn count(value: u64) -> String {
    if value == 0 { "-".to_owned() } else { grouped(value) }
}

/// Formats `part` as percent of `whole`; `-` if that is nothing.
pub(super) fn percent_or_none(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { percent(part, whole) }
}

/// What the events of a device tell; the rest is not known, not zero.
#[derive(Clone, Copy)]
pub(super) struct Told {
    /// What became of bios: the device has events of requests.
    pub(super) requests: bool,
    /// When something completed.
    pub(super) completions: bool,
    /// Whether it failed.
    pub(super) errors: bool,
    /// When requests began and completed.
    pub(super) utilisation: bool,
    /// When requests were in the device.
    pub(super) depth: bool,
}

impl Told {
    pub(super) fn by(found: &Inspection) -> Self {
        let has = |kinds: &[&str]| {
            let mut rows = TraceKind::NAMES.iter().zip(found.events);
            rows.any(|(kind, count)| count > 0 && kinds.contains(kind))
        };
        let is_completed = has(&["complete", "io_done"]);
        Self {
            requests: is_completed
                || has(&[
                    "getrq",
                    "backmerge",
                    "frontmerge",
                    "rq_merge",
                    "insert",
                    "issue",
                    "requeue",
                ])
                || has(&["io_start", "rq_error", "rq_remap"]),
            completions: is_completed
                || has(&["bio_complete"])
                || found.counts.bios_completed.iter().sum::<u64>() > 0,
            errors: has(&["complete", "bio_complete", "rq_error"]),
            utilisation: is_completed && has(&["getrq", "io_start", "insert", "issue"]),
            depth: is_completed && has(&["issue"]),
        }
    }
}

/// Returns what it means that a trace has no findings.
pub(super) fn why_no_findings(found: &Inspection) -> String {
    let told = Told::by(found);
    let text = if told.depth {
        "Nothing in this trace passes the threshold of a known problem."
    } else if found.events[TraceKind::Io { response_ns: None }.index()] > 0 && told.completions {
        "This trace has one record for each I/O; problems are found where it tells when requests were issued and completed, too."
    } else if let below = found.report.below(found.device).collect::<Vec<_>>()
        && let [first, ..] = below[..]
    {
        let of = below.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        return format!(
            "This device lies on {of}, of which this trace tells when requests were issued and completed: problems are \
             found there (--dev {first})."
        );
    } else if told.requests || told.completions {
        "This trace does not tell of this device when requests were issued and completed; problems are found where it does."
    } else {
        "This trace only tells what was asked for; problems are found where it tells when requests were issued and completed, too."
    };
    text.to_owned()
}

/// Writes bios and requests by group.
pub(super) fn io(out: &mut String, found: &Inspection) {
    let mut table = plain_table();
    table.set_header([
        "I/O", "bios", "bytes", "mean", "requests", "mean", "max", "IOPS", "rate", "sync", "meta",
        "ahead", "FUA", "flush",
    ]);
    let told = Told::by(found);
    let seconds = found.observed as f64 / 1e9;
    let sum = |of: &dyn Fn(&Slot) -> u64| {
        found.timeline.slots.iter().map(of).fold(0, u64::saturating_add)
    };
    let rate = |value: u64, unit: fn(f64) -> String| {
        if seconds > 0.0 { unit(value as f64 / seconds) } else { "-".to_owned() }
    };
    for group in groups(found) {
        let at = group as usize;
        let counts = &found.counts;
        let (requests, bytes) = (counts.completed[at], counts.completed_bytes[at]);
        // What completed while events were lost is not counted over time.
        let (done, moved) = match told.completions {
            true => (sum(&|slot| slot.completed[at]), sum(&|slot| slot.bytes[at])),
            false => (counts.bios[at], counts.bio_bytes[at]),
        };
        let max = found.request_sizes.groups[at]
            .max
            .max(found.bio_sizes.groups[at].max * u64::from(requests == 0));
        table.add_row([
            group.name().to_owned(),
            count(counts.bios[at]),
            if counts.bios[at] > 0 {
                bytes_binary(counts.bio_bytes[at] as f64)
            } else {
                "-".to_owned()
            },
            mean(counts.bio_bytes[at], counts.bios[at]),
            count(requests),
            mean(bytes, requests),
            if max > 0 { bytes_binary(max as f64) } else { "-".to_owned() },
            rate(done, |value| format!("{value:.1}")),
            rate(moved, |value| bytes_binary(value) + "/s"),
            count(found.mix.sync[at]),
            count(found.mix.meta[at]),
            count(found.mix.readahead[at]),
            count(found.mix.fua[at]),
            count(found.mix.preflush[at]),
        ]);
    }
    put(out, "", table);
}

/// Formats a percentile, in millionths.
fn percentile(stat: &LatencyStat, millionths: u64) -> String {
    stat.percentile(millionths).map_or_else(|| "-".to_owned(), |ns| span(ns as f64))
}

fn latency_row(name: &str, stat: &LatencyStat) -> Vec<String> {
    let mut row = vec![name.to_owned(), grouped(stat.count), span(stat.min as f64)];
    row.push(span(latency_mean(stat)));
    row.extend(PERCENTILES.map(|(millionths, _)| percentile(stat, millionths)));
    row.push(span(stat.max as f64));
    row
}

/// Writes latency by stage.
pub(super) fn stages(out: &mut String, found: &Inspection) {
    let mut table = plain_table();
    let mut header = vec!["Latency", "count", "min", "mean"];
    header.extend(PERCENTILES.map(|(_, name)| name));
    header.push("max");
    table.set_header(header);
    let mut rows = 0;
    for group in groups(found) {
        let Stages {
            queue_to_allocated,
            allocated_to_inserted,
            inserted_to_issued,
            allocated_to_issued,
            issued_to_completed,
            first_issued_to_completed,
            request_total,
            bio_total,
        } = &found.stages[group as usize];
        for (name, stat) in [
            ("Q2G queued to allocated", queue_to_allocated),
            ("G2I allocated to inserted", allocated_to_inserted),
            ("I2D inserted to issued", inserted_to_issued),
            ("G2D allocated to issued", allocated_to_issued),
            ("D2C issued to completed", issued_to_completed),
            ("D2C from the first issue", first_issued_to_completed),
            ("Q2C of requests", request_total),
            ("Q2C of bios", bio_total),
        ] {
            if stat.count > 0 {
                table.add_row(latency_row(&format!("{} {name}", group.name()), stat));
                rows += 1;
            }
        }
    }
    if rows > 0 {
        put(out, "", table);
    }
}

/// Writes the table of processes.
pub(super) fn processes(out: &mut String, found: &Inspection) {
    let mut table = plain_table();
    table.set_header([
        "Process", "reads", "bytes", "p50", "p99", "writes", "bytes", "p50", "p99", "flushes",
        "requests", "splits", "merges", "seq", "device",
    ]);
    let device = found.device_time;
    for row in found.processes.iter().take(MAX_PROCESSES) {
        let (read, write) = (Group::Read as usize, Group::Write as usize);
        let mut cells = vec![row.label()];
        for at in [read, write] {
            cells.push(count(row.bios[at]));
            cells.push(if row.bytes[at] > 0 {
                bytes_binary(row.bytes[at] as f64)
            } else {
                "-".to_owned()
            });
            cells.push(percentile(&row.latency[at], 500_000));
            cells.push(percentile(&row.latency[at], 990_000));
        }
        cells.push(count(row.bios[Group::Flush as usize]));
        cells.push(count(row.all_requests()));
        cells.push(count(row.splits));
        cells.push(count(row.merges));
        cells.push(percent_or_none(row.sequential, row.all_bios()));
        cells.push(percent_or_none(row.device_time, device));
        table.add_row(cells);
    }
    put(out, "", table);
    if let Some(more) = found.processes.len().checked_sub(MAX_PROCESSES + 1) {
        out.push_str(&format!("and {} more processes (all are in the JSON)\n", more + 1));
    }
}

/// Writes the sizes of requests, or of bios if the trace has no requests.
pub(super) fn sizes(out: &mut String, found: &Inspection) {
    let mut table = plain_table();
    let groups = [Group::Read, Group::Write, Group::Discard];
    let of = |bios: bool, group: Group| {
        let sizes = if bios { &found.bio_sizes } else { &found.request_sizes };
        sizes.groups[group as usize]
    };
    table.set_header([
        "Size up to",
        "read bios",
        "requests",
        "write bios",
        "requests",
        "discard bios",
        "requests",
    ]);
    let mut rows = 0;
    for row in 0..SIZE_ROWS {
        let cells = groups.map(|group| [of(true, group).rows[row], of(false, group).rows[row]]);
        if cells.iter().flatten().all(|&count| count == 0) {
            continue;
        }
        let name = if row + 1 == SIZE_ROWS {
            "more".to_owned()
        } else {
            bytes_binary((512u64 << row) as f64)
        };
        let mut line = vec![name];
        line.extend(cells.iter().flatten().map(|&value| count(value)));
        table.add_row(line);
        rows += 1;
    }
    if rows > 0 {
        put(out, "", table);
    }
}

/// Writes the depth of the device queue.
pub(super) fn depth(out: &mut String, found: &Inspection) {
    let time = found.depths.time();
    if time == 0 || !Told::by(found).depth {
        return;
    }
    let mut table = plain_table();
    let of_disk = found.disk.map_or_else(String::new, |disk| format!(", of {disk}"));
    let name = format!("Depth in device{}{of_disk}", super::of_all(found));
    table.set_header([&name, "time", "issued", "D2C mean", "D2C p99", "completed/s", "rate"]);
    for at in 0..DEPTH_ROWS {
        let row = &found.depths.rows[at];
        if row.time + row.latency.count == 0 {
            continue;
        }
        let has = row.completed > 0.0 && row.time > 0;
        table.add_row([
            depth_row_name(at),
            percent_or_none(row.time, time),
            count(row.latency.count),
            row.mean_latency().map_or_else(|| "-".to_owned(), |ns| span(ns as f64)),
            percentile(&row.latency, 990_000),
            if has { format!("{:.0}", row.requests_per_second()) } else { "-".to_owned() },
            if has { bytes_binary(row.bytes_per_second()) + "/s" } else { "-".to_owned() },
        ]);
    }
    put(out, "", table);
}

/// Writes requests by priority, if the trace has priorities.
pub(super) fn priorities(out: &mut String, found: &Inspection) {
    if found.mix.priorities.is_empty() {
        return;
    }
    let mut table = plain_table();
    table.set_header(["Priority", "reads", "writes", "others", "mean", "p50", "p99"]);
    for row in &found.mix.priorities {
        let [read, write, others @ ..] = row.requests;
        table.add_row([
            format!("{},{}", row.prio.class().name(), row.prio.level()),
            count(read),
            count(write),
            count(others.iter().sum()),
            if row.latency.count > 0 { span(latency_mean(&row.latency)) } else { "-".to_owned() },
            percentile(&row.latency, 500_000),
            percentile(&row.latency, 990_000),
        ]);
    }
    put(out, "", table);
}

/// Writes the trace over time in a few lines.
pub(super) fn over_time(out: &mut String, found: &Inspection) {
    let line = &found.timeline;
    let Some(_) = line.start.filter(|_| !line.slots.is_empty()) else { return };
    let per_line = line.slots.len().div_ceil(TIME_LINES);
    let told = Told::by(found);
    // A window is counted from the start of the trace, too.
    let before = found.start.zip(found.span).map_or(0, |(start, (first, _))| first - start);
    let mut table = plain_table();
    // Without requests it is the latency of bios.
    let mean = if told.depth { "D2C mean" } else { "mean" };
    table.set_header([
        "Time", "queued", "r/s", "rate", "w/s", "rate", "flush/s", "depth", "waiting", "busy",
        mean, "max",
    ]);
    for (at, slots) in line.slots.chunks(per_line).enumerate() {
        let sum = |of: &dyn Fn(&Slot) -> u64| slots.iter().map(of).fold(0, u64::saturating_add);
        let width = (line.width * slots.len() as u64).saturating_sub(sum(&|slot| slot.lost));
        let known =
            |is_told: bool, cell: String| if is_told && width > 0 { cell } else { "-".to_owned() };
        let moved = |cell: String| known(told.completions, cell);
        let in_device = |cell: String| known(told.depth, cell);
        let rate = |value: u64| value as f64 * 1e9 / width.max(1) as f64;
        let completed =
            |group: Group| format!("{:.0}", rate(sum(&|slot| slot.completed[group as usize])));
        let bytes =
            |group: Group| bytes_binary(rate(sum(&|slot| slot.bytes[group as usize]))) + "/s";
        let latency = sum(&|slot| slot.latency_sum).checked_div(sum(&|slot| slot.timed));
        table.add_row([
            span((before + at as u64 * per_line as u64 * line.width) as f64),
            count(sum(&|slot| slot.queued)),
            moved(completed(Group::Read)),
            moved(bytes(Group::Read)),
            moved(completed(Group::Write)),
            moved(bytes(Group::Write)),
            moved(completed(Group::Flush)),
            in_device(format!("{:.1}", sum(&|slot| slot.in_device) as f64 / width as f64)),
            in_device(format!("{:.1}", sum(&|slot| slot.waiting) as f64 / width as f64)),
            in_device(percent_or_none(sum(&|slot| slot.busy), width)),
            latency.map_or_else(|| "-".to_owned(), |ns| span(ns as f64)),
            slots
                .iter()
                .map(|slot| slot.latency_max)
                .max()
                .filter(|&ns| ns > 0)
                .map_or("-".to_owned(), |ns| span(ns as f64)),
        ]);
    }
    put(out, "", table);
}
