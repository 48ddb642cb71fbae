//! Queue limits: what a device can take in one request, under the names and units of sysfs.

use crate::units::Sectors;

/// Limits and features of a queue (`/sys/block/X/queue/`). Units are in the names; positions follow the kernel's struct.
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
    /// Bytes that the first physical block is off the device's start.
    pub alignment_offset: u32,
    /// Set where stacked devices do not line up; sysfs then shows −1.
    pub misaligned: bool,
    /// What the hardware takes in one request (`max_hw_sectors_kb`).
    pub max_hw_sectors: Sectors,
    /// What the disk behind the controller takes; zero for no such cap.
    pub max_dev_sectors: Sectors,
    /// The soft limit that splits and merges heed (`max_sectors_kb`); derived, never set directly.
    pub max_sectors: Sectors,
    /// What a user wrote to `max_sectors_kb`; zero for nothing.
    pub max_user_sectors: Sectors,
    /// Physical segments in a request.
    pub max_segments: u16,
    /// Bytes in a segment.
    pub max_segment_size: u32,
    /// A segment may not cross a multiple of this plus one.
    pub seg_boundary_mask: u64,
    /// Only the first and last segment of a request may start or end off this boundary; 0 for none. NVMe PRP: 4095.
    pub virt_boundary_mask: u64,
    /// A request may not cross a multiple of this (stripe or zone size); zero for none.
    pub chunk_sectors: Sectors,
    /// Mask of address bits that must be zero in direct I/O.
    pub dma_alignment: u32,
    /// Hardware's limit of a discard; zero for no discard (`discard_max_hw_bytes`).
    pub max_hw_discard_sectors: Sectors,
    /// What a user allows of it.
    pub max_user_discard_sectors: Sectors,
    /// Granularity of a discard, bytes.
    pub discard_granularity: u32,
    /// Bytes that the first discard granule is off.
    pub discard_alignment: u32,
    /// Ranges in one discard request.
    pub max_discard_segments: u16,
    /// Limit of a write-zeroes; zero for none (`write_zeroes_max_bytes`).
    pub max_write_zeroes_sectors: Sectors,
    /// Limit of a secure erase; zero for none.
    pub max_secure_erase_sectors: Sectors,
    /// Limit of a zone append; zero for none (`zone_append_max_bytes`).
    pub max_zone_append_sectors: Sectors,
    /// Split alignment of writes to zones, bytes.
    pub zone_write_granularity: u32,
    /// Whether the device has a volatile write cache.
    pub write_cache: bool,
    /// Whether it can write through that cache.
    pub fua: bool,
    /// Whether it turns.
    pub rotational: bool,
    /// NOWAIT bios are supported.
    pub nowait: bool,
    /// Polling for completions is supported.
    pub poll: bool,
}

impl Default for QueueLimits {
    /// What a driver that sets nothing gets; `max_sectors` is derived by `validate`.
    fn default() -> Self {
        Self {
            logical_block_size: 512,
            physical_block_size: 512,
            io_min: 512,
            io_opt: 0,
            alignment_offset: 0,
            misaligned: false,
            max_hw_sectors: Sectors::new(255),
            max_dev_sectors: Sectors::ZERO,
            max_sectors: Sectors::new(255),
            max_user_sectors: Sectors::ZERO,
            max_segments: 128,
            max_segment_size: 65536,
            seg_boundary_mask: 0xffff_ffff,
            virt_boundary_mask: 0,
            chunk_sectors: Sectors::ZERO,
            dma_alignment: 511,
            max_hw_discard_sectors: Sectors::ZERO,
            max_user_discard_sectors: Sectors::MAX,
            discard_granularity: 0,
            discard_alignment: 0,
            max_discard_segments: 1,
            max_write_zeroes_sectors: Sectors::ZERO,
            max_secure_erase_sectors: Sectors::ZERO,
            max_zone_append_sectors: Sectors::ZERO,
            zone_write_granularity: 0,
            write_cache: false,
            fua: false,
            rotational: false,
            nowait: true,
            poll: false,
        }
    }
}
