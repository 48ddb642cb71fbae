//! Tests the text report against fio 3.33's. One real run was written as JSON and as text; the
//! report of the figures in its JSON must equal its text.

use elevon_core::histogram::{bin_of, value_of};
use elevon_core::stats::{DirectionStats, JobStats, LatencyStat, SampleStat};
use elevon_core::units::{Instant, Nanos};
use elevon_report::text;
use elevon_result::result;
use serde_json::Value;

#[path = "../src/sample.rs"]
#[allow(dead_code, unreachable_pub)]
mod sample;

const JSON: &str = include_str!("data/fio-3.33-two-jobs.json");
const TEXT: &str = include_str!("data/fio-3.33-two-jobs.txt");

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

/// Returns sum and sum of squares of `count` values with the given mean and sample deviation.
fn sums(count: u64, mean: &Value, deviation: &Value) -> (u128, u128) {
    let (n, mean, deviation) = (count as f64, mean.as_f64().unwrap(), deviation.as_f64().unwrap());
    if count == 0 {
        return (0, 0);
    }
    (
        (mean * n).round() as u128,
        (deviation * deviation * (n - 1.0) + mean * mean * n).round() as u128,
    )
}

fn latency(value: &Value) -> LatencyStat {
    let count = number(&value["N"]);
    let (sum, sum_squares) = sums(count, &value["mean"], &value["stddev"]);
    let (min, max) = (number(&value["min"]), number(&value["max"]));
    let mut stat = LatencyStat { count, min, max, sum, sum_squares, ..LatencyStat::default() };
    for (bin, n) in value["bins"].as_object().into_iter().flatten() {
        let ns: u64 = bin.parse().unwrap();
        assert_eq!(value_of(bin_of(ns)), ns, "fio's bins are ours");
        (0..number(n)).for_each(|_| stat.histogram.add(ns));
    }
    stat
}

fn samples(value: &Value, kind: &str, deviation: &str) -> SampleStat {
    let key = |name: &str| &value[format!("{kind}_{name}")];
    let count = number(key("samples"));
    let (sum, sum_squares) = sums(count, key("mean"), key(deviation));
    SampleStat { count, min: number(key("min")), max: number(key("max")), sum, sum_squares }
}

fn direction(value: &Value) -> DirectionStats {
    DirectionStats {
        ios: number(&value["total_ios"]),
        bytes: number(&value["io_bytes"]),
        runtime_ns: number(&value["runtime"]) * 1_000_000,
        slat: latency(&value["slat_ns"]),
        clat: latency(&value["clat_ns"]),
        lat: latency(&value["lat_ns"]),
        bandwidth: samples(value, "bw", "dev"),
        iops: samples(value, "iops", "stddev"),
        ..DirectionStats::default()
    }
}

/// Returns percentages of levels as counts out of a million.
fn levels(value: &Value) -> [u64; 7] {
    let shares: Vec<u64> = value
        .as_object()
        .unwrap()
        .values()
        .map(|share| (share.as_f64().unwrap() * 1e4) as u64)
        .collect();
    shares.try_into().unwrap()
}

fn run() -> result::RunResult {
    let fio: Value = serde_json::from_str(JSON).unwrap();
    let mut run = sample::empty_run();
    let template = run.jobs.remove(0);
    for job in fio["jobs"].as_array().unwrap() {
        let stats = JobStats {
            directions: ["read", "write", "trim"].map(|name| direction(&job[name])),
            sync: latency(&job["sync"]["lat_ns"]),
            depth_levels: levels(&job["iodepth_level"]),
            submit_levels: levels(&job["iodepth_submit"]),
            complete_levels: levels(&job["iodepth_complete"]),
            run_ns: number(&job["job_runtime"]) * 1_000_000,
            ..JobStats::default()
        };
        let options = &job["job options"];
        let on = |key: &str| options.get(key).is_some();
        let mut result = result::JobResult {
            name: job["jobname"].as_str().unwrap().into(),
            group: number(&job["groupid"]) as u32,
            description: job["desc"].as_str().unwrap_or_default().into(),
            stats,
            end: Instant::ZERO + Nanos::from_millis(number(&job["job_runtime"])),
            percentiles: vec![10_000, 50_000, 100_000, 200_000, 500_000, 900_000, 950_000, 990_000],
            latency_target: None,
            steady: None,
            latency_percentiles: result::LatencyPercentiles {
                slat: on("slat_percentiles"),
                clat: true,
                lat: on("lat_percentiles"),
            },
            ..template.clone()
        };
        result.workload.depth = number(&job["latency_depth"]) as u32;
        result.workload.iodepth = result.workload.depth;
        run.jobs.push(result);
    }
    run
}

/// Returns the lines of a report from the first job to the last group. The process id, the date and
/// CPU usage are not compared.
fn comparable(report: &str) -> Vec<String> {
    report
        .lines()
        .skip_while(|line| !line.contains("(groupid="))
        .take_while(|line| !line.starts_with("Disk stats"))
        .filter(|line| !line.is_empty() && !line.starts_with("  cpu "))
        .map(|line| line.split(": pid=").next().unwrap_or(line).to_owned())
        .collect()
}

/// Splits a line into the texts between numbers, and the numbers.
fn parts(line: &str) -> (Vec<&str>, Vec<f64>) {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let words = line.split(is_number).filter(|word| !word.is_empty()).collect();
    (words, line.split(|c| !is_number(c)).filter_map(|word| word.parse().ok()).collect())
}

#[test]
fn lines_are_fios() {
    let (ours, theirs) = (comparable(&text::report(&run())), comparable(TEXT));
    assert_eq!(ours.len(), theirs.len(), "{ours:#?}");
    for (our, their) in ours.iter().zip(&theirs) {
        // fio prints the middle of a bin even if it is past the largest value, counts syncs in the
        // depths but not in their total, and counts buckets from exact values instead of bins. Only
        // in these lines may numbers differ slightly.
        if ["     |", "  IO depths", "  lat ("].iter().any(|start| their.starts_with(start)) {
            let ((our_words, our_numbers), (their_words, their_numbers)) =
                (parts(our), parts(their));
            assert_eq!((our_words, our.len()), (their_words, their.len()), "{our}\n{their}");
            for (a, b) in our_numbers.iter().zip(&their_numbers) {
                assert!(
                    (a - b).abs() <= 0.03 * b
                        || their.starts_with("  lat (") && (a - b).abs() < 2.0,
                    "{our}\n{their}"
                );
            }
        } else {
            assert_eq!(our, their);
        }
    }
}
