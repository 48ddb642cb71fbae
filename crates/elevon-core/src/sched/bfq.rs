//! `bfq`: budget fair queueing.
//!
//! Each process has a queue for its sync requests; async requests share one queue per priority. One
//! queue at a time is *in service*: it dispatches up to its budget of sectors. If it becomes empty,
//! the scheduler may wait a short time for its next request (idling), because otherwise bandwidth
//! does not follow the weights, and a disk would seek. `wf2q` selects the next queue, `budget` sets
//! the size of budgets, `idling` decides when to wait, `injection` what is served meanwhile,
//! `raising` whose weight is raised, and `cooperation` which processes share a queue.
//!
//! Reproduces Linux 5.10 to 7.3, measured from 6.1 on; `Rules` has what differs between versions.
//! The deviations are those that `wf2q` names and these. Requests count towards the depth limits
//! from insertion, not from allocation. A bio merge never causes two queues to merge; the arrival
//! of a request does.
//!
//! What most requests do without is marked `inline(never)`, where it would take registers from what
//! all of them do.
//!
//! Cost, with n requests in a queue, q queues in a group and d levels of groups: insert O(log n),
//! and O(d · log q) if the queue becomes busy. Dispatch takes O(log n + d), and O(d · log q) if a
//! slot ends. Completion takes O(1), and O(d · log q) if it ends a slot.

extern crate alloc;
use alloc::vec::Vec;

mod active_tree;
mod arrival;
mod budget;
mod cooperation;
mod dispatch;
mod entity;
mod idle_tree;
mod idling;
mod injection;
mod peak_rate;
mod positions;
mod process;
mod queue;
mod queueing;
mod raising;
mod service_tree;
mod think_time;
mod tunables;
mod wf2q;

pub use tunables::INFO;

use budget::Budgets;
use cooperation::Burst;
use entity::{Class, EntityId, NIL};
use idling::{BusyQueues, WeightCounters};
use peak_rate::{PeakRate, Reference};
use positions::Positions;
use process::{GroupState, Process};
use queue::BfqQueue;
use queueing::Queueing;
use tunables::BfqSettings;
use wf2q::Engine;

use super::elevator::Elevator;
use super::fifo::{Fifo, FifoLinks};
use super::{Scheduler, View};
use crate::bio::Bio;
use crate::jiffies::{Hz, Ticks, to_ticks};
use crate::kernel::Rules;
use crate::merge::MergeKind;
use crate::op::{Flags, Op};
use crate::request::Request;
use crate::tags::SchedTags;
use crate::tree::TreeLinks;
use crate::units::{HwQueue, Instant, RequestId, Sector, TaskId, TenantId};

/// The state of a request in the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RequestState {
    /// The request is not known, or has completed.
    #[default]
    Unknown,
    /// The request was given back by the driver and goes before all others.
    AtHead,
    /// The request is in its queue.
    Sorted,
    /// The request was dispatched.
    InDevice,
    /// The request was merged into another.
    Swallowed,
}

/// What the scheduler knows of a request.
#[derive(Clone, Copy, Debug, Default)]
struct RequestInfo {
    state: RequestState,
    meta: bool,
    /// Its queue; `None` if no task submitted it.
    queue: Option<EntityId>,
    task: TaskId,
    sectors: u64,
    deadline: Instant,
}

impl RequestInfo {
    fn from_request(
        request: &Request,
        state: RequestState,
        queue: Option<EntityId>,
        deadline: Instant,
    ) -> Self {
        Self {
            state,
            meta: request.flags.contains(Flags::META),
            queue,
            task: request.task,
            sectors: request.sectors.get(),
            deadline,
        }
    }
}

/// The bfq scheduler of one device.
#[derive(Clone, Debug)]
pub struct Bfq {
    settings: BfqSettings,
    rules: Rules,
    hz: Hz,
    clock: Ticks,
    now: Instant,
    tick: i64,
    device: DeviceState,
    /// The scheduler's tags of a hardware queue.
    tags: SchedTags,
    /// Whether they are taken from words by the hint of a CPU, so that the first is often free.
    tags_are_spread: bool,
    /// `queue/async_depth` if it was set.
    async_depth: Option<u32>,

    engine: Engine,
    /// Queues, by entity.
    queues: Vec<BfqQueue>,
    processes: Vec<Process>,
    groups: Vec<GroupState>,
    tenants: Vec<Option<entity::GroupId>>,

    slots: Vec<RequestInfo>,
    tree: TreeLinks,
    lists: FifoLinks,
    elevator: Elevator,
    at_head: Fifo,
    /// Requests in queues.
    queued: u32,
    /// Requests dispatched and not completed.
    in_flight: u32,

    service: InService,
    last: LastServed,
    busy: Busy,
    injection: Injection,
    creation: Creation,
    budgets: Budgets,
    positions: Positions,
}

/// What is known of the device.
#[derive(Clone, Debug)]
struct DeviceState {
    rotational: bool,
    /// The rates that a device of the kind found at the start is expected to have.
    reference: Reference,
    queueing: Queueing,
    queueing_preset: Option<bool>,
    /// The device is not rotational and queues commands. Determined at the start and when it was
    /// measured whether the device queues commands, not when `rotational` is written.
    queueing_flash: bool,
    peak: PeakRate,
}

/// The queue in service.
#[derive(Clone, Debug)]
struct InService {
    /// It, or [`NIL`]: at most steps of a queue it is asked if it is this one.
    queue: u32,
    slot_start: Instant,
    idling_since: Instant,
    /// When idling for it ends; `Instant::MAX` if the device does not idle.
    timer: Instant,
    /// When it was found that the stack is to run the queue again at once; else `Instant::MAX`.
    kick: Instant,
    /// The sector after the last request dispatched of it.
    position: Sector,
}

/// The last requests of all queues.
#[derive(Clone, Copy, Debug)]
struct LastServed {
    /// The sector after the last request dispatched.
    position: Sector,
    /// When a request completed last; `None` if none has.
    completion: Option<Instant>,
    /// The queue of that request.
    completed: Option<EntityId>,
}

/// What is busy.
#[derive(Clone, Debug)]
struct Busy {
    queues: BusyQueues,
    /// Number of busy queues with raised weight.
    raised: u32,
    /// Number of busy queues with each weight.
    weights: WeightCounters,
    /// Number of groups with pending requests.
    groups: u32,
}

/// The measurement of what injected requests cost the queue in service.
#[derive(Clone, Copy, Debug)]
struct Injection {
    /// Requests of other queues were injected since the measurement began.
    injected: bool,
    /// The next request of the queue in service is measured.
    measuring: bool,
    waited: Option<RequestId>,
    last_empty_occupied: Instant,
}

/// The queues created so far.
#[derive(Clone, Debug)]
struct Creation {
    burst: Burst,
    last: Option<EntityId>,
    /// Their number.
    count: u64,
}

impl Bfq {
    /// Returns a scheduler with every tunable at its default, for a device that is not rotational.
    /// `hz` (100 to 1000) is the tick rate.
    pub fn new(rules: Rules, hz: Hz, queues: u16, requests: usize) -> Self {
        let hz = Hz(hz.0.max(8));
        let reference = Reference::from_rotational(false);
        Self {
            settings: BfqSettings::new(hz),
            rules,
            hz,
            clock: Ticks::new(hz),
            now: Instant::ZERO,
            tick: 0,
            device: DeviceState {
                rotational: false,
                reference,
                queueing: Queueing::new(None),
                queueing_preset: None,
                queueing_flash: true,
                peak: PeakRate::new(reference),
            },
            tags: SchedTags::of_each(requests, usize::from(queues)),
            tags_are_spread: false,
            async_depth: None,
            engine: Engine::new(to_ticks(200, hz)),
            queues: Vec::new(),
            processes: Vec::new(),
            groups: alloc::vec![GroupState::default()],
            tenants: Vec::new(),
            slots: alloc::vec![RequestInfo::default(); requests],
            tree: TreeLinks::new(requests),
            lists: FifoLinks::new(requests),
            elevator: Elevator::new(requests),
            at_head: Fifo::EMPTY,
            queued: 0,
            in_flight: 0,
            service: InService {
                queue: NIL,
                slot_start: Instant::ZERO,
                idling_since: Instant::ZERO,
                timer: Instant::MAX,
                kick: Instant::MAX,
                position: Sector::ZERO,
            },
            last: LastServed { position: Sector::ZERO, completion: None, completed: None },
            busy: Busy {
                queues: BusyQueues::default(),
                raised: 0,
                weights: WeightCounters::new(),
                groups: 0,
            },
            injection: Injection {
                injected: false,
                measuring: false,
                waited: None,
                last_empty_occupied: Instant::ZERO,
            },
            creation: Creation { burst: Burst::new(), last: None, count: 0 },
            budgets: Budgets::new(),
            positions: Positions::new(),
        }
    }

    /// Returns whether the device queues commands, as measured so far (`hw_tag`); `None` if not yet
    /// known.
    pub fn device_queues(&self) -> Option<bool> {
        self.device.queueing.decided()
    }

    /// Returns the queue in service.
    #[inline]
    fn in_service(&self) -> Option<EntityId> {
        (self.service.queue != NIL).then_some(EntityId(self.service.queue))
    }

    #[inline]
    fn is_in_service(&self, q: EntityId) -> bool {
        self.service.queue == q.0
    }

    fn advance(&mut self, now: Instant) {
        assert!(now >= self.now, "time goes back");
        if now != self.now {
            self.now = now;
            self.tick = self.clock.at(now);
            self.engine.tick = self.tick;
        }
    }

    fn grow(&mut self, requests: usize) {
        self.slots.resize(requests, RequestInfo::default());
        self.tree.grow(requests);
        self.lists.grow(requests);
        self.elevator.grow(requests);
    }

    /// Returns how many scheduler tags requests of a kind may use: from 7.0 in proportion to
    /// `async_depth`, before in sixteenths of `tags`.
    fn share_of(&self, tags: u32, op: Op, flags: Flags) -> Option<u32> {
        if op == Op::Read {
            return None;
        }
        let (is_sync, is_raised) = (crate::op::is_sync(op, flags), self.busy.raised > 0);
        if self.rules.queue_async_depth {
            let depth = self.async_depth.unwrap_or(self.tags.depth() * 3 / 4);
            let divided = match (is_sync, is_raised) {
                (true, false) => depth,
                (false, false) => depth * 2 / 3,
                (true, true) => depth / 2,
                (false, true) => depth / 4,
            };
            return Some(divided.max(1));
        }
        let sixteenths = match (is_sync, is_raised) {
            (true, false) => 12,
            (false, false) => 8,
            (true, true) => 6,
            (false, true) => 3,
        };
        Some((tags * sixteenths / 16).max(1))
    }
}

impl Scheduler for Bfq {
    fn insert(&mut self, now: Instant, view: View<'_>, id: RequestId, at_head: bool) {
        self.advance(now);
        if id.index() >= self.slots.len() {
            self.grow(view.requests.len());
        }
        debug_assert_eq!(
            self.slots[id.index()].state,
            RequestState::Unknown,
            "request {} is inserted twice",
            id.0
        );
        let request = &view.requests[id];
        if request.task == TaskId::IDLE {
            self.slots[id.index()] =
                RequestInfo::from_request(request, RequestState::AtHead, None, now);
            if at_head {
                self.lists.push_front(&mut self.at_head, id);
            } else {
                self.lists.push_back(&mut self.at_head, id);
            }
            return;
        }
        self.arrive(request, id, at_head);
        if !at_head {
            self.elevator.add(view, id);
        }
    }

    #[inline(always)]
    fn dispatch(&mut self, now: Instant, _view: View<'_>, _queue: HwQueue) -> Option<RequestId> {
        self.advance(now);
        self.next_request()
    }

    #[inline]
    fn has_work(&self, _queue: HwQueue) -> bool {
        self.queued > 0 || !self.at_head.is_empty()
    }

    fn find_merge(
        &mut self,
        view: View<'_>,
        bio: &Bio,
        one_hit_only: bool,
    ) -> Option<(RequestId, MergeKind)> {
        let sync = crate::op::is_sync(bio.op, bio.flags);
        let process = self.processes.get(bio.task.index())?;
        let q = if sync { process.sync } else { process.asynchronous }?;
        let Self { elevator, slots, queues, tree, .. } = self;
        let allows = |id: RequestId| slots[id.index()].queue == Some(q);
        elevator.find_merge_among(view, bio, one_hit_only, allows, || {
            tree.first_at(queues[q.index()].sorted, bio.end())
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

    fn on_bio_merged(&mut self, view: View<'_>, id: RequestId, kind: MergeKind, _before: Sector) {
        self.slots[id.index()].sectors = view.requests[id].sectors.get();
        if let (MergeKind::Front, Some(q)) = (kind, self.slots[id.index()].queue) {
            let queue = &mut self.queues[q.index()];
            self.tree.refile(&mut queue.sorted, view.requests[id].sector, id);
            let before = queue.next;
            let next = self.choose(before, Some(id), self.last.position);
            self.queue_mut(q).next = next;
            if before != next {
                self.update_budget_for_next(q);
                self.refile_position(q);
            }
        }
        self.elevator.on_bio_merged(view, id);
    }

    fn neighbour(&self, _view: View<'_>, id: RequestId, kind: MergeKind) -> Option<RequestId> {
        self.tree.neighbour(id, kind)
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
        let (gone, kept) = (self.slots[swallowed.index()], self.slots[survivor.index()]);
        if gone.state == RequestState::Sorted
            && let Some(q) = gone.queue
        {
            if gone.queue == kept.queue && gone.deadline < kept.deadline {
                self.slots[survivor.index()].deadline = gone.deadline;
                // The survivor takes the FIFO place of the merged request, which is removed right
                // after it.
                let fifo = &mut self.queues[q.index()].fifo;
                self.lists.remove(fifo, survivor);
                self.lists.replace(fifo, swallowed, survivor);
                self.lists.push_back(fifo, swallowed);
            }
            if self.queue(q).next == Some(swallowed) && gone.queue == kept.queue {
                self.queue_mut(q).next = Some(survivor);
            }
            self.elevator.on_requests_merged(view, survivor, swallowed);
            self.slots[survivor.index()].sectors += gone.sectors;
            self.remove_request(q, swallowed);
        } else {
            self.elevator.on_requests_merged(view, survivor, swallowed);
            self.slots[survivor.index()].sectors += view.requests[swallowed].sectors.get();
        }
        self.slots[swallowed.index()].state = RequestState::Swallowed;
    }

    fn on_finish(&mut self, now: Instant, _view: View<'_>, id: RequestId) {
        let Some(slot) = self.slots.get_mut(id.index()) else { return };
        let (place, task, queue) = (core::mem::take(&mut slot.state), slot.task, slot.queue.take());
        self.advance(now);
        let Some(q) = queue else { return };
        if place == RequestState::InDevice {
            self.complete(q, id);
        }
        self.let_go(q, task);
    }

    fn on_requeue(&mut self, now: Instant, view: View<'_>, id: RequestId) {
        self.on_finish(now, view, id);
    }

    fn on_task_exit(&mut self, now: Instant, task: TaskId) {
        self.advance(now);
        self.exit(task);
    }

    #[inline]
    fn depth_limit(&self, op: Op, flags: Flags) -> Option<u32> {
        if op == Op::Read {
            return None;
        }
        self.share_of(self.tags.shared(self.rules.whole_map_shallow_depth), op, flags)
    }

    #[inline(always)]
    fn depth_limit_of(&self, task: TaskId, op: Op, flags: Flags) -> Option<u32> {
        if self.is_over_limit(task, op, flags) { Some(1) } else { self.depth_limit(op, flags) }
    }

    fn set_async_depth(&mut self, depth: u32) {
        self.async_depth = Some(depth);
    }

    fn on_depth_updated(&mut self, nr_requests: u32, shift: u32) {
        self.tags = SchedTags::new(nr_requests, shift);
    }

    fn set_tags_spread(&mut self, spread: bool) {
        self.tags_are_spread = spread;
    }

    fn on_queue_info(&mut self, rotational: bool) {
        (self.device.rotational, self.device.reference) =
            (rotational, Reference::from_rotational(rotational));
        self.device.peak = PeakRate::new(self.device.reference);
        self.update_queueing_flash();
    }

    fn on_rotational_written(&mut self, rotational: bool) {
        self.device.rotational = rotational;
    }

    fn set_discard_ranges(&mut self, ranges: u16) {
        self.elevator.set_discard_ranges(ranges);
    }

    #[inline]
    fn next_wakeup(&self) -> Instant {
        self.service.timer.min(self.service.kick)
    }

    fn measured(&self) -> Option<(&'static str, u64)> {
        self.device_queues().map(|queues| ("hw_tag", queues.into()))
    }

    fn on_wakeup(&mut self, now: Instant) {
        self.advance(now);
        self.service.kick = Instant::MAX;
        if self.service.timer <= now {
            self.on_idle_timer();
        }
    }

    fn wakes_worker(&self) -> bool {
        true
    }

    fn self_check(&self, view: View<'_>) {
        self.check_invariants(view);
    }

    fn set_group(&mut self, tenant: TenantId, parent: TenantId, weight: u16) {
        let weight = u64::from(weight).clamp(1, 1000);
        match self.tenants.get(tenant.index()).copied().flatten() {
            Some(group) => {
                if let Some(entity) = self.engine.group(group).entity {
                    self.engine.set_weight(entity, weight, Class::Be);
                }
            }
            None if tenant == TenantId(0) => {}
            None => {
                let group = self.engine.add_group(self.group_of(parent), weight);
                debug_assert_eq!(group.index(), self.groups.len());
                self.groups.push(GroupState::default());
                if tenant.index() >= self.tenants.len() {
                    self.tenants.resize(tenant.index() + 1, None);
                }
                self.tenants[tenant.index()] = Some(group);
                // The group's entity shares its key space with queues.
                self.reserve_queues(self.engine.group(group).entity);
            }
        }
    }
}

#[cfg(test)]
mod tests;
