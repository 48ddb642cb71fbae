//! How clients use a disk: tables of hostile neighbours and of clients that live beside them, for
//! tests in virtual time and over real files.

use std::time::Duration;

use crate::Rng;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// FLUSH.
    Flush,
    /// TRIM.
    Trim,
    /// CACHE.
    Cache,
    /// WRITE_ZEROES that may not make a hole.
    Zeroes,
    /// BLOCK_STATUS.
    BlockStatus,
}

/// A request: the command, its first byte in the client's part of the disk, its bytes.
pub type Ask = (Command, u64, u64);

/// What a client asks for.
#[derive(Clone, Copy, Debug)]
pub enum Requests {
    /// The same command for so many bytes, in order or at random places.
    Same {
        /// The command.
        command: Command,
        /// The bytes of each request.
        bytes: u64,
        /// Each request begins where the last one ended.
        in_order: bool,
    },
    /// The request with this number, on a part of the disk of so many bytes.
    By(fn(u64, &mut Rng, u64) -> Ask),
}

/// How a client goes on after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Each answer is followed by a request.
    Steady,
    /// The same, but it thinks for the whole time after one answer in 64 only, and for a 64th of it
    /// after the others; one request after the other.
    Late,
    /// All requests come at once, after all were answered.
    Bursts,
    /// Nothing that is sent to it is received.
    TakesNothing,
    /// It connects, asks once, and leaves.
    Reconnects,
}

/// How a client uses its disk.
#[derive(Clone, Copy, Debug)]
pub struct Habit {
    /// A name for a table.
    pub name: &'static str,
    /// Requests in flight.
    pub depth: usize,
    /// How long the client waits after an answer before its next request.
    pub think: Duration,
    /// How it goes on after an answer.
    pub manner: Manner,
    /// What it asks for.
    pub requests: Requests,
}

impl Habit {
    /// Returns the habit of a client that always has so many requests of one kind in flight, at
    /// random places.
    pub const fn steady(command: Command, bytes: u64, depth: usize) -> Self {
        let requests = Requests::Same { command, bytes, in_order: false };
        Self { name: "steady", depth, think: Duration::ZERO, manner: Manner::Steady, requests }
    }

    /// Returns the same in order.
    pub const fn stream(command: Command, bytes: u64, depth: usize) -> Self {
        let requests = Requests::Same { command, bytes, in_order: true };
        Self { requests, ..Self::steady(command, bytes, depth) }
    }

    /// Returns a habit of a client that others may have to put up with.
    pub fn hostile(rng: &mut Rng) -> Self {
        use Command::{BlockStatus, Cache, Flush, Read, Trim, Write, Zeroes};
        let command = rng.pick(&[
            Read,
            Read,
            Read,
            Write,
            Write,
            Write,
            Trim,
            Zeroes,
            Flush,
            Cache,
            BlockStatus,
        ]);
        let manner = rng.pick(&[
            Manner::Steady,
            Manner::Steady,
            Manner::Steady,
            Manner::Bursts,
            Manner::Reconnects,
        ]);
        Self { depth: rng.pick(&[1, 8, 32, 128, 512]), manner, ..Self::any(rng, command) }
    }

    /// Returns a habit of a client that reads or writes.
    pub fn ordinary(rng: &mut Rng) -> Self {
        let command = rng.pick(&[Command::Read, Command::Read, Command::Write]);
        let manner = rng.pick(&[Manner::Steady, Manner::Steady, Manner::Steady, Manner::Bursts]);
        Self { depth: rng.pick(&[1, 1, 2, 8, 32]), manner, ..Self::any(rng, command) }
    }

    fn any(rng: &mut Rng, command: Command) -> Self {
        let bytes = rng.pick(&[512, 4 * KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB]);
        let think = Duration::from_micros(rng.pick(&[0, 0, 0, 100, 2000]));
        let requests = Requests::Same { command, bytes, in_order: rng.one_in(2) };
        Self { think, requests, ..Self::steady(command, bytes, 1) }
    }

    /// Returns the request of this number, on a part of the disk of so many bytes.
    pub fn ask(&self, number: u64, rng: &mut Rng, size: u64) -> Ask {
        match self.requests {
            Requests::By(ask) => ask(number, rng, size),
            Requests::Same { command: Command::Flush, .. } => (Command::Flush, 0, 0),
            Requests::Same { command, bytes, in_order: true } => {
                (command, next(number, bytes, size), bytes)
            }
            Requests::Same { command, bytes, in_order: false } => {
                (command, random(rng, bytes, size), bytes)
            }
        }
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const fn habit(name: &'static str, depth: usize, ask: fn(u64, &mut Rng, u64) -> Ask) -> Habit {
    Habit {
        name,
        depth,
        think: Duration::ZERO,
        manner: Manner::Steady,
        requests: Requests::By(ask),
    }
}

fn random(rng: &mut Rng, bytes: u64, size: u64) -> u64 {
    rng.below(size / bytes) * bytes
}

const fn next(number: u64, bytes: u64, size: u64) -> u64 {
    number % (size / bytes) * bytes
}

/// Clients that are hostile to those beside them.
pub const NEIGHBOURS: [Habit; 12] = [
    habit("TRIM", 256, |_, _, _| (Command::Trim, 0, 4 * KIB)),
    habit("zeroes", 256, |_, _, _| (Command::Zeroes, 0, 4 * KIB)),
    habit("CACHE", 256, |_, rng, size| (Command::Cache, random(rng, 64 * KIB, size), 64 * KIB)),
    habit("flush", 256, |_, _, _| (Command::Flush, 0, 0)),
    habit("block status", 256, |_, _, size| (Command::BlockStatus, 0, size.min(1 << 30))),
    habit("unaligned writes", 64, |_, rng, size| {
        (Command::Write, random(rng, 4 * KIB, size) + 300, 3 * KIB + 1)
    }),
    Habit {
        think: Duration::from_millis(50),
        manner: Manner::Bursts,
        ..habit("bursts of 1,000", 1000, |_, rng, size| {
            (Command::Read, random(rng, 4 * KIB, size), 4 * KIB)
        })
    },
    Habit {
        think: Duration::from_micros(100),
        manner: Manner::Reconnects,
        ..habit("connections", 8, |_, rng, size| {
            (Command::Read, random(rng, 4 * KIB, size), 4 * KIB)
        })
    },
    Habit {
        manner: Manner::TakesNothing,
        ..habit("reads not taken", 64, |number, _, size| {
            (Command::Read, next(number, 32 * MIB, size), 32 * MIB)
        })
    },
    habit("cache thrash", 64, |_, rng, size| {
        (Command::Read, random(rng, 64 * KIB, size), 64 * KIB)
    }),
    habit("tiny writes", 128, |_, rng, size| (Command::Write, random(rng, 512, size), 512)),
    habit("sequential", 32, |number, _, size| (Command::Read, next(number, MIB, size), MIB)),
];

/// Clients that have to live beside these.
pub const VICTIMS: [Habit; 12] = [
    habit("reader", 1, |_, rng, size| (Command::Read, random(rng, 4 * KIB, size), 4 * KIB)),
    Habit {
        think: Duration::from_millis(2),
        ..habit("thinking reader", 1, |_, rng, size| {
            (Command::Read, random(rng, 4 * KIB, size), 4 * KIB)
        })
    },
    Habit {
        think: Duration::from_millis(2),
        ..habit("thinking stream", 1, |number, _, size| {
            (Command::Read, next(number, 4 * KIB, size), 4 * KIB)
        })
    },
    habit("stream", 4, |number, _, size| (Command::Read, next(number, 64 * KIB, size), 64 * KIB)),
    habit("log with fsync", 1, |number, _, size| match number % 2 {
        0 => (Command::Write, next(number / 2, 4 * KIB, size), 4 * KIB),
        _ => (Command::Flush, 0, 0),
    }),
    habit("writer", 1, |_, rng, size| (Command::Write, random(rng, 4 * KIB, size), 4 * KIB)),
    habit("database", 8, |number, rng, size| match number % 4 {
        0 => (Command::Write, random(rng, 8 * KIB, size), 8 * KIB),
        _ => (Command::Read, random(rng, 8 * KIB, size), 8 * KIB),
    }),
    habit("busy reader", 32, |_, rng, size| (Command::Read, random(rng, 4 * KIB, size), 4 * KIB)),
    habit("backup", 2, |number, _, size| (Command::Read, next(number, MIB, size), MIB)),
    Habit {
        think: Duration::from_millis(50),
        manner: Manner::Bursts,
        ..habit("page loads", 16, |_, rng, size| {
            (Command::Read, random(rng, 16 * KIB, size), 16 * KIB)
        })
    },
    habit("copy", 4, |number, _, size| (Command::Write, next(number, 64 * KIB, size), 64 * KIB)),
    habit("odd reader", 1, |_, rng, size| (Command::Read, random(rng, 4 * KIB, size) + 1000, 500)),
];
