//! The short way of a call that is one bio inside one page, as most calls of a random load are.

use super::{Part, Submission, TagLimit};
use crate::build::Source;
use crate::driver::Driver;
use crate::op::{Flags, Op};
use crate::split::fits_page;
use crate::stack::{Io, Stack, Submitted};
use crate::units::Instant;

impl Stack {
    /// Returns true if a call is one bio that no limit cuts, and if nothing that may hold, end,
    /// gather or record its bio is in force.
    #[inline(always)]
    pub(in crate::stack) fn goes_straight(&self, io: &Io) -> bool {
        const SPECIAL: Flags = Flags::PREFLUSH.with(Flags::FUA).with(Flags::NOWAIT).with(Flags::ATOMIC);
        let is_plain = matches!(io.op, Op::Read | Op::Write) && !io.flags.intersects(SPECIAL) && !io.bytes.is_zero();
        let is_plugged = self.tasks[io.task.index()].plug.is_open();
        let is_seen = self.tracing || self.control.is_active() || !self.config.error_injection.is_empty();
        if !is_plain || is_plugged || is_seen {
            return false;
        }
        let layout = &self.layouts[io.layout.index()];
        layout.bio_ends().is_empty() && fits_page(layout.page_offset(0), io.bytes, &self.limits)
    }

    /// Submits a call that [`Self::goes_straight`]: does the same as [`Self::run_submission`],
    /// without the steps that have nothing to do for it.
    #[inline(always)]
    pub(super) fn submit_straight<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        call: u32,
        sleeps: bool,
        source: Source,
        driver: &mut D,
    ) -> Submitted {
        let is_sync = io.op == Op::Read && source == Source::Direct && self.is_sync_read(io, sleeps);
        let flags = if is_sync { io.flags | Flags::SYNC } else { io.flags };
        let part = Part { op: io.op, flags, offset: 0, bytes: io.bytes.get(), segments: 1 };
        let bio = self.add_bio(now, io, call, &part);
        if self.merge_bio(now, io.task, false, bio) {
            if self.freed_by_merge {
                self.wake_after_merge(now, driver);
            }
            return Submitted::Accepted;
        }
        if self.wbt.is_on() && !self.takes_place(now, bio) {
            let submission = self.after_straight(io, call, sleeps, source, None);
            return self.sleep_for_place(now, io, submission, bio, driver);
        }
        let limit = self.tag_limit(bio);
        let Some(request) = self.take_request(limit, bio) else {
            let submission = self.after_straight(io, call, sleeps, source, Some(limit));
            return self.sleep_for_tag(now, io, submission, bio, driver);
        };
        self.start_request(now, request, bio);
        self.issue_alone(now, request, driver);
        Submitted::Accepted
    }

    /// Returns the submission with which a call goes on whose only bio has to wait.
    #[cold]
    fn after_straight(
        &mut self,
        io: &Io,
        call: u32,
        sleeps: bool,
        source: Source,
        tag_limit: Option<TagLimit>,
    ) -> Submission {
        self.calls[call].parts += 1;
        Submission {
            call,
            built: io.bytes.get(),
            flush_to_build: false,
            rest: None,
            plugged: false,
            sleeps,
            source,
            in_worker: false,
            tag_limit,
        }
    }
}
