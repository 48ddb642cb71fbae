//! The result of a run, as plain data: everything that any report says, and nothing that is
//! computed from it.
//!
//! Whoever runs a job fills this in once. Times are those of the clock that drove the run, counted
//! from its start.

use elevon_cache::page_cache::Reading;
use elevon_cache::stats::CacheUse;
use elevon_core::account::DiskStats;
use elevon_core::control::pressure::PressureReading;
use elevon_core::control::stat::IoCounters;
use elevon_core::control::{Cause, Rule, Wait};
use elevon_core::histogram::SparseHistogram;
use elevon_core::ioprio::PrioClass;
use elevon_core::kernel::{IoTicksForm, Kernel};
use elevon_core::limits::QueueLimits;
use elevon_core::stats::{JobStats, LatencyStat};
use elevon_core::units::{Bytes, Instant, Nanos, TenantId};

/// What one run of one job file found out.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// What was measured.
    pub device: DeviceInfo,
    /// Rules that the stack followed.
    pub kernel: Kernel,
    /// Scheduler and how it was tuned.
    pub scheduler: SchedulerInfo,
    /// Seed of every random choice.
    pub seed: u64,
    /// Effective configuration: each setting and its value, in the order to print.
    pub config: Vec<(String, String)>,
    /// A command line that runs this again.
    pub command: String,
    /// Options of the job file's `[global]` section, as written.
    pub global_options: Vec<(String, String)>,
    /// When the run ended, in milliseconds since 1970 (UTC). A simulated run says 0, so that the
    /// same seed gives the same bytes.
    pub unix_ms: u64,
    /// How long the run took by its own clock.
    pub elapsed: Nanos,
    /// Jobs in the order of the file; those of a reporting group are one entry.
    pub jobs: Vec<JobResult>,
    /// Tenants that were watched, by ascending number; none where nobody watches.
    pub tenants: Vec<TenantResult>,
    /// Tenants and jobs over time, of a run with tenants.
    pub owners: Owners,
    /// What was set for tenants during the run, in order.
    pub changes: Vec<Change>,
    /// The device's own statistics.
    pub disk: DiskResult,
    /// CPU time beside what jobs count; `None` on a real device, where it is not modelled.
    pub cpu: Option<CpuResult>,
    /// The page cache, where the run had one.
    pub cache: Option<CacheResult>,
    /// The run over time, where it was recorded.
    pub series: Option<Series>,
    /// Faults that the device was given, in the order in which they were given.
    pub faults: Vec<FaultResult>,
    /// Trace events that had to be dropped.
    pub events_lost: u64,
    /// Things the user should know, a sentence each.
    pub warnings: Vec<String>,
}

/// A fault that a simulated device was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultResult {
    /// The rule as it was given, such as `error:sectors=1000-2000`.
    pub rule: String,
    /// How many times it fired; what one time is depends on the kind of fault.
    pub fired: u64,
}

/// CPU time of a simulated run, beside what each job counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuResult {
    /// How long the scheduler's lock for the whole device was held.
    pub scheduler_lock: Nanos,
    /// I/Os a second that the device does of the run's kind, at its depth, if nothing else takes
    /// time; where that was asked.
    pub device_alone: Option<u64>,
}

/// The device under the run.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Profile name, model with parameters, or path.
    pub name: String,
    /// Whether it is a model rather than a file or block device.
    pub simulated: bool,
    /// Its size.
    pub size: Bytes,
    /// Hardware queues.
    pub hw_queues: u16,
    /// Commands that each hardware queue holds.
    pub queue_depth: u32,
    /// The queue's limits, after every setting.
    pub limits: QueueLimits,
}

/// The scheduler of the run.
#[derive(Clone, Debug, Default)]
pub struct SchedulerInfo {
    /// Its sysfs name.
    pub name: String,
    /// Tunables by their sysfs names, with the values in effect.
    pub tunables: Vec<(String, String)>,
    /// What it counted, if anything.
    pub counters: Vec<(String, u64)>,
}

/// Whether directions are reported apart (fio's `unified_rw_reporting`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnifiedReporting {
    /// `none` or 0: reads, writes and trims apart.
    #[default]
    Separate,
    /// `mixed` or 1: one figure for all.
    Mixed,
    /// `both` or 2: apart, then together.
    Both,
}

/// Which latencies a job shows percentiles of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyPercentiles {
    /// Submission latency (`slat_percentiles`).
    pub slat: bool,
    /// Completion latency (`clat_percentiles`); fio's default.
    pub clat: bool,
    /// Whole latency (`lat_percentiles`).
    pub lat: bool,
}

impl Default for LatencyPercentiles {
    fn default() -> Self {
        Self { slat: false, clat: true, lat: false }
    }
}

/// What a job asked for, for its heading.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// `rw=` as fio spells it.
    pub rw: String,
    /// Smallest and largest block of reads, writes and trims.
    pub block_sizes: [(Bytes, Bytes); 3],
    /// `ioengine=`.
    pub ioengine: String,
    /// `iodepth=`.
    pub iodepth: u32,
}

/// What a job may ask of a scheduler that divides the device: its priority and cgroup, as weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whether the job asked for it; otherwise it is what everybody gets who does not.
    pub given: bool,
    /// Its class: classes come one after another, weights divide what a class gets.
    pub class: PrioClass,
    /// Weight of all its processes together: 10 for each, 20 for the level above, ... 80 for level
    /// 0.
    pub weight: u32,
    /// The cgroups that it lies in, from the top: path and weight (1 to 1000). A weight is that of
    /// all who lie in the cgroup.
    pub cgroups: Vec<(String, u32)>,
}

/// One job, or one reporting group of jobs.
#[derive(Clone, Debug)]
pub struct JobResult {
    /// Name of its section.
    pub name: String,
    /// Reporting group, from 0.
    pub group: u32,
    /// Jobs that are merged here (1 but for `group_reporting`).
    pub members: u32,
    /// Process id to print; simulated processes count from 1.
    pub pid: u32,
    /// `description=`, or empty.
    pub description: String,
    /// What it asked for.
    pub workload: Workload,
    /// Its own options, as written.
    pub options: Vec<(String, String)>,
    /// When it started, counted from the start of the run.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
    /// What it is due; `None` where jobs of different classes or cgroups are one entry.
    pub claim: Option<Claim>,
    /// Time that its requests spent in the device, summed over them; `None` where that is not
    /// known.
    pub device_time: Option<Nanos>,
    /// What it counted. The errno that ended it, if any, is in here.
    pub stats: JobStats,
    /// Its page cache statistics, if it went through a page cache.
    pub cache_use: Option<Box<CacheUse>>,
    /// Words for that errno; empty without one.
    pub error: String,
    /// Percentiles wanted, in millionths, ascending (`percentile_list`).
    pub percentiles: Vec<u32>,
    /// Of which latencies.
    pub latency_percentiles: LatencyPercentiles,
    /// Directions apart or together.
    pub unified: UnifiedReporting,
}

/// What a tenant and everybody below it did, and what their I/O waited for. The root is alone:
/// nothing is added to it.
#[derive(Clone, Debug, Default)]
pub struct TenantResult {
    /// Its number, by which [`Self::explain`] of others names it.
    pub id: TenantId,
    /// Path below the root, without slashes at its ends; `/` for the root.
    pub path: String,
    /// Tenants between this one and the root, itself included.
    pub depth: u16,
    /// Whether it was removed before the end.
    pub removed: bool,
    /// What was set for it: the kernel's file names and the text that they hold.
    pub settings: Vec<(String, String)>,
    /// The limits among these, as numbers a second.
    pub limits: Vec<(Rule, u64)>,
    /// How long its jobs, and those below it, ran: what rates are over.
    pub time: Nanos,
    /// What its limits have let go.
    pub io: IoCounters,
    /// Fragments between that and their end, when the run ended.
    pub in_flight: u64,
    /// How long finished fragments took from when limits let them go.
    pub latency: SparseHistogram,
    /// How much of the time it stood still for I/O; `None` where its processes were not followed.
    pub pressure: Option<PressureReading>,
    /// What its I/O waited for, each cause once.
    pub explain: Vec<(Cause, Wait)>,
}

/// Tenants and jobs over time.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    /// What limits let go of each tenant that did anything, with all below it.
    pub tenants: Vec<OwnerResult>,
    /// What each process of a job completed.
    pub jobs: Vec<OwnerResult>,
}

/// What one tenant or job did over time.
#[derive(Clone, Debug, Default)]
pub struct OwnerResult {
    /// Path of the tenant, or name of the job.
    pub name: String,
    /// Intervals in order.
    pub points: Vec<OwnerPoint>,
}

/// What a tenant or job did in one interval: since the end of the one before, the first since the
/// start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerPoint {
    /// End of the interval, from the start of the run.
    pub at: Nanos,
    /// I/Os: reads, writes, trims.
    pub ios: [u64; 3],
    /// Their bytes.
    pub bytes: [u64; 3],
}

/// A setting that was changed during the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// When, from the start of the run.
    pub at: Nanos,
    /// Path of the tenant; `device` for the device's own.
    pub tenant: String,
    /// The kernel's file name, or the knob.
    pub file: String,
    /// What was set.
    pub text: String,
}

impl TenantResult {
    /// Whether neither it nor anybody below it did any I/O.
    pub fn is_idle(&self) -> bool {
        self.io.all_ios() == 0 && self.explain.is_empty()
    }
}

/// The device's statistics over the run.
#[derive(Clone, Debug)]
pub struct DiskResult {
    /// The device's name, short and without a path.
    pub name: String,
    /// The disk under it, which is named in fio's disk statistics. `None` for a real file that lies
    /// on no disk: fio has no disk statistics then.
    pub disk: Option<String>,
    /// Its major and minor number.
    pub number: (u32, u32),
    /// Which form fills io_ticks, and so %util.
    pub io_ticks: IoTicksForm,
    /// At the start of the run.
    pub start: DiskStats,
    /// At its end.
    pub end: DiskStats,
    /// Latency by stage, for reads, writes and discards.
    pub stages: [StageLatency; 3],
    /// Sizes of the requests given to the driver, for reads, writes and discards.
    pub request_sizes: [SizeCounts; 3],
    /// What happened on the way.
    pub counters: StackCounters,
}

/// Where a request's time went.
#[derive(Clone, Debug, Default)]
pub struct StageLatency {
    /// From allocation to the driver.
    pub queued_to_dispatched: LatencyStat,
    /// From the driver to completion.
    pub dispatched_to_completed: LatencyStat,
}

/// How many requests had which size: (bytes, count), ascending by size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizeCounts(pub Vec<(u64, u64)>);

/// What happened to bios and requests between submission and completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackCounters {
    /// Times that a bio was cut in two.
    pub splits: u64,
    /// Bios and requests merged into others.
    pub merges: u64,
    /// Requests that the driver gave back.
    pub requeues: u64,
    /// Requests tried again after an error.
    pub retries: u64,
    /// Requests that took longer than the timeout.
    pub timeouts: u64,
    /// Answers to commands that had been aborted; they ended nothing.
    pub late_answers: u64,
    /// Requests that are the small last part of a split bio.
    pub tails: u64,
}

/// The page cache of a run. How long each job waited for it is in the job's statistics.
#[derive(Clone, Debug, Default)]
pub struct CacheResult {
    /// The machine's memory.
    pub memory: Bytes,
    /// What others have of it.
    pub others: Bytes,
    /// Which page goes next.
    pub policy: String,
    /// What content does to priority.
    pub activity: String,
    /// The windows that waits were to be counted in; a long run has longer ones.
    pub window: Nanos,
    /// Bios by what they were for; those of which there were none left out.
    pub sources: Vec<CacheSource>,
    /// Working set and reclaim, by the names of `/proc/vmstat`, over the run; levels (`nr_*`) as at
    /// its end.
    pub vmstat: Vec<(String, u64)>,
    /// What else it counted, from the start of the run, in groups to print.
    pub groups: Vec<(String, Vec<(String, u64)>)>,
    /// It over time.
    pub series: CacheSeries,
}

impl CacheResult {
    /// A count of the group `pages`; 0 where it is not there.
    pub fn pages(&self, name: &str) -> u64 {
        let pages = self.groups.iter().find(|(group, _)| group == "pages");
        pages.and_then(|(_, counts)| counts.iter().find(|(key, _)| key == name)).map_or(0, |&(_, count)| count)
    }
}

/// Bios of the page cache that were built for one purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheSource {
    /// fault, read, readahead, writeback, fsync.
    pub name: String,
    /// Bios.
    pub bios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, bytes of active pages; `None` where nobody looked.
    pub active_bytes: Option<u64>,
    /// Bios submitted in class RT, whatever put them there.
    pub rt: u64,
    /// Bios that became RT by their content, or by the control in its place.
    pub promoted: u64,
    /// IDLE bios that became best effort.
    pub raised: u64,
    /// Bios that became less urgent.
    pub demoted: u64,
    /// Bios that the budget kept from RT.
    pub denied: u64,
}

/// A page cache over time: what stood in its counters and levels at the end of each interval.
#[derive(Clone, Debug, Default)]
pub struct CacheSeries {
    /// Usual time between readings.
    pub interval: Nanos,
    /// When an interval ended, counted from the start of the run, and what was read then; counters
    /// are since the start.
    pub readings: Vec<(Instant, Reading)>,
}

/// The run over time.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Usual time between points.
    pub interval: Nanos,
    /// Points in order; each covers the time since the one before (the first: since the start).
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
    /// Mean requests in flight.
    pub in_flight: f64,
}

impl SizeCounts {
    /// Requests counted.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|&(_, count)| count).sum()
    }
    /// Sum of their sizes in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|&(bytes, count)| bytes * count).sum()
    }
    /// Both counts together.
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
    /// Time between the two snapshots.
    pub fn span(&self) -> Nanos {
        self.end.at.since(self.start.at)
    }
    /// Mean number of requests in the device, between dispatch and completion, over the whole span.
    pub fn mean_in_device(&self) -> f64 {
        let time: u128 = self.stages.iter().map(|stage| stage.dispatched_to_completed.sum).sum();
        crate::summary::ratio(time as f64, self.span().get() as f64)
    }
    /// Request sizes of all three groups.
    pub fn all_request_sizes(&self) -> SizeCounts {
        self.request_sizes.iter().fold(SizeCounts::default(), |sum, sizes| sum.merged(sizes))
    }
}
