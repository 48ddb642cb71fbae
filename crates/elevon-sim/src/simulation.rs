//! A device in virtual time as the back end of a run: the clock jumps from event to event.

use elevon_core::driver::{Accept, Command, Completion, Driver, Pieces, TimeoutAction};
use elevon_core::units::Instant;
use elevon_workload::backend::Backend;

use crate::device::Device;

/// A simulated device with its clock. The clock moves only in [`Backend::wait`].
pub struct Simulation<D> {
    device: D,
    now: Instant,
    /// When the device next has work (`Instant::MAX` if never); `None` if it is not known, because
    /// the device was called since it was asked.
    next_event: Option<Instant>,
    interrupt: Option<Box<dyn Fn() -> bool>>,
}

impl<D: Device> Simulation<D> {
    /// Returns a simulation that starts at time zero.
    pub const fn new(device: D) -> Self {
        Self { device, now: Instant::ZERO, next_event: None, interrupt: None }
    }

    /// Uses `interrupt` to check if the user wants the run to stop.
    #[must_use]
    pub fn with_interrupt(mut self, interrupt: impl Fn() -> bool + 'static) -> Self {
        self.interrupt = Some(Box::new(interrupt));
        self
    }

    /// Returns the device.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// Returns the device, to be changed between steps (faults).
    pub const fn device_mut(&mut self) -> &mut D {
        self.next_event = None;
        &mut self.device
    }
}

impl<D: Device> Driver for Simulation<D> {
    #[inline(always)]
    fn queue_command(&mut self, now: Instant, command: &Command, _pieces: &dyn Pieces) -> Accept {
        self.next_event = None;
        self.device.submit(now, command)
    }

    fn handle_timeout(&mut self, now: Instant, command: &Command) -> TimeoutAction {
        // A command that the device does not abort, or has just completed, must not be ended here:
        // its request would be used again, and the late completion would end another command.
        self.next_event = None;
        if self.device.abort(now, command) { TimeoutAction::Aborted } else { TimeoutAction::ResetTimer }
    }
}

impl<D: Device> Backend for Simulation<D> {
    const WAITS_FREELY: bool = true;

    #[inline]
    fn now(&mut self) -> Instant {
        self.now
    }

    #[inline]
    fn interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|ask| ask())
    }

    #[inline(always)]
    fn poll_completion(&mut self) -> Option<Completion> {
        if self.next_event.is_some_and(|at| at > self.now) {
            return None;
        }
        self.next_event = None;
        let completion = self.device.poll(self.now);
        if completion.is_some() {
            // Most often there is no other, and the loop asks next when there will be.
            self.next_event();
        }
        completion
    }

    #[inline(always)]
    fn wait(&mut self, until: Option<Instant>) -> bool {
        let next = self.next_event().min(until.unwrap_or(Instant::MAX));
        if next == Instant::MAX {
            return false;
        }
        // An event may be overdue (its internal step was not run yet), but time never goes back.
        self.now = self.now.max(next);
        true
    }

    /// Asks the device once after each call of it.
    #[inline(always)]
    fn next_event(&mut self) -> Instant {
        if let Some(known) = self.next_event {
            return known;
        }
        let next = self.device.next_event().unwrap_or(Instant::MAX);
        self.next_event = Some(next);
        next
    }
}
