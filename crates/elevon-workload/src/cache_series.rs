//! A page cache over time, in bounded memory: its counters and levels at the end of equal
//! intervals, whose length doubles when there are more than a thousand.
//!
//! Values of counters are stored, not differences, so two intervals are joined by dropping the
//! first, and nothing is counted in addition to the cache's counters. Cost: one comparison per
//! instant, one reading per interval.

use elevon_cache::page_cache::Reading;
use elevon_core::units::{Instant, Nanos};

use crate::series::MAX_POINTS;

/// The initial length of an interval: 1 ms.
const FIRST_INTERVAL: u64 = 1_000_000;

/// The readings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSeries {
    start: Instant,
    interval: u64,
    /// The end of the current interval.
    end: Instant,
    readings: Vec<Reading>,
    /// The reading at the end of the run, and its instant.
    last: Option<(Instant, Reading)>,
}

impl CacheSeries {
    pub(crate) fn new(start: Instant) -> Self {
        let interval = FIRST_INTERVAL;
        let end = start.saturating_add(Nanos::new(interval));
        Self { start, interval, end, readings: Vec::with_capacity(MAX_POINTS), last: None }
    }

    /// Returns the start of the run.
    pub const fn start(&self) -> Instant {
        self.start
    }

    /// Returns the length of an interval; the last may be shorter.
    pub const fn interval(&self) -> Nanos {
        Nanos::new(self.interval)
    }

    /// Returns the end of each interval with the reading taken then, in order.
    pub fn readings(&self) -> impl Iterator<Item = (Instant, &Reading)> {
        let at = |n: usize| self.start.saturating_add(Nanos::new(self.interval * (n as u64 + 1)));
        let whole = self.readings.iter().enumerate().map(move |(n, reading)| (at(n), reading));
        whole.chain(self.last.iter().map(|(at, reading)| (*at, reading)))
    }

    /// Advances time to `now`, before anything else happens at `now`. `read` takes a reading.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant, read: impl FnOnce() -> Reading) {
        if now >= self.end {
            self.close(now, read());
        }
    }

    /// Records the last reading, at the end of the run.
    pub(crate) fn finish(&mut self, now: Instant, reading: Reading) {
        if now >= self.end {
            self.close(now, reading);
        }
        let begun = self.end.since(self.start).get() - self.interval;
        if now.since(self.start).get() > begun {
            self.last = Some((now, reading));
        }
    }

    #[cold]
    fn close(&mut self, now: Instant, reading: Reading) {
        while now >= self.end {
            if self.readings.len() == MAX_POINTS {
                // Every second reading belongs to an interval twice as long.
                let mut n = 0;
                self.readings.retain(|_| {
                    n += 1;
                    n % 2 == 0
                });
                self.interval *= 2;
            } else {
                self.readings.push(reading);
            }
            let intervals = self.readings.len() as u64 + 1;
            self.end = self.start.saturating_add(Nanos::new(self.interval * intervals));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reading_is_what_stood_at_its_interval_s_end() {
        let start = Instant::new(77);
        let mut series = CacheSeries::new(start);
        // A counter of the steps so far, and the instant of each step.
        let mut steps = Vec::new();
        let mut now = start;
        let mut rng = elevon_testkit::Rng(5);
        for step in 1..30_000u64 {
            let quiet = if step % 10_000 == 0 { 40_000_000_000 } else { 0 };
            now = now.saturating_add(Nanos::new(rng.below(500_000) + quiet));
            series.advance(now, || Reading { hits: steps.len() as u64, ..Reading::default() });
            steps.push(now);
            assert!(series.readings.len() <= MAX_POINTS);
        }
        series.finish(now, Reading { hits: steps.len() as u64, ..Reading::default() });
        let mut last = start;
        let interval = series.interval();
        assert!(series.readings().count() > MAX_POINTS / 2);
        for (at, reading) in series.readings() {
            let expected = steps.partition_point(|&step| step < at || (at == now && step == at)) as u64;
            assert_eq!(reading.hits, expected, "at {at:?}");
            assert!(at.since(last) <= interval && at > last, "{at:?} after {last:?}");
            last = at;
        }
        assert_eq!(last, now);
    }

    #[test]
    fn a_run_of_no_time_has_no_reading() {
        let mut series = CacheSeries::new(Instant::ZERO);
        series.finish(Instant::ZERO, Reading::default());
        assert_eq!(series.readings().count(), 0);
        let mut series = CacheSeries::new(Instant::ZERO);
        series.finish(Instant::new(1_000_000), Reading::default());
        assert_eq!(series.readings().map(|(at, _)| at.get()).collect::<Vec<_>>(), [1_000_000]);
    }
}
