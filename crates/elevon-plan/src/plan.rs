//! Makes a checked plan from arguments: everything that can be checked is checked before anything
//! is opened or run.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use elevon_cache::settings;
use elevon_core::kernel::{Kernel, RULES, Rules};
use elevon_core::limits::QueueLimits;
use elevon_core::sched::SchedulerConfig;
use elevon_core::stack::{DirectPath, StackConfig};
use elevon_formats::fio::{JobOption, ParsedJobs, parse_all_with};
use elevon_sim::device::fault::{Fault, Rule};
use elevon_sim::device::{AnyDevice, Device};
use elevon_sim::memory::MemoryModel;
use elevon_sim::profiles;
use elevon_workload::WorkloadError;
use elevon_workload::cpu::{CpuCost, SchedulerCost};
use elevon_workload::region::uses_device;
use elevon_workload::tenants::TenantPlan;

use crate::clamped;
use crate::cpu_cost::cpu_cost;
use crate::failure::{ConflictError, Failure, FileError, ValueError};
use crate::files::Files;
use crate::logs::LogFolder;
use crate::memory::{CachePlan, Memory};
use crate::options::{DEFAULT_KERNEL, DEFAULT_SCHEDULER, StackOptions};
use crate::own_device::OwnDevice;
use crate::replay::ReplayPlan;
use crate::setting;
use crate::target::{Target, target};
use crate::text_files::{Input, STDIN, TextFiles, Texts, assignments, name_of, quoted};

mod surprises;
mod tenants;

use surprises::surprises;
use tenants::tenants;
pub use tenants::{
    enables_cost, limited_once, prefer_shares_by_weights, reads_priorities, weights_in_vain,
};

/// The command whose jobs are the processes of a trace.
const REPLAY: &str = "replay";

/// Default memory layout of user buffers.
const DEFAULT_BUFFERS: &str = "fragmented";

/// A run, checked as far as possible without opening anything.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The jobs.
    pub jobs: ParsedJobs,
    /// The trace whose I/O replaces that of jobs; `jobs` then describes its processes.
    pub replay: Option<ReplayPlan>,
    /// The device.
    pub target: Target,
    /// The kernel version whose rules are followed.
    pub kernel: Kernel,
    /// A rule, by its index in [`RULES`], that is taken from another kernel: `elevon compare`
    /// switches it alone.
    pub other_rule: Option<(usize, Kernel)>,
    /// The scheduler with its tunables.
    pub scheduler: SchedulerConfig,
    /// Settings of the queue and of the page cache, in the order in which they were given.
    pub settings: Vec<(String, String)>,
    /// Seed of every random choice.
    pub seed: u64,
    /// The memory behind user buffers.
    pub memory: MemoryModel,
    /// CPU time of I/O.
    pub cpu: CpuCost,
    /// The page cache, if the run has one.
    pub cache: Option<CachePlan>,
    /// Faults of the device.
    pub faults: Vec<String>,
    /// Options over those of the job files.
    pub job_option: Vec<String>,
    /// The cgroups of jobs and of `--tenants`, with their settings.
    pub tenants: TenantPlan,
    /// Folder of the jobs' logs.
    pub log_folder: LogFolder,
    /// The file of `--device @FILE`.
    pub own: Option<OwnDevice>,
    /// The file of `--tenants`.
    pub tenants_file: Option<PathBuf>,
    /// A command line that repeats the run.
    pub command: String,
    /// The files that were read, and what job files read of the environment.
    pub inputs: Vec<Input>,
    /// Warnings before the run.
    pub warnings: Vec<String>,
}

impl Plan {
    /// Reads the job files and checks every option.
    ///
    /// # Errors
    /// A job file or an option is wrong: a line for each error.
    pub fn new(jobs: &[PathBuf], args: &StackOptions) -> Result<Self, Failure> {
        Self::of_texts(jobs, args, Texts::default())
    }

    /// The same; `texts` are files that the caller has in memory.
    ///
    /// # Errors
    /// As of [`Self::new`].
    pub fn of_texts(jobs: &[PathBuf], args: &StackOptions, texts: Texts) -> Result<Self, Failure> {
        if let Some(folder) = args.of_jobs.include_dir.as_deref().filter(|folder| !folder.is_dir())
        {
            let error = match folder.exists() {
                true => FileError::NotADirectory,
                false => FileError::NoFolder("name one that job files include from"),
            };
            return Err(Failure::named(format!("--include-dir {}", folder.display()), error));
        }
        let mut sources = TextFiles::new(args.of_jobs.include_dir.as_deref(), texts);
        let names: Vec<&str> =
            jobs.iter().map(|path| text_of("the job file", path)).collect::<Result<_, _>>()?;
        let over =
            args.of_jobs.job_option.iter().map(|text| JobOption::parse("--job-option", text));
        let over =
            over.collect::<Result<Vec<_>, _>>().map_err(|error| Failure::text(vec![error]))?;
        let mut parsed = parse_all_with(&mut sources, &names, &over).map_err(|mut errors| {
            // An error in a file that is included twice is reported once.
            errors.dedup();
            Failure::text(errors)
        })?;
        let environment = std::mem::take(&mut parsed.environment);
        let mut plan = Self::of_sources(parsed, "run", &names, args, None, sources)?;
        let variables =
            assignments(environment.iter().map(|(name, value)| (name.as_str(), value.as_deref())));
        plan.command.insert_str(0, &variables);
        plan.inputs.extend(environment.into_iter().map(|(what, text)| Input {
            what,
            path: None,
            text,
        }));
        Ok(plan)
    }

    /// Creates a plan of jobs that are already parsed and come from no file. `name` is their name
    /// in a command line.
    /// `own` takes the place of the device of `args`.
    ///
    /// # Errors
    /// An option is wrong, or does not go with the device or the jobs.
    pub fn of_jobs(
        jobs: ParsedJobs,
        name: &str,
        args: &StackOptions,
        own: Option<OwnDevice>,
    ) -> Result<Self, Failure> {
        Self::of_sources(jobs, "run", &[name], args, own, TextFiles::default())
    }

    /// Creates a plan in which the processes of a trace replace jobs: `jobs` describe them, and
    /// `words` are those of a command line for the trace. `own` takes the place of the device of
    /// `args`.
    ///
    /// # Errors
    /// An option is wrong, or does not go with the device.
    pub fn of_replay(
        replay: ReplayPlan,
        jobs: ParsedJobs,
        words: &[&str],
        args: &StackOptions,
        own: Option<OwnDevice>,
    ) -> Result<Self, Failure> {
        let mut plan = Self::of_sources(jobs, REPLAY, words, args, own, TextFiles::default())?;
        if args.buffers.is_none() {
            // A bio keeps the size that it had in the trace.
            plan.memory = MemoryModel::Contiguous;
        }
        // The times of a trace already include CPU time.
        plan.cpu = CpuCost::default();
        plan.replay = Some(replay);
        Ok(plan)
    }

    /// Returns the same with another seed.
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Returns a sentence about a scheduler that no kernel has, and about the source of its CPU
    /// time; `None` if the scheduler is one of Linux.
    pub fn not_in_linux(&self) -> Option<String> {
        let name = self.scheduler.name;
        let cost = self.cpu.scheduler.request;
        let of_cpu = match &self.replay {
            _ if self.scheduler.info().in_linux => return None,
            _ if self.is_real() => String::new(),
            Some(_) => "; the CPU time of schedulers is not charged in a replay".to_owned(),
            None if cost.is_zero() => "; it is charged no CPU time here".to_owned(),
            None if cost == SchedulerCost::measured(name, true).request => {
                format!(
                    "; its CPU time, {cost} an I/O, is an estimate from that of bfq (docs/explanation/aileron.md)"
                )
            }
            None => format!("; its CPU time is {cost} an I/O, as given"),
        };
        Some(format!("{name} is Elevon's own scheduler, Linux does not have it{of_cpu}"))
    }

    /// Returns the command without its seed: what runs with other seeds share.
    pub fn command_without_seed(&self) -> String {
        self.command.replacen(&format!(" --seed {}", self.seed), "", 1)
    }

    /// Gives tenants what a text says that is a file of `--tenants`.
    ///
    /// # Errors
    /// The text is not one of tenants.
    pub fn set_tenants(&mut self, text: &str) -> Result<(), Failure> {
        let file = elevon_formats::tenants::parse("tenants", text, &self.kernel.rules())
            .map_err(Failure::text)?;
        self.tenants = TenantPlan::new(&self.jobs.jobs, Some(&file)).map_err(Failure::text)?;
        Ok(())
    }

    fn of_sources(
        mut jobs: ParsedJobs,
        verb: &str,
        names: &[&str],
        args: &StackOptions,
        own: Option<OwnDevice>,
        mut sources: TextFiles,
    ) -> Result<Self, Failure> {
        if let Some(text) = args.ioprio.first().filter(|_| verb != REPLAY) {
            return Err(Failure::named(format!("--ioprio {text}"), ConflictError::IoprioOfJobs));
        }
        let kernel = kernel_named("--kernel", args.kernel())?;
        let tenants = tenants(&jobs.jobs, args.queue.tenants.as_deref(), kernel, &mut sources)?;
        let scheduler = scheduler(scheduler_name(args, &tenants), kernel)?;
        let settings =
            args.queue.set.iter().map(|text| setting::pair(text)).collect::<Result<Vec<_>, _>>()?;
        let (own, device_file) = own_device(args, own, kernel)?;
        let target = match &own {
            Some(own) => Target::Simulated(own.spec.clone()),
            None => target(&args.device)?,
        };
        of_simulation_only(args, &target)?;
        let (cpu, cost) = cpu_cost(args.of_jobs.cpu_cost.as_deref(), &scheduler)?;
        let cache = CachePlan::new(memory(args, &target)?, kernel, &settings, cost)?;
        fits(cache.as_ref(), args)?;
        let of_cache =
            cache.is_some().then(|| jobs.with_cache()).transpose().map_err(Failure::text)?;
        let mut plan = Self {
            warnings: jobs
                .warnings
                .iter()
                .map(ToString::to_string)
                .chain(tenants.warnings.iter().cloned())
                .collect(),
            tenants,
            log_folder: LogFolder::new(args.of_jobs.log_dir.as_deref(), &jobs)?,
            jobs,
            replay: None,
            target,
            kernel,
            other_rule: None,
            scheduler,
            settings,
            seed: args.seed,
            memory: buffers(args)?,
            cpu,
            cache,
            faults: args.queue.fault.clone(),
            job_option: args.of_jobs.job_option.clone(),
            own,
            tenants_file: args.queue.tenants.clone(),
            command: command(verb, names, args),
            inputs: sources.files().chain(device_file).collect(),
        };
        if of_cache == Some(false) && !args.is_served {
            let option = if plan.is_real() { "--cache" } else { "--memory" };
            plan.warnings
                .push(format!("{option}: no job goes through the page cache: all have direct=1"));
        }
        plan.warnings.extend(other_kernel(args.kernel(), kernel));
        prefer_shares_by_weights(&mut plan);
        if args.queue.tenants.is_some() {
            plan.warnings.extend(weights_in_vain(&plan));
            limited_once(&plan)?;
        }
        if let Target::Simulated(_) = plan.target {
            plan.check_simulated(&args.device)?;
        }
        Ok(plan)
    }

    /// Checks the plan against its simulated device, which `given` names, and warns. The device is
    /// opened for this; a run opens it again.
    fn check_simulated(&mut self, given: &str) -> Result<(), Failure> {
        let device = self.device()?;
        let config = self.stack_config(device.description())?;
        self.refuse_not_atomic(&config.limits)?;
        self.warnings.extend(self.clamped(&config));
        let size = device.description().size.bytes();
        self.warnings.extend(surprises(&self.jobs.jobs, given, size));
        Ok(())
    }

    /// Returns the same for each other device that explains what the file of the device was fitted
    /// to.
    pub fn ends(&self) -> Vec<Self> {
        let ends = self.own.as_ref().map(OwnDevice::ends).unwrap_or_default();
        let of = |own: OwnDevice| Self {
            target: Target::Simulated(own.spec.clone()),
            own: Some(own),
            ..self.clone()
        };
        ends.into_iter().map(of).collect()
    }

    /// Opens the simulated device with its faults.
    ///
    /// # Errors
    /// A parameter or a fault is not one of the device.
    pub fn device(&self) -> Result<Fault<AnyDevice>, Failure> {
        let Target::Simulated(spec) = &self.target else {
            unreachable!("asked for a simulated device only")
        };
        let device = profiles::open(spec, self.seed)
            .map_err(|error| Failure::named(format!("--device {spec}"), error))?;
        let size = device.description().size.get();
        let rules = self.faults.iter().map(|text| {
            let rule = Rule::parse(text).and_then(|rule| rule.check_size(size).map(|()| rule));
            rule.map_err(|error| Failure::named(format!("--fault {text}"), error))
        });
        Ok(Fault::new(device, self.seed, rules.collect::<Result<_, _>>()?))
    }

    /// Returns the rules that the stack follows.
    fn rules(&self) -> Rules {
        let mut rules = self.kernel.rules();
        if let Some((row, other)) = self.other_rule {
            (RULES[row].copy)(&other.rules(), &mut rules);
        }
        rules
    }

    /// Returns a line for each setting and tunable that has another value in force.
    pub fn clamped(&self, config: &StackConfig) -> Vec<String> {
        let cache = self.cache.as_ref().map(|cache| cache.config(config));
        clamped::lines(&self.settings, config, cache.as_ref())
    }

    /// Returns true if the page cache is that of block devices: every buffered job uses one, in
    /// simulation.
    fn caches_devices(&self) -> bool {
        let mut buffered = self.jobs.jobs.iter().filter(|job| job.is_buffered()).peekable();
        self.cache.is_some()
            && !self.is_real()
            && buffered.peek().is_some()
            && buffered.all(uses_device)
    }

    /// Returns the configuration of the stack for a device.
    ///
    /// # Errors
    /// A setting is refused, or the limits contradict each other.
    pub fn stack_config(
        &self,
        device: &elevon_sim::device::Description,
    ) -> Result<StackConfig, Failure> {
        let mut config = device.stack_config();
        config.kernel = self.kernel;
        let rules = self.rules();
        config.other_rules = self.other_rule.map(|_| rules);
        config.scheduler = self.scheduler.clone();
        if let Some(crowds) = self.replay.as_ref().map(|replay| &replay.crowds) {
            config.wbt_writes = crowds.at_start;
            config.wbt_dirty_sleeps = crowds.show_dirty_sleeps(config.most_background_writes());
        }
        if let Target::Simulated(spec) = &self.target
            && let Some(profile) = profiles::profile(spec.split(':').next().unwrap_or_default())
        {
            config.io_timeout = profile.io_timeout();
            if let Some(driver) = profile.presented() {
                config.limits = driver.limits(&rules);
            }
        }
        // First the limits that the driver reports are made valid, then settings change them, as on
        // a running system.
        config.limits.validate(&rules).map_err(|error| Failure::named(&device.name, error))?;
        let is_real = self.is_real();
        if is_real {
            config.max_retries = 0;
        }
        if let Some(own) = &self.own {
            own.limit(&mut config.limits, &rules)?;
        }
        if self.caches_devices() {
            config.buffered_path = DirectPath::Blkdev;
        }
        // FUA needs a write cache, so it is set last, in whatever order they are given.
        let of_queue = || self.settings.iter().filter(|(key, _)| !settings::is_setting(key));
        for (key, value) in of_queue()
            .filter(|(key, _)| key != "fua")
            .chain(of_queue().filter(|(key, _)| key == "fua"))
        {
            config.set(key, value).map_err(setting::refused)?;
        }
        if is_real && config.max_retries > 0 {
            let of_real = ConflictError::RetriesOfReal { device: device.name.clone() };
            return Err(Failure::named(
                format!("--set max_retries={}", config.max_retries),
                of_real,
            ));
        }
        Ok(config)
    }

    /// Refuses jobs with atomic writes that a device with these limits, or the kernel, does not do.
    pub(crate) fn refuse_not_atomic(&self, limits: &QueueLimits) -> Result<(), Failure> {
        let mut errors = self.jobs.not_atomic(limits, &self.rules());
        errors.dedup();
        if errors.is_empty() { Ok(()) } else { Err(Failure::text(errors)) }
    }

    /// Returns an error in a job with the place of the option.
    pub(crate) fn at_option(&self, error: WorkloadError) -> Failure {
        let Some(job) = self.jobs.jobs.iter().position(|job| job.origin == error.origin) else {
            return Failure::input(error);
        };
        let WorkloadError { key, problem, message, .. } = error;
        Failure::text(vec![self.jobs.diagnostic(job, &key, problem.because(message))])
    }

    /// Returns the files that the plan reads, and its device.
    ///
    /// # Errors
    /// A file has two uses that exclude each other.
    pub fn files(&self) -> Result<Files, Failure> {
        self.add_files(Files::default())
    }

    /// Adds the files of this plan to those of other plans.
    ///
    /// # Errors
    /// As of [`Self::files`].
    pub fn add_files(&self, mut files: Files) -> Result<Files, Failure> {
        for Input { what, path, .. } in &self.inputs {
            path.iter().try_for_each(|path| files.add_input(what.clone(), path))?;
        }
        if let Target::Real(path) = &self.target {
            files.add_device(path)?;
            if self.writes() {
                check_image(path)?;
            }
        }
        Ok(files)
    }

    /// Returns true if the device is not simulated.
    pub const fn is_real(&self) -> bool {
        matches!(self.target, Target::Real(_) | Target::Nbd(_))
    }

    /// Returns true if a job writes or trims.
    pub fn writes(&self) -> bool {
        self.jobs.jobs.iter().any(|job| job.rw.write || job.rw.trim)
    }
}

/// Returns the described device, `own` or that of `--device @FILE`, and the file that was read.
fn own_device(
    args: &StackOptions,
    own: Option<OwnDevice>,
    kernel: Kernel,
) -> Result<(Option<OwnDevice>, Option<Input>), Failure> {
    let path = match (own, args.device.strip_prefix('@')) {
        (None, Some(path)) => path,
        (own, _) => return Ok((own, None)),
    };
    let own = OwnDevice::load("--device", path, &kernel.rules())?;
    let text = Some(own.text.clone());
    let file = Input { what: format!("--device @{path}"), path: Some(PathBuf::from(path)), text };
    Ok((Some(own), Some(file)))
}

/// Refuses options of simulations for a real device, which has its own limits, memory and times.
fn of_simulation_only(args: &StackOptions, target: &Target) -> Result<(), Failure> {
    let device = || match target {
        Target::Simulated(name) => name.clone(),
        Target::Real(path) => path.display().to_string(),
        Target::Nbd(address) => address.to_string(),
    };
    if let Target::Simulated(_) = target {
        return Ok(());
    }
    let buffers = "only simulated memory has a layout to choose";
    let fault = args.queue.fault.first().filter(|_| !args.is_served);
    let cpu_cost = "only simulated processes are charged CPU time; a real run spends it";
    for (option, value, why) in [
        ("--buffers", args.buffers.as_deref(), buffers),
        ("--cpu-cost", args.of_jobs.cpu_cost.as_deref(), cpu_cost),
        (
            "--fault",
            fault.map(String::as_str),
            "only a simulated device, or one that is served, has faults",
        ),
    ] {
        if let Some(value) = value {
            return Err(Failure::named(
                format!("{option} {value}"),
                ConflictError::SimulatedOnly { why, device: device() },
            ));
        }
    }
    Ok(())
}

/// Returns the memory behind user buffers.
fn buffers(args: &StackOptions) -> Result<MemoryModel, Failure> {
    let text = args.buffers.as_deref().unwrap_or(DEFAULT_BUFFERS);
    MemoryModel::parse(text).map_err(|error| Failure::named(format!("--buffers {text}"), error))
}

/// Returns the memory given on the command line, if it fits the kind of device.
fn memory<'a>(args: &'a StackOptions, target: &Target) -> Result<Memory<'a>, Failure> {
    if args.is_served {
        return Ok(args.cache.as_deref().map_or(Memory::NoneServed, Memory::Real));
    }
    match (args.of_jobs.memory.as_deref(), args.cache.as_deref(), target) {
        (Some(memory), _, Target::Nbd(address)) => {
            let device = address.to_string();
            Err(Failure::named(
                format!("--memory {memory}"),
                ConflictError::MemoryOfReal { device },
            ))
        }
        (None, Some(cache), Target::Nbd(address)) => {
            let device = address.to_string();
            Err(Failure::named(format!("--cache {cache}"), ConflictError::CacheOfNbd { device }))
        }
        (Some(memory), _, Target::Real(path)) => {
            let device = path.display().to_string();
            Err(Failure::named(
                format!("--memory {memory}"),
                ConflictError::MemoryOfReal { device },
            ))
        }
        (_, Some(cache), Target::Simulated(device)) => {
            let device = device.clone();
            Err(Failure::named(
                format!("--cache {cache}"),
                ConflictError::CacheOfSimulated { device },
            ))
        }
        (Some(memory), None, Target::Simulated(_)) => Ok(Memory::Simulated(memory)),
        (None, Some(cache), Target::Real(_)) => Ok(Memory::Real(cache)),
        (None, None, Target::Simulated(_) | Target::Real(_) | Target::Nbd(_)) => Ok(Memory::None),
    }
}

/// Returns the scheduler with its default. io.cost divides the device by weights of its own.
fn scheduler_name<'a>(args: &'a StackOptions, tenants: &TenantPlan) -> &'a str {
    let is_divided = args.queue.scheduler.is_none() && enables_cost(tenants);
    if is_divided { DEFAULT_SCHEDULER } else { args.scheduler() }
}

/// Reads `--scheduler`, whose tunables the kernel version must have as such.
fn scheduler(text: &str, kernel: Kernel) -> Result<SchedulerConfig, Failure> {
    let checked = SchedulerConfig::parse(text).and_then(|scheduler| {
        scheduler.check(&kernel.rules())?;
        Ok(scheduler)
    });
    checked.map_err(|error| Failure::named(format!("--scheduler {text}"), error))
}

/// Refuses a job that writes to a file that cannot be a disk image.
fn check_image(path: &Path) -> Result<(), Failure> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() && metadata.len() % 512 != 0 => {
            let no_image = FileError::NoImage { bytes: metadata.len() };
            Err(Failure::named(format!("--device {}", path.display()), no_image))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns a path as text.
fn text_of<'a>(what: &str, path: &'a Path) -> Result<&'a str, Failure> {
    name_of(path).ok_or_else(|| Failure::named(format!("{what} {path:?}"), FileError::NameNotText))
}

/// Returns the command line with everything that is not a default, quoted for a shell.
pub fn command(verb: &str, jobs: &[&str], args: &StackOptions) -> String {
    command_with_seed(verb, jobs, args, Some(args.seed))
}

/// Returns the same with this seed, or without one: what runs with different seeds share.
pub fn command_with_seed(
    verb: &str,
    jobs: &[&str],
    args: &StackOptions,
    seed: Option<u64>,
) -> String {
    let seed = seed.map(|seed| seed.to_string());
    let mut words = ["elevon", verb].to_vec();
    words.extend(jobs);
    words.extend(["--device", &args.device]);
    words.extend(seed.iter().flat_map(|seed| ["--seed", seed]));
    let (scheduler, kernel) = (args.scheduler(), args.kernel());
    let default = args.default_scheduler();
    // A replay that is not told these takes them from the trace.
    let is_replay = verb == REPLAY;
    for (name, value, default) in
        [("--scheduler", scheduler, default), ("--kernel", kernel, DEFAULT_KERNEL)]
    {
        if value != default || is_replay {
            words.extend([name, value]);
        }
    }
    let buffers = args.buffers.as_deref().filter(|model| *model != DEFAULT_BUFFERS);
    words.extend(buffers.into_iter().flat_map(|model| ["--buffers", model]));
    let jobs_only = &args.of_jobs;
    words.extend(jobs_only.cpu_cost.iter().flat_map(|cost| ["--cpu-cost", cost]));
    let tenants = args.queue.tenants.as_deref().and_then(name_of);
    words.extend(tenants.into_iter().flat_map(|path| ["--tenants", path]));
    let folders = [("--log-dir", &jobs_only.log_dir), ("--include-dir", &jobs_only.include_dir)];
    let folders: Vec<(&str, Cow<'_, str>)> = folders
        .iter()
        .flat_map(|(name, folder)| folder.as_deref().map(|f| (*name, f.to_string_lossy())))
        .collect();
    words.extend(folders.iter().flat_map(|(name, folder)| [*name, folder]));
    words.extend(jobs_only.memory.iter().flat_map(|memory| ["--memory", memory]));
    words.extend(args.cache.iter().flat_map(|cache| ["--cache", cache]));
    words.extend(jobs_only.job_option.iter().flat_map(|option| ["--job-option", option]));
    words.extend(args.queue.set.iter().flat_map(|set| ["--set", set]));
    words.extend(args.ioprio.iter().flat_map(|prio| ["--ioprio", prio]));
    words.extend(args.queue.fault.iter().flat_map(|fault| ["--fault", fault]));
    let is_of_stdin = jobs.contains(&STDIN) || tenants == Some(STDIN);
    let note = if is_of_stdin { "  # and the same text on stdin" } else { "" };
    quoted(words) + note
}

/// Returns the kernel version of a name that `what` was given.
///
/// # Errors
/// There is no such version.
pub fn kernel_named(what: &str, name: &str) -> Result<Kernel, Failure> {
    Kernel::from_name(name).ok_or_else(|| {
        let all: Vec<&str> = Kernel::ALL.iter().map(|k| k.name()).collect();
        let not_modelled =
            ValueError::NotModelled { known: all.join(", "), instead: Kernel::instead_of(name) };
        Failure::named(format!("{what} {name}"), not_modelled)
    })
}

/// Warns if another version than the given one is modelled in its place.
fn other_kernel(given: &str, kernel: Kernel) -> Option<String> {
    let (name, release) = (kernel.name(), kernel.release());
    (given.trim_start_matches('v') != name)
        .then(|| format!("--kernel {given}: the rules of {name} are used, as of {release}"))
}

/// Refuses a page cache of a real device that the machine's memory cannot hold.
fn fits(cache: Option<&CachePlan>, args: &StackOptions) -> Result<(), Failure> {
    match (cache, &args.cache) {
        (Some(cache), Some(text)) => cache.fits(text, elevon_host::memory::total()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_simulated_and_a_path_is_real() {
        let is_real = |device: &str| matches!(target(device), Ok(Target::Real(_)));
        assert!(
            !is_real("hdd-7200") && !is_real("slots:slots=2,latency=1ms,bandwidth=1MB/s,size=1MiB")
        );
        assert!(is_real("./hdd-7200") && is_real("/dev/sda"));
        let Err(Failure::Input(lines)) = target("hdd-7201") else {
            panic!("an unknown name passed")
        };
        let line = lines[0].to_string();
        assert!(line.contains("hdd-7200") && line.contains("./hdd-7201"), "{line}");
    }
}
