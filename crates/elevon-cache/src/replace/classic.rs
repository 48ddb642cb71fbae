//! `classic`: an active and an inactive list, with refaults judged by distance, as in Linux without
//! MGLRU.
//!
//! New pages go to the head of the inactive list; the second use moves them to the active list.
//! Reclaim evicts from the tail of the inactive list. While the inactive list is too short by the
//! kernel's ratio, reclaim refills it from the tail of the active list. `nonresident` counts
//! evictions and activations, and the shadow of a page holds its value at eviction. A page that
//! refaults before `nonresident` has grown by more than the number of active pages becomes active
//! at once: with that much more inactive memory it would not have been evicted.
//!
//! If reclaim meets a page that is dirty or under writeback, it marks the page and puts it on the
//! active list; when the writeback has completed, the page is the next to be evicted. Once reclaim
//! has met a batch of dirty pages only, kswapd writes the marked dirty pages that it meets again.
//!
//! Programs' pages are scanned if there is zram and swappiness is not 0. Their share of a round
//! follows from swappiness and from what reclaim of either type has cost, with three exceptions.
//! Only file pages are scanned if there are plenty of inactive ones and none refaulted lately. Only
//! programs' pages are scanned if there is hardly any file memory. Both are scanned in full in the
//! last round. See `balance`.
//!
//! Cost: each operation O(1); reclaim O(1) per page scanned.

mod balance;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Anonymous, Reclaimer, Replacement, Request, ScanOutcome, Stats, is_busy};
use crate::pages::{Evicted, Flags, LeafEntry, List, Pages};
use crate::shadow::Shadow;
use crate::{Context, FrameId};
use balance::Programs;
use elevon_core::units::{Instant, PAGE_SIZE};

const INACTIVE: u32 = 1;
const ACTIVE: u32 = 2;
/// Pages scanned before the lists are balanced again.
const BATCH: u64 = 32;

/// The policy's state.
#[derive(Clone, Debug, Default)]
pub struct Classic {
    inactive: List,
    active: List,
    nonresident: u64,
    /// Refaults that made a page active.
    refaults: u64,
    /// `refaults` when reclaim last began a round.
    refaults_seen: u64,
    programs: Programs,
    /// Reclaim has met a batch of dirty pages only, and kswapd has not reached the high mark
    /// since.
    meets_dirty: bool,
    /// Pages for kswapd's caller to write.
    to_write: VecDeque<FrameId>,
    stats: Stats,
}

/// Returns the greatest ratio of active to inactive pages: the square root of ten times the GiB in
/// both lists, or 1 below one GiB.
pub(super) fn inactive_ratio(pages: u64) -> u64 {
    match (pages * PAGE_SIZE) >> 30 {
        0 => 1,
        gib => (gib * 10).isqrt(),
    }
}

enum PageVerdict {
    Evict,
    Keep,
    Activate,
}

impl Classic {
    /// Returns the number of pages on the active list.
    pub const fn active(&self) -> u64 {
        self.active.len()
    }

    fn list(&mut self, pages: &Pages, frame: FrameId) -> &mut List {
        if pages.list_tag(frame) == ACTIVE { &mut self.active } else { &mut self.inactive }
    }

    fn add(&mut self, pages: &mut Pages, frame: FrameId, is_active: bool) {
        if is_active {
            pages.set(frame, Flags::ACTIVE);
            pages.set_list_tag(frame, ACTIVE);
            self.active.push_head(pages, frame);
        } else {
            pages.clear(frame, Flags::ACTIVE);
            pages.set_list_tag(frame, INACTIVE);
            self.inactive.push_head(pages, frame);
        }
    }

    fn take(&mut self, pages: &mut Pages, frame: FrameId) {
        self.list(pages, frame).remove(pages, frame);
        pages.set_list_tag(frame, 0);
    }

    /// Moves an inactive page to the active list at its second use.
    #[inline(never)]
    fn activate(&mut self, pages: &mut Pages, place: LeafEntry) {
        let frame = pages.frame(place);
        self.take(pages, frame);
        pages.clear(frame, Flags::REFERENCED);
        self.nonresident += 1;
        self.stats.activated += 1;
        self.add(pages, frame, true);
    }

    /// Returns the greatest age of a shadow whose page becomes active at its refault.
    fn refault_limit(&self) -> u64 {
        let has_swap = self.programs.anonymous.swap.free > 0;
        self.active.len() + if has_swap { self.programs.len() } else { 0 }
    }

    fn refault(&mut self, pages: &mut Pages, frame: FrameId, shadow: Shadow) -> bool {
        self.stats.refaulted += 1;
        if shadow.age(self.nonresident) > self.refault_limit() {
            return false;
        }
        self.nonresident += 1;
        self.refaults += 1;
        self.stats.activated += 1;
        if shadow.is_workingset() {
            pages.set(frame, Flags::WORKINGSET);
            self.stats.restored += 1;
            self.programs
                .note_restored(self.inactive.len() + self.active.len() + self.programs.len());
        }
        true
    }

    fn is_inactive_low(&self) -> bool {
        self.inactive.len() * inactive_ratio(self.inactive.len() + self.active.len())
            < self.active.len()
    }

    /// Scans up to `count` pages at the tail of the active list and moves them to the inactive
    /// list; executable pages that were accessed stay. Returns the number of pages scanned.
    fn shrink_active(&mut self, pages: &mut Pages, count: u64) -> u64 {
        for scanned in 0..count {
            let Some(frame) = self.active.tail() else { return scanned };
            self.take(pages, frame);
            self.stats.scanned += 1;
            if pages.take_accessed(frame) && pages.has(frame, Flags::EXECUTABLE) {
                self.nonresident += 1;
                self.add(pages, frame, true);
            } else {
                pages.set(frame, Flags::WORKINGSET);
                self.stats.deactivated += 1;
                self.add(pages, frame, false);
            }
        }
        count
    }

    fn judge(pages: &mut Pages, frame: FrameId) -> PageVerdict {
        if pages.has(frame, Flags::LOCKED) {
            return PageVerdict::Keep;
        }
        if pages.has(frame, Flags::WRITEBACK) {
            return PageVerdict::Activate;
        }
        let was_referenced = pages.has(frame, Flags::REFERENCED);
        pages.clear(frame, Flags::REFERENCED);
        if pages.take_accessed(frame) {
            pages.set(frame, Flags::REFERENCED);
            let is_hot =
                was_referenced || pages.maps(frame) > 1 || pages.has(frame, Flags::EXECUTABLE);
            return if is_hot { PageVerdict::Activate } else { PageVerdict::Keep };
        }
        // A single use through a descriptor does not keep the page.
        if pages.has(frame, Flags::DIRTY) {
            PageVerdict::Activate
        } else if pages.is_evictable(frame) {
            PageVerdict::Evict
        } else {
            PageVerdict::Keep
        }
    }

    /// Scans the page at the tail of the inactive list.
    fn shrink_inactive(
        &mut self,
        pages: &mut Pages,
        by: Reclaimer,
        outcome: &mut ScanOutcome,
        out: &mut Vec<Evicted>,
    ) {
        let Some(frame) = self.inactive.tail() else { return };
        let was_met = pages.has(frame, Flags::DIRTY) && pages.has(frame, Flags::RECLAIM);
        if was_met
            && self.meets_dirty
            && by == Reclaimer::Kswapd
            && !pages.has(frame, Flags::LOCKED | Flags::WRITEBACK)
        {
            self.to_write.push_back(frame);
        }
        self.take(pages, frame);
        self.stats.scanned += 1;
        outcome.scanned += 1;
        match Self::judge(pages, frame) {
            PageVerdict::Evict => {
                let shadow = Shadow::new(self.nonresident, pages.has(frame, Flags::WORKINGSET));
                self.nonresident += 1;
                outcome.evicted += 1;
                out.push(pages.remove(frame, Some(shadow)));
            }
            verdict => {
                let is_passed_on = is_busy(pages, frame);
                if pages.has(frame, Flags::DIRTY | Flags::WRITEBACK) {
                    outcome.pass_on(pages, frame);
                }
                let is_active = matches!(verdict, PageVerdict::Activate);
                self.stats.passed_on += u64::from(is_passed_on);
                self.stats.kept += u64::from(!is_passed_on && !is_active);
                self.stats.activated += u64::from(!is_passed_on && is_active);
                self.nonresident += u64::from(is_active);
                self.add(pages, frame, is_active);
            }
        }
    }
}

impl Replacement for Classic {
    fn insert(
        &mut self,
        pages: &mut Pages,
        frame: FrameId,
        _context: Context,
        shadow: Option<Shadow>,
    ) {
        self.stats.inserted += 1;
        let is_active = shadow.is_some_and(|shadow| self.refault(pages, frame, shadow));
        self.add(pages, frame, is_active);
    }

    #[inline]
    fn read_at(&mut self, pages: &mut Pages, place: LeafEntry) {
        let bits = pages.at_mut(place);
        if !bits.has(Flags::REFERENCED) {
            bits.set(Flags::REFERENCED);
        } else if !bits.has(Flags::ACTIVE) {
            self.activate(pages, place);
        }
    }

    fn evict(
        &mut self,
        _now: Instant,
        pages: &mut Pages,
        request: Request,
        out: &mut Vec<Evicted>,
    ) -> ScanOutcome {
        let mut total = ScanOutcome::default();
        let shares = self.shares(&request, pages.capacity());
        self.refaults_seen = self.refaults;
        self.to_write.clear();
        let mut inactive = shares.amount(self.inactive.len(), shares.files, request.priority);
        let mut active = shares.amount(self.active.len(), shares.files, request.priority);
        let [mut programs, mut programs_active] = self.programs.amounts(shares, request.priority);
        while inactive + active + programs + programs_active > 0 && total.reclaimed() < request.want
        {
            // Each list is scanned for its batch before the round may end.
            if programs + programs_active > 0 {
                let (some, others) = (programs.min(BATCH), programs_active.min(BATCH));
                (programs, programs_active) = (programs - some, programs_active - others);
                self.shrink_programs(some, others, &mut total);
            }
            let before = total;
            for _ in 0..inactive.min(BATCH) {
                inactive -= 1;
                self.shrink_inactive(pages, request.by, &mut total, out);
                if total.evicted == request.want {
                    break;
                }
            }
            let looked_at = total.scanned - before.scanned;
            self.meets_dirty |= looked_at > 0 && total.dirty - before.dirty == looked_at;
            let batch = active.min(BATCH);
            active -= batch;
            if self.is_inactive_low() {
                total.scanned += self.shrink_active(pages, batch);
            }
        }
        self.stats.evicted += total.evicted;
        total
    }

    fn rotate(&mut self, pages: &mut Pages, frame: FrameId) {
        self.take(pages, frame);
        pages.clear(frame, Flags::ACTIVE);
        pages.set_list_tag(frame, INACTIVE);
        self.inactive.push_tail(pages, frame);
        self.stats.rotated += 1;
    }

    fn remove(&mut self, pages: &mut Pages, frame: FrameId) {
        self.take(pages, frame);
        self.stats.removed += 1;
    }

    fn on_anonymous(&mut self, anonymous: Anonymous) {
        self.programs = Programs::new(anonymous);
    }

    fn anonymous(&self) -> Anonymous {
        self.programs.anonymous
    }

    fn take_write(&mut self) -> Option<FrameId> {
        self.to_write.pop_front()
    }

    fn on_balanced(&mut self) {
        self.meets_dirty = false;
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn self_check(&self, pages: &Pages) {
        for (list, tag) in [(&self.inactive, INACTIVE), (&self.active, ACTIVE)] {
            list.self_check(pages);
            for frame in list.iter(pages) {
                assert_eq!(pages.list_tag(frame), tag);
                assert_eq!(pages.has(frame, Flags::ACTIVE), tag == ACTIVE);
            }
        }
        assert_eq!(self.inactive.len() + self.active.len(), pages.used());
        self.programs.self_check();
        let stats = &self.stats;
        assert_eq!(stats.inserted - stats.evicted - stats.removed, pages.used());
    }
}
