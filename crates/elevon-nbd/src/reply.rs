//! Replies to requests.

use crate::request::{Agreed, Command, Request};
use crate::wire::{CHUNK, EXTENDED_CHUNK, NbdError, Put, SIMPLE_REPLY, chunk};

/// The number of the context `base:allocation` on every connection.
pub(crate) const ALLOCATION: u32 = 1;

/// A part of an export with one allocation status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes, more than 0.
    pub length: u64,
    /// Nothing is allocated.
    pub hole: bool,
    /// It reads as zeroes.
    pub zero: bool,
}

impl Extent {
    const fn flags(self) -> u32 {
        self.hole as u32 | (self.zero as u32) << 1
    }
}

/// How replies of a connection are encoded. It does not change after the transmission began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyFormat {
    structured: bool,
    extended: bool,
}

impl ReplyFormat {
    pub(crate) const fn new(agreed: Agreed) -> Self {
        Self { structured: agreed.structured, extended: agreed.extended }
    }

    /// Appends the reply to a request that needs no data: it was done.
    ///
    /// # Panics
    /// For a READ with data and for BLOCK_STATUS, which have replies of their own.
    pub fn done(self, out: &mut Vec<u8>, request: &Request) {
        match request.command {
            Command::Read => {
                assert_eq!(request.length, 0, "a READ is answered with its data");
                if self.structured {
                    self.chunk(out, request, chunk::DONE, chunk::NONE, 0);
                } else {
                    simple(out, request.cookie, 0);
                }
            }
            Command::BlockStatus { .. } => panic!("BLOCK_STATUS is answered with extents"),
            _ if self.extended => self.chunk(out, request, chunk::DONE, chunk::NONE, 0),
            _ => simple(out, request.cookie, 0),
        }
    }

    /// Appends the header of the reply to a READ; `request.length` bytes of data follow it.
    pub fn data_follows(self, out: &mut Vec<u8>, request: &Request) {
        debug_assert!(matches!(request.command, Command::Read) && request.length > 0);
        if self.structured {
            self.chunk(out, request, chunk::DONE, chunk::OFFSET_DATA, 8 + request.length);
            out.u64(request.offset);
        } else {
            simple(out, request.cookie, 0);
        }
    }

    /// Appends the whole reply to a READ of zeroes, if it can be said in fewer bytes than these.
    /// Returns false if it cannot.
    pub fn hole(self, out: &mut Vec<u8>, request: &Request) -> bool {
        let Ok(length) = u32::try_from(request.length) else { return false };
        if !self.structured || request.df || length == 0 {
            return false;
        }
        self.chunk(out, request, chunk::DONE, chunk::OFFSET_HOLE, 12);
        out.u64(request.offset);
        out.u32(length);
        true
    }

    /// Appends the reply to BLOCK_STATUS. Extents begin at the request's offset, one after the
    /// other; those beyond its end are left out, and only the first is told if one is enough.
    ///
    /// # Panics
    /// If there is no extent.
    pub fn extents(self, out: &mut Vec<u8>, request: &Request, extents: &[Extent]) {
        assert!(!extents.is_empty(), "a range has an extent");
        let one = matches!(request.command, Command::BlockStatus { one: true });
        let mut left = request.length;
        let mut told: Vec<Extent> = Vec::new();
        for extent in extents {
            if left == 0 || (one && !told.is_empty()) {
                break;
            }
            let most = if self.extended { u64::MAX } else { u64::from(u32::MAX) & !0xffff };
            let length = extent.length.min(left).min(most);
            told.push(Extent { length, ..*extent });
            left -= length;
            if length < extent.length && left > 0 {
                break;
            }
        }
        let each = if self.extended { 16 } else { 8 };
        let (kind, head) =
            if self.extended { (chunk::BLOCK_STATUS_EXT, 8) } else { (chunk::BLOCK_STATUS, 4) };
        self.chunk(out, request, chunk::DONE, kind, head + each * told.len() as u64);
        out.u32(ALLOCATION);
        if self.extended {
            out.u32(told.len() as u32);
        }
        for extent in told {
            if self.extended {
                out.u64(extent.length);
                out.u64(extent.flags().into());
            } else {
                out.u32(extent.length as u32);
                out.u32(extent.flags());
            }
        }
    }

    /// Appends the reply to a request that failed; `text` is for people.
    pub fn error(self, out: &mut Vec<u8>, request: &Request, error: NbdError, text: &str) {
        let in_chunks = matches!(request.command, Command::Read | Command::BlockStatus { .. });
        self.error_of(
            out,
            (request.cookie, request.offset, request.length),
            in_chunks,
            error,
            text,
        );
    }

    /// The same for a request that may not be valid: cookie, offset and length as they came.
    pub(crate) fn error_of(
        self,
        out: &mut Vec<u8>,
        of: (u64, u64, u64),
        in_chunks: bool,
        error: NbdError,
        text: &str,
    ) {
        if !(self.extended || self.structured && in_chunks) {
            return simple(out, of.0, error.code());
        }
        let text = cut(text).as_bytes();
        self.head(out, of, chunk::DONE, chunk::ERROR, 6 + text.len() as u64);
        out.u32(error.code());
        out.u16(text.len() as u16);
        out.extend_from_slice(text);
    }

    fn chunk(self, out: &mut Vec<u8>, request: &Request, flags: u16, kind: u16, length: u64) {
        self.head(out, (request.cookie, request.offset, request.length), flags, kind, length);
    }

    fn head(self, out: &mut Vec<u8>, of: (u64, u64, u64), flags: u16, kind: u16, length: u64) {
        out.u32(if self.extended { EXTENDED_CHUNK } else { CHUNK });
        out.u16(flags);
        out.u16(kind);
        out.u64(of.0);
        if self.extended {
            out.u64(of.1);
            out.u64(length);
        } else {
            out.u32(length as u32);
        }
    }
}

/// Bytes of a text in an error that are kept.
const TEXT_MAX: usize = 256;

/// Returns the beginning of a text, which ends with a whole character.
fn cut(text: &str) -> &str {
    let end =
        (0..=TEXT_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

fn simple(out: &mut Vec<u8>, cookie: u64, error: u32) {
    out.u32(SIMPLE_REPLY);
    out.u32(error);
    out.u64(cookie);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIMPLE: ReplyFormat = ReplyFormat { structured: false, extended: false };
    const STRUCTURED: ReplyFormat = ReplyFormat { structured: true, extended: false };
    const EXTENDED: ReplyFormat = ReplyFormat { structured: true, extended: true };

    fn request(command: Command, offset: u64, length: u64) -> Request {
        Request { cookie: 0x0102_0304_0506_0708, command, offset, length, fua: false, df: false }
    }

    fn bytes(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out);
        out
    }

    #[test]
    fn a_simple_reply_has_sixteen_bytes() {
        let flush = request(Command::Flush, 0, 0);
        let wanted = [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(bytes(|out| SIMPLE.done(out, &flush)), wanted);
        assert_eq!(
            bytes(|out| STRUCTURED.done(out, &flush)),
            wanted,
            "also with structured replies"
        );
        let failed = bytes(|out| STRUCTURED.error(out, &flush, NbdError::Io, "the disk is gone"));
        assert_eq!((failed.len(), failed[7]), (16, 5));
    }

    #[test]
    fn reads_are_chunks_once_that_was_agreed() {
        let read = request(Command::Read, 0x1000, 512);
        let head = bytes(|out| STRUCTURED.data_follows(out, &read));
        let wanted = [
            &[0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 2, 8][..],
            &0x1000_u64.to_be_bytes(),
        ];
        assert_eq!(head, wanted.concat());
        let failed = bytes(|out| STRUCTURED.error(out, &read, NbdError::Io, "gone"));
        assert_eq!(failed[4..8], [0, 1, 0x80, 1]);
        assert_eq!(failed[16..], [0, 0, 0, 10, 0, 0, 0, 5, 0, 4, b'g', b'o', b'n', b'e']);
        assert_eq!(bytes(|out| SIMPLE.data_follows(out, &read)).len(), 16);
    }

    #[test]
    fn zeroes_are_told_where_they_may_be() {
        let read = request(Command::Read, 4096, 1 << 20);
        let hole = bytes(|out| assert!(STRUCTURED.hole(out, &read)));
        assert_eq!(
            hole[16..],
            [&12_u32.to_be_bytes()[..], &4096_u64.to_be_bytes(), &(1_u32 << 20).to_be_bytes()]
                .concat()
        );
        for (format, read) in [(SIMPLE, read), (STRUCTURED, Request { df: true, ..read })] {
            assert!(bytes(|out| assert!(!format.hole(out, &read))).is_empty());
        }
    }

    #[test]
    fn extents_end_with_the_request() {
        let status = request(Command::BlockStatus { one: false }, 0, 10_000);
        let data = Extent { length: 4096, hole: false, zero: false };
        let hole = Extent { length: 1 << 40, hole: true, zero: true };
        let told = bytes(|out| STRUCTURED.extents(out, &status, &[data, hole]));
        let wanted: Vec<u8> =
            [1_u32, 4096, 0, 10_000 - 4096, 3].iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(told[20..], wanted);
        let one = Request { command: Command::BlockStatus { one: true }, ..status };
        assert_eq!(bytes(|out| STRUCTURED.extents(out, &one, &[data, hole])).len(), 20 + 12);
        let extended = bytes(|out| EXTENDED.extents(out, &status, &[data, hole]));
        assert_eq!(extended[32..40], [0, 0, 0, 1, 0, 0, 0, 2]);
        assert_eq!(extended.len(), 32 + 8 + 32);
    }

    #[test]
    fn an_extent_longer_than_its_field_ends_the_answer() {
        let length = 3 << 32;
        let status = request(Command::BlockStatus { one: false }, 0, length);
        let told = bytes(|out| {
            STRUCTURED.extents(out, &status, &[Extent { length, hole: true, zero: true }]);
        });
        assert_eq!(told[24..28], 0xffff_0000_u32.to_be_bytes());
        assert_eq!(told.len(), 20 + 4 + 8);
    }
}
