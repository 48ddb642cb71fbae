//! The short way of a call that is one bio inside one page, as most calls of a random load are.
//! Such a call has no entry in the table of calls unless it has to wait before it has a request.

use super::{Part, Submission, TagLimit};
use crate::bio::WHOLE_CALL;
use crate::build::Source;
use crate::driver::Driver;
use crate::op::{Flags, Op};
use crate::sched::Scheduler;
use crate::split::fits_page;
use crate::stack::{Call, DirectPath, Io, Stack, Submitted};
use crate::units::{BioId, Instant};

impl Stack {
    /// Returns true if a call is one bio that no limit cuts, and if nothing that may refuse, hold,
    /// end, gather or record its bio is in force.
    #[inline(always)]
    pub(in crate::stack) fn goes_straight(&self, io: &Io, source: Source) -> bool {
        const SPECIAL: Flags =
            Flags::PREFLUSH.with(Flags::FUA).with(Flags::NOWAIT).with(Flags::ATOMIC).with(Flags::DSYNC);
        let is_plain = matches!(io.op, Op::Read | Op::Write) && !io.flags.intersects(SPECIAL) && !io.bytes.is_zero();
        let is_seen = self.tracing || self.control.is_active() || !self.config.error_injection.is_empty();
        if !is_plain || is_seen || self.is_misaligned(io) || self.is_past_end(io) {
            return false;
        }
        let layout = &self.layouts[io.layout.index()];
        if !layout.bio_ends().is_empty() || !fits_page(layout.page_offset(0), io.bytes, &self.limits) {
            return false;
        }
        let takes_plug = source == Source::Direct && self.page_takes_plug(io.op);
        !takes_plug && !self.tasks[io.task.index()].plug.is_open()
    }

    /// As [`Self::call_takes_plug`], for a read or write inside one page.
    #[inline(always)]
    fn page_takes_plug(&self, op: Op) -> bool {
        match (self.config.direct_path, op) {
            (DirectPath::Iomap, Op::Read) => !self.rules.iomap_small_reads_are_plain,
            (DirectPath::Iomap, _) => true,
            (DirectPath::Blkdev, Op::Read) => false,
            (DirectPath::Blkdev, _) => self.rules.blkdev_writes_take_plug,
        }
    }

    /// As [`Self::is_sync_read`], for a read inside one page.
    #[inline(always)]
    fn is_sync_page(&self, sleeps: bool) -> bool {
        match self.config.direct_path {
            DirectPath::Iomap => self.rules.iomap_reads_are_sync && (sleeps || !self.rules.iomap_small_reads_are_plain),
            DirectPath::Blkdev => sleeps,
        }
    }

    /// Submits a call that [`Self::goes_straight`]: does the same as [`Self::run_submission`],
    /// without the steps that have nothing to do for it. `sleeps`: its task sleeps until it ends.
    /// The call is an argument, and no other function gets its address, so it is not in memory.
    #[inline(always)]
    pub(super) fn submit_straight<D: Driver>(
        &mut self,
        now: Instant,
        io: Io,
        sleeps: bool,
        source: Source,
        driver: &mut D,
    ) -> Submitted {
        let is_sync = io.op == Op::Read && source == Source::Direct && self.is_sync_page(sleeps);
        let flags = if is_sync { io.flags | Flags::SYNC } else { io.flags };
        let part = Part { op: io.op, flags, offset: 0, bytes: io.bytes.get(), segments: 1 };
        let bio = self.add_bio(now, &io, WHOLE_CALL, &part);
        self.whole_calls += 1;
        let place = self.place_of(io.task);
        // Nothing is plugged, and most bios find nothing that they could be merged with.
        if self.scheduler.has_work(place.1) && self.merge_with_others(now, io.task, false, bio) {
            if self.freed_by_merge {
                self.wake_after_merge(now, driver);
            }
            return Submitted::Accepted;
        }
        if self.wbt.is_on() && !self.takes_place(now, io.op, bio) {
            return self.wait_straight(now, io, bio, (sleeps, source), None, driver);
        }
        let limit = self.tag_limit(bio);
        let Some(request) = self.take_request(limit, place) else {
            return self.wait_straight(now, io, bio, (sleeps, source), Some(limit), driver);
        };
        if self.has_scheduler || self.queues[place.1.index()].busy > 0 {
            self.start_request(now, request, bio);
            self.issue_alone(now, request, driver);
        } else {
            self.start_directly(now, request, bio, driver);
        }
        Submitted::Accepted
    }

    /// Lets a call whose only bio finds no tag within a limit wait for one; without a limit it
    /// waits for a place of writeback throttling. It goes on as any other.
    #[cold]
    fn wait_straight<D: Driver>(
        &mut self,
        now: Instant,
        io: Io,
        bio: BioId,
        (sleeps, source): (bool, Source),
        tag_limit: Option<TagLimit>,
        driver: &mut D,
    ) -> Submitted {
        // Its bio, and its submission.
        let call = self.calls.insert(Call { parts: 2, ..Call::of(&io, None) });
        self.bios[bio.0].io = call;
        self.whole_calls -= 1;
        let submission = Submission {
            call,
            built: io.bytes.get(),
            flush_to_build: false,
            rest: None,
            plugged: false,
            sleeps,
            source,
            in_worker: false,
            tag_limit,
        };
        match tag_limit {
            None => self.sleep_for_place(now, &io, submission, bio, driver),
            Some(_) => self.sleep_for_tag(now, &io, submission, bio, driver),
        }
    }
}
