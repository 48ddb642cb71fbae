//! Runs every command that reads a trace on hostile ones: sectors and lengths at the ends of their
//! ranges, and times that are centuries apart. Each gives a report, or one clear line.

use crate::common::Bench;

/// The traces of the fuzzer's corpus, and one whose device is dead for centuries.
fn traces() -> Vec<std::path::PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/analysis");
    let entries = std::fs::read_dir(folder).expect("the corpus is committed");
    let mut all: Vec<_> =
        entries.map(|entry| entry.expect("a readable directory").path()).collect();
    all.retain(|path| path.extension().is_some());
    all.sort();
    all
}

#[test]
fn hostile_traces_give_a_report_or_one_line() {
    let bench = Bench::new();
    let mut reports = 0;
    let traces = traces();
    assert!(traces.len() >= 3, "{traces:?}");
    for trace in &traces {
        let trace = trace.to_str().expect("a path in UTF-8");
        for command in [
            &["inspect", trace, "--html", "page.html", "--requests", "requests.csv"][..],
            &["inspect", trace, "--output-format", "json"],
            &["replay", trace],
            &["replay", trace, "--closed"],
            &["replay", trace, "--closed", "--time-based"],
            &["replay", trace, "--speed", "0.001"],
            &["calibrate", trace],
            &["advise", trace],
        ] {
            let output = bench.elevon(command).output().expect("the command ran");
            let said = String::from_utf8_lossy(&output.stderr);
            match output.status.code() {
                Some(0) => reports += 1,
                Some(2) => assert!(
                    said.lines().any(|line| line.starts_with("elevon: ")),
                    "{command:?}: {said}"
                ),
                other => panic!("{command:?}: exit code {other:?}: {said}"),
            }
            for file in ["page.html", "requests.csv"] {
                let _ = std::fs::remove_file(bench.path(file));
            }
        }
    }
    assert!(reports >= 2 * traces.len(), "{reports} reports of {} traces", traces.len());
}

#[test]
fn a_trace_of_centuries_is_not_replayed() {
    let bench = Bench::new();
    let trace = traces()
        .into_iter()
        .find(|path| path.ends_with("far-apart.ftrace"))
        .expect("it is in the corpus");
    let output = bench
        .elevon(&["replay", trace.to_str().expect("UTF-8")])
        .output()
        .expect("the command ran");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("its I/Os span 584 years, and a replay takes at most 100"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
