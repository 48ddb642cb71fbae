//! What a device holds, without the data: each block's *generation*, the write that it comes from.
//!
//! A write that the device has completed sits in its volatile cache until a flush, sent after that
//! completion, completes; or it was sent with FUA, or there is no cache. A cut of power then leaves
//! of the volatile writes, in flight or completed, whatever the mode says, block by block; the
//! durable ones stay.
//!
//! Cost: O(log writes) per write that completes, O(blocks log blocks) per write that becomes
//! durable, O(volatile writes) per flush, O(volatile blocks log blocks) per cut; memory grows with
//! the blocks written. For tests and the swarm.

use std::collections::BTreeMap;

use elevon_core::driver::Command;
use elevon_core::op::{Flags, Op};
use elevon_core::status::Status;

use crate::chance::{below, draw};

/// Generation of every block that was written: the sequence of the write plus one; 0 is what was
/// there at the start.
pub type Survivors = BTreeMap<u64, u64>;

/// What a cut of power leaves of the writes that were not durable yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerCut {
    /// Nothing.
    DropAll,
    /// Everything, those in flight too.
    KeepAll,
    /// The first so many in order of submission.
    Prefix,
    /// The last so many: the older ones are lost, which no order of writing explains.
    Suffix,
    /// Any of them.
    Subset,
    /// Each block by itself: any of the writes to it.
    Blocks,
    /// All but the newest of each block.
    NewestLost,
    /// Of each write its first so many blocks.
    Shorn,
}

impl PowerCut {
    /// All modes.
    pub const ALL: [Self; 8] = [
        Self::DropAll,
        Self::KeepAll,
        Self::Prefix,
        Self::Suffix,
        Self::Subset,
        Self::Blocks,
        Self::NewestLost,
        Self::Shorn,
    ];
}

/// The blocks that a command writes, of `block_size` bytes each: first and one after the last.
pub(super) fn blocks(command: &Command, block_size: u32) -> core::ops::Range<u64> {
    let start = command.sector.byte_offset();
    start / u64::from(block_size)..(start + command.bytes.get()).div_ceil(block_size.into())
}

/// Returns true if a command changes what the device holds. What a discard leaves is not said by
/// any specification, and one of several ranges does not lie where its command says (the ranges are
/// its pieces, which a simulated device does not see): it changes nothing.
pub(super) const fn changes(op: Op) -> bool {
    op.is_write() && !matches!(op, Op::Discard)
}

#[derive(Clone, Debug)]
struct Write {
    generation: u64,
    blocks: core::ops::Range<u64>,
    /// Place in the order of completions; `None` in flight.
    completed: Option<u64>,
}

/// The content of one device.
#[derive(Clone, Debug)]
pub struct Content {
    block_size: u32,
    volatile_cache: bool,
    durable: Survivors,
    /// In order of submission, which is that of their generations.
    volatile: Vec<Write>,
    completions: u64,
    /// Flushes in flight, by sequence: the completions that came before them.
    flushes: BTreeMap<u64, u64>,
}

impl Content {
    pub(super) fn new(block_size: u32, volatile_cache: bool) -> Self {
        Self {
            block_size,
            volatile_cache,
            durable: Survivors::new(),
            volatile: Vec::new(),
            completions: 0,
            flushes: BTreeMap::new(),
        }
    }

    pub(super) fn on_submit(&mut self, command: &Command) {
        if command.op == Op::Flush {
            self.flushes.insert(command.sequence, self.completions);
        } else if changes(command.op) {
            let write =
                Write { generation: command.sequence + 1, blocks: blocks(command, self.block_size), completed: None };
            self.volatile.push(write);
        }
    }

    pub(super) fn on_complete(&mut self, command: &Command, status: Status) {
        let ok = status.is_ok();
        if let Some(before) = self.flushes.remove(&command.sequence) {
            if ok {
                self.settle(|write| write.completed.is_some_and(|number| number < before));
            }
        } else if changes(command.op) && ok {
            let generation = command.sequence + 1;
            let through = !self.volatile_cache || command.flags.contains(Flags::FUA);
            if let Ok(index) = self.volatile.binary_search_by_key(&generation, |write| write.generation) {
                self.volatile[index].completed = Some(self.completions);
            }
            self.completions += 1;
            if through {
                self.settle(|write| write.generation == generation);
            }
        }
        // A write that failed may still have reached some blocks: it stays among the volatile ones.
    }

    /// Makes durable what `is_durable` says. A block never goes back to an older write than it
    /// holds.
    fn settle(&mut self, is_durable: impl Fn(&Write) -> bool) {
        let durable = &mut self.durable;
        self.volatile.retain(|write| {
            let settles = is_durable(write);
            if settles {
                for block in write.blocks.clone() {
                    let held = durable.entry(block).or_insert(0);
                    *held = write.generation.max(*held);
                }
            }
            !settles
        });
    }

    /// Which generations of a volatile write to each block are there, oldest first.
    fn candidates(&self) -> BTreeMap<u64, Vec<u64>> {
        let mut all: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for write in &self.volatile {
            for block in write.blocks.clone() {
                all.entry(block).or_default().push(write.generation);
            }
        }
        all
    }

    /// Returns true if a block of a volatile write is left after a cut; `candidates` are all
    /// volatile writes to it.
    fn keeps(&self, mode: PowerCut, seed: u64, index: usize, block: u64, candidates: &[u64]) -> bool {
        let write = &self.volatile[index];
        let count = self.volatile.len() as u64;
        let cut = below(draw(seed, 0, 0), count + 1);
        match mode {
            PowerCut::DropAll => false,
            PowerCut::KeepAll => true,
            PowerCut::Prefix => (index as u64) < cut,
            PowerCut::Suffix => index as u64 >= cut,
            PowerCut::Subset => draw(seed, 1, write.generation) & 1 == 1,
            PowerCut::Blocks => {
                let pick = below(draw(seed, 2, block), candidates.len() as u64 + 1);
                candidates.get(pick as usize) == Some(&write.generation)
            }
            PowerCut::NewestLost => candidates.last() != Some(&write.generation),
            PowerCut::Shorn => {
                let length = write.blocks.end - write.blocks.start;
                block - write.blocks.start < below(draw(seed, 3, write.generation), length + 1)
            }
        }
    }

    /// What is left after a cut; from then on it is what the device holds.
    pub(super) fn power_cut(&mut self, mode: PowerCut, seed: u64) -> Survivors {
        let mut left = self.durable.clone();
        let candidates = self.candidates();
        for (index, write) in self.volatile.iter().enumerate() {
            for block in write.blocks.clone() {
                let held = left.entry(block).or_insert(0);
                if self.keeps(mode, seed, index, block, &candidates[&block]) {
                    *held = write.generation.max(*held);
                }
            }
        }
        self.volatile.clear();
        self.flushes.clear();
        self.durable.clone_from(&left);
        left
    }
}
