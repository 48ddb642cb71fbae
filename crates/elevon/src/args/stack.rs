//! Options of the stack, and those that a `--vs` adds to them.

use std::path::PathBuf;

use clap::{Args, Parser};
use elevon_core::kernel::Kernel;

use super::IoprioArgs;
use super::usage::{one_line, utf8};
use crate::failure::VsError;

/// The scheduler if tenants share the device and nothing says otherwise.
pub(crate) const TENANTS_SCHEDULER: &str = "flow";

/// The scheduler if nothing says otherwise.
const DEFAULT_SCHEDULER: &str = "none";
/// The kernel version if nothing says otherwise.
pub(crate) const DEFAULT_KERNEL: &str = Kernel::DEFAULT.name();
/// `--seed` unless given.
pub(crate) const DEFAULT_SEED: u64 = 1;

/// How I/O is treated on its way to the device, of a run and of a server.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub(crate) struct QueueArgs {
    /// I/O scheduler with tunables: NAME[:tunable=value,...]; the kernel's default for the device
    /// is not applied [default: none, with --tenants flow]
    #[arg(long, value_name = "S")]
    pub(crate) scheduler: Option<String>,
    /// Kernel version whose rules are followed; `elevon kernels` lists them. A stable release such
    /// as 6.1.55 is read as its version [default: 7.3]
    #[arg(long, value_name = "VERSION")]
    pub(crate) kernel: Option<String>,
    /// Queue setting by its sysfs name, a variant (fill=, io_ticks=, hz=) or, where there is a page
    /// cache, a setting of it; `elevon schedulers` lists them (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Fault of a simulated device, or of one that is served, such as
    /// error:sectors=1000-2000,status=medium; `elevon faults` lists kinds, keys and defaults
    /// (repeatable)
    #[arg(long, value_name = "FAULT")]
    pub(crate) fault: Vec<String>,
    /// Limits, weights and priority classes of tenants (cgroups; jobs name theirs with cgroup=),
    /// and changes of them during the run: TOML, with the kernel's file names or knobs of our own;
    /// docs/tenants.md describes it
    #[arg(long, value_name = "FILE")]
    pub(crate) tenants: Option<PathBuf>,
}

/// What decides how I/O travels: device, kernel, scheduler, settings. `J` has the options that only
/// jobs have and `C` that of a page cache before a real device, or they are `()` in a command that
/// takes none of these.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct StackArgs<J: Args = JobArgs, C: Args = RealCacheArgs> {
    /// Device: a profile (`elevon devices` lists them), a model with parameters, @FILE for a
    /// description of a device of your own in TOML (docs/devices.md), or the path of a file or
    /// block device, or nbd://HOST/EXPORT (docs/serve.md), which is then really read and written.
    /// Paths without a slash must exist
    #[arg(long, value_name = "D", default_value = "nvme-datacenter", value_parser = utf8())]
    pub(crate) device: String,
    #[command(flatten)]
    pub(crate) queue: QueueArgs,
    /// Seed of every random choice: same seed, same bytes out, on every machine, in simulation
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Physical memory behind user buffers in simulation, which decides how much a bio holds:
    /// contiguous, fragmented[:...], buddy[:...], or runs:PAGESxTIMES,... as they are [default:
    /// fragmented]
    #[arg(long, value_name = "MODEL")]
    pub(crate) buffers: Option<String>,
    #[command(flatten)]
    pub(crate) of_jobs: J,
    #[command(flatten)]
    pub(crate) real_cache: C,
    /// Priorities of the processes of a trace. They have an option where there is a trace.
    #[arg(skip)]
    pub(crate) ioprio: Vec<String>,
    /// The device is served: a page cache may stand before any kind of it.
    #[arg(skip)]
    pub(crate) is_served: bool,
}

/// Hides the options of jobs in the help of a command that refuses them.
pub(super) fn hidden_of_jobs(arg: clap::Arg) -> clap::Arg {
    let of_jobs = ["job_option", "cpu_cost", "memory", "log_dir", "include_dir", "cache"];
    let is_of_jobs = of_jobs.contains(&arg.get_id().as_str());
    if is_of_jobs { arg.hide(true) } else { arg }
}

/// Options of jobs, which a trace does not have.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub(crate) struct JobArgs {
    /// Option for every job, or for the one that is named, over what the job file says and what
    /// every job gets (repeatable)
    #[arg(long, value_name = "[JOB:]KEY=VALUE")]
    pub(crate) job_option: Vec<String>,
    /// CPU time that a process spends on every I/O in simulation [default:
    /// submit=4us,complete=1.4us]. Also scheduler= (what the I/O scheduler adds; its default was
    /// measured: mq-deadline and kyber 2.25us, bfq 7.55us, with low_latency=0 5.25us; that of
    /// flow, which is not in Linux, is an estimate, 9.4us; 0 switches it off) and lock= (the part
    /// of that under a lock for the whole device: bfq 5.3us, with low_latency=0 3us, flow 7.15us,
    /// others 0). With --memory also call= (a system call on the page cache), hit= (a page found
    /// and copied) and fault= (a page fault). wake=T..T, no CPU time: from when to when a process
    /// runs after it was woken [default: 0]. preempt=SHARE: how many dispatches by a process a
    /// worker of the driver, as loop's, preempts, so that a worker of the block layer does the
    /// rest [default: 0%]
    #[arg(long, value_name = "submit=T,complete=T")]
    pub(crate) cpu_cost: Option<String>,
    /// Memory of the simulated machine, of which a page cache has what others leave:
    /// SIZE[,others=SIZE[,idle=SIZE[,zram=SIZE]]]; idle is the part of others' that nobody touches,
    /// zram how much of it reclaim may compress (--set swappiness). Without it there is no page
    /// cache, and buffered jobs run as direct ones
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Folder of the logs that jobs ask for (write_bw_log= and the like), the current one unless
    /// given; a job's prefix cannot lead out of it
    #[arg(long, value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
    /// Folder from which job files may include, besides their own
    #[arg(long, value_name = "DIR")]
    pub(crate) include_dir: Option<PathBuf>,
}

/// The option of a page cache before a real device.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub(crate) struct RealCacheArgs {
    /// Page cache before a real device, with bytes in this process's memory:
    /// SIZE[,write-back|write-through]. Jobs with direct=0 or ioengine=mmap go through it; the
    /// cache's settings are among those of --set. Write-back (the default): what an fsync, a sync=
    /// write or the end of the run was told is durable, the rest is in memory. Write-through: a
    /// write has finished when the device has it, durable after a sync. docs/cache.md has the whole
    /// table
    #[arg(long, value_name = "SIZE")]
    pub(crate) cache: Option<String>,
}

impl From<()> for JobArgs {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<()> for RealCacheArgs {
    fn from((): ()) -> Self {
        Self::default()
    }
}

/// Options of a `--vs`, by themselves.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct VsCli {
    #[command(flatten)]
    stack: StackArgs,
    #[command(flatten)]
    ioprio: IoprioArgs,
}

impl<J: Args + Into<JobArgs>, C: Args + Into<RealCacheArgs>> StackArgs<J, C> {
    /// Returns these options with those that the command does not take as if they were not given.
    pub(crate) fn whole(self) -> StackArgs {
        let Self { device, queue, seed, buffers, of_jobs, real_cache, ioprio, is_served } = self;
        let (of_jobs, real_cache) = (of_jobs.into(), real_cache.into());
        StackArgs { device, queue, seed, buffers, of_jobs, real_cache, ioprio, is_served }
    }
}

impl StackArgs {
    /// The scheduler, with its default.
    pub(crate) fn scheduler(&self) -> &str {
        self.queue.scheduler.as_deref().unwrap_or(self.default_scheduler())
    }

    /// The scheduler if none is named: where tenants share the device, one that divides it.
    pub(crate) const fn default_scheduler(&self) -> &'static str {
        if self.queue.tenants.is_some() { TENANTS_SCHEDULER } else { DEFAULT_SCHEDULER }
    }

    /// The kernel version, with its default.
    pub(crate) fn kernel(&self) -> &str {
        self.queue.kernel.as_deref().unwrap_or(DEFAULT_KERNEL)
    }

    /// The defaults, with this device.
    pub(crate) fn of_device(device: &str) -> Self {
        Self {
            device: device.to_owned(),
            queue: QueueArgs::default(),
            seed: 1,
            buffers: None,
            of_jobs: JobArgs::default(),
            real_cache: RealCacheArgs::default(),
            ioprio: Vec::new(),
            is_served: false,
        }
    }

    /// Parses a text of options over the defaults.
    pub(crate) fn of_text(text: &str) -> Result<Self, VsError> {
        let parsed = VsCli::try_parse_from(split_words(text)?)
            .map_err(|error| VsError::Option { text: text.to_owned(), error: one_line(&error) })?;
        Ok(Self { ioprio: parsed.ioprio.ioprio, ..parsed.stack })
    }

    /// Returns these options with those of a `--vs` text. A scalar in the text replaces the value
    /// here; `--job-option`, `--set`, `--fault` and `--ioprio` are added.
    pub(crate) fn with(&self, text: &str) -> Result<Self, VsError> {
        let words = split_words(text)?;
        if words.is_empty() {
            return Err(VsError::Empty(text.to_owned()));
        }
        let given = |name: &str| words.iter().any(|w| w == name || w.starts_with(&format!("{name}=")));
        // Without `..`, so that no option can be forgotten.
        let Self {
            device,
            queue: QueueArgs { scheduler, kernel, set, fault, tenants },
            seed,
            buffers,
            of_jobs: JobArgs { job_option, cpu_cost, memory, log_dir, include_dir },
            real_cache: RealCacheArgs { cache },
            ioprio,
            is_served: _,
        } = Self::of_text(text)?;
        let mut all = self.clone();
        if given("--device") {
            all.device = device;
        }
        all.queue.scheduler = scheduler.or(all.queue.scheduler);
        all.queue.kernel = kernel.or(all.queue.kernel);
        if given("--seed") {
            all.seed = seed;
        }
        all.buffers = buffers.or(all.buffers);
        all.real_cache.cache = cache.or(all.real_cache.cache);
        all.queue.tenants = tenants.or(all.queue.tenants);
        let jobs = &mut all.of_jobs;
        jobs.cpu_cost = cpu_cost.or(jobs.cpu_cost.take());
        jobs.memory = memory.or(jobs.memory.take());
        jobs.log_dir = log_dir.or(jobs.log_dir.take());
        jobs.include_dir = include_dir.or(jobs.include_dir.take());
        jobs.job_option.extend(job_option);
        all.queue.set.extend(set);
        all.queue.fault.extend(fault);
        all.ioprio.extend(ioprio);
        Ok(all)
    }
}

/// Splits words as a shell does.
fn split_words(text: &str) -> Result<Vec<String>, VsError> {
    shlex::split(text).ok_or_else(|| VsError::Quote(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> StackArgs {
        VsCli::try_parse_from(["--device", "hdd-7200", "--set", "hz=1000"]).expect("good options").stack
    }

    #[test]
    fn a_variant_replaces_scalars_and_adds_settings() {
        let vs = base().with("--scheduler 'mq-deadline:fifo_batch=1' --set fill=trim").expect("good options");
        assert_eq!((vs.device.as_str(), vs.scheduler()), ("hdd-7200", "mq-deadline:fifo_batch=1"));
        assert_eq!((vs.queue.set, vs.queue.tenants), (vec!["hz=1000".to_owned(), "fill=trim".to_owned()], None));
        let limited = base().with("--tenants a.toml").expect("good options");
        assert_eq!(limited.queue.tenants.as_deref(), Some(std::path::Path::new("a.toml")));
        assert_eq!(limited.with("--tenants b.toml").map(|vs| vs.queue.tenants), Ok(Some("b.toml".into())));
        assert_eq!(limited.with("--kernel 6.1").map(|vs| vs.queue.tenants), Ok(Some("a.toml".into())));
        let ranked = base().with("--ioprio a=idle").and_then(|vs| vs.with("--ioprio b=rt:0")).expect("good options");
        assert_eq!(ranked.ioprio, ["a=idle", "b=rt:0"]);
    }

    #[test]
    fn a_bad_variant_is_one_line() {
        let error = base().with("--sheduler none").expect_err("a misspelt option");
        assert!(matches!(error, VsError::Option { .. }));
        let error = error.to_string();
        assert!(error.starts_with("--vs '--sheduler none': ") && !error.contains('\n'), "{error}");
        assert!(base().with("--scheduler 'none").is_err());
    }
}
