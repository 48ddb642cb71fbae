//! Tests io-throttle in the whole stack, in virtual time.

use elevon_core::control::io_throttle::{Change, Config, Limit, LimitKind, Policy};
use elevon_core::control::{Cause, Rule, Stage};
use elevon_core::event::Event;
use elevon_core::sched::SchedulerConfig;
use elevon_core::stack::Stack;
use elevon_core::tenant::ROOT;
use elevon_core::units::{Instant, TenantId};
use elevon_engine::Engine;
use elevon_formats::fio::{MemorySource, parse};
use elevon_sim::device::{AnyDevice, Device, Fault};
use elevon_sim::memory::{Memory, MemoryModel};
use elevon_sim::profiles::open;
use elevon_sim::simulation::Simulation;
use elevon_workload::jobs::{Jobs, JobsOptions};
use elevon_workload::run::{Observer, RunOutcome, run};

#[derive(Default)]
struct Tape(Vec<Event>);

impl Observer for Tape {
    fn on_events(&mut self, events: &[Event]) {
        self.0.extend_from_slice(events);
    }
}

/// Runs a job file with tenants set up by `prepare`. Returns the outcome, every event, and the
/// stack.
fn simulate(
    text: &str,
    device: &str,
    scheduler: &str,
    prepare: &dyn Fn(&mut Stack),
) -> (RunOutcome, Vec<Event>, Stack) {
    let parsed =
        parse(&mut MemorySource::one("test.fio", text), "test.fio").expect("a job of this file");
    let device: Fault<AnyDevice> = Fault::none(open(device, 1).expect("a device"));
    let description = device.description().clone();
    let mut config = description.stack_config();
    config.scheduler = SchedulerConfig::parse(scheduler).expect("a scheduler");
    let mut stack = Stack::new(config).expect("valid limits");
    stack.set_tracing(true);
    prepare(&mut stack);
    let options = JobsOptions::new(stack.config());
    let mut memory = Memory::new(&MemoryModel::default(), 1);
    let mut jobs =
        Jobs::new(&parsed.jobs, &options, &mut memory.buffers(&mut stack)).expect("the job fits");
    let mut tape = Tape::default();
    let mut engine = Engine::new(stack, Simulation::new(device));
    let outcome = run(&mut engine, &mut jobs, &mut tape);
    engine.stack().self_check();
    (outcome, tape.0, engine.into_parts().0)
}

fn leaky(rate: u64) -> Option<Limit> {
    Some(Limit { rate, policy: Policy::Leaky })
}

/// A hook without a rule for the tenant changes nothing except its own cost.
#[test]
fn without_a_rule_of_ones_own_the_trace_is_the_same_event_for_event() {
    let job = "[a]\nioengine=libaio\niodepth=8\nrw=randrw\nbssplit=4k/50:700k/50\nsize=40m\nfsync=16\n[b]\nioengine=psync\nrw=read\nbs=128k\nsize=20m\n";
    let trace = |counter: Option<bool>, with_rule: bool| {
        let (outcome, events, stack) = simulate(job, "hdd-2009", "mq-deadline", &|stack| {
            let control = stack.control_mut();
            let other = control.add_tenant(ROOT).unwrap();
            if let Some(counter) = counter {
                control.configure_io_throttle(Config { counter, ..Config::default() });
            }
            if with_rule {
                let change =
                    control.set_io_throttle(Instant::ZERO, other, LimitKind::Iops, leaky(1));
                assert_eq!(change, Ok(Change::Inserted));
            }
        });
        assert_eq!(outcome.ended_early, None);
        let work = stack.control().io_throttle().work();
        (events, work.lookups)
    };
    let (no_hook, none) = trace(None, false);
    let (no_counter, all) = trace(Some(false), false);
    let (counter, spared) = trace(Some(true), false);
    let (unrelated, all_again) = trace(Some(true), true);
    assert!(no_hook.len() > 1000);
    assert!(
        no_hook == no_counter && no_hook == counter && no_hook == unrelated,
        "a hook that limits nobody moved an event"
    );
    assert!(
        none == 0 && spared == 0 && all > 100 && all == all_again,
        "{none} {all} {spared} {all_again}"
    );
}

/// A synchronous reader sleeps, an asynchronous one does not: both get the rate of the limit, and
/// the breakdown contains the reason.
#[test]
fn a_limit_holds_for_who_sleeps_and_for_who_does_not() {
    for engine in ["psync", "libaio\niodepth=8", "io_uring\niodepth=8"] {
        let job = format!("[a]\nioengine={engine}\ncgroup=a\nrw=randread\nbs=64k\nsize=20m\n");
        let (outcome, _, stack) = simulate(&job, "null", "none", &|stack| {
            let control = stack.control_mut();
            assert_eq!(control.add_tenant(ROOT), Ok(TenantId(1)));
            control
                .set_io_throttle(Instant::ZERO, TenantId(1), LimitKind::Bandwidth, leaky(8 << 20))
                .unwrap();
        });
        let seconds = outcome.ended.get() as f64 / 1e9;
        assert!((seconds - 2.5).abs() < 0.0025, "{engine}: {seconds} s");
        assert_eq!(stack.control().io_throttle().held(), 0);
        let cause = Cause::Limit { level: TenantId(1), rule: Rule::Bandwidth };
        let waited = stack
            .control()
            .breakdown()
            .iter()
            .find(|wait| (wait.0, wait.1) == (TenantId(1), cause))
            .unwrap()
            .2;
        assert!(waited.get() > 2_400_000_000, "{engine}: {waited}");
    }
}
