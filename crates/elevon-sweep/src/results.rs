//! Writes the results of a sweep: the table, the summary, the page.

use std::collections::BTreeMap;
use std::path::Path;

use elevon_plan::failure::Failure;
use elevon_plan::listener::Listener;
use elevon_plan::output::NewFile;
use elevon_report::figures::{ALL_JOBS, FigureRow};

use crate::definition::Definition;
use crate::journal::Outcome;
use crate::said::Said;
use crate::summary::{Results, Samples};
use crate::table::{Row, Table, of_table};

/// The files of the results.
pub(crate) const FILES: [&str; 5] =
    ["results.csv", "results.jsonl", "results.parquet", "summary.txt", "index.html"];

/// The results of a sweep in all their forms.
pub(crate) struct Rendered {
    /// The files of the folder, by name.
    pub(crate) files: Vec<(&'static str, Vec<u8>)>,
    /// The summary as text and as JSON.
    pub(crate) summary: String,
    pub(crate) json: String,
    pub(crate) table: Table,
}

impl Rendered {
    pub(crate) fn new(
        definition: &Definition,
        done: &BTreeMap<usize, Outcome>,
    ) -> Result<Self, Failure> {
        let table = table(definition, done)?;
        let failure =
            |name: &str, error: std::io::Error| NewFile::failure("", Path::new(name), error);
        let csv = table.csv().map_err(|error| failure("results.csv", of_table(error)))?;
        let (jobs, samples) = samples(definition, done);
        let results = Results {
            title: format!("Sweep of {}", definition.job.display()),
            noun: "point",
            axes: &definition.axes,
            points: &definition.points,
            seeds: &definition.seeds,
            command: &definition.shared(),
            warnings: &said(done).lines(&Said::default()),
            jobs: &jobs,
            samples: &samples,
            compare: definition.compare,
            failed: done.values().filter(|outcome| !outcome.error.is_empty()).count(),
        };
        let document = results.document();
        let summary = document.text();
        let [name_csv, name_lines, name_parquet, name_summary, name_page] = FILES;
        let mut files = vec![(name_csv, csv), (name_lines, table.json_lines().into_bytes())];
        if let Some(parquet) = parquet(&table) {
            let parquet = parquet.map_err(|error| failure(name_parquet, error))?;
            files.push((name_parquet, parquet));
        }
        files.push((name_summary, summary.clone().into_bytes()));
        files.push((name_page, document.html("simulated").into_bytes()));
        Ok(Self { files, summary, json: results.json(), table })
    }
}

/// Returns the table as Parquet, or `None` if this build has no Parquet.
#[cfg(feature = "parquet")]
fn parquet(table: &Table) -> Option<std::io::Result<Vec<u8>>> {
    Some(table.to_parquet())
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: &Table) -> Option<std::io::Result<Vec<u8>>> {
    None
}

fn said(done: &BTreeMap<usize, Outcome>) -> Said {
    let mut said = Said::default();
    done.values().for_each(|outcome| said.add(&outcome.warnings));
    said
}

/// Writes everything into a folder. `before` has the warnings that were told before the runs.
pub(crate) fn write(
    definition: &Definition,
    done: &BTreeMap<usize, Outcome>,
    folder: &Path,
    before: &Said,
    listener: &dyn Listener,
) -> Result<Rendered, Failure> {
    let rendered = Rendered::new(definition, done)?;
    listener.warn(&said(done).lines(before));
    for (name, content) in &rendered.files {
        NewFile::create("", &folder.join(name))?.commit(content)?;
    }
    Ok(rendered)
}

/// Returns the names of the figures, in the order in which runs first have them.
fn figures_of(done: &BTreeMap<usize, Outcome>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in done.values().flat_map(|outcome| &outcome.rows) {
        // A figure that only some rows have stands after the one that it follows there.
        let mut after = 0;
        for (name, _) in &row.figures {
            after = match names.iter().position(|known| known == name) {
                Some(at) => at + 1,
                None => {
                    names.insert(after, name.clone());
                    after + 1
                }
            };
        }
    }
    names
}

fn table(definition: &Definition, done: &BTreeMap<usize, Outcome>) -> Result<Table, Failure> {
    let figures = figures_of(done);
    let mut rows = Vec::new();
    for (&run, outcome) in done {
        let (point, seed) = definition.run(run);
        let command = definition.command(run)?;
        let of = |job: &str, figures: Vec<Option<f64>>| Row {
            run,
            point: definition.values(point),
            seed,
            job: job.to_owned(),
            error: outcome.error.clone(),
            figures,
            command: command.clone(),
        };
        for row in &outcome.rows {
            let values: BTreeMap<&str, f64> =
                row.figures.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            rows.push(of(
                &row.job,
                figures.iter().map(|name| values.get(name.as_str()).copied()).collect(),
            ));
        }
        if outcome.rows.is_empty() {
            rows.push(of(ALL_JOBS, vec![None; figures.len()]));
        }
    }
    Ok(Table { axes: definition.axes.iter().map(|axis| axis.key.clone()).collect(), figures, rows })
}

/// Returns the jobs in order, and their figures by point and seed. Runs that failed count nowhere.
fn samples(definition: &Definition, done: &BTreeMap<usize, Outcome>) -> (Vec<String>, Samples) {
    let mut collected = Collected::new(definition.points.len(), definition.seeds.len());
    for (&run, outcome) in done.iter().filter(|(_, outcome)| outcome.error.is_empty()) {
        collected.add(run, &outcome.rows);
    }
    collected.finish()
}

/// Figures of runs by point and seed, as they are collected.
pub struct Collected {
    points: usize,
    seeds: usize,
    jobs: Vec<String>,
    samples: Samples,
}

impl Collected {
    /// Returns none yet, of runs of so many points with so many seeds each.
    pub fn new(points: usize, seeds: usize) -> Self {
        Self { points, seeds, jobs: Vec::new(), samples: Samples::new() }
    }

    /// Adds a run; runs are numbered point by point.
    pub fn add(&mut self, run: usize, rows: &[FigureRow]) {
        let (point, seed) = (run / self.seeds, run % self.seeds);
        for row in rows {
            if !self.jobs.contains(&row.job) {
                self.jobs.push(row.job.clone());
            }
            for (name, value) in &row.figures {
                let empty = || vec![vec![None; self.seeds]; self.points];
                let key = (row.job.clone(), name.clone());
                self.samples.entry(key).or_insert_with(empty)[point][seed] = Some(*value);
            }
        }
    }

    /// Returns the names of the jobs, all together last, and the figures.
    pub fn finish(mut self) -> (Vec<String>, Samples) {
        self.jobs.sort_by_key(|job| job == ALL_JOBS);
        (self.jobs, self.samples)
    }
}
