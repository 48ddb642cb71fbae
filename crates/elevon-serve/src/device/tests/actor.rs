//! A client that follows a habit, for as long as its test runs.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::time::Duration;

use elevon_core::histogram::Histogram;
use elevon_core::units::{Instant, Nanos};
use elevon_nbd::Request;
use elevon_testkit::Rng;
use elevon_testkit::habits::{Command, Habit, Manner};

use super::lab::{Lab, Wire};

/// A connection that comes and leaves computes as much as so many requests.
const CONNECTS: u64 = 4;
/// Reads of a client that takes no answers are not sent again after so many.
const UNTAKEN: u64 = 64;

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
    pub(super) fn new(
        lab: &mut Lab,
        number: u32,
        tenant: &'static str,
        range: (u64, u64),
        habit: Habit,
    ) -> Self {
        let wire = lab.open_asking(number, tenant, range);
        let due = vec![lab.now(); habit.depth].into();
        let (rng, latency) = (Rng(u64::from(number) + 1), Histogram::new());
        let sent = BTreeMap::new();
        let (next, done, longest) = (0, 0, Nanos::ZERO);
        Self { habit, tenant, range, number, wire, sent, next, due, rng, done, latency, longest }
    }

    /// Counts from nothing.
    pub(super) fn reset(&mut self) {
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
        let again = now.saturating_add(nanos(self.habit.think));
        match self.habit.manner {
            Manner::Late => (0..answers).for_each(|_| self.be_late(now)),
            Manner::Bursts if answers > 0 && self.sent.is_empty() => {
                self.due.extend(vec![again; self.habit.depth]);
            }
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
        lab.compute_for(asked);
        (asked > 0, self.due.front().copied().unwrap_or(Instant::MAX))
    }

    /// Waiting requests count with the time for which they have waited until now.
    pub(super) fn longest_wait(&self, now: Instant) -> Nanos {
        self.sent.values().map(|sent| now.since(*sent)).fold(self.longest, Nanos::max)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.sent.len()
    }

    fn be_late(&mut self, now: Instant) {
        let think = nanos(self.habit.think);
        let takes = if self.rng.one_in(64) { think } else { Nanos::new(think.get() / 64) };
        let since = self.due.back().map_or(now, |last| now.max(*last));
        self.due.push_back(since.saturating_add(takes));
    }

    fn reconnect(&mut self, lab: &mut Lab) {
        self.number += 1;
        let mut old =
            mem::replace(&mut self.wire, lab.open_asking(self.number, self.tenant, self.range));
        old.leave();
        self.sent.clear();
        lab.compute_for(CONNECTS);
    }

    fn ask(&mut self, now: Instant) {
        if self.habit.manner == Manner::TakesNothing && self.next == UNTAKEN {
            return;
        }
        let cookie = self.next;
        self.next += 1;
        let (command, offset, length) = self.habit.ask(cookie, &mut self.rng, self.range.1);
        let payload = if command == Command::Write {
            vec![cookie as u8; length as usize]
        } else {
            Vec::new()
        };
        let command = match command {
            Command::Read => elevon_nbd::Command::Read,
            Command::Write => elevon_nbd::Command::Write,
            Command::Flush => elevon_nbd::Command::Flush,
            Command::Trim => elevon_nbd::Command::Trim,
            Command::Cache => elevon_nbd::Command::Cache,
            Command::Zeroes => elevon_nbd::Command::WriteZeroes { no_hole: true, fast: false },
            Command::BlockStatus => elevon_nbd::Command::BlockStatus { one: false },
        };
        self.sent.insert(cookie, now);
        self.wire
            .ask(&Request { command, fua: false, df: false, cookie, offset, length }, &payload);
    }
}

const fn nanos(time: Duration) -> Nanos {
    Nanos::new(time.as_nanos() as u64)
}
