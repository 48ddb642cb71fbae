//! Turns on a disk: a queue keeps the device for a while.
//!
//! A disk moves its head between the places of two processes. Serving them by turns request by
//! request costs a long seek each time. So a queue keeps the device, and its requests go in the
//! order of their sectors, until its turn has lasted `turn_ms`, it has no requests left, or a more
//! urgent class has some. One whose requests do not follow one another, which is not a stream,
//! seeks in its turn as well, if not as far: its turn is a third as long. What a queue owes after
//! its turn, the others get. One that is owed service even so keeps the device.
//!
//! A queue without requests is waited for if its process usually comes back before the head could
//! be elsewhere. This is also what gives a process with one request at a time its share: if another
//! began its turn meanwhile, it would get one request for each turn of others, whatever its weight.
//!
//! One request at a time is in the disk: it would choose among several by place, and let one
//! starve.
//!
//! Cost: O(log n) for each request, with n requests in the queue.

use super::cost::Direction;
use super::ids::{GroupId, QueueId};
use super::slot::Slot;
use super::{Aileron, Queue};
use crate::units::{Instant, Nanos, RequestId, Sector};

/// What a seek and half a turn of the platters take in most disks. They may seem to take less
/// where only writes are seen, which the disk buffers.
const SEEK: Nanos = Nanos::from_millis(8);

/// Whose turn it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// The queue of the request that was dispatched last.
    pub(super) queue: Option<QueueId>,
    /// Where that request ends.
    end: Sector,
    /// When the turn began.
    since: Instant,
    /// What its requests have cost.
    pub(super) cost: u64,
    /// Until when the queue, which has no request, is waited for.
    pub(super) until: Option<Instant>,
}

/// What the turn asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This request of this queue goes next.
    Serve(QueueId, RequestId),
    /// Nothing goes now.
    Wait,
    /// It is nobody's turn.
    Any,
}

impl Aileron {
    /// Returns what the turn asks for.
    pub(super) fn next_in_turn(&self) -> Next {
        let Some(q) = self.turn.queue.filter(|_| self.rotational) else { return Next::Any };
        let queue = self.queue(q);
        if self.has_turn_ended() && (queue.queued > 0 || !self.is_owed(queue)) {
            return Next::Any;
        }
        let other = self.shares.choose(self.now, GroupId::ROOT);
        let other = other.map(|member| self.queue(self.of_member[member.index()]));
        // A less urgent class is chosen over one with requests if it has waited for too long.
        if other.is_some_and(|other| {
            other.class < queue.class || (other.class > queue.class && queue.queued > 0)
        }) {
            return Next::Any;
        }
        if queue.queued > 0 {
            let next = self.by_sector.lower_bound(queue.sorted, self.turn.end);
            let id = next.or_else(|| self.by_sector.first(queue.sorted));
            return Next::Serve(q, id.expect("the queue has requests"));
        }
        if queue.in_device == 0 && self.turn.until.is_none_or(|end| self.now >= end) {
            return Next::Any;
        }
        Next::Wait
    }

    /// Tells the shares what a turn costs.
    pub(super) fn renew_turn(&mut self) {
        self.shares.turn = if self.rotational { self.settings.turn.get() } else { 0 };
    }

    /// Returns what a request takes for which the head is moved.
    fn seek(&self, sectors: u64) -> u64 {
        self.costs.of(Direction::Read, sectors, false)
    }

    /// Returns true if a request of a queue that arrived now would be the next by shares.
    fn is_owed(&self, queue: &Queue) -> bool {
        !self.settings.turn.is_zero()
            && self.shares.would_be_next(queue.member, self.seek(queue.sectors))
    }

    /// Returns true if the turn has had its time: of the device, or, where requests of others are
    /// still in it, twice that in all.
    fn has_turn_ended(&self) -> bool {
        let is_stream = self.turn.queue.is_some_and(|q| self.queue(q).is_stream());
        let most = self.settings.turn.get() / if is_stream { 1 } else { 3 };
        self.turn.cost >= most || self.now.since(self.turn.since).get() >= 2 * most
    }

    /// Notes that a request of a queue goes to the device. Returns true if it follows the one
    /// before it, and for how long the device waited for it.
    pub(super) fn take_turn(&mut self, q: QueueId, id: RequestId) -> (bool, Nanos) {
        if !self.rotational {
            return (false, Nanos::ZERO);
        }
        let Slot { sector, sectors, .. } = self.slots[id.index()];
        let is_same = self.turn.queue == Some(q);
        let has_waited = is_same && self.in_flight == 0 && self.turn.until.is_some();
        let idle = if has_waited { self.now.since(self.ended) } else { Nanos::ZERO };
        let is_next = is_same && sector == self.turn.end;
        if !is_same || self.has_turn_ended() {
            (self.turn.since, self.turn.cost) = (self.now, 0);
        }
        let end = Sector::new(sector.get() + sectors);
        (self.turn.queue, self.turn.end, self.turn.until) = (Some(q), end, None);
        (is_next, idle)
    }

    /// Lets the device wait for the queue whose last request has just ended, if it usually comes
    /// back before the head could be elsewhere.
    pub(super) fn wait_in_turn(&mut self, q: QueueId) {
        let queue = self.queue(q);
        let is_empty = queue.queued == 0 && queue.in_device == 0 && !queue.exited;
        if self.turn.queue == Some(q) && is_empty {
            let seek = Nanos::new(self.seek(queue.sectors)).max(SEEK);
            // Also if it is late this time: to come back to its place later takes as long.
            self.turn.until = queue.returns_within(seek).then_some(self.now + seek);
        }
    }
}

#[cfg(test)]
mod tests;
