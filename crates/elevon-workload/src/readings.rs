//! I/Os and bytes of each job and each tenant over time, in bounded memory: the values of their
//! counters at the end of equal intervals, whose length doubles when there are too many.
//!
//! Values of counters are stored, not differences, so two intervals are joined by dropping the
//! first. Cost: one comparison per instant, and a pass over all jobs and tenants per interval.

use elevon_core::units::{Instant, Nanos};

/// The initial length of an interval: 1 ms.
const FIRST_INTERVAL: u64 = 1_000_000;
/// The maximum number of intervals, if there are few rows; even.
const MOST: usize = 256;
/// The minimum number of intervals, however many rows there are; even.
const FEWEST: usize = 16;
/// The maximum number of readings of all rows together.
const ALL: usize = 1 << 16;

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
pub struct OwnerSeries {
    start: Instant,
    interval: u64,
    /// The end of the current interval.
    end: Instant,
    rows: usize,
    most: usize,
    /// All rows of the first interval, then all rows of the second, and so on.
    readings: Vec<Progressed>,
    /// The reading at the end of the run, and its instant.
    last: Option<(Instant, Vec<Progressed>)>,
}

impl OwnerSeries {
    /// Returns a series of this number of rows. A series without rows takes no readings.
    pub(crate) fn new(start: Instant, rows: usize) -> Self {
        let most = (ALL / rows.max(1)).clamp(FEWEST, MOST) & !1;
        let end = if rows == 0 { Instant::MAX } else { start.saturating_add(Nanos::new(FIRST_INTERVAL)) };
        Self { start, interval: FIRST_INTERVAL, end, rows, most, readings: Vec::new(), last: None }
    }

    /// Returns the number of rows of each reading: every process by task, then every tenant of a
    /// job by number, the root first.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the length of an interval; the last may be shorter.
    pub const fn interval(&self) -> Nanos {
        Nanos::new(self.interval)
    }

    /// Returns the end of each interval, counted from the start, with the values of all rows.
    pub fn readings(&self) -> impl Iterator<Item = (Nanos, &[Progressed])> {
        let at = |n: usize| Nanos::new(self.interval * (n as u64 + 1));
        let whole = self.readings.chunks_exact(self.rows.max(1)).enumerate().map(move |(n, rows)| (at(n), rows));
        whole.chain(self.last.iter().map(|(at, rows)| (at.since(self.start), rows.as_slice())))
    }

    /// Returns true if an interval has ended. The caller has done nothing yet at `now`.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.end
    }

    /// Records the values of all rows.
    pub(crate) fn read(&mut self, now: Instant, rows: &[Progressed]) {
        while now >= self.end {
            if self.readings.len() == self.most * self.rows {
                self.fold();
            } else {
                self.readings.extend_from_slice(rows);
            }
            let intervals = (self.readings.len() / self.rows) as u64 + 1;
            self.end = self.start.saturating_add(Nanos::new(self.interval * intervals));
        }
    }

    /// Drops every first reading of two: the second belongs to an interval twice as long.
    fn fold(&mut self) {
        let rows = self.rows;
        let mut n = 0;
        self.readings.retain(|_| {
            n += 1;
            (n - 1) / rows % 2 == 1
        });
        self.interval *= 2;
    }

    /// Records the last reading, at the end of the run.
    pub(crate) fn finish(&mut self, now: Instant, rows: &[Progressed]) {
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
        for rows in [1, 3, 5000] {
            let start = Instant::new(77);
            let mut series = OwnerSeries::new(start, rows);
            let (mut now, mut rng) = (start, elevon_testkit::Rng(5));
            let mut steps = Vec::new();
            let read = |steps: u64| -> Vec<Progressed> {
                (0..rows as u64).map(|row| Progressed { ios: [steps, row, 0], ..Progressed::default() }).collect()
            };
            for _ in 0..2000 {
                now = now.saturating_add(Nanos::new(rng.below(500_000)));
                if series.is_due(now) {
                    series.read(now, &read(steps.len() as u64));
                }
                steps.push(now);
            }
            series.finish(now, &read(steps.len() as u64));
            let mut last = Nanos::ZERO;
            assert!(series.readings().count() <= series.most + 1);
            for (at, found) in series.readings() {
                let end = start.saturating_add(at);
                let expected = steps.partition_point(|&step| step < end || (end == now && step == end)) as u64;
                assert_eq!(found.len(), rows);
                assert!(found.iter().enumerate().all(|(row, of)| of.ios == [expected, row as u64, 0]), "at {at:?}");
                assert!(at > last && at.saturating_sub(last) <= series.interval());
                last = at;
            }
            assert_eq!(start.saturating_add(last), now);
        }
    }

    #[test]
    fn without_rows_nothing_is_due() {
        let mut series = OwnerSeries::new(Instant::ZERO, 0);
        assert!(!series.is_due(Instant::new(1 << 60)));
        series.finish(Instant::new(5), &[]);
        assert_eq!(series.readings().count(), 0);
    }
}
