//! Text reports for a terminal: fio's report of the jobs, iostat's line of the device, and figures
//! that only Elevon has.

mod cache;
mod changes;
mod fio;
mod iostat;
mod slices;
mod stack;
mod tenants;

use std::fmt::Write as _;

use elevon_result::result::RunResult;
use elevon_result::summary::DiskDelta;

use crate::fairness;
use crate::variant::Variant;

pub(crate) use fio::{BUCKETS, bucket_counts, shares};
pub use iostat::{iostat_header, iostat_line};
pub use stack::{Figure, figures};
pub(crate) use stack::{align_right, difference, plain_table, push_table, shown};

/// Returns the whole report of a run.
///
/// The first line says whether the device is simulated and which stack the run used.
pub fn report(run: &RunResult) -> String {
    let mut out = stack::headline(run);
    out.push('\n');
    fio::jobs(&mut out, run);
    fio::groups(&mut out, run);
    fairness::table::text(&mut out, &[Variant { label: "", result: run }], &["got".to_owned()]);
    slices::section(&mut out, run);
    cache::section(&mut out, run);
    tenants::section(&mut out, run);
    changes::section(&mut out, run);
    fio::disk(&mut out, run);
    let delta = DiskDelta::between(&run.disk.start, &run.disk.end);
    let width = run.disk.name.len().max(10);
    let _ = writeln!(
        out,
        "\nDevice by iostat (whole run):\n{}\n{}",
        iostat_header(width),
        iostat_line(&run.disk.name, width, &delta)
    );
    stack::details(&mut out, run, &delta);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn report_of_a_mixed_run() {
        insta::assert_snapshot!(report(&sample::mixed_run()));
    }

    #[test]
    fn report_of_a_page_cache() {
        let report = report(&sample::cached_run());
        let from = report.find("Page cache:").expect("it is there");
        let to = report[from..].find("\n\n").map_or(report.len(), |at| from + at);
        insta::assert_snapshot!(&report[from..to]);
    }

    #[test]
    fn report_of_tenants() {
        insta::assert_snapshot!(report(&sample::tenants_run()));
    }

    #[test]
    fn report_of_a_run_that_did_nothing() {
        insta::assert_snapshot!(report(&sample::empty_run()));
    }

    #[test]
    fn report_of_a_failed_job_and_unified_reporting() {
        insta::assert_snapshot!(report(&sample::odd_run()));
    }
}
