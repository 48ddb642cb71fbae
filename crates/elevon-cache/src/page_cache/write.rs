//! Writes through a descriptor, and how pages become dirty.

use super::{
    Call, CallStep, DirtyThrottle, DirtyVerdict, Door, FileId, FrameId, Instant, PAGE_SIZE,
    PageCache, PageFlags, Phase, Progress, Status, TaskId, Way, WriteMode,
};
use crate::Context;
use elevon_core::units::FileOffset;

impl PageCache {
    pub(super) fn step_write(&mut self, now: Instant, at: &mut Progress) -> CallStep {
        let end = at.call.offset.saturating_add(at.call.bytes);
        match at.phase {
            Phase::Start if end > self.files[at.file.0 as usize].capacity => {
                return CallStep::Done(Status::NoSpace);
            }
            Phase::Start => {
                (at.pos, at.end) = (at.call.offset.page(), end.page_ceil());
                at.phase = Phase::Pages;
            }
            Phase::Pages => {}
            Phase::Write | Phase::Wait | Phase::Flush => return self.step_sync(at),
        }
        if at.rebalance
            && let Some(step) = self.balance(now, at)
        {
            return step;
        }
        while at.pos < at.end {
            if let Some(step) = self.write_page(now, at, end) {
                return step;
            }
        }
        match self.config.write_mode {
            WriteMode::Back => CallStep::Done(Status::Ok),
            WriteMode::Through => {
                self.begin_sync(at);
                self.step_sync(at)
            }
        }
    }

    /// Writes one page. Returns `Some` if the call sleeps or finishes here.
    fn write_page(&mut self, now: Instant, at: &mut Progress, end: FileOffset) -> Option<CallStep> {
        let found = self.resident.find(at.file, at.pos);
        let is_dirty =
            found.is_some_and(|frame| self.resident.pages().has(frame, PageFlags::DIRTY));
        if !is_dirty && self.must_wait(at, Door::Write) {
            return Some(CallStep::Door(Door::Write));
        }
        let frame = match found {
            Some(frame) => frame,
            None => {
                match self
                    .make_room(now)
                    .then(|| self.resident.insert(at.file, at.pos, Context::Write))
                    .flatten()
                {
                    Some(frame) => frame,
                    None => return Some(self.starve(now, at)),
                }
            }
        };
        let pages = self.resident.pages();
        if pages.has(frame, PageFlags::LOCKED) || self.must_be_stable(frame) {
            return Some(CallStep::Page(frame));
        }
        if !pages.has(frame, PageFlags::UPTODATE) {
            let (_, bytes, _) = Self::part(&at.call, at.pos, end);
            let is_partial = u64::from(bytes) < PAGE_SIZE;
            let is_new = at.pos.start() >= self.files[at.file.0 as usize].size;
            if is_partial && !is_new && !self.is_unwritten(at.file, at.pos) {
                let step = self.wait_readable(at, frame);
                return Some(step.unwrap_or(CallStep::Page(frame)));
            }
            if is_partial {
                let booked = at.bytes;
                self.copy(at, frame, end, Way::Zero);
                at.bytes = booked;
            }
        }
        self.resident.pages_mut().set(frame, PageFlags::UPTODATE);
        self.resident.access(frame, Context::Write);
        self.copy(at, frame, end, Way::ToFrame);
        let file = &mut self.files[at.file.0 as usize];
        file.size = file.size.max(end.min(at.pos.next().start()));
        self.dirty_page(now, &at.call, at.file, frame);
        at.pos = at.pos.next();
        (at.read_alone, at.starved) = (false, None);
        self.balance(now, at)
    }

    /// Returns true if the page is under writeback and must not change until that has completed.
    #[inline]
    pub(super) fn must_be_stable(&self, frame: FrameId) -> bool {
        self.config.copies && self.resident.pages().has(frame, PageFlags::WRITEBACK)
    }

    /// Makes a page dirty, and charges it to the call's task and tenant.
    pub(super) fn dirty_page(&mut self, now: Instant, call: &Call, file: FileId, frame: FrameId) {
        let pages = self.resident.pages();
        assert!(
            pages.has(frame, PageFlags::UPTODATE),
            "{frame:?} is made dirty and not all of it is known"
        );
        debug_assert!(!pages.has(frame, PageFlags::LOCKED), "{frame:?} is being read");
        let &Call { task, tenant, .. } = call;
        if self.resident.pages_mut().set_dirty(frame, tenant) {
            self.flusher.on_dirtied(file, tenant, now);
            self.domains.on_dirtied(now, tenant);
            self.stats.dirtied += 1;
            if let Some(bits) = &mut self.files[file.0 as usize].written {
                let (_, index) = self.resident.pages().key(frame);
                let index = index.get();
                bits[(index / 64) as usize] |= 1 << (index % 64);
            }
            // A write to a page that is dirty already costs nothing.
            self.writer_mut(task).dirtied += 1;
        }
    }

    /// Returns the throttling state of a task.
    fn writer_mut(&mut self, task: TaskId) -> &mut DirtyThrottle {
        if self.writers.len() <= task.index() {
            self.writers.resize(task.index() + 1, DirtyThrottle::default());
        }
        &mut self.writers[task.index()]
    }

    /// Checks the dirty limits if a check is due. Returns `Some` if the task must sleep.
    pub(super) fn balance(&mut self, now: Instant, at: &mut Progress) -> Option<CallStep> {
        let &Call { task, tenant, .. } = &at.call;
        let mut writer = *self.writer_mut(task);
        if !at.rebalance && !self.domains.of(tenant).is_due(&writer) {
            return None;
        }
        let counts = self.domains.counts(now, tenant, &self.counts(), self.resident.pages());
        let domain = self.domains.of_mut(tenant);
        if domain.wants_flusher(&counts) {
            self.flusher.wake();
        }
        let verdict = domain.balance(now, &mut writer, &counts, at.call.submitter.rt_cpu);
        self.writers[task.index()] = writer;
        at.rebalance = false;
        match verdict {
            DirtyVerdict::Go => None,
            DirtyVerdict::Pause { span, again } => {
                at.rebalance = again;
                // Also below the background threshold: a writer waits for pages to be written.
                self.flusher.wake();
                Some(CallStep::Pause(span))
            }
        }
    }
}
