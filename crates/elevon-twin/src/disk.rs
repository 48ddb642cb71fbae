//! A simulated disk with bytes: the stack without a scheduler on a device model, in virtual time.
//!
//! The kernel above has its own block layer, so this one only keeps to the limits of the device.
//! Everything that happens is noted in a [`History`], from which power cuts are made.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use elevon_core::driver::{Accept, Command, Completion, Driver, Piece, Pieces, TimeoutAction};
use elevon_core::ioprio::IoPrio;
use elevon_core::op::{Flags, Op};
use elevon_core::status::Status;
use elevon_core::tenant::ROOT;
use elevon_core::units::{Bytes, Instant, Nanos, Sector, Sectors, TaskId};
use elevon_core::{Io, Layout, LayoutId, Stack, Submitted};
use elevon_engine::{Backend, Engine};
use elevon_sim::device::fault::Silent;
use elevon_sim::device::{AnyDevice, Description, Device, Fault};
use elevon_sim::profiles;
use elevon_sim::simulation::Simulation;

use crate::error::TwinError;
use crate::history::{History, Part};
use crate::image::Image;

/// Length of the longest I/O in bytes; the kernel's requests are shorter.
const MAX_IO: u64 = 64 << 20;

/// A disk to be made.
#[derive(Clone, Debug)]
pub struct DiskSpec {
    /// A profile or model, as `nvme-consumer` or `slots:slots=8,latency=2ms`.
    pub device: String,
    /// Faults, as `error:sectors=1000-2000,status=medium`.
    pub faults: Vec<String>,
    /// Random seed of the device and its faults.
    pub seed: u64,
    /// The size that the kernel sees, in bytes; the device's own if that is smaller.
    pub size: u64,
}

/// An I/O of the kernel.
#[derive(Clone, Debug)]
pub(crate) struct DiskIo {
    /// The caller's token, less than [`Disk::MAX_TOKENS`] and not in flight.
    pub(crate) token: u64,
    /// Read, write, flush, discard or write zeroes.
    pub(crate) op: Op,
    /// First sector.
    pub(crate) sector: Sector,
    /// Length in bytes, a multiple of the logical block size; 0 for a flush.
    pub(crate) bytes: u64,
    /// Priority.
    pub(crate) ioprio: IoPrio,
    /// The bytes of a write.
    pub(crate) data: Vec<u8>,
}

/// The end of an I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiskEnd {
    /// The token of the [`DiskIo`].
    pub(crate) token: u64,
    /// Its status.
    pub(crate) status: Status,
    /// The bytes of a read that ended with success.
    pub(crate) data: Vec<u8>,
}

/// A disk with its clock.
pub(crate) struct Disk {
    engine: Engine<Recorder>,
    layout: LayoutId,
    size: Sectors,
    ios: BTreeMap<u64, DiskIo>,
    /// I/Os that wait for a tag, in order.
    backlog: VecDeque<Io>,
    is_blocked: bool,
}

impl Disk {
    /// One more than the largest token.
    pub(crate) const MAX_TOKENS: u64 = 1 << 16;

    /// Makes a disk of zeroes, or one with these bytes.
    ///
    /// # Errors
    /// The device or a fault is not known, or they contradict each other.
    pub(crate) fn new(spec: &DiskSpec, image: Image) -> Result<Self, TwinError> {
        let device = profiles::open(&spec.device, spec.seed)
            .map_err(|error| TwinError::Device(error.to_string()))?;
        let device = Fault::parse(device, spec.seed, &spec.faults)
            .map_err(|error| TwinError::Device(error.to_string()))?;
        let description = device.description().clone();
        let block = u64::from(description.limits.physical_block_size.max(4096));
        let size = description.size.bytes().get().min(spec.size) / block * block;
        let mut config = description.stack_config();
        config.nomerges = 2;
        config.cpus = 1;
        let mut stack = Stack::new(config).map_err(|error| TwinError::Device(error.to_string()))?;
        let layout = stack.register_layout(Layout::contiguous(MAX_IO, 0));
        let simulation = Simulation::new(device).with_seed(spec.seed);
        let history = History::new(&description.limits, image.clone());
        let recorder = Recorder {
            simulation,
            image,
            history,
            payloads: BTreeMap::new(),
            flights: BTreeMap::new(),
            rotten: BTreeSet::new(),
        };
        Ok(Self {
            engine: Engine::new(stack, recorder),
            layout,
            size: Sectors::new(size / 512),
            ios: BTreeMap::new(),
            backlog: VecDeque::new(),
            is_blocked: false,
        })
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.size.bytes().get()
    }

    /// Returns the properties of the device.
    pub(crate) fn description(&self) -> &Description {
        self.engine.backend().simulation.device().description()
    }

    /// Returns the time that the disk has reached.
    pub(crate) fn now(&mut self) -> Instant {
        self.engine.now()
    }

    /// Returns when something happens next in the disk; `Instant::MAX` for never.
    pub(crate) fn next_event(&mut self) -> Instant {
        let timer = self.engine.stack().next_timer().unwrap_or(Instant::MAX);
        self.engine.backend_mut().next_event().min(timer)
    }

    /// Returns what the disk was told.
    pub(crate) fn history(&self) -> &History {
        &self.engine.backend().history
    }

    /// Notes that the program has written so many bytes to its standard output.
    pub(crate) fn note_output(&mut self, bytes: u64) {
        self.engine.backend_mut().history.note_output(bytes);
    }

    /// Returns how often each kind of fault has fired.
    pub(crate) fn faults(&self) -> BTreeMap<&'static str, u64> {
        self.engine.backend().simulation.device().fired_by_name()
    }

    /// Ends the disk. Returns its bytes and its history.
    pub(crate) fn into_parts(self) -> (Image, History) {
        let recorder = self.engine.into_parts().1;
        (recorder.image, recorder.history)
    }

    /// Submits an I/O at the present time. One that does not fit the disk ends with an error.
    pub(crate) fn submit(&mut self, mut io: DiskIo) {
        let DiskIo { token, op, sector, bytes, ioprio, .. } = io;
        assert!(token < Self::MAX_TOKENS && !self.ios.contains_key(&token), "token {token}");
        if !io.data.is_empty() {
            let data = std::mem::take(&mut io.data);
            self.engine.backend_mut().payloads.insert(token, data.into());
        }
        self.ios.insert(token, io);
        let io = Io {
            task: TaskId(0),
            token,
            op,
            flags: Flags::SYNC,
            sector,
            bytes: Bytes::new(bytes),
            ioprio,
            write_hint: 0,
            tenant: ROOT,
            layout: self.layout,
            may_block: true,
        };
        self.backlog.push_back(io);
        self.submit_backlog();
    }

    fn submit_backlog(&mut self) {
        while !self.is_blocked
            && let Some(io) = self.backlog.pop_front()
        {
            self.is_blocked = self.engine.submit(io) == Submitted::Blocked;
        }
    }

    /// Lets time pass until an I/O may have ended or `until` has come, whichever is first. Returns
    /// the time; `Instant::MAX` if nothing can happen any more.
    pub(crate) fn wait(&mut self, until: Instant) -> Instant {
        if !self.engine.wait(until) {
            return Instant::MAX;
        }
        let now = self.engine.now();
        self.engine.step(now);
        while self.engine.poll_unblocked().is_some() {
            self.is_blocked = false;
        }
        self.submit_backlog();
        now
    }

    /// Returns the next I/O that has ended.
    pub(crate) fn poll(&mut self) -> Option<DiskEnd> {
        let now = self.engine.now();
        let done = *self.engine.poll_done(now)?;
        let io = self.ios.remove(&done.token)?;
        let recorder = self.engine.backend_mut();
        recorder.payloads.remove(&io.token);
        let is_rotten = recorder.rotten.remove(&io.token);
        let mut data = Vec::new();
        if io.op == Op::Read && done.status.is_ok() {
            data = vec![0; io.bytes as usize];
            recorder.image.read(io.sector.byte_offset().get(), &mut data);
            if let (true, Some(first)) = (is_rotten, data.first_mut()) {
                *first ^= 1;
            }
        }
        Some(DiskEnd { token: io.token, status: done.status, data })
    }
}

/// A command in the device.
struct Flight {
    command: Command,
    parts: Vec<Part>,
    tokens: Vec<u64>,
    silent: Option<Silent>,
    /// Bytes that earlier, partial completions moved.
    moved: u64,
}

/// The device with its bytes and its history.
struct Recorder {
    simulation: Simulation<Fault<AnyDevice>>,
    image: Image,
    history: History,
    /// The bytes of writes, by token.
    payloads: BTreeMap<u64, Arc<[u8]>>,
    /// Commands in the device, by sequence number.
    flights: BTreeMap<u64, Flight>,
    /// Reads that bring other data than was written, by token.
    rotten: BTreeSet<u64>,
}

impl Recorder {
    /// Moves the bytes of a command that a completion ends, or a part of it.
    fn carry_out(&mut self, completion: &Completion) {
        let Some(flight) = self.flights.get_mut(&completion.sequence) else { return };
        let (from, to) = (flight.moved, flight.moved + completion.bytes.get());
        flight.moved = to;
        let silent = flight.silent.filter(|_| completion.status.is_ok());
        match silent {
            Some(Silent::Rotten) => self.rotten.extend(&flight.tokens),
            Some(Silent::Lost) => {}
            Some(Silent::Misdirected(_)) | None => {
                let first = flight.command.sector.byte_offset().get();
                let mut start = 0;
                for part in &flight.parts {
                    let skip = from.saturating_sub(start).min(part.length);
                    let until = to.saturating_sub(start).min(part.length);
                    start += part.length;
                    let mut part = part.clone();
                    if let Some(Silent::Misdirected(sector)) = silent {
                        part.offset = part.offset - first + sector.byte_offset().get();
                    }
                    if skip < until {
                        part.apply(&mut self.image, skip, until);
                    }
                }
            }
        }
        let is_over = !completion.status.is_ok() || flight.moved >= flight.command.bytes.get();
        if is_over && let Some(flight) = self.flights.remove(&completion.sequence) {
            let now = self.simulation.now();
            self.history.note(now, &flight.command, Some(completion.status));
        }
    }

    /// Returns the parts of a write.
    fn parts(&self, command: &Command, pieces: &[Piece]) -> Vec<Part> {
        if !command.op.is_write() {
            return Vec::new();
        }
        let part = |piece: &Piece| {
            let data = match command.op {
                Op::Write => self.payloads.get(&piece.token).cloned(),
                _ => None,
            };
            Part {
                offset: piece.sector.byte_offset().get(),
                length: piece.len,
                data: data.map(|data| (data, piece.offset as usize)),
            }
        };
        pieces.iter().map(part).collect()
    }
}

impl Driver for Recorder {
    fn queue_command(&mut self, now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept {
        let accept = self.simulation.queue_command(now, command, pieces);
        if accept == Accept::Ok {
            let mut all = Vec::new();
            pieces.for_each(&mut |piece| all.push(piece));
            let parts = self.parts(command, &all);
            if !parts.is_empty() {
                self.history.note_write(command, parts.clone());
            }
            self.history.note(now, command, None);
            let flight = Flight {
                command: *command,
                parts,
                tokens: all.iter().map(|piece| piece.token).collect(),
                silent: self.simulation.device().silent(command),
                moved: 0,
            };
            self.flights.insert(command.sequence, flight);
        }
        accept
    }

    fn worker_delay(&mut self) -> Nanos {
        Nanos::ZERO
    }

    fn handle_timeout(&mut self, now: Instant, command: &Command) -> TimeoutAction {
        let action = self.simulation.handle_timeout(now, command);
        if action == TimeoutAction::Aborted {
            self.flights.remove(&command.sequence);
            self.history.note(now, command, Some(Status::Timeout));
        }
        action
    }
}

impl Backend for Recorder {
    const WAITS_FREELY: bool = true;
    const HAS_BYTES: bool = false;

    fn now(&mut self) -> Instant {
        self.simulation.now()
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        let completion = self.simulation.poll_completion()?;
        self.carry_out(&completion);
        Some(completion)
    }

    fn wait(&mut self, until: Option<Instant>) -> bool {
        self.simulation.wait(until)
    }

    fn next_event(&mut self) -> Instant {
        self.simulation.next_event()
    }

    fn wait_until(&mut self, at: Instant) {
        self.simulation.wait_until(at);
    }
}
