//! The part of protobuf's wire format that is written here: numbers as varints, and fields with a
//! length.

use std::io::{self, Write};

/// Wire type of a varint.
const VARINT: u32 = 0;
/// Wire type of a field with a length.
const LENGTH: u32 = 2;

/// A message that is being built; its memory is reused.
#[derive(Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// Appends a number.
    pub(super) fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field << 3 | VARINT));
        self.varint(value);
    }
    /// Appends a string, bytes or a message.
    pub(super) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.varint(u64::from(field << 3 | LENGTH));
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }
    /// Appends encoded fields.
    pub(super) fn append(&mut self, fields: &[u8]) {
        self.bytes.extend_from_slice(fields);
    }
    fn varint(&mut self, value: u64) {
        let (bytes, len) = varint(value);
        self.bytes.extend_from_slice(&bytes[..len]);
    }
}

/// Writes a field with a length directly to an output.
pub(super) fn write_field(out: &mut impl Write, field: u32, value: &[u8]) -> io::Result<()> {
    for number in [u64::from(field << 3 | LENGTH), value.len() as u64] {
        let (bytes, len) = varint(number);
        out.write_all(&bytes[..len])?;
    }
    out.write_all(value)
}

/// Encodes a varint: seven bits per byte, lowest first; the top bit is set if more bytes follow.
fn varint(mut value: u64) -> ([u8; 10], usize) {
    let (mut bytes, mut len) = ([0; 10], 0);
    loop {
        let low = value as u8 & 0x7f;
        value >>= 7;
        bytes[len] = if value == 0 { low } else { low | 0x80 };
        len += 1;
        if value == 0 {
            return (bytes, len);
        }
    }
}
