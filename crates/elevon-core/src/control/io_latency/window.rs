//! The latencies of a tenant with a target.

use crate::units::{Instant, Nanos};

/// Bounds of the length of a window, and its length in targets.
const WINDOW: (u64, u64) = (100_000_000, 1_000_000_000);
const TARGETS: u64 = 16;

/// I/Os of a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    sum: Nanos,
    pub(super) total: u64,
    /// I/Os that took at least the target.
    pub(super) slow: u64,
}

impl Sample {
    pub(super) fn mean(&self) -> Nanos {
        Nanos::new(self.sum.get().checked_div(self.total).unwrap_or(0))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LatencyWindow {
    start: Instant,
    length: Nanos,
    current: Sample,
    last: Sample,
}

impl LatencyWindow {
    /// Returns a window for a target: 16 times as long, 100 ms to 1 s.
    pub(super) fn new(now: Instant, target: Option<Nanos>) -> Self {
        let length = target.map_or(WINDOW.0, |target| {
            target.get().saturating_mul(TARGETS).clamp(WINDOW.0, WINDOW.1)
        });
        Self {
            start: now,
            length: Nanos::new(length),
            current: Sample::default(),
            last: Sample::default(),
        }
    }

    #[cfg(test)]
    pub(super) const fn length(&self) -> Nanos {
        self.length
    }

    pub(super) const fn last(&self) -> &Sample {
        &self.last
    }

    pub(super) fn record(&mut self, took: Nanos, is_slow: bool) {
        self.current.sum += took;
        self.current.total += 1;
        self.current.slow += u64::from(is_slow);
    }

    /// Returns the window's I/Os if it is finished, and begins the next.
    pub(super) fn end(&mut self, now: Instant) -> Option<Sample> {
        if now.since(self.start) < self.length {
            return None;
        }
        (self.start, self.last) = (now, core::mem::take(&mut self.current));
        Some(self.last)
    }
}
