//! The tenants of a random seed: a tree with rules of every stage, rules that change while I/O is
//! in flight, and tenants that are removed.
//!
//! Everything except the removals is the text of a tenants file, so a seed uses the code of
//! `--tenants`. The tree is kept for the second phase: its names denote the same tenants, including
//! removed ones.

use elevon_core::control::limits::{Limits, UNLIMITED};
use elevon_core::control::{Stage, io_throttle};
use elevon_core::kernel::{Kernel, Rules};
use elevon_core::sched::AnyScheduler;
use elevon_core::sched::aileron::{Decisions, WaitingQueue};
use elevon_core::stack::Stack;
use elevon_core::units::{Instant, Nanos, TenantId};
use elevon_formats::fio::JobSpec;
use elevon_formats::tenants::parse;
use elevon_workload::tenants::TenantPlan;

use super::Wrong;
use super::plan::Dice;

/// The tenants that a seed draws.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// Paths of the tenants. Job n of a phase is in the n-th one; after the last path the first
    /// follows.
    pub paths: Vec<String>,
    /// A file as `--tenants` takes it.
    pub text: String,
    /// Removals, in order of time.
    pub removals: Vec<(Instant, TenantId)>,
}

/// The kinds of rules that a random seed may draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Means {
    Throttle,
    Flat,
    Max,
    Exact,
    Cost,
    Latency,
    Class,
    Reserve,
}

const MEANS: [Means; 8] = [
    Means::Throttle,
    Means::Flat,
    Means::Max,
    Means::Exact,
    Means::Cost,
    Means::Latency,
    Means::Class,
    Means::Reserve,
];

impl Drawn {
    /// Draws the tenants. Most seeds have one or two kinds of rules, so that each kind also occurs
    /// alone.
    pub(super) fn new(dice: &mut Dice, kernel: Kernel) -> Self {
        let paths = paths(dice);
        let mut means: Vec<Means> =
            (0..*dice.pick(&[1, 1, 1, 2, 3])).map(|_| *dice.pick(&MEANS)).collect();
        means.sort();
        means.dedup();
        let mut text = String::new();
        for path in &paths {
            text += &format!("[tenant.\"{path}\"]\n");
            if dice.percent(30) {
                text += &format!("weight = {}\n", dice.range(1, 1000));
            }
            for &means in &means {
                if dice.percent(60) {
                    text += &setting(dice, means, kernel, false);
                }
            }
        }
        if means.contains(&Means::Cost) {
            text += &format!("[device]\n{}", device(dice));
        }
        let horizon = *dice.pick(&[2_000, 20_000, 300_000, 3_000_000]);
        for _ in 0..*dice.pick(&[0, 0, 2, 5, 12]) {
            let means = *dice.pick(&means);
            text += &format!("[[change]]\nat = \"{}us\"\n", dice.below(horizon));
            if means == Means::Cost && dice.percent(40) {
                text += &device(dice);
            } else {
                text += &format!(
                    "tenant = \"{}\"\n{}",
                    dice.pick(&paths),
                    setting(dice, means, kernel, true)
                );
            }
        }
        let mut removals: Vec<(Instant, TenantId)> = Vec::new();
        for _ in 0..*dice.pick(&[0, 0, 1, 3]) {
            let at = Instant::new(1000 * dice.below(horizon));
            // There are at most as many paths as tenants. A tenant with children is not removed.
            removals.push((at, TenantId(dice.range(1, paths.len() as u64) as u32)));
        }
        removals.sort();
        Self { paths, text, removals }
    }

    /// Assigns the jobs of a text to tenants.
    pub(super) fn assign(&self, jobs: &str) -> String {
        let mut out = String::new();
        let mut next = self.paths.iter().cycle();
        for line in jobs.lines() {
            out += &format!("{line}\n");
            if line.starts_with("[job")
                && let Some(path) = next.next()
            {
                out += &format!("cgroup={path}\n");
            }
        }
        out
    }

    /// Returns the plan of a run's tenants, with the jobs of its first phase.
    pub(super) fn plan(&self, specs: &[JobSpec], rules: &Rules) -> TenantPlan {
        let file = parse("swarm.toml", &self.text, rules)
            .unwrap_or_else(|e| panic!("{e:?} in\n{}", self.text));
        TenantPlan::new(specs, Some(&file)).unwrap_or_else(|e| panic!("{e:?} in\n{}", self.text))
    }
}

/// Draws a tree as paths. Parents precede children, because tenants that jobs name must have the
/// same ids in both phases.
fn paths(dice: &mut Dice) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for index in 0..dice.range(1, 6) {
        let name = char::from(b'a' + index as u8);
        let above = if paths.is_empty() || dice.percent(40) {
            None
        } else {
            Some(dice.pick(&paths).clone())
        };
        paths.push(above.map_or_else(|| name.to_string(), |above| format!("{above}/{name}")));
    }
    paths
}

/// Draws one setting of a tenant. A change sometimes removes the rule.
fn setting(dice: &mut Dice, means: Means, kernel: Kernel, is_change: bool) -> String {
    let lifts = is_change && dice.percent(40);
    let bytes = |dice: &mut Dice| dice.range(1, 50) * *dice.pick(&[100_000, 1_000_000, 10_000_000]);
    let ios = |dice: &mut Dice| dice.range(2, 50) * *dice.pick(&[10, 100, 1000]);
    let direction = *dice.pick(&['r', 'w']);
    match means {
        Means::Reserve if lifts => "reserve = 0\n".to_owned(),
        Means::Reserve => match dice.below(2) {
            0 => format!("reserve = {{ iops = {} }}\n", ios(dice)),
            _ => format!("reserve = {{ iops = {}, bps = {} }}\n", ios(dice), bytes(dice)),
        },
        Means::Throttle => {
            let (key, rate) = match dice.below(2) {
                0 => ("blockio.bandwidth-max", bytes(dice)),
                _ => ("blockio.iops-max", ios(dice)),
            };
            let strategy = match dice.below(3) {
                0 => "0".to_owned(),
                1 => "1".to_owned(),
                _ => format!("1:{}", rate / dice.range(1, 100) + 1),
            };
            if lifts {
                format!("\"{key}\" = \"0\"\n")
            } else {
                format!("\"{key}\" = \"{rate}:{strategy}\"\n")
            }
        }
        Means::Flat => {
            let key = if direction == 'r' { "read" } else { "write" };
            match dice.percent(70) {
                _ if lifts => format!("\"blkio.throttle.{key}_bps_device\" = \"8:0 0\"\n"),
                true => format!("\"blkio.throttle.{key}_bps_device\" = \"8:0 {}\"\n", bytes(dice)),
                false => format!("\"blkio.throttle.{key}_iops_device\" = \"8:0 {}\"\n", ios(dice)),
            }
        }
        Means::Max if lifts => {
            "\"io.max\" = \"rbps=max wbps=max riops=max wiops=max\"\n".to_owned()
        }
        Means::Max => match dice.below(4) {
            0 => format!("\"io.max\" = \"{direction}iops={}\"\n", ios(dice)),
            1 => format!("\"io.max\" = \"rbps={} wbps={}\"\n", bytes(dice), bytes(dice)),
            _ => format!("\"io.max\" = \"{direction}bps={}\"\n", bytes(dice)),
        },
        Means::Exact if lifts => "limit = \"max\"\n".to_owned(),
        Means::Exact => {
            let mut keys = vec![match dice.below(4) {
                0 => format!("{direction}bps = {}", bytes(dice)),
                1 => format!("{direction}iops = {}", ios(dice)),
                2 => format!("bps = {}", bytes(dice)),
                _ => format!("iops = {}", ios(dice)),
            }];
            if dice.percent(40) {
                keys.push(format!("burst = {}", dice.range(1, 512) * 4096));
            }
            if dice.percent(40) {
                keys.push(format!("burst_ios = {}", dice.range(1, 50)));
            }
            format!("limit = {{ {} }}\n", keys.join(", "))
        }
        Means::Cost => format!("\"io.weight\" = \"{}\"\n", dice.range(1, 10_000)),
        Means::Latency if lifts => "latency = \"max\"\n".to_owned(),
        Means::Latency => format!("latency = \"{}us\"\n", *dice.pick(&[50, 500, 5000, 50_000])),
        Means::Class => {
            let known = if kernel.rules().promote_to_rt { 5 } else { 4 };
            let all = ["no-change", "none-to-rt", "restrict-to-be", "idle", "promote-to-rt"];
            format!("class = \"{}\"\n", dice.pick(&all[..known]))
        }
    }
}

/// Draws settings of io.cost for the device.
fn device(dice: &mut Dice) -> String {
    let qos = match dice.below(4) {
        0 => "enable=0",
        1 => "enable=1",
        2 => "enable=1 rpct=95.00 rlat=5000 wpct=95.00 wlat=5000 min=50.00 max=150.00",
        _ => "enable=1 rpct=90.00 rlat=200 wpct=90.00 wlat=200 min=1.00 max=10000.00",
    };
    let mut text = format!("\"io.cost.qos\" = \"{qos}\"\n");
    if dice.percent(40) {
        let model = ["bps", "seqiops", "randiops"];
        let each = ["r", "w"].iter().flat_map(|d| model.map(|what| format!("{d}{what}")));
        let rate = |dice: &mut Dice, key: &str| {
            dice.range(1, 1000) * if key.ends_with("bps") { 1_000_000 } else { 100 }
        };
        let words: Vec<String> = each.map(|key| format!("{key}={}", rate(dice, &key))).collect();
        text += &format!("\"io.cost.model\" = \"ctrl=user model=linear {}\"\n", words.join(" "));
    }
    text
}

/// Visible state of a tenant.
#[derive(Clone, Debug)]
pub(super) struct SeenTenant {
    pub(super) parent: Option<TenantId>,
    pub(super) is_alive: bool,
    /// `io.stat`: bytes and I/Os by group, and I/Os in flight.
    pub(super) bytes: [u64; 3],
    pub(super) ios: [u64; 3],
    pub(super) in_flight: u64,
    /// v1 limits, `io.max`, and Elevon's limits.
    pub(super) limits: [Limits; 3],
    /// Limits of io-throttle: bandwidth, IOPS.
    pub(super) throttle: [Option<io_throttle::Limit>; 2],
    /// Total time that its I/O waited.
    pub(super) waited: Nanos,
}

/// Indices of the limits in [`SeenTenant::limits`].
pub(super) const FLAT: usize = 0;
pub(super) const MAX: usize = 1;
pub(super) const EXACT: usize = 2;

impl SeenTenant {
    /// Returns true if a rule of the tenant itself may hold I/O.
    pub(super) fn has_limit(&self) -> bool {
        self.throttle.iter().any(Option::is_some)
            || self.limits.iter().any(|limits| !limits.is_none())
    }
}

/// Visible state of all tenants at an instant, after everything possible at it has happened.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) now: Instant,
    /// Tenants by id; the first is the root.
    pub(super) tenants: Vec<SeenTenant>,
    /// Unfinished I/Os, allocated requests, and bios that stages hold.
    pub(super) calls: usize,
    pub(super) requests: u64,
    pub(super) held: usize,
    /// True if io.cost or io.latency may hold bios.
    pub(super) is_gated: bool,
    /// Live rules as io-throttle counts them.
    pub(super) live_rules: u32,
    pub(super) splits: u64,
    /// The decisions of the scheduler `aileron`, if it is that.
    pub(super) aileron: Option<Decisions>,
}

impl Seen {
    /// Falsifies the state.
    pub(super) fn spoil(&mut self, wrong: Wrong) {
        let tenants = self.tenants.iter_mut();
        match wrong {
            Wrong::HalfLimits => tenants.for_each(|tenant| {
                let half = |rate: u64| if rate == UNLIMITED { rate } else { rate / 2 };
                for limits in &mut tenant.limits {
                    let Limits { bps, iops, total_bps, total_iops, .. } = *limits;
                    (limits.bps, limits.iops) = (bps.map(half), iops.map(half));
                    (limits.total_bps, limits.total_iops) = (half(total_bps), half(total_iops));
                }
                tenant.throttle.iter_mut().flatten().for_each(|limit| limit.rate /= 2);
            }),
            Wrong::NoRules => tenants.for_each(|tenant| {
                (tenant.limits, tenant.throttle) = ([Limits::default(); 3], [None; 2]);
            }),
            Wrong::LiveRule => self.live_rules += 1,
            Wrong::Nanosecond => {
                tenants.last().into_iter().for_each(|tenant| tenant.waited += Nanos::new(1));
            }
            Wrong::Call => self.calls += 1,
            Wrong::TwiceTheWeight => self.queues().take(1).for_each(|queue| queue.weight *= 2),
            Wrong::NoPatience => {
                self.aileron.iter_mut().for_each(|aileron| aileron.patience = Nanos::ZERO);
            }
            Wrong::HalfDepth => {
                self.aileron.iter_mut().for_each(|aileron| aileron.most /= 2);
            }
            Wrong::HalfMemory
            | Wrong::MoreDirty
            | Wrong::MorePromoted
            | Wrong::MoreTraffic
            | Wrong::MoreDirtied => {}
        }
    }

    fn queues(&mut self) -> impl Iterator<Item = &mut WaitingQueue> {
        self.aileron.iter_mut().flat_map(|aileron| &mut aileron.queues)
    }

    /// Reads the state of a stack.
    pub(super) fn new(now: Instant, stack: &Stack) -> Self {
        let (control, tree) = (stack.control(), stack.tenants());
        let tenant = |id: TenantId| {
            let stat = control.statistics().of(id);
            let [max, exact] = control.limits(id);
            let throttle = |kind| control.io_throttle().limit(id, kind);
            SeenTenant {
                parent: tree.parent(id),
                is_alive: tree.is_alive(id),
                bytes: stat.counters.bytes,
                ios: stat.counters.ios,
                in_flight: stat.in_flight,
                limits: [control.flat_limits(id), max, exact],
                throttle: [
                    throttle(io_throttle::LimitKind::Bandwidth),
                    throttle(io_throttle::LimitKind::Iops),
                ],
                waited: control.breakdown().total(id),
            }
        };
        let ids = if control.is_watched() { tree.ids() } else { 0 };
        Self {
            now,
            tenants: (0..ids as u32).map(|id| tenant(TenantId(id))).collect(),
            calls: stack.ios_in_flight(),
            requests: stack.requests_in_flight(),
            held: control.held(),
            is_gated: control.io_cost().is_enabled() || control.io_latency().is_enabled(),
            live_rules: control.io_throttle().live_rules(),
            splits: stack.counters().splits,
            aileron: match stack.scheduler() {
                AnyScheduler::Aileron(aileron) => Some(aileron.decisions()),
                _ => None,
            },
        }
    }
}
