//! Invariants of the stack between two calls.

use super::{Stack, WokenStep};
use crate::bio::Bio;
use crate::op::Op;
use crate::request::State;
use crate::sched::Scheduler;
use crate::units::{BioId, HwQueue};
use crate::wbt::Throttled;

impl Stack {
    /// Checks costly invariants, for tests and the swarm: tags, tables and counters agree. Panics
    /// if one does not hold.
    pub fn self_check(&self) {
        self.scheduler.self_check(self.view());
        let has_work =
            (0..self.config.hw_queues).any(|queue| self.scheduler.has_work(HwQueue(queue)));
        assert_eq!(self.queued > 0, has_work, "{} requests in the scheduler", self.queued);
        self.control.self_check();
        assert_eq!(
            self.held.bios.iter().flatten().count(),
            self.control.held(),
            "bios that stages keep"
        );
        for throttled in Throttled::ALL {
            self.check_places(throttled);
        }
        for index in 0..self.queues.len() {
            self.check_queue(index);
        }
        self.check_requests();
        if self.ios_in_flight() == 0 {
            self.check_nothing_is_left();
        }
    }

    /// Checks that each place of writeback throttling belongs to a request or a waiting bio.
    fn check_places(&self, throttled: Throttled) {
        let is_mine =
            |bio: &Bio| bio.has_place && Throttled::from_op(bio.op, bio.flags) == Some(throttled);
        let by_requests = self.requests.iter().filter(|(_, r)| r.place == Some(throttled)).count();
        let woken = self.woken.iter().filter_map(|woken| match &woken.step {
            WokenStep::LookForTag(_, waiter) | WokenStep::GoOn(waiter) => Some(waiter),
            WokenStep::Flush(..) | WokenStep::Work(..) => None,
        });
        let waiting = self
            .queues
            .iter()
            .flat_map(|queue| &queue.waiters)
            .chain(woken)
            .map(|waiter| waiter.bio);
        let without = waiting.filter(|bio| is_mine(&self.bios[bio.0])).count();
        let taken = self.throttling.wbt.in_flight()[throttled as usize] as usize;
        assert_eq!(
            taken,
            by_requests + without,
            "places of writeback throttling for {throttled:?}"
        );
        let queue = &self.throttling.waiting[throttled as usize].waiters;
        assert!(
            taken > 0 || queue.is_empty(),
            "{} wait for a place, and none is taken",
            queue.len()
        );
    }

    /// Checks the lists of a hardware queue, and its tags against the requests that hold one.
    fn check_queue(&self, index: usize) {
        let queue = &self.queues[index];
        let first = index * self.requests_per_queue as usize;
        let mine = || self.requests.iter().skip(first).take(self.requests_per_queue as usize);
        let allocated = mine().filter(|(_, r)| r.state != State::Free).count();
        let bound = self.requests_per_queue as usize + 1;
        assert!(
            queue.dispatch.len() <= bound,
            "the dispatch list holds more than the queue's requests"
        );
        assert!(queue.waiters.len() <= self.bios.live(), "more wait for a tag than there are bios");
        let flush = self.requests[self.flush_request(HwQueue(index as u16))];
        let tagged = mine().filter(|(_, r)| r.tag.is_some()).count()
            + usize::from(self.has_scheduler && flush.state != State::Free && flush.tag.is_some());
        assert_eq!(
            queue.tags.used() as usize,
            tagged,
            "driver tags taken against requests that hold one"
        );
        let sent = mine().filter(|(_, r)| r.state == State::InFlight).count()
            + usize::from(flush.state == State::InFlight);
        assert_eq!(
            queue.in_driver as usize, sent,
            "commands in the driver against requests in flight"
        );
        if let Some(sched_tags) = &queue.sched_tags {
            assert_eq!(
                sched_tags.used() as usize,
                allocated,
                "scheduler tags taken against requests allocated"
            );
        } else {
            assert_eq!(
                queue.tags.used() as usize,
                allocated,
                "tags taken against requests allocated"
            );
        }
    }

    /// Checks the size of each request with a tag of its own against its bios.
    fn check_requests(&self) {
        let of_flushes = self.flush_request(HwQueue(0)).0 as usize;
        let tagged = self.requests.iter().take(of_flushes);
        for (id, request) in tagged.filter(|(_, r)| r.state != State::Free) {
            let sectors =
                self.bio_ids(request.bio_head).map(|b| self.bios[b.0].sectors().get()).sum::<u64>();
            assert_eq!(request.sectors.get(), sectors, "request {} against its bios", id.0);
            assert!(request.op == Op::Discard || request.segments <= self.limits.max_segments);
        }
    }

    /// Checks that nothing is left in the tables while no I/O is outstanding.
    fn check_nothing_is_left(&self) {
        assert_eq!(self.bios.live(), 0, "no I/O outstanding, yet bios are");
        assert!(
            self.queues.iter().all(|queue| queue.flush.is_idle()),
            "no I/O outstanding, yet flushes are"
        );
        assert!(
            self.requests.iter().all(|(_, r)| r.state == State::Free),
            "no I/O outstanding, yet requests are"
        );
    }

    fn bio_ids(&self, head: Option<BioId>) -> impl Iterator<Item = BioId> + '_ {
        core::iter::successors(head, |id| self.bios[id.0].next)
    }
}
