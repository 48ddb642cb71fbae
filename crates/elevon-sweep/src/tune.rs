//! `elevon tune`: a seeded search for the options under which a job does best.
//!
//! A space with no more points than trials is tried whole. Otherwise the first third of the trials
//! is a Sobol sample, and the rest are neighbours of the best so far: an evolution strategy over
//! the front of trials that no other is better than. A sample has no ends of axes, where goals
//! often are best, so one in four neighbours of the best of a goal goes to such an end. Trials are
//! made in generations of a fixed size, so that the result does not depend on the number of
//! threads. The best are run again with other seeds (`tune/again.rs`): the answer is theirs.

mod again;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::PathBuf;

use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::Failure;
use elevon_plan::files::Files;
use elevon_plan::listener::{Listener, Steps};
use elevon_plan::options::StackOptions;
use elevon_plan::parallel::on_all_cores;
use elevon_report::document::{Document, Table};
use elevon_report::figures::{ALL_JOBS, FigureRow};
use elevon_report::plot::{Axis as PlotAxis, Mark, Plot, Series};
use elevon_result::interval::Interval;
use elevon_result::number::counted;
use elevon_sim::chance::{below, draw};
use serde_json::{Map, Value, json};

use crate::axis::Values;
use crate::definition::Definition;
use crate::drawing::scale_of;
use crate::error::SweepError;
use crate::goal::{Bound, Metric};
use crate::journal::Outcome;
use crate::points::{Point, sobol_points};
use crate::runs;
use crate::said::Said;
use crate::summary::seeds_in_words;
use again::Again;

/// Trials of a generation.
const GENERATION: usize = 16;
/// Purpose of the draws.
const TUNE: u64 = 0x707e_0001;
/// Rows of the table of the best, and of a front.
const ROWS: usize = 12;
const FRONT: usize = 60;

/// A search as a user gives it.
#[derive(Clone, Debug, Default)]
pub struct TuneRequest {
    /// The job file.
    pub input: PathBuf,
    /// What may be chosen, each `KEY=VALUES`.
    pub over: Vec<String>,
    /// Figures that are to be large, each `[JOB:]FIGURE`.
    pub maximise: Vec<String>,
    /// Figures that are to be small.
    pub minimise: Vec<String>,
    /// Bounds that the result has to keep, such as `p99<2ms`.
    pub subject_to: Vec<String>,
    /// A number of seeds, or a list of them; `None` for that of the options and the next two.
    pub seeds: Option<String>,
    /// What all runs share.
    pub stack: StackOptions,
}

/// What is to be made large or small.
struct Goals {
    /// Metrics, and whether larger is better; one or two.
    all: Vec<(Metric, bool)>,
    bounds: Vec<Bound>,
}

impl Goals {
    fn new(request: &TuneRequest) -> Result<Self, Failure> {
        let large = request.maximise.iter().map(|text| (Metric::parse(text), true));
        let small = request.minimise.iter().map(|text| (Metric::parse(text), false));
        let all: Vec<(Metric, bool)> = large.chain(small).collect();
        if !(1..=2).contains(&all.len()) {
            return Err(Failure::input(SweepError::Goals));
        }
        if let [(first, _), (second, _)] = &all[..]
            && first == second
        {
            return Err(Failure::input(SweepError::GoalTwice { metric: first.name() }));
        }
        let bounds =
            request.subject_to.iter().map(|text| Bound::parse(text)).collect::<Result<_, _>>();
        Ok(Self { all, bounds: bounds.map_err(Failure::input)? })
    }

    /// Yields the metrics of goals and bounds, each once.
    fn metrics(&self) -> Vec<&Metric> {
        let mut metrics: Vec<&Metric> = Vec::new();
        for metric in self
            .all
            .iter()
            .map(|(metric, _)| metric)
            .chain(self.bounds.iter().map(|bound| &bound.metric))
        {
            if !metrics.contains(&metric) {
                metrics.push(metric);
            }
        }
        metrics
    }
}

/// A point that was tried.
#[derive(Clone, Debug)]
struct Trial {
    /// Number of the point.
    point: usize,
    /// Means of [`Goals::metrics`] over the seeds; empty if a run failed.
    means: Vec<Interval>,
    /// Goals, of which larger values are better.
    scores: Vec<f64>,
    /// The first goal's metric by seed.
    goal_by_seed: Vec<f64>,
    /// By how much the bounds are missed, as a sum of shares.
    missed: f64,
    /// Why there are no means; empty if there are.
    error: String,
}

impl Trial {
    /// Returns true if this trial is better than another: nearer to the bounds, or as good in every
    /// goal and better in one.
    fn beats(&self, other: &Self) -> bool {
        match self.missed.total_cmp(&other.missed) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => {
                let mut pairs = self.scores.iter().zip(&other.scores);
                pairs.clone().all(|(own, of)| own >= of) && pairs.any(|(own, of)| own > of)
            }
        }
    }
}

/// A search: its trials, of which the best run again with other seeds.
pub struct Search {
    definition: Definition,
    goals: Goals,
    trials: Vec<Trial>,
    again: Again,
    seen: BTreeSet<Point>,
    draws: u64,
    /// Warnings of the runs.
    said: Said,
    /// Names of the jobs of the runs, and metrics that some run has.
    jobs: BTreeSet<String>,
    found: BTreeSet<String>,
}

impl Search {
    /// Checks a search, except for the plans of its points.
    ///
    /// # Errors
    /// A goal, a bound, an axis or the seeds are wrong.
    pub fn new(request: &TuneRequest) -> Result<Self, Failure> {
        let goals = Goals::new(request)?;
        let TuneRequest { input, stack, over, seeds, .. } = request;
        let definition = Definition::of_search(input, stack, over, seeds.as_deref())?;
        Ok(Self {
            definition,
            goals,
            trials: Vec::new(),
            again: Again::default(),
            seen: BTreeSet::new(),
            draws: 0,
            said: Said::default(),
            jobs: BTreeSet::new(),
            found: BTreeSet::new(),
        })
    }

    /// Returns the files that the search reads.
    ///
    /// # Errors
    /// A file has two uses that exclude each other.
    pub fn files(&self) -> Result<Files, Failure> {
        self.definition.files()
    }

    /// Returns the number of trials that were made.
    pub fn trials(&self) -> usize {
        self.trials.len()
    }

    /// Returns true if every trial failed. Names of jobs come from runs that did not fail.
    pub fn has_failed(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Makes `budget` trials. Returns true if the whole space was tried.
    ///
    /// # Errors
    /// A point is wrong, or not simulated.
    pub fn run(
        &mut self,
        budget: usize,
        interrupt: &Interrupt,
        listener: &dyn Listener,
    ) -> Result<bool, Failure> {
        let space = self
            .definition
            .axes
            .iter()
            .try_fold(1usize, |count, axis| count.checked_mul(axis.len()));
        let is_whole = space.is_some_and(|space| space <= budget);
        let wanted = if is_whole { space.unwrap_or(0) } else { budget };
        let seed = self.definition.own_seed();
        let mut first: Vec<Point> = if is_whole {
            self.definition.grid()?
        } else {
            sobol_points(&self.definition.axes, budget.div_ceil(3) as u64, seed)
        };
        first.reverse();
        while self.trials.len() < wanted && !interrupt.is_set() {
            let mut generation = Vec::new();
            while generation.len() < GENERATION.min(wanted - self.trials.len()) {
                let Some(point) = first.pop().or_else(|| self.neighbour()) else { break };
                if self.seen.insert(point.clone()) {
                    generation.push(point);
                }
            }
            if generation.is_empty() {
                break;
            }
            self.generation(generation, interrupt, listener)?;
        }
        Ok(is_whole)
    }

    /// Returns a random number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.draws += 1;
        below(draw(self.definition.own_seed(), TUNE, self.draws), bound as u64) as usize
    }

    /// Returns a point near one of the best that was not tried; `None` if none is found, or if no
    /// trial is over yet.
    fn neighbour(&mut self) -> Option<Point> {
        let front = self.front();
        if front.is_empty() {
            return None;
        }
        for _ in 0..1000 {
            // The first and the last of the front are the best of a goal each.
            let to_end = self.below(4) == 0;
            let parent = match self.below(if to_end { 2 } else { front.len() }) {
                1 if to_end => front[front.len() - 1],
                at => front[at],
            };
            let mut point = self.definition.points[self.trials[parent].point].clone();
            // One axis changes always, each other one with a chance of one in four.
            let always = self.below(point.len());
            if to_end && self.is_ordered(always) {
                point[always] = self.below(2) * (self.definition.axes[always].len() - 1);
                if self.seen.contains(&point) {
                    continue;
                }
                return Some(point);
            }
            for (axis, at) in point.iter_mut().enumerate() {
                if axis == always || self.below(4) == 0 {
                    *at = self.moved(axis, *at);
                }
            }
            if !self.seen.contains(&point) {
                return Some(point);
            }
        }
        None
    }

    /// Returns true if the values of an axis have an order.
    fn is_ordered(&self, axis: usize) -> bool {
        let axis = &self.definition.axes[axis];
        matches!(axis.values, Values::Range { .. }) || axis.is_numeric()
    }

    /// Returns another value of an axis: of words any, of numbers one at a distance that is small
    /// more often than large.
    fn moved(&mut self, axis: usize, from: usize) -> usize {
        let (count, is_ordered) = (self.definition.axes[axis].len(), self.is_ordered(axis));
        if count < 2 {
            return from;
        }
        if !is_ordered {
            let other = self.below(count - 1);
            return if other >= from { other + 1 } else { other };
        }
        let halvings = self.below(count.ilog2() as usize + 1);
        let most = (count >> (halvings + 1)).max(1);
        let step = 1 + self.below(most);
        let up = from + step < count && (from < step || self.below(2) == 0);
        if up { from + step } else { from.saturating_sub(step) }
    }

    /// Runs the points of a generation, and adds their trials in order.
    fn generation(
        &mut self,
        points: Vec<Point>,
        interrupt: &Interrupt,
        listener: &dyn Listener,
    ) -> Result<(), Failure> {
        let first = self.definition.points.len();
        self.definition.points.extend(points);
        let label = format!("tune, {} trials done", self.trials.len());
        for (at, runs) in outcomes(&self.definition, first, interrupt, &*listener.begin(&label))?
            .into_iter()
            .enumerate()
        {
            let Some(runs) = runs else { continue };
            self.trials.push(self.trial(first + at, &runs));
            self.note(runs);
        }
        Ok(())
    }

    /// Keeps what is told of runs besides their figures.
    fn note(&mut self, runs: Vec<Outcome>) {
        for Outcome { error, warnings, rows } in runs {
            self.said.add(&warnings);
            if error.is_empty() {
                let has = |metric: &&&Metric| metric.value(&rows).is_some();
                self.found
                    .extend(self.goals.metrics().iter().filter(has).map(|metric| metric.name()));
                self.jobs.extend(rows.into_iter().map(|row| row.job));
            }
        }
    }

    fn trial(&self, point: usize, runs: &[Outcome]) -> Trial {
        let rows: Vec<&[FigureRow]> =
            runs.iter().map(|run| if run.error.is_empty() { &run.rows[..] } else { &[] }).collect();
        let mean = |metric: &Metric| {
            let values: Option<Vec<f64>> = rows.iter().map(|rows| metric.value(rows)).collect();
            Interval::from_samples(&values?)
        };
        let metrics = self.goals.metrics();
        let means: Option<Vec<Interval>> = metrics.iter().map(|metric| mean(metric)).collect();
        let Some(means) = means else {
            let failed = runs.iter().find(|run| !run.error.is_empty()).map(|run| run.error.clone());
            let lacks =
                || metrics.iter().find(|metric| mean(metric).is_none()).map(|metric| metric.name());
            let error = failed.unwrap_or_else(|| format!("has no {}", lacks().unwrap_or_default()));
            let (means, scores, goal_by_seed) = (Vec::new(), Vec::new(), Vec::new());
            return Trial { point, means, scores, goal_by_seed, missed: f64::INFINITY, error };
        };
        let value = |metric: &Metric| {
            metrics.iter().position(|own| *own == metric).map_or(0.0, |at| means[at].mean)
        };
        let scores = self
            .goals
            .all
            .iter()
            .map(|(metric, large)| if *large { value(metric) } else { -value(metric) });
        let missed = self.goals.bounds.iter().map(|bound| bound.missed(value(&bound.metric))).sum();
        let goal_by_seed = rows.iter().filter_map(|rows| self.goals.all[0].0.value(rows)).collect();
        Trial { point, scores: scores.collect(), goal_by_seed, missed, means, error: String::new() }
    }

    /// Returns what the user should know of the runs.
    pub fn warnings(&self) -> Vec<String> {
        self.failures().into_iter().chain(self.said.lines(&Said::default())).collect()
    }

    /// Returns how many trials failed, and why the first did; `None` if none failed.
    pub fn failures(&self) -> Option<String> {
        let mut failed = self.trials.iter().filter(|trial| !trial.error.is_empty());
        let first = failed.next()?;
        let (count, of, point) =
            (1 + failed.count(), self.trials.len(), self.definition.in_words(first.point));
        Some(format!("{count} of {of} trials failed, the first of them {point}: {}", first.error))
    }

    /// Refuses metrics that no run has, or that no run has together.
    ///
    /// # Errors
    /// There are such metrics.
    pub fn check_metrics(&self) -> Result<(), Failure> {
        if self.trials.iter().any(|trial| !trial.means.is_empty()) {
            return Ok(());
        }
        let all = self.goals.metrics();
        let missing: Vec<&Metric> =
            all.iter().copied().filter(|metric| !self.found.contains(&metric.name())).collect();
        for metric in &missing {
            let job = &metric.job;
            let count = self
                .jobs
                .iter()
                .filter(|name| name.rsplit_once('#').is_some_and(|(of, _)| of == job))
                .count();
            if count > 0 && job != ALL_JOBS {
                let (metric, job) = (metric.name(), job.clone());
                return Err(Failure::input(SweepError::SeveralJobs { metric, job, count }));
            }
        }
        let names =
            |of: &[&Metric]| of.iter().map(|metric| metric.name()).collect::<Vec<_>>().join(", ");
        let metrics =
            if missing.is_empty() { format!("all of {}", names(&all)) } else { names(&missing) };
        Err(Failure::input(SweepError::NoMetric { metrics }))
    }

    /// Returns the trials that no other is better than, best first.
    fn front(&self) -> Vec<usize> {
        let is_best = |trial: &Trial| !self.trials.iter().any(|other| other.beats(trial));
        let mut front: Vec<usize> =
            (0..self.trials.len()).filter(|&at| is_best(&self.trials[at])).collect();
        front.sort_by(|&a, &b| self.order(a, b));
        front
    }

    /// Orders trials: bounds first, then the first goal, then as they were made.
    fn order(&self, a: usize, b: usize) -> Ordering {
        again::order(&self.trials[a], &self.trials[b]).then(a.cmp(&b))
    }

    /// Returns what is shown: the front of two goals, or the best few of one.
    fn best(&self) -> Vec<usize> {
        if self.goals.all.len() > 1 {
            return self.front();
        }
        let mut all: Vec<usize> =
            (0..self.trials.len()).filter(|&at| !self.trials[at].means.is_empty()).collect();
        all.sort_by(|&a, &b| self.order(a, b));
        all.truncate(ROWS);
        all
    }

    /// Returns true if a trial keeps all bounds, with other seeds too.
    pub fn keeps_bounds(&self) -> bool {
        let found = self.trials.iter().any(|trial| trial.missed == 0.0);
        found && (self.again.all.is_empty() || self.again.keeps_bounds())
    }

    fn command(&self, trial: usize) -> Result<String, Failure> {
        self.definition.command(self.trials[trial].point * self.definition.seeds.len())
    }

    /// Returns the report. `is_whole`: the whole space was tried.
    ///
    /// # Errors
    /// The command of a trial cannot be written.
    pub fn document(&self, is_whole: bool) -> Result<Document, Failure> {
        let mut document = Document::new(&format!("Tuning of {}", self.definition.job.display()));
        let word = |(metric, large): &(Metric, bool)| {
            format!("{} {}", if *large { "maximise" } else { "minimise" }, metric.name())
        };
        let goals: Vec<String> = self.goals.all.iter().map(word).collect();
        let bounds: Vec<String> = self.goals.bounds.iter().map(Bound::in_words).collect();
        let subject = if bounds.is_empty() {
            String::new()
        } else {
            format!(", subject to {}", bounds.join(" and "))
        };
        let how = if is_whole {
            "all points of the space"
        } else {
            "a search; another --seed may find better"
        };
        let (trials, seeds) = (self.trials.len(), self.definition.seeds.len());
        document.paragraph(format!(
            "{}{subject}: {trials} trials of {} each ({}), {how}. elevon {}.",
            goals.join(", "),
            counted(seeds as u64, "run"),
            seeds_in_words(&self.definition.seeds),
            env!("CARGO_PKG_VERSION")
        ));
        for warning in self.warnings() {
            document.paragraph(format!("Warning: {warning}"));
        }
        let best = self.best();
        let Some(&first) = best.first() else { return Ok(document) };
        if !self.keeps_bounds() {
            document.paragraph("No trial meets the bounds; these miss them least.");
        }
        let metrics = self.goals.metrics();
        if metrics.len() > 1 {
            document.plot(self.plot(&best, metrics[0], metrics[1]));
        }
        if self.goals.all.len() == 1 {
            document.heading(if self.keeps_bounds() { "The best" } else { "The nearest" });
            self.again_in(&mut document, &metrics);
            document.command(self.command(self.answer().unwrap_or(first))?);
            document.heading("What the search saw");
            document.table(self.table(&best, &metrics));
        } else {
            self.front_in(&mut document, &best, &metrics)?;
        }
        Ok(document)
    }

    /// Adds the front of two goals, with the command of each of its ends.
    fn front_in(
        &self,
        document: &mut Document,
        front: &[usize],
        metrics: &[&Metric],
    ) -> Result<(), Failure> {
        document.heading("No other trial is better in both");
        document.table(self.table(&front[..front.len().min(FRONT)], metrics));
        if front.len() > FRONT {
            document.paragraph(format!(
                "And {} more between these and the last; --output-format json has all.",
                front.len() - FRONT
            ));
        }
        self.again_in(document, metrics);
        // They are in the order of the first goal, and so in the opposite order of the second.
        let ends = front.iter().take(1).chain(front[1..].last());
        for ((metric, _), &end) in self.goals.all.iter().zip(ends) {
            let of = if front.len() == 1 { "both".to_owned() } else { metric.title() };
            document.paragraph(format!("Best in {of}:"));
            document.command(self.command(end)?);
        }
        Ok(())
    }

    /// Returns trials with their values and figures.
    fn table(&self, trials: &[usize], metrics: &[&Metric]) -> Table {
        let mut table = self.header(metrics);
        table.rows = trials.iter().map(|&at| self.row(&self.trials[at], metrics)).collect();
        table
    }

    /// Returns every trial by two metrics, with the best apart. The front of two goals is a line.
    fn plot(&self, best: &[usize], y: &Metric, x: &Metric) -> Plot {
        let is_front = self.goals.all.len() > 1;
        let front: BTreeSet<usize> =
            best.iter().copied().take(if is_front { best.len() } else { 1 }).collect();
        let series = |name: &str, colour: usize, of: &dyn Fn(usize) -> bool| {
            let taken =
                (0..self.trials.len()).filter(|&at| self.trials[at].means.len() > 1 && of(at));
            let mut points: Vec<(f64, f64)> = taken
                .map(|at| (self.trials[at].means[1].mean, self.trials[at].means[0].mean))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            Series { name: name.to_owned(), colour, points, ..Series::default() }
        };
        let name = if is_front { "front" } else { "best" };
        let all = [
            series("misses a bound", 5, &|at| self.trials[at].missed > 0.0 && !front.contains(&at)),
            series("tried", 0, &|at| self.trials[at].missed == 0.0 && !front.contains(&at)),
            Series { is_joined: is_front, ..series(name, 1, &|at| front.contains(&at)) },
        ];
        let axis = |metric: &Metric, of: fn(&(f64, f64)) -> f64| PlotAxis {
            title: metric.title(),
            scale: scale_of(all.iter().flat_map(|series| &series.points).map(of)),
            unit: metric.unit(),
        };
        Plot {
            title: format!("{} against {}", y.title(), x.title()),
            description: if is_front {
                "A dot for each trial; a line joins those that no other is better than in both."
                    .to_owned()
            } else {
                "A dot for each trial.".to_owned()
            },
            mark: Mark::Points,
            x: axis(x, |point| point.0),
            y: axis(y, |point| point.1),
            series: all.into_iter().filter(|series| !series.points.is_empty()).collect(),
        }
    }

    /// Returns the figures of a trial, for programs.
    fn figures_json(&self, trial: &Trial, metrics: &[&Metric]) -> Map<String, Value> {
        let of_metrics = metrics.iter().zip(&trial.means);
        let one = |mean: &Interval| json!({"mean": mean.mean, "half_width_95": mean.half_width});
        of_metrics.map(|(metric, mean)| (metric.name(), one(mean))).collect()
    }

    /// Returns the report for programs.
    ///
    /// # Errors
    /// The command of a trial cannot be written.
    pub fn json(&self) -> Result<String, Failure> {
        let metrics = self.goals.metrics();
        let mut best = self.best();
        if let Some(answer) = self.answer().filter(|_| self.goals.all.len() == 1) {
            best.retain(|&trial| trial != answer);
            best.insert(0, answer);
        }
        let trial = |at: usize| -> Result<Value, Failure> {
            let trial = &self.trials[at];
            let values = self.definition.values(trial.point);
            let point: Map<String, Value> = self
                .definition
                .axes
                .iter()
                .zip(values)
                .map(|(axis, value)| (axis.key.clone(), json!(value)))
                .collect();
            let figures = self.figures_json(trial, &metrics);
            let meets = trial.missed == 0.0;
            let (error, command) = (&trial.error, self.command(at)?);
            Ok(json!({
                "point": point, "error": error, "figures": figures, "meets_bounds": meets, "command": command
            }))
        };
        let all = (0..self.trials.len()).map(trial).collect::<Result<Vec<_>, _>>()?;
        Ok(format!(
            "{:#}\n",
            json!({
                "elevon": env!("CARGO_PKG_VERSION"),
                "command": self.definition.shared(),
                "seeds": self.definition.seeds,
                "warnings": self.warnings(),
                "best": best,
                "again": self.again_json(&metrics),
                "trials": all,
            })
        ))
    }
}

/// Runs the points from number `first` on with every seed. Returns the outcomes by point; `None` if
/// an interrupt cut a run off.
fn outcomes(
    definition: &Definition,
    first: usize,
    interrupt: &Interrupt,
    steps: &dyn Steps,
) -> Result<Vec<Option<Vec<Outcome>>>, Failure> {
    let seeds = definition.seeds.len();
    let numbers: Vec<usize> = (first * seeds..definition.points.len() * seeds).collect();
    let mut outcomes: Vec<Option<Outcome>> = vec![None; numbers.len()];
    steps.expect(numbers.len() as u64);
    on_all_cores(
        &numbers,
        None,
        interrupt,
        |run| {
            runs::one(definition, run, interrupt)
                .map_err(|failure| runs::at_point(definition, run / seeds, failure))
        },
        |run, outcome| {
            steps.advance();
            outcomes[run - first * seeds] = Some(outcome);
            Ok(())
        },
    )?;
    Ok(outcomes
        .chunks_mut(seeds)
        .map(|of_point| of_point.iter_mut().map(Option::take).collect())
        .collect())
}
