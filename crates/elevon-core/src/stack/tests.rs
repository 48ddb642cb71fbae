//! Tests the stack with worked examples of the kernel: order of issue, merges, flushes, errors,
//! timers.

extern crate std;
use std::collections::BTreeMap;
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use elevon_testkit::Rng;

use super::*;
use crate::driver::{Accept, Command, Completion, Driver, Piece, Pieces, TimeoutAction};
use crate::event::{Event, EventKind};
use crate::ioprio::PrioClass;
use crate::kernel::Kernel;
use crate::op::Rwbs;
use crate::units::Sectors;

mod answers;
mod dispatch;
mod driver;
mod events;
mod flush;
mod inject;
mod merges;
mod plug;
mod tags;
mod tenants;
mod tried;
mod untraced;

/// A driver that records its commands and completes none until a test does.
#[derive(Default)]
struct Notebook {
    issued: Vec<Command>,
    /// The pieces of all commands that it accepted.
    pieces: Vec<Piece>,
    /// Commands that it accepts before it is busy; `None` for no limit.
    room: Option<usize>,
    promise: bool,
    aborts: bool,
    /// The status with which it refuses every command permanently.
    refuses: Option<Status>,
    /// Number of commands that it was offered.
    offers: usize,
    /// True if errors are final and are never retried.
    is_final: bool,
    /// Timeouts that were reported to it, in seconds.
    timeouts: Vec<u64>,
    /// Time that a worker of the kernel needs.
    worker_delay: Nanos,
    /// Time that a process needs that was woken.
    wake_delay: Nanos,
    /// True if a worker of the driver runs before the task that dispatches.
    preempts: bool,
}

impl Driver for Notebook {
    fn queue_command(&mut self, _now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept {
        self.offers += 1;
        if let Some(status) = self.refuses {
            return Accept::Error(status);
        }
        match &mut self.room {
            Some(0) => return if self.promise { Accept::DeviceBusy } else { Accept::Busy },
            Some(room) => *room -= 1,
            None => {}
        }
        self.issued.push(*command);
        pieces.for_each(&mut |piece| self.pieces.push(piece));
        Accept::Ok
    }

    fn retries(&self) -> bool {
        !self.is_final
    }

    fn worker_delay(&mut self) -> Nanos {
        self.worker_delay
    }

    fn wake_delay(&mut self, _task: TaskId) -> Nanos {
        self.wake_delay
    }

    fn tag_wake_delay(&mut self) -> Nanos {
        self.wake_delay
    }

    fn preempts(&mut self) -> bool {
        self.preempts
    }

    fn handle_timeout(&mut self, now: Instant, _command: &Command) -> TimeoutAction {
        self.timeouts.push(now.get() / 1_000_000_000);
        if self.aborts { TimeoutAction::Aborted } else { TimeoutAction::ResetTimer }
    }
}

/// A stack over a [`Notebook`] with a clock that tests move.
struct Rig {
    stack: Stack,
    driver: Notebook,
    now: Instant,
    token: u64,
}

const MIB_512: Sectors = Sectors::new(1 << 30);

fn config(kernel: Kernel) -> StackConfig {
    let limits = QueueLimits {
        max_hw_sectors: Sectors::new(1024),
        max_segments: 512,
        max_hw_discard_sectors: Sectors::new(1 << 20),
        discard_granularity: 512,
        ..QueueLimits::default()
    };
    StackConfig { kernel, ..StackConfig::new(limits, MIB_512, 1, 128) }
}

fn with_scheduler(kernel: Kernel) -> StackConfig {
    StackConfig {
        scheduler: SchedulerConfig::parse("mq-deadline").expect("a scheduler that exists"),
        ..config(kernel)
    }
}

use crate::sched::{SCHEDULERS, SchedulerConfig};

impl Rig {
    fn new(config: StackConfig) -> Self {
        let mut stack = Stack::new(config).expect("a valid configuration");
        stack.set_tracing(true);
        Self { stack, driver: Notebook::default(), now: Instant::ZERO, token: 0 }
    }

    fn io(&mut self, op: Op, flags: Flags, sector: u64, sectors: u64) -> Io {
        self.token += 1;
        Io {
            task: TaskId(0),
            token: self.token,
            op,
            flags,
            sector: Sector::new(sector),
            bytes: Sectors::new(sectors).bytes(),
            ioprio: IoPrio::NONE,
            write_hint: 0,
            tenant: TenantId(0),
            layout: LayoutId(0),
            may_block: true,
        }
    }

    fn submit(&mut self, op: Op, flags: Flags, sector: u64, sectors: u64) -> Submitted {
        let io = self.io(op, flags, sector, sectors);
        self.stack.submit(self.now, io, &mut self.driver)
    }

    /// Submits a read of 4 KiB with a priority of this class.
    fn submit_in_class(&mut self, class: PrioClass, sector: u64) {
        let io = Io { ioprio: IoPrio::new(class, 4), ..self.io(Op::Read, Flags::NONE, sector, 8) };
        self.stack.submit(self.now, io, &mut self.driver);
    }

    /// Submits one call with a buffer of these runs (in pages), through a file system: everything
    /// under one plug.
    fn submit_runs(&mut self, sector: u64, runs: Vec<u64>) {
        let pages: u64 = runs.iter().sum();
        let layout = self.stack.register_layout(Layout::from_run_pages(runs));
        let io = Io { layout, ..self.io(Op::Read, Flags::NONE, sector, pages * 8) };
        self.stack.submit(self.now, io, &mut self.driver);
        self.stack.self_check();
    }

    fn batch(&mut self, sectors: &[(u64, u64)]) {
        self.stack.begin_batch(self.now, TaskId(0));
        for &(sector, len) in sectors {
            self.submit(Op::Read, Flags::NONE, sector, len);
        }
        self.stack.end_batch(self.now, TaskId(0), &mut self.driver);
        self.stack.self_check();
    }

    /// Lets the worker run that was woken for a lone request, if one was.
    fn run_worker(&mut self) {
        if let Some(at) =
            self.stack.next_timer().filter(|at| at.since(self.now) < Nanos::from_millis(1))
        {
            self.now = at;
            self.stack.handle_timers(at, &mut self.driver);
        }
    }

    fn complete(&mut self, command: Command) {
        self.complete_with(command, Status::Ok, command.bytes);
    }

    fn complete_with(&mut self, command: Command, status: Status, bytes: Bytes) {
        self.driver.issued.retain(|c| c.sequence != command.sequence);
        self.answer(command, status, bytes);
    }

    /// Answers a command, of which more answers may follow.
    fn answer(&mut self, command: Command, status: Status, bytes: Bytes) {
        let completion = Completion::from_command(&command, status, bytes);
        self.stack.handle_completion(self.now, completion, &mut self.driver);
        self.stack.self_check();
    }

    fn complete_first(&mut self) -> Command {
        let command = self.driver.issued[0];
        self.complete(command);
        command
    }

    fn complete_all(&mut self) {
        while !self.driver.issued.is_empty() {
            self.complete_first();
        }
    }

    fn issued(&self) -> Vec<String> {
        self.driver
            .issued
            .iter()
            .map(|c| format!("{}+{}", c.sector.get(), c.bytes.get() / 512))
            .collect()
    }

    fn done(&mut self) -> Vec<(u64, Status)> {
        core::iter::from_fn(|| self.stack.poll_done().copied())
            .map(|d| (d.token, d.status))
            .collect()
    }

    /// Returns events as `LETTER rwbs sector+n`.
    fn events(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        self.stack.drain_events(&mut events);
        events.iter().map(letter).collect()
    }
}

fn letter(event: &Event) -> String {
    let place = format!("{} {}+{}", Rwbs(event.op, event.flags), event.sector.get(), event.sectors);
    match event.kind {
        EventKind::BioQueue => format!("Q {place}"),
        EventKind::Split { new_sector } => format!("X {}/{}", event.sector.get(), new_sector.get()),
        EventKind::GetRequest => format!("G {place}"),
        EventKind::IoStart => "S".to_string(),
        EventKind::Plug => "P".to_string(),
        EventKind::Unplug { requests, from_schedule } => {
            format!("U{} {requests}", if from_schedule { "T" } else { "" })
        }
        EventKind::BackMerge => format!("M {place}"),
        EventKind::FrontMerge => format!("F {place}"),
        EventKind::RequestMerge => format!("MR {place}"),
        EventKind::Insert => format!("I {place}"),
        EventKind::Issue => format!("D {place}"),
        EventKind::Requeue => format!("R {place}"),
        EventKind::Complete { status } => match status {
            Status::Ok => format!("C {place}"),
            error => format!("C {place} [{}]", -error.errno()),
        },
        EventKind::BioAgain => format!("B {place}"),
        EventKind::IoDone { .. } => "E".to_string(),
        EventKind::TagWait { depth, .. } => format!("T {depth}"),
    }
}

/// Returns the runs of a full bio of `sectors`: runs of two pages, the rest single, the last single
/// (order-0 memory).
fn full_bio(sectors: u64) -> Vec<u64> {
    let doubles = ((sectors - 2048) / 8) as usize;
    (0..256).map(|i| if i < doubles { 2 } else { 1 }).collect()
}

fn iomap(kernel: Kernel) -> StackConfig {
    StackConfig { direct_path: DirectPath::Iomap, ..config(kernel) }
}

#[test]
fn nowait_is_not_split() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    rig.submit(Op::Read, Flags::NOWAIT, 0, 2056);
    rig.submit(Op::Read, Flags::NOWAIT, 0, 1024);
    assert_eq!(rig.issued(), ["0+1024"]);
    assert_eq!(rig.done(), [(1, Status::Again)]);
}

#[test]
fn partial_completion_and_error() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    rig.batch(&[(0, 8), (8, 8), (16, 8)]);
    let command = rig.driver.issued[0];
    let first = Sectors::new(12).bytes();
    rig.driver.issued.clear();
    let part = |status, bytes| Completion::from_command(&command, status, bytes);
    rig.stack.handle_completion(rig.now, part(Status::Ok, first), &mut rig.driver);
    assert_eq!(rig.done(), [(1, Status::Ok)]);
    rig.stack.handle_completion(rig.now, part(Status::Medium, Bytes::ZERO), &mut rig.driver);
    assert_eq!(rig.done(), [(2, Status::Medium), (3, Status::Medium)]);
    let read = rig.stack.disk_stats(rig.now).groups[0];
    assert_eq!((read.ios, read.sectors), (1, 24));
    let events = rig.events();
    assert_eq!(events[events.len() - 3..], ["C R 0+12", "C R 12+12 [-61]", "E"]);
    rig.stack.self_check();
}

#[test]
fn the_first_error_of_a_calls_parts_is_the_calls() {
    let mut rig = Rig::new(StackConfig { max_retries: 0, ..iomap(Kernel::V6_18) });
    rig.submit(Op::Read, Flags::NONE, 0, 3072);
    let parts = rig.driver.issued.clone();
    for (part, status) in parts.into_iter().zip([Status::Ok, Status::Medium, Status::IoError]) {
        assert!(rig.done().is_empty());
        rig.complete_with(part, status, if status.is_ok() { part.bytes } else { Bytes::ZERO });
    }
    assert_eq!(rig.done(), [(1, Status::Medium)]);
    // Failed or not, every part counts as an I/O, with its sectors.
    let read = rig.stack.disk_stats(rig.now).groups[0];
    assert_eq!((read.ios, read.sectors), (3, 3072));
}

#[test]
fn bad_calls_fail_before_any_bio() {
    let mut config = config(Kernel::V6_18);
    config.limits.nowait = false;
    let mut rig = Rig::new(config);
    rig.submit(Op::Read, Flags::NONE, MIB_512.get() - 4, 8);
    rig.submit(Op::WriteZeroes, Flags::NONE, 0, 8);
    let io = Io { bytes: Bytes::new(100), ..rig.io(Op::Read, Flags::NONE, 0, 0) };
    rig.stack.submit(rig.now, io, &mut rig.driver);
    rig.submit(Op::Read, Flags::NOWAIT, 0, 8);
    rig.submit(Op::Write, Flags::ATOMIC, 0, 8);
    // An invalid position is reported before an invalid operation.
    rig.submit(Op::WriteZeroes, Flags::NONE, MIB_512.get(), 8);
    for sector in [u64::MAX, u64::MAX - 7, 1 << 55] {
        rig.submit(Op::Read, Flags::NONE, sector, 8);
    }
    let io = Io { bytes: Bytes::new(u64::MAX / 512 * 512), ..rig.io(Op::Read, Flags::NONE, 0, 0) };
    rig.stack.submit(rig.now, io, &mut rig.driver);
    use Status::{Invalid, IoError, NotSupported};
    let expected = [
        IoError,
        NotSupported,
        Invalid,
        NotSupported,
        NotSupported,
        IoError,
        IoError,
        IoError,
        IoError,
        IoError,
    ];
    assert_eq!(rig.done(), (1..).zip(expected).collect::<Vec<_>>());
    assert!(rig.events().is_empty());
}

#[test]
fn a_queue_deeper_than_a_tag_set_is_used_as_far_as_tags_go() {
    let config = StackConfig::new(config(Kernel::V6_18).limits, MIB_512, 1, 65536);
    assert_eq!(config.nr_requests(), 10240);
    assert!(Stack::new(config).is_ok());
}

#[test]
fn a_read_of_nothing_is_over_at_once() {
    for config in [config(Kernel::V6_1), iomap(Kernel::V6_18)] {
        let mut rig = Rig::new(config);
        rig.submit(Op::Read, Flags::NONE, 8, 0);
        assert_eq!(rig.done(), [(1, Status::Ok)]);
        rig.stack.self_check();
    }
}

#[test]
fn nowait_without_a_tag_fails() {
    for mut config in [config(Kernel::V6_18), with_scheduler(Kernel::V6_18)] {
        (config.queue_depth, config.nr_requests) = (1, None);
        let tags = config.nr_requests();
        let mut rig = Rig::new(config);
        for i in 0..u64::from(tags) + 1 {
            rig.submit(Op::Read, Flags::NOWAIT, i * 1000, 8);
        }
        assert_eq!(rig.done(), [(u64::from(tags) + 1, Status::Again)]);
        assert_eq!(rig.stack.counters().tag_waits, 0);
    }
}

#[test]
fn write_zeroes_beyond_a_bios_length_covers_every_block_once() {
    let mut config = config(Kernel::V6_18);
    config.limits.max_write_zeroes_sectors = Sectors::new(u32::MAX.into());
    let mut rig = Rig::new(config);
    let asked = 9 << 21;
    rig.submit(Op::WriteZeroes, Flags::NONE, 8, asked);
    let mut next = 8;
    for command in &rig.driver.issued {
        assert_eq!(command.sector.get(), next);
        assert_eq!(command.bytes.get() % 512, 0);
        next += command.bytes.get() / 512;
    }
    assert_eq!(next, 8 + asked);
    rig.complete_all();
    assert_eq!(rig.done(), [(1, Status::Ok)]);
}

#[test]
fn requests_with_limits_of_their_own_may_be_longer_than_max_sectors() {
    let mut config = config(Kernel::V6_18);
    config.limits.zoned = true;
    config.limits.chunk_sectors = Sectors::new(1 << 16);
    config.limits.max_zone_append_sectors = Sectors::new(1024);
    config.limits.max_user_sectors = Sectors::new(64);
    (config.limits.atomic_write_max, config.limits.atomic_write_unit_max) = (1 << 17, 1 << 17);
    config.limits.atomic_write_unit_min = 512;
    let mut rig = Rig::new(config);
    rig.submit(Op::ZoneAppend, Flags::NONE, 0, 1024);
    rig.submit(Op::Write, Flags::ATOMIC, 0, 256);
    assert_eq!(rig.issued(), ["0+1024", "0+256"]);
    assert_eq!(rig.stack.counters().sizes[1].last(), Some(&2));
}

#[test]
fn without_iostats_nothing_is_counted() {
    let mut rig = Rig::new(StackConfig { iostats: false, ..config(Kernel::V6_18) });
    rig.batch(&[(0, 8), (8, 8), (1000, 8)]);
    assert_eq!(rig.stack.disk_stats(rig.now).in_flight, 0);
    rig.complete_all();
    let stats = rig.stack.disk_stats(rig.now);
    assert_eq!(stats.groups, <[crate::account::GroupCounters; 3]>::default());
    assert_eq!(rig.stack.counters().back_merges, 1);
}

#[test]
fn a_call_on_the_device_takes_a_plug_where_its_pages_are_more_than_256() {
    for (skip, sectors, plugs) in [(0, 2048, 2), (0, 2056, 3), (512, 2048, 3)] {
        let mut rig = Rig::new(config(Kernel::V6_1));
        let layout = rig.stack.register_layout(Layout::from_run_pages([300]).skip(skip));
        let io = Io { layout, ..rig.io(Op::Read, Flags::NONE, 0, sectors) };
        rig.stack.submit(rig.now, io, &mut rig.driver);
        let seen = rig.events().iter().filter(|e| *e == "P").count();
        assert_eq!(seen > 0, plugs > 2, "skip {skip}, {sectors} sectors");
    }
}

#[test]
fn a_bio_of_the_page_cache_goes_as_it_was_built_and_says_how_long_the_device_had_it() {
    let mut config = config(Kernel::V6_18);
    config.limits.max_segments = 1024;
    config.limits.max_hw_sectors = Sectors::new(1 << 16);
    config.fill = crate::build::Fill::MaxSectors;
    for (buffered, bios) in [(true, 1), (false, 2)] {
        let mut rig = Rig::new(config.clone());
        let layout = rig.stack.register_layout(Layout::contiguous(4096, 0));
        // 255 single pages and a run of four: 256 vectors.
        let singles = (0..255).map(|page| 2 * page);
        rig.stack.set_layout(layout, singles.chain(1000..1004));
        let io = Io { layout, ..rig.io(Op::Read, Flags::RAHEAD, 0, 259 * 8) };
        if buffered {
            rig.stack.submit_buffered(rig.now, io, &mut rig.driver);
        } else {
            rig.stack.submit(rig.now, io, &mut rig.driver);
        }
        assert_eq!(rig.stack.counters().bios, bios);
        rig.now = Instant::new(700);
        rig.complete_all();
        let done = rig.stack.poll_done().expect("the call is over");
        assert_eq!((done.status, done.device), (Status::Ok, Nanos::new(700)));
    }
}

#[test]
fn waiters_refused_one_after_the_other_do_not_nest() {
    let mut config = config(Kernel::V6_18);
    config.queue_depth = 1;
    let mut rig = Rig::new(config);
    for task in 0..20_000 {
        let io = Io { task: TaskId(task), ..rig.io(Op::Read, Flags::NONE, 0, 8) };
        rig.stack.submit(rig.now, io, &mut rig.driver);
    }
    rig.driver.refuses = Some(Status::Offline);
    rig.complete_first();
    let done = rig.done();
    assert_eq!(done.len(), 20_000);
    // In FIFO order.
    assert!(done.iter().map(|d| d.0).is_sorted());
    assert!(done[1..].iter().all(|d| d.1 == Status::Offline));
}

/// Random calls, completions, errors and busy periods, compared with a simple model: every call
/// ends exactly once, the commands in the driver cover exactly the requested sectors, and all
/// invariants hold after every step, for every scheduler and kernel version.
#[test]
fn random_walks_end_every_call_once() {
    for seed in 0..60u64 {
        let kernel = Kernel::ALL[(seed % Kernel::ALL.len() as u64) as usize];
        let scheduler = SCHEDULERS[(seed / 4) as usize % SCHEDULERS.len()].name;
        let mut config = config(kernel);
        config.scheduler = SchedulerConfig::new(scheduler).expect("it is in the table");
        config.queue_depth = 1 + (seed % 7) as u32;
        config.hw_queues = 1 + (seed % 3) as u16;
        config.nomerges = (seed % 5 == 0) as u8;
        config.limits.write_cache = seed % 3 == 0;
        config.limits.fua = seed % 6 == 0;
        let mut rig = Rig::new(config);
        let mut random = Rng(seed);
        let (mut asked, mut ended) = (BTreeMap::new(), BTreeMap::new());
        // Whether a task sleeps, as its caller knows it: from the result of a submission to the
        // report that the task may continue.
        let (mut asleep, mut in_batch) = ([false; 3], [false; 3]);
        for _ in 0..400 {
            rig.now = rig.now + Nanos::new(random.below(100_000));
            let task = TaskId(random.below(3) as u32);
            if random.below(10) < 6 && !asleep[task.index()] {
                let (op, flags) = match random.below(8) {
                    0 => (Op::Flush, Flags::NONE),
                    1 => (Op::Write, Flags::SYNC | Flags::FUA),
                    2 => (Op::Write, Flags::PREFLUSH),
                    3 => (Op::Discard, Flags::NONE),
                    4 | 5 => (Op::Write, Flags::SYNC),
                    _ => (Op::Read, Flags::NONE),
                };
                let sectors =
                    if op == Op::Flush { 0 } else { 8 * (1 + random.below(4) * random.below(100)) };
                let io = Io {
                    task,
                    may_block: random.below(2) == 0,
                    ..rig.io(op, flags, 8 * random.below(4000), sectors)
                };
                asked.insert(io.token, (op, sectors));
                if random.below(3) == 0 && !std::mem::replace(&mut in_batch[task.index()], true) {
                    rig.stack.begin_batch(rig.now, task);
                }
                asleep[task.index()] =
                    rig.stack.submit(rig.now, io, &mut rig.driver) == Submitted::Blocked;
                if !asleep[task.index()]
                    && random.below(3) == 0
                    && std::mem::take(&mut in_batch[task.index()])
                {
                    rig.stack.end_batch(rig.now, task, &mut rig.driver);
                }
            } else if !rig.driver.issued.is_empty() {
                let command =
                    rig.driver.issued[random.below(rig.driver.issued.len() as u64) as usize];
                match random.below(12) {
                    0 => rig.complete_with(command, Status::Transport, Bytes::ZERO),
                    1 => rig.complete_with(command, Status::Medium, Bytes::ZERO),
                    _ => rig.complete(command),
                }
            }
            if random.below(40) == 0 {
                change_a_tunable(&mut rig.stack, &mut random);
            }
            rig.driver.room = (random.below(6) == 0).then(|| random.below(3) as usize);
            if rig.stack.next_timer().is_some_and(|at| at <= rig.now) {
                rig.stack.handle_timers(rig.now, &mut rig.driver);
            }
            rig.stack.self_check();
            while let Some(task) = rig.stack.poll_unblocked() {
                assert!(
                    std::mem::take(&mut asleep[task.index()]),
                    "seed {seed}: {task:?} wakes and did not sleep"
                );
            }
            for task in (0..3).map(TaskId) {
                assert_eq!(
                    rig.stack.task_mut(task).blocked,
                    asleep[task.index()],
                    "seed {seed}: {task:?}"
                );
            }
            for (token, status) in rig.done() {
                assert!(
                    ended.insert(token, status).is_none(),
                    "seed {seed}: call {token} ended twice"
                );
            }
        }
        rig.driver.room = None;
        for _ in 0..100_000 {
            while let Some(task) = rig.stack.poll_unblocked() {
                asleep[task.index()] = false;
            }
            for task in (0..3).filter(|&task| !asleep[task] && std::mem::take(&mut in_batch[task]))
            {
                rig.stack.end_batch(rig.now, TaskId(task as u32), &mut rig.driver);
            }
            if rig.stack.ios_in_flight() == 0 {
                break;
            }
            match rig.driver.issued.first() {
                Some(&command) => rig.complete(command),
                None => {
                    rig.now = rig
                        .stack
                        .next_timer()
                        .expect("nothing in the driver, so a timer")
                        .max(rig.now);
                    rig.stack.handle_timers(rig.now, &mut rig.driver);
                }
            }
        }
        for (token, status) in rig.done() {
            assert!(ended.insert(token, status).is_none(), "seed {seed}: call {token} ended twice");
        }
        assert_eq!(ended.len(), asked.len(), "seed {seed}: calls that never ended");
        rig.stack.self_check();
        assert_eq!(rig.stack.disk_stats(rig.now).in_flight, 0, "seed {seed}");
    }
}

/// Sets one of the scheduler's tunables, if it has any, to its smallest value, its default, or
/// twice that. Not to its largest: mq-deadline, as in Linux, keeps requests that were inserted with
/// a longer expiry until that has passed.
fn change_a_tunable(stack: &mut Stack, random: &mut Rng) {
    let tunables = stack.scheduler().info().tunables;
    let Some(tunable) = tunables.get(random.below(tunables.len().max(1) as u64) as usize) else {
        return;
    };
    let default = tunable.default.parse().unwrap_or(tunable.min);
    let value = [tunable.min, default, tunable.max.min(default.saturating_mul(2))]
        [random.below(3) as usize];
    stack.set_tunable(tunable.name, value).expect("the value is in range");
    let set = stack.scheduler().tunables().into_iter().find(|(name, _)| *name == tunable.name);
    assert!(set.is_some(), "a tunable that can be set can be read");
}
