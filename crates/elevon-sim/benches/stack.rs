//! Cost of the whole simulated path of `elevon run`: parsed job, process, stack with all
//! accounting, device, histograms.
//!
//! Prints nanoseconds per I/O (best of several rounds), I/Os per second and a hash of the result,
//! which must not change with the speed. If fio is installed, its `null` engine with its default
//! clocks runs the same job between the rounds, on the same CPU, and the ratio is printed. `cargo
//! bench -p elevon-sim --bench stack`; `-- --test` for a short run, `-- --only NAME` for one line
//! (to profile it).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;
use std::time::Instant;

use elevon_core::driver::{Accept, Driver, Pieces};
use elevon_core::ioprio::IoPrio;
use elevon_core::op::{Flags, Op};
use elevon_core::sched::SchedulerConfig;
use elevon_core::stack::{Io, Stack, StackConfig};
use elevon_core::units::{Bytes, LayoutId, Sector, TaskId, TenantId};
use elevon_engine::Engine;
use elevon_formats::fio::{MemorySource, parse};
use elevon_sim::device::{AnyDevice, Device, Fault};
use elevon_sim::memory::{Memory, MemoryModel};
use elevon_sim::profiles::open;
use elevon_sim::simulation::Simulation;
use elevon_workload::jobs::{Jobs, JobsOptions};
use elevon_workload::run::{NoObserver, run};

/// Number of rounds; the best counts.
const ROUNDS: usize = 9;

/// Returns the job. By default, as in fio, every block is read once before any is read again;
/// `free` allows repeated blocks, so that fio needs no map of blocks read.
fn job(ios: u64, free: bool) -> String {
    let map = if free { "norandommap=1\n" } else { "" };
    format!(
        "[read]\nioengine=null\nrw=randread\nbs=4k\niodepth=32\nsize=100g\n{map}number_ios={ios}\n"
    )
}

/// Makes one run. Returns nanoseconds per I/O, and a hash of the results.
fn simulate(device: &str, scheduler: &str, ios: u64, free: bool) -> (f64, u64) {
    let parsed = parse(&mut MemorySource::one("bench.fio", &job(ios, free)), "bench.fio")
        .expect("a job of this file");
    let device = Fault::none(open(device, 1).expect("a device of this file"));
    let description = device.description().clone();
    let mut config = description.stack_config();
    config.scheduler = SchedulerConfig::parse(scheduler).expect("a scheduler of this file");
    let mut stack = Stack::new(config).expect("valid limits");
    let options = JobsOptions::new(stack.config());
    let mut memory = Memory::new(&MemoryModel::default(), 1);
    let mut jobs =
        Jobs::new(&parsed.jobs, &options, &mut memory.buffers(&mut stack)).expect("the job fits");
    let simulation: Simulation<Fault<AnyDevice>> = Simulation::new(device);
    let started = Instant::now();
    let outcome = run(&mut Engine::new(stack, simulation), &mut jobs, &mut NoObserver);
    let ns = started.elapsed().as_nanos() as f64 / ios as f64;
    let read = &outcome.jobs[0].stats.directions[0];
    assert_eq!((read.ios, outcome.disk_end.groups[0].ios, outcome.ended_early), (ios, ios, None));
    let mut hash = DefaultHasher::new();
    (read.clat.sum, read.lat.max, outcome.ended.get(), outcome.disk_end.in_flight_integral)
        .hash(&mut hash);
    (ns, hash.finish())
}

/// Runs the same job with fio. Returns nanoseconds per I/O, or `None` if fio is not installed.
fn fio(ios: u64, free: bool) -> Option<f64> {
    let path = std::env::temp_dir().join(format!("elevon-bench-{}.fio", std::process::id()));
    std::fs::write(&path, job(ios, free)).ok()?;
    let output = Command::new("fio").arg("--minimal").arg(&path).output();
    let _ = std::fs::remove_file(&path);
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    let iops: f64 = text.split(';').nth(7)?.parse().ok()?;
    Some(1e9 / iops)
}

/// A device that accepts commands until it is full and completes none, so that requests stay queued
/// before it.
struct Full;
impl Driver for Full {
    fn queue_command(
        &mut self,
        _: elevon_core::units::Instant,
        _: &elevon_core::driver::Command,
        _: &dyn Pieces,
    ) -> Accept {
        Accept::DeviceBusy
    }
}

/// Returns the nanoseconds to insert one more request into a queue that holds `queued` requests.
fn insert_cost(scheduler: &str, queued: u64) -> f64 {
    let device = open("null:size=100GiB,latency=0,hw_queues=16,queue_depth=10000", 1)
        .expect("a device of this file");
    let description = device.description().clone();
    let mut config = StackConfig::new(description.limits.clone(), description.size, 16, 10_000);
    config.scheduler = SchedulerConfig::parse(scheduler).expect("a scheduler of this file");
    (config.nr_requests, config.cpus) = (Some(10_000), 16);
    let mut stack = Stack::new(config).expect("valid limits");
    let mut random = 1u64;
    let mut submit = |stack: &mut Stack, n: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let io = Io {
            task: TaskId((n / 9_000) as u32),
            token: n,
            op: Op::Read,
            flags: Flags::NONE,
            sector: Sector::new((random >> 40) * 8),
            bytes: Bytes::new(4096),
            ioprio: IoPrio::NONE,
            write_hint: 0,
            tenant: TenantId(0),
            layout: LayoutId(0),
            may_block: true,
        };
        stack.submit(elevon_core::units::Instant::ZERO, io, &mut Full);
    };
    for n in 0..queued {
        submit(&mut stack, n);
    }
    let more = (queued / 10).clamp(10, 1000);
    let started = Instant::now();
    for n in queued..queued + more {
        submit(&mut stack, n);
    }
    started.elapsed().as_nanos() as f64 / more as f64
}

/// Restarts this program on one CPU, which fio inherits, if `taskset` is installed.
fn pinned() -> bool {
    if std::env::var_os("ELEVON_BENCH_PINNED").is_some() {
        return true;
    }
    let Ok(me) = std::env::current_exe() else { return true };
    let cpu = std::thread::available_parallelism().map_or(1, usize::from) - 1;
    let status = Command::new("taskset")
        .args(["-c", &cpu.to_string()])
        .arg(me)
        .args(std::env::args().skip(1))
        .env("ELEVON_BENCH_PINNED", "1")
        .status();
    match status {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(_) => false,
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let short = args.iter().any(|arg| arg == "--test");
    let only = args.iter().position(|arg| arg == "--only").and_then(|at| args.get(at + 1));
    if !short && !pinned() {
        println!("not pinned to one processor: taskset is not installed");
    }
    let (ios, rounds) = if short { (20_000, 1) } else { (2_000_000, ROUNDS) };
    let null = "null:size=100GiB,latency=0";
    for (name, device, scheduler, free) in [
        ("null", null, "none", false),
        ("null-norandommap", null, "none", true),
        ("null-mq-deadline", null, "mq-deadline", false),
        ("nvme", "nvme-datacenter", "none", false),
        ("nvme-mq-deadline", "nvme-datacenter", "mq-deadline", false),
    ] {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let (mut ours, mut theirs, mut hash) = (f64::MAX, f64::MAX, 0);
        for _ in 0..rounds {
            let (ns, digest) = simulate(device, scheduler, ios, free);
            ours = ours.min(ns);
            hash = digest;
            if scheduler == "none" && device == null && !short && only.is_none() {
                theirs = theirs.min(fio(ios, free).unwrap_or(f64::MAX));
            }
        }
        let rate = 1e3 / ours;
        let map = if free { ", norandommap" } else { "" };
        println!(
            "{:<41} {ours:>7.1} ns/IO  {rate:>5.2} M IOPS  hash {hash:016x}",
            format!("{device} {scheduler}{map}")
        );
        if theirs < f64::MAX {
            let (rate, ratio) = (1e3 / theirs, theirs / ours);
            println!(
                "{:<41} {theirs:>7.1} ns/IO  {rate:>5.2} M IOPS  we do {ratio:.2} times as many",
                "fio ioengine=null"
            );
        }
    }
    if only.is_some() {
        return;
    }
    for scheduler in ["none", "mq-deadline"] {
        let most = if short { 1_000 } else { 100_000 };
        for queued in [10u64, 100, 1_000, 10_000, 100_000].into_iter().filter(|n| *n <= most) {
            let ns = (0..rounds).map(|_| insert_cost(scheduler, queued)).fold(f64::MAX, f64::min);
            println!("one more request to {queued:>6} queued, {scheduler:<12} {ns:>7.1} ns");
        }
    }
}
