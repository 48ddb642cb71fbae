//! Runs and sweeps for programs, in this language or another: what `elevon run` and `elevon sweep`
//! do, with the results as values.
//!
//! Nothing is printed, no signal handler is installed, and the job files may be texts in memory.
//!
//! ```
//! use elevon_sweep::lab::{Interrupt, RunEnding, Texts, run};
//!
//! let job = "[reader]\nrw=randread\nbs=4k\niodepth=8\nnumber_ios=100\n";
//! let texts = Texts::from([("reader.fio".to_owned(), job.to_owned())]);
//! let options = ["--device".to_owned(), "hdd-7200".to_owned()];
//! let run = run(&["reader.fio".to_owned()], &options, texts, &Interrupt::new())?;
//! assert_eq!(run.ending, RunEnding::Done);
//! assert_eq!(run.series.ios[0].iter().sum::<u64>(), 100);
//! # Ok::<(), elevon_sweep::lab::LabError>(())
//! ```

mod sweep;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub use elevon_host::interrupt::Interrupt;
use elevon_report::json::{self, JsonOptions};
use elevon_result::result::Series;
use elevon_workload::run::NoObserver;

use elevon_plan::execute::execute;
use elevon_plan::failure::{Ending, Failure};
use elevon_plan::plan::Plan;
pub use sweep::{Column, Sweep, SweepResults, SweepSpec};

pub use crate::request::Over;

use elevon_plan::options::StackOptions;

/// Files in memory, by the names under which jobs are given; they hide files of the host.
pub type Texts = BTreeMap<String, String>;

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabError {
    /// The input is wrong: a line for each error, with its place and what would be right.
    #[error("{0}")]
    Input(String),
    /// The machine failed to do something.
    #[error("{0}")]
    Machine(String),
}

impl From<Failure> for LabError {
    fn from(failure: Failure) -> Self {
        let text = failure.to_string();
        let lines: Vec<&str> =
            text.lines().map(|line| line.strip_prefix("elevon: ").unwrap_or(line)).collect();
        let text = lines.join("\n");
        match failure {
            Failure::Input(_) => Self::Input(text),
            Failure::Output(_) | Failure::Machine(_) | Failure::Told(_) => Self::Machine(text),
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnding {
    /// Finished.
    Done,
    /// There were I/O errors that the job does not ignore, or the device stopped answering.
    Failed,
    /// Interrupted; the report covers what ran until then.
    Interrupted,
}

impl From<Ending> for RunEnding {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Done => Self::Done,
            Ending::Failed => Self::Failed,
            Ending::Interrupted(_) => Self::Interrupted,
        }
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Run {
    /// The report of `elevon run --output-format json+`: fio's JSON schema with one more object,
    /// `elevon`.
    pub report: String,
    /// The run over time.
    pub series: RunSeries,
    /// Warnings, a sentence each.
    pub warnings: Vec<String>,
    /// How it ended.
    pub ending: RunEnding,
}

/// A run over time, a value for each interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSeries {
    /// End of the interval, in nanoseconds from the start.
    pub at_ns: Vec<u64>,
    /// Bytes completed in it: reads, writes, trims.
    pub bytes: [Vec<u64>; 3],
    /// I/Os completed in it: reads, writes, trims.
    pub ios: [Vec<u64>; 3],
    /// Mean number of requests in flight.
    pub in_flight: Vec<f64>,
}

impl From<Series> for RunSeries {
    fn from(series: Series) -> Self {
        let mut columns = Self::default();
        for point in series.points {
            columns.at_ns.push(point.at.get());
            columns.in_flight.push(point.in_flight);
            for direction in 0..3 {
                columns.bytes[direction].push(point.bytes[direction]);
                columns.ios[direction].push(point.ios[direction]);
            }
        }
        columns
    }
}

/// Runs job files. `options` are words of `elevon run` that decide how I/O travels: `--device`,
/// `--scheduler`, `--set` and the like, each followed by its value; reports are no options here.
///
/// # Errors
/// The jobs or options are wrong, or a real device fails. A run with I/O errors is no error here:
/// its [`Run::ending`] says so.
pub fn run(
    jobs: &[String],
    options: &[String],
    texts: Texts,
    interrupt: &Interrupt,
) -> Result<Run, LabError> {
    let jobs: Vec<PathBuf> = jobs.iter().map(PathBuf::from).collect();
    let plan = Plan::of_texts(&jobs, &stack(options)?, Arc::new(texts))?;
    let (mut result, ending) = execute(&plan, &mut NoObserver, interrupt)?;
    let report = json::report(&result, JsonOptions { bins: true, series: true });
    let series = result.series.take().map(RunSeries::from).unwrap_or_default();
    Ok(Run { report, series, warnings: result.warnings, ending: ending.into() })
}

fn stack(options: &[String]) -> Result<StackOptions, Failure> {
    StackOptions::default().with_words(options.iter().cloned()).map_err(Failure::input)
}

#[cfg(test)]
mod tests;
