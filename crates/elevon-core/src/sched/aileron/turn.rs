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
//! Several requests of a turn are in the device at the same time, which puts them in an order that
//! only it knows, by the angle of its platters. There are none of others for it to let starve.
//!
//! Cost: O(log n) for each request, with n requests in the queue.

use super::cost::Direction;
use super::ids::QueueId;
use super::kinds::Kinds;
use super::slot::Slot;
use super::{Aileron, Queue};
use crate::units::{Instant, Nanos, RequestId, Sector};

/// Requests that follow another in a row after which a queue is a stream.
const STREAM: u32 = 2;

/// Requests of different queues that are in a disk at the same time: with more it would let some
/// starve. Here they are sorted by sector.
pub(super) const DEPTH: u32 = 1;
/// Requests that are in a disk at the same time if all are of the queue whose turn it is. More gain
/// little, and an urgent one would wait for them.
pub(super) const DEPTH_IN_TURN: u32 = 8;
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
    cost: u64,
    /// Until when the queue, which has no request, is waited for.
    pub(super) until: Option<Instant>,
}

impl Turn {
    /// Goes on with a turn in which another queue had a request, which has moved the head.
    pub(super) fn resume(&mut self, before: Self) {
        *self = Self { end: self.end, ..before };
    }
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
    /// Returns what the turn asks for, if requests of these kinds may go.
    pub(super) fn next_in_turn(&self, kinds: Kinds) -> Next {
        let Some(q) = self.turn.queue.filter(|_| self.rotational) else { return Next::Any };
        let queue = self.queue(q);
        if self.has_turn_ended() && (queue.queued > 0 || !self.is_owed(queue)) {
            return Next::Any;
        }
        let other = self.shares.choose_by_shares(self.now);
        let other = other.map(|member| self.queue(self.of_member[member.index()]));
        // A less urgent class is chosen over one with requests if it has waited for too long.
        if other.is_some_and(|other| {
            other.class < queue.class || (other.class > queue.class && queue.queued > 0)
        }) {
            return Next::Any;
        }
        if queue.queued > 0 {
            let id =
                self.by_sector.next_in_turn(queue, self.turn.end).expect("the queue has requests");
            return if kinds.has(self.kind_of(id)) { Next::Serve(q, id) } else { Next::Any };
        }
        if queue.in_device == 0 && self.turn.until.is_none_or(|end| self.now >= end) {
            return Next::Any;
        }
        Next::Wait
    }

    /// Returns one more request of the queue whose turn it is, if no other has some in the disk. If
    /// there are floors, one goes at a time: who is short of its floor ends the turn.
    pub(super) fn more_in_turn(&mut self) -> Option<RequestId> {
        let queue = self.queue(self.turn.queue?);
        let is_only = queue.in_device == self.in_flight && self.floors.is_empty();
        if !is_only || self.in_flight >= DEPTH_IN_TURN || !self.has_turns() {
            return None;
        }
        match self.next_in_turn(Kinds::ALL) {
            Next::Serve(q, id) => Some(self.serve(q, id, Kinds::ALL)),
            Next::Wait | Next::Any => None,
        }
    }

    /// Returns true on a disk where no tunable says how many requests may be in flight.
    pub(super) fn has_turns(&self) -> bool {
        self.rotational && self.settings.depth == 0
    }

    /// Brings [`Self::fixed`] up to date.
    pub(super) fn renew_fixed(&mut self) {
        self.fixed = if self.has_turns() { DEPTH } else { self.settings.depth };
    }

    /// Returns what a request takes for which the head is moved.
    fn seek(&self, sectors: u64) -> u64 {
        self.costs.of(Direction::Read, sectors, false)
    }

    /// Returns true if a request of a queue that arrived now would be the next by shares.
    fn is_owed(&self, queue: &Queue) -> bool {
        !self.settings.turn.is_zero()
            && self.shares.would_be_next(self.now, queue.member, self.seek(queue.sectors), 0)
    }

    /// Returns true if the turn has had its time: of the device, or, where requests of others are
    /// still in it, twice that in all.
    fn has_turn_ended(&self) -> bool {
        let is_stream = self.turn.queue.is_some_and(|q| self.queue(q).run >= STREAM);
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

impl Queue {
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
