//! A process goes on within its turn while nothing happens but completions of its own I/O and
//! timers of the stack. The loop's steps would do the same, in the same order, and ask more.

use elevon_core::units::Instant;

use super::layer::Layer;
use super::{PATIENCE_INTERRUPTED, Runner, STEPS_AT_ONE_INSTANT};
use crate::backend::Backend;
use crate::source::Source;

/// The number of times that a process goes on before the loop looks for an interrupt.
pub(super) const MOST_WAITS: u32 = 64;

impl<B: Backend, L: Layer<S>, S: Source> Runner<'_, B, L, S> {
    /// Returns true if [`Self::pass_time`] may be asked about a process: waiting costs nothing, and
    /// neither a page cache, a probe nor a flow has to see each step.
    #[inline]
    pub(super) fn may_pass_time(&mut self, in_flow: bool) -> bool {
        B::WAITS_FREELY && L::IS_NONE && !in_flow && self.watcher.probe().is_none()
    }

    /// Returns when something else is due than completions of a process and timers of the stack.
    /// It stays the same until another process runs, or the loop makes a step.
    pub(super) fn next_of_others(&mut self, task: usize) -> Instant {
        self.wakeups.set(task, Instant::MAX);
        self.wakeups.earliest().min(self.next_interval).min(self.next_of_settings())
    }

    /// Lets time pass for a process that waits until `wakeup` after it was polled, as long as
    /// nothing happens but completions of its I/O and timers of the stack; `other` is
    /// [`Self::next_of_others`]. Returns the instant at which it is to be polled again. Returns
    /// `None` if there is something else to do: the process then waits as any other.
    ///
    /// If only the time of the process itself has come, `quiet_until` becomes the instant before
    /// which nothing else happens, unless the process submits an I/O. Where tenants are watched,
    /// each wait is reported, and it stays as it is.
    #[inline]
    pub(super) fn pass_time(
        &mut self,
        task: usize,
        mut now: Instant,
        wakeup: Instant,
        other: Instant,
        quiet_until: &mut Instant,
    ) -> Option<Instant> {
        if now >= other || !self.ready.is_empty() || self.stack.has_done() {
            return self.keep_waiting(task, wakeup);
        }
        let mut timer = self.next_of_stack();
        loop {
            let device_or_timer = self.backend.next_event().min(timer);
            if device_or_timer > now {
                let next = device_or_timer.min(wakeup);
                let is_abandoned = wakeup == Instant::MAX && self.stack.ios_in_flight() == 0;
                if next >= other || is_abandoned || now.since(self.last_progress) > PATIENCE_INTERRUPTED {
                    break;
                }
                if next > now {
                    now = next;
                    self.backend.wait_until(now);
                    self.note_wait();
                    self.advance(now);
                }
                if device_or_timer > now {
                    if !self.stack.control().is_watched() {
                        *quiet_until = device_or_timer.min(other);
                    }
                    return Some(now);
                }
            }
            let any = self.take_completions(now);
            if any {
                timer = self.next_of_stack();
            }
            if timer <= now {
                self.stack.handle_timers(now, self.backend);
                timer = self.next_of_stack();
            } else if !any {
                if now == wakeup {
                    return Some(now);
                }
                continue;
            }
            self.steps += 1;
            if self.stack.has_done() {
                self.drain(now);
            }
            self.pass_events();
            if now == wakeup {
                self.make_ready(task);
            }
            if !self.ready.is_empty() {
                return self.go_on_with_ready(task, now, wakeup);
            }
            if self.steps > STEPS_AT_ONE_INSTANT {
                break;
            }
        }
        self.keep_waiting(task, wakeup)
    }

    /// Lets time pass for a process that waits until `wakeup`, which comes before anything else.
    /// Returns that instant.
    #[inline]
    pub(super) fn pass_quiet_time(&mut self, now: Instant, wakeup: Instant) -> Instant {
        if wakeup > now {
            self.backend.wait_until(wakeup);
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
        self.goes_on = self.steps <= STEPS_AT_ONE_INSTANT;
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
