//! The earliest start of the next I/O: `rate`, `rate_iops`, `rate_min` and the options of
//! thinktime. All in integers except the Poisson process.

use elevon_core::stats::Direction;
use elevon_core::units::{Bytes, Instant, Nanos};
use elevon_formats::fio::spec::JobSpec;

use crate::chance::{Purpose, Rng};
use crate::math::ln;
use crate::pattern::Seeds;
use crate::region::{directions, smallest};

const SECOND: u64 = 1_000_000_000;

/// An absolute schedule: the next I/O may start when the previous ones have used up their time at
/// the rate. The schedule does not drift, because the remainder of every division is carried. A
/// process that fell behind catches up.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    rate: u64,
    next: Instant,
    remainder: u64,
    /// The time of one I/O of the smallest block at the rate.
    period: Nanos,
    /// What think times add to the due times that follow the next one.
    shift: Nanos,
}

impl Schedule {
    /// `least`: units of one I/O of the smallest block.
    fn new(rate: u64, least: u64) -> Self {
        let period = Nanos::new((u128::from(least) * u128::from(SECOND) / u128::from(rate)) as u64);
        Self { rate, next: Instant::ZERO, remainder: 0, period, shift: Nanos::ZERO }
    }

    /// Delays the schedule by a think time. The I/O that is due next keeps its time, so it goes at
    /// once if it became due while the process thought. For that I/O, one period of a longer think
    /// time does not count. As measured with fio 3.33.
    fn delay(&mut self, span: Nanos) {
        self.shift += if span >= self.period { span - self.period } else { span };
    }

    fn take_shift(&mut self) -> Nanos {
        std::mem::take(&mut self.shift)
    }

    fn advance(&mut self, units: u64) {
        let total = u128::from(units) * u128::from(SECOND) + u128::from(self.remainder);
        let rate = u128::from(self.rate);
        self.next = self.next.saturating_add(Nanos::new((total / rate) as u64) + self.take_shift());
        self.remainder = (total % rate) as u64;
    }
}

#[derive(Clone, Debug, Default)]
struct Limit {
    bytes: Option<Schedule>,
    ios: Option<Schedule>,
    minimum_bytes: Option<Bytes>,
    minimum_ios: Option<u64>,
    done_bytes: Bytes,
    done_ios: u64,
}

/// The rates of a process.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    limits: [Limit; 3],
    poisson: Option<Rng>,
    ignore_think: bool,
    any: bool,
    has_minimum: bool,
    cycle: Nanos,
    cycle_start: Instant,
}

impl Pace {
    pub(crate) fn new(spec: &JobSpec, seeds: &Seeds) -> Self {
        let schedule = |rate: Option<u64>, least: u64| {
            rate.filter(|&rate| rate > 0).map(|rate| Schedule::new(rate, least))
        };
        let used = directions(spec);
        let limits: [Limit; 3] = std::array::from_fn(|d| {
            // A Poisson process counts I/Os, so a rate in bytes becomes a rate of smallest blocks.
            let block = smallest(&spec.blocks.sizes[d]).max(1);
            let poisson_ios = spec.rates.bytes[d]
                .filter(|_| spec.rates.poisson)
                .map(|rate| (rate / block).max(1));
            Limit {
                bytes: schedule(spec.rates.bytes[d].filter(|_| !spec.rates.poisson), block),
                ios: schedule(spec.rates.iops[d].or(poisson_ios), 1),
                // A single value applies to every direction, even those that the job does not use.
                minimum_bytes: spec.rates.min_bytes[d]
                    .filter(|&rate| rate > 0 && used[d])
                    .map(Bytes::new),
                minimum_ios: spec.rates.min_iops[d].filter(|&rate| rate > 0 && used[d]),
                ..Limit::default()
            }
        });
        Self {
            any: limits.iter().any(|l| l.bytes.is_some() || l.ios.is_some()),
            has_minimum: limits
                .iter()
                .any(|l| l.minimum_bytes.is_some() || l.minimum_ios.is_some()),
            limits,
            poisson: spec.rates.poisson.then(|| seeds.stream(Purpose::Rate)),
            ignore_think: spec.rates.ignore_think_time,
            cycle: spec.rates.cycle,
            cycle_start: Instant::ZERO,
        }
    }

    pub(crate) fn start(&mut self, now: Instant) {
        self.cycle_start = now;
        for limit in &mut self.limits {
            for schedule in [&mut limit.bytes, &mut limit.ios].into_iter().flatten() {
                schedule.next = now;
            }
        }
    }

    /// Returns the instant from which the direction may start its next I/O; `None` if it has no
    /// rate.
    #[inline]
    pub(crate) fn due(&self, direction: Direction) -> Option<Instant> {
        if !self.any {
            return None;
        }
        let limit = &self.limits[direction as usize];
        limit.bytes.map(|s| s.next).max(limit.ios.map(|s| s.next))
    }

    #[inline]
    pub(crate) fn on_issue(&mut self, direction: Direction, len: Bytes) {
        if !self.any {
            return;
        }
        let limit = &mut self.limits[direction as usize];
        if let Some(bytes) = &mut limit.bytes {
            bytes.advance(len.get());
        }
        if let Some(ios) = &mut limit.ios {
            match &mut self.poisson {
                None => ios.advance(1),
                Some(rng) => {
                    let mean = SECOND as f64 / ios.rate as f64;
                    let gap = -ln(1.0 - rng.unit()) * mean;
                    ios.next = ios.next.saturating_add(Nanos::new(gap as u64) + ios.take_shift());
                }
            }
        }
    }

    /// Adjusts the rates to a think time that follows an I/O of this direction. With
    /// `rate_ignore_thinktime` the schedule of the direction is delayed; otherwise, and in another
    /// direction of a mix, the process catches up.
    pub(crate) fn on_thought(&mut self, last: Direction, span: Nanos) {
        if self.ignore_think {
            let limit = &mut self.limits[last as usize];
            for schedule in [&mut limit.bytes, &mut limit.ios].into_iter().flatten() {
                schedule.delay(span);
            }
        }
    }

    /// Counts a completion. Once per `rate_cycle` it returns whether all minimum rates were met,
    /// otherwise true.
    #[inline]
    pub(crate) fn on_done(&mut self, now: Instant, direction: Direction, len: Bytes) -> bool {
        if !self.has_minimum {
            return true;
        }
        let limit = &mut self.limits[direction as usize];
        limit.done_bytes += len;
        limit.done_ios += 1;
        let elapsed = now.since(self.cycle_start);
        if elapsed < self.cycle || elapsed.is_zero() {
            return true;
        }
        self.cycle_start = now;
        let met = |done: u64, minimum: Option<u64>| {
            minimum.is_none_or(|minimum| {
                u128::from(done) * u128::from(SECOND)
                    >= u128::from(minimum) * u128::from(elapsed.get())
            })
        };
        self.limits.iter_mut().all(|l| {
            let (bytes, ios) = (std::mem::take(&mut l.done_bytes), std::mem::take(&mut l.done_ios));
            met(bytes.get(), l.minimum_bytes.map(Bytes::get)) && met(ios, l.minimum_ios)
        })
    }
}

/// How far a process is ahead of its rate. It first waits for its I/Os in flight, and sleeps then
/// for as long as it was ahead before, as fio 3.33 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// Not at all.
    No,
    /// By this time, when it found that the next I/O is not due yet.
    By(Nanos),
    /// It sleeps until this instant.
    Until(Instant),
}

/// What a process that is ahead of its rate waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AheadWait {
    /// The completion of all its I/Os in flight.
    InFlight,
    /// This instant.
    Until(Instant),
}

impl Ahead {
    /// Returns what the process waits for; `None` if it may look at its rate again.
    #[inline]
    pub(crate) fn wait(&mut self, now: Instant, any_in_flight: bool) -> Option<AheadWait> {
        if let Self::By(span) = *self {
            if any_in_flight {
                return Some(AheadWait::InFlight);
            }
            *self = Self::Until(now.saturating_add(span));
        }
        match *self {
            Self::Until(at) if now < at => Some(AheadWait::Until(at)),
            _ => {
                *self = Self::No;
                None
            }
        }
    }
}

/// The think time of a process (`thinktime` and related options).
///
/// Before an I/O, but not before the first one after a think time, the process looks whether
/// `thinktime_blocks` I/Os have completed (or were issued, with `thinktime_blocks_type=issue`), or
/// `thinktime_iotime` has passed, since it decided to think the last time. If so, it waits for its
/// I/Os in flight and thinks then. So I/Os that complete during that wait count for the next time.
/// Measured with fio 3.33.
#[derive(Clone, Debug)]
pub(crate) struct Think {
    span: Nanos,
    spin: Nanos,
    blocks: u32,
    counts_issued: bool,
    io_time: Nanos,
    /// I/Os since it decided to think.
    counted: u32,
    since: Instant,
    state: ThinkState,
    /// The direction of the last I/O.
    last: Direction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThinkState {
    /// It may decide to think.
    Ready,
    /// It decided to think, and waits for its I/Os in flight.
    Decided,
    /// It thinks until this instant.
    Until(Instant),
    /// It has thought, and issued nothing since.
    Fresh,
}

/// What the think time allows a process to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Continue.
    No,
    /// Issue nothing until all I/Os in flight have completed.
    Quiesce,
    /// A think time begins; `spin` is the part of `span` that uses CPU. `last` is the direction of
    /// the last I/O.
    Begin { spin: Nanos, span: Nanos, last: Direction },
    /// A think time lasts until this instant.
    Until(Instant),
}

impl Think {
    pub(crate) fn new(spec: &JobSpec) -> Self {
        Self {
            span: spec.think.time,
            spin: spec.think.spin.min(spec.think.time),
            blocks: spec.think.blocks,
            counts_issued: spec.think.counts_issued,
            io_time: spec.think.io_time,
            counted: 0,
            since: Instant::ZERO,
            state: ThinkState::Ready,
            last: Direction::Read,
        }
    }

    pub(crate) const fn start(&mut self, now: Instant) {
        self.since = now;
    }

    #[inline]
    pub(crate) fn hold(&mut self, now: Instant, in_use: usize) -> Hold {
        if self.span.is_zero() {
            return Hold::No;
        }
        if let ThinkState::Until(until) = self.state {
            if now < until {
                return Hold::Until(until);
            }
            self.state = ThinkState::Fresh;
            self.since = now;
        }
        if self.state == ThinkState::Ready {
            let by_blocks = self.blocks > 0 && self.counted >= self.blocks;
            let by_time = !self.io_time.is_zero() && now.since(self.since) >= self.io_time;
            if by_blocks || by_time {
                self.state = ThinkState::Decided;
                self.counted = 0;
            }
        }
        if self.state != ThinkState::Decided {
            return Hold::No;
        }
        if in_use > 0 {
            return Hold::Quiesce;
        }
        self.state = ThinkState::Until(now.saturating_add(self.span));
        Hold::Begin { spin: self.spin, span: self.span, last: self.last }
    }

    #[inline]
    pub(crate) fn on_issue(&mut self, direction: Direction) {
        self.last = direction;
        self.counted = self.counted.saturating_add(self.counts_issued.into());
        if self.state == ThinkState::Fresh {
            self.state = ThinkState::Ready;
        }
    }

    #[inline]
    pub(crate) fn on_done(&mut self) {
        self.counted = self.counted.saturating_add((!self.counts_issued).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(edit: impl FnOnce(&mut JobSpec)) -> Pace {
        let mut spec = JobSpec::default_job("r");
        edit(&mut spec);
        let mut pace = Pace::new(&spec, &Seeds::new(&spec, 1, 0, 0, 1));
        pace.start(Instant::new(1000));
        pace
    }

    #[test]
    fn the_schedule_does_not_drift() {
        let mut pace = pace(|s| s.rates.iops[0] = Some(3));
        for k in 0..3000u64 {
            let due = pace.due(Direction::Read).expect("a rate").get() - 1000;
            assert_eq!(due, k * 1_000_000_000 / 3);
            pace.on_issue(Direction::Read, Bytes::new(4096));
        }
        assert_eq!(pace.due(Direction::Write), None);
    }

    #[test]
    fn bytes_and_ios_the_later_wins() {
        let mut pace = pace(|s| {
            s.rates.bytes[0] = Some(4096);
            s.rates.iops[0] = Some(2);
        });
        pace.on_issue(Direction::Read, Bytes::new(4096));
        assert_eq!(pace.due(Direction::Read), Some(Instant::new(1_000_001_000)));
    }

    #[test]
    fn poisson_keeps_the_mean() {
        let mut pace = pace(|s| {
            s.rates.bytes[0] = Some(4096 * 1000);
            s.rates.poisson = true;
        });
        let mut gaps = Vec::new();
        let mut last = 1000;
        for _ in 0..20_000 {
            pace.on_issue(Direction::Read, Bytes::new(4096));
            let due = pace.due(Direction::Read).expect("a rate").get();
            gaps.push((due - last) as f64);
            last = due;
        }
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.03, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "exponential: deviation equals mean");
    }

    /// Returns the due times in milliseconds of I/Os of one direction that are issued when due,
    /// with a think time after each of `blocks`.
    fn dues(mut pace: Pace, think: u64, blocks: u64) -> Vec<u64> {
        let (mut now, mut dues) = (Instant::new(1000), Vec::new());
        for n in 1..=9 {
            now = now.max(pace.due(Direction::Read).expect("a rate"));
            dues.push((now.get() - 1000) / 1_000_000);
            pace.on_issue(Direction::Read, Bytes::new(4096));
            if n % blocks == 0 {
                pace.on_thought(Direction::Read, Nanos::new(think * 1_000_000));
                now = now.saturating_add(Nanos::new(think * 1_000_000));
            }
        }
        dues
    }

    #[test]
    fn rates_that_ignore_think_time_are_as_measured_with_fio() {
        let of = |think, blocks| {
            let by_ios = pace(|s| (s.rates.iops[0], s.rates.ignore_think_time) = (Some(100), true));
            let by_bytes =
                pace(|s| (s.rates.bytes[0], s.rates.ignore_think_time) = (Some(409_600), true));
            let of_ios = dues(by_ios, think, blocks);
            assert_eq!(dues(by_bytes, think, blocks), of_ios, "think time {think}");
            of_ios
        };
        assert_eq!(of(30, 5), [0, 10, 20, 30, 40, 70, 80, 90, 100]);
        assert_eq!(of(10, 1), [0, 10, 20, 30, 40, 50, 60, 70, 80]);
        assert_eq!(of(11, 1), [0, 11, 22, 33, 44, 55, 66, 77, 88]);
        assert_eq!(of(11, 3), [0, 10, 20, 31, 41, 51, 62, 72, 82]);
        assert_eq!(of(5, 1), [0, 10, 25, 40, 55, 70, 85, 100, 115]);
        assert_eq!(of(5, 3), [0, 10, 20, 30, 45, 55, 65, 80, 90]);
        assert_eq!(of(25, 3), [0, 10, 20, 45, 55, 65, 90, 100, 110]);
    }

    #[test]
    fn a_think_time_delays_the_direction_of_the_last_io() {
        let mut pace = pace(|s| {
            (s.rates.iops, s.rates.ignore_think_time) = ([Some(100), Some(100), None], true);
        });
        pace.on_thought(Direction::Read, Nanos::new(30_000_000));
        let mut due = |direction| {
            pace.on_issue(direction, Bytes::new(4096));
            (pace.due(direction).expect("a rate").get() - 1000) / 1_000_000
        };
        assert_eq!((due(Direction::Read), due(Direction::Write)), (30, 10));
    }

    #[test]
    fn minimum_is_judged_once_a_cycle() {
        let mut pace = pace(|s| s.rates.min_iops[0] = Some(10));
        let at = |ms: u64| Instant::new(1000 + ms * 1_000_000);
        for i in 0..20 {
            assert!(pace.on_done(at(i * 50), Direction::Read, Bytes::new(4096)));
        }
        assert!(pace.on_done(at(1000), Direction::Read, Bytes::new(4096)), "21 a second is enough");
        assert!(!pace.on_done(at(2000), Direction::Read, Bytes::new(4096)), "1 a second is not");
    }
}
