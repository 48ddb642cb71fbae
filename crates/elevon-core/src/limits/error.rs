//! Why a set of limits was refused. The messages say what would be right.

extern crate alloc;
use alloc::string::String;
use core::fmt;

use super::SYSFS;

/// An invalid limit. `name` is the sysfs name, values are in its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitsError {
    /// No limit has this name.
    Unknown {
        /// The name that was given.
        name: String,
    },
    /// The limit is derived from others and cannot be set.
    Derived {
        /// The limit.
        name: &'static str,
    },
    /// The limit is shown, but setting it has no effect.
    NoEffect {
        /// The limit.
        name: &'static str,
        /// Why it has no effect.
        reason: &'static str,
    },
    /// The value is too small or too large.
    OutOfRange {
        /// The limit.
        name: &'static str,
        /// Its unit.
        unit: &'static str,
        /// The value that was given.
        value: u64,
        /// The smallest valid value.
        least: u64,
        /// The largest valid value; `u64::MAX` if there is none.
        most: u64,
    },
    /// The value is not a power of two, or out of range; the unit is bytes.
    NotPowerOfTwo {
        /// The limit.
        name: &'static str,
        /// The value that was given.
        value: u64,
        /// The smallest valid value.
        least: u64,
        /// The largest valid value.
        most: u64,
    },
    /// The value is not a power of two minus one, or out of range.
    NotMask {
        /// The limit.
        name: &'static str,
        /// The value that was given.
        value: u64,
        /// The smallest valid value.
        least: u64,
        /// The largest valid value; `u64::MAX` if there is none.
        most: u64,
    },
    /// The value is not a multiple of the required number.
    NotMultiple {
        /// The limit.
        name: &'static str,
        /// Its unit.
        unit: &'static str,
        /// The value that was given.
        value: u64,
        /// The number of which every valid value is a multiple.
        of: u64,
    },
    /// A limit of zones was set on a device without zones.
    NotZoned {
        /// The limit.
        name: &'static str,
        /// The value that was given.
        value: u64,
    },
}

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => {
                write!(f, "{name}: no queue limit has this name; there are:")?;
                SYSFS
                    .iter()
                    .filter(|limit| limit.is_settable())
                    .try_for_each(|limit| write!(f, " {}", limit.name))
            }
            Self::Derived { name } => {
                write!(f, "{name}: follows from other limits and cannot be set")
            }
            Self::NoEffect { name, reason } => write!(f, "{name}: cannot be set: {reason}"),
            Self::OutOfRange { name, unit, value, least, most } => {
                write!(f, "{name}={value}: out of range; must be ")?;
                write_range(f, *least, *most)?;
                write!(f, "{}{unit}", if unit.is_empty() { "" } else { " " })
            }
            Self::NotPowerOfTwo { name, value, least, most } => {
                write!(f, "{name}={value}: must be a power of two, ")?;
                write_range(f, *least, *most)?;
                f.write_str(" bytes")
            }
            Self::NotMask { name, value, least, most } => {
                write!(f, "{name}={value}: must be a power of two minus one (such as 4095), ")?;
                write_range(f, *least, *most)
            }
            Self::NotMultiple { name, unit, value, of } => {
                let below = value / of * of;
                write!(
                    f,
                    "{name}={value}: must be a multiple of {of} {unit}, such as {below} or {}",
                    below + of
                )
            }
            Self::NotZoned { name, value } => {
                write!(f, "{name}={value}: the device has no zones; must be 0")
            }
        }
    }
}

fn write_range(f: &mut fmt::Formatter<'_>, least: u64, most: u64) -> fmt::Result {
    match most {
        u64::MAX => write!(f, "at least {least}"),
        _ => write!(f, "{least} to {most}"),
    }
}

impl core::error::Error for LimitsError {}
