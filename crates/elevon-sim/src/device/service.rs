//! Service times: a mean and the distribution of single draws around it, in integers.
//!
//! A draw is a function of a 32-bit random number, so the caller determines its dependence. Cost:
//! O(1).

/// Distribution of service times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Every draw is the mean.
    Fixed,
    /// Uniform between mean − jitter and mean + jitter.
    Uniform,
    /// Exponential: not realistic for NAND, but queueing theory has exact results for it.
    Exponential,
}

/// The words for [`Distribution`] in a parameter, in the order of its variants.
pub(crate) const DISTRIBUTIONS: &[&str] = &["fixed", "uniform", "exp"];

impl Distribution {
    /// Returns the distribution with an index of `DISTRIBUTIONS`.
    pub const fn at(place: u64) -> Self {
        match place {
            0 => Self::Fixed,
            1 => Self::Uniform,
            _ => Self::Exponential,
        }
    }
}

/// Number of entries of the quantile table.
const QUANTILES: usize = 4096;
/// Fractional bits of a quantile.
const QUANTILE_BITS: u32 = 20;

/// Draws service times around one mean.
#[derive(Clone, Debug)]
pub struct Service {
    mean: u64,
    /// Uniform: the smallest draw, and the width above it. Exponential: unused.
    low: u64,
    width: u64,
    quantiles: Vec<u32>,
}

impl Service {
    /// Returns a distribution around `mean` nanoseconds; `jitter` (parts in a million of the mean)
    /// applies to Uniform only.
    pub fn new(distribution: Distribution, mean: u64, jitter: u64) -> Self {
        let half = match distribution {
            Distribution::Uniform => mean * jitter.min(1_000_000) / 1_000_000,
            Distribution::Fixed | Distribution::Exponential => 0,
        };
        let quantiles = match distribution {
            Distribution::Exponential => exponential_quantiles(),
            Distribution::Fixed | Distribution::Uniform => Vec::new(),
        };
        Self { mean, low: mean - half, width: 2 * half, quantiles }
    }

    /// Returns the draw for the random number `chance`, in nanoseconds.
    #[inline]
    pub fn draw(&self, chance: u32) -> u64 {
        if self.quantiles.is_empty() {
            return self.low + ((u128::from(self.width) * u128::from(chance)) >> 32) as u64;
        }
        let quantile = self.quantiles[(chance >> (32 - QUANTILES.trailing_zeros())) as usize];
        ((u128::from(self.mean) * u128::from(quantile)) >> QUANTILE_BITS) as u64
    }

    /// Returns the mean in nanoseconds.
    pub const fn mean(&self) -> u64 {
        self.mean
    }
}

/// Returns the mean of each of 4096 equal slices of the exponential distribution with mean 1, so
/// that their mean is exactly 1 too. Floats are used only here, once, at the start; the logarithm
/// is `libm`'s, which gives the same bits on every machine.
fn exponential_quantiles() -> Vec<u32> {
    // The integral of -ln(1-u) from a to b is [v ln v - v] with v = 1-u, taken from 1-a to 1-b.
    let primitive = |v: f64| if v <= 0.0 { 0.0 } else { v * libm::log(v) - v };
    let n = QUANTILES as f64;
    let slice =
        |i: usize| (primitive(1.0 - (i + 1) as f64 / n) - primitive(1.0 - i as f64 / n)) * n;
    (0..QUANTILES).map(|i| (slice(i) * f64::from(1u32 << QUANTILE_BITS)).round() as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns mean and squared coefficient of variation over evenly spaced random numbers.
    fn moments(distribution: Distribution) -> (f64, f64) {
        let service = Service::new(distribution, 100_000, 250_000);
        let draws: Vec<f64> =
            (0..1u64 << 16).map(|i| service.draw((i << 16) as u32) as f64).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance =
            draws.iter().map(|d| (d - mean) * (d - mean)).sum::<f64>() / draws.len() as f64;
        (mean / 100_000.0, variance / (mean * mean))
    }

    #[test]
    fn moments_are_those_of_the_distribution() {
        for (distribution, scv) in [
            (Distribution::Fixed, 0.0),
            (Distribution::Uniform, 0.25 * 0.25 / 3.0),
            (Distribution::Exponential, 1.0),
        ] {
            let (mean, got) = moments(distribution);
            assert!((mean - 1.0).abs() < 1e-3, "{distribution:?}: mean {mean}");
            assert!((got - scv).abs() < 5e-3, "{distribution:?}: {got} against {scv}");
        }
    }
}
