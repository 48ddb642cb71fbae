//! What disks did, as text for a terminal or a ticket.

use std::fmt::Write as _;

use elevon_result::number;

use crate::finding::Standing;
use crate::now::{DiskNow, Now, RowNow};
use crate::settings::{DiskKind, settings_against_kind};
use crate::watch::Watch;

/// Rows of a disk that are printed; the rest is one line.
const MAX_ROWS: usize = 20;

/// The share of the time from which on all is followed: what is lost at its edges is no sample.
const ALL_FOLLOWED: f64 = 0.995;

/// Returns all disks as text: figures, rows and findings. Disks without I/O are one line.
pub fn now(now: &Now) -> String {
    let mut text = String::new();
    let is_idle = |disk: &&DiskNow| disk.rows.is_empty() && disk.findings.is_empty();
    for disk in now.disks.iter().filter(|disk| !is_idle(disk)) {
        text.push_str(&disk_text(disk, now.at));
        text.push('\n');
    }
    let idle: Vec<&str> = now.disks.iter().filter(is_idle).map(|disk| disk.name.as_str()).collect();
    if !idle.is_empty() {
        let _ = writeln!(text, "no I/O on {}", idle.join(", "));
    }
    for line in caveats(now) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns what limits the figures, in sentences.
pub fn caveats(now: &Now) -> Vec<String> {
    let lost = (now.lost > 0).then(|| {
        format!(
            "{} were lost, so these figures are too small; a larger --buffer loses fewer",
            number::counted(now.lost, "event")
        )
    });
    sampled(now).into_iter().chain(lost).collect()
}

/// Returns how much was followed, if that was not all.
pub fn sampled(now: &Now) -> Option<String> {
    (now.followed < ALL_FOLLOWED).then(|| {
        format!(
            "followed {} % of the time, since events are many: rates are those of this part",
            number::percent(now.followed, 1)
        )
    })
}

/// Returns a disk as text.
fn disk_text(disk: &DiskNow, at: u64) -> String {
    let mut text = format!("{}\n", headline(disk));
    let _ = writeln!(text, "  {}", flow_line(disk));
    let _ = writeln!(text, "  {}", latency_line(disk));
    let _ = writeln!(
        text,
        "  {:<28} {:>8} {:>8} {:>9} {:>9} {:>17} {:>17} {:>6} {:<5} in",
        "process",
        "reads/s",
        "writes/s",
        "read/s",
        "write/s",
        "waits p50 p99",
        "device p50 p99",
        "depth",
        "prio"
    );
    for row in disk.rows.iter().take(MAX_ROWS) {
        let _ = writeln!(text, "  {}", row_line(row));
    }
    if disk.rows.len() > MAX_ROWS {
        let _ = writeln!(text, "  and {} more", disk.rows.len() - MAX_ROWS);
    }
    for standing in &disk.findings {
        for line in finding_lines(standing, at) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// Returns name, scheduler and utilisation of a disk.
pub fn headline(disk: &DiskNow) -> String {
    let kernel = disk
        .kernel_util
        .map_or_else(String::new, |util| format!(" (%util {})", number::percent(util, 1)));
    format!(
        "{} {} {}: busy {} %{kernel}, depth {:.1}, over {} s",
        disk.name,
        disk.device,
        disk.scheduler.as_deref().unwrap_or("-"),
        number::percent(disk.busy, 1),
        disk.depth,
        number::significant(disk.seconds, 3)
    )
}

/// Returns the rates of a disk.
pub fn flow_line(disk: &DiskNow) -> String {
    let mut parts = vec![
        format!(
            "reads {}/s {}/s",
            rate(disk.read.requests),
            number::bytes_decimal(disk.read.bytes)
        ),
        format!(
            "writes {}/s {}/s",
            rate(disk.write.requests),
            number::bytes_decimal(disk.write.bytes)
        ),
    ];
    for (value, name) in [
        (disk.flushes, "flushes"),
        (disk.discards, "discards"),
        (disk.merges, "merges"),
        (disk.splits, "splits"),
        (disk.requeues, "requeues"),
    ] {
        if value > 0.0 {
            parts.push(format!("{name} {}/s", rate(value)));
        }
    }
    if disk.errors > 0 {
        parts.push(number::counted(disk.errors, "error"));
    }
    parts.join(", ")
}

/// Returns the latency of a disk's requests by stage.
pub fn latency_line(disk: &DiskNow) -> String {
    format!(
        "waiting p50 {} p99 {}, in the device p50 {} p99 {}",
        span(disk.waiting[0]),
        span(disk.waiting[1]),
        span(disk.in_device[0]),
        span(disk.in_device[1])
    )
}

/// Returns a number of things a second: whole, or with two digits if there are few.
pub fn rate(value: f64) -> String {
    if value > 0.0 && value < 10.0 { number::significant(value, 2) } else { number::count(value) }
}

/// Returns a time span, or a dash.
pub fn span(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| number::span(ns as f64))
}

fn row_line(row: &RowNow) -> String {
    let pair = |of: [Option<u64>; 2]| format!("{:>8} {:>8}", span(of[0]), span(of[1]));
    let unit = row.unit.as_ref().map_or_else(String::new, |(kind, name)| {
        if *name == row.name { kind.name().to_owned() } else { name.clone() }
    });
    let name: String = row.name.chars().take(28).collect();
    format!(
        "{name:<28} {:>8} {:>8} {:>9} {:>9} {} {} {:>6.1} {:<5} {unit}",
        rate(row.read.requests),
        rate(row.write.requests),
        number::bytes_decimal(row.read.bytes),
        number::bytes_decimal(row.write.bytes),
        pair(row.waiting),
        pair(row.in_device),
        row.depth,
        row.prio,
    )
    .trim_end()
    .to_owned()
}

/// Returns a finding as lines: the problem with its time, and what to try.
pub fn finding_lines(standing: &Standing, at: u64) -> Vec<String> {
    let since = at.saturating_sub(standing.since) as f64 / 1e9;
    let mut lines = vec![format!("! {} (for {since:.0} s)", standing.finding.title)];
    let advice = standing.finding.advice.first();
    lines.extend(advice.map(|advice| format!("  try: {advice}")));
    lines
}

/// Returns the settings of all disks: in a line for each disk, and those that its kind wants
/// otherwise with the reason and the line that sets them.
pub fn settings(watch: &Watch) -> String {
    let mut text = String::new();
    for (name, _, settings) in watch.disks() {
        let kind = DiskKind::of_settings(settings).name();
        let all = settings_against_kind(settings);
        let words: Vec<String> =
            all.iter().map(|setting| format!("{} {}", setting.file, setting.value)).collect();
        let _ = writeln!(text, "{name}, {kind}:\n  {}", words.join(", "));
        for setting in all {
            if let (Some(wish), Some(line)) = (&setting.wish, setting.line(name)) {
                let (file, value) = (setting.file, &setting.value);
                let _ = writeln!(text, "  {file} is {value}: {}; try {line}", wish.reason);
            }
        }
    }
    text
}
