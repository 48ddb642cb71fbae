//! What a scheduler would decide by and a trace does not have, and what a trace shows that a replay
//! does not repeat.

use std::collections::BTreeMap;

use elevon_core::op::{Flags, Op};
use elevon_core::sched::Reads;

use super::{RequestRecord, Taken, Workload, WorkloadIo};
use crate::analysis::Analysis;
use crate::event::{SECTOR_SIZE, TraceKind};
use crate::recorded::Recorded;

/// Sectors of a page. The end of a piece is aligned, so that one at the limit may be shorter by
/// less than that.
const PAGE: u64 = 8;

/// A property of a traced workload that a replay does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// Splits below `max_sectors_kb`, which follow from the memory behind a buffer.
    Splits,
    /// What the page cache above made of reads and writes.
    PageCache,
    /// CPU time of the scheduler.
    CpuTime,
    /// Limits and weights of the cgroups.
    Cgroups,
    /// Requests that failed.
    Errors,
    /// Requests that the driver gave back.
    GivenBack,
    /// What was written.
    Contents,
}

impl Property {
    /// Returns a short stable name for JSON and readers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Splits => "splits",
            Self::PageCache => "page cache",
            Self::CpuTime => "CPU time",
            Self::Cgroups => "cgroups",
            Self::Errors => "errors",
            Self::GivenBack => "requeues",
            Self::Contents => "contents",
        }
    }
}

/// What happened to the requests of a trace that a replay does not repeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Splits of bios, and those of them that left a piece shorter than `limit`.
    pub splits: (u64, u64),
    /// Bytes of the largest request that the queue allowed: as recorded or, if that is not known,
    /// the longest piece of a split bio.
    pub limit: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Times that the driver gave a request back.
    pub given_back: u64,
}

impl Lost {
    /// Counts it in an analysis that kept its bios.
    pub(super) fn from_analysis(
        analysis: &Analysis,
        recorded: Option<&Recorded>,
        requests: &[RequestRecord],
    ) -> Self {
        let fronts: &BTreeMap<u64, u64> = analysis.fronts();
        let known = recorded.and_then(|recorded| recorded.number("queue/max_sectors_kb"));
        let longest = fronts.keys().next_back().copied().unwrap_or(0);
        let limit = known.map_or(longest, |kb| kb.saturating_mul(1024 / SECTOR_SIZE));
        let short = fronts.iter().filter(|(front, _)| front.saturating_add(PAGE) <= limit);
        Self {
            splits: (fronts.values().sum(), short.map(|(_, count)| count).sum()),
            limit: limit.saturating_mul(SECTOR_SIZE),
            errors: requests
                .iter()
                .filter(|request| request.error.is_some_and(|error| error != 0))
                .count() as u64,
            given_back: analysis.count(TraceKind::Requeue),
        }
    }
}

impl Workload {
    /// Returns true if this would decide between I/Os of the workload, and none of them has it.
    pub fn lacks(&self, reads: Reads) -> bool {
        let mut ios = self.processes.iter().flat_map(|process| &process.ios);
        match reads {
            Reads::Process => {
                self.processes.iter().all(|process| process.id.is_none() && process.name.is_none())
            }
            Reads::Priority | Reads::PriorityClass => {
                let is_shared = self.processes.len() > 1 || self.lacks(Reads::Process);
                is_shared && ios.all(|io| io.prio.is_none())
            }
            Reads::Sync => {
                let writes = || {
                    self.processes
                        .iter()
                        .flat_map(|process| &process.ios)
                        .filter(|io| io.op == Op::Write)
                };
                writes().next().is_some() && writes().all(has_no_flags)
            }
        }
    }

    /// Returns the number of splits that were shorter than the limit of the queue asked for, if
    /// bios are replayed: a replay splits a bio at the limits alone.
    pub fn short_splits(&self) -> u64 {
        if self.taken == Taken::Queued { self.lost.splits.1 } else { 0 }
    }

    /// Returns how many I/Os are the page cache's: reads ahead, and writes that no task waited for.
    pub fn of_page_cache(&self) -> (u64, u64) {
        let count = |is_counted: &dyn Fn(&WorkloadIo) -> bool| {
            let ios = self.processes.iter().flat_map(|process| &process.ios);
            ios.filter(|io| is_counted(io)).count() as u64
        };
        let is_ahead = |io: &WorkloadIo| io.op == Op::Read && io.flags.contains(Flags::RAHEAD);
        (count(&is_ahead), count(&|io| io.is_throttled() && !io.flags.contains(Flags::SYNC)))
    }
}

/// Returns true for a write whose flags the trace does not have: it was taken for a direct one
/// although nothing says that anybody waited for it.
const fn has_no_flags(write: &WorkloadIo) -> bool {
    write.flags.contains(Flags::IDLE) && !write.flags.contains(Flags::SYNC)
}
