//! Buffered and mapped jobs through the page cache and the real stack, over a device with a fixed
//! latency.

mod direct;
#[path = "../fixed/mod.rs"]
mod fixed;
mod interrupts;

use elevon_cache::activity::Activity;
use elevon_cache::page_cache::CacheConfig;
use elevon_cache::stats::{CacheUse, Window};
use elevon_core::driver::{Accept, Command, Completion, Driver, Pieces};
use elevon_core::layout::Layout;
use elevon_core::limits::QueueLimits;
use elevon_core::op::{Flags, Op};
use elevon_core::stack::{Stack, StackConfig};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, LayoutId, Nanos, PageIndex, Sectors, TaskId};
use elevon_engine::{Backend, Engine};
use elevon_formats::fio::spec::{
    Amount, BlockSizes, Caching, Fadvise, JobSpec, Rw, SyncFileRange, SyncMode,
};
use elevon_workload::buffered::{ActivityControl, BufferedIo, CacheCost};
use elevon_workload::jobs::{Jobs, JobsOptions};
use elevon_workload::process::CpuCost;
use elevon_workload::run::{EndedEarly, JobOutcome, NoObserver, RunOutcome, run, run_cached};

use fixed::Fixed;

const US: u64 = 1_000;
const MIB: u64 = 1 << 20;
const LATENCY: u64 = 100 * US;
const COST: CacheCost =
    CacheCost { call: Nanos::new(600), hit: Nanos::new(500), fault: Nanos::new(1_400), bio: None };
const CPU: CpuCost = CpuCost::new(Nanos::new(4_000), Nanos::new(1_000));

/// A run with its results.
struct Ran {
    outcome: RunOutcome,
    device: Fixed,
    cached: BufferedIo,
    stack: Stack,
}

impl Ran {
    fn cache_use(&self, job: usize) -> &CacheUse {
        self.outcome.jobs[job].cache_use.as_ref().expect("a buffered job")
    }
    fn bytes(&self, op: Op) -> u64 {
        self.device
            .commands
            .iter()
            .filter(|(_, command)| command.op == op)
            .map(|(_, c)| c.bytes.get())
            .sum()
    }
    fn commands(&self, op: Op) -> usize {
        self.device.commands.iter().filter(|(_, command)| command.op == op).count()
    }
    fn nanos(&self, job: usize) -> u64 {
        let job = &self.outcome.jobs[job];
        job.end.expect("over").since(job.start.expect("started")).get()
    }
}

fn job(name: &str, edit: impl FnOnce(&mut JobSpec)) -> JobSpec {
    let mut spec = JobSpec::default_job(name);
    spec.space.size = Some(Amount::Bytes(MIB));
    spec.files.names = vec!["file".into()];
    edit(&mut spec);
    spec
}
fn writes(spec: &mut JobSpec) {
    spec.rw = Rw { read: false, write: true, ..Rw::default() };
}
fn engine(spec: &mut JobSpec, name: &str, blocks: bool) {
    spec.engine.name = name.into();
    spec.engine.asynchronous = name != "mmap";
    spec.engine.submission_blocks = blocks;
}

fn config(memory: u64) -> CacheConfig {
    CacheConfig::new(Bytes::new(memory), TaskId(0))
}

fn stack(depth: u32) -> (Stack, JobsOptions) {
    let limits = QueueLimits {
        write_cache: true,
        max_hw_discard_sectors: Sectors::new(1 << 20),
        discard_granularity: 512,
        ..QueueLimits::default()
    };
    let config = StackConfig::new(limits, Bytes::new(256 * MIB).sectors_floor(), 1, depth);
    let options = JobsOptions { cpu: CPU, cached: true, ..JobsOptions::new(&config) };
    (Stack::new(config).expect("a valid stack"), options)
}

fn go_with(specs: &[JobSpec], config: CacheConfig, depth: u32) -> Ran {
    go_under(specs, config, depth, None)
}

fn go_under(
    specs: &[JobSpec],
    config: CacheConfig,
    depth: u32,
    control: Option<ActivityControl>,
) -> Ran {
    let (mut stack, options) = stack(depth);
    let mut layout = |_: TaskId, _: u32, bytes: u64| -> LayoutId {
        stack.register_layout(Layout::contiguous(bytes.max(4096), 1 << 20))
    };
    let mut jobs = Jobs::new(specs, &options, &mut layout).expect("jobs that fit");
    let mut cached = BufferedIo::new(config, COST, CPU, &mut jobs, &stack);
    if let Some(control) = control {
        cached.set_control(control);
    }
    let mut engine = Engine::new(stack, Fixed::new(LATENCY));
    let outcome = run_cached(&mut engine, &mut jobs, &mut cached, &mut NoObserver);
    let (stack, device) = engine.into_parts();
    assert!(outcome.ended_early.is_none() && outcome.jobs.iter().all(|job| job.stats.error == 0));
    cached.cache().self_check();
    stack.self_check();
    Ran { outcome, device, cached, stack }
}

fn go(specs: &[JobSpec]) -> Ran {
    go_with(specs, config(64 * MIB), 64)
}

#[test]
fn a_job_that_reads_twice_reads_the_device_once() {
    let first = job("first", |_| {});
    let second = job("second", |s| (s.caching.invalidate, s.order.stonewall) = (false, true));
    let third = job("third", |s| s.order.stonewall = true);
    let ran = go(&[first, second, third]);
    assert_eq!(
        ran.bytes(Op::Read),
        2 * MIB,
        "the second finds everything, the third drops it first"
    );
    assert_eq!(ran.nanos(1), 256 * 1_100, "calls and copies alone");
    let waits = |job: usize| ran.cache_use(job).read.iowait.count;
    assert_eq!((waits(1), waits(0), waits(0) > 0), (0, waits(2), true));
    assert_eq!((ran.cache_use(0).read.calls, ran.cached.cache().stats().hits > 256), (256, true));
    assert_eq!(ran.cache_use(0).fault.calls, 0);
}

/// fio 3.33 calls `posix_fadvise(DONTNEED)` at the start of each pass, and not if a random job may
/// visit a block twice.
#[test]
fn each_pass_over_a_file_reads_the_device_again() {
    type Change = fn(&mut JobSpec);
    let passes: [(Change, u64); 6] = [
        (|s| s.timing.loops = 3, 3),
        (|s| s.space.io_size = Some(Amount::Bytes(3 * MIB)), 3),
        (|s| (s.rw.random, s.space.io_size) = (true, Some(Amount::Bytes(3 * MIB))), 3),
        (
            |s| {
                (s.rw.random, s.random.norandommap, s.space.io_size) =
                    (true, true, Some(Amount::Bytes(3 * MIB)));
            },
            1,
        ),
        (|s| (s.timing.loops, s.caching.invalidate) = (3, false), 1),
        (|s| (s.timing.loops, s.caching.pre_read) = (3, true), 1),
    ];
    for (index, (change, passes)) in passes.into_iter().enumerate() {
        let read = go(&[job("a", change)]).bytes(Op::Read);
        // Random I/O that may visit a block twice leaves a few out.
        assert_eq!(read.next_multiple_of(MIB), passes * MIB, "case {index}: {read}");
    }
}

#[test]
fn a_block_device_loses_its_cache_when_its_last_user_closes_it() {
    let on_device = |name, edit: fn(&mut JobSpec)| {
        job(name, |s| {
            (s.files.names, s.caching.invalidate) = (vec!["/dev/x".into()], false);
            edit(s);
        })
    };
    let (a, later) =
        (|edit| on_device("a", edit), on_device("later", |s| s.order.stonewall = true));
    let read = |jobs: &[JobSpec]| go(jobs).bytes(Op::Read) / MIB;
    assert_eq!(read(&[a(|s| s.timing.loops = 3)]), 3);
    assert_eq!(read(&[a(|_| {}), later.clone()]), 2);
    assert_eq!(read(&[a(|_| {}), on_device("beside", |_| {})]), 1);
    let written = go(&[a(writes), later]);
    assert_eq!(
        (written.bytes(Op::Write), written.bytes(Op::Read) / MIB),
        (MIB, 1),
        "written, dropped and read"
    );
}

#[test]
fn what_a_job_mapped_does_not_stay_for_a_later_one_that_drops_the_file() {
    let first = job("first", |s| engine(s, "mmap", true));
    let second = job("second", |s| s.order.stonewall = true);
    assert_eq!(go(&[first, second]).bytes(Op::Read), 2 * MIB);
}

#[test]
fn readahead_makes_a_sequential_reader_wait_seldom_and_for_large_requests() {
    let read = |fadvise| {
        let ran = go(&[job("a", |s| s.caching.fadvise = fadvise)]);
        (ran.commands(Op::Read), ran.cache_use(0).read.iowait.count, ran.nanos(0))
    };
    let (random, advised) = (read(Fadvise::Random), read(Fadvise::ByWorkload));
    assert_eq!((random.0, random.1), (256, 256), "each page by itself");
    // Submission and wake-up, in addition to call and copy: 4 + 1 + 1.1 us.
    assert_eq!(random.2, 256 * (LATENCY + 6_100));
    let none = read(Fadvise::None);
    assert!(advised.0 < none.0 && none.0 < 20 && none.2 < random.2 / 5, "{advised:?} {none:?}");
}

#[test]
fn a_random_reader_among_eight_finds_what_the_others_read() {
    let spec = job("r", |s| {
        s.rw.random = true;
        s.numjobs = 8;
        s.space.size = Some(Amount::Bytes(4 * MIB));
    });
    let ran = go(&[spec]);
    let bytes: u64 = ran.outcome.jobs.iter().map(|job| job.stats.directions[0].bytes).sum();
    assert_eq!((bytes, ran.bytes(Op::Read)), (32 * MIB, 4 * MIB));
    assert_eq!(ran.commands(Op::Read), 1024, "told that it is random: single pages");
    let stats = ran.cached.cache().stats();
    assert_eq!((stats.misses >= 1024, stats.hits + stats.misses), (true, 8192));
}

#[test]
fn a_mapped_reader_faults_around() {
    let ran = go(&[job("m", |s| {
        engine(s, "mmap", true);
        s.caching.fadvise = Fadvise::None;
    })]);
    assert_eq!(ran.bytes(Op::Read), MIB);
    let used = ran.cache_use(0);
    assert_eq!(used.touches + used.fault.calls, 256);
    // Read-around reads 32 pages, and each fault maps 16. One that waits for a page is minor.
    assert!((17..=40).contains(&used.fault.calls) && used.fault.major >= 1, "{used:?}");
    assert_eq!((used.read.calls, used.fault.iowait.count > 0), (0, true));
    assert!(
        used.fault.iowait.max <= 2 * LATENCY
            && used.fault.device_ns >= LATENCY * used.fault.iowait.count / 2
    );
    let cache = ran.cached.cache();
    assert_eq!(
        cache.stats().mapped_around + used.fault.calls,
        256,
        "every page once, itself or about another"
    );
    assert_eq!(cache.resident().pages().mapped(), 0, "a mapping ends with its process");
}

#[test]
fn a_mapped_writer_makes_pages_dirty_and_syncs_them() {
    let ran = go(&[job("m", |s| {
        engine(s, "mmap", true);
        writes(s);
        s.caching.overwrite = true;
        s.durability.end_fsync = true;
    })]);
    assert_eq!(
        (ran.bytes(Op::Read), ran.bytes(Op::Write)),
        (MIB, MIB),
        "a page is read before it is stored to"
    );
    assert_eq!(ran.cache_use(0).fsync.calls, 1);
    assert_eq!(ran.outcome.jobs[0].stats.sync.count, 1);
}

/// Asserts that the last reading equals the cache's state at the end, and that no counter
/// decreases before it. `slept`: nanoseconds of all sleeps.
fn assert_readings_end_at(ran: &Ran, slept: u128) {
    let traffic = ran.cached.io_stats();
    let ended = ran.outcome.ended.since(Instant::ZERO);
    let (at, last) = ran.cached.series().readings().last().expect("some time passed");
    let last = &last[0];
    assert_eq!((at, last.bios, last.promoted), (ended, traffic.bios, ran.cached.promoted()));
    assert_eq!((last.misses, last.dirty), (ran.cached.cache().stats().misses, 0));
    assert_eq!(last.waits.iter().map(|waits| u128::from(waits.iowait.get())).sum::<u128>(), slept);
    let mut before = 0;
    for (at, reading) in ran.cached.series().readings() {
        let now = reading[0].waits[0].count + reading[0].hits + reading[0].bios;
        assert!(now >= before && at <= ended);
        before = now;
    }
}

#[test]
fn who_ended_a_sleep_when_and_how_the_cache_stood_then() {
    let specs = [
        job("m", |s| {
            engine(s, "mmap", true);
            s.rw.random = true;
        }),
        job("r", |s| s.files.names = vec!["other".into()]),
        job("w", |s| {
            s.files.names = vec!["third".into()];
            writes(s);
            s.durability.end_fsync = true;
        }),
    ];
    let window = Nanos::from_millis(2);
    for (control, class) in [(None, 1), (Some(ActivityControl::Oracle), 0)] {
        let ran =
            go_under(&specs, CacheConfig { wait_window: window, ..config(64 * MIB) }, 64, control);
        let mut slept = 0;
        for (job, (n, kind)) in [(0, 0), (1, 1), (2, 3)]
            .map(|(job, kind)| (job, (kind, ran.cache_use(job).kinds()[kind].1)))
        {
            // All sleeps are of one class (except reads that find readahead pages), and each is in
            // a window.
            let served = kind.windows.list().iter().fold(Window::default(), |mut sum, window| {
                sum.merge(window);
                sum
            });
            assert_eq!(served.served, kind.served, "kind {n}");
            let of_class = kind.served[class].calls;
            assert!(
                if n == 1 { of_class > 0 } else { of_class == kind.iowait.count },
                "kind {n}: {of_class}"
            );
            let served = served.iowait();
            assert_eq!(
                (served.calls, u128::from(served.iowait_ns)),
                (kind.iowait.count, kind.iowait.sum),
                "kind {n}"
            );
            assert_eq!(served.device_ns, kind.device_ns);
            assert!(kind.iowait.count > 0 && kind.slept == kind.iowait.count);
            let windows = kind.windows.list();
            assert_eq!(
                (kind.windows.length(), windows.iter().map(|w| w.calls).sum::<u64>()),
                (window, kind.calls)
            );
            let end = ran.outcome.jobs[job].end.expect("over").get();
            assert!(
                windows.len() as u64 <= end / window.get() + 1
                    && windows.len() > usize::from(job == 0)
            );
            slept += kind.iowait.sum;
        }
        let traffic = ran.cached.io_stats();
        assert_eq!(traffic.sources.iter().map(|source| source.bios).sum::<u64>(), traffic.bios);
        let rt: u64 = traffic.sources.iter().map(|source| source.rt).sum();
        assert_eq!((rt > 0, rt), (control.is_some(), ran.cached.promoted()));
        assert_readings_end_at(&ran, slept);
    }
}

#[test]
fn a_buffered_write_is_over_before_it_is_written() {
    let ran = go(&[job("w", writes)]);
    assert_eq!(ran.nanos(0), 256 * 1_100);
    assert_eq!(
        (ran.device.commands.len(), ran.cached.cache().resident().pages().dirty()),
        (0, 256)
    );

    let ran = go(&[job("w", |s| {
        writes(s);
        s.durability.end_fsync = true;
    })]);
    assert_eq!((ran.bytes(Op::Write), ran.cached.cache().resident().pages().dirty()), (MIB, 0));
    assert_eq!(ran.commands(Op::Flush), 1);
    assert!(
        ran.device.commands.iter().all(|(_, c)| c.op == Op::Flush || c.flags.contains(Flags::SYNC))
    );
    let used = ran.cache_use(0);
    assert_eq!((used.fsync.calls, used.fsync.iowait.count, used.write.calls), (1, 1, 256));
    assert!(used.fsync.iowait.max >= 2 * LATENCY, "writes, then a flush");

    let ran = go(&[job("w", |s| {
        writes(s);
        s.durability.sync = SyncMode::Dsync;
    })]);
    assert_eq!(
        (ran.commands(Op::Write), ran.commands(Op::Flush)),
        (256, 256),
        "each is durable by itself"
    );
}

#[test]
fn the_flusher_writes_what_is_old_and_writers_pause_when_much_is_dirty() {
    let old = job("w", |s| {
        writes(s);
        s.space.size = Some(Amount::Bytes(64 << 10));
        s.think.time = Nanos::from_secs(3);
    });
    let ran = go(&[old]);
    let first = ran.device.commands.first().expect("the flusher wrote");
    assert!((30_000_000_000..=35_000_000_000).contains(&first.0), "after {} ns", first.0);
    assert!(!first.1.flags.contains(Flags::SYNC));

    let ran = go_with(
        &[job("w", |s| {
            writes(s);
            s.space.size = Some(Amount::Bytes(128 * MIB));
            s.blocks.sizes =
                [(); 3].map(|()| elevon_formats::fio::spec::BlockSizes::Range(64 << 10, 64 << 10));
        })],
        config(64 * MIB),
        1,
    );
    let used = ran.cache_use(0);
    assert!(
        used.write.paused.count > 0 && ran.bytes(Op::Write) > 64 * MIB,
        "{:?}",
        used.write.paused.count
    );
}

#[test]
fn memory_smaller_than_the_file_is_read_again() {
    let ran = go_with(
        &[job("a", |s| {
            s.space.size = Some(Amount::Bytes(32 * MIB));
            s.timing.loops = 2;
        })],
        config(16 * MIB),
        64,
    );
    assert!(ran.bytes(Op::Read) > 48 * MIB, "{}", ran.bytes(Op::Read));
    let stats = ran.cached.cache().resident().stats();
    assert!(stats.evicted > 4096 && ran.cached.cache().resident().pages().used() <= 4096);
}

#[test]
fn a_queue_of_libaio_is_one_at_a_time_and_that_of_io_uring_is_not() {
    let read = |name: &str, blocks| {
        let ran = go(&[job("q", |s| {
            engine(s, name, blocks);
            (s.queue.depth, s.queue.low, s.rw.random) = (8, 8, true);
            (s.queue.batch_submit, s.queue.complete_min) = (4, 1);
        })]);
        (ran.bytes(Op::Read), ran.nanos(0))
    };
    let (libaio, io_uring) = (read("libaio", true), read("io_uring", false));
    assert_eq!((libaio.0, io_uring.0), (MIB, MIB));
    assert!(libaio.1 >= 256 * LATENCY && io_uring.1 < 256 * LATENCY / 4, "{libaio:?} {io_uring:?}");
}

#[test]
fn tags_that_run_out_hold_up_only_who_waits_for_them() {
    let spec = job("r", |s| {
        s.numjobs = 8;
        s.files.names.clear();
        s.space.size = Some(Amount::Bytes(2 * MIB));
        s.rw.write = true;
        s.rw.random = true;
        s.durability.end_fsync = true;
    });
    for depth in [1, 2] {
        let ran = go_with(std::slice::from_ref(&spec), config(16 * MIB), depth);
        let bytes: u64 =
            ran.outcome.jobs.iter().flat_map(|job| &job.stats.directions).map(|d| d.bytes).sum();
        assert_eq!(bytes, 16 * MIB);
        assert!(ran.stack.counters().tag_waits > 0);
    }
}

#[test]
fn files_that_are_read_first_cost_the_job_nothing() {
    let ran = go(&[job("p", |s| s.caching.pre_read = true)]);
    assert_eq!((ran.bytes(Op::Read), ran.nanos(0)), (MIB, 256 * 1_100));
    assert!(ran.outcome.jobs[0].start.expect("started").get() >= LATENCY);
}

#[test]
fn the_same_run_leaves_the_same_commands() {
    let specs = [
        job("m", |s| {
            engine(s, "mmap", true);
            s.space.size = Some(Amount::Bytes(24 * MIB));
            (s.rw.random, s.numjobs) = (true, 2);
        }),
        job("w", |s| {
            writes(s);
            s.space.size = Some(Amount::Bytes(48 * MIB));
            s.files.names = vec!["other".into()];
        }),
    ];
    for activity in Activity::ALL {
        let ran = || go_with(&specs, CacheConfig { activity, ..config(16 * MIB) }, 4);
        let (one, two) = (ran(), ran());
        assert_eq!(format!("{:?}", one.device.commands), format!("{:?}", two.device.commands));
        assert_eq!(one.cached.cache().stats(), two.cached.cache().stats());
        let classes = |ran: &Ran| {
            ran.device.commands.iter().filter(|(_, c)| c.ioprio.bits() >> 13 == 1).count()
        };
        if activity == Activity::Off {
            assert_eq!(classes(&one), 0);
        }
    }
}

#[test]
fn a_job_without_a_cache_runs_as_before() {
    let specs = [job("d", |s| s.caching.direct = true)];
    let (stack, options) = stack(64);
    let mut layout = |_: TaskId, _: u32, _: u64| LayoutId(0);
    let mut jobs = Jobs::new(&specs, &options, &mut layout).expect("jobs that fit");
    let mut engine = Engine::new(stack, Fixed::new(LATENCY));
    let plain = run(&mut engine, &mut jobs, &mut NoObserver);
    let cached = go(&specs);
    assert_eq!(plain.jobs[0].stats, cached.outcome.jobs[0].stats);
    assert_eq!(format!("{:?}", engine.backend().commands), format!("{:?}", cached.device.commands));
}

fn of_size(spec: &mut JobSpec, bytes: u64) {
    spec.blocks.sizes = std::array::from_fn(|_| BlockSizes::Range(bytes, bytes));
}

#[test]
fn a_log_of_odd_sizes_reads_nothing_where_nothing_was() {
    let log = job("log", |s| {
        writes(s);
        of_size(s, 1000);
        s.space.size = Some(Amount::Bytes(1_000_000));
        s.durability.fdatasync = 8;
    });
    let ran = go(std::slice::from_ref(&log));
    assert_eq!((ran.bytes(Op::Read), ran.cached.cache().stats().dirtied > 245), (0, true));
    // 1000 writes with 124 syncs between them: each sync writes two or three pages, and pages
    // filled in part are written twice.
    let fsync = &ran.cache_use(0).fsync;
    assert_eq!((fsync.calls, ran.commands(Op::Flush)), (124, 124));
    let pages = ran.bytes(Op::Write) / 4096;
    assert!((124 * 2..124 * 3).contains(&pages), "{pages} pages");

    // In a file that exists already, a page that a write fills in part is read, ahead or alone, and
    // only once.
    let over = JobSpec { caching: Caching { overwrite: true, ..log.caching }, ..log.clone() };
    let ran = go(&[over]);
    assert_eq!((ran.bytes(Op::Read), ran.commands(Op::Read)), (245 * 4096, 245));
    // The same holds for a file that another job reads.
    let reader = job("reader", |s| s.order.stonewall = true);
    let ran = go(&[log, reader]);
    assert!(ran.bytes(Op::Read) >= 245 * 4096);
}

#[test]
fn a_mapped_file_that_is_only_written_is_not_read() {
    let writer = job("w", |s| {
        writes(s);
        engine(s, "mmap", false);
    });
    let ran = go(std::slice::from_ref(&writer));
    assert_eq!((ran.bytes(Op::Read), ran.cache_use(0).fault.calls), (0, 256));
    assert_eq!(ran.cache_use(0).fault.iowait.count, 0);
}

#[test]
fn ranges_are_synced_every_so_many_writes() {
    let every = |wait_before, write, wait_after| {
        job("w", |s| {
            writes(s);
            s.durability.file_range =
                Some(SyncFileRange { wait_before, write, wait_after, every: 16 });
        })
    };
    // 256 writes of a page, with a sync after every sixteenth except the last. No task waits, and
    // nothing is flushed.
    let begun = go(&[every(false, true, false)]);
    assert_eq!(
        (begun.bytes(Op::Write), begun.commands(Op::Write), begun.commands(Op::Flush)),
        (15 * 65536, 15, 0)
    );
    assert!(begun.device.commands.iter().all(|(_, command)| !command.flags.contains(Flags::SYNC)));
    let fsync = &begun.cache_use(0).fsync;
    assert_eq!(
        (fsync.calls, fsync.iowait.count, begun.outcome.jobs[0].stats.sync.count),
        (15, 0, 15)
    );
    assert_eq!(begun.cached.cache().resident().pages().dirty(), 16);
    // With all three steps, each sync waits for the device.
    let waited = go(&[every(true, true, true)]);
    let fsync = &waited.cache_use(0).fsync;
    assert_eq!((fsync.calls, fsync.iowait.count), (15, 15));
    assert!(waited.nanos(0) > begun.nanos(0) + 15 * LATENCY);
    // `wait_before` waits for what the previous sync began.
    let behind = go(&[every(true, true, false)]);
    let fsync = &behind.cache_use(0).fsync;
    assert_eq!(
        (fsync.calls, fsync.iowait.count),
        (15, 0),
        "each range is another, and nothing of it is being written"
    );
    // If both are due, fsync= goes first and syncs the whole file.
    let both = job("w", |s| {
        writes(s);
        s.durability.fsync = 32;
        s.durability.file_range =
            Some(SyncFileRange { wait_before: false, write: true, wait_after: false, every: 16 });
    });
    let ran = go(&[both]);
    assert_eq!((ran.commands(Op::Flush), ran.outcome.jobs[0].stats.sync.count), (7, 15));
    // Direct writes leave nothing to write early.
    let mut direct = every(true, true, true);
    direct.caching.direct = true;
    let ran = go(&[direct]);
    assert_eq!((ran.outcome.jobs[0].stats.sync.count, ran.commands(Op::Write)), (0, 256));
}

/// Writers at the dirty limit always keep the device busy, however many there are. What they made
/// dirty is on the device or still dirty.
#[test]
fn writers_are_as_fast_as_the_device() {
    for jobs in [1, 4] {
        let writer = job("w", |s| {
            writes(s);
            // At each pass the advice DONTNEED would begin to write what is dirty.
            (s.rw.random, s.caching.invalidate) = (true, false);
            s.files.names = Vec::new();
            s.numjobs = jobs;
            s.space.size = Some(Amount::Bytes(32 * MIB));
            s.timing.time_based = true;
            s.timing.runtime = Nanos::from_secs(3);
        });
        // One command at a time.
        let ran = go_with(&[writer], config(64 * MIB), 1);
        let cache = ran.cached.cache();
        let dirty = cache.resident().pages().dirty();
        // Pages that are in neither belong to a bio that waits for its tag.
        let waits = cache.stats().dirtied - ran.bytes(Op::Write) / 4096 - dirty;
        assert!(waits <= cache.resident().pages().writeback(), "{waits} pages are lost");
        let busy = ran.commands(Op::Write) as u64 * LATENCY;
        assert!(busy > ran.nanos(0) * 9 / 10, "busy for {busy} of {}", ran.nanos(0));
        let resident = cache.resident();
        let dirtyable =
            resident.free().saturating_sub(cache.watermarks().high) + resident.pages().used();
        let limits = cache.dirty_domain().limits(dirtyable);
        assert!(
            dirty > limits.background / 2 && dirty <= limits.thresh,
            "{dirty} dirty, {limits:?}"
        );
        let paused =
            |job: &JobOutcome| job.cache_use.as_ref().map_or(0, |c| c.write.paused.sum / 1_000_000);
        let paused: u128 = ran.outcome.jobs.iter().map(paused).sum();
        assert!(paused > 2000 * u128::from(jobs), "{jobs} jobs were held for {paused} ms");
    }
}
