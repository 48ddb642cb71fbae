//! The requests of queues by sector: for front merges, and on a disk for the order of dispatch.
//!
//! Filing each request in a tree would cost more than the rest of its arrival, and where requests
//! are dispatched in the order of arrival hardly any is ever looked for. So new ones are only
//! counted, by a hash of the sector where they begin. If one that is looked for may be among them,
//! all of its queue are filed in the queue's tree. On a disk each is filed at once.
//!
//! Cost, with n requests in a queue: add and remove O(1), or O(log n) for one that is filed; a
//! search O(log n) and the filing of what is new. Nothing is allocated per request.

extern crate alloc;
use alloc::vec::Vec;

use super::queue::Queue;
use super::slot::Slot;
use crate::merge::MergeKind;
use crate::sched::fifo::FifoLinks;
use crate::tree::TreeLinks;
use crate::units::{RequestId, Sector};

/// The requests of all queues.
#[derive(Clone, Debug)]
pub(super) struct BySector {
    tree: TreeLinks,
    /// Requests that are in no tree, by a hash of the sector where they begin. The number of
    /// counters is a power of two.
    new: Vec<u32>,
    /// Bits of a hash that do not count for the counter.
    shift: u32,
    /// Each request is filed when it arrives.
    is_complete: bool,
}

impl Queue {
    /// Takes out a request, which begins at `sector`.
    #[inline]
    pub(super) fn take(
        &mut self,
        id: RequestId,
        sector: Sector,
        lists: &mut FifoLinks,
        by_sector: &mut BySector,
    ) {
        lists.remove(&mut self.fifo, id);
        by_sector.remove(self, sector, id);
        self.queued -= 1;
    }
}

impl BySector {
    /// Returns an index for requests below `requests`, with none filed.
    pub(super) fn new(requests: usize) -> Self {
        let counters = requests.next_power_of_two().max(64);
        let shift = 64 - counters.trailing_zeros();
        Self {
            tree: TreeLinks::new(requests),
            new: alloc::vec![0; counters],
            shift,
            is_complete: false,
        }
    }

    /// Makes room for the keys below `requests`; the number of counters does not change.
    pub(super) fn grow(&mut self, requests: usize) {
        self.tree.grow(requests);
    }

    /// Sets whether each request is filed when it arrives. Those that wait are to be filed by
    /// [`Self::file_all`].
    pub(super) fn set_complete(&mut self, is_complete: bool) {
        self.is_complete = is_complete;
    }

    /// Multiplication by the golden ratio spreads any stride over the high bits.
    #[inline]
    fn counter(&mut self, sector: Sector) -> &mut u32 {
        let hash = sector.get().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &mut self.new[(hash >> self.shift) as usize]
    }

    /// Adds a request, which is the newest of its queue.
    #[inline]
    pub(super) fn add(&mut self, queue: &mut Queue, sector: Sector, id: RequestId) {
        if self.is_complete {
            self.tree.insert(&mut queue.sorted, sector, id);
        } else {
            queue.unsorted += 1;
            *self.counter(sector) += 1;
        }
    }

    /// Removes a request.
    #[inline]
    pub(super) fn remove(&mut self, queue: &mut Queue, sector: Sector, id: RequestId) {
        if self.tree.contains(id) {
            self.tree.remove(&mut queue.sorted, id);
        } else {
            queue.unsorted -= 1;
            *self.counter(sector) -= 1;
        }
    }

    /// Files the requests of a queue that are not filed yet, in the order of arrival.
    pub(super) fn file_all(&mut self, lists: &FifoLinks, slots: &[Slot], queue: &mut Queue) {
        let Some(newest) = queue.fifo.last().filter(|_| queue.unsorted > 0) else { return };
        // Those that are not filed have arrived last.
        let oldest =
            (1..queue.unsorted).fold(newest, |id, _| lists.prev(id).expect("it is counted"));
        for id in lists.iter_from(oldest) {
            let sector = slots[id.index()].sector;
            *self.counter(sector) -= 1;
            self.tree.insert(&mut queue.sorted, sector, id);
        }
        queue.unsorted = 0;
    }

    /// Returns the request of a queue that begins at a sector. If there is one, all of the queue
    /// are filed.
    pub(super) fn first_at(
        &mut self,
        lists: &FifoLinks,
        slots: &[Slot],
        queue: &mut Queue,
        sector: Sector,
    ) -> Option<RequestId> {
        if *self.counter(sector) > 0 {
            self.file_all(lists, slots, queue);
        }
        self.tree.first_at(queue.sorted, sector)
    }

    /// Notes that a request begins at another sector now.
    pub(super) fn refile(
        &mut self,
        lists: &FifoLinks,
        slots: &mut [Slot],
        queue: &mut Queue,
        id: RequestId,
        sector: Sector,
    ) {
        self.file_all(lists, slots, queue);
        slots[id.index()].sector = sector;
        self.tree.refile(&mut queue.sorted, sector, id);
    }

    /// Returns the neighbour of a request that has grown, of those that are filed: the next for
    /// `Back`, the one before for `Front`.
    pub(super) fn neighbour(&self, id: RequestId, kind: MergeKind) -> Option<RequestId> {
        self.tree.neighbour(id, kind)
    }

    /// Returns the first request of a queue from a sector on, or the first of all. On a disk.
    pub(super) fn next_in_turn(&self, queue: &Queue, from: Sector) -> Option<RequestId> {
        self.tree.lower_bound(queue.sorted, from).or_else(|| self.tree.first(queue.sorted))
    }

    /// Checks which requests of a queue are filed, for tests.
    pub(super) fn self_check(&self, lists: &FifoLinks, queue: &Queue) {
        let filed = self.tree.self_check(queue.sorted);
        assert_eq!(
            filed + queue.unsorted as usize,
            queue.queued as usize,
            "sorted requests and others"
        );
        let is_filed = |(at, id)| self.tree.contains(id) == (at < filed);
        assert!(
            lists.iter(queue.fifo).enumerate().all(is_filed),
            "those that are not filed are the newest"
        );
    }

    /// Returns how many requests are counted as not filed, for tests.
    pub(super) fn unsorted(&self) -> u32 {
        self.new.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::aileron::ids::MemberId;
    use elevon_testkit::Rng;

    /// Two queues of requests at few places, so that many begin at the same sector.
    #[test]
    fn finds_what_a_search_of_all_requests_finds() {
        for seed in 1..9 {
            let (mut rng, count) = (Rng(seed), 40);
            let (mut lists, mut by_sector) = (FifoLinks::new(count), BySector::new(count));
            let mut slots = alloc::vec![Slot::default(); count];
            let mut queues = [0, 1].map(|id| Queue::new(MemberId(id), 1));
            // Queue and sector of each request, in the order in which the tree has equal ones.
            let mut oracle: Vec<(usize, Sector, RequestId)> = Vec::new();
            for _ in 0..4_000 {
                let id = RequestId(rng.below(count as u64) as u32);
                let (at, sector) = (rng.below(2) as usize, Sector::new(rng.below(30)));
                match oracle.iter().position(|entry| entry.2 == id) {
                    None => {
                        slots[id.index()].sector = sector;
                        lists.push_back(&mut queues[at].fifo, id);
                        by_sector.add(&mut queues[at], sector, id);
                        queues[at].queued += 1;
                        oracle.push((at, sector, id));
                    }
                    Some(found) => {
                        let (at, before, _) = oracle.remove(found);
                        if rng.one_in(4) {
                            by_sector.refile(&lists, &mut slots, &mut queues[at], id, sector);
                            oracle.push((at, sector, id));
                        } else {
                            lists.remove(&mut queues[at].fifo, id);
                            by_sector.remove(&mut queues[at], before, id);
                            queues[at].queued -= 1;
                        }
                    }
                }
                let looks_for = Sector::new(rng.below(60));
                if rng.one_in(3) {
                    let due = oracle
                        .iter()
                        .find(|entry| (entry.0, entry.1) == (at, looks_for))
                        .map(|entry| entry.2);
                    assert_eq!(by_sector.first_at(&lists, &slots, &mut queues[at], looks_for), due);
                }
                queues.iter().for_each(|queue| by_sector.self_check(&lists, queue));
                assert_eq!(
                    by_sector.unsorted(),
                    queues.iter().map(|queue| queue.unsorted).sum::<u32>()
                );
            }
        }
    }
}
