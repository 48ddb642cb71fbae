//! A queue of a process: its requests, the next one to dispatch, and what is known of the process.

use super::Bfq;
use super::entity::EntityId;
use super::injection::Injection;
use super::raising::Raising;
use super::think_time::{IoBound, Seeks, ThinkTime};
use super::wf2q::Change;
use crate::sched::fifo::Fifo;
use crate::tree::Root;
use crate::units::{Instant, RequestId, Sector, TaskId};

/// A tick long before any other.
pub(super) const LONG_AGO: i64 = i64::MIN / 4;

/// A queue. Its key is its entity in the engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct BfqQueue {
    /// Requests by sector.
    pub(super) sorted: Root,
    /// Requests by arrival.
    pub(super) fifo: Fifo,
    /// The next request to dispatch.
    pub(super) next: Option<RequestId>,
    /// Requests queued.
    pub(super) queued: u32,
    /// Requests in the device.
    pub(super) dispatched: u32,
    pub(super) sync: bool,
    /// Priority level, 0 to 7.
    pub(super) level: u8,
    /// Budget set by feedback, in sectors.
    pub(super) max_budget: u64,
    /// In service: when the slot times out. Otherwise: when it became empty with nothing in
    /// flight. Ticks.
    pub(super) budget_timeout: i64,
    /// On an active tree or in service.
    pub(super) busy: bool,
    /// In service, empty, and the idle timer runs.
    pub(super) waiting: bool,
    /// It became empty before its time was up: if it becomes busy again in time, it continues with
    /// its rest.
    pub(super) non_blocking: bool,
    /// The oldest request was checked in this slot.
    pub(super) fifo_checked: bool,
    pub(super) short_think: bool,
    pub(super) in_large_burst: bool,
    /// Several processes use it.
    pub(super) shared: bool,
    /// The processes that share it are to be separated.
    pub(super) to_split: bool,
    pub(super) just_created: bool,
    /// Processes were merged into it for good because they were created together: none of those
    /// that share it leaves it, not even the first.
    pub(super) stable: bool,
    /// Processes that point to it.
    pub(super) processes: u32,
    /// Its process, if there is only one.
    pub(super) owner: Option<TaskId>,
    pub(super) think: ThinkTime,
    pub(super) io_bound: IoBound,
    pub(super) seeks: Seeks,
    /// End of the last request that arrived.
    pub(super) last_position: Sector,
    /// When it was created; ticks.
    pub(super) created: i64,
    /// Distinguishes it from a later queue with the same key.
    pub(super) serial: u64,
    /// First request of the backlog period; ticks.
    pub(super) first_io: i64,
    /// Last time its owner left a shared queue; ticks.
    pub(super) split_at: i64,
    pub(super) raising: Raising,
    pub(super) injection: Injection,
    pub(super) waker: super::cooperation::Waker,
    /// The queue that it was merged into. Processes that still share this one follow at their next
    /// request. Because that queue may be freed before, its serial number is checked.
    pub(super) merged_into: Option<(EntityId, u64)>,
    pub(super) counted: super::idling::Counted,
    /// Whether the key is in use.
    pub(super) live: bool,
}

impl BfqQueue {
    pub(super) fn new(now: Instant, tick: i64, sync: bool, level: u8) -> Self {
        Self {
            sorted: Root::EMPTY,
            fifo: Fifo::EMPTY,
            next: None,
            queued: 0,
            dispatched: 0,
            sync,
            level,
            max_budget: 0,
            budget_timeout: LONG_AGO,
            busy: false,
            waiting: false,
            non_blocking: false,
            fifo_checked: false,
            short_think: sync,
            in_large_burst: false,
            shared: false,
            to_split: false,
            just_created: sync,
            stable: false,
            processes: 0,
            owner: None,
            think: ThinkTime::new(now),
            io_bound: IoBound::new(now),
            seeks: Seeks::NEW,
            last_position: Sector::ZERO,
            created: tick,
            serial: 0,
            first_io: tick,
            split_at: LONG_AGO,
            raising: Raising::new(tick),
            injection: Injection::default(),
            waker: super::cooperation::Waker::default(),
            merged_into: None,
            counted: super::idling::Counted::default(),
            live: true,
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.queued == 0
    }
    pub(super) const fn is_seeky(&self) -> bool {
        self.seeks.is_seeky()
    }
}

/// The attributes of a request that a choice compares. Sync requests and others are never in one
/// queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) sector: u64,
    pub(super) meta: bool,
}

/// Returns true if the first of two requests of a queue goes before the second, seen from a
/// position. `reach`: how far back counts as near, in sectors; `penalty`: factor for backward
/// distances.
pub(super) fn goes_first(a: Candidate, b: Candidate, last: u64, reach: u64, penalty: u64) -> bool {
    if a.meta != b.meta {
        return a.meta;
    }
    let way = |sector: u64| match sector.checked_sub(last) {
        Some(ahead) => Some(ahead),
        None if last - sector <= reach => Some((last - sector) * penalty),
        None => None,
    };
    match (way(a.sector), way(b.sector)) {
        (Some(x), Some(y)) if x == y => a.sector >= b.sector,
        (Some(x), Some(y)) => x < y,
        (Some(_), None) => true,
        (None, Some(_)) => false,
        // Both are too far back: start again from the lowest.
        (None, None) => a.sector <= b.sector,
    }
}

impl Bfq {
    #[inline]
    pub(super) fn queue(&self, q: EntityId) -> &BfqQueue {
        &self.queues[q.index()]
    }
    #[inline]
    pub(super) fn queue_mut(&mut self, q: EntityId) -> &mut BfqQueue {
        &mut self.queues[q.index()]
    }

    fn candidate(&self, id: RequestId) -> Candidate {
        Candidate { sector: self.tree.key(id).get(), meta: self.slots[id.index()].meta }
    }

    /// Returns the better of two requests to dispatch next.
    #[inline]
    pub(super) fn choose(
        &self,
        a: Option<RequestId>,
        b: Option<RequestId>,
        last: Sector,
    ) -> Option<RequestId> {
        match (a, b) {
            (Some(a), Some(b)) => self.better(a, b, last),
            (only, None) | (None, only) => only,
        }
    }

    fn better(&self, a: RequestId, b: RequestId, last: Sector) -> Option<RequestId> {
        let reach = 2 * self.settings.back_seek_max_kib;
        let penalty = self.settings.back_seek_penalty;
        let first = goes_first(self.candidate(a), self.candidate(b), last.get(), reach, penalty);
        Some(if first { a } else { b })
    }

    /// Returns the oldest request if its deadline has passed; checked once per slot.
    fn expired_request(&mut self, q: EntityId) -> Option<RequestId> {
        let now = self.now;
        let queue = self.queue_mut(q);
        if core::mem::replace(&mut queue.fifo_checked, true) {
            return None;
        }
        let oldest = queue.fifo.first()?;
        (now >= self.slots[oldest.index()].deadline).then_some(oldest)
    }

    /// Returns the successor of a request that is about to be removed.
    #[inline(never)]
    fn successor(&mut self, q: EntityId, id: RequestId) -> Option<RequestId> {
        if let Some(expired) = self.expired_request(q).filter(|&expired| expired != id) {
            return Some(expired);
        }
        let sorted = self.queue(q).sorted;
        let next =
            self.tree.next(id).or_else(|| self.tree.first(sorted).filter(|&first| first != id));
        let prev = self.tree.prev(id);
        self.choose(next, prev, self.tree.key(id))
    }

    /// Removes a request from its queue.
    #[inline(always)]
    pub(super) fn remove_request(&mut self, q: EntityId, id: RequestId) {
        let queue = self.queue_mut(q);
        if queue.queued > 1 && queue.next == Some(id) {
            let next = self.successor(q, id);
            self.queue_mut(q).next = next;
            self.update_budget_for_next(q);
        }
        let queue = &mut self.queues[q.index()];
        self.tree.remove(&mut queue.sorted, id);
        self.elevator.remove(id);
        queue.queued -= 1;
        self.queued -= 1;
        if queue.is_empty() {
            // The only one is no longer to be looked for among those that are due.
            (queue.fifo, queue.next, queue.fifo_checked) = (Fifo::EMPTY, None, true);
            if queue.busy && self.service.queue != q.0 {
                self.leave_busy(q, false);
                (self.engine[q].budget, self.engine[q].service) = (0, 0);
            }
        } else {
            self.lists.remove(&mut queue.fifo, id);
        }
        self.refile_position(q);
    }

    /// Gives a waiting queue a budget that is enough for its next request.
    #[inline]
    pub(super) fn update_budget_for_next(&mut self, q: EntityId) {
        if !self.is_in_service(q) {
            self.update_waiting_budget(q);
        }
    }

    #[inline(never)]
    fn update_waiting_budget(&mut self, q: EntityId) {
        let Some(next) = self.queue(q).next else { return };
        let budget = self.queue(q).max_budget.max(self.charge(q, next)).max(self.engine[q].service);
        if self.engine[q].budget != budget {
            self.engine[q].budget = budget;
            self.engine.requeue(q, Change { expiration: false });
            self.recount(q);
        }
    }

    /// Returns the cost of a request for its queue, in sectors. Async writes cost three times as
    /// much, unless shares have to be exact.
    pub(super) fn charge(&self, q: EntityId, id: RequestId) -> u64 {
        let sectors = self.slots[id.index()].sectors;
        let cheap = self.queue(q).sync || self.engine[q].raise > 1 || self.is_asymmetric(q);
        if cheap { sectors } else { 3 * sectors }
    }

    /// Inserts a queue into its active tree.
    pub(super) fn enter_busy(&mut self, q: EntityId) {
        let back_shift = self.queue(q).non_blocking;
        self.engine.activate(q, back_shift);
        let queue = self.queue_mut(q);
        queue.non_blocking = false;
        queue.busy = true;
        self.recount(q);
    }

    /// Removes a queue from its tree.
    #[inline(never)]
    pub(super) fn leave_busy(&mut self, q: EntityId, expiration: bool) {
        let tick = self.tick;
        self.engine.deactivate(q, true, Change { expiration });
        let queue = self.queue_mut(q);
        queue.busy = false;
        if queue.dispatched == 0 {
            queue.budget_timeout = tick;
        }
        self.recount(q);
    }
}
