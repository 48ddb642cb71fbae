//! Checkers of properties that must hold in every run: one property each, without knowledge of the
//! stack's internals.
//!
//! Their inputs are commands, completions and aborts at the device, the event stream, and the
//! results. Each checker keeps its own state; a violation is a line of text.

mod aileron;
mod border;
mod cache;
mod events;
mod tenants;

pub(super) use events::name;

use std::collections::{BTreeMap, VecDeque};

use elevon_cache::FrameId;
use elevon_cache::activity::Activity;
use elevon_core::account::DiskStats;
use elevon_core::driver::{Command, Completion, Piece};
use elevon_core::event::{Event, EventKind};
use elevon_core::ioprio::{IoPrio, PrioPolicy};
use elevon_core::jiffies::Hz;
use elevon_core::kernel::Rules;
use elevon_core::layout::Layout;
use elevon_core::limits::QueueLimits;
use elevon_core::op::Op;
use elevon_core::stack::{Counters, Io};
use elevon_core::status::Status;
use elevon_core::units::{Instant, Nanos, SECTOR_SIZE, TaskId, TenantId};
use elevon_engine::Token;
use elevon_formats::fio::JobSpec;
use elevon_sim::device::fault::Silent;

use super::cache::SeenCache;
use super::hash::StableHash;
use super::shadow::Shadow;
use super::tenants::Seen;

/// What a checker found wrong, in words. Its kind is the checker's name (see [`Violation`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding(pub(super) String);

/// Result of a check.
pub(super) type CheckResult = Result<(), Finding>;

/// What checkers may know before a run.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) limits: QueueLimits,
    /// True if a write that must be durable is one by its own flags. A file system on a device
    /// without FUA flushes behind it instead.
    pub(super) writes_are_durable: bool,
    pub(super) rules: Rules,
    pub(super) size_sectors: u64,
    /// Driver tags of each hardware queue.
    pub(super) tags: u32,
    /// Job of each task of the current phase.
    pub(super) specs: Vec<JobSpec>,
    /// Buffers of the current phase, by task and token.
    pub(super) layouts: BTreeMap<(u32, u64), Layout>,
    /// Tenant of each task of the current phase; further tasks belong to the root.
    pub(super) tenants: Vec<TenantId>,
    /// True if no tenant is removed.
    pub(super) tenants_stay: bool,
    /// Policies by which tenants may change a priority.
    pub(super) policies: Vec<PrioPolicy>,
    /// Size in bytes of the largest bio with data so far.
    pub(super) largest_bio: u64,
    /// Time by which `io.max` may exceed the length of a window.
    pub(super) slices: Nanos,
    /// True if the device must not be idle while a request waits.
    pub(super) conserves: bool,
    /// True if the scheduler serves no class while a more urgent one has requests.
    pub(super) keeps_classes_back: bool,
    /// Ticks a second.
    pub(super) hz: Hz,
    /// Priorities of the page cache's bios, by task and token.
    pub(super) bios: BTreeMap<(u32, u64), IoPrio>,
    /// Tenants charged for the page cache's writes: those that dirtied the pages. By task and
    /// token, and for events by task and sector, of several the oldest first.
    pub(super) payers: BTreeMap<(u32, u64), TenantId>,
    pub(super) payers_at: BTreeMap<(u32, u64), VecDeque<TenantId>>,
    /// Tenant charged instead of each removed tenant; empty if none was removed.
    pub(super) heirs: Vec<TenantId>,
    /// How content changes the priority of bios.
    pub(super) activity: Activity,
    /// Number of tasks that may dirty pages.
    pub(super) writers: u64,
    /// Number of events that a violation shows.
    pub(super) events_shown: usize,
    /// True if already a few steps at one instant are too many; used to prove that the checker
    /// fails.
    pub(super) is_impatient: bool,
}

impl World {
    fn tenant_of(&self, task: TaskId) -> TenantId {
        self.tenants.get(task.index()).copied().unwrap_or(TenantId(0))
    }

    /// Returns the number of tenants that may dirty pages.
    fn dirtiers(&self) -> u64 {
        let mut all: Vec<TenantId> = self.tenants.iter().copied().chain([TenantId(0)]).collect();
        all.sort_unstable();
        all.dedup();
        all.len() as u64
    }

    /// Returns the tenant charged for an I/O, by its token.
    fn payer(&self, task: TaskId, token: u64) -> TenantId {
        self.payers.get(&(task.0, token)).copied().unwrap_or_else(|| self.tenant_of(task))
    }

    /// Returns the tenant charged for the bio of an event.
    fn payer_of(&self, event: &Event) -> TenantId {
        let of_cache = self
            .payers_at
            .get(&(event.task.0, event.sector.get()))
            .filter(|_| event.op == Op::Write);
        of_cache
            .and_then(|payers| payers.front().copied())
            .unwrap_or_else(|| self.tenant_of(event.task))
    }

    /// Records the tenant charged for an I/O that is about to be submitted.
    fn note_payer(&mut self, io: &Io) {
        let (by_token, by_sector) = ((io.task.0, io.token), (io.task.0, io.sector.get()));
        // Tokens are reused, and a token of a write may be reused for a read.
        self.payers.remove(&by_token);
        if Token::is_of_cache(io.token) && io.op == Op::Write {
            let payer = self.heirs.get(io.tenant.index()).copied().unwrap_or(io.tenant);
            self.payers.insert(by_token, payer);
            self.payers_at.entry(by_sector).or_default().push_back(payer);
        }
    }
}

/// A command that the device accepted, with the memory that it transfers.
#[derive(Clone, Debug)]
pub(super) struct Issued {
    pub(super) at: Instant,
    pub(super) command: Command,
    pub(super) pieces: Vec<Piece>,
    /// The silent fault planned for the command.
    pub(super) silent: Option<Silent>,
}

/// Figures known at the end of a run.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) disk: DiskStats,
    pub(super) counters: Counters,
}

/// A checker of one property.
pub(super) trait Checker {
    /// Called if the device accepted a command.
    fn on_command(&mut self, _world: &World, _issued: &Issued) -> CheckResult {
        Ok(())
    }
    /// Called if the device completed a command.
    fn on_completion(&mut self, _world: &World, _completion: &Completion) -> CheckResult {
        Ok(())
    }
    /// Called if the device aborted a command.
    fn on_abort(&mut self, _world: &World, _command: &Command) -> CheckResult {
        Ok(())
    }
    /// Called for an event; `issued` is the command of an Issue event.
    fn on_event(
        &mut self,
        _world: &World,
        _event: &Event,
        _issued: Option<&Issued>,
    ) -> CheckResult {
        Ok(())
    }
    /// Called if a program submits an I/O, or the page cache a bio of these frames.
    fn on_io(&mut self, _world: &World, _io: &Io, _frames: &[FrameId]) -> CheckResult {
        Ok(())
    }
    /// Called like [`Self::on_step`], with the state of the page cache.
    fn on_cache(&mut self, _world: &World, _seen: &SeenCache) -> CheckResult {
        Ok(())
    }
    /// Called after everything possible at an instant has happened; there may be more steps at the
    /// same instant.
    fn on_step(&mut self, _world: &World, _seen: &Seen) -> CheckResult {
        Ok(())
    }
    /// Called if a phase has finished and nothing is in flight.
    fn on_idle(&mut self, _world: &World) -> CheckResult {
        Ok(())
    }
    /// Called at the end of the run.
    fn on_end(&mut self, _world: &World, _end: &End) -> CheckResult {
        Ok(())
    }
}

/// A violation of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the checker.
    pub checker: &'static str,
    /// What the checker found.
    pub message: String,
    /// The last events before the violation.
    pub events: Vec<Event>,
}

impl Violation {
    pub(super) const fn new(checker: &'static str, message: String) -> Self {
        Self { checker, message, events: Vec::new() }
    }
}

/// All checkers, and a hash of everything they saw.
pub(super) struct Checks {
    pub(super) world: World,
    list: Vec<(&'static str, Box<dyn Checker>)>,
    /// Commands whose Issue event has not been seen yet.
    unseen: VecDeque<Issued>,
    hash: StableHash,
    pub(super) violation: Option<Violation>,
    pub(super) events: u64,
    /// The latest time that the run reported.
    pub(super) now: Instant,
    history: VecDeque<Event>,
    /// Contents of page cache, programs and device.
    shadow: Option<Shadow>,
    only: Option<String>,
}

impl Checks {
    /// Creates all checkers, or only the one with the given name.
    pub(super) fn new(world: World, only: Option<&str>) -> Self {
        let list: Vec<(&'static str, Box<dyn Checker>)> = vec![
            ("once", Box::<border::Once>::default()),
            ("tags", Box::<border::Tags>::default()),
            ("pieces", Box::<border::Pieces>::default()),
            ("limits", Box::new(border::Limits)),
            ("merges", Box::new(border::Merges)),
            ("agreement", Box::new(events::Agreement)),
            ("coverage", Box::<events::Coverage>::default()),
            ("order", Box::<events::Order>::default()),
            ("flush", Box::<events::Flush>::default()),
            ("counters", Box::<events::EventCounts>::default()),
            ("little", Box::<events::Little>::default()),
            ("exact", Box::<tenants::Exact>::default()),
            ("slices", Box::<tenants::Slices>::default()),
            ("io-throttle", Box::<tenants::Throttle>::default()),
            ("held", Box::<tenants::Held>::default()),
            ("io.stat", Box::<tenants::IoStat>::default()),
            ("ledger", Box::<tenants::WaitBreakdown>::default()),
            ("conservation", Box::<tenants::Conservation>::default()),
            ("aileron-shares", Box::<aileron::AileronShares>::default()),
            ("aileron-classes", Box::<aileron::AileronClasses>::default()),
            ("aileron-depth", Box::<aileron::AileronDepth>::default()),
            ("memory", Box::<cache::Memory>::default()),
            ("dirty", Box::<cache::Dirty>::default()),
            ("counted", Box::<cache::Counted>::default()),
            ("content", Box::<cache::Content>::default()),
            ("ends", Box::<cache::Ends>::default()),
        ];
        let list =
            list.into_iter().filter(|(name, _)| only.is_none_or(|only| only == *name)).collect();
        Self {
            world,
            list,
            unseen: VecDeque::new(),
            hash: StableHash::default(),
            violation: None,
            events: 0,
            now: Instant::ZERO,
            history: VecDeque::new(),
            shadow: None,
            only: only.map(str::to_owned),
        }
    }

    /// Sets the shadow that tracks the page cache's contents.
    pub(super) fn cast(&mut self, shadow: Shadow) {
        self.shadow = Some(shadow);
    }

    /// Calls `tell` with the shadow, then records what the shadow found wrong.
    pub(super) fn shadow<T>(&mut self, tell: impl FnOnce(&mut Shadow) -> T) -> Option<T> {
        let shadow = self.shadow.as_mut()?;
        let told = tell(shadow);
        for (property, message) in std::mem::take(&mut shadow.wrong) {
            self.note(property, Err(Finding(message)));
        }
        Some(told)
    }

    pub(super) fn on_io(&mut self, io: &Io, frames: &[FrameId]) {
        let key = (io.task.0, io.token);
        self.hash.numbers(&[
            key.0.into(),
            key.1,
            io.sector.get(),
            io.bytes.get(),
            io.ioprio.bits().into(),
        ]);
        if !frames.is_empty() {
            self.world
                .layouts
                .insert(key, Layout::from_pages(frames.iter().map(|frame| u64::from(frame.0))));
            self.world.bios.insert(key, io.ioprio);
        }
        self.world.note_payer(io);
        self.each(|checker, world| checker.on_io(world, io, frames));
        self.shadow(|shadow| shadow.on_io(io, frames));
    }

    pub(super) fn on_io_over(&mut self, task: TaskId, token: u64, status: Status) {
        self.hash.numbers(&[task.0.into(), token, status.errno() as u64]);
        self.shadow(|shadow| shadow.on_io_over(task, token, status, None));
    }

    pub(super) fn on_cache(&mut self, seen: &SeenCache) {
        self.each(|checker, world| checker.on_cache(world, seen));
    }

    /// Records the first violation, if its property is checked.
    pub(super) fn note(&mut self, checker: &'static str, verdict: CheckResult) {
        if self.only.as_ref().is_some_and(|only| only != checker) {
            return;
        }
        if let (Err(Finding(message)), None) = (verdict, &self.violation) {
            let events = self.history.iter().copied().collect();
            self.violation = Some(Violation { checker, message, events });
        }
    }

    fn each(&mut self, mut ask: impl FnMut(&mut dyn Checker, &World) -> CheckResult) {
        let Self { list, world, violation, history, .. } = self;
        for (name, checker) in list {
            if let (Err(Finding(message)), None) = (ask(checker.as_mut(), world), &violation) {
                let events = history.iter().copied().collect();
                *violation = Some(Violation { checker: name, message, events });
            }
        }
    }

    pub(super) fn on_command(&mut self, issued: Issued) {
        self.each(|checker, world| checker.on_command(world, &issued));
        self.shadow(|shadow| shadow.on_command(&issued));
        self.unseen.push_back(issued);
    }

    pub(super) fn on_completion(&mut self, completion: &Completion) {
        self.hash.numbers(&[
            completion.request.0.into(),
            completion.status.errno() as u64,
            completion.bytes.get(),
        ]);
        self.each(|checker, world| checker.on_completion(world, completion));
        self.shadow(|shadow| shadow.on_completion(completion));
    }

    pub(super) fn on_abort(&mut self, command: &Command) {
        self.each(|checker, world| checker.on_abort(world, command));
        self.shadow(|shadow| shadow.on_abort(command));
    }

    pub(super) fn on_event(&mut self, event: &Event) {
        self.events += 1;
        self.history.push_back(*event);
        if self.history.len() > self.world.events_shown {
            self.history.pop_front();
        }
        let Event { time, kind, task, cpu, op, flags, ioprio, sector, sectors, queue, tag } =
            *event;
        self.hash.bytes(name(&kind).as_bytes());
        let tag = tag.map_or(u64::MAX, |tag| tag.0.into());
        self.hash.numbers(&[time.get(), task.0.into(), cpu.into(), op as u64, flags.bits().into()]);
        self.hash.numbers(&[
            ioprio.bits().into(),
            sector.get(),
            sectors.into(),
            queue.0.into(),
            tag,
        ]);
        if kind == EventKind::BioQueue && op.has_data() {
            self.world.largest_bio = self.world.largest_bio.max(u64::from(sectors) * SECTOR_SIZE);
        }
        let issued = if kind == EventKind::Issue { self.unseen.pop_front() } else { None };
        self.each(|checker, world| checker.on_event(world, event, issued.as_ref()));
        if kind == EventKind::BioQueue && op == Op::Write {
            // The task's next write there may be a direct one of its own: before a direct write the
            // cache writes its dirty pages.
            self.world
                .payers_at
                .entry((task.0, sector.get()))
                .and_modify(|payers| _ = payers.pop_front());
        }
    }

    pub(super) fn on_step(&mut self, seen: &Seen) {
        self.each(|checker, world| checker.on_step(world, seen));
    }

    pub(super) fn on_idle(&mut self) {
        self.each(|checker, world| checker.on_idle(world));
        self.shadow(Shadow::on_idle);
    }

    pub(super) fn on_end(&mut self, end: &End) {
        self.each(|checker, world| checker.on_end(world, end));
    }

    /// Returns how often a program or a sync met an effect of a silent device fault.
    pub(super) fn found(&self) -> u64 {
        self.shadow.as_ref().map_or(0, |shadow| shadow.found)
    }

    /// Returns the hash of all completions and events so far.
    pub(super) fn hash(&self) -> u64 {
        self.hash.get()
    }
}

/// Returns `Ok` if `holds` is true, otherwise the message.
pub(super) fn ensure(holds: bool, message: impl FnOnce() -> String) -> CheckResult {
    if holds { Ok(()) } else { Err(Finding(message())) }
}
