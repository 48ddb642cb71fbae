//! How deep the device's queue was, and what the device made of it.

use elevon_core::histogram::SparseHistogram;

/// Rows of a [`Depths`] table: depth 0, 1, 2-3, 4-7, ... and everything from 16384.
pub const ROWS: usize = 16;

/// One row: a range of depths, from 2^(n-1) to 2^n - 1 requests in the device.
#[derive(Clone, Debug, Default)]
pub struct DepthRow {
    /// Nanoseconds that the depth was in this range.
    pub time: u64,
    /// Requests that completed meanwhile.
    pub completed: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that were issued into such a depth (their own included) and whose latency is known.
    pub count: u64,
    /// Sum of their times from issue to completion, in nanoseconds.
    pub latency_sum: u128,
    /// The distribution of those.
    pub latency: SparseHistogram,
}

impl DepthRow {
    /// Mean time from issue to completion of what was issued into such a depth.
    pub fn mean_latency(&self) -> Option<u64> {
        self.latency_sum.checked_div(u128::from(self.count)).map(|mean| mean as u64)
    }
}

/// The table.
#[derive(Clone, Debug, Default)]
pub struct Depths {
    /// Row n is of the depths from 2^(n-1) to 2^n - 1; row 0 is of depth 0.
    pub rows: [DepthRow; ROWS],
    /// Integral of the depth over time, in request-nanoseconds.
    pub integral: u128,
    /// Largest depth.
    pub max: u64,
    counted: Option<u64>,
    /// Row of the depth that lasted until now: several requests may leave at one instant.
    lasted: usize,
}

/// The row of a depth.
#[inline]
pub(super) const fn row_of(depth: u64) -> usize {
    let row = (u64::BITS - depth.leading_zeros()) as usize;
    if row < ROWS { row } else { ROWS - 1 }
}

/// The depths of a row, as text: `0`, `1`, `2-3`, `4-7`.
pub fn row_name(row: usize) -> String {
    match row {
        0 | 1 => row.to_string(),
        _ if row == ROWS - 1 => format!("{}+", 1u64 << (row - 1)),
        _ => format!("{}-{}", 1u64 << (row - 1), (1u64 << row) - 1),
    }
}

impl Depths {
    /// Counts time up to `now` at a depth.
    #[inline]
    pub(super) fn advance(&mut self, now: u64, depth: u64) {
        let since = self.counted.replace(now).unwrap_or(now);
        let span = now.saturating_sub(since);
        if span > 0 {
            self.lasted = row_of(depth);
            self.rows[self.lasted].time += span;
            self.integral += u128::from(span) * u128::from(depth);
        }
        self.max = self.max.max(depth);
    }

    /// A request was issued into this depth.
    #[inline]
    pub(super) fn reached(&mut self, depth: u64) {
        self.max = self.max.max(depth);
    }

    pub(super) const fn skip_to(&mut self, now: u64) {
        self.counted = Some(now);
    }

    /// A request left the device; it counts for the depth before this instant.
    #[inline]
    pub(super) fn completed(&mut self, bytes: u64) {
        let row = &mut self.rows[self.lasted];
        row.completed += 1;
        row.bytes += bytes;
    }

    /// The latency of a request that was issued into a depth.
    #[inline]
    pub(super) fn latency(&mut self, depth: u32, ns: u64) {
        let row = &mut self.rows[row_of(u64::from(depth))];
        row.count += 1;
        row.latency_sum += u128::from(ns);
        row.latency.add(ns);
    }

    /// Nanoseconds with a request in the device.
    pub fn busy(&self) -> u64 {
        self.rows[1..].iter().map(|row| row.time).sum()
    }

    /// All nanoseconds that are counted.
    pub fn time(&self) -> u64 {
        self.rows.iter().map(|row| row.time).sum()
    }

    /// Mean depth while a request was in the device.
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
