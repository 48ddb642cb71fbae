//! Makes the result of a run, the plain value that reports are made from.

mod cache;
mod cpu;
mod estimates;
mod over_time;

pub(crate) use over_time::preset_is_off;

use std::time::{SystemTime, UNIX_EPOCH};

use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::op::StatGroup;
use elevon_core::sched::Scheduler;
use elevon_core::stack::Stack;
use elevon_core::stats::{Direction, JobStats};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, TaskId, TenantId};
use elevon_formats::cgroup::{Setting, WeightFile, Weights};
use elevon_formats::fio::spec::{self, BlockSizes, JobSpec, Unified};
use elevon_result::collect::{self, Named, TenantFigures};
use elevon_result::result::{
    Claim, DeviceInfo, DiskResult, ErrorCount, JobResult, LatencyPercentiles, LatencyTarget, Point,
    ReadFile, RunResult, SchedulerInfo, Series, SizeCounts, StackCounters, StageLatency,
    SteadyState, TenantResult, UnifiedReporting, Workload,
};
use elevon_result::summary::shown_latency;
use elevon_sim::device::Description;
use elevon_workload::buffered::{BufferedIo, CacheCost};
use elevon_workload::cpu::{CpuCost, SchedulerCost};
use elevon_workload::run::{JobOutcome, RunOutcome};
use elevon_workload::settings::Settings;
use elevon_workload::steady::SteadyOutcome;
use elevon_workload::tenants::{Tenant, TenantsByPath};

use crate::failure::without_numbers;
use crate::memory::CachePlan;
use crate::plan::Plan;
use crate::target::Target;

/// Information that is not in the outcome.
pub struct Facts<'a> {
    /// The plan of the run.
    pub plan: &'a Plan,
    /// Its device.
    pub device: &'a Description,
    /// Settings of tenants, for the changes that were made; `None` for a report during the run.
    pub settings: Option<&'a Settings>,
    /// The stack at the end, or as it is during the run.
    pub stack: &'a Stack,
    /// The page cache, if the run has one.
    pub cached: Option<&'a BufferedIo>,
    /// The device is not simulated.
    pub real: bool,
    /// Warnings, a sentence each.
    pub warnings: Vec<String>,
}

/// Returns the result of a run.
pub fn of(facts: &Facts<'_>, outcome: RunOutcome) -> RunResult {
    let Facts { plan, device, stack, cached, real, warnings, .. } = facts;
    let config = stack.config();
    let elapsed = outcome.ended.since(outcome.started);
    let unix_ms = if *real {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    } else {
        0
    };
    let disk = disk(facts, &outcome);
    RunResult {
        device: DeviceInfo {
            name: device.name.clone(),
            simulated: !real,
            size: device.size.bytes(),
            hw_queues: config.hw_queues,
            queue_depth: config.queue_depth,
            limits: stack.limits().clone(),
            lacks: estimates::lacks(plan),
            estimates: estimates::of(plan, &disk),
        },
        kernel: config.kernel,
        scheduler: SchedulerInfo {
            name: config.scheduler.name.to_owned(),
            tunables: stack
                .scheduler()
                .tunables_shown(&stack.config().rules())
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect(),
            counters: stack
                .scheduler()
                .measured()
                .map(|(name, value)| (name.to_owned(), value))
                .into_iter()
                .collect(),
            note: plan.not_in_linux(),
        },
        seed: plan.seed,
        config: effective(facts),
        command: plan.command.clone(),
        inputs: inputs(plan),
        global_options: global_options(&plan.jobs.jobs),
        unix_ms,
        elapsed,
        jobs: jobs(facts, &outcome),
        tenants: tenants_of(facts, &outcome),
        owners: over_time::owners(facts, &outcome),
        slices: Vec::new(),
        changes: over_time::changes(facts),
        disk,
        cpu: (!real).then(|| cpu::of(plan, &outcome)),
        cache: plan.cache.as_ref().zip(*cached).map(|(plan, cached)| cache::of(plan, cached)),
        series: Some(series(&outcome)),
        faults: Vec::new(),
        events_lost: 0,
        not_kept: plan.replay.as_ref().map_or_else(Vec::new, |replay| replay.not_kept.clone()),
        warnings: warnings.clone(),
    }
}

fn inputs(plan: &Plan) -> Vec<ReadFile> {
    plan.inputs
        .iter()
        .map(|file| ReadFile { name: file.what.clone(), text: file.text.clone() })
        .collect()
}

/// Returns every setting in force, given or default, which together describe the run completely.
fn effective(facts: &Facts<'_>) -> Vec<(String, String)> {
    let Facts { plan, stack, real, .. } = facts;
    let config = stack.config();
    let mut rows: Vec<(&str, String)> = vec![("kernel", config.kernel.name().to_owned())];
    rows.extend(config.reported());
    if !real {
        rows.push(("buffers", plan.memory.to_string()));
        let CpuCost {
            submit,
            complete,
            scheduler: SchedulerCost { request, locked },
            wakes,
            tag_wakes,
            wakes_by_process,
            wake_step,
            preempted,
            workers,
        } = plan.cpu;
        let of_cache = plan.cache.as_ref().map(
            |CachePlan { cost: CacheCost { call, hit, fault, .. }, .. }| {
                format!(",call={call},hit={hit},fault={fault}")
            },
        );
        // This is the first row, because variants of a comparison differ in it.
        let of_scheduler = if plan.scheduler.is_none() {
            String::new()
        } else {
            format!("scheduler={request},lock={locked},")
        };
        let of_wakes = if wakes == CpuCost::default().wakes {
            String::new()
        } else {
            format!(",wake={}..{}", wakes.0, wakes.1)
        };
        let mut of_tag_wakes = tag_wakes
            .map_or_else(String::new, |(least, most)| format!(",tag_wake={least}..{most}"));
        if wakes_by_process {
            of_tag_wakes.push_str(",wakes=by-process");
        }
        if !wake_step.is_zero() {
            of_tag_wakes.push_str(&format!(",wake_step={wake_step}"));
        }
        if let Some((least, most)) = workers {
            of_tag_wakes.push_str(&format!(",worker={least}..{most}"));
        }
        let of_preemption =
            if preempted == 0 { String::new() } else { format!(",preempt={preempted}ppm") };
        let of_cache = of_cache.unwrap_or_default();
        let cost = format!(
            "{of_scheduler}submit={submit},complete={complete}{of_cache}{of_wakes}{of_tag_wakes}\
             {of_preemption}"
        );
        // The times of a trace have it in them.
        rows.extend(plan.replay.is_none().then_some(("cpu_cost", cost)));
    }
    rows.extend(plan.replay.iter().map(|replay| ("replay", replay.how.clone())));
    rows.extend(
        plan.replay.iter().filter_map(|replay| Some(("selected", replay.selected.clone()?))),
    );
    rows.extend(plan.replay.iter().filter_map(|replay| Some(("ioprio", replay.ioprio.clone()?))));
    rows.extend(plan.cache.iter().flat_map(CachePlan::rows));
    // Rarely changed settings are only listed if they were changed.
    rows.extend(config.changed());
    rows.extend(plan.tenants_file.iter().map(|path| ("tenants", path.display().to_string())));
    for (key, given) in [("fault", &plan.faults), ("job_option", &plan.job_option)] {
        rows.extend((!given.is_empty()).then(|| (key, given.join(" "))));
    }
    rows.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns one entry per job; the jobs of a reporting group are one entry.
fn jobs(facts: &Facts<'_>, outcome: &RunOutcome) -> Vec<JobResult> {
    let mut results: Vec<JobResult> = Vec::new();
    let specs = &facts.plan.jobs.jobs;
    let tenants = &facts.plan.tenants.tenants;
    let by_path = TenantsByPath::new(tenants);
    for (task, job) in outcome.jobs.iter().enumerate() {
        let spec = &specs[job.spec];
        let claim = claim(spec, lineage(tenants, by_path.of(spec)), &job.stats);
        let device_time = facts.stack.accounting().device_time(TaskId(task as u32));
        let open = results
            .last_mut()
            .filter(|last| spec.report.group_reporting && last.group == job.group);
        match open {
            Some(last) => {
                last.members += 1;
                last.start = last.start.min(since_start(outcome, job.start));
                last.end = last.end.max(since_start(outcome, job.end));
                last.stats.merge(&job.stats);
                if let Some(used) = &job.cache_use {
                    last.cache_use.get_or_insert_default().merge(used);
                }
                last.error = words_of(last.stats.error);
                last.counted_errors = (last.counted_errors.is_some() || goes_on(spec))
                    .then(|| count_errors(&last.stats));
                last.claim = last.claim.take().and_then(|first| together(first, claim));
                last.device_time = last.device_time.map(|time| time + device_time);
            }
            None => results.push(JobResult {
                claim: Some(claim),
                device_time: Some(device_time),
                ..job_result(spec, outcome, job)
            }),
        }
    }
    results
}

fn since_start(outcome: &RunOutcome, at: Option<Instant>) -> Instant {
    Instant::new(at.unwrap_or(outcome.ended).since(outcome.started).get())
}

fn job_result(spec: &JobSpec, outcome: &RunOutcome, job: &JobOutcome) -> JobResult {
    JobResult {
        name: job.name.clone(),
        group: job.group,
        members: 1,
        pid: job.number,
        description: spec.description.clone().unwrap_or_default(),
        workload: Workload {
            rw: option(spec, "rw").unwrap_or_else(|| "read".to_owned()),
            block_sizes: [0, 1, 2].map(|d| extremes(&spec.blocks.sizes[d])),
            ioengine: spec.engine.name.clone(),
            iodepth: spec.queue.depth,
            depth: spec.depth() as u32,
        },
        options: spec.options.clone(),
        start: since_start(outcome, job.start),
        end: since_start(outcome, job.end),
        claim: None,
        device_time: None,
        stats: job.stats.clone(),
        cache_use: job.cache_use.clone(),
        error: words_of(job.stats.error),
        counted_errors: goes_on(spec).then(|| count_errors(&job.stats)),
        percentiles: spec.report.percentiles.iter().map(|&p| p as u32).collect(),
        latency_target: spec.latency.target.zip(job.latency_depth).map(|(given, depth)| {
            let spec::LatencyTarget { target, window, percentile, .. } = given;
            LatencyTarget { target, window, percentile, depth }
        }),
        steady: job.steady.as_ref().map(steady_state),
        latency_percentiles: LatencyPercentiles {
            slat: spec.report.slat_percentiles,
            clat: spec.report.clat_percentiles,
            lat: spec.report.lat_percentiles,
        },
        unified: match spec.report.unified {
            Unified::Separate => UnifiedReporting::Separate,
            Unified::Mixed => UnifiedReporting::Mixed,
            Unified::Both => UnifiedReporting::Both,
        },
    }
}

/// Returns true if some errors do not end the job.
fn goes_on(spec: &JobSpec) -> bool {
    let ignores = spec.errors.ignored.iter().any(|errors| !errors.is_empty());
    ignores || spec.errors.continues_on_mismatch || spec.errors.continues.contains(&true)
}

fn count_errors(stats: &JobStats) -> ErrorCount {
    let failed: u64 = stats.directions.iter().map(|direction| direction.errors).sum();
    let words = words_of(stats.first_error);
    ErrorCount { total: failed + stats.verify_errors, first: stats.first_error, words }
}

fn steady_state(outcome: &SteadyOutcome) -> SteadyState {
    let SteadyOutcome { settings, attained, samples } = outcome;
    SteadyState {
        criterion: settings.criterion(),
        limit: settings.limit,
        percent: settings.percent,
        duration: settings.duration,
        window: settings.window(),
        attained: *attained,
        samples: samples.iter().map(|sample| (sample.iops, sample.bandwidth)).collect(),
    }
}

/// Returns the tenants whose waits were recorded, with the names and weights that the jobs give
/// them.
fn tenants_of(facts: &Facts<'_>, outcome: &RunOutcome) -> Vec<TenantResult> {
    let control = facts.stack.control();
    let sources = TenantFigures {
        tree: control.tenants(),
        statistics: control.statistics(),
        pressure: Some(control.pressure()),
        cost: Some(control.io_cost()),
        scheduler: facts.stack.scheduler(),
        breakdown: control.breakdown(),
        now: outcome.ended.max(outcome.disk_end.at),
    };
    let given = &facts.plan.tenants.tenants;
    let (times, whole) = (over_time::times(facts, outcome), outcome.ended.since(outcome.started));
    collect::tenants(&sources, |id| {
        let time = times.get(&id).copied().unwrap_or(whole);
        let at = id.index().checked_sub(1).and_then(|at| given.get(at));
        at.map_or_else(
            || Named { time, ..Named::default() },
            |tenant| Named {
                path: tenant.path.clone(),
                settings: settings_of(tenant),
                limits: collect::limits_of(control, id),
                missed_below_limits: control.reserve_missed(sources.now, id),
                time,
            },
        )
    })
}

/// Returns the names and texts of a tenant's settings as they were written. Files of weights have
/// the weight in force, whatever was written to them before.
fn settings_of(tenant: &Tenant) -> Vec<(String, String)> {
    let weights = Weights::of(&tenant.settings);
    let mut all = Vec::new();
    for setting in &tenant.settings {
        let shown = match *setting {
            Setting::BfqWeight(_) => Setting::BfqWeight(WeightFile::Default(weights.bfq)),
            Setting::IoWeight(_) => {
                Setting::IoWeight(WeightFile::Default(weights.cost.effective()))
            }
            other => other,
        };
        let row = (shown.name().to_owned(), shown.text(None));
        if !all.contains(&row) {
            all.push(row);
        }
    }
    all
}

/// Returns the claim of one process of a job as in BFQ: its weight is 10 at level 7, and 10 more
/// for each level above. `cgroups` are those from the top to its own.
fn claim(spec: &JobSpec, cgroups: Vec<(String, u32)>, stats: &JobStats) -> Claim {
    let prio = if spec.priority.ioprio.class() == PrioClass::None {
        IoPrio::DEFAULT
    } else {
        spec.priority.ioprio
    };
    let level = if prio.class() == PrioClass::Idle { 7 } else { prio.level() };
    Claim {
        given: spec.priority.ioprio.class() != PrioClass::None || spec.tenant.cgroup.is_some(),
        class: prio.class(),
        weight: 10 * (8 - u32::from(level)),
        cgroups,
        asked: asked(spec, stats),
    }
}

/// Returns the bytes a second that a process asked for at most; `None` if it transferred nothing,
/// or asked for all that it could get.
fn asked(spec: &JobSpec, stats: &JobStats) -> Option<u64> {
    let used = || {
        [Direction::Read, Direction::Write]
            .into_iter()
            .filter(|&at| stats.directions[at as usize].bytes > 0)
    };
    let by_rate = |at: Direction| {
        let (own, at) = (&stats.directions[at as usize], at as usize);
        let of_ios = spec.rates.iops[at].map(|ios| ios.saturating_mul(own.bytes / own.ios.max(1)));
        spec.rates.bytes[at].into_iter().chain(of_ios).min()
    };
    let rate = used().map(by_rate).sum::<Option<u64>>();
    // In a run without waits only the idle time would be left.
    let bytes: u64 = used().map(|at| stats.directions[at as usize].bytes).sum();
    let idle = (u128::from(bytes) * 1_000_000_000).checked_div(u128::from(stats.idle_ns));
    let idle = idle.map(|rate| u64::try_from(rate).unwrap_or(u64::MAX));
    rate.into_iter().chain(idle).chain(by_depth(spec, stats)).min().filter(|_| bytes > 0)
}

/// Returns the bytes a second of a job whose queue is always full and whose I/Os all take as long
/// as its quickest one. No I/O was quicker, so the job cannot ask for more.
fn by_depth(spec: &JobSpec, stats: &JobStats) -> Option<u64> {
    let used = || stats.directions[..2].iter().filter(|own| own.bytes > 0);
    let quickest = used().map(|own| shown_latency(own).min).min()?;
    let (bytes, ios): (u64, u64) =
        (used().map(|own| own.bytes).sum(), used().map(|own| own.ios).sum());
    let full = u128::from(bytes) * spec.depth() as u128 * 1_000_000_000;
    let rate = full.checked_div(u128::from(ios) * u128::from(quickest))?;
    Some(u64::try_from(rate).unwrap_or(u64::MAX))
}

/// Returns the tenants from the top to this one, with their weights.
fn lineage(tenants: &[Tenant], tenant: TenantId) -> Vec<(String, u32)> {
    let Some(at) = tenant.index().checked_sub(1) else { return Vec::new() };
    let mut line = lineage(tenants, tenants[at].parent);
    line.push((tenants[at].path.clone(), tenants[at].weight));
    line
}

/// Returns two claims as one; `None` if their classes or cgroups differ.
fn together(first: Claim, second: Claim) -> Option<Claim> {
    let is_same = first.class == second.class && first.cgroups == second.cgroups;
    let (given, weight) = (first.given || second.given, first.weight + second.weight);
    let asked = first.asked.zip(second.asked).map(|(first, second)| first.saturating_add(second));
    is_same.then_some(Claim { given, weight, asked, ..first })
}

fn option(spec: &JobSpec, name: &str) -> Option<String> {
    let all = spec.global_options.iter().chain(&spec.options);
    all.rev().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

/// Returns the options of the `[global]` sections, each once; the last value counts.
fn global_options(jobs: &[JobSpec]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (key, value) in jobs.iter().flat_map(|job| &job.global_options) {
        match all.iter_mut().find(|(known, _)| known == key) {
            Some(known) => known.1.clone_from(value),
            None => all.push((key.clone(), value.clone())),
        }
    }
    all
}

fn extremes(sizes: &BlockSizes) -> (Bytes, Bytes) {
    let (low, high) = match sizes {
        BlockSizes::Range(low, high) => (*low, *high),
        BlockSizes::Split(split) => {
            let sizes = split.iter().map(|&(bytes, _)| bytes);
            (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0))
        }
    };
    (Bytes::new(low), Bytes::new(high))
}

/// Returns the text for an errno: the kernel log's text if it is the answer of a device, else the
/// system's.
pub(crate) fn words_of(errno: i32) -> String {
    match Status::from_errno(errno) {
        Status::Ok => String::new(),
        Status::IoError => "Input/output error".to_owned(),
        Status::Os(_) => {
            without_numbers(&std::io::Error::from_raw_os_error(errno).to_string()).into_owned()
        }
        status => format!("{} error", status.log_words()),
    }
}

fn disk(facts: &Facts<'_>, outcome: &RunOutcome) -> DiskResult {
    let stack = facts.stack;
    let counters = stack.counters();
    let stage = |group| StageLatency {
        queued_to_dispatched: stack.accounting().queued_to_dispatched(group),
        dispatched_to_completed: stack.accounting().dispatched_to_completed(group),
    };
    let sizes = |direction: usize| {
        let counted = counters.sizes[direction].iter().enumerate().filter(|&(_, &count)| count > 0);
        SizeCounts(counted.map(|(sectors, &count)| (sectors as u64 * 512, count)).collect())
    };
    let short = facts.device.name.split(':').next().unwrap_or_default();
    let name = short.rsplit('/').next().unwrap_or(short).to_owned();
    let disk = match &facts.plan.target {
        Target::Real(path) => elevon_host::disk_of(path),
        Target::Simulated(_) => Some(name.clone()),
        Target::Nbd(_) => None,
    };
    DiskResult {
        name,
        disk,
        number: crate::device_description::number_of(&facts.device.name),
        io_ticks: stack.io_ticks_form(),
        start: outcome.disk_start,
        end: outcome.disk_end,
        stages: [stage(StatGroup::Read), stage(StatGroup::Write), stage(StatGroup::Discard)],
        request_sizes: [
            sizes(0),
            sizes(1),
            SizeCounts(counters.discards.clone().into_iter().collect()),
        ],
        counters: StackCounters {
            splits: counters.splits,
            merges: counters.back_merges + counters.front_merges + counters.request_merges,
            requeues: counters.requeues,
            retries: counters.retries,
            timeouts: counters.timeouts,
            late_answers: counters.late_answers,
            wbt_waits: counters.wbt_waits,
            tails: counters.tails,
        },
    }
}

fn series(outcome: &RunOutcome) -> Series {
    let interval = outcome.series.interval();
    let begin = outcome.series.start();
    let end = outcome.ended.max(outcome.disk_end.at);
    let points = outcome.series.points().iter().enumerate().filter_map(|(index, point)| {
        let from = begin.saturating_add(Nanos::new(interval.get() * index as u64));
        let to = from.saturating_add(interval).min(end);
        let span = to.since(from).get();
        (span > 0).then(|| Point {
            at: Instant::new(to.since(begin).get()),
            bytes: point.bytes,
            ios: point.ios,
            in_flight: point.in_flight as f64 / span as f64,
        })
    });
    Series { interval, points: points.collect() }
}
