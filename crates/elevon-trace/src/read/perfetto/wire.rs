//! Reads the fields of a protobuf message in place.

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A varint.
    Number(u64),
    /// Bytes, a text or a message.
    Bytes(&'a [u8]),
    /// Four or eight bytes.
    Fixed(u64),
}

impl<'a> Value<'a> {
    /// Returns the number, of any width; 0 for bytes.
    #[inline]
    pub(super) const fn number(self) -> u64 {
        match self {
            Self::Number(number) | Self::Fixed(number) => number,
            Self::Bytes(_) => 0,
        }
    }

    /// Returns the bytes; empty for a number.
    #[inline]
    pub(super) const fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) | Self::Fixed(_) => &[],
        }
    }
}

/// Reads a varint at the front. Returns it and the bytes after it.
#[inline]
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    if let [first, rest @ ..] = bytes
        && *first < 0x80
    {
        return Some((u64::from(*first), rest));
    }
    let mut value = 0u64;
    for (n, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * n as u32)?;
        if byte < 0x80 {
            return Some((value, &bytes[n + 1..]));
        }
    }
    None
}

/// Yields the fields of a message as number and value. Ends at the end of the message, or with an
/// error if the bytes are not a message.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

/// The bytes are not a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoMessage;

impl<'a> Fields<'a> {
    pub(super) const fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Returns the number of bytes that have not been read.
    pub(super) const fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let (key, rest) = varint(self.rest)?;
        let (value, rest) = match key & 7 {
            0 => {
                let (number, rest) = varint(rest)?;
                (Value::Number(number), rest)
            }
            1 => {
                let (bytes, rest) = rest.split_first_chunk()?;
                (Value::Fixed(u64::from_le_bytes(*bytes)), rest)
            }
            2 => {
                let (length, rest) = varint(rest)?;
                let (bytes, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                (Value::Bytes(bytes), rest)
            }
            5 => {
                let (bytes, rest) = rest.split_first_chunk()?;
                (Value::Fixed(u64::from(u32::from_le_bytes(*bytes))), rest)
            }
            _ => return None,
        };
        self.rest = rest;
        Some((u32::try_from(key >> 3).ok().filter(|&number| number > 0)?, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), NoMessage>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field().ok_or(NoMessage);
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Returns true if the bytes start with fields of a message.
pub(super) fn looks_like_message(bytes: &[u8]) -> bool {
    Fields::of(bytes).take(64).all(|field| field.is_ok())
}
