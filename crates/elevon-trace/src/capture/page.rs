//! Pages of the kernel's ring buffer, as `trace_pipe_raw` hands them out.
//!
//! A page begins with the time of its first entry and the number of bytes in use. An entry begins
//! with 5 bits of type and 27 bits of nanoseconds since the entry before:
//!
//! | type | what follows |
//! |---|---|
//! | 1 to 28 | a record of so many words of 4 bytes |
//! | 0 | the record's length in bytes, itself included, then the record |
//! | 29 | nothing in use: up to the page's end, or so many bytes as the next word says |
//! | 30 | the upper bits of the difference in time |
//! | 31 | the upper bits of a time by itself |
//!
//! Everything is in the byte order and word size of the machine that traces itself.

use std::ops::Range;

/// Where the parts of a page lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageLayout {
    pub(super) commit: usize,
    pub(super) commit_size: usize,
    pub(super) data: usize,
    /// Bytes of a page.
    pub(super) len: usize,
}

/// Events before the page were overwritten: bit of the commit word.
const MISSED: u32 = 1 << 31;
/// How many stands behind the last entry.
const MISSED_STORED: u32 = 1 << 30;
/// Bits of the commit word that count bytes.
const COMMIT_BITS: u32 = 0xf_ffff;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of the difference in time in an entry's first word.
const DELTA_BITS: u32 = 27;
/// Bits of a time by itself; those above are of the time before.
const STAMP_BITS: u32 = 59;

/// Events that were overwritten before a page was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missed {
    /// How many, if the page had room to say so.
    pub(super) events: Option<u64>,
}

impl Missed {
    /// Returns both as one.
    pub(super) fn and(self, later: Self) -> Self {
        let both = self.events.zip(later.events);
        Self { events: both.map(|(before, now)| before.saturating_add(now)) }
    }
}

impl PageLayout {
    /// Whether events before this page were lost.
    pub(super) fn missed(&self, page: &[u8]) -> Option<Missed> {
        let commit = word(page, self.commit)?;
        if commit & MISSED == 0 {
            return None;
        }
        let at = self.data + (commit & COMMIT_BITS) as usize;
        let stored =
            if self.commit_size == 4 { word(page, at).map(u64::from) } else { long(page, at) };
        Some(Missed { events: stored.filter(|_| commit & MISSED_STORED != 0) })
    }

    /// The records of a page, oldest first. Never panics, whatever the page holds.
    pub(super) fn entries<'a>(&self, page: &'a [u8]) -> Entries<'a> {
        let used = word(page, self.commit).map_or(0, |commit| (commit & COMMIT_BITS) as usize);
        let end = self.data.saturating_add(used).min(page.len());
        Entries { page: &page[..end], at: self.data, time: long(page, 0).unwrap_or(0) }
    }
}

/// Walks the records of a page: their times in nanoseconds of the trace's clock, and their places.
#[derive(Clone, Debug)]
pub(super) struct Entries<'a> {
    /// The page, up to the end of what is in use.
    page: &'a [u8],
    at: usize,
    time: u64,
}

impl Iterator for Entries<'_> {
    type Item = (u64, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let head = word(self.page, self.at)?;
            let (kind, delta) = if cfg!(target_endian = "little") {
                (head & 31, u64::from(head >> 5))
            } else {
                (head >> DELTA_BITS, u64::from(head & ((1 << DELTA_BITS) - 1)))
            };
            let body = self.at + 4;
            match kind {
                PADDING if delta == 0 => return None,
                PADDING => {
                    self.time = self.time.wrapping_add(delta);
                    self.at = body.checked_add(word(self.page, body)? as usize)?;
                }
                TIME_EXTEND => {
                    let high = u64::from(word(self.page, body)?) << DELTA_BITS;
                    self.time = self.time.wrapping_add(high | delta);
                    self.at = body + 4;
                }
                TIME_STAMP => {
                    let stamp = (u64::from(word(self.page, body)?) << DELTA_BITS | delta)
                        & ((1 << STAMP_BITS) - 1);
                    self.time = self.time >> STAMP_BITS << STAMP_BITS | stamp;
                    self.at = body + 4;
                }
                _ => {
                    self.time = self.time.wrapping_add(delta);
                    let (start, length) = match kind {
                        0 => (body + 4, (word(self.page, body)? as usize).checked_sub(4)?),
                        words => (body, words as usize * 4),
                    };
                    let end = start.checked_add(length)?;
                    self.page.get(start..end)?;
                    self.at = end.next_multiple_of(4);
                    return Some((self.time, start..end));
                }
            }
        }
    }
}

/// The 4 bytes at a place as a number.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// The 8 bytes at a place as a number.
pub(super) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}
