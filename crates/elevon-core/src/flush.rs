//! The flush machine: PREFLUSH, data and POSTFLUSH of writes on a device with a volatile cache; one a hardware queue.
//!
//! Requests that need a flush wait in *pending*; a FLUSH is sent when none is running, something is pending, and either no
//! data step of this machine is in flight or the oldest has waited [`PENDING_TIMEOUT`]. Sending moves all that wait to
//! *running*, so flushes coalesce: of four fsyncs together the first starts one, the others share the second. O(1) a step.

extern crate alloc;
use alloc::vec::Vec;

use crate::limits::QueueLimits;
use crate::op::Flags;
use crate::units::{Instant, Nanos, RequestId};

/// How long a flush waits for data steps in flight.
pub const PENDING_TIMEOUT: Nanos = Nanos::from_secs(5);

/// Steps that a request still has to take, as bits of `Request::flush_step`.
pub mod step {
    /// Flush the cache first.
    pub const PRE: u8 = 1;
    /// Write the data.
    pub const DATA: u8 = 2;
    /// Flush the cache afterwards.
    pub const POST: u8 = 4;
    /// The request runs in a flush sequence.
    pub const SEQUENCE: u8 = 8;
}

/// The steps that a write with these flags takes on a device; `bytes` says whether it has data. No bit: nothing to do.
pub const fn steps(flags: Flags, has_data: bool, limits: &QueueLimits) -> u8 {
    let mut steps = if has_data { step::DATA } else { 0 };
    if limits.write_cache {
        if flags.contains(Flags::PREFLUSH) {
            steps |= step::PRE;
        }
        if flags.contains(Flags::FUA) && !limits.fua {
            steps |= step::POST;
        }
    }
    steps
}

/// Who waits for flushes of one hardware queue.
#[derive(Clone, Debug, Default)]
pub struct FlushMachine {
    pending: Vec<RequestId>,
    running: Vec<RequestId>,
    in_flight: bool,
    data_in_flight: u32,
    pending_since: Instant,
}

impl FlushMachine {
    /// A request waits for a flush.
    pub fn wait(&mut self, now: Instant, id: RequestId) {
        if self.pending.is_empty() {
            self.pending_since = now;
        }
        self.pending.push(id);
    }

    /// The data step of a request begins.
    pub fn data_started(&mut self) {
        self.data_in_flight += 1;
    }

    /// The data step of a request is over.
    pub fn data_ended(&mut self) {
        assert!(self.data_in_flight > 0, "a data step ends that never began");
        self.data_in_flight -= 1;
    }

    /// Whether a FLUSH is to be sent now; if so everything pending becomes running, and the first request to wait is
    /// named (a flush borrows its tag).
    pub fn start(&mut self, now: Instant) -> Option<RequestId> {
        let &first = self.pending.first()?;
        let overdue = now.since(self.pending_since) >= PENDING_TIMEOUT;
        if self.in_flight || (self.data_in_flight > 0 && !overdue) {
            return None;
        }
        debug_assert!(self.running.is_empty());
        core::mem::swap(&mut self.pending, &mut self.running);
        self.in_flight = true;
        Some(first)
    }

    /// When a FLUSH is due whatever data steps are in flight; `None` where nobody waits, or one is running.
    pub fn overdue_at(&self) -> Option<Instant> {
        (!self.in_flight && !self.pending.is_empty()).then(|| self.pending_since.saturating_add(PENDING_TIMEOUT))
    }

    /// The FLUSH is over: everybody who shared it, in order of arrival, into `into`.
    pub fn finish(&mut self, into: &mut Vec<RequestId>) {
        assert!(self.in_flight, "a flush ends that was never sent");
        self.in_flight = false;
        into.append(&mut self.running);
    }

    /// Requests waiting for a flush that is not yet sent.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_every_kind_of_device() {
        let device = |write_cache, fua| QueueLimits { write_cache, fua, ..QueueLimits::default() };
        let (pre, fua, both) = (Flags::PREFLUSH, Flags::FUA, Flags::PREFLUSH | Flags::FUA);
        use step::{DATA, POST, PRE};
        for (flags, data, none, cache, cache_fua) in [
            (pre, false, 0, PRE, PRE),
            (Flags::NONE, true, DATA, DATA, DATA),
            (fua, true, DATA, DATA | POST, DATA),
            (pre, true, DATA, PRE | DATA, PRE | DATA),
            (both, true, DATA, PRE | DATA | POST, PRE | DATA),
        ] {
            assert_eq!(steps(flags, data, &device(false, false)), none);
            assert_eq!(steps(flags, data, &device(true, false)), cache);
            assert_eq!(steps(flags, data, &device(true, true)), cache_fua);
        }
    }

    #[test]
    fn four_fsyncs_take_two_flushes() {
        let mut machine = FlushMachine::default();
        let now = Instant::ZERO;
        let mut flushes = 0;
        let mut over = Vec::new();
        for i in 0..4 {
            machine.wait(now, RequestId(i));
            flushes += u32::from(machine.start(now).is_some());
        }
        while over.len() < 4 {
            machine.finish(&mut over);
            flushes += u32::from(machine.start(now).is_some());
        }
        assert_eq!((flushes, over), (2, (0..4).map(RequestId).collect()));
    }

    #[test]
    fn a_flush_waits_for_data_but_not_for_ever() {
        let mut machine = FlushMachine::default();
        machine.data_started();
        machine.wait(Instant::ZERO, RequestId(1));
        assert_eq!(machine.start(Instant::new(4_999_999_999)), None);
        assert_eq!(machine.start(Instant::new(5_000_000_000)), Some(RequestId(1)));
    }
}
