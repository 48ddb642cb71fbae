//! Invariants of the scheduler that are costly to check, for tests.

use super::Aileron;
use super::ids::QueueId;
use super::slot::{Place, Slot};
use crate::sched::View;

impl Aileron {
    /// Checks every invariant: O(requests · queues).
    pub(super) fn check_all(&self, view: View<'_>) {
        let mut waiting = self.lists.self_check(self.at_head) as u32;
        let active = self.shares.self_check();
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
            let sorted = self.by_sector.self_check(queue.sorted);
            assert!(sorted == 0 || sorted == queue.queued as usize, "those of {index} by sector");
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
            let in_device = |slot: &&Slot| slot.place == Place::InDevice && slot.queue == Some(q);
            assert_eq!(self.slots.iter().filter(in_device).count(), queue.in_device as usize);
            waiting += queue.queued;
        }
        assert_eq!(waiting, self.waiting, "requests that wait");
        let in_device = self.slots.iter().filter(|slot| slot.place == Place::InDevice).count();
        assert_eq!(in_device, self.in_flight as usize, "requests in the device");
        self.elevator.self_check(view, |id| self.slots[id.index()].place == Place::Queued);
    }
}
