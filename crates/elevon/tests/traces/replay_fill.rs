//! A replay under other fills and limits: the I/Os that processes asked for are built into bios
//! anew, and without a change into the bios of the trace.

use std::path::PathBuf;

use crate::common::Bench;
use serde_json::Value;

/// Wide enough that only `max_sectors_kb` splits.
const DEVICE: &str = "slots:slots=6,latency=2150us,bandwidth=300MB/s,size=2GiB";

fn data(name: &str) -> String {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/kernel-truth").join(name);
    path.to_str().expect("UTF-8").to_owned()
}

/// Sectors of the bios that were queued and of the requests that were issued, each in order, of a
/// trace in ftrace's text.
fn sizes(text: &str) -> [Vec<u64>; 2] {
    ["block_bio_queue:", "block_rq_issue:"].map(|event| {
        let lines = text.lines().filter(|line| line.contains(event));
        lines
            .map(|line| {
                let after = line.split(" + ").nth(1).expect("a length");
                after.split(' ').next().and_then(|sectors| sectors.parse().ok()).expect("a number")
            })
            .collect()
    })
}

fn sorted([bios, mut requests]: [Vec<u64>; 2]) -> [Vec<u64>; 2] {
    requests.sort_unstable();
    [bios, requests]
}

fn replayed(bench: &Bench, trace: &str, args: &[&str]) -> [Vec<u64>; 2] {
    let all = [&["replay", trace, "--closed", "--device", DEVICE, "--trace", "own.ftrace"], args]
        .concat();
    bench.stdout(&all);
    sizes(&std::fs::read_to_string(bench.path("own.ftrace")).expect("the trace"))
}

const TRACES: [&str; 3] = [
    "traces/dd-1028k-direct.ftrace",
    "traces/dd-64m-direct-ext4-none-512.ftrace",
    "traces/dd-64m-direct-ext4-mq-deadline-512.ftrace",
];

#[test]
fn without_a_change_sizes_are_those_of_the_trace() {
    let bench = Bench::new();
    for name in TRACES {
        let trace = data(name);
        let traced = sizes(&std::fs::read_to_string(&trace).expect("the trace"));
        let own = replayed(&bench, &trace, &["--set", "max_sectors_kb=512"]);
        assert_eq!(sorted(own), sorted(traced), "{name}");
    }
}

/// `fill=max-sectors` promises bios of the queue limit and one rest an I/O, so no splits and no
/// tails; `fill=trim` bios that are multiples of it.
#[test]
fn a_fill_gives_the_sizes_that_it_promises() {
    let bench = Bench::new();
    for name in TRACES {
        let trace = data(name);
        let io: u64 = if name.contains("1028k") { 2056 } else { 131_072 };
        for limit_kb in [512, 1024, 640] {
            let limit = limit_kb * 2;
            let max_sectors = format!("max_sectors_kb={limit_kb}");
            let [bios, requests] =
                replayed(&bench, &trace, &["--set", &max_sectors, "--set", "fill=max-sectors"]);
            let mut expected = vec![limit; (io / limit) as usize];
            expected.extend(Some(io % limit).filter(|&rest| rest > 0));
            assert!(
                bios.chunks(expected.len()).all(|bios| bios == expected),
                "{name} {limit_kb}: {bios:?}"
            );
            assert_eq!(requests.len(), bios.len(), "{name} {limit_kb}: a split");
            // A multiple by a mask, so right for powers of two only.
            if limit_kb != 640 {
                let [bios, requests] =
                    replayed(&bench, &trace, &["--set", &max_sectors, "--set", "fill=trim"]);
                let mut at = 0;
                for bio in bios {
                    at += bio;
                    assert!(bio % limit == 0 || at % io == 0, "{name} {limit_kb}: {bio}");
                }
                let most = requests.iter().max().copied();
                assert_eq!(most, Some(limit), "{name} {limit_kb}");
            }
        }
        // As they are, but for another limit.
        let [bios, _] = replayed(&bench, &trace, &["--set", "max_sectors_kb=1280"]);
        let traced = sizes(&std::fs::read_to_string(&trace).expect("the trace"));
        assert_eq!(bios, traced[0], "{name}: a limit does not change bios");
    }
}

/// A job's own trace, replayed under each fill, does what the job does under it. From 7.0 on, bios
/// of ordinary memory are of one size, and such bios are replayed as I/Os of their own.
#[test]
fn a_trace_of_a_job_does_under_a_fill_what_the_job_does() {
    let bench = Bench::new();
    bench.file(
        "job.fio",
        "[read]\nioengine=libaio\ndirect=1\nrw=read\nbs=16m\niodepth=2\nsize=128m\n",
    );
    for device in ["ufs-4.0", "nvme-datacenter"] {
        let stack = ["--kernel", "6.18", "--device", device, "--set", "direct_path=iomap"];
        let common = [&stack[..], &["--output-format", "json"]].concat();
        let json = |args: &[&str]| -> Value {
            serde_json::from_str(&bench.stdout(&[args, &common[..]].concat())).expect("JSON")
        };
        json(&["run", "job.fio", "--trace", "job.ftrace"]);
        for fill in ["full", "max-sectors", "trim", "trim-256k"] {
            let fill = format!("fill={fill}");
            let run = json(&["run", "job.fio", "--set", &fill]);
            let again = json(&["replay", "job.ftrace", "--closed", "--set", &fill]);
            for counter in ["splits", "tails"] {
                let of = |found: &Value| found["elevon"]["counters"][counter].clone();
                assert_eq!(of(&again), of(&run), "{device} {fill} {counter}");
            }
            assert_eq!(again["jobs"][0]["read"]["total_ios"], 8, "{device} {fill}");
            assert_eq!(again["elevon"]["config"]["fill"], run["elevon"]["config"]["fill"]);
        }
    }
}

/// `--buffers` replaces what the trace says of memory.
#[test]
fn buffers_on_the_command_line_decide_instead() {
    let bench = Bench::new();
    let trace = data(TRACES[1]);
    let [contiguous, _] = replayed(&bench, &trace, &["--buffers", "contiguous"]);
    assert_eq!(contiguous, [131_072; 2]);
    let [pages, _] = replayed(&bench, &trace, &["--buffers", "runs:1x256"]);
    assert!(pages.len() == 128 && pages.iter().all(|&bio| bio == 2048), "{pages:?}");
}
