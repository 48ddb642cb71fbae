//! Queue limits: what a device accepts in one request, with the names and units of sysfs.
//!
//! A set of limits is edited freely and then validated as a whole, as drivers do since Linux 6.9:
//! [`QueueLimits::validate`] either makes the set consistent and derives `max_sectors`, or refuses
//! it and changes nothing. Everything here is O(1), and nothing is on the path of an I/O.

mod error;
mod sysfs;
#[cfg(test)]
mod tests;

pub use error::LimitsError;
pub use sysfs::{SYSFS, SysfsLimit};

use crate::kernel::Rules;
use crate::op::{Flags, Op};
use crate::units::{Bytes, PAGE_SECTORS, PAGE_SIZE, SECTOR_SIZE, Sector, Sectors};

/// `max_hw_sectors` of a driver that sets none.
const SAFE_MAX_SECTORS: Sectors = Sectors::new(255);
/// `max_segment_size` of a driver that sets none, and has no virt boundary.
const DEFAULT_SEGMENT_SIZE: u32 = 65536;
/// `max_segments` of a driver that sets none.
const DEFAULT_SEGMENTS: u16 = 128;
/// `seg_boundary_mask` of a driver that sets none.
const DEFAULT_SEG_BOUNDARY: u64 = 0xffff_ffff;
/// "No limit" of the kernel's 32-bit fields.
const UNLIMITED: Sectors = Sectors::new(u32::MAX as u64);

/// Limits and features of a queue (`/sys/block/X/queue/`). Units are in the names; positions follow
/// the kernel's struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Smallest addressable unit, bytes: a power of two from 512.
    pub logical_block_size: u32,
    /// Smallest unit written without read-modify-write, bytes.
    pub physical_block_size: u32,
    /// Preferred minimum I/O, bytes (`minimum_io_size`).
    pub io_min: u32,
    /// Preferred I/O size, bytes; 0 for none (`optimal_io_size`).
    pub io_opt: u32,
    /// Offset of the first physical block from the device's start, in bytes.
    pub alignment_offset: u32,
    /// Set if stacked devices are not aligned with each other; sysfs then shows −1.
    pub misaligned: bool,
    /// The largest request that the hardware accepts (`max_hw_sectors_kb`).
    pub max_hw_sectors: Sectors,
    /// The largest request that the disk behind the controller accepts; zero for no such limit.
    pub max_dev_sectors: Sectors,
    /// The soft limit for splits and merges (`max_sectors_kb`); derived, never set directly.
    pub max_sectors: Sectors,
    /// The value that a user wrote to `max_sectors_kb`; zero if none.
    pub max_user_sectors: Sectors,
    /// Maximum number of physical segments in a request.
    pub max_segments: u16,
    /// Maximum bytes in a segment; 0 for not set: `validate` makes it 65536, or unlimited if there
    /// is a virt boundary.
    pub max_segment_size: u32,
    /// A segment may not cross a multiple of this plus one.
    pub seg_boundary_mask: u64,
    /// Only the first and last segment of a request may start or end off this boundary; 0 for
    /// none. NVMe PRP: 4095.
    pub virt_boundary_mask: u64,
    /// A request may not cross a multiple of this (stripe or zone size); zero for none.
    pub chunk_sectors: Sectors,
    /// Mask of address bits that must be zero in direct I/O.
    pub dma_alignment: u32,
    /// Hardware's limit of a discard; zero for no discard (`discard_max_hw_bytes`).
    pub max_hw_discard_sectors: Sectors,
    /// The limit that a user set for it.
    pub max_user_discard_sectors: Sectors,
    /// Granularity of a discard, bytes.
    pub discard_granularity: u32,
    /// Offset of the first discard granule, in bytes.
    pub discard_alignment: u32,
    /// Maximum number of ranges in one discard request.
    pub max_discard_segments: u16,
    /// Limit of a write-zeroes; zero for none (`write_zeroes_max_bytes`).
    pub max_write_zeroes_sectors: Sectors,
    /// Limit of a secure erase; zero for none.
    pub max_secure_erase_sectors: Sectors,
    /// Limit of a zone append; zero for none (`zone_append_max_bytes`).
    pub max_zone_append_sectors: Sectors,
    /// Split alignment of writes to zones, bytes.
    pub zone_write_granularity: u32,
    /// Whether the device has zones (of `chunk_sectors`) that are written in order.
    pub zoned: bool,
    /// Zones open at a time; 0 for no limit.
    pub max_open_zones: u32,
    /// Zones active at a time; 0 for no limit.
    pub max_active_zones: u32,
    /// Largest atomic write after merging, bytes; 0 for no atomic writes.
    pub atomic_write_max: u32,
    /// An atomic write may not cross a multiple of this, bytes; 0 for none.
    pub atomic_write_boundary: u32,
    /// Smallest atomic write, bytes: a power of two; 0 for the logical block.
    pub atomic_write_unit_min: u32,
    /// Largest single atomic write, bytes: a power of two; 0 for the largest up to
    /// `atomic_write_max`.
    pub atomic_write_unit_max: u32,
    /// Whether the device has a volatile write cache.
    pub write_cache: bool,
    /// Whether it supports FUA, which writes through that cache.
    pub fua: bool,
    /// Whether the device is rotational.
    pub rotational: bool,
    /// Whether `rotational` was written to the queue after the scheduler had started. BFQ keeps
    /// some of what it found at its start.
    pub rotational_written_later: bool,
    /// NOWAIT bios are supported.
    pub nowait: bool,
    /// Polling for completions is supported.
    pub poll: bool,
    /// Segments of integrity data in a request. No bio here has any; the attribute shows it.
    pub max_integrity_segments: u16,
}

impl Default for QueueLimits {
    /// Returns the limits of a driver that sets nothing; `max_sectors` is derived by `validate`.
    fn default() -> Self {
        Self {
            logical_block_size: 512,
            physical_block_size: 512,
            io_min: 512,
            io_opt: 0,
            alignment_offset: 0,
            misaligned: false,
            max_hw_sectors: SAFE_MAX_SECTORS,
            max_dev_sectors: Sectors::ZERO,
            max_sectors: SAFE_MAX_SECTORS,
            max_user_sectors: Sectors::ZERO,
            max_segments: DEFAULT_SEGMENTS,
            max_segment_size: 0,
            seg_boundary_mask: DEFAULT_SEG_BOUNDARY,
            virt_boundary_mask: 0,
            chunk_sectors: Sectors::ZERO,
            dma_alignment: 511,
            max_hw_discard_sectors: Sectors::ZERO,
            max_user_discard_sectors: UNLIMITED,
            discard_granularity: 0,
            discard_alignment: 0,
            max_discard_segments: 1,
            max_write_zeroes_sectors: Sectors::ZERO,
            max_secure_erase_sectors: Sectors::ZERO,
            max_zone_append_sectors: Sectors::ZERO,
            zone_write_granularity: 0,
            zoned: false,
            max_open_zones: 0,
            max_active_zones: 0,
            atomic_write_max: 0,
            atomic_write_boundary: 0,
            atomic_write_unit_min: 0,
            atomic_write_unit_max: 0,
            write_cache: false,
            fua: false,
            rotational: false,
            rotational_written_later: false,
            nowait: true,
            poll: false,
            max_integrity_segments: 0,
        }
    }
}

/// Returns the smaller of two limits, of which zero means none.
fn min_not_zero<T: Ord + Default>(a: T, b: T) -> T {
    let none = T::default();
    if a == none {
        b
    } else if b == none {
        a
    } else {
        a.min(b)
    }
}

/// Returns `value` rounded down to a multiple of a block size in bytes.
const fn round_down_to_block(value: Sectors, block_size: u32) -> Sectors {
    let block = block_size as u64 / SECTOR_SIZE;
    Sectors::new(value.get() / block * block)
}

impl QueueLimits {
    /// Returns the limit of the device itself: the smaller of controller and disk.
    fn hardware(&self) -> Sectors {
        min_not_zero(self.max_hw_sectors, self.max_dev_sectors)
    }

    /// Returns the limit of a discard in effect: the smaller of hardware and user.
    pub fn max_discard(&self) -> Sectors {
        round_down_to_block(
            self.max_hw_discard_sectors.min(self.max_user_discard_sectors),
            self.logical_block_size,
        )
    }

    /// Returns the default read-ahead of an open file (`read_ahead_kb`): at least 128 KiB, twice
    /// the preferred size, and by the later rule twice `max_sectors` of a rotational disk that
    /// prefers none. A user who lowers `max_sectors` does not lower it. The limits must be valid.
    pub fn read_ahead(&self, rules: &Rules) -> Bytes {
        let of_driver = Self { max_user_sectors: Sectors::ZERO, ..self.clone() };
        let largest =
            of_driver.derive_max_sectors(rules).unwrap_or(self.max_sectors).max(self.max_sectors);
        let preferred = match self.io_opt {
            0 if self.rotational && rules.read_ahead_from_max_sectors => largest.bytes(),
            size => Bytes::new(size.into()),
        };
        Bytes::new((2 * preferred.get()).max(128 << 10))
    }

    /// Returns the content of the file `write_cache`.
    pub(crate) const fn write_cache_text(&self) -> &'static str {
        if self.write_cache { "write back" } else { "write through" }
    }

    /// Returns true if the queue supports such a bio. A bio that it does not support fails with
    /// [`Status::NotSupported`](crate::status::Status::NotSupported) before it is split.
    #[inline]
    pub fn supports(&self, op: Op, flags: Flags) -> bool {
        let taken = match op {
            Op::Read | Op::Write | Op::Flush => true,
            Op::Discard => !self.max_discard().is_zero(),
            Op::SecureErase => !self.max_secure_erase_sectors.is_zero(),
            Op::WriteZeroes => !self.max_write_zeroes_sectors.is_zero(),
            Op::ZoneAppend => self.zoned && !self.max_zone_append_sectors.is_zero(),
        };
        taken
            && (!flags.contains(Flags::NOWAIT) || self.nowait)
            && (!flags.contains(Flags::ATOMIC) || self.atomic_write_max > 0)
    }

    /// Returns true if the device can do this write atomically: a power of two from the smallest to
    /// the largest unit, at a multiple of its length.
    pub fn takes_atomic(&self, sector: Sector, bytes: Bytes) -> bool {
        let (min, max) = (self.atomic_write_unit_min.into(), self.atomic_write_unit_max.into());
        let bytes = bytes.get();
        self.atomic_write_max > 0
            && bytes.is_power_of_two()
            && (min..=max).contains(&bytes)
            && sector.byte_offset().get().is_multiple_of(bytes)
    }

    /// Makes the set consistent and derives `max_sectors` by the rules of a kernel version.
    ///
    /// # Errors
    /// An invalid value (a block size that is not a power of two, a segment smaller than a page,
    /// ...). The set is then not changed. Values that are not set or too small are corrected
    /// silently, as the kernel does; before 6.9 also limits smaller than a page.
    pub fn validate(&mut self, rules: &Rules) -> Result<(), LimitsError> {
        let mut next = self.clone();
        next.validate_blocks(rules)?;
        next.validate_sizes(rules)?;
        next.validate_segments(rules)?;
        next.validate_zones()?;
        next.validate_atomic()?;
        next.bound_atomic(rules);
        next.fix_features();
        next.max_sectors = next.derive_max_sectors(rules)?;
        *self = next;
        Ok(())
    }

    /// Sets the user's limit (`max_sectors_kb`), as a write to sysfs does; the rest of the set must
    /// be valid.
    ///
    /// # Errors
    /// A value less than a page. Before 6.9 also a value above the hardware limit, which is clamped
    /// since then, and zero, which means the default since then.
    pub(crate) fn set_user_max_sectors_kb(
        &mut self,
        kb: u64,
        rules: &Rules,
    ) -> Result<(), LimitsError> {
        let hardware_kb = self.hardware().get() / 2;
        let most = if rules.clamp_user_max_sectors { u64::MAX } else { hardware_kb };
        let is_default = kb == 0 && rules.clamp_user_max_sectors;
        if !is_default && !(PAGE_SIZE / 1024..=most).contains(&kb) {
            let least = PAGE_SIZE / 1024;
            return Err(LimitsError::OutOfRange {
                name: "max_sectors_kb",
                unit: "KiB",
                value: kb,
                least,
                most,
            });
        }
        let mut next = self.clone();
        next.max_user_sectors = Sectors::new(kb.saturating_mul(2));
        next.validate(rules)?;
        *self = next;
        Ok(())
    }

    fn validate_blocks(&mut self, rules: &Rules) -> Result<(), LimitsError> {
        let lbs = self.logical_block_size;
        if !lbs.is_power_of_two() || !(SECTOR_SIZE..=PAGE_SIZE).contains(&u64::from(lbs)) {
            return Err(LimitsError::NotPowerOfTwo {
                name: "logical_block_size",
                value: lbs.into(),
                least: SECTOR_SIZE,
                most: PAGE_SIZE,
            });
        }
        self.physical_block_size = self.physical_block_size.max(lbs);
        if !self.physical_block_size.is_power_of_two() {
            return Err(LimitsError::NotPowerOfTwo {
                name: "physical_block_size",
                value: self.physical_block_size.into(),
                least: lbs.into(),
                most: 1 << 31,
            });
        }
        self.io_min = self.io_min.max(self.physical_block_size);
        if rules.io_opt_rounded_to_physical_block {
            self.io_opt -= self.io_opt % self.physical_block_size;
        }
        let block = u64::from(lbs) / SECTOR_SIZE;
        if !self.chunk_sectors.get().is_multiple_of(block) {
            return Err(LimitsError::NotMultiple {
                name: "chunk_sectors",
                unit: "sectors",
                value: self.chunk_sectors.get(),
                of: block,
            });
        }
        if u64::from(self.dma_alignment) > PAGE_SIZE || !is_mask(self.dma_alignment.into()) {
            return Err(LimitsError::NotMask {
                name: "dma_alignment",
                value: self.dma_alignment.into(),
                least: 0,
                most: PAGE_SIZE - 1,
            });
        }
        Ok(())
    }

    fn validate_sizes(&mut self, rules: &Rules) -> Result<(), LimitsError> {
        if self.max_hw_sectors.is_zero() {
            self.max_hw_sectors = SAFE_MAX_SECTORS;
        }
        let page = Sectors::new(PAGE_SECTORS);
        if !rules.limits_validated_as_a_set {
            self.max_hw_sectors = self.max_hw_sectors.max(page);
        }
        for (name, limit) in [
            ("max_hw_sectors_kb", self.max_hw_sectors),
            ("max_dev_sectors_kb", self.max_dev_sectors),
        ] {
            if !limit.is_zero() && limit < page {
                let (value, least) = (limit.get() / 2, PAGE_SIZE / 1024);
                return Err(LimitsError::OutOfRange {
                    name,
                    unit: "KiB",
                    value,
                    least,
                    most: u64::MAX,
                });
            }
        }
        let block_size = self.logical_block_size;
        for limit in [
            &mut self.max_hw_sectors,
            &mut self.max_dev_sectors,
            &mut self.max_hw_discard_sectors,
            &mut self.max_write_zeroes_sectors,
            &mut self.max_secure_erase_sectors,
        ] {
            *limit = round_down_to_block(*limit, block_size);
        }
        self.max_discard_segments = self.max_discard_segments.max(1);
        // A granule consists of whole blocks, and so does the part before the first granule.
        self.discard_alignment -= self.discard_alignment % block_size;
        let granule = self.discard_granularity.max(self.physical_block_size);
        self.discard_granularity = match self.max_hw_discard_sectors.is_zero() {
            true => 0,
            false => granule.checked_next_multiple_of(block_size).unwrap_or(1 << 31),
        };
        Ok(())
    }

    fn validate_segments(&mut self, rules: &Rules) -> Result<(), LimitsError> {
        if self.max_segments == 0 {
            self.max_segments = DEFAULT_SEGMENTS;
        }
        if self.seg_boundary_mask == 0 {
            self.seg_boundary_mask = DEFAULT_SEG_BOUNDARY;
        }
        if self.max_segment_size == 0 {
            self.max_segment_size =
                if self.virt_boundary_mask == 0 { DEFAULT_SEGMENT_SIZE } else { u32::MAX };
        }
        if !rules.limits_validated_as_a_set {
            self.seg_boundary_mask = self.seg_boundary_mask.max(PAGE_SIZE - 1);
            self.max_segment_size = self.max_segment_size.max(PAGE_SIZE as u32);
        }
        for (name, value, least) in [
            ("seg_boundary_mask", self.seg_boundary_mask, PAGE_SIZE - 1),
            ("virt_boundary_mask", self.virt_boundary_mask, 0),
        ] {
            if value < least || !is_mask(value) {
                return Err(LimitsError::NotMask { name, value, least, most: u64::MAX });
            }
        }
        // The kernel accepts this if there is a virt boundary; but a split assumes that a page is
        // one segment.
        let least = PAGE_SIZE;
        if u64::from(self.max_segment_size) < least {
            return Err(LimitsError::OutOfRange {
                name: "max_segment_size",
                unit: "bytes",
                value: self.max_segment_size.into(),
                least,
                most: u32::MAX.into(),
            });
        }
        Ok(())
    }

    fn validate_zones(&mut self) -> Result<(), LimitsError> {
        if !self.zoned {
            if self.max_zone_append_sectors == UNLIMITED {
                self.max_zone_append_sectors = Sectors::ZERO;
            }
            for (name, value) in [
                ("max_open_zones", self.max_open_zones.into()),
                ("max_active_zones", self.max_active_zones.into()),
                ("zone_write_granularity", self.zone_write_granularity.into()),
                ("zone_append_max_bytes", self.max_zone_append_sectors.bytes().get()),
            ] {
                if value != 0 {
                    return Err(LimitsError::NotZoned { name, value });
                }
            }
            return Ok(());
        }
        if self.max_active_zones != 0 && self.max_open_zones > self.max_active_zones {
            return Err(LimitsError::OutOfRange {
                name: "max_open_zones",
                unit: "zones",
                value: self.max_open_zones.into(),
                least: 0,
                most: self.max_active_zones.into(),
            });
        }
        self.zone_write_granularity = self.zone_write_granularity.max(self.logical_block_size);
        let most = min_not_zero(self.hardware(), self.chunk_sectors);
        self.max_zone_append_sectors = self.max_zone_append_sectors.min(most);
        Ok(())
    }

    fn validate_atomic(&mut self) -> Result<(), LimitsError> {
        if self.atomic_write_max == 0 {
            (self.atomic_write_unit_min, self.atomic_write_unit_max, self.atomic_write_boundary) =
                (0, 0, 0);
            return Ok(());
        }
        if self.atomic_write_unit_min == 0 {
            self.atomic_write_unit_min = self.logical_block_size;
        }
        if self.atomic_write_unit_max == 0 {
            self.atomic_write_unit_max = 1 << self.atomic_write_max.ilog2();
        }
        for (name, value, least, most) in [
            (
                "atomic_write_unit_max_bytes",
                self.atomic_write_unit_max,
                self.logical_block_size,
                self.atomic_write_max,
            ),
            (
                "atomic_write_unit_min_bytes",
                self.atomic_write_unit_min,
                self.logical_block_size,
                self.atomic_write_unit_max,
            ),
        ] {
            if !value.is_power_of_two() || value < least || value > most {
                let (value, least, most) = (value.into(), least.into(), most.into());
                return Err(LimitsError::NotPowerOfTwo { name, value, least, most });
            }
        }
        if !self.atomic_write_boundary.is_multiple_of(self.atomic_write_unit_max) {
            return Err(LimitsError::NotMultiple {
                name: "atomic_write_boundary_bytes",
                unit: "bytes",
                value: self.atomic_write_boundary.into(),
                of: self.atomic_write_unit_max.into(),
            });
        }
        Ok(())
    }

    /// Keeps atomic writes within what the hardware accepts, and by the later rule their units to
    /// what divides the chunk, so that none crosses its boundary.
    fn bound_atomic(&mut self, rules: &Rules) {
        if self.atomic_write_max == 0 {
            return;
        }
        let (chunk, bound) =
            (self.chunk_sectors.bytes().get(), |limit: u64| limit.min(u32::MAX.into()) as u32);
        self.atomic_write_max = self.atomic_write_max.min(bound(self.hardware().bytes().get()));
        let mut unit = 1 << self.atomic_write_max.ilog2();
        if rules.atomic_writes_within_chunk && chunk > 0 {
            self.atomic_write_max = self.atomic_write_max.min(bound(chunk));
            unit = unit.min(bound(1 << chunk.trailing_zeros()));
        }
        self.atomic_write_unit_max = self.atomic_write_unit_max.min(unit);
        self.atomic_write_unit_min = self.atomic_write_unit_min.min(unit);
    }

    /// Clears FUA if there is no write cache: it is never needed then.
    fn fix_features(&mut self) {
        self.fua &= self.write_cache;
    }

    /// Returns the soft limit: the user's, or the device's preferred size, or the version's cap,
    /// but at most the hardware limit.
    fn derive_max_sectors(&self, rules: &Rules) -> Result<Sectors, LimitsError> {
        let hardware = self.hardware();
        let user = self.max_user_sectors;
        if !user.is_zero() && user < Sectors::new(PAGE_SECTORS) {
            let (value, least) = (user.get() / 2, PAGE_SIZE / 1024);
            return Err(LimitsError::OutOfRange {
                name: "max_sectors_kb",
                unit: "KiB",
                value,
                least,
                most: u64::MAX,
            });
        }
        let cap = Sectors::new(rules.max_sectors_cap);
        let preferred = [self.io_opt, self.io_min]
            .map(|bytes| Sectors::new(u64::from(bytes) / SECTOR_SIZE))
            .into_iter()
            .find(|&size| rules.io_opt_raises_max_sectors && size > cap);
        let wanted = if user.is_zero() { preferred.unwrap_or(cap) } else { user };
        Ok(round_down_to_block(hardware.min(wanted), self.logical_block_size))
    }
}

/// Returns true if a value is a mask of low bits: zero, or a power of two minus one.
const fn is_mask(value: u64) -> bool {
    value & value.wrapping_add(1) == 0
}
