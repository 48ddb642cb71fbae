//! The command line as typed. The module `plan` makes a checked run of it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use elevon_core::kernel::Kernel;

use crate::failure::{UsageError, VsError};

#[cfg(test)]
#[path = "../../../fuzz/checks/vs.rs"]
mod check;

/// The Linux block layer as a user-space system.
///
/// A fio job file runs through bio building, queue limits, splitting, plugging, an I/O scheduler,
/// tags and a device: in virtual time over a simulated device, or in real time over a file or block
/// device that you name.
#[derive(Debug, Parser)]
#[command(name = "elevon", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a fio job file and report as fio and iostat do
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Run one job file, or replay one trace, under several stacks and put them side by side
    #[command(long_about = COMPARE_ABOUT, after_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),
    /// Measure a device and print what io.cost.model wants to know of it, or fit one to a trace
    #[command(long_about = CALIBRATE_ABOUT, after_help = CALIBRATE_EXAMPLES)]
    Calibrate(CalibrateArgs),
    /// Say what a trace of block events shows: problems first, then latency by stage, processes,
    /// depth, utilisation
    #[command(long_about = INSPECT_ABOUT, after_help = INSPECT_EXAMPLES)]
    Inspect(InspectArgs),
    /// Record the block events of a device, with its settings, for inspect, calibrate and replay
    #[command(long_about = CAPTURE_ABOUT, after_help = CAPTURE_EXAMPLES)]
    Capture(CaptureArgs),
    /// Serve disks over NBD, each with the limits and weight of its tenant, through a scheduler
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Do the I/O of a trace again, under any device, scheduler, kernel and settings
    #[command(long_about = REPLAY_ABOUT, after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Search for a scheduler, queue limits and priorities that serve a trace's processes better
    #[command(long_about = ADVISE_ABOUT, after_help = ADVISE_EXAMPLES)]
    Advise(AdviseArgs),
    /// Repeat a published experiment: the figures then and ours, and why they differ
    Reproduce(ReproduceArgs),
    /// List the simulated devices, or show one: parameters, sources, predictions beside what the
    /// model does; or the attributes of its queue under a kernel
    Devices(DevicesArgs),
    /// List the faults that a simulated device can be given, or show one: keys, units, defaults
    Faults(NameArgs),
    /// List the I/O schedulers and queue settings, or show one scheduler with its tunables
    Schedulers(NameArgs),
    /// List the kernel versions, show the rules of one, or what differs between two for I/O
    #[command(after_help = KERNELS_EXAMPLES)]
    Kernels(KernelsArgs),
}

const KERNELS_EXAMPLES: &str = "\
Examples:
  elevon kernels                 the versions
  elevon kernels 6.12            the rules of one, and whether each was measured
  elevon kernels 6.1 7.3         what changes for I/O from one to the other, who notices, how it is known
";

const RUN_EXAMPLES: &str = "\
Examples:
  elevon run job.fio                                     on the default simulated device
  elevon run job.fio --device hdd-7200 --scheduler mq-deadline:read_expire=100
  elevon run job.fio --device ./disk.img                 really reads and writes ./disk.img
  elevon run job.fio --device ./disk.img --cache 1GiB    the same through a page cache of our own
  elevon run job.fio --kernel 6.1 --trace run.ftrace     what an old kernel would have done
  elevon run job.fio --tenants limits.toml               with limits and weights for the cgroups of its jobs
  elevon run job.fio --output-format json | jq '.jobs[0].read.iops'

A JOB.fio of - is read from stdin, and so is --tenants -.

Signals: SIGINT, SIGTERM and SIGHUP stop the run: what is in flight is waited for, what a cache holds dirty is written, and
the report covers what ran until then. Another of them gives up, if it comes a second or more after the first. SIGUSR1
prints the report so far, on stderr if stdout is JSON, and the run goes on.

Exit status: 0 done, 1 the run failed (I/O errors that the job does not ignore) or something could not be written, 2 bad
input, 130, 143 or 129 interrupted by SIGINT, SIGTERM or SIGHUP.";

const COMPARE_ABOUT: &str = "\
Run one job file, or replay one trace, under several stacks and put them side by side.

Which of the two the file is, is found by its content. A trace is replayed as `elevon replay` does it (--closed, --speed, --dev and the others); the table has a block for each process, and each column is the same processes under another stack.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  elevon compare job.fio --vs '--scheduler mq-deadline' --vs '--set fill=max-sectors'
  elevon compare job.fio --device ufs-4.0 --vs '--kernel 6.1' --html compare.html
  elevon compare trace.txt --closed --device @my-disk.toml --scheduler mq-deadline --vs '--scheduler bfq'
  elevon compare job.fio --vs '--scheduler bfq' --output-format json | jq '.jobs[] | {jobname, iops, lat_p99_ns}'
  elevon compare sda.blktrace.0 --set max_sectors_kb=512 --vs '--set fill=max-sectors'
  perf script | elevon compare - --vs '--scheduler kyber'

A file of - is a trace on the standard input.

Exit status: 0 done, 1 a run failed or something could not be written, 2 bad input, 130, 143 or 129 interrupted by SIGINT,
SIGTERM or SIGHUP (the table then has what ran until then, and names what did not).";

const CALIBRATE_ABOUT: &str = "\
Measure a device, simulated or real, and print what io.cost.model wants to know of it.

io.cost shares a device by the time that I/Os take of it, which it computes from six figures: for reads and for writes the bandwidth of large sequential blocks (1 MiB, depth 32), and how many sequential and random blocks of 4 KiB the device does a second (depth 128). Six runs measure them, one after the other, without a scheduler and without merging, so that it is the device that is measured. A fast device is not well described by the figures of a slow one: without a model of its own, weights on it share out the wrong thing.

With a TRACE of block events nothing is measured: a device is fitted to the latencies that the trace shows (servers behind one FIFO; what a read, a write and a flush hold one for, by size), each figure of the fit is shown beside the trace's, and -o saves it as a file for --device @FILE.";

const CALIBRATE_EXAMPLES: &str = "\
Examples:
  elevon calibrate                                       the default simulated device
  elevon calibrate --device hdd-7200 --seconds 10        slow devices need time to be measured well
  elevon calibrate --device /dev/nvme0n1                 reads only; what it stores stays as it is
  elevon calibrate --device /dev/nvme0n1 --overwrite-data    and writes: destroys what it stores
  elevon calibrate --output-format json | jq -r .line
  elevon calibrate trace.txt -o my-disk.toml             the device of a trace; then: elevon replay --device @my-disk.toml ...

Write the line to io.cost.model of the root cgroup, and 'MAJ:MIN enable=1' to io.cost.qos. Where the device was a file, or
simulated, put the numbers of yours in place of MAJ:MIN (lsblk shows them).";

const INSPECT_ABOUT: &str = "\
Say what a trace of block events shows: problems first, then latency by stage, processes, depth, utilisation.

Reads ftrace text (the kernel's trace file, trace-cmd report, perf script), Perfetto traces, blktrace's binary files, what blkparse prints, fio's iolog, and CSV traces (MSR Cambridge, Alibaba, Tencent, Systor, SPC), compressed with gzip or zstd or not; the format is found by the content. Every bio and request of one device is followed from queue to completion through splits, merges, requeues and flushes. Findings come first, each with when, who, how much and what to try; a trace without a problem says so. No latency is computed across a gap of lost events.";

const INSPECT_EXAMPLES: &str = "\
Examples:
  elevon inspect trace.txt                               ftrace text; trace.txt.gz and trace.txt.zst, too
  elevon inspect sda.blktrace.0                          with the files of the other CPUs beside it; also: inspect sda
  perf script | elevon inspect -                         from the standard input
  elevon inspect trace.txt --dev 8:0                     one device (or partition) of several; lsblk shows the numbers
  elevon inspect trace.txt --output-format json | jq '.findings[] | {kind, title, processes}'
  elevon inspect trace.txt --output-format json | jq .events
  elevon inspect trace.txt --html trace.html             a page with a timeline and heat maps
  elevon inspect trace.txt --requests requests.csv       a row for each request, for a notebook or a spreadsheet

Stages as blktrace names them: Q queued, G request allocated, I inserted into the scheduler, D issued to the driver, C completed.
To record a trace: echo 1 > /sys/kernel/tracing/events/block/enable, and cat /sys/kernel/tracing/trace afterwards.
docs/inspect.md explains every finding with its threshold, every table and every key of the JSON.

Exit status: 0 done, 1 the trace could not be read to its end or something could not be written, 2 bad input: no trace, a trace
without block events, several devices and no --dev.";

const SERVE_EXAMPLES: &str = "\
Examples:
  elevon serve disk.img --listen unix:/run/disk.sock     one file; clients find it as nbd+unix:///disk.img?socket=...
  elevon serve hdd-7200 --listen tcp:localhost:10809     a slow disk in real time, its bytes in memory
  elevon serve hdd-7200 --listen unix:s --fault error:ppm=100,status=io    one that breaks
  elevon serve elevon.toml                               several devices, exports and tenants: docs/serve.md
  elevon serve elevon.toml --check                       say what is wrong with it, and serve nothing

Exit status: 0 done, after SIGINT or SIGTERM, 1 the machine failed, 2 bad input.";

const CAPTURE_ABOUT: &str = "\
Record the block events of a device, with its settings, for inspect, calibrate and replay.

Needs root. Events are taken from the kernel's tracefs by a trace instance of its own, so that nobody else's tracing is touched; it is removed at the end, also after Ctrl-C. OUT is ftrace text with times in nanoseconds, in order of time over all CPUs. Its head holds the kernel's version, the device's queue settings, its scheduler with tunables, and this command. Events that were lost are counted, and their place is in the text.";

const CAPTURE_EXAMPLES: &str = "\
Examples:
  elevon capture /dev/nvme0n1 --seconds 10 trace.txt     then: elevon inspect trace.txt
  elevon capture /dev/sda1 trace.txt.zst                 until Ctrl-C, packed; the whole disk, and inspect --dev 8:1 shows the partition
  elevon capture /dev/sda --seconds 60 --buffer 32MiB trace.txt    for a very busy device

What is recorded is kept in unnamed files in the folder of OUT, and written as text when the recording has ended. Choose a
folder on another disk, or the trace has that I/O too. docs/capture.md has the same with blktrace, trace-cmd, perf and Perfetto.

Exit status: 0 done, 1 something went wrong on the way, 2 it could not be recorded: no root, no tracefs, no block events in the
kernel, no block device, OUT exists, disk full; 130, 143 or 129 if SIGINT, SIGTERM or SIGHUP ended it before its time (OUT has what
was recorded until then).";

const REPLAY_ABOUT: &str = "\
Do the I/O of a trace again, under any device, scheduler, kernel and settings, and report as `elevon run` does: a row for each process.

Bios enter where they did in the kernel, before splits and merges (from queue events; a trace without them gives requests as they were issued, and the report says so), with their process, cgroup, priority and flags. In an open loop, the default, they enter at the times of the trace, whatever the device does; --closed lets each process wait for its completions, as it did. Latency is that of a bio, from its submission to its completion.";

const REPLAY_EXAMPLES: &str = "\
Examples:
  elevon replay trace.txt                                 as timed, on the default simulated device
  elevon replay trace.txt --closed --scheduler bfq --device @my-disk.toml
  elevon replay trace.txt --dev 8:0 --set max_sectors_kb=1024 --output-format json | jq '.jobs[] | {jobname, read}'
  elevon replay trace.txt --speed 2                       twice as fast
  elevon replay sda.blktrace.0 --device /dev/nvme0n1      only reads and flushes; --allow-writes destroys what it stores

docs/replay.md tells how dependencies are inferred and what does not survive a trace.

Exit status: as `elevon run`; 2 for a trace that cannot be replayed.";

const ADVISE_ABOUT: &str = "\
Search for a scheduler, queue limits and priorities that serve the processes of a trace better, and print the best few with the lines that set them.

A device is fitted to the trace (as `elevon calibrate` does), and the processes of the trace do their I/O again on it in a closed loop under many configurations: schedulers with their main tunables, nr_requests, max_sectors_kb, the device's queue depth where it can be set, and of processes priorities (ionice), weights (IOWeight, by BFQ or io.cost), limits (io.max) and latency targets (io.latency). Each is compared with the replay as captured, process by process.

The replay as captured is also the check: how far it is off from the trace is the error of every prediction, and a gain within it counts for nothing, while a loss counts whole. What is proposed gains beyond that error, and loses in neither half of the trace. If nothing does, the answer is that no change is worth it.";

const ADVISE_EXAMPLES: &str = "\
Examples:
  elevon advise trace.txt                                 for all processes: throughput, p50 and p99
  elevon advise trace.txt --goal p99 --for postgres       what postgres waits for, whatever it costs others (--max-loss)
  elevon advise trace.txt --goal throughput
  elevon advise trace.txt --goal fair                     the process that is slowed down most by the others
  elevon advise trace.txt --scheduler mq-deadline --set nr_requests=64    what it was captured under, if the trace does not say
  elevon advise trace.txt --device @my-disk.toml          a device of your own, saved by elevon calibrate TRACE -o
  elevon advise trace.txt --output-format json | jq -r '.proposals[0].set.udev[]'

Goals: balanced (the default) is the mean gain over processes and over throughput, median and 99th percentile of each, as ratios;
p99, p50 and throughput are one of them; fair is the speed of the process that is slowed down most, against what it has alone.
Latency counts only where somebody waits: for reads, synchronous writes and flushes, not for write-back.

To record a trace: elevon capture DEVICE --seconds 30 trace.txt; it notes the scheduler and the settings, too. docs/advise.md tells
how it searches, what a figure is worth, and what it cannot know.

Exit status: 0 done, with or without a proposal, 2 bad input: no trace, too few I/Os, an unknown process.";

/// The scheduler if tenants share the device and nothing says otherwise.
pub(crate) const TENANTS_SCHEDULER: &str = "flow";

/// The scheduler if nothing says otherwise.
pub(crate) const DEFAULT_SCHEDULER: &str = "none";
/// The kernel version if nothing says otherwise.
pub(crate) const DEFAULT_KERNEL: &str = Kernel::DEFAULT.name();

/// How I/O is treated on its way to the device, of a run and of a server.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct QueueArgs {
    /// I/O scheduler with tunables: NAME[:tunable=value,...]; the kernel's default for the device
    /// is not applied [default: none, with --tenants flow; of a trace with its settings: as
    /// recorded]
    #[arg(long, value_name = "S")]
    pub(crate) scheduler: Option<String>,
    /// Kernel version whose rules are followed; `elevon kernels` lists them. A stable release such
    /// as 6.1.55 is read as its version [default: 7.3; of a trace with its settings: as recorded]
    #[arg(long, value_name = "VERSION")]
    pub(crate) kernel: Option<String>,
    /// Queue setting by its sysfs name, a variant (fill=, io_ticks=, hz=) or, where there is a page
    /// cache, a setting of it; `elevon schedulers` lists them (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Fault of a simulated device, such as error:sectors=1000-2000,status=medium; `elevon faults`
    /// lists kinds, keys and defaults (repeatable)
    #[arg(long, value_name = "FAULT")]
    pub(crate) fault: Vec<String>,
    /// Limits, weights and priority classes of tenants (the cgroups that jobs name with cgroup=),
    /// and changes of them during the run: TOML, with the kernel's file names or knobs of our own;
    /// docs/tenants.md describes it
    #[arg(long, value_name = "FILE")]
    pub(crate) tenants: Option<PathBuf>,
}

/// What decides how I/O travels: device, kernel, scheduler, settings.
#[derive(Args, Clone, Debug)]
pub(crate) struct StackArgs {
    /// Device: a profile (`elevon devices` lists them), a model with parameters, @FILE for a
    /// description of a device of your own in TOML (docs/devices.md), or the path of a file or
    /// block device, which is then really read and written. Paths without a slash must exist
    #[arg(long, value_name = "D", default_value = "nvme-datacenter")]
    pub(crate) device: String,
    #[command(flatten)]
    pub(crate) queue: QueueArgs,
    /// Option for every job, or for the one that is named, over what the job file says (repeatable)
    #[arg(long, value_name = "[JOB:]KEY=VALUE")]
    pub(crate) job_option: Vec<String>,
    /// Seed of every random choice: same seed, same bytes out, on every machine, in simulation
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Physical memory behind user buffers in simulation, which decides how much a bio holds:
    /// contiguous, fragmented[:...], buddy[:...], or runs:PAGESxTIMES,... as they are [default:
    /// fragmented]
    #[arg(long, value_name = "MODEL")]
    pub(crate) buffers: Option<String>,
    /// CPU time that a process spends on every I/O in simulation [default:
    /// submit=4us,complete=1.4us]. Also scheduler= (what the I/O scheduler adds; its default was
    /// measured: mq-deadline and kyber 2.25us, bfq 7.55us, with low_latency=0 5.25us; 0 switches it
    /// off) and lock= (the part of that under a lock for the whole device: bfq 5.3us, with
    /// low_latency=0 3us, others 0). With --memory also call= (a system call on the page cache),
    /// hit= (a page found and copied) and fault= (a page fault)
    #[arg(long, value_name = "submit=T,complete=T")]
    pub(crate) cpu_cost: Option<String>,
    /// Memory of the simulated machine, of which a page cache has what others leave:
    /// SIZE[,others=SIZE[,idle=SIZE[,zram=SIZE]]]; idle is the part of others' that nobody touches,
    /// zram how much of it reclaim may compress (--set swappiness). Without it there is no page
    /// cache, and buffered jobs run as direct ones
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Page cache before a real device, with bytes in this process's memory:
    /// SIZE[,write-back|write-through]. Jobs with direct=0 or ioengine=mmap go through it; the
    /// cache's settings are among those of --set. Write-back (the default): what an fsync, a sync=
    /// write or the end of the run was told is durable, the rest is in memory. Write-through: a
    /// write is over when the device has it, durable after a sync. docs/cache.md has the whole
    /// table
    #[arg(long, value_name = "SIZE")]
    pub(crate) cache: Option<String>,
    /// Folder of the logs that jobs ask for (write_bw_log= and the like), the current one unless
    /// given; a job's prefix cannot lead out of it
    #[arg(long, value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
    /// Folder from which job files may include, besides their own
    #[arg(long, value_name = "DIR")]
    pub(crate) include_dir: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// fio job files; the jobs of each file start when those of the one before are over
    #[arg(required = true, value_name = "JOB.fio")]
    pub(crate) jobs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) stack: StackArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// What is shown of a run.
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// Print the device's statistics as iostat does, each time this many seconds of the run have
    /// passed
    #[arg(long, value_name = "SECS", allow_negative_numbers = true)]
    pub(crate) iostat: Option<f64>,
    /// Write the events of every request: .ftrace text, .blktrace binary (base name of per-CPU
    /// files), .perfetto or .json
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Report as text, or in fio's JSON schema with one more object, `elevon`; `json+` adds bins
    /// and the run over time
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Normal)]
    pub(crate) output_format: OutputFormat,
    /// Also write the report as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    /// The trace: a file, any one of blktrace's per-CPU files or their base name, or - for the
    /// standard input
    #[arg(value_name = "TRACE")]
    pub(crate) input: PathBuf,
    #[command(flatten)]
    pub(crate) how: ReplayOptions,
    #[command(flatten)]
    pub(crate) stack: StackArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// How the I/O of a trace is done again.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ReplayOptions {
    /// The device or partition of the trace whose I/O is replayed. Without it, the device that has
    /// nearly all events; if there is none, they are listed
    #[arg(long, value_name = "MAJ:MIN")]
    pub(crate) dev: Option<String>,
    /// Closed loop: each process does its next I/O when as many of its I/Os have completed as had
    /// in the trace, after the time it thought then. Without it bios enter at the times of the
    /// trace, whatever the device does
    #[arg(long)]
    pub(crate) closed: bool,
    /// In a closed loop: every process that is through begins again, and ends when the time that it
    /// took in the trace has passed. Without it, and without --once, those do that probably ended
    /// because their time was over: with the trace, with another process, or after as long as
    /// another
    #[arg(long, requires = "closed", conflicts_with = "once")]
    pub(crate) time_based: bool,
    /// In a closed loop: every process does each of its I/Os once, however long that takes
    #[arg(long, requires = "closed")]
    pub(crate) once: bool,
    /// In an open loop: so many times as fast as in the trace
    #[arg(long, value_name = "X", conflicts_with = "closed", allow_negative_numbers = true)]
    pub(crate) speed: Option<f64>,
    /// Write and discard on a real device, too: destroys what it stores. Without it only reads and
    /// flushes are done there
    #[arg(long)]
    pub(crate) allow_writes: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// fio job file, or a trace: a file, any one of blktrace's per-CPU files or their base name, or
    /// - for a trace on the standard input
    #[arg(value_name = "JOB.fio|TRACE")]
    pub(crate) input: PathBuf,
    /// Of a trace
    #[command(flatten)]
    pub(crate) how: ReplayOptions,
    /// The first stack, which the others are compared with
    #[command(flatten)]
    pub(crate) stack: StackArgs,
    /// Another stack: options that replace or add to those of the first (repeatable)
    #[arg(long, value_name = "OPTIONS", required = true, allow_hyphen_values = true)]
    pub(crate) vs: Vec<String>,
    /// Report as text or as JSON: each figure with its value in every variant and the ratio to the
    /// first, and of each variant the report of `elevon run`; `json+` adds bins and the run over
    /// time to these
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Normal)]
    pub(crate) output_format: OutputFormat,
    /// Also write one self-contained page with plots
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct CalibrateArgs {
    /// A trace to fit a device to, in place of measuring one: a file, any one of blktrace's
    /// per-CPU files or their base name, or - for the standard input
    #[arg(value_name = "TRACE", conflicts_with_all = ["device", "seconds", "overwrite_data"])]
    pub(crate) input: Option<PathBuf>,
    /// The device or partition of the trace. Without it, the device that has nearly all events
    #[arg(long, value_name = "MAJ:MIN", requires = "input")]
    pub(crate) dev: Option<String>,
    /// Save what was fitted to the trace as a device for --device @FILE
    #[arg(short, long, value_name = "PROFILE", requires = "input")]
    pub(crate) output: Option<PathBuf>,
    /// Device: a profile (`elevon devices` lists them), a model with parameters, or the path of a
    /// file or block device, which is then really read
    #[arg(long, value_name = "D", default_value = "nvme-datacenter")]
    pub(crate) device: String,
    /// How long each of the six runs lasts
    #[arg(long, value_name = "N", default_value_t = 2.0, allow_negative_numbers = true)]
    pub(crate) seconds: f64,
    /// On a real path, measure writes too: they destroy the data that is stored there
    #[arg(long)]
    pub(crate) overwrite_data: bool,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Report as text or as JSON
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Normal)]
    pub(crate) output_format: OutputFormat,
}

#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// What to serve: a file or block device, a simulated device as --device of `elevon run` takes
    /// it, or a configuration, whose name ends in .toml (docs/serve.md)
    #[arg(value_name = "FILE|CONFIG.toml")]
    pub(crate) file: PathBuf,
    /// Check a configuration and the devices that it names, and end
    #[arg(long)]
    pub(crate) check: bool,
    /// Where to listen: unix:PATH or tcp:HOST:PORT; NBD's port is 10809 (repeatable)
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// Name of the export [default: the file's name]; clients that name none get it, too
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Refuse to write
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Bypass the page cache of this machine (O_DIRECT), if the file system allows it
    #[arg(long)]
    pub(crate) direct: bool,
    #[command(flatten)]
    pub(crate) queue: QueueArgs,
    /// The tenant of that file that the export's I/O is charged to
    #[arg(long, value_name = "PATH", requires = "tenants")]
    pub(crate) tenant: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct CaptureArgs {
    /// Block device: a disk, or a partition, whose disk is then recorded
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
    /// File to write, which must not exist; .gz and .zst are packed
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// How long to record. Without it, until a signal (Ctrl-C)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seconds: Option<f64>,
    /// Kernel memory of each CPU for events that have not been read yet. If events are lost, give
    /// more
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    pub(crate) buffer: String,
    /// Where tracefs is mounted [default: as /proc/self/mounts says]
    #[arg(long, value_name = "DIR")]
    pub(crate) tracefs: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// The trace: a file, any one of blktrace's per-CPU files or their base name, or - for the
    /// standard input
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// The device or partition to look at. Without it, the device that has nearly all events; if
    /// there is none, they are listed
    #[arg(long, value_name = "MAJ:MIN")]
    pub(crate) dev: Option<String>,
    /// Also write every request that completed as a row of CSV or Parquet, as the name ends: when
    /// it was queued, allocated, inserted, issued and completed, what it was, whose it was
    #[arg(long, value_name = "FILE.csv|FILE.parquet")]
    pub(crate) requests: Option<PathBuf>,
    /// Also write one self-contained page: findings, a timeline that zooms to a single request,
    /// heat maps of latency, sector and size over time
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Report as text or as JSON
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = InspectFormat::Normal)]
    pub(crate) output_format: InspectFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InspectFormat {
    /// Text for people
    Normal,
    /// JSON for programs
    Json,
}

#[derive(Args, Debug)]
pub(crate) struct AdviseArgs {
    /// The trace: a file, or any one of blktrace's per-CPU files or their base name
    #[arg(value_name = "TRACE")]
    pub(crate) input: PathBuf,
    /// The device or partition of the trace. Without it, the device that has nearly all events
    #[arg(long, value_name = "MAJ:MIN")]
    pub(crate) dev: Option<String>,
    /// What is to get better
    #[arg(long, value_name = "GOAL", value_enum, default_value_t = Goal::Balanced)]
    pub(crate) goal: Goal,
    /// Only what these processes get counts: a name, an id, or both (postgres, 4242,
    /// postgres-4242)
    #[arg(long = "for", value_name = "PROCESS")]
    pub(crate) for_process: Option<String>,
    /// Percent of its throughput that a process may lose
    #[arg(long, value_name = "PERCENT", default_value_t = 20.0, allow_negative_numbers = true)]
    pub(crate) max_loss: f64,
    /// The scheduler with tunables that the trace was captured under, unless it was recorded with
    /// the trace. Without either it is guessed
    #[arg(long, value_name = "S")]
    pub(crate) scheduler: Option<String>,
    /// A queue setting that the trace was captured under (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// The simulated device that everything is replayed on, in place of one that is fitted to the
    /// trace: a profile, a model with parameters, or @FILE. It should be the one that was traced
    #[arg(long, value_name = "D")]
    pub(crate) device: Option<String>,
    /// Kernel version whose rules are followed [default: as recorded, or 7.3]
    #[arg(long, value_name = "VERSION")]
    pub(crate) kernel: Option<String>,
    /// Name of the disk in the lines that are printed, such as sda. Without it they have its number
    #[arg(long, value_name = "DISK")]
    pub(crate) name: Option<String>,
    /// Each process ends when its I/Os are done. Without it, it repeats them for as long as it ran
    /// in the trace, so that what disturbs others goes on
    #[arg(long)]
    pub(crate) once: bool,
    /// Also what no kernel has: fill= (proposal 001), schedulers of Elevon's own
    #[arg(long)]
    pub(crate) experimental: bool,
    /// I/Os that are replayed: of a longer trace, its busiest stretch
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub(crate) ios: usize,
    /// Proposals at most
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) best: usize,
    /// Seed of every random choice of the device
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Report as text or as JSON
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = InspectFormat::Normal)]
    pub(crate) output_format: InspectFormat,
}

/// What `elevon advise` is to make better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Goal {
    /// Throughput, median and 99th percentile of every process alike
    Balanced,
    /// The 99th percentile of latency
    P99,
    /// The median of latency
    P50,
    /// Bytes a second
    Throughput,
    /// The speed of the process that is slowed down most
    Fair,
}

impl Goal {
    /// Its name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::P99 => "p99",
            Self::P50 => "p50",
            Self::Throughput => "throughput",
            Self::Fair => "fair",
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct ReproduceArgs {
    /// Which experiment; without a name they are listed
    pub(crate) name: Option<String>,
    /// Also write the figures as one self-contained page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// At the published sizes where an experiment is scaled down otherwise: content-ioprio, for a
    /// quarter of an hour
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Args, Debug)]
pub(crate) struct KernelsArgs {
    /// A version, such as 6.12 or what `uname -r` prints
    #[arg(value_name = "VERSION")]
    pub(crate) from: Option<String>,
    /// A second one, to be compared with the first
    #[arg(value_name = "VERSION")]
    pub(crate) to: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DevicesArgs {
    /// Which one; without a name they are listed
    pub(crate) name: Option<String>,
    /// Show the attributes of its queue, as /sys/block/X/queue/ has them under this kernel version
    #[arg(long, value_name = "VERSION", requires = "name")]
    pub(crate) kernel: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct NameArgs {
    /// Which one; without a name they are listed
    pub(crate) name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Text for people
    Normal,
    /// JSON for programs
    Json,
    /// The same with every histogram's bins and the run over time
    #[value(name = "json+")]
    JsonPlus,
}

impl OutputFormat {
    /// Returns true if stdout gets JSON.
    pub(crate) const fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::JsonPlus)
    }
}

/// Options of a `--vs`, by themselves.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct VsCli {
    #[command(flatten)]
    stack: StackArgs,
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
            cpu_cost: None,
            memory: None,
            cache: None,
            log_dir: None,
            include_dir: None,
        }
    }

    /// Parses a text of options over the defaults.
    pub(crate) fn of_text(text: &str) -> Result<Self, VsError> {
        let parsed = VsCli::try_parse_from(split_words(text)?)
            .map_err(|error| VsError::Option { text: text.to_owned(), error: one_line(&error) })?;
        Ok(parsed.stack)
    }

    /// Returns these options with those of a `--vs` text. A scalar in the text replaces the value
    /// here; `--job-option`, `--set` and `--fault` are added.
    pub(crate) fn with(&self, text: &str) -> Result<Self, VsError> {
        let words = split_words(text)?;
        if words.is_empty() {
            return Err(VsError::Empty(text.to_owned()));
        }
        let given = |name: &str| words.iter().any(|w| w == name || w.starts_with(&format!("{name}=")));
        let new = Self::of_text(text)?;
        let mut all = self.clone();
        if given("--device") {
            all.device = new.device;
        }
        all.queue.scheduler = new.queue.scheduler.or(all.queue.scheduler);
        all.queue.kernel = new.queue.kernel.or(all.queue.kernel);
        if given("--seed") {
            all.seed = new.seed;
        }
        if given("--memory") {
            all.memory = new.memory;
        }
        if given("--cache") {
            all.cache = new.cache;
        }
        all.buffers = new.buffers.or(all.buffers);
        all.cpu_cost = new.cpu_cost.or(all.cpu_cost);
        all.queue.tenants = new.queue.tenants.or(all.queue.tenants);
        all.log_dir = new.log_dir.or(all.log_dir);
        all.job_option.extend(new.job_option);
        all.queue.set.extend(new.queue.set);
        all.queue.fault.extend(new.queue.fault);
        Ok(all)
    }
}

/// Converts an error of clap to one line: what is wrong and, if clap knows it, what would be right.
pub(crate) fn one_line(error: &clap::Error) -> UsageError {
    let text = error.to_string();
    let said = text.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let words: Vec<&str> = said.map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = words.join(" ").trim_start_matches("error: ").replace(" tip: ", "; ");
    UsageError { kind: error.kind(), line }
}

/// Splits words as a shell does.
fn split_words(text: &str) -> Result<Vec<String>, VsError> {
    shlex::split(text).ok_or_else(|| VsError::Quote(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_of_the_fuzzer_holds() {
        crate::corpus::each("vs", 8, 1, b"-='\n", check::vs);
    }

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
