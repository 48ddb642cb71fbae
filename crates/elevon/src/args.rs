//! The command line as it was typed; `plan` makes a checked run of it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::failure::VsError;

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
    /// Run one job file under several stacks and put them side by side
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),
    /// Measure a device and print what io.cost.model wants to know of it, or fit one to a trace
    #[command(long_about = CALIBRATE_ABOUT, after_help = CALIBRATE_EXAMPLES)]
    Calibrate(CalibrateArgs),
    /// Say what a trace of block events shows: problems first, then latency by stage, processes,
    /// depth, utilisation
    #[command(long_about = INSPECT_ABOUT, after_help = INSPECT_EXAMPLES)]
    Inspect(InspectArgs),
    /// Do the I/O of a trace again, under any device, scheduler, kernel and settings
    #[command(long_about = REPLAY_ABOUT, after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Repeat a published experiment: the figures then and ours, and why they differ
    Reproduce(ReproduceArgs),
    /// List the simulated devices, or show one: parameters, sources, predictions beside what the
    /// model does
    Devices(NameArgs),
    /// List the faults that a simulated device can be given, or show one: keys, units, defaults
    Faults(NameArgs),
    /// List the I/O schedulers and queue settings, or show one scheduler with its tunables
    Schedulers(NameArgs),
}

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

const COMPARE_EXAMPLES: &str = "\
Examples:
  elevon compare job.fio --vs '--scheduler mq-deadline' --vs '--set fill=max-sectors'
  elevon compare job.fio --device ufs-4.0 --vs '--kernel 6.1' --html compare.html

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

/// What decides how I/O travels: device, kernel, scheduler, settings.
#[derive(Args, Clone, Debug)]
pub(crate) struct StackArgs {
    /// Device: a profile (`elevon devices` lists them), a model with parameters, @FILE for a
    /// description of a device of your own in TOML (docs/devices.md), or the path of a file or
    /// block device, which is then really read and written. Paths without a slash must exist
    #[arg(long, value_name = "D", default_value = "nvme-datacenter")]
    pub(crate) device: String,
    /// I/O scheduler with tunables: NAME[:tunable=value,...]; the kernel's default for the device
    /// is not applied
    #[arg(long, value_name = "S", default_value = "none")]
    pub(crate) scheduler: String,
    /// Kernel version whose rules are followed: 6.1, 6.6, 6.12 or 6.18. A stable release such as
    /// 6.1.55 is read as its version
    #[arg(long, value_name = "VERSION", default_value = "6.18")]
    pub(crate) kernel: String,
    /// Queue setting by its sysfs name, a variant (fill=, io_ticks=, hz=) or a setting of the page
    /// cache; `elevon schedulers` lists them (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
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
    /// Fault of a simulated device, such as error:sectors=1000-2000,status=medium; `elevon faults`
    /// lists kinds, keys and defaults (repeatable)
    #[arg(long, value_name = "FAULT")]
    pub(crate) fault: Vec<String>,
    /// Limits, weights and priority classes of tenants (the cgroups that jobs name with cgroup=),
    /// and changes of them during the run: TOML, with the kernel's file names or knobs of our own;
    /// docs/tenants.md describes it
    #[arg(long, value_name = "FILE")]
    pub(crate) tenants: Option<PathBuf>,
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
    /// In a closed loop: a process that is through begins again, and ends when the time
    /// that it took in the trace has passed
    #[arg(long, requires = "closed")]
    pub(crate) time_based: bool,
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
    /// fio job file
    #[arg(value_name = "JOB.fio")]
    pub(crate) job: PathBuf,
    /// The first stack, which the others are compared with
    #[command(flatten)]
    pub(crate) stack: StackArgs,
    /// Another stack: options that replace or add to those of the first (repeatable)
    #[arg(long, value_name = "OPTIONS", required = true, allow_hyphen_values = true)]
    pub(crate) vs: Vec<String>,
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
    /// Whether stdout is for programs.
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
    /// The options of a text over the defaults.
    pub(crate) fn of_text(text: &str) -> Result<Self, VsError> {
        let parsed = VsCli::try_parse_from(split_words(text)?)
            .map_err(|error| VsError::Option { text: text.to_owned(), line: one_line(&error) })?;
        Ok(parsed.stack)
    }

    /// These options with those of a `--vs` text in place of or beside them. A scalar that the text
    /// gives replaces; `--set` and `--fault` are added.
    pub(crate) fn with(&self, text: &str) -> Result<Self, VsError> {
        let words = split_words(text)?;
        if words.is_empty() {
            return Err(VsError::Empty(text.to_owned()));
        }
        let given = |name: &str| words.iter().any(|w| w == name || w.starts_with(&format!("{name}=")));
        let new = Self::of_text(text)?;
        let mut all = self.clone();
        for (name, from, to) in [
            ("--device", &new.device, &mut all.device),
            ("--scheduler", &new.scheduler, &mut all.scheduler),
            ("--kernel", &new.kernel, &mut all.kernel),
        ] {
            if given(name) {
                to.clone_from(from);
            }
        }
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
        all.tenants = new.tenants.or(all.tenants);
        all.log_dir = new.log_dir.or(all.log_dir);
        all.set.extend(new.set);
        all.fault.extend(new.fault);
        Ok(all)
    }
}

/// An error of clap in one line: what is wrong and, where it knows, what would be right.
pub(crate) fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let said = text.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let words: Vec<&str> = said.map(str::trim).filter(|line| !line.is_empty()).collect();
    words.join(" ").trim_start_matches("error: ").replace(" tip: ", "; ")
}

/// Words as a shell splits them.
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
        assert_eq!((vs.device.as_str(), vs.scheduler.as_str()), ("hdd-7200", "mq-deadline:fifo_batch=1"));
        assert_eq!((vs.set, vs.tenants), (vec!["hz=1000".to_owned(), "fill=trim".to_owned()], None));
        let limited = base().with("--tenants a.toml").expect("good options");
        assert_eq!(limited.tenants.as_deref(), Some(std::path::Path::new("a.toml")));
        assert_eq!(limited.with("--tenants b.toml").map(|vs| vs.tenants), Ok(Some("b.toml".into())));
        assert_eq!(limited.with("--kernel 6.1").map(|vs| vs.tenants), Ok(Some("a.toml".into())));
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
