//! Submissions that wait for a tag: their sleep, and which are woken when tags become free.

use super::{Submission, TagLimit};
use crate::driver::Driver;
use crate::event::EventKind;
use crate::sched::Scheduler;
use crate::stack::{Io, Stack, Submitted, Waiter, Woken, WokenStep};
use crate::units::{BioId, HwQueue, Instant};

impl Stack {
    /// Puts the task, or a worker in its place, to sleep until a tag of its queue is free.
    pub(in crate::stack) fn sleep_for_tag<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        submission: Submission,
        bio: BioId,
        driver: &mut D,
    ) -> Submitted {
        let task = io.task;
        let queue = self.queue_of(task);
        self.counters.tag_waits += 1;
        if self.rules.tag_wait_event && self.trace.is_on {
            let depth = self.config.tags_made();
            let bio = self.bios[bio.0];
            self.trace_bio(
                now,
                EventKind::TagWait { of_scheduler: self.has_scheduler, depth },
                &bio,
            );
        }
        let submission = self.fall_asleep(now, io, submission, driver);
        self.queues[queue.index()].waiters.push_back(Waiter { io: *io, submission, bio });
        self.run_queue(now, queue, driver);
        self.wake_waiters(now, queue, driver);
        self.is_asleep(io)
    }

    /// Returns whether the task of a submission that fell asleep still sleeps.
    pub(in crate::stack) fn is_asleep(&mut self, io: &Io) -> Submitted {
        let task = io.task;
        if self.task_mut(task).blocked {
            return Submitted::Blocked;
        }
        // The task woke before the caller was told that it slept: remove the pending wake-up, which
        // would otherwise end its next sleep.
        if io.may_block
            && let Some(at) = self.finished.unblocked.iter().rposition(|&other| other == task)
        {
            self.finished.unblocked.remove(at);
        }
        Submitted::Accepted
    }

    /// Puts the task, or a worker in its place, to sleep. Returns the submission to continue with
    /// after the wake-up.
    pub(in crate::stack) fn fall_asleep<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        submission: Submission,
        driver: &mut D,
    ) -> Submission {
        if io.may_block {
            // A task flushes its plug before it sleeps: others must not wait for the task.
            self.flush_plug(now, io.task, true, driver);
            self.task_mut(io.task).blocked = true;
            return submission;
        }
        if submission.plugged {
            self.end_plug(now, io.task, driver);
        }
        submission.in_worker()
    }

    /// Continues the submission of a sleeping task, or of the worker in its place.
    pub(in crate::stack) fn wake_submission<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        submission: Submission,
        fragment: Option<BioId>,
        driver: &mut D,
    ) {
        let task = io.task;
        if io.may_block {
            self.task_mut(task).blocked = false;
        }
        self.run_submission(now, io, submission, fragment, driver);
        if io.may_block && !self.task_mut(task).blocked {
            self.finished.unblocked.push_back(task);
        }
    }

    /// Returns how many tags have to be freed before waiters are woken, and how many waiters that
    /// are: an eighth of those that each may choose from, at most 8.
    fn batch_of(&self, queue: HwQueue) -> u32 {
        let entry = &self.queues[queue.index()];
        let least = match &entry.sched_tags {
            Some(tags) => self.scheduler.least_limit(tags.depth()).min(tags.depth()),
            None => entry.tags.depth(),
        };
        (least / 8).clamp(1, 8)
    }

    /// Wakes submissions that wait for a tag when a batch of tags was freed, in order. Meanwhile
    /// the next submission takes a free tag. A task that is woken for nothing waits again, behind
    /// the others.
    pub(in crate::stack) fn wake_batch<D: Driver>(
        &mut self,
        now: Instant,
        queue: HwQueue,
        driver: &mut D,
    ) {
        let batch = self.batch_of(queue);
        let entry = &mut self.queues[queue.index()];
        entry.freed += 1;
        // What was freed by a merge does not count, but the last request in flight wakes all.
        if (entry.freed < batch && entry.used() > 0) || core::mem::replace(&mut entry.waking, true)
        {
            return;
        }
        loop {
            let entry = &mut self.queues[queue.index()];
            let count = if entry.used() == 0 { entry.waiters.len() } else { batch as usize };
            if entry.waiters.is_empty() || (entry.freed < batch && entry.used() > 0) {
                break;
            }
            entry.freed = entry.freed.saturating_sub(batch);
            for _ in 0..count {
                let Some(waiter) = self.queues[queue.index()].waiters.pop_front() else { break };
                let delay = driver.tag_wake_delay();
                if delay.is_zero() {
                    self.look_for_tag(now, queue, waiter, driver);
                } else {
                    self.woken.push(Woken {
                        at: now + delay,
                        step: WokenStep::LookForTag(queue, waiter),
                    });
                }
            }
        }
        self.queues[queue.index()].waking = false;
    }

    /// Continues a submission that was woken, if a tag is left for it. If none is, its task runs
    /// the queue before it sleeps again, as it did before its first sleep: what the scheduler held
    /// back then goes if it may go now, although no completion ran the queue.
    fn look_for_tag<D: Driver>(
        &mut self,
        now: Instant,
        queue: HwQueue,
        waiter: Waiter,
        driver: &mut D,
    ) {
        let Waiter { io, submission, bio } = waiter;
        if !self.has_tag_for(queue, submission.tag_limit) {
            self.run_queue(now, queue, driver);
        }
        if self.has_tag_for(queue, submission.tag_limit) {
            self.wake_submission(now, &io, submission, Some(bio), driver);
        } else {
            self.queues[queue.index()].waiters.push_back(waiter);
        }
    }

    /// Returns when the first task that was woken runs. They are few: a linear search.
    pub(in crate::stack) fn next_woken(&self) -> Instant {
        self.woken.iter().map(|woken| woken.at).min().unwrap_or(Instant::MAX)
    }

    /// Lets the tasks go on that were woken and run by now, the earliest first.
    pub(in crate::stack) fn run_woken<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        loop {
            let next = self.next_woken();
            let place = self.woken.iter().position(|woken| woken.at == next);
            let Some(place) = place.filter(|_| next <= now) else { break };
            match self.woken.remove(place).step {
                WokenStep::LookForTag(queue, waiter) => {
                    self.look_for_tag(now, queue, waiter, driver);
                }
                WokenStep::GoOn(Waiter { io, submission, bio }) => {
                    self.wake_submission(now, &io, submission, Some(bio), driver);
                }
                WokenStep::Flush(call, io) => self.submit_flush(now, call, &io, driver),
                WokenStep::Work(submission, io) => self.work(now, &io, submission, driver),
            }
        }
    }

    /// Wakes submissions that wait for a tag, in order, while tags are free.
    pub(in crate::stack) fn wake_waiters<D: Driver>(
        &mut self,
        now: Instant,
        queue: HwQueue,
        driver: &mut D,
    ) {
        // A request that ends at once causes a nested wake-up. The outer one continues the work, so
        // that the recursion stays shallow.
        if core::mem::replace(&mut self.queues[queue.index()].waking, true) {
            return;
        }
        while let Some(&waiter) = self.queues[queue.index()].waiters.front() {
            let Waiter { io, submission, bio } = waiter;
            if !self.has_tag_for(queue, submission.tag_limit) {
                break;
            }
            self.queues[queue.index()].waiters.pop_front();
            self.wake_submission(now, &io, submission, Some(bio), driver);
        }
        self.queues[queue.index()].waking = false;
    }

    /// Wakes submissions that wait for a tag or a place, after a request that was merged into
    /// another has given its own back. No completion of that request will wake them.
    #[cold]
    pub(in crate::stack) fn wake_after_merge<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        self.freed_by_merge = false;
        self.wake_throttled(now, driver);
        for queue in (0..self.config.hw_queues).map(HwQueue) {
            if !self.queues[queue.index()].waiters.is_empty() {
                self.wake_waiters(now, queue, driver);
            }
        }
    }

    fn has_tag_for(&self, queue: HwQueue, limit: Option<TagLimit>) -> bool {
        let entry = &self.queues[queue.index()];
        let map = entry.sched_tags.as_ref().unwrap_or(&entry.tags);
        match limit.and_then(|limit| limit.0) {
            Some(limit) => map.has_shallow(limit, self.shallow()),
            None => map.used() < map.depth(),
        }
    }
}
