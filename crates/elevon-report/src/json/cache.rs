//! `elevon.cache`: waits for the page cache by job and kind of call, and its counters.

use elevon_core::stats::{CacheUse, CallStats, LatencyStat};
use serde_json::{Map, Value, json};

use super::latency;
use crate::result::{CacheResult, RunResult};
use crate::summary::{cache_total, ratio};

/// Percentiles of waits, in millionths.
const PERCENTILES: [u32; 5] = [500_000, 900_000, 950_000, 990_000, 999_000];

pub(super) fn value(run: &RunResult, cache: &CacheResult, bins: bool) -> Value {
    let CacheResult { memory, others, policy, activity, groups } = cache;
    let jobs = run.jobs.iter().filter_map(|job| {
        let used = job.stats.cache.as_ref()?;
        let mut out = kinds(used, job.end.since(job.start).get(), bins);
        out.insert("jobname".into(), json!(job.name));
        Some(Value::Object(out))
    });
    let counters = groups.iter().map(|(name, counts)| {
        let counts = counts.iter().map(|(name, count)| (name.clone(), json!(count)));
        (name.clone(), Value::Object(counts.collect()))
    });
    json!({
        "memory": memory.get(),
        "others": others.get(),
        "policy": policy,
        "activity": activity,
        "jobs": jobs.collect::<Vec<_>>(),
        "all": kinds(&cache_total(run), run.elapsed.get(), bins),
        "counters": counters.collect::<Map<_, _>>(),
    })
}

fn kinds(used: &CacheUse, ns: u64, bins: bool) -> Map<String, Value> {
    let kinds = used.kinds().into_iter().map(|(name, stats)| (name.to_owned(), call(stats, ns, bins)));
    let mut out: Map<String, Value> = kinds.collect();
    out.insert("touches".into(), json!(used.touches));
    out
}

/// Sums are in nanoseconds; `ms_per_s` is over the time that the job ran, `iowait_us_per_second` the same in microseconds.
fn call(stats: &CallStats, ns: u64, bins: bool) -> Value {
    let CallStats { calls, major, iowait, device_ns, paused } = stats;
    let sum = |stat: &LatencyStat| u64::try_from(stat.sum).unwrap_or(u64::MAX);
    let ms_per_s = 1e3 * ratio(iowait.sum as f64, ns as f64);
    json!({
        "calls": calls,
        "major": major,
        "slept": iowait.count,
        "iowait_ns_total": sum(iowait),
        "iowait_ns_per_call": ratio(iowait.sum as f64, *calls as f64),
        "iowait_ns": latency(iowait, &PERCENTILES, bins),
        "iowait_ms_per_second": ms_per_s,
        "iowait_us_per_second": 1e3 * ms_per_s,
        "device_ns": device_ns,
        "queue_ns": sum(iowait).saturating_sub(*device_ns),
        "paused_ns_total": sum(paused),
        "paused_ns": latency(paused, &PERCENTILES, bins),
    })
}
