//! `--tenants` at the command: what the file says reaches the run, and the user learns of what does not.

mod common;

use common::Bench;
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
fn weights_of_the_file_divide_the_device_under_bfq() {
    let bench = bench("[tenant.x]\nweight = 300\n[tenant.y]\n\"io.bfq.weight\" = \"100\"\n");
    let device =
        ["--device", "slots:slots=1,latency=1ms,bandwidth=1GB/s,size=1GiB", "--scheduler", "bfq:low_latency=0"];
    let even = iops(&bench.json("jobs.fio", &device));
    let weighted = bench.json("jobs.fio", &[&device[..], &["--tenants", "t.toml"]].concat());
    assert!((0.95..1.05).contains(&even), "{even}");
    assert!((2.7..3.3).contains(&iops(&weighted)), "{}", iops(&weighted));
    let command = weighted.to_string();
    assert!(command.contains("--tenants 't.toml'"), "the run can be made again");
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
    let without = said(&[]);
    assert!(without.contains("nothing here divides the device by weights"), "{without}");
    assert!(without.contains("t.toml:3: z: no job lies in this tenant"), "{without}");
    let with = said(&["--scheduler", "bfq"]);
    assert!(!with.contains("divides") && with.contains("BFQ counts a weight above 1000 as 1000"), "{with}");
}

#[test]
fn the_example_runs_without_a_warning_and_says_what_held_whom() {
    let jobs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../jobs");
    let output = Bench::new()
        .elevon(&["run", &format!("{jobs}/tenants.fio"), "--tenants", &format!("{jobs}/tenants.toml")])
        .output()
        .expect("the command ran");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["own limit riops=40000", "limit wbps=104857600 of batch", "share of device time (io.cost)"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_hundred_thousand_tenants_without_a_job_are_a_line_each() {
    let file: String = (0..100_000).map(|n| format!("tenant.t{n}.'io.max' = 'rbps={}'\n", 1_000_000 + n)).collect();
    let bench = bench(&(file + "tenant.x.'io.max' = 'rbps=40960'\n"));
    let report = bench.json("jobs.fio", &["--device", "null", "--tenants", "t.toml"]);
    let tenants = report["elevon"]["tenants"].as_array().expect("tenants");
    assert_eq!(tenants.len(), 100_003, "the root, two with jobs, and the file's");
    let explained: Vec<&str> =
        tenants.iter().filter(|at| at.get("explain").is_some()).filter_map(|at| at["path"].as_str()).collect();
    assert!(explained.contains(&"x") && explained.contains(&"y") && explained.len() <= 3, "{explained:?}");
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
        ("[tenant.x]\n\"io.max\" = \"8:0 rbps=4096\"\n[tenant.y]\n\"io.max\" = \"8:16 rbps=4096\"\n", "t.toml:4:"),
        ("[tenant.'/']\nweight = 5\n", "the root has no limits or weight"),
        ("[device]\n\"io.max\" = \"rbps=4096\"\n", "the root has no such file"),
        ("[tenant.x]\nweigth = 5\n", "did you mean `weight`?"),
        ("[tenant.x]\nweight = 5\nweight = 6\n", "t.toml:3:"),
        ("[tenant.x\n", "t.toml:1:"),
        ("[[change]]\nat = '1s'\ntenant = 'z'\nweight = 5\n", "z: no such tenant"),
    ];
    for (file, line) in cases {
        let bench = bench(file);
        let output =
            bench.elevon(&["run", "jobs.fio", "--tenants", "t.toml", "--device", "null"]).output().expect("ran");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {said}");
        assert!(said.contains(line), "{file}: {said}");
        assert!(output.stdout.is_empty(), "{file}");
    }
}
