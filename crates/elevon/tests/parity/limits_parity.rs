//! Compares `elevon run --tenants` under one limit with Linux 6.18.44: the completion times of a
//! synchronous reader's I/Os.
//!
//! The kernel had HZ=250. The device takes 200 us, and FUSE, loop and wake-ups add about 150 us.
//! The limit was written some milliseconds before the first I/O, and slices start then; the records
//! do not say how many. Here it is 8 ms, as the job's `startdelay`;
//! `elevon-core/tests/limits_parity.rs` tries 2 to 13, at microsecond precision.

use std::fs;

use crate::common::{Bench, kernel_truth};
use serde_json::Value;

const DEVICE: &str = "slots:slots=8,latency=350us,bandwidth=8GB/s,size=4GiB,queue_depth=128";
/// Milliseconds between the limit and the first I/O.
const BEFORE: u64 = 8;

struct Record(Value);

impl Record {
    fn all() -> Vec<Self> {
        let text = fs::read_to_string(kernel_truth("throttle.jsonl")).expect("the records");
        let records: Vec<Self> =
            text.lines().map(|line| Self(serde_json::from_str(line).expect("a record"))).collect();
        assert_eq!(records.len(), 6);
        records
    }

    fn name(&self) -> &str {
        self.0["name"].as_str().expect("a name")
    }

    /// Returns the only limit: its v1 file and its value.
    fn limit(&self) -> (&str, u64) {
        let limits = self.0["limit"].as_object().expect("limits");
        assert_eq!(limits.len(), 1);
        let (file, limit) = limits.iter().next().expect("one limit");
        (file, limit.as_u64().expect("a number"))
    }

    /// Returns the same limit as a line of v2's `io.max`.
    fn io_max(&self) -> String {
        let (file, limit) = self.limit();
        let key = if file.ends_with("read_bps_device") { "rbps" } else { "riops" };
        format!("\"io.max\" = \"8:0 {key}={limit}\"")
    }

    /// Returns completion times in us since the first I/O started.
    fn completions(&self) -> Vec<f64> {
        let times = self.0["completion_us"].as_array().expect("times").iter();
        times.map(|us| us.as_f64().expect("a time")).collect()
    }
}

/// Runs the job under the limit. Returns completion times in us since the first I/O started, and
/// the JSON report.
fn run(record: &Record, setting: &str) -> (Vec<f64>, Value) {
    let bench = Bench::new();
    let (block, ios) = (record.0["bs"].as_u64().expect("a size"), record.completions().len());
    bench.file(
        "job.fio",
        format!(
            "[reader]\ncgroup=t\nrw=randread\nbs={block}\nioengine=psync\ndirect=1\nsize=4g\nnumber_ios={ios}\nstartdelay={BEFORE}ms\nwrite_lat_log=t\n"
        ),
    );
    bench.file("t.toml", format!("[tenant.t]\n{setting}\n"));
    let report = bench.json("job.fio", &["--device", DEVICE, "--tenants", "t.toml"]);
    let log = fs::read_to_string(bench.path("t_lat.1.log")).expect("a log of latencies");
    let times = log.lines().map(|line| {
        let ms: f64 = line
            .split(',')
            .next()
            .and_then(|field| field.trim().parse().ok())
            .expect("a time in ms");
        // Times are rounded down to whole milliseconds, so the middle is the best estimate.
        ms * 1000.0 + 500.0
    });
    (times.collect(), report)
}

#[test]
fn each_io_under_a_limit_is_over_when_linux_6_18_had_it_over() {
    for record in Record::all() {
        let kernel = record.completions();
        let (file, limit) = record.limit();
        let v1 = format!("\"{file}\" = \"{limit}\"");
        let (ours, report) = run(&record, &v1);
        assert_eq!(ours.len(), kernel.len(), "{}", record.name());
        for (nth, (ours, kernel)) in ours.iter().zip(&kernel).enumerate() {
            let off = (ours - kernel).abs();
            let is_near = off <= (0.05 * kernel).max(10_000.0);
            assert!(is_near, "{}: I/O {nth} at {ours} us, in the kernel {kernel}", record.name());
        }
        let (v2, _) = run(&record, &record.io_max());
        assert_eq!(v2, ours, "{}: one level of io.max is what v1 does", record.name());
        let explained = report["elevon"]["tenants"][1]["explain"].as_array().expect("causes");
        let causes: Vec<&str> = explained.iter().filter_map(|at| at["cause"].as_str()).collect();
        assert!(causes.contains(&"limit") && causes.contains(&"device"), "{causes:?}");
    }
}
