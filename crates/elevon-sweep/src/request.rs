//! What a sweep is, as a user or a program gives it.

use std::path::PathBuf;

use elevon_plan::options::StackOptions;

/// A sweep as a user gives it.
#[derive(Clone, Debug, Default)]
pub struct SweepRequest {
    /// The job file, or a plan in TOML, which names one.
    pub input: PathBuf,
    /// What varies, each `KEY=VALUES`.
    pub over: Vec<String>,
    /// A number of seeds, or a list of them; `None` for that of the options.
    pub seeds: Option<String>,
    /// A sample of the points: `latin:N` or `sobol:N`; `None` for all.
    pub sample: Option<String>,
    /// The value with which the others of its axis are compared: `AXIS=VALUE`.
    pub compare: Option<String>,
    /// A part of the runs: `I/N`; `None` for all.
    pub shard: Option<String>,
    /// Runs at a time; `None` for one on each core.
    pub threads: Option<u16>,
    /// Folder of the results; `None` for one that is named after the job file.
    pub output: Option<PathBuf>,
    /// What all runs share.
    pub stack: StackOptions,
}

/// The values of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// As `elevon sweep --over` takes them: `1..256:*2`, `4k,64k`.
    Text(String),
    /// Each value as a word.
    List(Vec<String>),
}
