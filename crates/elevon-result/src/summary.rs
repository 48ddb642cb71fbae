//! Figures computed from counts: means, deviations, rates, shares, and differences of disk
//! statistics.

use std::collections::BTreeMap;

use elevon_core::account::DiskStats;
use elevon_core::stats::{DirectionStats, JobStats, LatencyStat, SampleStat};
use elevon_core::units::Nanos;

use crate::result::RunResult;

/// Returns `a / b`, or 0 if b is 0, as iostat and fio print undefined figures.
pub fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

/// Returns the mean from a count and a sum.
pub fn mean(count: u64, sum: u128) -> f64 {
    ratio(sum as f64, count as f64)
}

/// Returns the sample standard deviation, computed in exact integers unless they overflow.
pub fn deviation(count: u64, sum: u128, sum_squares: u128) -> f64 {
    if count < 2 {
        return 0.0;
    }
    let n = u128::from(count);
    let scaled = match (sum_squares.checked_mul(n), sum.checked_mul(sum)) {
        (Some(a), Some(b)) => a.saturating_sub(b) as f64,
        _ => (sum_squares as f64 * n as f64 - sum as f64 * sum as f64).max(0.0),
    };
    (scaled / (n as f64 * (n - 1) as f64)).sqrt()
}

/// Returns the mean latency in nanoseconds; 0 if there are no samples.
pub fn latency_mean(stat: &LatencyStat) -> f64 {
    mean(stat.count, stat.sum)
}

/// Returns the sample standard deviation of a latency in nanoseconds.
pub fn latency_deviation(stat: &LatencyStat) -> f64 {
    deviation(stat.count, stat.sum, stat.sum_squares)
}

/// Returns a percentile of a latency in nanoseconds; 0 if there are no samples.
pub fn percentile(stat: &LatencyStat, millionths: u32) -> u64 {
    stat.percentile(millionths.into()).unwrap_or(0)
}

/// Returns the mean of samples.
pub fn sample_mean(stat: &SampleStat) -> f64 {
    mean(stat.count, stat.sum)
}

/// Returns the standard deviation of samples.
pub fn sample_deviation(stat: &SampleStat) -> f64 {
    deviation(stat.count, stat.sum, stat.sum_squares)
}

/// Returns a runtime in whole milliseconds as reports print it: rounded, and at least 1 for a
/// non-zero runtime.
pub fn runtime_ms(ns: u64) -> u64 {
    if ns == 0 { 0 } else { ((ns + 500_000) / 1_000_000).max(1) }
}

/// Returns I/Os per second.
pub fn iops(stats: &DirectionStats) -> f64 {
    ratio(stats.ios as f64 * 1e9, stats.runtime_ns as f64)
}

/// Returns bytes per second.
pub fn bandwidth(stats: &DirectionStats) -> f64 {
    ratio(stats.bytes as f64 * 1e9, stats.runtime_ns as f64)
}

/// Returns all directions of a job as one.
pub fn mixed(stats: &JobStats) -> DirectionStats {
    let mut sum = DirectionStats::default();
    for direction in &stats.directions {
        sum.merge(direction);
    }
    sum
}

/// The bytes per second of all jobs in each reporting group of a run.
#[derive(Debug)]
pub struct GroupBandwidths(BTreeMap<u32, [f64; 4]>);

impl GroupBandwidths {
    /// Adds up the jobs of a run, each once.
    pub fn from_run(run: &RunResult) -> Self {
        let mut groups = BTreeMap::new();
        for job in &run.jobs {
            let sums: &mut [f64; 4] = groups.entry(job.group).or_default();
            let directions = job.stats.directions.iter().map(bandwidth);
            sums.iter_mut()
                .zip(directions.chain([bandwidth_together(&job.stats.directions)]))
                .for_each(|(sum, own)| *sum += own);
        }
        Self(groups)
    }

    /// Returns those of a group, in one direction or, for `None`, in all.
    pub fn get(&self, group: u32, direction: Option<usize>) -> f64 {
        self.0.get(&group).map_or(0.0, |sums| sums[direction.unwrap_or(3)])
    }
}

/// Returns the bytes per second of directions of a job together, as [`mixed`] has them.
fn bandwidth_together(directions: &[DirectionStats]) -> f64 {
    let bytes: u64 = directions.iter().map(|direction| direction.bytes).sum();
    let longest = directions.iter().map(|direction| direction.runtime_ns).max().unwrap_or(0);
    ratio(bytes as f64 * 1e9, longest as f64)
}

/// Returns all directions of all jobs as one, over the time in which any of them was measured. Jobs
/// that ran one after another do not count as if they had run at the same time.
pub fn total(run: &RunResult) -> DirectionStats {
    let mut sum = DirectionStats::default();
    let mut measured = Vec::new();
    for job in &run.jobs {
        let all = mixed(&job.stats);
        measured.push((job.end.get().saturating_sub(all.runtime_ns), job.end.get()));
        sum.merge(&all);
    }
    sum.runtime_ns = covered(measured);
    sum
}

/// Returns the length of the union of intervals.
fn covered(mut intervals: Vec<(u64, u64)>) -> u64 {
    intervals.sort_unstable();
    let (mut sum, mut reached) = (0, 0);
    for (start, end) in intervals {
        let from = start.max(reached);
        sum += end.saturating_sub(from);
        reached = reached.max(end);
    }
    sum
}

/// Returns the latency to show for a direction: the total latency, or the completion latency if the
/// total was not measured.
pub fn shown_latency(stats: &DirectionStats) -> &LatencyStat {
    if stats.lat.count > 0 { &stats.lat } else { &stats.clat }
}

/// Change of a device's statistics between two snapshots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskDelta {
    /// Time between the snapshots in seconds.
    pub seconds: f64,
    /// Changes of the 17 numbers of `/sys/block/X/stat`; the field "in flight" is the later value.
    pub fields: [u64; 17],
    /// Exact mean number of requests in flight.
    pub mean_in_flight: f64,
    /// Busy time in nanoseconds by each form: sampled, inflight, precise, exact.
    pub busy: [Nanos; 4],
}

impl DiskDelta {
    /// Returns the change from one snapshot to a later one.
    pub fn between(start: &DiskStats, end: &DiskStats) -> Self {
        let (a, b) = (start.fields(), end.fields());
        let mut fields = std::array::from_fn(|field| b[field].saturating_sub(a[field]));
        fields[8] = b[8];
        let span = end.at.since(start.at);
        let (from, to) = (start.utilisation, end.utilisation);
        let ms = |a: u64, b: u64| Nanos::from_millis(b.saturating_sub(a));
        Self {
            seconds: span.get() as f64 / 1e9,
            fields,
            mean_in_flight: ratio(
                end.in_flight_integral.saturating_sub(start.in_flight_integral) as f64,
                span.get() as f64,
            ),
            busy: [
                ms(from.sampled_ms, to.sampled_ms),
                ms(from.inflight_ms, to.inflight_ms),
                ms(from.precise_ms, to.precise_ms),
                to.exact.saturating_sub(from.exact),
            ],
        }
    }

    /// Returns the change of a field, numbered from 1 as in the kernel's documentation.
    pub fn field(&self, number: usize) -> f64 {
        self.fields[number - 1] as f64
    }

    /// Returns the percentage of time in which the device was busy, by each form: sampled,
    /// inflight, precise, exact.
    pub fn utilisation(&self) -> [f64; 4] {
        self.busy.map(|busy| ratio(busy.get() as f64 / 1e7, self.seconds))
    }

    /// Returns the percentage of time in which the device was busy, from the io_ticks field.
    pub fn io_ticks_percent(&self) -> f64 {
        ratio(self.field(10) / 10.0, self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviation_is_of_a_sample() {
        let mut stat = LatencyStat::default();
        for value in [2, 4, 4, 4, 5, 5, 7, 9] {
            stat.add(value);
        }
        assert!((latency_mean(&stat) - 5.0).abs() < 1e-12);
        assert!((latency_deviation(&stat) - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(latency_deviation(&LatencyStat::default()), 0.0);
    }

    #[test]
    fn deviation_of_huge_sums_stays_finite() {
        let square = (1u128 << 40) * (1u128 << 40);
        let n = 1u64 << 30;
        let deviation = deviation(n, u128::from(n) << 40, u128::from(n) * square);
        assert!(deviation.is_finite() && deviation < 1.0, "{deviation}");
    }

    #[test]
    fn a_percentile_is_never_past_the_extremes() {
        let mut stat = LatencyStat::default();
        stat.add(1_000_003);
        assert_eq!(percentile(&stat, 500_000), 1_000_003);
    }

    #[test]
    fn time_covered_counts_overlaps_once() {
        assert_eq!(covered(vec![]), 0);
        assert_eq!(covered(vec![(5, 10), (0, 3), (2, 4), (6, 7)]), 9);
        assert_eq!(covered(vec![(0, 10), (10, 20)]), 20);
    }

    #[test]
    fn runtimes_round_but_never_vanish() {
        for (ns, ms) in [(0, 0), (1, 1), (1_499_999, 1), (1_500_000, 2)] {
            assert_eq!(runtime_ms(ns), ms);
        }
    }
}
