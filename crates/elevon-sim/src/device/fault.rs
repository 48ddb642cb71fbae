//! A device with faults: a wrapper around any other device, without effect until it has rules.
//!
//! Every draw is a function of the random seed, the rule and the command's sequence number, so that
//! the same run fails in the same way, and removing one rule changes nothing for the others. A rule
//! that fires is logged with the command's sequence number. Faults of the data (errors) do not
//! change the timing, except for the time of the device's own retries; faults of time change no
//! data.
//!
//! With [`Fault::track_content`] it also tracks what a power cut may leave ([`content`]), to be
//! compared with [`oracle`].
//!
//! Cost: without rules one branch per call; with rules O(rules) per command.

mod clock;
pub mod content;
pub mod kinds;
pub mod oracle;
pub mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use elevon_core::driver::{Accept, Command, Completion};
use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, Sector, Sectors};

use super::queue::EventQueue;
use super::{Description, Device, TextError};
use crate::chance::{below, draw};
use clock::Clock;
use content::{Content, PowerCut, Survivors};
pub use plan::{Rule, SectorRange, Which};

/// Maximum number of log entries; later ones are only counted.
const LOG_MAX: usize = 1 << 16;

/// A rule that fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fired {
    /// Time, on the host's clock.
    pub at: Instant,
    /// The sequence number of the command.
    pub sequence: u64,
    /// The rule's name.
    pub rule: &'static str,
}

/// A silent fault of a command that ends with success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silent {
    /// The read returns other data.
    Rotten,
    /// The write is not done.
    Lost,
    /// The write goes to this sector.
    Misdirected(Sector),
}

/// The fault planned for a command in flight.
#[derive(Clone, Copy, Debug)]
struct PlannedFault {
    status: Status,
    /// Bytes that are transferred before the error.
    good: Bytes,
    /// Additional time.
    extra: Nanos,
    lost: bool,
    late: bool,
    /// A silent fault, if the command ends with success.
    silent: Option<Silent>,
}

impl PlannedFault {
    /// Makes the command fail, unless it fails already. Returns true if this was the first fault.
    fn fail(&mut self, status: Status, good: Bytes, retry: Nanos) -> bool {
        let first = self.status.is_ok();
        if first {
            *self = Self { status, good, extra: self.extra + retry, ..*self };
        }
        first
    }

    /// Makes the command fail before it transfers a byte, as [`Self::fail`] does.
    fn fail_at_once(&mut self, status: Status) -> bool {
        self.fail(status, Bytes::ZERO, Nanos::ZERO)
    }

    /// Adds a silent fault, unless the command fails or has a silent fault already. Returns true if
    /// this was the first.
    fn spoil(&mut self, silent: Silent) -> bool {
        let first = self.status.is_ok() && self.silent.is_none();
        if first {
            self.silent = Some(silent);
        }
        first
    }
}

const FINE: PlannedFault = PlannedFault {
    status: Status::Ok,
    good: Bytes::ZERO,
    extra: Nanos::ZERO,
    lost: false,
    late: false,
    silent: None,
};

#[derive(Clone, Copy, Debug)]
struct Flight {
    command: Command,
    verdict: PlannedFault,
}

impl Flight {
    /// Returns the command as it reaches the medium; `None` if it does not.
    fn landing(&self) -> Option<Command> {
        match self.verdict.silent {
            Some(Silent::Lost) => None,
            Some(Silent::Misdirected(sector)) => Some(Command { sector, ..self.command }),
            Some(Silent::Rotten) | None => Some(self.command),
        }
    }
}

/// A device with faults.
#[derive(Clone, Debug)]
pub struct Fault<D> {
    inner: D,
    seed: u64,
    rules: Vec<Rule>,
    /// There are no rules, and content is not tracked.
    is_plain: bool,
    clock: Clock,
    /// Commands in flight, by request.
    flights: Vec<Option<Flight>>,
    /// Completions on the host's clock.
    held: EventQueue<Completion>,
    /// Unreadable sectors: from the first one to the one after the last.
    bad: BTreeMap<u64, u64>,
    submissions: u64,
    tries: u64,
    log: Vec<Fired>,
    /// How often each rule has fired.
    fired: Vec<u64>,
    /// The same of rules that were replaced, by their names.
    replaced: BTreeMap<&'static str, u64>,
    content: Option<Content>,
}

impl<D: Device> Fault<D> {
    /// Wraps a device without faults.
    pub fn none(inner: D) -> Self {
        Self::new(inner, 0, Vec::new())
    }

    /// Wraps a device with rules. The same random seed gives the same faults.
    pub fn new(inner: D, seed: u64, rules: Vec<Rule>) -> Self {
        Self {
            bad: bad_from_the_start(&rules),
            fired: vec![0; rules.len()],
            clock: Clock::new(&rules),
            inner,
            seed,
            is_plain: rules.is_empty(),
            rules,
            flights: Vec::new(),
            held: EventQueue::with_capacity(0),
            submissions: 0,
            tries: 0,
            log: Vec::new(),
            replaced: BTreeMap::new(),
            content: None,
        }
    }

    /// Wraps a device with rules in their text form, as `error:sectors=1000-2000,status=medium`.
    ///
    /// # Errors
    /// A rule cannot be parsed, or it names sectors beyond the device.
    pub fn parse(inner: D, seed: u64, rules: &[impl AsRef<str>]) -> Result<Self, TextError> {
        let rules =
            rules.iter().map(|rule| Rule::parse(rule.as_ref())).collect::<Result<Vec<_>, _>>()?;
        let size = inner.description().size.get();
        rules.iter().try_for_each(|rule| rule.check_size(size))?;
        Ok(Self::new(inner, seed, rules))
    }

    /// Tracks from now on what a power cut may leave. Must be called before the first command.
    pub fn track_content(&mut self) {
        let description = self.inner.description();
        self.is_plain = false;
        self.content = Some(Content::new(
            description.limits.logical_block_size,
            description.limits.write_cache,
        ));
    }

    /// Removes all rules and bad sectors. Commands in flight keep the fault planned for them, and
    /// time lost by the clock remains lost.
    pub fn heal(&mut self) {
        self.rules.clear();
        self.is_plain = self.content.is_none();
        self.bad.clear();
    }

    /// Lets rules be replaced later ([`Self::replace`]). Must be called before the first command.
    pub fn expect_changes(&mut self) {
        self.is_plain = false;
    }

    /// Follows other rules from `now` on, in place of those that there are. Bad sectors that rules
    /// found are readable again. Commands in flight keep the fault planned for them, and time lost
    /// by the clock remains lost. Times of rules count from the start of the device.
    ///
    /// # Panics
    /// If [`Self::expect_changes`] was not called.
    ///
    /// # Errors
    /// A rule names sectors beyond the device. Then nothing is changed.
    pub fn replace(&mut self, now: Instant, rules: Vec<Rule>) -> Result<(), TextError> {
        assert!(!self.is_plain, "changes were not expected");
        let size = self.inner.description().size.get();
        rules.iter().try_for_each(|rule| rule.check_size(size))?;
        self.replaced = self.fired_by_name();
        self.fired = vec![0; rules.len()];
        self.bad = bad_from_the_start(&rules);
        self.clock.replace(now, &rules);
        self.rules = rules;
        Ok(())
    }

    /// Returns how often rules have fired, by their names, those that were replaced among them.
    pub fn fired_by_name(&self) -> BTreeMap<&'static str, u64> {
        let mut all = self.replaced.clone();
        for (rule, fired) in self.rules.iter().zip(&self.fired) {
            *all.entry(rule.name()).or_default() += fired;
        }
        all
    }

    /// Returns the silent fault of a command in flight, which takes effect if the command ends with
    /// success.
    pub fn silent(&self, command: &Command) -> Option<Silent> {
        let flight = self
            .flights
            .get(command.request.index())?
            .filter(|f| f.command.sequence == command.sequence);
        flight?.verdict.silent
    }

    /// Returns true if a command in flight reaches the medium, as far as the rules have decided.
    pub fn is_carried_out(&self, command: &Command) -> bool {
        let flight = self.flights.get(command.request.index()).copied().flatten();
        flight.is_some_and(|Flight { verdict, .. }| verdict.status.is_ok() && !verdict.lost)
    }

    /// Returns the log, the first 65536 entries.
    pub fn log(&self) -> &[Fired] {
        &self.log
    }

    /// Returns how often all rules together have fired.
    pub fn fired(&self) -> u64 {
        self.fired.iter().sum()
    }

    /// Returns the device below.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// Returns how often each rule has fired, in the order in which they were given.
    /// [`kinds::KINDS`] says what counts as one time.
    pub fn fired_by_rule(&self) -> &[u64] {
        &self.fired
    }

    /// Cuts the power: all commands in flight are lost without a completion. Returns what each
    /// block that was ever written holds afterwards; nothing if content is not tracked. `cut` is
    /// the number of the cut in the run.
    pub fn power_cut(&mut self, now: Instant, mode: PowerCut, cut: u64) -> Survivors {
        let inner_now = self.clock.inner(now);
        for flight in self.flights.iter_mut().filter_map(Option::take) {
            self.inner.abort(inner_now, &flight.command);
            self.held.remove(flight.command.sequence);
        }
        let seed = draw(self.seed, u64::MAX, cut);
        self.content.as_mut().map(|content| content.power_cut(mode, seed)).unwrap_or_default()
    }

    fn note(&mut self, at: Instant, sequence: u64, rule: usize) {
        self.fired[rule] += 1;
        if self.log.len() < LOG_MAX {
            self.log.push(Fired { at, sequence, rule: self.rules[rule].name() });
        }
    }

    fn hits(&self, rule: usize, counter: u64, ppm: u64) -> bool {
        below(draw(self.seed, rule as u64, counter), 1_000_000) < ppm
    }

    /// Returns true if a rule refuses this try. Each try is a separate draw, so that a retry can
    /// succeed.
    fn refuses(&mut self, now: Instant, command: &Command) -> bool {
        self.tries += 1;
        let busy = |(index, rule): (usize, &Rule)| match *rule {
            Rule::Busy { ppm } if self.hits(index, self.tries, ppm) => Some(index),
            _ => None,
        };
        let refused = self.rules.iter().enumerate().find_map(busy);
        if let Some(rule) = refused {
            self.note(now, command.sequence, rule);
        }
        refused.is_some()
    }

    /// Returns the fault that all rules together plan for a command; the first error counts.
    fn judge(&mut self, now: Instant, command: &Command) -> PlannedFault {
        let mut verdict = FINE;
        for index in 0..self.rules.len() {
            if self.apply(index, now, command, &mut verdict) {
                self.note(now, command.sequence, index);
            }
        }
        verdict
    }

    /// Applies rule `index`. Returns whether it fired.
    fn apply(
        &mut self,
        index: usize,
        now: Instant,
        command: &Command,
        verdict: &mut PlannedFault,
    ) -> bool {
        let hits = |ppm| self.hits(index, command.sequence, ppm);
        match self.rules[index] {
            Rule::Error { sectors, which, ppm, status, retry } => {
                let start = command.sector.max(sectors.first);
                let touched = start <= sectors.last && start < end(command);
                touched
                    && which.has(command.op)
                    && hits(ppm)
                    && verdict.fail(status, (start - command.sector).bytes(), retry)
            }
            Rule::Latent { ppm, run, retry, .. } => {
                self.read_latent(index, command, hits(ppm), run)
                    && fail_at_bad(&self.bad, command, retry, verdict)
            }
            Rule::Uber { bits, retry } => {
                self.read_uber(index, command, bits)
                    && fail_at_bad(&self.bad, command, retry, verdict)
            }
            Rule::BitRot { ppm } => {
                command.op == Op::Read && hits(ppm) && verdict.spoil(Silent::Rotten)
            }
            Rule::LostWrite { ppm } => {
                command.op == Op::Write && hits(ppm) && verdict.spoil(Silent::Lost)
            }
            Rule::Misdirected { ppm, by } => {
                let size = self.inner.description().size;
                command.op == Op::Write
                    && hits(ppm)
                    && elsewhere(command, by, size)
                        .is_some_and(|sector| verdict.spoil(Silent::Misdirected(sector)))
            }
            Rule::Reset { every, .. } => self.submissions.is_multiple_of(every),
            Rule::Stall { every, lasting } => {
                let stalls = self.submissions.is_multiple_of(every);
                if stalls {
                    self.clock.stall(now, lasting);
                }
                stalls
            }
            Rule::NoCompletion { ppm } if hits(ppm) => {
                (verdict.lost, verdict.late) = (true, false);
                true
            }
            Rule::Late { ppm, by } if !verdict.lost && hits(ppm) => {
                verdict.extra += by;
                verdict.late = true;
                true
            }
            Rule::FlushError { ppm, status } => {
                command.op == Op::Flush && hits(ppm) && verdict.fail_at_once(status)
            }
            Rule::ReadOnly { after } => {
                command.op.is_write() && now >= after && verdict.fail_at_once(Status::IoError)
            }
            Rule::Transport { ppm } => hits(ppm) && verdict.fail_at_once(Status::Transport),
            Rule::Dead { after } => now >= after && verdict.fail_at_once(Status::Offline),
            // The clock applies its effect; here it is only counted.
            Rule::Slow { from, lasting, .. } => now >= from && now < from.saturating_add(lasting),
            Rule::NoCompletion { .. } | Rule::Late { .. } | Rule::Busy { .. } => false,
        }
    }

    /// A read that hits a latent error makes a run of up to `run` sectors bad. False if the command
    /// reads nothing.
    fn read_latent(&mut self, index: usize, command: &Command, hits: bool, run: u64) -> bool {
        let reads = command.op == Op::Read && !command.bytes.is_zero();
        if reads && hits {
            let chance = draw(self.seed, index as u64 ^ 1 << 32, command.sequence);
            let at = command.sector.get() + below(chance, command.bytes.sectors_ceil().get());
            let until = at + 1 + below(chance.rotate_left(32), run);
            let until = self.bad.get(&at).map_or(until, |&known| known.max(until));
            self.bad.insert(at, until);
        }
        reads
    }

    /// A read makes one of its sectors bad with the chance that one of its bits is unreadable, one
    /// in `bits`. False if the command reads nothing.
    fn read_uber(&mut self, index: usize, command: &Command, bits: u64) -> bool {
        let reads = command.op == Op::Read && !command.bytes.is_zero();
        if reads {
            let chance = draw(self.seed, index as u64, command.sequence);
            if below(chance, bits) < command.bytes.get().saturating_mul(8) {
                let at = command.sector.get()
                    + below(chance.rotate_left(32), command.bytes.sectors_ceil().get());
                self.bad.entry(at).or_insert(at + 1);
            }
        }
        reads
    }

    /// Handles a completion of the inner device, at the host's time `at`.
    fn settle(&mut self, at: Instant, mut completion: Completion) {
        let Some(slot) = self.flights.get_mut(completion.request.index()) else { return };
        let Some(Flight { command, verdict }) = *slot else { return };
        if verdict.lost || command.sequence != completion.sequence {
            return;
        }
        let died =
            self.rules.iter().position(|rule| matches!(*rule, Rule::Dead { after } if at >= after));
        if let Some(rule) = died {
            // A command that was refused at its start is counted already.
            if verdict.status != Status::Offline {
                self.note(at, command.sequence, rule);
            }
            (completion.status, completion.bytes) = (Status::Offline, Bytes::ZERO);
        } else if !verdict.status.is_ok() && completion.status.is_ok() {
            (completion.status, completion.bytes) = (verdict.status, verdict.good);
        }
        self.held.push(at.saturating_add(verdict.extra), command.sequence, completion);
    }

    /// Updates the content model and the bad sectors for a completion that is passed to the host.
    fn deliver(&mut self, completion: Completion) -> Completion {
        let slot = self.flights.get_mut(completion.request.index());
        let flight = slot
            .and_then(|slot| slot.take_if(|flight| flight.command.sequence == completion.sequence));
        if let Some(command) = flight.and_then(|flight| flight.landing()) {
            if completion.status.is_ok() && command.op.is_write() {
                heal(&mut self.bad, command.sector.get(), end(&command).get());
            }
            if let Some(content) = &mut self.content {
                content.on_complete(&command, completion.status);
            }
        }
        completion
    }

    /// Ends every command in flight with a transport error, at the end of the reset.
    fn reset(&mut self, now: Instant, lasting: Nanos) {
        let inner_now = self.clock.inner(now);
        self.clock.stall(now, lasting);
        for Flight { command, verdict } in self.flights.iter_mut().flatten() {
            self.inner.abort(inner_now, command);
            self.held.remove(command.sequence);
            // A later completion of the inner device is ignored, and an abort finds the command.
            *verdict =
                PlannedFault { lost: true, late: false, status: Status::Transport, ..*verdict };
            let Command { request, sequence, .. } = *command;
            let completion =
                Completion { request, sequence, status: Status::Transport, bytes: Bytes::ZERO };
            self.held.push(now.saturating_add(lasting), sequence, completion);
        }
    }

    /// Takes all completions that are due at `now` from the inner device.
    fn collect(&mut self, now: Instant) {
        let inner_now = self.clock.inner(now);
        while let Some(due) = self.inner.next_event().filter(|due| *due <= inner_now) {
            let at = self.clock.outer(due).min(now);
            let mut any = false;
            while let Some(completion) = self.inner.poll(due) {
                any = true;
                self.settle(at, completion);
            }
            if !any && self.inner.next_event() == Some(due) {
                break;
            }
        }
    }
}

/// Returns the sectors that rules say cannot be read.
fn bad_from_the_start(rules: &[Rule]) -> BTreeMap<u64, u64> {
    let bad = rules.iter().filter_map(|rule| match *rule {
        Rule::Latent { sectors: Some(SectorRange { first, last }), .. } => {
            Some((first.get(), last.get().saturating_add(1)))
        }
        _ => None,
    });
    bad.collect()
}

fn end(command: &Command) -> Sector {
    command.sector + command.bytes.sectors_ceil()
}

/// Returns the sector at which a write lands that misses its place by `by`: behind it, or before it
/// at the end of the device. `None` if neither is inside the device.
fn elsewhere(command: &Command, by: Sectors, size: Sectors) -> Option<Sector> {
    let (start, length) = (command.sector.get(), command.bytes.sectors_ceil().get());
    let behind = start.saturating_add(by.get());
    if behind.saturating_add(length) <= size.get() {
        return Some(Sector::new(behind));
    }
    start.checked_sub(by.get()).map(Sector::new)
}

/// Fails a read at its first bad sector, if it has one.
fn fail_at_bad(
    bad: &BTreeMap<u64, u64>,
    command: &Command,
    retry: Nanos,
    verdict: &mut PlannedFault,
) -> bool {
    let found = first_bad(bad, command);
    found.is_some_and(|sector| {
        verdict.fail(Status::Medium, (sector - command.sector).bytes(), retry)
    })
}

/// Returns the first sector of `command` that is in one of the ranges.
fn first_bad(bad: &BTreeMap<u64, u64>, command: &Command) -> Option<Sector> {
    let (start, end) = (command.sector.get(), end(command).get());
    // Ranges may overlap, so all ranges that start before the end are checked.
    bad.range(..end)
        .filter(|(_, until)| **until > start)
        .map(|(from, _)| Sector::new(start.max(*from)))
        .min()
}

/// Removes `start..end` from the ranges.
fn heal(bad: &mut BTreeMap<u64, u64>, start: u64, end: u64) {
    let touched: Vec<_> =
        bad.range(..end).filter(|(_, until)| **until > start).map(|(f, u)| (*f, *u)).collect();
    for (from, until) in touched {
        bad.remove(&from);
        if from < start {
            bad.insert(from, start);
        }
        if until > end {
            let known = bad.get(&end).copied().unwrap_or(0);
            bad.insert(end, until.max(known));
        }
    }
}

impl<D: Device> Device for Fault<D> {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    #[inline(always)]
    fn submit(&mut self, now: Instant, command: &Command) -> Accept {
        if self.is_plain {
            self.inner.submit(now, command)
        } else {
            self.submit_with_faults(now, command)
        }
    }

    #[inline(always)]
    fn next_event(&self) -> Option<Instant> {
        if self.is_plain { self.inner.next_event() } else { self.next_event_with_faults() }
    }

    #[inline(always)]
    fn poll(&mut self, now: Instant) -> Option<Completion> {
        if self.is_plain { self.inner.poll(now) } else { self.poll_with_faults(now) }
    }

    #[inline(always)]
    fn submit_then_next(&mut self, now: Instant, command: &Command) -> (Accept, Instant) {
        if self.is_plain {
            return self.inner.submit_then_next(now, command);
        }
        // A copy, so that the command itself need not be in memory.
        let answer = self.submit_with_faults(now, &{ *command });
        (answer, self.next_event_with_faults().unwrap_or(Instant::MAX))
    }

    #[inline(always)]
    fn poll_then_next(&mut self, now: Instant) -> (Option<Completion>, Instant) {
        if self.is_plain {
            return self.inner.poll_then_next(now);
        }
        let completion = self.poll_with_faults(now);
        (completion, self.next_event_with_faults().unwrap_or(Instant::MAX))
    }

    fn abort(&mut self, now: Instant, command: &Command) -> bool {
        if self.is_plain {
            return self.inner.abort(now, command);
        }
        let slot = self.flights.get_mut(command.request.index());
        let Some(slot) = slot.filter(|s| {
            s.is_some_and(|f| f.command.sequence == command.sequence && !f.verdict.late)
        }) else {
            return false;
        };
        *slot = None;
        let inner_now = self.clock.inner(now);
        // A command that the inner device has completed was held or lost here.
        if !self.inner.abort(inner_now, command) {
            self.held.remove(command.sequence);
        }
        if let Some(content) = &mut self.content {
            content.on_complete(command, Status::Timeout);
        }
        true
    }
}

impl<D: Device> Fault<D> {
    #[inline(never)]
    fn submit_with_faults(&mut self, now: Instant, command: &Command) -> Accept {
        if self.refuses(now, command) {
            return Accept::Busy;
        }
        let inner_now = self.clock.inner(now);
        match self.inner.submit(inner_now, command) {
            Accept::Ok => {}
            refused => return refused,
        }
        self.submissions += 1;
        let verdict = self.judge(now, command);
        let index = command.request.index();
        if self.flights.len() <= index {
            self.flights.resize(index + 1, None);
        }
        let flight = Flight { command: *command, verdict };
        self.flights[index] = Some(flight);
        if let (Some(content), Some(landing)) = (&mut self.content, flight.landing()) {
            content.on_submit(&landing);
        }
        let resets = self.rules.iter().find_map(|rule| match *rule {
            Rule::Reset { every, lasting } if self.submissions.is_multiple_of(every) => {
                Some(lasting)
            }
            _ => None,
        });
        if let Some(lasting) = resets {
            self.reset(now, lasting);
        }
        Accept::Ok
    }

    #[inline(never)]
    fn next_event_with_faults(&self) -> Option<Instant> {
        let inner = self.inner.next_event();
        match (inner.map(|at| self.clock.outer(at)), self.held.next_at()) {
            (Some(inner), Some(held)) => Some(inner.min(held)),
            (one, other) => one.or(other),
        }
    }

    #[inline(never)]
    fn poll_with_faults(&mut self, now: Instant) -> Option<Completion> {
        self.collect(now);
        let (_, completion) = self.held.pop_due(now)?;
        Some(self.deliver(completion))
    }
}
