//! Waiting for writes: fsync, sync_file_range, truncation, and what drops pages that were written.

use super::{
    BioAttributes, Call, CallKind, CallStep, FileId, Origin, PageCache, PageFlags, Phase, Progress,
    RangeSync, Status,
};
use crate::pages::Tag;
use elevon_core::op::{Flags, Op};
use elevon_core::units::{FileOffset, PageIndex};

/// How many pages under writeback a call looks up at once before it waits for them. Measured on
/// Linux 6.18: beside a process that syncs 4 pages at a time, an fsync of 8 pages ended 252 of 254
/// times while a write was in flight that the other began after it, an fsync of 32 pages 2 of 71
/// times.
const PAGES_OF_A_LOOK: usize = 31;

impl PageCache {
    /// Tags the pages that are dirty now. Pages that become dirty later are not part of this call,
    /// so that it finishes even if writers are busy.
    pub(super) fn begin_sync(&mut self, at: &mut Progress) {
        Self::begin_range(at, Phase::Write);
        if at.first < at.end {
            self.resident.pages_mut().tag_to_write(at.file, at.first, at.end.previous());
        }
    }

    /// Sets the call's pages to those of its range; 0 bytes mean to the end of the file.
    const fn begin_range(at: &mut Progress, phase: Phase) {
        let Call { offset, bytes, .. } = at.call;
        let end = if bytes.is_zero() { FileOffset::MAX } else { offset.saturating_add(bytes) };
        (at.first, at.end, at.phase) = (offset.page(), end.page_ceil(), phase);
        Self::from_first(at);
    }

    /// Lets the call pass over its pages again.
    const fn from_first(at: &mut Progress) {
        (at.pos, at.looked, at.looks_on) = (at.first, at.first, true);
    }

    /// Executes the steps of a range sync that `how` selects (sync_file_range).
    pub(super) fn step_sync_range(&mut self, at: &mut Progress, how: RangeSync) -> CallStep {
        if at.phase == Phase::Start {
            Self::begin_range(at, if how.wait_before { Phase::Pages } else { Phase::Write });
        }
        if at.phase == Phase::Pages {
            if let Some(step) = self.wait_for_writes(at) {
                return step;
            }
            at.phase = Phase::Write;
        }
        if at.phase == Phase::Write {
            if how.write {
                self.write_range(&at.call, at.file, at.first, at.end);
            }
            at.phase = Phase::Wait;
            Self::from_first(at);
        }
        match self.wait_for_writes(at).filter(|_| how.wait_after) {
            Some(step) => step,
            None if how.wait_before || how.wait_after => CallStep::Done(self.take_error(at)),
            None => CallStep::Done(Status::Ok),
        }
    }

    /// Returns a sleep for the next page of the range that is under writeback, if any. The call
    /// looks up a number of them, waits for each, and looks again only if there were that many: of
    /// pages that are written later it waits for none, unless there is another look.
    fn wait_for_writes(&self, at: &mut Progress) -> Option<CallStep> {
        loop {
            if at.pos >= at.looked && !self.look_for_writes(at) {
                return None;
            }
            let next = self.resident.pages().next_tagged(at.file, at.pos, Tag::Writeback);
            if let Some((index, frame)) = next.filter(|&(index, _)| index < at.looked) {
                debug_assert!(
                    self.resident.pages().has(frame, PageFlags::WRITEBACK),
                    "the tag says so"
                );
                at.pos = index.next();
                return Some(CallStep::Page(frame));
            }
            at.pos = at.looked;
        }
    }

    /// Looks up the next pages under writeback. Returns false if there are none, or no look is
    /// left.
    fn look_for_writes(&self, at: &mut Progress) -> bool {
        let mut found = 0;
        while at.looks_on && found < PAGES_OF_A_LOOK {
            let next = self.resident.pages().next_tagged(at.file, at.looked, Tag::Writeback);
            let Some((index, _)) = next.filter(|&(index, _)| index < at.end) else { break };
            at.looked = index.next();
            found += 1;
        }
        at.looks_on = found == PAGES_OF_A_LOOK;
        found > 0
    }

    pub(super) fn step_sync(&mut self, at: &mut Progress) -> CallStep {
        if at.phase == Phase::Start {
            self.begin_sync(at);
        }
        if at.phase == Phase::Write
            && let Some(step) = self.write_tagged(at)
        {
            return step;
        }
        if at.phase == Phase::Wait {
            if let Some(step) = self.wait_for_writes(at).or_else(|| self.drop_written(at)) {
                return step;
            }
            let error = self.take_error(at);
            if !error.is_ok() || !matches!(at.call.kind, CallKind::Fsync | CallKind::Fdatasync) {
                return CallStep::Done(error);
            }
            at.phase = Phase::Flush;
            at.status = Status::Ok;
            return CallStep::Flush;
        }
        debug_assert_eq!(at.phase, Phase::Flush, "a sync ends with its flush");
        CallStep::Done(at.status)
    }

    /// Submits the tagged pages from the call's position on. Returns a sleep if one is already
    /// under writeback.
    fn write_tagged(&mut self, at: &mut Progress) -> Option<CallStep> {
        let attributes = self.writes_for(&at.call);
        while let Some((index, frame)) =
            self.resident.pages().next_tagged(at.file, at.pos, Tag::ToWrite)
        {
            if index >= at.end {
                break;
            }
            at.pos = index;
            if self.resident.pages().has(frame, PageFlags::WRITEBACK) {
                self.bios.close();
                return Some(CallStep::Page(frame));
            }
            self.write_out(&attributes, at.file, index, frame);
            at.pos = index.next();
        }
        self.bios.close();
        self.note_clean(at.file);
        at.phase = Phase::Wait;
        Self::from_first(at);
        None
    }

    /// Submits the pages in `[first, end)` that are dirty and not under writeback. The bios are not
    /// SYNC.
    pub(super) fn write_range(
        &mut self,
        call: &Call,
        file: FileId,
        first: PageIndex,
        end: PageIndex,
    ) {
        let attributes = BioAttributes {
            flags: Flags::NONE,
            origin: Origin::Writeback,
            ..self.writes_for(call)
        };
        let mut at = first;
        while let Some((index, frame)) = self.resident.pages().next_tagged(file, at, Tag::Dirty) {
            if index >= end {
                break;
            }
            at = index.next();
            if !self.resident.pages().has(frame, PageFlags::WRITEBACK) {
                self.write_out(&attributes, file, index, frame);
            }
        }
        self.bios.close();
        self.note_clean(file);
    }

    /// Adds a dirty page to a bio, which is charged to the tenant that made the page dirty. If the
    /// flusher writes it, that tenant's flusher task submits the bio.
    pub(super) fn write_out(
        &mut self,
        attributes: &BioAttributes,
        file: FileId,
        index: PageIndex,
        frame: super::FrameId,
    ) {
        let pages = self.resident.pages();
        assert!(
            pages.has(frame, PageFlags::DIRTY),
            "{frame:?} of {file:?} is written and is not dirty"
        );
        debug_assert!(
            !pages.has(frame, PageFlags::WRITEBACK),
            "{frame:?} is written twice at once"
        );
        let tenant = pages.owner(frame);
        self.domains.begin_writeback(tenant);
        self.resident.pages_mut().begin_writeback(frame);
        let piece = self.piece(file, index, frame, self.resident.pages().bits(frame), false);
        let task = if attributes.task == self.config.flusher {
            self.flusher_of(tenant)
        } else {
            attributes.task
        };
        self.bios.add(&BioAttributes { task, tenant, ..*attributes }, piece);
    }

    /// Tells the flusher if the file has no dirty page any more.
    pub(super) fn note_clean(&mut self, file: FileId) {
        if self.resident.pages().next_tagged(file, PageIndex::ZERO, Tag::Dirty).is_none() {
            self.flusher.on_clean(file);
        }
    }

    const fn writes_for(&self, call: &Call) -> BioAttributes {
        let (op, flags, origin) = (Op::Write, Flags::SYNC, Origin::Fsync);
        BioAttributes {
            task: call.task,
            tenant: call.tenant,
            submitter: call.submitter,
            op,
            flags,
            origin,
        }
    }

    /// Returns the file's last write error, once per open file. The drop of a device's pages tells
    /// no program of it.
    fn take_error(&mut self, at: &Progress) -> Status {
        let file = &mut self.files[at.file.0 as usize];
        let open = &mut self.opens[at.call.open.0 as usize];
        if core::mem::replace(&mut open.errors_seen, file.errors) == file.errors {
            return Status::Ok;
        }
        file.is_untold &= matches!(at.call.kind, CallKind::FlushBuffers | CallKind::LastClose);
        file.error
    }

    /// Drops the pages of a block device that [`CallKind::FlushBuffers`] and
    /// [`CallKind::LastClose`] have written. Returns a sleep for a page that the last close needs
    /// and that is still being read.
    fn drop_written(&mut self, at: &Progress) -> Option<CallStep> {
        match at.call.kind {
            CallKind::FlushBuffers => self.invalidate(at.file, PageIndex::ZERO, PageIndex::MAX),
            CallKind::LastClose => {
                // Looks go on from the last page: leaves before it may hold shadows only.
                let mut next = PageIndex::ZERO;
                while let Some((index, frame)) = self.resident.pages().next(at.file, next) {
                    next = index;
                    self.resident.pages_mut().cancel_dirty(frame);
                    if self.resident.drop_page(frame).is_none() {
                        return Some(CallStep::Page(frame));
                    }
                }
                self.resident.pages_mut().forget(at.file, PageIndex::ZERO, PageIndex::MAX);
                self.note_clean(at.file);
            }
            _ => {}
        }
        None
    }

    /// Drops the pages of the range, even if they are mapped. The call waits for pages that are
    /// being read or written. Dirty pages are written, except those that a discard covers.
    pub(super) fn step_invalidate(&mut self, at: &mut Progress) -> CallStep {
        if at.phase == Phase::Start {
            Self::begin_range(at, Phase::Pages);
        }
        let covered = match at.call.kind {
            CallKind::Discard => {
                at.call.offset.page_ceil()..(at.call.offset + at.call.bytes).page()
            }
            _ => at.end..at.end,
        };
        while let Some((index, frame)) =
            self.resident.pages().next(at.file, at.pos).filter(|&(n, _)| n < at.end)
        {
            at.pos = index;
            if covered.contains(&index) {
                self.resident.pages_mut().cancel_dirty(frame);
                self.note_clean(at.file);
            }
            let pages = self.resident.pages();
            if pages.has(frame, PageFlags::DIRTY) && !pages.has(frame, PageFlags::WRITEBACK) {
                let attributes = self.writes_for(&at.call);
                self.write_out(&attributes, at.file, index, frame);
                self.bios.close();
                self.note_clean(at.file);
            }
            if self.resident.drop_page(frame).is_none() {
                return CallStep::Page(frame);
            }
        }
        self.resident.pages_mut().forget(at.file, at.call.offset.page(), at.end);
        CallStep::Done(Status::Ok)
    }

    /// Sets the file's size, and drops the pages beyond it without a shadow entry. The call waits
    /// for pages that are being read or written.
    pub(super) fn step_truncate(&mut self, at: &mut Progress) -> CallStep {
        let size = at.call.offset;
        let file = &mut self.files[at.file.0 as usize];
        if size > file.capacity {
            return CallStep::Done(Status::NoSpace);
        }
        file.size = size;
        let first = size.page_ceil();
        while let Some((_, frame)) = self.resident.pages().next(at.file, first) {
            if self.resident.drop_page(frame).is_none() {
                return CallStep::Page(frame);
            }
        }
        self.resident.pages_mut().forget(at.file, first, PageIndex::MAX);
        self.note_clean(at.file);
        CallStep::Done(Status::Ok)
    }
}
