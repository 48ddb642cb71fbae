//! A case in Elevon.

use elevon_core::units::Nanos;
use elevon_formats::fio::{MemorySource, parse};
use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::{Watch, execute};
use elevon_plan::failure::{Ending, Failure};
use elevon_plan::options::StackOptions;
use elevon_plan::plan::Plan;
use elevon_workload::run::NoObserver;

use super::case::Case;
use super::events::Keeper;
use super::figures::{GROUP_COUNTERS, Measured, ProcessFigures};

/// Runs a case in Elevon, by the rules of a kernel version.
///
/// # Errors
/// Elevon refuses the case, or a process ends with an error.
pub fn run(case: &Case, kernel: &str) -> Result<Measured, String> {
    let mut keeper = Keeper::default();
    let watch: &mut dyn Watch = if case.is_traced() { &mut keeper } else { &mut NoObserver };
    let mut measured = run_with(case, &case.options(kernel), &case.tenants_file(), watch)?;
    measured.events = keeper.into_events();
    Ok(measured)
}

/// Runs a case without its scheduler and tenants: what it does where nothing decides.
///
/// # Errors
/// As of [`run`].
pub fn run_plain(case: &Case, kernel: &str) -> Result<Measured, String> {
    let mut plain = case.clone();
    plain.scheduler = "none".into();
    plain.tunables.clear();
    plain.queue.retain(|(name, _)| name == "max_sectors_kb");
    plain.tenants.clear();
    plain.cost.clear();
    for process in &mut plain.processes {
        process.cgroup.clear();
        process.buffered = false;
    }
    run_with(&plain, &plain.options(kernel), "", &mut NoObserver)
}

fn run_with(
    case: &Case,
    options: &[String],
    tenants: &str,
    watch: &mut dyn Watch,
) -> Result<Measured, String> {
    let failed = |failure: Failure| format!("case {}: {failure}", case.seed);
    let name = "case.fio";
    let text = case.job_file();
    let mut source = MemorySource::one(name, &text);
    let jobs = parse(&mut source, name).map_err(Failure::text).map_err(failed)?;
    let options = StackOptions::default()
        .with_words(options.iter().cloned())
        .map_err(|error| format!("case {}: {error}", case.seed))?;
    let mut plan = Plan::of_jobs(jobs, name, &options, None).map_err(failed)?;
    if let Some(cache) = &mut plan.cache {
        // Only before a direct I/O does a process of the guest take time.
        cache.cost.bio = Some(Nanos::ZERO);
        // User-mode Linux has no huge pages, so the guest's page cache has no folios of several
        // pages.
        cache.use_single_pages();
    }
    if !tenants.is_empty() {
        plan.set_tenants(tenants).map_err(failed)?;
    }
    let (result, ending) = execute(&plan, watch, &Interrupt::new()).map_err(failed)?;
    if ending != Ending::Done {
        return Err(format!("case {}: the run ended with {ending:?}", case.seed));
    }
    let processes = result.jobs.iter().map(|job| {
        let direction = job.stats.directions.iter().max_by_key(|direction| direction.ios);
        let direction = direction.expect("three directions");
        let percentile = |millionths| direction.lat.percentile(millionths).unwrap_or(0);
        ProcessFigures { ios: direction.ios, p50: percentile(500_000), p99: percentile(990_000) }
    });
    let (start, end) = (result.disk.start.fields(), result.disk.end.fields());
    let stat = end.iter().zip(start).map(|(end, start)| end.saturating_sub(start));
    // The counters of a tenant's `io.stat`, in the order of `GROUP_COUNTERS`.
    let counters = |path: &str| {
        let mut tenants = result.tenants.iter();
        let tenant = tenants.find(|tenant| tenant.path.trim_start_matches('/') == path);
        tenant.map_or([0; GROUP_COUNTERS.len()], |tenant| {
            let ([read, write, discard], [reads, writes, discards]) =
                (tenant.io.bytes, tenant.io.ios);
            [read, write, reads, writes, discard, discards]
        })
    };
    Ok(Measured {
        processes: processes.collect(),
        stat: stat.collect(),
        groups: case.tenants.iter().map(|tenant| counters(&tenant.path)).collect(),
        tag_hint: case.tag_hint,
        events: Vec::new(),
    })
}
