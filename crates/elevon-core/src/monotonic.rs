//! Time that may stand still but never goes back.

use crate::units::Instant;

/// The latest `now` that a state machine was given. Checked in builds with debug assertions (tests,
/// the swarm); in other builds it costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic(Instant);

impl Monotonic {
    /// The start: no call was made yet.
    pub const START: Self = Self(Instant::ZERO);

    /// Records the time of a call.
    ///
    /// # Panics
    ///
    /// With debug assertions, if the time is before that of an earlier call.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        if cfg!(debug_assertions) {
            assert!(now >= self.0, "time went backwards: from {:?} to {now:?}", self.0);
            self.0 = now;
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "time went backwards")]
    fn time_may_stand_still_but_not_go_back() {
        let mut clock = Monotonic::START;
        for now in [5, 5, 6, 5] {
            clock.advance(Instant::new(now));
        }
    }
}
