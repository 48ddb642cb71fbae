//! What a request is charged: the time that it takes alone on a disk, which does one at a time, and
//! elsewhere what it occupies.

use super::cost::{CostModel, Direction};
use super::occupancy::Occupancy;
use super::slot::Slot;

/// What is charged for a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charges<'a> {
    pub(super) costs: &'a CostModel,
    pub(super) occupancy: &'a Occupancy,
    pub(super) rotational: bool,
}

impl Charges<'_> {
    /// Returns how long a request takes if nothing else is in the device.
    #[inline]
    pub(super) fn alone(self, slot: &Slot) -> u64 {
        let Slot { direction, sectors, is_next, .. } = *slot;
        let cost = self.costs.of(direction, sectors, is_next);
        // A write that a disk has buffered ends early, and moves the head later like a read.
        let moves_head = self.rotational && direction.is_write() && !is_next;
        if moves_head { cost.max(self.costs.of(Direction::Read, sectors, false)) } else { cost }
    }

    /// Returns what a request is charged.
    #[inline]
    pub(super) fn of(self, slot: &Slot) -> u64 {
        if self.rotational {
            return self.alone(slot);
        }
        self.occupancy.of(slot.cell, self.costs.of(slot.direction, slot.sectors, slot.is_next))
    }

    /// Returns what a request is charged, and its kind.
    #[inline]
    pub(super) fn cost_and_kind_of(self, slot: &Slot) -> (u64, usize) {
        (self.of(slot), usize::from(slot.direction.is_write()))
    }
}
