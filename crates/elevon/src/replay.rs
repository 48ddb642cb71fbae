//! `elevon replay`: the I/O of a trace under another stack.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::op::{Flags, Op};
use elevon_core::units::{Bytes, LayoutId, Nanos, Sector, TaskId};
use elevon_formats::fio::ParsedJobs;
use elevon_formats::fio::spec::{BlockSizes, Engine, JobSpec, Rw};
use elevon_sim::device::Description;
use elevon_trace::replay::{After, Workload, WorkloadIo, WorkloadProcess, WorkloadReadError};
use elevon_trace::{Device, OpenError, Reader};
use elevon_workload::jobs::Jobs;
use elevon_workload::replay::{Fitted, ReplayIo, Replayed, Script};

use crate::args::{ReplayArgs, ReplayOptions, StackArgs};
use crate::bar::Bar;
use crate::failure::{Ending, Failure};
use crate::plan::{Plan, Target};
use crate::run::run_plan;
use crate::source::STDIN;

/// Slots of a process of a trace: in simulation they cost nothing, before a real device each has a
/// buffer.
const SIMULATED_SLOTS: usize = 1 << 20;
const REAL_SLOTS: usize = 256;
/// Bytes of buffers that the processes of a trace have together before a real device, about.
const REAL_BUFFERS: u64 = 256 << 20;

/// Speeds that are accepted.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

pub(crate) fn replay(args: &ReplayArgs) -> Result<Ending, Failure> {
    let replay = Replay::read(&args.input, &args.how, &args.stack)?;
    let plan = Plan::of_replay(replay, &args.stack)?;
    run_plan(&plan, &args.input.display().to_string(), &args.report)
}

/// A trace that will be replayed.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    path: PathBuf,
    how: ReplayOptions,
    workload: Arc<Workload>,
    scripts: Vec<Script>,
    specs: Vec<JobSpec>,
    /// Writes that are not done, since nothing may be written there.
    refused: u64,
}

impl Replay {
    /// Reads a trace for a replay onto the device of these options.
    pub(crate) fn read(path: &Path, how: &ReplayOptions, stack: &StackArgs) -> Result<Self, Failure> {
        let speed = how.speed.unwrap_or(1.0);
        if !SPEEDS.contains(&speed) {
            let (low, high) = SPEEDS.into_inner();
            return Err(Failure::input(format!("--speed {speed}: expected a number from {low} to {high}")));
        }
        let workload = read_workload(path, how.dev.as_deref())?;
        let replay = Self::new(path, how, Arc::new(workload));
        replay.onto(stack)
    }

    fn new(path: &Path, how: &ReplayOptions, workload: Arc<Workload>) -> Self {
        let path = path.to_owned();
        Self { path, how: how.clone(), workload, scripts: Vec::new(), specs: Vec::new(), refused: 0 }
    }

    /// The same trace onto the device of other options.
    pub(crate) fn onto(&self, stack: &StackArgs) -> Result<Self, Failure> {
        let device = &stack.device;
        let is_real = !device.starts_with('@') && matches!(crate::plan::target(device)?, Target::Real(_));
        if is_real && self.how.closed && self.how.time_based && self.how.allow_writes {
            return Err(Failure::input(
                "--time-based --allow-writes: writes of a trace are repeated on a simulated device only".to_owned(),
            ));
        }
        let mut new = Self::new(&self.path, &self.how, Arc::clone(&self.workload));
        new.scripts = scripts(&self.workload, &self.how);
        if is_real && !self.how.allow_writes {
            new.refused = new.scripts.iter_mut().map(Script::refuse_writes).sum();
        }
        new.specs =
            self.workload.processes.iter().zip(&new.scripts).map(|(p, script)| spec(&self.path, p, script)).collect();
        Ok(new)
    }

    /// Refuses options that have nothing to act on.
    pub(crate) fn check(&self, args: &StackArgs) -> Result<(), Failure> {
        let cache = "the bios of a trace are below the page cache";
        for (option, value, why) in [
            ("--cpu-cost", &args.cpu_cost, "the times of a trace have the CPU time in them"),
            ("--memory", &args.memory, cache),
            ("--cache", &args.cache, cache),
        ] {
            if let Some(value) = value {
                return Err(Failure::input(format!("{option} {value}: {why}, so a replay takes none")));
            }
        }
        Ok(())
    }

    /// The processes as jobs that describe them.
    pub(crate) fn described(&self) -> ParsedJobs {
        ParsedJobs::of_specs(self.specs.clone())
    }

    /// The trace and how it is replayed, as a command line has them.
    pub(crate) fn words(&self) -> Vec<String> {
        let how = &self.how;
        let mut words = vec![self.path.to_string_lossy().into_owned()];
        words.extend(how.dev.iter().flat_map(|dev| ["--dev".to_owned(), dev.clone()]));
        words.extend(how.speed.iter().flat_map(|speed| ["--speed".to_owned(), speed.to_string()]));
        for (is_given, word) in
            [(how.closed, "--closed"), (how.time_based, "--time-based"), (how.allow_writes, "--allow-writes")]
        {
            words.extend(is_given.then(|| word.to_owned()));
        }
        words
    }

    /// The files that were read.
    pub(crate) fn inputs(&self) -> Vec<(String, PathBuf)> {
        let of_stdin = (self.path == Path::new(STDIN)).then(|| PathBuf::from("/dev/stdin"));
        let files = self.workload.report.files.iter().map(PathBuf::from);
        let files = of_stdin.map_or_else(|| files.collect(), |stdin| vec![stdin]);
        files.into_iter().map(|path| (path.display().to_string(), path)).collect()
    }

    /// How it is replayed, in a few words.
    pub(crate) fn loop_words(&self) -> String {
        let from = self.workload.taken.name();
        match (self.how.closed, self.how.time_based, self.how.speed) {
            (true, false, _) => format!("closed loop, from {from}"),
            (true, true, _) => format!("closed loop, for the time of the trace, from {from}"),
            (false, _, None) => format!("open loop, from {from}"),
            (false, _, Some(speed)) => format!("open loop at {speed} times the speed, from {from}"),
        }
    }

    /// What the user should know of the trace.
    pub(crate) fn said(&self) -> Vec<String> {
        let Workload { device, taken, left_out, report, .. } = &*self.workload;
        let name = self.path.display();
        let mut lines = Vec::new();
        if *taken == elevon_trace::replay::Taken::Issued {
            lines.push(format!(
                "{name}: has no queue events: requests are replayed as they were issued, after the splits and merges of the \
                 machine that was traced"
            ));
        }
        let all: u64 = report.devices.iter().map(|&(_, events)| events).sum();
        if self.how.dev.is_none() && report.devices.len() > 1 {
            let own = report.devices.iter().find(|(of, _)| of == device).map_or(0, |&(_, events)| events);
            let others = all - own;
            lines.push(format!("{name}: device {device} is taken; {others} of {all} events are of others"));
        }
        if report.gap_count > 0 {
            let lost = if report.lost > 0 { format!("{} events", report.lost) } else { "events".to_owned() };
            lines.push(format!(
                "{name}: {lost} were lost in {} gap(s): what happened there is not replayed, and the time is kept",
                report.gap_count
            ));
        }
        if *left_out > 0 {
            lines.push(format!(
                "{name}: {left_out} I/Os are of operations that the stack does not have; they are left out"
            ));
        }
        if report.skipped_count() > 0 {
            let first = &report.skipped[0];
            lines.push(format!(
                "{name}: {} damaged lines or records were skipped, the first at {}: expected {}",
                report.skipped_count(),
                first.first.at,
                first.reason
            ));
        }
        if self.refused > 0 {
            lines.push(format!(
                "{} writes and discards are refused: the device is real, and only --allow-writes lets a replay change it",
                self.refused
            ));
        }
        lines
    }

    /// The processes, fitted to the device, and what is to be said of that.
    pub(crate) fn jobs(
        &self,
        plan: &Plan,
        device: &Description,
        block: u64,
        layouts: &mut dyn FnMut(TaskId, u32, u64) -> LayoutId,
    ) -> (Jobs<Replayed>, Vec<String>) {
        let mut scripts = self.scripts.clone();
        let mut all = Fitted::default();
        for script in &mut scripts {
            let fitted = script.fit(device.size.bytes().get(), block);
            all.moved += fitted.moved;
            all.widened += fitted.widened;
            all.shortened += fitted.shortened;
        }
        let mut lines = Vec::new();
        for (count, what) in [
            (all.moved, "lay beyond the end of the device, and were moved to their place modulo its size"),
            (all.widened, "were widened to whole logical blocks of the device"),
            (all.shortened, "were larger than the device, and were shortened"),
        ] {
            if count > 0 {
                lines.push(format!("{count} I/Os {what}"));
            }
        }
        let slots = if plan.is_real() { real_slots(&scripts) } else { SIMULATED_SLOTS };
        (Jobs::of_trace(&self.specs, scripts, slots, layouts), lines)
    }
}

fn real_slots(scripts: &[Script]) -> usize {
    let bytes: u64 = scripts.iter().map(Script::largest).sum();
    ((REAL_BUFFERS / bytes.max(1)) as usize).clamp(1, REAL_SLOTS)
}

/// What of the processes did not go as traced.
pub(crate) fn deviations(jobs: &Jobs<Replayed>) -> Vec<String> {
    let all = jobs.processes().iter().map(Replayed::deviations);
    let (mut late, mut latest, mut unsupported) = (0, Nanos::ZERO, 0);
    for one in all {
        late += one.late;
        latest = latest.max(one.latest);
        unsupported += one.unsupported;
    }
    let mut lines = Vec::new();
    if late > 0 {
        lines.push(format!(
            "{late} I/Os went late, by up to {latest}: their process slept for a tag or had no free slot"
        ));
    }
    if unsupported > 0 {
        lines.push(format!("{unsupported} I/Os were not done: the device does not support them"));
    }
    lines
}

/// Reads what a trace says of the workload on a device.
pub(crate) fn read_workload(path: &Path, dev: Option<&str>) -> Result<Workload, Failure> {
    let name = path.display().to_string();
    let device = dev.map(str::parse::<Device>).transpose();
    let device = device.map_err(|error| Failure::input(format!("--dev: {error}")))?;
    let bar = Bar::new(&name);
    let mut opened = 0;
    let mut open = || {
        opened += 1;
        open(path, opened)
    };
    elevon_trace::replay::read(&mut open, device, &mut |events| bar.set(events)).map_err(|error| match error {
        WorkloadReadError::Trace(error) => crate::inspect::failure(&name, error),
        error @ (WorkloadReadError::Untimed(_) | WorkloadReadError::Empty(_)) => {
            Failure::input(format!("{name}: {error}"))
        }
    })
}

/// Opens the trace; the standard input once only.
fn open(path: &Path, time: u32) -> Result<Reader, OpenError> {
    crate::inspect::open(path, time)
}

fn scripts(workload: &Workload, how: &ReplayOptions) -> Vec<Script> {
    let after = how.closed.then(|| workload.infer());
    let speed = how.speed.unwrap_or(1.0);
    let processes = workload.processes.iter().enumerate();
    processes
        .map(|(at, process)| {
            let first = process.ios.first().map_or(0, |io| io.at);
            let ios = process.ios.iter().enumerate().map(|(n, io)| {
                let when = match &after {
                    Some(after) => after[at][n],
                    None => After { completions: 0, think: scaled(io.at - first, speed) },
                };
                replay_io(io, when)
            });
            Script {
                number: process.id.unwrap_or(0),
                begins: Nanos::new(scaled(first, speed)),
                ios: with_plugs(ios.collect()),
                repeat_until: how.time_based.then(|| Nanos::new(process.duration())),
            }
        })
        .collect()
}

/// What went under one plug goes with the last of it.
fn with_plugs(mut ios: Vec<ReplayIo>) -> Vec<ReplayIo> {
    for at in (1..ios.len()).rev() {
        if ios[at].joins {
            (ios[at - 1].after, ios[at - 1].think) = (ios[at].after, ios[at].think);
        }
    }
    ios
}

fn scaled(ns: u64, speed: f64) -> u64 {
    if speed == 1.0 { ns } else { (ns as f64 / speed) as u64 }
}

fn replay_io(io: &WorkloadIo, when: After) -> ReplayIo {
    ReplayIo {
        after: when.completions,
        think: Nanos::new(when.think),
        op: io.op,
        flags: if io.op == Op::Flush { Flags::PREFLUSH.with(Flags::SYNC) } else { io.flags },
        sector: Sector::new(io.sector),
        bytes: Bytes::new(io.bytes),
        ioprio: io.prio.unwrap_or(IoPrio::NONE),
        joins: io.joins,
        is_refused: false,
    }
}

/// A process as the job that describes it.
fn spec(path: &Path, process: &WorkloadProcess, script: &Script) -> JobSpec {
    let done = || script.ios.iter().filter(|io| !io.is_refused);
    let does = |op: Op| done().any(|io| io.op == op);
    let rw = Rw { read: does(Op::Read), write: does(Op::Write), trim: does(Op::Discard), ..Rw::default() };
    let sizes = |op: Op| {
        let sizes = || done().filter(|io| io.op == op).map(|io| io.bytes.get());
        BlockSizes::Range(sizes().min().unwrap_or(0), sizes().max().unwrap_or(0))
    };
    let depth = process.depth();
    let words = match (rw.read, rw.write, rw.trim) {
        (true, false, false) => "read",
        (false, true, false) => "write",
        (false, false, true) => "trim",
        _ => "rw",
    };
    // Best effort, level 4 is what a process has that sets nothing.
    let default = IoPrio::new(PrioClass::Be, 4);
    let given = script.ios.iter().map(|io| io.ioprio).find(|&prio| prio.class() != PrioClass::None && prio != default);
    let options = [("rw", words.to_owned()), ("ioengine", "replay".to_owned()), ("iodepth", depth.to_string())];
    JobSpec {
        origin: format!("{}:0", path.display()),
        rw,
        block_sizes: [sizes(Op::Read), sizes(Op::Write), sizes(Op::Discard)],
        engine: Engine { name: "replay".to_owned(), asynchronous: depth > 1, submission_blocks: true },
        iodepth: u32::try_from(depth).unwrap_or(u32::MAX),
        direct: true,
        number_ios: Some(script.ios.len() as u64),
        ioprio: given.unwrap_or(IoPrio::NONE),
        cgroup: process.cgroup.filter(|&id| id > 1).map(|id| format!("cgroup-{id}")),
        options: options.map(|(key, value)| (key.to_owned(), value)).to_vec(),
        ..JobSpec::default_job(&process.label())
    }
}
