//! A place in the device that is kept for a process that comes back at once.
//!
//! A process with one request at a time comes back only after its request has completed. If its
//! place in the device were given away meanwhile, it would wait for another request to end each
//! time, and where all that the device takes is one request, it could not have more than a turn of
//! each. So its place is kept if it is the next by shares or by its floor, and usually comes back
//! soon.
//!
//! What a place is idle for is charged to the process, as the wait of a disk is.
//!
//! Cost: O(d · log q) for a completion, with d levels of groups and q queues in a group.

use super::Aileron;
use super::ids::QueueId;
use super::slot::Slot;
use crate::units::{Instant, Nanos};

/// A place in the device that is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// For this queue.
    pub(super) queue: QueueId,
    /// Since then, and until then if it does not come back.
    since: Instant,
    pub(super) until: Instant,
}

impl Aileron {
    /// Keeps the place of a request of a queue that has just ended, if others could take it.
    #[inline]
    pub(super) fn keep_place(&mut self, q: QueueId, slot: &Slot) {
        let queue = self.queue(q);
        let is_last = self.in_flight + 1 >= self.limit();
        if !is_last || queue.queued > 0 || queue.exited || self.kept.is_some() {
            return;
        }
        let cost = self.cost_of(slot);
        let most = Nanos::new(cost);
        let is_next =
            || self.shares.would_be_next(queue.member, cost) || self.would_be_owed(queue.member);
        if queue.returns_within(most) && is_next() {
            let since = self.now;
            self.kept = Some(Kept { queue: q, since, until: since + most });
        }
    }

    /// Charges a queue that has come back for the place that was kept for it.
    #[inline]
    pub(super) fn end_kept(&mut self, q: QueueId) {
        if let Some(kept) = self.kept.take_if(|kept| kept.queue == q) {
            let member = self.queue(q).member;
            self.shares.charge(member, self.now.since(kept.since));
        }
    }
}
