//! Delays of tasks whose tenant cannot be throttled further by its depth.

use crate::units::{Instant, Nanos};

/// Maximum delay of a task at a time (Linux 6.1; its documentation still says 1 s).
const MAX_DELAY: Nanos = Nanos::from_millis(250);
const SECOND: Nanos = Nanos::from_secs(1);

/// Time that a tenant's tasks still have to be delayed. It applies while the tenant is throttled
/// beyond a depth of 1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DelayPool {
    uses: u32,
    owed: Nanos,
    /// When it last decayed, and its time and uses at that moment.
    decayed: Instant,
    last: Nanos,
    last_uses: u32,
}

impl DelayPool {
    #[cfg(test)]
    pub(super) const fn uses(&self) -> u32 {
        self.uses
    }

    #[cfg(test)]
    pub(super) const fn owed(&self) -> Nanos {
        self.owed
    }

    /// Throttles by one more step.
    pub(super) fn add_use(&mut self, now: Instant) {
        self.decay(now);
        self.uses += 1;
    }

    /// Throttles by one step less. Returns false if there was no step.
    pub(super) fn remove_use(&mut self, now: Instant) -> bool {
        self.decay(now);
        let was = self.uses > 0;
        self.uses = self.uses.saturating_sub(1);
        was
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds the time by which an I/O that had to be issued at once was faster than the target.
    pub(super) fn add(&mut self, now: Instant, time: Nanos) {
        self.decay(now);
        self.owed += time;
    }

    /// Returns the delay of a task now.
    pub(super) fn at(&mut self, now: Instant) -> Nanos {
        self.decay(now);
        if self.uses > 0 { self.owed.min(MAX_DELAY) } else { Nanos::ZERO }
    }

    /// Once a second subtracts the elapsed time from the pool, up to what it held at the last
    /// decay; while throttling is being reduced, at least half of that.
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
