//! The trees of one class in one group, with its virtual time.

use super::active_tree::ActiveTree;
use super::entity::{Entity, EntityId, TreeState, delta};
use super::idle_tree::IdleTree;
use crate::sched::finish_tree::{FinishTrees, later};

/// Active and idle tree of a class, with its virtual time.
#[derive(Clone, Debug)]
pub(super) struct ServiceTree {
    pub(super) active: ActiveTree,
    pub(super) idle: IdleTree,
    /// V, in the unit of [`delta`].
    pub(super) time: u64,
    /// Sum of the weights of all entities that are active, idle or in service.
    pub(super) weights: u64,
}

impl ServiceTree {
    pub(super) const EMPTY: Self =
        Self { active: ActiveTree::EMPTY, idle: IdleTree::EMPTY, time: 0, weights: 0 };

    /// Advances the virtual time by the service of `sectors`.
    #[inline]
    pub(super) fn advance(
        &mut self,
        sectors: u64,
        entities: &mut [Entity],
        trees: &mut FinishTrees,
    ) {
        self.time = self.time.wrapping_add(delta(sectors, self.weights));
        self.forget_idle(entities, trees);
    }

    /// Removes an entity that is no longer ahead of the virtual time: one per call. If nothing is
    /// active, time is first set back to the largest idle finish, so that a single idle entity has
    /// no advantage from service that others got alone.
    #[inline]
    pub(super) fn forget_idle(&mut self, entities: &mut [Entity], trees: &mut FinishTrees) {
        // If the first one is ahead, the last one is.
        if self.idle.may_be_reached(self.time) {
            self.forget_first(entities, trees);
        }
    }

    #[inline(never)]
    fn forget_first(&mut self, entities: &mut [Entity], trees: &mut FinishTrees) {
        if self.active.is_empty()
            && let Some(last) = self.idle.last_finish(trees)
            && !later(last, self.time)
        {
            self.time = last;
        }
        if let Some(first) = self.idle.first(trees)
            && !later(trees.finish(first.0), self.time)
        {
            let entity = &mut entities[first.index()];
            entity.place = TreeState::Nowhere;
            self.weights -= entity.weight;
            self.idle.remove(first, entity.seat, trees);
            self.idle.first(trees);
        }
    }

    /// Returns the entity to serve next: of those that are eligible, or otherwise start first, the
    /// one with the smallest finish. `may_jump`: if none is eligible, virtual time moves to the
    /// start of that.
    #[inline]
    pub(super) fn search(
        &mut self,
        may_jump: bool,
        entities: &mut [Entity],
        trees: &mut FinishTrees,
    ) -> Option<EntityId> {
        if self.active.is_empty() {
            return None;
        }
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
