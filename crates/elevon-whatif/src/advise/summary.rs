//! A proposal in one line: what it changes most, for better and for worse.

use super::changes::{change, losses};
use super::goal::{NOISE, percent};
use super::trial::Trial;
use super::{Advice, Proposal};
use crate::figures::Figure;

/// A gain that is smaller is not worth a word, in percent.
const GAIN_WORTH_A_WORD: f64 = 3.0;
/// Gains that the line has at most.
const MAX_GAINS: usize = 2;

/// A figure of some processes that changes in one direction.
struct Change {
    figure: Figure,
    processes: Vec<usize>,
    /// The changes in percent.
    percents: Vec<f64>,
}

impl Change {
    /// Joins the changes of one figure.
    fn from_figure(figure: Figure, all: &[(usize, Figure, f64)]) -> Option<Self> {
        let own = || all.iter().filter(|(_, of, _)| *of == figure);
        let (processes, percents) = own().map(|&(at, _, percent)| (at, percent)).unzip();
        own().next().is_some().then_some(Self { figure, processes, percents })
    }

    fn largest(&self) -> f64 {
        self.percents.iter().map(|percent| percent.abs()).fold(0.0, f64::max)
    }

    fn words(&self, label: &dyn Fn(usize) -> String) -> String {
        let who = match &self.processes[..] {
            [one] => label(*one),
            all => format!("{} processes", all.len()),
        };
        let least = self.percents.iter().map(|percent| percent.abs()).fold(f64::INFINITY, f64::min);
        let [least, most] = [least, self.largest()].map(|percent| format!("{percent:.0}"));
        let range = if least == most { most } else { format!("{least} to {most}") };
        let direction = if self.percents[0] > 0.0 { "higher" } else { "lower" };
        format!("{} of {who} {range} % {direction}", self.figure.name())
    }
}

/// Returns what a proposal gives beyond the error of the check, and what it takes.
pub(super) fn summary(advice: &Advice, proposal: &Proposal) -> String {
    let after = &proposal.scored.trial;
    let label = |at: usize| advice.objective.processes[at].label.clone();
    let join = |changes: &[Change]| {
        changes.iter().map(|one| one.words(&label)).collect::<Vec<_>>().join(", ")
    };
    let of = |all: &[(usize, Figure, f64)]| {
        Figure::ALL.into_iter().filter_map(|figure| Change::from_figure(figure, all)).collect()
    };
    let mut gained: Vec<Change> = of(&gains(advice, after));
    gained.sort_by(|a, b| b.largest().total_cmp(&a.largest()));
    gained.truncate(MAX_GAINS);
    let lost: Vec<Change> = of(&losses(advice, after));
    // What a process loses of its throughput says more than the latencies that come with it.
    let lost = lost.into_iter().next();
    match (gained.is_empty(), lost) {
        (false, None) => join(&gained),
        (false, Some(lost)) => format!("{}; {}", join(&gained), join(&[lost])),
        (true, Some(lost)) => join(&[lost]),
        (true, None) => "no process gains more than the error of the check".to_owned(),
    }
}

/// Returns what is better beyond the error of the check: process, figure, and the change in
/// percent.
fn gains(advice: &Advice, after: &Trial) -> Vec<(usize, Figure, f64)> {
    let mut gains = Vec::new();
    for (at, (from, to)) in advice.before.processes.iter().zip(&after.processes).enumerate() {
        let subject = &advice.objective.processes[at];
        for figure in Figure::ALL {
            let (Some(gain), Some(error)) = (from.gain(to, figure), subject.error(figure)) else {
                continue;
            };
            if gain > error + NOISE && percent(gain) >= GAIN_WORTH_A_WORD {
                gains.push((at, figure, change(gain, figure)));
            }
        }
    }
    gains
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_change_alike_are_one() {
        let all = [(0, Figure::P99, -30.2), (2, Figure::P99, -40.0), (1, Figure::Throughput, -6.1)];
        let words = |figure| {
            Change::from_figure(figure, &all).map(|change| change.words(&|at| format!("p-{at}")))
        };
        assert_eq!(words(Figure::P99).as_deref(), Some("p99 of 2 processes 30 to 40 % lower"));
        assert_eq!(words(Figure::Throughput).as_deref(), Some("throughput of p-1 6 % lower"));
        assert_eq!(words(Figure::P50), None);
    }
}
