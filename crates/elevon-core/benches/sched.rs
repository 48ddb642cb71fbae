//! Cost of a request in a scheduler: insert, dispatch and complete, with a constant number of
//! requests queued.
//!
//! Prints nanoseconds per request beside the cost that the scheduler's header states: for O(log n),
//! the figure divided by log2 n should be about constant until the tables outgrow the CPU caches.
//! Run by `cargo test` it only checks that the bench runs.

use elevon_core::jiffies::Hz;
use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use elevon_core::kernel::Kernel;
use elevon_core::op::Op;
use elevon_core::request::{Requests, State};
use elevon_core::sched::{AnyScheduler, Scheduler, SchedulerConfig, View};
use elevon_core::units::{HwQueue, Instant, Nanos, RequestId, Sector, Sectors};

struct Load {
    scheduler: AnyScheduler,
    requests: Requests,
    rules: elevon_core::kernel::Rules,
    now: Instant,
    random: u64,
    hash: u64,
}

impl Load {
    fn new(name: &str, kernel: Kernel, queued: usize) -> Self {
        let config = SchedulerConfig::parse(name).expect("a scheduler");
        let rules = kernel.rules();
        let scheduler =
            AnyScheduler::new(&config, rules, Hz(250), 1, 1, queued + 1).expect("a scheduler");
        let mut load = Self {
            scheduler,
            requests: Requests::new(queued + 1),
            rules,
            now: Instant::ZERO,
            random: 1,
            hash: 0,
        };
        (0..queued as u32).for_each(|id| load.insert(RequestId(id)));
        load
    }

    fn insert(&mut self, id: RequestId) {
        self.random =
            self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let request = &mut self.requests[id];
        request.state = State::Queued;
        request.op = if self.random >> 40 & 3 == 0 { Op::Write } else { Op::Read };
        // Sectors are spread over 1 TiB, so that no requests merge.
        request.sector = Sector::new(self.random >> 33 & !7);
        request.sectors = Sectors::new(8);
        self.now = self.now + Nanos::new(250);
        let view = View { requests: &self.requests, rules: &self.rules };
        self.scheduler.insert(self.now, view, id, false);
    }

    fn turn(&mut self) {
        let view = View { requests: &self.requests, rules: &self.rules };
        let id = self.scheduler.dispatch(self.now, view, HwQueue(0)).expect("requests are queued");
        self.scheduler.on_finish(self.now, view, id);
        self.hash = self.hash.wrapping_mul(31).wrapping_add(u64::from(id.0));
        self.insert(id);
    }
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (span, sizes): (_, &[usize]) = if full {
        (Duration::from_millis(300), &[10, 100, 1_000, 10_000, 100_000])
    } else {
        (Duration::ZERO, &[10, 100])
    };
    println!(
        "{:<22} {:>8} {:>12} {:>14}  hash of the first 1024",
        "scheduler", "queued", "ns/request", "ns/log2 n"
    );
    for (name, kernel, cost) in [
        ("none", Kernel::V6_18, "O(1)"),
        ("mq-deadline", Kernel::V6_1, "O(log n)"),
        ("mq-deadline", Kernel::V6_18, "O(log n)"),
        ("kyber", Kernel::V6_18, "O(1)"),
    ] {
        for &queued in sizes {
            let mut load = Load::new(name, kernel, queued);
            (0..1024).for_each(|_| load.turn());
            let hash = load.hash;
            let (start, mut turns) = (Clock::now(), 0u32);
            while turns == 0 || start.elapsed() < span {
                (0..1000).for_each(|_| load.turn());
                turns += 1000;
            }
            let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(turns);
            let title = format!("{name} {} {cost}", kernel.name());
            println!(
                "{title:<22} {queued:>8} {ns:>12.1} {:>14.2}  {hash:016x}",
                ns / (queued as f64).log2()
            );
            black_box(&load.hash);
        }
    }
}
