//! Means and ratios of a few samples with their 95 % confidence intervals.

/// The mean of samples, and how far from it the mean of the population probably is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Mean of the samples.
    pub mean: f64,
    /// Half of the width of the 95 % confidence interval of the mean; `None` for one sample.
    pub half_width: Option<f64>,
    /// Number of samples.
    pub samples: usize,
}

impl Interval {
    /// Returns the interval of samples, by Student's t distribution: it assumes that the samples
    /// are independent and about normally distributed. `None` if there are none.
    pub fn from_samples(samples: &[f64]) -> Option<Self> {
        let count = samples.len();
        if count == 0 {
            return None;
        }
        let mean = samples.iter().sum::<f64>() / count as f64;
        let half_width = (count > 1).then(|| {
            let squares: f64 = samples.iter().map(|sample| (sample - mean) * (sample - mean)).sum();
            let deviation = libm::sqrt(squares / (count - 1) as f64);
            t_975(count - 1) * deviation / libm::sqrt(count as f64)
        });
        Some(Self { mean, half_width, samples: count })
    }
}

/// The ratio of the second value of each pair to its first, with its 95 % confidence interval.
///
/// A ratio cannot be negative, and half as much is as far from 1 as twice as much. So mean and
/// interval are those of the logarithms of the ratios: the mean is the geometric one, and both
/// bounds are above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioInterval {
    /// Geometric mean of the ratios. If a value is 0 it is the ratio of the sums.
    pub ratio: f64,
    /// Least and largest value of the 95 % confidence interval, both above 0; `None` for one pair,
    /// and if a value is 0.
    pub bounds: Option<(f64, f64)>,
    /// Number of pairs.
    pub samples: usize,
}

impl RatioInterval {
    /// Returns the interval of pairs. `None` if there are no pairs, if a value is negative, or if
    /// the first value of every pair is 0.
    pub fn from_pairs(pairs: &[(f64, f64)]) -> Option<Self> {
        let (first, second) =
            pairs.iter().fold((0.0, 0.0), |sums, pair| (sums.0 + pair.0, sums.1 + pair.1));
        if first <= 0.0 || pairs.iter().any(|pair| pair.0 < 0.0 || pair.1 < 0.0) {
            return None;
        }
        let samples = pairs.len();
        if pairs.iter().any(|pair| pair.0 == 0.0 || pair.1 == 0.0) {
            return Some(Self { ratio: second / first, bounds: None, samples });
        }
        let logarithms: Vec<f64> =
            pairs.iter().map(|(first, second)| libm::log(second / first)).collect();
        let Interval { mean, half_width, samples } = Interval::from_samples(&logarithms)?;
        let bounds = half_width.map(|half| (libm::exp(mean - half), libm::exp(mean + half)));
        Some(Self { ratio: libm::exp(mean), bounds, samples })
    }

    /// Returns true if the interval does not contain 1: chance alone gives that once in twenty.
    pub fn is_clear(&self) -> bool {
        self.bounds.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
    }
}

/// Returns how many of `comparisons` intervals of 95 % chance alone puts beside the true value.
pub fn clear_by_chance(comparisons: usize) -> f64 {
    comparisons as f64 / 20.0
}

/// Quantiles 0.975 of Student's t distribution for 1 to 30 degrees of freedom, from printed tables.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// Returns the quantile 0.975 of Student's t distribution. Above 30 degrees of freedom it is the
/// first terms of the expansion around the normal distribution, which are exact to 0.001.
fn t_975(degrees: usize) -> f64 {
    const Z: f64 = 1.959_964;
    T_975.get(degrees - 1).copied().unwrap_or_else(|| {
        let n = degrees as f64;
        let (cube, fifth) = (Z * Z * Z, Z * Z * Z * Z * Z);
        Z + (cube + Z) / (4.0 * n) + (5.0 * fifth + 16.0 * cube + 3.0 * Z) / (96.0 * n * n)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_textbook_interval() {
        // Five samples with mean 10 and standard deviation 1.5811: 2.776 * 1.5811 / sqrt(5).
        let interval = Interval::from_samples(&[8.0, 9.0, 10.0, 11.0, 12.0]).expect("samples");
        assert_eq!((interval.mean, interval.samples), (10.0, 5));
        let half = interval.half_width.expect("several samples");
        assert!((half - 1.963).abs() < 0.001, "{half}");
        assert_eq!(
            Interval::from_samples(&[3.0]),
            Some(Interval { mean: 3.0, half_width: None, samples: 1 })
        );
        assert_eq!(Interval::from_samples(&[]), None);
    }

    #[test]
    fn quantiles_join_where_the_table_ends() {
        assert!(
            (t_975(31) - 2.040).abs() < 0.001 && (t_975(60) - 2.000).abs() < 0.001,
            "{} {}",
            t_975(31),
            t_975(60)
        );
        assert!((t_975(120) - 1.980).abs() < 0.001 && (t_975(1_000_000) - 1.960).abs() < 0.001);
    }

    #[test]
    fn pairs_show_what_means_hide() {
        // The seeds differ much more than the two variants do.
        let pairs = [(100.0, 105.0), (200.0, 208.0), (400.0, 424.0)];
        let change = RatioInterval::from_pairs(&pairs).expect("pairs");
        assert!((change.ratio - 1.05).abs() < 0.001 && change.is_clear(), "{change:?}");
        let firsts: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
        assert!(Interval::from_samples(&firsts).and_then(|all| all.half_width) > Some(200.0));
    }

    #[test]
    fn a_ratio_and_its_interval_stay_above_zero() {
        // The arithmetic interval of these ratios is 0.53 +- 1.12.
        let wide = RatioInterval::from_pairs(&[(1.0, 1.0), (1.0, 0.1), (1.0, 0.5)]).expect("pairs");
        let (low, high) = wide.bounds.expect("several pairs");
        assert!(low > 0.0 && low < wide.ratio && wide.ratio < high && !wide.is_clear(), "{wide:?}");
        // The inverse has the inverse bounds.
        let inverse =
            RatioInterval::from_pairs(&[(1.0, 1.0), (0.1, 1.0), (0.5, 1.0)]).expect("pairs");
        let (inverse_low, inverse_high) = inverse.bounds.expect("several pairs");
        assert!((inverse_low * high - 1.0).abs() < 1e-9 && (inverse_high * low - 1.0).abs() < 1e-9);
        // By hand: logarithms 0 and ln 4, mean ln 2, deviation 0.9803, 12.706 * 0.9803 / sqrt(2).
        let two = RatioInterval::from_pairs(&[(1.0, 1.0), (1.0, 4.0)]).expect("pairs");
        let by_hand = libm::exp(12.706 * 0.980_258 / libm::sqrt(2.0));
        assert!((two.ratio - 2.0).abs() < 1e-9);
        assert!((two.bounds.expect("pairs").1 / (2.0 * by_hand) - 1.0).abs() < 1e-4, "{two:?}");
    }

    #[test]
    fn a_ratio_without_an_interval() {
        assert_eq!(
            RatioInterval::from_pairs(&[(4.0, 2.0)]),
            Some(RatioInterval { ratio: 0.5, bounds: None, samples: 1 }),
            "one pair"
        );
        let with_zero = RatioInterval { ratio: 0.25, bounds: None, samples: 2 };
        assert_eq!(RatioInterval::from_pairs(&[(4.0, 0.0), (4.0, 2.0)]), Some(with_zero));
        assert!(!with_zero.is_clear());
        for none in [&[][..], &[(0.0, 1.0)], &[(-1.0, 1.0)], &[(1.0, -1.0)]] {
            assert_eq!(RatioInterval::from_pairs(none), None, "{none:?}");
        }
        assert_eq!(clear_by_chance(60), 3.0);
    }
}
