//! The clock in ticks (jiffies), which some of the kernel's schedulers keep their deadlines in.

use crate::monotonic::Monotonic;
use crate::units::Instant;

/// The clock in ticks. Remembers the tick it is in, for a division costs more than the rest of a quick dispatch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticks {
    nanos_per_tick: u64,
    tick: i64,
    /// Start of that tick in nanoseconds.
    start: u64,
    clock: Monotonic,
}

impl Ticks {
    /// A clock of `hz` ticks a second.
    pub(super) fn new(hz: u32) -> Self {
        Self { nanos_per_tick: 1_000_000_000 / u64::from(hz.max(1)), tick: 0, start: 0, clock: Monotonic::START }
    }

    /// The tick of a point in time; times go forward.
    #[inline]
    pub(super) fn at(&mut self, now: Instant) -> i64 {
        self.clock.advance(now);
        if now.get().wrapping_sub(self.start) >= self.nanos_per_tick {
            self.tick = (now.get() / self.nanos_per_tick) as i64;
            self.start = self.tick as u64 * self.nanos_per_tick;
        }
        self.tick
    }
}

/// Ticks in a span, rounded up.
pub(super) const fn to_ticks(ms: i64, hz: u32) -> i64 {
    (ms * hz as i64 + 999) / 1000
}
