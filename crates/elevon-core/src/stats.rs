//! Statistics of a run for each job: fio's figures, in integers.
//!
//! Sources fill them in; reports read them. Means and deviations are computed by the report, which
//! may use floats.

use crate::histogram::Histogram;

/// Sum, extremes and histogram of a latency in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyStat {
    /// Number of values.
    pub count: u64,
    /// Smallest value; 0 if there is none.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Sum of the values.
    pub sum: u128,
    /// Sum of the squares; `u128::MAX` if it would be larger.
    pub sum_squares: u128,
    /// The distribution.
    pub histogram: Histogram,
}

impl LatencyStat {
    /// Counts one value.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        if ns < self.min || self.count == 0 {
            self.min = ns;
        }
        if ns > self.max {
            self.max = ns;
        }
        self.count += 1;
        self.sum += u128::from(ns);
        let (sum, is_too_large) = self.sum_squares.overflowing_add(u128::from(ns) * u128::from(ns));
        self.sum_squares = if is_too_large { largest_sum() } else { sum };
        self.histogram.add(ns);
    }

    /// Counts a value `times` times.
    pub(crate) fn add_many(&mut self, ns: u64, times: u64) {
        if times == 0 {
            return;
        }
        self.min = if self.count == 0 { ns } else { self.min.min(ns) };
        self.max = self.max.max(ns);
        self.count += times;
        let sum = u128::from(ns) * u128::from(times);
        self.sum += sum;
        let squares =
            sum.checked_mul(ns.into()).and_then(|squares| self.sum_squares.checked_add(squares));
        self.sum_squares = squares.unwrap_or_else(largest_sum);
        self.histogram.add_many(ns, times);
    }

    /// Adds the values of another statistic of the same quantity.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.sum_squares = self.sum_squares.saturating_add(other.sum_squares);
        self.histogram.merge(&other.histogram);
    }

    /// Returns a percentile, in millionths, between the smallest and the largest value; `None` if
    /// there are no values.
    pub fn percentile(&self, millionths: u64) -> Option<u64> {
        (self.count > 0).then(|| self.histogram.percentile(millionths).clamp(self.min, self.max))
    }
}

/// A value that was added several times in a row and is still to be counted in a [`LatencyStat`]:
/// in a simulation many latencies are always the same, as that of a submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeats {
    value: u64,
    times: u64,
}

impl Repeats {
    /// Counts one value, in `stat` only when another value comes.
    #[inline]
    pub fn add(&mut self, ns: u64, stat: &mut LatencyStat) {
        if ns == self.value {
            self.times += 1;
        } else {
            self.begin(ns, stat);
        }
    }

    /// Counts the last value again, so many times; zero, if there was none.
    #[inline]
    pub const fn repeat(&mut self, times: u64) {
        self.times += times;
    }

    /// Begins to count another value.
    #[inline(never)]
    fn begin(&mut self, ns: u64, stat: &mut LatencyStat) {
        match self.times {
            1 => stat.add(self.value),
            times => stat.add_many(self.value, times),
        }
        (self.value, self.times) = (ns, 1);
    }

    /// Counts in `stat` what is still to be counted.
    pub fn flush(&mut self, stat: &mut LatencyStat) {
        stat.add_many(self.value, core::mem::take(&mut self.times));
    }

    /// Returns `stat` with what is still to be counted.
    pub(crate) fn counted_in(mut self, stat: &LatencyStat) -> LatencyStat {
        let mut all = stat.clone();
        self.flush(&mut all);
        all
    }
}

/// Returns the largest sum of squares. Of times from a hostile trace, two squares may exceed it.
#[cold]
const fn largest_sum() -> u128 {
    u128::MAX
}

/// Data direction as fio counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Direction {
    /// Reads.
    Read = 0,
    /// Writes.
    Write = 1,
    /// Trims (discards).
    Trim = 2,
}

impl Direction {
    /// All three, in fio's order.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Trim];
}

/// A running summary of samples taken at intervals (bandwidth in KiB/s, IOPS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleStat {
    /// Number of samples.
    pub count: u64,
    /// Smallest sample.
    pub min: u64,
    /// Largest sample.
    pub max: u64,
    /// Sum of the samples.
    pub sum: u128,
    /// Sum of their squares.
    pub sum_squares: u128,
}

impl SampleStat {
    /// Adds one sample.
    pub fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        self.sum_squares += u128::from(value) * u128::from(value);
    }

    /// Adds the samples of a job that ran at the same time, as fio does for a group: smallest,
    /// largest and mean are summed, the sample counts are summed, and the spread about each mean is
    /// pooled.
    pub fn merge(&mut self, other: &Self) {
        if self.count == 0 || other.count == 0 {
            *self = if self.count == 0 { *other } else { *self };
            return;
        }
        let (mine, theirs) = (u128::from(self.count), u128::from(other.count));
        let both = mine + theirs;
        let spread =
            |stat: &Self, count: u128| stat.sum_squares.saturating_sub(stat.sum * stat.sum / count);
        let spread = spread(self, mine) + spread(other, theirs);
        self.min += other.min;
        self.max += other.max;
        self.sum = (self.sum * theirs + other.sum * mine) * both / (mine * theirs);
        self.sum_squares = self.sum * self.sum / both + spread;
        self.count += other.count;
    }
}

/// Statistics of one direction of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectionStats {
    /// I/Os completed within the measured time.
    pub ios: u64,
    /// I/Os that transferred less than was asked.
    pub short_ios: u64,
    /// Bytes completed within the measured time. (Beside `ios`, both would be added as a vector,
    /// which takes more instructions.)
    pub bytes: u64,
    /// Errors that the job ignored, or the one that ended it.
    pub errors: u64,
    /// Time over which `ios` and `bytes` were counted, in nanoseconds.
    pub runtime_ns: u64,
    /// Submission latency: from the I/O's start to the return of the submission. Asynchronous
    /// engines only.
    pub slat: LatencyStat,
    /// Completion latency: from submission to completion.
    pub clat: LatencyStat,
    /// Total latency: from the I/O's start to its completion.
    pub lat: LatencyStat,
    /// Bandwidth in KiB/s, one sample each 500 ms.
    pub bandwidth: SampleStat,
    /// IOPS, one sample each 500 ms.
    pub iops: SampleStat,
    /// Latency by priority word, for jobs that use more than one: completion latency, or total
    /// latency if the job has `lat_percentiles=1`.
    pub by_priority: alloc::vec::Vec<(crate::ioprio::IoPrio, LatencyStat)>,
}
extern crate alloc;

impl DirectionStats {
    /// Adds another direction's figures (group reporting). The longer runtime is kept.
    pub fn merge(&mut self, other: &Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.short_ios += other.short_ios;
        self.errors += other.errors;
        self.runtime_ns = self.runtime_ns.max(other.runtime_ns);
        self.slat.merge(&other.slat);
        self.clat.merge(&other.clat);
        self.lat.merge(&other.lat);
        self.bandwidth.merge(&other.bandwidth);
        self.iops.merge(&other.iops);
        for (prio, stat) in &other.by_priority {
            match self.by_priority.iter_mut().find(|(p, _)| p == prio) {
                Some((_, mine)) => mine.merge(stat),
                None => self.by_priority.push((*prio, stat.clone())),
            }
        }
    }
}

/// Statistics of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobStats {
    /// Read, write and trim, by [`Direction`].
    pub directions: [DirectionStats; 3],
    /// fsync, fdatasync and their latency.
    pub sync: LatencyStat,
    /// I/Os by the depth in flight when they were submitted: 1, 2, 4, 8, 16, 32, 64 and more.
    pub depth_levels: [u64; 7],
    /// Submissions by how many I/Os each carried: 0, 1-4, 5-8, 9-16, 17-32, 33-64, more.
    pub submit_levels: [u64; 7],
    /// Reaps by how many I/Os each returned: as `submit_levels`.
    pub complete_levels: [u64; 7],
    /// The time in nanoseconds that the figures are of: without a ramp, and of all processes
    /// together.
    pub run_ns: u64,
    /// The part of `run_ns` in which the process had no I/O under way, before its last one: it was
    /// thinking, or it kept to its rate.
    pub idle_ns: u64,
    /// CPU time charged to the process, in nanoseconds.
    pub cpu_ns: u64,
    /// The part of `cpu_ns` outside the kernel. A simulated process spends all of its time inside.
    pub cpu_user_ns: u64,
    /// Times that the process slept.
    pub context_switches: u64,
    /// First error that ended the job, as an errno (positive); 0 for none.
    pub error: i32,
    /// First error, whether or not it ended the job: a positive errno, EILSEQ for a block with
    /// wrong content; 0 for none.
    pub first_error: i32,
    /// Bytes that were verified.
    pub verified_bytes: u64,
    /// Blocks whose content differed from what was written.
    pub verify_errors: u64,
}

impl JobStats {
    /// Adds another job's figures (group reporting).
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.directions.iter_mut().zip(&other.directions) {
            mine.merge(theirs);
        }
        self.sync.merge(&other.sync);
        for (mine, theirs) in [
            (&mut self.depth_levels, &other.depth_levels),
            (&mut self.submit_levels, &other.submit_levels),
            (&mut self.complete_levels, &other.complete_levels),
        ] {
            for (m, t) in mine.iter_mut().zip(theirs) {
                *m += t;
            }
        }
        self.run_ns += other.run_ns;
        self.idle_ns += other.idle_ns;
        self.cpu_ns += other.cpu_ns;
        self.cpu_user_ns += other.cpu_user_ns;
        self.context_switches += other.context_switches;
        if self.error == 0 {
            self.error = other.error;
        }
        if self.first_error == 0 {
            self.first_error = other.first_error;
        }
        self.verified_bytes += other.verified_bytes;
        self.verify_errors += other.verify_errors;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_values_are_as_many_values() {
        let (mut one_by_one, mut repeated) = (LatencyStat::default(), LatencyStat::default());
        let mut repeats = Repeats::default();
        for values in [&[][..], &[0; 3], &[5, 900, 900], &[7], &[0; 2], &[u64::MAX; 3], &[0, 0, 1]]
        {
            for &value in values {
                one_by_one.add(value);
                repeats.add(value, &mut repeated);
            }
            assert_eq!(repeats.counted_in(&repeated), one_by_one);
        }
        repeats.repeat(3);
        one_by_one.add_many(1, 3);
        repeats.flush(&mut repeated);
        assert_eq!(repeated, one_by_one);
        repeats.flush(&mut repeated);
        assert_eq!(repeated, one_by_one, "nothing is counted twice");
    }

    #[test]
    fn samples_of_members_add_up_as_in_a_group_of_fios() {
        let stat = |values: &[u64]| {
            let mut stat = SampleStat::default();
            values.iter().for_each(|&value| stat.add(value));
            stat
        };
        let mut both = stat(&[90, 100, 110]);
        both.merge(&stat(&[40, 60]));
        assert_eq!(
            (both.count, both.min, both.max, both.sum),
            (5, 130, 170, 750),
            "a mean of 100 + 50"
        );
        // Spread about the means of each: 100 + 100 and 100 + 100.
        assert_eq!(both.sum_squares, 750 * 750 / 5 + 400);
        let mut none = SampleStat::default();
        none.merge(&both);
        assert_eq!(none, both);
        none.merge(&SampleStat::default());
        assert_eq!(none, both);
    }
}
