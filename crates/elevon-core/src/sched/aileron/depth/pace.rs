//! When a depth is tried again that was refused.

use crate::units::{Instant, Nanos};

/// Times that a refused probe took that pass until the next one, at least.
const RESTS: u64 = 7;
/// The longest time until the next one if the device has changed meanwhile.
const RESTS_MOST: Nanos = Nanos::from_millis(500);

/// Pacing of probes in one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// When the next probe is due.
    pub(super) next: Instant,
    /// How long after one in vain; the shortest and the longest such time.
    pub(super) pause: Nanos,
    range: (Nanos, Nanos),
    /// The next step is this fraction of the depth: 1/2, 1/4 or 1/8.
    pub(super) step: u32,
    /// Until when there is no probe, even if the device has changed.
    rests: Instant,
}

impl Pace {
    /// Returns the pace of a device of which nothing is known, with pauses in this range.
    pub(super) const fn new(range: (Nanos, Nanos)) -> Self {
        Self { next: Instant::ZERO, pause: range.0, range, step: 8, rests: Instant::ZERO }
    }

    /// A probe that took so long was in vain. While it goes on shares are less exact.
    pub(super) fn refuse(&mut self, now: Instant, took: Nanos) {
        self.step = 8;
        let rest = Nanos::new(took.get() * RESTS);
        self.rests = now + rest.min(RESTS_MOST);
        self.next = now + rest.max(self.pause);
        self.pause = Nanos::new(self.pause.get() * 2).min(self.range.1);
    }

    /// A probe was of use.
    pub(super) fn accept(&mut self, now: Instant) {
        self.step = (self.step / 2).max(2);
        self.next = now;
        self.pause = self.range.0;
    }

    /// The device, or its load, has changed. `is_free`: probes may follow each other.
    pub(super) fn reset(&mut self, now: Instant, is_free: bool) {
        let next = if is_free { now } else { self.rests.max(now) };
        (self.next, self.pause) = (next, self.range.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes that are in vain take an eighth of the time, even if the device seems to change all
    /// the time.
    #[test]
    fn long_probes_in_vain_are_seldom() {
        let millis = Nanos::from_millis;
        for (took, changes, apart) in
            [(1, false, 50), (1, true, 7), (40, false, 280), (40, true, 280), (400, true, 500)]
        {
            let mut pace = Pace::new((millis(50), millis(500)));
            let now = Instant::ZERO + millis(1_000);
            pace.refuse(now, millis(took));
            if changes {
                pace.reset(now + millis(5), false);
                let mut other = pace;
                other.reset(now + millis(5), true);
                assert_eq!(other.next, now + millis(5));
            }
            assert_eq!(pace.next, now + millis(apart), "{took} ms, {changes}");
        }
    }
}
