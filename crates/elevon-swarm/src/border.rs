//! The back end of a run, with what the checkers see of it.

use super::Sabotage;
use super::checkers::{Checks, Finding, Issued};
use super::plan::Plan;
use elevon_cache::page_cache::ByteCopy;
use elevon_core::driver::{Accept, Command, Completion, Driver, Pieces, TimeoutAction};
use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, RequestId};
use elevon_engine::Backend;
use elevon_sim::device::fault::Silent;
use elevon_sim::device::fault::content::PowerCut;
use elevon_sim::device::fault::oracle::Oracle;
use elevon_sim::device::{AnyDevice, Description, Fault};
use elevon_sim::simulation::Simulation;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// The device with its checkers.
pub(super) struct Border {
    pub(super) simulation: Simulation<Fault<AnyDevice>>,
    pub(super) description: Description,
    pub(super) checks: Rc<RefCell<Checks>>,
    pub(super) oracle: Oracle,
    pub(super) in_flight: BTreeMap<RequestId, Command>,
    /// Silent faults of commands in flight, by sequence number.
    pub(super) silent: BTreeMap<u64, Silent>,
    /// Commands in flight at a power cut, which are lost.
    pub(super) gone: BTreeSet<u64>,
    pub(super) power_cut: Option<(Instant, PowerCut)>,
    pub(super) cuts: u64,
    pub(super) sabotage: Option<Sabotage>,
    pub(super) answered: u64,
    /// Completions that did not come from the device.
    pub(super) invented: VecDeque<Completion>,
}

impl Border {
    pub(super) fn new(
        plan: &Plan,
        device: Fault<AnyDevice>,
        description: &Description,
        checks: Rc<RefCell<Checks>>,
        sabotage: Option<Sabotage>,
    ) -> Self {
        let limits = &description.limits;
        Self {
            simulation: Simulation::new(device),
            description: description.clone(),
            checks,
            oracle: Oracle::new(limits.logical_block_size, limits.write_cache),
            in_flight: BTreeMap::new(),
            silent: BTreeMap::new(),
            gone: BTreeSet::new(),
            power_cut: plan.power_cut,
            cuts: 0,
            sabotage,
            answered: 0,
            invented: VecDeque::new(),
        }
    }

    /// Starts phase two: removes all faults.
    pub(super) fn heal(&mut self) {
        self.simulation.device_mut().heal();
        self.power_cut = None;
    }

    /// Cuts the power and checks the blocks that remain.
    pub(super) fn cut(&mut self, mode: PowerCut) {
        let now = self.simulation.now();
        self.gone.extend(self.in_flight.values().map(|command| command.sequence));
        let left = self.simulation.device_mut().power_cut(now, mode, self.cuts);
        self.cuts += 1;
        let verdict = self
            .oracle
            .power_cut(&left)
            .map_err(|violation| Finding(format!("after {mode:?}: {violation:?}")));
        let block = self.description.limits.logical_block_size.into();
        self.checks.borrow_mut().shadow(|shadow| shadow.on_cut(&left, block));
        self.checks.borrow_mut().note("durability", verdict);
    }

    /// Tells the oracle that a command has finished. A write that was lost or misdirected may be on
    /// the device or not, as one that failed.
    pub(super) fn tell_oracle(&mut self, command: &Command, status: Status) {
        match self.silent.remove(&command.sequence) {
            Some(Silent::Lost) => self.oracle.on_complete(command, Status::IoError),
            Some(Silent::Misdirected(sector)) => {
                self.oracle.on_complete(command, Status::IoError);
                self.oracle.on_complete(&Command { sector, ..*command }, Status::IoError);
            }
            Some(Silent::Rotten) | None => self.oracle.on_complete(command, status),
        }
    }

    /// Returns a command as the checkers see it.
    pub(super) fn shown(&self, command: &Command) -> Command {
        let mut shown = *command;
        match self.sabotage {
            Some(Sabotage::SameTag) => shown.tag = elevon_core::units::Tag(0),
            Some(Sabotage::TooLarge) => shown.bytes += Bytes::new(1 << 30),
            Some(Sabotage::OtherPriority) => shown.ioprio = elevon_core::ioprio::IoPrio::NONE,
            _ => {}
        }
        shown
    }
}

impl Driver for Border {
    fn queue_command(&mut self, now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept {
        let lies = self.sabotage == Some(Sabotage::LyingFlush) && command.op == Op::Flush;
        let accept = if lies {
            self.invented.push_back(Completion::success(command));
            Accept::Ok
        } else {
            self.simulation.queue_command(now, command, pieces)
        };
        if accept == Accept::Ok {
            let mut list = Vec::new();
            if command.op != Op::Flush {
                pieces.for_each(&mut |piece| list.push(piece));
            }
            if let (Some(Sabotage::ShortPiece), Some(first)) = (self.sabotage, list.first_mut()) {
                first.len -= 512;
            }
            self.in_flight.insert(command.request, *command);
            let silent = self.simulation.device().silent(command);
            self.oracle.on_submit(command);
            if let Some(silent) = silent.filter(|_| self.sabotage != Some(Sabotage::ForgetFaults)) {
                self.silent.insert(command.sequence, silent);
                if let Silent::Misdirected(sector) = silent {
                    self.oracle.on_submit(&Command { sector, ..*command });
                }
            }
            let issued = Issued { at: now, command: self.shown(command), pieces: list, silent };
            self.checks.borrow_mut().on_command(issued);
        }
        accept
    }

    fn worker_delay(&mut self) -> Nanos {
        self.simulation.worker_delay()
    }

    fn preempts(&mut self) -> bool {
        self.simulation.preempts()
    }

    fn handle_timeout(&mut self, now: Instant, command: &Command) -> TimeoutAction {
        let action = match self.gone.remove(&command.sequence) {
            true => TimeoutAction::Aborted,
            false if self.sabotage == Some(Sabotage::LoseCompletion) => TimeoutAction::ResetTimer,
            false => self.simulation.handle_timeout(now, command),
        };
        if action == TimeoutAction::Aborted {
            self.in_flight.remove(&command.request);
            self.tell_oracle(command, Status::Timeout);
            self.checks.borrow_mut().on_abort(command);
        }
        action
    }
}

impl Backend for Border {
    fn now(&mut self) -> Instant {
        let now = self.simulation.now();
        self.checks.borrow_mut().now = now;
        now
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        let completion = self.invented.pop_front().or_else(|| self.simulation.poll_completion())?;
        self.answered += 1;
        if self.answered == 5 {
            match self.sabotage {
                Some(Sabotage::LoseCompletion) => return self.poll_completion(),
                Some(Sabotage::AnswerTwice) => self.invented.push_back(completion),
                _ => {}
            }
        }
        if let Some(command) = self.in_flight.remove(&completion.request) {
            self.tell_oracle(&command, completion.status);
        }
        self.checks.borrow_mut().on_completion(&completion);
        // The stack asserts what `once` checks, so after a violation the run must stop.
        (!self.interrupted()).then_some(completion)
    }

    fn wait(&mut self, until: Option<Instant>) -> bool {
        if !self.invented.is_empty() {
            return true;
        }
        let cut_at = self.power_cut.map(|(at, _)| at);
        let earliest = until.into_iter().chain(cut_at).min();
        let waited = self.simulation.wait(earliest);
        let now = self.simulation.now();
        if let Some((_, mode)) = self.power_cut.take_if(|(at, _)| *at <= now) {
            self.cut(mode);
            return true;
        }
        waited
    }

    fn move_bytes(&mut self, copy: &ByteCopy) {
        self.checks.borrow_mut().shadow(|shadow| shadow.on_copy(copy));
    }

    fn interrupted(&self) -> bool {
        self.checks.borrow().violation.is_some()
    }
}
