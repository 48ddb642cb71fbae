//! The loop waits after every step where waiting is free, and otherwise first looks if there is
//! more to do at this instant. Both give the same run.

use elevon_core::driver::{Accept, Command, Completion, Driver, Pieces, TimeoutAction};
use elevon_core::sched::SchedulerConfig;
use elevon_core::stack::Stack;
use elevon_core::units::{Instant, Nanos};
use elevon_engine::{Backend, Engine};
use elevon_formats::fio::{MemorySource, parse};
use elevon_sim::device::{Device, Fault};
use elevon_sim::memory::{Memory, MemoryModel};
use elevon_sim::profiles::open;
use elevon_sim::simulation::Simulation;
use elevon_workload::cpu::{CpuCost, SchedulerCost};
use elevon_workload::jobs::{Jobs, JobsOptions};
use elevon_workload::run::{NoObserver, run};

/// A simulation that does not say that waiting is free.
struct Plain<D>(Simulation<D>);

impl<D: Device> Driver for Plain<D> {
    fn queue_command(&mut self, now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept {
        self.0.queue_command(now, command, pieces)
    }
    fn worker_delay(&mut self) -> Nanos {
        self.0.worker_delay()
    }
    fn handle_timeout(&mut self, now: Instant, command: &Command) -> TimeoutAction {
        self.0.handle_timeout(now, command)
    }
}

impl<D: Device> Backend for Plain<D> {
    fn now(&mut self) -> Instant {
        self.0.now()
    }
    fn poll_completion(&mut self) -> Option<Completion> {
        self.0.poll_completion()
    }
    fn wait(&mut self, until: Option<Instant>) -> bool {
        self.0.wait(until)
    }
}

/// Runs a job. Returns everything that is known of the run, as text.
fn outcome(
    job: &str,
    device: &str,
    scheduler: &str,
    faults: &[&str],
    cpu: CpuCost,
    is_free: bool,
) -> String {
    let parsed = parse(&mut MemorySource::one("test.fio", job), "test.fio").expect("a valid job");
    let device = open(device, 1).expect("a device of this file");
    let device = Fault::parse(device, 1, faults).expect("rules of this file");
    let mut config = device.description().stack_config();
    config.scheduler = SchedulerConfig::parse(scheduler).expect("a scheduler of this file");
    let mut stack = Stack::new(config).expect("valid limits");
    let options = JobsOptions { cpu, ..JobsOptions::new(stack.config()) };
    let mut memory = Memory::new(&MemoryModel::default(), 1);
    let mut jobs =
        Jobs::new(&parsed.jobs, &options, &mut memory.buffers(&mut stack)).expect("the job fits");
    let simulation = Simulation::new(device);
    if is_free {
        run_on(stack, &mut jobs, simulation)
    } else {
        run_on(stack, &mut jobs, Plain(simulation))
    }
}

fn run_on<B: Backend>(stack: Stack, jobs: &mut Jobs, backend: B) -> String {
    let mut engine = Engine::new(stack, backend);
    let outcome = run(&mut engine, jobs, &mut NoObserver);
    format!("{outcome:?} {:?}", engine.stack().counters())
}

/// The last thinks for longer than a device may be silent. In the two before it most I/Os go alone,
/// and flushes, the end of the ramp, low water and another process come between.
const JOBS: [&str; 6] = [
    "[r]\nioengine=io_uring\nrw=randread\nbs=4k\niodepth=32\nsize=1g\nnumber_ios=3000\n",
    "[global]\nioengine=libaio\nsize=64m\nnumber_ios=400\n[w]\nrw=randwrite\nbssplit=4k/50:64k/50\niodepth=16\nfsync=32\n\
     [b]\nrw=rw\nbs=128k\niodepth=8\niodepth_batch_submit=4\niodepth_batch_complete_min=2\nnumjobs=2\nstartdelay=1ms\n\
     [p]\nioengine=psync\nrw=randrw\nbs=8k\nrate_iops=20000\nthinktime=50\nthinktime_spin=20\n",
    "[a]\nioengine=libaio\nrw=randread\nbs=4k\nsize=8m\niodepth=8\nflow=1\n[b]\nioengine=sync\nrw=randwrite\nbs=16k\n\
     size=8m\nsync=dsync\nflow=2\n[c]\nioengine=io_uring\nrw=randread\nbs=4k\nsize=1m\niodepth=300\n\
     iodepth_batch_complete_min=0\nramp_time=1ms\n",
    "[f]\nioengine=libaio\nrw=randrw\nbs=4k\nsize=2m\niodepth=16\niodepth_low=6\niodepth_batch_complete_max=4\n\
     fsync=7\nramp_time=2ms\nloops=2\nmax_latency=1s\n",
    "[a]\nioengine=io_uring\nrw=randread\nbs=4k\nsize=64m\niodepth=8\nnumber_ios=2000\n\
     [slow]\nioengine=psync\nrw=randwrite\nbs=4k\nsize=1m\nnumber_ios=40\nthinktime=90\n",
    "[t]\nioengine=io_uring\nrw=randread\nbs=4k\nsize=1m\nnumber_ios=150\nthinktime=700s\n",
];

#[test]
fn looking_first_changes_nothing() {
    let busy = ["busy:ppm=20000", "error:ppm=2000,status=transport", "no_completion:ppm=500"];
    let narrow = "null:latency=20us,hw_queues=2,queue_depth=8";
    for scheduler in ["none", "mq-deadline", "kyber", "bfq", "aileron"] {
        let costly = CpuCost {
            scheduler: SchedulerCost::measured(scheduler, true),
            ..CpuCost::new(Nanos::new(4_000), Nanos::new(1_400))
        };
        for (device, faults) in
            [("null:", &[][..]), ("nvme-datacenter", &[]), (narrow, &[]), (narrow, &busy)]
        {
            for (job, cpu) in JOBS.iter().flat_map(|job| [(job, costly), (job, CpuCost::default())])
            {
                let [free, plain] =
                    [true, false].map(|free| outcome(job, device, scheduler, faults, cpu, free));
                assert!(
                    free == plain,
                    "{scheduler} on {device} with {} rules:\n{job}",
                    faults.len()
                );
            }
        }
    }
}
