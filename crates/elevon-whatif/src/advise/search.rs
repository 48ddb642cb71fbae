//! The search: changes one thing after the other, as long as it gains.

use std::collections::BTreeMap;

use super::goal::{MIN_SCORE_OF_A_CHANGE, NOISE, Objective};
use super::knobs::Knobs;
use super::setup::Setup;
use super::trial::{Bench, Trial};

/// What a step has to gain to be worth taking, as a logarithm: the simpler of two configurations
/// that do the same is better.
const MIN_GAIN_OF_A_STEP: f64 = 0.01;
/// Configurations that are changed further in each round.
const BEAM: usize = 3;
/// Replays from which on no further round begins: a bound on the time that the search takes.
const MAX_TRIED: usize = 1_000;
/// Rounds, each of which changes one thing.
const ROUNDS: usize = 4;

/// A configuration with what it is worth.
#[derive(Clone, Debug)]
pub(super) struct Scored {
    pub(super) trial: Trial,
    /// By [`Objective::score`].
    pub(super) score: f64,
    /// The same less what its steps have to gain.
    rank: f64,
}

/// All configurations that were tried.
pub(super) struct Search<'a> {
    bench: &'a Bench<'a>,
    objective: &'a Objective,
    before: &'a Trial,
    tried: BTreeMap<Setup, Scored>,
}

impl<'a> Search<'a> {
    pub(super) fn new(bench: &'a Bench<'a>, objective: &'a Objective, before: &'a Trial) -> Self {
        let mut search = Self { bench, objective, before, tried: BTreeMap::new() };
        search.note(before.clone());
        search
    }

    fn note(&mut self, trial: Trial) {
        let score = self.objective.score(self.before, &trial);
        let steps = trial.setup.steps(&self.before.setup).len();
        let rank = score - MIN_GAIN_OF_A_STEP * steps as f64;
        self.tried.insert(trial.setup.clone(), Scored { trial, score, rank });
    }

    /// Tries what was not tried yet. Returns false if the user interrupted it.
    fn try_all(&mut self, setups: Vec<Setup>) -> bool {
        let mut new: Vec<Setup> =
            setups.into_iter().filter(|setup| !self.tried.contains_key(setup)).collect();
        new.sort();
        new.dedup();
        let Some(trials) = self.bench.run_all(&new) else { return false };
        for trial in trials {
            self.note(trial);
        }
        true
    }

    /// All that was tried, the best first; of equals the one with fewer steps.
    fn ranked(&self) -> Vec<&Scored> {
        let mut all: Vec<&Scored> = self.tried.values().collect();
        all.sort_by(|a, b| {
            b.rank.total_cmp(&a.rank).then_with(|| a.trial.setup.cmp(&b.trial.setup))
        });
        all
    }

    /// Searches. Returns false if the user interrupted it.
    pub(super) fn run(&mut self, knobs: &Knobs) -> bool {
        let captured = &self.before.setup;
        let schedulers =
            knobs.schedulers().iter().map(|name| captured.with_scheduler(name)).collect();
        if !self.try_all(schedulers) {
            return false;
        }
        let mut best = f64::NEG_INFINITY;
        for _ in 0..ROUNDS {
            if self.tried.len() >= MAX_TRIED {
                break;
            }
            // Every scheduler is changed further, so that one that needs a tunable is not lost.
            let mut beam: Vec<Setup> = Vec::new();
            for scored in self.ranked() {
                let setup = &scored.trial.setup;
                let is_first_of_its_scheduler =
                    beam.iter().all(|other| other.scheduler != setup.scheduler);
                if beam.len() < BEAM || is_first_of_its_scheduler {
                    beam.push(setup.clone());
                }
            }
            let next = beam.iter().flat_map(|setup| knobs.neighbours(setup)).collect();
            if !self.try_all(next) {
                return false;
            }
            let now = self.ranked().first().map_or(best, |scored| scored.rank);
            if now < best + MIN_GAIN_OF_A_STEP / 2.0 {
                break;
            }
            best = now;
        }
        true
    }

    /// Takes steps back that do not gain. Returns `None` if the user interrupted it.
    fn pruned(&mut self, mut setup: Setup) -> Option<Setup> {
        loop {
            let captured = self.before.setup.clone();
            let simpler: Vec<Setup> = setup
                .steps(&captured)
                .iter()
                .map(|step| setup.without(step, &captured))
                .filter(|one| *one != setup)
                .collect();
            if !self.try_all(simpler.clone()) {
                return None;
            }
            let rank = |setup: &Setup| {
                self.tried.get(setup).map_or(f64::NEG_INFINITY, |scored| scored.rank)
            };
            let better = simpler.into_iter().filter(|one| rank(one) >= rank(&setup));
            match better.max_by(|a, b| rank(a).total_cmp(&rank(b))) {
                Some(better) => setup = better,
                None => return Some(setup),
            }
        }
    }

    /// The best configurations, of which no two differ in little: one for each scheduler, with and
    /// without a change of processes' claims. `None` if the user interrupted it.
    pub(super) fn best(&mut self, most: usize) -> Option<Vec<Scored>> {
        let kind =
            |setup: &Setup| (setup.scheduler, setup.prios.is_empty() && setup.claims.is_empty());
        let mut chosen: Vec<Scored> = Vec::new();
        let candidates: Vec<Setup> = self
            .ranked()
            .iter()
            .filter(|one| one.score >= MIN_SCORE_OF_A_CHANGE)
            .map(|one| one.trial.setup.clone())
            .collect();
        let mut kinds = Vec::new();
        for setup in candidates {
            if chosen.len() == most || kinds.contains(&kind(&setup)) {
                continue;
            }
            kinds.push(kind(&setup));
            let setup = self.pruned(setup)?;
            let scored = self.tried[&setup].clone();
            // Two ways to the same figures are one proposal.
            let is_new = chosen.iter().all(|one| one.trial.processes != scored.trial.processes);
            if scored.score >= MIN_SCORE_OF_A_CHANGE && is_new {
                chosen.push(scored);
            }
        }
        chosen.sort_by(|a, b| b.rank.total_cmp(&a.rank));
        Some(chosen)
    }

    /// What promises most of all that is not worth it, as far as predictions have no error; `None`
    /// if nothing promises anything.
    pub(super) fn most_promising(&self) -> Option<&Scored> {
        let promise = |one: &&Scored| self.objective.promise(self.before, &one.trial);
        let steps = |one: &Scored| one.trial.setup.steps(&self.before.setup).len() as f64;
        let all =
            self.tried.values().map(|one| (promise(&one) - MIN_GAIN_OF_A_STEP * steps(one), one));
        let best = all
            .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.trial.setup.cmp(&a.1.trial.setup)));
        best.filter(|(promise, one)| *promise > NOISE && one.trial.setup != self.before.setup)
            .map(|(_, one)| one)
    }

    /// Configurations that were replayed, without the captured one.
    pub(super) fn count(&self) -> usize {
        self.tried.len() - 1
    }
}
