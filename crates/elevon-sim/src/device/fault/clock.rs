//! The faulty device's own clock: it stops in a stall and runs slowly in a slow window.
//!
//! The device inside the wrapper uses this clock, so that a stall delays everything behind it and
//! nothing is lost.

use elevon_core::units::{Instant, Nanos};

use super::plan::Rule;

/// A slow window.
#[derive(Clone, Copy, Debug)]
struct SlowWindow {
    from: u64,
    end: u64,
    factor: u64,
}

/// A clock that never runs faster than the host's.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    windows: Vec<SlowWindow>,
    /// The host's time at which `inner` was computed.
    outer: u64,
    /// The device's time at `outer`.
    inner: u64,
    stalled_until: u64,
    /// Whether any rule affects the clock; if not, both times are the same.
    warped: bool,
}

impl Clock {
    pub(super) fn new(rules: &[Rule]) -> Self {
        let windows = rules.iter().filter_map(|rule| match *rule {
            Rule::Slow { from, lasting, factor } => Some(SlowWindow {
                from: from.get(),
                end: from.saturating_add(lasting).get(),
                factor,
            }),
            _ => None,
        });
        let warped = rules.iter().any(|rule| {
            matches!(rule, Rule::Slow { .. } | Rule::Stall { .. } | Rule::Reset { .. })
        });
        Self { windows: windows.collect(), warped, ..Self::default() }
    }

    /// Follows other rules from `now` on. The time that was lost remains lost.
    pub(super) fn replace(&mut self, now: Instant, rules: &[Rule]) {
        if self.warped {
            self.inner(now);
        } else {
            (self.outer, self.inner) = (now.get(), now.get());
        }
        let new = Self::new(rules);
        (self.windows, self.warped) = (new.windows, self.warped || new.warped);
    }

    /// Returns how many times slower the clock runs at `outer` (0: it is stopped), and until when.
    fn pace(&self, outer: u64) -> (u64, u64) {
        if outer < self.stalled_until {
            return (0, self.stalled_until);
        }
        let mut pace = (1, u64::MAX);
        for window in &self.windows {
            if (window.from..window.end).contains(&outer) {
                pace = (pace.0.max(window.factor), pace.1.min(window.end));
            } else if outer < window.from {
                pace.1 = pace.1.min(window.from);
            }
        }
        pace
    }

    /// Returns the device's time at `now`, from the last known time.
    pub(super) fn inner(&mut self, now: Instant) -> Instant {
        if !self.warped {
            return now;
        }
        while self.outer < now.get() {
            let (factor, until) = self.pace(self.outer);
            let until = until.min(now.get());
            self.inner += (until - self.outer).checked_div(factor).unwrap_or(0);
            self.outer = until;
        }
        Instant::new(self.inner)
    }

    /// Returns the host's time at which the device's clock will show `at`.
    pub(super) fn outer(&self, at: Instant) -> Instant {
        if !self.warped {
            return at;
        }
        let (mut outer, mut inner) = (self.outer, self.inner);
        // What is due exactly at the start of a stall completes before the stall.
        while inner < at.get() {
            let (factor, until) = self.pace(outer);
            let progress = (until - outer).checked_div(factor).unwrap_or(0);
            if inner.saturating_add(progress) >= at.get() {
                return Instant::new(
                    outer.saturating_add((at.get() - inner).saturating_mul(factor)),
                );
            }
            (outer, inner) = (until, inner + progress);
        }
        Instant::new(outer)
    }

    /// Stops the clock from `now` for a time.
    pub(super) fn stall(&mut self, now: Instant, lasting: Nanos) {
        self.inner(now);
        self.stalled_until = self.stalled_until.max(now.saturating_add(lasting).get());
    }
}
