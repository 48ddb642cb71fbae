//! Tests `--tenants` on the command line: settings of the file take effect, and the user is told of
//! those that do not.

use crate::common::Bench;
use serde_json::Value;

const JOBS: &str = "[global]\nrw=randread\nbs=4k\niodepth=8\nioengine=libaio\ndirect=1\nsize=64m\nruntime=2\ntime_based\n[a]\ncgroup=x\n[b]\ncgroup=y\n";

fn bench(file: &str) -> Bench {
    let bench = Bench::new();
    bench.file("jobs.fio", JOBS);
    bench.file("t.toml", file);
    bench
}

fn iops(result: &Value) -> f64 {
    let of = |at: usize| result["jobs"][at]["read"]["iops"].as_f64().expect("a rate");
    of(0) / of(1)
}

#[test]
fn weights_of_the_file_divide_the_device_under_bfq_and_aileron() {
    let bench = bench("[tenant.x]\nweight = 300\n[tenant.y]\n\"io.bfq.weight\" = \"100\"\n");
    for scheduler in ["bfq:low_latency=0", "aileron"] {
        let device = "slots:slots=1,latency=1ms,bandwidth=1GB/s,size=1GiB";
        // `aileron` has to find the depth first, and until then, 0.13 s here, shares are equal.
        let device = ["--device", device, "--scheduler", scheduler, "--job-option", "runtime=4s"];
        let even = iops(&bench.json("jobs.fio", &device));
        let weighted = bench.json("jobs.fio", &[&device[..], &["--tenants", "t.toml"]].concat());
        assert!((0.95..1.05).contains(&even), "{scheduler}: {even}");
        assert!((2.7..3.3).contains(&iops(&weighted)), "{scheduler}: {}", iops(&weighted));
        let command = weighted.to_string();
        assert!(command.contains("--tenants t.toml"), "the run can be made again");
    }
}

/// `aileron` unless a scheduler is named, and the command of the report says what was.
#[test]
fn tenants_share_a_device_under_aileron_unless_a_scheduler_is_named() {
    let bench = bench("[tenant.x]\nweight = 300\n");
    let run = |args: &[&str]| {
        let report = bench.json("jobs.fio", &[&["--device", "null:latency=100us"], args].concat());
        let of = |key: &str| report["elevon"][key].as_str().unwrap_or_default().to_owned();
        (report["elevon"]["scheduler"]["name"].as_str().expect("a name").to_owned(), of("command"))
    };
    assert_eq!(run(&[]).0, "none");
    let (name, command) = run(&["--tenants", "t.toml"]);
    assert!(name == "aileron" && !command.contains("--scheduler"), "{name}: {command}");
    let (name, command) = run(&["--tenants", "t.toml", "--scheduler", "none"]);
    assert!(name == "none" && command.contains("--scheduler none"), "{name}: {command}");
}

/// Shares come before the last fifth of the throughput if weights differ and nothing else is said.
#[test]
fn weights_that_differ_prefer_shares() {
    let preferred = |file: &str, scheduler: &str| {
        let args =
            ["--device", "null:latency=100us", "--tenants", "t.toml", "--scheduler", scheduler];
        bench(file).json("jobs.fio", &args)["elevon"]["scheduler"]["tunables"]["prefer"].clone()
    };
    assert_eq!(preferred("[tenant.x]\nweight = 300\n", "aileron"), "shares");
    assert_eq!(
        preferred("[tenant.x]\nweight = 300\n[tenant.y]\nweight = 300\n", "aileron"),
        "throughput"
    );
    assert_eq!(preferred("[tenant.x]\nweight = 300\n", "aileron:prefer=throughput"), "throughput");
    assert_eq!(preferred("[tenant.x]\nweight = 300\n", "bfq"), Value::Null);
}

/// Clamped water-filling: everybody gets its weight's part of a common level, but at least its
/// reserve and at most its limit; reserves that are too high shrink in proportion. A tenant near
/// its limit gets up to 12 % less.
#[test]
fn reserves_weights_and_limits_hold_together_under_aileron() {
    let bench = Bench::new();
    let mut job = "[global]\nrw=randread\nbs=4k\niodepth=16\nioengine=libaio\ndirect=1\nsize=64m\nruntime=10\ntime_based\nramp_time=1\n".to_owned();
    for name in ["a", "b", "c"] {
        job += &format!("[{name}]\ncgroup={name}\n");
    }
    bench.file("jobs.fio", job);
    bench.file(
        "t.toml",
        "[tenant.a]\nreserve = { iops = 250 }\n[tenant.b]\nweight = 200\nreserve = { iops = 250 }\n\
         [tenant.c]\nweight = 300\nlimit = { iops = 1000 }\n",
    );
    for (capacity, expected) in [
        (875, [250.0, 250.0, 375.0]),
        (1200, [250.0, 380.0, 570.0]),
        (2000, [333.3, 666.7, 1000.0]),
        (2400, [466.7, 933.3, 1000.0]),
        // Of a tenant without a reserve two requests in a `class_expire` of 250 ms are served.
        (400, [197.0, 197.0, 8.2]),
    ] {
        let latency = 4 * 1_000_000_000_u64 / capacity;
        let device = format!("slots:slots=4,latency={latency}ns,bandwidth=100GB/s,size=1GiB");
        let report = bench.json("jobs.fio", &["--device", &device, "--tenants", "t.toml"]);
        let got: Vec<f64> =
            (0..3).map(|at| report["jobs"][at]["read"]["iops"].as_f64().expect("a rate")).collect();
        for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
            assert!(
                (got - expected).abs() <= 0.12 * expected + 2.0,
                "{capacity}, tenant {at}: {got} of {expected}"
            );
        }
        let missed = report["elevon"]["tenants"][1]["reserve_missed_ns"]
            .as_u64()
            .expect("there is a reserve");
        assert_eq!(missed > 1_000_000_000, capacity == 400, "{capacity}: {missed}");
    }
}

#[test]
fn a_reserve_that_nothing_keeps_is_said() {
    let bench = bench("[tenant.x]\nreserve = { iops = 500 }\nlimit = { iops = 100 }\n");
    let said = |scheduler: &str| {
        let all = [
            "run",
            "jobs.fio",
            "--tenants",
            "t.toml",
            "--device",
            "null",
            "--scheduler",
            scheduler,
        ];
        String::from_utf8_lossy(&bench.elevon(&all).output().expect("it ran").stderr).into_owned()
    };
    for scheduler in ["none", "bfq", "aileron"] {
        let said = said(scheduler);
        assert!(
            said.contains("x: its reserve.iops is above its limit.iops, which holds"),
            "{said}"
        );
        assert_eq!(said.contains("nothing here keeps a reserve"), scheduler != "aileron", "{said}");
    }
}

#[test]
fn what_a_tenant_above_does_not_allow_is_said() {
    let said = |file: &str, args: &[&str]| {
        let bench = bench(file);
        bench.file("jobs.fio", JOBS.replace("cgroup=x", "cgroup=y/x"));
        let all = [&["run", "jobs.fio", "--tenants", "t.toml", "--device", "null"], args].concat();
        String::from_utf8_lossy(&bench.elevon(&all).output().expect("it ran").stderr).into_owned()
    };
    let reserves =
        "[tenant.'y/x']\nreserve = { iops = 800 }\n[tenant.'y/z']\nreserve = { iops = 800 }\n";
    let limit = "[tenant.y]\nlimit = { iops = 1000 }\n";
    let together = "y: the reserves below it are 1600 iops together and its limit.iops is 1000";
    assert!(said(&(limit.to_owned() + reserves), &[]).contains(together));
    let turns = "y: its io.max lets those below it take turns, whatever their reserves are";
    let max = "[tenant.y]\n'io.max' = 'riops=1000'\n";
    assert!(said(&(max.to_owned() + reserves), &[]).contains(turns));
    let exact = said(&(max.to_owned() + reserves), &["--set", "io_max=exact"]);
    assert!(!exact.contains("its io.max"), "{exact}");
    let weights = "[tenant.'y/x']\nweight = 300\n";
    for (set, is_in_vain) in [("io_max=slices", true), ("io_max=exact", false)] {
        let said = said(&(max.to_owned() + weights), &["--scheduler", "none", "--set", set]);
        assert_eq!(
            said.contains("nothing here divides the device by weights"),
            is_in_vain,
            "{set}: {said}"
        );
    }
    let change =
        "[[change]]\nat = '1s'\ntenant = 'y/x'\nreserve = { iops = 900 }\nlimit = { iops = 500 }\n";
    let from = "y/x: its reserve.iops is above its limit.iops from 1 s on, which holds";
    let changed = said(&(weights.to_owned() + change), &[]);
    assert!(changed.contains(from), "{changed}");
    let cost = said("[device]\n'io.cost.qos' = 'enable=1'\n", &["--scheduler", "none"]);
    assert!(cost.contains("y: a job lies in it and tenants lie below it"), "{cost}");
}

/// Both files hold under the same rule; the smaller rate is the one that is reached.
#[test]
fn the_smaller_of_two_limits_is_the_one_that_is_named() {
    let bench =
        bench("[tenant.x]\n'blkio.throttle.read_iops_device' = '100'\n'io.max' = 'riops=1000'\n");
    let report = bench.json("jobs.fio", &["--device", "null", "--tenants", "t.toml"]);
    let explained = report["elevon"]["tenants"][1]["explain"].to_string();
    assert!(explained.contains("own limit riops=100\""), "{explained}");
}

#[test]
fn what_does_nothing_is_said() {
    let bench = bench("[tenant.x]\nweight = 3000\n[tenant.z]\nweight = 5\n");
    let said = |args: &[&str]| {
        let all = [&["run", "jobs.fio", "--tenants", "t.toml", "--device", "null"], args].concat();
        let output = bench.elevon(&all).output().expect("the command ran");
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let without = said(&["--scheduler", "none"]);
    assert!(without.contains("nothing here divides the device by weights"), "{without}");
    assert!(without.contains("t.toml:3: z: no job lies in this tenant"), "{without}");
    for (scheduler, name) in [("bfq", "BFQ"), ("aileron", "aileron")] {
        let with = said(&["--scheduler", scheduler]);
        let is_said = with.contains(&format!("{name} counts a weight above 1000 as 1000"));
        assert!(!with.contains("divides") && is_said, "{with}");
    }
}

#[test]
fn the_example_runs_without_a_warning_and_says_what_held_whom() {
    let jobs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../jobs");
    let output = Bench::new()
        .elevon(&[
            "run",
            &format!("{jobs}/tenants.fio"),
            "--tenants",
            &format!("{jobs}/tenants.toml"),
        ])
        .output()
        .expect("the command ran");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8_lossy(&output.stdout);
    for part in
        ["own limit riops=40000", "limit wbps=104857600 of batch", "share of device time (io.cost)"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_hundred_thousand_tenants_without_a_job_are_a_line_each() {
    let file: String = (0..100_000)
        .map(|n| format!("tenant.t{n}.'io.max' = 'rbps={}'\n", 1_000_000 + n))
        .collect();
    let bench = bench(&(file + "tenant.x.'io.max' = 'rbps=40960'\n"));
    let report = bench.json("jobs.fio", &["--device", "null", "--tenants", "t.toml"]);
    let tenants = report["elevon"]["tenants"].as_array().expect("tenants");
    assert_eq!(tenants.len(), 100_003, "the root, two with jobs, and the file's");
    let explained: Vec<&str> = tenants
        .iter()
        .filter(|at| at.get("explain").is_some())
        .filter_map(|at| at["path"].as_str())
        .collect();
    assert!(
        explained.contains(&"x") && explained.contains(&"y") && explained.len() <= 3,
        "{explained:?}"
    );
}

#[test]
fn whatever_is_wrong_is_a_line_with_its_place_and_nothing_runs() {
    let cases = [
        (
            "[tenant.x]\n\"io.max\" = \"rbps=10M\"\n",
            "t.toml:2:13: tenant.x.\"io.max\": rbps=10M: the kernel reads 10 bytes/s",
        ),
        ("[tenant.x]\n\"io.max\" = \"rbps=0\"\n", "ERANGE"),
        ("[tenant.x]\n\"io.max\" = \"8:1 rbps=4096\"\n", "write 8:0 for the whole device (ENODEV)"),
        (
            "[tenant.x]\n\"io.max\" = \"8:0 rbps=4096\"\n[tenant.y]\n\"io.max\" = \"8:16 rbps=4096\"\n",
            "t.toml:4:",
        ),
        ("[tenant.'/']\nweight = 5\n", "the root has no limits or weight"),
        ("[device]\n\"io.max\" = \"rbps=4096\"\n", "the root has no such file"),
        ("[tenant.x]\nweigth = 5\n", "did you mean `weight`?"),
        ("[tenant.x]\nweight = 5\nweight = 6\n", "t.toml:3:"),
        ("[tenant.x\n", "t.toml:1:"),
        ("[[change]]\nat = '1s'\ntenant = 'z'\nweight = 5\n", "z: no such tenant"),
    ];
    for (file, line) in cases {
        let bench = bench(file);
        let output = bench
            .elevon(&["run", "jobs.fio", "--tenants", "t.toml", "--device", "null"])
            .output()
            .expect("ran");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {said}");
        assert!(said.contains(line), "{file}: {said}");
        assert!(output.stdout.is_empty(), "{file}");
    }
}

#[test]
fn a_change_is_seen_in_every_report_and_one_that_comes_too_late_is_said() {
    let changes = "[[change]]\nat = '1s'\ntenant = 'x'\nlimit = { riops = 1000 }\n[[change]]\nat = '300s'\ntenant = 'x'\nweight = 5\n";
    let bench = bench(&format!("[tenant.x]\nlimit = {{ riops = 20000 }}\n{changes}"));
    let device = ["--device", "nvme-datacenter", "--tenants", "t.toml"];
    let args =
        [&["run", "jobs.fio", "--output-format", "json+", "--html", "page.html"], &device[..]]
            .concat();
    let report: Value = serde_json::from_str(&bench.stdout(&args)).expect("JSON");
    let elevon = &report["elevon"];
    let made = elevon["changes"].as_array().expect("changes");
    assert_eq!(
        (made.len(), &made[0]["at_ns"], &made[0]["tenant"]),
        (1, &Value::from(1_000_000_000), &Value::from("x"))
    );
    assert_eq!(made[0]["text"], "{ riops = 1000 }");
    let warnings = elevon["warnings"].to_string();
    assert!(
        warnings.contains("the change at 300 s was not made: the run ended at 2"),
        "{warnings}"
    );
    for (kind, key, name) in [("tenants", "path", "x"), ("jobs", "name", "a")] {
        let all = elevon["series"][kind].as_array().expect("a series");
        let points = all.iter().find(|of| of[key] == name).expect("its own")["points"]
            .as_array()
            .expect("points");
        let sum = |from: u64, to: u64| -> u64 {
            let within = points.iter().filter(|p| {
                (from + 1..=to).contains(&(p["at_ns"].as_u64().expect("a time") / 1_000_000))
            });
            within.map(|p| p["ios"][0].as_u64().expect("reads")).sum()
        };
        let (before, after) = (sum(0, 1000), sum(1000, 3000));
        assert!(
            (19_000..=20_400).contains(&before) && (950..=1_300).contains(&after),
            "{kind}: {before}, {after}"
        );
    }
    let page = std::fs::read_to_string(bench.path("page.html")).expect("a page");
    assert!(page.contains("tenants over time") && page.contains("x limit: { riops = 1000 }"));
    let text = bench.stdout(&[&["run", "jobs.fio", "--iostat", "0.5"], &device[..]].concat());
    assert!(text.contains("from 1.00s on: x limit: { riops = 1000 }"), "{text}");
    let lines: Vec<&str> =
        text.lines().filter(|line| line.starts_with("x ") && line.ends_with("0.00")).collect();
    let rate = |line: &str| {
        line.split_whitespace().nth(1).and_then(|word| word.parse::<f64>().ok()).expect("a rate")
    };
    assert!((19_000.0..=21_000.0).contains(&rate(lines[0])), "{lines:?}");
    assert!((900.0..=1_100.0).contains(&rate(lines[3])), "{lines:?}");
}

/// Statistics begin after a ramp; what is drawn over time goes on through its end.
#[test]
fn a_job_over_time_goes_on_through_the_end_of_its_ramp() {
    let bench = bench("[tenant.x]\nlimit = { riops = 1000 }\n");
    let ramp = ["--job-option", "ramp_time=1", "--output-format", "json+"];
    let device = ["--device", "nvme-datacenter", "--tenants", "t.toml"];
    let text = bench.stdout(&[&["run", "jobs.fio"], &ramp[..], &device].concat());
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let points = report["elevon"]["series"]["jobs"][0]["points"].as_array().expect("points");
    let ios = points.iter().map(|point| point["ios"][0].as_u64().expect("reads"));
    let measured = report["jobs"][0]["read"]["total_ios"].as_u64().expect("reads");
    assert!((2_000..=2_008).contains(&measured), "without the ramp: {measured}");
    let sum: u64 = ios.sum();
    assert!((3_000..=3_008).contains(&sum), "with the ramp: {sum}");
}

#[test]
fn a_tenant_and_its_only_job_have_one_rate() {
    let bench = bench("[tenant.x]\nlimit = { riops = 777 }\n");
    let args = ["--device", "hdd-7200", "--tenants", "t.toml"];
    let report = bench.json("jobs.fio", &args);
    let tenants = report["elevon"]["tenants"].as_array().expect("tenants");
    for (job, path) in ["x", "y"].into_iter().enumerate() {
        let tenant = tenants.iter().find(|tenant| tenant["path"] == path).expect("its row");
        let runtime = report["jobs"][job]["read"]["runtime"].as_u64().expect("ms");
        let time = tenant["time_ns"].as_u64().expect("ns") / 1_000_000;
        assert!(time.abs_diff(runtime) <= 1, "{path}: {time} and {runtime} ms");
    }
}

/// The root's row has rates of its own I/O, and its `io.stat` counts the whole device, as in Linux
/// since 5.9.
#[test]
fn the_root_has_its_own_rates_and_the_io_stat_of_the_device() {
    let bench = Bench::new();
    let jobs = "[global]\nrw=randread\ndirect=1\nsize=64m\nruntime=3\ntime_based\nrate_iops=1000\n[in-root]\n[in-x]\ncgroup=x\n";
    bench.file("jobs.fio", jobs);
    bench.file("t.toml", "[tenant.x]\nweight = 100\n");
    let report = bench.json("jobs.fio", &["--tenants", "t.toml"]);
    let of = |path: &str| {
        let tenants = report["elevon"]["tenants"].as_array().expect("tenants");
        tenants.iter().find(|tenant| tenant["path"] == path).expect("its row").clone()
    };
    let (root, x) = (of("/"), of("x"));
    assert_eq!([&root, &x].map(|own| own["latency_ns"]["total_ios"].as_u64()), [Some(3000); 2]);
    assert_eq!([&root, &x].map(|own| own["io_stat"]["rios"].as_u64()), [Some(6000), Some(3000)]);
    assert_eq!(root["time_ns"], x["time_ns"]);
    let text = bench.stdout(&["run", "jobs.fio", "--tenants", "t.toml"]);
    assert!(
        text.lines().any(|line| line.starts_with("/  ") && line.contains("1000  4000KiB/s")),
        "{text}"
    );
}

/// Returns the shares due and got of bandwidth of two jobs in cgroups of equal weight.
fn shares_of(jobs: &str, tenants: &str) -> [(f64, f64); 2] {
    let bench = Bench::new();
    let global = "[global]\nrw=randread\ndirect=1\nsize=1g\nruntime=2\ntime_based\nioengine=libaio\nnorandommap\n";
    bench.file("jobs.fio", format!("{global}{jobs}"));
    bench.file("t.toml", tenants);
    let device = "slots:slots=4,latency=1ms,size=4GiB";
    let args = ["--tenants", "t.toml", "--device", device, "--scheduler", "bfq"];
    let report = bench.json("jobs.fio", &args);
    let jobs = report["elevon"]["fairness"]["jobs"].as_array().expect("shares").clone();
    [0, 1].map(|at| {
        (jobs[at]["due"].as_f64().expect("due"), jobs[at]["bandwidth"].as_f64().expect("got"))
    })
}

/// The share due is no larger than what was asked for, however little that is asked.
#[test]
fn a_tenant_that_asks_for_little_is_due_no_more() {
    let equal = "[tenant.x]\nweight = 100\n[tenant.y]\nweight = 100\n";
    let greedy = "[y]\ncgroup=y\niodepth=16\n";
    for little in ["rate_iops=100", "rate=400k", "thinktime=10ms", "rate_iops=50\niodepth=4"] {
        let [(due, got), (other_due, other_got)] =
            shares_of(&format!("[x]\ncgroup=x\n{little}\n{greedy}"), equal);
        assert!(due < 0.2 && got / due > 0.6, "{little}: {got} of {due}");
        assert!((other_got / other_due - 1.0).abs() < 0.05, "{little}: {other_got} of {other_due}");
    }
    // What a limit lets through is all that is due.
    let limited = equal.replacen("weight = 100\n", "weight = 100\nlimit = { riops = 100 }\n", 1);
    let [(due, got), _] = shares_of(&format!("[x]\ncgroup=x\niodepth=16\n{greedy}"), &limited);
    assert!(due < 0.2 && (got / due - 1.0).abs() < 0.05, "limit: {got} of {due}");
    // A job that asks for all that it can get is due its weight.
    let [(due, _), (other, _)] = shares_of(&format!("[x]\ncgroup=x\niodepth=16\n{greedy}"), equal);
    assert_eq!((due, other), (0.5, 0.5));
}

#[test]
fn a_preset_that_starves_the_device_is_said_with_what_to_do() {
    let qos = "[device]\n'io.cost.qos' = 'enable=1'\n";
    let model = "'io.cost.model' = 'MAJ:MIN ctrl=user model=linear rbps=3000000000 rseqiops=800000 rrandiops=800000 wbps=3000000000 wseqiops=500000 wrandiops=500000'\n";
    for (text, is_said) in [(qos.to_owned(), true), (format!("{qos}{model}"), false)] {
        let bench = bench(&format!("{text}[tenant.x]\nweight = 300\n"));
        let jobs = JOBS.replace("runtime=2", "runtime=5").replace("iodepth=8", "iodepth=64");
        bench.file("jobs.fio", jobs);
        let warnings =
            bench.json("jobs.fio", &["--device", "nvme-datacenter", "--tenants", "t.toml"])["elevon"]["warnings"]
                .to_string();
        assert_eq!(
            warnings.contains("elevon calibrate --device nvme-datacenter"),
            is_said,
            "{warnings}"
        );
    }
}

#[test]
fn a_path_above_the_root_is_refused_in_a_job_too() {
    let bench = Bench::new();
    bench.file("jobs.fio", JOBS.replace("cgroup=x", "cgroup=../.."));
    let output =
        bench.elevon(&["run", "jobs.fio", "--device", "null"]).output().expect("the command ran");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
    assert!(said.contains("cgroup: \"..\" is no name of a tenant"), "{said}");
}
