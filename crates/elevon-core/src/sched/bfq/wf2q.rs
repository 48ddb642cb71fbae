//! B-WF2Q+: fair queueing by weights, with budgets, over a hierarchy of groups. It knows only
//! entities, sectors and virtual times.
//!
//! Each class of a group has a virtual time V that advances by `sectors / sum of weights` for every
//! sector served. An entity of weight w waits with a start S and a finish `F = S + budget / w`; of
//! the eligible ones (S ≤ V) the one with the smallest F is next. After it was served, F is set
//! back to its actual cost, and its next slot starts there. So service differs from the ideal fluid
//! share by less than about one budget, whatever the budgets are. An entity that becomes empty
//! while it is ahead (F > V) stays in the idle tree, and its weight in the sum, until V has reached
//! F; so it cannot lose its debt by being idle for a moment.
//!
//! A group is an entity of its parent, with the budget of the next entity inside. Serving a queue
//! serves every ancestor.
//!
//! Reproduces Linux's BFQ in timestamps, in the jump of V, in the shortcut that skips a search, in
//! how far up a change goes, and in its class guard. So a group that is requeued while it stays in
//! service, because a child was activated, is charged for all of the slot so far, each time and at
//! the end of the slot again. Named deviation: the search for the smallest eligible finish is
//! exact.
//!
//! Cost, with d levels and q entities in a group: serve O(d) (and O(log q) if an idle entity is
//! removed), activate, requeue and deactivate O(d · log q); choosing the next O(d), and O(log q)
//! for each entity that has become eligible.

extern crate alloc;
use alloc::vec::Vec;

use super::entity::{Class, Entity, EntityId, GroupId, NIL, TreeState};
use super::service_tree::ServiceTree;
use crate::sched::finish_tree::{FinishTrees, later};

/// A group: three service trees, strictly by class.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) trees: [ServiceTree; 3],
    /// The child in service.
    pub(super) in_service: Option<EntityId>,
    /// The child that is next, already determined; it may be the one in service, if that is a
    /// group.
    pub(super) next: Option<EntityId>,
    /// Children active or in service.
    active: u32,
    /// Tick of the last check by the class guard.
    guard: i64,
    /// Its entity in its parent; `None` for the root.
    pub(super) entity: Option<EntityId>,
}

impl Group {
    const fn new(entity: Option<EntityId>, tick: i64) -> Self {
        let trees = [ServiceTree::EMPTY; 3];
        Self { trees, in_service: None, next: None, active: 0, guard: tick, entity }
    }
}

/// The context of a walk up the hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// A slot ends: time may jump although an entity is still marked as in service, and every
    /// ancestor is updated.
    pub(super) expiration: bool,
}

/// The engine: every entity and group.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    entities: Vec<Entity>,
    free: Vec<u32>,
    groups: Vec<Group>,
    trees: FinishTrees,
    /// Both ends of the list of queues in active trees.
    newest: u32,
    oldest: u32,
    /// The clock, in ticks; only the class guard reads it.
    pub(super) tick: i64,
    /// Ticks after which the guard serves the idle class once.
    guard_ticks: i64,
}

impl Engine {
    /// Returns an engine with a root group. `guard_ticks`: 200 ms.
    pub(super) fn new(guard_ticks: i64) -> Self {
        Self {
            entities: Vec::new(),
            free: Vec::new(),
            groups: alloc::vec![Group::new(None, 0)],
            trees: FinishTrees::default(),
            newest: NIL,
            oldest: NIL,
            tick: 0,
            guard_ticks,
        }
    }

    /// Adds an entity that competes in `group`.
    pub(super) fn add(&mut self, group: GroupId, class: Class, weight: u64) -> EntityId {
        self.add_entity(Entity::new(group, None, class, weight))
    }

    fn add_entity(&mut self, mut entity: Entity) -> EntityId {
        entity.parent = self.entity_of(entity.group);
        match self.free.pop() {
            Some(key) => {
                self.entities[key as usize] = entity;
                EntityId(key)
            }
            None => {
                self.entities.push(entity);
                self.trees.grow(self.entities.len());
                EntityId((self.entities.len() - 1) as u32)
            }
        }
    }

    /// Adds a group that competes in `parent`, in the best-effort class.
    pub(super) fn add_group(&mut self, parent: GroupId, weight: u64) -> GroupId {
        let id = GroupId(self.groups.len() as u32);
        let entity = self.add_entity(Entity::new(parent, Some(id), Class::Be, weight));
        self.groups.push(Group::new(Some(entity), self.tick));
        id
    }

    /// Removes an entity, which must not be active.
    pub(super) fn remove(&mut self, id: EntityId) {
        self.forget(id);
        self.free.push(id.0);
    }

    /// Removes an idle entity from the idle tree and from the sum of weights.
    pub(super) fn forget(&mut self, id: EntityId) {
        let (tree, entity, trees) = self.tree_mut(id);
        match entity.place {
            TreeState::Idle => {
                tree.idle.remove(id, entity.seat, trees);
                tree.weights -= entity.weight;
                entity.place = TreeState::Nowhere;
            }
            TreeState::Nowhere => {}
            TreeState::Active | TreeState::Serving => panic!("an active entity is forgotten"),
        }
    }

    /// Moves an entity that is in no tree to another group.
    pub(super) fn set_group(&mut self, id: EntityId, group: GroupId) {
        debug_assert_eq!(self[id].place, TreeState::Nowhere);
        (self[id].group, self[id].parent) = (group, self.entity_of(group));
    }

    /// Returns the entity of a group, or [`NIL`] for the root.
    fn entity_of(&self, group: GroupId) -> u32 {
        self.groups[group.index()].entity.map_or(NIL, |entity| entity.0)
    }

    pub(super) fn group_count(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn group(&self, id: GroupId) -> &Group {
        &self.groups[id.index()]
    }

    /// Returns the parent of an entity: the entity of its group.
    #[inline]
    pub(super) fn parent(&self, id: EntityId) -> Option<EntityId> {
        self[id].parent()
    }

    #[inline]
    pub(super) fn tree(&self, id: EntityId) -> &ServiceTree {
        let entity = &self[id];
        &self.groups[entity.group.index()].trees[entity.class as usize]
    }

    #[inline]
    fn tree_mut(&mut self, id: EntityId) -> (&mut ServiceTree, &mut Entity, &mut FinishTrees) {
        let entity = &mut self.entities[id.index()];
        (
            &mut self.groups[entity.group.index()].trees[entity.class as usize],
            entity,
            &mut self.trees,
        )
    }

    /// Returns true if the root would continue with another entity than the one in service.
    pub(super) fn next_is_another(&self) -> bool {
        self.groups[0].next != self.groups[0].in_service
    }

    /// Charges a queue, and every ancestor, for `sectors`.
    #[inline(always)]
    pub(super) fn serve(&mut self, queue: EntityId, sectors: u64) {
        let mut at = Some(queue);
        while let Some(id) = at {
            let entity = &mut self.entities[id.index()];
            entity.service += sectors;
            at = entity.parent();
            let tree = &mut self.groups[entity.group.index()].trees[entity.class as usize];
            tree.advance(sectors, &mut self.entities, &mut self.trees);
        }
    }

    /// Counts a request that a queue, and with it every ancestor, holds.
    #[inline]
    pub(super) fn hold(&mut self, queue: EntityId) {
        let mut at = Some(queue);
        while let Some(id) = at {
            let entity = &mut self.entities[id.index()];
            entity.allocated += 1;
            at = entity.parent();
        }
    }

    /// Counts a request that a queue, and with it every ancestor, holds no more.
    #[inline]
    pub(super) fn let_go(&mut self, queue: EntityId) {
        let mut at = Some(queue);
        while let Some(id) = at {
            let entity = &mut self.entities[id.index()];
            entity.allocated -= 1;
            at = entity.parent();
        }
    }

    /// Sets another weight and class, which take effect at the next activation.
    pub(super) fn set_weight(&mut self, id: EntityId, weight: u64, class: Class) {
        let entity = &mut self[id];
        if (entity.new_weight, entity.new_class) != (weight, class) {
            (entity.new_weight, entity.new_class, entity.changed) =
                (weight.clamp(1, 1000), class, true);
        }
    }

    /// Applies a pending change of weight, raise or class. The class changes only while the entity
    /// is not in the active tree.
    pub(super) fn apply_changes(&mut self, id: EntityId) {
        let entity = self[id];
        if !entity.changed {
            return;
        }
        debug_assert!(
            entity.place != TreeState::Idle,
            "an idle entity is filed under its old weight"
        );
        let counted = entity.place != TreeState::Nowhere;
        let class = if entity.place == TreeState::Active { entity.class } else { entity.new_class };
        let weight = entity.new_weight * entity.raise;
        let trees = &mut self.groups[entity.group.index()].trees;
        if counted {
            trees[entity.class as usize].weights -= entity.weight;
            trees[class as usize].weights += weight;
        }
        let time = trees[class as usize].time;
        let entity = &mut self[id];
        if entity.class != class {
            (entity.class, entity.start) = (class, time);
        }
        (entity.weight, entity.orig_weight) = (weight, entity.new_weight);
        entity.changed = entity.class != entity.new_class;
    }

    /// Activates a queue with its current budget. `back_shift`: it was idle only for a moment and
    /// continues from its old finish, although time advanced.
    pub(super) fn activate(&mut self, queue: EntityId, back_shift: bool) {
        self.activate_upward(queue, back_shift, false, Change { expiration: false });
    }

    /// Puts a queue back into its active tree: from service, or because its budget changed.
    pub(super) fn requeue(&mut self, queue: EntityId, change: Change) {
        let in_service = self.groups[self[queue].group.index()].in_service == Some(queue);
        self.activate_upward(queue, false, in_service, change);
    }

    fn activate_upward(
        &mut self,
        queue: EntityId,
        back_shift: bool,
        requeue: bool,
        change: Change,
    ) {
        let mut at = Some(queue);
        while let Some(id) = at {
            match self[id].place {
                TreeState::Active | TreeState::Serving => self.requeue_one(id),
                TreeState::Nowhere | TreeState::Idle => self.activate_one(id, back_shift),
            }
            let group = self[id].group;
            if !self.update_next(group, Some(id), change) && !requeue {
                return;
            }
            at = self.parent(id);
        }
    }

    fn activate_one(&mut self, id: EntityId, back_shift: bool) {
        let (entity, time) = (self[id], self.tree(id).time);
        let shifted = back_shift && later(time, entity.finish);
        let earliest = if shifted { entity.finish } else { time };
        if entity.place == TreeState::Idle {
            let (tree, entity, trees) = self.tree_mut(id);
            tree.idle.remove(id, entity.seat, trees);
            entity.start = if later(earliest, entity.finish) { earliest } else { entity.finish };
        } else {
            self.tree_mut(id).0.weights += entity.weight;
            self[id].start = earliest;
        }
        // Counted, and in no tree: the state that a change of weight or class expects.
        self[id].place = TreeState::Serving;
        self.apply_changes(id);
        let time = self.tree(id).time;
        let entity = &mut self[id];
        entity.finish_after(entity.budget);
        if shifted {
            entity.push_behind(time);
        }
        let group = entity.group.index();
        self.groups[group].active += 1;
        self.enter_active(id);
    }

    fn requeue_one(&mut self, id: EntityId) {
        let group = self[id].group.index();
        if self.groups[group].in_service == Some(id) {
            let entity = &mut self[id];
            entity.finish_after(entity.service);
            entity.start = entity.finish;
        }
        self.leave_active(id);
        self.apply_changes(id);
        let entity = &mut self[id];
        entity.finish_after(entity.budget);
        self.enter_active(id);
    }

    /// Inserts an entity, whose start and finish are set, into its active tree, and a queue also at
    /// the head of the list.
    fn enter_active(&mut self, id: EntityId) {
        let (tree, entity, _) = self.tree_mut(id);
        entity.seat = tree.active.insert(id.0, entity.start, entity.finish, tree.time);
        entity.place = TreeState::Active;
        if entity.child.is_none() {
            let older = core::mem::replace(&mut self.newest, id.0);
            (self[id].newer, self[id].older) = (NIL, older);
            match older {
                NIL => self.oldest = id.0,
                _ => self.entities[older as usize].newer = id.0,
            }
        }
    }

    /// Removes an entity from the active tree if it is there; its weight still counts.
    fn leave_active(&mut self, id: EntityId) {
        let (tree, entity, _) = self.tree_mut(id);
        if entity.place != TreeState::Active {
            return;
        }
        tree.active.remove(entity.seat);
        entity.place = TreeState::Serving;
        if let Entity { child: None, newer, older, .. } = *entity {
            match newer {
                NIL => self.newest = older,
                _ => self.entities[newer as usize].older = older,
            }
            match older {
                NIL => self.oldest = newer,
                _ => self.entities[older as usize].newer = newer,
            }
        }
    }

    /// Deactivates a queue without requests. With `keep_ahead` it stays in the idle tree while it
    /// is ahead of the virtual time; groups that become empty with it always do.
    pub(super) fn deactivate(&mut self, queue: EntityId, keep_ahead: bool, change: Change) {
        let (mut at, mut keep_ahead) = (Some(queue), keep_ahead);
        while let Some(id) = at {
            if matches!(self[id].place, TreeState::Nowhere | TreeState::Idle) {
                return;
            }
            self.deactivate_one(id, keep_ahead);
            let group = self[id].group;
            if self.groups[group.index()].next == Some(id) {
                self.update_next(group, None, change);
            }
            at = self.parent(id);
            if self.groups[group.index()].next.is_some()
                || self.groups[group.index()].in_service.is_some()
            {
                break;
            }
            keep_ahead = true;
        }
        while let Some(id) = at {
            self.requeue_one(id);
            if !self.update_next(self[id].group, Some(id), change) && !change.expiration {
                return;
            }
            at = self.parent(id);
        }
    }

    fn deactivate_one(&mut self, id: EntityId, keep_ahead: bool) {
        let group = self[id].group.index();
        self.leave_active(id);
        if self.groups[group].in_service == Some(id) {
            self.groups[group].in_service = None;
        }
        self.groups[group].active -= 1;
        let entity = &mut self[id];
        entity.finish_after(entity.service);
        let (tree, entity, trees) = self.tree_mut(id);
        if keep_ahead && later(entity.finish, tree.time) {
            entity.seat = tree.idle.insert(id, entity.finish, trees);
            entity.place = TreeState::Idle;
        } else {
            tree.weights -= entity.weight;
            entity.place = TreeState::Nowhere;
        }
    }

    /// Determines the next entity of a group after `changed` was added or changed. Returns true if
    /// the group's own place in its parent may have to change.
    fn update_next(&mut self, group: GroupId, changed: Option<EntityId>, change: Change) -> bool {
        let old = self.groups[group.index()].next;
        let replaces = |new: EntityId| match old {
            None => true,
            Some(old) if old == new => false,
            Some(old) => {
                let (a, b) = (&self[new], &self[old]);
                a.class == b.class
                    && !later(a.start, self.tree(new).time)
                    && later(b.finish, a.finish)
            }
        };
        let next = match changed.filter(|&new| replaces(new)) {
            Some(new) => Some(new),
            None => self.search(group, change),
        };
        self.groups[group.index()].next = next;
        let came = next.is_some() && old.is_none();
        let (Some(next), Some(own)) = (next, self.groups[group.index()].entity) else {
            return came;
        };
        let budget = self[next].budget;
        let shrank = self[own].budget > budget;
        self[own].budget = budget;
        came || shrank
    }

    /// Searches the classes for the eligible entity with the smallest finish.
    fn search(&mut self, group: GroupId, change: Change) -> Option<EntityId> {
        let (tick, guard_ticks) = (self.tick, self.guard_ticks);
        let Self { entities, groups, trees, .. } = self;
        let group = &mut groups[group.index()];
        let mut first = 0;
        if tick > group.guard + guard_ticks {
            if !group.trees[Class::Idle as usize].active.is_empty() {
                first = Class::Idle as usize;
            }
            group.guard = tick;
        }
        let may_jump = group.in_service.is_none() || change.expiration;
        group.trees[first..].iter_mut().find_map(|tree| tree.search(may_jump, entities, trees))
    }

    /// Puts the next entity into service, at every level down to a queue.
    pub(super) fn serve_next(&mut self) -> Option<EntityId> {
        let mut group = GroupId::ROOT;
        let queue = loop {
            let id = self.groups[group.index()].next?;
            self.groups[group.index()].in_service = Some(id);
            // A group with other children than the one in service may be next again at once, and
            // stays in the tree.
            let child = self[id].child;
            if child.is_none_or(|child| self.groups[child.index()].active == 1) {
                self.leave_active(id);
            }
            match child {
                Some(child) => group = child,
                None => break id,
            }
        };
        // Upwards as far as a next one appears or needs less. So the group of a lone queue in
        // service may remain its parent's next: nothing preempts it until another entity takes
        // that place, and if it becomes empty, that is a reason for a search, in which V jumps.
        let mut at = Some(queue);
        while let Some(id) = at {
            if !self.update_next(self[id].group, None, Change { expiration: false }) {
                break;
            }
            at = self.parent(id);
        }
        Some(queue)
    }

    /// Ends the slot of `queue`, which was requeued or deactivated before.
    pub(super) fn end_service(&mut self, queue: EntityId) {
        let mut at = Some(queue);
        while let Some(id) = at {
            let group = self[id].group.index();
            self.groups[group].in_service = None;
            at = self.parent(id);
            if let Some(parent) = at {
                self[parent].service = 0;
            }
        }
    }

    /// Accounts the service of an active entity and its ancestors at once, as if a slot had ended:
    /// for service outside of slots.
    pub(super) fn settle(&mut self, queue: EntityId) {
        self.settle_one(queue);
        self.settle_ancestors(queue);
    }

    /// As [`Self::settle`], for the ancestors only.
    pub(super) fn settle_ancestors(&mut self, queue: EntityId) {
        let mut at = self.parent(queue);
        while let Some(id) = at {
            self.settle_one(id);
            at = self.parent(id);
        }
    }

    fn settle_one(&mut self, id: EntityId) {
        if self[id].service == 0 {
            return;
        }
        let was_active = self[id].place == TreeState::Active;
        self.leave_active(id);
        let entity = &mut self[id];
        entity.finish_after(entity.service);
        entity.start = entity.finish;
        entity.service = 0;
        entity.finish_after(entity.budget);
        if was_active {
            self.enter_active(id);
            self.update_next(self[id].group, None, Change { expiration: false });
        }
    }

    /// Returns the active queue that a fair server would serve beside the one in service: started,
    /// with the smallest finish, class after class down to `lowest`, at every level.
    pub(super) fn eligible(&mut self, lowest: Class) -> Option<EntityId> {
        let mut group = GroupId::ROOT;
        loop {
            let trees = &mut self.groups[group.index()].trees[..=lowest as usize];
            let tree = trees.iter_mut().find(|tree| !tree.active.is_empty())?;
            let id = EntityId(tree.active.first_eligible(tree.time)?);
            match self[id].child {
                Some(child) => group = child,
                None => return Some(id),
            }
        }
    }

    /// Iterates over queues in active trees, newest first.
    pub(super) fn active_queues(&self) -> impl Iterator<Item = EntityId> + '_ {
        let id = |n| if n == NIL { None } else { Some(EntityId(n)) };
        core::iter::successors(id(self.newest), move |e| id(self[*e].older))
    }

    /// Checks every tree: order, sums of weights, places, time. For tests: O(n).
    pub(super) fn self_check(&self) {
        let mut listed = 0;
        for (index, group) in self.groups.iter().enumerate() {
            let mut active = 0;
            let is_child = |e: &&Entity| e.group.index() == index;
            let is_linked = |e: &Entity| e.parent() == group.entity;
            assert!(
                self.entities.iter().filter(is_child).all(is_linked),
                "children of group {index} know its entity"
            );
            for class in Class::ALL {
                let tree = &group.trees[class as usize];
                let mut weights = 0;
                let mine = |id: &u32, place| {
                    let e = &self.entities[*id as usize];
                    assert_eq!(
                        (e.group.index(), e.class, e.place),
                        (index, class, place),
                        "entity {id} is elsewhere"
                    );
                };
                for id in tree.active.self_check(tree.time) {
                    mine(&id, TreeState::Active);
                    weights += self.entities[id as usize].weight;
                    listed += usize::from(self.entities[id as usize].child.is_none());
                    active += 1;
                }
                for id in tree.idle.self_check(&self.trees) {
                    mine(&id, TreeState::Idle);
                    weights += self.entities[id as usize].weight;
                }
                let serving = |e: &&Entity| {
                    e.place == TreeState::Serving && e.group.index() == index && e.class == class
                };
                let serving: u64 = self.entities.iter().filter(serving).map(|e| e.weight).sum();
                assert_eq!(
                    tree.weights,
                    weights + serving,
                    "sum of weights of class {class:?} in group {index}"
                );
            }
            if let Some(id) = group.in_service {
                assert_eq!(self[id].group.index(), index);
                active += u32::from(self[id].place == TreeState::Serving);
            }
            assert_eq!(group.active, active, "active children of group {index}");
            let is_there =
                |id: EntityId| self[id].place == TreeState::Active || group.in_service == Some(id);
            assert!(group.next.is_none_or(is_there), "the next of group {index} is gone");
            let is_empty = group.trees.iter().all(|t| t.active.is_empty());
            assert!(group.next.is_some() || is_empty, "group {index} has a next");
        }
        assert_eq!(self.active_queues().count(), listed, "the list of active queues");
    }
}

impl core::ops::Index<EntityId> for Engine {
    type Output = Entity;
    #[inline]
    fn index(&self, id: EntityId) -> &Entity {
        &self.entities[id.index()]
    }
}
impl core::ops::IndexMut<EntityId> for Engine {
    #[inline]
    fn index_mut(&mut self, id: EntityId) -> &mut Entity {
        &mut self.entities[id.index()]
    }
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
