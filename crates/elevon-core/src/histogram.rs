//! Latency histogram with fio's bins: groups of 64 counters.
//!
//! The first 128 bins are exact nanosecond values; every later group covers the next power of two
//! in 64 equal steps, so a value is known within 1/64. fio ends after 29 groups, so it shows any
//! time above 17.2 s as 17.1 s. Here the bins go on to the largest value. Adding is O(1); a
//! percentile walks the bins.
//!
//! Only the groups from the lowest to the highest that has a value are in memory: a process has a
//! handful of histograms, whose values are near each other, and a run may have 100,000 processes.

extern crate alloc;
use alloc::vec::Vec;

/// log2 of the bins in a group.
const GROUP_BITS: u32 = 6;
/// Bins in a group.
const GROUP_BINS: usize = 1 << GROUP_BITS;
/// Groups: one for each shift of a value of 64 bits, and one more of values that are not shifted.
const GROUPS: usize = 64 - GROUP_BITS as usize + 1;
/// Bins in a histogram.
pub const BINS: usize = GROUPS * GROUP_BINS;
/// Bins of fio's histograms. fio counts a greater value in the last of them.
pub const FIO_BINS: usize = 29 * GROUP_BINS;

/// Counts of nanosecond values.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    /// The counts of whole groups, from the first that has a value to the last; empty before the
    /// first value.
    bins: Vec<u64>,
    /// The bin of the first count; a multiple of [`GROUP_BINS`].
    first: usize,
    total: u64,
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

/// Returns the bin of a value.
#[inline]
pub const fn bin_of(value: u64) -> usize {
    // The value keeps its highest bit and the GROUP_BITS below it. This bit counts one group more
    // than the shift says, so that values that are not shifted are their own bins.
    let shift = 63 - GROUP_BITS - (value | (2 * GROUP_BINS as u64 - 1)).leading_zeros();
    shift as usize * GROUP_BINS + (value >> shift) as usize
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
        Self { bins: Vec::new(), first: 0, total: 0 }
    }
    /// Counts one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.total += 1;
        match self.bins.get_mut(bin_of(value).wrapping_sub(self.first)) {
            Some(count) => *count += 1,
            None => self.add_elsewhere(bin_of(value)),
        }
    }
    /// Counts a value `count` times.
    pub(crate) fn add_many(&mut self, value: u64, count: u64) {
        let bin = bin_of(value);
        if bin.wrapping_sub(self.first) >= self.bins.len() {
            self.cover(bin, bin);
        }
        self.bins[bin - self.first] += count;
        self.total += count;
    }
    /// Counts a value whose bin may not be in memory.
    #[cold]
    fn add_elsewhere(&mut self, bin: usize) {
        self.cover(bin, bin);
        self.bins[bin - self.first] += 1;
    }
    /// Takes the groups of all bins from `low` to `high` into memory.
    fn cover(&mut self, low: usize, high: usize) {
        let low = low - low % GROUP_BINS;
        let end = high - high % GROUP_BINS + GROUP_BINS;
        if self.bins.is_empty() {
            self.first = low;
        }
        if low < self.first {
            let missing = core::iter::repeat_n(0, self.first - low);
            self.bins.splice(..0, missing);
            self.first = low;
        }
        let end = end.max(self.first + self.bins.len());
        self.bins.reserve_exact(end - self.first - self.bins.len());
        self.bins.resize(end - self.first, 0);
    }
    /// Adds every count of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.bins.is_empty() {
            return;
        }
        self.cover(other.first, other.first + other.bins.len() - 1);
        let mine = &mut self.bins[other.first - self.first..];
        for (mine, theirs) in mine.iter_mut().zip(&other.bins) {
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
        self.bins.get(bin.wrapping_sub(self.first)).copied().unwrap_or(0)
    }
    /// Iterates over non-empty bins, as (value that represents the bin, count), in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counts = self.bins.iter().enumerate().filter(|&(_, &count)| count > 0);
        counts.map(|(at, &count)| (value_of(self.first + at), count))
    }
    /// Returns a percentile, given in millionths (990_000 for the 99th); 0 for an empty histogram.
    pub fn percentile(&self, millionths: u64) -> u64 {
        let rank = (u128::from(self.total) * u128::from(millionths)).div_ceil(1_000_000) as u64;
        let mut seen = 0;
        for (at, &count) in self.bins.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                return value_of(self.first + at);
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
        assert_eq!(bin_of(17_179_869_183), FIO_BINS - 1, "fio's last bin ends at 2^34 ns");
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
        for (millionths, exact) in
            [(500_000, 5_000_000u64), (990_000, 9_900_000), (1_000_000, 10_000_000)]
        {
            let got = h.percentile(millionths);
            assert!(got.abs_diff(exact) * 64 <= exact, "{millionths}: {got}");
        }
        assert_eq!(Histogram::new().percentile(500_000), 0);
    }

    #[test]
    fn percentiles_of_minutes_and_hours_are_within_a_bin() {
        let mut h = Histogram::new();
        let seconds = |s: u64| s * 1_000_000_000;
        for s in 1..=1000 {
            h.add(seconds(s * s));
        }
        for (millionths, exact) in [(500_000, 250_000), (990_000, 980_100), (1_000_000, 1_000_000)]
        {
            let got = h.percentile(millionths);
            assert!(got.abs_diff(seconds(exact)) * 64 <= seconds(exact), "{millionths}: {got}");
        }
    }

    #[test]
    fn a_histogram_of_nothing_has_no_bins() {
        let mut sum = Histogram::new();
        sum.merge(&Histogram::default());
        assert!(sum.bins.is_empty() && sum == Histogram::new());
        assert_eq!((sum.count(5), sum.iter().count(), sum.percentile(1_000_000)), (0, 0, 0));
        sum.add(5);
        assert_eq!((sum.count(5), sum.percentile(500_000)), (1, 5));
    }

    /// Values in any order and merged in any way, against an array of all bins.
    #[test]
    fn only_groups_that_have_values_are_kept() {
        let mut state = 1u64;
        let mut draw = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> (state >> 58)
        };
        for round in 0..200 {
            let values: Vec<u64> = (0..round % 17).map(|_| draw()).collect();
            let mut naive = [0u64; BINS];
            let (mut forwards, mut backwards, mut halves) =
                (Histogram::new(), Histogram::new(), Histogram::new());
            for &value in &values {
                naive[bin_of(value)] += 1;
                forwards.add(value);
            }
            values.iter().rev().for_each(|&value| backwards.add(value));
            for half in values.chunks(3) {
                let mut part = Histogram::new();
                half.iter().for_each(|&value| part.add(value));
                halves.merge(&part);
            }
            assert!(forwards == backwards && forwards == halves, "{values:?}");
            assert!((0..BINS).all(|bin| forwards.count(bin) == naive[bin]), "{values:?}");
            assert_eq!(forwards.iter().map(|(_, count)| count).sum::<u64>(), forwards.total());
            let groups = |bins: &[usize]| {
                bins.last().map_or(0, |last| last / GROUP_BINS - bins[0] / GROUP_BINS + 1)
            };
            let used: Vec<usize> = (0..BINS).filter(|&bin| naive[bin] > 0).collect();
            assert_eq!(forwards.bins.len(), groups(&used) * GROUP_BINS, "{values:?}");
        }
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
