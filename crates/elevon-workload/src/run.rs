//! The loop: takes completions, runs timers, polls the processes that can run, and waits for the
//! next event. It is the same for virtual and for real time.
//!
//! Each step handles one instant: completions go to the stack, finished I/Os to their processes,
//! and processes with something to do into a queue, in the order in which they became ready. Each
//! process is polled until it waits. In virtual time, if its wake-up is the next event, the step
//! continues with it at that instant. Cost per I/O, besides stack and process: O(1), or
//! O(log processes) if a process sleeps until an instant. Nothing is allocated per I/O.

use std::collections::VecDeque;

use elevon_core::event::Event;
use elevon_core::stack::{Io, Submitted};
use elevon_core::units::{Instant, Nanos};
use elevon_engine::{Backend, Engine};

use crate::buffered::BufferedIo;
use crate::cpu::SchedulerLock;
use crate::jobs::Jobs;
use crate::source::Source;
use crate::wakeups::Wakeups;

mod alone;
mod layer;
mod observer;
mod outcome;
mod through_cache;
mod timeline;
mod turn;

#[cfg(test)]
mod tests;

use layer::{Layer, NoLayer};
use observer::Watcher;
pub use observer::{NoObserver, Observer, Probe};
pub use outcome::{EndedEarly, JobOutcome, Progress, RunOutcome};
use timeline::Timeline;

/// A run is stuck if for this long I/Os were at the device, no command completed, and no process
/// had anything else to do: twenty of the block layer's timeouts; after an interrupt, two.
const STUCK_AFTER: Nanos = Nanos::from_secs(600);
const PATIENCE_INTERRUPTED: Nanos = Nanos::from_secs(60);

/// Steps at one instant after which a run is taken to make no progress.
const STEPS_AT_ONE_INSTANT: u64 = 200_000_000;

/// Runs all jobs, or all processes of a trace, to their end.
pub fn run<B: Backend, S: Source>(
    engine: &mut Engine<B>,
    jobs: &mut Jobs<S>,
    observer: &mut dyn Observer,
) -> RunOutcome {
    Runner::new(engine, jobs, NoLayer, Watcher::Observer(observer)).run()
}

/// Runs all jobs to their end, with a page cache before the stack.
pub fn run_cached<B: Backend>(
    engine: &mut Engine<B>,
    jobs: &mut Jobs,
    buffered: &mut BufferedIo,
    observer: &mut dyn Observer,
) -> RunOutcome {
    Runner::new(engine, jobs, buffered, Watcher::Observer(observer)).run()
}

/// Runs all jobs to their end for a test that sees every step, with or without a page cache.
pub fn run_probed<B: Backend>(
    engine: &mut Engine<B>,
    jobs: &mut Jobs,
    buffered: Option<&mut BufferedIo>,
    probe: &mut dyn Probe,
) -> RunOutcome {
    let sees_ios = probe.sees_ios();
    let watcher = Watcher::Probe { probe, sees_ios };
    match buffered {
        None => Runner::new(engine, jobs, NoLayer, watcher).run(),
        Some(buffered) => Runner::new(engine, jobs, buffered, watcher).run(),
    }
}

struct Runner<'a, B, L, S> {
    engine: &'a mut Engine<B>,
    jobs: &'a mut Jobs<S>,
    layer: L,
    watcher: Watcher<'a>,
    timeline: Timeline,
    wakeups: Wakeups,
    ready: VecDeque<u32>,
    is_ready: Vec<bool>,
    in_batch: Vec<bool>,
    /// True if the back end has buffers with real bytes; asked once per process.
    has_buffers: Vec<bool>,
    open: usize,
    events: Vec<Event>,
    interval: Option<Nanos>,
    next_interval: Instant,
    /// True if an interval that ends during a wait is skipped.
    skips_waits: bool,
    ended_early: Option<EndedEarly>,
    scheduler_lock: SchedulerLock,
    /// A process used up its turn without waiting; see [`turn`].
    is_turn_over: bool,
    /// Processes became ready in a step that one process made for itself ([`alone`]): they run
    /// before the next step begins.
    goes_on: bool,
}

impl<'a, B: Backend, L: Layer<S>, S: Source> Runner<'a, B, L, S> {
    fn new(
        engine: &'a mut Engine<B>,
        jobs: &'a mut Jobs<S>,
        layer: L,
        mut watcher: Watcher<'a>,
    ) -> Self {
        let now = engine.now();
        let count = jobs.processes.len();
        let interval = watcher.observer().interval().filter(|i| !i.is_zero());
        Self {
            timeline: Timeline::new(now, engine.stack_mut(), jobs),
            wakeups: Wakeups::new(count),
            ready: VecDeque::with_capacity(count),
            is_ready: vec![false; count],
            in_batch: vec![false; count],
            has_buffers: vec![false; count],
            open: count,
            events: Vec::new(),
            interval,
            skips_waits: watcher.observer().skips_waits(),
            next_interval: interval.map_or(Instant::MAX, |i| now.saturating_add(i)),
            ended_early: None,
            scheduler_lock: SchedulerLock::default(),
            is_turn_over: false,
            goes_on: false,
            engine,
            jobs,
            layer,
            watcher,
        }
    }

    fn run(mut self) -> RunOutcome {
        let started = self.timeline.started;
        self.layer.on_start(started);
        self.release(started);
        while self.open > 0 {
            let now = self.engine.now();
            if now > self.timeline.now {
                self.advance(now);
            }
            self.look_for_interrupt();
            let moved = self.step(now);
            // Where waiting is free, the clock may have moved during the step.
            let now = if B::WAITS_FREELY { self.engine.now() } else { now };
            if self.open == 0 || self.ended_early == Some(EndedEarly::NoProgress) {
                break;
            }
            if moved && !self.may_wait() && !self.is_stuck(now) {
                self.look_after_device(now);
                continue;
            }
            if !self.wait(now) {
                break;
            }
        }
        let now = self.engine.now();
        self.timeline.finish(now, self.engine.stack(), self.jobs);
        self.layer.on_end(now);
        if !matches!(self.ended_early, Some(EndedEarly::Stuck | EndedEarly::NoProgress)) {
            L::write_back(&mut self);
        }
        self.outcome()
    }

    /// Advances what is kept over time to an instant that has just come, before anything happens.
    #[inline]
    fn advance(&mut self, now: Instant) {
        self.timeline.advance(now, self.engine.stack_mut(), self.jobs, &mut self.layer);
    }

    /// Returns true if the loop may wait after a step that moved something: if there is more to do
    /// at this instant, the wait is over at once.
    #[inline]
    fn may_wait(&self) -> bool {
        B::WAITS_FREELY && L::IS_NONE && self.ready.is_empty() && !self.engine.has_done()
    }

    /// Does everything that can happen now. Returns false if nothing did.
    #[inline(always)]
    fn step(&mut self, now: Instant) -> bool {
        let is_due = !L::IS_NONE || self.engine.is_due(now);
        let mut moved = self.engine.step(now);
        if is_due && self.jobs.settings.next_change().is_some_and(|at| at <= now) {
            self.jobs.settings.run_changes(self.engine.stack_mut(), now);
            moved = true;
        }
        if self.engine.has_done() {
            moved |= self.drain(now);
        }
        if is_due {
            moved |= self.run_due(now);
        }
        moved |= L::pump(self, now);
        moved |= self.run_processes(now, is_due);
        self.pass_events();
        if let Some(probe) = self.watcher.probe() {
            probe.on_step(self.engine.stack_mut());
            if let Some(buffered) = self.layer.buffered()
                && probe.on_cache(now, buffered)
            {
                L::pump(self, now);
                moved = true;
            }
        }
        if now >= self.next_interval {
            self.on_interval();
        }
        if moved {
            self.timeline.steps += 1;
            if self.timeline.steps > STEPS_AT_ONE_INSTANT {
                self.ended_early = Some(EndedEarly::NoProgress);
            }
        }
        moved
    }

    /// Runs the processes that are ready, and those whose wake-up is due. Returns true if there was
    /// one. Processes that become ready meanwhile wait: completions of an instant are taken first.
    #[inline(always)]
    fn run_processes(&mut self, now: Instant, is_due: bool) -> bool {
        if is_due {
            while let Some(task) = self.wakeups.pop_due(now) {
                self.make_ready(task);
            }
        }
        let mut count = self.ready.len();
        let any = count > 0;
        while count > 0 {
            self.goes_on = false;
            for _ in 0..count {
                let Some(task) = self.ready.pop_front() else { break };
                self.is_ready[task as usize] = false;
                self.run_process(task as usize);
            }
            count = if self.goes_on { self.ready.len() } else { 0 };
        }
        any
    }

    /// Looks at the rates of the jobs and runs the timers of the layer, if they are due. Returns
    /// true if one was.
    #[inline]
    fn run_due(&mut self, now: Instant) -> bool {
        let mut any = false;
        if self.jobs.steady.next().is_some_and(|at| at <= now) {
            self.look_at_rates(now);
            any = true;
        }
        any | self.layer.run_timers(now)
    }

    #[inline]
    fn make_ready(&mut self, task: usize) {
        if !std::mem::replace(&mut self.is_ready[task], true) {
            self.ready.push_back(task as u32);
        }
    }

    /// Passes finished I/Os and freed tags to the processes.
    #[inline(always)]
    fn drain(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(&done) = self.engine.poll_done(now) {
            any = true;
            if L::take_done(self, now, &done) {
                continue;
            }
            let task = done.task.index();
            self.check(task, done.token);
            let process = &mut self.jobs.processes[task];
            let (op, bytes) = process.complete(now, done.token, done.status);
            if done.status.is_ok() {
                self.timeline.series.on_done(op, bytes);
            }
            if let Some(probe) = self.watcher.probe_of_ios() {
                probe.on_io_over(now, done.task, done.token, done.status);
            }
            if self.engine.stack().control().is_watched() {
                let delay = self.engine.stack_mut().control_mut().delay_of(now, process.tenant());
                if !delay.is_zero() {
                    process.delay(now.saturating_add(delay));
                }
            } else if L::IS_NONE && process.is_busy(now) {
                continue;
            }
            // Of several I/Os that end at once, the first wakes the process.
            let wakes = process.is_asleep(now);
            if self.engine.backend().delays_wakes() && (wakes || !process.draws_alone()) {
                let delay = self.engine.backend_mut().wake_delay(done.task);
                if wakes {
                    process.wake_after(now, delay);
                }
            }
            self.make_ready(task);
        }
        while let Some(task) = self.engine.poll_unblocked() {
            any = true;
            if L::unblock(self, now, task) {
                continue;
            }
            self.jobs.processes[task.index()].unblocked(now);
            self.make_ready(task.index());
        }
        any
    }

    /// Polls one process until it waits.
    fn run_process(&mut self, task: usize) {
        let now = self.engine.now();
        if !L::prepare(self, now, task) {
            return;
        }
        if !self.jobs.may_run(task, now) {
            if let Some(at) = self.jobs.start_of(task) {
                self.wakeups.set(task, at);
            }
            return;
        }
        let in_flow = self.jobs.flows.has(task);
        if in_flow {
            let standing = self.jobs.processes[task].standing();
            let allowed = self.jobs.flows.allowance(task, standing);
            self.jobs.processes[task].allow(allowed);
        }
        if self.jobs.dependencies.has(task) {
            self.poll_with_others(task);
        } else {
            let may_pass_time = self.may_pass_time(in_flow);
            self.take_turn(task, now, may_pass_time);
        }
        if in_flow {
            self.pass_standing(task);
        }
    }

    /// Polls a process that depends on others until it waits for more than that they are told.
    fn poll_with_others(&mut self, task: usize) {
        loop {
            let now = self.engine.now();
            let jobs = &mut *self.jobs;
            jobs.processes[task].settle(now, &mut jobs.dependencies);
            while let Some(next) = self.jobs.dependencies.next_woken() {
                self.make_ready(next);
            }
            if self.jobs.processes[task].ended().is_some() {
                return;
            }
            self.take_turn(task, now, false);
            if !self.jobs.processes[task].is_unsettled() {
                return;
            }
        }
    }

    /// Tells the other jobs of a flow what a process has done.
    fn pass_standing(&mut self, task: usize) {
        let standing = self.jobs.processes[task].standing();
        let mut woken = Vec::new();
        self.jobs.flows.on_polled(task, standing, |other| woken.push(other));
        for other in woken {
            self.make_ready(other);
        }
    }

    /// Reports the state of a process, for the pressure of its tenant.
    #[inline]
    fn set_context(&mut self, task: usize, now: Instant) {
        if self.engine.stack().control().is_watched() {
            let process = &self.jobs.processes[task];
            let (id, tenant, context) = (process.task(), process.tenant(), process.context(now));
            self.engine.stack_mut().control_mut().set_context(now, id, tenant, context);
        }
    }

    /// Submits a batch to the stack. Stops if the submitter sleeps, and continues when it wakes.
    #[inline(always)]
    fn submit(&mut self, task: usize, count: usize) {
        if L::submit(self, task) {
            return;
        }
        let Self { engine, jobs, watcher, .. } = self;
        let process = &mut jobs.processes[task];
        let has_buffers = B::HAS_BYTES && self.has_buffers[task];
        if !self.in_batch[task] && process.plugs(count) {
            self.in_batch[task] = true;
            engine.begin_batch(process.task());
        }
        let mut blocked = false;
        while let Some(io) = process.take() {
            if has_buffers && io.op.has_data() {
                fill(process, engine.backend_mut(), io.token);
            }
            if let Some(probe) = watcher.probe_of_ios() {
                // A copy, so that the I/O itself need not be in memory.
                let seen = io;
                probe.on_io(engine.now(), &seen, &[]);
            }
            blocked = engine.submit(io) == Submitted::Blocked;
            process.on_submitted(engine.now(), blocked);
        }
        if self.in_batch[task] && !blocked {
            self.end_batch(task);
        }
    }

    /// Fills the buffer of a write, if there are real bytes.
    #[inline]
    fn fill(&mut self, task: usize, io: &Io) {
        if B::HAS_BYTES && self.has_buffers[task] && io.op.has_data() {
            fill(&mut self.jobs.processes[task], self.engine.backend_mut(), io.token);
        }
    }

    /// Checks the content of a read, if the job verifies.
    #[inline]
    fn check(&mut self, task: usize, token: u64) {
        let process = &mut self.jobs.processes[task];
        if B::HAS_BYTES
            && self.has_buffers[task]
            && process.wants_check(token)
            && let Some(buffer) = self.engine.backend_mut().buffer(process.task(), token)
        {
            process.check(token, buffer);
        }
    }

    /// Ends a batch that is still open when its process has no more I/O for it: the submission of
    /// the last I/O slept, and the I/Os that it plugged are issued as the process wakes.
    #[inline]
    fn end_open_batch(&mut self, task: usize) {
        if self.in_batch[task] && !self.jobs.processes[task].is_blocked() {
            self.end_batch(task);
        }
    }

    fn end_batch(&mut self, task: usize) {
        let was_open = std::mem::replace(&mut self.in_batch[task], false);
        assert!(was_open, "a batch ends once");
        self.engine.end_batch(self.jobs.processes[task].task());
    }

    /// Schedules the start of the processes whose turn has come, and prepares their buffers.
    fn release(&mut self, now: Instant) {
        let Self { jobs, wakeups, .. } = self;
        let mut due = Vec::new();
        jobs.release(now, |task, at| {
            wakeups.set(task, at);
            due.push(task);
        });
        for task in due {
            let process = &self.jobs.processes[task];
            let (id, slots, bytes) =
                (process.task(), process.depth() as u32, process.buffer_bytes());
            let backend = self.engine.backend_mut();
            backend.prepare_buffers(id, slots, bytes);
            self.has_buffers[task] = backend.buffer(id, 0).is_some();
        }
    }

    fn on_over(&mut self, task: usize, now: Instant) {
        self.engine.stack_mut().handle_exit(now, self.jobs.processes[task].task());
        let mut poll = Vec::new();
        self.jobs.on_over(task, |other| poll.push(other));
        for other in poll {
            self.make_ready(other);
        }
        let left = self.jobs.left();
        assert!(left < self.open, "a process that is over is one less");
        self.open = left;
        self.release(now);
    }

    /// Ends the jobs whose rate is steady.
    #[cold]
    fn look_at_rates(&mut self, now: Instant) {
        let mut poll = Vec::new();
        self.jobs.look_at_rates(now, |task| poll.push(task));
        for task in poll {
            self.make_ready(task);
        }
        self.open = self.jobs.left();
    }

    fn look_for_interrupt(&mut self) {
        if self.ended_early.is_none() && self.engine.backend().interrupted() {
            self.ended_early = Some(EndedEarly::Interrupted);
            let mut poll = Vec::new();
            self.jobs.terminate_all(|task| poll.push(task));
            for task in poll {
                self.make_ready(task);
            }
            self.open = self.jobs.left();
        }
    }

    /// Returns true if the device had I/Os during the whole time without progress, and no process
    /// waits for an instant.
    #[inline]
    fn is_stuck(&mut self, now: Instant) -> bool {
        let patience = if self.ended_early.is_none() { STUCK_AFTER } else { PATIENCE_INTERRUPTED };
        self.engine.is_silent(now, patience) && self.wakeups.earliest() == Instant::MAX
    }

    /// After a process has used up its turn, lets the back end issue queued commands and collect
    /// completions, without waiting.
    #[inline]
    fn look_after_device(&mut self, now: Instant) {
        if std::mem::take(&mut self.is_turn_over) && self.engine.stack().ios_in_flight() > 0 {
            self.engine.backend_mut().wait(Some(now));
        }
    }

    /// Returns true if every process that has not ended waits for a completion, and no I/O is in
    /// flight. A timer of the stack then acts on nothing, and an interval of the observer wakes no
    /// process: waiting for them would never end.
    #[inline]
    fn is_abandoned(&self) -> bool {
        self.wakeups.earliest() == Instant::MAX && self.engine.stack().ios_in_flight() == 0
    }

    /// Waits for the earliest event. Returns false if there can be none.
    fn wait(&mut self, now: Instant) -> bool {
        let of_layer = self.layer.next_timer().unwrap_or(Instant::MAX);
        if (of_layer == Instant::MAX && self.is_abandoned()) || self.is_stuck(now) {
            self.ended_early = self.ended_early.or(Some(EndedEarly::Stuck));
            return false;
        }
        let interval = if self.skips_waits { Instant::MAX } else { self.next_interval };
        let until =
            self.wakeups.earliest().min(of_layer).min(self.next_of_settings()).min(interval);
        if self.engine.wait(until) {
            return true;
        }
        // After an interrupt the loop continues. If nothing is in flight and no time is given, no
        // process will ever wake.
        let is_in_flight = self.engine.stack().ios_in_flight() > 0;
        if self.engine.backend().interrupted() && (self.ended_early.is_none() || is_in_flight) {
            return true;
        }
        self.ended_early = self.ended_early.or(Some(EndedEarly::Stuck));
        false
    }

    /// Returns when the next change of the settings or sample of a rate is due.
    #[inline(always)]
    fn next_of_settings(&self) -> Instant {
        let or_never = |at: Option<Instant>| at.unwrap_or(Instant::MAX);
        or_never(self.jobs.settings.next_change()).min(or_never(self.jobs.steady.next()))
    }

    #[inline]
    fn pass_events(&mut self) {
        if !self.engine.stack().has_events() {
            return;
        }
        self.engine.stack_mut().drain_events(&mut self.events);
        self.watcher.observer().on_events(&self.events);
        self.events.clear();
    }

    #[cold]
    fn on_interval(&mut self) {
        // In real time, processes have run since the step began.
        let now = self.engine.now();
        let progress: Vec<Progress> = self
            .jobs
            .processes
            .iter()
            .map(|process| Progress {
                ios: std::array::from_fn(|d| process.stats().directions[d].ios),
                bytes: std::array::from_fn(|d| process.stats().directions[d].bytes),
                in_flight: process.in_use(),
                per_mille: process.progress(now),
                running: process.started().is_some() && process.ended().is_none(),
            })
            .collect();
        self.watcher.observer().on_interval(
            now,
            &mut || self.engine.stack_mut().disk_stats(now),
            &progress,
        );
        if self.watcher.observer().wants_status() {
            let so_far = self.snapshot(now);
            let buffered = self.layer.buffered().map(|buffered| &*buffered);
            self.watcher.observer().on_status(so_far, self.engine.stack_mut(), buffered);
        }
        if let Some(interval) = self.interval {
            // Intervals that passed during a stall are skipped.
            let missed = now.since(self.next_interval).get() / interval.get();
            self.next_interval =
                self.next_interval.saturating_add(Nanos::new(interval.get() * (missed + 1)));
        }
    }
}

/// Fills the buffer of an I/O with data, if there are real bytes.
fn fill<B: Backend, S: Source>(process: &mut S, backend: &mut B, token: u64) {
    if let Some(buffer) = backend.buffer(process.task(), token) {
        process.fill(token, buffer);
    }
}
