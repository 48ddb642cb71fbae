//! What each job of a run got of its slice, and why a job has less than is promised.
//!
//! The slice follows from what the job gets alone, so each job is run again alone. If a job has
//! less than [`PROMISED`] of its slice, all are run again together. Each is then held to a little
//! more than that part of its slice, so that no job takes what another is promised. No CPU time of
//! a scheduler is charged then. If every job has its part there, the scheduler of the run missed
//! it. If not, none of these runs got it from the device, and the device is named.

use elevon_core::sched::SchedulerConfig;
use elevon_core::stats::LatencyStat;
use elevon_formats::fio::spec::{JobSpec, Logs, Timing};
use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::execute;
use elevon_plan::failure::{Ending, Failure};
use elevon_plan::parallel::on_all_cores;
use elevon_plan::plan::Plan;
use elevon_report::fairness::parts_of_weights;
use elevon_result::number::span;
use elevon_result::result::{JobResult, RunResult, TenantResult};
use elevon_result::slice::{Lacks, PROMISED, Shortfall, Slice};
use elevon_result::summary::{ratio, shown_latency};
use elevon_workload::cpu::SchedulerCost;
use elevon_workload::run::NoObserver;

/// Schedulers under which the jobs are held to their slices. A disk needs one that gathers requests
/// that lie together.
const TRIED: [&str; 3] = ["none", "aileron", "bfq:low_latency=0"];

/// The part of its slice to which each job is held.
const HELD: f64 = 0.92;

/// Returns the slices of a run of `aileron` on a simulated device; none if the run had another
/// scheduler, a page cache or one job, or if the user interrupts it.
///
/// # Errors
/// A run of a part of the jobs fails.
pub fn slices(plan: &Plan, run: &RunResult, interrupt: &Interrupt) -> Result<Vec<Slice>, Failure> {
    let promises = plan.scheduler.name == "aileron" && !plan.is_real();
    let has_jobs = plan.replay.is_none() && plan.cache.is_none();
    if !promises || !has_jobs || run.jobs.len() < 2 {
        return Ok(Vec::new());
    }
    let again = Again { plan, members: members(&plan.jobs.jobs, run) };
    let all: Vec<usize> = (0..run.jobs.len()).collect();
    let Some(alone) = runs(&all, interrupt, |at| again.alone(at, interrupt))? else {
        return Ok(Vec::new());
    };
    let slice = |(job, part): (usize, f64)| {
        let (alone, got) = (rate(&alone[job]), rate(&run.jobs[job]));
        Slice { job, alone, part, got, shortfall: None }
    };
    let parts = parts_of_weights(&run.jobs);
    let mut slices: Vec<Slice> = parts.into_iter().enumerate().map(slice).collect();
    let short: Vec<usize> =
        all.into_iter().filter(|&at| slices[at].of_slice() < PROMISED).collect();
    if short.is_empty() {
        return Ok(slices);
    }
    let tried: Vec<usize> = (0..TRIED.len()).collect();
    let held = runs(&tried, interrupt, |at| again.held(TRIED[at], &slices, &alone, interrupt))?;
    let Some(held) = held else { return Ok(Vec::new()) };
    let best = Held::best(&held, &slices);
    for at in short {
        let said = said_by_run(run, &slices[at]);
        slices[at].shortfall = Some(said.unwrap_or_else(|| best.reason(at, &alone)));
    }
    Ok(slices)
}

/// Does `work` for each of some jobs on all cores; `None` if the user interrupts it.
fn runs<T: Send>(
    jobs: &[usize],
    interrupt: &Interrupt,
    work: impl Fn(usize) -> Result<Option<T>, Failure> + Sync,
) -> Result<Option<Vec<T>>, Failure> {
    let mut found: Vec<(usize, T)> = Vec::new();
    let numbered = |at| Ok(work(at)?.map(|of| (at, of)));
    on_all_cores(jobs, None, interrupt, numbered, |_, of| {
        found.push(of);
        Ok(())
    })?;
    found.sort_by_key(|of| of.0);
    let is_whole = found.len() == jobs.len();
    Ok(is_whole.then(|| found.into_iter().map(|of| of.1).collect()))
}

/// Returns the sections of each entry of a result, and how many processes of each are in it.
fn members(specs: &[JobSpec], run: &RunResult) -> Vec<Vec<(usize, u32)>> {
    let mut processes =
        (0..specs.len()).flat_map(|at| std::iter::repeat_n(at, specs[at].numjobs as usize));
    let entry = |job: &JobResult| {
        let mut own: Vec<(usize, u32)> = Vec::new();
        for spec in processes.by_ref().take(job.members as usize) {
            match own.last_mut().filter(|last| last.0 == spec) {
                Some(last) => last.1 += 1,
                None => own.push((spec, 1)),
            }
        }
        own
    };
    run.jobs.iter().map(entry).collect()
}

/// I/Os of a job in each direction.
fn ios(job: &JobResult) -> [u64; 3] {
    [0, 1, 2].map(|at| job.stats.directions[at].ios)
}

fn seconds(job: &JobResult) -> f64 {
    let ran = job.stats.directions.iter().map(|of| of.runtime_ns).max().unwrap_or(0);
    ran as f64 / 1e9
}

/// I/Os of a job in a second.
fn rate(job: &JobResult) -> f64 {
    ratio(ios(job).iter().sum::<u64>() as f64, seconds(job))
}

/// Mean latency of a job's I/Os, in nanoseconds.
fn latency(job: &JobResult) -> f64 {
    let of = |stat: &LatencyStat| (stat.count as f64, stat.sum as f64);
    let all = job.stats.directions.iter().map(|own| of(shown_latency(own)));
    let (count, sum) = all.fold((0.0, 0.0), |all, own| (all.0 + own.0, all.1 + own.1));
    ratio(sum, count)
}

/// The quickest of a job's I/Os, in nanoseconds.
fn quickest(job: &JobResult) -> u64 {
    let all = job.stats.directions.iter().map(shown_latency);
    all.filter(|stat| stat.count > 0).map(|stat| stat.min).min().unwrap_or(0)
}

/// Returns the reason that the run itself shows, if it does. Limits are none: a job has them alone,
/// too.
fn said_by_run(run: &RunResult, slice: &Slice) -> Option<Shortfall> {
    let job = &run.jobs[slice.job];
    let claim = job.claim.as_ref()?;
    let is_above = |tenant: &&TenantResult| claim.cgroups.iter().any(|of| of.0 == tenant.path);
    let mut others = run.tenants.iter().filter(|tenant| !is_above(tenant));
    let reserve = others.find(|tenant| tenant.reserve_missed.is_some())?;
    let words = format!("The reserve of {} goes first.", reserve.path);
    Some(Shortfall { cause: Lacks::Reserve, words })
}

/// The run, to be repeated in parts.
struct Again<'a> {
    plan: &'a Plan,
    /// Sections of each entry of the result, and their processes.
    members: Vec<Vec<(usize, u32)>>,
}

impl Again<'_> {
    /// Returns the plan with other jobs, which write no logs, under another scheduler, of which no
    /// CPU time is charged.
    fn plan(&self, jobs: Vec<JobSpec>, scheduler: SchedulerConfig) -> Plan {
        let mut plan = self.plan.clone();
        plan.jobs.jobs = jobs;
        plan.jobs.jobs.iter_mut().for_each(|job| job.logs = Logs::default());
        plan.scheduler = scheduler;
        plan.cpu.scheduler = SchedulerCost::default();
        plan
    }

    /// Returns the processes of an entry as sections.
    fn sections(&self, entry: usize) -> impl Iterator<Item = JobSpec> {
        let section = |&(spec, numjobs): &(usize, u32)| JobSpec {
            numjobs,
            ..self.plan.jobs.jobs[spec].clone()
        };
        self.members[entry].iter().map(section)
    }

    /// Runs an entry alone, without a scheduler. Tenants are numbered by all sections, so the
    /// others are there, and end after one I/O.
    fn alone(&self, entry: usize, interrupt: &Interrupt) -> Result<Option<JobResult>, Failure> {
        let scheduler = SchedulerConfig::parse("none").map_err(Failure::input)?;
        let section = |(at, spec): (usize, &JobSpec)| {
            let own = self.members[entry].iter().find(|of| of.0 == at);
            match own {
                Some(&(_, numjobs)) => JobSpec { numjobs, ..spec.clone() },
                None => JobSpec {
                    numjobs: 1,
                    timing: Timing { number_ios: Some(1), ..Timing::default() },
                    order: JobSpec::default_job(&spec.name).order,
                    ..spec.clone()
                },
            }
        };
        let sections = self.plan.jobs.jobs.iter().enumerate().map(section).collect();
        let plan = self.plan(sections, scheduler);
        let name = &self.plan.jobs.jobs[self.members[entry][0].0].name;
        Ok(done(&plan, interrupt)?
            .and_then(|run| run.jobs.into_iter().find(|job| job.name == *name)))
    }

    /// Runs all jobs under a scheduler, each held to [`HELD`] of its slice; `None` if the user
    /// interrupts it.
    fn held(
        &self,
        scheduler: &str,
        slices: &[Slice],
        alone: &[JobResult],
        interrupt: &Interrupt,
    ) -> Result<Option<RunResult>, Failure> {
        let entry = |at: usize| {
            let processes: u32 = self.members[at].iter().map(|of| of.1).sum();
            let of_process = HELD * slices[at].part / f64::from(processes.max(1));
            let limit = |ios: u64| {
                let rate = ratio(ios as f64, seconds(&alone[at])) * of_process;
                (ios > 0).then_some((rate.ceil() as u64).max(1))
            };
            let limits = ios(&alone[at]).map(limit);
            self.sections(at).map(move |mut section| {
                (section.rates.iops, section.rates.bytes) = (limits, [None; 3]);
                section
            })
        };
        let scheduler = SchedulerConfig::parse(scheduler).map_err(Failure::input)?;
        done(&self.plan((0..self.members.len()).flat_map(entry).collect(), scheduler), interrupt)
    }
}

/// The jobs held to their slices, under the scheduler that gives the worst of them the most.
struct Held<'a> {
    scheduler: &'static str,
    jobs: &'a [JobResult],
    /// The job that has the least of its slice, and that part.
    worst: (usize, f64),
}

impl<'a> Held<'a> {
    /// Returns the best of runs, which are those of [`TRIED`].
    fn best(runs: &'a [RunResult], slices: &[Slice]) -> Self {
        let of_run = |(run, scheduler): (&'a RunResult, &'static str)| {
            let part = |(job, slice): (&JobResult, &Slice)| {
                if slice.size() > 0.0 { rate(job) / slice.size() } else { 1.0 }
            };
            let parts = run.jobs.iter().zip(slices).map(part).enumerate();
            let worst = parts.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 1.0));
            Self { scheduler, jobs: &run.jobs, worst }
        };
        let all = runs.iter().zip(TRIED).map(of_run);
        all.max_by(|a, b| a.worst.1.total_cmp(&b.worst.1)).expect("schedulers are tried")
    }

    /// Returns why a job has less than its slice.
    fn reason(&self, entry: usize, alone: &[JobResult]) -> Shortfall {
        let Self { scheduler, jobs, worst: (at, part) } = self;
        if *part >= PROMISED {
            let words = format!(
                "The scheduler missed it: if each job is held to {HELD} of its slice, all have \
                 {PROMISED} of it under {scheduler}."
            );
            return Shortfall { cause: Lacks::Scheduler, words };
        }
        let (name, waits) = (&jobs[*at].name, waits(entry, jobs, alone));
        let words = format!(
            "The device does not give it: even if each job is held to {HELD} of its slice, {name} \
             has {part:.2} of its own at best, under {scheduler}. {waits}"
        );
        Shortfall { cause: Lacks::Device, words }
    }
}

/// Says how long the requests of a job wait for those of others.
fn waits(entry: usize, beside: &[JobResult], alone: &[JobResult]) -> String {
    let [there, before] = [&beside[entry], &alone[entry]].map(|job| span(latency(job)));
    let others = (0..alone.len()).filter(|&at| at != entry);
    let slowest = others.max_by_key(|&at| quickest(&alone[at]));
    let of_others = slowest.map_or_else(String::new, |at| {
        let (name, time) = (&alone[at].name, span(quickest(&alone[at]) as f64));
        format!(" One of {name} takes {time} at least, and the device does not interrupt it.")
    });
    format!("An I/O of it takes {there} there, and {before} alone.{of_others}")
}

/// Runs a plan; `None` if it does not come to its end.
fn done(plan: &Plan, interrupt: &Interrupt) -> Result<Option<RunResult>, Failure> {
    let (result, ending) = execute(plan, &mut NoObserver, interrupt)?;
    Ok((ending == Ending::Done).then_some(result))
}
