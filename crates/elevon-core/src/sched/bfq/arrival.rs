//! The arrival of a request: finds its queue, updates what is observed of its process, and decides
//! what a queue that becomes busy may do.

use super::budget::Reason;
use super::entity::{Class, EntityId};
use super::think_time::{Clock, is_seek};
use super::{Bfq, BfqQueue, RequestInfo, RequestState};
use crate::request::Request;
use crate::units::{Nanos, RequestId};

/// Time after a split in which observations are not used, and after which raising may start again.
const AFTER_SPLIT_MS: i64 = 2000;
/// Idle time that ends membership of a large burst.
const BURST_MEMORY_MS: i64 = 10_000;
/// Time after the last decrease from which a change of think time may reset the injection limit.
const RESET_REST_MS: i64 = 100;
/// A request of at most this many sectors does not stop the idle timer.
const MAX_SMALL_REQUEST_SECTORS: u64 = 32;

impl Bfq {
    /// Inserts a request of a process.
    pub(super) fn arrive(&mut self, request: &Request, id: RequestId, at_head: bool) {
        let task = request.task;
        let mut q = self.queue_for(request);
        let BfqQueue { just_created, sync, .. } = self.queues[q.index()];
        if just_created && (self.creation.burst.size > 0 || self.busy_queues() == 0) {
            self.join_burst(q);
        }
        let process = &mut self.processes[task.index()];
        process.outstanding += 1;
        let (is_only, may_merge) = (process.outstanding == 1, process.stable_target.is_some());
        if at_head {
            self.slots[id.index()] =
                RequestInfo::from_request(request, RequestState::AtHead, Some(q), self.now);
            self.engine.hold(q);
            self.lists.push_front(&mut self.at_head, id);
            return;
        }
        if sync && let Some(target) = self.cooperator(task, q, request.sector, may_merge) {
            self.merge_queues(task, q, target);
            q = target;
        }
        self.engine.hold(q);
        self.observe(q, request);
        if is_only && sync {
            self.detect_waker(q);
            self.prepare_measurement(q);
        }
        self.file(q, request, id);
        self.end_wait(q, request);
    }

    /// Returns how the time before a queue's first request counts.
    const fn clock(&self, request: &Request) -> Clock {
        if self.rules.bfq_clock_kept_in_plug && request.plugged { Clock::Kept } else { Clock::Read }
    }

    /// Updates think time, seeks, and whether the process is I/O-bound.
    #[inline(always)]
    fn observe(&mut self, q: EntityId, request: &Request) {
        let (now, idle) = (self.now, self.settings.slice_idle);
        let (rotational, clock) = (self.device.rotational, self.clock(request));
        let entity = &self.engine[q];
        let (is_idle_class, is_raised) = (entity.class == Class::Idle, entity.raise > 1);
        let queue = &mut self.queues[q.index()];
        queue.seeks.add(is_seek(
            queue.last_position,
            request.sector,
            request.sectors.get(),
            rotational,
        ));
        if queue.dispatched == 0 && !queue.busy {
            queue.think.on_arrival(now, idle, clock);
        }
        if queue.sync {
            let away = (queue.is_empty() && queue.dispatched == 0).then_some(queue.think.last_end);
            queue.io_bound.on_arrival(now, away, queue.just_created, clock);
            let short = !queue.think.exceeds(Nanos::new(idle.get() / 2));
            if short != queue.short_think && !is_idle_class && !idle.is_zero() {
                self.think_time_changes(q, short);
            }
        }
        if is_raised {
            self.demote_seeky(q);
        }
    }

    /// Notes that the think time of a queue became short or long, unless the queue left another
    /// one lately. It then learns its limit of injection again.
    #[cold]
    fn think_time_changes(&mut self, q: EntityId, short: bool) {
        let (tick, after_split) = (self.tick, self.ms(AFTER_SPLIT_MS));
        let queue = self.queue_mut(q);
        if tick <= queue.split_at.saturating_add(after_split) {
            return;
        }
        queue.short_think = short;
        let injection = queue.injection;
        let rested = tick >= injection.decreased.saturating_add(self.ms(RESET_REST_MS));
        if injection.baseline == 0 && (rested || !short) {
            self.reset_injection(q);
        }
    }

    /// Inserts a request into its queue, which may become busy or change its budget.
    fn file(&mut self, q: EntityId, request: &Request, id: RequestId) {
        let (tick, old_raise, last) = (self.tick, self.engine[q].raise, self.last.position);
        let queue = &mut self.queues[q.index()];
        let deadline = self.now + self.settings.fifo_expire[usize::from(queue.sync)];
        self.slots[id.index()] =
            RequestInfo::from_request(request, RequestState::Sorted, Some(q), deadline);
        self.tree.insert(&mut queue.sorted, request.sector, id);
        self.lists.push_back(&mut queue.fifo, id);
        queue.queued += 1;
        queue.last_position = request.end();
        self.queued += 1;
        let (before, busy, sync) = (queue.next, queue.busy, queue.sync);
        let next = self.choose(before, Some(id), last);
        if before != next {
            self.queue_mut(q).next = next;
            self.refile_position(q);
        }
        let mut interactive = false;
        if busy {
            if !sync && self.raise_async(q) {
                self.update_raise_now(q);
            }
            if before != next {
                self.update_budget_for_next(q);
            }
        } else {
            interactive = self.turn_busy(q, id);
        }
        if self.settings.low_latency && (old_raise == 1 || self.engine[q].raise == 1 || interactive)
        {
            self.queues[q.index()].raising.since = tick;
        }
    }

    /// Applies a new weight to a queue that waits in its tree, by inserting it again.
    #[inline(never)]
    fn update_raise_now(&mut self, q: EntityId) {
        if !self.is_in_service(q) {
            self.engine.requeue(q, super::wf2q::Change { expiration: false });
            self.recount(q);
        }
    }

    /// Makes an idle queue busy. Returns whether it looks interactive.
    #[inline(never)]
    fn turn_busy(&mut self, q: EntityId, id: RequestId) -> bool {
        let (now, tick) = (self.now, self.tick);
        let looks = self.looks(q);
        let deserves = self.deserves_raising(q, looks);
        let queue = self.queue(q);
        let (idle_since, max_budget, just_created) =
            (queue.budget_timeout, queue.max_budget, queue.just_created);
        let recently_split = tick <= queue.split_at.saturating_add(self.ms(AFTER_SPLIT_MS));
        let in_time = now <= queue.think.last_end + Nanos::new(3 * self.settings.slice_idle.get());
        let left = self.engine[q].budget_left();
        let charge = self.charge(q, id);
        let resumes = queue.non_blocking && in_time && left > 0;
        let entity = &mut self.engine[q];
        entity.service = 0;
        entity.budget = if resumes { left.min(max_budget) } else { max_budget.max(charge) };
        self.queue_mut(q).non_blocking = resumes;
        if tick > idle_since.saturating_add(self.ms(BURST_MEMORY_MS)) && !just_created {
            self.leave_burst(q);
            self.queue_mut(q).in_large_burst = false;
        }
        self.queue_mut(q).just_created = false;
        if self.settings.low_latency && !recently_split {
            self.raise_on_arrival(q, deserves, looks);
        }
        let raising = &mut self.queue_mut(q).raising;
        (raising.backlogged_at, raising.backlogged_service, raising.soft_rt_pending) =
            (tick, 0, false);
        self.enter_busy(q);
        if let Some(serving) = self.in_service().filter(|&serving| serving != q)
            && self.engine.next_is_another()
            && self.may_preempt(q, serving, resumes)
        {
            self.expire(serving, false, Reason::Preempted);
        }
        looks.interactive
    }

    fn may_preempt(&self, q: EntityId, serving: EntityId, wants: bool) -> bool {
        let (mut a, mut b) = (self.engine[q], self.engine[serving]);
        let raised_enough = a.raise >= b.raise;
        let higher_class = a.class < b.class;
        if a.group != b.group {
            a = self.engine.parent(q).map_or(a, |parent| self.engine[parent]);
            b = self.engine.parent(serving).map_or(b, |parent| self.engine[parent]);
        }
        (wants && raised_enough)
            || higher_class
            || a.weight > b.weight
            || !self.is_better_to_idle(serving)
    }

    /// Ends the wait for the queue in service: its request has arrived.
    fn end_wait(&mut self, q: EntityId, request: &Request) {
        let queue = self.queue(q);
        if !self.is_in_service(q) || !queue.waiting {
            return;
        }
        let timed_out = self.slot_timed_out(q);
        let small = queue.queued == 1 && request.sectors.get() < MAX_SMALL_REQUEST_SECTORS;
        if small && self.idling_boosts(q) && !timed_out {
            return;
        }
        self.stop_waiting(q);
        if timed_out {
            self.expire(q, false, Reason::Timeout);
        }
    }
}
