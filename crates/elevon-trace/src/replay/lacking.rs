//! What a scheduler would decide by, and a trace does not have.

use elevon_core::op::{Flags, Op};
use elevon_core::sched::Reads;

use super::{Workload, WorkloadIo};

impl Workload {
    /// Returns true if this would decide between I/Os of the workload, and none of them has it.
    pub fn lacks(&self, reads: Reads) -> bool {
        let mut ios = self.processes.iter().flat_map(|process| &process.ios);
        match reads {
            Reads::Process => self.processes.iter().all(|process| process.id.is_none() && process.name.is_none()),
            Reads::Priority | Reads::PriorityClass => {
                let is_shared = self.processes.len() > 1 || self.lacks(Reads::Process);
                is_shared && ios.all(|io| io.prio.is_none())
            }
            Reads::Sync => {
                let writes = || self.processes.iter().flat_map(|process| &process.ios).filter(|io| io.op == Op::Write);
                writes().next().is_some() && writes().all(has_no_flags)
            }
        }
    }
}

/// Returns true for a write whose flags the trace does not have: it was taken for a direct one
/// although nothing says that anybody waited for it.
const fn has_no_flags(write: &WorkloadIo) -> bool {
    write.flags.contains(Flags::IDLE) && !write.flags.contains(Flags::SYNC)
}
