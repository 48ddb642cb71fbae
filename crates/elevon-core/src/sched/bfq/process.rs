//! Processes, their queues, and the groups they are in.

extern crate alloc;
use alloc::boxed::Box;

use super::cooperation::Saved;
use super::entity::{Class, EntityId, GroupId, TreeState};
use super::queue::BfqQueue;
use super::wf2q::Change;
use super::{Bfq, budget};
use crate::ioprio::{IoPrio, PrioClass};
use crate::op::{Flags, Op};
use crate::request::Request;
use crate::sched::View;
use crate::units::{TaskId, TenantId};

/// State of a process. It is read for every request, so rarely used parts are stored elsewhere.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    /// Its sync queue, which others may share.
    pub(super) sync: Option<EntityId>,
    /// The async queue of its priority.
    pub(super) asynchronous: Option<EntityId>,
    /// Its priority, as of its last I/O that had none of its own.
    pub(super) ioprio: Option<IoPrio>,
    group: Option<GroupId>,
    /// Requests inserted and not completed.
    pub(super) outstanding: u32,
    pub(super) saved: Option<Box<Saved>>,
    /// A queue to merge into when this one is old enough. Because it may be freed before that, the
    /// serial number is checked.
    pub(super) stable_target: Option<(EntityId, u64)>,
}

/// State of a group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupState {
    /// Async queues: eight levels of RT, eight of BE, one of IDLE.
    asynchronous: [Option<EntityId>; 17],
    /// Queues that are busy or have requests in the device.
    pub(super) pending: u32,
}

/// Returns class and level of a priority; NONE is the default.
const fn class_and_level(ioprio: IoPrio) -> (Class, u8) {
    match ioprio.class() {
        PrioClass::Rt => (Class::Rt, ioprio.level()),
        PrioClass::Be => (Class::Be, ioprio.level()),
        PrioClass::None => (Class::Be, 4),
        PrioClass::Idle => (Class::Idle, 7),
    }
}

impl Bfq {
    pub(super) fn group_of(&self, tenant: TenantId) -> GroupId {
        self.tenants.get(tenant.index()).copied().flatten().unwrap_or(GroupId::ROOT)
    }

    pub(super) fn reserve_queues(&mut self, entity: Option<EntityId>) {
        let Some(entity) = entity else { return };
        while self.queues.len() <= entity.index() {
            let mut queue = BfqQueue::new(self.now, self.tick, false, 0);
            queue.live = false;
            self.queues.push(queue);
        }
    }

    fn new_queue(&mut self, group: GroupId, class: Class, level: u8, sync: bool) -> EntityId {
        let q = self.engine.add(group, class, Self::weight_of(class, level));
        self.reserve_queues(Some(q));
        let mut queue = BfqQueue::new(self.now, self.tick, sync, level);
        queue.max_budget = self.budgets.max() * 2 / 3;
        queue.injection.reset(self.tick, queue.short_think);
        self.creation.count += 1;
        queue.serial = self.creation.count;
        *self.queue_mut(q) = queue;
        q
    }

    /// Returns the queue for a request; creates it if needed.
    pub(super) fn queue_for(&mut self, request: &Request) -> EntityId {
        let (task, group) = (request.task, self.group_of(request.tenant));
        let process = self.processes.get(task.index());
        // As in the kernel, that of the process: what a single I/O says is not asked for.
        let ioprio = match request.flags.contains(Flags::OWN_PRIO) {
            true => process.and_then(|process| process.ioprio).unwrap_or(IoPrio::NONE),
            false => request.ioprio,
        };
        let is_same =
            |process: &&Process| process.ioprio == Some(ioprio) && process.group == Some(group);
        let (own, asynchronous) = match process.filter(is_same) {
            Some(process) => (process.sync, process.asynchronous),
            None => self.follow_process(task, ioprio, group),
        };
        match (request.is_sync(), own) {
            (true, Some(q)) if !self.queue(q).shared => q,
            (true, own) => self.other_sync_queue(own, task, group, ioprio),
            (false, _) => asynchronous.unwrap_or_else(|| {
                let q = self.async_queue(group, ioprio);
                self.processes[task.index()].asynchronous = Some(q);
                q
            }),
        }
    }

    /// Returns the sync queue of a process that has none, or shares it.
    #[cold]
    fn other_sync_queue(
        &mut self,
        own: Option<EntityId>,
        task: TaskId,
        group: GroupId,
        ioprio: IoPrio,
    ) -> EntityId {
        let (class, level) = class_and_level(ioprio);
        match own {
            Some(q) => self.split_if_due(task, q).unwrap_or_else(|| {
                // The process left a shared queue: it is not merged by creation time again.
                self.private_queue(task, group, class, level)
            }),
            None => self.new_sync_queue(task, group, class, level),
        }
    }

    fn split_if_due(&mut self, task: TaskId, q: EntityId) -> Option<EntityId> {
        let queue = self.queue(q);
        if queue.shared && queue.to_split && !queue.stable { self.split(task, q) } else { Some(q) }
    }

    fn new_sync_queue(
        &mut self,
        task: TaskId,
        group: GroupId,
        class: Class,
        level: u8,
    ) -> EntityId {
        let is_known = self.processes[task.index()].saved.is_some();
        let q = self.private_queue(task, group, class, level);
        if is_known { q } else { self.stable_merge_at_birth(task, q) }
    }

    fn private_queue(&mut self, task: TaskId, group: GroupId, class: Class, level: u8) -> EntityId {
        let q = self.new_queue(group, class, level, true);
        let queue = self.queue_mut(q);
        (queue.owner, queue.processes) = (Some(task), 1);
        self.processes[task.index()].sync = Some(q);
        if self.processes[task.index()].saved.is_some() {
            self.restore(task, q);
            self.queue_mut(q).just_created = false;
        }
        q
    }

    #[inline(never)]
    fn async_queue(&mut self, group: GroupId, ioprio: IoPrio) -> EntityId {
        let (class, level) = class_and_level(ioprio);
        let index = match class {
            Class::Rt => usize::from(level),
            Class::Be => 8 + usize::from(level),
            Class::Idle => 16,
        };
        if let Some(q) = self.groups[group.index()].asynchronous[index] {
            return q;
        }
        let q = self.new_queue(group, class, level, false);
        // The group always points to it.
        self.queue_mut(q).processes = 1;
        self.groups[group.index()].asynchronous[index] = Some(q);
        q
    }

    /// Updates the queues of a process that is new, or whose priority or group changed. Returns its
    /// sync queue and its async queue after that.
    #[cold]
    fn follow_process(
        &mut self,
        task: TaskId,
        ioprio: IoPrio,
        group: GroupId,
    ) -> (Option<EntityId>, Option<EntityId>) {
        if task.index() >= self.processes.len() {
            self.processes.resize(task.index() + 1, Process::default());
        }
        let process = &mut self.processes[task.index()];
        let old_group = process.group.replace(group);
        let old_ioprio = process.ioprio.replace(ioprio);
        process.asynchronous = None;
        if let Some(q) = process.sync {
            if old_ioprio != Some(ioprio) {
                let (class, level) = class_and_level(ioprio);
                self.queue_mut(q).level = level;
                self.engine.set_weight(q, Self::weight_of(class, level), class);
            }
            if old_group != Some(group) {
                self.leave_group(task, q, group);
            }
        }
        let process = &self.processes[task.index()];
        (process.sync, process.asynchronous)
    }

    /// Moves the queue of a process to another group; a shared queue is left behind.
    fn leave_group(&mut self, task: TaskId, q: EntityId, group: GroupId) {
        if self.queue(q).shared {
            self.queue_mut(q).processes -= 1;
            self.processes[task.index()].sync = None;
            self.leave_if_abandoned(q);
        } else {
            self.move_queue(q, group);
        }
    }

    /// Moves a queue, with its requests, to another group.
    fn move_queue(&mut self, q: EntityId, group: GroupId) {
        if self.is_in_service(q) {
            self.expire(q, false, budget::Reason::Preempted);
        }
        if self.positions.get(q).is_some() {
            self.positions.remove(q);
        }
        let busy = self.queue(q).busy;
        if busy {
            self.engine.deactivate(q, false, Change { expiration: false });
        } else {
            self.engine.forget(q);
        }
        self.count_held(q, false);
        self.engine.set_group(q, group);
        self.count_held(q, true);
        if busy {
            self.engine.activate(q, false);
        }
        self.recount(q);
        self.refile_position(q);
    }

    /// Adds all requests of a queue to the counts of its ancestors, or subtracts them.
    fn count_held(&mut self, q: EntityId, add: bool) {
        let held = self.engine[q].allocated;
        let mut at = self.engine.parent(q);
        while let Some(id) = at {
            let count = &mut self.engine[id].allocated;
            *count = if add { *count + held } else { *count - held };
            at = self.engine.parent(id);
        }
    }

    /// Removes a request from the counts of its queue and process.
    pub(super) fn let_go(&mut self, q: EntityId, task: TaskId) {
        self.engine.let_go(q);
        self.processes[task.index()].outstanding -= 1;
        self.release_if_unused(q);
    }

    /// Handles the exit of a process.
    pub(super) fn exit(&mut self, task: TaskId) {
        let Some(process) = self.processes.get_mut(task.index()) else { return };
        let outstanding = process.outstanding;
        let gone = core::mem::take(process);
        // Its requests may still be in flight.
        process.outstanding = outstanding;
        let Some(q) = gone.sync else { return };
        self.queue_mut(q).processes -= 1;
        if self.queue(q).owner == Some(task) {
            self.queue_mut(q).owner = None;
        }
        if self.queue(q).processes == 0 {
            self.leave_burst(q);
            if self.is_in_service(q) {
                self.leave_service(q, budget::Reason::Timeout);
                self.engine[q].service = 0;
                self.service.kick = self.now;
            }
        }
        self.leave_if_abandoned(q);
    }

    /// Frees a queue if nothing points to it and none of its requests is in flight.
    #[inline]
    pub(super) fn release_if_unused(&mut self, q: EntityId) {
        if self.queue(q).processes == 0 {
            self.release_if_idle(q);
        }
    }

    /// Frees a queue to which no process points, if it is idle.
    #[cold]
    fn release_if_idle(&mut self, q: EntityId) {
        let queue = self.queue(q);
        let used = queue.busy || self.engine[q].allocated > 0 || !queue.live;
        if used || self.is_in_service(q) {
            return;
        }
        self.forget_wakers(q);
        self.leave_burst(q);
        self.refile_position(q);
        if self.creation.last == Some(q) {
            self.creation.last = None;
        }
        self.queue_mut(q).live = false;
        self.recount(q);
        self.engine.remove(q);
    }

    /// Returns true if a process, or a group that contains it, holds more of the scheduler's tags
    /// than its weight allows.
    #[inline(always)]
    pub(super) fn is_over_limit(&self, task: TaskId, op: Op, flags: Flags) -> bool {
        let Some(process) = self.processes.get(task.index()) else { return false };
        let sync = crate::op::is_sync(op, flags);
        let Some(q) = (if sync { process.sync } else { process.asynchronous }) else {
            return false;
        };
        // Where the lowest free tag is taken, others nearly always hold the first one.
        let is_lone = self.engine.group_count() == 1 && self.engine[q].allocated < 2;
        if is_lone && !self.tags_are_spread {
            return false;
        }
        self.is_past_share(q, op, flags)
    }

    #[inline(never)]
    fn is_past_share(&self, q: EntityId, op: Op, flags: Flags) -> bool {
        let tags = u64::from(self.tags.depth());
        let start = self.share_of(self.tags.depth(), op, flags).map_or(tags, u64::from);
        self.limit_within(q, start).is_none()
    }

    /// Returns how many requests an entity may hold; `None` if it, or an ancestor, has reached its
    /// limit. Entities that are in no tree limit nothing.
    fn limit_within(&self, id: EntityId, start: u64) -> Option<u64> {
        let entity = &self.engine[id];
        let limit = match self.engine.parent(id) {
            Some(parent) => self.limit_within(parent, start)?,
            None => start,
        };
        if entity.place == TreeState::Nowhere {
            return Some(u64::from(u32::MAX));
        }
        let trees = &self.engine.group(entity.group).trees[..=entity.class as usize];
        let weights = trees.iter().fold(0, |sum, tree| sum * 8 + tree.weights).max(1);
        let limit = (limit * entity.weight + weights / 2) / weights;
        (u64::from(entity.allocated) < limit).then_some(limit)
    }

    /// Checks costly invariants, for tests.
    pub(super) fn check_invariants(&self, view: View<'_>) {
        self.engine.self_check();
        let mut queued = 0;
        for (index, queue) in self.queues.iter().enumerate().filter(|(_, queue)| queue.live) {
            let q = EntityId(index as u32);
            assert_eq!(
                self.tree.self_check(queue.sorted),
                queue.queued as usize,
                "tree of queue {index}"
            );
            assert_eq!(
                self.lists.self_check(queue.fifo),
                queue.queued as usize,
                "FIFO of queue {index}"
            );
            for id in self.lists.iter(queue.fifo) {
                let (slot, request) = (&self.slots[id.index()], &view.requests[id]);
                assert_eq!((slot.state, slot.queue), (super::RequestState::Sorted, Some(q)));
                assert_eq!(
                    request.is_sync(),
                    queue.sync,
                    "queue {index} holds requests of its kind only"
                );
                assert_eq!(
                    (self.tree.key(id), slot.sectors),
                    (request.sector, request.sectors.get())
                );
            }
            queued += queue.queued;
            assert_eq!(queue.next.is_some(), queue.queued > 0, "queue {index} has a next request");
            assert!(queue.next.is_none_or(|id| self.slots[id.index()].queue == Some(q)));
            assert!(queue.queued == 0 || queue.busy, "queue {index} has requests and is not busy");
            let place = self.engine[q].place;
            assert_eq!(
                queue.busy,
                matches!(place, TreeState::Active | TreeState::Serving),
                "queue {index} is {place:?}"
            );
            assert_eq!(
                place == TreeState::Serving,
                self.is_in_service(q),
                "queue {index} in service"
            );
            assert!(!queue.waiting || self.is_in_service(q));
            let mine = |slot: &&super::RequestInfo| slot.queue == Some(q);
            let held = self.slots.iter().filter(mine).count();
            assert_eq!(
                self.engine[q].allocated as usize, held,
                "requests that queue {index} holds"
            );
            let in_device = |slot: &&super::RequestInfo| {
                mine(slot) && slot.state == super::RequestState::InDevice
            };
            assert_eq!(queue.dispatched as usize, self.slots.iter().filter(in_device).count());
            let points = |p: &&super::Process| p.sync == Some(q);
            if queue.sync {
                assert_eq!(queue.processes as usize, self.processes.iter().filter(points).count());
            }
        }
        assert_eq!(self.queued, queued);
        let busy = self.queues.iter().filter(|queue| queue.live && queue.busy).count();
        assert_eq!(self.busy_queues() as usize, busy);
        self.elevator
            .self_check(view, |id| self.slots[id.index()].state == super::RequestState::Sorted);
    }
}
