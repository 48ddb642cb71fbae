//! Runs mixes in virtual time, and knows what a device can do: what each process does alone, and
//! what an I/O costs.
//!
//! What was measured of a device is kept, so that the next mix need not measure it again. A lab may
//! be used by several threads.

use std::collections::BTreeMap;
use std::sync::Mutex;

use elevon_core::ioprio::PrioClass;
use elevon_core::kernel::Kernel;
use elevon_core::sched::SchedulerConfig;
use elevon_core::stack::{Stack, StackConfig};
use elevon_core::units::{Instant, Nanos};
use elevon_engine::Engine;
use elevon_formats::fio::{MemorySource, parse};
use elevon_formats::tenants;
use elevon_sim::device::{AnyDevice, Description, Device, Fault};
use elevon_sim::memory::{Memory, MemoryModel};
use elevon_sim::profiles::open;
use elevon_sim::simulation::Simulation;
use elevon_workload::cpu::CpuCost;
use elevon_workload::jobs::{Jobs, JobsOptions};
use elevon_workload::run::run;
use elevon_workload::settings::Settings;
use elevon_workload::tenants::TenantPlan;

use crate::measured::{Measured, ProcessMeasured, Windows};
use crate::mix::{Mix, MixProcess};
use crate::setup::Setup;
use crate::watched::Watched;

/// The kernel whose schedulers are compared: the measurements behind the scenarios are of it.
const KERNEL: Kernel = Kernel::V6_18;
/// CPU time of an I/O, as of `elevon run`: BFQ learns from latencies, and at no CPU time at all it
/// learns nothing. What a scheduler takes is left out: its policy is compared here, not its cost.
const CPU: CpuCost = CpuCost::DEFAULT;

/// Runs mixes and keeps what was measured of devices.
#[derive(Debug, Default)]
pub struct Lab {
    /// I/Os a second of a saturated device, by device and kind of I/O.
    saturated: Mutex<BTreeMap<String, f64>>,
    /// What a process gets without others, by device and process.
    alone: Mutex<BTreeMap<String, ProcessMeasured>>,
}

impl Lab {
    /// Returns a lab that knows no device.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs a mix under a scheduler.
    ///
    /// # Panics
    ///
    /// If the mix names no device, or a device too small for its processes.
    pub fn run(&self, mix: &Mix, setup: &Setup) -> Measured {
        let model = if setup.is_io_cost() { self.cost_model(mix) } else { String::new() };
        run_with(mix, setup, &model, CPU)
    }

    /// Returns a mix as texts that `elevon run` takes: a job file, and a file of tenants, which may
    /// be empty.
    pub fn texts(&self, mix: &Mix, setup: &Setup) -> (String, String) {
        let model = if setup.is_io_cost() { self.cost_model(mix) } else { String::new() };
        let device_bytes = open_device(mix).description().size.bytes().get();
        (mix.jobs(device_bytes, setup), mix.tenants(setup, &model))
    }

    /// Returns what each process of a mix gets without the others, under `none`.
    pub fn alone(&self, mix: &Mix) -> Vec<ProcessMeasured> {
        (0..mix.processes.len()).map(|at| self.one_alone(mix, at)).collect()
    }

    fn one_alone(&self, mix: &Mix, at: usize) -> ProcessMeasured {
        let process = &mix.processes[at];
        let process =
            MixProcess { class: PrioClass::Be, level: 4, start: Nanos::ZERO, ..process.clone() };
        let single = single(mix, process);
        known(&self.alone, &single, || {
            run_with(&single, &Setup::NONE, "", CPU).processes.swap_remove(0)
        })
    }

    /// Returns what an I/O of each process of a mix costs the device: nanoseconds of a device that
    /// does nothing else, with as many of them in flight as it has use for.
    pub fn costs(&self, mix: &Mix) -> Vec<f64> {
        mix.processes.iter().map(|process| 1e9 / self.saturated_rate(mix, process)).collect()
    }

    /// Returns how many I/Os a second of the kind of a process's the device does at most.
    fn saturated_rate(&self, mix: &Mix, process: &MixProcess) -> f64 {
        let deep = if process.bytes <= 16 << 10 { 128 } else { 32 };
        let process = MixProcess {
            class: PrioClass::Be,
            level: 4,
            start: Nanos::ZERO,
            depth: deep,
            think: Nanos::ZERO,
            think_ios: 1,
            pace: None,
            ios: None,
            ..process.clone()
        };
        let single = single(mix, process);
        known(&self.saturated, &single, || {
            run_with(&single, &Setup::NONE, "", CpuCost::default()).processes[0].rate
        })
    }

    /// Returns the line of `io.cost.model` for the device of a mix, as `elevon calibrate` finds it.
    fn cost_model(&self, mix: &Mix) -> String {
        let mut line = "ctrl=user model=linear".to_owned();
        for is_write in [false, true] {
            for (name, is_random, bytes) in
                [("bps", false, 1 << 20), ("seqiops", false, 4096), ("randiops", true, 4096)]
            {
                let process =
                    MixProcess { is_write, is_random, bytes, ..MixProcess::reader("probe") };
                let rate = self.saturated_rate(mix, &process);
                let value = if bytes == 4096 { rate } else { rate * bytes as f64 };
                let direction = if is_write { 'w' } else { 'r' };
                line += &format!(" {direction}{name}={}", value.round() as u64);
            }
        }
        line
    }
}

/// A value that is kept by its key, measured where it is not known. Two threads may measure the
/// same; they find the same.
fn known<V: Clone>(
    kept: &Mutex<BTreeMap<String, V>>,
    single: &Mix,
    measure: impl FnOnce() -> V,
) -> V {
    let key = format!("{single:?}");
    if let Some(value) = kept.lock().expect("no run panics with it").get(&key) {
        return value.clone();
    }
    let value = measure();
    kept.lock().expect("no run panics with it").insert(key, value.clone());
    value
}

/// Returns a mix of one process without merges, on the sound device of another mix. Only on a disk
/// the place of its part matters.
fn single(mix: &Mix, process: MixProcess) -> Mix {
    let is_disk = open_device(mix).description().limits.rotational;
    let part = if is_disk { process.part } else { 0 };
    let process = MixProcess { name: "alone".into(), group: None, part, ..process };
    Mix {
        processes: vec![process],
        parts: if is_disk { mix.parts } else { 1 },
        groups: Vec::new(),
        faults: Vec::new(),
        merges: false,
        seed: 1,
        ..mix.clone()
    }
}

fn open_device(mix: &Mix) -> AnyDevice {
    open(&mix.device, mix.seed).unwrap_or_else(|error| panic!("{}: {error}", mix.device))
}

fn stack_of(description: &Description, mix: &Mix, setup: &Setup) -> Stack {
    let mut config: StackConfig = description.stack_config();
    config.kernel = KERNEL;
    config.scheduler = SchedulerConfig::parse(setup.scheduler).expect("a scheduler of this build");
    if !mix.merges {
        config.set("nomerges", "2").expect("a setting");
    }
    Stack::new(config).expect("limits of a device")
}

fn run_with(mix: &Mix, setup: &Setup, cost_model: &str, cpu: CpuCost) -> Measured {
    let device = open_device(mix);
    let description = device.description().clone();
    let device = Fault::parse(device, mix.seed, &mix.faults).expect("faults of a mix");
    let mut stack = stack_of(&description, mix, setup);
    let text = mix.jobs(description.size.bytes().get(), setup);
    let parsed = parse(&mut MemorySource::one("mix.fio", &text), "mix.fio")
        .unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let tenants = tenants::parse("mix.toml", &mix.tenants(setup, cost_model), &KERNEL.rules());
    let plan = TenantPlan::new(&parsed.jobs, Some(&tenants.unwrap_or_else(|e| panic!("{e:?}"))));
    let plan = plan.unwrap_or_else(|e| panic!("{e:?}"));
    let options = JobsOptions { seed: mix.seed, cpu, ..JobsOptions::new(stack.config()) };
    let mut memory = Memory::new(&MemoryModel::Contiguous, 1);
    let jobs = Jobs::new(&parsed.jobs, &options, &mut memory.buffers(&mut stack));
    let mut jobs = jobs.expect("the parts lie on the device");
    jobs.settings = Settings::new(&mut stack, &plan, Instant::ZERO).expect("weights in range");
    let (device, held) = Watched::new(device);
    let mut windows = Windows::new(held);
    let outcome = run(&mut Engine::new(stack, Simulation::new(device)), &mut jobs, &mut windows);
    Measured::from_outcome(&outcome, windows)
}
