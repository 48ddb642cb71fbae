//! A rate with a burst, in whole nanoseconds and without drift (GCRA: the virtual scheduling form of a leaky bucket).

use super::super::limits::UNLIMITED;

const SECOND: u128 = 1_000_000_000;

/// One limit. `tat` (theoretical arrival time) is when all that went so far would have gone at the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bucket {
    /// In ns.
    tat: u64,
    /// What the last division left over, in parts of a nanosecond: `left / rate`.
    left: u64,
}

impl Bucket {
    /// When the next may go: at once where it lies in the past.
    pub(super) fn eligible(&self, rate: u64, burst: u64) -> u64 {
        if rate == UNLIMITED {
            return 0;
        }
        let burst = (u128::from(burst) * SECOND).div_ceil(u128::from(rate));
        self.tat.saturating_sub(u64::try_from(burst).unwrap_or(u64::MAX))
    }

    /// So many units go now.
    pub(super) fn pay(&mut self, now: u64, rate: u64, units: u64) {
        if rate == UNLIMITED {
            return;
        }
        if self.tat < now {
            *self = Self { tat: now, left: 0 };
        }
        let cost = u128::from(units) * SECOND + u128::from(self.left);
        self.tat = self.tat.saturating_add(u64::try_from(cost / u128::from(rate)).unwrap_or(u64::MAX));
        self.left = (cost % u128::from(rate)) as u64;
    }

    /// The rate changes: what is owed stays owed, in units.
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
