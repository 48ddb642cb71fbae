//! A spread of service times by its quantiles, in parts in a million of the time without one.
//!
//! Between two quantiles draws are even. A quantile that is smaller than the one before it counts
//! as that one, so that setting `spread_p99` alone makes one command in twenty longer. Cost of a
//! draw: O(1).

/// Parts of the whole.
const WHOLE: u32 = 1_000_000;

/// Quantiles, in parts in a million of the time without spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiles {
    /// The shortest.
    pub min: u32,
    /// One in ten is shorter.
    pub p10: u32,
    /// A quarter is shorter.
    pub p25: u32,
    /// The median.
    pub p50: u32,
    /// A quarter is longer.
    pub p75: u32,
    /// One in ten is longer.
    pub p90: u32,
    /// One in twenty is longer.
    pub p95: u32,
    /// One in a hundred is longer.
    pub p99: u32,
    /// One in a thousand is longer.
    pub p999: u32,
    /// The longest.
    pub max: u32,
}

impl Quantiles {
    /// No spread.
    pub const EVEN: Self = Self::of([WHOLE; PLACES.len()]);
    /// Those of another direction are meant.
    pub const UNSET: Self = Self::of([0; PLACES.len()]);

    /// Returns quantiles with these values, from the smallest on.
    pub const fn of(
        [min, p10, p25, p50, p75, p90, p95, p99, p999, max]: [u32; PLACES.len()],
    ) -> Self {
        Self { min, p10, p25, p50, p75, p90, p95, p99, p999, max }
    }

    /// Returns these quantiles, and `other`'s where they are 0.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let mut values = self.values();
        for (own, other) in values.iter_mut().zip(other.values()).filter(|(own, _)| **own == 0) {
            *own = other;
        }
        Self::of(values)
    }

    /// Returns the values, from the smallest on.
    pub const fn values(&self) -> [u32; PLACES.len()] {
        let &Self { min, p10, p25, p50, p75, p90, p95, p99, p999, max } = self;
        [min, p10, p25, p50, p75, p90, p95, p99, p999, max]
    }
}

/// What part of the draws is shorter than each quantile, in parts in a million.
pub const PLACES: [u32; 10] =
    [0, 100_000, 250_000, 500_000, 750_000, 900_000, 950_000, 990_000, 999_000, WHOLE];

/// Draws from quantiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    values: [u32; PLACES.len()],
    is_even: bool,
}

impl Spread {
    /// Returns what draws from these quantiles.
    pub fn new(quantiles: &Quantiles) -> Self {
        let mut values = quantiles.values();
        for at in 1..values.len() {
            values[at] = values[at].max(values[at - 1]);
        }
        Self { values, is_even: values == [WHOLE; PLACES.len()] }
    }

    /// Returns true if every draw is the time itself, so that none is needed.
    #[inline]
    pub const fn is_even(&self) -> bool {
        self.is_even
    }

    /// Returns `nanoseconds` as the random number `chance` stretches them.
    #[inline]
    pub fn apply(&self, nanoseconds: u64, chance: u64) -> u64 {
        // Parts in a million, with 32 fractional bits.
        let place = ((u128::from(chance) * u128::from(WHOLE)) >> 32) as u64;
        let above = PLACES[1..PLACES.len() - 1]
            .iter()
            .take_while(|&&at| u64::from(at) << 32 <= place)
            .count()
            + 1;
        let [low, high] =
            [above - 1, above].map(|at| (u64::from(PLACES[at]), u64::from(self.values[at])));
        let inside = place - (low.0 << 32);
        let step =
            (u128::from(inside) * u128::from(high.1 - low.1) / u128::from(high.0 - low.0)) as u64;
        // A share of at most 2^30, with 32 fractional bits.
        let share = (low.1 << 32) + step;
        ((u128::from(nanoseconds) * u128::from(share) / u128::from(WHOLE)) >> 32) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::draw;

    #[test]
    fn draws_have_the_quantiles() {
        let values = [
            500_000,
            700_000,
            800_000,
            1_000_000,
            1_500_000,
            2_000_000,
            3_000_000,
            9_000_000,
            20_000_000,
            1 << 30,
        ];
        let spread = Spread::new(&Quantiles::of(values));
        let mut draws: Vec<u64> =
            (0..200_000).map(|n| spread.apply(1_000_000, draw(1, 2, n))).collect();
        draws.sort_unstable();
        for (place, value) in PLACES.into_iter().zip(values) {
            let at =
                (draws.len() as u64 * u64::from(place) / 1_000_000).min(draws.len() as u64 - 1);
            let found = draws[at as usize] as f64 / f64::from(value);
            let within = if place > 990_000 { 0.15 } else { 0.02 };
            assert!((found - 1.0).abs() < within, "{place}: {found}");
        }
        assert!(!spread.is_even() && Spread::new(&Quantiles::EVEN).is_even());
        assert_eq!(Spread::new(&Quantiles::EVEN).apply(12_345, u64::MAX / 3), 12_345);
        assert_eq!(
            (spread.apply(1_000_000, 0), spread.apply(1_000_000, u64::MAX) >> 20),
            (500_000, 1023)
        );
    }

    #[test]
    fn a_quantile_below_the_one_before_is_that_one() {
        let spread = Spread::new(&Quantiles { p99: 3_000_000, ..Quantiles::EVEN });
        assert_eq!(spread.values[6..], [1_000_000, 3_000_000, 3_000_000, 3_000_000]);
        assert_eq!(spread.apply(100, u64::MAX / 2), 100);
    }
}
