//! The layer of a run with a page cache: moves I/O between processes, cache and stack.
//!
//! A buffered I/O that slept passes two queues on its way back: the queue of finished calls of the
//! page cache, since one bio ends the sleep of several calls, and the queue of its process, which
//! may be busy.

use elevon_cache::FrameId;
use elevon_core::stack::{Done, Io, Submitted};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, PAGE_SIZE, TaskId};
use elevon_engine::{Backend, CacheUser, Token};

use super::layer::Layer;
use super::turn::TURN;
use super::{EndedEarly, Runner};
use crate::buffered::{BufferedIo, Event, Route};
use crate::process::Process;

impl Layer<Process> for &mut BufferedIo {
    fn on_start(&mut self, now: Instant) {
        (**self).on_start(now);
    }

    #[inline]
    fn on_time(&mut self, now: Instant) {
        (**self).on_time(now);
    }

    fn on_end(&mut self, now: Instant) {
        (**self).on_end(now);
    }

    #[inline]
    fn next_timer(&self) -> Option<Instant> {
        (**self).next_timer()
    }

    fn run_timers(&mut self, now: Instant) -> bool {
        CacheUser::run_timers(*self, now)
    }

    fn on_process_over(&mut self, now: Instant, task: usize) {
        (**self).on_process_over(now, task);
    }

    fn buffered(&mut self) -> Option<&mut BufferedIo> {
        Some(self)
    }

    fn prepare<B: Backend>(
        runner: &mut Runner<'_, B, Self, Process>,
        now: Instant,
        task: usize,
    ) -> bool {
        if runner.jobs.start_of(task).is_none_or(|at| at > now) {
            return true;
        }
        let event = runner.layer.prepare(now, task);
        pump_from(runner, now, event);
        runner.layer.is_prepared(task)
    }

    /// Begins the I/Os of the batch one by one.
    #[inline]
    fn submit<B: Backend>(runner: &mut Runner<'_, B, Self, Process>, task: usize) -> bool {
        if !runner.layer.is_user(runner.jobs.processes[task].task()) {
            return false;
        }
        let began = runner.engine.now();
        while let Some(io) = runner.jobs.processes[task].take() {
            let now = runner.engine.now();
            runner.fill(task, &io);
            if let Some(probe) = runner.watcher.probe_of_ios() {
                probe.on_io(now, &io, &[]);
            }
            let (is_asleep, over) = match runner.layer.begin(now, &mut runner.jobs.processes, &io) {
                Route::Stack => (submit_direct(runner, now, io), None),
                Route::Finished(event) => (false, Some(event)),
                Route::Waits { sleeps } => (sleeps, None),
            };
            let now = runner.engine.now();
            runner.jobs.processes[task].on_submitted(now, is_asleep);
            pump_from(runner, now, over);
            if now.since(began) >= TURN {
                // The rest of a large batch is submitted when the process is polled next.
                break;
            }
        }
        true
    }

    #[inline]
    fn pump<B: Backend>(runner: &mut Runner<'_, B, Self, Process>, now: Instant) -> bool {
        pump_from(runner, now, None)
    }

    #[inline]
    fn take_done<B: Backend>(
        runner: &mut Runner<'_, B, Self, Process>,
        now: Instant,
        done: &Done,
    ) -> bool {
        match Token::decode(done.token) {
            Token::Cache(bio) => {
                if let Some(probe) = runner.watcher.probe_of_ios() {
                    probe.on_io_over(now, done.task, done.token, done.status);
                }
                runner.layer.on_bio_done(now, bio, done);
                true
            }
            Token::Job(token) => {
                let processes = &mut runner.jobs.processes;
                runner.layer.is_user(done.task)
                    && runner.layer.on_device_done(now, processes, done, token)
            }
        }
    }

    fn unblock<B: Backend>(
        runner: &mut Runner<'_, B, Self, Process>,
        now: Instant,
        task: TaskId,
    ) -> bool {
        if !runner.layer.unblocked(now, &mut runner.jobs.processes, task) {
            return false;
        }
        runner.layer.end_sleep(now, task, runner.engine);
        true
    }

    fn write_back<B: Backend>(runner: &mut Runner<'_, B, Self, Process>) {
        let now = runner.engine.now();
        let (_, left) = runner.layer.unwritten();
        if left > 0 {
            let is_interrupted = runner.ended_early == Some(EndedEarly::Interrupted);
            runner.watcher.observer().on_write_back(Bytes::new(left * PAGE_SIZE), is_interrupted);
        }
        runner.layer.write_back(now);
        runner.engine.note_progress(now);
        while runner.layer.is_settling() {
            let now = runner.engine.now();
            if !runner.step(now) && !runner.wait(now) {
                break;
            }
        }
    }
}

/// The loop with a page cache.
type Cached<'r, 'a, 'b, B> = &'r mut Runner<'a, B, &'b mut BufferedIo, Process>;

/// Submits bios to the stack and passes finished I/Os to the processes, `first` before all other
/// events. Returns true if anything moved.
fn pump_from<B: Backend>(
    runner: Cached<'_, '_, '_, B>,
    now: Instant,
    mut first: Option<Event>,
) -> bool {
    let mut moved = false;
    loop {
        let Runner { engine, layer, jobs, watcher, .. } = &mut *runner;
        let on_io = |io: &Io, frames: &[FrameId]| {
            moved = true;
            if let Some(probe) = watcher.probe_of_ios() {
                probe.on_io(now, io, frames);
            }
        };
        let next =
            |layer: &mut BufferedIo| first.take().or_else(|| layer.poll(now, &mut jobs.processes));
        let Some(event) = layer.poll_cache(now, engine, on_io, next) else { return moved };
        on_event(runner, now, event);
        moved = true;
    }
}

/// Submits direct I/O of a process that has files in the cache. Returns true if its task sleeps.
fn submit_direct<B: Backend>(runner: Cached<'_, '_, '_, B>, now: Instant, io: Io) -> bool {
    let (stack, backend) = runner.engine.parts();
    let is_asleep = stack.submit(now, io, backend) == Submitted::Blocked;
    if is_asleep {
        runner.layer.on_direct_blocked(io.task);
    }
    is_asleep
}

fn on_event<B: Backend>(runner: Cached<'_, '_, '_, B>, now: Instant, event: Event) {
    match event {
        Event::Finished { task, token, status, cost } => {
            end_io(runner, now, task, token, status, cost);
        }
        Event::Device { task, token } => {
            let io = runner.jobs.processes[task].io(token);
            if !submit_direct(runner, now, io) {
                runner.jobs.processes[task].unblock(now, token);
                runner.make_ready(task);
            }
        }
        Event::Prepared { task } => runner.make_ready(task),
        Event::Sleeps => {}
    }
}

/// Passes a finished I/O to its process, which is busy for `cost` first.
#[inline]
fn end_io<B: Backend>(
    runner: Cached<'_, '_, '_, B>,
    now: Instant,
    task: usize,
    token: u32,
    status: Status,
    cost: Nanos,
) {
    let number = Token::Job(token).encode();
    if status.is_ok() {
        runner.check(task, number);
    }
    let process = &mut runner.jobs.processes[task];
    process.spend(now, cost);
    process.unblock(now, token);
    let (op, bytes) = process.complete(number, status);
    if status.is_ok() {
        runner.timeline.series.on_done(op, bytes);
    }
    let id = process.task();
    if let Some(probe) = runner.watcher.probe_of_ios() {
        probe.on_io_over(now, id, number, status);
    }
    runner.engine.note_progress(now);
    runner.make_ready(task);
}
