//! Places in the device that are kept for processes which are owed service and come back soon.
//!
//! A process with one request at a time comes back only after its request has completed. If its
//! place in the device were given away at once, it could not get its share whatever its weight. One
//! that thinks for longer than a place is kept finds all of them in use when it comes back, and
//! waits until a request ends. If it thinks for the same time again and again, a place that becomes
//! free shortly before is kept for it.

use super::Aileron;
use super::ids::QueueId;
use super::slot::Slot;
use crate::units::{Instant, Nanos};

/// Places in the device that are kept for processes at the same time, at most.
pub(super) const HOLDS: usize = 16;
/// The part of the time of its places for which a device may be kept free for processes that come
/// back late, and the most that is saved up.
const ALLOWANCE: (u64, Nanos) = (64, Nanos::from_millis(20));
/// Nanoseconds that a request takes alone for its process to be waited for while that thinks: of
/// shorter ones the moment of the return cannot be foreseen well enough.
const SLOW_REQUEST: u64 = Nanos::from_micros(480).get();

/// A place in the device that is kept for a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) queue: QueueId,
    /// It is one of those that are for writes.
    is_write: bool,
    since: Instant,
    pub(super) until: Instant,
}

/// A process that has no request and thinks for the same time again and again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thinker {
    pub(super) queue: QueueId,
    /// When its next request is expected.
    at: Instant,
    is_write: bool,
    /// What its last request takes alone, and what is charged for it.
    alone: u64,
    cost: u64,
}

impl Aileron {
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

    /// Returns true if as many writes are in the device as may be, or places are kept for.
    #[inline]
    pub(super) fn are_writes_full(&self) -> bool {
        let kept = if self.holds.is_empty() {
            0
        } else {
            self.holds.iter().filter(|hold| hold.is_write).count()
        };
        self.writes_in_flight + kept as u32 >= self.write_depth.limit()
    }

    /// Returns how many places are free when a request has just ended.
    #[inline]
    fn free_places(&self, is_write: bool) -> u32 {
        let all = self.limit().saturating_sub(self.in_flight);
        let own = if is_write {
            self.write_depth.limit().saturating_sub(self.writes_in_flight)
        } else {
            all
        };
        all.min(own).max(1)
    }

    /// Returns the longest time for which a place is kept for a request that takes `alone` alone.
    fn longest_hold(&mut self, limit: u32, alone: u64) -> Nanos {
        self.allow_holds(limit);
        Nanos::new((alone / 8).max(self.allowance.min(alone))).min(self.settings.hold)
    }

    /// Keeps the place of a request that has just ended, which takes `alone` alone: for the
    /// process, or for one that thinks and is expected soon.
    #[inline]
    pub(super) fn keep_place(&mut self, q: QueueId, slot: &Slot, alone: u64) {
        let queue = self.queue(q);
        // Others that come back sooner take it even if none waits now.
        let places = self.free_places(slot.direction.is_write());
        let is_wanted = self.waiting > 0 || (places == 1 && queue.in_device < self.in_flight);
        // Most have enough waiting for every place.
        let may_need_it = is_wanted && !queue.exited && queue.queued < places;
        if may_need_it && self.hold_for(q, slot, alone) {
            return;
        }
        if alone >= SLOW_REQUEST
            && let Some(at) = self.queue(q).expected()
        {
            self.note_thinker(q, at, slot, alone);
        }
        if self.waiting > 0 && !self.thinkers.is_empty() {
            self.hold_for_thinker();
        }
    }

    #[cold]
    fn note_thinker(&mut self, queue: QueueId, at: Instant, slot: &Slot, alone: u64) {
        let cost = self.charges().of(slot);
        if self.thinkers.len() == HOLDS {
            let now = self.now;
            self.thinkers.retain(|thinker| thinker.at > now);
        }
        if self.thinkers.len() < HOLDS {
            let is_write = slot.direction.is_write();
            self.thinkers.push(Thinker { queue, at, is_write, alone, cost });
        }
    }

    /// A process has a request again, or has ended.
    pub(super) fn forget_thinker(&mut self, q: QueueId) {
        self.thinkers.retain(|thinker| thinker.queue != q);
    }

    /// Keeps a place that has become free for a process that thinks, if it is expected soon and is
    /// owed service.
    #[cold]
    fn hold_for_thinker(&mut self) {
        if self.holds.len() == HOLDS || self.is_solo() {
            return;
        }
        let (now, limit) = (self.now, self.limit());
        for at in 0..self.thinkers.len() {
            let Thinker { queue: q, at, is_write, alone, cost } = self.thinkers[at];
            let most = self.longest_hold(limit, alone);
            let until = at + Nanos::new(alone / 16);
            let is_soon = until > now && until <= now + most;
            if !is_soon || self.holds.iter().any(|hold| hold.queue == q) {
                continue;
            }
            let queue = self.queue(q);
            if queue.is_delayed(until.since(now))
                && self.shares.would_be_next(now, queue.member, cost, 0)
            {
                self.holds.push(Hold { queue: q, is_write, since: now, until });
                return;
            }
        }
    }

    /// Keeps the place of a request that has just ended, which takes `alone` alone, for the
    /// process, if that will soon need it and is owed service even if what it has waiting goes
    /// first, in other places that are free. Returns true if it does.
    #[inline(never)]
    fn hold_for(&mut self, q: QueueId, slot: &Slot, alone: u64) -> bool {
        if self.holds.len() == HOLDS || self.is_solo() {
            return false;
        }
        let is_write = slot.direction.is_write();
        let (queue, limit, places) = (self.queue(q), self.limit(), self.free_places(is_write));
        let first = queue.queued + self.holds.iter().filter(|hold| hold.queue == q).count() as u32;
        if first >= places {
            return false;
        }
        let most = self.longest_hold(limit, alone);
        let queue = self.queue(q);
        let Some(hold) = queue.short_hold(most).or_else(|| queue.hold(most)) else { return false };
        let cost = self.charges().of(slot);
        let is_short =
            |member| self.shares.would_be_next(self.now, member, cost, u64::from(first) * cost);
        let is_owed = self.would_be_owed(queue.member, first, slot.sectors);
        let is_kept = is_owed || (queue.is_delayed(hold) && is_short(queue.member));
        if is_kept {
            self.holds.push(Hold { queue: q, is_write, since: self.now, until: self.now + hold });
        }
        is_kept
    }
}
