//! A job as it will be run: every honoured option of a fio job, typed, with units in the names.

use elevon_core::ioprio::IoPrio;
use elevon_core::units::Nanos;

/// One job section of a job file, after globals, defaults and expansion of variables. `numjobs` is
/// not expanded here: a clone differs from its section only by its index.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// Section name.
    pub name: String,
    /// Where the section starts, `file:line`.
    pub origin: String,
    /// `description`, shown in the report.
    pub description: Option<String>,
    /// `numjobs`: clones of this job, at least 1.
    pub numjobs: u32,
    /// What it does.
    pub rw: Rw,
    /// Sizes of its I/Os, by direction (read, write, trim).
    pub block_sizes: [BlockSizes; 3],
    /// Alignment of random offsets in bytes, by direction; 0 for the smallest block size.
    pub block_align: [u64; 3],
    /// `bs_is_seq_rand` in a job with both: the first sizes are those of sequential I/Os, the
    /// second of random ones.
    pub bs_is_seq_rand: bool,
    /// `bs_unaligned`: sizes in a range need not be multiples of its minimum.
    pub bs_unaligned: bool,
    /// The engine, for its name and its blocking behaviour.
    pub engine: Engine,
    /// `iodepth`: I/Os kept in flight; 1 for synchronous engines.
    pub iodepth: u32,
    /// `iodepth_batch` (`iodepth_batch_submit`): most I/Os in one submission.
    pub iodepth_batch_submit: u32,
    /// `iodepth_batch_complete_min`.
    pub iodepth_batch_complete_min: u32,
    /// `iodepth_batch_complete_max`.
    pub iodepth_batch_complete_max: u32,
    /// `iodepth_low`: refill only when the depth has fallen to this.
    pub iodepth_low: u32,
    /// `serialize_overlap`.
    pub serialize_overlap: bool,
    /// `direct`.
    pub direct: bool,
    /// `invalidate`: before its I/O the job's files leave the page cache; `pre_read` overrules it.
    pub invalidate: bool,
    /// `pre_read`: before its I/O the job's files are read into the page cache.
    pub pre_read: bool,
    /// `overwrite`: its files were written before, so that a part of a page is read before it is
    /// written.
    pub overwrite: bool,
    /// `fadvise_hint`.
    pub fadvise: Fadvise,
    /// `filename`, split at colons; empty where the job gives none.
    pub filenames: Vec<String>,
    /// `directory`.
    pub directory: Option<String>,
    /// `nrfiles`.
    pub nrfiles: u32,
    /// `file_service_type`.
    pub file_service: FileService,
    /// `size`: of the region all files of the job make up; the device where there is none.
    pub size: Option<Amount>,
    /// `filesize` (smallest, largest).
    pub file_size: Option<(u64, u64)>,
    /// `io_size`: bytes to move, where it differs from `size`.
    pub io_size: Option<Amount>,
    /// `offset`.
    pub offset: Amount,
    /// `offset_increment`, times the clone's index.
    pub offset_increment: Amount,
    /// `offset_align` in bytes, 0 for none.
    pub offset_align: u64,
    /// `number_ios`.
    pub number_ios: Option<u64>,
    /// `loops`.
    pub loops: u64,
    /// `runtime`; zero for none.
    pub runtime: Nanos,
    /// `time_based`.
    pub time_based: bool,
    /// `ramp_time`: measured after this much of the run.
    pub ramp_time: Nanos,
    /// `startdelay` (smallest, largest; drawn per clone).
    pub start_delay: (Nanos, Nanos),
    /// `thinktime`.
    pub think_time: Nanos,
    /// `thinktime_spin`: of it, time that burns CPU.
    pub think_time_spin: Nanos,
    /// `thinktime_blocks`: I/Os between thoughts; 0 where only `thinktime_iotime` bounds them.
    pub think_time_blocks: u32,
    /// `thinktime_blocks_type=issue` counts issued I/Os rather than completed ones.
    pub think_time_counts_issued: bool,
    /// `thinktime_iotime`: time of I/O between thoughts, zero for none.
    pub think_time_io_time: Nanos,
    /// `rate` in bytes a second, by direction.
    pub rate: [Option<u64>; 3],
    /// `rate_iops`, by direction.
    pub rate_iops: [Option<u64>; 3],
    /// `rate_min` in bytes a second: the job fails below it.
    pub rate_min: [Option<u64>; 3],
    /// `rate_iops_min`.
    pub rate_iops_min: [Option<u64>; 3],
    /// `rate_cycle`: over which the minima are averaged.
    pub rate_cycle: Nanos,
    /// `max_latency`, by direction: the job fails on a slower I/O; zero for none.
    pub max_latency: [Nanos; 3],
    /// `rate_process=poisson`.
    pub rate_poisson: bool,
    /// `rate_ignore_thinktime`.
    pub rate_ignore_think_time: bool,
    /// `prio`, `prioclass` and `priohint` together; class NONE where the job gives none.
    pub ioprio: IoPrio,
    /// `cmdprio_percentage` (read, write) with the priority it gives.
    pub command_prio: [Option<(u8, IoPrio)>; 2],
    /// `fsync`: after this many writes; 0 for never.
    pub fsync: u32,
    /// `fdatasync`: likewise.
    pub fdatasync: u32,
    /// `sync_file_range`: after so many writes of a buffered job, what was written since the last
    /// is synced so far.
    pub sync_file_range: Option<SyncFileRange>,
    /// `end_fsync`.
    pub end_fsync: bool,
    /// `fsync_on_close`.
    pub fsync_on_close: bool,
    /// `sync`: how every write is made durable.
    pub sync: SyncMode,
    /// `randrepeat`: the same sequence on every run.
    pub randrepeat: bool,
    /// `allrandrepeat`.
    pub allrandrepeat: bool,
    /// `randseed`.
    pub randseed: Option<u64>,
    /// `random_distribution`, by direction.
    pub distribution: [Distribution; 3],
    /// `percentage_random`, by direction.
    pub percentage_random: [u8; 3],
    /// `norandommap`: blocks may repeat before all were visited.
    pub norandommap: bool,
    /// `stonewall` (`wait_for_previous`): starts when every job before it is over.
    pub stonewall: bool,
    /// `wait_for`: starts when the named job is over.
    pub wait_for: Option<String>,
    /// `exitall`: the end of this job ends others.
    pub exitall: bool,
    /// `exit_what`: which.
    pub exit_what: ExitWhat,
    /// `exitall_on_error`: a job that fails ends all.
    pub exitall_on_error: bool,
    /// `group_reporting`.
    pub group_reporting: bool,
    /// `new_group`.
    pub new_group: bool,
    /// `unified_rw_reporting`: `mixed` in place of the directions (1), or beside them (`both`).
    pub unified_rw_reporting: Unified,
    /// `percentile_list`, in millionths (99.5 is 995000).
    pub percentiles: Vec<u64>,
    /// `clat_percentiles`.
    pub clat_percentiles: bool,
    /// `lat_percentiles`.
    pub lat_percentiles: bool,
    /// `slat_percentiles`.
    pub slat_percentiles: bool,
    /// `ignore_error`: errnos (positive) that do not end the job, of reads, writes and
    /// verification.
    pub ignore_error: [Vec<i32>; 3],
    /// `continue_on_error`, by direction.
    pub continue_on_error: [bool; 3],
    /// `continue_on_error=verify` or `all`: a mismatch is counted and does not fail the job.
    pub continue_on_verify: bool,
    /// `verify` and its kin; real runs only.
    pub verify: Verify,
    /// `zero_buffers`.
    pub zero_buffers: bool,
    /// `buffer_pattern`, bytes that repeat.
    pub buffer_pattern: Option<Vec<u8>>,
    /// `refill_buffers`: new content for every write.
    pub refill_buffers: bool,
    /// `write_hint`, 0 for none.
    pub write_hint: u8,
    /// Logs to write.
    pub logs: Logs,
    /// `cgroup`: tenant of the job, a path below the root.
    pub cgroup: Option<String>,
    /// `cgroup_weight`: weight of that tenant, for schedulers that share by tenant.
    pub cgroup_weight: Option<u32>,
    /// The options of the `[global]` sections above the job, as the user gave them (name, value).
    pub global_options: Vec<(String, String)>,
    /// The options of its own section, as the user gave them (name, value): fio's "job options".
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
    /// Offsets are random rather than sequential.
    pub random: bool,
    /// `trimwrite`, `randtrimwrite`: each block is trimmed, then written.
    pub trim_then_write: bool,
    /// `rwmixread` in percent, where both reads and writes occur.
    pub mix_read: u8,
    /// `rw=randread:N`: a new random offset only every N I/Os (1 normally).
    pub ios_per_offset: u32,
    /// `rw=read:OFFSET`: bytes skipped (or, negative, gone back) after every sequential I/O.
    pub sequential_skip: i64,
    /// `rw_sequencer=identical` rather than `sequential`.
    pub sequencer_identical: bool,
}

/// Sizes of I/Os in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockSizes {
    /// From smallest to largest, bytes; equal for a fixed size.
    Range(u64, u64),
    /// `bssplit`: (bytes, percent), percents adding up to 100.
    Split(Vec<(u64, u32)>),
}

/// How an engine behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Its name in the job file.
    pub name: String,
    /// Whether several I/Os can be in flight; otherwise the process sleeps for each.
    pub asynchronous: bool,
    /// Whether a submission without a free tag sleeps in the submitter (system calls, libaio)
    /// rather than in a worker (io_uring).
    pub submission_blocks: bool,
}

impl Engine {
    /// Whether I/O is memory that is touched through a mapping (`ioengine=mmap`).
    pub fn is_mapped(&self) -> bool {
        self.name == "mmap"
    }
}

/// `fadvise_hint`: what a job tells the page cache of its pattern (posix_fadvise, or posix_madvise
/// for a mapping).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fadvise {
    /// Nothing.
    None,
    /// Random or sequential, as the job is.
    #[default]
    ByWorkload,
    /// Random.
    Random,
    /// Sequential.
    Sequential,
}

/// `sync_file_range`: what is done of a sync, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncFileRange {
    /// `wait_before`: for pages that are being written.
    pub wait_before: bool,
    /// `write`: dirty pages are submitted.
    pub write: bool,
    /// `wait_after`: until they are written.
    pub wait_after: bool,
    /// After this many writes, at least 1.
    pub every: u32,
}

/// Bytes, or a share of what there is.
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
    /// A file drawn at random for each switch.
    Random,
    /// One after the other, switching after this many I/Os.
    RoundRobin(u32),
    /// One until it is finished.
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
    /// Uniform.
    Random,
    /// Zipf with this theta, and the centre (0 to 1) if fixed.
    Zipf(f64, Option<f64>),
    /// Pareto with this h, and the centre if fixed.
    Pareto(f64, Option<f64>),
    /// Normal with this deviation in percent, and the centre if fixed.
    Normal(f64, Option<f64>),
    /// (percent of accesses, percent of the range), adding up to 100 each.
    Zoned(Vec<(u32, u32)>),
    /// (percent of accesses, bytes of the range).
    ZonedAbsolute(Vec<(u32, u64)>),
}

/// `exit_what`: which jobs `exitall` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitWhat {
    /// Those of its reporting group.
    Group,
    /// All that run; what waits behind a `stonewall` goes on.
    Stonewall,
    /// All.
    All,
}

/// `unified_rw_reporting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unified {
    /// Each direction for itself.
    Separate,
    /// All as one, called mixed.
    Mixed,
    /// Both.
    Both,
}

/// Content checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verify {
    /// The method; `None` for no verification.
    pub method: Option<VerifyMethod>,
    /// `do_verify`: read back and check at the end of a write phase.
    pub after_write: bool,
    /// `verify_fatal`: the first mismatch ends the job.
    pub fatal: bool,
    /// `verify_interval` in bytes, 0 for a header a block.
    pub interval: u64,
    /// `verify_pattern`.
    pub pattern: Vec<u8>,
    /// `verify_backlog`: verify after this many writes; 0 for at the end.
    pub backlog: u64,
    /// `verify_only`: no writes, check what an earlier run wrote.
    pub only: bool,
}

/// `verify=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyMethod {
    /// A header with a CRC-32C of the block.
    Crc32c,
    /// `verify_pattern` repeated.
    Pattern,
    /// The content of the buffer is what its offset says (a seeded sequence), no header.
    Meta,
    /// Accepted names of other checksums (md5, sha256, xxhash ...), run as [`Self::Crc32c`] with a
    /// warning.
    Other,
    /// `null`: pretend to verify.
    Null,
}

/// `write_*_log` and their options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logs {
    /// `write_bw_log` prefix.
    pub bandwidth: Option<String>,
    /// `write_iops_log` prefix.
    pub iops: Option<String>,
    /// `write_lat_log` prefix: lat, slat and clat logs.
    pub latency: Option<String>,
    /// `write_hist_log` prefix.
    pub histogram: Option<String>,
    /// `log_avg_msec`; 0 for a line an I/O.
    pub average_ms: u64,
    /// `log_hist_msec`.
    pub histogram_ms: u64,
    /// `log_offset`.
    pub offset: bool,
    /// `log_prio`.
    pub prio: bool,
    /// `log_max_value`, `log_window_value`: what a line of a latency log says of its window.
    pub window_value: WindowValue,
}

/// `log_window_value`: which latency a log has for each window of `log_avg_msec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowValue {
    /// The mean of the window.
    #[default]
    Average,
    /// The largest latency of the window.
    Maximum,
    /// The mean, and in one more column the largest.
    Both,
}

impl JobSpec {
    /// Whether it goes through the page cache, where there is one: buffered, or mapped.
    pub fn is_buffered(&self) -> bool {
        !self.direct || self.engine.is_mapped()
    }

    /// Whether its I/O may begin and end at any byte where there is a page cache.
    pub fn goes_in_bytes(&self) -> bool {
        self.is_buffered() && !self.rw.trim
    }

    /// A job with fio's defaults: sequential 4 KiB reads by a synchronous engine over the whole
    /// device.
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
            bs_unaligned: false,
            engine: Engine { name: "psync".to_owned(), asynchronous: false, submission_blocks: true },
            iodepth: 1,
            iodepth_batch_submit: 1,
            iodepth_batch_complete_min: 1,
            iodepth_batch_complete_max: 1,
            iodepth_low: 1,
            serialize_overlap: false,
            direct: false,
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
            rate_poisson: false,
            rate_ignore_think_time: false,
            ioprio: IoPrio::NONE,
            command_prio: [None; 2],
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
    /// Sequential reads.
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
