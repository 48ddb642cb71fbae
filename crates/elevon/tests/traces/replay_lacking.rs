//! Tests the warning of what a scheduler decides by and a trace does not have: I/O priorities,
//! processes, and whether a write is waited for.

use crate::common::Bench;
use serde_json::Value;

/// Two processes with priorities, and one without a process, a priority or a flag.
fn bench() -> Bench {
    let bench = Bench::new();
    let job = "[global]\ndirect=1\nbs=64k\nsize=1m\n[a]\nrw=read\nprioclass=2\nprio=0\n[b]\nrw=write\noffset=1m\n";
    bench.file("job.fio", job);
    bench.stdout(&["run", "job.fio", "--device", "hdd-7200", "--trace", "whole.ftrace"]);
    bench.stdout(&["convert", "whole.ftrace", "plain.blktrace"]);
    let record = |n: u64| {
        format!("{},host,0,Write,{},65536,10000\n", 128_166_372_003_061_629 + n * 100_000, n << 20)
    };
    bench.file("volume.csv", (0..200).map(record).collect::<String>());
    bench
}

/// Returns the lines of stderr, and those of the report, that say what a trace lacks.
fn said(bench: &Bench, args: &[&str]) -> (Vec<String>, Vec<String>) {
    let output = bench
        .elevon(&[args, &["--output-format", "json"]].concat())
        .output()
        .expect("the command ran");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.status.success(), "{args:?}: {stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let warnings =
        report.pointer("/elevon/warnings").or_else(|| report.get("warnings")).expect("warnings");
    let is_wanted = |line: &String| line.contains("decides by them");
    let lines = |text: &Value| text.as_str().expect("a text").to_owned();
    let reported =
        warnings.as_array().expect("an array").iter().map(lines).filter(is_wanted).collect();
    (stderr.lines().map(str::to_owned).filter(is_wanted).collect(), reported)
}

#[test]
fn a_replay_warns_of_what_its_scheduler_reads_and_the_trace_lacks() {
    let bench = bench();
    let cases: [(&str, &[&str], Option<&str>); 9] = [
        ("whole.ftrace", &["bfq"], None),
        ("plain.blktrace.0", &["none"], None),
        ("plain.blktrace.0", &["kyber"], None),
        (
            "plain.blktrace.0",
            &["mq-deadline"],
            Some(
                "has no I/O priorities, and mq-deadline decides by them: here all processes count as equals",
            ),
        ),
        ("plain.blktrace.0", &["mq-deadline", "--kernel", "5.10"], None),
        ("plain.blktrace.0", &["bfq"], Some("has no I/O priorities, and bfq decides by them")),
        ("volume.csv", &["none"], None),
        (
            "volume.csv",
            &["kyber"],
            Some("has no flags that tell whether a write is waited for, and kyber"),
        ),
        (
            "volume.csv",
            &["bfq"],
            Some(
                "has no processes, I/O priorities and flags that tell whether a write is waited for, and bfq decides by them: here all I/O counts as one process's and no write counts as waited for",
            ),
        ),
    ];
    for (trace, scheduler, wanted) in cases {
        let args = [&["replay", trace, "--device", "hdd-7200", "--scheduler"], scheduler].concat();
        let (stderr, reported) = said(&bench, &args);
        assert_eq!(
            (stderr.len(), reported.len()),
            (usize::from(wanted.is_some()), usize::from(wanted.is_some())),
            "{args:?}: {stderr:?}"
        );
        let wanted = wanted.unwrap_or_default();
        assert!(
            stderr.iter().chain(&reported).all(|line| line.contains(wanted)),
            "{args:?}: {stderr:?}"
        );
    }
}

/// The lines of a comparison come once for each scheduler that reads what is missing.
#[test]
fn a_comparison_and_advice_warn_too() {
    let bench = bench();
    let args = [
        "compare",
        "plain.blktrace.0",
        "--device",
        "hdd-7200",
        "--scheduler",
        "none",
        "--vs",
        "--scheduler bfq",
    ];
    let output = bench.elevon(&args).output().expect("the command ran");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    let lines: Vec<&str> = stderr.lines().filter(|line| line.contains("decides by them")).collect();
    assert!(
        matches!(lines[..], [one] if one.contains("--scheduler bfq: ") && one.contains("I/O priorities")),
        "{stderr}"
    );
    let (stderr, reported) = said(&bench, &["advise", "volume.csv", "--device", "hdd-7200"]);
    assert_eq!((stderr.len(), reported.len()), (1, 1), "{stderr:?}");
    assert!(reported[0].contains("mq-deadline or kyber or bfq decides by them"), "{reported:?}");
}
