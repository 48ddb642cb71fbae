//! The figures of `steadystate`, from its samples.

use elevon_result::result::SteadyState;

/// Means over the window, and what was compared with the limit.
pub(crate) struct SteadyFigures {
    pub(crate) iops_mean: f64,
    /// In bytes per second.
    pub(crate) bandwidth_mean: f64,
    /// Largest deviation from the mean, in I/Os or bytes per second; 0 if the slope is judged.
    pub(crate) deviation: f64,
    /// Change of the rate from sample to sample; 0 if the deviation is judged.
    pub(crate) slope: f64,
    /// The deviation, or the slope without its sign; in percent of the mean if the limit is.
    pub(crate) criterion: f64,
}

impl SteadyFigures {
    pub(crate) fn from_steady(steady: &SteadyState) -> Self {
        let window = steady.window.max(1) as f64;
        let of_bandwidth = steady.criterion.starts_with("bw");
        let mean = |of: fn(&(u64, u64)) -> u64| {
            steady.samples.iter().map(|one| of(one) as f64).sum::<f64>() / window
        };
        let (iops_mean, bandwidth_mean) = (mean(|one| one.0), mean(|one| one.1));
        let mut figures =
            Self { iops_mean, bandwidth_mean, deviation: 0.0, slope: 0.0, criterion: 0.0 };
        // As in fio, a window that is not full has not been judged.
        if steady.samples.len() < steady.window {
            return figures;
        }
        let mean = if of_bandwidth { bandwidth_mean } else { iops_mean };
        let rates =
            || steady.samples.iter().map(|one| if of_bandwidth { one.1 } else { one.0 } as f64);
        if steady.criterion.ends_with("_slope") {
            let centre = (window - 1.0) / 2.0;
            let places = || (0..steady.samples.len()).map(|place| place as f64 - centre);
            let squares: f64 = places().map(|place| place * place).sum();
            let products: f64 =
                places().zip(rates()).map(|(place, rate)| place * (rate - mean)).sum();
            figures.slope = if squares > 0.0 { products / squares } else { 0.0 };
        } else {
            figures.deviation = rates().map(|rate| (rate - mean).abs()).fold(0.0, f64::max);
        }
        // As in fio, a slope keeps its sign.
        let judged = figures.deviation + figures.slope;
        figures.criterion = match steady.percent {
            true if mean > 0.0 => 100.0 * judged / mean,
            true => 0.0,
            false => judged,
        };
        figures
    }
}

#[cfg(test)]
mod tests {
    use elevon_core::units::Nanos;

    use super::*;

    fn figures(criterion: &'static str, percent: bool, samples: &[(u64, u64)]) -> SteadyFigures {
        let duration = Nanos::from_secs(3);
        let samples = samples.to_vec();
        SteadyFigures::from_steady(&SteadyState {
            criterion,
            limit: 1,
            percent,
            duration,
            window: 3,
            attained: false,
            samples,
        })
    }

    /// Samples and figures of two runs of fio 3.33.
    #[test]
    fn fios_samples_have_fios_figures() {
        let bandwidths = [(8675, 35_535_567), (8301, 34_002_130), (9109, 37_310_910)];
        let of_bandwidth = figures("bw", true, &bandwidths);
        assert_eq!(
            (of_bandwidth.bandwidth_mean as u64, of_bandwidth.iops_mean as u64),
            (35_616_202, 8695)
        );
        assert_eq!(format!("{:.6}", of_bandwidth.deviation), "1694707.666667");
        assert_eq!(format!("{:.6}", of_bandwidth.criterion), "4.758249");
        assert_eq!(of_bandwidth.slope, 0.0);
        let of_slope = figures("iops_slope", false, &[(20891, 0), (19568, 0), (23369, 0)]);
        assert_eq!((of_slope.slope, of_slope.criterion, of_slope.deviation), (1239.0, 1239.0, 0.0));
        let falls = figures("iops_slope", true, &[(101, 0), (100, 0), (99, 0)]);
        assert_eq!((falls.slope, falls.criterion), (-1.0, -1.0));
        let short = figures("iops", false, &[(100, 410_060), (100, 410_010)]);
        assert_eq!((short.iops_mean as u64, short.deviation), (66, 0.0));
    }
}
