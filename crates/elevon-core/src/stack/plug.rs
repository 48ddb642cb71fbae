//! Plugging and merging: gathers requests of one task in a plug, and merges bios into requests.

extern crate alloc;
use alloc::vec::Vec;

use super::Stack;
use crate::control::Cause;
use crate::driver::Driver;
use crate::event::EventKind;
use crate::kernel::PlugOrder;
use crate::merge::{self, MergeKind};
use crate::op::{Flags, Op};
use crate::request::{Request, State};
use crate::sched::{Scheduler, View};
use crate::split::{has_gap, max_sectors_at};
use crate::units::{BioId, HwQueue, Instant, RequestId, Sector, Sectors, TaskId};

/// Requests that a plug holds before it is flushed (`BLK_MAX_REQUEST_COUNT`).
const MAX_PLUGGED: usize = 32;
/// If the examined request has this many sectors (128 KiB), the plug is flushed before the next
/// request is added.
const FLUSH_SECTORS: u64 = 256;

/// The requests of a task's plug.
#[derive(Clone, Debug, Default)]
pub(super) struct Plug {
    /// Plugs that were begun and not ended; only the outermost counts.
    depth: u32,
    /// In order of arrival.
    requests: Vec<RequestId>,
}

impl Plug {
    pub(super) fn begin(&mut self) {
        self.depth += 1;
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.depth > 0
    }
}

/// Whether a bio or request fits into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Fits,
    /// The result would have too many sectors or segments.
    TooBig,
    /// There is a gap between the two memory ranges that the device cannot describe.
    Gap,
}

impl Stack {
    /// Ends a plug. The end of the outermost plug flushes it.
    pub(super) fn end_plug<D: Driver>(&mut self, now: Instant, task: TaskId, driver: &mut D) {
        let plug = &mut self.task_mut(task).plug;
        assert!(plug.depth > 0, "a plug ends that was never begun");
        plug.depth -= 1;
        if plug.depth == 0 && !plug.requests.is_empty() {
            self.flush_plug(now, task, false, driver);
        }
    }

    /// Issues a request for which no plug is open: from 6.10 under a plug of its own, before that
    /// directly.
    #[inline(always)]
    pub(super) fn issue_alone<D: Driver>(
        &mut self,
        now: Instant,
        id: RequestId,
        queue: HwQueue,
        driver: &mut D,
    ) {
        if self.rules.implicit_plug {
            self.trace_request(now, EventKind::Plug, id);
            self.unplug_one(now, id, driver);
        } else {
            self.issue_unplugged(now, id, queue, driver);
        }
    }

    /// Adds a request to its task's plug. Flushes the plug first if it is full or holds a large
    /// request.
    #[inline]
    pub(super) fn add_to_plug<D: Driver>(
        &mut self,
        now: Instant,
        task: TaskId,
        id: RequestId,
        driver: &mut D,
    ) {
        let rules = self.rules;
        let plug = &self.tasks[task.index()].plug;
        let examined = match rules.plug_order {
            PlugOrder::Lifo => plug.requests.last(),
            PlugOrder::Fifo => plug.requests.first(),
        };
        let large = examined.is_some_and(|&r| {
            self.config.nomerges < 2 && self.requests[r].sectors.get() >= FLUSH_SECTORS
        });
        if large || plug.requests.len() >= MAX_PLUGGED {
            self.flush_plug(now, task, false, driver);
        }
        if self.tasks[task.index()].plug.requests.is_empty() {
            self.trace_request(now, EventKind::Plug, id);
        }
        debug_assert_eq!(self.requests[id].state, State::Queued);
        let plug = &mut self.tasks[task.index()].plug;
        plug.requests.push(id);
        assert!(
            plug.is_open() && plug.requests.len() <= MAX_PLUGGED,
            "a plug is closed or holds too much"
        );
    }

    /// Issues a single request under its own plug: same as [`Self::flush_plug`] with one request,
    /// without using the list.
    #[inline(always)]
    fn unplug_one<D: Driver>(&mut self, now: Instant, id: RequestId, driver: &mut D) {
        if self.has_scheduler {
            self.scratch.batch.clear();
            self.scratch.batch.push(id);
            self.insert_batch(now, false, driver);
        } else {
            if self.rules.unplug_event_on_direct_issue {
                self.trace_request(
                    now,
                    EventKind::Unplug { requests: 1, from_schedule: false },
                    id,
                );
            }
            self.issue_directly(now, id, driver);
            driver.commit(now);
        }
    }

    /// Issues all requests of a task's plug. `from_schedule`: the task goes to sleep.
    pub(super) fn flush_plug<D: Driver>(
        &mut self,
        now: Instant,
        task: TaskId,
        from_schedule: bool,
        driver: &mut D,
    ) {
        let mut batch = core::mem::take(&mut self.scratch.batch);
        batch.clear();
        batch.append(&mut self.task_mut(task).plug.requests);
        if batch.is_empty() {
            self.scratch.batch = batch;
            return;
        }
        let direct = !self.has_scheduler && !from_schedule;
        if direct && self.rules.plug_order == PlugOrder::Lifo {
            batch.reverse();
        }
        if !direct {
            self.scratch.batch = batch;
            self.insert_batch(now, from_schedule, driver);
            return;
        }
        if self.rules.unplug_event_on_direct_issue {
            let requests = batch.len() as u32;
            self.trace_request(now, EventKind::Unplug { requests, from_schedule }, batch[0]);
        }
        let mut refused = None;
        for (index, &id) in batch.iter().enumerate() {
            if !self.issue_directly(now, id, driver) {
                refused = Some(index + 1);
                break;
            }
        }
        driver.commit(now);
        if let Some(rest) = refused {
            batch.drain(..rest);
            if self.rules.plug_order == PlugOrder::Lifo {
                batch.reverse();
            }
            self.scratch.batch = batch;
            self.insert_batch(now, from_schedule, driver);
        } else {
            self.scratch.batch = batch;
        }
    }

    /// Inserts the batch into the scheduler or the software queues, and runs the hardware queues of
    /// its requests.
    pub(super) fn insert_batch<D: Driver>(
        &mut self,
        now: Instant,
        from_schedule: bool,
        driver: &mut D,
    ) {
        let mut batch = core::mem::take(&mut self.scratch.batch);
        let mut first = 0;
        // A task has one CPU, and so one hardware queue: the batch of one task is one group.
        while let Some(&id) = batch.get(first) {
            let queue = self.requests[id].queue;
            let group =
                batch[first..].iter().take_while(|&&r| self.requests[r].queue == queue).count();
            let requests = group as u32;
            self.trace_request(now, EventKind::Unplug { requests, from_schedule }, id);
            for &id in &batch[first..first + group] {
                self.requests[id].plugged = true;
                self.insert_request(now, id, false);
            }
            self.run_queue_by(now, queue, !from_schedule, driver);
            first += group;
        }
        batch.clear();
        self.scratch.batch = batch;
    }

    /// Tries to merge a bio into a request: the newest one in the plug, then one of the
    /// scheduler or software queue. Returns true if the bio was merged.
    pub(super) fn merge_bio(
        &mut self,
        now: Instant,
        task: TaskId,
        in_worker: bool,
        id: BioId,
    ) -> bool {
        let bio = &self.bios[id.0];
        if self.config.nomerges == 2 || !merge::bio_is_mergeable(bio) {
            return false;
        }
        if let Some(&candidate) =
            self.tasks[task.index()].plug.requests.last().filter(|_| !in_worker)
        {
            let request = &self.requests[candidate];
            if merge::is_compatible(&self.rules, request, bio)
                && let Some(kind) = merge::position(request, bio, self.limits.max_discard_segments)
                && self.attempt_merge(now, candidate, id, kind)
            {
                return true;
            }
        }
        let queue = self.queue_of(task);
        if !self.has_queued(queue) {
            return false;
        }
        let cpu = self.cpu_of(task);
        self.scheduler.set_context(queue, cpu);
        let view = View { requests: &self.requests, rules: &self.rules };
        let bio = &self.bios[id.0];
        let Some((candidate, kind)) =
            self.scheduler.find_merge(view, bio, self.config.nomerges == 1)
        else {
            return false;
        };
        let before = self.requests[candidate].sector;
        if !self.attempt_merge(now, candidate, id, kind) {
            return false;
        }
        let view = View { requests: &self.requests, rules: &self.rules };
        self.scheduler.on_bio_merged(view, candidate, kind, before);
        self.merge_neighbour(now, candidate, kind);
        true
    }

    /// Merges a bio into a request if the limits allow it. Returns true if it was merged. If the
    /// result would be too big, the request is closed to all further merges, even of bios that
    /// would fit.
    fn attempt_merge(
        &mut self,
        now: Instant,
        id: RequestId,
        bio_id: BioId,
        kind: MergeKind,
    ) -> bool {
        let bio = self.bios[bio_id.0];
        match self.fit(id, bio_id, kind) {
            Fit::Fits => {}
            Fit::Gap => return false,
            Fit::TooBig => {
                self.requests[id].flags |= Flags::NOMERGE;
                return false;
            }
        }
        let request = &mut self.requests[id];
        request.sectors += bio.sectors();
        request.segments += added_segments(kind, bio.op, bio.segments);
        match kind {
            MergeKind::Back | MergeKind::Discard => {
                if let Some(tail) = request.bio_tail.replace(bio_id) {
                    self.bios[tail.0].next = Some(bio_id);
                }
                self.counters.back_merges += 1;
            }
            MergeKind::Front => {
                self.bios[bio_id.0].next = request.bio_head.replace(bio_id);
                request.sector = bio.sector;
                self.counters.front_merges += 1;
            }
        }
        let (accounted, in_scheduler) = (request.accounted, request.in_scheduler);
        if accounted {
            self.accounting.on_merge(bio.op.stat_group());
        }
        if in_scheduler && self.control.is_watched() {
            self.enter_scheduler(now, bio_id, Cause::Plug);
        }
        match kind {
            MergeKind::Back => self.trace_bio(now, EventKind::BackMerge, &bio),
            MergeKind::Front => self.trace_bio(now, EventKind::FrontMerge, &bio),
            // The kernel has no tracepoint here.
            MergeKind::Discard => {}
        }
        true
    }

    /// Checks if a request with a bio added stays within size, segments and the virtual boundary.
    fn fit(&self, id: RequestId, bio_id: BioId, kind: MergeKind) -> Fit {
        let (bio, request) = (&self.bios[bio_id.0], &self.requests[id]);
        let (earlier, later) = match kind {
            MergeKind::Front => (Some(bio_id), request.bio_head),
            MergeKind::Back | MergeKind::Discard => (request.bio_tail, Some(bio_id)),
        };
        let start = if kind == MergeKind::Front { bio.sector } else { request.sector };
        let added = added_segments(kind, bio.op, bio.segments);
        self.joint_fit(request, start, bio.sectors(), added, (earlier, later))
    }

    /// Checks if `request`, starting at `start` and with `sectors` and `segments` added, is still
    /// within the limits. `joint`: the two bios that would become neighbours.
    fn joint_fit(
        &self,
        request: &Request,
        start: Sector,
        sectors: Sectors,
        segments: u16,
        joint: (Option<BioId>, Option<BioId>),
    ) -> Fit {
        let most_segments = match request.op {
            Op::Discard => self.limits.max_discard_segments,
            _ => self.limits.max_segments,
        };
        let has_gap = request.op.has_data()
            && self.limits.virt_boundary_mask != 0
            && self.gap_between(joint.0, joint.1);
        if has_gap {
            Fit::Gap
        } else if request.sectors.get() + sectors.get()
            > max_sectors_at(request.op, request.flags, start, &self.limits).get()
            || u32::from(request.segments) + u32::from(segments) > u32::from(most_segments)
        {
            Fit::TooBig
        } else {
            Fit::Fits
        }
    }

    fn gap_between(&self, earlier: Option<BioId>, later: Option<BioId>) -> bool {
        let (Some(earlier), Some(later)) = (earlier, later) else { return false };
        let (a, b) = (&self.bios[earlier.0], &self.bios[later.0]);
        let last_byte =
            self.layouts[a.data.layout.index()].physical(a.data.offset + a.bytes.get() - 1);
        let next_byte = self.layouts[b.data.layout.index()].physical(b.data.offset);
        has_gap(&self.limits, last_byte + 1, next_byte)
    }

    /// Merges a request with its neighbour if they touch after a bio merge. Only one such step is
    /// made.
    fn merge_neighbour(&mut self, now: Instant, id: RequestId, kind: MergeKind) {
        let view = View { requests: &self.requests, rules: &self.rules };
        let Some(other) = self.scheduler.neighbour(view, id, kind) else { return };
        let is_merged = match kind {
            MergeKind::Back => self.merge_requests(now, id, other),
            MergeKind::Front => self.merge_requests(now, other, id),
            MergeKind::Discard => false,
        };
        // Both were in the scheduler.
        self.queued -= u32::from(is_merged);
    }

    /// Merges `next` into the end of `survivor` if they are contiguous, compatible and within the
    /// limits. Returns true if they were merged.
    pub(super) fn merge_requests(
        &mut self,
        now: Instant,
        survivor: RequestId,
        next: RequestId,
    ) -> bool {
        let (a, b) = (self.requests[survivor], self.requests[next]);
        debug_assert_ne!(survivor, next, "a request is merged with itself");
        debug_assert!(
            a.state != State::InFlight && b.state != State::InFlight,
            "a request in the driver is merged"
        );
        let kind =
            if self.limits.max_discard_segments > 1 { MergeKind::Discard } else { MergeKind::Back };
        let segments = added_segments(kind, b.op, b.segments);
        if a.end() != b.sector
            || !merge::requests_are_compatible(&self.rules, &a, &b)
            || self.joint_fit(&a, a.sector, b.sectors, segments, (a.bio_tail, b.bio_head))
                != Fit::Fits
        {
            return false;
        }
        let view = View { requests: &self.requests, rules: &self.rules };
        self.scheduler.on_requests_merged(now, view, survivor, next);
        self.trace_request(now, EventKind::RequestMerge, next);
        if let (Some(tail), Some(head)) = (a.bio_tail, b.bio_head) {
            self.bios[tail.0].next = Some(head);
        }
        let grown = &mut self.requests[survivor];
        grown.bio_tail = b.bio_tail;
        grown.sectors += b.sectors;
        grown.segments += segments;
        grown.start = grown.start.min(b.start);
        self.counters.request_merges += 1;
        if b.accounted {
            self.accounting.on_request_merged(now, super::group_of(&b));
        }
        self.requests[next].bio_head = None;
        self.requests[next].bio_tail = None;
        self.requests[next].sectors = Sectors::ZERO;
        // Its tag is free: the caller wakes a submission that waits for one, or for a place.
        self.release(now, next);
        self.freed_by_merge |=
            !self.queues[b.queue.index()].waiters.is_empty() || self.wakes_throttled();
        true
    }

    /// Merges a request into the queued request that it continues, and that one into the request
    /// before it if possible. Returns true if the request was merged.
    #[inline]
    pub(super) fn try_insert_merge(&mut self, now: Instant, id: RequestId) -> bool {
        // Most requests come to a scheduler that has nothing they could continue.
        self.has_queued(self.requests[id].queue) && self.merge_with_queued(now, id)
    }

    fn merge_with_queued(&mut self, now: Instant, id: RequestId) -> bool {
        let (mut joined, mut id) = (false, id);
        while self.config.nomerges < 2 {
            let view = View { requests: &self.requests, rules: &self.rules };
            let one_hit_only = self.config.nomerges == 1;
            match self.scheduler.find_insert_merge(view, id, one_hit_only) {
                Some(earlier) if self.merge_requests(now, earlier, id) => {
                    // All but the first were in the scheduler.
                    self.queued -= u32::from(joined);
                    (joined, id) = (true, earlier);
                }
                Some(_) | None => break,
            }
        }
        joined
    }
}

/// Segments that a merge adds to a request; `segments` is the number of the added part. In a
/// discard of several ranges each range is one segment; a contiguous discard adds none.
const fn added_segments(kind: MergeKind, op: Op, segments: u16) -> u16 {
    match (op, kind) {
        (Op::Discard, MergeKind::Back | MergeKind::Front) => 0,
        (_, _) => segments,
    }
}
