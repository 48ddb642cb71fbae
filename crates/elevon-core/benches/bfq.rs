//! Cost of a request in BFQ: insert, dispatch and complete, by the number of process queues that are backlogged all the time.
//!
//! Each queue has one request at a time; with the default budget a slot is one request long, so that a slot ends with every
//! request: the dearest case, in which each takes a queue out of the engine's tree and puts one in. Run by `cargo test` it only
//! proves that it runs.

use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::kernel::{Kernel, Rules};
use elevon_core::op::Op;
use elevon_core::request::{Requests, State};
use elevon_core::sched::{AnyScheduler, Scheduler, SchedulerConfig, View};
use elevon_core::units::{HwQueue, Instant, Nanos, RequestId, Sector, Sectors, TaskId};

struct Load {
    scheduler: AnyScheduler,
    requests: Requests,
    rules: Rules,
    now: Instant,
    random: u64,
    hash: u64,
}

impl Load {
    fn new(name: &str, queues: u32) -> Self {
        let config = SchedulerConfig::parse(name).expect("a scheduler");
        let rules = Kernel::V6_18.rules();
        let scheduler = AnyScheduler::new(&config, rules, 250, 1, 1, queues as usize).expect("a scheduler");
        let requests = Requests::new(queues as usize);
        let mut load = Self { scheduler, requests, rules, now: Instant::ZERO, random: 1, hash: 0 };
        (0..queues).for_each(|id| load.insert(RequestId(id)));
        load
    }

    /// Request n is process n's; its level is n modulo 8, so that no two of a row are merged for good.
    fn insert(&mut self, id: RequestId) {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let request = &mut self.requests[id];
        request.state = State::Queued;
        request.op = Op::Read;
        request.task = TaskId(id.0);
        request.ioprio = IoPrio::new(PrioClass::Be, (id.0 % 8) as u8);
        request.sector = Sector::new(self.random >> 33 & !7);
        request.sectors = Sectors::new(8);
        self.now = self.now + Nanos::new(250);
        let view = View { requests: &self.requests, rules: &self.rules };
        self.scheduler.insert(self.now, view, id, false);
    }

    fn turn(&mut self) {
        let view = View { requests: &self.requests, rules: &self.rules };
        let id = loop {
            if let Some(id) = self.scheduler.dispatch(self.now, view, HwQueue(0)) {
                break id;
            }
            // It waits for a queue: let the timer come.
            self.now = self.scheduler.next_wakeup().expect("requests are queued").max(self.now);
            self.scheduler.on_wakeup(self.now);
        };
        self.scheduler.on_finish(self.now, view, id);
        self.hash = self.hash.wrapping_mul(31).wrapping_add(u64::from(id.0));
        self.insert(id);
    }
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (span, sizes): (_, &[u32]) =
        if full { (Duration::from_millis(300), &[5, 1_000, 100_000]) } else { (Duration::ZERO, &[5, 50]) };
    println!("{:<44} {:>8} {:>12} {:>12}  hash of the first 1024", "scheduler", "queues", "ns/request", "ns/log2 q");
    for name in [
        "bfq:low_latency=0,slice_idle=0",
        "bfq:low_latency=0",
        "bfq:low_latency=0,inject=fair",
        "bfq:low_latency=0,inject=seed",
        "bfq",
    ] {
        for &queues in sizes {
            let mut load = Load::new(name, queues);
            (0..1024).for_each(|_| load.turn());
            let hash = load.hash;
            let (start, mut turns) = (Clock::now(), 0u32);
            while turns == 0 || start.elapsed() < span {
                (0..1000).for_each(|_| load.turn());
                turns += 1000;
            }
            let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(turns);
            println!("{name:<44} {queues:>8} {ns:>12.1} {:>12.2}  {hash:016x}", ns / f64::from(queues).log2());
            black_box(&load.hash);
        }
    }
}
