//! Arguments to a checked plan: nothing is opened or run before everything that can be checked has
//! been.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use elevon_cache::settings;
use elevon_core::kernel::Kernel;
use elevon_core::sched::SchedulerConfig;
use elevon_core::stack::StackConfig;
use elevon_formats::cgroup::Setting;
use elevon_formats::fio::spec::JobSpec;
use elevon_formats::fio::{ParsedJobs, parse_all};
use elevon_sim::device::{AnyDevice, Device, fault::Fault};
use elevon_sim::memory::MemoryModel;
use elevon_sim::profiles;
use elevon_workload::cpu::CpuCost;
use elevon_workload::logs::LogEntry;
use elevon_workload::region::{self, Placement};
use elevon_workload::tenants::{BFQ_WEIGHT_MAX, TenantPlan, is_weight};

use crate::args::StackArgs;
use crate::cpu_cost::cpu_cost;
use crate::failure::Failure;
use crate::files::Files;
use crate::in_force;
use crate::logs::LogFolder;
use crate::memory::{CachePlan, Memory};
use crate::own_device::OwnDevice;
use crate::replay::Replay;
use crate::setting;
use crate::source::{STDIN, Sources, name_of, quoted};

/// Memory behind user buffers where nobody says otherwise.
const DEFAULT_BUFFERS: &str = "fragmented";

/// A device that will be simulated, or a path that will really be read and written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Simulated(String),
    Real(PathBuf),
}

/// A run, checked as far as it can be without opening anything.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) jobs: ParsedJobs,
    /// The trace whose I/O is done in place of that of jobs; `jobs` then describes its processes.
    pub(crate) replay: Option<Replay>,
    pub(crate) target: Target,
    pub(crate) kernel: Kernel,
    pub(crate) scheduler: SchedulerConfig,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) seed: u64,
    pub(crate) memory: MemoryModel,
    pub(crate) cpu: CpuCost,
    /// The page cache, where the machine has memory for one.
    pub(crate) cache: Option<CachePlan>,
    pub(crate) faults: Vec<String>,
    /// The cgroups of jobs and of `--tenants`, with what is set for each.
    pub(crate) tenants: TenantPlan,
    /// Where the logs of jobs go.
    pub(crate) log_folder: LogFolder,
    /// The file of `--device @FILE`.
    pub(crate) own: Option<OwnDevice>,
    /// The file of `--tenants`.
    pub(crate) tenants_file: Option<PathBuf>,
    /// A command line that makes this run again.
    pub(crate) command: String,
    /// The files that were read for it, with their names.
    pub(crate) inputs: Vec<(String, PathBuf)>,
    /// What the user should know before it runs.
    pub(crate) warnings: Vec<String>,
}

impl Plan {
    /// Reads the job files and checks every option.
    pub(crate) fn new(jobs: &[PathBuf], args: &StackArgs) -> Result<Self, Failure> {
        let mut sources = Sources::new(args.include_dir.as_deref());
        let names: Vec<&str> = jobs.iter().map(|path| text_of("the job file", path)).collect::<Result<_, _>>()?;
        let parsed = parse_all(&mut sources, &names).map_err(|mut errors| {
            // What is included twice is wrong twice.
            errors.dedup();
            Failure::text(errors)
        })?;
        Self::of_sources(parsed, "run", &names, args, sources)
    }

    /// The same for jobs that are parsed already and no file; `name` is how a command line names
    /// them.
    pub(crate) fn of_jobs(jobs: ParsedJobs, name: &str, args: &StackArgs) -> Result<Self, Failure> {
        Self::of_sources(jobs, "run", &[name], args, Sources::default())
    }

    /// The processes of a trace in place of jobs.
    pub(crate) fn of_replay(replay: Replay, args: &StackArgs) -> Result<Self, Failure> {
        replay.check(args)?;
        let words = replay.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut plan = Self::of_sources(replay.described(), "replay", &words, args, Sources::default())?;
        if args.buffers.is_none() {
            // A bio stays as it was traced.
            plan.memory = MemoryModel::Contiguous;
        }
        // The times of a trace have it in them.
        plan.cpu = CpuCost::default();
        plan.warnings.extend(replay.said());
        plan.inputs.extend(replay.inputs());
        plan.replay = Some(replay);
        Ok(plan)
    }

    fn of_sources(
        mut jobs: ParsedJobs,
        verb: &str,
        names: &[&str],
        args: &StackArgs,
        mut sources: Sources,
    ) -> Result<Self, Failure> {
        let kernel = kernel_named(&args.kernel)?;
        let scheduler = SchedulerConfig::parse(&args.scheduler)
            .map_err(|error| Failure::input(format!("--scheduler {}: {error}", args.scheduler)))?;
        let settings = args.set.iter().map(|text| setting::pair(text)).collect::<Result<Vec<_>, _>>()?;
        let own = args.device.strip_prefix('@').map(|path| OwnDevice::load("--device", path, &kernel.rules()));
        let own = own.transpose()?;
        let target = match &own {
            Some(own) => Target::Simulated(own.spec.clone()),
            None => target(&args.device)?,
        };
        let device_file = args.device.strip_prefix('@').map(|path| (format!("--device @{path}"), PathBuf::from(path)));
        of_simulation_only(args, &target)?;
        let (cpu, cost) = cpu_cost(args.cpu_cost.as_deref(), &scheduler)?;
        let cache = CachePlan::new(memory(args, &target)?, kernel, &settings, cost)?;
        if let (Some(cache), Some(text)) = (&cache, &args.cache) {
            cache.fits(text, elevon_host::memory::total())?;
        }
        let of_cache = cache.is_some().then(|| jobs.with_cache());
        let buffers = args.buffers.as_deref().unwrap_or(DEFAULT_BUFFERS);
        let memory = MemoryModel::parse(buffers).map_err(|e| Failure::input(format!("--buffers: {e}")))?;
        let tenants = tenants(&jobs.jobs, args.tenants.as_deref(), kernel, &mut sources)?;
        let mut plan = Self {
            warnings: jobs.warnings.iter().map(ToString::to_string).chain(tenants.warnings.iter().cloned()).collect(),
            tenants,
            log_folder: LogFolder::new(args.log_dir.as_deref(), &jobs)?,
            jobs,
            replay: None,
            target,
            kernel,
            scheduler,
            settings,
            seed: args.seed,
            memory,
            cpu,
            cache,
            faults: args.fault.clone(),
            own,
            tenants_file: args.tenants.clone(),
            command: command(verb, names, args),
            inputs: sources.files().chain(device_file).collect(),
        };
        if of_cache == Some(false) {
            let option = if plan.is_real() { "--cache" } else { "--memory" };
            plan.warnings.push(format!("{option}: no job goes through the page cache: all have direct=1"));
        }
        if args.kernel.trim_start_matches('v') != kernel.name() {
            let (name, release) = (kernel.name(), kernel.release());
            plan.warnings.push(format!("--kernel {}: the rules of {name} are used, as of {release}", args.kernel));
        }
        if args.tenants.is_some() {
            plan.warnings.extend(weights_in_vain(&plan));
            limited_once(&plan)?;
        }
        if let Target::Simulated(_) = plan.target {
            // Opened once to check it; a run opens its own.
            let device = plan.device()?;
            let config = plan.stack_config(device.description())?;
            plan.warnings.extend(in_force::differing(&plan.settings, &config));
            plan.warnings.extend(surprises(&plan.jobs.jobs, &args.device, device.description().size.bytes().get()));
        }
        Ok(plan)
    }

    /// Opens the simulated device, with its faults.
    pub(crate) fn device(&self) -> Result<Fault<AnyDevice>, Failure> {
        let Target::Simulated(spec) = &self.target else { unreachable!("asked for a simulated device only") };
        let device = profiles::open(spec, self.seed).map_err(|e| Failure::input(format!("--device {spec}: {e}")))?;
        Fault::parse(device, self.seed, &self.faults).map_err(|e| Failure::input(format!("--fault: {e}")))
    }

    /// The stack for a device.
    pub(crate) fn stack_config(&self, device: &elevon_sim::device::Description) -> Result<StackConfig, Failure> {
        let mut config = device.stack_config();
        config.kernel = self.kernel;
        config.scheduler = self.scheduler.clone();
        if let Target::Simulated(spec) = &self.target
            && let Some(profile) = profiles::profile(spec.split(':').next().unwrap_or_default())
        {
            config.io_timeout = profile.io_timeout();
        }
        // What the driver reports is made valid first; settings then change a valid whole, as on a
        // running system.
        config.limits.validate(&config.kernel.rules()).map_err(|e| Failure::input(format!("{}: {e}", device.name)))?;
        let is_real = self.is_real();
        if is_real {
            config.max_retries = 0;
        }
        if let Some(own) = &self.own {
            own.limit(&mut config.limits, &config.kernel.rules())?;
        }
        for (key, value) in self.settings.iter().filter(|(key, _)| !settings::is_setting(key)) {
            config.set(key, value).map_err(|error| setting::refused(&error))?;
        }
        if is_real && config.max_retries > 0 {
            return Err(Failure::input(format!(
                "--set max_retries={}: {} is real: the kernel below has tried already, and its answer is final; only 0 is right",
                config.max_retries, device.name
            )));
        }
        Ok(config)
    }

    /// The files that it reads, and its device.
    pub(crate) fn files(&self) -> Result<Files, Failure> {
        self.add_files(Files::default())
    }

    /// The same beside those of other plans.
    pub(crate) fn add_files(&self, mut files: Files) -> Result<Files, Failure> {
        for (what, path) in &self.inputs {
            files.add_input(what.clone(), path)?;
        }
        if let Target::Real(path) = &self.target {
            files.add_device(path)?;
            if self.writes() {
                check_image(path)?;
            }
        }
        Ok(files)
    }

    /// Whether its target is a file or a block device of this machine.
    pub(crate) const fn is_real(&self) -> bool {
        matches!(self.target, Target::Real(_))
    }

    /// Whether any job writes or trims.
    pub(crate) fn writes(&self) -> bool {
        self.jobs.jobs.iter().any(|job| job.rw.write || job.rw.trim)
    }
}

/// Refuses what a real device, its memory and its time have by themselves.
fn of_simulation_only(args: &StackArgs, target: &Target) -> Result<(), Failure> {
    let Target::Real(path) = target else { return Ok(()) };
    let path = path.display();
    let buffers = "only simulated memory has a layout to choose";
    let cpu_cost = "only simulated processes are charged CPU time; a real run spends it";
    for (option, value, why) in [
        ("--buffers", args.buffers.as_deref(), buffers),
        ("--cpu-cost", args.cpu_cost.as_deref(), cpu_cost),
        ("--fault", args.fault.first().map(String::as_str), "only a simulated device has faults"),
    ] {
        if let Some(value) = value {
            return Err(Failure::input(format!("{option} {value}: {why}; {path} is real")));
        }
    }
    Ok(())
}

/// What the command line says of memory, if it goes with the device.
fn memory<'a>(args: &'a StackArgs, target: &Target) -> Result<Memory<'a>, Failure> {
    match (args.memory.as_deref(), args.cache.as_deref(), target) {
        (Some(memory), _, Target::Real(path)) => Err(Failure::input(format!(
            "--memory {memory}: only a simulated machine has it; {} is real, and --cache SIZE puts a page cache before it",
            path.display()
        ))),
        (_, Some(cache), Target::Simulated(device)) => Err(Failure::input(format!(
            "--cache {cache}: stands before a real device; {device} is simulated, and --memory SIZE gives its machine a page cache"
        ))),
        (Some(memory), None, Target::Simulated(_)) => Ok(Memory::Simulated(memory)),
        (None, Some(cache), Target::Real(_)) => Ok(Memory::Real(cache)),
        (None, None, Target::Simulated(_) | Target::Real(_)) => Ok(Memory::None),
    }
}

/// I/Os from which a simulated job without an end of its own is worth a word: about half a minute.
const MANY_IOS: u64 = 50_000_000;

/// What a user may not expect of a simulated run.
fn surprises(jobs: &[JobSpec], device: &str, device_bytes: u64) -> Vec<String> {
    let mut lines = Vec::new();
    if Path::new(device).exists() {
        lines.push(format!(
            "--device {device} is the simulated device, not the file of that name; write ./{device} for the file"
        ));
    }
    let mut placement = Placement::new(device_bytes, None, 512);
    for job in jobs {
        let name = &job.name;
        let bytes = placement.place(job, 0, 0).map_or(0, |extent| extent.bytes);
        let ios = bytes.saturating_mul(job.loops) / region::largest_block(job).max(1);
        let ios = ios.saturating_mul(u64::from(job.numjobs));
        if job.runtime.is_zero() && job.number_ios.is_none() && ios >= MANY_IOS {
            let (million, gb) = (ios / 1_000_000, bytes.saturating_mul(job.loops) / 1_000_000_000);
            let what =
                if job.size.is_some() { "size= asks for" } else { "without size= the job goes over the whole device:" };
            lines.push(format!(
                "{name}: {what} {gb} GB, {million} million I/Os, which takes {}; runtime= ends it sooner",
                wall_time(ios)
            ));
        }
        let logged = job.number_ios.map_or(ios, |most| ios.min(most.saturating_mul(u64::from(job.numjobs))));
        lines.extend(log_memory(job, logged));
        if job.verify.method.is_some() {
            lines.push(format!(
                "{name}: a simulated device keeps no data: verify= costs its reads, but nothing is compared"
            ));
        }
    }
    lines
}

/// Simulated I/Os in a second of the wall clock, by order of magnitude.
const IOS_A_SECOND: u64 = 1_000_000;

/// About how long the wall clock takes for so many simulated I/Os.
fn wall_time(ios: u64) -> String {
    match ios / IOS_A_SECOND {
        0..=5_399 => "minutes".to_owned(),
        seconds @ 5_400..=129_599 => format!("about {} hours", seconds.div_ceil(3_600)),
        seconds => format!("about {} days", seconds.div_ceil(86_400)),
    }
}

/// Bytes that a log keeps of an I/O until the run is over.
const LOG_ENTRY: u64 = size_of::<LogEntry>() as u64;
/// Bytes of logs from which the user is told.
const MUCH_LOG: u64 = 1 << 30;

/// What is to be said of logs with a line an I/O, which stay in memory until the end.
fn log_memory(job: &JobSpec, ios: u64) -> Option<String> {
    let logs = &job.logs;
    let kept = [logs.bandwidth.is_some(), logs.iops.is_some()].iter().filter(|is| **is).count() as u64
        + if logs.latency.is_some() { 2 + u64::from(job.engine.asynchronous) } else { 0 };
    let bytes = ios.saturating_mul(kept).saturating_mul(LOG_ENTRY);
    (logs.average_ms == 0 && bytes >= MUCH_LOG).then(|| {
        format!(
            "{}: its logs have a line for each of up to {} million I/Os, and stay in memory until the run is over: up to {} GiB; \
             log_avg_msec= keeps a line a window",
            job.name,
            ios / 1_000_000,
            bytes >> 30
        )
    })
}

/// Reads the file of tenants, if there is one, and joins it with the cgroups of the jobs.
fn tenants(
    jobs: &[JobSpec],
    path: Option<&Path>,
    kernel: Kernel,
    sources: &mut Sources,
) -> Result<TenantPlan, Failure> {
    let file = path
        .map(|path| {
            let name = text_of("--tenants", path)?;
            let text = sources.text(name).map_err(|error| Failure::input(format!("--tenants {name}: {error}")))?;
            elevon_formats::tenants::parse(name, &text, &kernel.rules()).map_err(Failure::text)
        })
        .transpose()?;
    TenantPlan::new(jobs, file.as_ref()).map_err(Failure::text)
}

/// Weights that nothing looks at under this plan.
fn weights_in_vain(plan: &Plan) -> Vec<String> {
    let is_bfq = plan.scheduler.name == "bfq";
    let changes = || plan.tenants.changes.iter().map(|change| &change.setting);
    let has_cost = plan.tenants.device.iter().chain(changes()).any(|setting| match setting {
        Setting::CostQos(qos) => qos.enable == Some(true),
        _ => false,
    });
    let all = || plan.tenants.tenants.iter().flat_map(|tenant| &tenant.settings).chain(changes());
    let mut lines = Vec::new();
    if !is_bfq && !has_cost && all().any(is_weight) {
        let how = "--scheduler bfq, or under [device] \"io.cost.qos\" = \"enable=1\"";
        lines.push(format!("--tenants: nothing here divides the device by weights; what does is {how}"));
    }
    if is_bfq && all().any(|setting| matches!(setting, Setting::Weight(weight) if *weight > BFQ_WEIGHT_MAX)) {
        lines.push(format!("--tenants: BFQ counts a weight above {BFQ_WEIGHT_MAX} as {BFQ_WEIGHT_MAX}"));
    }
    lines
}

/// Refuses a rate of one tenant that `io.max` and `limit` both set if `io.max` is exact: both then
/// set the same limit, and the later would replace the earlier.
fn limited_once(plan: &Plan) -> Result<(), Failure> {
    let is_exact =
        plan.settings.iter().rev().find(|(key, _)| key == "io_max").is_some_and(|(_, value)| value == "exact");
    let of_tenants = plan.tenants.tenants.iter().enumerate();
    for (at, tenant) in of_tenants.filter(|_| is_exact) {
        let changes = plan.tenants.changes.iter().filter(|change| change.tenant.index() == at + 1);
        let all = || tenant.settings.iter().chain(changes.clone().map(|change| &change.setting));
        let (mut max, mut limit) = ([false; 4], [false; 4]);
        for setting in all() {
            let (rates, given) = match setting {
                Setting::IoMax(io) => ([io.rbps, io.wbps, io.riops, io.wiops], &mut max),
                Setting::Limit(own) => ([own.rbps, own.wbps, own.riops, own.wiops], &mut limit),
                _ => continue,
            };
            given.iter_mut().zip(rates).for_each(|(given, rate)| *given |= rate.is_some());
        }
        let both = ["rbps", "wbps", "riops", "wiops"].into_iter().zip(max.into_iter().zip(limit));
        if let Some((rate, _)) = both.into_iter().find(|(_, (max, limit))| *max && *limit) {
            let path = &tenant.path;
            return Err(Failure::input(format!(
                "--set io_max=exact: tenant {path} has {rate} in io.max and in limit, which then set the same limit; give it in one of them"
            )));
        }
    }
    Ok(())
}

/// A known device name is simulated; anything with a slash, or that exists, is a path.
pub(crate) fn target(device: &str) -> Result<Target, Failure> {
    let name = device.split(':').next().unwrap_or_default();
    if profiles::names().any(|known| known == name) {
        return Ok(Target::Simulated(device.to_owned()));
    }
    let path = Path::new(device);
    if device.contains('/') || path.exists() {
        return Ok(Target::Real(path.to_owned()));
    }
    match profiles::open(device, 0) {
        Ok(_) => Ok(Target::Simulated(device.to_owned())),
        Err(_) if device.is_empty() => {
            Err(Failure::input("--device: expected a name or a path; `elevon devices` lists names"))
        }
        Err(error) => {
            Err(Failure::input(format!("--device {device}: {error}; for a file in this directory write ./{device}")))
        }
    }
}

/// A job that writes is not let loose on a file that cannot be the image of a disk.
fn check_image(path: &Path) -> Result<(), Failure> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() && metadata.len() % 512 != 0 => {
            let (path, bytes) = (path.display(), metadata.len());
            Err(Failure::input(format!(
                "--device {path}: has {bytes} bytes, no multiple of 512, so it is no image of a disk, and a job that \
                 writes would spoil it; name another file, or one that does not exist yet"
            )))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// A path as text.
fn text_of<'a>(what: &str, path: &'a Path) -> Result<&'a str, Failure> {
    name_of(path).ok_or_else(|| {
        Failure::input(format!("{what} {path:?}: its name is no UTF-8; rename it, or give it by - (stdin)"))
    })
}

/// The command line again, with everything that is not a default, as a shell reads it.
fn command(verb: &str, jobs: &[&str], args: &StackArgs) -> String {
    let seed = args.seed.to_string();
    let mut words = ["elevon", verb].to_vec();
    words.extend(jobs);
    words.extend(["--device", &args.device, "--seed", &seed]);
    for (name, value, default) in [("--scheduler", &args.scheduler, "none"), ("--kernel", &args.kernel, "6.18")] {
        if value != default {
            words.extend([name, value]);
        }
    }
    let buffers = args.buffers.as_deref().filter(|model| *model != DEFAULT_BUFFERS);
    words.extend(buffers.into_iter().flat_map(|model| ["--buffers", model]));
    words.extend(args.cpu_cost.iter().flat_map(|cost| ["--cpu-cost", cost]));
    let tenants = args.tenants.as_deref().and_then(name_of);
    words.extend(tenants.into_iter().flat_map(|path| ["--tenants", path]));
    let folders = [("--log-dir", &args.log_dir), ("--include-dir", &args.include_dir)];
    let folders: Vec<(&str, Cow<'_, str>)> =
        folders.iter().flat_map(|(name, folder)| folder.as_deref().map(|f| (*name, f.to_string_lossy()))).collect();
    words.extend(folders.iter().flat_map(|(name, folder)| [*name, folder]));
    words.extend(args.memory.iter().flat_map(|memory| ["--memory", memory]));
    words.extend(args.cache.iter().flat_map(|cache| ["--cache", cache]));
    words.extend(args.set.iter().flat_map(|set| ["--set", set]));
    words.extend(args.fault.iter().flat_map(|fault| ["--fault", fault]));
    let is_of_stdin = jobs.contains(&STDIN) || tenants == Some(STDIN);
    let note = if is_of_stdin { "  # and the same text on stdin" } else { "" };
    quoted(words) + note
}

fn kernel_named(name: &str) -> Result<Kernel, Failure> {
    Kernel::from_name(name).ok_or_else(|| {
        let all: Vec<&str> = Kernel::ALL.iter().map(|k| k.name()).collect();
        let (all, instead) = (all.join(", "), Kernel::instead_of(name));
        Failure::input(format!("--kernel {name}: not modelled; there are {all}; {instead}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_days_is_not_said_to_take_minutes() {
        let texts = [60, 7_200, 256_000].map(|seconds| wall_time(seconds * IOS_A_SECOND));
        assert_eq!(texts, ["minutes", "about 2 hours", "about 3 days"]);
    }

    #[test]
    fn logs_that_want_much_memory_are_told_of() {
        let mut job = JobSpec::default_job("a");
        assert_eq!(log_memory(&job, 100_000_000), None, "no log");
        job.logs.latency = Some("l".into());
        assert_eq!(log_memory(&job, 1_000_000), None, "a few megabytes");
        let line = log_memory(&job, 100_000_000).expect("gigabytes");
        assert!(line.contains("100 million") && line.contains("GiB"), "{line}");
        job.logs.average_ms = 1000;
        assert_eq!(log_memory(&job, 100_000_000), None, "a line a second");
    }

    #[test]
    fn a_name_is_simulated_and_a_path_is_real() {
        let is_real = |device: &str| matches!(target(device), Ok(Target::Real(_)));
        assert!(!is_real("hdd-7200") && !is_real("slots:slots=2,latency=1ms,bandwidth=1MB/s,size=1MiB"));
        assert!(is_real("./hdd-7200") && is_real("/dev/sda"));
        let Err(Failure::Input(lines)) = target("hdd-7201") else { panic!("an unknown name passed") };
        let line = lines[0].to_string();
        assert!(line.contains("hdd-7200") && line.contains("./hdd-7201"), "{line}");
    }
}
