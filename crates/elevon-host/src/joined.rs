//! Several files and block devices as the parts of one device: a pool, whose parts share a queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use elevon_core::limits::QueueLimits;
use elevon_core::units::{Bytes, Sector};

use crate::file::HostFile;

/// The bytes of a pool's address space that each part has: part n begins at byte n * SLOT. No file
/// of a common file system is longer, and none grows into the next part.
pub const SLOT: u64 = 1 << 56;

/// The most parts of a pool: the kernel's offsets end at 2^63.
pub const MAX_PARTS: usize = 127;

impl HostFile {
    /// Makes one device of several. Its limits are the strictest of theirs.
    ///
    /// # Panics
    /// If there is none, or there are more than [`MAX_PARTS`].
    pub fn joined(parts: Vec<Self>) -> Self {
        assert!((1..=MAX_PARTS).contains(&parts.len()), "a pool of {} parts", parts.len());
        let count = parts.len() as u64;
        let limits =
            parts.iter().map(|part| part.limits.clone()).reduce(strictest).expect("there are some");
        let notes = parts.iter().flat_map(|part| part.notes.clone()).collect();
        let mut parts = parts.into_iter();
        let first = parts.next().expect("there are some");
        Self {
            limits,
            notes,
            size: Bytes::new(count * SLOT).sectors_floor(),
            others: parts.collect(),
            ..first
        }
    }

    /// Yields the parts; a file that is no pool is its own.
    pub fn parts(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// Returns the part of a sector, and the byte there.
    #[inline]
    pub(crate) fn part_at(&self, sector: Sector) -> (&Self, u64) {
        let offset = sector.byte_offset().get();
        match self.others.is_empty() {
            true => (self, offset),
            false => (
                (offset / SLOT).checked_sub(1).map_or(self, |at| &self.others[at as usize]),
                offset % SLOT,
            ),
        }
    }
}

/// Returns limits that hold on both devices.
fn strictest(one: QueueLimits, other: QueueLimits) -> QueueLimits {
    QueueLimits {
        logical_block_size: one.logical_block_size.max(other.logical_block_size),
        physical_block_size: one.physical_block_size.max(other.physical_block_size),
        max_hw_sectors: one.max_hw_sectors.min(other.max_hw_sectors),
        max_segments: one.max_segments.min(other.max_segments),
        max_hw_discard_sectors: one.max_hw_discard_sectors.min(other.max_hw_discard_sectors),
        discard_granularity: one.discard_granularity.max(other.discard_granularity),
        max_write_zeroes_sectors: one.max_write_zeroes_sectors.min(other.max_write_zeroes_sectors),
        rotational: one.rotational || other.rotational,
        // A write is atomic within a part only where all of them agree.
        atomic_write_max: 0,
        atomic_write_unit_min: 0,
        atomic_write_unit_max: 0,
        atomic_write_boundary: 0,
        ..one
    }
}

/// What was written to each part of a pool and not flushed yet: a flush leaves clean parts out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unflushed(Arc<Vec<Part>>);

/// Writes to a part that have completed, and those of them that a flush has covered.
#[derive(Debug, Default)]
struct Part {
    written: AtomicU64,
    flushed: AtomicU64,
}

impl Unflushed {
    pub(crate) fn from_file(file: &HostFile) -> Self {
        Self(Arc::new(file.parts().map(|_| Part::default()).collect()))
    }

    /// A write has completed and was not reported yet: a flush that begins later covers it.
    pub(crate) fn wrote(&self, sector: Sector) {
        if self.0.len() > 1 {
            self.0[(sector.byte_offset().get() / SLOT) as usize]
                .written
                .fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Flushes each part that was written, by `flush` of its index. Returns the first error.
    pub(crate) fn flush<E>(&self, mut flush: impl FnMut(usize) -> Result<(), E>) -> Result<(), E> {
        for (index, part) in self.0.iter().enumerate() {
            let written = part.written.load(Ordering::SeqCst);
            if self.0.len() == 1 || written != part.flushed.load(Ordering::SeqCst) {
                flush(index)?;
                part.flushed.fetch_max(written, Ordering::SeqCst);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_what_had_completed_when_it_began() {
        let unflushed = Unflushed(Arc::new((0..3).map(|_| Part::default()).collect()));
        let at = |part: u64| Sector::ZERO + Bytes::new(part * SLOT).sectors_floor();
        let flushed = |during: Option<u64>| {
            let mut all = Vec::new();
            let flush = |part: usize| {
                all.push(part);
                during.into_iter().for_each(|part| unflushed.wrote(at(part)));
                Ok::<(), ()>(())
            };
            unflushed.flush(flush).expect("no error");
            all
        };
        assert_eq!(flushed(None), [0; 0], "nothing was written");
        unflushed.wrote(at(2));
        unflushed.wrote(at(0));
        assert_eq!(flushed(Some(0)), [0, 2]);
        assert_eq!(flushed(None), [0], "what completed during a flush is of the next");
        unflushed.wrote(at(1));
        assert_eq!(unflushed.flush(|_| Err(5)), Err(5));
        assert_eq!(flushed(None), [1], "a flush that failed covers nothing");
    }
}
