//! One process of a fio job as a state machine.
//!
//! A process prepares I/Os, submits them in batches, sleeps, reaps completions, and prepares more.
//! Its driver calls [`Process::poll`] when something may have changed, submits the I/Os that
//! [`Process::take`] returns to the stack, and reports back by [`Process::on_submitted`],
//! [`Process::complete`] and [`Process::unblocked`].
//!
//! The rules are those of fio's manual; what the manual leaves open is decided as follows:
//!
//! - A synchronous engine has one I/O at a time. An asynchronous engine fills its queue to
//!   `iodepth`, or with io_uring its ring ([`JobSpec::depth`]), submitting `iodepth_batch_submit`
//!   I/Os at once. If it can prepare no more, it submits what it has and waits for
//!   `iodepth_batch_complete_min` completions, at least one. It takes at most
//!   `iodepth_batch_complete_max`, at least the minimum, and continues reaping until `iodepth_low`
//!   is reached. With a minimum of 0 it takes the completions that are there before every I/O, and
//!   does not wait until the queue is full.
//! - POSIX AIO makes the I/Os of a file one after another (`threads`).
//! - With `io_submit_mode=offload` each I/O has a worker, which sleeps for a tag in the job's place
//!   and, with a synchronous engine, for its I/O. The workers count as the job's task: they share
//!   its CPU, and its queue in a scheduler that has one for each task.
//! - A process that is ahead of its `rate` issues nothing until all its I/Os in flight have
//!   completed, and sleeps only then, for as long as it was ahead. So its I/Os go in groups of as
//!   many as became due meanwhile. With `io_submit_mode=offload` it only sleeps, and takes
//!   completions as they come. As measured with fio 3.33, and seen in a trace of one on Linux 6.18
//!   (`tests/data/kernel-truth/whatif/`).
//! - Latencies: *slat* lasts from the moment at which the process begins to prepare the I/O until
//!   its submission returns (asynchronous engines only; it includes a sleep for a tag). *clat*
//!   lasts from there until the process has the I/O back. *lat* is the sum of both. With a
//!   synchronous engine the submission is a part of the I/O, so *clat* includes its sleep for a
//!   tag.
//! - CPU time ([`CpuCost`]) is spent serially: `submit` and the scheduler's part before an I/O is
//!   issued, `complete` before the process has the I/O back. A batch is issued when all of it is
//!   prepared. In real time both are zero, because the time really passes.
//! - `runtime` ends the issuing. I/Os in flight then still complete and count, and the job's
//!   runtime lasts until the last of them has completed. With `ramp_time` the statistics begin at
//!   its end; an I/O that completes later counts, even if it began before.
//! - `size` counts the bytes requested; the last I/O never exceeds it. `trimwrite` counts the
//!   writes.
//! - `fsync=N` and `fdatasync=N`: after every N writes, and before the next I/O, a flush is issued;
//!   if both are due, it is one flush. It does not wait for I/Os in flight. Engines whose
//!   submission blocks (system calls, libaio) sleep until the flush has completed and reap nothing
//!   meanwhile; for other engines it is one I/O of the queue. It is a flush of one file: the one
//!   whose turn it would be if an I/O followed, and it takes that turn. `sync_file_range` likewise.
//!   At the end (`end_fsync`, `fsync_on_close`) each file is flushed. All as fio 3.33 does it.
//! - A process makes its trims one at a time, whatever `iodepth` is, and sleeps for each: what it
//!   has prepared is submitted first, and nothing is reaped meanwhile. With POSIX AIO all I/Os in
//!   flight complete first. A trim has no *slat*. As measured with fio 3.33. io_uring_cmd and
//!   `io_submit_mode=offload` have trims in their queue.
//! - `num_range=N`: an I/O is a plug of N discards, and is over when all of them are. It has the
//!   bytes of all, and the offset of the first.
//! - `number_ios` limits each loop, and with `ramp_time` counts from its end.
//! - A batch counts as a whole: each of its I/Os has the depth of the last one.
//! - Verification reads count as reads, as in fio. Verification stops at the end of the runtime.
//!
//! Cost per I/O: O(1); nothing is allocated after the process has started. With `verify`: O(log
//! blocks), with allocation.

use std::collections::VecDeque;

use elevon_cache::stats::CacheUse;
use elevon_core::control::pressure::ContextState;
use elevon_core::ioprio::IoPrio;
use elevon_core::op::{Flags, Op};
use elevon_core::stack::Io;
use elevon_core::stats::{Direction, JobStats};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, DeviceOffset, Instant, LayoutId, Nanos, TaskId, TenantId};
use elevon_engine::Token;
use elevon_formats::fio::spec::{JobSpec, SyncMode, VerifyMethod};

use crate::chance::{Purpose, Rng};
pub use crate::cpu::CpuCost;
use crate::cpu::SchedulerLock;
use crate::fio_flow::Standing;
use crate::latency_target::{Search, Verdict};
use crate::logs::Logger;
use crate::measure::{Finished, Measure, PriorityLatency};
use crate::pace::{Ahead, AheadWait, Hold, Pace, Think};
use crate::pattern::{Access, Pattern, Seeds};
use crate::readings::Progressed;
use crate::region::{Extent, directions, largest_block};
use crate::source::{LARGEST_UNPLUGGED, Poll};
use crate::verify::{Verifier, Written, fill_pattern, fill_random};
use budget::Budget;
use options::Options;
use ranges::Ranges;
use state::{Batch, Drawn, FlowShare, Ios, Syncs, Times};
use threads::FileThreads;

mod alone;
mod as_source;
mod budget;
mod errors;
mod options;
mod ranges;
mod reap;
mod schedule;
mod state;
#[cfg(test)]
mod tests;
mod threads;

/// The identity of a process in a run.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Its task, the key in the stack.
    pub task: TaskId,
    /// The tenant that is charged.
    pub tenant: TenantId,
    /// Index of its section.
    pub job: u32,
    /// Index among the section's clones.
    pub clone: u32,
    /// Random seed of the run.
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IoKind {
    Data(Direction),
    /// A read that checks written content.
    Check,
    /// The same of content that this run wrote: its generation is known.
    CheckOwn,
    Sync,
    /// A sync of the data written since the last sync (sync_file_range).
    SyncRange,
}

/// What is known of an I/O beside its access when it is prepared.
#[derive(Clone, Copy, Debug)]
struct Prepared {
    kind: IoKind,
    /// What `kind` is to the stack.
    op: Op,
    /// The generation of what it writes or checks; 0 if the job does not verify.
    generation: u32,
}

/// The state of an I/O. Its index is the token.
#[derive(Clone, Copy, Debug)]
struct IoSlot {
    kind: IoKind,
    /// What `kind` is to the stack.
    op: Op,
    offset: DeviceOffset,
    len: Bytes,
    file: u32,
    generation: u32,
    ioprio: IoPrio,
    start: Instant,
    issued: Instant,
    layout: LayoutId,
    /// The buffer holds data that a write can use.
    filled: bool,
    /// The content was checked and is wrong.
    corrupt: bool,
    /// The content was checked.
    checked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Run,
    Verify,
    EndSync,
    Finished,
}

/// How often a process has begun its work anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passes {
    /// Passes over its files after the first.
    pub(crate) files: u32,
    /// Passes in which it reads back everything it wrote; those of `verify_backlog` do not count.
    pub(crate) verify: u32,
}

/// A process; see the module's documentation.
#[derive(Clone, Debug)]
pub struct Process {
    identity: Identity,
    cpu: CpuCost,
    options: Options,
    spec: Box<JobSpec>,
    pattern: Pattern,
    pace: Pace,
    think: Think,
    priority: Rng,
    content_seed: u64,
    ios: Ios,
    /// With `num_range`, the ranges of each slot's trim.
    ranges: Option<Box<Ranges>>,
    /// With POSIX AIO, its threads.
    threads: Option<Box<FileThreads>>,
    batch: Batch,
    drawn: Drawn,
    ahead: Ahead,
    verifier: Option<Box<Verifier>>,
    phase: Phase,
    budget: Budget,
    refill_at_low: bool,
    syncs: Syncs,
    times: Times,
    stopping: bool,
    asleep: bool,
    /// The number of times that it began to read back everything it wrote.
    verify_passes: u32,
    flow: FlowShare,
    /// `latency_target`, with the number of I/Os that it allows in flight (without it, any
    /// number).
    search: Option<Box<Search>>,
    depth_limit: usize,
    measure: Measure,
}

impl Process {
    /// Returns a process that has not started. `layouts`: the layouts of the buffers of its
    /// [`Self::depth`] slots.
    pub fn new(
        spec: &JobSpec,
        extent: &Extent,
        identity: Identity,
        cpu: CpuCost,
        layouts: &[LayoutId],
    ) -> Self {
        let seeds =
            Seeds::new(spec, identity.seed, identity.job, identity.clone, identity.task.0 + 1);
        let asynchronous = spec.engine.asynchronous;
        let depth = spec.depth();
        assert_eq!(layouts.len(), depth, "one layout for each slot");
        let options = Options::new(spec);
        let which = if spec.report.lat_percentiles {
            PriorityLatency::Whole
        } else {
            PriorityLatency::Completion
        };
        let by_priority = spec.has_command_prio().then_some(which);
        let is_queued = [asynchronous, asynchronous, asynchronous && !spec.sleeps_for_trims()];
        let measure = Measure::new(is_queued, by_priority, Logger::new(&spec.logs));
        let content_seed = seeds.base(Purpose::Buffer) ^ u64::from(identity.job) << 32;
        Self {
            identity,
            cpu,
            pattern: Pattern::new(spec, extent, &seeds),
            pace: Pace::new(spec, &seeds),
            think: Think::new(spec),
            priority: seeds.stream(Purpose::Priority),
            content_seed,
            ios: Ios::new(layouts),
            ranges: Ranges::new(spec, depth).map(Box::new),
            threads: FileThreads::new(spec, extent.regions.len(), depth).map(Box::new),
            batch: Batch::new(depth),
            drawn: Drawn::new(depth),
            ahead: Ahead::No,
            verifier: Verifier::new(spec, content_seed).map(Box::new),
            phase: Phase::Run,
            budget: Budget::new(spec, extent.bytes, &options),
            refill_at_low: false,
            syncs: Syncs::default(),
            times: Times::new(),
            stopping: false,
            asleep: false,
            verify_passes: 0,
            flow: FlowShare::new(),
            depth_limit: if spec.latency.target.is_some() { 1 } else { usize::MAX },
            search: spec.latency.target.map(|target| Box::new(Search::new(target, depth as u32))),
            options: Options {
                only_counts: options.only_counts && measure.only_counts(),
                ..options
            },
            measure,
            spec: Box::new(spec.clone()),
        }
    }

    /// Returns the number of slots, the maximum number of I/Os in flight; tokens of I/Os with data
    /// are smaller than it.
    pub fn depth(&self) -> usize {
        self.ios.slots.len()
    }

    /// Returns the number of bytes that a buffer must have.
    pub fn buffer_bytes(&self) -> u64 {
        largest_block(&self.spec)
    }

    /// Returns its task, the key in the stack.
    pub const fn task(&self) -> TaskId {
        self.identity.task
    }

    /// Starts the process. `runtime`, `ramp_time` and `rate` count from here.
    pub fn start(&mut self, now: Instant) {
        self.times.started = Some(now);
        self.times.busy_until = now;
        if !self.spec.timing.runtime.is_zero() {
            self.times.deadline = now
                .saturating_add(self.spec.timing.ramp_time)
                .saturating_add(self.spec.timing.runtime);
        }
        self.measure.start(now, self.spec.timing.ramp_time);
        self.pace.start(now);
        self.think.start(now);
        if let Some(search) = &mut self.search {
            search.start(now.saturating_add(self.spec.timing.ramp_time));
        }
    }

    /// Returns the instant at which it started.
    pub const fn started(&self) -> Option<Instant> {
        self.times.started
    }

    /// Returns the instant at which it finished.
    pub const fn ended(&self) -> Option<Instant> {
        self.times.ended
    }

    /// Returns its statistics; complete once the process has finished. Before, the last latencies
    /// may be missing.
    pub const fn stats(&self) -> &JobStats {
        &self.measure.stats
    }

    /// Returns what it has completed since it started, with what its statistics leave out.
    pub(crate) fn progressed(&self) -> Progressed {
        self.measure.progressed()
    }

    /// Returns the queue depth that `latency_target` has arrived at.
    pub(crate) fn latency_depth(&self) -> Option<u32> {
        self.search.as_ref().map(|search| search.depth())
    }

    /// Returns what it has done for its flow.
    pub(crate) fn standing(&self) -> Standing {
        let runs = self.times.started.is_some() && self.phase == Phase::Run && !self.stopping;
        Standing { ios: self.flow.issued, competes: runs }
    }

    /// Sets how many I/Os its flow allows before the next poll.
    pub(crate) const fn allow(&mut self, ios: u64) {
        self.flow.allowed = ios;
    }

    /// Returns its use of the page cache so far, if it uses one.
    pub fn cache_used(&self) -> Option<&CacheUse> {
        self.measure.cache_use.as_deref()
    }

    /// Returns the statistics as they would be if it finished now, with the runtime so far and a
    /// mean bandwidth.
    pub fn stats_at(&self, now: Instant) -> JobStats {
        if self.times.ended.is_some() || self.times.started.is_none() {
            return self.measure.stats.clone();
        }
        let used =
            if self.phase == Phase::Verify { [true, false, false] } else { self.options.used };
        self.measure.stats_at(now, used)
    }

    /// Returns its logs, if the job keeps any.
    pub fn logger(&self) -> Option<&Logger> {
        self.measure.logger.as_deref()
    }

    /// Returns the number of I/Os that are prepared, in flight or not yet reaped.
    pub fn in_use(&self) -> usize {
        self.ios.slots.len() - self.ios.free.len()
    }

    /// Returns the instant at which `runtime` ends its issuing, if it has a runtime and has
    /// started.
    pub fn deadline(&self) -> Option<Instant> {
        (self.times.deadline < Instant::MAX).then_some(self.times.deadline)
    }

    /// Returns the share of its work that is done, in thousandths: by time if it has a runtime,
    /// else by bytes.
    pub fn progress(&self, now: Instant) -> u64 {
        let Some(started) = self.times.started else { return 0 };
        if self.times.ended.is_some() {
            return 1000;
        }
        let per_mille = |done: u64, whole: u64| {
            (u128::from(done) * 1000 / u128::from(whole.max(1))).min(1000) as u64
        };
        let share = |per_loop: u64, left: u64| {
            let total = per_loop.saturating_mul(self.options.loops);
            let whole_loops = per_loop.saturating_mul(self.budget.loops_left.saturating_sub(1));
            per_mille(total.saturating_sub(whole_loops.saturating_add(left)), total)
        };
        // A loop ends when its bytes or `number_ios` are used up, whichever is first.
        let by_ios = if self.options.number_ios == u64::MAX {
            0
        } else {
            share(self.options.number_ios, self.budget.ios_left)
        };
        let by_bytes = share(self.budget.per_loop.get(), self.budget.left.get()).max(by_ios);
        match self.deadline() {
            Some(deadline) => {
                let by_time = per_mille(now.since(started).get(), deadline.since(started).get());
                if self.options.loops == u64::MAX { by_time } else { by_time.max(by_bytes) }
            }
            None => by_bytes,
        }
    }

    /// Returns its tenant.
    pub const fn tenant(&self) -> TenantId {
        self.identity.tenant
    }

    /// Keeps the task out of user space until this instant, as the kernel delays a task for what
    /// its tenant owes.
    pub fn delay(&mut self, until: Instant) {
        self.times.delayed_until = until;
        self.times.busy_until = self.times.busy_until.max(until);
    }

    /// Returns whether a completion wakes the process; one that runs, or was woken, goes on.
    pub(crate) fn is_asleep(&self, now: Instant) -> bool {
        self.times.busy_until <= now && self.ios.blocked.is_none()
    }

    /// Returns whether it draws its wake-ups apart from others.
    pub(crate) const fn draws_alone(&self) -> bool {
        self.cpu.wakes_by_process
    }

    /// A completion wakes the process, which runs after `delay`.
    pub(crate) fn wake_after(&mut self, now: Instant, delay: Nanos) {
        let step = self.cpu.wake_step.get().max(1);
        let origin = self.times.started.unwrap_or(now);
        let whole = |time: Nanos| Nanos::new(time.get() / step * step);
        self.times.busy_until = origin + whole(now.since(origin)) + whole(delay);
    }

    /// Returns the state of the task after [`Self::poll`], for the pressure of its tenant. A
    /// process that sleeps for a time of its own choice is idle, even with I/Os in flight.
    pub fn context(&self, now: Instant) -> ContextState {
        if self.times.ended.is_some() || self.times.started.is_none() {
            ContextState::Idle
        } else if self.ios.blocked.is_some() || self.times.delayed_until > now {
            ContextState::Blocked
        } else if self.times.busy_until > now {
            ContextState::Runnable
        } else if self.times.wakeup.is_none() && self.in_use() > 0 {
            ContextState::Blocked
        } else {
            ContextState::Idle
        }
    }

    /// Stops issuing; I/Os in flight still complete. The caller polls it afterwards.
    pub const fn terminate(&mut self) {
        self.stopping = true;
    }

    /// Returns the latest instant at which it must be polled.
    pub const fn next_wakeup(&self) -> Option<Instant> {
        self.times.wakeup
    }

    /// Returns what it needs now.
    #[inline(always)]
    pub fn poll(&mut self, now: Instant) -> Poll {
        self.times.wakeup = None;
        if self.phase == Phase::Finished {
            return Poll::Done;
        }
        match self.pending(now) {
            Some(poll) => poll,
            None => self.go_on(now),
        }
    }

    /// Returns what it needs before its next step; `None` if it can make one.
    #[inline]
    fn pending(&mut self, now: Instant) -> Option<Poll> {
        if self.ios.blocked.is_some() {
            return Some(Poll::Wait);
        }
        if self.times.busy_until > now {
            self.times.wakeup = Some(self.times.busy_until);
            return Some(Poll::Wait);
        }
        let left = self.batch.staged.len() - self.batch.handed;
        if self.batch.sealed && left > 0 {
            return Some(Poll::Submit(left));
        }
        let due = self.threads.as_ref().map_or(0, |threads| threads.due());
        (due > 0).then_some(Poll::Submit(due))
    }

    /// Returns true if [`Self::poll`] would only repeat its last answer: to wait until the CPU time
    /// is spent.
    #[inline]
    pub fn is_busy(&self, now: Instant) -> bool {
        self.times.busy_until > now && self.times.wakeup == Some(self.times.busy_until)
    }

    /// Returns the next I/O of the batch, for submission now; `None` if all were taken.
    #[inline]
    pub fn take(&mut self) -> Option<Io> {
        if self.threads.is_some() {
            return self.take_from_threads();
        }
        if !self.batch.sealed || self.ios.blocked.is_some() {
            return None;
        }
        let Some(&token) = self.batch.staged.get(self.batch.handed) else {
            self.close_batch();
            return None;
        };
        self.ios.last_taken = token;
        let mut io = self.io(token);
        let mut is_last = true;
        if self.ranges.is_some() {
            let (part, offset, bytes, is_last_range) = self.take_range(token);
            (io.token, io.sector, io.bytes) = (Token::Job(part).encode(), offset.sector(), bytes);
            is_last = is_last_range;
        }
        self.batch.handed += usize::from(is_last);
        if self.batch.handed == self.batch.staged.len() {
            self.close_batch();
        }
        Some(io)
    }

    /// Returns an I/O that has not finished, for submission.
    #[inline(always)]
    pub(crate) fn io(&self, token: u32) -> Io {
        alone::io_of(&self.identity, &self.options, token, &self.ios.slots[token as usize])
    }

    fn close_batch(&mut self) {
        self.batch.sealed = false;
        self.batch.staged.clear();
        self.batch.syncs = 0;
        self.batch.handed = 0;
    }

    /// Reports that the submission of the I/O that [`Self::take`] returned last has returned, or
    /// sleeps for a tag (`blocked`).
    #[inline]
    pub fn on_submitted(&mut self, now: Instant, blocked: bool) {
        self.ios.slots[self.ios.last_taken as usize].issued = now;
        if blocked {
            self.ios.blocked = Some(self.ios.last_taken);
            self.measure.stats.context_switches += 1;
        }
    }

    /// Returns true if the submission of the last I/O taken sleeps for a tag.
    pub const fn is_blocked(&self) -> bool {
        self.ios.blocked.is_some()
    }

    /// Reports that the sleep for a tag has ended.
    pub fn unblocked(&mut self, now: Instant) {
        if let Some(token) = self.ios.blocked.take()
            && self.spec.engine.asynchronous
            && self.ios.awaited != Some(token)
        {
            self.ios.slots[token as usize].issued = now;
        }
    }

    /// Reports that an I/O has finished. The process counts it when it is polled next. Returns its
    /// operation and its length in bytes.
    #[inline(always)]
    pub fn complete(&mut self, token: u64, status: Status) -> (Op, Bytes) {
        let token = token as u32;
        if self.options.has_parts
            && let Some(whole) = self.end_part(token, status)
        {
            return whole;
        }
        debug_assert!(!self.ios.free.contains(&token), "token {token} is not in flight");
        self.ios.ready.push_back((token, status));
        let slot = &self.ios.slots[token as usize];
        (slot.op, slot.len)
    }

    /// Notes that a thread's I/O has finished, or a range of a trim; of a range, does all that
    /// [`Self::complete`] does.
    #[inline(never)]
    fn end_part(&mut self, token: u32, status: Status) -> Option<(Op, Bytes)> {
        if let Some(ranges) = &mut self.ranges {
            let bytes = ranges.bytes(token);
            self.ios.ready.extend(ranges.end(token, status));
            return Some((Op::Discard, bytes));
        }
        if let Some(threads) = &mut self.threads {
            let slot = &mut self.ios.slots[token as usize];
            slot.issued = threads.end(token, slot.file as usize);
        }
        None
    }

    /// Fills the buffer of a write that [`Self::take`] has just returned.
    pub fn fill(&mut self, token: u64, buffer: &mut [u8]) {
        let slot = &mut self.ios.slots[token as usize];
        if slot.kind != IoKind::Data(Direction::Write) {
            slot.filled = false;
            return;
        }
        let len = buffer.len().min(slot.len.get() as usize);
        match &self.verifier {
            Some(verifier) if verifier.method != VerifyMethod::Null => {
                return verifier.fill(&mut buffer[..len], slot.offset, slot.generation);
            }
            Some(_) | None => {}
        }
        if slot.filled && !self.spec.content.refill {
            return;
        }
        // The whole buffer is filled, since the next write of this slot may be longer.
        slot.filled = true;
        if self.spec.content.zeroes {
            buffer.fill(0);
        } else if let Some(pattern) = &self.spec.content.pattern {
            fill_pattern(buffer, pattern);
        } else {
            self.content_seed = self.content_seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            fill_random(buffer, self.content_seed ^ token << 48);
        }
    }

    /// Ends the sleep of its submission, if it slept for this I/O.
    pub(crate) fn unblock(&mut self, now: Instant, token: u32) {
        if self.ios.blocked == Some(token) {
            self.unblocked(now);
        }
    }

    /// Returns the slot of the I/O that [`Self::take`] returned last.
    pub(crate) const fn taken(&self) -> u32 {
        self.ios.last_taken
    }

    /// Returns the file of an I/O that has not finished: its index among the regions of the
    /// process.
    pub(crate) fn file(&self, token: u64) -> usize {
        self.ios.slots[token as usize].file as usize
    }

    /// Returns the range of an I/O that has not finished: its first byte on the device and its
    /// length.
    pub(crate) fn range(&self, token: u64) -> (DeviceOffset, Bytes) {
        let IoSlot { offset, len, .. } = self.ios.slots[token as usize];
        (offset, len)
    }

    /// Returns true if an I/O is a sync of the data written since the last sync.
    pub(crate) fn is_range_sync(&self, token: u64) -> bool {
        self.ios.slots[token as usize].kind == IoKind::SyncRange
    }

    /// Enables `sync_file_range`, because the files of the process are cached.
    pub(crate) fn enable_range_sync(&mut self) {
        self.options.sync_range_every =
            self.spec.durability.file_range.map_or(u64::MAX, |sync| sync.every.into());
    }

    /// Sets the CPU cost of its I/O.
    pub(crate) const fn set_cpu(&mut self, cpu: CpuCost) {
        self.cpu = cpu;
    }

    /// Takes the scheduler's lock for the batch that is ready to leave, if it needs the lock. While
    /// another task holds the lock, the process spins.
    #[inline]
    pub(crate) fn pass_lock(&mut self, now: Instant, lock: &mut SchedulerLock) {
        if self.times.wants_lock.is_zero() {
            return;
        }
        let until = lock.hold(now, std::mem::take(&mut self.times.wants_lock));
        if until > self.times.busy_until {
            self.spend(now, until.since(self.times.busy_until));
            self.times.wakeup = Some(self.times.busy_until);
        }
    }

    /// Makes the process busy for `span` before it continues.
    pub(crate) fn spend(&mut self, now: Instant, span: Nanos) {
        self.measure.stats.cpu_ns += span.get();
        self.times.busy_until = self.times.busy_until.max(now).saturating_add(span);
    }

    /// Returns the passes that it has begun.
    pub(crate) const fn passes(&self) -> Passes {
        Passes { files: self.pattern.passes(), verify: self.verify_passes }
    }

    /// Returns its statistics of the page cache.
    pub(crate) fn cache_use(&mut self) -> &mut CacheUse {
        self.measure.cache_use.get_or_insert_default()
    }

    /// Returns true if the content of this finished I/O must be checked by [`Self::check`] before
    /// [`Self::complete`].
    #[inline]
    pub fn wants_check(&self, token: u64) -> bool {
        let is_check = |slot: &IoSlot| matches!(slot.kind, IoKind::Check | IoKind::CheckOwn);
        self.verifier.is_some() && self.ios.slots.get(token as usize).is_some_and(is_check)
    }

    /// Checks the content of a read.
    pub fn check(&mut self, token: u64, buffer: &[u8]) {
        let slot = &mut self.ios.slots[token as usize];
        let generation = (slot.kind == IoKind::CheckOwn).then_some(slot.generation);
        if let (Some(verifier), IoKind::Check | IoKind::CheckOwn) = (&self.verifier, slot.kind) {
            let len = buffer.len().min(slot.len.get() as usize);
            slot.checked = true;
            slot.corrupt = !verifier.check(&buffer[..len], slot.offset, generation);
        }
    }

    fn finish(&mut self, now: Instant) {
        self.phase = Phase::Finished;
        let end = now.max(self.times.busy_until);
        self.times.ended = Some(end);
        self.measure.end_phase(end, self.options.used);
        self.measure.finish();
    }
}

const EMPTY_SLOT: IoSlot = IoSlot {
    kind: IoKind::Sync,
    op: Op::Flush,
    offset: DeviceOffset::ZERO,
    len: Bytes::ZERO,
    file: 0,
    generation: 0,
    ioprio: IoPrio::NONE,
    start: Instant::ZERO,
    issued: Instant::ZERO,
    layout: LayoutId(0),
    filled: false,
    corrupt: false,
    checked: false,
};
