//! Cost of a request in `aileron`: insert, dispatch and complete, by the number of processes that
//! always have requests waiting.
//!
//! Each process keeps four requests, a quarter of them writes, of 4 or 64 KiB at random places; the
//! device serves eight at a time. Everything that `aileron` does by itself is in force: the depth
//! is searched for, costs are fitted, places are kept. On the disk, requests go by turns of 1 ms.
//!
//! The goals are 300 ns and 1,500 instructions for a request at 1,000 processes, and growth no
//! worse than logarithmic: `/log` is the growth of the instructions against 10 processes, divided
//! by the ratio of the logarithms. Instructions are counted with valgrind, if it is installed;
//! times are CPU times if the system reports them. Run by `cargo test` it only checks that the
//! bench runs and that all processes are served.

use elevon_core::jiffies::Hz;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::kernel::{Kernel, Rules};
use elevon_core::op::Op;
use elevon_core::request::{Requests, State};
use elevon_core::sched::{AnyScheduler, Scheduler, SchedulerConfig, View};
use elevon_core::units::{HwQueue, Instant, Nanos, RequestId, Sector, Sectors, TaskId};

mod instructions;
mod processor;

use instructions::Case;

/// Requests of each process.
const EACH: u32 = 4;
/// Requests that the device serves at a time.
const SERVERS: usize = 8;
/// Time between two completions of a device in use.
const STEP: Nanos = Nanos::from_micros(25);
const GOAL_NS: f64 = 300.0;
const GOAL_INSTRUCTIONS: f64 = 1_500.0;
const PROCESSES: [u32; 4] = [1, 10, 100, 1_000];

struct Load {
    scheduler: AnyScheduler,
    requests: Requests,
    rules: Rules,
    processes: u32,
    now: Instant,
    random: u64,
    in_device: VecDeque<RequestId>,
    served: Vec<u32>,
}

impl Load {
    fn new(processes: u32, is_disk: bool) -> Self {
        let text = if is_disk { "aileron:turn_ms=1" } else { "aileron" };
        let config = SchedulerConfig::parse(text).expect("a scheduler");
        let rules = Kernel::default().rules();
        let count = (processes * EACH) as usize;
        let mut scheduler =
            AnyScheduler::new(&config, rules, Hz(1000), 1, 1, count).expect("a scheduler");
        scheduler.on_queue_info(is_disk);
        let mut load = Self {
            scheduler,
            requests: Requests::new(count),
            rules,
            processes,
            now: Instant::ZERO,
            random: 1,
            in_device: VecDeque::with_capacity(count),
            served: vec![0; processes as usize],
        };
        (0..count as u32).for_each(|id| load.insert(RequestId(id)));
        load
    }

    /// A request always belongs to the same process.
    fn insert(&mut self, id: RequestId) {
        self.random =
            self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let task = id.0 % self.processes;
        let request = &mut self.requests[id];
        request.state = State::Queued;
        request.op = if id.0 / self.processes == 0 { Op::Write } else { Op::Read };
        request.task = TaskId(task);
        request.ioprio = IoPrio::new(PrioClass::Be, (task % 8) as u8);
        request.sector = Sector::new(self.random >> 33 & !7);
        request.sectors = Sectors::new(if id.0.is_multiple_of(2) { 8 } else { 128 });
        let view = View { requests: &self.requests, rules: &self.rules };
        self.scheduler.insert(self.now, view, id, false);
    }

    fn dispatch(&mut self) -> Option<RequestId> {
        let view = View { requests: &self.requests, rules: &self.rules };
        self.scheduler.dispatch(self.now, view, HwQueue(0))
    }

    /// Dispatches what may go, then completes the oldest request, whose process inserts its next.
    fn turn(&mut self) {
        loop {
            while let Some(id) = self.dispatch() {
                self.requests[id].issued = self.now;
                self.in_device.push_back(id);
            }
            if let Some(id) = self.in_device.pop_front() {
                // With fewer in flight than servers each takes as long, and fewer end in a time.
                self.now = self.now
                    + Nanos::new(STEP.get() * (SERVERS / (self.in_device.len() + 1)).max(1) as u64);
                let view = View { requests: &self.requests, rules: &self.rules };
                self.scheduler.on_finish(self.now, view, id);
                self.scheduler.on_wakeup(self.now);
                self.served[(id.0 % self.processes) as usize] += 1;
                return self.insert(id);
            }
            // A place is kept for a process: time advances to the scheduler's timer.
            let at = self.scheduler.next_wakeup();
            assert!(at < Instant::MAX, "requests are queued");
            self.now = at.max(self.now);
            self.scheduler.on_wakeup(self.now);
        }
    }
}

fn name(processes: u32, is_disk: bool) -> String {
    format!("{processes}{}", if is_disk { "-disk" } else { "" })
}

fn cases() -> Vec<Case> {
    let case = |(processes, is_disk)| Case {
        name: name(processes, is_disk),
        run: Box::new(move |turns| {
            let mut load = Load::new(processes, is_disk);
            (0..8 * u64::from(processes * EACH) + turns).for_each(|_| load.turn());
        }),
    };
    rows().map(case).collect()
}

fn rows() -> impl Iterator<Item = (u32, bool)> {
    [false, true].into_iter().flat_map(|is_disk| PROCESSES.map(|processes| (processes, is_disk)))
}

fn main() {
    let cases = cases();
    if instructions::serve(&cases) {
        return;
    }
    let full = std::env::args().any(|argument| argument == "--bench");
    let is_counted = full && instructions::available();
    println!(
        "goals: {GOAL_NS} ns and {GOAL_INSTRUCTIONS} instructions at 1000 processes; /log at most 1"
    );
    if full && !is_counted {
        println!("instructions are not counted: there is no valgrind");
    }
    println!("{:<12} {:>12} {:>14} {:>6}  goal", "processes", "ns/request", "instructions", "/log");
    let mut base = None;
    for (case, (processes, is_disk)) in cases.iter().zip(rows()) {
        let load = RefCell::new(Load::new(processes, is_disk));
        let turns = 40 * u64::from(processes * EACH).max(100);
        (0..turns).for_each(|_| load.borrow_mut().turn());
        assert!(
            load.borrow().served.iter().all(|served| *served > 0),
            "of {} some are not served",
            case.name
        );
        if !full {
            println!("{:<12} {:>12} {:>14} {:>6}", case.name, "-", "-", "-");
            continue;
        }
        let ns = processor::measure(Duration::from_millis(300), || load.borrow_mut().turn());
        let count = if is_counted { case.per_turn() } else { None };
        if processes == 10 {
            base = count;
        }
        let growth =
            count.zip(base).map(|(count, base)| count / base / f64::from(processes).log10());
        let is_large = processes == 1_000;
        let met =
            !is_large || (ns <= GOAL_NS && count.is_none_or(|count| count <= GOAL_INSTRUCTIONS));
        let shown = |value: Option<f64>, digits: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let growth = growth.filter(|_| processes > 10);
        let goal = if met && growth.is_none_or(|growth| growth <= 1.0) { "met" } else { "missed" };
        println!(
            "{:<12} {ns:>12.1} {:>14} {:>6}  {goal}",
            case.name,
            shown(count, 0),
            shown(growth, 2)
        );
    }
}
