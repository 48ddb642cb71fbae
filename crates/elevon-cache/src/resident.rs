//! The pages in memory: frames, index, and policy as one.
//!
//! The order of calls: [`Resident::insert`] a page that [`Resident::find`] does not find, with
//! [`Flags::LOCKED`] set until its read is over; [`Resident::access`] on each use;
//! [`Pages::set_dirty`], [`Pages::begin_writeback`] and [`Resident::end_writeback`] around a write;
//! [`Resident::reclaim`] when [`Resident::free`] is too little; [`Resident::drop_page`] for all
//! other ways out.
//!
//! Memory that others use is a count, [`Resident::set_reserved`]: it takes no particular frames,
//! but as many of them may not be filled. When it grows, [`Resident::deficit`] says how many pages
//! have to go. Of what programs have, reclaim may put idle pages in zram
//! ([`Resident::set_programs`]): then the count falls.
//!
//! Cost: that of the index and of the policy.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use super::pages::{Evicted, Flags, LeafEntry, PAGE_BYTES, Pages};
use super::replace::{
    Anonymous, AnyReplacement, DEFAULT_PRIORITY, Reclaimer, Replacement, ReplacementConfig, Request, ScanOutcome, Stats,
};
use super::{Context, FileId, FrameId};
use elevon_core::units::Instant;

/// All pages in memory.
#[derive(Clone, Debug)]
pub struct Resident {
    /// Frames and index.
    pages: Pages,
    policy: AnyReplacement,
    reserved: u64,
    programs: Anonymous,
}

impl Resident {
    /// Empty memory of `frames` pages.
    ///
    /// # Panics
    /// Above [`super::pages::FRAMES_MAX`].
    pub fn new(frames: u64, config: &ReplacementConfig) -> Self {
        Self {
            pages: Pages::new(frames),
            policy: AnyReplacement::new(config),
            reserved: 0,
            programs: Anonymous::default(),
        }
    }

    /// The page frames and the index.
    #[inline]
    pub const fn pages(&self) -> &Pages {
        &self.pages
    }

    /// The page frames and the index, to change flags, pins, maps and tags. Pages come and go by
    /// the methods here only.
    #[inline]
    pub const fn pages_mut(&mut self) -> &mut Pages {
        &mut self.pages
    }

    /// The policy.
    pub const fn policy(&self) -> &AnyReplacement {
        &self.policy
    }

    /// The page at `index` of a file.
    #[inline]
    pub fn find(&mut self, file: FileId, index: u64) -> Option<FrameId> {
        self.pages.find(file, index)
    }

    /// Puts a page for `index` of a file, which has none, into a free frame; `None` where no frame
    /// is free. Whether it is active content is known when this returns ([`Self::is_active`]),
    /// before its read is issued.
    pub fn insert(&mut self, file: FileId, index: u64, context: Context) -> Option<FrameId> {
        if self.free() == 0 {
            return None;
        }
        let (slot, shadow) = self.pages.insert(file, index)?;
        let shadow = shadow.filter(|_| context != Context::Write);
        self.policy.insert(&mut self.pages, slot, context, shadow);
        Some(slot)
    }

    /// Where the page at `index` of a file is: for [`Self::access_at`], which is quicker than
    /// [`Self::access`].
    #[inline]
    pub fn place(&mut self, file: FileId, index: u64) -> Option<LeafEntry> {
        self.pages.place(file, index)
    }

    /// A page is used.
    #[inline]
    pub fn access(&mut self, slot: FrameId, context: Context) {
        self.access_at(self.pages.place_of(slot), context);
    }

    /// The page at a place is used.
    #[inline]
    pub fn access_at(&mut self, place: LeafEntry, context: Context) {
        self.policy.access_at(&mut self.pages, place, context);
    }

    /// Whether a page is active content: in the working set, as its policy judged.
    #[inline]
    pub fn is_active(&self, slot: FrameId) -> bool {
        self.pages.has(slot, Flags::WORKINGSET)
    }

    /// The writing of a page is over. If reclaim had met it meanwhile, it is the next to go.
    pub fn end_writeback(&mut self, slot: FrameId) {
        self.pages.end_writeback(slot);
        if self.pages.has(slot, Flags::RECLAIM) {
            self.pages.clear(slot, Flags::RECLAIM);
            if !self.pages.has(slot, Flags::LOCKED | Flags::DIRTY) {
                self.policy.rotate(&mut self.pages, slot);
            }
        }
    }

    /// Takes a page out that is not wanted any more, without a shadow: truncated, invalidated,
    /// `POSIX_FADV_DONTNEED`. Its changes, if it is dirty, are lost; `None` where it is locked,
    /// under writeback or pinned, and stays.
    pub fn drop_page(&mut self, slot: FrameId) -> Option<Evicted> {
        if self.pages.has(slot, Flags::LOCKED | Flags::WRITEBACK) || self.pages.is_pinned(slot) {
            return None;
        }
        self.pages.cancel_dirty(slot);
        self.policy.remove(&mut self.pages, slot);
        Some(self.pages.remove(slot, None))
    }

    /// One round of reclaim; see [`Request`]. What went is appended to `out`.
    pub fn evict(&mut self, now: Instant, request: Request, out: &mut Vec<Evicted>) -> ScanOutcome {
        let outcome = self.policy.evict(now, &mut self.pages, request, out);
        self.pages.limit_shadows();
        if outcome.swapped > 0 {
            let before = core::mem::replace(&mut self.programs, self.policy.anonymous());
            self.reserved += self.programs.swap.memory() - before.swap.memory();
            self.reserved -= outcome.swapped;
        }
        outcome
    }

    /// Reclaims up to `want` pages, in rounds of rising pressure: kswapd's end at priority 1 and
    /// each begin with ageing; direct reclaim's end at 0.
    pub fn reclaim(&mut self, now: Instant, want: u64, by: Reclaimer, out: &mut Vec<Evicted>) -> ScanOutcome {
        let last = match by {
            Reclaimer::Kswapd => 1,
            Reclaimer::Direct => 0,
        };
        let mut total = ScanOutcome::default();
        for priority in (last..=DEFAULT_PRIORITY).rev() {
            if total.reclaimed() >= want {
                break;
            }
            if by == Reclaimer::Kswapd {
                self.policy.age(now, &mut self.pages);
            }
            total += self.evict(now, Request { want: want - total.reclaimed(), priority, by }, out);
        }
        total
    }

    /// A round of kswapd begins; for callers that run the rounds themselves.
    pub fn age(&mut self, now: Instant) {
        self.policy.age(now, &mut self.pages);
    }

    /// Others use `pages` of memory now. If that is more than what is free, [`Self::deficit`] pages
    /// have to be reclaimed. What is neither idle nor zram counts as in use.
    pub fn set_reserved(&mut self, pages: u64) {
        self.reserved = pages;
        let Anonymous { idle, swap, .. } = self.programs;
        self.set_programs(Anonymous { touched: pages.saturating_sub(idle + swap.memory()), ..self.programs });
    }

    /// What programs have of the reserved memory, and where it may go. All of it is in
    /// [`Self::reserved`].
    pub fn set_programs(&mut self, programs: Anonymous) {
        self.programs = programs;
        self.policy.on_anonymous(programs);
    }

    /// Programs' memory as it is now.
    pub const fn programs(&self) -> &Anonymous {
        &self.programs
    }

    /// Programs that did not run are ended: up to `pages` of idle memory are free. Answers how
    /// many.
    pub fn kill(&mut self, pages: u64) -> u64 {
        let freed = pages.min(self.programs.idle);
        self.reserved -= freed;
        self.set_programs(Anonymous { idle: self.programs.idle - freed, ..self.programs });
        freed
    }

    /// A dirty page that kswapd's last round wants written by itself, if any.
    pub fn take_write(&mut self) -> Option<FrameId> {
        self.policy.take_write()
    }

    /// kswapd has reached the high mark.
    pub fn on_balanced(&mut self) {
        self.policy.on_balanced();
    }

    /// Frames that may be filled.
    #[inline]
    pub const fn free(&self) -> u64 {
        self.pages.capacity().saturating_sub(self.pages.used() + self.reserved)
    }

    /// Pages that are in memory though others have taken their place.
    pub const fn deficit(&self) -> u64 {
        (self.pages.used() + self.reserved).saturating_sub(self.pages.capacity())
    }

    /// Memory that others use, in pages.
    pub const fn reserved(&self) -> u64 {
        self.reserved
    }

    /// What the policy has done.
    pub fn stats(&self) -> &Stats {
        self.policy.stats()
    }

    /// Bytes of state: frames that were ever used, and index.
    pub const fn state_bytes(&self) -> u64 {
        self.pages.frames_touched() * PAGE_BYTES + self.pages.frames_touched().div_ceil(8) + self.pages.index_bytes()
    }

    /// Panics where anything is wrong. Costs O(everything); for tests.
    pub fn self_check(&self) {
        self.pages.self_check();
        self.policy.self_check(&self.pages);
    }
}
