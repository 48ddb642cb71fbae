//! `aileron`: shares by weight at full throughput. Not in Linux.
//!
//! Each process has a queue for each of its priority classes. Eight parts decide:
//!
//! - `overdue`: a queue that has waited for too long goes before everything else.
//! - `floors`: a tenant that gets less than the rate that was reserved for it goes first.
//! - `shares` selects the queue that is served next: weighted fair queueing over the hierarchy of
//!   tenants and processes. What somebody leaves unused belongs to the others at once.
//! - `depth` bounds the requests in flight to what the device can use, because what waits inside
//!   the device can no longer be ordered. It finds this number while running. Writes have a bound
//!   of their own besides: a device with a write buffer gains nothing from a long queue of them.
//! - `cost` says how long a request takes alone, `occupancy` which part of that it keeps from
//!   others where the device does many at a time; shares are shares of that time.
//! - `turn`: on a disk, a process keeps the device for a while.
//! - *Holds*: a process with one request at a time comes back only after its request has completed.
//!   If its place in the device were given away at once, it could not get its share whatever its
//!   weight. So the place is kept for a moment if the process is owed service, usually comes back
//!   within a small part of a service time, and has lost a noticeable part of its time to waiting.
//!
//! Merging is that of BFQ: a bio may join a request of its own process's queue, a request any other
//! when it is inserted.
//!
//! Cost, with q queues in a group, d levels of groups and n requests in a queue: insert O(log n + d
//! · log q). Dispatch takes O(d · log q), and on a disk O(log n) more. Completion takes O(d), and
//! O(d · log q) if a place may be kept. While `occupancy` looks at one kind of request, a dispatch
//! is O(queues / 64), and the beginning of a look O(queues). Where nobody is eligible, a dispatch
//! is O(d · q) at most. Nothing is allocated per request.

extern crate alloc;
use alloc::vec::Vec;
use ids::{GroupId, MemberId, QueueId};

mod by_sector;
mod charges;
mod checks;
mod cost;
mod decisions;
mod depth;
mod events;
mod floors;
mod holds;
mod ids;
mod kinds;
mod learning;
mod occupancy;
mod overdue;
mod queue;
mod shares;
mod slot;
mod tunables;
mod turn;
mod waiting;

#[cfg(test)]
mod tests;

pub use decisions::{Decisions, GroupClass, WaitingQueue};
pub use floors::Reserve;
pub use shares::WaitingMember;
pub use tunables::INFO;

use by_sector::BySector;
use charges::Charges;
use cost::CostModel;
use decisions::Counts;
use depth::Depth;
use floors::Floors;
use holds::{HOLDS, Hold, Thinker};
use kinds::Kinds;
use occupancy::Occupancy;
use overdue::Overdue;
use queue::{Mean, Queue};
use shares::{BEST_EFFORT, Shares};
use slot::{Place, Slot};
use tunables::Settings;
use turn::{Next, Turn};

use super::contexts::Mask;
use super::elevator::Elevator;
use super::fifo::{Fifo, FifoLinks};
use crate::ioprio::{IoPrio, PrioClass};
use crate::request::Request;
use crate::units::{Instant, Nanos, RequestId, Sector, Sectors, TenantId};

/// What happened within this time counts as the present.
const RECENT: Nanos = Nanos::from_millis(100);

/// What is known of a process.
#[derive(Clone, Copy, Debug, Default)]
struct OfTask {
    /// Its queues by class.
    queues: [Option<QueueId>; 3],
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
    tasks: Vec<OfTask>,
    tenants: Vec<Option<GroupId>>,
    slots: Vec<Slot>,
    lists: FifoLinks,
    by_sector: BySector,
    elevator: Elevator,
    at_head: Fifo,
    /// Requests in queues and at the head.
    waiting: u32,
    /// Those in queues of a class above best effort.
    urgent: u32,
    in_flight: u32,
    /// Requests that were in flight when an overdue one had to wait; 0 if none has.
    overdue_room: u32,
    /// Writes among them.
    writes_in_flight: u32,
    /// What requests take: alone, or on a disk each after the one before.
    costs: CostModel,
    /// What they displace where many are in the device.
    occupancy: Occupancy,
    /// The queue that was served last in a look, and the queues whose first request is of the kind
    /// that is looked at.
    cursor: usize,
    fronts: Mask,
    counts: Counts,
    /// When a request last ended.
    ended: Instant,
    turn: Turn,
    depth: Depth,
    /// The usable depth of writes alone: a device with a write buffer gains nothing from more of
    /// them.
    write_depth: Depth,
    /// When a read and a write last ended.
    read_at: Option<Instant>,
    write_at: Option<Instant>,
    /// Ratios of the times of reads to what was expected, since a limit of writes was last tried
    /// or changed.
    read_times: Mean,
    holds: Vec<Hold>,
    thinkers: Vec<Thinker>,
    /// For how long places may still be kept, beyond an eighth of a service time each.
    allowance: u64,
    allowed_at: Instant,
    /// While requests are looked at one at a time, a read is next.
    is_read_next: bool,
    /// The queues of the last write and the last read of those.
    alone_cursors: [usize; 2],
    /// When it was found that the stack is to run the queues again at once; else `Instant::MAX`.
    kick: Instant,
    /// When a process last returned that others in the device were in the way of: it had lost what
    /// it was owed, the floor of its tenant was due, or there were less urgent requests there.
    unfair_at: Option<Instant>,
    rotational: bool,
    /// How many requests may be in flight, if that is not found: on a disk, and where the tunable
    /// says it; else 0.
    fixed: u32,
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
            by_sector: BySector::new(requests),
            elevator: Elevator::new(requests),
            at_head: Fifo::EMPTY,
            waiting: 0,
            urgent: 0,
            in_flight: 0,
            overdue_room: 0,
            writes_in_flight: 0,
            costs: CostModel::new(),
            occupancy: Occupancy::new(),
            cursor: 0,
            fronts: Mask::new(0),
            counts: Counts::default(),
            ended: Instant::ZERO,
            turn: Turn::default(),
            depth: Depth::new(true),
            write_depth: Depth::new(false),
            read_at: None,
            write_at: None,
            read_times: Mean::default(),
            holds: Vec::with_capacity(HOLDS),
            thinkers: Vec::with_capacity(HOLDS),
            allowance: 0,
            allowed_at: Instant::ZERO,
            is_read_next: false,
            alone_cursors: [0; 2],
            kick: Instant::MAX,
            unfair_at: None,
            rotational: false,
            fixed: 0,
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

    /// Returns how many requests may be in flight.
    fn limit(&self) -> u32 {
        if self.fixed > 0 { self.fixed } else { self.depth.limit() }
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
            self.tasks.resize(task.index() + 1, OfTask::default());
        }
        let q = self.tasks[task.index()].queues[class].unwrap_or_else(|| {
            let q = self.new_queue(group, class, weight);
            self.tasks[task.index()].queues[class] = Some(q);
            q
        });
        let queue = &self.queues[q.index()];
        let member = queue.member;
        if queue.queued == 0 && queue.in_device == 0 && self.shares.group_of(member) != group {
            self.shares.move_to(self.now, member, group);
        }
        self.shares.set_weight(member, weight);
        let is_there = self.shares.group_of(member) == group;
        self.tasks[task.index()].last = is_there.then_some((request.ioprio, request.tenant, q));
        q
    }

    fn new_queue(&mut self, group: GroupId, class: usize, weight: u32) -> QueueId {
        let member = self.shares.add(self.now, group, class, weight);
        let queue = Queue::new(member, class);
        let q = match self.free.pop() {
            Some(q) => {
                self.queues[q.index()] = queue;
                q
            }
            None => {
                self.queues.push(queue);
                self.fronts.grow(self.queues.len());
                QueueId(self.queues.len() as u32 - 1)
            }
        };
        if member.index() >= self.of_member.len() {
            self.of_member.resize(member.index() + 1, QueueId::NONE);
        }
        self.of_member[member.index()] = q;
        q
    }

    /// Frees a queue whose process has exited and that has no request left.
    #[inline]
    fn end_if_unused(&mut self, q: QueueId) {
        let queue = &self.queues[q.index()];
        if queue.exited && queue.queued == 0 && queue.in_device == 0 {
            self.end_queue(q, queue.member);
        }
    }

    #[cold]
    fn end_queue(&mut self, q: QueueId, member: MemberId) {
        self.holds.retain(|hold| hold.queue != q);
        self.forget_thinker(q);
        if self.turn.queue == Some(q) {
            self.turn = Turn::default();
        }
        self.shares.remove(member);
        self.of_member[member.index()] = QueueId::NONE;
        self.free.push(q);
    }

    fn kind_of(&self, id: RequestId) -> usize {
        usize::from(self.slots[id.index()].direction.is_write())
    }

    /// Returns what is charged for requests.
    #[inline(always)]
    const fn charges(&self) -> Charges<'_> {
        Charges { costs: &self.costs, occupancy: &self.occupancy, rotational: self.rotational }
    }

    /// Files an arrived request in its queue.
    fn file(&mut self, q: QueueId, id: RequestId) {
        let now = self.now;
        let queue = &mut self.queues[q.index()];
        queue.on_arrival(now);
        let slot = &mut self.slots[id.index()];
        let follows = queue.follow(slot.sector, slot.sectors);
        slot.is_next = follows && self.rotational;
        slot.cell = occupancy::cell(slot.direction, slot.sectors, follows);
        self.occupancy.enter(slot.cell);
        self.lists.push_back(&mut queue.fifo, id);
        self.by_sector.add(queue, slot.sector, id);
        queue.queued += 1;
        self.urgent += u32::from(queue.class < BEST_EFFORT);
        if queue.queued == 1 {
            self.begin_stretch(q, id);
        }
        self.note_front(q);
        if !self.holds.is_empty() {
            self.end_hold(|hold| hold.queue == q);
        }
        if !self.thinkers.is_empty() {
            self.forget_thinker(q);
        }
    }

    /// Makes a queue wait whose first request has arrived.
    fn begin_stretch(&mut self, q: QueueId, id: RequestId) {
        let (cost, kind) = self.charges().cost_and_kind_of(&self.slots[id.index()]);
        self.counts.stretches += 1;
        let queue = &mut self.queues[q.index()];
        (queue.stretch, queue.charged) = (self.counts.stretches, 0);
        queue.largest = queue.largest.max(cost);
        let member = queue.member;
        let was_kept_from_floor = self.begin_to_owe(member);
        if self.shares.activate(self.now, member, cost, kind) || was_kept_from_floor {
            self.unfair_at = Some(self.now);
        }
    }

    /// Takes a request out of its queue.
    fn unfile(&mut self, q: QueueId, id: RequestId) {
        let queue = &mut self.queues[q.index()];
        queue.take(id, self.slots[id.index()].sector, &mut self.lists, &mut self.by_sector);
        let class = queue.class;
        self.note_taken(q, class);
    }

    /// Notes that a request was taken out of a queue of a class.
    #[inline]
    fn note_taken(&mut self, q: QueueId, class: usize) {
        self.urgent -= u32::from(class < BEST_EFFORT);
        self.waiting -= 1;
        self.note_front(q);
    }

    /// Notes the size of a request that was merged with, and where it ends now.
    fn resize(&mut self, id: RequestId, sectors: u64, end: Sector) {
        let slot = &mut self.slots[id.index()];
        if let Some(q) = slot.queue {
            self.queues[q.index()].grow(slot.sector + Sectors::new(slot.sectors), end);
        }
        slot.sectors = sectors;
        if slot.place == Place::Queued {
            self.occupancy.leave(slot.cell);
            slot.cell = occupancy::cell(slot.direction, sectors, occupancy::follows(slot.cell));
            self.occupancy.enter(slot.cell);
            if let Some(q) = slot.queue {
                self.note_front(q);
            }
        }
    }

    /// Returns true if one more request may be dispatched of a class above best effort, `limit`
    /// being reached.
    fn may_urgent_go(&self, limit: u32) -> bool {
        self.depth.is_settled() && self.in_flight < limit + (limit / 8).max(1)
    }

    fn next_request(&mut self) -> Option<RequestId> {
        let now = self.now;
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
        self.end_holds();
        self.shares.sweep(now);
        match self.overdue() {
            Overdue::Nothing => {}
            Overdue::Serve(q, id) => return Some(self.serve_overdue(q, id)),
            Overdue::Wait => return None,
        }
        if self.occupancy.has_looked_enough(now) {
            self.end_look();
        }
        if self.occupancy.looks_at().is_some() {
            if let Some(id) = self.next_in_look() {
                return Some(id);
            }
            if self.in_flight > 0 {
                return None;
            }
            self.end_look();
        }
        if self.in_flight > 0
            && let Some(id) = self.more_in_turn()
        {
            return Some(id);
        }
        let limit = self.limit();
        let has_room = self.in_flight + (self.holds.len() as u32) < limit;
        // Whatever would be chosen, it could not go.
        if !has_room && self.in_flight > 0 && (self.urgent == 0 || !self.may_urgent_go(limit)) {
            return None;
        }
        let kinds = self.kinds_that_may_go();
        // A place that is there for urgent requests is one for what a floor asks for, too.
        if (has_room || self.urgent > 0)
            && let Some(id) = self.next_owed(kinds)
        {
            return Some(id);
        }
        let (q, id) = match self.next_in_turn(kinds) {
            Next::Serve(q, id) => (q, id),
            Next::Wait => return None,
            Next::Any => match self.next_in_solo(has_room) {
                Some(alone) => alone,
                None => {
                    let member = self.shares.choose(now, kinds)?;
                    let q = self.of_member[member.index()];
                    (q, self.queue(q).fifo.first().expect("an active flow has a request"))
                }
            },
        };
        let may_go = has_room || (self.queue(q).class < BEST_EFFORT && self.may_urgent_go(limit));
        may_go.then(|| self.serve(q, id, kinds))
    }

    /// Returns the kinds of requests that are within their limits.
    #[inline]
    fn kinds_that_may_go(&mut self) -> Kinds {
        if self.fixed > 0 {
            return Kinds::ALL;
        }
        if self.are_writes_full() { Kinds::READS } else { Kinds::ALL }
    }

    /// Dispatches a request of a queue that was chosen among those of these kinds.
    fn serve(&mut self, q: QueueId, id: RequestId, kinds: Kinds) -> RequestId {
        self.serve_owed(q, id, kinds, None)
    }

    /// Dispatches a request of a queue; `owed` is the group whose floor asked for it, if one did.
    #[inline]
    fn serve_owed(
        &mut self,
        q: QueueId,
        id: RequestId,
        kinds: Kinds,
        owed: Option<GroupId>,
    ) -> RequestId {
        let (is_next, idle) = self.take_turn(q, id);
        let charges =
            Charges { costs: &self.costs, occupancy: &self.occupancy, rotational: self.rotational };
        let (slots, queue) = (self.slots.as_mut_slice(), &mut self.queues[q.index()]);
        let slot = &mut slots[id.index()];
        slot.is_next = is_next;
        let looks_at = self.occupancy.looks_at();
        let cost = if looks_at == Some(slot.cell) { 1 } else { charges.of(slot) + idle.get() };
        queue.take(id, slot.sector, &mut self.lists, &mut self.by_sector);
        let next = queue.fifo.first().map(|next| charges.cost_and_kind_of(&slots[next.index()]));
        queue.in_device += 1;
        queue.charged += cost;
        queue.largest = queue.largest.max(next.map_or(cost, |(next, _)| next.max(cost)));
        let (member, class) = (queue.member, queue.class);
        self.note_taken(q, class);
        self.elevator.remove(id);
        let is_looked_at = looks_at.is_some() || self.is_solo();
        let is_constrained = kinds != Kinds::ALL || is_looked_at || owed.is_some();
        self.counts.constrained += u64::from(is_constrained);
        self.charge_turn(q, cost);
        self.count_for_floors(member, id, owed.is_some());
        self.start(id);
        self.shares.serve(self.now, member, kinds, cost, next, owed);
        id
    }

    /// Notes that a request goes to the device; its queue is told elsewhere.
    #[inline(always)]
    fn start(&mut self, id: RequestId) {
        let now = self.now;
        self.depth.pass(now, self.in_flight);
        self.in_flight += 1;
        let mark = self.depth.mark();
        let slot = &mut self.slots[id.index()];
        (slot.place, slot.dispatched, slot.mark) = (Place::InDevice, now, mark);
        if slot.direction.is_write() {
            self.write_depth.pass(now, self.writes_in_flight);
            self.writes_in_flight += 1;
            slot.write_mark = self.write_depth.mark();
        }
    }

    /// Notes that a request is no longer in the device.
    #[inline(always)]
    fn stop(&mut self, slot: &Slot) {
        let now = self.now;
        self.depth.pass(now, self.in_flight);
        self.in_flight -= 1;
        self.occupancy.leave(slot.cell);
        if slot.direction.is_write() {
            self.write_depth.pass(now, self.writes_in_flight);
            self.writes_in_flight -= 1;
        }
        if let Some(q) = slot.queue {
            let queue = &mut self.queues[q.index()];
            queue.in_device -= 1;
            let member = queue.member;
            self.shares.leave_device(now, member);
        }
    }
}
