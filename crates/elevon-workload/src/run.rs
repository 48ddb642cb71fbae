//! The loop: takes completions, runs timers, polls the processes that can run, and waits for the
//! next event. It is the same for virtual and for real time.
//!
//! Each step handles one instant: completions go to the stack, finished I/Os to their processes,
//! and processes with something to do into a queue, in the order in which they became ready. Each
//! process is polled until it waits. In virtual time, if its wake-up is the next event, the step
//! continues with it at that instant. Cost per I/O, besides stack and process: O(1), or
//! O(log processes) if a process sleeps until an instant. Nothing is allocated per I/O.

use std::collections::VecDeque;

use elevon_core::account::DiskStats;
use elevon_core::event::Event;
use elevon_core::stack::{Io, Stack, Submitted};
use elevon_core::units::{Instant, Nanos};

use crate::backend::Backend;
use crate::buffered::BufferedIo;
use crate::cpu::SchedulerLock;
use crate::jobs::Jobs;
use crate::readings::{Progressed, Readings};
use crate::series::{Load, Series};
use crate::source::Source;
use crate::wakeups::Wakeups;

mod alone;
mod dependencies;
mod layer;
mod observer;
mod outcome;
mod owners;
mod through_cache;
mod turn;

#[cfg(test)]
mod tests;

pub use dependencies::Dependencies;
use layer::{Layer, NoLayer};
use observer::Watcher;
pub use observer::{NoObserver, Observer, Probe};
pub use outcome::{EndedEarly, JobOutcome, Progress, RunOutcome};

/// A run is stuck if for this long I/Os were at the device, no command completed, and no process
/// had anything else to do: twenty of the block layer's timeouts; after an interrupt, two.
const STUCK_AFTER: Nanos = Nanos::from_secs(600);
const PATIENCE_INTERRUPTED: Nanos = Nanos::from_secs(60);

/// Steps at one instant after which a run is taken to make no progress.
const STEPS_AT_ONE_INSTANT: u64 = 200_000_000;

/// Runs all jobs, or all processes of a trace, to their end.
pub fn run<B: Backend, S: Source>(
    stack: &mut Stack,
    jobs: &mut Jobs<S>,
    backend: &mut B,
    observer: &mut dyn Observer,
) -> RunOutcome {
    Runner::new(stack, jobs, NoLayer, backend, Watcher::Observer(observer)).run()
}

/// Runs all jobs to their end, with a page cache before the stack.
pub fn run_cached<B: Backend>(
    stack: &mut Stack,
    jobs: &mut Jobs,
    buffered: &mut BufferedIo,
    backend: &mut B,
    observer: &mut dyn Observer,
) -> RunOutcome {
    Runner::new(stack, jobs, buffered, backend, Watcher::Observer(observer)).run()
}

/// Runs all jobs to their end for a test that sees every step, with or without a page cache.
pub fn run_probed<B: Backend>(
    stack: &mut Stack,
    jobs: &mut Jobs,
    buffered: Option<&mut BufferedIo>,
    backend: &mut B,
    probe: &mut dyn Probe,
) -> RunOutcome {
    let sees_ios = probe.sees_ios();
    let watcher = Watcher::Probe { probe, sees_ios };
    match buffered {
        None => Runner::new(stack, jobs, NoLayer, backend, watcher).run(),
        Some(buffered) => Runner::new(stack, jobs, buffered, backend, watcher).run(),
    }
}

struct Runner<'a, B, L, S> {
    stack: &'a mut Stack,
    jobs: &'a mut Jobs<S>,
    layer: L,
    backend: &'a mut B,
    watcher: Watcher<'a>,
    wakeups: Wakeups,
    ready: VecDeque<u32>,
    is_ready: Vec<bool>,
    in_batch: Vec<bool>,
    /// True if the back end has buffers with real bytes; asked once per process.
    has_buffers: Vec<bool>,
    open: usize,
    series: Series,
    owners: Readings<Progressed>,
    events: Vec<Event>,
    interval: Option<Nanos>,
    next_interval: Instant,
    /// True if an interval that ends during a wait is skipped.
    skips_waits: bool,
    started: Instant,
    disk_start: DiskStats,
    /// The end of the ramp of the jobs that start with the run, where the device's statistics begin
    /// anew; `Instant::MAX` if there is none, or it is over.
    ramp_end: Instant,
    ended_early: Option<EndedEarly>,
    /// The present instant: what is kept over time has been advanced to it.
    last: Instant,
    /// Steps at this instant.
    steps: u64,
    scheduler_lock: SchedulerLock,
    /// The last instant at which a command completed, an I/O finished, or an I/O was issued to an
    /// idle device.
    last_progress: Instant,
    /// I/Os at the device at the end of the last wait.
    at_device: usize,
    /// The end of the last wait at the latest: until then no timer is due and no process wakes,
    /// unless a completion changes it. Zero if there was a step since that wait.
    next_due: Instant,
    /// A process used up its turn without waiting; see [`turn`].
    is_turn_over: bool,
    /// Processes became ready in a step that one process made for itself ([`alone`]): they run
    /// before the next step begins.
    goes_on: bool,
}

impl<'a, B: Backend, L: Layer<S>, S: Source> Runner<'a, B, L, S> {
    fn new(
        stack: &'a mut Stack,
        jobs: &'a mut Jobs<S>,
        layer: L,
        backend: &'a mut B,
        mut watcher: Watcher<'a>,
    ) -> Self {
        let now = backend.now();
        let count = jobs.processes.len();
        let interval = watcher.observer().interval().filter(|i| !i.is_zero());
        Self {
            wakeups: Wakeups::new(count),
            ready: VecDeque::with_capacity(count),
            is_ready: vec![false; count],
            in_batch: vec![false; count],
            has_buffers: vec![false; count],
            open: count,
            series: Series::new(now, load_of(stack, now)),
            owners: owners::series(now, stack, jobs),
            events: Vec::new(),
            interval,
            skips_waits: watcher.observer().skips_waits(),
            next_interval: interval.map_or(Instant::MAX, |i| now.saturating_add(i)),
            started: now,
            disk_start: stack.disk_stats(now),
            ramp_end: jobs.first_ramp().map_or(Instant::MAX, |ramp| now.saturating_add(ramp)),
            ended_early: None,
            last: now,
            steps: 0,
            scheduler_lock: SchedulerLock::default(),
            last_progress: now,
            at_device: 0,
            next_due: Instant::ZERO,
            is_turn_over: false,
            goes_on: false,
            stack,
            jobs,
            layer,
            backend,
            watcher,
        }
    }

    fn run(mut self) -> RunOutcome {
        self.layer.on_start(self.started);
        self.release(self.started);
        while self.open > 0 {
            let now = self.backend.now();
            if now > self.last {
                self.advance(now);
            }
            self.look_for_interrupt();
            let moved = self.step(now);
            // Where waiting is free, the clock may have moved during the step.
            let now = if B::WAITS_FREELY { self.backend.now() } else { now };
            if self.open == 0 || self.ended_early == Some(EndedEarly::NoProgress) {
                break;
            }
            if moved && !self.may_wait() && !self.is_stuck(now) {
                self.look_after_device(now);
                self.next_due = Instant::ZERO;
                continue;
            }
            if !self.wait(now) {
                break;
            }
        }
        let now = self.backend.now();
        self.finish_owners(now);
        self.layer.on_end(now);
        if !matches!(self.ended_early, Some(EndedEarly::Stuck | EndedEarly::NoProgress)) {
            L::write_back(&mut self);
        }
        self.outcome()
    }

    /// Advances what is kept over time to an instant that has just come, before anything happens.
    #[inline]
    fn advance(&mut self, now: Instant) {
        if now >= self.ramp_end {
            self.disk_start = self.stack.disk_stats(self.ramp_end);
            self.ramp_end = Instant::MAX;
        }
        let stack = &*self.stack;
        self.series.advance(now, || load_of(stack, now));
        if self.owners.is_due(now) {
            self.read_owners(now);
        }
        self.layer.on_time(now);
        self.steps = 0;
        self.last = now;
    }

    /// Returns true if the loop may wait after a step that moved something: if there is more to do
    /// at this instant, the wait is over at once.
    #[inline]
    fn may_wait(&self) -> bool {
        B::WAITS_FREELY && L::IS_NONE && self.ready.is_empty() && !self.stack.has_done()
    }

    /// Does everything that can happen now. Returns false if nothing did.
    #[inline(always)]
    fn step(&mut self, now: Instant) -> bool {
        let is_due = !L::IS_NONE || now >= self.next_due;
        let mut moved = self.run_device(now, is_due);
        if is_due && self.jobs.settings.next_change().is_some_and(|at| at <= now) {
            self.jobs.settings.run_changes(self.stack, now);
            moved = true;
        }
        if self.stack.has_done() {
            moved |= self.drain(now);
        }
        if is_due {
            moved |= self.run_due(now);
        }
        moved |= L::pump(self, now);
        moved |= self.run_processes(now, is_due);
        self.pass_events();
        if let Some(probe) = self.watcher.probe() {
            probe.on_step(self.stack);
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
            self.steps += 1;
            if self.steps > STEPS_AT_ONE_INSTANT {
                self.ended_early = Some(EndedEarly::NoProgress);
            }
        }
        moved
    }

    /// Gives the completions of this instant to the stack, and runs the timers that are due: if
    /// there was no completion, only with `is_due`. Returns true if there was something.
    #[inline(always)]
    fn run_device(&mut self, now: Instant, is_due: bool) -> bool {
        let mut any = self.take_completions(now);
        if (is_due || any) && self.stack.next_timer().is_some_and(|at| at <= now) {
            self.stack.handle_timers(now, self.backend);
            any = true;
        }
        any
    }

    /// Gives the completions of this instant to the stack. Returns true if there was one.
    #[inline(always)]
    fn take_completions(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(completion) = self.backend.poll_completion() {
            // A completed command is progress, however many commands an I/O needs.
            self.last_progress = now;
            self.stack.handle_completion(now, completion, self.backend);
            any = true;
        }
        any
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
        if self.layer.next_timer().is_some_and(|at| at <= now) {
            self.layer.handle_timers(now);
            any = true;
        }
        any
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
        while let Some(&done) = self.stack.poll_done() {
            self.last_progress = now;
            any = true;
            if L::take_done(self, now, &done) {
                continue;
            }
            let task = done.task.index();
            self.check(task, done.token);
            let process = &mut self.jobs.processes[task];
            let (op, bytes) = process.complete(now, done.token, done.status);
            if done.status.is_ok() {
                self.series.on_done(op, bytes);
            }
            if let Some(probe) = self.watcher.probe_of_ios() {
                probe.on_io_over(now, done.task, done.token, done.status);
            }
            if self.stack.control().is_watched() {
                let delay = self.stack.control_mut().delay_of(now, process.tenant());
                if !delay.is_zero() {
                    process.delay(now.saturating_add(delay));
                }
            } else if L::IS_NONE && process.is_busy(now) {
                continue;
            }
            if self.backend.delays_wakes() {
                process.wake_at(now, now + self.backend.wake_delay());
            }
            self.make_ready(task);
        }
        while let Some(task) = self.stack.poll_unblocked() {
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
        let now = self.backend.now();
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
            let now = self.backend.now();
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
        if self.stack.control().is_watched() {
            let process = &self.jobs.processes[task];
            let (id, tenant, context) = (process.task(), process.tenant(), process.context(now));
            self.stack.control_mut().set_context(now, id, tenant, context);
        }
    }

    /// Submits a batch to the stack. Stops if the submitter sleeps, and continues when it wakes.
    #[inline(always)]
    fn submit(&mut self, task: usize, count: usize) {
        if L::submit(self, task) {
            return;
        }
        let Self { stack, jobs, backend, watcher, .. } = self;
        let process = &mut jobs.processes[task];
        let has_buffers = B::HAS_BYTES && self.has_buffers[task];
        if !self.in_batch[task] && process.plugs(count) {
            self.in_batch[task] = true;
            stack.begin_batch(backend.now(), process.task());
        }
        let mut blocked = false;
        while let Some(io) = process.take() {
            if has_buffers && io.op.has_data() {
                fill(process, *backend, io.token);
            }
            let now = backend.now();
            if let Some(probe) = watcher.probe_of_ios() {
                // A copy, so that the I/O itself need not be in memory.
                let seen = io;
                probe.on_io(now, &seen, &[]);
            }
            blocked = stack.submit(now, io, *backend) == Submitted::Blocked;
            process.on_submitted(backend.now(), blocked);
        }
        if self.in_batch[task] && !blocked {
            self.end_batch(task);
        }
    }

    /// Fills the buffer of a write, if there are real bytes.
    #[inline]
    fn fill(&mut self, task: usize, io: &Io) {
        if B::HAS_BYTES && self.has_buffers[task] && io.op.has_data() {
            fill(&mut self.jobs.processes[task], self.backend, io.token);
        }
    }

    /// Checks the content of a read, if the job verifies.
    #[inline]
    fn check(&mut self, task: usize, token: u64) {
        let process = &mut self.jobs.processes[task];
        if B::HAS_BYTES
            && self.has_buffers[task]
            && process.wants_check(token)
            && let Some(buffer) = self.backend.buffer(process.task(), token)
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
        self.in_batch[task] = false;
        let now = self.backend.now();
        self.stack.end_batch(now, self.jobs.processes[task].task(), self.backend);
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
            let (id, slots, bytes) = (process.task(), process.depth() as u32, process.buffer_bytes());
            self.backend.prepare_buffers(id, slots, bytes);
            self.has_buffers[task] = self.backend.buffer(id, 0).is_some();
        }
    }

    fn on_over(&mut self, task: usize, now: Instant) {
        self.stack.handle_exit(now, self.jobs.processes[task].task());
        let mut poll = Vec::new();
        self.jobs.on_over(task, |other| poll.push(other));
        for other in poll {
            self.make_ready(other);
        }
        self.open = self.jobs.left();
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
        if self.ended_early.is_none() && self.backend.interrupted() {
            self.ended_early = Some(EndedEarly::Interrupted);
            let mut poll = Vec::new();
            self.jobs.terminate_all(|task| poll.push(task));
            for task in poll {
                self.make_ready(task);
            }
            self.open = self.jobs.left();
        }
    }

    #[inline]
    fn is_stuck(&mut self, now: Instant) -> bool {
        now.since(self.last_progress) > PATIENCE_INTERRUPTED && self.is_device_silent(now)
    }

    /// Returns true if the device had I/Os during the whole time without progress, and no process
    /// waits for an instant.
    #[cold]
    fn is_device_silent(&mut self, now: Instant) -> bool {
        if self.ended_early.is_none() && now.since(self.last_progress) <= STUCK_AFTER {
            return false;
        }
        let at_device = self.ios_at_device();
        if at_device == 0 || at_device != self.at_device {
            // The number of I/Os changed: some were issued or completed a moment ago.
            self.at_device = at_device;
            self.last_progress = now;
            return false;
        }
        self.wakeups.earliest() == Instant::MAX
    }

    /// Returns the number of I/Os in flight that are not held by a tenant's rule.
    #[inline]
    fn ios_at_device(&self) -> usize {
        let all = self.stack.ios_in_flight();
        if all == 0 || !self.stack.control().is_active() { all } else { all - self.stack.control().held().min(all) }
    }

    /// After a process has used up its turn, lets the back end issue queued commands and collect
    /// completions, without waiting.
    #[inline]
    fn look_after_device(&mut self, now: Instant) {
        if std::mem::take(&mut self.is_turn_over) && self.stack.ios_in_flight() > 0 {
            self.backend.wait(Some(now));
        }
    }

    /// Returns true if every process that has not ended waits for a completion, and no I/O is in
    /// flight. A timer of the stack then acts on nothing, and an interval of the observer wakes no
    /// process: waiting for them would never end.
    #[inline]
    fn is_abandoned(&self) -> bool {
        self.wakeups.earliest() == Instant::MAX && self.stack.ios_in_flight() == 0
    }

    /// Waits for the earliest event. Returns false if there can be none.
    fn wait(&mut self, now: Instant) -> bool {
        let of_layer = self.layer.next_timer().unwrap_or(Instant::MAX);
        if (of_layer == Instant::MAX && self.is_abandoned()) || self.is_stuck(now) {
            self.ended_early = self.ended_early.or(Some(EndedEarly::Stuck));
            return false;
        }
        let interval = if self.skips_waits { Instant::MAX } else { self.next_interval };
        let until = self.wakeups.earliest().min(of_layer).min(self.next_timer()).min(interval);
        self.next_due = until;
        let until_any = (until < Instant::MAX).then_some(until);
        let waited = self.backend.wait(until_any);
        self.note_wait();
        if waited {
            return true;
        }
        // After an interrupt the loop continues. If nothing is in flight and no time is given, no
        // process will ever wake.
        if self.backend.interrupted() && (self.ended_early.is_none() || self.stack.ios_in_flight() > 0) {
            return true;
        }
        if until_any.is_none() {
            self.ended_early = self.ended_early.or(Some(EndedEarly::Stuck));
            return false;
        }
        true
    }

    /// Returns when the next timer of the stack, change of the settings or sample of a rate is due.
    #[inline(always)]
    fn next_timer(&self) -> Instant {
        self.next_of_settings().min(self.next_of_stack())
    }

    /// Returns when the next timer of the stack is due.
    #[inline(always)]
    fn next_of_stack(&self) -> Instant {
        self.stack.next_timer().unwrap_or(Instant::MAX)
    }

    /// Returns when the next change of the settings or sample of a rate is due.
    #[inline(always)]
    fn next_of_settings(&self) -> Instant {
        let or_never = |at: Option<Instant>| at.unwrap_or(Instant::MAX);
        or_never(self.jobs.settings.next_change()).min(or_never(self.jobs.steady.next()))
    }

    /// Notes how many I/Os the device has at the end of a wait.
    #[inline]
    fn note_wait(&mut self) {
        self.at_device = self.ios_at_device();
        if self.at_device == 0 {
            // The device had nothing to do, so it did not fail to answer.
            self.last_progress = self.backend.now();
        }
    }

    #[inline]
    fn pass_events(&mut self) {
        if !self.stack.has_events() {
            return;
        }
        self.stack.drain_events(&mut self.events);
        self.watcher.observer().on_events(&self.events);
        self.events.clear();
    }

    #[cold]
    fn on_interval(&mut self) {
        // In real time, processes have run since the step began.
        let now = self.backend.now();
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
        self.watcher.observer().on_interval(now, &mut || self.stack.disk_stats(now), &progress);
        if self.watcher.observer().wants_status() {
            let so_far = self.snapshot(now);
            let buffered = self.layer.buffered().map(|buffered| &*buffered);
            self.watcher.observer().on_status(so_far, self.stack, buffered);
        }
        if let Some(interval) = self.interval {
            // Intervals that passed during a stall are skipped.
            let missed = now.since(self.next_interval).get() / interval.get();
            self.next_interval = self.next_interval.saturating_add(Nanos::new(interval.get() * (missed + 1)));
        }
    }
}

/// Returns the requests in flight until `now`.
fn load_of(stack: &Stack, now: Instant) -> Load {
    let accounting = stack.accounting();
    Load { in_flight: accounting.outstanding(), integral: accounting.outstanding_integral(now) }
}

/// Fills the buffer of an I/O with data, if there are real bytes.
fn fill<B: Backend, S: Source>(process: &mut S, backend: &mut B, token: u64) {
    if let Some(buffer) = backend.buffer(process.task(), token) {
        process.fill(token, buffer);
    }
}
