//! Every limit under its sysfs name and unit: one row says how to read it, how to set it and what it means.

extern crate alloc;
use alloc::string::ToString;

use super::{LimitsError, QueueLimits};
use crate::kernel::Rules;
use crate::units::{SECTOR_SIZE, Sectors};

/// A limit as `/sys/block/X/queue/` shows it.
#[derive(Clone, Copy, Debug)]
pub struct SysfsLimit {
    /// File name in `queue/`.
    pub name: &'static str,
    /// Unit of the number; empty for a plain count.
    pub unit: &'static str,
    /// Whether Linux lets a user write it. Here [`Self::is_settable`] counts: the device is ours.
    pub writable: bool,
    /// One line of meaning.
    pub help: &'static str,
    most: u64,
    read: fn(&QueueLimits) -> i64,
    write: Option<fn(&mut QueueLimits, u64)>,
}

impl SysfsLimit {
    /// Whether [`QueueLimits::set_sysfs`] takes it.
    pub const fn is_settable(&self) -> bool {
        self.write.is_some()
    }
}

const fn sectors_of_bytes(bytes: u64) -> Sectors {
    Sectors::new(bytes / SECTOR_SIZE)
}
const fn sectors_of_kb(kb: u64) -> Sectors {
    Sectors::new(kb * 2)
}
const fn bytes(sectors: Sectors) -> i64 {
    sectors.bytes().get() as i64
}
const fn kb(sectors: Sectors) -> i64 {
    (sectors.get() / 2) as i64
}

/// A row; the kind says how the field's number becomes the file's.
macro_rules! row {
    ($name:literal, $unit:literal, $rw:ident, $help:literal, $most:expr, $read:expr, $write:expr) => {
        SysfsLimit {
            name: $name,
            unit: $unit,
            writable: writable!($rw),
            help: $help,
            most: $most as u64,
            read: $read,
            write: $write,
        }
    };
}
macro_rules! writable {
    (ro) => {
        false
    };
    (rw) => {
        true
    };
}
macro_rules! number {
    ($name:literal, $unit:literal, $rw:ident, $field:ident: $kind:ty, $help:literal) => {
        row!($name, $unit, $rw, $help, <$kind>::MAX, |l| l.$field as i64, Some(|l, v| l.$field = v as $kind))
    };
}
macro_rules! flag {
    ($name:literal, $rw:ident, $field:ident, $help:literal) => {
        row!($name, "0 or 1", $rw, $help, 1, |l| l.$field.into(), Some(|l, v| l.$field = v == 1))
    };
}
macro_rules! in_bytes {
    ($name:literal, $rw:ident, $field:ident, $help:literal) => {
        row!($name, "bytes", $rw, $help, MOST_BYTES, |l| bytes(l.$field), Some(|l, v| l.$field = sectors_of_bytes(v)))
    };
}
macro_rules! in_kb {
    ($name:literal, $rw:ident, $field:ident, $help:literal) => {
        row!($name, "KiB", $rw, $help, MOST_BYTES / 1024, |l| kb(l.$field), Some(|l, v| l.$field = sectors_of_kb(v)))
    };
}

/// The kernel keeps these limits in 32 bits of sectors.
const MOST_BYTES: u64 = (u32::MAX as u64) * SECTOR_SIZE;

/// Every limit, by what it is about: blocks, sizes, segments, discard and its kin, zones, atomic writes, features.
pub const SYSFS: &[SysfsLimit] = &[
    number!("logical_block_size", "bytes", ro, logical_block_size: u32, "smallest addressable unit, a power of two"),
    row!("hw_sector_size", "bytes", ro, "old name of logical_block_size", 0, |l| l.logical_block_size.into(), None),
    number!("physical_block_size", "bytes", ro, physical_block_size: u32, "smallest unit written without read-modify-write"),
    number!("minimum_io_size", "bytes", ro, io_min: u32, "preferred smallest I/O"),
    number!("optimal_io_size", "bytes", ro, io_opt: u32, "preferred I/O size, 0 for none"),
    row!(
        "alignment_offset",
        "bytes",
        ro,
        "start of the first physical block, -1 where stacked devices do not line up",
        u32::MAX,
        |l| if l.misaligned { -1 } else { l.alignment_offset.into() },
        Some(|l, v| l.alignment_offset = v as u32)
    ),
    in_kb!("max_hw_sectors_kb", ro, max_hw_sectors, "what the hardware takes in one request"),
    in_kb!(
        "max_dev_sectors_kb",
        ro,
        max_dev_sectors,
        "what the disk behind the controller takes, 0 for no cap (no file)"
    ),
    row!(
        "max_sectors_kb",
        "KiB",
        rw,
        "soft limit of a request: splits and merges heed it; 0 for the default",
        MOST_BYTES / 1024,
        |l| kb(l.max_sectors),
        Some(|l, v| l.max_user_sectors = sectors_of_kb(v))
    ),
    number!("max_segments", "", ro, max_segments: u16, "physical segments in a request"),
    number!("max_segment_size", "bytes", ro, max_segment_size: u32, "bytes in a segment, 0 for the default"),
    number!("seg_boundary_mask", "", ro, seg_boundary_mask: u64, "a segment crosses no multiple of this plus one (no file)"),
    number!("virt_boundary_mask", "", ro, virt_boundary_mask: u64, "inner segments start and end on this boundary"),
    row!(
        "chunk_sectors",
        "sectors",
        ro,
        "a request crosses no multiple of this, 0 for none",
        u32::MAX,
        |l| l.chunk_sectors.get() as i64,
        Some(|l, v| l.chunk_sectors = Sectors::new(v))
    ),
    number!("dma_alignment", "", ro, dma_alignment: u32, "mask of address bits that direct I/O must leave zero"),
    row!(
        "discard_max_bytes",
        "bytes",
        rw,
        "largest discard, 0 for none",
        MOST_BYTES,
        |l| bytes(l.max_discard()),
        Some(|l, v| l.max_user_discard_sectors = sectors_of_bytes(v))
    ),
    in_bytes!("discard_max_hw_bytes", ro, max_hw_discard_sectors, "largest discard of the hardware, 0 for no discard"),
    number!("discard_granularity", "bytes", ro, discard_granularity: u32, "granule of a discard"),
    number!("discard_alignment", "bytes", ro, discard_alignment: u32, "start of the first granule (no file)"),
    number!("max_discard_segments", "", ro, max_discard_segments: u16, "ranges in one discard"),
    in_bytes!("write_zeroes_max_bytes", ro, max_write_zeroes_sectors, "largest write-zeroes, 0 for none"),
    in_bytes!("secure_erase_max_bytes", ro, max_secure_erase_sectors, "largest secure erase, 0 for none (no file)"),
    flag!("zoned", ro, zoned, "zones of chunk_sectors are written in order"),
    in_bytes!("zone_append_max_bytes", ro, max_zone_append_sectors, "largest zone append, 0 for none"),
    number!("zone_write_granularity", "bytes", ro, zone_write_granularity: u32, "alignment of writes to zones"),
    number!("max_open_zones", "", ro, max_open_zones: u32, "zones open at a time, 0 for no limit"),
    number!("max_active_zones", "", ro, max_active_zones: u32, "zones active at a time, 0 for no limit"),
    number!("atomic_write_max_bytes", "bytes", ro, atomic_write_max: u32, "largest atomic write, 0 for none"),
    number!("atomic_write_boundary_bytes", "bytes", ro, atomic_write_boundary: u32, "boundary that none may cross"),
    number!("atomic_write_unit_min_bytes", "bytes", ro, atomic_write_unit_min: u32, "smallest atomic write"),
    number!("atomic_write_unit_max_bytes", "bytes", ro, atomic_write_unit_max: u32, "largest single atomic write"),
    flag!("write_cache", rw, write_cache, "the device has a volatile write cache"),
    flag!("fua", ro, fua, "it can write through that cache"),
    flag!("rotational", rw, rotational, "it turns"),
    flag!("nowait", ro, nowait, "NOWAIT bios are taken (no file)"),
    flag!("io_poll", ro, poll, "completions can be polled for"),
];

impl QueueLimits {
    /// The value of a limit in its sysfs unit; `None` where no limit has the name.
    pub fn read(&self, name: &str) -> Option<i64> {
        SYSFS.iter().find(|limit| limit.name == name).map(|limit| (limit.read)(self))
    }

    /// Sets a limit by its sysfs name and unit, and validates the whole.
    ///
    /// # Errors
    /// An unknown or derived limit, a value out of its range, or one that the whole set refuses; nothing has then changed.
    pub fn set_sysfs(&mut self, name: &str, value: u64, rules: &Rules) -> Result<(), LimitsError> {
        let unknown = || LimitsError::Unknown { name: name.to_string() };
        let limit = SYSFS.iter().find(|limit| limit.name == name).ok_or_else(unknown)?;
        let write = limit.write.ok_or(LimitsError::Derived { name: limit.name })?;
        let (name, unit) = (limit.name, limit.unit);
        if value > limit.most {
            let unit = if unit == "0 or 1" { "" } else { unit };
            return Err(LimitsError::OutOfRange { name, unit, value, least: 0, most: limit.most });
        }
        if name == "max_sectors_kb" {
            return self.set_user_max_sectors_kb(value, rules);
        }
        let granule = u64::from(self.discard_granularity).max(1);
        if name == "discard_max_bytes" && !value.is_multiple_of(granule) {
            return Err(LimitsError::NotMultiple { name, unit, value, of: granule });
        }
        let mut next = self.clone();
        write(&mut next, value);
        next.validate(rules)?;
        *self = next;
        Ok(())
    }
}
