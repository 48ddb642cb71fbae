//! `elevon advise`: that its advice is right where there is some to give, that it gives none where
//! nothing helps, and what it prints.

use std::path::PathBuf;

use crate::common::Bench;
use serde_json::Value;

/// Four servers, which the deep queue of the job `bulk` keeps busy while `db` waits behind it.
const DEVICE: &str = "slots:slots=4,latency=300us,bandwidth=800MB/s,size=1GiB";

/// A process that reads one block after the other, and after a while another one that writes from a
/// deep queue of changing depth.
const JOB: &str = "\
[global]
direct=1
time_based=1
[db]
rw=randread
bs=8k
ioengine=psync
size=200m
runtime=2
[bulk]
rw=randwrite
bs=64k
ioengine=libaio
iodepth=64
iodepth_low=8
iodepth_batch=8
offset=300m
size=400m
startdelay=500ms
runtime=1
";

fn data(name: &str) -> String {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/kernel-truth").join(name);
    path.to_str().expect("UTF-8").to_owned()
}

fn traced() -> Bench {
    let bench = Bench::new();
    bench.file("job.fio", JOB);
    bench.stdout(&["run", "job.fio", "--device", DEVICE, "--trace", "job.ftrace"]);
    bench
}

fn advice(bench: &Bench, trace: &str, args: &[&str]) -> Value {
    let args = [&["advise", trace, "--output-format", "json"], args].concat();
    serde_json::from_str(&bench.stdout(&args)).expect("JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The 99th percentile of `db` and the throughput of `bulk`, of the job itself under these options.
fn of_job(bench: &Bench, options: &str) -> (f64, f64) {
    let options: Vec<&str> = options.split(' ').collect();
    let found = bench.json("job.fio", &[&["--device", DEVICE], &options[..]].concat());
    let p99 = number(&found["jobs"][0]["read"]["clat_ns"]["percentile"]["99.000000"]);
    (p99, number(&found["jobs"][1]["write"]["iops"]))
}

/// Every proposal that changes the queue only is put in force for the job that was traced: `db`
/// gains at least half of what was promised, as a ratio, and `bulk` loses no more than is allowed.
#[test]
fn what_is_advised_holds_in_the_run_that_was_traced() {
    let bench = traced();
    // What another program recorded has no notes: the scheduler is known by what the events show.
    let text = std::fs::read_to_string(bench.path("job.ftrace")).expect("a trace");
    let plain: Vec<&str> = text.lines().filter(|line| !line.starts_with("# ")).collect();
    bench.file("job.ftrace", plain.join("\n") + "\n");
    let found = advice(&bench, "job.ftrace", &["--goal", "p99", "--for", "db", "--best", "5"]);
    assert_eq!(found["is_worth_it"], true, "{found:#}");
    assert_eq!(
        (&found["captured"]["scheduler"], &found["captured"]["source"]),
        (&"none".into(), &"shown".into())
    );
    let (before, bulk_before) = of_job(&bench, "--scheduler none");
    let proposals = found["proposals"].as_array().expect("proposals");
    let is_of_queue = |proposal: &&Value| {
        let changes = proposal["changes"].as_array().expect("changes");
        changes.iter().all(|change| {
            matches!(change["what"].as_str(), Some("scheduler" | "tunable" | "setting"))
        })
    };
    let of_queue: Vec<&Value> = proposals.iter().filter(is_of_queue).collect();
    assert!(!of_queue.is_empty(), "{found:#}");
    for proposal in of_queue {
        let options = proposal["options"].as_str().expect("options");
        let (after, bulk) = of_job(&bench, options);
        let figures = proposal["processes"].as_array().expect("processes").iter();
        let db = figures.clone().find(|one| one["process"] == "db-1001").expect("db");
        let summary = proposal["summary"].as_str().expect("a summary");
        assert!(summary.contains("p99 of db-1001 ") && summary.contains(" % lower"), "{summary}");
        let promised = number(&db["p99_ns"]["before"]) / number(&db["p99_ns"]["after"]);
        let got = before / after;
        assert!(
            promised > 1.2 && got > promised.sqrt(),
            "{options}: {promised} was promised, and {got} came"
        );
        assert!(
            bulk / bulk_before > 0.75,
            "{options}: bulk lost too much: {bulk} of {bulk_before}"
        );
    }
}

/// The replay as captured is beside the trace in every figure, also of a process that wakes up for
/// its I/O at its own pace, and of one whose last burst ends with the trace.
#[test]
fn the_check_is_near_the_trace() {
    let bench = Bench::new();
    for (name, within) in [
        ("whatif/mq-deadline.ftrace.zst", 15.0),
        ("traces/pgbench-ext4-mq-deadline.ftrace.zst", 25.2),
    ] {
        let found =
            advice(&bench, &data(name), &["--scheduler", "mq-deadline", "--kernel", "6.18"]);
        let rows = found["check"].as_array().expect("rows").iter();
        let mut count = 0;
        for row in rows.filter(|row| number(&row["ios"]) >= 200.0) {
            for figure in ["iops", "p50_ns", "p99_ns"] {
                let error = number(&row[figure]["error_percent"]);
                assert!(
                    error.abs() < within,
                    "{name} {}: {figure} is {error} % off",
                    row["process"]
                );
                count += 1;
            }
        }
        assert!(count >= 12, "{name}: {count} figures");
    }
}

/// A process that has the device to itself, one I/O at a time: no scheduler makes that faster.
#[test]
fn where_nothing_helps_nothing_is_advised() {
    let bench = Bench::new();
    bench.file(
        "job.fio",
        "[db]\nrw=randread\nbs=8k\nioengine=psync\ndirect=1\nsize=64m\nnumber_ios=2000\nthinktime=50us\n",
    );
    bench.stdout(&["run", "job.fio", "--device", DEVICE, "--trace", "job.ftrace"]);
    for goal in ["balanced", "p99", "p50", "throughput", "fair"] {
        let found = advice(&bench, "job.ftrace", &["--goal", goal]);
        assert_eq!(
            (&found["is_worth_it"], &found["proposals"]),
            (&false.into(), &Value::Array(vec![])),
            "{goal}"
        );
        assert!(number(&found["tried"]) > 20.0, "{goal}: it did look");
    }
    let text = bench.stdout(&["advise", "job.ftrace"]);
    assert!(text.contains("No change is worth it"), "{text}");
}

/// Of two that want the same, one can be preferred by its claim only: a unit's priority or weight.
#[test]
fn a_process_that_is_wanted_is_given_its_claim() {
    let bench = Bench::new();
    let job = "rw=randread\nbs=64k\nioengine=libaio\niodepth=16\nsize=400m\ndirect=1\ntime_based=1\nruntime=1\n";
    bench.file("job.fio", format!("[one]\n{job}[two]\n{job}offset=500m\n"));
    bench.stdout(&[
        "run",
        "job.fio",
        "--device",
        DEVICE,
        "--scheduler",
        "bfq",
        "--trace",
        "job.ftrace",
    ]);
    let common =
        ["--scheduler", "bfq", "--device", DEVICE, "--name", "sda", "--goal", "throughput"];
    let args = [&common[..], &["--for", "one", "--max-loss", "80", "--best", "10"]].concat();
    let found = advice(&bench, "job.ftrace", &args);
    let proposals = found["proposals"].as_array().expect("proposals");
    let claims =
        |proposal: &&Value| !proposal["set"]["systemd"].as_object().expect("units").is_empty();
    let with_claims =
        proposals.iter().find(claims).unwrap_or_else(|| panic!("no claim: {found:#}"));
    let text = with_claims["set"].to_string();
    assert!(text.contains("IOSchedulingClass=") || text.contains("IOWeight="), "{text}");
    assert!(text.contains("/etc/systemd/system/one.service.d/io.conf"), "{text}");
    let two = &with_claims["processes"][1];
    assert!(
        two["process"] == "two-1002" && number(&two["iops"]["change_percent"]) < -20.0,
        "{two:#}"
    );
    assert!(with_claims["losers"].to_string().contains("two-1002"), "{with_claims:#}");
    for proposal in proposals {
        assert_eq!(proposal["is_in_kernel"], true, "nothing else was asked for: {proposal:#}");
    }
}

/// Two that read the same, one from a queue four times as deep. A limit for that one helps the
/// other, and the run that was traced shows it, given the file of tenants that comes with the
/// proposal.
#[test]
fn a_limit_that_is_advised_holds_in_the_run_that_was_traced() {
    let bench = Bench::new();
    let job = |name: &str, depth: u32, offset: &str| {
        format!(
            "[{name}]\nrw=randread\nbs=64k\nioengine=libaio\niodepth={depth}\nsize=400m\noffset={offset}\ndirect=1\n\
             time_based=1\nruntime=1\n"
        )
    };
    let jobs = |cgroups: [&str; 2]| {
        format!("{}{}{}{}", job("one", 8, "0"), cgroups[0], job("two", 32, "500m"), cgroups[1])
    };
    bench.file("job.fio", jobs(["", ""]));
    bench.stdout(&["run", "job.fio", "--device", DEVICE, "--trace", "job.ftrace"]);
    let args = [
        "--device",
        DEVICE,
        "--name",
        "sda",
        "--goal",
        "p50",
        "--for",
        "one",
        "--max-loss",
        "80",
        "--best",
        "10",
    ];
    let found = advice(&bench, "job.ftrace", &args);
    let proposals = found["proposals"].as_array().expect("proposals");
    let is_limit = |proposal: &&Value| {
        let changes = proposal["changes"].as_array().expect("changes");
        changes.len() == 1 && changes[0]["what"] == "io.max" && changes[0]["process"] == "two-1002"
    };
    let limit =
        proposals.iter().find(is_limit).unwrap_or_else(|| panic!("no limit alone: {found:#}"));
    assert!(limit["set"].to_string().contains("IOReadIOPSMax=/dev/sda "), "{limit:#}");
    assert!(limit["losers"].to_string().contains("two-1002"), "{limit:#}");
    let targets = proposals
        .iter()
        .any(|one| one["set"].to_string().contains("IODeviceLatencyTargetSec=/dev/sda "));
    assert!(targets, "a target helps, too: {found:#}");

    bench.file("tenants.toml", limit["tenants"].as_str().expect("a file"));
    bench.file("job.fio", jobs(["cgroup=one-1001\n", "cgroup=two-1002\n"]));
    let of = |options: &[&str]| {
        let run = bench.json("job.fio", &[&["--device", DEVICE], options].concat());
        [0, 1].map(|at| number(&run["jobs"][at]["read"]["iops"]))
    };
    let ([one, _], [one_limited, two_limited]) = (of(&[]), of(&["--tenants", "tenants.toml"]));
    let promised = 1.0 + number(&limit["processes"][0]["iops"]["change_percent"]) / 100.0;
    let got = one_limited / one;
    assert!(
        promised > 2.0 && (got / promised - 1.0).abs() < 0.1,
        "{promised} was promised, and {got} came"
    );
    let rate: f64 = limit["changes"][0]["value"]
        .as_str()
        .and_then(|text| text.strip_prefix("riops="))
        .expect("a rate")
        .parse()
        .expect("a number");
    assert!((two_limited / rate - 1.0).abs() < 0.1, "{two_limited} of {rate}");
}

/// Two that are in nobody's way: neither limit, weight nor scheduler makes anything faster.
#[test]
fn two_that_do_not_meet_are_left_alone() {
    let bench = Bench::new();
    let job =
        "rw=randread\nbs=8k\nioengine=psync\ndirect=1\nsize=64m\nthinktime=2ms\nnumber_ios=500\n";
    bench.file("job.fio", format!("[one]\n{job}[two]\n{job}offset=500m\n"));
    bench.stdout(&["run", "job.fio", "--device", DEVICE, "--trace", "job.ftrace"]);
    for args in [&["--goal", "p99", "--for", "one"][..], &["--goal", "balanced"]] {
        let found = advice(&bench, "job.ftrace", &[&["--device", DEVICE], args].concat());
        assert_eq!(
            (&found["is_worth_it"], &found["proposals"]),
            (&false.into(), &Value::Array(vec![])),
            "{args:?}: {found:#}"
        );
    }
}

/// The settings beside the trace say what it was captured under, and which disk it was.
#[test]
fn what_was_recorded_need_not_be_said() {
    let bench = traced();
    bench.file(
        "job.ftrace.settings",
        "dev:8:0\nname:nvme1n1\nkernel:6.6.1\nqueue/scheduler:[none] mq-deadline kyber bfq\nqueue/nr_requests:64\n",
    );
    let found = advice(&bench, "job.ftrace", &["--device", DEVICE]);
    let captured = &found["captured"];
    assert_eq!((&captured["source"], &captured["scheduler"]), (&"recorded".into(), &"none".into()));
    assert_eq!(captured["settings"]["nr_requests"], "64");
    let first = found["proposals"][0]["set"]["shell"][0].as_str().expect("a line");
    assert!(first.contains("/sys/block/nvme1n1/"), "{first}");
    // The command line wins.
    let found = advice(
        &bench,
        "job.ftrace",
        &["--device", DEVICE, "--scheduler", "kyber", "--ios", "2000"],
    );
    assert_eq!(found["captured"]["source"], "given");
    let ios = found["ios"].as_u64().expect("a number");
    assert!((2000..2064).contains(&ios), "{ios}: with those of the same instant");
}

#[test]
fn the_same_trace_gives_the_same_bytes() {
    let bench = traced();
    for format in ["normal", "json"] {
        let args =
            ["advise", "job.ftrace", "--goal", "fair", "--ios", "4000", "--output-format", format];
        assert_eq!(bench.stdout(&args), bench.stdout(&args), "{format}");
    }
}

#[test]
fn text_for_people() {
    let bench = traced();
    insta::assert_snapshot!(bench.stdout(&[
        "advise",
        "job.ftrace",
        "--device",
        DEVICE,
        "--best",
        "2"
    ]));
    let trace = data("traces/mixed-deflate.perfetto-trace");
    let device = "slots:slots=2,latency=70us,bandwidth=1500MB/s,size=1GiB";
    let args = [
        "advise",
        &trace,
        "--dev",
        "7:7",
        "--kernel",
        "6.18",
        "--scheduler",
        "mq-deadline",
        "--device",
        device,
    ];
    insta::assert_snapshot!("nothing_to_advise", bench.stdout(&args).replace(&data(""), ""));
}

#[test]
fn bad_input_is_one_line() {
    let bench = Bench::new();
    let trace = data("traces/dd-1028k-direct.ftrace");
    let enough = data("traces/mixed-deflate.perfetto-trace");
    bench.file("job.fio", "[a]\nrw=read\nsize=1m\n");
    bench.file("disk.img", vec![0; 1 << 20]);
    for (args, said) in [
        (vec!["missing.txt"], "missing.txt"),
        (vec!["job.fio"], "no trace of a known format"),
        (vec!["-"], "-: expected a file: the trace is read several times"),
        (vec![&trace], "no process has 100 I/Os or more"),
        (vec![&trace, "--dev", "9:9"], "no event of device 9:9"),
        (vec![&enough, "--dev", "7:7", "--for", "fios"], "--for: no process fios"),
        (vec![&enough, "--dev", "7:7", "--scheduler", "deadline"], "--scheduler deadline: "),
        (vec![&enough, "--dev", "7:7", "--set", "nr_request=4"], "did you mean nr_requests?"),
        (vec![&enough, "--dev", "7:7", "--device", "./disk.img"], "--device ./disk.img: is real"),
        (vec![&enough, "--dev", "7:7", "--kernel", "3.0"], "--kernel 3.0: not modelled"),
        (
            vec![&enough, "--dev", "7:7", "--ioprio", "fio=best"],
            "--ioprio fio=best: expected PROCESS=idle",
        ),
        (
            vec![&enough, "--dev", "7:7", "--ioprio", "fios=idle"],
            "--ioprio fios=idle: no process fios",
        ),
        (vec![&enough, "--dev", "7:7", "--from", "1"], "--from 1: expected a time with its unit"),
        (vec![&enough, "--dev", "7:7", "--process", "fios"], ": no process fios"),
        (
            vec![&enough, "--memory", "1GiB"],
            "--memory 1GiB: the bios of a trace are below the page cache",
        ),
        (vec![&enough, "--goal", "speed"], "speed"),
        (vec![&enough, "--ios", "5"], "--ios 5: expected a number from 1000 to 10000000"),
        (vec![&enough, "--best", "0"], "--best 0: expected a number from 1 to 20"),
        (vec![&enough, "--max-loss", "100"], "--max-loss 100: expected percent from 0 to 95"),
    ] {
        let args = [vec!["advise"], args].concat();
        let output = bench.elevon(&args).output().expect("the command ran");
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
        assert!(stderr.contains(said), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}
