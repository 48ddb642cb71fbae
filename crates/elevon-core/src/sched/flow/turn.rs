//! Turns on a disk: a queue keeps the device for a while.
//!
//! A disk moves its head between the places of two processes. Serving them by turns request by
//! request costs a long seek each time. So a queue keeps the device, and its requests go in the
//! order of their sectors, until its turn has lasted `turn_ms`, it has no requests left, or a more
//! urgent class has some. A stream, which is a queue whose requests follow one another, is waited
//! for as long as a seek takes, if it usually comes back in less than half of that. What a queue
//! owes after its turn, the others get.
//!
//! Cost: O(log n) for each request, with n requests in the queue.

use super::cost::Direction;
use super::kinds::Kinds;
use super::slot::Slot;
use super::{Flow, QueueId};
use crate::units::{Instant, Nanos, RequestId, Sector};

/// Requests that follow another in a row after which a queue is a stream.
const STREAM: u32 = 2;

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
    cost: u64,
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

impl Flow {
    /// Returns what the turn asks for, if requests of these kinds may go.
    pub(super) fn next_in_turn(&self, kinds: Kinds) -> Next {
        let Some(q) = self.turn.queue.filter(|_| self.rotational && !self.has_turn_ended()) else { return Next::Any };
        let queue = *self.queue(q);
        let other = self.shares.choose(self.now, Kinds::ALL);
        let other = other.map(|member| *self.queue(self.of_member[member.index()]));
        // A less urgent class is chosen over one with requests if it has waited for too long.
        if other.is_some_and(|other| other.class < queue.class || (other.class > queue.class && queue.queued > 0)) {
            return Next::Any;
        }
        if queue.queued > 0 {
            let id = self.by_sector.next_in_turn(&queue, self.turn.end).expect("the queue has requests");
            return if kinds.has(self.kind_of(id)) { Next::Serve(q, id) } else { Next::Any };
        }
        if queue.in_device == 0 && self.turn.until.is_none_or(|end| self.now >= end) {
            return Next::Any;
        }
        // Beside a process that seeks, others that seek may go: the disk chooses among them. But
        // nobody begins a turn while it is owed service.
        let begins_a_turn = other.is_some_and(|other| other.run >= STREAM || other.queued > 1);
        let cost = self.costs.of(Direction::Read, queue.sectors, false);
        let is_owed = || self.shares.would_be_next(self.now, queue.member, cost, 0);
        if queue.run >= STREAM || (begins_a_turn && is_owed()) { Next::Wait } else { Next::Any }
    }

    /// Returns true if the turn has had its time: of the device, or, where requests of others are
    /// still in it, twice that in all.
    fn has_turn_ended(&self) -> bool {
        let most = self.settings.turn.get();
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

    /// Counts what a request of the turn costs.
    pub(super) fn charge_turn(&mut self, q: QueueId, cost: u64) {
        if self.rotational {
            self.turn.cost += cost;
            let member = self.queue(q).member;
            self.shares.note_turn(self.now, member, self.turn.cost);
        }
    }

    /// Lets the device wait for the queue whose last request has just ended, if it usually comes
    /// back before the head could be elsewhere.
    pub(super) fn wait_in_turn(&mut self, q: QueueId, seek: Nanos) {
        let queue = self.queue(q);
        let is_empty = queue.queued == 0 && queue.in_device == 0 && !queue.exited;
        if self.turn.queue == Some(q) && is_empty {
            let is_stream = queue.run >= STREAM;
            let most = if is_stream { seek } else { seek.min(self.settings.hold) };
            // Also if it is late this time: to come back to its place later takes as long.
            self.turn.until = queue.hold(most).map(|hold| self.now + if is_stream { most } else { hold });
        }
    }
}

impl super::Queue {
    /// Notes where a request lies that has arrived. Returns true if it continues a stream.
    pub(super) fn follow(&mut self, sector: Sector, sectors: u64) -> bool {
        self.run = if sector == self.end { self.run.saturating_add(1) } else { 0 };
        self.sectors = sectors;
        self.end = Sector::new(sector.get() + sectors);
        self.run >= STREAM
    }

    /// Notes that a request that ended at one sector ends at another: what comes after that of the
    /// request that arrived last continues the stream.
    pub(super) fn grow(&mut self, from: Sector, to: Sector) {
        if from == self.end {
            self.end = to;
        }
    }
}

#[cfg(test)]
mod tests;
