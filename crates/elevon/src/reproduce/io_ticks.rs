//! Proposal 003: io_ticks, and its error if requests overlap.
//!
//! Every run counts busy time in all four forms at once, so the forms are compared on the same
//! requests.

mod fast;
mod findings;
mod lun;
mod small;

use elevon_core::kernel::IoTicksForm;
use elevon_report::document::Document;
use elevon_report::result::RunResult;
use elevon_report::summary::DiskDelta;

use crate::failure::Failure;
use crate::reproduce::lab::Lab;

const PARAMETERS: &str = include_str!("../../../../experiments/io-ticks/parameters.toml");

/// Returns the origin of a form.
const fn origin(form: IoTicksForm) -> &'static str {
    match form {
        IoTicksForm::Sampled => "5.7 to 6.9",
        IoTicksForm::Inflight => "the proposal",
        IoTicksForm::Precise => "6.10 and later",
        IoTicksForm::Exact => "ours: nanoseconds",
    }
}

fn delta(run: &RunResult) -> DiskDelta {
    DiskDelta::between(&run.disk.start, &run.disk.end)
}

/// Returns percent busy by each form, in the order of [`IoTicksForm::ALL`].
fn utilisation(run: &RunResult) -> [f64; 4] {
    delta(run).utilisation()
}

/// Returns busy milliseconds by each form.
fn busy_ms(run: &RunResult) -> [f64; 4] {
    delta(run).busy.map(|busy| busy.get() as f64 / 1e6)
}

pub(super) fn report(lab: &Lab) -> Result<Document, Failure> {
    let mut document = Document::new("io-ticks: how busy is a disk whose requests overlap (proposal 003)");
    document.paragraph(
        "\"Consider inflight IO in io accounting for high latency devices\", Gulam Mohamed, linux-kernel, October 2023: a disk \
         with 105 requests in flight shows 69 %util. From 5.7 to 6.9 a request's start adds one jiffy (sampled); the proposal adds \
         the time since the last look where other tags are in use, on devices with one hardware queue (inflight); 6.10 does \
         so wherever anything is in flight, and adds nothing otherwise (precise); exact counts nanoseconds.",
    );
    small::report_timeline(&mut document, &small::timeline(lab)?);
    lun::report(&mut document, &lun::measure(lab)?);
    small::report_rest(&mut document, &small::rest(lab)?);
    fast::report(&mut document, &fast::measure(lab)?);
    Ok(document)
}

#[cfg(test)]
mod tests;
