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
    /// Integral of the requests in flight, in request-nanoseconds; divided by the interval's length
    /// it is their mean.
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

/// The points of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    start: Instant,
    interval: u64,
    points: Vec<Point>,
    /// The end of the current point. Times before it need no search.
    point_end: Instant,
    last: Instant,
}

impl Series {
    pub(crate) fn new(start: Instant) -> Self {
        let interval = FIRST_INTERVAL;
        let mut points = Vec::with_capacity(MAX_POINTS);
        points.push(Point::default());
        Self { start, interval, points, point_end: start.saturating_add(Nanos::new(interval)), last: start }
    }

    /// Returns the length of a point.
    pub const fn interval(&self) -> Nanos {
        Nanos::new(self.interval)
    }
    /// Returns the start of the first point.
    pub const fn start(&self) -> Instant {
        self.start
    }
    /// Returns the points in order, from [`Self::start`] on.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Advances time to `now`; since the last call `in_flight` requests were in flight.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant, in_flight: u64) {
        if now >= self.point_end {
            self.end_points(now, in_flight);
        }
        if in_flight > 0 {
            let span = now.since(self.last).get();
            self.current().in_flight += u128::from(span) * u128::from(in_flight);
        }
        self.last = now;
    }

    /// Advances time to the end of each point that has ended by `now`.
    fn end_points(&mut self, now: Instant, in_flight: u64) {
        while now >= self.point_end {
            let span = self.point_end.since(self.last).get();
            self.current().in_flight += u128::from(span) * u128::from(in_flight);
            self.last = self.point_end;
            if in_flight == 0 && now.since(self.last).get() / self.interval > MAX_POINTS as u64 {
                // After a long idle time, find the right interval first.
                while now.since(self.start).get() / self.interval >= MAX_POINTS as u64 {
                    self.fold();
                }
            }
            self.open_point();
        }
    }

    fn current(&mut self) -> &mut Point {
        let last = self.points.len() - 1;
        &mut self.points[last]
    }

    fn open_point(&mut self) {
        if self.points.len() == MAX_POINTS {
            self.fold();
        }
        if self.last >= self.point_end {
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
        self.point_end = self.start.saturating_add(Nanos::new(self.interval * self.points.len() as u64));
    }

    #[inline]
    pub(crate) fn on_done(&mut self, op: Op, bytes: Bytes) {
        let d = match op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Discard => 2,
            _ => return,
        };
        let point = self.current();
        point.bytes[d] += bytes.get();
        point.ios[d] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_keeps_every_sum() {
        let mut series = Series::new(Instant::new(7));
        let mut now = 7;
        let mut flight = 0u128;
        for k in 0..50_000u64 {
            let step = 1 + k * 7919 % 300_000;
            let in_flight = k % 5;
            now += step;
            flight += u128::from(step * in_flight);
            series.advance(Instant::new(now), in_flight);
            series.on_done(Op::Write, Bytes::new(4096));
            assert!(series.points().len() <= MAX_POINTS);
        }
        let points = series.points();
        assert_eq!(points.iter().map(|p| p.ios[1]).sum::<u64>(), 50_000);
        assert_eq!(points.iter().map(|p| p.in_flight).sum::<u128>(), flight);
        assert_eq!(points.len() as u64, (now - 7) / series.interval().get() + 1);
    }

    #[test]
    fn a_long_silence_is_quick_and_right() {
        let mut series = Series::new(Instant::ZERO);
        series.on_done(Op::Read, Bytes::new(512));
        let later = Instant::new(3_600_000_000_000);
        series.advance(later, 0);
        series.on_done(Op::Read, Bytes::new(512));
        let points = series.points();
        assert_eq!((points[0].ios[0], points[points.len() - 1].ios[0]), (1, 1));
        assert_eq!(points.len() as u64, later.get() / series.interval().get() + 1);
    }
}
