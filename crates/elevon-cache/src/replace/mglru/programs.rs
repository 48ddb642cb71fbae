//! Programs' pages in generations: as many lists of two counts each. Cost: O(generations) for each
//! operation.

use super::{GENERATIONS, Version, at};
use crate::replace::control::{Position, TierControl};
use crate::replace::programs::{Anonymous, Population};

/// Generations of programs' pages. The youngest is that of files' pages, the oldest has a number of
/// its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Programs {
    pub(super) anonymous: Anonymous,
    pub(super) min_seq: u64,
    lists: [Population; GENERATIONS as usize],
    control: TierControl,
}

impl Programs {
    /// They begin in the second youngest generation.
    pub(super) fn new(anonymous: Anonymous, min_seq: u64, max_seq: u64) -> Self {
        let mut new = Self { anonymous, min_seq, ..Self::default() };
        new.lists[at(max_seq - 1)] = Population { touched: anonymous.touched, idle: anonymous.idle };
        new
    }

    pub(super) fn size(&self, seq: u64) -> u64 {
        self.lists[at(seq)].len()
    }

    pub(super) fn total(&self) -> u64 {
        self.lists.iter().map(|list| list.len()).sum()
    }

    /// Evictions and refaults, with the gain that swappiness gives them. Nothing is touched again
    /// that was idle: no refaults.
    pub(super) fn position(&self) -> Position {
        self.control.position(0, u64::from(self.anonymous.swappiness))
    }

    /// The walk finds what is in use, and takes it to the youngest generation.
    pub(super) fn walk(&mut self, max_seq: u64) {
        let touched = self.lists.iter_mut().map(|list| core::mem::take(&mut list.touched)).sum();
        self.lists[at(max_seq)].touched = touched;
    }

    /// The oldest generation is over, and is empty; with pages in it, they go to the next.
    pub(super) fn advance(&mut self) {
        let oldest = core::mem::take(&mut self.lists[at(self.min_seq)]);
        self.min_seq += 1;
        self.lists[at(self.min_seq)].add(oldest);
        self.control.advance();
    }

    /// Looks at up to `count` of the oldest: those in use go to the youngest generation, idle ones
    /// to zram, or on if it is full. Answers how many it looked at, and how many went.
    pub(super) fn scan(&mut self, count: u64, max_seq: u64) -> (u64, u64) {
        let part = self.lists[at(self.min_seq)].take(count);
        let swapped = self.anonymous.swap.take(part.idle);
        self.anonymous.idle -= swapped;
        self.control.evicted[0] += swapped;
        self.lists[at(max_seq)].touched += part.touched;
        self.lists[at(self.min_seq + 1)].idle += part.idle - swapped;
        (part.len(), swapped)
    }

    /// Whether they are looked at before files' pages, whose oldest generation is `min_seq` and
    /// which stand at `files`.
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
            assert!(exists || self.lists[index].len() == 0, "a generation that is over has programs' pages");
        }
        let Anonymous { touched, idle, .. } = self.anonymous;
        let sum = self.lists.iter().fold(Population::default(), |mut sum, &list| {
            sum.add(list);
            sum
        });
        assert_eq!((sum.touched, sum.idle), (touched, idle));
    }
}
