//! Tests what `inspect` and `replay` take of a trace: windows of time, processes, cgroups; and what
//! a replay says that it does not keep.

use serde_json::Value;

use crate::common::{Bench, kernel_truth};

/// Four processes of fio, for five seconds.
fn trace() -> String {
    kernel_truth("whatif/mq-deadline.ftrace.zst").to_str().expect("UTF-8").to_owned()
}

fn json(bench: &Bench, args: &[&str]) -> Value {
    let args = [args, &["--output-format", "json"]].concat();
    serde_json::from_str(&bench.stdout(&args)).expect("JSON")
}

fn bios(report: &Value) -> u64 {
    report["bios"]
        .as_object()
        .expect("groups")
        .values()
        .map(|group| group["count"].as_u64().expect("a count"))
        .sum()
}

#[test]
fn windows_of_a_real_trace_add_up() {
    let bench = Bench::new();
    let trace = trace();
    let all = json(&bench, &["inspect", &trace]);
    let parts: Vec<Value> =
        [&["--until", "1500ms"][..], &["--from", "1500ms", "--until", "3s"], &["--from", "3s"]]
            .iter()
            .map(|window| json(&bench, &[&["inspect", &trace][..], window].concat()))
            .collect();
    assert_eq!(parts.iter().map(bios).sum::<u64>(), bios(&all));
    let sum =
        |key: &str| parts.iter().map(|part| part[key].as_u64().expect("a number")).sum::<u64>();
    assert_eq!(sum("duration_ns"), all["duration_ns"].as_u64().expect("a number"));
    let busy = |report: &Value| report["utilisation"]["exact_ns"].as_u64().expect("a number");
    assert_eq!(parts.iter().map(busy).sum::<u64>(), busy(&all), "{}", all["utilisation"]);
    assert_eq!(parts[1]["selected"]["from_ns"], 1_500_000_000_u64);
    assert_eq!(
        (&all["selected"], &all["trace_start_ns"]),
        (&Value::Null, &parts[2]["trace_start_ns"])
    );
    assert_eq!(
        parts[1]["not_followed"]["completions_without_beginning"], 0,
        "what was under way is known"
    );
}

#[test]
fn processes_of_a_real_trace_add_up() {
    let bench = Bench::new();
    let trace = trace();
    let all = json(&bench, &["inspect", &trace]);
    let rows = all["processes"].as_array().expect("processes");
    let mut sum = 0;
    for row in rows {
        let id = row["id"].to_string();
        let part = json(&bench, &["inspect", &trace, "--process", &id]);
        assert_eq!(part["processes"].as_array().expect("rows").len(), 1);
        assert_eq!(part["processes"][0], *row);
        assert_eq!(
            (&part["depth"], &part["utilisation"]),
            (&all["depth"], &all["utilisation"]),
            "of all I/O"
        );
        assert_eq!(part["findings"], all["findings"], "of all I/O");
        assert!(part["selected"]["of_all_io"].as_array().expect("keys").contains(&"depth".into()));
        sum += bios(&part);
    }
    assert_eq!(sum, bios(&all));
    let named = json(&bench, &["inspect", &trace, "--process", "fio"]);
    assert_eq!(named["bios"], all["bios"]);
}

#[test]
fn every_report_says_what_was_selected() {
    let bench = Bench::new();
    let trace = trace();
    let args = [
        "inspect",
        &trace,
        "--from",
        "1s",
        "--until",
        "2s",
        "--process",
        "fio-29246",
        "--html",
        "page.html",
    ];
    let text = bench.stdout(&[&args[..], &["--requests", "rows.csv"]].concat());
    for part in [
        "selected: from 1s until 2s, process fio-29246 (of all I/O there:",
        "Findings, of all I/O:",
        "Depth in device, of all I/O",
        "Utilisation (%util), of all I/O:",
        "Not shown: waits before an I/O is queued, above the block layer: limits of io.max,",
    ] {
        assert!(text.replace("\n  ", " ").contains(part), "{part}: {text}");
    }
    let page = std::fs::read_to_string(bench.path("page.html")).expect("a page");
    assert!(page.contains("<b>Selected: </b>from 1s until 2s, process fio-29246"));
    assert!(page.contains("Far out: selected requests in the device"));
    let rows = std::fs::read_to_string(bench.path("rows.csv")).expect("rows");
    let found = json(&bench, &args[..8]);
    let completed = found["requests"]["read"]["completed"].as_u64().expect("a count");
    assert_eq!(rows.lines().count() as u64, 1 + completed, "{}", found["requests"]);
    assert!(rows.lines().skip(1).all(|row| row.contains("29246")));
    let all = bench.stdout(&["inspect", &trace]);
    assert!(
        !all.contains("selected:")
            && !all.contains("of all I/O")
            && all.contains("Not shown: waits before"),
        "{all}"
    );
}

/// Requests alone do not show what comes before they are issued.
#[test]
fn what_is_not_shown_depends_on_the_trace() {
    let bench = Bench::new();
    bench.file(
        "issued.txt",
        "a-1 [000] ..... 1.000005: block_rq_issue: 8,0 R 8192 () 5000 + 16 [a]\n\
         a-1 [000] ..... 1.000500: block_rq_complete: 8,0 R () 5000 + 16 [0]\n",
    );
    let report = json(&bench, &["inspect", "issued.txt"]);
    assert_eq!(report["not_shown"]["before"], "issued");
    let waits = report["not_shown"]["waits"].as_array().expect("waits");
    assert!(
        waits.contains(&"limits of io.max".into()) && waits.contains(&"the I/O scheduler".into()),
        "{waits:?}"
    );
    let queued = json(&bench, &["inspect", &trace()]);
    assert_eq!(queued["not_shown"]["before"], "queued");
    assert!(!queued["not_shown"].to_string().contains("scheduler"), "{}", queued["not_shown"]);
}

#[test]
fn a_replay_does_what_is_selected() {
    let bench = Bench::new();
    let trace = trace();
    let args = [
        "replay",
        &trace,
        "--device",
        "null",
        "--from",
        "1s",
        "--until",
        "2s",
        "--process",
        "29246",
    ];
    let found = json(&bench, &args);
    assert_eq!(found["jobs"].as_array().expect("jobs").len(), 1);
    let done = found["jobs"][0]["read"]["total_ios"].as_u64().expect("a count");
    let inspected =
        json(&bench, &["inspect", &trace, "--from", "1s", "--until", "2s", "--process", "29246"]);
    assert_eq!((done, inspected["bios"]["read"]["count"].as_u64()), (done, Some(done)));
    let selected = found["elevon"]["config"]["selected"].as_str().expect("a row");
    assert!(
        selected.starts_with(&format!("from 1s until 2s, process 29246: {done} of ")),
        "{selected}"
    );
    let command = found["elevon"]["command"].as_str().expect("a command");
    assert!(command.contains("--from 1s --until 2s --process 29246"), "{command}");
}

#[test]
fn a_selection_of_nothing_is_one_line() {
    let bench = Bench::new();
    let trace = trace();
    for (more, said) in [
        (
            &["--from", "2"][..],
            "--from 2: expected a time with its unit since the first event of the device",
        ),
        (&["--from", "3s", "--until", "2s"], "--until 2s: expected a time after --from 3s"),
        (&["--from", "100s"], ": no I/O from 100s; the last is at "),
        (&["--process", "fios"], ": no process fios (did you mean `fio`?); there are fio-29246, "),
        (&["--process", "fio-2924"], "(did you mean `fio-29246`?)"),
        (&["--cgroup", "77"], ": no I/O of cgroup 77: its events name no cgroups"),
        (
            &["--cgroup", "/no/such"],
            "--cgroup /no/such: expected the id that events have, such as 42, or the folder",
        ),
    ] {
        for command in ["inspect", "replay"] {
            let output = bench
                .elevon(&[&[command, &trace][..], more].concat())
                .output()
                .expect("the command ran");
            let stderr = String::from_utf8(output.stderr).expect("UTF-8");
            assert_eq!(output.status.code(), Some(2), "{command} {more:?}: {stderr}");
            assert_eq!((stderr.lines().count(), output.stdout.len()), (1, 0), "{stderr}");
            assert!(stderr.contains(said), "{command} {more:?}: {stderr}");
        }
    }
}

/// Returns the properties that a replay says it does not keep, with why.
fn not_kept(bench: &Bench, trace: &str, more: &[&str]) -> Vec<(String, String)> {
    let report = json(bench, &[&["replay", trace, "--device", "nvme-datacenter"], more].concat());
    let all = report["elevon"]["not_kept"].as_array().cloned().unwrap_or_default();
    let text = |one: &Value, key: &str| one[key].as_str().expect("a text").to_owned();
    all.iter().map(|one| (text(one, "property"), text(one, "why"))).collect()
}

#[test]
fn a_replay_says_what_it_does_not_keep_of_this_trace() {
    let bench = Bench::new();
    let names =
        |found: Vec<(String, String)>| found.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    // A bio of 512 KiB is cut after 84 KiB, as by max_segments, and one of 1 MiB at the limit; a
    // read ahead; a write that failed; one that the driver gave back.
    let text = "\
  a-11 [000] ..... 1.000000: block_bio_queue: 8,0 R 0 + 1024 [a]
  a-11 [000] ..... 1.000001: block_split: 8,0 R 0 / 168 [a]
  a-11 [000] ..... 1.000002: block_bio_queue: 8,0 R 4096 + 2048 [a]
  a-11 [000] ..... 1.000003: block_split: 8,0 R 4096 / 5120 [a]
  a-11 [000] ..... 1.000004: block_bio_queue: 8,0 RA 9000 + 8 [a]
  a-11 [000] ..... 1.000005: block_bio_queue: 8,0 WS 9100 + 8 [a]
  a-11 [000] ..... 1.000006: block_rq_issue: 8,0 WS 4096 () 9100 + 8 [a]
  a-11 [000] ..... 1.000007: block_rq_requeue: 8,0 WS () 9100 + 8 [0]
  a-11 [000] ..... 1.000008: block_rq_issue: 8,0 WS 4096 () 9100 + 8 [a]
  a-11 [000] ..... 1.000500: block_rq_complete: 8,0 WS () 9100 + 8 [-5]
";
    bench.file("all.txt", text);
    let found = not_kept(&bench, "all.txt", &[]);
    assert!(found[0].1.starts_with("1 of 2 splits came before the limit of 512KiB"), "{found:?}");
    assert!(found[1].1.starts_with("1 read ahead came from it"), "{found:?}");
    assert!(found[2].1.starts_with("1 request failed in the trace"), "{found:?}");
    assert_eq!(names(found), ["splits", "page cache", "errors", "requeues"]);
    assert_eq!(
        names(not_kept(&bench, "all.txt", &["--buffers", "fragmented"])),
        ["page cache", "errors", "requeues"]
    );
    let report = bench.stdout(&["replay", "all.txt"]);
    assert!(report.contains("Not kept of the trace: splits: 1 of 2 splits"), "{report}");
    // Each is said only of a trace that has it.
    let plain: String = text
        .lines()
        .filter(|line| line.contains("WS"))
        .map(|line| line.replace("-5", "0") + "\n")
        .collect();
    bench.file(
        "plain.txt",
        plain.lines().filter(|line| !line.contains("requeue")).collect::<Vec<_>>().join("\n"),
    );
    assert_eq!(not_kept(&bench, "plain.txt", &[]), []);
    // 100,000 I/Os a second, of which BFQ takes 7.55 us each.
    let fast: String = (0..200)
        .map(|n| {
            format!("a-11 [000] ..... 1.{:06}: block_bio_queue: 8,0 R {} + 8 [a]\n", 10 * n, 8 * n)
        })
        .collect();
    bench.file("fast.txt", fast);
    let found = not_kept(&bench, "fast.txt", &["--scheduler", "bfq"]);
    assert!(
        matches!(&found[..], [(name, why)] if name == "CPU time" && why.contains("7.55us of each I/O")),
        "{found:?}"
    );
    assert_eq!(not_kept(&bench, "fast.txt", &["--scheduler", "none"]), []);
}
