//! Tests limits of tenants through a write-back cache, simulated and before a real file.

use crate::common::Bench;
use serde_json::Value;

const LIMIT: u64 = 10_000_000;
const SECONDS: u64 = 6;

fn job(name: &str) -> String {
    format!(
        "[{name}]\ncgroup={name}\nrw=write\nbs=64k\nioengine=psync\nsize=256m\nruntime={SECONDS}\ntime_based\n"
    )
}

fn row<'a>(report: &'a Value, path: &str) -> &'a Value {
    let tenants = report["elevon"]["tenants"].as_array().expect("tenants");
    tenants
        .iter()
        .find(|tenant| tenant["path"] == path)
        .unwrap_or_else(|| panic!("{path} has a row"))
}

fn wbytes(report: &Value, path: &str) -> u64 {
    row(report, path)["io_stat"]["wbytes"].as_u64().expect("bytes")
}

fn written_by_job(report: &Value, at: usize) -> u64 {
    report["jobs"][at]["write"]["io_bytes"].as_u64().expect("bytes")
}

#[test]
fn a_limit_holds_what_is_written_back_and_only_that_tenants() {
    let bench = Bench::new();
    bench.file("both.fio", job("silver") + &job("gold"));
    bench.file("gold.fio", job("gold"));
    let memory = 128 << 20;
    // The limit is before the scheduler, so there is none.
    let device = ["--device", "slots:slots=1,latency=100us,bandwidth=200MB/s,size=1GiB"];
    let device = [&device[..], &["--memory", "128MiB", "--scheduler", "none"]].concat();
    for rule in ["limit = { wbps = '10M' }", "'io.max' = 'wbps=10000000'"] {
        bench.file("t.toml", format!("[tenant.silver]\n{rule}\n"));
        let report = bench.json("both.fio", &[&device[..], &["--tenants", "t.toml"]].concat());
        let (silver, gold) = (wbytes(&report, "silver"), wbytes(&report, "gold"));
        assert!(
            (SECONDS * LIMIT * 97 / 100..=SECONDS * LIMIT * 105 / 100).contains(&silver),
            "{rule}: {silver}"
        );
        // The job has written what the device has plus what may be dirty: at most the whole limit,
        // a fifth of memory.
        let job = written_by_job(&report, 0);
        assert!(
            (silver..=silver + memory / 5 + LIMIT / 2).contains(&job),
            "{rule}: {job} of {silver}"
        );
        let causes = row(&report, "silver")["explain"].as_array().expect("causes");
        assert_eq!(causes[0]["cause"], "limit", "{rule}: {causes:?}");
        let alone = wbytes(&bench.json("gold.fio", &device), "gold");
        let left = alone - silver;
        assert!(gold * 100 >= left * 95, "{rule}: gold has {gold} beside silver, {alone} alone");
    }
}

#[test]
fn a_tenant_pays_for_its_write_back_to_a_real_file() {
    let bench = Bench::new();
    let text = "[silver]\ncgroup=silver\nrw=write\nbs=64k\nioengine=psync\nsize=2m\nfsync=8\n[gold]\ncgroup=gold\nrw=write\n\
                bs=64k\nioengine=psync\nsize=2m\nfsync=8\n";
    bench.file("both.fio", text);
    bench.file("t.toml", "[tenant.silver]\nlimit = { wbps = '20M' }\n");
    let args = ["--device", "./file.img", "--cache", "64MiB", "--tenants", "t.toml"];
    let report = bench.json("both.fio", &args);
    for path in ["silver", "gold"] {
        assert_eq!(wbytes(&report, path), 2 << 20, "{path}");
    }
    let held = |path| {
        let causes = row(&report, path)["explain"].as_array().expect("causes").clone();
        causes.iter().any(|cause| cause["cause"] == "limit")
    };
    assert_eq!([held("silver"), held("gold")], [true, false]);
}
