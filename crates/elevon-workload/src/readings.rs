//! Counters over time, in bounded memory: their values at the end of equal intervals, whose length
//! doubles when there are too many.
//!
//! Values of counters are stored, not differences, so two intervals are joined by dropping the
//! first, and nothing is counted in addition. Cost: one comparison per instant, and one reading of
//! all rows per interval.

use elevon_core::units::{Instant, Nanos};

/// The initial length of an interval: 1 ms.
const FIRST_INTERVAL: u64 = 1_000_000;

/// I/Os and bytes so far, by direction: reads, writes, trims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progressed {
    /// Number of I/Os.
    pub ios: [u64; 3],
    /// Number of bytes.
    pub bytes: [u64; 3],
}

/// The readings of a number of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readings<T> {
    start: Instant,
    interval: u64,
    /// The end of the current interval.
    end: Instant,
    rows: usize,
    /// The maximum number of intervals.
    most: usize,
    /// All rows of the first interval, then all rows of the second, and so on.
    values: Vec<T>,
    /// The values at the end of the run, and its instant.
    last: Option<(Instant, Vec<T>)>,
}

impl<T: Clone> Readings<T> {
    /// Returns a series of this number of rows, in at most `most` intervals, an even number.
    /// Without rows no readings are taken.
    pub(crate) fn new(start: Instant, rows: usize, most: usize) -> Self {
        let end =
            if rows == 0 { Instant::MAX } else { start.saturating_add(Nanos::new(FIRST_INTERVAL)) };
        Self { start, interval: FIRST_INTERVAL, end, rows, most, values: Vec::new(), last: None }
    }

    /// Returns the number of rows of each reading.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the length of an interval; the last may be shorter.
    pub const fn interval(&self) -> Nanos {
        Nanos::new(self.interval)
    }

    /// Returns the end of each interval, counted from the start, with the values of all rows.
    pub fn readings(&self) -> impl Iterator<Item = (Nanos, &[T])> {
        let at = |n: usize| Nanos::new(self.interval * (n as u64 + 1));
        let whole = self
            .values
            .chunks_exact(self.rows.max(1))
            .enumerate()
            .map(move |(n, rows)| (at(n), rows));
        whole.chain(self.last.iter().map(|(at, rows)| (at.since(self.start), rows.as_slice())))
    }

    /// Returns true if an interval has ended. The caller has done nothing yet at `now`.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.end
    }

    /// Records the values of all rows.
    #[cold]
    pub(crate) fn read(&mut self, now: Instant, rows: &[T]) {
        while now >= self.end {
            if self.values.len() == self.most * self.rows {
                self.fold();
            } else {
                self.values.extend_from_slice(rows);
            }
            let intervals = (self.values.len() / self.rows) as u64 + 1;
            self.end = self.start.saturating_add(Nanos::new(self.interval * intervals));
        }
    }

    /// Drops every first reading of two: the second belongs to an interval twice as long.
    fn fold(&mut self) {
        let rows = self.rows;
        let mut n = 0;
        self.values.retain(|_| {
            n += 1;
            (n - 1) / rows % 2 == 1
        });
        self.interval *= 2;
    }

    /// Records the last reading, at the end of the run.
    pub(crate) fn finish(&mut self, now: Instant, rows: &[T]) {
        if self.rows == 0 {
            return;
        }
        self.read(now, rows);
        let begun = self.end.since(self.start).get() - self.interval;
        if now.since(self.start).get() > begun {
            self.last = Some((now, rows.to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reading_is_what_stood_at_its_interval_s_end() {
        for (rows, most) in [(1, 1024), (1, 16), (3, 256), (5000, 16)] {
            let start = Instant::new(77);
            let mut series = Readings::new(start, rows, most);
            let (mut now, mut rng) = (start, elevon_testkit::Rng(5));
            let mut steps = Vec::new();
            let read = |steps: u64| -> Vec<(u64, u64)> {
                (0..rows as u64).map(|row| (steps, row)).collect()
            };
            for step in 1..2000 {
                let quiet = if step % 700 == 0 { 2_000_000_000 } else { 0 };
                now = now.saturating_add(Nanos::new(rng.below(500_000) + quiet));
                if series.is_due(now) {
                    series.read(now, &read(steps.len() as u64));
                }
                steps.push(now);
            }
            series.finish(now, &read(steps.len() as u64));
            let mut last = Nanos::ZERO;
            assert!(
                (most / 2..=most + 1).contains(&series.readings().count()),
                "{rows} rows, {most}"
            );
            for (at, found) in series.readings() {
                let end = start.saturating_add(at);
                let expected =
                    steps.partition_point(|&step| step < end || (end == now && step == end)) as u64;
                assert_eq!(found.len(), rows);
                assert!(
                    found.iter().enumerate().all(|(row, of)| *of == (expected, row as u64)),
                    "at {at:?}"
                );
                assert!(at > last && at.saturating_sub(last) <= series.interval());
                last = at;
            }
            assert_eq!(start.saturating_add(last), now);
        }
    }

    #[test]
    fn a_run_of_no_time_has_no_reading() {
        let mut series = Readings::new(Instant::ZERO, 1, 16);
        series.finish(Instant::ZERO, &[0]);
        assert_eq!(series.readings().count(), 0);
        let mut series = Readings::new(Instant::ZERO, 1, 16);
        series.finish(Instant::new(1_000_000), &[0]);
        assert_eq!(series.readings().map(|(at, _)| at.get()).collect::<Vec<_>>(), [1_000_000]);
    }

    #[test]
    fn without_rows_nothing_is_due() {
        let mut series = Readings::new(Instant::ZERO, 0, 256);
        assert!(!series.is_due(Instant::new(1 << 60)));
        series.finish(Instant::new(5), &[0; 0]);
        assert_eq!(series.readings().count(), 0);
    }
}
