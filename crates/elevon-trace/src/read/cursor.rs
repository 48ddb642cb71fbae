//! Reads the words of a line from left to right.

/// The rest of a line.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

/// Why a line was not understood: a description of what was expected.
pub(crate) type Expected = &'static str;

impl<'a> Cursor<'a> {
    pub(crate) const fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    #[inline]
    fn skip_blanks(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Returns the rest, without surrounding blanks.
    #[inline]
    pub(crate) fn rest(mut self) -> &'a [u8] {
        self.skip_blanks();
        self.rest.trim_ascii_end()
    }

    #[inline]
    pub(crate) fn is_at_end(self) -> bool {
        self.rest().is_empty()
    }

    #[inline]
    pub(crate) fn is_at(mut self, byte: u8) -> bool {
        self.skip_blanks();
        self.rest.first() == Some(&byte)
    }

    #[inline]
    pub(crate) fn word(&mut self) -> Result<&'a [u8], Expected> {
        self.skip_blanks();
        let end = self
            .rest
            .iter()
            .position(|byte| matches!(byte, b' ' | b'\t'))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if word.is_empty() { Err("one more word") } else { Ok(word) }
    }

    /// Reads a decimal number, which ends where the digits end.
    #[inline]
    pub(crate) fn digits(&mut self) -> Option<u64> {
        let mut value = 0u64;
        let mut count = 0;
        for &byte in self.rest {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
            count += 1;
        }
        self.rest = &self.rest[count..];
        (count > 0).then_some(value)
    }

    /// Reads a decimal number that is a separate word.
    #[inline]
    pub(crate) fn number(&mut self, expected: Expected) -> Result<u64, Expected> {
        self.skip_blanks();
        let value = self.digits().ok_or(expected)?;
        match self.rest.first() {
            None | Some(b' ' | b'\t' | b'\r') => Ok(value),
            Some(_) => Err(expected),
        }
    }

    #[inline]
    pub(crate) fn byte(&mut self, byte: u8, expected: Expected) -> Result<(), Expected> {
        self.skip_blanks();
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                Ok(())
            }
            _ => Err(expected),
        }
    }

    #[inline]
    pub(crate) fn text(&mut self, text: &'static str) -> Result<(), Expected> {
        self.skip_blanks();
        self.rest = self.rest.strip_prefix(text.as_bytes()).ok_or(text)?;
        Ok(())
    }

    /// Reads `MAJ,MIN`.
    #[inline]
    pub(crate) fn device(&mut self) -> Result<(u32, u32), Expected> {
        let expected = "a device such as 8,0";
        self.skip_blanks();
        let major = self.digits().ok_or(expected)?;
        self.byte(b',', expected)?;
        let minor = self.digits().ok_or(expected)?;
        Ok((
            u32::try_from(major).map_err(|_| expected)?,
            u32::try_from(minor).map_err(|_| expected)?,
        ))
    }

    /// Reads `SECTOR + SECTORS`.
    #[inline]
    pub(crate) fn range(&mut self) -> Result<(u64, u64), Expected> {
        let sector = self.number("a sector")?;
        self.byte(b'+', "a plus between sector and number of sectors")?;
        let sectors = self.number("a number of sectors")?;
        if sectors > u64::from(u32::MAX) {
            Err("a number of sectors")
        } else {
            Ok((sector, sectors))
        }
    }

    /// Reads a text in parentheses.
    #[inline]
    pub(crate) fn parenthesised(&mut self) -> Result<&'a [u8], Expected> {
        self.byte(b'(', "an opening parenthesis")?;
        let end = memchr::memchr(b')', self.rest).ok_or("a closing parenthesis")?;
        let inside = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Ok(inside)
    }

    /// Returns the text in brackets up to the end of the line, which may contain brackets.
    #[inline]
    pub(crate) fn bracketed_to_end(self) -> Result<&'a [u8], Expected> {
        let expected = "brackets up to the end of the line";
        self.rest().strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")).ok_or(expected)
    }

    /// Returns the text in brackets up to the last closing bracket, and the text after it.
    #[inline]
    pub(crate) fn bracketed_last(self) -> Result<(&'a [u8], &'a [u8]), Expected> {
        let rest = self.rest().strip_prefix(b"[").ok_or("an opening bracket")?;
        let end = memchr::memrchr(b']', rest).ok_or("a closing bracket")?;
        Ok((&rest[..end], rest[end + 1..].trim_ascii()))
    }
}

/// Parses a text that is a decimal number only.
#[inline]
pub(crate) fn whole_number(text: &[u8]) -> Option<u64> {
    let mut cursor = Cursor::new(text);
    let value = cursor.digits()?;
    cursor.rest.is_empty().then_some(value)
}

/// Parses a text like [`whole_number`], with an optional sign.
#[inline]
pub(crate) fn whole_signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => 0i64.checked_sub_unsigned(whole_number(digits)?),
        None => i64::try_from(whole_number(text)?).ok(),
    }
}

/// Parses seconds with up to nine decimals. Returns nanoseconds and the number of decimals.
#[inline]
pub(crate) fn seconds(text: &[u8]) -> Option<(u64, u32)> {
    let mut cursor = Cursor::new(text);
    let seconds = cursor.digits()?;
    let mut fraction = Cursor::new(cursor.rest.strip_prefix(b".")?);
    let count = fraction.rest.len();
    let nanoseconds = fraction.digits()?;
    if !fraction.rest.is_empty() || count > 9 {
        return None;
    }
    let nanoseconds = nanoseconds * 10u64.pow(9 - count as u32);
    Some((seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)?, count as u32))
}
