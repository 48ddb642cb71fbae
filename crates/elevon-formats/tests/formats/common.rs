//! Jobs parsed from strings, and the installed fio, if there is one.

use elevon_formats::fio::{JobSpec, MemorySource, ParsedJobs, parse};
use std::process::Output;

/// Parses a file called `job.fio`.
pub(crate) fn parsed(text: &str) -> Result<ParsedJobs, Vec<String>> {
    parse(&mut MemorySource::one("job.fio", text), "job.fio")
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// Returns the one job with these options.
pub(crate) fn job(options: &str) -> JobSpec {
    let parsed = parsed(&format!("[a]\n{options}\n"))
        .unwrap_or_else(|errors| panic!("{options}: {errors:?}"));
    parsed.jobs.into_iter().next().expect("one section is one job")
}

/// Returns the errors of a job with these options; line 1 is `[a]`.
pub(crate) fn errors(options: &str) -> Vec<String> {
    parsed(&format!("[a]\n{options}\n")).err().unwrap_or_default()
}

/// Returns the warnings of a job with these options.
pub(crate) fn warnings(options: &str) -> Vec<String> {
    let parsed = parsed(&format!("[a]\ndirect=1\n{options}\n"))
        .unwrap_or_else(|errors| panic!("{options}: {errors:?}"));
    parsed.warnings.iter().map(ToString::to_string).collect()
}

/// Runs fio. If it is not installed, prints a line that says so and returns `None`.
pub(crate) fn fio(arguments: &[&str]) -> Option<Output> {
    Some(elevon_testkit::tool("fio")?.args(arguments).output().expect("fio starts"))
}
