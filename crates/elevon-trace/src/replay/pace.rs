//! Finds processes that keep a pace of their own, as a job with a limited rate does.

use super::WorkloadProcess;

/// Minimum number of I/Os at the pace.
const FEWEST: usize = 128;
/// An I/O is at the pace if it is later than its time by at most this many periods.
const LATE: u64 = 4;
/// Nanoseconds by which the times between I/Os must vary: times that are equal but for the clock's
/// resolution may as well come from a device of constant times.
const GRAIN: f64 = 3_000.0;
/// Maximum ratio of the variance of long and of short spans. It is 1 at a pace, and grows with the
/// length of the span if each I/O follows a completion.
const BOUNDED: f64 = 4.0;
/// Maximum number of I/Os in flight at the pace, as a part of the process's depth: a process that
/// always has that many waits for the device.
const BUSY: f64 = 0.8;

/// The pace of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Nanoseconds from one I/O to the next. I/O n of the process goes no earlier than n periods
    /// after its first.
    pub period: u64,
    /// Number of I/Os, from the first on, that were at this pace in the trace. The others were
    /// later.
    pub kept: usize,
}

impl WorkloadProcess {
    /// Returns the pace of the process, if it keeps one from its first I/O on: its I/Os are never
    /// early, and their delay does not grow as it would if each followed a completion.
    pub fn pace(&self) -> Option<Pace> {
        let first = self.ios.first()?.at;
        let times: Vec<u64> = self.ios.iter().map(|io| io.at - first).collect();
        let from = FEWEST.max(times.len() / 16);
        let period = (from..times.len()).map(|n| times[n] / n as u64).min().filter(|&period| period > 0)?;
        let delay = |n: usize| times[n] as f64 - n as f64 * period as f64;
        let kept = (0..times.len()).take_while(|&n| delay(n) <= (LATE * period) as f64).count();
        if kept < FEWEST {
            return None;
        }
        let variance = |span: usize| {
            let pairs = (span..kept).map(|n| delay(n) - delay(n - span));
            pairs.map(|change| change * change).sum::<f64>() / (kept - span) as f64
        };
        let (short, long) = (variance(1), variance(kept / 4));
        let in_flight: u128 = self.ios[..kept].iter().map(|io| u128::from(io.completed.unwrap_or(io.at) - io.at)).sum();
        let busy = in_flight as f64 / times[kept - 1].max(1) as f64;
        let is_paced = short >= GRAIN * GRAIN && long <= BOUNDED * short && busy <= BUSY * self.depth() as f64;
        is_paced.then_some(Pace { period, kept })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::read;
    use crate::testing::data;

    #[test]
    fn the_job_with_a_rate_is_found() {
        let path = data("kernel-truth/whatif/mq-deadline.ftrace.zst");
        let workload = read(&mut || crate::open(&path), None, &mut |_| {}).expect("a workload");
        let paces: Vec<_> = workload.processes.iter().map(WorkloadProcess::pace).collect();
        // `db` has 900 I/Os a second, until the device is too slow for it.
        let pace = paces[0].expect("a pace");
        assert!((1_105_000..1_115_000).contains(&pace.period), "{pace:?}");
        assert!((1700..1850).contains(&pace.kept), "{pace:?}");
        assert_eq!(paces[1..], [None; 3]);
    }
}
