//! Where tenants are controlled on the path of a bio: limits before it is cut, gates before it
//! becomes a request, the clocks of what it waited for. Nothing here runs while no tenant is
//! watched or ruled.

extern crate alloc;
use alloc::vec::Vec;

use super::submit::Submission;
use super::{Io, Stack, Submitted};
use crate::control::{BioCost, Cause, Control, DISCARD_BYTES, Finished, Stage, StageVerdict};
use crate::driver::Driver;
use crate::op::{Flags, Op};
use crate::request::Request;
use crate::tenant::{TenantError, Tenants};
use crate::units::{BioId, Instant, RequestId, TenantId};

/// A bio that a stage keeps, and what of its call waits with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct GatedBio {
    io: Io,
    submission: Submission,
    stage: Stage,
    /// What a split left over.
    is_cut: bool,
    /// The rest of the call waits behind it.
    asleep: bool,
}

impl Stack {
    /// The tree of tenants.
    pub fn tenants(&self) -> &Tenants {
        self.control.tenants()
    }

    /// Everything that is kept per tenant: settings, statistics, what I/O waited for.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The same, to be changed. What a change lets go goes with the next [`Self::handle_timers`],
    /// which [`Self::next_timer`] asks for at once.
    pub fn control_mut(&mut self) -> &mut Control {
        &mut self.control
    }

    /// Removes a tenant that has no children. Its rules are gone, what they held goes on at once,
    /// and its late I/O is charged to the nearest living ancestor.
    pub fn remove_tenant(&mut self, now: Instant, tenant: TenantId) -> Result<(), TenantError> {
        self.advance(now);
        self.control.remove_tenant(now, tenant)
    }

    /// A bio as limits and gates see it.
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

    /// A bio meets its tenant's policy of priority and the limits, before it is cut.
    #[inline(never)]
    pub(super) fn admit_bio(
        &mut self,
        now: Instant,
        io: &Io,
        submission: &Submission,
        id: BioId,
        is_cut: bool,
    ) -> StageVerdict {
        if self.admitted.take() == Some(id) {
            return StageVerdict::Pass;
        }
        let bio = &mut self.bios[id.0];
        bio.tenant = self.control.tenants().charged(bio.tenant);
        bio.since = now;
        if !is_cut {
            bio.ioprio = self.control.ioprio(bio.tenant, bio.ioprio);
        }
        let charge = self.charge_of(io, id, !is_cut);
        match self.control.admit(now, Stage::FIRST, id, &charge) {
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

    /// Limits have let a bio go: here its latency begins, and its tenant's statistics count it.
    fn issue_bio(&mut self, now: Instant, id: BioId, charge: &BioCost) {
        let bio = &mut self.bios[id.0];
        bio.queued = now;
        bio.since = now;
        self.control.on_issue(bio.tenant, bio.op.stat_group(), bio.bytes, charge.first);
    }

    /// The bio waits, the call goes on without it.
    fn keep_alone(&mut self, io: &Io, submission: Submission, stage: Stage, id: BioId, is_cut: bool) {
        let submission = submission.of_held(id, io.bytes, is_cut);
        self.calls[self.bios[id.0].io].parts += 1;
        self.keep(id, GatedBio { io: Io { may_block: false, ..*io }, submission, stage, is_cut, asleep: false });
    }

    fn keep(&mut self, id: BioId, held: GatedBio) {
        let index = id.index();
        if index >= self.held.len() {
            self.held.resize(index + 1, None);
        }
        debug_assert!(self.held[index].is_none(), "a bio is held twice");
        self.held[index] = Some(held);
    }

    /// A fragment that could not merge meets the gates.
    #[inline(never)]
    pub(super) fn gate_bio(&mut self, now: Instant, io: &Io, id: BioId) -> StageVerdict {
        let charge = self.charge_of(io, id, true);
        // Who pays here is whom the gates are told of at the end, whatever becomes of the tenant.
        let before = core::mem::replace(&mut self.bios[id.0].tenant, charge.tenant);
        self.control.on_move(before, charge.tenant);
        let (stage, verdict) = self.control.admit(now, Stage::FIRST_GATE, id, &charge);
        if verdict == StageVerdict::Pass {
            self.bios[id.0].gated = true;
        } else {
            self.control.asleep = Some((stage, false));
        }
        verdict
    }

    /// A fragment joined a request that had passed the gates.
    #[inline(never)]
    pub(super) fn gate_merged(&mut self, now: Instant, io: &Io, id: BioId) {
        let charge = self.charge_of(io, id, true);
        self.control.on_merge(now, &charge);
    }

    /// A stage keeps a bio and the rest of its call waits behind it.
    pub(super) fn sleep_in_control<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        submission: Submission,
        id: BioId,
        driver: &mut D,
    ) -> Submitted {
        let (stage, is_cut) = self.control.asleep.take().expect("a stage said so");
        let submission = self.fall_asleep(now, io, submission, driver);
        self.keep(id, GatedBio { io: *io, submission, stage, is_cut, asleep: true });
        if io.may_block { Submitted::Blocked } else { Submitted::Accepted }
    }

    /// Lets go on whatever the stages release now.
    pub(super) fn run_control<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        let mut released: Vec<BioId> = core::mem::take(&mut self.released);
        for stage in Stage::ALL {
            self.control.release(now, stage, &mut released);
            for id in released.drain(..) {
                let held = self.held[id.index()].take().expect("a stage releases what it was given");
                debug_assert_eq!(held.stage, stage);
                self.bios[id.0].since = now;
                match stage.is_gate() {
                    true => self.go_on_gated(now, held, id, driver),
                    false => self.go_on_admitted(now, held, id, driver),
                }
            }
        }
        self.control.refresh();
        self.released = released;
    }

    /// A limit has let a bio go: the next ones are asked.
    fn go_on_admitted<D: Driver>(&mut self, now: Instant, held: GatedBio, id: BioId, driver: &mut D) {
        let GatedBio { io, submission, is_cut, asleep, .. } = held;
        let charge = self.charge_of(&io, id, !is_cut);
        let (stage, verdict) = match held.stage.next() {
            Some(next) => self.control.admit(now, next, id, &charge),
            None => (held.stage, StageVerdict::Pass),
        };
        match verdict {
            StageVerdict::Pass => {
                self.issue_bio(now, id, &charge);
                // What goes on begins with this bio, which is not to be asked again; what a split
                // leaves of it is.
                self.admitted = Some(id);
                if asleep {
                    self.wake_submission(now, &io, submission.after_held(id, is_cut), None, driver);
                } else {
                    self.run_submission(now, &io, submission, None, driver);
                }
                self.admitted = None;
            }
            StageVerdict::Hold if asleep => {
                self.keep_alone(&io, submission, stage, id, is_cut);
                self.wake_submission(now, &io, submission, None, driver);
            }
            StageVerdict::Hold | StageVerdict::Sleep => self.keep(id, GatedBio { stage, ..held }),
        }
    }

    /// A gate has let a fragment go: the next ones are asked, then it takes its tag.
    fn go_on_gated<D: Driver>(&mut self, now: Instant, held: GatedBio, id: BioId, driver: &mut D) {
        let charge = self.charge_of(&held.io, id, true);
        // Late I/O of a tenant that was removed meanwhile is let go: the gates before knew it under
        // its old name.
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

    /// A bio has stopped waiting for something.
    #[inline(never)]
    pub(super) fn charge_wait(&mut self, now: Instant, id: BioId, cause: Cause) {
        let bio = &mut self.bios[id.0];
        let waited = now.since(bio.since);
        bio.since = now;
        self.control.add_wait(bio.tenant, cause, waited);
    }

    /// A bio begins to wait for the scheduler, after its plug.
    pub(super) fn enter_scheduler(&mut self, now: Instant, id: BioId) {
        self.charge_wait(now, id, Cause::Plug);
        let bio = &mut self.bios[id.0];
        if !core::mem::replace(&mut bio.in_scheduler, true) {
            self.control.begin_scheduler_wait(now, bio.tenant);
        }
    }

    /// The same for every bio of a request.
    #[inline(never)]
    pub(super) fn request_enters_scheduler(&mut self, now: Instant, request: RequestId) {
        let mut next = self.requests[request].bio_head;
        while let Some(id) = next {
            next = self.bios[id.0].next;
            self.enter_scheduler(now, id);
        }
    }

    /// A bio has waited for the scheduler, where it did; else for `otherwise`.
    fn leave_scheduler(&mut self, now: Instant, id: BioId, otherwise: Cause) {
        let bio = &mut self.bios[id.0];
        if core::mem::replace(&mut bio.in_scheduler, false) {
            bio.since = now;
            self.control.end_scheduler_wait(now, bio.tenant);
        } else {
            self.charge_wait(now, id, otherwise);
        }
    }

    /// The device was given a request.
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

    /// The device gave a request back.
    pub(super) fn request_given_back(&mut self, now: Instant, request: RequestId) {
        let mut next = self.requests[request].bio_head;
        while let Some(id) = next {
            next = self.bios[id.0].next;
            self.charge_wait(now, id, Cause::Device);
        }
    }

    /// A bio ends before it became part of a request.
    pub(super) fn drop_bio(&mut self, id: BioId) {
        self.control.on_drop(self.bios[id.0].tenant);
    }

    /// A bio of a watched tenant is over.
    #[inline(never)]
    pub(super) fn finish_bio(&mut self, now: Instant, request: RequestId, id: BioId, in_flight: bool) {
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
