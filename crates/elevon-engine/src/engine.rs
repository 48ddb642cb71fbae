//! The engine: a stack and its back end behind few calls.
//!
//! The order of a caller's loop: [`Engine::step`] takes completions and runs timers,
//! [`Engine::poll_done`] and [`Engine::poll_unblocked`] tell what came of it, [`Engine::submit`]
//! adds I/O, and [`Engine::wait`] lets time pass until the next event. The clock is the back end's:
//! the same loop runs in virtual and in real time. Where waiting is free, [`Engine::pass_time`] is
//! a shorter way from one event to the next.
//!
//! Cost of each call, besides stack and back end: O(1), and nothing is allocated.

use elevon_core::stack::{Done, Io, Stack, Submitted};
use elevon_core::units::{Instant, Nanos, TaskId};

use crate::backend::Backend;

/// After so long without a completion [`Engine::pass_time`] leaves the device to its caller.
const SILENCE: Nanos = Nanos::from_secs(60);

/// A stack with its back end.
pub struct Engine<B> {
    stack: Stack,
    backend: B,
    /// The last instant at which a command completed, a call was done, or a wait ended while no
    /// I/O was at the device.
    last_progress: Instant,
    /// I/Os at the device at the end of the last wait.
    at_device: usize,
    /// The end of the last wait at the latest: until then no timer is due, unless a completion
    /// changes it. Zero if there was a step since that wait.
    next_due: Instant,
}

/// A span of virtual time that a caller lets pass, without I/O that it submits meanwhile; see
/// [`Engine::span`].
#[derive(Clone, Copy, Debug)]
pub struct Span {
    now: Instant,
    until: Instant,
    other: Instant,
    /// When the next timer of the stack is due; zero if that is asked for when the completions of
    /// this instant have been taken, because they may change it.
    timer: Instant,
}

impl Span {
    /// Returns the present instant.
    #[inline(always)]
    pub const fn now(&self) -> Instant {
        self.now
    }
}

/// What happened while time passed; see [`Engine::pass_time`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The device or the stack did something: most often, commands completed or timers ran.
    Moved,
    /// The time until which the caller waits has come. Unless I/O is submitted, nothing happens
    /// before this instant; zero if that is not known.
    Waited(Instant),
    /// The caller has to look: its next event comes first, the device has not answered for a
    /// minute, or nothing will ever happen. Time has passed to the last event before that.
    Left,
}

impl<B: Backend> Engine<B> {
    /// Returns the engine of a stack and the device below it. Nothing is in flight in either.
    pub fn new(stack: Stack, mut backend: B) -> Self {
        let now = backend.now();
        Self { stack, backend, last_progress: now, at_device: 0, next_due: Instant::ZERO }
    }

    /// Returns the stack.
    #[inline]
    pub const fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Returns the stack, to change its settings or to read its statistics.
    #[inline]
    pub const fn stack_mut(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// Returns the back end.
    #[inline]
    pub const fn backend(&self) -> &B {
        &self.backend
    }

    /// Returns the back end, for its buffers and its faults. Its completions are the engine's.
    #[inline]
    pub const fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }

    /// Returns both at once.
    #[inline]
    pub const fn parts(&mut self) -> (&mut Stack, &mut B) {
        (&mut self.stack, &mut self.backend)
    }

    /// Returns what the engine was made of.
    pub fn into_parts(self) -> (Stack, B) {
        (self.stack, self.backend)
    }

    /// Returns the time. In virtual time it changes only while the caller waits.
    #[inline(always)]
    pub fn now(&mut self) -> Instant {
        self.backend.now()
    }

    /// Submits an I/O. If its task sleeps ([`Submitted::Blocked`]), the task must not submit before
    /// [`Self::poll_unblocked`] returns it.
    #[inline(always)]
    pub fn submit(&mut self, io: Io) -> Submitted {
        let now = self.backend.now();
        self.stack.submit(now, io, &mut self.backend)
    }

    /// Begins a batch of a task: its I/Os gather in a plug until the batch ends.
    pub fn begin_batch(&mut self, task: TaskId) {
        let now = self.backend.now();
        self.stack.begin_batch(now, task);
    }

    /// Ends the batch of a task.
    pub fn end_batch(&mut self, task: TaskId) {
        let now = self.backend.now();
        self.stack.end_batch(now, task, &mut self.backend);
    }

    /// Returns true if something may be due at `now` that the last [`Self::wait`] was for: false in
    /// the step after a wait that a completion ended.
    #[inline(always)]
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next_due
    }

    /// Gives the completions of this instant to the stack, and runs its timers that are due.
    /// Returns true if there was something.
    #[inline(always)]
    pub fn step(&mut self, now: Instant) -> bool {
        let is_due = self.is_due(now);
        self.next_due = Instant::ZERO;
        let mut any = self.take_completions(now);
        if (is_due || any) && self.next_timer() <= now {
            self.stack.handle_timers(now, &mut self.backend);
            any = true;
        }
        any
    }

    /// Gives the completions of this instant to the stack. Returns true if there was one.
    #[inline(always)]
    fn take_completions(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(completion) = self.backend.poll_completion() {
            // A completed command is progress, however many commands an I/O needs.
            self.last_progress = now;
            self.stack.handle_completion(now, completion, &mut self.backend);
            any = true;
        }
        any
    }

    /// Returns true if [`Self::poll_done`] or [`Self::poll_unblocked`] has something.
    #[inline(always)]
    pub fn has_done(&self) -> bool {
        self.stack.has_done()
    }

    /// Returns the next I/O that is done, at the present instant.
    #[inline(always)]
    pub fn poll_done(&mut self, now: Instant) -> Option<&Done> {
        let done = self.stack.poll_done();
        if done.is_some() {
            self.last_progress = now;
        }
        done
    }

    /// Returns the next task that may submit again, of those that slept for a tag.
    #[inline(always)]
    pub fn poll_unblocked(&mut self) -> Option<TaskId> {
        self.stack.poll_unblocked()
    }

    /// Returns when the next timer of the stack is due; `Instant::MAX` if none is set.
    #[inline(always)]
    fn next_timer(&self) -> Instant {
        self.stack.next_timer().unwrap_or(Instant::MAX)
    }

    /// Waits until a command completes, a timer of the stack is due, or the time `until` has come
    /// (`Instant::MAX` for never), whichever is first. An interrupt ends the wait, too. Returns
    /// false if nothing can happen any more.
    #[inline]
    pub fn wait(&mut self, until: Instant) -> bool {
        let until = until.min(self.next_timer());
        self.next_due = until;
        let until = (until < Instant::MAX).then_some(until);
        let has_waited = self.backend.wait(until);
        self.note_wait();
        has_waited || until.is_some()
    }

    /// Notes how many I/Os the device has at the end of a wait.
    #[inline]
    fn note_wait(&mut self) {
        self.at_device = self.ios_at_device();
        if self.at_device == 0 {
            // The device had nothing to do, so it did not fail to answer.
            self.last_progress = self.backend.now();
        }
    }

    /// Returns the number of I/Os in flight that are not held by a tenant's rule.
    #[inline]
    fn ios_at_device(&self) -> usize {
        let all = self.stack.ios_in_flight();
        if all == 0 || !self.stack.control().is_active() {
            all
        } else {
            all - self.stack.control().held().min(all)
        }
    }

    /// Returns true if the device had I/Os for longer than `patience`, and completed none.
    #[inline]
    pub fn is_silent(&mut self, now: Instant, patience: Nanos) -> bool {
        now.since(self.last_progress) > patience && self.device_stands_still(now)
    }

    /// Returns true if the device has as many I/Os as at the end of the last wait. Otherwise some
    /// were issued or completed a moment ago, which is progress.
    #[cold]
    fn device_stands_still(&mut self, now: Instant) -> bool {
        let at_device = self.ios_at_device();
        if at_device > 0 && at_device == self.at_device {
            return true;
        }
        (self.at_device, self.last_progress) = (at_device, now);
        false
    }

    /// Notes that something of the caller's has moved on, as if the device had answered.
    pub const fn note_progress(&mut self, now: Instant) {
        self.last_progress = now;
    }

    /// Begins a span from `now` until `until`. Something else of the caller's is due at `other`.
    #[inline(always)]
    pub fn span(&mut self, now: Instant, until: Instant, other: Instant) -> Span {
        Span { now, until, other, timer: self.timer_after(now) }
    }

    /// Returns [`Span::timer`] at this instant.
    #[inline(always)]
    fn timer_after(&mut self, now: Instant) -> Instant {
        if self.backend.next_event() <= now { Instant::ZERO } else { self.next_timer() }
    }

    /// Lets time pass to the next instant of a span at which the device or the stack has something
    /// to do, and does it as [`Self::step`]; or to the end of the span. If something else of the
    /// caller's comes first, it is left to [`Self::wait`]. `on_time` is told of a new instant
    /// before anything happens at it.
    ///
    /// Called only where [`Backend::WAITS_FREELY`], and again until the span is over.
    #[inline(always)]
    pub fn pass_time(
        &mut self,
        span: &mut Span,
        on_time: impl FnOnce(&mut Stack, Instant),
    ) -> Passed {
        let next_event = self.backend.next_event().min(span.timer);
        if next_event > span.now {
            let next = next_event.min(span.until);
            let is_abandoned = span.until == Instant::MAX && self.stack.ios_in_flight() == 0;
            if next >= span.other || is_abandoned || span.now.since(self.last_progress) > SILENCE {
                return Passed::Left;
            }
            if next > span.now {
                span.now = next;
                self.backend.wait_until(next);
                self.note_wait();
                on_time(&mut self.stack, next);
            }
            if next_event > span.now {
                return Passed::Waited(next_event.min(span.other));
            }
        }
        let now = span.now;
        let any = self.take_completions(now);
        if any || span.timer == Instant::ZERO {
            span.timer = self.next_timer();
        }
        if span.timer <= now {
            self.stack.handle_timers(now, &mut self.backend);
            span.timer = self.timer_after(now);
        } else if !any && now == span.until {
            return Passed::Waited(Instant::ZERO);
        }
        Passed::Moved
    }

    /// Lets time pass until `at`, before which nothing happens ([`Passed::Waited`]).
    #[inline(always)]
    pub fn pass_quiet_time(&mut self, at: Instant) {
        self.backend.wait_until(at);
    }
}
