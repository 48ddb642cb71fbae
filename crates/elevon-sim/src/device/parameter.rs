//! Parameters of a model as a table: one row holds key, unit, range and meaning, and how the value
//! is read and set.
//!
//! Parsing, printing and the reference of `elevon devices NAME` use the same rows. Every value is a
//! whole number in the unit's base (nanoseconds, bytes, bytes a second, parts in a million), so
//! that no device uses floats.

use super::text::TextError;
use elevon_core::nearest::did_you_mean;

use elevon_core::units::{Bytes, Nanos};
use elevon_formats::quantity::{self, QuantityError, Short};

/// The unit of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds; written with ns, us, ms or s.
    Time,
    /// Bytes a second; written with B/s, kB/s, MB/s (10^6), GB/s or KiB/s, MiB/s, GiB/s.
    Rate,
    /// Bytes; written with B, KiB, MiB, GiB, TiB or kB, MB, GB, TB.
    Size,
    /// Bytes as [`Self::Size`], a multiple of 4096.
    Blocks,
    /// A plain number.
    Count,
    /// Parts in a million; written with `%` or, for small shares, `ppm`.
    Share,
    /// 0 or 1.
    Switch,
    /// One of these words; the value is its index.
    Choice(&'static [&'static str]),
}

impl Unit {
    /// Parses a value into the unit's base.
    ///
    /// # Errors
    /// The text is not a valid value.
    pub fn parse(self, text: &str) -> Result<u64, ValueError> {
        let word = |words: &[&str]| {
            words.iter().position(|w| *w == text).map(|i| i as u64).ok_or(ValueError::UnknownWord)
        };
        match self {
            Self::Time => Ok(quantity::time(text)?.get()),
            Self::Rate => Ok(quantity::rate(text, Short::Nothing)?.get()),
            Self::Size => Ok(quantity::size(text, Short::Nothing)?.get()),
            Self::Blocks => match Self::Size.parse(text)? {
                bytes if !bytes.is_multiple_of(4096) => Err(ValueError::NotBlocks),
                bytes => Ok(bytes),
            },
            Self::Share => Ok(quantity::share(text)?),
            Self::Count => text.parse().map_err(|_| ValueError::NotANumber),
            Self::Switch => word(&["0", "1"]),
            Self::Choice(words) => word(words),
        }
    }

    /// Returns the text that [`Self::parse`] parses to `value`.
    pub fn text(self, value: u64) -> String {
        match self {
            Self::Time => quantity::text(value, quantity::TIMES),
            Self::Rate if value == 0 => "0".into(),
            Self::Rate => quantity::text(value, quantity::SIZES) + "/s",
            Self::Size | Self::Blocks => quantity::text(value, quantity::SIZES),
            Self::Share => quantity::text(value, quantity::SHARES),
            Self::Count | Self::Switch => value.to_string(),
            Self::Choice(words) => words[value as usize].into(),
        }
    }

    /// Returns the description of a valid value, for an error message.
    pub fn expected(self) -> String {
        match self {
            Self::Time => "a time with its unit (ns, us, ms, s), as in 66us".into(),
            Self::Rate => "a rate with its unit (MB/s, MiB/s, GB/s ...), as in 2600MB/s".into(),
            Self::Size => "a size with its unit (KiB, MiB, GiB, MB, GB ...), as in 32KiB".into(),
            Self::Blocks => {
                "a size, a multiple of 4096 bytes, with its unit (KiB, MiB, GiB, MB, GB ...), as in 1GiB".into()
            }
            Self::Count => "a whole number".into(),
            Self::Share => "a share with its unit (% or ppm), as in 7%".into(),
            Self::Switch => "0 or 1".into(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
        }
    }
}

/// Why a text is no value of a parameter. [`Unit::expected`] says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// It is no quantity of the unit.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// It is a size, and no multiple of 4096 bytes.
    #[error("no multiple of 4096 bytes")]
    NotBlocks,
    /// It is no whole number.
    #[error("no whole number")]
    NotANumber,
    /// It is none of the words.
    #[error("none of the words")]
    UnknownWord,
    /// It is outside the range of the parameter.
    #[error("out of range")]
    OutOfRange,
}

impl ValueError {
    /// Returns a suggestion for the end of a message, or an empty text.
    fn hint(&self) -> String {
        match self {
            Self::Quantity(error) => error.hint(),
            Self::NotBlocks | Self::NotANumber | Self::UnknownWord | Self::OutOfRange => {
                String::new()
            }
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
    /// Returns the value, in the unit's base.
    pub get: fn(&C) -> u64,
    /// Sets a value that is in the range.
    pub set: fn(&mut C, u64),
}

/// A type in which the value of a parameter is stored.
pub(crate) trait Kept: Copy {
    /// Returns the value in the unit's base.
    fn number(self) -> u64;
    /// Returns the value of a number in the parameter's range, which always fits.
    fn of(number: u64) -> Self;
}

macro_rules! kept {
    ($($type:ty, |$value:ident| $number:expr, |$n:ident| $of:expr;)*) => {$(
        impl Kept for $type {
            fn number(self) -> u64 {
                let $value = self;
                $number
            }
            fn of($n: u64) -> Self {
                $of
            }
        }
    )*};
}
kept! {
    u64, |value| value, |n| n;
    u32, |value| value.into(), |n| n as Self;
    u16, |value| value.into(), |n| n as Self;
    bool, |value| value.into(), |n| n == 1;
    Nanos, |value| value.get(), |n| Self::new(n);
    Bytes, |value| value.get(), |n| Self::new(n);
}

/// Rows of a table: `KEY UNIT in RANGE, MEANING;`. The value is stored in the field with the name
/// of the key, or with `KEY = FIELD.PART UNIT in ...` in a part of a field.
macro_rules! parameters {
    (@place $c:ident $key:ident) => { $c.$key };
    (@place $c:ident $key:ident $field:ident $part:ident) => { $c.$field.$part };
    ($($key:ident $(= $field:ident . $part:ident)? $unit:ident $(($words:expr))? in $range:expr, $meaning:literal;)*) => {
        &[$($crate::device::parameter::Parameter {
            key: stringify!($key),
            unit: $crate::device::parameter::Unit::$unit $(($words))?,
            range: $range,
            meaning: $meaning,
            get: |c| $crate::device::parameter::Kept::number(parameters!(@place c $key $($field $part)?)),
            set: |c, number| parameters!(@place c $key $($field $part)?) = $crate::device::parameter::Kept::of(number),
        }),*]
    };
}
pub(crate) use parameters;

/// An hour, the maximum time of a command.
pub const HOUR: u64 = 3_600_000_000_000;
/// The range of a switch.
pub(crate) const SWITCH: (u64, u64) = (0, 1);

/// A key with its value, as `elevon devices` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLine {
    /// Its name.
    pub key: &'static str,
    /// Its value with its unit, as text that can be parsed.
    pub value: String,
    /// What it means.
    pub meaning: &'static str,
}

/// Returns every key with its value, in the order of the rows.
pub fn lines<C>(rows: &[Parameter<C>], config: &C) -> Vec<KeyLine> {
    let line = |row: &Parameter<C>| KeyLine {
        key: row.key,
        value: row.unit.text((row.get)(config)),
        meaning: row.meaning,
    };
    rows.iter().map(line).collect()
}

/// Why a setting is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParameterError {
    /// There is no such key.
    UnknownKey {
        /// The key.
        key: String,
        /// All valid keys.
        known: String,
    },
    /// The key is given twice.
    Twice {
        /// The key.
        key: &'static str,
    },
    /// The value is not valid, or out of range.
    BadValue {
        /// The key.
        key: &'static str,
        /// The value as it was given.
        value: String,
        /// What would be right.
        expected: String,
    },
}

impl core::fmt::Display for ParameterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownKey { key, known } => {
                write!(
                    f,
                    "unknown parameter `{key}`{}; there are {known}",
                    did_you_mean(key, known.split(", "))
                )
            }
            Self::Twice { key } => write!(f, "parameter `{key}` is given twice; give it once"),
            Self::BadValue { key, value, expected } => {
                write!(f, "`{key}={value}`: expected {expected}")
            }
        }
    }
}
impl std::error::Error for ParameterError {}

/// Applies `key=value,key=value` to a configuration.
///
/// # Errors
/// There is no such key, it is given twice, or its value is not valid. What stands before it is
/// applied.
pub fn apply<C>(
    rows: &[Parameter<C>],
    config: &mut C,
    settings: &str,
) -> Result<(), ParameterError> {
    let mut given: Vec<&str> = Vec::new();
    for setting in settings.split(',').map(str::trim).filter(|s| !s.is_empty()) {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        let (key, value) = (key.trim(), value.trim());
        let Some(row) = rows.iter().find(|row| row.key == key) else {
            return Err(ParameterError::UnknownKey {
                key: key.into(),
                known: rows.iter().map(|row| row.key).collect::<Vec<_>>().join(", "),
            });
        };
        if given.contains(&row.key) {
            return Err(ParameterError::Twice { key: row.key });
        }
        given.push(row.key);
        let (low, high) = row.range;
        let in_range = |number: u64| {
            if (low..=high).contains(&number) { Ok(number) } else { Err(ValueError::OutOfRange) }
        };
        let number = row.unit.parse(value).and_then(in_range).map_err(|error| {
            let (unit, hint) = (row.unit, error.hint());
            let expected = match unit {
                Unit::Switch | Unit::Choice(_) => unit.expected(),
                _ => format!(
                    "{}, from {} to {}{hint}",
                    unit.expected(),
                    unit.text(low),
                    unit.text(high)
                ),
            };
            ParameterError::BadValue { key: row.key, value: value.into(), expected }
        })?;
        (row.set)(config, number);
    }
    Ok(())
}

/// Parses `key=value,key=value`; a key that is not given keeps its default. Error messages begin
/// with `scope`.
pub(crate) fn parse<C: Default>(
    scope: &str,
    rows: &[Parameter<C>],
    text: &str,
) -> Result<C, TextError> {
    let mut config = C::default();
    apply(rows, &mut config, text)
        .map_err(|error| TextError::Parameter { scope: scope.into(), error })?;
    Ok(config)
}

/// Multiplies a whole number by a fixed-point factor with 32 fractional bits, rounded to the
/// nearest.
#[inline]
pub(crate) const fn scale_q32(value: u64, factor: u64) -> u64 {
    ((value as u128 * factor as u128 + (1 << 31)) >> 32) as u64
}

/// Returns nanoseconds per byte at a rate in bytes a second, with 32 fractional bits; 0 for "no
/// limit" (rate 0).
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
            (Unit::Rate, "2600MB", 2_600_000_000),
            (Unit::Size, "32KiB", 32768),
            (Unit::Size, "375GB", 375_000_000_000),
            (Unit::Share, "7%", 70_000),
            (Unit::Share, "10ppm", 10),
            (Unit::Count, "12", 12),
            (Unit::Choice(&["fixed", "exp"]), "exp", 1),
        ] {
            assert_eq!(unit.parse(text), Ok(value), "{text}");
            assert_eq!(
                unit.parse(&unit.text(value)),
                Ok(value),
                "{text} printed as {}",
                unit.text(value)
            );
        }
        for (unit, text) in [
            (Unit::Time, "5"),
            (Unit::Time, "us"),
            (Unit::Rate, "5"),
            (Unit::Size, "99999999999TiB"),
        ] {
            let error = unit.parse(text).expect_err(text);
            assert!(
                matches!(error, ValueError::Quantity(_)) && error.hint().is_empty(),
                "{text}: {error}"
            );
        }
        for (unit, text, error) in [
            (Unit::Blocks, "512B", ValueError::NotBlocks),
            (Unit::Count, "1.5", ValueError::NotANumber),
            (Unit::Switch, "on", ValueError::UnknownWord),
            (Unit::Choice(&["fixed", "exp"]), "none", ValueError::UnknownWord),
        ] {
            assert_eq!(unit.parse(text), Err(error), "{text}");
        }
    }
}
