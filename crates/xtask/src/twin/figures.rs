//! Figures of a case, and how far apart those of the two are.

use super::case::Case;
use super::events::BlockEvent;

/// What a process did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessFigures {
    /// I/Os, those that were in flight at the end included.
    pub ios: u64,
    /// The median of their latencies, in nanoseconds.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
}

/// What a run of a case gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// By process.
    pub processes: Vec<ProcessFigures>,
    /// The change of `/sys/block/X/stat` over the run.
    pub stat: Vec<u64>,
    /// The change of `io.stat`, by cgroup of the case.
    pub groups: Vec<[u64; GROUP_COUNTERS.len()]>,
    /// Where the guest's CPU looked for its first tag of the scheduler.
    pub tag_hint: Option<u64>,
    /// The block events; empty if they were not asked for.
    pub events: Vec<BlockEvent>,
}

/// What a figure is of.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// I/Os of a process.
    Rate,
    /// A percentile of a process's latencies.
    Latency,
    /// A counter of the device.
    Disk,
    /// A counter of a cgroup.
    Group,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Rate, Self::Latency, Self::Disk, Self::Group];

    /// The name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rates",
            Self::Latency => "latencies",
            Self::Disk => "counters of the disk",
            Self::Group => "counters of cgroups",
        }
    }
}

/// A figure of the kernel beside Elevon's.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is of.
    pub kind: Kind,
    /// Its name, such as `p1 ios`.
    pub name: String,
    /// The kernel's.
    pub kernel: f64,
    /// Elevon's.
    pub elevon: f64,
    /// How far apart they are, as a share.
    pub error: f64,
    /// Whether it repeats, and Elevon misses it by more than [`HOLDS`] without the scheduler, the
    /// tenants and the page cache.
    pub telling: bool,
    /// Whether it would be telling and does not repeat: it is not within [`HOLDS`] in the same
    /// kernel when the job begins a microsecond later.
    pub chance: bool,
}

/// The error up to which a figure holds.
pub const HOLDS: f64 = 0.10;
/// A figure of a process is measured against no less than this share of the figure of all.
const LEAST_SHARE: f64 = 0.02;
/// A latency is measured against no less than this share of the device's. A hit in the page cache
/// takes no time in the guest but some readings of its clock.
const LEAST_LATENCY: f64 = 0.05;
/// I/Os from which on a median, and a 99th percentile, is a figure.
const LEAST_IOS_OF_PERCENTILE: [u64; 2] = [20, 200];
/// Counters of `/sys/block/X/stat` that are compared, by field from 0, each with the field that it
/// is measured against if it is small.
const COUNTERS: [(&str, usize, usize); 6] = [
    ("reads", 0, 0),
    ("merged reads", 1, 0),
    ("writes", 4, 4),
    ("merged writes", 5, 4),
    ("io_ticks", 9, 9),
    ("time in queue", 10, 10),
];

/// Counters of a cgroup's `io.stat` that are compared.
pub const GROUP_COUNTERS: [&str; 6] = ["rbytes", "wbytes", "rios", "wios", "dbytes", "dios"];

impl Figure {
    /// Whether it is within 10 %.
    pub fn holds(&self) -> bool {
        self.error <= HOLDS
    }
}

fn error(kernel: f64, elevon: f64, least: f64) -> f64 {
    let of = kernel.max(least);
    if of == 0.0 { if elevon == 0.0 { 0.0 } else { 1.0 } } else { (kernel - elevon).abs() / of }
}

/// Returns the figures of a case: those of the kernel, of the kernel when the job begins a little
/// later, of Elevon, and of Elevon without the scheduler and the tenants.
pub fn compare(case: &Case, runs: [&Measured; 4]) -> Vec<Figure> {
    let kernel = runs[0];
    let mut all = Vec::new();
    let mut add = |kind, name: String, of: [u64; 4], least: f64| {
        let [kernel, later, elevon, plain] = of.map(|figure| figure as f64);
        let repeats = error(kernel, later, least) <= HOLDS;
        let misses = error(kernel, plain, least) > HOLDS;
        all.push(Figure {
            kind,
            name,
            kernel,
            elevon,
            error: error(kernel, elevon, least),
            telling: misses && repeats,
            chance: misses && !repeats,
        });
    };
    let total: u64 = kernel.processes.iter().map(|process| process.ios).sum();
    let least = LEAST_SHARE * total as f64;
    for index in 0..case.processes.len() {
        let of = runs.map(|measured| measured.processes[index]);
        add(Kind::Rate, format!("p{index} ios"), of.map(|process| process.ios), least);
        for (percent, enough) in [50, 99].into_iter().zip(LEAST_IOS_OF_PERCENTILE) {
            let figure = |p: ProcessFigures| if percent == 50 { p.p50 } else { p.p99 };
            if of[0].ios >= enough && of[2].ios >= enough {
                let least = LEAST_LATENCY * 1e3 * case.latency_us as f64;
                add(Kind::Latency, format!("p{index} p{percent}"), of.map(figure), least);
            }
        }
    }
    for (name, field, against) in COUNTERS {
        let of = runs.map(|measured| measured.stat[field]);
        let least = LEAST_SHARE * kernel.stat[against] as f64;
        if of.iter().any(|&count| count > 0) {
            add(Kind::Disk, name.to_owned(), of, least);
        }
    }
    for (index, tenant) in case.tenants.iter().enumerate() {
        for (at, name) in GROUP_COUNTERS.into_iter().enumerate() {
            let of = runs.map(|measured| measured.groups.get(index).map_or(0, |counts| counts[at]));
            let all: u64 = kernel.groups.iter().map(|counts| counts[at]).sum();
            if of.iter().any(|&count| count > 0) {
                let name = format!("{} {name}", tenant.path);
                add(Kind::Group, name, of, LEAST_SHARE * all as f64);
            }
        }
    }
    all
}
