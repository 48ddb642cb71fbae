//! A job as it will be run: every honoured option of a fio job, typed, with units.

mod content;
mod durability;
mod load;
mod order;
mod pattern;
mod priority;
mod queue;
mod report;
mod target;

pub use content::{Content, Verify, VerifyMethod};
pub use durability::{Durability, SyncFileRange, SyncMode};
pub use load::{LatencyLimits, LatencyTarget, Rates, SteadyMetric, SteadyState, ThinkTime, Timing};
pub use order::{ExitWhat, Flow, Order};
pub use pattern::{BlockSizes, Blocks, Distribution, Random, Rw};
pub use priority::{Priority, SizePrio};
pub use queue::{Engine, Queue};
pub use report::{Errors, Logs, Reporting, Unified, WindowValue};
pub use target::{Amount, Caching, Fadvise, FileService, Files, Space, StridedZones};

use super::engine::{Behaviour, find_engine};

/// The engine whose trims are in its queue, and can have several ranges.
pub(super) const RANGES_ENGINE: &str = "io_uring_cmd";

/// One job section of a job file, after globals, defaults and variables were applied. `numjobs` is
/// not expanded: a clone differs from its section only by its index.
///
/// The options are in groups, one for each of their subjects.
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
    /// Sizes and alignment of its I/Os.
    pub blocks: Blocks,
    /// Its random sequences and offsets.
    pub random: Random,
    /// The engine, for its name and its blocking behaviour.
    pub engine: Engine,
    /// Its I/Os in flight, and their batches.
    pub queue: Queue,
    /// Its files.
    pub files: Files,
    /// Its region, and the bytes it moves there.
    pub space: Space,
    /// Its use of the page cache.
    pub caching: Caching,
    /// Its start and its end.
    pub timing: Timing,
    /// Its pauses.
    pub think: ThinkTime,
    /// Limits of its rate.
    pub rates: Rates,
    /// Limits of its latencies.
    pub latency: LatencyLimits,
    /// What it waits for, and what its end means for other jobs.
    pub order: Order,
    /// Its I/O priority.
    pub priority: Priority,
    /// How its writes are made durable.
    pub durability: Durability,
    /// Errors that do not end it.
    pub errors: Errors,
    /// `verify` and the options that belong to it; real runs only.
    pub verify: Verify,
    /// What it writes.
    pub content: Content,
    /// Logs to write.
    pub logs: Logs,
    /// How it is reported.
    pub report: Reporting,
    /// The tenant that pays for it.
    pub tenant: JobTenant,
    /// The options of the `[global]` sections above the job, as the user gave them (name, value).
    pub global_options: Vec<(String, String)>,
    /// The options of the job's section, as the user gave them (name, value): fio's "job options".
    pub options: Vec<(String, String)>,
}

/// The tenant that pays for a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobTenant {
    /// `cgroup`: the tenant of the job, a path below the root.
    pub cgroup: Option<String>,
    /// `cgroup_weight`: weight of that tenant, for schedulers that share by tenant.
    pub weight: Option<u32>,
}

impl JobSpec {
    /// Returns true if the job uses the page cache when there is one: its I/O is buffered or
    /// mapped, or it trims before it writes, for which fio opens files without O_DIRECT.
    pub fn is_buffered(&self) -> bool {
        !self.caching.direct || self.engine.is_mapped() || self.rw.trim_then_write
    }

    /// Returns true if up to `iodepth` I/Os can be in flight: by the engine, or by workers.
    pub const fn has_queue(&self) -> bool {
        self.engine.asynchronous || self.queue.offload
    }

    /// Returns how many I/Os the job keeps in flight at most: 1 without a queue, else `iodepth`.
    /// The io_uring engines of fio fill their ring, whose size is the next power of two. They
    /// refill it when `iodepth_low` I/Os are left, which is `iodepth` if nothing else is asked for.
    /// So with `iodepth=80`, 48 I/Os follow 48 completions. As measured with fio 3.33.
    pub fn depth(&self) -> usize {
        match (self.has_queue(), self.engine.has_ring() && !self.queue.offload) {
            (false, _) => 1,
            (true, false) => self.queue.depth.max(1) as usize,
            (true, true) => self.queue.depth.max(1).next_power_of_two() as usize,
        }
    }

    /// Returns how many workers the job's ring has at most for calls that sleep: an entry of the
    /// ring each, and four for each of the machine's `cpus`. `None` if its engine has no ring.
    /// Source: io_uring_register(2), IORING_REGISTER_IOWQ_MAX_WORKERS.
    pub fn bounded_workers(&self, cpus: u16) -> Option<usize> {
        (self.engine.has_ring() && !self.queue.offload)
            .then(|| self.depth().min(4 * usize::from(cpus)))
    }

    /// Returns true if each of the job's files has a thread that makes the file's I/Os one after
    /// another, as POSIX AIO of glibc does.
    pub fn has_file_threads(&self) -> bool {
        find_engine(&self.engine.name).is_some_and(|row| row.behaviour == Behaviour::FileThreads)
            && !self.queue.offload
    }

    /// Returns true if the job sleeps in a submission that has no free tag; if not, a worker does.
    pub const fn submission_blocks(&self) -> bool {
        !self.queue.offload && (self.engine.submission_blocks || !self.engine.asynchronous)
    }

    /// Returns true if a job with a queue has trims, makes them one at a time and sleeps for each,
    /// as fio 3.33 does with every engine. io_uring_cmd has them in its queue, as later versions
    /// do.
    pub fn sleeps_for_trims(&self) -> bool {
        self.rw.trim
            && self.engine.asynchronous
            && !self.queue.offload
            && self.engine.name != RANGES_ENGINE
    }

    /// Returns true if some of its I/Os have a priority of their own (`cmdprio_percentage`,
    /// `cmdprio_bssplit`).
    pub fn has_command_prio(&self) -> bool {
        self.priority.command.iter().any(Option::is_some)
            || self.priority.command_split.iter().any(|parts| !parts.is_empty())
    }

    /// Returns true if its I/O may begin and end at any byte when there is a page cache.
    pub fn goes_in_bytes(&self) -> bool {
        self.is_buffered() && !self.rw.trim
    }

    /// Returns a job with fio's defaults: sequential 4 KiB reads by a synchronous engine over the
    /// whole device.
    pub fn default_job(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            origin: "default:0".to_owned(),
            description: None,
            numjobs: 1,
            rw: Rw::default(),
            blocks: Blocks::default(),
            random: Random::default(),
            engine: Engine::default(),
            queue: Queue::default(),
            files: Files::default(),
            space: Space::default(),
            caching: Caching::default(),
            timing: Timing::default(),
            think: ThinkTime::default(),
            rates: Rates::default(),
            latency: LatencyLimits::default(),
            order: Order::default(),
            priority: Priority::default(),
            durability: Durability::default(),
            errors: Errors::default(),
            verify: Verify::default(),
            content: Content::default(),
            logs: Logs::default(),
            report: Reporting::default(),
            tenant: JobTenant::default(),
            global_options: Vec::new(),
            options: Vec::new(),
        }
    }
}
