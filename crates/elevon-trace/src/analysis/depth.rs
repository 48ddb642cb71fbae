//! Depth of the device queue, and throughput and latency at each depth.

use elevon_core::stats::LatencyStat;

/// Rows of a [`Depths`] table: depth 0, 1, 2-3, 4-7, ... and all depths from 16384 on.
pub const ROWS: usize = 16;

/// One row: depths from 2^(n-1) to 2^n - 1 requests in the device.
#[derive(Clone, Debug, Default)]
pub struct DepthRow {
    /// Nanoseconds in which the depth was in this range.
    pub time: u64,
    /// Requests that the device served in this time. A request that was served in the time of
    /// several rows counts in each of them in part.
    pub completed: f64,
    /// Bytes of these requests.
    pub bytes: f64,
    /// Times from issue to completion of the requests that were issued at such a depth, which
    /// includes the request itself.
    pub latency: LatencyStat,
    /// Sum of the depths at which these requests were issued.
    pub depth_sum: u64,
    /// How many of them are reads.
    pub reads: u64,
}

impl DepthRow {
    /// Returns the mean time from issue to completion of the requests issued at such a depth, in
    /// nanoseconds.
    pub fn mean_latency(&self) -> Option<u64> {
        self.latency.sum.checked_div(u128::from(self.latency.count)).map(|mean| mean as u64)
    }

    /// Returns the requests that the device serves a second at such a depth; 0 if it never was.
    pub fn requests_per_second(&self) -> f64 {
        self.completed * 1e9 / self.time.max(1) as f64
    }

    /// Returns the bytes that it serves a second at such a depth; 0 if it never was.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes * 1e9 / self.time.max(1) as f64
    }
}

/// Completions that come one after the other within this part of the time before them are a burst:
/// the device served them together in that time, and reports them together.
const BURST_PART: u64 = 2;

/// Completions of a burst, and the time in which the device served them.
#[derive(Clone, Debug, Default)]
struct Burst {
    /// Nanoseconds since the burst before this one ended, by row; none of them idle.
    times: [u64; ROWS],
    /// Nanoseconds since its last completion, by row.
    since: [u64; ROWS],
    /// Time of its first completion, and how long the device served it until then.
    first: u64,
    served: u64,
    completed: u64,
    bytes: u64,
}

/// Time, throughput and latency by depth.
#[derive(Clone, Debug, Default)]
pub struct Depths {
    /// Rows: row n has the depths from 2^(n-1) to 2^n - 1, row 0 has depth 0.
    pub rows: [DepthRow; ROWS],
    /// Integral of the depth over time, in request-nanoseconds.
    pub integral: u128,
    /// Largest depth.
    pub max: u64,
    counted: Option<u64>,
    /// Row of the depth until now, because several requests may complete at one instant.
    lasted: usize,
    burst: Burst,
}

/// Returns the row of a depth.
#[inline]
pub(super) const fn row_of(depth: u64) -> usize {
    let row = (u64::BITS - depth.leading_zeros()) as usize;
    if row < ROWS { row } else { ROWS - 1 }
}

/// Returns the depths of a row as text: `0`, `1`, `2-3`, `4-7`.
pub fn row_name(row: usize) -> String {
    match row {
        0 | 1 => row.to_string(),
        _ if row == ROWS - 1 => format!("{}+", 1u64 << (row - 1)),
        _ => format!("{}-{}", 1u64 << (row - 1), (1u64 << row) - 1),
    }
}

impl Depths {
    /// Adds the time up to `now` at a depth.
    #[inline]
    pub(super) fn advance(&mut self, now: u64, depth: u64) {
        let since = self.counted.unwrap_or(now);
        self.counted = Some(now.max(since));
        let span = now.saturating_sub(since);
        if span > 0 {
            self.lasted = row_of(depth);
            self.rows[self.lasted].time += span;
            self.integral += u128::from(span) * u128::from(depth);
            if depth > 0 {
                self.burst.since[self.lasted] += span;
            }
        }
        self.max = self.max.max(depth);
    }

    /// Records the depth after a request was issued.
    #[inline]
    pub(super) fn reached(&mut self, depth: u64) {
        self.max = self.max.max(depth);
    }

    /// Leaves out the time up to `now`, in which the depth is unknown.
    pub(super) fn skip_to(&mut self, now: u64) {
        self.settle();
        self.counted = self.counted.max(Some(now));
    }

    /// Counts a completed request at the depths at which the device was while it served it.
    ///
    /// Many devices report several completions at once. Counted one by one, most of them would be
    /// completions at a depth that lasted for some microseconds.
    #[inline]
    pub(super) fn completed(&mut self, bytes: u64) {
        let now = self.counted.unwrap_or(0);
        let burst = &mut self.burst;
        if burst.completed > 0 && now - burst.first > burst.served / BURST_PART {
            self.end_burst();
        }
        let burst = &mut self.burst;
        for (time, since) in burst.times.iter_mut().zip(&mut burst.since) {
            *time += std::mem::take(since);
        }
        if burst.completed == 0 {
            burst.first = now;
            burst.served = burst.times.iter().sum();
        }
        burst.completed += 1;
        burst.bytes = burst.bytes.saturating_add(bytes);
    }

    /// Counts the completions of the burst in the rows, by the time that the device spent in each.
    fn end_burst(&mut self) {
        let Burst { times, since, completed, bytes, .. } = std::mem::take(&mut self.burst);
        self.burst.since = since;
        let all: u64 = times.iter().sum();
        if all == 0 {
            self.rows[self.lasted].completed += completed as f64;
            self.rows[self.lasted].bytes += bytes as f64;
            return;
        }
        for (row, time) in self.rows.iter_mut().zip(times).filter(|(_, time)| *time > 0) {
            let part = time as f64 / all as f64;
            row.completed += completed as f64 * part;
            row.bytes += bytes as f64 * part;
        }
    }

    /// Counts what completed last. The time since then belongs to no completion.
    pub(super) fn settle(&mut self) {
        if self.burst.completed > 0 {
            self.end_burst();
        }
        self.burst = Burst::default();
    }

    /// Adds the latency of a request that was issued at a depth.
    #[inline]
    pub(super) fn latency(&mut self, depth: u32, is_read: bool, ns: u64) {
        let row = &mut self.rows[row_of(u64::from(depth))];
        row.latency.add(ns);
        row.depth_sum += u64::from(depth);
        row.reads += u64::from(is_read);
    }

    /// Forgets the latencies so far, because they were counted at wrong depths.
    pub(super) fn forget_latencies(&mut self) {
        for row in &mut self.rows {
            *row = DepthRow {
                time: row.time,
                completed: row.completed,
                bytes: row.bytes,
                ..DepthRow::default()
            };
        }
    }

    /// Returns the nanoseconds with a request in the device.
    pub fn busy(&self) -> u64 {
        self.rows[1..].iter().map(|row| row.time).sum()
    }

    /// Returns the nanoseconds of all rows: the time in which no events were lost.
    pub fn time(&self) -> u64 {
        self.rows.iter().map(|row| row.time).sum()
    }

    /// Returns the mean depth while a request was in the device.
    pub fn mean_busy_depth(&self) -> f64 {
        if self.busy() == 0 { 0.0 } else { self.integral as f64 / self.busy() as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_powers_of_two() {
        let rows: Vec<usize> = [0, 1, 2, 3, 4, 7, 8, 16_383, 16_384, u64::MAX].map(row_of).to_vec();
        assert_eq!(rows, [0, 1, 2, 2, 3, 3, 4, 14, 15, 15]);
        assert_eq!([0, 1, 2, 3, 15].map(row_name), ["0", "1", "2-3", "4-7", "16384+"]);
    }

    #[test]
    fn time_and_depth_are_integrated() {
        let mut depths = Depths::default();
        for (now, depth) in [(100, 0), (150, 0), (250, 1), (300, 3)] {
            depths.advance(now, depth);
        }
        assert_eq!((depths.busy(), depths.time(), depths.integral), (150, 200, 250));
        assert!((depths.mean_busy_depth() - 250.0 / 150.0).abs() < 1e-9);
    }

    /// Serves eight requests at a time, reported within some microseconds, while the queue is kept
    /// at `depth`; returns the rate of each row that has time, a second.
    fn rates_in_bursts(depth: u64, rounds: u64) -> Vec<(usize, f64)> {
        let mut depths = Depths::default();
        let mut now = 0;
        depths.advance(now, 0);
        for _ in 0..rounds {
            now += 6_667_000;
            depths.advance(now, depth);
            for left in (depth - 8..depth).rev() {
                depths.completed(4096);
                now += 1000;
                depths.advance(now, left);
            }
            for filled in depth - 7..=depth {
                now += 2000;
                depths.advance(now, filled);
            }
        }
        depths.settle();
        let rows = depths.rows.iter().enumerate().filter(|(_, row)| row.time > 0);
        let served: f64 = depths.rows.iter().map(|row| row.completed).sum();
        assert!((served - 8.0 * rounds as f64).abs() < 1e-6, "nothing is lost: {served}");
        rows.map(|(at, row)| (at, row.completed * 1e9 / row.time as f64)).collect()
    }

    /// No depth has a rate that the device does not have, however its completions come.
    #[test]
    fn bursts_are_no_rate_of_the_depths_that_they_pass() {
        for depth in [8, 11, 16, 24, 64, 128, 130] {
            for (row, rate) in rates_in_bursts(depth, 200) {
                assert!(
                    row == 0 || (1100.0..=1220.0).contains(&rate),
                    "depth {depth}, row {row}: {rate}"
                );
            }
        }
    }

    /// Completions that do not come in bursts count at the depth of the time before them.
    #[test]
    fn single_completions_count_at_their_depth() {
        let mut depths = Depths::default();
        depths.advance(0, 0);
        for (now, depth) in [(1000, 4), (2000, 3), (3000, 2), (4000, 1)] {
            depths.advance(now, depth);
            depths.completed(512);
        }
        depths.advance(100_000, 0);
        depths.settle();
        let completed: Vec<f64> = depths.rows[..4].iter().map(|row| row.completed).collect();
        assert_eq!(completed, [0.0, 1.0, 2.0, 1.0]);
        assert_eq!(depths.rows[2].bytes, 1024.0);
    }
}
