//! The `elevon` object: figures for which fio's schema has no key.

use elevon_core::kernel::IoTicksForm;
use elevon_core::op::StatGroup;
use elevon_result::result::{JobResult, NotKept, ReadFile, RunResult, Series, StackCounters};
use elevon_result::summary::{DiskDelta, ratio};
use serde_json::{Map, Value, json};

use super::{JsonOptions, SCHEMA_VERSION, latency, strings};
use crate::cpu;
use crate::fairness::{self, Fairness, Part};
use crate::settings;
use crate::slices;

/// Percentiles of the stages, in millionths.
const STAGE_PERCENTILES: [u32; 6] = [10_000, 500_000, 900_000, 990_000, 999_000, 999_900];

pub(super) fn value(run: &RunResult, options: JsonOptions) -> Value {
    let delta = DiskDelta::between(&run.disk.start, &run.disk.end);
    let mut out = json!({
        "schema_version": SCHEMA_VERSION,
        "seed": run.seed,
        "command": run.command,
        "inputs": run.inputs.iter().map(input).collect::<Vec<_>>(),
        "device": device(run),
        "kernel": run.kernel.name(),
        "scheduler": scheduler(run),
        "config": strings(&run.config),
        "elapsed_ns": run.elapsed.get(),
        "stages": stages(run, options),
        "request_sizes": request_sizes(run),
        "diskstats": {
            "span_ns": run.disk.span().get(),
            "start": run.disk.start.fields(),
            "end": run.disk.end.fields(),
        },
        "utilisation": utilisation(run, &delta),
        "queue_depth_mean": delta.mean_in_flight,
        "counters": counters(&run.disk.counters),
        "events_lost": run.events_lost,
        "warnings": run.warnings,
    });
    if !run.not_kept.is_empty() {
        out["not_kept"] = not_kept(&run.not_kept);
    }
    if !run.faults.is_empty() {
        out["faults"] =
            run.faults.iter().map(|f| json!({ "rule": f.rule, "fired": f.fired })).collect();
    }
    if let Some(found) = fairness::fairness(run) {
        out["fairness"] = fairness_value(run, &found);
    }
    if !run.slices.is_empty() {
        out["slices"] = slices::value(run);
    }
    if run.cpu.is_some() {
        out["cpu"] = cpu_value(run);
    }
    if let Some(cache) = &run.cache {
        out["cache"] = super::cache::value(run, cache, options);
    }
    if !run.tenants.is_empty() {
        out["tenants"] = super::tenants::value(run);
    }
    if !run.changes.is_empty() {
        out["changes"] = super::over_time::changes(&run.changes);
    }
    if let (true, Some(found)) = (options.series, &run.series) {
        out["series"] = series(found);
        for (kind, key, owners) in
            [("tenants", "path", &run.owners.tenants), ("jobs", "name", &run.owners.jobs)]
        {
            if !owners.is_empty() {
                out["series"][kind] = super::over_time::owners(key, owners);
            }
        }
    }
    out
}

fn counters(counters: &StackCounters) -> Value {
    json!({
        "splits": counters.splits,
        "tails": counters.tails,
        "merges": counters.merges,
        "requeues": counters.requeues,
        "retries": counters.retries,
        "timeouts": counters.timeouts,
        "late_answers": counters.late_answers,
        "wbt_waits": counters.wbt_waits,
    })
}

fn scheduler(run: &RunResult) -> Value {
    let mut out = json!({
        "name": run.scheduler.name,
        "tunables": strings(&run.scheduler.tunables),
        "counters": run.scheduler.counters.iter().map(|(k, v)| (k.clone(), json!(v))).collect::<Map<_, _>>(),
    });
    if let Some(note) = &run.scheduler.note {
        out["note"] = json!(note);
    }
    out
}

/// Returns what a replay does not keep of its trace.
pub fn not_kept(all: &[NotKept]) -> Value {
    all.iter().map(|one| json!({ "property": one.property, "why": one.why })).collect()
}

/// Returns a file with its text, so that the report is enough to repeat the run.
fn input(file: &ReadFile) -> Value {
    json!({ "name": file.name, "text": file.text })
}

/// Returns shares of CPU time from 0 to 1, and what they limited.
fn cpu_value(run: &RunResult) -> Value {
    let of_job = |job: &JobResult| {
        json!({
            "name": job.name,
            "utilisation": cpu::utilisation(job),
            "limits": cpu::is_limited(run, job),
        })
    };
    json!({
        "jobs": run.jobs.iter().map(of_job).collect::<Vec<_>>(),
        "scheduler_lock": cpu::lock_utilisation(run),
        "device_alone_iops": run.cpu.as_ref().and_then(|cpu| cpu.device_alone),
        "notes": cpu::limits(run),
    })
}

fn device(run: &RunResult) -> Value {
    let device = &run.device;
    json!({
        "name": device.name,
        "simulated": device.simulated,
        "size": device.size.get(),
        "hw_queues": device.hw_queues,
        "queue_depth": device.queue_depth,
        "limits": settings::limits_value(run),
        "lacks": device.lacks,
        "estimates": device
            .estimates
            .iter()
            .map(|estimate| json!({ "figures": estimate.named(), "parameters": estimate.parameters }))
            .collect::<Vec<_>>(),
    })
}

fn stages(run: &RunResult, options: JsonOptions) -> Value {
    let of = |stat| latency(stat, &STAGE_PERCENTILES, options.bins);
    let groups = StatGroup::NAMES.iter().zip(&run.disk.stages).map(|(group, stage)| {
        let both = json!({
            "queued_to_dispatched_ns": of(&stage.queued_to_dispatched),
            "dispatched_to_completed_ns": of(&stage.dispatched_to_completed),
        });
        ((*group).to_owned(), both)
    });
    Value::Object(groups.collect())
}

fn request_sizes(run: &RunResult) -> Value {
    let groups = StatGroup::NAMES.iter().zip(&run.disk.request_sizes).map(|(group, sizes)| {
        let counts: Map<_, _> =
            sizes.0.iter().map(|&(bytes, n)| (bytes.to_string(), json!(n))).collect();
        ((*group).to_owned(), Value::Object(counts))
    });
    Value::Object(groups.collect())
}

fn utilisation(run: &RunResult, delta: &DiskDelta) -> Value {
    let mut out = Map::new();
    out.insert("io_ticks".into(), json!(run.disk.io_ticks.name()));
    for (form, percent) in IoTicksForm::ALL.iter().zip(delta.utilisation()) {
        out.insert(form.name().into(), json!(percent));
    }
    Value::Object(out)
}

/// Returns the fairness of runs whose jobs set priorities or weights. Shares are from 0 to 1, among
/// jobs of the same time and class.
fn fairness_value(run: &RunResult, found: &Fairness) -> Value {
    let jobs: Vec<Value> = found
        .shares
        .iter()
        .map(|share| {
            let job = &run.jobs[share.job];
            let Part { due, got } = share.bandwidth;
            let mut out =
                json!({ "jobname": job.name, "due_by_weight": share.by_weight, "due": due, "bandwidth": got });
            if let Some(claim) = &job.claim {
                out["prioclass"] = json!(claim.class as u8);
                out["weight"] = json!(claim.weight);
                if let Some((path, weight)) = claim.cgroups.last() {
                    out["cgroup"] = json!({ "path": path, "weight": weight });
                }
            }
            if let Some(time) = share.device_time {
                out["device_time_due"] = json!(time.due);
                out["device_time"] = json!(time.got);
            }
            out
        })
        .collect();
    let mut out = json!({ "jobs": jobs });
    for (key, index) in
        [("jain_bandwidth", found.jain_bandwidth()), ("jain_device_time", found.jain_device_time())]
    {
        if let Some(index) = index {
            out[key] = json!(index);
        }
    }
    out
}

fn series(series: &Series) -> Value {
    let points: Vec<Value> = series
        .points
        .iter()
        .map(|point| {
            let (bytes, ios): (u64, u64) = (point.bytes.iter().sum(), point.ios.iter().sum());
            json!({
                "at_ns": point.at.get(),
                "bytes": point.bytes,
                "ios": point.ios,
                "in_flight": point.in_flight,
                "request_bytes_mean": ratio(bytes as f64, ios as f64),
            })
        })
        .collect();
    json!({ "interval_ns": series.interval.get(), "points": points })
}
