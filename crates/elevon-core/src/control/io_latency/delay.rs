//! Delays of tasks whose tenant cannot be throttled any further by its depth.

use crate::units::{Instant, Nanos};

/// The most that a task is delayed at a time (Linux 6.1; its documentation still says 1 s).
const MOST: Nanos = Nanos::from_millis(250);
const SECOND: Nanos = Nanos::from_secs(1);

/// Time that a tenant's tasks have yet to be delayed. It counts while the tenant is throttled
/// beyond a depth of 1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DelayPool {
    uses: u32,
    owed: Nanos,
    /// When it last decayed, how much there was, and the uses then.
    decayed: Instant,
    last: Nanos,
    last_uses: u32,
}

impl DelayPool {
    pub(super) const fn uses(&self) -> u32 {
        self.uses
    }

    pub(super) const fn owed(&self) -> Nanos {
        self.owed
    }

    /// Throttled once more.
    pub(super) fn add_use(&mut self, now: Instant) {
        self.decay(now);
        self.uses += 1;
    }

    /// Throttled once less; false where it was not.
    pub(super) fn remove_use(&mut self, now: Instant) -> bool {
        self.decay(now);
        let was = self.uses > 0;
        self.uses = self.uses.saturating_sub(1);
        was
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// An I/O that had to go at once was so much faster than the target.
    pub(super) fn add(&mut self, now: Instant, time: Nanos) {
        self.decay(now);
        self.owed += time;
    }

    /// The delay of a task now.
    pub(super) fn at(&mut self, now: Instant) -> Nanos {
        self.decay(now);
        if self.uses > 0 { self.owed.min(MOST) } else { Nanos::ZERO }
    }

    /// Once a second the pool loses the time that has passed, of what it held; while throttling
    /// eases, half of that at least.
    fn decay(&mut self, now: Instant) {
        let passed = now.since(self.decayed);
        if passed < SECOND {
            return;
        }
        let mut less = self.last.min(passed);
        if self.last_uses > self.uses {
            less = less.max(Nanos::new(self.last.get() / 2));
        }
        self.owed = self.owed.saturating_sub(less);
        (self.decayed, self.last, self.last_uses) = (now, self.owed, self.uses);
    }
}
