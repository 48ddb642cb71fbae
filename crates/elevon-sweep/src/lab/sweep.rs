//! Sweeps for programs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use elevon_plan::failure::Failure;
use elevon_plan::parallel::on_all_cores;
use elevon_report::figures::is_whole;
use serde_json::{Value, json};

use super::{Interrupt, LabError, Texts, stack};
use crate::definition::Definition;
use crate::error::SweepError;
use crate::journal::{Outcome, add_to};
use crate::request::Over;
use crate::results::Rendered;
use crate::runs::{Checked, check, one};
use crate::said::Said;

/// The key in the line of an outcome that has the checksum of its sweep.
const SWEEP: &str = "sweep";

/// What a sweep is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepSpec {
    /// The job file's name.
    pub job: String,
    /// Options that all runs share, as of [`run`](super::run).
    pub options: Vec<String>,
    /// What varies, in order: options of the stack, settings of the queue or options of jobs.
    pub over: Vec<(String, Over)>,
    /// A sample of the points in place of all: `latin:N` or `sobol:N`.
    pub sample: Option<String>,
    /// A number of seeds or a list of them, as `--seeds` takes it; without it the one of `--seed`.
    pub seeds: Option<String>,
    /// The value with which the others of its axis are compared: `scheduler=none`.
    pub compare: Option<String>,
    /// Files in memory.
    pub texts: Texts,
}

/// A sweep: its runs are numbered, and can be done in any order, anywhere.
#[derive(Clone, Debug)]
pub struct Sweep(Definition);

impl Sweep {
    /// Makes a sweep; the plan of each run is made when it is done, or by [`Self::check`].
    ///
    /// # Errors
    /// An axis, the sample or the seeds are wrong.
    pub fn new(spec: SweepSpec) -> Result<Self, LabError> {
        let base = stack(&spec.options)?;
        let texts = Arc::new(spec.texts);
        let definition = Definition::of_program(
            PathBuf::from(spec.job),
            base,
            &spec.over,
            spec.sample,
            spec.seeds.as_deref(),
            spec.compare,
            texts,
        )?;
        Ok(Self(definition))
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.0.runs()
    }

    /// Checks the plan of every point. Returns their warnings, each once; an interrupt ends it
    /// early.
    ///
    /// # Errors
    /// A point is wrong, or not simulated.
    pub fn check(&self, interrupt: &Interrupt) -> Result<Vec<String>, LabError> {
        let checked = check(&self.0, interrupt, &mut || {})?;
        Ok(checked.map(|Checked { said, .. }| said.lines(&Said::default())).unwrap_or_default())
    }

    /// Does runs on `threads` threads (by default one on each core), and hands the number and the
    /// outcome of each, a line of JSON, to `took`, in the order in which they end. An interrupt
    /// ends it early.
    ///
    /// # Errors
    /// A number is too large, or the plan of a run is wrong. A run that fails has an outcome that
    /// says so.
    pub fn run_all(
        &self,
        numbers: &[usize],
        threads: Option<u16>,
        interrupt: &Interrupt,
        mut took: impl FnMut(usize, String) + Send,
    ) -> Result<(), LabError> {
        let runs = self.runs();
        if let Some(number) = numbers.iter().find(|&&number| number >= runs) {
            return Err(LabError::Input(format!("run {number}: there are {runs}, the first is 0")));
        }
        let checksum = self.0.checksum();
        let work = |number: usize| one(&self.0, number, interrupt);
        on_all_cores(numbers, threads, interrupt, work, |number, outcome| {
            let mut line = outcome.to_json(number);
            line[SWEEP] = json!(checksum);
            took(number, line.to_string());
            Ok(())
        })?;
        Ok(())
    }

    /// Puts outcomes together, whatever their order. The results are those of one machine, byte for
    /// byte.
    ///
    /// # Errors
    /// A line is no outcome of this sweep, two are of one run and differ, or a run is missing.
    pub fn results<'o>(
        &self,
        outcomes: impl IntoIterator<Item = &'o str>,
    ) -> Result<SweepResults, LabError> {
        let mut done: BTreeMap<usize, Outcome> = BTreeMap::new();
        let checksum = json!(self.0.checksum());
        for line in outcomes {
            let value: Option<Value> = serde_json::from_str(line).ok();
            let value = value.filter(|value| value.get(SWEEP) == Some(&checksum));
            let (run, outcome) = value
                .and_then(|value| Outcome::of_json(&value))
                .filter(|(run, _)| *run < self.runs())
                .ok_or_else(|| LabError::Input("an outcome is not one of this sweep".to_owned()))?;
            add_to(&mut done, run, outcome).map_err(Failure::input)?;
        }
        let missing: Vec<usize> = (0..self.runs()).filter(|run| !done.contains_key(run)).collect();
        if let Some(&first) = missing.first() {
            let error = SweepError::Missing { missing: missing.len(), of: self.runs(), first };
            return Err(Failure::input(error).into());
        }
        Ok(SweepResults::new(Rendered::new(&self.0, &done)?))
    }
}

/// A column of the table of results.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Whole numbers: of runs, of seeds, and figures that are counts or times and that every job
    /// has.
    Count(Vec<u64>),
    /// Words.
    Text(Vec<String>),
    /// Other figures; NaN where a job does not have the figure.
    Figure(Vec<f64>),
}

/// The results of a sweep.
#[derive(Clone, Debug)]
pub struct SweepResults {
    /// The files that `elevon sweep` writes, by name: `results.csv`, `results.jsonl`,
    /// `results.parquet`, `summary.txt`, `index.html`.
    pub files: Vec<(&'static str, Vec<u8>)>,
    /// The summary as text.
    pub summary: String,
    /// The summary as JSON: each figure's mean over the seeds with its 95 % interval, and the
    /// differences of pairs.
    pub json: String,
    /// The table of results, a row for each job of each run.
    pub columns: Vec<(String, Column)>,
}

impl SweepResults {
    fn new(rendered: Rendered) -> Self {
        let Rendered { files, summary, json, table } = rendered;
        let rows = &table.rows;
        let text = |of: &dyn Fn(usize) -> String| Column::Text((0..rows.len()).map(of).collect());
        let mut columns = vec![(
            "run".to_owned(),
            Column::Count(rows.iter().map(|row| row.run as u64).collect()),
        )];
        for (at, axis) in table.axes.iter().enumerate() {
            columns.push((axis.clone(), text(&|row| rows[row].point[at].clone())));
        }
        columns.push(("seed".to_owned(), Column::Count(rows.iter().map(|row| row.seed).collect())));
        columns.push(("job".to_owned(), text(&|row| rows[row].job.clone())));
        columns.push(("error".to_owned(), text(&|row| rows[row].error.clone())));
        for (at, name) in table.figures.iter().enumerate() {
            let all: Option<Vec<f64>> = rows.iter().map(|row| row.figures[at]).collect();
            let column = match all.filter(|_| is_whole(name)) {
                Some(all) => Column::Count(all.into_iter().map(|value| value as u64).collect()),
                None => Column::Figure(
                    rows.iter().map(|row| row.figures[at].unwrap_or(f64::NAN)).collect(),
                ),
            };
            columns.push((name.clone(), column));
        }
        columns.push(("command".to_owned(), text(&|row| rows[row].command.clone())));
        Self { files, summary, json, columns }
    }
}
