//! `none`: no scheduler. What reaches the software queues leaves them in order of arrival on each CPU.
//!
//! Each hardware queue has one list per CPU. While the device is not busy, a run takes every list whole, in CPU order;
//! while it is busy, one request at a time from the next CPU that has one. A bio may join one of the last eight requests of
//! its CPU's list. Nothing is sorted, priorities are not looked at. A stack that issues directly never comes here.
//!
//! Cost: insert O(1), merge lookup at most 8 requests, dispatch O(1) and O(CPUs / 64) to find the next list.

extern crate alloc;
use alloc::vec::Vec;

use super::fifo::{Fifo, FifoLinks};
use super::{Scheduler, SchedulerInfo, View};
use crate::bio::Bio;
use crate::merge::{MergeKind, is_compatible, position};
use crate::units::{HwQueue, Instant, RequestId};

/// Requests of a software queue that are looked at for a merge, newest first (as in Linux).
const MERGE_WINDOW: usize = 8;

/// What `elevon schedulers` says of it.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "none",
    summary: "no scheduler: arrival order per CPU, priorities ignored; the cheapest",
    tunables: &[],
};

/// The software queues of one hardware queue.
#[derive(Clone, Debug)]
struct Queue {
    /// By CPU.
    contexts: Vec<Fifo>,
    /// A bit for each CPU whose list is not empty.
    pending: Vec<u64>,
    /// Lists that a run took whole and has not sent yet; nothing merges into it.
    batch: Fifo,
    /// CPU whose turn it is while the device is busy.
    from: usize,
    busy: bool,
    queued: usize,
}

/// The software queues of a device.
#[derive(Clone, Debug)]
pub struct NoneScheduler {
    links: FifoLinks,
    queues: Vec<Queue>,
    /// Where the next bio comes from: hardware queue and CPU.
    context: (usize, usize),
    discard_ranges: u16,
}

impl Queue {
    /// The first CPU from `start` on that has a request.
    fn pending_from(&self, start: usize) -> Option<usize> {
        let mut mask = u64::MAX << (start % 64);
        for (word, bits) in self.pending.iter().enumerate().skip(start / 64) {
            if bits & mask != 0 {
                return Some(word * 64 + (bits & mask).trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }
}

impl NoneScheduler {
    /// For a device with `queues` hardware queues, used from `cpus` CPUs (each at least 1).
    pub fn new(queues: u16, cpus: u16, requests: usize) -> Self {
        let cpus = usize::from(cpus.max(1));
        let queue = Queue {
            contexts: alloc::vec![Fifo::EMPTY; cpus],
            pending: alloc::vec![0; cpus.div_ceil(64)],
            batch: Fifo::EMPTY,
            from: 0,
            busy: false,
            queued: 0,
        };
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
        let request = &view.requests[id];
        let queue = &mut self.queues[request.queue.index()];
        let cpu = usize::from(request.cpu) % queue.contexts.len();
        if at_head {
            self.links.push_front(&mut queue.contexts[cpu], id);
        } else {
            self.links.push_back(&mut queue.contexts[cpu], id);
        }
        queue.pending[cpu / 64] |= 1 << (cpu % 64);
        queue.queued += 1;
    }

    fn dispatch(&mut self, _now: Instant, _view: View<'_>, queue: HwQueue) -> Option<RequestId> {
        let queue = &mut self.queues[queue.index()];
        if queue.queued == 0 {
            return None;
        }
        queue.queued -= 1;
        if queue.batch.is_empty() && queue.busy {
            let cpu = queue.pending_from(queue.from).or_else(|| queue.pending_from(0))?;
            queue.from = (cpu + 1) % queue.contexts.len();
            let id = self.links.pop_front(&mut queue.contexts[cpu]);
            if queue.contexts[cpu].is_empty() {
                queue.pending[cpu / 64] &= !(1 << (cpu % 64));
            }
            return id;
        }
        if queue.batch.is_empty() {
            while let Some(cpu) = queue.pending_from(0) {
                self.links.append(&mut queue.batch, &mut queue.contexts[cpu]);
                queue.pending[cpu / 64] &= !(1 << (cpu % 64));
            }
        }
        self.links.pop_front(&mut queue.batch)
    }

    #[inline]
    fn has_work(&self, queue: HwQueue) -> bool {
        self.queues[queue.index()].queued > 0
    }

    /// The first of the last eight that fits in position; `nomerges=1` does not keep it from looking (as in Linux). Where the
    /// stack then finds the candidate too large, the search is over.
    fn find_merge(&mut self, view: View<'_>, bio: &Bio, _one_hit_only: bool) -> Option<(RequestId, MergeKind)> {
        let newest = self.queues[self.context.0].contexts[self.context.1].last();
        core::iter::successors(newest, |&id| self.links.prev(id)).take(MERGE_WINDOW).find_map(|id| {
            let request = &view.requests[id];
            let kind = position(request, bio, self.discard_ranges)?;
            is_compatible(view.rules, request, bio).then_some((id, kind))
        })
    }

    fn set_busy(&mut self, queue: HwQueue, busy: bool) {
        self.queues[queue.index()].busy = busy;
    }

    fn set_context(&mut self, queue: HwQueue, cpu: u16) {
        let queue = queue.index() % self.queues.len();
        self.context = (queue, usize::from(cpu) % self.queues[queue].contexts.len());
    }

    fn set_discard_ranges(&mut self, ranges: u16) {
        self.discard_ranges = ranges;
    }

    fn self_check(&self, _view: View<'_>) {
        for queue in &self.queues {
            let mut count = self.links.self_check(queue.batch);
            for (cpu, list) in queue.contexts.iter().enumerate() {
                count += self.links.self_check(*list);
                assert_eq!(
                    queue.pending[cpu / 64] >> (cpu % 64) & 1 == 1,
                    !list.is_empty(),
                    "pending bit of CPU {cpu}"
                );
            }
            assert_eq!(count, queue.queued, "requests in the lists");
        }
    }
}

#[cfg(test)]
#[path = "none/tests.rs"]
mod tests;
