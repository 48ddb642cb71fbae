//! Sizes, rates, times, counts and shares as text: one grammar for the command line, devices and
//! tenants.
//!
//! A quantity is `DIGITS[.DIGITS]UNIT`, without a space; units are case-sensitive. Up to twelve
//! decimals are read, and a remainder of less than one byte, nanosecond or part in a million is
//! dropped. All arithmetic is on whole numbers.
//!
//! - A time has `ns`, `us`, `ms` or `s`; a plain `0` needs no unit.
//! - A size has `B`, `kB` or `KB`, `MB`, `GB`, `TB` for powers of 1000, or `Ki`, `Mi`, `Gi`, `Ti`
//!   for powers of 1024, these also as `KiB` and so on. [`Short`] says which parts of a unit may be
//!   left out.
//! - A rate is a size, with or without a trailing `/s`.
//! - A count is a plain number, or has `K`, `M`, `G` or `T` (powers of 1000).
//! - A share has `%` or `ppm`.
//!
//! fio's job files ([`crate::fio`]) and the kernel's control files have grammars of their own.

use elevon_core::units::{Bytes, Nanos};

/// The name of a unit, and its size in the base unit.
pub type Unit = (&'static str, u64);

/// Units of time, in nanoseconds.
pub const TIMES: &[Unit] = &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
/// Units of size as they are printed, in bytes.
pub const SIZES: &[Unit] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];
/// Units of a share, in parts in a million.
pub const SHARES: &[Unit] = &[("ppm", 1), ("%", 10_000)];

/// A prefix with its powers of 1000 and of 1024.
pub(crate) struct Prefix {
    pub(crate) letter: &'static str,
    pub(crate) decimal: u64,
    pub(crate) binary: u64,
}

const fn prefix(letter: &'static str, power: u32) -> Prefix {
    Prefix { letter, decimal: 1000u64.pow(power), binary: 1 << (10 * power) }
}

pub(crate) const PREFIXES: [Prefix; 4] =
    [prefix("K", 1), prefix("M", 2), prefix("G", 3), prefix("T", 4)];

/// The maximum number of decimals.
const DECIMALS: u32 = 12;

/// The part of a size's unit that may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// Nothing: devices are sold in `GB` and memory in `GiB`, so `4G` could be either.
    Nothing,
    /// `4G` is 4·2^30, as memory is counted.
    Binary,
    /// `4G` is 4·10^9, and a plain number is bytes, as in the kernel's control files.
    Decimal,
}

/// The reason why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It does not begin with a number.
    #[error("{text}: expected a number with its unit")]
    NoNumber {
        /// The text.
        text: String,
    },
    /// It has no unit, or one that is not known here.
    #[error("{text}: {}{}", if *.is_plain { "no unit" } else { "no such unit" }, write_one_of(.meant))]
    Unit {
        /// The text.
        text: String,
        /// It has no unit at all.
        is_plain: bool,
        /// The units that were probably meant, each with the number.
        meant: Vec<String>,
    },
    /// It has more than twelve decimals.
    #[error("{text}: more than {DECIMALS} decimals")]
    TooFine {
        /// The text.
        text: String,
    },
    /// It is more than 2^64 - 1 of the base unit.
    #[error("{text}: too large")]
    TooLarge {
        /// The text.
        text: String,
    },
}

impl QuantityError {
    /// Returns the end of a message, such as `; write 4GB or 4GiB`; empty if no similar unit is
    /// known.
    pub fn hint(&self) -> String {
        match self {
            Self::Unit { meant, .. } => write_one_of(meant),
            Self::NoNumber { .. } | Self::TooFine { .. } | Self::TooLarge { .. } => String::new(),
        }
    }
}

fn write_one_of(texts: &[String]) -> String {
    if texts.is_empty() { String::new() } else { format!("; write {}", texts.join(" or ")) }
}

/// Parses `DIGITS[.DIGITS]UNIT`. `scale_of` returns the size of a unit, and `all` are the units to
/// suggest.
fn quantity(
    text: &str,
    scale_of: impl Fn(&str) -> Option<u64>,
    all: &[&str],
) -> Result<u64, QuantityError> {
    let owned = || text.to_owned();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = !whole.is_empty() && !fraction.contains('.');
    if !is_number {
        return Err(QuantityError::NoNumber { text: owned() });
    }
    let scale = scale_of(unit).ok_or_else(|| {
        let is_near = |name: &&&str| !unit.is_empty() && is_same_unit(name, unit);
        let meant = all.iter().filter(is_near).map(|name| format!("{number}{name}")).collect();
        QuantityError::Unit { text: owned(), is_plain: unit.is_empty(), meant }
    })?;
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| *digits <= DECIMALS);
    let digits = digits.ok_or_else(|| QuantityError::TooFine { text: owned() })?;
    let value = || {
        let whole: u64 = whole.parse().ok()?;
        let fraction: u64 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        let part = u128::from(fraction) * u128::from(scale) / u128::from(10u64.pow(digits));
        whole.checked_mul(scale)?.checked_add(u64::try_from(part).ok()?)
    };
    value().ok_or_else(|| QuantityError::TooLarge { text: owned() })
}

/// Returns true if a unit as written may mean the unit `name`, regardless of case and with or
/// without `i`, `B` and `/s`.
fn is_same_unit(name: &str, written: &str) -> bool {
    let plain = |unit: &str| unit.trim_end_matches("/s").to_ascii_lowercase();
    let (name, written) = (plain(name), plain(written));
    name == written
        || (written.len() == 1
            && name.len() > 1
            && name.ends_with('b')
            && name.starts_with(&written))
}

/// Parses a span of time.
///
/// # Errors
/// The text is not a time.
pub fn time(text: &str) -> Result<Nanos, QuantityError> {
    if text == "0" {
        return Ok(Nanos::ZERO);
    }
    in_units(text, TIMES).map(Nanos::new)
}

/// Parses a share, in parts in a million.
///
/// # Errors
/// The text is not a share.
pub fn share(text: &str) -> Result<u64, QuantityError> {
    if text == "0" { Ok(0) } else { in_units(text, SHARES) }
}

fn in_units(text: &str, units: &'static [Unit]) -> Result<u64, QuantityError> {
    let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
    quantity(
        text,
        |unit| units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale),
        &names,
    )
}

/// Parses a size; `0` needs no unit.
///
/// # Errors
/// The text is not a size.
pub fn size(text: &str, short: Short) -> Result<Bytes, QuantityError> {
    if text == "0" {
        return Ok(Bytes::ZERO);
    }
    let scale_of = |unit: &str| match (unit, short) {
        ("B", _) | ("", Short::Decimal) => Some(1),
        ("kB", _) => Some(1_000),
        _ => PREFIXES.iter().find_map(|Prefix { letter, decimal, binary }| {
            match (unit.strip_prefix(letter)?, short) {
                ("B", _) | ("", Short::Decimal) => Some(*decimal),
                ("i" | "iB", _) | ("", Short::Binary) => Some(*binary),
                _ => None,
            }
        }),
    };
    const MEANT: [&str; 8] = ["kB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB"];
    quantity(text, scale_of, &MEANT).map(Bytes::new)
}

/// Parses a rate in bytes a second: a size, with or without a trailing `/s`.
///
/// # Errors
/// The text is not a rate.
pub fn rate(text: &str, short: Short) -> Result<Bytes, QuantityError> {
    size(text.strip_suffix("/s").unwrap_or(text), short)
}

/// Parses a count, of I/Os or of I/Os a second. A fraction of one is dropped.
///
/// # Errors
/// The text is not a count.
pub fn count(text: &str) -> Result<u64, QuantityError> {
    let scale_of = |unit: &str| match unit {
        "" => Some(1),
        _ => PREFIXES.iter().find(|prefix| prefix.letter == unit).map(|prefix| prefix.decimal),
    };
    quantity(text, scale_of, &PREFIXES.map(|prefix| prefix.letter))
}

/// Returns a text that is parsed back as `value`: in the largest unit that leaves at most three
/// decimals.
pub fn text(value: u64, units: &[Unit]) -> String {
    let fits =
        |scale: u64| value >= scale && (u128::from(value) * 1000).is_multiple_of(u128::from(scale));
    match units.iter().filter(|(_, scale)| fits(*scale)).max_by_key(|(_, scale)| scale) {
        Some(&(name, scale)) => {
            let milli = u128::from(value % scale) * 1000 / u128::from(scale);
            let text = format!("{}.{milli:03}", value / scale);
            format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
        }
        None => value.to_string(),
    }
}

/// Returns a size of memory in whole `GiB`, `MiB` or `KiB`, the largest that fits. If none fits,
/// the size is rounded down to `KiB`.
pub fn memory_text(size: Bytes) -> String {
    let whole = |scale: u64| size.get().is_multiple_of(scale) && size.get() > 0;
    let (unit, scale) = match () {
        () if whole(1 << 30) => ("GiB", 1 << 30),
        () if whole(1 << 20) => ("MiB", 1 << 20),
        () => ("KiB", 1 << 10),
    };
    format!("{}{unit}", size.get() / scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks the size that devices, tenants and `--memory` read of one text, or that they refuse
    /// it.
    #[track_caller]
    fn sizes(text: &str, expected: [Option<u64>; 3]) {
        let of = |short| size(text, short).ok().map(Bytes::get);
        assert_eq!([Short::Nothing, Short::Decimal, Short::Binary].map(of), expected, "{text}");
    }

    #[test]
    fn a_size_with_its_unit_is_the_same_everywhere() {
        for (text, bytes) in [
            ("0", 0),
            ("512B", 512),
            ("4Ki", 4 << 10),
            ("4KiB", 4 << 10),
            ("4Mi", 4 << 20),
            ("4MiB", 4 << 20),
            ("1.5GiB", 3 << 29),
            ("16383Ti", 16383 << 40),
            ("4kB", 4_000),
            ("4KB", 4_000),
            ("1.5GB", 1_500_000_000),
            ("500MB", 500_000_000),
            ("1TB", 1_000_000_000_000),
            ("1.3GiB", 1_395_864_371),
            ("0.000000000001TB", 1),
            ("1.MB", 1_000_000),
            ("1.9B", 1),
        ] {
            sizes(text, [Some(bytes); 3]);
            let rate = |text: &str| rate(text, Short::Nothing).ok().map(Bytes::get);
            assert_eq!(
                (rate(text), rate(&format!("{text}/s"))),
                (Some(bytes), Some(bytes)),
                "{text}"
            );
        }
    }

    #[test]
    fn what_a_unit_leaves_out_is_up_to_the_place() {
        sizes("4G", [None, Some(4_000_000_000), Some(4 << 30)]);
        sizes("1.5K", [None, Some(1_500), Some(1_536)]);
        sizes("1048576", [None, Some(1 << 20), None]);
    }

    #[test]
    fn what_is_no_size_is_refused_everywhere() {
        for text in [
            "",
            "-1",
            "+1",
            "M",
            ".5M",
            "1..5M",
            "1.5.5M",
            "10m",
            "10mb",
            "10 M",
            "1MiBs",
            "4Gb",
            "k",
            "4k",
            "1e6",
            "16777216TiB",
            "99999999999999999999B",
            "0.0000000000001TB",
            "1MB/s",
            "\u{661}B",
        ] {
            sizes(text, [None; 3]);
        }
    }

    #[test]
    fn times_need_their_unit() {
        for (text, ns) in [
            ("0", 0),
            ("0s", 0),
            ("4us", 4_000),
            ("1.4us", 1_400),
            ("2s", 2_000_000_000),
            ("0.25ms", 250_000),
            ("1.5ns", 1),
            ("1.us", 1_000),
            ("1.0000000001s", 1_000_000_000),
        ] {
            assert_eq!(time(text), Ok(Nanos::new(ns)), "{text}");
        }
        for text in [
            "4",
            "us",
            "",
            "-1us",
            "1,5ms",
            "2m",
            "2 ms",
            "99999999999999999999s",
            "18446744074s",
            "0.0",
            "1.x5us",
        ] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_and_shares() {
        for (text, value) in
            [("10K", Some(10_000)), ("500", Some(500)), ("1.5K", Some(1_500)), ("10Ki", None)]
        {
            assert_eq!(count(text).ok(), value, "{text}");
        }
        for (text, value) in
            [("7%", Some(70_000)), ("10ppm", Some(10)), ("0", Some(0)), ("7", None)]
        {
            assert_eq!(share(text).ok(), value, "{text}");
        }
    }

    #[test]
    fn an_error_says_what_was_probably_meant() {
        let of = |text| size(text, Short::Nothing).expect_err(text).to_string();
        assert_eq!(of("4G"), "4G: no such unit; write 4GB or 4GiB");
        assert_eq!(of("1.5k"), "1.5k: no such unit; write 1.5kB or 1.5KiB");
        assert_eq!(of("4mib"), "4mib: no such unit; write 4MiB");
        assert_eq!(of("4"), "4: no unit");
        assert_eq!(of("4X"), "4X: no such unit");
        assert_eq!(of("G"), "G: expected a number with its unit");
        assert_eq!(of("99999999TiB"), "99999999TiB: too large");
        assert_eq!(time("5MS").expect_err("case").to_string(), "5MS: no such unit; write 5ms");
        assert_eq!(count("5k").expect_err("case").to_string(), "5k: no such unit; write 5K");
    }

    #[test]
    fn memory_is_told_in_whole_units() {
        let texts =
            [6 << 30, 6001 << 20, 3 << 29, 4096, 0].map(|bytes| memory_text(Bytes::new(bytes)));
        assert_eq!(texts, ["6GiB", "6001MiB", "1536MiB", "4KiB", "0KiB"]);
    }

    proptest! {
        /// A printed value is parsed back as the same value by every grammar.
        #[test]
        fn a_text_reads_back(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            prop_assert_eq!(time(&text(value, TIMES)), Ok(Nanos::new(value)));
            prop_assert_eq!(share(&text(value, SHARES)), Ok(value));
            for short in [Short::Nothing, Short::Binary, Short::Decimal] {
                prop_assert_eq!(size(&text(value, SIZES), short), Ok(Bytes::new(value)));
            }
            prop_assert_eq!(count(&value.to_string()), Ok(value));
        }

        /// Any text is read or refused in one line that begins with it.
        #[test]
        fn nothing_panics(text in "[0-9.]{0,25}[a-zA-Z%/]{0,4}") {
            for error in [time(&text).err(), size(&text, Short::Nothing).err(), count(&text).err(), share(&text).err()] {
                let said = error.map_or_else(|| format!("{text}: "), |error| error.to_string());
                prop_assert!(said.starts_with(&format!("{text}: ")) && !said.contains('\n'), "{}", said);
            }
        }
    }
}
