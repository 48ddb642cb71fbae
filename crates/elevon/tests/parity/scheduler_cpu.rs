//! Tests the CPU time of schedulers against the measurement in `tests/data/scheduler-cpu`, and what
//! reports say about it.

use crate::common::Bench;
use serde_json::Value;

const DEPTHS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

/// Returns a job file with one section per depth, run one after the other.
fn sweep() -> String {
    let mut text =
        "[global]\nrw=randread\nbs=4k\ndirect=1\nioengine=io_uring\ntime_based=1\nruntime=40ms\nstonewall=1\n"
            .to_owned();
    for depth in DEPTHS {
        text += &format!("[depth{depth}]\niodepth={depth}\n");
    }
    text
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns IOPS and mean latency in us by depth.
fn figures(run: &Value) -> Vec<(f64, f64)> {
    let jobs = run["jobs"].as_array().expect("jobs").iter();
    jobs.map(|job| (number(&job["read"]["iops"]), number(&job["read"]["lat_ns"]["mean"]) / 1e3))
        .collect()
}

/// Returns the measured microseconds per I/O under a scheduler with one process of depth 8: the
/// median of the rounds.
fn measured(scheduler: &str) -> f64 {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/scheduler-cpu/results.txt");
    let text = std::fs::read_to_string(path).expect("the measurement");
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut times: Vec<f64> = rows
        .filter(|row| row[1..4] == ["1", "8", scheduler])
        .map(|row| 1e6 / row[4].parse::<f64>().expect("IOPS"))
        .collect();
    times.sort_by(f64::total_cmp);
    f64::midpoint(times[2], times[3])
}

#[test]
fn a_depth_sweep_shows_what_schedulers_cost() {
    let bench = Bench::new();
    let job = bench.file("sweep.fio", sweep());
    let runs = SCHEDULERS
        .map(|scheduler| {
            ["--kernel", "6.18", "--device", "nvme-datacenter", "--scheduler", scheduler]
        })
        .map(|args| figures(&bench.json(job, &args)));
    let [none, mq_deadline, kyber, bfq] = &runs;
    // At depth 1 the device is the limit: a scheduler adds its CPU time and nothing more.
    for (run, cost) in [(mq_deadline, 2.25), (kyber, 2.25), (bfq, 7.55)] {
        let added = run[0].1 - none[0].1;
        assert!((added - cost).abs() < 0.02 * none[0].1, "{added} us at depth 1, not {cost}");
    }
    assert!(mq_deadline[0].1 < 1.04 * none[0].1, "within 4 % of none at depth 1");
    // From depth 64 on the CPU is the limit, and the ratios are those of the measurement within 7
    // %: on its device an I/O took 5.9 us without a scheduler, in the simulation 5.4 us.
    for (at, depth) in DEPTHS.iter().enumerate().filter(|(_, depth)| **depth >= 64) {
        for (scheduler, run) in SCHEDULERS.iter().zip(&runs) {
            let (ratio, expected) =
                (none[at].0 / run[at].0, measured(scheduler) / measured("none"));
            assert!(
                (ratio / expected - 1.0).abs() < 0.07,
                "{scheduler}, depth {depth}: {ratio:.3}, measured {expected:.3}"
            );
        }
        assert!((mq_deadline[at].0 / kyber[at].0 - 1.0).abs() < 0.02);
        assert!(bfq[at].0 < 0.7 * kyber[at].0 && kyber[at].0 < 0.8 * none[at].0);
    }
}

#[test]
fn a_slow_device_hides_what_schedulers_cost() {
    let bench = Bench::new();
    let job = bench.file(
        "slow.fio",
        "[a]\nrw=randread\nbs=4k\ndirect=1\nioengine=io_uring\niodepth=8\nnumber_ios=2000\n",
    );
    let iops = SCHEDULERS.map(|scheduler| {
        let device = "slots:slots=1,latency=2ms,bandwidth=1GB/s,size=1GiB";
        figures(&bench.json(job, &["--device", device, "--scheduler", scheduler]))[0].0
    });
    assert!(
        iops.iter()
            .all(|iops| (iops / iops.max(1.0) - 1.0).abs() < 0.02
                && (iops / 498.0 - 1.0).abs() < 0.02),
        "{iops:?}"
    );
}

#[test]
fn four_processes_meet_at_the_lock_of_bfq() {
    let bench = Bench::new();
    let job = "[a]\nrw=randread\nbs=4k\ndirect=1\nioengine=io_uring\niodepth=64\nnumjobs=4\ngroup_reporting=1\n\
        time_based=1\nruntime=40ms\n";
    let job = bench.file("four.fio", job);
    let run = |more: &[&str]| bench.json(job, &[&["--device", "nvme-datacenter"], more].concat());
    let bfq = run(&["--scheduler", "bfq"]);
    // 5.3 us under the lock per I/O give 188,679 a second, for any number of CPUs.
    let iops = figures(&bfq)[0].0;
    assert!((iops / 188_679.0 - 1.0).abs() < 0.02, "{iops}");
    let cpu = &bfq["elevon"]["cpu"];
    assert!(number(&cpu["scheduler_lock"]) > 0.98, "{cpu}");
    assert!(
        cpu["notes"][0].as_str().expect("a note").starts_with("the lock of bfq limits"),
        "{cpu}"
    );
    // Without a lock the device is the limit, and there is no note.
    let kyber = run(&["--scheduler", "kyber"]);
    assert!(figures(&kyber)[0].0 > 2.0 * iops);
    assert_eq!(kyber["elevon"]["cpu"]["notes"], Value::Array(vec![]), "{}", kyber["elevon"]["cpu"]);
    // Without the scheduler's CPU time BFQ is limited only by the device.
    assert!(figures(&run(&["--scheduler", "bfq", "--cpu-cost", "scheduler=0"]))[0].0 > 1.9 * iops);
}

/// It has its completion and sleeps for that long, and its next I/O follows; another whose I/O is
/// still in flight is not touched.
#[test]
fn a_process_runs_some_time_after_it_was_woken() {
    let bench = Bench::new();
    let job = bench
        .file("one.fio", "[a]\nrw=randread\nbs=4k\ndirect=1\nioengine=psync\nnumber_ios=1000\n");
    let device = ["--device", "slots:slots=1,latency=1ms,bandwidth=1000MB/s"];
    let period = |cost: &str| {
        let run = bench.json(job, &[&device[..], &["--cpu-cost", cost]].concat());
        1e6 / figures(&run)[0].0
    };
    let [without, fixed, even] = ["", ",wake=100us", ",wake=50us..150us"]
        .map(|wake| period(&["submit=0,complete=0", wake].concat()));
    assert!(
        (fixed - without - 100.0).abs() < 1.0 && (even - without - 100.0).abs() < 5.0,
        "{without} {fixed} {even}"
    );
}

#[test]
fn a_report_says_that_the_cpu_limits() {
    let bench = Bench::new();
    let job = |depth| {
        format!(
            "[deep]\nrw=randread\nbs=4k\ndirect=1\nioengine=io_uring\niodepth={depth}\nnumber_ios=20000\n"
        )
    };
    let (deep, flat) = (bench.file("deep.fio", job(256)), bench.file("flat.fio", job(1)));
    let text = bench.stdout(&["run", deep, "--device", "nvme-datacenter", "--html", "deep.html"]);
    assert!(text.contains("Note: the CPU limits: deep spends 100.0 % of its CPU"), "{text}");
    assert!(
        text.contains("Note: the device alone does about 440,000 such I/Os a second at this depth"),
        "{text}"
    );
    let page = std::fs::read_to_string(bench.path("deep.html")).expect("the page");
    assert!(page.contains("the CPU limits: deep spends"));
    let cpu = &bench.json(deep, &["--device", "nvme-datacenter"])["elevon"]["cpu"];
    assert!(
        number(&cpu["jobs"][0]["utilisation"]) > 0.95 && cpu["jobs"][0]["limits"] == true,
        "{cpu}"
    );
    assert_eq!(cpu["device_alone_iops"], 440_000);
    let compared = bench.stdout(&["compare", deep, "--vs", "--scheduler bfq"]);
    assert!(
        compared.contains("A: the CPU limits") && compared.contains("CPU, busiest job"),
        "{compared}"
    );
    assert!(compared.lines().all(|line| line.chars().count() <= 80), "{compared}");
    let quiet = bench.stdout(&["run", flat, "--device", "nvme-datacenter"]);
    assert!(!quiet.contains("the CPU limits"), "{quiet}");
}
