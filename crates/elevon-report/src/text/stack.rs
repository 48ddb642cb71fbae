//! Figures that only Elevon has: the stack of the run, true utilisation, latency by stage; also
//! tables of figures.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use elevon_core::kernel::IoTicksForm;
use elevon_core::op::StatGroup;
use elevon_core::stats::LatencyStat;
use elevon_result::number::{bytes_binary, bytes_decimal, counted, grouped, significant, span};
use elevon_result::result::RunResult;
use elevon_result::summary::{DiskDelta, latency_mean, percentile, ratio};

use crate::cpu;
use crate::settings;

/// Returns the first line: whether the device is real, and which stack the run used.
pub(super) fn headline(run: &RunResult) -> String {
    let device = &run.device;
    format!(
        "elevon {}: {} {} ({}, {}), scheduler {}, kernel {} rules, seed {}",
        env!("CARGO_PKG_VERSION"),
        if device.simulated { "SIMULATED device" } else { "real device" },
        device.name,
        bytes_decimal(device.size.get() as f64),
        if device.limits.rotational { "rotational" } else { "non-rotational" },
        run.scheduler.name,
        run.kernel.name(),
        run.seed
    )
}

/// Writes the line of what the stack did with bios and requests.
fn counters(out: &mut String, run: &RunResult) {
    let c = &run.disk.counters;
    let _ = write!(
        out,
        "Stack: splits={}, tails={}, merges={}, requeues={}, retries={}, timeouts={}",
        c.splits, c.tails, c.merges, c.requeues, c.retries, c.timeouts
    );
    if c.wbt_waits > 0 {
        let _ = write!(out, ", waits for writeback throttling={}", c.wbt_waits);
    }
    if c.late_answers > 0 {
        let _ = write!(out, ", late answers={}", c.late_answers);
    }
    out.push('\n');
}

/// Writes everything after the iostat line.
pub(super) fn details(out: &mut String, run: &RunResult, delta: &DiskDelta) {
    let busy = delta.utilisation();
    let _ = write!(out, "\nUtilisation: exact={:.3}%", busy[3]);
    for (form, percent) in IoTicksForm::ALL.iter().zip(busy).take(3) {
        let _ = write!(out, ", {}={percent:.2}%", form.name());
    }
    let _ = writeln!(out, " (%util above is {})", run.disk.io_ticks.name());
    let _ = writeln!(
        out,
        "Queue depth: exact mean={} requests in flight",
        significant(delta.mean_in_flight, 4)
    );
    if let Some(share) = cpu::lock_utilisation(run) {
        let _ = writeln!(out, "Scheduler lock: held {:.2}% of the run", 100.0 * share);
    }
    for line in cpu::limits(run).iter().chain(&run.scheduler.note) {
        let _ = writeln!(out, "Note: {line}");
    }
    stages(out, run);
    sizes(out, run);
    counters(out, run);
    let limits = settings::limits_in_text(run);
    for (title, rows) in
        [("Scheduler", &run.scheduler.tunables), ("Config", &run.config), ("Limits", &limits)]
    {
        if !rows.is_empty() {
            let _ = writeln!(out, "{title}: {}", join(rows));
        }
    }
    if !run.device.lacks.is_empty() {
        let _ = writeln!(out, "Model: it lacks {}", run.device.lacks);
    }
    if !run.scheduler.counters.is_empty() {
        let rows: Vec<_> =
            run.scheduler.counters.iter().map(|(k, v)| (k.clone(), v.to_string())).collect();
        let _ = writeln!(out, "Scheduler counters: {}", join(&rows));
    }
    if !run.faults.is_empty() {
        let counts: Vec<_> = run
            .faults
            .iter()
            .map(|f| format!("{} fired {}", f.rule, counted(f.fired, "time")))
            .collect();
        let _ = writeln!(out, "Faults: {}", counts.join("; "));
    }
    if run.events_lost > 0 {
        let _ = writeln!(
            out,
            "Trace: {} lost; the trace is not whole",
            counted(run.events_lost, "event")
        );
    }
    for line in &run.not_kept {
        let _ = writeln!(out, "Not kept of the trace: {line}");
    }
    for warning in &run.warnings {
        let _ = writeln!(out, "Warning: {warning}");
    }
    let _ = writeln!(out, "Again: {}", run.command);
}

fn join(rows: &[(String, String)]) -> String {
    rows.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

fn stages(out: &mut String, run: &RunResult) {
    let mut table = plain_table();
    let estimates = &run.device.estimates;
    let by_group = |at: usize| {
        estimates.iter().find(|estimate| estimate.group.is_some_and(|group| group as usize == at))
    };
    let mut header = vec!["Stage latency", "requests", "mean", "50%", "99%", "99.9%", "max"];
    if (0..StatGroup::NAMES.len()).any(|group| by_group(group).is_some()) {
        header.push("follows estimates");
    }
    let columns = header.len();
    table.set_header(header);
    let mut any = false;
    for (at, (group, stage)) in StatGroup::NAMES.iter().zip(&run.disk.stages).enumerate() {
        for (what, stat, estimate) in [
            ("queued to dispatched", &stage.queued_to_dispatched, None),
            ("dispatched to completed", &stage.dispatched_to_completed, by_group(at)),
        ] {
            if stat.count > 0 {
                any = true;
                let mut row = stage_row(&format!("{group}, {what}"), stat);
                row.extend(
                    estimate.map(|of| format!("{}: {}", of.figures, of.parameters.join(", "))),
                );
                table.add_row(row);
            }
        }
    }
    if any {
        align_right(&mut table);
        if let Some(last) = table.column_mut(columns - 1).filter(|_| columns > 7) {
            last.set_cell_alignment(CellAlignment::Left);
        }
        push_table(out, &table);
    }
    for estimate in estimates.iter().filter(|estimate| estimate.group.is_none()) {
        let _ = writeln!(
            out,
            "Follows estimates: {}: {}",
            estimate.named(),
            estimate.parameters.join(", ")
        );
    }
}

fn stage_row(name: &str, stat: &LatencyStat) -> Vec<String> {
    let at = |millionths| span(percentile(stat, millionths) as f64);
    vec![
        name.into(),
        grouped(stat.count),
        span(latency_mean(stat)),
        at(500_000),
        at(990_000),
        at(999_000),
        span(stat.max as f64),
    ]
}

/// Writes the most frequent request sizes, largest share first.
fn sizes(out: &mut String, run: &RunResult) {
    for (group, sizes) in StatGroup::NAMES.iter().zip(&run.disk.request_sizes) {
        let total = sizes.total();
        if total == 0 {
            continue;
        }
        let mut by_count = sizes.0.clone();
        by_count.sort_by_key(|&(bytes, count)| (std::cmp::Reverse(count), bytes));
        let shown: Vec<String> = by_count
            .iter()
            .take(5)
            .map(|&(bytes, count)| {
                format!(
                    "{} {:.1}%",
                    bytes_binary(bytes as f64),
                    100.0 * ratio(count as f64, total as f64)
                )
            })
            .collect();
        let _ = writeln!(
            out,
            "Request sizes, {group}: mean {}, {}{}",
            bytes_binary(sizes.bytes() as f64 / total as f64),
            shown.join(", "),
            if by_count.len() > 5 {
                format!(", {} more", by_count.len() - 5)
            } else {
                String::new()
            }
        );
    }
}

/// Returns an empty table without lines, with one space between columns.
pub(crate) fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table
}

/// Aligns names left and numbers right.
pub(crate) fn align_right(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
}

/// Appends a table without trailing spaces.
pub(crate) fn push_table(out: &mut String, table: &Table) {
    for line in table.lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// A published or predicted number beside Elevon's.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of the figure.
    pub name: String,
    /// Unit of both numbers, such as `MB/s`.
    pub unit: String,
    /// The number to compare with: published, measured elsewhere, or computed; `None` if there is
    /// none.
    pub expected: Option<f64>,
    /// Elevon's number.
    pub ours: f64,
    /// Why the numbers differ, or the kind of the row (calibrated, predicted); may be empty.
    pub note: String,
}

/// Formats a figure for a table.
pub(crate) fn shown(value: f64) -> String {
    significant(value, 5)
}

/// Formats the difference of Elevon's number in percent; `-` if there is nothing to compare with.
pub(crate) fn difference(row: &Figure) -> String {
    match row.expected {
        Some(expected) if expected != 0.0 => {
            format!("{:+.1} %", 100.0 * (row.ours - expected) / expected)
        }
        _ => "-".into(),
    }
}

/// Returns a table of figures with the difference of Elevon's number in percent. `expected` is the
/// head of the column of the other numbers (`published`, `predicted`).
pub fn figures(title: &str, expected: &str, rows: &[Figure]) -> String {
    let mut table = plain_table();
    table.set_header([title, "unit", expected, "ours", "difference", ""]);
    for row in rows {
        table.add_row([
            row.name.clone(),
            row.unit.clone(),
            row.expected.map_or_else(|| "-".into(), shown),
            shown(row.ours),
            difference(row),
            row.note.clone(),
        ]);
    }
    align_right(&mut table);
    for left in [1, 5] {
        if let Some(column) = table.column_mut(left) {
            column.set_cell_alignment(CellAlignment::Left);
        }
    }
    let mut out = String::new();
    push_table(&mut out, &table);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_beside_the_published_ones() {
        let row = |name: &str, expected, ours, note: &str| Figure {
            name: name.into(),
            unit: "MB/s".into(),
            expected,
            ours,
            note: note.into(),
        };
        insta::assert_snapshot!(figures(
            "aligned-bio",
            "published",
            &[
                row("sequential read, fill=full", Some(3033.7), 3033.7, "calibrated"),
                row("sequential read, fill=max-sectors", Some(3520.9), 3471.25, "predicted"),
                row("sequential read, fill=trim", None, 3500.0, ""),
            ]
        ));
    }
}
