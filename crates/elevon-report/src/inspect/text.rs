//! The inspection as text for a terminal: findings first, then tables.

use std::fmt::Write as _;

use elevon_result::number::{bytes_binary, counted, grouped, span};
use elevon_trace::analysis::{Counts, Finding, HZ, Inspection, percent};
use elevon_trace::{Recorded, TraceKind};

use super::tables::{self, Told};

/// Columns at which sentences are wrapped.
const WIDTH: usize = 100;

/// Returns the whole inspection.
pub fn text(found: &Inspection) -> String {
    let mut out = head(found);
    findings(&mut out, found);
    tables::io(&mut out, found);
    shape(&mut out, found);
    tables::stages(&mut out, found);
    if let Some(line) = super::not_shown(found) {
        wrap(&mut out, &line, "");
    }
    tables::processes(&mut out, found);
    tables::priorities(&mut out, found);
    tables::sizes(&mut out, found);
    tables::depth(&mut out, found);
    tables::over_time(&mut out, found);
    utilisation(&mut out, found);
    not_followed(&mut out, found);
    out
}

fn head(found: &Inspection) -> String {
    let report = &found.report;
    let files = match &report.files[..] {
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        [] => "trace".to_owned(),
    };
    let name = found.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
    let disk = found.disk.map_or_else(String::new, |disk| format!(" (a partition of {disk})"));
    let mut out = format!(
        "{files}: {}, device {}{name}{disk}, {} in {}\n",
        report.format.name(),
        found.device,
        counted(found.events.iter().sum(), "event"),
        span(found.duration() as f64)
    );
    let kinds = TraceKind::NAMES.iter().zip(found.events).filter(|&(_, count)| count > 0);
    let kinds: Vec<String> =
        kinds.map(|(name, count)| format!("{name} {}", grouped(count))).collect();
    wrap(&mut out, &format!("events: {}", kinds.join(", ")), "  ");
    if !found.selection.is_all() {
        wrap(&mut out, &format!("selected: {}", super::selected(found)), "  ");
    }
    if let Some(recorded) = &found.recorded {
        wrap(&mut out, &format!("recorded: {}", conditions(recorded)), "  ");
    }
    if report.gap_count > 0 {
        let lost = match (report.uncounted_gaps, report.lost) {
            (0, lost) => counted(lost, "event"),
            (_, 0) => "an unknown number of events".to_owned(),
            (_, lost) => format!("at least {}", counted(lost, "event")),
        };
        let line =
            format!("gaps: {} with {lost} lost; nothing is computed across them", report.gap_count);
        wrap(&mut out, &line, "  ");
    }
    if let Some(overwritten) = report.overwritten {
        wrap(
            &mut out,
            &format!(
                "the ring buffer overwrote {} before the first",
                counted(overwritten, "event")
            ),
            "  ",
        );
    }
    out
}

/// Under what conditions the trace was recorded: the settings that matter most.
fn conditions(recorded: &Recorded) -> String {
    let setting =
        |name: &str| recorded.get(&format!("queue/{name}")).map(|value| format!("{name}={value}"));
    let mut parts: Vec<String> = Vec::new();
    parts.extend(recorded.get("kernel").map(|kernel| format!("Linux {kernel}")));
    parts.extend(
        recorded
            .get("name")
            .zip(recorded.device())
            .map(|(name, device)| format!("{name} ({device})")),
    );
    parts.extend(recorded.get("model").map(str::to_owned));
    parts.extend(recorded.scheduler().map(|name| format!("scheduler {name}")));
    parts.extend(
        ["nr_requests", "max_sectors_kb", "max_hw_sectors_kb"].into_iter().filter_map(setting),
    );
    parts.extend(recorded.driver_tags().map(|tags| format!("{tags} driver tags")));
    parts.extend(recorded.get("queue/write_cache").map(|mode| format!("{mode} cache")));
    parts.extend(
        recorded
            .number("lost")
            .filter(|&lost| lost > 0)
            .map(|lost| format!("{} lost", counted(lost, "event"))),
    );
    parts.join(", ")
}

fn findings(out: &mut String, found: &Inspection) {
    out.push('\n');
    if found.findings.is_empty() {
        wrap(
            out,
            &format!("Findings{}: none. {}", super::of_all(found), tables::why_no_findings(found)),
            "",
        );
        return;
    }
    let _ = writeln!(out, "Findings{}:", super::of_all(found));
    for (at, finding) in found.findings.iter().enumerate() {
        one_finding(out, at + 1, finding, found);
    }
}

fn one_finding(out: &mut String, number: usize, finding: &Finding, found: &Inspection) {
    wrap_after(out, &finding.title, &format!("{number:2}. "), "    ");
    if let (Some((first, last)), Some(start)) = (finding.when, found.start) {
        let since = |time: u64| span(time.saturating_sub(start) as f64);
        wrap_after(
            out,
            &format!("from {} to {} into the trace", since(first), since(last)),
            "    when: ",
            "          ",
        );
    }
    if !finding.who.is_empty() {
        wrap_after(out, &finding.who.join(", "), "    who:  ", "          ");
    }
    for line in &finding.evidence {
        wrap_after(out, line, "    - ", "      ");
    }
    for line in &finding.advice {
        wrap_after(out, line, "    try: ", "         ");
    }
}

/// Writes sentences about splits, merges and sequential access.
fn shape(out: &mut String, found: &Inspection) {
    out.push('\n');
    changes(out, &found.counts, Told::by(found));
    for (name, seeks) in [("queued", &found.queue_seeks), ("issued", &found.issue_seeks)] {
        if let Some(mean) = seeks.mean() {
            let _ = writeln!(
                out,
                "sequential as {name}: {} of {}; distance between two: mean {}, median {}",
                percent(seeks.sequential, seeks.distances.count),
                grouped(seeks.distances.count),
                bytes_binary(mean * 512.0),
                bytes_binary(seeks.distances.percentile(500_000).unwrap_or(0) as f64 * 512.0)
            );
        }
    }
}

/// Writes how often bios and requests were split, merged, requeued and the like.
fn changes(out: &mut String, counts: &Counts, told: Told) {
    let mut parts = Vec::new();
    if told.requests {
        let given_back = match counts.given_back {
            0 => String::new(),
            requests => format!(" (of {})", counted(requests, "request")),
        };
        parts.push(format!(
            "splits {}, merges {} (back {}, front {}, of requests {}), requeues {}{given_back}, partial completions {}",
            grouped(counts.splits),
            grouped(counts.back_merges + counts.front_merges + counts.request_merges),
            grouped(counts.back_merges),
            grouped(counts.front_merges),
            grouped(counts.request_merges),
            grouped(counts.requeues),
            grouped(counts.partial),
        ));
    } else if counts.splits > 0 {
        parts.push(format!("splits {}", grouped(counts.splits)));
    }
    if told.errors {
        parts.push(format!("errors {}", grouped(counts.errors)));
    }
    if !parts.is_empty() {
        let _ = writeln!(out, "{}", parts.join(", "));
    }
}

fn utilisation(out: &mut String, found: &Inspection) {
    let told = Told::by(found);
    if found.observed == 0 || !told.utilisation {
        return;
    }
    let busy = &found.utilisation;
    let share = |ns: u64| percent(ns.min(found.observed), found.observed);
    let of_all = super::of_all(found);
    let _ = writeln!(
        out,
        "\nUtilisation (%util){of_all}: exact {}; as kernels count it at HZ={HZ}: sampled (5.7 to 6.9) {}, inflight (proposal 003) {}, \
         precise (6.10 and later) {}",
        share(busy.exact.get()),
        share(busy.sampled_ms.saturating_mul(1_000_000)),
        share(busy.inflight_ms.saturating_mul(1_000_000)),
        share(busy.precise_ms.saturating_mul(1_000_000))
    );
    if !told.depth {
        return;
    }
    let depths = &found.depths;
    let of_disk = found.disk.map_or_else(String::new, |disk| format!(", of {disk}"));
    let _ = writeln!(
        out,
        "Requests in the device{of_all}{of_disk}: mean {:.2} while busy, at most {}; the device was busy {} of the time",
        depths.mean_busy_depth(),
        grouped(depths.max),
        tables::percent_or_none(depths.busy(), depths.time())
    );
}

/// Writes what could not be followed, if anything.
fn not_followed(out: &mut String, found: &Inspection) {
    let counts = &found.counts;
    let rows = [
        (counts.unmatched, "completions of requests that began before the trace"),
        (counts.overdue, "requests whose completion is missing in the trace"),
        (counts.across_gaps, "latencies left out because events were lost in between"),
        (counts.forgotten, "requests under way when events were lost"),
        (found.requests_under_way, "requests under way at the end"),
        (found.untimed, "events without a time"),
        (found.report.skipped_count(), "damaged lines or records"),
    ];
    let rows: Vec<String> = rows
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", grouped(*count)))
        .collect();
    if !rows.is_empty() {
        out.push('\n');
        wrap(out, &format!("Not in the figures: {}", rows.join("; ")), "");
    }
}

fn wrap(out: &mut String, text: &str, indent: &str) {
    wrap_after(out, text, indent, indent);
}

/// Wraps a sentence. `first` precedes its first line and `others` every other line.
fn wrap_after(out: &mut String, text: &str, first: &str, others: &str) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line = others.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}
