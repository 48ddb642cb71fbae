//! Tests job files from fio's documentation and examples, on a simulated device and on a real file:
//! the same jobs, the same schema, the same amount of work.

use std::process::Command;

use crate::common::Bench;
use serde_json::Value;

/// Name, text, and what each job must have moved: job, direction, bytes.
type Example = (&'static str, &'static str, &'static [(&'static str, &'static str, u64)]);

const EXAMPLES: &[Example] = &[
    (
        "two processes reading at random, from the manual's first example",
        "; -- start job file --\n[global]\nrw=randread\nsize=2m\ndirect=1\n\n[job1]\n\n[job2]\n; -- end job file --\n",
        &[("job1", "read", 2 << 20), ("job2", "read", 2 << 20)],
    ),
    (
        "four processes writing at random, asynchronously",
        "[random-writers]\nioengine=libaio\niodepth=4\nrw=randwrite\nbs=32k\ndirect=1\nsize=1m\nnumjobs=4\ngroup_reporting\n",
        &[("random-writers", "write", 4 << 20)],
    ),
    (
        "the four corners of a drive, one after the other",
        "[global]\nbs=4k\nioengine=libaio\niodepth=4\nsize=1m\ndirect=1\nfilename=ssd.test.file\n\
         [seq-read]\nrw=read\nstonewall\n[rand-read]\nrw=randread\nstonewall\n\
         [seq-write]\nrw=write\nstonewall\n[rand-write]\nrw=randwrite\nstonewall\n",
        &[
            ("seq-read", "read", 1 << 20),
            ("rand-read", "read", 1 << 20),
            ("seq-write", "write", 1 << 20),
            ("rand-write", "write", 1 << 20),
        ],
    ),
    (
        "a file server's block sizes",
        "[iometer]\nbssplit=512/10:1k/5:2k/5:4k/60:8k/2:16k/4:32k/4:64k/10\nrw=randrw\nrwmixread=80\ndirect=1\nsize=4m\n\
         ioengine=libaio\niodepth=64\n",
        &[],
    ),
    (
        "written, then read back and verified",
        "[write-and-verify]\nrw=randwrite\nbs=4k\ndirect=1\nioengine=libaio\niodepth=16\nverify=crc32c\nsize=2m\n",
        &[("write-and-verify", "write", 2 << 20), ("write-and-verify", "read", 2 << 20)],
    ),
    (
        "a log that is forced out every few writes",
        "[log]\nrw=write\nbs=4k\ndirect=1\nsize=256k\nfsync=16\nend_fsync=1\n",
        &[("log", "write", 256 << 10)],
    ),
];

/// Returns the bytes that a job moved in a direction.
fn moved(json: &Value, job: &str, direction: &str) -> u64 {
    let jobs = json["jobs"].as_array().expect("jobs").iter();
    jobs.filter(|j| j["jobname"] == job)
        .map(|j| j[direction]["io_bytes"].as_u64().expect("bytes"))
        .sum()
}

#[test]
fn the_content_of_a_file_is_written_and_verified() {
    let bench = Bench::new();
    let content: Vec<u8> = (0..16384u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect();
    let job = "[global]\nfilename=x\nsize=16k\nbs=16k\ndirect=1\n\
               [write_job]\nrw=write\nbuffer_pattern='content'\n\
               [read_job]\nstonewall\nrw=read\nverify=pattern\nverify_pattern='content'\n";
    let job = bench.file("job.fio", job);
    bench.file("content", content.clone());
    bench.file("disk.img", vec![0; 16384]);
    let json = bench.json(job, &["--device", "./disk.img"]);
    assert_eq!(
        (moved(&json, "read_job", "read"), &json["jobs"][1]["error"]),
        (16384, &Value::from(0))
    );
    assert!(
        std::fs::read(bench.path("disk.img")).expect("the device") == content,
        "other bytes than those of the file"
    );
}

#[test]
fn fio_examples_run_both_ways() {
    for (what, text, expected) in EXAMPLES {
        let bench = Bench::new();
        let job = bench.file("job.fio", text);
        bench.file("disk.img", vec![0; 16 << 20]);
        for device in ["nvme-datacenter", "./disk.img"] {
            let json = bench.json(job, &["--device", device]);
            assert_eq!(
                json["elevon"]["device"]["simulated"],
                device == "nvme-datacenter",
                "{what}"
            );
            for (job, direction, bytes) in *expected {
                assert_eq!(
                    moved(&json, job, direction),
                    *bytes,
                    "{what}, {device}: {job} {direction}"
                );
            }
            for job in json["jobs"].as_array().expect("jobs") {
                assert_eq!(job["error"], 0, "{what}, {device}");
            }
        }
        let names = bench.names();
        assert_eq!(
            names,
            ["disk.img", "job.fio"],
            "{what}: only the file named on the command line was written"
        );
    }
}

#[test]
fn logs_are_written_under_fios_names() {
    let bench = Bench::new();
    let job = "[r]\nrw=read\nbs=64k\ndirect=1\nrate=10m\nsize=2m\nwrite_bw_log=r\nwrite_lat_log=r\nwrite_iops_log=r\n";
    let job = bench.file("job.fio", job);
    bench.stdout(&["run", job]);
    assert_eq!(
        bench.names(),
        ["job.fio", "r_bw.1.log", "r_clat.1.log", "r_iops.1.log", "r_lat.1.log", "r_slat.1.log"]
    );
    let text = std::fs::read_to_string(bench.path("r_lat.1.log")).expect("the log");
    assert_eq!(text.lines().count(), 32, "a line for each of 32 reads");
}

/// Returns true if a tool is installed.
fn has(name: &str) -> bool {
    elevon_testkit::tool(name).is_some()
}

#[test]
fn jq_reads_the_json() {
    if !has("jq") {
        return;
    }
    let bench = Bench::new();
    let job = bench.file("job.fio", "[a]\nrw=randrw\nbs=4k\ndirect=1\nsize=1m\n");
    bench.file("out.json", bench.stdout(&["run", job, "--output-format", "json"]));
    let query = ".jobs[0] | .read.total_ios + .write.total_ios, (.read.clat_ns.percentile | has(\"99.000000\"))";
    let output = Command::new("jq")
        .args(["-c", query])
        .arg(bench.path("out.json"))
        .output()
        .expect("jq ran");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "256\ntrue\n");
}

#[test]
fn blkparse_and_btt_read_the_trace() {
    if !has("blkparse") || !has("btt") {
        return;
    }
    let bench = Bench::new();
    let job = bench.file(
        "job.fio",
        "[a]\nrw=randread\nbs=64k\ndirect=1\nsize=16m\niodepth=4\nioengine=io_uring\n",
    );
    // Files of an earlier trace with more CPUs are removed.
    bench.file("run.blktrace.1", "stale");
    bench.stdout(&["run", job, "--scheduler", "mq-deadline", "--trace", "run.blktrace"]);
    assert_eq!(bench.names(), ["job.fio", "run.blktrace.0"]);
    let tool = |name: &str, args: &[&str]| {
        let output = Command::new(name)
            .args(args)
            .current_dir(bench.path(""))
            .output()
            .expect("the tool ran");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let text = tool("blkparse", &["-q", "-i", "run", "-d", "run.bin"]);
    let issues = text.lines().filter(|line| line.split_whitespace().nth(5) == Some("D")).count();
    assert_eq!(issues, 256);
    assert!(
        text.contains("259,0") && text.contains("[a]"),
        "device and task are named: {}",
        &text[..200]
    );
    assert_eq!(btt_counts(&bench, "run", "D2C"), 256);
}

/// Returns the count in a row of `btt`'s table; 0 if there is no such row. `NAME.bin` was made by
/// blkparse.
fn btt_counts(bench: &Bench, name: &str, row: &str) -> usize {
    let output = Command::new("btt")
        .args(["-i", &format!("{name}.bin")])
        .current_dir(bench.path(""))
        .output();
    let text = String::from_utf8(output.expect("btt ran").stdout).expect("UTF-8");
    let found = text.lines().find(|line| line.split_whitespace().next() == Some(row));
    found.map_or(0, |line| {
        line.split_whitespace().last().expect("a count").parse().expect("a number")
    })
}

/// Returns the number of records of an action that `blkparse` finds in `NAME.blktrace.*`. It also
/// joins these into `NAME.bin`.
fn records(bench: &Bench, name: &str, action: &str) -> usize {
    let args = ["-q", "-i", name, "-d", &format!("{name}.bin")];
    let output = Command::new("blkparse")
        .args(args)
        .current_dir(bench.path(""))
        .output()
        .expect("blkparse ran");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().filter(|line| line.split_whitespace().nth(5) == Some(action)).count()
}

/// btt finds a request by the sectors of a Q, and the kernel records no Q for a part of a split
/// bio. So it counts no device time for one in the trace of a real kernel. It counts none in ours
/// either, unless that is in the form for btt.
#[test]
fn btt_follows_split_bios_in_the_form_for_it_only() {
    if !has("blkparse") || !has("btt") {
        return;
    }
    let bench = Bench::new();
    for cpu in ["0", "1"] {
        let record = crate::common::kernel_truth(&format!("blktrace-6.1/dd-none.blktrace.{cpu}"));
        std::fs::copy(record, bench.path(&format!("real.blktrace.{cpu}"))).expect("a copy");
    }
    // The record has 365 requests of 205 bios; 160 splits divide 19 of the bios into 179 requests.
    assert_eq!(["Q", "X", "D"].map(|action| records(&bench, "real", action)), [205, 160, 365]);
    assert_eq!(btt_counts(&bench, "real", "D2C"), 186);
    let job = bench.file("job.fio", "[a]\nrw=read\nbs=1m\ndirect=1\nsize=16m\n");
    bench.stdout(&["run", job, "--set", "max_sectors_kb=512", "--trace", "ours.blktrace"]);
    let [queued, split, issued] = ["Q", "X", "D"].map(|action| records(&bench, "ours", action));
    assert_eq!(issued, queued + split, "every request is of a split bio or of a whole one");
    assert!(split >= 16);
    assert_eq!(
        btt_counts(&bench, "ours", "D2C"),
        queued - 16,
        "whole bios only: each block of 1 MiB is split"
    );
    // Under a scheduler, deep, with merges, and with the same places read again.
    let job = "[a]\nrw=read\nbs=900k\ndirect=1\nsize=15m\nloops=3\niodepth=8\nioengine=libaio\n";
    let job = bench.file("deep.fio", job);
    for scheduler in ["none", "mq-deadline", "bfq"] {
        let args = ["run", job, "--set", "max_sectors_kb=256", "--scheduler", scheduler];
        bench.stdout(&[&args[..], &["--trace", "parts.blktrace", "--blktrace", "btt"]].concat());
        let [split, issued, merged] =
            ["X", "D", "M"].map(|action| records(&bench, "parts", action));
        assert!(split >= 100, "{scheduler}: {split} splits");
        for row in ["D2C", "Q2C"] {
            let expected = if row == "D2C" { issued } else { issued + merged };
            assert_eq!(btt_counts(&bench, "parts", row), expected, "{scheduler}: {row}");
        }
    }
}
