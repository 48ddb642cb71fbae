//! A client that follows a habit, for as long as its test runs.

use std::collections::{BTreeMap, VecDeque};
use std::mem;

use elevon_core::histogram::Histogram;
use elevon_core::units::{Instant, Nanos};
use elevon_nbd::{Command, Request};
use elevon_testkit::Rng;

use super::super::lab::{Lab, Wire};

/// What the device's thread computes for a request: it reads it, hands it on and answers. About
/// what a thread of a server takes, whose clients keep many requests in flight.
const COMPUTES: Nanos = Nanos::from_micros(5);
/// What it computes for a connection that comes and leaves.
const CONNECTS: Nanos = Nanos::from_micros(20);
/// Reads of a client that takes no answers are not sent again after so many.
const UNTAKEN: u64 = 64;

/// A request of a habit: the command, its first byte in the client's part of the disk, its bytes.
pub(super) type Ask = (Command, u64, u64);

/// How a client uses its disk.
#[derive(Clone, Copy)]
pub(super) struct Habit {
    pub(super) name: &'static str,
    /// Requests in flight.
    pub(super) depth: usize,
    /// How long the client waits after an answer before its next request.
    pub(super) think: Nanos,
    pub(super) manner: Manner,
    /// The request with this number, on a part of the disk of so many bytes.
    pub(super) ask: fn(u64, &mut Rng, u64) -> Ask,
}

/// How a client goes on after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Each answer is followed by a request.
    Steady,
    /// All requests come at once, after all were answered.
    Bursts,
    /// Nothing that is sent to it is received.
    TakesNothing,
    /// It connects, asks once, and leaves.
    Reconnects,
}

/// A client with what it got.
pub(super) struct Actor {
    habit: Habit,
    tenant: &'static str,
    range: (u64, u64),
    number: u32,
    wire: Wire,
    sent: BTreeMap<u64, Instant>,
    next: u64,
    /// When it asks again, for each answer.
    due: VecDeque<Instant>,
    rng: Rng,
    pub(super) done: u64,
    pub(super) latency: Histogram,
    pub(super) longest: Nanos,
}

impl Actor {
    /// Lets a client of this number open its part of the disk, and ask.
    pub(super) fn new(lab: &mut Lab, number: u32, tenant: &'static str, range: (u64, u64), habit: Habit) -> Self {
        let wire = lab.open_asking(number, tenant, range);
        let due = vec![lab.now(); habit.depth].into();
        let (rng, latency) = (Rng(u64::from(number) + 1), Histogram::new());
        let sent = BTreeMap::new();
        let (next, done, longest) = (0, 0, Nanos::ZERO);
        Self { habit, tenant, range, number, wire, sent, next, due, rng, done, latency, longest }
    }

    /// Counts from nothing.
    pub(super) fn forget(&mut self) {
        (self.done, self.latency, self.longest) = (0, Histogram::new(), Nanos::ZERO);
    }

    /// Takes answers, and asks what is due. Returns whether it asked, and when it asks next.
    pub(super) fn act(&mut self, lab: &mut Lab, now: Instant) -> (bool, Instant) {
        let mut answers = 0;
        if self.habit.manner != Manner::TakesNothing {
            while let Some((cookie, is_ok)) = self.wire.answer() {
                assert!(is_ok, "a request of {} succeeded", self.habit.name);
                let took = now.since(self.sent.remove(&cookie).expect("an answer to a question"));
                self.latency.add(took.get());
                self.longest = self.longest.max(took);
                self.done += 1;
                answers += 1;
            }
        }
        let again = now.saturating_add(self.habit.think);
        match self.habit.manner {
            Manner::Bursts if answers > 0 && self.sent.is_empty() => self.due.extend(vec![again; self.habit.depth]),
            Manner::Bursts => {}
            _ => self.due.extend(vec![again; answers]),
        }
        let mut asked = 0;
        while self.due.front().is_some_and(|due| *due <= now) {
            self.due.pop_front();
            if self.habit.manner == Manner::Reconnects {
                self.reconnect(lab);
            }
            self.ask(now);
            asked += 1;
        }
        self.wire.transfer();
        lab.compute(Nanos::new(COMPUTES.get() * asked));
        (asked > 0, self.due.front().copied().unwrap_or(Instant::MAX))
    }

    /// Waiting requests count with the time for which they have waited until now.
    pub(super) fn longest_wait(&self, now: Instant) -> Nanos {
        self.sent.values().map(|sent| now.since(*sent)).fold(self.longest, Nanos::max)
    }

    fn reconnect(&mut self, lab: &mut Lab) {
        self.number += 1;
        let mut old = mem::replace(&mut self.wire, lab.open_asking(self.number, self.tenant, self.range));
        old.leave();
        self.sent.clear();
        lab.compute(CONNECTS);
    }

    fn ask(&mut self, now: Instant) {
        if self.habit.manner == Manner::TakesNothing && self.next == UNTAKEN {
            return;
        }
        let cookie = self.next;
        self.next += 1;
        let (command, offset, length) = (self.habit.ask)(cookie, &mut self.rng, self.range.1);
        let payload = if command == Command::Write { vec![cookie as u8; length as usize] } else { Vec::new() };
        self.sent.insert(cookie, now);
        self.wire.ask(&Request { command, fua: false, df: false, cookie, offset, length }, &payload);
    }
}
