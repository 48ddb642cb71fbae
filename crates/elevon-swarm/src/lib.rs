//! Random runs of the whole system. One random seed draws a device, limits, kernel version,
//! scheduler, faults, memory and jobs; checkers verify every property that must hold in the run.
//!
//! In half of the seeds the jobs go through a page cache on a machine with little memory, together
//! with programs that are not jobs. A shadow copy of the contents is then compared with the pages
//! and the device.
//!
//! Phase one runs with faults and sometimes a power cut. Phase two runs without faults and must
//! make progress to its end. There is one checker per property, separate from the system: it sees
//! commands and completions at the driver, events and results. A failing seed is repeated by its
//! number. Everything runs in virtual time. The same seed gives the same events; this is checked by
//! running a seed twice.
#![forbid(unsafe_code)]

mod border;
mod cache;
mod checkers;
mod hash;
mod plan;
mod shadow;
mod tenants;
#[cfg(test)]
mod tests;
mod watch;

use border::Border;
use watch::Watch;

pub use cache::DrawnCache;
pub use checkers::Violation;
pub use plan::Plan;
pub use tenants::Drawn;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use elevon_cache::activity::Activity;
use elevon_cache::page_cache::CacheConfig;
use elevon_core::ioprio::PrioPolicy;
use elevon_core::layout::Layout;
use elevon_core::stack::{DirectPath, Stack};
use elevon_core::units::{Bytes, Instant, Nanos};
use elevon_engine::{Backend, Engine};
use elevon_formats::fio::spec::JobSpec;
use elevon_formats::fio::{MemorySource, ParsedJobs, parse};
use elevon_sim::device::fault::content::PowerCut;
use elevon_sim::device::{Description, Device, Fault};
use elevon_sim::memory::{Memory, MemoryModel};
use elevon_sim::profiles::open;
use elevon_workload::buffered::BufferedIo;
use elevon_workload::cpu::{CpuCost, SchedulerCost};
use elevon_workload::jobs::{Jobs, JobsOptions};
use elevon_workload::run::{RunOutcome, run_probed};
use elevon_workload::settings::Settings;
use elevon_workload::tenants::TenantsByPath;

use cache::OtherPrograms;
use checkers::{Checks, End, World, ensure};
use plan::Dice;
use shadow::{Manner, Shadow, User};

/// Result of a run without a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Hash of every event and completion. It is the same with every compiler, so it can be
    /// stored.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// Number of faults that fired.
    pub faults: u64,
    /// How often a program or a sync met an effect of a silent device fault.
    pub found: u64,
    /// Virtual time at the end of the run.
    pub ended: Instant,
}

/// A deliberate error that proves that its checker can fail.
#[cfg_attr(not(test), allow(dead_code, reason = "only tests make things wrong"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sabotage {
    /// The device loses a command and refuses to abort it.
    LoseCompletion,
    /// The device answers a command twice.
    AnswerTwice,
    /// The checkers see every command with tag 0.
    SameTag,
    /// The checkers see the first piece one sector too short.
    ShortPiece,
    /// The checkers see commands that are 1 GiB too large.
    TooLarge,
    /// The checkers see commands without a priority.
    OtherPriority,
    /// The device completes flushes without flushing.
    LyingFlush,
    /// The checkers see a wrong value of the tenants or of the page cache.
    Sees(Wrong),
    /// A copy into a frame is omitted.
    LoseCopy,
    /// The device loses writes that it completed.
    ForgetWrite,
    /// Pieces that completed without error are not counted.
    MissPiece,
    /// Data that the device reads does not reach memory.
    GarbleRead,
    /// Programs are not told of errors.
    SwallowError,
    /// Programs are told of errors that did not occur.
    InventError,
    /// Pages change while they are being written.
    ChangeFrame,
    /// Bios of the page cache appear as RT.
    Promote,
    /// Bios of the page cache appear as IDLE.
    Demote,
    /// The limit of steps at one instant is a few steps.
    Impatience,
    /// The checkers do not know of the planned lost, misdirected and rotten writes.
    ForgetFaults,
    /// The event with this number among those of this kind is missing; with number 0, all of this
    /// kind are.
    Lacks(&'static str, u64),
}

/// A wrong value that checkers of tenants and of the page cache see.
#[cfg_attr(not(test), allow(dead_code, reason = "only tests make things wrong"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// Every limit has half of its value.
    HalfLimits,
    /// There are no rules.
    NoRules,
    /// io-throttle counts one rule too many.
    LiveRule,
    /// The wait breakdown has one nanosecond too many.
    Nanosecond,
    /// There is one call too many.
    Call,
    /// `aileron`'s first queue with requests has twice its weight.
    TwiceTheWeight,
    /// `aileron` promises to let no class wait at all.
    NoPatience,
    /// `aileron` has half of its limit.
    HalfDepth,
    /// The memory has half of its size.
    HalfMemory,
    /// There are too many dirty pages, by the number of pages of the memory.
    MoreDirty,
    /// All judged bytes count as promoted once more because of their content.
    MorePromoted,
    /// One page too many was read.
    MoreTraffic,
    /// One page too many became dirty.
    MoreDirtied,
}

/// Runs a seed twice and compares the runs.
///
/// # Errors
/// Returns the first violation.
pub fn check_seed(seed: u64) -> Result<Summary, Violation> {
    check_plan(&Plan::new(seed))
}

/// Runs a plan twice and compares the runs.
///
/// # Errors
/// Returns the first violation.
pub fn check_plan(plan: &Plan) -> Result<Summary, Violation> {
    let first = run_plan(plan)?;
    let second = run_plan(plan)?;
    if first == second {
        Ok(first)
    } else {
        let message = format!("the same seed gave {first:?} and {second:?}");
        Err(Violation::new("determinism", message))
    }
}

/// Runs a plan once.
///
/// # Errors
/// Returns the first violation; a panic counts as one.
pub fn run_plan(plan: &Plan) -> Result<Summary, Violation> {
    run_guarded(plan, None, None)
}

fn run_guarded(
    plan: &Plan,
    only: Option<&str>,
    sabotage: Option<Sabotage>,
) -> Result<Summary, Violation> {
    catch_unwind(AssertUnwindSafe(|| run_with(plan, only, sabotage))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Violation::new("panic", text.unwrap_or_else(|| "a panic without a text".to_owned())))
    })
}

/// Returns what the checkers know before the run: `tags` are those of each hardware queue.
fn world_of(plan: &Plan, stack: &Stack, device: &Description, tags: u32) -> World {
    let (limits, path) = (stack.limits().clone(), stack.config().direct_path);
    World {
        writes_are_durable: limits.write_cache && (limits.fua || path == DirectPath::Blkdev),
        limits,
        rules: plan.kernel.rules(),
        size_sectors: device.size.get(),
        tags,
        specs: Vec::new(),
        layouts: BTreeMap::new(),
        tenants: Vec::new(),
        tenants_stay: plan.tenants.as_ref().is_none_or(|tenants| tenants.removals.is_empty()),
        policies: policies(plan),
        largest_bio: 0,
        slices: slices(plan, stack.limits().rotational),
        conserves: false,
        keeps_classes_back: plan.is_deadline(),
        hz: stack.config().hz,
        bios: BTreeMap::new(),
        payers: BTreeMap::new(),
        payers_at: BTreeMap::new(),
        heirs: Vec::new(),
        activity: Activity::Off,
        writers: 0,
        events_shown: plan.events_shown,
        is_impatient: false,
    }
}

fn run_with(
    plan: &Plan,
    only: Option<&str>,
    sabotage: Option<Sabotage>,
) -> Result<Summary, Violation> {
    let device = open(&plan.device, plan.seed).expect("a device of the swarm");
    let description = device.description().clone();
    let mut device = Fault::parse(device, plan.seed, &plan.faults).expect("faults of the swarm");
    device.track_content();
    let config = plan.stack_config(&description);
    let tags = if config.scheduler.is_none() { config.nr_requests() } else { config.queue_depth };
    let mut stack = Stack::new(config).expect("limits tried before");
    stack.set_tracing(true);
    let mut world = world_of(plan, &stack, &description, tags);
    world.is_impatient = sabotage == Some(Sabotage::Impatience);
    let checks = Rc::new(RefCell::new(Checks::new(world, only)));
    let of_cache = plan.cache.as_ref().map(|cache| cache.config(stack.config()));
    if let (Some(config), Some(cache)) = (&of_cache, &plan.cache) {
        let frames = (config.memory.get() / 4096) as usize;
        checks.borrow_mut().cast(Shadow::new(
            frames,
            cache.has_bytes,
            cache.writes_through(),
            sabotage,
        ));
        checks.borrow_mut().world.activity = config.activity;
    }
    let mut settings = Settings::default();
    let border = Border::new(plan, device, &description, Rc::clone(&checks), sabotage);
    let mut engine = Engine::new(stack, border);
    for phase in 0..2 {
        if phase == 1 {
            engine.backend_mut().heal();
        }
        run_phase(plan, phase, &of_cache, &mut engine, &mut settings, &checks);
        if let Some(violation) = checks.borrow().violation.clone() {
            return Err(violation);
        }
        let mode = plan.power_cut.map_or(PowerCut::DropAll, |(_, mode)| mode);
        engine.backend_mut().cut(mode);
    }
    let now = engine.now();
    let (mut stack, border) = engine.into_parts();
    let mut checks = checks.borrow_mut();
    checks.on_end(&End { disk: stack.disk_stats(now), counters: stack.counters().clone() });
    match checks.violation.clone() {
        Some(violation) => Err(violation),
        None => {
            let faults = border.simulation.device().fired();
            Ok(Summary {
                hash: checks.hash(),
                events: checks.events,
                faults,
                found: checks.found(),
                ended: now,
            })
        }
    }
}

/// Returns the policies by which a plan's tenants may change the priority of a bio.
fn policies(plan: &Plan) -> Vec<PrioPolicy> {
    let text = plan.tenants.as_ref().map_or("", |tenants| &tenants.text);
    let named = |policy: &PrioPolicy| text.contains(&format!("class = \"{}\"", policy.name()));
    PrioPolicy::ALL
        .into_iter()
        .filter(|policy| *policy == PrioPolicy::NoChange || named(policy))
        .collect()
}

/// Returns the time by which `io.max` may exceed a window's length, in which it still allows the
/// rate.
fn slices(plan: &Plan, rotational: bool) -> Nanos {
    let rules = plan.kernel.rules();
    let slice = if rotational { 100 } else { rules.throttle_slice_ms };
    Nanos::from_millis(slice * if rules.throttle_in_series { 5 } else { 4 })
}

/// Parses the jobs of a text. Written out and parsed again they must be the same.
fn jobs_of(text: &str) -> ParsedJobs {
    let read = |text: &str| {
        parse(&mut MemorySource::one("swarm.fio", text), "swarm.fio")
            .unwrap_or_else(|e| panic!("{e:?} in\n{text}"))
    };
    let parsed = read(text);
    let again = read(&elevon_render::jobs(&parsed.jobs));
    let plain = |jobs: &ParsedJobs| {
        jobs.jobs
            .iter()
            .map(|job| elevon_formats::fio::JobSpec { origin: String::new(), ..job.clone() })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        elevon_render::jobs(&plain(&parsed)),
        elevon_render::jobs(&plain(&again)),
        "a job file does not survive being written out"
    );
    again
}

fn run_phase(
    plan: &Plan,
    phase: usize,
    of_cache: &Option<CacheConfig>,
    engine: &mut Engine<Border>,
    settings: &mut Settings,
    checks: &Rc<RefCell<Checks>>,
) {
    let parsed = jobs_of(&plan.jobs[phase]);
    let (stack, border) = engine.parts();
    let options = options_of(plan, &border.description);
    let model = MemoryModel::parse(plan.memory).expect("a model of the swarm");
    let mut memory = Memory::new(&model, plan.seed);
    let mut layouts = BTreeMap::new();
    let mut jobs = Jobs::new(&parsed.jobs, &options, &mut |task, slot, bytes| {
        let layout = memory.allocate(Bytes::new(bytes)).expect("memory without end");
        layouts.insert((task.0, u64::from(slot)), layout.clone());
        stack.register_layout(layout)
    })
    .unwrap_or_else(|error| panic!("{error}"));
    if let (0, Some(tenants)) = (phase, &plan.tenants) {
        let tenants = tenants.plan(&parsed.jobs, &plan.kernel.rules());
        *settings =
            Settings::new(stack, &tenants, border.now()).unwrap_or_else(|error| panic!("{error}"));
    }
    jobs.settings = std::mem::take(settings);
    tell_world(&mut checks.borrow_mut(), plan, phase, stack, &jobs, &parsed.jobs, layouts);
    let mut cached = of_cache.clone().zip(plan.cache.as_ref()).map(|(config, drawn)| {
        let mut cached = BufferedIo::new(config, drawn.cost(), options.cpu, &mut jobs, stack);
        cached.settle_at_end();
        let dice = Dice::new(plan.seed ^ (phase as u64 + 3) << 56);
        let other_programs = OtherPrograms::new(drawn, dice, cached.last_flusher());
        let mut checks = checks.borrow_mut();
        checks.world.writers = other_programs.tasks().into();
        let users = users(&jobs).chain(other_programs.users()).collect();
        checks.shadow(|shadow| shadow.begin_phase(users));
        (cached, other_programs)
    });
    let mut watch = watch_of(plan, phase, stack, border.sabotage, checks);
    let timeouts = stack.counters().timeouts;
    let outcome = match cached.take() {
        None => run_probed(engine, &mut jobs, None, &mut watch),
        Some((mut cached, other_programs)) => {
            watch.other_programs = Some(other_programs);
            let outcome = run_probed(engine, &mut jobs, Some(&mut cached), &mut watch);
            watch.look_at_cache(&cached);
            if let Some(other_programs) = &mut watch.other_programs {
                checks.borrow_mut().shadow(|shadow| other_programs.hear(&mut cached, shadow));
            }
            cached.cache().self_check();
            outcome
        }
    };
    let queued = watch.queued_bytes;
    let (stack, border) = engine.parts();
    stack.control_mut().settle(border.now());
    watch.look(border.now(), stack);
    *settings = std::mem::take(&mut jobs.settings);
    stack.self_check();
    let mut checks = checks.borrow_mut();
    // A timeout shorter than the device's service time has the effect of a fault.
    let healthy = phase == 1 || (plan.faults.is_empty() && plan.power_cut.is_none());
    let clean = healthy && stack.counters().timeouts == timeouts;
    let queued = plan.cache.is_none().then_some(queued);
    // Progress is checked first: if a run hangs, the properties of its end do not hold either.
    checks.note("progress", progress(&outcome, clean, queued, stack.ios_in_flight()));
    checks.on_idle();
}

fn options_of(plan: &Plan, description: &Description) -> JobsOptions {
    JobsOptions {
        seed: plan.seed,
        cpu: CpuCost {
            // With few jobs there is little contention for the lock, so it is held for the whole
            // time.
            scheduler: SchedulerCost {
                request: Nanos::new(plan.cpu.1),
                locked: Nanos::new(plan.cpu.1),
            },
            ..CpuCost::new(Nanos::new(plan.cpu.0), Nanos::new(plan.cpu.1))
        },
        ..JobsOptions::new(&description.stack_config())
    }
}

/// Tells the checkers what they may know of a phase before it starts.
fn tell_world(
    checks: &mut Checks,
    plan: &Plan,
    phase: usize,
    stack: &Stack,
    jobs: &Jobs,
    specs: &[JobSpec],
    layouts: BTreeMap<(u32, u64), Layout>,
) {
    let by_path = TenantsByPath::new(jobs.tenants());
    let who = |spec: usize| stack.tenants().charged(by_path.of(&specs[spec]));
    checks.world.tenants = jobs.members().iter().map(|member| who(member.spec)).collect();
    checks.world.conserves = phase == 1 && plan.tunable_changes == 0 && plan.conserves();
    checks.world.bios.clear();
    checks.world.payers.clear();
    checks.world.payers_at.clear();
    checks.world.specs = jobs.members().iter().map(|member| specs[member.spec].clone()).collect();
    checks.world.layouts = layouts;
}

fn watch_of(
    plan: &Plan,
    phase: usize,
    stack: &Stack,
    sabotage: Option<Sabotage>,
    checks: &Rc<RefCell<Checks>>,
) -> Watch {
    Watch {
        hz: stack.config().hz,
        other_programs: None,
        checks: Rc::clone(checks),
        dice: Dice::new(plan.seed ^ (phase as u64 + 1) << 56),
        changes: plan.tunable_changes,
        sabotage,
        seen: 0,
        queued_bytes: 0,
        removals: plan
            .tenants
            .as_ref()
            .map_or_else(VecDeque::new, |tenants| tenants.removals.iter().copied().collect()),
    }
}

/// Yields the users of the page cache, by task.
fn users(jobs: &Jobs) -> impl Iterator<Item = (u32, User)> {
    jobs.members().iter().enumerate().map(|(task, member)| {
        let spec = &jobs.specs()[member.spec];
        let manner = match spec.is_buffered() {
            true if spec.engine.is_mapped() => Manner::Mapped,
            true => Manner::Buffered,
            false => Manner::Direct,
        };
        let sync_writes = spec.durability.sync != elevon_formats::fio::spec::SyncMode::None;
        (task as u32, User::new(manner, sync_writes, member.extent.regions.clone()))
    })
}

/// Checks that the run reached its end. If there was no fault, nothing may have failed, and the
/// jobs must have done all of their I/O.
fn progress(
    outcome: &RunOutcome,
    clean: bool,
    queued: Option<u64>,
    left: usize,
) -> checkers::CheckResult {
    ensure(outcome.ended_early.is_none() && left == 0, || {
        format!("the run ended by {:?} with {left} I/Os left", outcome.ended_early)
    })?;
    if !clean {
        return Ok(());
    }
    let failed: Vec<_> = outcome
        .jobs
        .iter()
        .filter(|job| job.stats.error != 0)
        .map(|j| (&j.name, j.stats.error))
        .collect();
    ensure(failed.is_empty(), || format!("jobs failed without a fault: {failed:?}"))?;
    let done: u64 =
        outcome.jobs.iter().flat_map(|job| &job.stats.directions).map(|d| d.bytes).sum();
    ensure(queued.is_none_or(|queued| done == queued), || {
        format!("jobs were given {done} bytes, bios were queued for {queued:?}")
    })
}
