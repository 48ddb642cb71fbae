//! Figures as people read them: a value with its unit, a mean with its interval in the same unit.

use elevon_report::interval::Interval;
use elevon_report::number::{bytes_decimal, count, significant, span};
use elevon_report::plot::Unit;

/// Formats a value with its unit.
pub(super) fn amount(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Nanos => span(value),
        Unit::BytesPerSecond => bytes_decimal(value) + "/s",
        Unit::Percent => format!("{value:.1}%"),
        _ => count(value),
    }
}

/// Formats a mean with half of its interval, which has two digits in the unit of the mean.
pub(super) fn with_interval(unit: Unit, of: &Interval) -> String {
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

/// Formats a difference in percent with half of its interval, with as many decimals as half of the
/// interval needs for a digit, and `*` if it is probably none of chance.
pub(super) fn change_in_words(change: &Interval) -> String {
    let Some(half) = change.half_width else { return format!("{:+.1} %", change.mean) };
    let mark = if change.is_clear() { " *" } else { "" };
    if half == 0.0 {
        return format!("{:+.1} % ± 0{mark}", change.mean);
    }
    let decimals = (1..4).find(|&decimals| half * libm::pow(10.0, f64::from(decimals)) >= 1.0).unwrap_or(4);
    let decimals = decimals as usize;
    format!("{:+.decimals$} % ± {half:.decimals$}{mark}", change.mean)
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
        assert_eq!(with_interval(Unit::Nanos, &Interval { half_width: None, ..interval(2e6, 0.0) }), "2.00ms");
    }

    /// The unit of the interval is the one that the mean is shown in, whatever its size.
    #[test]
    fn units_are_those_of_values() {
        for unit in [Unit::Nanos, Unit::BytesPerSecond, Unit::Count] {
            for power in 0..60 {
                let value = libm::pow(10.0, f64::from(power) / 5.0);
                for value in [value, value * 0.99949, value * 0.99951] {
                    let (shown, name) = (amount(unit, value), step(unit, value).1);
                    let number = shown.strip_suffix(name).unwrap_or_else(|| panic!("{shown}: not in {name}"));
                    assert!(number.parse::<f64>().is_ok(), "{shown}: not in {name}");
                }
            }
        }
    }

    #[test]
    fn a_difference_has_the_digits_of_its_interval() {
        for (mean, half, text) in [
            (-12.4, 0.3, "-12.4 % ± 0.3 *"),
            (-12.412, 0.004, "-12.412 % ± 0.004 *"),
            (0.01, 0.04, "+0.01 % ± 0.04"),
            (5.0, 0.0, "+5.0 % ± 0 *"),
            (5.0, 1e-9, "+5.0000 % ± 0.0000 *"),
            (5.0, 12.0, "+5.0 % ± 12.0"),
        ] {
            assert_eq!(change_in_words(&interval(mean, half)), text);
        }
    }
}
