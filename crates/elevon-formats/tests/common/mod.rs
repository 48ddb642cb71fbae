//! Jobs from strings, and the fio that is installed, if one is.
#![allow(dead_code)]

use elevon_formats::fio::{JobSpec, MemorySource, ParsedJobs, parse};
use std::process::Output;

/// Parses one file called `job.fio`.
pub(crate) fn parsed(text: &str) -> Result<ParsedJobs, Vec<String>> {
    parse(&mut MemorySource::one("job.fio", text), "job.fio")
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// The one job made of these options.
pub(crate) fn job(options: &str) -> JobSpec {
    let parsed = parsed(&format!("[a]\n{options}\n")).unwrap_or_else(|errors| panic!("{options}: {errors:?}"));
    parsed.jobs.into_iter().next().expect("one section is one job")
}

/// The errors of a job made of these options; line 1 is `[a]`.
pub(crate) fn errors(options: &str) -> Vec<String> {
    parsed(&format!("[a]\n{options}\n")).err().unwrap_or_default()
}

/// The warnings of a job made of these options.
pub(crate) fn warnings(options: &str) -> Vec<String> {
    let parsed =
        parsed(&format!("[a]\ndirect=1\n{options}\n")).unwrap_or_else(|errors| panic!("{options}: {errors:?}"));
    parsed.warnings.iter().map(ToString::to_string).collect()
}

/// Runs fio; `None` (and a line that says so) where there is none.
pub(crate) fn fio(arguments: &[&str]) -> Option<Output> {
    Some(elevon_testkit::tool("fio")?.args(arguments).output().expect("fio starts"))
}
