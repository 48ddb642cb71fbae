//! Shares by weight under `aileron` on the real clock: on a file in memory, and on a network disk
//! that takes its time.
#![cfg(target_os = "linux")]

mod common;

use std::sync::Mutex;

use common::Bench;
use common::served::Served;
use serde_json::Value;

/// The weights of the BE levels 0 to 4.
const WEIGHTS: [f64; 5] = [80.0, 70.0, 60.0, 50.0, 40.0];

/// What else this machine does for a moment spoils a round on the real clock.
const ROUNDS: usize = 6;

/// Each needs the machine for itself.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Five random readers, one of each weight.
fn jobs(depth: u32, seconds: u32) -> String {
    let global = format!(
        "[global]\nrw=randread\nbs=4k\niodepth={depth}\nioengine=io_uring\ndirect=1\nsize=64m\nnorandommap\ntime_based\nruntime={seconds}\nprioclass=2\n"
    );
    (0..WEIGHTS.len()).fold(global, |text, level| text + &format!("[level{level}]\nprio={level}\n"))
}

/// What the readers got of a device under a scheduler, in I/Os a second.
fn rates(bench: &Bench, device: &str, scheduler: &str) -> [f64; 5] {
    let report = bench.json("jobs.fio", &["--device", device, "--scheduler", scheduler]);
    let of = |job: &Value| job["read"]["iops"].as_f64().expect("a rate");
    std::array::from_fn(|level| of(&report["jobs"][level]))
}

/// Returns by how much the share that is furthest from its weight differs from that, as a part of
/// it.
fn error(rates: &[f64; 5]) -> f64 {
    let (total, weights): (f64, f64) = (rates.iter().sum(), WEIGHTS.iter().sum());
    let errors = rates
        .iter()
        .zip(WEIGHTS)
        .map(|(rate, weight)| ((rate / total) / (weight / weights) - 1.0).abs());
    errors.fold(0.0, f64::max)
}

#[test]
fn on_a_file_in_memory_shares_follow_the_weights() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let bench = Bench::new();
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let file = folder.path().join("disk");
    std::fs::write(&file, vec![0xa5; 64 << 20]).expect("memory for 64 MiB");
    bench.file("jobs.fio", jobs(32, 2));
    let device = file.to_str().expect("UTF-8");
    let mut rounds = (0..ROUNDS).map(|_| rates(&bench, device, "aileron"));
    assert!(rounds.any(|rates| {
        println!("{rates:.0?}: {:.3} from the weights", error(&rates));
        error(&rates) <= 0.05
    }));
}

#[test]
fn on_a_slow_disk_shares_follow_the_weights_at_full_throughput() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // What is in flight is bounded, so a processor that is busy elsewhere for a moment leaves a
    // slot free. With 2 ms a request, three such programs on two processors cost up to 20 % of the
    // throughput; with 5 ms nothing that can be measured.
    let slow = ["slots:slots=8,latency=5ms,size=64MiB", "--listen", "unix:s"];
    let served = Served::run(Bench::new(), &slow);
    served.bench.file("jobs.fio", jobs(8, 3));
    let mut rounds = (0..ROUNDS)
        .map(|_| ["none", "aileron"].map(|name| rates(&served.bench, &served.uri, name)));
    assert!(rounds.any(|[none, aileron]| {
        let throughput = aileron.iter().sum::<f64>() / none.iter().sum::<f64>();
        println!(
            "none {none:.0?}, aileron {aileron:.0?}: {:.3} from the weights, {throughput:.3} of none",
            error(&aileron)
        );
        error(&aileron) <= 0.05 && throughput >= 0.95
    }));
}
