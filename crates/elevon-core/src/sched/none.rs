//! `none`: no scheduler. Requests leave the software queue of each CPU in order of arrival.
//!
//! Each hardware queue has one list per CPU. If the device is not busy, a run takes all lists as a
//! whole, in CPU order. If it is busy, a run takes one request from the next CPU that has one. A
//! bio may merge into one of the last eight requests of its CPU's list. Nothing is sorted, and
//! priorities are ignored. Requests that the stack issues directly do not come here.
//!
//! Cost: insert O(1), merge lookup at most 8 requests, dispatch O(1) and O(CPUs / 64) to find the
//! next list.

extern crate alloc;
use alloc::vec::Vec;

use super::contexts::Contexts;
use super::fifo::{Fifo, FifoLinks};
use super::{Scheduler, SchedulerInfo, TunableInfo, View};
use crate::bio::Bio;
use crate::merge::MergeKind;
use crate::units::{HwQueue, Instant, RequestId};

/// The entry of `elevon schedulers`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "none",
    summary: "no scheduler: arrival order per CPU, priorities ignored; the cheapest",
    reads: &[],
    in_linux: true,
    divides_as: None,
    keeps_reserves: false,
    turns_wbt_off: false,
    first_requests: |depth| depth,
    async_quarters: 4,
    taken: TunableInfo::values,
    tunables: &[],
};

/// The software queues of one hardware queue.
#[derive(Clone, Debug)]
struct SoftwareQueues {
    contexts: Contexts,
    /// Requests of lists that a run took and has not sent yet; nothing merges into them.
    batch: Fifo,
    /// The CPU that is next while the device is busy.
    from: usize,
    busy: bool,
    queued: usize,
}

/// The software queues of a device.
#[derive(Clone, Debug)]
pub struct NoneScheduler {
    links: FifoLinks,
    queues: Vec<SoftwareQueues>,
    /// Hardware queue and CPU of the next bio.
    context: (usize, usize),
    discard_ranges: u16,
}

impl NoneScheduler {
    /// Returns the scheduler for a device with `queues` hardware queues that is used from `cpus`
    /// CPUs (each at least 1).
    pub fn new(queues: u16, cpus: u16, requests: usize) -> Self {
        let contexts = Contexts::new(usize::from(cpus.max(1)));
        let queue =
            SoftwareQueues { contexts, batch: Fifo::EMPTY, from: 0, busy: false, queued: 0 };
        Self {
            links: FifoLinks::new(requests),
            queues: alloc::vec![queue; usize::from(queues.max(1))],
            context: (0, 0),
            discard_ranges: 1,
        }
    }
}

impl Scheduler for NoneScheduler {
    fn insert(&mut self, _now: Instant, view: View<'_>, id: RequestId, at_head: bool) {
        self.links.grow(view.requests.len());
        let queue = &mut self.queues[view.requests[id].queue.index()];
        queue.contexts.insert(&mut self.links, view, id, at_head);
        queue.queued += 1;
    }

    fn dispatch(&mut self, _now: Instant, _view: View<'_>, queue: HwQueue) -> Option<RequestId> {
        let queue = &mut self.queues[queue.index()];
        if queue.queued == 0 {
            return None;
        }
        queue.queued -= 1;
        if queue.batch.is_empty() && queue.busy {
            let (cpu, id) = queue.contexts.take_in_turn(&mut self.links, queue.from)?;
            queue.from = cpu + 1;
            return Some(id);
        }
        if queue.batch.is_empty() {
            queue.contexts.take_all(&mut self.links, &mut queue.batch);
        }
        self.links.pop_front(&mut queue.batch)
    }

    #[inline]
    fn has_work(&self, queue: HwQueue) -> bool {
        self.queues[queue.index()].queued > 0
    }

    /// `nomerges=1` does not prevent the lookup (as in Linux).
    fn find_merge(
        &mut self,
        view: View<'_>,
        bio: &Bio,
        _one_hit_only: bool,
    ) -> Option<(RequestId, MergeKind)> {
        let (queue, cpu) = self.context;
        self.queues[queue].contexts.find_merge(&self.links, view, bio, cpu, self.discard_ranges)
    }

    fn set_busy(&mut self, queue: HwQueue, busy: bool) {
        self.queues[queue.index()].busy = busy;
    }

    fn set_context(&mut self, queue: HwQueue, cpu: u16) {
        let queue = queue.index() % self.queues.len();
        self.context = (queue, usize::from(cpu) % self.queues[queue].contexts.cpus());
    }

    fn set_discard_ranges(&mut self, ranges: u16) {
        self.discard_ranges = ranges;
    }

    fn self_check(&self, _view: View<'_>) {
        for queue in &self.queues {
            let count = self.links.self_check(queue.batch) + queue.contexts.self_check(&self.links);
            assert_eq!(count, queue.queued, "requests in the lists");
        }
    }
}

#[cfg(test)]
#[path = "none/tests.rs"]
mod tests;
