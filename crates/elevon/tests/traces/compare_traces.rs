//! Tests `elevon compare` of a trace: the results of `elevon replay` on each stack, side by side.

use std::path::PathBuf;

use crate::common::Bench;
use serde_json::Value;

const SIX_SLOTS: &str = "slots:slots=6,latency=2150us,bandwidth=300MB/s,size=1GiB";

fn data(name: &str) -> String {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/kernel-truth").join(name);
    path.to_str().expect("UTF-8").to_owned()
}

/// Returns the cells of a row of a table, without its name.
fn row<'a>(block: &'a str, name: &str) -> Vec<&'a str> {
    let line = block
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap_or_else(|| panic!("no {name}: {block}"));
    line.split_whitespace().collect()
}

/// Every process has a block, and each column equals the report of a replay on that stack alone.
#[test]
fn each_column_is_a_replay_paired_by_process() {
    let bench = Bench::new();
    let trace = data("whatif/mq-deadline.ftrace.zst");
    let common = ["--closed", "--device", SIX_SLOTS, "--set", "max_sectors_kb=512"];
    let table =
        bench.stdout(&[&["compare", &trace], &common[..], &["--vs", "--scheduler bfq"]].concat());
    let iops = ["none", "bfq"].map(|scheduler| {
        let own = ["--scheduler", scheduler, "--output-format", "json"];
        let found: Value =
            serde_json::from_str(&bench.stdout(&[&["replay", &trace], &common[..], &own].concat()))
                .expect("JSON");
        let jobs = found["jobs"].as_array().expect("jobs").clone();
        jobs.into_iter().map(|job| {
            let of = |direction: &str| job[direction]["iops"].as_f64().expect("a rate");
            (job["jobname"].as_str().expect("a name").to_owned(), of("read") + of("write"))
        })
    });
    let [none, bfq] = iops.map(Iterator::collect::<Vec<_>>);
    assert_eq!(none.len(), 4);
    for ((name, a), (same, b)) in none.iter().zip(&bfq) {
        assert_eq!(name, same);
        let block = table
            .split("\n\n")
            .find(|block| block.starts_with(&format!("job {name} ")))
            .expect("a block");
        let cells = row(block, "IOPS");
        let near = |cell: &str, iops: f64| {
            let shown: f64 = cell.replace(',', "").parse().expect("a number");
            assert!((shown - iops).abs() <= 0.5 + iops / 1000.0, "{name}: {cell}, not {iops}");
        };
        near(cells[0], *a);
        near(cells[1], *b);
        assert_ne!(cells[2], "1.000", "{name}: another scheduler changes something");
    }
}

/// The JSON of a comparison has the same keys for a trace and for a job file, and its figures are
/// those of the reports in it.
#[test]
fn json_has_the_same_shape_for_traces_and_jobs() {
    let bench = Bench::new();
    let trace = data("traces/dd-1028k-direct.ftrace");
    bench.file("job.fio", "[dd]\nrw=read\nbs=1m\nsize=8m\niodepth=4\nioengine=libaio\ndirect=1\n");
    let of = |input: &str| -> Value {
        let args = ["compare", input, "--device", SIX_SLOTS, "--vs", "--set max_sectors_kb=128"];
        serde_json::from_str(&bench.stdout(&[&args[..], &["--output-format", "json"]].concat()))
            .expect("JSON")
    };
    let (of_trace, of_job) = (of(&trace), of("job.fio"));
    let keys =
        |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&of_trace), keys(&of_job));
    for path in ["/jobs/0", "/device", "/variants/1"] {
        let [a, b] = [&of_trace, &of_job].map(|value| keys(value.pointer(path).expect("the key")));
        assert_eq!(a, b, "{path}");
    }
    for compared in [&of_trace, &of_job] {
        for (at, variant) in compared["variants"].as_array().expect("variants").iter().enumerate() {
            let job = &compared["jobs"][0];
            let own = &variant["report"]["jobs"][0]["read"]["iops"];
            assert_eq!(job["iops"]["values"][at].as_f64(), own.as_f64());
            assert_eq!(variant["report"]["jobs"][0]["jobname"], job["jobname"]);
        }
        assert_eq!(compared["settings"]["max_sectors_kb"][1], "128");
        assert!(
            compared["device"]["requests"]["ratios"][1].as_f64() > Some(1.0),
            "smaller requests"
        );
    }
}

/// A trace is accepted by its base name, from standard input, and for a page, and gives the same
/// bytes each time.
#[test]
fn a_trace_is_found_by_its_content() {
    let bench = Bench::new();
    for cpu in 0..2 {
        let name = format!("sda.blktrace.{cpu}");
        let content = std::fs::read(data(&format!("blktrace-6.1/dd-none.blktrace.{cpu}")))
            .expect("the trace");
        bench.file(&name, content);
    }
    let first =
        bench.stdout(&["compare", "sda", "--vs", "--scheduler kyber", "--html", "page.html"]);
    assert_eq!(bench.stdout(&["compare", "sda.blktrace.1", "--vs", "--scheduler kyber"]), first);
    let page = std::fs::read_to_string(bench.path("page.html")).expect("the page");
    assert!(
        page.starts_with("<!doctype html>") && page.contains("--scheduler kyber"),
        "a page of both"
    );

    let trace = data("traces/dd-1028k-direct.ftrace");
    let of_file = bench.stdout(&["compare", &trace, "--vs", "--kernel 6.1"]);
    let mut command = bench.elevon(&["compare", "-", "--vs", "--kernel 6.1"]);
    let output = command.pipe_stdin(&trace).expect("the trace").output().expect("the command ran");
    assert_eq!(String::from_utf8(output.stdout).expect("UTF-8"), of_file);
}

/// A job file stays a job file even if a comment in it quotes a trace.
#[test]
fn a_job_file_stays_a_job_file() {
    let bench = Bench::new();
    let quoted = "# dd-11 [000] ..... 1.000000: block_bio_queue: 8,0 R 0 + 8 [dd]\n; as traced\n\n";
    bench.file("job.fio", format!("{quoted}[quoted]\nrw=randread\nbs=4k\nsize=1m\n"));
    let table = bench.stdout(&["compare", "job.fio", "--vs", "--scheduler kyber"]);
    assert!(table.contains("job quoted "), "{table}");
}

#[test]
fn bad_input_is_one_line() {
    let bench = Bench::new();
    let trace = data("traces/dd-1028k-direct.ftrace");
    bench.file("job.fio", "[a]\nrw=read\nsize=1m\n");
    bench.file("disk.img", vec![0; 1 << 20]);
    for (args, said) in [
        (vec!["missing.txt"], "missing.txt:1:1: cannot read the job file"),
        (vec!["job.fio", "--closed"], "--closed: says how a trace is replayed; job.fio is none"),
        (vec!["job.fio", "--dev", "8:0"], "--dev: says how a trace is replayed"),
        (vec![&trace, "--dev", "9:9"], "no event of device 9:9"),
        (vec![&trace, "--speed", "0"], "--speed 0: expected a number from 0.001 to 1000"),
        (vec![&trace, "--cpu-cost", "submit=1us"], "--cpu-cost submit=1us: the times of a trace"),
        (vec![&trace, "--include-dir", "."], "--include-dir .: a trace has no job file"),
        (
            vec![&trace, "--memory", "1GiB"],
            "--memory 1GiB: the bios of a trace are below the page cache",
        ),
        (vec![&trace, "--vs", "--cache 1GiB"], "--vs '--cache 1GiB'"),
        (
            vec![&trace, "--vs", "--memory 1GiB"],
            "--vs '--memory 1GiB': --memory 1GiB: the bios of a trace",
        ),
        (
            vec![&trace, "--vs", "--ioprio dd=be:8"],
            "--vs '--ioprio dd=be:8': --ioprio dd=be:8: expected PROCESS=idle",
        ),
        (
            vec!["job.fio", "--ioprio", "a=idle"],
            "--ioprio a=idle: ranks a process of a trace; a job has prioclass=",
        ),
        (vec!["job.fio", "--vs", "--ioprio a=idle"], "--ioprio a=idle: ranks a process of a trace"),
        (
            vec!["job.fio", "--until", "2s"],
            "--until: says how a trace is replayed; job.fio is none",
        ),
        (
            vec![
                &trace,
                "--closed",
                "--time-based",
                "--allow-writes",
                "--vs",
                "--device ./disk.img",
            ],
            "--vs '--device ./disk.img': --time-based --allow-writes",
        ),
        (vec!["-", "--vs", "--kernel 6.1"], "the trace is empty"),
    ] {
        let args = [vec!["compare"], args, vec!["--vs", "--scheduler bfq"]].concat();
        let output = bench.elevon(&args).output().expect("the command ran");
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
        assert!(stderr.contains(said), "{args:?}: {stderr}");
    }
}
