//! A run over time, in bounded memory: points of equal length, which doubles when there are more
//! than a thousand.

use elevon_core::op::Op;
use elevon_core::units::{Bytes, Instant, Nanos};

/// The maximum number of points.
pub const MAX_POINTS: usize = 1024;
/// The initial length of a point: 1 ms.
const FIRST_INTERVAL: u64 = 1_000_000;

/// The completions within one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Bytes that completed, by direction (read, write, trim).
    pub bytes: [u64; 3],
    /// I/Os that completed, by direction.
    pub ios: [u64; 3],
    /// Integral of the requests in flight, in request-nanoseconds; divided by the interval's
    /// length it is their mean.
    pub in_flight: u128,
}

impl Point {
    fn add(&mut self, other: &Self) {
        for d in 0..3 {
            self.bytes[d] += other.bytes[d];
            self.ios[d] += other.ios[d];
        }
        self.in_flight += other.in_flight;
    }
}

/// How many requests are in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Now, and since the last request began or ended.
    pub(crate) in_flight: u64,
    /// Their integral over time until now, in request-nanoseconds.
    pub(crate) integral: u128,
}

/// The points of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    start: Instant,
    interval: u64,
    /// The last is the current one.
    points: Vec<Point>,
    /// The end of the current point. Times before it need no search.
    point_end: Instant,
    /// The integral of the requests in flight that the points have.
    integral: u128,
    /// I/Os and bytes that completed in the current point and are not in it yet, by operation.
    ios: [u64; OPERATIONS],
    bytes: [u64; OPERATIONS],
}

/// The number of operations, and of the numbers between them.
const OPERATIONS: usize = Op::WriteZeroes as usize + 1;

impl Series {
    pub(crate) fn new(start: Instant, load: Load) -> Self {
        let interval = FIRST_INTERVAL;
        let mut points = Vec::with_capacity(MAX_POINTS);
        points.push(Point::default());
        let point_end = start.saturating_add(Nanos::new(interval));
        Self {
            start,
            interval,
            points,
            point_end,
            integral: load.integral,
            ios: [0; OPERATIONS],
            bytes: [0; OPERATIONS],
        }
    }

    /// Returns the length of a point.
    pub const fn interval(&self) -> Nanos {
        Nanos::new(self.interval)
    }
    /// Returns the start of the first point.
    pub const fn start(&self) -> Instant {
        self.start
    }
    /// Returns the points in order, from [`Self::start`] on; the last is as it was when it was
    /// brought up to date.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Advances time to `now`. `load` is asked only if a point ends.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant, load: impl FnOnce() -> Load) {
        if now >= self.point_end {
            self.end_points(now, load());
        }
    }

    /// Advances time to `now`, and brings the current point up to date.
    pub(crate) fn update(&mut self, now: Instant, load: Load) {
        self.end_points(now, load);
        self.count_until(load.integral);
    }

    /// Counts in the current point what completed in it, and the requests in flight until their
    /// integral has this value.
    fn count_until(&mut self, integral: u128) {
        let counted = integral.saturating_sub(self.integral);
        self.integral += counted;
        let (ios, bytes) = (std::mem::take(&mut self.ios), std::mem::take(&mut self.bytes));
        let point = self.current();
        point.in_flight += counted;
        for (d, op) in [Op::Read, Op::Write, Op::Discard].into_iter().enumerate() {
            point.ios[d] += ios[op as usize];
            point.bytes[d] += bytes[op as usize];
        }
    }

    /// Advances time to the end of each point that has ended by `now`.
    fn end_points(&mut self, now: Instant, load: Load) {
        while now >= self.point_end {
            let end = self.point_end;
            let later = u128::from(now.since(end).get()) * u128::from(load.in_flight);
            self.count_until(load.integral.saturating_sub(later));
            if load.in_flight == 0 && now.since(end).get() / self.interval > MAX_POINTS as u64 {
                // After a long idle time, find the right interval first.
                while now.since(self.start).get() / self.interval >= MAX_POINTS as u64 {
                    self.fold();
                }
            }
            self.open_point(end);
        }
    }

    fn current(&mut self) -> &mut Point {
        let last = self.points.len() - 1;
        &mut self.points[last]
    }

    /// Begins the next point, at `start`.
    fn open_point(&mut self, start: Instant) {
        if self.points.len() == MAX_POINTS {
            self.fold();
        }
        if start >= self.point_end {
            self.points.push(Point::default());
            self.point_end = self.point_end.saturating_add(Nanos::new(self.interval));
        }
    }

    /// Joins adjacent points and doubles the interval.
    fn fold(&mut self) {
        let half = self.points.len().div_ceil(2);
        for i in 0..half {
            let mut joined = self.points[2 * i];
            if let Some(second) = self.points.get(2 * i + 1) {
                joined.add(second);
            }
            self.points[i] = joined;
        }
        self.points.truncate(half);
        self.interval *= 2;
        self.point_end =
            self.start.saturating_add(Nanos::new(self.interval * self.points.len() as u64));
    }

    #[inline]
    pub(crate) fn on_done(&mut self, op: Op, bytes: Bytes) {
        self.ios[op as usize] += 1;
        self.bytes[op as usize] += bytes.get();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_keeps_every_sum() {
        let none = Load { in_flight: 0, integral: 0 };
        let mut series = Series::new(Instant::new(7), none);
        let mut now = 7;
        let mut flight = 0u128;
        for k in 0..50_000u64 {
            let step = 1 + k * 7919 % 300_000;
            let in_flight = k % 5;
            now += step;
            flight += u128::from(step * in_flight);
            let load = Load { in_flight, integral: flight };
            series.advance(Instant::new(now), || load);
            series.on_done(Op::Write, Bytes::new(4096));
            assert!(series.points().len() <= MAX_POINTS);
            if k % 1_000 == 0 {
                series.update(Instant::new(now), load);
            }
        }
        series.update(Instant::new(now), Load { in_flight: 0, integral: flight });
        let points = series.points();
        assert_eq!(points.iter().map(|p| p.ios[1]).sum::<u64>(), 50_000);
        assert_eq!(points.iter().map(|p| p.in_flight).sum::<u128>(), flight);
        assert_eq!(points.len() as u64, (now - 7) / series.interval().get() + 1);
    }

    #[test]
    fn a_long_silence_is_quick_and_right() {
        let none = Load { in_flight: 0, integral: 0 };
        let mut series = Series::new(Instant::ZERO, none);
        series.on_done(Op::Read, Bytes::new(512));
        let later = Instant::new(3_600_000_000_000);
        series.advance(later, || none);
        series.on_done(Op::Read, Bytes::new(512));
        series.update(later, none);
        let points = series.points();
        assert_eq!((points[0].ios[0], points[points.len() - 1].ios[0]), (1, 1));
        assert_eq!(points.len() as u64, later.get() / series.interval().get() + 1);
    }
}
