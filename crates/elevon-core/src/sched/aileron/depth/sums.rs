//! Sums over the requests that ended at a depth, and what they say of the throughput there.

use super::{FRACTION, MAX_TIME, Sample};
use crate::sched::aileron::occupancy::Occupied;

/// Sums over requests. Times are in 64 ns, but `occupied` and `alone_of_rest` in 8 ns: on a fast
/// drive what a request occupies is a small part of the time that it takes alone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Number of requests.
    pub(super) count: u64,
    /// Time that they were in the device.
    pub(super) time: u64,
    /// Time that they take alone.
    pub(super) alone: u64,
    /// Squares of their times.
    pub(super) time_squares: u64,
    /// Products of their times in the device and alone.
    pub(super) time_by_alone: u64,
    /// Squares of their times alone.
    pub(super) alone_squares: u64,
    /// The number in flight, integrated over their times.
    pub(super) area: u64,
    /// Time that those occupy of which it is known.
    pub(super) occupied: u64,
    /// Time that the others take alone, of which they occupy an estimated part. (Estimated anew
    /// during a comparison, it would tell two equal depths apart.)
    pub(super) alone_of_rest: u64,
}

impl Sums {
    pub(super) const NONE: Self = Self {
        count: 0,
        time: 0,
        alone: 0,
        time_squares: 0,
        time_by_alone: 0,
        alone_squares: 0,
        area: 0,
        occupied: 0,
        alone_of_rest: 0,
    };

    pub(super) fn add(&mut self, sample: Sample) {
        let (time, alone) = (sample.time >> 6, sample.alone.min(MAX_TIME) >> 6);
        let Occupied { known, rest } = sample.occupied;
        self.count += 1;
        self.time += time;
        self.alone += alone;
        self.time_squares += time * time;
        self.time_by_alone += time * alone;
        self.alone_squares += alone * alone;
        self.area += sample.area >> 6;
        // One of the two is zero: two branches cost less than two comparisons.
        if rest == 0 {
            self.occupied += known.min(MAX_TIME) >> 3;
        } else {
            self.alone_of_rest += rest.min(MAX_TIME) >> 3;
        }
    }

    /// Halves all sums, so that what ended lately counts for more.
    pub(super) fn halve(&mut self) {
        let Self {
            count,
            time,
            alone,
            time_squares,
            time_by_alone,
            alone_squares,
            area,
            occupied,
            alone_of_rest,
        } = self;
        [
            count,
            time,
            alone,
            time_squares,
            time_by_alone,
            alone_squares,
            area,
            occupied,
            alone_of_rest,
        ]
        .into_iter()
        .for_each(|sum| *sum /= 2);
    }

    /// Returns the mean number in flight, in 1/64.
    pub(super) const fn depth(&self) -> u64 {
        self.area.saturating_mul(FRACTION) / if self.time == 0 { 1 } else { self.time }
    }

    /// Returns how many requests are served at a time, in 1/1024.
    pub(super) fn served(&self) -> u64 {
        let time = u128::from(self.time.max(1));
        (u128::from(self.area) * u128::from(self.alone) * 1024 / (time * time)) as u64
    }

    /// Returns which part of its time the device delivers, in 1/65536. `rest` is the part that the
    /// rest occupies, in 1/65536.
    pub(super) fn delivered(&self, rest: u64) -> u64 {
        let [time, known, alone, rest] =
            [self.time.max(1), self.occupied, self.alone_of_rest, rest].map(u128::from);
        let occupied = known + ((alone * rest) >> 16);
        (u128::from(self.area) * occupied * 8192 / (time * time)) as u64
    }

    /// Returns the relative variance of the throughput, in millionths.
    pub(super) fn error(&self) -> u64 {
        let [n, t, e] = [self.count, self.time, self.alone].map(i128::from);
        let [tt, te, ee] =
            [self.time_squares, self.time_by_alone, self.alone_squares].map(i128::from);
        if n == 0 || e == 0 || t == 0 {
            return 1_000_000;
        }
        // Sum of the squares of t − (sum of t / sum of e) · e, over times t and times alone e.
        let squares = (tt - 2 * te * t / e + ee * t / e * t / e).max(0);
        (squares * 1_000_000 / t * n / t / n) as u64
    }
}
