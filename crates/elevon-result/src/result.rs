//! The result of a run as plain data: everything that any report shows, and nothing that is
//! computed from it.
//!
//! The code that runs a job fills it in once. Times are those of the clock that drove the run,
//! counted from its start.

use elevon_cache::page_cache::Reading;
use elevon_cache::stats::CacheUse;
use elevon_core::account::DiskStats;
use elevon_core::control::pressure::PressureReading;
use elevon_core::control::stat::IoCounters;
use elevon_core::control::{Cause, Rule, Wait};
use elevon_core::histogram::Histogram;
use elevon_core::ioprio::PrioClass;
use elevon_core::kernel::{IoTicksForm, Kernel};
use elevon_core::limits::QueueLimits;
use elevon_core::op::StatGroup;
use elevon_core::stats::{JobStats, LatencyStat};
use elevon_core::units::{Bytes, Instant, Nanos, TenantId};

use crate::slice::Slice;

/// The result of one run of one job file.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The device under test.
    pub device: DeviceInfo,
    /// Kernel rules that the stack followed.
    pub kernel: Kernel,
    /// Scheduler and its tunables.
    pub scheduler: SchedulerInfo,
    /// Random seed of the run.
    pub seed: u64,
    /// Effective configuration: each setting and its value, in the order to print.
    pub config: Vec<(String, String)>,
    /// A command line that repeats the run.
    pub command: String,
    /// The files that the command read, by name.
    pub inputs: Vec<ReadFile>,
    /// Options of the job file's `[global]` section, as written.
    pub global_options: Vec<(String, String)>,
    /// When the run ended, in milliseconds since 1970 (UTC). It is 0 for a simulated run, so that
    /// the same random seed gives the same bytes.
    pub unix_ms: u64,
    /// Duration of the run by its own clock.
    pub elapsed: Nanos,
    /// Jobs in the order of the file; the jobs of a reporting group are one entry.
    pub jobs: Vec<JobResult>,
    /// Tenants whose waits were recorded, by ascending number; empty if none were recorded.
    pub tenants: Vec<TenantResult>,
    /// Tenants and jobs over time. A run of one process without tenants has none.
    pub owners: Owners,
    /// What jobs got of their slices; empty if that was not computed.
    pub slices: Vec<Slice>,
    /// Settings that were changed for tenants during the run, in order.
    pub changes: Vec<Change>,
    /// The device's own statistics.
    pub disk: DiskResult,
    /// CPU time in addition to what jobs count; `None` on a real device, where it is not modelled.
    pub cpu: Option<CpuResult>,
    /// The page cache, if the run had one.
    pub cache: Option<CacheResult>,
    /// The run over time, if it was recorded.
    pub series: Option<Series>,
    /// Fault rules of the device, in the order in which they were given.
    pub faults: Vec<FaultResult>,
    /// Trace events that were dropped.
    pub events_lost: u64,
    /// What the trace of a replay has and the replay does not keep.
    pub not_kept: Vec<NotKept>,
    /// Warnings for the user, one sentence each.
    pub warnings: Vec<String>,
}

/// A property of a trace that its replay does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotKept {
    /// Its name: `splits`, `page cache`.
    pub property: &'static str,
    /// What there is of it in the trace, and what would have it.
    pub why: String,
}

impl std::fmt::Display for NotKept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.property, self.why)
    }
}

/// A file that a command read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFile {
    /// Its name, as in messages: `jobs/a.fio`, `--device @disk.toml`.
    pub name: String,
    /// What it said; `None` for a trace.
    pub text: Option<String>,
}

/// A fault rule of a simulated device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultResult {
    /// The rule as it was given, such as `error:sectors=1000-2000`.
    pub rule: String,
    /// How many times the rule fired; what counts as one time depends on the kind of fault.
    pub fired: u64,
}

/// CPU time of a simulated run, in addition to what each job counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuResult {
    /// How long the scheduler's lock for the whole device was held.
    pub scheduler_lock: Nanos,
    /// I/Os per second that the device alone can do of the run's kind and depth, if nothing else
    /// takes time; `None` if this was not computed.
    pub device_alone: Option<u64>,
}

/// The device of the run.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Profile name, model with parameters, or path.
    pub name: String,
    /// True for a model, false for a file or block device.
    pub simulated: bool,
    /// Size of the device.
    pub size: Bytes,
    /// Number of hardware queues.
    pub hw_queues: u16,
    /// Commands that each hardware queue holds.
    pub queue_depth: u32,
    /// The queue limits after every setting.
    pub limits: QueueLimits,
    /// What the model lacks that real devices have; empty for a real device.
    pub lacks: String,
    /// Figures of the run that follow estimates: parameters that no published source states.
    pub estimates: Vec<Estimate>,
}

/// Figures of a run that follow parameters of the model that no published source states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The group whose latencies in the device these are; `None` for flushes and for all figures.
    pub group: Option<StatGroup>,
    /// The figures in words, such as `99% and up, beside writes`.
    pub figures: String,
    /// The parameters, by their names in the device's text.
    pub parameters: Vec<String>,
}

impl Estimate {
    /// Returns the figures with their group in words: `read, 99% and up`.
    pub fn named(&self) -> String {
        self.group
            .map_or_else(String::new, |group| format!("{}, ", StatGroup::NAMES[group as usize]))
            + &self.figures
    }
}

/// The scheduler of the run.
#[derive(Clone, Debug, Default)]
pub struct SchedulerInfo {
    /// Name in sysfs.
    pub name: String,
    /// Tunables by their sysfs names, with the values in effect.
    pub tunables: Vec<(String, String)>,
    /// The scheduler's counters, if it has any.
    pub counters: Vec<(String, u64)>,
    /// A sentence about a scheduler that no kernel has, and about the source of its CPU time.
    pub note: Option<String>,
}

/// Whether directions are reported separately (fio's `unified_rw_reporting`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnifiedReporting {
    /// `none` or 0: reads, writes and trims separately.
    #[default]
    Separate,
    /// `mixed` or 1: one figure for all directions.
    Mixed,
    /// `both` or 2: separately, then together.
    Both,
}

/// Latencies of which a job shows percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyPercentiles {
    /// Submission latency (`slat_percentiles`).
    pub slat: bool,
    /// Completion latency (`clat_percentiles`); fio's default.
    pub clat: bool,
    /// Total latency (`lat_percentiles`).
    pub lat: bool,
}

impl Default for LatencyPercentiles {
    fn default() -> Self {
        Self { slat: false, clat: true, lat: false }
    }
}

/// The workload of a job, for its heading.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// `rw=` as fio spells it.
    pub rw: String,
    /// Smallest and largest block size of reads, writes and trims.
    pub block_sizes: [(Bytes, Bytes); 3],
    /// `ioengine=`.
    pub ioengine: String,
    /// `iodepth=`.
    pub iodepth: u32,
    /// I/Os that it keeps in flight at most: with io_uring a power of two.
    pub depth: u32,
}

/// What a job asks of a scheduler that shares out the device: its priority and cgroup, as weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// True if the job set a priority or weight; otherwise these are the defaults.
    pub given: bool,
    /// The job's class. Classes are served one after another; weights divide the service of a
    /// class.
    pub class: PrioClass,
    /// Weight of all processes of the job together: per process 10 at level 7, 20 at level 6, ...
    /// 80 at level 0.
    pub weight: u32,
    /// The job's cgroups from the top down: path and weight (1 to 1000). The weight is that of the
    /// cgroup as a whole.
    pub cgroups: Vec<(String, u32)>,
    /// Bytes a second that the job asked for at most: the least of three. The first is its rate.
    /// The second is what it would have done if none of its I/O took any time. The third is what
    /// its depth would have done if each I/O took as long as the quickest. `None` if it asked for
    /// all.
    pub asked: Option<u64>,
}

/// One job, or one reporting group of jobs.
#[derive(Clone, Debug)]
pub struct JobResult {
    /// Name of its section.
    pub name: String,
    /// Number of the reporting group, from 0.
    pub group: u32,
    /// Processes in this entry (1 except with `group_reporting`).
    pub members: u32,
    /// Process id to print; simulated processes count from 1.
    pub pid: u32,
    /// `description=`, or empty.
    pub description: String,
    /// The workload.
    pub workload: Workload,
    /// The job's own options, as written.
    pub options: Vec<(String, String)>,
    /// When the job started, counted from the start of the run.
    pub start: Instant,
    /// When the job ended.
    pub end: Instant,
    /// The job's claim; `None` if jobs of different classes or cgroups are one entry.
    pub claim: Option<Claim>,
    /// Time that the job's requests spent in the device, summed over requests; `None` if it is not
    /// known.
    pub device_time: Option<Nanos>,
    /// The job's counts, with the errno that ended it, if any.
    pub stats: JobStats,
    /// The job's page cache statistics, if it used a page cache.
    pub cache_use: Option<Box<CacheUse>>,
    /// The errno in words; empty if there was no error.
    pub error: String,
    /// The errors of a job that goes on after some of them; `None` if the first error ends the
    /// job.
    pub counted_errors: Option<ErrorCount>,
    /// Percentiles to show, in millionths, ascending (`percentile_list`).
    pub percentiles: Vec<u32>,
    /// Latencies of which percentiles are shown.
    pub latency_percentiles: LatencyPercentiles,
    /// The search for a depth that meets a latency, if the job did one.
    pub latency_target: Option<LatencyTarget>,
    /// What came of the job's `steadystate`, if it has one.
    pub steady: Option<SteadyState>,
    /// Whether directions are shown separately or together.
    pub unified: UnifiedReporting,
}

/// The errors of a job with `continue_on_error` or `ignore_error`, as fio reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorCount {
    /// I/Os that failed, and blocks whose content was wrong.
    pub total: u64,
    /// The first error, a positive errno; 0 for none.
    pub first: i32,
    /// The first error in words; empty for none.
    pub words: String,
}

/// A search for the greatest queue depth at which I/Os are fast enough (`latency_target`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyTarget {
    /// The longest time that an I/O may take.
    pub target: Nanos,
    /// How long each depth was tried.
    pub window: Nanos,
    /// The share of I/Os that must meet the target, in millionths of a percent.
    pub percentile: u32,
    /// The depth that was arrived at.
    pub depth: u32,
}

/// What came of `steadystate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteadyState {
    /// The criterion: `iops`, `iops_slope`, `bw` or `bw_slope`.
    pub criterion: &'static str,
    /// The limit of the criterion in millionths.
    pub limit: u64,
    /// The limit is in percent of the mean.
    pub percent: bool,
    /// Length of the window.
    pub duration: Nanos,
    /// Samples of a full window.
    pub window: usize,
    /// The criterion was below the limit, which ended the job.
    pub attained: bool,
    /// The latest samples: I/Os and bytes per second.
    pub samples: Vec<(u64, u64)>,
}

/// What a tenant and all tenants below it did, and what their I/O waited for. The root is an
/// exception: it counts only its own I/O.
#[derive(Clone, Debug, Default)]
pub struct TenantResult {
    /// The tenant's number, by which [`Self::explain`] of other tenants refers to it.
    pub id: TenantId,
    /// Path below the root, without slashes at its ends; `/` for the root.
    pub path: String,
    /// Depth in the tree of tenants; the root has 0.
    pub depth: u16,
    /// True if the tenant was removed before the end of the run.
    pub removed: bool,
    /// The tenant's settings: the kernel's file names and the text that they hold.
    pub settings: Vec<(String, String)>,
    /// The limits among the settings, as numbers per second.
    pub limits: Vec<(Rule, u64)>,
    /// Time that the jobs of this tenant and of those below it ran. Rates are computed over it.
    pub time: Nanos,
    /// I/O that the tenant's limits have released, as `io.stat` counts it.
    pub io: IoCounters,
    /// The same without bios that io_uring tried in vain. So each I/O counts once.
    pub done: IoCounters,
    /// Fragments that were released and not completed when the run ended.
    pub in_flight: u64,
    /// Latency of completed fragments, from their release by the limits.
    pub latency: Histogram,
    /// What io.cost adds to `io.stat`; `None` if it is off when the run ends.
    pub cost: Option<CostFigures>,
    /// Pressure: how long tasks stalled for I/O; `None` if the tenant's processes were not
    /// tracked.
    pub pressure: Option<PressureReading>,
    /// Time by which the scheduler kept less than the tenant's `reserve` while its I/O was
    /// waiting: for every second of it, what the reserve is in a second. `None` without one.
    pub reserve_missed: Option<Nanos>,
    /// Device time that the tenant was owed by its weight and did not get, because all of its
    /// requests were in the device, which orders them by itself; `None` if the scheduler does not
    /// say.
    pub shares_missed: Option<Nanos>,
    /// What the tenant's I/O waited for; each cause occurs once.
    pub explain: Vec<(Cause, Wait)>,
}

/// What io.cost adds to a tenant's `io.stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostFigures {
    /// `cost.usage`: device time of the tenant's I/O and of those below it, according to the
    /// model.
    pub usage: Nanos,
    /// `cost.vrate`: speed of the device's virtual clock, in millionths; for the root alone.
    pub vrate_ppm: Option<u64>,
}

/// Tenants and jobs over time.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    /// I/O that limits released, of each tenant that did any, with all tenants below it.
    pub tenants: Vec<OwnerResult>,
    /// I/O that the processes of each job completed.
    pub jobs: Vec<OwnerResult>,
}

/// I/O of one tenant or job over time.
#[derive(Clone, Debug, Default)]
pub struct OwnerResult {
    /// Path of the tenant, or name of the job.
    pub name: String,
    /// Intervals in order.
    pub points: Vec<OwnerPoint>,
}

/// I/O of a tenant or job in one interval. An interval starts at the end of the previous one, the
/// first at the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerPoint {
    /// End of the interval, from the start of the run.
    pub at: Nanos,
    /// I/Os: reads, writes, trims.
    pub ios: [u64; 3],
    /// Bytes: reads, writes, trims.
    pub bytes: [u64; 3],
}

/// A setting that was changed during the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Time of the change, from the start of the run.
    pub at: Nanos,
    /// Path of the tenant; `device` for a setting of the device.
    pub tenant: String,
    /// The kernel's file name, or the name of the setting.
    pub file: String,
    /// The new value.
    pub text: String,
}

impl TenantResult {
    /// Returns true if neither the tenant nor any tenant below it did any I/O.
    pub fn is_idle(&self) -> bool {
        self.io.all_ios() == 0 && self.explain.is_empty()
    }
}

/// The device's statistics over the run.
#[derive(Clone, Debug)]
pub struct DiskResult {
    /// The device's name, short and without a path.
    pub name: String,
    /// The disk that fio's disk statistics name. `None` for a real file without a disk, for which
    /// fio has no disk statistics.
    pub disk: Option<String>,
    /// Major and minor number of the disk.
    pub number: (u32, u32),
    /// The form of io_ticks that fills the field, and so %util.
    pub io_ticks: IoTicksForm,
    /// Statistics at the start of the run.
    pub start: DiskStats,
    /// Statistics at its end.
    pub end: DiskStats,
    /// Latency by stage, for reads, writes and discards.
    pub stages: [StageLatency; 3],
    /// Sizes of the requests issued to the driver, for reads, writes and discards.
    pub request_sizes: [SizeCounts; 3],
    /// Counters of the stack.
    pub counters: StackCounters,
}

/// Latency of requests by stage.
#[derive(Clone, Debug, Default)]
pub struct StageLatency {
    /// From allocation to dispatch.
    pub queued_to_dispatched: LatencyStat,
    /// From dispatch to completion.
    pub dispatched_to_completed: LatencyStat,
}

/// Number of requests by size: (bytes, count), ascending by size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizeCounts(pub Vec<(u64, u64)>);

/// Counts of events between submission and completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackCounters {
    /// Splits of a bio in two.
    pub splits: u64,
    /// Bios and requests merged into others.
    pub merges: u64,
    /// Requests that were requeued because the driver was busy.
    pub requeues: u64,
    /// Requests that were retried after an error.
    pub retries: u64,
    /// Requests that took longer than the timeout.
    pub timeouts: u64,
    /// Answers to commands that had been aborted; they completed nothing.
    pub late_answers: u64,
    /// Submissions that writeback throttling made wait.
    pub wbt_waits: u64,
    /// Requests that are the small last part of a split bio.
    pub tails: u64,
}

/// The page cache of a run. Each job's waits for it are in the job's statistics.
#[derive(Clone, Debug, Default)]
pub struct CacheResult {
    /// Memory of the machine.
    pub memory: Bytes,
    /// Memory used by others.
    pub others: Bytes,
    /// Page replacement policy.
    pub policy: String,
    /// How the activity of the content changes the priority of bios.
    pub activity: String,
    /// Length of the windows in which waits are counted, as requested; a long run has longer
    /// windows.
    pub window: Nanos,
    /// Bios by purpose; purposes without bios are omitted.
    pub sources: Vec<CacheSource>,
    /// Working set and reclaim counters over the run, by the names of `/proc/vmstat`; levels
    /// (`nr_*`) as of its end.
    pub vmstat: Vec<(String, u64)>,
    /// Further counters since the start of the run, in groups for printing.
    pub groups: Vec<(String, Vec<(String, u64)>)>,
    /// The page cache over time.
    pub series: CacheSeries,
}

impl CacheResult {
    /// Returns a count of the group `pages`; 0 if it is missing.
    pub fn pages(&self, name: &str) -> u64 {
        let pages = self.groups.iter().find(|(group, _)| group == "pages");
        pages
            .and_then(|(_, counts)| counts.iter().find(|(key, _)| key == name))
            .map_or(0, |&(_, count)| count)
    }
}

/// Bios of the page cache that were built for one purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheSource {
    /// Purpose: fault, read, readahead, writeback, fsync.
    pub name: String,
    /// Number of bios.
    pub bios: u64,
    /// Bytes of the bios.
    pub bytes: u64,
    /// Bytes of active pages among them; `None` if activity was not counted.
    pub active_bytes: Option<u64>,
    /// Bios submitted in class RT, for any reason.
    pub rt: u64,
    /// Bios that became RT because of their content, or because of the control that replaces it.
    pub promoted: u64,
    /// Bios that were raised from IDLE to BE.
    pub raised: u64,
    /// Bios whose class was lowered.
    pub demoted: u64,
    /// Bios that the budget kept from becoming RT.
    pub denied: u64,
}

/// Counters and levels of a page cache at the end of each interval.
#[derive(Clone, Debug, Default)]
pub struct CacheSeries {
    /// Usual time between readings.
    pub interval: Nanos,
    /// End of each interval, counted from the start of the run, and the reading then. Counters are
    /// since the start.
    pub readings: Vec<(Instant, Reading)>,
}

/// The run over time.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Usual time between points.
    pub interval: Nanos,
    /// Points in order. Each covers the time since the previous one, the first since the start.
    pub points: Vec<Point>,
}

/// What happened in one interval of a [`Series`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Point {
    /// End of the interval.
    pub at: Instant,
    /// Bytes completed: reads, writes, trims.
    pub bytes: [u64; 3],
    /// I/Os completed: reads, writes, trims.
    pub ios: [u64; 3],
    /// Mean number of requests in flight.
    pub in_flight: f64,
}

impl SizeCounts {
    /// Returns the number of requests.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|&(_, count)| count).sum()
    }
    /// Returns the sum of their sizes in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|&(bytes, count)| bytes * count).sum()
    }
    /// Returns the sum of both counts.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        let mut all = std::collections::BTreeMap::new();
        for &(bytes, count) in self.0.iter().chain(&other.0) {
            *all.entry(bytes).or_insert(0) += count;
        }
        Self(all.into_iter().collect())
    }
}

impl DiskResult {
    /// Returns the time between the two snapshots.
    pub fn span(&self) -> Nanos {
        self.end.at.since(self.start.at)
    }
    /// Returns the mean number of requests in the device (between dispatch and completion), cache
    /// flushes among them, over the whole span.
    pub fn mean_in_device(&self) -> f64 {
        let time: u128 = self.stages.iter().map(|stage| stage.dispatched_to_completed.sum).sum();
        let flushes = self.end.flush_ticks - self.start.flush_ticks;
        match self.span().get() {
            0 => 0.0,
            span => (time as f64 + flushes.get() as f64) / span as f64,
        }
    }
    /// Returns the request sizes of reads, writes and discards together.
    pub fn all_request_sizes(&self) -> SizeCounts {
        self.request_sizes.iter().fold(SizeCounts::default(), |sum, sizes| sum.merged(sizes))
    }
}
