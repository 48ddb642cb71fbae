//! Dispatch: issues requests to the driver, and handles a busy driver.

extern crate alloc;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Stack;
use crate::bio::Bio;
use crate::driver::{Accept, Command, Driver, Piece, Pieces, TimeoutAction};
use crate::event::EventKind;
use crate::jiffies::to_ticks;
use crate::op::{Flags, Op};
use crate::pool::Pool;
use crate::request::{Request, State};
use crate::sched::{Scheduler, View};
use crate::status::Status;
use crate::units::{Bytes, HwQueue, Instant, Nanos, RequestId};

/// Delay after which a queue runs again if the driver was busy or the scheduler held requests back,
/// in milliseconds. It is a timer in ticks: at 250 Hz one tick, which takes 4 to 8 ms, as was
/// measured on Linux 6.18.
const RERUN_DELAY_MS: u64 = 3;

/// Time from waking a kblockd worker until it runs a queue: what one needs on an idle CPU. Chosen,
/// not measured; what is submitted before it runs may be merged with what waits.
pub const WORKER_DELAY: Nanos = Nanos::from_micros(4);

/// The result of issuing a request to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Issue {
    /// The request was started on this queue, or it ended with an error.
    Gone(HwQueue),
    /// The driver cannot take it now.
    Busy {
        /// The driver promised that a completion will free what it needs.
        promised: bool,
    },
}

/// The result of sending a list of requests to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// Every request was issued.
    All,
    /// The driver refused a request, and the queue was not marked for a restart: it must run again
    /// at once, which marks it.
    RunAgain,
    /// The driver refused a request, or a request has no driver tag: a completion or a delayed run
    /// tries again.
    Waits,
}

impl Stack {
    /// Inserts a request into the scheduler or its software queue (I), unless it is merged into a
    /// request that is already queued.
    pub(super) fn insert_request(&mut self, now: Instant, id: RequestId, at_head: bool) {
        let request = &mut self.requests[id];
        assert!(
            !matches!(request.state, State::Free | State::InFlight),
            "{:?} is inserted",
            request.state
        );
        request.state = State::Queued;
        request.in_scheduler = true;
        if !at_head && self.has_scheduler && self.try_insert_merge(now, id) {
            return;
        }
        if self.control.is_watched() {
            self.request_enters_scheduler(now, id);
        }
        self.trace_request(now, EventKind::Insert, id);
        let view = View { requests: &self.requests, rules: &self.rules };
        self.scheduler.insert(now, view, id, at_head);
        self.queued += 1;
    }

    /// Returns true if something is in the scheduler, or the software queues, for a hardware queue.
    #[inline(always)]
    pub(super) fn has_queued(&self, queue: HwQueue) -> bool {
        self.queued > 0 && (self.config.hw_queues == 1 || self.scheduler.has_work(queue))
    }

    /// Issues a request without any plug (kernels before 6.10 and from 7.2): directly to the driver
    /// if that is allowed, else through the scheduler or software queue, which a worker then runs.
    #[inline(always)]
    pub(super) fn issue_unplugged<D: Driver>(
        &mut self,
        now: Instant,
        id: RequestId,
        queue: HwQueue,
        driver: &mut D,
    ) {
        let is_busy = self.queues[queue.index()].busy > 0;
        let held_back = is_busy && (self.config.hw_queues == 1 || !self.requests[id].is_sync());
        if self.has_scheduler || held_back {
            self.insert_request(now, id, false);
            self.rerun_at(queue, now + driver.insert_delay());
        } else {
            self.issue_directly(now, id, driver);
            driver.commit(now);
        }
    }

    /// Issues a request that has a driver tag directly to the driver. Returns false if the driver
    /// was busy; the request then waits on the dispatch list.
    #[inline(always)]
    pub(super) fn issue_directly<D: Driver>(
        &mut self,
        now: Instant,
        id: RequestId,
        driver: &mut D,
    ) -> bool {
        match self.issue(now, id, driver) {
            Issue::Gone(queue) => {
                self.update_busy(queue, false);
                true
            }
            Issue::Busy { .. } => {
                let queue = self.requests[id].queue;
                if self.control.is_watched() {
                    self.request_enters_scheduler(now, id);
                }
                // This run finds the driver busy too, and then waits for it.
                self.queues[queue.index()].dispatch.push_back(id);
                self.update_busy(queue, true);
                self.run_queue(now, queue, driver);
                false
            }
        }
    }

    #[inline(always)]
    fn issue<D: Driver>(&mut self, now: Instant, id: RequestId, driver: &mut D) -> Issue {
        let request = &mut self.requests[id];
        assert!(request.tag.is_some(), "a request reaches the driver without a tag");
        request.sequence = self.commands.sequence;
        let command = command_of(id, request);
        let answer =
            driver.queue_command(now, &command, &RequestPieces { bios: &self.bios, request });
        match answer {
            Accept::Ok => {
                assert!(
                    !matches!(request.state, State::Free | State::InFlight),
                    "{:?} starts",
                    request.state
                );
                request.state = State::InFlight;
                (request.issued, request.timer) = (now, now);
                let accounted = request.accounted;
                self.started(now, &command, accounted);
                Issue::Gone(command.queue)
            }
            Accept::Error(status) => {
                self.end_refused(now, id, status, driver);
                Issue::Gone(command.queue)
            }
            Accept::Busy | Accept::DeviceBusy => {
                self.requests[id].state = State::Dispatch;
                self.counters.requeues += 1;
                self.trace_request(now, EventKind::Requeue, id);
                if answer == Accept::DeviceBusy {
                    self.driver_is_full(now, command.queue);
                }
                Issue::Busy { promised: answer == Accept::DeviceBusy }
            }
        }
    }

    /// Tells the scheduler that the driver has refused a command until another one ends.
    #[cold]
    fn driver_is_full(&mut self, now: Instant, queue: HwQueue) {
        let held =
            self.queues[queue.index()].in_driver.saturating_mul(self.config.hw_queues.into());
        self.scheduler.on_driver_full(now, held);
    }

    /// Records that the driver accepted the command of a request (D).
    #[inline(always)]
    fn started(&mut self, now: Instant, command: &Command, accounted: bool) {
        let id = command.request;
        self.commands.sequence += 1;
        if self.commands.timeout_scan == Instant::MAX {
            // As the kernel's timer: the first check comes early, later checks at the earliest
            // deadline.
            let first_look = self.config.io_timeout.min(Nanos::from_secs(6));
            self.commands.timeout_scan = now.saturating_add(first_look);
        }
        let &Command { queue, op, bytes, .. } = command;
        self.queues[queue.index()].in_driver += 1;
        self.counters.issued += 1;
        if op.has_data() {
            let sizes = &mut self.counters.sizes[usize::from(op.is_write())];
            let sectors = bytes.sectors_floor().get() as usize;
            match sizes.get_mut(sectors) {
                Some(count) => *count += 1,
                None => *sizes.last_mut().expect("a size for all that is longer") += 1,
            }
        } else if op == Op::Discard {
            *self.counters.discards.entry(bytes.get()).or_default() += 1;
        }
        self.throttling.wbt.on_issue(now, id, op);
        if accounted && op != Op::Flush {
            self.accounting.on_issue(now);
        }
        if self.control.is_watched() {
            self.request_issued(now, id);
        }
        self.trace_request(now, EventKind::Issue, id);
    }

    /// Runs a hardware queue: first the requests that the driver refused before, then the scheduler
    /// or the software queues.
    pub(super) fn run_queue<D: Driver>(&mut self, now: Instant, queue: HwQueue, driver: &mut D) {
        self.run_queue_by(now, queue, false, driver);
    }

    /// Runs a hardware queue as a task does that submits (`by_task`), or a worker. If what the
    /// driver woke runs before the task ([`Driver::preempts`]), a worker does the rest of the run.
    /// That takes the place of a delayed run: if the scheduler holds back what is left, the delay
    /// begins anew, so it never ends while requests follow each other faster. On Linux 6.18 the
    /// timer was cancelled after each such request, and set by the worker.
    pub(super) fn run_queue_by<D: Driver>(
        &mut self,
        now: Instant,
        queue: HwQueue,
        by_task: bool,
        driver: &mut D,
    ) {
        if self.freed_by_merge {
            self.wake_after_merge(now, driver);
        }
        let has_queued = self.has_queued(queue);
        let entry = &mut self.queues[queue.index()];
        if entry.running {
            // A recursive call: the outer run checks again.
            entry.restart = true;
            return;
        }
        if entry.dispatch.is_empty() && !has_queued {
            return;
        }
        entry.running = true;
        let mut may_be_preempted = by_task;
        while self.run_once(now, queue, driver) {
            if core::mem::take(&mut may_be_preempted) && driver.preempts() {
                self.rerun_at(queue, now + driver.worker_delay());
                break;
            }
        }
        self.queues[queue.index()].running = false;
        driver.commit(now);
    }

    /// Runs the queue once. Returns true if it must run again at once.
    #[inline(always)]
    fn run_once<D: Driver>(&mut self, now: Instant, queue: HwQueue, driver: &mut D) -> bool {
        let entry = &mut self.queues[queue.index()];
        if !entry.dispatch.is_empty() {
            entry.restart = true;
            let list = core::mem::take(&mut entry.dispatch);
            return match self.send(now, queue, list, true, driver) {
                Sent::All => self.has_more(queue),
                Sent::RunAgain => true,
                Sent::Waits => false,
            };
        }
        let most = if entry.busy > 0 { 1 } else { self.requests_per_queue as usize };
        let Some(first) = self.pull(now, queue) else { return false };
        let mut stop = !self.take_driver_tag(first);
        if !stop && (most == 1 || !self.has_queued(queue)) {
            return self.send_only(now, queue, first, driver);
        }
        let mut list = core::mem::take(&mut self.scratch.pulled);
        list.push_back(first);
        while !stop && list.len() < most && self.has_queued(queue) {
            match self.pull(now, queue) {
                Some(id) => {
                    list.push_back(id);
                    stop = !self.take_driver_tag(id);
                }
                None => stop = true,
            }
        }
        let is_own = self.config.hw_queues == 1;
        match self.send(now, queue, list, is_own, driver) {
            // Also if the scheduler gave no more in this round: it is asked once more. On Linux
            // 6.18 `starved` of mq-deadline grew by three for each request of a higher class.
            Sent::All => self.has_more(queue),
            // Also if the scheduler or the tags stopped the list: nothing else would run the queue
            // again.
            Sent::RunAgain => true,
            Sent::Waits => false,
        }
    }

    /// Takes the next request from the scheduler, which has work. If it holds all of it back, the
    /// queue runs again after a delay.
    #[inline(always)]
    fn pull(&mut self, now: Instant, queue: HwQueue) -> Option<RequestId> {
        debug_assert!(self.has_queued(queue), "a queue without work runs");
        let view = View { requests: &self.requests, rules: &self.rules };
        let pulled = self.scheduler.dispatch(now, view, queue);
        match pulled {
            Some(id) => {
                self.queued -= 1;
                self.requests[id].state = State::Dispatch;
            }
            None => self.rerun_later(now, queue),
        }
        pulled
    }

    /// Sends a request that is the only one of a run, and has a driver tag: as [`Self::send`], but
    /// most requests need no list. Returns true if the queue must run again at once.
    #[inline(always)]
    fn send_only<D: Driver>(
        &mut self,
        now: Instant,
        queue: HwQueue,
        id: RequestId,
        driver: &mut D,
    ) -> bool {
        let owner = self.requests[id].queue;
        let Err(at_once) = self.issue_or_wait(now, queue, id, owner, driver) else {
            self.update_busy(owner, false);
            return self.has_more(queue);
        };
        let mut list = core::mem::take(&mut self.scratch.pulled);
        list.push_back(id);
        self.put_back(now, queue, list, self.config.hw_queues == 1, Some(owner));
        at_once
    }

    /// Runs the queues that the scheduler's wake-up is for, or wakes the worker that does.
    pub(super) fn run_woken_queues<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        let delay = if self.scheduler.wakes_worker() { driver.worker_delay() } else { Nanos::ZERO };
        for queue in (0..self.queues.len()).map(|index| HwQueue(index as u16)) {
            if !self.scheduler.is_woken(queue) {
                continue;
            }
            if delay.is_zero() {
                self.run_queue(now, queue, driver);
            } else if self.has_more(queue) {
                self.rerun_at(queue, now + delay);
            }
        }
    }

    #[inline(always)]
    fn has_more(&self, queue: HwQueue) -> bool {
        !self.queues[queue.index()].dispatch.is_empty() || self.has_queued(queue)
    }

    /// Sends a list to the driver until the driver is busy or a driver tag is missing. The
    /// remaining requests go to the front of the dispatch lists of their own queues, in order: a
    /// scheduler for the whole device may return requests of another hardware queue. `is_own` says
    /// that all requests are of this queue.
    fn send<D: Driver>(
        &mut self,
        now: Instant,
        queue: HwQueue,
        mut list: VecDeque<RequestId>,
        is_own: bool,
        driver: &mut D,
    ) -> Sent {
        let (mut sent, mut at_once, mut refused_by) = (None, false, None);
        while let Some(&id) = list.front() {
            let owner = self.requests[id].queue;
            if let Err(again) = self.try_issue(now, queue, id, driver) {
                (at_once, refused_by) = (again, Some(owner));
                break;
            }
            list.pop_front();
            sent = Some(owner);
        }
        let all_out = list.is_empty();
        if let (true, Some(owner)) = (all_out, sent) {
            self.update_busy(owner, false);
        }
        self.put_back(now, queue, list, is_own, refused_by);
        match (all_out, at_once) {
            (true, _) => Sent::All,
            (false, true) => Sent::RunAgain,
            (false, false) => Sent::Waits,
        }
    }

    /// Issues a request that this queue took from the scheduler or its dispatch list. If the driver
    /// is busy or no driver tag is free, arranges the next run of the request's own queue, and
    /// returns as the error whether this queue must run again at once.
    #[inline(always)]
    fn try_issue<D: Driver>(
        &mut self,
        now: Instant,
        queue: HwQueue,
        id: RequestId,
        driver: &mut D,
    ) -> Result<(), bool> {
        let owner = self.requests[id].queue;
        if self.take_driver_tag(id) {
            return self.issue_or_wait(now, queue, id, owner, driver);
        }
        // All driver tags of the owner queue are in use: it runs when a request is freed.
        self.queues[owner.index()].restart = true;
        self.update_busy(owner, true);
        Err(false)
    }

    /// As [`Self::try_issue`], for a request that has a driver tag of its queue, `owner`.
    #[inline(always)]
    fn issue_or_wait<D: Driver>(
        &mut self,
        now: Instant,
        queue: HwQueue,
        id: RequestId,
        owner: HwQueue,
        driver: &mut D,
    ) -> Result<(), bool> {
        let Issue::Busy { promised } = self.issue(now, id, driver) else { return Ok(()) };
        self.give_back_driver_tag(id);
        let waits = self.wait_for_driver(now, owner, promised);
        if !waits && owner != queue {
            self.rerun_at(owner, now);
        }
        self.update_busy(owner, true);
        Err(!waits && owner == queue)
    }

    /// Puts the requests that were not issued to the front of the dispatch lists. If all are of
    /// this queue (`is_own`), the list is put back as a whole, so that a busy driver costs O(1)
    /// however many requests wait. The next run of the queue that was refused (`refused_by`) is
    /// already arranged. Every other queue that gets requests runs again at once, as if its part of
    /// the list had been sent separately. Until then these requests hold no driver tags: otherwise
    /// a later request that gets to the front would wait for the tags for ever.
    fn put_back(
        &mut self,
        now: Instant,
        queue: HwQueue,
        mut list: VecDeque<RequestId>,
        is_own: bool,
        refused_by: Option<HwQueue>,
    ) {
        if list.is_empty() {
            self.scratch.pulled = list;
            return;
        }
        if is_own {
            let entry = &mut self.queues[queue.index()];
            list.append(&mut entry.dispatch);
            entry.dispatch = list;
            return;
        }
        while let Some(id) = list.pop_back() {
            let owner = self.requests[id].queue;
            self.give_back_driver_tag(id);
            self.queues[owner.index()].dispatch.push_front(id);
            if refused_by != Some(owner) {
                self.rerun_at(owner, now);
            }
        }
        self.scratch.pulled = list;
    }

    /// Arranges the next run of a queue whose driver is busy. A queue that is marked for a restart
    /// runs again on a completion, or after a delay if the driver promised no completion. Returns
    /// false if the queue was not marked: it must run again at once, which marks it.
    fn wait_for_driver(&mut self, now: Instant, queue: HwQueue, promised: bool) -> bool {
        let entry = &self.queues[queue.index()];
        // The promise is kept by a completion of this queue. With no command of this queue in the
        // driver, the device may be full of another queue's commands.
        if entry.restart && (!promised || entry.in_driver == 0) {
            self.rerun_later(now, queue);
        }
        self.queues[queue.index()].restart
    }

    /// Runs a queue again after a delay, unless it runs before that anyway.
    fn rerun_later(&mut self, now: Instant, queue: HwQueue) {
        // A run that comes before the end of any such timer saves the divisions.
        if self.queues[queue.index()].rerun_at > now + Nanos::from_millis(RERUN_DELAY_MS) {
            let hz = self.config.hz;
            self.rerun_at(queue, hz.timer(now, to_ticks(RERUN_DELAY_MS as i64, hz) as u64));
        }
    }

    #[inline]
    pub(super) fn rerun_at(&mut self, queue: HwQueue, at: Instant) {
        let rerun_at = &mut self.queues[queue.index()].rerun_at;
        *rerun_at = at.min(*rerun_at);
        self.next_rerun = self.next_rerun.min(at);
    }

    /// Updates how busy the driver was recently: an integer EWMA with weight 1/8 (0, 2, 3, 4 ... 9
    /// while busy, then down to 0).
    fn update_busy(&mut self, queue: HwQueue, busy: bool) {
        let entry = &mut self.queues[queue.index()];
        if busy || entry.busy > 0 {
            entry.busy = next_busy(entry.busy, busy);
            let is_busy = entry.busy > 0;
            self.scheduler.set_busy(queue, is_busy);
        }
    }

    /// Takes a driver tag if the request has none: with a scheduler, a request gets it only now.
    /// Returns true if it has one.
    #[inline]
    fn take_driver_tag(&mut self, id: RequestId) -> bool {
        let request = &mut self.requests[id];
        if request.tag.is_none() {
            request.tag = self.queues[request.queue.index()].tags.take();
        }
        request.tag.is_some()
    }

    /// Frees the driver tag of a request if there is a scheduler. Without a scheduler a request
    /// keeps its tag.
    pub(super) fn give_back_driver_tag(&mut self, id: RequestId) {
        if self.has_scheduler
            && let Some(tag) = self.requests[id].tag.take()
        {
            let queue = self.requests[id].queue;
            self.queues[queue.index()].tags.free(tag);
        }
    }

    /// Puts a started request back into the queue to be issued again (R).
    pub(super) fn requeue<D: Driver>(&mut self, now: Instant, id: RequestId, driver: &mut D) {
        let request = &mut self.requests[id];
        request.state = State::Requeued;
        let queue = request.queue;
        if request.accounted {
            self.accounting.on_requeue(now);
        }
        self.counters.requeues += 1;
        if self.control.is_watched() {
            self.charge_device_time(now, id);
        }
        self.trace_request(now, EventKind::Requeue, id);
        if self.requests[id].in_scheduler {
            let view = View { requests: &self.requests, rules: &self.rules };
            self.scheduler.on_requeue(now, view, id);
        }
        self.give_back_driver_tag(id);
        if self.requests[id].flush.is_some() || self.requests[id].op == Op::Flush {
            self.requests[id].state = State::Dispatch;
            self.queues[queue.index()].dispatch.push_front(id);
        } else {
            self.requests[id].flags |= Flags::NOMERGE;
            self.insert_request(now, id, true);
        }
        self.run_queue(now, queue, driver);
    }

    /// Handles the requests in flight whose deadline has passed, and sets the time of the next
    /// scan.
    pub(super) fn scan_timeouts<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        let timeout = self.config.io_timeout;
        let deadline =
            |r: &Request| (r.state == State::InFlight).then(|| r.timer.saturating_add(timeout));
        let is_overdue = |r: &Request| deadline(r).is_some_and(|at| at <= now);
        let overdue: Vec<RequestId> =
            self.requests.iter().filter(|(_, r)| is_overdue(r)).map(|(id, _)| id).collect();
        for id in overdue {
            self.counters.timeouts += 1;
            let command = command_of(id, &self.requests[id]);
            match driver.handle_timeout(now, &command) {
                TimeoutAction::Aborted => {
                    self.commands.aborted.insert(command.sequence);
                    self.end_in_driver(now, id, Status::Timeout, Bytes::ZERO, driver);
                }
                TimeoutAction::ResetTimer => {
                    self.requests[id].timer = now;
                }
            }
        }
        let deadlines = self.requests.iter().filter_map(|(_, r)| deadline(r));
        self.commands.timeout_scan = deadlines.min().unwrap_or(Instant::MAX);
    }
}

/// The pieces of a request's data, computed only if a driver asks for them.
struct RequestPieces<'a> {
    bios: &'a Pool<Bio>,
    request: &'a Request,
}

impl Pieces for RequestPieces<'_> {
    fn for_each(&self, each: &mut dyn FnMut(Piece)) {
        let mut next = self.request.bio_head;
        while let Some(id) = next {
            let bio = &self.bios[id.0];
            let (offset, len) = (bio.data.offset, bio.bytes.get());
            each(Piece { task: bio.task, token: bio.token, offset, len, sector: bio.sector });
            next = bio.next;
        }
    }
}

/// Returns the command for a request.
fn command_of(id: RequestId, request: &Request) -> Command {
    Command {
        request: id,
        sequence: request.sequence,
        queue: request.queue,
        tag: request.tag.unwrap_or_default(),
        op: request.op,
        flags: request.flags,
        ioprio: request.ioprio,
        sector: request.sector,
        bytes: request.sectors.bytes(),
    }
}

/// Returns the next value of the busy average.
const fn next_busy(busy: u8, now_busy: bool) -> u8 {
    ((7 * busy as u16 + if now_busy { 16 } else { 0 }) / 8) as u8
}

#[cfg(test)]
mod tests {
    use super::next_busy;

    #[test]
    fn the_busy_average_of_the_kernel() {
        let mut b = 0;
        for expected in [2, 3, 4, 5, 6, 7, 8, 9, 9] {
            b = next_busy(b, true);
            assert_eq!(b, expected);
        }
        for expected in [7, 6, 5, 4, 3, 2, 1, 0] {
            b = next_busy(b, false);
            assert_eq!(b, expected);
        }
    }
}
