//! Numbers as fio reads them: sizes, counts, times, shares, ranges and lists by direction.
//!
//! Two deliberate differences from fio 3.33. Text that fio silently ignores (it reads `bs=4x` and
//! `bs=4.5k` as 4 bytes, and `runtime=10sec` as 10 µs) is an error here, or is read as documented
//! with a warning. Negative counts, which fio wraps around or strips of their sign, are errors.

use super::arithmetic;
use super::source::PatternFiles;
use super::spec::Amount;
use crate::diagnostic::{Complaint, Problem};

/// Values for reads, writes and trims; `None` keeps the old value.
pub(crate) type PerDirection<T> = [Option<T>; 3];

/// The unit of a number, which decides the suffixes it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bytes or a plain count: `k m g t p`, as `kb_base` reads them.
    Plain,
    /// A span in microseconds; a bare number counts this many of them.
    Time(u64),
}

const SECOND: u64 = 1_000_000;

/// The reader of numbers under a `kb_base`. It keeps the warnings for the user.
#[derive(Debug)]
pub struct Scan {
    /// `kb_base`: 1024 or 1000.
    pub kb_base: u64,
    /// Warnings about the current value.
    pub notes: Vec<Complaint>,
    /// The files that the current value names, if it is a pattern of a job file.
    pub(crate) files: PatternFiles,
}

impl Scan {
    /// Returns a reader with fio's default, `kb_base=1024`.
    pub fn new() -> Self {
        Self { kb_base: 1024, notes: Vec::new(), files: PatternFiles::new() }
    }

    /// Parses a number with an optional unit, or an expression in parentheses.
    pub(crate) fn signed(&mut self, text: &str, unit: Unit) -> Result<i128, Complaint> {
        let text = text.trim();
        if text.starts_with('(') && text.ends_with(')') {
            // Within an expression a bare time is in microseconds, whatever the option's own unit
            // is.
            let inside = if unit == Unit::Plain { Unit::Plain } else { Unit::Time(1) };
            let value = arithmetic::evaluate(text, |suffix| factor(suffix, inside, self.kb_base))?;
            return in_range(value, text);
        }
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"))
        {
            Some(rest) => (rest, 16),
            None => (digits, 10),
        };
        let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
        let (number, suffix) = digits.split_at(end);
        if number.is_empty() {
            let example = if unit == Unit::Plain { "`4096` or `4k`" } else { "`10s` or `500ms`" };
            return Err(Problem::NotANumber
                .because(format!("`{text}` is no number; must be one such as {example}")));
        }
        let number = i128::from_str_radix(number, radix).unwrap_or(i128::MAX);
        let suffix = suffix.trim();
        if radix == 16 && !suffix.is_empty() {
            self.note(format!("fio 3.33 drops the unit of a hexadecimal `{text}`, against its manual; it counts here"));
        }
        let multiplier =
            factor(suffix, unit, self.kb_base).ok_or_else(|| unknown_unit(text, suffix, unit))?;
        self.note_oddities(text, suffix, unit);
        let value = number.checked_mul(i128::from(multiplier)).unwrap_or(i128::MAX);
        in_range(if negative { -value } else { value }, text)
    }

    /// Adds a warning about how fio reads the value.
    pub(crate) fn note(&mut self, message: impl Into<String>) {
        self.notes.push(Problem::Differs.because(message));
    }

    fn note_oddities(&mut self, text: &str, suffix: &str, unit: Unit) {
        let suffix = suffix.to_ascii_lowercase();
        match unit {
            Unit::Plain if matches!(suffix.as_str(), "ki" | "mi" | "gi" | "ti" | "pi") => {
                let letter = &suffix[..1];
                self.note(format!(
                    "fio reads `{text}` like `{letter}` (powers of {}), though its manual says otherwise; write \
                     `{letter}` or `{letter}ib` to be clear",
                    self.kb_base
                ));
            }
            Unit::Time(_) if suffix == "sec" => {
                self.note(format!(
                    "read as seconds, as documented; fio itself takes `{text}` for microseconds: write `{}`",
                    &text[..text.len() - 2]
                ));
            }
            Unit::Plain | Unit::Time(_) => {}
        }
    }

    /// Parses a number that is not negative.
    pub(crate) fn unsigned(&mut self, text: &str, unit: Unit) -> Result<u64, Complaint> {
        let value = self.signed(text, unit)?;
        u64::try_from(value).map_err(|_| {
            Problem::OutOfRange.because(format!("`{text}` is negative; must be 0 or more"))
        })
    }

    /// Parses bytes, or `N%`.
    pub(crate) fn amount(&mut self, text: &str) -> Result<Amount, Complaint> {
        let Some(number) = text.trim().strip_suffix('%') else {
            return self.unsigned(text, Unit::Plain).map(Amount::Bytes);
        };
        match number.trim().parse() {
            Ok(percent @ 0..=100) => Ok(Amount::Percent(percent)),
            _ => {
                Err(Problem::Malformed.because(format!("`{text}` is no share; must be 0% to 100%")))
            }
        }
    }

    /// Parses `LOW-HIGH` or `LOW:HIGH`, swapped if the first is larger.
    pub(crate) fn range(&mut self, text: &str, unit: Unit) -> Result<(u64, u64), Complaint> {
        let text = text.trim();
        let separator = text.char_indices().skip(1).find(|&(_, c)| c == '-' || c == ':');
        let Some((at, _)) = separator else {
            return Err(Problem::Malformed
                .because(format!("`{text}` is no range; must be two sizes such as `4k-64k`")));
        };
        let (low, high) =
            (self.unsigned(&text[..at], unit)?, self.unsigned(&text[at + 1..], unit)?);
        Ok((low.min(high), low.max(high)))
    }

    /// Parses one number, or a range.
    pub(crate) fn range_or_one(&mut self, text: &str, unit: Unit) -> Result<(u64, u64), Complaint> {
        if text.trim().chars().skip(1).any(|c| c == '-' || c == ':')
            && !text.trim().starts_with('(')
        {
            return self.range(text, unit);
        }
        self.unsigned(text, unit).map(|value| (value, value))
    }
}

impl Default for Scan {
    fn default() -> Self {
        Self::new()
    }
}

/// Parses `read,write,trim`. The last value is also used for the directions after it, unless a
/// comma follows it; an empty value leaves its direction unchanged.
pub(crate) fn by_direction<T: Clone>(
    text: &str,
    mut one: impl FnMut(&str) -> Result<T, Complaint>,
) -> Result<PerDirection<T>, Complaint> {
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 4 || parts.len() == 4 && !parts[3].trim().is_empty() {
        return Err(Problem::TooMany.because(format!(
            "`{text}` has too many values; must be at most three: reads, writes, trims"
        )));
    }
    let mut values = [None, None, None];
    for (slot, part) in values.iter_mut().zip(&parts) {
        *slot = if part.trim().is_empty() { None } else { Some(one(part)?) };
    }
    if values.iter().all(Option::is_none) {
        return Err(Problem::Missing
            .because(format!("`{text}` gives no value; must be one, or up to three with commas")));
    }
    let last = parts.len().min(3) - 1;
    if !parts[last].trim().is_empty() && parts.len() <= 3 {
        for direction in last + 1..3 {
            values[direction] = values[last].clone();
        }
    }
    Ok(values)
}

/// Returns the factor of a suffix: in bytes or counts, or in microseconds.
fn factor(suffix: &str, unit: Unit, kb_base: u64) -> Option<u64> {
    let suffix = suffix.to_ascii_lowercase();
    match unit {
        Unit::Time(bare) => Some(match suffix.as_str() {
            "" => bare,
            "us" | "usec" => 1,
            "ms" | "msec" => 1000,
            "s" | "sec" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            "d" => 86_400 * SECOND,
            _ => return None,
        }),
        Unit::Plain => {
            let power = match suffix.bytes().next() {
                None => return Some(1),
                Some(b'b') if suffix.len() == 1 => return Some(1),
                Some(letter) => b"kmgtp".iter().position(|&known| known == letter)? as u32 + 1,
            };
            // kb_base=1024 swaps the prefixes: `kb` is 1024 and `kib` is 1000.
            let other = if kb_base == 1024 { 1000u64 } else { 1024 };
            match &suffix[1..] {
                "" | "b" | "i" => Some(kb_base.pow(power)),
                "ib" => Some(other.pow(power)),
                _ => None,
            }
        }
    }
}

fn unknown_unit(text: &str, suffix: &str, unit: Unit) -> Complaint {
    if suffix == "z" {
        let message = format!(
            "`{text}` counts zones, and zoned devices are not supported; must be bytes, such as `256m`"
        );
        return Problem::Unsupported.because(message);
    }
    if suffix.starts_with("..") {
        return Problem::NotANumber
            .because(format!("`{text}` is no number; must be one such as `4096` or `4k`"));
    }
    if suffix.starts_with('.') {
        return Problem::Malformed
            .because(format!("`{text}` is no whole number; use a smaller unit"));
    }
    if suffix.contains('-') {
        return Problem::Malformed.because(format!(
            "`{text}` is a range; must be one number (sizes from a range: bsrange=)"
        ));
    }
    if let (Unit::Time(_), Some(whole)) = (unit, in_one_unit(text)) {
        let message =
            format!("`{text}` has several units, for which fio 3.33 stops at once; write {whole}");
        return Problem::Malformed.because(message);
    }
    let known = match unit {
        Unit::Plain => "k m g t p (kib mib ... for the other base)",
        Unit::Time(_) => "us ms s m h d",
    };
    Problem::UnknownUnit
        .because(format!("unknown unit `{suffix}` in `{text}`; must be one of {known}, or none"))
}

/// Returns a time such as `2m30s` in its smallest unit, `150s`; `None` if it is no such time.
fn in_one_unit(text: &str) -> Option<String> {
    let (mut rest, mut sum, mut least) = (text, 0u64, ("", u64::MAX));
    while !rest.is_empty() {
        let (digits, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (suffix, tail) =
            tail.split_at(tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len()));
        let factor = factor(suffix, Unit::Time(1), 1024)?;
        sum = sum.checked_add(digits.parse::<u64>().ok()?.checked_mul(factor)?)?;
        least = if factor < least.1 { (suffix, factor) } else { least };
        rest = tail;
    }
    Some(format!("{}{}", sum / least.1, least.0))
}

fn in_range(value: i128, text: &str) -> Result<i128, Complaint> {
    // fio stores numbers in signed 64 bits.
    let limit = i128::from(i64::MAX);
    if (-limit..=limit).contains(&value) {
        Ok(value)
    } else {
        Err(Problem::OutOfRange.because(format!("`{text}` is too large; must be below 2^63")))
    }
}

/// Parses a decimal number as an exact count of `1 / 10^places`.
pub(crate) fn decimal(text: &str, places: usize) -> Result<u64, Complaint> {
    let text = text.trim();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && part.is_empty() || !digits(whole) || !digits(part) || whole.len() > 12 {
        return Err(Problem::Malformed
            .because(format!("`{text}` is no decimal number; must be one such as `99.9`")));
    }
    let part = part.trim_end_matches('0');
    if part.len() > places {
        return Err(Problem::OutOfRange.because(format!(
            "`{text}` is too fine; must have at most {places} digits after the point"
        )));
    }
    format!("{whole}{part:0<places$}")
        .parse()
        .map_err(|_| Problem::OutOfRange.because(format!("`{text}` is too large")))
}
