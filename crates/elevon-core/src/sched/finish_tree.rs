//! Trees of entities ordered by virtual finish time.
//!
//! One table of nodes serves any number of trees, because an entity is in at most one at a time; a
//! tree is only its [`Root`]. Virtual times wrap, so they are compared by signed difference; equal
//! finishes keep the order of insertion.
//!
//! A treap whose priorities are a fixed hash of the entity's number. Every operation costs expected
//! O(log n) in the size of the tree; only [`FinishTrees::grow`] allocates.

extern crate alloc;
use alloc::vec::Vec;

pub(in crate::sched) use crate::treap::Root;
use crate::treap::{NIL, Treap};

/// Returns true if a virtual time is after another. Correct if they differ by less than half the
/// range.
#[inline]
pub(in crate::sched) const fn later(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) > 0
}

/// Returns the later of two virtual times.
#[inline]
pub(in crate::sched) const fn latest(a: u64, b: u64) -> u64 {
    if later(a, b) { a } else { b }
}

/// The nodes of every tree.
#[derive(Clone, Debug, Default)]
pub(in crate::sched) struct FinishTrees {
    nodes: Treap<u64>,
}

impl FinishTrees {
    /// Makes room for the keys below `count`.
    pub(in crate::sched) fn grow(&mut self, count: usize) {
        self.nodes.grow(count);
    }

    #[inline]
    const fn found(n: u32) -> Option<u32> {
        if n == NIL { None } else { Some(n) }
    }

    #[cfg(test)]
    pub(in crate::sched) fn contains(&self, id: u32) -> bool {
        self.nodes.contains(id)
    }

    /// Inserts an entity, behind those with the same finish.
    #[inline]
    pub(in crate::sched) fn insert(&mut self, root: &mut Root, id: u32, finish: u64) {
        debug_assert!(!self.nodes.contains(id), "entity {id} is filed twice");
        if root.is_empty() {
            self.nodes.insert_at(root, id, finish, NIL, false);
        } else {
            self.insert_among(root, id, finish);
        }
    }

    #[inline(never)]
    fn insert_among(&mut self, root: &mut Root, id: u32, finish: u64) {
        let (mut parent, mut child, mut goes_left) = (NIL, root.0, false);
        while child != NIL {
            let node = self.nodes.at(child);
            goes_left = later(node.item, finish);
            // The branch is unpredictable.
            (parent, child) =
                (child, core::hint::select_unpredictable(goes_left, node.left, node.right));
        }
        self.nodes.insert_at(root, id, finish, parent, goes_left);
    }

    /// Returns the finish of an entity; valid while it is in a tree.
    #[inline]
    pub(in crate::sched) fn finish(&self, id: u32) -> u64 {
        self.nodes.at(id).item
    }

    /// Removes an entity from its tree.
    #[inline]
    pub(in crate::sched) fn remove(&mut self, root: &mut Root, id: u32) {
        debug_assert!(self.nodes.contains(id), "entity {id} is in no tree");
        if !self.nodes.take_only(root, id) {
            self.remove_among(root, id);
        }
    }

    #[inline(never)]
    fn remove_among(&mut self, root: &mut Root, id: u32) {
        self.nodes.take(root, id);
    }

    /// Returns the entity with the smallest finish.
    pub(in crate::sched) fn first(&self, root: Root) -> Option<u32> {
        Self::found(self.nodes.leftmost(root.0))
    }

    /// Returns the entity with the largest finish.
    pub(in crate::sched) fn last(&self, root: Root) -> Option<u32> {
        Self::found(self.nodes.rightmost(root.0))
    }

    /// Checks order, heap and links, and returns the keys in order. For tests: O(n).
    pub(in crate::sched) fn self_check(&self, root: Root) -> Vec<u32> {
        let order = self.nodes.self_check(root);
        assert!(
            order.windows(2).all(|pair| !later(self.finish(pair[0]), self.finish(pair[1]))),
            "finishes out of order"
        );
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::Rng;

    /// Compares with a list that is kept in order by hand, with times that wrap.
    #[test]
    fn agrees_with_a_sorted_list_at_every_step() {
        for seed in 1..7 {
            let mut rng = Rng(seed);
            let count = 50;
            let base = if seed % 2 == 0 { u64::MAX - 20 } else { 7 };
            let mut trees = FinishTrees::default();
            trees.grow(count);
            let mut root = Root::EMPTY;
            let mut oracle: Vec<(u32, u64)> = Vec::new();
            for _ in 0..3000 {
                let id = rng.below(count as u64) as u32;
                if let Some(at) = oracle.iter().position(|e| e.0 == id) {
                    trees.remove(&mut root, id);
                    oracle.remove(at);
                } else {
                    let finish = base.wrapping_add(rng.below(60));
                    trees.insert(&mut root, id, finish);
                    let at = oracle.iter().position(|e| later(e.1, finish)).unwrap_or(oracle.len());
                    oracle.insert(at, (id, finish));
                }
                assert!(trees.self_check(root).iter().eq(oracle.iter().map(|e| &e.0)));
                assert_eq!(trees.first(root), oracle.first().map(|e| e.0));
                assert_eq!(trees.last(root), oracle.last().map(|e| e.0));
                assert_eq!(trees.contains(id), oracle.iter().any(|e| e.0 == id));
            }
        }
    }
}
