//! The trees of one class in one group, with its virtual time.

use super::active_tree::ActiveTree;
use super::entity::{Entity, EntityId, TreeState, delta};
use crate::sched::finish_tree::{FinishTrees, Root, later};

/// Active and idle tree of a class, with its virtual time.
#[derive(Clone, Debug)]
pub(super) struct ServiceTree {
    pub(super) active: ActiveTree,
    pub(super) idle: Root,
    /// The first entity of the idle tree, cached because it is compared with the virtual time at
    /// every service.
    idle_first: Option<u32>,
    /// V, in the unit of [`delta`].
    pub(super) time: u64,
    /// Sum of the weights of all entities that are active, idle or in service.
    pub(super) weights: u64,
}

impl ServiceTree {
    pub(super) const EMPTY: Self =
        Self { active: ActiveTree::EMPTY, idle: Root::EMPTY, idle_first: None, time: 0, weights: 0 };

    /// Advances the virtual time by the service of `sectors`.
    #[inline]
    pub(super) fn advance(&mut self, sectors: u64, entities: &mut [Entity], trees: &mut FinishTrees) {
        self.time = self.time.wrapping_add(delta(sectors, self.weights));
        if !self.idle.is_empty() {
            self.forget_idle(entities, trees);
        }
    }

    /// Removes an entity that is no longer ahead of the virtual time: one per call. If nothing is
    /// active, time is first set back to the largest idle finish, so that a single idle entity has
    /// no advantage from service that others got alone.
    #[inline(never)]
    pub(super) fn forget_idle(&mut self, entities: &mut [Entity], trees: &mut FinishTrees) {
        if self.idle.is_empty() {
            return;
        }
        if self.active.is_empty()
            && let Some(last) = trees.last(self.idle)
            && !later(entities[last as usize].finish, self.time)
        {
            self.time = entities[last as usize].finish;
        }
        if let Some(first) = self.idle_first
            && !later(entities[first as usize].finish, self.time)
        {
            self.leave_idle(EntityId(first), trees);
            let entity = &mut entities[first as usize];
            entity.place = TreeState::Nowhere;
            self.weights -= entity.weight;
        }
    }

    #[inline]
    pub(super) fn leave_idle(&mut self, id: EntityId, trees: &mut FinishTrees) {
        trees.remove(&mut self.idle, id.0);
        if self.idle_first == Some(id.0) {
            self.idle_first = trees.first(self.idle);
        }
    }

    /// Inserts an entity that is ahead of the virtual time into the idle tree.
    #[inline]
    pub(super) fn enter_idle(&mut self, id: EntityId, entities: &[Entity], trees: &mut FinishTrees) {
        let entity = &entities[id.index()];
        trees.insert(&mut self.idle, id.0, entity.start, entity.finish);
        if self.idle_first.is_none_or(|first| later(entities[first as usize].finish, entity.finish)) {
            self.idle_first = Some(id.0);
        }
    }

    /// Checks that the cached first entity of the idle tree is right.
    pub(super) fn self_check(&self, trees: &FinishTrees) {
        assert_eq!(self.idle_first, trees.first(self.idle), "the first idle entity");
    }

    /// Returns the entity to serve next: of those that are eligible, or otherwise start first, the
    /// one with the smallest finish. `may_jump`: if none is eligible, virtual time moves to the
    /// start of that.
    pub(super) fn search(
        &mut self,
        may_jump: bool,
        entities: &mut [Entity],
        trees: &mut FinishTrees,
    ) -> Option<EntityId> {
        let next = match self.active.first_eligible(self.time) {
            Some(next) => next,
            None => {
                let (next, start) = self.active.first_to_start()?;
                if may_jump {
                    self.time = start;
                }
                next
            }
        };
        if may_jump {
            self.forget_idle(entities, trees);
        }
        Some(EntityId(next))
    }
}
