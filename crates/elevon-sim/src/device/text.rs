//! Text forms of parameters: `key=value,key=value`, every quantity with its unit.
//!
//! A parser lists its keys once. A key or value that is unknown, given twice, without its unit or
//! out of range is an error that names the key and says what would be right.

use core::fmt;
use core::ops::RangeInclusive;

use super::parameter::ParameterError;
use elevon_core::units::{Bytes, Nanos};
use elevon_formats::quantity::{self, QuantityError, Short};

/// Why a text form is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextError {
    /// The text as a whole is wrong: what it lacks, or what was expected in its place.
    Whole(String),
    /// There is no such device model.
    UnknownName {
        /// The name that was given.
        name: String,
        /// The valid names.
        known: String,
    },
    /// A parameter of a model is wrong.
    Parameter {
        /// What the parameters belong to, as `device slots`.
        scope: String,
        /// Why it is wrong.
        error: ParameterError,
    },
    /// There is no such key.
    UnknownKey {
        /// What the keys belong to, as `device slots`.
        scope: String,
        /// The key.
        key: String,
        /// The valid keys.
        known: Vec<&'static str>,
    },
    /// The key is given twice.
    Twice {
        /// What the key belongs to.
        scope: String,
        /// The key.
        key: String,
    },
    /// The value is not valid.
    BadValue {
        /// What the key belongs to.
        scope: String,
        /// The key.
        key: String,
        /// The value as it was given.
        value: String,
        /// What would be right.
        expected: String,
    },
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(error) => f.write_str(error),
            Self::UnknownName { name, known } => {
                write!(f, "unknown name `{name}`; there are {known}")
            }
            Self::Parameter { scope, error } => write!(f, "{scope}: {error}"),
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

/// The pairs of one text form.
#[derive(Debug)]
pub struct Fields<'a> {
    scope: String,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Fields<'a> {
    /// Splits `text` at commas and `=`. Error messages begin with `scope`; `known` are the valid
    /// keys.
    ///
    /// # Errors
    /// There is no such key, or it is given twice.
    pub fn parse(scope: &str, text: &'a str, known: &[&'static str]) -> Result<Self, TextError> {
        let mut fields = Self { scope: scope.into(), pairs: Vec::new() };
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (key.trim(), value.trim());
            if !known.contains(&key) {
                return Err(TextError::UnknownKey {
                    scope: scope.into(),
                    key: key.into(),
                    known: known.to_vec(),
                });
            }
            if fields.raw(key).is_some() {
                return Err(TextError::Twice { scope: scope.into(), key: key.into() });
            }
            fields.pairs.push((key, value));
        }
        Ok(fields)
    }

    /// Returns the value as it was given.
    pub fn raw(&self, key: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(k, _)| *k == key).map(|&(_, value)| value)
    }

    /// Returns an error that says what would be right for `key`.
    pub fn bad(&self, key: &str, expected: impl Into<String>) -> TextError {
        TextError::BadValue {
            scope: self.scope.clone(),
            key: key.into(),
            value: self.raw(key).unwrap_or("").into(),
            expected: expected.into(),
        }
    }

    /// Returns the value of a key as `parse` reads it if `is_good` returns true for it, or the
    /// default if the key is not given.
    fn quantity<T>(
        &self,
        key: &str,
        default: T,
        expected: &str,
        parse: impl FnOnce(&str) -> Result<T, QuantityError>,
        is_good: impl FnOnce(&T) -> bool,
    ) -> Result<T, TextError> {
        let Some(text) = self.raw(key) else { return Ok(default) };
        match parse(text) {
            Ok(value) if is_good(&value) => Ok(value),
            Ok(_) => Err(self.bad(key, expected)),
            Err(error) => Err(self.bad(key, format!("{expected}{}", error.hint()))),
        }
    }

    /// Returns a span of time, at most an hour.
    ///
    /// # Errors
    /// The value is not such a time.
    pub fn span(&self, key: &str, default: Nanos) -> Result<Nanos, TextError> {
        let expected = "a time up to 3600s with its unit: ns, us, ms or s, as in 2ms";
        self.quantity(key, default, expected, quantity::time, |ns| *ns <= Nanos::from_secs(3_600))
    }

    /// Returns a size in whole 4096-byte blocks, at most 8 EiB.
    ///
    /// # Errors
    /// The value is not such a size.
    pub fn size(&self, key: &str, default: Bytes) -> Result<Bytes, TextError> {
        self.size_in(key, default, Short::Nothing)
    }

    /// Returns a size of memory, as [`Self::size`], but `4G` is 4 GiB.
    ///
    /// # Errors
    /// The value is not such a size.
    pub fn memory(&self, key: &str, default: Bytes) -> Result<Bytes, TextError> {
        self.size_in(key, default, Short::Binary)
    }

    fn size_in(&self, key: &str, default: Bytes, short: Short) -> Result<Bytes, TextError> {
        let expected = "a size, a multiple of 4096 bytes up to 8388608TiB, with its unit: KiB, MiB, GiB, TiB (powers of 1024) or \
                        kB, MB, GB, TB (powers of 1000), as in 1GiB";
        let is_good = |size: &Bytes| {
            size.get() > 0 && size.get().is_multiple_of(4096) && size.get() <= 1 << 63
        };
        self.quantity(key, default, expected, |text| quantity::size(text, short), is_good)
    }

    /// Returns a plain number within a range.
    ///
    /// # Errors
    /// The value is no number or out of the range.
    pub fn count(
        &self,
        key: &str,
        default: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, TextError> {
        let expected = format!("a number from {} to {}", range.start(), range.end());
        let Some(text) = self.raw(key) else { return Ok(default) };
        text.parse().ok().filter(|n| range.contains(n)).ok_or_else(|| self.bad(key, expected))
    }

    /// Returns a flag, 0 or 1.
    ///
    /// # Errors
    /// The value is neither 0 nor 1.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool, TextError> {
        self.count(key, default.into(), 0..=1).map(|n| n == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let short = Fields::parse("device x", "a=4G", KEYS)
            .unwrap()
            .size("a", Bytes::ZERO)
            .unwrap_err()
            .to_string();
        assert!(short.ends_with("as in 1GiB; write 4GB or 4GiB"), "{short}");
        assert_eq!(
            fields.count("b", 1, 1..=8).unwrap_err().to_string(),
            "device x: `b=9`: expected a number from 1 to 8"
        );
    }
}
