//! A process of a trace as a source: it does the I/Os of the traced process again, each at its time
//! or after the completions that it followed.
//!
//! There is one rule: an I/O is issued a given time after the completion of a given number of I/Os
//! of its process, and never before the previous I/O. In an open loop that number is 0, which
//! stands for the start of the process, so I/Os are issued at their traced times. In a closed loop
//! it is the number of I/Os that had completed when the process continued, and the time is its
//! think time then: the process keeps its depth at any speed of the device. `elevon_trace::replay`
//! finds both numbers in a trace. It also finds for how long the thread was at work since it
//! submitted the previous I/O: that passes between the two whenever completions come, because a
//! thread has one CPU.
//!
//! - An I/O is late if its process sleeps for a tag or has no free slot. It is counted as late, and
//!   issued as soon as possible.
//! - A refused I/O (a write, if nothing may be written) counts as completed when it would have been
//!   issued.
//! - An I/O may follow one of another process, too ([`Follow`]): its think time begins with the
//!   later of the two.
//! - Processes may have critical sections ([`SectionEdge`]): one that is to begin a section waits
//!   for the lock of its group until those that asked before have ended theirs.
//! - An error of the device is counted and ends nothing. An operation that the device does not
//!   support is counted separately.
//! - CPU time is not charged, because the times of a trace include it.
//!
//! Cost per I/O: O(1); allocates when more I/Os are in flight than ever before.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use elevon_core::control::pressure::ContextState;
use elevon_core::ioprio::IoPrio;
use elevon_core::op::{Flags, Op};
use elevon_core::stack::Io;
use elevon_core::stats::{Direction, JobStats};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, LayoutId, Nanos, Sector, TaskId, TenantId};
use elevon_engine::Token;

use crate::dependencies::Dependencies;
use crate::followers::{FlusherRule, Follow};
use crate::measure::{Finished, Measure};
use crate::pace::{Ahead, AheadWait};
use crate::readings::Progressed;
use crate::section_lock::SectionRule;
use crate::source::{Poll, Source};
use crate::verify::fill_random;

mod script;
mod ties;

pub use script::{FitChanges, ReplayIo, Script, SectionEdge};
pub(crate) use ties::dependencies;
use ties::{Next, Ties};

/// The maximum number of buffers of different layout per process.
const LAYOUTS: usize = 64;

/// Makes the buffer of a task's slot known to the stack: of which task, which slot, how many bytes,
/// and where the bios of the I/O ended in the trace.
pub type NewLayout<'a> = dyn FnMut(TaskId, u32, u64, &[u64]) -> LayoutId + 'a;

/// Returns the direction as which an operation is counted; `None` for a flush.
const fn direction(op: Op) -> Option<Direction> {
    match op {
        Op::Read => Some(Direction::Read),
        Op::Write | Op::ZoneAppend | Op::WriteZeroes => Some(Direction::Write),
        Op::Discard | Op::SecureErase => Some(Direction::Trim),
        Op::Flush => None,
    }
}

/// Deviations of a replay from its trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deviations {
    /// I/Os that were issued late, because their process slept for a tag or under writeback
    /// throttling, or had no free slot.
    pub late: u64,
    /// The greatest delay of a late I/O.
    pub latest: Nanos,
    /// I/Os that the device does not support.
    pub unsupported: u64,
    /// The number of times that the process began again.
    pub repeats: u64,
}

/// Where a process is with regard to its critical sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SectionState {
    /// In none.
    Outside,
    /// Its next I/O begins one, and it has not asked for the lock.
    Wants,
    /// It has asked for the lock.
    Waits,
    /// It has the lock, and begins at this instant at the earliest.
    Inside(Instant),
    /// The section has ended, and the lock is to be released.
    Leaves,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    io: u32,
    /// The instant at which it was to be submitted.
    due: Instant,
    start: Instant,
    issued: Instant,
    is_filled: bool,
}

/// A process of a trace that is replayed; see the module's documentation.
#[derive(Debug)]
pub struct Replayed {
    task: TaskId,
    tenant: TenantId,
    script: Script,
    used: [bool; 3],
    layouts: Vec<LayoutId>,
    /// The layouts of I/Os that were several bios, by index in [`Script::bio_ends`].
    cut_layouts: BTreeMap<u32, LayoutId>,
    most: usize,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The next I/O of the script, and the instant at which the previous one was issued.
    next: usize,
    went_at: Instant,
    /// The instant at which it was submitted, after any sleep.
    free_since: Instant,
    /// The I/Os to submit now, and the number of them already submitted.
    staged: Vec<u32>,
    handed: usize,
    last_taken: u32,
    blocked: Option<u32>,
    /// When the next I/O, or the one that sleeps, would go if its process had not slept; and by
    /// how much later it goes.
    undelayed: Instant,
    lag: Nanos,
    /// The start of the pass, and the instants of the completions since then; instants that no
    /// later I/O needs are dropped.
    origin: Instant,
    times: VecDeque<Instant>,
    dropped: u64,
    delayed_until: Instant,
    ahead: Ahead,
    /// The end of its last sleep because it was ahead of its pace: it wanted nothing before.
    slept_until: Instant,
    section: SectionState,
    ties: Ties,
    deadline: Instant,
    stopping: bool,
    started: Option<Instant>,
    ended: Option<Instant>,
    wakeup: Option<Instant>,
    measure: Measure,
    deviations: Deviations,
}

impl Replayed {
    /// Returns a process that has not started, with at most `slots` I/Os in flight. `layouts` makes
    /// a buffer of the task's slot known to the stack.
    pub fn new(
        script: Script,
        task: TaskId,
        tenant: TenantId,
        slots: usize,
        layouts: &mut NewLayout<'_>,
    ) -> Self {
        let (most, bytes) = (slots.min(script.ios.len()).max(1), script.largest());
        Self {
            task,
            tenant,
            used: script.used(),
            layouts: (0..most.min(LAYOUTS))
                .map(|slot| layouts(task, slot as u32, bytes, &[]))
                .collect(),
            cut_layouts: script
                .cut_ios()
                .into_iter()
                .map(|(index, bytes)| {
                    (index, layouts(task, 0, bytes, &script.bio_ends[index as usize]))
                })
                .collect(),
            most,
            slots: Vec::new(),
            free: Vec::new(),
            next: 0,
            went_at: Instant::ZERO,
            free_since: Instant::ZERO,
            staged: Vec::new(),
            handed: 0,
            last_taken: 0,
            blocked: None,
            undelayed: Instant::ZERO,
            lag: Nanos::ZERO,
            origin: Instant::ZERO,
            times: VecDeque::new(),
            dropped: 0,
            delayed_until: Instant::ZERO,
            ahead: Ahead::No,
            slept_until: Instant::ZERO,
            section: SectionState::Outside,
            ties: Ties::default(),
            deadline: Instant::MAX,
            stopping: false,
            started: None,
            ended: None,
            wakeup: None,
            measure: Measure::new([false; 3], None, None),
            deviations: Deviations::default(),
            script,
        }
    }

    /// Returns the deviations so far.
    pub const fn deviations(&self) -> Deviations {
        self.deviations
    }

    /// Returns the instant at which the next I/O is due; `None` if it follows a completion still to
    /// come. `since`: when another process had come so far as it follows.
    fn due(&mut self, since: Instant) -> Option<Instant> {
        let ReplayIo { think, own, continues, .. } = self.script.ios[self.next];
        if !continues {
            self.lag = Nanos::ZERO;
        }
        self.undelayed = self.followed()?.max(since).saturating_add(think);
        if !own.is_zero() {
            self.undelayed = self.undelayed.max(self.free_since.saturating_add(own));
        }
        Some(self.undelayed.max(self.paced()))
    }

    /// Returns the instant of the completion, or of the start, that the next I/O follows.
    fn followed(&mut self) -> Option<Instant> {
        let Some(before) = self.script.ios[self.next].after.checked_sub(1) else {
            return Some(self.origin);
        };
        // The completions that I/Os follow never decrease.
        while self.dropped < before && self.times.pop_front().is_some() {
            self.dropped += 1;
        }
        before
            .checked_sub(self.dropped)
            .map_or(self.times.front(), |at| self.times.get(at as usize))
            .copied()
    }

    /// Returns the instant before which the pace of the process does not let the next I/O go.
    fn paced(&self) -> Instant {
        let done = self.deviations.repeats * self.script.ios.len() as u64 + self.next as u64;
        let started = self.started.unwrap_or(Instant::ZERO);
        started.saturating_add(Nanos::new(self.script.period.get().saturating_mul(done)))
    }

    /// Stages the next I/O and those under its plug. A refused I/O is finished at once.
    fn stage(&mut self, now: Instant, due: Instant) {
        self.staged.clear();
        self.handed = 0;
        loop {
            let io = &self.script.ios[self.next];
            if io.is_refused {
                self.times.push_back(now);
                self.ties.on_submitted();
                self.ties.on_completed(&ReplayIo { is_flushed: false, ..*io });
                if io.section == Some(SectionEdge::Ends) && self.script.exclusion.is_some() {
                    self.section = SectionState::Leaves;
                }
            } else {
                if self.in_flight() >= self.most {
                    return;
                }
                // An I/O that waited only for the previous I/O is not late.
                let late = now.since(due.max(self.went_at));
                self.deviations.late += u64::from(!late.is_zero());
                self.deviations.latest = self.deviations.latest.max(late);
                let due = due.min(now);
                let slot =
                    Slot { io: self.next as u32, due, start: now, issued: now, is_filled: false };
                let token = self.free.pop().unwrap_or_else(|| {
                    self.slots.push(slot);
                    self.slots.len() as u32 - 1
                });
                let is_filled = self.slots[token as usize].is_filled;
                self.slots[token as usize] = Slot { is_filled, ..slot };
                self.ties.on_staged(io);
                self.staged.push(token);
            }
            self.next += 1;
            self.went_at = now.max(due);
            self.free_since = now;
            if self.script.ios.get(self.next).is_none_or(|next| !next.joins) {
                return;
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the instant at which the next I/O may go as far as its critical section is
    /// concerned; `None` if it needs the lock first.
    fn section_begins(&mut self) -> Option<Instant> {
        if self.script.exclusion.is_none()
            || self.script.ios[self.next].section != Some(SectionEdge::Begins)
        {
            return Some(Instant::ZERO);
        }
        match self.section {
            SectionState::Inside(from) => return Some(from),
            SectionState::Outside => self.section = SectionState::Wants,
            SectionState::Wants | SectionState::Waits | SectionState::Leaves => {}
        }
        None
    }

    /// Begins the script again when all its I/Os have completed, if there is time.
    fn begin_again(&mut self, now: Instant) -> bool {
        if self.stopping
            || self.script.repeat_until.is_none()
            || now.saturating_add(self.script.slack) >= self.deadline
        {
            return false;
        }
        self.next = 0;
        self.times.clear();
        self.dropped = 0;
        self.origin = now;
        self.deviations.repeats += 1;
        true
    }

    /// Returns the instant from which it begins no I/O.
    fn limit(&self) -> Instant {
        if self.deviations.repeats == 0 {
            self.deadline.saturating_add(self.script.slack)
        } else {
            self.deadline
        }
    }

    fn finish(&mut self, now: Instant) {
        self.ended = Some(now);
        self.ties.on_ended();
        self.measure.end_phase(now, self.used);
        self.measure.finish();
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

    fn progressed(&self) -> Progressed {
        self.measure.progressed()
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
        let share = |done: u64, all: u64| {
            (u128::from(done) * 1000 / u128::from(all.max(1))).min(1000) as u64
        };
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
        } else if self.blocked.is_some()
            || self.delayed_until > now
            || (self.wakeup.is_none() && self.in_flight() > 0)
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
            if self.next == self.script.ios.len() || self.stopping || now >= self.limit() {
                if self.in_flight() > 0 {
                    return Poll::Wait;
                }
                if self.next < self.script.ios.len() || !self.begin_again(now) {
                    self.finish(now);
                    return Poll::Done;
                }
            }
            match self.ahead.wait(now, self.in_flight() > 0) {
                None => {}
                Some(AheadWait::InFlight) => return Poll::Wait,
                Some(AheadWait::Until(at)) => {
                    self.slept_until = at;
                    self.wakeup = Some(at.min(self.limit()));
                    return Poll::Wait;
                }
            }
            let next = Next::of(&self.script, self.next, self.deviations.repeats);
            let Some((since, earliest)) = self.ties.free(next) else {
                self.wakeup = Some(self.limit()).filter(|&limit| limit < Instant::MAX);
                return Poll::Wait;
            };
            let due = match self.due(since) {
                Some(due) => due.max(self.slept_until).max(earliest),
                None if self.in_flight() > 0 => return Poll::Wait,
                // The I/O follows more completions than there can be; no other event will come.
                None => now,
            };
            let at = due.max(self.undelayed.saturating_add(self.lag)).max(self.delayed_until);
            if at > now {
                let paced = self.paced();
                if self.script.drains && paced > now && self.in_flight() > 0 {
                    self.ahead = Ahead::By(paced.since(now));
                    return Poll::Wait;
                }
                self.wakeup = Some(at.min(self.limit()));
                return Poll::Wait;
            }
            if self.in_flight() >= self.most {
                return Poll::Wait;
            }
            match self.section_begins() {
                Some(from) if from <= now => self.stage(now, due.max(from)),
                Some(from) => {
                    self.wakeup = Some(from.min(self.limit()));
                    return Poll::Wait;
                }
                None => return Poll::Wait,
            }
        }
    }

    fn is_unsettled(&self) -> bool {
        let wants_lock = match self.section {
            SectionState::Wants | SectionState::Leaves => true,
            SectionState::Outside => false,
            SectionState::Waits | SectionState::Inside(_) => self.ended.is_some(),
        };
        wants_lock || self.ties.is_unsettled()
    }

    fn settle(&mut self, now: Instant, dependencies: &mut Dependencies) {
        let Dependencies { locks, followers } = dependencies;
        let task = self.task.index();
        let is_over = self.ended.is_some() || self.next == self.script.ios.len();
        let next = (!is_over).then(|| Next::of(&self.script, self.next, self.deviations.repeats));
        self.ties.settle(now, task, self.script.flusher, next, followers);
        match (self.section, self.script.exclusion) {
            (SectionState::Outside, _) | (_, None) => {}
            (SectionState::Leaves, _) => {
                self.section = SectionState::Outside;
                locks.release(task);
            }
            _ if self.ended.is_some() => {
                self.section = SectionState::Outside;
                locks.release(task);
            }
            (SectionState::Wants, _) if locks.take(task) => {
                self.section = SectionState::Inside(Instant::ZERO);
            }
            (SectionState::Wants, _) => self.section = SectionState::Waits,
            (SectionState::Waits, Some(rule)) if locks.holds(task) => {
                self.section = SectionState::Inside(now.saturating_add(rule.hand_over));
            }
            (SectionState::Waits | SectionState::Inside(_), _) => {}
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
            layout: match io.bio_ends {
                0 => self.layouts[token as usize % self.layouts.len()],
                index => self.cut_layouts[&index],
            },
            may_block: true,
        })
    }

    /// Plugs again the I/Os that were under one plug in the trace.
    fn plugs(&self, ios: usize) -> bool {
        ios > 1
    }

    fn on_submitted(&mut self, now: Instant, blocked: bool) {
        let slot = &mut self.slots[self.last_taken as usize];
        slot.issued = now;
        let depth = self.slots.len() - self.free.len();
        self.measure.on_submit(depth, 1);
        if !blocked {
            self.ties.on_submitted();
        } else {
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
            self.ties.on_submitted();
            self.lag = now.since(self.undelayed);
            self.free_since = now;
        }
    }

    fn complete(&mut self, now: Instant, token: u64, status: Status) -> (Op, Bytes) {
        let Slot { io, due, start, .. } = self.slots[token as usize];
        let io = self.script.ios[io as usize];
        self.free.push(token as u32);
        self.times.push_back(now);
        self.ties.on_completed(&io);
        if io.section == Some(SectionEdge::Ends) && self.script.exclusion.is_some() {
            self.section = SectionState::Leaves;
        }
        let direction = direction(io.op);
        match (status, direction) {
            (Status::NotSupported, _) => self.deviations.unsupported += 1,
            (Status::Ok, Some(direction)) => self.measure.on_done(&Finished {
                direction,
                len: io.bytes,
                offset: io.sector.byte_offset(),
                ioprio: io.ioprio,
                // What an I/O waits while its process sleeps in another submission is part of the
                // total latency only.
                start: due,
                // A sleep for a tag is part of the bio's latency, as in a trace.
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
        (io.op, io.bytes)
    }

    /// Fills each buffer once with random bytes, because a trace has no contents.
    fn fill(&mut self, token: u64, buffer: &mut [u8]) {
        let slot = &mut self.slots[token as usize];
        if !slot.is_filled && self.script.ios[slot.io as usize].op == Op::Write {
            slot.is_filled = true;
            fill_random(buffer, u64::from(self.task.0) << 32 | token);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
