//! The one place at which a request goes to the device because its queue has waited for too long:
//! before turns, looks, places that are kept, floors, and the limit of writes, whatever these ask.
//!
//! `shares` knows who is overdue by the clock alone. Only the limit of requests in flight holds for
//! them as well. If it is reached nothing goes to the device before an overdue request, and it goes
//! when the next request has ended.

use super::Aileron;
use super::ids::QueueId;
use super::kinds::Kinds;
use super::turn::{DEPTH_IN_TURN, Next};
use crate::units::RequestId;

/// What a member that is overdue asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// Nothing: no member is overdue, or what is served now is none of them.
    Nothing,
    /// This request of this queue goes next.
    Serve(QueueId, RequestId),
    /// A request has to end first.
    Wait,
}

impl Aileron {
    /// Returns what a member that is overdue asks for.
    #[inline]
    pub(super) fn overdue(&mut self) -> Overdue {
        if self.shares.note_overdue(self.now) { self.first_overdue() } else { Overdue::Nothing }
    }

    #[cold]
    fn first_overdue(&mut self) -> Overdue {
        let Some(member) = self.shares.choose_overdue(self.now) else { return Overdue::Nothing };
        let q = self.of_member[member.index()];
        let queue = self.queue(q);
        let has_room = if self.has_turns() {
            // The disk would choose among requests of several queues by place.
            self.in_flight == 0
                || (queue.in_device == self.in_flight && self.in_flight < DEPTH_IN_TURN)
        } else if self.occupancy.looks_at().is_some() {
            self.in_flight < self.depth.most()
        } else {
            // One ends, one goes: the limit may have become much smaller than what is in flight.
            self.in_flight < self.limit().max(self.overdue_room)
        };
        let id = queue.fifo.first().expect("an active flow has a request");
        if has_room || self.in_flight == 0 {
            return Overdue::Serve(q, id);
        }
        self.overdue_room = self.in_flight;
        Overdue::Wait
    }

    /// Serves a queue that is overdue. On a disk it has one request in the turn of another, which
    /// goes on after it, if shares do not give it a turn as well.
    pub(super) fn serve_overdue(&mut self, q: QueueId, id: RequestId) -> RequestId {
        self.counts.overdue += 1;
        self.overdue_room = 0;
        self.counts.constrained += 1;
        let has_turn = match self.next_in_turn(Kinds::ALL) {
            Next::Serve(of, _) => of == q,
            Next::Wait => false,
            Next::Any => self.shares.choose_by_shares(self.now) == Some(self.queue(q).member),
        };
        let before = self.turn;
        let id = self.serve(q, id, Kinds::ALL);
        if !has_turn {
            self.turn.resume(before);
        }
        id
    }
}

#[cfg(test)]
mod tests;
