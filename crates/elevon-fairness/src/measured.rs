//! The results of a run of a mix.

use std::rc::Rc;

use elevon_core::account::DiskStats;
use elevon_core::units::{Instant, Nanos};
use elevon_workload::run::{JobOutcome, Observer, Progress, RunOutcome};

use crate::watched::Held;

/// What one process got.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessMeasured {
    /// I/Os a second in the time that is measured.
    pub rate: f64,
    /// Median of the latency of an I/O.
    pub p50: Nanos,
    /// 99th percentile of the latency of an I/O.
    pub p99: Nanos,
    /// Time from its start to its end.
    pub lasted: Nanos,
}

/// A stretch of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// When it ended, from the start of the run.
    pub end: Nanos,
    /// I/Os that each process completed in it.
    pub ios: Vec<u64>,
    /// Mean of the commands that the device held.
    pub depth: f64,
}

/// The results of a run of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Each process, in the order of the mix.
    pub processes: Vec<ProcessMeasured>,
    /// The run from its start, in stretches of 100 ms.
    pub windows: Vec<Window>,
}

impl Measured {
    pub(crate) fn from_outcome(outcome: &RunOutcome, windows: Windows) -> Self {
        assert_eq!(outcome.ended_early, None, "the run ended before its processes");
        Self { processes: outcome.jobs.iter().map(process).collect(), windows: windows.done }
    }
}

fn process(job: &JobOutcome) -> ProcessMeasured {
    assert_eq!(job.stats.error, 0, "{}: an I/O failed", job.name);
    let stats =
        job.stats.directions.iter().find(|stats| stats.ios > 0).unwrap_or(&job.stats.directions[0]);
    let percentile = |millionths| Nanos::new(stats.lat.histogram.percentile(millionths));
    let (start, end) = (job.start.unwrap_or(Instant::ZERO), job.end.unwrap_or(Instant::ZERO));
    ProcessMeasured {
        rate: stats.ios as f64 * 1e9 / stats.runtime_ns.max(1) as f64,
        p50: percentile(500_000),
        p99: percentile(990_000),
        lasted: end.since(start),
    }
}

/// Cuts a run into windows while it goes on.
#[derive(Debug)]
pub(crate) struct Windows {
    done: Vec<Window>,
    held: Rc<Held>,
    last_ios: Vec<u64>,
    last_at: Nanos,
    last_integral: u128,
}

impl Windows {
    /// Length of a window.
    const LENGTH: Nanos = Nanos::from_millis(100);

    /// Returns windows of a run on the device whose commands are counted.
    pub(crate) fn new(held: Rc<Held>) -> Self {
        Self {
            done: Vec::new(),
            held,
            last_ios: Vec::new(),
            last_at: Nanos::ZERO,
            last_integral: 0,
        }
    }
}

impl Observer for Windows {
    fn interval(&self) -> Option<Nanos> {
        Some(Self::LENGTH)
    }

    fn on_interval(
        &mut self,
        now: Instant,
        _disk: &mut dyn FnMut() -> DiskStats,
        jobs: &[Progress],
    ) {
        let ios: Vec<u64> = jobs.iter().map(|job| job.ios.iter().sum()).collect();
        self.last_ios.resize(ios.len(), 0);
        let (end, integral) = (now.since(Instant::ZERO), self.held.integral(now));
        // A process counts from 0 again when its ramp is over.
        let since = |(now, before): (&u64, &u64)| now.checked_sub(*before).unwrap_or(*now);
        self.done.push(Window {
            end,
            ios: ios.iter().zip(&self.last_ios).map(since).collect(),
            depth: (integral - self.last_integral) as f64
                / (end - self.last_at).get().max(1) as f64,
        });
        (self.last_ios, self.last_at, self.last_integral) = (ios, end, integral);
    }
}
