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
    /// `None` for long ago.
    start: Option<Instant>,
    length: Nanos,
    current: Sample,
    /// I/Os of the last window that its siblings have counted.
    counted: u64,
}

impl LatencyWindow {
    /// Returns a window for a target: 16 times as long, 100 ms to 1 s. A target that is set
    /// when a run begins counts as set long before. So the first I/O ends its window.
    pub(super) fn new(now: Instant, target: Option<Nanos>) -> Self {
        let length = target.map_or(WINDOW.0, |target| {
            target.get().saturating_mul(TARGETS).clamp(WINDOW.0, WINDOW.1)
        });
        Self {
            start: (now > Instant::ZERO).then_some(now),
            length: Nanos::new(length),
            current: Sample::default(),
            counted: 0,
        }
    }

    #[cfg(test)]
    pub(super) const fn length(&self) -> Nanos {
        self.length
    }

    pub(super) const fn counted(&self) -> u64 {
        self.counted
    }

    /// Counts the I/Os of a finished window. Returns those that were counted before.
    pub(super) const fn count(&mut self, total: u64) -> u64 {
        core::mem::replace(&mut self.counted, total)
    }

    pub(super) fn record(&mut self, took: Nanos, is_slow: bool) {
        self.current.sum += took;
        self.current.total += 1;
        self.current.slow += u64::from(is_slow);
    }

    /// Returns the window's I/Os if it is finished, and begins the next.
    pub(super) fn end(&mut self, now: Instant) -> Option<Sample> {
        if self.start.is_some_and(|start| now.since(start) < self.length) {
            return None;
        }
        self.start = Some(now);
        Some(core::mem::take(&mut self.current))
    }
}
