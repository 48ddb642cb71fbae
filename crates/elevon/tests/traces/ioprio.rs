//! Tests `--ioprio` of replays, comparisons and advice, and the warnings of priorities that change
//! nothing.

use serde_json::Value;

use crate::common::Bench;

const DEVICE: &str = "sata-ssd-860evo";

/// A reader beside a writer that keeps the device's queue full.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.file(
        "job.fio",
        "[global]\ndirect=1\nruntime=1\ntime_based\n[reader]\nrw=randread\nbs=4k\n\
         [writer]\nioengine=libaio\niodepth=64\nrw=write\nbs=256k\n",
    );
    bench.stdout(&[
        "run",
        "job.fio",
        "--device",
        DEVICE,
        "--scheduler",
        "mq-deadline",
        "--trace",
        "t.ftrace",
    ]);
    bench
}

/// Runs a replay and returns its report, and its warnings on stderr.
fn replay(bench: &Bench, more: &[&str]) -> (Value, String) {
    let args =
        [&["replay", "t.ftrace", "--closed", "--device", DEVICE, "--output-format", "json"], more]
            .concat();
    let output = bench.elevon(&args).output().expect("the command ran");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.status.success(), "{args:?}: {stderr}");
    (serde_json::from_slice(&output.stdout).expect("JSON"), stderr)
}

fn reads(report: &Value) -> f64 {
    report["jobs"][0]["read"]["iops"].as_f64().expect("a number")
}

#[test]
fn an_idle_writer_lets_a_reader_pass() {
    let bench = bench();
    for scheduler in ["mq-deadline", "bfq"] {
        let before = reads(&replay(&bench, &["--scheduler", scheduler]).0);
        for process in ["writer", "1002", "writer-1002"] {
            let prio = format!("{process}=idle");
            let (report, stderr) = replay(&bench, &["--scheduler", scheduler, "--ioprio", &prio]);
            let after = reads(&report);
            assert!(after > 10.0 * before, "{scheduler} {prio}: {before} {after}");
            assert_eq!(report["elevon"]["config"]["ioprio"], "writer-1002=idle");
            let command = report["elevon"]["command"].as_str().expect("a command");
            assert!(command.contains(&format!("--ioprio '{prio}'")), "{command}");
            assert!(!stderr.contains("nothing changes") && !stderr.contains("ranks"), "{stderr}");
        }
    }
    // The last one for a process holds.
    let (report, _) = replay(
        &bench,
        &["--ioprio", "writer=idle", "--ioprio", "1002=be:7", "--ioprio", "reader=rt:0"],
    );
    assert_eq!(report["elevon"]["config"]["ioprio"], "reader-1001=rt:0 writer-1002=be:7");
    assert!(reads(&report) > 2_000.0, "real time goes first: {}", reads(&report));
    let text = bench.stdout(&[
        "replay",
        "t.ftrace",
        "--closed",
        "--device",
        DEVICE,
        "--ioprio",
        "writer=idle",
    ]);
    assert!(text.contains("ioprio=writer-1002=idle"), "{text}");
}

#[test]
fn a_variant_may_have_other_priorities() {
    let bench = bench();
    let args =
        ["compare", "t.ftrace", "--closed", "--device", DEVICE, "--vs", "--ioprio writer=idle"];
    let report = bench.stdout(&[&args[..], &["--output-format", "json"]].concat());
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let config = |at: usize| report["variants"][at]["report"]["elevon"]["config"]["ioprio"].clone();
    let found = [config(0), config(1)];
    assert_eq!(found, [Value::Null, "writer-1002=idle".into()], "{}", report["variants"][1]);
}

/// Replays, and returns the reads a second and the warnings of priorities.
fn said(bench: &Bench, more: &[&str]) -> (f64, Vec<String>) {
    let (report, stderr) = replay(bench, more);
    let lines = stderr.lines().filter(|line| line.contains("--ioprio") || line.contains("class"));
    (reads(&report), lines.map(str::to_owned).collect())
}

/// Replays with one such warning, and returns the reads a second.
fn one(bench: &Bench, more: &[&str], wanted: &str) -> f64 {
    let (rate, lines) = said(bench, more);
    assert!(matches!(&lines[..], [line] if line.contains(wanted)), "{more:?}: {lines:?}");
    rate
}

#[test]
fn a_priority_that_changes_nothing_is_told() {
    let bench = bench();
    let of_none = one(
        &bench,
        &["--scheduler", "none", "--ioprio", "writer=idle"],
        "none does not look at I/O priorities",
    );
    assert_eq!(of_none, said(&bench, &["--scheduler", "none"]).0);
    one(
        &bench,
        &["--scheduler", "mq-deadline", "--kernel", "5.10", "--ioprio", "writer=idle"],
        "before Linux 5.15",
    );
    for prio in ["writer=be:7", "writer=be:0"] {
        one(
            &bench,
            &["--scheduler", "mq-deadline", "--ioprio", prio],
            "looks at the class and not at the level",
        );
    }
}

#[test]
fn a_class_that_changes_nothing_is_told() {
    let bench = bench();
    bench.file("class.toml", "[tenant.writer-1002]\nclass = \"idle\"\n");
    let class = ["--tenants", "class.toml", "--scheduler"];
    for scheduler in ["aileron", "bfq", "kyber", "none"] {
        let with = one(
            &bench,
            &[&class[..], &[scheduler]].concat(),
            "writer-1002: its class ranks it against no other: ",
        );
        bench.file("no-class.toml", "[tenant.writer-1002]\nweight = 100\n");
        let (without, _) = said(&bench, &["--tenants", "no-class.toml", "--scheduler", scheduler]);
        assert!((with / without).max(without / with) < 1.6, "{scheduler}: {with} {without}");
    }
    one(
        &bench,
        &["--tenants", "class.toml", "--scheduler", "aileron"],
        "--ioprio PROCESS=idle without --tenants",
    );
    one(
        &bench,
        &["--tenants", "class.toml", "--scheduler", "bfq"],
        "a class counts only within the tenant",
    );
    // mq-deadline knows no groups: there it is the priority of its process.
    let (by_class, lines) = said(&bench, &[&class[..], &["mq-deadline"]].concat());
    assert_eq!(lines, [""; 0]);
    let (by_prio, _) = said(&bench, &["--scheduler", "mq-deadline", "--ioprio", "writer=idle"]);
    assert!((by_class / by_prio - 1.0).abs() < 0.02, "{by_class} {by_prio}");
    // Under BFQ each is alone in its tenant.
    let tenants = ["--tenants", "class.toml", "--scheduler", "bfq", "--ioprio", "reader=rt:0"];
    let (_, lines) = said(&bench, &tenants);
    assert!(
        lines.iter().any(|line| line
            .contains("--ioprio: under bfq a priority counts among the processes of one cgroup")),
        "{lines:?}"
    );
    // A job has no such option, and is not told of it.
    let output = bench
        .elevon(&["run", "job.fio", "--device", DEVICE, "--tenants", "class.toml"])
        .output()
        .expect("ran");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(
        stderr.contains("its class ranks it against no other") && !stderr.contains("--ioprio"),
        "{stderr}"
    );
}

#[test]
fn advice_begins_with_the_priorities_that_are_given() {
    let bench = bench();
    let args =
        ["advise", "t.ftrace", "--device", DEVICE, "--ios", "1500", "--ioprio", "writer=be:6"];
    let report = bench.stdout(&[&args[..], &["--output-format", "json"]].concat());
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["captured"]["ioprio"], serde_json::json!({ "writer-1002": "be:6" }));
    let all = report["proposals"].as_array().expect("proposals").iter().chain([&report["nearest"]]);
    for one in all.filter(|one| !one.is_null()) {
        let options = one["options"].as_str().expect("options");
        assert!(options.contains("--ioprio 'writer-1002="), "{options}");
        let is_step = one["changes"].to_string().contains("\"priority\"");
        assert_eq!(is_step, !options.contains("writer-1002=be:6"), "{one}");
    }
    let text = bench.stdout(&args);
    assert!(text.replace("\n  ", " ").contains("writer-1002 at best effort 6"), "{text}");
}
