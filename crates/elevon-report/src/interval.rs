//! Means of a few samples with their 95 % confidence intervals.

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
    pub fn of(samples: &[f64]) -> Option<Self> {
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

    /// Returns the interval of the differences of pairs, in percent of the mean of the first of
    /// each. `None` if there are no pairs, or that mean is 0.
    pub fn of_change(pairs: &[(f64, f64)]) -> Option<Self> {
        let base = pairs.iter().map(|pair| pair.0).sum::<f64>() / pairs.len().max(1) as f64;
        if base == 0.0 {
            return None;
        }
        let differences: Vec<f64> = pairs.iter().map(|(first, second)| 100.0 * (second - first) / base).collect();
        Self::of(&differences)
    }

    /// Returns true if the interval does not contain 0: the difference is probably none of chance.
    pub fn is_clear(&self) -> bool {
        self.half_width.is_some_and(|half| self.mean.abs() > half)
    }
}

/// Quantiles 0.975 of Student's t distribution for 1 to 30 degrees of freedom, from printed tables.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
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
        let interval = Interval::of(&[8.0, 9.0, 10.0, 11.0, 12.0]).expect("samples");
        assert_eq!((interval.mean, interval.samples), (10.0, 5));
        let half = interval.half_width.expect("several samples");
        assert!((half - 1.963).abs() < 0.001, "{half}");
        assert_eq!(Interval::of(&[3.0]), Some(Interval { mean: 3.0, half_width: None, samples: 1 }));
        assert_eq!(Interval::of(&[]), None);
    }

    #[test]
    fn quantiles_join_where_the_table_ends() {
        assert!((t_975(31) - 2.040).abs() < 0.001 && (t_975(60) - 2.000).abs() < 0.001, "{} {}", t_975(31), t_975(60));
        assert!((t_975(120) - 1.980).abs() < 0.001 && (t_975(1_000_000) - 1.960).abs() < 0.001);
    }

    #[test]
    fn pairs_show_what_means_hide() {
        // The seeds differ much more than the two variants do.
        let pairs = [(100.0, 105.0), (200.0, 205.5), (400.0, 404.5)];
        let change = Interval::of_change(&pairs).expect("pairs");
        assert!((change.mean - 2.142).abs() < 0.01 && change.is_clear(), "{change:?}");
        let firsts: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
        assert!(Interval::of(&firsts).and_then(|all| all.half_width) > Some(200.0));
        assert_eq!(Interval::of_change(&[(0.0, 1.0)]), None);
        assert_eq!(Interval::of_change(&[]), None);
    }
}
