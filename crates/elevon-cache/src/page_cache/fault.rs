//! Touches of memory through a mapping: page faults.

use super::{
    Advice, Call, CallDone, CallStep, Entry, FrameId, Instant, Open, OpenId, PageCache, PageFlags, Phase, Progress,
    Status, Way,
};
use crate::Context;
use crate::fault::{fault_around, hints_active, on_hit, on_miss};
use elevon_core::units::{Bytes, PageCount, PageIndex};

impl PageCache {
    /// Maps an open file. Its [`CallKind::Fault`]s may follow.
    ///
    /// [`CallKind::Fault`]: super::CallKind::Fault
    pub fn map(&mut self, open: OpenId) {
        let file = self.opens.as_slice()[open.0 as usize].file;
        self.files[file.0 as usize].mappings += 1;
    }

    /// Ends a mapping of [`Self::map`]. When a file's last mapping ends, its pages are unmapped, so
    /// that an invalidation can drop them. A page whose accessed bit was set counts one use, unless
    /// the mapping was marked sequential or random. Costs a walk of the file's pages.
    ///
    /// # Panics
    /// If the file is not mapped.
    pub fn unmap(&mut self, open: OpenId) {
        let Open { file, ra, .. } = self.opens.as_slice()[open.0 as usize];
        let mappings = &mut self.files[file.0 as usize].mappings;
        *mappings = mappings.checked_sub(1).expect("a file that is not mapped is unmapped");
        if *mappings > 0 {
            return;
        }
        let mut next = PageIndex::ZERO;
        while let Some((index, frame)) = self.resident.pages().next(file, next) {
            next = index.next();
            let pages = self.resident.pages_mut();
            if pages.maps(frame) == 0 {
                continue;
            }
            pages.unmap(frame);
            if pages.take_accessed(frame) && hints_active(ra.mapping_advice()) {
                self.resident.access(frame, Context::Read);
            }
        }
    }

    pub(super) fn step_fault(&mut self, now: Instant, at: &mut Progress, write: bool) -> CallStep {
        if at.phase == Phase::Wait {
            // The store and its pause have finished, unless the dirty limit stopped the task
            // completely.
            return if at.rebalance { self.pause_store(now, at) } else { CallStep::Done(Status::Ok) };
        }
        if at.phase == Phase::Start {
            if at.call.offset >= self.files[at.file.0 as usize].size {
                // Beyond the end of the file: SIGBUS.
                return CallStep::Done(Status::Invalid);
            }
            at.pos = at.call.offset.page();
        }
        loop {
            if at.pos.start() >= self.files[at.file.0 as usize].size {
                return CallStep::Done(Status::Invalid);
            }
            let Some(frame) = self.page_for_fault(now, at) else { return self.starve(now, at) };
            let pages = self.resident.pages();
            if !pages.has(frame, PageFlags::UPTODATE) {
                at.is_major = true;
                match self.wait_readable(at, frame) {
                    Some(step) => return step,
                    None => continue,
                }
            }
            if write && self.must_be_stable(frame) {
                return CallStep::Page(frame);
            }
            self.copy_within_page(&at.call, frame, way(write));
            self.map_about(at, frame, write);
            return if write { self.store(now, at, frame) } else { CallStep::Done(Status::Ok) };
        }
    }

    /// Completes a touch that needs no fault, because the page is mapped: the processor only sets
    /// the accessed bit. Returns `None` if the touch is a fault.
    #[inline]
    pub(super) fn touch(&mut self, call: &Call, write: bool) -> Option<CallDone> {
        let file = self.opens[call.open.0 as usize].file;
        let place = self.resident.place(file, call.offset.page())?;
        let bits = self.resident.pages().at(place);
        // A clean page is mapped read-only.
        if !bits.has(PageFlags::MAPPED) || (write && !bits.has(PageFlags::DIRTY)) {
            return None;
        }
        self.resident.access_at(place, Context::Fault);
        self.copy_within_page(call, self.resident.pages().frame(place), way(write));
        self.stats.touches += 1;
        Some(call.done(Bytes::ZERO))
    }

    fn page_for_fault(&mut self, now: Instant, at: &mut Progress) -> Option<FrameId> {
        let is_first = core::mem::replace(&mut at.phase, Phase::Pages) == Phase::Start;
        let open = at.call.open.0 as usize;
        let Some(frame) = self.resident.find(at.file, at.pos) else {
            at.is_major = true;
            let context = self.fault_context(at);
            if at.starved.is_some() {
                // The call has read ahead once; now it waits for memory for its one page.
                return self.read_alone(now, at, context);
            }
            let mut ra = self.opens[open].ra;
            let pages = self.resident.pages();
            let cached = |index: PageIndex| matches!(pages.entry(at.file, index), Entry::Page(_));
            let window = on_miss(&mut ra, at.pos, &self.config.rules, cached);
            self.opens[open].ra = ra;
            if window.size > 1 {
                // A mapping that is read in order asks for all of readahead's pages.
                let asks = if ra.mapping_advice() == Advice::Sequential { ra.ra_pages() } else { 0 };
                let end = at.pos + PageCount::new(asks.into());
                self.read_pieces(now, at, window, end, at.pos..at.pos.next(), context);
            }
            let found = self.resident.find(at.file, at.pos);
            return found.or_else(|| self.read_alone(now, at, context));
        };
        if is_first {
            on_hit(&mut self.opens[open].ra);
        }
        if self.resident.pages().has(frame, PageFlags::READAHEAD) {
            at.end = at.pos.next();
            self.hit_marker(now, at, frame);
        }
        Some(frame)
    }

    pub(super) const fn fault_context(&self, at: &Progress) -> Context {
        let advice = self.opens.as_slice()[at.call.open.0 as usize].ra.mapping_advice();
        if hints_active(advice) { Context::Fault } else { Context::Readahead }
    }

    /// Maps the page and, on a load, the up-to-date pages around it (fault-around). Only the page
    /// itself counts as accessed.
    fn map_about(&mut self, at: &Progress, frame: FrameId, write: bool) {
        if !write {
            let (first, end) = fault_around(at.pos, self.files[at.file.0 as usize].size.page_ceil());
            let mut next = first;
            while let Some((index, near)) = self.resident.pages().next(at.file, next).filter(|&(n, _)| n < end) {
                next = index.next();
                let pages = self.resident.pages_mut();
                let is_busy = pages.has(near, PageFlags::LOCKED | PageFlags::READAHEAD);
                if near != frame && pages.has(near, PageFlags::UPTODATE) && !is_busy && pages.maps(near) == 0 {
                    pages.map(near);
                    self.stats.mapped_around += 1;
                }
            }
        }
        let pages = self.resident.pages_mut();
        assert!(pages.has(frame, PageFlags::UPTODATE), "{frame:?} is mapped before it is readable");
        debug_assert!(!pages.has(frame, PageFlags::LOCKED), "{frame:?} is mapped while it is read");
        if pages.maps(frame) == 0 {
            pages.map(frame);
        }
        self.resident.access(frame, Context::Fault);
    }

    /// Makes the page writable and dirty, which clears the mark of reclaim.
    fn store(&mut self, now: Instant, at: &mut Progress, frame: FrameId) -> CallStep {
        self.resident.pages_mut().clear(frame, PageFlags::RECLAIM);
        self.dirty_page(now, &at.call, at.file, frame);
        at.phase = Phase::Wait;
        self.pause_store(now, at)
    }

    fn pause_store(&mut self, now: Instant, at: &mut Progress) -> CallStep {
        self.balance(now, at).unwrap_or(CallStep::Done(Status::Ok))
    }
}

/// The way of the bytes of a load or a store.
const fn way(write: bool) -> Way {
    if write { Way::ToFrame } else { Way::ToCall }
}
