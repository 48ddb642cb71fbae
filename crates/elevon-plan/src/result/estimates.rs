//! What a simulated device's figures rest on: what its model lacks, and which figures of the run
//! follow estimates.

use elevon_core::op::StatGroup;
use elevon_result::result::{DiskResult, Estimate};
use elevon_sim::profiles::{self, Figures};

use crate::plan::Plan;
use crate::target::Target;

/// Returns the device of a plan as the text that [`profiles::open`] takes; `None` for a real one.
fn spec(plan: &Plan) -> Option<&str> {
    match (&plan.own, &plan.target) {
        (Some(own), _) => Some(&own.spec),
        (None, Target::Simulated(spec)) => Some(spec),
        (None, Target::Real(_) | Target::Nbd(_)) => None,
    }
}

/// Returns what the model lacks; empty for a real device.
pub(super) fn lacks(plan: &Plan) -> String {
    spec(plan).and_then(profiles::lacks).unwrap_or_default().to_owned()
}

/// Returns the figures of a run that follow estimates.
pub(super) fn of(plan: &Plan, disk: &DiskResult) -> Vec<Estimate> {
    let Some(spec) = spec(plan) else { return Vec::new() };
    let has = |group: StatGroup| disk.stages[group as usize].dispatched_to_completed.count > 0;
    let [reads, writes, discards] =
        [StatGroup::Read, StatGroup::Write, StatGroup::Discard].map(has);
    let flushes = disk.end.flushes > disk.start.flushes;
    let shown = |figures: Figures| match figures {
        Figures::ReadTail => (reads && !writes, Some(StatGroup::Read), "99% and up"),
        Figures::ReadTailBesideWrites => {
            (reads && writes, Some(StatGroup::Read), "99% and up, beside writes")
        }
        Figures::WriteTail => (writes, Some(StatGroup::Write), "99% and up"),
        Figures::Discards => (discards, Some(StatGroup::Discard), "all"),
        Figures::Flushes => (flushes, None, "flushes"),
        Figures::Everything => (true, None, "all latencies and rates"),
    };
    let estimates = profiles::estimates(spec).into_iter().filter_map(|(figures, parameters)| {
        let (is_shown, group, figures) = shown(figures);
        let parameters = parameters.into_iter().map(str::to_owned).collect();
        is_shown.then(|| Estimate { group, figures: figures.to_owned(), parameters })
    });
    estimates.collect()
}
