//! Cooperating processes: queues are merged if their requests interleave or if they were created
//! together, and split again; and queues that wake each other are detected.
//!
//! Merging by position is for devices that are faster with sequential I/O. Merging by creation time
//! (*stable*) saves the scheduler work for the many equal processes of one job. A *waker* is a
//! queue for whose completions this queue seems to wait: it is served while this one is waited for.

extern crate alloc;
use alloc::boxed::Box;

use super::Bfq;
use super::entity::{Class, EntityId};
use super::injection::Injection;
use super::queue::LONG_AGO;
use super::raising::Raising;
use super::think_time::{IoBound, ThinkTime};
use crate::units::{Instant, Nanos, Sector, TaskId};

/// Distance within which requests are close, in sectors.
const CLOSE: u64 = 8192;
/// A queue that was served is not merged after this time.
const MERGE_LIMIT_MS: i64 = 100;
/// Queues created within this time may be merged for good.
const BURST_MS: i64 = 180;
/// A queue is the reference for stable merges for this time; late merges wait as long.
const STABLE_MS: i64 = 600;
/// A wake-up follows a completion within this time.
const WAKE: Nanos = Nanos::from_millis(4);
/// Number of wake-ups in a row that make a queue a waker.
const WAKES: u32 = 3;

/// The waker of a queue, and the list of the queues that it wakes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waker {
    pub(super) waker: Option<EntityId>,
    tentative: Option<EntityId>,
    wakes: u32,
    since: Instant,
    /// The first of the queues that it wakes, and its successor in the list that contains it.
    woken: Option<EntityId>,
    next: Option<EntityId>,
}

/// The state of a process's queue that is saved at a merge and restored after a split.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    raise: u64,
    raising: Raising,
    injection: Injection,
    io_bound: IoBound,
    think: ThinkTime,
    short_think: bool,
    in_large_burst: bool,
}

impl Bfq {
    /// Returns the queue that should serve a request of `q` instead, if any. `may_merge`: there is
    /// one to merge into when `q` is old enough.
    pub(super) fn cooperator(
        &mut self,
        task: TaskId,
        q: EntityId,
        sector: Sector,
        may_merge: bool,
    ) -> Option<EntityId> {
        if let Some(target) = self.queue(q).merged_into.and_then(|target| self.unless_freed(target))
        {
            return (self.queue(target).processes > 0).then_some(target);
        }
        if may_merge && let Some(target) = self.late_stable_merge(task, q) {
            return Some(target);
        }
        // A seeky queue is never merged, so no search is needed.
        if self.queue(q).is_seeky() || self.is_queueing_flash() {
            return None;
        }
        self.near(q, sector)
    }

    /// Returns the queue with a key and a serial number; `None` if it was freed. Another queue may
    /// have its key then.
    fn unless_freed(&self, (q, serial): (EntityId, u64)) -> Option<EntityId> {
        let queue = self.queue(q);
        (queue.live && queue.serial == serial).then_some(q)
    }

    /// Returns the queue that has, or had, a request near a sector of `q`, if the two may be
    /// merged.
    #[inline(never)]
    fn near(&mut self, q: EntityId, sector: Sector) -> Option<EntityId> {
        if self.is_late(q) || self.busy_queues() == 1 {
            return None;
        }
        let close = |position: Sector| position.get().abs_diff(sector.get()) <= CLOSE;
        if let Some(serving) = self.in_service().filter(|&s| s != q)
            && close(self.service.position)
            && self.may_cooperate(q, serving)
        {
            return Some(serving);
        }
        let around = self.positions.around(self.engine[q].group, sector);
        let is_near = |&(other, position): &(EntityId, Sector)| {
            other != q && close(position) && self.may_cooperate(q, other)
        };
        around.into_iter().flatten().find(is_near).map(|(other, _)| other)
    }

    fn is_late(&self, q: EntityId) -> bool {
        let queue = self.queue(q);
        queue.raising.backlogged_service > 0
            && self.tick > queue.first_io.saturating_add(self.ms(MERGE_LIMIT_MS))
    }

    fn may_cooperate(&self, a: EntityId, b: EntityId) -> bool {
        let (x, y) = (self.queue(a), self.queue(b));
        let (e, f) = (&self.engine[a], &self.engine[b]);
        let alike =
            e.group == f.group && e.class == f.class && e.class != Class::Idle && x.sync && y.sync;
        alike
            && !x.is_seeky()
            && !y.is_seeky()
            && !self.is_late(b)
            && x.processes > 0
            && y.processes > 0
    }

    /// Files a queue under the position of its next request. If another queue has this position
    /// already, it is not filed.
    #[inline]
    pub(super) fn refile_position(&mut self, q: EntityId) {
        if !self.is_queueing_flash() || self.positions.get(q).is_some() {
            self.move_position(q);
        }
    }

    #[inline(never)]
    fn move_position(&mut self, q: EntityId) {
        let next = self.queue(q).next.filter(|_| !self.is_queueing_flash());
        let sector =
            next.filter(|_| self.engine[q].class != Class::Idle).map(|next| self.tree.key(next));
        let before = self.positions.get(q);
        if before == sector {
            return;
        }
        if before.is_some() {
            self.positions.remove(q);
        }
        if let Some(sector) = sector {
            self.positions.insert(q, self.engine[q].group, sector);
        }
    }

    /// Moves the process of `q` to the queue `target`; the requests that `q` still has are served
    /// from `q`.
    #[inline(never)]
    pub(super) fn merge_queues(&mut self, task: TaskId, q: EntityId, target: EntityId) {
        let queue = *self.queue(q);
        let raise = self.engine[q].raise;
        let process = &mut self.processes[task.index()];
        process.saved = Some(Box::new(Saved {
            raise,
            raising: queue.raising,
            injection: queue.injection,
            io_bound: queue.io_bound,
            think: queue.think,
            short_think: queue.short_think,
            in_large_burst: queue.in_large_burst,
        }));
        process.sync = Some(target);
        let into = self.queue_mut(target);
        into.io_bound.is_bound |= queue.io_bound.is_bound;
        into.processes += 1;
        into.shared = true;
        into.owner = None;
        if into.waker.waker.is_none() && queue.waker.waker.is_some_and(|waker| waker != target) {
            self.set_waker(target, queue.waker.waker);
        }
        if raise > 1 && self.engine[target].raise == 1 {
            self.queue_mut(target).raising = queue.raising;
            self.set_raise(target, raise);
            self.set_raise(q, 1);
        }
        let serial = self.queue(target).serial;
        let queue = self.queue_mut(q);
        queue.processes -= 1;
        queue.owner = None;
        queue.merged_into = Some((target, serial));
        self.leave_if_abandoned(q);
    }

    /// Removes a queue from its tree if no process uses it and it is empty.
    pub(super) fn leave_if_abandoned(&mut self, q: EntityId) {
        let queue = self.queue(q);
        if queue.processes == 0 && queue.busy && queue.is_empty() && !self.is_in_service(q) {
            self.leave_busy(q, false);
        }
        self.release_if_unused(q);
    }

    /// Moves a process out of a shared queue that became seeky. Returns its queue after that, if
    /// any.
    pub(super) fn split(&mut self, task: TaskId, q: EntityId) -> Option<EntityId> {
        let queue = self.queue_mut(q);
        if queue.processes == 1 {
            (queue.shared, queue.to_split, queue.owner) = (false, false, Some(task));
            self.restore(task, q);
            return Some(q);
        }
        queue.processes -= 1;
        self.processes[task.index()].sync = None;
        None
    }

    /// Restores the state that a process's queue had before it was merged.
    pub(super) fn restore(&mut self, task: TaskId, q: EntityId) {
        let tick = self.tick;
        self.queue_mut(q).split_at = tick;
        let Some(saved) = self.processes[task.index()].saved.take() else { return };
        let queue = self.queue_mut(q);
        queue.injection = saved.injection;
        (queue.io_bound, queue.think) = (saved.io_bound, saved.think);
        (queue.short_think, queue.in_large_burst) = (saved.short_think, saved.in_large_burst);
        queue.raising = saved.raising;
        let over = tick > saved.raising.since.saturating_add(saved.raising.period);
        let raise = if over || saved.in_large_burst { 1 } else { saved.raise };
        self.set_raise(q, raise);
    }

    /// Merges a new queue with that of the process created just before, if possible. Returns the
    /// queue to use.
    pub(super) fn stable_merge_at_birth(&mut self, task: TaskId, q: EntityId) -> EntityId {
        let Some(last) =
            self.creation.last.filter(|&last| self.queue(last).live && self.is_twin(q, last))
        else {
            self.creation.last = Some(q);
            return q;
        };
        let age = self.queue(q).created - self.queue(last).created;
        if age > self.ms(STABLE_MS) {
            self.creation.last = Some(q);
        } else if age <= self.ms(BURST_MS) {
            if self.is_queueing_flash() {
                self.merge_for_good(task, q, last);
                return last;
            }
            self.processes[task.index()].stable_target = Some((last, self.queue(last).serial));
        }
        q
    }

    fn is_twin(&self, a: EntityId, b: EntityId) -> bool {
        let (e, f) = (&self.engine[a], &self.engine[b]);
        a != b
            && e.group == f.group
            && e.new_class == f.new_class
            && self.queue(a).level == self.queue(b).level
            && self.queue(b).processes > 0
    }

    #[inline(never)]
    fn late_stable_merge(&mut self, task: TaskId, q: EntityId) -> Option<EntityId> {
        let target = self.processes[task.index()].stable_target?;
        let (queue, wait) = (self.queue(q), self.ms(STABLE_MS));
        let ripe = |since: i64| self.tick > since.saturating_add(wait);
        if queue.just_created || !ripe(queue.split_at) || !ripe(queue.created) {
            return None;
        }
        self.processes[task.index()].stable_target = None;
        let target = self.unless_freed(target).filter(|&target| self.is_twin(q, target))?;
        if self.idling_boosts(q) || self.queue(q).processes == 0 {
            return None;
        }
        self.queue_mut(target).stable = true;
        Some(target)
    }

    fn merge_for_good(&mut self, task: TaskId, q: EntityId, target: EntityId) {
        self.queue_mut(target).stable = true;
        self.merge_queues(task, q, target);
    }

    /// Checks if a process's only request, which arrives now, was caused by a completion of another
    /// queue.
    pub(super) fn detect_waker(&mut self, q: EntityId) {
        if let Some(last) = self.last.completed.filter(|&last| last != q) {
            self.consider_waker(q, last);
        }
    }

    /// Checks if the only request of `q`, which arrives now, was caused by a completion of `last`.
    #[inline(never)]
    fn consider_waker(&mut self, q: EntityId, last: EntityId) {
        let queue = self.queue(q);
        if !self.queue(last).live {
            return;
        }
        let late = self.last.completion.is_none_or(|last| self.now.since(last) >= WAKE);
        if queue.short_think || queue.waker.waker == Some(last) || late || self.queue(last).shared {
            return;
        }
        let (now, window) = (self.now, Nanos::new(128 * self.settings.slice_idle.get()));
        let waker = &mut self.queue_mut(q).waker;
        if waker.tentative != Some(last) || now.since(waker.since) > window {
            (waker.tentative, waker.wakes, waker.since) = (Some(last), 1, now);
            return;
        }
        waker.wakes += 1;
        if waker.wakes == WAKES {
            waker.tentative = None;
            self.set_waker(q, Some(last));
        }
    }

    /// Returns the first queue that this one wakes.
    pub(super) fn first_woken(&self, q: EntityId) -> Option<EntityId> {
        self.queue(q).waker.woken
    }

    fn set_waker(&mut self, q: EntityId, waker: Option<EntityId>) {
        if let Some(old) = self.queue(q).waker.waker {
            // A linear walk: a queue wakes few others.
            let after = self.queue(q).waker.next;
            let mut at = old;
            let mut link = self.queue(old).waker.woken;
            while let Some(woken) = link.filter(|&woken| woken != q) {
                (at, link) = (woken, self.queue(woken).waker.next);
            }
            let holder = &mut self.queue_mut(at).waker;
            *(if at == old { &mut holder.woken } else { &mut holder.next }) = after;
        }
        let next = waker.and_then(|waker| self.queue_mut(waker).waker.woken.replace(q));
        let own = &mut self.queue_mut(q).waker;
        (own.waker, own.next) = (waker, next);
    }

    /// Removes all links between a queue that is to be freed and its waker or the queues that it
    /// wakes.
    pub(super) fn forget_wakers(&mut self, q: EntityId) {
        self.set_waker(q, None);
        let mut at = self.queue(q).waker.woken;
        while let Some(woken) = at {
            let waker = &mut self.queue_mut(woken).waker;
            waker.waker = None;
            at = waker.next.take();
        }
        if self.last.completed == Some(q) {
            self.last.completed = None;
        }
    }
}

/// Queues created in a burst, by a job of many processes: raising their weight would only do harm.
#[derive(Clone, Debug)]
pub(super) struct Burst {
    members: [EntityId; 8],
    listed: usize,
    pub(super) size: u32,
    large: bool,
    last: i64,
    group: super::entity::GroupId,
}

/// Number of members that make a burst large.
const MIN_LARGE_BURST: u32 = 8;
/// A queue that has just left a shared one is not new for this time.
const AFTER_SPLIT_MS: i64 = 10;

impl Burst {
    pub(super) const fn new() -> Self {
        let (nobody, group) = (EntityId(u32::MAX), super::entity::GroupId::ROOT);
        Self { members: [nobody; 8], listed: 0, size: 0, large: false, last: LONG_AGO, group }
    }
}

impl Bfq {
    /// Handles the first request of a new queue: checks if the queue is part of a burst.
    #[inline(never)]
    pub(super) fn join_burst(&mut self, q: EntityId) {
        let queue = self.queue(q);
        let listed = self.creation.burst.members[..self.creation.burst.listed].contains(&q);
        let split = self.tick <= queue.split_at.saturating_add(self.ms(AFTER_SPLIT_MS));
        if listed || queue.in_large_burst || split {
            return;
        }
        let group = self.engine[q].group;
        let nobody_busy = self.busy_queues() == 0;
        let over = self.tick > self.creation.burst.last.saturating_add(self.ms(BURST_MS))
            || group != self.creation.burst.group;
        let burst = &mut self.creation.burst;
        burst.last = self.tick;
        if over {
            (burst.large, burst.group) = (false, group);
            burst.listed = usize::from(nobody_busy);
            burst.size = u32::from(nobody_busy);
            burst.members[0] = q;
        } else if burst.large {
            self.queue_mut(q).in_large_burst = true;
        } else {
            burst.size += 1;
            if burst.listed < burst.members.len() {
                burst.members[burst.listed] = q;
                burst.listed += 1;
            }
            if burst.size == MIN_LARGE_BURST {
                burst.large = true;
                let members = burst.members;
                let listed = core::mem::take(&mut burst.listed);
                for member in &members[..listed] {
                    self.queue_mut(*member).in_large_burst = true;
                }
            }
        }
    }

    /// Removes a queue from its burst: its process has exited, or it has been idle for long.
    pub(super) fn leave_burst(&mut self, q: EntityId) {
        let burst = &mut self.creation.burst;
        if let Some(at) = burst.members[..burst.listed].iter().position(|&member| member == q) {
            burst.members.copy_within(at + 1..burst.listed, at);
            burst.listed -= 1;
            burst.size = burst.size.saturating_sub(1);
        }
    }
}
