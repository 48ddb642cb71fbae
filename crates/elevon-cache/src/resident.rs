//! The pages in memory: frames, index and policy combined.
//!
//! The order of calls: [`Resident::insert`] a page that [`Resident::find`] does not find, with
//! [`Flags::LOCKED`] set until its read has completed; [`Resident::access`] on each use;
//! [`Pages::set_dirty`], [`Pages::begin_writeback`] and [`Resident::end_writeback`] around a write;
//! [`Resident::reclaim`] when [`Resident::free`] is too little; [`Resident::drop_page`] for all
//! other removals.
//!
//! Memory used outside the page cache is a count, [`Resident::set_reserved`]: it takes no
//! particular frames, but reduces the number of frames that may be filled. When it grows,
//! [`Resident::deficit`] is the number of pages that must be evicted. Reclaim may move programs'
//! idle pages to zram ([`Resident::set_programs`]), which reduces the count.
//!
//! Cost: that of the index and of the policy.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use super::pages::{Evicted, Flags, LeafEntry, PAGE_BYTES, Pages};
use super::replace::{
    Anonymous, AnyReplacement, DEFAULT_PRIORITY, Reclaimer, Replacement, ReplacementConfig,
    Request, ScanOutcome, Stats,
};
use super::{Context, FileId, FrameId};
use elevon_core::units::{Instant, PageIndex};

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
    /// Returns empty memory of `frames` pages.
    ///
    /// # Panics
    /// If `frames` is above `FRAMES_MAX`.
    pub fn new(frames: u64, config: &ReplacementConfig) -> Self {
        Self {
            pages: Pages::new(frames),
            policy: AnyReplacement::new(config),
            reserved: 0,
            programs: Anonymous::default(),
        }
    }

    /// Returns the page frames and the index.
    #[inline]
    pub const fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Returns the page frames and the index, to change flags, pins, maps and tags. Pages are
    /// inserted and removed only by the methods here.
    #[inline]
    pub(crate) const fn pages_mut(&mut self) -> &mut Pages {
        &mut self.pages
    }

    /// Returns the policy.
    pub const fn policy(&self) -> &AnyReplacement {
        &self.policy
    }

    /// Returns the page at `index` of a file, if cached.
    #[inline]
    pub fn find(&mut self, file: FileId, index: PageIndex) -> Option<FrameId> {
        self.pages.find(file, index)
    }

    /// Inserts a page at `index` of a file, which has none there, into a free frame; returns `None`
    /// if no frame is free. [`Self::is_active`] is valid when this returns, before the page's read
    /// is issued.
    pub fn insert(&mut self, file: FileId, index: PageIndex, context: Context) -> Option<FrameId> {
        if self.free() == 0 {
            return None;
        }
        let (frame, shadow) = self.pages.insert(file, index)?;
        let shadow = shadow.filter(|_| context != Context::Write);
        self.policy.insert(&mut self.pages, frame, context, shadow);
        Some(frame)
    }

    /// Returns the place of the page at `index` of a file, for [`Self::access_at`], which is faster
    /// than [`Self::access`].
    #[inline]
    pub fn place(&mut self, file: FileId, index: PageIndex) -> Option<LeafEntry> {
        self.pages.place(file, index)
    }

    /// Records a use of a page.
    #[inline]
    pub fn access(&mut self, frame: FrameId, context: Context) {
        self.access_at(self.pages.place_of(frame), context);
    }

    /// Records a use of the page at a place.
    #[inline]
    pub fn access_at(&mut self, place: LeafEntry, context: Context) {
        self.policy.access_at(&mut self.pages, place, context);
    }

    /// Returns true if a page is active content: the policy counts it in the working set.
    #[inline]
    pub fn is_active(&self, frame: FrameId) -> bool {
        self.pages.has(frame, Flags::WORKINGSET)
    }

    /// Ends the writeback of a page. If reclaim found the page meanwhile, it is evicted next.
    pub(crate) fn end_writeback(&mut self, frame: FrameId) {
        self.pages.end_writeback(frame);
        if self.pages.has(frame, Flags::RECLAIM) {
            self.pages.clear(frame, Flags::RECLAIM);
            if !self.pages.has(frame, Flags::LOCKED | Flags::DIRTY) {
                self.policy.rotate(&mut self.pages, frame);
            }
        }
    }

    /// Removes a page without a shadow: for truncation, invalidation and `POSIX_FADV_DONTNEED`. If
    /// it is dirty, its changes are lost. Returns `None` and keeps the page if it is locked, under
    /// writeback or pinned.
    pub(crate) fn drop_page(&mut self, frame: FrameId) -> Option<Evicted> {
        if self.pages.has(frame, Flags::LOCKED | Flags::WRITEBACK) || self.pages.is_pinned(frame) {
            return None;
        }
        self.pages.cancel_dirty(frame);
        self.policy.remove(&mut self.pages, frame);
        Some(self.pages.remove(frame, None))
    }

    /// Runs one round of reclaim; see `Request`. Evicted pages are appended to `out`.
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

    /// Reclaims up to `want` pages, in rounds of rising pressure: kswapd's rounds end at priority
    /// 1, and each begins with ageing; direct reclaim's end at 0.
    pub fn reclaim(
        &mut self,
        now: Instant,
        want: u64,
        by: Reclaimer,
        out: &mut Vec<Evicted>,
    ) -> ScanOutcome {
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

    /// Begins a round of kswapd with ageing; for callers that run the rounds themselves.
    pub fn age(&mut self, now: Instant) {
        self.policy.age(now, &mut self.pages);
    }

    /// Sets the number of pages used outside the page cache. If they exceed the free pages,
    /// [`Self::deficit`] pages must be reclaimed. Reserved pages that are neither idle nor zram
    /// count as in use.
    pub fn set_reserved(&mut self, pages: u64) {
        self.reserved = pages;
        let Anonymous { idle, swap, .. } = self.programs;
        self.set_programs(Anonymous {
            touched: pages.saturating_sub(idle + swap.memory()),
            ..self.programs
        });
    }

    /// Sets the programs' part of the reserved memory, and the swap space for it. All of it is
    /// included in [`Self::reserved`].
    pub(crate) fn set_programs(&mut self, programs: Anonymous) {
        self.programs = programs;
        self.policy.on_anonymous(programs);
    }

    /// Returns the current state of programs' memory.
    pub const fn programs(&self) -> &Anonymous {
        &self.programs
    }

    /// Kills idle programs, which frees up to `pages` of idle memory. Returns the number of pages
    /// freed.
    pub fn kill(&mut self, pages: u64) -> u64 {
        let freed = pages.min(self.programs.idle);
        self.reserved -= freed;
        self.set_programs(Anonymous { idle: self.programs.idle - freed, ..self.programs });
        freed
    }

    /// Returns the next dirty page that kswapd's last round must write itself, if any.
    pub(crate) fn take_write(&mut self) -> Option<FrameId> {
        self.policy.take_write()
    }

    /// Tells the policy that kswapd has reached the high mark.
    pub(crate) fn on_balanced(&mut self) {
        self.policy.on_balanced();
    }

    /// Returns the number of frames that may be filled.
    #[inline]
    pub const fn free(&self) -> u64 {
        self.pages.capacity().saturating_sub(self.pages.used() + self.reserved)
    }

    /// Returns the number of pages by which used and reserved memory exceed the capacity.
    pub const fn deficit(&self) -> u64 {
        (self.pages.used() + self.reserved).saturating_sub(self.pages.capacity())
    }

    /// Returns the memory used outside the page cache, in pages.
    pub const fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Returns the policy's statistics.
    pub fn stats(&self) -> &Stats {
        self.policy.stats()
    }

    /// Returns the bytes of state: frames that were ever used, and the index.
    pub const fn state_bytes(&self) -> u64 {
        self.pages.frames_touched() * PAGE_BYTES
            + self.pages.frames_touched().div_ceil(8)
            + self.pages.index_bytes()
    }

    /// Panics if any state is invalid. Costs O(pages); for tests.
    pub fn self_check(&self) {
        self.pages.self_check();
        self.policy.self_check(&self.pages);
    }
}
