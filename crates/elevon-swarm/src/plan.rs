//! The plan of a random seed: every choice of a run, as a value that prints itself.

use std::fmt;

use elevon_core::kernel::{IoTicksForm, Kernel};
use elevon_core::limits::QueueLimits;
use elevon_core::sched::{SCHEDULERS, SchedulerConfig, TunableInfo};
use elevon_core::stack::StackConfig;
use elevon_core::units::{Instant, Sectors};
use elevon_sim::chance::{below, draw};
use elevon_sim::device::fault::content::PowerCut;
use elevon_sim::device::{Description, Device};
use elevon_sim::profiles::{PROFILES, open};

use super::cache::DrawnCache;
use super::tenants::Drawn;

/// Separates the draws of tenants from the others.
const TENANTS: u64 = u64::from_be_bytes(*b"tenants.");
/// Separates the draws of silent faults from the others.
const SILENT: u64 = u64::from_be_bytes(*b"silent..");

/// Separates the draws of a page cache from the others.
const CACHE: u64 = u64::from_be_bytes(*b"cache...");

/// A stream of draws.
#[derive(Clone, Debug)]
pub(super) struct Dice {
    seed: u64,
    counter: u64,
}

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed, counter: 0 }
    }
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.counter += 1;
        below(draw(self.seed, u64::from_be_bytes(*b"swarm..."), self.counter), bound)
    }
    pub(super) fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }
    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

/// All choices of a random seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Random seed.
    pub seed: u64,
    /// Device as given on the command line.
    pub device: String,
    /// Limits that differ from the device's own.
    pub limits: Vec<(&'static str, u64)>,
    /// Settings as `--set` takes them.
    pub settings: Vec<(&'static str, String)>,
    /// Kernel version.
    pub kernel: Kernel,
    /// Scheduler with its tunables.
    pub scheduler: String,
    /// Memory model.
    pub memory: &'static str,
    /// Faults of phase one.
    pub faults: Vec<String>,
    /// Power cut in phase one: its time, and what it preserves.
    pub power_cut: Option<(Instant, PowerCut)>,
    /// Chance per step, in thousandths, that a tunable of the scheduler changes.
    pub tunable_changes: u64,
    /// CPU time of an I/O in ns: submit, complete.
    pub cpu: (u64, u64),
    /// Job files of the two phases.
    pub jobs: [String; 2],
    /// Tenants; most seeds have some.
    pub tenants: Option<Drawn>,
    /// Page cache, in about half of the seeds.
    pub cache: Option<DrawnCache>,
    /// Number of events that a violation shows; not drawn.
    pub events_shown: usize,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        writeln!(f, "  device {}, limits {:?}", self.device, self.limits)?;
        writeln!(
            f,
            "  kernel {}, scheduler {}, settings {:?}",
            self.kernel.name(),
            self.scheduler,
            self.settings
        )?;
        writeln!(f, "  memory {}, cpu {:?} ns, faults {:?}", self.memory, self.cpu, self.faults)?;
        writeln!(
            f,
            "  power cut {:?}, tunables change in {} of 1000 steps",
            self.power_cut, self.tunable_changes
        )?;
        for (phase, jobs) in self.jobs.iter().enumerate() {
            writeln!(f, "  phase {}:", phase + 1)?;
            for line in jobs.lines() {
                writeln!(f, "    {line}")?;
            }
        }
        if let Some(cache) = &self.cache {
            writeln!(f, "  {cache:?}")?;
        }
        if let Some(tenants) = &self.tenants {
            writeln!(f, "  tenants, removed {:?}:", tenants.removals)?;
            for line in tenants.text.lines() {
                writeln!(f, "    {line}")?;
            }
        }
        Ok(())
    }
}

impl Plan {
    /// Draws the whole plan.
    pub fn new(seed: u64) -> Self {
        let mut plan = Self::without_tenants(seed);
        plan.draw_cache(&mut Dice::new(seed ^ CACHE));
        plan.draw_tenants(&mut Dice::new(seed ^ TENANTS));
        plan.draw_silent_fault(&mut Dice::new(seed ^ SILENT));
        plan
    }

    /// Draws everything except tenants and page cache.
    pub fn without_tenants(seed: u64) -> Self {
        let dice = &mut Dice::new(seed);
        let device = device(dice);
        let description = open(&device, seed).expect("a device of the swarm").description().clone();
        let kernel = *dice.pick(&Kernel::ALL);
        let scheduler = scheduler(dice, kernel);
        let limits = limits(dice, &description, kernel);
        let mut plan = Self {
            seed,
            device,
            limits,
            settings: Vec::new(),
            kernel,
            scheduler,
            memory: *dice.pick(&[
                "contiguous",
                "fragmented",
                "fragmented:p1=300000,p4=100000",
                "runs:2x3,1x40,7x1",
            ]),
            faults: Vec::new(),
            power_cut: None,
            tunable_changes: *dice.pick(&[0, 0, 5, 50]),
            cpu: *dice.pick(&[(0, 0), (1000, 500), (4000, 1400), (50_000, 0)]),
            jobs: Default::default(),
            tenants: None,
            cache: None,
            events_shown: 40,
        };
        settings(dice, &mut plan);
        let config = plan.stack_config(&description);
        for _ in 0..*dice.pick(&[0, 0, 1, 2, 3]) {
            plan.faults.push(fault(dice));
        }
        if dice.percent(30) {
            plan.power_cut =
                Some((Instant::new(dice.below(50_000_000)), *dice.pick(&PowerCut::ALL)));
        }
        let limits = &config.limits;
        let budget = if plan.device.starts_with("hdd") || plan.device.starts_with("emmc") {
            60
        } else {
            250
        };
        plan.jobs = [(); 2].map(|()| jobs(dice, limits, description.size, budget));
        plan
    }

    /// Draws a page cache and jobs that use it, from a separate stream.
    fn draw_cache(&mut self, dice: &mut Dice) {
        if dice.percent(50) {
            let description =
                open(&self.device, self.seed).expect("a device of the swarm").description().clone();
            let limits = self.stack_config(&description).limits;
            let cache = DrawnCache::new(dice);
            let budget = if self.device.starts_with("hdd") || self.device.starts_with("emmc") {
                60
            } else {
                200
            };
            self.jobs = [(); 2].map(|()| cache.jobs(dice, &limits, budget));
            self.cache = Some(cache);
        }
    }

    /// Draws tenants from a separate stream, so that the rest of a seed's plan is the same as
    /// before tenants were added.
    fn draw_tenants(&mut self, dice: &mut Dice) {
        if dice.percent(70) {
            let tenants = Drawn::new(dice, self.kernel);
            self.jobs = self.jobs.each_ref().map(|jobs| tenants.assign(jobs));
            self.tenants = Some(tenants);
            let settings = [
                (20, "io_max", "exact"),
                (30, "throttle_class_aware", "1"),
                (10, "throttle_counter", "0"),
            ];
            for (chance, key, value) in settings {
                if dice.percent(chance) {
                    self.settings.push((key, value.to_owned()));
                }
            }
        }
    }

    /// Draws a silent fault from a separate stream, so that the rest of a seed's plan is the same
    /// as before these faults were added.
    fn draw_silent_fault(&mut self, dice: &mut Dice) {
        if dice.percent(25) {
            self.faults.push(match dice.below(5) {
                0 => format!("uber:bits={}", dice.range(1 << 18, 1 << 26)),
                1 => format!("bit_rot:ppm={}", dice.range(1, 50_000)),
                2 => format!("lost_write:ppm={}", dice.range(1, 50_000)),
                3 => format!(
                    "misdirected:ppm={},by={}",
                    dice.range(1, 50_000),
                    8 * dice.range(1, 256)
                ),
                _ => format!(
                    "reset:every={},for={}ms",
                    dice.range(10, 500),
                    dice.pick(&[1, 20, 100])
                ),
            });
        }
    }

    /// Returns true if the scheduler never leaves the device idle while a request waits, except for
    /// delayed runs.
    pub(super) fn conserves(&self) -> bool {
        self.scheduler == "none" || self.is_deadline()
    }

    pub(super) fn is_deadline(&self) -> bool {
        self.scheduler.starts_with("mq-deadline")
    }

    /// Returns the configuration of the stack for the plan's device.
    pub fn stack_config(&self, device: &Description) -> StackConfig {
        let mut config = device.stack_config();
        config.kernel = self.kernel;
        config.scheduler =
            SchedulerConfig::parse(&self.scheduler).expect("a scheduler of the swarm");
        let rules = self.kernel.rules();
        config.limits.validate(&rules).expect("a device's own limits are valid");
        config.limits =
            changed(&config.limits, &self.limits, self.kernel).expect("limits tried before");
        for (key, value) in &self.settings {
            // A kernel version may refuse a setting that another accepts; it is then not made, as
            // on a running system.
            let _ = config.set(key, value);
        }
        config
    }
}

fn device(dice: &mut Dice) -> String {
    let queues =
        |dice: &mut Dice| (*dice.pick(&[1, 1, 1, 2, 4]), *dice.pick(&[1, 2, 8, 31, 64, 128, 1000]));
    match dice.below(4) {
        0 => {
            let (queues, depth) = queues(dice);
            let latency = dice.pick(&["0", "1us", "100us", "20ms"]);
            let (cache, fua) = (dice.below(2), dice.below(2));
            format!(
                "null:size=4GiB,latency={latency},hw_queues={queues},queue_depth={depth},write_cache={cache},fua={}",
                cache * fua
            )
        }
        1 | 2 => {
            let (queues, depth) = queues(dice);
            let (slots, latency) = (dice.range(1, 32), dice.pick(&["10us", "200us", "2ms"]));
            let (rate, turns) = (dice.pick(&["5MB/s", "500MB/s", "5GB/s"]), dice.below(2));
            format!(
                "slots:slots={slots},latency={latency},bandwidth={rate},size=4GiB,rotational={turns},hw_queues={queues},\
                 queue_depth={depth}"
            )
        }
        _ => dice.pick(PROFILES).name.to_owned(),
    }
}

fn scheduler(dice: &mut Dice, kernel: Kernel) -> String {
    let info = dice.pick(SCHEDULERS);
    let mut text = info.name.to_owned();
    let mut separator = ':';
    for tunable in info.tunables.iter().filter(|_| dice.percent(30)).collect::<Vec<_>>() {
        let value = tunable_value(dice, tunable);
        // From 7.0 it is a setting of the queue, and refused here.
        if kernel.rules().queue_async_depth && tunable.name == "async_depth" {
            continue;
        }
        match tunable.choices.get(value as usize) {
            Some(choice) => text += &format!("{separator}{}={choice}", tunable.name),
            None => text += &format!("{separator}{}={value}", tunable.name),
        }
        separator = ',';
    }
    text
}

/// Draws a value of a tunable, usually near the lower end. Times stay below half a second: if
/// `write_expire` is lowered, the kernel's mq-deadline takes a request that came before the change
/// for one that will come in the future, and holds it until then.
pub(super) fn tunable_value(dice: &mut Dice, tunable: &TunableInfo) -> i64 {
    let span = tunable.max.abs_diff(tunable.min);
    let is_time = tunable.name.contains("expire") || tunable.unit.contains('s');
    let most = *dice.pick(&[1, 16, 500, if is_time { 500 } else { span }]);
    tunable.min.saturating_add_unsigned(dice.below(most.min(span).saturating_add(1)))
}

fn limits(dice: &mut Dice, device: &Description, kernel: Kernel) -> Vec<(&'static str, u64)> {
    let mut chosen: Vec<(&'static str, u64)> = Vec::new();
    let mut limits = device.limits.clone();
    limits.validate(&kernel.rules()).expect("a device's own limits are valid");
    for (name, values) in [
        ("max_segments", &[1, 2, 7, 32, 128, 256][..]),
        ("max_segment_size", &[4096, 8192, 65536]),
        ("seg_boundary_mask", &[0xfff, 0xffff, 0xffff_ffff]),
        ("virt_boundary_mask", &[0, 0xfff]),
        ("chunk_sectors", &[0, 0, 8, 64, 256, 1000]),
        ("max_hw_sectors", &[8, 64, 255, 1024, 4096]),
        ("physical_block_size", &[512, 4096]),
        ("max_discard_segments", &[1, 2, 256]),
        ("max_hw_discard_sectors", &[0, 64, 1 << 20]),
        ("discard_granularity", &[512, 4096, 65536]),
    ] {
        // A device that cannot discard refuses discards, whatever its limits say.
        let cannot =
            name == "max_hw_discard_sectors" && device.limits.max_hw_discard_sectors.is_zero();
        if !dice.percent(25) || cannot {
            continue;
        }
        let value = *dice.pick(values);
        chosen.push((name, value));
        if changed(&limits, &chosen, kernel).is_none() {
            chosen.pop();
        }
    }
    chosen
}

/// Returns `limits` with the changes; `None` if the result is not valid.
fn changed(limits: &QueueLimits, changes: &[(&str, u64)], kernel: Kernel) -> Option<QueueLimits> {
    let mut limits = limits.clone();
    for &(name, value) in changes {
        match name {
            "max_segments" => limits.max_segments = value as u16,
            "max_segment_size" => limits.max_segment_size = value as u32,
            "seg_boundary_mask" => limits.seg_boundary_mask = value,
            "virt_boundary_mask" => limits.virt_boundary_mask = value,
            "chunk_sectors" => limits.chunk_sectors = Sectors::new(value),
            "max_hw_sectors" => limits.max_hw_sectors = Sectors::new(value),
            "physical_block_size" => limits.physical_block_size = value as u32,
            "max_discard_segments" => limits.max_discard_segments = value as u16,
            "max_hw_discard_sectors" => limits.max_hw_discard_sectors = Sectors::new(value),
            "discard_granularity" => limits.discard_granularity = value as u32,
            _ => unreachable!("a limit of the swarm"),
        }
    }
    limits.validate(&kernel.rules()).ok()?;
    // If the limit is smaller than one granule, the kernel sends a discard of any length whole.
    let discard = limits.max_discard().bytes().get();
    (discard == 0 || discard >= limits.discard_granularity.into()).then_some(limits)
}

fn settings(dice: &mut Dice, plan: &mut Plan) {
    let mut set = |chance: u64, key: &'static str, values: &[&str]| {
        if dice.percent(chance) {
            plan.settings.push((key, (*dice.pick(values)).to_owned()));
        }
    };
    set(40, "max_sectors_kb", &["4", "16", "128", "512", "1024"]);
    set(40, "nr_requests", &["4", "5", "16", "64", "256"]);
    set(20, "hw_queues", &["1", "2", "3"]);
    set(20, "queue_depth", &["1", "2", "7", "32"]);
    set(30, "cpus", &["1", "2", "5", "16"]);
    set(40, "nomerges", &["0", "1", "2"]);
    set(60, "fill", &["full", "max-sectors", "trim"]);
    set(50, "direct_path", &["blkdev", "iomap"]);
    set(40, "io_ticks", &IoTicksForm::ALL.map(IoTicksForm::name));
    set(30, "hz", &["100", "250", "1000"]);
    set(20, "io_timeout", &["50", "1000", "30000"]);
    set(20, "max_retries", &["0", "1", "5"]);
}

fn fault(dice: &mut Dice) -> String {
    match dice.below(12) {
        0 => format!("error:ppm={},status=medium", dice.range(1, 100_000)),
        1 => format!("error:ppm={},status=io,op=write", dice.range(1, 300_000)),
        2 => format!("error:sectors=1000-{},status=target,retry=1ms", dice.range(1000, 100_000)),
        3 => format!("latent:ppm={},run=64", dice.range(1, 50_000)),
        4 => format!("stall:every={},for=20ms", dice.range(10, 500)),
        5 => "slow:from=1ms,for=50ms,factor=20".to_owned(),
        6 => format!("no_completion:ppm={}", dice.range(1, 20_000)),
        7 => format!("late:ppm={},by={}ms", dice.range(1, 50_000), dice.pick(&[1, 60, 31_000])),
        8 => format!("busy:ppm={}", dice.range(1, 600_000)),
        9 => format!("flush_error:ppm={}", dice.range(1, 500_000)),
        10 => format!("transport:ppm={}", dice.range(1, 300_000)),
        _ => format!("{}:after={}ms", dice.pick(&["readonly", "dead"]), dice.range(0, 30)),
    }
}

fn jobs(dice: &mut Dice, limits: &QueueLimits, size: Sectors, budget: u64) -> String {
    let mut text = "[global]\ndirect=1\n".to_owned();
    let count = dice.range(1, 4);
    for index in 0..count {
        text += &format!("[job{index}]\n");
        job(dice, limits, size, budget / count, &mut text);
        if index > 0 && dice.percent(15) {
            text += "stonewall\n";
        }
    }
    text
}

fn job(dice: &mut Dice, limits: &QueueLimits, device: Sectors, budget: u64, text: &mut String) {
    let mut line = |key: &str, value: String| *text += &format!("{key}={value}\n");
    let patterns =
        ["read", "write", "randread", "randwrite", "rw", "randrw", "trim", "randtrim", "trimwrite"];
    let known = if limits.max_discard().is_zero() { 6 } else { patterns.len() };
    let pattern = *dice.pick(&patterns[..known]);
    line("rw", pattern.to_owned());
    let small = if limits.logical_block_size == 512 { "512-64k" } else { "4k-64k" };
    let (key, value) = *dice.pick(&[
        ("bs", "4k"),
        ("bs", "4k"),
        ("bs", "64k"),
        ("bs", "1m"),
        ("bs", "1028k"),
        ("bsrange", small),
        ("bsrange", "4k-512k"),
        ("bssplit", "4k/60:64k/30:1m/10"),
    ]);
    line(key, value.to_owned());
    // I/Os collide in small regions, but not in large ones. All regions start in the first GiB,
    // which every device has.
    let mib = *dice.pick(&[2, 16, 256]);
    line("size", format!("{mib}m"));
    line("offset", format!("{}m", 1 + dice.below((device.get() / 2048).min(1024) - mib - 1)));
    line("number_ios", dice.range(1, budget).to_string());
    let several = matches!(pattern, "trim" | "randtrim") && dice.percent(50);
    let engine = *dice.pick(&["libaio", "libaio", "io_uring", "io_uring", "psync", "posixaio"]);
    let engine = if several { "io_uring_cmd" } else { engine };
    line("ioengine", engine.to_owned());
    if several {
        line("num_range", dice.range(2, 64).to_string());
    }
    line("iodepth", dice.pick(&[1, 2, 8, 32, 64]).to_string());
    if dice.percent(30) {
        line("iodepth_batch_submit", dice.range(1, 8).to_string());
        line("iodepth_batch_complete_min", dice.range(0, 4).to_string());
    }
    if dice.percent(20) {
        line("numjobs", dice.range(2, 4).to_string());
    }
    if dice.percent(40) {
        let class = dice.range(1, 3);
        line("prioclass", class.to_string());
        line("prio", dice.below(8).to_string());
    }
    if dice.percent(15) && matches!(engine, "libaio" | "io_uring") {
        line("cmdprio_percentage", dice.range(1, 100).to_string());
    }
    match dice.below(10) {
        0 => line("fsync", dice.range(1, 20).to_string()),
        1 => line("fdatasync", dice.range(1, 20).to_string()),
        2 => line("end_fsync", "1".to_owned()),
        3 => line("sync", "dsync".to_owned()),
        _ => {}
    }
    match dice.below(12) {
        0 => line("thinktime", "200".to_owned()),
        1 => line("rate_iops", "5000".to_owned()),
        2 => line("startdelay", "1ms".to_owned()),
        3 if !several => line("serialize_overlap", "1".to_owned()),
        4 => line("norandommap", "1".to_owned()),
        5 => line("random_distribution", "zipf:1.1".to_owned()),
        _ => {}
    }
    if dice.percent(70) {
        line("continue_on_error", "all".to_owned());
        let errors = ["EIO", "ENODATA", "ETIMEDOUT", "ENOLINK", "EREMOTEIO", "ENODEV"].join(":");
        line("ignore_error", format!("{errors},{errors},{errors}"));
    }
}
