//! Bytes of a trace file: decompressed if need be, looked at before they are read, handed out in
//! place.
//!
//! Memory is bounded whatever the file holds: a line or record that does not fit is cut or skipped.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use memchr::memchr;

use crate::report::Position;
use crate::sink::Sink;

/// Longest line or record that is handed out whole.
pub(crate) const MAX_PIECE: usize = 1 << 20;
/// Bytes that are asked for at once.
const CHUNK: usize = 1 << 16;
/// How often compressed data may hold compressed data.
const MAX_LAYERS: usize = 3;

/// A buffered input.
pub(crate) struct Input {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Position of `buffer[start]` in the decompressed content.
    offset: u64,
    is_over: bool,
    /// The compressed content ended early or is damaged; what came before it has been handed out.
    damaged: bool,
    is_compressed: bool,
}

impl Input {
    /// Takes compression off, if there is any.
    ///
    /// # Errors
    /// Of the source.
    pub(crate) fn new(source: Box<dyn Read + Send>) -> io::Result<Self> {
        let mut input = Self::plain(source, false);
        for _ in 0..MAX_LAYERS {
            input.fill_to(4)?;
            let source: Box<dyn Read + Send> = match input.buffered() {
                [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(input)),
                [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::new(input)?),
                _ => return Ok(input),
            };
            input = Self::plain(source, true);
        }
        Ok(input)
    }

    fn plain(source: Box<dyn Read + Send>, is_compressed: bool) -> Self {
        Self { source, buffer: Vec::new(), start: 0, end: 0, offset: 0, is_over: false, damaged: false, is_compressed }
    }

    /// An input without content.
    pub(crate) fn empty() -> Self {
        Self::plain(Box::new(io::empty()), false)
    }

    /// What is buffered and not consumed.
    #[inline]
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Position of the first byte of [`Self::bytes`].
    #[inline]
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes bytes off the front of [`Self::bytes`].
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start, "no more is consumed than is there");
        self.start += count;
        self.offset += count as u64;
    }

    /// Counts damage of the compressed content; to be called at the end.
    pub(crate) fn report_damage(&self, file: u32, sink: &mut Sink) {
        if self.damaged {
            sink.skip(file, Position::Byte(self.offset), "compressed data that is whole");
        }
    }

    /// Buffers at least `count` bytes, or all that is left. Callers bound the count, whatever a
    /// file claims. Returns whether there are so many.
    ///
    /// # Errors
    /// Of the source; damage of compressed content is an end of it, see [`Self::report_damage`].
    #[inline]
    pub(crate) fn fill_to(&mut self, count: usize) -> io::Result<bool> {
        if self.end - self.start >= count {
            return Ok(true);
        }
        self.fill_more(count)
    }

    fn fill_more(&mut self, count: usize) -> io::Result<bool> {
        while self.end - self.start < count && !self.is_over {
            // What is left moves to the front only if there is no room behind it, so that it rarely
            // moves.
            if self.buffer.len() < self.start + count + CHUNK {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            let room = 2 * count + CHUNK;
            if self.buffer.len() < room {
                self.buffer.resize(room, 0);
            }
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.is_over = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if self.is_compressed && is_damage(&error) => {
                    self.is_over = true;
                    self.damaged = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.end - self.start >= count)
    }

    /// Buffers a whole line and returns the length of its content and of the line with its end;
    /// `None` at the end of the input. A line longer than [`MAX_PIECE`] comes in pieces.
    ///
    /// # Errors
    /// Of the source.
    #[inline]
    pub(crate) fn line(&mut self) -> io::Result<Option<(usize, usize)>> {
        let mut searched = 0;
        loop {
            let bytes = self.buffered();
            if let Some(at) = memchr(b'\n', &bytes[searched..]) {
                return Ok(Some((searched + at, searched + at + 1)));
            }
            searched = bytes.len();
            if searched >= MAX_PIECE {
                return Ok(Some((searched, searched)));
            }
            if !self.fill_to(searched + 1)? {
                return Ok((searched > 0).then_some((searched, searched)));
            }
        }
    }
}

/// Errors that decoders report for what is in the file, and not for reading it.
fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof | io::ErrorKind::Other
    ) && error.raw_os_error().is_none()
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end {
            return self.source.read(buffer);
        }
        let count = buffer.len().min(self.end - self.start);
        buffer[..count].copy_from_slice(&self.buffered()[..count]);
        self.consume(count);
        Ok(count)
    }
}
