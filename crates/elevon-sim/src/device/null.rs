//! `null`: every command completes a constant time after its submission; with `latency=0` at the
//! same instant.
//!
//! Cost: O(1) per command and only a ring: a constant latency keeps completions in the order of
//! submission.

use std::collections::VecDeque;

use elevon_core::driver::{Accept, Command, Completion};
use elevon_core::limits::QueueLimits;
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, RequestId, Sectors};

use super::parameter::{self, HOUR, Parameter, SWITCH, parameters};
use super::text::TextError;
use super::{Description, Device, in_range};

/// Parameters of a `null` device. Limits are those of Linux's null_blk: 512-byte blocks, requests
/// of up to 1280 KiB, 128 segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NullParameters {
    /// Size.
    pub size: Bytes,
    /// Time from submission to completion.
    pub latency: Nanos,
    /// Hardware queues.
    pub hw_queues: u16,
    /// Commands that each hardware queue holds.
    pub queue_depth: u32,
    /// Whether it reports to be rotational.
    pub rotational: bool,
    /// Whether it reports a volatile write cache, so that flushes reach it.
    pub write_cache: bool,
    /// Whether it reports FUA.
    pub fua: bool,
}

impl Default for NullParameters {
    fn default() -> Self {
        Self {
            size: Bytes::new(100 << 30),
            latency: Nanos::ZERO,
            hw_queues: 1,
            queue_depth: 64,
            rotational: false,
            write_cache: false,
            fua: false,
        }
    }
}

impl NullParameters {
    /// The keys of the text form.
    pub(crate) const KEYS: &[Parameter<Self>] = parameters! {
        size Blocks in (4096, 1 << 63), "capacity";
        latency Time in (0, HOUR), "from submission to completion; 0: in the same instant";
        hw_queues Count in (1, 1024), "hardware queues";
        queue_depth Count in (1, 65536), "commands that each hardware queue holds";
        rotational Switch in SWITCH, "1: the queue says rotational, which schedulers look at";
        write_cache Switch in SWITCH, "1: it has a volatile write cache, so that flushes reach it";
        fua Switch in SWITCH, "1: it can write through that cache (FUA)";
    };

    /// Parses the text form, for example `size=100GiB,latency=0`.
    ///
    /// # Errors
    /// There is no such key, it is given twice, or its value is not valid.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        parameter::parse("device null", Self::KEYS, text)
    }

    fn limits(&self) -> QueueLimits {
        QueueLimits {
            max_hw_sectors: Sectors::new(2560),
            rotational: self.rotational,
            rotational_written_later: self.rotational,
            write_cache: self.write_cache,
            fua: self.fua,
            ..super::limits_without_medium()
        }
    }
}

/// A `null` device.
#[derive(Clone, Debug)]
pub struct Null {
    description: Description,
    latency: Nanos,
    in_flight: VecDeque<InFlight>,
    /// When the first of them completes; `Instant::MAX` if there is none.
    next: Instant,
}

/// A command, which will succeed.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    at: Instant,
    request: RequestId,
    sequence: u64,
    bytes: Bytes,
}

impl Null {
    /// Returns a device with these parameters.
    pub fn new(parameters: &NullParameters) -> Self {
        let description = Description {
            name: "null".into(),
            size: parameters.size.sectors_floor(),
            limits: parameters.limits(),
            hw_queues: parameters.hw_queues,
            queue_depth: parameters.queue_depth,
        };
        let in_flight = VecDeque::with_capacity(description.capacity());
        Self { description, latency: parameters.latency, in_flight, next: Instant::MAX }
    }
}

impl Null {
    pub(super) const fn description_mut(&mut self) -> &mut Description {
        &mut self.description
    }

    /// Finds when the first command completes, after one has left.
    #[inline]
    fn find_next(&mut self) {
        self.next = self.in_flight.front().map_or(Instant::MAX, |first| first.at);
    }
}

impl Device for Null {
    fn description(&self) -> &Description {
        &self.description
    }

    #[inline(always)]
    fn submit(&mut self, now: Instant, command: &Command) -> Accept {
        if !in_range(&self.description, command) {
            return Accept::Error(Status::IoError);
        }
        let &Command { request, sequence, bytes, .. } = command;
        let at = now + self.latency;
        if self.in_flight.is_empty() {
            self.next = at;
        }
        self.in_flight.push_back(InFlight { at, request, sequence, bytes });
        Accept::Ok
    }

    #[inline]
    fn next_event(&self) -> Option<Instant> {
        (self.next < Instant::MAX).then_some(self.next)
    }

    #[inline]
    fn poll(&mut self, now: Instant) -> Option<Completion> {
        if self.next > now {
            return None;
        }
        let InFlight { request, sequence, bytes, .. } = self.in_flight.pop_front()?;
        self.find_next();
        Some(Completion { request, sequence, status: Status::Ok, bytes })
    }

    fn abort(&mut self, _now: Instant, command: &Command) -> bool {
        let position = self.in_flight.iter().position(|entry| entry.sequence == command.sequence);
        let is_aborted = position.and_then(|position| self.in_flight.remove(position)).is_some();
        self.find_next();
        is_aborted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::closed_loop::{ClosedLoop, closed_loop, read_command};

    #[test]
    fn latency_zero_completes_in_the_same_instant() {
        let mut device = Null::new(&NullParameters::default());
        let now = Instant::new(77);
        assert_eq!(device.next_event(), None);
        assert_eq!(device.submit(now, &read_command(5, 0, 4096)), Accept::Ok);
        assert_eq!(device.next_event(), Some(now));
        let completion = device.poll(now).unwrap();
        assert_eq!(
            (completion.request.0, completion.status, completion.bytes.get()),
            (5, Status::Ok, 4096)
        );
        assert_eq!((device.poll(now), device.next_event()), (None, None));
    }

    #[test]
    fn ten_microseconds_give_depth_over_latency() {
        for depth in [1, 4, 8, 16, 32, 64] {
            let mut device = Null::new(&NullParameters::parse("latency=10us").unwrap());
            let measured = closed_loop(
                &mut device,
                &ClosedLoop { depth, ios: 64_000, ..ClosedLoop::default() },
            );
            let expected = f64::from(depth) * 100_000.0;
            assert!(
                (measured.iops() / expected - 1.0).abs() < 0.001,
                "{depth}: {}",
                measured.iops()
            );
            assert_eq!(measured.mean_latency(), Nanos::from_micros(10));
        }
    }

    #[test]
    fn abort_forgets_one_command_and_the_end_of_the_device_is_its_end() {
        let mut device = Null::new(&NullParameters::parse("size=1MiB,latency=1us").unwrap());
        let (a, b) = (read_command(1, 0, 4096), read_command(2, 8, 4096));
        device.submit(Instant::default(), &a);
        device.submit(Instant::default(), &b);
        assert!(device.abort(Instant::default(), &a));
        assert!(!device.abort(Instant::default(), &a));
        assert_eq!(device.poll(Instant::new(1000)).unwrap().request, b.request);
        assert_eq!(device.poll(Instant::new(1000)), None);
        assert_eq!(device.submit(Instant::new(1000), &read_command(3, 2040, 4096)), Accept::Ok);
        assert_eq!(
            device.submit(Instant::new(1000), &read_command(4, 2041, 4096)),
            Accept::Error(Status::IoError)
        );
        assert_eq!(
            device.submit(Instant::new(1000), &read_command(5, u64::MAX, 512)),
            Accept::Error(Status::IoError)
        );
    }
}
