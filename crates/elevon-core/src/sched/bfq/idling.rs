//! Idling: decides whether to wait for an empty queue in service, for the sake of throughput or of
//! shares.
//!
//! Waiting *boosts* throughput if the device is faster with an unbroken stream. It is *needed* if
//! shares would not follow weights without it: otherwise a queue that always has requests in the
//! device would be served in the device's own order.

use super::Bfq;
use super::entity::{Class, EntityId, GroupId};
use super::injection::Inject;
use crate::units::{Instant, Nanos};

/// The idle time of a seeky queue for which idling is not needed.
const SEEKY_IDLE: Nanos = Nanos::from_millis(2);
/// The minimum idle time of a raised queue.
const RAISED_IDLE: Nanos = Nanos::from_millis(20);
/// Number of requests of other queues in the device from which a raised queue needs protection.
const CROWD: u32 = 4;

/// How a queue is counted device-wide, so that the same counts can be subtracted later: what the
/// counts depend on. One word, because it is compared at most steps of a queue and differs at few:
/// three flags, and from bits 8, 16 and 32 on the class, the weight and the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted(u64);

impl Counted {
    /// It is busy, or has requests in the device. Of a queue that is not, nothing counts.
    const PRESENT: u64 = 1;
    const BUSY: u64 = 2;
    const RAISED: u64 = 4;
    const CLASS: u64 = 0xff00;

    const fn has(self, flags: u64) -> bool {
        self.0 & flags == flags
    }
    /// Its weight, if it is present and not raised; otherwise 0.
    const fn weight(self) -> u16 {
        if self.0 & (Self::PRESENT | Self::RAISED) == Self::PRESENT {
            (self.0 >> 16) as u16
        } else {
            0
        }
    }
    const fn class(self) -> Class {
        Class::ALL[(self.0 >> 8 & 3) as usize]
    }
    /// Returns true if it is busy and raised.
    const fn raised_busy(self) -> bool {
        self.has(Self::BUSY | Self::RAISED)
    }
    const fn group(self) -> GroupId {
        GroupId((self.0 >> 32) as u32)
    }
}

/// The number of queues with each weight; weight 0 is that of queues that do not count. Returns the
/// smallest weight and whether there are two: O(1) and O(16).
#[derive(Clone, Debug)]
pub(super) struct WeightCounters {
    counts: [u32; 1001],
    used: [u64; 16],
    distinct: u32,
}

impl WeightCounters {
    pub(super) const fn new() -> Self {
        Self { counts: [0; 1001], used: [0; 16], distinct: 0 }
    }
    fn add(&mut self, weight: u16) {
        if weight == 0 {
            return;
        }
        let count = &mut self.counts[usize::from(weight)];
        *count += 1;
        if *count == 1 {
            self.used[usize::from(weight / 64)] |= 1 << (weight % 64);
            self.distinct += 1;
        }
    }
    fn remove(&mut self, weight: u16) {
        if weight == 0 {
            return;
        }
        let count = &mut self.counts[usize::from(weight)];
        *count -= 1;
        if *count == 0 {
            self.used[usize::from(weight / 64)] &= !(1 << (weight % 64));
            self.distinct -= 1;
        }
    }
    fn smallest(&self) -> Option<u16> {
        let (word, bits) = self.used.iter().enumerate().find(|(_, bits)| **bits != 0)?;
        Some(word as u16 * 64 + bits.trailing_zeros() as u16)
    }
}

/// The number of busy queues.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BusyQueues {
    of_class: [u32; 3],
    all: u32,
    /// Classes that have one.
    classes: u32,
}

impl BusyQueues {
    const fn add(&mut self, class: Class) {
        let count = &mut self.of_class[class as usize];
        *count += 1;
        self.all += 1;
        self.classes += (*count == 1) as u32;
    }
    const fn remove(&mut self, class: Class) {
        let count = &mut self.of_class[class as usize];
        *count -= 1;
        self.all -= 1;
        self.classes -= (*count == 0) as u32;
    }
}

impl Bfq {
    /// Returns how a queue is to be counted now.
    fn counted(&self, q: EntityId) -> Counted {
        let (queue, entity) = (&self.queues[q.index()], &self.engine[q]);
        let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        Counted(
            flag(queue.busy || queue.dispatched > 0, Counted::PRESENT)
                | flag(queue.busy, Counted::BUSY)
                | flag(entity.raise > 1, Counted::RAISED)
                | (entity.class as u64) << 8
                | u64::from(entity.weight.min(1000) as u16) << 16
                | u64::from(entity.group.0) << 32,
        )
    }

    /// Returns true if the device-wide counts are right for a queue.
    pub(super) fn is_counted(&self, q: EntityId) -> bool {
        self.queues[q.index()].counted == self.counted(q)
    }

    /// Updates the device-wide counts for a queue.
    pub(super) fn recount(&mut self, q: EntityId) {
        let new = self.counted(q);
        let counted = &mut self.queues[q.index()].counted;
        if *counted == new {
            // Most steps of a queue change nothing here.
            return;
        }
        let old = core::mem::replace(counted, new);
        self.change_counts(old, new);
    }

    fn change_counts(&mut self, old: Counted, new: Counted) {
        // Each count on its own: mostly one or two of them change.
        let (from, to) = (old.weight(), new.weight());
        if from != to {
            self.busy.weights.remove(from);
            self.busy.weights.add(to);
        }
        let flags = Counted::BUSY | Counted::RAISED | Counted::CLASS;
        if (old.0 ^ new.0) & flags != 0 {
            self.change_busy(old, new);
        }
        if old.has(Counted::PRESENT) != new.has(Counted::PRESENT) || old.group() != new.group() {
            self.change_pending(old, new);
        }
    }

    /// Counts a queue among the busy ones as it is now.
    fn change_busy(&mut self, old: Counted, new: Counted) {
        if old.has(Counted::BUSY) {
            self.busy.queues.remove(old.class());
        }
        if new.has(Counted::BUSY) {
            self.busy.queues.add(new.class());
        }
        self.busy.raised =
            self.busy.raised + u32::from(new.raised_busy()) - u32::from(old.raised_busy());
    }

    /// Counts a queue that is present among those of its group.
    fn change_pending(&mut self, old: Counted, new: Counted) {
        if old.has(Counted::PRESENT) {
            let pending = &mut self.groups[old.group().index()].pending;
            *pending -= 1;
            self.busy.groups -= u32::from(*pending == 0);
        }
        if new.has(Counted::PRESENT) {
            let pending = &mut self.groups[new.group().index()].pending;
            *pending += 1;
            self.busy.groups += u32::from(*pending == 1);
        }
    }

    /// Returns the number of busy queues of all classes.
    #[inline]
    pub(super) const fn busy_queues(&self) -> u32 {
        self.busy.queues.all
    }

    /// Returns true if the device was not rotational and queued commands when this was determined.
    pub(super) const fn is_queueing_flash(&self) -> bool {
        self.device.queueing_flash
    }

    /// Determines if the device is not rotational and queues commands.
    pub(super) const fn update_queueing_flash(&mut self) {
        self.device.queueing_flash = !self.device.rotational && self.device.queueing.is_on();
    }

    /// Returns true if shares would be wrong without waiting for this queue. Since 5.2 the
    /// scheduler does not wait for queues of the smallest weight. The older forms of injection did
    /// wait for them; and without any injection such a queue would hardly be served, because each
    /// of its requests is a slot that is charged at least 2 ms.
    #[inline]
    pub(super) fn is_asymmetric(&self, q: EntityId) -> bool {
        let own = || self.queue(q).counted.weight();
        let is_spared = || match self.settings.inject {
            Inject::Off | Inject::Seed => false,
            Inject::Limit | Inject::Fair => {
                own() > 0 && Some(own()) == self.busy.weights.smallest()
            }
        };
        let weights_differ = self.busy.weights.distinct > 1 && !is_spared();
        let root = u32::from(self.rules.bfq_counts_root_group || self.groups[0].pending > 0);
        weights_differ || self.busy.queues.classes > 1 || self.busy.groups > root
    }

    /// Returns true if waiting for this queue makes the device faster.
    pub(super) fn idling_boosts(&self, q: EntityId) -> bool {
        let (queue, queueing) = (self.queue(q), self.device.queueing.is_on());
        let streams = !queue.is_seeky() && queue.io_bound.is_bound && queue.short_think;
        let gains = (self.device.rotational && !queueing)
            || ((self.device.rotational || !queueing) && streams);
        gains && self.busy.raised == 0
    }

    /// Returns true if waiting for this queue is needed for its share.
    pub(super) fn idling_needed(&self, q: EntityId) -> bool {
        let others = self.busy_queues();
        let crowded =
            || self.busy.raised < others || self.in_flight >= self.queue(q).dispatched + CROWD;
        others == 1 || (self.engine[q].raise > 1 && crowded()) || self.is_asymmetric(q)
    }

    /// Returns true if the scheduler should wait for this queue when it is empty.
    #[inline]
    pub(super) fn is_better_to_idle(&self, q: EntityId) -> bool {
        let queue = self.queue(q);
        if queue.processes == 0 {
            return false;
        }
        if self.settings.strict {
            return true;
        }
        if self.settings.slice_idle.is_zero() || !queue.sync || self.engine[q].class == Class::Idle
        {
            return false;
        }
        self.idling_needed(q) || self.idling_boosts(q)
    }

    /// Starts the idle timer for the queue in service.
    pub(super) fn wait_for_request(&mut self, q: EntityId) {
        let idle = self.settings.slice_idle;
        let raise = self.engine[q].raise;
        let span = if self.queue(q).is_seeky() && raise == 1 && !self.is_asymmetric(q) {
            idle.min(SEEKY_IDLE)
        } else if raise > 1 {
            idle.max(RAISED_IDLE)
        } else {
            idle
        };
        self.queue_mut(q).waiting = true;
        self.service.idling_since = self.now;
        self.service.timer = self.now + span;
    }

    /// Stops waiting for the queue in service.
    pub(super) fn stop_waiting(&mut self, q: EntityId) {
        self.queue_mut(q).waiting = false;
        self.service.timer = Instant::MAX;
    }

    /// Handles the expiry of the idle timer.
    pub(super) fn on_idle_timer(&mut self) {
        self.service.timer = Instant::MAX;
        let Some(q) = self.in_service() else { return };
        self.queue_mut(q).waiting = false;
        if self.slot_timed_out(q) {
            self.expire(q, true, super::budget::Reason::Timeout);
        } else if self.queue(q).is_empty() {
            self.expire(q, true, super::budget::Reason::TooIdle);
        }
    }
}
