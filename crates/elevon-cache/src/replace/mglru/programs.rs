//! Generations of programs' pages, each as two counts. Cost: O(generations) per operation.

use super::{GENERATIONS, Version, at};
use crate::replace::control::{Position, TierControl};
use crate::replace::programs::{Anonymous, Population};

/// Generations of programs' pages. The youngest generation has the number of file pages' youngest;
/// the oldest has its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Programs {
    pub(super) anonymous: Anonymous,
    pub(super) min_seq: u64,
    lists: [Population; GENERATIONS as usize],
    control: TierControl,
}

impl Programs {
    /// Puts all programs' pages in the second youngest generation.
    pub(super) fn new(anonymous: Anonymous, min_seq: u64, max_seq: u64) -> Self {
        let mut new = Self { anonymous, min_seq, ..Self::default() };
        new.lists[at(max_seq - 1)] =
            Population { touched: anonymous.touched, idle: anonymous.idle };
        new
    }

    pub(super) fn size(&self, seq: u64) -> u64 {
        self.lists[at(seq)].len()
    }

    pub(super) fn total(&self) -> u64 {
        self.lists.iter().map(|list| list.len()).sum()
    }

    /// Returns evictions and refaults, weighted by swappiness. There are no refaults, because idle
    /// pages are never touched again.
    pub(super) fn position(&self) -> Position {
        self.control.position(0, u64::from(self.anonymous.swappiness))
    }

    /// Moves the pages in use to the youngest generation, as the ageing walk does.
    pub(super) fn walk(&mut self, max_seq: u64) {
        let touched = self.lists.iter_mut().map(|list| core::mem::take(&mut list.touched)).sum();
        self.lists[at(max_seq)].touched = touched;
    }

    /// Ends the oldest generation. Its pages, if any, go to the next.
    pub(super) fn advance(&mut self) {
        let oldest = core::mem::take(&mut self.lists[at(self.min_seq)]);
        self.min_seq += 1;
        self.lists[at(self.min_seq)].add(oldest);
        self.control.advance();
    }

    /// Scans up to `count` pages of the oldest generation. Pages in use go to the youngest
    /// generation; idle ones go to zram, or to the next generation if zram is full. Returns the
    /// numbers of pages scanned and swapped.
    pub(super) fn scan(&mut self, count: u64, max_seq: u64) -> (u64, u64) {
        let part = self.lists[at(self.min_seq)].take(count);
        let swapped = self.anonymous.swap.take(part.idle);
        self.anonymous.idle -= swapped;
        self.control.evicted[0] += swapped;
        self.lists[at(max_seq)].touched += part.touched;
        self.lists[at(self.min_seq + 1)].idle += part.idle - swapped;
        (part.len(), swapped)
    }

    /// Returns true if programs' pages are scanned before file pages. `min_seq` is the oldest
    /// generation of file pages, and `files` their position.
    pub(super) fn go_first(&self, version: Version, min_seq: u64, files: Position) -> bool {
        let swappiness = self.anonymous.swappiness;
        match version {
            _ if !self.anonymous.is_reclaimable() => false,
            Version::V6_1 if self.min_seq < min_seq => true,
            _ if swappiness == 1 => false,
            _ if swappiness == 200 => true,
            Version::V6_1 | Version::V6_14 => !files.passes(self.position()),
        }
    }

    #[cfg(test)]
    pub(super) fn set_counts(&mut self, refaulted: u64, evicted: u64) {
        (self.control.refaulted[0], self.control.evicted[0]) = (refaulted, evicted);
    }

    #[cfg(test)]
    pub(super) fn move_all(&mut self, max_seq: u64, seq: u64) {
        let all = core::mem::take(&mut self.lists[at(max_seq - 1)]);
        self.lists[at(seq)].add(all);
    }

    pub(super) fn self_check(&self, max_seq: u64) {
        assert!(self.min_seq < max_seq && max_seq - self.min_seq < GENERATIONS);
        for index in 0..GENERATIONS as usize {
            let exists = (self.min_seq..=max_seq).any(|seq| at(seq) == index);
            assert!(
                exists || self.lists[index].len() == 0,
                "a generation that has ended has programs' pages"
            );
        }
        let Anonymous { touched, idle, .. } = self.anonymous;
        let sum = self.lists.iter().fold(Population::default(), |mut sum, &list| {
            sum.add(list);
            sum
        });
        assert_eq!((sum.touched, sum.idle), (touched, idle));
    }
}
