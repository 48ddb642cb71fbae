//! `io.cost.qos` and `io.cost.model`.

use elevon_core::control::io_cost::{Coefficients, Qos};
use elevon_core::units::Nanos;

use super::latency::micros;
use super::number::{Counts, kernel_number, percent, percent_text};
use super::tokens::pairs;
use super::{FileError, Line, Refusal, Setting};

/// The source of the parameters of io.cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostControl {
    /// The preset of the device; it discards values that the user set.
    Auto,
    /// The user.
    User,
}

impl CostControl {
    const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::User => "user",
        }
    }

    fn parse(text: &str) -> Result<Self, (Refusal, String)> {
        [Self::Auto, Self::User]
            .into_iter()
            .find(|control| control.name() == text)
            .ok_or_else(|| (Refusal::Invalid, "expected auto or user".to_owned()))
    }
}

/// A write to `io.cost.qos`. Values that are `None` keep their old values. Any parameter that is
/// set changes `ctrl` to user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostQos {
    /// True if io.cost controls the device.
    pub enable: Option<bool>,
    /// The source of the other parameters.
    pub ctrl: Option<CostControl>,
    /// Share of reads that must meet `rlat`, in hundredths of a percent, 0 to 10000; 0: reads are
    /// not checked.
    pub rpct: Option<u32>,
    /// Latency target of a read.
    pub rlat: Option<Nanos>,
    /// The same share for writes.
    pub wpct: Option<u32>,
    /// Latency target of a write.
    pub wlat: Option<Nanos>,
    /// Lowest rate of the device's clock, in hundredths of a percent, 100 to 1000000.
    pub min: Option<u32>,
    /// Highest rate of the device's clock, in hundredths of a percent.
    pub max: Option<u32>,
}

/// A write to `io.cost.model`. Values that are `None` keep their old values. Any coefficient that
/// is set changes `ctrl` to user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostModel {
    /// The source of the coefficients.
    pub ctrl: Option<CostControl>,
    /// True if the line says `model=linear`, the only model there is.
    pub linear: bool,
    /// Bytes a second of reads. In this and all following values, 0 leaves the part out of the
    /// cost.
    pub rbps: Option<u64>,
    /// 4 KiB reads a second, sequential.
    pub rseqiops: Option<u64>,
    /// 4 KiB reads a second, random.
    pub rrandiops: Option<u64>,
    /// Bytes a second of writes.
    pub wbps: Option<u64>,
    /// 4 KiB writes a second, sequential.
    pub wseqiops: Option<u64>,
    /// 4 KiB writes a second, random.
    pub wrandiops: Option<u64>,
}

const QOS_KEYS: [&str; 8] = ["enable", "ctrl", "rpct", "rlat", "wpct", "wlat", "min", "max"];
const MODEL_KEYS: [&str; 8] =
    ["ctrl", "model", "rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"];

pub(super) fn qos(line: &str) -> Result<Line<'_>, FileError> {
    let line = pairs(line, &QOS_KEYS)?;
    let mut qos = CostQos::default();
    let mut last = None;
    for (key, value, word) in line.pairs {
        last = Some(word);
        qos.set(key, value).map_err(|(refusal, message)| word.refused(refusal, message))?;
    }
    if let (Some(min), Some(max), Some(word)) = (qos.min, qos.max, last)
        && min > max
    {
        let message = format!("min={} is above max={}", percent_text(min), percent_text(max));
        return Err(word.refused(Refusal::Invalid, message));
    }
    Ok(Line { device: line.device, setting: Setting::CostQos(qos) })
}

impl CostQos {
    fn set(&mut self, key: &str, value: &str) -> Result<(), (Refusal, String)> {
        let share = || {
            let range = || (Refusal::Invalid, "out of range 0.00 to 100.00 %".to_owned());
            percent(value)
                .and_then(|share| if share <= 10_000 { Ok(Some(share)) } else { Err(range()) })
        };
        let rate = || percent(value).map(|rate| Some(rate.clamp(100, 1_000_000)));
        let time = || micros(&format!("{key}="), value);
        match key {
            "enable" => {
                let bad = || (Refusal::Invalid, "expected 0 or 1".to_owned());
                self.enable =
                    Some(["0", "1"].iter().position(|word| *word == value).ok_or_else(bad)? == 1);
            }
            "ctrl" => self.ctrl = Some(CostControl::parse(value)?),
            "rpct" => self.rpct = share()?,
            "rlat" => self.rlat = time()?,
            "wpct" => self.wpct = share()?,
            "wlat" => self.wlat = time()?,
            "min" => self.min = rate()?,
            "max" => self.max = rate()?,
            _ => unreachable!("only these keys pass"),
        }
        Ok(())
    }

    /// Returns `qos` with these values applied. The caller handles `ctrl=auto`, which restores the
    /// presets first.
    pub fn over(&self, qos: Qos) -> Qos {
        Qos {
            enable: self.enable.unwrap_or(qos.enable),
            rpct: self.rpct.unwrap_or(qos.rpct),
            rlat: self.rlat.unwrap_or(qos.rlat),
            wpct: self.wpct.unwrap_or(qos.wpct),
            wlat: self.wlat.unwrap_or(qos.wlat),
            min: self.min.unwrap_or(qos.min),
            max: self.max.unwrap_or(qos.max),
        }
    }

    /// Returns true if it sets a value other than `enable` and `ctrl`, which changes `ctrl` to
    /// user.
    pub fn is_of_user(&self) -> bool {
        Self { enable: None, ctrl: None, ..*self } != Self::default()
    }

    pub(super) fn text(&self) -> String {
        let share = |share: Option<u32>| share.map(percent_text);
        let time = |time: Option<Nanos>| time.map(|time| time.get().div_ceil(1_000).to_string());
        let values = [
            self.enable.map(|on| u8::from(on).to_string()),
            self.ctrl.map(|control| control.name().to_owned()),
            share(self.rpct),
            time(self.rlat),
            share(self.wpct),
            time(self.wlat),
            share(self.min),
            share(self.max),
        ];
        join(QOS_KEYS, values)
    }
}

pub(super) fn model(line: &str) -> Result<Line<'_>, FileError> {
    let line = pairs(line, &MODEL_KEYS)?;
    let mut model = CostModel::default();
    for (key, value, word) in line.pairs {
        model.set(key, value).map_err(|(refusal, message)| word.refused(refusal, message))?;
    }
    Ok(Line { device: line.device, setting: Setting::CostModel(model) })
}

impl CostModel {
    fn set(&mut self, key: &str, value: &str) -> Result<(), (Refusal, String)> {
        let coefficient = |counts| kernel_number(&format!("{key}="), value, counts).map(Some);
        let (bytes, ios) = (Counts::Bytes("bytes/s"), Counts::Ios("I/Os a second"));
        match key {
            "ctrl" => self.ctrl = Some(CostControl::parse(value)?),
            "model" if value == "linear" => self.linear = true,
            "model" => return Err((Refusal::Invalid, "there is one model: linear".to_owned())),
            "rbps" => self.rbps = coefficient(bytes)?,
            "rseqiops" => self.rseqiops = coefficient(ios)?,
            "rrandiops" => self.rrandiops = coefficient(ios)?,
            "wbps" => self.wbps = coefficient(bytes)?,
            "wseqiops" => self.wseqiops = coefficient(ios)?,
            "wrandiops" => self.wrandiops = coefficient(ios)?,
            _ => unreachable!("only these keys pass"),
        }
        Ok(())
    }

    /// Returns `model` with these coefficients applied. The caller handles `ctrl=auto`, which
    /// restores the presets first.
    pub fn over(&self, model: Coefficients) -> Coefficients {
        Coefficients {
            rbps: self.rbps.unwrap_or(model.rbps),
            rseqiops: self.rseqiops.unwrap_or(model.rseqiops),
            rrandiops: self.rrandiops.unwrap_or(model.rrandiops),
            wbps: self.wbps.unwrap_or(model.wbps),
            wseqiops: self.wseqiops.unwrap_or(model.wseqiops),
            wrandiops: self.wrandiops.unwrap_or(model.wrandiops),
        }
    }

    pub(super) fn text(&self) -> String {
        let number = |n: Option<u64>| n.map(|n| n.to_string());
        let values = [
            self.ctrl.map(|control| control.name().to_owned()),
            self.linear.then(|| "linear".to_owned()),
            number(self.rbps),
            number(self.rseqiops),
            number(self.rrandiops),
            number(self.wbps),
            number(self.wseqiops),
            number(self.wrandiops),
        ];
        join(MODEL_KEYS, values)
    }
}

fn join(keys: [&str; 8], values: [Option<String>; 8]) -> String {
    let pairs =
        keys.into_iter().zip(values).filter_map(|(key, value)| Some(format!("{key}={}", value?)));
    pairs.collect::<Vec<_>>().join(" ")
}
