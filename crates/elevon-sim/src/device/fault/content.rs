//! The content of a device without the data: the *generation* of each block, which identifies the
//! write that it comes from.
//!
//! A completed write is in the volatile cache until a flush that was sent after that completion
//! completes. It is durable at once if it was sent with FUA or there is no cache. Of the volatile
//! writes, in flight or completed, a power cut leaves what the mode says, block by block; durable
//! writes stay.
//!
//! Cost: O(log writes) per write that completes, O(blocks log blocks) per write that becomes
//! durable, O(volatile writes) per flush, O(volatile blocks log blocks) per cut; memory grows with
//! the blocks written. For tests and the swarm.

use std::collections::BTreeMap;

use elevon_core::driver::Command;
use elevon_core::op::{Flags, Op};
use elevon_core::status::Status;

use crate::chance::{below, draw};

/// Generation of every block that was written: the sequence number of the write plus one; 0 is the
/// content at the start.
pub type Survivors = BTreeMap<u64, u64>;

/// What a power cut leaves of writes that were not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerCut {
    /// No write is left.
    DropAll,
    /// All writes are left, including those in flight.
    KeepAll,
    /// The first writes in order of submission are left, a random number of them.
    Prefix,
    /// The last writes are left, a random number of them: the older ones are lost, which no order
    /// of writing explains.
    Suffix,
    /// A random subset of the writes is left.
    Subset,
    /// For each block, one of the writes to it is left, independently of other blocks.
    Blocks,
    /// For each block, all writes but the newest are left.
    NewestLost,
    /// The first blocks of each write are left, a random number of them.
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

/// Returns the blocks that a command writes, of `block_size` bytes each: from the first to the one
/// after the last.
pub(super) fn blocks(command: &Command, block_size: u32) -> core::ops::Range<u64> {
    let start = command.sector.byte_offset().get();
    start / u64::from(block_size)..(start + command.bytes.get()).div_ceil(block_size.into())
}

/// Returns true if a command changes the tracked content. A discard does not: no specification says
/// what it leaves, and one of several ranges is not at the sector of its command (the ranges are
/// its pieces, which a simulated device does not see).
pub(super) const fn changes(op: Op) -> bool {
    op.is_write() && !matches!(op, Op::Discard)
}

#[derive(Clone, Debug)]
struct Write {
    generation: u64,
    blocks: core::ops::Range<u64>,
    /// Position in the order of completions; `None` in flight.
    completed: Option<u64>,
}

/// The content of one device.
#[derive(Clone, Debug)]
pub struct Content {
    block_size: u32,
    volatile_cache: bool,
    durable: Survivors,
    /// Volatile writes in order of submission, which is the order of their generations.
    volatile: Vec<Write>,
    completions: u64,
    /// Flushes in flight, by sequence number, with the number of completions before them.
    flushes: BTreeMap<u64, u64>,
}

impl Content {
    /// Returns the content of a device without writes. `block_size` is its logical block in bytes;
    /// without a volatile cache, a completed write is durable.
    pub fn new(block_size: u32, volatile_cache: bool) -> Self {
        Self {
            block_size,
            volatile_cache,
            durable: Survivors::new(),
            volatile: Vec::new(),
            completions: 0,
            flushes: BTreeMap::new(),
        }
    }

    /// Notes that a command was accepted. Sequence numbers grow.
    pub fn on_submit(&mut self, command: &Command) {
        if command.op == Op::Flush {
            self.flushes.insert(command.sequence, self.completions);
        } else if changes(command.op) {
            let write = Write {
                generation: command.sequence + 1,
                blocks: blocks(command, self.block_size),
                completed: None,
            };
            self.volatile.push(write);
        }
    }

    /// Notes that a command ended.
    pub fn on_complete(&mut self, command: &Command, status: Status) {
        let ok = status.is_ok();
        if let Some(before) = self.flushes.remove(&command.sequence) {
            if ok {
                self.settle(|write| write.completed.is_some_and(|number| number < before));
            }
        } else if changes(command.op) && ok {
            let generation = command.sequence + 1;
            let through = !self.volatile_cache || command.flags.contains(Flags::FUA);
            if let Ok(index) =
                self.volatile.binary_search_by_key(&generation, |write| write.generation)
            {
                self.volatile[index].completed = Some(self.completions);
            }
            self.completions += 1;
            if through {
                self.settle(|write| write.generation == generation);
            }
        }
        // A failed write may still have reached some blocks: it stays among the volatile writes.
    }

    /// Makes the writes durable for which `is_durable` returns true. A block never returns to an
    /// older write than it holds.
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

    /// Returns for each block the generations of volatile writes to it, oldest first.
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
    fn keeps(
        &self,
        mode: PowerCut,
        seed: u64,
        index: usize,
        block: u64,
        candidates: &[u64],
    ) -> bool {
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

    /// Cuts the power. Returns what is left, which is the content of the device from then on.
    /// `seed` is the random seed of the modes that draw.
    pub fn power_cut(&mut self, mode: PowerCut, seed: u64) -> Survivors {
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
