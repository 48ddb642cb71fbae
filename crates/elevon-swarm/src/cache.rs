//! The page cache of a random seed: a machine with little memory, jobs that share it, and other
//! programs. These are not jobs and do what fio's jobs cannot: truncate a file, advise about
//! ranges, drop caches, or take memory.
//!
//! The jobs use the code of `--memory` or, with bytes, of `--cache`: `elevon_workload::buffered`
//! drives the cache. So the code that users run is tested, not a second driver of the same core.

use elevon_cache::FileId;
use elevon_cache::activity::{Activity, Origin};
use elevon_cache::page_cache::{CacheConfig, Call, CallDone, CallKind, OpenId, RangeSync};
use elevon_cache::{Advice, POLICIES, max_pause, pause_target};
use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::limits::QueueLimits;
use elevon_core::op::Op;
use elevon_core::stack::StackConfig;
use elevon_core::units::{Bytes, DeviceOffset, FileOffset, Instant, Nanos, PAGE_SIZE, TaskId};
use elevon_workload::buffered::{BufferedIo, CacheCost, CacheIoStats};
use elevon_workload::region::Region;

use super::Wrong;
use super::plan::Dice;
use super::shadow::{Manner, Shadow, User};

/// Device offset of the file that only other programs use; it is beyond the area of the jobs.
pub(super) const OTHER_PROGRAMS_FILE: DeviceOffset = DeviceOffset::new(3 << 30);
/// Maximum size of that file.
const OTHER_PROGRAMS_BYTES: Bytes = Bytes::new(2 << 20);
/// Number of other programs. The last one uses the jobs' file.
const OTHER_PROGRAMS: usize = 3;

/// The page cache that a seed draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnCache {
    /// Memory of the machine in KiB.
    pub memory_kib: u64,
    /// Part of the memory that is reserved for others at the start, in KiB.
    pub reserved_kib: u64,
    /// Settings as `--set` takes them.
    pub settings: Vec<(&'static str, String)>,
    /// True if pages hold bytes. There is then a single file, the device, and pages are stable.
    pub has_bytes: bool,
    /// CPU time in nanoseconds of a call, a page, a fault.
    pub cost: (u64, u64, u64),
    /// Number of calls of other programs in each phase.
    pub other_program_calls: u64,
    /// True if other programs also truncate files.
    pub truncates: bool,
    /// Chance in 1000 that a step changes the reserved memory.
    pub memory_changes: u64,
}

impl DrawnCache {
    pub(super) fn new(dice: &mut Dice) -> Self {
        let memory_kib = *dice.pick(&[1024, 1024, 1536, 2048, 4096, 16384]);
        let policy = *dice.pick(&POLICIES);
        let mut settings = vec![("cache", policy.to_owned())];
        let mut set = |chance: u64, key: &'static str, values: &[&str]| {
            if dice.percent(chance) {
                settings.push((key, (*dice.pick(values)).to_owned()));
            }
        };
        set(70, "activity", &Activity::ALL.map(Activity::name));
        set(25, "cache_mode", &["write-through"]);
        set(if policy.starts_with("mglru") { 40 } else { 0 }, "min_ttl_ms", &["1", "50", "1000"]);
        set(40, "read_ahead_kb", &["0", "4", "16", "512", "4096"]);
        set(40, "dirty_ratio", &["0", "1", "5", "50", "100"]);
        set(40, "dirty_background_ratio", &["0", "1", "5", "50"]);
        set(30, "dirty_expire_centisecs", &["0", "1", "100"]);
        set(30, "dirty_writeback_centisecs", &["0", "1", "20"]);
        set(20, "extra_free_kbytes", &["16", "64"]);
        set(10, "wait_window_ms", &["1", "100"]);
        Self {
            memory_kib,
            reserved_kib: memory_kib * *dice.pick(&[0, 0, 0, 1, 2]) / 4,
            settings,
            has_bytes: dice.percent(75),
            cost: *dice.pick(&[(0, 0, 0), (300, 100, 500), (300, 100, 500), (20_000, 5000, 3000)]),
            other_program_calls: *dice.pick(&[0, 20, 100, 300]),
            truncates: dice.percent(60),
            memory_changes: *dice.pick(&[0, 0, 0, 5, 50]),
        }
    }

    /// Draws the jobs of a phase. They use one small area, so that they meet.
    pub(super) fn jobs(&self, dice: &mut Dice, limits: &QueueLimits, budget: u64) -> String {
        let mut text = "[global]\n".to_owned();
        if self.has_bytes || dice.percent(40) {
            text += "filename=/dev/swarm\n";
        } else if dice.percent(50) {
            text += "filename=shared\n";
        }
        let count = dice.range(1, 5);
        for index in 0..count {
            text += &format!("[job{index}]\n");
            job(dice, limits, budget / count, &mut text);
            if index > 0 && dice.percent(15) {
                text += "stonewall\n";
            }
        }
        text
    }

    pub(super) fn config(&self, stack: &StackConfig) -> CacheConfig {
        let mut config = CacheConfig::new(Bytes::new(self.memory_kib << 10), TaskId(0));
        config.set_kernel(stack.kernel);
        config.reserved = Bytes::new(self.reserved_kib << 10);
        config.io_pages = (stack.limits.max_sectors.bytes().get() / PAGE_SIZE).max(1) as u32;
        config.hz = stack.hz;
        config.copies = self.has_bytes;
        for (key, value) in &self.settings {
            config.set(key, value).unwrap_or_else(|error| panic!("{error}"));
        }
        config
    }

    pub(super) fn cost(&self) -> CacheCost {
        let (call, hit, fault) = self.cost;
        CacheCost {
            call: Nanos::new(call),
            hit: Nanos::new(hit),
            fault: Nanos::new(fault),
            bio: None,
        }
    }

    pub(super) fn writes_through(&self) -> bool {
        self.settings.iter().any(|(_, value)| value == "write-through")
    }
}

/// The draws of `rw`. The last needs a device that discards.
const PATTERNS: [&str; 9] =
    ["read", "randread", "randread", "randread", "write", "randwrite", "rw", "randrw", "randtrim"];

fn job(dice: &mut Dice, limits: &QueueLimits, budget: u64, text: &mut String) {
    let mut line = |key: &str, value: String| *text += &format!("{key}={value}\n");
    let engine = *dice.pick(&["psync", "psync", "libaio", "io_uring", "posixaio", "mmap", "mmap"]);
    let is_direct = engine != "mmap" && dice.percent(25);
    line("ioengine", engine.to_owned());
    line("direct", u64::from(is_direct).to_string());
    let can_discard = is_direct && !limits.max_discard().is_zero();
    line("rw", (*dice.pick(if can_discard { &PATTERNS } else { &PATTERNS[..8] })).to_owned());
    let small = if limits.logical_block_size == 512 { "512-32k" } else { "4k-32k" };
    let (key, value) = *dice.pick(&[
        ("bs", "4k"),
        ("bs", "4k"),
        ("bs", "64k"),
        ("bsrange", small),
        ("bsrange", "4k-256k"),
    ]);
    line(key, value.to_owned());
    let mib = *dice.pick(&[1, 1, 2, 4, 8]);
    line("size", format!("{mib}m"));
    line("offset", format!("{}m", dice.range(1, 4)));
    // Several passes over the area, so that pages are used again.
    line("io_size", format!("{}m", mib * dice.range(1, 6)));
    line("number_ios", dice.range(1, budget * 4).to_string());
    if dice.percent(70) {
        line("norandommap", "1".to_owned());
    }
    line("iodepth", dice.pick(&[1, 2, 4, 16]).to_string());
    if dice.percent(25) {
        line("numjobs", dice.range(2, 3).to_string());
    }
    if dice.percent(40) {
        line("prioclass", dice.range(1, 3).to_string());
        line("prio", dice.below(8).to_string());
    }
    match dice.below(10) {
        0 | 1 => line("fsync", dice.range(1, 20).to_string()),
        2 => line("fdatasync", dice.range(1, 20).to_string()),
        3 => line("end_fsync", "1".to_owned()),
        4 if engine != "mmap" => line("sync", "dsync".to_owned()),
        _ => {}
    }
    match dice.below(12) {
        0 => line("thinktime", "200".to_owned()),
        1 => line("rate_iops", "2000".to_owned()),
        2 => line("startdelay", "1ms".to_owned()),
        3..=5 => line("random_distribution", "zipf:1.1".to_owned()),
        _ => {}
    }
    match dice.below(6) {
        0 => line("pre_read", "1".to_owned()),
        1 | 2 => line("invalidate", "0".to_owned()),
        _ => {}
    }
    line("fadvise_hint", (*dice.pick(&["0", "1", "random", "sequential"])).to_owned());
    if dice.percent(80) {
        line("continue_on_error", "all".to_owned());
        let errors = ["EIO", "ENODATA", "ETIMEDOUT", "ENOLINK", "EREMOTEIO", "ENODEV"].join(":");
        line("ignore_error", format!("{errors},{errors},{errors}"));
    }
}

/// Programs that are not jobs.
pub(super) struct OtherPrograms {
    drawn: DrawnCache,
    dice: Dice,
    left: u64,
    /// The first task of the programs, after the flusher's.
    first: u32,
    opens: Vec<OpenId>,
    own: Option<FileId>,
    /// The call in progress of each program.
    busy: [Option<CallKind>; OTHER_PROGRAMS],
}

impl OtherPrograms {
    pub(super) fn new(drawn: &DrawnCache, dice: Dice, flusher: TaskId) -> Self {
        let (first, left) = (flusher.0 + 1, drawn.other_program_calls);
        let (opens, own, busy) = (Vec::new(), None, [None; OTHER_PROGRAMS]);
        Self { drawn: drawn.clone(), dice, left, first, opens, own, busy }
    }

    /// Returns the task after the last one of the programs.
    pub(super) const fn tasks(&self) -> u32 {
        self.first + OTHER_PROGRAMS as u32
    }

    /// Yields the programs as users for the shadow.
    pub(super) fn users(&self) -> impl Iterator<Item = (u32, User)> {
        let own = Region { start: OTHER_PROGRAMS_FILE, len: OTHER_PROGRAMS_BYTES };
        let device =
            Region { start: DeviceOffset::ZERO, len: OTHER_PROGRAMS_FILE - DeviceOffset::ZERO };
        let first = self.first;
        (0..OTHER_PROGRAMS as u32).map(move |n| {
            let region = if n as usize == OTHER_PROGRAMS - 1 { device } else { own };
            (first + n, User::new(Manner::Buffered, false, vec![region]))
        })
    }

    /// Acts after everything possible at an instant has happened. Returns true if a call was made
    /// or has finished.
    pub(super) fn act(
        &mut self,
        now: Instant,
        cached: &mut BufferedIo,
        shadow: &mut Shadow,
    ) -> bool {
        self.open(cached);
        let mut acted = self.hear(cached, shadow);
        if self.dice.percent(4) {
            cached.cache().self_check();
        }
        if cached.is_settling() {
            return acted;
        }
        if self.dice.below(1000) < self.drawn.memory_changes {
            let kib = self.dice.below(self.drawn.memory_kib * 3 / 4);
            cached.set_reserved(now, Bytes::new(kib << 10));
            acted = true;
        }
        let who = self.dice.below(OTHER_PROGRAMS as u64) as usize;
        if self.left > 0 && self.busy[who].is_none() && self.dice.percent(20) {
            self.left -= 1;
            acted |= self.call(now, who, cached, shadow);
        }
        acted
    }

    /// Processes calls that have finished. Returns true if there were any.
    pub(super) fn hear(&mut self, cached: &mut BufferedIo, shadow: &mut Shadow) -> bool {
        let mut any = false;
        while let Some(done) = cached.poll_other_program() {
            self.over(&done, shadow);
            any = true;
        }
        any
    }

    fn open(&mut self, cached: &mut BufferedIo) {
        if self.own.is_none() {
            let jobs = FileId(0);
            let cache = cached.cache_mut();
            let own = cache.add_file(
                OTHER_PROGRAMS_FILE.sector(),
                Bytes::new(OTHER_PROGRAMS_BYTES.get() / 2),
                OTHER_PROGRAMS_BYTES,
            );
            self.opens = [own, own, jobs].map(|file| cache.open(file)).to_vec();
            self.own = Some(own);
        }
    }

    fn over(&mut self, done: &CallDone, shadow: &mut Shadow) {
        let who = (done.task.0 - self.first) as usize;
        let kind = self.busy[who].take();
        if kind == Some(CallKind::Truncate) {
            shadow.truncate(None);
        }
        let moves = matches!(kind, Some(CallKind::Read | CallKind::Write));
        shadow.on_io_over(done.task, done.token, done.status, moves.then_some(done.bytes.get()));
    }

    fn call(
        &mut self,
        now: Instant,
        who: usize,
        cached: &mut BufferedIo,
        shadow: &mut Shadow,
    ) -> bool {
        let (is_own, dice) = (who < OTHER_PROGRAMS - 1, &mut self.dice);
        let kind = match dice.below(24) {
            0..=4 => CallKind::Read,
            5..=8 => CallKind::Write,
            9..=11 => CallKind::Fault { write: dice.percent(50) },
            12 | 13 => *dice.pick(&[CallKind::Fsync, CallKind::Fdatasync]),
            14 | 15 => CallKind::SyncRange(RangeSync::ALL),
            16 if is_own
                && self.drawn.truncates
                && !self.busy.contains(&Some(CallKind::Truncate)) =>
            {
                CallKind::Truncate
            }
            17 => CallKind::DropCaches,
            18 | 19 => CallKind::Invalidate,
            20 => {
                CallKind::Fadvise(*dice.pick(&[Advice::Random, Advice::Sequential, Advice::Normal]))
            }
            21 => {
                CallKind::Madvise(*dice.pick(&[Advice::Random, Advice::Sequential, Advice::Normal]))
            }
            _ => CallKind::Fadvise(*dice.pick(&[Advice::DontNeed, Advice::WillNeed])),
        };
        // The jobs' area of the device starts at 1 MiB; a file of the jobs need not start there.
        let (base, reach) =
            if is_own { (0, OTHER_PROGRAMS_BYTES.get()) } else { (1 << 20, 8 << 20) };
        let mut offset = base + dice.below(reach / 512) * 512;
        let longest = *dice.pick(&[8, 8, 64, 256]);
        let mut bytes = dice.range(1, longest) * 512;
        bytes = bytes.min(base + reach - offset);
        match kind {
            CallKind::Truncate => bytes = 0,
            CallKind::Fsync | CallKind::Fdatasync => (offset, bytes) = (0, 0),
            CallKind::Fault { .. } => bytes = 512,
            _ => {}
        }
        if !is_own && !self.drawn.has_bytes {
            let size = cached.cache().file_size(FileId(0)).get();
            (offset, bytes) = (offset.min(size.saturating_sub(512)), bytes.min(4096).min(size));
        }
        let task = TaskId(self.first + who as u32);
        let call =
            Call::new(task, 0, self.opens[who], kind, FileOffset::new(offset), Bytes::new(bytes));
        self.tell(&call, if is_own { OTHER_PROGRAMS_FILE } else { DeviceOffset::ZERO }, shadow);
        self.busy[who] = Some(kind);
        // Even if the call has finished, it is processed in the next step, after its bytes were
        // moved.
        cached.call_of_other_program(now, call);
        true
    }

    fn tell(&self, call: &Call, base: DeviceOffset, shadow: &mut Shadow) {
        let place = Region { start: base + (call.offset - FileOffset::ZERO), len: call.bytes };
        let op = match call.kind {
            CallKind::Write | CallKind::Fault { write: true } => Op::Write,
            CallKind::Fsync | CallKind::Fdatasync | CallKind::SyncRange(_) => Op::Flush,
            _ => Op::Read,
        };
        shadow.begin(call.task, call.token, op, place, None);
        match call.kind {
            CallKind::Fault { .. } => shadow.mapped(call.task, call.token),
            CallKind::SyncRange(RangeSync::ALL) => {
                shadow.promise(call.task, call.token, &[place], false);
            }
            CallKind::Truncate => {
                let end = OTHER_PROGRAMS_FILE + OTHER_PROGRAMS_BYTES;
                shadow.truncate(Some((place.start.sector().get(), end.sector().get())));
            }
            _ => {}
        }
    }
}

/// State of a page cache as checkers see it.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenCache {
    pub(super) capacity: u64,
    pub(super) used: u64,
    pub(super) reserved: u64,
    pub(super) dirty: u64,
    pub(super) writeback: u64,
    /// Dirty pages at which writers are throttled.
    pub(super) limit: u64,
    /// Pages that a writer may dirty between two checks of the limit.
    pub(super) allowance: u64,
    /// Bytes that `page-exact` has judged, and those of them that it made RT.
    pub(super) judged_bytes: u64,
    pub(super) promoted_bytes: u64,
    pub(super) traffic: CacheIoStats,
    pub(super) dirtied: u64,
    /// Dirty pages that were dropped and not written.
    pub(super) cancelled: u64,
    pub(super) is_idle: bool,
}

impl SeenCache {
    pub(super) fn new(cached: &BufferedIo, hz: elevon_cache::Hz) -> Self {
        let cache = cached.cache();
        let (resident, domain) = (cache.resident(), cache.dirty_domain());
        let pages = resident.pages();
        let dirtyable = resident.free().saturating_sub(cache.watermarks().high) + pages.used();
        let limits = domain.limits(dirtyable);
        let dirty = pages.dirty() + pages.writeback();
        let longest = max_pause(hz, dirty, domain.smooth_bandwidth());
        let target = pause_target(hz, domain.smooth_bandwidth(), domain.base_rate(), longest);
        let all = |of: fn(&elevon_cache::activity::Counts) -> u64| {
            Origin::ALL.into_iter().map(|origin| of(cache.promoter().counts(origin))).sum()
        };
        Self {
            capacity: pages.capacity(),
            used: pages.used(),
            reserved: resident.reserved(),
            dirty: pages.dirty(),
            writeback: pages.writeback(),
            limit: limits.thresh.max(domain.limit()),
            allowance: target.pages.max(limits.poll_interval(0)),
            judged_bytes: all(|counts| counts.bytes),
            promoted_bytes: all(|counts| counts.promoted_bytes),
            traffic: *cached.io_stats(),
            dirtied: cache.stats().dirtied,
            cancelled: pages.cancelled(),
            is_idle: cache.is_idle(),
        }
    }

    /// Falsifies the state.
    pub(super) fn spoil(&mut self, wrong: Wrong) {
        match wrong {
            Wrong::HalfMemory => self.capacity /= 2,
            Wrong::MoreDirty => self.dirty += self.capacity,
            Wrong::MorePromoted => self.promoted_bytes += self.judged_bytes,
            Wrong::MoreTraffic => self.traffic.read_pages += 1,
            Wrong::MoreDirtied => self.dirtied += 1,
            Wrong::HalfLimits
            | Wrong::NoRules
            | Wrong::LiveRule
            | Wrong::Nanosecond
            | Wrong::TwiceTheWeight
            | Wrong::NoPatience
            | Wrong::HalfDepth
            | Wrong::Call => {}
        }
    }
}

/// Returns the priority of a task that set `set`.
pub(super) const fn own_priority(set: IoPrio) -> IoPrio {
    IoPrio::of_task(set, elevon_core::ioprio::CpuPolicy::Normal, 0)
}

/// Returns true if `one` is less urgent than `other`.
pub(super) fn is_less_urgent(one: IoPrio, other: IoPrio) -> bool {
    let rank = |class: PrioClass| match class {
        PrioClass::Rt => 0,
        PrioClass::Be | PrioClass::None => 1,
        PrioClass::Idle => 2,
    };
    rank(one.class()) > rank(other.class())
}
