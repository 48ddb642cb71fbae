//! A device whose commands are counted: those that wait inside a scheduler are not in it.

use std::cell::Cell;
use std::rc::Rc;

use elevon_core::driver::{Accept, Command, Completion};
use elevon_core::units::{Instant, Nanos};
use elevon_sim::device::{Description, Device};

/// Commands that a device holds, over time.
#[derive(Debug, Default)]
pub(crate) struct Held {
    count: Cell<u64>,
    since: Cell<Instant>,
    integral: Cell<u128>,
}

impl Held {
    fn change(&self, now: Instant, change: i64) {
        self.integral.set(self.integral(now));
        self.since.set(now.max(self.since.get()));
        self.count.set(self.count.get().saturating_add_signed(change));
    }

    /// Returns the sum of the times that commands were in the device until now, in nanoseconds.
    pub(crate) fn integral(&self, now: Instant) -> u128 {
        let span = if now > self.since.get() { now.since(self.since.get()) } else { Nanos::ZERO };
        self.integral.get() + u128::from(self.count.get()) * u128::from(span.get())
    }
}

/// A device whose commands are counted.
#[derive(Debug)]
pub(crate) struct Watched<D> {
    device: D,
    held: Rc<Held>,
}

impl<D> Watched<D> {
    /// Returns the device and what it holds.
    pub(crate) fn new(device: D) -> (Self, Rc<Held>) {
        let held = Rc::new(Held::default());
        (Self { device, held: Rc::clone(&held) }, held)
    }
}

impl<D: Device> Device for Watched<D> {
    fn description(&self) -> &Description {
        self.device.description()
    }

    fn submit(&mut self, now: Instant, command: &Command) -> Accept {
        let accept = self.device.submit(now, command);
        if accept == Accept::Ok {
            self.held.change(now, 1);
        }
        accept
    }

    fn next_event(&self) -> Option<Instant> {
        self.device.next_event()
    }

    fn poll(&mut self, now: Instant) -> Option<Completion> {
        let completion = self.device.poll(now)?;
        self.held.change(now, -1);
        Some(completion)
    }

    fn abort(&mut self, now: Instant, command: &Command) -> bool {
        let is_gone = self.device.abort(now, command);
        if is_gone {
            self.held.change(now, -1);
        }
        is_gone
    }
}
