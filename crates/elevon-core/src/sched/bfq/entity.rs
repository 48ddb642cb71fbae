//! Entities, which are scheduled: a queue, or a group of queues.

use crate::sched::finish_tree::latest;

/// An entity, a key of the engine's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntityId(pub(super) u32);

impl EntityId {
    #[inline]
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A group: an inner node of the hierarchy, or its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupId(pub(super) u32);

impl GroupId {
    /// The root, which has no parent.
    pub(super) const ROOT: Self = Self(0);
    #[inline]
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Priority class of an entity: strict within a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Class {
    /// Real time.
    Rt = 0,
    /// Best effort; groups are always in this class.
    #[default]
    Be = 1,
    /// Idle: served only if no other class has requests, except for a guard against starvation.
    Idle = 2,
}

impl Class {
    pub(super) const ALL: [Self; 3] = [Self::Rt, Self::Be, Self::Idle];
}

/// The tree that contains an entity. Its weight counts in the sum except in state `Nowhere`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TreeState {
    /// In no tree, and without effect on any.
    #[default]
    Nowhere,
    /// In the active tree.
    Active,
    /// In service and out of the active tree.
    Serving,
    /// In the idle tree: empty, but served beyond the virtual time.
    Idle,
}

/// No entity.
pub(super) const NIL: u32 = u32::MAX;

/// Fractional bits of virtual times.
pub(super) const SHIFT: u32 = 22;

/// The virtual time that `sectors` take at a weight, in sectors / weight with 22 fractional bits,
/// rounded down.
#[inline]
pub(super) const fn delta(sectors: u64, weight: u64) -> u64 {
    (sectors << SHIFT) / if weight == 0 { 1 } else { weight }
}

/// An entity's state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entity {
    /// Virtual time from which it may be served.
    pub(super) start: u64,
    /// Virtual time at which its budget would be used up.
    pub(super) finish: u64,
    /// Sectors that it may be served in its next or current slot.
    pub(super) budget: u64,
    /// Sectors that it was charged in this slot.
    pub(super) service: u64,
    /// Weight in force: the assigned weight times the raise.
    pub(super) weight: u64,
    /// Weight assigned, 1 to 1000.
    pub(super) orig_weight: u64,
    /// Factor by which the weight is raised; 1 if it is not raised.
    pub(super) raise: u64,
    /// Weight and class to be applied at the next activation.
    pub(super) new_weight: u64,
    pub(super) new_class: Class,
    pub(super) changed: bool,
    pub(super) class: Class,
    pub(super) place: TreeState,
    /// Its place in the active or idle tree, if it is there.
    pub(super) seat: u32,
    /// The group in which it competes.
    pub(super) group: GroupId,
    /// The entity of that group, or [`NIL`]: it is asked for at every step up.
    pub(super) parent: u32,
    /// The group that it represents, if any.
    pub(super) child: Option<GroupId>,
    /// Neighbours in the list of active queues.
    pub(super) newer: u32,
    pub(super) older: u32,
    /// Requests that it holds, including descendants; for the depth limits.
    pub(super) allocated: u32,
}

impl Entity {
    pub(super) const fn new(
        group: GroupId,
        child: Option<GroupId>,
        class: Class,
        weight: u64,
    ) -> Self {
        Self {
            start: 0,
            finish: 0,
            budget: 0,
            service: 0,
            weight,
            orig_weight: weight,
            raise: 1,
            new_weight: weight,
            new_class: class,
            changed: false,
            class,
            place: TreeState::Nowhere,
            seat: 0,
            group,
            parent: NIL,
            child,
            newer: NIL,
            older: NIL,
            allocated: 0,
        }
    }

    /// Sets the finish to the start plus the virtual time of `sectors`.
    #[inline]
    pub(super) fn finish_after(&mut self, sectors: u64) {
        self.finish = self.start.wrapping_add(delta(sectors, self.weight));
    }

    /// Returns the entity of its group; `None` in the root.
    #[inline]
    pub(super) const fn parent(&self) -> Option<EntityId> {
        if self.parent == NIL { None } else { Some(EntityId(self.parent)) }
    }

    /// Returns the sectors left of the budget.
    #[inline]
    pub(super) const fn budget_left(&self) -> u64 {
        self.budget.saturating_sub(self.service)
    }

    /// Moves a finish that is behind the virtual time forward: the entity keeps its claim, but at
    /// most `1 / raise` of the debt that accumulated while it was away.
    #[inline]
    pub(super) fn push_behind(&mut self, time: u64) {
        if latest(time, self.finish) == time && time != self.finish {
            let mut debt = time.wrapping_sub(self.finish);
            if self.child.is_none() {
                debt /= self.raise;
            }
            self.start = self.start.wrapping_add(debt);
            self.finish = self.finish.wrapping_add(debt);
        }
    }
}
