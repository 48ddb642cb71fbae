//! Weights, and the priority class of a tenant.

use elevon_core::ioprio::PrioPolicy;
use elevon_core::kernel::Rules;
use elevon_core::nearest::did_you_mean;

use super::number::{Counts, kernel_number};
use super::tokens::{refused, tokens};
use super::{FileError, Line, Refusal, Setting, device};
use crate::diagnostic::{Complaint, Problem};

/// The weight of a tenant without a weight of its own, as in Linux.
pub const DEFAULT_WEIGHT: u16 = 100;

/// A write to a file of weights. A tenant has a default weight, and may have another on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightFile {
    /// The default for all devices without a weight of their own.
    Default(u16),
    /// The weight on the device; `None` removes it.
    Device(Option<u16>),
}

impl WeightFile {
    pub(super) fn text(self, device: Option<&str>) -> String {
        match self {
            Self::Default(weight) => format!("default {weight}"),
            Self::Device(weight) => {
                let weight = weight.map_or_else(|| "default".to_owned(), |weight| weight.to_string());
                // The weight of a device must follow the name of a device.
                format!("{} {weight}", device.unwrap_or("device"))
            }
        }
    }
}

/// The weight of a tenant under one policy, after any number of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    default: u16,
    device: Option<u16>,
}

impl Default for Weights {
    fn default() -> Self {
        Self { default: DEFAULT_WEIGHT, device: None }
    }
}

impl Weights {
    /// Applies a write to the tenant's file.
    pub const fn set(&mut self, file: WeightFile) {
        match file {
            WeightFile::Default(weight) => self.default = weight,
            WeightFile::Device(weight) => self.device = weight,
        }
    }

    /// Returns the weight in force.
    pub const fn effective(self) -> u16 {
        match self.device {
            Some(weight) => weight,
            None => self.default,
        }
    }
}

/// Parses `N`, `default N`, `DEV N`, `DEV default`.
pub(super) fn parse(line: &str, most: u16, setting: fn(WeightFile) -> Setting) -> Result<Line<'_>, FileError> {
    let words = tokens(line);
    let (device, value) = match words.as_slice() {
        [value] => (None, value),
        [device, value] => (Some(device).filter(|word| word.text != "default"), value),
        _ => return Err(refused(line, "expected a weight, `default WEIGHT`, `DEV WEIGHT` or `DEV default`")),
    };
    if let Some(device) = device {
        device::check(device)?;
    }
    let weight = if device.is_some() && value.text == "default" {
        None
    } else {
        let weight =
            kernel_number("", value.text, Counts::Plain("as weight")).map_err(|(refusal, message)| match refusal {
                Refusal::Misread => value.refused(refusal, message),
                Refusal::Invalid | Refusal::Range | Refusal::NoDevice => {
                    value.refused(Refusal::Invalid, format!("expected a weight from 1 to {most}"))
                }
            })?;
        let out = || value.refused(Refusal::Invalid, format!("out of range 1 to {most}"));
        Some(u16::try_from(weight).ok().filter(|weight| (1..=most).contains(weight)).ok_or_else(out)?)
    };
    let file = match (device, weight) {
        (None, Some(weight)) => WeightFile::Default(weight),
        (_, weight) => WeightFile::Device(weight),
    };
    Ok(Line { device: device.map(|word| word.text), setting: setting(file) })
}

/// Parses `io.prio.class`.
pub(super) fn class<'a>(line: &'a str, rules: &Rules) -> Result<Line<'a>, FileError> {
    let word = line.trim_matches([' ', '\t']);
    let policy = parse_class(word, rules).map_err(|message| refused(line, format!("{word}: {message}")))?;
    Ok(Line { device: None, setting: Setting::Class(policy) })
}

/// Returns the policy of a word, under a kernel's rules.
pub(crate) fn parse_class(word: &str, rules: &Rules) -> Result<PrioPolicy, Complaint> {
    let known = || PrioPolicy::ALL.into_iter().filter(|policy| policy.is_known(rules)).map(PrioPolicy::name);
    match PrioPolicy::from_name(word) {
        Some(policy) if policy.is_known(rules) => Ok(policy),
        Some(_) => Err(Problem::Unsupported.because(format!(
            "this kernel does not know it (6.5 and later do); there are {}",
            known().collect::<Vec<_>>().join(", ")
        ))),
        None => {
            let meant = did_you_mean(word, known());
            let known = known().collect::<Vec<_>>().join(", ");
            Err(Problem::NoChoice.because(format!("no such policy{meant}; there are {known}")))
        }
    }
}
