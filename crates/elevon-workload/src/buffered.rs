//! The page cache between processes and stack, in simulation and before a real file.
//!
//! What an I/O of a process is in calls of the cache is [`FileIo`]'s to say. Here is what a run
//! adds: which files the jobs have open, what fio does before a job starts, what calls and bios
//! cost their process, statistics, and bios as I/Os of the stack (`bios`). They are submitted under
//! the task that asked or under the flusher's own, and come back by [`Token::Cache`].
//!
//! Time passes by [`CacheCost`]: a process is busy for what its calls cost after they are over, the
//! calls of one I/O together. So within one I/O of many pages the copying of pages does not overlap
//! with readahead; between I/Os it does. A call that slept costs a wake-up besides, each bio that a
//! process had to build a submission, both as in direct I/O ([`CpuCost`]).
//!
//! What fio does before a job starts: `pre_read` reads its files (not timed), else `invalidate`
//! drops them; then `fadvise_hint`. Before a job reads back what it wrote, `invalidate` drops its
//! files again (measured: fio 3.33 calls posix_fadvise there); with real bytes what is dirty is
//! written first, so that it is the device that is verified and not memory. A queue of buffered I/O
//! is one at a time where submission blocks (libaio), as in Linux; io_uring has as many as it
//! wants.
//!
//! With real bytes ([`CacheConfig::copies`]) the back end has frames, the device is one file of the
//! cache, whose parts are the files of jobs, and so nothing that overlaps is in memory twice. When
//! all jobs are over, what is dirty is written and flushed.
//!
//! Cost: O(1) an I/O and a page beside the cache's own. Nothing is allocated per I/O once tables
//! have grown.

mod bill;
mod bios;
mod setup;
mod stats;

use std::cmp::Ordering;
use std::collections::VecDeque;

use elevon_cache::FrameId;
use elevon_cache::file_io::{Begun, FileIo, FileIoEvent, FileOp, FileOpKind, NO_IO};
use elevon_cache::page_cache::{ByteCopy, CacheConfig, Call, CallDone, CallKind, Called, OpenId, PageCache, Way};
use elevon_cache::pages::Flags as PageFlags;
use elevon_cache::readahead::Advice;
use elevon_core::op::Op;
use elevon_core::stack::{Done, Io, Stack};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, Sector, TaskId};

use crate::cache_series::CacheSeries;
use crate::jobs::Jobs;
use crate::process::{CpuCost, Process};
#[cfg(doc)]
use crate::token::Token;
pub use bill::CacheCost;
use bill::{Bill, Charges};
use bios::StackSide;
pub use stats::{ActivityControl, CacheIoStats, IoStatsBySource};

/// How far a process is with what comes before its I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prologue {
    /// Nothing is done yet.
    Due,
    /// The file of this number is being read, from this byte on.
    Reading(usize, u64),
    /// The process may begin.
    Over,
}

/// What the layer keeps of a process.
#[derive(Clone, Debug)]
struct User {
    is_buffered: bool,
    is_mapped: bool,
    /// An asynchronous engine whose submission does the I/O (libaio).
    submits_in_line: bool,
    may_block: bool,
    prologue: Prologue,
    pre_reads: u64,
    invalidates: bool,
    advice: Option<Advice>,
    /// What the calls of an I/O cost so far, by its token.
    costs: Vec<Nanos>,
    /// CPU time of bios it built that no I/O has been charged with.
    unpaid: Nanos,
    /// Its passes of reading back that have begun.
    verify_passes: u32,
}

/// What became of an I/O.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// It is over; the process is busy for so long before it has it.
    Over { task: usize, token: u32, status: Status, cost: Nanos },
    /// It is direct, and is to be submitted to the stack.
    Device { task: usize, token: u32 },
    /// What comes before the process's first I/O is over.
    Prepared { task: usize },
    /// Nothing that concerns a process, but the cache may have built bios.
    Sleeps,
}

/// How an I/O begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route {
    /// It goes to the stack at once.
    Stack,
    /// It is over.
    Over(Event),
    /// An event will tell.
    Waits {
        /// The process sleeps in the submission.
        sleeps: bool,
    },
}

/// The layer. One for a run.
#[derive(Debug)]
pub struct BufferedIo {
    files: FileIo,
    stats: CacheIoStats,
    charges: Charges,
    cpu: CpuCost,
    flusher: TaskId,
    /// The last of the tenants' flushers, which follow.
    last_flusher: TaskId,
    users: Vec<User>,
    stack_side: StackSide,
    control: Option<ActivityControl>,
    series: CacheSeries,
    /// Pages whose write failed.
    failed_pages: u64,
    /// Calls of other programs that are over: at most one for each of them.
    done_of_other_programs: VecDeque<CallDone>,
    settles: bool,
    last_write_back: LastWriteBack,
}

/// The write-back of what is dirty when all jobs are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastWriteBack {
    /// Jobs are running.
    NotDue,
    /// It is under way.
    Begun,
    /// It has ended so.
    Over(Status),
}

impl BufferedIo {
    /// A cache for these jobs. Its flusher is a task behind theirs, and behind it one for each
    /// tenant up to the last that a job lies in, whatever `config` says. `cpu`: as in
    /// [`crate::jobs::JobsOptions`].
    pub fn new(config: CacheConfig, cost: CacheCost, cpu: CpuCost, jobs: &mut Jobs, stack: &Stack) -> Self {
        let flusher = TaskId(jobs.processes().len() as u32);
        let tenant_flushers = jobs.processes().iter().map(|process| process.tenant().0).max().unwrap_or(0);
        let last_flusher = TaskId(flusher.0 + tenant_flushers);
        let (settles, wait_window) = (config.copies, config.wait_window);
        let mut layer = Self {
            files: FileIo::new(CacheConfig { flusher, tenant_flushers, ..config }),
            stats: CacheIoStats::default(),
            charges: Charges { cost, wakeup: cpu.complete, started: Instant::ZERO, wait_window },
            cpu,
            flusher,
            last_flusher,
            users: Vec::new(),
            stack_side: StackSide::new(Sector::ZERO + stack.config().size, last_flusher.index() + 1),
            control: None,
            series: CacheSeries::new(Instant::ZERO),
            failed_pages: 0,
            done_of_other_programs: VecDeque::new(),
            settles,
            last_write_back: LastWriteBack::NotDue,
        };
        layer.add_jobs(jobs);
        layer
    }

    /// Who is RT is said by this, and not by content.
    pub const fn set_control(&mut self, control: ActivityControl) {
        self.control = Some(control);
    }

    /// Bios that became RT by the control.
    pub fn promoted(&self) -> u64 {
        self.stats.controlled()
    }

    /// The cache, for its statistics.
    pub const fn cache(&self) -> &PageCache {
        self.files.cache()
    }

    /// What it read and wrote.
    pub const fn io_stats(&self) -> &CacheIoStats {
        &self.stats
    }

    /// The cache over time.
    pub const fn series(&self) -> &CacheSeries {
        &self.series
    }

    /// Windows that waits are counted in; see [`elevon_cache::stats::Windows::length`] for what
    /// they came to.
    pub const fn wait_window(&self) -> Nanos {
        self.charges.wait_window
    }

    /// The task that writes back in the background what the root tenant made dirty.
    pub const fn flusher(&self) -> TaskId {
        self.flusher
    }

    /// The last of the flusher tasks: those of tenants follow the root's.
    pub const fn last_flusher(&self) -> TaskId {
        self.last_flusher
    }

    /// The cache, to be told of files of other programs. Their calls go by
    /// [`Self::call_of_other_program`].
    pub const fn cache_mut(&mut self) -> &mut PageCache {
        self.files.cache_mut()
    }

    /// After the last job the run goes on until no call and no bio of the cache is under way; with
    /// bytes it always does.
    pub const fn settle_at_end(&mut self) {
        self.settles = true;
    }

    /// Others use so much memory now: as [`PageCache::set_reserved`].
    pub fn set_reserved(&mut self, now: Instant, reserved: Bytes) {
        self.files.cache_mut().set_reserved(now, reserved);
    }

    /// A program that is no job uses the cache, as a task behind the flushers'.
    /// [`Self::poll_other_program`] says how it ended.
    ///
    /// # Panics
    /// If the task is a job's or the flusher.
    pub fn call_of_other_program(&mut self, now: Instant, call: Call) {
        assert!(call.task > self.last_flusher, "{:?} belongs to a job or a flusher", call.task);
        self.stack_side.add_task(call.task);
        if let Called::Done(done) = self.files.cache_mut().call(now, call) {
            self.done_of_other_programs.push_back(done);
        }
    }

    /// The next call of another program that is over.
    pub fn poll_other_program(&mut self) -> Option<CallDone> {
        self.done_of_other_programs.pop_front()
    }

    /// Panics if the file I/O or the cache is in a state that it cannot be in. For tests.
    pub fn self_check(&self) {
        self.files.self_check();
    }

    /// Whether all jobs are over, and the last write-back is under way or anything else that nobody
    /// waits for.
    pub fn is_settling(&self) -> bool {
        self.last_write_back != LastWriteBack::NotDue && !self.cache().is_idle()
    }

    /// How the write-back after the last job ended; OK also if there was none.
    pub fn last_status(&self) -> Status {
        match self.last_write_back {
            LastWriteBack::NotDue => Status::Ok,
            LastWriteBack::Begun => Status::IoError,
            LastWriteBack::Over(status) => status,
        }
    }

    /// What jobs wrote and the device has not, of a cache with bytes: page writes that failed (a
    /// later one of the same page may have succeeded), and pages that are still dirty or being
    /// written.
    pub fn unwritten(&self) -> (u64, u64) {
        let pages = self.cache().resident().pages();
        let left = if self.has_bytes() { pages.dirty() + pages.writeback() } else { 0 };
        (self.failed_pages, left)
    }

    /// The run begins.
    pub(crate) fn on_start(&mut self, now: Instant) {
        (self.charges.started, self.series) = (now, CacheSeries::new(now));
    }

    /// Time has come to `now`, where nothing has happened yet.
    #[inline]
    pub(crate) fn on_time(&mut self, now: Instant) {
        let Self { files, stats, series, .. } = self;
        series.advance(now, || stats.reading(files.cache()));
    }

    /// The jobs are over.
    pub(crate) fn on_end(&mut self, now: Instant) {
        self.series.finish(now, self.stats.reading(self.files.cache()));
    }

    /// Whether a process has to do with the cache.
    #[inline]
    pub(crate) fn is_user(&self, task: TaskId) -> bool {
        self.files.has_files(task)
    }

    /// Whether the back end has bytes for the frames.
    pub(crate) const fn has_bytes(&self) -> bool {
        self.files.has_bytes()
    }

    /// The frames of a bio from [`Self::next_io`].
    pub(crate) fn frames(&self, bio: u32) -> &[FrameId] {
        self.cache().frames(bio.into())
    }

    /// An I/O that its process has just given.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant, processes: &mut [Process], io: &Io) -> Route {
        let process = &processes[io.task.index()];
        let (task, token) = (io.task, process.taken());
        let user = &mut self.users[task.index()];
        user.costs[token as usize] = Nanos::ZERO;
        let kind = match io.op {
            Op::Read => FileOpKind::Read,
            Op::Flush if process.is_range_sync(io.token) => FileOpKind::SyncRange,
            Op::Flush => FileOpKind::Sync,
            Op::Discard => FileOpKind::Discard,
            _ => FileOpKind::Write,
        };
        // The first I/O that reads back what the job wrote.
        let passes = std::mem::replace(&mut user.verify_passes, process.verify_passes());
        let begins_verify = passes != user.verify_passes && user.is_buffered && user.invalidates;
        let (position, bytes) = process.range(io.token);
        let op = FileOp { task, token, kind, file: process.file(io.token), position, bytes, begins_verify };
        let sleeps = user.submits_in_line;
        let Self { files, charges, users, .. } = self;
        match files.begin(now, &op, &mut Bill { now, charges, users, processes }) {
            Begun::Device => Route::Stack,
            Begun::Over(status) => Route::Over(self.over(task, token, status)),
            Begun::Waits { is_direct } => Route::Waits { sleeps: sleeps || is_direct },
        }
    }

    /// Direct I/O is back from the stack. False if this layer has nothing more to do with it.
    pub(crate) fn on_device_done(&mut self, now: Instant, processes: &mut [Process], done: &Done, token: u32) -> bool {
        let Self { files, charges, users, .. } = self;
        files.on_device_done(now, done.task, token, done.status, &mut Bill { now, charges, users, processes })
    }

    /// A bio is back.
    pub(crate) fn on_bio_done(&mut self, now: Instant, bio: u32, done: &Done) {
        if !done.status.is_ok() {
            self.note_failure(bio);
        }
        self.files.cache_mut().complete_as(now, bio.into(), done.status, done.device, done.class);
    }

    #[cold]
    fn note_failure(&mut self, bio: u32) {
        let pages = self.cache().resident().pages();
        let written = self.frames(bio).iter().filter(|&&slot| pages.has(slot, PageFlags::WRITEBACK));
        self.failed_pages += written.count() as u64;
    }

    /// The next thing that an I/O, or what comes before the first I/O, comes to.
    #[inline]
    pub(crate) fn poll(&mut self, now: Instant, processes: &mut [Process]) -> Option<Event> {
        let Self { files, charges, users, .. } = self;
        let done = match files.poll(now, &mut Bill { now, charges, users, processes })? {
            FileIoEvent::Over { task, token, status } => return Some(self.over(task, token, status)),
            FileIoEvent::Device { task, token } => return Some(Event::Device { task: task.index(), token }),
            FileIoEvent::Sleeps => return Some(Event::Sleeps),
            FileIoEvent::Call(done) => done,
        };
        match done.task.cmp(&self.flusher) {
            Ordering::Less => {
                let task = done.task.index();
                if self.pre_read(now, task) {
                    return Some(Event::Prepared { task });
                }
            }
            Ordering::Equal => self.last_write_back = LastWriteBack::Over(done.status),
            Ordering::Greater => self.done_of_other_programs.push_back(done),
        }
        Some(Event::Sleeps)
    }

    /// The next bytes to move between frames and buffers. What is read before a job begins goes
    /// nowhere.
    #[inline]
    pub(crate) fn poll_copy(&mut self) -> Option<ByteCopy> {
        loop {
            let copy = self.files.cache_mut().poll_copy()?;
            if !(copy.token == NO_IO && copy.task < self.flusher && copy.way == Way::ToCall) {
                return Some(copy);
            }
        }
    }

    /// All jobs are over: with bytes, what is dirty is written and the device flushed. Once.
    pub(crate) fn write_back(&mut self, now: Instant) {
        if !self.settles || self.last_write_back != LastWriteBack::NotDue {
            return;
        }
        if !self.has_bytes() {
            self.last_write_back = LastWriteBack::Over(Status::Ok);
            return;
        }
        self.last_write_back = LastWriteBack::Begun;
        let call = Call::new(self.flusher, 0, OpenId(0), CallKind::Fsync, 0, 0);
        if let Called::Done(done) = self.files.cache_mut().call(now, call) {
            self.last_write_back = LastWriteBack::Over(done.status);
        }
    }

    /// When [`Self::handle_timers`] has work next.
    #[inline]
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.cache().next_timer()
    }

    pub(crate) fn handle_timers(&mut self, now: Instant) {
        self.files.cache_mut().handle_timers(now);
    }

    /// An I/O that is over, with what it costs.
    #[inline]
    fn over(&self, task: TaskId, token: u32, status: Status) -> Event {
        Event::Over { task: task.index(), token, status, cost: self.users[task.index()].costs[token as usize] }
    }
}
