//! The page cache: the layer between programs that read, write, map and sync files, and
//! [`elevon_core::stack::Stack::submit`].
//!
//! Sans-IO like the stack: its inputs are calls and completions, its outputs are bios and finished
//! calls. It names page frames and never accesses their bytes, so it serves a simulation; a real
//! cache has an array of frames and makes the copies that [`PageCache::poll_copy`] returns. With
//! bytes, pages are stable: a page under writeback is not changed, so no sector is written with a
//! mix of old and new data. A caller's loop is
//!
//! 1. `complete` for every bio that the stack completed, `handle_timers` once `next_timer` is due,
//! 2. `call` for every call of a program,
//! 3. with real bytes, make the copies of `poll_copy` until it is empty, before the next bio is
//!    submitted and before `poll_done` is called,
//! 4. submit the bios of `poll_io`; if the stack blocks the task, call `task_blocked`, and later
//!    `task_unblocked`,
//! 5. call `poll_done` until it returns `None`.
//!
//! A task makes one call at a time. A file is contiguous on the device. Each kind of call has its
//! module: `read`, `fault`, `write`, `sync`; `reclaim` finds memory for it, and `flush` builds the
//! flusher's bios. Behaviour is that of Linux 6.1, except for the later versions' differences in
//! [`Rules`]. Not modelled: metadata and journals (an fsync ends with a flush), page tables of
//! single processes, swap to a device, several devices behind one cache. A page is mapped for all
//! processes or for none.
//!
//! Cost: a hit is O(1) per page; a miss O(1) per page, and one bio more. Nothing is allocated per
//! I/O once tables have grown.

mod calls;
mod config;
mod fault;
mod flush;
mod parts;
mod read;
mod reclaim;
mod stats;
mod sync;
#[cfg(test)]
mod tests;
mod wait;
mod write;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub use super::bios::CacheIo;
pub use calls::{ByteCopy, Call, CallDone, CallKind, Called, OpenId, RangeSync, Way};
pub use config::{CacheConfig, WriteMode};
pub use stats::{CacheStats, Cause, Reading, WaitStats, Waits};

use super::bios::{BioAttributes, Bios, Piece, page_sectors};
use super::dirty::{DirtyCounts, DirtyRatios, DirtyThrottle, DirtyVerdict, Domain, Hz};
use super::domains::Domains;
use super::flusher::{Flusher, FlusherTimes};
use super::pages::{Bits, Entry, Evicted, Flags as PageFlags};
use super::readahead::{Advice, RA_PAGES, Readahead};
use super::replace::{Anonymous, ReplacementConfig, Swap};
use super::resident::Resident;
use super::watermark::{Kswapd, SWAPPINESS, Watermarks};
use super::{FileId, FrameId};
use crate::activity::page_exact::Options;
use crate::activity::{Activity, Origin, Promoter, Submitter};
use elevon_core::ioprio::{CpuPolicy, IoPrio, PrioClass};
use elevon_core::kernel::{Kernel, Rules};
use elevon_core::monotonic::Monotonic;
use elevon_core::op::{Flags, Op};
use elevon_core::pool::Pool;
use elevon_core::status::Status;
use elevon_core::units::{
    Bytes, FileOffset, Instant, Nanos, PAGE_SIZE, PageIndex, Sector, TaskId, TenantId,
};
use flush::FlushTurn;
use parts::{Door, Parts};
use wait::Waiting;

#[derive(Clone, Debug)]
struct CachedFile {
    first: Sector,
    size: FileOffset,
    capacity: FileOffset,
    /// One bit per page of a file that was allocated and not written: set if the page has content.
    /// `None`: all pages have content.
    written: Option<Vec<u64>>,
    /// The last write error, and the number of write errors.
    error: Status,
    errors: u32,
    /// True if no program was told of the last write error. A program that opens the file then will
    /// be.
    is_untold: bool,
    /// Number of open files through which it is mapped.
    mappings: u32,
}

impl CachedFile {
    /// Returns the number of write errors that need not be reported to a program that opens the
    /// file now. As in Linux since 4.17, the last one must be if no program was told of it.
    const fn errors_at_open(&self) -> u32 {
        if self.is_untold { self.errors - 1 } else { self.errors }
    }
}

#[derive(Clone, Copy, Debug)]
struct Open {
    file: FileId,
    ra: Readahead,
    /// Write errors that this open file has reported.
    errors_seen: u32,
}

/// The state of a call.
#[derive(Clone, Copy, Debug)]
struct Progress {
    call: Call,
    file: FileId,
    phase: Phase,
    /// The first page, the current page, and the page after the last.
    first: PageIndex,
    pos: PageIndex,
    end: PageIndex,
    /// Where the last look for pages under writeback ended, and whether another follows.
    looked: PageIndex,
    looks_on: bool,
    /// The call has issued its own read for this page. If that read fails, the call fails.
    read_alone: bool,
    /// The current page was not cached, or not up to date.
    is_miss: bool,
    /// Pages below this one were not cached at the lookup, and the call had them read.
    missed: PageIndex,
    /// The dirty limit stopped the task completely; it checks the limit again when it wakes.
    rebalance: bool,
    status: Status,
    bytes: Bytes,
    waited: Nanos,
    device: Nanos,
    paused: Nanos,
    without_memory: Nanos,
    class: PrioClass,
    is_major: bool,
    /// The time since which the call has found no memory.
    starved: Option<Instant>,
    /// The call was let in at its tenant's door, and has not slept since.
    is_let_in: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The call has not begun.
    Start,
    /// The call processes its pages in order.
    Pages,
    /// The call submits dirty pages.
    Write,
    /// The call waits for pages under writeback.
    Wait,
    /// The call waits for the flush.
    Flush,
}

/// The result of a step of a call.
#[derive(Clone, Copy, Debug)]
enum CallStep {
    Done(Status),
    /// The call sleeps until the page is unlocked or its writeback has completed.
    Page(FrameId),
    /// The call sleeps until memory is free.
    Memory,
    /// The call sleeps until its tenant holds less.
    Door(Door),
    /// The task sleeps for this time because of the dirty limit.
    Pause(Nanos),
    /// The call submits an empty flush, and sleeps until it has completed.
    Flush,
}

/// A page cache in front of one device.
#[derive(Clone, Debug)]
pub struct PageCache {
    config: CacheConfig,
    resident: Resident,
    files: Vec<CachedFile>,
    opens: Vec<Open>,
    bios: Bios,
    waiting: Waiting,
    calls: Pool<Progress>,
    /// Calls that were woken during the current entry function. It is empty when that function
    /// returns.
    runnable: VecDeque<u32>,
    writers: Vec<DirtyThrottle>,
    /// When a task last slept for the dirty limits.
    dirty_sleep: Option<Instant>,
    domains: Domains,
    parts: Parts,
    flusher: Flusher,
    turn: Option<FlushTurn>,
    /// The flusher skipped dirty pages because their tenant's flusher task sleeps.
    skipped: bool,
    marks: Watermarks,
    kswapd: Kswapd,
    /// kswapd found nothing to reclaim: it sleeps until this time, or until a write has completed.
    kswapd_rests: Option<Instant>,
    /// Reclaim found dirty pages: the flusher writes even below the background threshold.
    reclaim_wants_clean: bool,
    /// Direct reclaim has found nothing, and no bio has completed and no timer has been handled
    /// since.
    reclaim_in_vain: bool,
    evicted: Vec<Evicted>,
    /// At most the copies that the calls of one entry function make. The caller takes them before
    /// it submits a bio.
    copies: VecDeque<ByteCopy>,
    /// At most one per task, because a task makes one call at a time; for a task that queues I/O,
    /// at most one per queued I/O.
    done: VecDeque<CallDone>,
    clock: Monotonic,
    stats: CacheStats,
}

impl PageCache {
    /// Returns an empty cache.
    pub fn new(config: CacheConfig) -> Self {
        let frames = config.memory.get() / PAGE_SIZE;
        let mut resident = Resident::new(frames, &config.policy);
        let marks = Watermarks::of_memory(config.memory, config.extra_free);
        let [idle, zram] = [config.idle, config.zram].map(|bytes| bytes.get() / PAGE_SIZE);
        let (swappiness, swap) = (config.swappiness, Swap { free: zram, used: 0 });
        resident.set_programs(Anonymous { touched: 0, idle, swap, swappiness, high: marks.high });
        resident.set_reserved(config.reserved.get() / PAGE_SIZE);
        let promoter = Promoter::new(config.activity, config.activity_options);
        Self {
            resident,
            files: Vec::new(),
            opens: Vec::new(),
            bios: Bios::new(promoter),
            waiting: Waiting::new(),
            calls: Pool::new(),
            runnable: VecDeque::new(),
            writers: Vec::new(),
            dirty_sleep: None,
            domains: Domains::new(Domain::new(config.hz, config.dirty)),
            parts: Parts::new(if config.divides {
                frames.saturating_sub(marks.high).max(1)
            } else {
                0
            }),
            flusher: Flusher::new(config.flusher_times),
            turn: None,
            skipped: false,
            marks,
            kswapd: Kswapd::default(),
            kswapd_rests: None,
            reclaim_wants_clean: false,
            reclaim_in_vain: false,
            evicted: Vec::new(),
            copies: VecDeque::new(),
            done: VecDeque::new(),
            stats: CacheStats::default(),
            clock: Monotonic::START,
            config,
        }
    }

    /// Adds a file of `size` bytes that begins at sector `first` and may grow to `capacity` bytes.
    /// Returns its number; numbers are dense from 0.
    pub fn add_file(&mut self, first: Sector, size: Bytes, capacity: Bytes) -> FileId {
        assert!(size <= capacity, "a file of {size:?} in a place of {capacity:?}");
        let [size, capacity] = [size, capacity].map(|bytes| FileOffset::ZERO + bytes);
        let (error, errors, is_untold) = (Status::Ok, 0, false);
        self.files.push(CachedFile {
            first,
            size,
            capacity,
            written: None,
            error,
            errors,
            is_untold,
            mappings: 0,
        });
        FileId((self.files.len() - 1) as u32)
    }

    /// Makes a file that ends with a whole page longer: `size` is its new size, and what it may
    /// grow to. Programs keep the ranges that they were given.
    ///
    /// # Panics
    /// If that is less than its size, or the file ends within a page.
    pub fn grow_file(&mut self, file: FileId, size: Bytes) {
        let (file, size) = (&mut self.files[file.0 as usize], FileOffset::ZERO + size);
        let is_whole = file.size.get().is_multiple_of(PAGE_SIZE);
        assert!(is_whole && size >= file.size, "a file of {:?} to {size:?}", file.size);
        (file.size, file.capacity) = (size, size);
    }

    /// Marks a file as allocated and unwritten: it reads as zeroes without I/O. Only for a
    /// simulation; with bytes, the content is that of the device.
    pub fn set_unwritten(&mut self, file: FileId) {
        assert!(!self.config.copies, "what a real file holds is on its device");
        let file = &mut self.files[file.0 as usize];
        file.written = Some(alloc::vec![0; file.capacity.page_ceil().get().div_ceil(64) as usize]);
    }

    /// Returns true if a page of a file has no content yet.
    #[inline]
    fn is_unwritten(&self, file: FileId, index: PageIndex) -> bool {
        let index = index.get();
        let written = &self.files[file.0 as usize].written;
        written.as_ref().is_some_and(|bits| bits[(index / 64) as usize] >> (index % 64) & 1 == 0)
    }

    /// Opens a file, and returns the number of the open file.
    pub fn open(&mut self, file: FileId) -> OpenId {
        let ra = Readahead::new(self.config.ra_pages, self.config.io_pages);
        self.opens.push(Open {
            file,
            ra,
            errors_seen: self.files[file.0 as usize].errors_at_open(),
        });
        OpenId((self.opens.len() - 1) as u32)
    }

    /// Makes an open file one that was just opened: without readahead state, and with no write
    /// error to report, unless no program was told of the last one.
    pub fn reopen(&mut self, open: OpenId) {
        let at = &mut self.opens[open.0 as usize];
        at.ra = Readahead::new(self.config.ra_pages, self.config.io_pages);
        at.errors_seen = self.files[at.file.0 as usize].errors_at_open();
    }

    /// Returns a file's size in bytes.
    pub fn file_size(&self, file: FileId) -> Bytes {
        self.files[file.0 as usize].size - FileOffset::ZERO
    }

    /// Begins a call. Returns its result if it does not sleep.
    #[inline]
    pub fn call(&mut self, now: Instant, call: Call) -> Called {
        self.clock.advance(now);
        let hit = match call.kind {
            CallKind::Read => self.read_hit(&call),
            CallKind::Fault { write } => self.touch(&call, write),
            _ => None,
        };
        match hit {
            Some(done) => Called::Done(done),
            None => self.begin_call(now, call),
        }
    }

    fn begin_call(&mut self, now: Instant, call: Call) -> Called {
        let mut progress = self.begin(call);
        let step = self.step(now, &mut progress);
        let called = match step {
            CallStep::Done(status) => Called::Done(self.end(&progress, status)),
            CallStep::Page(_)
            | CallStep::Memory
            | CallStep::Door(_)
            | CallStep::Pause(_)
            | CallStep::Flush => {
                let id = self.calls.insert(progress);
                self.sleep(now, id, step);
                Called::Wait
            }
        };
        self.settle(now);
        called
    }

    /// Returns when a task last slept because too many pages were dirty; `None` if none did.
    pub const fn last_dirty_sleep(&self) -> Option<Instant> {
        self.dirty_sleep
    }

    /// Returns the next bio to submit, if any. [`Self::complete`] must be called when the bio has
    /// completed. The flusher's bios come after all others.
    ///
    /// # Panics
    /// If copies of an earlier call are pending ([`Self::poll_copy`]): the bio would carry the old
    /// content of its frames.
    pub fn poll_io(&mut self, now: Instant) -> Option<CacheIo> {
        self.clock.advance(now);
        assert!(
            self.copies.is_empty(),
            "a bio is polled before the bytes of {:?} have moved",
            self.copies.front()
        );
        if let Some(io) = self.bios.poll() {
            return Some(io);
        }
        self.fill_from_flusher(now).then(|| self.bios.poll())?
    }

    /// Returns the frames of a bio from [`Self::poll_io`], in order.
    pub fn frames(&self, token: u64) -> &[FrameId] {
        &self.bios.bio(token).frames
    }

    /// Completes a bio. `device`: the time that the device spent on it, zero if not known.
    pub fn complete(&mut self, now: Instant, token: u64, status: Status, device: Nanos) {
        let class = self.bios.bio(token).io.ioprio.class();
        self.complete_as(now, token, status, device, class);
    }

    /// Completes a bio like [`Self::complete`], if its priority class may have been changed after
    /// [`Self::poll_io`]. `class` is the class in which it was served.
    pub fn complete_as(
        &mut self,
        now: Instant,
        token: u64,
        status: Status,
        device: Nanos,
        class: PrioClass,
    ) {
        self.clock.advance(now);
        self.reclaim_in_vain = false;
        let bio = self.bios.bio(token);
        let (op, tenant) = (bio.io.op, bio.io.tenant);
        if let Some(call) = bio.call {
            self.calls[call].status = status;
            self.wake(now, call, device, Some(class));
        }
        let frames = self.bios.take_frames(token);
        let pages = frames.len();
        for &frame in &frames {
            match op {
                Op::Read => self.read_ended(frame, status),
                _ => self.write_ended(frame, status),
            }
            while let Some(call) = self.waiting.take_page(frame) {
                self.calls[call].status = status;
                self.wake(now, call, device, Some(class));
            }
        }
        self.bios.end(token, frames);
        if op == Op::Read {
            self.parts.end_read(tenant, pages as u64);
        }
        if op == Op::Write {
            self.domains.end_writeback(tenant, pages as u64);
            self.parts.on_released(tenant, Door::Write);
            self.stats.written += pages as u64;
            self.kswapd_rests = None;
        }
        self.wake_starved(now);
        self.run(now);
        self.settle(now);
    }

    fn read_ended(&mut self, frame: FrameId, status: Status) {
        assert!(
            self.resident.pages().has(frame, PageFlags::LOCKED),
            "{frame:?} was read and is not locked"
        );
        let ready = if status.is_ok() { PageFlags::UPTODATE } else { PageFlags::NONE };
        self.resident.pages_mut().set_and_clear(frame, ready, PageFlags::LOCKED);
    }

    fn write_ended(&mut self, frame: FrameId, status: Status) {
        self.resident.end_writeback(frame);
        if !status.is_ok() {
            let (file, _) = self.resident.pages().key(frame);
            let file = &mut self.files[file.0 as usize];
            (file.error, file.errors, file.is_untold) = (status, file.errors + 1, true);
        }
    }

    /// Returns the next finished call that had slept.
    pub fn poll_done(&mut self) -> Option<CallDone> {
        self.done.pop_front()
    }

    /// Returns the next copy to make. Copies must be made in order, before any other step of the
    /// loop. There are none without [`CacheConfig::copies`].
    pub fn poll_copy(&mut self) -> Option<ByteCopy> {
        self.copies.pop_front()
    }

    /// Holds back the bios of a task (which may be a flusher task), because the stack made it sleep
    /// for a tag.
    pub fn task_blocked(&mut self, task: TaskId) {
        self.bios.set_blocked(task, true);
    }

    /// Releases the bios of a task that no longer sleeps in the stack.
    pub fn task_unblocked(&mut self, task: TaskId) {
        self.bios.set_blocked(task, false);
        if self.skipped && task >= self.config.flusher {
            self.skipped = false;
            self.flusher.wake();
        }
    }

    /// Returns the time at which [`Self::handle_timers`] must be called next.
    pub fn next_timer(&self) -> Option<Instant> {
        let earlier = |a: Option<Instant>, b: Option<Instant>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        };
        earlier(earlier(self.waiting.next_timer(), self.flusher.next_timer()), self.kswapd_rests)
    }

    /// Wakes calls whose sleep has expired, the flusher and kswapd.
    pub fn handle_timers(&mut self, now: Instant) {
        self.clock.advance(now);
        self.reclaim_in_vain = false;
        while let Some(call) = self.waiting.take_due(now) {
            self.wake(now, call, Nanos::ZERO, None);
        }
        self.flusher.handle_timer(now);
        if self.kswapd_rests.is_some_and(|at| at <= now) {
            self.kswapd_rests = None;
        }
        self.run(now);
        self.settle(now);
    }

    /// Sets the memory that is used outside the page cache.
    pub fn set_reserved(&mut self, now: Instant, reserved: Bytes) {
        self.clock.advance(now);
        self.resident.set_reserved(reserved.get() / PAGE_SIZE);
        if self.resident.free() < self.marks.low {
            self.wake_kswapd();
        }
        self.settle(now);
    }

    /// Returns the pages, the replacement policy and their counts.
    pub const fn resident(&self) -> &Resident {
        &self.resident
    }

    /// Returns the state and counts of promotion by content.
    pub const fn promoter(&self) -> &Promoter {
        &self.bios.promoter
    }

    /// Returns the root's dirty limits, and the measurements of its writes that they use.
    pub fn dirty_domain(&self) -> &Domain {
        self.domains.of(TenantId(0))
    }

    /// Returns a tenant's number of dirty pages, and of pages under writeback.
    pub fn dirty_of(&self, tenant: TenantId) -> (u64, u64) {
        (self.resident.pages().dirty_of(tenant), self.domains.writeback(tenant))
    }

    /// Returns the statistics.
    pub const fn stats(&self) -> &CacheStats {
        &self.stats
    }

    /// Returns the current counters and levels, for plots over time. Cost: O(1), about a hundred
    /// loads.
    pub fn reading(&self) -> Reading {
        let (pages, stats, counts) = (self.resident.pages(), &self.stats, self.counts());
        let limits = self.domains.of(TenantId(0)).limits(counts.dirtyable);
        let policy = self.resident.stats();
        let mut reading = Reading {
            hits: stats.hits,
            misses: stats.misses,
            touches: stats.touches,
            waits: Cause::ALL.map(|cause| stats.waits(cause).reading()),
            refaulted: policy.refaulted,
            restored: policy.restored,
            kswapd_reclaimed: stats.kswapd_reclaimed,
            direct_reclaimed: stats.direct_reclaimed,
            dirtied: stats.dirtied,
            written: stats.written,
            cached: pages.used(),
            mapped: pages.mapped(),
            dirty: counts.dirty,
            writeback: counts.writeback,
            free: self.resident.free(),
            dirty_limit: limits.thresh,
            dirty_background: limits.background,
            ..Reading::default()
        };
        for origin in Origin::ALL {
            let of = self.promoter().counts(origin);
            reading.promoted += of.promoted;
        }
        reading
    }

    /// Returns the watermarks of free memory.
    pub const fn watermarks(&self) -> &Watermarks {
        &self.marks
    }

    /// Returns true if no call and no bio is in flight (there may be dirty pages).
    pub fn is_idle(&self) -> bool {
        self.calls.live() == 0 && self.bios.live() == 0
    }

    fn begin(&self, call: Call) -> Progress {
        let file = self.opens[call.open.0 as usize].file;
        Progress {
            call,
            file,
            phase: Phase::Start,
            first: PageIndex::ZERO,
            pos: PageIndex::ZERO,
            end: PageIndex::ZERO,
            read_alone: false,
            is_miss: false,
            looked: PageIndex::ZERO,
            looks_on: false,
            missed: PageIndex::ZERO,
            rebalance: false,
            status: Status::Ok,
            bytes: Bytes::ZERO,
            waited: Nanos::ZERO,
            device: Nanos::ZERO,
            paused: Nanos::ZERO,
            without_memory: Nanos::ZERO,
            class: PrioClass::None,
            is_major: false,
            starved: None,
            is_let_in: false,
        }
    }

    /// Continues a call until it finishes or sleeps.
    fn step(&mut self, now: Instant, at: &mut Progress) -> CallStep {
        match at.call.kind {
            CallKind::Read => self.step_read(now, at),
            CallKind::Write => self.step_write(now, at),
            CallKind::Fault { write } => self.step_fault(now, at, write),
            CallKind::Fsync
            | CallKind::Fdatasync
            | CallKind::SyncRange(RangeSync::ALL)
            | CallKind::FlushBuffers
            | CallKind::LastClose => self.step_sync(at),
            CallKind::SyncRange(how) => self.step_sync_range(at, how),
            CallKind::Fadvise(advice) => self.advise(now, at, advice),
            CallKind::Madvise(advice) => {
                self.opens[at.call.open.0 as usize].ra.advise_mapping(advice);
                CallStep::Done(Status::Ok)
            }
            CallKind::Truncate => self.step_truncate(at),
            CallKind::Invalidate | CallKind::Discard => self.step_invalidate(at),
            CallKind::DropCaches => {
                (0..self.files.len() as u32).for_each(|file| {
                    self.invalidate(FileId(file), PageIndex::ZERO, PageIndex::MAX);
                });
                CallStep::Done(Status::Ok)
            }
        }
    }

    /// Steps every call that was woken.
    fn run(&mut self, now: Instant) {
        while let Some(id) = self.runnable.pop_front() {
            let mut progress = self.calls[id];
            match self.step(now, &mut progress) {
                CallStep::Done(status) => {
                    self.calls.remove(id);
                    let done = self.end(&progress, status);
                    self.done.push_back(done);
                }
                step @ (CallStep::Page(_)
                | CallStep::Memory
                | CallStep::Door(_)
                | CallStep::Pause(_)
                | CallStep::Flush) => {
                    progress.is_let_in = false;
                    self.calls[id] = progress;
                    self.sleep(now, id, step);
                }
            }
        }
    }

    fn end(&mut self, at: &Progress, status: Status) -> CallDone {
        let Progress {
            bytes,
            waited,
            device,
            paused,
            without_memory: starved,
            class,
            is_major,
            ..
        } = *at;
        self.stats.call_ended(Cause::from_kind(at.call.kind), waited, is_major);
        let Call { task, token, .. } = at.call;
        CallDone { task, token, status, bytes, waited, device, paused, starved, class, is_major }
    }

    const fn reads_for(&self, call: &Call, flags: Flags) -> BioAttributes {
        let origin =
            if matches!(call.kind, CallKind::Fault { .. }) { Origin::Fault } else { Origin::Read };
        BioAttributes {
            task: call.task,
            tenant: call.tenant,
            submitter: call.submitter,
            op: Op::Read,
            flags,
            origin,
        }
    }

    #[inline]
    fn piece(
        &self,
        file: FileId,
        index: PageIndex,
        frame: FrameId,
        bits: Bits,
        wanted: bool,
    ) -> Piece {
        let sector = self.files[file.0 as usize].first + page_sectors(index.get());
        Piece { frame, sector, bits, wanted }
    }

    /// Returns the part of the call's range in page `index`: (offset in the page, bytes, offset in
    /// the caller's buffer). `end`: the end of the range in the file.
    fn part(call: &Call, index: PageIndex, end: FileOffset) -> (u32, u32, Bytes) {
        let from = call.offset.max(index.start());
        let to = end.min(index.next().start());
        (
            (from - index.start()).get() as u32,
            (to - from).get() as u32,
            from - call.offset + call.buffer_offset,
        )
    }

    fn counts(&self) -> DirtyCounts {
        let (pages, free) = (self.resident.pages(), self.resident.free());
        let dirtyable = free.saturating_sub(self.marks.high) + pages.used();
        DirtyCounts { dirty: pages.dirty(), writeback: pages.writeback(), dirtyable }
    }

    /// Panics if a page, a bio or a call is in an invalid state. Costs O(pages, bios and calls);
    /// for tests.
    pub fn self_check(&self) {
        self.resident.self_check();
        self.flusher.self_check();
        let pages = self.resident.pages();
        let (mut read, mut written) = (0, 0);
        for (frame, op) in self.bios.frames() {
            let flag = if op == Op::Read { PageFlags::LOCKED } else { PageFlags::WRITEBACK };
            assert!(pages.has(frame, flag), "{frame:?} is in a bio and not held");
            if op == Op::Read { read += 1 } else { written += 1 }
        }
        assert_eq!(written, pages.writeback(), "a page is under writeback in no bio, or in two");
        self.domains.self_check(written);
        self.parts.self_check(read);
        for (n, _) in self.files.iter().enumerate() {
            let file = FileId(n as u32);
            let mut at = PageIndex::ZERO;
            while let Some((index, frame)) = pages.next(file, at) {
                read -= u64::from(pages.has(frame, PageFlags::LOCKED));
                assert!(
                    !pages.has(frame, PageFlags::LOCKED) || !pages.has(frame, PageFlags::DIRTY)
                );
                assert!(
                    !pages.has(frame, PageFlags::DIRTY) || self.flusher.is_dirty(file),
                    "a dirty file nobody writes"
                );
                at = index.next();
            }
        }
        assert_eq!(read, 0, "a page is read twice at once");
        self.waiting.self_check(self.parts.waiting(), |frame| {
            pages.has(frame, PageFlags::LOCKED | PageFlags::WRITEBACK)
        });
        assert_eq!(self.waiting.len(), self.calls.live(), "a call sleeps for nothing");
    }
}
