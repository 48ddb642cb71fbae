//! `aileron`: shares by weight at full throughput. Not in Linux.
//!
//! Each process has a queue for each of its priority classes. Six parts decide:
//!
//! - `floors`: a tenant that gets less than the rate that was reserved for it goes first.
//! - `shares` selects the queue that is served next: start-time fair queueing over the hierarchy of
//!   tenants and processes. What a member leaves unused belongs to the others at once.
//! - `cost` says how long a request takes alone; shares are shares of that time.
//! - `depth` bounds the requests in flight to what the device can use, because what waits inside
//!   the device can no longer be ordered. It finds this number while running.
//! - `kept`: a process that answers its completion at once finds its place in the device free.
//! - `turn`: on a disk, a process keeps the device for a while.
//!
//! A bio may join a request of its own process's queue, as in BFQ. It joins at the front only on a
//! disk, where requests are sorted.
//!
//! Cost, with q queues in a group, d levels of groups and n requests in a queue: insert, dispatch
//! and completion O(d · log q), and on a disk O(log n) more. Nothing is allocated per request.

extern crate alloc;
use alloc::vec::Vec;
use ids::{GroupId, QueueId};

mod checks;
mod cost;
mod decisions;
mod depth;
mod events;
mod floors;
mod ids;
mod kept;
mod learning;
mod queue;
mod shares;
mod slot;
mod tunables;
mod turn;

#[cfg(test)]
mod tests;

pub use decisions::{Decisions, GroupClass, WaitingQueue};
pub use floors::Reserve;
pub use tunables::INFO;

use cost::CostModel;
use decisions::Counts;
use depth::Depth;
use floors::Floors;
use kept::Kept;
use queue::Queue;
use shares::Shares;
use slot::{Place, Slot};
use tunables::Settings;
use turn::{Next, Turn};

use super::elevator::Elevator;
use super::fifo::{Fifo, FifoLinks};
use crate::ioprio::{IoPrio, PrioClass};
use crate::request::Request;
use crate::tree::TreeLinks;
use crate::units::{Instant, RequestId, Sector, Sectors, TenantId};

/// What is known of a process.
#[derive(Clone, Copy, Debug, Default)]
struct TaskQueues {
    /// Its queues by class.
    queues: [Option<QueueId>; shares::CLASSES],
    /// Priority, tenant and queue of its last request, if the queue was in the group of the
    /// tenant.
    last: Option<(IoPrio, TenantId, QueueId)>,
}

/// The scheduler `aileron` of one device.
#[derive(Clone, Debug)]
pub struct Aileron {
    settings: Settings,
    now: Instant,
    shares: Shares,
    floors: Floors,
    queues: Vec<Queue>,
    free: Vec<QueueId>,
    /// The queue of each flow, by member; of a group none.
    of_member: Vec<QueueId>,
    tasks: Vec<TaskQueues>,
    tenants: Vec<Option<GroupId>>,
    slots: Vec<Slot>,
    lists: FifoLinks,
    /// The requests of each queue by sector: on a disk.
    by_sector: TreeLinks,
    elevator: Elevator,
    at_head: Fifo,
    /// Requests in queues and at the head.
    waiting: u32,
    in_flight: u32,
    costs: CostModel,
    counts: Counts,
    /// When a request last ended.
    ended: Instant,
    turn: Turn,
    depth: Depth,
    /// The place in the device that is kept for a process.
    kept: Option<Kept>,
    /// When it was found that the stack is to run the queues again at once; else `Instant::MAX`.
    kick: Instant,
    /// When a process was last found to have others in the device in its way: it had lost what it
    /// was owed, the floor of its tenant was due, or there were less urgent requests there.
    unfair_at: Option<Instant>,
    rotational: bool,
}

/// Returns class, most urgent first, and weight of a priority; NONE is the default.
const fn class_and_weight(ioprio: IoPrio) -> (usize, u32) {
    let class = ioprio.class();
    let level = match class {
        PrioClass::Rt | PrioClass::Be => ioprio.level(),
        PrioClass::None => 4,
        PrioClass::Idle => 7,
    };
    (class.rank(), (8 - level as u32) * 10)
}

impl Aileron {
    /// Returns a scheduler with every tunable at its default, for a device that is not rotational.
    pub fn new(requests: usize) -> Self {
        let settings = Settings::DEFAULT;
        Self {
            settings,
            now: Instant::ZERO,
            shares: Shares::new(settings.class_expire),
            floors: Floors::default(),
            queues: Vec::new(),
            free: Vec::new(),
            of_member: Vec::new(),
            tasks: Vec::new(),
            tenants: Vec::new(),
            slots: alloc::vec![Slot::default(); requests],
            lists: FifoLinks::new(requests),
            by_sector: TreeLinks::new(requests),
            elevator: Elevator::new(requests),
            at_head: Fifo::EMPTY,
            waiting: 0,
            in_flight: 0,
            costs: CostModel::new(),
            counts: Counts::default(),
            ended: Instant::ZERO,
            turn: Turn::default(),
            depth: Depth::new(),
            kept: None,
            kick: Instant::MAX,
            unfair_at: None,
            rotational: false,
        }
    }

    fn group_of(&self, tenant: TenantId) -> GroupId {
        self.tenants.get(tenant.index()).copied().flatten().unwrap_or(GroupId::ROOT)
    }

    fn advance(&mut self, now: Instant) {
        assert!(now >= self.now, "time goes back");
        self.now = now;
    }

    fn grow(&mut self, requests: usize) {
        self.slots.resize(requests, Slot::default());
        self.lists.grow(requests);
        self.by_sector.grow(requests);
        self.elevator.grow(requests);
    }

    fn queue(&self, q: QueueId) -> &Queue {
        &self.queues[q.index()]
    }

    /// Returns how many requests may be in flight. A disk has one: it would choose among several by
    /// place, and let one starve.
    fn limit(&self) -> u32 {
        match self.settings.depth {
            0 if self.rotational => 1,
            0 => self.depth.limit(),
            depth => depth,
        }
    }

    /// Returns the queue of a process for a priority; creates it if needed.
    #[inline]
    fn queue_for(&mut self, request: &Request) -> QueueId {
        match self.tasks.get(request.task.index()).map(|task| task.last) {
            Some(Some((ioprio, tenant, q)))
                if ioprio == request.ioprio && tenant == request.tenant =>
            {
                q
            }
            _ => self.other_queue_for(request),
        }
    }

    /// Returns the queue of a request whose process had another priority or tenant before.
    fn other_queue_for(&mut self, request: &Request) -> QueueId {
        let (task, group) = (request.task, self.group_of(request.tenant));
        let (class, weight) = class_and_weight(request.ioprio);
        if task.index() >= self.tasks.len() {
            self.tasks.resize(task.index() + 1, TaskQueues::default());
        }
        let q = self.tasks[task.index()].queues[class].unwrap_or_else(|| {
            let q = self.new_queue(group, class, weight);
            self.tasks[task.index()].queues[class] = Some(q);
            q
        });
        let queue = &self.queues[q.index()];
        let member = queue.member;
        if queue.queued == 0 && queue.in_device == 0 && self.shares.group_of(member) != group {
            self.shares.move_to(member, group);
        }
        self.shares.set_weight(member, weight);
        let is_there = self.shares.group_of(member) == group;
        self.tasks[task.index()].last = is_there.then_some((request.ioprio, request.tenant, q));
        q
    }

    fn new_queue(&mut self, group: GroupId, class: usize, weight: u32) -> QueueId {
        let member = self.shares.add(group, class, weight);
        let q = self.free.pop().unwrap_or(QueueId(self.queues.len() as u32));
        if q.index() == self.queues.len() {
            self.queues.push(Queue::new(member, class));
        } else {
            self.queues[q.index()] = Queue::new(member, class);
        }
        if member.index() >= self.of_member.len() {
            self.of_member.resize(member.index() + 1, QueueId::NONE);
        }
        self.of_member[member.index()] = q;
        q
    }

    /// Frees a queue whose process has exited and that has no request left.
    #[inline]
    fn end_if_unused(&mut self, q: QueueId) {
        let Queue { exited, queued, in_device, member, .. } = self.queues[q.index()];
        if exited && queued == 0 && in_device == 0 {
            if self.turn.queue == Some(q) {
                self.turn = Turn::default();
            }
            self.kept = self.kept.filter(|kept| kept.queue != q);
            self.shares.remove(member);
            self.of_member[member.index()] = QueueId::NONE;
            self.free.push(q);
        }
    }

    /// Files an arrived request in its queue.
    fn file(&mut self, q: QueueId, id: RequestId) {
        let (now, queue) = (self.now, &mut self.queues[q.index()]);
        let slot = &mut self.slots[id.index()];
        slot.is_of_stream = queue.on_arrival(now, slot.sector, slot.sectors);
        // On a disk it is expected to follow; what it does is known when it is dispatched.
        slot.is_next = slot.is_of_stream && self.rotational;
        self.lists.push_back(&mut queue.fifo, id);
        if self.rotational {
            self.by_sector.insert(&mut queue.sorted, slot.sector, id);
        }
        queue.queued += 1;
        if queue.queued == 1 {
            self.end_kept(q);
            self.begin_stretch(q, id);
        }
    }

    /// Makes a queue wait whose first request has arrived.
    fn begin_stretch(&mut self, q: QueueId, id: RequestId) {
        let cost = self.cost_of(&self.slots[id.index()]);
        self.counts.stretches += 1;
        let queue = &mut self.queues[q.index()];
        (queue.stretch, queue.charged) = (self.counts.stretches, 0);
        queue.largest = queue.largest.max(cost);
        let member = queue.member;
        let was_kept_from_floor = self.begin_to_owe(member);
        if self.shares.activate(self.now, member, cost) || was_kept_from_floor {
            self.unfair_at = Some(self.now);
        }
    }

    /// Takes a request out of its queue.
    fn unfile(&mut self, q: QueueId, id: RequestId) {
        let queue = &mut self.queues[q.index()];
        self.lists.remove(&mut queue.fifo, id);
        if self.by_sector.contains(id) {
            self.by_sector.remove(&mut queue.sorted, id);
        }
        queue.queued -= 1;
        self.waiting -= 1;
    }

    /// Notes the size of a request that was merged with, and where it ends now.
    fn resize(&mut self, id: RequestId, sectors: u64, end: Sector) {
        let slot = &mut self.slots[id.index()];
        if let Some(q) = slot.queue {
            self.queues[q.index()].grow(slot.sector + Sectors::new(slot.sectors), end);
        }
        slot.sectors = sectors;
    }

    fn next_request(&mut self) -> Option<RequestId> {
        if let Some(id) = self.lists.pop_front(&mut self.at_head) {
            self.waiting -= 1;
            self.counts.from_head += 1;
            self.start(id);
            if let Some(q) = self.slots[id.index()].queue {
                let queue = &mut self.queues[q.index()];
                queue.in_device += 1;
                self.shares.enter_device(queue.member);
            }
            return Some(id);
        }
        self.kept = self.kept.filter(|kept| self.now < kept.until);
        if self.waiting == 0 || self.in_flight + u32::from(self.kept.is_some()) >= self.limit() {
            return None;
        }
        if let Some(id) = self.next_owed() {
            return Some(id);
        }
        let (q, id) = match self.next_in_turn() {
            Next::Serve(q, id) => (q, id),
            Next::Wait => return None,
            Next::Any => {
                let member = self.shares.choose(self.now, GroupId::ROOT)?;
                let q = self.of_member[member.index()];
                (q, self.queue(q).fifo.first().expect("an active flow has a request"))
            }
        };
        Some(self.serve(q, id, None))
    }

    /// Dispatches a request of a queue; `owed` is the group whose floor asked for it, if one did.
    #[inline]
    fn serve(&mut self, q: QueueId, id: RequestId, owed: Option<GroupId>) -> RequestId {
        let (is_next, idle) = self.take_turn(q, id);
        self.slots[id.index()].is_next = is_next;
        let cost = self.cost_of(&self.slots[id.index()]) + idle.get();
        self.unfile(q, id);
        let queue = &mut self.queues[q.index()];
        queue.in_device += 1;
        queue.charged += cost;
        queue.largest = queue.largest.max(cost);
        let (member, waits) = (queue.member, queue.queued > 0);
        self.elevator.remove(id);
        self.counts.constrained += u64::from(owed.is_some());
        self.turn.cost += cost;
        self.count_for_floors(member, id, owed.is_some());
        self.start(id);
        self.shares.serve(self.now, member, cost, waits, owed);
        id
    }

    /// Notes that a request goes to the device; its queue is told elsewhere.
    #[inline]
    fn start(&mut self, id: RequestId) {
        self.depth.pass(self.now, self.in_flight);
        self.in_flight += 1;
        let slot = &mut self.slots[id.index()];
        (slot.place, slot.dispatched, slot.mark) = (Place::InDevice, self.now, self.depth.mark());
    }

    /// Notes that a request is no longer in the device.
    #[inline]
    fn stop(&mut self, slot: &Slot) {
        self.depth.pass(self.now, self.in_flight);
        self.in_flight -= 1;
        if let Some(q) = slot.queue {
            let queue = &mut self.queues[q.index()];
            queue.in_device -= 1;
            let member = queue.member;
            if self.shares.leave_device(self.now, member) {
                self.unfair_at = Some(self.now);
            }
        }
    }
}
