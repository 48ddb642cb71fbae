//! Whole job files through the real stack, on a device that completes every command after the same
//! time.

mod fixed;

use elevon_core::account::DiskStats;
use elevon_core::driver::Command;
use elevon_core::event::{Event, EventKind};
use elevon_core::layout::Layout;
use elevon_core::limits::QueueLimits;
use elevon_core::stack::{Stack, StackConfig};
use elevon_core::units::{Bytes, Instant, LayoutId, Nanos, Sectors, TaskId};
use elevon_engine::Engine;
use elevon_formats::fio::spec::{Amount, ExitWhat, JobSpec, Rw, VerifyMethod};
use elevon_workload::cpu::{CpuCost, SchedulerCost};
use elevon_workload::jobs::{Jobs, JobsOptions};
use elevon_workload::run::{EndedEarly, NoObserver, Observer, Progress, RunOutcome, run};

use fixed::Fixed;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

fn job(name: &str, edit: impl FnOnce(&mut JobSpec)) -> JobSpec {
    let mut spec = JobSpec::default_job(name);
    spec.space.size = Some(Amount::Bytes(MIB));
    spec.files.names = vec!["/dev/test".into()];
    edit(&mut spec);
    spec
}
fn deep(spec: &mut JobSpec, depth: u32) {
    spec.engine.asynchronous = true;
    spec.engine.submission_blocks = true;
    (spec.queue.depth, spec.queue.low) = (depth, depth);
}
fn stack(depth: u32) -> Stack {
    let config =
        StackConfig::new(QueueLimits::default(), Bytes::new(64 * MIB).sectors_floor(), 1, depth);
    Stack::new(config).expect("a valid stack")
}
fn build(stack: &mut Stack, specs: &[JobSpec], cpu: CpuCost) -> Jobs {
    let options = JobsOptions { cpu, ..JobsOptions::new(stack.config()) };
    let mut layout = |_: TaskId, _: u32, bytes: u64| -> LayoutId {
        stack.register_layout(Layout::contiguous(bytes.max(4096), 1 << 20))
    };
    Jobs::new(specs, &options, &mut layout).expect("jobs that fit")
}
fn go_with(
    specs: &[JobSpec],
    device: &mut Fixed,
    depth: u32,
    observer: &mut dyn Observer,
) -> RunOutcome {
    let mut stack = stack(depth);
    let mut jobs = build(&mut stack, specs, CpuCost::default());
    run(&mut Engine::new(stack, device), &mut jobs, observer)
}
fn go(specs: &[JobSpec]) -> RunOutcome {
    go_with(specs, &mut Fixed::new(100 * US), 64, &mut NoObserver)
}
fn span(outcome: &RunOutcome, job: usize) -> (u64, u64) {
    let job = &outcome.jobs[job];
    (job.start.expect("started").get(), job.end.expect("over").get())
}

#[test]
fn a_ramp_is_in_no_figure() {
    let timed = |name, ramp: u64| {
        job(name, |s| {
            (s.timing.time_based, s.timing.runtime, s.timing.ramp_time) =
                (true, Nanos::new(20_000 * US), Nanos::new(ramp * US));
        })
    };
    let outcome = go(&[timed("a", 10_000)]);
    assert_eq!(span(&outcome, 0), (0, 30_000 * US));
    let stats = &outcome.jobs[0].stats;
    assert_eq!((stats.run_ns, stats.directions[0].runtime_ns), (20_000 * US, 20_000 * US));
    let disk = outcome.disk_end.groups[0].ios - outcome.disk_start.groups[0].ios;
    assert!(disk.abs_diff(stats.directions[0].ios) <= 1 && (190..=201).contains(&disk), "{disk}");
    assert_eq!(outcome.disk_start.at.get(), 10_000 * US);
    // Times of a group add up.
    let mut both = stats.clone();
    both.merge(&go(&[timed("b", 0)]).jobs[0].stats);
    assert_eq!(both.run_ns, 40_000 * US);
}

#[test]
fn one_job_through_the_stack() {
    let outcome = go(&[job("a", |_| {})]);
    assert_eq!(span(&outcome, 0), (0, 256 * 100 * US));
    let read = &outcome.jobs[0].stats.directions[0];
    assert_eq!((read.ios, read.clat.min, read.clat.max), (256, 100 * US, 100 * US));
    assert_eq!((outcome.disk_end.groups[0].ios, outcome.disk_start.groups[0].ios), (256, 0));
    assert_eq!((outcome.ended_early, outcome.ended.get()), (None, 256 * 100 * US));
    let points = outcome.series.points();
    assert_eq!(points.iter().map(|p| p.bytes[0]).sum::<u64>(), MIB);
    assert_eq!(
        points.iter().map(|p| p.in_flight).sum::<u128>(),
        256 * 100 * 1000,
        "one in flight all the time"
    );
    assert_eq!(outcome.disk_end.groups[0].sectors, MIB / 512, "256 requests of 4 KiB");
}

#[test]
fn many_processes_share_the_device() {
    let specs = [job("a", |s| s.numjobs = 5), job("b", |s| deep(s, 8))];
    let mut device = Fixed::new(100 * US);
    let outcome = go_with(&specs, &mut device, 64, &mut NoObserver);
    assert_eq!(outcome.jobs.len(), 6);
    assert_eq!(device.deepest, 13);
    assert!(outcome.jobs.iter().all(|j| j.stats.directions[0].ios == 256 && j.stats.error == 0));
    assert_eq!((0..6).map(|j| span(&outcome, j).1).max(), Some(256 * 100 * US));
    assert_eq!(outcome.jobs[4].number, 1005);
}

#[test]
fn a_full_queue_blocks_the_submitter() {
    let spec = job("a", |s| {
        deep(s, 32);
        s.queue.batch_submit = 16;
        s.rw.random = true;
    });
    let mut device = Fixed::new(100 * US);
    let outcome = go_with(&[spec], &mut device, 4, &mut NoObserver);
    let read = &outcome.jobs[0].stats.directions[0];
    assert!(device.deepest <= 4);
    assert_eq!((read.ios, outcome.ended.get()), (256, 256 / 4 * 100 * US));
    assert!(
        read.slat.max >= 100 * US,
        "sleeping for a tag is submission latency: {}",
        read.slat.max
    );
}

#[test]
fn stonewalls_groups_and_wait_for() {
    let wait = |name: &str| Some(name.to_owned());
    let specs = [
        job("a", |s| s.numjobs = 2),
        job("b", |s| s.report.new_group = true),
        job("c", |s| s.order.wait_for = wait("b")),
        job("d", |s| s.order.stonewall = true),
        job("e", |s| s.timing.start_delay = (Nanos::from_millis(5), Nanos::from_millis(5))),
    ];
    let outcome = go(&specs);
    let one = 256 * 100 * US;
    let spans: Vec<(u64, u64)> = (0..6).map(|j| span(&outcome, j)).collect();
    assert_eq!(spans[..4], [(0, one), (0, one), (0, one), (one, 2 * one)]);
    assert_eq!(spans[4..], [(2 * one, 3 * one), (2 * one + 5 * MS, 3 * one + 5 * MS)]);
    let groups: Vec<u32> = outcome.jobs.iter().map(|j| j.group).collect();
    assert_eq!(groups, [0, 0, 1, 1, 2, 2]);
}

#[test]
fn wait_for_must_name_one_earlier_job() {
    let mut stack = stack(4);
    let options = JobsOptions::new(stack.config());
    let mut layouts =
        |_: TaskId, _: u32, bytes| stack.register_layout(Layout::contiguous(bytes, 4096));
    let waiting = job("w", |s| s.order.wait_for = Some("x".into()));
    let x = job("x", |_| {});
    for (specs, words) in [
        (vec![waiting.clone()], "no job is called x"),
        (vec![waiting.clone(), x.clone()], "before"),
        (vec![x.clone(), x, waiting], "several"),
    ] {
        let error = Jobs::new(&specs, &options, &mut layouts).expect_err("bad");
        assert!(
            error.to_string().starts_with("default:0: wait_for: ") && error.message.contains(words),
            "{error}"
        );
    }
}

#[test]
fn exitall_ends_the_group() {
    let endless = |s: &mut JobSpec| {
        s.timing.time_based = true;
        s.timing.runtime = Nanos::from_secs(10);
    };
    let specs = [
        job("short", |s| s.order.exitall = true),
        job("long", endless),
        job("later", |s| s.order.stonewall = true),
    ];
    let outcome = go(&specs);
    let one = 256 * 100 * US;
    assert!(span(&outcome, 1).1 <= one + 100 * US);
    assert_eq!(outcome.jobs[2].stats.directions[0].ios, 256, "another group runs on");
    // The first job of the group that ends ends the others, whichever section has the option.
    let specs = [job("short", |_| ()), job("long", |s| (endless(s), s.order.exitall = true).1)];
    assert!(span(&go(&specs), 1).1 <= one + 100 * US);
}

#[test]
fn exit_what_says_how_far_exitall_goes() {
    let ios = |what, failing: bool| {
        let mut specs = [
            job("short", |s| (s.order.exitall, s.order.exit_what) = (!failing, what)),
            job("other", |s| {
                (s.report.new_group, s.space.size) = (true, Some(Amount::Bytes(4 * MIB)));
            }),
            job("later", |s| s.order.stonewall = true),
        ];
        if failing {
            (specs[0].order.exitall_on_error, specs[0].latency.max[0]) = (true, Nanos::new(1));
        }
        go(&specs).jobs.iter().map(|job| job.stats.directions[0].ios).collect::<Vec<_>>()
    };
    assert_eq!(ios(ExitWhat::Group, false), [256, 1024, 256]);
    let stonewall = ios(ExitWhat::Stonewall, false);
    assert!(stonewall[1] < 300 && stonewall[2] == 256, "{stonewall:?}");
    let all = ios(ExitWhat::All, false);
    assert!(all[1] < 300 && all[2] == 0, "{all:?}");
    let failed = ios(ExitWhat::Group, true);
    assert!(failed[0] == 1 && failed[1] < 10 && failed[2] == 0, "{failed:?}");
}

#[test]
fn a_device_of_no_latency_runs_at_one_instant() {
    let spec = job("a", |s| {
        deep(s, 32);
        s.rw.random = true;
        s.timing.loops = 40;
    });
    let outcome = go_with(&[spec], &mut Fixed::new(0), 64, &mut NoObserver);
    assert_eq!((outcome.jobs[0].stats.directions[0].ios, outcome.ended.get()), (10240, 0));
}

#[test]
fn an_interrupt_drains_and_still_reports() {
    let specs = [
        job("a", |s| {
            deep(s, 4);
            s.timing.time_based = true;
            s.timing.runtime = Nanos::from_secs(10);
        }),
        job("b", |s| s.order.stonewall = true),
    ];
    let mut device = Fixed::new(100 * US);
    device.interrupt_at = 10 * MS;
    let outcome = go_with(&specs, &mut device, 64, &mut NoObserver);
    assert_eq!(outcome.ended_early, Some(EndedEarly::Interrupted));
    assert_eq!(outcome.jobs[0].stats.directions[0].ios, 400, "all that was issued before 10 ms");
    assert_eq!((outcome.jobs[1].start, outcome.ended.get()), (None, 10 * MS));
}

#[test]
fn a_device_that_forgets_ends_the_run() {
    for interrupt_at in [u64::MAX, 100_000 * MS] {
        let mut device = Fixed::new(100 * US);
        (device.forget, device.interrupt_at) = (true, interrupt_at);
        let outcome = go_with(&[job("a", |_| {})], &mut device, 4, &mut NoObserver);
        assert_eq!(outcome.jobs[0].stats.directions[0].ios, 0);
        let expected =
            if interrupt_at == u64::MAX { EndedEarly::Stuck } else { EndedEarly::Interrupted };
        assert_eq!(outcome.ended_early, Some(expected));
        assert!(device.now < 700_000 * MS);
    }
}

#[test]
fn a_gap_of_any_length_is_no_dead_device() {
    let hour = Nanos::from_secs(3_600);
    let late = job("late", |s| s.timing.start_delay = (hour, hour));
    let thinker = job("thinker", |s| {
        s.space.size = Some(Amount::Bytes(4 * 4096));
        (s.think.time, s.think.blocks) = (Nanos::from_secs(1_200), 1);
    });
    // One I/O of 4 KiB in 1024 s.
    let slow = job("slow", |s| {
        s.space.size = Some(Amount::Bytes(4 * 4096));
        s.rates.bytes = [Some(4); 3];
    });
    for (spec, ios) in [(late, 256), (thinker, 4), (slow, 4)] {
        let outcome = go(std::slice::from_ref(&spec));
        assert_eq!(
            (outcome.ended_early, outcome.jobs[0].stats.directions[0].ios),
            (None, ios),
            "{}",
            spec.name
        );
        assert!(outcome.ended.get() > 1_000 * 1_000 * MS, "{}", spec.name);
    }
}

#[test]
fn a_device_that_forgets_after_a_gap_ends_the_run() {
    let hour = Nanos::from_secs(3_600);
    let late = job("late", |s| s.timing.start_delay = (hour, hour));
    let mut device = Fixed::new(100 * US);
    device.forget = true;
    let outcome = go_with(&[late], &mut device, 4, &mut NoObserver);
    assert_eq!(
        (outcome.ended_early, outcome.jobs[0].stats.directions[0].ios),
        (Some(EndedEarly::Stuck), 0)
    );
    let waited = device.now - hour.get();
    assert!(
        (600_000 * MS..700_000 * MS).contains(&waited),
        "{waited} ns since the first submission"
    );
}

/// Records the calls of an observer.
#[derive(Default)]
struct Notes {
    at: Vec<u64>,
    reads: Vec<u64>,
    per_mille: Vec<u64>,
    events: Vec<EventKind>,
}
impl Observer for Notes {
    fn interval(&self) -> Option<Nanos> {
        Some(Nanos::from_millis(5))
    }
    fn on_interval(
        &mut self,
        now: Instant,
        disk: &mut dyn FnMut() -> DiskStats,
        jobs: &[Progress],
    ) {
        let disk = &disk();
        self.at.push(now.get() / MS);
        self.reads.push(disk.groups[0].ios);
        self.per_mille.push(jobs[0].per_mille);
        assert_eq!(jobs[0].ios[0], disk.groups[0].ios);
    }
    fn on_events(&mut self, events: &[Event]) {
        self.events.extend(events.iter().map(|e| e.kind));
    }
}

#[test]
fn observers_see_intervals_and_events() {
    let mut notes = Notes::default();
    let mut stack = stack(64);
    stack.set_tracing(true);
    let spec = job("a", |_| {});
    let mut jobs = build(&mut stack, &[spec], CpuCost::default());
    run(&mut Engine::new(stack, Fixed::new(100 * US)), &mut jobs, &mut notes);
    assert_eq!(notes.at, [5, 10, 15, 20, 25]);
    assert_eq!(notes.reads, [50, 100, 150, 200, 250]);
    assert!(notes.per_mille.windows(2).all(|w| w[0] < w[1]));
    assert_eq!(notes.events.iter().filter(|k| matches!(k, EventKind::Issue)).count(), 256);
}

#[test]
fn verification_of_real_bytes_through_the_stack() {
    let spec = job("v", |s| {
        deep(s, 8);
        s.rw = Rw { read: false, write: true, random: true, ..s.rw };
        s.verify.method = Some(VerifyMethod::Crc32c);
        s.durability.end_fsync = true;
    });
    let mut device = Fixed::new(100 * US);
    device.memory = Some(vec![0; 64 * MIB as usize]);
    let outcome = go_with(std::slice::from_ref(&spec), &mut device, 64, &mut NoObserver);
    let stats = &outcome.jobs[0].stats;
    assert_eq!((stats.verified_bytes, stats.verify_errors, stats.error), (MIB, 0, 0));
    assert_eq!(stats.sync.count, 1);
    // A later job that only reads finds a byte that was changed in between.
    device.memory.as_mut().expect("there")[300_000] ^= 1;
    let spec = job("v", |s| s.verify.method = Some(VerifyMethod::Crc32c));
    let mut again = Fixed::new(100 * US);
    again.memory = device.memory.take();
    let outcome = go_with(&[spec], &mut again, 64, &mut NoObserver);
    let stats = &outcome.jobs[0].stats;
    assert_eq!((stats.verified_bytes, stats.verify_errors, stats.error), (MIB, 1, 84));
}

#[test]
fn same_seed_same_commands() {
    let specs = [
        job("a", |s| {
            deep(s, 8);
            s.numjobs = 3;
            s.rw = Rw { write: true, random: true, ..s.rw };
        }),
        job("b", |s| s.think.time = Nanos::new(77 * US)),
    ];
    let commands = || {
        let mut device = Fixed::new(100 * US);
        go_with(&specs, &mut device, 8, &mut NoObserver);
        let key = |(_, c): &(u64, Command)| (c.sector, c.bytes, c.op, c.tag);
        device.commands.iter().map(key).collect::<Vec<_>>()
    };
    let first = commands();
    assert_eq!(first, commands());
    assert_eq!(first.len(), 4 * 256);
    assert!(first.iter().all(|c| c.1.sectors_floor() == Sectors::new(8)));
}

#[test]
fn cpu_cost_bounds_one_process_and_not_several() {
    let cpu = CpuCost::new(Nanos::new(2 * US), Nanos::new(US));
    let spec = job("a", |s| {
        deep(s, 64);
        s.timing.time_based = true;
        s.timing.runtime = Nanos::from_millis(30);
    });
    let ios = |numjobs| {
        let mut stack = stack(256);
        let spec = JobSpec { numjobs, ..spec.clone() };
        let mut jobs = build(&mut stack, &[spec], cpu);
        let outcome = run(&mut Engine::new(stack, Fixed::new(10 * US)), &mut jobs, &mut NoObserver);
        outcome.jobs.iter().map(|j| j.stats.directions[0].ios).sum::<u64>()
    };
    let one = ios(1);
    assert!((9_900..10_100).contains(&one), "{one}");
    assert!(ios(4).abs_diff(4 * one) < 200);
}

#[test]
fn a_lock_for_the_device_bounds_several_processes_together() {
    let ios = |numjobs, depth, locked| {
        let spec = job("a", |s| {
            deep(s, depth);
            s.timing.time_based = true;
            s.timing.runtime = Nanos::from_millis(30);
            s.numjobs = numjobs;
        });
        let scheduler = SchedulerCost { request: Nanos::new(3 * US), locked: Nanos::new(locked) };
        let cpu = CpuCost { scheduler, ..CpuCost::new(Nanos::new(2 * US), Nanos::new(US)) };
        let mut stack = stack(256);
        let mut jobs = build(&mut stack, &[spec], cpu);
        let outcome = run(&mut Engine::new(stack, Fixed::new(10 * US)), &mut jobs, &mut NoObserver);
        let cpu: u64 = outcome.jobs.iter().map(|j| j.stats.cpu_ns).sum();
        let ios: u64 = outcome.jobs.iter().map(|j| j.stats.directions[0].ios).sum();
        assert_eq!(outcome.scheduler_lock.get(), ios * locked, "each I/O has the lock for as long");
        (ios, cpu / u64::from(numjobs) * 100 / outcome.ended.get())
    };
    // One process pays for all of the scheduler's time, whatever part of it is under the lock: 6 us
    // per I/O.
    for locked in [0, 3 * US] {
        let (one, busy) = ios(1, 64, locked);
        assert!((4_950..5_050).contains(&one), "{one}");
        assert!(busy >= 99, "{busy} %");
        // At depth 1, CPU time is part of the latency: 16 us in total.
        assert!((1_870..1_880).contains(&ios(1, 1, locked).0));
    }
    // With four processes and no lock, four times as many I/Os. With a lock of 3 us, ten I/Os in 30
    // us, and tasks that wait for the lock spin.
    assert!((19_800..20_200).contains(&ios(4, 64, 0).0));
    let (four, busy) = ios(4, 64, 3 * US);
    assert!((9_900..10_100).contains(&four), "{four}");
    assert!(busy >= 99, "{busy} %");
}
