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
