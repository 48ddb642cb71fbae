//! Instructions that io-throttle's hook costs per bio: without the hook, with the hook but no rule
//! (with and without the counter of live rules), and with a rule of another tenant.
//!
//! "stack" is the whole simulated path, from job to histogram, with 4 KiB random reads one at a
//! time on the null device. A bio takes the same instructions in every run, so they are counted
//! (callgrind), not timed. The path without the hook is another build: `cargo bench -p elevon-sim
//! --bench io_throttle`, then again with `--features without-throttle`; the difference of the two
//! is the cost. `--features without-control` removes everything for tenants, including gates and
//! the breakdown's clock. "policy" is the stage alone, called as the stack calls it, and the same
//! loop without it.

#[path = "../../elevon-core/benches/instructions/mod.rs"]
mod instructions;

use std::hint::black_box;

use elevon_core::control::io_throttle::{Config, IoThrottle, Limit, LimitKind, Policy};
use elevon_core::control::{BioCost, Stage, StageVerdict};
use elevon_core::op::Op;
use elevon_core::stack::Stack;
use elevon_core::tenant::{ROOT, Tenants};
use elevon_core::units::{BioId, Instant};
use elevon_engine::Engine;
use elevon_formats::fio::{MemorySource, parse};
use elevon_sim::device::{AnyDevice, Device, Fault};
use elevon_sim::memory::{Memory, MemoryModel};
use elevon_sim::profiles::open;
use elevon_sim::simulation::Simulation;
use elevon_workload::jobs::{Jobs, JobsOptions};
use elevon_workload::run::{NoObserver, run};
use instructions::Case;

/// Bios per turn, enough to make the cost per run negligible for a bio.
const BIOS: u64 = 64;

/// Runs the given number of turns in a mode.
type Work = fn(Mode, u64);

/// The modes of the proposal's mail, and one that shows the cost of an unrelated rule for all other
/// tenants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    NoHook,
    NoCounter,
    Counter,
    UnrelatedRule,
}

impl Mode {
    const ALL: [Self; 4] = [Self::NoHook, Self::NoCounter, Self::Counter, Self::UnrelatedRule];

    const fn title(self) -> &'static str {
        match self {
            Self::NoHook => "no hook",
            Self::NoCounter => "hook without counter, no rule",
            Self::Counter => "hook with counter, no rule",
            Self::UnrelatedRule => "hook with counter, a rule of another tenant",
        }
    }
}

const LIMIT: Limit = Limit { rate: 1 << 20, policy: Policy::Leaky };

/// Runs the stage alone.
fn policy(mode: Mode, turns: u64) {
    let mut tenants = Tenants::new();
    let (tenant, other) = (tenants.add(ROOT).expect("room"), tenants.add(ROOT).expect("room"));
    let mut throttle =
        IoThrottle::new(Config { counter: mode != Mode::NoCounter, ..Config::default() });
    if mode == Mode::UnrelatedRule {
        throttle
            .set(Instant::ZERO, &tenants, other, LimitKind::Bandwidth, Some(LIMIT))
            .expect("a rule");
    }
    let charge = BioCost::plain(tenant, Op::Read, 4096);
    let mut throttle = black_box(throttle);
    for bio in 0..turns * BIOS {
        let (now, bio) = black_box((Instant::new(bio), BioId(bio as u32)));
        if mode != Mode::NoHook && throttle.is_enabled() {
            assert_eq!(throttle.admit(now, &tenants, bio, &charge), StageVerdict::Pass);
        }
    }
}

/// Runs the whole path.
fn stack(mode: Mode, turns: u64) {
    let ios = turns * BIOS;
    let job = format!(
        "[read]\nioengine=null\nrw=randread\nbs=4k\nsize=100g\nnorandommap=1\nnumber_ios={ios}\n"
    );
    let parsed =
        parse(&mut MemorySource::one("bench.fio", &job), "bench.fio").expect("a job of this file");
    let device = Fault::none(open("null:size=100GiB,latency=0", 1).expect("a device of this file"));
    let description = device.description().clone();
    let config = description.stack_config();
    let mut stack = Stack::new(config).expect("valid limits");
    let control = stack.control_mut();
    control.configure_io_throttle(Config { counter: mode != Mode::NoCounter, ..Config::default() });
    if mode == Mode::UnrelatedRule {
        let other = control.add_tenant(ROOT).expect("room");
        control
            .set_io_throttle(Instant::ZERO, other, LimitKind::Bandwidth, Some(LIMIT))
            .expect("a rule");
    }
    let options = JobsOptions::new(stack.config());
    let mut memory = Memory::new(&MemoryModel::default(), 1);
    let mut jobs =
        Jobs::new(&parsed.jobs, &options, &mut memory.buffers(&mut stack)).expect("the job fits");
    let simulation: Simulation<Fault<AnyDevice>> = Simulation::new(device);
    let mut engine = Engine::new(stack, simulation);
    let outcome = run(&mut engine, &mut jobs, &mut NoObserver);
    assert_eq!((outcome.disk_end.groups[0].ios, outcome.ended_early), (ios, None));
    let lookups = engine.stack().control().io_throttle().work().lookups;
    assert_eq!(
        lookups,
        if matches!(mode, Mode::NoCounter | Mode::UnrelatedRule) { ios } else { 0 }
    );
}

fn main() {
    let hookless = cfg!(any(feature = "without-throttle", feature = "without-control"));
    let modes = |keep: fn(&Mode) -> bool| Mode::ALL.into_iter().filter(keep);
    let stacks =
        modes(if hookless { |&mode| mode == Mode::NoHook } else { |&mode| mode != Mode::NoHook });
    let rows: Vec<(&str, Mode, Work)> = modes(|_| true)
        .map(|mode| ("policy", mode, policy as Work))
        .chain(stacks.map(|mode| ("stack", mode, stack as Work)))
        .collect();
    let cases: Vec<Case> = rows
        .iter()
        .map(|&(what, mode, work)| Case {
            name: format!("{what}: {}", mode.title()),
            run: Box::new(move |turns| work(mode, turns)),
        })
        .collect();
    if instructions::serve(&cases) {
        return;
    }
    let full = std::env::args().any(|argument| argument == "--bench");
    if full && !instructions::available() {
        println!("valgrind is not installed: nothing is counted");
    }
    for case in &cases {
        match full.then(|| case.per_turn()).flatten() {
            Some(count) => {
                println!("{:<55} {:>8.2} instructions a bio", case.name, count / BIOS as f64);
            }
            None => (case.run)(2),
        }
    }
}
