//! Direct I/O of io_uring: a call is tried without waiting. If its bio would have to be split or
//! finds no tag, a worker of the ring does all of it, in its own time and without the task's plug.
//! A ring has four workers for each CPU at most. One that sleeps for a tag is busy, and the calls
//! that find no worker wait for one in their order.
//! Sources: traces of Linux 6.1, 6.18 and 7.3 (`docs/evidence/parity.md`, *Event for event*);
//! io_uring_register(2), IORING_REGISTER_IOWQ_MAX_WORKERS.

extern crate alloc;
use alloc::collections::VecDeque;

use super::{Part, Submission};
use crate::build::IoPath;
use crate::driver::Driver;
use crate::event::EventKind;
use crate::op::{Flags, Op};
use crate::split::{Split, split};
use crate::stack::{DirectPath, Io, Stack, Submitted, Woken, WokenStep};
use crate::status::Status;
use crate::units::{BioId, Instant, TaskId};

/// Workers that a ring has at most for each CPU.
const WORKERS_PER_CPU: u32 = 4;

/// The workers of a task's ring.
#[derive(Clone, Debug, Default)]
pub(in crate::stack) struct Ring {
    /// Workers that have a call.
    busy: u32,
    /// Calls that wait for a worker, in order.
    waiting: VecDeque<(Submission, Io)>,
}

impl Submission {
    /// Returns true if the call is tried without waiting: a worker does not have it yet.
    pub(in crate::stack) const fn is_tried(&self, io: &Io) -> bool {
        io.flags.contains(Flags::TRIED) && !self.in_worker && !self.of_ring
    }
}

impl Stack {
    /// Returns true if a call that is tried is one bio that would have to be split. A call of
    /// several bios is not tried here.
    #[cold]
    pub(super) fn try_is_split(&self, now: Instant, io: &Io, submission: &Submission) -> bool {
        let bytes = io.bytes.get();
        let is_tried = matches!(io.op, Op::Read | Op::Write)
            && submission.path == IoPath::Direct
            && (!submission.plugged || (io.op == Op::Write && self.plugs_whole_write()))
            && self.config.direct_path == DirectPath::Blkdev
            && self.config.error_injection.is_empty()
            && self.control.takes_tries();
        if !is_tried || self.next_data_bytes(io, submission, bytes) != bytes {
            return false;
        }
        let part = Part { op: io.op, flags: io.flags, offset: 0, bytes, segments: 0 };
        let layout = Some(&self.layouts[io.layout.index()]);
        let bio = part.bio(now, io, submission.call);
        matches!(split(&bio, layout, &self.limits, &self.rules), Split::Cut { .. })
    }

    /// Ends the bio of a try that would have to be split, and lets a worker do the call. Limits of
    /// tenants come before the split: the bio has paid, and pays again with the worker.
    #[cold]
    pub(super) fn end_try<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        submission: Submission,
        bio: BioId,
        driver: &mut D,
    ) -> Submitted {
        if self.queues_after_limits() && self.trace.is_on {
            let bio = self.bios[bio.0];
            self.trace_bio(now, EventKind::BioQueue, &bio);
        }
        if submission.plugged {
            self.end_call_plug(now, io, submission.sleeps, driver);
        }
        // A worker of limits is not the task of the ring.
        let io = Io { task: self.calls[submission.call].task, ..*io };
        self.give_to_worker(now, &io, submission, bio, driver);
        Submitted::Accepted
    }

    /// Ends a bio with EAGAIN, and lets a worker do its call.
    fn give_to_worker<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        submission: Submission,
        bio: BioId,
        driver: &mut D,
    ) {
        let bio = *self.bios.remove(bio.0);
        self.control.on_try(bio.tenant, bio.op.stat_group(), bio.bytes);
        if self.trace.is_on {
            self.trace_bio(now, EventKind::BioAgain, &bio);
        }
        self.calls[submission.call].parts -= 1;
        let submission = Submission {
            built: 0,
            rest: None,
            tag_limit: None,
            of_ring: true,
            ..submission.in_worker()
        };
        let most = WORKERS_PER_CPU * u32::from(self.config.cpus);
        let ring = self.ring_of(io.task);
        if ring.busy == most {
            ring.waiting.push_back((submission, *io));
            return;
        }
        ring.busy += 1;
        self.woken.push(Woken {
            at: now + driver.tag_wake_delay(),
            step: WokenStep::Work(submission, *io),
        });
    }

    fn ring_of(&mut self, task: TaskId) -> &mut Ring {
        if task.index() >= self.rings.len() {
            self.rings.resize(task.index() + 1, Ring::default());
        }
        &mut self.rings[task.index()]
    }

    /// Gives the worker of a call whose bios are all placed the next call of its ring, if one
    /// waits. It is awake and goes on at once.
    #[cold]
    pub(super) fn end_work(&mut self, now: Instant, task: TaskId) {
        let ring = self.ring_of(task);
        match ring.waiting.pop_front() {
            Some((submission, io)) => {
                self.woken.push(Woken { at: now, step: WokenStep::Work(submission, io) });
            }
            None => ring.busy -= 1,
        }
    }

    /// Returns true if a bio that found no tag is the try of its whole call.
    fn is_failed_try(&self, io: &Io, submission: &Submission, bio: BioId) -> bool {
        submission.is_tried(io)
            && !submission.plugged
            && self.bios[bio.0].bytes == io.bytes
            && self.control.takes_tries()
            && !self.control.has_gates()
    }

    /// Ends or hands on a fragment that found no tag, or lets its submission sleep for one. Returns
    /// `None` if the submission goes on with the next bio.
    #[cold]
    pub(super) fn go_without_tag<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        submission: Submission,
        bio: BioId,
        driver: &mut D,
    ) -> Option<Submitted> {
        if io.flags.contains(Flags::NOWAIT) {
            self.give_place_back(now, bio);
            self.drop_bio(bio);
            self.end_bio(bio, Status::Again);
            return None;
        }
        if self.is_failed_try(io, &submission, bio) {
            self.give_to_worker(now, io, submission, bio, driver);
            return Some(Submitted::Accepted);
        }
        Some(self.sleep_for_tag(now, io, submission, bio, driver))
    }

    /// Lets a worker do a call from its beginning. Before 6.5 a write of the device is under a plug
    /// there, too: that of the task stands for the worker's, if the task is not in a call itself.
    pub(super) fn work<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        submission: Submission,
        driver: &mut D,
    ) {
        let takes_plug = io.op == Op::Write
            && self.plugs_whole_write()
            && !self.tasks[io.task.index()].plug.is_open();
        let submission = if takes_plug {
            self.task_mut(io.task).plug.begin();
            Submission { plugged: true, in_worker: false, ..submission }
        } else {
            submission
        };
        self.run_submission(now, io, submission, None, driver);
    }
}
