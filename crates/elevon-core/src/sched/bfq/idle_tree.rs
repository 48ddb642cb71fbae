//! The idle entities of a class in a group that are ahead of the virtual time, by finish.
//!
//! Most of them become active again before the virtual time reaches the smallest finish. So an
//! entity is sorted only if it is still idle then, or when many came after it.
//!
//! Cost, with n entities: O(1) for those that are never sorted, and O(log n) for each of the
//! others.

extern crate alloc;
use alloc::vec::Vec;

use super::entity::{EntityId, NIL};
use crate::sched::finish_tree::{FinishTrees, Root, later};

/// Number of entities that became idle from which on they are sorted, although some are not idle
/// any more.
const SORTED_FROM: usize = 256;

/// An entity that is not sorted.
#[derive(Clone, Copy, Debug)]
struct Recent {
    /// [`NIL`] if it left.
    id: u32,
    finish: u64,
}

/// The idle entities of a class in a group.
#[derive(Clone, Debug)]
pub(super) struct IdleTree {
    sorted: Root,
    /// Those that are not sorted, as they came.
    recent: Vec<Recent>,
    /// Entities.
    count: u32,
    /// No finish is before this time.
    earliest: u64,
}

impl IdleTree {
    pub(super) const EMPTY: Self =
        Self { sorted: Root::EMPTY, recent: Vec::new(), count: 0, earliest: 0 };

    /// Inserts an entity, behind those with the same finish. Returns its seat.
    #[inline]
    pub(super) fn insert(&mut self, id: EntityId, finish: u64, trees: &mut FinishTrees) -> u32 {
        if self.recent.len() == SORTED_FROM {
            self.sort(trees);
        }
        if self.count == 0 || later(self.earliest, finish) {
            self.earliest = finish;
        }
        self.count += 1;
        self.recent.push(Recent { id: id.0, finish });
        self.recent.len() as u32 - 1
    }

    /// Removes an entity that was given this seat.
    #[inline]
    pub(super) fn remove(&mut self, id: EntityId, seat: u32, trees: &mut FinishTrees) {
        match self.recent.get_mut(seat as usize) {
            Some(recent) if recent.id == id.0 => recent.id = NIL,
            _ => trees.remove(&mut self.sorted, id.0),
        }
        self.count -= 1;
        if self.count == 0 {
            self.recent.clear();
        }
    }

    /// Returns true if the virtual time may have reached the smallest finish.
    #[inline]
    pub(super) const fn may_be_reached(&self, time: u64) -> bool {
        self.count > 0 && !later(self.earliest, time)
    }

    /// Returns the entity with the smallest finish.
    #[inline]
    pub(super) fn first(&mut self, trees: &mut FinishTrees) -> Option<EntityId> {
        self.sort(trees);
        let first = trees.first(self.sorted)?;
        self.earliest = trees.finish(first);
        Some(EntityId(first))
    }

    /// Returns the largest finish.
    pub(super) fn last_finish(&mut self, trees: &mut FinishTrees) -> Option<u64> {
        self.sort(trees);
        trees.last(self.sorted).map(|last| trees.finish(last))
    }

    /// Iterates over the entities that are not sorted, as they came.
    #[inline]
    fn unsorted(&self) -> impl Iterator<Item = Recent> + '_ {
        self.recent.iter().copied().filter(|recent| recent.id != NIL)
    }

    #[inline]
    fn sort(&mut self, trees: &mut FinishTrees) {
        for Recent { id, finish } in self.recent.drain(..).filter(|recent| recent.id != NIL) {
            trees.insert(&mut self.sorted, id, finish);
        }
    }

    /// Checks order and finishes, and returns the entities. For tests: O(n).
    pub(super) fn self_check(&self, trees: &FinishTrees) -> Vec<u32> {
        let mut ids = trees.self_check(self.sorted);
        let finishes = ids
            .iter()
            .map(|&id| trees.finish(id))
            .chain(self.unsorted().map(|recent| recent.finish));
        assert!(
            !{ finishes }.any(|finish| later(self.earliest, finish)),
            "a finish before the earliest"
        );
        ids.extend(self.unsorted().map(|recent| recent.id));
        assert_eq!(ids.len(), self.count as usize, "idle entities");
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::Rng;

    /// Compares with a list in order of insertion, with times that wrap. What is asked is asked
    /// so seldom that more entities than [`SORTED_FROM`] come in between.
    #[test]
    fn agrees_with_a_list_at_every_step() {
        for seed in 1..7 {
            let mut rng = Rng(seed);
            let base = if seed % 2 == 0 { u64::MAX - 20 } else { 7 };
            let (mut tree, mut trees) = (IdleTree::EMPTY, FinishTrees::default());
            trees.grow(4000);
            let mut oracle: Vec<(EntityId, u64, u32)> = Vec::new();
            for id in (0..4000).map(EntityId) {
                if oracle.len() > rng.below(60) as usize {
                    let (id, _, seat) = oracle.remove(rng.below(oracle.len() as u64) as usize);
                    tree.remove(id, seat, &mut trees);
                } else {
                    let finish = base.wrapping_add(rng.below(40));
                    oracle.push((id, finish, tree.insert(id, finish, &mut trees)));
                }
                let mut ids = tree.self_check(&trees);
                ids.sort_unstable();
                assert!(ids.iter().eq(oracle.iter().map(|e| &e.0.0)));
                let since = |e: &&(EntityId, u64, u32)| e.1.wrapping_sub(base);
                // `min_by_key` returns the first of several.
                let first = oracle.iter().min_by_key(since);
                if let Some(first) = first {
                    assert!(tree.may_be_reached(first.1));
                    assert!(!tree.may_be_reached(base.wrapping_sub(1)));
                }
                if rng.below(600) == 0 {
                    assert_eq!(
                        tree.last_finish(&mut trees),
                        oracle.iter().max_by_key(since).map(|e| e.1)
                    );
                    assert_eq!(tree.first(&mut trees), first.map(|e| e.0));
                    assert!(
                        first.is_none_or(|first| !tree.may_be_reached(first.1.wrapping_sub(1)))
                    );
                }
            }
        }
    }
}
