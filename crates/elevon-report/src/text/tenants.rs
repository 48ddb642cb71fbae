//! The tenants section: what each tenant got, and what limited it.

use std::fmt::Write as _;

use comfy_table::CellAlignment;
use elevon_core::control::Reason;
use elevon_core::units::Nanos;
use elevon_result::number::{bytes_binary, count, grouped, percent, span};
use elevon_result::result::{RunResult, TenantResult};
use elevon_result::summary::ratio;
use elevon_result::tenants::{
    device_share, device_time_of_all, explain, io_stat, parts, reserve_in_words, shown, throttled,
};

use super::{align_right, plain_table};
use crate::document::WIDTH;

/// Maximum number of tenants in the report; JSON has all.
const MAX_TENANTS: usize = 50;
/// Maximum number of causes in a line.
const MAX_CAUSES: usize = 8;

/// Writes a line per tenant, and under it where its I/O's time went, `io.stat` and `io.pressure`.
pub(super) fn section(out: &mut String, run: &RunResult) {
    let tenants = shown(run, MAX_TENANTS);
    if tenants.is_empty() {
        return;
    }
    let mut table = plain_table();
    table.set_header(["Tenant", "IOPS", "bandwidth", "50%", "99%", "device time", "settings"]);
    let device_time = device_time_of_all(run);
    for tenant in &tenants {
        table.add_row(row(tenant, device_time));
    }
    align_right(&mut table);
    if let Some(settings) = table.column_mut(6) {
        settings.set_cell_alignment(CellAlignment::Left);
    }
    out.push('\n');
    let mut lines = table.lines();
    let _ = writeln!(out, "{}", lines.next().unwrap_or_default().trim_end());
    for (line, tenant) in lines.zip(&tenants) {
        let _ = writeln!(out, "{}", line.trim_end());
        details(out, run, tenant);
    }
    let hidden = run.tenants.len() - tenants.len();
    if tenants.len() == MAX_TENANTS && hidden > 0 {
        let _ = writeln!(
            out,
            "{} more tenants, whose I/O took less time, are in the JSON report",
            grouped(hidden as u64)
        );
    }
}

fn row(tenant: &TenantResult, device_time: Nanos) -> [String; 7] {
    let seconds = tenant.time.get() as f64 / 1e9;
    let at = |millionths| match tenant.latency.total() {
        0 => "-".to_owned(),
        _ => span(tenant.latency.percentile(millionths) as f64),
    };
    let settings: Vec<String> =
        tenant.settings.iter().map(|(file, value)| format!("{file}: {value}")).collect();
    [
        if tenant.removed { format!("{} (removed)", tenant.path) } else { tenant.path.clone() },
        count(ratio(tenant.done.all_ios() as f64, seconds)),
        format!("{}/s", bytes_binary(ratio(tenant.done.all_bytes() as f64, seconds))),
        at(500_000),
        at(990_000),
        percent(device_share(tenant, device_time), 1) + " %",
        settings.join("; "),
    ]
}

fn details(out: &mut String, run: &RunResult, tenant: &TenantResult) {
    let causes = parts(&explain(&run.tenants, tenant), MAX_CAUSES);
    if !causes.is_empty() {
        list(out, "  explain:     ", &causes);
    }
    let held: Vec<String> = Reason::ALL
        .into_iter()
        .filter_map(|reason| {
            let wait = throttled(tenant, reason);
            (wait.count > 0).then(|| {
                format!(
                    "{} {} times, {} over all I/Os",
                    reason.name(),
                    grouped(wait.count),
                    span(wait.time.get() as f64)
                )
            })
        })
        .collect();
    if !held.is_empty() {
        list(out, "  throttled:   ", &held);
    }
    if let Some(missed) = tenant.reserve_missed {
        let _ = writeln!(out, "  reserve:     {}", reserve_in_words(missed));
    }
    let (major, minor) = run.disk.number;
    let _ = writeln!(out, "  io.stat:     {}", io_stat(run, tenant).line(major, minor));
    if let Some(pressure) = &tenant.pressure {
        let _ = writeln!(
            out,
            "  io.pressure: some {}\n               full {}",
            pressure.some, pressure.full
        );
    }
}

/// Writes parts separated by commas, on lines of [`WIDTH`] columns if they fit.
fn list(out: &mut String, head: &str, parts: &[String]) {
    let mut line = head.to_owned();
    for (at, part) in parts.iter().enumerate() {
        let end = if at + 1 < parts.len() { "," } else { "" };
        if line.len() > head.len() && line.chars().count() + part.chars().count() + 2 > WIDTH {
            let _ = writeln!(out, "{}", line.trim_end());
            line = " ".repeat(head.len());
        }
        let _ = write!(line, "{part}{end} ");
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use elevon_result::tenants::{CauseKind, WHOLE};

    use super::*;
    use crate::sample;

    #[test]
    fn every_tenant_is_explained_whole_and_in_words() {
        let run = sample::tenants_run();
        for tenant in &run.tenants {
            let explained = explain(&run.tenants, tenant);
            let share: u64 = explained.iter().map(|at| at.share).sum();
            assert_eq!(share, if tenant.explain.is_empty() { 0 } else { WHOLE }, "{}", tenant.path);
        }
        let of = |path: &str| run.tenants.iter().find(|tenant| tenant.path == path).unwrap();
        let nightly = explain(&run.tenants, of("batch/nightly"));
        let all = parts(&nightly, 3);
        assert_eq!(
            all,
            [
                "61.2 % limit rbps=1048576 of batch",
                "30.1 % device",
                "6.0 % scheduler serving web",
                "2.7 % 3 other causes"
            ]
        );
        assert_eq!(parts(&nightly, 5).len(), 6, "a single cause is not lumped");
        let own = explain(&run.tenants, of("batch"));
        assert!(own.iter().any(|at| at.words == "own limit rbps=1048576"), "{own:?}");
        let serving_child =
            own.iter().find(|at| at.words == "scheduler serving batch/nightly").unwrap();
        assert_eq!(serving_child.kind, CauseKind::OwnServed, "what lies below is its own");
    }

    #[test]
    fn device_shares_of_the_top_sum_to_one() {
        let run = sample::tenants_run();
        let tops = run.tenants.iter().filter(|tenant| tenant.depth <= 1);
        let sum: f64 = tops.map(|tenant| device_share(tenant, device_time_of_all(&run))).sum();
        assert!((sum - 1.0).abs() < 1e-9);
        assert_eq!(
            shown(&run, 2).iter().map(|tenant| tenant.path.as_str()).collect::<Vec<_>>(),
            ["batch", "batch/nightly"]
        );
    }
}
