//! Observations of a process: its think time between requests, its seeks, whether it is I/O-bound.

extern crate alloc;

use crate::units::{Instant, Nanos, Sector};

/// Distance in sectors from which a request counts as a seek.
const SEEK_DISTANCE: u64 = 800;
/// On a non-rotational device, requests of at least this many sectors do not count as seeks.
const BIG_REQUEST: u64 = 64;

/// How the time from the creation of a queue to its first request counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// The time counts as zero.
    Read,
    /// The clock is not read a second time under a plug, so that the first request comes a
    /// nanosecond before the time to which the new queue's last completion is set. In unsigned
    /// arithmetic that is nearly 2^64 ns.
    Kept,
}

impl Clock {
    /// Returns the nanoseconds from `start` to `end`.
    const fn between(self, start: Instant, end: Instant) -> u64 {
        match self {
            Self::Read => end.since(start).get(),
            // A process cannot go on in the very nanosecond of a completion; in a simulation
            // without CPU costs it does.
            Self::Kept if end.get() == start.get() => 1,
            Self::Kept => end.get().wrapping_sub(start.get()),
        }
    }
}

/// Think time: a mean that decays by 1/8.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThinkTime {
    /// When the last request of the queue completed.
    ///
    /// Of a new queue it is a nanosecond after its creation.
    pub(super) last_end: Instant,
    samples: u64,
    total: u64,
    mean: u64,
}

impl ThinkTime {
    pub(super) fn new(now: Instant) -> Self {
        Self { last_end: now + Nanos::new(1), samples: 0, total: 0, mean: 0 }
    }

    /// Adds the think time before a new request, while no request was in flight. Long pauses are
    /// cut to twice the idle time. `clock`: how a time of less than nothing counts.
    pub(super) fn on_arrival(&mut self, now: Instant, slice_idle: Nanos, clock: Clock) {
        let elapsed = clock.between(self.last_end, now).min(2 * slice_idle.get());
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * elapsed) / 8;
        self.mean = (self.total + 128) / self.samples;
    }

    /// Returns true if the mean is known and longer than `limit`.
    pub(super) const fn exceeds(&self, limit: Nanos) -> bool {
        self.samples > 80 && self.mean > limit.get()
    }
}

/// For each of the last 32 requests, whether it was a seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seeks {
    /// The newest in the lowest bit.
    history: u32,
    /// The seeks in it.
    count: u32,
}

impl Seeks {
    /// A new queue starts with one seek, so that a random reader is detected one request earlier.
    pub(super) const NEW: Self = Self { history: 1, count: 1 };

    pub(super) fn add(&mut self, seek: bool) {
        let oldest = self.history >> 31;
        self.history = self.history << 1 | u32::from(seek);
        self.count = self.count + u32::from(seek) - oldest;
    }
    pub(super) const fn is_seeky(self) -> bool {
        self.count > 19
    }
    pub(super) const fn is_totally_seeky(self) -> bool {
        self.count == 32
    }
}

/// Returns true if a request at `start` is a seek from `last`. Position 0 means that there was no
/// request before.
pub(super) const fn is_seek(last: Sector, start: Sector, sectors: u64, rotational: bool) -> bool {
    let distance = last.get().abs_diff(start.get());
    // Without branches: any of the three may be either.
    (last.get() != 0) & (distance > SEEK_DISTANCE) & (rotational | (sectors < BIG_REQUEST))
}

/// Whether a process waits for I/O for at least four fifths of its time, in a window that is halved
/// when it exceeds 200 ms.
#[derive(Clone, Copy, Debug)]
pub(super) struct IoBound {
    pub(super) is_bound: bool,
    start: Instant,
    /// Nanoseconds; wraps (see [`Clock::Kept`]).
    idle: u64,
}

impl IoBound {
    pub(super) const fn new(now: Instant) -> Self {
        Self { is_bound: true, start: now, idle: 0 }
    }

    /// Handles the arrival of a request; `away`: the time since which nothing was queued or in
    /// flight.
    pub(super) fn on_arrival(
        &mut self,
        now: Instant,
        away: Option<Instant>,
        just_created: bool,
        clock: Clock,
    ) {
        let away = away.map_or(0, |since| clock.between(since, now));
        self.idle = self.idle.wrapping_add(away);
        let total = now.since(self.start).get();
        if !just_created {
            self.is_bound = self.idle.wrapping_mul(5) <= total;
        }
        if total > 200_000_000 {
            self.start = Instant::new(now.get() - total / 2);
            self.idle /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_three_pauses() {
        let idle = Nanos::from_millis(8);
        for (pause_ms, mean_us, long, long_in_the_seed) in
            [(5, 5030, true, false), (3, 3018, false, false), (100, 16095, true, true)]
        {
            let mut think = ThinkTime::new(Instant::ZERO);
            let mut samples = alloc::vec::Vec::new();
            let mut now = think.last_end;
            for _ in 0..3 {
                assert!(!think.exceeds(Nanos::ZERO));
                now = now + Nanos::from_millis(pause_ms);
                think.on_arrival(now, idle, Clock::Read);
                think.last_end = now;
                samples.push(think.samples);
            }
            assert_eq!(samples, [32, 60, 84]);
            assert_eq!((think.mean + 500) / 1000, mean_us);
            assert_eq!(think.exceeds(Nanos::from_millis(4)), long);
            assert_eq!(think.exceeds(idle), long_in_the_seed);
        }
    }

    #[test]
    fn what_counts_as_a_seek() {
        for (start, sectors, rotational, seek) in [
            (1800, 8, false, false),
            (1801, 8, false, true),
            (1801, 64, false, false),
            (1801, 64, true, true),
        ] {
            assert_eq!(is_seek(Sector::new(1000), Sector::new(start), sectors, rotational), seek);
        }
        assert!(!is_seek(Sector::ZERO, Sector::new(1 << 30), 8, true));
    }

    #[test]
    fn seeks_are_counted_as_they_come_and_go() {
        let (mut seeks, mut rng) = (Seeks::NEW, elevon_testkit::Rng(1));
        for step in 0..1000 {
            seeks.add(rng.below(1000) < step);
            assert_eq!(seeks.count, seeks.history.count_ones());
        }
    }

    #[test]
    fn seeky_from_the_twentieth_random_request() {
        let mut seeks = Seeks::NEW;
        for request in 1..=40 {
            seeks.add(request > 1);
            assert_eq!(seeks.is_seeky(), request >= 20, "after {request}");
            assert_eq!(seeks.is_totally_seeky(), request >= 33, "after {request}");
        }
    }

    /// Of a process that always has several requests in flight nothing corrects the first time,
    /// but it is halved about ten times a second: after 4 s it is less than a fifth of the window.
    #[test]
    fn a_kept_clock_makes_a_deep_queue_look_idle_for_four_seconds() {
        let at = |ms: u64| Instant::ZERO + Nanos::from_millis(ms);
        let mut bound = IoBound::new(at(0));
        bound.on_arrival(at(0), Some(at(0) + Nanos::new(1)), true, Clock::Kept);
        assert_eq!(bound.idle, u64::MAX);
        let mut deep = bound;
        let becomes = (1..10_000).find(|&ms| {
            deep.on_arrival(at(ms), None, false, Clock::Kept);
            deep.is_bound
        });
        assert_eq!(becomes, Some(4070));
        // One completion before the next request is enough.
        bound.on_arrival(at(10), Some(at(9)), false, Clock::Kept);
        assert!(bound.is_bound && bound.idle == 999_999);
    }

    #[test]
    fn a_kept_clock_makes_the_first_pause_a_long_one() {
        let idle = Nanos::from_millis(8);
        let mut think = ThinkTime::new(Instant::ZERO);
        let mut long = [false; 5];
        for long in &mut long {
            let now = think.last_end;
            think.on_arrival(
                if think.samples == 0 { Instant::ZERO } else { now },
                idle,
                Clock::Kept,
            );
            *long = think.exceeds(Nanos::from_millis(4));
        }
        assert_eq!(long, [false, false, true, false, false]);
    }

    #[test]
    fn a_fifth_of_the_time_away_is_too_much() {
        let at = |ms: u64| Instant::ZERO + Nanos::from_millis(ms);
        let mut bound = IoBound::new(at(0));
        bound.on_arrival(at(50), Some(at(40)), false, Clock::Read);
        assert!(bound.is_bound);
        bound.on_arrival(at(60), Some(at(57)), false, Clock::Read);
        assert!(!bound.is_bound);
        bound.on_arrival(at(70), None, true, Clock::Read);
        assert!(!bound.is_bound, "a queue just created is not judged");
        // After 200 ms the window is halved: 100 ms with 6.5 ms away.
        bound.on_arrival(at(201), None, false, Clock::Read);
        assert!(bound.is_bound && bound.idle == 6_500_000);
    }
}
