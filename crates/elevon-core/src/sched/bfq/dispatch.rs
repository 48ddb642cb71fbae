//! Dispatch of the next request, and the handling of completions.

use super::budget::Reason;
use super::entity::{Class, EntityId};
use super::think_time::is_seek;
use super::{Bfq, RequestState};
use crate::units::RequestId;

impl Bfq {
    /// Returns the next request, if there is one and it is not better to wait.
    pub(super) fn next_request(&mut self) -> Option<RequestId> {
        if let Some(id) = self.lists.pop_front(&mut self.at_head) {
            self.slots[id.index()].state = RequestState::InDevice;
            if let Some(q) = self.slots[id.index()].queue {
                self.queue_mut(q).dispatched += 1;
                self.in_flight += 1;
                self.recount(q);
            }
            return Some(id);
        }
        if self.busy_queues() == 0 || (self.settings.strict && self.in_flight > 0) {
            return None;
        }
        let (q, id, charge) = self.select()?;
        Some(self.dispatch_from(q, id, charge))
    }

    /// Returns the queue to serve, with its next request and what that is charged: the one in
    /// service if it may continue, another one to inject while it is waited for, or the next one.
    #[inline(always)]
    fn select(&mut self) -> Option<(EntityId, RequestId, u64)> {
        if let Some(q) = self.in_service()
            && self.ends_by_timeout(q)
            && !(self.queue(q).is_empty() && self.is_better_to_idle(q))
        {
            self.expire(q, false, Reason::Timeout);
        }
        loop {
            let q = match self.in_service() {
                Some(q) => q,
                None => self.enter_service()?,
            };
            let queue = self.queue(q);
            if let Some(next) = queue.next {
                let charge = self.charge(q, next);
                if charge <= self.engine[q].budget_left() {
                    if queue.waiting {
                        self.stop_waiting(q);
                    }
                    return Some((q, next, charge));
                }
                self.expire(q, false, Reason::Exhausted);
            } else if queue.waiting || (queue.dispatched > 0 && self.is_better_to_idle(q)) {
                let other = self.choose_for_injection(q)?;
                let next = self.queue(other).next?;
                return Some((other, next, self.charge(other, next)));
            } else {
                self.expire(q, false, Reason::NoMoreRequests);
            }
        }
    }

    /// Puts the next queue into service.
    #[inline(never)]
    fn enter_service(&mut self) -> Option<EntityId> {
        let q = self.engine.serve_next()?;
        self.budgets.on_selection();
        self.extend_soft_rt(q);
        let entity = &self.engine[q];
        let stretch = if self.queue(q).raising.soft_rt {
            1
        } else {
            (entity.weight / entity.orig_weight).max(1)
        };
        let timeout = self.tick + self.settings.timeout * stretch as i64;
        let queue = self.queue_mut(q);
        queue.fifo_checked = false;
        queue.waiting = false;
        queue.budget_timeout = timeout;
        self.service.queue = q.0;
        self.service.slot_start = self.now;
        self.service.position = crate::units::Sector::ZERO;
        Some(q)
    }

    /// Charges a queue for its next request and removes the request from it.
    #[inline(always)]
    fn dispatch_from(&mut self, q: EntityId, id: RequestId, charge: u64) -> RequestId {
        let in_service = self.is_in_service(q);
        if in_service && core::mem::take(&mut self.injection.measuring) {
            self.injection.waited = Some(id);
        }
        let is_raised = self.serve(q, charge);
        let slot = &mut self.slots[id.index()];
        slot.state = RequestState::InDevice;
        let sectors = slot.sectors;
        self.sample_rate(id, sectors, in_service);
        self.remove_request(q, id);
        self.in_flight += 1;
        debug_assert!(self.is_counted(q), "a queue that has a request is counted otherwise");
        if in_service {
            if is_raised {
                self.check_raising(q);
            }
            if self.busy_queues() > 1 && self.engine[q].class == Class::Idle {
                self.expire(q, false, Reason::Exhausted);
            }
        } else {
            self.on_injected(q, charge);
        }
        id
    }

    /// Counts a request that a queue gives to the device, and charges the queue for it. The counts
    /// of queues stay the same, because a queue with requests is busy. Returns true if the queue
    /// is raised, or its weight still is.
    fn serve(&mut self, q: EntityId, sectors: u64) -> bool {
        let entity = &self.engine[q];
        let (tick, raised, is_heavy) =
            (self.tick, entity.raise > 1, entity.weight > entity.orig_weight);
        let queue = self.queue_mut(q);
        queue.dispatched += 1;
        if queue.raising.backlogged_service == 0 {
            queue.first_io = tick;
        }
        queue.raising.backlogged_service += sectors;
        if raised {
            queue.raising.service += sectors;
        }
        self.engine.serve(q, sectors);
        raised || is_heavy
    }

    /// Measures the device's rate with a dispatched request.
    fn sample_rate(&mut self, id: RequestId, sectors: u64, in_service: bool) {
        let start = self.tree.key(id);
        let seeky = is_seek(self.last.position, start, sectors, self.device.rotational);
        if self.device.peak.on_dispatch(
            self.now,
            sectors,
            seeky,
            self.in_flight,
            self.last.completion,
        ) {
            self.update_max_budget();
        }
        self.last.position = start + crate::units::Sectors::new(sectors);
        if in_service {
            self.service.position = self.last.position;
        }
    }

    /// Handles a request of a queue that has completed, or that the driver gave back.
    pub(super) fn complete(&mut self, q: EntityId, id: RequestId) {
        self.measure(q, id);
        self.watch_queueing();
        let (now, tick) = (self.now, self.tick);
        self.in_flight -= 1;
        let queue = &mut self.queues[q.index()];
        queue.dispatched -= 1;
        queue.think.last_end = now;
        let (shared, leaves) = (queue.shared, queue.dispatched == 0 && !queue.busy);
        let may_be_soft_rt =
            queue.raising.soft_rt_pending && queue.dispatched == 0 && queue.is_empty();
        if leaves {
            queue.budget_timeout = tick;
            self.recount(q);
        }
        debug_assert!(
            self.is_counted(q),
            "a queue with requests in the device is counted otherwise"
        );
        if self.device.peak.on_completion(now, self.last.completion) {
            self.update_max_budget();
        }
        self.last.completion = Some(now);
        self.last.completed = (!shared).then_some(q);
        if may_be_soft_rt {
            let is_interactive = self.engine[q].raise > 1 && !self.queue(q).raising.soft_rt;
            if !is_interactive {
                self.set_next_soft_rt(q);
            }
        }
        if self.is_in_service(q) && self.goes_on_waiting(q) {
            return;
        }
        if self.in_flight == 0 && self.queued > 0 {
            self.service.kick = now;
        }
    }

    /// Handles a completion for the queue in service. Returns true if the scheduler waits for its
    /// next request.
    fn goes_on_waiting(&mut self, q: EntityId) -> bool {
        let queue = self.queue(q);
        let (empty, dispatched) = (queue.is_empty(), queue.dispatched);
        let worth = empty && self.is_better_to_idle(q);
        if worth {
            if dispatched == 0 {
                self.wait_for_request(q);
            }
        } else if self.ends_by_timeout(q) {
            self.expire(q, false, Reason::Timeout);
        } else if empty {
            self.expire(q, false, Reason::NoMoreRequests);
        }
        worth
    }

    fn watch_queueing(&mut self) {
        let (queues, in_service) = (&self.queues, self.in_service());
        let is_held_back = || {
            in_service.is_some_and(|q| {
                let queue = &queues[q.index()];
                queue.short_think && queue.dispatched + queue.queued < 3
            })
        };
        let seed_rules = self.settings.inject == super::injection::Inject::Seed;
        if self.device.queueing.on_completion(self.in_flight, self.queued, is_held_back, seed_rules)
        {
            self.update_queueing_flash();
        }
    }
}
