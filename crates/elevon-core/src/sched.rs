//! The elevator contract: what the stack asks of an I/O scheduler.
//!
//! A scheduler sees requests and time, never a device or a clock. Notifications it may ignore have
//! empty bodies. Policies live beside this file: `none`, `mq_deadline`, `kyber`, `bfq`; `flow` fits
//! the same trait and becomes a variant of [`AnyScheduler`] and a row of [`SCHEDULERS`].

extern crate alloc;
use alloc::string::String;
use alloc::vec::Vec;

pub mod bfq;
mod contexts;
pub mod elevator;
pub mod fifo;
pub mod kyber;
pub mod mq_deadline;
pub mod none;
mod tunable;

#[cfg(test)]
pub(crate) mod testing;

pub use bfq::Bfq;
pub use kyber::Kyber;
pub use mq_deadline::MqDeadline;
pub use none::NoneScheduler;
pub use tunable::{SchedulerConfig, SchedulerError, SchedulerInfo, TunableInfo};

use crate::bio::Bio;
use crate::kernel::Rules;
use crate::merge::MergeKind;
use crate::op::{Flags, Op};
use crate::request::Requests;
use crate::units::{HwQueue, Instant, RequestId, Sector, TaskId, TenantId};

/// What a scheduler sees besides its own state.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Every request of the queue.
    pub requests: &'a Requests,
    /// Rules of the kernel version.
    pub rules: &'a Rules,
}

/// An I/O scheduler (an elevator).
pub trait Scheduler {
    /// Takes a request, whose state is [`Queued`](crate::request::State::Queued) already.
    /// `at_head`: a requeued one, to go before everything else.
    fn insert(&mut self, now: Instant, view: View<'_>, id: RequestId, at_head: bool);

    /// The next request for a hardware queue, removed from the scheduler. `None` is allowed with
    /// work pending: the stack asks again after 3 ms, at [`Self::next_wakeup`], on the next
    /// insert, and on the next completion.
    fn dispatch(&mut self, now: Instant, view: View<'_>, queue: HwQueue) -> Option<RequestId>;

    /// Whether anything is queued for a hardware queue.
    fn has_work(&self, queue: HwQueue) -> bool;

    /// A queued request that the bio may join, with the side; the stack then checks the limits.
    /// `one_hit_only` is `nomerges=1`.
    fn find_merge(&mut self, _view: View<'_>, _bio: &Bio, _one_hit_only: bool) -> Option<(RequestId, MergeKind)> {
        None
    }

    /// A queued request that a request about to be inserted may be appended to whole
    /// (insert-merge). The stack checks the limits, joins the two, reports it by
    /// [`Self::on_requests_merged`], and asks again with the survivor until nothing is found or
    /// fits; a request that was swallowed is not inserted.
    fn find_insert_merge(&mut self, _view: View<'_>, _id: RequestId, _one_hit_only: bool) -> Option<RequestId> {
        None
    }

    /// A bio joined a queued request, which has grown already; `before` is where the request
    /// started.
    fn on_bio_merged(&mut self, _view: View<'_>, _id: RequestId, _kind: MergeKind, _before: Sector) {}

    /// The neighbour that a grown request may now swallow (`Back`: its successor) or be swallowed
    /// by (`Front`: its predecessor).
    fn neighbour(&self, _view: View<'_>, _id: RequestId, _kind: MergeKind) -> Option<RequestId> {
        None
    }

    /// `survivor` swallowed `swallowed`, which is no longer queued (or never was: insert-merge);
    /// called before the table is changed. An [`Self::on_finish`] of `swallowed` follows.
    fn on_requests_merged(&mut self, _now: Instant, _view: View<'_>, _survivor: RequestId, _swallowed: RequestId) {}

    /// A request that the scheduler dispatched (or saw swallowed) is over.
    fn on_finish(&mut self, _now: Instant, _view: View<'_>, _id: RequestId) {}

    /// The driver gave a dispatched request back; an insert at the head follows.
    fn on_requeue(&mut self, _now: Instant, _view: View<'_>, _id: RequestId) {}

    /// The shallow depth of requests of this kind, in the terms of the kernel version: tags of the
    /// whole map, or positions in each word of it; `None` for no limit.
    fn depth_limit(&self, _op: Op, _flags: Flags) -> Option<u32> {
        None
    }

    /// The same for a bio, whose process and tenant are known.
    fn depth_limit_of(&self, bio: &Bio) -> Option<u32> {
        self.depth_limit(bio.op, bio.flags)
    }

    /// A process is gone; requests of it may still be under way.
    fn on_task_exit(&mut self, _now: Instant, _task: TaskId) {}

    /// What the queue is: whether the device turns. Told once, before the first request.
    fn on_queue_info(&mut self, _rotational: bool) {}

    /// `nr_requests` was set: how many scheduler tags each hardware queue has.
    fn on_depth_updated(&mut self, _nr_requests: u32) {}

    /// The hardware queue's device turned busy (its EWMA left zero) or no longer is.
    fn set_busy(&mut self, _queue: HwQueue, _busy: bool) {}

    /// The CPU that submits the bios asked about from now on, and the hardware queue it is mapped
    /// to. Only schedulers that keep lists per CPU care.
    fn set_context(&mut self, _queue: HwQueue, _cpu: u16) {}

    /// The queue's `max_discard_segments` (1 at first): above 1, discards merge whatever their
    /// positions.
    fn set_discard_ranges(&mut self, _ranges: u16) {}

    /// When the scheduler wants to be run without any other event.
    fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    /// The time of [`Self::next_wakeup`] has come; the stack runs the queues that
    /// [`Self::is_woken`] names afterwards.
    fn on_wakeup(&mut self, _now: Instant) {}

    /// Whether the wakeup that has just come is for this hardware queue.
    fn is_woken(&self, _queue: HwQueue) -> bool {
        true
    }

    /// Costly invariants, for tests: panics where one is broken.
    fn self_check(&self, _view: View<'_>) {}
}

/// Every scheduler there is, in the order `elevon schedulers` lists them.
pub const SCHEDULERS: &[SchedulerInfo] = &[none::INFO, mq_deadline::INFO, kyber::INFO, bfq::INFO];

/// One of the schedulers. A match instead of a pointer, so that calls can be inlined.
#[derive(Clone, Debug)]
// There is one for each device; boxing the larger variants would cost an indirection on every call
// and save nothing.
#[allow(clippy::large_enum_variant)]
pub enum AnyScheduler {
    /// `none`.
    None(NoneScheduler),
    /// `mq-deadline`.
    MqDeadline(MqDeadline),
    /// `kyber`.
    Kyber(Kyber),
    /// `bfq`.
    Bfq(Bfq),
}

/// Calls a method of whichever scheduler it is.
macro_rules! each {
    ($any:expr, $scheduler:ident => $call:expr) => {
        match $any {
            AnyScheduler::None($scheduler) => $call,
            AnyScheduler::MqDeadline($scheduler) => $call,
            AnyScheduler::Kyber($scheduler) => $call,
            AnyScheduler::Bfq($scheduler) => $call,
        }
    };
}

impl AnyScheduler {
    /// The scheduler of a configuration. `hz` is the tick rate (100 to 1000; kernels are built with
    /// 250 or 1000), `queues` the hardware queues, `cpus` the CPUs that submit, `requests` the
    /// size of the request table over all hardware queues; larger keys are met by growing.
    pub fn new(
        config: &SchedulerConfig,
        rules: Rules,
        hz: u32,
        queues: u16,
        cpus: u16,
        requests: usize,
    ) -> Result<Self, SchedulerError> {
        let mut scheduler = match config.name {
            "none" => Self::None(NoneScheduler::new(queues, cpus, requests)),
            "mq-deadline" => Self::MqDeadline(MqDeadline::new(rules, hz, queues, requests)),
            "kyber" => Self::Kyber(Kyber::new(rules, hz, queues, cpus, requests)),
            "bfq" => Self::Bfq(Bfq::new(rules, hz, queues, requests)),
            other => return Err(SchedulerError::UnknownScheduler { name: other.into() }),
        };
        for &(name, value) in &config.tunables {
            scheduler.set_tunable(name, value)?;
        }
        Ok(scheduler)
    }

    /// What is known of it from outside.
    pub fn info(&self) -> &'static SchedulerInfo {
        match self {
            Self::None(_) => &none::INFO,
            Self::MqDeadline(_) => &mq_deadline::INFO,
            Self::Kyber(_) => &kyber::INFO,
            Self::Bfq(_) => &bfq::INFO,
        }
    }

    /// Every tunable with its value in force, in sysfs units and order of names.
    pub fn tunables(&self) -> Vec<(&'static str, i64)> {
        self.info().tunables.iter().map(|t| (t.name, self.tunable(t.name))).collect()
    }

    /// The same as text: choices by their names.
    pub fn tunables_shown(&self) -> Vec<(&'static str, String)> {
        self.info().tunables.iter().map(|t| (t.name, t.show(self.tunable(t.name)))).collect()
    }

    fn tunable(&self, name: &str) -> i64 {
        match self {
            Self::None(_) => 0,
            Self::MqDeadline(s) => s.tunable(name),
            Self::Kyber(s) => s.tunable(name),
            Self::Bfq(s) => s.tunable(name),
        }
    }

    /// Gives a tenant a weight from 1 to 1000 in its parent; without effect where the scheduler has
    /// no groups.
    pub fn set_group(&mut self, tenant: TenantId, parent: TenantId, weight: u16) {
        match self {
            Self::None(_) | Self::MqDeadline(_) | Self::Kyber(_) => {}
            Self::Bfq(s) => s.set_group(tenant, parent, weight),
        }
    }

    /// Sets a tunable by its sysfs name, in sysfs units; works with requests queued, as in Linux.
    pub fn set_tunable(&mut self, name: &str, value: i64) -> Result<(), SchedulerError> {
        let name = tunable::check(self.info(), name, value)?;
        match self {
            Self::None(_) => {}
            Self::MqDeadline(s) => s.set_tunable(name, value),
            Self::Kyber(s) => s.set_tunable(name, value),
            Self::Bfq(s) => s.set_tunable(name, value),
        }
        Ok(())
    }
}

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
    fn find_merge(&mut self, view: View<'_>, bio: &Bio, one_hit_only: bool) -> Option<(RequestId, MergeKind)> {
        each!(self, s => s.find_merge(view, bio, one_hit_only))
    }
    fn find_insert_merge(&mut self, view: View<'_>, id: RequestId, one_hit_only: bool) -> Option<RequestId> {
        each!(self, s => s.find_insert_merge(view, id, one_hit_only))
    }
    fn on_bio_merged(&mut self, view: View<'_>, id: RequestId, kind: MergeKind, before: Sector) {
        each!(self, s => s.on_bio_merged(view, id, kind, before));
    }
    fn neighbour(&self, view: View<'_>, id: RequestId, kind: MergeKind) -> Option<RequestId> {
        each!(self, s => s.neighbour(view, id, kind))
    }
    fn on_requests_merged(&mut self, now: Instant, view: View<'_>, survivor: RequestId, swallowed: RequestId) {
        each!(self, s => s.on_requests_merged(now, view, survivor, swallowed));
    }
    #[inline]
    fn on_finish(&mut self, now: Instant, view: View<'_>, id: RequestId) {
        each!(self, s => s.on_finish(now, view, id));
    }
    fn on_requeue(&mut self, now: Instant, view: View<'_>, id: RequestId) {
        each!(self, s => s.on_requeue(now, view, id));
    }
    #[inline]
    fn depth_limit(&self, op: Op, flags: Flags) -> Option<u32> {
        each!(self, s => s.depth_limit(op, flags))
    }
    #[inline]
    fn depth_limit_of(&self, bio: &Bio) -> Option<u32> {
        each!(self, s => s.depth_limit_of(bio))
    }
    fn on_task_exit(&mut self, now: Instant, task: TaskId) {
        each!(self, s => s.on_task_exit(now, task));
    }
    fn on_queue_info(&mut self, rotational: bool) {
        each!(self, s => s.on_queue_info(rotational));
    }
    fn on_depth_updated(&mut self, nr_requests: u32) {
        each!(self, s => s.on_depth_updated(nr_requests));
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
    fn next_wakeup(&self) -> Option<Instant> {
        each!(self, s => s.next_wakeup())
    }
    fn on_wakeup(&mut self, now: Instant) {
        each!(self, s => s.on_wakeup(now));
    }
    fn is_woken(&self, queue: HwQueue) -> bool {
        each!(self, s => s.is_woken(queue))
    }
    fn self_check(&self, view: View<'_>) {
        each!(self, s => s.self_check(view));
    }
}
