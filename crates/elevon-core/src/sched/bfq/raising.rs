//! Weight raising: what looks interactive or soft real-time gets a far larger weight for a while.
//!
//! *Interactive*: a queue that was idle for two seconds or never seen; its weight times 30 until
//! the time passes that a reference device needs to start a large application. *Soft real-time*: a
//! queue that asks for a bounded rate, in bursts with pauses; its weight times 3000 for 300 ms at a
//! time. Only queues of the default weight are raised.

use super::Bfq;
use super::entity::{Class, EntityId};
use super::queue::LONG_AGO;
use crate::jiffies::to_ticks;

const INTERACTIVE: u64 = 30;
const SOFT_RT: u64 = 3000;
const SOFT_RT_MS: i64 = 300;
/// Time without I/O that makes a queue interactive.
const IDLE_MS: i64 = 2000;
/// Rate above which a queue is no soft real-time one, in sectors a second.
const SOFT_RT_RATE: u64 = 7000;
/// Service after which an interactive queue is something else, in sectors.
const INTERACTIVE_SECTORS: u64 = 120_000;
/// Time between two raisings of an async queue.
const ASYNC_PAUSE_MS: i64 = 500;
/// The weight of the default priority, the only one that is raised.
const DEFAULT_WEIGHT: u64 = 40;

/// The state of a queue; ticks. The factor itself is the entity's `raise`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raising {
    /// How long it lasts.
    pub(super) period: i64,
    /// Whether it is the soft real-time kind.
    pub(super) soft_rt: bool,
    /// When it started or ended last.
    pub(super) since: i64,
    /// Start of the interactive period that a soft real-time one interrupted.
    pub(super) interactive_since: i64,
    /// Sectors served since an interactive period started.
    pub(super) service: u64,
    /// From when on it may count as soft real-time.
    pub(super) next_soft_rt: i64,
    /// That has to be worked out when its last request is over.
    pub(super) soft_rt_pending: bool,
    /// When it last turned from idle to busy, and the sectors served since.
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

/// What a queue looks like as it turns busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Looks {
    pub(super) interactive: bool,
    pub(super) soft_rt: bool,
}

impl Bfq {
    fn raise_ticks(&self) -> i64 {
        to_ticks(self.peak.raise_ms(self.rotational) as i64, self.hz)
    }
    pub(super) fn ms(&self, ms: i64) -> i64 {
        to_ticks(ms, self.hz)
    }

    /// Sets the factor; the weight follows at the next activation, or when asked for.
    pub(super) fn set_raise(&mut self, q: EntityId, raise: u64) {
        let entity = &mut self.engine[q];
        if entity.raise != raise {
            (entity.raise, entity.changed) = (raise, true);
            self.recount(q);
        }
    }

    pub(super) fn looks(&self, q: EntityId) -> Looks {
        let queue = self.queue(q);
        let eligible = !queue.in_large_burst && queue.dispatched == 0 && self.engine[q].new_weight == DEFAULT_WEIGHT;
        Looks {
            interactive: eligible && self.tick > queue.budget_timeout.saturating_add(self.ms(IDLE_MS)),
            soft_rt: eligible && !queue.seeks.is_totally_seeky() && self.tick > queue.raising.next_soft_rt,
        }
    }

    /// Returns true if a queue that turns busy is, or is to be, raised.
    pub(super) fn deserves_raising(&self, q: EntityId, looks: Looks) -> bool {
        let queue = self.queue(q);
        let private = queue.sync && (queue.owner.is_some() || queue.stable);
        self.settings.low_latency && (self.engine[q].raise > 1 || (private && (looks.interactive || looks.soft_rt)))
    }

    /// A queue turns busy: raising starts, is renewed, or ends.
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
            (raising.period, raising.soft_rt, raising.interactive_since) = (soft_rt_period, true, LONG_AGO);
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

    /// An async queue with more to do is raised now and then.
    pub(super) fn raise_async(&mut self, q: EntityId) -> bool {
        let queue = self.queue(q);
        let rested = self.tick > queue.raising.since.saturating_add(self.ms(ASYNC_PAUSE_MS));
        if queue.sync || self.engine[q].raise > 1 || !self.settings.low_latency || !rested {
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

    /// A soft real-time period is over: the interactive one that it interrupted goes on, if there
    /// is one left.
    fn end_soft_rt(&mut self, q: EntityId) {
        let period = self.raise_ticks();
        let raising = &mut self.queues[q.index()].raising;
        if self.tick > raising.interactive_since.saturating_add(period) {
            self.end_raising(q);
        } else {
            (raising.period, raising.soft_rt, raising.since) = (period, false, raising.interactive_since);
            self.set_raise(q, INTERACTIVE);
        }
    }

    /// After a dispatch of the queue in service: is its time, or what it may have, over?
    pub(super) fn check_raising(&mut self, q: EntityId) {
        let entity = &self.engine[q];
        if entity.raise > 1 {
            let queue = self.queue(q);
            let raising = queue.raising;
            if queue.in_large_burst {
                self.end_raising(q);
            } else if self.tick > raising.since.saturating_add(raising.period) {
                if raising.soft_rt { self.end_soft_rt(q) } else { self.end_raising(q) }
            }
            let raising = &self.queue(q).raising;
            if self.engine[q].raise > 1 && !raising.soft_rt && raising.service > INTERACTIVE_SECTORS {
                self.end_raising(q);
            }
        }
        let entity = &self.engine[q];
        if (entity.weight > entity.orig_weight) != (entity.raise > 1) {
            self.engine.apply_changes(q);
            self.recount(q);
        }
    }

    /// A queue that seeks all the time is no soft real-time one after all.
    pub(super) fn demote_seeky(&mut self, q: EntityId) {
        if self.engine[q].raise > 1 && self.queue(q).raising.soft_rt && self.queue(q).seeks.is_totally_seeky() {
            self.end_soft_rt(q);
        }
    }

    /// From when on the next burst of requests may count as soft real-time: not before the last one
    /// would have been served at the highest rate of such a queue, and not within the idle
    /// time.
    pub(super) fn set_next_soft_rt(&mut self, q: EntityId) {
        let idle_ticks = self.settings.slice_idle.get() as i64 * i64::from(self.hz) / 1_000_000_000;
        let (tick, hz) = (self.tick, self.hz);
        let raising = &mut self.queue_mut(q).raising;
        let at_that_rate = (raising.backlogged_service * u64::from(hz) / SOFT_RT_RATE) as i64;
        raising.next_soft_rt =
            raising.next_soft_rt.max(raising.backlogged_at.saturating_add(at_that_rate)).max(tick + idle_ticks + 4);
    }

    /// A soft real-time queue that had to wait beyond its slot does not lose its time.
    pub(super) fn extend_soft_rt(&mut self, q: EntityId) {
        let (tick, raised) = (self.tick, self.engine[q].raise > 1);
        let queue = self.queue_mut(q);
        if raised && queue.raising.soft_rt && tick > queue.raising.since && tick > queue.budget_timeout {
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

    /// The weight of a priority level, and the class.
    pub(super) const fn weight_of(class: Class, level: u8) -> u64 {
        match class {
            Class::Idle => 10,
            Class::Rt | Class::Be => (8 - level as u64) * 10,
        }
    }
}
