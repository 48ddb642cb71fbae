//! Instructions of an I/O by scheduler, in the cases in which `tests/data/scheduler-cpu` has what a
//! scheduler of Linux costs: 4 KiB direct random reads by 1 and by 4 processes at depth 8.
//!
//! An I/O goes through the whole stack, so the difference to `none` holds what it holds in Linux:
//! the scheduler's own work, a second tag, and that a request is inserted and dispatched. The
//! processes take no virtual CPU time; requests wait for the device. The CPU time that `aileron` is
//! charged in simulation follows from these figures: see the README of `tests/data/scheduler-cpu`.
//! `cargo bench -p elevon-sim --bench schedulers` prints them as `instructions.txt` there has them.
//! Run by `cargo test` it only checks that each case runs.

use elevon_core::sched::SchedulerConfig;
use elevon_core::stack::Stack;
use elevon_engine::Engine;
use elevon_formats::fio::{MemorySource, parse};
use elevon_sim::device::{AnyDevice, Device, Fault};
use elevon_sim::memory::{Memory, MemoryModel};
use elevon_sim::profiles::open;
use elevon_sim::simulation::Simulation;
use elevon_workload::jobs::{Jobs, JobsOptions};
use elevon_workload::run::{NoObserver, run};

#[path = "../../elevon-core/benches/instructions/mod.rs"]
mod instructions;

use instructions::Case;

/// I/Os of each process in a turn of a case.
const EACH: u64 = 32;
const PROCESSES: [u64; 2] = [1, 4];
/// Names as in `results.txt`, and what `--scheduler` takes.
const SCHEDULERS: [(&str, &str); 6] = [
    ("none", "none"),
    ("mq-deadline", "mq-deadline"),
    ("kyber", "kyber"),
    ("bfq", "bfq"),
    ("bfq-ll0", "bfq:low_latency=0,slice_idle=0"),
    ("aileron", "aileron"),
];
const DEVICES: [&str; 2] = ["null:size=100GiB,latency=0", "slots:slots=8,latency=50us,size=100GiB"];

fn simulate(device: &str, scheduler: &str, processes: u64, ios: u64) {
    let job = format!(
        "[read]\nioengine=io_uring\ndirect=1\nrw=randread\nnorandommap\nbs=4k\niodepth=8\nsize=10g\nnumjobs={processes}\n\
         group_reporting\nnumber_ios={ios}\n"
    );
    let parsed =
        parse(&mut MemorySource::one("bench.fio", &job), "bench.fio").expect("a job of this file");
    let device = Fault::none(open(device, 1).expect("a device of this file"));
    let description = device.description().clone();
    let mut config = description.stack_config();
    config.scheduler = SchedulerConfig::parse(scheduler).expect("a scheduler of this file");
    let mut stack = Stack::new(config).expect("valid limits");
    let options = JobsOptions::new(stack.config());
    let mut memory = Memory::new(&MemoryModel::default(), 1);
    let mut jobs =
        Jobs::new(&parsed.jobs, &options, &mut memory.buffers(&mut stack)).expect("the job fits");
    let simulation: Simulation<Fault<AnyDevice>> = Simulation::new(device);
    let outcome = run(&mut Engine::new(stack, simulation), &mut jobs, &mut NoObserver);
    assert_eq!((outcome.disk_end.groups[0].ios, outcome.ended_early), (processes * ios, None));
}

fn main() {
    let rows = || DEVICES.iter().flat_map(|device| PROCESSES.map(|processes| (*device, processes)));
    let case = |(device, processes): (&'static str, u64)| {
        SCHEDULERS.map(|(name, scheduler)| Case {
            name: format!("{device} {processes} {name}"),
            run: Box::new(move |turns| simulate(device, scheduler, processes, EACH * (1 + turns))),
        })
    };
    let cases: Vec<Case> = rows().flat_map(case).collect();
    if instructions::serve(&cases) {
        return;
    }
    if !std::env::args().any(|argument| argument == "--bench") {
        cases.iter().for_each(|case| (case.run)(1));
        return println!("{} cases run", cases.len());
    }
    if !instructions::available() {
        return println!("instructions are not counted: there is no valgrind");
    }
    for (of_row, (device, processes)) in cases.chunks(SCHEDULERS.len()).zip(rows()) {
        for (case, (scheduler, _)) in of_row.iter().zip(SCHEDULERS) {
            let turn = case.per_turn().expect("valgrind counts");
            println!("{device} {processes} 8 {scheduler} {:.0}", turn / (EACH * processes) as f64);
        }
    }
}
