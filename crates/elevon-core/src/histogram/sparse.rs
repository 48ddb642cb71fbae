//! A histogram with the same bins, which stores only groups of bins that counted something. Use it
//! if there are many histograms with few filled bins.
//!
//! A latency varies within a few powers of two, so a tenant needs a few of the 29 groups. Adding is
//! O(1) and allocates when a group is first used; 240 bytes if empty, plus 512 per used group.

extern crate alloc;
use alloc::boxed::Box;

use super::{GROUP_BINS, GROUPS, Histogram, bin_of, empty_bins, value_of};

/// Counts of nanosecond values, with the bins of [`Histogram`].
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SparseHistogram {
    groups: [Option<Box<[u64; GROUP_BINS]>>; GROUPS],
    total: u64,
}

impl core::fmt::Debug for SparseHistogram {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl SparseHistogram {
    /// Counts one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let bin = bin_of(value);
        self.groups[bin / GROUP_BINS].get_or_insert_with(empty_group)[bin % GROUP_BINS] += 1;
        self.total += 1;
    }

    /// Adds every count of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.groups.iter_mut().zip(&other.groups) {
            if let Some(theirs) = theirs {
                let mine = mine.get_or_insert_with(empty_group);
                mine.iter_mut().zip(theirs.iter()).for_each(|(mine, theirs)| *mine += theirs);
            }
        }
        self.total += other.total;
    }

    /// Returns the number of values.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Iterates over counts that are not zero, by bin, in order.
    fn counts(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let hit = self.groups.iter().enumerate().filter_map(|(at, group)| Some((at * GROUP_BINS, group.as_deref()?)));
        hit.flat_map(|(first, group)| group.iter().enumerate().map(move |(at, &count)| (first + at, count)))
            .filter(|&(_, count)| count > 0)
    }

    /// As [`Histogram::iter`].
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts().map(|(bin, count)| (value_of(bin), count))
    }

    /// As [`Histogram::percentile`].
    pub fn percentile(&self, millionths: u64) -> u64 {
        self.dense().percentile(millionths)
    }

    /// Returns the same counts with every bin stored.
    pub fn dense(&self) -> Histogram {
        let mut all = Histogram::new();
        self.counts().for_each(|(bin, count)| all.bins.get_or_insert_with(empty_bins)[bin] = count);
        all.total = self.total;
        all
    }
}

#[cold]
fn empty_group() -> Box<[u64; GROUP_BINS]> {
    Box::new([0; GROUP_BINS])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::Rng;
    use alloc::vec::Vec;

    #[test]
    fn it_counts_as_the_dense_one() {
        let mut rng = Rng(7);
        let (mut sparse, mut other, mut dense) =
            (SparseHistogram::default(), SparseHistogram::default(), Histogram::new());
        for at in 0..5000 {
            let value = rng.below(u64::MAX) >> rng.below(64);
            if at % 3 == 0 { &mut other } else { &mut sparse }.add(value);
            dense.add(value);
        }
        sparse.merge(&other);
        assert_eq!(sparse.dense(), dense);
        assert_eq!(sparse.iter().collect::<Vec<_>>(), dense.iter().collect::<Vec<_>>());
        for millionths in [0, 1, 500_000, 990_000, 1_000_000] {
            assert_eq!(sparse.percentile(millionths), dense.percentile(millionths));
        }
    }

    #[test]
    fn a_narrow_spread_takes_few_groups() {
        let mut sparse = SparseHistogram::default();
        (80_000..200_000).for_each(|ns| sparse.add(ns));
        assert_eq!(sparse.groups.iter().flatten().count(), 2);
        assert!(size_of::<SparseHistogram>() <= 240);
    }
}
