//! Control of tenants in the stack: limiters before a bio is split, gates before it becomes a
//! request, and the measurement of what it waited for. Nothing here runs while no tenant is watched
//! and no rule is set.

extern crate alloc;
use alloc::vec::Vec;

use super::submit::Submission;
use super::{Io, Stack, Submitted};
use crate::control::{
    BioCost, Cause, DISCARD_BYTES, Finished, StageId, StageVerdict, TenantControl,
};
use crate::driver::Driver;
use crate::op::{Flags, Op};
use crate::request::{Request, State};
use crate::sched::Reserve;
use crate::status::Status;
use crate::tenant::{TenantError, Tenants};
use crate::units::{BioId, Instant, RequestId, TaskId, TenantId};

/// A bio that a stage holds, and the part of its call that waits with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct GatedBio {
    io: Io,
    submission: Submission,
    stage: StageId,
    /// The bio is the remainder of a split.
    is_cut: bool,
    /// The rest of the call waits until this bio is released.
    asleep: bool,
}

impl Stack {
    /// The tree of tenants.
    pub fn tenants(&self) -> &Tenants {
        self.control.tenants()
    }

    /// Everything that is stored per tenant: settings, statistics, waiting times of I/O.
    pub fn control(&self) -> &TenantControl {
        &self.control
    }

    /// The same, to be changed. Bios that a change releases continue with the next
    /// [`Self::handle_timers`], which [`Self::next_timer`] then requests at once.
    pub fn control_mut(&mut self) -> &mut TenantControl {
        &mut self.control
    }

    /// Sets the task that submits bios which io.max held, as a worker of the kernel does: under one
    /// plug for all that go at once. BFQ then takes them for I/O of that task, of the default
    /// priority and in the group of their tenant; mq-deadline keeps the priority that they came
    /// with. Without such a task, each is submitted by the task that sent it. Measured on Linux
    /// 6.18. `worker` must not be used for other I/O.
    pub fn set_limit_worker(&mut self, worker: TaskId) {
        self.held.limit_worker = Some(worker);
    }

    /// Removes a tenant that has no children. Its rules are removed, bios that they held continue
    /// at once, and its late I/O is charged to the nearest living ancestor.
    ///
    /// # Errors
    /// The tenant is the root, unknown or removed, or has children. Nothing is changed in this
    /// case.
    pub fn remove_tenant(&mut self, now: Instant, tenant: TenantId) -> Result<(), TenantError> {
        self.advance(now);
        self.control.remove_tenant(now, tenant)?;
        self.set_reserve(now, tenant, Reserve::default());
        Ok(())
    }

    /// Returns the description of a bio for limiters and gates.
    fn charge_of(&self, io: &Io, id: BioId, first: bool) -> BioCost {
        let bio = &self.bios[id.0];
        BioCost {
            tenant: self.control.tenants().charged(bio.tenant),
            op: bio.op,
            ioprio: bio.ioprio,
            sector: bio.sector,
            bytes: if bio.op == Op::Discard { DISCARD_BYTES } else { bio.bytes.get() },
            first,
            must_issue: bio.flags.contains(Flags::META),
            may_sleep: io.may_block,
        }
    }

    /// Applies the tenant's priority policy and the limiters to a bio that is not split yet.
    #[inline(never)]
    pub(super) fn admit_bio(
        &mut self,
        now: Instant,
        io: &Io,
        submission: &Submission,
        id: BioId,
        is_cut: bool,
    ) -> StageVerdict {
        if self.held.admitted.take() == Some(id) {
            return StageVerdict::Pass;
        }
        let bio = &mut self.bios[id.0];
        bio.tenant = self.control.tenants().charged(bio.tenant);
        bio.since = now;
        if !is_cut {
            bio.ioprio = self.control.ioprio(bio.tenant, bio.ioprio);
        }
        let charge = self.charge_of(io, id, !is_cut);
        match self.control.admit(now, StageId::FIRST, id, &charge) {
            (_, StageVerdict::Pass) => {
                self.issue_bio(now, id, &charge);
                StageVerdict::Pass
            }
            (stage, StageVerdict::Hold) => {
                self.keep_alone(io, *submission, stage, id, is_cut);
                StageVerdict::Hold
            }
            (stage, StageVerdict::Sleep) => {
                self.control.asleep = Some((stage, is_cut));
                StageVerdict::Sleep
            }
        }
    }

    /// Marks a bio as issued after the limiters released it: its latency is measured from here, and
    /// its tenant's statistics count it.
    fn issue_bio(&mut self, now: Instant, id: BioId, charge: &BioCost) {
        let bio = &mut self.bios[id.0];
        bio.queued = now;
        bio.since = now;
        self.control.on_issue(bio.tenant, bio.op.stat_group(), bio.bytes, charge.first);
    }

    /// Holds a bio while its call goes on without it.
    fn keep_alone(
        &mut self,
        io: &Io,
        submission: Submission,
        stage: StageId,
        id: BioId,
        is_cut: bool,
    ) {
        let submission = submission.of_held(id, io.bytes, is_cut);
        self.calls[self.bios[id.0].io].parts += 1;
        self.keep(
            id,
            GatedBio {
                io: Io { may_block: false, ..*io },
                submission,
                stage,
                is_cut,
                asleep: false,
            },
        );
    }

    fn keep(&mut self, id: BioId, held: GatedBio) {
        let index = id.index();
        if index >= self.held.bios.len() {
            self.held.bios.resize(index + 1, None);
        }
        debug_assert!(self.held.bios[index].is_none(), "a bio is held twice");
        self.held.bios[index] = Some(held);
    }

    /// Asks the gates about a fragment that could not be merged.
    #[inline(never)]
    pub(super) fn gate_bio(&mut self, now: Instant, io: &Io, id: BioId) -> StageVerdict {
        let charge = self.charge_of(io, id, true);
        // From here on the bio keeps the tenant that is charged now: the gates get the same tenant
        // at completion, even if it is removed meanwhile.
        let before = core::mem::replace(&mut self.bios[id.0].tenant, charge.tenant);
        self.control.on_move(before, charge.tenant);
        let (stage, verdict) = self.control.admit(now, StageId::FIRST_GATE, id, &charge);
        if verdict == StageVerdict::Pass {
            self.bios[id.0].gated = true;
        } else {
            self.control.asleep = Some((stage, false));
        }
        verdict
    }

    /// Tells the gates that a fragment was merged into a request that had passed them.
    #[inline(never)]
    pub(super) fn gate_merged(&mut self, now: Instant, io: &Io, id: BioId) {
        let charge = self.charge_of(io, id, true);
        self.control.on_merge(now, &charge);
    }

    /// Holds a bio in a stage, and the rest of its call behind it.
    pub(super) fn sleep_in_control<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        submission: Submission,
        id: BioId,
        driver: &mut D,
    ) -> Submitted {
        let (stage, is_cut) = self.control.asleep.take().expect("a stage said so");
        // A gate does not ask whether a call may wait: the task of a ring sleeps in its own call.
        let is_tried = submission.is_tried(io);
        let io = Io { may_block: io.may_block || (stage.is_gate() && is_tried), ..*io };
        let submission = self.fall_asleep(now, &io, submission, driver);
        self.keep(id, GatedBio { io, submission, stage, is_cut, asleep: true });
        if io.may_block { Submitted::Blocked } else { Submitted::Accepted }
    }

    /// Continues all bios that the stages release now.
    pub(super) fn run_control<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        let mut released: Vec<BioId> = core::mem::take(&mut self.held.released);
        for stage in StageId::ALL {
            self.control.release(now, stage, &mut released);
            let worker =
                self.held.limit_worker.filter(|_| stage.has_worker() && !released.is_empty());
            if let Some(worker) = worker {
                self.task_mut(worker).plug.begin();
            }
            for id in released.drain(..) {
                let mut held =
                    self.held.bios[id.index()].take().expect("a stage releases what it was given");
                debug_assert_eq!(held.stage, stage);
                self.bios[id.0].since = now;
                if let Some(worker) = worker {
                    held.io.task = worker;
                    held.submission = held.submission.of_limit_worker();
                    let bio = &mut self.bios[id.0];
                    bio.task = worker;
                    bio.flags |= Flags::OWN_PRIO;
                }
                match stage.is_gate() {
                    true => self.go_on_gated(now, held, id, driver),
                    false => self.go_on_admitted(now, held, id, driver),
                }
            }
            if let Some(worker) = worker {
                self.end_plug(now, worker, driver);
            }
        }
        self.control.refresh();
        self.held.released = released;
    }

    /// Ends the bios of a task that `io.max` and exact limits hold, with `status`: no task waits
    /// for them any more. Their tenant does not pay for them. What other stages hold goes on.
    pub fn withdraw(&mut self, now: Instant, task: TaskId, status: Status) {
        self.advance(now);
        let held = core::mem::take(&mut self.held.bios);
        let is_of_task =
            |id: BioId| held[id.index()].is_some_and(|held| held.io.task == task && !held.asleep);
        let mut withdrawn: Vec<BioId> = core::mem::take(&mut self.held.released);
        for stage in StageId::ALL {
            self.control.withdraw(now, stage, &is_of_task, &mut withdrawn);
        }
        self.held.bios = held;
        for id in withdrawn.drain(..) {
            let held = self.held.bios[id.index()].take();
            debug_assert!(held.is_some(), "a stage returns what it was given");
            // The bio is a part of its call, and what was left to do for it another one.
            let call = self.bios[id.0].io;
            self.end_bio(id, status);
            self.end_part(call, status);
        }
        self.held.released = withdrawn;
        self.control.refresh();
    }

    /// Continues a bio that a limiter released: asks the next limiters first.
    fn go_on_admitted<D: Driver>(
        &mut self,
        now: Instant,
        held: GatedBio,
        id: BioId,
        driver: &mut D,
    ) {
        let GatedBio { io, submission, is_cut, asleep, .. } = held;
        let charge = self.charge_of(&io, id, !is_cut);
        let (stage, verdict) = match held.stage.next() {
            Some(next) => self.control.admit(now, next, id, &charge),
            None => (held.stage, StageVerdict::Pass),
        };
        match verdict {
            StageVerdict::Pass => {
                self.issue_bio(now, id, &charge);
                // The submission continues with this bio, which must not be checked again. The
                // remainder of its split is checked.
                self.held.admitted = Some(id);
                if asleep {
                    self.wake_submission(now, &io, submission.after_held(id, is_cut), None, driver);
                } else {
                    self.run_submission(now, &io, submission, None, driver);
                }
                self.held.admitted = None;
            }
            StageVerdict::Hold if asleep => {
                self.keep_alone(&io, submission, stage, id, is_cut);
                self.wake_submission(now, &io, submission, None, driver);
            }
            StageVerdict::Hold | StageVerdict::Sleep => self.keep(id, GatedBio { stage, ..held }),
        }
    }

    /// Continues a fragment that a gate released: asks the next gates, then it takes a tag.
    fn go_on_gated<D: Driver>(&mut self, now: Instant, held: GatedBio, id: BioId, driver: &mut D) {
        let charge = self.charge_of(&held.io, id, true);
        // Late I/O of a tenant that was removed meanwhile skips the remaining gates: the earlier
        // gates know it under the old tenant.
        let next = held.stage.next().filter(|_| charge.tenant == self.bios[id.0].tenant);
        let (stage, verdict) = match next {
            Some(next) => self.control.admit(now, next, id, &charge),
            None => (held.stage, StageVerdict::Pass),
        };
        if verdict == StageVerdict::Pass {
            self.bios[id.0].gated = true;
            self.wake_submission(now, &held.io, held.submission, Some(id), driver);
        } else {
            self.keep(id, GatedBio { stage, ..held });
        }
    }

    /// Adds the time since `bio.since` to the tenant's waiting time for `cause`.
    #[inline(never)]
    pub(super) fn charge_wait(&mut self, now: Instant, id: BioId, cause: Cause) {
        let bio = &mut self.bios[id.0];
        let waited = now.since(bio.since);
        bio.since = now;
        self.control.add_wait(bio.tenant, cause, waited);
    }

    /// Records that a bio now waits for the scheduler. It waited for `before` until now.
    pub(super) fn enter_scheduler(&mut self, now: Instant, id: BioId, before: Cause) {
        self.charge_wait(now, id, before);
        let bio = &mut self.bios[id.0];
        if !core::mem::replace(&mut bio.in_scheduler, true) {
            self.control.begin_scheduler_wait(now, bio.tenant);
        }
    }

    /// As [`Self::enter_scheduler`], for every bio of a request.
    #[inline(never)]
    pub(super) fn request_enters_scheduler(&mut self, now: Instant, request: RequestId) {
        let Request { bio_head: mut next, flush, .. } = self.requests[request];
        let before = if flush.is_some() { Cause::Flush } else { Cause::Plug };
        while let Some(id) = next {
            next = self.bios[id.0].next;
            self.enter_scheduler(now, id, before);
        }
    }

    /// Records that a bio no longer waits for the scheduler. If it did not wait there, the time
    /// counts as waiting for `otherwise`.
    fn leave_scheduler(&mut self, now: Instant, id: BioId, otherwise: Cause) {
        let bio = &mut self.bios[id.0];
        if core::mem::replace(&mut bio.in_scheduler, false) {
            bio.since = now;
            self.control.end_scheduler_wait(now, bio.tenant);
        } else {
            self.charge_wait(now, id, otherwise);
        }
    }

    /// Records that a request was issued to the device.
    #[inline(never)]
    pub(super) fn request_issued(&mut self, now: Instant, request: RequestId) {
        let Request { bio_head: mut next, flush, tenant, op, .. } = self.requests[request];
        let otherwise = if flush.is_some() { Cause::Flush } else { Cause::Plug };
        while let Some(id) = next {
            next = self.bios[id.0].next;
            self.leave_scheduler(now, id, otherwise);
        }
        if op != Op::Flush {
            self.control.on_dispatch(now, tenant);
        }
    }

    /// Adds the time that a request has been at the device, until it gives it back or until now, to
    /// what its tenants waited for.
    pub(super) fn charge_device_time(&mut self, now: Instant, request: RequestId) {
        let mut next = self.requests[request].bio_head;
        while let Some(id) = next {
            next = self.bios[id.0].next;
            self.charge_wait(now, id, Cause::Device);
        }
    }

    /// Adds what running waits have taken until now to the waiting times of tenants. So a view of
    /// an interval has the waits of that interval and not of the I/Os that ended in it. These are
    /// waits for the scheduler, for `io.max` and exact limits, for a tag, and for the device.
    /// Others are added when they end: for a plug and flushes, and for writeback throttling,
    /// io-throttle, io.cost and io.latency, the last two of which act on the length of waits.
    /// O(requests and tenants); an I/O pays nothing for it.
    pub fn settle_waits(&mut self, now: Instant) {
        self.advance(now);
        if !self.control.is_watched() {
            return;
        }
        for id in (0..self.requests.len()).map(|index| RequestId(index as u32)) {
            if self.requests[id].state == State::InFlight {
                self.charge_device_time(now, id);
            }
        }
        // io.cost is told how long a wait for a tag was, which must not be divided for it.
        let queues = if self.control.has_gates() { 0 } else { self.queues.len() };
        for queue in 0..queues {
            for at in 0..self.queues[queue].waiters.len() {
                self.charge_wait(now, self.queues[queue].waiters[at].bio, Cause::Tag);
            }
        }
        self.control.settle_held(now);
        self.control.settle(now);
    }

    /// Records that a bio ended before it became part of a request.
    pub(super) fn drop_bio(&mut self, id: BioId) {
        self.control.on_drop(self.bios[id.0].tenant);
    }

    /// Records the completion of a bio of a watched tenant.
    #[inline(never)]
    pub(super) fn finish_bio(
        &mut self,
        now: Instant,
        request: RequestId,
        id: BioId,
        in_flight: bool,
    ) {
        self.leave_scheduler(now, id, if in_flight { Cause::Device } else { Cause::Flush });
        let (bio, request) = (&self.bios[id.0], &self.requests[request]);
        self.control.on_finish(
            now,
            &Finished {
                tenant: bio.tenant,
                op: bio.op,
                bytes: bio.bytes.get(),
                must_issue: bio.flags.contains(Flags::META),
                issued: bio.queued,
                allocated: request.start,
                end: now,
            },
            bio.gated,
        );
    }
}
