//! Random jobs from seeds: the same seed is the same job, for ever.
//!
//! The generator keeps to what the judge can judge:
//!
//! - Processes start some microseconds apart, so that their first requests have an order.
//! - The I/Os in flight of all processes fit into the tags. Otherwise the wake-ups of one CPU of
//!   infinite speed decide which process gets a tag. No machine has such a CPU.
//! - Only a process of depth 1 thinks, because fio waits for all in flight before it thinks.
//! - Where a scheduler or the page cache is judged, a process takes some time before each direct
//!   I/O. I/Os that come at one instant complete at one instant, and then nanoseconds decide.
//! - Where a scheduler is judged, a woken process goes on in steps of that time, counted from its
//!   start. Elevon and the guest both do so. The guest's clock moves on by 256 ns with each
//!   reading, and this lateness would add up. Then processes come in another order than in Elevon,
//!   where nothing is late.
//! - Beside a page cache without a scheduler, write-back throttling keeps the writes in flight to
//!   three quarters of the tags. It is never off there.
//! - The device has no cache, so a flush costs nothing.
//! - A process that goes through the page cache thinks after each I/O. A hit takes no time in a
//!   guest whose CPU is infinitely fast, so the process would never end.
//! - The page cache has memory for all that is read or written. Free memory of a guest is not that
//!   of Elevon's model, so reclaim is not judged. Elevon has no limits of memory by cgroup.
//! - No process drops pages, neither at its start nor at another pass.
//! - No target of io.latency is the latency of the device. Nanoseconds of the guest's clock would
//!   decide whether it is met.
//! - A figure that the kernel does not repeat when the job begins a microsecond later is chance. No
//!   generator can tell which those are, so the judge leaves them out (`figures.rs`).
//! - There is one hardware queue. null_blk has at most one for each CPU, and the guest has one CPU.

use elevon_workload::chance::{Purpose, Rng};

use super::case::{Area, Case, DirtyRatios, Engine, Process, Tenant};

/// How long a process takes before each direct I/O if a scheduler or the page cache is judged, in
/// microseconds. So its I/Os come and complete one after the other. Otherwise nanoseconds of the
/// guest's clock would decide whether a worker runs between two completions. The clock's tick could
/// give a worker the only CPU amid submissions, too. Both would last.
const SUBMIT_US: u64 = 20;
/// Time between the starts of two processes, in microseconds: no multiple of [`SUBMIT_US`], so that
/// no two processes go on at one instant.
const STAGGER_US: u64 = 304;
/// When the first process starts, in microseconds after a tick of the kernel's clock.
const FIRST_US: u64 = 3;
/// Tells this stream of random numbers from those of runs.
const STREAM: u32 = 0x7717;

/// Draws from a list.
fn pick<T: Clone>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize].clone()
}

/// Returns true one time in `of`.
fn one_in(rng: &mut Rng, of: u64) -> bool {
    rng.below(of) == 0
}

/// Returns the job of a seed; `area` if one is asked for, else an area that the seed says.
pub fn case(seed: u64, area: Option<Area>) -> Case {
    let mut rng = Rng::stream(seed, STREAM, 0, Purpose::Buffer);
    let drawn = match rng.below(10) {
        0..4 => Area::DeadlineAndKyber,
        4..8 => Area::Bfq,
        8 => Area::Limits,
        _ => pick(&mut rng, &[Area::Cost, Area::Cache]),
    };
    let area = area.unwrap_or(drawn);
    let few = matches!(area, Area::DeadlineAndKyber | Area::Bfq | Area::Cache);
    let slots = if few { pick(&mut rng, &[1, 2, 4, 8]) } else { 64 };
    let latency_us = if few {
        pick(&mut rng, &[5_000, 10_000, 20_000])
    } else {
        pick(&mut rng, &[2_000, 5_000])
    };
    let mut case = Case {
        seed,
        area,
        slots,
        latency_us,
        rotational: few && one_in(&mut rng, 4),
        scheduler: String::new(),
        tunables: Vec::new(),
        queue: Vec::new(),
        tag_hint: None,
        tenants: Vec::new(),
        cost: Vec::new(),
        dirty: DirtyRatios::default(),
        processes: processes(&mut rng),
        runtime_ms: 10_000,
        submit_us: if few { SUBMIT_US } else { 0 },
    };
    match area {
        Area::DeadlineAndKyber => deadline_or_kyber(&mut case, &mut rng),
        Area::Bfq => bfq(&mut case, &mut rng),
        Area::Limits => limits(&mut case, &mut rng),
        Area::Cost => cost(&mut case, &mut rng),
        Area::Cache => cache(&mut case, &mut rng),
    }
    if few && case.scheduler != "none" {
        case.queue.push(("nr_requests".into(), pick(&mut rng, &[64, 128, 256])));
    }
    if one_in(&mut rng, 6) {
        case.queue.push(("max_sectors_kb".into(), pick(&mut rng, &[4, 16, 32])));
    }
    // Linux raises `read_ahead_kb` to 128 when another limit of the queue is set after it.
    case.queue.sort_by_key(|(name, _)| name == "read_ahead_kb");
    if one_in(&mut rng, 8) && area != Area::Cache {
        discard(&mut case, &mut rng);
    }
    case
}

fn processes(rng: &mut Rng) -> Vec<Process> {
    let count = pick(rng, &[1, 2, 2, 3, 3, 4]);
    (0..count).map(|index| process(rng, index)).collect()
}

fn process(rng: &mut Rng, index: u64) -> Process {
    let class = pick(rng, &[0, 2, 2, 2, 2, 2, 1, 3]);
    let depth = pick(rng, &[1, 1, 2, 4, 8, 16]);
    let write = one_in(rng, 4);
    let engines = [Engine::Libaio, Engine::IoUring, Engine::Psync];
    let engine = pick(rng, if depth == 1 { &engines } else { &engines[..2] });
    let thinks = depth == 1 && one_in(rng, 3);
    let is_late = one_in(rng, 6);
    let late = if is_late { 1_000_000 + 500_000 * rng.below(5) } else { 0 };
    Process {
        class,
        level: if class == 1 || class == 2 { rng.below(8) as u32 } else { 0 },
        write,
        trim: false,
        buffered: false,
        random: !one_in(rng, 4),
        engine,
        depth,
        bs: pick(rng, &[4096, 4096, 4096, 16384, 65536]),
        dsync: write && one_in(rng, 6),
        fsync: if write && depth == 1 && one_in(rng, 6) { pick(rng, &[1, 4, 16]) } else { 0 },
        start_us: late + FIRST_US + index * STAGGER_US,
        think_us: if thinks { pick(rng, &[500, 1_000, 2_000, 4_000, 8_000, 20_000]) } else { 0 },
        think_blocks: if thinks { pick(rng, &[1, 1, 1, 4]) } else { 0 },
        cgroup: String::new(),
    }
}

/// Adds a tunable with one of some values, two times in five.
fn maybe(case: &mut Case, rng: &mut Rng, name: &str, values: &[u64]) {
    let value = pick(rng, values);
    if rng.below(5) < 2 {
        case.tunables.push((name.into(), value));
    }
}

fn deadline_or_kyber(case: &mut Case, rng: &mut Rng) {
    let is_kyber = one_in(rng, 3);
    case.scheduler = if is_kyber { "kyber" } else { "mq-deadline" }.into();
    let tuned = one_in(rng, 2);
    match (tuned, is_kyber) {
        (false, _) => {}
        (true, true) => {
            let targets = [1_000_000, 5_000_000, 20_000_000, 100_000_000];
            maybe(case, rng, "read_lat_nsec", &targets);
            maybe(case, rng, "write_lat_nsec", &targets);
        }
        (true, false) => {
            maybe(case, rng, "read_expire", &[10, 50, 100, 2_000]);
            maybe(case, rng, "write_expire", &[50, 500, 2_000, 10_000]);
            maybe(case, rng, "writes_starved", &[1, 4, 8]);
            maybe(case, rng, "fifo_batch", &[1, 4, 32]);
            maybe(case, rng, "prio_aging_expire", &[500, 2_000, 20_000]);
            maybe(case, rng, "front_merges", &[0]);
        }
    }
}

fn bfq(case: &mut Case, rng: &mut Rng) {
    case.scheduler = "bfq".into();
    maybe(case, rng, "low_latency", &[0]);
    if one_in(rng, 2) {
        maybe(case, rng, "slice_idle_us", &[0, 1_000, 4_000, 16_000]);
        maybe(case, rng, "strict_guarantees", &[1]);
        maybe(case, rng, "timeout_sync", &[20, 60, 250]);
        maybe(case, rng, "max_budget", &[512, 4_096, 32_768]);
    }
    if one_in(rng, 4) {
        for index in 0..case.processes.len() {
            let path = format!("g{index}");
            let weight = pick(rng, &[10, 50, 100, 200, 400, 1_000]);
            let file = ("io.bfq.weight".to_owned(), weight.to_string());
            case.tenants.push(Tenant { path: path.clone(), files: vec![file] });
            case.processes[index].cgroup = path;
        }
        if one_in(rng, 2) {
            in_a_tree(case, rng, "io.bfq.weight");
        }
    }
}

fn limits(case: &mut Case, rng: &mut Rng) {
    case.scheduler = "none".into();
    let by_latency = one_in(rng, 3);
    for index in 0..case.processes.len() {
        let path = format!("g{index}");
        let file = if by_latency {
            let target = case.latency_us * pick(rng, &[1, 3, 6]) / 2;
            ("io.latency".to_owned(), format!("target={target}"))
        } else {
            ("io.max".to_owned(), io_max(rng))
        };
        case.tenants.push(Tenant { path: path.clone(), files: vec![file] });
        case.processes[index].cgroup = path;
    }
}

/// Makes one process discard. A device with discards keeps its data in the guest's memory, so
/// writes are small.
fn discard(case: &mut Case, rng: &mut Rng) {
    let index = rng.below(case.processes.len() as u64) as usize;
    let process = &mut case.processes[index];
    (process.trim, process.write, process.dsync, process.fsync) = (true, false, false, 0);
    (process.engine, process.depth) = (Engine::Psync, 1);
    process.bs = pick(rng, &[4_096, 65_536, 1_048_576]);
    for process in case.processes.iter_mut().filter(|process| process.write) {
        process.bs = 4096;
    }
}

/// Sends half of the processes, and the first, through the page cache.
fn cache(case: &mut Case, rng: &mut Rng) {
    let schedulers = ["none", "mq-deadline", "mq-deadline", "bfq", "kyber"];
    case.scheduler = pick(rng, &schedulers).into();
    case.latency_us = pick(rng, &[1_000, 2_000, 5_000]);
    for (index, process) in case.processes.iter_mut().enumerate() {
        if index > 0 && one_in(rng, 2) {
            continue;
        }
        process.buffered = true;
        (process.engine, process.depth) = (Engine::Psync, 1);
        process.write = one_in(rng, 2);
        process.dsync = process.write && one_in(rng, 6);
        process.fsync = if process.write && one_in(rng, 3) { pick(rng, &[1, 8, 64]) } else { 0 };
        process.think_us = pick(rng, &[200, 500, 1_000, 4_000]);
        process.think_blocks = 1;
    }
    if case.scheduler == "none" {
        fit_into_tags(case);
    }
    case.dirty = DirtyRatios { background: 1, most: pick(rng, &[2, 4, 10]) };
    if one_in(rng, 2) {
        case.queue.push(("read_ahead_kb".into(), pick(rng, &[0, 32, 128, 512])));
    }
    if one_in(rng, 2) {
        let latency = pick(rng, &[0, 1_000, 10_000, 75_000]);
        // Without a scheduler, it is write-back throttling that keeps tags free.
        if latency > 0 || case.scheduler != "none" {
            case.queue.push(("wbt_lat_usec".into(), latency));
        }
    }
}

/// Without a scheduler, lets all I/Os in flight fit into the tags. Write-back throttling gives
/// writes three quarters of them, and three processes with a few I/Os each have the rest.
fn fit_into_tags(case: &mut Case) {
    case.slots = 64;
    for process in &mut case.processes {
        process.depth = process.depth.min(4);
    }
}

/// Puts groups below two parents, which have weights of their own.
fn in_a_tree(case: &mut Case, rng: &mut Rng, file: &str) {
    let parents: Vec<Tenant> = (0..2)
        .map(|index| {
            let weight = pick(rng, &[50, 100, 300]).to_string();
            Tenant { path: format!("t{index}"), files: vec![(file.to_owned(), weight)] }
        })
        .collect();
    for index in 0..case.tenants.len() {
        let path = format!("t{}/g{index}", rng.below(2));
        case.tenants[index].path.clone_from(&path);
        case.processes[index].cgroup = path;
    }
    case.tenants.splice(0..0, parents);
}

fn io_max(rng: &mut Rng) -> String {
    let mut words = Vec::new();
    for key in ["rbps", "wbps"] {
        let rate = pick(rng, &[262_144_u64, 1_048_576, 4_194_304]);
        if one_in(rng, 2) {
            words.push(format!("{key}={rate}"));
        }
    }
    for key in ["riops", "wiops"] {
        let rate = pick(rng, &[20_u64, 100, 500]);
        if one_in(rng, 3) {
            words.push(format!("{key}={rate}"));
        }
    }
    if words.is_empty() {
        words.push("riops=100".into());
    }
    words.join(" ")
}

fn cost(case: &mut Case, rng: &mut Rng) {
    case.scheduler = "none".into();
    let iops = pick(rng, &[200_u64, 1_000, 4_000]);
    let percent = pick(rng, &[50_u64, 100]);
    case.cost = vec![
        (
            "io.cost.model".into(),
            format!(
                "ctrl=user model=linear rbps=200000000 rseqiops={iops} rrandiops={iops} \
                 wbps=200000000 wseqiops={iops} wrandiops={iops}"
            ),
        ),
        (
            "io.cost.qos".into(),
            format!(
                "enable=1 ctrl=user rpct=0.00 rlat=25000 wpct=0.00 wlat=25000 min={percent}.00 \
                 max={percent}.00"
            ),
        ),
    ];
    for index in 0..case.processes.len() {
        let path = format!("g{index}");
        let weight = pick(rng, &[50, 100, 200, 500]);
        let file = ("io.weight".to_owned(), weight.to_string());
        case.tenants.push(Tenant { path: path.clone(), files: vec![file] });
        case.processes[index].cgroup = path;
    }
    if one_in(rng, 3) {
        in_a_tree(case, rng, "io.weight");
    }
}
