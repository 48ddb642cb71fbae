//! What a host may rely on after a power cut, independent of the device.
//!
//! A write is durable if it completed with FUA, or completed on a device without a volatile cache,
//! or completed before a flush was sent that then completed. A block may hold any write that is not
//! followed by a durable write, or its content at the start if no write to it is durable. A write
//! *follows* another if it was sent when the other had already ended; writes in flight together
//! have no order. A failed write may or may not have reached the medium.
//!
//! The oracle belongs to the host: it sees commands and completions, never the device.

use std::collections::BTreeMap;
use std::ops::Range;

use elevon_core::driver::Command;
use elevon_core::op::{Flags, Op};
use elevon_core::status::Status;

use super::content::{Survivors, blocks, changes};

/// A block with content that is not legal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The block.
    pub block: u64,
    /// The generation that was found.
    pub found: u64,
    /// The generations that are legal.
    pub legal: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Write {
    generation: u64,
    sent: u64,
    /// When it ended, with success or an error; `u64::MAX` in flight.
    ended: u64,
    ok: bool,
    durable: bool,
}

/// The durability oracle.
#[derive(Clone, Debug)]
pub struct Oracle {
    block_size: u32,
    volatile_cache: bool,
    /// Counts the events that the host sees, which orders them.
    clock: u64,
    writes: BTreeMap<u64, Vec<Write>>,
    /// Writes that succeeded and are not durable, by the clock at their end: generation and
    /// blocks. A flush examines only these, not every block that was ever written.
    volatile: BTreeMap<u64, (u64, Range<u64>)>,
    flushes: BTreeMap<u64, u64>,
}

impl Oracle {
    /// Returns an oracle for a device with this logical block size, with or without a volatile
    /// cache, as its description says.
    pub fn new(block_size: u32, volatile_cache: bool) -> Self {
        let (writes, volatile, flushes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { block_size, volatile_cache, clock: 0, writes, volatile, flushes }
    }

    /// Records a command that the device accepted.
    pub fn on_submit(&mut self, command: &Command) {
        self.clock += 1;
        if command.op == Op::Flush {
            self.flushes.insert(command.sequence, self.clock);
        } else if changes(command.op) {
            let write = Write {
                generation: command.sequence + 1,
                sent: self.clock,
                ended: u64::MAX,
                ok: false,
                durable: false,
            };
            for block in blocks(command, self.block_size) {
                self.writes.entry(block).or_default().push(write);
            }
        }
    }

    /// Records that a command ended with `status`, or was aborted.
    pub fn on_complete(&mut self, command: &Command, status: Status) {
        self.clock += 1;
        if let Some(sent) = self.flushes.remove(&command.sequence) {
            if status.is_ok() {
                let later = self.volatile.split_off(&sent);
                for (generation, blocks) in
                    std::mem::replace(&mut self.volatile, later).into_values()
                {
                    for (_, writes) in self.writes.range_mut(blocks) {
                        writes
                            .iter_mut()
                            .filter(|w| w.generation == generation)
                            .for_each(|w| w.durable = true);
                        prune(writes);
                    }
                }
            }
        } else if changes(command.op) {
            let through = !self.volatile_cache || command.flags.contains(Flags::FUA);
            if status.is_ok() && !through {
                self.volatile
                    .insert(self.clock, (command.sequence + 1, blocks(command, self.block_size)));
            }
            for block in blocks(command, self.block_size) {
                let Some(writes) = self.writes.get_mut(&block) else { continue };
                for write in writes.iter_mut().filter(|w| w.generation == command.sequence + 1) {
                    write.ended = self.clock;
                    write.ok = status.is_ok();
                    write.durable = write.ok && through;
                }
                prune(writes);
            }
        }
    }

    /// Returns the generations that `block` may hold after a power cut now.
    pub(crate) fn legal(&self, block: u64) -> Vec<u64> {
        let writes = self.writes.get(&block).map_or(&[][..], Vec::as_slice);
        let start = (!writes.iter().any(|write| write.durable)).then_some(0);
        start.into_iter().chain(writes.iter().map(|write| write.generation)).collect()
    }

    /// Compares what a power cut left with what is legal; the content after the cut is then the new
    /// start. A block that is not in `left` has its content from the start.
    ///
    /// # Errors
    /// A block has content that it cannot have; the content known so far is not changed.
    pub fn power_cut(&mut self, left: &Survivors) -> Result<(), Violation> {
        for &block in self.writes.keys() {
            let found = left.get(&block).copied().unwrap_or(0);
            let legal = self.legal(block);
            if !legal.contains(&found) {
                return Err(Violation { block, found, legal });
            }
        }
        if let Some((&block, &found)) =
            left.iter().find(|(block, found)| **found != 0 && !self.writes.contains_key(block))
        {
            return Err(Violation { block, found, legal: vec![0] });
        }
        let settled = |(&block, &generation): (&u64, &u64)| {
            let write = Write { generation, sent: 0, ended: 0, ok: true, durable: true };
            (generation > 0).then(|| (block, vec![write]))
        };
        self.writes = left.iter().filter_map(settled).collect();
        self.volatile.clear();
        self.flushes.clear();
        Ok(())
    }
}

/// Removes the writes that a durable write follows.
fn prune(writes: &mut Vec<Write>) {
    let newest =
        writes.iter().filter(|write| write.durable).map(|write| write.sent).max().unwrap_or(0);
    writes.retain(|write| write.ended >= newest);
}
