//! What the completions of requests say about the device.

use super::Aileron;
use super::cost::{ALONE, Direction};
use super::depth::Wants;
use super::slot::Slot;
use crate::units::{Instant, Nanos};

/// A member that got less than its share within this time does so now, and within the time of two
/// requests of a slow device.
const RECENT: Nanos = Nanos::from_millis(100);

impl Aileron {
    /// Returns how long a request takes if nothing else is in the device: what it is charged.
    #[inline]
    pub(super) fn cost_of(&self, slot: &Slot) -> u64 {
        let Slot { direction, sectors, is_next, .. } = *slot;
        let cost = self.costs.of(direction, sectors, is_next);
        // A write that a disk has buffered ends early, and moves the head later like a read.
        let moves_head = self.rotational && direction == Direction::Write && !is_next;
        if moves_head { cost.max(self.costs.of(Direction::Read, sectors, false)) } else { cost }
    }

    /// Learns from a request that ends; `issued`: when the driver got it.
    pub(super) fn learn(&mut self, slot: &Slot, issued: Instant) {
        let now = self.now;
        // A disk does one at a time, and what moves no data may take no time in the device, but it
        // does in the driver and the processor: what counts is the time from the end before it.
        let since_last = now.since(slot.dispatched.max(self.ended)).get();
        let Slot { direction, sectors, is_next, .. } = *slot;
        if direction == Direction::NoData {
            self.depth.on_no_data(now);
            return self.costs.learn(direction, sectors, false, since_last, 1);
        }
        if issued < slot.dispatched {
            return;
        }
        if self.rotational {
            // What continues a stream after others the disk may have read ahead: it is not a seek.
            if is_next || !slot.is_of_stream {
                self.costs.learn(direction, sectors, is_next, since_last, 1);
            }
            return;
        }
        let time = now.since(issued).get();
        let alone = self.costs.of(direction, sectors, false);
        let sample = self.depth.sample(slot.mark, time, alone);
        let is_known = self.costs.is_known(direction);
        let is_fixed = self.settings.depth > 0;
        let weight = if sample.was_alone() { ALONE } else { u64::from(is_fixed) };
        self.costs.learn(direction, sectors, false, time, weight);
        if !is_fixed {
            let recent = RECENT.max(Nanos::new(time.saturating_mul(2)));
            let wants = Wants {
                is_unfair: self.unfair_at.is_some_and(|at| now.since(at) <= recent),
                is_binding: self.waiting > 0,
                is_unknown: !is_known,
                prefers_shares: self.settings.prefers_shares,
            };
            self.depth.learn(now, &sample, wants);
        }
    }
}
