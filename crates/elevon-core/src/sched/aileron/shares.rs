//! Start-time fair queueing over a hierarchy. It chooses the member that is served next, and tells
//! how far each is behind or ahead of its share. It knows only members, costs and weights.
//!
//! A *member* is a flow or a group of members. A member that waits has a start S. Of the members
//! that wait, the one with the smallest S is served. Its S then advances by `cost / weight`. The
//! virtual time V of a class of a group is the largest of the smallest starts at each service. A
//! member that begins to wait has `S = max(S, V − CREDIT · cost / weight)`: it keeps what it owes
//! others, and a part of what it is owed. A member that waits for its own completions never has
//! much waiting, and would lose a part of its share on every return without that part.
//! (P. Goyal, H. Vin, H. Cheng: Start-Time Fair Queueing, SIGCOMM 1996.)
//!
//! Classes are strict within a group, and groups are best effort. A class that has waited for
//! `patience` is served once, whatever waits above it.
//!
//! Cost, with m members in a group and d levels: each call O(d · log m).

extern crate alloc;
use super::decisions::GroupClass;
use super::ids::{GroupId, MemberId};
use crate::ioprio::PrioClass;
use crate::sched::finish_tree::{FinishTrees, Root, later, latest};
use crate::units::{Instant, Nanos};
use alloc::vec::Vec;

/// Requests that a member may be owed when it begins to wait. The reader of one request at a time
/// is owed one. A request that is late in the device costs it some more.
const CREDIT: u64 = 4;
/// log2 of the virtual time of one nanosecond of cost at weight 1. A device that is busy for four
/// years at weight 1 comes to half of the range.
pub(super) const SHIFT: u32 = 6;
/// Classes, most urgent first: RT, BE, IDLE.
pub(super) const CLASSES: usize = 3;

/// A flow or a group as a member of its group.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// The group that it is in.
    group: GroupId,
    /// The group that it is, if it is one.
    own: Option<GroupId>,
    class: usize,
    /// It has requests, or a member of it has.
    waits: bool,
    /// Requests of it, or below it, in the device.
    in_device: u32,
    /// When the last of them left.
    left: Instant,
    weight: u32,
    /// S.
    start: u64,
    /// The cost of its last request in nanoseconds.
    cost: u64,
    /// Device time that it was owed and lost while all that it had was in the device.
    lost: Nanos,
}

/// The members of one class of a group.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// Those that wait, by S.
    waiting: Root,
    /// V.
    time: u64,
    /// When the class was last served, or began to wait.
    waits_since: Instant,
    /// Requests of it that were served, and those of them that are in the device.
    served: u64,
    in_device: u32,
}

/// A group.
#[derive(Clone, Debug)]
struct Group {
    classes: [Class; CLASSES],
    /// Itself as a member; `None` for the root.
    member: Option<MemberId>,
}

impl Group {
    const fn new(member: Option<MemberId>) -> Self {
        let class = Class {
            waiting: Root::EMPTY,
            time: 0,
            waits_since: Instant::ZERO,
            served: 0,
            in_device: 0,
        };
        Self { classes: [class; CLASSES], member }
    }

    fn waits(&self) -> bool {
        self.classes.iter().any(|class| !class.waiting.is_empty())
    }
}

/// All members and groups.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    members: Vec<Member>,
    free: Vec<MemberId>,
    groups: Vec<Group>,
    /// The nodes of the trees of members that wait.
    trees: FinishTrees,
    /// How long a class waits before it is served once.
    pub(super) patience: Nanos,
    /// The cost of a turn on a disk, in nanoseconds: a member that waits for its turn may be owed
    /// as much.
    pub(super) turn: u64,
}

/// Returns the virtual time that a cost takes at a weight.
#[inline]
const fn delta(cost: u64, weight: u32) -> u64 {
    (cost << SHIFT) / weight as u64
}

impl Shares {
    /// Returns the root group without members.
    pub(super) fn new(patience: Nanos) -> Self {
        Self {
            members: Vec::new(),
            free: Vec::new(),
            groups: alloc::vec![Group::new(None)],
            trees: FinishTrees::default(),
            patience,
            turn: 0,
        }
    }

    /// Adds a flow to a group. `class` is an index, most urgent first.
    pub(super) fn add(&mut self, group: GroupId, class: usize, weight: u32) -> MemberId {
        self.add_member(group, None, class, weight)
    }

    /// Adds a group to a group.
    pub(super) fn add_group(&mut self, parent: GroupId, weight: u32) -> GroupId {
        let id = GroupId(self.groups.len() as u32);
        let member = self.add_member(parent, Some(id), PrioClass::Be.rank(), weight);
        self.groups.push(Group::new(Some(member)));
        id
    }

    fn add_member(
        &mut self,
        group: GroupId,
        own: Option<GroupId>,
        class: usize,
        weight: u32,
    ) -> MemberId {
        let member = Member {
            group,
            own,
            class,
            waits: false,
            in_device: 0,
            left: Instant::ZERO,
            weight: weight.max(1),
            start: self.groups[group.index()].classes[class].time,
            cost: 1,
            lost: Nanos::ZERO,
        };
        if let Some(id) = self.free.pop() {
            self.members[id.index()] = member;
            return id;
        }
        self.members.push(member);
        self.trees.grow(self.members.len());
        MemberId((self.members.len() - 1) as u32)
    }

    /// Removes a flow that has no requests.
    pub(super) fn remove(&mut self, id: MemberId) {
        assert!(!self.members[id.index()].waits, "a member with requests is removed");
        self.free.push(id);
    }

    /// Changes the weight of a member, from its next request on.
    pub(super) fn set_weight(&mut self, id: MemberId, weight: u32) {
        self.members[id.index()].weight = weight.max(1);
    }

    /// Returns the member that a group is; `None` for the root.
    pub(super) fn member_of(&self, group: GroupId) -> Option<MemberId> {
        self.groups[group.index()].member
    }

    /// Returns the group that a member is in.
    pub(super) fn group_of(&self, id: MemberId) -> GroupId {
        self.members[id.index()].group
    }

    /// Yields the groups that a flow is below, the nearest first, without the root.
    pub(super) fn groups_above(&self, id: MemberId) -> impl Iterator<Item = GroupId> {
        let above = |group: GroupId| Some(group).filter(|group| *group != GroupId::ROOT);
        let of_member = move |id: MemberId| above(self.group_of(id));
        core::iter::successors(of_member(id), move |group| of_member(self.member_of(*group)?))
    }

    /// Returns the weight of a member.
    pub(super) fn weight_of(&self, id: MemberId) -> u32 {
        self.members[id.index()].weight
    }

    /// Returns true if a member of a group waits.
    pub(super) fn waits(&self, group: GroupId) -> bool {
        self.groups[group.index()].waits()
    }

    /// Returns until when a group had requests in the device: now, if it has some.
    pub(super) fn in_device_until(&self, now: Instant, group: GroupId) -> Instant {
        let member = self.member_of(group).map(|id| &self.members[id.index()]);
        member.filter(|member| member.in_device == 0).map_or(now, |member| member.left)
    }

    /// Returns the device time that a group was owed and lost.
    pub(super) fn lost_by(&self, group: GroupId) -> Nanos {
        self.member_of(group).map_or(Nanos::ZERO, |id| self.members[id.index()].lost)
    }

    /// Yields what can be seen of each class of each group.
    pub(super) fn classes(&self) -> impl Iterator<Item = GroupClass> {
        (0..).zip(&self.groups).flat_map(|(index, group)| {
            group.classes.iter().enumerate().map(move |(class, tree)| GroupClass {
                group: index,
                class,
                waits_since: (!tree.waiting.is_empty()).then_some(tree.waits_since),
                served: tree.served,
            })
        })
    }

    /// Moves a flow without requests to another group. What it is owed or owes there ends.
    pub(super) fn move_to(&mut self, id: MemberId, group: GroupId) {
        let member = &mut self.members[id.index()];
        debug_assert!(!member.waits && member.in_device == 0, "a member with requests is moved");
        (member.group, member.start) =
            (group, self.groups[group.index()].classes[member.class].time);
    }

    /// Returns the smallest start of a member that is owed as much as it may be.
    fn oldest(&self, member: &Member, cost: u64) -> u64 {
        let time = self.groups[member.group.index()].classes[member.class].time;
        time.wrapping_sub(delta((CREDIT * cost).max(self.turn), member.weight))
    }

    /// Makes a flow wait that had no requests; `cost` is that of its first. Returns true if it
    /// meets a less urgent class in the device.
    pub(super) fn activate(&mut self, now: Instant, id: MemberId, cost: u64) -> bool {
        let mut meets_lower = false;
        let (mut at, mut cost) = (Some(id), cost);
        while let Some(id) = at {
            let member = self.members[id.index()];
            if member.waits {
                break;
            }
            let start = latest(member.start, self.oldest(&member, cost));
            let group = &mut self.groups[member.group.index()];
            meets_lower |=
                group.classes[member.class + 1..].iter().any(|class| class.in_device > 0);
            let class = &mut group.classes[member.class];
            if class.waiting.is_empty() {
                class.waits_since = now;
            }
            self.trees.insert(&mut class.waiting, id.0, start);
            let member = &mut self.members[id.index()];
            (member.start, member.waits) = (start, true);
            at = group.member;
            cost = at.map_or(0, |above| self.members[above.index()].cost);
        }
        meets_lower
    }

    /// Takes a flow out that has lost its requests without being served (they were merged).
    pub(super) fn deactivate(&mut self, id: MemberId) {
        let mut at = Some(id);
        while let Some(id) = at {
            let member = &mut self.members[id.index()];
            member.waits = false;
            let group = &mut self.groups[member.group.index()];
            self.trees.remove(&mut group.classes[member.class].waiting, id.0);
            at = group.member.filter(|_| !group.waits());
        }
    }

    /// Serves a flow: a request of it goes to the device, which costs `cost`. `waits`: it has
    /// another one. If the floor of the group `owed` asks for it, who is ahead of its share owes
    /// nothing for it from this group up: it gets this besides what is shared by weight.
    #[inline]
    pub(super) fn serve(
        &mut self,
        now: Instant,
        id: MemberId,
        cost: u64,
        mut waits: bool,
        owed: Option<GroupId>,
    ) {
        let (mut at, mut is_owed) = (Some(id), false);
        while let Some(id) = at {
            let member = &mut self.members[id.index()];
            debug_assert!(member.waits, "member {} is served without requests", id.0);
            is_owed |= owed.is_some() && member.own == owed;
            let group = &mut self.groups[member.group.index()];
            let class = &mut group.classes[member.class];
            let first = self.trees.first(class.waiting).expect("the member waits");
            class.time = latest(class.time, self.trees.finish(first));
            (class.waits_since, class.served, class.in_device) =
                (now, class.served + 1, class.in_device + 1);
            if !(is_owed && later(member.start, class.time)) {
                member.start = member.start.wrapping_add(delta(cost, member.weight));
            }
            (member.waits, member.cost, member.in_device) = (waits, cost, member.in_device + 1);
            self.trees.remove(&mut class.waiting, id.0);
            if waits {
                self.trees.insert(&mut class.waiting, id.0, member.start);
            }
            (at, waits) = (group.member, group.waits());
        }
    }

    /// Charges a flow for device time that no request was chosen for: that of a flush.
    pub(super) fn charge(&mut self, id: MemberId, cost: Nanos) {
        let mut at = Some(id);
        while let Some(id) = at {
            let member = &mut self.members[id.index()];
            let group = &mut self.groups[member.group.index()];
            member.start = member.start.wrapping_add(delta(cost.get(), member.weight));
            if member.waits {
                let class = &mut group.classes[member.class];
                self.trees.remove(&mut class.waiting, id.0);
                self.trees.insert(&mut class.waiting, id.0, member.start);
            }
            at = group.member;
        }
    }

    /// Counts a request of a flow that went to the device without being chosen.
    pub(super) fn enter_device(&mut self, id: MemberId) {
        let mut at = Some(id);
        while let Some(id) = at {
            let member = &mut self.members[id.index()];
            member.in_device += 1;
            let group = &mut self.groups[member.group.index()];
            group.classes[member.class].in_device += 1;
            at = group.member;
        }
    }

    /// Counts a request of a flow that is no longer in the device. Returns true if the flow, or a
    /// group above it, has lost a part of what it is owed because all that it had was in there.
    pub(super) fn leave_device(&mut self, now: Instant, id: MemberId) -> bool {
        let (mut at, mut is_short) = (Some(id), false);
        while let Some(id) = at {
            let oldest = self.oldest(&self.members[id.index()], self.members[id.index()].cost);
            let member = &mut self.members[id.index()];
            (member.in_device, member.left) = (member.in_device - 1, now);
            if !member.waits && later(oldest, member.start) {
                let behind = u128::from(oldest.wrapping_sub(member.start));
                let lost = (behind * u128::from(member.weight)) >> SHIFT;
                member.lost += Nanos::new(lost as u64);
                (member.start, is_short) = (oldest, true);
            }
            let group = &mut self.groups[member.group.index()];
            group.classes[member.class].in_device -= 1;
            at = group.member;
        }
        is_short
    }

    /// Returns the class of a group that is served now: the one that has waited for too long and
    /// the longest, or else the most urgent that waits.
    ///
    /// The most urgent one is among those that may have waited for too long: if a single request
    /// takes longer than that, the others would else be overdue whenever one may go.
    #[inline]
    fn class_of(&self, now: Instant, group: &Group) -> Option<usize> {
        let waits = |class: &usize| !group.classes[*class].waiting.is_empty();
        let first = (0..CLASSES).find(waits)?;
        let since = |class: &usize| group.classes[*class].waits_since;
        let is_overdue = |class: &usize| waits(class) && now.since(since(class)) >= self.patience;
        if !(first + 1..CLASSES).any(|class| is_overdue(&class)) {
            return Some(first);
        }
        (first..CLASSES).filter(is_overdue).min_by_key(since)
    }

    /// Returns the flow below a group to serve next.
    #[inline]
    pub(super) fn choose(&self, now: Instant, mut group: GroupId) -> Option<MemberId> {
        loop {
            let of = &self.groups[group.index()];
            let class = &of.classes[self.class_of(now, of)?];
            let id = MemberId(self.trees.first(class.waiting)?);
            match self.members[id.index()].own {
                Some(own) => group = own,
                None => return Some(id),
            }
        }
    }

    /// Returns true if a request of `cost` of a flow without requests that arrived now would be
    /// served before all that wait.
    pub(super) fn would_be_next(&self, id: MemberId, cost: u64) -> bool {
        let (mut at, mut cost) = (Some(id), cost);
        while let Some(id) = at {
            let member = &self.members[id.index()];
            let group = &self.groups[member.group.index()];
            let start = latest(member.start, self.oldest(member, cost));
            let above = &group.classes[..member.class];
            let first = self.trees.first(group.classes[member.class].waiting);
            let is_later = |first: u32| later(start, self.trees.finish(first));
            if above.iter().any(|class| !class.waiting.is_empty()) || first.is_some_and(is_later) {
                return false;
            }
            at = group.member;
            cost = at.map_or(0, |above| self.members[above.index()].cost);
        }
        true
    }

    /// Checks costly invariants, for tests. Returns the flows that wait, in no order.
    pub(super) fn self_check(&self) -> Vec<MemberId> {
        let mut waiting = Vec::new();
        for (index, group) in self.groups.iter().enumerate() {
            for (class, tree) in group.classes.iter().enumerate() {
                for id in self.trees.self_check(tree.waiting) {
                    let member = &self.members[id as usize];
                    assert_eq!(
                        (member.group.index(), member.class),
                        (index, class),
                        "place of {id}"
                    );
                    assert!(member.waits, "member {id} is in a tree");
                    assert_eq!(self.trees.finish(id), member.start, "the start of {id}");
                    if member.own.is_none() {
                        waiting.push(MemberId(id));
                    }
                }
            }
            if let Some(member) = group.member {
                let waits = self.members[member.index()].waits;
                assert_eq!(group.waits(), waits, "whether group {index} waits");
            }
        }
        waiting
    }
}

#[cfg(test)]
mod tests;
