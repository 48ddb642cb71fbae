//! The short cut *alone*: a process that waits goes on within its turn, as long as nothing else
//! is due but completions of its own I/O and timers of the stack. The steps of the loop would do
//! the same in the same order, with more checks.
//!
//! If nothing else happens while a process prepares an I/O, the I/O is submitted without a batch,
//! from the pattern to the stack in one step ([`Source::go_alone`]).

use elevon_core::stack::{Io, Stack, Submitted};
use elevon_core::units::{Instant, Nanos};
use elevon_engine::{Backend, Passed};

use super::layer::Layer;
use super::turn::Turn;
use super::{Runner, STEPS_AT_ONE_INSTANT};
use crate::source::{Alone, Source};

/// The time within which other processes run too soon for I/Os to go alone. It decides what is
/// asked, not what happens.
const SOON: Nanos = Nanos::from_micros(10);

impl<B: Backend, L: Layer<S>, S: Source> Runner<'_, B, L, S> {
    /// As [`Self::take_turn`], for a process whose I/Os may go alone. Each of the two is compiled
    /// by itself, with what it does most often in one piece.
    #[inline(never)]
    pub(super) fn take_turn_alone(&mut self, task: usize, mut turn: Turn) {
        while self.go_alone(task, &mut turn) && self.poll_seldom(task, &mut turn) {}
    }

    /// Lets the I/Os of a process go alone, from its pattern to the stack in one step, until it is
    /// to be polled. Returns false if its turn is over. Time stands still while it submits.
    #[inline(always)]
    fn go_alone(&mut self, task: usize, turn: &mut Turn) -> bool {
        if !self.jobs.processes[task].is_alone(turn.now) {
            return true;
        }
        while turn.waits_left > 0 && turn.now < turn.alone_until {
            let process = &mut self.jobs.processes[task];
            let io = match process.go_alone(turn.now, turn.alone_until, turn.is_only) {
                Alone::Poll => return true,
                Alone::Submit(io) => io,
                Alone::Busy => {
                    if !self.wait_alone(task, turn) {
                        return false;
                    }
                    continue;
                }
                Alone::Prepare(prepared) => {
                    process.pass_lock(prepared, &mut self.scheduler_lock);
                    let goes_on = self.wait_alone(task, turn);
                    let process = &mut self.jobs.processes[task];
                    if !goes_on {
                        process.keep_alone();
                        return false;
                    }
                    process.take_alone(turn.now)
                }
            };
            let is_asleep = self.submit_alone(task, turn.now, io);
            turn.others_until = Instant::ZERO;
            turn.batches += 1;
            if self.ends_turn(turn.batches) {
                self.make_ready(task);
                return false;
            }
            if is_asleep {
                return true;
            }
        }
        true
    }

    /// As [`Self::poll_process`], for a process whose I/Os go alone most often.
    #[inline(never)]
    fn poll_seldom(&mut self, task: usize, turn: &mut Turn) -> bool {
        self.poll_process(task, turn)
    }

    /// Lets a process whose I/Os go alone spend its CPU time within its turn. Returns false if it
    /// waits as any other.
    #[inline(always)]
    fn wait_alone(&mut self, task: usize, turn: &mut Turn) -> bool {
        let wakeup = self.jobs.processes[task].next_wakeup();
        wakeup.is_none_or(|wakeup| self.wait_until(task, wakeup, turn))
    }

    /// Lets a process wait until an instant, or a completion, within its turn. Returns false if it
    /// waits as any other.
    #[inline(always)]
    pub(super) fn wait_until(&mut self, task: usize, wakeup: Instant, turn: &mut Turn) -> bool {
        if turn.waits_left == 0 {
            self.wakeups.set(task, wakeup);
            return false;
        }
        turn.waits_left -= 1;
        let at = if wakeup < turn.others_until {
            // The batch is closed, and nothing asks what the process does meanwhile.
            Some(self.pass_own_time(turn.now, wakeup))
        } else {
            self.pass_time(task, wakeup, turn)
        };
        if let Some(at) = at {
            turn.go_on_at(at);
        }
        at.is_some()
    }

    /// Submits an I/O that its process prepared alone, and whose CPU time is spent. Returns true if
    /// the submission sleeps.
    #[inline(always)]
    fn submit_alone(&mut self, task: usize, now: Instant, io: Io) -> bool {
        let sleeps = self.engine.submit(io) == Submitted::Blocked;
        if sleeps {
            self.jobs.processes[task].on_submitted(now, true);
        }
        sleeps
    }

    /// Returns true if [`Self::pass_time`] may be asked about a process: waiting costs nothing, and
    /// neither a page cache, a probe nor a flow has to see each step.
    #[inline]
    pub(super) fn may_pass_time(&mut self, in_flow: bool) -> bool {
        B::WAITS_FREELY
            && L::IS_NONE
            && !in_flow
            && !self.engine.backend().delays_wakes()
            && self.watcher.probe().is_none()
    }

    /// Returns until when a process may let its I/Os go alone ([`Source::go_alone`]): something
    /// else than its completions and timers of the stack is due then. Zero if it may not.
    #[inline]
    pub(super) fn alone_until(&self, task: usize, may_pass_time: bool) -> Instant {
        let may_go_alone = may_pass_time && self.jobs.processes[task].goes_alone();
        if !may_go_alone || self.engine.stack().control().is_watched() || !self.ready.is_empty() {
            return Instant::ZERO;
        }
        let earliest =
            if self.jobs.processes.len() == 1 { Instant::MAX } else { self.wakeups.earliest() };
        // Where other processes run this soon, most I/Os cannot.
        let is_soon = earliest.since(self.timeline.now) < SOON;
        if is_soon {
            Instant::ZERO
        } else {
            earliest.min(self.next_interval).min(self.next_of_settings())
        }
    }

    /// Returns when something else is due than completions of a process and timers of the stack.
    /// It stays the same until another process runs, or the loop makes a step.
    #[cold]
    fn next_of_others(&mut self, task: usize) -> Instant {
        self.wakeups.set(task, Instant::MAX);
        self.wakeups.earliest().min(self.next_interval).min(self.next_of_settings())
    }

    /// Lets time pass for a process that waits until `wakeup` after it was polled, as long as
    /// nothing happens but completions of its I/O and timers of the stack; `other` is
    /// [`Self::next_of_others`]. Returns the instant at which it is to be polled again. Returns
    /// `None` if there is something else to do: the process then waits as any other.
    ///
    /// If only the time of the process itself has come, `others_until` becomes the instant before
    /// which nothing else happens, unless the process submits an I/O. Where tenants are watched,
    /// each wait is reported, and it stays as it is.
    #[inline(always)]
    fn pass_time(&mut self, task: usize, wakeup: Instant, turn: &mut Turn) -> Option<Instant> {
        if turn.other == Instant::ZERO {
            turn.other = self.next_of_others(task);
        }
        if turn.now >= turn.other || !self.ready.is_empty() || self.engine.has_done() {
            return self.keep_waiting(task, wakeup);
        }
        let mut span = self.engine.span(turn.now, wakeup, turn.other);
        while self.timeline.steps <= STEPS_AT_ONE_INSTANT {
            let Self { engine, timeline, jobs, layer, .. } = self;
            let on_time = move |stack: &mut Stack, now| timeline.advance(now, stack, jobs, layer);
            let passed = engine.pass_time(&mut span, on_time);
            let now = span.now();
            match passed {
                Passed::Moved => self.timeline.steps += 1,
                Passed::Waited(quiet_until) => {
                    if !self.engine.stack().control().is_watched() {
                        turn.others_until = quiet_until;
                    }
                    return Some(now);
                }
                Passed::Left => break,
            }
            if self.engine.has_done() {
                self.drain(now);
            }
            self.pass_events();
            if now == wakeup {
                self.make_ready(task);
            }
            if !self.ready.is_empty() {
                return self.go_on_with_ready(task, now, wakeup);
            }
        }
        self.keep_waiting(task, wakeup)
    }

    /// Lets time pass for a process that waits until `wakeup`, which comes before anything else.
    /// Returns that instant.
    #[inline]
    fn pass_own_time(&mut self, now: Instant, wakeup: Instant) -> Instant {
        if wakeup > now {
            self.engine.pass_quiet_time(wakeup);
            self.advance(wakeup);
        }
        now.max(wakeup)
    }

    /// Returns the present instant if the process is the only one that is ready. Otherwise all that
    /// are ready run before the next step begins.
    #[inline]
    fn go_on_with_ready(&mut self, task: usize, now: Instant, wakeup: Instant) -> Option<Instant> {
        if self.ready.front() == Some(&(task as u32)) && self.ready.len() == 1 {
            self.ready.clear();
            self.is_ready[task] = false;
            return Some(now);
        }
        self.goes_on = self.timeline.steps <= STEPS_AT_ONE_INSTANT;
        self.keep_waiting(task, wakeup)
    }

    /// Lets a process wait as any other, unless it is to be polled anyway.
    fn keep_waiting(&mut self, task: usize, wakeup: Instant) -> Option<Instant> {
        if !self.is_ready[task] {
            self.wakeups.set(task, wakeup);
        }
        None
    }
}
