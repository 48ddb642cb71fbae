//! The pictures of the README and of `docs/` show what the commands beside them print.
//! `UPDATE_DOCS=1 cargo test -p elevon --test manuals pictures` draws them again.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::Bench;
use elevon_report::plot::{Axis, Mark, Plot, Scale, Series, Unit, picture};
use elevon_testkit::hold_document;
use serde_json::Value;

/// Points of a report that are one point of a picture: 16 ms each.
const CHUNK: usize = 6;

/// Returns a folder that has what the commands name.
fn bench() -> Bench {
    let bench = Bench::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("a root");
    for name in ["jobs", "tests"] {
        symlink(root.join(name), bench.path(name)).expect("a link");
    }
    bench
}

/// Returns the report of `elevon run`, with the run over time.
fn report(bench: &Bench, command: &str) -> Value {
    let args: Vec<&str> = command.split_whitespace().chain(["--output-format", "json+"]).collect();
    serde_json::from_str(&bench.stdout(&args)).expect("JSON")
}

fn axis(title: &str, scale: Scale, unit: Unit) -> Axis {
    Axis { title: title.into(), scale, unit }
}

/// Returns the rate of a job or a tenant over time: `count` gives what happened in a point.
fn rate(owner: &Value, count: impl Fn(&Value) -> f64) -> Vec<(f64, f64)> {
    let points = owner["points"].as_array().expect("points");
    let mut from = 0.0;
    let chunks = points.chunks_exact(CHUNK);
    chunks
        .map(|chunk| {
            let until = chunk[CHUNK - 1]["at_ns"].as_f64().expect("a time");
            let sum: f64 = chunk.iter().map(&count).sum();
            let point = ((from + until) / 2.0, sum * 1e9 / (until - from));
            from = until;
            point
        })
        .collect()
}

/// Returns the sum over reads, writes and discards.
fn all(point: &Value, key: &str) -> f64 {
    point[key].as_array().expect("directions").iter().filter_map(Value::as_f64).sum()
}

/// The remedies of the noisy neighbour: name and options.
const REMEDIES: [(&str, &str); 4] = [
    ("no remedy", "--scheduler none"),
    ("io.max of 800 MB/s", "--scheduler none --tenants jobs/glance-limit.toml"),
    ("BFQ", "--scheduler bfq"),
    ("mq-deadline, backup idle", "--scheduler mq-deadline --tenants jobs/glance-idle.toml"),
];

/// Returns a number with a comma before each three digits.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The README and the tutorial have the reads and the writes of the second in which both jobs run.
#[test]
fn the_costs_of_the_remedies_are_those_of_the_command() {
    let bench = bench();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = ["README.md", "docs/tutorial/noisy-neighbour.md"]
        .map(|page| std::fs::read_to_string(root.join(page)).expect("the page"));
    for (name, options) in REMEDIES {
        let command = format!("run jobs/glance.fio --iostat 1 {options}");
        let printed = bench.stdout(&command.split_whitespace().collect::<Vec<_>>());
        let rows = printed.lines().filter(|line| line.starts_with("nvme-datacenter "));
        let row: Vec<&str> = rows.take(2).last().expect("two seconds").split(' ').collect();
        let row: Vec<f64> = row.iter().filter_map(|cell| cell.parse().ok()).collect();
        let writes = match row[7] * 1024.0 / 1e6 {
            0.0 => "0".to_owned(),
            rate => format!("{} MB/s", grouped(rate)),
        };
        let cells = format!("| {} | {writes} |", grouped(row[0]));
        for page in &pages {
            assert!(page.contains(&cells), "{name}: no row has {cells}");
        }
    }
}

#[test]
fn a_noisy_neighbour_and_its_remedies() {
    let bench = bench();
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for (colour, (name, options)) in REMEDIES.into_iter().enumerate() {
        let report = report(&bench, &format!("run jobs/glance.fio {options}"));
        let jobs = &report["elevon"]["series"]["jobs"];
        let series = |points| Series { name: name.into(), colour, points, ..Series::default() };
        reads.push(series(rate(&jobs[0], |point| all(point, "ios"))));
        writes.push(series(rate(&jobs[1], |point| all(point, "bytes"))));
    }
    let plot = |title: &str, y, unit, series| Plot {
        title: title.into(),
        description: "Over time, without a remedy and with three".into(),
        mark: Mark::Line,
        x: axis("time", Scale::Linear, Unit::Nanos),
        y: axis(y, Scale::Linear, unit),
        series,
    };
    let plots = [
        plot("Reads of the database", "reads a second", Unit::Count, reads),
        plot("Writes of the backup", "bandwidth", Unit::BytesPerSecond, writes),
    ];
    hold_document("docs/pictures/neighbour.svg", |_| picture(&plots));
}

#[test]
fn a_trace_under_another_scheduler() {
    const TRACE: &str = "tests/data/kernel-truth/whatif/mq-deadline.ftrace.zst";
    /// The jobs of fio that the processes of the trace were.
    const NAMES: [(&str, &str); 4] =
        [("29246", "db"), ("29247", "log"), ("29248", "scan"), ("29255", "bulk")];
    let bench = bench();
    bench.stdout(&["calibrate", TRACE, "-o", "disk.toml"]);
    let series = ["mq-deadline", "bfq"].into_iter().enumerate().map(|(colour, scheduler)| {
        let command = "replay TRACE --closed --device @disk.toml --kernel 6.18 --scheduler";
        let command = format!("{} {scheduler}", command.replace("TRACE", TRACE));
        let report = report(&bench, &command);
        let (mut points, mut labels) = (Vec::new(), Vec::new());
        for job in report["jobs"].as_array().expect("jobs") {
            let process = job["jobname"].as_str().expect("a name");
            let (_, name) = NAMES.iter().find(|(id, _)| process.ends_with(id)).expect("a job");
            let direction = if job["read"]["total_ios"] == 0 { "write" } else { "read" };
            let figure = &job[direction];
            points.push((
                figure["iops"].as_f64().expect("a rate"),
                figure["clat_ns"]["mean"].as_f64().expect("a mean"),
            ));
            labels.push((*name).to_owned());
        }
        Series { name: scheduler.into(), colour, points, labels, ..Series::default() }
    });
    let plot = Plot {
        title: "Processes of a trace under two schedulers".into(),
        description: "I/Os a second of each process, and the mean latency of one".into(),
        mark: Mark::Points,
        x: axis("I/Os a second", Scale::Log, Unit::Count),
        y: axis("mean latency", Scale::Log, Unit::Nanos),
        series: series.collect(),
    };
    hold_document("docs/pictures/what-if.svg", |_| picture(&[plot]));
}

#[test]
fn tenants_that_share_a_device() {
    let bench = bench();
    let report = report(&bench, "run jobs/tenants.fio --tenants jobs/tenants.toml");
    let tenants = report["elevon"]["series"]["tenants"].as_array().expect("tenants");
    let shown = tenants.iter().filter(|tenant| tenant["path"] != "batch");
    let series = shown.enumerate().map(|(colour, tenant)| Series {
        name: tenant["path"].as_str().expect("a path").into(),
        colour,
        points: rate(tenant, |point| all(point, "bytes")),
        ..Series::default()
    });
    let plot = Plot {
        title: "Bandwidth of each tenant".into(),
        description: "Over time; the limit of batch/report begins in the third second".into(),
        mark: Mark::Line,
        x: axis("time", Scale::Linear, Unit::Nanos),
        y: axis("bandwidth", Scale::Linear, Unit::BytesPerSecond),
        series: series.collect(),
    };
    hold_document("docs/pictures/tenants.svg", |_| picture(&[plot]));
}
