//! The stack: the path of a bio from submission to completion.
//!
//! Sans-IO: time comes in as `now`, the device as a [`Driver`](crate::driver::Driver). The loop of
//! a caller is
//!
//! 1. `handle_completion` for everything the device finished,
//! 2. `handle_timers` once `next_timer` has come,
//! 3. `submit` what the sources want (between `begin_batch` and `end_batch` where one system call
//!    carries several),
//! 4. drain `poll_done`, `poll_unblocked` and, with tracing on, `drain_events`,
//!
//! until none has work, then wait for the earliest of the device, the sources and `next_timer`.
//!
//! The path is cut by stage: `submit` builds and splits, `plug` gathers and merges, `dispatch` asks
//! the scheduler and feeds the driver, `complete` ends requests, bios and calls and runs timers,
//! `flush` carries out the flush machine's actions. Cost per bio beside the scheduler's: O(1), and
//! O(log runs) to find the place in a scattered buffer. Nothing is allocated per I/O once tables
//! have grown.

extern crate alloc;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::account::{Accounting, DiskStats};
use crate::bio::Bio;
use crate::control::{Control, ControlConfig};
use crate::event::{Event, EventKind};
use crate::flush::FlushMachine;
use crate::ioprio::{IoPrio, PrioClass};
use crate::kernel::{IoTicksForm, Rules};
use crate::layout::Layout;
use crate::limits::{LimitsError, QueueLimits};
use crate::monotonic::Monotonic;
use crate::op::{Flags, Op, StatGroup};
use crate::pool::Pool;
use crate::request::{Request, Requests};
use crate::sched::{AnyScheduler, Scheduler, SchedulerError, View};
use crate::status::Status;
use crate::tags::TagMap;
use crate::units::{BioId, Bytes, HwQueue, Instant, LayoutId, Nanos, RequestId, Sector, TaskId, TenantId};

mod check;
mod complete;
pub mod config;
mod dispatch;
mod flush;
mod plug;
mod submit;
mod tenants;
#[cfg(test)]
mod tests;

pub use config::{DirectPath, StackConfig};

use plug::Plug;
use submit::Submission;
use tenants::GatedBio;

/// One call of a source: what becomes one or more bios. Completes as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// Who submits it.
    pub task: TaskId,
    /// The source's own name for it; comes back in [`Done`] and names its buffer in
    /// [`crate::driver::Piece`].
    pub token: u64,
    /// Read, Write, Discard, SecureErase, WriteZeroes or Flush (an fsync: an empty PREFLUSH).
    pub op: Op,
    /// SYNC, FUA, NOWAIT ... as the caller's engine sets them.
    pub flags: Flags,
    /// First sector.
    pub sector: Sector,
    /// Length; a multiple of the logical block size. 0 for Flush.
    pub bytes: Bytes,
    /// Priority; class NONE becomes the default of the task.
    pub ioprio: IoPrio,
    /// Write lifetime hint, 0 for none.
    pub write_hint: u8,
    /// Who is charged.
    pub tenant: TenantId,
    /// Layout of its buffer, from [`Stack::register_layout`]; ignored for operations without data.
    pub layout: LayoutId,
    /// Whether the submitter sleeps when no tag is free (a system call does; io_uring hands the I/O
    /// to a worker instead).
    pub may_block: bool,
}

/// How a submission went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// On its way (or already over: see [`Stack::poll_done`]).
    Accepted,
    /// The task sleeps until a tag is free; it must not submit before [`Stack::poll_unblocked`]
    /// names it.
    Blocked,
}

/// An I/O that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Who submitted it.
    pub task: TaskId,
    /// The source's name for it.
    pub token: u64,
    /// How it ended: the first error of its parts.
    pub status: Status,
    /// How long the device had the last of its commands; zero where it never got one.
    pub device: Nanos,
    /// The class that its last bio was served in, after the cgroup's priority policy was applied.
    pub class: PrioClass,
}

/// What the stack counts beside the kernel's statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bios that entered the queue.
    pub bios: u64,
    /// Cuts made by the split.
    pub splits: u64,
    /// Bios appended to a request, discards joined by range among them.
    pub back_merges: u64,
    /// Bios put in front of a request.
    pub front_merges: u64,
    /// Requests swallowed by another.
    pub request_merges: u64,
    /// Commands given to the driver, retries included.
    pub issued: u64,
    /// Ends of split bios that are smaller than the queue limit: small tails.
    pub tails: u64,
    /// Requests that the driver gave back or refused for want of resources.
    pub requeues: u64,
    /// Requests tried again after an error.
    pub retries: u64,
    /// Requests that passed their timeout.
    pub timeouts: u64,
    /// Answers to commands that had been aborted.
    pub late_answers: u64,
    /// Device flushes sent.
    pub flushes: u64,
    /// Submissions that had to wait for a tag.
    pub tag_waits: u64,
    /// Commands that read (0) and write data (1) by their length: entry n counts those of n
    /// sectors, the last also what is longer (atomic writes and zone appends have limits of
    /// their own).
    pub sizes: [Vec<u64>; 2],
}

/// Why a stack could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The limits are not valid.
    Limits(LimitsError),
    /// The scheduler or a tunable is not.
    Scheduler(SchedulerError),
}

impl core::fmt::Display for BuildError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Limits(error) => error.fmt(f),
            Self::Scheduler(error) => error.fmt(f),
        }
    }
}
impl core::error::Error for BuildError {}

/// An I/O that is not yet over.
#[derive(Clone, Copy, Debug)]
struct Call {
    task: TaskId,
    token: u64,
    status: Status,
    /// How long the device had the command that ended last.
    device: Nanos,
    /// The class of the bio that ended last in the device.
    class: PrioClass,
    /// Bios outstanding, and one more while the submission is under way.
    parts: u32,
}

/// What the stack keeps of a task.
#[derive(Clone, Debug, Default)]
struct Task {
    plug: Plug,
    /// Sleeps for a tag.
    blocked: bool,
}

/// Somebody who waits for a tag, with the rest of its submission.
#[derive(Clone, Copy, Debug)]
struct TagWaiter {
    io: Io,
    submission: Submission,
    bio: BioId,
}

/// A hardware queue.
#[derive(Clone, Debug)]
struct HwQueueState {
    /// Driver tags.
    tags: TagMap,
    /// Commands that the driver has: tags are also held by what waits for it.
    in_driver: u32,
    /// Scheduler tags; `None` without a scheduler.
    sched_tags: Option<TagMap>,
    /// Requests that the driver refused, and flushes: served before the scheduler is asked. At most
    /// the requests of the queue.
    dispatch: VecDeque<RequestId>,
    /// Run again when any request of the queue is freed.
    restart: bool,
    /// How often the driver was busy lately (EWMA in eighths); above 0 requests go out one at a
    /// time.
    busy: u8,
    /// When to run again without any other cause.
    rerun_at: Option<Instant>,
    flush: FlushMachine,
    /// Who waits for a tag, first come first served; each with a bio of its own, so at most as many
    /// as there are bios.
    waiters: VecDeque<TagWaiter>,
    /// Guards against running a queue from inside its own run.
    running: bool,
    /// Guards against waking its waiters from inside a wake-up.
    waking: bool,
}

/// A stack for one device. See the module's head for the order of calls.
pub struct Stack {
    rules: Rules,
    config: StackConfig,
    limits: QueueLimits,
    has_scheduler: bool,
    /// Requests of each queue; request id = queue · this + tag, flush requests behind them all.
    requests_per_queue: u32,

    bios: Pool<Bio>,
    calls: Pool<Call>,
    layouts: Vec<Layout>,
    tasks: Vec<Task>,
    requests: Requests,
    queues: Vec<HwQueueState>,
    scheduler: AnyScheduler,
    control: Control,
    /// What its stages keep, by bio; as long as the table of bios was at its longest.
    held: Vec<Option<GatedBio>>,

    accounting: Accounting,
    counters: Counters,
    /// As many as have ended since the caller last asked: it takes all after each call, so at most
    /// what was in flight.
    done: VecDeque<Done>,
    /// As `done`; a task is in it at most once for each time that it slept.
    unblocked: VecDeque<TaskId>,
    tracing: bool,
    /// Without a bound: tracing is off unless the caller turns it on, and then drains them.
    events: Vec<Event>,

    sequence: u64,
    /// Sequences of commands that were aborted and have not been answered since. Without a bound: a
    /// device may never answer, and each costs a timeout.
    aborted: BTreeSet<u64>,
    /// Earliest `rerun_at` of all queues.
    next_rerun: Option<Instant>,
    /// When requests in flight are looked through for timeouts.
    timeout_scan: Option<Instant>,
    clock: Monotonic,
    /// Memory used again for each batch.
    batch: Vec<RequestId>,
    pulled: VecDeque<RequestId>,
    over: Vec<RequestId>,
    released: Vec<BioId>,
    /// The bio that limits have let go just now.
    admitted: Option<BioId>,
}

impl HwQueueState {
    /// Idle. Tags are as many as the device takes commands (`queue_depth`), or with no scheduler as
    /// there are requests.
    fn new(queue_depth: u32, nr_requests: u32, has_scheduler: bool) -> Self {
        Self {
            tags: TagMap::new(if has_scheduler { queue_depth } else { nr_requests }),
            in_driver: 0,
            sched_tags: has_scheduler.then(|| TagMap::new(nr_requests)),
            dispatch: VecDeque::new(),
            restart: false,
            busy: 0,
            rerun_at: None,
            flush: FlushMachine::default(),
            waiters: VecDeque::new(),
            running: false,
            waking: false,
        }
    }
}

impl Stack {
    /// Builds a stack, validating limits and scheduler.
    pub fn new(config: StackConfig) -> Result<Self, BuildError> {
        let rules = config.kernel.rules();
        let mut limits = config.limits.clone();
        limits.validate(&rules).map_err(BuildError::Limits)?;
        let has_scheduler = !config.scheduler.is_none();
        let nr_requests = config.nr_requests();
        let requests = usize::from(config.hw_queues) * (nr_requests as usize + 1);
        let mut scheduler =
            AnyScheduler::new(&config.scheduler, rules, config.hz, config.hw_queues, config.cpus, requests)
                .map_err(BuildError::Scheduler)?;
        scheduler.on_queue_info(limits.rotational);
        scheduler.on_depth_updated(nr_requests);
        scheduler.set_discard_ranges(limits.max_discard_segments);
        let control = Control::new(&ControlConfig {
            rules,
            hz: config.hz,
            rotational: limits.rotational,
            queue_depth: config.queue_depth,
            nr_requests,
            cpus: u32::from(config.cpus),
            io_throttle: config.io_throttle,
            exact_io_max: config.exact_io_max,
        });
        let form = config.io_ticks.unwrap_or(rules.io_ticks);
        let largest = limits.max_sectors.get() as usize;
        Ok(Self {
            rules,
            limits,
            has_scheduler,
            requests_per_queue: nr_requests,
            bios: Pool::new(),
            calls: Pool::new(),
            layouts: alloc::vec![Layout::contiguous(u64::MAX >> 1, 1 << 30)],
            tasks: Vec::new(),
            requests: Requests::new(requests),
            queues: alloc::vec![HwQueueState::new(config.queue_depth, nr_requests, has_scheduler); config.hw_queues.into()],
            scheduler,
            control,
            held: Vec::new(),
            accounting: Accounting::new(form, config.hz, config.hw_queues, rules.in_flight_from_allocation),
            counters: Counters { sizes: [(); 2].map(|()| alloc::vec![0; largest + 1]), ..Counters::default() },
            done: VecDeque::new(),
            unblocked: VecDeque::new(),
            tracing: false,
            events: Vec::new(),
            sequence: 0,
            aborted: BTreeSet::new(),
            next_rerun: None,
            timeout_scan: None,
            clock: Monotonic::START,
            batch: Vec::new(),
            pulled: VecDeque::new(),
            over: Vec::new(),
            released: Vec::new(),
            admitted: None,
            config,
        })
    }

    /// Makes a buffer's layout known. Layout 0 is there from the start: contiguous memory of any
    /// length.
    pub fn register_layout(&mut self, layout: Layout) -> LayoutId {
        self.layouts.push(layout);
        LayoutId((self.layouts.len() - 1) as u32)
    }

    /// Gives a layout to another buffer: pages with these physical page numbers. None of its I/O
    /// may be under way.
    pub fn set_layout(&mut self, id: LayoutId, pages: impl IntoIterator<Item = u64>) {
        self.layouts[id.index()].set_pages(pages);
    }

    /// The next I/O that is over, in order of completion.
    #[inline]
    pub fn poll_done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// The next task that may submit again.
    #[inline]
    pub fn poll_unblocked(&mut self) -> Option<TaskId> {
        self.unblocked.pop_front()
    }

    /// Turns the recording of events on or off (off at first).
    pub fn set_tracing(&mut self, on: bool) {
        self.tracing = on;
    }

    /// Events since the last call, oldest first; the buffer is left empty but keeps its memory.
    pub fn drain_events(&mut self, into: &mut Vec<Event>) {
        into.append(&mut self.events);
    }

    /// Whether [`Self::drain_events`] has anything.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// I/Os taken and not yet over.
    #[inline]
    pub fn ios_in_flight(&self) -> usize {
        self.calls.live()
    }

    /// Requests allocated and not yet over, as far as they are accounted (`iostats`).
    #[inline]
    pub fn requests_in_flight(&self) -> u64 {
        self.accounting.outstanding()
    }

    /// The statistics as `/sys/block/X/stat` shows them when read now.
    pub fn disk_stats(&mut self, now: Instant) -> DiskStats {
        self.accounting.read(now)
    }

    /// The accounting, for latencies by stage.
    pub fn accounting(&self) -> &Accounting {
        &self.accounting
    }

    /// What is counted beside the kernel's statistics.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The limits in force.
    pub fn limits(&self) -> &QueueLimits {
        &self.limits
    }

    /// What the stack was built from.
    pub fn config(&self) -> &StackConfig {
        &self.config
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &AnyScheduler {
        &self.scheduler
    }

    /// The form of io_ticks behind field 10.
    pub fn io_ticks_form(&self) -> IoTicksForm {
        self.config.io_ticks_form()
    }

    /// Gives a tenant a weight from 1 to 1000 in its parent, for schedulers that share by groups
    /// (see [`AnyScheduler::set_group`]).
    pub fn set_group(&mut self, tenant: TenantId, weight: u16) {
        if let Some(parent) = self.control.tenants().parent(tenant) {
            self.scheduler.set_group(tenant, parent, weight);
        }
    }

    /// A task that submitted I/O is gone. What it has under way still completes.
    pub fn handle_exit(&mut self, now: Instant, task: TaskId) {
        self.advance(now);
        self.scheduler.on_task_exit(now, task);
    }

    /// Changes a scheduler's tunable while I/O is in flight.
    pub fn set_tunable(&mut self, name: &str, value: i64) -> Result<(), SchedulerError> {
        self.scheduler.set_tunable(name, value)
    }

    fn view(&self) -> View<'_> {
        View { requests: &self.requests, rules: &self.rules }
    }

    /// The hardware queue that a task's I/O goes to.
    #[inline]
    fn queue_of(&self, task: TaskId) -> HwQueue {
        HwQueue(self.cpu_of(task) % self.config.hw_queues)
    }

    #[inline]
    fn cpu_of(&self, task: TaskId) -> u16 {
        if task == TaskId::IDLE { 0 } else { (task.0 % u32::from(self.config.cpus)) as u16 }
    }

    fn flush_request(&self, queue: HwQueue) -> RequestId {
        RequestId(u32::from(self.config.hw_queues) * self.requests_per_queue + u32::from(queue.0))
    }

    fn task_mut(&mut self, task: TaskId) -> &mut Task {
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, Task::default);
        }
        &mut self.tasks[task.index()]
    }

    /// Time may stand still but never goes back.
    #[inline]
    fn advance(&mut self, now: Instant) {
        self.clock.advance(now);
    }

    #[inline]
    fn trace_bio(&mut self, now: Instant, kind: EventKind, bio: &Bio) {
        if self.tracing {
            let (task, cpu) = (bio.task, self.cpu_of(bio.task));
            self.events.push(Event {
                time: now,
                kind,
                task,
                cpu,
                op: bio.op,
                flags: bio.flags,
                ioprio: bio.ioprio,
                sector: bio.sector,
                sectors: bio.sectors().get() as u32,
                queue: HwQueue(0),
                tag: None,
            });
        }
    }

    #[inline]
    fn trace_request(&mut self, now: Instant, kind: EventKind, id: RequestId) {
        if self.tracing {
            let request = self.requests[id];
            self.record(now, kind, &request, request.sector, request.sectors.get() as u32);
        }
    }

    /// An event of a request with a place and length that need not be the request's own any more.
    #[inline]
    fn trace_part(&mut self, now: Instant, kind: EventKind, id: RequestId, sector: Sector, sectors: u32) {
        if self.tracing {
            let request = self.requests[id];
            self.record(now, kind, &request, sector, sectors);
        }
    }

    #[cold]
    fn record(&mut self, now: Instant, kind: EventKind, request: &Request, sector: Sector, sectors: u32) {
        let in_completion = matches!(kind, EventKind::Complete { .. } | EventKind::IoDone);
        let task = if in_completion { TaskId::IDLE } else { request.task };
        self.events.push(Event {
            time: now,
            kind,
            task,
            cpu: request.cpu,
            op: request.op,
            flags: request.flags,
            // Its bios, which carry it, are gone by then.
            ioprio: if kind == EventKind::IoDone { IoPrio::NONE } else { request.ioprio },
            sector,
            sectors,
            queue: request.queue,
            tag: request.tag,
        });
    }
}

/// The group that a request's statistics count in.
const fn group_of(request: &Request) -> StatGroup {
    request.op.stat_group()
}
