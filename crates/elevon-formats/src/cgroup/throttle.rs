//! io-throttle's `blockio.bandwidth-max` and `blockio.iops-max`: `DEV:LIMIT:STRATEGY:BUCKET`.

use elevon_core::control::io_throttle::{Limit, Policy};

use super::tokens::{Token, refused};
use super::{FileError, Line, Refusal, Setting, device};
use crate::quantity::{self, Short};
use elevon_core::units::Bytes;

/// Parses `[DEV:]0`, `[DEV:]LIMIT:0`, `[DEV:]LIMIT:1[:BUCKET]`. A first field that starts with a
/// digit is the limit.
pub(super) fn parse(line: &str, setting: fn(Option<Limit>) -> Setting) -> Result<Line<'_>, FileError> {
    let body = line.trim_matches([' ', '\t']);
    let lead = line.len() - line.trim_start_matches([' ', '\t']).len();
    let mut at = lead;
    let mut fields: Vec<Token<'_>> = Vec::new();
    for text in body.split(':') {
        fields.push(Token { text, at });
        at += text.len() + 1;
    }
    let is_number = |word: &Token<'_>| word.text.starts_with(|c: char| c.is_ascii_digit());
    let device = match fields.as_slice() {
        [first, ..] if !is_number(first) => Some(fields.remove(0)),
        _ => None,
    };
    if fields.len() > 3 {
        let message = "expected [DEV:]LIMIT:STRATEGY[:BUCKET], where DEV is a path such as /dev/sda";
        return Err(refused(line, format!("{body}: {message}")));
    }
    if let Some(device) = &device {
        device::check(device)?;
    }
    let amount = |word: &Token<'_>, what: &str| {
        let bytes = quantity::size(word.text, Short::Decimal).map(Bytes::get);
        bytes.ok().filter(|_| !word.text.ends_with('B')).ok_or_else(|| {
            let message =
                format!("expected {what}: a whole number, or one with K, M, G, T (powers of 1000) or Ki, Mi, Gi, Ti");
            word.refused(Refusal::Invalid, message)
        })
    };
    let limit = match fields.first() {
        Some(word) => amount(word, "a limit")?,
        None => return Err(refused(line, format!("{body}: expected a limit after the device; 0 deletes the rule"))),
    };
    let rule = match (limit, fields.get(1), fields.get(2)) {
        (0, _, _) => None,
        (_, None, _) => {
            return Err(refused(
                line,
                format!("{body}: expected a strategy after the limit: {body}:0 leaky bucket, {body}:1 token bucket"),
            ));
        }
        (limit, Some(strategy), bucket) => {
            let policy = match (strategy.text, bucket) {
                ("0", None) => Policy::Leaky,
                ("0", Some(word)) => {
                    return Err(word.refused(Refusal::Invalid, "a leaky bucket (strategy 0) has no size; leave it out"));
                }
                ("1", None) => Policy::Token { bucket: limit },
                ("1", Some(word)) => match amount(word, "a bucket")? {
                    0 => {
                        return Err(word
                            .refused(Refusal::Invalid, "a bucket of 0 lets nothing pass; leave it out for the limit"));
                    }
                    bucket => Policy::Token { bucket },
                },
                _ => {
                    return Err(
                        strategy.refused(Refusal::Invalid, "expected strategy 0 (leaky bucket) or 1 (token bucket)")
                    );
                }
            };
            Some(Limit { rate: limit, policy })
        }
    };
    Ok(Line { device: device.map(|word| word.text), setting: setting(rule) })
}

pub(super) fn text(rule: Option<Limit>, device: Option<&str>) -> String {
    let rule = match rule {
        None => "0".to_owned(),
        Some(Limit { rate, policy: Policy::Leaky }) => format!("{rate}:0"),
        Some(Limit { rate, policy: Policy::Token { bucket } }) => format!("{rate}:1:{bucket}"),
    };
    device.map_or_else(|| rule.clone(), |device| format!("{device}:{rule}"))
}
