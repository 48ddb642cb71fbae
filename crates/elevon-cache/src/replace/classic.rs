//! `classic`: an active and an inactive list, and refaults judged by distance, as in Linux without
//! MGLRU.
//!
//! New pages go to the head of the inactive list; the second use moves them to the active one.
//! Reclaim takes the tail of the inactive list and refills it from the tail of the active one while
//! it is the shorter by the kernel's ratio. `nonresident` counts evictions and activations; the
//! shadow of a page is its value at eviction, and a page that returns before the count has grown by
//! more than the active pages is active at once: with that much more inactive memory it would not
//! have been evicted.
//!
//! Pages that are dirty or under writeback when reclaim meets them are marked and put on the active
//! list; when their writeback is over, they are first in the queue. kswapd, once it has met a round
//! of nothing but such pages, has those written that it meets again.
//!
//! Programs' pages are looked at where there is zram and swappiness is not 0: then in proportion to
//! swappiness and to what reclaim of either type has cost, unless inactive file pages are plenty
//! and easy (only files'), next to nothing is files' (only programs') or this is the last round
//! (both in full); see `balance`.
//!
//! Cost: each operation O(1); reclaim O(1) for each page that it looks at.

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
/// Pages looked at before the lists are balanced again.
const BATCH: u64 = 32;

/// The policy's state.
#[derive(Clone, Debug, Default)]
pub struct Classic {
    inactive: List,
    active: List,
    nonresident: u64,
    /// Refaults that made a page active, and how many there were when reclaim last looked.
    refaults: u64,
    refaults_seen: u64,
    programs: Programs,
    /// kswapd has met a batch of dirty pages only, and free memory has not recovered since.
    meets_dirty: bool,
    /// Pages for kswapd's caller to write.
    to_write: VecDeque<FrameId>,
    stats: Stats,
}

/// The active list may be so many times as long as the inactive one: the root of ten times the GiB
/// that both are, 1 below one GiB.
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
    /// Evictions and activations so far.
    pub const fn nonresident(&self) -> u64 {
        self.nonresident
    }

    /// Pages on the active list.
    pub const fn active(&self) -> u64 {
        self.active.len()
    }

    fn list(&mut self, pages: &Pages, slot: FrameId) -> &mut List {
        if pages.list_tag(slot) == ACTIVE { &mut self.active } else { &mut self.inactive }
    }

    fn add(&mut self, pages: &mut Pages, slot: FrameId, is_active: bool) {
        if is_active {
            pages.set(slot, Flags::ACTIVE);
            pages.set_list_tag(slot, ACTIVE);
            self.active.push_head(pages, slot);
        } else {
            pages.clear(slot, Flags::ACTIVE);
            pages.set_list_tag(slot, INACTIVE);
            self.inactive.push_head(pages, slot);
        }
    }

    fn take(&mut self, pages: &mut Pages, slot: FrameId) {
        self.list(pages, slot).remove(pages, slot);
        pages.set_list_tag(slot, 0);
    }

    /// The second use of an inactive page.
    #[inline(never)]
    fn activate(&mut self, pages: &mut Pages, place: LeafEntry) {
        let slot = pages.slot(place);
        self.take(pages, slot);
        pages.clear(slot, Flags::REFERENCED);
        self.nonresident += 1;
        self.stats.activated += 1;
        self.add(pages, slot, true);
    }

    /// Active pages whose loss would have made room for a page to stay.
    fn refault_limit(&self) -> u64 {
        let has_swap = self.programs.anonymous.swap.free > 0;
        self.active.len() + if has_swap { self.programs.len() } else { 0 }
    }

    fn refault(&mut self, pages: &mut Pages, slot: FrameId, shadow: Shadow) -> bool {
        self.stats.refaulted += 1;
        if shadow.age(self.nonresident) > self.refault_limit() {
            return false;
        }
        self.nonresident += 1;
        self.refaults += 1;
        self.stats.activated += 1;
        if shadow.is_workingset() {
            pages.set(slot, Flags::WORKINGSET);
            self.stats.restored += 1;
            self.programs.note_restored(self.inactive.len() + self.active.len() + self.programs.len());
        }
        true
    }

    fn is_inactive_low(&self) -> bool {
        self.inactive.len() * inactive_ratio(self.inactive.len() + self.active.len()) < self.active.len()
    }

    /// Moves pages from the tail of the active list to the inactive one; code that runs stays.
    fn shrink_active(&mut self, pages: &mut Pages, count: u64) -> u64 {
        for scanned in 0..count {
            let Some(slot) = self.active.tail() else { return scanned };
            self.take(pages, slot);
            self.stats.scanned += 1;
            if pages.take_accessed(slot) && pages.has(slot, Flags::EXECUTABLE) {
                self.nonresident += 1;
                self.add(pages, slot, true);
            } else {
                pages.set(slot, Flags::WORKINGSET);
                self.stats.deactivated += 1;
                self.add(pages, slot, false);
            }
        }
        count
    }

    fn judge(pages: &mut Pages, slot: FrameId) -> PageVerdict {
        if pages.has(slot, Flags::LOCKED) {
            return PageVerdict::Keep;
        }
        if pages.has(slot, Flags::WRITEBACK) {
            return PageVerdict::Activate;
        }
        let was_referenced = pages.has(slot, Flags::REFERENCED);
        pages.clear(slot, Flags::REFERENCED);
        if pages.take_accessed(slot) {
            pages.set(slot, Flags::REFERENCED);
            let is_hot = was_referenced || pages.maps(slot) > 1 || pages.has(slot, Flags::EXECUTABLE);
            return if is_hot { PageVerdict::Activate } else { PageVerdict::Keep };
        }
        // Used once through a descriptor and not since: that does not keep it.
        if pages.has(slot, Flags::DIRTY) {
            PageVerdict::Activate
        } else if pages.is_evictable(slot) {
            PageVerdict::Evict
        } else {
            PageVerdict::Keep
        }
    }

    /// Looks at the tail of the inactive list.
    fn shrink_inactive(&mut self, pages: &mut Pages, by: Reclaimer, outcome: &mut ScanOutcome, out: &mut Vec<Evicted>) {
        let Some(slot) = self.inactive.tail() else { return };
        let was_met = pages.has(slot, Flags::DIRTY) && pages.has(slot, Flags::RECLAIM);
        if was_met && self.meets_dirty && by == Reclaimer::Kswapd && !pages.has(slot, Flags::LOCKED | Flags::WRITEBACK)
        {
            self.to_write.push_back(slot);
        }
        self.take(pages, slot);
        self.stats.scanned += 1;
        outcome.scanned += 1;
        match Self::judge(pages, slot) {
            PageVerdict::Evict => {
                let shadow = Shadow::new(self.nonresident, pages.has(slot, Flags::WORKINGSET));
                self.nonresident += 1;
                outcome.evicted += 1;
                out.push(pages.remove(slot, Some(shadow)));
            }
            verdict => {
                let is_passed_on = is_busy(pages, slot);
                if pages.has(slot, Flags::DIRTY | Flags::WRITEBACK) {
                    outcome.pass_on(pages, slot);
                }
                let is_active = matches!(verdict, PageVerdict::Activate);
                self.stats.passed_on += u64::from(is_passed_on);
                self.stats.kept += u64::from(!is_passed_on && !is_active);
                self.stats.activated += u64::from(!is_passed_on && is_active);
                self.nonresident += u64::from(is_active);
                self.add(pages, slot, is_active);
            }
        }
    }
}

impl Replacement for Classic {
    fn insert(&mut self, pages: &mut Pages, slot: FrameId, _context: Context, shadow: Option<Shadow>) {
        self.stats.inserted += 1;
        let is_active = shadow.is_some_and(|shadow| self.refault(pages, slot, shadow));
        self.add(pages, slot, is_active);
    }

    #[inline]
    fn access_at(&mut self, pages: &mut Pages, place: LeafEntry, context: Context) {
        match context {
            Context::Fault => pages.set_accessed(pages.slot(place)),
            Context::Write | Context::Readahead => {}
            Context::Read => {
                let bits = pages.at_mut(place);
                if !bits.has(Flags::REFERENCED) {
                    bits.set(Flags::REFERENCED);
                } else if !bits.has(Flags::ACTIVE) {
                    self.activate(pages, place);
                }
            }
        }
    }

    fn evict(&mut self, _now: Instant, pages: &mut Pages, request: Request, out: &mut Vec<Evicted>) -> ScanOutcome {
        let mut total = ScanOutcome::default();
        let shares = self.shares(&request, pages.capacity());
        self.refaults_seen = self.refaults;
        self.to_write.clear();
        let mut inactive = shares.amount(self.inactive.len(), shares.files, request.priority);
        let mut active = shares.amount(self.active.len(), shares.files, request.priority);
        let [mut programs, mut programs_active] = self.programs.amounts(shares, request.priority);
        while inactive + active + programs + programs_active > 0 && total.reclaimed() < request.want {
            // Each list has its batch before the round may end.
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

    fn rotate(&mut self, pages: &mut Pages, slot: FrameId) {
        self.take(pages, slot);
        pages.clear(slot, Flags::ACTIVE);
        pages.set_list_tag(slot, INACTIVE);
        self.inactive.push_tail(pages, slot);
        self.stats.rotated += 1;
    }

    fn remove(&mut self, pages: &mut Pages, slot: FrameId) {
        self.take(pages, slot);
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
            for slot in list.iter(pages) {
                assert_eq!(pages.list_tag(slot), tag);
                assert_eq!(pages.has(slot, Flags::ACTIVE), tag == ACTIVE);
            }
        }
        assert_eq!(self.inactive.len() + self.active.len(), pages.used());
        self.programs.self_check();
        let stats = &self.stats;
        assert_eq!(stats.inserted - stats.evicted - stats.removed, pages.used());
    }
}
