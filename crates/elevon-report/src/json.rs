//! JSON in fio's schema, with fio's keys in fio's order, and one more top-level object, `elevon`.
//!
//! Floats have six decimals, as fio prints them. Keys of fio versions later than 3.33 (`job_start`,
//! `priohint`, `read_sectors` ...) are included. `fio version` is `fio-3.33-elevon-VERSION`: it
//! names fio's version for programs that parse the schema, and Elevon's for readers.

mod cache;
mod compare;
mod elevon;
mod over_time;
mod tenants;

pub use self::compare::comparison;
pub use self::elevon::not_kept;

use std::io;

use elevon_cache::stats::CallStats;
use elevon_core::ioprio::IoPrio;
use elevon_core::stats::{Direction, DirectionStats, LatencyStat};
use elevon_result::number::date;
use elevon_result::result::{JobResult, RunResult, SteadyState, UnifiedReporting};
use elevon_result::summary::{
    self, DiskDelta, GroupBandwidths, bandwidth, iops, latency_deviation, latency_mean, mixed,
    ratio, runtime_ms, sample_deviation, sample_mean,
};
use serde::Serialize as _;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use serde_json::{Map, Value, json};

use crate::steady::SteadyFigures;
use crate::text::{BUCKETS, bucket_counts, shares};

/// Version of the `elevon` object. It increases if a key changes its meaning or is removed.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// Optional parts of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonOptions {
    /// Include the bins of every latency histogram, as fio's `json+` does.
    pub bins: bool,
    /// Include the run over time, under `elevon.series`.
    pub series: bool,
}

/// Returns the report of a run as JSON text that ends with a newline.
pub fn report(run: &RunResult, options: JsonOptions) -> String {
    text(&value(run, options))
}

/// Returns the report of a run as a JSON value.
pub fn value(run: &RunResult, options: JsonOptions) -> Value {
    let bandwidths = GroupBandwidths::from_run(run);
    let jobs: Vec<Value> =
        run.jobs.iter().map(|job| job_value(run, job, &bandwidths, options)).collect();
    let mut all = json!({
        "fio version": concat!("fio-3.33-elevon-", env!("CARGO_PKG_VERSION")),
        "timestamp": run.unix_ms / 1000,
        "timestamp_ms": run.unix_ms,
        "time": date(run.unix_ms),
    });
    if !run.global_options.is_empty() {
        all["global options"] = strings(&run.global_options);
    }
    all["jobs"] = jobs.into();
    if let Some(name) = &run.disk.disk {
        all["disk_util"] = json!([disk_util(run, name)]);
    }
    all["elevon"] = elevon::value(run, options);
    all
}

/// Formats a value as text in fio's style.
fn text(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, FioStyle(PrettyFormatter::new()));
    value
        .serialize(&mut serializer)
        .unwrap_or_else(|_| unreachable!("writing to memory cannot fail"));
    bytes.push(b'\n');
    String::from_utf8(bytes).unwrap_or_else(|_| unreachable!("JSON is UTF-8"))
}

/// fio's style: an indent of two spaces, a space on both sides of the colon, six decimals.
struct FioStyle(PrettyFormatter<'static>);

impl Formatter for FioStyle {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }
    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }
    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }
    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }
    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }
    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }
    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b" : ")
    }
    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        write!(writer, "{value:.6}")
    }
}

fn strings(rows: &[(String, String)]) -> Value {
    Value::Object(
        rows.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect(),
    )
}

fn job_value(
    run: &RunResult,
    job: &JobResult,
    bandwidths: &GroupBandwidths,
    options: JsonOptions,
) -> Value {
    let stats = &job.stats;
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        out.insert(key.to_owned(), value);
    };
    put("jobname", json!(job.name));
    put("groupid", json!(job.group));
    let run_start_ms = run.unix_ms.saturating_sub(run.elapsed.as_millis());
    put("job_start", json!(run_start_ms + job.start.get() / 1_000_000));
    put("error", json!(stats.error));
    put("eta", json!(0));
    put("elapsed", json!(run.elapsed.get().div_ceil(1_000_000_000)));
    if !job.options.is_empty() {
        put("job options", strings(&job.options));
    }
    let group = |at: Option<usize>| bandwidths.get(job.group, at);
    if job.unified != UnifiedReporting::Mixed {
        for (name, direction) in ["read", "write", "trim"].iter().zip(Direction::ALL) {
            let at = direction as usize;
            put(name, direction_value(job, &stats.directions[at], group(Some(at)), options));
        }
        put(
            "sync",
            json!({ "total_ios": stats.sync.count, "lat_ns": latency_value(job, &stats.sync, true, options) }),
        );
    }
    if job.unified != UnifiedReporting::Separate {
        put("mixed", direction_value(job, &mixed(stats), group(None), options));
    }
    put("job_runtime", json!(stats.run_ns / 1_000_000));
    let share = |ns: u64| json!(100.0 * ratio(ns as f64, stats.run_ns as f64));
    put("usr_cpu", share(stats.cpu_user_ns));
    put("sys_cpu", share(stats.cpu_ns - stats.cpu_user_ns));
    put("ctx", json!(stats.context_switches));
    let faults = job.cache_use.as_ref().map(|used| &used.fault);
    put("majf", json!(faults.map_or(0, |fault| fault.major)));
    put("minf", json!(faults.map_or(0, CallStats::minor)));
    levels(job, &mut put);
    if let Some(errors) = &job.counted_errors {
        put("total_err", json!(errors.total));
        put("first_error", json!(errors.first));
    }
    let given = job.latency_target;
    put("latency_depth", json!(given.map_or(job.workload.depth, |given| given.depth)));
    // As in fio, the target is in nanoseconds and the window in microseconds.
    put("latency_target", json!(given.map_or(0, |given| given.target.get())));
    put(
        "latency_percentile",
        json!(given.map_or(100.0, |given| f64::from(given.percentile) / 1e6)),
    );
    put("latency_window", json!(given.map_or(0, |given| given.window.as_micros())));
    if let Some(steady) = &job.steady {
        put("steadystate", steady_value(steady));
    }
    if !job.description.is_empty() {
        put("desc", json!(job.description));
    }
    Value::Object(out)
}

/// Returns fio's object; a window that is not full has zeroes at its end, as there.
fn steady_value(steady: &SteadyState) -> Value {
    let percent = if steady.percent { "%" } else { "" };
    let figures = SteadyFigures::from_steady(steady);
    let padded = |of: fn(&(u64, u64)) -> u64| -> Vec<u64> {
        let samples = steady.samples.iter().map(of);
        samples.chain(std::iter::repeat(0)).take(steady.window.max(steady.samples.len())).collect()
    };
    json!({
        "ss": format!("{}:{:.6}{percent}", steady.criterion, steady.limit as f64 / 1e6),
        "duration": steady.duration.get() / 1_000_000_000,
        "attained": u8::from(steady.attained),
        "criterion": format!("{:.6}{percent}", figures.criterion),
        "max_deviation": figures.deviation,
        "slope": figures.slope,
        "data": {
            "bw_mean": figures.bandwidth_mean as u64,
            "iops_mean": figures.iops_mean as u64,
            "iops": padded(|sample| sample.0),
            "bw": padded(|sample| sample.1),
        },
    })
}

/// Adds depth levels and latency buckets, in percent.
fn levels(job: &JobResult, put: &mut impl FnMut(&str, Value)) {
    let stats = &job.stats;
    let depths = ["1", "2", "4", "8", "16", "32", ">=64"];
    let batches = ["0", "4", "8", "16", "32", "64", ">=64"];
    for (key, names, counts) in [
        ("iodepth_level", depths, &stats.depth_levels),
        ("iodepth_submit", batches, &stats.submit_levels),
        ("iodepth_complete", batches, &stats.complete_levels),
    ] {
        let shares = names
            .iter()
            .zip(shares(counts))
            .map(|(name, share)| ((*name).to_owned(), json!(share)));
        put(key, Value::Object(shares.collect()));
    }
    let clat = mixed(stats).clat;
    let keys = ["latency_ns", "latency_us", "latency_ms"];
    for ((key, (_, _, bounds)), counts) in keys.iter().zip(BUCKETS).zip(bucket_counts(&clat)) {
        let names = bounds.iter().map(u64::to_string).chain([">=2000".to_owned()]);
        let shares = names.zip(counts).map(|(name, n)| {
            let share = 100.0 * ratio(n as f64, clat.count as f64);
            (name, json!(if n > 0 { share.max(0.01) } else { 0.0 }))
        });
        put(key, Value::Object(shares.collect()));
    }
}

fn direction_value(
    job: &JobResult,
    figures: &DirectionStats,
    group_bandwidth: f64,
    options: JsonOptions,
) -> Value {
    let rate = bandwidth(figures);
    let wanted = job.latency_percentiles;
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        out.insert(key.to_owned(), value);
    };
    put("io_bytes", json!(figures.bytes));
    put("io_kbytes", json!(figures.bytes / 1024));
    put("bw_bytes", json!(rate as u64));
    put("bw", json!((rate / 1024.0) as u64));
    put("iops", json!(iops(figures)));
    put("runtime", json!(runtime_ms(figures.runtime_ns)));
    put("total_ios", json!(figures.ios));
    put("short_ios", json!(figures.short_ios));
    put("drop_ios", json!(0));
    put("slat_ns", latency_value(job, &figures.slat, wanted.slat, options));
    put("clat_ns", latency_value(job, &figures.clat, wanted.clat, options));
    put("lat_ns", latency_value(job, &figures.lat, wanted.lat, options));
    if figures.by_priority.len() > 1 {
        let prios = figures
            .by_priority
            .iter()
            .map(|(prio, stat)| priority_value(job, *prio, stat, options));
        put("prios", prios.collect());
    }
    let (bw, io) = (&figures.bandwidth, &figures.iops);
    let mean = sample_mean(bw);
    put("bw_min", json!(bw.min));
    put("bw_max", json!(bw.max));
    put("bw_agg", json!((100.0 * ratio(mean * 1024.0, group_bandwidth)).min(100.0)));
    put("bw_mean", json!(mean));
    put("bw_dev", json!(sample_deviation(bw)));
    put("bw_samples", json!(bw.count));
    put("iops_min", json!(io.min));
    put("iops_max", json!(io.max));
    put("iops_mean", json!(sample_mean(io)));
    put("iops_stddev", json!(sample_deviation(io)));
    put("iops_samples", json!(io.count));
    Value::Object(out)
}

fn priority_value(
    job: &JobResult,
    prio: IoPrio,
    stat: &LatencyStat,
    options: JsonOptions,
) -> Value {
    // As in fio, with lat_percentiles=1 these are total latencies.
    let wanted = job.latency_percentiles;
    let (key, percentiles) = if wanted.lat { ("lat_ns", true) } else { ("clat_ns", wanted.clat) };
    json!({
        "prioclass": prio.class() as u8,
        "prio": prio.level(),
        "priohint": prio.hint(),
        key: latency_value(job, stat, percentiles, options),
    })
}

fn latency_value(
    job: &JobResult,
    stat: &LatencyStat,
    with_percentiles: bool,
    options: JsonOptions,
) -> Value {
    let wanted = if with_percentiles { job.percentiles.as_slice() } else { &[] };
    latency(stat, wanted, options.bins && with_percentiles)
}

/// Returns fio's object of a latency in nanoseconds, with percentiles (in millionths) and bins if
/// requested.
fn latency(stat: &LatencyStat, percentiles: &[u32], bins: bool) -> Value {
    let mut out = json!({
        "min": stat.min,
        "max": stat.max,
        "mean": latency_mean(stat),
        "stddev": latency_deviation(stat),
        "N": stat.count,
    });
    if stat.count > 0 && !percentiles.is_empty() {
        let values = percentiles
            .iter()
            .map(|&p| (format!("{:.6}", f64::from(p) / 1e4), json!(summary::percentile(stat, p))));
        out["percentile"] = Value::Object(values.collect());
    }
    if stat.count > 0 && bins {
        out["bins"] = Value::Object(
            stat.histogram.iter().map(|(ns, n)| (ns.to_string(), json!(n))).collect(),
        );
    }
    out
}

fn disk_util(run: &RunResult, name: &str) -> Value {
    let delta = DiskDelta::between(&run.disk.start, &run.disk.end);
    let f = |number: usize| delta.fields[number - 1];
    json!({
        "name": name,
        "read_ios": f(1),
        "write_ios": f(5),
        "read_sectors": f(3),
        "write_sectors": f(7),
        "read_merges": f(2),
        "write_merges": f(6),
        "read_ticks": f(4),
        "write_ticks": f(8),
        "in_queue": f(11),
        "util": delta.io_ticks_percent().min(100.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn report_of_a_mixed_run() {
        insta::assert_snapshot!(report(
            &sample::mixed_run(),
            JsonOptions { bins: false, series: true }
        ));
    }

    #[test]
    fn unified_reporting_replaces_or_adds() {
        let keys = |job: &Value| job.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let value = value(&sample::odd_run(), JsonOptions::default());
        let (first, second) = (keys(&value["jobs"][0]), keys(&value["jobs"][1]));
        assert!(
            first.contains(&"mixed".into())
                && !first.contains(&"read".into())
                && !first.contains(&"sync".into())
        );
        assert!(second.contains(&"mixed".into()) && second.contains(&"read".into()));
    }

    #[test]
    fn bins_add_up_and_come_only_when_asked() {
        let run = sample::mixed_run();
        let clat = |bins| {
            value(&run, JsonOptions { bins, series: false })["jobs"][0]["read"]["clat_ns"].clone()
        };
        assert!(clat(false).get("bins").is_none());
        let with = clat(true);
        let sum: u64 =
            with["bins"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(Some(sum), with["N"].as_u64());
        assert!(sum > 0);
    }

    #[test]
    fn the_page_cache_says_how_long_it_was_waited_for() {
        let cache = |run: &RunResult| value(run, JsonOptions::default())["elevon"]["cache"].clone();
        assert!(cache(&sample::mixed_run()).is_null());
        let run = sample::cached_run();
        let run_value = value(&run, JsonOptions::default());
        let cache = cache(&run);
        let fault = &cache["jobs"][0]["fault"];
        assert_eq!(
            (fault["calls"].as_u64(), fault["slept_for_io"].as_u64()),
            (Some(6000), Some(600))
        );
        assert_eq!((fault["major"].as_u64(), fault["minor"].as_u64()), (Some(600), Some(5400)));
        assert_eq!(
            (run_value["jobs"][0]["majf"].as_u64(), run_value["jobs"][0]["minf"].as_u64()),
            (Some(600), Some(5400))
        );
        let (sum, per_call) =
            (fault["iowait_ns_total"].as_f64(), fault["iowait_ns_per_call"].as_f64());
        assert_eq!(sum.map(|sum| sum / 6000.0), per_call);
        assert_eq!(
            fault["iowait_ms_per_second"].as_f64().map(|ms| ms * 2e6),
            sum,
            "the job took two seconds"
        );
        assert_eq!(
            fault["iowait_us_per_window"].as_f64().map(|us| us * 4e3),
            sum,
            "which are four windows"
        );
        assert_eq!(fault["iowait_ms_per_window"].as_f64().map(|ms| ms * 4e6), sum);
        let parts = fault["device_ns"]
            .as_u64()
            .zip(fault["queue_ns"].as_u64())
            .map(|(device, queue)| device + queue);
        assert_eq!(parts, fault["iowait_ns_total"].as_u64());
        let served =
            |key: &str| ["rt", "be", "idle"].map(|class| fault["served"][class][key].as_u64());
        assert_eq!(served("calls"), [Some(120), Some(480), Some(0)]);
        assert_eq!(
            served("iowait_ns").into_iter().sum::<Option<u64>>(),
            fault["iowait_ns_total"].as_u64()
        );
        let windows = fault["windows"]["list"].as_array().unwrap();
        let of_windows =
            |key: &str| windows.iter().map(|window| window[key].as_f64().unwrap()).sum::<f64>();
        assert_eq!(
            (windows.len(), of_windows("calls"), of_windows("slept_for_io")),
            (4, 6000.0, 600.0)
        );
        assert!((of_windows("iowait_us") * 1e3 - sum.unwrap()).abs() < 1.0);
        let calls = |of: &Value| of["fsync"]["iowait_ns"]["N"].as_u64();
        assert_eq!((calls(&cache["all"]), calls(&cache["jobs"][0])), (Some(2), Some(0)));
        let write = &cache["jobs"][1]["write"];
        assert_eq!(
            (write["slept"].as_u64(), write["slept_for_io"].as_u64()),
            (Some(530), Some(500))
        );
        assert_eq!(write["without_memory"]["ns_total"], 9_000_000);
        assert_eq!(cache["counters"]["pages"]["hits"], 99_000);
        assert_eq!(cache["sources"]["fault"]["promotion_denied"], 3);
        assert_eq!(cache["vmstat"]["pgmajfault"], 600);
    }

    #[test]
    fn the_page_cache_over_time_adds_up() {
        let run = sample::cached_run();
        let value = value(&run, JsonOptions { bins: false, series: true });
        let points = value["elevon"]["cache"]["series"]["points"].as_array().unwrap();
        let last = &run.cache.as_ref().unwrap().series.readings[19].1;
        let sum = |key: &str| points.iter().map(|point| point[key].as_u64().unwrap()).sum::<u64>();
        assert_eq!((sum("hits"), sum("promoted")), (last.hits, last.promoted));
        let faults: u64 =
            points.iter().map(|point| point["fault"]["slept_ns"].as_u64().unwrap()).sum();
        assert_eq!(
            (faults, &points[19]["dirty"]),
            (last.waits[0].iowait.get(), &json!(last.dirty))
        );
        let ratio = points[19]["hit_ratio"].as_f64().unwrap();
        assert!(ratio > points[0]["hit_ratio"].as_f64().unwrap() && ratio < 1.0);
    }

    /// Collects every key below `value`, through all lists.
    fn keys(value: &Value, out: &mut std::collections::BTreeSet<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                out.insert(key.clone());
                keys(value, out);
            }),
            Value::Array(list) => list.iter().for_each(|value| keys(value, out)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn every_key_of_the_page_cache_is_documented() {
        let manual = include_str!("../../../docs/reference/page-cache-report.md");
        let mut found = std::collections::BTreeSet::new();
        let value = value(&sample::cached_run(), JsonOptions { bins: false, series: true });
        keys(&value["elevon"]["cache"], &mut found);
        assert!(found.len() > 80, "{}", found.len());
        // fio's own keys, and percentiles.
        let is_known = |key: &str| {
            ["min", "max", "mean", "stddev", "N", "jobname"].contains(&key) || key.ends_with("0000")
        };
        let of_sample = |key: &str| ["nothing", "unused", "counted"].contains(&key);
        for key in found.iter().filter(|key| !is_known(key) && !of_sample(key)) {
            assert!(
                manual.contains(&format!("`{key}`")),
                "docs/reference/page-cache-report.md does not say what {key} is"
            );
        }
    }

    #[test]
    fn fairness_comes_only_with_weights() {
        let of = |run| value(&run, JsonOptions::default())["elevon"]["fairness"].clone();
        assert!(of(sample::mixed_run()).is_null());
        let found = of(sample::weighted_run(&[("high", 80, 200), ("low", 20, 50)]));
        assert_eq!(found["jobs"][0]["due"], json!(0.8));
        assert_eq!(
            (&found["jobs"][1]["weight"], &found["jobs"][1]["prioclass"]),
            (&json!(20), &json!(2))
        );
        assert!((found["jain_bandwidth"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{found}");
    }

    #[test]
    fn nothing_is_not_a_number() {
        let text = report(&sample::empty_run(), JsonOptions { bins: true, series: true });
        assert!([": NaN", ": inf", ": null"].iter().all(|bad| !text.contains(bad)), "{text}");
        assert!(serde_json::from_str::<Value>(&text).is_ok());
    }
}
