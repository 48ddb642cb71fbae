//! Tests Kyber in the whole stack with processes that wait for their I/O: against measurements of
//! Linux 6.18, and for the purpose of the scheduler.
//!
//! The device is the one of the measurements: servers behind one FIFO, each occupied for a latency
//! and the transfer, plus 150 us for the real path.

use std::collections::{BTreeMap, VecDeque};

use elevon_core::driver::{Accept, Command, Completion, Driver, Pieces};
use elevon_core::ioprio::IoPrio;
use elevon_core::kernel::Kernel;
use elevon_core::limits::QueueLimits;
use elevon_core::op::{Flags, Op};
use elevon_core::sched::SchedulerConfig;
use elevon_core::stack::{Io, Stack, StackConfig, Submitted};
use elevon_core::units::{Bytes, Instant, LayoutId, Nanos, Sector, Sectors, TaskId, TenantId};

const RECORDS: &str = include_str!("../../../tests/data/kernel-truth/schedulers.jsonl");
const OVERHEAD: Nanos = Nanos::from_micros(150);
/// How long the device takes for a flush.
const FLUSH: Nanos = Nanos::from_micros(300);

struct Slots {
    free: u32,
    latency: Nanos,
    bytes_per_second: u64,
    waiting: VecDeque<Command>,
    /// Commands in service, by time of completion and sequence number.
    serving: BTreeMap<(Instant, u64), Command>,
}

impl Slots {
    fn new(free: u32, latency: Nanos, bytes_per_second: u64) -> Self {
        Self { free, latency, bytes_per_second, waiting: VecDeque::new(), serving: BTreeMap::new() }
    }

    fn serve(&mut self, now: Instant) {
        while self.free > 0
            && let Some(command) = self.waiting.pop_front()
        {
            self.free -= 1;
            let transfer = Nanos::new(command.bytes.get() * 1_000_000_000 / self.bytes_per_second);
            let latency = if command.op == Op::Flush { FLUSH } else { self.latency };
            self.serving.insert((now + latency + transfer, command.sequence), command);
        }
    }
}

impl Driver for Slots {
    fn queue_command(&mut self, now: Instant, command: &Command, _pieces: &dyn Pieces) -> Accept {
        self.waiting.push_back(*command);
        self.serve(now);
        Accept::Ok
    }
}

/// A process that keeps `depth` I/Os in flight: random ones in one half of the device, or
/// sequential ones in the other.
#[derive(Clone, Debug)]
struct Job {
    name: String,
    op: Op,
    bytes: u64,
    depth: u64,
    flags: Flags,
    random: bool,
    /// Every second I/O is a flush.
    flushes: bool,
    next: u64,
    /// Completed I/Os after the warm-up, and the sum of their latencies.
    ended: u64,
    latency: Nanos,
}

impl Job {
    fn new(name: &str, op: Op, bytes: u64, depth: u64) -> Self {
        let flags = if op == Op::Read { Flags::NONE } else { Flags::SYNC.with(Flags::IDLE) };
        Self {
            name: name.into(),
            op,
            bytes,
            depth,
            flags,
            random: op == Op::Read,
            flushes: false,
            next: 1,
            ended: 0,
            latency: Nanos::ZERO,
        }
    }

    fn sector(&mut self, size: u64) -> Sector {
        let blocks = size / self.bytes / 2;
        let block = if self.random {
            self.next =
                self.next.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.next >> 33) % blocks
        } else {
            self.next += 1;
            blocks + self.next % blocks
        };
        Sector::new(block * self.bytes / 512)
    }
}

struct Run {
    stack: Stack,
    device: Slots,
    jobs: Vec<Job>,
    size: u64,
    now: Instant,
    started: BTreeMap<u64, Instant>,
    token: u64,
}

impl Run {
    fn new(device: Slots, size: u64, queues: u16, scheduler: &str, jobs: Vec<Job>) -> Self {
        let limits = QueueLimits {
            max_hw_sectors: Sectors::new(1024),
            max_segments: 512,
            max_write_zeroes_sectors: Sectors::new(1024),
            write_cache: jobs.iter().any(|job| job.flushes),
            ..QueueLimits::default()
        };
        let scheduler = SchedulerConfig::parse(scheduler).expect("a scheduler");
        let sectors = Bytes::new(size).sectors_floor();
        let config = StackConfig {
            kernel: Kernel::V6_18,
            scheduler,
            ..StackConfig::new(limits, sectors, queues, 128)
        };
        let stack = Stack::new(config).expect("a valid configuration");
        Self { stack, device, jobs, size, now: Instant::ZERO, started: BTreeMap::new(), token: 0 }
    }

    fn submit(&mut self, index: usize) {
        let job = &mut self.jobs[index];
        self.token += 1;
        self.started.insert(self.token, self.now);
        let is_flush = job.flushes && self.token.is_multiple_of(2);
        let (op, bytes) = if is_flush { (Op::Flush, 0) } else { (job.op, job.bytes) };
        let io = Io {
            task: TaskId(index as u32),
            token: self.token,
            op,
            flags: job.flags,
            sector: job.sector(self.size),
            bytes: Bytes::new(bytes),
            ioprio: IoPrio::NONE,
            write_hint: 0,
            tenant: TenantId(0),
            layout: LayoutId(0),
            may_block: false,
        };
        assert_eq!(self.stack.submit(self.now, io, &mut self.device), Submitted::Accepted);
    }

    /// Runs until `end`; counts from `from` on.
    fn until(&mut self, from: Instant, end: Instant) {
        for index in 0..self.jobs.len() {
            (0..self.jobs[index].depth).for_each(|_| self.submit(index));
        }
        loop {
            let device = self.device.serving.first_key_value().map(|((at, _), _)| *at);
            let timer = self.stack.next_timer().map(|at| at.max(self.now));
            let next = device.into_iter().chain(timer).min().expect("something is in flight");
            if next > end {
                return;
            }
            self.now = next;
            while let Some(entry) =
                self.device.serving.first_entry().filter(|entry| entry.key().0 <= next)
            {
                let command = entry.remove();
                self.device.free += 1;
                self.device.serve(next);
                let completion = Completion::success(&command);
                self.stack.handle_completion(next, completion, &mut self.device);
            }
            if self.stack.next_timer().is_some_and(|at| at <= next) {
                self.stack.handle_timers(next, &mut self.device);
            }
            while let Some(&done) = self.stack.poll_done() {
                let started = self.started.remove(&done.token).expect("it was submitted");
                let index = done.task.index();
                if started >= from {
                    self.jobs[index].ended += 1;
                    self.jobs[index].latency += next - started;
                }
                self.submit(index);
            }
        }
    }
}

/// Returns the number after `"key": ` in the text; nested objects are not searched.
fn number(text: &str, key: &str) -> f64 {
    let (_, rest) =
        text.split_once(&format!("\"{key}\": ")).unwrap_or_else(|| panic!("no {key} in {text}"));
    rest[..rest.find([',', '}']).expect("a value ends")].trim().parse().expect("a number")
}

/// Parses the sections of a fio job, each with the options of `[global]` first; supports only what
/// these records use.
fn jobs_of(text: &str) -> Vec<Job> {
    let mut global = BTreeMap::new();
    let mut jobs = Vec::new();
    for section in text.split('[').filter(|section| !section.is_empty()) {
        let (name, lines) = section.split_once(']').expect("a header ends");
        let mut options: BTreeMap<&str, &str> =
            if name == "global" { BTreeMap::new() } else { global.clone() };
        options.extend(lines.split("\\n").filter_map(|line| line.split_once('=')));
        if name == "global" {
            global = options;
            continue;
        }
        let op = match options["rw"] {
            "randread" => Op::Read,
            "write" => Op::Write,
            other => panic!("rw={other} is not known here"),
        };
        let kib: u64 = options["bs"].trim_end_matches('k').parse().expect("a size in KiB");
        let depth = if options["ioengine"] == "psync" {
            1
        } else {
            options["iodepth"].parse().expect("a depth")
        };
        jobs.push(Job::new(name, op, kib << 10, depth));
    }
    jobs
}

#[test]
fn every_job_runs_as_fast_as_under_the_kernel() {
    let mut compared = 0;
    for record in RECORDS.lines().filter(|line| line.contains("\"scheduler\": \"kyber\"")) {
        let (_, job) = record.split_once("\"job\": \"").expect("a record has a job");
        let (job, result) = job.split_once("\", \"result\": ").expect("and a result");
        let latency = Nanos::from_micros(number(record, "lat_us") as u64) + OVERHEAD;
        let device = Slots::new(
            number(record, "slots") as u32,
            latency,
            number(record, "mbps") as u64 * 1_000_000,
        );
        let size = (number(record, "size_mb") as u64) << 20;
        let mut run = Run::new(device, size, 1, "kyber", jobs_of(job));
        let seconds = 4;
        run.until(Instant::ZERO, Instant::ZERO + Nanos::from_secs(seconds));
        for job in &run.jobs {
            let (_, of_job) =
                result.split_once(&format!("\"{}\": ", job.name)).expect("every job has a result");
            let kernel = number(of_job, "iops");
            let ours = job.ended as f64 / seconds as f64;
            println!("{} iops: kernel {kernel}, ours {ours}", job.name);
            assert!(
                (ours - kernel).abs() <= 0.1 * kernel,
                "{}: kernel {kernel}, ours {ours}; {record}",
                job.name
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 9);
}

/// Runs a reader and a writer on a device that meets the write target easily, but misses the read
/// target because of the writes.
fn reader_against_writer(scheduler: &str) -> (Job, Job, Vec<u32>) {
    let device = Slots::new(8, Nanos::from_millis(1), 1_000_000_000_000);
    // Random writes, so that those waiting in the scheduler do not merge.
    let writer = Job { random: true, next: 2, ..Job::new("w", Op::Write, 4096, 32) };
    let jobs = vec![Job::new("r", Op::Read, 4096, 1), writer];
    let mut run = Run::new(device, 1 << 30, 1, scheduler, jobs);
    run.until(Instant::ZERO + Nanos::from_secs(20), Instant::ZERO + Nanos::from_secs(30));
    run.stack.self_check();
    let depths = match run.stack.scheduler() {
        elevon_core::sched::AnyScheduler::Kyber(kyber) => kyber.depths().to_vec(),
        _ => Vec::new(),
    };
    let [reader, writer] = run.jobs.try_into().expect("two jobs");
    (reader, writer, depths)
}

#[test]
fn writes_that_have_time_give_depth_to_reads_that_have_not() {
    let mean = |job: &Job| job.latency.get() / job.ended / 1000;
    let (reader, writer, _) = reader_against_writer("none");
    assert!(
        (4000..5300).contains(&mean(&reader)),
        "33 I/Os behind 8 servers of 1 ms: {} us",
        mean(&reader)
    );
    let alone = writer.ended;
    let (reader, writer, depths) = reader_against_writer("kyber");
    println!(
        "reads {} us, writes {} us, {} of {alone} writes, depths {depths:?}",
        mean(&reader),
        mean(&writer),
        writer.ended
    );
    assert!(mean(&reader) <= 2500, "the read target is 2 ms, the mean is {} us", mean(&reader));
    assert!(
        mean(&writer) <= 10_000,
        "and that of writes is 10 ms, the mean is {} us",
        mean(&writer)
    );
    assert!(depths[1] < 32, "write depth {}", depths[1]);
    let (reader, _, depths) = reader_against_writer("kyber:read_lat_nsec=1000000000");
    assert!(
        mean(&reader) > 4000 && depths == [256, 128, 64, 16],
        "a target that is met takes nothing: {depths:?}"
    );
}

/// Flushes leave a process that writes and flushes a depth of 1, as they did on such a device under
/// Linux 6.18.44, in two seconds.
#[test]
fn a_process_that_flushes_takes_its_own_depth() {
    for (flushes, expected) in [(false, 128), (true, 1)] {
        let device = Slots::new(4, Nanos::from_micros(600), 300_000_000);
        let job = Job { flushes, ..Job::new("w", Op::Write, 4096, 1) };
        let mut run = Run::new(device, 1 << 30, 1, "kyber", vec![job]);
        run.until(Instant::ZERO, Instant::ZERO + Nanos::from_secs(2));
        run.stack.self_check();
        let elevon_core::sched::AnyScheduler::Kyber(kyber) = run.stack.scheduler() else {
            panic!("another scheduler")
        };
        assert_eq!(kyber.depths(), [256, expected, 64, 16], "with flushes: {flushes}");
    }
}

/// Write zeroes have 16 tokens for the whole device, however fast it is. The device must not idle
/// (a queue without a token runs when a token becomes free, not 3 ms later), and the first hardware
/// queue must not be favoured.
#[test]
fn hardware_queues_share_the_tokens_of_a_domain() {
    let device = Slots::new(64, Nanos::from_millis(1), 1_000_000_000_000);
    let job = |n: u64| Job { random: true, next: n, ..Job::new("z", Op::WriteZeroes, 4096, 20) };
    let mut run = Run::new(device, 1 << 40, 4, "kyber", (0..4).map(job).collect());
    run.until(Instant::ZERO, Instant::ZERO + Nanos::from_secs(2));
    run.stack.self_check();
    let ended: Vec<u64> = run.jobs.iter().map(|job| job.ended).collect();
    let all: u64 = ended.iter().sum();
    assert!(all > 31_000, "16 at a time, 1 ms each, for 2 s are 32000; {all} ended");
    assert!(
        ended.iter().all(|n| n.abs_diff(all / 4) < all / 40),
        "shares of four equal processes: {ended:?}"
    );
}
