//! Tests `elevon inspect`: its output, and its figures against those of blkparse, btt and fio.

use std::path::Path;

use crate::common::{Bench, kernel_truth};
use elevon_testkit::tool;
use serde_json::Value;

fn inspect(bench: &Bench, trace: &Path, more: &[&str]) -> Value {
    let trace = trace.to_str().expect("a name");
    let args = [&["inspect", trace, "--output-format", "json"], more].concat();
    serde_json::from_str(&bench.stdout(&args)).expect("JSON")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number, not {value}"))
}

#[test]
fn text_for_people() {
    let bench = Bench::new();
    let trace = kernel_truth("traces/dd-64m-direct-ext4-none-512.ftrace");
    std::fs::copy(trace, bench.path("dd.ftrace")).expect("a copy");
    let text = bench.stdout(&["inspect", "dd.ftrace"]);
    insta::assert_snapshot!(text);
    assert_eq!(text, bench.stdout(&["inspect", "dd.ftrace"]), "the same bytes");
}

/// A trace may say that events were lost, and not how many.
#[test]
fn lost_events_of_unknown_number_are_not_none() {
    let bench = Bench::new();
    let line = |time: u32, cpu: u32| {
        format!("a-1 [00{cpu}] 1.00000{time}: block_bio_queue: 8,0 R 8 + 8 [a]\n")
    };
    for (name, gap, words, count) in [
        (
            "unknown",
            "##### CPU 1 buffer started ####\n",
            "gaps: 1 with an unknown number of events lost",
            None,
        ),
        ("known", "CPU:1 [LOST 42 EVENTS]\n", "gaps: 1 with 42 events lost", Some(42)),
        (
            "both",
            "CPU:1 [LOST 42 EVENTS]\nCPU:0 [LOST EVENTS]\n",
            "gaps: 2 with at least 42 events lost",
            None,
        ),
    ] {
        bench.file(name, &(line(1, 0) + gap + &line(2, 1) + &line(3, 0)));
        let text = bench.stdout(&["inspect", name]);
        assert!(text.contains(words), "{text}");
        assert_eq!(
            inspect(&bench, Path::new(name), &[])["trace"]["lost_events"].as_u64(),
            count,
            "{name}"
        );
    }
}

#[test]
fn a_trace_of_several_devices_asks_for_one() {
    let bench = Bench::new();
    let line =
        |device: &str| format!("a-1 [000] 1.000001: block_bio_queue: {device} R 8 + 8 [a]\n");
    bench.file("two", line("8,0") + &line("8,16"));
    bench.file("none", "# tracer: nop\n");
    bench.file("text", "no trace at all\n");
    bench.file("damaged", "# tracer: nop\na-1 [000] 1.x: block_bio_queue: 8,0 R 8 + 8 [a]\n");
    for (args, expected) in [
        (
            vec!["two"],
            "elevon: two: it has events of several devices; choose one with --dev: 8:0 (1 events), 8:16 (1 events)\n",
        ),
        (
            vec!["two", "--dev", "9:9"],
            "elevon: two: it has no event of device 9:9; there are 8:0 (1 events), 8:16 (1 events)\n",
        ),
        (
            vec!["two", "--dev", "sda"],
            "elevon: two: it names no device sda; there are 8:0 (1 events), 8:16 (1 events)\n",
        ),
        (vec!["two", "--dev", ""], "elevon: --dev: a device is MAJ:MIN, such as 8:0, not \"\"\n"),
        (vec!["none"], "elevon: none: it has no event of a block device\n"),
        (
            vec!["damaged", "--dev", "8:0"],
            "elevon: damaged: it has no event of a block device; 1 lines or records of it cannot be read, \
             such as line 2: expected a time in seconds\n",
        ),
        (
            vec!["two", "--requests", "x.txt"],
            "elevon: --requests x.txt: expected a name that ends with .csv or .parquet\n",
        ),
    ] {
        let output = bench.elevon(&[&["inspect"], &args[..]].concat()).output().expect("it ran");
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
            (Some(2), expected)
        );
        assert_eq!(output.stdout, b"");
    }
    let output = bench.elevon(&["inspect", "text"]).output().expect("it ran");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no trace of a known format"));
    assert_eq!(inspect(&bench, Path::new("two"), &["--dev", "8:16"])["events"]["queue"], 1);
    assert_eq!(bench.names(), ["damaged", "none", "text", "two"], "nothing is left behind");
}

/// Returns a number of blkparse's summary: `Reads Queued: 104, 20892KiB`.
fn blkparse_total(summary: &str, what: &str) -> u64 {
    let total = summary.split("Total (").nth(1).expect("a total");
    let rest =
        total.split(&format!("{what}:")).nth(1).unwrap_or_else(|| panic!("{what} in {total}"));
    rest.split([',', '\t', '\n'])
        .next()
        .and_then(|text| text.trim().parse().ok())
        .expect("a number")
}

#[test]
fn counts_are_blkparses() {
    if tool("blkparse").is_none() {
        return;
    }
    let bench = Bench::new();
    for name in ["dd-none", "dd-mq-deadline"] {
        for cpu in 0..2 {
            let file = format!("{name}.blktrace.{cpu}");
            std::fs::copy(kernel_truth(&format!("blktrace-6.1/{file}")), bench.path(&file))
                .expect("a copy");
        }
        let blkparse = std::process::Command::new("blkparse")
            .args(["-i", name])
            .current_dir(bench.path(""))
            .output();
        let summary = String::from_utf8(blkparse.expect("it ran").stdout).expect("UTF-8");
        let found = inspect(&bench, &bench.path(name), &[]);
        for (what, ours) in [
            ("Reads Queued", &found["bios"]["read"]["count"]),
            ("Writes Queued", &found["bios"]["write"]["count"]),
            ("Read Dispatches", &found["requests"]["read"]["issued"]),
            ("Write Dispatches", &found["requests"]["write"]["issued"]),
            ("Reads Completed", &found["requests"]["read"]["completed"]),
            ("Writes Completed", &found["requests"]["write"]["completed"]),
            ("Reads Requeued", &found["requeues"]),
            ("Read Merges", &found["merges"]["back"]),
        ] {
            assert_eq!(number(ours), blkparse_total(&summary, what), "{name}: {what}");
        }
        let kib = number(&found["requests"]["read"]["bytes"]) / 1024;
        assert!(summary.contains(&format!("{kib}KiB")), "{name}: {kib}KiB read");
    }
}

/// Returns a row of btt's `.avg` file: minimum, mean, maximum in nanoseconds, and count.
fn btt_row(text: &str, name: &str) -> [u64; 4] {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("{name} in {text}"));
    let words: Vec<f64> =
        line.split_whitespace().skip(1).map(|word| word.parse().expect("a number")).collect();
    [words[0] * 1e9, words[1] * 1e9, words[2] * 1e9, words[3]].map(|value| value.round() as u64)
}

/// Compares stages of a trace of Elevon to the nanosecond. The trace has no splits and merges,
/// because btt does not follow split bios, and counts a request's device time once for each of its
/// bios.
#[test]
fn latency_by_stage_is_btts() {
    if tool("blkparse").is_none() || tool("btt").is_none() {
        return;
    }
    let bench = Bench::new();
    let job = "[a]\nrw=randread\nbs=4k\niodepth=16\nnumber_ios=600\nioengine=libaio\ndirect=1\n\
               [b]\nrw=randwrite\nbs=8k\niodepth=4\nnumber_ios=300\nioengine=libaio\ndirect=1\n";
    bench.file("job.fio", job);
    let device = "slots:slots=4,latency=1ms,bandwidth=500MB/s,size=1GiB,queue_depth=8";
    let stdout = bench.stdout(&[
        "run",
        "job.fio",
        "--device",
        device,
        "--scheduler",
        "mq-deadline",
        "--trace",
        "t.blktrace",
    ]);
    assert!(!stdout.is_empty());
    let run = |program: &str, args: &[&str]| {
        let output =
            std::process::Command::new(program).args(args).current_dir(bench.path("")).output();
        assert!(output.expect("it ran").status.success(), "{program}");
    };
    run("blkparse", &["-i", "t", "-d", "t.bin", "-O"]);
    run("btt", &["-i", "t.bin", "-o", "t.btt"]);
    let btt = std::fs::read_to_string(bench.path("t.btt.avg")).expect("btt's averages");
    let found = inspect(&bench, &bench.path("t.blktrace.0"), &[]);
    for (name, stage) in [
        ("Q2G", "queue_to_allocated"),
        ("G2I", "allocated_to_inserted"),
        ("I2D", "inserted_to_issued"),
        ("D2C", "issued_to_completed"),
        ("Q2C", "bio_total"),
    ] {
        let both = ["read", "write"].map(|group| &found["latency"][group][stage]);
        let count: u64 = both.iter().map(|stat| number(&stat["count"])).sum();
        let sum: f64 = both
            .iter()
            .map(|s| s["mean_ns"].as_f64().expect("a mean") * number(&s["count"]) as f64)
            .sum();
        let min = both.iter().map(|stat| number(&stat["min_ns"])).min().expect("two");
        let max = both.iter().map(|stat| number(&stat["max_ns"])).max().expect("two");
        let [btt_min, btt_mean, btt_max, btt_count] = btt_row(&btt, name);
        // btt has no time of 0, and loses a request if another one has the same place at the same
        // time.
        assert_eq!((min.max(1), max.max(1)), (btt_min, btt_max), "{name}");
        let lost = count.abs_diff(btt_count);
        assert!(lost <= 2, "{name}: {count} {btt_count}");
        assert!(
            btt_mean.abs_diff((sum / count as f64) as u64) <= 1 + lost * max / count,
            "{name}: {btt_mean}"
        );
    }
}

/// fio ran four jobs on a real kernel while the trace was recorded. Every I/O is in the trace, and
/// takes slightly less time than fio measured.
#[test]
fn figures_are_what_fio_reported_of_the_same_run() {
    let bench = Bench::new();
    let fio =
        std::fs::read_to_string(kernel_truth("whatif/mq-deadline.json")).expect("fio's figures");
    let fio: Value = serde_json::from_str(&fio).expect("JSON");
    let found = inspect(&bench, &kernel_truth("whatif/mq-deadline.ftrace.zst"), &[]);
    let processes = found["processes"].as_array().expect("processes");
    for (job, direction, bytes) in [
        ("db", "read", 8192),
        ("log", "write", 65536),
        ("scan", "read", 1 << 20),
        ("bulk", "write", 32768),
    ] {
        let theirs = &fio["result"][job][direction];
        let ios = number(&theirs["ios"]);
        let is_it = |process: &&Value| process["bios"][direction] == ios;
        let ours = processes.iter().find(is_it).unwrap_or_else(|| panic!("{job}: {ios} I/Os"));
        assert_eq!(number(&ours["bytes"][direction]), ios * bytes, "{job}");
        let latency = &ours["latency"][direction];
        assert_eq!(number(&latency["count"]), ios, "{job}: each is followed to its end");
        let mean = latency["mean_ns"].as_f64().expect("a mean") / 1e3;
        let clat = theirs["clat_mean_us"].as_f64().expect("a mean");
        assert!(mean < clat && mean > clat * 0.98, "{job}: {mean} us, fio {clat} us");
        let p99 = latency["percentile_ns"]["p99"].as_f64().expect("a percentile") / 1e3;
        let fio_p99 = theirs["p99_us"].as_f64().expect("a percentile");
        assert!((p99 / fio_p99 - 1.0).abs() < 0.02, "{job}: p99 {p99} us, fio {fio_p99} us");
    }
}

/// There is a row for each request, with the process of its bio, not the kernel thread that issued
/// it.
#[test]
fn requests_as_csv() {
    let bench = Bench::new();
    let trace = kernel_truth("traces/dd-1028k-direct.ftrace");
    let found = inspect(&bench, &trace, &["--requests", "r.csv"]);
    let csv = std::fs::read_to_string(bench.path("r.csv")).expect("a file");
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let at = |name: &str| header.iter().position(|column| *column == name).expect("a column");
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len() as u64, number(&found["requests"]["read"]["completed"]));
    assert!(
        rows.iter().all(|row| row.len() == header.len() && row[at("process")] == "dd"),
        "{csv}"
    );
    let sum = |name: &str| {
        rows.iter().map(|row| row[at(name)].parse::<u64>().expect("a number")).sum::<u64>()
    };
    assert_eq!(sum("bytes"), number(&found["requests"]["read"]["bytes"]));
    let device = (sum("completed_ns") - sum("issued_ns")) as f64 / rows.len() as f64;
    let mean = found["latency"]["read"]["issued_to_completed"]["mean_ns"].as_f64().expect("a mean");
    assert!((device - mean).abs() < 1.0, "{device} {mean}");
    assert_eq!(rows[0][at("class")], "be");
    inspect(&bench, &trace, &["--requests", "r.parquet"]);
    let parquet = std::fs::read(bench.path("r.parquet")).expect("a file");
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
}

/// Opens the page in a real browser: it unpacks every request, and shows the one that its address
/// names.
#[test]
fn a_page_that_goes_to_a_single_request() {
    let Some(mut browser) = tool("chromium") else { return };
    let bench = Bench::new();
    let trace = kernel_truth("traces/dd-64m-direct-ext4-none-512.ftrace");
    let found = inspect(&bench, &trace, &["--html", "page.html", "--requests", "r.csv"]);
    let page = std::fs::read(bench.path("page.html")).expect("a page");
    inspect(&bench, &trace, &["--html", "again.html"]);
    assert_eq!(page, std::fs::read(bench.path("again.html")).expect("a page"), "the same bytes");
    let text = String::from_utf8(page).expect("UTF-8");
    assert!(!text.contains("http://") && !text.contains("https://"), "the page needs nothing else");
    let address = format!("file://{}#request=100", bench.path("page.html").display());
    let profile = format!("--user-data-dir={}", bench.path("profile").display());
    // With a virtual-time budget, timers of the page expire without waiting.
    let output = browser
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=20000",
            "--dump-dom",
        ])
        .args([&profile, &address])
        .output()
        .expect("it ran");
    let dom = String::from_utf8_lossy(&output.stdout);
    let body = dom.split("<body").nth(1).and_then(|rest| rest.split('>').next()).expect("a body");
    let count = number(&found["requests"]["read"]["completed"]);
    assert!(
        body.contains("data-ready=\"yes\"") && body.contains(&format!("data-requests=\"{count}\"")),
        "{body}"
    );
    // The request and its neighbours are drawn.
    let bars = body
        .split("data-bars=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .expect("a number");
    assert!((1..=count).contains(&bars.parse().expect("a number")), "{body}");
    let picked = dom
        .split("id=\"picked\"")
        .nth(1)
        .and_then(|rest| rest.split('<').next())
        .expect("the request");
    // Finds the same request in the rows, which are in order of completion.
    let csv = std::fs::read_to_string(bench.path("r.csv")).expect("rows");
    let mut rows: Vec<Vec<u64>> = csv
        .lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            [cells[0], cells[7], cells[8]].map(|cell| cell.parse().expect("a number")).to_vec()
        })
        .collect();
    rows.sort();
    let (sector, bytes) = (rows[100][1], rows[100][2]);
    let expected = format!("request 100: read of {} KiB at sector {sector}, dd (", bytes / 1024);
    assert!(picked.contains(&expected), "{picked}: {expected}");
}

/// Of CSV traces, which name volumes and may lack response times, names and rates are shown, and
/// what was assumed is said.
#[test]
fn traces_of_whole_ios_have_names_rates_and_notes() {
    let bench = Bench::new();
    let msr = |time: u64, disk: u32| {
        format!("1281663720{time:08},hm,{disk},Read,{},4096,1000\n", time * 512)
    };
    bench.file("msr.csv", (0..20).map(|n| msr(n * 1000, (n % 2) as u32)).collect::<String>());
    let output = bench.elevon(&["inspect", "msr.csv"]).output().expect("it ran");
    let expected = "elevon: msr.csv: it has events of several devices; choose one with --dev: \
                    0:0 hm.0 (10 events), 0:1 hm.1 (10 events)\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert!(
        bench
            .stdout(&["inspect", "msr.csv", "--dev", "0:1"])
            .starts_with("msr.csv: msr, device 0:1 hm.1, 10 ")
    );
    let alibaba = |n: u64| format!("7,R,{},4096,{}\n", n * 8192, 1_577_808_144_000_000 + n * 1000);
    bench.file("ali.csv", (0..101).map(alibaba).collect::<String>());
    let text = bench.stdout(&["inspect", "ali.csv"]);
    let row = text.lines().find(|line| line.starts_with("read ")).expect("a row of reads");
    assert!(row.contains(" 1010.0 "), "101 I/Os in 0.1 s: {row}");
    bench.file(
        "tencent.csv",
        "1538323200,8,8,0,7\n1538323200,88,8,1,7\nrubbish\n1538323201,8,8,0,7\n",
    );
    let output = bench.elevon(&["inspect", "tencent.csv"]).output().expect("it ran");
    let expected = "elevon: tencent.csv: line 3: expected five fields: time, offset, size, 0 or 1, volume; \
                    this line was skipped\n\
                    elevon: tencent.csv: times are whole seconds: the I/Os of a second are spread evenly over it\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert_eq!(
        inspect(&bench, Path::new("tencent.csv"), &[])["trace"]["notes"].as_array().map(Vec::len),
        Some(1)
    );
}

/// A device without requests (device mapper) and volumes of a CSV trace have no depth and no busy
/// time, which is not the same as 0.
#[test]
fn what_a_device_without_requests_does_not_tell_is_unknown() {
    let bench = Bench::new();
    let line = |us: u64, event: &str| format!("pg-1 [000] 1.{us:06}: block_{event}\n");
    let bio = |n: u64| {
        let (at, place) = (n * 1000, format!("253,0 R {} + 16", n * 100));
        line(at, &format!("bio_queue: {place} [pg]"))
            + &line(at + 400, &format!("bio_complete: {place} [0]"))
    };
    bench.file("dm.txt", (0..200).map(bio).collect::<String>());
    let msr = |n: u64| format!("128166372{:09},usr,0,Read,{},8192,4000\n", n * 10_000, n * 51_200);
    bench.file("msr.csv", (0..200).map(msr).collect::<String>());
    bench.stdout(&["convert", "msr.csv", "msr.blktrace"]);
    for name in ["dm.txt", "msr.csv", "msr.blktrace.0"] {
        let text = bench.stdout(&["inspect", name]);
        assert!(!text.contains("%util") && !text.contains("Depth in device"), "{name}: {text}");
        assert!(
            text.contains("Findings: none. This trace ") && !text.contains("passes the threshold"),
            "{text}"
        );
        let time = text
            .lines()
            .skip_while(|line| !line.starts_with("Time "))
            .nth(3)
            .expect("a row of time");
        let cells: Vec<&str> = time.split_whitespace().collect();
        assert!(cells[2].parse::<f64>().is_ok_and(|rate| rate > 800.0), "{name}: {time}");
        assert_eq!(cells[7..10], ["-", "-", "-"], "{name}: {time}");
        let found = inspect(&bench, Path::new(name), &[]);
        for key in ["depth", "utilisation", "merges", "requeues"] {
            assert!(found[key].is_null(), "{name}: {key}: {}", found[key]);
        }
        assert!(
            found["timeline"]["busy_ns"].is_null()
                && found["processes"][0]["device_time_ns"].is_null(),
            "{name}"
        );
        let completed = found["timeline"]["reads_completed"].as_array().expect("completions");
        assert_eq!(completed.iter().map(number).sum::<u64>(), 200, "{name}");
    }
}

/// Of a gap the table over time tells nothing, and rates are of the time without it.
#[test]
fn rates_leave_out_lost_time() {
    let bench = Bench::new();
    let read = |ms: u64| {
        let line =
            |us: u64, event: &str| format!("a-1 [000] {}.{us:06}: block_{event}\n", ms / 1000);
        let (us, place) = (ms % 1000 * 1000, format!("{} + 8", ms * 64));
        line(us, &format!("rq_issue: 8,0 R 4096 () {place} [a]"))
            + &line(us + 500, &format!("rq_complete: 8,0 R () {place} [0]"))
    };
    let text: String = (0..500)
        .map(read)
        .chain(["CPU:0 [LOST 2000 EVENTS]\n".to_owned()])
        .chain((1500..2000).map(read))
        .collect();
    bench.file("gap.txt", text);
    let text = bench.stdout(&["inspect", "gap.txt"]);
    let row = text.lines().find(|line| line.starts_with("read ")).expect("reads");
    assert!(row.contains(" 1001.0 "), "1000 in 0.999 s: {row}");
    assert!(
        text.contains("%util): exact 50.1 %;")
            && text.contains("the device was busy 50.1 % of the time"),
        "{text}"
    );
    let lines = text
        .lines()
        .skip_while(|line| !line.starts_with("Time "))
        .skip(1)
        .take_while(|line| !line.is_empty());
    let rates: Vec<&str> = lines.filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert!(
        rates.iter().filter(|&&rate| rate == "-").count() >= 4 && !rates.contains(&"0"),
        "{rates:?}"
    );
    assert_eq!(number(&inspect(&bench, Path::new("gap.txt"), &[])["observed_ns"]), 999_000_000);
}

/// The rows of requests of whole I/Os have the operation.
#[test]
fn whole_ios_have_their_operation() {
    let bench = Bench::new();
    bench.file(
        "msr.csv",
        "128166372000000000,usr,0,Read,0,4096,100\n128166372000010000,usr,0,Write,4096,4096,100\n",
    );
    bench.stdout(&["inspect", "msr.csv", "--requests", "rows.csv"]);
    let rows = std::fs::read_to_string(bench.path("rows.csv")).expect("rows");
    let operations: Vec<Vec<&str>> =
        rows.lines().skip(1).map(|row| row.split(',').skip(5).take(2).collect()).collect();
    assert_eq!(operations, [["read", "R"], ["write", "W"]]);
}
