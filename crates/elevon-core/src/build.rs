//! Building bios: how many bytes of a buffer the next bio takes.
//!
//! A bio holds at most [`BIO_MAX_VECS`] vectors, and a vector is a whole run of physically
//! contiguous memory. So the size of a bio depends on the physical positions of the buffer's pages,
//! and queue limits are not checked (as in every Linux to 6.19, measured). Full bios are therefore
//! slightly larger than 1 MiB and rarely a multiple of the queue's limit, and their splits leave
//! small tails: proposal 001. From 7.0 a vector of direct I/O does not reach beyond its folio, so
//! that a full bio of ordinary pages has exactly 256 pages. [`Fill`] selects one of these or one of
//! the proposed solutions.
//!
//! For the I/O of a trace the ends of full bios are known instead of the memory
//! ([`Layout::with_bio_ends`]).
//!
//! Cost: O(1) if the rest of the buffer is one run or at most 256 pages, else O(log runs) for one
//! bio of any size.

use crate::bio::BIO_MAX_VECS;
use crate::kernel::Rules;
use crate::layout::Layout;
use crate::limits::QueueLimits;
use crate::units::{PAGE_SIZE, SECTOR_SIZE, Sector, Sectors};

/// The length of a bio is stored in 32 bits.
pub(crate) const BIO_MAX_BYTES: u64 = u32::MAX as u64;

/// When a bio of direct I/O is full (proposal 001).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fill {
    /// When its vectors are used up, as in the Linux of the kernel version: a vector is a run of
    /// contiguous pages, from 7.0 as [`Self::Folio`].
    #[default]
    Full,
    /// When its vectors are used up, where a vector is a part of one folio, taken in one batch of
    /// as many pages as there are free vectors (Linux 7.0 and later, measured on 7.0 and 7.3).
    Folio,
    /// The proposal (Ed Tsai, 2023, not merged): before the page with which it would exceed the
    /// queue's `max_sectors`. The rest goes into the next bio of the same call.
    MaxSectors,
    /// The counter-proposal in the thread (Ming Lei, V1, 2023, not merged): when its vectors are
    /// used up; if data is left, the bio is then cut to a multiple of `max_sectors`. The patch
    /// computes the surplus with a mask, which is correct only for powers of two: for 1280 KiB it
    /// cuts at wrong places, and so does this code.
    Trim,
    /// An earlier draft of [`Self::Trim`], of which a measurement was published (third point in the
    /// thread): the bio is cut to a multiple of 256 KiB, whatever the queue's limit.
    Trim256K,
}

/// [`Fill::Trim256K`] cuts to a multiple of this.
const DRAFT_UNIT: u64 = 256 << 10;

impl Fill {
    /// All fills.
    pub const ALL: [Self; 5] =
        [Self::Full, Self::Folio, Self::MaxSectors, Self::Trim, Self::Trim256K];

    /// Returns the name for `--set fill=`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Folio => "folio",
            Self::MaxSectors => "max-sectors",
            Self::Trim => "trim",
            Self::Trim256K => "trim-256k",
        }
    }

    /// Returns the fill with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fill| fill.name() == name)
    }

    /// Returns the fill that takes effect on a kernel with these rules.
    pub const fn under(self, rules: &Rules) -> Self {
        match self {
            Self::Full if rules.direct_fill_per_folio => Self::Folio,
            other => other,
        }
    }
}

/// Which path of the kernel builds the bio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoPath {
    /// Direct I/O from a user's buffer. The buffer is pinned in batches no larger than the number
    /// of free vectors, so of the 256th run only the first page is taken.
    Direct,
    /// The page cache. It adds a page to the last vector before it checks if the bio is full, so
    /// the 256th run is taken whole. No [`Fill`] except the full one was proposed for it.
    Buffered,
}

/// Returns how many bytes of a buffer the next bio takes at `offset`. `remaining` bytes (at least
/// one, and a multiple of the logical block size) are still to go. The result is at least one
/// logical block and at most `remaining`.
///
/// `remaining` ends at the end of the caller's extent: a bio never spans two extents of a file.
#[inline]
pub fn next_bio_bytes(
    layout: &Layout,
    offset: u64,
    remaining: u64,
    path: IoPath,
    fill: Fill,
    limits: &QueueLimits,
) -> u64 {
    debug_assert!(remaining > 0 && offset + remaining <= layout.len());
    // The usual case, a small or contiguous I/O, does not need the runs.
    let is_small = || layout.page_offset(offset) + remaining <= BIO_MAX_VECS as u64 * PAGE_SIZE;
    let is_one_run = layout.runs().len() == 1 && fill != Fill::Folio;
    let fits = layout.bio_ends().is_empty() && (is_one_run || is_small());
    let is_short =
        matches!(fill, Fill::Full | Fill::Folio) || remaining <= limits.max_sectors.bytes().get();
    if fits && is_short && remaining <= BIO_MAX_BYTES - PAGE_SIZE {
        return remaining;
    }
    long_bio_bytes(layout, offset, remaining, path, fill, limits)
}

fn long_bio_bytes(
    layout: &Layout,
    offset: u64,
    remaining: u64,
    path: IoPath,
    fill: Fill,
    limits: &QueueLimits,
) -> u64 {
    let block = u64::from(limits.logical_block_size);
    let end = match (path, fill) {
        (IoPath::Direct, Fill::Folio) => folio_vectors_end(layout, offset, remaining),
        _ => vectors_end(layout, offset, path),
    };
    let full = end.saturating_sub(offset).min(remaining).min(BIO_MAX_BYTES);
    let full = round_down(full, block);
    if path == IoPath::Buffered {
        return full;
    }
    let most = limits.max_sectors.bytes().get();
    let bytes = match fill {
        Fill::Full | Fill::Folio => full,
        Fill::MaxSectors if full <= most => full,
        Fill::MaxSectors => {
            let first = PAGE_SIZE - layout.page_offset(offset);
            let pages = round_down(most.saturating_sub(first), PAGE_SIZE);
            round_down(first + pages, block)
        }
        Fill::Trim | Fill::Trim256K if full == remaining => full,
        Fill::Trim => trimmed(full, most),
        Fill::Trim256K => trimmed(full, DRAFT_UNIT),
    };
    // With a limit of one page and a buffer that starts inside a page, nothing would be left, and
    // an empty bio would cause an endless loop.
    bytes.max(block).min(remaining)
}

/// Returns the end of a full bio that begins at `offset`, from the ends of bios that began at 0 and
/// at these ends; `None` if no vectors are used up in the rest of the buffer.
///
/// The vectors are taken to be spread evenly over each of those bios: a bio that begins inside one
/// of them ends as far inside the next. What follows the last end is as dense as the bio before it.
fn known_end(ends: &[u64], offset: u64) -> Option<u64> {
    let at = ends.partition_point(|&end| end <= offset);
    let end = *ends.get(at)?;
    let start = at.checked_sub(1).map_or(0, |before| ends[before]);
    let (into, len) = (offset - start, end - start);
    let next_len = ends.get(at + 1).map_or(len, |next| next - end);
    let more = u128::from(into) * u128::from(next_len) / u128::from(len);
    // No more than `next_len`, since `into` is less than `len`.
    Some(if into == 0 { end } else { round_down(end + more as u64, PAGE_SIZE).max(end) })
}

/// Returns the length of a full bio without the surplus over a multiple of `unit`, as a mask
/// computes it; the full length if nothing would be left.
const fn trimmed(full: u64, unit: u64) -> u64 {
    match full & (unit - 1) {
        surplus if surplus == full => full,
        surplus => full - surplus,
    }
}

/// Returns the offset in the buffer at which the vectors of a bio that begins at `offset` are used
/// up.
fn vectors_end(layout: &Layout, offset: u64, path: IoPath) -> u64 {
    if !layout.bio_ends().is_empty() {
        return known_end(layout.bio_ends(), offset).unwrap_or(layout.len());
    }
    let runs = layout.runs();
    let first = layout.run_at(offset);
    let run = match path {
        IoPath::Direct => {
            runs.get(first + BIO_MAX_VECS - 1).map(|last| last.start + last.len.min(PAGE_SIZE))
        }
        IoPath::Buffered => runs.get(first + BIO_MAX_VECS).map(|after| after.start),
    };
    run.unwrap_or(layout.len())
}

/// Returns the offset in the buffer at which the vectors of a bio that begins at `offset` are used
/// up, if a vector is a part of one folio. Pages are taken in batches of as many as there are free
/// vectors; the first page of a batch begins a vector.
fn folio_vectors_end(layout: &Layout, offset: u64, remaining: u64) -> u64 {
    let last = offset + remaining;
    let (mut at, mut vectors) = (offset, 0);
    while vectors < BIO_MAX_VECS && at < last {
        let pages = (BIO_MAX_VECS - vectors) as u64;
        let batch = (at + pages * PAGE_SIZE - layout.page_offset(at)).min(last);
        while at < batch {
            at = layout.folio_end(at).min(batch);
            vectors += 1;
        }
    }
    at
}

/// Returns how many sectors the next bio of a discard takes. If it starts inside a granule, it ends
/// at the next granule; otherwise it takes whole granules, as many as a bio's length can hold.
/// `remaining` is what is still to go, at least one sector.
pub(crate) fn next_discard_sectors(
    sector: Sector,
    remaining: Sectors,
    limits: &QueueLimits,
) -> Sectors {
    let granule = (u64::from(limits.discard_granularity) / SECTOR_SIZE).max(1);
    let most = match sector.get() % granule {
        0 => round_down(BIO_MAX_BYTES / SECTOR_SIZE, granule),
        into => granule - into,
    };
    Sectors::new(most).min(remaining)
}

/// Returns how many bytes of `remaining` the next bio of a write-zeroes takes: whole blocks, as
/// many as a bio's length can hold.
pub(crate) fn next_zeroes_bytes(remaining: u64, limits: &QueueLimits) -> u64 {
    remaining.min(round_down(BIO_MAX_BYTES, limits.logical_block_size.into()))
}

const fn round_down(value: u64, unit: u64) -> u64 {
    value / unit * unit
}

#[cfg(test)]
mod tests;
