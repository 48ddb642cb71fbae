//! The clock of a user-mode kernel that is kept outside (`time-travel=ext:`), without I/O.
//!
//! The kernel runs in zero time. When it has nothing to do, it asks for the time of its next event
//! and waits; the [`Calendar`] lets it run when that time has come. In between a device may
//! interrupt it, which makes the kernel ask for an earlier time.
//!
//! Source of the protocol: the header `linux/um_timetravel.h`, an interface of the kernel.

#[cfg(test)]
mod tests;

use elevon_core::units::Instant;

use crate::shared::{CLIENT, CONTROLLER, SharedClock};

/// Length of a message in bytes.
pub(crate) const MESSAGE_BYTES: usize = 16;

const ACK: u32 = 0;
const START: u32 = 1;
const REQUEST: u32 = 2;
const WAIT: u32 = 3;
const GET: u32 = 4;
const UPDATE: u32 = 5;
const RUN: u32 = 6;
const GET_TOD: u32 = 8;
const BROADCAST: u32 = 9;

/// What is wrong with a message of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClockError {
    /// The message's number is not known.
    #[error("the kernel sent clock message {0}, which is not known")]
    Unknown(u32),
    /// The time goes backwards.
    #[error("the kernel set its clock from {now} ns back to {to} ns")]
    Backwards {
        /// The time before, in nanoseconds.
        now: u64,
        /// The time of the message, in nanoseconds.
        to: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    op: u32,
    sequence: u32,
    time: u64,
}

impl Message {
    fn parse(bytes: &[u8; MESSAGE_BYTES]) -> Self {
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let time = u64::from_ne_bytes(bytes[8..].try_into().expect("8 bytes"));
        Self { op: word(0), sequence: word(4), time }
    }

    fn to_bytes(self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&self.op.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.time.to_ne_bytes());
        bytes
    }
}

/// What follows from a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing is sent.
    None,
    /// These bytes are sent.
    Message([u8; MESSAGE_BYTES]),
    /// These bytes are sent with the descriptors of the shared memory and of a file for a log, if
    /// the caller has shared memory.
    Start([u8; MESSAGE_BYTES]),
}

/// The clock of one kernel.
#[derive(Debug)]
pub(crate) struct Calendar {
    now: Instant,
    /// The time of day at the start of the clock, in nanoseconds since 1970.
    epoch: u64,
    /// When the kernel wants to run next.
    wanted: Option<Instant>,
    is_waiting: bool,
    runs: u32,
    /// The number of the run that the kernel has not acknowledged.
    unacknowledged: Option<u32>,
    shared: Option<SharedClock>,
    /// The kernel uses the shared memory.
    is_shared: bool,
}

impl Calendar {
    /// Returns a clock at zero. `epoch` is the time of day then, in nanoseconds since 1970. With
    /// shared memory, a kernel that knows it (6.12 and later) sends fewer messages.
    pub(crate) const fn new(epoch: u64, shared: Option<SharedClock>) -> Self {
        Self {
            now: Instant::ZERO,
            epoch,
            wanted: None,
            is_waiting: false,
            runs: 0,
            unacknowledged: None,
            shared,
            is_shared: false,
        }
    }

    /// Returns the memory that is shared with the kernel.
    pub(crate) const fn shared(&self) -> Option<&SharedClock> {
        self.shared.as_ref()
    }

    /// Returns the memory that is shared if the kernel uses it.
    fn used(&self) -> Option<&SharedClock> {
        self.shared.as_ref().filter(|_| self.is_shared)
    }

    /// Returns the time.
    pub(crate) fn now(&self) -> Instant {
        // While the kernel runs, it sets the time by itself.
        match self.used() {
            Some(shared) if !self.is_waiting => shared.now().max(self.now),
            _ => self.now,
        }
    }

    /// Returns when the kernel wants to run next if it waits for that: `Instant::MAX` if it waits
    /// for an interrupt only. Returns `None` while it runs.
    pub(crate) fn waits_until(&self) -> Option<Instant> {
        let is_idle = self.is_waiting && self.unacknowledged.is_none();
        let wanted = match self.used() {
            Some(shared) => shared.wanted().map(|wanted| wanted.max(self.now)),
            None => self.wanted,
        };
        is_idle.then(|| wanted.unwrap_or(Instant::MAX))
    }

    /// Takes a message of the kernel. Returns the answer.
    ///
    /// # Errors
    /// The message is not known, or time would go backwards.
    pub(crate) fn handle(&mut self, bytes: &[u8; MESSAGE_BYTES]) -> Result<Answer, ClockError> {
        let message = Message::parse(bytes);
        if message.op != START && self.shared.as_ref().is_some_and(SharedClock::is_used) {
            self.is_shared = true;
        }
        let mut time = 0;
        match message.op {
            ACK => {
                if self.unacknowledged == Some(message.sequence) {
                    self.unacknowledged = None;
                }
                return Ok(Answer::None);
            }
            START => {
                time = u64::from(CLIENT);
                let answer = Message { op: ACK, sequence: message.sequence, time };
                return Ok(Answer::Start(answer.to_bytes()));
            }
            BROADCAST => {}
            REQUEST => self.wanted = Some(Instant::new(message.time).max(self.now)),
            WAIT => {
                self.now = self.now();
                self.is_waiting = true;
                if let Some(shared) = self.used() {
                    shared.set_running(CONTROLLER);
                    return Ok(Answer::None);
                }
            }
            GET => time = self.now().get(),
            UPDATE => self.advance(Instant::new(message.time))?,
            GET_TOD => time = self.epoch + self.now().get(),
            op => return Err(ClockError::Unknown(op)),
        }
        let answer = Message { op: ACK, sequence: message.sequence, time };
        Ok(Answer::Message(answer.to_bytes()))
    }

    /// Lets time pass to `now`, while the kernel waits or as it says.
    ///
    /// # Errors
    /// Time would go backwards.
    pub(crate) fn advance(&mut self, now: Instant) -> Result<(), ClockError> {
        if now < self.now {
            return Err(ClockError::Backwards { now: self.now.get(), to: now.get() });
        }
        self.now = now;
        if let Some(shared) = self.used() {
            shared.set_now(now);
        }
        Ok(())
    }

    /// Lets the kernel set its clock by itself up to this time, when something else happens.
    pub(crate) fn limit(&self, until: Instant) {
        if let Some(shared) = self.used() {
            shared.set_limit(until);
        }
    }

    /// Lets the kernel run at the present time. Returns the message that tells it.
    pub(crate) fn run(&mut self) -> [u8; MESSAGE_BYTES] {
        self.runs = self.runs.wrapping_add(1);
        match self.used() {
            Some(shared) => shared.set_running(CLIENT),
            None => self.unacknowledged = Some(self.runs),
        }
        self.is_waiting = false;
        self.wanted = None;
        Message { op: RUN, sequence: self.runs, time: self.now.get() }.to_bytes()
    }
}
