//! Finds processes that ended because their time was over, as jobs that run for a time do, and not
//! because their work was done.

use super::{Workload, WorkloadProcess};

/// Minimum number of I/Os of a process for which this can be told, unless it was starved.
const MIN_IOS_OF_A_PROCESS: usize = 100;
/// A process was starved if it waited for its I/O for at least this percentage of its time, and
/// that time is at least half of the trace.
const STARVED_PERCENT: u128 = 90;
/// Two processes end together if their ends differ by at most one part in so many of their
/// durations.
const TOGETHER: u64 = 100;
/// Two processes ran equally long if their durations differ by at most one part in so many.
const EQUAL: u64 = 200;

impl Workload {
    /// Returns, for each of [`Self::processes`], whether it probably ended because its time was
    /// over.
    ///
    /// One process alone never shows it. Of several with at least 100 I/Os each, it is so for one
    /// that was still at work when the trace ended. It is so for one that ended when another did,
    /// within 1 % of its duration, and for one that ran equally long as another, within 0.5 %. One
    /// that was starved has few I/Os, and under another scheduler would do more: it needs no 100.
    pub fn ended_by_time(&self) -> Vec<bool> {
        let spans: Vec<Option<(u64, u64)>> =
            self.processes.iter().map(|process| span(process, self.duration)).collect();
        let of = |at: usize| {
            let Some((first, last)) = spans[at] else { return false };
            let others = spans.iter().enumerate().filter(|&(other, _)| other != at);
            let mut others = others.filter_map(|(_, span)| *span).peekable();
            let duration = last - first;
            let at_the_end =
                others.peek().is_some() && self.duration.abs_diff(last) <= duration / TOGETHER;
            at_the_end
                || others.any(|(its_first, its_last)| {
                    let its_duration = its_last - its_first;
                    let shorter = duration.min(its_duration);
                    its_last.abs_diff(last) <= shorter / TOGETHER
                        || its_duration.abs_diff(duration) <= shorter / EQUAL
                })
        };
        (0..spans.len()).map(of).collect()
    }
}

/// Returns the time of the first I/O of a process and that of its last I/O or completion; `None` if
/// nobody can tell from it.
fn span(process: &WorkloadProcess, trace: u64) -> Option<(u64, u64)> {
    let first = process.ios.first()?.at;
    let duration = process.duration();
    let is_starved =
        || duration >= trace / 2 && waits(process) * 100 >= u128::from(duration) * STARVED_PERCENT;
    (process.ios.len() >= MIN_IOS_OF_A_PROCESS || is_starved()).then_some((first, first + duration))
}

/// Returns for how many nanoseconds a process had I/O under way of which the trace shows the end.
fn waits(process: &WorkloadProcess) -> u128 {
    let (mut waits, mut until) = (0, 0);
    for io in &process.ios {
        let end = io.completed.unwrap_or(io.at).max(until);
        waits += u128::from(end.saturating_sub(io.at.max(until)));
        until = end;
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::super::tests::{io, process, workload};

    /// Returns whether each of these processes ended by time. Each does an I/O every millisecond,
    /// from and until these milliseconds.
    fn ended(spans: &[(u64, u64)]) -> Vec<bool> {
        let of = |&(from, until): &(u64, u64)| {
            process((from..until).map(|ms| io(1000 * ms, Some(1000 * ms + 500))).collect())
        };
        let mut all = workload(spans.iter().map(of).collect(), Vec::new());
        all.duration = spans.iter().map(|&(_, until)| until * 1_000_000).max().unwrap_or(0);
        all.ended_by_time()
    }

    #[test]
    fn who_ends_with_another_or_with_the_trace_ran_for_a_time() {
        for (processes, expected) in [
            // One alone does not tell.
            (&[(0, 500)][..], &[false][..]),
            // The first two end together.
            (&[(0, 500), (100, 501), (0, 800)], &[true, true, true]),
            // The last is at work until the end, the first was done before.
            (&[(0, 500), (0, 800)], &[false, true]),
            // Both ran for 400 ms.
            (&[(0, 400), (200, 600), (0, 900)], &[true, true, true]),
            // Too few I/Os to tell.
            (&[(0, 50), (0, 50), (0, 900)], &[false, false, false]),
        ] {
            assert_eq!(ended(processes), expected, "{processes:?}");
        }
    }

    /// Eight reads wait for as long as the others run, as in an idle class: under another scheduler
    /// there would be more of them. Eight that end before the trace does were all.
    #[test]
    fn who_was_starved_until_the_end_ran_for_a_time() {
        for (until, expected) in [(800, [true, true]), (450, [true, false]), (300, [false, false])]
        {
            let busy = process((0..800).map(|ms| io(1000 * ms, Some(1000 * ms + 500))).collect());
            let starved = process((0..8).map(|n| io(n, Some(1000 * until))).collect());
            let mut all = workload(vec![busy, starved], Vec::new());
            all.duration = 800_000_000;
            assert_eq!(all.ended_by_time(), expected, "until {until} ms");
        }
    }
}
