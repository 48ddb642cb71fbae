//! The options of a stack: what a command line, a sweep's plan and a program call them.

use std::path::PathBuf;

use super::{DEFAULT_DEVICE, StackOptions};

/// The commands that take an option: a command takes some of these groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionGroup {
    /// The device and its machine.
    Device,
    /// The way through the block layer, of a run and of a server.
    Queue,
    /// Jobs, which a trace does not have.
    Jobs,
    /// A page cache before a real device.
    Cache,
    /// Processes of a trace.
    Trace,
}

/// Where the value of an option goes.
#[derive(Clone, Copy, Debug)]
pub enum OptionValue {
    /// A text that has a default.
    Word(fn(&mut StackOptions) -> &mut String),
    /// A whole number that has a default.
    Number(fn(&mut StackOptions) -> &mut u64),
    /// A text.
    Text(fn(&mut StackOptions) -> &mut Option<String>),
    /// A path.
    Path(fn(&mut StackOptions) -> &mut Option<PathBuf>),
    /// Texts: the option may be repeated.
    Texts(fn(&mut StackOptions) -> &mut Vec<String>),
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct OptionRow {
    /// Its name, without the dashes.
    pub name: &'static str,
    /// What its value is, as a usage line has it.
    pub value_name: &'static str,
    /// The commands that take it.
    pub group: OptionGroup,
    /// The value unless one is given, where there always is one.
    pub default: Option<&'static str>,
    /// Where its value goes.
    pub value: OptionValue,
    /// What it does, as `--help` says it.
    pub help: &'static str,
}

/// The options, in the order of `--help`.
pub const OPTIONS: [OptionRow; 15] = [
    OptionRow {
        name: "device",
        value_name: "D",
        group: OptionGroup::Device,
        default: Some(DEFAULT_DEVICE),
        value: OptionValue::Word(|options| &mut options.device),
        help: "Device: a profile (`elevon devices` lists them), a model with parameters, @FILE for a \
               description of a device of your own in TOML (docs/reference/devices.md), or the path of a file or block \
               device, or nbd://HOST/EXPORT (docs/reference/serve.md), which is then really read and written. Paths \
               without a slash must exist",
    },
    OptionRow {
        name: "scheduler",
        value_name: "S",
        group: OptionGroup::Queue,
        default: None,
        value: OptionValue::Text(|options| &mut options.queue.scheduler),
        help: "I/O scheduler with tunables: NAME[:tunable=value,...]; the kernel's default for the device is \
               not applied [default: none; with --tenants and without io.cost, aileron]",
    },
    OptionRow {
        name: "kernel",
        value_name: "VERSION",
        group: OptionGroup::Queue,
        default: None,
        value: OptionValue::Text(|options| &mut options.queue.kernel),
        help: "Kernel version whose rules are followed; `elevon kernels` lists them. A stable release such as \
               6.1.55 is read as its version [default: 7.3]",
    },
    OptionRow {
        name: "set",
        value_name: "KEY=VALUE",
        group: OptionGroup::Queue,
        default: None,
        value: OptionValue::Texts(|options| &mut options.queue.set),
        help: "Queue setting by its sysfs name, a variant (fill=, io_ticks=, hz=) or, where there is a page \
               cache, a setting of it; `elevon schedulers` lists them (repeatable)",
    },
    OptionRow {
        name: "fault",
        value_name: "FAULT",
        group: OptionGroup::Queue,
        default: None,
        value: OptionValue::Texts(|options| &mut options.queue.fault),
        help: "Fault of a simulated device, or of one that is served, such as \
               error:sectors=1000-2000,status=medium; `elevon faults` lists kinds, keys and defaults \
               (repeatable)",
    },
    OptionRow {
        name: "tenants",
        value_name: "FILE",
        group: OptionGroup::Queue,
        default: None,
        value: OptionValue::Path(|options| &mut options.queue.tenants),
        help: "Limits, weights and priority classes of tenants (cgroups; jobs name theirs with cgroup=), and \
               changes of them during the run: TOML, with the kernel's file names or knobs of our own; \
               docs/reference/tenants.md describes it",
    },
    OptionRow {
        name: "seed",
        value_name: "N",
        group: OptionGroup::Device,
        default: Some("1"),
        value: OptionValue::Number(|options| &mut options.seed),
        help: "Seed of every random choice: same seed, same bytes out, on every machine, in simulation",
    },
    OptionRow {
        name: "buffers",
        value_name: "MODEL",
        group: OptionGroup::Device,
        default: None,
        value: OptionValue::Text(|options| &mut options.buffers),
        help: "Physical memory behind user buffers in simulation, which decides how much a bio holds: \
               contiguous, fragmented[:...], buddy[:...], or runs:PAGESxTIMES,... as they are [default: \
               fragmented]",
    },
    OptionRow {
        name: "job-option",
        value_name: "[JOB:]KEY=VALUE",
        group: OptionGroup::Jobs,
        default: None,
        value: OptionValue::Texts(|options| &mut options.of_jobs.job_option),
        help: "Option for every job, or for the one that is named, over what the job file says and what every \
               job gets (repeatable)",
    },
    OptionRow {
        name: "cpu-cost",
        value_name: "submit=T,complete=T",
        group: OptionGroup::Jobs,
        default: None,
        value: OptionValue::Text(|options| &mut options.of_jobs.cpu_cost),
        help: "CPU time that a process spends on every I/O in simulation [default: \
               submit=4us,complete=1.4us]. Also scheduler= (what the I/O scheduler adds; its default was \
               measured: mq-deadline and kyber 2.25us, bfq 7.55us, with low_latency=0 5.25us; that of aileron, \
               which is not in Linux, is an estimate, 7.15us; 0 switches it off) and lock= (the part of that \
               under a lock for the whole device: bfq 5.3us, with low_latency=0 3us, aileron 4.9us, others 0). \
               With --memory also call= (a system call on the page cache), hit= (a page found and copied) and \
               fault= (a page fault). wake=T..T, no CPU time: from when to when a process runs after it was \
               woken [default: 0]. tag_wake=T..T: the same if it waited for a tag [default: as wake=]. \
               wakes=by-process: each process draws these times apart. \
               wake_step=T: a woken process runs at multiples of this time after its start. \
               worker=T..T: from when to when a worker of the block layer runs after it was woken \
               [default: 4us, one in twenty 64us]. preempt=SHARE: \
               how many dispatches by a process a worker of the driver, as loop's, preempts, so that a worker \
               of the block layer does the rest [default: 0%]",
    },
    OptionRow {
        name: "memory",
        value_name: "SIZE",
        group: OptionGroup::Jobs,
        default: None,
        value: OptionValue::Text(|options| &mut options.of_jobs.memory),
        help: "Memory of the simulated machine, of which a page cache has what others leave: \
               SIZE[,others=SIZE[,idle=SIZE[,zram=SIZE]]]; idle is the part of others' that nobody touches, \
               zram how much of it reclaim may compress (--set swappiness). Without it there is no page \
               cache, and buffered jobs run as direct ones",
    },
    OptionRow {
        name: "log-dir",
        value_name: "DIR",
        group: OptionGroup::Jobs,
        default: None,
        value: OptionValue::Path(|options| &mut options.of_jobs.log_dir),
        help: "Folder of the logs that jobs ask for (write_bw_log= and the like), the current one unless \
               given; a job's prefix cannot lead out of it",
    },
    OptionRow {
        name: "include-dir",
        value_name: "DIR",
        group: OptionGroup::Jobs,
        default: None,
        value: OptionValue::Path(|options| &mut options.of_jobs.include_dir),
        help: "Folder from which job files may include, besides their own",
    },
    OptionRow {
        name: "cache",
        value_name: "SIZE",
        group: OptionGroup::Cache,
        default: None,
        value: OptionValue::Text(|options| &mut options.cache),
        help: "Page cache before a real device, with bytes in this process's memory: \
               SIZE[,write-back|write-through]. Jobs with direct=0 or ioengine=mmap go through it; the \
               cache's settings are among those of --set. Write-back (the default): what an fsync, a sync= \
               write or the end of the run was told is durable, the rest is in memory. Write-through: a write \
               has finished when the device has it, durable after a sync. docs/reference/cache.md has the whole table",
    },
    OptionRow {
        name: "ioprio",
        value_name: "PROCESS=idle|be:0..7|rt:0..7",
        group: OptionGroup::Trace,
        default: None,
        value: OptionValue::Texts(|options| &mut options.ioprio),
        help: "I/O priority of a process of the trace, as ionice gives it: best effort and real time have \
               levels from 0, which is served first, to 7. PROCESS is a name, an id, or both (postgres, 4242, \
               postgres-4242). mq-deadline and bfq look at it (repeatable)",
    },
];
