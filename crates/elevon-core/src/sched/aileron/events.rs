//! What the stack tells the scheduler.

use super::super::{Scheduler, View};
use super::cost::Direction;
use super::floors::Reserve;
use super::slot::{Place, Slot};
use super::{Aileron, class_and_weight};
use crate::bio::Bio;
use crate::merge::MergeKind;
use crate::units::{HwQueue, Instant, Nanos, RequestId, Sector, TaskId, TenantId};

impl Scheduler for Aileron {
    fn insert(&mut self, now: Instant, view: View<'_>, id: RequestId, at_head: bool) {
        self.advance(now);
        if id.index() >= self.slots.len() {
            self.grow(view.requests.len());
        }
        let request = &view.requests[id];
        debug_assert_eq!(
            self.slots[id.index()].place,
            Place::Unknown,
            "request {} is inserted twice",
            id.0
        );
        self.waiting += 1;
        let queue = (request.task != TaskId::IDLE).then(|| self.queue_for(request));
        let filed_in = queue.filter(|_| !at_head);
        let slot = &mut self.slots[id.index()];
        (slot.place, slot.queue) =
            (if filed_in.is_some() { Place::Queued } else { Place::AtHead }, queue);
        (slot.direction, slot.is_next) = (Direction::from_op(request.op), false);
        (slot.sector, slot.sectors) = (request.sector, request.sectors.get());
        if let Some(q) = filed_in {
            self.file(q, id);
            self.elevator.add(view, id);
            return;
        }
        if at_head {
            self.lists.push_front(&mut self.at_head, id);
        } else {
            self.lists.push_back(&mut self.at_head, id);
        }
    }

    fn dispatch(&mut self, now: Instant, _view: View<'_>, _queue: HwQueue) -> Option<RequestId> {
        self.advance(now);
        self.next_request()
    }

    #[inline]
    fn has_work(&self, _queue: HwQueue) -> bool {
        self.waiting > 0
    }

    fn find_merge(
        &mut self,
        view: View<'_>,
        bio: &Bio,
        one_hit_only: bool,
    ) -> Option<(RequestId, MergeKind)> {
        let (class, _) = class_and_weight(bio.ioprio);
        let q = self.tasks.get(bio.task.index())?.queues[class]?;
        let Self { elevator, slots, queues, by_sector, .. } = self;
        let allows = |id: RequestId| slots[id.index()].queue == Some(q);
        elevator.find_merge_among(view, bio, one_hit_only, allows, || {
            by_sector.first_at(queues[q.index()].sorted, bio.end())
        })
    }

    fn find_insert_merge(
        &mut self,
        view: View<'_>,
        id: RequestId,
        one_hit_only: bool,
    ) -> Option<RequestId> {
        self.elevator.find_insert_merge(view, id, one_hit_only)
    }

    fn on_bio_merged(&mut self, view: View<'_>, id: RequestId, _kind: MergeKind, before: Sector) {
        let request = &view.requests[id];
        self.resize(id, request.sectors.get(), request.end());
        if let Some(q) = self.slots[id.index()].queue
            && request.sector != before
        {
            self.slots[id.index()].sector = request.sector;
            if self.by_sector.contains(id) {
                let sorted = &mut self.queues[q.index()].sorted;
                self.by_sector.refile(sorted, request.sector, id);
            }
        }
        self.elevator.on_bio_merged(view, id);
    }

    fn neighbour(&self, _view: View<'_>, id: RequestId, kind: MergeKind) -> Option<RequestId> {
        self.by_sector.contains(id).then(|| self.by_sector.neighbour(id, kind)).flatten()
    }

    fn on_requests_merged(
        &mut self,
        now: Instant,
        view: View<'_>,
        survivor: RequestId,
        swallowed: RequestId,
    ) {
        self.advance(now);
        if swallowed.index() >= self.slots.len() {
            self.grow(view.requests.len());
        }
        self.elevator.on_requests_merged(view, survivor, swallowed);
        let swallowed_request = &view.requests[swallowed];
        let sectors = self.slots[survivor.index()].sectors + swallowed_request.sectors.get();
        self.resize(survivor, sectors, swallowed_request.end());
        let gone = self.slots[swallowed.index()];
        if let (Place::Queued, Some(q)) = (gone.place, gone.queue) {
            self.unfile(q, swallowed);
            if self.queue(q).queued == 0 {
                self.shares.deactivate(self.queue(q).member);
            }
            self.end_if_unused(q);
        }
        self.slots[swallowed.index()] = Slot::default();
    }

    fn on_finish(&mut self, now: Instant, view: View<'_>, id: RequestId) {
        let Some(slot) = self.slots.get_mut(id.index()) else { return };
        let place = core::mem::take(&mut slot.place);
        let slot = *slot;
        self.advance(now);
        if place != Place::InDevice {
            return;
        }
        self.stop(&slot);
        self.learn(&slot, view.requests[id].issued);
        self.ended = now;
        if let Some(q) = slot.queue {
            let queue = &mut self.queues[q.index()];
            queue.on_end(now);
            let exited = queue.exited;
            if self.rotational {
                self.wait_in_turn(q);
            } else {
                self.keep_place(q, &slot);
            }
            if exited {
                self.end_if_unused(q);
            }
        }
        if self.waiting > 0 {
            self.kick = now;
        }
    }

    /// Charges those that asked for a FLUSH the time for which it kept the device from others, as
    /// requests that move no data are charged: from the end of the request before it on.
    fn on_shared_flush(
        &mut self,
        now: Instant,
        view: View<'_>,
        began: Instant,
        issuers: &[RequestId],
    ) {
        self.advance(now);
        let kept = now.since(began.max(self.ended));
        let each = Nanos::new(kept.get() / (issuers.len() as u64).max(1));
        self.ended = now;
        for request in issuers
            .iter()
            .map(|&id| &view.requests[id])
            .filter(|request| request.task != TaskId::IDLE)
        {
            let q = self.queue_for(request);
            self.counts.constrained += 1;
            self.shares.charge(self.queue(q).member, each);
        }
    }

    fn on_requeue(&mut self, now: Instant, _view: View<'_>, id: RequestId) {
        self.advance(now);
        let slot = core::mem::take(&mut self.slots[id.index()]);
        if slot.place == Place::InDevice {
            self.stop(&slot);
            if let Some(q) = slot.queue {
                self.end_if_unused(q);
            }
        }
    }

    fn on_task_exit(&mut self, now: Instant, task: TaskId) {
        self.advance(now);
        let Some(of_task) = self.tasks.get_mut(task.index()) else { return };
        for q in core::mem::take(of_task).queues.into_iter().flatten() {
            self.queues[q.index()].exited = true;
            self.end_if_unused(q);
        }
    }

    fn on_driver_tags(&mut self, tags: u32) {
        self.depth.bound(tags);
    }

    fn on_driver_full(&mut self, now: Instant, held: u32) {
        self.counts.refused += 1;
        self.depth.on_full(now, held);
    }

    fn on_queue_info(&mut self, rotational: bool) {
        self.rotational = rotational;
        self.renew_turn();
        let Self { by_sector, lists, slots, queues, .. } = self;
        for queue in queues.iter_mut().filter(|_| rotational) {
            for id in lists.iter(queue.fifo) {
                if !by_sector.contains(id) {
                    by_sector.insert(&mut queue.sorted, slots[id.index()].sector, id);
                }
            }
        }
    }

    /// After a completion a worker runs the queues, as it does for the schedulers of Linux. By then
    /// a process that answers at once has its next request here: no lower class takes its place.
    fn wakes_worker(&self) -> bool {
        true
    }

    fn set_discard_ranges(&mut self, ranges: u16) {
        self.elevator.set_discard_ranges(ranges);
    }

    #[inline]
    fn next_wakeup(&self) -> Instant {
        let kept = self.kept.map_or(Instant::MAX, |kept| kept.until);
        self.kick.min(kept).min(self.turn.until.unwrap_or(Instant::MAX))
    }

    fn on_wakeup(&mut self, now: Instant) {
        self.advance(now);
        self.kick = Instant::MAX;
        self.kept = self.kept.filter(|kept| now < kept.until);
        if self.turn.until.is_some_and(|end| end <= now) {
            self.turn.until = None;
        }
    }

    fn measured(&self) -> Option<(&'static str, u64)> {
        let depth = if self.rotational { 1 } else { self.depth.usable() };
        Some(("usable_depth", depth.into()))
    }

    fn set_group(&mut self, tenant: TenantId, parent: TenantId, weight: u16) {
        let weight = u32::from(weight);
        match self.tenants.get(tenant.index()).copied().flatten() {
            Some(group) => {
                if let Some(member) = self.shares.member_of(group) {
                    self.shares.set_weight(member, weight);
                }
            }
            None if tenant == TenantId(0) => {}
            None => {
                let group = self.shares.add_group(self.group_of(parent), weight);
                if tenant.index() >= self.tenants.len() {
                    self.tenants.resize(tenant.index() + 1, None);
                }
                self.tenants[tenant.index()] = Some(group);
                self.tasks.iter_mut().for_each(|task| task.last = None);
            }
        }
    }

    fn set_reserve(&mut self, now: Instant, tenant: TenantId, reserve: Reserve) {
        if let Some(group) = self.tenants.get(tenant.index()).copied().flatten() {
            self.floors.set(now, group, reserve);
        }
    }

    fn reserve_missed(&self, now: Instant, tenant: TenantId) -> Option<Nanos> {
        let group = self.tenants.get(tenant.index()).copied().flatten()?;
        self.floors.missed(now, group, self.shares.waits(group))
    }

    fn shares_missed(&self, tenant: TenantId) -> Option<Nanos> {
        Some(self.shares.lost_by(self.group_of(tenant)))
    }

    fn self_check(&self, view: View<'_>) {
        self.check_all(view);
    }
}
