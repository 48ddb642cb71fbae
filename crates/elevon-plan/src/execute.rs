//! Executes a plan: opens the device, builds stack and jobs, runs the loop, and returns the result.

use std::path::Path;

use elevon_core::stack::Stack;
use elevon_core::units::{Bytes, DeviceOffset, PAGE_SIZE, TaskId};
use elevon_engine::{Backend, Engine};
use elevon_formats::fio::spec::{Amount, JobSpec};
use elevon_host::interrupt::Interrupt;
use elevon_host::{Host, HostFile, OpenOptions};
use elevon_result::result::{FaultResult, RunResult};
use elevon_serve::{Upstream, UpstreamAddress};
use elevon_sim::device::{AnyDevice, Description};
use elevon_sim::memory::{Memory, MemoryModel};
use elevon_sim::simulation::Simulation;
use elevon_workload::buffered::BufferedIo;
use elevon_workload::cpu::CpuCost;
use elevon_workload::jobs::{Jobs, JobsOptions, Roster};
use elevon_workload::region::Placement;
use elevon_workload::replay::Replayed;
use elevon_workload::run::{self, EndedEarly, JobOutcome, Observer};
use elevon_workload::settings::{Settings, TenantSettingError};
use elevon_workload::source::Source;

use crate::device_description;
use crate::failure::{ConflictError, Ending, Failure, MachineError, without_numbers};
use crate::memory::CachePlan;
use crate::plan::Plan;
use crate::replay;
use crate::result::{self, Facts};
use crate::target::Target;

/// Number of SIGINT in POSIX.
pub const SIGINT: i32 = 2;

/// An observer of a run that learns about the device before the run starts.
pub trait Watch: Observer {
    /// Returns true if the observer needs events.
    fn wants_events(&self) -> bool {
        false
    }
    /// Called after the stack was built, to change what the plan cannot express.
    fn prepare(&mut self, _stack: &mut Stack) {}
    /// Called at the end of the run, while the stack still exists.
    fn on_end(&mut self, _stack: &Stack) {}
    /// Called after the jobs were built, before the run starts.
    ///
    /// # Errors
    /// What keeps the run from starting.
    fn on_start(
        &mut self,
        _device: &Description,
        _stack: &Stack,
        _jobs: &Roster<'_>,
    ) -> Result<(), Failure> {
        Ok(())
    }
}

impl Watch for run::NoObserver {}

/// Runs a plan. The result contains warnings; the ending says how the run ended.
///
/// # Errors
/// The device cannot be opened, or the plan does not go with it. I/O errors of a run are part of
/// its result.
pub fn execute(
    plan: &Plan,
    watch: &mut dyn Watch,
    interrupt: &Interrupt,
) -> Result<(RunResult, Ending), Failure> {
    let (mut result, outcome) = execute_until(plan, watch, interrupt)?;
    for warning in &mut result.warnings {
        *warning = without_numbers(warning).into_owned();
    }
    let outcome = match outcome {
        Ending::Interrupted(signal) => Ending::Interrupted(interrupt.signal().unwrap_or(signal)),
        Ending::Done | Ending::Failed => outcome,
    };
    Ok((result, outcome))
}

fn execute_until(
    plan: &Plan,
    watch: &mut dyn Watch,
    interrupt: &Interrupt,
) -> Result<(RunResult, Ending), Failure> {
    match &plan.target {
        Target::Simulated(_) => execute_simulated(plan, watch, interrupt),
        Target::Nbd(address) => execute_upstream(plan, address, watch, interrupt),
        Target::Real(path) => execute_real(plan, path, watch, interrupt),
    }
}

/// Runs a plan on a simulated device, in virtual time.
fn execute_simulated(
    plan: &Plan,
    watch: &mut dyn Watch,
    interrupt: &Interrupt,
) -> Result<(RunResult, Ending), Failure> {
    let device = plan.device()?;
    let description = device_description::of_simulated(plan, &device);
    let (least, most) = plan.cpu.wakes;
    let simulation = Simulation::new(device)
        .with_seed(plan.seed)
        .with_wakes(least, most)
        .with_tag_wakes(plan.cpu.tag_wakes)
        .with_wakes_by_process(plan.cpu.wakes_by_process)
        .with_preemption(plan.cpu.preempted)
        .with_worker_delays(plan.cpu.workers);
    let mut simulation = simulation.with_interrupt({
        let interrupt = interrupt.clone();
        move || interrupt.is_set()
    });
    let (mut result, outcome) =
        run_on(plan, &description, &mut simulation, plan.cpu, &plan.memory, watch, Vec::new())?;
    count_faults(plan, simulation.device().fired_by_rule(), &mut result);
    result.warnings.extend(beyond_trace(simulation.device().inner(), &description.name));
    Ok((result, outcome))
}

/// Runs a plan on a disk of another server.
fn execute_upstream(
    plan: &Plan,
    address: &UpstreamAddress,
    watch: &mut dyn Watch,
    interrupt: &Interrupt,
) -> Result<(RunResult, Ending), Failure> {
    let mut disk =
        Upstream::open(address, PAGE_SIZE as u32, interrupt.clone()).map_err(Failure::input)?;
    if plan.writes() && disk.remote().read_only {
        return Err(Failure::named(format!("--device {address}"), ConflictError::ReadOnly));
    }
    let description = device_description::of_upstream(address, &disk);
    let mut warnings = disk.notes().to_vec();
    warnings.extend(plan.clamped(&plan.stack_config(&description)?));
    run_on(
        plan,
        &description,
        &mut disk,
        CpuCost::default(),
        &MemoryModel::Contiguous,
        watch,
        warnings,
    )
}

/// Runs a plan on a file or a block device.
fn execute_real(
    plan: &Plan,
    path: &Path,
    watch: &mut dyn Watch,
    interrupt: &Interrupt,
) -> Result<(RunResult, Ending), Failure> {
    // No device has blocks smaller than 512 bytes, so what is misaligned for every device is
    // refused before a file is created.
    refuse_unaligned(plan, 512)?;
    let grow_to = if plan.writes() { bytes_needed(plan) } else { 0 };
    // Jobs with direct=0, too: what the kernel's page cache holds is not known, and no I/O of the
    // stack is to end there. A page cache is one of our own above the stack.
    let fill = plan.writes() && plan.jobs.jobs.iter().any(|job| job.space.fill_device);
    let options = OpenOptions { write: plan.writes(), direct: true, grow_to, fill };
    let file = HostFile::open(path, options).map_err(Failure::input)?;
    let mut host = Host::new(file, 1024, None, interrupt.clone()).map_err(MachineError::StartIo)?;
    let description = device_description::of_host(path, &host);
    if let Some(cache) = &plan.cache {
        reserve_frames(cache, &description, &mut host)?;
    }
    let mut warnings = host.warnings().to_vec();
    warnings.extend(plan.clamped(&plan.stack_config(&description)?));
    let (mut result, outcome) = run_on(
        plan,
        &description,
        &mut host,
        CpuCost::default(),
        &MemoryModel::Contiguous,
        watch,
        warnings,
    )?;
    let failure = host.failure();
    let outcome = if failure.is_some() { Ending::Failed } else { outcome };
    result.warnings.extend(failure);
    Ok((result, outcome))
}

/// Reserves the frames of the page cache. Refuses a device whose blocks are larger than a page.
fn reserve_frames(
    cache: &CachePlan,
    description: &Description,
    host: &mut Host,
) -> Result<(), Failure> {
    let block = description.limits.logical_block_size;
    if u64::from(block) > PAGE_SIZE {
        let device = description.name.clone();
        return Err(Failure::named("--cache", ConflictError::CannotBeCached { device, block }));
    }
    let bytes = cache.frames().get();
    host.reserve_frames(cache.frames()).map_err(|error| MachineError::Frames { bytes, error })?;
    Ok(())
}

/// Warns of a device that was asked for more at once than the trace shows that it was fitted to.
fn beyond_trace(device: &AnyDevice, name: &str) -> Option<String> {
    let (traced, deepest) = device.beyond_trace()?;
    Some(format!(
        "{name}: the trace that it was fitted to had at most {traced} requests in the device at once, and this run had \
         {deepest}: a device that serves more at once than the trace shows is faster"
    ))
}

/// Adds to the result how often each fault rule fired, and warns of rules that never fired.
fn count_faults(plan: &Plan, fired: &[u64], result: &mut RunResult) {
    for (rule, &fired) in plan.faults.iter().zip(fired) {
        if fired == 0 {
            result.warnings.push(format!("--fault {rule}: never fired in this run"));
        }
        result.faults.push(FaultResult { rule: rule.clone(), fired });
    }
}

/// Returns the size that the jobs' files need on a device that grows to fit them; 0 if a job has no
/// size.
fn bytes_needed(plan: &Plan) -> u64 {
    const ENDLESS: u64 = 1 << 62;
    let jobs = &plan.jobs.jobs;
    if jobs.iter().any(|job| job.space.size.is_none() && job.files.size.is_none()) {
        return 0;
    }
    let mut placement = Placement::new(Bytes::new(ENDLESS), None, 512);
    let mut needed = DeviceOffset::ZERO;
    // A job that has a share of the device (`size=10%`, `offset=10%`) takes what there is.
    let has_share = |job: &&JobSpec| {
        let amounts = [job.space.size, Some(job.space.offset), Some(job.space.offset_increment)];
        amounts.into_iter().flatten().any(|amount| matches!(amount, Amount::Percent(_)))
    };
    for job in jobs.iter().filter(|job| !has_share(job)) {
        for clone in 0..job.numjobs {
            let Ok(extent) = placement.place(job, clone, 0) else { return 0 };
            needed = extent
                .regions
                .iter()
                .map(|region| region.start + region.len)
                .max()
                .unwrap_or_default()
                .max(needed);
        }
    }
    // The size is a multiple of the page size, so that direct I/O reaches the last byte whatever
    // the block size of the file system.
    if needed.get() >= ENDLESS / 2 { 0 } else { needed.get().next_multiple_of(PAGE_SIZE) }
}

fn refuse_unaligned(plan: &Plan, block: u64) -> Result<(), Failure> {
    if plan.replay.is_some() {
        // I/Os of a trace are widened to whole blocks.
        return Ok(());
    }
    let mut errors = plan.jobs.unaligned(block, plan.cache.is_some());
    errors.dedup();
    if errors.is_empty() { Ok(()) } else { Err(Failure::text(errors)) }
}

fn run_on<B: Backend>(
    plan: &Plan,
    device: &Description,
    backend: &mut B,
    cpu: CpuCost,
    memory: &MemoryModel,
    watch: &mut dyn Watch,
    of_backend: Vec<String>,
) -> Result<(RunResult, Ending), Failure> {
    let config = plan.stack_config(device)?;
    // I/O through the page cache may start at any byte; the device only sees whole pages.
    let cached = plan.cache.is_some();
    let block = config.limits.logical_block_size.into();
    refuse_unaligned(plan, block)?;
    plan.refuse_not_atomic(&config.limits)?;
    let mut stack = Stack::new(config).map_err(Failure::input)?;
    let options = JobsOptions {
        device_bytes: device.size.bytes(),
        logical_block: block,
        cached,
        device_path: plan.is_real().then(|| device.name.clone()),
        seed: plan.seed,
        cpu,
    };
    let sources = build_sources(plan, device, &options, memory, &mut stack)?;
    let run = Run { plan, device, watch, backend, of_backend };
    match sources {
        SourcesOfIo::Jobs(jobs) => run.go(stack, jobs, |watch, engine, jobs| {
            let (outcome, cached) = run_jobs(plan, watch, engine, jobs, cpu);
            Driven { outcome, cached, warnings: Vec::new() }
        }),
        SourcesOfIo::Trace((jobs, mut warnings)) => run.go(stack, jobs, |watch, engine, jobs| {
            let outcome = run::run(engine, jobs, watch);
            warnings.extend(replay::deviations(jobs));
            Driven { outcome, cached: None, warnings }
        }),
    }
}

/// Sources of the I/O of a run.
enum SourcesOfIo {
    Jobs(Jobs),
    /// Processes of a trace, with warnings about I/Os that were changed to fit the device.
    Trace((Jobs<Replayed>, Vec<String>)),
}

/// A run whose stack and sources have been built.
struct Run<'a, B> {
    plan: &'a Plan,
    device: &'a Description,
    watch: &'a mut dyn Watch,
    backend: &'a mut B,
    of_backend: Vec<String>,
}

/// What the loop leaves behind.
struct Driven {
    outcome: run::RunOutcome,
    cached: Option<BufferedIo>,
    warnings: Vec<String>,
}

impl<B: Backend> Run<'_, B> {
    /// Runs the loop with `drive`. Returns the result of the run, and how it ended.
    fn go<S: Source>(
        self,
        mut stack: Stack,
        mut jobs: Jobs<S>,
        drive: impl FnOnce(&mut dyn Observer, &mut Engine<&mut B>, &mut Jobs<S>) -> Driven,
    ) -> Result<(RunResult, Ending), Failure> {
        let Self { plan, device, watch, backend, of_backend } = self;
        let named = |error: TenantSettingError| Failure::named("--tenants", error);
        jobs.settings = Settings::new(&mut stack, &plan.tenants, backend.now()).map_err(named)?;
        stack.set_tracing(watch.wants_events());
        if !plan.is_real() {
            // It follows the flushers of a page cache, of which there is one for each tenant.
            let flushers = 1 + jobs.tenants().len();
            stack.set_limit_worker(TaskId((jobs.processes().len() + flushers) as u32));
        }
        watch.prepare(&mut stack);
        watch.on_start(device, &stack, &jobs.roster())?;
        let before = elevon_host::cpu::used();
        let mut engine = Engine::new(stack, backend);
        let mut driven = drive(watch, &mut engine, &mut jobs);
        let (mut stack, _) = engine.into_parts();
        watch.on_end(&stack);
        let outcome = &mut driven.outcome;
        if plan.is_real() {
            share_cpu(outcome, before, elevon_host::cpu::used());
        }
        // The last write-back of a page cache ends after the last job.
        stack.control_mut().settle(outcome.ended.max(outcome.disk_end.at));
        driven.warnings.splice(0..0, of_backend);
        driven.report(plan, device, &stack, &jobs.settings)
    }
}

impl Driven {
    fn report(
        self,
        plan: &Plan,
        device: &Description,
        stack: &Stack,
        settings: &Settings,
    ) -> Result<(RunResult, Ending), Failure> {
        let Self { outcome, cached, warnings: said } = self;
        let mut warnings = plan.warnings.clone();
        warnings.extend(said);
        warnings.extend(settings.refused().iter().map(|change| format!("--tenants: {change}")));
        let late = settings.too_late(outcome.ended.since(outcome.started));
        warnings.extend(late.map(|line| format!("--tenants: {line}")));
        warnings.extend(result::preset_is_off(plan, device, stack, &outcome));
        warnings.extend(failures(&outcome));
        let lost = cached.as_ref().and_then(lost);
        let is_lost = lost.is_some();
        warnings.extend(lost);
        let ended = how_it_ended(&outcome, is_lost, &mut warnings)?;
        let real = plan.is_real();
        let facts = Facts {
            plan,
            device,
            settings: Some(settings),
            stack,
            cached: cached.as_ref(),
            real,
            warnings,
        };
        let logs = plan.log_folder.write(&outcome);
        let mut result = result::of(&facts, outcome);
        match logs {
            Ok(()) => Ok((result, ended)),
            // If the logs cannot be written, the report is still made.
            Err(error) => {
                result.warnings.push(error.to_string());
                Ok((result, if ended == Ending::Done { Ending::Failed } else { ended }))
            }
        }
    }
}

/// Builds the processes of the plan's jobs or of its trace, each with a buffer for every I/O that
/// it may have in flight.
fn build_sources(
    plan: &Plan,
    device: &Description,
    options: &JobsOptions,
    memory: &MemoryModel,
    stack: &mut Stack,
) -> Result<SourcesOfIo, Failure> {
    let mut memory = Memory::new(memory, plan.seed);
    let mut memory_error = None;
    let mut layouts = |_task, _slot, bytes: u64, bio_ends: &[u64]| match memory
        .allocate(Bytes::new(bytes.max(1)))
    {
        Ok(layout) => stack.register_layout(layout.with_bio_ends(bio_ends.to_vec())),
        Err(error) => {
            memory_error = Some(error);
            elevon_core::units::LayoutId(0)
        }
    };
    let sources = match &plan.replay {
        Some(replay) => {
            let device = (device, options.logical_block);
            SourcesOfIo::Trace(replay.jobs(&plan.jobs.jobs, plan.is_real(), device, &mut layouts))
        }
        None => {
            let mut layouts = |task, slot, bytes| layouts(task, slot, bytes, &[]);
            SourcesOfIo::Jobs(
                Jobs::new(&plan.jobs.jobs, options, &mut layouts)
                    .map_err(|error| plan.at_option(error))?,
            )
        }
    };
    if let Some(error) = memory_error {
        return Err(Failure::input(error));
    }
    Ok(sources)
}

/// Returns how a run ended, and adds a warning if it ended early. `is_lost`: dirty data was not
/// written.
fn how_it_ended(
    outcome: &run::RunOutcome,
    is_lost: bool,
    warnings: &mut Vec<String>,
) -> Result<Ending, Failure> {
    match outcome.ended_early {
        Some(EndedEarly::Interrupted) => {
            warnings.push("interrupted: the figures cover what ran until then".to_owned());
            Ok(Ending::Interrupted(SIGINT))
        }
        Some(EndedEarly::Stuck) => {
            warnings.push(
                "stuck: the device stopped answering, or a process waits for what never comes; I/Os in flight were given up"
                    .to_owned(),
            );
            Ok(Ending::Failed)
        }
        Some(EndedEarly::NoProgress) => Err(Failure::input(ConflictError::TimeStandsStill)),
        None if is_lost
            || outcome
                .jobs
                .iter()
                .any(|job| job.stats.error != 0 || job.stats.verify_errors > 0) =>
        {
            Ok(Ending::Failed)
        }
        None => Ok(Ending::Done),
    }
}

/// Runs the jobs, through a page cache if the plan has one.
fn run_jobs<B: Backend>(
    plan: &Plan,
    observer: &mut dyn Observer,
    engine: &mut Engine<B>,
    jobs: &mut Jobs,
    cpu: CpuCost,
) -> (run::RunOutcome, Option<BufferedIo>) {
    let Some(cache) = &plan.cache else { return (run::run(engine, jobs, observer), None) };
    let stack = engine.stack();
    let mut cached = BufferedIo::new(cache.config(stack.config()), cache.cost, cpu, jobs, stack);
    if let Some(control) = cache.control(plan.seed) {
        cached.set_control(control);
    }
    (run::run_cached(engine, jobs, &mut cached, observer), Some(cached))
}

/// Divides the CPU time of the process among the jobs by their numbers of I/Os, because all jobs of
/// a real run are one process.
fn share_cpu(outcome: &mut run::RunOutcome, before: (u64, u64), after: (u64, u64)) {
    let ios = |job: &run::JobOutcome| job.stats.directions.iter().map(|d| d.ios).sum::<u64>();
    let all = outcome.jobs.iter().map(ios).sum::<u64>().max(1);
    for job in &mut outcome.jobs {
        let share = |ns: u64| (u128::from(ns) * u128::from(ios(job)) / u128::from(all)) as u64;
        let (user, system) = (share(after.0 - before.0), share(after.1 - before.1));
        job.stats.cpu_user_ns = user;
        job.stats.cpu_ns = user + system;
    }
}

/// Returns a message about data that jobs wrote through a page cache and that is not on the device.
fn lost(cached: &BufferedIo) -> Option<String> {
    let status = cached.last_status();
    let (failed, left) = cached.unwritten();
    if status.is_ok() && failed == 0 && left == 0 {
        return None;
    }
    let (words, errno) = (result::words_of(status.errno()), status.errno());
    let pages =
        |count: u64, what: &str| (count > 0).then(|| format!("{count} page(s) of 4 KiB {what}"));
    let what = [
        pages(failed, "could not be written"),
        pages(left, "are lost: they were still dirty when the run ended"),
    ];
    let what: Vec<String> = what.into_iter().flatten().collect();
    let what = if what.is_empty() {
        "the flush at the end failed".to_owned()
    } else {
        what.join(", and ")
    };
    let why = if status.is_ok() { String::new() } else { format!(": {words} (errno {errno})") };
    Some(format!("--cache: {what}{why}"))
}

/// Returns a line for each job that an I/O error ended, or whose verification failed.
fn failures(outcome: &run::RunOutcome) -> Vec<String> {
    let mut lines = Vec::new();
    for job in &outcome.jobs {
        let JobOutcome { name, number, stats, .. } = job;
        if stats.verify_errors > 0 {
            let blocks = stats.verify_errors;
            lines.push(format!(
                "{name} (pid {number}): {blocks} block(s) did not hold what was written"
            ));
        } else if stats.error != 0 {
            let (words, errno) = (result::words_of(stats.error), stats.error);
            lines.push(format!(
                "{name} (pid {number}): ended by an I/O error: {words} (errno {errno})"
            ));
        }
    }
    lines
}
