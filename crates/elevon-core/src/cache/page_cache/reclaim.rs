//! Memory for pages: kswapd, direct reclaim, and calls that find none.

use super::{Instant, PageCache, Progress, Status, Step};
use crate::cache::replace::{Reclaimer, Request};
use crate::cache::watermark::{Pressure, RECLAIM_BATCH, WRITEBACK_THROTTLE};
use crate::units::Nanos;

/// How long a call looks for memory before it is given up. (The kernel would end a program.)
const STARVED_MAX: Nanos = Nanos::from_secs(20);

impl PageCache {
    /// Sees to it that a frame may be filled; false where none can be had now.
    #[inline]
    pub(super) fn make_room(&mut self, now: Instant) -> bool {
        match self.marks.pressure(self.resident.free()) {
            Pressure::None => true,
            Pressure::WakeKswapd => {
                self.wake_kswapd();
                true
            }
            Pressure::Direct | Pressure::Throttled => self.reclaim_directly(now),
        }
    }

    /// The allocating task frees a little itself.
    fn reclaim_directly(&mut self, now: Instant) -> bool {
        self.wake_kswapd();
        if self.reclaim_in_vain {
            // Nothing has changed: looking at every page again would find the same.
            return self.resident.free() > self.marks.min / 2;
        }
        self.evicted.clear();
        let outcome = self.resident.reclaim(now, RECLAIM_BATCH, Reclaimer::Direct, &mut self.evicted);
        self.stats.direct_reclaims += 1;
        self.stats.direct_reclaimed += outcome.evicted;
        self.stats.direct_scanned += outcome.scanned;
        self.note_dirty(outcome.dirty);
        self.reclaim_in_vain = outcome.evicted == 0;
        // The last of the reserve is not for the page cache.
        self.resident.free() > self.marks.min / 2 || (outcome.evicted > 0 && self.resident.free() > 0)
    }

    /// A call found no memory for a page that it must have.
    pub(super) fn starve(&mut self, now: Instant, at: &mut Progress) -> Step {
        let since = *at.starved.get_or_insert(now);
        if now.since(since) > STARVED_MAX {
            self.stats.out_of_memory += 1;
            return Step::Done(Status::NoSpace);
        }
        Step::Memory
    }

    pub(super) fn wake_kswapd(&mut self) {
        if self.kswapd_rests.is_none() {
            self.kswapd.wake();
        }
    }

    /// Reclaim met dirty pages: they are to be written, however few are dirty.
    fn note_dirty(&mut self, dirty: u64) {
        if dirty > 0 {
            self.reclaim_wants_clean = true;
            self.flusher.wake();
        }
    }

    /// At the end of each entry: kswapd runs, if it is awake, until enough is free or nothing more can be had.
    #[inline]
    pub(super) fn settle(&mut self, now: Instant) {
        if self.kswapd.priority().is_some() {
            self.run_kswapd(now);
        }
    }

    fn run_kswapd(&mut self, now: Instant) {
        self.evicted.clear();
        let mut freed = 0;
        while let Some(priority) = self.kswapd.priority() {
            self.resident.age(now);
            let request = Request { want: self.marks.kswapd_target(), priority, by: Reclaimer::Kswapd };
            let outcome = self.resident.evict(now, request, &mut self.evicted);
            self.stats.kswapd_scanned += outcome.scanned;
            self.note_dirty(outcome.dirty);
            self.kswapd.round_ended(self.resident.free(), &self.marks, outcome.evicted);
            freed += outcome.evicted;
        }
        self.stats.kswapd_reclaimed += freed;
        if self.resident.free() < self.marks.low {
            self.kswapd_rests = Some(now + WRITEBACK_THROTTLE);
        }
        if freed > 0 {
            self.wake_starved(now);
            self.run(now);
        }
    }
}
