//! Infers which completions each I/O of a process followed.

use super::after::After;
use super::completions::{Burst, Completions};
use super::{Workload, WorkloadIo, WorkloadProcess, follow, own_time};

/// Completions within this time before a process continues are handled together: a process that is
/// woken for one completion also finds those that arrived while it woke up.
const ONE_WAKEUP: u64 = 200_000;

impl Workload {
    /// Returns when each I/O of each process is issued in a closed loop, in the order of
    /// [`Workload::processes`].
    ///
    /// An I/O follows the completions of its process that came before it: it is issued when as many
    /// I/Os of the process have completed as in the trace, after the time that passed in the trace
    /// between the last of these completions and the I/O. So a process keeps its depth at that
    /// moment, in whichever order its I/Os complete.
    ///
    /// A process may find several completions at once (they came within 200 us before it
    /// continued). If it issues several I/Os without a further completion in between, it has issued
    /// one for each. The first I/O follows the first of these completions, the second the second,
    /// and the remaining ones the last. I/Os before the first completion are timed from the first
    /// I/O of the process.
    ///
    /// Writes without a waiting process are the page cache's, which waits for nothing but writeback
    /// throttling, of which a replay has its own. One that comes while the write before it is in
    /// flight follows what that one followed, and for how long the process slept for a place is no
    /// time of its own.
    ///
    /// I/O that follows that of another process ([`super::Follows`]) is of two kinds. Where
    /// processes wait for the journal of ext4, they follow its I/O, and its commits follow theirs.
    /// Writes of the kernel's flusher follow each other, whichever worker does them.
    ///
    /// A completion that the trace does not show counts as one at the start of the gap of lost
    /// events in which it may lie, so that the replay waits for the gap. Without a gap, it counts
    /// as one that never came.
    pub fn infer(&self) -> Vec<Vec<After>> {
        let mut all: Vec<_> =
            self.processes.iter().map(|process| of_process(process, &self.gaps)).collect();
        follow::add_journal(self, &mut all);
        self.add_flushers(&mut all);
        all
    }
}

fn of_process(process: &WorkloadProcess, gaps: &[(u64, u64)]) -> Vec<After> {
    let ios = &process.ios;
    let Some(first) = ios.first() else { return Vec::new() };
    let completed = Completions::new(ios.iter().map(|io| end_of(io, gaps)));
    let ends = &completed.ends;
    let mut all: Vec<After> = Vec::with_capacity(ios.len());
    // Number of completions until the burst before.
    let mut seen_before = 0;
    for Burst { first: begin, end, seen } in completed.bursts(ios) {
        let recent = ends[seen_before..seen].iter().rev();
        let recent = recent.take_while(|&&end| ios[begin].at - end <= ONE_WAKEUP).count();
        let early =
            recent.min(end - begin).saturating_sub(1).min((seen - seen_before).saturating_sub(1));
        for (at, io) in ios[begin..end].iter().enumerate() {
            let before = (begin + at).checked_sub(1).map(|before| (&ios[before], all[before]));
            if let Some(after) = before.and_then(|(before, after)| at_once(before, after, io)) {
                all.push(after);
                continue;
            }
            // No I/O follows itself, or one that was issued later.
            let completions = (seen - early.saturating_sub(at)).min(begin + at);
            let since = completions.checked_sub(1).map_or(first.at, |last| ends[last]);
            let think = io.at.saturating_sub(since);
            all.push(After {
                completions: completions as u64,
                think,
                own: 0,
                continues: false,
                follows: None,
            });
        }
        seen_before = seen;
    }
    own_time::add(process, &completed, &mut all);
    all
}

/// Returns what a write of the page cache follows that came while the one before it was in flight,
/// which followed `after`: the same.
fn at_once(before: &WorkloadIo, after: After, io: &WorkloadIo) -> Option<After> {
    let is_in_flight = before.completed.is_none_or(|end| end > io.at);
    let apart = io.at.checked_sub(before.awake())?;
    let follows = before.is_throttled() && io.is_throttled() && is_in_flight;
    follows.then(|| After { think: after.think + apart, continues: true, ..after })
}

fn end_of(io: &WorkloadIo, gaps: &[(u64, u64)]) -> u64 {
    let gap = || gaps.iter().find(|(_, until)| *until >= io.at).map(|&(from, _)| from.max(io.at));
    io.completed.or_else(gap).unwrap_or(u64::MAX)
}
