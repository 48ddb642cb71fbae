//! Numbers as the kernel's files take them, and quantities with units as our own knobs do.

use super::Refusal;
use elevon_core::units::Nanos;

/// What a number counts: how a message words it, and which suffixes make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    /// Bytes, or bytes a second.
    Bytes(&'static str),
    /// I/Os, or I/Os a second.
    Ios(&'static str),
    /// Anything else: no suffix makes sense.
    Plain(&'static str),
}

impl Counts {
    const fn word(self) -> &'static str {
        match self {
            Self::Bytes(word) | Self::Ios(word) | Self::Plain(word) => word,
        }
    }
}

const THOUSANDS: [(&str, u64); 4] = [("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)];
const BINARY: [(&str, u64); 4] = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("Ti", 1 << 40)];

/// Scales of a suffix as somebody may have meant it, whatever its case: with `i` the binary one, with `B` alone the decimal one,
/// else both.
fn meant(suffix: &str) -> impl Iterator<Item = (&'static str, u64)> {
    let word = suffix.trim_end_matches("/s").trim_end_matches("ps").to_ascii_uppercase();
    let (is_binary, is_decimal) = (word.contains('I'), !word.contains('I') && word.ends_with('B'));
    let letter = word.trim_end_matches('B').trim_end_matches('I').to_owned();
    let pairs = THOUSANDS.into_iter().zip(BINARY).find(|((name, _), _)| *name == letter);
    let (decimal, binary) = pairs.unzip();
    decimal.filter(|_| !is_binary).into_iter().chain(binary.filter(|_| !is_decimal))
}

/// A decimal number as the kernel's files take them. The kernel reads leading digits and drops the rest without a word; here the
/// rest is an error that says what to write. `key` stands in front of what is to be written.
pub(super) fn kernel_number(key: &str, text: &str, counts: Counts) -> Result<u64, (Refusal, String)> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = text.split_at(digits);
    if number.is_empty() {
        let word = counts.word();
        return Err((Refusal::Invalid, format!("expected a whole number of {word} in decimal digits")));
    }
    let value = number.parse::<u64>().map_err(|_| (Refusal::Range, format!("{number} is more than {}", u64::MAX)));
    if rest.is_empty() {
        return value;
    }
    let scales: Vec<_> = match counts {
        Counts::Bytes(_) => meant(rest).collect(),
        Counts::Ios(_) => meant(rest).filter(|(name, _)| !name.ends_with('i')).collect(),
        Counts::Plain(_) => Vec::new(),
    };
    let suggestions: Vec<String> = scales
        .iter()
        .filter_map(|(name, scale)| {
            let value = value.as_ref().ok()?.checked_mul(*scale)?;
            Some(format!("{key}{value} for {number}{name}"))
        })
        .collect();
    let write = if suggestions.is_empty() {
        "write digits only".to_owned()
    } else {
        format!("write {}", suggestions.join(", or "))
    };
    let word = counts.word();
    Err((Refusal::Misread, format!("the kernel reads {number} {word} and drops `{rest}`; {write}")))
}

/// Percent with up to two decimals, in hundredths.
pub(super) fn percent(text: &str) -> Result<u32, (Refusal, String)> {
    let bad = || {
        (Refusal::Invalid, "expected a percentage with up to two decimals, without a sign, such as 95.00".to_owned())
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || fraction.len() > 2 {
        return Err(bad());
    }
    let hundredths: u32 = format!("{fraction:0<2}").parse().map_err(|_| bad())?;
    let whole = whole.parse::<u32>().ok().and_then(|n| n.checked_mul(100));
    whole.and_then(|whole| whole.checked_add(hundredths)).ok_or_else(bad)
}

/// The text of hundredths of a percent, as the kernel prints it.
pub(super) fn percent_text(hundredths: u32) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// `digits[.digits]` and a unit of this table. Exact, or nothing.
fn scaled(text: &str, units: impl Iterator<Item = (&'static str, u64)>) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let scale = units.into_iter().find(|(name, _)| *name == unit)?.1;
    let digits = u32::try_from(fraction.len()).ok().filter(|n| (1..=9).contains(n))?;
    let (whole, fraction): (u64, u64) = (whole.parse().ok()?, fraction.parse().ok()?);
    let part = u128::from(fraction) * u128::from(scale);
    let parts = 10u128.pow(digits);
    let part = u64::try_from(part / parts).ok().filter(|_| part.is_multiple_of(parts))?;
    whole.checked_mul(scale)?.checked_add(part)
}

/// Bytes for one of our knobs: a plain number, or with K, M, G, T (powers of 1000) or Ki, Mi, Gi, Ti (powers of 1024), and `B` where
/// somebody wants to see it. Case counts.
pub fn bytes(text: &str) -> Option<u64> {
    let number = text.strip_suffix('B').unwrap_or(text);
    scaled(number, [("", 1)].into_iter().chain(THOUSANDS).chain(BINARY))
}

/// Bytes a second: as [`bytes`], with `/s` where somebody wants to see it.
pub fn rate(text: &str) -> Option<u64> {
    bytes(text.strip_suffix("/s").unwrap_or(text))
}

/// A count, of I/Os or of I/Os a second: a plain number, or with K, M, G, T.
pub fn count(text: &str) -> Option<u64> {
    scaled(text, [("", 1)].into_iter().chain(THOUSANDS))
}

/// A span of time with its unit: ns, us, ms or s.
pub fn span(text: &str) -> Option<Nanos> {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    scaled(text, units.into_iter()).map(Nanos::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_would_misread_says_what_to_write() {
        let error = |text, counts| kernel_number("rbps=", text, counts).unwrap_err().1;
        let bytes = Counts::Bytes("bytes/s");
        assert_eq!(
            error("10M", bytes),
            "the kernel reads 10 bytes/s and drops `M`; write rbps=10000000 for 10M, or rbps=10485760 for 10Mi"
        );
        for (text, end) in [
            ("10MB", "write rbps=10000000 for 10M"),
            ("10MB/s", "write rbps=10000000 for 10M"),
            ("10MiB", "write rbps=10485760 for 10Mi"),
            ("10mib/s", "write rbps=10485760 for 10Mi"),
            ("2k", "write rbps=2000 for 2K, or rbps=2048 for 2Ki"),
            ("1e6", "write digits only"),
            ("0x10", "the kernel reads 0 bytes/s and drops `x10`; write digits only"),
            ("1_000", "write digits only"),
            ("10.5M", "write digits only"),
            ("99999999999T", "write digits only"),
        ] {
            assert!(error(text, bytes).ends_with(end), "{text}: {}", error(text, bytes));
        }
        assert!(error("10k", Counts::Ios("I/Os a second")).ends_with("write rbps=10000 for 10K"));
        assert!(error("10k", Counts::Plain("weight")).ends_with("write digits only"));
        assert_eq!(kernel_number("", "18446744073709551615", bytes), Ok(u64::MAX));
        assert_eq!(kernel_number("", "18446744073709551616", bytes).unwrap_err().0, Refusal::Range);
        for text in ["", "-1", "+1", " 1", "M", "١"] {
            assert_eq!(kernel_number("", text, bytes).unwrap_err().0, Refusal::Invalid, "{text}");
        }
    }

    #[test]
    fn knobs_take_units() {
        for (text, value) in [
            ("1048576", Some(1 << 20)),
            ("10M", Some(10_000_000)),
            ("10MB", Some(10_000_000)),
            ("1Mi", Some(1 << 20)),
            ("1MiB", Some(1 << 20)),
            ("1.5Ki", Some(1536)),
            ("1.5GB", Some(1_500_000_000)),
            ("16383Ti", Some(16383 << 40)),
            ("512B", Some(512)),
            ("0", Some(0)),
            ("1.5", None),
            ("1.0001Ki", None),
            ("10m", None),
            ("10mb", None),
            ("10 M", None),
            ("-1", None),
            ("M", None),
            ("", None),
            ("1.M", None),
            (".5M", None),
            ("16777216Ti", None),
            ("1MiBs", None),
        ] {
            assert_eq!(bytes(text), value, "{text}");
        }
        assert_eq!(
            (rate("10MB/s"), rate("2Ki"), rate("2/s"), bytes("10M/s")),
            (Some(10_000_000), Some(2048), Some(2), None)
        );
        assert_eq!((count("10K"), count("500"), count("10Ki"), count("5B")), (Some(10_000), Some(500), None, None));
        assert_eq!(
            (span("5ms"), span("1.5us"), span("5"), span("0s")),
            (Some(Nanos::new(5_000_000)), Some(Nanos::new(1_500)), None, Some(Nanos::ZERO))
        );
    }

    #[test]
    fn percentages_have_two_decimals() {
        for (text, hundredths) in [("95", 9500), ("95.5", 9550), ("0.01", 1), ("100.00", 10_000), ("0", 0)] {
            assert_eq!(percent(text), Ok(hundredths), "{text}");
        }
        for text in ["", "95.", ".5", "1.234", "-1", "95%", "99999999", "42949672.96", "1e2"] {
            assert!(percent(text).is_err(), "{text}");
        }
        assert_eq!((percent_text(9505), percent_text(1_000_000)), ("95.05".to_owned(), "10000.00".to_owned()));
    }
}
