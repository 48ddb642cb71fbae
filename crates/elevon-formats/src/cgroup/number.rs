//! Numbers in the syntax of the kernel's files. Elevon's knobs take quantities with units
//! ([`crate::quantity`]).

use super::Refusal;
use crate::quantity::{PREFIXES, Prefix};

/// The unit of a number: its words in messages, and the suffixes to suggest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    /// Bytes, or bytes a second.
    Bytes(&'static str),
    /// I/Os, or I/Os a second.
    Ios(&'static str),
    /// Any other unit, for which no suffix makes sense.
    Plain(&'static str),
}

impl Counts {
    const fn word(self) -> &'static str {
        match self {
            Self::Bytes(word) | Self::Ios(word) | Self::Plain(word) => word,
        }
    }
}

/// Returns the units that a suffix may have meant, regardless of its case: with `i` the binary
/// unit, with `B` alone the decimal one, else both. The flag is true for a binary unit.
fn meant(suffix: &str) -> impl Iterator<Item = (String, u64, bool)> {
    let word = suffix.trim_end_matches("/s").trim_end_matches("ps").to_ascii_uppercase();
    let (is_binary, is_decimal) = (word.contains('I'), !word.contains('I') && word.ends_with('B'));
    let letter = word.trim_end_matches('B').trim_end_matches('I').to_owned();
    let prefix = PREFIXES.into_iter().find(|prefix| prefix.letter == letter);
    let units = prefix.map(|Prefix { letter, decimal, binary }| {
        [(letter.to_owned(), decimal, false), (format!("{letter}i"), binary, true)]
    });
    units
        .into_iter()
        .flatten()
        .filter(move |(_, _, binary)| if *binary { !is_decimal } else { !is_binary })
}

/// Parses a decimal number of a kernel file. The kernel reads the leading digits and silently
/// ignores the rest; here the rest is an error that says what to write. `key` is the prefix of the
/// suggested text.
pub(super) fn kernel_number(
    key: &str,
    text: &str,
    counts: Counts,
) -> Result<u64, (Refusal, String)> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = text.split_at(digits);
    if number.is_empty() {
        let word = counts.word();
        return Err((
            Refusal::Invalid,
            format!("expected a whole number of {word} in decimal digits"),
        ));
    }
    let value = number
        .parse::<u64>()
        .map_err(|_| (Refusal::Range, format!("{number} is more than {}", u64::MAX)));
    if rest.is_empty() {
        return value;
    }
    let scales: Vec<_> = match counts {
        Counts::Bytes(_) => meant(rest).collect(),
        Counts::Ios(_) => meant(rest).filter(|(_, _, is_binary)| !is_binary).collect(),
        Counts::Plain(_) => Vec::new(),
    };
    let suggestions: Vec<String> = scales
        .iter()
        .filter_map(|(name, scale, _)| {
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

/// Parses a percentage with up to two decimals. Returns hundredths of a percent.
pub(super) fn percent(text: &str) -> Result<u32, (Refusal, String)> {
    let bad = || {
        (
            Refusal::Invalid,
            "expected a percentage with up to two decimals, without a sign, such as 95.00"
                .to_owned(),
        )
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

/// Returns the text of hundredths of a percent, as the kernel prints it.
pub(super) fn percent_text(hundredths: u32) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
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
    fn percentages_have_two_decimals() {
        for (text, hundredths) in
            [("95", 9500), ("95.5", 9550), ("0.01", 1), ("100.00", 10_000), ("0", 0)]
        {
            assert_eq!(percent(text), Ok(hundredths), "{text}");
        }
        for text in ["", "95.", ".5", "1.234", "-1", "95%", "99999999", "42949672.96", "1e2"] {
            assert!(percent(text).is_err(), "{text}");
        }
        assert_eq!(
            (percent_text(9505), percent_text(1_000_000)),
            ("95.05".to_owned(), "10000.00".to_owned())
        );
    }
}
