//! Time in jiffies, the ticks of the kernel's clock, in the three forms that the kernel's rules
//! need.
//!
//! `Ticks` is for deadlines and slices: a tick is a whole number of nanoseconds. `JiffyClock` is
//! for io_ticks: a jiffy lasts `1 / hz` seconds on average, even if that is not a whole number of
//! nanoseconds (300 Hz). Its phase may move ([`TickPhase`]). [`Hz`] is for spans. At the kernel's
//! 100, 250 and 1000 Hz all of them agree. O(1); both clocks divide only when a new tick begins.

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

impl core::fmt::Display for Hz {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
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
    pub(crate) fn new(hz: Hz) -> Self {
        Self {
            nanos_per_tick: 1_000_000_000 / hz.0.max(1),
            tick: 0,
            start: 0,
            clock: Monotonic::START,
        }
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
pub(crate) const fn to_ticks(ms: i64, hz: Hz) -> i64 {
    (ms * hz.0 as i64 + 999) / 1000
}

/// The phase of the ticks of io_ticks against the clock of the run.
///
/// A task of a real kernel is not in step with the ticks: the tick that follows its start is at any
/// time within a jiffy, and what wakes the task is late by this or that. In virtual time, I/O of an
/// exact rate would stay in step with them for ever. A kernel that looks at ticks would then see
/// all of it or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TickPhase {
    /// The phase moves slowly through a whole jiffy and back, by an irrational part of it with each
    /// tick. So ticks meet each moment of a period equally often, and what is busy for a tenth of
    /// the time is busy at a tenth of the ticks.
    #[default]
    Moving,
    /// A tick begins with the run, and the others follow in step.
    Fixed,
}

impl TickPhase {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Moving, Self::Fixed];

    /// Returns its name, as `--set tick_phase=` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Moving => "moving",
            Self::Fixed => "fixed",
        }
    }

    /// Returns how late a tick is, in nanoseconds, of which a jiffy has `jiffy_ns`.
    const fn delay(self, tick: u64, jiffy_ns: u64) -> u64 {
        // Of the way through the phases and back, in units of 2^-32: the way of one tick (a
        // fortieth of the golden ratio), and the place of the first.
        const STEP: u32 = 66_360_706;
        const FIRST: u32 = 1_327_217_884;
        match self {
            Self::Fixed => 0,
            Self::Moving => {
                let place = FIRST.wrapping_add((tick as u32).wrapping_mul(STEP));
                let phase = if place < 1 << 31 { place << 1 } else { !place << 1 };
                ((jiffy_ns as u128 * phase as u128) >> 32) as u64
            }
        }
    }
}

/// Converts instants to jiffies, with one comparison while the jiffy stays the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JiffyClock {
    hz: Hz,
    phase: TickPhase,
    /// First instant of the jiffy after [`Self::jiffy`].
    next: u64,
    jiffy: u64,
}

impl JiffyClock {
    /// Returns a clock whose first jiffy is that of the first call. `hz` must not be 0.
    pub(crate) const fn new(hz: Hz, phase: TickPhase) -> Self {
        assert!(hz.0 > 0);
        Self { hz, phase, next: 0, jiffy: 0 }
    }

    /// Returns the jiffy of `now` if it is later than at the last call, else `None`.
    #[inline]
    pub(crate) fn tick(&mut self, now: Instant) -> Option<u64> {
        if now.get() < self.next {
            return None;
        }
        Some(self.advance(now))
    }

    /// Tick j is at the first whole nanosecond at or after j / hz seconds, or late by its phase,
    /// which is less than a jiffy. If it is late, the jiffy before it is the one that counts as j.
    fn advance(&mut self, now: Instant) -> u64 {
        let tick = (u128::from(now.get()) * u128::from(self.hz.0) / 1_000_000_000) as u64;
        let is_late = now.get() < self.start_of(tick);
        self.next = self.start_of(if is_late { tick } else { tick + 1 });
        self.jiffy = tick + u64::from(self.phase == TickPhase::Moving && !is_late);
        self.jiffy
    }

    fn start_of(&self, tick: u64) -> u64 {
        let hz = u128::from(self.hz.0);
        let start = (u128::from(tick) * 1_000_000_000).div_ceil(hz) as u64;
        start + self.phase.delay(tick, 1_000_000_000 / self.hz.0)
    }

    /// Returns jiffies as whole milliseconds.
    pub(crate) const fn millis(&self, jiffies: u64) -> u64 {
        (jiffies as u128 * 1000 / self.hz.0 as u128) as u64
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn jiffies_begin_where_the_division_says() {
        for hz in [100, 250, 300, 1000, 1024] {
            let mut clock = JiffyClock::new(Hz(hz), TickPhase::Fixed);
            let (mut last, mut at) = (None, 0u64);
            while at < 100_000_000 {
                let expected = at * hz / 1_000_000_000;
                let got = clock.tick(Instant::new(at));
                assert_eq!(got, (last != Some(expected)).then_some(expected), "{hz} Hz at {at}");
                last = Some(expected);
                // Step to just before the next boundary, onto it, and to odd places between.
                at = if at % 7 == 0 {
                    clock.next
                } else {
                    (at + 1_234_567).min(clock.next - 1).max(at + 1)
                };
            }
        }
    }

    /// Against the ticks, found by going through them: each ends a jiffy, and their phases are
    /// spread evenly over a jiffy.
    #[test]
    fn moving_ticks_pass_through_all_phases() {
        for hz in [100u64, 250, 300, 1000] {
            let span = 1_000_000_000 / hz;
            let phases: Vec<u64> =
                (0..1000).map(|tick| TickPhase::Moving.delay(tick, span)).collect();
            let ticks: Vec<u64> = phases
                .iter()
                .enumerate()
                .map(|(n, phase)| (n as u64 * 1_000_000_000).div_ceil(hz) + phase)
                .collect();
            assert!(ticks.is_sorted());
            for tenth in 0..10 {
                let (from, to) = (span * tenth / 10, span * (tenth + 1) / 10);
                let inside = phases.iter().filter(|phase| (from..to).contains(phase)).count();
                assert!(inside.abs_diff(100) <= 5, "{inside} of 1000 in tenth {tenth} at {hz} Hz");
            }
            let (mut clock, mut jiffy) = (JiffyClock::new(Hz(hz), TickPhase::Moving), 0);
            for at in (0..999 * span).step_by(span as usize / 7) {
                jiffy = clock.tick(Instant::new(at)).unwrap_or(jiffy);
                assert_eq!(
                    jiffy,
                    ticks.iter().take_while(|&&tick| tick <= at).count() as u64,
                    "{hz} Hz at {at}"
                );
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
                assert!(
                    took <= hz.span(jiffies + jiffies / 8 + 2),
                    "{jiffies} at {hz:?} took {took:?}"
                );
            }
        }
    }

    #[test]
    fn all_forms_agree_where_a_jiffy_is_whole_nanoseconds() {
        for hz in [100, 250, 1000] {
            let (mut ticks, mut clock, mut jiffy) =
                (Ticks::new(Hz(hz)), JiffyClock::new(Hz(hz), TickPhase::Fixed), 0);
            for at in (0..2_000_000_000).step_by(777_777).map(Instant::new) {
                jiffy = clock.tick(at).unwrap_or(jiffy);
                let tick = ticks.at(at) as u64;
                assert_eq!(
                    (tick, Hz(hz).jiffies(at.since(Instant::ZERO))),
                    (jiffy, jiffy),
                    "{hz} Hz at {at:?}"
                );
                assert!(ticks.start_of(tick) <= at && at < ticks.start_of(tick + 1));
            }
        }
    }
}
