//! Figures as people read them: a value with its unit, a mean with its interval in the same unit.

use elevon_report::plot::Unit;
use elevon_result::interval::{Interval, RatioInterval};
use elevon_result::number::{bytes_decimal, count, significant, span};

/// Formats a value with its unit.
pub(crate) fn amount(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Nanos => span(value),
        Unit::BytesPerSecond => bytes_decimal(value) + "/s",
        Unit::Percent => format!("{value:.1}%"),
        _ => count(value),
    }
}

/// Formats a mean with half of its interval, which has two digits in the unit of the mean.
pub(crate) fn with_interval(unit: Unit, of: &Interval) -> String {
    let mean = amount(unit, of.mean);
    let Some(half) = of.half_width else { return mean };
    // A whole number would hide what the interval has to say.
    if unit == Unit::Count && half < 10.0 && of.mean < 9999.5 {
        return format!("{:.1} ± {half:.1}", of.mean);
    }
    let (size, name) = step(unit, of.mean);
    format!("{mean} ± {}{name}", significant(half / size, 2))
}

/// Returns the unit in which [`amount`] shows a value: its size and its name.
fn step(unit: Unit, value: f64) -> (f64, &'static str) {
    let (limit, names): (f64, &[&'static str]) = match unit {
        Unit::Nanos => (999.5, &["ns", "us", "ms", "s"]),
        Unit::BytesPerSecond => (9999.5, &["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s", "EB/s"]),
        Unit::Percent => (f64::INFINITY, &["%"]),
        _ => (9999.5, &["", "k", "M", "G", "T", "P", "E"]),
    };
    let mut size = 1.0;
    for (at, name) in names.iter().enumerate() {
        if value / size < limit || at + 1 == names.len() {
            return (size, name);
        }
        size *= 1000.0;
    }
    (size, "")
}

/// Returns the smallest difference of values near `value` that can be seen in them as
/// [`amount`] formats them: half a unit of the last digit.
pub(crate) fn resolution(unit: Unit, value: f64) -> f64 {
    let (size, _) = step(unit, value);
    let magnitude = libm::log10((value / size).max(f64::MIN_POSITIVE)).floor().min(2.0);
    // Three digits, or all digits before the point. A share has one decimal, a small count none.
    let digit = match unit {
        Unit::Percent => 0.1,
        Unit::Nanos if size == 1.0 => 1.0,
        Unit::BytesPerSecond | Unit::Count if size == 1.0 => 1.0,
        _ => libm::pow(10.0, magnitude - 2.0),
    };
    0.5 * digit * size
}

/// Formats a ratio as a difference in percent with its interval, which has as many decimals as its
/// width needs for a digit. `marked` adds `*`.
pub(crate) fn change_in_words(change: &RatioInterval, marked: bool) -> String {
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let Some((low, high)) = change.bounds else {
        return format!("{:+.1} %", percent(change.ratio));
    };
    let half = (percent(high) - percent(low)) / 2.0;
    let decimals = match half {
        0.0 => 1,
        _ => (1..4)
            .find(|&decimals| half * libm::pow(10.0, f64::from(decimals)) >= 1.0)
            .unwrap_or(4) as usize,
    };
    let mark = if marked { " *" } else { "" };
    let [mean, low, high] =
        [change.ratio, low, high].map(|ratio| format!("{:+.decimals$}", percent(ratio)));
    format!("{mean} % ({low} to {high}){mark}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn interval(mean: f64, half: f64) -> Interval {
        Interval { mean, half_width: Some(half), samples: 3 }
    }

    /// Both have one unit, and an interval that is not 0 has a digit.
    #[test]
    fn a_mean_and_its_interval_have_one_unit() {
        for (unit, mean, half, text) in [
            (Unit::BytesPerSecond, 1.348e9, 9995.0, "1348MB/s ± 0.010MB/s"),
            (Unit::BytesPerSecond, 9_999_499.0, 250_000.0, "9999kB/s ± 250kB/s"),
            (Unit::BytesPerSecond, 1e7, 250_000.0, "10.0MB/s ± 0.25MB/s"),
            (Unit::Nanos, 97_800.0, 430.0, "97.8us ± 0.43us"),
            (Unit::Nanos, 999_600.0, 1_200.0, "1.00ms ± 0.0012ms"),
            (Unit::Nanos, 850.0, 0.0, "850ns ± 0ns"),
            (Unit::Count, 500_000.0, 1234.0, "500k ± 1.2k"),
            (Unit::Count, 97.3, 0.5, "97.3 ± 0.5"),
            (Unit::Percent, 61.25, 0.5, "61.2% ± 0.50%"),
        ] {
            assert_eq!(with_interval(unit, &interval(mean, half)), text);
        }
        assert_eq!(
            with_interval(Unit::Nanos, &Interval { half_width: None, ..interval(2e6, 0.0) }),
            "2.00ms"
        );
    }

    /// The unit of the interval is the one that the mean is shown in, whatever its size.
    #[test]
    fn units_are_those_of_values() {
        for unit in [Unit::Nanos, Unit::BytesPerSecond, Unit::Count] {
            for power in 0..60 {
                let value = libm::pow(10.0, f64::from(power) / 5.0);
                for value in [value, value * 0.99949, value * 0.99951] {
                    let (shown, name) = (amount(unit, value), step(unit, value).1);
                    let number = shown
                        .strip_suffix(name)
                        .unwrap_or_else(|| panic!("{shown}: not in {name}"));
                    assert!(number.parse::<f64>().is_ok(), "{shown}: not in {name}");
                }
            }
        }
    }

    #[test]
    fn a_difference_has_the_digits_of_its_interval() {
        let ratio = |percent: f64| 1.0 + percent / 100.0;
        for (mean, low, high, marked, text) in [
            (-12.4, -12.7, -12.1, true, "-12.4 % (-12.7 to -12.1) *"),
            (-12.412, -12.416, -12.408, true, "-12.412 % (-12.416 to -12.408) *"),
            (0.01, -0.03, 0.05, false, "+0.01 % (-0.03 to +0.05)"),
            (5.0, 5.0, 5.0, true, "+5.0 % (+5.0 to +5.0) *"),
            (5.0, -7.0, 18.6, false, "+5.0 % (-7.0 to +18.6)"),
            (-90.0, -99.0, 0.0, false, "-90.0 % (-99.0 to +0.0)"),
        ] {
            let change = RatioInterval {
                ratio: ratio(mean),
                bounds: Some((ratio(low), ratio(high))),
                samples: 3,
            };
            assert_eq!(change_in_words(&change, marked), text);
        }
        let one = RatioInterval { ratio: 0.5, bounds: None, samples: 1 };
        assert_eq!(change_in_words(&one, false), "-50.0 %");
    }

    /// Two values that are nearer than this are shown as the same text, or as neighbours.
    #[test]
    fn the_resolution_is_half_of_the_last_digit() {
        for (unit, value, half) in [
            (Unit::Nanos, 850.0, 0.5),
            (Unit::Nanos, 97_800.0, 50.0),
            (Unit::Nanos, 1.53e6, 5e3),
            (Unit::BytesPerSecond, 1.348e9, 5e5),
            (Unit::BytesPerSecond, 1e7, 5e4),
            (Unit::Count, 500_000.0, 500.0),
            (Unit::Count, 28_900.0, 50.0),
            (Unit::Count, 97.0, 0.5),
            (Unit::Percent, 61.2, 0.05),
        ] {
            let found = resolution(unit, value);
            assert!((found / half - 1.0).abs() < 1e-9, "{value}: {found}, not {half}");
            assert_ne!(amount(unit, value), amount(unit, value + 2.0 * half), "{value}");
        }
    }
}
