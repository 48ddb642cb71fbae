//! A test environment for schedulers: a request table, a clock, and devices as fast as the test
//! says.

use super::{Scheduler, View};
use crate::bio::{Bio, DataRange};
use crate::ioprio::{IoPrio, PrioClass};
use crate::kernel::{Kernel, Rules};
use crate::merge::MergeKind;
use crate::op::{Flags, Op};
use crate::request::{Requests, State};
use crate::units::{Bytes, HwQueue, Instant, Nanos, RequestId, Sector, Sectors, TaskId, TenantId};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub(crate) use elevon_testkit::Rng;

pub(crate) struct Bed<S> {
    pub requests: Requests,
    pub rules: Rules,
    pub scheduler: S,
    pub now: Instant,
}

pub(crate) fn bio(op: Op, sector: u64, sectors: u64, class: PrioClass) -> Bio {
    Bio {
        op,
        flags: Flags::NONE,
        ioprio: IoPrio::new(class, 4),
        write_hint: 0,
        segments: 1,
        sector: Sector::new(sector),
        bytes: Bytes::new(sectors * 512),
        data: DataRange::default(),
        task: TaskId(0),
        tenant: TenantId(0),
        io: 0,
        token: 0,
        next: None,
        queued: Instant::ZERO,
        since: Instant::ZERO,
        gated: false,
        has_place: false,
        in_scheduler: false,
    }
}

impl<S: Scheduler> Bed<S> {
    pub(crate) fn new(kernel: Kernel, scheduler: S, requests: usize) -> Self {
        Self {
            requests: Requests::new(requests),
            rules: kernel.rules(),
            scheduler,
            now: Instant::ZERO,
        }
    }

    /// Prepares a free request of eight sectors for insertion, from a plug.
    pub(crate) fn prepare(&mut self, op: Op, sector: u64, class: PrioClass) -> RequestId {
        let free = self.requests.iter().find(|(_, r)| r.state == State::Free);
        let id = free.expect("the test has too few requests").0;
        let r = &mut self.requests[id];
        r.state = State::Queued;
        r.plugged = true;
        r.op = op;
        r.ioprio = IoPrio::new(class, 4);
        r.sector = Sector::new(sector);
        r.sectors = Sectors::new(8);
        r.task = TaskId(0);
        id
    }

    pub(crate) fn insert(&mut self, op: Op, sector: u64, class: PrioClass) -> RequestId {
        let id = self.prepare(op, sector, class);
        self.insert_prepared(id, false);
        id
    }

    pub(crate) fn insert_prepared(&mut self, id: RequestId, at_head: bool) {
        let view = View { requests: &self.requests, rules: &self.rules };
        self.scheduler.insert(self.now, view, id, at_head);
        self.check();
    }

    pub(crate) fn read(&mut self, sector: u64) -> RequestId {
        self.insert(Op::Read, sector, PrioClass::Be)
    }
    pub(crate) fn write(&mut self, sector: u64) -> RequestId {
        self.insert(Op::Write, sector, PrioClass::Be)
    }

    pub(crate) fn dispatch_on(&mut self, queue: u16) -> Option<RequestId> {
        let view = View { requests: &self.requests, rules: &self.rules };
        let id = self.scheduler.dispatch(self.now, view, HwQueue(queue))?;
        assert_eq!(self.requests[id].state, State::Queued, "dispatched twice");
        self.requests[id].state = State::InFlight;
        self.check();
        Some(id)
    }
    pub(crate) fn dispatch(&mut self) -> Option<RequestId> {
        self.dispatch_on(0)
    }

    pub(crate) fn finish(&mut self, id: RequestId) {
        let view = View { requests: &self.requests, rules: &self.rules };
        self.scheduler.on_finish(self.now, view, id);
        self.requests.free(id);
    }

    pub(crate) fn requeue(&mut self, id: RequestId) {
        let view = View { requests: &self.requests, rules: &self.rules };
        self.scheduler.on_requeue(self.now, view, id);
        self.requests[id].state = State::Queued;
        self.insert_prepared(id, true);
    }

    /// Dispatches and completes up to `count` requests. Returns their names, such as `R100`, with
    /// the class if it is not BE.
    pub(crate) fn serve(&mut self, count: usize) -> Vec<String> {
        let mut served = Vec::new();
        while served.len() < count
            && let Some(id) = self.dispatch()
        {
            served.push(self.name(id));
            self.finish(id);
        }
        served
    }
    /// Serves all requests.
    pub(crate) fn drain(&mut self) -> String {
        self.serve(usize::MAX).join(" ")
    }

    pub(crate) fn name(&self, id: RequestId) -> String {
        let r = &self.requests[id];
        let class = match r.ioprio.class() {
            PrioClass::Rt => "rt:",
            PrioClass::Idle => "idle:",
            PrioClass::None | PrioClass::Be => "",
        };
        format!("{class}{}{}", if r.op.is_write() { 'W' } else { 'R' }, r.sector.get())
    }

    pub(crate) fn find_merge(
        &mut self,
        bio: &Bio,
        one_hit_only: bool,
    ) -> Option<(RequestId, MergeKind)> {
        let view = View { requests: &self.requests, rules: &self.rules };
        self.scheduler.find_merge(view, bio, one_hit_only)
    }

    /// Merges the bio into the request, as the stack does it.
    pub(crate) fn join(&mut self, bio: &Bio, id: RequestId, kind: MergeKind) {
        let before = self.requests[id].sector;
        let r = &mut self.requests[id];
        r.sectors += bio.sectors();
        if kind == MergeKind::Front {
            r.sector = bio.sector;
        }
        let view = View { requests: &self.requests, rules: &self.rules };
        self.scheduler.on_bio_merged(view, id, kind, before);
        self.check();
    }

    /// Merges `swallowed` into `survivor`, as the stack does it; returns after `swallowed` was
    /// freed.
    pub(crate) fn swallow(&mut self, survivor: RequestId, swallowed: RequestId) {
        let view = View { requests: &self.requests, rules: &self.rules };
        self.scheduler.on_requests_merged(self.now, view, survivor, swallowed);
        let sectors = self.requests[swallowed].sectors;
        self.requests[survivor].sectors += sectors;
        self.finish(swallowed);
        self.check();
    }

    pub(crate) fn at(&mut self, ms: u64) {
        let now = Instant::ZERO + Nanos::from_millis(ms);
        assert!(now >= self.now, "time goes forward");
        self.now = now;
    }

    pub(crate) fn check(&self) {
        self.scheduler.self_check(View { requests: &self.requests, rules: &self.rules });
    }
}
