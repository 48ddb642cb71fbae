//! Tests what tenants get, through the command: weights, latency targets, priority classes, limits
//! and their changes, and that the report explains all of it.

use crate::common::Bench;
use serde_json::Value;

/// Four I/Os at a time of 1 ms each: about 3960 per second, whatever their kind.
const DEVICE: &str = "slots:slots=4,latency=1ms,bandwidth=400MB/s,size=1GiB,queue_depth=64";
/// One I/O at a time and a short device queue, so that the scheduler decides.
const SERIAL: &str = "slots:slots=1,latency=1ms,bandwidth=400MB/s,size=1GiB,queue_depth=2";

/// Returns a job for each (name, further lines), with random reads of 4 KiB.
fn jobs(list: &[(&str, &str)]) -> String {
    let mut text =
        "[global]\nrw=randread\nbs=4k\niodepth=64\nioengine=libaio\ndirect=1\nsize=64m\nruntime=4\ntime_based\n"
            .to_owned();
    for (name, lines) in list {
        text += &format!("[{name}]\n{}\n", lines.replace(' ', "\n"));
    }
    text
}

/// Returns the JSON report of jobs with a tenants file, and checks that it explains all waits.
fn run(jobs: &str, tenants: &str, args: &[&str]) -> Value {
    let bench = Bench::new();
    bench.file("jobs.fio", jobs);
    bench.file("t.toml", tenants);
    let report = bench.json("jobs.fio", &[&["--tenants", "t.toml"], args].concat());
    for tenant in report["elevon"]["tenants"].as_array().expect("tenants") {
        let Some(causes) = tenant["explain"].as_array() else { continue };
        let sum = |key: &str| {
            causes.iter().map(|cause| cause[key].as_f64().expect("a number")).sum::<f64>()
        };
        let tenths = (sum("percent") * 10.0).round();
        assert!(
            causes.is_empty() || tenths == 1000.0,
            "{}: {tenths} tenths of a percent",
            tenant["path"]
        );
        assert_eq!(sum("ns"), tenant["waited_ns"].as_f64().expect("a time"), "{}", tenant["path"]);
    }
    report
}

fn tenant<'a>(report: &'a Value, path: &str) -> &'a Value {
    let all = report["elevon"]["tenants"].as_array().expect("tenants");
    all.iter().find(|tenant| tenant["path"] == path).unwrap_or_else(|| panic!("no tenant {path}"))
}

/// Returns the I/Os of a tenant and of all tenants below it.
fn ios(report: &Value, path: &str) -> f64 {
    let stat = &tenant(report, path)["io_stat"];
    stat["rios"].as_f64().expect("reads") + stat["wios"].as_f64().expect("writes")
}

/// Returns the I/Os of a job in each direction.
fn job(report: &Value, name: &str) -> [f64; 2] {
    let all = report["jobs"].as_array().expect("jobs");
    let job =
        all.iter().find(|job| job["jobname"] == name).unwrap_or_else(|| panic!("no job {name}"));
    ["read", "write"].map(|direction| job[direction]["total_ios"].as_f64().expect("I/Os"))
}

fn p50_ns(report: &Value, path: &str) -> f64 {
    tenant(report, path)["latency_ns"]["p50"].as_f64().expect("a latency")
}

/// Returns the percentage of a tenant's time that went to a cause.
fn percent(report: &Value, path: &str, is: impl Fn(&Value) -> bool) -> f64 {
    let causes = tenant(report, path)["explain"].as_array().expect("causes").iter();
    causes.filter(|cause| is(cause)).map(|cause| cause["percent"].as_f64().expect("a share")).sum()
}

fn assert_near(what: &str, got: f64, due: f64) {
    assert!((got / due - 1.0).abs() <= 0.1, "{what}: {got} instead of {due}");
}

/// Returns what `elevon calibrate` prints for the device, with every share of its time controlled.
fn cost(device: &str) -> String {
    let printed = Bench::new().stdout(&["calibrate", "--device", device]);
    let line = printed
        .lines()
        .find(|line| line.starts_with("\"io.cost.model\" = "))
        .expect("a line for [device]");
    format!("[device]\n\"io.cost.qos\" = \"enable=1 ctrl=user min=95.00 max=95.00\"\n{line}\n")
}

#[test]
fn io_weight_shares_the_device_among_those_who_want_it() {
    let weights = "[tenant.a]\n\"io.weight\" = \"100\"\n[tenant.b]\n\"io.weight\" = \"200\"\n[tenant.c]\n\"io.weight\" = \"500\"\n";
    let tenants = cost(DEVICE) + weights;
    let all = jobs(&[("a", "cgroup=a"), ("b", "cgroup=b"), ("c", "cgroup=c")]);
    let report = run(&all, &tenants, &["--device", DEVICE]);
    let got = ["a", "b", "c"].map(|path| ios(&report, path));
    let total: f64 = got.iter().sum();
    for (path, (got, weight)) in ["a", "b", "c"].iter().zip(got.iter().zip([100.0, 200.0, 500.0])) {
        assert_near(path, *got, total * weight / 800.0);
    }
    let stat = |path: &str, key: &str| {
        tenant(&report, path)["io_stat"][key].as_f64().expect("io.cost is on")
    };
    assert_eq!(stat("/", "cost.vrate"), 95.0, "{report:#}");
    assert_near("usage of c", stat("c", "cost.usage"), stat("/", "cost.usage") * 500.0 / 800.0);
    assert_near("all that the model allows", total, 4.0 * 3960.0 * 0.95);
    assert!(percent(&report, "a", |cause| cause["cause"] == "cost") > 20.0, "what held a is named");

    // c ends after a second; then the others have the whole device, and share it as before.
    let all = jobs(&[("a", "cgroup=a"), ("b", "cgroup=b"), ("c", "cgroup=c runtime=1")]);
    let report = run(&all, &tenants, &["--device", DEVICE]);
    let [a, b, c] = ["a", "b", "c"].map(|path| ios(&report, path));
    assert_near("b to a", b / a, 2.0);
    assert_near("nothing is lost with c", a + b + c, 4.0 * 3960.0 * 0.95);
}

#[test]
fn weights_are_shares_within_the_parent() {
    let tenants = "[tenant.x]\nweight = 300\n[tenant.y]\nweight = 100\n[tenant.'x/p']\nweight = 200\n[tenant.'x/q']\nweight = 100\n";
    let all = jobs(&[("p", "cgroup=x/p"), ("q", "cgroup=x/q"), ("y", "cgroup=y")]);
    let reports = [
        run(&all, &(cost(DEVICE) + tenants), &["--device", DEVICE]),
        run(
            &all,
            tenants,
            &["--device", SERIAL, "--scheduler", "bfq:low_latency=0", "--set", "nr_requests=256"],
        ),
        run(
            &all,
            tenants,
            &["--device", SERIAL, "--scheduler", "aileron", "--set", "nr_requests=256"],
        ),
        // `aileron` needs no short queue of the device: it bounds what is in flight by itself.
        run(
            &all,
            tenants,
            &["--device", DEVICE, "--scheduler", "aileron", "--set", "nr_requests=256"],
        ),
    ];
    for report in reports {
        let total = ios(&report, "x") + ios(&report, "y");
        assert_near("x of all", ios(&report, "x") / total, 0.75);
        assert_near("p of x", ios(&report, "x/p") / total, 0.5);
        assert_near("q of x", ios(&report, "x/q") / total, 0.25);
    }
}

#[test]
fn a_latency_target_is_defended_against_a_neighbour_without_one() {
    let all = jobs(&[("db", "cgroup=db iodepth=4 runtime=10"), ("hog", "cgroup=hog runtime=10")]);
    let without = ["--device", DEVICE, "--scheduler", "none"];
    let plain = run(&all, "", &without);
    let protected = run(&all, "[tenant.db]\nlatency = '5ms'\n", &without);
    // Under `aileron` half of the device is db's without a target, and the target is met as well.
    let aileron = run(
        &all,
        "[tenant.db]\nlatency = '5ms'\n",
        &["--device", DEVICE, "--scheduler", "aileron"],
    );
    assert!(p50_ns(&aileron, "db") < 5e6, "{}", p50_ns(&aileron, "db"));
    assert!(
        ios(&aileron, "db") >= ios(&protected, "db") * 0.95,
        "{} {}",
        ios(&aileron, "db"),
        ios(&protected, "db")
    );
    assert!(p50_ns(&plain, "db") > 15e6, "the hog's queue is before it: {}", p50_ns(&plain, "db"));
    assert!(p50_ns(&protected, "db") < 5e6, "{}", p50_ns(&protected, "db"));
    assert!(ios(&protected, "db") > 3.0 * ios(&plain, "db"));
    let cut = |cause: &Value| cause["cause"] == "latency" && cause["level"] == "hog";
    assert!(percent(&protected, "hog", cut) > 2.0, "the hog is told why");
    assert_eq!(percent(&protected, "db", |cause| cause["cause"] == "latency"), 0.0);
}

#[test]
fn classes_of_tenants_decide_under_mq_deadline() {
    let all = jobs(&[("a", "cgroup=a iodepth=16 prioclass=1"), ("b", "cgroup=b iodepth=16")]);
    let args = ["--device", SERIAL, "--scheduler", "mq-deadline", "--set", "nr_requests=64"];
    let share = |tenants: &str| {
        let report = run(&all, tenants, &args);
        ios(&report, "a") / (ios(&report, "a") + ios(&report, "b"))
    };
    assert!(share("[tenant.a]\nclass = 'no-change'\n") > 0.98, "RT takes all");
    let even = share("[tenant.a]\nclass = 'restrict-to-be'\n");
    assert!((0.4..0.6).contains(&even), "{even}");
    assert!(share("[tenant.a]\n\"io.prio.class\" = \"idle\"\n") < 0.02, "IDLE waits for everybody");
    assert!(
        share("[tenant.a]\nclass = 'restrict-to-be'\n[tenant.b]\nclass = 'promote-to-rt'\n") < 0.02
    );
}

/// BFQ distinguishes classes among the queues of one group, and groups are BE as in Linux: here the
/// tenant's own processes beside its child. `aileron` does the same, and serves a class that waits
/// every 250 ms.
#[test]
fn classes_of_tenants_decide_under_bfq_and_aileron_within_a_group() {
    let all =
        jobs(&[("own", "cgroup=x iodepth=16 prioclass=1"), ("child", "cgroup=x/y iodepth=16")]);
    for scheduler in ["bfq:low_latency=0", "aileron"] {
        let args = ["--device", SERIAL, "--scheduler", scheduler, "--set", "nr_requests=64"];
        let share = |class: &str| {
            let report = run(&all, &format!("[tenant.x]\nclass = '{class}'\n"), &args);
            ios(&report, "x/y") / ios(&report, "x")
        };
        assert!(share("promote-to-rt") < 0.02, "{scheduler}: {}", share("promote-to-rt"));
        let even = share("restrict-to-be");
        assert!((0.4..0.6).contains(&even), "{scheduler}: equal weights: {even}");
        assert!(share("idle") > 0.98, "{scheduler}: {}", share("idle"));
    }
}

#[test]
fn limits_hold_by_direction_and_level_and_change_during_the_run() {
    let all = jobs(&[
        ("night", "cgroup=batch/night rw=randrw bs=16k iodepth=8"),
        ("day", "cgroup=batch/day bs=16k iodepth=8"),
        ("web", "cgroup=web iodepth=8"),
    ]);
    let before = "[tenant.batch]\n\"io.max\" = \"rbps=8388608\"\n[tenant.'batch/night']\n\"io.max\" = \"wiops=100\"\n";
    let report = run(&all, before, &["--device", DEVICE]);
    let (night, day) = (job(&report, "night"), job(&report, "day"));
    // At the start the amount of one slice is released at once, and the run ends within a slice.
    assert_near("reads of batch", night[0] + day[0], 4.0 * 512.0);
    assert_near("writes of night", night[1], 4.0 * 100.0);
    assert!(ios(&report, "web") > 4.0 * 2500.0, "nobody limits it");
    let by = |rule: &'static str, level: &'static str| {
        move |cause: &Value| {
            cause["cause"] == "limit" && cause["rule"] == rule && cause["level"] == level
        }
    };
    assert!(
        percent(&report, "batch/day", by("rbps", "batch")) > 70.0,
        "the ancestor's rule is named"
    );
    assert!(percent(&report, "batch/night", by("wiops", "batch/night")) > 50.0);
    assert_eq!(percent(&report, "web", |cause| cause["cause"] == "limit"), 0.0);

    // Halfway the reads are no longer limited and the writes have a lower limit.
    let change = "[[change]]\nat = '2s'\ntenant = 'batch'\n\"io.max\" = \"rbps=max\"\n[[change]]\nat = '2s'\ntenant = 'batch/night'\n\"io.max\" = \"wiops=10\"\n";
    let changed = run(&all, &format!("{before}{change}"), &["--device", DEVICE]);
    assert!(job(&changed, "day")[0] > 2.0 * 512.0 + 2.0 * 1000.0, "{:?}", job(&changed, "day"));
    assert_near("writes of night", job(&changed, "night")[1], 2.0 * 100.0 + 2.0 * 10.0);
}

#[test]
fn rules_of_io_throttle_hold_until_they_are_deleted() {
    let all =
        jobs(&[("web", "cgroup=web iodepth=8"), ("other", "cgroup=other iodepth=8 runtime=1")]);
    let rules = "[tenant.web]\n\"blockio.iops-max\" = \"/dev/sda:500:0\"\n\"blockio.bandwidth-max\" = \"10M:1:1M\"\n";
    let report = run(&all, rules, &["--device", DEVICE]);
    assert_near("web", ios(&report, "web"), 4.0 * 500.0);
    assert!(percent(&report, "web", |cause| cause["rule"] == "blockio.iops-max") > 50.0);
    let delete = "[[change]]\nat = '2s'\ntenant = 'web'\n\"blockio.iops-max\" = \"/dev/sda:0\"\n";
    let report = run(&all, &format!("{rules}{delete}"), &["--device", DEVICE]);
    // The limit of 10 MB/s with a bucket of 1 MB remains.
    assert_near("web", ios(&report, "web"), 2.0 * 500.0 + 2.0 * 10e6 / 4096.0);
    assert!(percent(&report, "web", |cause| cause["rule"] == "blockio.bandwidth-max") > 2.0);
}

#[test]
fn exact_limits_of_ours_take_bursts_and_both_directions_together() {
    let all = jobs(&[("a", "cgroup=a rw=randrw iodepth=8")]);
    let report =
        run(&all, "[tenant.a]\nlimit = { iops = 100, burst_ios = 50 }\n", &["--device", DEVICE]);
    let [reads, writes] = job(&report, "a");
    // The bucket is full at first. One more I/O is released when it is empty, and 8 are in flight
    // at the end.
    assert!((450.0..=459.0).contains(&(reads + writes)), "{reads} reads, {writes} writes");
    assert!(percent(&report, "a", |cause| cause["rule"] == "iops") > 80.0);
}

/// Without a scheduler, below the limit of a group: bytes by weight, though one reads 64 times as
/// much at a time.
#[test]
fn tenants_below_a_limit_share_it_by_weight() {
    let all = jobs(&[("small", "cgroup=g/small"), ("large", "cgroup=g/large bs=256k iodepth=2")]);
    let tenants = "[tenant.g]\nlimit = { bps = \"20M\" }\n[tenant.\"g/small\"]\nweight = 300\n";
    let report = run(&all, tenants, &["--device", DEVICE]);
    let bytes = |path| tenant(&report, path)["io_stat"]["rbytes"].as_f64().expect("bytes");
    let (small, large) = (bytes("g/small"), bytes("g/large"));
    assert!((small / large / 3.0 - 1.0).abs() < 0.05, "{small} and {large} bytes, by 3 to 1");
    assert!(((small + large) / 80e6 - 1.0).abs() < 0.02, "{small} and {large} bytes of 80 MB");
}

/// In the text report, the lines of `explain:` are lists of percentages.
#[test]
fn explain_sums_to_the_whole_in_text_too() {
    let bench = Bench::new();
    bench.file(
        "jobs.fio",
        jobs(&[("a", "cgroup=a/b"), ("c", "cgroup=c rw=randwrite"), ("none", "iodepth=1")]),
    );
    bench.file("t.toml", "[tenant.a]\n\"io.max\" = \"rbps=1048576\"\n[tenant.c]\nclass = 'idle'\n");
    let text = bench.stdout(&[
        "run",
        "jobs.fio",
        "--tenants",
        "t.toml",
        "--device",
        DEVICE,
        "--scheduler",
        "mq-deadline",
    ]);
    let mut sums = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        let is_first = line.starts_with("  explain:");
        is_open = is_first || is_open && line.starts_with("      ");
        if is_first {
            sums.push(0.0);
        }
        if is_open {
            let parts = line.trim_start_matches("  explain:").split(',').map(str::trim);
            let shares = parts.filter_map(|part| part.split_once(" % ")?.0.parse::<f64>().ok());
            *sums.last_mut().expect("a sum") += shares.sum::<f64>();
        }
    }
    assert!(sums.len() >= 4, "the root, a, a/b and c: {text}");
    assert!(sums.iter().all(|sum| (sum - 100.0).abs() < 1e-6), "{sums:?} in {text}");
    assert!(
        text.contains("limit rbps=1048576 of a") && text.contains("own limit rbps=1048576"),
        "{text}"
    );
}
