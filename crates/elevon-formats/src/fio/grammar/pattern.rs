//! Bytes of a pattern. It is a sequence of `"text"`, `'file'` for its content, `0xhex` in the order
//! written, and decimal numbers. A number has 32 bits, low byte first, without the zero bytes above
//! the highest non-zero one. `verify_pattern` has `%o` too: 8 bytes of the block's offset, low byte
//! first.

use super::super::draft::Draft;
use super::super::number::Scan;
use crate::diagnostic::{Complaint, Problem};

/// The maximum number of bytes without a file, as in fio.
const MAX_PATTERN_BYTES: usize = 512;

/// The maximum number of bytes with a file: places in a pattern have 16 bits.
const LONGEST_WITH_FILE: usize = 1 << 16;
/// A pattern that is longer is not read to its end.
const MAX_BYTES: usize = 1 << 20;

pub(in super::super) fn buffer_pattern(
    draft: &mut Draft,
    scan: &mut Scan,
    text: &str,
) -> Result<(), Complaint> {
    let (pattern, offsets) = bytes(text, scan)?;
    if !offsets.is_empty() {
        return Err(Problem::Unsupported.because(format!(
            "`{text}`: %o is a format of verify_pattern=; must be bytes such as 0xdeadbeef"
        )));
    }
    draft.spec.content.pattern = Some(pattern.into());
    Ok(())
}

pub(in super::super) fn verify_pattern(
    draft: &mut Draft,
    scan: &mut Scan,
    text: &str,
) -> Result<(), Complaint> {
    let (pattern, offsets) = bytes(text, scan)?;
    (draft.spec.verify.pattern, draft.spec.verify.pattern_offsets) = (pattern.into(), offsets);
    Ok(())
}

/// Number of bytes of `%o`.
const OFFSET_BYTES: usize = 8;

/// Returns the bytes of a pattern, and the places of its offsets in them.
fn bytes(text: &str, scan: &Scan) -> Result<(Vec<u8>, Vec<u16>), Complaint> {
    let (mut out, mut offsets) = (Vec::new(), Vec::new());
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(
            Problem::Missing.because("is empty; must be bytes such as 0xdeadbeef or \"text\"")
        );
    }
    let longest = if scan.files.is_empty() { MAX_PATTERN_BYTES } else { LONGEST_WITH_FILE };
    while !rest.is_empty() {
        // A file that is named a thousand times would not fit into memory.
        if out.len() > MAX_BYTES {
            return Err(Problem::OutOfRange
                .because(format!("is longer than {MAX_BYTES} bytes; must be 1 to {longest}")));
        }
        if let Some(tail) = rest.strip_prefix('"') {
            let inside;
            (inside, rest) = quoted(tail, '"')?;
            out.extend_from_slice(inside.as_bytes());
        } else if let Some(tail) = rest.strip_prefix('\'') {
            let name;
            (name, rest) = quoted(tail, '\'')?;
            out.extend_from_slice(file(name, scan)?);
        } else if let Some(tail) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            rest = hex(tail, &mut out)?;
        } else if rest.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            rest = number(rest, &mut out)?;
        } else if let Some(tail) = rest.strip_prefix("%o") {
            // A place that does not fit is that of a pattern that is too long.
            offsets.push(u16::try_from(out.len()).unwrap_or(u16::MAX));
            out.extend_from_slice(&[0; OFFSET_BYTES]);
            rest = tail;
        } else if rest.starts_with('%') {
            return Err(Problem::Unsupported.because(format!(
                "`{rest}`: there is no such format; must be %o, the offset, or bytes such as 0xff"
            )));
        } else {
            return Err(Problem::Malformed.because(format!(
                "`{rest}` is no pattern; must be bytes such as 0xdeadbeef, 123 or \"text\""
            )));
        }
    }
    match out.len() {
        length if (1..=longest).contains(&length) => Ok((out, offsets)),
        length => {
            Err(Problem::OutOfRange
                .because(format!("is {length} bytes long; must be 1 to {longest}")))
        }
    }
}

/// Splits a text behind an opening quote into what is quoted and what follows.
fn quoted(text: &str, quote: char) -> Result<(&str, &str), Complaint> {
    let missing = || Problem::Missing.because(format!("`{quote}{text}` lacks its closing quote"));
    text.split_once(quote).ok_or_else(missing)
}

/// Returns the content of a file that a pattern names.
fn file<'a>(name: &str, scan: &'a Scan) -> Result<&'a [u8], Complaint> {
    match scan.files.get(name) {
        Some(Ok(bytes)) => Ok(bytes),
        Some(Err(why)) => Err(Problem::File
            .because(format!("{why}; the name is relative to the file that has the option"))),
        None => {
            let message = format!(
                "'{name}': only a job file can name a file with a pattern; put the option there"
            );
            Err(Problem::Unsupported.because(message))
        }
    }
}

/// Parses pairs of digits from the left; an odd digit stands alone in front.
fn hex<'a>(text: &'a str, out: &mut Vec<u8>) -> Result<&'a str, Complaint> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() {
        return Err(Problem::Missing.because("`0x` lacks its digits; must be such as 0xff"));
    }
    let (odd, pairs) = digits.split_at(digits.len() % 2);
    let pairs = pairs.as_bytes().chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok());
    let all = Some(odd).filter(|odd| !odd.is_empty()).into_iter().chain(pairs);
    out.extend(all.filter_map(|pair| u8::from_str_radix(pair, 16).ok()));
    Ok(rest)
}

fn number<'a>(text: &'a str, out: &mut Vec<u8>) -> Result<&'a str, Complaint> {
    let end = text
        .char_indices()
        .skip(1)
        .find(|(_, c)| !c.is_ascii_digit())
        .map_or(text.len(), |(at, _)| at);
    // The 0 before an x starts a hexadecimal number: 120xff is 12 and 0xff.
    let is_before_hex =
        end > 1 && text[..end].ends_with('0') && text[end..].starts_with(['x', 'X']);
    let (digits, rest) = text.split_at(if is_before_hex { end - 1 } else { end });
    let value: i64 = digits.parse().map_err(|_| {
        Problem::OutOfRange.because(format!("`{digits}` is no number; must be below 2^32, or hex"))
    })?;
    if !(i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(&value) {
        return Err(Problem::OutOfRange
            .because(format!("`{digits}` is too large; must be below 2^32, or hex")));
    }
    let bytes = (value as u32).to_le_bytes();
    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(1, |last| last + 1);
    out.extend_from_slice(&bytes[..used]);
    Ok(rest)
}
