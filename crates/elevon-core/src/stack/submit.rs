//! Submission: builds bios from an I/O, splits them, and merges each fragment or takes a tag for
//! it.

use super::{Call, Io, Stack, Submitted, Woken, WokenStep};
use crate::bio::{BIO_MAX_VECS, Bio, DataRange};
use crate::build::{self, IoPath};
use crate::control::{Cause, StageVerdict};
use crate::driver::Driver;
use crate::event::EventKind;
use crate::ioprio::{IoPrio, PrioClass};
use crate::op::{Flags, Op};
use crate::request::{Allocated, Request, State};
use crate::sched::Scheduler;
use crate::split::{Split, fits_page, split};
use crate::status::Status;
use crate::tags::Shallow;
use crate::units::{BioId, Bytes, HwQueue, Instant, PAGE_SIZE, RequestId, Sector, TaskId};

mod tried;
mod waiting;

pub(super) use tried::Ring;

/// Block size of a file system, in bytes: that of ext4 and XFS if nothing else was asked for, and
/// that of an opened block device.
const FILE_SYSTEM_BLOCK: u64 = 4096;

/// Progress of a call between two bios: what is still to be built, and the bio that is still to be
/// split.
#[derive(Clone, Copy, Debug)]
pub(super) struct Submission {
    call: u32,
    /// Bytes of the I/O already built into bios.
    built: u64,
    /// Whether an empty flush is still to be built.
    flush_to_build: bool,
    /// A bio that is still to be split: the remainder of the last split, or a bio that a limiter
    /// held.
    rest: Option<Rest>,
    /// The call has begun a plug.
    plugged: bool,
    /// The task sleeps until the call has completed before it ends that plug.
    sleeps: bool,
    /// What builds the bios.
    path: IoPath,
    /// The submission continues in a worker, because the task must not sleep. It does not use the
    /// task's plug.
    in_worker: bool,
    /// A worker of the task's ring is busy with this call until all its bios are placed.
    of_ring: bool,
    /// The call is tried without waiting, and its bio would have to be split.
    is_vain: bool,
    /// What the scheduler said when it was asked about the tag of this bio. It holds until there
    /// is one, also while the call sleeps for it, as was measured on Linux 6.18.
    tag_limit: Option<TagLimit>,
}

/// How many tags a bio may choose from; `None` is no limit.
#[derive(Clone, Copy, Debug)]
struct TagLimit(Option<u32>);

/// What the next bio of a call is.
#[derive(Clone, Copy, Debug)]
struct Part {
    op: Op,
    flags: Flags,
    /// First byte, from the start of the call.
    offset: u64,
    /// Length.
    bytes: u64,
    /// Physical segments; 0 before the split.
    segments: u16,
}

impl Part {
    /// Returns the bio of a call.
    #[inline(always)]
    fn bio(&self, now: Instant, io: &Io, call: u32) -> Bio {
        let &Self { op, flags, offset, bytes, segments } = self;
        Bio {
            op,
            // What these two say is of the call.
            flags: flags.without(Flags::WAITED.with(Flags::TRIED)),
            ioprio: if io.ioprio.class() == PrioClass::None { IoPrio::DEFAULT } else { io.ioprio },
            write_hint: io.write_hint,
            segments,
            gated: false,
            has_place: false,
            in_scheduler: false,
            sector: if bytes == 0 {
                Sector::ZERO
            } else {
                io.sector + Bytes::new(offset).sectors_floor()
            },
            bytes: Bytes::new(bytes),
            data: DataRange { layout: io.layout, offset },
            task: io.task,
            tenant: io.tenant,
            io: call,
            token: io.token,
            next: None,
            queued: now,
            since: now,
        }
    }
}

/// A bio that was built and is still to be split.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    bio: BioId,
    /// The bio is the remainder of a split.
    is_cut: bool,
}

impl Submission {
    /// Returns true if nothing of the call is left to build or to split.
    #[inline]
    const fn is_built(&self, io: &Io) -> bool {
        self.rest.is_none() && !self.flush_to_build && self.built == io.bytes.get()
    }

    /// The submission of a whole call without a plug of its own, for which no task sleeps.
    const fn of_call(call: u32, path: IoPath) -> Self {
        Self {
            call,
            built: 0,
            flush_to_build: false,
            rest: None,
            plugged: false,
            sleeps: false,
            path,
            in_worker: false,
            of_ring: false,
            is_vain: false,
            tag_limit: None,
        }
    }

    /// The submission of one bio that was held alone, while the rest of the call went on.
    pub(super) fn of_held(self, bio: BioId, bytes: Bytes, is_cut: bool) -> Self {
        let rest = Some(Rest { bio, is_cut });
        Self {
            built: bytes.get(),
            flush_to_build: false,
            rest,
            plugged: false,
            in_worker: true,
            of_ring: false,
            ..self
        }
    }

    /// The same bio in the worker that submits what limits held, which has a plug of its own.
    pub(super) const fn of_limit_worker(self) -> Self {
        Self { in_worker: false, ..self }
    }

    /// The rest of a call, starting with the bio that a limiter released.
    pub(super) fn after_held(self, bio: BioId, is_cut: bool) -> Self {
        Self { rest: Some(Rest { bio, is_cut }), ..self }
    }

    /// The same submission in a worker, for a submitter that must not sleep.
    pub(super) const fn in_worker(self) -> Self {
        Self { plugged: false, in_worker: true, is_vain: false, ..self }
    }
}

impl Stack {
    /// Starts a batch: the task's submissions until `end_batch` share a plug (one io_submit of
    /// several I/Os).
    pub fn begin_batch(&mut self, now: Instant, task: TaskId) {
        self.advance(now);
        self.task_mut(task).plug.begin();
    }

    /// Ends a batch and flushes its plug.
    pub fn end_batch<D: Driver>(&mut self, now: Instant, task: TaskId, driver: &mut D) {
        self.advance(now);
        self.end_plug(now, task, driver);
    }

    /// Ends a batch of a task that sleeps until its I/O completes: this sleep flushes the plug, so
    /// the requests are inserted even without a scheduler.
    pub fn sleep_in_batch<D: Driver>(&mut self, now: Instant, task: TaskId, driver: &mut D) {
        self.advance(now);
        self.flush_plug(now, task, true, driver);
        self.end_plug(now, task, driver);
    }

    /// Returns true if a write through the page cache is under a plug until the call returns: of a
    /// block device, before 6.5.
    pub fn plugs_buffered_writes(&self) -> bool {
        self.plugs_writes_on(self.config.buffered_path)
    }

    /// Submits an I/O. If no tag is free, the call sleeps (`Blocked`) or, if it may not block,
    /// waits in a worker; NOWAIT calls fail with [`Status::Again`] instead.
    #[inline(always)]
    pub fn submit<D: Driver>(&mut self, now: Instant, io: Io, driver: &mut D) -> Submitted {
        self.start_submission(now, &io, IoPath::Direct, driver)
    }

    /// Submits an I/O of the page cache: one bio of at most 256 runs, as the page cache built it.
    #[inline]
    pub fn submit_buffered<D: Driver>(
        &mut self,
        now: Instant,
        io: Io,
        driver: &mut D,
    ) -> Submitted {
        self.start_submission(now, &io, IoPath::Buffered, driver)
    }

    #[inline(always)]
    fn start_submission<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        path: IoPath,
        driver: &mut D,
    ) -> Submitted {
        self.advance(now);
        assert!(!self.task_mut(io.task).blocked, "a sleeping task submits");
        if io.flags.contains(Flags::DSYNC) {
            return self.submit_durable(now, io, path, driver);
        }
        self.submit_call(now, io, None, path, driver)
    }

    /// Submits an `O_DSYNC` write.
    #[cold]
    fn submit_durable<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        path: IoPath,
        driver: &mut D,
    ) -> Submitted {
        let mut io = *io;
        let sync = self.make_durable(&mut io);
        self.submit_call(now, &io, sync, path, driver)
    }

    /// Submits a call. `sync`: the key of the flush that follows it.
    #[inline(always)]
    fn submit_call<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        sync: Option<u32>,
        path: IoPath,
        driver: &mut D,
    ) -> Submitted {
        let call = self.calls.insert_with(|| Call::from_io(io, sync));
        if let Some(status) = self.refuse(io) {
            self.end_part(call, status);
            return Submitted::Accepted;
        }
        let plugged = path == IoPath::Direct && self.call_takes_plug(io);
        let flush_to_build = io.op == Op::Flush;
        let sleeps = io.flags.contains(Flags::WAITED) || !io.op.has_data();
        let mut submission =
            Submission { flush_to_build, plugged, sleeps, ..Submission::of_call(call, path) };
        submission.is_vain = io.flags.contains(Flags::TRIED)
            && !self.is_in_page(io)
            && self.try_is_split(now, io, &submission);
        if plugged {
            self.task_mut(io.task).plug.begin();
        }
        let submitted = self.run_submission(now, io, submission, None, driver);
        self.sync_written(now, driver);
        submitted
    }

    /// Gives an `O_DSYNC` write the flags of its bios, and returns the key of the flush that
    /// follows it. On the device itself, such a write is FUA, and is followed by the flush of an
    /// fsync if its caller waits for it; nothing follows an asynchronous one. A file system does
    /// without the flush if FUA is enough.
    fn make_durable(&mut self, io: &mut Io) -> Option<u32> {
        let is_waited = io.flags.contains(Flags::WAITED);
        let is_iomap = self.config.direct_path == super::DirectPath::Iomap;
        let has_fua = self.limits.fua || !self.limits.write_cache;
        let flush =
            Io { op: Op::Flush, flags: Flags::SYNC, bytes: Bytes::ZERO, may_block: false, ..*io };
        io.flags = io.flags.without(Flags::DSYNC);
        if !is_iomap || has_fua {
            io.flags |= Flags::FUA;
        }
        let flushes = if is_iomap { !has_fua } else { is_waited && self.limits.write_cache };
        flushes.then(|| self.durable.syncs.insert(flush))
    }

    /// Lets the tasks of `O_DSYNC` writes whose data is written submit their flushes: each was
    /// woken, and so the one that runs first is not always the one whose data was first.
    #[inline]
    pub(super) fn sync_written<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        if !self.durable.written.is_empty() {
            self.submit_flushes(now, driver);
        }
    }

    #[cold]
    fn submit_flushes<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        while let Some((call, io)) = self.durable.written.pop_front() {
            let delay = driver.wake_delay(io.task);
            if delay.is_zero() {
                self.submit_flush(now, call, &io, driver);
            } else {
                self.woken.push(Woken { at: now + delay, step: WokenStep::Flush(call, io) });
            }
        }
    }

    fn submit_flush<D: Driver>(&mut self, now: Instant, call: u32, io: &Io, driver: &mut D) {
        let submission = Submission {
            flush_to_build: true,
            ..Submission::of_call(call, IoPath::Direct).in_worker()
        };
        self.run_submission(now, io, submission, None, driver);
    }

    /// Returns the error of a call that fails before any bio is built. The checks are in the
    /// kernel's order: alignment, end of the device, support by the queue; then whether an atomic
    /// write can be one.
    #[inline(always)]
    fn refuse(&self, io: &Io) -> Option<Status> {
        if self.is_misaligned(io) {
            Some(Status::Invalid)
        } else if self.is_past_end(io) {
            Some(Status::IoError)
        } else if !self.limits.supports(io.op, io.flags) {
            Some(Status::NotSupported)
        } else if io.flags.contains(Flags::ATOMIC) && !self.is_atomic_bio(io) {
            Some(Status::Invalid)
        } else {
            None
        }
    }

    /// Returns true if a call does not consist of whole blocks.
    #[inline(always)]
    fn is_misaligned(&self, io: &Io) -> bool {
        // A block is a power of two.
        let in_block = u64::from(self.limits.logical_block_size) - 1;
        (io.bytes.get() | io.sector.byte_offset().get()) & in_block != 0
    }

    #[inline(always)]
    fn is_past_end(&self, io: &Io) -> bool {
        io.sector.get().saturating_add(io.bytes.sectors_floor().get()) > self.config.size.get()
    }

    /// Returns true if the data of a call lies inside one page, and no limit cuts that.
    #[inline(always)]
    fn is_in_page(&self, io: &Io) -> bool {
        fits_page(self.layouts[io.layout.index()].page_offset(0), io.bytes, &self.limits)
    }

    /// Returns true if an atomic write is one bio, whatever its memory, that the device can do.
    #[cold]
    fn is_atomic_bio(&self, io: &Io) -> bool {
        self.pages_of(io) <= BIO_MAX_VECS as u64 && self.limits.takes_atomic(io.sector, io.bytes)
    }

    /// Returns false if a call has too few bytes for more pages than one bio has vectors, wherever
    /// in a page they begin.
    const fn may_be_several(&self, io: &Io) -> bool {
        io.bytes.get() > (BIO_MAX_VECS as u64 - 1) * PAGE_SIZE
    }

    /// Returns the number of pages that the data of a call lies in.
    fn pages_of(&self, io: &Io) -> u64 {
        (self.layouts[io.layout.index()].page_offset(0) + io.bytes.get()).div_ceil(PAGE_SIZE)
    }

    /// Returns true if the call runs under one plug: always through a file system; on the device
    /// itself if it needs more pages than one bio has vectors.
    fn call_takes_plug(&self, io: &Io) -> bool {
        match io.op {
            Op::Read | Op::Write => match self.config.direct_path {
                super::DirectPath::Iomap => !self.is_small_read(io),
                super::DirectPath::Blkdev if io.op == Op::Write && self.plugs_whole_write() => true,
                super::DirectPath::Blkdev => {
                    self.may_be_several(io) && self.pages_of(io) > BIO_MAX_VECS as u64
                }
            },
            Op::Discard | Op::SecureErase | Op::WriteZeroes => true,
            Op::Flush | Op::ZoneAppend => false,
        }
    }

    /// Returns true if the plug of a write of the device spans the whole system call.
    fn plugs_whole_write(&self) -> bool {
        self.plugs_writes_on(self.config.direct_path)
    }

    /// Returns true if a write on this path is under a plug until its system call returns.
    fn plugs_writes_on(&self, path: super::DirectPath) -> bool {
        self.rules.blkdev_writes_take_plug && path == super::DirectPath::Blkdev
    }

    /// Returns true if a file system passes the call on as one plain bio: a read of at most one of
    /// its blocks, in later versions.
    fn is_small_read(&self, io: &Io) -> bool {
        self.rules.iomap_small_reads_are_plain
            && io.op == Op::Read
            && io.bytes.get() <= FILE_SYSTEM_BLOCK
    }

    /// Returns true if the bios of a direct read carry SYNC. Of the device itself, only a read
    /// does that is one bio and whose caller sleeps until it completes: the caller waits for the
    /// bio, not for the call.
    fn is_sync_read(&self, io: &Io, sleeps: bool) -> bool {
        match self.config.direct_path {
            super::DirectPath::Iomap => {
                self.rules.iomap_reads_are_sync && (sleeps || !self.is_small_read(io))
            }
            super::DirectPath::Blkdev => sleeps && self.pages_of(io) <= BIO_MAX_VECS as u64,
        }
    }

    /// Builds, splits and places bios until the call is complete or has to wait. `waiting`: a
    /// fragment for which a tag is now free.
    #[inline(always)]
    pub(super) fn run_submission<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        mut submission: Submission,
        waiting: Option<BioId>,
        driver: &mut D,
    ) -> Submitted {
        let mut fragment = waiting;
        let mut may_merge = false;
        let place = self.place_of(io.task);
        // The plug that is open now stays so until the call returns.
        let has_plug = !submission.in_worker && self.has_plug(io.task);
        loop {
            let id = match fragment.take() {
                Some(id) => id,
                None => {
                    let Some(rest) = self.next_uncut(now, io, &mut submission) else { break };
                    if self.control.has_limits() {
                        match self.admit_bio(now, io, &submission, rest.bio, rest.is_cut) {
                            StageVerdict::Pass => {}
                            StageVerdict::Hold => continue,
                            StageVerdict::Sleep => {
                                return self
                                    .sleep_in_control(now, io, submission, rest.bio, driver);
                            }
                        }
                    }
                    if submission.is_vain {
                        return self.end_try(now, io, submission, rest.bio, driver);
                    }
                    may_merge = true;
                    let Some(id) = self.cut(now, rest, &mut submission) else { continue };
                    id
                }
            };
            if may_merge {
                // Most bios find nothing that they could be merged with.
                let may_find = has_plug || self.has_queued(place.1);
                if may_find && self.try_merge(now, io, submission.in_worker, id, driver) {
                    continue;
                }
                if self.control.has_gates() && self.gate_bio(now, io, id) != StageVerdict::Pass {
                    return self.sleep_in_control(now, io, submission, id, driver);
                }
            }
            if self.throttling.wbt.is_on() && !self.takes_place(now, io.op, id) {
                return self.sleep_for_place(now, io, submission, id, driver);
            }
            let Some((request, is_durable)) = self.start_request(now, &mut submission, id, place)
            else {
                match self.go_without_tag(now, io, submission, id, driver) {
                    Some(submitted) => return submitted,
                    None => continue,
                }
            };
            if is_durable && self.begin_flush(now, request, driver) {
                // The flush machine has it.
            } else if has_plug {
                self.add_to_plug(now, io.task, request, driver);
            } else {
                self.issue_alone(now, request, place.1, driver);
            }
            if submission.is_built(io) {
                break;
            }
        }
        self.end_submission(now, io, &submission, driver)
    }

    /// Merges a bio with a request that it continues. Returns false if there is none.
    #[inline(always)]
    fn try_merge<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        in_worker: bool,
        id: BioId,
        driver: &mut D,
    ) -> bool {
        if !self.merge_bio(now, io.task, in_worker, id) {
            return false;
        }
        if self.control.has_gates() {
            self.gate_merged(now, io, id);
        }
        if self.freed_by_merge {
            self.wake_after_merge(now, driver);
        }
        true
    }

    /// Ends a submission that has placed all bios of its call.
    #[inline(always)]
    fn end_submission<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        submission: &Submission,
        driver: &mut D,
    ) -> Submitted {
        debug_assert!(
            submission.rest.is_none() && !submission.flush_to_build,
            "a call ends with something left to submit"
        );
        if submission.plugged {
            self.end_call_plug(now, io, submission.sleeps, driver);
        }
        if submission.of_ring {
            self.end_work(now, io.task);
        }
        self.end_part(submission.call, Status::Ok);
        Submitted::Accepted
    }

    /// Ends the plug of a call. A system call that discards or zeroes sleeps until its last bio
    /// completes before it ends the plug, and so does one that writes under the older rule. This
    /// sleep flushes the plug, so the requests are inserted even without a scheduler.
    fn end_call_plug<D: Driver>(&mut self, now: Instant, io: &Io, sleeps: bool, driver: &mut D) {
        let is_within = !io.op.has_data() || (io.op == Op::Write && self.plugs_whole_write());
        if is_within && sleeps && io.may_block {
            self.flush_plug(now, io.task, true, driver);
        }
        self.end_plug(now, io.task, driver);
    }

    /// Returns the next bio of a call that is still to be split.
    #[inline(always)]
    fn next_uncut(&mut self, now: Instant, io: &Io, submission: &mut Submission) -> Option<Rest> {
        match submission.rest.take() {
            Some(rest) => Some(rest),
            None => {
                let bio = self.next_bio(now, io, submission)?;
                Some(Rest { bio, is_cut: false })
            }
        }
    }

    /// Splits a bio, which is recorded as queued (Q) before if limits come first. Returns the
    /// front part, which becomes a request, and keeps the remainder in `submission`. Returns
    /// `None` if the bio cannot be split, or error injection matches it; it has then ended with an
    /// error.
    #[inline(always)]
    fn cut(&mut self, now: Instant, rest: Rest, submission: &mut Submission) -> Option<BioId> {
        if !self.config.error_injection.is_empty() && self.fail_by_rule(&rest) {
            return None;
        }
        let id = rest.bio;
        if self.queues_after_limits() && self.trace.is_on && !rest.is_cut {
            let bio = self.bios[id.0];
            self.trace_bio(now, EventKind::BioQueue, &bio);
        }
        let bio = &mut self.bios[id.0];
        let layout = bio.op.has_data().then(|| &self.layouts[bio.data.layout.index()]);
        match split(bio, layout, &self.limits, &self.rules) {
            Split::Whole { segments } => {
                bio.segments = segments;
                if rest.is_cut && bio.sectors() < self.limits.max_sectors {
                    self.counters.tails += 1;
                }
                Some(id)
            }
            Split::Cut { sectors, segments } => {
                let bio = *bio;
                assert!(
                    !sectors.is_zero() && sectors < bio.sectors(),
                    "a split leaves nothing on one side"
                );
                let front = Bio {
                    bytes: sectors.bytes(),
                    segments,
                    flags: bio.flags.with(Flags::NOMERGE).without(Flags::POLLED),
                    ..bio
                };
                let rest = &mut self.bios[id.0];
                rest.sector = rest.sector + sectors;
                rest.bytes -= sectors.bytes();
                rest.data.offset += sectors.bytes().get();
                rest.flags = rest.flags.without(Flags::POLLED);
                let new_sector = rest.sector;
                submission.rest = Some(Rest { bio: id, is_cut: true });
                self.calls[bio.io].parts += 1;
                self.counters.splits += 1;
                self.trace_bio(now, EventKind::Split { new_sector }, &front);
                Some(BioId(self.bios.insert(front)))
            }
            Split::Fail(status) => {
                self.drop_bio(id);
                self.end_bio(id, status);
                None
            }
        }
    }

    /// Returns true if limits and error injection come before a bio is recorded as queued (Q), as
    /// in the kernel, where a worker submits what limits held. Otherwise it is when it is
    /// submitted.
    fn queues_after_limits(&self) -> bool {
        self.held.limit_worker.is_some() || !self.config.error_injection.is_empty()
    }

    /// Builds the next bio of a call, and records it as queued (Q) unless limits come first.
    #[inline(always)]
    fn next_bio(&mut self, now: Instant, io: &Io, submission: &mut Submission) -> Option<BioId> {
        let left = io.bytes.get() - submission.built;
        let (op, mut flags, bytes) = match io.op {
            Op::Flush => {
                if !core::mem::take(&mut submission.flush_to_build) {
                    return None;
                }
                (Op::Write, io.flags | Flags::PREFLUSH | Flags::SYNC, 0)
            }
            _ if left == 0 => return None,
            Op::Read | Op::Write | Op::ZoneAppend => {
                (io.op, io.flags, self.next_data_bytes(io, submission, left))
            }
            Op::Discard | Op::SecureErase => {
                let sector = io.sector + Bytes::new(submission.built).sectors_floor();
                let sectors = build::next_discard_sectors(
                    sector,
                    Bytes::new(left).sectors_floor(),
                    &self.limits,
                );
                // The caller waits for the last bio of its call only.
                let is_last = sectors.bytes().get() == left;
                let flags = if is_last { io.flags } else { io.flags.without(Flags::SYNC) };
                (io.op, flags, sectors.bytes().get())
            }
            Op::WriteZeroes => (io.op, io.flags, build::next_zeroes_bytes(left, &self.limits)),
        };
        if op == Op::Read
            && submission.path == IoPath::Direct
            && self.is_sync_read(io, submission.sleeps)
        {
            flags |= Flags::SYNC;
        }
        if !self.limits.write_cache {
            flags = flags.without(Flags::PREFLUSH | Flags::FUA);
        }
        if bytes == 0 && !flags.contains(Flags::PREFLUSH) {
            // An empty flush of a device without a volatile cache: all data is already durable.
            return None;
        }
        assert!(bytes <= left, "a bio is longer than what is left of its call");
        let part = Part { op, flags, offset: submission.built, bytes, segments: 0 };
        submission.built += bytes;
        let call = submission.call;
        let id = self.add_bio(now, io, call, &part);
        self.calls[call].parts += 1;
        if self.trace.is_on && !self.queues_after_limits() {
            let bio = self.bios[id.0];
            self.trace_bio(now, EventKind::BioQueue, &bio);
        }
        Some(id)
    }

    /// Adds a part of a call to the table of bios.
    #[inline(always)]
    fn add_bio(&mut self, now: Instant, io: &Io, call: u32, part: &Part) -> BioId {
        self.counters.bios += 1;
        BioId(self.bios.insert_with(|| part.bio(now, io, call)))
    }

    /// Ends a bio that error injection matches, before it is queued, and returns true.
    #[cold]
    fn fail_by_rule(&mut self, rest: &Rest) -> bool {
        let bio = self.bios[rest.bio.0];
        let Some(status) = self.config.error_injection.status_of(&bio) else { return false };
        self.drop_bio(rest.bio);
        self.end_bio(rest.bio, status);
        true
    }

    /// Returns how many of the `left` bytes of a call with data its next bio takes.
    #[inline(always)]
    fn next_data_bytes(&self, io: &Io, submission: &Submission, left: u64) -> u64 {
        let layout = &self.layouts[io.layout.index()];
        if layout.bio_ends().is_empty() && layout.page_offset(submission.built) + left <= PAGE_SIZE
        {
            // Inside one page, nothing ends a bio.
            return left;
        }
        self.next_bytes_of_pages(io, submission, left)
    }

    /// As [`Self::next_data_bytes`], for data of several pages.
    #[inline(never)]
    fn next_bytes_of_pages(&self, io: &Io, submission: &Submission, left: u64) -> u64 {
        let layout = &self.layouts[io.layout.index()];
        // Where bios ended is known of a trace, by the rules of the kernel that was traced.
        let is_known = !layout.bio_ends().is_empty();
        let fill = if is_known { self.config.fill } else { self.config.fill.under(&self.rules) };
        let bytes = build::next_bio_bytes(
            layout,
            submission.built,
            left,
            submission.path,
            fill,
            &self.limits,
        );
        let by_block = submission.path == IoPath::Buffered
            && io.op == Op::Write
            && self.config.buffered_path == super::DirectPath::Blkdev;
        if by_block { bytes.min(FILE_SYSTEM_BLOCK) } else { bytes }
    }

    /// Takes a tag for a bio, and fills the request of that tag from it (G). Returns the request,
    /// and whether it asks for a flush or for FUA. Returns `None` if there is no tag.
    #[inline(always)]
    fn start_request(
        &mut self,
        now: Instant,
        submission: &mut Submission,
        bio_id: BioId,
        (cpu, queue): (u16, HwQueue),
    ) -> Option<(RequestId, bool)> {
        let bio = &self.bios[bio_id.0];
        let limit = match submission.tag_limit.take() {
            Some(limit) => limit,
            None => self.tag_limit(bio.task, bio.op, bio.flags),
        };
        let shallow = self.shallow();
        let entry = &mut self.queues[queue.index()];
        let map = entry.sched_tags.as_mut().unwrap_or(&mut entry.tags);
        let tag = map.take_for(cpu, limit.0.map(|limit| (limit, shallow)));
        let Some(tag) = tag else {
            submission.tag_limit = Some(limit);
            return None;
        };
        let id = RequestId(u32::from(queue.0) * self.requests_per_queue + tag.0);
        let request = &mut self.requests[id];
        assert_eq!(request.state, State::Free, "a tag was free whose request is not");
        let (accounted, tag) = (self.config.iostats, (!self.has_scheduler).then_some(tag));
        *request = Request::new(now, bio_id, bio, &Allocated { accounted, cpu, queue, tag });
        let is_durable = bio.flags.intersects(Flags::PREFLUSH.with(Flags::FUA));
        if accounted {
            let entry = &self.queues[queue.index()];
            let in_use =
                || entry.tags.used() + entry.sched_tags.as_ref().map_or(0, |tags| tags.used());
            self.accounting.on_start(now, in_use);
        }
        if self.control.is_active() {
            self.charge_wait(now, bio_id, Cause::Tag);
        }
        if self.trace.is_on {
            self.trace_request(now, EventKind::GetRequest, id);
            if self.rules.io_start_events {
                self.trace_request(now, EventKind::IoStart, id);
            }
        }
        Some((id, is_durable))
    }

    /// Returns how many tags the scheduler lets a bio choose from. Flushes and FUA writes are not
    /// limited.
    #[inline]
    fn tag_limit(&self, task: TaskId, op: Op, flags: Flags) -> TagLimit {
        if !self.has_scheduler {
            return TagLimit(None);
        }
        let is_limited = !flags.intersects(Flags::PREFLUSH | Flags::FUA);
        TagLimit(if is_limited { self.scheduler.depth_limit_of(task, op, flags) } else { None })
    }

    /// Returns how this kernel interprets a shallow depth.
    #[inline]
    const fn shallow(&self) -> Shallow {
        if self.rules.whole_map_shallow_depth { Shallow::WholeMap } else { Shallow::PerWord }
    }
}
