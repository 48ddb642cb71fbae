//! Figures of what came to a disk.

use std::collections::BTreeMap;

use elevon_core::op::Op;
use elevon_core::units::{Instant, Nanos};

use crate::history::Event;

/// The figures of one kind of command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The kind, in the plural.
    pub name: &'static str,
    /// Commands that ended.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Mean time in the device.
    pub mean: Nanos,
    /// The time that half did not exceed.
    pub p50: Nanos,
    /// The time that 99 % did not exceed.
    pub p99: Nanos,
    /// The longest time.
    pub max: Nanos,
}

/// A command that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What it did.
    pub op: Op,
    /// Its bytes.
    pub bytes: u64,
    /// When it ended.
    pub at: Instant,
    /// How long it was in the device.
    pub time: Nanos,
}

/// Figures of commands by kind.
#[derive(Clone, Debug)]
pub struct Figures {
    rows: Vec<Row>,
    all: Option<Row>,
    ended: Vec<Ended>,
    busy: Nanos,
}

/// A kind of commands: its name, and whether an operation is of it.
type Kind = (&'static str, fn(Op) -> bool);

/// The kinds of commands.
pub const KINDS: [Kind; 4] = [
    ("reads", |op| op == Op::Read),
    ("writes", |op| matches!(op, Op::Write | Op::WriteZeroes)),
    ("flushes", |op| op == Op::Flush),
    ("discards", |op| matches!(op, Op::Discard | Op::SecureErase)),
];

impl Figures {
    /// Counts the commands that ended in these steps of a disk's history.
    pub fn of(events: &[Event]) -> Self {
        let mut issued: BTreeMap<u64, Instant> = BTreeMap::new();
        let mut ended = Vec::new();
        let (mut busy, mut busy_since) = (0, Instant::ZERO);
        for &Event { at, command, end, .. } in events {
            if end.is_none() {
                if issued.is_empty() {
                    busy_since = at;
                }
                issued.insert(command.sequence, at);
            } else if let Some(start) = issued.remove(&command.sequence) {
                let bytes = command.bytes.get();
                ended.push(Ended { op: command.op, bytes, at, time: at.since(start) });
                if issued.is_empty() {
                    busy += at.since(busy_since).get();
                }
            }
        }
        let rows = KINDS.iter().filter_map(|&(name, is_of)| row(name, &ended, is_of)).collect();
        let all = row("all", &ended, |_| true);
        Self { rows, all, ended, busy: Nanos::new(busy) }
    }

    /// Returns a row for each kind of which a command ended.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the row of all commands, if one ended.
    pub const fn all(&self) -> Option<&Row> {
        self.all.as_ref()
    }

    /// Returns the commands in the order in which they ended.
    pub fn ended(&self) -> &[Ended] {
        &self.ended
    }

    /// Returns how long at least one of the commands was in the device.
    pub const fn busy(&self) -> Nanos {
        self.busy
    }
}

/// Returns the figures of the commands that are of a kind.
fn row(name: &'static str, ended: &[Ended], is_of: fn(Op) -> bool) -> Option<Row> {
    let of: Vec<&Ended> = ended.iter().filter(|command| is_of(command.op)).collect();
    let mut times: Vec<u64> = of.iter().map(|command| command.time.get()).collect();
    times.sort_unstable();
    let count = times.len() as u64;
    let at = |percent: usize| {
        Some(Nanos::new(times[(times.len() * percent).div_ceil(100).checked_sub(1)?]))
    };
    Some(Row {
        name,
        count,
        bytes: of.iter().map(|command| command.bytes).sum(),
        mean: Nanos::new(times.iter().sum::<u64>().checked_div(count)?),
        p50: at(50)?,
        p99: at(99)?,
        max: Nanos::new(*times.last()?),
    })
}
