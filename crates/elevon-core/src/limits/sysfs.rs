//! Every limit with its sysfs name and unit: one row says how it is read and set and what it means.

extern crate alloc;
use alloc::string::ToString;

use super::{LimitsError, QueueLimits};
use crate::kernel::Rules;
use crate::units::{PAGE_SIZE, SECTOR_SIZE, Sectors};

/// A limit as `/sys/block/X/queue/` shows it.
#[derive(Clone, Copy, Debug)]
pub struct SysfsLimit {
    /// File name in `queue/`.
    pub name: &'static str,
    /// Unit of the number; empty for a plain count.
    pub unit: &'static str,
    /// Whether Linux lets a user write it. What can be set here is [`Self::is_settable`], because
    /// the device is configured too.
    pub writable: bool,
    /// One-line description.
    pub help: &'static str,
    range: (u64, u64),
    read: fn(&QueueLimits) -> i64,
    write: Write,
}

/// The effect of a write.
#[derive(Clone, Copy, Debug)]
enum Write {
    /// The write sets the field.
    Sets(fn(&mut QueueLimits, u64)),
    /// The limit is derived from others.
    Derived,
    /// The limit is only shown, because another value would have no effect here, for this reason.
    NoEffect(&'static str),
}

impl SysfsLimit {
    /// Returns true if [`QueueLimits::set_sysfs`] takes it.
    pub const fn is_settable(&self) -> bool {
        matches!(self.write, Write::Sets(_))
    }

    /// Returns why it cannot be set; `None` if it can.
    pub const fn why_fixed(&self) -> Option<&'static str> {
        match self.write {
            Write::Sets(_) => None,
            Write::Derived => Some("follows from others"),
            Write::NoEffect(reason) => Some(reason),
        }
    }
}

const NO_STACKING: &str = "only stacked devices heed it, and no device is stacked on another here";
const NO_ZONES: &str = "no device here has zones";
const NO_WRITE_ZEROES: &str =
    "no job issues write-zeroes, and what a server takes of them follows its disk";
const NO_SECURE_ERASE: &str = "nothing here issues secure erases";
const NO_NOWAIT: &str = "every device here takes them";
const NO_INTEGRITY: &str = "no I/O here carries integrity data";
const NO_POLL: &str = "completions are events here, nothing polls for them";

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

/// A row; the kind says how the field's number is converted to the file's.
macro_rules! row {
    ($name:literal, $unit:literal, $rw:ident, $help:literal, $most:expr, $read:expr, $write:expr) => {
        row!($name, $unit, $rw, $help, 0, $most, $read, $write)
    };
    ($name:literal, $unit:literal, $rw:ident, $help:literal, $least:expr, $most:expr, $read:expr, $write:expr) => {
        SysfsLimit {
            name: $name,
            unit: $unit,
            writable: writable!($rw),
            help: $help,
            range: ($least, $most as u64),
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
        number!($name, $unit, $rw, $field: $kind, from 0, $help)
    };
    ($name:literal, $unit:literal, $rw:ident, $field:ident: $kind:ty, from $least:expr, $help:literal) => {
        row!($name, $unit, $rw, $help, $least, <$kind>::MAX, |l| l.$field as i64, Write::Sets(|l, v| l.$field = v as $kind))
    };
}
macro_rules! flag {
    ($name:literal, $rw:ident, $field:ident, $help:literal) => {
        flag!($name, $rw, $field, $help, 1)
    };
    ($name:literal, $rw:ident, $field:ident, $help:literal, $most:expr) => {
        row!(
            $name,
            "0 or 1",
            $rw,
            $help,
            $most,
            |l| l.$field.into(),
            Write::Sets(|l, v| l.$field = v != 0)
        )
    };
}
macro_rules! in_bytes {
    ($name:literal, $rw:ident, $field:ident, $help:literal) => {
        row!(
            $name,
            "bytes",
            $rw,
            $help,
            MOST_BYTES,
            |l| bytes(l.$field),
            Write::Sets(|l, v| l.$field = sectors_of_bytes(v))
        )
    };
}
macro_rules! in_kb {
    ($name:literal, $least:expr, $field:ident, $help:literal) => {
        row!(
            $name,
            "KiB",
            ro,
            $help,
            $least,
            MOST_BYTES / 1024,
            |l| kb(l.$field),
            Write::Sets(|l, v| l.$field = sectors_of_kb(v))
        )
    };
}
/// A limit that is shown and cannot be set.
macro_rules! shown {
    ($name:literal, $unit:literal, $help:literal, $read:expr, $why:expr) => {
        row!($name, $unit, ro, $help, 0, $read, Write::NoEffect($why))
    };
}

/// The smallest maximum size of a request, KiB.
const PAGE_KB: u64 = PAGE_SIZE / 1024;
/// The kernel keeps these limits in 32 bits of sectors.
const MOST_BYTES: u64 = (u32::MAX as u64) * SECTOR_SIZE;

/// Every limit, ordered by subject: blocks, sizes, segments, discard and similar operations, zones,
/// atomic writes, features.
pub const SYSFS: &[SysfsLimit] = &[
    number!("logical_block_size", "bytes", ro, logical_block_size: u32, "smallest addressable unit, a power of two"),
    row!(
        "hw_sector_size",
        "bytes",
        ro,
        "old name of logical_block_size",
        0,
        |l| l.logical_block_size.into(),
        Write::Derived
    ),
    number!("physical_block_size", "bytes", ro, physical_block_size: u32, "smallest unit written without read-modify-write"),
    number!("minimum_io_size", "bytes", ro, io_min: u32, "preferred smallest I/O"),
    number!("optimal_io_size", "bytes", ro, io_opt: u32, "preferred I/O size, 0 for none"),
    shown!(
        "alignment_offset",
        "bytes",
        "start of the first physical block, -1 where stacked devices do not line up",
        |l| if l.misaligned { -1 } else { l.alignment_offset.into() },
        NO_STACKING
    ),
    in_kb!("max_hw_sectors_kb", PAGE_KB, max_hw_sectors, "what the hardware takes in one request"),
    in_kb!(
        "max_dev_sectors_kb",
        0,
        max_dev_sectors,
        "what the disk behind the controller takes, 0 for no cap (no file)"
    ),
    row!(
        "max_sectors_kb",
        "KiB",
        rw,
        "soft limit of a request: splits and merges heed it; 0 for the default",
        u32::MAX,
        |l| kb(l.max_sectors),
        Write::Sets(|l, v| l.max_user_sectors = sectors_of_kb(v))
    ),
    number!("max_segments", "", ro, max_segments: u16, from 1, "physical segments in a request"),
    number!("max_segment_size", "bytes", ro, max_segment_size: u32, "bytes in a segment, 0 for the default"),
    number!("seg_boundary_mask", "", ro, seg_boundary_mask: u64, from PAGE_SIZE - 1, "a segment crosses no multiple of this plus one (no file)"),
    number!("virt_boundary_mask", "", ro, virt_boundary_mask: u64, "inner segments start and end on this boundary"),
    row!(
        "chunk_sectors",
        "sectors",
        ro,
        "a request crosses no multiple of this, 0 for none",
        u32::MAX,
        |l| l.chunk_sectors.get() as i64,
        Write::Sets(|l, v| l.chunk_sectors = Sectors::new(v))
    ),
    number!("dma_alignment", "", ro, dma_alignment: u32, "mask of address bits that direct I/O must leave zero"),
    row!(
        "discard_max_bytes",
        "bytes",
        rw,
        "largest discard, 0 for none",
        MOST_BYTES,
        |l| bytes(l.max_discard()),
        Write::Sets(|l, v| l.max_user_discard_sectors = sectors_of_bytes(v))
    ),
    in_bytes!(
        "discard_max_hw_bytes",
        ro,
        max_hw_discard_sectors,
        "largest discard of the hardware, 0 for no discard"
    ),
    number!("discard_granularity", "bytes", ro, discard_granularity: u32, "granule of a discard"),
    number!("discard_alignment", "bytes", ro, discard_alignment: u32, "start of the first granule (no file)"),
    number!("max_discard_segments", "", ro, max_discard_segments: u16, from 1, "ranges in one discard"),
    shown!(
        "write_zeroes_max_bytes",
        "bytes",
        "largest write-zeroes, 0 for none",
        |l| bytes(l.max_write_zeroes_sectors),
        NO_WRITE_ZEROES
    ),
    shown!(
        "secure_erase_max_bytes",
        "bytes",
        "largest secure erase, 0 for none (no file)",
        |l| bytes(l.max_secure_erase_sectors),
        NO_SECURE_ERASE
    ),
    shown!(
        "zoned",
        "0 or 1",
        "zones of chunk_sectors are written in order",
        |l| l.zoned.into(),
        NO_ZONES
    ),
    shown!(
        "zone_append_max_bytes",
        "bytes",
        "largest zone append, 0 for none",
        |l| bytes(l.max_zone_append_sectors),
        NO_ZONES
    ),
    shown!(
        "zone_write_granularity",
        "bytes",
        "alignment of writes to zones",
        |l| l.zone_write_granularity.into(),
        NO_ZONES
    ),
    shown!(
        "max_open_zones",
        "",
        "zones open at a time, 0 for no limit",
        |l| l.max_open_zones.into(),
        NO_ZONES
    ),
    shown!(
        "max_active_zones",
        "",
        "zones active at a time, 0 for no limit",
        |l| l.max_active_zones.into(),
        NO_ZONES
    ),
    number!("atomic_write_max_bytes", "bytes", ro, atomic_write_max: u32, "largest atomic write after merges, 0 for none"),
    number!("atomic_write_boundary_bytes", "bytes", ro, atomic_write_boundary: u32, "an atomic write crosses no multiple of this, 0 for none"),
    number!("atomic_write_unit_min_bytes", "bytes", ro, atomic_write_unit_min: u32, "smallest atomic write, 0 for the logical block"),
    number!("atomic_write_unit_max_bytes", "bytes", ro, atomic_write_unit_max: u32, "largest single atomic write, 0 for the largest possible"),
    flag!("write_cache", rw, write_cache, "the device has a volatile write cache"),
    flag!("fua", ro, fua, "it can write through that cache"),
    // Linux takes any number, and shows 1 after all but 0 (measured with 6.18).
    flag!("rotational", rw, rotational, "it turns", u64::MAX),
    shown!("nowait", "0 or 1", "NOWAIT bios are taken (no file)", |l| l.nowait.into(), NO_NOWAIT),
    shown!("io_poll", "0 or 1", "completions can be polled for", |l| l.poll.into(), NO_POLL),
    shown!(
        "max_integrity_segments",
        "",
        "segments of integrity data in a request",
        |l| l.max_integrity_segments.into(),
        NO_INTEGRITY
    ),
];

impl QueueLimits {
    /// Returns the value of a limit in its sysfs unit; `None` if there is no limit with this name.
    pub fn read(&self, name: &str) -> Option<i64> {
        SYSFS.iter().find(|limit| limit.name == name).map(|limit| (limit.read)(self))
    }

    /// Sets a limit by its sysfs name and unit, and validates the whole set.
    ///
    /// # Errors
    /// The limit is unknown or derived, the value is out of its range, or the set would not be
    /// valid. Nothing is changed in this case.
    pub fn set_sysfs(&mut self, name: &str, value: u64, rules: &Rules) -> Result<(), LimitsError> {
        let unknown = || LimitsError::Unknown { name: name.to_string() };
        let limit = SYSFS.iter().find(|limit| limit.name == name).ok_or_else(unknown)?;
        let (name, unit) = (limit.name, limit.unit);
        let write = match limit.write {
            Write::Sets(write) => write,
            Write::Derived => return Err(LimitsError::Derived { name }),
            Write::NoEffect(reason) => return Err(LimitsError::NoEffect { name, reason }),
        };
        let (least, most) = limit.range;
        if name == "seg_boundary_mask" && value < least {
            return Err(LimitsError::NotMask { name, value, least, most });
        }
        if !(least..=most).contains(&value) {
            let unit = if unit == "0 or 1" { "" } else { unit };
            return Err(LimitsError::OutOfRange { name, unit, value, least, most });
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
