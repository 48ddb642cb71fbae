//! `elevon watch` beside problems of a real kernel: disks of null_blk in a guest on an emulated
//! CPU, with cgroups of version 2 and bfq.
#![cfg(target_arch = "x86_64")]

use std::fs::{self, File};

use serde_json::Value;

use crate::common::Bench;
use crate::common::guest::{Guest, GuestImage};

/// Seconds of a problem, and seconds in which it has to be seen or to be gone.
const LASTS: u64 = 8;
const WITHIN: usize = 5;
/// The problem of each disk.
const PROBLEMS: [(&str, &str); 6] = [
    ("nullb0", "held_by_limit"),
    ("nullb1", "idle_class"),
    ("nullb2", "idle_class"),
    ("nullb3", "few_tags"),
    ("nullb4", "small_requests"),
    ("nullb5", "slow_device"),
];
/// A device that was slow for this long, in nanoseconds, has the problem of the last disk.
const SLOW: u64 = 20_000_000;

fn start(image: &GuestImage, bench: &Bench, words: &str) -> Guest {
    let disk = File::create(bench.path("disk.img")).expect("a file");
    disk.set_len(16 << 20).expect("a sparse file");
    let name = bench.path("disk.img").display().to_string();
    image.start(&name, words)
}

/// Returns true if a disk has the I/O of its problem in a second.
fn has_io(disk: &Value) -> bool {
    let rows = disk["rows"].as_array().expect("rows");
    // The idle class reads before the others begin, and after they have ended.
    let is_of_fio = ["nullb1", "nullb2", "nullb3"].iter().any(|name| disk["name"] == *name);
    let has_fio =
        rows.iter().any(|row| row["name"].as_str().is_some_and(|it| it.starts_with("fio")));
    let is_slow = disk["in_device_ns"]["p50"].as_u64().is_some_and(|median| median > SLOW);
    let reads = disk["read"]["requests"].as_f64().expect("a number");
    reads > 1.0 && (has_fio || !is_of_fio) && (disk["name"] != "nullb5" || is_slow)
}

fn has_finding(disk: &Value, kind: &str) -> bool {
    disk["findings"].as_array().expect("findings").iter().any(|one| one["kind"] == kind)
}

#[test]
fn problems_of_a_real_kernel_are_seen_within_five_seconds_and_go_again() {
    let bench = Bench::new();
    let Some(image) = GuestImage::that_watches(&bench.path(""), &[]) else { return };
    let mut guest = start(&image, &bench, &format!("elevon.phase=problems elevon.lasts={LASTS}"));
    assert_eq!(guest.wait_for("watched"), "0", "{}", guest.console());
    guest.wait_for("done");
    let written = fs::read(bench.path("disk.img")).expect("what the guest left");
    let text = String::from_utf8_lossy(&written);
    let lines = text.trim_end_matches('\0').lines();
    let seconds: Vec<Value> =
        lines.map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let mut missed = Vec::new();
    for (place, (name, kind)) in PROBLEMS.into_iter().enumerate() {
        let disks: Vec<&Value> = seconds.iter().map(|now| &now["disks"][place]).collect();
        assert!(disks.iter().all(|disk| disk["name"] == name), "{name}");
        let first = disks.iter().position(|disk| has_io(disk));
        let last = disks.iter().rposition(|disk| has_io(disk));
        let seen = disks.iter().position(|disk| has_finding(disk, kind));
        let gone = disks.iter().rposition(|disk| has_finding(disk, kind));
        let is_seen = first.zip(seen).is_some_and(|(begun, seen)| seen < begun + WITHIN);
        let is_gone = last.zip(gone).is_some_and(|(ended, gone)| gone < ended + WITHIN);
        println!("{name} {kind}: I/O in {first:?} to {last:?}, found in {seen:?} to {gone:?}");
        if !is_seen || !is_gone {
            missed.push(format!(
                "{name}: {kind}: I/O in {first:?} to {last:?}, found in {seen:?} to {gone:?}"
            ));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// Prints a line for each run: rate, tool, the processor time of the tool and of the machine in
/// hundredths of a second, I/Os a second, p50, p99, and fio's processor time.
#[test]
#[ignore = "it takes six minutes, and prints the runs of a table of docs/evidence/watch-cost.md"]
fn what_watching_costs_beside_other_tools() {
    let bench = Bench::new();
    let Some(image) =
        GuestImage::that_watches(&bench.path(""), &["blktrace", "blkparse", "biosnoop"])
    else {
        return;
    };
    let words = "elevon.phase=cost elevon.lasts=8 elevon.rounds=3 elevon.rates=1000,10000";
    let mut guest = start(&image, &bench, words);
    guest.wait_for("done");
    for line in [guest.all("cost"), guest.all("refused")].concat() {
        println!("{line}");
    }
}
