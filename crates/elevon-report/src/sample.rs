//! Made-up results for tests: small, deterministic, with a value in every field.

use elevon_cache::page_cache::{CallDone, Reading, Waits};
use elevon_cache::stats::{CacheUse, CallStats};
use elevon_core::account::{DiskStats, GroupCounters, Utilisation};
use elevon_core::control::pressure::{ContextState, Pressure};
use elevon_core::control::stat::IoCounters;
use elevon_core::control::{Cause, Rule, Wait};
use elevon_core::histogram::Histogram;
use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::kernel::{IoTicksForm, Kernel};
use elevon_core::limits::QueueLimits;
use elevon_core::stats::{DirectionStats, JobStats, LatencyStat};
use elevon_core::status::Status;
use elevon_core::tenant::{ROOT, Tenants};
use elevon_core::units::{Bytes, Instant, Nanos, Sectors, TaskId, TenantId};

use elevon_result::result::{
    CacheResult, CacheSeries, CacheSource, Claim, DeviceInfo, DiskResult, JobResult,
    LatencyPercentiles, Point, ReadFile, RunResult, SchedulerInfo, Series, SizeCounts,
    StackCounters, StageLatency, TenantResult, UnifiedReporting, Workload,
};

/// Percentiles that fio shows by default, in millionths.
const DEFAULT_PERCENTILES: [u32; 17] = [
    10_000, 50_000, 100_000, 200_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000,
    900_000, 950_000, 990_000, 995_000, 999_000, 999_500, 999_900,
];

/// Returns a latency distributed around `typical` ns, with a tail twenty times as long.
fn spread(typical: u64, count: u64) -> LatencyStat {
    let mut stat = LatencyStat::default();
    let mut state = typical | 1;
    for at in 0..count {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let jitter = (state >> 33) % typical;
        let tail = if at % 100 == 99 { typical * ((state >> 40) % 20) } else { 0 };
        stat.add(typical / 2 + jitter + tail);
    }
    stat
}

fn direction(ios: u64, block: u64, typical: u64, runtime_ms: u64) -> DirectionStats {
    let mut figures = DirectionStats {
        ios,
        bytes: ios * block,
        runtime_ns: runtime_ms * 1_000_000,
        slat: spread(900, ios),
        clat: spread(typical, ios),
        lat: spread(typical + 900, ios),
        ..DirectionStats::default()
    };
    for at in 0..runtime_ms / 500 {
        let iops = ios * 1000 / runtime_ms + at * 10;
        figures.iops.add(iops);
        figures.bandwidth.add(iops * block / 1024);
    }
    figures
}

fn job(name: &str, group: u32, stats: JobStats) -> JobResult {
    let (small, large) = (Bytes::new(4096), Bytes::new(65536));
    JobResult {
        name: name.into(),
        group,
        members: 1,
        pid: group + 1,
        description: String::new(),
        workload: Workload {
            rw: "randrw".into(),
            block_sizes: [(small, small), (small, large), (small, small)],
            ioengine: "libaio".into(),
            iodepth: 32,
            depth: 32,
        },
        options: vec![("rw".into(), "randrw".into()), ("bs".into(), "4k".into())],
        start: Instant::ZERO,
        end: Instant::new(2_000_000_000),
        claim: Some(Claim {
            given: false,
            class: PrioClass::Be,
            weight: 40,
            cgroups: vec![],
            asked: None,
        }),
        device_time: Some(Nanos::from_millis(400)),
        stats: JobStats { run_ns: 2_000_000_000, ..stats },
        cache_use: None,
        error: String::new(),
        counted_errors: None,
        percentiles: DEFAULT_PERCENTILES.to_vec(),
        latency_target: None,
        steady: None,
        latency_percentiles: LatencyPercentiles::default(),
        unified: UnifiedReporting::Separate,
    }
}

fn disk() -> DiskResult {
    let group = |ios, merges, sectors, ms| GroupCounters {
        ios,
        merges,
        sectors,
        ticks: Nanos::from_millis(ms),
    };
    let end = DiskStats {
        at: Instant::new(2_000_000_000),
        groups: [
            group(4000, 100, 32000, 480),
            group(1000, 50, 128000, 900),
            group(10, 0, 20480, 5),
        ],
        in_flight: 0,
        io_ticks_ms: 1380,
        flushes: 20,
        flush_ticks: Nanos::from_millis(200),
        utilisation: Utilisation {
            sampled_ms: 1380,
            inflight_ms: 1998,
            precise_ms: 1996,
            exact: Nanos::new(1_994_321_000),
        },
        in_flight_integral: 63_500_000_000,
    };
    let stage = |typical, count| StageLatency {
        queued_to_dispatched: spread(typical / 10, count),
        dispatched_to_completed: spread(typical, count),
    };
    DiskResult {
        name: "nvme-datacenter".into(),
        disk: Some("nvme-datacenter".into()),
        number: (259, 0),
        io_ticks: IoTicksForm::Sampled,
        start: DiskStats::default(),
        end,
        stages: [stage(80_000, 4000), stage(400_000, 1000), StageLatency::default()],
        request_sizes: [
            SizeCounts(vec![(4096, 4000)]),
            SizeCounts(vec![(4096, 200), (16384, 100), (65536, 700)]),
            SizeCounts(vec![(1_048_576, 10)]),
        ],
        counters: StackCounters {
            splits: 12,
            merges: 150,
            requeues: 3,
            retries: 1,
            timeouts: 1,
            late_answers: 1,
            wbt_waits: 2,
            tails: 6,
        },
    }
}

fn series() -> Series {
    let points = (1..=20u64).map(|at| Point {
        at: Instant::new(at * 100_000_000),
        bytes: [(200 + at % 5) * 4096, 50 * 65536, 0],
        ios: [200 + at % 5, 50, 0],
        in_flight: 31.0 + (at % 3) as f64 / 2.0,
    });
    Series { interval: Nanos::from_millis(100), points: points.collect() }
}

/// Returns a run with a device and no jobs.
pub(crate) fn empty_run() -> RunResult {
    // Every limit that a report prints is set here, so that other defaults of the drivers do not
    // change the samples.
    let limits = QueueLimits {
        logical_block_size: 512,
        physical_block_size: 4096,
        io_min: 4096,
        io_opt: 0,
        max_hw_sectors: Sectors::new(4096),
        max_dev_sectors: Sectors::ZERO,
        max_sectors: Sectors::new(2560),
        max_segments: 128,
        max_segment_size: 65536,
        virt_boundary_mask: 4095,
        chunk_sectors: Sectors::ZERO,
        max_hw_discard_sectors: Sectors::new(4096),
        max_user_discard_sectors: Sectors::MAX,
        max_write_zeroes_sectors: Sectors::new(4096),
        write_cache: true,
        fua: true,
        rotational: false,
        ..QueueLimits::default()
    };
    RunResult {
        device: DeviceInfo {
            name: "nvme-datacenter".into(),
            simulated: true,
            size: Bytes::new(1_920_383_410_176),
            hw_queues: 2,
            queue_depth: 1023,
            limits,
            lacks: String::new(),
            estimates: vec![],
        },
        kernel: Kernel::V6_18,
        scheduler: SchedulerInfo { name: "none".into(), ..Default::default() },
        seed: 1,
        config: vec![],
        command: "elevon run empty.fio --seed 1".into(),
        inputs: vec![ReadFile { name: "empty.fio".into(), text: Some("[empty]\n".into()) }],
        global_options: vec![],
        unix_ms: 0,
        elapsed: Nanos::ZERO,
        jobs: vec![job("idle", 0, JobStats::default())],
        tenants: vec![],
        owners: elevon_result::result::Owners::default(),
        slices: Vec::new(),
        changes: vec![],
        cpu: None,
        cache: None,
        disk: DiskResult {
            name: "nvme".into(),
            disk: Some("nvme".into()),
            number: (259, 0),
            io_ticks: IoTicksForm::Precise,
            start: DiskStats::default(),
            end: DiskStats::default(),
            stages: Default::default(),
            request_sizes: Default::default(),
            counters: StackCounters::default(),
        },
        series: None,
        faults: Vec::new(),
        events_lost: 0,
        not_kept: vec![],
        warnings: vec![],
    }
}

/// Returns a run with reads and writes of two priorities and syncs, then a writer in a second
/// group.
pub(crate) fn mixed_run() -> RunResult {
    let mut stats = JobStats {
        directions: [
            direction(4000, 4096, 80_000, 2000),
            direction(600, 65536, 4_000_000, 2000),
            Default::default(),
        ],
        sync: spread(50_000, 20),
        depth_levels: [1, 1, 2, 4, 8, 4584, 0],
        submit_levels: [0, 4600, 0, 0, 0, 0, 0],
        complete_levels: [0, 4500, 100, 0, 0, 0, 0],
        cpu_ns: 120_000_000,
        context_switches: 4321,
        ..Default::default()
    };
    stats.directions[0].by_priority = vec![
        (IoPrio::NONE, spread(90_000, 3000)),
        (IoPrio::new(PrioClass::Rt, 0), spread(40_000, 1000)),
    ];
    let mut first = job("mail", 0, stats);
    first.description = "a mail server <small>".into();
    let writer = JobStats {
        directions: [Default::default(), direction(400, 65536, 300_000, 1500), Default::default()],
        depth_levels: [400, 0, 0, 0, 0, 0, 0],
        submit_levels: [0, 400, 0, 0, 0, 0, 0],
        complete_levels: [0, 400, 0, 0, 0, 0, 0],
        ..Default::default()
    };
    let mut second = job("log", 1, writer);
    (second.members, second.stats.run_ns) = (2, 3_000_000_000);
    second.end = Instant::new(1_500_000_000);
    RunResult {
        scheduler: SchedulerInfo {
            name: "mq-deadline".into(),
            tunables: vec![
                ("read_expire".into(), "500".into()),
                ("fifo_batch".into(), "16".into()),
            ],
            counters: vec![("expired".into(), 3)],
            note: None,
        },
        config: vec![("fill".into(), "full".into()), ("hz".into(), "250".into())],
        command: "elevon run mail.fio --scheduler mq-deadline --seed 1".into(),
        inputs: vec![ReadFile { name: "mail.fio".into(), text: None }],
        global_options: vec![("ioengine".into(), "libaio".into())],
        elapsed: Nanos::from_secs(2),
        jobs: vec![first, second],
        disk: disk(),
        series: Some(series()),
        warnings: vec!["job mail: thread= has no effect in simulation".into()],
        ..empty_run()
    }
}

/// Returns [`mixed_run`] with a faster writer, for comparisons.
pub(crate) fn quicker_run() -> RunResult {
    let mut run = mixed_run();
    run.scheduler = SchedulerInfo { name: "none".into(), ..Default::default() };
    run.jobs[0].stats.directions[1] = direction(1200, 65536, 2_000_000, 2000);
    run.disk.counters.splits = 0;
    if let Some(series) = &mut run.series {
        series.points.iter_mut().for_each(|point| point.bytes[1] *= 2);
    }
    run
}

/// Returns calls of the page cache. Every tenth sleeps for I/O around `typical` ns, half of it in
/// the device; every fifth of these sleeps for a bio of class RT.
fn calls(typical: u64, count: u64, major: bool) -> CallStats {
    let mut stats = CallStats::default();
    let sleeps = spread(typical, count / 10);
    let mut lengths = sleeps.histogram.iter().flat_map(|(ns, times)| (0..times).map(move |_| ns));
    for at in 0..count {
        let waited =
            if at % 10 == 9 { Nanos::new(lengths.next().unwrap_or(typical)) } else { Nanos::ZERO };
        let class = if at % 50 == 49 { PrioClass::Rt } else { PrioClass::Be };
        let done = CallDone {
            waited,
            device: Nanos::new(waited.get() / 2),
            class: if waited.is_zero() { PrioClass::None } else { class },
            is_major: major && !waited.is_zero(),
            ..done()
        };
        stats.add(&done, Nanos::new(2_000_000_000 * at / count), Nanos::from_millis(500));
    }
    stats
}

/// Returns a call that did not sleep.
fn done() -> CallDone {
    CallDone {
        task: TaskId(0),
        token: 0,
        status: Status::Ok,
        bytes: Bytes::new(4096),
        waited: Nanos::ZERO,
        device: Nanos::ZERO,
        paused: Nanos::ZERO,
        starved: Nanos::ZERO,
        class: PrioClass::None,
        is_major: false,
    }
}

/// Returns a series in which hits increase against misses, the flusher starts at its limit, and
/// memory fills up.
fn cache_series() -> CacheSeries {
    let waits = |at: u64, ns: u64| Waits {
        count: 300 * at,
        major: 35 * at,
        slept: 30 * at,
        iowait: Nanos::new(ns),
    };
    let reading = |at: u64| Reading {
        hits: 4950 * at,
        misses: 1000 * at / (at + 19),
        touches: 6172 * at,
        waits: [
            waits(at, 12_000_000 * at),
            Waits::default(),
            waits(at, 0),
            waits(at / 10, 3_000_000 * (at / 10)),
            Waits { count: at, slept: at, iowait: Nanos::from_millis(20 * at), ..Waits::default() },
            Waits::default(),
        ],
        bios: 60 * at,
        promoted: 6 * at,
        refaulted: 40 * at.saturating_sub(10),
        restored: 20 * at.saturating_sub(10),
        kswapd_reclaimed: 500 * at.saturating_sub(10),
        direct_reclaimed: 32 * at.saturating_sub(15),
        dirtied: 250 * at,
        written: 250 * at.saturating_sub(4),
        cached: (100_000 * at).min(1_040_000),
        mapped: (20_000 * at).min(300_000),
        dirty: (25_000 * at).min(150_000),
        writeback: if at > 4 { 2_000 + 100 * (at % 3) } else { 0 },
        free: 1_048_576 - (100_000 * at).min(1_040_000),
        dirty_limit: 209_000,
        dirty_background: 104_000,
    };
    let readings = (1..=20).map(|at| (Instant::new(at * 100_000_000), reading(at))).collect();
    CacheSeries { interval: Nanos::from_millis(100), readings }
}

/// Returns a run with a page cache: a mapped reader, and a writer that syncs and was throttled.
pub(crate) fn cached_run() -> RunResult {
    let mut run = mixed_run();
    run.jobs[0].cache_use = Some(Box::new(CacheUse {
        touches: 123_456,
        fault: calls(400_000, 6000, true),
        ..CacheUse::default()
    }));
    let mut write = calls(400_000, 5000, false);
    for at in 0..30 {
        let paused = Nanos::from_millis(8 + at % 5);
        let starved = if at % 10 == 0 { Nanos::from_millis(3) } else { Nanos::ZERO };
        write.add(
            &CallDone { paused, starved, ..done() },
            Nanos::from_secs(2),
            Nanos::from_millis(500),
        );
    }
    run.jobs[1].cache_use = Some(Box::new(CacheUse {
        fault: calls(100_000, 1000, true),
        write,
        fsync: calls(3_000_000, 20, false),
        ..CacheUse::default()
    }));
    let counts = |counts: &[(&str, u64)]| {
        counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
    };
    let source = |name: &str, bios, pages: u64, active: u64| CacheSource {
        name: name.into(),
        bios,
        bytes: bios * pages * 4096,
        active_bytes: Some(active * 4096),
        ..CacheSource::default()
    };
    run.cache = Some(CacheResult {
        memory: Bytes::new(6 << 30),
        others: Bytes::new(2 << 30),
        policy: "mglru-6.1".into(),
        activity: "page-exact".into(),
        window: Nanos::from_millis(500),
        sources: vec![
            CacheSource { promoted: 120, rt: 120, denied: 3, ..source("fault", 600, 16, 4000) },
            source("writeback", 40, 256, 0),
            CacheSource { raised: 1, ..source("fsync", 12, 32, 20) },
        ],
        vmstat: counts(&[("nr_file_pages", 1_040_000), ("pgmajfault", 600), ("pgsteal_direct", 0)]),
        groups: vec![
            ("pages".to_owned(), counts(&[("hits", 99_000), ("misses", 1000), ("unused", 0)])),
            ("nothing".to_owned(), counts(&[("counted", 0)])),
        ],
        series: cache_series(),
    });
    run
}

/// Returns readers that ran together for ten seconds, as (name, weight, 4 KiB I/Os per second).
pub(crate) fn weighted_run(readers: &[(&str, u32, u64)]) -> RunResult {
    let jobs = readers.iter().map(|&(name, weight, iops)| {
        let stats = JobStats {
            directions: [
                direction(iops * 10, 4096, 160_000, 10_000),
                Default::default(),
                Default::default(),
            ],
            ..Default::default()
        };
        let mut job = job(name, 0, stats);
        job.end = Instant::new(10_000_000_000);
        job.claim =
            Some(Claim { given: true, class: PrioClass::Be, weight, cgroups: vec![], asked: None });
        job.device_time = Some(Nanos::from_micros(iops * 10 * 160));
        job
    });
    RunResult { jobs: jobs.collect(), elapsed: Nanos::from_secs(10), ..empty_run() }
}

/// Returns a failed job with unified figures and its own percentiles, and a job with both kinds of
/// figures.
pub(crate) fn odd_run() -> RunResult {
    let mut failed = JobStats {
        directions: [
            direction(90, 4096, 12_000, 3000),
            direction(90, 4096, 15_000, 3000),
            Default::default(),
        ],
        error: 5,
        ..Default::default()
    };
    failed.directions[1].errors = 1;
    let mut first = job("failing", 0, failed);
    first.error = "Input/output error".into();
    first.unified = UnifiedReporting::Mixed;
    first.percentiles = vec![500_000, 990_000, 999_000];
    first.latency_percentiles = LatencyPercentiles { slat: true, clat: true, lat: true };
    let trims = JobStats {
        directions: [
            Default::default(),
            Default::default(),
            direction(50, 1_048_576, 200_000_000, 2000),
        ],
        ..Default::default()
    };
    let mut second = job("trimming", 1, trims);
    second.unified = UnifiedReporting::Both;
    second.percentiles = vec![10_000, 500_000, 1_000_000];
    RunResult {
        jobs: vec![first, second],
        events_lost: 12_345,
        elapsed: Nanos::from_secs(3),
        ..empty_run()
    }
}

/// Returns a tenant with I/O: reads of 64 KiB and writes of 4 KiB, the fastest of which takes `ns`.
/// `explain` has the number of waits by cause, and their milliseconds.
fn tenant(
    id: TenantId,
    path: &str,
    depth: u16,
    [reads, writes]: [u64; 2],
    ns: u64,
    explain: &[(Cause, u64, u64)],
) -> TenantResult {
    let mut latency = Histogram::default();
    (0..reads + writes).for_each(|at| latency.add(ns + at % 100 * 1000));
    let wait = |&(cause, count, ms)| (cause, Wait { count, time: Nanos::from_millis(ms) });
    let io = IoCounters { bytes: [reads * 65_536, writes * 4096, 0], ios: [reads, writes, 0] };
    TenantResult {
        id,
        path: path.into(),
        depth,
        time: Nanos::from_secs(2),
        io,
        done: io,
        latency,
        explain: explain.iter().map(wait).collect(),
        ..TenantResult::default()
    }
}

/// Returns three tenants, one of them below another's limit, and one that was removed. The root
/// counts only its own I/O.
pub(crate) fn tenants_run() -> RunResult {
    let (web, batch, nightly, gone) = (TenantId(1), TenantId(2), TenantId(3), TenantId(4));
    let limit = Cause::Limit { level: batch, rule: Rule::ReadBps };
    let served = |tenant| Cause::Scheduler { served: Some(tenant) };
    let limited = [
        (limit, 30, 6120),
        (Cause::Device, 32, 3010),
        (served(web), 0, 600),
        (served(nightly), 0, 200),
        (Cause::Tag, 2, 40),
        (Cause::Flush, 1, 30),
    ];
    let mut all = vec![
        tenant(ROOT, "/", 0, [3, 0], 90_000, &[(Cause::Device, 3, 1)]),
        tenant(
            web,
            "web",
            1,
            [4000, 500],
            120_000,
            &[
                (Cause::Device, 4500, 600),
                (served(web), 0, 250),
                (served(nightly), 0, 149),
                (Cause::Plug, 40, 1),
            ],
        ),
        tenant(batch, "batch", 1, [32, 0], 2_000_000, &limited),
        tenant(nightly, "batch/nightly", 2, [32, 0], 2_000_000, &limited),
        tenant(
            gone,
            "gone",
            1,
            [0, 7],
            50_000,
            &[(Cause::Latency { level: web }, 7, 3), (Cause::SchedulerOthers, 0, 1)],
        ),
        tenant(TenantId(5), "idle", 1, [0, 0], 0, &[]),
    ];
    all[1].settings = vec![("io.bfq.weight".into(), "800".into())];
    all[2].settings =
        vec![("io.max".into(), "259:0 rbps=1048576".into()), ("io.bfq.weight".into(), "50".into())];
    all[2].limits = vec![(Rule::ReadBps, 1_048_576)];
    all[4].removed = true;
    all[1].in_flight = 2;
    let mut tree = Tenants::new();
    let mut pressure = Pressure::new(1);
    let reader = tree.add(ROOT).expect("the root lives");
    pressure.on_change(Instant::ZERO, &tree, reader, ContextState::Idle, ContextState::Blocked);
    let reading = pressure.read(Instant::new(2_000_000_000), reader);
    all[2].pressure = Some(reading);
    all[3].pressure = Some(reading);
    RunResult { tenants: all, elapsed: Nanos::from_secs(2), ..empty_run() }
}
