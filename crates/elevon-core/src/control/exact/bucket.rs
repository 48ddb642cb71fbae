//! A rate with a burst, in whole nanoseconds and without drift (GCRA: the virtual scheduling form
//! of a leaky bucket).

use super::super::limits::UNLIMITED;

const SECOND: u64 = 1_000_000_000;

/// Returns `units · 1 s + rest` divided by a rate, and the remainder. In 64 bits if it fits, which
/// is many times as fast.
fn nanos(units: u64, rest: u64, rate: u64) -> (u64, u64) {
    match units.checked_mul(SECOND).and_then(|product| product.checked_add(rest)) {
        Some(product) => (product / rate, product % rate),
        None => {
            let product = u128::from(units) * u128::from(SECOND) + u128::from(rest);
            let rate = u128::from(rate);
            (u64::try_from(product / rate).unwrap_or(u64::MAX), (product % rate) as u64)
        }
    }
}

/// One limit. `tat` (theoretical arrival time) is when everything so far would have gone at the
/// rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bucket {
    /// In ns.
    tat: u64,
    /// Remainder of the last division, in parts of a nanosecond: `left / rate`.
    left: u64,
}

impl Bucket {
    /// Returns when the next may go; at once if this is in the past.
    pub(super) fn eligible(&self, rate: u64, burst: u64) -> u64 {
        if rate == UNLIMITED {
            return 0;
        }
        let (burst, left) = nanos(burst, 0, rate);
        self.tat.saturating_sub(burst.saturating_add(u64::from(left > 0)))
    }

    /// Charges units that go now.
    pub(super) fn pay(&mut self, now: u64, rate: u64, units: u64) {
        if rate == UNLIMITED {
            return;
        }
        if self.tat < now {
            *self = Self { tat: now, left: 0 };
        }
        let (cost, left) = nanos(units, self.left, rate);
        self.tat = self.tat.saturating_add(cost);
        self.left = left;
    }

    /// Returns when everything so far would have gone at the rate.
    pub(super) const fn tat(&self) -> u64 {
        self.tat
    }

    /// Charges units whenever they go; what is ahead of `now` by more than `span`, and by more than
    /// these units, is forgotten.
    pub(super) fn count(&mut self, rate: u64, units: u64, now: u64, span: u64) {
        let before = self.tat;
        self.pay(0, rate, units);
        self.tat = self.tat.min(now.saturating_add((self.tat - before).max(span)));
    }

    /// Forgets what it earned before `at`.
    pub(super) fn not_before(&mut self, at: u64) {
        self.tat = self.tat.max(at);
    }

    /// Moves it on by a time.
    pub(super) fn delay(&mut self, time: u64) {
        self.tat = self.tat.saturating_add(time);
    }

    /// Changes the rate. The debt in units remains.
    pub(super) fn change(&mut self, now: u64, old: u64, new: u64) {
        let owed = if old == UNLIMITED { 0 } else { u128::from(self.tat.saturating_sub(now)) };
        let owed = if new == UNLIMITED { 0 } else { owed * u128::from(old) / u128::from(new) };
        *self = Self { tat: now.saturating_add(u64::try_from(owed).unwrap_or(u64::MAX)), left: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_does_not_divide_does_not_drift() {
        let mut bucket = Bucket::default();
        for _ in 0..3_000_000 {
            let at = bucket.eligible(3, 0);
            bucket.pay(at, 3, 1);
        }
        assert_eq!(
            bucket.eligible(3, 0),
            1_000_000 * 1_000_000_000,
            "3 a second: a million seconds, to the nanosecond"
        );
    }

    #[test]
    fn a_change_keeps_what_is_owed() {
        let mut bucket = Bucket::default();
        bucket.pay(0, 100, 50);
        bucket.change(100_000_000, 100, 200);
        assert_eq!(bucket.eligible(200, 0), 300_000_000, "40 units owed, at 200 a second");
        bucket.change(100_000_000, 200, UNLIMITED);
        assert_eq!(bucket.eligible(UNLIMITED, 0), 0);
    }
}
