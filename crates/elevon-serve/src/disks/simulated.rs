//! A simulated device as a disk: its bytes are kept in memory, and it takes as long as its model
//! says.
//!
//! The clock is an argument, so that the server's device loop can be tested in virtual time.
//! Commands that end with an error move the bytes before the error only, and the silent faults of
//! [`elevon_sim::device::fault`] (a lost, a misdirected write, a read that brings something else)
//! really happen to the bytes.

#[cfg(test)]
mod power_cut;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use elevon_cache::FrameId;
use elevon_cache::page_cache::ByteCopy;
use elevon_core::driver::{Accept, Command, Completion, Driver, Piece, Pieces, TimeoutAction};
use elevon_core::op::Op;
use elevon_core::units::{Bytes, Instant, TaskId};
use elevon_engine::Backend;
use elevon_host::interrupt::Interrupt;
use elevon_host::{Alarm, Promises};
use elevon_sim::device::fault::Silent;
use elevon_sim::device::{Device, Fault};

use crate::disks::faulty::rules_of;
use crate::disks::memory::SparseBytes;
use crate::disks::slots::Slots;
use crate::disks::{Allocation, Disk};

/// The clock of a simulated disk.
pub trait Clock {
    /// Returns the time. It never goes backwards.
    fn now(&mut self) -> Instant;
    /// Waits until this time, or until the clock's alarm rings; without a time, for the alarm.
    /// Returns false if nothing can happen any more.
    fn wait(&mut self, until: Option<Instant>) -> bool;
    /// Returns the alarm.
    ///
    /// # Errors
    /// No descriptor can be created.
    fn alarm(&mut self) -> io::Result<Alarm>;
}

/// The machine's monotonic clock, from the time of its creation.
#[derive(Debug)]
pub struct RealClock {
    epoch: std::time::Instant,
    alarm: Alarm,
}

/// How long a wait without a time lasts, after which it is begun again.
const MAX_WAIT: Duration = Duration::from_secs(3600);

impl RealClock {
    /// Starts the clock.
    ///
    /// # Errors
    /// No descriptor can be created.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoch: std::time::Instant::now(), alarm: Alarm::new()? })
    }
}

impl Clock for RealClock {
    fn now(&mut self) -> Instant {
        Instant::new(self.epoch.elapsed().as_nanos() as u64)
    }

    fn wait(&mut self, until: Option<Instant>) -> bool {
        let now = self.now();
        self.alarm
            .wait(until.map_or(MAX_WAIT, |until| Duration::from_nanos(until.since(now).get())));
        true
    }

    fn alarm(&mut self) -> io::Result<Alarm> {
        Ok(self.alarm.clone())
    }
}

/// A command in the device.
#[derive(Debug, Default)]
struct Flight {
    sequence: Option<u64>,
    op: Option<Op>,
    /// The last command of this request, whose success may promise that data is durable.
    command: Option<Command>,
    pieces: Vec<Piece>,
    silent: Option<Silent>,
    first: u64,
    /// Bytes that earlier, partial completions moved.
    moved: u64,
}

/// A simulated device with bytes.
pub struct SimulatedDisk<D, C> {
    device: Fault<D>,
    clock: C,
    interrupt: Interrupt,
    slots: Slots,
    /// Commands in the device, by request.
    flights: Vec<Flight>,
    bytes: SparseBytes,
    promises: Promises,
    /// The time that the device has reached.
    reached: Instant,
    /// Commands that ended when the device was brought to the time of a new one.
    ended: VecDeque<Completion>,
    /// What each block was ever told to hold, by the number of the write; kept if the power may be
    /// cut.
    #[cfg(test)]
    writes: Option<power_cut::Writes>,
    /// No buffers can be made.
    #[cfg(test)]
    pub(crate) is_out_of_memory: bool,
}

impl<D: Device, C: Clock> SimulatedDisk<D, C> {
    /// Creates a disk that reads as zeroes.
    pub fn new(mut device: Fault<D>, clock: C) -> Self {
        device.expect_changes();
        Self {
            device,
            clock,
            interrupt: Interrupt::new(),
            slots: Slots::default(),
            flights: Vec::new(),
            bytes: SparseBytes::default(),
            promises: Promises::default(),
            reached: Instant::ZERO,
            ended: VecDeque::new(),
            #[cfg(test)]
            writes: None,
            #[cfg(test)]
            is_out_of_memory: false,
        }
    }

    /// Returns the device.
    pub const fn device(&self) -> &Fault<D> {
        &self.device
    }

    /// Returns the bytes of a range as they are now.
    pub fn peek(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let mut into = vec![0; bytes];
        self.bytes.read(offset, &mut into);
        into
    }

    /// Moves the bytes of a command that a completion ends, or a part of it.
    fn carry_out(&mut self, completion: &Completion) {
        let Some(flight) = self.flights.get_mut(completion.request.index()) else { return };
        if flight.sequence != Some(completion.sequence) {
            return;
        }
        let (from, to) = (flight.moved, flight.moved + completion.bytes.get());
        flight.moved = to;
        let all: u64 = flight.pieces.iter().map(|piece| piece.len).sum();
        let silent = flight.silent.filter(|_| completion.status.is_ok());
        let mut start = 0;
        for piece in &flight.pieces {
            let skip = from.saturating_sub(start).min(piece.len);
            let until = to.saturating_sub(start).min(piece.len);
            start += piece.len;
            if skip >= until {
                continue;
            }
            let mut at = piece.sector.byte_offset().get() + skip;
            if let Some(Silent::Misdirected(sector)) = silent {
                at = at - flight.first + sector.byte_offset().get();
            }
            let length = until - skip;
            let (slots, bytes) = (&mut self.slots, &mut self.bytes);
            match flight.op {
                Some(Op::Read) => {
                    let mut is_rotten = silent == Some(Silent::Rotten);
                    slots.for_each_part(piece, skip, length, |buffer| {
                        bytes.read(at, buffer);
                        at += buffer.len() as u64;
                        if let (true, Some(byte)) =
                            (std::mem::take(&mut is_rotten), buffer.first_mut())
                        {
                            *byte ^= 1;
                        }
                    });
                }
                _ if silent == Some(Silent::Lost) => {}
                Some(Op::Write) => slots.for_each_part(piece, skip, length, |part| {
                    bytes.write(at, part);
                    at += part.len() as u64;
                }),
                Some(Op::Discard | Op::SecureErase | Op::WriteZeroes) => {
                    self.bytes.clear(at, length);
                }
                _ => {}
            }
        }
        if !completion.status.is_ok() || to >= all {
            flight.sequence = None;
        }
    }
}

impl<D: Device, C: Clock> SimulatedDisk<D, C> {
    /// Brings the device to a time before it is told something new. A model looks at events in
    /// their order, but this clock goes on while the device's thread computes, and the caller may
    /// have looked at it before the device did. Returns the time that the device has reached.
    fn catch_up(&mut self, now: Instant) -> Instant {
        self.reached = self.reached.max(now);
        while self.device.next_event().is_some_and(|at| at <= self.reached)
            && let Some(completion) = self.device.poll(self.reached)
        {
            let ended = self.end(completion);
            self.ended.push_back(ended);
        }
        self.reached
    }

    /// Moves the bytes of a command that ended. Returns its completion for the stack.
    fn end(&mut self, completion: Completion) -> Completion {
        self.carry_out(&completion);
        let flight = self.flights.get(completion.request.index());
        let command = flight
            .and_then(|flight| flight.command)
            .filter(|of| of.sequence == completion.sequence);
        let settled = command.map(|command| self.promises.settle(&command, completion.status));
        Completion { status: settled.unwrap_or(completion.status), ..completion }
    }
}

impl<D: Device, C: Clock> Driver for SimulatedDisk<D, C> {
    fn queue_command(&mut self, now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept {
        let now = self.catch_up(now);
        let accept = self.device.submit(now, command);
        let index = command.request.index();
        if index >= self.flights.len() {
            self.flights.resize_with(index + 1, Flight::default);
        }
        self.flights[index].command = Some(*command);
        if accept == Accept::Ok && command.op != Op::Flush {
            let silent = self.device.silent(command);
            let flight = &mut self.flights[index];
            flight.pieces.clear();
            pieces.for_each(&mut |piece| flight.pieces.push(piece));
            (flight.sequence, flight.op) = (Some(command.sequence), Some(command.op));
            (flight.silent, flight.first, flight.moved) =
                (silent, command.sector.byte_offset().get(), 0);
            #[cfg(test)]
            if command.op != Op::Read {
                self.keep(command);
            }
        }
        accept
    }

    fn handle_timeout(&mut self, now: Instant, command: &Command) -> TimeoutAction {
        let now = self.catch_up(now);
        // A command that the device does not abort will complete, and must not be ended here.
        if !self.device.abort(now, command) {
            return TimeoutAction::ResetTimer;
        }
        if let Some(flight) = self.flights.get_mut(command.request.index()) {
            flight.sequence = None;
        }
        TimeoutAction::Aborted
    }
}

impl<D: Device, C: Clock> Backend for SimulatedDisk<D, C> {
    fn now(&mut self) -> Instant {
        self.clock.now()
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        if let Some(ended) = self.ended.pop_front() {
            return Some(ended);
        }
        self.reached = self.reached.max(self.clock.now());
        let completion = self.device.poll(self.reached)?;
        Some(self.end(completion))
    }

    fn wait(&mut self, until: Option<Instant>) -> bool {
        let ended = (!self.ended.is_empty()).then_some(self.reached);
        let next = [ended, self.device.next_event(), until].into_iter().flatten().min();
        self.clock.wait(next) && !self.interrupt.is_set()
    }

    fn buffer(&mut self, task: TaskId, token: u64) -> Option<&mut [u8]> {
        self.slots.slot(task, token)
    }

    fn bind_frames(&mut self, bio: u32, frames: &[FrameId]) {
        self.slots.bind(bio, frames);
    }

    fn move_bytes(&mut self, copy: &ByteCopy) {
        self.slots.carry_out(copy);
    }
}

impl<D: Device, C: Clock> Disk for SimulatedDisk<D, C> {
    fn is_lost(&self) -> bool {
        self.promises.broken().is_some()
    }

    fn alarm(&mut self) -> io::Result<Alarm> {
        self.clock.alarm()
    }

    fn allocation(&mut self, offset: u64, bytes: u64) -> Allocation {
        Allocation::Known(self.bytes.extents(offset, bytes))
    }

    fn zero(&self, _no_hole: bool) -> Option<Op> {
        Some(Op::WriteZeroes)
    }

    fn faults(&self) -> BTreeMap<&'static str, u64> {
        self.device.fired_by_name()
    }

    fn set_faults(&mut self, rules: &[String]) -> Result<(), String> {
        let rules = rules_of(rules, self.device.description().size)?;
        let now = self.clock.now();
        self.device.replace(now, rules).map_err(|error| error.to_string())
    }

    fn zeroes_fast(&self) -> bool {
        true
    }

    fn make_buffers(&mut self, task: TaskId, slots: u32, bytes: u64) -> io::Result<()> {
        #[cfg(test)]
        if self.is_out_of_memory {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.slots.prepare(task, slots, bytes)
    }

    fn empty_buffer(&mut self, task: TaskId, token: u64) {
        self.slots.empty(task, token);
    }

    fn reserve_frames(&mut self, memory: Bytes) -> io::Result<()> {
        self.slots.reserve_frames(memory);
        Ok(())
    }
}
