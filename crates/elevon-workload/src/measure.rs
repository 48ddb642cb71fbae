//! The statistics that a process keeps. Cost per I/O: O(1), at most three histogram increments and
//! no allocation.

use elevon_cache::stats::CacheUse;
use elevon_core::ioprio::IoPrio;
use elevon_core::stats::{Direction, DirectionStats, JobStats, LatencyStat, Repeats};
use elevon_core::units::{Bytes, DeviceOffset, Instant, Nanos};

use crate::logs::{Logger, Sample};
use crate::readings::Progressed;

/// Bandwidth and IOPS are sampled at this interval in nanoseconds, fio's default.
const SAMPLE: u64 = 500_000_000;

/// A completed I/O.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub(crate) direction: Direction,
    pub(crate) len: Bytes,
    pub(crate) offset: DeviceOffset,
    pub(crate) ioprio: IoPrio,
    /// The instant at which the process began to prepare it.
    pub(crate) start: Instant,
    /// The instant at which its submission returned.
    pub(crate) issued: Instant,
    /// The instant at which the process had it back.
    pub(crate) end: Instant,
}

/// The latency that is recorded per priority in a job with `cmdprio_percentage=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PriorityLatency {
    /// From the submission to the completion.
    Completion,
    /// From before the submission to the completion: with `lat_percentiles=1`, as in fio.
    Whole,
}

/// Statistics and logs of one process.
#[derive(Clone, Debug)]
pub(crate) struct Measure {
    pub(crate) stats: JobStats,
    /// Its page cache statistics, if it went through a page cache.
    pub(crate) cache_use: Option<Box<CacheUse>>,
    pub(crate) logger: Option<Box<Logger>>,
    /// By direction: I/Os are queued, so a submission has a latency of its own.
    is_queued: [bool; 3],
    /// The latency that is recorded per priority, if any.
    by_priority: Option<PriorityLatency>,
    /// True once the statistics have begun, after the ramp.
    begun: bool,
    ramp_end: Instant,
    /// What was completed before they began.
    before: Progressed,
    /// The instant at which the process last had a completion back.
    last_end: Instant,
    /// The instant at which the statistics began.
    since: Instant,
    phase_start: Instant,
    sample_end: Instant,
    sample_start: Instant,
    /// Bytes and I/Os of each direction before this sample.
    sampled: [(u64, u64); 3],
    /// By direction, what is still to be counted in `repeats`.
    alike: [Alike; 3],
    /// Latencies (clat, lat, slat) by direction that are still to be counted in `stats`.
    repeats: [[Repeats; 3]; 3],
}

/// I/Os in a row with the same latencies: most of a run on a device of constant latency.
#[derive(Clone, Copy, Debug, Default)]
struct Alike {
    /// From the submission to the completion, and before the submission.
    latencies: (Nanos, Nanos),
    times: u64,
}

impl Measure {
    pub(crate) fn new(
        is_queued: [bool; 3],
        by_priority: Option<PriorityLatency>,
        logger: Option<Logger>,
    ) -> Self {
        Self {
            stats: JobStats::default(),
            cache_use: None,
            logger: logger.map(Box::new),
            is_queued,
            by_priority,
            begun: true,
            ramp_end: Instant::ZERO,
            before: Progressed::default(),
            last_end: Instant::ZERO,
            since: Instant::ZERO,
            phase_start: Instant::ZERO,
            sample_end: Instant::MAX,
            sample_start: Instant::ZERO,
            sampled: [(0, 0); 3],
            alike: Default::default(),
            repeats: Default::default(),
        }
    }

    pub(crate) fn start(&mut self, now: Instant, ramp: Nanos) {
        self.ramp_end = now.saturating_add(ramp);
        self.begin(now);
        self.begun = ramp.is_zero();
    }

    /// Returns what was completed, with what the statistics leave out: the ramp, and what came
    /// before the final run of `latency_target`.
    pub(crate) fn progressed(&self) -> Progressed {
        let Progressed { ios, bytes } = self.before;
        let of = &self.stats.directions;
        Progressed {
            ios: std::array::from_fn(|d| ios[d] + of[d].ios),
            bytes: std::array::from_fn(|d| bytes[d] + of[d].bytes),
        }
    }

    fn begin(&mut self, at: Instant) {
        self.before = self.progressed();
        self.stats = JobStats { error: self.stats.error, ..JobStats::default() };
        self.cache_use = None;
        self.begun = true;
        (self.since, self.phase_start) = (at, at);
        self.sample_start = at;
        self.sample_end = at.saturating_add(Nanos::new(SAMPLE));
        self.sampled = [(0, 0); 3];
        (self.alike, self.repeats) = Default::default();
        if let Some(logger) = &mut self.logger {
            logger.start(at);
        }
    }

    /// Begins the statistics anew, for the final run of `latency_target`.
    pub(crate) fn restart(&mut self, at: Instant) {
        if self.begun {
            self.begin(at);
        }
    }

    /// Resets the statistics once the ramp has ended. Returns true when it does so.
    #[inline]
    pub(crate) fn leave_ramp(&mut self, now: Instant) -> bool {
        let leaves = !self.begun && now >= self.ramp_end;
        if leaves {
            self.begin(self.ramp_end);
        }
        leaves
    }

    /// Counts the time before a submission that begins at `start` and finds none of the process's
    /// I/Os under way: it asked for nothing meanwhile.
    #[inline]
    pub(crate) fn on_idle_until(&mut self, start: Instant) {
        self.stats.idle_ns += start.since(self.last_end.max(self.since).min(start)).get();
    }

    #[inline]
    pub(crate) fn on_submit(&mut self, depth: usize, ios: u64) {
        // No depth counts as one.
        let level = (depth | 1).ilog2().min(6);
        self.stats.depth_levels[level as usize] += ios;
    }

    pub(crate) fn on_batch(&mut self, ios: usize) {
        self.stats.submit_levels[batch_level(ios)] += 1;
    }

    pub(crate) fn on_reap(&mut self, ios: usize) {
        self.stats.complete_levels[batch_level(ios)] += 1;
    }

    /// Notes when the process has back what it reaped.
    #[inline]
    pub(crate) const fn on_reaped(&mut self, end: Instant) {
        self.last_end = end;
    }

    /// Returns true if [`Self::count`] does all that [`Self::on_done`] would do, once the
    /// statistics have begun: there is no logger, and no latency is recorded per priority.
    pub(crate) const fn only_counts(&self) -> bool {
        self.logger.is_none() && self.by_priority.is_none()
    }

    /// Returns true if the statistics have begun.
    #[inline]
    pub(crate) const fn has_begun(&self) -> bool {
        self.begun
    }

    /// Counts a completed I/O, with its latencies.
    #[inline(always)]
    pub(crate) fn count(
        &mut self,
        direction: Direction,
        len: Bytes,
        start: Instant,
        issued: Instant,
        end: Instant,
    ) {
        if end >= self.sample_end {
            self.close_sample(end);
        }
        let d = direction as usize;
        let stats = &mut self.stats.directions[d];
        stats.ios += 1;
        stats.bytes += len.get();
        debug_assert!(start <= issued && issued <= end, "an I/O ends before it was submitted");
        let latencies = (end.since(issued), issued.since(start));
        let alike = &mut self.alike[d];
        if alike.latencies == latencies {
            alike.times += 1;
        } else {
            self.begin_alike(d, latencies);
        }
    }

    /// Counts an I/O whose latencies are not those of the one before.
    #[inline(never)]
    fn begin_alike(&mut self, d: usize, latencies: (Nanos, Nanos)) {
        self.settle(d);
        let stats = &mut self.stats.directions[d];
        let [clat, lat, slat] = &mut self.repeats[d];
        clat.add(latencies.0.get(), &mut stats.clat);
        lat.add((latencies.0 + latencies.1).get(), &mut stats.lat);
        if self.is_queued[d] {
            slat.add(latencies.1.get(), &mut stats.slat);
        }
        self.alike[d].latencies = latencies;
    }

    /// Counts in `repeats` what is still to be counted there: of each, its last value.
    #[inline(always)]
    fn settle(&mut self, d: usize) {
        let times = std::mem::take(&mut self.alike[d].times);
        let [clat, lat, slat] = &mut self.repeats[d];
        clat.repeat(times);
        lat.repeat(times);
        if self.is_queued[d] {
            slat.repeat(times);
        }
    }

    /// Counts and logs a completed I/O.
    pub(crate) fn on_done(&mut self, io: &Finished) {
        self.count(io.direction, io.len, io.start, io.issued, io.end);
        let (clat, lat) = (io.end.since(io.issued).get(), io.end.since(io.start).get());
        let slat = self.is_queued[io.direction as usize].then(|| io.issued.since(io.start).get());
        let stats = &mut self.stats.directions[io.direction as usize];
        if let Some(which) = self.by_priority {
            let latency = if which == PriorityLatency::Whole { lat } else { clat };
            match stats.by_priority.iter_mut().find(|(prio, _)| *prio == io.ioprio) {
                Some((_, stat)) => stat.add(latency),
                None => {
                    let mut stat = LatencyStat::default();
                    stat.add(latency);
                    stats.by_priority.push((io.ioprio, stat));
                }
            }
        }
        if let Some(logger) = &mut self.logger {
            let Finished { direction, len, offset, ioprio, end, .. } = *io;
            logger.add(&Sample { end, direction, len, offset, ioprio, slat, clat, lat });
        }
    }

    #[cold]
    fn close_sample(&mut self, now: Instant) {
        let elapsed = now.since(self.sample_start).get();
        for (sampled, stats) in self.sampled.iter_mut().zip(&mut self.stats.directions) {
            let until_now = (stats.bytes, stats.ios);
            let (bytes, ios) = (until_now.0 - sampled.0, until_now.1 - sampled.1);
            *sampled = until_now;
            add_sample(stats, bytes, ios, elapsed);
        }
        self.sample_start = now;
        self.sample_end = now.saturating_add(Nanos::new(SAMPLE));
    }

    /// Ends a phase with I/O in these directions: its time counts for them.
    pub(crate) fn end_phase(&mut self, now: Instant, directions: [bool; 3]) {
        self.leave_ramp(now);
        let span = now.since(self.phase_start).get();
        self.stats.run_ns = now.since(self.since).get();
        for (stats, used) in self.stats.directions.iter_mut().zip(directions) {
            stats.runtime_ns += if used { span } else { 0 };
        }
        self.phase_start = now;
    }

    /// Returns the statistics as [`Self::end_phase`] and [`Self::finish`] would leave them now.
    pub(crate) fn stats_at(&self, now: Instant, directions: [bool; 3]) -> JobStats {
        let mut copy = Self { logger: None, cache_use: None, stats: self.stats.clone(), ..*self };
        copy.end_phase(now.max(self.phase_start), directions);
        copy.finish();
        copy.stats
    }

    pub(crate) fn finish(&mut self) {
        // A job without a whole sample in which an I/O completed has one sample, its mean.
        if self.stats.directions.iter().all(|d| d.bandwidth.count == 0) {
            for stats in &mut self.stats.directions {
                let (bytes, ios, span) = (stats.bytes, stats.ios, stats.runtime_ns);
                add_sample(stats, bytes, ios, span);
            }
        }
        (0..3).for_each(|d| self.settle(d));
        for (stats, [clat, lat, slat]) in self.stats.directions.iter_mut().zip(&mut self.repeats) {
            clat.flush(&mut stats.clat);
            lat.flush(&mut stats.lat);
            slat.flush(&mut stats.slat);
            if stats.by_priority.len() < 2 {
                stats.by_priority.clear();
            } else {
                stats.by_priority.sort_by_key(|(prio, _)| *prio);
            }
        }
        if let Some(logger) = &mut self.logger {
            logger.finish();
        }
    }
}

/// Adds a sample of the I/Os of a direction in `elapsed` nanoseconds, if there are any.
fn add_sample(stats: &mut DirectionStats, bytes: u64, ios: u64, elapsed: u64) {
    if ios > 0 && elapsed > 0 {
        let per_second = |count: u64| u128::from(count) * 1_000_000_000 / u128::from(elapsed);
        stats.bandwidth.add((per_second(bytes) / 1024) as u64);
        stats.iops.add(per_second(ios) as u64);
    }
}

/// Returns the index of fio's level: 0, 1-4, 5-8, 9-16, 17-32, 33-64, more.
const fn batch_level(ios: usize) -> usize {
    match ios {
        0 => 0,
        1..=4 => 1,
        5..=8 => 2,
        9..=16 => 3,
        17..=32 => 4,
        33..=64 => 5,
        _ => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevon_testkit::Rng;

    #[test]
    fn latencies_in_a_row_are_counted_as_each() {
        for asynchronous in [true, false] {
            let mut rng = Rng(5);
            let mut measure = Measure::new([asynchronous; 3], None, None);
            let mut naive = [
                [LatencyStat::default(), LatencyStat::default(), LatencyStat::default()],
                Default::default(),
            ];
            for at in 0..2_000 {
                // Of few values, so that many come in a row; zeros come first.
                let mut draw = || if at < 5 { 0 } else { rng.below(2) * 700 };
                let (clat, slat) = (draw(), draw());
                let direction = if at % 3 == 2 { Direction::Write } else { Direction::Read };
                let (start, issued) = (Instant::new(at), Instant::new(at + slat));
                measure.count(
                    direction,
                    Bytes::new(512),
                    start,
                    issued,
                    issued.saturating_add(Nanos::new(clat)),
                );
                let of = &mut naive[direction as usize];
                [clat, clat + slat]
                    .into_iter()
                    .zip(&mut *of)
                    .for_each(|(latency, stat)| stat.add(latency));
                if asynchronous {
                    of[2].add(slat);
                }
            }
            // A look in the middle changes nothing.
            let _ = measure.stats_at(Instant::new(9_999), [true; 3]);
            measure.finish();
            for (stats, naive) in measure.stats.directions.iter().zip(naive) {
                assert_eq!(
                    [&stats.clat, &stats.lat, &stats.slat],
                    naive.each_ref(),
                    "asynchronous: {asynchronous}"
                );
            }
        }
    }
}
