//! Weights 4:2:1 on the disk of this machine, while another program writes to that disk:
//! `ELEVON_WEIGHTS=15 cargo test -p elevon --test serve weights -- --nocapture` for so many runs.
//! Without the variable the test is skipped, because it takes a quiet machine. Figures are in
//! `docs/evidence/weights.md`.

use std::env;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::common::Bench;
use crate::common::served::Served;

const PART: usize = 256 << 20;
const NAMES: [&str; 3] = ["gold", "silver", "bronze"];
const WEIGHTS: [f64; 3] = [400.0, 200.0, 100.0];

/// Returns reads a second of each tenant in a run of five seconds.
fn rates(served: &Served) -> [f64; 3] {
    let mut jobs =
        "[global]\nioengine=nbd\nrw=randread\nbs=4k\niodepth=32\ntime_based\nruntime=5\nsize=256m\nthread\n".to_owned();
    for name in NAMES {
        jobs += &format!("[{name}]\nuri={}\n", served.of_export(name));
    }
    served.bench.file("jobs.fio", jobs);
    let output =
        served.client("fio", &["--output-format=json", "jobs.fio"]).expect("it is installed");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let json: Value =
        serde_json::from_str(&text[text.find('{').expect("an object")..]).expect("JSON");
    [0, 1, 2].map(|at| json["jobs"][at]["read"]["iops"].as_f64().expect("a rate"))
}

#[test]
fn what_comes_first_is_said_once_and_to_flow() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; 1 << 20]);
    for (scheduler, said) in [
        (
            "aileron:prefer=shares",
            "c.toml:5:10: device.d.prefer: the scheduler's text gives it, too; give it once",
        ),
        ("bfq", "c.toml:5:10: device.d.prefer: bfq has no such choice; aileron has"),
    ] {
        let device = format!(
            "[device.d]\ndevice = './disk.img'\nscheduler = '{scheduler}'\nprefer = 'throughput'\n"
        );
        bench.file("c.toml", format!("listen = 'unix:s'\n{device}[export.a]\n"));
        let output = bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains(said) && output.status.code() == Some(2), "{stderr}");
    }
}

#[test]
fn weights_hold_on_this_disk_beside_a_writer() {
    let Ok(runs) = env::var("ELEVON_WEIGHTS") else {
        return println!("skipped: ELEVON_WEIGHTS says how many runs there are");
    };
    let runs: u32 = runs.parse().expect("ELEVON_WEIGHTS is a number");
    let bench = Bench::new();
    let mut disk = File::create(bench.path("disk.img")).expect("a file");
    (0..(3 * PART) >> 20)
        .for_each(|at| disk.write_all(&vec![(at % 251) as u8; 1 << 20]).expect("room on the disk"));
    disk.sync_all().expect("written");
    let mut config =
        "listen = 'unix:s'\ncontrol = 'ctl'\n[device.fast]\ndevice = 'disk.img'\ndirect = true\n"
            .to_owned();
    for (at, (name, weight)) in NAMES.iter().zip(WEIGHTS).enumerate() {
        config += &format!(
            "[export.{name}]\nstart = {}\nsize = {PART}\n[tenant.{name}]\nweight = {weight}\n",
            at * PART
        );
    }
    bench.file("c.toml", config);
    let mut other = File::create(bench.path("other")).expect("a file");
    let served = Served::run(bench, &["c.toml"]);
    let stop = Arc::new(AtomicBool::new(false));
    let is_told = Arc::clone(&stop);
    let writer = std::thread::spawn(move || {
        while !is_told.load(Ordering::Relaxed) {
            (0..64).for_each(|_| other.write_all(&[7; 1 << 20]).expect("room on the disk"));
            other.sync_data().expect("written");
            other.seek(SeekFrom::Start(0)).expect("a file");
        }
    });
    let mut missed = 0;
    for run in 1..=runs {
        let rates = rates(&served);
        let all: f64 = rates.iter().sum();
        let off = rates
            .iter()
            .zip(WEIGHTS)
            .map(|(rate, weight)| (rate / all * 700.0 / weight - 1.0).abs() * 100.0);
        let off = off.fold(0.0, f64::max);
        let explained = served.bench.stdout(&["ctl", "ctl", "stats"]);
        let is_said = explained.contains("weight not in force");
        missed += u32::from(off > 5.0 && !is_said);
        let [gold, silver, bronze] = rates;
        println!(
            "run {run}: {:.2}:{:.2}:1, off by {off:.1} %, {all:.0} reads/s, said: {is_said}",
            gold / bronze,
            silver / bronze
        );
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().expect("the writer ended");
    assert_eq!(missed, 0, "of {runs} runs that were off by more than 5 %, without a word");
}
