//! What a smaller depth costs if shares come before throughput: a fifth at most.
//!
//! A *check* runs for some 20 to 60 ms at the depth that gains most, and now and then at a larger
//! one, and so says which part of that throughput the depth in force delivers. If it is too little,
//! the depth in force becomes as much larger. Between two checks each step down is compared with
//! the depth just before it, and what the steps leave is multiplied. Comparisons err and loads
//! change, and the next check says what is left now.
//!
//! Parts of a throughput are in 1/1024.

use super::sums::Sums;
use super::{Depth, Event, Load, Probe};
use crate::units::{Instant, Nanos};

/// All of the throughput.
const FULL_PART: u64 = 1024;
/// The part of the throughput that a step down leaves at least: more than a check asks for, because
/// a comparison errs.
const MIN_LEFT_BY_STEP: u64 = FULL_PART * 43 / 50;
/// The part of the throughput that is left by a check at least.
const MIN_LEFT_BY_CHECK: u64 = FULL_PART * 41 / 50;
/// A depth half as large again gains if it delivers so much more: more than 8 percent.
const MIN_CHECK_GAIN: (u64, u64) = (27, 25);
/// Time between two checks.
const CHECK_PAUSE: Nanos = Nanos::from_secs(2);
/// Time from a step down to the next check.
const CHECK_AFTER_STEP: Nanos = Nanos::from_millis(500);

/// The time without a member below its share after which a larger depth is taken if it gains.
const FAIR_FOR: Nanos = Nanos::from_secs(8);

/// The depth with which the one in force is compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    /// The depth beyond which none gained; 0 if that is the depth in force.
    depth: u32,
    /// The part of its throughput that the depth in force delivers.
    kept: u64,
    /// When the next check is due, and whether it is one at a larger depth.
    due: Instant,
    is_beyond: bool,
}

impl Reference {
    pub(super) const NONE: Self =
        Self { depth: 0, kept: FULL_PART, due: Instant::ZERO, is_beyond: true };

    /// Returns true if a step down leaves enough.
    pub(super) fn may_take(&self, smaller: &Sums, baseline: &Sums, rest: u64) -> bool {
        self.kept * part(smaller, baseline, rest) >= MIN_LEFT_BY_STEP * FULL_PART
    }

    /// Takes a step down from the depth `from`. A check follows: of many steps that were tried the
    /// one is taken that seems to cost least.
    pub(super) fn take(
        &mut self,
        now: Instant,
        from: u32,
        smaller: &Sums,
        baseline: &Sums,
        rest: u64,
    ) {
        self.depth = self.depth.max(from);
        self.kept = (self.kept * part(smaller, baseline, rest) / FULL_PART).min(FULL_PART);
        (self.due, self.is_beyond) = (self.due.min(now + CHECK_AFTER_STEP), false);
    }

    /// A larger depth is in force.
    pub(super) fn rise(&mut self, depth: u32) {
        if depth >= self.depth {
            *self = Self { due: self.due, ..Self::NONE };
        }
    }
}

/// Returns the part that a depth delivers of what another does. `rest`: see [`super::Load::rest`].
fn part(of: &Sums, all: &Sums, rest: u64) -> u64 {
    (of.delivered(rest).saturating_mul(FULL_PART) / all.delivered(rest).max(1)).max(1)
}

impl Depth {
    /// Returns true if a larger depth may let a member have less than its share that is to have it.
    pub(super) fn keeps_shares(&self, now: Instant, load: Load) -> bool {
        load.prefers_shares && self.unfair_at.is_some_and(|at| now.since(at) < FAIR_FOR)
    }

    /// Returns the depth of a check, if one is due.
    pub(super) fn check_due(&self, now: Instant) -> Option<u32> {
        let best = self.reference.depth.max(self.usable);
        let depth =
            if self.reference.is_beyond { best + best.div_ceil(2) } else { best }.min(self.most);
        (now >= self.reference.due && depth > self.usable).then_some(depth)
    }

    /// Ends a check that the load did not reach.
    pub(super) fn end_check_in_vain(&mut self, now: Instant) -> Event {
        let due = now + CHECK_PAUSE;
        self.reference = match self.reference.is_beyond {
            true => Reference { due, is_beyond: false, ..self.reference },
            false => Reference { due, ..Reference::NONE },
        };
        self.end();
        Event::Probe
    }

    /// Ends a check.
    pub(super) fn end_check(&mut self, now: Instant, check: &Probe, rest: u64) -> Event {
        let kept = part(&self.baseline, &check.sums, rest);
        let reference = &mut self.reference;
        let gains = kept * MIN_CHECK_GAIN.0 < reference.kept * MIN_CHECK_GAIN.1;
        if !reference.is_beyond || gains || reference.depth == 0 {
            reference.kept = kept.min(FULL_PART);
            reference.depth =
                if gains || reference.depth == 0 { check.depth } else { reference.depth };
        }
        reference.is_beyond = !reference.is_beyond || gains;
        reference.due = now + CHECK_PAUSE;
        if reference.kept < MIN_LEFT_BY_CHECK {
            // If throughput grew with the depth, this would be enough; it grows by less.
            let wanted = (u64::from(self.usable) * MIN_LEFT_BY_STEP).div_ceil(reference.kept);
            self.usable = (wanted as u32).max(self.usable + 1).min(self.most);
            reference.kept = MIN_LEFT_BY_STEP;
            reference.due = now;
            self.renew_baseline();
            self.refused = 0;
        }
        self.end();
        Event::Probe
    }
}
