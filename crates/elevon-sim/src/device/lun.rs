//! A rate-limited LUN: an array or cloud volume with a provisioned limit, as a guest sees it.
//!
//! A sliced token bucket in front of parallel servers: a slice of time admits a number of requests
//! at once, and later requests wait for the next slice. Latency is therefore bimodal, a burst and
//! then a stall, unlike a leaky bucket's (Firecracker and Cloud Hypervisor limit so). Slices are on
//! a fixed grid from time zero, or end up to `slice_jitter` early or late. A command costs
//! O(servers) to find the server that is free first, and O(log n) in the number of commands in
//! flight.

use elevon_core::driver::{Accept, Command, Completion};
use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, RequestId};

use super::parameter::{Parameter, parameters};
use super::queue::EventQueue;
use super::service::{DISTRIBUTIONS, Distribution, Service};
use super::{Description, Device};
use crate::chance::{draw, mix64};

/// Parameters of a LUN, in the units of [`PARAMETERS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LunConfig {
    /// Capacity.
    pub size: u64,
    /// Requests that a slice admits; 0 for no limit.
    pub slice_requests: u64,
    /// Length of a slice.
    pub slice: u64,
    /// Maximum deviation of a slice's length from the mean.
    pub slice_jitter: u64,
    /// Parallel servers.
    pub servers: u64,
    /// Mean service time.
    pub service: u64,
    /// Distribution of service times, an index of `DISTRIBUTIONS`.
    pub distribution: u64,
    /// Latency that does not occupy a server.
    pub base_latency: u64,
    /// Commands that the one hardware queue holds.
    pub queue_depth: u64,
}

impl Default for LunConfig {
    /// Proposal 003's volume: 4000 requests a second in slices of 250 ms.
    fn default() -> Self {
        Self {
            size: 1 << 40,
            slice_requests: 1000,
            slice: 250_000_000,
            slice_jitter: 0,
            servers: 32,
            service: 1_500_000,
            distribution: 2,
            base_latency: 1_500_000,
            queue_depth: 128,
        }
    }
}

/// The parameters of [`LunConfig`].
pub const PARAMETERS: &[Parameter<LunConfig>] = parameters! {
    size Size in (1 << 20, 1 << 60), "capacity";
    slice_requests Count in (0, 1 << 32), "requests that one slice admits; 0 for no limit";
    slice Time in (1_000, 3_600_000_000_000), "length of a slice; tokens are refilled when it ends";
    slice_jitter Share in (0, 900_000), "how much longer or shorter a slice may be (even spread)";
    servers Count in (1, 4096), "requests served at the same time";
    service Time in (0, 3_600_000_000_000), "mean time that a request holds a server";
    distribution Choice(DISTRIBUTIONS) in (0, 2), "spread of that time: none, uniform by 25 %, or exponential";
    base_latency Time in (0, 3_600_000_000_000), "time on the way that occupies nothing";
    queue_depth Count in (1, 65535), "commands that the hardware queue holds";
};

/// Purposes of draws.
const SERVICE: u64 = 0x1a_0001;
const SLICE: u64 = 0x1a_0002;

#[derive(Clone, Copy, Debug)]
struct InFlight {
    request: RequestId,
    sequence: u64,
    bytes: Bytes,
}

/// A LUN.
#[derive(Clone, Debug)]
pub struct Lun {
    description: Description,
    config: LunConfig,
    service: Service,
    /// Base of service draws, and the random seed of slice draws.
    service_seed: u64,
    seed: u64,
    slice_start: u64,
    slice_end: u64,
    slice_index: u64,
    tokens: u64,
    servers: Vec<u64>,
    done: EventQueue<InFlight>,
}

impl Lun {
    /// Returns a LUN with these parameters and `description`.
    pub fn new(config: LunConfig, description: Description, seed: u64) -> Self {
        let service = Service::new(Distribution::at(config.distribution), config.service, 250_000);
        let mut lun = Self {
            service,
            service_seed: draw(seed, SERVICE, 0),
            seed,
            slice_start: 0,
            slice_end: 0,
            slice_index: 0,
            tokens: 0,
            servers: vec![0; config.servers as usize],
            done: EventQueue::with_capacity(config.queue_depth as usize),
            description,
            config,
        };
        lun.begin_slice(0);
        lun
    }

    /// Returns how many requests a second the limiter allows in the long run; `None` without a
    /// limit.
    pub fn limit(config: &LunConfig) -> Option<f64> {
        (config.slice_requests > 0)
            .then(|| config.slice_requests as f64 * 1e9 / config.slice as f64)
    }

    fn begin_slice(&mut self, start: u64) {
        let spread = self.config.slice * self.config.slice_jitter / 1_000_000;
        let chance = draw(self.seed, SLICE, self.slice_index) >> 32;
        let stray = ((u128::from(2 * spread) * u128::from(chance)) >> 32) as u64;
        self.slice_start = start;
        self.slice_end = start + self.config.slice - spread + stray;
        self.slice_index += 1;
        self.tokens = self.config.slice_requests;
    }

    /// Returns when the limiter lets a request pass that arrives at `now`. Requests pass in the
    /// order of arrival.
    fn admit(&mut self, now: u64) -> u64 {
        if self.config.slice_requests == 0 {
            return now;
        }
        if self.config.slice_jitter == 0 && now >= self.slice_end {
            // The grid is regular: skip the slices without requests.
            self.begin_slice(now - now % self.config.slice);
        }
        while now >= self.slice_end || self.tokens == 0 {
            self.begin_slice(self.slice_end);
        }
        self.tokens -= 1;
        now.max(self.slice_start)
    }
}

impl Device for Lun {
    fn description(&self) -> &Description {
        &self.description
    }

    fn submit(&mut self, now: Instant, command: &Command) -> Accept {
        if self.done.len() as u64 >= self.config.queue_depth {
            return Accept::DeviceBusy;
        }
        let entry =
            InFlight { request: command.request, sequence: command.sequence, bytes: command.bytes };
        let base = self.config.base_latency;
        let end = match command.op {
            // There is no cache, so nothing has to be done.
            Op::Flush | Op::Discard | Op::SecureErase => now.get() + base,
            Op::Read | Op::Write | Op::ZoneAppend | Op::WriteZeroes => {
                let admitted = self.admit(now.get());
                let chance = (mix64(self.service_seed ^ command.sequence) >> 32) as u32;
                let first = self.servers.iter_mut().min().expect("there is at least one server");
                *first = admitted.max(*first) + self.service.draw(chance);
                *first + base
            }
        };
        self.done.push(Instant::new(end), command.sequence, entry);
        Accept::Ok
    }

    fn next_event(&self) -> Option<Instant> {
        self.done.next_at()
    }

    fn poll(&mut self, now: Instant) -> Option<Completion> {
        let (_, entry) = self.done.pop_due(now)?;
        Some(Completion {
            request: entry.request,
            sequence: entry.sequence,
            status: Status::Ok,
            bytes: entry.bytes,
        })
    }

    fn abort(&mut self, _now: Instant, command: &Command) -> bool {
        self.done.remove(command.sequence).is_some()
    }
}
