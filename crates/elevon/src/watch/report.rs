//! `--once --html`: the report of an interval as a page, for a ticket.

use elevon_report::document::{Document, Table};
use elevon_report::plot::{Axis, HeatMap, Scale, Unit};
use elevon_result::number;
use elevon_watch::text::{finding_lines, flow_line, headline, latency_line, rate, span};
use elevon_watch::{DiskKind, DiskNow, HEAT_ROWS, Now, Watch, heat_floor, settings_against_kind};

/// Returns the page: each disk with its figures, problems, rows, latency over time and settings.
pub(super) fn page(now: &Now, watch: &Watch, host: &str) -> String {
    let mut document = Document::new(&format!("Disks of {host}"));
    for text in elevon_watch::text::caveats(now) {
        document.paragraph(text);
    }
    for disk in &now.disks {
        document.heading(disk.name.as_str());
        for line in [headline(disk), flow_line(disk), latency_line(disk)] {
            document.paragraph(line);
        }
        problems(&mut document, disk, now.at);
        if !disk.rows.is_empty() {
            document.table(rows(disk));
        }
        if let Some(map) = heat_map(disk) {
            document.heat_map(map);
        }
        let recorded = watch.disks().find(|(_, device, _)| *device == disk.device);
        if let Some((name, _, recorded)) = recorded {
            let kind = DiskKind::of_settings(recorded).name();
            document.paragraph(format!("Settings, against what a {kind} wants:"));
            document.table(settings(name, recorded));
        }
    }
    document.html("by elevon watch --once --html")
}

fn problems(document: &mut Document, disk: &DiskNow, at: u64) {
    if disk.findings.is_empty() {
        return document.paragraph("No problem found.");
    }
    for standing in &disk.findings {
        let title = finding_lines(standing, at).swap_remove(0);
        document.paragraph(title);
        for text in &standing.finding.evidence {
            document.paragraph(text.as_str());
        }
        for advice in &standing.finding.advice {
            document.paragraph(format!("Try: {advice}"));
        }
    }
}

fn rows(disk: &DiskNow) -> Table {
    let mut table = Table::new([
        "process",
        "reads/s",
        "writes/s",
        "read/s",
        "write/s",
        "waits p50",
        "waits p99",
        "device p50",
        "device p99",
        "depth",
        "prio",
        "in",
    ]);
    table.words = vec![10, 11];
    for row in &disk.rows {
        let unit = row.unit.as_ref().map_or("", |(_, name)| name.as_str());
        table.row([
            &row.name,
            &rate(row.read.requests),
            &rate(row.write.requests),
            &number::bytes_decimal(row.read.bytes),
            &number::bytes_decimal(row.write.bytes),
            &span(row.waiting[0]),
            &span(row.waiting[1]),
            &span(row.in_device[0]),
            &span(row.in_device[1]),
            &format!("{:.1}", row.depth),
            &row.prio,
            unit,
        ]);
    }
    table
}

/// Returns requests by second and latency; `None` without a request.
fn heat_map(disk: &DiskNow) -> Option<HeatMap> {
    let used = |row: &usize| disk.heat.iter().any(|counts| counts[*row] > 0);
    let first = (0..HEAT_ROWS).find(used)?;
    let last = (0..HEAT_ROWS).rev().find(used)?;
    let seconds = disk.heat.len();
    let cell = |count: u64| (count > 0).then_some(count as f64);
    Some(HeatMap {
        title: "Latency".to_owned(),
        description: "Requests of each second by the time from queue to completion.".to_owned(),
        x: (
            "seconds before the end".to_owned(),
            (1..=seconds).rev().map(|second| second.to_string()).collect(),
        ),
        y: (
            "latency from".to_owned(),
            (first..=last).map(|row| number::span(heat_floor(row) as f64)).collect(),
        ),
        cells: (first..=last)
            .map(|row| disk.heat.iter().map(|counts| cell(counts[row])).collect())
            .collect(),
        value: Axis { title: "requests".to_owned(), scale: Scale::Log, unit: Unit::Count },
    })
}

fn settings(name: &str, recorded: &elevon_trace::Recorded) -> Table {
    let mut table = Table::new(["setting", "value", "wanted", "because", "line"]);
    table.words = vec![1, 2, 3, 4];
    for setting in settings_against_kind(recorded) {
        let line = setting.line(name).unwrap_or_default();
        let (wanted, reason) = setting.wish.map_or_else(
            || ("as it is".to_owned(), String::new()),
            |wish| (wish.value, wish.reason),
        );
        table.row([setting.file, &setting.value, &wanted, &reason, &line]);
    }
    table
}
