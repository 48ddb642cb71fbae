//! What a process, or all of them, got of a device: in the trace, or in a replay.

use elevon_core::op::{Flags, Op};
use elevon_core::stats::LatencyStat;
use elevon_result::result::{JobResult, RunResult};
use elevon_result::summary;
use elevon_trace::replay::{Workload, WorkloadProcess};

/// A figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// I/Os a second.
    Throughput,
    /// Median latency.
    P50,
    /// 99th percentile of latency.
    P99,
}

impl Figure {
    /// Every figure.
    pub(crate) const ALL: [Self; 3] = [Self::Throughput, Self::P50, Self::P99];

    /// Its name in a report.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::P50 => "p50",
            Self::P99 => "p99",
        }
    }

    /// I/Os that it takes to be told from chance.
    const fn least(self) -> u64 {
        match self {
            Self::Throughput | Self::P50 => 50,
            // Two I/Os are slower.
            Self::P99 => 200,
        }
    }
}

/// The figures of a process, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// I/Os that completed, with flushes.
    pub(crate) ios: u64,
    /// I/Os a second.
    pub(crate) per_second: f64,
    /// Bytes a second.
    pub(crate) bytes_per_second: f64,
    /// Nanoseconds until the completion of an I/O, in a trace from its first event: median, 99th
    /// percentile, longest.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) longest: f64,
}

impl Figures {
    fn new(bytes: u64, span_ns: u64, latency: &LatencyStat) -> Self {
        let rate =
            |amount: u64| if span_ns == 0 { 0.0 } else { amount as f64 * 1e9 / span_ns as f64 };
        Self {
            ios: latency.count,
            per_second: rate(latency.count),
            bytes_per_second: rate(bytes),
            p50: summary::percentile(latency, 500_000) as f64,
            p99: summary::percentile(latency, 990_000) as f64,
            longest: latency.max as f64,
        }
    }

    /// The figures of a process in the trace.
    pub(crate) fn measured(process: &WorkloadProcess) -> Self {
        let (mut latency, mut bytes) = (LatencyStat::default(), 0);
        for (io, completed) in process.ios.iter().filter_map(|io| Some((io, io.completed?))) {
            latency.add(completed.saturating_sub(io.at));
            bytes += io.bytes;
        }
        Self::new(bytes, process.duration(), &latency)
    }

    /// The figures of a process in a replay, with latency from when an I/O was due: so a process
    /// that sleeps in a submission gains nothing by that.
    pub(crate) fn replayed(job: &JobResult) -> Self {
        let mixed = summary::mixed(&job.stats);
        Self::of_replay(job, mixed.bytes, summary::shown_latency(&mixed).clone())
    }

    /// The same with latency from when an I/O was submitted, which is its first event in a trace.
    pub(crate) fn traced(job: &JobResult) -> Self {
        let mixed = summary::mixed(&job.stats);
        Self::of_replay(job, mixed.bytes, mixed.clat)
    }

    fn of_replay(job: &JobResult, bytes: u64, mut latency: LatencyStat) -> Self {
        latency.merge(&job.stats.sync);
        Self::new(bytes, job.end.since(job.start).get(), &latency)
    }

    /// The figures of all processes in the trace.
    pub(crate) fn measured_all(workload: &Workload) -> Self {
        let ends = workload.processes.iter().filter_map(|process| {
            let first = process.ios.first()?.at;
            Some((first, first + process.duration()))
        });
        let span = ends.clone().map(|(_, end)| end).max().unwrap_or(0)
            - ends.map(|(at, _)| at).min().unwrap_or(0);
        Self::sum(
            workload.processes.iter().map(Self::measured),
            |p| workload.processes[p].duration(),
            span,
        )
    }

    /// The figures of all processes in a replay.
    pub(crate) fn replayed_all(run: &RunResult) -> Self {
        let jobs = || run.jobs.iter().filter(|job| job.end > job.start);
        let start = jobs().map(|job| job.start).min().unwrap_or_default();
        let span = jobs().map(|job| job.end).max().unwrap_or_default().since(start).get();
        Self::sum(
            run.jobs.iter().map(Self::replayed),
            |p| run.jobs[p].end.since(run.jobs[p].start).get(),
            span,
        )
    }

    /// Rates of all over a span; all have no latency.
    fn sum(all: impl Iterator<Item = Self>, own_span: impl Fn(usize) -> u64, span: u64) -> Self {
        let mut sum = Self::default();
        for (at, one) in all.enumerate() {
            let share = if span == 0 { 0.0 } else { own_span(at) as f64 / span as f64 };
            sum.ios += one.ios;
            sum.per_second += one.per_second * share;
            sum.bytes_per_second += one.bytes_per_second * share;
        }
        sum
    }

    /// A figure; `None` if there are too few I/Os for it.
    pub(crate) fn get(&self, figure: Figure) -> Option<f64> {
        let value = match figure {
            Figure::Throughput => self.per_second,
            Figure::P50 => self.p50,
            Figure::P99 => self.p99,
        };
        (self.ios >= figure.least() && value > 0.0).then_some(value)
    }

    /// By how much the other is better in a figure, as a logarithm: 0 for equal, positive for more
    /// I/Os a second or a lower latency. `None` if there are too few I/Os to tell; a throughput can
    /// be told however few are left, so that a process that is starved shows.
    pub(crate) fn gain(&self, other: &Self, figure: Figure) -> Option<f64> {
        let from = self.get(figure)?;
        let ratio = match figure {
            Figure::Throughput => (other.per_second / from).max(STARVED),
            Figure::P50 | Figure::P99 => from / other.get(figure)?,
        };
        Some(libm::log(ratio))
    }
}

/// A process stalls if an I/O takes so many times as long as any before the change, and at least so
/// many nanoseconds.
const STALL_TIMES: f64 = 10.0;
const STALL_LEAST: f64 = 100e6;

impl Figures {
    /// Returns true if a process that did not stall does in the other figures.
    pub(crate) fn stalls_in(&self, other: &Self) -> bool {
        other.longest >= STALL_LEAST && other.longest > STALL_TIMES * self.longest
    }
}

/// A process that gets less than this part of its throughput counts as if it got so much.
const STARVED: f64 = 0.001;

/// Returns true if a process waits for most of the I/Os of a process: reads, synchronous writes and
/// flushes. No process waits for what the kernel writes back by itself. What the page cache reads
/// for a process that needs it now is marked as readahead, too: all reads of a database may be.
pub(crate) fn is_waited_for(process: &WorkloadProcess) -> bool {
    let waits = process.ios.iter().filter(|io| match io.op {
        Op::Read | Op::Flush => true,
        _ => io.flags.contains(Flags::SYNC),
    });
    2 * waits.count() >= process.ios.len()
}

#[cfg(test)]
mod tests {
    use elevon_trace::replay::WorkloadIo;

    use super::*;

    /// Linux 6.18.44 marked 6,203 of 6,212 reads of PostgreSQL as readahead, each of one page that
    /// its process waited for.
    #[test]
    fn who_reads_through_the_page_cache_waits() {
        let io = |op, flags| WorkloadIo {
            at: 0,
            completed: Some(1),
            slept: 0,
            entered: 0,
            sector: 0,
            bytes: 8192,
            op,
            flags,
            prio: None,
            cgroup: None,
            joins: false,
            bio_ends: 0,
        };
        let waits = |ios: &[WorkloadIo]| {
            is_waited_for(&WorkloadProcess {
                id: Some(1),
                name: None,
                cgroup: None,
                is_one_thread: true,
                ios: ios.to_vec(),
            })
        };
        let [read, commit] = [io(Op::Read, Flags::RAHEAD), io(Op::Write, Flags::SYNC)];
        let background = io(Op::Write, Flags::NONE);
        assert!(waits(&[read, read, commit]) && !waits(&[read, background, background]));
    }

    #[test]
    fn a_gain_is_positive_where_it_is_better() {
        let of =
            |per_second, p50, ios| Figures { ios, per_second, p50, p99: p50, ..Figures::default() };
        let (slow, fast) = (of(100.0, 2e6, 1000), of(200.0, 1e6, 1000));
        for figure in Figure::ALL {
            let gain = slow.gain(&fast, figure).expect("enough I/Os");
            assert!((gain - std::f64::consts::LN_2).abs() < 1e-12, "{figure:?}: {gain}");
            assert_eq!(fast.gain(&slow, figure), Some(-gain));
        }
        let starved = slow.gain(&Figures::default(), Figure::Throughput);
        assert_eq!(
            (starved, slow.gain(&Figures::default(), Figure::P50)),
            (Some(libm::log(0.001)), None)
        );
        let few = of(100.0, 1e6, 60);
        assert_eq!(
            (few.gain(&fast, Figure::P99), few.gain(&fast, Figure::P50).is_some()),
            (None, true)
        );
        assert_eq!(of(1.0, 1.0, 10).get(Figure::Throughput), None);
        let longest = |ms: f64| Figures { longest: ms * 1e6, ..slow };
        assert!(
            longest(6.0).stalls_in(&longest(200.0)) && !longest(30.0).stalls_in(&longest(200.0))
        );
        assert!(!longest(6.0).stalls_in(&longest(90.0)), "not worth a word");
    }
}
