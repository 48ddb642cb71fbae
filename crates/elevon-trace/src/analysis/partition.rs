//! I/O of a partition among that of its disk.
//!
//! The kernel names the whole disk in every event of a bio but one: the remap from the partition,
//! which comes before the bio is queued and shows where the partition begins. A partition thus is a
//! device that has no other event.

use crate::event::{Device, TraceEvent, TraceKind};

/// Partitions of a disk that are told apart; more do not occur.
const MOST: usize = 256;

/// The partitions of the disk that the chosen device is on, if it is a partition.
#[derive(Default)]
pub(super) struct Partitions {
    disk: Option<Device>,
    /// The chosen device has events of its own: it is no partition, even if bios are mapped from it
    /// to others.
    has_own: bool,
    /// First sectors with their partitions, in order.
    starts: Vec<(u64, Device)>,
}

impl Partitions {
    /// The chosen device has an event of its own.
    #[inline]
    pub(super) const fn set_own(&mut self) {
        self.has_own = true;
    }

    /// The disk of the partition.
    pub(super) const fn disk(&self) -> Option<Device> {
        self.disk
    }

    /// Returns true if an event of another device, or of the disk, is of the chosen partition.
    #[inline]
    pub(super) fn is_ours(&mut self, chosen: Device, event: &TraceEvent) -> bool {
        if let TraceKind::Remap { from, from_sector } = event.kind {
            return self.remap(chosen, from, from_sector, event);
        }
        if self.disk.is_none() || self.disk != event.device {
            return false;
        }
        let Some(sector) = event.sector else { return true };
        let after = self.starts.partition_point(|&(start, _)| start <= sector);
        after > 0 && self.starts[after - 1].1 == chosen
    }

    fn remap(&mut self, chosen: Device, from: Device, from_sector: u64, event: &TraceEvent) -> bool {
        let (Some(disk), Some(sector)) = (event.device, event.sector) else { return false };
        if from == chosen && self.disk.is_none() && !self.has_own {
            self.disk = Some(disk);
        }
        if self.disk == Some(disk)
            && let Some(start) = sector.checked_sub(from_sector)
            && self.starts.len() < MOST
            && let Err(at) = self.starts.binary_search_by_key(&start, |&(start, _)| start)
        {
            self.starts.insert(at, (start, from));
        }
        from == chosen && self.disk == Some(disk)
    }
}
