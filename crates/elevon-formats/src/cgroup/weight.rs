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

/// The largest weight under BFQ.
pub const BFQ_WEIGHT_MAX: u16 = 1_000;

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
                let weight =
                    weight.map_or_else(|| "default".to_owned(), |weight| weight.to_string());
                // The weight of a device must follow the name of a device.
                format!("{} {weight}", device.unwrap_or("device"))
            }
        }
    }
}

/// The weights of a tenant, after any number of settings were applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Under BFQ and `aileron`, 1 to [`BFQ_WEIGHT_MAX`].
    pub bfq: u16,
    /// Under io.cost.
    pub cost: CostWeight,
}

/// The weight of a tenant under io.cost: a default, and one of the device, which wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostWeight {
    default: u16,
    device: Option<u16>,
}

impl CostWeight {
    /// Returns the weight in force, 1 to 10000.
    pub const fn effective(self) -> u16 {
        match self.device {
            Some(weight) => weight,
            None => self.default,
        }
    }
}

impl Default for Weights {
    fn default() -> Self {
        Self { bfq: DEFAULT_WEIGHT, cost: CostWeight { default: DEFAULT_WEIGHT, device: None } }
    }
}

impl Weights {
    /// Returns the weights after settings were applied in order.
    pub fn of(settings: &[Setting]) -> Self {
        let mut weights = Self::default();
        settings.iter().for_each(|setting| weights.take(setting));
        weights
    }

    /// Applies a setting; one that is no weight has no effect.
    ///
    /// In the kernel a default for BFQ also replaces the weights of devices, and `DEV default`
    /// keeps the weight in force. So on one device the number that was written last holds.
    pub const fn take(&mut self, setting: &Setting) {
        match *setting {
            Setting::BfqWeight(WeightFile::Default(weight) | WeightFile::Device(Some(weight))) => {
                self.bfq = weight;
            }
            Setting::IoWeight(WeightFile::Default(weight)) => self.cost.default = weight,
            Setting::IoWeight(WeightFile::Device(weight)) => self.cost.device = weight,
            Setting::Weight(weight) => {
                self.bfq = if weight < BFQ_WEIGHT_MAX { weight } else { BFQ_WEIGHT_MAX };
                self.cost.default = weight;
            }
            Setting::BfqWeight(WeightFile::Device(None))
            | Setting::IoMax(_)
            | Setting::Flat(..)
            | Setting::Class(_)
            | Setting::Latency(_)
            | Setting::CostQos(_)
            | Setting::CostModel(_)
            | Setting::Bandwidth(_)
            | Setting::Iops(_)
            | Setting::Limit(_)
            | Setting::Reserve(_) => {}
        }
    }
}

/// Parses `N`: `blkio.bfq.weight` of v1 is one number.
pub(super) fn parse_number(line: &str) -> Result<Line<'_>, FileError> {
    match tokens(line).as_slice() {
        [_] => parse(line, BFQ_WEIGHT_MAX, Setting::BfqWeight),
        _ => Err(refused(
            line,
            "expected a weight alone; blkio.bfq.weight_device takes `DEV WEIGHT`",
        )),
    }
}

/// Parses `N`, `default N`, `DEV N`, `DEV default`.
pub(super) fn parse(
    line: &str,
    most: u16,
    setting: fn(WeightFile) -> Setting,
) -> Result<Line<'_>, FileError> {
    let words = tokens(line);
    let (device, value) = match words.as_slice() {
        [value] => (None, value),
        [device, value] => (Some(device).filter(|word| word.text != "default"), value),
        _ => {
            return Err(refused(
                line,
                "expected a weight, `default WEIGHT`, `DEV WEIGHT` or `DEV default`",
            ));
        }
    };
    if let Some(device) = device {
        device::check(device)?;
    }
    let weight = if device.is_some() && value.text == "default" {
        None
    } else {
        let weight = kernel_number("", value.text, Counts::Plain("as weight")).map_err(
            |(refusal, message)| match refusal {
                Refusal::Misread => value.refused(refusal, message),
                Refusal::Invalid | Refusal::Range | Refusal::NoDevice => {
                    value.refused(Refusal::Invalid, format!("expected a weight from 1 to {most}"))
                }
            },
        )?;
        let out = || value.refused(Refusal::Invalid, format!("out of range 1 to {most}"));
        Some(
            u16::try_from(weight)
                .ok()
                .filter(|weight| (1..=most).contains(weight))
                .ok_or_else(out)?,
        )
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
    let policy =
        parse_class(word, rules).map_err(|message| refused(line, format!("{word}: {message}")))?;
    Ok(Line { device: None, setting: Setting::Class(policy) })
}

/// Returns the policy of a word, under a kernel's rules.
pub(crate) fn parse_class(word: &str, rules: &Rules) -> Result<PrioPolicy, Complaint> {
    let known = || {
        PrioPolicy::ALL.into_iter().filter(|policy| policy.is_known(rules)).map(PrioPolicy::name)
    };
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
