//! Weighted fair queueing over a hierarchy: who is served next, and how far each member is behind
//! or ahead of its share. It knows only members, costs and weights.
//!
//! A *member* is a flow or a group of members. Each class of a group has a virtual time V, which
//! advances by `cost / sum of weights` for every cost that is served. A member of weight w that has
//! requests waits with a start S and a finish `F = S + cost of its next request / w`. Of the
//! members that are *eligible* (S ≤ V) the one with the smallest F is served, and its next start is
//! S plus what it really cost. If none is eligible, V jumps to the smallest start: what somebody
//! leaves unused belongs to the others at once, without debt.
//!
//! - A member that has nothing left while it is ahead (S > V) keeps its place in the sum of weights
//!   until V has reached it, so it cannot lose its debt by being idle for a moment.
//! - A member that was behind when it ran empty keeps what it is owed, up to [`CREDIT`] requests:
//!   `S = max(S, V − CREDIT · cost / w)`. One that waits for its own completions is never
//!   backlogged for long and would otherwise lose a part of its share on every return.
//! - One that always has requests may be behind by as much as the largest request of another moved
//!   V, which is many of its own if those are small: so at a service its start is clipped by the
//!   larger of the two. Where members are served by turns, so is the start of one that returns.
//! - Classes are strict within a group, and groups are best effort. A class that has waited for
//!   `patience` is served once, whatever waits above it.
//!
//! Cost, with m members in a group and d levels: activate, serve and choose O(d · log m). Where
//! nobody of a group is eligible, choose looks at those that may start first, all m at most.

extern crate alloc;
use super::ids::{GroupId, MemberId};
use alloc::vec::Vec;

mod charge;
mod choice;
mod class_tree;
mod lost;
mod overdue;

use class_tree::ClassTree;
use overdue::Wait;
pub use overdue::WaitingMember;

use super::decisions::GroupClass;
use super::kinds::{KINDS, Kinds, Waits};
use super::waiting::{Places, key, member_of_key};
use crate::sched::finish_tree::{FinishTrees, Root, later, latest};
use crate::units::{Instant, Nanos};

/// Requests that a member may be owed when it returns.
pub(super) const CREDIT: u64 = 4;
/// log2 of the virtual time of one nanosecond of cost at weight 1.
const SHIFT: u32 = 12;
/// Time after which an empty member is owed nothing.
const MEMORY: Nanos = Nanos::from_secs(2);
/// Time for which a member without requests still counts as one that wants service: otherwise V
/// would run ahead of all whenever one waits for a completion and answers it.
const LINGER: Nanos = Nanos::from_millis(10);
/// Classes, most urgent first: RT, BE, IDLE.
pub(super) const CLASSES: usize = 3;
/// The class of groups.
pub(super) const BEST_EFFORT: usize = 1;

/// Where a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It has requests and waits in the active tree.
    Active,
    /// It has none and is ahead of V; in the tree of those.
    Ahead,
    /// It has none waiting, but has some in the device; in no tree.
    Served,
    /// It has none, and had some in the device until just now; in the tree of those.
    Lingering,
    /// In no tree; since when.
    Away(Instant),
}

/// A flow or a group as a member of its group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// The group that it is in.
    group: GroupId,
    /// The group that it is, if it is one.
    own: Option<GroupId>,
    class: u8,
    place: Place,
    /// Kinds of the next request; of a group, of those of its members.
    kinds: Kinds,
    /// Requests of it, or below it, in the device.
    in_device: u32,
    /// When the last of them left.
    left: Instant,
    weight: u32,
    /// The weight that it gets when it next leaves a tree.
    weight_next: u32,
    /// S.
    start: u64,
    /// F of its next request.
    finish: u64,
    /// Cost of its next request in nanoseconds; of a group, of its last one.
    cost: u64,
    /// How long it has waited.
    wait: Wait,
    /// Device time that it was owed and lost while all that it had was in the device.
    lost: Nanos,
}

impl Member {
    /// Returns the start that it would get without requests if one of `cost` arrived.
    #[inline]
    fn start_on_return(&self, now: Instant, tree: &ClassTree, cost: u64, has_turns: bool) -> u64 {
        match self.place {
            Place::Active | Place::Ahead => self.start,
            Place::Away(since) if now.since(since) > MEMORY => tree.time,
            Place::Served | Place::Lingering | Place::Away(_) if has_turns => {
                latest(self.start, tree.oldest(tree.time, cost, self.weight_next))
            }
            Place::Served | Place::Lingering | Place::Away(_) => latest(
                self.start,
                tree.time.wrapping_sub(delta(CREDIT * cost, u64::from(self.weight_next))),
            ),
        }
    }
}

/// A group.
#[derive(Clone, Debug)]
struct Group {
    classes: [ClassTree; CLASSES],
    /// Which of them wait.
    waits: Waits,
    /// Itself as a member; `None` for the root.
    member: Option<MemberId>,
}

impl Group {
    /// Puts a member into the active tree of one kind.
    #[inline]
    fn file(&mut self, places: &mut Places, id: MemberId, member: &mut Member, kind: usize) {
        member.kinds = member.kinds.with(Kinds::from_kind(kind));
        let class = usize::from(member.class);
        let tree = &mut self.classes[class];
        tree.active[kind].insert(places, key(id, kind), (member.start, member.finish), tree.time);
        self.waits.insert(class, kind);
    }
}

/// All members and groups.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    members: Vec<Member>,
    free: Vec<u32>,
    groups: Vec<Group>,
    /// Where members that wait are.
    places: Places,
    /// The nodes of the trees of members that are ahead, or linger.
    trees: FinishTrees,
    /// Members whose last request has just left the device, by that time.
    lingering: Root,
    /// The entries of members by the times at which they are overdue: of all that are not yet, and
    /// the earliest of those times, or an earlier one.
    due_times: FinishTrees,
    pending: Root,
    next_due: Instant,
    /// Members that are overdue.
    overdue: u32,
    /// How long a class waits before it is served once.
    pub(super) patience: Nanos,
    /// Members are served by turns, each of which moves V far: who returns may be owed as much.
    pub(super) has_turns: bool,
}

/// Virtual time that a cost takes at a weight.
#[inline]
const fn delta(cost: u64, weight: u64) -> u64 {
    (cost << SHIFT) / weight
}

impl Shares {
    /// Returns the root group without members.
    pub(super) fn new(patience: Nanos) -> Self {
        let root =
            Group { classes: [ClassTree::EMPTY; CLASSES], waits: Waits::default(), member: None };
        Self {
            members: Vec::new(),
            free: Vec::new(),
            groups: alloc::vec![root],
            places: Places::default(),
            trees: FinishTrees::default(),
            lingering: Root::EMPTY,
            due_times: FinishTrees::default(),
            pending: Root::EMPTY,
            next_due: Instant::MAX,
            overdue: 0,
            patience,
            has_turns: false,
        }
    }

    /// Adds a flow to a group. `class` is an index, most urgent first.
    pub(super) fn add(
        &mut self,
        now: Instant,
        group: GroupId,
        class: usize,
        weight: u32,
    ) -> MemberId {
        self.add_member(now, group, None, class, weight)
    }

    /// Adds a group to a group.
    pub(super) fn add_group(&mut self, now: Instant, parent: GroupId, weight: u32) -> GroupId {
        let id = GroupId(self.groups.len() as u32);
        let member = self.add_member(now, parent, Some(id), BEST_EFFORT, weight);
        self.groups.push(Group {
            classes: [ClassTree::EMPTY; CLASSES],
            waits: Waits::default(),
            member: Some(member),
        });
        id
    }

    fn add_member(
        &mut self,
        now: Instant,
        group: GroupId,
        own: Option<GroupId>,
        class: usize,
        weight: u32,
    ) -> MemberId {
        let tree = &mut self.groups[group.index()].classes[class];
        tree.members += 1;
        tree.active.iter_mut().for_each(|one| one.reserve(tree.members));
        let start = tree.time;
        let weight = weight.max(1);
        let member = Member {
            group,
            own,
            class: class as u8,
            place: Place::Away(now),
            kinds: Kinds::NONE,
            in_device: 0,
            left: now,
            weight,
            weight_next: weight,
            start,
            finish: start,
            cost: 0,
            wait: Wait::NONE,
            lost: Nanos::ZERO,
        };
        match self.free.pop() {
            Some(key) => {
                self.members[key as usize] = member;
                MemberId(key)
            }
            None => {
                self.members.push(member);
                self.places.grow(self.members.len() * KINDS);
                self.trees.grow(self.members.len());
                self.due_times.grow(self.members.len());
                MemberId((self.members.len() - 1) as u32)
            }
        }
    }

    /// Removes a flow that has no requests.
    pub(super) fn remove(&mut self, id: MemberId) {
        let Member { group, class, place, weight, .. } = self.members[id.index()];
        match place {
            Place::Active => unreachable!("a member with requests is removed"),
            Place::Served | Place::Lingering | Place::Ahead => {
                self.take_out(id);
                self.groups[group.index()].classes[usize::from(class)].weights -= u64::from(weight);
            }
            Place::Away(_) => {}
        }
        self.forget_wait(id);
        self.groups[group.index()].classes[usize::from(class)].members -= 1;
        self.members[id.index()].place = Place::Away(Instant::ZERO);
        self.free.push(id.0);
    }

    /// Takes a member without requests out of the tree that it is in.
    fn take_out(&mut self, id: MemberId) {
        let Member { group, class, place, .. } = self.members[id.index()];
        match place {
            Place::Ahead => self
                .trees
                .remove(&mut self.groups[group.index()].classes[usize::from(class)].ahead, id.0),
            Place::Lingering => self.trees.remove(&mut self.lingering, id.0),
            Place::Active | Place::Served | Place::Away(_) => {}
        }
    }

    /// Changes the weight of a member, from its next request on.
    pub(super) fn set_weight(&mut self, id: MemberId, weight: u32) {
        self.members[id.index()].weight_next = weight.max(1);
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

    /// Returns the weight of a member that is in force.
    pub(super) fn weight_of(&self, id: MemberId) -> u32 {
        self.members[id.index()].weight
    }

    /// Yields what can be seen of each class of each group.
    pub(super) fn classes(&self) -> impl Iterator<Item = GroupClass> {
        (0..).zip(&self.groups).flat_map(|(index, group)| {
            group.classes.iter().enumerate().map(move |(class, tree)| GroupClass {
                group: index,
                class,
                waits_since: group.waits.has(class).then_some(tree.waits_since),
                served: tree.served,
            })
        })
    }

    /// Moves a flow without requests to another group. What it is owed or owes there ends.
    pub(super) fn move_to(&mut self, now: Instant, id: MemberId, group: GroupId) {
        let Member { class, weight_next, .. } = self.members[id.index()];
        self.remove(id);
        let new = self.add(now, group, usize::from(class), weight_next);
        debug_assert_eq!(new, id, "the key that was freed last is used first");
    }

    /// Returns the start that a member without requests would get if one of `cost` arrived.
    fn start_on_return(&self, now: Instant, id: MemberId, cost: u64) -> u64 {
        let member = &self.members[id.index()];
        let tree = &self.groups[member.group.index()].classes[usize::from(member.class)];
        member.start_on_return(now, tree, cost, self.has_turns)
    }

    /// Makes a flow wait that had no requests; `cost` and `kind` are those of its first. Returns
    /// true if it lost a part of what it was owed, or meets a less urgent class in the device.
    pub(super) fn activate(&mut self, now: Instant, id: MemberId, cost: u64, kind: usize) -> bool {
        let mut is_short = false;
        let (mut at, mut cost) = (Some(id), cost);
        while let Some(id) = at {
            let member = &mut self.members[id.index()];
            let group = &mut self.groups[member.group.index()];
            if member.place != Place::Active {
                let (class, classes) = (usize::from(member.class), &mut group.classes);
                is_short |= classes[class + 1..].iter().any(|tree| tree.in_device > 0);
                let tree = &mut classes[class];
                let start = member.start_on_return(now, tree, cost, self.has_turns);
                is_short |= later(start, member.start);
                if member.place == Place::Served {
                    member.lose(start);
                }
                match member.place {
                    Place::Ahead => self.trees.remove(&mut tree.ahead, id.0),
                    Place::Lingering => self.trees.remove(&mut self.lingering, id.0),
                    Place::Active | Place::Served | Place::Away(_) => {}
                }
                if !matches!(member.place, Place::Away(_)) {
                    tree.weights -= u64::from(member.weight);
                }
                if !group.waits.has(class) {
                    tree.waits_since = now;
                }
                (member.weight, member.cost, member.start) = (member.weight_next, cost, start);
                member.finish = start.wrapping_add(delta(cost, u64::from(member.weight)));
                (member.place, member.kinds) = (Place::Active, Kinds::NONE);
                tree.weights += u64::from(member.weight);
            } else if member.kinds.has(kind) {
                break;
            }
            let begins = member.kinds.is_empty();
            group.file(&mut self.places, id, member, kind);
            at = group.member;
            cost = at.map_or(0, |above| self.members[above.index()].cost.max(1));
            if begins {
                self.begin_wait(now, id);
            }
        }
        is_short
    }

    /// Puts a member into the active trees of these kinds.
    fn file(&mut self, id: MemberId, kinds: Kinds) {
        let member = &mut self.members[id.index()];
        let group = &mut self.groups[member.group.index()];
        for kind in (0..KINDS).filter(|&kind| kinds.has(kind)) {
            group.file(&mut self.places, id, member, kind);
        }
    }

    /// Takes a member out of the active trees of these kinds.
    fn unfile(&mut self, id: MemberId, kinds: Kinds) {
        let Member { group, class, .. } = self.members[id.index()];
        let (class, group) = (usize::from(class), &mut self.groups[group.index()]);
        let tree = &mut group.classes[class];
        for kind in (0..KINDS).filter(|&kind| kinds.has(kind)) {
            tree.active[kind].remove(&mut self.places, key(id, kind), tree.time);
            if tree.active[kind].is_empty() {
                group.waits.remove(class, kind);
            }
        }
        let member = &mut self.members[id.index()];
        member.kinds = member.kinds.without(kinds);
    }

    /// Takes a flow out that has lost its requests without being served (they were merged).
    pub(super) fn deactivate(&mut self, now: Instant, id: MemberId) {
        let mut at = Some(id);
        while let Some(id) = at {
            let Member { group, own, kinds, .. } = self.members[id.index()];
            let left = own.map_or(Kinds::NONE, |own| self.kinds_in(own));
            self.unfile(id, kinds.without(left));
            if left.is_empty() {
                self.settle(now, id);
            }
            at = self.groups[group.index()].member;
        }
    }

    /// Changes the kind of a waiting flow's next request.
    pub(super) fn set_kind(&mut self, id: MemberId, kind: usize) {
        let mut at = Some(id);
        while let Some(id) = at {
            let Member { group, own, kinds, .. } = self.members[id.index()];
            let wanted = own.map_or(Kinds::from_kind(kind), |own| self.kinds_in(own));
            self.unfile(id, kinds.without(wanted));
            self.file(id, wanted.without(kinds));
            at = self.groups[group.index()].member.filter(|_| wanted != kinds);
        }
    }

    /// Returns the kinds of the next requests of a group's members.
    #[inline]
    pub(super) fn kinds_in(&self, group: GroupId) -> Kinds {
        self.groups[group.index()].waits.kinds()
    }

    /// Files a member that has left a tree and has no requests waiting.
    fn settle(&mut self, now: Instant, id: MemberId) {
        self.end_wait(id);
        let Member { group, class, start, weight, in_device, left, .. } = self.members[id.index()];
        let tree = &mut self.groups[group.index()].classes[usize::from(class)];
        self.members[id.index()].place = if later(start, tree.time) {
            self.trees.insert(&mut tree.ahead, id.0, start);
            Place::Ahead
        } else if in_device > 0 {
            Place::Served
        } else if now.since(left) < LINGER {
            self.trees.insert(&mut self.lingering, id.0, left.get());
            Place::Lingering
        } else {
            tree.weights -= u64::from(weight);
            Place::Away(now)
        };
    }

    /// Counts a request of a flow that is in the device.
    pub(super) fn enter_device(&mut self, id: MemberId) {
        let mut at = Some(id);
        while let Some(id) = at {
            let member = &mut self.members[id.index()];
            member.in_device += 1;
            if member.place == Place::Lingering {
                member.place = Place::Served;
                self.trees.remove(&mut self.lingering, id.0);
            }
            let group = &mut self.groups[member.group.index()];
            group.classes[usize::from(member.class)].in_device += 1;
            at = group.member;
        }
    }

    /// Counts a request of a flow that is no longer in the device.
    pub(super) fn leave_device(&mut self, now: Instant, id: MemberId) {
        let mut at = Some(id);
        while let Some(id) = at {
            let member = &mut self.members[id.index()];
            member.in_device -= 1;
            let group = &mut self.groups[member.group.index()];
            group.classes[usize::from(member.class)].in_device -= 1;
            at = group.member;
            if member.in_device == 0 {
                member.left = now;
                if member.place == Place::Served {
                    member.place = Place::Lingering;
                    self.trees.insert(&mut self.lingering, id.0, now.get());
                }
            }
        }
    }

    /// Returns until when a group had requests in the device: now, if it has some.
    pub(super) fn in_device_until(&self, now: Instant, group: GroupId) -> Instant {
        let member = self.member_of(group).map(|id| &self.members[id.index()]);
        member.filter(|member| member.in_device == 0).map_or(now, |member| member.left)
    }

    /// Takes the members out of the sums of weights that have been away for long enough.
    #[inline]
    pub(super) fn sweep(&mut self, now: Instant) {
        if !self.lingering.is_empty() {
            self.sweep_lingering(now);
        }
    }

    fn sweep_lingering(&mut self, now: Instant) {
        while let Some(first) = self.trees.first(self.lingering) {
            let id = MemberId(first);
            let Member { group, class, weight, left, .. } = self.members[id.index()];
            if now.since(left) < LINGER {
                return;
            }
            self.trees.remove(&mut self.lingering, first);
            self.members[id.index()].place = Place::Away(left);
            self.groups[group.index()].classes[usize::from(class)].weights -= u64::from(weight);
        }
    }

    /// Serves a flow that was chosen among those with requests of the kinds `among`: its request
    /// goes to the device. `cost` is what that costs; `next` has cost and kind of the flow's next
    /// request if there is one. If the floor of a group asks for it (`owed`), who is ahead of its
    /// share owes nothing for it from this group up, and V stands still: it gets this besides what
    /// is shared by weight.
    #[inline(always)]
    pub(super) fn serve(
        &mut self,
        now: Instant,
        id: MemberId,
        among: Kinds,
        cost: u64,
        next: Option<(u64, usize)>,
        owed: Option<GroupId>,
    ) {
        let mut kinds = next.map_or(Kinds::NONE, |(_, kind)| Kinds::from_kind(kind));
        let (mut at, mut next_cost) = (Some(id), next.map_or(cost, |(cost, _)| cost));
        let mut is_owed = false;
        while let Some(id) = at {
            let member = &mut self.members[id.index()];
            is_owed |= owed.is_some() && member.own == owed;
            debug_assert_eq!(
                member.place,
                Place::Active,
                "member {} is served without requests",
                id.0
            );
            let (group, class) = (member.group, usize::from(member.class));
            let Group { classes, waits, member: above } = &mut self.groups[group.index()];
            (at, member.in_device, member.cost) = (*above, member.in_device + 1, next_cost);
            let tree = &mut classes[class];
            let is_free = is_owed && later(member.start, tree.time);
            // Others may be owed service that have nothing waiting at the moment.
            let is_early = is_free || member.wait.is_overdue();
            let before = if is_early { tree.time } else { tree.jump(&self.places, among) };
            let cost = if is_free { 0 } else { cost };
            let scaled = (cost << SHIFT) + tree.rest;
            tree.rest = scaled % tree.weights;
            tree.time = before.wrapping_add(scaled / tree.weights);
            (tree.waits_since, tree.served, tree.in_device) =
                (now, tree.served + 1, tree.in_device + 1);
            tree.note(now, cost);
            tree.pace.note(now);
            let own = delta(cost, u64::from(member.weight));
            // One that was held back by the limit of its kind is owed no more than another.
            if later(before.wrapping_sub(CREDIT * own), member.start) {
                member.start = latest(member.start, tree.oldest(before, cost, member.weight));
            }
            member.start = member.start.wrapping_add(own);
            let had = core::mem::replace(&mut member.kinds, kinds);
            if !kinds.is_empty() {
                tree.weights =
                    tree.weights - u64::from(member.weight) + u64::from(member.weight_next);
                member.weight = member.weight_next;
                member.finish =
                    member.start.wrapping_add(delta(next_cost, u64::from(member.weight)));
            }
            let times = (member.start, member.finish);
            tree.refile(&mut self.places, waits, (id, class), (had, kinds), times);
            let has_ahead = !tree.ahead.is_empty();
            if kinds.is_empty() {
                self.settle(now, id);
            } else {
                self.begin_wait(now, id);
            }
            if has_ahead {
                self.forget(now, group, class);
            }
            // Of a group the cost of the next request is not known: that of this one stands for it.
            if at.is_some() {
                (kinds, next_cost) = (self.kinds_in(group), cost);
            }
        }
    }

    /// Notes that a flow was served several times in a row, for `cost` together: what the others
    /// are behind by that is not forgotten.
    pub(super) fn note_turn(&mut self, now: Instant, id: MemberId, cost: u64) {
        let mut at = Some(id);
        while let Some(id) = at {
            let Member { group, class, .. } = self.members[id.index()];
            self.groups[group.index()].classes[usize::from(class)].note(now, cost);
            at = self.groups[group.index()].member;
        }
    }

    /// Takes the members out of the sum of weights that V has reached.
    fn forget(&mut self, now: Instant, group: GroupId, class: usize) {
        loop {
            let tree = &mut self.groups[group.index()].classes[class];
            let Some(first) = self.trees.first(tree.ahead) else { return };
            let id = MemberId(first);
            if later(self.members[id.index()].start, tree.time) {
                return;
            }
            self.trees.remove(&mut tree.ahead, first);
            self.settle(now, id);
        }
    }

    /// Checks costly invariants, for tests. Returns the flows that wait, in no order.
    pub(super) fn self_check(&self) -> Vec<MemberId> {
        self.check_waits();
        let mut waiting = Vec::new();
        for (index, group) in self.groups.iter().enumerate() {
            for (class, tree) in group.classes.iter().enumerate() {
                let mut active: Vec<MemberId> = Vec::new();
                for kind in 0..KINDS {
                    let waits = group.waits.contains(class, kind);
                    assert_eq!(
                        waits,
                        !tree.active[kind].is_empty(),
                        "whether class {class} of group {index} waits"
                    );
                    let keys = tree.active[kind].self_check(&self.places, tree.time);
                    for id in keys.into_iter().map(member_of_key) {
                        assert!(self.members[id.index()].kinds.has(kind), "the kind of {}", id.0);
                        active.push(id);
                    }
                }
                active.sort_unstable();
                active.dedup();
                let ahead = self.trees.self_check(tree.ahead).into_iter().map(MemberId);
                let is_served = |m: &&Member| {
                    let is_counted = matches!(m.place, Place::Served | Place::Lingering);
                    is_counted && (m.group.index(), usize::from(m.class)) == (index, class)
                };
                let mut weights: u64 =
                    self.members.iter().filter(is_served).map(|m| u64::from(m.weight)).sum();
                let places = active
                    .iter()
                    .map(|&id| (id, Place::Active))
                    .chain(ahead.map(|id| (id, Place::Ahead)));
                for (id, place) in places {
                    let member = &self.members[id.index()];
                    assert_eq!(
                        (member.group.index(), usize::from(member.class)),
                        (index, class),
                        "where {} is",
                        id.0
                    );
                    assert_eq!(member.place, place, "the place of {}", id.0);
                    weights += u64::from(member.weight);
                    if place == Place::Ahead {
                        assert!(later(member.start, tree.time), "{} is not ahead", id.0);
                    }
                    if let Some(own) = member.own {
                        let kinds = if place == Place::Active { member.kinds } else { Kinds::NONE };
                        assert_eq!(self.kinds_in(own), kinds, "what waits in group {}", id.0);
                    } else if place == Place::Active {
                        waiting.push(id);
                    }
                }
                assert_eq!(
                    weights, tree.weights,
                    "sum of weights of class {class} in group {index}"
                );
            }
            if let Some(member) = group.member {
                let is_active = self.members[member.index()].place == Place::Active;
                assert_eq!(
                    !self.kinds_in(GroupId(index as u32)).is_empty(),
                    is_active,
                    "whether group {index} waits"
                );
            }
        }
        waiting
    }
}

#[cfg(test)]
mod naive;
#[cfg(test)]
mod tests;
