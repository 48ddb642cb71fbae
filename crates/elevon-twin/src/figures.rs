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
    /// The time that 99 % did not exceed.
    pub p99: Nanos,
    /// The longest time.
    pub max: Nanos,
}

/// Figures of commands by kind.
#[derive(Clone, Debug)]
pub struct Figures {
    rows: Vec<Row>,
}

/// A kind of commands: its name, and whether an operation is of it.
type Kind = (&'static str, fn(Op) -> bool);

/// The kinds of commands.
const KINDS: [Kind; 4] = [
    ("reads", |op| op == Op::Read),
    ("writes", |op| matches!(op, Op::Write | Op::WriteZeroes)),
    ("flushes", |op| op == Op::Flush),
    ("discards", |op| matches!(op, Op::Discard | Op::SecureErase)),
];

impl Figures {
    /// Counts the commands that ended in these steps of a disk's history.
    pub fn of(events: &[Event]) -> Self {
        let mut issued: BTreeMap<u64, Instant> = BTreeMap::new();
        let mut ended: Vec<(Op, u64, Nanos)> = Vec::new();
        for Event { at, command, end, .. } in events {
            match end {
                None => _ = issued.insert(command.sequence, *at),
                Some(_) => {
                    if let Some(start) = issued.remove(&command.sequence) {
                        ended.push((command.op, command.bytes.get(), at.since(start)));
                    }
                }
            }
        }
        let row = |(name, is_of): &Kind| {
            let of: Vec<_> = ended.iter().filter(|(op, ..)| is_of(*op)).collect();
            let mut times: Vec<u64> = of.iter().map(|(.., time)| time.get()).collect();
            times.sort_unstable();
            let count = times.len() as u64;
            let place = (times.len() * 99).div_ceil(100).checked_sub(1)?;
            Some(Row {
                name,
                count,
                bytes: of.iter().map(|(_, bytes, _)| bytes).sum(),
                mean: Nanos::new(times.iter().sum::<u64>() / count),
                p99: Nanos::new(times[place]),
                max: Nanos::new(*times.last()?),
            })
        };
        Self { rows: KINDS.iter().filter_map(row).collect() }
    }

    /// Returns a row for each kind of which a command ended.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
}
