//! Tests critical sections in a closed loop: processes that exclude each other in a trace do so in
//! its replay, on any device, and others do not.

use std::fmt::Write;

use crate::common::Bench;
use elevon_core::op::Op;
use elevon_trace::replay::{Workload, read};

/// A device of a known service time, with a write cache to flush.
const DEVICE: &str = "slots:slots=4,latency=62us,bandwidth=100GB/s,flush_latency=42us,flush_waits=0,write_cache=1,size=64GiB";
/// The same, ten times as slow.
const SLOW: &str = "slots:slots=4,latency=620us,bandwidth=100GB/s,flush_latency=420us,flush_waits=0,write_cache=1,size=64GiB";
const CLIENTS: usize = 4;

/// Writes the trace of clients that each think, take a lock, write, flush and release it. What
/// happens is known: a section takes 110 us, and a lock 25 us to hand over.
fn with_a_lock(sections: u64) -> String {
    let mut lines: Vec<(u64, String)> = Vec::new();
    let (mut free, mut random) = (0, 17_u64);
    let mut below = |n: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) % n
    };
    let mut ready: Vec<u64> = (0..CLIENTS).map(|_| below(500)).collect();
    for n in 0..sections {
        let at = (0..CLIENTS).min_by_key(|&at| ready[at]).expect("a client");
        let begin = if ready[at] < free { free + 25 } else { ready[at] };
        let (sector, device) = (n * 16, "8,0");
        let mut line = |us: u64, event: &str| {
            let task = format!("client-{}", 100 + at);
            let time = format!("{}.{:06}", 1 + us / 1_000_000, us % 1_000_000);
            lines.push((us, format!("{task:>16} [000] ..... {time}: {event}")));
        };
        line(begin, &format!("block_bio_queue: {device} WS {sector} + 16 [client]"));
        line(begin + 1, &format!("block_getrq: {device} WS {sector} + 16 [client]"));
        line(
            begin + 2,
            &format!("block_rq_issue: {device} WS 8192 () {sector} + 16 be,0,4 [client]"),
        );
        line(begin + 62, &format!("block_rq_complete: {device} WS () {sector} + 16 be,0,4 [0]"));
        line(begin + 68, &format!("block_bio_queue: {device} FWS 0 + 0 [client]"));
        line(begin + 68, &format!("block_getrq: {device} FWS 0 + 0 [client]"));
        line(begin + 69, &format!("block_rq_issue: {device} FF 0 () 0 + 0 none,0,0 [client]"));
        line(
            begin + 110,
            &format!("block_rq_complete: {device} FF () 18446744073709551615 + 0 none,0,0 [0]"),
        );
        line(begin + 110, &format!("block_rq_complete: {device} WS () 0 + 0 be,0,4 [0]"));
        free = begin + 110;
        ready[at] = free + 100 + below(500);
    }
    lines.sort_by_key(|&(us, _)| us);
    let mut text = String::from("# tracer: nop\n");
    lines.iter().for_each(|(_, line)| writeln!(text, "{line}").expect("memory"));
    text
}

fn workload(bench: &Bench, name: &str) -> Workload {
    let path = bench.path(name);
    read(&mut || elevon_trace::open(&path), None, &mut |_| {}).expect("a workload")
}

/// Returns the spans from a write to the end of the flush behind it, and how many begin in another.
fn sections(workload: &Workload) -> (usize, usize) {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for process in &workload.processes {
        for pair in process.ios.windows(2) {
            if let ([Op::Write, Op::Flush], Some(end)) =
                ([pair[0].op, pair[1].op], pair[1].completed)
            {
                spans.push((pair[0].at, end));
            }
        }
    }
    spans.sort_unstable();
    (spans.len(), spans.windows(2).filter(|pair| pair[1].0 < pair[0].1).count())
}

/// Replays a trace in a closed loop. Returns the report.
fn replay(bench: &Bench, trace: &str, made: &str, device: &str) -> String {
    replay_for(bench, trace, made, device, "--once")
}

fn replay_for(bench: &Bench, trace: &str, made: &str, device: &str, time: &str) -> String {
    let how = ["--closed", time, "--kernel", "6.18", "--device", device, "--trace", made];
    bench.stdout(&[&["replay", trace][..], &how].concat())
}

#[test]
fn clients_of_a_lock_stay_apart_on_any_device() {
    let bench = Bench::new();
    bench.file("lock.ftrace", with_a_lock(2000));
    assert_eq!(sections(&workload(&bench, "lock.ftrace")), (2000, 0));
    for (made, device) in [("same.ftrace", DEVICE), ("slow.ftrace", SLOW)] {
        let report = replay(&bench, "lock.ftrace", made, device);
        assert!(report.contains("4 processes exclude each other"), "{report}");
        assert_eq!(sections(&workload(&bench, made)), (2000, 0), "{made}");
    }
    // On the device of the trace it takes as long as the trace did.
    let [traced, replayed] =
        ["lock.ftrace", "same.ftrace"].map(|name| workload(&bench, name).duration as f64);
    assert!((replayed / traced - 1.0).abs() < 0.03, "{traced} and {replayed}");
    // What a run of the simulator did under a lock, the rule finds in its trace, too.
    assert!(
        replay(&bench, "slow.ftrace", "again.ftrace", DEVICE)
            .contains("4 processes exclude each other")
    );
    // Those whose time is over end with the lock, or while they wait for it, and hold up no other.
    replay_for(&bench, "lock.ftrace", "timed.ftrace", SLOW, "--time-based");
    let timed = workload(&bench, "timed.ftrace");
    let (count, overlapping) = sections(&timed);
    assert!(
        (200..400).contains(&count) && overlapping == 0,
        "{count} sections, {overlapping} overlap"
    );
    assert!(timed.duration as f64 / traced < 1.02, "{} of {traced}", timed.duration);
    // In an open loop times are kept, whatever else.
    let open = bench.stdout(&["replay", "lock.ftrace", "--device", SLOW]);
    assert!(!open.contains("exclude"), "{open}");
}

/// One client is held back by a limit, and the others wait for it because it has the lock.
#[test]
fn who_is_held_back_holds_back_those_that_it_excludes() {
    let bench = Bench::new();
    bench.file("lock.ftrace", with_a_lock(2000));
    bench.file("limit.toml", "[tenant.client-100]\n\"io.max\" = \"wiops=200\"\n");
    let how = [
        "replay",
        "lock.ftrace",
        "--closed",
        "--once",
        "--device",
        DEVICE,
        "--output-format",
        "json",
    ];
    let rate = |more: &[&str]| {
        let found: serde_json::Value =
            serde_json::from_str(&bench.stdout(&[&how[..], more].concat())).expect("JSON");
        let other = found["jobs"]
            .as_array()
            .expect("jobs")
            .iter()
            .find(|job| job["jobname"] == "client-101");
        other.expect("the client")["write"]["iops"].as_f64().expect("a rate")
    };
    let (free, limited) = (rate(&[]), rate(&["--tenants", "limit.toml"]));
    assert!(limited < free / 2.0, "{free} and {limited} writes a second");
}

#[test]
fn jobs_without_a_lock_exclude_nobody() {
    let bench = Bench::new();
    bench.file(
        "jobs.fio",
        "[client]\nrw=randwrite\nbs=8k\nsize=1m\nfsync=1\nthinktime=150us\nnumjobs=4\nnumber_ios=300\ndirect=1\n",
    );
    bench.stdout(&[
        "run",
        "jobs.fio",
        "--device",
        DEVICE,
        "--kernel",
        "6.18",
        "--trace",
        "free.ftrace",
    ]);
    let (count, overlapping) = sections(&workload(&bench, "free.ftrace"));
    assert!(count > 300 && overlapping > 50, "{count} sections, {overlapping} overlap");
    assert!(!replay(&bench, "free.ftrace", "again.ftrace", DEVICE).contains("exclude"));
}
