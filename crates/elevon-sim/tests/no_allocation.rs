//! Checks with a global allocator that counts calls that a steady run on the whole path of `elevon
//! run` allocates nothing per I/O.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use elevon_core::sched::SchedulerConfig;
use elevon_core::stack::Stack;
use elevon_core::units::Nanos;
use elevon_engine::Engine;
use elevon_formats::fio::{MemorySource, parse};
use elevon_sim::device::Device;
use elevon_sim::memory::{Memory, MemoryModel};
use elevon_sim::profiles::open;
use elevon_sim::simulation::Simulation;
use elevon_workload::jobs::{Jobs, JobsOptions};
use elevon_workload::process::CpuCost;
use elevon_workload::run::{Observer, Probe, run_probed};

/// An allocator that counts the calls to the system's allocator.
struct Counting;

static ASKED: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(memory, layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Records at every step the number of allocations and of completed I/Os, from the end of the
/// warm-up to the end of the run.
struct Watch {
    warm_after: u64,
    cold_before: u64,
    first: Option<(u64, u64)>,
    last: (u64, u64),
}

impl Observer for Watch {}

impl Probe for Watch {
    fn on_step(&mut self, stack: &mut Stack) {
        let issued = stack.counters().issued;
        if issued >= self.warm_after && issued <= self.cold_before {
            let now = (ASKED.load(Ordering::Relaxed), issued);
            self.first.get_or_insert(now);
            self.last = now;
        }
    }
}

/// Returns the allocations in the middle of a run, and the commands in that time.
fn steady(device: &str, scheduler: &str, options: &str) -> (u64, u64) {
    const IOS: u64 = 40_000;
    let text = format!("[job]\nioengine=libaio\nsize=1g\nnumber_ios={IOS}\n{options}\n");
    let parsed =
        parse(&mut MemorySource::one("job.fio", &text), "job.fio").expect("a job of this file");
    let device = open(device, 1).expect("a device of this file");
    let description = device.description().clone();
    let mut config = description.stack_config();
    config.scheduler = SchedulerConfig::parse(scheduler).expect("a scheduler of this file");
    let mut stack = Stack::new(config).expect("valid limits");
    let options = JobsOptions {
        cpu: CpuCost::new(Nanos::new(1000), Nanos::new(500)),
        ..JobsOptions::new(stack.config())
    };
    let mut memory = Memory::new(&MemoryModel::default(), 1);
    let mut jobs =
        Jobs::new(&parsed.jobs, &options, &mut memory.buffers(&mut stack)).expect("the job fits");
    let mut watch =
        Watch { warm_after: IOS / 4, cold_before: IOS * 9 / 10, first: None, last: (0, 0) };
    let mut engine = Engine::new(stack, Simulation::new(device));
    let outcome = run_probed(&mut engine, &mut jobs, None, &mut watch);
    assert_eq!(outcome.ended_early, None);
    let first = watch.first.expect("the run was warm once");
    (watch.last.0 - first.0, watch.last.1 - first.1)
}

/// Histograms take memory when a latency is twice as long as any before, which becomes rare.
/// Nothing else may.
const GROWTHS: u64 = 8;

/// There is a single test in this file, because allocations of another thread would be counted.
#[test]
fn a_steady_run_allocates_nothing() {
    let random = "rw=randread\nbs=4k\niodepth=32\nnorandommap=1";
    let mixed = "rw=randrw\nbs=4k\niodepth=32";
    let batches =
        "rw=randwrite\nbs=4k\niodepth=32\niodepth_batch_submit=8\niodepth_batch_complete_min=4";
    for (device, scheduler, options) in [
        ("null:latency=0", "none", random),
        ("null:latency=10us", "none", mixed),
        ("null:latency=10us", "mq-deadline", mixed),
        ("null:latency=10us", "mq-deadline", batches),
        ("slots:slots=4,latency=100us", "none", random),
        ("slots:slots=4,latency=100us", "mq-deadline", batches),
        ("nvme-datacenter", "none", random),
        ("nvme-datacenter", "mq-deadline", mixed),
        ("slots:slots=4,latency=100us", "bfq", mixed),
        ("slots:slots=4,latency=100us", "kyber", mixed),
        ("nvme-datacenter", "kyber", batches),
        ("slots:slots=4,latency=100us", "aileron", mixed),
        ("nvme-datacenter", "aileron", batches),
    ] {
        let (asked, commands) = steady(device, scheduler, options);
        assert!(commands > 10_000, "{commands} commands");
        assert!(ASKED.load(Ordering::Relaxed) > 100, "nothing is counted");
        assert!(
            asked <= GROWTHS,
            "{device}, {scheduler}: memory was asked for {asked} times in {commands} commands"
        );
    }
}
