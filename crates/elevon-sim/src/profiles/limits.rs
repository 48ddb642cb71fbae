//! Queue limits by class of device: what its driver reports to the block layer.
//!
//! Figures marked estimated have no published source. If a kernel limits the size of a request
//! (1280 KiB by default for years, raised since), the stack derives that from its version; the
//! values here are those of the hardware.

use elevon_core::limits::QueueLimits;
use elevon_core::units::Sectors;

/// The class of a device, by its driver. Those of hard disks are among their parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// SATA SSD: 65535 sectors, 168 segments (libata).
    AtaSsd,
    /// LUN of an array or a cloud: 1 MiB, 254 segments (estimated).
    Lun,
    /// eMMC: 512 KiB, 128 segments (estimated).
    Emmc,
    /// UFS before 2022: the driver's page-size DMA boundary and 128 segments give 512 KiB.
    Ufs,
    /// UFS as in proposal 001: requests of 1024 sectors; the number of segments is no restriction
    /// (256, estimated).
    Ufs4,
    /// NVMe with MDTS 6, as NVMeVirt's 970 PRO: 256 KiB, 127 segments.
    NvmeConsumer,
    /// NVMe with MDTS 5: 128 KiB, 33 segments, no volatile cache.
    NvmeDatacenter,
}

const fn kib(kib: u64) -> Sectors {
    Sectors::new(kib * 2)
}

/// Adds discards to limits.
fn trim(limits: QueueLimits, granularity: u32, sectors: u64, segments: u16) -> QueueLimits {
    QueueLimits {
        discard_granularity: granularity,
        max_hw_discard_sectors: Sectors::new(sectors),
        max_discard_segments: segments,
        ..limits
    }
}

/// Makes limits those of an NVMe device.
fn nvme(base: QueueLimits) -> QueueLimits {
    QueueLimits {
        // A PRP list describes whole pages: only the first may start, and only the last may end,
        // inside a page.
        virt_boundary_mask: 4095,
        max_segment_size: u32::MAX,
        dma_alignment: 3,
        fua: true,
        max_write_zeroes_sectors: kib(128),
        ..base
    }
}

/// Returns the limits of a class. `write_cache` and `fua` are as Linux's drivers report them for
/// such devices.
pub fn limits(class: Class) -> QueueLimits {
    let base = QueueLimits { io_min: 512, nowait: true, ..QueueLimits::default() };
    let nvme = nvme(base.clone());
    // 64 ranges of 65535 blocks fit into the one sector of a DATA SET MANAGEMENT command.
    let ata_trim = 64 * 65535;
    let all = u64::from(u32::MAX >> 9);
    match class {
        Class::AtaSsd => {
            let max_hw_sectors = Sectors::new(65535);
            let limits = QueueLimits {
                max_hw_sectors,
                max_segments: 168,
                write_cache: true,
                dma_alignment: 511,
                ..base
            };
            trim(limits, 512, ata_trim, 1)
        }
        Class::Lun => {
            QueueLimits { max_hw_sectors: kib(1024), max_segments: 254, rotational: true, ..base }
        }
        Class::Emmc => {
            let limits = QueueLimits {
                max_hw_sectors: kib(512),
                max_segments: 128,
                write_cache: true,
                fua: true,
                ..base
            };
            trim(limits, 512, all, 1)
        }
        Class::Ufs | Class::Ufs4 => {
            let page_segments = class == Class::Ufs;
            let limits = QueueLimits {
                logical_block_size: 4096,
                physical_block_size: 4096,
                io_min: 4096,
                max_hw_sectors: kib(512),
                max_segments: if page_segments { 128 } else { 256 },
                max_segment_size: if page_segments { 4096 } else { 256 << 10 },
                seg_boundary_mask: if page_segments { 0xfff } else { 0xffff_ffff },
                write_cache: true,
                fua: true,
                dma_alignment: 3,
                ..base
            };
            trim(limits, 4096, all, 1)
        }
        Class::NvmeConsumer => {
            let limits = QueueLimits {
                max_hw_sectors: kib(256),
                max_segments: 127,
                write_cache: true,
                ..nvme
            };
            trim(limits, 512, all, 256)
        }
        Class::NvmeDatacenter => {
            trim(QueueLimits { max_hw_sectors: kib(128), max_segments: 33, ..nvme }, 512, all, 256)
        }
    }
}
