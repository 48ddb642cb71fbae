//! A whole job file: clones, the order of `stonewall` and `wait_for`, groups, and `exitall`.

use elevon_core::stack::StackConfig;
use elevon_core::units::{Bytes, Instant, LayoutId, Nanos, TaskId, TenantId};
use elevon_formats::fio::Problem;
use elevon_formats::fio::spec::{ExitWhat, JobSpec};

use crate::WorkloadError;
use crate::chance::{Purpose, Rng};
use crate::dependencies::Dependencies;
use crate::fio_flow::Flows;
use crate::pattern::Seeds;
use crate::process::{CpuCost, Identity, Process};
use crate::region::{Extent, Placement};
use crate::replay::{self, NewLayout, Replayed, Script};
use crate::settings::Settings;
use crate::source::Source;
use crate::steady::{Moved, SteadyWatches};
use crate::tenants::{Tenant, TenantsByPath, tenants};

/// Options that all jobs of a run share.
#[derive(Clone, Debug)]
pub struct JobsOptions {
    /// Size of the device in bytes.
    pub device_bytes: Bytes,
    /// Size of its logical block in bytes.
    pub logical_block: u64,
    /// The run has a page cache: buffered jobs may begin and end at any byte.
    pub cached: bool,
    /// The device's name on the command line, if it is a path; see [`crate::region`].
    pub device_path: Option<String>,
    /// Random seed of the run.
    pub seed: u64,
    /// CPU time of an I/O; zero in real time.
    pub cpu: CpuCost,
}

impl JobsOptions {
    /// Returns options for the device of such a stack, without a path: seed 1, and no CPU time.
    pub fn new(stack: &StackConfig) -> Self {
        Self {
            device_bytes: stack.size.bytes(),
            logical_block: stack.limits.logical_block_size.into(),
            cached: false,
            device_path: None,
            seed: 1,
            cpu: CpuCost::default(),
        }
    }
}

/// A process's place among the jobs.
#[derive(Clone, Debug)]
pub struct Member {
    /// Index of its section.
    pub spec: usize,
    /// Index among the section's clones.
    pub clone: u32,
    /// Its tenant.
    pub tenant: TenantId,
    /// Reporting group, from 0.
    pub group: u32,
    /// A number like a process id, from 1001.
    pub number: u32,
    /// The places of its files.
    pub extent: Extent,
    /// Its stage, which begins when every process of earlier stages has finished.
    stage: u32,
    /// The section that must finish first.
    wait_for: Option<usize>,
    delay: Nanos,
    state: JobState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobState {
    Waiting,
    /// It may start, and does so at this instant.
    Delayed(Instant),
    Running,
    Finished,
    /// It was ended before it started.
    Never,
}

/// The participants of a run, for all kinds of sources.
#[derive(Clone, Copy, Debug)]
pub struct Roster<'a> {
    /// The sections.
    pub specs: &'a [JobSpec],
    /// The cgroups that the sections name; the cgroup at index n is tenant n + 1.
    pub tenants: &'a [Tenant],
    /// All processes, by task.
    pub members: &'a [Member],
}

/// The processes of a run: those of fio jobs, or those of a trace.
#[derive(Debug)]
pub struct Jobs<S = Process> {
    pub(crate) specs: Vec<JobSpec>,
    tenants: Vec<Tenant>,
    /// The settings of tenants, and their changes during the run.
    pub settings: Settings,
    pub(crate) members: Vec<Member>,
    pub(crate) processes: Vec<S>,
    pub(crate) flows: Flows,
    pub(crate) steady: SteadyWatches,
    /// What processes of a trace wait for in each other.
    pub(crate) dependencies: Dependencies,
    open: Open,
}

/// How many processes have not finished, so that the end of one costs O(1).
#[derive(Clone, Debug)]
struct Open {
    all: usize,
    /// By section.
    sections: Vec<usize>,
    /// By stage.
    stages: Vec<usize>,
    /// Tasks that may still wait for their turn, ascending.
    waiting: Vec<usize>,
    /// A section or stage has finished since turns were last given.
    is_turn: bool,
    /// The end of any process ends others (`exitall` of any section, as with fio).
    exits: bool,
}

impl Open {
    fn new(members: &[Member], specs: &[JobSpec]) -> Self {
        let stages = members.iter().map(|member| member.stage as usize + 1).max().unwrap_or(0);
        let mut open = Self {
            all: members.len(),
            sections: vec![0; specs.len()],
            stages: vec![0; stages],
            waiting: (0..members.len()).collect(),
            is_turn: true,
            exits: specs.iter().any(|spec| spec.order.exitall),
        };
        for member in members {
            open.sections[member.spec] += 1;
            open.stages[member.stage as usize] += 1;
        }
        open
    }

    /// Counts a process that has finished, or never starts.
    fn close(&mut self, member: &Member) {
        self.all -= 1;
        for count in [&mut self.sections[member.spec], &mut self.stages[member.stage as usize]] {
            *count -= 1;
            self.is_turn |= *count == 0;
        }
    }
}

const FIRST_NUMBER: u32 = 1001;

impl Jobs {
    /// Builds every clone of every job. `layouts` registers the buffer of a task's slot (task,
    /// slot, bytes) with the stack.
    ///
    /// # Errors
    /// A job that does not fit on the device, or a `wait_for` that does not name exactly one
    /// earlier job.
    pub fn new(
        specs: &[JobSpec],
        options: &JobsOptions,
        layouts: &mut dyn FnMut(TaskId, u32, u64) -> LayoutId,
    ) -> Result<Self, WorkloadError> {
        let mut placement = Placement::new(
            options.device_bytes,
            options.device_path.clone(),
            options.logical_block,
        )
        .with_cache(options.cached);
        let (mut members, mut processes) = (Vec::new(), Vec::new());
        let tenants = tenants(specs);
        let by_path = TenantsByPath::new(&tenants);
        let (mut group, mut stage) = (0, 0);
        for (index, spec) in specs.iter().enumerate() {
            if index > 0 {
                stage += u32::from(spec.order.stonewall);
                group += u32::from(spec.order.stonewall || spec.report.new_group);
            }
            let wait_for = wait_for(specs, index)?;
            let tenant = by_path.of(spec);
            for clone in 0..spec.numjobs.max(1) {
                let task = TaskId(processes.len() as u32);
                let seeds = Seeds::new(spec, options.seed, index as u32, clone, task.0 + 1);
                let extent = placement.place(spec, clone, seeds.base(Purpose::FileSize))?;
                let bytes = crate::region::largest_block(spec);
                let slots: Vec<LayoutId> =
                    (0..spec.depth()).map(|slot| layouts(task, slot as u32, bytes)).collect();
                let identity =
                    Identity { task, tenant, job: index as u32, clone, seed: options.seed };
                processes.push(Process::new(spec, &extent, identity, options.cpu, &slots));
                members.push(Member {
                    spec: index,
                    clone,
                    tenant,
                    group,
                    number: FIRST_NUMBER + task.0,
                    extent,
                    stage,
                    wait_for,
                    delay: delay(spec, seeds.stream(Purpose::StartDelay)),
                    state: JobState::Waiting,
                });
            }
        }
        let flows = Flows::new(members.iter().map(|member: &Member| &specs[member.spec]));
        let steady = SteadyWatches::new(
            members.iter().map(|member: &Member| (&specs[member.spec], member.group)),
        );
        let (specs, open) = (specs.to_vec(), Open::new(&members, specs));
        let (settings, dependencies) = (Settings::default(), Dependencies::default());
        Ok(Self { specs, tenants, settings, members, processes, flows, steady, dependencies, open })
    }
}

impl Jobs<Replayed> {
    /// Builds the processes of a trace, each with the section that describes it. `specs` and
    /// `scripts` are in the same order. `layouts` is as in [`Jobs::new`]; `slots` limits the I/Os
    /// that a process has in flight.
    pub fn of_trace(
        specs: &[JobSpec],
        scripts: Vec<Script>,
        slots: usize,
        layouts: &mut NewLayout<'_>,
    ) -> Self {
        let whole = Extent { regions: Vec::new(), files: Vec::new(), bytes: Bytes::ZERO };
        let tenants = tenants(specs);
        let by_path = TenantsByPath::new(&tenants);
        let dependencies = replay::dependencies(&scripts);
        let (mut members, mut processes) = (Vec::new(), Vec::new());
        for (index, (spec, script)) in specs.iter().zip(scripts).enumerate() {
            let task = TaskId(index as u32);
            let tenant = by_path.of(spec);
            let (number, delay) = (script.number, script.begins);
            processes.push(Replayed::new(script, task, tenant, slots, layouts));
            members.push(Member {
                spec: index,
                clone: 0,
                tenant,
                group: index as u32,
                number,
                extent: whole.clone(),
                stage: 0,
                wait_for: None,
                delay,
                state: JobState::Waiting,
            });
        }
        let (flows, steady, open) =
            (Flows::default(), SteadyWatches::default(), Open::new(&members, specs));
        let (specs, settings) = (specs.to_vec(), Settings::default());
        Self { specs, tenants, settings, members, processes, flows, steady, dependencies, open }
    }
}

#[cfg(test)]
impl<S> Jobs<S> {
    /// The same with other sources in place of these.
    pub(crate) fn map_sources<T>(self, other: impl FnMut(S) -> T) -> Jobs<T> {
        let Self {
            specs,
            tenants,
            settings,
            members,
            processes,
            flows,
            steady,
            dependencies,
            open,
        } = self;
        let processes = processes.into_iter().map(other).collect();
        Jobs { specs, tenants, settings, members, processes, flows, steady, dependencies, open }
    }
}

impl<S: Source> Jobs<S> {
    /// Returns the participants.
    pub fn roster(&self) -> Roster<'_> {
        Roster { specs: &self.specs, tenants: &self.tenants, members: &self.members }
    }

    /// Returns the sections.
    pub fn specs(&self) -> &[JobSpec] {
        &self.specs
    }

    /// Returns the cgroups that the sections name; the cgroup at index n is tenant n + 1.
    pub fn tenants(&self) -> &[Tenant] {
        &self.tenants
    }

    /// Returns all processes' places, by task.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the processes, by task.
    pub fn processes(&self) -> &[S] {
        &self.processes
    }

    /// Returns the number of processes that have not finished.
    pub fn left(&self) -> usize {
        self.open.all
    }

    /// Returns the span from the start of the run to the end of the last ramp (`ramp_time`) of the
    /// jobs that start with it; `None` if none of them has a ramp.
    pub(crate) fn first_ramp(&self) -> Option<Nanos> {
        let first =
            self.members.iter().filter(|member| member.stage == 0 && member.wait_for.is_none());
        let ramps = first.map(|member| (member.delay, self.specs[member.spec].timing.ramp_time));
        ramps.filter(|(_, ramp)| !ramp.is_zero()).map(|(delay, ramp)| delay + ramp).max()
    }

    /// Schedules the start of every process whose turn has come, now or after its delay, and calls
    /// `due(task, when)` for each. Called at the start and whenever a process ends. Cost: O(1), and
    /// O(processes that wait for their turn) after the end of a section or stage.
    pub(crate) fn release(&mut self, now: Instant, mut due: impl FnMut(usize, Instant)) {
        if !std::mem::take(&mut self.open.is_turn) {
            return;
        }
        let Open { sections, stages, waiting, .. } = &mut self.open;
        let stage = stages.iter().position(|&open| open > 0);
        waiting.retain(|&task| {
            let member = &mut self.members[task];
            let turn = Some(member.stage as usize) == stage
                && member.wait_for.is_none_or(|spec| sections[spec] == 0);
            if member.state == JobState::Waiting && turn {
                let at = now.saturating_add(member.delay);
                member.state = JobState::Delayed(at);
                due(task, at);
            }
            member.state == JobState::Waiting
        });
    }

    /// Starts a process that is polled, if its delay has passed. Returns false while it may not
    /// run.
    #[inline]
    pub(crate) fn may_run(&mut self, task: usize, now: Instant) -> bool {
        matches!(self.members[task].state, JobState::Running) || self.begins(task, now)
    }

    /// Starts a process whose delay has passed. Returns false if it may not run.
    fn begins(&mut self, task: usize, now: Instant) -> bool {
        let member = &mut self.members[task];
        match member.state {
            JobState::Running => true,
            JobState::Delayed(at) if at <= now => {
                member.state = JobState::Running;
                self.processes[task].start(now);
                self.steady.on_start(task, now);
                true
            }
            JobState::Waiting | JobState::Delayed(_) | JobState::Finished | JobState::Never => {
                false
            }
        }
    }

    /// Returns the start of a released process, until it has started.
    pub(crate) fn start_of(&self, task: usize) -> Option<Instant> {
        match self.members[task].state {
            JobState::Delayed(at) => Some(at),
            JobState::Waiting | JobState::Running | JobState::Finished | JobState::Never => None,
        }
    }

    /// Handles the end of a process. Calls `poll(task)` for every process that `exitall` ends with
    /// it.
    pub(crate) fn on_over(&mut self, task: usize, mut poll: impl FnMut(usize)) {
        self.members[task].state = JobState::Finished;
        self.open.close(&self.members[task]);
        let spec = &self.specs[self.members[task].spec];
        let failed = spec.order.exitall_on_error && self.processes[task].stats().error != 0;
        let what = match (failed, self.open.exits) {
            (true, _) => ExitWhat::All,
            (false, true) => spec.order.exit_what,
            (false, false) => return,
        };
        let group = self.members[task].group;
        for other in 0..self.members.len() {
            let member = &self.members[other];
            let ends = match what {
                ExitWhat::Group => member.group == group,
                ExitWhat::Stonewall => member.state != JobState::Waiting,
                ExitWhat::All => true,
            };
            if ends {
                self.terminate(other, &mut poll);
            }
        }
    }

    /// Ends all processes: running ones stop issuing, and others never start.
    pub(crate) fn terminate_all(&mut self, mut poll: impl FnMut(usize)) {
        for task in 0..self.members.len() {
            self.terminate(task, &mut poll);
        }
    }

    /// Takes the samples of `steadystate` that are due. Calls `poll(task)` for every process that
    /// ends because its rate is steady.
    pub(crate) fn look_at_rates(&mut self, now: Instant, mut poll: impl FnMut(usize)) {
        let mut steady = Vec::new();
        let moved = |task: usize| {
            let process = &self.processes[task];
            let directions = &process.stats().directions;
            let ios = directions.iter().map(|d| d.ios).sum();
            (
                Moved { ios, bytes: directions.iter().map(|d| d.bytes).sum() },
                process.ended().is_some(),
            )
        };
        self.steady.run(now, moved, |task| steady.push(task));
        for task in steady {
            self.terminate(task, &mut poll);
        }
    }

    fn terminate(&mut self, task: usize, poll: &mut impl FnMut(usize)) {
        match self.members[task].state {
            JobState::Waiting | JobState::Delayed(_) => {
                self.members[task].state = JobState::Never;
                self.open.close(&self.members[task]);
            }
            JobState::Running => {
                self.processes[task].terminate();
                poll(task);
            }
            JobState::Finished | JobState::Never => {}
        }
    }
}

fn delay(spec: &JobSpec, mut rng: Rng) -> Nanos {
    let (low, high) = (spec.timing.start_delay.0.get(), spec.timing.start_delay.1.get());
    Nanos::new(if high > low { low + rng.below(high - low + 1) } else { low })
}

/// Returns the section that `wait_for` names; it must be an earlier one, and the only one of that
/// name.
fn wait_for(specs: &[JobSpec], index: usize) -> Result<Option<usize>, WorkloadError> {
    let spec = &specs[index];
    let Some(name) = &spec.order.wait_for else { return Ok(None) };
    let bad = |problem: Problem, message: String| {
        Err(WorkloadError::new(&spec.origin, "wait_for", problem.because(message)))
    };
    let mut named = specs.iter().enumerate().filter(|(_, s)| s.name == *name).map(|(i, _)| i);
    match (named.next(), named.next()) {
        (Some(i), None) if i < index => Ok(Some(i)),
        (Some(_), Some(_)) => bad(
            Problem::Conflict,
            format!("{name} is the name of several jobs; give it to one only"),
        ),
        (Some(_), None) => bad(
            Problem::Conflict,
            format!("{name} must be defined before the job that waits for it"),
        ),
        (None, _) => bad(Problem::Unknown, format!("no job is called {name}")),
    }
}
