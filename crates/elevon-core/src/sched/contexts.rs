//! Software queues: the requests of each CPU for a hardware queue, in order of arrival.
//!
//! `none` has one set for each hardware queue, Kyber one for each of its domains.
//!
//! Cost: insert and take O(1), merge lookup at most 8 requests, the next list O(CPUs / 64).

extern crate alloc;
use alloc::vec::Vec;

use super::View;
use super::fifo::{Fifo, FifoLinks};
use crate::bio::Bio;
use crate::merge::{MergeKind, is_compatible, position};
use crate::units::RequestId;

/// How many requests of a list are checked for a merge, newest first (as in Linux).
const MERGE_WINDOW: usize = 8;

/// A set of small numbers.
#[derive(Clone, Debug)]
pub(super) struct Mask {
    words: Vec<u64>,
}

impl Mask {
    /// Returns an empty set with room for the numbers below `count`.
    pub(super) fn new(count: usize) -> Self {
        Self { words: alloc::vec![0; count.div_ceil(64)] }
    }

    #[inline]
    pub(super) fn insert(&mut self, n: usize) {
        self.words[n / 64] |= 1 << (n % 64);
    }

    #[inline]
    pub(super) fn remove(&mut self, n: usize) {
        self.words[n / 64] &= !(1 << (n % 64));
    }

    pub(super) fn contains(&self, n: usize) -> bool {
        self.words[n / 64] >> (n % 64) & 1 == 1
    }

    /// Returns the smallest number from `start` on; if there is none, the smallest of all.
    pub(super) fn next_in_turn(&self, start: usize) -> Option<usize> {
        self.next_from(start).or_else(|| self.next_from(0))
    }

    /// Returns the smallest number from `start` on.
    fn next_from(&self, start: usize) -> Option<usize> {
        let mut mask = u64::MAX << (start % 64);
        for (word, bits) in self.words.iter().enumerate().skip(start / 64) {
            if bits & mask != 0 {
                return Some(word * 64 + (bits & mask).trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }
}

/// One list of requests per CPU.
#[derive(Clone, Debug)]
pub(super) struct Contexts {
    lists: Vec<Fifo>,
    /// CPUs whose list is not empty.
    pending: Mask,
}

impl Contexts {
    /// Returns empty lists for `cpus` CPUs, at least 1.
    pub(super) fn new(cpus: usize) -> Self {
        Self { lists: alloc::vec![Fifo::EMPTY; cpus], pending: Mask::new(cpus) }
    }

    /// Returns the number of CPUs.
    pub(super) fn cpus(&self) -> usize {
        self.lists.len()
    }

    /// Adds a request to its CPU's list.
    #[inline]
    pub(super) fn insert(
        &mut self,
        links: &mut FifoLinks,
        view: View<'_>,
        id: RequestId,
        at_head: bool,
    ) {
        let cpu = usize::from(view.requests[id].cpu) % self.lists.len();
        if at_head {
            links.push_front(&mut self.lists[cpu], id);
        } else {
            links.push_back(&mut self.lists[cpu], id);
        }
        self.pending.insert(cpu);
    }

    /// Takes the oldest request of the first CPU from `start` on, wrapping around, that has one.
    /// Returns the CPU too.
    pub(super) fn take_in_turn(
        &mut self,
        links: &mut FifoLinks,
        start: usize,
    ) -> Option<(usize, RequestId)> {
        let cpu = self.pending.next_in_turn(start)?;
        let id = links.pop_front(&mut self.lists[cpu])?;
        if self.lists[cpu].is_empty() {
            self.pending.remove(cpu);
        }
        Some((cpu, id))
    }

    /// Appends every list as a whole to `into`, in order of CPUs.
    #[inline]
    pub(super) fn take_all(&mut self, links: &mut FifoLinks, into: &mut Fifo) {
        while let Some(cpu) = self.pending.next_from(0) {
            links.append(into, &mut self.lists[cpu]);
            self.pending.remove(cpu);
        }
    }

    /// Returns the first of a CPU's last eight requests to which the bio is adjacent and
    /// compatible. If the stack then finds this request too large, no other is tried.
    pub(super) fn find_merge(
        &self,
        links: &FifoLinks,
        view: View<'_>,
        bio: &Bio,
        cpu: usize,
        discard_ranges: u16,
    ) -> Option<(RequestId, MergeKind)> {
        let newest = self.lists[cpu].last();
        core::iter::successors(newest, |&id| links.prev(id)).take(MERGE_WINDOW).find_map(|id| {
            let request = &view.requests[id];
            let kind = position(request, bio, discard_ranges)?;
            is_compatible(view.rules, request, bio).then_some((id, kind))
        })
    }

    /// Iterates over all requests, for checks.
    pub(super) fn iter<'a>(&'a self, links: &'a FifoLinks) -> impl Iterator<Item = RequestId> + 'a {
        self.lists.iter().flat_map(|list| links.iter(*list))
    }

    /// Checks the lists and returns the number of requests. For tests: O(n), panics if an invariant
    /// does not hold.
    pub(super) fn self_check(&self, links: &FifoLinks) -> usize {
        let check = |(cpu, list): (usize, &Fifo)| {
            assert_eq!(self.pending.contains(cpu), !list.is_empty(), "pending bit of CPU {cpu}");
            links.self_check(*list)
        };
        self.lists.iter().enumerate().map(check).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_turn_go_around_the_end() {
        let mut mask = Mask::new(130);
        assert!(mask.next_in_turn(0).is_none());
        for n in [3, 64, 129] {
            mask.insert(n);
        }
        for (start, next) in [(0, 3), (3, 3), (4, 64), (65, 129), (129, 129), (130, 3), (192, 3)] {
            assert_eq!(mask.next_in_turn(start), Some(next), "from {start}");
        }
        mask.remove(3);
        assert_eq!(mask.next_in_turn(130), Some(64));
    }
}
