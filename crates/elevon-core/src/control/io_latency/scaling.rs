//! Throttling among siblings: the cookie.

use crate::units::{Instant, Nanos, TenantId};

/// The cookie of siblings that are not throttled.
pub const UNTHROTTLED: u32 = 1_000_000;
/// Minimum time between changes of the cookie.
const BETWEEN: Nanos = Nanos::from_millis(500);
/// A tenant that caused throttling loses its influence after this time without a violation.
const QUIET: Nanos = Nanos::from_secs(5);
/// Samples that a window needs to show that the target is met.
const GOOD_SAMPLES: u64 = 5;
/// A tenant with at most this share of a set's sampled I/O, in percent, or with one I/O is not
/// throttled.
const BLAMELESS: u64 = 5;

/// A set of siblings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scaling {
    cookie: u32,
    changed: Option<Instant>,
    /// Lowest target that is violated: siblings with a higher one, or none, are throttled.
    violated: Nanos,
    /// The tenant with this target, while it has influence.
    owner: Option<TenantId>,
    /// I/Os in the siblings' last windows.
    samples: u64,
}

/// The step of a tenant that finds a different cookie than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DepthStep {
    Stay,
    Down,
    Up,
    Clear,
}

impl Scaling {
    pub(super) const fn new() -> Self {
        Self { cookie: UNTHROTTLED, changed: None, violated: Nanos::ZERO, owner: None, samples: 0 }
    }

    /// Resets the set after the target of a tenant with that many samples was changed: nothing is
    /// throttled until a target is missed again.
    pub(super) fn reset(&mut self, samples: u64) {
        *self = Self { samples: self.samples.saturating_sub(samples), ..Self::new() };
    }

    pub(super) const fn cookie(&self) -> u32 {
        self.cookie
    }

    pub(super) const fn is_throttled(&self) -> bool {
        self.cookie < UNTHROTTLED
    }

    /// Returns the step of a tenant with this target and that many I/Os in its last window: one
    /// step, however far the cookie moved.
    pub(super) fn step(&self, before: u32, target: Option<Nanos>, samples: u64) -> DepthStep {
        if self.cookie == before {
            DepthStep::Stay
        } else if self.cookie > before {
            if self.is_throttled() { DepthStep::Up } else { DepthStep::Clear }
        } else if target.is_some_and(|own| {
            own <= self.violated || samples <= (self.samples * BLAMELESS / 100).max(1)
        }) {
            DepthStep::Stay
        } else {
            DepthStep::Down
        }
    }

    /// Replaces the number of I/Os of a tenant's previous window by that of its last.
    pub(super) fn count(&mut self, before: u64, samples: u64) {
        self.samples = self.samples.saturating_sub(before) + samples;
    }

    /// Evaluates a finished window of a tenant with a target.
    pub(super) fn on_window(
        &mut self,
        now: Instant,
        queue_size: u32,
        (tenant, target): (TenantId, Nanos),
        samples: u64,
        is_met: bool,
    ) {
        if self.changed.is_some_and(|at| now.since(at) < BETWEEN) {
            return;
        }
        if is_met {
            if samples >= GOOD_SAMPLES && self.owner == Some(tenant) {
                self.changed = Some(now);
                self.raise(queue_size);
            }
        } else if self.owner.is_none() || target <= self.violated {
            if self.owner.is_none() || target < self.violated {
                (self.owner, self.violated) = (Some(tenant), target);
            }
            self.changed = Some(now);
            self.lower(queue_size);
        }
    }

    /// Handles a tick of one second.
    pub(super) fn on_tick(&mut self, now: Instant, queue_size: u32) {
        if self.owner.is_none() {
            self.raise(queue_size);
        } else if self.changed.is_none_or(|at| now.since(at) >= QUIET) {
            self.owner = None;
        }
    }

    fn lower(&mut self, queue_size: u32) {
        let below = UNTHROTTLED - self.cookie;
        self.cookie -= if below <= queue_size {
            (queue_size / 4).max(1)
        } else {
            u32::from(below < queue_size.saturating_mul(2))
        };
    }

    fn raise(&mut self, queue_size: u32) {
        let below = UNTHROTTLED - self.cookie;
        self.cookie += if below > queue_size { 1 } else { (queue_size / 16).max(1).min(below) };
        if !self.is_throttled() {
            (self.owner, self.violated) = (None, Nanos::ZERO);
        }
    }
}
