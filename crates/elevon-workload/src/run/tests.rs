use elevon_core::control::pressure::ContextState;
use elevon_core::driver::{Accept, Command, Completion, Driver, Pieces, TimeoutAction};
use elevon_core::limits::QueueLimits;
use elevon_core::op::Op;
use elevon_core::stack::{Stack, StackConfig};
use elevon_core::stats::JobStats;
use elevon_core::status::Status;
use elevon_core::units::{Bytes, LayoutId, TaskId, TenantId};
use elevon_formats::fio::spec::JobSpec;

use super::*;
use crate::readings::Progressed;
use crate::replay::{Replayed, Script};
use crate::source::Poll;

/// Waits for a completion from the start, and has no I/O in flight.
struct Forgetful {
    task: TaskId,
    started: Option<Instant>,
    stats: JobStats,
}

impl Source for Forgetful {
    fn task(&self) -> TaskId {
        self.task
    }
    fn tenant(&self) -> TenantId {
        TenantId(0)
    }
    fn depth(&self) -> usize {
        1
    }
    fn buffer_bytes(&self) -> u64 {
        4096
    }
    fn start(&mut self, now: Instant) {
        self.started = Some(now);
    }
    fn started(&self) -> Option<Instant> {
        self.started
    }
    fn ended(&self) -> Option<Instant> {
        None
    }
    fn stats(&self) -> &JobStats {
        &self.stats
    }
    fn progressed(&self) -> Progressed {
        Progressed::default()
    }
    fn stats_at(&self, _now: Instant) -> JobStats {
        self.stats.clone()
    }
    fn in_use(&self) -> usize {
        0
    }
    fn progress(&self, _now: Instant) -> u64 {
        0
    }
    fn delay(&mut self, _until: Instant) {}
    fn context(&self, _now: Instant) -> ContextState {
        ContextState::Idle
    }
    fn terminate(&mut self) {}
    fn next_wakeup(&self) -> Option<Instant> {
        None
    }
    fn poll(&mut self, _now: Instant) -> Poll {
        Poll::Wait
    }
    fn take(&mut self) -> Option<Io> {
        None
    }
    fn on_submitted(&mut self, _now: Instant, _blocked: bool) {}
    fn is_blocked(&self) -> bool {
        false
    }
    fn unblocked(&mut self, _now: Instant) {}
    fn complete(&mut self, _now: Instant, _token: u64, _status: Status) -> (Op, Bytes) {
        (Op::Read, Bytes::ZERO)
    }
}

/// A clock with a device that is never asked for anything.
struct Clock {
    now: Instant,
    waits: u32,
}

impl Driver for Clock {
    fn queue_command(&mut self, _now: Instant, command: &Command, _pieces: &dyn Pieces) -> Accept {
        panic!("no process submits, and the device gets {command:?}");
    }
    fn handle_timeout(&mut self, _now: Instant, _command: &Command) -> TimeoutAction {
        TimeoutAction::ResetTimer
    }
}

impl Backend for Clock {
    fn now(&mut self) -> Instant {
        self.now
    }
    fn poll_completion(&mut self) -> Option<Completion> {
        None
    }
    fn wait(&mut self, until: Option<Instant>) -> bool {
        self.waits += 1;
        assert!(self.waits < 10_000, "the run goes on for ever");
        self.now = until.unwrap_or(self.now);
        until.is_some()
    }
}

/// Wants to be called every 50 ms, as the console does for its bar and its iostat lines.
struct Looks;

impl Observer for Looks {
    fn interval(&self) -> Option<Nanos> {
        Some(Nanos::from_millis(50))
    }
}

fn run_forgetful(starts_after: Nanos, observer: &mut dyn Observer) -> RunOutcome {
    let config =
        StackConfig::new(QueueLimits::default(), Bytes::new(1 << 30).sectors_floor(), 1, 8);
    let stack = Stack::new(config).expect("a valid stack");
    let script = Script { number: 1, begins: starts_after, ..Script::default() };
    let jobs = Jobs::of_trace(&[JobSpec::default_job("a")], vec![script], 1, &mut |_, _, _, _| {
        LayoutId(0)
    });
    let mut jobs = jobs.map_sources(|replayed: Replayed| Forgetful {
        task: replayed.task(),
        started: None,
        stats: JobStats::default(),
    });
    run(&mut Engine::new(stack, Clock { now: Instant::ZERO, waits: 0 }), &mut jobs, observer)
}

#[test]
fn a_process_that_waits_for_nothing_ends_the_run() {
    for starts_after in [Nanos::ZERO, Nanos::from_secs(2)] {
        for observer in [&mut NoObserver as &mut dyn Observer, &mut Looks] {
            let outcome = run_forgetful(starts_after, observer);
            assert_eq!(outcome.ended_early, Some(EndedEarly::Stuck));
            let started = Instant::ZERO.saturating_add(starts_after);
            assert_eq!((outcome.jobs[0].start, outcome.ended), (Some(started), started), "at once");
        }
    }
}
