//! The two buckets, as one formula.
//!
//! A bucket holds a level of units (bytes, bios), which rises by the rate. A bio of `n` goes once
//! the level has reached `n`, and takes `n`; a level does not rise above `max(capacity, n)`. The
//! leaky bucket is the one with capacity 0. The proposal's rule for it (units used since the window
//! began, divided by the rate, compared with the window's age; reset once they are below it) is the
//! same function.
//!
//! Levels are in units times 10^9, so that a nanosecond adds the rate exactly; deadlines are
//! rounded up.

use super::{Limit, Policy};
use crate::units::{Instant, Nanos};

const PER_UNIT: i128 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    limit: Limit,
    level: i128,
    /// The time of this level.
    since: Instant,
    /// When a leaky bucket was last below the line.
    window: Instant,
}

impl Bucket {
    /// Returns a bucket that replaces another. `wanted`: the units of a waiting bio.
    pub(super) fn replacing(
        old: Option<&Self>,
        limit: Limit,
        now: Instant,
        wanted: Option<u64>,
    ) -> Self {
        let fresh = Self { limit, level: capacity(limit), since: now, window: now };
        let Some(have) = old.map(|old| old.level_at(now)) else { return fresh };
        match wanted {
            Some(units) => Self { level: have.min(fresh.level.max(in_levels(units))), ..fresh },
            None if have < 0 => Self { level: have, ..fresh },
            None => fresh,
        }
    }

    fn level_at(&self, at: Instant) -> i128 {
        self.level.saturating_add(self.refill(at.since(self.since)))
    }

    fn refill(&self, span: Nanos) -> i128 {
        i128::from(span.get()).saturating_mul(i128::from(self.limit.rate))
    }

    /// Returns when that many units may go, if no other bio takes any. The time may be in the past.
    pub(super) fn eligible(&self, now: Instant, units: u64, quirks: bool) -> Instant {
        let missing = in_levels(units) - self.level;
        let at_the_start = quirks && self.limit.policy == Policy::Leaky && now == self.window;
        if missing <= 0 || units == 0 || at_the_start {
            return self.since;
        }
        let rate = i128::from(self.limit.rate);
        self.since.saturating_add(Nanos::new(
            u64::try_from((missing + rate - 1) / rate).unwrap_or(u64::MAX),
        ))
    }

    /// Takes units from the bucket.
    pub(super) fn pay(&mut self, at: Instant, units: u64, was_held: bool, quirks: bool) {
        if units == 0 {
            return;
        }
        let (have, wanted, capacity) = (self.level_at(at), in_levels(units), capacity(self.limit));
        // The deadline was rounded up to a nanosecond: the units of the rest of this nanosecond are
        // not lost.
        let rounding = if was_held { i128::from(self.limit.rate) - 1 } else { 0 };
        self.level = match quirks {
            true => (have - wanted).min(capacity + rounding),
            false => have.min(capacity.max(wanted) + rounding) - wanted,
        };
        if have >= wanted && !was_held {
            self.window = at;
        }
        self.since = at;
    }

    /// Returns the limit as it was set.
    pub(super) const fn limit(&self) -> Limit {
        self.limit
    }
}

fn in_levels(units: u64) -> i128 {
    i128::from(units) * PER_UNIT
}

fn capacity(limit: Limit) -> i128 {
    match limit.policy {
        Policy::Leaky => 0,
        Policy::Token { bucket } => in_levels(bucket),
    }
}
