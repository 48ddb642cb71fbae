//! A disk with real bytes on which faults can be switched on: commands fail, or end late.
//!
//! The faults are those of a simulated device. A device that does nothing stands beside the disk,
//! and each command goes to both: the rules decide on the one, the bytes are those of the other. A
//! command ends once it has ended on both. One that the rules let fail, or lose, never reaches the
//! disk. So no fault changes data in another way than a disk that refuses to.
//!
//! Cost: without rules a comparison per call.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::mpsc::Sender;

use elevon_cache::FrameId;
use elevon_cache::page_cache::ByteCopy;
use elevon_core::driver::{Accept, Command, Completion, Driver, Pieces, TimeoutAction};
use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, Sectors, TaskId};
use elevon_engine::Backend;
use elevon_host::{Alarm, Host, Promises};
use elevon_sim::device::Device as _;
use elevon_sim::device::fault::{Fault, Rule};
use elevon_sim::device::null::{Null, NullParameters};

use crate::disks::{Allocation, Disk};
use crate::log::Level;
use crate::request::Extent;

/// Reads rules of faults.
///
/// # Errors
/// One is none, or names sectors that a device of `size` does not have.
pub(crate) fn rules_of(texts: &[String], size: Sectors) -> Result<Vec<Rule>, String> {
    let parse = |text: &String| {
        let rule = Rule::parse(text).and_then(|rule| rule.check_size(size.get()).map(|()| rule));
        rule.map_err(|error| format!("{text}: {error}"))
    };
    texts.iter().map(parse).collect()
}

/// A command on which the rules decide.
#[derive(Clone, Copy, Debug)]
struct Flight {
    command: Command,
    /// False if it is not carried out.
    is_sent: bool,
    of_rules: Option<Completion>,
    of_disk: Option<Completion>,
}

/// A disk with faults.
#[derive(Debug)]
pub struct FaultyDisk<D> {
    disk: D,
    size: Sectors,
    rules: Fault<Null>,
    /// True if there are rules.
    has_rules: bool,
    /// Commands in flight that the rules know, by request.
    flights: BTreeMap<u32, Flight>,
    ended: VecDeque<Completion>,
    promises: Promises,
    /// The time of the rules, which never goes backwards.
    reached: Instant,
}

impl<D: Disk> FaultyDisk<D> {
    /// Creates a disk of this size without faults. The same seed gives the same faults.
    pub fn new(disk: D, size: Sectors, seed: u64) -> Self {
        // Growth of the disk does not concern the device beside it.
        let parameters = NullParameters { size: Bytes::new(1 << 62), ..NullParameters::default() };
        let mut rules = Fault::new(Null::new(&parameters), seed, Vec::new());
        rules.expect_changes();
        Self {
            disk,
            size,
            rules,
            has_rules: false,
            flights: BTreeMap::new(),
            ended: VecDeque::new(),
            promises: Promises::default(),
            reached: Instant::ZERO,
        }
    }

    /// Returns the disk without its faults.
    pub const fn disk(&self) -> &D {
        &self.disk
    }

    /// Takes what the rules have decided by now.
    fn decide(&mut self, now: Instant) {
        self.reached = self.reached.max(now);
        while let Some(completion) = self.rules.poll(self.reached) {
            if let Some(flight) = self.flights.get_mut(&completion.request.0) {
                flight.of_rules = Some(completion);
                self.end_if_both(completion.request.0);
            }
        }
    }

    /// Ends a command that has ended on the disk and beside it.
    fn end_if_both(&mut self, request: u32) {
        let Some(flight) = self.flights.get(&request) else { return };
        let Flight { command, is_sent, of_rules: Some(of_rules), of_disk } = *flight else {
            return;
        };
        if is_sent && of_disk.is_none() {
            return;
        }
        let ended = match of_disk {
            Some(of_disk) if of_rules.status.is_ok() => of_disk,
            // No byte of it is promised.
            _ if !of_rules.status.is_ok() => Completion { bytes: Bytes::ZERO, ..of_rules },
            _ => of_rules,
        };
        self.flights.remove(&request);
        let status = self.promises.settle(&command, ended.status);
        self.ended.push_back(Completion { status, ..ended });
    }
}

impl<D: Disk> Driver for FaultyDisk<D> {
    fn queue_command(&mut self, now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept {
        // Without rules a flush fails, too, after one that a rule let fail.
        if !self.has_rules && self.promises.broken().is_none() {
            return self.disk.queue_command(now, command, pieces);
        }
        self.reached = self.reached.max(now);
        match self.rules.submit(self.reached, command) {
            Accept::Ok => {}
            refused => return refused,
        }
        let is_sent = self.rules.is_carried_out(command);
        let accept =
            if is_sent { self.disk.queue_command(now, command, pieces) } else { Accept::Ok };
        if accept == Accept::Ok {
            let flight = Flight { command: *command, is_sent, of_rules: None, of_disk: None };
            self.flights.insert(command.request.0, flight);
        } else {
            self.rules.abort(self.reached, command);
        }
        accept
    }

    fn retries(&self) -> bool {
        self.disk.retries()
    }

    fn worker_delay(&mut self) -> Nanos {
        self.disk.worker_delay()
    }

    fn wake_delay(&mut self, task: TaskId) -> Nanos {
        self.disk.wake_delay(task)
    }

    fn tag_wake_delay(&mut self) -> Nanos {
        self.disk.tag_wake_delay()
    }

    fn preempts(&mut self) -> bool {
        self.disk.preempts()
    }

    fn commit(&mut self, now: Instant) {
        self.disk.commit(now);
    }

    fn handle_timeout(&mut self, now: Instant, command: &Command) -> TimeoutAction {
        let flight = self
            .flights
            .get(&command.request.0)
            .filter(|flight| flight.command.sequence == command.sequence);
        let action = match flight {
            Some(Flight { is_sent: false, .. })
                if self.rules.abort(self.reached.max(now), command) =>
            {
                TimeoutAction::Aborted
            }
            // It ends late, or once the disk has ended it.
            Some(Flight { is_sent: false, .. } | Flight { of_disk: Some(_), .. }) => {
                TimeoutAction::ResetTimer
            }
            Some(_) | None => self.disk.handle_timeout(now, command),
        };
        if action == TimeoutAction::Aborted {
            self.flights.remove(&command.request.0);
        }
        action
    }
}

impl<D: Disk> Backend for FaultyDisk<D> {
    const WAITS_FREELY: bool = D::WAITS_FREELY;
    const HAS_BYTES: bool = D::HAS_BYTES;

    fn delays_wakes(&self) -> bool {
        self.disk.delays_wakes()
    }

    fn now(&mut self) -> Instant {
        self.disk.now()
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        while let Some(completion) = self.disk.poll_completion() {
            let flight = self.flights.get_mut(&completion.request.0);
            match flight.filter(|flight| flight.command.sequence == completion.sequence) {
                Some(flight) => {
                    flight.of_disk = Some(completion);
                    self.end_if_both(completion.request.0);
                }
                None => return Some(completion),
            }
        }
        if !self.flights.is_empty() {
            let now = self.disk.now();
            self.decide(now);
        }
        self.ended.pop_front()
    }

    fn wait(&mut self, until: Option<Instant>) -> bool {
        let ended = (!self.ended.is_empty()).then_some(self.reached);
        let next = if self.flights.is_empty() { None } else { self.rules.next_event() };
        self.disk.wait([ended, next, until].into_iter().flatten().min())
    }

    fn interrupted(&self) -> bool {
        self.disk.interrupted()
    }

    fn prepare_buffers(&mut self, task: TaskId, slots: u32, bytes: u64) {
        self.disk.prepare_buffers(task, slots, bytes);
    }

    fn buffer(&mut self, task: TaskId, token: u64) -> Option<&mut [u8]> {
        self.disk.buffer(task, token)
    }

    fn bind_frames(&mut self, bio: u32, frames: &[FrameId]) {
        self.disk.bind_frames(bio, frames);
    }

    fn move_bytes(&mut self, copy: &ByteCopy) {
        self.disk.move_bytes(copy);
    }
}

impl<D: Disk> Disk for FaultyDisk<D> {
    fn alarm(&mut self) -> io::Result<Alarm> {
        self.disk.alarm()
    }

    fn allocation(&mut self, offset: u64, bytes: u64) -> Allocation {
        self.disk.allocation(offset, bytes)
    }

    fn poll_allocation(&mut self) -> Option<(u64, Result<Vec<Extent>, Status>)> {
        self.disk.poll_allocation()
    }

    fn zero(&self, no_hole: bool) -> Option<Op> {
        self.disk.zero(no_hole)
    }

    fn zeroes_fast(&self) -> bool {
        self.disk.zeroes_fast()
    }

    fn make_buffers(&mut self, task: TaskId, slots: u32, bytes: u64) -> io::Result<()> {
        self.disk.make_buffers(task, slots, bytes)
    }

    fn empty_buffer(&mut self, task: TaskId, token: u64) {
        self.disk.empty_buffer(task, token);
    }

    fn reserve_frames(&mut self, memory: Bytes) -> io::Result<()> {
        self.disk.reserve_frames(memory)
    }

    fn host(&mut self) -> Option<&mut Host> {
        self.disk.host()
    }

    fn grown(&mut self) -> Option<Sectors> {
        let grown = self.disk.grown()?;
        self.size = grown;
        Some(grown)
    }

    fn failure(&self) -> Option<String> {
        self.disk.failure()
    }

    fn is_lost(&self) -> bool {
        self.disk.is_lost() || self.promises.broken().is_some()
    }

    fn reopen(&mut self, answer: Sender<Result<(), String>>) -> bool {
        let is_possible = self.disk.reopen(answer);
        if is_possible {
            self.promises = Promises::default();
        }
        is_possible
    }

    fn stop(&mut self) {
        self.disk.stop();
    }

    fn faults(&self) -> BTreeMap<&'static str, u64> {
        self.rules.fired_by_name()
    }

    fn set_faults(&mut self, rules: &[String]) -> Result<(), String> {
        let texts = rules;
        let rules = rules_of(texts, self.size)?;
        if let Some((text, _)) = texts.iter().zip(&rules).find(|(_, rule)| rule.needs_simulation())
        {
            return Err(format!(
                "{text}: needs a simulated device; on this one commands can fail or end late"
            ));
        }
        let now = self.disk.now();
        self.decide(now);
        self.has_rules = !rules.is_empty();
        self.rules.replace(self.reached, rules).map_err(|error| error.to_string())
    }

    fn poll_news(&mut self) -> Option<(Level, String)> {
        self.disk.poll_news()
    }
}
