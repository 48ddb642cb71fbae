//! Invariants of the scheduler that are costly to check, for tests.

use super::ids::QueueId;
use super::shares::BEST_EFFORT;
use super::slot::{Place, Slot};
use super::{Aileron, occupancy};
use crate::sched::View;

impl Aileron {
    /// Checks every invariant: O(requests · queues).
    pub(super) fn check_all(&self, view: View<'_>) {
        let mut waiting = self.lists.self_check(self.at_head) as u32;
        let (active, mut urgent, mut unsorted) = (self.shares.self_check(), 0, 0);
        for (index, queue) in self.queues.iter().enumerate() {
            let q = QueueId(index as u32);
            if self.free.contains(&q) {
                continue;
            }
            assert_eq!(
                self.lists.self_check(queue.fifo),
                queue.queued as usize,
                "requests of queue {index}"
            );
            self.by_sector.self_check(&self.lists, queue);
            unsorted += queue.unsorted;
            for id in self.lists.iter(queue.fifo) {
                let slot = &self.slots[id.index()];
                assert_eq!((slot.place, slot.queue), (Place::Queued, Some(q)), "request {}", id.0);
                let request = &view.requests[id];
                assert_eq!(
                    (slot.sector, slot.sectors),
                    (request.sector, request.sectors.get()),
                    "{} is",
                    id.0
                );
            }
            assert_eq!(
                active.contains(&queue.member),
                queue.queued > 0,
                "whether queue {index} waits"
            );
            if let Some(cell) = self.occupancy.looks_at() {
                assert_eq!(
                    self.fronts.contains(index),
                    self.is_front(q, cell),
                    "what is first in queue {index}"
                );
            }
            urgent += if queue.class < BEST_EFFORT { queue.queued } else { 0 };
            let in_device = |slot: &&Slot| slot.place == Place::InDevice && slot.queue == Some(q);
            assert_eq!(self.slots.iter().filter(in_device).count(), queue.in_device as usize);
            waiting += queue.queued;
        }
        assert_eq!(unsorted, self.by_sector.unsorted(), "requests that are not filed by sector");
        assert_eq!(
            (waiting, urgent),
            (self.waiting, self.urgent),
            "requests that wait, and urgent ones"
        );
        for cell in 0..occupancy::CELLS as u8 {
            let is_present = |slot: &&Slot| slot.place != Place::Unknown && slot.cell == cell;
            let count = self.slots.iter().filter(is_present).count();
            assert_eq!(count, self.occupancy.present(cell) as usize, "requests of cell {cell}");
        }
        let in_device = self.slots.iter().filter(|slot| slot.place == Place::InDevice).count();
        assert_eq!(in_device, self.in_flight as usize, "requests in the device");
        self.elevator.self_check(view, |id| self.slots[id.index()].place == Place::Queued);
    }
}
