//! Injection: service of other queues while the queue in service is empty and waited for.
//!
//! Waiting keeps shares right but leaves the device's queue empty. `inject=` says what is done
//! about the latter:
//!
//! - `off`: nothing.
//! - `seed`: as the first version (4.20). A seeky, unraised queue on queueing flash lets `10 /
//!   inject_coeff` sectors of others pass for each of its own in a slot, ten by default. The queue
//!   that was activated last goes first, whatever its weight. This restores the full throughput,
//!   but with one request outstanding per process every process gets the same, so weights have no
//!   effect. The device is found to queue commands by that version's test (more than 4 in it, not
//!   3); everything else is as in later kernels.
//! - `limit` (default): as in Linux since 5.2. A limit on the requests in the device, learnt from
//!   how much longer the waited-for request took when others were injected. The harm is bounded,
//!   but weights are ignored here too.
//! - `fair`: not in Linux. An injected request is a slot of its own: the queue is charged at once,
//!   and only a queue that is *eligible* (its start is not after virtual time) may be injected,
//!   smallest finish first, down the hierarchy. A queue's start is its service by weight, and
//!   virtual time is the service of all queues by weight; so no queue is ever injected beyond its
//!   due share, and the bounds of the engine hold for all service, injected or not. Slots are
//!   charged by sectors, because the device's time in them belongs to several queues. Only the
//!   throughput that weights forbid is lost. With one request outstanding each, the heaviest queue
//!   has at most one request at a time, and the others at most their shares of that. So throughput
//!   is `(sum of weights) / (largest weight)` requests at a time, where strict waiting has one and
//!   `none` has all.
//!
//! Cost: `seed` and `limit` walk the active queues to the first that fits (usually the first),
//! `fair` O(d · log q).

use super::Bfq;
use super::entity::{Class, EntityId};
use crate::units::RequestId;

/// The form of injection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Inject {
    Off = 0,
    Seed = 1,
    Limit = 2,
    Fair = 3,
}

impl Inject {
    pub(super) const ALL: [Self; 4] = [Self::Off, Self::Seed, Self::Limit, Self::Fair];
}

/// Time after which a limit is learnt again.
const RESET_MS: i64 = 1000;
/// Time between a decrease and the next measurement.
const REST_MS: i64 = 10;
/// A request of at least this many sectors is injected only if the device has no other.
const BIG_REQUEST: u64 = 64;

/// What a queue has learnt about injection in its slots.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Injection {
    /// Other queues are injected while fewer requests than this are in the device.
    pub(super) limit: u32,
    /// Time that its request takes without injection, in nanoseconds; 0 if not known.
    pub(super) baseline: u64,
    /// When the limit was last decreased or reset; ticks.
    pub(super) decreased: i64,
    /// Sectors injected in this slot (seed).
    pub(super) service: u64,
}

impl Injection {
    /// Resets what was learnt.
    pub(super) const fn reset(&mut self, tick: i64, short_think: bool) {
        self.limit = if short_think { 0 } else { 1 };
        self.baseline = 0;
        self.decreased = tick;
    }

    /// Learns from the time that the waited-for request took. `injected`: whether requests of
    /// others were served meanwhile; `in_flight` includes it.
    pub(super) const fn learn(
        &mut self,
        took: u64,
        injected: bool,
        in_flight: u32,
        in_flight_max: u32,
        tick: i64,
    ) {
        let old = self.limit;
        if self.baseline > 0 && injected {
            // 1.5 times the baseline, rounded down.
            let threshold = self.baseline + self.baseline / 2;
            if took >= threshold {
                if old > 0 {
                    self.limit -= 1;
                    self.decreased = tick;
                }
            } else if old <= in_flight_max {
                self.limit += 1;
            }
        }
        if (self.baseline == 0 && in_flight == 1) || took < self.baseline {
            if self.baseline == 0 {
                self.limit = if old > 1 { old } else { 1 };
            }
            self.baseline = took;
        } else if !injected && in_flight == 1 {
            self.baseline = took;
        }
    }
}

impl Bfq {
    /// Returns a queue to serve while `q`, which is in service and empty, is waited for.
    #[inline(never)]
    pub(super) fn choose_for_injection(&mut self, q: EntityId) -> Option<EntityId> {
        match self.settings.inject {
            Inject::Off => None,
            Inject::Seed => self.choose_as_the_seed(q),
            Inject::Limit => self.choose_related(q).or_else(|| self.choose_within_limit(q)),
            Inject::Fair => self.choose_by_weight(q),
        }
    }

    /// Returns true if a queue has a request, and budget left for it.
    fn fits(&self, q: EntityId) -> bool {
        let next = self.queue(q).next;
        next.is_some_and(|next| self.charge(q, next) <= self.engine[q].budget_left())
    }

    fn choose_as_the_seed(&self, q: EntityId) -> Option<EntityId> {
        let queue = self.queue(q);
        let injectable = queue.is_seeky() && self.engine[q].raise == 1 && self.is_queueing_flash();
        if !injectable
            || queue.injection.service * self.settings.inject_coeff >= self.engine[q].service * 10
        {
            return None;
        }
        self.engine.active_queues().find(|&other| self.fits(other))
    }

    /// Returns a queue for whose I/O the one in service may be waiting: its process's writes, its
    /// waker, or a queue that it wakes.
    fn choose_related(&self, q: EntityId) -> Option<EntityId> {
        let queue = self.queue(q);
        let serves = |other: EntityId| self.queue(other).busy && self.fits(other);
        let own_writes = queue.owner.and_then(|task| {
            let other = self.processes[task.index()].asynchronous?;
            let next = self.queue(other).next?;
            (self.slots[next.index()].task == task && serves(other)).then_some(other)
        });
        let waker = queue.waker.waker.filter(|&other| serves(other));
        let woken = self.first_woken(q).filter(|&other| serves(other));
        own_writes.or(waker).or(woken)
    }

    fn choose_within_limit(&mut self, q: EntityId) -> Option<EntityId> {
        let queue = self.queue(q);
        let short = queue.short_think;
        let allowed = self.engine[q].raise == 1 || self.busy.raised > 1 || !short;
        let limit = queue.injection.limit;
        if self.idling_boosts(q) || !allowed || self.in_flight >= limit {
            return None;
        }
        let only_raised = self.engine[q].raise > 1 && short;
        let flash = !self.device.rotational;
        let waits = self.rules.bfq_big_injection_waits;
        let candidate = |&other: &EntityId| {
            let raised = !only_raised || self.engine[other].raise > 1;
            raised && self.fits(other) && {
                let big = flash
                    && self
                        .queue(other)
                        .next
                        .is_some_and(|n| self.slots[n.index()].sectors >= BIG_REQUEST);
                let limit = if big { limit.min(1) } else { limit };
                if big && waits { self.in_flight == 0 } else { self.in_flight < limit }
            }
        };
        let other = self.engine.active_queues().find(candidate)?;
        self.injection.injected = true;
        Some(other)
    }

    fn choose_by_weight(&mut self, q: EntityId) -> Option<EntityId> {
        if self.engine[q].raise > 1 || !self.is_queueing_flash() {
            return None;
        }
        self.engine.settle_ancestors(q);
        let lowest = if self.engine[q].class == Class::Idle { Class::Idle } else { Class::Be };
        self.engine.eligible(lowest).filter(|&other| self.queue(other).next.is_some())
    }

    /// Accounts for a dispatched request of a queue that is not in service. `charge`: what it was
    /// charged.
    #[inline(never)]
    pub(super) fn on_injected(&mut self, other: EntityId, charge: u64) {
        let Some(q) = self.in_service() else { return };
        self.queue_mut(q).injection.service += charge;
        if self.settings.inject == Inject::Fair && self.queue(other).busy {
            self.engine.settle(other);
        }
    }

    /// Starts a measurement of the service time if it is due, when a process's only request
    /// arrives; resets what was learnt if it is too old.
    pub(super) fn prepare_measurement(&mut self, q: EntityId) {
        let age = self.tick - self.queue(q).injection.decreased;
        if age >= self.ms(RESET_MS) {
            self.reset_injection(q);
        }
        let injection = &self.queues[q.index()].injection;
        let alone = self.in_flight == 0;
        if self.is_in_service(q)
            && self.tick - injection.decreased >= self.ms(REST_MS)
            && (alone || (injection.baseline > 0 && self.injection.injected))
        {
            self.injection.last_empty_occupied = self.now;
            self.injection.measuring = true;
            if alone {
                self.injection.injected = false;
            }
        }
    }

    #[inline(never)]
    pub(super) fn reset_injection(&mut self, q: EntityId) {
        let tick = self.tick;
        let queue = self.queue_mut(q);
        queue.injection.reset(tick, queue.short_think);
        self.injection.waited = None;
    }

    /// Ends the measurement when the waited-for request completes.
    pub(super) fn measure(&mut self, q: EntityId, id: RequestId) {
        if self.injection.waited != Some(id) {
            return;
        }
        let took = self.now.since(self.injection.last_empty_occupied).get();
        let (injected, in_flight, tick) = (self.injection.injected, self.in_flight, self.tick);
        let in_flight_max = self.device.queueing.in_flight_max;
        self.queue_mut(q).injection.learn(took, injected, in_flight, in_flight_max, tick);
        self.injection.waited = None;
        self.injection.injected = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_follows_the_time_that_injection_costs() {
        let us = |n: u64| n * 1000;
        let mut injection = Injection::default();
        injection.learn(us(100), false, 1, 3, 0);
        assert_eq!((injection.limit, injection.baseline), (1, us(100)));
        let mut other = injection;
        injection.learn(us(120), true, 2, 3, 7);
        assert_eq!((injection.limit, injection.baseline), (2, us(100)));
        injection.learn(us(160), true, 2, 3, 9);
        assert_eq!((injection.limit, injection.baseline, injection.decreased), (1, us(100), 9));
        // 1.5 times the baseline is too long; and the limit does not grow beyond the depth seen.
        injection.learn(us(150), true, 2, 3, 11);
        assert_eq!((injection.limit, injection.decreased), (0, 11));
        let mut deep = Injection { limit: 4, baseline: us(100), ..Injection::default() };
        deep.learn(us(120), true, 2, 3, 0);
        assert_eq!(deep.limit, 4);
        // Without injection and alone in the device: the baseline is updated.
        other.learn(us(110), false, 1, 3, 0);
        assert_eq!((other.limit, other.baseline), (1, us(110)));
        let mut later = other;
        other.learn(us(164), true, 2, 3, 0);
        later.learn(us(165), true, 2, 3, 0);
        assert_eq!((other.limit, later.limit), (2, 0));
        later.reset(5, true);
        assert_eq!((later.limit, later.baseline, later.decreased), (0, 0, 5));
        later.reset(5, false);
        assert_eq!(later.limit, 1);
    }
}
