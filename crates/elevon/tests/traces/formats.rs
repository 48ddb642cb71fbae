//! Tests the formats of traces as commands read them: samples, mails, devices by their names.

use std::path::Path;

use crate::common::Bench;
use elevon_trace::TraceFormat;
use serde_json::Value;

/// Returns the path of a sample in `tests/data/formats`.
fn sample(name: &str) -> String {
    format!("{}/../../tests/data/formats/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command that may fail: its exit code, stdout and stderr.
fn output(bench: &Bench, args: &[&str]) -> (Option<i32>, String, String) {
    let output = bench.elevon(args).output().expect("the command ran");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn inspected(bench: &Bench, trace: &str, more: &[&str]) -> Value {
    let args = [&["inspect", trace, "--output-format", "json"], more].concat();
    serde_json::from_str(&bench.stdout(&args)).expect("JSON")
}

/// Every sample but those of caches and FIU shows the same requests: three reads, two of them of
/// 8 KiB, with the same latencies.
#[test]
fn samples_have_the_same_reads() {
    let bench = Bench::new();
    for (name, dev) in [
        ("biosnoop.txt", None),
        ("biosnoop-queued.txt", Some("vda")),
        ("iosnoop-perf-tools.txt", None),
        ("iosnoop-dtrace.txt", None),
        ("lttng.txt", None),
        ("xperf.csv", Some("disk0")),
        ("wpa.csv", None),
        ("diskmon.txt", None),
        ("systrace.html", None),
        ("systrace-zlib.html", None),
        ("ftrace.txt.xz", None),
    ] {
        let more = dev.map(|dev| vec!["--dev", dev]).unwrap_or_default();
        let text = bench.stdout(&[&["inspect", &sample(name)], &more[..]].concat());
        let row =
            text.lines().find(|line| line.starts_with("read D2C issued to completed")).expect(name);
        let words: Vec<&str> = row.split_whitespace().skip(5).collect();
        assert_eq!(
            (words[0], words[1], *words.last().expect("a word")),
            ("3", "410us", "2.50ms"),
            "{name}: {row}"
        );
    }
}

/// What a cache's trace says can be inspected; where it has no places it cannot be replayed.
#[test]
fn traces_of_caches_say_what_is_unknown() {
    let bench = Bench::new();
    let oracle = sample("cache.oracleGeneral");
    let found = inspected(&bench, &oracle, &[]);
    assert_eq!(found["trace"]["format"], "oracle-general");
    let notes = found["trace"]["notes"].to_string();
    assert!(notes.contains("no sector") && notes.contains("read or a write"), "{notes}");
    let (code, _, stderr) = output(&bench, &["replay", &oracle]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("there is no queue or issue event"), "{stderr}");
    assert!(bench.stdout(&["replay", &sample("cache.csv")]).contains("read"));
}

/// The three mails of the cases, and one that is no trace.
#[test]
fn traces_in_mails_are_read() {
    let bench = Bench::new();
    let wrapped = "\
> fio-1201 [000] ..... 12.000100: block_rq_issue: 8,0 R 4096 ()
> 2048 + 8 [fio]
> <idle>-0 [000] ..s1. 12.000300: block_rq_complete: 8,0 R () 2048 + 8
> [0]
";
    let quoted = "\
>   8,0    0        3     0.000002000  1201  D   R 2048 + 8 [fio]
>   8,0    0        4     0.000202000     0  C   R 2048 + 8 [0]
";
    let numbered = "\
  2:   8,0    0        3     0.000002000  1201  D   R 2048 + 8 [fio]
  3:   8,0    0        4     0.000202000     0  C   R 2048 + 8 [0]     <-- 200 us
";
    for (name, text, format) in
        [("a", wrapped, "ftrace"), ("b", quoted, "blkparse"), ("c", numbered, "blkparse")]
    {
        bench.file(name, text);
        let found = inspected(&bench, name, &[]);
        assert_eq!(found["trace"]["format"], format);
        assert!(found["trace"]["notes"].to_string().contains("as in a mail"));
        assert!(bench.stdout(&["inspect", name]).contains("200us"), "{name}");
    }
    bench.file("none", "> 8,0 is my disk, D R it\n> and it is slow\n");
    let (code, _, stderr) = output(&bench, &["inspect", "none"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("quoted") && !stderr.contains("blkparse -f"), "{stderr}");
}

#[test]
fn a_device_is_chosen_by_its_name() {
    let bench = Bench::new();
    let trace = sample("biosnoop-queued.txt");
    for name in ["loop2", "/dev/loop2", "0:1"] {
        assert_eq!(inspected(&bench, &trace, &["--dev", name])["trace"]["events"], 3, "{name}");
        bench.stdout(&["convert", &trace, "one.csv", "--dev", name]);
        assert_eq!(
            std::fs::read_to_string(bench.path("one.csv")).expect("a file").lines().count(),
            4
        );
        assert!(bench.stdout(&["replay", &trace, "--dev", name]).contains("jbd2/vda2-8"));
    }
    let listed = "it names no device loop9; there are 0:0 vda (15 events), 0:1 loop2 (3 events)";
    for words in [&["inspect"][..], &["replay"], &["calibrate"], &["advise"], &["convert"]] {
        let out = if words == ["convert"] { &["none.csv"][..] } else { &[] };
        let args = [words, &[&trace[..]], out, &["--dev", "loop9"]].concat();
        let (code, _, stderr) = output(&bench, &args);
        assert_eq!((code, stderr.contains(listed)), (Some(2), true), "{words:?}: {stderr}");
    }
    assert!(!Path::new(&bench.path("none.csv")).exists());
}

#[test]
fn formats_are_listed_and_shown() {
    let bench = Bench::new();
    let list = bench.stdout(&["formats"]);
    for format in TraceFormat::ALL {
        assert!(list.contains(format.description()), "{}", format.name());
        assert!(bench.stdout(&["formats", format.name()]).contains(format.lacks()));
    }
    let (code, _, stderr) = output(&bench, &["formats", "snop"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("did you mean `snoop`?"), "{stderr}");
}
