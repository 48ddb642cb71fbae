//! The page cache between processes and stack, in simulation and before a real file.
//!
//! [`FileIo`] turns an I/O of a process into calls of the cache. This module adds what a run needs:
//! the files that the jobs have open, what fio does before a job starts, the costs of calls and
//! bios, statistics. Bios are submitted under the task that
//! made the call, or under the flusher's own task, and come back with
//! [`elevon_engine::Token::Cache`].
//!
//! Time passes by [`CacheCost`]: a process is busy for the cost of its calls after they have
//! finished, for the calls of one I/O together. So within one I/O of many pages, copying pages does
//! not overlap with readahead; between I/Os it does. A call that slept costs a wake-up in addition,
//! and each bio that a process built costs a submission, both as in direct I/O ([`CpuCost`]).
//!
//! Before a job starts, as in fio: `pre_read` reads its files (not timed), otherwise `invalidate`
//! drops them; then `fadvise_hint` applies. At each further pass over its files, and before a job
//! reads back what it wrote, it closes and opens its files (`setup`), and `invalidate` drops them
//! again. Before it reads back with real bytes, dirty pages are written, so that the device is
//! verified and not memory. A block device is written and dropped whole, by `invalidate` and when
//! the last process that has it open closes it (`devices`); a process with direct I/O has it open,
//! too. A queue of buffered I/O has one I/O at a time if submission blocks, as with libaio in
//! Linux. io_uring has up to its depth, but only as many writes and syncs as it has workers
//! (`workers`).
//!
//! With real bytes ([`CacheConfig::copies`]) the back end has frames. The device is then the only
//! file of the cache, and the files of jobs are parts of it, so overlapping data is in memory only
//! once. When all jobs have finished, dirty pages are written and flushed.
//!
//! Cost: O(1) per I/O and per page, besides the cache's own. Nothing is allocated per I/O once the
//! tables have grown.

mod call_account;
mod devices;
mod setup;
mod stats;
mod workers;

use std::cmp::Ordering;
use std::collections::VecDeque;

use elevon_cache::Advice;
use elevon_cache::file_io::{Begun, FileIo, FileIoEvent, FileOp, FileOpKind, NO_IO};
use elevon_cache::page_cache::{
    ByteCopy, CacheConfig, CacheIo, Call, CallDone, CallKind, Called, OpenId, PageCache, Reading,
    Way,
};
use elevon_core::ioprio::PrioClass;
use elevon_core::op::Op;
use elevon_core::stack::{Done, Io, Stack};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, FileOffset, Instant, Nanos, Sector, TaskId};
use elevon_engine::{CacheBios, CacheUser};

use crate::jobs::Jobs;
use crate::process::{CpuCost, Passes, Process};
use crate::readings::Readings;
use crate::series::MAX_POINTS;
pub use call_account::CacheCost;
use call_account::{CallAccount, Charges};
use devices::CachedDevices;
pub use stats::{ActivityControl, CacheIoStats, IoStatsBySource};
use workers::Workers;

/// The progress of a process with what comes before its I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileSetup {
    /// Nothing has been done yet.
    Due,
    /// Reading the file of this number, from this byte on.
    Reading(usize, Bytes),
    /// The files are closed, and are opened again when no device of them is being closed.
    Closed,
    /// Dropping the devices from this one on from the cache, and then the files.
    Dropping(usize),
    /// The process may do its I/O.
    Finished,
}

/// The layer's state of a process.
#[derive(Clone, Debug)]
struct User {
    is_buffered: bool,
    is_mapped: bool,
    /// The engine is asynchronous, but its submission does the I/O (libaio).
    submits_in_line: bool,
    may_block: bool,
    /// The workers of its ring, in simulation.
    workers: Option<Box<Workers>>,
    file_setup: FileSetup,
    /// How often the process has opened its files.
    times_opened: u64,
    pre_reads: Bytes,
    invalidates: bool,
    advice: Option<Advice>,
    mapping_advice: Option<Advice>,
    /// The block devices among its files, by their index in `devices`.
    devices: Vec<usize>,
    /// I/Os that wait for the setup before another pass; at most its depth.
    held: Vec<FileOp>,
    /// The cost of the calls of an I/O so far, by its token.
    costs: Vec<Nanos>,
    /// CPU time of bios it built that has not been charged to an I/O.
    unpaid: Nanos,
    /// The passes of the job when its last I/O began.
    passes: Passes,
}

/// A result of the layer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The I/O has finished. The process is busy for `cost` before it has it back.
    Finished { task: usize, token: u32, status: Status, cost: Nanos },
    /// The I/O is direct, and must be submitted to the stack.
    Device { task: usize, token: u32 },
    /// What comes before the process's first I/O has finished.
    Prepared { task: usize },
    /// Nothing for a process, but the cache may have built bios.
    Sleeps,
}

/// The route of an I/O.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route {
    /// It goes to the stack at once.
    Stack,
    /// It has finished.
    Finished(Event),
    /// An event will report its end.
    Waits {
        /// The process sleeps in the submission.
        sleeps: bool,
    },
}

/// The layer of the page cache; one per run.
#[derive(Debug)]
pub struct BufferedIo {
    files: FileIo,
    stats: CacheIoStats,
    charges: Charges,
    cpu: CpuCost,
    flusher: TaskId,
    /// The last of the tenants' flushers, which follow `flusher`.
    last_flusher: TaskId,
    users: Vec<User>,
    /// I/Os that a worker has got and not begun.
    given: VecDeque<FileOp>,
    bios: CacheBios,
    control: Option<ActivityControl>,
    series: Readings<Reading>,
    /// Number of pages whose write failed.
    failed_pages: u64,
    /// Finished calls of other programs; at most one per program.
    done_of_other_programs: VecDeque<CallDone>,
    settles: bool,
    last_write_back: LastWriteBack,
    /// Simulated block devices that are cached.
    devices: CachedDevices,
}

/// The write-back of dirty pages when all jobs have finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastWriteBack {
    /// Jobs are running.
    NotDue,
    /// It has begun and not finished.
    Begun,
    /// It has finished with this status.
    Finished(Status),
}

impl BufferedIo {
    /// Returns a cache for these jobs. Its flusher is a task that follows theirs, and one more task
    /// follows for each tenant up to the last one that has a job; both override `config`. `cpu`: as
    /// in [`crate::jobs::JobsOptions`].
    pub fn new(
        config: CacheConfig,
        cost: CacheCost,
        cpu: CpuCost,
        jobs: &mut Jobs,
        stack: &Stack,
    ) -> Self {
        let flusher = TaskId(jobs.processes().len() as u32);
        let tenant_flushers =
            jobs.processes().iter().map(|process| process.tenant().0).max().unwrap_or(0);
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
            given: VecDeque::new(),
            bios: CacheBios::new(Sector::ZERO + stack.config().size, last_flusher.index() + 1),
            control: None,
            series: Readings::new(Instant::ZERO, 1, MAX_POINTS),
            failed_pages: 0,
            done_of_other_programs: VecDeque::new(),
            settles,
            last_write_back: LastWriteBack::NotDue,
            devices: CachedDevices::default(),
        };
        layer.add_jobs(jobs, stack.config().cpus);
        layer
    }

    /// Sets the control that decides which bios are RT, instead of content.
    pub const fn set_control(&mut self, control: ActivityControl) {
        self.control = Some(control);
    }

    /// Returns the number of bios that the control made RT.
    pub fn promoted(&self) -> u64 {
        self.stats.controlled()
    }

    /// Returns the cache, for its statistics.
    pub const fn cache(&self) -> &PageCache {
        self.files.cache()
    }

    /// Returns the statistics of the bios that it read and wrote.
    pub const fn io_stats(&self) -> &CacheIoStats {
        &self.stats
    }

    /// Returns the cache over time.
    pub const fn series(&self) -> &Readings<Reading> {
        &self.series
    }

    /// Returns the configured length of the windows of waits; see
    /// [`elevon_cache::stats::Windows::length`] for the length in force.
    pub const fn wait_window(&self) -> Nanos {
        self.charges.wait_window
    }

    /// Returns the task that writes back the root tenant's dirty pages in the background.
    pub const fn flusher(&self) -> TaskId {
        self.flusher
    }

    /// Returns the last of the flusher tasks; those of tenants follow the root's.
    pub const fn last_flusher(&self) -> TaskId {
        self.last_flusher
    }

    /// Returns the cache, to add files of other programs. Their calls go through
    /// [`Self::call_of_other_program`].
    pub const fn cache_mut(&mut self) -> &mut PageCache {
        self.files.cache_mut()
    }

    /// Lets the run continue after the last job until no call and no bio of the cache is in
    /// progress. A cache with bytes always does.
    pub const fn settle_at_end(&mut self) {
        self.settles = true;
    }

    /// Sets the memory that others use, as [`PageCache::set_reserved`].
    pub fn set_reserved(&mut self, now: Instant, reserved: Bytes) {
        self.files.cache_mut().set_reserved(now, reserved);
    }

    /// Makes a call of a program that is not a job, as a task after the flushers.
    /// [`Self::poll_other_program`] returns its result.
    ///
    /// # Panics
    /// If the task is a job's or the flusher.
    pub fn call_of_other_program(&mut self, now: Instant, call: Call) {
        assert!(call.task > self.last_flusher, "{:?} belongs to a job or a flusher", call.task);
        self.bios.add_task(call.task);
        if let Called::Done(done) = self.files.cache_mut().call(now, call) {
            self.done_of_other_programs.push_back(done);
        }
    }

    /// Returns the next finished call of another program.
    pub fn poll_other_program(&mut self) -> Option<CallDone> {
        self.done_of_other_programs.pop_front()
    }

    /// Returns how often a process has opened its files.
    pub fn times_opened(&self, task: TaskId) -> u64 {
        self.users.get(task.index()).map_or(0, |user| user.times_opened)
    }

    /// Panics if the state of the file I/O or of the cache is invalid. For tests.
    pub fn self_check(&self) {
        self.files.self_check();
    }

    /// Returns true if all jobs have finished and the cache is still busy: with the last
    /// write-back, or with I/O that no task waits for.
    pub fn is_settling(&self) -> bool {
        self.last_write_back != LastWriteBack::NotDue && !self.cache().is_idle()
    }

    /// Returns the status of the write-back after the last job; OK also if there was none.
    pub fn last_status(&self) -> Status {
        match self.last_write_back {
            LastWriteBack::NotDue => Status::Ok,
            LastWriteBack::Begun => Status::IoError,
            LastWriteBack::Finished(status) => status,
        }
    }

    /// Returns what jobs wrote and the device does not have, for a cache with bytes: the number of
    /// page writes that failed (a later write of the same page may have succeeded), and the number
    /// of pages that are still dirty or being written.
    pub fn unwritten(&self) -> (u64, u64) {
        let pages = self.cache().resident().pages();
        let left = if self.has_bytes() { pages.dirty() + pages.writeback() } else { 0 };
        (self.failed_pages, left)
    }

    /// Handles the start of the run.
    pub(crate) fn on_start(&mut self, now: Instant) {
        (self.charges.started, self.series) = (now, Readings::new(now, 1, MAX_POINTS));
    }

    /// Advances the time series to `now`, before anything else happens at `now`.
    #[inline]
    pub(crate) fn on_time(&mut self, now: Instant) {
        let Self { files, stats, series, .. } = self;
        if series.is_due(now) {
            series.read(now, &[stats.reading(files.cache())]);
        }
    }

    /// Records the last reading when the jobs have finished.
    pub(crate) fn on_end(&mut self, now: Instant) {
        self.series.finish(now, &[self.stats.reading(self.files.cache())]);
    }

    /// Returns true if a process has files in the cache.
    #[inline]
    pub(crate) fn is_user(&self, task: TaskId) -> bool {
        self.files.has_files(task)
    }

    /// Returns true if the back end has bytes for the frames.
    const fn has_bytes(&self) -> bool {
        self.files.has_bytes()
    }

    /// Begins an I/O that its process has just submitted.
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
        let before = std::mem::replace(&mut user.passes, process.passes());
        let is_check = before.verify != user.passes.verify;
        let begins_pass = before != user.passes;
        let is_first_check =
            is_check && self.files.has_bytes() && user.is_buffered && user.invalidates;
        let (position, bytes) = process.range(io.token);
        let op = FileOp {
            task,
            token,
            kind,
            file: process.file(io.token),
            position,
            bytes,
            is_first_check,
        };
        if begins_pass && !is_first_check {
            let reopens = is_check || !process.goes_round();
            self.begin_pass(now, task.index(), reopens);
        }
        let user = &mut self.users[task.index()];
        match user.workers.as_mut().is_none_or(|workers| workers.give(&op)) {
            true => self.begin_op(now, processes, &op),
            false => Route::Waits { sleeps: false },
        }
    }

    /// Begins an I/O whose process or worker makes its calls now.
    #[inline]
    fn begin_op(&mut self, now: Instant, processes: &mut [Process], op: &FileOp) -> Route {
        let user = &mut self.users[op.task.index()];
        let sleeps = user.submits_in_line;
        if user.file_setup != FileSetup::Finished {
            user.held.push(*op);
            debug_assert!(user.held.len() <= user.costs.len(), "an I/O is held twice");
            return Route::Waits { sleeps: sleeps || !user.is_buffered };
        }
        let Self { files, charges, users, .. } = self;
        match files.begin(now, op, &mut CallAccount { now, charges, users, processes }) {
            Begun::Device => Route::Stack,
            Begun::Finished(status) => Route::Finished(self.over(op.task, op.token, status)),
            Begun::Waits { is_direct } => Route::Waits { sleeps: sleeps || is_direct },
        }
    }

    /// Handles direct I/O that the stack completed. Returns false if it goes to its process
    /// unchanged.
    pub(crate) fn on_device_done(
        &mut self,
        now: Instant,
        processes: &mut [Process],
        done: &Done,
        token: u32,
    ) -> bool {
        let Self { files, charges, users, .. } = self;
        files.on_device_done(
            now,
            done.task,
            token,
            done.status,
            &mut CallAccount { now, charges, users, processes },
        )
    }

    /// Handles a bio that the stack completed.
    pub(crate) fn on_bio_done(&mut self, now: Instant, bio: u32, done: &Done) {
        self.failed_pages += self.complete_bio(now, bio, done);
    }

    /// Handles a task that sleeps in the stack for its direct I/O: its bios wait.
    pub(crate) fn on_direct_blocked(&mut self, task: TaskId) {
        self.files.cache_mut().task_blocked(task);
    }

    /// Handles a task that got the tag it slept for. Returns false if it did not sleep for a bio of
    /// the cache.
    pub(crate) fn unblocked(
        &mut self,
        now: Instant,
        processes: &mut [Process],
        task: TaskId,
    ) -> bool {
        let Self { files, charges, users, .. } = self;
        files.task_unblocked(task, &mut CallAccount { now, charges, users, processes })
    }

    /// Returns the next event of the I/Os, or of what comes before the first I/O.
    #[inline]
    pub(crate) fn poll(&mut self, now: Instant, processes: &mut [Process]) -> Option<Event> {
        if let Some(task) = self.devices.next_waiting() {
            return Some(self.go_on_with_setup(now, task));
        }
        if let Some(op) = self.given.pop_front() {
            return Some(match self.begin_op(now, processes, &op) {
                Route::Stack => Event::Device { task: op.task.index(), token: op.token },
                Route::Finished(event) => event,
                Route::Waits { .. } => Event::Sleeps,
            });
        }
        let Self { files, charges, users, .. } = self;
        let done = match files.poll(now, &mut CallAccount { now, charges, users, processes })? {
            FileIoEvent::Finished { task, token, status } => {
                return Some(self.over(task, token, status));
            }
            FileIoEvent::Device { task, token } => {
                return Some(Event::Device { task: task.index(), token });
            }
            FileIoEvent::Sleeps => return Some(Event::Sleeps),
            FileIoEvent::Call(done) => done,
        };
        match done.task.cmp(&self.flusher) {
            _ if self.devices.is_closing(done.task) => self.device_closed(now, &done),
            Ordering::Less => return Some(self.go_on_with_setup(now, done.task.index())),
            Ordering::Equal => self.last_write_back = LastWriteBack::Finished(done.status),
            Ordering::Greater => self.done_of_other_programs.push_back(done),
        }
        Some(Event::Sleeps)
    }

    /// Writes dirty pages when all jobs have finished: with bytes all of them, and flushes the
    /// device; in simulation those of block devices that are still open, without a flush. Does so
    /// once.
    pub(crate) fn write_back(&mut self, now: Instant) {
        if self.last_write_back != LastWriteBack::NotDue {
            return;
        }
        if !self.has_bytes() {
            if self.settles || !self.devices.is_empty() {
                self.close_all(now);
            }
            return;
        }
        self.last_write_back = LastWriteBack::Begun;
        let call =
            Call::new(self.flusher, 0, OpenId(0), CallKind::Fsync, FileOffset::ZERO, Bytes::ZERO);
        if let Called::Done(done) = self.files.cache_mut().call(now, call) {
            self.last_write_back = LastWriteBack::Finished(done.status);
        }
    }

    /// Returns when [`CacheUser::run_timers`] has work next.
    #[inline]
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.cache().next_timer()
    }

    /// Returns the event of a finished I/O, with its cost.
    #[inline]
    fn over(&mut self, task: TaskId, token: u32, status: Status) -> Event {
        let User { workers, costs, .. } = &mut self.users[task.index()];
        self.given.extend(workers.as_mut().and_then(|workers| workers.end(token)));
        Event::Finished { task: task.index(), token, status, cost: costs[token as usize] }
    }
}

impl CacheUser for BufferedIo {
    #[inline]
    fn parts(&mut self) -> (&mut FileIo, &mut CacheBios) {
        (&mut self.files, &mut self.bios)
    }

    /// Charges the bio to its process, and lets the control of an experiment decide if it is RT.
    fn on_bio(&mut self, bio: &mut CacheIo) -> bool {
        let user = self.users.get_mut(bio.task.index());
        let is_mapped = user.as_ref().is_some_and(|user| user.is_mapped);
        let controlled = bio.ioprio.class() != PrioClass::Rt
            && self.control.is_some_and(|control| control.picks(self.stats.bios, bio, is_mapped));
        if controlled {
            bio.ioprio = bio.ioprio.with_class(PrioClass::Rt);
        }
        self.stats.count(bio, bio.ioprio, controlled);
        user.is_none_or(|user| {
            user.unpaid += self.charges.cost.bio.unwrap_or(self.cpu.of_submission());
            user.may_block
        })
    }

    /// Bytes read before a job begins are not copied.
    #[inline]
    fn wants(&self, copy: &ByteCopy) -> bool {
        !(copy.token == NO_IO && copy.task < self.flusher && copy.way == Way::ToCall)
    }

    #[inline]
    fn sleeps_in_plug(&self, stack: &Stack, task: TaskId) -> bool {
        stack.plugs_buffered_writes() && self.files.is_writing(task)
    }
}
