//! Splitting: checks if a bio fits the queue's limits, and cuts it if it does not.
//!
//! A cut moves no data: the front part is a bio of the first `sectors`, flagged NOMERGE, and the
//! remainder continues as the original bio. The caller also clears POLLED on a cut, and continues
//! with the remainder at once. (Up to 6.17 the kernel put the remainder behind the other pending
//! bios of the submission, since then before them; a device that is not stacked on others has no
//! other pending bios.)
//!
//! Cost: O(1) for an I/O inside one page; else O(log runs) to find the first run, and O(segments)
//! of the front part.

use crate::bio::Bio;
use crate::build::BIO_MAX_BYTES;
use crate::kernel::Rules;
use crate::layout::{Layout, Run};
use crate::limits::QueueLimits;
use crate::op::{Flags, Op};
use crate::status::Status;
use crate::units::{Bytes, PAGE_SIZE, SECTOR_SIZE, Sector, Sectors};

/// The result of checking a bio against the queue's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The bio fits.
    Whole {
        /// Its physical segments; 0 without data.
        segments: u16,
    },
    /// The bio is cut; the remainder has to be split again.
    Cut {
        /// Length of the front part: less than the bio's, and not zero.
        sectors: Sectors,
        /// Physical segments of the front part.
        segments: u16,
    },
    /// The bio does not fit, and it must not be cut or no cut makes it fit.
    Fail(Status),
}

/// Splits a bio. `layout` is the layout of its data. With `None` (operations without data, and
/// buffers with unknown layout) the data counts as one run that starts on a page boundary. `limits`
/// must be valid.
#[inline]
pub fn split(bio: &Bio, layout: Option<&Layout>, limits: &QueueLimits, rules: &Rules) -> Split {
    if matches!(bio.op, Op::Read | Op::Write) {
        let in_page = layout.map_or(0, |layout| layout.page_offset(bio.data.offset));
        if fits_page(in_page, bio.bytes, limits) {
            return Split::Whole { segments: (!bio.bytes.is_zero()) as u16 };
        }
    }
    split_checked(bio, layout, limits, rules)
}

/// Returns true if data to read or write lies inside one page, `in_page` bytes from its start, and
/// fits the queue's limits, of which none may be smaller than a page.
#[inline]
pub(crate) const fn fits_page(in_page: u64, bytes: Bytes, limits: &QueueLimits) -> bool {
    limits.chunk_sectors.is_zero()
        && in_page + bytes.get() <= PAGE_SIZE
        && in_page & limits.dma_alignment as u64 == 0
}

fn split_checked(bio: &Bio, layout: Option<&Layout>, limits: &QueueLimits, rules: &Rules) -> Split {
    match bio.op {
        Op::Flush => Split::Whole { segments: 0 },
        Op::Read | Op::Write | Op::ZoneAppend if bio.bytes.is_zero() => {
            Split::Whole { segments: 0 }
        }
        Op::Read | Op::Write => split_data(bio, layout, limits),
        Op::ZoneAppend => check_zone_append(bio, layout, limits),
        Op::Discard => split_discard(bio, limits, limits.max_discard()),
        Op::SecureErase if rules.secure_erase_has_own_limit => {
            split_discard(bio, limits, limits.max_secure_erase_sectors)
        }
        Op::SecureErase => split_discard(bio, limits, limits.max_discard()),
        Op::WriteZeroes => split_write_zeroes(bio, limits, rules),
    }
}

fn split_data(bio: &Bio, layout: Option<&Layout>, limits: &QueueLimits) -> Split {
    let is_atomic = bio.flags.contains(Flags::ATOMIC);
    let (most, chunk) = data_limits(bio.flags, limits);
    let most = Sectors::new(cut_limit(bio.sector, most, chunk, limits));
    let Some((bytes, segments)) = walk(bio, layout, most.bytes().get(), limits) else {
        return Split::Fail(Status::Invalid);
    };
    if bytes == bio.bytes.get() {
        return Split::Whole { segments };
    }
    let granularity = match bio.op == Op::Write && limits.zoned {
        true => limits.zone_write_granularity.max(limits.logical_block_size),
        false => limits.logical_block_size,
    };
    let sectors =
        Sectors::new(bytes / u64::from(granularity) * (u64::from(granularity) / SECTOR_SIZE));
    if is_atomic || sectors.is_zero() {
        Split::Fail(Status::Invalid)
    } else if bio.flags.contains(Flags::NOWAIT) {
        Split::Fail(Status::Again)
    } else {
        Split::Cut { sectors, segments }
    }
}

/// Returns the soft limit of reads and writes, and the chunk whose boundary they may not cross, in
/// sectors. An atomic write has its own limit, and its own boundary in place of the chunk's if the
/// device has one.
const fn data_limits(flags: Flags, limits: &QueueLimits) -> (u64, u64) {
    let chunk = limits.chunk_sectors.get();
    if flags.contains(Flags::ATOMIC) {
        let boundary = limits.atomic_write_boundary as u64 / SECTOR_SIZE;
        (limits.atomic_write_max as u64 / SECTOR_SIZE, if boundary > 0 { boundary } else { chunk })
    } else {
        (limits.max_sectors.get(), chunk)
    }
}

/// Returns how many sectors a part that starts at `sector` may have under a limit: it ends at the
/// chunk boundary at the latest, and at the end of a physical block if it can reach one.
fn cut_limit(sector: Sector, most: u64, chunk: u64, limits: &QueueLimits) -> u64 {
    let most = within_chunk(sector, most, chunk);
    let physical = u64::from(limits.physical_block_size) / SECTOR_SIZE;
    let logical = u64::from(limits.logical_block_size) / SECTOR_SIZE;
    let into = sector.get() & (physical - 1);
    let end = (into + most) & !(physical - 1);
    if end > into { end - into } else { most & !(logical - 1) }
}

/// Returns the part of `most` sectors from `sector` that lies in the same chunk. Chunk 0 means no
/// chunks.
#[inline]
const fn within_chunk(sector: Sector, most: u64, chunk: u64) -> u64 {
    if chunk == 0 {
        return most;
    }
    let room = chunk - sector.get() % chunk;
    if room < most { room } else { most }
}

/// Returns bytes and segments of the longest front part within `most` bytes and `max_segments` and
/// without a gap; `None` if the memory is not aligned as the device requires.
fn walk(bio: &Bio, layout: Option<&Layout>, most: u64, limits: &QueueLimits) -> Option<(u64, u16)> {
    let unknown = [Run { start: 0, len: u64::MAX, physical: 0 }];
    let start = bio.data.offset;
    let (runs, first, start) = match layout {
        Some(layout) => (layout.runs(), layout.run_at(start), start),
        None => (&unknown[..], 0, 0),
    };
    let mut left = bio.bytes.get();
    let mut skip = start - runs[first].start;
    // Check only the bits that a cut does not change: a remainder may start at any logical block of
    // aligned memory.
    let alignment = limits.dma_alignment & (limits.logical_block_size - 1);
    if (runs[first].physical + skip) & u64::from(alignment) != 0 {
        return None;
    }
    let (mut bytes, mut segments, mut previous_end) = (0, 0, None);
    for run in &runs[first..] {
        let (physical, len) = (run.physical + skip, (run.len - skip).min(left));
        if previous_end.is_some_and(|end| has_gap(limits, end, physical)) {
            break;
        }
        let taken = take_segments(physical, len.min(most - bytes), &mut segments, limits);
        bytes += taken;
        left -= taken;
        if taken < len || left == 0 {
            break;
        }
        previous_end = Some(physical + len);
        skip = 0;
    }
    Some((bytes, segments))
}

/// Cuts physically contiguous memory into segments while segments are left. Returns the bytes that
/// fit.
fn take_segments(physical: u64, len: u64, segments: &mut u16, limits: &QueueLimits) -> u64 {
    let boundary = limits.seg_boundary_mask;
    // Minus one, so that a boundary at the end of the address space, or a segment size that is not
    // set, means no limit.
    let largest = u64::from(limits.max_segment_size).wrapping_sub(1);
    let mut taken = 0;
    while taken < len && *segments < limits.max_segments {
        let at = physical + taken;
        let room = (boundary - (at & boundary)).min(largest);
        taken += (len - taken - 1).min(room) + 1;
        *segments += 1;
        if (physical + taken) & limits.virt_boundary_mask != 0 {
            break;
        }
    }
    taken
}

fn check_zone_append(bio: &Bio, layout: Option<&Layout>, limits: &QueueLimits) -> Split {
    if limits.max_zone_append_sectors.is_zero() {
        return Split::Fail(Status::NotSupported);
    }
    if bio.sectors() > limits.max_zone_append_sectors {
        return Split::Fail(Status::IoError);
    }
    match walk(bio, layout, bio.bytes.get(), limits) {
        Some((bytes, segments)) if bytes == bio.bytes.get() => Split::Whole { segments },
        _ => Split::Fail(Status::Invalid),
    }
}

fn split_discard(bio: &Bio, limits: &QueueLimits, most: Sectors) -> Split {
    let granule = (u64::from(limits.discard_granularity) / SECTOR_SIZE).max(1);
    let block = u64::from(limits.logical_block_size);
    let longest = BIO_MAX_BYTES / block * block / SECTOR_SIZE;
    let most = most.get().min(longest) / granule * granule;
    if most == 0 || bio.sectors().get() <= most {
        return Split::Whole { segments: 1 };
    }
    // Sectors from the start of the last granule to the end: the cut can be moved back by this
    // much.
    let alignment = u64::from(limits.discard_alignment) / SECTOR_SIZE % granule;
    let surplus = (bio.sector.get() + most + granule - alignment) % granule;
    let sectors = Sectors::new(if most > surplus { most - surplus } else { most });
    Split::Cut { sectors, segments: 1 }
}

fn split_write_zeroes(bio: &Bio, limits: &QueueLimits, rules: &Rules) -> Split {
    let most = limits.max_write_zeroes_sectors;
    if most.is_zero() {
        return Split::Whole { segments: 0 };
    }
    let most = match rules.write_zeroes_honours_chunk {
        true => Sectors::new(cut_limit(bio.sector, most.get(), limits.chunk_sectors.get(), limits)),
        false => most,
    };
    match bio.sectors() > most {
        true => Split::Cut { sectors: most, segments: 0 },
        false => Split::Whole { segments: 0 },
    }
}

/// Returns the soft limit of a request of `op` that starts at `sector`, including its chunk: the
/// size up to which a merge may grow it.
#[inline]
pub fn max_sectors_at(op: Op, flags: Flags, sector: Sector, limits: &QueueLimits) -> Sectors {
    let chunk = limits.chunk_sectors.get();
    let (most, chunk) = match op {
        Op::Read | Op::Write => data_limits(flags, limits),
        Op::Flush => return Sectors::ZERO,
        Op::Discard => (limits.max_discard().get().min(BIO_MAX_BYTES / SECTOR_SIZE), 0),
        Op::SecureErase => {
            (limits.max_secure_erase_sectors.get().min(BIO_MAX_BYTES / SECTOR_SIZE), 0)
        }
        Op::WriteZeroes => (limits.max_write_zeroes_sectors.get(), chunk),
        Op::ZoneAppend => (limits.max_zone_append_sectors.get(), chunk),
    };
    Sectors::new(within_chunk(sector, most, chunk))
}

/// Returns true if two neighbouring vectors leave a gap that the device cannot describe: the memory
/// is not contiguous, and the end of the first or the start of the second is not on the virt
/// boundary. Both addresses are physical; `prev_end` is one past the last byte.
#[inline]
pub(crate) const fn has_gap(
    limits: &QueueLimits,
    prev_end_physical: u64,
    next_start_physical: u64,
) -> bool {
    (prev_end_physical | next_start_physical) & limits.virt_boundary_mask != 0
        && prev_end_physical != next_start_physical
}

#[cfg(test)]
pub(crate) mod tests;
