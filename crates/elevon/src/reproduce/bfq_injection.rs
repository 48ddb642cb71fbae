//! Proposal 002: BFQ waits for the process in service, the device queue becomes empty, and
//! injection serves other processes in the meantime.
//!
//! The device is fitted to one figure of the proposal, 25 MB/s at depth 1, and to a published one
//! at depth 32. All effects of schedulers are predicted.

mod findings;
mod five;
mod mixes;

use elevon_report::document::Document;
use elevon_report::fairness::{Fairness, fairness};
use elevon_report::result::RunResult;
use elevon_report::summary::{bandwidth, total};

use crate::failure::Failure;
use crate::reproduce::lab::Lab;
use crate::reproduce::parameters::Parameters;

const PARAMETERS: &str = include_str!("../../../../experiments/bfq-injection/parameters.toml");

/// A scheduler as `--scheduler` takes it, with its name in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    name: &'static str,
    scheduler: &'static str,
}

const fn setting(name: &'static str, scheduler: &'static str) -> Setting {
    Setting { name, scheduler }
}

const NONE: Setting = setting("none", "none");
const OFF: Setting = setting("inject=off", "bfq:low_latency=0,inject=off");
const SEED: Setting = setting("inject=seed", "bfq:low_latency=0,inject=seed");
const LIMIT: Setting = setting("inject=limit", "bfq:low_latency=0,inject=limit");
const FAIR: Setting = setting("inject=fair", "bfq:low_latency=0,inject=fair");

pub(super) fn report(lab: &Lab) -> Result<Document, Failure> {
    let mut document = Document::new("bfq-injection: service of others while one is waited for (proposal 002)");
    document.paragraph(
        "\"block, bfq: inject other-queue I/O into seeky idle queues on NCQ flash\", Paolo Valente, September 2018, in Linux \
         4.20. Where weights differ, BFQ keeps a process in service while its next request is on the way, and the device has \
         one request at a time. The proposal lets ten sectors of others pass for each of its own (inject=seed); 5.2 replaced that \
         by a limit learnt from latency (inject=limit); inject=fair is Elevon's own, and injects whom the weights say.",
    );
    let parameters = Parameters::parse(PARAMETERS);
    five::report(&mut document, &five::measure(lab, &parameters)?, &parameters);
    mixes::report(&mut document, &mixes::measure(lab, &parameters)?);
    Ok(document)
}

/// Returns megabytes per second of all jobs.
fn megabytes(run: &RunResult) -> f64 {
    bandwidth(&total(run)) / 1e6
}

/// Returns the shares; the jobs of this experiment always have weights and competitors.
fn shares(run: &RunResult) -> Fairness {
    fairness(run).expect("jobs with weights that ran together")
}

/// Returns Jain's index over bandwidth got divided by share due.
fn jain(run: &RunResult) -> f64 {
    shares(run).jain_bandwidth().expect("jobs that competed")
}

#[cfg(test)]
mod tests;
