//! The page cache between processes and stack, in simulation and before a real file.
//!
//! A buffered or mapped I/O of a process becomes calls of the cache: one for a read or write (and a sync where it is `sync=`), one a
//! page for a mapping, one a file for an fsync. What the cache wants of the device goes to the stack as it built it, under the
//! task that asked or under the flusher's own, and comes back by a token with [`CACHE_TOKEN`] set. Direct I/O of a file that has
//! pages cached writes them back first, and drops them where it writes.
//!
//! Time passes by [`CacheCost`]: a process is busy for what its calls cost after they are over, the calls of one I/O together. So
//! within one I/O of many pages the copying of pages does not overlap with readahead; between I/Os it does. A call that slept costs
//! a wake-up besides, each bio that a process had to build a submission, both as in direct I/O ([`CpuCost`]).
//!
//! What fio does before a job starts: `pre_read` reads its files (not timed), else `invalidate` drops them; then `fadvise_hint`. Before
//! a job reads back what it wrote, `invalidate` drops its files again (measured: fio 3.33 calls posix_fadvise there); with real bytes what
//! is dirty is written first, so that it is the device that is verified and not memory.
//! A queue of buffered I/O is one at a time where submission blocks (libaio), as in Linux; io_uring has as many as it wants.
//!
//! With real bytes ([`CacheConfig::copies`]) the back end has frames, the device is one file of the cache, whose parts are the files
//! of jobs, and so nothing that overlaps is in memory twice. Direct I/O waits until no page of its range is left where it writes.
//! When all jobs are over, what is dirty is written and flushed. Where writes go through, a store to a mapping does too: its I/O is over
//! when the device has its pages.
//!
//! Cost: O(1) an I/O and a page beside the cache's own. Nothing is allocated per I/O once tables have grown.

mod setup;

use std::cmp::Ordering;
use std::collections::VecDeque;

use elevon_cache::activity::{Origin, Submitter};
use elevon_cache::page_cache::{
    ByteCopy, CacheConfig, CacheIo, Call, CallDone, CallKind, Called, OpenId, PageCache, RangeSync, Reading, Way,
    WriteMode,
};
use elevon_cache::pages::Flags as PageFlags;
use elevon_cache::readahead::Advice;
use elevon_cache::stats::CacheUse;
use elevon_cache::{FileId, Slot};
use elevon_core::ioprio::PrioClass;
use elevon_core::op::{Flags, Op};
use elevon_core::stack::{Done, Io, Stack};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, LayoutId, Nanos, PAGE_SIZE, Sector, TaskId, TenantId};

use crate::cache_series::CacheSeries;
use crate::chance::split_mix;
use crate::jobs::Jobs;
use crate::process::{CpuCost, Process};
use crate::region::{File, Region};

/// Tokens of the cache's bios in the stack have this bit; those of processes are small.
pub const CACHE_TOKEN: u64 = 1 << 63;

/// CPU time of I/O that goes through the page cache, spent by its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCost {
    /// A system call: read, write, fsync.
    pub call: Nanos,
    /// A page: finding and copying it.
    pub hit: Nanos,
    /// A page fault, besides.
    pub fault: Nanos,
}

/// Where an I/O stands: the call it makes next, or is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Read,
    Write,
    /// Makes a `sync=` write durable.
    Durable,
    /// Touches the page at `at`.
    Touch,
    /// Where writes go through: writes the pages that were stored to.
    Through,
    /// Before the first I/O that reads back what the job wrote: the file `open` is written,
    Settle,
    /// and dropped.
    Forget,
    /// Syncs the file `open`.
    Sync,
    /// Syncs what was written of the file `open` since its last sync (sync_file_range).
    SyncRange,
    /// Direct I/O: cached pages are written first,
    Clean,
    /// and dropped where it writes,
    Drop,
    /// then the device is asked,
    Device,
    /// and what was read into the cache meanwhile is dropped.
    DropAgain,
    /// A direct write of which nothing was cached is with the device; what is read into the cache meanwhile is dropped after it.
    Alone,
    Over,
}

/// An I/O of a process, by token; offsets are those of its file.
#[derive(Clone, Copy, Debug)]
struct Operation {
    step: Step,
    open: usize,
    at: u64,
    offset: u64,
    bytes: u64,
    is_write: bool,
    cost: Nanos,
    status: Status,
    /// What follows after `Settle` and `Forget`.
    then: Step,
    /// What goes to the device, of direct I/O.
    io: Option<Io>,
}

impl Operation {
    /// What a sync does after one of its process's files: the same of the next.
    fn next_file(&mut self, files: usize) -> Step {
        self.open += 1;
        if self.open < files { self.step } else { Step::Over }
    }
}

const NOTHING: Operation = Operation {
    step: Step::Over,
    open: 0,
    at: 0,
    offset: 0,
    bytes: 0,
    is_write: false,
    cost: Nanos::ZERO,
    status: Status::Ok,
    then: Step::Over,
    io: None,
};

/// A file that a process has open.
#[derive(Clone, Copy, Debug)]
struct Opened {
    open: OpenId,
    file: FileId,
    /// Where the file begins on the device, in bytes.
    start: u64,
    /// The part that the process uses.
    region: Region,
    /// What was written since its last sync, from first to last byte: `sync_file_range` is about that.
    written: Option<(u64, u64)>,
}

/// How far a process is with what comes before its I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prologue {
    Due,
    /// Reads this file, from there.
    Reading(usize, u64),
    Over,
}

/// What the layer keeps of a process.
#[derive(Clone, Debug)]
struct User {
    opens: Vec<Opened>,
    is_buffered: bool,
    is_mapped: bool,
    /// An asynchronous engine whose submission does the I/O (libaio).
    submits_in_line: bool,
    may_block: bool,
    sync_writes: bool,
    range_sync: Option<RangeSync>,
    submitter: Submitter,
    tenant: TenantId,
    operations: Vec<Operation>,
    prologue: Prologue,
    pre_reads: u64,
    invalidates: bool,
    advice: Option<Advice>,
    /// It sleeps in the stack for a tag; what is over then waits in `held`.
    is_blocked: bool,
    held: Vec<u32>,
    /// CPU time of bios it built that no I/O has been charged with.
    unpaid: Nanos,
    /// Its passes of reading back that have begun.
    verify_passes: u32,
    /// The I/O that drops the files before such a pass, and those that wait for that.
    settling: Option<u32>,
    unsettled: Vec<u32>,
}

/// What became of an I/O.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// It is over; the process is busy for so long before it has it.
    Over { task: usize, token: u32, status: Status, cost: Nanos },
    /// It is to be submitted to the stack.
    Submit(Io),
    /// What comes before the process's first I/O is over.
    Prepared { task: usize },
}

/// How an I/O goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// To the stack at once.
    Stack,
    /// Through the cache; an event will tell.
    Cache {
        /// The process sleeps in the submission.
        sleeps: bool,
    },
}

/// A bio of the cache in the stack.
#[derive(Clone, Copy, Debug, Default)]
struct Plug {
    /// A batch is open in the stack.
    is_open: bool,
    /// What the task had queued is submitted: the batch ends as it wakes.
    ends: bool,
}

/// Pages and bios that went to the device and came from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bios.
    pub bios: u64,
    /// Pages read in windows of readahead, those asked for among them.
    pub readahead_pages: u64,
    /// Pages read singly.
    pub read_pages: u64,
    /// Pages written by tasks that sync.
    pub sync_pages: u64,
    /// Pages written by the flusher, and by advice.
    pub writeback_pages: u64,
    /// Bios by what they were for: the number of their [`Origin`]. Flushes are among those of fsync.
    pub sources: [SourceTraffic; Origin::ALL.len()],
}

impl Traffic {
    /// Bios that an experiment's control made RT.
    fn controlled(&self) -> u64 {
        self.sources.iter().map(|source| source.controlled).sum()
    }
}

/// Bios of one origin, as they were submitted: whatever decided their class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceTraffic {
    /// Bios.
    pub bios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of class RT.
    pub rt: u64,
    /// Those that an experiment's control made RT.
    pub controlled: u64,
}

/// Who is RT in an experiment's controls, whatever the content: `activity=oracle`, `faults` and `random:PERMILLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Bios that somebody waits for when they are submitted: of a read, a fault, or a sync.
    Oracle,
    /// All that faults of mappings read, readahead too.
    Faults,
    /// So many of a thousand bios, whatever they are for.
    Random {
        /// 0 to 1000.
        permille: u16,
        /// Which ones.
        seed: u64,
    },
}

impl Control {
    /// What the words mean; `None` for others.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "oracle" => Some(Self::Oracle),
            "faults" => Some(Self::Faults),
            _ => {
                let permille = text.strip_prefix("random:")?.parse().ok().filter(|permille| *permille <= 1000)?;
                Some(Self::Random { permille, seed: 0 })
            }
        }
    }

    /// Whether bio number `n` of a run is RT. `is_mapped`: its task has its files mapped.
    fn picks(self, n: u64, io: &CacheIo, is_mapped: bool) -> bool {
        match self {
            Self::Oracle => matches!(io.origin, Origin::Fault | Origin::Read | Origin::Fsync),
            Self::Faults => is_mapped && io.op == Op::Read,
            Self::Random { permille, seed } => split_mix(&mut (seed ^ (n << 20))) % 1000 < u64::from(permille),
        }
    }
}

/// The layer. One for a run.
#[derive(Debug)]
pub struct Cached {
    traffic: Traffic,
    cache: PageCache,
    cost: CacheCost,
    cpu: CpuCost,
    flusher: TaskId,
    /// The last of the tenants' flushers, which follow.
    last_flusher: TaskId,
    users: Vec<User>,
    files: Vec<File>,
    /// By token of the cache.
    layouts: Vec<LayoutId>,
    /// By task, the flushers' last.
    plugs: Vec<Plug>,
    device_end: Sector,
    control: Option<Control>,
    /// When the run began.
    started: Instant,
    wait_window: Nanos,
    series: CacheSeries,
    pub(crate) events: VecDeque<Event>,
    has_bytes: bool,
    writes_through: bool,
    /// Pages whose write failed.
    failed_pages: u64,
    /// Bytes to move before the next bio is submitted and before an I/O is over.
    pub(crate) copies: VecDeque<ByteCopy>,
    /// Calls of other programs that are over.
    done_of_other_programs: VecDeque<CallDone>,
    settles: bool,
    last_write_back: LastWriteBack,
}

/// The write-back of what is dirty when all jobs are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastWriteBack {
    NotDue,
    /// Not over.
    Begun,
    Over(Status),
}

impl Cached {
    /// A cache for these jobs. Its flusher is a task behind theirs, and behind it one for each tenant up to the last that a job lies
    /// in, whatever `config` says. `cpu`: as in [`crate::jobs::JobsOptions`].
    pub fn new(config: CacheConfig, cost: CacheCost, cpu: CpuCost, jobs: &mut Jobs, stack: &Stack) -> Self {
        let flusher = TaskId(jobs.processes().len() as u32);
        let tenant_flushers = jobs.processes().iter().map(|process| process.tenant().0).max().unwrap_or(0);
        let last_flusher = TaskId(flusher.0 + tenant_flushers);
        let (has_bytes, wait_window) = (config.copies, config.wait_window);
        let mut cached = Self {
            has_bytes,
            writes_through: config.write_mode == WriteMode::Through,
            failed_pages: 0,
            copies: VecDeque::new(),
            done_of_other_programs: VecDeque::new(),
            settles: has_bytes,
            last_write_back: LastWriteBack::NotDue,
            traffic: Traffic::default(),
            cache: PageCache::new(CacheConfig { flusher, tenant_flushers, ..config }),
            cost,
            cpu,
            flusher,
            last_flusher,
            users: Vec::new(),
            files: Vec::new(),
            layouts: Vec::new(),
            plugs: vec![Plug::default(); last_flusher.index() + 1],
            device_end: Sector::ZERO + stack.config().size,
            control: None,
            started: Instant::ZERO,
            wait_window,
            series: CacheSeries::new(Instant::ZERO),
            events: VecDeque::new(),
        };
        cached.add_files(jobs);
        for (member, process) in jobs.members.iter().zip(&mut jobs.processes) {
            let spec = &jobs.specs[member.spec];
            let user = cached.user(spec, member, process);
            if user.is_buffered {
                let submit = if user.is_mapped { Nanos::ZERO } else { cost.call };
                process.set_cpu(CpuCost { submit, ..CpuCost::default() });
                process.cache_use();
                process.enable_range_sync();
            }
            cached.users.push(user);
        }
        cached
    }

    /// Who is RT is said by this, and not by content.
    pub const fn set_control(&mut self, control: Control) {
        self.control = Some(control);
    }

    /// Bios that became RT by the control.
    pub fn promoted(&self) -> u64 {
        self.traffic.controlled()
    }

    /// The cache, for its statistics.
    pub const fn cache(&self) -> &PageCache {
        &self.cache
    }

    /// What it read and wrote.
    pub const fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// The cache over time.
    pub const fn series(&self) -> &CacheSeries {
        &self.series
    }

    /// Windows that waits are counted in; see [`elevon_cache::stats::Windows::length`] for what they came to.
    pub const fn wait_window(&self) -> Nanos {
        self.wait_window
    }

    /// The run begins.
    pub(crate) fn on_start(&mut self, now: Instant) {
        (self.started, self.series) = (now, CacheSeries::new(now));
    }

    /// Time has come to `now`, where nothing has happened yet.
    #[inline]
    pub(crate) fn on_time(&mut self, now: Instant) {
        let Self { cache, traffic, series, .. } = self;
        series.advance(now, || reading(cache, traffic));
    }

    /// The jobs are over.
    pub(crate) fn on_end(&mut self, now: Instant) {
        self.series.finish(now, reading(&self.cache, &self.traffic));
    }

    /// The task in whose name the flusher writes what the root made dirty.
    pub const fn flusher(&self) -> TaskId {
        self.flusher
    }

    /// The last of the flusher tasks: those of tenants follow the root's.
    pub const fn last_flusher(&self) -> TaskId {
        self.last_flusher
    }

    /// The cache, to be told of memory that others use, and of files of theirs. Calls go by [`Self::call_of_other_program`].
    pub const fn cache_mut(&mut self) -> &mut PageCache {
        &mut self.cache
    }

    /// After the last job the run goes on until no call and no bio of the cache is under way; with bytes it always does.
    pub const fn settle_at_end(&mut self) {
        self.settles = true;
    }

    /// Others use so much memory now: as [`PageCache::set_reserved`], which may go on with calls that waited for memory, and the bytes
    /// that they move are taken over.
    pub fn set_reserved(&mut self, now: Instant, reserved: Bytes) {
        self.cache.set_reserved(now, reserved);
        self.take_copies();
    }

    /// A program that is no job uses the cache, as a task behind the flushers'. [`Self::poll_other_program`] says how it ended.
    ///
    /// # Panics
    /// Where the task is a job's or the flusher.
    pub fn call_of_other_program(&mut self, now: Instant, call: Call) {
        assert!(call.task > self.last_flusher, "{:?} belongs to a job or a flusher", call.task);
        if self.plugs.len() <= call.task.index() {
            self.plugs.resize(call.task.index() + 1, Plug::default());
        }
        let called = self.cache.call(now, call);
        self.take_copies();
        if let Called::Done(done) = called {
            self.done_of_other_programs.push_back(done);
        }
    }

    /// The next call of another program that is over.
    pub fn poll_other_program(&mut self) -> Option<CallDone> {
        self.done_of_other_programs.pop_front()
    }

    /// Whether a process has to do with the cache.
    #[inline]
    pub(crate) fn is_user(&self, task: usize) -> bool {
        !self.users[task].opens.is_empty()
    }

    fn prologue_token(&self, task: usize) -> u64 {
        (self.users[task].operations.len() - 1) as u64
    }

    fn call_of(&self, task: usize, token: u64, index: usize, kind: CallKind, offset: u64, bytes: u64) -> Call {
        let User { opens, submitter, tenant, .. } = &self.users[task];
        let (submitter, tenant) = (*submitter, *tenant);
        Call { task: TaskId(task as u32), token, submitter, tenant, open: opens[index].open, kind, offset, bytes }
    }

    /// A process is over: its mappings go.
    pub(crate) fn on_process_over(&mut self, task: usize) {
        let user = &self.users[task];
        if user.is_mapped && user.prologue != Prologue::Due {
            user.opens.iter().for_each(|opened| self.cache.unmap(opened.open));
        }
    }

    /// An I/O of a process; `process` has just given it.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant, process: &mut Process, io: Io) -> Route {
        let task = io.task.index();
        let user = &self.users[task];
        if user.opens.is_empty() {
            return Route::Stack;
        }
        let (offset, bytes) = process.range(io.token);
        let holds = |opened: &Opened| opened.region.start <= offset && offset - opened.region.start < opened.region.len;
        let open = Some(process.file(io.token)).filter(|&at| user.opens.get(at).is_some_and(holds));
        let open = open.or_else(|| user.opens.iter().position(holds)).unwrap_or(0);
        let Opened { start, file, .. } = user.opens[open];
        let offset = offset.saturating_sub(start);
        let goes_direct = !user.is_buffered || io.op == Op::Discard;
        if goes_direct {
            let is_cached = match io.op {
                Op::Flush => user.opens.iter().any(|opened| self.cache.resident().pages().file_pages(opened.file) > 0),
                _ => self.is_cached(file, offset, bytes),
            };
            if !is_cached && !user.is_blocked {
                // A page may be read from under a write that is under way: it is looked for again when that is over.
                let is_write = !matches!(io.op, Op::Read | Op::Flush);
                let step = if is_write { Step::Alone } else { Step::Over };
                self.users[task].operations[process.taken() as usize] =
                    Operation { step, open, offset, bytes, is_write, ..NOTHING };
                return Route::Stack;
            }
        }
        let step = match io.op {
            Op::Flush if process.is_range_sync(io.token) => Step::SyncRange,
            Op::Flush => Step::Sync,
            _ if goes_direct => Step::Clean,
            _ if user.is_mapped => Step::Touch,
            Op::Read => Step::Read,
            _ => Step::Write,
        };
        let open = if matches!(step, Step::Sync | Step::SyncRange) { 0 } else { open };
        let (is_write, status, cost) = (io.op != Op::Read, Status::Ok, Nanos::ZERO);
        let io = goes_direct.then_some(io);
        let sleeps = user.submits_in_line || goes_direct;
        let token = process.taken();
        let operation = Operation { step, open, at: offset, offset, bytes, is_write, cost, status, then: step, io };
        self.users[task].operations[token as usize] = operation;
        self.begin_pass(now, process, token);
        if self.users[task].settling.is_some_and(|first| first != token) {
            self.users[task].unsettled.push(token);
        } else {
            self.drive(now, process, token);
        }
        let is_over = self.users[task].operations[token as usize].step == Step::Over && !self.users[task].is_blocked;
        Route::Cache { sleeps: sleeps && !is_over }
    }

    /// Where an I/O is the first that reads back what its job wrote, what is cached of the job's files goes before.
    fn begin_pass(&mut self, now: Instant, process: &Process, token: u32) {
        let task = process.task().index();
        let user = &mut self.users[task];
        let passes = std::mem::replace(&mut user.verify_passes, process.verify_passes());
        if passes == user.verify_passes || !user.is_buffered || !user.invalidates {
            return;
        }
        if self.has_bytes {
            user.settling = Some(token);
            let operation = &mut user.operations[token as usize];
            (operation.step, operation.at) = (Step::Settle, 0);
            return;
        }
        for index in 0..user.opens.len() {
            let Opened { start, region, .. } = self.users[task].opens[index];
            self.tell(now, task, index, Advice::DontNeed, region.start - start, region.len);
        }
    }

    /// The files are dropped: what waited for that goes on.
    fn settled(&mut self, now: Instant, process: &mut Process) {
        let user = &mut self.users[process.task().index()];
        user.settling = None;
        for token in std::mem::take(&mut user.unsettled) {
            self.drive(now, process, token);
        }
    }

    fn is_cached(&self, file: FileId, offset: u64, bytes: u64) -> bool {
        let next = self.cache.resident().pages().next(file, offset / PAGE_SIZE);
        next.is_some_and(|(index, _)| index < (offset + bytes).div_ceil(PAGE_SIZE))
    }

    /// Makes the calls of an I/O until one sleeps, the device is to be asked, or it is over.
    fn drive(&mut self, now: Instant, process: &mut Process, token: u32) {
        let task = process.task().index();
        loop {
            let operation = self.users[task].operations[token as usize];
            let Operation { mut open, offset, bytes, .. } = operation;
            let (kind, offset, bytes) = match operation.step {
                step if self.users[task].settling == Some(token) && !matches!(step, Step::Settle | Step::Forget) => {
                    self.settled(now, process);
                    continue;
                }
                Step::Over | Step::Alone => return self.end(task, token),
                Step::Device => {
                    if let Some(io) = operation.io {
                        self.events.push_back(Event::Submit(io));
                    }
                    return;
                }
                // What a short read left.
                Step::Read => (CallKind::Read, operation.at, offset + bytes - operation.at),
                Step::Write => (CallKind::Write, offset, bytes),
                Step::Durable => (CallKind::Fdatasync, offset, bytes),
                Step::Touch => {
                    let write = operation.is_write;
                    (CallKind::Fault { write }, operation.at, offset + bytes - operation.at)
                }
                Step::Sync => self.sync_of(task, operation.open),
                Step::SyncRange => match self.range_sync_of(task, operation.open) {
                    Some(call) => call,
                    None => {
                        let user = &mut self.users[task];
                        let operation = &mut user.operations[token as usize];
                        operation.step = operation.next_file(user.opens.len());
                        continue;
                    }
                },
                Step::Settle | Step::Forget => {
                    open = operation.at as usize;
                    let Opened { start, region, .. } = self.users[task].opens[open];
                    let is_first = operation.step == Step::Settle;
                    let kind = if is_first { CallKind::SyncRange(RangeSync::ALL) } else { CallKind::Invalidate };
                    (kind, region.start - start, region.len)
                }
                Step::Through | Step::Clean => (CallKind::SyncRange(RangeSync::ALL), offset, bytes),
                Step::Drop | Step::DropAgain => (CallKind::Invalidate, offset, bytes),
            };
            let call = self.call_of(task, token.into(), open, kind, offset, bytes);
            let touches = self.cache.stats().touches;
            let called = self.cache.call(now, call);
            self.take_copies();
            match called {
                Called::Wait => return,
                Called::Done(done) if self.cache.stats().touches > touches => {
                    process.cache_use().touches += 1;
                    self.advance(task, token, &done, self.cost.hit);
                }
                Called::Done(done) => self.on_called(now, process, token, &done),
            }
        }
    }

    /// What an fsync of a process is of one of its files: all of it, or the part of the device that the file is.
    fn sync_of(&self, task: usize, open: usize) -> (CallKind, u64, u64) {
        let Opened { start, region, .. } = self.users[task].opens[open];
        if self.has_bytes { (CallKind::Fsync, region.start - start, region.len) } else { (CallKind::Fsync, 0, 0) }
    }

    /// What a sync_file_range of a process is of one of its files; `None` where nothing was written.
    fn range_sync_of(&mut self, task: usize, open: usize) -> Option<(CallKind, u64, u64)> {
        let user = &mut self.users[task];
        let (first, end) = user.opens[open].written.take()?;
        Some((CallKind::SyncRange(user.range_sync?), first, end - first))
    }

    /// Takes over what the cache's last entry wants moved, while the I/Os still are where they were in it.
    #[inline]
    fn take_copies(&mut self) {
        while let Some(mut copy) = self.cache.poll_copy() {
            if let Some(user) = self.users.get(copy.task.index()) {
                // What is read before a job begins goes nowhere.
                if copy.token == (user.operations.len() - 1) as u64 && copy.way == Way::ToCall {
                    continue;
                }
                let Operation { step, at, offset, .. } = user.operations[copy.token as usize];
                if matches!(step, Step::Touch | Step::Read) {
                    copy.call_offset += at - offset;
                }
            }
            self.copies.push_back(copy);
        }
    }

    /// Whether the back end has bytes for the frames.
    pub(crate) const fn has_bytes(&self) -> bool {
        self.has_bytes
    }

    /// The frames of a bio from [`Self::next_io`].
    pub(crate) fn frames(&self, token: u64) -> &[Slot] {
        self.cache.frames(token & !CACHE_TOKEN)
    }

    /// All jobs are over: with bytes, what is dirty is written and the device flushed. Once.
    pub(crate) fn write_back(&mut self, now: Instant) {
        if !self.settles || self.last_write_back != LastWriteBack::NotDue {
            return;
        }
        if !self.has_bytes {
            self.last_write_back = LastWriteBack::Over(Status::Ok);
            return;
        }
        self.last_write_back = LastWriteBack::Begun;
        let call = Call::new(self.flusher, 0, OpenId(0), CallKind::Fsync, 0, 0);
        if let Called::Done(done) = self.cache.call(now, call) {
            self.last_write_back = LastWriteBack::Over(done.status);
        }
        self.take_copies();
    }

    /// Whether all jobs are over, and the last write-back is under way or anything else that nobody waits for.
    pub fn is_settling(&self) -> bool {
        self.last_write_back != LastWriteBack::NotDue && !self.cache.is_idle()
    }

    /// How the write-back after the last job ended; OK also where there was none.
    pub fn last_status(&self) -> Status {
        match self.last_write_back {
            LastWriteBack::NotDue => Status::Ok,
            LastWriteBack::Begun => Status::IoError,
            LastWriteBack::Over(status) => status,
        }
    }

    /// A call that had slept is over.
    pub(crate) fn on_done(&mut self, now: Instant, process: &mut Process, done: &CallDone) {
        let task = done.task.index();
        if done.token == self.prologue_token(task) {
            return self.pre_read(now, task);
        }
        self.on_called(now, process, done.token as u32, done);
        self.drive(now, process, done.token as u32);
    }

    /// Books a call, and moves its I/O on.
    fn on_called(&mut self, now: Instant, process: &mut Process, token: u32, done: &CallDone) {
        let task = done.task.index();
        let Operation { step, bytes, offset, .. } = self.users[task].operations[token as usize];
        let pages = (offset + bytes).div_ceil(PAGE_SIZE) - offset / PAGE_SIZE;
        let of_all = Nanos::new(self.cost.hit.get() * pages);
        let CacheUse { fault, read, write, fsync, .. } = process.cache_use();
        let (counts, cost) = match step {
            Step::Read => (read, of_all),
            Step::Write => (write, of_all),
            Step::Touch => (fault, self.cost.fault + self.cost.hit),
            Step::Sync | Step::SyncRange | Step::Durable | Step::Through | Step::Clean => (fsync, Nanos::ZERO),
            Step::Settle | Step::Forget | Step::Drop | Step::DropAgain | Step::Device | Step::Alone | Step::Over => {
                return self.advance(task, token, done, Nanos::ZERO);
            }
        };
        counts.add(done, now.since(self.started), self.wait_window);
        let has_slept = !(done.waited.is_zero() && done.paused.is_zero() && done.starved.is_zero());
        let wakeup = if has_slept { self.cpu.complete } else { Nanos::ZERO };
        self.advance(task, token, done, cost + wakeup);
    }

    fn advance(&mut self, task: usize, token: u32, done: &CallDone, cost: Nanos) {
        let user = &mut self.users[task];
        let operation = &mut user.operations[token as usize];
        operation.cost += cost;
        if !done.status.is_ok() {
            operation.status = done.status;
            operation.step = Step::Over;
            return;
        }
        if user.range_sync.is_some() && operation.is_write && matches!(operation.step, Step::Write | Step::Touch) {
            let (first, end) = (operation.offset, operation.offset + operation.bytes);
            let written = &mut user.opens[operation.open].written;
            *written = Some(written.map_or((first, end), |(from, to)| (from.min(first), to.max(end))));
        }
        operation.step = match operation.step {
            // A page that cannot be read ends a read early, and fails what is left of it; so does the file's end.
            Step::Read if done.bytes > 0 && operation.at + done.bytes < operation.offset + operation.bytes => {
                operation.at += done.bytes;
                Step::Read
            }
            Step::Write if user.sync_writes => Step::Durable,
            Step::Touch => {
                operation.at = (operation.at / PAGE_SIZE + 1) * PAGE_SIZE;
                match operation.at < operation.offset + operation.bytes {
                    true => Step::Touch,
                    false if operation.is_write && self.writes_through => Step::Through,
                    false => Step::Over,
                }
            }
            Step::Settle => Step::Forget,
            Step::Forget => {
                operation.at += 1;
                if (operation.at as usize) < user.opens.len() {
                    Step::Settle
                } else {
                    operation.at = operation.offset;
                    operation.then
                }
            }
            step @ (Step::Sync | Step::SyncRange) => {
                if step == Step::Sync {
                    user.opens[operation.open].written = None;
                }
                operation.next_file(user.opens.len())
            }
            Step::Clean if operation.is_write => Step::Drop,
            Step::Clean | Step::Drop => Step::Device,
            Step::Read | Step::Write | Step::Durable | Step::Through => Step::Over,
            Step::DropAgain | Step::Device | Step::Alone | Step::Over => Step::Over,
        };
    }

    fn end(&mut self, task: usize, token: u32) {
        let user = &mut self.users[task];
        if user.is_blocked {
            return user.held.push(token);
        }
        let Operation { status, cost, .. } = user.operations[token as usize];
        let cost = cost + std::mem::take(&mut user.unpaid);
        self.events.push_back(Event::Over { task, token, status, cost });
    }

    /// Direct I/O is back from the stack. False where this layer has nothing more to do with it.
    pub(crate) fn on_device_done(&mut self, now: Instant, process: &mut Process, token: u64, status: Status) -> bool {
        let task = process.task().index();
        let Operation { step, open, offset, bytes, .. } = self.users[task].operations[token as usize];
        let is_left = || self.is_cached(self.users[task].opens[open].file, offset, bytes);
        if !(step == Step::Device || step == Step::Alone && is_left()) {
            return false;
        }
        let operation = &mut self.users[task].operations[token as usize];
        operation.status = status;
        operation.step = if operation.is_write { Step::DropAgain } else { Step::Over };
        self.drive(now, process, token as u32);
        true
    }

    /// A bio of the cache as an I/O of the stack, with the frames it goes to; `None` where there is none now.
    pub(crate) fn next_io(&mut self, now: Instant, stack: &mut Stack) -> Option<(Io, bool)> {
        let io = self.cache.poll_io(now)?;
        let CacheIo { token, task, op, flags, sector, bytes, mut ioprio, tenant, ends_plug, .. } = io;
        while self.layouts.len() <= token as usize {
            self.layouts.push(stack.register_layout(elevon_core::layout::Layout::contiguous(PAGE_SIZE, 0)));
        }
        let layout = self.layouts[token as usize];
        if op != Op::Flush {
            stack.set_layout(layout, self.cache.frames(token).iter().map(|slot| u64::from(slot.0)));
        }
        if let Some(control) = self.control
            && control.picks(self.traffic.bios, &io, self.users.get(task.index()).is_some_and(|user| user.is_mapped))
            && ioprio.class() != PrioClass::Rt
        {
            ioprio = ioprio.with_class(PrioClass::Rt);
            self.traffic.sources[io.origin as usize].controlled += 1;
        }
        let pages = bytes.get() / PAGE_SIZE;
        let traffic = &mut self.traffic;
        traffic.bios += 1;
        let source = &mut traffic.sources[io.origin as usize];
        source.bios += 1;
        source.bytes += bytes.get();
        source.rt += u64::from(ioprio.class() == PrioClass::Rt);
        *match op {
            Op::Read if flags.contains(Flags::RAHEAD) => &mut traffic.readahead_pages,
            Op::Read => &mut traffic.read_pages,
            _ if flags.contains(Flags::SYNC) => &mut traffic.sync_pages,
            _ => &mut traffic.writeback_pages,
        } += pages;
        let may_block = match self.users.get_mut(task.index()) {
            Some(user) => {
                user.unpaid += self.cpu.submit + self.cpu.scheduler.request;
                user.may_block
            }
            None => true,
        };
        // The last page of a device need not be whole.
        let bytes = Bytes::new(bytes.get().min((self.device_end - sector).bytes().get()));
        let flags = if op == Op::Flush { Flags::PREFLUSH | flags } else { flags };
        let token = token | CACHE_TOKEN;
        let io = Io { task, token, op, flags, sector, bytes, ioprio, write_hint: 0, tenant, layout, may_block };
        Some((io, ends_plug))
    }

    /// A bio is about to be submitted: whether its task begins a batch with it. Windows and writes are plugged whatever they are, so
    /// that the parts of a bio that is cut are too; a page that is read alone is not.
    pub(crate) fn begins_batch(&mut self, io: &Io, ends_plug: bool) -> bool {
        let plug = &mut self.plugs[io.task.index()];
        let is_plugged = io.op == Op::Write || io.flags.contains(Flags::RAHEAD);
        let begins = !plug.is_open && (is_plugged || !ends_plug);
        plug.is_open |= begins;
        begins
    }

    /// A bio was submitted: whether the batch of its task ends here.
    pub(crate) fn ends_batch(&mut self, task: TaskId, ends_plug: bool, is_blocked: bool) -> bool {
        let plug = &mut self.plugs[task.index()];
        let ends = plug.is_open && ends_plug;
        plug.ends = ends && is_blocked;
        plug.is_open &= !ends || is_blocked;
        if is_blocked {
            self.cache.task_blocked(task);
            if let Some(user) = self.users.get_mut(task.index()) {
                user.is_blocked = true;
            }
        }
        ends && !is_blocked
    }

    /// A task sleeps in the stack for direct I/O of its own: its bios wait.
    pub(crate) fn on_direct_blocked(&mut self, task: TaskId) {
        self.cache.task_blocked(task);
    }

    /// A task has the tag it slept for. `None` where it did not sleep for a bio of the cache; else whether its batch ends.
    pub(crate) fn unblocked(&mut self, task: TaskId) -> Option<bool> {
        if let Some(user) = self.users.get_mut(task.index()) {
            if !user.is_blocked {
                // It slept for direct I/O, and what the cache has of it waited too.
                self.cache.task_unblocked(task);
                return None;
            }
            user.is_blocked = false;
            let held = std::mem::take(&mut user.held);
            for &token in &held {
                let Operation { step, io, .. } = self.users[task.index()].operations[token as usize];
                match io {
                    Some(io) if step == Step::Device => self.events.push_back(Event::Submit(io)),
                    Some(_) | None => self.end(task.index(), token),
                }
            }
            self.users[task.index()].held = held;
            self.users[task.index()].held.clear();
        }
        self.cache.task_unblocked(task);
        let plug = &mut self.plugs[task.index()];
        let ends = std::mem::take(&mut plug.ends);
        plug.is_open &= !ends;
        Some(ends)
    }

    /// Whether the task cannot submit direct I/O now because it sleeps in the stack for a bio of the cache; the I/O then comes
    /// again when it wakes.
    pub(crate) fn holds(&mut self, task: usize, token: u64) -> bool {
        let user = &mut self.users[task];
        if user.is_blocked {
            user.held.push(token as u32);
        }
        user.is_blocked
    }

    /// A bio is back.
    pub(crate) fn on_bio_done(&mut self, now: Instant, done: &Done) {
        let &Done { token, status, device, class, .. } = done;
        if !status.is_ok() {
            self.note_failure(token);
        }
        self.cache.complete_as(now, token & !CACHE_TOKEN, status, device, class);
        self.take_copies();
    }

    #[cold]
    fn note_failure(&mut self, token: u64) {
        let pages = self.cache.resident().pages();
        let written = self.frames(token).iter().filter(|&&slot| pages.has(slot, PageFlags::WRITEBACK));
        self.failed_pages += written.count() as u64;
    }

    /// What jobs wrote and the device has not, of a cache with bytes: page writes that failed (a later one of the same page may have
    /// succeeded), and pages that are still dirty or being written.
    pub fn unwritten(&self) -> (u64, u64) {
        let pages = self.cache.resident().pages();
        let left = if self.has_bytes { pages.dirty() + pages.writeback() } else { 0 };
        (self.failed_pages, left)
    }

    /// The next call of a process that is over.
    pub(crate) fn poll_done(&mut self) -> Option<CallDone> {
        loop {
            let done = self.cache.poll_done()?;
            match done.task.cmp(&self.flusher) {
                Ordering::Less => return Some(done),
                Ordering::Equal => self.last_write_back = LastWriteBack::Over(done.status),
                Ordering::Greater => self.done_of_other_programs.push_back(done),
            }
        }
    }

    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.cache.next_timer()
    }

    pub(crate) fn handle_timers(&mut self, now: Instant) {
        self.cache.handle_timers(now);
        self.take_copies();
    }
}

/// Whether two jobs mean the same file.
const fn is_same(one: &File, other: &File) -> bool {
    one.is_device == other.is_device && one.place.start == other.place.start
}

/// What the cache says, and what only this layer counts.
fn reading(cache: &PageCache, traffic: &Traffic) -> Reading {
    let of_cache = cache.reading();
    Reading { bios: traffic.bios, promoted: of_cache.promoted + traffic.controlled(), ..of_cache }
}
