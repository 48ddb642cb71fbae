//! Disks of virtual machines as each kernel presents them: limits by the rules of its version.
//!
//! The limits are measured: QEMU's virtio-blk and NVMe, null_blk and scsi_debug under seven kernels
//! in one machine (`tests/data/kernel-truth/matrix/queue.tsv`). What such a disk takes for a
//! command is the host's, so the times are parameters, and none of them is from a measurement.

use elevon_core::kernel::Rules;
use elevon_core::limits::QueueLimits;
use elevon_core::units::Sectors;

/// A disk by the driver that presents it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presented {
    /// The module null_blk with its defaults.
    NullBlk,
    /// virtio-blk of QEMU, on a host whose file is not said to be an SSD.
    VirtioBlk,
    /// The NVMe disk of QEMU.
    QemuNvme,
    /// A disk of the SCSI layer: the module scsi_debug.
    ScsiDisk,
}

impl Presented {
    /// Returns the limits as the driver of a kernel with these rules reports them.
    pub fn limits(self, rules: &Rules) -> QueueLimits {
        match self {
            Self::NullBlk => QueueLimits {
                dma_alignment: if rules.null_blk_takes_any_address { 1 } else { 511 },
                poll: true,
                ..QueueLimits::default()
            },
            Self::VirtioBlk => QueueLimits {
                max_hw_sectors: Sectors::new(u32::MAX.into()),
                max_segments: 254,
                max_segment_size: u32::MAX,
                discard_granularity: 512,
                max_hw_discard_sectors: VIRTIO_DISCARD,
                max_write_zeroes_sectors: VIRTIO_DISCARD,
                write_cache: true,
                rotational: true,
                ..QueueLimits::default()
            },
            Self::QemuNvme => qemu_nvme(rules),
            Self::ScsiDisk => QueueLimits {
                max_hw_sectors: Sectors::new(u32::MAX.into()),
                max_user_sectors: if rules.scsi_default_is_io_opt {
                    SCSI_STRIPE
                } else {
                    Sectors::ZERO
                },
                io_opt: SCSI_STRIPE.bytes().get() as u32,
                max_segments: 2048,
                max_segment_size: u32::MAX,
                dma_alignment: 3,
                max_write_zeroes_sectors: Sectors::new(65535),
                write_cache: true,
                fua: true,
                ..QueueLimits::default()
            },
        }
    }

    /// Returns the scheduler that the kernel selects for the disk: mq-deadline for one hardware
    /// queue, unless the driver asks for none.
    pub const fn default_scheduler(self) -> &'static str {
        match self {
            Self::ScsiDisk => "mq-deadline",
            Self::NullBlk | Self::VirtioBlk | Self::QemuNvme => "none",
        }
    }

    /// Returns the milliseconds after which the driver gives a command up; `None` for a driver that
    /// waits for ever, whose queue has no attribute `io_timeout`.
    pub const fn timeout_ms(self) -> Option<u64> {
        match self {
            Self::NullBlk => Some(5_000),
            Self::VirtioBlk => None,
            Self::QemuNvme | Self::ScsiDisk => Some(30_000),
        }
    }
}

/// The largest discard of QEMU's virtio-blk: 2 GiB less a sector.
const VIRTIO_DISCARD: Sectors = Sectors::new(4_194_303);
/// The preferred size that scsi_debug states, 512 KiB.
const SCSI_STRIPE: Sectors = Sectors::new(1024);

fn qemu_nvme(rules: &Rules) -> QueueLimits {
    QueueLimits {
        // MDTS 7.
        max_hw_sectors: Sectors::new(1024),
        max_segments: rules.nvme_max_segments,
        max_segment_size: u32::MAX,
        virt_boundary_mask: if rules.nvme_lists_need_no_boundary { 0 } else { 4095 },
        dma_alignment: 3,
        io_opt: if rules.nvme_states_io_opt { 512 } else { 0 },
        discard_granularity: if rules.nvme_discard_granularity_of_namespace { 4096 } else { 512 },
        max_hw_discard_sectors: VIRTIO_DISCARD,
        max_discard_segments: 256,
        max_write_zeroes_sectors: Sectors::new(1024),
        atomic_write_max: 512,
        atomic_write_unit_min: 512,
        atomic_write_unit_max: 512,
        max_integrity_segments: rules.nvme_integrity_segment.into(),
        write_cache: true,
        fua: true,
        ..QueueLimits::default()
    }
}
