//! `elevon sweep`: each row is a run that can be repeated alone, and the results are the same on
//! any number of threads, after an interrupt, and from shards.

use std::fs;
use std::process::Output;

use crate::common::Bench;
use serde_json::Value;

const JOB: &str = "[global]\nioengine=libaio\ndirect=1\nrw=randread\nsize=64m\nnumber_ios=200\n\
                   [reader]\niodepth=4\n[writer]\nrw=randwrite\n";
const OVER: [&str; 4] = ["--over", "reader:iodepth=1..16:*4", "--over", "scheduler=none,bfq"];
const FILES: [&str; 5] =
    ["results.csv", "results.jsonl", "results.parquet", "summary.txt", "index.html"];

fn bench() -> Bench {
    let bench = Bench::new();
    bench.file("job.fio", JOB);
    bench
}

fn sweep(bench: &Bench, arguments: &[&str]) -> Output {
    bench.elevon(&[&["sweep"], arguments].concat()).output().expect("the command ran")
}

/// Runs a sweep that must succeed, and returns what it wrote.
fn files(bench: &Bench, out: &str, arguments: &[&str]) -> Vec<Vec<u8>> {
    let run = sweep(bench, &[arguments, &["-o", out]].concat());
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    FILES.iter().map(|name| fs::read(bench.path(out).join(name)).expect(name)).collect()
}

fn rows(bench: &Bench, out: &str) -> Vec<Value> {
    let text = fs::read_to_string(bench.path(out).join("results.jsonl")).expect("results");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_row_is_what_its_command_gives() {
    let bench = bench();
    let all = [&["job.fio", "--seeds", "3,7", "--device", "sata-ssd-860evo"], &OVER[..]].concat();
    files(&bench, "out", &all);
    let rows = rows(&bench, "out");
    // Six points, two seeds, two jobs and all together.
    assert_eq!(rows.len(), 6 * 2 * 3);
    let row = rows.iter().find(|row| row["run"] == 9 && row["job"] == "reader").expect("a run");
    assert_eq!((&row["seed"], &row["point"]["scheduler"]), (&7.into(), &"none".into()));
    let command = shlex::split(row["command"].as_str().expect("a command")).expect("words");
    let mut words: Vec<&str> = command[1..].iter().map(String::as_str).collect();
    words.extend(["--output-format", "json"]);
    let report: Value = serde_json::from_str(&bench.stdout(&words)).expect("JSON");
    let reader = &report["jobs"][0];
    assert_eq!(
        (&reader["jobname"], reader["read"]["total_ios"].as_f64()),
        (&"reader".into(), Some(200.0))
    );
    let iops = reader["read"]["iops"].as_f64().expect("a rate");
    let ours = row["figures"]["iops"].as_f64().expect("a rate");
    assert!((iops - ours).abs() < 1e-3 * iops, "{iops} and {ours}");
}

#[test]
fn results_depend_on_nothing_but_the_inputs() {
    let bench = bench();
    let all = [&["job.fio", "--seeds", "2", "--compare", "scheduler=none"], &OVER[..]].concat();
    let whole = files(&bench, "whole", &all);
    assert!(files(&bench, "one", &[&all[..], &["--threads", "1"]].concat()) == whole);

    // Half of the journal is lost, and its last line cut off.
    let journal = bench.path("one/runs.jsonl");
    let text = fs::read_to_string(&journal).expect("a journal");
    let half: Vec<&str> = text.lines().take(7).collect();
    fs::write(&journal, half.join("\n")).expect("space");
    let again = sweep(&bench, &[&all[..], &["-o", "one"]].concat());
    let told = String::from_utf8_lossy(&again.stderr);
    assert!(told.contains("5 of 12 runs were done before"), "{told}");
    for (name, expected) in FILES.iter().zip(&whole) {
        assert!(fs::read(bench.path("one").join(name)).expect(name) == *expected, "{name}");
    }

    for shard in ["1/3", "3/3"] {
        assert!(
            sweep(&bench, &[&all[..], &["--shard", shard, "-o", "parts"]].concat())
                .status
                .success()
        );
    }
    let early = sweep(&bench, &["merge", "parts"]);
    let told = String::from_utf8_lossy(&early.stderr);
    assert!(
        early.status.code() == Some(2) && told.contains("4 of 12 runs are not there"),
        "{told}"
    );
    assert!(
        sweep(&bench, &[&all[..], &["--shard", "2/3", "-o", "elsewhere"]].concat())
            .status
            .success()
    );
    assert!(sweep(&bench, &["merge", "parts", "elsewhere", "-o", "merged"]).status.success());
    for (name, expected) in FILES.iter().zip(&whole) {
        assert!(fs::read(bench.path("merged").join(name)).expect(name) == *expected, "{name}");
    }
}

#[test]
fn a_plan_is_the_same_sweep() {
    let bench = bench();
    let all = [&["job.fio", "--seeds", "2", "--device", "hdd-7200"], &OVER[..]].concat();
    let expected = files(&bench, "of_options", &all);
    let plan = "job = \"job.fio\"\nseeds = 2\ndevice = \"hdd-7200\"\n[over]\n\
                \"reader:iodepth\" = \"1..16:*4\"\nscheduler = [\"none\", \"bfq\"]\n";
    bench.file("plan.toml", plan);
    assert!(files(&bench, "of_plan", &["plan.toml"]) == expected);
}

#[test]
fn a_job_on_stdin_is_read_once_for_all_points() {
    let bench = bench();
    let on_stdin = |arguments: &[&str]| {
        bench.elevon(arguments).write_stdin(JOB).output().expect("the command ran")
    };
    let run = on_stdin(&["sweep", "-", "--over", "iodepth=1,2"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(rows(&bench, "job.sweep").len(), 2 * 3, "two points; two jobs and all together");
    let tuned = on_stdin(&["tune", "-", "--over", "iodepth=1,2", "--maximise", "iops"]);
    assert!(tuned.status.success(), "{}", String::from_utf8_lossy(&tuned.stderr));
}

#[test]
fn a_folder_with_files_of_others_is_refused() {
    let bench = bench();
    let args = ["job.fio", "--over", "scheduler=none,bfq", "-o"];
    for (folder, words) in
        [("job.fio", "--output job.fio: is not a directory"), (".", "--output .: has a file index")]
    {
        bench.file("index.html", "somebody's page");
        let run = sweep(&bench, &[&args[..], &[folder]].concat());
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.code() == Some(2) && stderr.contains(words), "{folder}: {stderr}");
        assert_eq!(fs::read(bench.path("index.html")).expect("the page"), b"somebody's page");
    }
    fs::remove_file(bench.path("index.html")).expect("the page");
    for _ in 0..2 {
        assert!(
            sweep(&bench, &[&args[..], &["."]].concat()).status.success(),
            "its own results are replaced"
        );
    }
}

#[test]
fn a_sweep_does_not_go_on_in_another_environment() {
    let bench = bench();
    bench.file("env.fio", JOB.replace("iodepth=4", "iodepth=${ELEVON_DEPTH}"));
    let shard = |depth: &str, shard: &str| {
        let args =
            ["sweep", "env.fio", "--over", "scheduler=none,bfq", "-o", "out", "--shard", shard];
        bench.elevon(&args).env("ELEVON_DEPTH", depth).output().expect("the command ran")
    };
    assert!(shard("8", "1/2").status.success());
    let refused = shard("1", "1/2");
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("inputs ${ELEVON_DEPTH}"), "{stderr}");
    assert!(shard("1", "2/2").status.success());
    let merged = sweep(&bench, &["merge", "out"]);
    let stderr = String::from_utf8_lossy(&merged.stderr);
    assert!(
        merged.status.code() == Some(2) && stderr.contains("inputs ${ELEVON_DEPTH}"),
        "{stderr}"
    );
    fs::remove_file(bench.path("out/runs-2-of-2.jsonl")).expect("the other");
    assert!(
        shard("8", "2/2").status.success() && sweep(&bench, &["merge", "out"]).status.success()
    );
    let command = &rows(&bench, "out")[0]["command"];
    assert!(
        command.as_str().is_some_and(|line| line.starts_with("ELEVON_DEPTH=8 elevon run env.fio ")),
        "{command}"
    );
}

#[test]
fn the_same_seeds_make_pairs() {
    let bench = bench();
    let compare = [
        "compare",
        "job.fio",
        "--vs",
        "--scheduler bfq",
        "--seeds",
        "4",
        "--output-format",
        "json",
    ];
    let report: Value = serde_json::from_str(&bench.stdout(&compare)).expect("JSON");
    let points = report["points"].as_array().expect("points");
    assert_eq!(points.len(), 2 * 3, "two stacks; two jobs and all together");
    let iops = &points[0]["figures"]["iops"];
    assert!(iops["samples"] == 4 && iops["half_width_95"].as_f64() > Some(0.0), "{iops}");
    let text = bench.stdout(&compare[..6]);
    assert!(
        text.contains("Against variant=baseline") && text.contains("--scheduler bfq"),
        "{text}"
    );
    assert!(!text.contains("--seed "), "each run has its own: {text}");
}

#[test]
fn what_cannot_run_is_one_line() {
    let bench = bench();
    bench.file("bad.toml", "job = \"job.fio\"\n[over]\niodepht = [1, 2]\n");
    bench.file("logs.fio", "[a]\nwrite_lat_log=x\nsize=1m\n");
    bench.file("disk", [0; 4096]);
    bench.file("binary.toml", [0xff; 16]);
    let over = ["--over", "iodepth=1,2"];
    for (arguments, part) in [
        (&["job.fio"][..], "nothing varies"),
        (
            &["job.fio", "--over", "iodepth=0,1"],
            "point iodepth=0: --job-option iodepth=0: iodepth: ",
        ),
        (&["job.fio", "--over", "bs=4k,8k", "--over", "bs=1k"], "is there twice"),
        (
            &["job.fio", "--over", "bs=4k,8k", "--over", "blocksize=1k,2k"],
            "--over blocksize: is there twice",
        ),
        (
            &["job.fio", "--over", "bs=4k,8k", "--job-option", "blocksize=1k"],
            "--job-option blocksize=1k is given, too",
        ),
        (&["job.fio", over[0], over[1], "--device", "./disk"], "is real"),
        (&["job.fio", over[0], over[1], "--seeds", "3,3"], "--seeds 3,3: must be"),
        (
            &["job.fio", over[0], over[1], "--seeds", "2", "--seed", "7"],
            "--seed 7: --seeds gives the seeds",
        ),
        (&["job.fio", over[0], over[1], "--shard", "0/2"], "--shard 0/2: must be"),
        (&["job.fio", over[0], over[1], "--compare", "bs=4k"], "no such axis; there are iodepth"),
        (
            &["job.fio", over[0], over[1], "--compare", "iodepth=3"],
            "no such value; iodepth is 1, 2 here",
        ),
        (&["binary.toml"], "binary.toml: is not text; must be a plan in TOML"),
        (&["logs.fio", over[0], over[1]], "writes logs"),
        (&["bad.toml"], "bad.toml:3:1: --over iodepht: did you mean iodepth?"),
        (&["merge", "."], "no runs*.jsonl"),
        (&["nothing.fio", over[0], over[1]], "elevon: nothing.fio:1:1: cannot read the job file"),
        (
            &["job.fio", over[0], over[1], "--job-option", "iodepth=4"],
            "--over iodepth=...: --job-option iodepth=4 is",
        ),
        (
            &["job.fio", "--over", "scheduler=none,bfq", "--scheduler", "bfq"],
            "--scheduler bfq is given, too",
        ),
        (
            &["job.fio", "--over", "device=hdd-7200", "--device", "sata-ssd-860evo"],
            "--device sata-ssd-860evo is given",
        ),
        (
            &["job.fio", "--over", "nr_requests=4,64", "--set", "nr_requests=5"],
            "--set nr_requests=5 is given, too",
        ),
    ] {
        let run = sweep(&bench, arguments);
        let told = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(part) && told.lines().count() == 1, "{arguments:?}: {told}");
    }
    assert!(!bench.path("job.sweep").exists(), "what is refused leaves no folder");
}

/// A run that fails has a row that says why, and the others are done.
#[test]
fn a_run_that_fails_is_a_row() {
    let bench = bench();
    let fault = [
        "job.fio",
        "--over",
        "fault=stall:every=100,for=1ms;error:sectors=0-131071,status=medium",
        "-o",
        "out",
    ];
    let run = sweep(&bench, &fault);
    assert_eq!(run.status.code(), Some(1), "{}", String::from_utf8_lossy(&run.stderr));
    let rows = rows(&bench, "out");
    let errors: Vec<bool> = rows.iter().map(|row| row["error"] != "").collect();
    assert!(errors.contains(&true) && errors.contains(&false), "{rows:?}");
    assert!(String::from_utf8_lossy(&run.stdout).contains("1 runs failed"));
}

fn tune(bench: &Bench, arguments: &[&str]) -> Value {
    let fixed =
        ["tune", "job.fio", "--device", "slots:slots=8,latency=1ms", "--output-format", "json"];
    serde_json::from_str(&bench.stdout(&[&fixed[..], arguments].concat())).expect("JSON")
}

/// On servers the mean latency is that of service until all are busy, and grows with the depth from
/// there on: the largest throughput under a bound just above the service time is that of as many
/// I/Os as there are servers. A search finds what trying every point finds.
#[test]
fn tuning_finds_the_depth_that_fills_the_servers() {
    let bench = Bench::new();
    bench.file(
        "job.fio",
        "[a]\nioengine=libaio\ndirect=1\nrw=randread\nbs=4k\nsize=64m\nnumber_ios=600\n",
    );
    let goal = ["--maximise", "iops", "--subject-to", "mean<1.1ms"];
    let best = |report: &Value| -> Value {
        let at = report["best"][0].as_u64().expect("a best one");
        report["trials"][at as usize]["point"]["iodepth"].clone()
    };
    let whole = tune(&bench, &[&goal[..], &["--over", "iodepth=1..64"]].concat());
    assert_eq!(whole["trials"].as_array().map(Vec::len), Some(64));
    assert_eq!(best(&whole), "8");
    let searched =
        tune(&bench, &[&goal[..], &["--over", "iodepth=1..256", "--trials", "80"]].concat());
    assert_eq!(searched["trials"].as_array().map(Vec::len), Some(80));
    let few = tune(&bench, &["--maximise", "iops", "--over", "iodepth=1..256", "--trials", "8"]);
    assert_eq!(
        few["trials"].as_array().map(Vec::len),
        Some(8),
        "a sample of three, and neighbours of its best"
    );
    assert_eq!(best(&searched), "8");
    let again =
        tune(&bench, &[&goal[..], &["--over", "iodepth=1..256", "--trials", "80"]].concat());
    assert_eq!(searched, again);
}

#[test]
fn trials_that_fail_are_told() {
    let bench = bench();
    let error = "error:sectors=0-131071,status=medium";
    let over = format!("fault=stall:every=100,for=1ms;{error}");
    let both = tune(&bench, &["--maximise", "iops", "--over", &over]);
    let told = both["warnings"][0].as_str().expect("a warning");
    assert!(
        told.starts_with(&format!("1 of 2 trials failed, the first of them fault={error}: ")),
        "{told}"
    );
    assert!(told.ends_with(both["trials"][1]["error"].as_str().expect("an error")), "{told}");
    assert_eq!((&both["trials"][0]["error"], &both["best"]), (&"".into(), &serde_json::json!([0])));
    let args = ["tune", "job.fio", "--maximise", "iops", "--over", "iodepth=1,2", "--fault", error];
    let run = bench.elevon(&args).output().expect("the command ran");
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.code() == Some(1) && told.contains("2 of 2 trials failed"), "{told}");
    assert!(!told.contains("must be columns"), "{told}");
}

#[test]
fn bounds_that_nothing_keeps_are_a_failure() {
    let bench = bench();
    let args = [
        "tune",
        "job.fio",
        "--maximise",
        "iops",
        "--subject-to",
        "max<1ns",
        "--over",
        "iodepth=1,2",
    ];
    let run = bench.elevon(&args).output().expect("the command ran");
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.code() == Some(1) && text.contains("No trial meets the bounds"), "{text}");
    assert!(text.contains("The nearest") && !text.contains("The best"), "{text}");
}

/// Of two goals the front has what no other trial beats in both.
#[test]
fn two_goals_have_a_front() {
    let bench = Bench::new();
    bench.file(
        "job.fio",
        "[a]\nioengine=libaio\ndirect=1\nrw=randread\nbs=4k\nsize=64m\nnumber_ios=600\n",
    );
    let goals = ["--maximise", "iops", "--minimise", "p99", "--over", "iodepth=1..32"];
    let report = tune(&bench, &goals);
    let trials = report["trials"].as_array().expect("trials");
    let figures = |at: usize| {
        let of = |name: &str| trials[at]["figures"][name]["mean"].as_f64().expect("a mean");
        (of("iops"), of("lat_p99_ns"))
    };
    let beats = |a: (f64, f64), b: (f64, f64)| a.0 >= b.0 && a.1 <= b.1 && a != b;
    let front: Vec<usize> = report["best"]
        .as_array()
        .expect("a front")
        .iter()
        .map(|at| at.as_u64().expect("a number") as usize)
        .collect();
    for at in 0..trials.len() {
        let is_beaten = (0..trials.len()).any(|other| beats(figures(other), figures(at)));
        assert_eq!(front.contains(&at), !is_beaten, "{at}");
    }
    // The text has every point of the front, and the command of each end.
    let device = ["tune", "job.fio", "--device", "slots:slots=8,latency=1ms"];
    let text = bench.stdout(&[&device[..], &goals].concat());
    let table = text.split("No other trial is better in both").nth(1).expect("a front");
    let table = table.split("Run again").next().expect("a table");
    let rows =
        table.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())).count();
    assert!(rows == front.len() && front.len() > 2, "{} of {}: {text}", rows, front.len());
    assert!(
        text.contains("Best in I/Os a second:") && text.contains("Best in 99% latency:"),
        "{text}"
    );
    assert_eq!(text.matches("elevon run job.fio").count(), 2, "{text}");
}

/// Clones without `group_reporting` are jobs of one name, which no output takes for one another.
#[test]
fn jobs_of_one_name_are_told_apart() {
    let bench = Bench::new();
    let clones =
        "[lim]\nioengine=libaio\ndirect=1\nrw=randread\nsize=64m\nnumber_ios=100\nnumjobs=3\n";
    bench.file("job.fio", format!("{clones}[*]\ndirect=1\nrw=randwrite\nsize=1m\n"));
    files(&bench, "out", &["job.fio", "--over", "iodepth=1,2"]);
    let rows = rows(&bench, "out");
    let jobs: Vec<&str> =
        rows.iter().take(5).map(|row| row["job"].as_str().expect("a name")).collect();
    assert_eq!(jobs, ["lim#1", "lim#2", "lim#3", "*#1", "*"]);
    let ios = |row: usize| rows[row]["figures"]["ios"].as_f64().expect("a count");
    assert_eq!((ios(0), ios(3), ios(4)), (100.0, 256.0, 3.0 * 100.0 + 256.0));
    let compare = ["compare", "job.fio", "--vs", "--scheduler bfq", "--seeds", "2"];
    let text = bench.stdout(&compare);
    for job in ["Job lim#1\n", "Job lim#3\n", "Job *#1\n", "All jobs\n"] {
        assert!(text.contains(job), "{job}: {text}");
    }
    let tune = ["tune", "job.fio", "--over", "iodepth=1,2", "--maximise"];
    let run = bench.elevon(&[&tune[..], &["lim:iops"]].concat()).output().expect("the command ran");
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.code() == Some(2)
            && told.contains("lim:iops: 3 jobs are named lim; must be lim#1"),
        "{told}"
    );
    assert!(bench.stdout(&[&tune[..], &["lim#2:iops"]].concat()).contains("maximise lim#2:iops"));
}

/// A flat curve says why: the warnings of all points are told once, before and after an interrupt.
#[test]
fn a_sweep_warns_as_a_run_does() {
    let bench = Bench::new();
    bench.file("job.fio", "[rd]\nioengine=psync\ndirect=1\nrw=randread\nsize=64m\nnumber_ios=50\n");
    let over = ["job.fio", "--over", "iodepth=1..8:*2"];
    let words = "iodepth: ioengine=psync has one I/O at a time; use libaio or io_uring";
    let warning = format!("{words} (in 6 of 8 runs)");
    for time in ["first", "again, from the journal"] {
        let run = sweep(&bench, &[&over[..], &["--seeds", "2", "-o", "out"]].concat());
        let told = String::from_utf8_lossy(&run.stderr);
        assert_eq!(told.matches("has one I/O at a time").count(), 1, "{time}: {told}");
        assert!(told.contains("(in 3 of 4 points)"), "{time}: {told}");
        for name in ["summary.txt", "index.html"] {
            let text = fs::read_to_string(bench.path("out").join(name)).expect(name);
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(&warning), "{time}: {name}: {text}");
        }
    }
    let goal = [
        "tune",
        "job.fio",
        "--over",
        "iodepth=1..8:*2",
        "--maximise",
        "iops",
        "--output-format",
        "json",
    ];
    let report: Value = serde_json::from_str(&bench.stdout(&goal)).expect("JSON");
    assert_eq!(report["warnings"][0], format!("{words} (in 9 of 12 runs)"));
}

/// The summary says what was swept, and has what `--compare` shows for programs, too.
#[test]
fn a_summary_stands_alone() {
    let bench = bench();
    let all = ["job.fio", "--seeds", "3,7", "--device", "hdd-7200", "--compare", "scheduler=none"];
    files(&bench, "out", &[&all[..], &OVER[..]].concat());
    for name in ["summary.txt", "index.html"] {
        let text = fs::read_to_string(bench.path("out").join(name)).expect(name);
        assert!(
            text.contains("elevon run job.fio --device hdd-7200") && text.contains("seeds 3, 7"),
            "{text}"
        );
    }
    let json =
        sweep(&bench, &[&all[..], &OVER[..], &["-o", "out", "--output-format", "json"]].concat());
    let report: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(report["command"], "elevon run job.fio --device hdd-7200");
    let differences = &report["differences"];
    assert_eq!(differences["against"]["scheduler"], "none");
    let points = differences["points"].as_array().expect("points");
    assert_eq!(points.len(), 3 * 3, "three depths; two jobs and all together");
    let of = |row: &Value| row["point"]["scheduler"].clone();
    assert!(
        points.iter().all(|row| of(row) == "bfq" && row["figures"]["iops"]["pairs"] == 2),
        "{differences}"
    );
    // The mean of a difference is the geometric mean of the ratios of the pairs.
    let all = rows(&bench, "out");
    let iops = |scheduler: &str, seed: u64| {
        let wanted = |row: &&Value| {
            row["point"]["scheduler"] == scheduler && row["seed"] == seed && row["job"] == "*"
        };
        all.iter().find(wanted).expect("a run")["figures"]["iops"].as_f64().expect("a rate")
    };
    let [three, seven] = [3, 7].map(|seed| iops("bfq", seed) / iops("none", seed));
    let expected = 100.0 * ((three * seven).sqrt() - 1.0);
    let found = &points.iter().find(|row| row["job"] == "*").expect("all jobs")["figures"]["iops"];
    let [mean, low, high] =
        ["mean_percent", "low_95_percent", "high_95_percent"].map(|key| found[key].as_f64());
    assert!((mean.expect("a difference") - expected).abs() < 1e-6, "{found} and {expected}");
    assert!(low > Some(-100.0) && low <= mean && mean <= high, "{found}");
    let (comparisons, chance) = (&differences["comparisons"], &differences["clear_by_chance"]);
    assert_eq!(comparisons.as_f64().map(|count| count / 20.0), chance.as_f64(), "{differences}");
}

/// Of a sample each axis of numbers has a plot with all points, of all jobs and of each; the axis
/// that is compared is not drawn from, so that there are pairs.
#[test]
fn a_sample_is_drawn_as_dots_and_compared() {
    let bench = bench();
    let over = ["--over", "iodepth=1..64", "--over", "bs=4k..64k", "--over", "scheduler=none,bfq"];
    let sample = ["job.fio", "--sample", "sobol:6", "--compare", "scheduler=none"];
    let whole = files(&bench, "out", &[&sample[..], &over[..]].concat());
    assert_eq!(
        rows(&bench, "out").len(),
        12 * 3,
        "six places, two schedulers; two jobs and all together"
    );
    let summary = String::from_utf8(whole[3].clone()).expect("text");
    assert_eq!(
        summary.lines().filter(|line| line.contains(" bfq ") && line.contains(" % ")).count(),
        6 * 3
    );
    let page = String::from_utf8(whole[4].clone()).expect("text");
    // Two axes of numbers, four figures, two jobs and all together.
    assert_eq!(page.matches("<figure").count(), 2 * 4 * 3);
    assert_eq!(
        page.matches("<circle class=\"fill k0\" cx").count(),
        2 * 4 * 3 * (6 + 1),
        "dots, and one of a legend"
    );
    assert!(
        page.contains("job reader, by iodepth") && page.contains("reader: 99% latency"),
        "{page}"
    );
    let other = ["job.fio", "--sample", "sobol:6", "--compare", "scheduler=bfq", "-o", "out"];
    assert!(sweep(&bench, &[&other[..], &over[..]].concat()).status.success(), "the same runs");
    let none =
        sweep(&bench, &[&["job.fio", "--sample", "sobol:6", "-o", "out"], &over[..]].concat());
    assert!(
        none.status.code() == Some(2),
        "other points: {}",
        String::from_utf8_lossy(&none.stderr)
    );
}

/// Warnings that differ in a swept value alone are one.
#[test]
fn values_that_vary_are_no_other_warning() {
    let bench = bench();
    let over =
        ["job.fio", "--device", "sata-ssd-860evo", "--over", "nr_requests=32..36:+1", "-o", "out"];
    let told = String::from_utf8_lossy(&sweep(&bench, &over).stderr).into_owned();
    assert_eq!(told.matches("warning").count(), 1, "{told}");
    assert!(
        told.contains("--set nr_requests=...: in force is 32")
            && told.contains("(in 4 of 5 points)"),
        "{told}"
    );
}

/// The least latency is that of one I/O at a time, an end of the axis that a sample does not have.
#[test]
fn a_search_finds_the_ends_of_axes() {
    let bench = Bench::new();
    bench.file(
        "job.fio",
        "[a]\nioengine=libaio\ndirect=1\nrw=randread\nbs=4k\nsize=64m\nnumber_ios=300\n",
    );
    for seed in ["1", "2", "3"] {
        let goals = [
            "tune",
            "job.fio",
            "--maximise",
            "iops",
            "--minimise",
            "p99",
            "--over",
            "iodepth=1..256",
        ];
        let rest =
            ["--over", "scheduler=none,bfq,kyber", "--seed", seed, "--output-format", "json"];
        let report: Value =
            serde_json::from_str(&bench.stdout(&[&goals[..], &rest].concat())).expect("JSON");
        let last =
            report["best"].as_array().and_then(|best| best.last()?.as_u64()).expect("a front");
        let point = &report["trials"][last as usize]["point"];
        assert_eq!(
            (&point["iodepth"], &point["scheduler"]),
            (&"1".into(), &"none".into()),
            "seed {seed}"
        );
    }
}

#[test]
fn a_bad_goal_is_one_line() {
    let bench = bench();
    let over = ["--over", "reader:iodepth=1,2"];
    for (arguments, part) in [
        (&[][..], "give one goal or two"),
        (&["--maximise", "iops", "--subject-to", "p99"], "--subject-to p99: must be FIGURE<VALUE"),
        (&["--maximise", "p99", "--minimise", "lat_p99_ns"], "lat_p99_ns is both goals"),
        (&["--maximise", "speed"], "no run has speed; must be columns"),
        (&["--minimise", "nobody:p99"], "no run has nobody:lat_p99_ns"),
        (
            &["--maximise", "read_iops", "--subject-to", "trim_iops>5"],
            "no run has trim_iops; must be",
        ),
    ] {
        let run = bench
            .elevon(&[&["tune", "job.fio"], &over[..], arguments].concat())
            .output()
            .expect("the command ran");
        let told = String::from_utf8_lossy(&run.stderr);
        assert!(
            run.status.code() == Some(2) && told.contains(part) && told.lines().count() == 1,
            "{told}"
        );
    }
}

/// The figures of the answer are of seeds that the search did not use, with their interval.
#[test]
fn the_best_is_run_again_with_other_seeds() {
    let bench = bench();
    let tune = [
        "tune",
        "job.fio",
        "--device",
        "sata-ssd-860evo",
        "--maximise",
        "iops",
        "--over",
        "reader:iodepth=1..8",
    ];
    let json = |more: &[&str]| -> Value {
        let args = [&tune[..], more, &["--output-format", "json"]].concat();
        serde_json::from_str(&bench.stdout(&args)).expect("JSON")
    };
    let report = json(&[]);
    assert_eq!(
        (&report["seeds"], &report["again"]["seeds"]),
        (&[1, 2, 3].into(), &(4..14).collect::<Vec<u64>>().into())
    );
    let again = report["again"]["trials"].as_array().expect("trials");
    assert!(again.len() == 4 && report["best"][0] == again[0]["trial"], "{report}");
    for trial in again {
        assert!(trial["figures"]["iops"]["half_width_95"].as_f64() > Some(0.0), "{trial}");
        let [low, high] = ["low_95", "high_95"]
            .map(|end| trial["ratio_of_best"][end].as_f64().expect("an interval"));
        assert!(0.0 < low && low <= high, "{trial}");
    }
    assert_eq!(
        json(&["--seeds", "3,5"])["again"]["seeds"],
        Value::from((6..16).collect::<Vec<u64>>())
    );
    assert_eq!(json(&["--seed", "20"])["seeds"], Value::from([20, 21, 22]));
    let text = bench.stdout(&tune);
    assert!(text.contains("Run again with seeds 4 to 13, which the search did not use"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("The best cannot be told from")
            || words.contains("The best differs from each"),
        "{text}"
    );
}

/// Linux does not have `aileron`: it is charged CPU time as the others are, and every command says
/// so.
#[test]
fn aileron_is_charged_cpu_time_and_named_as_not_in_linux() {
    let bench = bench();
    let aileron = ["job.fio", "--scheduler", "aileron"];
    let run = |more: &[&str]| bench.stdout(&[&["run"], &aileron[..], more].concat());
    let note = "aileron is Elevon's own scheduler, Linux does not have it";
    let estimate = format!(
        "{note}; its CPU time, 7.15us an I/O, is an estimate from that of bfq (docs/explanation/aileron.md)"
    );
    let text = run(&[]);
    assert!(
        text.contains(&format!("Note: {estimate}\n"))
            && text.contains("cpu_cost=scheduler=7.15us,lock=4.9us"),
        "{text}"
    );
    assert!(
        run(&["--cpu-cost", "scheduler=3us"])
            .contains(&format!("Note: {note}; its CPU time is 3us an I/O, as given"))
    );
    assert!(
        run(&["--cpu-cost", "scheduler=0"])
            .contains(&format!("Note: {note}; it is charged no CPU time here"))
    );
    let report: Value = serde_json::from_str(&run(&["--output-format", "json"])).expect("JSON");
    assert_eq!(report["elevon"]["scheduler"]["note"], estimate);
    let compare = ["compare", "job.fio", "--vs", "--scheduler aileron"];
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(bench.stdout(&compare).contains(&format!("Note: {estimate}\n")));
    assert!(words(&bench.stdout(&[&compare[..], &["--seeds", "2"]].concat())).contains(&estimate));
    let over = ["--over", "scheduler=bfq,aileron"];
    let summary = words(&bench.stdout(&[&["sweep", "job.fio", "-o", "out"], &over[..]].concat()));
    assert!(summary.contains(&format!("Warning: {estimate} (in 1 of 2 ")), "{summary}");
    let tuned =
        words(&bench.stdout(&[&["tune", "job.fio", "--maximise", "iops"], &over[..]].concat()));
    assert!(tuned.contains(&format!("Warning: {estimate} (in 3 of 6 runs)")), "{tuned}");
    assert!(
        !bench.stdout(&["run", "job.fio", "--scheduler", "bfq"]).contains("Linux does not have it")
    );
}
