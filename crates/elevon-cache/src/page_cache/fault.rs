//! Touches of memory through a mapping: page faults.

use super::{
    Advice, Call, CallDone, CallKind, CallStep, FrameId, Instant, Open, OpenId, PageCache,
    PageFlags, Phase, Progress, Status, Way,
};
use crate::Context;
use crate::fault::{counts_as_use, fault_around, hints_active, on_found, on_miss};
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
    /// that an invalidation can drop them. A page whose accessed bit was set counts one use. Costs
    /// a walk of the file's pages.
    ///
    /// # Panics
    /// If the file is not mapped.
    pub fn unmap(&mut self, open: OpenId) {
        let file = self.opens.as_slice()[open.0 as usize].file;
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
            if pages.take_accessed(frame) {
                self.resident.access(frame, Context::Read);
            }
        }
    }

    pub(super) fn step_fault(&mut self, now: Instant, at: &mut Progress, write: bool) -> CallStep {
        if at.phase == Phase::Wait {
            // The store and its pause have finished, unless the dirty limit stopped the task
            // completely.
            return if at.rebalance {
                self.pause_store(now, at)
            } else {
                CallStep::Done(Status::Ok)
            };
        }
        if at.phase == Phase::Start {
            at.pos = at.call.offset.page();
        }
        loop {
            let size = self.files[at.file.0 as usize].size;
            if at.pos.start() >= size || (at.phase == Phase::Start && at.call.offset >= size) {
                // Beyond the end of the file: SIGBUS.
                return CallStep::Done(Status::Invalid);
            }
            // A call that has slept looks around again, and finds the page that was read.
            if !write && let Some(frame) = self.map_around(at) {
                self.copy_within_page(&at.call, frame, way(write));
                self.map_page(at, frame);
                return CallStep::Done(Status::Ok);
            }
            let Some(frame) = self.page_for_fault(now, at) else { return self.starve(now, at) };
            if !self.resident.pages().has(frame, PageFlags::UPTODATE) {
                at.is_major |= self.config.rules.fault_wait_is_major;
                match self.wait_readable(at, frame) {
                    Some(step) => return step,
                    None => continue,
                }
            }
            if !write && !self.resident.pages().has(frame, PageFlags::READAHEAD | PageFlags::LOCKED)
            {
                // The page carried the marker: the fault is tried again.
                continue;
            }
            if write && self.must_be_stable(frame) {
                return CallStep::Page(frame);
            }
            self.copy_within_page(&at.call, frame, way(write));
            self.map_page(at, frame);
            return if write { self.store(now, at, frame) } else { CallStep::Done(Status::Ok) };
        }
    }

    /// Completes a touch that needs no fault, because the page is mapped: the processor only sets
    /// the accessed bit. Returns `None` if the touch is a fault.
    #[inline]
    pub(super) fn touch(&mut self, call: &Call, write: bool) -> Option<CallDone> {
        let Open { file, ra, .. } = &self.opens[call.open.0 as usize];
        let (file, advice) = (*file, ra.mapping_advice());
        let place = self.resident.place(file, call.offset.page())?;
        let bits = self.resident.pages().at(place);
        // A clean page is mapped read-only.
        if !bits.has(PageFlags::MAPPED) || (write && !bits.has(PageFlags::DIRTY)) {
            return None;
        }
        if counts_as_use(advice, &self.config.rules) {
            self.resident.access_at(place, Context::Fault);
        }
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
            let cached = |index: PageIndex| pages.folio_order(at.file, index);
            let window = on_miss(&mut ra, at.pos, &self.config.rules, cached);
            self.opens[open].ra = ra;
            if window.size > 1 {
                // A mapping that is read in order asks for all of readahead's pages.
                let asks =
                    if ra.mapping_advice() == Advice::Sequential { ra.ra_pages() } else { 0 };
                let end = at.pos + PageCount::new(asks.into());
                self.read_pieces(now, at, window, end, at.pos..at.pos.next(), context);
            }
            let found = self.resident.find(at.file, at.pos);
            return found.or_else(|| self.read_alone(now, at, context));
        };
        let (is_locked, rules) =
            (self.resident.pages().has(frame, PageFlags::LOCKED), &self.config.rules);
        let ra = &mut self.opens[open].ra;
        // A fault that is tried again is another one, unless it is known to be a major fault.
        let is_other = is_first || !(rules.fault_wait_is_major || at.is_major);
        if is_other && !(is_locked && rules.locked_page_keeps_misses) {
            on_found(ra, 1);
        }
        if self.resident.pages().has(frame, PageFlags::READAHEAD) {
            // A mapping asks for all of a window.
            at.end = at.pos + PageCount::new(ra.ra_pages().max(1).into());
            self.hit_marker(now, at, frame);
            // A load is tried again by its caller, which looks around first.
            let is_store = matches!(at.call.kind, CallKind::Fault { write: true });
            if is_store && !self.resident.pages().has(frame, PageFlags::READAHEAD) {
                return self.page_for_fault(now, at);
            }
        }
        Some(frame)
    }

    pub(super) const fn fault_context(&self, at: &Progress) -> Context {
        let advice = self.opens.as_slice()[at.call.open.0 as usize].ra.mapping_advice();
        if hints_active(advice) { Context::Fault } else { Context::Readahead }
    }

    /// Maps the up-to-date pages around the fault's page (fault-around), and takes them off the
    /// misses of the mapping. Only the page itself will count as accessed. Returns it if it can be
    /// mapped, too.
    fn map_around(&mut self, at: &Progress) -> Option<FrameId> {
        let (first, end) = fault_around(at.pos, self.files[at.file.0 as usize].size.page_ceil());
        let (mut next, mut found, mut own) = (first, 0, None);
        while let Some((index, near)) =
            self.resident.pages().next(at.file, next).filter(|&(n, _)| n < end)
        {
            next = index.next();
            let pages = self.resident.pages_mut();
            if pages.has(near, PageFlags::LOCKED | PageFlags::READAHEAD)
                || !pages.has(near, PageFlags::UPTODATE)
            {
                continue;
            }
            let keeps_misses = self.config.rules.working_set_keeps_misses
                && pages.has(near, PageFlags::WORKINGSET);
            found += u32::from(!keeps_misses);
            if index == at.pos {
                own = Some(near);
            } else if pages.maps(near) == 0 {
                pages.map(near);
                self.stats.mapped_around += 1;
            }
        }
        on_found(&mut self.opens[at.call.open.0 as usize].ra, found);
        own
    }

    /// Maps the fault's page.
    fn map_page(&mut self, at: &Progress, frame: FrameId) {
        let pages = self.resident.pages_mut();
        assert!(pages.has(frame, PageFlags::UPTODATE), "{frame:?} is mapped before it is readable");
        debug_assert!(!pages.has(frame, PageFlags::LOCKED), "{frame:?} is mapped while it is read");
        if pages.maps(frame) == 0 {
            pages.map(frame);
        }
        let advice = self.opens[at.call.open.0 as usize].ra.mapping_advice();
        if counts_as_use(advice, &self.config.rules) {
            self.resident.access(frame, Context::Fault);
        }
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
