//! What happened over time, in at most [`SLOTS`] slots of equal width, whatever the length of the
//! trace.
//!
//! The width starts at a microsecond and doubles, two slots becoming one, when time passes the last
//! slot. Cost: O(1) amortised.

use super::Group;

/// Most slots.
pub const SLOTS: usize = 512;

/// One slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Bios that were queued.
    pub queued: u64,
    /// Requests that completed, by [`Group`].
    pub completed: [u64; Group::COUNT],
    /// Their bytes.
    pub bytes: [u64; Group::COUNT],
    /// Integral of the requests in the device over time, in request-nanoseconds.
    pub in_device: u64,
    /// Integral of the requests that waited for the device, in request-nanoseconds.
    pub waiting: u64,
    /// Nanoseconds with a request in the device.
    pub busy: u64,
    /// Largest time from issue to completion of a request that completed in the slot.
    pub latency_max: u64,
    /// Sum of those times.
    pub latency_sum: u64,
}

impl Slot {
    fn add(&mut self, other: &Self) {
        self.queued += other.queued;
        for at in 0..Group::COUNT {
            self.completed[at] += other.completed[at];
            self.bytes[at] += other.bytes[at];
        }
        self.in_device = self.in_device.saturating_add(other.in_device);
        self.waiting = self.waiting.saturating_add(other.waiting);
        self.busy += other.busy;
        self.latency_max = self.latency_max.max(other.latency_max);
        self.latency_sum = self.latency_sum.saturating_add(other.latency_sum);
    }
}

/// The slots.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Time at which the first slot begins; `None` before the first event with a time.
    pub start: Option<u64>,
    /// Width of a slot in nanoseconds.
    pub width: u64,
    /// The slots up to the last event.
    pub slots: Vec<Slot>,
    /// Depths are counted up to here.
    counted: u64,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { start: None, width: 1 << 10, slots: Vec::new(), counted: 0 }
    }
}

impl Timeline {
    /// The slot of a time that is not before the start.
    #[inline]
    fn at(&mut self, now: u64) -> usize {
        let start = *self.start.get_or_insert(now);
        loop {
            let at = now.saturating_sub(start) / self.width;
            if at < SLOTS as u64 {
                let at = at as usize;
                if at >= self.slots.len() {
                    self.slots.resize(at + 1, Slot::default());
                }
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
    }

    /// Counts what was in the device and what waited, from the last call up to `now`.
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
        // The last slot first, so that the width does not change on the way.
        self.at(now);
        let start = self.start.unwrap_or(now);
        while self.counted < now {
            let at = ((self.counted - start) / self.width) as usize;
            let end = (start + (at as u64 + 1) * self.width).min(now);
            let span = end - self.counted;
            let slot = &mut self.slots[at];
            slot.in_device = slot.in_device.saturating_add(span.saturating_mul(in_device));
            slot.waiting = slot.waiting.saturating_add(span.saturating_mul(waiting));
            slot.busy += if in_device > 0 { span } else { 0 };
            self.counted = end;
        }
    }

    /// Forgets the time up to `now`: what was in the device then is not known.
    pub(super) fn skip_to(&mut self, now: u64) {
        self.counted = self.counted.max(now);
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
        slot.bytes[group as usize] += bytes;
        if let Some(latency) = latency {
            slot.latency_max = slot.latency_max.max(latency);
            slot.latency_sum = slot.latency_sum.saturating_add(latency);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One request in the device from 0 to 10 s: whatever the width has become, all its time is
    /// counted once.
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
