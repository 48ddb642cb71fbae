//! Weight raising: a queue that looks interactive or soft real-time gets a much larger weight for
//! some time.
//!
//! *Interactive*: a queue that was idle for two seconds or is new; its weight is multiplied by 30
//! for the time that a reference device needs to start a large application. *Soft real-time*: a
//! queue with a bounded rate, in bursts with pauses; its weight is multiplied by 3000 for 300 ms at
//! a time. Only queues of the default weight are raised.

use super::Bfq;
use super::entity::{Class, EntityId};
use super::queue::LONG_AGO;
use crate::jiffies::to_ticks;

const INTERACTIVE: u64 = 30;
const SOFT_RT: u64 = 3000;
const SOFT_RT_MS: i64 = 300;
/// Time without I/O that makes a queue interactive.
const IDLE_MS: i64 = 2000;
/// Rate above which a queue is not soft real-time, in sectors a second.
const SOFT_RT_RATE: u64 = 7000;
/// Service after which a queue is no longer interactive, in sectors.
const INTERACTIVE_SECTORS: u64 = 120_000;
/// Time between two raisings of an async queue.
const ASYNC_PAUSE_MS: i64 = 500;
/// The weight of the default priority, the only one that is raised.
const DEFAULT_WEIGHT: u64 = 40;

/// Raising state of a queue; ticks. The factor itself is the entity's `raise`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raising {
    /// How long the current raising lasts.
    pub(super) period: i64,
    /// Whether it is the soft real-time kind.
    pub(super) soft_rt: bool,
    /// When it last started or ended.
    pub(super) since: i64,
    /// Start of the interactive period that a soft real-time period interrupted.
    pub(super) interactive_since: i64,
    /// Sectors served since an interactive period started.
    pub(super) service: u64,
    /// Time from which it may count as soft real-time.
    pub(super) next_soft_rt: i64,
    /// `next_soft_rt` has to be computed when its last request completes.
    pub(super) soft_rt_pending: bool,
    /// When it last became busy, and the sectors served since.
    pub(super) backlogged_at: i64,
    pub(super) backlogged_service: u64,
}

impl Raising {
    pub(super) const fn new(tick: i64) -> Self {
        Self {
            period: 0,
            soft_rt: false,
            since: LONG_AGO,
            interactive_since: LONG_AGO,
            service: 0,
            next_soft_rt: tick,
            soft_rt_pending: false,
            backlogged_at: LONG_AGO,
            backlogged_service: 0,
        }
    }
}

/// The classification of a queue that becomes busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Looks {
    pub(super) interactive: bool,
    pub(super) soft_rt: bool,
}

impl Bfq {
    fn raise_ticks(&self) -> i64 {
        to_ticks(self.device.peak.raise_ms(self.device.reference) as i64, self.hz)
    }
    pub(super) fn ms(&self, ms: i64) -> i64 {
        to_ticks(ms, self.hz)
    }

    /// Sets the factor. The weight changes at the next activation, or when it is updated
    /// explicitly.
    pub(super) fn set_raise(&mut self, q: EntityId, raise: u64) {
        let entity = &mut self.engine[q];
        if entity.raise != raise {
            (entity.raise, entity.changed) = (raise, true);
            self.recount(q);
        }
    }

    pub(super) fn looks(&self, q: EntityId) -> Looks {
        let queue = self.queue(q);
        let eligible = !queue.in_large_burst
            && queue.dispatched == 0
            && self.engine[q].new_weight == DEFAULT_WEIGHT;
        Looks {
            interactive: eligible
                && self.tick > queue.budget_timeout.saturating_add(self.ms(IDLE_MS)),
            soft_rt: eligible
                && !queue.seeks.is_totally_seeky()
                && self.tick > queue.raising.next_soft_rt,
        }
    }

    /// Returns true if a queue that becomes busy is raised, or is to be raised.
    pub(super) fn deserves_raising(&self, q: EntityId, looks: Looks) -> bool {
        let queue = self.queue(q);
        let private = queue.sync && (queue.owner.is_some() || queue.stable);
        self.settings.low_latency
            && (self.engine[q].raise > 1 || (private && (looks.interactive || looks.soft_rt)))
    }

    /// Starts, renews or ends raising when a queue becomes busy.
    pub(super) fn raise_on_arrival(&mut self, q: EntityId, deserves: bool, looks: Looks) {
        let (period, tick, least) = (self.raise_ticks(), self.tick, self.budgets.min());
        let was = self.engine[q].raise;
        let in_burst = self.queue(q).in_large_burst;
        let soft_rt_period = self.ms(SOFT_RT_MS);
        let raising = &mut self.queue_mut(q).raising;
        let raise = if was == 1 && !deserves {
            1
        } else if looks.interactive {
            if was == 1 {
                raising.service = 0;
            }
            (raising.period, raising.soft_rt) = (period, false);
            INTERACTIVE
        } else if was == 1 {
            (raising.period, raising.soft_rt, raising.interactive_since) =
                (soft_rt_period, true, LONG_AGO);
            SOFT_RT
        } else if in_burst {
            1
        } else if looks.soft_rt {
            if !raising.soft_rt {
                raising.interactive_since = raising.since;
            }
            (raising.period, raising.soft_rt, raising.since) = (soft_rt_period, true, tick);
            SOFT_RT
        } else {
            was
        };
        if was == 1 && raise > 1 {
            let entity = &mut self.engine[q];
            entity.budget = entity.budget.min(2 * least);
        }
        self.set_raise(q, raise);
    }

    /// Raises an async queue with more requests from time to time.
    #[inline(never)]
    pub(super) fn raise_async(&mut self, q: EntityId) -> bool {
        let queue = self.queue(q);
        let rested = self.tick > queue.raising.since.saturating_add(self.ms(ASYNC_PAUSE_MS));
        if self.engine[q].raise > 1 || !self.settings.low_latency || !rested {
            return false;
        }
        let period = self.raise_ticks();
        let raising = &mut self.queue_mut(q).raising;
        (raising.period, raising.soft_rt) = (period, false);
        self.set_raise(q, INTERACTIVE);
        true
    }

    /// Ends raising.
    pub(super) fn end_raising(&mut self, q: EntityId) {
        let tick = self.tick;
        let raising = &mut self.queues[q.index()].raising;
        if !raising.soft_rt {
            raising.next_soft_rt = tick;
        }
        (raising.period, raising.since) = (0, tick);
        self.set_raise(q, 1);
    }

    /// Ends a soft real-time period. The interactive period that it interrupted continues if it is
    /// not finished.
    fn end_soft_rt(&mut self, q: EntityId) {
        let period = self.raise_ticks();
        let raising = &mut self.queues[q.index()].raising;
        if self.tick > raising.interactive_since.saturating_add(period) {
            self.end_raising(q);
        } else {
            (raising.period, raising.soft_rt, raising.since) =
                (period, false, raising.interactive_since);
            self.set_raise(q, INTERACTIVE);
        }
    }

    /// Checks after a dispatch if the raising of the queue in service, which is raised or still has
    /// the weight, ends by time or by service.
    #[inline(never)]
    pub(super) fn check_raising(&mut self, q: EntityId) {
        if self.engine[q].raise > 1 {
            let queue = self.queue(q);
            let raising = queue.raising;
            if queue.in_large_burst {
                self.end_raising(q);
            } else if self.tick > raising.since.saturating_add(raising.period) {
                if raising.soft_rt { self.end_soft_rt(q) } else { self.end_raising(q) }
            }
            let raising = &self.queue(q).raising;
            if self.engine[q].raise > 1 && !raising.soft_rt && raising.service > INTERACTIVE_SECTORS
            {
                self.end_raising(q);
            }
        }
        let entity = &self.engine[q];
        if (entity.weight > entity.orig_weight) != (entity.raise > 1) {
            self.engine.apply_changes(q);
            self.recount(q);
        }
    }

    /// Ends soft real-time raising of a queue that seeks all the time.
    #[inline(never)]
    pub(super) fn demote_seeky(&mut self, q: EntityId) {
        if self.engine[q].raise > 1
            && self.queue(q).raising.soft_rt
            && self.queue(q).seeks.is_totally_seeky()
        {
            self.end_soft_rt(q);
        }
    }

    /// Sets the time from which the next burst of requests may count as soft real-time: not before
    /// the last burst would have been served at the highest rate of such a queue, and not within
    /// the idle time.
    pub(super) fn set_next_soft_rt(&mut self, q: EntityId) {
        let idle_ticks = self.settings.slice_idle.get() as i64 * self.hz.0 as i64 / 1_000_000_000;
        let (tick, hz) = (self.tick, self.hz);
        let raising = &mut self.queue_mut(q).raising;
        let at_that_rate = (raising.backlogged_service * hz.0 / SOFT_RT_RATE) as i64;
        raising.next_soft_rt = raising
            .next_soft_rt
            .max(raising.backlogged_at.saturating_add(at_that_rate))
            .max(tick + idle_ticks + 4);
    }

    /// Extends the raising of a soft real-time queue by the time that it waited beyond its slot.
    pub(super) fn extend_soft_rt(&mut self, q: EntityId) {
        let (tick, raised) = (self.tick, self.engine[q].raise > 1);
        let queue = self.queue_mut(q);
        if raised
            && queue.raising.soft_rt
            && tick > queue.raising.since
            && tick > queue.budget_timeout
        {
            let waited = tick.saturating_sub(queue.budget_timeout);
            queue.raising.since = queue.raising.since.saturating_add(waited).min(tick);
        }
    }

    pub(super) fn end_all_raising(&mut self) {
        for index in 0..self.queues.len() {
            let q = EntityId(index as u32);
            if self.queues[index].live && self.engine[q].raise > 1 {
                self.end_raising(q);
            }
        }
    }

    /// Returns the weight of a priority level in a class.
    pub(super) const fn weight_of(class: Class, level: u8) -> u64 {
        match class {
            Class::Idle => 10,
            Class::Rt | Class::Be => (8 - level as u64) * 10,
        }
    }
}
