//! Finds for how long the thread of a process was at work before an I/O.
//!
//! A thread has one CPU. So what it does between a completion and the I/O that follows cannot
//! overlap what it did for the I/O before, however fast the device is. And a thread that has more
//! to do than a CPU can finds completions that came long before: then the last completion before an
//! I/O explains nothing, and the I/O did not wait for it.
//!
//! A trace does not show when a thread ran. It shows how long the thread took from one I/O to the
//! next with no completion in between: that was time of its own, whether it computed or slept. A
//! time between two I/Os that is no longer than those needs no completion to explain it either.

use super::WorkloadProcess;
use super::after::After;
use super::completions::Completions;

/// Minimum number of times of a thread's own from which its other times are judged.
const MIN_TIMES_OF_A_THREAD: usize = 20;

/// Number of I/Os from which the depth at one of them is judged.
const NEIGHBOURS: usize = 64;

/// A thread that was at work for less than one part in so many of the time is held up by its I/O on
/// any device that is not as many times as fast.
const BUSY: u64 = 4;

/// Adds to each I/O of a process how long its thread was at work since the I/O before. `all`
/// is what its I/Os follow.
///
/// An I/O that a time of the thread's own explains follows no completion but the one that made
/// room for it in the depth of the process, if there was room when the I/O before went.
///
/// Nothing is added if an I/O goes when the one before has completed, as it follows that in any
/// case. Nothing is added to processes of several threads, whose times overlap, and to those that
/// keep a pace, which sleep less when they are late. Writes of the page cache keep their distance
/// from each other, and nothing is added to them.
pub(super) fn add(process: &WorkloadProcess, completions: &Completions, all: &mut [After]) {
    let ios = &process.ios;
    if !process.is_one_thread || process.pace().is_some() {
        return;
    }
    let seen = ios.iter().scan(0, |seen, io| {
        *seen = completions.seen_until(*seen, io.at);
        Some(*seen)
    });
    let seen: Vec<usize> = seen.collect();
    let in_flight: Vec<usize> =
        seen.iter().enumerate().map(|(n, &seen)| (n + 1).saturating_sub(seen)).collect();
    let depths: Vec<usize> = in_flight.chunks(NEIGHBOURS).map(usual_depth).collect();
    let since = |n: usize| ios[n].at.saturating_sub(ios[n - 1].awake());
    let is_of_cache = |n: usize, after: &After| ios[n].is_throttled() || after.continues;
    let unexplained = (1..ios.len())
        .filter(|&n| seen[n] == seen[n - 1] && !ios[n].joins && !is_of_cache(n, &all[n]))
        .map(since)
        .collect();
    let longest = usual_time(unexplained);
    let of_thread = |n: usize| !ios[n].joins && longest.is_some_and(|longest| since(n) <= longest);
    let own: Vec<u64> = (0..ios.len())
        .map(|n| match n {
            0 => 0,
            _ if depths[n / NEIGHBOURS] == 1 || is_of_cache(n, &all[n]) => 0,
            _ if of_thread(n) => since(n),
            _ => {
                let woken = seen[n].checked_sub(1).map_or(0, |last| completions.ends[last]);
                since(n).min(ios[n].at - woken).min(all[n].think)
            }
        })
        .collect();
    let duration = ios.last().map_or(0, |last| last.at - ios[0].at);
    if own.iter().sum::<u64>() < duration / BUSY {
        return;
    }
    for n in 1..ios.len() {
        all[n].own = own[n];
        if own[n] > 0 && of_thread(n) && in_flight[n - 1] < depths[n / NEIGHBOURS] {
            // The completions that I/Os follow never decrease, here nor in what is left of `all`.
            let makes_room = (n + 1).saturating_sub(depths[n / NEIGHBOURS]) as u64;
            let completions = makes_room.clamp(all[n - 1].completions, all[n].completions);
            if completions < all[n].completions {
                (all[n].completions, all[n].think) = (completions, own[n]);
            }
        }
    }
}

/// Returns the largest depth that a tenth of the I/Os reached: one that was reached once or twice
/// is not the depth of the process.
fn usual_depth(in_flight: &[usize]) -> usize {
    let mut depths = in_flight.to_vec();
    depths.sort_unstable();
    depths[depths.len() * 9 / 10]
}

/// Returns the time that nine of ten times of a thread's own do not exceed, as one may have been
/// lost to another thread that had the CPU; `None` if there are too few of them to judge by.
fn usual_time(mut times: Vec<u64>) -> Option<u64> {
    times.sort_unstable();
    (times.len() >= MIN_TIMES_OF_A_THREAD).then(|| times[times.len() * 9 / 10])
}

#[cfg(test)]
mod tests {
    use super::super::WorkloadIo;
    use super::super::tests::{io, process, workload};
    use super::*;

    const US: u64 = 1_000;

    fn inferred(process: WorkloadProcess) -> Vec<After> {
        workload(vec![process], vec![]).infer().remove(0)
    }

    /// Each I/O takes the thread 600 us, and the device from 100 to 2100 us; too few for a pace.
    fn busy() -> Vec<WorkloadIo> {
        (0..120).map(|n| io(600 * n, Some(600 * n + 100 + n * n % 5 * 500))).collect()
    }

    #[test]
    fn a_busy_thread_takes_its_time_whenever_completions_come() {
        let all = inferred(process(busy()));
        let follows_room = (1..120).filter(|&n| {
            assert_eq!(all[n].own, 600 * US, "{n}");
            assert!(all[n].completions >= all[n - 1].completions, "completions never decrease");
            // Up to three are in flight at once.
            (all[n].completions, all[n].think) == (n.saturating_sub(2) as u64, 600 * US)
        });
        assert!(follows_room.count() > 40);
    }

    #[test]
    fn a_thread_that_waits_for_each_completion_follows_it() {
        let all = inferred(process((0..100).map(|n| io(1000 * n, Some(1000 * n + 400))).collect()));
        for (n, after) in all.iter().enumerate().skip(1) {
            assert_eq!((after.completions, after.think, after.own), (n as u64, 600 * US, 0));
        }
    }

    #[test]
    fn a_deep_queue_waits_for_its_completions() {
        // Eight at once, 5 us apart; when all have completed the thread sleeps, and goes on.
        let ios =
            (0..400).map(|n| io(n / 8 * 3000 + n % 8 * 5, Some(n / 8 * 3000 + 1000 + n % 8 * 50)));
        let all = inferred(process(ios.collect()));
        for (n, after) in all.iter().enumerate().skip(8) {
            let (completions, think) = (n as u64 / 8 * 8, 1650 + n as u64 % 8 * 5);
            match n % 8 {
                0 => assert_eq!((after.completions, after.think), (completions, think * US), "{n}"),
                _ => assert_eq!(after.own, 5 * US, "{n}"),
            }
        }
    }

    #[test]
    fn the_times_of_several_threads_overlap() {
        let several = WorkloadProcess { is_one_thread: false, ..process(busy()) };
        assert!(inferred(several).iter().all(|after| after.own == 0));
    }
}
