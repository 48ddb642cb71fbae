//! Parameters of a model as a table: one row holds key, unit, range and meaning, and says where the value lives.
//!
//! Parsing, printing and the reference of `elevon devices NAME` are made from the same rows. Every value is a whole
//! number in the unit's base (nanoseconds, bytes, bytes a second, parts in a million), so that no float comes near a
//! device.

use elevon_core::nearest::did_you_mean;

use super::text::{SIZES, SPANS, quantity};

/// What a parameter is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds; written with ns, us, ms or s.
    Time,
    /// Bytes a second; written with B/s, kB/s, MB/s (10^6), GB/s or KiB/s, MiB/s, GiB/s.
    Rate,
    /// Bytes; written with B, KiB, MiB, GiB, TiB or kB, MB, GB, TB.
    Size,
    /// A plain number.
    Count,
    /// Parts in a million; written with `%` or, for small shares, `ppm`.
    Share,
    /// 0 or 1.
    Switch,
    /// One of these words; the value is its place.
    Choice(&'static [&'static str]),
}

const SHARES: &[(&str, u64)] = &[("ppm", 1), ("%", 10_000)];

/// A whole number in the largest unit that leaves at most three decimals.
fn in_largest(value: u64, units: &[(&str, u64)]) -> String {
    let fits = |scale: u64| value >= scale && (u128::from(value) * 1000).is_multiple_of(u128::from(scale));
    match units.iter().filter(|(_, scale)| fits(*scale)).max_by_key(|(_, scale)| scale) {
        Some(&(name, scale)) => {
            let milli = u128::from(value % scale) * 1000 / u128::from(scale);
            let text = format!("{}.{milli:03}", value / scale);
            format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
        }
        None => value.to_string(),
    }
}

impl Unit {
    /// The value in the unit's base, or `None` where the text is not one.
    pub fn parse(self, text: &str) -> Option<u64> {
        match self {
            Self::Time => quantity(text, SPANS),
            Self::Rate if text == "0" => Some(0),
            Self::Rate => quantity(text.strip_suffix("/s")?, SIZES),
            Self::Size => quantity(text, SIZES),
            Self::Count => text.parse().ok(),
            Self::Share => quantity(text, SHARES),
            Self::Switch => ["0", "1"].iter().position(|w| *w == text).map(|i| i as u64),
            Self::Choice(words) => words.iter().position(|w| *w == text).map(|i| i as u64),
        }
    }

    /// The text that [`Self::parse`] reads as `value`.
    pub fn text(self, value: u64) -> String {
        match self {
            Self::Time => in_largest(value, SPANS),
            Self::Rate if value == 0 => "0".into(),
            Self::Rate => in_largest(value, SIZES) + "/s",
            Self::Size => in_largest(value, SIZES),
            Self::Share => in_largest(value, SHARES),
            Self::Count | Self::Switch => value.to_string(),
            Self::Choice(words) => words[value as usize].into(),
        }
    }

    /// What a value looks like, for an error.
    pub fn expected(self) -> String {
        match self {
            Self::Time => "a time with its unit (ns, us, ms, s), as in 66us".into(),
            Self::Rate => "a rate with its unit (MB/s, MiB/s, GB/s ...), as in 2600MB/s".into(),
            Self::Size => "a size with its unit (KiB, MiB, GiB, MB, GB ...), as in 32KiB".into(),
            Self::Count => "a whole number".into(),
            Self::Share => "a share with its unit (% or ppm), as in 7%".into(),
            Self::Switch => "0 or 1".into(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
        }
    }
}

/// One row: a parameter of the configuration `C`.
pub struct Parameter<C> {
    /// Its name.
    pub key: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Smallest and largest value, in the unit's base.
    pub range: (u64, u64),
    /// What it means.
    pub meaning: &'static str,
    /// Where it lives.
    pub field: fn(&mut C) -> &mut u64,
}

/// What is wrong with a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParameterError {
    /// No such key.
    UnknownKey {
        /// The key.
        key: String,
        /// All of them.
        known: String,
    },
    /// The value is not one, or out of range.
    BadValue {
        /// The key.
        key: &'static str,
        /// The value as written.
        value: String,
        /// What would be right.
        expected: String,
    },
}

impl core::fmt::Display for ParameterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownKey { key, known } => {
                write!(f, "unknown parameter `{key}`{}; there are {known}", did_you_mean(key, known.split(", ")))
            }
            Self::BadValue { key, value, expected } => write!(f, "`{key}={value}`: expected {expected}"),
        }
    }
}
impl std::error::Error for ParameterError {}

/// Applies `key=value,key=value` to a configuration.
pub fn apply<C>(rows: &[Parameter<C>], config: &mut C, settings: &str) -> Result<(), ParameterError> {
    for setting in settings.split(',').map(str::trim).filter(|s| !s.is_empty()) {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        let (key, value) = (key.trim(), value.trim());
        let Some(row) = rows.iter().find(|row| row.key == key) else {
            return Err(ParameterError::UnknownKey {
                key: key.into(),
                known: rows.iter().map(|row| row.key).collect::<Vec<_>>().join(", "),
            });
        };
        let (low, high) = row.range;
        let Some(number) = row.unit.parse(value).filter(|n| (low..=high).contains(n)) else {
            let unit = row.unit;
            let expected = match unit {
                Unit::Switch | Unit::Choice(_) => unit.expected(),
                _ => format!("{}, from {} to {}", unit.expected(), unit.text(low), unit.text(high)),
            };
            return Err(ParameterError::BadValue { key: row.key, value: value.into(), expected });
        };
        *(row.field)(config) = number;
    }
    Ok(())
}

/// A whole number times a fixed-point factor of 32 fractional bits, rounded to the nearest.
#[inline]
pub(crate) const fn scale_q32(value: u64, factor: u64) -> u64 {
    ((value as u128 * factor as u128 + (1 << 31)) >> 32) as u64
}

/// Nanoseconds per byte at a rate in bytes a second, with 32 fractional bits; 0 for "no limit" (rate 0).
pub(crate) const fn ns_per_byte_q32(rate: u64) -> u64 {
    if rate == 0 { 0 } else { (((1_000_000_000u128) << 32) / rate as u128) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip_through_text() {
        for (unit, text, value) in [
            (Unit::Time, "133.1us", 133_100),
            (Unit::Time, "250ms", 250_000_000),
            (Unit::Time, "0", 0),
            (Unit::Rate, "2600MB/s", 2_600_000_000),
            (Unit::Size, "32KiB", 32768),
            (Unit::Size, "375GB", 375_000_000_000),
            (Unit::Share, "7%", 70_000),
            (Unit::Share, "10ppm", 10),
            (Unit::Count, "12", 12),
            (Unit::Choice(&["fixed", "exp"]), "exp", 1),
        ] {
            assert_eq!(unit.parse(text), Some(value), "{text}");
            assert_eq!(unit.parse(&unit.text(value)), Some(value), "{text} printed as {}", unit.text(value));
        }
        for (unit, text) in [(Unit::Time, "5"), (Unit::Time, "us"), (Unit::Rate, "5MB"), (Unit::Size, "99999999999TiB")]
        {
            assert_eq!(unit.parse(text), None, "{text}");
        }
    }
}
