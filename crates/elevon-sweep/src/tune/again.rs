//! The best trials of a search, run again with seeds that the search did not use.
//!
//! The best of many trials is partly the luckiest: its figures with the seeds of the search are
//! too good. So the answer of `elevon tune` has its figures, its interval and its order from other
//! seeds, and says from which of the next best it cannot be told.

use std::cmp::Ordering;

use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::Failure;
use elevon_plan::listener::Listener;
use elevon_report::document::{Document, Table};
use elevon_result::interval::RatioInterval;
use serde_json::{Value, json};

use super::{Search, Trial};
use crate::amount::{change_in_words, with_interval};
use crate::goal::Metric;
use crate::summary::{is_clear, seeds_in_words};

/// Least number of other seeds. More, if the search had more.
const MIN_SEEDS: usize = 10;
/// Trials that run again at a time, and at most.
const TRIALS_AT_A_TIME: usize = 4;
const MAX_TRIALS: usize = 12;

/// Trials that ran again.
#[derive(Default)]
pub(super) struct Again {
    pub(super) seeds: Vec<u64>,
    /// By the number of the trial of the search; the best first.
    pub(super) all: Vec<(usize, Trial)>,
}

impl Again {
    /// Returns the trial that is the answer: its number and its figures.
    fn best(&self) -> Option<&(usize, Trial)> {
        self.all.first()
    }

    /// Returns true if a trial keeps all bounds with these seeds.
    pub(super) fn keeps_bounds(&self) -> bool {
        self.all.iter().any(|(_, trial)| trial.missed == 0.0)
    }

    /// Returns the ratio of the best to another in the first goal, in pairs of the same seed, and
    /// whether the two can be told apart.
    fn ratio_of_best(&self, other: &Trial, goal: &Metric) -> Option<(RatioInterval, bool)> {
        let (_, best) = self.best()?;
        let both = other.goal_by_seed.iter().zip(&best.goal_by_seed);
        let pairs: Vec<(f64, f64)> = both.map(|(other, best)| (*other, *best)).collect();
        let ratio = RatioInterval::from_pairs(&pairs)?;
        Some((ratio, is_clear(&goal.name(), goal.unit(), &pairs, &ratio)))
    }
}

impl Search {
    /// Runs the best trials again: with two goals both ends of the front, else the best few and, if
    /// none of these keeps the bounds, the next.
    ///
    /// # Errors
    /// As of [`Self::run`].
    pub fn run_again(
        &mut self,
        interrupt: &Interrupt,
        listener: &dyn Listener,
    ) -> Result<(), Failure> {
        let best = self.best();
        let candidates: Vec<usize> = match (self.goals.all.len(), &best[..]) {
            (2, [first, .., last]) => vec![*first, *last],
            _ => best.into_iter().take(MAX_TRIALS).collect(),
        };
        let mut fresh = self.definition.clone();
        fresh.points.clear();
        fresh.seeds = self.other_seeds();
        self.again.seeds.clone_from(&fresh.seeds);
        for step in candidates.chunks(TRIALS_AT_A_TIME) {
            if interrupt.is_set() || self.again.keeps_bounds() {
                break;
            }
            let first = fresh.points.len();
            fresh.points.extend(
                step.iter().map(|&trial| self.definition.points[self.trials[trial].point].clone()),
            );
            let label = format!("tune, the best again with {} other seeds", fresh.seeds.len());
            for (at, runs) in super::outcomes(&fresh, first, interrupt, &*listener.begin(&label))?
                .into_iter()
                .enumerate()
            {
                let Some(runs) = runs else { continue };
                self.again.all.push((step[at], self.trial(self.trials[step[at]].point, &runs)));
            }
        }
        let of_one_goal = self.goals.all.len() == 1;
        self.again
            .all
            .sort_by(|(_, a), (_, b)| if of_one_goal { order(a, b) } else { Ordering::Equal });
        Ok(())
    }

    /// Returns seeds that follow those of the search.
    fn other_seeds(&self) -> Vec<u64> {
        let used = &self.definition.seeds;
        let first = used.iter().max().map_or(1, |last| last.wrapping_add(1));
        let count = used.len().max(MIN_SEEDS) as u64;
        (0..)
            .map(|at| first.wrapping_add(at))
            .filter(|seed| !used.contains(seed))
            .take(count as usize)
            .collect()
    }

    /// Returns the trial that is the answer of a search with one goal.
    pub(super) fn answer(&self) -> Option<usize> {
        self.again.best().map(|(trial, _)| *trial)
    }

    /// Adds the trials that ran again, with the ratio of the best to each.
    pub(super) fn again_in(&self, document: &mut Document, metrics: &[&Metric]) {
        let Again { seeds, all } = &self.again;
        if all.is_empty() {
            return;
        }
        document.paragraph(format!(
            "Run again with {}, which the search did not use: the best of many trials is partly the luckiest. ± half of the \
             95 % interval of the mean over seeds.",
            seeds_in_words(seeds)
        ));
        let of_one_goal = self.goals.all.len() == 1;
        let mut table = self.header(metrics);
        table.header.extend(of_one_goal.then(|| format!("best to this, {}", metrics[0].title())));
        for (at, (_, trial)) in all.iter().enumerate() {
            let mut row = self.row(trial, metrics);
            let ratio = self.again.ratio_of_best(trial, metrics[0]).filter(|_| at > 0);
            let words = || {
                ratio.map_or("-".to_owned(), |(ratio, is_clear)| change_in_words(&ratio, is_clear))
            };
            row.extend(of_one_goal.then(words));
            table.rows.push(row);
        }
        document.table(table);
        if !self.again.keeps_bounds() && self.trials.iter().any(|trial| trial.missed == 0.0) {
            document.paragraph(
                "With these seeds none of them keeps the bounds in the mean.".to_owned(),
            );
        }
        if of_one_goal && all.len() > 1 && self.again.keeps_bounds() {
            document.paragraph(self.told_apart());
        }
    }

    /// Says from which of the next best the best can be told.
    fn told_apart(&self) -> String {
        let others = &self.again.all[1..];
        let goal = &self.goals.all[0].0;
        let alike = |trial: &Trial| {
            !self.again.ratio_of_best(trial, goal).is_some_and(|(_, is_clear)| is_clear)
        };
        let alike: Vec<String> = others
            .iter()
            .filter(|(_, trial)| alike(trial))
            .map(|(_, trial)| self.definition.in_words(trial.point))
            .collect();
        if alike.is_empty() {
            return "The best differs from each of the others by more than chance and rounding."
                .to_owned();
        }
        format!(
            "The best cannot be told from {}: chance or rounding may be all that differs.",
            alike.join("; ")
        )
    }

    /// Returns the trials that ran again, for programs.
    pub(super) fn again_json(&self, metrics: &[&Metric]) -> Value {
        let trial = |(number, trial): &(usize, Trial)| {
            let ratio =
                self.again.ratio_of_best(trial, metrics[0]).filter(|_| self.goals.all.len() == 1);
            let (low, high) = ratio.and_then(|(ratio, _)| ratio.bounds).unzip();
            json!({
                "trial": number,
                "error": trial.error,
                "figures": self.figures_json(trial, metrics),
                "meets_bounds": trial.missed == 0.0,
                "ratio_of_best": {
                    "mean": ratio.map(|(ratio, _)| ratio.ratio),
                    "low_95": low,
                    "high_95": high,
                    "is_clear": ratio.map(|(_, is_clear)| is_clear),
                },
            })
        };
        json!({"seeds": self.again.seeds, "trials": self.again.all.iter().map(trial).collect::<Vec<_>>()})
    }

    /// Returns an empty table with the columns of a trial.
    pub(super) fn header(&self, metrics: &[&Metric]) -> Table {
        let keys = self.definition.axes.iter().map(|axis| axis.key.clone());
        let header = keys.chain(metrics.iter().map(|metric| metric.title())).collect();
        Table { header, words: (0..self.definition.axes.len()).collect(), rows: Vec::new() }
    }

    /// Returns a trial's values and figures.
    pub(super) fn row(&self, trial: &Trial, metrics: &[&Metric]) -> Vec<String> {
        let mut row = self.definition.values(trial.point);
        let means = trial.means.iter().zip(metrics);
        row.extend(means.map(|(mean, metric)| with_interval(metric.unit(), mean)));
        row.resize(self.definition.axes.len() + metrics.len(), "-".to_owned());
        row
    }
}

/// Orders trials: bounds first, then the first goal.
pub(super) fn order(first: &Trial, second: &Trial) -> Ordering {
    let score = |trial: &Trial| trial.scores.first().copied().unwrap_or(f64::NEG_INFINITY);
    first.missed.total_cmp(&second.missed).then(score(second).total_cmp(&score(first)))
}
