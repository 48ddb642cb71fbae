//! Compares how much buffered and mapped jobs read of a device with what Linux 6.18.44 read for the
//! same jobs. `tests/data/kernel-truth/readahead/README.md` has the format and says how to measure
//! anew; `crates/elevon-cache/tests/kernel_readahead.rs` compares page by page.

use std::fs;

use crate::common::{Bench, kernel_truth};

const DEVICE: &[&str] = &[
    "--device",
    "null:size=1GiB,latency=20us,hw_queues=1,queue_depth=128",
    "--kernel",
    "6.18",
    "--memory",
    "8GiB",
    "--set",
    "max_hw_sectors_kb=1280",
    "--set",
    "max_sectors_kb=1280",
    "--set",
    "max_segments=128",
];

/// Returns a job file: the options before ` : ` are for all jobs, and ` / ` separates the jobs.
fn job_file(line: &str) -> String {
    let (common, jobs) = line.rsplit_once(" : ").unwrap_or(("", line));
    let lines = |options: &str| options.split_whitespace().collect::<Vec<_>>().join("\n");
    let mut text = format!("[global]\nfilename=/dev/loop0\ndirect=0\n{}\n", lines(common));
    for (number, job) in jobs.split(" / ").enumerate() {
        text += &format!("[job{number}]\n{}\n", lines(job));
    }
    text
}

/// Returns requests, sectors and major faults of a run.
fn measure(line: &str) -> [u64; 3] {
    let bench = Bench::new();
    let report = bench.json(bench.file("job.fio", job_file(line)), DEVICE);
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let end = &report["elevon"]["diskstats"]["end"];
    let faults =
        report["jobs"].as_array().expect("jobs").iter().map(|job| number(&job["majf"])).sum();
    [number(&end[0]), number(&end[2]), faults]
}

#[test]
fn jobs_read_what_they_read_of_linux_6_18() {
    let text = fs::read_to_string(kernel_truth("readahead/jobs-6.18.44.txt")).expect("the record");
    let (mut jobs, mut wrong) = (0, Vec::new());
    for (line, seen) in text.lines().filter_map(|line| line.split_once(" > ")) {
        let percent = if line.contains("rw=rand") { 5 } else { 0 };
        let ours = measure(line);
        let is_near = |theirs: &str| {
            let theirs = theirs.split(' ').map(|number| number.parse::<u64>().expect("a number"));
            theirs.zip(ours).all(|(theirs, ours)| ours.abs_diff(theirs) * 100 <= theirs * percent)
        };
        if !seen.split(" or ").any(is_near) {
            wrong.push(format!("{line}: kernel {seen}, here {ours:?}"));
        }
        jobs += 1;
    }
    assert!(jobs >= 50, "only {jobs} jobs");
    assert!(wrong.is_empty(), "{} of {jobs} jobs differ:\n{}", wrong.len(), wrong.join("\n"));
}
