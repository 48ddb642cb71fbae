//! A closed loop on a bare device: keeps a fixed number of commands in flight and measures them.
//!
//! Device tests and the predictions of `elevon devices NAME` use it; there is no block layer in
//! between. Every client submits its next command at the instant when its last one completed, in
//! the order of the completions.

use elevon_core::driver::{Accept, Command};
use elevon_core::ioprio::IoPrio;
use elevon_core::op::{Flags, Op};
use elevon_core::units::{Bytes, HwQueue, Instant, Nanos, RequestId, Sector, Sectors, Tag};

use super::Device;
use crate::chance::{below, draw, mix64};

/// The order in which the range is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Uniformly random, aligned to the size of a command.
    Random,
    /// Sequential from the start, and from the start again at the end.
    Sequential,
}

/// The plan of a closed loop.
#[derive(Clone, Copy, Debug)]
pub struct ClosedLoop {
    /// Commands in flight, at least 1.
    pub depth: u32,
    /// Number of commands.
    pub ios: u64,
    /// Bytes of each command, a multiple of 512.
    pub bytes: Bytes,
    /// Read, write, discard, flush.
    pub op: Op,
    /// Flags of each command.
    pub flags: Flags,
    /// The order of positions.
    pub order: Order,
    /// First sector of the range.
    pub start: Sector,
    /// Length of the range; limited to the device's end.
    pub length: Sectors,
    /// Random seed of the positions.
    pub seed: u64,
}

impl Default for ClosedLoop {
    /// 4 KiB random reads over the whole device, one at a time.
    fn default() -> Self {
        Self {
            depth: 1,
            ios: 10_000,
            bytes: Bytes::new(4096),
            op: Op::Read,
            flags: Flags::NONE,
            order: Order::Random,
            start: Sector::ZERO,
            length: Sectors::MAX,
            seed: 1,
        }
    }
}

/// The result of a closed loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Commands completed.
    pub ios: u64,
    /// Commands of these with an error, including refused ones.
    pub errors: u64,
    /// Bytes moved.
    pub bytes: Bytes,
    /// Time from the first submission to the last completion.
    pub elapsed: Nanos,
    /// Sum of latencies, in nanoseconds.
    pub latency_sum: u128,
    /// Shortest latency.
    pub latency_min: Nanos,
    /// Longest latency.
    pub latency_max: Nanos,
    /// Commands in flight integrated over time, in command-nanoseconds.
    pub in_flight_integral: u128,
    /// A digest of every (time, command, status): the same for the same random seed, on every
    /// machine.
    pub digest: u64,
}

impl Measured {
    /// Returns commands per second.
    pub fn iops(&self) -> f64 {
        self.ios as f64 * 1e9 / self.elapsed.get().max(1) as f64
    }
    /// Returns bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes.get() as f64 * 1e9 / self.elapsed.get().max(1) as f64
    }
    /// Returns the mean latency, rounded down.
    #[cfg(test)]
    pub(crate) fn mean_latency(&self) -> Nanos {
        Nanos::new((self.latency_sum / u128::from(self.ios.max(1))) as u64)
    }
    /// Returns the mean number of commands in flight.
    pub fn mean_in_flight(&self) -> f64 {
        self.in_flight_integral as f64 / self.elapsed.get().max(1) as f64
    }
}

/// Returns a command of `bytes` at `sector`, with `id` for its request, sequence and tag, on
/// hardware queue 0.
pub fn command(id: u32, op: Op, sector: u64, bytes: u64) -> Command {
    Command {
        request: RequestId(id),
        sequence: id.into(),
        queue: HwQueue(0),
        tag: Tag(id),
        op,
        flags: Flags::NONE,
        ioprio: IoPrio::NONE,
        sector: Sector::new(sector),
        bytes: Bytes::new(bytes),
    }
}

/// Returns a read [`command`].
#[cfg(test)]
pub(crate) fn read_command(id: u32, sector: u64, bytes: u64) -> Command {
    command(id, Op::Read, sector, bytes)
}

struct Clients<'a> {
    plan: &'a ClosedLoop,
    blocks: u64,
    hw_queues: u32,
    sequence: u64,
    issued: Vec<Instant>,
    in_flight: u64,
    last: Instant,
    measured: Measured,
}

impl Clients<'_> {
    fn next_command(&mut self, client: u32) -> Command {
        let sequence = self.sequence;
        self.sequence += 1;
        let block = match self.plan.order {
            Order::Random => below(draw(self.plan.seed, 0, sequence), self.blocks),
            Order::Sequential => sequence % self.blocks,
        };
        let (sector, bytes) = match self.plan.op {
            Op::Flush => (Sector::ZERO, Bytes::ZERO),
            _ => (
                self.plan.start + Sectors::new(block * self.plan.bytes.sectors_floor().get()),
                self.plan.bytes,
            ),
        };
        Command {
            request: RequestId(client),
            sequence,
            queue: HwQueue((client % self.hw_queues) as u16),
            tag: Tag(client / self.hw_queues),
            op: self.plan.op,
            flags: self.plan.flags,
            ioprio: IoPrio::NONE,
            sector,
            bytes,
        }
    }

    /// Submits until the device accepts a command, or the plan is complete. A refused command
    /// counts as an error.
    fn submit<D: Device + ?Sized>(&mut self, device: &mut D, now: Instant, client: u32) {
        while self.sequence < self.plan.ios {
            let command = self.next_command(client);
            if device.submit(now, &command) == Accept::Ok {
                self.advance(now);
                self.in_flight += 1;
                self.issued[client as usize] = now;
                return;
            }
            self.measured.ios += 1;
            self.measured.errors += 1;
        }
    }

    fn advance(&mut self, now: Instant) {
        self.measured.in_flight_integral +=
            u128::from(self.in_flight) * u128::from((now - self.last).get());
        self.last = now;
    }
}

/// Runs a closed loop to its end and measures it. The device must be idle at the start, and must
/// complete all accepted commands.
pub fn closed_loop<D: Device + ?Sized>(device: &mut D, plan: &ClosedLoop) -> Measured {
    let size = device.description().size;
    let length = plan.length.get().min(size.get().saturating_sub(plan.start.get()));
    let mut clients = Clients {
        plan,
        blocks: (length / plan.bytes.sectors_floor().get().max(1)).max(1),
        hw_queues: device.description().hw_queues.into(),
        sequence: 0,
        issued: vec![Instant::default(); plan.depth as usize],
        in_flight: 0,
        last: Instant::default(),
        measured: Measured { latency_min: Nanos::MAX, ..Measured::default() },
    };
    for client in 0..plan.depth {
        clients.submit(device, Instant::default(), client);
    }
    while let Some(now) = device.next_event() {
        while let Some(completion) = device.poll(now) {
            clients.advance(now);
            clients.in_flight -= 1;
            let client = completion.request.0;
            let latency = now - clients.issued[client as usize];
            let m = &mut clients.measured;
            m.ios += 1;
            m.errors += u64::from(!completion.status.is_ok());
            m.bytes += completion.bytes;
            m.latency_sum += u128::from(latency.get());
            m.latency_min = m.latency_min.min(latency);
            m.latency_max = m.latency_max.max(latency);
            m.elapsed = now - Instant::default();
            m.digest = mix64(
                m.digest
                    ^ mix64(
                        now.get()
                            ^ mix64(u64::from(client) << 8 | completion.status.errno() as u64),
                    ),
            );
            clients.submit(device, now, client);
        }
    }
    clients.measured
}
