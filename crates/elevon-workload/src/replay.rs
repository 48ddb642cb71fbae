//! A process of a trace as a source: the I/Os that it did, each at its time or after what it
//! followed.
//!
//! There is one rule: an I/O goes a given time after the completion of a given number of I/Os of
//! its process, and never before the I/O before it. In an open loop that number is 0, which stands
//! for the start of the process, so that I/Os enter as they were timed. In a closed loop it is how
//! many had completed when the process went on, and the time is what it thought then: the process
//! keeps its depth, whatever the device's speed. `elevon_trace::replay` finds both in a trace.
//!
//! - An I/O whose process sleeps for a tag, or has no free slot, is late: counted, and it goes as
//!   soon as it can.
//! - An I/O that is refused (a write, where nothing may be written) counts as completed when it
//!   would have gone.
//! - A device's error is counted and ends nothing. What the device does not support is counted
//!   apart.
//! - CPU time is not charged: the times of a trace have it in them.
//!
//! Cost per I/O: O(1); allocates when more are in flight than ever before.

use std::collections::VecDeque;

use elevon_core::control::pressure::ContextState;
use elevon_core::ioprio::IoPrio;
use elevon_core::op::{Flags, Op};
use elevon_core::stack::Io;
use elevon_core::stats::{Direction, JobStats};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, LayoutId, Nanos, Sector, TaskId, TenantId};

use crate::measure::{Finished, Measure};
use crate::process::Poll;
use crate::source::Source;
use crate::token::Token;
use crate::verify::fill_random;

/// Buffers of different layout that a process has at most.
const LAYOUTS: usize = 64;

/// An I/O of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayIo {
    /// Completions of its process that it follows; 0 for the start of the process.
    pub after: u64,
    /// Time from that completion, or from that start.
    pub think: Nanos,
    /// Read, write, flush, discard, ...
    pub op: Op,
    /// SYNC, META, FUA, PREFLUSH ... as traced.
    pub flags: Flags,
    /// First sector.
    pub sector: Sector,
    /// Length; 0 for a flush.
    pub bytes: Bytes,
    /// Priority.
    pub ioprio: IoPrio,
    /// It goes under one plug with the I/O before.
    pub joins: bool,
    /// It is passed over.
    pub is_refused: bool,
}

/// What a process of a trace did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Its id.
    pub number: u32,
    /// When it starts, from the start of the run.
    pub begins: Nanos,
    /// Its I/Os in order.
    pub ios: Vec<ReplayIo>,
    /// Set if it begins again when it is through, until this much of its time has passed; what is
    /// left then is not done.
    pub repeat_until: Option<Nanos>,
}

/// What [`Script::fit`] changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fitted {
    /// I/Os that lay beyond the device's end, and were moved.
    pub moved: u64,
    /// I/Os that were widened to whole logical blocks.
    pub widened: u64,
    /// I/Os that were shortened to the size of the device.
    pub shortened: u64,
}

impl Script {
    /// Maps its I/Os onto a device of this size with these logical blocks (both in bytes): a place
    /// beyond the end is taken modulo the size, as a job's files wrap.
    pub fn fit(&mut self, device_bytes: u64, block: u64) -> Fitted {
        let mut fitted = Fitted::default();
        let size = device_bytes / block * block;
        for io in self.ios.iter_mut().filter(|io| io.op != Op::Flush) {
            let (start, len) = (io.sector.get().saturating_mul(512), io.bytes.get());
            let mut first = start / block * block;
            let mut bytes = (start - first).saturating_add(len).div_ceil(block).max(1).saturating_mul(block);
            fitted.widened += u64::from((first, bytes) != (start, len));
            if bytes > size {
                fitted.shortened += 1;
                bytes = size;
            }
            if first > size - bytes {
                fitted.moved += 1;
                first = (first % size).min(size - bytes);
            }
            io.sector = Sector::new(first / 512);
            io.bytes = Bytes::new(bytes);
        }
        fitted
    }

    /// Refuses all that would change what the device stores; returns how many I/Os that is.
    pub fn refuse_writes(&mut self) -> u64 {
        let mut count = 0;
        for io in self.ios.iter_mut().filter(|io| io.op != Op::Read && io.op != Op::Flush) {
            io.is_refused = true;
            count += 1;
        }
        count
    }

    /// The largest I/O in bytes.
    pub fn largest(&self) -> u64 {
        self.ios.iter().map(|io| io.bytes.get()).max().unwrap_or(0)
    }

    fn used(&self) -> [bool; 3] {
        let mut used = [false; 3];
        for io in self.ios.iter().filter(|io| !io.is_refused) {
            if let Some(direction) = direction(io.op) {
                used[direction as usize] = true;
            }
        }
        used
    }
}

/// As what an I/O is counted; `None` for a flush.
const fn direction(op: Op) -> Option<Direction> {
    match op {
        Op::Read => Some(Direction::Read),
        Op::Write | Op::ZoneAppend | Op::WriteZeroes => Some(Direction::Write),
        Op::Discard | Op::SecureErase => Some(Direction::Trim),
        Op::Flush => None,
    }
}

/// What did not go as traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deviations {
    /// I/Os that went later than they should, because their process slept for a tag or had no free
    /// slot.
    pub late: u64,
    /// By how much the latest.
    pub latest: Nanos,
    /// I/Os that the device does not support.
    pub unsupported: u64,
    /// Times that the process began again.
    pub repeats: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    io: u32,
    start: Instant,
    issued: Instant,
    is_filled: bool,
}

/// A process of a trace that is replayed. See the module's head.
#[derive(Debug)]
pub struct Replayed {
    task: TaskId,
    tenant: TenantId,
    script: Script,
    used: [bool; 3],
    layouts: Vec<LayoutId>,
    most: usize,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The next I/O of the script, and when the one before it went.
    next: usize,
    went_at: Instant,
    /// Those of it that go now, and how many of them went.
    staged: Vec<u32>,
    handed: usize,
    last_taken: u32,
    blocked: Option<u32>,
    /// When the pass began, and when the completions since were; those that no I/O asks for any
    /// more are dropped.
    origin: Instant,
    times: VecDeque<Instant>,
    dropped: u64,
    delayed_until: Instant,
    deadline: Instant,
    stopping: bool,
    started: Option<Instant>,
    ended: Option<Instant>,
    wakeup: Option<Instant>,
    measure: Measure,
    deviations: Deviations,
}

impl Replayed {
    /// A process that has not started, with at most `slots` I/Os in flight.
    pub fn new(
        script: Script,
        task: TaskId,
        tenant: TenantId,
        slots: usize,
        layouts: &mut dyn FnMut(TaskId, u32, u64) -> LayoutId,
    ) -> Self {
        let (most, bytes) = (slots.min(script.ios.len()).max(1), script.largest());
        Self {
            task,
            tenant,
            used: script.used(),
            layouts: (0..most.min(LAYOUTS)).map(|slot| layouts(task, slot as u32, bytes)).collect(),
            most,
            slots: Vec::new(),
            free: Vec::new(),
            next: 0,
            went_at: Instant::ZERO,
            staged: Vec::new(),
            handed: 0,
            last_taken: 0,
            blocked: None,
            origin: Instant::ZERO,
            times: VecDeque::new(),
            dropped: 0,
            delayed_until: Instant::ZERO,
            deadline: Instant::MAX,
            stopping: false,
            started: None,
            ended: None,
            wakeup: None,
            measure: Measure::new(false, None, None),
            deviations: Deviations::default(),
            script,
        }
    }

    /// What did not go as traced, so far.
    pub const fn deviations(&self) -> Deviations {
        self.deviations
    }

    /// When the next I/O is due; `None` if it follows a completion that is still to come.
    fn due(&mut self) -> Option<Instant> {
        let ReplayIo { after, think, .. } = self.script.ios[self.next];
        let Some(before) = after.checked_sub(1) else { return Some(self.origin.saturating_add(think)) };
        // I/Os ask for ever later completions.
        while self.dropped < before && self.times.pop_front().is_some() {
            self.dropped += 1;
        }
        let at = before.checked_sub(self.dropped).map_or(self.times.front(), |at| self.times.get(at as usize));
        at.map(|at| at.saturating_add(think))
    }

    /// Stages the next I/O and those under its plug; an I/O that is refused is over.
    fn stage(&mut self, now: Instant, due: Instant) {
        self.staged.clear();
        self.handed = 0;
        loop {
            let io = &self.script.ios[self.next];
            if io.is_refused {
                self.times.push_back(now);
            } else {
                if self.in_flight() >= self.most {
                    return;
                }
                // What waited for the I/O before it is not late.
                let late = now.since(due.max(self.went_at));
                self.deviations.late += u64::from(!late.is_zero());
                self.deviations.latest = self.deviations.latest.max(late);
                let slot = Slot { io: self.next as u32, start: now, issued: now, is_filled: false };
                let token = self.free.pop().unwrap_or_else(|| {
                    self.slots.push(slot);
                    self.slots.len() as u32 - 1
                });
                let is_filled = self.slots[token as usize].is_filled;
                self.slots[token as usize] = Slot { is_filled, ..slot };
                self.staged.push(token);
            }
            self.next += 1;
            self.went_at = now.max(due);
            if self.script.ios.get(self.next).is_none_or(|next| !next.joins) {
                return;
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All of the script went and completed: once more, if there is time.
    fn begin_again(&mut self, now: Instant) -> bool {
        if self.stopping || self.script.repeat_until.is_none() || now >= self.deadline {
            return false;
        }
        self.next = 0;
        self.times.clear();
        self.dropped = 0;
        self.origin = now;
        self.deviations.repeats += 1;
        true
    }

    fn finish(&mut self, now: Instant) {
        self.ended = Some(now);
        self.measure.end_phase(now, self.used);
        self.measure.finish(now);
    }
}

impl Source for Replayed {
    fn task(&self) -> TaskId {
        self.task
    }

    fn tenant(&self) -> TenantId {
        self.tenant
    }

    fn depth(&self) -> usize {
        self.most
    }

    fn buffer_bytes(&self) -> u64 {
        self.script.largest()
    }

    fn start(&mut self, now: Instant) {
        self.started = Some(now);
        self.origin = now;
        if let Some(until) = self.script.repeat_until {
            self.deadline = now.saturating_add(until);
        }
        self.measure.start(now, Nanos::ZERO);
    }

    fn started(&self) -> Option<Instant> {
        self.started
    }

    fn ended(&self) -> Option<Instant> {
        self.ended
    }

    fn stats(&self) -> &JobStats {
        &self.measure.stats
    }

    fn stats_at(&self, now: Instant) -> JobStats {
        if self.ended.is_some() || self.started.is_none() {
            return self.measure.stats.clone();
        }
        self.measure.stats_at(now, self.used)
    }

    fn in_use(&self) -> usize {
        self.in_flight()
    }

    fn progress(&self, now: Instant) -> u64 {
        let share = |done: u64, all: u64| (u128::from(done) * 1000 / u128::from(all.max(1))).min(1000) as u64;
        match (self.started, self.ended) {
            (None, _) => 0,
            (Some(_), Some(_)) => 1000,
            (Some(started), None) if self.deadline < Instant::MAX => {
                share(now.since(started).get(), self.deadline.since(started).get())
            }
            (Some(_), None) => share(self.next as u64, self.script.ios.len() as u64),
        }
    }

    fn delay(&mut self, until: Instant) {
        self.delayed_until = until;
    }

    fn context(&self, now: Instant) -> ContextState {
        if self.ended.is_some() || self.started.is_none() {
            ContextState::Idle
        } else if self.blocked.is_some() || self.delayed_until > now || (self.wakeup.is_none() && self.in_flight() > 0)
        {
            ContextState::Blocked
        } else {
            ContextState::Idle
        }
    }

    fn terminate(&mut self) {
        self.stopping = true;
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.wakeup
    }

    fn poll(&mut self, now: Instant) -> Poll {
        self.wakeup = None;
        if self.ended.is_some() {
            return Poll::Done;
        }
        loop {
            if self.blocked.is_some() {
                return Poll::Wait;
            }
            if self.handed < self.staged.len() {
                return Poll::Submit(self.staged.len() - self.handed);
            }
            if self.next == self.script.ios.len() || self.stopping || now >= self.deadline {
                if self.in_flight() > 0 {
                    return Poll::Wait;
                }
                if self.next < self.script.ios.len() || !self.begin_again(now) {
                    self.finish(now);
                    return Poll::Done;
                }
            }
            let due = match self.due() {
                Some(due) => due,
                None if self.in_flight() > 0 => return Poll::Wait,
                // It follows more than there was: nothing else can come.
                None => now,
            };
            let at = due.max(self.delayed_until);
            if at > now {
                self.wakeup = Some(at.min(self.deadline));
                return Poll::Wait;
            }
            if self.in_flight() >= self.most {
                return Poll::Wait;
            }
            self.stage(now, due);
        }
    }

    fn take(&mut self) -> Option<Io> {
        if self.blocked.is_some() {
            return None;
        }
        let &token = self.staged.get(self.handed)?;
        self.handed += 1;
        self.last_taken = token;
        let io = &self.script.ios[self.slots[token as usize].io as usize];
        Some(Io {
            task: self.task,
            token: Token::Job(token).encode(),
            op: io.op,
            flags: io.flags,
            sector: io.sector,
            bytes: io.bytes,
            ioprio: io.ioprio,
            write_hint: 0,
            tenant: self.tenant,
            layout: self.layouts[token as usize % self.layouts.len()],
            may_block: true,
        })
    }

    /// What was under one plug in the trace is under one again.
    fn plugs(&self, ios: usize) -> bool {
        ios > 1
    }

    fn on_submitted(&mut self, now: Instant, blocked: bool) {
        let slot = &mut self.slots[self.last_taken as usize];
        slot.issued = now;
        let depth = self.slots.len() - self.free.len();
        self.measure.on_submit(depth, 1);
        if blocked {
            self.blocked = Some(self.last_taken);
            self.measure.stats.context_switches += 1;
        }
    }

    fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    fn unblocked(&mut self, now: Instant) {
        if let Some(token) = self.blocked.take() {
            self.slots[token as usize].issued = now;
        }
    }

    fn complete(&mut self, now: Instant, token: u64, status: Status) {
        let Slot { io, start, .. } = self.slots[token as usize];
        let io = self.script.ios[io as usize];
        self.free.push(token as u32);
        self.times.push_back(now);
        let direction = direction(io.op);
        match (status, direction) {
            (Status::NotSupported, _) => self.deviations.unsupported += 1,
            (Status::Ok, Some(direction)) => self.measure.on_done(&Finished {
                direction,
                len: io.bytes.get(),
                offset: io.sector.get() * 512,
                ioprio: io.ioprio,
                start,
                // A sleep for a tag is part of the bio's latency, as it is in a trace.
                issued: start,
                end: now,
            }),
            (Status::Ok, None) => self.measure.stats.sync.add(now.since(start).get()),
            (error, direction) => {
                if let Some(direction) = direction {
                    self.measure.stats.directions[direction as usize].errors += 1;
                }
                if self.measure.stats.error == 0 {
                    self.measure.stats.error = error.errno();
                }
            }
        }
    }

    fn operation(&self, token: u64) -> (Op, u64) {
        let io = &self.script.ios[self.slots[token as usize].io as usize];
        (io.op, io.bytes.get())
    }

    /// A trace has no contents: chance fills each buffer once.
    fn fill(&mut self, token: u64, buffer: &mut [u8]) {
        let slot = &mut self.slots[token as usize];
        if !slot.is_filled && self.script.ios[slot.io as usize].op == Op::Write {
            slot.is_filled = true;
            fill_random(buffer, u64::from(self.task.0) << 32 | token);
        }
    }
}

#[cfg(test)]
mod tests;
