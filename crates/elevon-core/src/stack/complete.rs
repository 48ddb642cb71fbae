//! Completion: ends requests, bios and calls, retries errors or passes them on, frees tags and runs
//! timers.

use super::{Call, Done, Stack, group_of};
use crate::account::CompletionFact;
use crate::bio::Bio;
use crate::driver::{Completion, Driver};
use crate::event::EventKind;
use crate::flush::Sequence;
use crate::op::{Flags, Op};
use crate::request::{Request, State};
use crate::sched::{Scheduler, View};
use crate::status::Status;
use crate::units::{BioId, Bytes, HwQueue, Instant, Nanos, RequestId, Sectors, Tag, TaskId};

/// Flags that forbid a retry.
const NO_RETRY: Flags = Flags::FAILFAST_DEV
    .with(Flags::FAILFAST_TRANSPORT)
    .with(Flags::FAILFAST_DRIVER)
    .with(Flags::RAHEAD);

impl Stack {
    /// Handles a completion of the device. The late completion of a command that timed out and was
    /// aborted is counted and changes nothing else, whatever the state of its request is by then.
    ///
    /// # Panics
    ///
    /// If the command was never issued, or completes for the second time.
    #[inline(always)]
    pub fn handle_completion<D: Driver>(
        &mut self,
        now: Instant,
        completion: Completion,
        driver: &mut D,
    ) {
        self.advance(now);
        let Completion { request: id, sequence, status, bytes } = completion;
        let request = &self.requests[id];
        if request.state != State::InFlight || request.sequence != sequence {
            self.note_late(sequence);
            return;
        }
        self.end_in_driver(now, id, status, bytes, driver);
        self.sync_written(now, driver);
    }

    /// Counts the late completion of an aborted command. A command that is not in flight can have
    /// no other completion.
    #[cold]
    fn note_late(&mut self, sequence: u64) {
        let was_aborted = self.commands.aborted.remove(&sequence);
        assert!(
            was_aborted,
            "the answer to a command that is not in flight and was not aborted: {sequence}"
        );
        self.counters.late_answers += 1;
    }

    /// Returns when [`Self::handle_timers`] is to be called next.
    #[inline(always)]
    pub fn next_timer(&self) -> Option<Instant> {
        let earliest = self.next_rerun.min(self.next_of_others());
        (earliest < Instant::MAX).then_some(earliest)
    }

    /// Returns when the next timer is due that does not run queues again; `Instant::MAX` if none
    /// is set.
    #[inline(always)]
    fn next_of_others(&self) -> Instant {
        let mut earliest = self.commands.timeout_scan.min(self.throttling.wbt.next_wakeup());
        if !self.woken.is_empty() {
            earliest = earliest.min(self.next_woken());
        }
        if self.scheduler_has_timers {
            earliest = earliest.min(self.scheduler.next_wakeup());
        }
        if self.control.is_active() {
            earliest = earliest.min(self.control.next_wakeup().unwrap_or(Instant::MAX));
        }
        earliest
    }

    /// Runs every timer that is due.
    #[inline(always)]
    pub fn handle_timers<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        self.advance(now);
        if self.next_rerun <= now {
            self.next_rerun = Instant::MAX;
            for index in 0..self.queues.len() {
                let at = self.queues[index].rerun_at;
                if at <= now {
                    self.queues[index].rerun_at = Instant::MAX;
                    self.kick_flush(now, HwQueue(index as u16));
                    self.run_queue(now, HwQueue(index as u16), driver);
                } else {
                    self.next_rerun = self.next_rerun.min(at);
                }
            }
        }
        if self.next_of_others() <= now {
            self.handle_other_timers(now, driver);
        }
        self.sync_written(now, driver);
    }

    /// Runs the timers that are due and do not run queues again, in a fixed order.
    fn handle_other_timers<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        if self.scheduler_has_timers && self.scheduler.next_wakeup() <= now {
            self.scheduler.on_wakeup(now);
            self.run_woken_queues(now, driver);
        }
        if self.commands.timeout_scan <= now {
            self.scan_timeouts(now, driver);
        }
        if self.control.next_wakeup().is_some_and(|at| at <= now) {
            self.run_control(now, driver);
        }
        if self.throttling.wbt.next_wakeup() <= now {
            self.end_wbt_window(now, driver);
        }
        if !self.woken.is_empty() {
            self.run_woken(now, driver);
        }
    }

    /// Handles the completion of a command by the driver, for the whole request or its front part.
    #[inline(always)]
    pub(super) fn end_in_driver<D: Driver>(
        &mut self,
        now: Instant,
        id: RequestId,
        status: Status,
        bytes: Bytes,
        driver: &mut D,
    ) {
        debug_assert_eq!(
            self.requests[id].state,
            State::InFlight,
            "a command ends that the driver does not have"
        );
        let Request { queue, sectors, op, flush, .. } = self.requests[id];
        if status.is_ok() && bytes < sectors.bytes() {
            self.end_front(now, id, bytes.sectors_floor());
            return;
        }
        let entry = &mut self.queues[queue.index()];
        assert!(entry.in_driver > 0, "a command comes back from a driver that has none");
        entry.in_driver -= 1;
        if !status.is_ok() && self.tries_again(now, id, status, bytes, driver) {
            return;
        }
        self.end_command(now, id, (queue, op, flush), status, driver);
    }

    /// Ends what a failed command transferred, and issues the rest again if it may be retried.
    /// Returns true if it is.
    #[cold]
    fn tries_again<D: Driver>(
        &mut self,
        now: Instant,
        id: RequestId,
        status: Status,
        bytes: Bytes,
        driver: &mut D,
    ) -> bool {
        if !bytes.is_zero() && bytes < self.requests[id].sectors.bytes() {
            self.end_front(now, id, bytes.sectors_floor());
        }
        let tries = driver.retries() && self.may_retry(id, status);
        if tries {
            self.requests[id].retries += 1;
            self.counters.retries += 1;
            self.requeue(now, id, driver);
        }
        tries
    }

    /// Ends a command that completed or was refused for good: its request ends, or its flush
    /// sequence takes the next step.
    #[inline(always)]
    fn end_command<D: Driver>(
        &mut self,
        now: Instant,
        id: RequestId,
        (queue, op, flush): (HwQueue, Op, Sequence),
        status: Status,
        driver: &mut D,
    ) {
        if op == Op::Flush {
            self.end_flush(now, id, status, driver);
            return;
        }
        if flush.has_data_left() {
            self.end_flush_data(now, id, status, driver);
        } else {
            self.end_request(now, id, status);
        }
        let entry = &self.queues[queue.index()];
        if entry.restart || !entry.waiters.is_empty() || self.wakes_throttled() {
            self.after_free(now, queue, driver);
        }
    }

    /// Ends a command that the driver refused for good.
    #[cold]
    pub(super) fn end_refused<D: Driver>(
        &mut self,
        now: Instant,
        id: RequestId,
        status: Status,
        driver: &mut D,
    ) {
        let Request { queue, op, flush, .. } = self.requests[id];
        self.end_command(now, id, (queue, op, flush), status, driver);
    }

    /// Returns true if the request may be retried. Bios with failfast or read-ahead flags may be
    /// merged with others: the flags of the first bio count.
    fn may_retry(&self, id: RequestId, status: Status) -> bool {
        let request = &self.requests[id];
        let flags = request.bio_head.map_or(request.flags, |bio| self.bios[bio.0].flags);
        status.is_retryable()
            && request.retries < self.config.max_retries
            && !flags.intersects(NO_RETRY)
    }

    /// Completes the first `sectors` of a request: bios that lie inside end, the bio at the edge is
    /// advanced, the rest stays in flight.
    fn end_front(&mut self, now: Instant, id: RequestId, sectors: Sectors) {
        let request = self.requests[id];
        assert!(sectors < request.sectors, "a part of a request is all of it, or more");
        let part = sectors.get() as u32;
        self.trace_part(now, EventKind::Complete { status: Status::Ok }, id, request.sector, part);
        self.account_sectors(&request, sectors);
        let mut left = sectors;
        while !left.is_zero() {
            let Some(bio_id) = self.requests[id].bio_head else { break };
            let bio = &mut self.bios[bio_id.0];
            if bio.sectors() <= left {
                left -= bio.sectors();
                self.requests[id].bio_head = bio.next;
                if self.control.is_active() {
                    self.finish_bio(now, id, bio_id, true);
                }
                self.end_bio_in_device(bio_id, Status::Ok, now.since(request.issued));
            } else {
                bio.sector = bio.sector + left;
                bio.bytes -= left.bytes();
                bio.data.offset += left.bytes().get();
                left = Sectors::ZERO;
            }
        }
        assert!(left.is_zero(), "a request is longer than its bios");
        let request = &mut self.requests[id];
        request.sector = request.sector + sectors;
        request.sectors -= sectors;
    }

    /// Ends a request with all its remaining bios (C), and frees it.
    #[inline(always)]
    pub(super) fn end_request(&mut self, now: Instant, id: RequestId, status: Status) {
        let request = &self.requests[id];
        if self.trace.is_on {
            let (sector, sectors) = (request.sector, sectors_at_end(request).get() as u32);
            self.trace_part(now, EventKind::Complete { status }, id, sector, sectors);
        }
        let request = &self.requests[id];
        let is_in_driver = request.state == State::InFlight;
        let device = if is_in_driver { now.since(request.issued) } else { Nanos::ZERO };
        if self.throttling.wbt.is_on() && is_in_driver {
            self.throttling.wbt.on_complete(now, id, request.op, device);
        }
        let task = self.task_served(request);
        let mut next = request.bio_head;
        while let Some(bio) = next {
            if self.control.is_active() {
                self.finish_bio(now, id, bio, is_in_driver);
            }
            next = self.end_bio_in_device(bio, status, device);
        }
        // Read again, because keeping its fields until here would cost more.
        let request = &self.requests[id];
        if request.accounted {
            let &Request { start, issued, .. } = request;
            let group = group_of(request);
            self.accounting.on_sectors(group, sectors_at_end(request));
            let fact = CompletionFact { group, task, start, issued, end: now };
            self.accounting.on_end(&fact, is_in_driver);
        }
        if self.trace.is_on {
            self.trace_done(now, id, self.requests[id].sector, true);
        }
        if self.control.is_watched() && self.queues.iter().all(|queue| queue.tags.used() <= 1) {
            self.control.on_device_idle(now);
        }
        self.release(now, id);
    }

    /// Returns the task for which a request's time in the driver counts: the one that allocated it,
    /// or, if that is the worker of limits, the one that submitted the first bio.
    #[inline]
    fn task_served(&self, request: &Request) -> TaskId {
        let of_worker = request.bio_head.filter(|_| Some(request.task) == self.held.limit_worker);
        of_worker.map_or(request.task, |id| self.calls[self.bios[id.0].io].task)
    }

    #[inline]
    pub(super) fn account_sectors(&mut self, request: &Request, sectors: Sectors) {
        if request.accounted {
            self.accounting.on_sectors(group_of(request), sectors);
        }
    }

    /// Frees a request and its tags.
    #[inline(always)]
    pub(super) fn release(&mut self, now: Instant, id: RequestId) {
        let request = &self.requests[id];
        assert_ne!(request.state, State::Free, "a request is freed twice");
        if request.in_scheduler {
            self.end_in_scheduler(now, id);
        }
        let request = &mut self.requests[id];
        let (queue, cpu) = (request.queue, request.cpu);
        let (tag, place) = request.end_use();
        if let Some(throttled) = place {
            self.put_place(now, throttled);
        }
        let entry = &mut self.queues[queue.index()];
        if let Some(tag) = tag {
            entry.tags.free(tag);
        }
        if let Some(sched_tags) = &mut entry.sched_tags {
            let first = u32::from(queue.0) * self.requests_per_queue;
            sched_tags.free_of(cpu, Tag(id.0 - first));
        }
    }

    /// Tells the scheduler, if it has the request, that the request has finished.
    #[inline(always)]
    pub(super) fn end_in_scheduler(&mut self, now: Instant, id: RequestId) {
        if core::mem::take(&mut self.requests[id].in_scheduler) {
            let view = View { requests: &self.requests, rules: &self.rules };
            self.scheduler.on_finish(now, view, id);
        }
    }

    /// Runs after a tag was freed. Runs the queue if it is marked for a restart, and wakes
    /// submissions that wait for a tag, before those that wait for a place of writeback throttling.
    /// Otherwise each of these would take the tag that its own write freed, and a reader that waits
    /// for one of few tags would never have it.
    #[inline]
    pub(super) fn after_free<D: Driver>(&mut self, now: Instant, queue: HwQueue, driver: &mut D) {
        let entry = &mut self.queues[queue.index()];
        if entry.restart {
            entry.restart = false;
            self.run_queue(now, queue, driver);
        }
        if !self.queues[queue.index()].waiters.is_empty() {
            self.wake_batch(now, queue, driver);
        }
        if self.throttling.wbt.is_on() {
            self.wake_throttled(now, driver);
        }
    }

    /// Ends a bio, and with it one part of its call.
    #[inline]
    pub(super) fn end_bio(&mut self, id: BioId, status: Status) {
        let call = self.bios.remove(id.0).io;
        self.end_part(call, status);
    }

    /// As [`Self::end_bio`], for a bio that was in the device for the time `device`. Returns the
    /// next bio of its request.
    #[inline(always)]
    fn end_bio_in_device(&mut self, id: BioId, status: Status, device: Nanos) -> Option<BioId> {
        let &Bio { io: call, ioprio, next, .. } = self.bios.remove(id.0);
        let entry = &mut self.calls[call];
        (entry.device, entry.ioprio) = (device, ioprio);
        self.end_part(call, status);
        next
    }

    /// Ends one part of a call. The last part ends the call. The call's status is the first error.
    #[inline(always)]
    pub(super) fn end_part(&mut self, call: u32, status: Status) {
        let entry = &mut self.calls[call];
        if entry.status.is_ok() {
            entry.status = status;
        }
        assert!(entry.parts > 0, "a part of a call ends that it does not have");
        entry.parts -= 1;
        if entry.parts > 0 {
            return;
        }
        if entry.sync.is_some() {
            return self.end_durable(call);
        }
        let &mut Call { task, token, status, device, ioprio, .. } = entry;
        self.calls.free(call);
        self.finished.done.push(Done { task, token, status, device, ioprio });
    }

    /// Lets a call whose data is written continue with its flush. If the data could not be written,
    /// the call ends.
    #[cold]
    fn end_durable(&mut self, call: u32) {
        let entry = &mut self.calls[call];
        entry.parts = 1;
        let Some(sync) = entry.sync.take() else { return };
        let flush = *self.durable.syncs.remove(sync);
        if entry.status.is_ok() {
            self.durable.written.push_back((call, flush));
        } else {
            self.end_part(call, Status::Ok);
        }
    }
}

/// Returns the sectors that are counted when a request ends: those of a flush sequence were counted
/// when its data step ended.
fn sectors_at_end(request: &Request) -> Sectors {
    let counted_before = request.flush.is_some() && !request.flush.has_data_left();
    if counted_before { Sectors::ZERO } else { request.sectors }
}
