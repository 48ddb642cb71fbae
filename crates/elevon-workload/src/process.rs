//! One process of a fio job as a state machine.
//!
//! A process prepares I/Os, submits them in batches, sleeps, reaps completions, and prepares more.
//! Its driver calls [`Process::poll`] when something may have changed, hands what [`Process::take`]
//! gives to the stack, and reports back by [`Process::on_submitted`], [`Process::complete`] and
//! [`Process::unblocked`].
//!
//! What fio's manual says, and what it leaves open and is decided here:
//!
//! - A synchronous engine has one I/O at a time. An asynchronous one fills its queue to `iodepth`,
//!   submitting `iodepth_batch_submit` at once; when it can fill no more it submits what it has and
//!   waits for `iodepth_batch_complete_min` completions (at least one), taking at most
//!   `iodepth_batch_complete_max` (at least the minimum), and goes on reaping until `iodepth_low`
//!   is reached. With a minimum of 0 it takes what is there before every I/O and does not wait
//!   until the queue is full.
//! - While it sleeps for `rate` or `thinktime` it takes completions as they come.
//! - Latencies: *slat* from the moment the process begins with the I/O to the return of its
//!   submission (asynchronous engines only; a sleep for a tag counts), *clat* from there to the
//!   moment the process has it back, *lat* is both.
//! - CPU time ([`CpuCost`]) is spent serially: `submit` and the scheduler's part before an I/O
//!   leaves (a batch leaves when all of it is prepared), `complete` before the process has it back.
//!   On a real clock both are zero, because the time really passes.
//! - `runtime` ends the issuing. What is in flight then still completes and still counts, and the
//!   job's runtime lasts until it has. With `ramp_time` the statistics begin at its end; what
//!   completes later counts, even if it began before.
//! - `size` counts bytes asked for; the last I/O never exceeds it. `trimwrite` counts the writes.
//! - `fsync=N` and `fdatasync=N`: after every N writes, and before the I/O that follows, a flush
//!   goes out; at both it is one flush. What is in flight is not waited for. Engines whose
//!   submission blocks (system calls, libaio) sleep until the flush is over and reap nothing
//!   meanwhile; for the others it is one I/O of the queue. All as measured with fio 3.33.
//! - `number_ios` bounds each loop, and with `ramp_time` counts from its end.
//! - A batch counts whole: each of its I/Os has the depth of the last one.
//! - Verification reads count as reads, as in fio. It stops when the runtime is over.
//!
//! Cost per I/O: O(1); nothing is allocated once the process has started (with `verify`: O(log
//! blocks), allocates).

use std::collections::VecDeque;

use elevon_cache::stats::CacheUse;
use elevon_core::control::pressure::ContextState;
use elevon_core::ioprio::IoPrio;
use elevon_core::op::{Flags, Op};
use elevon_core::stack::Io;
use elevon_core::stats::{Direction, JobStats};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, LayoutId, Nanos, Sector, TaskId, TenantId};
use elevon_formats::fio::spec::{JobSpec, SyncMode, VerifyMethod};

use crate::chance::{Purpose, Rng};
pub use crate::cpu::CpuCost;
use crate::cpu::SchedulerLock;
use crate::logs::Logger;
use crate::measure::{Finished, Measure, PriorityLatency};
use crate::pace::{Hold, Pace, Think};
use crate::pattern::{Access, Pattern, Seeds};
use crate::region::{Extent, directions, largest_block};
use crate::token::Token;
use crate::verify::{Verifier, Written, fill_pattern, fill_random};

mod schedule;
#[cfg(test)]
mod tests;

/// What a process needs to know beside its job.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Its key in the stack.
    pub task: TaskId,
    /// Who is charged.
    pub tenant: TenantId,
    /// Index of its section.
    pub job: u32,
    /// Index among the section's clones.
    pub clone: u32,
    /// Seed of the run.
    pub seed: u64,
}

/// What a process wants of its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// This many I/Os are to be taken and submitted now, in one batch.
    Submit(usize),
    /// Nothing until a completion, [`Process::unblocked`] or [`Process::next_wakeup`].
    Wait,
    /// It is over; its statistics are complete.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IoKind {
    Data(Direction),
    /// A read that checks what was written: generation, if this run wrote it.
    Check(Option<u32>),
    Sync,
    /// A sync of what was written since the last (sync_file_range).
    SyncRange,
}

/// An I/O's place; its index is the token.
#[derive(Clone, Copy, Debug)]
struct IoSlot {
    kind: IoKind,
    offset: u64,
    len: u64,
    file: u32,
    generation: u32,
    ioprio: IoPrio,
    start: Instant,
    issued: Instant,
    layout: LayoutId,
    /// Its buffer holds what a write needs.
    filled: bool,
    /// Its content was checked and found wrong.
    corrupt: bool,
    /// Its content was checked.
    checked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Run,
    Verify,
    EndSync,
    Over,
}

/// The options that the hot path reads.
#[derive(Clone, Copy, Debug)]
struct Options {
    may_block: bool,
    batch_submit: usize,
    complete_min: usize,
    complete_max: usize,
    low: usize,
    write_flags: Flags,
    ioprio: IoPrio,
    command_prio: [Option<(u8, IoPrio)>; 2],
    write_hint: u8,
    max_latency: [Nanos; 3],
    trim_then_write: bool,
    serialize_overlap: bool,
    sync_every: [u64; 2],
    /// Only through a page cache: elsewhere there is nothing to write early.
    sync_range_every: u64,
    gaps_end: bool,
    end_sync: bool,
    number_ios: u64,
    loops: u64,
    backlog: usize,
    verify_after: bool,
    verify_fatal: bool,
    verify_only: bool,
    verify_reads: bool,
    used: [bool; 3],
}

/// What remains to be done.
#[derive(Clone, Copy, Debug)]
struct Budget {
    per_loop: u64,
    left: u64,
    ios_left: u64,
    loops_left: u64,
}

/// A process. See the module's head.
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
    slots: Vec<IoSlot>,
    free: Vec<u32>,
    staged: Vec<u32>,
    handed: usize,
    sealed: bool,
    /// The I/O whose submission sleeps.
    blocked: Option<u32>,
    last_taken: u32,
    ready: VecDeque<(u32, Status)>,
    follow_ups: VecDeque<Access>,
    next: Option<Access>,
    /// Drawn before `next`, of the other direction, and waiting for its rate.
    held: Option<Access>,
    verifier: Option<Box<Verifier>>,
    phase: Phase,
    budget: Budget,
    refill_at_low: bool,
    writes: u64,
    /// A flush is due before the next I/O, or a sync of what was written.
    sync_due: bool,
    sync_is_of_range: bool,
    /// The flush that the process sleeps for.
    syncing: Option<u32>,
    wrote: bool,
    busy_until: Instant,
    /// Time under the scheduler's lock that its last batch wants and does not have yet.
    wants_lock: Nanos,
    delayed_until: Instant,
    deadline: Instant,
    stopping: bool,
    started: Option<Instant>,
    ended: Option<Instant>,
    wakeup: Option<Instant>,
    asleep: bool,
    /// Times that it began to read back all that it wrote.
    verify_passes: u32,
    measure: Measure,
}

impl Process {
    /// A process that has not started. `layouts`: the layout of the buffer of each of its
    /// [`Self::depth`] slots.
    pub fn new(spec: &JobSpec, extent: &Extent, identity: Identity, cpu: CpuCost, layouts: &[LayoutId]) -> Self {
        let seeds = Seeds::new(spec, identity.seed, identity.job, identity.clone);
        let asynchronous = spec.engine.asynchronous;
        let depth = Self::depth_of(spec);
        assert_eq!(layouts.len(), depth, "one layout for each slot");
        let slots = layouts.iter().map(|&layout| IoSlot { layout, ..EMPTY_SLOT }).collect();
        let options = Options::new(spec, depth);
        let which = if spec.lat_percentiles { PriorityLatency::Whole } else { PriorityLatency::Completion };
        let by_priority = options.command_prio.iter().any(Option::is_some).then_some(which);
        let per_loop = extent.bytes;
        let content_seed = seeds.base(Purpose::Buffer) ^ u64::from(identity.job) << 32;
        Self {
            identity,
            cpu,
            pattern: Pattern::new(spec, extent, &seeds),
            pace: Pace::new(spec, &seeds),
            think: Think::new(spec),
            priority: seeds.stream(Purpose::Priority),
            content_seed,
            slots,
            free: (0..depth as u32).rev().collect(),
            staged: Vec::with_capacity(depth),
            handed: 0,
            sealed: false,
            blocked: None,
            last_taken: 0,
            ready: VecDeque::with_capacity(depth),
            follow_ups: VecDeque::with_capacity(depth),
            next: None,
            held: None,
            verifier: Verifier::new(spec, content_seed).map(Box::new),
            phase: Phase::Run,
            budget: Budget { per_loop, left: per_loop, ios_left: options.number_ios, loops_left: options.loops },
            refill_at_low: false,
            writes: 0,
            sync_due: false,
            sync_is_of_range: false,
            syncing: None,
            wrote: false,
            busy_until: Instant::ZERO,
            wants_lock: Nanos::ZERO,
            delayed_until: Instant::ZERO,
            deadline: Instant::MAX,
            stopping: false,
            started: None,
            ended: None,
            wakeup: None,
            asleep: false,
            verify_passes: 0,
            measure: Measure::new(asynchronous, by_priority, Logger::new(&spec.logs)),
            options,
            spec: Box::new(spec.clone()),
        }
    }

    /// I/Os that a job keeps in flight: `iodepth`, or 1 for a synchronous engine.
    pub fn depth_of(spec: &JobSpec) -> usize {
        if spec.engine.asynchronous { spec.iodepth.max(1) as usize } else { 1 }
    }

    /// Slots, and so the most I/Os in flight; tokens are below it.
    pub fn depth(&self) -> usize {
        self.slots.len()
    }

    /// Bytes that a buffer must have.
    pub fn buffer_bytes(&self) -> u64 {
        largest_block(&self.spec)
    }

    /// Its key in the stack.
    pub const fn task(&self) -> TaskId {
        self.identity.task
    }

    /// Starts it. The clock of `runtime`, `ramp_time` and `rate` begins here.
    pub fn start(&mut self, now: Instant) {
        self.started = Some(now);
        self.busy_until = now;
        if !self.spec.runtime.is_zero() {
            self.deadline = now.saturating_add(self.spec.ramp_time).saturating_add(self.spec.runtime);
        }
        self.measure.start(now, self.spec.ramp_time);
        self.pace.start(now);
        self.think.start(now);
    }

    /// When it started.
    pub const fn started(&self) -> Option<Instant> {
        self.started
    }

    /// When it was over.
    pub const fn ended(&self) -> Option<Instant> {
        self.ended
    }

    /// Statistics; complete once the process is over.
    pub const fn stats(&self) -> &JobStats {
        &self.measure.stats
    }

    /// Its use of the page cache so far, if it went through one.
    pub fn cache_used(&self) -> Option<&CacheUse> {
        self.measure.cache_use.as_deref()
    }

    /// Statistics as they would be if it ended now: with the runtime so far, and a mean bandwidth.
    pub fn stats_at(&self, now: Instant) -> JobStats {
        if self.ended.is_some() || self.started.is_none() {
            return self.measure.stats.clone();
        }
        let used = if self.phase == Phase::Verify { [true, false, false] } else { self.options.used };
        self.measure.stats_at(now, used)
    }

    /// Logs, where the job keeps any.
    pub fn logger(&self) -> Option<&Logger> {
        self.measure.logger.as_deref()
    }

    /// I/Os prepared, in flight or not yet reaped.
    pub fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// When `runtime` ends its issuing, where it has one and has started.
    pub fn deadline(&self) -> Option<Instant> {
        (self.deadline < Instant::MAX).then_some(self.deadline)
    }

    /// Share of its work that is done, in thousandths, by time where it has a runtime, else by
    /// bytes.
    pub fn progress(&self, now: Instant) -> u64 {
        let Some(started) = self.started else { return 0 };
        if self.ended.is_some() {
            return 1000;
        }
        let per_mille = |done: u64, whole: u64| (u128::from(done) * 1000 / u128::from(whole.max(1))).min(1000) as u64;
        let share = |per_loop: u64, left: u64| {
            let total = per_loop.saturating_mul(self.options.loops);
            let whole_loops = per_loop.saturating_mul(self.budget.loops_left.saturating_sub(1));
            per_mille(total.saturating_sub(whole_loops.saturating_add(left)), total)
        };
        // Whichever of bytes and number_ios= ends a loop sooner.
        let by_ios =
            if self.options.number_ios == u64::MAX { 0 } else { share(self.options.number_ios, self.budget.ios_left) };
        let by_bytes = share(self.budget.per_loop, self.budget.left).max(by_ios);
        match self.deadline() {
            Some(deadline) => {
                let by_time = per_mille(now.since(started).get(), deadline.since(started).get());
                if self.options.loops == u64::MAX { by_time } else { by_time.max(by_bytes) }
            }
            None => by_bytes,
        }
    }

    /// Its tenant.
    pub const fn tenant(&self) -> TenantId {
        self.identity.tenant
    }

    /// It is not let back to user space before this instant: the kernel delays a task for what its
    /// tenant owes.
    pub fn delay(&mut self, until: Instant) {
        self.delayed_until = until;
        self.busy_until = self.busy_until.max(until);
    }

    /// What it does once [`Self::poll`] has answered, for the pressure of its tenant: a process
    /// that sleeps for a time of its own choosing is idle, whatever is in flight.
    pub fn context(&self, now: Instant) -> ContextState {
        if self.ended.is_some() || self.started.is_none() {
            ContextState::Idle
        } else if self.blocked.is_some() || self.delayed_until > now {
            ContextState::Blocked
        } else if self.busy_until > now {
            ContextState::Runnable
        } else if self.wakeup.is_none() && self.in_use() > 0 {
            ContextState::Blocked
        } else {
            ContextState::Idle
        }
    }

    /// Ends the issuing; what is in flight still completes. Poll it afterwards.
    pub const fn terminate(&mut self) {
        self.stopping = true;
    }

    /// When it wants to be polled at the latest.
    pub const fn next_wakeup(&self) -> Option<Instant> {
        self.wakeup
    }

    /// What it wants now.
    pub fn poll(&mut self, now: Instant) -> Poll {
        self.wakeup = None;
        if self.phase == Phase::Over {
            return Poll::Done;
        }
        loop {
            if self.blocked.is_some() {
                return Poll::Wait;
            }
            if self.busy_until > now {
                self.wakeup = Some(self.busy_until);
                return Poll::Wait;
            }
            if self.sealed {
                if self.handed < self.staged.len() {
                    return Poll::Submit(self.staged.len() - self.handed);
                }
                self.close_batch();
            }
            match self.step(now) {
                schedule::ProcessStep::Again => self.asleep = false,
                schedule::ProcessStep::Sleep(until) => {
                    self.wakeup = until;
                    if !self.asleep {
                        self.asleep = true;
                        self.measure.stats.context_switches += 1;
                    }
                    return Poll::Wait;
                }
                schedule::ProcessStep::Over => {
                    self.finish(now);
                    return Poll::Done;
                }
            }
        }
    }

    /// The next I/O of the batch, for submission now; `None` when all of it was taken.
    #[inline]
    pub fn take(&mut self) -> Option<Io> {
        if !self.sealed || self.blocked.is_some() {
            return None;
        }
        let Some(&token) = self.staged.get(self.handed) else {
            self.close_batch();
            return None;
        };
        self.handed += 1;
        self.last_taken = token;
        Some(self.io(token))
    }

    /// An I/O that is not over, for submission.
    #[inline]
    pub(crate) fn io(&self, token: u32) -> Io {
        let slot = &self.slots[token as usize];
        let (op, _) = self.operation(u64::from(token));
        let flags = match slot.kind {
            IoKind::Data(Direction::Read) | IoKind::Check(_) => Flags::NONE,
            IoKind::Data(Direction::Write) => self.options.write_flags,
            IoKind::Data(Direction::Trim) => Flags::SYNC,
            IoKind::Sync | IoKind::SyncRange => Flags::PREFLUSH.with(Flags::SYNC),
        };
        Io {
            task: self.identity.task,
            token: Token::Job(token).encode(),
            op,
            flags,
            sector: Sector::new(slot.offset / 512),
            bytes: Bytes::new(slot.len),
            ioprio: slot.ioprio,
            write_hint: if op == Op::Write { self.options.write_hint } else { 0 },
            tenant: self.identity.tenant,
            layout: slot.layout,
            may_block: self.options.may_block,
        }
    }

    fn close_batch(&mut self) {
        self.sealed = false;
        self.staged.clear();
        self.handed = 0;
    }

    /// The submission of what [`Self::take`] gave last has returned, or sleeps for a tag.
    #[inline]
    pub fn on_submitted(&mut self, now: Instant, blocked: bool) {
        self.slots[self.last_taken as usize].issued = now;
        if blocked {
            self.blocked = Some(self.last_taken);
            self.measure.stats.context_switches += 1;
        }
    }

    /// Whether the submission of what [`Self::take`] gave last sleeps for a tag.
    pub const fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// The sleep for a tag is over.
    pub fn unblocked(&mut self, now: Instant) {
        if let Some(token) = self.blocked.take() {
            self.slots[token as usize].issued = now;
        }
    }

    /// An I/O is over. It is counted when the process gets to it: poll it.
    #[inline]
    pub fn complete(&mut self, token: u64, status: Status) {
        debug_assert!(!self.free.contains(&(token as u32)), "token {token} is not in flight");
        self.ready.push_back((token as u32, status));
    }

    /// Fills the buffer of a write that [`Self::take`] has just given.
    pub fn fill(&mut self, token: u64, buffer: &mut [u8]) {
        let slot = &mut self.slots[token as usize];
        if slot.kind != IoKind::Data(Direction::Write) {
            slot.filled = false;
            return;
        }
        let len = buffer.len().min(slot.len as usize);
        match &self.verifier {
            Some(verifier) if verifier.method != VerifyMethod::Null => {
                return verifier.fill(&mut buffer[..len], slot.offset, slot.generation);
            }
            Some(_) | None => {}
        }
        if slot.filled && !self.spec.refill_buffers {
            return;
        }
        // The whole buffer, since the next write of this slot may be longer.
        slot.filled = true;
        if self.spec.zero_buffers {
            buffer.fill(0);
        } else if let Some(pattern) = &self.spec.buffer_pattern {
            fill_pattern(buffer, pattern);
        } else {
            self.content_seed = self.content_seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            fill_random(buffer, self.content_seed ^ token << 48);
        }
    }

    /// Operation and length of an I/O in flight.
    #[inline]
    pub fn operation(&self, token: u64) -> (Op, u64) {
        let slot = &self.slots[token as usize];
        let op = match slot.kind {
            IoKind::Data(Direction::Read) | IoKind::Check(_) => Op::Read,
            IoKind::Data(Direction::Write) => Op::Write,
            IoKind::Data(Direction::Trim) => Op::Discard,
            IoKind::Sync | IoKind::SyncRange => Op::Flush,
        };
        (op, slot.len)
    }

    /// Its sleep is over, if it slept for this I/O.
    pub(crate) fn unblock(&mut self, now: Instant, token: u32) {
        if self.blocked == Some(token) {
            self.unblocked(now);
        }
    }

    /// What [`Self::take`] gave last.
    pub(crate) const fn taken(&self) -> u32 {
        self.last_taken
    }

    /// The file of an I/O that is not over: its place among the regions of the process.
    pub(crate) fn file(&self, token: u64) -> usize {
        self.slots[token as usize].file as usize
    }

    /// Where an I/O that is not over lies, in bytes of the device: first and count.
    pub(crate) fn range(&self, token: u64) -> (u64, u64) {
        let IoSlot { offset, len, .. } = self.slots[token as usize];
        (offset, len)
    }

    /// Whether it is a sync of what was written since the last.
    pub(crate) fn is_range_sync(&self, token: u64) -> bool {
        self.slots[token as usize].kind == IoKind::SyncRange
    }

    /// Its files are cached: `sync_file_range` has something to do.
    pub(crate) fn enable_range_sync(&mut self) {
        self.options.sync_range_every = self.spec.sync_file_range.map_or(u64::MAX, |sync| sync.every.into());
    }

    /// What its I/O costs it.
    pub(crate) const fn set_cpu(&mut self, cpu: CpuCost) {
        self.cpu = cpu;
    }

    /// It takes the scheduler's lock for the batch that it has sealed, if that wants it: while
    /// another task has the lock, it spins.
    #[inline]
    pub(crate) fn pass_lock(&mut self, now: Instant, lock: &mut SchedulerLock) {
        if self.wants_lock.is_zero() {
            return;
        }
        let until = lock.hold(now, std::mem::take(&mut self.wants_lock));
        if until > self.busy_until {
            self.spend(now, until.since(self.busy_until));
            self.wakeup = Some(self.busy_until);
        }
    }

    /// It is busy for so long before it goes on.
    pub(crate) fn spend(&mut self, now: Instant, span: Nanos) {
        self.measure.stats.cpu_ns += span.get();
        self.busy_until = self.busy_until.max(now).saturating_add(span);
    }

    /// How often it began to read back all that it wrote (passes of `verify_backlog` are not
    /// counted).
    pub(crate) const fn verify_passes(&self) -> u32 {
        self.verify_passes
    }

    /// What it counts of its use of the page cache.
    pub(crate) fn cache_use(&mut self) -> &mut CacheUse {
        self.measure.cache_use.get_or_insert_default()
    }

    /// Whether the content of this I/O, which is over, is to be checked by [`Self::check`] before
    /// [`Self::complete`].
    #[inline]
    pub fn wants_check(&self, token: u64) -> bool {
        self.verifier.is_some() && matches!(self.slots[token as usize].kind, IoKind::Check(_))
    }

    /// Checks the content of a read.
    pub fn check(&mut self, token: u64, buffer: &[u8]) {
        let slot = &mut self.slots[token as usize];
        if let (Some(verifier), IoKind::Check(generation)) = (&self.verifier, slot.kind) {
            let len = buffer.len().min(slot.len as usize);
            slot.checked = true;
            slot.corrupt = !verifier.check(&buffer[..len], slot.offset, generation);
        }
    }

    fn finish(&mut self, now: Instant) {
        self.phase = Phase::Over;
        let end = now.max(self.busy_until);
        self.ended = Some(end);
        self.measure.end_phase(end, self.options.used);
        self.measure.finish(end);
    }
}

const EMPTY_SLOT: IoSlot = IoSlot {
    kind: IoKind::Sync,
    offset: 0,
    len: 0,
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

impl Options {
    fn new(spec: &JobSpec, depth: usize) -> Self {
        let or_depth = |value: u32| if value == 0 { depth } else { (value as usize).min(depth) };
        // A direct write is sync and expects more to come; O_SYNC and O_DSYNC add FUA, which the
        // stack turns into a flush after the write where the device has no FUA.
        let mut write_flags = Flags::SYNC.with(Flags::IDLE);
        if spec.sync != SyncMode::None {
            write_flags |= Flags::FUA;
        }
        let writes = spec.rw.write || spec.rw.trim_then_write;
        let verifies = spec.verify.method.is_some();
        let every = |n: u32| if n > 0 { u64::from(n) } else { u64::MAX };
        let endless = spec.time_based && !spec.runtime.is_zero();
        let has_gaps = !spec.rw.random && spec.rw.sequential_skip > 0;
        let mut used = directions(spec);
        used[Direction::Write as usize] |= spec.rw.trim_then_write;
        if verifies && spec.verify.only {
            used = [true, false, false];
        }
        Self {
            may_block: spec.engine.submission_blocks || !spec.engine.asynchronous,
            batch_submit: or_depth(spec.iodepth_batch_submit),
            complete_min: (spec.iodepth_batch_complete_min as usize).min(depth),
            complete_max: or_depth(spec.iodepth_batch_complete_max),
            low: (spec.iodepth_low as usize).min(depth),
            write_flags,
            ioprio: spec.ioprio,
            command_prio: spec.command_prio.map(|prio| prio.filter(|(percent, _)| *percent > 0)),
            write_hint: spec.write_hint,
            trim_then_write: spec.rw.trim_then_write,
            serialize_overlap: spec.serialize_overlap,
            max_latency: spec.max_latency.map(|span| if span.is_zero() { Nanos::new(u64::MAX) } else { span }),
            sync_every: [every(spec.fsync), every(spec.fdatasync)],
            sync_range_every: u64::MAX,
            gaps_end: has_gaps && spec.io_size.is_none() && !endless,
            end_sync: (spec.end_fsync || spec.fsync_on_close) && writes,
            number_ios: spec.number_ios.filter(|&n| n > 0).unwrap_or(u64::MAX),
            loops: if endless { u64::MAX } else { spec.loops.max(1) },
            backlog: if verifies { spec.verify.backlog as usize } else { 0 },
            verify_after: verifies && writes && spec.verify.after_write && !spec.verify.only,
            verify_fatal: spec.verify.fatal,
            verify_only: verifies && spec.verify.only && writes,
            verify_reads: verifies && !writes,
            used,
        }
    }
}
