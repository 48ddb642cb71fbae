//! Power cuts of a simulated disk, for tests.

use std::collections::BTreeMap;

use elevon_core::driver::Command;
use elevon_core::op::Op;
use elevon_sim::device::Device;
use elevon_sim::device::fault::content::PowerCut;

use super::{Clock, SimulatedDisk};
use crate::disks::memory::SparseBytes;

/// The bytes of every write to a block, by generation: the sequence number of the command, plus 1.
pub(super) type Writes = BTreeMap<u64, BTreeMap<u64, Box<[u8]>>>;

impl<D: Device, C: Clock> SimulatedDisk<D, C> {
    /// Keeps from now on what is needed to cut the power: every write, in memory. Must be called
    /// before the first command.
    pub(crate) fn track_writes(&mut self) {
        self.device.track_content();
        self.writes = Some(Writes::new());
    }

    fn block_size(&self) -> u64 {
        self.device.description().limits.logical_block_size.into()
    }

    /// Cuts the power: commands in flight get no answer, and of what was not durable each block
    /// holds what `mode` leaves. `cut` is the number of the cut in the run.
    ///
    /// # Panics
    /// If writes are not tracked.
    pub(crate) fn cut_power(&mut self, mode: PowerCut, cut: u64) {
        let (now, block) = (self.clock.now(), self.block_size());
        let left = self.device.power_cut(now, mode, cut);
        let writes = self.writes.as_ref().expect("writes are tracked");
        self.bytes = SparseBytes::default();
        for (number, generation) in left {
            if let Some(bytes) = writes.get(&number).and_then(|all| all.get(&generation)) {
                self.bytes.write(number * block, bytes);
            }
        }
        self.flights.iter_mut().for_each(|flight| flight.sequence = None);
    }

    /// Keeps what a command is about to write.
    pub(super) fn keep(&mut self, command: &Command) {
        let (block, index) = (self.block_size(), command.request.index());
        let (Some(writes), Some(flight)) = (&mut self.writes, self.flights.get(index)) else {
            return;
        };
        for piece in &flight.pieces {
            let start = piece.sector.byte_offset().get();
            for at in (0..piece.len).step_by(block as usize) {
                let mut bytes = Vec::with_capacity(block as usize);
                match command.op {
                    Op::Write => self
                        .slots
                        .for_each_part(piece, at, block, |part| bytes.extend_from_slice(part)),
                    _ => bytes.resize(block as usize, 0),
                }
                let of_block = writes.entry((start + at) / block).or_default();
                of_block.insert(command.sequence + 1, bytes.into_boxed_slice());
            }
        }
    }
}
