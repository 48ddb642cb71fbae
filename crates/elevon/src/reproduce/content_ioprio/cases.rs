//! The four cases: their runs, and the figures taken from them.

use elevon_cache::stats::CallStats;
use elevon_report::result::{JobResult, RunResult};
use elevon_report::summary::{bandwidth, total};
use elevon_sim::device::flash::FlashConfig;
use elevon_sim::profiles;

use super::sweep::{Rig, Sweep};
use crate::reproduce::lab::{Job, job};
use crate::reproduce::parameters::Parameters;

const FAULTS: Job = job!("content-ioprio/faults.fio");
const RANDREAD: Job = job!("content-ioprio/randread.fio");
const LAUNCH: Job = job!("content-ioprio/launch.fio");
const STORAGE: Job = job!("content-ioprio/storage.fio");
const SQLITE: Job = job!("content-ioprio/sqlite.fio");

const SCHEDULERS: [&str; 2] = ["mq-deadline", "bfq"];
/// BFQ without weight raising for new queues.
pub(super) const BFQ_LEVEL: &str = "bfq:low_latency=0";

/// Sizes of the experiment.
pub(super) struct Scale<'a> {
    pub(super) parameters: &'a Parameters,
    pub(super) full: bool,
    /// Maximum number of random seeds per place.
    pub(super) seeds: usize,
    /// Maximum number of places (devices with schedulers).
    pub(super) places: usize,
}

impl<'a> Scale<'a> {
    /// Returns the parameter for the chosen size.
    pub(super) fn text(&self, key: &str) -> &'a str {
        self.parameters.text(&self.sized(key))
    }

    fn sized(&self, key: &str) -> String {
        format!("{key}{}", if self.full { "_full" } else { "" })
    }

    /// Returns the factor by which times and bytes are multiplied.
    pub(super) fn factor(&self) -> f64 {
        self.parameters.number(&self.sized("size.scale"))
    }

    fn options(&self, memory: &str) -> String {
        format!(
            "--kernel {} --memory {memory} {}",
            self.parameters.text("stack.kernel"),
            self.parameters.text("stack.cpu")
        )
    }

    /// Returns the fitted UFS and the unchanged eMMC under each scheduler, with the random seeds of
    /// each: keys of the seeds of UFS under mq-deadline, of UFS under BFQ, and of eMMC.
    fn places(&self, fit: &str, devices: &[&str], [ufs, bfq, emmc]: [&str; 3]) -> Vec<(Rig, Vec<u64>)> {
        let place = |device: &&str| {
            let is_ufs = device.starts_with("ufs");
            let fit = if is_ufs { fit } else { "" };
            let device = format!("{device}{fit}");
            SCHEDULERS.map(|scheduler| {
                let key = match (is_ufs, scheduler) {
                    (true, "bfq") => bfq,
                    (true, _) => ufs,
                    (false, _) => emmc,
                };
                (Rig { device: device.clone(), scheduler }, self.seeds(key))
            })
        };
        devices.iter().flat_map(place).take(self.places).collect()
    }

    fn seeds(&self, key: &str) -> Vec<u64> {
        let mut seeds = self.parameters.numbers(&self.sized(key));
        seeds.truncate(self.seeds);
        seeds
    }

    /// Returns the UFS device as fitted in case 1.
    pub(super) fn fitted_ufs(&self) -> FlashConfig {
        let settings = self.parameters.text("case1.fit").trim_start_matches(':');
        let config = profiles::profile(BOTH[0]).and_then(|profile| profile.flash_config(settings).ok().flatten());
        config.expect("a flash profile")
    }

    /// Returns the write rate of the UFS data sheet in bytes per second.
    pub(super) fn data_sheet_rate(&self) -> u64 {
        let config = profiles::profile(BOTH[0]).and_then(|profile| profile.flash_config("").ok().flatten());
        config.expect("a flash profile").write_rate
    }
}

/// Keys of the random seeds on UFS under mq-deadline, on UFS under BFQ and on eMMC: of cases whose
/// runs take long, and of the others.
const LONG: [&str; 3] = ["size.seeds_long", "size.seeds_bfq", "size.seeds_emmc_long"];
const SHORT: [&str; 3] = ["size.seeds", "size.seeds", "size.seeds_emmc"];
const BOTH: [&str; 2] = ["ufs-2.1", "emmc-5.1"];

fn job<'a>(run: &'a RunResult, name: &str) -> &'a JobResult {
    run.jobs.iter().find(|job| job.name == name).expect("a job of the file")
}

fn faults_of(job: &JobResult) -> &CallStats {
    &job.cache_use.as_ref().expect("a buffered job").fault
}

fn seconds(job: &JobResult) -> f64 {
    job.end.since(job.start).get() as f64 / 1e9
}

/// Returns the figures of case 1: microseconds per fault that waited, such faults per second, bytes
/// per second of dd.
fn waits(run: &RunResult) -> Vec<f64> {
    let iowait = &faults_of(job(run, "costmem")).iowait;
    let written = bandwidth(&job(run, "dd").stats.directions[1]);
    let elapsed = seconds(job(run, "dd"));
    vec![iowait.sum as f64 / 1e3 / iowait.count.max(1) as f64, iowait.count as f64 / elapsed, written / 1e6]
}

pub(super) fn case1<'a>(scale: &Scale<'a>, touch: &'static str) -> Sweep<'a> {
    let of_size = [("PACE", "pace"), ("RAMP", "ramp"), ("LIMIT", "limit")];
    let mut variables = vec![("TOUCH", touch), ("SIZE", scale.text("size.file"))];
    variables.extend(of_size.map(|(name, key)| (name, scale.text(&format!("case1.{key}")))));
    Sweep {
        job: FAULTS,
        variables,
        options: scale.options(scale.text("size.memory")),
        places: scale.places(scale.parameters.text("case1.fit"), &BOTH, LONG),
        figures: waits,
    }
}

/// Returns the seconds in which dd writes four files at a rate in megabytes per second.
pub(super) fn dd_seconds(megabytes_a_second: f64) -> f64 {
    4.0 * 2_048_000.0 * 1024.0 / 1e6 / megabytes_a_second
}

/// Returns the figure of case 2: MiB/s.
fn read_rate(run: &RunResult) -> Vec<f64> {
    vec![bandwidth(&total(run)) / f64::from(1 << 20)]
}

/// Returns the sweep of case 2. `tight`: less memory and the unchanged device, instead of enough
/// memory and the fitted one.
pub(super) fn case2<'a>(scale: &Scale<'a>, tight: bool) -> Sweep<'a> {
    let (memory, fit, devices) = if tight {
        ("case2.tight", "", &BOTH[..1])
    } else {
        ("size.memory", scale.parameters.text("case2.fit"), &BOTH[..])
    };
    Sweep {
        job: RANDREAD,
        variables: vec![("SIZE", scale.text("size.file"))],
        options: scale.options(scale.text(memory)),
        places: scale.places(fit, devices, LONG),
        figures: read_rate,
    }
}

/// Returns the figures of case 3: milliseconds of the launch, and the part of them that faults
/// waited.
fn launch(run: &RunResult) -> Vec<f64> {
    let launch = job(run, "launch");
    let waited = faults_of(launch).iowait.sum as f64 / 1e6;
    vec![seconds(launch) * 1e3, waited]
}

pub(super) fn case3<'a>(scale: &Scale<'a>, ttl: u64) -> Sweep<'a> {
    let plain = |key: &str| scale.parameters.text(key);
    let mut places = scale.places("", if ttl == 0 { &BOTH } else { &BOTH[..1] }, SHORT);
    if ttl == 0 && scale.places > 1 {
        let level = Rig { device: BOTH[0].to_owned(), scheduler: BFQ_LEVEL };
        places.push((level, scale.seeds("size.seeds")));
    }
    Sweep {
        job: LAUNCH,
        variables: vec![
            ("SET", scale.text("case3.set")),
            ("FILL", scale.text("case3.fill")),
            ("CPU", plain("case3.cpu")),
            ("WRITER", plain("case3.writer")),
            ("READER", plain("case3.reader")),
        ],
        options: format!("{} --set min_ttl_ms={ttl}", scale.options(scale.text("size.memory"))),
        places,
        figures: launch,
    }
}

/// Returns the figures of case 4: MB/s of the four parts.
fn parts(run: &RunResult) -> Vec<f64> {
    let rate = |(name, direction): (&str, usize)| {
        let job = job(run, name);
        job.stats.directions[direction].bytes as f64 / 1e6 / seconds(job)
    };
    [("sequential-read", 0), ("sequential-write", 1), ("random-read", 0), ("random-write", 1)].map(rate).to_vec()
}

/// Chance has no significant effect here, so there is one random seed per place.
pub(super) fn storage<'a>(scale: &Scale<'a>) -> Sweep<'a> {
    let mut places = scale.places("", &BOTH, SHORT);
    places.iter_mut().for_each(|(_, seeds)| seeds.truncate(1));
    Sweep {
        job: STORAGE,
        variables: vec![("SIZE", scale.text("size.file"))],
        options: scale.options(scale.text("size.memory")),
        places,
        figures: parts,
    }
}

/// Returns the figure of case 4: SQLite transactions per second, with two writes each.
fn transactions(run: &RunResult) -> Vec<f64> {
    let sqlite = job(run, "sqlite");
    vec![sqlite.stats.directions[1].ios as f64 / 2.0 / seconds(sqlite)]
}

pub(super) fn sqlite<'a>(scale: &Scale<'a>) -> Sweep<'a> {
    Sweep {
        job: SQLITE,
        variables: vec![("IO", scale.text("case4.io")), ("OTHERS", scale.parameters.text("case4.others"))],
        options: scale.options(scale.text("size.memory")),
        places: scale.places("", &BOTH, SHORT),
        figures: transactions,
    }
}
