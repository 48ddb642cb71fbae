//! Tests `elevon replay` on real traces: what it replays, what it refuses, and that it is
//! repeatable.

use std::path::PathBuf;

use elevon_core::kernel::Kernel;
use serde_json::Value;

use crate::common::Bench;

/// The device on which `whatif/` was captured, including the time that FUSE, loop and wake-ups add
/// to an I/O.
const SIX_SLOTS: &str = "slots:slots=6,latency=2150us,bandwidth=300MB/s,size=1GiB";

fn data(name: &str) -> String {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/kernel-truth").join(name);
    path.to_str().expect("UTF-8").to_owned()
}

fn json(bench: &Bench, trace: &str, args: &[&str]) -> Value {
    let args = [&["replay", trace, "--output-format", "json"], args].concat();
    serde_json::from_str(&bench.stdout(&args)).expect("JSON")
}

/// Returns the only line of stderr of a command that must fail with exit status 2.
fn refused(bench: &Bench, args: &[&str]) -> String {
    let output = bench.elevon(args).output().expect("the command ran");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(output.stdout.is_empty());
    stderr
}

/// Bios enter as they were before the split: four reads of 1028 KiB, each a bio of 1 MiB and one of
/// 4 KiB, are split again by the limit.
#[test]
fn bios_enter_before_they_are_split() {
    let bench = Bench::new();
    let trace = data("traces/dd-1028k-direct.ftrace");
    let with = |limit: &str| {
        json(&bench, &trace, &["--device", SIX_SLOTS, "--set", limit])["elevon"]["counters"].clone()
    };
    let (same, wide) = (with("max_sectors_kb=512"), with("max_sectors_kb=1280"));
    assert_eq!(wide["splits"], 0, "{wide}");
    let inspected: Value =
        serde_json::from_str(&bench.stdout(&["inspect", &trace, "--output-format", "json"]))
            .expect("JSON");
    assert_eq!(same["splits"], inspected["splits"], "{same}");
}

/// In a closed loop with the captured configuration, each process does the same I/Os as in the
/// trace, with throughput, mean and median latency within 15 %.
#[test]
fn a_closed_loop_does_what_the_trace_did() {
    let bench = Bench::new();
    let trace = data("whatif/mq-deadline.ftrace.zst");
    let found = json(
        &bench,
        &trace,
        &[
            "--closed",
            "--once",
            "--device",
            SIX_SLOTS,
            "--scheduler",
            "mq-deadline",
            "--set",
            "max_sectors_kb=512",
        ],
    );
    let inspected: Value =
        serde_json::from_str(&bench.stdout(&["inspect", &trace, "--output-format", "json"]))
            .expect("JSON");
    let jobs = found["jobs"].as_array().expect("jobs");
    assert_eq!(jobs.len(), 4);
    for job in jobs {
        let name = job["jobname"].as_str().expect("a name");
        let id: u64 = name.strip_prefix("fio-").expect("its command").parse().expect("its id");
        let rows = inspected["processes"].as_array().expect("processes");
        let row = rows.iter().find(|row| row["id"] == id).expect("the process");
        let direction = if job["read"]["total_ios"] != 0 { "read" } else { "write" };
        let measured = &row["latency"][direction];
        assert_eq!(job[direction]["total_ios"], measured["count"], "{name}");
        let near = |what: &str, own: f64, measured: f64| {
            assert!((own / measured - 1.0).abs() < 0.15, "{name} {what}: {own}, not {measured}");
        };
        let number = |value: &Value| value.as_f64().expect("a number");
        near("mean", number(&job[direction]["clat_ns"]["mean"]), number(&measured["mean_ns"]));
        // The last process has two times, beside the others and alone, and its median lies in the
        // gap between them: a few I/Os move it by a millisecond.
        if id != 29255 {
            let p50 = number(&job[direction]["clat_ns"]["percentile"]["50.000000"]);
            near("p50", p50, number(&measured["percentile_ns"]["p50"]));
        }
        near(
            "runtime",
            number(&job[direction]["runtime"]),
            if direction == "read" { 5000.0 } else { 5005.0 },
        );
    }
}

/// Four jobs that ran for 5 s each run for 5 s on another device too, and do more or less I/O;
/// with `--once` they do the same I/O, and run longer.
#[test]
fn jobs_that_ran_for_a_time_run_for_that_time() {
    let bench = Bench::new();
    let trace = data("whatif/mq-deadline.ftrace.zst");
    let of = |more: &[&str]| {
        let found =
            json(&bench, &trace, &[&["--closed", "--set", "max_sectors_kb=512"], more].concat());
        let jobs = found["jobs"].as_array().expect("jobs").clone();
        let all = jobs.iter().map(|job| {
            let direction = if job["read"]["total_ios"] != 0 { "read" } else { "write" };
            let number = |key: &str| job[direction][key].as_u64().expect("a number");
            (number("total_ios"), number("runtime"))
        });
        let row = found["elevon"]["config"]["replay"].as_str().expect("a row").to_owned();
        (all.collect::<Vec<_>>(), row)
    };
    let slow = "slots:slots=2,latency=2150us,bandwidth=300MB/s,size=1GiB";
    let fast = "slots:slots=16,latency=500us,bandwidth=300MB/s,size=1GiB";
    let ((one, _), (fewer, row), (more, _)) =
        (of(&["--once", "--device", slow]), of(&["--device", slow]), of(&["--device", fast]));
    assert!(row.starts_with("closed loop, 4 of 4 processes for the time that they took"), "{row}");
    let ios: Vec<u64> = one.iter().map(|(ios, _)| *ios).collect();
    assert_eq!(ios, [3233, 1162, 755, 10819], "those of the trace");
    for (n, &ios) in ios.iter().enumerate() {
        assert!(
            one[n].1 > 6000 && fewer[n].1.abs_diff(5010) < 60 && more[n].1.abs_diff(5010) < 60,
            "{n}: {one:?} {fewer:?} {more:?}"
        );
        assert!(fewer[n].0 < ios && more[n].0 > ios, "{n}: {fewer:?} {more:?}");
    }
}

#[test]
fn an_open_loop_keeps_the_times_of_the_trace() {
    let bench = Bench::new();
    let trace = data("traces/dd-1028k-direct.ftrace");
    let runtime = |args: &[&str]| {
        let all = [&["--device", "null:latency=1us"], args].concat();
        json(&bench, &trace, &all)["jobs"][0]["read"]["runtime"].as_u64().expect("ms")
    };
    let (once, twice, slow) =
        (runtime(&[]), runtime(&["--speed", "2"]), runtime(&["--speed", "0.1"]));
    assert!(
        once > 0 && twice.abs_diff(once / 2) <= 1 && slow.abs_diff(once * 10) <= 10,
        "{once} {twice} {slow}"
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let bench = Bench::new();
    for (trace, dev) in [
        ("traces/pgbench-ext4-mq-deadline-excerpt.ftrace", None),
        ("traces/mixed-deflate.perfetto-trace", Some("7:7")),
    ] {
        let trace = data(trace);
        for closed in [None, Some("--closed")] {
            let mut args = vec![
                "replay",
                &trace,
                "--scheduler",
                "bfq",
                "--seed",
                "3",
                "--output-format",
                "json",
            ];
            args.extend(dev.iter().flat_map(|dev| ["--dev", dev]));
            args.extend(closed);
            assert_eq!(bench.stdout(&args), bench.stdout(&args), "{args:?}");
        }
    }
}

#[test]
fn a_real_device_is_only_read_unless_writes_are_allowed() {
    let bench = Bench::new();
    let before = vec![0x5a_u8; 4 << 20];
    bench.file("disk.img", &before);
    let trace = "\
  a-11 [000] ..... 1.000000: block_bio_queue: 8,0 W 100 + 8 [a]
  a-11 [000] ..... 1.000100: block_bio_queue: 8,0 R 200 + 8 [a]
  a-11 [000] ..... 1.000200: block_bio_queue: 8,0 D 800 + 800 [a]
  a-11 [000] ..... 1.000300: block_bio_queue: 8,0 R 1000000 + 8 [a]
";
    bench.file("trace.txt", trace);
    let args = ["replay", "trace.txt", "--device", "./disk.img", "--output-format", "json"];
    let output = bench.elevon(&args).output().expect("the command ran");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("2 writes and discards are refused"), "{stderr}");
    assert!(stderr.contains("1 I/Os lay beyond the end of the device"), "{stderr}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["jobs"][0]["read"]["total_ios"], 2);
    assert_eq!(found["jobs"][0]["write"]["total_ios"], 0);
    assert_eq!(
        std::fs::read(bench.path("disk.img")).expect("the file"),
        before,
        "nothing was written"
    );
    let found: Value =
        serde_json::from_str(&bench.stdout(&[&args[..], &["--allow-writes"]].concat()))
            .expect("JSON");
    assert_eq!(found["jobs"][0]["write"]["total_ios"], 1);
    assert_ne!(std::fs::read(bench.path("disk.img")).expect("the file"), before, "it was written");
}

#[test]
fn a_gap_is_told_and_kept() {
    let bench = Bench::new();
    let trace = "\
  a-11 [000] ..... 1.000000: block_bio_queue: 8,0 R 100 + 8 [a]
CPU:0 [LOST 42 EVENTS]
  a-11 [000] ..... 3.000000: block_bio_queue: 8,0 R 200 + 8 [a]
";
    bench.file("trace.txt", trace);
    for closed in [&[][..], &["--closed"]] {
        let args = [
            &["replay", "trace.txt", "--device", "null:latency=1ms", "--output-format", "json"],
            closed,
        ]
        .concat();
        let output = bench.elevon(&args).output().expect("the command ran");
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(stderr.contains("42 events were lost in 1 gap(s)"), "{stderr}");
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        // In a closed loop the lost completion is counted at the start of the gap.
        let runtime = if closed.is_empty() { 2001 } else { 2002 };
        assert_eq!(found["jobs"][0]["read"]["runtime"], runtime, "{closed:?}");
    }
}

/// A process that its CPU limits, and one that the device limits, on a device three times as fast:
/// the replay of each does what the process itself does there.
#[test]
fn a_process_bound_by_its_cpu_stays_so_on_a_faster_device() {
    let bench = Bench::new();
    bench.file(
        "busy.fio",
        "[busy]\nrw=randread\nbs=4k\nioengine=libaio\niodepth=16\ndirect=1\nsize=180m\nruntime=1\ntime_based\n",
    );
    let device = |latency: &str| {
        format!(
            "slots:slots=6,latency={latency},spread_min=10%,spread_p50=100%,spread_p90=275%,spread_max=800%,size=1GiB"
        )
    };
    let rate = |args: &[&str]| {
        let found: Value = serde_json::from_str(&bench.stdout(args)).expect("JSON");
        found["jobs"][0]["read"]["iops"].as_f64().expect("a number")
    };
    for cost in
        ["submit=400us,complete=200us", "submit=100us,complete=50us", "submit=10us,complete=10us"]
    {
        let run = ["run", "busy.fio", "--output-format", "json", "--cpu-cost", cost, "--device"];
        rate(&[&run[..], &[&device("700us"), "--trace", "busy.ftrace"]].concat());
        let really = rate(&[&run[..], &[&device("200us")]].concat());
        let replayed = rate(&[
            "replay",
            "busy.ftrace",
            "--closed",
            "--output-format",
            "json",
            "--device",
            &device("200us"),
        ]);
        assert!(
            (replayed / really - 1.0).abs() < 0.05,
            "{cost}: {replayed} I/Os a second, really {really}"
        );
    }
}

/// The loop of a process without completions cannot be closed, and a remark says so.
#[test]
fn a_loop_that_is_not_closed_is_told() {
    let bench = Bench::new();
    let trace = "\
  a-11 [000] ..... 1.000000: block_bio_queue: 8,0 R 100 + 8 [a]
  a-11 [000] ..... 1.000010: block_rq_issue: 8,0 R 4096 () 100 + 8 [a]
  b-12 [000] ..... 1.000100: block_bio_queue: 8,0 R 200 + 8 [b]
  a-11 [000] ..... 1.000500: block_rq_complete: 8,0 R () 100 + 8 [0]
";
    bench.file("trace.txt", trace);
    for (closed, is_told) in [(&["--closed"][..], true), (&[], false)] {
        let args = [&["replay", "trace.txt", "--device", "null:latency=1ms"], closed].concat();
        let output = bench.elevon(&args).output().expect("the command ran");
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(
            stderr.contains("1 of 2 processes (b-12) have no completions"),
            is_told,
            "{stderr}"
        );
    }
}

#[test]
fn requests_stand_in_where_no_bios_were_traced() {
    let bench = Bench::new();
    let trace = "\
  a-11 [000] ..... 1.000005: block_rq_issue: 8,0 R 8192 () 5000 + 16 [a]
  a-11 [000] ..... 1.000500: block_rq_complete: 8,0 R () 5000 + 16 [0]
";
    bench.file("trace.txt", trace);
    let output = bench.elevon(&["replay", "trace.txt"]).output().expect("the command ran");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(stderr.contains("has no queue events"), "{stderr}");
    assert!(String::from_utf8(output.stdout).expect("UTF-8").contains("a-11"));
}

#[test]
fn bad_input_is_one_line() {
    let bench = Bench::new();
    let trace = data("traces/dd-1028k-direct.ftrace");
    bench.file("empty.txt", "");
    bench.file("job.fio", "[a]\nrw=read\nsize=1m\n");
    let text = std::fs::read_to_string(&trace).expect("a trace");
    let asked: Vec<&str> = text.lines().filter(|line| !line.contains("_complete:")).collect();
    bench.file("asked.ftrace", asked.join("\n"));
    for (args, said) in [
        (
            vec!["replay", "asked.ftrace", "--closed"],
            "--closed: asked.ftrace has no completions to wait for",
        ),
        (vec!["replay", "missing.txt"], "missing.txt"),
        (vec!["replay", "empty.txt"], "empty.txt"),
        (vec!["replay", "job.fio"], "job.fio"),
        (vec!["replay", &trace, "--dev", "9:9"], "no event of device 9:9"),
        (vec!["replay", &trace, "--dev", "nine"], "it names no device nine; there are"),
        (vec!["replay", &trace, "--speed", "0"], "--speed 0: expected a number from 0.001 to 1000"),
        (vec!["replay", &trace, "--speed", "2", "--closed"], "--closed"),
        (vec!["replay", &trace, "--time-based"], "--closed"),
        (vec!["replay", &trace, "--once"], "--closed"),
        (vec!["replay", &trace, "--closed", "--once", "--time-based"], "--once"),
        (
            vec!["replay", &trace, "--memory", "1GiB"],
            "--memory 1GiB: the bios of a trace are below the page cache",
        ),
        (
            vec!["replay", &trace, "--memory", "1GiB"],
            "leave it out, or describe the I/O above the cache in a job file",
        ),
        (
            vec!["replay", &trace, "--cache", "1GiB"],
            "--cache 1GiB: the bios of a trace are below the page cache",
        ),
        (
            vec!["replay", &trace, "--cpu-cost", "submit=1us"],
            "--cpu-cost submit=1us: the times of a trace have",
        ),
        (
            vec!["replay", &trace, "--job-option", "bs=4k"],
            "--job-option bs=4k: a trace has no job file",
        ),
        (vec!["replay", &trace, "--log-dir", "."], "--log-dir .: a trace has no job file"),
        (vec!["replay", &trace, "--scheduler", "deadline"], "--scheduler deadline"),
    ] {
        let line = refused(&bench, &args);
        assert!(line.contains(said), "{args:?}: {line}");
    }
}

/// The trace of a run is replayed under the scheduler, the kernel and the settings of that run, of
/// every kernel and scheduler, and the command in the report does the same again.
#[test]
fn a_run_is_replayed_as_it_was_recorded() {
    let bench = Bench::new();
    bench.file("w.fio", "[w]\nrw=randwrite\nbs=64k\niodepth=4\nnumber_ios=8\nsize=16m\n");
    for kernel in Kernel::ALL.map(Kernel::name) {
        for scheduler in
            ["none", "mq-deadline:fifo_batch=3", "kyber", "bfq:slice_idle=0", "aileron"]
        {
            let run =
                ["run", "w.fio", "--trace", "w.ftrace", "--set", "nomerges=2", "--kernel", kernel];
            bench.stdout(&[&run[..], &["--scheduler", scheduler]].concat());
            let found = json(&bench, "w.ftrace", &[]);
            let elevon = &found["elevon"];
            let name = scheduler.split(':').next().expect("a name");
            assert_eq!(elevon["scheduler"]["name"], name, "{kernel}");
            let tunable =
                scheduler.split_once(':').and_then(|(_, tunable)| tunable.split_once('='));
            if let Some((tunable, value)) = tunable {
                assert_eq!(
                    elevon["scheduler"]["tunables"][tunable].to_string().trim_matches('"'),
                    value,
                    "{elevon}"
                );
            }
            assert_eq!(elevon["config"]["kernel"], kernel);
            assert_eq!(elevon["config"]["nomerges"].to_string().trim_matches('"'), "2", "{elevon}");
            let command = elevon["command"].as_str().expect("a command");
            let words = shlex::split(command).expect("words of a shell");
            let words: Vec<&str> =
                words.iter().map(String::as_str).chain(["--output-format", "json"]).collect();
            let again: Value = serde_json::from_str(&bench.stdout(&words[1..])).expect("JSON");
            assert_eq!(again["jobs"], found["jobs"], "{command}");
            // The kernel to which one moves may lack a tunable that was recorded.
            bench.stdout(&["replay", "w.ftrace", "--kernel", "7.3"]);
        }
    }
}

/// `none` and the default kernel are options like others: a report that names neither would be that
/// of a replay as recorded.
#[test]
fn a_command_names_what_differs_from_the_recording() {
    let bench = Bench::new();
    bench.file("w.fio", "[w]\nrw=randwrite\nbs=64k\nnumber_ios=8\nsize=16m\n");
    bench.stdout(&[
        "run",
        "w.fio",
        "--trace",
        "w.ftrace",
        "--kernel",
        "6.1",
        "--scheduler",
        "kyber",
    ]);
    let found = json(&bench, "w.ftrace", &["--scheduler", "none", "--kernel", "7.3"]);
    let command = found["elevon"]["command"].as_str().expect("a command");
    assert!(command.contains("--scheduler none --kernel 7.3"), "{command}");
}
