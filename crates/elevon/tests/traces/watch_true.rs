//! `elevon watch` beside what others say of the same seconds of a real loop device: `elevon
//! capture` with `inspect`, fio, and the kernel's own counts.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::{Child, Command, Stdio};

use elevon_testkit::tool;
use serde_json::Value;

use crate::capture::{Machine, alone};

/// Completed reads, bytes read, writes, bytes written.
type Counts = [u64; 4];

/// Returns what the kernel has counted of a device.
fn kernel_counts(device: &str) -> Counts {
    let name = device.trim_start_matches("/dev/");
    let text = fs::read_to_string("/proc/diskstats").expect("the kernel's counts");
    let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(name));
    let values: Vec<u64> = line
        .expect("a line of the device")
        .split_whitespace()
        .skip(3)
        .map(|word| word.parse().expect("a number"))
        .collect();
    [values[0], values[2] * 512, values[4], values[6] * 512]
}

fn integer(value: &Value) -> u64 {
    value.as_f64().map(|value| value.round() as u64).unwrap_or_else(|| panic!("{value}"))
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(bytes)))
}

/// A watch of one interval.
fn watch(machine: &Machine, seconds: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_elevon"))
        .args(["watch", machine.device(), "--once", "--seconds", seconds])
        .args(["--output-format", "json", "--tracefs", machine.tracefs()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command started")
}

#[test]
fn the_same_seconds_are_told_alike() {
    const SECONDS: f64 = 10.0;
    let _alone = alone();
    let Some(machine) = Machine::new() else { return };
    let Some(mut fio) = tool("fio") else { return };
    let watching = watch(&machine, "10");
    // Its instance is the only one before that of the recording is made.
    while machine.instances().is_empty() {
        std::thread::yield_now();
    }
    let recording = machine.start(&["all.ftrace"]);
    let before = kernel_counts(machine.device());
    let output = fio
        .args(["--name=mixed", "--rw=randrw", "--bs=4k", "--direct=1", "--ioengine=psync"])
        .args(["--size=8m", "--rate_iops=250,250", "--output-format=json"])
        .arg(format!("--filename={}", machine.device()))
        .output()
        .expect("fio ran");
    let after = kernel_counts(machine.device());
    let of_fio = &json(&output.stdout)["jobs"][0];
    let output = watching.wait_with_output().expect("it ended");
    let of_watch = json(&output.stdout);
    elevon_testkit::signal(&recording, "INT");
    assert!(recording.wait_with_output().expect("it ended").status.success());
    let of_trace = machine.inspected("all.ftrace");

    assert_eq!((&of_watch["lost_events"], &of_watch["sampled"]), (&Value::from(0), &Value::Null));
    let disk = &of_watch["disks"][0];
    let total = |value: &Value| (value.as_f64().expect("a rate") * SECONDS).round() as u64;
    let watched: Counts = [
        total(&disk["read"]["requests"]),
        total(&disk["read"]["bytes"]),
        total(&disk["write"]["requests"]),
        total(&disk["write"]["bytes"]),
    ];
    let kernel: Counts = std::array::from_fn(|at| after[at] - before[at]);
    let fio: Counts = [
        integer(&of_fio["read"]["total_ios"]),
        integer(&of_fio["read"]["io_bytes"]),
        integer(&of_fio["write"]["total_ios"]),
        integer(&of_fio["write"]["io_bytes"]),
    ];
    let traced: Counts = [
        integer(&of_trace["requests"]["read"]["completed"]),
        integer(&of_trace["requests"]["read"]["bytes"]),
        integer(&of_trace["requests"]["write"]["completed"]),
        integer(&of_trace["requests"]["write"]["bytes"]),
    ];
    assert_eq!(watched, fio, "watch and fio");
    assert_eq!(watched, kernel, "watch and /proc/diskstats");
    assert_eq!(watched, traced, "watch and capture with inspect");

    // A latency of fio's has the device's in it, and a few microseconds of system call.
    let p50 = |value: &Value| value.as_f64().expect("a latency");
    let device = p50(&disk["in_device_ns"]["p50"]);
    let reads = p50(&of_fio["read"]["clat_ns"]["percentile"]["50.000000"]);
    let writes = p50(&of_fio["write"]["clat_ns"]["percentile"]["50.000000"]);
    assert!(device <= reads.max(writes) * 1.02, "{device} {reads} {writes}");
    assert!(device >= reads.min(writes) * 0.2, "{device} {reads} {writes}");
    // The trace and the watch have the same events, in two histograms.
    let of_trace = &of_trace["latency"];
    let medians: Vec<f64> = ["read", "write"]
        .iter()
        .filter_map(|group| of_trace[group]["issued_to_completed"]["percentile_ns"]["p50"].as_f64())
        .collect();
    assert_eq!(medians.len(), 2, "{of_trace}");
    let (least, most) = (medians[0].min(medians[1]), medians[0].max(medians[1]));
    assert!((least * 0.98..=most * 1.02).contains(&device), "{device} of {medians:?}");
    assert_eq!(machine.instances(), [""; 0]);
}
