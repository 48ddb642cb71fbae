//! Records of a real kernel's run of a job, and the same job on the same device in simulation.

use std::fs;

use serde_json::Value;

use super::{Bench, kernel_truth};

/// Microseconds that FUSE, loop and wake-ups add to an I/O of the real device, in addition to the
/// latency of its slots. A record that was measured elsewhere has its own figure (`overhead_us`).
/// The figure was fitted to the records of all schedulers together, so it includes a scheduler's
/// CPU time.
const OVERHEAD_US: u64 = 150;
/// A real device of more than one slot did not serve in the order of arrival, as its latencies say.
/// With 32 reads on 8 servers and no scheduler all would take as long, and in the record
/// `qd-sweep-32` the 99th percentile is 2.6 times the mean. This chance gives that percentile.
const DISORDER: &str = ",disorder=88%";
/// How the times of such a device vary: quantiles of 1,900 single reads of the one of
/// `undisturbed.jsonl` without a scheduler, relative to their median. Without this noise processes
/// fall into step, and a state that a microsecond causes lasts.
const SPREAD: &str = ",spread_min=99.1%,spread_p10=99.4%,spread_p25=99.6%,spread_p75=100.4%,spread_p90=100.8%,\
                      spread_p99=101.7%";
/// The noise of the device of `undisturbed.jsonl` and `cached.jsonl`, measured for 647 groups of
/// four reads that were served at once. Its servers do not drift. One thread delivers what has
/// finished and wakes 0 to 31 us late. The four complete within 5 to 17 us of each other. A process
/// goes on 21 to 33 us after its completion, of which about 10 are here the CPU time of an I/O.
const DELIVERY: &str = ",deliver_late=31us,deliver_each=4us";
const WAKES: &str = "wake=11us..23us";
/// Where the worker of loop ran before fio (`worker_first`), it preempts each dispatch of fio's.
const WORKER_FIRST: &str = ",preempt=100%";
/// The mean of these two in microseconds. They are part of what was measured outside of the slots
/// for an I/O, the first also of what was measured for a flush.
const DELIVERY_US: u64 = 20;
const WAKES_US: u64 = 16;
/// When a process of the emulated machine of `cost.jsonl` and `cost-short-period.jsonl` sends its
/// first I/O after those that its depth allows at once, which are over by then. Measured in such a
/// machine (16 starts with 8 reads on null_blk): the ninth read came 9 to 41 ms after the first,
/// 20.0 in the median.
const SLOW_START_US: u64 = 20_000;
/// Allowed relative deviation of a figure from the kernel's.
pub(crate) const TOLERANCE: f64 = 0.10;

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// Returns the records of a file in order, grouped by run.
pub(crate) fn records(file: &str) -> Vec<Vec<Value>> {
    let all = fs::read_to_string(kernel_truth(file)).expect("the records");
    let mut runs: Vec<(String, Vec<Value>)> = Vec::new();
    let mut wbt_target = None;
    for line in all.lines() {
        let mut record: Value = serde_json::from_str(line).expect("a record");
        keep_wbt_target(&mut wbt_target, &mut record);
        let keys =
            ["name", "scheduler", "tunables", "set", "device", "job", "tenants", "worker_first"];
        let key = keys.map(|key| record[key].to_string()).concat();
        match runs.iter_mut().find(|(other, _)| *other == key) {
            Some((_, records)) => records.push(record),
            None => runs.push((key, vec![record])),
        }
    }
    runs.into_iter().map(|(_, records)| records).collect()
}

/// Adds the `wbt_lat_usec` that an earlier record wrote to the settings of a job through the page
/// cache: nothing was seen to take it back, and a scheduler that is chosen later leaves alone what
/// a user wrote. Inferred: *h-buf-dsync2* and *h-buf-fdata8* have with it what the kernel had.
fn keep_wbt_target(target: &mut Option<Value>, record: &mut Value) {
    let (true, Some(settings)) = (record["memory"].is_string(), record["set"].as_array_mut())
    else {
        return;
    };
    match settings.iter().find(|setting| is_wbt_target(setting)) {
        Some(written) => *target = Some(written.clone()),
        None => settings.extend(target.clone()),
    }
}

fn is_wbt_target(setting: &Value) -> bool {
    text(setting).starts_with("wbt_lat_usec=")
}

/// Returns true if writeback throttling bounds the writes of a record: those through the page
/// cache, under BFQ only if `wbt_lat_usec` was written.
fn is_throttled(record: &Value, scheduler: &str) -> bool {
    let is_written = record["set"].as_array().into_iter().flatten().any(is_wbt_target);
    record["memory"].is_string() && (is_written || !scheduler.starts_with("bfq"))
}

/// Returns the tunables that a record set, as `key=value`; `rot` is a property of the device, not
/// of the scheduler.
pub(crate) fn tunables(record: &Value) -> Vec<String> {
    let tunables = record["tunables"].as_object().expect("an object").iter();
    tunables.filter(|(key, _)| *key != "rot").map(|(key, value)| format!("{key}={value}")).collect()
}

/// Simulates the record's job on the same device with the same scheduler and tenants.
pub(crate) fn simulate(record: &Value) -> Value {
    let scheduler = [text(&record["scheduler"]).to_owned(), tunables(record).join(",")].join(":");
    simulate_under(record, scheduler.trim_end_matches(':'), record["tenants"].as_str())
}

/// Simulates the record's job on the same device without scheduler and tenants.
pub(crate) fn simulate_plain(record: &Value) -> Value {
    simulate_under(record, "none", None)
}

fn simulate_under(record: &Value, scheduler: &str, tenants: Option<&str>) -> Value {
    let bench = Bench::new();
    let job = bench.file("job.fio", as_begun(record));
    // Runs followed each other, and the depth to which writeback throttling came is the queue's:
    // only time without I/O brings it back, in about a second. So the job runs twice, the first
    // time under other names, and the second run is compared.
    let before = bench.file("before.fio", as_begun(record).replace("\n[", "\n[before-"));
    let given = |key: &str| record["device"][key].as_u64();
    let at = |key: &str| given(key).expect("a number");
    let mut device = format!(
        "slots:slots={},latency={}us,bandwidth={}MB/s,size={}MiB,rotational={},hw_queues=1,queue_depth={}{}",
        at("slots"),
        at("lat_us") + given("overhead_us").unwrap_or(OVERHEAD_US),
        at("mbps"),
        at("size_mb"),
        record["tunables"]["rot"].as_u64().unwrap_or(0),
        given("queue_depth").unwrap_or(128),
        if at("slots") > 1 && record["device"]["in_order"] != true { DISORDER } else { "" },
    );
    let outside = given("base_us");
    if let Some(us) = outside {
        device += &format!(",base_latency={}us{DELIVERY}", us - DELIVERY_US - WAKES_US);
    }
    if let Some(us) = given("flush_us") {
        device += &format!(",write_cache=1,flush_latency={}us,flush_waits=0", us - DELIVERY_US);
    }
    if outside.is_none() && text(&record["kernel"]).starts_with("6.18") {
        device += SPREAD;
    }
    let cpus = format!("cpus={}", record["cpus"]);
    let kernel: Vec<&str> = text(&record["kernel"]).split('.').take(2).collect();
    let (kernel, limit) =
        (kernel.join("."), format!("max_sectors_kb={}", given("max_sectors_kb").unwrap_or(512)));
    let mut args =
        vec!["--device", &device, "--scheduler", scheduler, "--kernel", &kernel, "--set", &limit];
    let cpu = [WAKES, if record["worker_first"] == true { WORKER_FIRST } else { "" }].concat();
    if outside.is_some() {
        args.extend(["--cpu-cost", &cpu]);
    }
    for setting in ["set", "in_force"].iter().filter_map(|key| record[*key].as_array()).flatten() {
        args.extend(["--set", text(setting)]);
    }
    if let Some(memory) = record["memory"].as_str() {
        args.extend(["--memory", memory, "--set", &cpus]);
    }
    if let Some(tenants) = tenants {
        args.extend(["--tenants", bench.file("tenants.toml", tenants)]);
    }
    match is_throttled(record, scheduler) {
        true => bench.json(before, &[&[job], &args[..]].concat()),
        false => bench.json(job, &args),
    }
}

/// Returns the record's job, each of its jobs with the delay after which it began in the kernel's
/// run, if the record has these (`starts`, in microseconds after the first).
fn as_begun(record: &Value) -> String {
    let job = text(&record["job"]);
    if text(&record["kernel"]) == "6.12" {
        return after_slow_start(job);
    }
    let Some(starts) = record["starts"].as_array() else { return job.to_owned() };
    let mut starts = starts.iter();
    let mut begun = String::new();
    for line in job.lines().filter(|line| !line.starts_with("startdelay=")) {
        begun += &format!("{line}\n");
        if line.starts_with('[') && line != "[global]" {
            begun += &format!("startdelay={}us\n", starts.next().expect("a start for each job"));
        }
    }
    begun
}

/// Returns the job with each process's first I/Os in a job of their own, and the others after them.
fn after_slow_start(job: &str) -> String {
    let mut parts = job.trim_end().split("\n[");
    let mut begun = parts.next().expect("the global section").to_owned();
    for part in parts {
        let (name, options) = part.split_once(']').expect("a section");
        let depth = options.lines().find_map(|line| line.strip_prefix("iodepth=")).unwrap_or("1");
        begun += &format!("\n[first-{name}]{options}\ntime_based=0\nnumber_ios={depth}");
        begun += &format!("\n[{name}]{options}\nstartdelay={SLOW_START_US}us");
    }
    begun + "\n"
}

/// Returns the relative distance of `ours` from the range of the kernel's runs. The error of a
/// starved job (under 1 % of the total) is relative to a tenth of the total.
fn error(seen: &[f64], ours: f64, total: f64) -> f64 {
    let low = seen.iter().copied().fold(f64::INFINITY, f64::min);
    let high = seen.iter().copied().fold(0.0, f64::max);
    let scale = if high > 0.01 * total { (low + high) / 2.0 } else { 0.1 * total };
    (low - ours).max(ours - high).max(0.0) / scale
}

/// I/Os per second of one job in one direction.
pub(crate) struct Rate {
    /// `JOB.DIRECTION`.
    pub(crate) name: String,
    /// Rate in each run of the kernel.
    pub(crate) seen: Vec<f64>,
    /// Rate in the simulation.
    pub(crate) ours: f64,
    /// Relative error of the simulation.
    pub(crate) off: f64,
}

/// Compares the rate of each job in each direction.
pub(crate) fn compare_rates(runs: &[Value], ours: &Value) -> Vec<Rate> {
    let rates = |run: &Value| -> Vec<(String, f64)> {
        let jobs = run["result"].as_object().expect("jobs").iter();
        jobs.flat_map(|(job, directions)| {
            let directions = directions.as_object().expect("directions").iter();
            directions.map(move |(direction, figures)| {
                (format!("{job}.{direction}"), number(&figures["iops"]))
            })
        })
        .collect()
    };
    let sum = |run: &Value| rates(run).iter().map(|(_, iops)| iops).sum::<f64>();
    let total = runs.iter().map(sum).sum::<f64>() / runs.len() as f64;
    let mut rows = Vec::new();
    for (name, _) in rates(&runs[0]) {
        let seen: Vec<f64> = runs
            .iter()
            .flat_map(&rates)
            .filter(|(n, _)| *n == name)
            .map(|(_, iops)| iops)
            .collect();
        let (job, direction) = name.split_once('.').expect("job and direction");
        let jobs = ours["jobs"].as_array().expect("jobs").iter();
        let ours: f64 =
            jobs.filter(|j| j["jobname"] == job).map(|j| number(&j[direction]["iops"])).sum();
        let off = error(&seen, ours, total);
        rows.push(Rate { name, seen, ours, off });
    }
    rows
}
