//! `mq-deadline`: sorted batches, with deadlines so that no request starves for long.
//!
//! Each priority class keeps its reads and its writes, both sorted by sector and in order of
//! arrival. The classes are RT, BE and IDLE; NONE counts as BE, and the level is ignored.
//! Everything but reads is a write here. Requests are dispatched in batches of `fifo_batch` in one
//! direction, with ascending sectors from a position. If the oldest request has passed its
//! deadline, a batch starts with it. Reads go first; writes wait for at most `writes_starved`
//! batches of reads. While a class has a request between insert and completion, lower classes are
//! not served, except requests older than `prio_aging_expire`.
//!
//! The quirks of Linux are reproduced: direction, batch and starvation counters belong to the
//! device and are shared by the classes, and a check for aged requests changes them even if it
//! finds none. The time of arrival is computed from the deadline minus the expiry now in force.
//! Times count in ticks. Kernel versions differ by [`Rules`]: 6.1 continues from a pointer to the
//! next request, later kernels from a position; the at-head list belongs to the class or to the
//! device.
//!
//! Cost, with n requests queued: insert O(log n), merge lookup O(1) at the back and O(log n) at the
//! front, dispatch O(log n) with at most two more probes for aging, completion O(1).

extern crate alloc;
use alloc::vec::Vec;

use super::elevator::Elevator;
use super::fifo::{Fifo, FifoLinks};
use super::tunable::{NATURAL, POSITIVE, requests_of_linux, row};
use super::{Reads, Scheduler, SchedulerInfo, View};
use crate::bio::Bio;
use crate::ioprio::IoPrio;
use crate::ioprio::PrioClass;
use crate::jiffies::{Hz, Ticks, to_ticks};
use crate::kernel::Rules;
use crate::merge::MergeKind;
use crate::op::{Flags, Op};
use crate::tags::SchedTags;
use crate::tree::{Root, TreeLinks};
use crate::units::{HwQueue, Instant, RequestId, Sector};

const READ: usize = 0;
const WRITE: usize = 1;
/// Best effort, the first class that is checked for aged requests.
const BE: usize = PrioClass::Be.rank();

/// The entry of `elevon schedulers`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "mq-deadline",
    summary: "sorted batches of reads and writes, deadlines against starvation, strict priority classes",
    reads: &[Reads::PriorityClass],
    in_linux: true,
    divides_as: None,
    keeps_reserves: false,
    turns_wbt_off: false,
    first_requests: requests_of_linux,
    async_quarters: 4,
    // Measured on Linux 6.18.
    taken: |_| i32::MIN.into()..=i32::MAX.into(),
    tunables: &[
        row(
            "async_depth",
            "requests",
            "nr_requests",
            POSITIVE,
            "scheduler tags that everything but reads may take",
        ),
        row("fifo_batch", "requests", "16", NATURAL, "requests in a batch; 0 acts like 1"),
        row(
            "front_merges",
            "boolean",
            "1",
            ("0..1", 0, 1),
            "look for requests that a bio may be put in front of",
        ),
        row(
            "prio_aging_expire",
            "ms",
            "10000",
            NATURAL,
            "age from which a request passes higher classes",
        ),
        row(
            "read_expire",
            "ms",
            "500",
            NATURAL,
            "deadline of a read; looked at when a batch starts",
        ),
        row("write_expire", "ms", "5000", NATURAL, "deadline of a write"),
        row(
            "writes_starved",
            "batches",
            "2",
            ("-2147483648..2147483647", i32::MIN as i64, i32::MAX as i64),
            "read batches that pass waiting writes; negative: writes wait for the last read",
        ),
    ],
};

/// Counters of a priority class. `inserted + requeued = dispatched + merged + queued` at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassCounters {
    /// Requests inserted, counted once in a request's life; including those merged on insertion.
    pub inserted: u32,
    /// Requests inserted again.
    pub requeued: u32,
    /// Requests merged into others.
    pub merged: u32,
    /// Requests dispatched, including again after a requeue.
    pub dispatched: u32,
    /// Requests completed, including merged ones.
    pub completed: u32,
}

impl ClassCounters {
    /// Returns the number of requests between insert and completion, in the driver or not.
    const fn outstanding(&self) -> u32 {
        self.inserted.wrapping_sub(self.completed)
    }
}

/// Queued requests and counters of a priority class.
#[derive(Clone, Debug, Default)]
struct Class {
    /// Requests sorted by sector, by direction (as all arrays here).
    sorted: [Root; 2],
    /// Requests in order of arrival.
    fifo: [Fifo; 2],
    /// The next request of the batch, up to 6.1; updated when a request is removed.
    next: [Option<RequestId>; 2],
    /// First sector of the last request dispatched, from 6.5 on.
    position: [Sector; 2],
    /// Requeued requests, if the list belongs to the class.
    at_head: Fifo,
    counters: ClassCounters,
}

/// The list that contains a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ListedIn {
    /// The request is not known, or has completed.
    #[default]
    Unknown,
    /// The request is in an at-head list.
    AtHead,
    /// The request is in the tree and the FIFO of its class and direction.
    Sorted,
    /// The request was dispatched or merged into another, and has not completed.
    Gone,
}

/// State of a request in the scheduler.
#[derive(Clone, Copy, Debug, Default)]
struct RequestInfo {
    /// Tick at which it expires.
    deadline: i64,
    class: u8,
    direction: u8,
    place: ListedIn,
}

/// The tunables as the kernel keeps them: times in ticks.
#[derive(Clone, Copy, Debug)]
struct DeadlineSettings {
    /// Ticks that a request may wait, by direction.
    expire: [i64; 2],
    aging: i64,
    fifo_batch: u32,
    writes_starved: i32,
    front_merges: bool,
    /// The value that was set; if none, it follows `nr_requests`.
    async_depth: Option<u32>,
}

/// The mq-deadline scheduler of one device.
#[derive(Clone, Debug)]
pub struct MqDeadline {
    classes: [Class; 3],
    slots: Vec<RequestInfo>,
    tree: TreeLinks,
    lists: FifoLinks,
    elevator: Elevator,
    /// Requeued requests, if the list belongs to the device.
    at_head: Fifo,
    /// Requests in any list or tree.
    queued: usize,
    last_direction: usize,
    batching: u32,
    starved: u32,
    settings: DeadlineSettings,
    rules: Rules,
    hz: Hz,
    /// The scheduler's tags of a hardware queue.
    tags: SchedTags,
    clock: Ticks,
}

/// Returns the index of the class that serves a request of this priority.
const fn rank(rules: &Rules, ioprio: IoPrio) -> usize {
    if rules.deadline_classes { ioprio.class().rank() } else { BE }
}

const fn direction_of(op: Op) -> usize {
    if op.is_write() { WRITE } else { READ }
}

impl MqDeadline {
    /// Returns a scheduler with every tunable at its default. `hz` (100 to 1000) is the tick rate
    /// of deadlines.
    pub fn new(rules: Rules, hz: Hz, queues: u16, requests: usize) -> Self {
        let hz = Hz(hz.0.max(1));
        let settings = DeadlineSettings {
            expire: [to_ticks(500, hz), to_ticks(5000, hz)],
            aging: to_ticks(10_000, hz),
            fifo_batch: 16,
            writes_starved: 2,
            front_merges: true,
            async_depth: None,
        };
        Self {
            classes: Default::default(),
            slots: alloc::vec![RequestInfo::default(); requests],
            tree: TreeLinks::new(requests),
            lists: FifoLinks::new(requests),
            elevator: Elevator::new(requests),
            at_head: Fifo::EMPTY,
            queued: 0,
            last_direction: WRITE,
            batching: 0,
            starved: 0,
            settings,
            rules,
            hz,
            clock: Ticks::new(hz),
            tags: SchedTags::of_each(requests, usize::from(queues)),
        }
    }

    /// Returns the counters of the classes: RT, BE, IDLE.
    #[cfg(test)]
    fn counters(&self) -> [ClassCounters; 3] {
        [0, 1, 2].map(|c: usize| self.classes[c].counters)
    }

    pub(super) fn tunable(&self, name: &str) -> i64 {
        let s = &self.settings;
        let ms = |ticks: i64| ticks * 1000 / self.hz.0 as i64;
        match name {
            "read_expire" => ms(s.expire[READ]),
            "write_expire" => ms(s.expire[WRITE]),
            "prio_aging_expire" => ms(s.aging),
            "fifo_batch" => s.fifo_batch.into(),
            "writes_starved" => s.writes_starved.into(),
            "front_merges" => s.front_merges.into(),
            "async_depth" => s.async_depth.unwrap_or(self.tags.depth()).into(),
            other => unreachable!("{other} is not in the table"),
        }
    }

    /// Sets a tunable. The value must be in the range that [`INFO`] gives.
    pub(super) fn set_tunable(&mut self, name: &str, value: i64) {
        let s = &mut self.settings;
        let ticks = to_ticks(value, self.hz);
        match name {
            "read_expire" => s.expire[READ] = ticks,
            "write_expire" => s.expire[WRITE] = ticks,
            "prio_aging_expire" => s.aging = ticks,
            "fifo_batch" => s.fifo_batch = value as u32,
            "writes_starved" => s.writes_starved = value as i32,
            "front_merges" => s.front_merges = value != 0,
            "async_depth" => s.async_depth = Some(value as u32),
            other => unreachable!("{other} is not in the table"),
        }
    }

    fn grow(&mut self, requests: usize) {
        self.slots.resize(requests, RequestInfo::default());
        self.tree.grow(requests);
        self.lists.grow(requests);
        self.elevator.grow(requests);
    }

    /// Counts a request that arrives in its class, and returns its slot.
    fn admit(&mut self, view: View<'_>, id: RequestId) -> &mut RequestInfo {
        if id.index() >= self.slots.len() {
            self.grow(view.requests.len());
        }
        let request = &view.requests[id];
        let slot = &mut self.slots[id.index()];
        debug_assert!(
            matches!(slot.place, ListedIn::Unknown | ListedIn::Gone),
            "request {} is inserted twice",
            id.0
        );
        let class = rank(&self.rules, request.ioprio);
        let counters = &mut self.classes[class].counters;
        if slot.place == ListedIn::Unknown {
            counters.inserted = counters.inserted.wrapping_add(1);
        } else {
            counters.requeued = counters.requeued.wrapping_add(1);
        }
        slot.class = class as u8;
        slot.direction = direction_of(request.op) as u8;
        slot
    }

    /// Removes a request from the sorted tree and from merging, but not from its FIFO.
    fn unsort(&mut self, id: RequestId) {
        let RequestInfo { class, direction, .. } = self.slots[id.index()];
        let (class, direction) = (&mut self.classes[usize::from(class)], usize::from(direction));
        if class.next[direction] == Some(id) {
            class.next[direction] = self.tree.next(id);
        }
        self.tree.remove(&mut class.sorted[direction], id);
        self.elevator.remove(id);
        self.queued -= 1;
    }

    /// Counts a request as dispatched to the driver.
    fn start(&mut self, id: RequestId) -> RequestId {
        let slot = &mut self.slots[id.index()];
        slot.place = ListedIn::Gone;
        let counters = &mut self.classes[usize::from(slot.class)].counters;
        counters.dispatched = counters.dispatched.wrapping_add(1);
        id
    }

    /// Returns true if a request arrived after a tick. The arrival is computed from the deadline.
    fn arrived_after(&self, id: RequestId, tick: i64) -> bool {
        let slot = &self.slots[id.index()];
        slot.deadline - self.settings.expire[usize::from(slot.direction)] > tick
    }

    /// Returns the next request in sorted order in a direction of a class.
    fn next_request(&self, class: usize, direction: usize) -> Option<RequestId> {
        let class = &self.classes[class];
        if self.rules.deadline_position {
            self.tree.lower_bound(class.sorted[direction], class.position[direction])
        } else {
            class.next[direction]
        }
    }

    /// Chooses a direction and the first request of a new batch.
    fn start_batch(&mut self, class: usize, now: i64) -> Option<RequestId> {
        let fifo = self.classes[class].fifo;
        let direction = match (fifo[READ].is_empty(), fifo[WRITE].is_empty()) {
            (true, true) => return None,
            (false, true) => READ,
            (true, false) => WRITE,
            (false, false) => {
                // A negative setting is compared as a large one, as in Linux.
                let writes_first = self.starved >= self.settings.writes_starved as u32;
                self.starved = self.starved.wrapping_add(1);
                if writes_first { WRITE } else { READ }
            }
        };
        if direction == WRITE {
            self.starved = 0;
        }
        let oldest = fifo[direction].first()?;
        let expired = now >= self.slots[oldest.index()].deadline;
        let chosen =
            if expired { oldest } else { self.next_request(class, direction).unwrap_or(oldest) };
        self.last_direction = direction;
        self.batching = 0;
        Some(chosen)
    }

    /// Dispatches a request of a class, unless the next one arrived after `latest`. Even then a new
    /// batch may have begun.
    fn try_class(&mut self, class: usize, now: i64, latest: i64) -> Option<RequestId> {
        if let Some(id) = self.classes[class].at_head.first() {
            if self.arrived_after(id, latest) {
                return None;
            }
            self.lists.remove(&mut self.classes[class].at_head, id);
            self.queued -= 1;
            return Some(self.start(id));
        }
        let in_batch = self.batching < self.settings.fifo_batch;
        let next = if in_batch { self.next_request(class, self.last_direction) } else { None };
        let id = match next {
            Some(id) => id,
            None => self.start_batch(class, now)?,
        };
        if self.arrived_after(id, latest) {
            return None;
        }
        self.batching = self.batching.saturating_add(1);
        let direction = self.last_direction;
        if self.rules.deadline_position {
            self.classes[class].position[direction] = self.tree.key(id);
        } else {
            self.classes[class].next[direction] = self.tree.next(id);
        }
        self.unsort(id);
        self.lists.remove(&mut self.classes[class].fifo[direction], id);
        Some(self.start(id))
    }

    /// Dispatches a request that is so old that its class no longer matters.
    fn dispatch_aged(&mut self, now: i64) -> Option<RequestId> {
        if !self.rules.deadline_ages
            || self.classes.iter().filter(|c| c.counters.outstanding() > 0).count() < 2
        {
            return None;
        }
        let latest = now - self.settings.aging;
        (BE..self.classes.len()).find_map(|class| self.try_class(class, now, latest))
    }
}

impl Scheduler for MqDeadline {
    fn insert(&mut self, now: Instant, view: View<'_>, id: RequestId, at_head: bool) {
        debug_assert_eq!(view.requests[id].state, crate::request::State::Queued);
        let tick = self.clock.at(now);
        let per_device = self.rules.deadline_head_list_per_device;
        let expire = self.settings.expire;
        let slot = self.admit(view, id);
        let (class, direction) = (usize::from(slot.class), usize::from(slot.direction));
        if at_head {
            (slot.place, slot.deadline) = (ListedIn::AtHead, tick);
            let list =
                if per_device { &mut self.at_head } else { &mut self.classes[class].at_head };
            self.lists.push_front(list, id);
        } else {
            (slot.place, slot.deadline) = (ListedIn::Sorted, tick + expire[direction]);
            self.tree.insert(
                &mut self.classes[class].sorted[direction],
                view.requests[id].sector,
                id,
            );
            self.lists.push_back(&mut self.classes[class].fifo[direction], id);
            self.elevator.add(view, id);
        }
        self.queued += 1;
    }

    fn dispatch(&mut self, now: Instant, _view: View<'_>, _queue: HwQueue) -> Option<RequestId> {
        if self.queued == 0 {
            return None;
        }
        if let Some(id) = self.lists.pop_front(&mut self.at_head) {
            self.queued -= 1;
            return Some(self.start(id));
        }
        let tick = self.clock.at(now);
        if let Some(id) = self.dispatch_aged(tick) {
            return Some(id);
        }
        for class in 0..self.classes.len() {
            let id = self.try_class(class, tick, tick);
            if id.is_some() || self.classes[class].counters.outstanding() > 0 {
                return id;
            }
        }
        None
    }

    /// All requests belong to the device: any hardware queue may take them.
    #[inline]
    fn has_work(&self, _queue: HwQueue) -> bool {
        self.queued > 0
    }

    fn find_merge(
        &mut self,
        view: View<'_>,
        bio: &Bio,
        one_hit_only: bool,
    ) -> Option<(RequestId, MergeKind)> {
        let Self { elevator, classes, tree, settings, rules, .. } = self;
        elevator.find_merge(view, bio, one_hit_only, || {
            let sorted = classes[rank(rules, bio.ioprio)].sorted[direction_of(bio.op)];
            tree.first_at(sorted, bio.end()).filter(|_| settings.front_merges)
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
        if kind == MergeKind::Front {
            let RequestInfo { class, direction, .. } = self.slots[id.index()];
            let sorted = &mut self.classes[usize::from(class)].sorted[usize::from(direction)];
            self.tree.refile(sorted, view.requests[id].sector, id);
        }
        self.elevator.on_bio_merged(view, id);
    }

    fn neighbour(&self, _view: View<'_>, id: RequestId, kind: MergeKind) -> Option<RequestId> {
        self.tree.neighbour(id, kind)
    }

    fn on_requests_merged(
        &mut self,
        _now: Instant,
        view: View<'_>,
        survivor: RequestId,
        swallowed: RequestId,
    ) {
        if self.slots.get(swallowed.index()).is_none_or(|slot| slot.place != ListedIn::Sorted) {
            self.admit(view, swallowed);
        } else {
            self.unsort(swallowed);
            let RequestInfo { class, direction, deadline, .. } = self.slots[swallowed.index()];
            let fifo = &mut self.classes[usize::from(class)].fifo[usize::from(direction)];
            if deadline < self.slots[survivor.index()].deadline {
                self.slots[survivor.index()].deadline = deadline;
                self.lists.remove(fifo, survivor);
                self.lists.replace(fifo, swallowed, survivor);
            } else {
                self.lists.remove(fifo, swallowed);
            }
        }
        self.elevator.on_requests_merged(view, survivor, swallowed);
        let slot = &mut self.slots[swallowed.index()];
        slot.place = ListedIn::Gone;
        let counters = &mut self.classes[usize::from(slot.class)].counters;
        counters.merged = counters.merged.wrapping_add(1);
    }

    fn on_finish(&mut self, _now: Instant, _view: View<'_>, id: RequestId) {
        if let Some(slot) =
            self.slots.get_mut(id.index()).filter(|slot| slot.place == ListedIn::Gone)
        {
            slot.place = ListedIn::Unknown;
            let counters = &mut self.classes[usize::from(slot.class)].counters;
            counters.completed = counters.completed.wrapping_add(1);
        }
    }

    /// Limits everything except reads to `async_depth`: tags of the whole map, or in versions
    /// before that rule positions in each bitmap word (words of 2^shift tags, at most 64, so that
    /// there are at least four), scaled and rounded up.
    fn depth_limit(&self, op: Op, _flags: Flags) -> Option<u32> {
        let depth = self.tags.depth();
        let async_depth = self.settings.async_depth.unwrap_or(depth);
        let is_limited = op != Op::Read && async_depth < depth;
        is_limited.then(|| self.tags.shallow_depth(async_depth, self.rules.whole_map_shallow_depth))
    }

    fn least_limit(&self, tags: u32) -> u32 {
        if self.rules.deadline_wakes_in_batches {
            self.settings.async_depth.unwrap_or(tags)
        } else {
            1
        }
    }

    fn set_async_depth(&mut self, depth: u32) {
        self.settings.async_depth = Some(depth);
    }

    fn on_depth_updated(&mut self, nr_requests: u32, shift: u32) {
        self.tags = SchedTags::new(nr_requests, shift);
    }

    fn set_discard_ranges(&mut self, ranges: u16) {
        self.elevator.set_discard_ranges(ranges);
    }

    fn self_check(&self, view: View<'_>) {
        let mut queued = self.lists.self_check(self.at_head);
        for (index, class) in self.classes.iter().enumerate() {
            let mut of_class = self.lists.self_check(class.at_head);
            let on_device = self.lists.iter(self.at_head);
            let ours = on_device
                .filter(|id| usize::from(self.slots[id.index()].class) == index)
                .count() as u32;
            for direction in [READ, WRITE] {
                let (sorted, fifo) = (class.sorted[direction], class.fifo[direction]);
                assert_eq!(
                    self.tree.self_check(sorted),
                    self.lists.self_check(fifo),
                    "tree and FIFO differ"
                );
                for id in self.lists.iter(fifo) {
                    let slot = &self.slots[id.index()];
                    assert_eq!(slot.place, ListedIn::Sorted);
                    assert_eq!(
                        (usize::from(slot.class), usize::from(slot.direction)),
                        (index, direction)
                    );
                    assert_eq!(
                        self.tree.key(id),
                        view.requests[id].sector,
                        "request {} is sorted elsewhere",
                        id.0
                    );
                    of_class += 1;
                }
                assert!(
                    class.next[direction].is_none_or(|id| self.tree.contains(id)),
                    "the next request is gone"
                );
            }
            queued += of_class;
            let c = class.counters;
            let accounted =
                c.dispatched.wrapping_add(c.merged).wrapping_add(of_class as u32 + ours);
            assert_eq!(
                c.inserted.wrapping_add(c.requeued),
                accounted,
                "counters of class {index}: {c:?}"
            );
        }
        assert_eq!(queued, self.queued, "requests in the lists");
        self.elevator.self_check(view, |id| self.slots[id.index()].place == ListedIn::Sorted);
    }
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
