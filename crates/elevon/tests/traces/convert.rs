//! Tests `elevon convert`: what is written in another format is the same trace.

use std::path::Path;

use crate::common::{Bench, kernel_truth};
use elevon_testkit::tool;
use serde_json::Value;

/// Formats that keep every event of a real trace, of those that are read back.
const WHOLE: [&str; 4] = ["ftrace", "perfetto-trace", "csv", "blktrace"];

fn inspect(bench: &Bench, trace: &str, more: &[&str]) -> Value {
    let args = [&["inspect", trace, "--output-format", "json"], more].concat();
    serde_json::from_str(&bench.stdout(&args)).expect("JSON")
}

/// Returns the events by kind that every format can hold: blktrace has no accounting events, and
/// ftrace's plugs name no device.
fn events(found: &Value) -> Vec<(String, u64)> {
    let of = |key: &str| found[key].as_object().expect("an object").clone();
    let all = of("events").into_iter().chain(of("events_without_device"));
    let mut counts: Vec<(String, u64)> =
        all.filter_map(|(kind, count)| Some((kind, count.as_u64()?))).collect();
    counts.retain(|(kind, count)| {
        *count > 0 && !matches!(&kind[..], "io_start" | "io_done" | "plug" | "unplug")
    });
    counts.sort();
    counts
}

#[test]
fn a_real_trace_is_the_same_in_every_format() {
    for (source, dev) in [
        ("traces/pgbench-ext4-mq-deadline-excerpt.ftrace", "7:3"),
        ("traces/mixed-mq-deadline-excerpt.perfetto-trace", "7:7"),
        ("traces/mixed.perf-script.txt.zst", "7:7"),
        ("blktrace-6.1/dd-mq-deadline.blktrace.0", "253:0"),
    ] {
        let bench = Bench::new();
        let source = kernel_truth(source);
        let source = source.to_str().expect("a name");
        let expected = inspect(&bench, source, &["--dev", dev]);
        for format in WHOLE {
            let name = format!("made.{format}");
            let said = bench.stdout(&["convert", source, &name, "--dev", dev]);
            assert!(said.starts_with(&format!("{name}: ")), "{said}");
            let found = inspect(&bench, &name, &["--dev", dev]);
            assert_eq!(events(&found), events(&expected), "{source} as {format}");
            let total = |of: &Value| of["latency"]["read"]["request_total"]["count"].clone();
            assert_eq!(total(&found), total(&expected), "{source} as {format}");
        }
        // Back from one into the other, through the standard input.
        let text = std::fs::read(bench.path("made.csv")).expect("a file");
        bench.elevon(&["convert", "-", "back.ftrace"]).write_stdin(text).assert().success();
        assert_eq!(
            events(&inspect(&bench, "back.ftrace", &["--dev", dev])),
            events(&expected),
            "{source}"
        );
    }
}

/// Plugs have no device in ftrace. Records of blktrace with device 0:0 in their place were those of
/// a second device, among which one had to be chosen.
#[test]
fn plugs_without_a_device_are_no_device_of_a_blktrace() {
    let bench = Bench::new();
    let source = kernel_truth("whatif/mq-deadline.ftrace.zst");
    let source = source.to_str().expect("a name");
    bench.stdout(&["convert", source, "made.blktrace"]);
    assert_eq!(
        events(&inspect(&bench, "made.blktrace", &[])),
        events(&inspect(&bench, source, &[]))
    );
}

#[test]
fn an_iolog_has_what_was_submitted() {
    let bench = Bench::new();
    let source = kernel_truth("traces/pgbench-ext4-mq-deadline-excerpt.ftrace");
    let source = source.to_str().expect("a name");
    let said = bench.stdout(&["convert", source, "made.iolog"]);
    assert!(said.starts_with("made.iolog: made of ") && said.contains(" events of "), "{said}");
    let expected = inspect(&bench, source, &[]);
    let found = inspect(&bench, "made.iolog", &[]);
    assert_eq!(found["device_name"], "/dev/block/7:3");
    for group in ["read", "write"] {
        let bytes = |of: &Value| of["bios"][group]["bytes"].clone();
        assert_eq!(bytes(&found), bytes(&expected), "{group}");
    }
    // What it does not have is not there, and is not zero.
    for key in ["utilisation", "depth", "splits", "merges", "errors"] {
        assert!(found[key].is_null() && !expected[key].is_null(), "{key}");
    }
    assert!(found["timeline"]["busy_ns"].is_null() && found["timeline"]["queued"].is_array());
    let text = bench.stdout(&["inspect", "made.iolog"]);
    assert!(
        !text.contains("Utilisation") && !text.contains("splits 0") && !text.contains("0.0 %"),
        "{text}"
    );
}

#[test]
fn blkparse_reads_what_is_converted() {
    let Some(mut blkparse) = tool("blkparse") else { return };
    let bench = Bench::new();
    let source = kernel_truth("traces/mixed-mq-deadline-excerpt.perfetto-trace");
    let source = source.to_str().expect("a name");
    bench.stdout(&["convert", source, "made.blktrace", "--dev", "7:7"]);
    let run = blkparse.args(["-i", "made"]).current_dir(bench.path("")).output();
    let text = String::from_utf8(run.expect("it ran").stdout).expect("UTF-8");
    let expected = inspect(&bench, source, &["--dev", "7:7"]);
    for (letter, kind) in [("Q", "queue"), ("D", "issue"), ("C", "complete")] {
        let lines =
            text.lines().filter(|line| line.split_whitespace().nth(5) == Some(letter)).count();
        assert_eq!(lines as u64, expected["events"][kind].as_u64().expect("a count"), "{kind}");
    }
}

/// The first events of a trace may have no process and no priority, and be of few CPUs.
#[test]
fn what_only_late_events_have_is_kept() {
    let bench = Bench::new();
    let line = |n: u32, middle: &str, prio: &str| {
        format!("a-1 {middle} ..... {n}.000001: block_rq_issue: 8,0 R 4096 () 8 + 8 {prio}[a]\n")
    };
    let early: String = (0..20_000).map(|n| line(n, "(-------) [000]", "")).collect();
    bench.file("late.txt", &(early + &line(20_000, "(      9) [003]", "rt,0,3 ")));
    bench.stdout(&["convert", "late.txt", "made.ftrace"]);
    let text = std::fs::read_to_string(bench.path("made.ftrace")).expect("a file");
    let last = text.lines().last().expect("a line");
    assert!(last.contains("(      9) [003]") && last.contains(" rt,0,3 ["), "{last}");
    assert!(text.contains("#P:4"), "{}", text.lines().nth(2).unwrap_or_default());
}

/// blktrace has fewer bits for the number of a volume than some traces of volumes need.
#[test]
fn a_volume_that_a_blktrace_cannot_name_is_refused() {
    let bench = Bench::new();
    bench.file("one.csv", "5000000,R,0,4096,1577808000000000\n");
    let output = bench.elevon(&["convert", "one.csv", "made.blktrace"]).output().expect("it ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("0:5000000"), "{stderr}");
    assert_eq!(bench.names(), ["one.csv"]);
}

#[test]
fn what_cannot_be_converted_is_refused() {
    let bench = Bench::new();
    bench.file("one.txt", "a-1 [000] 1.000001: block_bio_queue: 8,0 R 8 + 8 [a]\n");
    for (args, expected) in [
        (vec!["one.txt", "x.txt"], "elevon: x.txt: a trace that is written ends in .ftrace, "),
        (
            vec!["one.txt", "no/x.csv"],
            "elevon: no/x.csv: cannot write there: No such file or directory\n",
        ),
        (
            vec!["one.txt", "x.csv", "--dev", "9:9"],
            "elevon: one.txt: it has no event of device 9:9; there are 8:0\n",
        ),
        (vec!["nothing", "x.csv"], "elevon: nothing: No such file"),
        (vec!["one.txt", "one.txt"], "elevon: one.txt: "),
    ] {
        let output = bench.elevon(&[&["convert"], &args[..]].concat()).output().expect("it ran");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (output.status.code(), stderr.starts_with(expected)),
            (Some(2), true),
            "{stderr}"
        );
    }
    std::fs::rename(bench.path("one.txt"), bench.path("one.ftrace")).expect("a new name");
    let output = bench.elevon(&["convert", "one.ftrace", "one.ftrace"]).output().expect("it ran");
    assert_eq!(output.status.code(), Some(2), "a trace is not written over itself");
    assert_eq!(bench.names(), ["one.ftrace"], "nothing is left behind");
    assert!(Path::new(&bench.path("one.ftrace")).metadata().expect("a file").len() > 0);
}

/// The trace of a run in each format, made by the same events.
#[test]
fn a_run_is_traced_in_every_format() {
    let bench = Bench::new();
    bench.file(
        "job.fio",
        "[job]\nrw=randrw\nsize=1m\nfsync=16\niodepth=4\nioengine=libaio\ndirect=1\n",
    );
    for format in WHOLE {
        bench.stdout(&[
            "run",
            "job.fio",
            "--device",
            "sata-ssd-860evo",
            "--trace",
            &format!("made.{format}"),
        ]);
    }
    let expected = events(&inspect(&bench, "made.ftrace", &[]));
    assert!(expected.len() >= 4, "{expected:?}");
    for format in WHOLE {
        assert_eq!(events(&inspect(&bench, &format!("made.{format}"), &[])), expected, "{format}");
    }
    for format in ["parquet", "iolog"] {
        let name = format!("made.{format}");
        bench.stdout(&["run", "job.fio", "--trace", &name]);
        assert!(bench.path(&name).metadata().expect("a file").len() > 0, "{format}");
    }
}
