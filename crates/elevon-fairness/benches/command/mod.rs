//! Job files by the path of `elevon run` at its defaults.

use std::path::PathBuf;

use elevon_formats::fio::{MemorySource, parse};
use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::execute;
use elevon_plan::options::StackOptions;
use elevon_plan::plan::Plan;
use elevon_result::result::{JobResult, RunResult};
use elevon_workload::run::NoObserver;

/// Returns the I/Os of each job of a file on a device, in their order, as `elevon run` does them.
pub(crate) fn ios(text: &str, device: &str, scheduler: &str) -> Vec<u64> {
    ios_of_tenants(text, device, scheduler, None)
}

/// The same beside a file of tenants.
pub(crate) fn ios_of_tenants(
    text: &str,
    device: &str,
    scheduler: &str,
    tenants: Option<PathBuf>,
) -> Vec<u64> {
    let (_, result) = run(text, device, scheduler, tenants);
    let done = |job: &JobResult| job.stats.directions.iter().map(|direction| direction.ios).sum();
    result.jobs.iter().map(done).collect()
}

/// Runs a job file. Returns the plan and the result.
pub(crate) fn run(
    text: &str,
    device: &str,
    scheduler: &str,
    tenants: Option<PathBuf>,
) -> (Plan, RunResult) {
    let mut source = MemorySource::one("mix.fio", text);
    let jobs = parse(&mut source, "mix.fio").unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    let mut options = StackOptions::of_device(device);
    options.queue.scheduler = Some(scheduler.to_owned());
    options.queue.tenants = tenants;
    let plan = Plan::of_jobs(jobs, "mix.fio", &options, None);
    let plan = plan.unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    let run = execute(&plan, &mut NoObserver, &Interrupt::new());
    let (result, _) = run.unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    (plan, result)
}
