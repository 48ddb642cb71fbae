//! The interface between the stack and an I/O scheduler (elevator).
//!
//! A scheduler sees requests and time, never a device or a clock. Notifications that it may ignore
//! have empty default bodies. The policies are in `sched/`: `none`, `mq_deadline`, `kyber` and
//! `bfq` of Linux, and our own `aileron`. Each is a variant of [`AnyScheduler`] and a row of
//! [`SCHEDULERS`].

extern crate alloc;
use alloc::string::String;
use alloc::vec::Vec;

pub mod aileron;
pub mod bfq;
mod by_sector;
mod contexts;
pub mod elevator;
pub mod fifo;
mod finish_tree;
pub mod kyber;
pub mod mq_deadline;
pub mod none;
mod tunable;

#[cfg(test)]
pub(crate) mod testing;

pub use aileron::{Aileron, Reserve};
pub use bfq::Bfq;
pub use kyber::Kyber;
pub use mq_deadline::MqDeadline;
pub use none::NoneScheduler;
pub use tunable::{Reads, SchedulerConfig, SchedulerError, SchedulerInfo, TunableInfo, scheduler};

use crate::bio::Bio;
use crate::jiffies::Hz;
use crate::kernel::Rules;
use crate::merge::MergeKind;
use crate::op::{Flags, Op};
use crate::request::Requests;
use crate::units::{HwQueue, Instant, Nanos, RequestId, Sector, TaskId, TenantId};

/// State of the stack that a scheduler may read.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Every request of the queue.
    pub requests: &'a Requests,
    /// Rules of the kernel version.
    pub rules: &'a Rules,
}

/// An I/O scheduler (an elevator).
pub trait Scheduler {
    /// Inserts a request. Its state is already [`Queued`](crate::request::State::Queued).
    /// `at_head`: the request was requeued and goes before all others.
    fn insert(&mut self, now: Instant, view: View<'_>, id: RequestId, at_head: bool);

    /// Returns the next request for a hardware queue, removed from the scheduler. It may return
    /// `None` with work pending: the stack asks again after some milliseconds, at
    /// [`Self::next_wakeup`], on the next insert, and on the next completion.
    fn dispatch(&mut self, now: Instant, view: View<'_>, queue: HwQueue) -> Option<RequestId>;

    /// Returns true if anything is queued for a hardware queue.
    fn has_work(&self, queue: HwQueue) -> bool;

    /// Returns a queued request that the bio may merge into, and at which end; the stack then
    /// checks the limits. `one_hit_only` is `nomerges=1`.
    fn find_merge(
        &mut self,
        _view: View<'_>,
        _bio: &Bio,
        _one_hit_only: bool,
    ) -> Option<(RequestId, MergeKind)> {
        None
    }

    /// Returns a queued request into which a request that is about to be inserted may be merged
    /// (insert-merge). The stack checks the limits, merges the two, reports it by
    /// [`Self::on_requests_merged`], and asks again with the survivor until nothing is found or
    /// fits. A request that was merged is not inserted.
    fn find_insert_merge(
        &mut self,
        _view: View<'_>,
        _id: RequestId,
        _one_hit_only: bool,
    ) -> Option<RequestId> {
        None
    }

    /// Called after a bio was merged into a queued request, which is already larger; `before` is
    /// the first sector that the request had.
    fn on_bio_merged(
        &mut self,
        _view: View<'_>,
        _id: RequestId,
        _kind: MergeKind,
        _before: Sector,
    ) {
    }

    /// Returns the neighbour that may now be merged with a grown request: for `Back` its successor,
    /// which is merged into it; for `Front` its predecessor, into which it is merged.
    fn neighbour(&self, _view: View<'_>, _id: RequestId, _kind: MergeKind) -> Option<RequestId> {
        None
    }

    /// Called when `swallowed` is merged into `survivor`, before the table is changed. `swallowed`
    /// is no longer queued (or never was: insert-merge). An [`Self::on_finish`] of `swallowed`
    /// follows.
    fn on_requests_merged(
        &mut self,
        _now: Instant,
        _view: View<'_>,
        _survivor: RequestId,
        _swallowed: RequestId,
    ) {
    }

    /// Called when a request that the scheduler dispatched, or that was merged into another, has
    /// completed or is freed.
    fn on_finish(&mut self, _now: Instant, _view: View<'_>, _id: RequestId) {}

    /// Called when a flush without data ends. Such a request is never inserted and never sent to
    /// the driver; it was allocated at `start`.
    fn on_empty_flush(&mut self, _now: Instant, _start: Instant) {}

    /// Called when a FLUSH of the device that began at `began` ends, with the requests that shared
    /// it. The FLUSH itself is never inserted.
    fn on_shared_flush(
        &mut self,
        _now: Instant,
        _view: View<'_>,
        _began: Instant,
        _issuers: &[RequestId],
    ) {
    }

    /// Called when the driver gave a dispatched request back; an insert at the head follows.
    fn on_requeue(&mut self, _now: Instant, _view: View<'_>, _id: RequestId) {}

    /// Returns the shallow depth of requests of this kind, as the kernel version counts it: tags of
    /// the whole map, or positions in each word of it. `None` for no limit.
    fn depth_limit(&self, _op: Op, _flags: Flags) -> Option<u32> {
        None
    }

    /// The same for a request of a process.
    fn depth_limit_of(&self, _task: TaskId, op: Op, flags: Flags) -> Option<u32> {
        self.depth_limit(op, flags)
    }

    /// Returns the smallest depth that the scheduler told the set of `tags` tags it may limit a
    /// request to. Submissions that wait for a tag are woken in batches of an eighth of it.
    fn least_limit(&self, _tags: u32) -> u32 {
        1
    }

    /// Called when a process has exited; requests of it may still be in flight.
    fn on_task_exit(&mut self, _now: Instant, _task: TaskId) {}

    /// Sets `queue/async_depth`: how many scheduler tags may be taken by what is not a synchronous
    /// read (Linux 7.0 and later).
    fn set_async_depth(&mut self, _depth: u32) {}

    /// Called once before the first request with properties of the device: `rotational` is true for
    /// a disk.
    fn on_queue_info(&mut self, _rotational: bool) {}

    /// Called once before the first request: the driver takes `tags` commands at a time, over all
    /// hardware queues.
    fn on_driver_tags(&mut self, _tags: u32) {}

    /// Called when the driver refuses a command until another one ends, although a tag was free:
    /// over all hardware queues it takes `held` at a time now.
    fn on_driver_full(&mut self, _now: Instant, _held: u32) {}

    /// Called after [`Self::on_queue_info`] if `rotational` was written to the queue after the
    /// scheduler had started.
    fn on_rotational_written(&mut self, rotational: bool) {
        self.on_queue_info(rotational);
    }

    /// Called when `nr_requests` was set: the number of scheduler tags of each hardware queue, in
    /// words of 2^`shift` bits.
    fn on_depth_updated(&mut self, _nr_requests: u32, _shift: u32) {}

    /// Called once before the first request: whether a CPU takes a tag from the word that its hint
    /// names (`tag_hint`), and not the lowest free one.
    fn set_tags_spread(&mut self, _spread: bool) {}

    /// Called when the device of a hardware queue becomes busy (its EWMA is above zero) or is no
    /// longer busy.
    fn set_busy(&mut self, _queue: HwQueue, _busy: bool) {}

    /// Sets the CPU that submits the next bios, and the hardware queue to which it is mapped. Only
    /// schedulers with a list per CPU use it.
    fn set_context(&mut self, _queue: HwQueue, _cpu: u16) {}

    /// Sets the queue's `max_discard_segments` (1 at first): above 1, discards merge at any
    /// position.
    fn set_discard_ranges(&mut self, _ranges: u16) {}

    /// Returns when the scheduler wants to be run even if no other event occurs; `Instant::MAX` if
    /// never.
    fn next_wakeup(&self) -> Instant {
        Instant::MAX
    }

    /// Called when the time of [`Self::next_wakeup`] has come. The stack then runs the queues for
    /// which [`Self::is_woken`] returns true.
    fn on_wakeup(&mut self, _now: Instant) {}

    /// Returns true if the current wake-up is for this hardware queue.
    fn is_woken(&self, _queue: HwQueue) -> bool {
        true
    }

    /// Returns true if a wake-up does not run the queues itself but wakes a kblockd worker, which
    /// does a little later, as in Linux.
    fn wakes_worker(&self) -> bool {
        false
    }

    /// Returns what the scheduler has measured of the device, by the name that it has there, for
    /// reports; `None` if it measures nothing, or not yet.
    fn measured(&self) -> Option<(&'static str, u64)> {
        None
    }

    /// Makes a tenant a group of `parent` (tenant 0: the root) with a weight from 1 to 1000, or
    /// changes the weight. Tenants for which this was not called compete in the root. The parent
    /// of a tenant never changes. It has no effect if the scheduler has no groups.
    fn set_group(&mut self, _tenant: TenantId, _parent: TenantId, _weight: u16) {}

    /// Sets the floor of a tenant that [`Self::set_group`] was called for; of another it has no
    /// effect, nor if the scheduler keeps no floors.
    fn set_reserve(&mut self, _now: Instant, _tenant: TenantId, _reserve: Reserve) {}

    /// Returns the time by which a tenant's floor came short while it had requests waiting: for
    /// each second of it, what the floor is in a second. `None` without a floor, or if the
    /// scheduler keeps none.
    fn reserve_missed(&self, _now: Instant, _tenant: TenantId) -> Option<Nanos> {
        None
    }

    /// Returns the device time that a tenant was owed by its weight and did not get, because all of
    /// its requests were in the device while its turn came: the device orders those by itself.
    /// `None` if the scheduler does not say.
    fn shares_missed(&self, _tenant: TenantId) -> Option<Nanos> {
        None
    }

    /// Checks costly invariants, for tests. Panics if one does not hold.
    fn self_check(&self, _view: View<'_>) {}
}

/// All schedulers, in the order of `elevon schedulers`.
pub const SCHEDULERS: &[SchedulerInfo] =
    &[none::INFO, mq_deadline::INFO, kyber::INFO, bfq::INFO, aileron::INFO];

/// Any of the schedulers. It is an enum instead of a trait object, so that calls can be inlined.
#[derive(Clone, Debug)]
// There is one for each device. Boxing the larger variants would cost an indirection on every call
// and save nothing.
#[allow(clippy::large_enum_variant)]
// The tag has a byte of its own: one that is hidden in a field takes more to read at every call.
#[repr(u8)]
pub enum AnyScheduler {
    /// `none`.
    None(NoneScheduler),
    /// `mq-deadline`.
    MqDeadline(MqDeadline),
    /// `kyber`.
    Kyber(Kyber),
    /// `bfq`.
    Bfq(Bfq),
    /// `aileron`.
    Aileron(Aileron),
}

/// Calls a method of the scheduler, for all variants.
macro_rules! each {
    ($any:expr, $scheduler:ident => $call:expr) => {
        match $any {
            AnyScheduler::None($scheduler) => $call,
            AnyScheduler::MqDeadline($scheduler) => $call,
            AnyScheduler::Kyber($scheduler) => $call,
            AnyScheduler::Bfq($scheduler) => $call,
            AnyScheduler::Aileron($scheduler) => $call,
        }
    };
}

impl AnyScheduler {
    /// Returns the scheduler of a configuration. `hz` is the tick rate (100 to 1000; kernels are
    /// built with 250 or 1000), `queues` the number of hardware queues, `cpus` the number of CPUs
    /// that submit, `requests` the size of the request table over all hardware queues. The tables
    /// grow if a key is larger.
    ///
    /// # Errors
    /// There is no such scheduler, or it does not have one of the tunables or not with this value.
    pub fn new(
        config: &SchedulerConfig,
        rules: Rules,
        hz: Hz,
        queues: u16,
        cpus: u16,
        requests: usize,
    ) -> Result<Self, SchedulerError> {
        let mut scheduler = match config.name {
            "none" => Self::None(NoneScheduler::new(queues, cpus, requests)),
            "mq-deadline" => Self::MqDeadline(MqDeadline::new(rules, hz, queues, requests)),
            "kyber" => Self::Kyber(Kyber::new(rules, hz, queues, cpus, requests)),
            "bfq" => Self::Bfq(Bfq::new(rules, hz, queues, requests)),
            "aileron" => Self::Aileron(Aileron::new(requests)),
            other => return Err(SchedulerError::UnknownScheduler { name: other.into() }),
        };
        config.check(&rules)?;
        for &(name, value) in &config.tunables {
            scheduler.set_tunable(name, value)?;
        }
        Ok(scheduler)
    }

    /// Returns the name, description and tunables of the scheduler.
    pub fn info(&self) -> &'static SchedulerInfo {
        match self {
            Self::None(_) => &none::INFO,
            Self::MqDeadline(_) => &mq_deadline::INFO,
            Self::Kyber(_) => &kyber::INFO,
            Self::Bfq(_) => &bfq::INFO,
            Self::Aileron(_) => &aileron::INFO,
        }
    }

    /// Returns true if the scheduler has timers, so that [`Scheduler::next_wakeup`] may have an
    /// answer.
    pub(crate) const fn has_timers(&self) -> bool {
        match self {
            Self::None(_) | Self::MqDeadline(_) => false,
            Self::Kyber(_) | Self::Bfq(_) | Self::Aileron(_) => true,
        }
    }

    /// Returns every tunable with its value in force, in sysfs units, ordered by name.
    pub fn tunables(&self) -> Vec<(&'static str, i64)> {
        self.info().tunables.iter().map(|t| (t.name, self.tunable(t.name))).collect()
    }

    /// The same as text, without those that the kernel version does not have as such: choices are
    /// shown by their names.
    pub fn tunables_shown(&self, rules: &Rules) -> Vec<(&'static str, String)> {
        let tunables = self.info().tunables.iter().filter(|t| tunable::is_tunable(t.name, rules));
        tunables.map(|t| (t.name, t.show(self.tunable(t.name)))).collect()
    }

    fn tunable(&self, name: &str) -> i64 {
        match self {
            Self::None(_) => 0,
            Self::MqDeadline(s) => s.tunable(name),
            Self::Kyber(s) => s.tunable(name),
            Self::Bfq(s) => s.tunable(name),
            Self::Aileron(s) => s.tunable(name),
        }
    }

    /// Sets a tunable by its sysfs name, in sysfs units, clamped to its range. As in Linux,
    /// requests may be queued.
    ///
    /// # Errors
    /// The scheduler has no such tunable, or the value is one that the kernel refuses. Nothing is
    /// changed in this case.
    pub fn set_tunable(&mut self, name: &str, value: i64) -> Result<(), SchedulerError> {
        let tunable = tunable::check(self.info(), name, value)?;
        let (name, value) = (tunable.name, tunable.in_force(value));
        match self {
            Self::None(_) => {}
            Self::MqDeadline(s) => s.set_tunable(name, value),
            Self::Kyber(s) => s.set_tunable(name, value),
            Self::Bfq(s) => s.set_tunable(name, value),
            Self::Aileron(s) => s.set_tunable(name, value),
        }
        Ok(())
    }
}

/// Returns the earlier of two timers, of which each may not be set; `Instant::MAX` if neither is.
#[inline]
fn earlier(a: Option<Instant>, b: Option<Instant>) -> Instant {
    a.unwrap_or(Instant::MAX).min(b.unwrap_or(Instant::MAX))
}

// A method that is forgotten here would be the trait's default for every scheduler.
#[deny(clippy::missing_trait_methods)]
impl Scheduler for AnyScheduler {
    #[inline]
    fn insert(&mut self, now: Instant, view: View<'_>, id: RequestId, at_head: bool) {
        each!(self, s => s.insert(now, view, id, at_head));
    }
    #[inline]
    fn dispatch(&mut self, now: Instant, view: View<'_>, queue: HwQueue) -> Option<RequestId> {
        each!(self, s => s.dispatch(now, view, queue))
    }
    #[inline]
    fn has_work(&self, queue: HwQueue) -> bool {
        each!(self, s => s.has_work(queue))
    }
    #[inline]
    fn find_merge(
        &mut self,
        view: View<'_>,
        bio: &Bio,
        one_hit_only: bool,
    ) -> Option<(RequestId, MergeKind)> {
        each!(self, s => s.find_merge(view, bio, one_hit_only))
    }
    fn find_insert_merge(
        &mut self,
        view: View<'_>,
        id: RequestId,
        one_hit_only: bool,
    ) -> Option<RequestId> {
        each!(self, s => s.find_insert_merge(view, id, one_hit_only))
    }
    fn on_bio_merged(&mut self, view: View<'_>, id: RequestId, kind: MergeKind, before: Sector) {
        each!(self, s => s.on_bio_merged(view, id, kind, before));
    }
    fn neighbour(&self, view: View<'_>, id: RequestId, kind: MergeKind) -> Option<RequestId> {
        each!(self, s => s.neighbour(view, id, kind))
    }
    fn on_requests_merged(
        &mut self,
        now: Instant,
        view: View<'_>,
        survivor: RequestId,
        swallowed: RequestId,
    ) {
        each!(self, s => s.on_requests_merged(now, view, survivor, swallowed));
    }
    #[inline]
    fn on_finish(&mut self, now: Instant, view: View<'_>, id: RequestId) {
        each!(self, s => s.on_finish(now, view, id));
    }
    fn on_empty_flush(&mut self, now: Instant, start: Instant) {
        each!(self, s => s.on_empty_flush(now, start));
    }
    fn on_shared_flush(
        &mut self,
        now: Instant,
        view: View<'_>,
        began: Instant,
        issuers: &[RequestId],
    ) {
        each!(self, s => s.on_shared_flush(now, view, began, issuers));
    }
    fn on_requeue(&mut self, now: Instant, view: View<'_>, id: RequestId) {
        each!(self, s => s.on_requeue(now, view, id));
    }
    #[inline]
    fn depth_limit(&self, op: Op, flags: Flags) -> Option<u32> {
        each!(self, s => s.depth_limit(op, flags))
    }
    #[inline]
    fn depth_limit_of(&self, task: TaskId, op: Op, flags: Flags) -> Option<u32> {
        each!(self, s => s.depth_limit_of(task, op, flags))
    }
    fn least_limit(&self, tags: u32) -> u32 {
        each!(self, s => s.least_limit(tags))
    }
    fn on_task_exit(&mut self, now: Instant, task: TaskId) {
        each!(self, s => s.on_task_exit(now, task));
    }
    fn on_queue_info(&mut self, rotational: bool) {
        each!(self, s => s.on_queue_info(rotational));
    }
    fn on_driver_tags(&mut self, tags: u32) {
        each!(self, s => s.on_driver_tags(tags));
    }
    fn on_driver_full(&mut self, now: Instant, held: u32) {
        each!(self, s => s.on_driver_full(now, held));
    }
    fn on_rotational_written(&mut self, rotational: bool) {
        each!(self, s => s.on_rotational_written(rotational));
    }
    fn set_async_depth(&mut self, depth: u32) {
        each!(self, s => s.set_async_depth(depth));
    }
    fn on_depth_updated(&mut self, nr_requests: u32, shift: u32) {
        each!(self, s => s.on_depth_updated(nr_requests, shift));
    }
    fn set_tags_spread(&mut self, spread: bool) {
        each!(self, s => s.set_tags_spread(spread));
    }
    #[inline]
    fn set_busy(&mut self, queue: HwQueue, busy: bool) {
        each!(self, s => s.set_busy(queue, busy));
    }
    #[inline]
    fn set_context(&mut self, queue: HwQueue, cpu: u16) {
        each!(self, s => s.set_context(queue, cpu));
    }
    fn set_discard_ranges(&mut self, ranges: u16) {
        each!(self, s => s.set_discard_ranges(ranges));
    }
    #[inline]
    fn next_wakeup(&self) -> Instant {
        each!(self, s => s.next_wakeup())
    }
    #[inline]
    fn on_wakeup(&mut self, now: Instant) {
        each!(self, s => s.on_wakeup(now));
    }
    fn is_woken(&self, queue: HwQueue) -> bool {
        each!(self, s => s.is_woken(queue))
    }
    fn wakes_worker(&self) -> bool {
        each!(self, s => s.wakes_worker())
    }
    fn measured(&self) -> Option<(&'static str, u64)> {
        each!(self, s => s.measured())
    }
    fn set_group(&mut self, tenant: TenantId, parent: TenantId, weight: u16) {
        each!(self, s => s.set_group(tenant, parent, weight));
    }
    fn set_reserve(&mut self, now: Instant, tenant: TenantId, reserve: Reserve) {
        each!(self, s => s.set_reserve(now, tenant, reserve));
    }
    fn reserve_missed(&self, now: Instant, tenant: TenantId) -> Option<Nanos> {
        each!(self, s => s.reserve_missed(now, tenant))
    }
    fn shares_missed(&self, tenant: TenantId) -> Option<Nanos> {
        each!(self, s => s.shares_missed(tenant))
    }
    fn self_check(&self, view: View<'_>) {
        each!(self, s => s.self_check(view));
    }
}
