//! The loop's part in a run with a page cache: what goes to and fro between processes, cache and stack.

use elevon_core::stack::{Done, Io, Submitted};
use elevon_core::units::{Bytes, Instant, PAGE_SIZE, TaskId};

use super::{EndedEarly, Runner, TURN};
use crate::backend::Backend;
use crate::cached::{CACHE_TOKEN, Event, Route};

impl<B: Backend> Runner<'_, B> {
    /// Hands the batch of a process to the cache, or (direct I/O) to the stack one by one. False, and nothing done, where the
    /// process has nothing to do with the cache.
    pub(super) fn submit_cached(&mut self, task: usize) -> bool {
        let Some(cached) = &mut self.cached else { return false };
        if !cached.is_user(task) {
            return false;
        }
        let began = self.backend.now();
        while let Some(io) = self.jobs.processes[task].take() {
            let now = self.backend.now();
            self.fill(task, &io);
            if let Some(probe) = self.watcher.probe_of_ios() {
                probe.on_io(now, &io, &[]);
            }
            let Some(cached) = &mut self.cached else { return false };
            let process = &mut self.jobs.processes[task];
            let is_asleep = match cached.begin(now, process, io) {
                Route::Stack => self.submit_direct(now, io),
                Route::Cache { sleeps } => sleeps,
            };
            let now = self.backend.now();
            self.jobs.processes[task].on_submitted(now, is_asleep);
            self.pump(now);
            if now.since(began) >= TURN {
                // The rest of a large batch goes when the process is polled next.
                break;
            }
        }
        true
    }

    /// Carries bios to the stack and what is over to the processes, until nothing moves. True where anything did.
    pub(super) fn pump(&mut self, now: Instant) -> bool {
        let mut moved = false;
        loop {
            self.move_bytes();
            let mut any = self.submit_bios(now);
            while let Some(cached) = &mut self.cached
                && let Some(done) = cached.poll_done()
            {
                cached.on_done(now, &mut self.jobs.processes[done.task.index()], &done);
                any = true;
            }
            self.move_bytes();
            while let Some(cached) = &mut self.cached
                && let Some(event) = cached.events.pop_front()
            {
                self.on_event(now, event);
                any = true;
            }
            if !any {
                return moved;
            }
            moved = true;
        }
    }

    /// Moves bytes between frames and buffers, as the cache said.
    #[inline]
    fn move_bytes(&mut self) {
        if let Some(cached) = &mut self.cached {
            while let Some(copy) = cached.copies.pop_front() {
                self.backend.move_bytes(&copy);
            }
        }
    }

    /// After the last job: what is dirty goes to a real device.
    pub(super) fn write_back(&mut self) {
        let now = self.backend.now();
        if let Some(cached) = &mut self.cached {
            let (_, left) = cached.unwritten();
            if left > 0 {
                let is_interrupted = self.ended_early == Some(EndedEarly::Interrupted);
                self.watcher.observer().on_write_back(Bytes::new(left * PAGE_SIZE), is_interrupted);
            }
            cached.write_back(now);
            self.last_progress = now;
        }
        while self.cached.as_ref().is_some_and(|cached| cached.is_settling()) {
            let now = self.backend.now();
            if !self.step(now) && !self.wait(now) {
                break;
            }
        }
    }

    fn submit_bios(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(cached) = &mut self.cached
            && let Some((io, ends_plug)) = cached.next_io(now, self.stack)
        {
            let task = io.task;
            if cached.begins_batch(&io, ends_plug) {
                self.stack.begin_batch(now, task);
            }
            if cached.has_bytes() {
                self.backend.bind_frames(io.token, cached.frames(io.token));
            }
            if let Some(probe) = self.watcher.probe_of_ios() {
                probe.on_io(now, &io, cached.frames(io.token));
            }
            let is_blocked = self.stack.submit_buffered(now, io, self.backend) == Submitted::Blocked;
            if cached.ends_batch(task, ends_plug, is_blocked) {
                self.stack.end_batch(now, task, self.backend);
            }
            any = true;
        }
        any
    }

    /// Direct I/O of a process that has to do with the cache; true where its task sleeps.
    fn submit_direct(&mut self, now: Instant, io: Io) -> bool {
        let is_asleep = self.stack.submit(now, io, self.backend) == Submitted::Blocked;
        if let Some(cached) = &mut self.cached
            && is_asleep
        {
            cached.on_direct_blocked(io.task);
        }
        is_asleep
    }

    fn on_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Over { task, token, status, cost } => {
                if status.is_ok() {
                    self.check(task, token.into());
                }
                let process = &mut self.jobs.processes[task];
                if status.is_ok() {
                    let (op, bytes) = process.operation(token.into());
                    self.series.on_done(op, bytes);
                }
                process.spend(now, cost);
                process.unblock(now, token);
                process.complete(token.into(), status);
                if let Some(probe) = self.watcher.probe_of_ios() {
                    probe.on_io_over(now, TaskId(task as u32), token.into(), status);
                }
                self.last_progress = now;
                self.make_ready(task);
            }
            Event::Submit(io) => {
                let task = io.task.index();
                if let Some(cached) = &mut self.cached
                    && cached.holds(task, io.token)
                {
                    return;
                }
                if !self.submit_direct(now, io) {
                    self.jobs.processes[task].unblock(now, io.token as u32);
                    self.make_ready(task);
                }
            }
            Event::Prepared { task } => self.make_ready(task),
        }
    }

    /// Whether an I/O that is over was the cache's business.
    #[cold]
    pub(super) fn is_of_cache(&mut self, now: Instant, done: &Done) -> bool {
        let Some(cached) = &mut self.cached else { return false };
        if done.token & CACHE_TOKEN != 0 {
            cached.on_bio_done(now, done);
            return true;
        }
        let process = &mut self.jobs.processes[done.task.index()];
        cached.is_user(done.task.index()) && cached.on_device_done(now, process, done.token, done.status)
    }

    /// Whether a task that has its tag had slept for a bio of the cache.
    pub(super) fn unblock_in_cache(&mut self, now: Instant, task: TaskId) -> bool {
        let Some(cached) = &mut self.cached else { return false };
        let Some(ends_batch) = cached.unblocked(task) else { return false };
        if ends_batch {
            self.stack.end_batch(now, task, self.backend);
        }
        true
    }
}
