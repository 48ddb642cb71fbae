//! Records of what a real kernel did with a job, and the same job on the same device in simulation.

use std::fs;

use serde_json::Value;

use super::{Bench, kernel_truth};

/// What FUSE, loop and wake-ups add to an I/O of the real device, beside the latency of its slots,
/// in microseconds. A record that was measured elsewhere has its own figure (`overhead_us`). It was
/// fitted to the records of all schedulers together, so it holds a scheduler's CPU time, too.
const OVERHEAD_US: u64 = 150;
/// How far a figure may be off, relative to what the kernel showed.
pub(crate) const TOLERANCE: f64 = 0.10;

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// The records of a file in their order; repetitions of a run are together.
pub(crate) fn records(file: &str) -> Vec<Vec<Value>> {
    let all = fs::read_to_string(kernel_truth(file)).expect("the records");
    let mut runs: Vec<(String, Vec<Value>)> = Vec::new();
    for line in all.lines() {
        let record: Value = serde_json::from_str(line).expect("a record");
        let keys = ["name", "scheduler", "tunables", "device", "job", "tenants"];
        let key = keys.map(|key| record[key].to_string()).concat();
        match runs.iter_mut().find(|(other, _)| *other == key) {
            Some((_, records)) => records.push(record),
            None => runs.push((key, vec![record])),
        }
    }
    runs.into_iter().map(|(_, records)| records).collect()
}

/// The tunables that a record set, as `key=value`; `rot` is the device's, not the scheduler's.
pub(crate) fn tunables(record: &Value) -> Vec<String> {
    let tunables = record["tunables"].as_object().expect("an object").iter();
    tunables.filter(|(key, _)| *key != "rot").map(|(key, value)| format!("{key}={value}")).collect()
}

/// The same job on the same device with the same scheduler and tenants, simulated.
pub(crate) fn simulate(record: &Value) -> Value {
    let scheduler = [text(&record["scheduler"]).to_owned(), tunables(record).join(",")].join(":");
    simulate_under(record, scheduler.trim_end_matches(':'), record["tenants"].as_str())
}

/// The same job on the same device without scheduler and tenants, simulated.
pub(crate) fn simulate_plain(record: &Value) -> Value {
    simulate_under(record, "none", None)
}

fn simulate_under(record: &Value, scheduler: &str, tenants: Option<&str>) -> Value {
    let bench = Bench::new();
    let job = bench.file("job.fio", text(&record["job"]));
    let given = |key: &str| record["device"][key].as_u64();
    let at = |key: &str| given(key).expect("a number");
    let device = format!(
        "slots:slots={},latency={}us,bandwidth={}MB/s,size={}MiB,rotational={},hw_queues=1,queue_depth={}",
        at("slots"),
        at("lat_us") + given("overhead_us").unwrap_or(OVERHEAD_US),
        at("mbps"),
        at("size_mb"),
        record["tunables"]["rot"].as_u64().unwrap_or(0),
        given("queue_depth").unwrap_or(128),
    );
    let kernel: Vec<&str> = text(&record["kernel"]).split('.').take(2).collect();
    let (kernel, limit) = (kernel.join("."), format!("max_sectors_kb={}", given("max_sectors_kb").unwrap_or(512)));
    let mut args = vec!["--device", &device, "--scheduler", scheduler, "--kernel", &kernel, "--set", &limit];
    if let Some(tenants) = tenants {
        args.extend(["--tenants", bench.file("tenants.toml", tenants)]);
    }
    bench.json(job, &args)
}

/// How far `ours` lies outside what the kernel showed, relative to that. A starved job (under 1 %
/// of the total) is right when it is starved here too, and is measured against a tenth of the
/// total.
fn error(seen: &[f64], ours: f64, total: f64) -> f64 {
    let low = seen.iter().copied().fold(f64::INFINITY, f64::min);
    let high = seen.iter().copied().fold(0.0, f64::max);
    let scale = if high > 0.01 * total { (low + high) / 2.0 } else { 0.1 * total };
    (low - ours).max(ours - high).max(0.0) / scale
}

/// I/Os a second of one job in one direction.
pub(crate) struct Rate {
    /// `JOB.DIRECTION`.
    pub(crate) name: String,
    /// What each of the kernel's runs showed.
    pub(crate) seen: Vec<f64>,
    /// What the simulation shows.
    pub(crate) ours: f64,
    /// How far that is off.
    pub(crate) off: f64,
}

/// Each job's rate in each direction.
pub(crate) fn compare_rates(runs: &[Value], ours: &Value) -> Vec<Rate> {
    let rates = |run: &Value| -> Vec<(String, f64)> {
        let jobs = run["result"].as_object().expect("jobs").iter();
        jobs.flat_map(|(job, directions)| {
            let directions = directions.as_object().expect("directions").iter();
            directions.map(move |(direction, figures)| (format!("{job}.{direction}"), number(&figures["iops"])))
        })
        .collect()
    };
    let sum = |run: &Value| rates(run).iter().map(|(_, iops)| iops).sum::<f64>();
    let total = runs.iter().map(sum).sum::<f64>() / runs.len() as f64;
    let mut rows = Vec::new();
    for (name, _) in rates(&runs[0]) {
        let seen: Vec<f64> = runs.iter().flat_map(&rates).filter(|(n, _)| *n == name).map(|(_, iops)| iops).collect();
        let (job, direction) = name.split_once('.').expect("job and direction");
        let jobs = ours["jobs"].as_array().expect("jobs").iter();
        let ours: f64 = jobs.filter(|j| j["jobname"] == job).map(|j| number(&j[direction]["iops"])).sum();
        let off = error(&seen, ours, total);
        rows.push(Rate { name, seen, ours, off });
    }
    rows
}
