//! Reads through a descriptor, and the functions that all reads into the cache share.

use super::{
    Advice, ByteCopy, Call, CallDone, CallKind, CallStep, Door, Entry, FileId, FrameId, Instant,
    Open, PAGE_SIZE, PageCache, PageFlags, Phase, Progress, Status, Way,
};
use crate::Context;
use crate::pages::LeafEntry;
use crate::readahead::{Ask, FORCED_PIECE_PAGES, ReadaheadWindow};
use elevon_core::op::Flags;
use elevon_core::units::{Bytes, FileOffset, PageCount, PageIndex};

/// The folios of a window, from its first page on.
struct Folios {
    window: ReadaheadWindow,
    /// The page after the last that is read.
    end: PageIndex,
    /// The first page of the next folio.
    next: PageIndex,
    order: u32,
    /// The current folio carries the window's marker.
    marked: bool,
}

impl Folios {
    /// Returns the order of the folio of the next page. A folio that would hold a cached page, and
    /// all after it, are single pages.
    fn order_of(
        &mut self,
        index: PageIndex,
        marker: Option<PageIndex>,
        cached: impl Fn(PageIndex) -> Option<u32>,
    ) -> u32 {
        if index == self.next {
            self.order = self.window.order_at(index, self.end);
            if folio(index, self.order).any(|page| cached(page).is_some()) {
                (self.window.order, self.order) = (0, 0);
            }
            self.next = index + PageCount::new(1 << self.order);
            self.marked = marker.is_some_and(|marker| (index..self.next).contains(&marker));
        }
        self.order
    }
}

/// Returns the pages of the folio of a page.
fn folio(page: PageIndex, order: u32) -> impl Iterator<Item = PageIndex> {
    let first = PageIndex::new(page.get() >> order << order);
    first.until(first + PageCount::new(1 << order))
}

impl PageCache {
    /// Completes the usual read: within one page that is cached and up to date. Returns `None` for
    /// any other read.
    #[inline]
    pub(super) fn read_hit(&mut self, call: &Call) -> Option<CallDone> {
        let &Open { file, ra, .. } = &self.opens[call.open.0 as usize];
        let (index, end) = (call.offset.page(), call.offset.saturating_add(call.bytes));
        if call.bytes.is_zero()
            || end > self.files[file.0 as usize].size
            || end.page_ceil() != index.next()
        {
            return None;
        }
        let place = self.resident.place(file, index)?;
        let bits = self.resident.pages().at(place);
        if !bits.has(PageFlags::UPTODATE) || bits.has(PageFlags::READAHEAD) {
            return None;
        }
        if ra.last_page() != Some(index) {
            self.resident.access_at(place, Context::Read);
        }
        self.opens[call.open.0 as usize].ra.read_ended(end);
        self.copy_within_page(call, self.resident.pages().frame(place), Way::ToCall);
        self.stats.read_hit();
        Some(call.done(call.bytes))
    }

    pub(super) fn step_read(&mut self, now: Instant, at: &mut Progress) -> CallStep {
        if at.phase == Phase::Start {
            let size = self.files[at.file.0 as usize].size;
            let end = at.call.offset.saturating_add(at.call.bytes).min(size);
            if at.call.offset >= end {
                return CallStep::Done(Status::Ok);
            }
            (at.pos, at.end, at.phase) = (at.call.offset.page(), end.page_ceil(), Phase::Pages);
        }
        while at.pos < at.end {
            if at.pos.start() >= self.files[at.file.0 as usize].size {
                // The file was truncated while the call slept.
                break;
            }
            let Some(place) = self.page_for_read(now, at) else {
                return self.wait_for_frame(now, at);
            };
            if !self.resident.pages().at(place).has(PageFlags::UPTODATE) {
                at.is_miss = true;
                match self.wait_readable(at, self.resident.pages().frame(place)) {
                    // The call returns the bytes before the page that cannot be read; the next call
                    // will return the error.
                    Some(CallStep::Done(_)) if !at.bytes.is_zero() => break,
                    Some(step) => return step,
                    None => continue,
                }
            }
            self.page_read(at, place);
        }
        if !at.bytes.is_zero() {
            self.opens[at.call.open.0 as usize].ra.read_ended(at.call.offset + at.bytes);
        }
        CallStep::Done(Status::Ok)
    }

    /// Returns the call's current page, which may not be up to date yet; `None` if there is no
    /// memory for it.
    #[inline]
    fn page_for_read(&mut self, now: Instant, at: &mut Progress) -> Option<LeafEntry> {
        let place = match self.resident.place(at.file, at.pos) {
            Some(place) => place,
            None => {
                if self.must_wait(at, Door::Read) {
                    return None;
                }
                // Only once: a call that waited for memory for its one page reads that page alone.
                // Otherwise readahead could use up the memory each time.
                if at.starved.is_none() {
                    self.read_ahead(now, at, false);
                }
                at.is_miss = true;
                if self.resident.place(at.file, at.pos).is_none() {
                    self.read_alone(now, at, Context::Read)?;
                }
                self.resident.place(at.file, at.pos)?
            }
        };
        if self.resident.pages().at(place).has(PageFlags::READAHEAD) {
            self.hit_marker(now, at, self.resident.pages().frame(place));
        }
        Some(place)
    }

    /// Handles a page that carries the marker of a readahead window: reads the next window.
    pub(super) fn hit_marker(&mut self, now: Instant, at: &mut Progress, frame: FrameId) {
        let pages = self.resident.pages_mut();
        // On a page under writeback, the bit belongs to reclaim.
        if pages.has(frame, PageFlags::WRITEBACK) {
            return;
        }
        for page in folio(at.pos, pages.order(frame)) {
            if let Entry::Page(frame) = pages.entry(at.file, page)
                && !pages.has(frame, PageFlags::WRITEBACK)
            {
                pages.clear(frame, PageFlags::READAHEAD);
            }
        }
        pages.pin(frame);
        self.read_ahead(now, at, true);
        self.resident.pages_mut().unpin(frame);
    }

    fn read_ahead(&mut self, now: Instant, at: &mut Progress, marker: bool) {
        let open = at.call.open.0 as usize;
        let mut ra = self.opens[open].ra;
        let is_fault = matches!(at.call.kind, CallKind::Fault { .. });
        let pages = self.resident.pages();
        // A read goes on from the folio that carries the marker, a fault from its page.
        let order =
            if marker && !is_fault { pages.folio_order(at.file, at.pos).unwrap_or(0) } else { 0 };
        let index = PageIndex::new(at.pos.get() >> order << order);
        let ask = Ask { index, req: at.end - index, marker };
        let cached = |index: PageIndex| pages.folio_order(at.file, index);
        let mut window = ra.decide(ask, &self.config.rules, cached);
        if self.config.single_pages {
            ra.use_single_pages();
            window = window.map(|window| ReadaheadWindow { order: 0, ..window });
        }
        self.opens[open].ra = ra;
        if let Some(window) = window {
            let wanted = if marker { at.pos..at.pos } else { at.pos..at.end };
            let context = if is_fault { self.fault_context(at) } else { Context::Readahead };
            let end = self.read_pieces(now, at, window, at.end, wanted, context);
            if !marker {
                at.missed = end;
            }
        }
    }

    /// Reads a window. Where the file is read in random order there is no readahead, and all that
    /// was asked for, up to `end`, is read at once, in pieces. Returns the end of the last.
    pub(super) fn read_pieces(
        &mut self,
        now: Instant,
        at: &mut Progress,
        window: ReadaheadWindow,
        end: PageIndex,
        wanted: core::ops::Range<PageIndex>,
        context: Context,
    ) -> PageIndex {
        self.read_window(now, at, window, wanted.clone(), context);
        let mut piece = window;
        while self.opens[at.call.open.0 as usize].ra.advice() == Advice::Random && piece.end() < end
        {
            let size = (end - piece.end()).get().min(FORCED_PIECE_PAGES.into()) as u32;
            piece = ReadaheadWindow::plain(piece.end(), size);
            self.read_window(now, at, piece, wanted.clone(), context);
        }
        piece.end()
    }

    /// Reads the pages of a window that are not cached, under a plug of its own. `wanted`: pages
    /// that the call itself needs. Stops early if no memory is left, or if the tenant's part is
    /// used up. Returns the page after the last that it looked at.
    pub(super) fn read_window(
        &mut self,
        now: Instant,
        at: &Progress,
        window: ReadaheadWindow,
        wanted: core::ops::Range<PageIndex>,
        context: Context,
    ) -> PageIndex {
        let attributes = self.reads_for(&at.call, Flags::RAHEAD);
        let pages = self.files[at.file.0 as usize].size.page_ceil();
        let end = pages.min(window.end());
        let mut stopped = end;
        let is_marked = self.config.rules.readahead_marks_end_of_file || window.end() < pages;
        let marker = window.marker().filter(|_| is_marked);
        let mut folios = Folios { window, end, next: window.start, order: 0, marked: false };
        for index in window.start.until(end) {
            let order = folios
                .order_of(index, marker, |page| self.resident.pages().folio_order(at.file, page));
            if self.resident.find(at.file, index).is_some() {
                // What is before a cached page has a plug of its own (7.3, measured).
                self.bios.close();
                self.bios.end_plug(at.call.task);
                continue;
            }
            let is_wanted = wanted.contains(&index);
            // Uses only memory that is available at once: no task waits for memory to read ahead.
            if !self.may_read(at.call.tenant, is_wanted) || !self.make_room(now) {
                stopped = index;
                break;
            }
            let as_read =
                is_wanted && context == Context::Readahead && at.call.kind == CallKind::Read;
            let Some(frame) =
                self.resident.insert(at.file, index, if as_read { Context::Read } else { context })
            else {
                stopped = index;
                break;
            };
            self.resident.pages_mut().set_order(frame, order);
            let marked = if folios.marked { PageFlags::READAHEAD } else { PageFlags::NONE };
            if self.is_unwritten(at.file, index) {
                self.resident.pages_mut().set(frame, PageFlags::UPTODATE | marked);
                self.bios.close();
                continue;
            }
            let bits = self.resident.pages_mut().set_and_clear(
                frame,
                PageFlags::LOCKED | marked,
                PageFlags::NONE,
            );
            let piece = self.piece(at.file, index, frame, bits, is_wanted);
            self.parts.begin_read(at.call.tenant);
            self.bios.add(&attributes, piece);
        }
        self.bios.close();
        self.bios.end_plug(at.call.task);
        stopped
    }

    /// Reads only the call's current page. Returns `None` if there is no memory for it.
    pub(super) fn read_alone(
        &mut self,
        now: Instant,
        at: &mut Progress,
        context: Context,
    ) -> Option<FrameId> {
        if !self.make_room(now) {
            return None;
        }
        let frame = self.resident.insert(at.file, at.pos, context)?;
        self.issue_alone(at, frame);
        Some(frame)
    }

    /// Issues a read of one page that is cached and not up to date. A page without content is up to
    /// date at once.
    pub(super) fn issue_alone(&mut self, at: &mut Progress, frame: FrameId) {
        if self.is_unwritten(at.file, at.pos) {
            return self.resident.pages_mut().set(frame, PageFlags::UPTODATE);
        }
        let bits =
            self.resident.pages_mut().set_and_clear(frame, PageFlags::LOCKED, PageFlags::NONE);
        let attributes = self.reads_for(&at.call, Flags::NONE);
        let piece = self.piece(at.file, at.pos, frame, bits, true);
        self.parts.begin_read(at.call.tenant);
        self.bios.add(&attributes, piece);
        self.bios.close();
        at.read_alone = true;
    }

    /// Returns what a call does about a page that is not up to date: sleep, fail, or (`None`) look
    /// again after the call's own read was issued. If a readahead of the page failed, the call
    /// reads it again; if the call's own read failed, the call fails.
    pub(super) fn wait_readable(&mut self, at: &mut Progress, frame: FrameId) -> Option<CallStep> {
        if self.resident.pages().has(frame, PageFlags::LOCKED) {
            return Some(CallStep::Page(frame));
        }
        if at.read_alone {
            // A write that fills only part of a page has no readahead window.
            if at.call.kind != CallKind::Write {
                self.opens[at.call.open.0 as usize].ra.read_failed();
            }
            return Some(CallStep::Done(if at.status.is_ok() {
                Status::IoError
            } else {
                at.status
            }));
        }
        if self.must_wait(at, Door::Read) {
            return Some(CallStep::Door(Door::Read));
        }
        self.issue_alone(at, frame);
        None
    }

    /// Marks an up-to-date page as accessed, copies it, and moves the call to the next page. The
    /// page in which the last read ended is not marked again.
    #[inline]
    fn page_read(&mut self, at: &mut Progress, place: LeafEntry) {
        debug_assert!(
            self.resident.pages().at(place).has(PageFlags::UPTODATE),
            "a page is read before it is there"
        );
        debug_assert!(at.pos < at.end, "{:?} lies behind the call's last page", at.pos);
        let is_first = at.pos == at.call.offset.page();
        if !is_first || self.opens[at.call.open.0 as usize].ra.last_page() != Some(at.pos) {
            self.resident.access_at(place, Context::Read);
        }
        let size = self.files[at.file.0 as usize].size;
        let end = at.call.offset.saturating_add(at.call.bytes).min(size);
        self.copy(at, self.resident.pages().frame(place), end, Way::ToCall);
        // A page that the call itself had read is a miss, even if it was up to date when the call
        // reached it.
        let is_miss = core::mem::take(&mut at.is_miss) || at.pos < at.missed;
        *if is_miss { &mut self.stats.misses } else { &mut self.stats.hits } += 1;
        at.pos = at.pos.next();
        (at.read_alone, at.starved) = (false, None);
    }

    /// Queues the copy of the part of a call's bytes that lies in its first page.
    #[inline]
    pub(super) fn copy_within_page(&mut self, call: &Call, frame: FrameId, way: Way) {
        if self.config.copies {
            let &Call { task, token, buffer_offset: call_offset, .. } = call;
            let frame_offset = call.offset.in_page();
            let bytes = call.bytes.get().min(PAGE_SIZE - u64::from(frame_offset)) as u32;
            self.copies.push_back(ByteCopy {
                task,
                token,
                frame,
                frame_offset,
                bytes,
                call_offset,
                way,
            });
        }
    }

    /// Counts the bytes of the call's current page, and queues their copy.
    pub(super) fn copy(&mut self, at: &mut Progress, frame: FrameId, end: FileOffset, way: Way) {
        // The file was truncated while the call waited, possibly to an end within this page.
        if end <= at.call.offset.max(at.pos.start()) {
            return;
        }
        let (frame_offset, bytes, call_offset) = Self::part(&at.call, at.pos, end);
        debug_assert!(u64::from(frame_offset + bytes) <= PAGE_SIZE, "bytes of one page");
        at.bytes += Bytes::new(bytes.into());
        debug_assert!(at.bytes <= at.call.bytes, "a call moves more bytes than it has");
        if self.config.copies {
            let super::Call { task, token, .. } = at.call;
            self.copies.push_back(ByteCopy {
                task,
                token,
                frame,
                frame_offset,
                bytes,
                call_offset,
                way,
            });
        }
    }

    /// Applies advice. Advice on the file changes later readahead windows; advice on a range is
    /// carried out at once.
    pub(super) fn advise(&mut self, now: Instant, at: &mut Progress, advice: Advice) -> CallStep {
        self.opens[at.call.open.0 as usize].ra.advise(advice, self.config.ra_pages);
        let size = self.files[at.file.0 as usize].size;
        let end = if at.call.bytes.is_zero() {
            FileOffset::MAX
        } else {
            at.call.offset.saturating_add(at.call.bytes)
        };
        match advice {
            Advice::Normal | Advice::Sequential | Advice::Random => {}
            Advice::WillNeed => {
                let (mut start, end) = (at.call.offset.page(), end.min(size).page_ceil());
                while start < end {
                    let size = (end - start).get().min(FORCED_PIECE_PAGES.into()) as u32;
                    let window = ReadaheadWindow::plain(start, size);
                    let none = PageIndex::ZERO..PageIndex::ZERO;
                    let stopped = self.read_window(now, at, window, none, Context::Readahead);
                    at.bytes += stopped.start() - start.start();
                    if stopped < window.end() {
                        break;
                    }
                    start = stopped;
                }
            }
            // Only whole pages of the range are dropped, because the rest of a page is not part of
            // the advice. The file's last page counts as whole.
            Advice::DontNeed => {
                let last = if end >= size { PageIndex::MAX } else { end.page() };
                let first = at.call.offset.page_ceil();
                self.write_range(&at.call, at.file, first, last);
                self.invalidate(at.file, first, last);
            }
        }
        CallStep::Done(Status::Ok)
    }

    /// Drops the pages `[first, end)` of a file that are clean, unused and not mapped, and the
    /// shadow entries of evicted pages.
    pub(super) fn invalidate(&mut self, file: FileId, first: PageIndex, end: PageIndex) {
        let mut at = first;
        while let Some((index, frame)) =
            self.resident.pages().next(file, at).filter(|&(index, _)| index < end)
        {
            at = index.next();
            let pages = self.resident.pages();
            if pages.is_evictable(frame) && pages.maps(frame) == 0 {
                self.resident.drop_page(frame);
            }
        }
        self.resident.pages_mut().forget(file, first, end);
    }
}
