//! What a configuration changes besides what was wanted.

use elevon_core::units::Nanos;
use elevon_workload::cpu::SchedulerCost;

use super::Advice;
use super::goal::percent;
use super::setup::Setup;
use super::trial::Trial;
use crate::figures::Figure;

/// Losses below this are not worth a word, in percent.
pub(super) const LOSS_WORTH_A_WORD: f64 = -3.0;
/// Share of a CPU from which a scheduler's work is worth a word, in percent.
const CPU_WORTH_A_WORD: f64 = 1.0;

/// A change in percent.
pub(super) fn change(gain: f64, figure: Figure) -> f64 {
    // A latency that is better is lower.
    if figure == Figure::Throughput { percent(gain) } else { percent(-gain) }
}

/// Losses that are worth a word: process, figure, and the change in percent.
pub(super) fn losses(advice: &Advice, after: &Trial) -> Vec<(usize, Figure, f64)> {
    let mut losers = Vec::new();
    for (at, (from, to)) in advice.before.processes.iter().zip(&after.processes).enumerate() {
        for figure in Figure::ALL {
            let Some(gain) = from.gain(to, figure) else { continue };
            let is_waited_for =
                figure == Figure::Throughput || advice.objective.processes[at].is_waited_for;
            if is_waited_for && percent(gain) <= LOSS_WORTH_A_WORD {
                losers.push((at, figure, change(gain, figure)));
            }
        }
    }
    losers
}

/// CPU time that the scheduler takes of a request beyond the captured one, and its share of a CPU
/// in percent; `None` if it is not worth a word.
pub(super) fn cpu(advice: &Advice, after: &Trial) -> Option<(Nanos, f64)> {
    let cost = |setup: &Setup| {
        let low_latency = setup.tunables.get("low_latency").is_none_or(|&value| value != 0);
        SchedulerCost::measured(setup.scheduler, low_latency).request.get()
    };
    let more = cost(&after.setup).saturating_sub(cost(&advice.captured.setup));
    let share = more as f64 * after.all.per_second / 1e9 * 100.0;
    (share >= CPU_WORTH_A_WORD).then_some((Nanos::new(more), share))
}
