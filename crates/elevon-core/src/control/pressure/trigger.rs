//! Triggers: to be woken when a tenant is stalled for more than so much of a window.

use core::fmt;

use super::{PressureReading, Stall, StallKind};
use crate::units::{Instant, Nanos};

/// Times that a window is looked at.
const CHECKS: usize = 10;

/// Why a trigger was refused (EINVAL).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerError {
    /// A window is from 0.5 to 10 s.
    Window,
    /// More than nothing and at most the window.
    Threshold,
}

impl fmt::Display for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Window => "a pressure window is from 500000 to 10000000 us",
            Self::Threshold => "a pressure threshold is above 0 and at most its window",
        })
    }
}
impl core::error::Error for TriggerError {}

/// Fires when the stalled time grew by at least the threshold within a window that ends now, at most once a window.
///
/// Its owner calls [`Self::check`] at [`Self::next_check`], ten times a window, with what the tenant's pressure reads then. The window
/// is exact to a tenth of its length: the growth since the check ten checks ago.
#[derive(Clone, Copy, Debug)]
pub struct Trigger {
    kind: StallKind,
    threshold: Nanos,
    window: Nanos,
    /// Total at the last ten checks; the oldest is at `at`.
    totals: [Nanos; CHECKS],
    at: usize,
    next: Instant,
    fired: Option<Instant>,
}

impl Trigger {
    /// Fires when `threshold` of any `window` was stalled. `reading` is what the pressure reads now.
    pub fn new(
        now: Instant,
        kind: StallKind,
        threshold: Nanos,
        window: Nanos,
        reading: &PressureReading,
    ) -> Result<Self, TriggerError> {
        if !(Nanos::from_millis(500)..=Nanos::from_secs(10)).contains(&window) {
            return Err(TriggerError::Window);
        }
        if threshold.is_zero() || threshold > window {
            return Err(TriggerError::Threshold);
        }
        let totals = [line(kind, reading).total; CHECKS];
        let next = now + Nanos::new(window.get() / CHECKS as u64);
        Ok(Self { kind, threshold, window, totals, at: 0, next, fired: None })
    }

    /// When [`Self::check`] is to be called.
    pub const fn next_check(&self) -> Instant {
        self.next
    }

    /// Looks at what the pressure reads now; whether it fires. Before [`Self::next_check`] nothing happens.
    pub fn check(&mut self, now: Instant, reading: &PressureReading) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + Nanos::new(self.window.get() / CHECKS as u64);
        let total = line(self.kind, reading).total;
        let growth = total - core::mem::replace(&mut self.totals[self.at], total);
        self.at = (self.at + 1) % CHECKS;
        let rested = self.fired.is_none_or(|fired| now.since(fired) >= self.window);
        let fires = rested && growth >= self.threshold;
        if fires {
            self.fired = Some(now);
        }
        fires
    }
}

const fn line(kind: StallKind, reading: &PressureReading) -> Stall {
    match kind {
        StallKind::Some => reading.some,
        StallKind::Full => reading.full,
    }
}
