//! How long a job runs, and how fast: times, pauses, limits of rate and latency.

use elevon_core::units::Nanos;

/// When a job starts and what ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// `number_ios`: the I/Os of a loop, at most; `None`: any number.
    pub number_ios: Option<u64>,
    /// `loops`: how often the job goes over its region, at least 1.
    pub loops: u64,
    /// `runtime`; zero: none.
    pub runtime: Nanos,
    /// `time_based`: the job goes on until `runtime` has passed.
    pub time_based: bool,
    /// `ramp_time`: measurement starts after this time of the run.
    pub ramp_time: Nanos,
    /// `startdelay` (smallest, largest); drawn for each clone.
    pub start_delay: (Nanos, Nanos),
    /// `steadystate` with `steadystate_duration`: the job ends when its rate is steady.
    pub steady: Option<SteadyState>,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            number_ios: None,
            loops: 1,
            runtime: Nanos::ZERO,
            time_based: false,
            ramp_time: Nanos::ZERO,
            start_delay: (Nanos::ZERO, Nanos::ZERO),
            steady: None,
        }
    }
}

/// The rate that `steadystate` judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteadyMetric {
    /// I/Os per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
}

/// `steadystate` and its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteadyState {
    /// The rate.
    pub metric: SteadyMetric,
    /// Its slope over the window is judged; if not, the largest deviation from its mean.
    pub slope: bool,
    /// The criterion must be below this; in millionths, of a percent of the mean or of the rate
    /// itself.
    pub limit: u64,
    /// The limit is in percent of the mean.
    pub percent: bool,
    /// `steadystate_duration`: length of the window.
    pub duration: Nanos,
    /// `steadystate_ramp_time`: time before the first sample.
    pub ramp: Nanos,
    /// `steadystate_check_interval`: time between samples, not zero.
    pub interval: Nanos,
}

impl SteadyState {
    /// Returns the number of samples of the window, at least 1.
    pub fn window(&self) -> usize {
        (self.duration.get() / self.interval.get().max(1)).max(1) as usize
    }

    /// Returns the name of the criterion, as in the option.
    pub const fn criterion(&self) -> &'static str {
        match (self.metric, self.slope) {
            (SteadyMetric::Iops, false) => "iops",
            (SteadyMetric::Iops, true) => "iops_slope",
            (SteadyMetric::Bandwidth, false) => "bw",
            (SteadyMetric::Bandwidth, true) => "bw_slope",
        }
    }
}

/// Pauses of a job between its I/Os.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThinkTime {
    /// `thinktime`.
    pub time: Nanos,
    /// `thinktime_spin`: the part of `thinktime` that uses CPU.
    pub spin: Nanos,
    /// `thinktime_blocks`: I/Os between think times; 0 if only `thinktime_iotime` limits them.
    pub blocks: u32,
    /// `thinktime_blocks_type=issue` counts issued I/Os rather than completed ones.
    pub counts_issued: bool,
    /// `thinktime_iotime`: time of I/O between think times; zero: none.
    pub io_time: Nanos,
}

impl Default for ThinkTime {
    fn default() -> Self {
        Self {
            time: Nanos::ZERO,
            spin: Nanos::ZERO,
            blocks: 1,
            counts_issued: false,
            io_time: Nanos::ZERO,
        }
    }
}

/// Limits of the rate of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// `rate` in bytes a second, by direction.
    pub bytes: [Option<u64>; 3],
    /// `rate_iops` in I/Os a second, by direction.
    pub iops: [Option<u64>; 3],
    /// `rate_min` in bytes a second, by direction: the job fails below it.
    pub min_bytes: [Option<u64>; 3],
    /// `rate_iops_min` in I/Os a second, by direction: the job fails below it.
    pub min_iops: [Option<u64>; 3],
    /// `rate_cycle`: the time over which the minimum rates are averaged.
    pub cycle: Nanos,
    /// `rate_process=poisson`: the times between I/Os are random.
    pub poisson: bool,
    /// `rate_ignore_thinktime`: the rate does not make up for think times.
    pub ignore_think_time: bool,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            bytes: [None; 3],
            iops: [None; 3],
            min_bytes: [None; 3],
            min_iops: [None; 3],
            cycle: Nanos::from_secs(1),
            poisson: false,
            ignore_think_time: false,
        }
    }
}

/// Limits of the latency of an I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyLimits {
    /// `max_latency`, by direction: the job fails on a slower I/O; zero: none.
    pub max: [Nanos; 3],
    /// `latency_target`: the job looks for the greatest queue depth that meets it.
    pub target: Option<LatencyTarget>,
}

/// `latency_target` and its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyTarget {
    /// `latency_target`: the longest time that an I/O may take, from its start to its completion.
    pub target: Nanos,
    /// `latency_window`: how long each depth is tried; zero: for one I/O.
    pub window: Nanos,
    /// `latency_percentile`: the share of I/Os that must meet the target, in millionths of a
    /// percent.
    pub percentile: u32,
    /// `latency_run`: the job does not end when the depth is found.
    pub run: bool,
}
