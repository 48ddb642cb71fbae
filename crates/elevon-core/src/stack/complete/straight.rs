//! The short way of a completion: all of an ordinary request of one bio ends, without an error.

use crate::account::CompletionFact;
use crate::driver::Driver;
use crate::op::Op;
use crate::request::{Request, WholeCall};
use crate::sched::{Scheduler, View};
use crate::stack::{Done, Stack};
use crate::status::Status;
use crate::units::{Bytes, Instant, RequestId, Tag};

impl Stack {
    /// Returns true if a completion with this status, after so many bytes, of a request that is in
    /// flight ends the only bio of an ordinary request, and if nothing that records completions is
    /// in force.
    #[inline(always)]
    pub(in crate::stack) fn ends_straight(&self, request: &Request, status: Status, bytes: Bytes) -> bool {
        let is_whole = status.is_ok() && bytes >= request.sectors.bytes();
        let has_one_bio =
            || request.op != Op::Flush && !request.flush.is_some() && request.bio_head == request.bio_tail;
        // A request that is a whole call has no part in a flush sequence.
        (request.call.is_some() || has_one_bio()) && is_whole && !self.tracing && !self.control.is_active()
    }

    /// Ends a request that [`Self::ends_straight`]: does the same as [`Self::end_in_driver`],
    /// without the steps that have nothing to do for it.
    #[inline(always)]
    pub(super) fn end_straight<D: Driver>(&mut self, now: Instant, id: RequestId, driver: &mut D) {
        if self.requests[id].in_scheduler {
            let view = View { requests: &self.requests, rules: &self.rules };
            self.scheduler.on_finish(now, view, id);
        }
        let &Request { op, task, start, issued, sectors, accounted, .. } = &self.requests[id];
        if accounted {
            let group = op.stat_group();
            self.accounting.on_sectors(group, sectors);
            self.accounting.on_end(&CompletionFact { group, task, start, issued, end: now }, true);
        }
        let device = now - issued;
        if self.wbt.is_on() {
            self.wbt.on_complete(now, id, op, device);
        }
        // Nothing below looks at the request.
        let request = &mut self.requests[id];
        let Request { queue, ioprio, call, bio_head, .. } = *request;
        let (tag, place) = request.end_use();
        if let Some(WholeCall { token, .. }) = call {
            self.end_whole_call(Done { task, token, status: Status::Ok, device, ioprio });
        } else if let Some(bio) = bio_head {
            self.end_bio_in_device(bio, Status::Ok, device);
        }
        if let Some(throttled) = place {
            self.put_place(now, throttled);
        }
        let entry = &mut self.queues[queue.index()];
        assert!(entry.in_driver > 0, "a command comes back from a driver that has none");
        entry.in_driver -= 1;
        if let Some(tag) = tag {
            entry.tags.free(tag);
        }
        if let Some(sched_tags) = &mut entry.sched_tags {
            sched_tags.free(Tag(id.0 - u32::from(queue.0) * self.requests_per_queue));
        }
        if entry.restart || !entry.waiters.is_empty() || self.wakes_throttled() {
            self.after_free(now, queue, driver);
        }
    }
}
