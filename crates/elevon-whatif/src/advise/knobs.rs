//! What may be changed: schedulers with their main tunables, queue limits, priorities, weights,
//! limits and latency targets.

use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::op::Op;
use elevon_core::sched::SCHEDULERS;
use elevon_core::stack::StackConfig;
use elevon_trace::replay::{Workload, WorkloadProcess};

use super::claims::RateKey;
use super::setup::{IN_KERNEL, Setup, Step};
use crate::figures::{Figure, Figures};

/// The main tunables of each scheduler, with values beside the default that differ enough to be
/// told apart.
const TUNABLES: [(&str, &str, &[i64]); 8] = [
    ("mq-deadline", "fifo_batch", &[1, 4, 64]),
    ("mq-deadline", "writes_starved", &[1, 8]),
    ("mq-deadline", "read_expire", &[50]),
    ("mq-deadline", "write_expire", &[500]),
    ("bfq", "slice_idle", &[0, 2]),
    ("bfq", "low_latency", &[0]),
    ("kyber", "read_lat_nsec", &[500_000, 8_000_000]),
    ("kyber", "write_lat_nsec", &[2_000_000, 40_000_000]),
];

/// `nr_requests` that are tried.
const REQUESTS: [u32; 5] = [4, 8, 16, 32, 64];
/// Depths of the device's queue that are tried, where it can be set.
const DEPTHS: [u32; 5] = [1, 2, 4, 8, 16];
/// Factors by which `max_sectors_kb` is made smaller, and the least that is tried.
const SECTORS_PARTS: [u64; 3] = [2, 4, 8];
const LEAST_SECTORS_KB: u64 = 64;
/// Fills that are tried if what no kernel has is allowed.
const FILLS: [&str; 2] = ["max-sectors", "trim"];
/// Weights of a process that is wanted, and of one that is in its way.
const WEIGHTS_UP: [u32; 2] = [300, 1000];
const WEIGHTS_DOWN: [u32; 2] = [30, 5];
/// Parts of its rate, in percent, to which a process with most I/O is limited; parts that take more
/// than a process may lose are left out, and one near that is added.
const RATE_PARTS: [f64; 3] = [90.0, 50.0, 25.0];
/// Percentage points of `--max-loss` that a limit leaves unused: a process never reaches its limit
/// exactly.
const RATE_MARGIN: f64 = 3.0;
/// Mean size in bytes from which a process is limited in bytes, and not in I/Os.
const LIMITED_IN_BYTES_FROM: f64 = 131_072.0;
/// Parts of the median latency that a process is promised, in percent.
const TARGET_PARTS: [f64; 2] = [75.0, 40.0];
/// Processes with most I/O that are tried at a lower priority or weight, at most.
const HEAVY: usize = 2;
/// What an I/O costs a device beside its bytes, as bytes; only a process that has more is asked.
const COST_OF_AN_IO: u64 = 16 << 10;

/// Majors of SCSI disks, whose queue depth can be set.
const SCSI_MAJORS: [u32; 16] =
    [8, 65, 66, 67, 68, 69, 70, 71, 128, 129, 130, 131, 132, 133, 134, 135];

/// What may be changed for a workload.
#[derive(Clone, Debug, Default)]
pub(super) struct Knobs {
    schedulers: Vec<&'static str>,
    settings: Vec<(&'static str, String)>,
    /// Depth of the queue of requests without a scheduler.
    depth: u32,
    /// Processes that the goal is for, if it is for some.
    wanted: Vec<usize>,
    /// Others, those with most I/O first.
    heavy: Vec<usize>,
    /// Limits of those, with the process.
    limits: Vec<Step>,
    /// Targets of the processes that are wanted, or of all but `heavy`; each list is one change.
    targets: Vec<Vec<Step>>,
    /// True if the device was measured for io.cost.
    pub(super) has_cost_model: bool,
}

impl Knobs {
    /// What may be changed. `stack` is the captured one; `before` what each process gets as
    /// captured; `wanted` is empty if the goal is for all processes; `max_loss` is the part of its
    /// throughput, from 0 to 1, that a process may lose; `with_experiments` adds what no kernel
    /// has.
    pub(super) fn new(
        workload: &Workload,
        stack: &StackConfig,
        before: &[Figures],
        wanted: &[usize],
        max_loss: f64,
        with_experiments: bool,
    ) -> Self {
        let names = SCHEDULERS.iter().map(|info| info.name);
        let schedulers =
            names.filter(|name| with_experiments || IN_KERNEL.contains(name)).collect();
        let largest = workload
            .processes
            .iter()
            .flat_map(|p| p.ios.iter().map(|io| io.bytes))
            .max()
            .unwrap_or(0);
        let mut settings: Vec<(&'static str, String)> = Vec::new();
        settings.extend(REQUESTS.map(|value| ("nr_requests", value.to_string())));
        settings.extend(
            sectors(stack, largest).into_iter().map(|kb| ("max_sectors_kb", kb.to_string())),
        );
        if SCSI_MAJORS.contains(&workload.device.major) {
            let depths = DEPTHS.into_iter().filter(|&depth| depth < stack.queue_depth);
            settings.extend(depths.map(|depth| ("queue_depth", depth.to_string())));
        }
        if with_experiments && largest > stack.limits.max_sectors.bytes().get() {
            settings.extend(FILLS.map(|fill| ("fill", fill.to_owned())));
        }
        let is_several = workload.processes.len() > 1;
        let heavy = heavy(workload, wanted);
        let limits =
            heavy.iter().flat_map(|&at| limits(&workload.processes[at], at, &before[at], max_loss));
        Self {
            schedulers,
            settings,
            depth: stack.queue_depth,
            wanted: if is_several { wanted.to_vec() } else { Vec::new() },
            limits: if is_several { limits.collect() } else { Vec::new() },
            targets: if is_several {
                targets(workload, before, wanted, &heavy)
            } else {
                Vec::new()
            },
            heavy,
            has_cost_model: false,
        }
    }

    /// Returns true if there are processes to be given more or less than others.
    pub(super) fn has_claims(&self) -> bool {
        !self.wanted.is_empty() || !self.heavy.is_empty()
    }

    /// The schedulers that may be chosen.
    pub(super) fn schedulers(&self) -> &[&'static str] {
        &self.schedulers
    }

    /// The configurations that differ from one in one respect.
    pub(super) fn neighbours(&self, of: &Setup) -> Vec<Setup> {
        let mut all: Vec<Vec<Step>> =
            self.schedulers.iter().map(|name| vec![Step::Scheduler(name)]).collect();
        let tunables = TUNABLES.iter().filter(|(scheduler, ..)| *scheduler == of.scheduler);
        all.extend(tunables.flat_map(|(_, name, values)| {
            values.iter().map(|&value| vec![Step::Tunable(name, value)])
        }));
        let is_possible = |key: &str, value: &str| {
            key != "nr_requests"
                || of.scheduler != "none"
                || value.parse::<u32>().is_ok_and(|n| n < self.depth)
        };
        let settings = self.settings.iter().filter(|(key, value)| is_possible(key, value));
        all.extend(
            settings.map(|(key, value)| vec![Step::Setting((*key).to_owned(), value.clone())]),
        );
        all.extend(self.claims(of.scheduler));
        let mut found: Vec<Setup> = Vec::new();
        for steps in all {
            let setup = steps.iter().fold(of.clone(), |setup, step| setup.with(step));
            if setup != *of && !found.contains(&setup) {
                found.push(setup);
            }
        }
        found
    }

    /// Priorities and weights that a scheduler looks at, weights of io.cost, limits and targets.
    fn claims(&self, scheduler: &str) -> Vec<Vec<Step>> {
        let best = |level| IoPrio::new(PrioClass::Be, level);
        let idle = IoPrio::new(PrioClass::Idle, 0);
        let mut all: Vec<Vec<Step>> = Vec::new();
        let prio = |processes: &[usize], prio| {
            processes.iter().map(|&at| Step::Prio(at, prio)).collect::<Vec<_>>()
        };
        let weight = |processes: &[usize], weight| {
            processes.iter().map(|&at| Step::Weight(at, weight)).collect()
        };
        let heavy = || self.heavy.iter().map(std::slice::from_ref);
        match scheduler {
            "mq-deadline" => all.extend(heavy().map(|one| prio(one, idle))),
            "bfq" => {
                all.push(prio(&self.wanted, best(0)));
                all.extend(heavy().flat_map(|one| [prio(one, best(7)), prio(one, idle)]));
                all.extend(WEIGHTS_UP.map(|value| weight(&self.wanted, value)));
                all.extend(heavy().flat_map(|one| WEIGHTS_DOWN.map(|value| weight(one, value))));
            }
            _ => {}
        }
        if scheduler != "bfq" && self.has_cost_model {
            let cost = |steps: Vec<Step>| {
                if steps.is_empty() { steps } else { [vec![Step::Cost], steps].concat() }
            };
            all.extend(WEIGHTS_UP.map(|value| cost(weight(&self.wanted, value))));
            all.extend(heavy().flat_map(|one| WEIGHTS_DOWN.map(|value| cost(weight(one, value)))));
        }
        all.extend(self.limits.iter().map(|limit| vec![limit.clone()]));
        all.extend(self.targets.iter().cloned());
        all.retain(|steps| !steps.is_empty());
        all
    }
}

/// Returns the processes that take more than their share of the device, the heaviest first, without
/// those that are wanted.
fn heavy(workload: &Workload, wanted: &[usize]) -> Vec<usize> {
    let cost = |process: &WorkloadProcess| {
        process.ios.iter().map(|io| io.bytes + COST_OF_AN_IO).sum::<u64>()
    };
    let costs: Vec<u64> = workload.processes.iter().map(cost).collect();
    let share = costs.iter().sum::<u64>() / costs.len().max(1) as u64;
    let is_candidate = |at: &usize| {
        costs[*at] > share && !wanted.contains(at) && !is_kernel_thread(&workload.processes[*at])
    };
    let mut heavy: Vec<usize> = (0..costs.len()).filter(is_candidate).collect();
    heavy.sort_by_key(|&at| (std::cmp::Reverse(costs[at]), at));
    heavy.truncate(HEAVY);
    heavy
}

/// Returns the limits that are tried for a process: parts of its rate in the direction of most of
/// its I/O.
fn limits(process: &WorkloadProcess, at: usize, before: &Figures, max_loss: f64) -> Vec<Step> {
    let reads = process.ios.iter().filter(|io| io.op == Op::Read);
    let reads: u64 = reads.map(|io| io.bytes + COST_OF_AN_IO).sum();
    let is_read = 2 * reads >= process.ios.iter().map(|io| io.bytes + COST_OF_AN_IO).sum();
    let mean = before.bytes_per_second / before.per_second.max(1.0);
    let (key, rate) = match (is_read, mean >= LIMITED_IN_BYTES_FROM) {
        (true, true) => (RateKey::ReadBytes, before.bytes_per_second),
        (false, true) => (RateKey::WriteBytes, before.bytes_per_second),
        (true, false) => (RateKey::ReadIos, before.per_second),
        (false, false) => (RateKey::WriteIos, before.per_second),
    };
    let least = 100.0 * (1.0 - max_loss) + RATE_MARGIN;
    let mut parts: Vec<f64> = RATE_PARTS.into_iter().filter(|&part| part > least).collect();
    parts.push(least.min(100.0));
    parts.into_iter().map(|part| Step::Limit(at, (key, two_digits(rate * part / 100.0)))).collect()
}

/// Returns a rate with two significant digits, rounded up. More digits would not be used.
fn two_digits(rate: f64) -> u64 {
    let rate = (rate.ceil() as u64).max(2);
    let unit = 10_u64.pow(rate.ilog10().saturating_sub(1));
    rate.div_ceil(unit) * unit
}

/// Returns the targets that are tried, in microseconds: parts of the median of each process that is
/// wanted or, if all are, of those that are not heavy while others are.
fn targets(
    workload: &Workload,
    before: &[Figures],
    wanted: &[usize],
    heavy: &[usize],
) -> Vec<Vec<Step>> {
    if heavy.is_empty() {
        return Vec::new();
    }
    let is_defended = |at: &usize| match wanted {
        [] => !heavy.contains(at) && !is_kernel_thread(&workload.processes[*at]),
        wanted => wanted.contains(at),
    };
    let defended: Vec<(usize, f64)> = (0..before.len())
        .filter(is_defended)
        .filter_map(|at| Some((at, before[at].get(Figure::P50)?)))
        .collect();
    let of_part = |part: f64| {
        let target = |p50: f64| ((p50 * part / 100.0 / 1e3) as u64).max(1);
        defended.iter().map(|&(at, p50)| Step::Target(at, target(p50))).collect()
    };
    TARGET_PARTS.into_iter().map(of_part).collect()
}

/// How names of the kernel's threads begin, and how those begin that a number follows. Nobody gives
/// them a priority or a unit: what they do is for others.
const KERNEL_THREADS: [&str; 5] = ["kworker/", "jbd2/", "xfsaild/", "ksoftirqd/", "dmcrypt_write/"];
const NUMBERED_THREADS: [&str; 3] = ["kswapd", "loop", "md"];

fn is_kernel_thread(process: &WorkloadProcess) -> bool {
    let name = process.name.as_deref().unwrap_or_default();
    let has_number = |prefix: &&str| {
        let rest = name.strip_prefix(*prefix);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    KERNEL_THREADS.iter().any(|prefix| name.starts_with(prefix))
        || NUMBERED_THREADS.iter().any(has_number)
}

/// Values of `max_sectors_kb` that change how the largest I/O is split.
fn sectors(stack: &StackConfig, largest: u64) -> Vec<u64> {
    let (now, most) = (
        stack.limits.max_sectors.bytes().get() >> 10,
        stack.limits.max_hw_sectors.bytes().get() >> 10,
    );
    let smaller = SECTORS_PARTS
        .map(|part| now / part)
        .into_iter()
        .filter(|&kb| kb >= LEAST_SECTORS_KB && kb << 10 < largest);
    let mut all: Vec<u64> = smaller.filter(|kb| kb.is_power_of_two() || kb % 4 == 0).collect();
    all.extend(Some(most).filter(|&most| most > now && now << 10 < largest));
    all
}

#[cfg(test)]
mod tests {
    use elevon_core::limits::QueueLimits;
    use elevon_core::sched::SchedulerConfig;
    use elevon_core::units::Sectors;
    use elevon_trace::replay::{WorkloadReadError, read};

    use super::super::claims::Claims;
    use super::*;

    #[test]
    fn every_tunable_exists_and_takes_its_values() {
        for (scheduler, name, values) in TUNABLES {
            for value in values {
                let text = format!("{scheduler}:{name}={value}");
                assert!(SchedulerConfig::parse(&text).is_ok(), "{text}");
            }
        }
        assert!(IN_KERNEL.iter().all(|name| SchedulerConfig::new(name).is_ok()));
    }

    fn workload(text: &str) -> Result<Workload, WorkloadReadError> {
        read(&mut || elevon_trace::from_bytes(text.as_bytes().to_vec()), None, &mut |_| {})
    }

    /// Returns what may be changed of a trace on device `major`:0.
    fn knobs(text: &str, major: u32, wanted: &[usize], experiments: bool) -> Knobs {
        let limits = QueueLimits {
            max_sectors: Sectors::new(1024),
            max_hw_sectors: Sectors::new(2560),
            ..QueueLimits::default()
        };
        let stack = StackConfig::new(limits, Sectors::new(1 << 20), 1, 32);
        let workload = workload(&text.replace("8,0", &format!("{major},0"))).expect("a workload");
        let figures = |bytes| Figures {
            ios: 100,
            per_second: 98.0,
            bytes_per_second: bytes,
            p50: 1e6,
            ..Figures::default()
        };
        let before = [figures(98e6), figures(98.0 * 4096.0)];
        let knobs = Knobs::new(&workload, &stack, &before, wanted, 0.2, experiments);
        Knobs { has_cost_model: true, ..knobs }
    }

    /// Returns the configurations beside a scheduler without settings, as texts.
    fn texts(knobs: &Knobs, scheduler: &'static str) -> Vec<String> {
        knobs
            .neighbours(&Setup::of_scheduler(scheduler))
            .iter()
            .map(|setup| {
                let Claims { weights, cost, limits, targets } = &setup.claims;
                format!("{setup} {:?} {weights:?} {cost} {limits:?} {targets:?}", setup.prios)
            })
            .collect()
    }

    #[test]
    fn what_changes_nothing_is_not_tried() {
        let one = "  a-11 [000] ..... 1.000000: block_bio_queue: 8,0 R 100 + 2048 [a]\n";
        let two =
            format!("{one}  b-12 [000] ..... 1.000100: block_bio_queue: 8,0 W 5000 + 8 [b]\n");
        let has = |texts: &[String], part: &str| texts.iter().any(|text| text.contains(part));
        let alone = texts(&knobs(one, 8, &[], false), "bfq");
        assert!(
            has(&alone, "slice_idle=0")
                && has(&alone, "queue_depth=4")
                && has(&alone, "max_sectors_kb=256"),
            "{alone:?}"
        );
        assert!(
            has(&alone, "max_sectors_kb=1280")
                && !has(&alone, "queue_depth=32")
                && !has(&alone, "fill="),
            "{alone:?}"
        );
        assert!(
            alone.iter().all(|text| text.ends_with("{} {} false {} {}")),
            "nobody to prefer: {alone:?}"
        );
        let both = texts(&knobs(&two, 259, &[1], true), "bfq");
        assert!(
            !has(&both, "queue_depth") && has(&both, "fill=trim") && has(&both, "{1: 1000}"),
            "{both:?}"
        );
        assert!(has(&both, "{0: 5}") && !has(&both, "{1: 5}"), "the other one pays: {both:?}");
        let none = texts(&knobs(&two, 8, &[], false), "none");
        assert!(
            !has(&none, "nr_requests=32")
                && has(&none, "nr_requests=16")
                && none.iter().all(|text| text.contains(" {} ")),
            "no priorities: {none:?}"
        );
        // The first process reads nearly all: it may be limited to 83 % or 90 % of its rate, the
        // second one defended, and io.cost is not tried beside BFQ.
        for part in
            ["{0: (ReadBytes, 82000000)}", "{0: (ReadBytes, 89000000)}", "{1: 750}", "{1: 400}"]
        {
            assert!(has(&none, part) && has(&both, part), "{part}: {none:?}");
        }
        assert!(has(&none, "{0: 5} true") && !has(&both, "true"), "{none:?}");
    }
}
