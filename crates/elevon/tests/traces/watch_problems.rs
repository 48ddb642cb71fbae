//! What `elevon watch` says of runs in virtual time, second by second: problems while they last,
//! and nothing of healthy workloads.

use std::collections::BTreeSet;

use elevon_trace::{DeviceNumber, Recorded};
use elevon_watch::{GroupBy, Limits, Owner, Owners, Watch};

use crate::common::Bench;

const SECOND: u64 = 1_000_000_000;
/// A device that serves sixteen requests at a time.
const SLOTS: &str = "slots:slots=16,latency=2ms";
/// Seconds in which a problem has to be seen, and after which it has to be gone.
const WITHIN: u64 = 5;

/// Every process is in one cgroup, which may have the limit of [`LIMITED`].
struct OneCgroup {
    has_limit: bool,
}

/// A tenant that may write two megabytes a second.
const LIMITED: &str = "[tenant.app]\n\"io.max\" = \"wbps=2097152\"\n";

impl Owners for OneCgroup {
    fn owner(&mut self, _: u32) -> Option<Owner> {
        Some(Owner { name: "job".to_owned(), cgroup: "/app".to_owned() })
    }

    fn limits(&mut self, cgroup: &str, device: DeviceNumber) -> Option<Limits> {
        let text = format!("{device} rbps=max wbps=2097152 riops=max wiops=max\n");
        (self.has_limit && cgroup == "/app")
            .then(|| Limits::of_text(&text, device, "/sys/fs/cgroup/app"))?
    }
}

/// Runs a job and watches its trace. Returns the kinds of problems that stood at the end of each
/// second.
fn watched(job: &str, args: &[&str]) -> Vec<BTreeSet<&'static str>> {
    let bench = Bench::new();
    bench.file("job.fio", job);
    bench.file("tenants.toml", LIMITED);
    bench.stdout(&[&["run", "job.fio", "--trace", "t.ftrace"], args].concat());
    let mut reader = elevon_trace::open(&bench.path("t.ftrace")).expect("a trace");
    let events = reader.read_all().expect("memory");
    let device = events.iter().find_map(|event| event.device).expect("a device");
    let first = events.iter().find_map(|event| event.time).expect("a time");
    let last = events.iter().filter_map(|event| event.time).max().expect("a time");
    let mut watch = Watch::new(first);
    let recorded = reader.report().recorded.as_deref().cloned();
    watch.add_disk("sda".to_owned(), device, recorded.unwrap_or_else(Recorded::default));
    let mut owners = OneCgroup { has_limit: args.contains(&"--tenants") };
    let mut seconds = Vec::new();
    let mut rest = &events[..];
    for until in (first + SECOND..=last + SECOND).step_by(SECOND as usize) {
        let count = rest.partition_point(|event| event.time.is_some_and(|time| time < until));
        let (now, later) = rest.split_at(count);
        assert!(watch.add(until, now, &reader));
        watch.look_at_processes(&mut owners);
        let found = watch.now(1, GroupBy::Process, &mut owners);
        let kinds = found.disks[0].findings.iter().map(|standing| standing.finding.kind.name());
        seconds.push(kinds.collect());
        rest = later;
    }
    seconds
}

/// A reader all the time, and from second 6 to 14 a job that brings a problem.
fn with_problem(reader: &str, problem: &str) -> String {
    format!(
        "[global]\ndirect=1\ntime_based\nsize=1g\n[reader]\nruntime=24\n{reader}\n[problem]\nstartdelay=6\nruntime=8\n{problem}\n"
    )
}

/// The name of a finding, the problem in words, the job, and the options of the run.
type Case = (&'static str, &'static str, String, &'static [&'static str]);

/// Returns jobs that bring a problem.
fn cases() -> [Case; 9] {
    let paced = "rw=randread\nbs=4k\nioengine=psync\nrate_iops=50";
    let rare = "rw=randread\nbs=4k\nioengine=psync\nrate_iops=2";
    let deep = "rw=randwrite\nbs=256k\nioengine=libaio\niodepth=32";
    let idle = "rw=randread\nbs=4k\nioengine=psync\nrate_iops=50\nprioclass=3";
    let stream = "rw=randread\nbs=64k\nioengine=libaio\niodepth=32";
    let limited = "rw=write\nbs=64k\nioengine=psync\ncgroup=app";
    [
        (
            "idle_class",
            "the idle class behind a stream, with bfq",
            with_problem(idle, stream),
            &["--device", "sata-ssd-860evo", "--scheduler", "bfq"],
        ),
        (
            "idle_class",
            "the idle class behind a stream, with mq-deadline",
            with_problem(idle, stream),
            &["--device", "sata-ssd-860evo", "--scheduler", "mq-deadline"],
        ),
        (
            "held_by_limit",
            "a writer with an io.max",
            with_problem(paced, limited),
            &["--device", "sata-ssd-860evo", "--tenants", "tenants.toml"],
        ),
        (
            "slow_device",
            "a device that takes three hundred times as long",
            with_problem(paced, rare),
            &["--device", "sata-ssd-860evo", "--fault", "slow:from=6s,for=8s,factor=300"],
        ),
        (
            "few_tags",
            "a queue of few requests",
            with_problem(paced, "rw=randread\nbs=4k\nioengine=libaio\niodepth=32"),
            &["--device", SLOTS, "--scheduler", "mq-deadline", "--set", "nr_requests=4"],
        ),
        (
            "small_requests",
            "a small max_sectors_kb",
            with_problem(paced, "rw=read\nbs=1m\nioengine=psync\nrate_iops=40"),
            &["--device", "nvme-consumer", "--set", "max_sectors_kb=4"],
        ),
        (
            "flush_storm",
            "fsync after each write",
            with_problem(paced, "rw=randwrite\nbs=4k\nioengine=psync\nfsync=1\nnumjobs=4"),
            &["--device", "sata-ssd-860evo"],
        ),
        (
            "device_bufferbloat",
            "a deep writer beside a reader",
            with_problem(paced, deep),
            &["--device", "sata-ssd-860evo"],
        ),
        (
            "requests_given_back",
            "a driver that gives requests back",
            with_problem(rare, "rw=randread\nbs=4k\nioengine=libaio\niodepth=32\nrate_iops=2000"),
            &["--device", "scsi-disk", "--fault", "busy:ppm=200000"],
        ),
    ]
}

#[test]
fn a_problem_is_seen_within_five_seconds_and_goes_again() {
    let mut missed = Vec::new();
    for (kind, words, job, args) in cases() {
        let seconds = watched(&job, args);
        let stood: Vec<u64> = (1..)
            .zip(&seconds)
            .filter(|(_, kinds)| kinds.contains(kind))
            .map(|(at, _)| at)
            .collect();
        let is_seen = stood.first().is_some_and(|at| (7..=6 + WITHIN).contains(at));
        let is_gone = stood.last().is_some_and(|at| *at <= 14 + WITHIN);
        if !is_seen || !is_gone {
            missed.push(format!("{words}: {kind} stood in seconds {stood:?} of {seconds:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn nothing_is_said_of_healthy_workloads() {
    let workloads = [
        "[r]\nrw=randread\nbs=4k\nioengine=psync\nrate_iops=60",
        "[w]\nrw=write\nbs=64k\nioengine=psync\nrate_iops=40",
        "[r]\nrw=read\nbs=128k\nioengine=libaio\niodepth=2\nrate_iops=50\n[w]\nrw=randwrite\nbs=16k\nioengine=psync\nrate_iops=20",
        "[log]\nrw=write\nbs=4k\nioengine=psync\nfsync=8\nrate_iops=40\n[r]\nrw=randread\nbs=8k\nioengine=psync\nrate_iops=20",
    ];
    let devices = ["nvme-consumer", "nvme-datacenter", "sata-ssd-860evo", "ufs-3.1", "hdd-7200"];
    for device in devices {
        for workload in workloads {
            let job =
                format!("[global]\ndirect=1\ntime_based\nruntime=12\nsize=256m\n{workload}\n");
            let seconds = watched(&job, &["--device", device, "--scheduler", "mq-deadline"]);
            let said: BTreeSet<&str> = seconds.into_iter().flatten().collect();
            assert!(said.is_empty(), "{device}: {workload}: {said:?}");
        }
    }
}
