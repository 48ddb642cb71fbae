//! Figures over time, in at most [`SLOTS`] slots of equal width, for any length of a trace.
//!
//! The width starts at a microsecond. If time passes the last slot, it doubles and every two slots
//! become one. Cost: O(1) amortised.

use super::Group;
use super::sum::add;

/// Maximum number of slots.
pub const SLOTS: usize = 512;

/// Figures of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Bios queued.
    pub queued: u64,
    /// Requests completed, by [`Group`].
    pub completed: [u64; Group::COUNT],
    /// Bytes of these requests.
    pub bytes: [u64; Group::COUNT],
    /// Integral of the requests in the device over time, in request-nanoseconds.
    pub in_device: u64,
    /// Integral of the requests waiting for the device over time, in request-nanoseconds.
    pub waiting: u64,
    /// Nanoseconds with a request in the device.
    pub busy: u64,
    /// Largest time from issue to completion of a request that completed in the slot.
    pub latency_max: u64,
    /// Sum of the times from issue to completion of those of them that are known.
    pub latency_sum: u64,
    /// Number of requests in the sum.
    pub timed: u64,
    /// Nanoseconds in which events were lost: nothing that completed in them is counted.
    pub lost: u64,
}

impl Slot {
    fn add(&mut self, other: &Self) {
        self.queued += other.queued;
        for at in 0..Group::COUNT {
            self.completed[at] += other.completed[at];
            add(&mut self.bytes[at], other.bytes[at]);
        }
        self.in_device = self.in_device.saturating_add(other.in_device);
        self.waiting = self.waiting.saturating_add(other.waiting);
        self.busy += other.busy;
        self.latency_max = self.latency_max.max(other.latency_max);
        self.latency_sum = self.latency_sum.saturating_add(other.latency_sum);
        self.timed += other.timed;
        self.lost += other.lost;
    }
}

impl Slot {
    /// Adds time with so many requests in the device and waiting for it.
    #[inline]
    fn pass(&mut self, span: u64, in_device: u64, waiting: u64) {
        self.in_device = self.in_device.saturating_add(span.saturating_mul(in_device));
        self.waiting = self.waiting.saturating_add(span.saturating_mul(waiting));
        self.busy += if in_device > 0 { span } else { 0 };
    }
}

/// All slots.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Start of the first slot; `None` before the first event with a time.
    pub start: Option<u64>,
    /// Width of a slot in nanoseconds.
    pub width: u64,
    /// The slots up to the last event.
    pub slots: Vec<Slot>,
    /// Depths have been counted up to this time.
    counted: u64,
    /// The last slot that was used, with its start and its end; empty if there is none.
    current: (usize, u64, u64),
}

/// No slot: an empty range of times.
const NO_SLOT: (usize, u64, u64) = (0, 1, 0);

impl Default for Timeline {
    fn default() -> Self {
        Self { start: None, width: 1 << 10, slots: Vec::new(), counted: 0, current: NO_SLOT }
    }
}

impl Timeline {
    /// Returns the slot of a time that is not before the start.
    #[inline]
    fn at(&mut self, now: u64) -> usize {
        let (at, from, to) = self.current;
        if (from..to).contains(&now) { at } else { self.find(now) }
    }

    fn find(&mut self, now: u64) -> usize {
        let start = *self.start.get_or_insert(now);
        loop {
            let at = now.saturating_sub(start) / self.width;
            if at < SLOTS as u64 {
                let from = start + at * self.width;
                let at = at as usize;
                if at >= self.slots.len() {
                    self.slots.resize(at + 1, Slot::default());
                }
                self.current = (at, from, from.saturating_add(self.width));
                return at;
            }
            self.double();
        }
    }

    #[cold]
    fn double(&mut self) {
        for at in 0..self.slots.len().div_ceil(2) {
            let mut both = self.slots[2 * at];
            if let Some(second) = self.slots.get(2 * at + 1) {
                both.add(second);
            }
            self.slots[at] = both;
        }
        self.slots.truncate(self.slots.len().div_ceil(2));
        self.width *= 2;
        self.current = NO_SLOT;
    }

    /// Counts requests in the device and waiting requests from the last call up to `now`.
    #[inline]
    pub(super) fn advance(&mut self, now: u64, in_device: u64, waiting: u64) {
        if self.start.is_none() {
            self.start = Some(now);
            self.counted = now;
        }
        if in_device == 0 && waiting == 0 {
            self.counted = self.counted.max(now);
            return;
        }
        let (at, from, to) = self.current;
        if from <= self.counted && now < to {
            let span = now.saturating_sub(self.counted);
            self.slots[at].pass(span, in_device, waiting);
            self.counted += span;
            return;
        }
        self.over_slots(now, |slot, span| slot.pass(span, in_device, waiting));
    }

    /// Gives the time up to `now` to the slots that it is in.
    fn over_slots(&mut self, now: u64, pass: impl Fn(&mut Slot, u64)) {
        // The last slot is added first, so that the width does not change in between.
        self.find(now);
        let start = self.start.unwrap_or(now);
        while self.counted < now {
            let at = ((self.counted - start) / self.width) as usize;
            let end = start.saturating_add((at as u64 + 1).saturating_mul(self.width)).min(now);
            let span = end - self.counted;
            pass(&mut self.slots[at], span);
            self.counted = end;
        }
    }

    /// Skips the time up to `now`, in which the requests in the device are unknown.
    pub(super) fn skip_to(&mut self, now: u64) {
        if self.start.is_some() && self.counted < now {
            self.over_slots(now, |slot, span| slot.lost += span);
        }
    }

    /// Takes what the device did from another timeline of the same time, which has no fewer events.
    pub(super) fn take_device_of(&mut self, all: &Self) {
        while self.width < all.width {
            self.double();
        }
        self.slots.resize(all.slots.len(), Slot::default());
        for (slot, of_all) in self.slots.iter_mut().zip(&all.slots) {
            let Slot { in_device, waiting, busy, lost, .. } = *of_all;
            *slot = Slot { in_device, waiting, busy, lost, ..*slot };
        }
    }

    #[inline]
    pub(super) fn queued(&mut self, now: u64) {
        let at = self.at(now);
        self.slots[at].queued += 1;
    }

    #[inline]
    pub(super) fn completed(&mut self, now: u64, group: Group, bytes: u64, latency: Option<u64>) {
        let at = self.at(now);
        let slot = &mut self.slots[at];
        slot.completed[group as usize] += 1;
        add(&mut slot.bytes[group as usize], bytes);
        if let Some(latency) = latency {
            slot.latency_max = slot.latency_max.max(latency);
            slot.latency_sum = slot.latency_sum.saturating_add(latency);
            slot.timed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One request is in the device from 0 to 10 s: at every width all of its time is counted once.
    #[test]
    fn time_is_counted_once_at_every_width() {
        let mut line = Timeline::default();
        let mut now = 5;
        line.advance(now, 0, 0);
        let start = now;
        let mut random = elevon_testkit::Rng(3);
        while now < 10_000_000_000 {
            now += 1 + random.below(3_000_000);
            line.advance(now, 2, 1);
            line.completed(now, Group::Read, 4096, Some(7));
        }
        let sum = |of: fn(&Slot) -> u64| line.slots.iter().map(of).sum::<u64>();
        assert_eq!(sum(|slot| slot.busy), now - start);
        assert_eq!(sum(|slot| slot.in_device), 2 * (now - start));
        assert_eq!(sum(|slot| slot.waiting), now - start);
        assert!(line.slots.len() <= SLOTS && line.slots.len() > SLOTS / 2);
        assert_eq!(sum(|slot| slot.latency_max), 7 * line.slots.len() as u64);
        assert!(line.slots.iter().all(|slot| slot.busy <= line.width));
    }

    #[test]
    fn a_leap_over_all_of_time_ends() {
        let mut line = Timeline::default();
        line.advance(0, 0, 0);
        line.advance(u64::MAX / 4, 1, 0);
        assert!(line.slots.len() <= SLOTS);
    }
}
