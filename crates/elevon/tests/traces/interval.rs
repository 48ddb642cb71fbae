//! Holds `elevon calibrate` and the predictions on its interval against random devices that are
//! known, and random jobs on them.
//!
//! Each case runs a job on a device and traces it, fits a device to the trace, and asks what
//! settings would do that change the depth. The same job with the same setting on the device itself
//! is the truth. A figure without the remark "not known" must be near it.
//!
//! `ELEVON_INTERVAL=0..200 cargo test -p elevon --test traces interval -- --ignored --nocapture`
//! runs the seeds of a range, and prints a line for each.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use elevon_testkit::Rng;
use serde_json::Value;

use crate::common::Bench;

/// Seeds that a run takes if no range is given.
const SEEDS: std::ops::Range<u64> = 0..6;
/// Largest error of a figure without the remark.
const WITHIN: f64 = 0.25;
/// I/Os of a process that it takes for a figure.
const LEAST: u64 = 100;

/// A device and a job.
struct Case {
    device: String,
    /// Servers, if it is made of servers.
    servers: Option<u64>,
    job: String,
    /// Depth of the deepest job.
    depth: u64,
}

/// Returns a number between two, evenly spread over their logarithms.
fn between(random: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(random.below(1 << 20) as f64 / f64::from(1 << 20))
}

/// Returns quantiles of a spread whose 99th percentile is up to three times the median.
fn spread(random: &mut Rng) -> String {
    let p99 = between(random, 1.001, 3.0);
    // About as a log-normal distribution has them.
    let at = |normal: f64| (p99.powf(normal / 2.326) * 1000.0).round() / 10.0;
    [
        ("p10", -1.28),
        ("p25", -0.67),
        ("p75", 0.67),
        ("p90", 1.28),
        ("p95", 1.64),
        ("p99", 2.326),
        ("p999", 3.09),
    ]
    .map(|(name, normal)| format!(",spread_{name}={}%", at(normal)))
    .concat()
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let random = &mut random;
        (0..8).for_each(|_| _ = random.below(2));
        let is_flash = random.below(5) == 0;
        let servers = between(random, 2.0, 33.0) as u64;
        let latency = between(random, 100.0, 8000.0);
        let device = if is_flash {
            let name = ["ufs-3.1", "ufs-4.0", "nvme-consumer", "sata-ssd-860evo"]
                [random.below(4) as usize];
            let read = between(random, 50.0, 300.0);
            format!("{name}:read_time={read:.0}us")
        } else {
            let rate = between(random, 50.0, 2000.0);
            let write = latency * between(random, 0.5, 3.0);
            let base =
                if random.below(2) == 0 { 0.0 } else { latency * between(random, 0.05, 1.0) };
            format!(
                "slots:slots={servers},latency={latency:.0}us,bandwidth={rate:.0}MB/s,write_latency={write:.0}us,\
                 base_latency={base:.0}us,size=4GiB{}",
                spread(random)
            )
        };
        // From an idle device to one whose queue is always full.
        let of_servers = if is_flash {
            between(random, 1.0, 32.0)
        } else {
            servers as f64 * between(random, 0.1, 8.0)
        };
        let mut left = (of_servers.round() as u64).clamp(1, 120);
        let depth = left;
        let ios = 5000;
        let rates = if is_flash { 20_000.0 } else { (servers.min(depth) as f64) * 1e6 / latency };
        let runtime = (f64::from(ios) / rates).clamp(0.05, 20.0);
        let mut job = format!(
            "[global]\ndirect=1\nioengine=libaio\nnorandommap\ntime_based\nruntime={:.0}us\nsize=512m\n",
            runtime * 1e6
        );
        for number in 0..3 {
            let own = if number == 2 { left } else { random.below(left + 1) };
            left -= own;
            if own == 0 {
                continue;
            }
            let rw = ["randread", "randwrite", "randrw", "read"][random.below(4) as usize];
            let size = ["4k", "8k", "16k", "64k", "128k"][random.below(5) as usize];
            let think = match random.below(3) {
                0 => format!("thinktime={:.0}us\n", latency * between(random, 0.1, 4.0)),
                1 if own > 1 => format!(
                    "thinktime={:.0}us\nthinktime_blocks={}\n",
                    latency * between(random, 2.0, 20.0),
                    own * (1 + random.below(20))
                ),
                _ => String::new(),
            };
            let offset = number * 512;
            let _ = writeln!(
                job,
                "[j{number}]\nrw={rw}\nbs={size}\niodepth={own}\noffset={offset}m\n{think}"
            );
        }
        Self { device, servers: (!is_flash).then_some(servers), job, depth }
    }

    /// Returns the options that are asked about.
    fn questions(&self) -> Vec<Vec<String>> {
        let with = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let deeper = format!("iodepth={}", self.depth * 2);
        vec![
            with(&["--set", "nr_requests=4"]),
            with(&["--job-option", "iodepth=1"]),
            with(&["--job-option", "iodepth=4"]),
            with(&["--job-option", &deeper]),
        ]
    }
}

/// Figures of a job in one direction: I/Os a second and the median latency.
type Figures = BTreeMap<(String, &'static str), [f64; 2]>;

fn figures(report: &Value) -> Figures {
    let mut all = Figures::new();
    for job in report["jobs"].as_array().expect("jobs") {
        for direction in ["read", "write"] {
            let own = &job[direction];
            if own["total_ios"].as_u64().unwrap_or(0) >= LEAST {
                let p50 = own["clat_ns"]["percentile"]["50.000000"].as_f64().unwrap_or(0.0);
                let name = job["jobname"].as_str().expect("a name").to_owned();
                all.insert((name, direction), [own["iops"].as_f64().expect("a rate"), p50]);
            }
        }
    }
    all
}

/// What came out of a case.
#[derive(Default)]
struct Found {
    is_inside: bool,
    /// Figures that were asked for, those with the remark, and errors of the others.
    asked: usize,
    marked: usize,
    wrong: Vec<String>,
    words: String,
}

impl Found {
    /// Compares the figures of a prediction with those of the device itself.
    fn compare(&mut self, options: &[String], truth: &Value, predicted: &Value) {
        let warnings: Vec<&str> = predicted["elevon"]["warnings"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let predicted = figures(predicted);
        for (key, truth) in figures(truth) {
            let Some(own) = predicted.get(&key) else { continue };
            let name = &key.0;
            for (at, figure) in ["I/Os a second", "p50"].into_iter().enumerate() {
                self.asked += 1;
                let is_deeper = warnings.iter().any(|line| line.contains("had at most"));
                let of_job = |line: &&&str| {
                    line.contains("not known") && line.contains(&format!(": {name}: "))
                };
                let is_marked =
                    is_deeper || warnings.iter().filter(of_job).any(|line| line.contains(figure));
                if is_marked {
                    self.marked += 1;
                } else if (own[at] / truth[at] - 1.0).abs() > WITHIN {
                    self.wrong.push(format!(
                        "{options:?} {name} {figure}: {:.0}, predicted {:.0}",
                        truth[at], own[at]
                    ));
                }
            }
        }
    }
}

fn run(seed: u64) -> Found {
    let case = Case::new(seed);
    let bench = Bench::new();
    bench.file("job.fio", &case.job);
    bench.stdout(&[
        "run",
        "job.fio",
        "--device",
        &case.device,
        "--scheduler",
        "mq-deadline",
        "--trace",
        "t.ftrace",
    ]);
    let text = bench.stdout(&["calibrate", "t.ftrace", "-o", "d.toml", "--output-format", "json"]);
    let fit: Value = serde_json::from_str(&text).expect("JSON");
    let mut found = Found { is_inside: true, ..Found::default() };
    if let (Some(servers), Some(interval)) = (case.servers, fit["servers_interval"].as_array()) {
        let end = |at: usize, none: u64| interval[at].as_u64().unwrap_or(none);
        found.is_inside = end(0, 1) <= servers && servers <= end(1, u64::MAX);
    }
    let _ = write!(
        found.words,
        "{} depth {}: servers {} interval {}",
        case.device, case.depth, fit["servers"], fit["servers_interval"]
    );
    let _ = write!(
        found.words,
        " known {} {} like {}",
        fit["interval"]["known_from"], fit["interval"]["known_to"], fit["like"]
    );
    for options in case.questions() {
        let report = |device: &str| {
            let args = [
                "run",
                "job.fio",
                "--scheduler",
                "mq-deadline",
                "--output-format",
                "json",
                "--device",
                device,
            ];
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            serde_json::from_str::<Value>(&bench.stdout(&[&args[..], &options[..]].concat()))
                .expect("JSON")
        };
        let [truth, predicted] = [case.device.as_str(), "@d.toml"].map(report);
        found.compare(&options, &truth, &predicted);
    }
    found
}

#[test]
#[ignore = "takes minutes; ELEVON_INTERVAL=0..200 names the seeds"]
fn random_devices_are_inside_of_their_interval() {
    let range = std::env::var("ELEVON_INTERVAL").ok().map(|text| {
        let (from, end) = text.split_once("..").expect("FIRST..END");
        from.parse().expect("a seed")..end.parse().expect("a seed")
    });
    let is_long = range.is_some();
    let (mut inside, mut asked, mut marked, mut wrong, mut cases) = (0, 0, 0, 0, 0);
    for seed in range.unwrap_or(SEEDS) {
        let found = run(seed);
        cases += 1;
        inside += usize::from(found.is_inside);
        asked += found.asked;
        marked += found.marked;
        wrong += found.wrong.len();
        let word = if found.is_inside { "inside" } else { "OUTSIDE" };
        println!(
            "{seed}: {word}, {} asked, {} marked, {} wrong: {}",
            found.asked,
            found.marked,
            found.wrong.len(),
            found.words
        );
        found.wrong.iter().for_each(|line| println!("    {line}"));
    }
    println!(
        "{inside} of {cases} inside; of {asked} figures {marked} not known, {wrong} more than 25 % off"
    );
    if !is_long {
        assert_eq!(inside, cases, "devices inside of their interval");
        assert_eq!(wrong, 0, "figures that are wrong without a remark");
    }
}
