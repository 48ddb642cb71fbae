//! A job as it will be run: every honoured option of a fio job, typed, with units.

use std::sync::Arc;

use super::engine::{Behaviour, find_engine};
use elevon_core::ioprio::IoPrio;
use elevon_core::units::Nanos;

/// The engine whose trims are in its queue, and can have several ranges.
pub(super) const RANGES_ENGINE: &str = "io_uring_cmd";

/// One job section of a job file, after globals, defaults and variables were applied. `numjobs` is
/// not expanded: a clone differs from its section only by its index.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// Section name.
    pub name: String,
    /// The place of the section head, `file:line`.
    pub origin: String,
    /// `description`, shown in the report.
    pub description: Option<String>,
    /// `numjobs`: clones of this job, at least 1.
    pub numjobs: u32,
    /// Direction and order of its I/O.
    pub rw: Rw,
    /// Sizes of its I/Os, by direction (read, write, trim).
    pub block_sizes: [BlockSizes; 3],
    /// Alignment of random offsets in bytes, by direction; 0: the smallest block size.
    pub block_align: [u64; 3],
    /// `bs_is_seq_rand`, in a job with sequential and random I/Os: the first size is that of
    /// sequential I/Os, the second that of random I/Os.
    pub bs_is_seq_rand: bool,
    /// `num_range`: ranges of a trim, at least 1.
    pub num_range: u32,
    /// `bs_unaligned`: sizes in a range need not be multiples of its minimum.
    pub bs_unaligned: bool,
    /// The engine, for its name and its blocking behaviour.
    pub engine: Engine,
    /// `iodepth`: I/Os kept in flight; 1 for synchronous engines.
    pub iodepth: u32,
    /// `iodepth_batch` (`iodepth_batch_submit`): the maximum number of I/Os in one submission.
    pub iodepth_batch_submit: u32,
    /// `iodepth_batch_complete_min`.
    pub iodepth_batch_complete_min: u32,
    /// `iodepth_batch_complete_max`.
    pub iodepth_batch_complete_max: u32,
    /// `iodepth_low`: the job refills its queue only when the depth has fallen to this.
    pub iodepth_low: u32,
    /// `io_submit_mode=offload`: each I/O is submitted by a worker of its own, and the job sleeps
    /// for no submission.
    pub offload: bool,
    /// `serialize_overlap`.
    pub serialize_overlap: bool,
    /// `direct`.
    pub direct: bool,
    /// `atomic`: every write is issued with `RWF_ATOMIC`.
    pub atomic: bool,
    /// `invalidate`: the job's files are dropped from the page cache before its I/O, unless
    /// `pre_read` is set.
    pub invalidate: bool,
    /// `pre_read`: the job's files are read into the page cache before its I/O.
    pub pre_read: bool,
    /// `overwrite`: the job's files have been written before, so a page that is written in part is
    /// read first.
    pub overwrite: bool,
    /// `fadvise_hint`.
    pub fadvise: Fadvise,
    /// `filename`, split at colons; empty if the job names none.
    pub filenames: Vec<String>,
    /// `directory`.
    pub directory: Option<String>,
    /// `nrfiles`.
    pub nrfiles: u32,
    /// `file_service_type`.
    pub file_service: FileService,
    /// `size` of the region that all files of the job form; `None`: the device.
    pub size: Option<Amount>,
    /// `filesize` (smallest, largest).
    pub file_size: Option<(u64, u64)>,
    /// `io_size`: bytes to move, if different from `size`.
    pub io_size: Option<Amount>,
    /// `offset`.
    pub offset: Amount,
    /// `offset_increment`, times the clone's index.
    pub offset_increment: Amount,
    /// `offset_align` in bytes; 0: none.
    pub offset_align: u64,
    /// `fill_device`: without `size`, the job writes to the end of the device. A write for which
    /// there is no space ends the job, and is no error.
    pub fill_device: bool,
    /// `zonemode=strided`, with its zones.
    pub zones: Option<StridedZones>,
    /// `number_ios`.
    pub number_ios: Option<u64>,
    /// `loops`.
    pub loops: u64,
    /// `runtime`; zero: none.
    pub runtime: Nanos,
    /// `time_based`.
    pub time_based: bool,
    /// `ramp_time`: measurement starts after this time of the run.
    pub ramp_time: Nanos,
    /// `startdelay` (smallest, largest); drawn for each clone.
    pub start_delay: (Nanos, Nanos),
    /// `thinktime`.
    pub think_time: Nanos,
    /// `thinktime_spin`: the part of `thinktime` that uses CPU.
    pub think_time_spin: Nanos,
    /// `thinktime_blocks`: I/Os between think times; 0 if only `thinktime_iotime` limits them.
    pub think_time_blocks: u32,
    /// `thinktime_blocks_type=issue` counts issued I/Os rather than completed ones.
    pub think_time_counts_issued: bool,
    /// `thinktime_iotime`: time of I/O between think times; zero: none.
    pub think_time_io_time: Nanos,
    /// `rate` in bytes a second, by direction.
    pub rate: [Option<u64>; 3],
    /// `rate_iops`, by direction.
    pub rate_iops: [Option<u64>; 3],
    /// `rate_min` in bytes a second, by direction: the job fails below it.
    pub rate_min: [Option<u64>; 3],
    /// `rate_iops_min`, by direction.
    pub rate_iops_min: [Option<u64>; 3],
    /// `rate_cycle`: the time over which the minimum rates are averaged.
    pub rate_cycle: Nanos,
    /// `max_latency`, by direction: the job fails on a slower I/O; zero: none.
    pub max_latency: [Nanos; 3],
    /// `latency_target`: the job looks for the greatest queue depth that meets it.
    pub latency_target: Option<LatencyTarget>,
    /// `steadystate` with `steadystate_duration`: the job ends when its rate is steady.
    pub steady: Option<SteadyState>,
    /// `rate_process=poisson`.
    pub rate_poisson: bool,
    /// `rate_ignore_thinktime`.
    pub rate_ignore_think_time: bool,
    /// `prio`, `prioclass` and `priohint` together; class NONE if the job sets none.
    pub ioprio: IoPrio,
    /// `cmdprio_percentage` (read, write), with the priority of those I/Os.
    pub command_prio: [Option<(u8, IoPrio)>; 2],
    /// `cmdprio_bssplit` (read, write); empty if the job has none.
    pub command_prio_split: [Vec<SizePrio>; 2],
    /// `flow` with `flow_id` and `flow_sleep`, if the job has a weight.
    pub flow: Option<Flow>,
    /// `fsync`: after this many writes; 0: never.
    pub fsync: u32,
    /// `fdatasync`: after this many writes; 0: never.
    pub fdatasync: u32,
    /// `sync_file_range` of a buffered job: syncs what was written since the last sync, after a
    /// number of writes.
    pub sync_file_range: Option<SyncFileRange>,
    /// `end_fsync`.
    pub end_fsync: bool,
    /// `fsync_on_close`.
    pub fsync_on_close: bool,
    /// `sync`: how every write is made durable.
    pub sync: SyncMode,
    /// `randrepeat`: the sequence is the same in every run.
    pub randrepeat: bool,
    /// `allrandrepeat`.
    pub allrandrepeat: bool,
    /// `randseed`.
    pub randseed: Option<u64>,
    /// `random_distribution`, by direction.
    pub distribution: [Distribution; 3],
    /// `percentage_random`, by direction.
    pub percentage_random: [u8; 3],
    /// `norandommap`: a block may be repeated before all blocks were visited.
    pub norandommap: bool,
    /// `stonewall` (`wait_for_previous`): the job starts when every job before it has finished.
    pub stonewall: bool,
    /// `wait_for`: the job starts when the named job has finished.
    pub wait_for: Option<String>,
    /// `exitall`, of any job of a run: when one ends, it ends others, as its `exit_what` says.
    pub exitall: bool,
    /// `exit_what`: the jobs that `exitall` ends.
    pub exit_what: ExitWhat,
    /// `exitall_on_error`: a job that fails ends all jobs.
    pub exitall_on_error: bool,
    /// `group_reporting`.
    pub group_reporting: bool,
    /// `new_group`.
    pub new_group: bool,
    /// `unified_rw_reporting`: `mixed` instead of the directions (1), or in addition to them
    /// (`both`).
    pub unified_rw_reporting: Unified,
    /// `percentile_list`, in millionths (99.5 is 995000).
    pub percentiles: Vec<u64>,
    /// `clat_percentiles`.
    pub clat_percentiles: bool,
    /// `lat_percentiles`.
    pub lat_percentiles: bool,
    /// `slat_percentiles`.
    pub slat_percentiles: bool,
    /// `ignore_error`: errnos (positive) that do not end the job, for reads, writes and
    /// verification.
    pub ignore_error: [Vec<i32>; 3],
    /// `continue_on_error`, by direction.
    pub continue_on_error: [bool; 3],
    /// `continue_on_error=verify` or `all`: a mismatch is counted, but does not fail the job.
    pub continue_on_verify: bool,
    /// `verify` and the options that belong to it; real runs only.
    pub verify: Verify,
    /// `zero_buffers`.
    pub zero_buffers: bool,
    /// `buffer_pattern`: bytes that are repeated.
    pub buffer_pattern: Option<Arc<[u8]>>,
    /// `refill_buffers`: each write has new content.
    pub refill_buffers: bool,
    /// `write_hint`; 0: none.
    pub write_hint: u8,
    /// Logs to write.
    pub logs: Logs,
    /// `cgroup`: the tenant of the job, a path below the root.
    pub cgroup: Option<String>,
    /// `cgroup_weight`: weight of that tenant, for schedulers that share by tenant.
    pub cgroup_weight: Option<u32>,
    /// The options of the `[global]` sections above the job, as the user gave them (name, value).
    pub global_options: Vec<(String, String)>,
    /// The options of the job's section, as the user gave them (name, value): fio's "job options".
    pub options: Vec<(String, String)>,
}

/// `rw` (`readwrite`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rw {
    /// Reads occur.
    pub read: bool,
    /// Writes occur.
    pub write: bool,
    /// Trims occur.
    pub trim: bool,
    /// Offsets are random, not sequential.
    pub random: bool,
    /// `trimwrite`, `randtrimwrite`: each block is trimmed, then written.
    pub trim_then_write: bool,
    /// `rwmixread` in percent, if both reads and writes occur.
    pub mix_read: u8,
    /// `rw=randread:N`: the number of I/Os before a new random offset (normally 1).
    pub ios_per_offset: u32,
    /// `rw=read:OFFSET`: bytes skipped after each sequential I/O; negative: bytes to go back.
    pub sequential_skip: i64,
    /// `rw_sequencer=identical`, not `sequential`.
    pub sequencer_identical: bool,
}

/// Sizes of I/Os in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockSizes {
    /// From the smallest to the largest size in bytes; equal for a fixed size.
    Range(u64, u64),
    /// `bssplit`: (bytes, percent); the percentages add up to 100.
    Split(Vec<(u64, u32)>),
}

/// A part of `cmdprio_bssplit`: the priority of a share of the I/Os of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizePrio {
    /// The size of the I/O in bytes.
    pub bytes: u64,
    /// The share of the I/Os of that size, in percent; the shares of one size add up to at most
    /// 100.
    pub percent: u8,
    /// Their priority.
    pub prio: IoPrio,
}

/// `flow`: jobs of one flow do I/O in proportion to their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// `flow_id`.
    pub id: u32,
    /// `flow`: the weight, 1 to 1000.
    pub weight: u32,
    /// `flow_sleep`: how long a job that is ahead of the others sleeps before it looks again; zero:
    /// until the others have caught up.
    pub sleep: Nanos,
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

/// The zones of `zonemode=strided`, in bytes. Zone n starts at n times `range + skip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StridedZones {
    /// `zonesize`: bytes that are moved in a zone before the next zone; at least 1.
    pub size: u64,
    /// `zonerange`: length of a zone; at least one block.
    pub range: u64,
    /// `zoneskip`: the gap between two zones.
    pub skip: u64,
}

/// How an engine behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Its name in the job file.
    pub name: String,
    /// True if several I/Os can be in flight. If not, the process sleeps for each I/O.
    pub asynchronous: bool,
    /// True if a submission without a free tag sleeps in the submitter (system calls, libaio). If
    /// not, it sleeps in a worker (io_uring).
    pub submission_blocks: bool,
}

impl Engine {
    /// Returns true if the engine accesses memory through a mapping (`ioengine=mmap`).
    pub fn is_mapped(&self) -> bool {
        self.name == "mmap"
    }

    /// Returns true if the engine's I/Os in flight are those of a ring (io_uring).
    fn has_ring(&self) -> bool {
        matches!(self.name.as_str(), "io_uring" | "io_uring_cmd")
    }
}

/// `fadvise_hint`: the access pattern that a job announces to the page cache (posix_fadvise, or
/// posix_madvise for a mapping).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fadvise {
    /// No announcement.
    None,
    /// Random or sequential, as the job's I/O is.
    #[default]
    ByWorkload,
    /// Random.
    Random,
    /// Sequential.
    Sequential,
}

/// `sync_file_range`: the steps of a sync, and how often it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncFileRange {
    /// `wait_before`: wait for pages that are already being written.
    pub wait_before: bool,
    /// `write`: submit dirty pages.
    pub write: bool,
    /// `wait_after`: wait until the pages are written.
    pub wait_after: bool,
    /// The number of writes between two syncs, at least 1.
    pub every: u32,
}

/// Bytes, or a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Percent (0 to 100) of the device, file or size that it refers to.
    Percent(u32),
}

/// `file_service_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileService {
    /// A random file for each switch.
    Random,
    /// One file after the other, switching after this many I/Os.
    RoundRobin(u32),
    /// One file until it is finished.
    Sequential,
}

/// `sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// Not synchronous.
    None,
    /// O_SYNC.
    Sync,
    /// O_DSYNC.
    Dsync,
}

/// `random_distribution`.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Uniform distribution.
    Random,
    /// Zipf with this theta; the second value is the centre (0 to 1), if fixed.
    Zipf(f64, Option<f64>),
    /// Pareto with this h; the second value is the centre, if fixed.
    Pareto(f64, Option<f64>),
    /// Normal with this deviation in percent; the second value is the centre, if fixed.
    Normal(f64, Option<f64>),
    /// (percent of accesses, percent of the range); each adds up to 100.
    Zoned(Vec<(u32, u32)>),
    /// (percent of accesses, bytes of the range).
    ZonedAbsolute(Vec<(u32, u64)>),
    /// These blocks in turn, again and again. With `stride` (`random_sequence_stride`) each round
    /// is as many blocks further on as there are in the list.
    Sequence {
        /// Numbers of blocks, at least one.
        blocks: Vec<u64>,
        /// Whether rounds go on.
        stride: bool,
    },
}

/// `exit_what`: which jobs `exitall` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitWhat {
    /// The jobs of its reporting group.
    Group,
    /// All running jobs; jobs that wait for a `stonewall` continue.
    Stonewall,
    /// All jobs.
    All,
}

/// `unified_rw_reporting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unified {
    /// Each direction separately.
    Separate,
    /// All directions as one, called mixed.
    Mixed,
    /// Each direction and mixed.
    Both,
}

/// Content checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verify {
    /// The method; `None`: no verification.
    pub method: Option<VerifyMethod>,
    /// `do_verify`: written blocks are read back and checked at the end of a write phase.
    pub after_write: bool,
    /// `verify_fatal`: the first mismatch ends the job.
    pub fatal: bool,
    /// `verify_interval` in bytes; 0: one header per block.
    pub interval: u64,
    /// `verify_pattern`, with zeroes in the places of `pattern_offsets`.
    pub pattern: Arc<[u8]>,
    /// The places in `pattern` of `%o`: 8 bytes with the block's offset, low byte first.
    pub pattern_offsets: Vec<u16>,
    /// `verify_backlog`: verify after this many writes; 0: at the end.
    pub backlog: u64,
    /// `verify_only`: write nothing, and check what an earlier run wrote.
    pub only: bool,
}

/// `verify=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyMethod {
    /// A header with a CRC-32C of the block.
    Crc32c,
    /// `verify_pattern` repeated.
    Pattern,
    /// The content of the buffer follows from its offset (a seeded sequence); no header.
    Meta,
    /// Names of other checksums (md5, sha256, xxhash ...), run as [`Self::Crc32c`] with a warning.
    Other,
    /// `null`: nothing is verified.
    Null,
}

/// `write_*_log` and their options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logs {
    /// `write_bw_log` prefix.
    pub bandwidth: Option<String>,
    /// `write_iops_log` prefix.
    pub iops: Option<String>,
    /// `write_lat_log` prefix, for the lat, slat and clat logs.
    pub latency: Option<String>,
    /// `write_hist_log` prefix.
    pub histogram: Option<String>,
    /// `log_avg_msec`; 0: one line per I/O.
    pub average_ms: u64,
    /// `log_hist_msec`.
    pub histogram_ms: u64,
    /// `log_offset`.
    pub offset: bool,
    /// `log_prio`.
    pub prio: bool,
    /// `log_max_value`, `log_window_value`: the value in a line of a latency log.
    pub window_value: WindowValue,
}

/// `log_window_value`: the latency that a log records for each window of `log_avg_msec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowValue {
    /// The mean of the window.
    #[default]
    Average,
    /// The largest latency of the window.
    Maximum,
    /// The mean, and in another column the largest latency.
    Both,
}

impl JobSpec {
    /// Returns true if the job uses the page cache when there is one: its I/O is buffered or
    /// mapped, or it trims before it writes, for which fio opens files without O_DIRECT.
    pub fn is_buffered(&self) -> bool {
        !self.direct || self.engine.is_mapped() || self.rw.trim_then_write
    }

    /// Returns true if up to `iodepth` I/Os can be in flight: by the engine, or by workers.
    pub const fn has_queue(&self) -> bool {
        self.engine.asynchronous || self.offload
    }

    /// Returns how many I/Os the job keeps in flight at most: 1 without a queue, else `iodepth`.
    /// fio's io_uring engines fill their ring, whose size is the next power of two, and refill it
    /// when `iodepth_low` I/Os are left, which is `iodepth` if nothing else is asked for: with
    /// `iodepth=80`, 48 I/Os follow 48 completions. As measured with fio 3.33.
    pub fn depth(&self) -> usize {
        match (self.has_queue(), self.engine.has_ring() && !self.offload) {
            (false, _) => 1,
            (true, false) => self.iodepth.max(1) as usize,
            (true, true) => self.iodepth.max(1).next_power_of_two() as usize,
        }
    }

    /// Returns how many workers the job's ring has at most for calls that sleep: an entry of the
    /// ring each, and four for each of the machine's `cpus`. `None` if its engine has no ring.
    /// Source: io_uring_register(2), IORING_REGISTER_IOWQ_MAX_WORKERS.
    pub fn bounded_workers(&self, cpus: u16) -> Option<usize> {
        (self.engine.has_ring() && !self.offload).then(|| self.depth().min(4 * usize::from(cpus)))
    }

    /// Returns true if each of the job's files has a thread that makes the file's I/Os one after
    /// another, as POSIX AIO of glibc does.
    pub fn has_file_threads(&self) -> bool {
        find_engine(&self.engine.name).is_some_and(|row| row.behaviour == Behaviour::FileThreads) && !self.offload
    }

    /// Returns true if the job sleeps in a submission that has no free tag; if not, a worker does.
    pub const fn submission_blocks(&self) -> bool {
        !self.offload && (self.engine.submission_blocks || !self.engine.asynchronous)
    }

    /// Returns true if a job with a queue has trims, makes them one at a time and sleeps for each,
    /// as fio 3.33 does with every engine. io_uring_cmd has them in its queue, as later versions
    /// do.
    pub fn sleeps_for_trims(&self) -> bool {
        self.rw.trim && self.engine.asynchronous && !self.offload && self.engine.name != RANGES_ENGINE
    }

    /// Returns true if some of its I/Os have a priority of their own (`cmdprio_percentage`,
    /// `cmdprio_bssplit`).
    pub fn has_command_prio(&self) -> bool {
        self.command_prio.iter().any(Option::is_some) || self.command_prio_split.iter().any(|parts| !parts.is_empty())
    }

    /// Returns true if its I/O may begin and end at any byte when there is a page cache.
    pub fn goes_in_bytes(&self) -> bool {
        self.is_buffered() && !self.rw.trim
    }

    /// Returns a job with fio's defaults: sequential 4 KiB reads by a synchronous engine over the
    /// whole device.
    pub fn default_job(name: &str) -> Self {
        const NO_BYTES: Amount = Amount::Bytes(0);
        let sizes = || BlockSizes::Range(4096, 4096);
        Self {
            name: name.to_owned(),
            origin: "default:0".to_owned(),
            description: None,
            numjobs: 1,
            rw: Rw::default(),
            block_sizes: [sizes(), sizes(), sizes()],
            block_align: [0; 3],
            bs_is_seq_rand: false,
            num_range: 1,
            bs_unaligned: false,
            engine: Engine { name: "psync".to_owned(), asynchronous: false, submission_blocks: true },
            iodepth: 1,
            iodepth_batch_submit: 1,
            iodepth_batch_complete_min: 1,
            iodepth_batch_complete_max: 1,
            iodepth_low: 1,
            offload: false,
            serialize_overlap: false,
            direct: false,
            atomic: false,
            invalidate: true,
            pre_read: false,
            overwrite: false,
            fadvise: Fadvise::ByWorkload,
            filenames: Vec::new(),
            directory: None,
            nrfiles: 1,
            file_service: FileService::RoundRobin(1),
            size: None,
            file_size: None,
            io_size: None,
            offset: NO_BYTES,
            offset_increment: NO_BYTES,
            offset_align: 0,
            fill_device: false,
            zones: None,
            number_ios: None,
            loops: 1,
            runtime: Nanos::ZERO,
            time_based: false,
            ramp_time: Nanos::ZERO,
            start_delay: (Nanos::ZERO, Nanos::ZERO),
            think_time: Nanos::ZERO,
            think_time_spin: Nanos::ZERO,
            think_time_blocks: 1,
            think_time_counts_issued: false,
            think_time_io_time: Nanos::ZERO,
            rate: [None; 3],
            rate_iops: [None; 3],
            rate_min: [None; 3],
            rate_iops_min: [None; 3],
            rate_cycle: Nanos::from_secs(1),
            max_latency: [Nanos::ZERO; 3],
            latency_target: None,
            steady: None,
            rate_poisson: false,
            rate_ignore_think_time: false,
            ioprio: IoPrio::NONE,
            command_prio: [None; 2],
            command_prio_split: [Vec::new(), Vec::new()],
            flow: None,
            fsync: 0,
            fdatasync: 0,
            sync_file_range: None,
            end_fsync: false,
            fsync_on_close: false,
            sync: SyncMode::None,
            randrepeat: true,
            allrandrepeat: false,
            randseed: None,
            distribution: [Distribution::Random, Distribution::Random, Distribution::Random],
            percentage_random: [100; 3],
            norandommap: false,
            stonewall: false,
            wait_for: None,
            exitall: false,
            exit_what: ExitWhat::Group,
            exitall_on_error: false,
            group_reporting: false,
            new_group: false,
            unified_rw_reporting: Unified::Separate,
            percentiles: [1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99]
                .map(|percent| percent * 10_000)
                .into_iter()
                .chain([995_000, 999_000, 999_500, 999_900])
                .collect(),
            clat_percentiles: true,
            lat_percentiles: false,
            slat_percentiles: false,
            ignore_error: [Vec::new(), Vec::new(), Vec::new()],
            continue_on_error: [false; 3],
            continue_on_verify: false,
            verify: Verify { after_write: true, ..Verify::default() },
            zero_buffers: false,
            buffer_pattern: None,
            refill_buffers: false,
            write_hint: 0,
            logs: Logs::default(),
            cgroup: None,
            cgroup_weight: None,
            global_options: Vec::new(),
            options: Vec::new(),
        }
    }
}

impl Default for Rw {
    /// Returns sequential reads.
    fn default() -> Self {
        Self {
            read: true,
            write: false,
            trim: false,
            random: false,
            trim_then_write: false,
            mix_read: 50,
            ios_per_offset: 1,
            sequential_skip: 0,
            sequencer_identical: false,
        }
    }
}
