//! Latency histogram with fio's bins: 29 groups of 64, 1856 counters.
//!
//! The first 128 bins are exact nanosecond values; every later group covers the next power of two
//! in 64 equal steps, so a value is known within 1/64. Adding is O(1) and allocates the bins once;
//! a percentile walks them.

extern crate alloc;
use alloc::boxed::Box;
use alloc::vec;

mod sparse;

pub use sparse::SparseHistogram;

/// log2 of the bins in a group.
const GROUP_BITS: u32 = 6;
/// Bins in a group.
const GROUP_BINS: usize = 1 << GROUP_BITS;
/// Groups.
const GROUPS: usize = 29;
/// Bins in a histogram.
pub const BINS: usize = GROUPS * GROUP_BINS;

/// Counts of nanosecond values.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    /// `None` before the first value: a job has a dozen histograms, most of them for directions
    /// that it does not use, and a run may have thousands of jobs.
    bins: Option<Box<[u64; BINS]>>,
    total: u64,
}

/// Returns bins with all counts zero.
fn empty_bins() -> Box<[u64; BINS]> {
    let bins: Box<[u64]> = vec![0; BINS].into_boxed_slice();
    bins.try_into().unwrap_or_else(|_| unreachable!("the vector has BINS elements"))
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Returns the bin of a value; values past the last bin count in the last.
#[inline]
pub const fn bin_of(value: u64) -> usize {
    let top = 63 - (value | 1).leading_zeros();
    if top <= GROUP_BITS {
        return value as usize;
    }
    let shift = top - GROUP_BITS;
    let group = shift as usize + 1;
    let bin = group * GROUP_BINS + ((value >> shift) as usize & (GROUP_BINS - 1));
    if bin < BINS { bin } else { BINS - 1 }
}

/// Returns the value that represents a bin: the exact value in the first 128 bins, the middle of
/// the bin later.
pub const fn value_of(bin: usize) -> u64 {
    if bin < 2 * GROUP_BINS {
        return bin as u64;
    }
    let shift = (bin / GROUP_BINS - 1) as u32;
    let base = ((GROUP_BINS + bin % GROUP_BINS) as u64) << shift;
    base + (1 << shift) / 2
}

impl Histogram {
    /// Returns an empty histogram.
    pub const fn new() -> Self {
        Self { bins: None, total: 0 }
    }
    /// Counts one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.bins.get_or_insert_with(empty_bins)[bin_of(value)] += 1;
        self.total += 1;
    }
    /// Adds every count of another histogram.
    pub fn merge(&mut self, other: &Self) {
        let Some(theirs) = &other.bins else { return };
        for (mine, theirs) in self.bins.get_or_insert_with(empty_bins).iter_mut().zip(theirs.iter()) {
            *mine += theirs;
        }
        self.total += other.total;
    }
    /// Returns the number of values.
    pub const fn total(&self) -> u64 {
        self.total
    }
    /// Returns the count of one bin.
    pub fn count(&self, bin: usize) -> u64 {
        self.bins.as_ref().map_or(0, |bins| bins[bin])
    }
    /// Iterates over non-empty bins, as (value that represents the bin, count), in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let bins = self.bins.iter().flat_map(|bins| bins.iter());
        bins.enumerate().filter(|&(_, &count)| count > 0).map(|(bin, &count)| (value_of(bin), count))
    }
    /// Returns a percentile, given in millionths (990_000 for the 99th); 0 for an empty histogram.
    pub fn percentile(&self, millionths: u64) -> u64 {
        let rank = (u128::from(self.total) * u128::from(millionths)).div_ceil(1_000_000) as u64;
        let mut seen = 0;
        for (bin, &count) in self.bins.iter().flat_map(|bins| bins.iter()).enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                return value_of(bin);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_exact_then_64_steps_per_doubling() {
        for v in 0..128 {
            assert_eq!(value_of(bin_of(v)), v);
        }
        assert_eq!(bin_of(128), 128);
        assert_eq!(bin_of(129), 128);
        assert_eq!(value_of(128), 129);
        assert_eq!(bin_of(u64::MAX), BINS - 1);
        let mut last = 0;
        for bin in 0..BINS {
            assert_eq!(bin_of(value_of(bin)), bin, "bin {bin}");
            assert!(value_of(bin) >= last);
            last = value_of(bin);
        }
    }

    #[test]
    fn percentiles_are_within_a_bin() {
        let mut h = Histogram::new();
        for v in 1..=10_000u64 {
            h.add(v * 1000);
        }
        for (millionths, exact) in [(500_000, 5_000_000u64), (990_000, 9_900_000), (1_000_000, 10_000_000)] {
            let got = h.percentile(millionths);
            assert!(got.abs_diff(exact) * 64 <= exact, "{millionths}: {got}");
        }
        assert_eq!(Histogram::new().percentile(500_000), 0);
    }

    #[test]
    fn a_histogram_of_nothing_has_no_bins() {
        let mut sum = Histogram::new();
        sum.merge(&Histogram::default());
        assert!(sum.bins.is_none() && sum == Histogram::new());
        assert_eq!((sum.count(5), sum.iter().count(), sum.percentile(1_000_000)), (0, 0, 0));
        sum.add(5);
        assert_eq!((sum.count(5), sum.percentile(500_000)), (1, 5));
    }

    #[test]
    fn merge_adds() {
        let (mut a, mut b) = (Histogram::new(), Histogram::new());
        a.add(5);
        b.add(5);
        b.add(1 << 30);
        a.merge(&b);
        assert_eq!((a.total(), a.count(5)), (3, 2));
    }
}
