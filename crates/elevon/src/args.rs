//! The command line as typed. The module `plan` makes a checked run of it.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use elevon_whatif::advise::Goal;
use elevon_whatif::replay::ReplayOptions;
use elevon_whatif::select::SelectOptions;

mod about;
mod server;
mod stack;
mod twin;
mod usage;
mod watch;

pub(crate) use server::{CtlArgs, CtlCommand, LogFormat, LogLevel, ServeArgs, TopArgs};
use stack::{OfJobs, OfSimulation, OfTrace, StackArgs};
pub(crate) use twin::{TwinArgs, TwinCommand, TwinCompareArgs, TwinMachineArgs, TwinRunArgs};
pub(crate) use usage::one_line;
pub(crate) use watch::{By, LISTEN_PLACE, WatchArgs};

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
    #[command(after_help = about::RUN_EXAMPLES)]
    Run(RunArgs),
    /// Run one job file, or replay one trace, under several stacks and put them side by side
    #[command(long_about = about::COMPARE_ABOUT, after_help = about::COMPARE_EXAMPLES)]
    Compare(CompareArgs),
    /// Run one job file under many options, settings and seeds, on all cores: a table of results,
    /// intervals, curves
    #[command(long_about = about::SWEEP_ABOUT, after_help = about::SWEEP_EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Sweep(SweepArgs),
    /// Search for the options under which a job does best, within bounds
    #[command(long_about = about::TUNE_ABOUT, after_help = about::TUNE_EXAMPLES)]
    Tune(TuneArgs),
    /// Measure a device and print what io.cost.model wants to know of it, or fit one to a trace
    #[command(long_about = about::CALIBRATE_ABOUT, after_help = about::CALIBRATE_EXAMPLES)]
    Calibrate(CalibrateArgs),
    /// Say what a trace of block events shows: problems first, then latency by stage, processes,
    /// depth, utilisation
    #[command(long_about = about::INSPECT_ABOUT, after_help = about::INSPECT_EXAMPLES)]
    Inspect(InspectArgs),
    /// Write the events of a trace in another format: ftrace text, blktrace, Perfetto, fio's iolog,
    /// CSV, Parquet
    #[command(long_about = about::CONVERT_ABOUT, after_help = about::CONVERT_EXAMPLES)]
    Convert(ConvertArgs),
    /// Record the block events of a device, with its settings, for inspect, calibrate and replay
    #[command(long_about = about::CAPTURE_ABOUT, after_help = about::CAPTURE_EXAMPLES)]
    Capture(CaptureArgs),
    /// Watch what disks do now: who, how fast, how long it waits, and what would help
    #[command(long_about = watch::WATCH_ABOUT, after_help = watch::WATCH_EXAMPLES)]
    Watch(WatchArgs),
    /// Serve disks over NBD, each with the limits and weight of its tenant, through a scheduler
    #[command(after_help = about::SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Ask a server that runs, and change it: tenants, limits, exports, why a rate is what it is
    #[command(after_help = server::CTL_EXAMPLES)]
    Ctl(CtlArgs),
    /// Watch the tenants of a server that runs: rates, latency, utilisation, and what holds them
    #[command(after_help = server::TOP_EXAMPLES)]
    Top(TopArgs),
    /// Do the I/O of a trace again, under any device, scheduler, kernel and settings
    #[command(long_about = about::REPLAY_ABOUT, after_help = about::REPLAY_EXAMPLES, mut_args(stack::hidden_of_jobs))]
    Replay(ReplayArgs),
    /// Search for a scheduler, queue limits and priorities that serve a trace's processes better
    #[command(long_about = about::ADVISE_ABOUT, after_help = about::ADVISE_EXAMPLES, mut_args(stack::hidden_of_jobs))]
    Advise(AdviseArgs),
    /// Repeat a published experiment: the figures then and ours, and why they differ
    #[command(long_about = about::REPRODUCE_ABOUT, after_help = about::REPRODUCE_EXAMPLES)]
    Reproduce(ReproduceArgs),
    /// Run a program in a real Linux kernel, in virtual time, on a simulated disk
    #[command(long_about = twin::TWIN_ABOUT, after_help = twin::TWIN_EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Twin(TwinArgs),
    /// List the simulated devices, or show one: parameters, sources, predictions beside what the
    /// model does; or the attributes of its queue under a kernel
    #[command(after_help = about::DEVICES_EXAMPLES)]
    Devices(DevicesArgs),
    /// List the faults that a simulated device can be given, or show one: keys, units, defaults
    #[command(after_help = about::FAULTS_EXAMPLES)]
    Faults(NameArgs),
    /// List the I/O schedulers and queue settings, or show one scheduler with its tunables
    #[command(after_help = about::SCHEDULERS_EXAMPLES)]
    Schedulers(NameArgs),
    /// List the formats of traces that are read, or show one with what its events lack
    #[command(after_help = about::FORMATS_EXAMPLES)]
    Formats(NameArgs),
    /// List the kernel versions, show the rules of one, or what differs between two for I/O
    #[command(after_help = about::KERNELS_EXAMPLES)]
    Kernels(KernelsArgs),
    /// Print what completes this command's words in a shell
    #[command(after_help = about::COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Write the manual pages, one for each command, into a folder
    #[command(after_help = about::MAN_EXAMPLES)]
    Man(ManArgs),
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// fio job files; the jobs of each file start when those of the one before have finished
    #[arg(required = true, value_name = "JOB.fio")]
    pub(crate) jobs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) stack: StackArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Form of the records of a `--trace NAME.blktrace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Blktrace {
    /// 48 bytes a record
    #[value(name = "7")]
    Version7,
    /// 64 bytes a record
    #[value(name = "8")]
    Version8,
    /// Version 7, and parts of bios are queued
    Btt,
}

/// What is shown of a run.
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// Print the device's statistics as iostat does, each time this many seconds of the run have
    /// passed
    #[arg(long, value_name = "SECS", allow_negative_numbers = true)]
    pub(crate) iostat: Option<f64>,
    /// Write the events of every request: .ftrace text, .blktrace binary (base name of per-CPU
    /// files), .perfetto-trace, .iolog, .csv, .parquet; .perfetto or .json, timelines to look at
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Form of a .blktrace: version 7, which blkparse 1.2 reads; version 8, of Linux 6.19 and
    /// later; or for btt: version 7 with a Q for each part of a split bio, without which btt has
    /// no D2C of it [default: 7]
    #[arg(long, value_name = "FORM", value_enum)]
    pub(crate) blktrace: Option<Blktrace>,
    /// Report as text, or in fio's JSON schema with one more object, `elevon`; `json+` adds bins
    /// and the run over time
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Normal)]
    pub(crate) output_format: OutputFormat,
    /// Also write the report as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// After a run of aileron in simulation, do not run each job alone as well: without that, the
    /// report does not say what each job has of its slice, and why
    #[arg(long)]
    pub(crate) no_slices: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    /// The trace: a file, any one of blktrace's per-CPU files or their base name, or - for the
    /// standard input
    #[arg(value_name = "TRACE")]
    pub(crate) input: PathBuf,
    #[command(flatten)]
    pub(crate) how: ReplayHowArgs,
    /// The options of jobs are hidden: they are taken to be refused with a reason.
    #[command(flatten)]
    pub(crate) stack: StackArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// How the I/O of a trace is done again.
#[derive(Args, Debug)]
pub(crate) struct ReplayHowArgs {
    /// The device or partition of the trace whose I/O is replayed, by its numbers or by the name
    /// that the trace has of it. Without it, the device that has
    /// nearly all events; if there is none, they are listed
    #[arg(long, value_name = "MAJ:MIN|NAME")]
    pub(crate) dev: Option<String>,
    /// Closed loop: each process does its next I/O when as many of its I/Os have completed as had
    /// in the trace, after the time it thought then. Without it bios enter at the times of the
    /// trace, whatever the device does
    #[arg(long)]
    pub(crate) closed: bool,
    /// In a closed loop: every process that is through begins again, and ends when the time that
    /// it took in the trace has passed. Without it, and without --once, those do that probably
    /// ended because their time was over: with the trace, with another process, or after as
    /// long as another
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
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) ioprio: StackArgs<OfTrace>,
}

impl ReplayHowArgs {
    pub(crate) fn options(&self) -> ReplayOptions {
        let Self { dev, closed, time_based, once, speed, allow_writes, select, ioprio: _ } = self;
        ReplayOptions {
            dev: dev.clone(),
            closed: *closed,
            time_based: *time_based,
            once: *once,
            speed: *speed,
            allow_writes: *allow_writes,
            select: select.options(),
        }
    }
}

/// The part of a trace that is taken.
#[derive(Args, Debug)]
pub(crate) struct SelectArgs {
    /// Only I/O from this time on, since the first event of the device, such as 2s or 350ms
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Only I/O before this time, since the first event of the device
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only I/O of this process: a name, an id, or both (postgres, 4242, postgres-4242;
    /// repeatable)
    #[arg(long = "process", value_name = "PROCESS")]
    pub(crate) processes: Vec<String>,
    /// Only I/O of this cgroup, where a trace has cgroups: the id that events have, or the folder
    /// of a cgroup of this machine, which has that number (repeatable)
    #[arg(long = "cgroup", value_name = "ID|PATH")]
    pub(crate) cgroups: Vec<String>,
}

impl SelectArgs {
    pub(crate) fn options(&self) -> SelectOptions {
        let Self { from, until, processes, cgroups } = self;
        SelectOptions {
            from: from.clone(),
            until: until.clone(),
            processes: processes.clone(),
            cgroups: cgroups.clone(),
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// fio job file, or a trace: a file, any one of blktrace's per-CPU files or their base name,
    /// or
    /// - for a trace on the standard input
    #[arg(value_name = "JOB.fio|TRACE")]
    pub(crate) input: PathBuf,
    /// Of a trace
    #[command(flatten)]
    pub(crate) how: ReplayHowArgs,
    /// The first stack, which the others are compared with
    #[command(flatten)]
    pub(crate) stack: StackArgs,
    /// Another stack: options that replace or add to those of the first (repeatable)
    #[arg(long, value_name = "OPTIONS", required = true, allow_hyphen_values = true)]
    pub(crate) vs: Vec<String>,
    /// Run every stack with the seeds 1 to N, on all cores: means with 95 % intervals, and the
    /// differences to the first stack in pairs of the same seed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=100_000))]
    pub(crate) seeds: Option<u64>,
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
pub(crate) struct SweepArgs {
    #[command(subcommand)]
    pub(crate) command: Option<SweepCommand>,
    #[command(flatten)]
    pub(crate) run: SweepRunArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SweepCommand {
    /// Put the shards of a sweep together: the results are those of one machine
    Merge(MergeArgs),
}

#[derive(Args, Debug)]
pub(crate) struct SweepRunArgs {
    /// fio job file, or a plan in TOML, which names one
    #[arg(value_name = "JOB.fio|PLAN.toml", required = true)]
    pub(crate) input: Option<PathBuf>,
    /// What varies (repeatable)
    #[arg(long, value_name = "KEY=VALUES")]
    pub(crate) over: Vec<String>,
    /// Run every point with the seeds 1 to N, or with those of a list, as 3,5,9 [default: --seed]
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<String>,
    /// A sample of the points in place of all: a Latin hypercube, or Sobol's sequence
    #[arg(long, value_name = "latin:N|sobol:N")]
    pub(crate) sample: Option<String>,
    /// Also the difference of every other value of this axis to this one, in pairs of runs that
    /// have the same seed and are otherwise equal
    #[arg(long, value_name = "AXIS=VALUE")]
    pub(crate) compare: Option<String>,
    /// Do only the I-th of N parts of the runs; `elevon sweep merge` puts the parts together
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<String>,
    /// Runs at a time [default: one on each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Folder of the results [default: the job file's name with .sweep]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Print the summary as text or as JSON
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = TextOrJson::Normal)]
    pub(crate) output_format: TextOrJson,
    #[command(flatten)]
    pub(crate) stack: StackArgs<OfSimulation>,
}

#[derive(Args, Debug)]
pub(crate) struct TuneArgs {
    /// fio job file
    #[arg(value_name = "JOB.fio")]
    pub(crate) input: PathBuf,
    /// What may be chosen, as of `elevon sweep` (repeatable)
    #[arg(long, value_name = "KEY=VALUES", required = true)]
    pub(crate) over: Vec<String>,
    /// A figure that is to be large (one or two goals in all)
    #[arg(long, alias = "maximize", value_name = "[JOB:]FIGURE")]
    pub(crate) maximise: Vec<String>,
    /// A figure that is to be small
    #[arg(long, alias = "minimize", value_name = "[JOB:]FIGURE")]
    pub(crate) minimise: Vec<String>,
    /// A bound that the result has to keep, such as 'p99<2ms' or 'reader:iops>1000' (repeatable)
    #[arg(long, value_name = "BOUND")]
    pub(crate) subject_to: Vec<String>,
    /// Points to try
    #[arg(long, value_name = "N", default_value_t = 96, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) trials: u16,
    /// Run every trial with the seeds 1 to N, or with those of a list, as 3,5,9 [default: --seed
    /// and the next two]; the best run again with ten other seeds
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<String>,
    /// Report as text or as JSON
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = TextOrJson::Normal)]
    pub(crate) output_format: TextOrJson,
    /// Also write one self-contained page with the trade-off drawn
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) stack: StackArgs<OfSimulation>,
}

#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// The folder; it is created if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct MergeArgs {
    /// Folders that hold the shards
    #[arg(required = true, value_name = "DIR")]
    pub(crate) folders: Vec<PathBuf>,
    /// Folder of the results [default: the first DIR]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Print the summary as text or as JSON
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = TextOrJson::Normal)]
    pub(crate) output_format: TextOrJson,
}

#[derive(Args, Debug)]
pub(crate) struct CalibrateArgs {
    /// A trace to fit a device to, in place of measuring one: a file, any one of blktrace's
    /// per-CPU files or their base name, or - for the standard input
    #[arg(value_name = "TRACE", conflicts_with_all = ["device", "seconds", "overwrite_data"])]
    pub(crate) input: Option<PathBuf>,
    /// The device or partition of the trace, by its numbers or by the name that the trace has of
    /// it. Without it, the device that has nearly all events
    #[arg(long, value_name = "MAJ:MIN|NAME", requires = "input")]
    pub(crate) dev: Option<String>,
    /// Change the parameters of this flash profile until it is like the trace's device; any: of
    /// the profile that is nearest; slots: fit servers [default: slots, or any if that comes
    /// nearer]
    #[arg(long, value_name = "PROFILE", requires = "input")]
    pub(crate) like: Option<String>,
    /// Save what was fitted to the trace as a device for --device @FILE
    #[arg(short, long, value_name = "FILE", requires = "input")]
    pub(crate) output: Option<PathBuf>,
    /// Device: a profile (`elevon devices` lists them), a model with parameters, or the path of a
    /// file or block device, which is then really read
    #[arg(long, value_name = "D", default_value = "nvme-datacenter", value_parser = usage::utf8())]
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
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = TextOrJson::Normal)]
    pub(crate) output_format: TextOrJson,
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
    /// The device or partition to look at, by its numbers or by the name that the trace has of it.
    /// Without it, the device that has nearly all events; if there is none, they are listed
    #[arg(long, value_name = "MAJ:MIN|NAME")]
    pub(crate) dev: Option<String>,
    /// Also write every request that completed as a row of CSV or Parquet, as the name ends: its
    /// times, operation, place, size and process
    #[arg(long, value_name = "FILE.csv|FILE.parquet")]
    pub(crate) requests: Option<PathBuf>,
    /// Also write one self-contained page: findings, a timeline that zooms to a single request,
    /// heat maps of latency, sector and size over time
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Report as text or as JSON
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = TextOrJson::Normal)]
    pub(crate) output_format: TextOrJson,
}

#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// The trace: a file, any one of blktrace's per-CPU files or their base name, or - for the
    /// standard input
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// Where the events go. The extension says how: .ftrace, .blktrace (one file for each CPU),
    /// .perfetto-trace, .iolog, .csv, .parquet; .perfetto and .json are timelines to look at
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// Only the events of this device, given by its numbers or its name in the trace, and those
    /// that name none: plugs and gaps
    #[arg(long, value_name = "MAJ:MIN|NAME")]
    pub(crate) dev: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOrJson {
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
    /// The device or partition of the trace, by its numbers or by the name that the trace has of
    /// it. Without it, the device that has nearly all events
    #[arg(long, value_name = "MAJ:MIN|NAME")]
    pub(crate) dev: Option<String>,
    /// What is to get better
    #[arg(long, value_name = "GOAL", value_parser = goal(), default_value = Goal::Balanced.name())]
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
    /// I/O priority that a process had when the trace was captured, where the trace does not have
    /// it; the search begins there. PROCESS as for --for (repeatable)
    #[arg(long, value_name = "PROCESS=idle|be:0..7|rt:0..7")]
    pub(crate) ioprio: Vec<String>,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// The options of jobs are hidden: they are taken to be refused with a reason.
    #[command(flatten)]
    pub(crate) of_jobs: StackArgs<OfJobs>,
    /// The simulated device that everything is replayed on, in place of one that is fitted to the
    /// trace: a profile, a model with parameters, or @FILE. It should be the one that was traced
    #[arg(long, value_name = "D")]
    pub(crate) device: Option<String>,
    /// Kernel version whose rules are followed [default: as recorded, or 7.3]
    #[arg(long, value_name = "VERSION")]
    pub(crate) kernel: Option<String>,
    /// Name of the disk in the lines that are printed, such as sda. Without it they have its
    /// number
    #[arg(long, value_name = "DISK")]
    pub(crate) name: Option<String>,
    /// Each process ends when its I/Os are done. Without it, it repeats them for as long as it ran
    /// in the trace, so that what disturbs others goes on
    #[arg(long)]
    pub(crate) once: bool,
    /// Also what no kernel has: fill= (proposal 001), schedulers of Elevon's own
    #[arg(long)]
    pub(crate) experimental: bool,
    /// I/Os that are replayed: of a longer trace, its busiest stretch, or with --for the stretch
    /// where these processes meet others most
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub(crate) ios: usize,
    /// Proposals at most
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) best: usize,
    /// Seed of every random choice of the device
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Report as text or as JSON
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = TextOrJson::Normal)]
    pub(crate) output_format: TextOrJson,
}

/// Takes the name of a goal.
fn goal() -> impl TypedValueParser<Value = Goal> {
    let names = Goal::ALL.map(|goal| PossibleValue::new(goal.name()).help(goal.about()));
    PossibleValuesParser::new(names).map(|name| {
        Goal::ALL.into_iter().find(|goal| goal.name() == name).unwrap_or(Goal::Balanced)
    })
}

#[derive(Args, Debug)]
pub(crate) struct ReproduceArgs {
    /// Which experiment, or the file of one of your own; without a name they are listed
    #[arg(value_name = "NAME|FILE.toml")]
    pub(crate) name: Option<String>,
    /// Also write the figures as one self-contained page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// At the published sizes where an experiment is scaled down otherwise: content-ioprio, which
    /// takes minutes as it is, and then a quarter of an hour. Of a file: with the parameters of
    /// its [full]
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Args, Debug)]
pub(crate) struct KernelsArgs {
    /// A version, such as 6.12 or what `uname -r` prints
    #[arg(value_name = "FROM")]
    pub(crate) from: Option<String>,
    /// A second one, to be compared with the first
    #[arg(value_name = "TO")]
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
