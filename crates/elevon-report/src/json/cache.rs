//! `elevon.cache`: waits for the page cache by job and kind of call, its counters, and its state
//! over time. `docs/reference/page-cache-report.md` describes each key.

use elevon_cache::page_cache::Cause;
use elevon_cache::stats::{CLASSES, CacheUse, CallStats, ClassWaits, Window};
use elevon_core::stats::LatencyStat;
use elevon_core::units::Nanos;
use elevon_result::result::{CacheResult, CacheSeries, CacheSource, RunResult};
use elevon_result::summary::ratio;
use serde_json::{Map, Value, json};

use super::{JsonOptions, latency};
use crate::cache::{
    CLASS_NAMES, cache_total, hit_ratio, intervals, iowait_us_per_window, ms_per_second,
    window_percentile, windows,
};

/// Percentiles of waits, in millionths.
const PERCENTILES: [u32; 5] = [500_000, 900_000, 950_000, 990_000, 999_000];

/// Settings for showing statistics.
#[derive(Clone, Copy)]
struct Shape {
    /// Duration of the job or of the run.
    elapsed: u64,
    window: Nanos,
    bins: bool,
}

pub(super) fn value(run: &RunResult, cache: &CacheResult, options: JsonOptions) -> Value {
    let CacheResult { memory, others, policy, activity, window, .. } = cache;
    let shape = |elapsed| Shape { elapsed, window: *window, bins: options.bins };
    let jobs = run.jobs.iter().filter_map(|job| {
        let used = job.cache_use.as_ref()?;
        let mut out = kinds(used, shape(job.end.since(job.start).get()));
        out.insert("jobname".into(), json!(job.name));
        Some(Value::Object(out))
    });
    let object = |counts: &[(String, u64)]| {
        let counts = counts.iter().map(|(name, count)| (name.clone(), json!(count)));
        Value::Object(counts.collect())
    };
    let sources = cache.sources.iter().map(|of| (of.name.clone(), source(of)));
    let mut out = json!({
        "memory": memory.get(),
        "others": others.get(),
        "policy": policy,
        "activity": activity,
        "window_ns": window.get(),
        "jobs": jobs.collect::<Vec<_>>(),
        "all": kinds(&cache_total(run), shape(run.elapsed.get())),
        "sources": sources.collect::<Map<_, _>>(),
        "vmstat": object(&cache.vmstat),
        "counters": cache.groups.iter().map(|(name, counts)| (name.clone(), object(counts))).collect::<Map<_, _>>(),
    });
    if options.series {
        out["series"] = series(&cache.series);
    }
    out
}

fn kinds(used: &CacheUse, shape: Shape) -> Map<String, Value> {
    let kinds = used.kinds().into_iter().map(|(name, stats)| (name.to_owned(), call(stats, shape)));
    let mut out: Map<String, Value> = kinds.collect();
    out.insert("touches".into(), json!(used.touches));
    out
}

fn call(stats: &CallStats, shape: Shape) -> Value {
    let CallStats { calls, major, slept, iowait, device_ns, served, paused, starved, .. } = stats;
    let Shape { elapsed, window, bins } = shape;
    let sum = |stat: &LatencyStat| u64::try_from(stat.sum).unwrap_or(u64::MAX);
    let ms_per_second = ms_per_second(iowait.sum, elapsed);
    let us_per_window = iowait_us_per_window(iowait.sum, elapsed, window);
    json!({
        "calls": calls,
        "major": major,
        "minor": stats.minor(),
        "slept": slept,
        "slept_for_io": iowait.count,
        "iowait_ns_total": sum(iowait),
        "iowait_ns_per_call": ratio(iowait.sum as f64, *calls as f64),
        "iowait_ns_per_sleep": ratio(iowait.sum as f64, iowait.count as f64),
        "iowait_ns": latency(iowait, &PERCENTILES, bins),
        "iowait_ms_per_second": ms_per_second,
        "iowait_us_per_second": 1e3 * ms_per_second,
        "iowait_us_per_window": us_per_window,
        "iowait_ms_per_window": us_per_window / 1e3,
        "device_ns": device_ns,
        "queue_ns": sum(iowait).saturating_sub(*device_ns),
        "served": by_class(served),
        "paused_ns_total": sum(paused),
        "paused_ns": latency(paused, &PERCENTILES, bins),
        "without_memory": { "count": starved.count, "ns_total": starved.ns, "ns_max": starved.ns_max },
        "windows": {
            "length_ns": stats.windows.length().get(),
            "list": windows(stats).map(|(start, window)| one_window(start, window)).collect::<Vec<_>>(),
        },
    })
}

fn by_class(served: &[ClassWaits; CLASSES.len()]) -> Value {
    let of = |&ClassWaits { calls, iowait_ns, device_ns }: &ClassWaits| {
        json!({
            "calls": calls,
            "iowait_ns": iowait_ns,
            "device_ns": device_ns,
            "queue_ns": iowait_ns.saturating_sub(device_ns),
        })
    };
    Value::Object(
        CLASS_NAMES
            .iter()
            .zip(served)
            .map(|(name, served)| ((*name).to_owned(), of(served)))
            .collect(),
    )
}

fn one_window(start: Nanos, window: &Window) -> Value {
    let ClassWaits { calls, iowait_ns, device_ns } = window.iowait();
    let percentiles = PERCENTILES[..4].iter().filter(|_| calls > 0);
    let percentiles = percentiles
        .map(|&p| (format!("{:.6}", f64::from(p) / 1e4), json!(window_percentile(window, p))));
    json!({
        "start_ns": start.get(),
        "calls": window.calls,
        "major": window.major,
        "slept": window.slept,
        "slept_for_io": calls,
        "iowait_us": iowait_ns as f64 / 1e3,
        "iowait_ms": iowait_ns as f64 / 1e6,
        "iowait_ns_per_call": ratio(iowait_ns as f64, window.calls as f64),
        "iowait_ns_per_sleep": ratio(iowait_ns as f64, calls as f64),
        "iowait_ns_max": window.iowait_ns_max,
        "percentile": percentiles.collect::<Map<_, _>>(),
        "device_ns": device_ns,
        "queue_ns": iowait_ns.saturating_sub(device_ns),
        "served": CLASS_NAMES.iter().zip(&window.served).map(|(name, served)| ((*name).to_owned(), json!(served.calls)))
            .collect::<Map<_, _>>(),
        "paused": { "count": window.paused.count, "ns_total": window.paused.ns, "ns_max": window.paused.ns_max },
        "without_memory":
            { "count": window.starved.count, "ns_total": window.starved.ns, "ns_max": window.starved.ns_max },
    })
}

fn source(source: &CacheSource) -> Value {
    let CacheSource { bios, bytes, active_bytes, rt, promoted, raised, demoted, denied, .. } =
        source;
    let mut out = json!({
        "bios": bios,
        "bytes": bytes,
        "rt": rt,
        "promoted": promoted,
        "raised": raised,
        "demoted": demoted,
        "promotion_denied": denied,
    });
    if let Some(active) = active_bytes {
        out["active_bytes"] = json!(active);
    }
    out
}

/// Returns the readings of each interval; levels, in pages, are as of its end.
fn series(series: &CacheSeries) -> Value {
    let points = intervals(series).map(|(_, at, reading)| {
        let mut out = json!({
            "at_ns": at.get(),
            "hits": reading.hits,
            "misses": reading.misses,
            "touches": reading.touches,
            "bios": reading.bios,
            "promoted": reading.promoted,
            "refaulted": reading.refaulted,
            "restored": reading.restored,
            "pgsteal_kswapd": reading.kswapd_reclaimed,
            "pgsteal_direct": reading.direct_reclaimed,
            "dirtied": reading.dirtied,
            "written": reading.written,
            "cached": reading.cached,
            "mapped": reading.mapped,
            "dirty": reading.dirty,
            "writeback": reading.writeback,
            "free": reading.free,
            "dirty_limit": reading.dirty_limit,
            "dirty_background": reading.dirty_background,
        });
        if let Some(ratio) = hit_ratio(reading.hits, reading.misses) {
            out["hit_ratio"] = json!(ratio);
        }
        for (cause, waits) in
            Cause::ALL.into_iter().zip(&reading.waits).filter(|(_, waits)| waits.count > 0)
        {
            out[cause.name()] = json!({
                "count": waits.count,
                "major": waits.major,
                "slept": waits.slept,
                "slept_ns": waits.iowait.get(),
            });
        }
        out
    });
    json!({ "interval_ns": series.interval.get(), "points": points.collect::<Vec<_>>() })
}
