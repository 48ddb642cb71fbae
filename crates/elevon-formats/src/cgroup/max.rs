//! `io.max`, and v1's `blkio.throttle.*`.

use super::number::{Counts, kernel_number};
use super::tokens::{pairs, refused, tokens};
use super::{FileError, Line, Refusal, Setting, device};

/// The value of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// `max`.
    Unlimited,
    /// Bytes or I/Os a second, never 0.
    At(u64),
}

impl Cap {
    /// Returns the rate; `None` for no limit.
    pub const fn value(self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::At(rate) => Some(rate),
        }
    }

    /// Returns a limit of I/Os as the kernel stores it: in 32 bits, where the largest number means
    /// no limit.
    const fn of_ios(rate: u64) -> Self {
        if rate >= u32::MAX as u64 { Self::Unlimited } else { Self::At(rate) }
    }
}

/// One of the four limits of `io.max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitKey {
    /// Bytes a second of reads.
    Rbps,
    /// Bytes a second of writes.
    Wbps,
    /// Reads a second.
    Riops,
    /// Writes a second.
    Wiops,
}

impl LimitKey {
    /// All limits, in the order in which `io.max` shows them.
    pub const ALL: [Self; 4] = [Self::Rbps, Self::Wbps, Self::Riops, Self::Wiops];

    /// Returns its name in `io.max`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rbps => "rbps",
            Self::Wbps => "wbps",
            Self::Riops => "riops",
            Self::Wiops => "wiops",
        }
    }

    const fn counts(self) -> Counts {
        match self {
            Self::Rbps | Self::Wbps => Counts::Bytes("bytes/s"),
            Self::Riops | Self::Wiops => Counts::Ios("I/Os a second"),
        }
    }

    const fn cap(self, rate: u64) -> Cap {
        match self {
            Self::Rbps | Self::Wbps => Cap::At(rate),
            Self::Riops | Self::Wiops => Cap::of_ios(rate),
        }
    }
}

/// A write to `io.max`. Values that are `None` keep their old values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoMax {
    /// Bytes a second of reads.
    pub rbps: Option<Cap>,
    /// Bytes a second of writes.
    pub wbps: Option<Cap>,
    /// Reads a second.
    pub riops: Option<Cap>,
    /// Writes a second.
    pub wiops: Option<Cap>,
}

impl IoMax {
    /// Returns what is in force after this was written where `old` was.
    pub fn over(&self, old: Self) -> Self {
        Self {
            rbps: self.rbps.or(old.rbps),
            wbps: self.wbps.or(old.wbps),
            riops: self.riops.or(old.riops),
            wiops: self.wiops.or(old.wiops),
        }
    }

    /// Returns the limit of a key.
    pub const fn cap(&self, key: LimitKey) -> Option<Cap> {
        match key {
            LimitKey::Rbps => self.rbps,
            LimitKey::Wbps => self.wbps,
            LimitKey::Riops => self.riops,
            LimitKey::Wiops => self.wiops,
        }
    }

    const fn cap_mut(&mut self, key: LimitKey) -> &mut Option<Cap> {
        match key {
            LimitKey::Rbps => &mut self.rbps,
            LimitKey::Wbps => &mut self.wbps,
            LimitKey::Riops => &mut self.riops,
            LimitKey::Wiops => &mut self.wiops,
        }
    }

    /// Returns `rbps=N wbps=max ...` for the limits that are set.
    pub(super) fn text(&self) -> String {
        let pairs = LimitKey::ALL.into_iter().filter_map(|key| {
            Some(match self.cap(key)? {
                Cap::Unlimited => format!("{}=max", key.name()),
                Cap::At(rate) => format!("{}={rate}", key.name()),
            })
        });
        pairs.collect::<Vec<_>>().join(" ")
    }
}

pub(super) fn parse(line: &str) -> Result<Line<'_>, FileError> {
    let line = pairs(line, &LimitKey::ALL.map(LimitKey::name))?;
    let mut max = IoMax::default();
    for (name, value, word) in line.pairs {
        let Some(key) = LimitKey::ALL.into_iter().find(|key| key.name() == name) else {
            unreachable!("only these keys pass")
        };
        let cap = if value == "max" {
            Cap::Unlimited
        } else {
            let write = format!("{name}=");
            let rate =
                kernel_number(&write, value, key.counts()).map_err(|(refusal, message)| {
                    let or = if refusal == Refusal::Invalid { ", or max" } else { "" };
                    word.refused(refusal, message + or)
                })?;
            match rate {
                0 => {
                    return Err(word.refused(
                        Refusal::Range,
                        format!("0 is no limit that can be set; write {name}=max to lift it"),
                    ));
                }
                1 => return Err(word.refused(Refusal::Invalid, "the smallest limit is 2")),
                rate => key.cap(rate),
            }
        };
        *max.cap_mut(key) = Some(cap);
    }
    Ok(Line { device: line.device, setting: Setting::IoMax(max) })
}

/// Parses `[DEV] N` of v1; 0 removes the limit.
pub(super) fn parse_flat(line: &str, key: LimitKey) -> Result<Line<'_>, FileError> {
    let words = tokens(line);
    let (device, value) = match words.as_slice() {
        [value] => (None, value),
        [device, value] => (Some(device), value),
        _ => return Err(refused(line, "expected DEV N, such as 8:0 1048576")),
    };
    if let Some(device) = device {
        device::check(device)?;
    }
    let rate = kernel_number("", value.text, key.counts()).map_err(|(refusal, message)| {
        let or = if refusal == Refusal::Invalid { "; 0 lifts the limit" } else { "" };
        value.refused(refusal, message + or)
    })?;
    let cap = if rate == 0 { Cap::Unlimited } else { key.cap(rate) };
    Ok(Line { device: device.map(|word| word.text), setting: Setting::Flat(key, cap) })
}
