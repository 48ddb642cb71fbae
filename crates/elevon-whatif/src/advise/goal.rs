//! What is wanted of a configuration, and how much of it a replay promises beyond its own error.
//!
//! A gain is the logarithm of a ratio to the replay as captured: of I/Os a second, of the inverse
//! of a latency. A gain counts by what it exceeds the error of the prediction: how far the replay
//! as captured is off from the trace in that figure of that process. A loss counts whole. So a
//! configuration scores if what it surely gives is more than what it may take.

use super::trial::Trial;
use crate::figures::{Figure, Figures};

/// What `elevon advise` is to make better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Throughput, median and 99th percentile of every process alike
    Balanced,
    /// The 99th percentile of latency
    P99,
    /// The median of latency
    P50,
    /// Bytes a second
    Throughput,
    /// The speed of the process that is slowed down most
    Fair,
}

impl Goal {
    /// Every goal.
    pub const ALL: [Self; 5] = [Self::Balanced, Self::P99, Self::P50, Self::Throughput, Self::Fair];

    /// What it is, as `--help` says it.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Balanced => "Throughput, median and 99th percentile of every process alike",
            Self::P99 => "The 99th percentile of latency",
            Self::P50 => "The median of latency",
            Self::Throughput => "Bytes a second",
            Self::Fair => "The speed of the process that is slowed down most",
        }
    }

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::P99 => "p99",
            Self::P50 => "p50",
            Self::Throughput => "throughput",
            Self::Fair => "fair",
        }
    }
}

/// A difference that says nothing, as a logarithm: histograms are two percent wide.
pub(super) const NOISE: f64 = 0.02;
/// Score from which a configuration is worth a change.
pub(super) const MIN_SCORE_OF_A_CHANGE: f64 = 0.03;

/// A process of the workload.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// Name and id: `postgres-4242`.
    pub(super) label: String,
    /// Name, if the trace has one.
    pub(super) name: Option<String>,
    /// Id, if the trace has one.
    pub(super) id: Option<u32>,
    /// Its figures in the trace.
    pub(super) measured: Figures,
    /// Its figures in the replay as captured.
    pub(super) checked: Figures,
    /// A user waits for its I/O.
    pub(super) is_waited_for: bool,
    /// It is one of those that the goal is for.
    pub(super) is_wanted: bool,
    /// I/Os a second in the replay as captured if it has the device to itself.
    pub(super) alone: Option<f64>,
}

impl Subject {
    /// Error of the prediction of a figure, as a logarithm; `None` if there are too few I/Os.
    pub(super) fn error(&self, figure: Figure) -> Option<f64> {
        self.measured.gain(&self.checked, figure).map(f64::abs)
    }

    /// What a gain is worth: that part of it beyond the error.
    fn worth(&self, gain: f64, figure: Figure) -> f64 {
        let margin = self.error(figure).unwrap_or(f64::INFINITY) + NOISE;
        if gain > 0.0 { (gain - margin).max(0.0) } else { gain }
    }
}

/// What is wanted.
#[derive(Clone, Debug)]
pub(super) struct Objective {
    pub(super) goal: Goal,
    pub(super) processes: Vec<Subject>,
    /// Figures of all processes in the trace and in the replay as captured.
    pub(super) all: (Figures, Figures),
    /// Part of its throughput that a process may lose.
    pub(super) max_loss: f64,
}

impl Objective {
    /// Figures that count for a process.
    fn figures(&self, subject: &Subject) -> &'static [Figure] {
        match self.goal {
            Goal::Balanced if subject.is_waited_for => &Figure::ALL,
            Goal::P50 if subject.is_waited_for => &[Figure::P50],
            Goal::P99 if subject.is_waited_for => &[Figure::P99],
            Goal::Balanced | Goal::Throughput | Goal::Fair => &[Figure::Throughput],
            Goal::P50 | Goal::P99 => &[],
        }
    }

    /// What a replay promises, against the replay as captured; negative infinity if it takes more
    /// than it may from a process, or if one that is wanted stalls.
    pub(super) fn score(&self, before: &Trial, after: &Trial) -> f64 {
        let pairs = || before.processes.iter().zip(&after.processes);
        let loses_too_much = pairs().any(|(before, after)| {
            before
                .gain(after, Figure::Throughput)
                .is_some_and(|gain| gain < libm::log(1.0 - self.max_loss))
        });
        // Percentiles do not show the few I/Os of a process that is kept waiting for long.
        let stalls = pairs().zip(&self.processes).any(|((before, after), subject)| {
            subject.is_wanted && subject.is_waited_for && before.stalls_in(after)
        });
        if loses_too_much || stalls {
            return f64::NEG_INFINITY;
        }
        match self.goal {
            Goal::Fair => self.fairness(before, after),
            Goal::Throughput if self.processes.iter().all(|subject| subject.is_wanted) => {
                self.total(before, after)
            }
            Goal::Balanced | Goal::Throughput | Goal::P50 | Goal::P99 => self.mean(before, after),
        }
    }

    /// What a replay promises if predictions had no error.
    pub(super) fn promise(&self, before: &Trial, after: &Trial) -> f64 {
        let mut exact = self.clone();
        exact.all.1 = exact.all.0;
        for subject in &mut exact.processes {
            subject.checked = subject.measured;
        }
        exact.score(before, after)
    }

    /// The same for some of the processes, in this order.
    pub(super) fn of(&self, processes: &[usize]) -> Self {
        Self {
            processes: processes.iter().map(|&at| self.processes[at].clone()).collect(),
            ..self.clone()
        }
    }

    /// Whether two replays have a figure that counts.
    pub(super) fn can_score(&self, before: &Trial, after: &Trial) -> bool {
        let mut all = before.processes.iter().zip(&after.processes).zip(&self.processes);
        all.any(|((before, after), subject)| {
            let mut figures = self.figures(subject).iter();
            subject.is_wanted && figures.any(|&figure| before.gain(after, figure).is_some())
        })
    }

    /// The mean over the wanted processes, and over the figures of each.
    fn mean(&self, before: &Trial, after: &Trial) -> f64 {
        let pairs = before.processes.iter().zip(&after.processes).zip(&self.processes);
        let of_process = |((before, after), subject): ((&Figures, &Figures), &Subject)| {
            let gains = self.figures(subject).iter().filter_map(|&figure| {
                subject.error(figure)?;
                Some(subject.worth(before.gain(after, figure)?, figure))
            });
            mean(gains)
        };
        mean(pairs.filter(|(_, subject)| subject.is_wanted).filter_map(of_process)).unwrap_or(0.0)
    }

    /// Bytes a second of all processes together.
    fn total(&self, before: &Trial, after: &Trial) -> f64 {
        let gain =
            |from: &Figures, to: &Figures| libm::log(to.bytes_per_second / from.bytes_per_second);
        let error = gain(&self.all.0, &self.all.1).abs();
        let gain = gain(&before.all, &after.all);
        if gain > 0.0 { (gain - error - NOISE).max(0.0) } else { gain }
    }

    /// The speed of the process that is slowed down most, against what it has alone.
    fn fairness(&self, before: &Trial, after: &Trial) -> f64 {
        let worst = |trial: &Trial| {
            let shares =
                trial.processes.iter().zip(&self.processes).filter_map(|(figures, subject)| {
                    let share = figures.get(Figure::Throughput)? / subject.alone?;
                    Some((share, subject.error(Figure::Throughput)?))
                });
            shares.min_by(|a, b| a.0.total_cmp(&b.0))
        };
        let (Some((from, _)), Some((to, error))) = (worst(before), worst(after)) else {
            return 0.0;
        };
        let gain = libm::log(to / from);
        if gain > 0.0 { (gain - error - NOISE).max(0.0) } else { gain }
    }
}

/// The mean, if there is anything.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// A gain as a change in percent: 35 for 1.35 times as much, -20 for a fifth less.
pub(super) fn percent(gain: f64) -> f64 {
    (libm::exp(gain) - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::setup::Setup;

    fn figures(per_second: f64, p50: f64, p99: f64) -> Figures {
        Figures {
            ios: 1000,
            per_second,
            bytes_per_second: per_second * 4096.0,
            p50,
            p99,
            longest: 2.0 * p99,
        }
    }

    fn trial(processes: Vec<Figures>) -> Trial {
        let bytes = processes.iter().map(|one| one.bytes_per_second).sum();
        let all = Figures { bytes_per_second: bytes, ..Figures::default() };
        Trial { setup: Setup::default(), traced: processes.clone(), processes, all }
    }

    /// Two processes; the prediction of the first one's p99 is off by a third.
    fn objective(goal: Goal) -> (Objective, Trial) {
        let before = vec![figures(1000.0, 1e6, 4e6), figures(500.0, 2e6, 6e6)];
        let subject = |at: usize, p99: f64, alone: f64| Subject {
            label: format!("p-{at}"),
            name: None,
            id: None,
            measured: Figures { p99, ..before[at] },
            checked: before[at],
            is_waited_for: true,
            is_wanted: true,
            alone: Some(alone),
        };
        let processes = vec![subject(0, 6e6, 1100.0), subject(1, 6e6, 2000.0)];
        let trial = trial(before.clone());
        (Objective { goal, processes, all: (trial.all, trial.all), max_loss: 0.2 }, trial)
    }

    #[test]
    fn a_gain_within_the_error_counts_for_nothing_and_a_loss_counts_whole() {
        let (objective, before) = objective(Goal::P99);
        let score = |first: f64, second: f64| {
            let after = trial(vec![figures(1000.0, 1e6, first), figures(500.0, 2e6, second)]);
            objective.score(&before, &after)
        };
        assert_eq!(score(4e6, 6e6), 0.0);
        assert_eq!(score(2.8e6, 6e6), 0.0, "a third less, predicted with an error of a third");
        assert!(score(1e6, 6e6) > 0.4, "four times less is beyond it");
        assert!(score(4e6, 5e6) > 0.05 && score(4e6, 5e6) < 0.1, "the other is predicted exactly");
        assert!(score(5e6, 6e6) < -0.1, "a loss has no error to hide behind");
    }

    #[test]
    fn nobody_loses_more_than_is_allowed() {
        let (objective, before) = objective(Goal::Throughput);
        let after = |second: f64| trial(vec![figures(3000.0, 1e6, 4e6), figures(second, 2e6, 6e6)]);
        assert!(objective.score(&before, &after(410.0)) > 0.5);
        assert_eq!(objective.score(&before, &after(390.0)), f64::NEG_INFINITY);
    }

    #[test]
    fn a_process_that_is_kept_waiting_shows_though_percentiles_do_not() {
        let (objective, before) = objective(Goal::Balanced);
        let starved = Figures { longest: 2e9, ..figures(900.0, 1e6, 0.5e6) };
        assert_eq!(
            objective.score(&before, &trial(vec![starved, before.processes[1]])),
            f64::NEG_INFINITY
        );
        let mut other = objective.clone();
        other.processes[0].is_wanted = false;
        assert!(other.score(&before, &trial(vec![starved, before.processes[1]])) > -1.0);
    }

    #[test]
    fn fairness_is_of_the_one_that_is_slowed_down_most() {
        let (objective, before) = objective(Goal::Fair);
        // The second has a quarter of what it has alone, the first nearly all.
        let after = |first: f64, second: f64| {
            trial(vec![figures(first, 1e6, 4e6), figures(second, 2e6, 6e6)])
        };
        assert!(objective.score(&before, &after(900.0, 750.0)) > 0.3);
        assert!(objective.score(&before, &after(2000.0, 450.0)) < 0.0);
    }
}
