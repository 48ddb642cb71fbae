//! Time in jiffies, the ticks of the kernel's clock, in the three forms that the kernel's rules
//! need.
//!
//! `Ticks` is for deadlines and slices: a tick is a whole number of nanoseconds. `JiffyClock` is
//! for io_ticks: a jiffy lasts `1 / hz` seconds on average, even if that is not a whole number of
//! nanoseconds (300 Hz). [`Hz`] is for spans. At the kernel's 100, 250 and 1000 Hz all of them
//! agree. O(1); both clocks divide only when a new tick begins.

use crate::monotonic::Monotonic;
use crate::units::{Instant, Nanos};

/// Jiffies per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hz(pub u64);

impl Default for Hz {
    fn default() -> Self {
        Self(250)
    }
}

impl Hz {
    /// Returns a span in whole jiffies.
    pub const fn jiffies(self, span: Nanos) -> u64 {
        (span.get() as u128 * self.0 as u128 / 1_000_000_000) as u64
    }
    /// Returns jiffies as a span.
    pub const fn span(self, jiffies: u64) -> Nanos {
        Nanos::new(jiffies * 1_000_000_000 / self.0)
    }
    /// Returns when a timer ends that is set now for a number of jiffies. A timer is never early:
    /// the jiffy in which it is set does not count, so one of a single jiffy that is set at a tick
    /// takes two. Timers of 64 jiffies and more end at multiples of 8, 64 or 512 jiffies, the
    /// granularities of the timer wheel that Linux has since 4.8.
    pub const fn timer(self, now: Instant, jiffies: u64) -> Instant {
        let granularity = match jiffies {
            0..64 => 1,
            64..512 => 8,
            512..4096 => 64,
            _ => 512,
        };
        let end = now.get() as u128 * self.0 as u128 / 1_000_000_000 + jiffies as u128;
        let jiffy = (end / granularity + 1) * granularity;
        Instant::new((jiffy * 1_000_000_000).div_ceil(self.0 as u128) as u64)
    }
}

/// The clock in ticks. It caches the current tick, because a division costs more than the rest of a
/// fast dispatch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    nanos_per_tick: u64,
    tick: i64,
    /// Start of that tick in nanoseconds.
    start: u64,
    clock: Monotonic,
}

impl Ticks {
    /// Returns a clock of `hz` ticks a second.
    pub(crate) fn new(hz: u32) -> Self {
        Self { nanos_per_tick: 1_000_000_000 / u64::from(hz.max(1)), tick: 0, start: 0, clock: Monotonic::START }
    }

    /// Returns the tick of an instant; instants must not go back.
    #[inline]
    pub(crate) fn at(&mut self, now: Instant) -> i64 {
        self.clock.advance(now);
        if now.get().wrapping_sub(self.start) >= self.nanos_per_tick {
            self.tick = (now.get() / self.nanos_per_tick) as i64;
            self.start = self.tick as u64 * self.nanos_per_tick;
        }
        self.tick
    }

    /// Returns the start of a tick.
    pub(crate) const fn start_of(&self, tick: u64) -> Instant {
        Instant::new(tick.saturating_mul(self.nanos_per_tick))
    }
}

/// Returns the ticks in a span of milliseconds, rounded up.
pub(crate) const fn to_ticks(ms: i64, hz: u32) -> i64 {
    (ms * hz as i64 + 999) / 1000
}

/// Converts instants to jiffies, with one comparison while the jiffy stays the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JiffyClock {
    hz: u32,
    /// First instant of the jiffy after [`Self::jiffy`].
    next: u64,
    jiffy: u64,
}

impl JiffyClock {
    /// Returns a clock whose first jiffy is that of the first call. `hz` must not be 0.
    pub(crate) const fn new(hz: u32) -> Self {
        assert!(hz > 0);
        Self { hz, next: 0, jiffy: 0 }
    }

    /// Returns the jiffy of `now` if it is later than at the last call, else `None`.
    #[inline]
    pub(crate) fn tick(&mut self, now: Instant) -> Option<u64> {
        if now.get() < self.next {
            return None;
        }
        Some(self.advance(now))
    }

    /// Jiffy j begins at the first whole nanosecond at or after j / hz seconds.
    fn advance(&mut self, now: Instant) -> u64 {
        let hz = u128::from(self.hz);
        self.jiffy = (u128::from(now.get()) * hz / 1_000_000_000) as u64;
        self.next = ((u128::from(self.jiffy) + 1) * 1_000_000_000).div_ceil(hz) as u64;
        self.jiffy
    }

    /// Returns jiffies as whole milliseconds.
    pub(crate) const fn millis(&self, jiffies: u64) -> u64 {
        (jiffies as u128 * 1000 / self.hz as u128) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jiffies_begin_where_the_division_says() {
        for hz in [100, 250, 300, 1000, 1024] {
            let mut clock = JiffyClock::new(hz);
            let (mut last, mut at) = (None, 0u64);
            while at < 100_000_000 {
                let expected = at * u64::from(hz) / 1_000_000_000;
                let got = clock.tick(Instant::new(at));
                assert_eq!(got, (last != Some(expected)).then_some(expected), "{hz} Hz at {at}");
                last = Some(expected);
                // Step to just before the next boundary, onto it, and to odd places between.
                at = if at % 7 == 0 { clock.next } else { (at + 1_234_567).min(clock.next - 1).max(at + 1) };
            }
        }
    }

    #[test]
    fn timers_are_never_early_and_late_by_at_most_an_eighth_and_a_jiffy() {
        let ms = |ms: u64| Instant::new(ms * 1_000_000);
        assert_eq!(Hz(250).timer(ms(0), 1), ms(8), "the jiffy that has begun does not count");
        assert_eq!(Hz(250).timer(ms(3), 1), ms(8));
        assert_eq!(Hz(250).timer(ms(4), 13), ms(60));
        assert_eq!(Hz(1000).timer(ms(5), 100), ms(112), "a multiple of 8");
        for hz in [100, 250, 300, 1000].map(Hz) {
            for (n, jiffies) in [1, 5, 63, 64, 100, 511, 600, 4095].into_iter().enumerate() {
                let now = Instant::new(123_456_789 * n as u64);
                let took = hz.timer(now, jiffies).since(now);
                assert!(took >= hz.span(jiffies), "{jiffies} at {hz:?} took {took:?}");
                assert!(took <= hz.span(jiffies + jiffies / 8 + 2), "{jiffies} at {hz:?} took {took:?}");
            }
        }
    }

    #[test]
    fn all_forms_agree_where_a_jiffy_is_whole_nanoseconds() {
        for hz in [100, 250, 1000] {
            let (mut ticks, mut clock, mut jiffy) = (Ticks::new(hz), JiffyClock::new(hz), 0);
            for at in (0..2_000_000_000).step_by(777_777).map(Instant::new) {
                jiffy = clock.tick(at).unwrap_or(jiffy);
                let tick = ticks.at(at) as u64;
                assert_eq!((tick, Hz(hz.into()).jiffies(at.since(Instant::ZERO))), (jiffy, jiffy), "{hz} Hz at {at:?}");
                assert!(ticks.start_of(tick) <= at && at < ticks.start_of(tick + 1));
            }
        }
    }
}
