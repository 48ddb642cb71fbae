//! What must hold in every run: one property a checker, none of which knows the stack's inside.
//!
//! They are fed from three places: the border to the device (commands taken, completions, aborts),
//! the event stream, and the results. Each keeps its own books; a violation is a line of text.

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
use elevon_core::kernel::Rules;
use elevon_core::layout::Layout;
use elevon_core::limits::QueueLimits;
use elevon_core::op::Op;
use elevon_core::stack::{Counters, Io};
use elevon_core::status::Status;
use elevon_core::units::{Instant, Nanos, SECTOR_SIZE, TaskId, TenantId};
use elevon_formats::fio::JobSpec;
use elevon_sim::device::fault::Silent;
use elevon_workload::token::Token;

use super::cache::SeenCache;
use super::hash::StableHash;
use super::shadow::Shadow;
use super::tenants::Seen;

/// What a checker finds wrong, in words; its kind is the checker's name (see [`Violation`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding(pub(super) String);

/// What a checker says of what it was shown.
pub(super) type CheckResult = Result<(), Finding>;

/// What checkers may know beforehand.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) limits: QueueLimits,
    pub(super) rules: Rules,
    pub(super) size_sectors: u64,
    /// Driver tags of each hardware queue.
    pub(super) tags: u32,
    /// Job of each task of the phase under way.
    pub(super) specs: Vec<JobSpec>,
    /// Buffers of the phase under way, by task and token.
    pub(super) layouts: BTreeMap<(u32, u64), Layout>,
    /// Who is charged for each task of the phase under way; the root beyond them.
    pub(super) tenants: Vec<TenantId>,
    /// Nobody removes a tenant.
    pub(super) tenants_stay: bool,
    /// What tenants may make of a priority.
    pub(super) policies: Vec<PrioPolicy>,
    /// Bytes of the largest bio with data so far.
    pub(super) largest_bio: u64,
    /// Slices of `io.max` that a window may be longer than it is.
    pub(super) slices: Nanos,
    /// The device must have something to do while anything waits.
    pub(super) conserves: bool,
    /// The scheduler gives a class nothing while a more urgent one has requests.
    pub(super) keeps_classes_back: bool,
    /// Priorities of the page cache's bios, by task and token.
    pub(super) bios: BTreeMap<(u32, u64), IoPrio>,
    /// Who pays for the page cache's writes: whoever made their pages dirty. By task and token, and
    /// for events by task and sector.
    pub(super) payers: BTreeMap<(u32, u64), TenantId>,
    pub(super) payers_at: BTreeMap<(u32, u64), TenantId>,
    /// Who is charged for each tenant that was removed; nobody removed while it is empty.
    pub(super) heirs: Vec<TenantId>,
    /// What content does to them.
    pub(super) activity: Activity,
    /// Tasks that may make pages dirty.
    pub(super) writers: u64,
    /// Files are cut.
    pub(super) truncates: bool,
    /// Events that a violation shows.
    pub(super) events_shown: usize,
    /// Few steps at an instant are too many: only to prove that this is noticed.
    pub(super) is_impatient: bool,
}

impl World {
    fn tenant_of(&self, task: TaskId) -> TenantId {
        self.tenants.get(task.index()).copied().unwrap_or(TenantId(0))
    }

    /// Tenants that may make pages dirty.
    fn dirtiers(&self) -> u64 {
        let mut all: Vec<TenantId> = self.tenants.iter().copied().chain([TenantId(0)]).collect();
        all.sort_unstable();
        all.dedup();
        all.len() as u64
    }

    /// Who pays for an I/O by its token.
    fn payer(&self, task: TaskId, token: u64) -> TenantId {
        self.payers.get(&(task.0, token)).copied().unwrap_or_else(|| self.tenant_of(task))
    }

    /// Who pays for the bio of an event.
    fn payer_of(&self, event: &Event) -> TenantId {
        let of_cache = self.payers_at.get(&(event.task.0, event.sector.get())).filter(|_| event.op == Op::Write);
        of_cache.copied().unwrap_or_else(|| self.tenant_of(event.task))
    }

    /// An I/O is about to be submitted.
    fn note_payer(&mut self, io: &Io) {
        let (by_token, by_sector) = ((io.task.0, io.token), (io.task.0, io.sector.get()));
        // Tokens are used again, of writes for reads as well.
        self.payers.remove(&by_token);
        if Token::is_of_cache(io.token) && io.op == Op::Write {
            let payer = self.heirs.get(io.tenant.index()).copied().unwrap_or(io.tenant);
            self.payers.insert(by_token, payer);
            self.payers_at.insert(by_sector, payer);
        }
    }
}

/// A command that the device took, with the memory it moves.
#[derive(Clone, Debug)]
pub(super) struct Issued {
    pub(super) at: Instant,
    pub(super) command: Command,
    pub(super) pieces: Vec<Piece>,
    /// What is planned to be wrong with it that nobody is told of.
    pub(super) silent: Option<Silent>,
}

/// What is known when everything is over.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) disk: DiskStats,
    pub(super) counters: Counters,
}

/// One property.
pub(super) trait Checker {
    /// The device took a command.
    fn on_command(&mut self, _world: &World, _issued: &Issued) -> CheckResult {
        Ok(())
    }
    /// The device reports a command.
    fn on_completion(&mut self, _world: &World, _completion: &Completion) -> CheckResult {
        Ok(())
    }
    /// The device forgot a command on request.
    fn on_abort(&mut self, _world: &World, _command: &Command) -> CheckResult {
        Ok(())
    }
    /// An event; `issued` is the command of an Issue.
    fn on_event(&mut self, _world: &World, _event: &Event, _issued: Option<&Issued>) -> CheckResult {
        Ok(())
    }
    /// A program gives an I/O, or the page cache a bio in those frames.
    fn on_io(&mut self, _world: &World, _io: &Io, _frames: &[FrameId]) -> CheckResult {
        Ok(())
    }
    /// As [`Self::on_step`], of the page cache.
    fn on_cache(&mut self, _world: &World, _seen: &SeenCache) -> CheckResult {
        Ok(())
    }
    /// Everything that could happen at an instant has happened; more may follow at the same one.
    fn on_step(&mut self, _world: &World, _seen: &Seen) -> CheckResult {
        Ok(())
    }
    /// A phase is over and nothing is in flight.
    fn on_idle(&mut self, _world: &World) -> CheckResult {
        Ok(())
    }
    /// All is over.
    fn on_end(&mut self, _world: &World, _end: &End) -> CheckResult {
        Ok(())
    }
}

/// A violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The checker's name.
    pub checker: &'static str,
    /// What it says.
    pub message: String,
    /// The last events before it.
    pub events: Vec<Event>,
}

impl Violation {
    pub(super) const fn new(checker: &'static str, message: String) -> Self {
        Self { checker, message, events: Vec::new() }
    }
}

/// All checkers, and the hash of everything they saw.
pub(super) struct Checks {
    pub(super) world: World,
    list: Vec<(&'static str, Box<dyn Checker>)>,
    /// Commands whose Issue event has not been seen yet.
    unseen: VecDeque<Issued>,
    hash: StableHash,
    pub(super) violation: Option<Violation>,
    pub(super) events: u64,
    /// What the run was told last.
    pub(super) now: Instant,
    history: VecDeque<Event>,
    /// What a page cache, programs and the device hold.
    shadow: Option<Shadow>,
    only: Option<String>,
}

impl Checks {
    /// All checkers, or the one of a name.
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
            ("memory", Box::<cache::Memory>::default()),
            ("dirty", Box::<cache::Dirty>::default()),
            ("counted", Box::<cache::Counted>::default()),
            ("content", Box::<cache::Content>::default()),
            ("ends", Box::<cache::Ends>::default()),
        ];
        let list = list.into_iter().filter(|(name, _)| only.is_none_or(|only| only == *name)).collect();
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

    /// Has what a page cache holds watched, too.
    pub(super) fn cast(&mut self, shadow: Shadow) {
        self.shadow = Some(shadow);
    }

    /// The shadow, and then what it finds wrong.
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
        self.hash.numbers(&[key.0.into(), key.1, io.sector.get(), io.bytes.get(), io.ioprio.bits().into()]);
        if !frames.is_empty() {
            self.world.layouts.insert(key, Layout::from_pages(frames.iter().map(|slot| u64::from(slot.0))));
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

    /// Notes the first violation of a property that is looked at.
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
        self.hash.numbers(&[completion.request.0.into(), completion.status.errno() as u64, completion.bytes.get()]);
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
        let Event { time, kind, task, cpu, op, flags, ioprio, sector, sectors, queue, tag } = *event;
        self.hash.bytes(name(&kind).as_bytes());
        let tag = tag.map_or(u64::MAX, |tag| tag.0.into());
        self.hash.numbers(&[time.get(), task.0.into(), cpu.into(), op as u64, flags.bits().into()]);
        self.hash.numbers(&[ioprio.bits().into(), sector.get(), sectors.into(), queue.0.into(), tag]);
        if kind == EventKind::BioQueue && op.has_data() {
            self.world.largest_bio = self.world.largest_bio.max(u64::from(sectors) * SECTOR_SIZE);
        }
        let issued = if kind == EventKind::Issue { self.unseen.pop_front() } else { None };
        self.each(|checker, world| checker.on_event(world, event, issued.as_ref()));
        if kind == EventKind::BioQueue && op == Op::Write {
            // The same task may write there directly next, for itself: before a direct write the
            // cache writes what it has.
            self.world.payers_at.remove(&(task.0, sector.get()));
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

    /// How often somebody met what the device did wrong without a word.
    pub(super) fn found(&self) -> u64 {
        self.shadow.as_ref().map_or(0, |shadow| shadow.found)
    }

    /// The hash of all completions and events so far.
    pub(super) fn hash(&self) -> u64 {
        self.hash.get()
    }
}

/// `Ok` where it holds, else the line.
pub(super) fn ensure(holds: bool, message: impl FnOnce() -> String) -> CheckResult {
    if holds { Ok(()) } else { Err(Finding(message())) }
}
