//! The elevator contract: what the stack asks of an I/O scheduler.
//!
//! A scheduler sees requests and time, never a device or a clock. Notifications it may ignore have empty bodies. Policies
//! live beside this file: `none`, `mq_deadline`; BFQ, Kyber and `flow` fit the same trait.

use crate::bio::Bio;
use crate::kernel::Rules;
use crate::merge::MergeKind;
use crate::op::{Flags, Op};
use crate::request::Requests;
use crate::units::{HwQueue, Instant, RequestId};

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
    /// Takes a request. `at_head`: a requeued one, to go before everything else.
    fn insert(&mut self, now: Instant, view: View<'_>, id: RequestId, at_head: bool);

    /// The next request for a hardware queue, removed from the scheduler. `None` is allowed with work pending: the stack
    /// asks again after 3 ms, at [`Self::next_wakeup`], on the next insert, and on the next completion.
    fn dispatch(&mut self, now: Instant, view: View<'_>, queue: HwQueue) -> Option<RequestId>;

    /// Whether anything is queued for a hardware queue.
    fn has_work(&self, queue: HwQueue) -> bool;

    /// A queued request that the bio may join, with the side; the stack then checks the limits. `one_hit_only` is
    /// `nomerges=1`.
    fn find_merge(&mut self, _view: View<'_>, _bio: &Bio, _one_hit_only: bool) -> Option<(RequestId, MergeKind)> {
        None
    }

    /// A bio joined a queued request; `before` is the request as it was.
    fn on_bio_merged(&mut self, _view: View<'_>, _id: RequestId, _kind: MergeKind, _before: crate::units::Sector) {}

    /// The neighbour that a grown request may now swallow (`Back`: its successor) or be swallowed by (`Front`: its
    /// predecessor).
    fn neighbour(&self, _view: View<'_>, _id: RequestId, _kind: MergeKind) -> Option<RequestId> {
        None
    }

    /// `survivor` swallowed `swallowed`, which is no longer queued; called before the table is changed.
    fn on_requests_merged(&mut self, _now: Instant, _view: View<'_>, _survivor: RequestId, _swallowed: RequestId) {}

    /// A request that the scheduler dispatched (or saw swallowed) is over.
    fn on_finish(&mut self, _now: Instant, _view: View<'_>, _id: RequestId) {}

    /// The driver gave a dispatched request back; an insert at the head follows.
    fn on_requeue(&mut self, _now: Instant, _view: View<'_>, _id: RequestId) {}

    /// The number of scheduler tags that requests of this kind may hold; `None` for all.
    fn depth_limit(&self, _op: Op, _flags: Flags) -> Option<u32> {
        None
    }

    /// When the scheduler wants to be run without any other event.
    fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    /// The time of [`Self::next_wakeup`] has come; the stack runs the queue afterwards.
    fn on_wakeup(&mut self, _now: Instant) {}

    /// Costly invariants, for tests: panics where one is broken.
    fn self_check(&self, _view: View<'_>) {}
}
