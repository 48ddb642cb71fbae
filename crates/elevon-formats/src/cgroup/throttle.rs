//! io-throttle's `blockio.bandwidth-max` and `blockio.iops-max`: `DEV:LIMIT:STRATEGY:BUCKET`.

use elevon_core::control::io_throttle::{Limit, Policy};

use super::tokens::{Token, refused};
use super::{FileError, Line, Refusal, Setting, device};
use crate::quantity::{self, Short};
use elevon_core::units::Bytes;

/// What a line is told that seems to name a device in another way.
const PATH: &str = "where DEV is a path such as /dev/sda";

/// Parses `[DEV:]0`, `[DEV:]LIMIT:0`, `[DEV:]LIMIT:1[:BUCKET]`. A device is a path, as in the
/// kernel: a bare name could as well be a mistyped limit.
pub(super) fn parse(
    line: &str,
    setting: fn(Option<Limit>) -> Setting,
) -> Result<Line<'_>, FileError> {
    let body = line.trim_matches([' ', '\t']);
    let at = |text: &str| text.as_ptr() as usize - line.as_ptr() as usize;
    let mut fields: Vec<Token<'_>> =
        body.split(':').map(|text| Token { text, at: at(text) }).collect();
    let device = fields[0].text.starts_with('/').then(|| fields.remove(0));
    if let Some(device) = &device {
        device::check(device)?;
    }
    let (limit, strategy, bucket) = match fields.as_slice() {
        [] => {
            return Err(refused(
                line,
                format!("{body}: expected a limit after the device; 0 deletes the rule"),
            ));
        }
        [limit] => (limit, None, None),
        [limit, strategy] => (limit, Some(strategy), None),
        [limit, strategy, bucket] => (limit, Some(strategy), Some(bucket)),
        _ => {
            return Err(refused(
                line,
                format!("{body}: expected [DEV:]LIMIT:STRATEGY[:BUCKET], {PATH}"),
            ));
        }
    };
    let what = if device.is_some() {
        "a limit".to_owned()
    } else {
        format!("DEV:LIMIT, {PATH}, or a limit")
    };
    let rate = amount(limit, &what)?;
    let rule = match strategy {
        Some(strategy) => Some(Limit { rate, policy: policy(rate, strategy, bucket)? }),
        None if rate == 0 => None,
        None => {
            let message = "expected a strategy after the limit";
            return Err(refused(
                line,
                format!("{body}: {message}: {body}:0 leaky bucket, {body}:1 token bucket"),
            ));
        }
    };
    let rule = rule.filter(|rule| rule.rate > 0);
    Ok(Line { device: device.map(|word| word.text), setting: setting(rule) })
}

fn amount(word: &Token<'_>, what: &str) -> Result<u64, FileError> {
    let bytes = quantity::size(word.text, Short::Decimal).map(Bytes::get);
    bytes.ok().filter(|_| !word.text.ends_with('B')).ok_or_else(|| {
        let message =
            format!("expected {what}: a whole number, or one with K, M, G, T (powers of 1000) or Ki, Mi, Gi, Ti");
        word.refused(Refusal::Invalid, message)
    })
}

fn policy(
    rate: u64,
    strategy: &Token<'_>,
    bucket: Option<&Token<'_>>,
) -> Result<Policy, FileError> {
    match (strategy.text, bucket) {
        ("0", None) => Ok(Policy::Leaky),
        ("0", Some(word)) => {
            let message = format!(
                "a leaky bucket (strategy 0) has no size; leave it out, or write DEV:LIMIT:0, {PATH}"
            );
            Err(word.refused(Refusal::Invalid, message))
        }
        ("1", None) => Ok(Policy::Token { bucket: rate }),
        ("1", Some(word)) => match amount(word, "a bucket")? {
            0 => Err(word.refused(
                Refusal::Invalid,
                "a bucket of 0 lets nothing pass; leave it out for the limit",
            )),
            bucket => Ok(Policy::Token { bucket }),
        },
        _ => Err(strategy
            .refused(Refusal::Invalid, "expected strategy 0 (leaky bucket) or 1 (token bucket)")),
    }
}

pub(super) fn text(rule: Option<Limit>, device: Option<&str>) -> String {
    let rule = match rule {
        None => "0".to_owned(),
        Some(Limit { rate, policy: Policy::Leaky }) => format!("{rate}:0"),
        Some(Limit { rate, policy: Policy::Token { bucket } }) => format!("{rate}:1:{bucket}"),
    };
    device.map_or_else(|| rule.clone(), |device| format!("{device}:{rule}"))
}
