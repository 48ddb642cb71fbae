//! The flush machine: PREFLUSH, data and POSTFLUSH of writes on a device with a volatile cache.
//! Each hardware queue has one.
//!
//! It does no I/O: every transition of a sequence is here and returns an [`Action`], which the
//! stack carries out (`stack/flush.rs`). The stack calls `FlushMachine::begin` when a request is
//! submitted, `FlushMachine::data_over` when its data was written, and
//! `FlushMachine::flush_over` when a FLUSH completed that it shared. After each call the stack
//! asks `FlushMachine::poll` whether to send a FLUSH.
//!
//! Requests that need a flush wait in *pending*. A FLUSH is sent if none is running, a request is
//! pending, and either no data step of this machine is in flight or the oldest request has waited
//! `PENDING_TIMEOUT`. Sending moves all pending requests to *running*, so flushes coalesce: of
//! four simultaneous fsyncs the first starts one, the others share the second. Each step costs
//! O(1).
//!
//! A request waits for at most one flush at a time, so pending and running together hold at most as
//! many requests as the queue has.

extern crate alloc;
use alloc::vec::Vec;

use crate::limits::QueueLimits;
use crate::op::Flags;
use crate::status::Status;
use crate::units::{Instant, Nanos, RequestId};

/// How long a flush waits for data steps in flight.
pub(crate) const PENDING_TIMEOUT: Nanos = Nanos::from_secs(5);

/// Flush the cache first.
const PRE: u8 = 1;
/// Write the data.
const DATA: u8 = 2;
/// Flush the cache afterwards.
const POST: u8 = 4;
/// The request is in a flush sequence, even if no step is left.
const SEQUENCE: u8 = 8;

/// The steps that a request still has to take in its flush sequence; [`Sequence::NONE`] for an
/// ordinary request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence(u8);

impl Sequence {
    /// An ordinary request.
    pub const NONE: Self = Self(0);

    /// Returns true if the request is in a flush sequence.
    #[inline]
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// Returns true if the data of a sequence is still to be written, or is being written.
    #[inline]
    pub(crate) const fn has_data_left(self) -> bool {
        self.0 & DATA != 0
    }

    const fn has(self, steps: u8) -> bool {
        self.0 & steps != 0
    }

    const fn clear(&mut self, step: u8) {
        self.0 &= !step;
    }
}

/// The next action of the stack for a request in a flush sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// No action: the request waits for a FLUSH.
    Wait,
    /// Send the data of the request to the device.
    Data,
    /// End the request with this status.
    End(Status),
}

/// How a request with PREFLUSH or FUA starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// It is an ordinary request that goes through plug and scheduler. If it has a POSTFLUSH, this
    /// follows its data.
    Ordinary,
    /// It goes directly to the dispatch list, past plug and scheduler, because it needs no flush.
    Dispatch,
    /// It starts with a step of its flush sequence.
    Sequence(Action),
}

/// Whether and when a FLUSH is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Send a FLUSH now, for all pending requests. It borrows the tag of this request, the first of
    /// them.
    Send(RequestId),
    /// Poll again at this time: then a FLUSH is sent even if data steps are in flight.
    At(Instant),
    /// Nothing to send until the next event: no request waits, or a FLUSH is running.
    Idle,
}

/// Returns the steps of a write with these flags on a device; `has_data` says whether it has data.
/// No bit is set if nothing is to be done.
const fn steps(flags: Flags, has_data: bool, limits: &QueueLimits) -> u8 {
    let mut steps = if has_data { DATA } else { 0 };
    if limits.write_cache {
        if flags.contains(Flags::PREFLUSH) {
            steps |= PRE;
        }
        if flags.contains(Flags::FUA) && !limits.fua {
            steps |= POST;
        }
    }
    steps
}

/// Returns the flags for the driver: only those that the device itself has to carry out. SYNC,
/// which both flags imply, is kept.
pub(crate) fn driver_flags(flags: Flags, limits: &QueueLimits) -> Flags {
    let done_for_it = if limits.fua { Flags::PREFLUSH } else { Flags::PREFLUSH | Flags::FUA };
    if flags.intersects(done_for_it) { flags.without(done_for_it) | Flags::SYNC } else { flags }
}

/// The requests that wait for flushes of one hardware queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlushMachine {
    pending: Vec<RequestId>,
    running: Vec<RequestId>,
    in_flight: bool,
    data_in_flight: u32,
    pending_since: Instant,
}

impl FlushMachine {
    /// Starts the sequence of a write with PREFLUSH or FUA; `flags` are those of its submitter.
    /// `data_by_scheduler`: the rule of kernels from 6.5, by which data without a preceding
    /// PREFLUSH goes on as an ordinary request.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        id: RequestId,
        (flags, has_data): (Flags, bool),
        limits: &QueueLimits,
        data_by_scheduler: bool,
    ) -> (Sequence, Begin) {
        let steps = steps(flags, has_data, limits);
        let sequence =
            if steps & (PRE | POST) == 0 { Sequence::NONE } else { Sequence(steps | SEQUENCE) };
        let begin = if steps & PRE == 0 && data_by_scheduler {
            if steps & POST != 0 {
                self.data_in_flight += 1;
            }
            Begin::Ordinary
        } else if steps == DATA {
            Begin::Dispatch
        } else {
            Begin::Sequence(self.next_action(now, id, sequence, Status::Ok))
        };
        (sequence, begin)
    }

    /// Ends the data step of a request, which succeeded or failed. Returns the next action.
    ///
    /// # Panics
    ///
    /// If its data step was not in progress.
    pub(crate) fn data_over(
        &mut self,
        now: Instant,
        id: RequestId,
        sequence: &mut Sequence,
        status: Status,
    ) -> Action {
        assert!(
            sequence.has(DATA) && !sequence.has(PRE),
            "data ends out of its turn: {sequence:?}"
        );
        assert!(self.data_in_flight > 0, "a data step ends that never began");
        self.data_in_flight -= 1;
        sequence.clear(DATA);
        self.next_action(now, id, *sequence, status)
    }

    /// Ends the FLUSH: moves all requests that shared it into `into`, in order of arrival. The
    /// caller must call [`Self::flush_over`] for each.
    ///
    /// # Panics
    ///
    /// If no FLUSH was running.
    pub(crate) fn finish(&mut self, into: &mut Vec<RequestId>) {
        assert!(self.in_flight, "a flush ends that was never sent");
        assert!(!self.running.is_empty(), "a flush ends that nobody asked for");
        self.in_flight = false;
        into.append(&mut self.running);
    }

    /// Ends the wait of one request for a FLUSH, which succeeded or failed. Returns the next
    /// action.
    ///
    /// # Panics
    ///
    /// If the request did not wait for a FLUSH.
    pub(crate) fn flush_over(
        &mut self,
        now: Instant,
        id: RequestId,
        sequence: &mut Sequence,
        status: Status,
    ) -> Action {
        let step = if sequence.has(PRE) { PRE } else { POST };
        assert!(sequence.has(step), "a flush ends for a request that waits for none: {sequence:?}");
        assert!(
            step == PRE || !sequence.has(DATA),
            "a flush ends before the data that it makes durable"
        );
        sequence.clear(step);
        self.next_action(now, id, *sequence, status)
    }

    /// Returns the next action for a request: PREFLUSH, data, POSTFLUSH, end. An error ends it at
    /// once.
    fn next_action(
        &mut self,
        now: Instant,
        id: RequestId,
        sequence: Sequence,
        status: Status,
    ) -> Action {
        if !status.is_ok() || !sequence.has(PRE | DATA | POST) {
            Action::End(status)
        } else if !sequence.has(PRE) && sequence.has(DATA) {
            self.data_in_flight += 1;
            Action::Data
        } else {
            self.wait(now, id);
            Action::Wait
        }
    }

    fn wait(&mut self, now: Instant, id: RequestId) {
        debug_assert!(
            !self.pending.contains(&id) && !self.running.contains(&id),
            "a request waits for two flushes"
        );
        if self.pending.is_empty() {
            self.pending_since = now;
        }
        self.pending.push(id);
    }

    /// Decides if a FLUSH is sent now. If so, all pending requests become running.
    #[inline]
    pub(crate) fn poll(&mut self, now: Instant) -> Poll {
        let Some(&first) = self.pending.first() else { return Poll::Idle };
        if self.in_flight {
            return Poll::Idle;
        }
        debug_assert!(now >= self.pending_since, "time went backwards");
        if self.data_in_flight > 0 && now.since(self.pending_since) < PENDING_TIMEOUT {
            return Poll::At(self.pending_since.saturating_add(PENDING_TIMEOUT));
        }
        assert!(self.running.is_empty(), "requests share a flush that is over");
        core::mem::swap(&mut self.pending, &mut self.running);
        self.in_flight = true;
        Poll::Send(first)
    }

    /// Returns true if no request waits, and neither a FLUSH nor a data step is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty()
            && self.running.is_empty()
            && !self.in_flight
            && self.data_in_flight == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    const NOW: Instant = Instant::ZERO;
    const EMPTY: (Flags, bool) = (Flags::PREFLUSH, false);

    fn device(write_cache: bool, fua: bool) -> QueueLimits {
        QueueLimits { write_cache, fua, ..QueueLimits::default() }
    }

    /// Starts an fsync. Returns its sequence.
    fn fsync(machine: &mut FlushMachine, now: Instant, id: u32) -> Sequence {
        let (sequence, begin) =
            machine.begin(now, RequestId(id), EMPTY, &device(true, false), true);
        assert_eq!(begin, Begin::Sequence(Action::Wait));
        sequence
    }

    /// A FUA write on a device without FUA: its data goes out as an ordinary request.
    fn fua_write(machine: &mut FlushMachine, id: u32) -> Sequence {
        let (sequence, begin) =
            machine.begin(NOW, RequestId(id), (Flags::FUA, true), &device(true, false), true);
        assert_eq!(begin, Begin::Ordinary);
        sequence
    }

    #[test]
    fn steps_of_every_kind_of_device() {
        let (pre, fua, both) = (Flags::PREFLUSH, Flags::FUA, Flags::PREFLUSH | Flags::FUA);
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
    fn the_driver_is_asked_for_fua_only_where_it_has_it() {
        let (both, sync) = (Flags::PREFLUSH | Flags::FUA, Flags::SYNC);
        assert_eq!(driver_flags(both, &device(true, true)), Flags::FUA | sync);
        assert_eq!(driver_flags(both, &device(true, false)), sync);
        assert_eq!(driver_flags(Flags::FUA, &device(true, true)), Flags::FUA);
        assert_eq!(driver_flags(Flags::NONE, &device(true, false)), Flags::NONE);
    }

    /// Runs one request alone. Returns its steps in order: F for a FLUSH, D for its data, each with
    /// `!` if it fails.
    fn run(
        flags: Flags,
        has_data: bool,
        by_scheduler: bool,
        fail_at: Option<usize>,
    ) -> (Begin, String) {
        let (mut machine, id) = (FlushMachine::default(), RequestId(7));
        let (mut sequence, begin) =
            machine.begin(NOW, id, (flags, has_data), &device(true, false), by_scheduler);
        let mut did = String::new();
        let mut action = match begin {
            Begin::Ordinary if sequence.is_some() => Action::Data,
            Begin::Ordinary | Begin::Dispatch => return (begin, did),
            Begin::Sequence(action) => action,
        };
        for step in 0.. {
            let failed = fail_at == Some(step);
            let status = if failed { Status::IoError } else { Status::Ok };
            action = match action {
                Action::Wait => {
                    assert_eq!(machine.poll(NOW), Poll::Send(id));
                    assert_eq!(machine.poll(NOW), Poll::Idle, "one FLUSH at a time");
                    let mut over = Vec::new();
                    machine.finish(&mut over);
                    assert_eq!(over, [id]);
                    did.push('F');
                    machine.flush_over(NOW, id, &mut sequence, status)
                }
                Action::Data => {
                    assert!(sequence.has_data_left());
                    did.push('D');
                    machine.data_over(NOW, id, &mut sequence, status)
                }
                Action::End(status) => {
                    assert_eq!(status.is_ok(), !did.ends_with('!'));
                    break;
                }
            };
            if failed {
                did.push('!');
            }
        }
        assert!(sequence.is_some(), "a sequence is one to its end");
        assert!(machine.is_idle(), "{machine:?}");
        (begin, did)
    }

    #[test]
    fn every_sequence_and_every_failure_of_it() {
        let (pre, fua, both) = (Flags::PREFLUSH, Flags::FUA, Flags::PREFLUSH | Flags::FUA);
        let (wait, data) = (Begin::Sequence(Action::Wait), Begin::Sequence(Action::Data));
        for (flags, has_data, begins, expected) in [
            (pre, false, [wait; 2], "F"),
            (fua, false, [wait, Begin::Ordinary], "F"),
            (both, false, [wait; 2], "FF"),
            (fua, true, [data, Begin::Ordinary], "DF"),
            (pre, true, [wait; 2], "FD"),
            (both, true, [wait; 2], "FDF"),
            (Flags::NONE, true, [Begin::Dispatch, Begin::Ordinary], ""),
        ] {
            for (by_scheduler, begin) in [false, true].into_iter().zip(begins) {
                if begin == Begin::Ordinary && !has_data {
                    // No submitter sends an empty write with FUA alone: only an fsync is empty.
                    continue;
                }
                assert_eq!(
                    run(flags, has_data, by_scheduler, None),
                    (begin, expected.into()),
                    "{flags:?}"
                );
                for fail_at in 0..expected.len() {
                    let until = alloc::format!("{}!", &expected[..=fail_at]);
                    assert_eq!(
                        run(flags, has_data, by_scheduler, Some(fail_at)),
                        (begin, until),
                        "{flags:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn four_fsyncs_take_two_flushes() {
        let mut machine = FlushMachine::default();
        let mut flushes = 0;
        let mut over = Vec::new();
        for i in 0..4 {
            fsync(&mut machine, NOW, i);
            flushes += u32::from(matches!(machine.poll(NOW), Poll::Send(_)));
        }
        while over.len() < 4 {
            machine.finish(&mut over);
            flushes += u32::from(matches!(machine.poll(NOW), Poll::Send(_)));
        }
        assert_eq!((flushes, over), (2, (0..4).map(RequestId).collect()));
    }

    #[test]
    fn a_flush_waits_for_data_but_not_for_ever() {
        let mut machine = FlushMachine::default();
        let mut write = fua_write(&mut machine, 0);
        fsync(&mut machine, NOW, 1);
        let due = Instant::new(5_000_000_000);
        assert_eq!(machine.poll(Instant::new(4_999_999_999)), Poll::At(due));
        assert_eq!(machine.poll(due), Poll::Send(RequestId(1)));
        // The write's own flush comes next.
        assert_eq!(machine.data_over(due, RequestId(0), &mut write, Status::Ok), Action::Wait);
        assert_eq!(machine.poll(due), Poll::Idle);
        machine.finish(&mut Vec::new());
        assert_eq!(machine.poll(due), Poll::Send(RequestId(0)));
    }

    #[test]
    fn the_last_data_step_lets_the_flush_go() {
        let mut machine = FlushMachine::default();
        let mut writes = [0, 1].map(|id| fua_write(&mut machine, id));
        for (id, write) in (0..).zip(&mut writes) {
            assert_eq!(
                machine.poll(NOW),
                if id == 0 { Poll::Idle } else { Poll::At(NOW + PENDING_TIMEOUT) }
            );
            assert_eq!(machine.data_over(NOW, RequestId(id), write, Status::Ok), Action::Wait);
        }
        assert_eq!(machine.poll(NOW), Poll::Send(RequestId(0)), "both share it");
        let mut over = Vec::new();
        machine.finish(&mut over);
        assert_eq!(over, [RequestId(0), RequestId(1)]);
    }

    #[test]
    #[should_panic(expected = "data ends out of its turn")]
    fn data_ends_once() {
        let mut machine = FlushMachine::default();
        let mut write = fua_write(&mut machine, 0);
        fua_write(&mut machine, 1);
        for _ in 0..2 {
            machine.data_over(NOW, RequestId(0), &mut write, Status::Ok);
        }
    }

    #[test]
    #[should_panic(expected = "a flush ends that was never sent")]
    fn a_flush_ends_once() {
        let mut machine = FlushMachine::default();
        fsync(&mut machine, NOW, 0);
        let _ = machine.poll(NOW);
        for _ in 0..2 {
            machine.finish(&mut Vec::new());
        }
    }
}
