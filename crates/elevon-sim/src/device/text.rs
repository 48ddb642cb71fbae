//! Text forms of parameters: `key=value,key=value`, every quantity with its unit.
//!
//! A parser names its keys once; whatever is unknown, given twice, without its unit or out of range is an error that names
//! the key and says what would be right.

use core::fmt;
use core::ops::RangeInclusive;

use elevon_core::units::{Bytes, Nanos};

/// What is wrong with a text form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextError {
    /// No such device model or fault.
    UnknownName {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// No such key.
    UnknownKey {
        /// What the keys belong to, as `device slots`.
        scope: String,
        /// The key.
        key: String,
        /// The keys there are.
        known: Vec<&'static str>,
    },
    /// The key is there twice.
    Twice {
        /// What the key belongs to.
        scope: String,
        /// The key.
        key: String,
    },
    /// The value cannot be used.
    BadValue {
        /// What the key belongs to.
        scope: String,
        /// The key.
        key: String,
        /// The value as it was written.
        value: String,
        /// What would be right.
        expected: String,
    },
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownName { name, known } => write!(f, "unknown name `{name}`; there are {known}"),
            Self::UnknownKey { scope, key, known } => {
                write!(f, "{scope}: unknown key `{key}`; its keys are {}", known.join(", "))
            }
            Self::Twice { scope, key } => write!(f, "{scope}: key `{key}` is given twice"),
            Self::BadValue { scope, key, value, expected } => {
                write!(f, "{scope}: `{key}={value}`: expected {expected}")
            }
        }
    }
}

impl std::error::Error for TextError {}

pub(crate) const SPANS: &[(&str, u64)] = &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
pub(crate) const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// `digits[.digits]unit` in the unit's base, rounded down; a plain 0 needs no unit. `None` where it is not that or overflows.
pub(crate) fn quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u64 = whole.parse().ok()?;
    if unit.is_empty() {
        return (whole == 0 && number == "0").then_some(0);
    }
    let (_, scale) = *units.iter().find(|(name, _)| *name == unit)?;
    let digits = u32::try_from(fraction.len()).ok().filter(|d| (1..=12).contains(d))?;
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(scale) / u128::from(10u64.pow(digits));
    whole.checked_mul(scale)?.checked_add(u64::try_from(part).ok()?)
}

/// The pairs of one text form.
#[derive(Debug)]
pub struct Fields<'a> {
    scope: String,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Fields<'a> {
    /// Cuts `text` at commas and `=`. `scope` stands in front of every error; `known` are the keys there are.
    pub fn parse(scope: &str, text: &'a str, known: &[&'static str]) -> Result<Self, TextError> {
        let mut fields = Self { scope: scope.into(), pairs: Vec::new() };
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (key.trim(), value.trim());
            if !known.contains(&key) {
                return Err(TextError::UnknownKey { scope: scope.into(), key: key.into(), known: known.to_vec() });
            }
            if fields.raw(key).is_some() {
                return Err(TextError::Twice { scope: scope.into(), key: key.into() });
            }
            fields.pairs.push((key, value));
        }
        Ok(fields)
    }

    /// The value as it was written.
    pub fn raw(&self, key: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(k, _)| *k == key).map(|&(_, value)| value)
    }

    /// The error that says what would have been right for `key`.
    pub fn bad(&self, key: &str, expected: impl Into<String>) -> TextError {
        TextError::BadValue {
            scope: self.scope.clone(),
            key: key.into(),
            value: self.raw(key).unwrap_or("").into(),
            expected: expected.into(),
        }
    }

    fn parsed<T>(
        &self,
        key: &str,
        default: T,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, TextError> {
        self.raw(key).map_or(Ok(default), |value| parse(value).ok_or_else(|| self.bad(key, expected)))
    }

    /// A span of time, at most an hour.
    pub fn span(&self, key: &str, default: Nanos) -> Result<Nanos, TextError> {
        self.parsed(key, default, "a time up to 3600s with its unit: ns, us, ms or s, as in 2ms", |v| {
            quantity(v, SPANS).filter(|&ns| ns <= 3_600_000_000_000).map(Nanos::new)
        })
    }

    /// A size that is a whole number of 4096-byte blocks, at most 8 EiB.
    pub fn size(&self, key: &str, default: Bytes) -> Result<Bytes, TextError> {
        let expected = "a size, a multiple of 4096 bytes up to 8388608TiB, with its unit: KiB, MiB, GiB, TiB (powers of 1024) or \
                        kB, MB, GB, TB (powers of 1000), as in 1GiB";
        self.parsed(key, default, expected, |v| {
            quantity(v, SIZES).filter(|&b| b > 0 && b % 4096 == 0 && b <= 1 << 63).map(Bytes::new)
        })
    }

    /// Bytes per second, from 1 kB/s to 1000 TB/s.
    pub fn rate(&self, key: &str, default: Bytes) -> Result<Bytes, TextError> {
        let expected = "a rate from 1kB/s to 1000TB/s with its unit: kB/s, MB/s, GB/s (powers of 1000) or KiB/s, MiB/s, GiB/s, as in \
                        500MB/s";
        self.parsed(key, default, expected, |v| {
            quantity(v.strip_suffix("/s")?, SIZES)
                .filter(|b| (1_000..=1_000_000_000_000_000).contains(b))
                .map(Bytes::new)
        })
    }

    /// A plain number within a range.
    pub fn count(&self, key: &str, default: u64, range: RangeInclusive<u64>) -> Result<u64, TextError> {
        let expected = format!("a number from {} to {}", range.start(), range.end());
        self.parsed(key, default, &expected, |v| v.parse().ok().filter(|n| range.contains(n)))
    }

    /// 0 or 1.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool, TextError> {
        self.count(key, default.into(), 0..=1).map(|n| n == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_need_their_unit() {
        for (text, ns) in [("0", 0), ("2ms", 2_000_000), ("1.5us", 1_500), ("10s", 10_000_000_000), ("0.25ms", 250_000)]
        {
            assert_eq!(quantity(text, SPANS), Some(ns), "{text}");
        }
        for text in
            ["2", "ms", "", "1,5ms", "1.ms", "-1ms", "2m", "2 ms", "99999999999999999999s", "18446744073s0", "0.0"]
        {
            assert_eq!(quantity(text, SPANS), None, "{text}");
        }
        assert_eq!(quantity("500MB", SIZES), Some(500_000_000));
        assert_eq!(quantity("1.5GiB", SIZES), Some(3 << 29));
    }

    #[test]
    fn errors_name_the_key_and_what_would_be_right() {
        const KEYS: &[&str] = &["a", "b"];
        let error = |text| Fields::parse("device x", text, KEYS).unwrap_err().to_string();
        assert_eq!(error("c=1"), "device x: unknown key `c`; its keys are a, b");
        assert_eq!(error("a=1,a=2"), "device x: key `a` is given twice");
        let fields = Fields::parse("device x", "a=2,b=9", KEYS).unwrap();
        assert_eq!(
            fields.span("a", Nanos::ZERO).unwrap_err().to_string(),
            "device x: `a=2`: expected a time up to 3600s with its unit: ns, us, ms or s, as in 2ms"
        );
        assert_eq!(
            fields.count("b", 1, 1..=8).unwrap_err().to_string(),
            "device x: `b=9`: expected a number from 1 to 8"
        );
    }
}
