//! Reads the bytes of a trace file: decompresses them if necessary, lets callers look ahead, and
//! returns them in place.
//!
//! Memory is bounded for any content: a line or record that does not fit is cut or skipped.

use std::io::{self, Read};

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use memchr::{memchr, memmem};

use crate::archives;
use crate::report::Position;
use crate::sink::Sink;

/// Maximum length in bytes of a line or record that is returned whole.
pub(crate) const MAX_PIECE: usize = 1 << 20;
/// Bytes that are read at once.
const CHUNK: usize = 1 << 16;
/// Bytes that are decompressed at once: what is decompressed together with damage is lost.
const UNPACKED: usize = 1 << 13;
/// Maximum nesting of compressed data.
const MAX_LAYERS: usize = 3;

/// Bytes that are looked at for what `atrace -z` prints before what it compresses.
const ATRACE_HEAD: usize = 128;

/// Returns true for the start of data that zlib compressed, at any level but 2 to 5, whose start is
/// text.
const fn is_zlib(head: &[u8]) -> bool {
    matches!(head, [0x78, 0x01 | 0x9c | 0xda, ..])
}

/// Returns the place of what `atrace -z` compresses by zlib, behind its line `TRACE:`.
fn behind_mark(head: &[u8]) -> Option<usize> {
    const MARK: &[u8] = b"TRACE:\n";
    let at = memmem::find(&head[..head.len().min(ATRACE_HEAD)], MARK)? + MARK.len();
    is_zlib(&head[at..]).then_some(at)
}

/// A buffered input.
pub(crate) struct Input {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Position of `buffer[start]` in the decompressed content.
    offset: u64,
    at_end: bool,
    /// True if the compressed content ended early or is damaged; the content before that was
    /// returned.
    damaged: bool,
    is_compressed: bool,
}

impl Input {
    /// Creates an input, which decompresses the content if it is compressed.
    ///
    /// # Errors
    /// Returns an error of the source.
    pub(crate) fn new(source: Box<dyn Read + Send>) -> io::Result<Self> {
        Self::plain(source, false).unpacked()
    }

    /// Creates an input of what a layer makes of another input, and decompresses that.
    ///
    /// # Errors
    /// Returns an error of the source.
    pub(crate) fn layered(layer: impl Read + Send + 'static) -> io::Result<Self> {
        Self::plain(Box::new(layer), true).unpacked()
    }

    fn unpacked(self) -> io::Result<Self> {
        let mut input = self;
        for _ in 0..MAX_LAYERS {
            input.fill_to(ATRACE_HEAD)?;
            if let Some(at) = behind_mark(input.buffered()) {
                input.consume(at);
            }
            let source: Box<dyn Read + Send> = match input.buffered() {
                [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(input)),
                head if is_zlib(head) => Box::new(ZlibDecoder::new(input)),
                // pzstd writes the length of a frame into one before it, which is skipped.
                [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                    archives::of_zstd(input)?
                }
                [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => archives::of_xz(input)?,
                _ => return Ok(input),
            };
            input = Self::plain(source, true);
        }
        Ok(input)
    }

    fn plain(source: Box<dyn Read + Send>, is_compressed: bool) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset: 0,
            at_end: false,
            damaged: false,
            is_compressed,
        }
    }

    /// Creates an input without content.
    pub(crate) fn empty() -> Self {
        Self::plain(Box::new(io::empty()), false)
    }

    /// Returns the bytes that are buffered and not consumed.
    #[inline]
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Returns the position of the first byte of [`Self::buffered`].
    #[inline]
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Removes bytes from the front of [`Self::buffered`].
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start, "no more is consumed than is there");
        self.start += count;
        self.offset += count as u64;
    }

    /// Returns true if the compressed content is damaged behind what was buffered.
    pub(crate) const fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// Counts damage of the compressed content; must be called at the end.
    pub(crate) fn report_damage(&self, file: u32, sink: &mut Sink) {
        if self.damaged {
            sink.skip(file, Position::Byte(self.offset), "compressed data that is whole");
        }
    }

    /// Buffers at least `count` bytes, or all remaining ones. Callers bound the count independently
    /// of the content. Returns true if there are that many.
    ///
    /// # Errors
    /// Returns an error of the source. Damage of compressed content counts as the end, see
    /// [`Self::report_damage`].
    #[inline]
    pub(crate) fn fill_to(&mut self, count: usize) -> io::Result<bool> {
        if self.end - self.start >= count {
            return Ok(true);
        }
        self.fill_more(count)
    }

    fn fill_more(&mut self, count: usize) -> io::Result<bool> {
        while self.end - self.start < count && !self.at_end {
            // The remaining bytes are moved to the front only if there is no space behind them,
            // which is rare.
            if self.buffer.len() < self.start + count + CHUNK {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            let room = 2 * count + CHUNK;
            if self.buffer.len() < room {
                self.buffer.resize(room, 0);
            }
            let room = if self.is_compressed { UNPACKED } else { usize::MAX }
                .min(self.buffer.len() - self.end);
            match self.source.read(&mut self.buffer[self.end..][..room]) {
                Ok(0) => self.at_end = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if self.is_compressed && is_damage(&error) => {
                    self.at_end = true;
                    self.damaged = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.end - self.start >= count)
    }

    /// Buffers a whole line and returns the length of its content and of the line with its end;
    /// `None` at the end of the input. A line longer than [`MAX_PIECE`] is returned in pieces.
    ///
    /// # Errors
    /// Returns an error of the source.
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

/// Returns true for an error that a decoder reports for the content of a file, not for reading it.
fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::Other
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
