//! What `elevon run` says of the slices of jobs under `aileron`, and how classes share a device.

use crate::common::Bench;
use serde_json::Value;

const GLOBAL: &str = "[global]\ndirect=1\ntime_based\nruntime=2\nsize=1g\n";
/// A reader of one request at a time beside large writes, which flash does not interrupt.
const MISSED: &str = "[reader]\nrw=randread\nbs=4k\n[writer]\nrw=randwrite\nbs=1m\niodepth=32\n\
                      ioengine=libaio\n";
const KEPT: &str = "[a]\nrw=randread\nbs=4k\niodepth=8\nioengine=libaio\n[b]\nrw=randread\nbs=4k\n\
                    iodepth=8\nioengine=libaio\n";

fn elevon(bench: &Bench, device: &str, more: &[&str]) -> String {
    let args = ["run", "job.fio", "--device", device, "--scheduler", "aileron"];
    bench.stdout(&[&args[..], more].concat())
}

fn slices(bench: &Bench, device: &str) -> Vec<Value> {
    let text = elevon(bench, device, &["--output-format", "json"]);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    report["elevon"]["slices"].as_array().expect("slices").clone()
}

#[test]
fn a_job_that_lacks_its_slice_is_told_why() {
    let bench = Bench::new();
    bench.file("job.fio", format!("{GLOBAL}{MISSED}"));
    let device = "sata-ssd-860evo";
    let slices = slices(&bench, device);
    let short: Vec<&Value> =
        slices.iter().filter(|of| of["of_slice"].as_f64().expect("a part") < 0.9).collect();
    assert!(!short.is_empty(), "{slices:?}");
    let text = elevon(&bench, device, &["--html", "page.html"]);
    let page = std::fs::read_to_string(bench.path("page.html")).expect("a page");
    for of in short {
        let (name, lacks) = (of["jobname"].as_str().expect("a name"), &of["lacks"]);
        assert!(lacks == "device" || lacks == "scheduler", "{of}");
        let words = format!("{name} has {:.2} of its slice", of["of_slice"].as_f64().expect("it"));
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat(&text).contains(&words), "{text}");
        assert!(flat(&text).contains(of["why"].as_str().expect("words")), "{text}");
        assert!(flat(&page).contains(&words), "{page}");
    }
    let without = elevon(&bench, device, &["--no-slices"]);
    assert!(!without.contains("of its slice"), "{without}");
}

#[test]
fn jobs_that_have_their_slices_are_told_so() {
    let bench = Bench::new();
    bench.file("job.fio", format!("{GLOBAL}{KEPT}"));
    let device = "slots:slots=4,latency=1ms";
    for of in slices(&bench, device) {
        let (alone, part) = (of["alone_iops"].as_f64(), of["part"].as_f64());
        assert!(alone.is_some_and(|alone| (3_500.0..=4_000.0).contains(&alone)), "{of}");
        assert!(part.is_some_and(|part| (part - 0.5).abs() < 0.01), "{of}");
        assert!(of["of_slice"].as_f64().is_some_and(|part| part >= 0.9), "{of}");
        assert!(of.get("lacks").is_none(), "{of}");
    }
    bench.file("job.fio", format!("{GLOBAL}[a]\nrw=randread\n"));
    let alone = elevon(&bench, device, &[]);
    assert!(!alone.contains("of its slice"), "one job has no slice: {alone}");
}

/// A reserve goes before the weights, and a limit is a part of what a job gets alone.
#[test]
fn a_reserve_of_another_is_a_reason_and_a_limit_is_none() {
    let bench = Bench::new();
    let jobs = KEPT.replace("[a]\n", "[a]\ncgroup=a\n").replace("[b]\n", "[b]\ncgroup=b\n");
    bench.file("job.fio", format!("{GLOBAL}{jobs}"));
    for (setting, lacks) in [("reserve = { iops = 800 }", true), ("limit = { iops = 100 }", false)]
    {
        bench.file("tenants.toml", format!("[tenant.a]\n[tenant.b]\n{setting}\n"));
        let args = ["--tenants", "tenants.toml", "--output-format", "json"];
        let text = elevon(&bench, "slots:slots=1,latency=1ms", &args);
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let slices = &report["elevon"]["slices"];
        assert_eq!(slices[0]["lacks"] == "reserve", lacks, "{slices}");
        assert!(slices[1].get("lacks").is_none(), "{slices}");
        let alone = slices[1]["alone_iops"].as_f64().expect("a rate");
        assert_eq!(alone < 110.0, !lacks, "{slices}");
    }
}

/// An urgent class keeps a place if its next request is there when the queue runs after a
/// completion. A worker runs the queue a little later, as in Linux. So it keeps all places if a
/// process needs no CPU time for its next request, and most of them at the default costs.
#[test]
fn an_urgent_class_keeps_the_places_for_which_it_comes_back_in_time() {
    let bench = Bench::new();
    let job = |name: &str, rw: &str, class: u8| {
        format!("[{name}]\nrw={rw}\nbs=4k\niodepth=4\nioengine=libaio\nprioclass={class}\n")
    };
    let device = "slots:slots=4,latency=10ms,queue_depth=4";
    for (urgent, other) in [(2, 3), (1, 2)] {
        let jobs = job("urgent", "randwrite", urgent) + &job("other", "randread", other);
        bench.file("job.fio", GLOBAL.replace("runtime=2", "runtime=10") + &jobs);
        let rates = |more: &[&str]| {
            let args = [&["--output-format", "json", "--no-slices"], more].concat();
            let text = elevon(&bench, device, &args);
            let report: Value = serde_json::from_str(&text).expect("JSON");
            let rate = |job: usize, direction: &str| {
                report["jobs"][job][direction]["iops"].as_f64().expect("a rate")
            };
            (rate(0, "write"), rate(1, "read"))
        };
        let (first, second) = rates(&["--cpu-cost", "submit=0s,complete=0s,scheduler=0s"]);
        assert!(first > 380.0, "{first} and {second}");
        assert!((3.0..10.0).contains(&second), "what class_expire gives: {second}");
        let (first, second) = rates(&[]);
        assert!(first > 1.3 * second, "{first} and {second}");
    }
}
