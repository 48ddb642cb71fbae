//! A trace as a workload that a run repeats on another stack.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::kernel::Rules;
use elevon_core::op::{Flags, Op};
use elevon_core::sched::SchedulerInfo;
use elevon_core::units::{Bytes, Nanos, Sector};
use elevon_formats::fio::ParsedJobs;
use elevon_formats::fio::spec::{BlockSizes, Engine, JobSpec, Rw};
use elevon_plan::failure::{ConflictError, Failure, ValueError};
use elevon_plan::listener::Listener;
use elevon_plan::options::StackOptions;
use elevon_plan::own_device::OwnDevice;
use elevon_plan::plan::Plan;
use elevon_plan::replay::ReplayPlan;
use elevon_plan::target::{Target, is_simulated, target};
use elevon_plan::text_files::{Input, STDIN, quoted};
use elevon_result::result::NotKept;
use elevon_sim::memory::MemoryModel;
use elevon_trace::replay::{
    After, Exclusion, Follows, MAX_REPLAY_NS, Milestone as Reached, Workload, WorkloadIo,
    WorkloadProcess, WorkloadReadError,
};
use elevon_trace::{Recorded, Selection};
use elevon_workload::followers::{FlusherRule, Follow, Milestone};
use elevon_workload::replay::{ReplayIo, Script, SectionEdge};
use elevon_workload::section_lock::SectionRule;

use crate::select::SelectOptions;
use crate::trace_input::TraceInput;
use crate::{options_of_trace, select};

pub(crate) mod ioprio;
pub(crate) mod lacking;

/// The part of its time by which a process may end early or late if the trace does not say that its
/// time was over.
const SLACK_PART: u64 = 50;

/// Range of accepted speeds.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

/// How the I/O of a trace is done again.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// The device of the trace; `None` for the one that has nearly all events.
    pub dev: Option<String>,
    /// Each process follows its completions; otherwise I/O comes as timed.
    pub closed: bool,
    /// In a closed loop every process repeats its I/Os for the time that it took.
    pub time_based: bool,
    /// In a closed loop no process repeats its I/Os.
    pub once: bool,
    /// In an open loop: so many times as fast as in the trace.
    pub speed: Option<f64>,
    /// A real device is written to, too.
    pub allow_writes: bool,
    /// The part of the trace that is taken.
    pub select: SelectOptions,
}

/// A trace to be replayed.
#[derive(Clone, Debug)]
pub struct Replay {
    path: PathBuf,
    how: ReplayOptions,
    workload: Arc<Workload>,
    /// What is selected of the trace and how many I/Os the whole trace has; `None` for all.
    selected: Option<(Selection, usize)>,
    /// A script for each process, with all of its I/Os.
    whole: Arc<Vec<Script>>,
    /// The scripts for the device of the stack; shared with `whole` if nothing is refused.
    scripts: Arc<Vec<Script>>,
    specs: Vec<JobSpec>,
    /// Priorities of processes in place of those in the trace.
    prios: BTreeMap<usize, IoPrio>,
    /// Number of writes that are not done, because writing to the device is not allowed.
    refused: u64,
}

impl Replay {
    /// Reads a trace for a replay on the device of these options.
    ///
    /// # Errors
    /// The trace cannot be read or replayed, or an option is wrong.
    pub fn read(
        path: &Path,
        how: &ReplayOptions,
        stack: &StackOptions,
        listener: &dyn Listener,
    ) -> Result<Self, Failure> {
        let speed = how.speed.unwrap_or(1.0);
        if !SPEEDS.contains(&speed) {
            let (low, high) = SPEEDS.into_inner();
            let expected = ValueError::expected(format!("a number from {low} to {high}"));
            return Err(Failure::named(format!("--speed {speed}"), expected));
        }
        let selection = select::selection(&how.select)?;
        let whole = read_workload(path, how.dev.as_deref(), listener)?;
        let in_trace = whole.len();
        let workload = selected(path, whole, &selection)?;
        let last = workload
            .processes
            .iter()
            .flat_map(|process| &process.ios)
            .map(|io| io.at)
            .max()
            .unwrap_or(0);
        if last as f64 / speed > MAX_REPLAY_NS as f64 {
            let expected =
                ValueError::expected("a speed at which the trace takes at most a hundred years");
            return Err(Failure::named(format!("--speed {speed}"), expected));
        }
        let mut ios = workload.processes.iter().flat_map(|process| &process.ios);
        // Completions that were lost in a gap count at its start.
        if how.closed && workload.gaps.is_empty() && ios.all(|io| io.completed.is_none()) {
            let trace = path.display().to_string();
            return Err(Failure::named("--closed", ConflictError::NoCompletions { trace }));
        }
        let selected = (!selection.is_all()).then_some((selection, in_trace));
        Self { selected, ..Self::of_workload(path, how, workload) }.onto(stack)
    }

    /// Creates a replay of a workload that was read from `path`; [`Self::onto`] completes it.
    pub(crate) fn of_workload(path: &Path, how: &ReplayOptions, workload: Workload) -> Self {
        let whole = Arc::new(scripts(&workload, how));
        let (path, how, scripts) = (path.to_owned(), how.clone(), Arc::clone(&whole));
        let (specs, prios) = (Vec::new(), BTreeMap::new());
        Self {
            path,
            how,
            workload: Arc::new(workload),
            selected: None,
            whole,
            scripts,
            specs,
            prios,
            refused: 0,
        }
    }

    /// Returns the same replay with these priorities of processes in place of those in the trace.
    pub(crate) fn with_prios(mut self, prios: &BTreeMap<usize, IoPrio>) -> Self {
        for (&at, &prio) in prios {
            self.specs[at].priority.ioprio = prio;
            Arc::make_mut(&mut self.scripts)[at].ios.iter_mut().for_each(|io| io.ioprio = prio);
        }
        self.prios.extend(prios);
        self
    }

    /// Returns the same replay with a tenant for each process that has no cgroup in the trace; see
    /// [`tenant_name`].
    pub(crate) fn with_tenants(mut self) -> Self {
        for (spec, process) in self.specs.iter_mut().zip(&self.workload.processes) {
            spec.tenant.cgroup.get_or_insert_with(|| tenant_name(process));
        }
        self
    }

    /// Returns the same trace for the device of other options.
    ///
    /// # Errors
    /// The device or a priority is wrong, or writes would be repeated on a real device.
    pub fn onto(&self, stack: &StackOptions) -> Result<Self, Failure> {
        let device = &stack.device;
        let is_real = !device.starts_with('@') && !matches!(target(device)?, Target::Simulated(_));
        if is_real && self.how.closed && self.how.time_based && self.how.allow_writes {
            return Err(Failure::named(
                "--time-based --allow-writes",
                ConflictError::RepeatedWrites,
            ));
        }
        let mut new = Self {
            scripts: Arc::clone(&self.whole),
            prios: BTreeMap::new(),
            refused: 0,
            ..self.clone()
        };
        if is_real && !self.how.allow_writes {
            new.refused =
                Arc::make_mut(&mut new.scripts).iter_mut().map(Script::refuse_writes).sum();
        }
        if is_real && self.how.allow_writes {
            // A write that the trace has once must not change the device twice.
            Arc::make_mut(&mut new.scripts)
                .iter_mut()
                .for_each(|script| script.repeat_until = None);
        }
        if stack.buffers.is_some() {
            Arc::make_mut(&mut new.scripts).iter_mut().for_each(Script::forget_bio_ends);
        }
        let processes = self.workload.processes.iter().zip(&*new.scripts);
        new.specs = processes.map(|(process, script)| spec(&self.path, process, script)).collect();
        // What a file of tenants gives, it gives to processes of a trace without cgroups, too.
        let new = if stack.queue.tenants.is_some() { new.with_tenants() } else { new };
        let prios = ioprio::prios(&new.workload, &stack.ioprio)?;
        Ok(new.with_prios(&prios))
    }

    /// Makes a plan that repeats the trace. Options that are not given are as the trace was
    /// recorded.
    ///
    /// # Errors
    /// An option is wrong, or is one of jobs.
    pub fn plan(self, args: &StackOptions) -> Result<Plan, Failure> {
        let (args, taken) = match self.recorded().filter(|_| is_simulated(&args.device)) {
            Some(recorded) => {
                let is_valid =
                    |trial: &StackOptions| self.clone().plan_as_given(trial, None).is_ok();
                options_of_trace::filled(args, recorded, &is_valid)
            }
            None => (args.clone(), Vec::new()),
        };
        let mut plan = self.plan_as_given(&args, None)?;
        if !taken.is_empty() {
            let taken = quoted(taken.iter().map(String::as_str));
            plan.warnings.push(format!(
                "as the trace was recorded: {taken}; the command line may give others"
            ));
        }
        Ok(plan)
    }

    /// The same with these options alone, and with the device `own`, if given, in place of theirs.
    pub(crate) fn plan_as_given(
        self,
        args: &StackOptions,
        own: Option<OwnDevice>,
    ) -> Result<Plan, Failure> {
        refuse_options_of_jobs(args)?;
        let words = self.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let part = ReplayPlan {
            scripts: Arc::clone(&self.scripts),
            crowds: self.workload.crowds.clone(),
            how: self.loop_words(),
            selected: self.selected(),
            ioprio: self.ioprio(),
            not_kept: Vec::new(),
        };
        let mut plan = Plan::of_replay(part, self.described(), &words, args, own)?;
        plan.warnings.extend(self.said(plan.scheduler.info(), &plan.kernel.rules()));
        plan.inputs.extend(self.inputs());
        let not_kept = self.not_kept(&plan);
        plan.replay.iter_mut().for_each(|part| part.not_kept.clone_from(&not_kept));
        Ok(plan)
    }

    /// Returns jobs that describe the processes.
    fn described(&self) -> ParsedJobs {
        ParsedJobs::of_specs(self.specs.clone())
    }

    /// Returns the words of a command line for the trace and the way in which it is replayed.
    fn words(&self) -> Vec<String> {
        let how = &self.how;
        let mut words = vec![self.path.to_string_lossy().into_owned()];
        words.extend(how.dev.iter().flat_map(|dev| ["--dev".to_owned(), dev.clone()]));
        words.extend(how.speed.iter().flat_map(|speed| ["--speed".to_owned(), speed.to_string()]));
        for (is_given, word) in [
            (how.closed, "--closed"),
            (how.time_based, "--time-based"),
            (how.once, "--once"),
            (how.allow_writes, "--allow-writes"),
        ] {
            words.extend(is_given.then(|| word.to_owned()));
        }
        words.extend(select::words(&how.select));
        words
    }

    /// Returns the files that were read.
    fn inputs(&self) -> Vec<Input> {
        let of_stdin = (self.path == Path::new(STDIN)).then(|| PathBuf::from("/dev/stdin"));
        let files = self.workload.report.files.iter().map(PathBuf::from);
        let files = of_stdin.map_or_else(|| files.collect(), |stdin| vec![stdin]);
        files
            .into_iter()
            .map(|path| Input { what: path.display().to_string(), path: Some(path), text: None })
            .collect()
    }

    /// Describes in a few words how the trace is replayed.
    fn loop_words(&self) -> String {
        let from = match self.workload.joined() {
            0 => self.workload.taken.name().to_owned(),
            joined => {
                format!("{}, {joined} I/Os joined of several bios", self.workload.taken.name())
            }
        };
        let together =
            self.scripts.iter().filter_map(|script| script.exclusion).map(|rule| rule.is_together);
        let from = match (together.clone().count(), together.filter(|&is| is).count()) {
            (0, _) => from,
            (some, 0) => format!("{from}, {some} processes exclude each other"),
            (some, all) if some == all => format!("{from}, {some} processes commit together"),
            (some, part) => format!(
                "{from}, {some} processes exclude each other, {part} of them commit together"
            ),
        };
        let repeated = self.scripts.iter().filter(|script| script.repeat_until.is_some()).count();
        match (self.how.closed, repeated, self.how.speed) {
            (true, 0, _) => format!("closed loop, from {from}"),
            (true, repeated, _) => {
                let all = self.scripts.len();
                format!(
                    "closed loop, {repeated} of {all} processes for the time that they took, from {from}"
                )
            }
            (false, _, None) => format!("open loop, from {from}"),
            (false, _, Some(speed)) => format!("open loop at {speed} times the speed, from {from}"),
        }
    }

    /// Says what is selected of the trace; `None` for all of it.
    fn selected(&self) -> Option<String> {
        let (selection, in_trace) = self.selected.as_ref()?;
        Some(format!("{}: {} of {in_trace} I/Os", selection.words(), self.workload.len()))
    }

    /// Returns the priorities that processes have in place of those in the trace.
    fn ioprio(&self) -> Option<String> {
        let words = self.prios.iter().map(|(&at, &prio)| {
            format!("{}={}", self.workload.processes[at].label(), ioprio::text(prio))
        });
        (!self.prios.is_empty()).then(|| words.collect::<Vec<_>>().join(" "))
    }

    /// Returns what the trace, or a file beside it, says of how it was recorded.
    fn recorded(&self) -> Option<&Recorded> {
        self.workload.recorded.as_ref()
    }

    /// Returns what the trace has and its replay under this plan does not keep.
    fn not_kept(&self, plan: &Plan) -> Vec<NotKept> {
        let lacking = lacking::Lacking {
            scheduler: Some(&plan.scheduler),
            buffers: plan.memory != MemoryModel::Contiguous,
            tenants: plan.tenants_file.is_some(),
            is_real: plan.is_real(),
        };
        lacking.of(&self.workload)
    }

    /// Returns remarks about the trace, replayed under `scheduler`, for the user.
    fn said(&self, scheduler: &SchedulerInfo, rules: &Rules) -> Vec<String> {
        let Workload { device, taken, left_out, report, .. } = &*self.workload;
        let name = self.path.display();
        let mut lines = Vec::new();
        let lacking = lacking::line(&self.workload, &[scheduler], rules);
        lines.extend(lacking.map(|line| format!("{name}: {line}")));
        lines.extend(ioprio::in_vain(&self.workload, &self.prios, &self.specs, scheduler, rules));
        if *taken == elevon_trace::replay::Taken::Issued {
            lines.push(format!(
                "{name}: has no queue events: requests are replayed as they were issued, after the splits and merges of the \
                 machine that was traced"
            ));
        }
        let all: u64 = report.devices.iter().map(|&(_, events)| events).sum();
        if self.how.dev.is_none() && report.devices.len() > 1 {
            let own =
                report.devices.iter().find(|(of, _)| of == device).map_or(0, |&(_, events)| events);
            let others = all - own;
            lines.push(format!(
                "{name}: device {device} is taken; {others} of {all} events are of others"
            ));
        }
        if report.gap_count > 0 {
            let lost = if report.lost > 0 {
                format!("{} events", report.lost)
            } else {
                "events".to_owned()
            };
            lines.push(format!(
                "{name}: {lost} were lost in {} gap(s): what happened there is not replayed, and the time is kept",
                report.gap_count
            ));
        }
        lines.extend(self.how.closed.then(|| self.without_completions()).flatten());
        if *left_out > 0 {
            lines.push(format!(
                "{name}: {left_out} I/Os have no bytes, or an operation that the stack does not have; they are left out"
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

    /// Returns a remark about processes of which the trace has no completion, if there are some: a
    /// closed loop follows completions.
    fn without_completions(&self) -> Option<String> {
        let is_open =
            |process: &&WorkloadProcess| process.ios.iter().all(|io| io.completed.is_none());
        let open: Vec<String> =
            self.workload.processes.iter().filter(is_open).map(WorkloadProcess::label).collect();
        let shown = open.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
        (!open.is_empty() && self.workload.gaps.is_empty()).then(|| {
            format!(
                "{}: {} of {} processes ({shown}{}) have no completions in the trace: their loop is not closed, and their \
                 I/O comes as timed",
                self.path.display(),
                open.len(),
                self.workload.processes.len(),
                if open.len() > 3 { ", ..." } else { "" }
            )
        })
    }
}

/// Refuses options of jobs, which have no effect on a replay.
///
/// # Errors
/// One of them is given.
pub fn refuse_options_of_jobs(options: &StackOptions) -> Result<(), Failure> {
    let StackOptions { of_jobs, cache: real_cache, .. } = options;
    let no_file = "a trace has no job file";
    let cache = "the bios of a trace are below the page cache of the traced machine, and a second cache would count \
                 what was cached twice";
    let instead_of_cache =
        "; leave it out, or describe the I/O above the cache in a job file for elevon run";
    let [include_dir, log_dir] = [&of_jobs.include_dir, &of_jobs.log_dir]
        .map(|path| path.as_deref().map(Path::to_string_lossy));
    for (option, value, why, instead) in [
        (
            "--cpu-cost",
            of_jobs.cpu_cost.as_deref(),
            "the times of a trace have the CPU time in them",
            "",
        ),
        ("--memory", of_jobs.memory.as_deref(), cache, instead_of_cache),
        ("--cache", real_cache.as_deref(), cache, instead_of_cache),
        ("--job-option", of_jobs.job_option.first().map(String::as_str), no_file, ""),
        ("--include-dir", include_dir.as_deref(), no_file, ""),
        ("--log-dir", log_dir.as_deref(), no_file, ""),
    ] {
        if let Some(value) = value {
            return Err(Failure::named(
                format!("{option} {value}"),
                ConflictError::NotInReplay { why, instead },
            ));
        }
    }
    Ok(())
}

/// Returns what is selected of a workload that was read from `path`.
pub(crate) fn selected(
    path: &Path,
    whole: Workload,
    selection: &Selection,
) -> Result<Workload, Failure> {
    if selection.is_all() {
        return Ok(whole);
    }
    whole.select(selection).map_err(|error| Failure::named(path.display().to_string(), error))
}

/// Reads the workload of a device from a trace.
pub(crate) fn read_workload(
    path: &Path,
    dev: Option<&str>,
    listener: &dyn Listener,
) -> Result<Workload, Failure> {
    let trace = TraceInput::new(path, dev, listener)?;
    trace.read(elevon_trace::replay::read).map_err(|error| match error {
        WorkloadReadError::Trace(error) => trace.failure(error),
        error @ (WorkloadReadError::Untimed(_)
        | WorkloadReadError::TooLong(..)
        | WorkloadReadError::Empty(_)) => Failure::named(&trace.name, error),
    })
}

fn scripts(workload: &Workload, how: &ReplayOptions) -> Vec<Script> {
    let after = how.closed.then(|| workload.infer());
    let mut by_time = workload.ended_by_time();
    if let Some(after) = &after {
        // A journal goes on for as long as those that ask for its commits.
        let ended = by_time.clone();
        for at in (0..after.len()).filter(|&at| workload.processes[at].is_journal()) {
            by_time[at] |= after[at].iter().filter_map(|io| io.follows).any(|of| ended[of.process]);
        }
    }
    let repeats = |at: usize| how.time_based || (how.closed && !how.once && by_time[at]);
    let exclusions = match how.closed {
        true => workload.exclusions(),
        false => vec![None; workload.processes.len()],
    };
    let flushers = match how.closed {
        true => workload.flushers(),
        false => vec![None; workload.processes.len()],
    };
    let speed = how.speed.unwrap_or(1.0);
    let bio_ends = Arc::new(workload.bio_ends.clone());
    let processes = workload.processes.iter().enumerate();
    processes
        .map(|(at, process)| {
            let first = process.ios.first().map_or(0, |io| io.at);
            let pace = process.pace().filter(|_| how.closed);
            let kept = pace.map_or(0, |pace| pace.kept);
            let depth = if kept > 0 { process.depth() } else { 1 };
            let ios = process.ios.iter().enumerate().map(|(n, io)| {
                let when = match &after {
                    // At its pace a process waits for its time, and for no more than its depth.
                    Some(_) if n < kept => After::completions((n as u64 + 1).saturating_sub(depth)),
                    Some(after) => after[at][n],
                    None => After { think: scaled(io.at - first, speed), ..After::completions(0) },
                };
                // One that waits for a lock must not keep others waiting that hold the lock.
                let holds_nobody = |follows: &Follows| exclusions[follows.process].is_none();
                replay_io(
                    io,
                    After { follows: when.follows.filter(holds_nobody), ..when },
                    flushers[at].is_some(),
                )
            });
            let mut ios = with_plugs(ios.collect());
            let exclusion =
                exclusions[at].as_ref().map(|exclusion| with_sections(&mut ios, exclusion));
            Script {
                number: process.id.unwrap_or(0),
                begins: Nanos::new(scaled(first, speed)),
                ios,
                bio_ends: Arc::clone(&bio_ends),
                repeat_until: repeats(at).then(|| Nanos::new(process.duration())),
                slack: Nanos::new(if by_time[at] { 0 } else { process.duration() / SLACK_PART }),
                period: Nanos::new(pace.map_or(0, |pace| pace.period)),
                drains: pace.is_some_and(|pace| pace.drains),
                exclusion,
                flusher: flushers[at]
                    .map(|(flusher, most_bytes)| FlusherRule { flusher, most_bytes }),
            }
        })
        .collect()
}

/// Marks where critical sections begin and end. What a process waited for one in the trace is no
/// part of its think time.
fn with_sections(ios: &mut [ReplayIo], exclusion: &Exclusion) -> SectionRule {
    for section in &exclusion.sections {
        let first = &mut ios[section.first];
        first.section = Some(SectionEdge::Begins);
        first.think = first.think.saturating_sub(Nanos::new(section.waited));
        first.own = first.own.min(first.think);
        ios[section.last].section = Some(SectionEdge::Ends);
    }
    let Exclusion { group, hand_over, is_together, .. } = *exclusion;
    SectionRule { group, hand_over: Nanos::new(hand_over), is_together }
}

/// Sets the time of all I/Os of a plug to that of the last one.
fn with_plugs(mut ios: Vec<ReplayIo>) -> Vec<ReplayIo> {
    for at in (1..ios.len()).rev() {
        if ios[at].joins {
            (ios[at - 1].after, ios[at - 1].think) = (ios[at].after, ios[at].think);
            ios[at - 1].own = Nanos::new(ios[at - 1].own.get().saturating_add(ios[at].own.get()));
        }
    }
    ios
}

fn scaled(ns: u64, speed: f64) -> u64 {
    if speed == 1.0 { ns } else { (ns as f64 / speed) as u64 }
}

fn replay_io(io: &WorkloadIo, when: After, by_flusher: bool) -> ReplayIo {
    ReplayIo {
        after: when.completions,
        think: Nanos::new(when.think),
        own: Nanos::new(when.own),
        op: io.op,
        flags: if io.op == Op::Flush { Flags::PREFLUSH.with(Flags::SYNC) } else { io.flags },
        sector: Sector::new(io.sector),
        bytes: Bytes::new(io.bytes),
        bio_ends: io.bio_ends,
        ioprio: io.prio.unwrap_or(IoPrio::NONE),
        joins: io.joins,
        is_refused: false,
        continues: when.continues,
        section: None,
        follows: when.follows.map(follow),
        is_flushed: by_flusher && io.is_throttled(),
    }
}

fn follow(Follows { process, milestone, count }: Follows) -> Follow {
    let milestone = match milestone {
        Reached::Entered => Milestone::Entered,
        Reached::Completed => Milestone::Completed,
    };
    Follow { process: process as u32, milestone, count }
}

/// Returns the tenant of a process whose cgroup is in the trace; the root has none.
fn cgroup_name(process: &WorkloadProcess) -> Option<String> {
    process.cgroup.filter(|&id| id > 1).map(|id| format!("cgroup-{id}"))
}

/// Returns the name of a process as a tenant: that of its cgroup or, if the trace has none, that of
/// its row, with `-` in place of what would nest tenants or has a meaning in the file of tenants.
pub(crate) fn tenant_name(process: &WorkloadProcess) -> String {
    let is_plain = |c: char| !matches!(c, '/' | '"' | '\\') && !c.is_control();
    let own = || process.label().chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    cgroup_name(process).unwrap_or_else(own)
}

/// Returns a job that describes a process.
fn spec(path: &Path, process: &WorkloadProcess, script: &Script) -> JobSpec {
    let done = || script.ios.iter().filter(|io| !io.is_refused);
    let does = |op: Op| done().any(|io| io.op == op);
    let rw = Rw {
        read: does(Op::Read),
        write: does(Op::Write),
        trim: does(Op::Discard),
        ..Rw::default()
    };
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
    // A process that sets no priority has best effort, level 4.
    let default = IoPrio::new(PrioClass::Be, 4);
    let given = script
        .ios
        .iter()
        .map(|io| io.ioprio)
        .find(|&prio| prio.class() != PrioClass::None && prio != default);
    let options = [
        ("rw", words.to_owned()),
        ("ioengine", "replay".to_owned()),
        ("iodepth", depth.to_string()),
    ];
    let mut spec = JobSpec::default_job(&process.label());
    spec.origin = format!("{}:0", path.display());
    spec.rw = rw;
    spec.blocks.sizes = [sizes(Op::Read), sizes(Op::Write), sizes(Op::Discard)];
    spec.engine =
        Engine { name: "replay".to_owned(), asynchronous: depth > 1, submission_blocks: true };
    spec.queue.depth = u32::try_from(depth).unwrap_or(u32::MAX);
    spec.caching.direct = true;
    spec.timing.number_ios = Some(script.ios.len() as u64);
    spec.priority.ioprio = given.unwrap_or(IoPrio::NONE);
    spec.tenant.cgroup = cgroup_name(process);
    spec.options = options.map(|(key, value)| (key.to_owned(), value)).to_vec();
    spec
}
