//! Tests `elevon twin`: what it writes is what the other commands read.

use elevon_testkit::twin_kernels;
use serde_json::Value;

use crate::common::Bench;

/// Reads and writes on a disk without a file system, and its flush.
const PROGRAM: [&str; 3] = [
    "sh",
    "-c",
    "dd if=/dev/vda of=/dev/null bs=8k count=40 iflag=direct && \
     dd if=/dev/zero of=/dev/vda bs=4k count=60 oflag=direct conv=fsync",
];

/// Runs `elevon twin` with these arguments and the program. Returns what it wrote.
fn twin(bench: &Bench, kernels: &std::path::Path, args: &[&str]) -> (String, String) {
    let args =
        [&["twin"], args, &["--fs", "none", "--device", "nvme-consumer", "--"], &PROGRAM].concat();
    let output = bench.elevon(&args).env("ELEVON_TWIN", kernels).output().expect("the command ran");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    (out, err)
}

#[test]
fn the_kernels_events_are_a_trace_that_is_analysed_and_replayed() {
    let Some(kernels) = twin_kernels() else { return };
    let bench = Bench::new();
    twin(&bench, &kernels, &["--trace", "t.ftrace", "--html", "t.html", "--set", "scheduler=bfq"]);
    let found = bench.stdout(&["inspect", "t.ftrace", "--output-format", "json"]);
    let found: Value = serde_json::from_str(&found).expect("JSON");
    for (kind, count) in [("read", 40), ("write", 60)] {
        assert_eq!(found["latency"][kind]["request_total"]["count"], count, "{kind}: {found}");
    }
    let text = std::fs::read_to_string(bench.path("t.ftrace")).expect("a file");
    assert!(text.contains("# queue/scheduler: none mq-deadline kyber [bfq]"), "{text}");
    let replayed = bench.stdout(&["replay", "t.ftrace", "--output-format", "json"]);
    let replayed: Value = serde_json::from_str(&replayed).expect("JSON");
    let jobs = replayed["jobs"].as_array().expect("jobs");
    let ios =
        |kind: &str| jobs.iter().filter_map(|job| job[kind]["total_ios"].as_u64()).sum::<u64>();
    assert_eq!((ios("read"), ios("write")), (40, 60), "{replayed}");
    assert!(jobs.iter().all(|job| job["jobname"].as_str().is_some_and(|of| of.starts_with("dd-"))));
    let page = std::fs::read_to_string(bench.path("t.html")).expect("a file");
    assert!(page.contains("<figure") && page.contains("nvme-consumer"), "{page}");
}

#[test]
fn variants_are_compared_in_one_table() {
    let Some(kernels) = twin_kernels() else { return };
    let bench = Bench::new();
    let variants = ["--vs", "--device hdd-7200 --set scheduler=none", "--vs", "--seed 2"];
    let (table, said) = twin(&bench, &kernels, &[&["compare"], &variants[..]].concat());
    let rows: Vec<&str> = table.lines().filter(|line| line.contains(" 0  ")).collect();
    assert_eq!(rows.len(), 3, "{table}");
    assert!(rows[1].contains("B: --device hdd-7200 --set scheduler=none"), "{table}");
    assert!(said.contains("A: 40+0 records in") && said.contains("C: "), "{said}");
    for bad in [["--vs", "--devise x"], ["--vs", "--device x"], ["--vs", "--kernel 1.0"]] {
        let args = [&["twin", "compare"], &bad[..], &["--", "true"]].concat();
        let output = bench.elevon(&args).env("ELEVON_TWIN", &kernels).output().expect("it ran");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(bad[1]), "{said}");
    }
}
