//! What is asked of a disk whose server is gone: it waits, is sent again, or fails.

use std::collections::{BTreeSet, VecDeque};

use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::{Instant, Nanos};
use elevon_result::number::{counted, span};

use super::link::Ask;
use super::unflushed::Change;
use super::{AGAIN, Upstream};
use crate::disks::simulated::Clock as _;
use crate::log::Level;

/// Connections that a request may see lost: one that the server does not survive is not sent for
/// ever.
const LOSSES: u8 = 3;
/// Changes that are sent again at a time.
const AT_ONCE: usize = 64;
/// How long a server that ends waits for a disk that is gone.
const AT_END: Nanos = Nanos::from_secs(2);

/// Returns true if an operation changes the bytes of its range.
pub(super) const fn is_change(op: Op) -> bool {
    matches!(op, Op::Write | Op::WriteZeroes | Op::Discard)
}

/// A request, with what became of it.
pub(super) struct Held {
    pub(super) change: Change,
    /// It was sent on the connections that there are.
    pub(super) is_sent: bool,
    /// How many connections were lost on which it was sent.
    losses: u8,
    /// Since when it waits for a server.
    since: Option<Instant>,
}

impl Held {
    pub(super) const fn new(change: Change) -> Self {
        Self { change, is_sent: false, losses: 0, since: None }
    }

    fn ask(&self, epoch: u64, cookie: u64) -> Ask {
        let Change { request, offset, length, fua, ref payload } = self.change;
        Ask { epoch, cookie, request, offset, length, fua, payload: payload.clone() }
    }

    /// The connections were lost. Returns false if it is not sent again: it was too often, or has
    /// waited for so long.
    fn lose(&mut self, now: Instant, most: Nanos) -> bool {
        self.losses += u8::from(self.is_sent);
        self.is_sent = false;
        let since = *self.since.get_or_insert(now);
        self.losses < LOSSES && now.since(since) < most
    }
}

/// The time in which there are no connections.
#[derive(Default)]
pub(super) struct Away {
    /// The run of connections.
    epoch: u64,
    /// Since when there are none.
    pub(super) since: Option<Instant>,
    /// For how long requests are held then.
    pub(super) most: Nanos,
    /// They are not held any more.
    has_given_up: bool,
    /// Requests that are not sent, about.
    pub(super) waiting: usize,
    /// What is still to be sent again before anything else, and what of it was sent.
    again: VecDeque<(u64, Change)>,
    sent: Vec<(u64, Change)>,
    /// When the last of it was sent.
    sent_at: Instant,
}

impl Away {
    /// Returns when requests fail that are held, if there are to be any.
    pub(super) fn ends(&self) -> Option<Instant> {
        self.since.filter(|_| !self.has_given_up).map(|since| since.saturating_add(self.most))
    }

    /// Returns when what was sent again must have an answer.
    pub(super) fn answer_due(&self) -> Option<Instant> {
        (!self.sent.is_empty()).then(|| self.sent_at.saturating_add(super::QUESTION_TIME))
    }

    /// Returns true if nothing can be sent.
    fn is_closed(&self) -> bool {
        self.since.is_some() || !self.again.is_empty() || !self.sent.is_empty()
    }

    /// Requests are held for a moment more, at most.
    pub(super) fn stop(&mut self, now: Instant) {
        let until = now.saturating_add(self.most.min(AT_END));
        self.most =
            self.since.map_or(self.most.min(AT_END), |since| until.since(since).min(self.most));
    }
}

impl Upstream {
    /// Sends a request, or lets it wait: for the connections, or for the end of a change of the
    /// same bytes.
    pub(super) fn send_or_hold(&mut self, sequence: u64) {
        if self.away.has_given_up {
            self.failed.push_back(sequence);
            return;
        }
        if self.away.is_closed() || self.is_behind(sequence) {
            self.away.waiting += 1;
            return;
        }
        let flight = self.flights.get_mut(&sequence).expect("it was added");
        flight.held.is_sent = true;
        self.link.send(flight.held.ask(self.away.epoch, sequence));
    }

    /// Asks a question about the allocation, or lets it wait.
    pub(super) fn ask_or_hold(&mut self, number: u64) {
        if self.away.has_given_up {
            self.questions.remove(&number);
            self.found.push_back((number, Err(Status::IoError)));
            return;
        }
        let now = self.clock.now();
        if let Some(question) = self.questions.get_mut(&number).filter(|_| !self.away.is_closed()) {
            question.asked = now;
            question.held.is_sent = true;
            self.link.send(question.held.ask(self.away.epoch, number));
        }
    }

    /// Returns true if a change before this one, of some of the same bytes, has no answer.
    fn is_behind(&self, sequence: u64) -> bool {
        let flight = &self.flights[&sequence];
        let mut before =
            self.flights.range(..sequence).filter(|(_, other)| is_change(other.command.op));
        is_change(flight.command.op)
            && before.any(|(_, other)| other.held.change.overlaps(&flight.held.change))
    }

    /// Sends what waits and may be sent.
    pub(super) fn send_held(&mut self) {
        let waiting: Vec<u64> = self
            .flights
            .iter()
            .filter(|(_, flight)| !flight.held.is_sent)
            .map(|(&sequence, _)| sequence)
            .collect();
        self.away.waiting = 0;
        waiting.into_iter().for_each(|sequence| self.send_or_hold(sequence));
    }

    /// Handles the loss of the connections.
    pub(super) fn on_lost(&mut self) {
        let now = self.clock.now();
        let most = self.away.most;
        self.away.since.get_or_insert(now);
        self.away.again.clear();
        self.away.sent.clear();
        let over: Vec<u64> = self
            .flights
            .iter_mut()
            .filter_map(|(&sequence, flight)| {
                let is_held = flight.held.lose(now, most) && !flight.is_overdue;
                (!is_held && !self.failed.contains(&sequence)).then_some(sequence)
            })
            .collect();
        let questions = std::mem::take(&mut self.questions);
        for (number, mut question) in questions {
            if question.held.lose(now, most) {
                self.questions.insert(number, question);
            } else {
                self.found.push_back((number, Err(Status::IoError)));
            }
        }
        let lost = format!("{}: the connection was lost", self.address);
        let (failed, held) = (over.len(), self.flights.len() - over.len());
        self.add_news(
            Level::Error,
            format!(
                "{lost}; of its requests {failed} failed, {held} wait for it; check that server"
            ),
        );
        self.failure = Some(lost);
        self.failed.extend(over);
        if !self.unflushed.is_whole() {
            self.unflushed.give_up();
            self.break_promises(
                "more bytes were written and not flushed than are kept to be sent again",
            );
        }
    }

    /// No flush succeeds any more.
    fn break_promises(&mut self, why: &str) {
        if self.promises.broken().is_none() {
            self.promises.break_with(Status::IoError);
            self.add_news(Level::Error, format!("{why}: the server may have lost them, and no flush succeeds until the disk is opened again (`elevon ctl reopen`)"));
        }
    }

    /// The connections could not be made again.
    pub(super) fn on_away(&mut self, why: String) {
        self.reopening.drain(..).for_each(|answer| drop(answer.send(Err(why.clone()))));
        if self.failure.as_ref() != Some(&why) {
            self.add_news(Level::Error, format!("not connected again: {why}; mend that, then open the disk again (`elevon ctl reopen`)"));
        }
        self.failure = Some(why);
    }

    /// The connections were made again, to a disk of `size` bytes. What the server may have lost is
    /// sent first.
    pub(super) fn on_back(&mut self, epoch: u64, size: u64) {
        let was = std::mem::replace(&mut self.remote.size, size);
        self.failure = None;
        (self.away.since, self.away.has_given_up, self.away.epoch) = (None, false, epoch);
        self.reopening.drain(..).for_each(|answer| drop(answer.send(Ok(()))));
        let changes = self.unflushed.changes().cloned();
        self.away.again =
            changes.enumerate().map(|(number, change)| (AGAIN | number as u64, change)).collect();
        let count = self.away.again.len() as u64;
        let again = match count {
            0 => String::new(),
            _ => format!("; sent again, since no flush covers it: {}", counted(count, "change")),
        };
        let grown = match size == was {
            true => String::new(),
            false => format!("; it has grown from {was} bytes to {size}: a reload serves it all"),
        };
        self.add_news(Level::Info, format!("{}: connected again{again}{grown}", self.address));
        self.send_again();
    }

    /// Sends again what was answered before the loss, in its order where it overlaps; then what
    /// waits.
    fn send_again(&mut self) {
        while let Some((_, change)) = self.away.again.front()
            && self.away.sent.len() < AT_ONCE
            && !self.away.sent.iter().any(|(_, sent)| sent.overlaps(change))
        {
            let (cookie, change) = self.away.again.pop_front().expect("looked at");
            self.link.send(Held::new(change.clone()).ask(self.away.epoch, cookie));
            self.away.sent.push((cookie, change));
            self.away.sent_at = self.clock.now();
        }
        if !self.away.is_closed() {
            self.send_held();
            let questions: BTreeSet<u64> = self.questions.keys().copied().collect();
            questions.into_iter().for_each(|number| self.ask_or_hold(number));
        }
    }

    /// Takes the answer to what was sent again.
    pub(super) fn on_sent_again(&mut self, cookie: u64, status: Status) {
        let Some(at) = self.away.sent.iter().position(|(sent, _)| *sent == cookie) else { return };
        let (_, change) = self.away.sent.remove(at);
        if !status.is_ok() {
            let Change { offset, length, .. } = change;
            let why = format!(
                "{length} bytes at byte {offset} could not be sent again (errno {})",
                status.errno()
            );
            self.break_promises(&why);
        }
        self.send_again();
    }

    /// Returns when the server must have answered a question, or what was sent again.
    pub(super) fn next_answer_due(&self) -> Option<Instant> {
        let asked = self.questions.values().filter(|question| question.held.is_sent);
        let due = asked.map(|question| question.asked.saturating_add(super::QUESTION_TIME));
        due.chain(self.away.answer_due()).min()
    }

    /// Cuts a server that does not answer, and fails what was held for long enough.
    pub(super) fn handle_time(&mut self) {
        let now = self.clock.now();
        if self.next_answer_due().is_some_and(|at| at <= now) {
            self.link.disconnect();
        }
        if self.away.ends().is_none_or(|at| at > now) {
            return;
        }
        self.away.has_given_up = true;
        let count = self.flights.len() - self.failed.len();
        self.failed = self.flights.keys().copied().collect();
        for (number, _) in std::mem::take(&mut self.questions) {
            self.found.push_back((number, Err(Status::IoError)));
        }
        if count > 0 {
            let time = span(self.away.most.get() as f64);
            let failed = counted(count as u64, "request");
            self.add_news(
                Level::Error,
                format!(
                    "{}: no connection for {time}: {failed} failed; check that server",
                    self.address
                ),
            );
        }
    }
}
