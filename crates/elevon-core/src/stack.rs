//! The stack: the path of a bio from submission to completion.
//!
//! Sans-IO: the current time is the argument `now`, the device is a
//! [`Driver`](crate::driver::Driver). A caller runs this loop:
//!
//! 1. call `handle_completion` for every command that the device finished,
//! 2. call `handle_timers` if `next_timer` is due,
//! 3. `submit` what the sources want (between `begin_batch` and `end_batch` if one system call
//!    submits several I/Os),
//! 4. drain `poll_done`, `poll_unblocked` and, if tracing is on, `drain_events`,
//!
//! until none of these steps has work. Then it waits for the earliest of the device, the sources
//! and `next_timer`.
//!
//! Each stage has a module. `submit` builds and splits bios, and `plug` gathers and merges
//! requests. `dispatch` takes requests from the scheduler and issues them to the driver. `complete`
//! ends requests, bios and calls, and runs timers. `flush` carries out the flush machine's actions,
//! `tenants` asks limits and gates, and `throttled` is writeback throttling. Cost per bio without
//! the scheduler's: O(1), and O(log runs) to find the position in a scattered buffer. Nothing is
//! allocated per I/O once the tables have grown.

extern crate alloc;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::account::{Accounting, DiskStats};
use crate::bio::Bio;
use crate::control::{ControlConfig, TenantControl};

use crate::flush::FlushMachine;
use crate::ioprio::IoPrio;
use crate::kernel::{IoTicksForm, Rules};
use crate::layout::Layout;
use crate::limits::{LimitsError, QueueLimits};
use crate::monotonic::Monotonic;
use crate::op::{Flags, Op, StatGroup};
use crate::pool::Pool;
use crate::request::{Request, Requests};
use crate::sched::{AnyScheduler, Reserve, Scheduler, SchedulerError, View};
use crate::status::Status;
use crate::tags::TagMap;
use crate::units::{
    BioId, Bytes, HwQueue, Instant, LayoutId, Nanos, RequestId, Sector, Sectors, TaskId, TenantId,
};
use crate::wbt::Wbt;
pub use dispatch::WORKER_DELAY;

pub mod attributes;
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
mod throttled;
mod trace;

pub use config::{DirectPath, StackConfig};

use plug::Plug;
use submit::Submission;
use tenants::GatedBio;
use throttled::Throttling;
use trace::Trace;

/// One call of a source. It becomes one or more bios and completes as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// The task that submits it.
    pub task: TaskId,
    /// The source's own token; it comes back in [`Done`] and names the buffer in
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
    /// The tenant that is charged.
    pub tenant: TenantId,
    /// Layout of the buffer, from [`Stack::register_layout`]; ignored for operations without data.
    pub layout: LayoutId,
    /// Whether the submitter sleeps if no tag is free (a system call sleeps; io_uring hands the
    /// I/O to a worker instead).
    pub may_block: bool,
}

/// The result of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// The I/O was accepted. It may have completed already: see [`Stack::poll_done`].
    Accepted,
    /// The task sleeps until a tag is free. It must not submit before [`Stack::poll_unblocked`]
    /// returns it.
    Blocked,
}

/// A completed I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The task that submitted it.
    pub task: TaskId,
    /// The source's token.
    pub token: u64,
    /// The first error of its bios, or OK.
    pub status: Status,
    /// How long its last command was in the device; zero if no command of it was issued.
    pub device: Nanos,
    /// The priority of its last bio, after the cgroup's priority policy was applied.
    pub ioprio: IoPrio,
}

/// Counters that the kernel's statistics do not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bios that entered the queue.
    pub bios: u64,
    /// Cuts made by the split.
    pub splits: u64,
    /// Bios appended to a request, including discards joined by range.
    pub back_merges: u64,
    /// Bios put in front of a request.
    pub front_merges: u64,
    /// Requests merged into another request.
    pub request_merges: u64,
    /// Commands given to the driver, including retries.
    pub issued: u64,
    /// Small tails: last parts of split bios that are smaller than the queue limit.
    pub tails: u64,
    /// Requests that the driver gave back or refused because it was busy.
    pub requeues: u64,
    /// Requests issued again after an error.
    pub retries: u64,
    /// Requests that passed their timeout.
    pub timeouts: u64,
    /// Completions of commands that had been aborted.
    pub late_answers: u64,
    /// Device flushes sent.
    pub flushes: u64,
    /// Submissions that had to wait for a tag.
    pub tag_waits: u64,
    /// Submissions that writeback throttling (wbt) made wait.
    pub wbt_waits: u64,
    /// Commands that read, index 0, and write data, index 1, by length: entry n counts commands of
    /// n sectors. The last entry also counts longer commands (atomic writes and zone appends have
    /// limits of their own).
    pub sizes: [Vec<u64>; 2],
    /// Commands that discard, by length in bytes.
    pub discards: BTreeMap<u64, u64>,
}

/// Why a stack could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The limits are not valid.
    Limits(LimitsError),
    /// The scheduler or one of its tunables is not valid.
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

/// An I/O that has not completed.
#[derive(Clone, Copy, Debug)]
struct Call {
    task: TaskId,
    token: u64,
    status: Status,
    /// How long the last completed command was in the device.
    device: Nanos,
    /// The priority of the bio that completed last in the device.
    ioprio: IoPrio,
    /// Bios that have not completed, plus one while the submission is in progress.
    parts: u32,
    /// The key of the flush with which an `O_DSYNC` write ends, once its data is written.
    sync: Option<u32>,
}

impl Call {
    /// Returns the call of an I/O whose submission begins.
    fn from_io(io: &Io, sync: Option<u32>) -> Self {
        Self {
            task: io.task,
            token: io.token,
            status: Status::Ok,
            device: Nanos::ZERO,
            ioprio: io.ioprio,
            parts: 1,
            sync,
        }
    }
}

/// State of a task in the stack.
#[derive(Clone, Debug, Default)]
struct Task {
    plug: Plug,
    /// The task sleeps until a tag is free.
    blocked: bool,
    /// Its CPU, and the hardware queue of that CPU.
    cpu: u16,
    queue: HwQueue,
}

/// A submission that waits for a tag, or for a place of writeback throttling, with its remaining
/// part.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    io: Io,
    submission: Submission,
    bio: BioId,
}

/// A task that was woken, and what it does when it runs.
#[derive(Clone, Copy, Debug)]
struct Woken {
    at: Instant,
    step: WokenStep,
}

/// What a task does that was woken.
#[derive(Clone, Copy, Debug)]
enum WokenStep {
    /// It looks for a tag of a queue.
    LookForTag(HwQueue, Waiter),
    /// It goes on with its bio, which has its place of writeback throttling.
    GoOn(Waiter),
    /// It submits the flush of its `O_DSYNC` write, the call with this key.
    Flush(u32, Io),
    /// It is a worker of io_uring, and does a call that was tried in vain.
    Work(Submission, Io),
}

/// A hardware queue.
#[derive(Clone, Debug)]
struct HwQueueState {
    /// Driver tags.
    tags: TagMap,
    /// Commands in the driver. Requests that wait for the driver also hold tags, so this can be
    /// lower than the number of tags in use.
    in_driver: u32,
    /// Scheduler tags; `None` without a scheduler.
    sched_tags: Option<TagMap>,
    /// Requests that the driver refused, and flushes. They are served before the scheduler. At
    /// most as many as the queue has requests.
    dispatch: VecDeque<RequestId>,
    /// Run the queue again when any request of it is freed.
    restart: bool,
    /// How often the driver was busy recently (EWMA in eighths). Above 0, requests are issued one
    /// at a time.
    busy: u8,
    /// When to run the queue again even if nothing else causes a run; `Instant::MAX` if never.
    rerun_at: Instant,
    flush: FlushMachine,
    /// Submissions that wait for a tag, in FIFO order. Each holds one bio, so there are at most as
    /// many as bios.
    waiters: VecDeque<Waiter>,
    /// Tags that were freed since waiters were woken.
    freed: u32,
    /// Set while the queue runs, so that it is not run recursively.
    running: bool,
    /// Set while waiters are woken, so that they are not woken recursively.
    waking: bool,
}

/// A block layer stack for one device. See the module documentation for the order of calls.
pub struct Stack {
    rules: Rules,
    config: StackConfig,
    limits: QueueLimits,
    has_scheduler: bool,
    scheduler_has_timers: bool,
    /// Requests of each queue. Request id = queue · this + tag; the flush requests come after all
    /// of them.
    requests_per_queue: u32,

    bios: Pool<Bio>,
    calls: Pool<Call>,
    layouts: Vec<Layout>,
    tasks: Vec<Task>,
    requests: Requests,
    queues: Vec<HwQueueState>,
    scheduler: AnyScheduler,
    /// Requests in the scheduler or the software queues, over all hardware queues.
    queued: u32,
    control: TenantControl,
    held: HeldBios,
    throttling: Throttling,
    commands: Commands,
    durable: DurableWrites,
    finished: Finished,
    /// Tasks that were woken, for a tag or the flush of a write, and do not run yet.
    woken: Vec<Woken>,
    /// Workers of io_uring, by task; as long as the last task whose ring needed one.
    rings: Vec<submit::Ring>,
    /// A merge of requests freed a tag of a queue on which submissions wait for one.
    freed_by_merge: bool,
    /// Earliest `rerun_at` of all queues; `Instant::MAX` if none has one.
    next_rerun: Instant,

    accounting: Accounting,
    counters: Counters,
    trace: Trace,
    clock: Monotonic,
    scratch: Scratch,
}

/// Bios that a stage of [`TenantControl`] holds, and their way back.
#[derive(Default)]
struct HeldBios {
    /// By bio id; as long as the table of bios ever was.
    bios: Vec<Option<GatedBio>>,
    /// A buffer for the bios that a stage lets go at once.
    released: Vec<BioId>,
    /// The bio that the limiters just released.
    admitted: Option<BioId>,
    /// The task that submits bios that a limit held; `None` for the one that sent them.
    limit_worker: Option<TaskId>,
}

/// The commands of the driver over time.
struct Commands {
    /// The number of the next one. No number is used twice.
    sequence: u64,
    /// Numbers of commands that were aborted and not answered since. Not bounded: a device may
    /// never answer, but each entry costs one timeout.
    aborted: BTreeSet<u64>,
    /// When to check requests in flight for timeouts; `Instant::MAX` if none is in flight.
    timeout_scan: Instant,
}

/// `O_DSYNC` writes that end with a flush.
struct DurableWrites {
    /// Their flushes, while the data is not written yet.
    syncs: Pool<Io>,
    /// Calls whose data is written, with the flush that follows.
    written: VecDeque<(u32, Io)>,
}

/// What the caller asks for after each call of the stack.
#[derive(Default)]
struct Finished {
    /// I/Os that completed since the caller last took all of them, as it does after each call: so
    /// there are at most as many as were in flight.
    done: Vec<Done>,
    /// How many of them it has taken.
    taken: usize,
    /// Tasks that may submit again, as `done`; a task is in it at most once for each time that it
    /// slept.
    unblocked: VecDeque<TaskId>,
}

/// Buffers that are reused for each batch.
#[derive(Default)]
struct Scratch {
    batch: Vec<RequestId>,
    pulled: VecDeque<RequestId>,
    over: Vec<RequestId>,
}

impl HwQueueState {
    /// Returns the number of tags that requests have: those of the scheduler, if there is one.
    fn used(&self) -> u32 {
        self.sched_tags.as_ref().unwrap_or(&self.tags).used()
    }

    /// An idle queue. It has as many driver tags as the device takes commands (`queue_depth`), or
    /// without a scheduler as many as there are requests.
    fn new(config: &StackConfig) -> Self {
        let tags = TagMap::in_words(config.nr_requests(), config.word_shift());
        let has_scheduler = !config.scheduler.is_none();
        Self {
            tags: if has_scheduler { TagMap::new(config.queue_depth) } else { tags.clone() },
            in_driver: 0,
            sched_tags: has_scheduler.then(|| match config.tag_hint {
                Some(first) => tags.spread(config.cpus, first),
                None => tags,
            }),
            dispatch: VecDeque::new(),
            restart: false,
            busy: 0,
            rerun_at: Instant::MAX,
            flush: FlushMachine::default(),
            waiters: VecDeque::new(),
            freed: 0,
            running: false,
            waking: false,
        }
    }
}

impl Stack {
    /// Builds a stack. Validates limits and scheduler.
    ///
    /// # Errors
    /// The limits contradict each other, or the scheduler's configuration is not valid.
    pub fn new(config: StackConfig) -> Result<Self, BuildError> {
        let rules = config.rules();
        let mut limits = config.limits.clone();
        limits.validate(&rules).map_err(BuildError::Limits)?;
        let nr_requests = config.nr_requests();
        let requests = usize::from(config.hw_queues) * (nr_requests as usize + 1);
        let scheduler =
            scheduler_of(&config, rules, &limits, requests).map_err(BuildError::Scheduler)?;
        let control = control_of(&config, rules, &limits, nr_requests);
        // Its places follow the device's queue, not nr_requests (traced on Linux 7.3: of buffered
        // writes with nr_requests=4 the fifth waits for a tag).
        let wbt = Wbt::new(config.wbt_target(), config.queue_depth, limits.write_cache, config.hz)
            .grown_to(config.wbt_writes, config.wbt_dirty_sleeps);
        let (form, largest) =
            (config.io_ticks.unwrap_or(rules.io_ticks), limits.max_sectors.get() as usize);
        let anywhere = Layout::contiguous(u64::MAX >> 1, 1 << 30);
        Ok(Self {
            rules,
            has_scheduler: !config.scheduler.is_none(),
            scheduler_has_timers: scheduler.has_timers(),
            requests_per_queue: nr_requests,
            bios: Pool::new(),
            calls: Pool::new(),
            layouts: alloc::vec![anywhere],
            limits,
            tasks: Vec::new(),
            requests: Requests::new(requests),
            queues: alloc::vec![HwQueueState::new(&config); config.hw_queues.into()],
            scheduler,
            queued: 0,
            control,
            throttling: Throttling {
                wbt,
                yields_to_io_cost: config.wbt_yields_to_io_cost(),
                waiting: Default::default(),
            },
            woken: Vec::new(),
            rings: Vec::new(),
            held: HeldBios::default(),
            accounting: Accounting::new(
                form,
                config.hz,
                config.hw_queues,
                rules.in_flight_from_allocation,
            )
            .with_tick_phase(config.hz, config.tick_phase),
            counters: Counters {
                sizes: [(); 2].map(|()| alloc::vec![0; largest + 1]),
                ..Counters::default()
            },
            finished: Finished::default(),
            durable: DurableWrites { syncs: Pool::new(), written: VecDeque::new() },
            commands: Commands {
                sequence: 0,
                aborted: BTreeSet::new(),
                timeout_scan: Instant::MAX,
            },
            trace: Trace::default(),
            freed_by_merge: false,
            next_rerun: Instant::MAX,
            clock: Monotonic::START,
            scratch: Scratch::default(),
            config,
        })
    }

    /// Registers the layout of a buffer. Layout 0 always exists: contiguous memory of any length.
    pub fn register_layout(&mut self, layout: Layout) -> LayoutId {
        self.layouts.push(layout);
        LayoutId((self.layouts.len() - 1) as u32)
    }

    /// Reuses a layout for another buffer, whose pages have these physical page numbers. No I/O of
    /// this layout may be in flight.
    pub fn set_layout(&mut self, id: LayoutId, pages: impl IntoIterator<Item = u64>) {
        self.layouts[id.index()].set_pages(pages);
    }

    /// Returns the next completed I/O, in order of completion.
    #[inline]
    pub fn poll_done(&mut self) -> Option<&Done> {
        if self.finished.taken == self.finished.done.len() {
            self.finished.done.clear();
            self.finished.taken = 0;
            return None;
        }
        self.finished.taken += 1;
        Some(&self.finished.done[self.finished.taken - 1])
    }

    /// Returns the next task that may submit again.
    #[inline]
    pub fn poll_unblocked(&mut self) -> Option<TaskId> {
        self.finished.unblocked.pop_front()
    }

    /// Returns true if [`Self::poll_done`] or [`Self::poll_unblocked`] has something.
    #[inline]
    pub fn has_done(&self) -> bool {
        self.finished.taken < self.finished.done.len() || !self.finished.unblocked.is_empty()
    }

    /// Returns the number of I/Os that were accepted and have not completed.
    #[inline]
    pub fn ios_in_flight(&self) -> usize {
        self.calls.live()
    }

    /// Returns the number of accounted requests (`iostats`) that are allocated and have not
    /// completed.
    #[inline]
    pub fn requests_in_flight(&self) -> u64 {
        self.accounting.outstanding()
    }

    /// Returns the statistics as `/sys/block/X/stat` shows them when it is read now.
    pub fn disk_stats(&mut self, now: Instant) -> DiskStats {
        self.accounting.read(now)
    }

    /// Returns the accounting, which has the latencies by stage.
    pub fn accounting(&self) -> &Accounting {
        &self.accounting
    }

    /// Returns the counters that the kernel's statistics do not have.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The limits in force.
    pub fn limits(&self) -> &QueueLimits {
        &self.limits
    }

    /// Sets the size of a device that has grown.
    ///
    /// # Panics
    /// If that is less than it was: I/O beyond the end may be in flight.
    pub fn grow(&mut self, size: Sectors) {
        assert!(size >= self.config.size, "a device of {:?} to {size:?}", self.config.size);
        self.config.size = size;
    }

    /// The configuration that the stack was built from.
    pub fn config(&self) -> &StackConfig {
        &self.config
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &AnyScheduler {
        &self.scheduler
    }

    /// The form of io_ticks that field 10 shows.
    pub fn io_ticks_form(&self) -> IoTicksForm {
        self.config.io_ticks_form()
    }

    /// Sets a tenant's weight in its parent, from 1 to 1000, for schedulers that divide bandwidth
    /// between groups (see [`Scheduler::set_group`]).
    pub fn set_group(&mut self, tenant: TenantId, weight: u16) {
        if let Some(parent) = self.control.tenants().parent(tenant) {
            self.scheduler.set_group(tenant, parent, weight);
        }
    }

    /// Sets the floor of a tenant, for schedulers that keep floors (see
    /// [`Scheduler::set_reserve`]). With such a scheduler it holds below exact limits, too.
    pub fn set_reserve(&mut self, now: Instant, tenant: TenantId, reserve: Reserve) {
        self.scheduler.set_reserve(now, tenant, reserve);
        if self.config.scheduler.info().keeps_reserves {
            self.control.set_reserve(now, tenant, reserve);
        }
    }

    /// Tells the scheduler that a task exited. I/O of the task in flight still completes.
    pub fn handle_exit(&mut self, now: Instant, task: TaskId) {
        self.advance(now);
        self.scheduler.on_task_exit(now, task);
    }

    /// Notes that a task slept because too many pages were dirty, which lets more writeback pass.
    pub fn note_dirty_sleep(&mut self, now: Instant) {
        self.throttling.wbt.on_dirty_sleep(now);
    }

    /// Changes a scheduler's tunable while I/O is in flight.
    ///
    /// # Errors
    /// The scheduler has no such tunable, or the value is one that the kernel refuses. Nothing is
    /// changed in this case.
    pub fn set_tunable(&mut self, name: &str, value: i64) -> Result<(), SchedulerError> {
        self.scheduler.set_tunable(name, value)
    }

    fn view(&self) -> View<'_> {
        View { requests: &self.requests, rules: &self.rules }
    }

    /// The hardware queue that a task's I/O goes to.
    #[inline]
    fn queue_of(&self, task: TaskId) -> HwQueue {
        self.place_of(task).1
    }

    #[inline]
    fn cpu_of(&self, task: TaskId) -> u16 {
        self.place_of(task).0
    }

    /// Returns the CPU of a task, and the hardware queue of that CPU.
    #[inline]
    fn place_of(&self, task: TaskId) -> (u16, HwQueue) {
        match self.tasks.get(task.index()) {
            Some(known) => (known.cpu, known.queue),
            None => self.place_of_new(task),
        }
    }

    /// Returns the same for a task that is not known yet.
    #[cold]
    fn place_of_new(&self, task: TaskId) -> (u16, HwQueue) {
        let cpu =
            if task == TaskId::IDLE { 0 } else { (task.0 % u32::from(self.config.cpus)) as u16 };
        (cpu, HwQueue(cpu % self.config.hw_queues))
    }

    /// Returns true if a task has a plug.
    #[inline]
    fn has_plug(&self, task: TaskId) -> bool {
        self.tasks.get(task.index()).is_some_and(|task| task.plug.is_open())
    }

    fn flush_request(&self, queue: HwQueue) -> RequestId {
        RequestId(u32::from(self.config.hw_queues) * self.requests_per_queue + u32::from(queue.0))
    }

    #[inline]
    fn task_mut(&mut self, task: TaskId) -> &mut Task {
        if task.index() < self.tasks.len() {
            &mut self.tasks[task.index()]
        } else {
            self.add_tasks(task)
        }
    }

    /// Adds all tasks up to this one that are not known yet.
    #[cold]
    fn add_tasks(&mut self, last: TaskId) -> &mut Task {
        for task in self.tasks.len() as u32..=last.0 {
            let (cpu, queue) = self.place_of_new(TaskId(task));
            self.tasks.push(Task { cpu, queue, ..Task::default() });
        }
        &mut self.tasks[last.index()]
    }

    /// Advances the clock. Time may stand still but never goes back.
    #[inline]
    fn advance(&mut self, now: Instant) {
        self.clock.advance(now);
    }
}

/// Returns the scheduler of a configuration, for a queue with these limits and so many requests.
fn scheduler_of(
    config: &StackConfig,
    rules: Rules,
    limits: &QueueLimits,
    requests: usize,
) -> Result<AnyScheduler, SchedulerError> {
    let mut scheduler = AnyScheduler::new(
        &config.scheduler,
        rules,
        config.hz,
        config.hw_queues,
        config.cpus,
        requests,
    )?;
    scheduler.on_driver_tags(config.queue_depth.saturating_mul(config.hw_queues.into()));
    scheduler.on_queue_info(limits.rotational && !limits.rotational_written_later);
    if limits.rotational && limits.rotational_written_later {
        scheduler.on_rotational_written(true);
    }
    scheduler.on_depth_updated(config.nr_requests(), config.word_shift());
    scheduler.set_tags_spread(config.tag_hint.is_some());
    if config.async_depth.is_some() || rules.queue_async_depth {
        scheduler.set_async_depth(config.async_depth());
    }
    scheduler.set_discard_ranges(limits.max_discard_segments);
    Ok(scheduler)
}

/// Returns the control of tenants of a configuration, with these limits in force.
fn control_of(
    config: &StackConfig,
    rules: Rules,
    limits: &QueueLimits,
    nr_requests: u32,
) -> TenantControl {
    TenantControl::new(&ControlConfig {
        rules,
        hz: config.hz,
        rotational: limits.rotational,
        queue_depth: config.queue_depth,
        nr_requests,
        cpus: u32::from(config.cpus),
        io_throttle: config.io_throttle,
        exact_io_max: config.exact_io_max,
    })
}

/// The statistics group of a request.
const fn group_of(request: &Request) -> StatGroup {
    request.op.stat_group()
}
