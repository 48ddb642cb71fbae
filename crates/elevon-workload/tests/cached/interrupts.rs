//! Runs whose I/O costs nothing or almost nothing: they can be interrupted, and leave others their
//! turn.

use super::*;

/// A device with a clock that advances by itself, as a real one does: 1 us each time it is read.
struct Ticking {
    now: u64,
    interrupt_at: u64,
    completions: std::collections::VecDeque<Completion>,
}

impl Driver for Ticking {
    fn queue_command(&mut self, _now: Instant, command: &Command, _pieces: &dyn Pieces) -> Accept {
        let Command { request, sequence, bytes, .. } = *command;
        self.completions.push_back(Completion { request, sequence, status: Status::Ok, bytes });
        Accept::Ok
    }
}

impl Backend for Ticking {
    fn now(&mut self) -> Instant {
        self.now += US;
        Instant::new(self.now)
    }
    fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }
    fn wait(&mut self, until: Option<Instant>) -> bool {
        self.now = until.map_or(self.now, |at| at.get().max(self.now));
        true
    }
    fn interrupted(&self) -> bool {
        self.now >= self.interrupt_at
    }
}

/// Runs jobs on a cache that completes I/O at once: calls, hits and faults cost no time.
fn go_for_nothing<B: Backend>(specs: &[JobSpec], device: &mut B) -> RunOutcome {
    let (mut stack, options) = stack(64);
    let options = JobsOptions { cpu: CpuCost::default(), ..options };
    let mut layout = |_: TaskId, _: u32, bytes: u64| -> LayoutId {
        stack.register_layout(Layout::contiguous(bytes.max(4096), 1 << 20))
    };
    let mut jobs = Jobs::new(specs, &options, &mut layout).expect("jobs that fit");
    let cost = CacheCost { call: Nanos::ZERO, hit: Nanos::ZERO, fault: Nanos::ZERO, bio: None };
    let mut cached = BufferedIo::new(config(64 * MIB), cost, CpuCost::default(), &mut jobs, &stack);
    run_cached(&mut Engine::new(stack, device), &mut jobs, &mut cached, &mut NoObserver)
}

/// Runs jobs that find everything in the cache, on a clock that advances by itself.
fn go_ticking(specs: &[JobSpec], interrupt_at: u64) -> RunOutcome {
    go_for_nothing(
        specs,
        &mut Ticking { now: 0, interrupt_at, completions: std::collections::VecDeque::new() },
    )
}

fn endless(spec: &mut JobSpec) {
    (spec.timing.time_based, spec.timing.runtime) = (true, Nanos::from_secs(2));
}

#[test]
fn an_interrupt_is_seen_while_everything_is_in_the_cache() {
    let second = 1_000_000 * US;
    for (name, edit) in
        [("psync", (|_| {}) as fn(&mut JobSpec)), ("mmap", |s| engine(s, "mmap", true))]
    {
        for edit_more in [(|_| {}) as fn(&mut JobSpec), writes] {
            let spec = job(name, |s| {
                edit(s);
                edit_more(s);
                endless(s);
            });
            let outcome = go_ticking(&[spec], second);
            assert_eq!(outcome.ended_early, Some(EndedEarly::Interrupted), "{name}");
            let late = outcome.ended.get() - second;
            assert!(late < 100_000 * US, "{name}: {late} ns after the interrupt");
            assert!(outcome.jobs[0].stats.directions.iter().any(|d| d.ios > 1_000), "{name}");
        }
    }
}

#[test]
fn a_job_that_finds_everything_in_the_cache_leaves_others_their_turn() {
    let busy = job("busy", endless);
    let other = job("other", |s| (s.caching.direct, s.files.names) = (true, vec!["other".into()]));
    let outcome = go_ticking(&[busy, other], u64::MAX);
    let [busy, other] = [0, 1].map(|job: usize| outcome.jobs[job].end.expect("over").get());
    assert!(other < busy / 10, "256 direct I/Os took {other} ns beside a job of {busy} ns");
}

#[test]
fn a_ramp_ends_in_the_middle_of_a_step() {
    let ramp = |us: u64| {
        job("a", |s| (s.caching.direct, s.timing.ramp_time) = (true, Nanos::from_micros(us)))
    };
    (1..100).for_each(|us| drop(go_ticking(&[ramp(us)], u64::MAX)));
}

/// A device in virtual time whose user stops the run after a number of checks for an interrupt.
struct Impatient {
    device: Fixed,
    looks: std::cell::Cell<u64>,
}

impl Driver for Impatient {
    fn queue_command(&mut self, now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept {
        self.device.queue_command(now, command, pieces)
    }
}

impl Backend for Impatient {
    fn now(&mut self) -> Instant {
        self.device.now()
    }
    fn poll_completion(&mut self) -> Option<Completion> {
        self.device.poll_completion()
    }
    fn wait(&mut self, until: Option<Instant>) -> bool {
        self.device.wait(until)
    }
    fn interrupted(&self) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.looks.get() > 1_000
    }
}

#[test]
fn a_job_whose_cached_io_costs_nothing_can_be_interrupted() {
    let mut device = Impatient { device: Fixed::new(LATENCY), looks: std::cell::Cell::new(0) };
    // Once everything is cached, virtual time does not advance: the job would run for ever.
    let outcome = go_for_nothing(&[job("a", endless)], &mut device);
    assert_eq!(outcome.ended_early, Some(EndedEarly::Interrupted));
    assert!(outcome.jobs[0].stats.directions[0].ios > 10_000);
}
