//! Flushes: carries out what the flush machine of a queue ([`crate::flush`]) decides.

extern crate alloc;
use alloc::vec::Vec;

use super::Stack;
use crate::driver::Driver;
use crate::event::EventKind;
use crate::flush::{self, Action, Begin, Poll};
use crate::ioprio::IoPrio;
use crate::op::{Flags, Op};
use crate::request::{Request, State};
use crate::sched::{Scheduler, View};
use crate::status::Status;
use crate::units::{HwQueue, Instant, RequestId, Sector, TaskId};

/// The sector of a flush in its completion event.
const NO_SECTOR: Sector = Sector::MAX;

impl Stack {
    /// Starts the flush sequence of a request with PREFLUSH or FUA. Returns false if the request
    /// continues as an ordinary request.
    pub(super) fn begin_flush<D: Driver>(
        &mut self,
        now: Instant,
        id: RequestId,
        driver: &mut D,
    ) -> bool {
        let by_scheduler = self.rules.flush_data_through_scheduler;
        let request = &mut self.requests[id];
        let machine = &mut self.queues[request.queue.index()].flush;
        let asked = (request.flags, !request.sectors.is_zero());
        let (sequence, begin) = machine.begin(now, id, asked, &self.limits, by_scheduler);
        request.flags = flush::driver_flags(request.flags, &self.limits);
        request.flush = sequence;
        let queue = request.queue;
        match begin {
            Begin::Ordinary => return false,
            Begin::Dispatch => {
                request.state = State::Dispatch;
                self.queues[queue.index()].dispatch.push_back(id);
            }
            Begin::Sequence(action) => {
                self.take_flush_step(now, id, action);
                self.kick_flush(now, queue);
            }
        }
        self.run_queue(now, queue, driver);
        true
    }

    /// Carries out the action that the flush machine returned for a request.
    fn take_flush_step(&mut self, now: Instant, id: RequestId, action: Action) {
        match action {
            Action::Wait => {}
            Action::Data if self.rules.flush_data_through_scheduler => {
                // As in the kernel, through the requeue list, and therefore at the head.
                self.insert_request(now, id, true);
            }
            Action::Data => {
                let request = &mut self.requests[id];
                request.state = State::Dispatch;
                self.queues[request.queue.index()].dispatch.push_back(id);
            }
            Action::End(status) => {
                let Request { start, sectors, .. } = self.requests[id];
                if sectors.is_zero() {
                    self.scheduler.on_empty_flush(now, start);
                }
                self.end_request(now, id, status);
            }
        }
    }

    /// Queues a FLUSH if one is due: at the head of the dispatch list, until the queue runs.
    #[inline]
    pub(super) fn kick_flush(&mut self, now: Instant, queue: HwQueue) {
        match self.queues[queue.index()].flush.poll(now) {
            Poll::Idle => {}
            // Data steps in flight may wait for scheduler tokens or tags that the requests waiting
            // here hold: poll again then.
            Poll::At(at) => self.rerun_at(queue, at),
            Poll::Send(first) => self.send_flush(now, queue, first),
        }
    }

    /// Queues the FLUSH of a hardware queue. `first` is the first request that waits for it.
    fn send_flush(&mut self, now: Instant, queue: HwQueue, first: RequestId) {
        let id = self.flush_request(queue);
        let (first_tag, cpu) = (self.requests[first].tag, self.requests[first].cpu);
        assert_eq!(self.requests[id].state, State::Free, "a queue sends one FLUSH at a time");
        // Without a scheduler the flush borrows the tag of the first waiting request, which is not
        // in the driver now.
        debug_assert_ne!(
            self.requests[first].state,
            State::InFlight,
            "a request in the driver waits for a flush"
        );
        self.requests.free(id);
        let request = &mut self.requests[id];
        request.state = State::Dispatch;
        request.op = Op::Flush;
        request.flags = Flags::PREFLUSH;
        request.ioprio = IoPrio::NONE;
        request.task = TaskId::IDLE;
        request.queue = queue;
        request.cpu = cpu;
        request.tag = if self.has_scheduler { None } else { first_tag };
        request.start = now;
        self.queues[queue.index()].dispatch.push_front(id);
        self.counters.flushes += 1;
    }

    /// Ends a FLUSH: every request that shared it takes its next step.
    pub(super) fn end_flush<D: Driver>(
        &mut self,
        now: Instant,
        id: RequestId,
        status: Status,
        driver: &mut D,
    ) {
        let request = self.requests[id];
        let queue = request.queue;
        debug_assert_eq!(id, self.flush_request(queue));
        self.trace_part(now, EventKind::Complete { status }, id, NO_SECTOR, 0);
        self.accounting.on_flush_end(request.start, now);
        self.trace_done(now, id, Sector::ZERO, false);
        self.give_back_driver_tag(id);
        self.requests.free(id);
        let mut over: Vec<RequestId> = core::mem::take(&mut self.scratch.over);
        self.queues[queue.index()].flush.finish(&mut over);
        let view = View { requests: &self.requests, rules: &self.rules };
        self.scheduler.on_shared_flush(now, view, request.issued, &over);
        for id in over.drain(..) {
            let sequence = &mut self.requests[id].flush;
            let action = self.queues[queue.index()].flush.flush_over(now, id, sequence, status);
            self.take_flush_step(now, id, action);
        }
        self.scratch.over = over;
        self.kick_flush(now, queue);
        self.run_queue(now, queue, driver);
        self.after_free(now, queue, driver);
    }

    /// Ends the data step of a flush sequence. The bios of the request end only with the sequence,
    /// but for the scheduler it is over now: a scheduler that waited for the whole sequence would
    /// hold back other data, and the flush of the sequence waits for such data.
    pub(super) fn end_flush_data<D: Driver>(
        &mut self,
        now: Instant,
        id: RequestId,
        status: Status,
        driver: &mut D,
    ) {
        let request = self.requests[id];
        let queue = request.queue;
        self.trace_request(now, EventKind::Complete { status }, id);
        self.account_sectors(&request, request.sectors);
        self.trace_done(now, id, request.sector, false);
        if request.accounted && request.state == State::InFlight {
            self.accounting.on_requeue(now);
        }
        if self.control.is_watched() {
            self.charge_device_time(now, id);
        }
        self.end_in_scheduler(now, id);
        self.give_back_driver_tag(id);
        let request = &mut self.requests[id];
        request.state = State::Queued;
        let machine = &mut self.queues[queue.index()].flush;
        let action = machine.data_over(now, id, &mut request.flush, status);
        self.take_flush_step(now, id, action);
        self.kick_flush(now, queue);
        if !self.queues[queue.index()].dispatch.is_empty() {
            self.run_queue(now, queue, driver);
        }
    }
}
