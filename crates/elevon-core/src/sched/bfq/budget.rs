//! Budgets: how much a queue may be served in a slot, how much the slot is charged, and how the end
//! of a slot changes the next budget.
//!
//! Queues that use the device well are charged by sectors. Slow queues are charged by the time that
//! they held the device, so that time is shared: if only sectors were shared, one seeking process
//! would take the device from all others.

use super::Bfq;
use super::entity::{EntityId, NIL};
use super::injection::Inject;
use super::wf2q::Change;
use crate::units::Instant;

/// Largest budget before the peak rate is known, in sectors.
pub(super) const DEFAULT_MAX_BUDGET: u64 = 16384;
/// Number of selections (as a decaying count) from which measured budgets are used.
const TRUSTED: u64 = 194;
/// Time charged for a slot too short to measure, in milliseconds.
const SHORTEST_FLASH_MS: u64 = 2;
const SHORTEST_DISK_MS: u64 = 8;

/// Why a slot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The idle timer expired without a request.
    TooIdle,
    /// The time of the slot was up.
    Timeout,
    /// Its next request does not fit the budget.
    Exhausted,
    /// The queue is empty, and it is not worth waiting for it.
    NoMoreRequests,
    /// A more urgent queue became busy.
    Preempted,
}

/// The largest and the smallest budget in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budgets {
    /// Decaying count of selections; it converges to 194.
    pub(super) assigned: u64,
    /// Largest budget in force: measured or set.
    pub(super) measured: u64,
}

impl Budgets {
    pub(super) const fn new() -> Self {
        Self { assigned: 0, measured: DEFAULT_MAX_BUDGET }
    }
    pub(super) const fn on_selection(&mut self) {
        self.assigned = (7 * self.assigned + 256) / 8;
    }
    const fn trusted(&self) -> bool {
        self.assigned >= TRUSTED
    }
    pub(super) const fn max(&self) -> u64 {
        if self.trusted() { self.measured } else { DEFAULT_MAX_BUDGET }
    }
    pub(super) const fn min(&self) -> u64 {
        self.max() / 32
    }
}

/// Returns the next budget of a sync queue that is not raised; `None` if it does not change. `m`
/// and `most`: smallest and largest.
const fn feedback(
    reason: Reason,
    budget: u64,
    service: u64,
    in_device: bool,
    m: u64,
    most: u64,
) -> Option<u64> {
    Some(match reason {
        Reason::TooIdle if in_device => min(2 * budget, most),
        Reason::TooIdle if budget > 5 * m => budget - 4 * m,
        Reason::TooIdle => m,
        Reason::Timeout => min(2 * budget, most),
        Reason::Exhausted => min(4 * budget, most),
        Reason::NoMoreRequests if service > m => service,
        Reason::NoMoreRequests => m,
        Reason::Preempted => return None,
    })
}

const fn min(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}

/// Returns whether a slot was slow, and the time to charge for it in milliseconds. `span_ns`: its
/// length.
const fn slowness(
    span_ns: u64,
    seeky: bool,
    rotational: bool,
    service: u64,
    max_measured: u64,
) -> (bool, u64) {
    let ms = span_ns / 1_000_000;
    match ms {
        0 => (seeky, if rotational { SHORTEST_DISK_MS } else { SHORTEST_FLASH_MS }),
        1..20 => (seeky, ms),
        20 if span_ns == 20_000_000 => (seeky, ms),
        _ => (service < max_measured / 2, ms),
    }
}

impl Bfq {
    /// Follows the measured peak rate, unless the user has set a largest budget.
    #[inline(never)]
    pub(super) fn update_max_budget(&mut self) {
        let timeout_ms = (self.settings.timeout * 1000 / self.hz.0 as i64) as u64;
        self.budgets.measured = match self.settings.max_budget {
            0 => self.device.peak.sectors_in(timeout_ms),
            set => set,
        };
    }

    /// Returns true if the slot of the queue in service has timed out.
    pub(super) fn slot_timed_out(&self, q: EntityId) -> bool {
        self.tick >= self.queue(q).budget_timeout
    }

    /// Returns true if the slot is to end because of its timeout. It is not ended while the queue
    /// is waited for with little of its budget left.
    pub(super) fn ends_by_timeout(&self, q: EntityId) -> bool {
        let keeps_waiting = || {
            let entity = &self.engine[q];
            self.queue(q).waiting && entity.budget_left() < entity.budget / 3
        };
        self.slot_timed_out(q) && !keeps_waiting()
    }

    /// Ends the slot of the queue in service. `compensate`: the time since idling began is not
    /// charged to it.
    #[inline(never)]
    pub(super) fn expire(&mut self, q: EntityId, compensate: bool, reason: Reason) {
        debug_assert_eq!(self.in_service(), Some(q));
        self.charge_time(q, compensate, reason);
        let tick = self.tick;
        if self.settings.low_latency {
            let raised = self.engine[q].raise > 1;
            let queue = self.queue_mut(q);
            if !raised {
                queue.raising.since = tick;
            }
            if queue.is_empty() {
                queue.raising.soft_rt_pending = queue.dispatched > 0;
                if queue.dispatched == 0 {
                    self.set_next_soft_rt(q);
                }
            }
        }
        self.injection.injected = false;
        self.injection.measuring = false;
        self.injection.waited = None;
        self.queue_mut(q).injection.service = 0;
        self.recalculate_budget(q, reason);
        self.leave_service(q, reason);
        let queue = self.queue_mut(q);
        if !queue.busy && reason != Reason::Timeout && reason != Reason::Exhausted {
            // The rest of the budget can be used if the queue becomes busy again in time.
            queue.non_blocking = true;
        } else {
            self.engine[q].service = 0;
        }
        self.release_if_unused(q);
    }

    /// Charges slow slots, and those ended by timeout, for the time that they took.
    pub(super) fn charge_time(&mut self, q: EntityId, compensate: bool, reason: Reason) {
        let end = if compensate { self.service.idling_since } else { self.now };
        let span = end.since(self.service.slot_start).get();
        let (queue, entity) = (self.queue(q), self.engine[q]);
        let measured = self.budgets.measured;
        let (slow, ms) = if queue.sync {
            slowness(span, queue.is_seeky(), self.device.rotational, entity.service, measured)
        } else {
            (false, 0)
        };
        let cut_off = reason == Reason::Timeout && entity.budget_left() >= entity.budget / 3;
        // If injection is by weight, the device's time in a slot is shared by all queues.
        let by_sectors = self.settings.inject == Inject::Fair && self.is_queueing_flash();
        if entity.raise != 1 || !(slow || cut_off) || by_sectors {
            return;
        }
        let timeout_ms = self.hz.0 / 8 * 1000 / self.hz.0;
        let total = (measured * ms.min(timeout_ms) / timeout_ms).max(entity.service);
        let entity = &mut self.engine[q];
        entity.budget = entity.budget.max(total);
        let extra = total - entity.service;
        self.engine.serve(q, extra);
    }

    /// Computes the next budget from the reason why the slot ended.
    fn recalculate_budget(&mut self, q: EntityId, reason: Reason) {
        let (m, most) = (self.budgets.min(), self.budgets.measured);
        let (queue, service) = (self.queue(q), self.engine[q].service);
        let new = if !queue.sync {
            Some(most)
        } else if self.engine[q].raise > 1 {
            Some(2 * m)
        } else {
            feedback(reason, queue.max_budget, service, queue.dispatched > 0, m, most)
        };
        let Some(mut budget) = new else { return };
        if self.budgets.trusted() && self.settings.max_budget == 0 {
            budget = budget.min(most);
        }
        self.queue_mut(q).max_budget = budget;
        if let Some(next) = self.queue(q).next {
            self.engine[q].budget = budget.max(self.charge(q, next));
        }
    }

    /// Removes the queue from service; it goes back to its tree if it has more requests.
    pub(super) fn leave_service(&mut self, q: EntityId, reason: Reason) {
        let queue = self.queue_mut(q);
        if queue.shared && queue.is_seeky() {
            queue.to_split = true;
        }
        let stays_busy =
            !self.queue(q).is_empty() || (reason == Reason::Preempted && self.idling_needed(q));
        if stays_busy {
            self.engine.requeue(q, Change { expiration: true });
            self.recount(q);
            self.refile_position(q);
        } else {
            self.leave_busy(q, true);
        }
        self.queue_mut(q).waiting = false;
        self.service.timer = Instant::MAX;
        self.service.queue = NIL;
        self.engine.end_service(q);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_by_the_way_a_slot_ended() {
        use Reason::*;
        let next = |reason, b, service| feedback(reason, b, service, false, 512, 16384);
        assert_eq!(next(Exhausted, 10922, 0), Some(16384));
        assert_eq!(next(Timeout, 10922, 0), Some(16384));
        assert_eq!(next(Preempted, 10922, 0), None);
        assert_eq!(next(NoMoreRequests, 10922, 400), Some(512));
        assert_eq!(next(NoMoreRequests, 10922, 3000), Some(3000));
        let mut budget = 16384;
        for expected in [14336, 12288, 10240, 8192, 6144, 4096, 2048, 512, 512] {
            budget = next(TooIdle, budget, 0).unwrap();
            assert_eq!(budget, expected);
        }
        assert_eq!(feedback(TooIdle, 4096, 0, true, 512, 16384), Some(8192));
    }

    #[test]
    fn measured_budgets_count_from_the_eleventh_selection() {
        let mut budgets = Budgets { measured: 40000, ..Budgets::new() };
        for (n, assigned) in
            [32, 60, 84, 105, 123, 139, 153, 165, 176, 186, 194, 201, 207].into_iter().enumerate()
        {
            budgets.on_selection();
            assert_eq!(budgets.assigned, assigned);
            assert_eq!(budgets.max(), if n >= 10 { 40000 } else { 16384 });
            assert_eq!(budgets.min(), budgets.max() / 32);
        }
    }

    #[test]
    fn what_makes_a_slot_slow() {
        for (us, seeky, rotational, service, expected) in [
            (400, true, false, 8, (true, 2)),
            (400, true, true, 8, (true, 8)),
            (10_900, true, false, 488, (true, 10)),
            (10_000, false, false, 8, (false, 10)),
            (30_000, false, false, 9000, (false, 30)),
            (30_000, false, false, 8000, (true, 30)),
            (125_000, false, false, 9000, (false, 125)),
            (125_000, true, false, 6104, (true, 125)),
        ] {
            assert_eq!(slowness(us * 1000, seeky, rotational, service, 16384), expected, "{us} us");
        }
    }
}
