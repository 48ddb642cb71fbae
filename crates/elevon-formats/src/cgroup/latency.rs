//! `io.latency`.

use elevon_core::units::Nanos;

use super::number::{Counts, kernel_number};
use super::tokens::pairs;
use super::{FileError, Line, Refusal, Setting};

pub(super) fn parse(line: &str) -> Result<Line<'_>, FileError> {
    let line = pairs(line, &["target"])?;
    let mut target = None;
    for (_, value, word) in line.pairs {
        target = match value {
            "max" => None,
            _ => micros("target=", value)
                .map_err(|(refusal, message)| word.refused(refusal, message))?,
        }
        .filter(|target| !target.is_zero());
    }
    Ok(Line { device: line.device, setting: Setting::Latency(target) })
}

/// Parses a number of microseconds.
pub(super) fn micros(key: &str, text: &str) -> Result<Option<Nanos>, (Refusal, String)> {
    let us = kernel_number(key, text, Counts::Plain("us"))?;
    let most = u64::MAX / 1_000;
    us.checked_mul(1_000)
        .map(|ns| Some(Nanos::new(ns)))
        .ok_or((Refusal::Range, format!("more than {most} us")))
}

pub(super) fn text(target: Option<Nanos>) -> String {
    target.map_or_else(
        || "target=max".to_owned(),
        |target| format!("target={}", target.get().div_ceil(1_000)),
    )
}
