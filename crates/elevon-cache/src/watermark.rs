//! Watermarks of free memory, and how much is reclaimed below each of them.
//!
//! Below *low*, kswapd wakes and reclaims until *high* is reached. Below *min*, the allocating task
//! reclaims a batch itself; below half of *min*, it also waits. One zone, order-0 pages. As in
//! Linux 6.1. Cost: O(1).

use super::dirty::sqrt;
use super::replace::DEFAULT_PRIORITY;
use elevon_core::units::{Bytes, Nanos, PAGE_SIZE};

/// Pages that direct reclaim, and one batch of kswapd, tries to free.
pub(crate) const RECLAIM_BATCH: u64 = 32;
/// The default preference of reclaim for programs' memory.
pub(crate) const SWAPPINESS: u8 = 60;
/// The longest time that reclaim waits for progress of writeback.
pub(crate) const WRITEBACK_THROTTLE: Nanos = Nanos::from_millis(100);

/// The three marks, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Below this mark: direct reclaim.
    pub min: u64,
    /// Below this mark: kswapd wakes.
    pub low: u64,
    /// At this mark or above: kswapd sleeps.
    pub high: u64,
}

/// The memory pressure that an allocation finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Enough is free.
    None,
    /// The allocation wakes kswapd and continues.
    WakeKswapd,
    /// The allocation reclaims first.
    Direct,
    /// The allocation reclaims, and waits if that frees nothing.
    Throttled,
}

impl Watermarks {
    /// Returns the marks of a machine with `memory` managed by one zone; `extra` pages are added to
    /// low and high (Android's `extra_free_kbytes`), 0 elsewhere.
    pub fn of_memory(memory: Bytes, extra: u64) -> Self {
        let min_free_kib = sqrt(16 * (memory.get() >> 10)).clamp(128, 262_144);
        let managed = memory.get() / PAGE_SIZE;
        let min = min_free_kib * 1024 / PAGE_SIZE;
        let gap = (min / 4).max(managed * 10 / 10_000);
        Self { min, low: min + gap + extra, high: min + 2 * gap + extra }
    }

    /// Returns the memory pressure with `free` pages free.
    #[inline]
    pub const fn pressure(&self, free: u64) -> Pressure {
        if free >= self.low {
            Pressure::None
        } else if free >= self.min {
            Pressure::WakeKswapd
        } else if free >= self.min / 2 {
            Pressure::Direct
        } else {
            Pressure::Throttled
        }
    }

    /// Returns the number of pages that one round of kswapd tries to free.
    pub(crate) const fn kswapd_target(&self) -> u64 {
        if self.high > RECLAIM_BATCH { self.high } else { RECLAIM_BATCH }
    }
}

/// The state of kswapd: asleep, or in a round at a priority. If a round frees too little, the next
/// one scans more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kswapd {
    /// Priority of the round, from 12, a little, to 1, half of everything; `None`: asleep.
    priority: Option<u8>,
}

impl Kswapd {
    /// Wakes kswapd. Returns true if it was asleep.
    pub(crate) const fn wake(&mut self) -> bool {
        let slept = self.priority.is_none();
        if slept {
            self.priority = Some(DEFAULT_PRIORITY);
        }
        slept
    }

    /// Returns the priority of the next round; `None`: asleep.
    pub(crate) const fn priority(&self) -> Option<u8> {
        self.priority
    }

    /// Ends a round. kswapd sleeps if the high mark is reached, or if no lower priority is left.
    pub(crate) const fn round_ended(&mut self, free: u64, marks: &Watermarks, reclaimed: u64) {
        self.priority = match self.priority {
            _ if free >= marks.high => None,
            // This priority makes progress, so it is used again.
            Some(priority) if reclaimed >= RECLAIM_BATCH => Some(priority),
            Some(priority) if priority > 1 => Some(priority - 1),
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// `__setup_per_zone_wmarks` of `mm/page_alloc.c`.
    #[test]
    fn marks_of_one_zone() {
        for (gib, min, low, high) in
            [(1, 1024, 1286, 1548), (6, 2508, 4080, 5652), (8, 2896, 4993, 7090)]
        {
            assert_eq!(
                Watermarks::of_memory(Bytes::new(gib * GIB), 0),
                Watermarks { min, low, high },
                "{gib} GiB"
            );
        }
        // The clamp: 128 KiB at the least.
        assert_eq!(Watermarks::of_memory(Bytes::new(1 << 18), 0).min, 32);
        assert_eq!(
            Watermarks::of_memory(Bytes::new(6 * GIB), 100),
            Watermarks { min: 2508, low: 4180, high: 5752 }
        );
    }

    #[test]
    fn pressure_by_free_pages() {
        let marks = Watermarks::of_memory(Bytes::new(6 * GIB), 0);
        for (free, pressure) in [
            (4080, Pressure::None),
            (4079, Pressure::WakeKswapd),
            (2508, Pressure::WakeKswapd),
            (2507, Pressure::Direct),
            (1253, Pressure::Throttled),
        ] {
            assert_eq!(marks.pressure(free), pressure, "{free} free");
        }
    }

    #[test]
    fn kswapd_tries_harder_and_sleeps_at_high() {
        let marks = Watermarks::of_memory(Bytes::new(6 * GIB), 0);
        let mut kswapd = Kswapd::default();
        assert!(kswapd.wake() && !kswapd.wake());
        kswapd.round_ended(4100, &marks, 64);
        assert_eq!(kswapd.priority(), Some(12));
        for priority in (1..12).rev() {
            kswapd.round_ended(4100, &marks, 0);
            assert_eq!(kswapd.priority(), Some(priority));
        }
        kswapd.round_ended(4100, &marks, 0);
        assert_eq!(kswapd.priority(), None);
        kswapd.wake();
        kswapd.round_ended(5652, &marks, 0);
        assert_eq!(kswapd.priority(), None);
    }
}
