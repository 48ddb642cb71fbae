//! A setting of a configuration as one row: its key, its valid values, its default, and how it is
//! read and set.
//!
//! All code that sets, lists, reports or documents settings reads the same rows, so that there is
//! only one list of keys. The tables are [`crate::stack::config::SETTINGS`] and that of the page
//! cache (`elevon-cache`); [`crate::limits::SYSFS`] is the same for queue limits.
//!
//! For configuration and reports only. Cost: O(rows) for each look-up of a key.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::limits::LimitsError;

/// One setting of the configuration `C`.
#[derive(Debug)]
pub struct SettingRow<C: 'static> {
    /// The key.
    pub key: &'static str,
    /// One-line description.
    pub help: &'static str,
    /// What the default depends on, if it is not the same in every configuration.
    pub follows: Option<&'static str>,
    /// When a report of the effective configuration has the row.
    pub reported: Reported<C>,
    /// The valid values, and how they are read and set.
    pub value: SettingValue<C>,
}

/// When a report of the effective configuration has a row.
#[derive(Debug)]
pub enum Reported<C: 'static> {
    /// In every report.
    Always,
    /// If the value is not the default.
    IfChanged,
    /// If this function returns true for the configuration.
    If(fn(&C) -> bool),
    /// Never: the report shows the value elsewhere, as part of the device.
    WithDevice,
}

/// The valid values of a setting, and how they are read and set in the configuration `C`.
#[derive(Debug)]
pub enum SettingValue<C: 'static> {
    /// A whole number.
    Number {
        /// The unit; empty for a plain number.
        unit: &'static str,
        /// The smallest and the largest value.
        range: (u64, u64),
        /// Larger numbers are taken, too: `set` puts another in their place, as Linux does.
        takes_more: bool,
        /// Returns the value in force.
        get: fn(&C) -> u64,
        /// Sets a value that is in the range. Fails with a text that says what would be right if
        /// the rest of the configuration does not allow the setting.
        set: fn(&mut C, u64) -> Result<(), &'static str>,
    },
    /// 0 or 1.
    Switch {
        /// Returns the value in force.
        get: fn(&C) -> bool,
        /// Sets the value.
        set: fn(&mut C, bool),
    },
    /// A text with a grammar of its own.
    Text {
        /// The grammar.
        takes: &'static str,
        /// Returns the value in force.
        get: fn(&C) -> String,
        /// Sets the value from text. Fails with a text that says what would be right.
        set: fn(&mut C, &str) -> Result<(), &'static str>,
    },
    /// One of several words.
    Choice {
        /// The words.
        names: &'static [&'static str],
        /// Returns the word in force.
        get: fn(&C) -> &'static str,
        /// Sets the value from text. Returns `None` if the text is not one of the words.
        set: fn(&mut C, &str) -> Option<()>,
    },
}

/// A row as text, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingLine {
    /// The key.
    pub key: &'static str,
    /// The words, or the range with its unit.
    pub takes: String,
    /// The default, or what it depends on.
    pub default: String,
    /// What the setting means.
    pub help: &'static str,
}

impl<C> SettingRow<C> {
    /// Returns the value in force, as text that [`Self::set`] accepts.
    pub fn text(&self, config: &C) -> String {
        match self.value {
            SettingValue::Number { get, .. } => get(config).to_string(),
            SettingValue::Switch { get, .. } => u8::from(get(config)).to_string(),
            SettingValue::Text { get, .. } => get(config),
            SettingValue::Choice { get, .. } => get(config).to_string(),
        }
    }

    /// Sets the value from text.
    ///
    /// # Errors
    /// The text is not a valid value. Nothing is changed in this case.
    pub fn set(&self, config: &mut C, text: &str) -> Result<(), SettingError> {
        let bad =
            |want| SettingError::Value { key: self.key.to_string(), value: text.to_string(), want };
        match self.value {
            SettingValue::Number { range: (least, most), takes_more, set, .. } => {
                let most = if takes_more { u64::MAX } else { most };
                let number = text.parse::<u64>().ok().filter(|n| (least..=most).contains(n));
                let number = number.ok_or_else(|| bad(self.expected()))?;
                set(config, number).map_err(|want| bad(want.to_string()))
            }
            SettingValue::Switch { set, .. } => {
                let is_on = ["0", "1"]
                    .iter()
                    .position(|word| *word == text)
                    .ok_or_else(|| bad(self.expected()))?;
                set(config, is_on == 1);
                Ok(())
            }
            SettingValue::Text { set, .. } => {
                set(config, text).map_err(|want| bad(want.to_string()))
            }
            SettingValue::Choice { set, .. } => {
                set(config, text).ok_or_else(|| bad(self.expected()))
            }
        }
    }

    /// Returns the description of a valid value, for an error message.
    fn expected(&self) -> String {
        match self.value {
            SettingValue::Number { unit, range: (least, most), .. } => {
                let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
                format!("a whole number from {least} to {most}{unit}")
            }
            SettingValue::Switch { .. } => "0 or 1".to_string(),
            SettingValue::Text { takes, .. } => takes.to_string(),
            SettingValue::Choice { names, .. } => match names {
                [first @ .., last] if !first.is_empty() => {
                    format!("{} or {last}", first.join(", "))
                }
                _ => names.concat(),
            },
        }
    }

    /// Returns the row as text. `default` is a configuration in which nothing was set.
    pub fn line(&self, default: &C) -> SettingLine {
        let takes = match self.value {
            SettingValue::Number { unit, range: (least, most), .. } => {
                format!("{least}..{most} {unit}").trim_end().to_string()
            }
            SettingValue::Switch { .. } => "0|1".to_string(),
            SettingValue::Text { takes, .. } => takes.to_string(),
            SettingValue::Choice { names, .. } => names.join("|"),
        };
        let default = self.follows.map_or_else(|| self.text(default), ToString::to_string);
        SettingLine { key: self.key, takes, default, help: self.help }
    }
}

/// Returns the row with a key.
pub fn find<C>(rows: &'static [SettingRow<C>], key: &str) -> Option<&'static SettingRow<C>> {
    rows.iter().find(|row| row.key == key)
}

/// Returns the rows of [`Reported::Always`] and [`Reported::If`] with their values in force, in the
/// order of the table.
pub fn reported<C>(
    rows: &'static [SettingRow<C>],
    config: &C,
) -> impl Iterator<Item = (&'static str, String)> {
    let is_reported = |row: &&SettingRow<C>| match row.reported {
        Reported::Always => true,
        Reported::If(holds) => holds(config),
        Reported::IfChanged | Reported::WithDevice => false,
    };
    rows.iter().filter(is_reported).map(|row| (row.key, row.text(config)))
}

/// Returns the rows of [`Reported::IfChanged`] whose values differ from those of `default`, in the
/// order of the table.
pub fn changed<C>(
    rows: &'static [SettingRow<C>],
    config: &C,
    default: &C,
) -> Vec<(&'static str, String)> {
    let rows = rows.iter().filter(|row| matches!(row.reported, Reported::IfChanged));
    let texts = rows.map(|row| (row.key, row.text(config), row.text(default)));
    texts.filter(|(_, text, usual)| text != usual).map(|(key, text, _)| (key, text)).collect()
}

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// There is no such key.
    Key {
        /// The key as given.
        key: String,
    },
    /// The value is not valid for the key.
    Value {
        /// The key.
        key: String,
        /// The value as given.
        value: String,
        /// What would be right.
        want: String,
    },
    /// A kernel's queue has the setting, but the stack does not model it.
    NotModelled {
        /// The key.
        key: String,
        /// Why it is not modelled.
        reason: &'static str,
    },
    /// The queue limits would not be valid.
    Limit(LimitsError),
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { key } => write!(f, "{key}: no such setting"),
            Self::Value { key, value, want } => write!(f, "{key}={value}: expected {want}"),
            Self::NotModelled { key, reason } => write!(f, "{key}: not modelled: {reason}"),
            Self::Limit(error) => error.fmt(f),
        }
    }
}
impl core::error::Error for SettingError {}

/// The names of all values of a type that has `ALL` and `const fn name`.
#[macro_export]
macro_rules! setting_names {
    ($of:ty) => {{
        const NAMES: [&str; <$of>::ALL.len()] = {
            let mut names = [""; <$of>::ALL.len()];
            let mut at = 0;
            while at < names.len() {
                names[at] = <$of>::ALL[at].name();
                at += 1;
            }
            names
        };
        &NAMES
    }};
}
