//! The turn of a process: it is polled until it waits. Then it may go on by the short cut
//! ([`super::alone`]).

use elevon_core::units::{Instant, Nanos};
use elevon_engine::Backend;

use super::layer::Layer;
use super::{Runner, STEPS_AT_ONE_INSTANT};
use crate::source::{Poll, Source};

/// The longest turn of a process that never waits because the page cache completes its I/O at once.
/// After it, other processes run, the device is polled, and an interrupt is noticed.
pub(super) const TURN: Nanos = Nanos::from_micros(200);

/// The number of batches between two checks for an interrupt, for a process that never waits while
/// time does not advance.
const BATCHES_BETWEEN_LOOKS: u64 = 64;

/// The number of times that a process goes on before the loop looks for an interrupt.
const MOST_WAITS: u32 = 64;

/// The turn of a process: what the loop knows of it between two polls.
pub(super) struct Turn {
    /// The present instant.
    pub(super) now: Instant,
    /// When it began, or the process went on after a wait.
    pub(super) began: Instant,
    /// Batches that it has submitted since.
    pub(super) batches: u64,
    /// How often it may still go on after a wait.
    pub(super) waits_left: u32,
    /// Its I/Os may go alone ([`Source::go_alone`]) if their CPU time is spent before this
    /// instant; zero if they may not.
    pub(super) alone_until: Instant,
    /// No other process is left: nothing becomes ready before `alone_until` but this one.
    pub(super) is_only: bool,
    /// [`Runner::next_of_others`]; zero before it was asked.
    pub(super) other: Instant,
    /// Until then nothing happens but what the process does; see [`Runner::pass_time`].
    pub(super) others_until: Instant,
}

impl Turn {
    /// A turn that begins.
    #[inline(always)]
    const fn new(now: Instant, may_pass_time: bool, alone_until: Instant, is_only: bool) -> Self {
        Self {
            now,
            began: now,
            batches: 0,
            waits_left: if may_pass_time { MOST_WAITS } else { 0 },
            alone_until,
            is_only,
            other: Instant::ZERO,
            others_until: Instant::ZERO,
        }
    }

    /// The process goes on after a wait.
    #[inline(always)]
    pub(super) const fn go_on_at(&mut self, now: Instant) {
        (self.now, self.began, self.batches) = (now, now, 0);
    }
}

impl<B: Backend, L: Layer<S>, S: Source> Runner<'_, B, L, S> {
    /// Polls a process that has started until it waits, its turn is over or it has finished.
    #[inline]
    pub(super) fn take_turn(&mut self, task: usize, now: Instant, may_pass_time: bool) {
        let alone_until = self.alone_until(task, may_pass_time);
        let mut turn = Turn::new(now, may_pass_time, alone_until, self.open == 1);
        if now < alone_until {
            self.take_turn_alone(task, turn);
        } else {
            while self.poll_process(task, &mut turn) {}
        }
    }

    /// Polls a process once, and does what it needs. Returns false if its turn is over.
    #[inline(always)]
    pub(super) fn poll_process(&mut self, task: usize, turn: &mut Turn) -> bool {
        match self.jobs.processes[task].poll(turn.now) {
            Poll::Submit(count) => {
                self.submit(task, count);
                turn.others_until = Instant::ZERO;
                turn.now = self.engine.now();
                turn.batches += 1;
                if turn.now.since(turn.began) >= TURN {
                    self.is_turn_over = true;
                } else if !self.ends_turn(turn.batches) {
                    return true;
                }
                self.make_ready(task);
                false
            }
            Poll::Wait => self.wait_in_turn(task, turn),
            Poll::Done => {
                self.end_open_batch(task);
                self.set_context(task, turn.now);
                self.wakeups.set(task, Instant::MAX);
                let now = self.engine.now();
                self.layer.on_process_over(now, task);
                self.on_over(task, turn.now);
                false
            }
        }
    }

    /// Lets a process that waits go on within its turn, once what it waits for has come. Returns
    /// false if it waits as any other.
    #[inline(always)]
    fn wait_in_turn(&mut self, task: usize, turn: &mut Turn) -> bool {
        let process = &mut self.jobs.processes[task];
        process.pass_lock(turn.now, &mut self.scheduler_lock);
        let wakeup = process.next_wakeup().unwrap_or(Instant::MAX);
        if wakeup >= turn.others_until || turn.waits_left == 0 {
            self.end_open_batch(task);
            self.set_context(task, turn.now);
        }
        self.wait_until(task, wakeup, turn)
    }

    /// Returns true if a process that has not waited for so many batches must end its turn: if the
    /// user wants to stop, which is asked once in [`BATCHES_BETWEEN_LOOKS`].
    #[inline]
    pub(super) fn ends_turn(&mut self, batches: u64) -> bool {
        if !batches.is_multiple_of(BATCHES_BETWEEN_LOOKS) {
            return false;
        }
        self.timeline.steps += BATCHES_BETWEEN_LOOKS;
        self.timeline.steps > STEPS_AT_ONE_INSTANT
            || (self.ended_early.is_none() && self.engine.backend().interrupted())
    }
}
