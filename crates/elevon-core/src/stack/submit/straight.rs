//! The short way of a call that is one bio inside one page, as most calls of a random load are.
//! Such a call has no entry in the table of calls unless it has to wait before it has a request,
//! and no bio in the table of bios unless it has to wait, or may be merged.

use super::{Part, Submission, TagLimit};
use crate::bio::{Bio, DataRange, WHOLE_CALL};
use crate::build::IoPath;
use crate::driver::Driver;
use crate::kernel::Rules;
use crate::op::{Flags, Op};
use crate::request::{Allocated, Request, WholeCall};
use crate::stack::{Call, DirectPath, Io, Stack, StackConfig, Submitted};
use crate::units::{BioId, HwQueue, Instant, RequestId};
use crate::wbt::Throttled;

/// What the configuration says of calls that are one bio inside one page.
#[derive(Clone, Copy, Debug)]
pub(in crate::stack) struct PageCalls {
    /// Of reads and of writes: a call takes no plug, and nothing may end its bio before it has a
    /// request.
    direct: [bool; 2],
    /// The same for I/O of the page cache.
    buffered: bool,
    /// The bio of a direct read is sync: of one that nobody sleeps for, and of one that its task
    /// sleeps for (as [`Stack::is_sync_read`]).
    sync_reads: [bool; 2],
}

impl PageCalls {
    pub(in crate::stack) fn new(config: &StackConfig, rules: &Rules) -> Self {
        // As `Stack::call_takes_plug`.
        let takes_plug = |op| match (config.direct_path, op) {
            (DirectPath::Iomap, Op::Read) => !rules.iomap_small_reads_are_plain,
            (DirectPath::Iomap, _) => true,
            (DirectPath::Blkdev, Op::Read) => false,
            (DirectPath::Blkdev, _) => rules.blkdev_writes_take_plug,
        };
        let sync_reads = [false, true].map(|sleeps| match config.direct_path {
            DirectPath::Iomap => rules.iomap_reads_are_sync && (sleeps || !rules.iomap_small_reads_are_plain),
            DirectPath::Blkdev => sleeps,
        });
        let buffered = config.error_injection.is_empty();
        Self { direct: [Op::Read, Op::Write].map(|op| buffered && !takes_plug(op)), buffered, sync_reads }
    }

    #[inline(always)]
    const fn go_straight(&self, path: IoPath, op: Op) -> bool {
        match (path, op) {
            (IoPath::Direct, Op::Read | Op::Write) => self.direct[op as usize],
            (IoPath::Buffered, Op::Read | Op::Write) => self.buffered,
            _ => false,
        }
    }
}

impl Stack {
    /// Returns true if a call is one bio that no limit cuts, and if nothing that may refuse, hold,
    /// end, gather or record its bio is in force. `is_plugged`: its task has a plug.
    #[inline(always)]
    pub(in crate::stack) fn goes_straight(&self, io: &Io, path: IoPath, is_plugged: bool) -> bool {
        const SPECIAL: Flags =
            Flags::PREFLUSH.with(Flags::FUA).with(Flags::NOWAIT).with(Flags::ATOMIC).with(Flags::DSYNC);
        let is_plain = self.page_calls.go_straight(path, io.op) && !io.flags.intersects(SPECIAL);
        if !is_plain || is_plugged || self.tracing || self.control.is_active() {
            return false;
        }
        let is_in_page = !io.bytes.is_zero() && io.bytes.get() <= self.page_rooms[io.layout.index()];
        is_in_page && !self.is_misaligned(io) && !self.is_past_end(io)
    }

    /// Submits a call that [`Self::goes_straight`]: does the same as [`Self::run_submission`],
    /// without the steps that have nothing to do for it. `sleeps`: its task sleeps until it ends;
    /// `place`: the CPU of that task, and the hardware queue of that CPU.
    ///
    /// The call is an argument, and other functions get only the address of a copy, so that the
    /// call itself need not be in memory.
    #[inline(always)]
    pub(super) fn submit_straight<D: Driver>(
        &mut self,
        now: Instant,
        io: Io,
        sleeps: bool,
        (path, place): (IoPath, (u16, HwQueue)),
        driver: &mut D,
    ) -> Submitted {
        let is_sync = io.op == Op::Read && path == IoPath::Direct && self.page_calls.sync_reads[usize::from(sleeps)];
        let flags = (if is_sync { io.flags | Flags::SYNC } else { io.flags }).without(Flags::TRIED);
        let part = Part { op: io.op, flags, offset: 0, bytes: io.bytes.get(), segments: 1 };
        self.counters.bios += 1;
        self.whole_calls += 1;
        let is_throttled = io.op == Op::Write && self.wbt.is_on() && Throttled::of(part.op, part.flags).is_some();
        if self.has_scheduler || is_throttled || self.has_queued(place.1) {
            return self.submit_indirectly(now, io, part, (sleeps, path, place), driver);
        }
        let entry = &mut self.queues[place.1.index()];
        if entry.busy > 0 {
            return self.submit_indirectly(now, io, part, (sleeps, path, place), driver);
        }
        if io.op == Op::Read && self.wbt.is_on() {
            self.wbt.on_read(now);
        }
        let Some(tag) = entry.tags.take() else {
            if io.flags.contains(Flags::TRIED) {
                self.hand_straight_to_worker(now, &{ io }, path, driver);
                return Submitted::Accepted;
            }
            let id = BioId(self.bios.insert({ part }.bio(now, &{ io }, WHOLE_CALL)));
            return self.wait_straight(now, io, id, (sleeps, path), Some(TagLimit(None)), driver);
        };
        let allocated = self.request_of_tag(tag, Some(tag), place);
        self.start_directly(now, &allocated, &part.bio(now, &io, WHOLE_CALL), driver);
        Submitted::Accepted
    }

    /// As [`Self::submit_straight`], for a call that may be merged, throttled or queued.
    #[inline(always)]
    fn submit_indirectly<D: Driver>(
        &mut self,
        now: Instant,
        io: Io,
        part: Part,
        (sleeps, path, place): (bool, IoPath, (u16, HwQueue)),
        driver: &mut D,
    ) -> Submitted {
        let mut filed = None;
        // Nothing is plugged, and most bios find nothing that they could be merged with.
        if self.has_queued(place.1) || (self.wbt.is_on() && Throttled::of(part.op, part.flags).is_some()) {
            let id = BioId(self.bios.insert_with(|| part.bio(now, &io, WHOLE_CALL)));
            if self.merge_with_others(now, io.task, false, id) {
                if self.freed_by_merge {
                    self.wake_after_merge(now, driver);
                }
                return Submitted::Accepted;
            }
            if self.wbt.is_on() && !self.takes_place(now, io.op, id) {
                return self.wait_straight(now, io, id, (sleeps, path), None, driver);
            }
            filed = Some(id);
        } else if self.wbt.is_on() && io.op == Op::Read {
            self.wbt.on_read(now);
        }
        let limit = self.tag_limit(io.task, part.op, part.flags);
        let Some(allocated) = self.take_request(limit, place) else {
            if io.flags.contains(Flags::TRIED) {
                if let Some(id) = filed {
                    self.bios.remove(id.0);
                }
                self.hand_straight_to_worker(now, &io, path, driver);
                return Submitted::Accepted;
            }
            let id = filed.unwrap_or_else(|| BioId(self.bios.insert(part.bio(now, &io, WHOLE_CALL))));
            return self.wait_straight(now, io, id, (sleeps, path), Some(limit), driver);
        };
        match filed {
            None => self.start_call(now, &allocated, &part.bio(now, &io, WHOLE_CALL)),
            Some(id) => self.start_request(now, &allocated, id),
        }
        self.issue_alone(now, allocated.id, driver);
        Submitted::Accepted
    }

    /// As [`Self::start_request`], for a bio that is a whole call and not in the table.
    #[inline(always)]
    fn start_call(&mut self, now: Instant, allocated: &Allocated, bio: &Bio) {
        let id = allocated.id;
        self.requests[id] = Request { accounted: self.config.iostats, ..Request::of(now, None, bio, allocated) };
        if self.config.iostats {
            self.account_start(now, id);
        }
    }

    /// Adds the bio of a request to the table, where a request that is a whole call has none: for
    /// all that is done with bios. The call has a bio from then on.
    #[inline]
    pub(in crate::stack) fn file_call(&mut self, id: RequestId) {
        if self.requests[id].call.is_some() {
            self.add_bio_of(id);
        }
    }

    #[cold]
    fn add_bio_of(&mut self, id: RequestId) {
        let request = &mut self.requests[id];
        let Some(WholeCall { token, layout }) = request.call.take() else { return };
        let bio = Bio {
            op: request.op,
            flags: request.flags,
            ioprio: request.ioprio,
            write_hint: request.write_hint,
            segments: request.segments,
            gated: false,
            has_place: false,
            in_scheduler: false,
            sector: request.sector,
            bytes: request.sectors.bytes(),
            data: DataRange { layout, offset: 0 },
            task: request.task,
            tenant: request.tenant,
            io: WHOLE_CALL,
            token,
            next: None,
            queued: request.start,
            since: request.start,
        };
        let bio = Some(BioId(self.bios.insert(bio)));
        (request.bio_head, request.bio_tail) = (bio, bio);
    }

    /// Lets a call whose only bio finds no tag within a limit wait for one; without a limit it
    /// waits for a place of writeback throttling. It goes on as any other.
    #[cold]
    fn wait_straight<D: Driver>(
        &mut self,
        now: Instant,
        io: Io,
        bio: BioId,
        (sleeps, path): (bool, IoPath),
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
            path,
            in_worker: false,
            tag_limit,
        };
        match tag_limit {
            None => self.sleep_for_place(now, &io, submission, bio, driver),
            Some(_) => self.sleep_for_tag(now, &io, submission, bio, driver),
        }
    }
}
