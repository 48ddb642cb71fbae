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

    /// Changes the rate and the burst, each from `old` to `new`. What may go at once remains, as
    /// far as the new burst allows it, and so does what went beyond the old burst. So a lower limit
    /// holds at once and not after what went at once under the old one, and no series of
    /// changes lets more go than the rates between them do. What nothing was charged to has its
    /// whole burst.
    pub(super) fn change(&mut self, now: u64, old: (u64, u64), new: (u64, u64)) {
        if old.0 == UNLIMITED || new.0 == UNLIMITED || *self == Self::default() {
            *self = Self::default();
            return;
        }
        // In units · ns, so that nothing is rounded.
        let used = match self.tat.checked_sub(now) {
            Some(ahead) => u128::from(ahead) * u128::from(old.0) + u128::from(self.left),
            None => 0,
        };
        let burst = |burst: u64| u128::from(burst) * u128::from(SECOND);
        let used = used.saturating_add(burst(new.1)).saturating_sub(burst(old.1));
        let (ahead, left) = (used / u128::from(new.0), used % u128::from(new.0));
        self.tat = now.saturating_add(u64::try_from(ahead).unwrap_or(u64::MAX));
        self.left = left as u64;
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
        bucket.change(100_000_000, (100, 0), (200, 0));
        assert_eq!(bucket.eligible(200, 0), 300_000_000, "40 units owed, at 200 a second");
        bucket.change(100_000_000, (200, 0), (UNLIMITED, 0));
        assert_eq!(bucket.eligible(UNLIMITED, 0), 0);
    }

    #[test]
    fn a_used_burst_is_not_owed_to_a_lower_limit() {
        let (old, new) = ((200_000_000, 1_000_000_000), (20_000_000, 1_000_000));
        let mut bucket = Bucket::default();
        bucket.pay(SECOND, old.0, old.1 + 200_000);
        bucket.change(SECOND, old, new);
        assert_eq!(
            bucket.eligible(new.0, new.1),
            SECOND + 10_000_000,
            "the 200,000 bytes beyond the burst"
        );
        bucket.change(SECOND, new, old);
        assert_eq!(
            bucket.eligible(old.0, old.1),
            SECOND + 1_000_000,
            "and the burst is not there again"
        );
    }

    #[test]
    fn a_burst_that_was_not_used_remains_up_to_the_new_one() {
        let mut bucket = Bucket::default();
        bucket.pay(SECOND, 100, 30);
        for (old, new, left) in [(50, 100, 20), (100, 10, 10), (10, 100, 10)] {
            bucket.change(SECOND, (100, old), (100, new));
            let mut probe = bucket;
            (0..left).for_each(|_| probe.pay(SECOND, 100, 1));
            assert_eq!(
                probe.eligible(100, new),
                SECOND,
                "{left} go at once after {old} became {new}"
            );
        }
    }

    /// The bounds of a bucket that is used as fast as it allows, in whatever way its limit changes.
    /// At any time no more has gone than the first burst, the rates of the time so far, and one
    /// I/O. After a change the next goes at the latest when the new rate has paid for one I/O.
    #[test]
    fn changes_give_no_burst_and_no_stall() {
        const LARGEST: u64 = 64;
        for seed in 0..300 {
            let mut rng = elevon_testkit::Rng(seed);
            let any = |rng: &mut elevon_testkit::Rng| {
                (1 + rng.below(1000), rng.below(2) * rng.below(5000))
            };
            let (mut now, mut limit) = (SECOND, any(&mut rng));
            let mut bucket = Bucket::default();
            // In units · ns. One unit more for times, which are whole nanoseconds.
            let mut earned = u128::from(limit.1 + LARGEST + 1) * u128::from(SECOND);
            for _ in 0..200 {
                let until = now + rng.below(SECOND);
                while bucket.eligible(limit.0, limit.1) <= until {
                    let at = bucket.eligible(limit.0, limit.1).max(now);
                    earned += u128::from(at - now) * u128::from(limit.0);
                    now = at;
                    let units = 1 + rng.below(LARGEST);
                    bucket.pay(now, limit.0, units);
                    earned = earned
                        .checked_sub(u128::from(units) * u128::from(SECOND))
                        .expect("no free burst");
                }
                earned += u128::from(until - now) * u128::from(limit.0);
                now = until;
                let new = any(&mut rng);
                bucket.change(now, limit, new);
                limit = new;
                let waits = bucket.eligible(limit.0, limit.1).saturating_sub(now);
                assert!(waits <= (LARGEST * SECOND).div_ceil(limit.0), "{waits} ns at {limit:?}");
            }
        }
    }
}
