//! Tests the JSON report against fio's: the key tree of a real fio 3.33 run, and the tool
//! `fio-plot` if it is installed.

use std::collections::BTreeSet;
use std::process::Command;

use elevon_report::json::{JsonOptions, report, value};
use elevon_result::result;
use serde_json::Value;

#[path = "../src/sample.rs"]
#[allow(dead_code, unreachable_pub)]
mod sample;

/// Keys of `fio --output-format=json+` for a random mixed job with all percentiles, priorities,
/// syncs and a description, in order of appearance. Free keys (percentiles, bins, options) are `*`,
/// the first element of an array is `[]`.
const KEYS: &str = include_str!("data/fio-3.33-json-plus.keys");

/// Keys of Elevon or of later fio versions.
const EXTRA: [&str; 6] = [
    "/jobs/[]/job_start",
    "/jobs/[]/read/prios/[]/priohint",
    "/jobs/[]/write/prios/[]/priohint",
    "/disk_util/[]/read_sectors",
    "/disk_util/[]/write_sectors",
    "/elevon",
];

fn tree(value: &Value, path: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(map)
            if ["/percentile", "/bins", " options"].iter().any(|free| path.ends_with(free)) =>
        {
            out.extend(map.keys().next().map(|_| format!("{path}/*")));
        }
        Value::Object(map) => {
            for (key, value) in map {
                let path = format!("{path}/{key}");
                out.push(path.clone());
                if path != "/elevon" {
                    tree(value, &path, out);
                }
            }
        }
        Value::Array(items) => {
            items.iter().take(1).for_each(|item| tree(item, &format!("{path}/[]"), out));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns a run whose first job has everything that the real one had.
fn everything() -> result::RunResult {
    let mut run = sample::mixed_run();
    let job = &mut run.jobs[0];
    job.latency_percentiles = result::LatencyPercentiles { slat: true, clat: true, lat: false };
    job.stats.directions[1].by_priority = job.stats.directions[0].by_priority.clone();
    run
}

#[test]
fn keys_and_their_order_are_fios() {
    let mut ours = Vec::new();
    tree(&value(&everything(), JsonOptions { bins: true, series: true }), "", &mut ours);
    let extra: BTreeSet<&str> = EXTRA.into_iter().collect();
    let shared: Vec<&str> =
        ours.iter().map(String::as_str).filter(|key| !extra.contains(key)).collect();
    let theirs: Vec<&str> = KEYS.lines().collect();
    assert_eq!(shared, theirs);
}

#[test]
fn text_parses_back_to_the_value() {
    let options = JsonOptions { bins: true, series: true };
    let text = report(&everything(), options);
    let parsed: Value = serde_json::from_str(&text).expect("the report is JSON");
    let mut keys = (Vec::new(), Vec::new());
    tree(&parsed, "", &mut keys.0);
    tree(&value(&everything(), options), "", &mut keys.1);
    assert_eq!(keys.0, keys.1);
}

/// `fio-plot` reads fio's JSON from a directory and draws it. The test runs if the tool is on the
/// path, and otherwise says that it was skipped.
#[test]
fn fio_plot_reads_the_report() {
    if Command::new("fio-plot").arg("--version").output().is_err() {
        // Debian has no package of it, so CI runs without it.
        println!("skipped: fio-plot is not installed");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory for the report");
    let mut run = sample::mixed_run();
    let job = &mut run.jobs[0];
    job.options = [("rw", "randread"), ("bs", "4k"), ("iodepth", "32"), ("numjobs", "1")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .to_vec();
    run.jobs.truncate(1);
    let json = report(&run, JsonOptions::default());
    std::fs::write(directory.path().join("randread-32-1.json"), json)
        .expect("the report can be written");
    for (style, name) in [("-l", "bars.png"), ("-H", "histogram.png")] {
        let picture = directory.path().join(name);
        let run = Command::new("fio-plot")
            .arg("-i")
            .arg(directory.path())
            .args(["-T", "report", style, "-r", "randread", "-d", "32", "-n", "1", "-o"])
            .arg(&picture)
            .output()
            .expect("fio-plot starts");
        let said = String::from_utf8_lossy(&run.stdout).into_owned()
            + &String::from_utf8_lossy(&run.stderr);
        assert!(
            run.status.success() && picture.exists(),
            "fio-plot could not read the report: {said}"
        );
    }
}
