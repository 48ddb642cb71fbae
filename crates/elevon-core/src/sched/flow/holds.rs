//! Places in the device that are kept for processes which are owed service and come back soon.
//!
//! A process with one request at a time comes back only after its request has completed. If its
//! place in the device were given away at once, it could not get its share whatever its weight.

use super::slot::Slot;
use super::{Flow, QueueId};
use crate::units::{Instant, Nanos};

/// Places in the device that are kept for processes at the same time, at most.
pub(super) const HOLDS: usize = 16;
/// The part of the time of its places for which a device may be kept free for processes that come
/// back late, and the most that is saved up.
const ALLOWANCE: (u64, Nanos) = (64, Nanos::from_millis(20));

/// A place in the device that is kept for a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) queue: QueueId,
    since: Instant,
    pub(super) until: Instant,
}

impl Flow {
    /// Ends the holds whose time has passed.
    #[inline]
    pub(super) fn end_holds(&mut self) {
        if !self.holds.is_empty() {
            self.end_passed_holds();
        }
    }

    #[cold]
    fn end_passed_holds(&mut self) {
        let now = self.now;
        while self.end_hold(|hold| hold.until <= now) {}
    }

    /// Ends the first of such holds, which is taken from the allowance. Returns false if there is
    /// none.
    pub(super) fn end_hold(&mut self, is_such: impl Fn(&Hold) -> bool) -> bool {
        let Some(at) = self.holds.iter().position(is_such) else { return false };
        let hold = self.holds.remove(at);
        self.allowance = self.allowance.saturating_sub(self.now.since(hold.since).get());
        true
    }

    /// Adds the time that has passed to the allowance.
    fn allow_holds(&mut self, limit: u32) {
        let (part, most) = ALLOWANCE;
        let passed = self.now.since(self.allowed_at).get().saturating_mul(limit.into()) / part;
        self.allowance = (self.allowance + passed).min(most.get());
        self.allowed_at = self.now;
    }

    /// Returns how many places are free when a request has just ended.
    #[inline]
    pub(super) fn free_places(&self) -> u32 {
        self.limit().saturating_sub(self.in_flight).max(1)
    }

    /// Keeps the place of a request that has just ended, which takes `alone` alone, for the
    /// process, if that will soon need it and is owed service even if what it has waiting goes
    /// first, in other places that are free. Most have enough waiting for every place: they are not
    /// asked for here.
    #[inline(never)]
    pub(super) fn hold_for(&mut self, q: QueueId, slot: &Slot, alone: u64) {
        if self.holds.len() == HOLDS || self.depth.is_solo() {
            return;
        }
        let (queue, limit, places) = (self.queue(q), self.limit(), self.free_places());
        let first = queue.queued + self.holds.iter().filter(|hold| hold.queue == q).count() as u32;
        if first >= places {
            return;
        }
        self.allow_holds(limit);
        let most = (alone / 8).max(self.allowance.min(alone));
        let queue = self.queue(q);
        let most = Nanos::new(most).min(self.settings.hold);
        let Some(hold) = queue.short_hold(most).or_else(|| queue.hold(most)) else { return };
        let cost = self.charges().of(slot);
        let is_short = |member| self.shares.would_be_next(self.now, member, cost, u64::from(first) * cost);
        let is_owed = self.would_be_owed(queue.member, first, slot.sectors);
        if is_owed || (queue.is_delayed(hold) && is_short(queue.member)) {
            self.holds.push(Hold { queue: q, since: self.now, until: self.now + hold });
        }
    }
}
