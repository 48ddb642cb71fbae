//! Kinds of I/O: flags of bios, priorities of requests.

use elevon_core::ioprio::IoPrio;
use elevon_core::op::Flags;
use elevon_core::stats::LatencyStat;

use super::Group;

/// Requests of one priority.
#[derive(Clone, Debug)]
pub struct PrioRow {
    /// Class and level.
    pub prio: IoPrio,
    /// Number of requests, by [`Group`].
    pub requests: [u64; Group::COUNT],
    /// Times from queue (or issue, if the trace has no bios) to completion, of reads and writes.
    pub latency: LatencyStat,
}

/// Counts by flags and priorities.
#[derive(Clone, Debug, Default)]
pub struct Mix {
    /// Bios of which the trace tells the flags, by [`Group`].
    pub flagged: [u64; Group::COUNT],
    /// Bios for which a task waits (SYNC), by [`Group`].
    pub sync: [u64; Group::COUNT],
    /// Bios of file-system metadata (META).
    pub meta: [u64; Group::COUNT],
    /// Bios of readahead (RAHEAD).
    pub readahead: [u64; Group::COUNT],
    /// Bios that must be durable when they complete (FUA).
    pub fua: [u64; Group::COUNT],
    /// Bios with a flush before them (PREFLUSH), including those without data.
    pub preflush: [u64; Group::COUNT],
    /// Requests by priority, in order of class and level; empty if the trace has none.
    pub priorities: Vec<PrioRow>,
}

impl Mix {
    #[inline]
    pub(super) fn bio(&mut self, group: Group, flags: Option<Flags>) {
        let Some(flags) = flags else { return };
        let at = group as usize;
        self.flagged[at] += 1;
        if flags == Flags::NONE {
            return;
        }
        self.sync[at] += u64::from(flags.contains(Flags::SYNC));
        self.meta[at] += u64::from(flags.contains(Flags::META));
        self.readahead[at] += u64::from(flags.contains(Flags::RAHEAD));
        self.fua[at] += u64::from(flags.contains(Flags::FUA));
        self.preflush[at] += u64::from(flags.contains(Flags::PREFLUSH));
    }

    #[inline]
    pub(super) fn request(&mut self, group: Group, prio: Option<IoPrio>, latency: Option<u64>) {
        let Some(prio) = prio else { return };
        // Hints are ignored. There are at most 4 classes of 8 levels, so the list is short.
        let prio = IoPrio::new(prio.class(), prio.level());
        let at = match self.priorities.binary_search_by_key(&prio, |row| row.prio) {
            Ok(at) => at,
            Err(at) => {
                let row =
                    PrioRow { prio, requests: [0; Group::COUNT], latency: LatencyStat::default() };
                self.priorities.insert(at, row);
                at
            }
        };
        let row = &mut self.priorities[at];
        row.requests[group as usize] += 1;
        if let Some(latency) = latency.filter(|_| matches!(group, Group::Read | Group::Write)) {
            row.latency.add(latency);
        }
    }
}
