//! Depth of the device queue, and throughput and latency at each depth.

use elevon_core::histogram::Histogram;

/// Rows of a [`Depths`] table: depth 0, 1, 2-3, 4-7, ... and all depths from 16384 on.
pub const ROWS: usize = 16;

/// One row: depths from 2^(n-1) to 2^n - 1 requests in the device.
#[derive(Clone, Debug, Default)]
pub struct DepthRow {
    /// Nanoseconds in which the depth was in this range.
    pub time: u64,
    /// Requests that completed in this time.
    pub completed: u64,
    /// Bytes of these requests.
    pub bytes: u64,
    /// Requests with known latency that were issued at such a depth, which includes the request
    /// itself.
    pub count: u64,
    /// Sum of their times from issue to completion, in nanoseconds.
    pub latency_sum: u128,
    /// Distribution of these times.
    pub latency: Histogram,
}

impl DepthRow {
    /// Returns the mean time from issue to completion of the requests issued at such a depth.
    pub fn mean_latency(&self) -> Option<u64> {
        self.latency_sum.checked_div(u128::from(self.count)).map(|mean| mean as u64)
    }
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
        self.counted = self.counted.max(Some(now));
    }

    /// Counts a completed request at the depth before this instant.
    #[inline]
    pub(super) fn completed(&mut self, bytes: u64) {
        let row = &mut self.rows[self.lasted];
        row.completed += 1;
        row.bytes = row.bytes.saturating_add(bytes);
    }

    /// Adds the latency of a request that was issued at a depth.
    #[inline]
    pub(super) fn latency(&mut self, depth: u32, ns: u64) {
        let row = &mut self.rows[row_of(u64::from(depth))];
        row.count += 1;
        row.latency_sum += u128::from(ns);
        row.latency.add(ns);
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
}
