//! Cost of a request in BFQ: insert, dispatch and complete, by the number of process queues that
//! are always backlogged.
//!
//! Each process keeps the same number of requests queued and inserts its next one when one has
//! completed; the device holds 16. A slot ends by budget after 8 requests, or by time if requests
//! of others are injected. With `slice_idle=0` and one request each, it ends with every request:
//! the most expensive case, in which each request takes a queue out of the engine's trees and puts
//! it back. All queues are then served in turn, which is checked; the hash covers the order of
//! dispatches until the last queue was served.
//!
//! The goals are 400 ns per request at 1,000 queues, and growth no worse than logarithmic (`x5` is
//! the cost relative to that at 5 queues, `/log` is that divided by the ratio of the logarithms).
//! Times are CPU times if the system reports them. Run by `cargo test` it only checks that the
//! bench runs and serves all queues.

use elevon_core::jiffies::Hz;
use std::collections::VecDeque;
use std::time::{Duration, Instant as Clock};

use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::kernel::{Kernel, Rules};
use elevon_core::op::Op;
use elevon_core::request::{Requests, State};
use elevon_core::sched::{AnyScheduler, Scheduler, SchedulerConfig, View};
use elevon_core::units::{HwQueue, Instant, Nanos, RequestId, Sector, Sectors, TaskId};

/// Requests in the device.
const DEPTH: usize = 16;
/// Turns per queue within which every queue must be served.
const ROUNDS: usize = 200;
/// Time between two arrivals: 10 requests a millisecond.
const STEP: Nanos = Nanos::from_micros(100);
const TICKS_PER_SECOND: Hz = Hz(1000);
const GOAL_NS: f64 = 400.0;

/// Scheduler, and requests that each process keeps queued.
const ROWS: [(&str, u32); 7] = [
    ("bfq:low_latency=0,slice_idle=0", 1),
    // If the device does not queue commands, queues are also sorted by position.
    ("bfq:low_latency=0,slice_idle=0,hw_tag=no", 1),
    ("bfq:low_latency=0,slice_idle=0,timeout_sync=2,max_budget=64", 20),
    ("bfq:low_latency=0,timeout_sync=2,max_budget=64", 20),
    ("bfq:low_latency=0,timeout_sync=2,max_budget=64,inject=fair", 1),
    ("bfq:low_latency=0,timeout_sync=2,max_budget=64,inject=seed", 1),
    ("bfq:timeout_sync=2,max_budget=64", 20),
];

struct Load {
    scheduler: AnyScheduler,
    requests: Requests,
    rules: Rules,
    queues: u32,
    now: Instant,
    random: u64,
    in_device: VecDeque<RequestId>,
    hash: u64,
    served: Vec<bool>,
    unserved: usize,
}

impl Load {
    fn new(name: &str, queues: u32, each: u32) -> Self {
        let config = SchedulerConfig::parse(name).expect("a scheduler");
        let rules = Kernel::V6_18.rules();
        let count = (queues * each) as usize;
        let scheduler =
            AnyScheduler::new(&config, rules, TICKS_PER_SECOND, 1, 1, count).expect("a scheduler");
        let mut load = Self {
            scheduler,
            requests: Requests::new(count),
            rules,
            queues,
            now: Instant::ZERO,
            random: 1,
            in_device: VecDeque::with_capacity(DEPTH + 1),
            hash: 0,
            served: vec![false; queues as usize],
            unserved: queues as usize,
        };
        // The first process runs alone until the configured budget is used. Queues created before
        // would start with slots of 1365 requests, and the last of them would be served only after
        // all others had as many.
        let (first, others): (Vec<u32>, _) = (0..queues * each).partition(|id| id % queues == 0);
        first.into_iter().for_each(|id| load.insert(RequestId(id)));
        (0..1000).for_each(|_| load.turn());
        others.into_iter().for_each(|id| load.insert(RequestId(id)));
        load
    }

    /// A request always belongs to the same process. Adjacent processes differ in level, so that no
    /// two are merged permanently.
    fn insert(&mut self, id: RequestId) {
        self.random =
            self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let task = id.0 % self.queues;
        let request = &mut self.requests[id];
        request.state = State::Queued;
        request.op = Op::Read;
        request.task = TaskId(task);
        request.ioprio = IoPrio::new(PrioClass::Be, 3 + (task % 2) as u8);
        request.sector = Sector::new(self.random >> 33 & !7);
        request.sectors = Sectors::new(8);
        self.now = self.now + STEP;
        let view = View { requests: &self.requests, rules: &self.rules };
        self.scheduler.insert(self.now, view, id, false);
    }

    /// Dispatches one request. If the device is full or no request may be dispatched, first
    /// completes the oldest request in the device, whose process inserts its next one.
    fn turn(&mut self) {
        loop {
            let view = View { requests: &self.requests, rules: &self.rules };
            let id = if self.in_device.len() < DEPTH {
                self.scheduler.dispatch(self.now, view, HwQueue(0))
            } else {
                None
            };
            if let Some(id) = id {
                self.in_device.push_back(id);
                return self.note(id.0 % self.queues);
            }
            if let Some(over) = self.in_device.pop_front() {
                self.scheduler.on_finish(self.now, view, over);
                self.insert(over);
            } else {
                // The scheduler waits for a queue, so time advances to its timer.
                let at = self.scheduler.next_wakeup();
                assert!(at < Instant::MAX, "requests are queued");
                self.now = at.max(self.now);
                self.scheduler.on_wakeup(self.now);
            }
        }
    }

    fn note(&mut self, task: u32) {
        self.hash = self.hash.wrapping_mul(0x100_0000_01b3).wrapping_add(u64::from(task) + 1);
        self.unserved -= usize::from(!core::mem::replace(&mut self.served[task as usize], true));
    }
}

/// Returns the CPU time of this process, which does not include other load on the machine.
fn on_processor() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    // Other arguments are the rows and the numbers of queues to run; without any, all are run.
    let (counts, rows): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .partition(|argument| argument.bytes().all(|byte| byte.is_ascii_digit()));
    let is_wanted = |list: &[String], what: &str| {
        list.is_empty() || list.iter().any(|argument| argument == what)
    };
    let (span, sizes): (_, &[u32]) = if full {
        (Duration::from_millis(300), &[5, 1_000, 100_000])
    } else {
        (Duration::ZERO, &[5, 50])
    };
    println!(
        "goals: {GOAL_NS} ns/request at 1000 queues; growth against 5 queues at most that of the logarithm (/log <= 1)"
    );
    println!(
        "{:<60} {:>7} {:>11} {:>6} {:>6}  {:<16}  goal",
        "scheduler", "queues", "ns/request", "x5", "/log", "hash"
    );
    for (name, each) in ROWS.into_iter().filter(|(name, _)| is_wanted(&rows, name)) {
        let mut smallest = f64::NAN;
        for &queues in sizes.iter().filter(|queues| is_wanted(&counts, &queues.to_string())) {
            let mut load = Load::new(name, queues, each);
            let limit = ROUNDS * queues as usize;
            let turns = (0..limit)
                .take_while(|_| {
                    load.turn();
                    load.unserved > 0
                })
                .count();
            assert_eq!(
                load.unserved, 0,
                "{name}: of {queues} queues some were not served in {turns} turns"
            );
            let hash = load.hash;
            let (start, from, mut turns) = (Clock::now(), on_processor(), 0u32);
            while turns == 0 || start.elapsed() < span {
                (0..1000).for_each(|_| load.turn());
                turns += 1000;
            }
            let spent = on_processor().zip(from).map_or(start.elapsed(), |(to, from)| to - from);
            let ns = spent.as_secs_f64() * 1e9 / f64::from(turns);
            if queues == sizes[0] {
                smallest = ns;
            }
            let growth = ns / smallest;
            let by_log = growth / (f64::from(queues).ln() / f64::from(sizes[0]).ln());
            let met = by_log <= 1.0 && (queues != 1_000 || ns <= GOAL_NS);
            let goal = if met { "met" } else { "missed" };
            if !full {
                println!("{name:<60} {queues:>7} {:>11} {:>6} {:>6}  {hash:016x}", "-", "-", "-");
                continue;
            }
            println!(
                "{name:<60} {queues:>7} {ns:>11.1} {growth:>6.2} {by_log:>6.2}  {hash:016x}  {goal}"
            );
        }
    }
}
