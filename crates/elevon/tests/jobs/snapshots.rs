//! Tests the output of small runs, which is the same on every machine.

use crate::common::Bench;
use serde_json::Value;

/// Two jobs, one after the other, short enough to read: with splits, a group of clones, some
/// percentiles.
const JOB: &str = "\
[global]
ioengine=io_uring
direct=1
size=256m

[reader]
description=small random reads of two processes
rw=randread
bs=4k
iodepth=4
numjobs=2
group_reporting
number_ios=200

[writer]
stonewall
rw=write
bs=300k
iodepth=2
number_ios=40
fsync=20
";

const SLOTS: &str = "slots:slots=4,latency=1ms,bandwidth=400MB/s,size=1GiB,rotational=0";

/// Removes the version, which changes for other reasons.
fn unversioned(text: &str) -> String {
    text.replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

fn bench() -> Bench {
    let bench = Bench::new();
    bench.file("two.fio", JOB);
    bench
}

#[test]
fn text_report() {
    let text = bench().stdout(&["run", "two.fio", "--device", SLOTS]);
    insta::assert_snapshot!(unversioned(&text));
}

/// Jobs through a page cache that is smaller than what they read, with each kind of call.
const CACHED: &str = "\
[global]
size=24m
group_reporting
percentile_list=50:99

[same]
filename=file
rw=randread
numjobs=2

[mapped]
stonewall
new_group
filename=file
ioengine=mmap
fadvise_hint=0
rw=randread
number_ios=2000

[writer]
stonewall
new_group
filename=other
rw=write
bs=64k
end_fsync=1
";

#[test]
fn a_page_cache() {
    let bench = bench();
    bench.file("cached.fio", CACHED);
    let options =
        ["--memory", "32MiB,others=8MiB", "--kernel", "6.1", "--set", "activity=page-exact"];
    let run = |more: &[&str]| {
        let fixed = ["run", "cached.fio", "--device", "ufs-4.0"];
        bench.stdout(&fixed.iter().chain(&options).chain(more).copied().collect::<Vec<_>>())
    };
    let text = run(&[]);
    assert_eq!(text, run(&[]), "the same seed, the same bytes");
    let from = text.find("Page cache:").expect("a section of it");
    insta::assert_snapshot!(text[from..].split("\n\n").next().expect("a paragraph"));
    let json: Value = serde_json::from_str(&run(&["--output-format", "json"])).expect("JSON");
    let cache = &json["elevon"]["cache"];
    assert_eq!(cache["jobs"][0]["read"]["calls"], 2 * 6144);
    let reads = cache["counters"]["pages"]["hits"]
        .as_u64()
        .zip(cache["counters"]["pages"]["misses"].as_u64());
    assert_eq!(reads.map(|(hits, misses)| hits + misses), Some(2 * 6144));
    assert!(cache["counters"]["replacement"]["evicted"].as_u64() > Some(1000));
    assert_eq!(json["elevon"]["config"]["memory"], "32MiB");
    assert_eq!(json["jobs"][2]["write"]["io_bytes"], 24 << 20);
}

#[test]
fn without_memory_buffered_jobs_are_direct_ones_and_say_so() {
    let bench = bench();
    bench.file("cached.fio", CACHED);
    let run = |memory: &[&str]| {
        let args = ["run", "cached.fio", "--device", SLOTS];
        bench
            .elevon(&args.iter().chain(memory).copied().collect::<Vec<_>>())
            .output()
            .expect("the command ran")
    };
    let said = |memory: &[&str]| String::from_utf8(run(memory).stderr).expect("UTF-8");
    assert!(said(&[]).contains(
        "runs as direct=1 without a page cache (--memory; before a real device --cache)"
    ));
    assert_eq!(said(&["--memory", "1GiB"]), "");
}

#[test]
fn iostat_as_time_goes_by() {
    let text = bench().stdout(&["run", "two.fio", "--device", SLOTS, "--iostat", "0.025"]);
    let lines: Vec<&str> = text.lines().take_while(|line| !line.starts_with("elevon ")).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn comparison_fits_80_columns() {
    let more = [
        "--vs",
        "--scheduler mq-deadline",
        "--vs",
        "--set fill=max-sectors --set max_sectors_kb=128",
    ];
    let text = bench().stdout(&[&["compare", "two.fio", "--device", SLOTS][..], &more].concat());
    // The legend has a line per variant, as long as its options; the table fits a terminal.
    let table = text.lines().skip_while(|line| !line.starts_with("job "));
    assert!(table.clone().count() > 10, "{text}");
    table.for_each(|line| assert!(line.chars().count() <= 80, "{line}"));
    insta::assert_snapshot!(text);
}

#[test]
fn what_there_is() {
    let bench = bench();
    insta::assert_snapshot!("devices", bench.stdout(&["devices"]));
    let disk = bench.stdout(&["devices", "hdd-7200"]);
    for words in [
        "1000 GB",
        "Parameters",
        "rpm",
        "Sources:",
        "closed form",
        "random read 4 KiB, depth 31",
        "IOPS",
    ] {
        assert!(disk.contains(words), "elevon devices hdd-7200 does not say {words}:\n{disk}");
    }
    insta::assert_snapshot!("schedulers_mq_deadline", bench.stdout(&["schedulers", "mq-deadline"]));
    let all = bench.stdout(&["schedulers"]);
    for name in
        ["none:", "mq-deadline:", "kyber:", "max_sectors_kb", "nr_requests", "io_ticks", "fill"]
    {
        assert!(all.contains(name), "elevon schedulers does not name {name}");
    }
}

/// Lists keys with their values; lists and objects of numbers are one line.
fn flat(value: &Value, path: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(map)
            if map.values().any(|v| v.is_object() || v.is_array() || v.is_string())
                || path.is_empty() =>
        {
            map.iter().for_each(|(key, value)| flat(value, &format!("{path}/{key}"), out));
        }
        Value::Array(list) if list.iter().any(Value::is_object) => {
            list.iter().enumerate().for_each(|(i, value)| flat(value, &format!("{path}/{i}"), out));
        }
        _ => out.push(format!("{path} {value}")),
    }
}

#[test]
fn json_report() {
    let json = bench().json("two.fio", &["--device", SLOTS]);
    let mut lines = Vec::new();
    flat(&json, "", &mut lines);
    insta::assert_snapshot!(unversioned(&lines.join("\n")));
}

#[test]
fn json_says_what_scripts_ask_for() {
    let json = bench().json("two.fio", &["--device", SLOTS, "--seed", "7", "--kernel", "6.12"]);
    let [reader, writer] = json["jobs"].as_array().expect("jobs").as_slice() else {
        panic!("two entries: {json}")
    };
    assert_eq!((&reader["jobname"], &reader["read"]["total_ios"]), (&"reader".into(), &400.into()));
    // Two processes keep four I/Os in flight on four slots, each of 1 ms and 10 us: slightly less
    // than 4000 per second.
    let iops = reader["read"]["iops"].as_f64().expect("a rate");
    assert!((3900.0..4000.0).contains(&iops), "{iops}");
    assert_eq!(writer["write"]["io_bytes"], 40 * 300 * 1024);
    // With fsync=20 and 40 writes there is no fsync after the last write.
    assert_eq!(writer["sync"]["total_ios"], 1);
    assert_eq!(json["disk_util"][0]["read_ios"], 400);
    assert_eq!((&json["elevon"]["seed"], &json["elevon"]["kernel"]), (&7.into(), &"6.12".into()));
    assert_eq!(json["elevon"]["device"]["simulated"], true);
}

#[test]
fn same_seed_same_bytes_and_another_seed_others() {
    let bench = bench();
    // This model has random service times; slots has none.
    for more in
        [&[][..], &["--output-format", "json"], &["--trace", "run.ftrace"], &["--html", "run.html"]]
    {
        let run = |seed: &str| {
            let text = bench.stdout(
                &[&["run", "two.fio", "--device", "nvme-consumer", "--seed", seed], more].concat(),
            );
            let file = more.last().filter(|name| name.contains('.'));
            let bytes = file.map(|name| std::fs::read(bench.path(name)).expect("the file"));
            (text, bytes)
        };
        let (first, again, other) = (run("5"), run("5"), run("6"));
        assert!(first == again, "{more:?}: the same seed gave other bytes");
        assert!(
            first.0 != other.0 && (first.1.is_none() || first.1 != other.1),
            "{more:?}: another seed gave the same"
        );
    }
}
