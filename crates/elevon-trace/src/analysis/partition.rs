//! Separates the I/O of a partition from other I/O of its disk.
//!
//! The kernel names the whole disk in every event of a bio except one: the remap from the
//! partition, which precedes the queue event and shows where the partition starts. So a device that
//! has no other event is a partition.

use crate::event::{DeviceNumber, TraceEvent, TraceKind};

/// Maximum number of partitions that are distinguished.
const MAX_PARTITIONS: usize = 256;

/// The partitions of the chosen device's disk, if the chosen device is a partition.
#[derive(Default)]
pub(super) struct Partitions {
    disk: Option<DeviceNumber>,
    /// True if the chosen device has other events: it is then no partition, even if bios are
    /// remapped from it to others.
    has_own: bool,
    /// Disks, first sectors of their partitions in order, and the partitions; those of other disks
    /// until the disk is known.
    starts: Vec<(DeviceNumber, u64, DeviceNumber)>,
}

impl Partitions {
    /// Records that the chosen device has another event.
    #[inline]
    pub(super) const fn set_own(&mut self) {
        self.has_own = true;
    }

    /// Returns the disk of the partition.
    pub(super) const fn disk(&self) -> Option<DeviceNumber> {
        self.disk
    }

    /// Returns true if an event of the disk, or of another device, belongs to the chosen partition.
    #[inline]
    pub(super) fn is_ours(&mut self, chosen: DeviceNumber, event: &TraceEvent) -> bool {
        if let TraceKind::Remap { from, from_sector } = event.kind {
            return self.remap(chosen, from, from_sector, event);
        }
        let Some(disk) = self.disk.filter(|&disk| Some(disk) == event.device) else { return false };
        // A flush has no place, or sector 0, and is of the disk. Waits and plugs are of no bio.
        let Some(sector) = event.sector else { return event.op.is_none() };
        let after = self.starts.partition_point(|&(of, start, _)| (of, start) <= (disk, sector));
        after > 0 && self.starts[after - 1].2 == chosen
    }

    fn remap(
        &mut self,
        chosen: DeviceNumber,
        from: DeviceNumber,
        from_sector: u64,
        event: &TraceEvent,
    ) -> bool {
        let (Some(disk), Some(sector)) = (event.device, event.sector) else { return false };
        if from == chosen && self.disk.is_none() && !self.has_own {
            self.disk = Some(disk);
            self.starts.retain(|&(of, ..)| of == disk);
        }
        if self.disk.is_none_or(|known| known == disk)
            && let Some(start) = sector.checked_sub(from_sector)
            && self.starts.len() < MAX_PARTITIONS
            && let Err(at) =
                self.starts.binary_search_by_key(&(disk, start), |&(of, start, _)| (of, start))
        {
            self.starts.insert(at, (disk, start, from));
        }
        from == chosen && self.disk == Some(disk)
    }
}
