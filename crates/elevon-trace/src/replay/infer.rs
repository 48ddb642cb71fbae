//! What each I/O of a process followed.

use super::{Workload, WorkloadIo, WorkloadProcess};

/// Completions that a process takes notice of in one go: those within this time before it goes on.
/// A process that is woken for one completion finds those that came while it woke up.
const ONE_WAKEUP: u64 = 200_000;

/// When an I/O goes in a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// How many I/Os of its process have completed before it goes; 0: it follows the start of the
    /// process.
    pub completions: u64,
    /// Nanoseconds from the last of those, or from that start.
    pub think: u64,
}

impl Workload {
    /// When each I/O of each process goes in a closed loop, in the order of
    /// [`Workload::processes`].
    ///
    /// An I/O follows its process's completions that came before it: it goes when as many I/Os of
    /// the process have completed as had in the trace, after the time that passed between the last
    /// of those completions and the I/O. So a process keeps the depth that it had at that moment,
    /// whichever of its I/Os complete first.
    ///
    /// A process that finds several completions at once (they came within 200 us before it went on)
    /// and issues several I/Os without a further completion in between has issued one for each: the
    /// first of them follows the first of those completions, the second the second, and the rest
    /// the last. I/Os before the first completion are timed from the first I/O of the process.
    ///
    /// A completion that the trace does not show counts as one at the beginning of the gap of lost
    /// events in which it may lie, so that the gap is waited for; without a gap, as one that never
    /// came.
    pub fn infer(&self) -> Vec<Vec<After>> {
        self.processes.iter().map(|process| of_process(process, &self.gaps)).collect()
    }
}

fn of_process(process: &WorkloadProcess, gaps: &[(u64, u64)]) -> Vec<After> {
    let ios = &process.ios;
    let Some(first) = ios.first() else { return Vec::new() };
    let mut ends: Vec<u64> = ios.iter().map(|io| end_of(io, gaps)).collect();
    ends.sort_unstable();
    let mut all = Vec::with_capacity(ios.len());
    // Completions before the burst of I/Os, and before the burst before it.
    let (mut seen, mut seen_before) = (0, 0);
    let mut begin = 0;
    while begin < ios.len() {
        seen += ends[seen..].iter().take_while(|&&end| end <= ios[begin].at).count();
        let next_end = ends.get(seen).copied().unwrap_or(u64::MAX);
        let len = 1 + ios[begin + 1..].iter().take_while(|io| io.at < next_end).count();
        let recent = ends[seen_before..seen].iter().rev();
        let recent = recent.take_while(|&&end| ios[begin].at - end <= ONE_WAKEUP).count();
        let early = recent.min(len).saturating_sub(1).min((seen - seen_before).saturating_sub(1));
        for (at, io) in ios[begin..begin + len].iter().enumerate() {
            // No I/O follows itself, or one that went later.
            let completions = (seen - early.saturating_sub(at)).min(begin + at);
            let since = completions.checked_sub(1).map_or(first.at, |last| ends[last]);
            all.push(After { completions: completions as u64, think: io.at.saturating_sub(since) });
        }
        seen_before = seen;
        begin += len;
    }
    all
}

fn end_of(io: &WorkloadIo, gaps: &[(u64, u64)]) -> u64 {
    let gap = || gaps.iter().find(|(_, until)| *until >= io.at).map(|&(from, _)| from.max(io.at));
    io.completed.or_else(gap).unwrap_or(u64::MAX)
}
