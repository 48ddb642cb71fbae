//! Finds processes that keep a pace of their own, as a job with a limited rate does.

use super::{WorkloadProcess, depth_of, others_in_flight};

/// Minimum number of I/Os at the pace.
const MIN_IOS_AT_THE_PACE: usize = 128;
/// An I/O is at the pace if it is later than its time by at most this many periods.
const LATE: f64 = 2.0;
/// A process that keeps a pace goes at its time again and again, later by a period at most: never
/// more than one part in so many of its I/Os pass in between. A random walk stays away longer.
const RETURNS: usize = 8;
/// Nanoseconds by which the times between I/Os must vary: times that are equal but for the clock's
/// resolution may as well come from a device of constant times, unless the process showed later
/// that it has room for more I/Os in flight.
const GRAIN: f64 = 3_000.0;
/// Maximum ratio of the variance of long and of short spans. It is 1 at a pace, and grows with the
/// length of the span if each I/O follows a completion.
const BOUNDED: f64 = 4.0;
/// Maximum number of I/Os in flight at the pace, as a part of the process's depth: a process that
/// always has that many waits for the device.
const BUSY: f64 = 0.8;

/// Minimum number of times that all I/Os in flight had completed when the process went on.
const DRAINED: usize = 32;
/// Maximum part of the I/Os at the pace that follow a completion while others are in flight, for
/// which the process waits for all of them.
const EXCEPTIONS: f64 = 0.05;

/// The pace of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Nanoseconds from one I/O to the next. I/O n of the process goes no earlier than n periods
    /// after its first.
    pub period: u64,
    /// Number of I/Os, from the first on, that were at this pace in the trace. The others were
    /// later.
    pub kept: usize,
    /// When it is ahead of its pace, it waits for its I/Os in flight before it sleeps, as fio
    /// does. Its I/Os go then in groups, each when the group before has completed.
    pub drains: bool,
}

impl WorkloadProcess {
    /// Returns the pace of the process, if it keeps one from its first I/O on: its I/Os are never
    /// early, and their delay does not grow as it would if each followed a completion.
    pub fn pace(&self) -> Option<Pace> {
        let first = self.ios.first()?.at;
        let times: Vec<u64> = self.ios.iter().map(|io| io.at - first).collect();
        let from = MIN_IOS_AT_THE_PACE.max(times.len() / 16);
        let period =
            (from..times.len()).map(|n| times[n] / n as u64).min().filter(|&period| period > 0)?;
        let delays: Vec<f64> =
            (0..times.len()).map(|n| times[n] as f64 / period as f64 - n as f64).collect();
        let kept = kept(&delays);
        if kept < MIN_IOS_AT_THE_PACE {
            return None;
        }
        let in_flight: u128 = self.ios[..kept]
            .iter()
            .map(|io| u128::from(io.completed.unwrap_or(io.at) - io.at))
            .sum();
        let busy = in_flight as f64 / times[kept - 1].max(1) as f64;
        let room = BUSY * self.depth() as f64;
        let grain = (GRAIN / period as f64) * (GRAIN / period as f64);
        let (short, long) = (variance(&delays[..kept], 1), variance(&delays[..kept], kept / 4));
        let varies = short >= grain && long <= BOUNDED * short && busy <= room;
        let is_exact = || {
            let (from, until) = on_time(&delays[..kept]);
            // It gets late with all of its depth in flight.
            let until = until.saturating_sub(self.depth() as usize);
            until >= from + MIN_IOS_AT_THE_PACE
                && kept < times.len()
                && variance(&delays[from..until], 1) < grain
                && depth_of(&self.ios[from..until]) as f64 <= room
        };
        (varies || is_exact()).then(|| Pace { period, kept, drains: self.drains(kept) })
    }

    /// Returns true if the process waits for all its I/Os in flight when it is ahead of its pace.
    fn drains(&self, kept: usize) -> bool {
        let full = self.depth() - 1;
        let (mut last, mut drained, mut exceptions) = (0, 0, 0);
        for others in others_in_flight(&self.ios[..kept]) {
            drained += usize::from(last > 0 && others == 0);
            // An I/O that went when the first of a full depth completed was late.
            exceptions += usize::from(others > 0 && others <= last && others < full);
            last = others;
        }
        drained >= DRAINED && exceptions as f64 <= EXCEPTIONS * kept as f64
    }
}

/// Returns the number of I/Os up to the last one to which the process keeps the pace, from their
/// delays in periods. What holds it up does not end the pace if it catches up after it.
fn kept(delays: &[f64]) -> usize {
    let (mut kept, mut returned, mut longest) = (0, 0, 0);
    for (n, _) in delays.iter().enumerate().filter(|&(_, &delay)| delay <= 1.0) {
        longest = longest.max(n - returned);
        returned = n;
        if longest * RETURNS <= n + 1 {
            kept = n + 1;
        }
    }
    kept
}

/// Returns the mean square of the change of the delay over so many I/Os, of those at the pace.
fn variance(delays: &[f64], span: usize) -> f64 {
    let pairs =
        delays.iter().zip(&delays[span..]).filter(|&(&before, &after)| before.max(after) <= LATE);
    let changes = pairs.map(|(before, after)| after - before);
    let (sum, count) =
        changes.fold((0.0, 0), |(sum, count), change| (sum + change * change, count + 1));
    sum / f64::from(count.max(1))
}

/// Returns the longest run of I/Os that are late by half a period at most.
fn on_time(delays: &[f64]) -> (usize, usize) {
    let (mut longest, mut from) = ((0, 0), 0);
    for (n, &delay) in delays.iter().enumerate() {
        if delay > 0.5 {
            from = n + 1;
        } else if n + 1 - from > longest.1 - longest.0 {
            longest = (from, n + 1);
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::super::tests::{io, process};
    use super::*;
    use crate::replay::read;
    use crate::testing::data;

    /// An I/O each millisecond, which takes as long as `latency` says, in microseconds; at most
    /// four are in flight.
    fn exact(latency: impl Fn(u64) -> u64) -> Option<Pace> {
        let (mut ends, mut ios) = (Vec::new(), Vec::new());
        for n in 0..400_u64 {
            let room = n.checked_sub(4).map_or(0, |before| ends[before as usize]);
            let at = (1000 * n).max(room);
            ends.push(at + latency(n));
            ios.push(io(at, Some(at + latency(n))));
        }
        process(ios).pace()
    }

    /// A pace that is exact is one if the process has more in flight when the device gets slow. If
    /// it never has, the times may be those of the device.
    #[test]
    fn an_exact_pace_shows_when_the_device_gets_slow() {
        let slow = exact(|n| if n < 300 { 1500 } else { 9000 }).expect("a pace");
        assert_eq!((slow.period, slow.kept >= 300), (1_000_000, true), "{slow:?}");
        assert!(!slow.drains, "each I/O goes at its time");
        assert_eq!(exact(|_| 1500), None);
        assert_eq!(exact(|_| 4000), None, "four in flight, all the time");
    }

    /// Stalls of 20 ms, one of them at the beginning: it catches up after each. From I/O 400 on it
    /// may lose so many microseconds with each, and never catch up.
    #[test]
    fn a_stall_after_which_it_catches_up_ends_no_pace() {
        let jobs = |stalls: &[u64], lost: u64| {
            let (mut free, mut ios) = (0, Vec::new());
            for n in 0..600 {
                let late = if n < 400 { 0 } else { lost * (n - 399) };
                let at = (1000 * n + n * 7 % 13 * 20 + late).max(free);
                free = at + if stalls.contains(&n) { 20_000 } else { 300 };
                ios.push(io(at, Some(free)));
            }
            process(ios).pace().map(|pace| (pace.period / 10_000, pace.kept))
        };
        assert_eq!(jobs(&[], 0), Some((100, 600)));
        assert_eq!(jobs(&[0, 250], 0), Some((100, 600)));
        assert_eq!(jobs(&[0, 250], 500), Some((100, 401)));
        assert_eq!(jobs(&(0..600).collect::<Vec<_>>(), 0), None, "each follows a completion");
    }

    #[test]
    fn the_job_with_a_rate_is_found() {
        let path = data("kernel-truth/whatif/mq-deadline.ftrace.zst");
        let workload = read(&mut || crate::open(&path), None, &mut |_| {}).expect("a workload");
        let paces: Vec<_> = workload.processes.iter().map(WorkloadProcess::pace).collect();
        // `db` has 900 I/Os a second, until the device is too slow for it.
        let pace = paces[0].expect("a pace");
        assert!((1_105_000..1_115_000).contains(&pace.period), "{pace:?}");
        assert!((1700..1850).contains(&pace.kept), "{pace:?}");
        assert!(pace.drains, "fio waits for its I/Os in flight: {pace:?}");
        assert_eq!(paces[1..], [None; 3]);
    }
}
