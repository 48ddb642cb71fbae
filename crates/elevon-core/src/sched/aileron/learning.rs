//! What the completions of requests say about the device, and the looks at one kind of request
//! that this takes.

use super::cost::{Direction, Quiet};
use super::depth::{Event, Load, Sample, Wants};
use super::ids::QueueId;
use super::kinds::Kinds;
use super::queue::Mean;
use super::shares::BEST_EFFORT;
use super::slot::Slot;
use super::{Aileron, RECENT, occupancy};
use crate::units::{Instant, RequestId};

impl Aileron {
    /// Dispatches a request of the cell that is looked at, of any queue: nobody is charged for it.
    pub(super) fn next_in_look(&mut self) -> Option<RequestId> {
        if let Some(member) = self.shares.choose(self.now, Kinds::ALL) {
            let q = self.of_member[member.index()];
            if self.queue(q).class < BEST_EFFORT {
                let id = self.queue(q).fifo.first().expect("an active flow has a request");
                return Some(self.serve(q, id, Kinds::ALL));
            }
        }
        let most = if self.occupancy.is_alone() { 1 } else { self.depth.most() };
        if self.in_flight >= most {
            return None;
        }
        let at = self.fronts.next_in_turn(self.cursor + 1)?;
        let id = self.queues[at].fifo.first().expect("a request of the cell is first");
        self.cursor = at;
        Some(self.serve(QueueId(at as u32), id, Kinds::ALL))
    }

    /// Returns true while requests are looked at one at a time.
    pub(super) fn is_solo(&self) -> bool {
        self.fixed == 0 && self.depth.is_solo()
    }

    /// Returns the request that is looked at alone next, if one is: a read or a write in turn, and
    /// of one process after another, because processes differ in the sizes that they ask for.
    pub(super) fn next_in_solo(&mut self, has_room: bool) -> Option<(QueueId, RequestId)> {
        if !self.is_solo() || !has_room || self.urgent > 0 {
            return None;
        }
        self.is_read_next = !self.is_read_next;
        let reads_first = [(Kinds::READS, 1), (Kinds::WRITES, 0)];
        let wanted = if self.is_read_next { reads_first } else { [reads_first[1], reads_first[0]] };
        wanted.into_iter().find_map(|(kinds, at)| {
            let (q, id) = self.next_of(kinds, self.alone_cursors[at])?;
            self.alone_cursors[at] = q.index();
            Some((q, id))
        })
    }

    /// Returns the first request of the next queue after `cursor`, in turn, whose first one is of
    /// these kinds.
    fn next_of(&self, kinds: Kinds, cursor: usize) -> Option<(QueueId, RequestId)> {
        let count = self.queues.len();
        let mut turn = (1..=count).map(|step| QueueId(((cursor + step) % count) as u32));
        turn.find_map(|q| {
            let queue = self.queue(q);
            let first =
                queue.fifo.first().filter(|_| queue.queued > 0 && queue.class == BEST_EFFORT)?;
            kinds.has(self.kind_of(first)).then_some((q, first))
        })
    }

    /// Returns true if the first request of a queue is one of the cell that is looked at, of best
    /// effort.
    pub(super) fn is_front(&self, q: QueueId, cell: u8) -> bool {
        let queue = self.queue(q);
        let first = queue.fifo.first().filter(|_| queue.queued > 0 && queue.class == BEST_EFFORT);
        first.is_some_and(|id| self.slots[id.index()].cell == cell)
    }

    /// Notes that another request may be the first of a queue.
    #[inline]
    pub(super) fn note_front(&mut self, q: QueueId) {
        if let Some(cell) = self.occupancy.looks_at() {
            self.fronts.set(q.index(), self.is_front(q, cell));
        }
    }

    /// Returns true if something that happened then counts as the present.
    #[inline]
    fn was_recently(&self, at: Option<Instant>) -> bool {
        at.is_some_and(|at| self.now.since(at) <= RECENT)
    }

    /// Returns true if somebody got less than its share just now.
    #[inline]
    pub(super) fn is_unfair(&self) -> bool {
        self.was_recently(self.unfair_at)
    }

    /// Begins a look if one is due and the depth is not being searched. Returns true if one begins.
    fn begins_look(&mut self) -> bool {
        // If all are in the device, what they occupy tells only whether a smaller depth costs.
        let is_of_use = self.waiting > 0 || self.is_unfair();
        let may_look = is_of_use && self.depth.is_settled() && self.write_depth.is_settled();
        let begins = may_look && self.occupancy.consider(self.now);
        if begins {
            (0..self.queues.len() as u32).for_each(|q| self.note_front(QueueId(q)));
            self.begin_other();
        }
        begins
    }

    /// Goes back to serving by shares.
    pub(super) fn end_look(&mut self) {
        self.occupancy.end(self.now);
        self.depth.on_look();
        self.write_depth.on_look();
    }

    /// Requests dispatched until now and from now on say different things about the depth.
    fn begin_other(&mut self) {
        self.depth.on_other(false);
        self.write_depth.on_other(false);
    }

    /// Learns from a request that ends.
    pub(super) fn learn(&mut self, slot: &Slot, issued: Instant) {
        let now = self.now;
        if slot.direction == Direction::NoData {
            return self.learn_of_no_data(slot);
        }
        if issued < slot.dispatched {
            return;
        }
        if self.rotational {
            self.learn_of_disk(slot);
            return;
        }
        let (alone, time) =
            (self.costs.of(slot.direction, slot.sectors, false), now.since(issued).get());
        let sample =
            self.depth.sample(slot.mark, time, alone, self.occupancy.occupied(slot.cell, alone));
        let is_look = self.occupancy.looks_at().is_some();
        let is_known = self.costs.is_known(slot.direction);
        let quiet = match self.depth.quiet(&sample, is_known) {
            _ if self.settings.depth > 0 => Quiet::Probably,
            Quiet::Probably if is_look => Quiet::No,
            quiet => quiet,
        };
        self.learn_cost(slot, time, quiet, is_known);
        if self.settings.depth > 0 {
            return;
        }
        if self.is_for_looks(slot, time, &sample) {
            return;
        }
        let (is_unfair, prefers_shares) = (self.is_unfair(), self.settings.prefers_shares);
        let (writes_prevail, are_writes_limited) = self.what_to_limit(is_unfair);
        let Self { depth, write_depth, waiting, .. } = self;
        let (is_binding, rest) = (*waiting > 0, self.occupancy.rest());
        let wants = Wants { is_unfair, is_binding, is_unknown: !is_known };
        let event = depth.learn(now, sample, wants, || Load {
            wants,
            may_probe: write_depth.is_settled(),
            may_shrink: are_writes_limited,
            prefers_shares,
            rest,
            others: None,
        });
        if event != Event::None {
            self.write_depth.on_other(event == Event::Costs);
        }
        if slot.direction.is_write() {
            self.write_at = Some(now);
            let is_unfair = is_unfair && self.was_recently(self.read_at);
            let Self { depth, write_depth, read_times, writes_in_flight, .. } = self;
            let sample = write_depth.sample(slot.write_mark, time, alone, sample.occupied);
            let is_binding = is_binding && *writes_in_flight + 1 >= write_depth.limit();
            let wants = Wants { is_unfair, is_binding, is_unknown: false };
            let event = write_depth.learn(now, sample, wants, || Load {
                wants,
                may_probe: depth.is_settled(),
                may_shrink: writes_prevail && !depth.needs_solo(now),
                prefers_shares,
                rest,
                others: Some(*read_times),
            });
            if event != Event::None {
                self.read_times = Mean::default();
                self.depth.on_other(false);
            }
        } else {
            self.read_at = Some(now);
            self.read_times.add(time * 1024 / alone);
        }
    }

    /// Returns whether more writes than reads are in the device, and whether their limit needs no
    /// look any more, so that the depth of all is next: for the sake of reads, writes that gain
    /// nothing from their depth are limited first.
    #[inline]
    fn what_to_limit(&self, is_unfair: bool) -> (bool, bool) {
        let now = self.now;
        // Only where it decides something: it takes divisions.
        let matters =
            is_unfair && (self.depth.may_be_down_due(now) || self.write_depth.may_be_down_due(now));
        let are_mixed =
            matters && self.was_recently(self.read_at) && self.was_recently(self.write_at);
        let writes_prevail =
            are_mixed && self.write_depth.mean_depth() * 2 > self.depth.mean_depth();
        (writes_prevail, matters && (!writes_prevail || self.write_depth.is_at_bottom(now)))
    }

    /// Counts a request that ended for the look in progress, or for deciding when the next look
    /// begins. Returns true if the request, which took so long, says nothing else.
    #[inline]
    fn is_for_looks(&mut self, slot: &Slot, time: u64, sample: &Sample) -> bool {
        let now = self.now;
        if self.occupancy.looks_at().is_none() {
            return !self.occupancy.note(now, slot.cell, slot.sectors, sample.alone)
                || (self.occupancy.is_due(now) && self.begins_look());
        }
        let is_of_look = self.depth.is_current(slot.mark);
        if is_of_look && self.occupancy.learn(now, slot, time, sample.area(), sample.alone) {
            self.end_look();
        }
        true
    }

    /// Learns what requests take by themselves. What they were seen to occupy stays the same.
    /// `is_known`: that was seen before of requests that did not wait.
    #[inline]
    fn learn_cost(&mut self, slot: &Slot, time: u64, quiet: Quiet, is_known: bool) {
        // What has waited says nothing more once others are known.
        if quiet == Quiet::No && is_known {
            return;
        }
        let Self { occupancy, costs, .. } = self;
        if costs.learn(slot.direction, slot.sectors, false, time, quiet) {
            let direction =
                |is_write: bool| if is_write { Direction::Write } else { Direction::Read };
            occupancy
                .on_new_costs(|is_write, sectors| costs.of(direction(is_write), sectors, false));
        }
    }

    /// Learns what a request that moves no data keeps from others: the time from the end of the
    /// request before it, as far as it was in the device then. A device may take no time for it,
    /// but the driver and the processor do.
    fn learn_of_no_data(&mut self, slot: &Slot) {
        self.depth.end_solo_without_data(self.now);
        let time = self.now.since(slot.dispatched.max(self.ended)).get();
        self.costs.learn(Direction::NoData, slot.sectors, false, time, Quiet::Probably);
    }

    /// Learns how long a disk was occupied by a request that ends: it does one at a time.
    fn learn_of_disk(&mut self, slot: &Slot) {
        // What continues a stream after others the disk may have read ahead: it is not a seek.
        if !slot.is_next && occupancy::follows(slot.cell) {
            return;
        }
        // A stream that others are in the way of says nothing about streams.
        let is_alone = slot.queue.is_none_or(|q| self.queue(q).in_device == self.in_flight);
        if is_alone || !slot.is_next {
            let time = self.now.since(slot.dispatched.max(self.ended)).get();
            self.costs.learn(slot.direction, slot.sectors, slot.is_next, time, Quiet::Probably);
        }
    }
}
