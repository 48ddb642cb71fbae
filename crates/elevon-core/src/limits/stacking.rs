//! Stacking: the limits of a device made of others (RAID, device mapper) from the limits of its components.

use super::{QueueLimits, UNLIMITED, min_not_zero, round_down_to_block};
use crate::units::{PAGE_SECTORS, SECTOR_SIZE, Sector, Sectors};

/// Greatest common divisor; `gcd(a, 0) = a`.
const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Least common multiple, or the one that is not zero. Saturates where the result does not fit.
fn lcm_not_zero(a: u32, b: u32) -> u32 {
    if a == 0 || b == 0 {
        return a.max(b);
    }
    let lcm = u64::from(a) / gcd(a.into(), b.into()) * u64::from(b);
    u32::try_from(lcm).unwrap_or(u32::MAX)
}

/// Bytes from a position to the next start of a grain that lies `offset` bytes off the device's start.
fn alignment(grain: u32, offset: u32, at: Sector) -> u32 {
    if grain == 0 {
        return 0;
    }
    let grain = u64::from(grain);
    let into = (u128::from(at.get()) * u128::from(SECTOR_SIZE) % u128::from(grain)) as u64;
    ((grain + u64::from(offset) % grain - into) % grain) as u32
}

impl QueueLimits {
    /// What a stacking driver starts from: no limit at all.
    pub fn stacking_default() -> Self {
        Self {
            max_hw_sectors: UNLIMITED,
            max_dev_sectors: UNLIMITED,
            max_sectors: UNLIMITED,
            max_segments: u16::MAX,
            max_segment_size: u32::MAX,
            max_discard_segments: u16::MAX,
            max_write_zeroes_sectors: UNLIMITED,
            max_zone_append_sectors: UNLIMITED,
            poll: true,
            ..Self::default()
        }
    }

    /// The grain that an I/O should start on: the larger of physical block and preferred minimum, bytes.
    fn grain(&self) -> u32 {
        self.physical_block_size.max(self.io_min)
    }

    /// Bytes from sector `start` to the next sector where a physical block (or preferred I/O) begins.
    pub fn alignment_at(&self, start: Sector) -> u32 {
        alignment(self.grain(), self.alignment_offset, start)
    }

    /// Takes in the limits of a component that begins at sector `start` of its own device. Returns whether the result is
    /// misaligned, which is then also noted in [`Self::misaligned`]. `validate` the result once all components are in.
    pub fn stack(&mut self, bottom: &Self, start: Sector) -> bool {
        self.misaligned |= bottom.misaligned;
        self.stack_sizes(bottom);
        self.stack_discard(bottom, start);
        self.stack_alignment(bottom, start);
        self.stack_features(bottom);
        for limit in [&mut self.max_sectors, &mut self.max_hw_sectors, &mut self.max_dev_sectors] {
            if !limit.is_zero() {
                *limit = round_down_to_block(*limit, self.logical_block_size).max(Sectors::new(PAGE_SECTORS));
            }
        }
        self.misaligned
    }

    fn stack_sizes(&mut self, bottom: &Self) {
        macro_rules! smaller {
            ($($field:ident),*) => { $(self.$field = min_not_zero(self.$field, bottom.$field);)* };
        }
        smaller!(max_sectors, max_user_sectors, max_hw_sectors, max_dev_sectors, max_segments, max_segment_size);
        smaller!(seg_boundary_mask, virt_boundary_mask, max_discard_segments, max_secure_erase_sectors);
        smaller!(max_open_zones, max_active_zones);
        // One component's bound may be below what another lets open.
        if self.max_active_zones != 0 {
            self.max_open_zones = self.max_open_zones.min(self.max_active_zones);
        }
        self.max_write_zeroes_sectors = self.max_write_zeroes_sectors.min(bottom.max_write_zeroes_sectors);
        self.max_zone_append_sectors = self.max_zone_append_sectors.min(bottom.max_zone_append_sectors);
        self.dma_alignment = self.dma_alignment.max(bottom.dma_alignment);
        self.zone_write_granularity = self.zone_write_granularity.max(bottom.zone_write_granularity);
    }

    fn stack_discard(&mut self, bottom: &Self, start: Sector) {
        if bottom.discard_granularity == 0 {
            return;
        }
        self.max_hw_discard_sectors = min_not_zero(self.max_hw_discard_sectors, bottom.max_hw_discard_sectors);
        self.max_user_discard_sectors = min_not_zero(self.max_user_discard_sectors, bottom.max_user_discard_sectors);
        let offset = alignment(bottom.discard_granularity, bottom.discard_alignment, start);
        self.discard_granularity = self.discard_granularity.max(bottom.discard_granularity);
        self.discard_alignment = lcm_not_zero(self.discard_alignment, offset) % self.discard_granularity;
    }

    fn stack_alignment(&mut self, bottom: &Self, start: Sector) {
        let offset = bottom.alignment_at(start);
        if self.alignment_offset != offset {
            let top = u64::from(self.grain()) + u64::from(self.alignment_offset);
            let below = u64::from(bottom.grain()) + u64::from(offset);
            self.misaligned |= !top.max(below).is_multiple_of(top.min(below));
        }
        self.logical_block_size = self.logical_block_size.max(bottom.logical_block_size);
        self.physical_block_size = self.physical_block_size.max(bottom.physical_block_size);
        self.io_min = self.io_min.max(bottom.io_min);
        self.io_opt = lcm_not_zero(self.io_opt, bottom.io_opt);
        if !bottom.chunk_sectors.is_zero() {
            self.chunk_sectors = Sectors::new(gcd(self.chunk_sectors.get(), bottom.chunk_sectors.get()));
        }
        if !self.physical_block_size.is_multiple_of(self.logical_block_size) {
            self.physical_block_size = self.logical_block_size;
            self.misaligned = true;
        }
        if !self.io_min.is_multiple_of(self.physical_block_size) {
            self.io_min = self.physical_block_size;
            self.misaligned = true;
        }
        if !self.io_opt.is_multiple_of(self.physical_block_size) {
            self.io_opt = 0;
            self.misaligned = true;
        }
        if !self.chunk_sectors.bytes().get().is_multiple_of(self.physical_block_size.into()) {
            self.chunk_sectors = Sectors::ZERO;
            self.misaligned = true;
        }
        self.alignment_offset = lcm_not_zero(self.alignment_offset, offset) % self.grain();
        self.misaligned |= !self.alignment_offset.is_multiple_of(self.logical_block_size);
    }

    /// What one component has, the whole has to care for; what one component lacks, the whole cannot promise. Atomic
    /// writes are not passed up.
    const fn stack_features(&mut self, bottom: &Self) {
        self.zoned |= bottom.zoned;
        self.write_cache |= bottom.write_cache;
        self.fua |= bottom.fua;
        self.rotational |= bottom.rotational;
        self.nowait &= bottom.nowait;
        self.poll &= bottom.poll;
    }
}
