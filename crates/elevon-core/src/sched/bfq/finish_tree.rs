//! Trees of entities ordered by virtual finish time, each node knowing the smallest start below it.
//!
//! That one extra number is what makes "smallest finish among those that have started" a single descent. One table of nodes
//! serves any number of trees, since an entity is in one at a time; a tree is only its [`Root`]. Virtual times wrap, so they are
//! compared by signed difference; equal finishes keep the order of insertion.
//!
//! A treap whose priorities are a fixed mix of the entity's number. Every operation costs O(log n) expected in the size of the
//! tree; nothing is allocated but by [`FinishTrees::grow`].

extern crate alloc;
use alloc::vec::Vec;

const NIL: u32 = u32::MAX;
/// Parent of a node that is in no tree.
const ABSENT: u32 = u32::MAX - 1;

/// Whether a virtual time is after another; right while they are less than half the range apart.
#[inline]
pub(super) const fn later(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) > 0
}

/// The later of two virtual times.
#[inline]
pub(super) const fn latest(a: u64, b: u64) -> u64 {
    if later(a, b) { a } else { b }
}

/// A tree: its topmost node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root(u32);

impl Root {
    pub(super) const EMPTY: Self = Self(NIL);
    #[inline]
    pub(super) const fn is_empty(self) -> bool {
        self.0 == NIL
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    start: u64,
    finish: u64,
    /// Smallest start in the subtree.
    min_start: u64,
    left: u32,
    right: u32,
    parent: u32,
    priority: u32,
}

/// The nodes of every tree.
#[derive(Clone, Debug, Default)]
pub(super) struct FinishTrees {
    nodes: Vec<Node>,
}

/// A bijection of `u32` that leaves no visible order.
const fn mix(id: u32) -> u32 {
    let mut x = id.wrapping_add(0x9e37_79b9);
    x = (x ^ x >> 16).wrapping_mul(0x85eb_ca6b);
    x = (x ^ x >> 13).wrapping_mul(0xc2b2_ae35);
    x ^ x >> 16
}

impl FinishTrees {
    /// Makes room for the keys below `count`.
    pub(super) fn grow(&mut self, count: usize) {
        for id in self.nodes.len() as u32..count as u32 {
            let (start, finish, min_start) = (0, 0, 0);
            let priority = mix(id);
            self.nodes.push(Node { start, finish, min_start, left: NIL, right: NIL, parent: ABSENT, priority });
        }
    }

    #[inline]
    fn at(&self, n: u32) -> &Node {
        &self.nodes[n as usize]
    }
    #[inline]
    fn at_mut(&mut self, n: u32) -> &mut Node {
        &mut self.nodes[n as usize]
    }
    #[inline]
    const fn found(n: u32) -> Option<u32> {
        if n == NIL { None } else { Some(n) }
    }

    #[cfg(test)]
    pub(super) fn contains(&self, id: u32) -> bool {
        self.at(id).parent != ABSENT
    }

    /// Files an entity, behind those with the same finish.
    pub(super) fn insert(&mut self, root: &mut Root, id: u32, start: u64, finish: u64) {
        debug_assert!(self.at(id).parent == ABSENT, "entity {id} is filed twice");
        let (mut parent, mut child, mut goes_left) = (NIL, root.0, false);
        while child != NIL {
            let node = self.at_mut(child);
            if later(node.min_start, start) {
                node.min_start = start;
            }
            goes_left = later(node.finish, finish);
            // No processor guesses which way.
            (parent, child) = (child, core::hint::select_unpredictable(goes_left, node.left, node.right));
        }
        let priority = self.at(id).priority;
        *self.at_mut(id) = Node { start, finish, min_start: start, left: NIL, right: NIL, parent, priority };
        match parent {
            NIL => root.0 = id,
            _ if goes_left => self.at_mut(parent).left = id,
            _ => self.at_mut(parent).right = id,
        }
        while parent != NIL && self.at(parent).priority < priority {
            self.rotate_up(root, id);
            parent = self.at(id).parent;
        }
    }

    /// Takes an entity out of the tree it is in.
    pub(super) fn remove(&mut self, root: &mut Root, id: u32) {
        debug_assert!(self.at(id).parent != ABSENT, "entity {id} is in no tree");
        loop {
            let Node { left, right, parent, .. } = *self.at(id);
            if left != NIL && right != NIL {
                let up = if self.at(left).priority > self.at(right).priority { left } else { right };
                self.rotate_up(root, up);
                continue;
            }
            let child = if left == NIL { right } else { left };
            if child != NIL {
                self.at_mut(child).parent = parent;
            }
            self.replace_child(root, parent, id, child);
            self.at_mut(id).parent = ABSENT;
            let mut n = parent;
            // Above the first subtree whose smallest start stays, all stay.
            while n != NIL && self.update(n) {
                n = self.at(n).parent;
            }
            return;
        }
    }

    /// Recomputes the smallest start of a subtree from its top and the subtrees below; whether it changed.
    #[inline]
    fn update(&mut self, n: u32) -> bool {
        let Node { start, left, right, min_start, .. } = *self.at(n);
        let mut min = start;
        for child in [left, right] {
            if child != NIL && later(min, self.at(child).min_start) {
                min = self.at(child).min_start;
            }
        }
        self.at_mut(n).min_start = min;
        min != min_start
    }

    #[inline]
    fn replace_child(&mut self, root: &mut Root, parent: u32, old: u32, new: u32) {
        if parent == NIL {
            root.0 = new;
            return;
        }
        let node = self.at_mut(parent);
        if node.left == old {
            node.left = new;
        } else {
            node.right = new;
        }
    }

    /// Exchanges a node with its parent, keeping order and smallest starts.
    fn rotate_up(&mut self, root: &mut Root, n: u32) {
        let Node { left, right, parent, .. } = *self.at(n);
        let Node { parent: grandparent, min_start, .. } = *self.at(parent);
        let moved = if self.at(parent).left == n {
            self.at_mut(parent).left = right;
            self.at_mut(n).right = parent;
            right
        } else {
            self.at_mut(parent).right = left;
            self.at_mut(n).left = parent;
            left
        };
        if moved != NIL {
            self.at_mut(moved).parent = parent;
        }
        self.at_mut(parent).parent = n;
        self.at_mut(n).parent = grandparent;
        self.replace_child(root, grandparent, parent, n);
        self.update(parent);
        self.at_mut(n).min_start = min_start;
    }

    /// The entity with the smallest finish.
    pub(super) fn first(&self, root: Root) -> Option<u32> {
        let mut n = root.0;
        while n != NIL && self.at(n).left != NIL {
            n = self.at(n).left;
        }
        Self::found(n)
    }

    /// The entity with the largest finish.
    pub(super) fn last(&self, root: Root) -> Option<u32> {
        let mut n = root.0;
        while n != NIL && self.at(n).right != NIL {
            n = self.at(n).right;
        }
        Self::found(n)
    }

    /// The smallest start in a tree.
    #[inline]
    pub(super) fn min_start(&self, root: Root) -> Option<u64> {
        Self::found(root.0).map(|n| self.at(n).min_start)
    }

    /// The entity with the smallest finish among those whose start is not after `time`; of equals the one filed first.
    ///
    /// Exact, where the kernel's walk can miss a node on the right of an ineligible one (named deviation).
    pub(super) fn first_eligible(&self, root: Root, time: u64) -> Option<u32> {
        let mut n = root.0;
        if n == NIL || later(self.at(n).min_start, time) {
            return None;
        }
        loop {
            let node = self.at(n);
            n = if node.left != NIL && !later(self.at(node.left).min_start, time) {
                node.left
            } else if !later(node.start, time) {
                return Some(n);
            } else {
                // Something below has started, and it is neither here nor on the left.
                node.right
            };
        }
    }

    /// Checks order, heap, links and smallest starts; returns the keys in order. For tests: O(n).
    pub(super) fn self_check(&self, root: Root) -> Vec<u32> {
        let mut order = Vec::new();
        if !root.is_empty() {
            assert_eq!(self.at(root.0).parent, NIL, "the root has a parent");
            self.check_below(root.0, &mut order);
        }
        let in_order = |pair: &[u32]| !later(self.at(pair[0]).finish, self.at(pair[1]).finish);
        assert!(order.windows(2).all(in_order), "finishes out of order");
        order
    }

    fn check_below(&self, n: u32, order: &mut Vec<u32>) -> u64 {
        let node = *self.at(n);
        let mut min = node.start;
        let mut child = |child: u32, order: &mut Vec<u32>| {
            if child != NIL {
                assert_eq!(self.at(child).parent, n, "a child of {n} has another parent");
                assert!(self.at(child).priority < node.priority, "heap order broken at {n}");
                let below = self.check_below(child, order);
                min = if later(min, below) { below } else { min };
            }
        };
        child(node.left, order);
        order.push(n);
        child(node.right, order);
        assert_eq!(node.min_start, min, "smallest start below {n}");
        min
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::Rng;

    /// Against a list kept in order by hand, with times that wrap.
    #[test]
    fn agrees_with_a_sorted_list_at_every_step() {
        for seed in 1..7 {
            let mut rng = Rng(seed);
            let count = 50;
            let base = if seed % 2 == 0 { u64::MAX - 20 } else { 7 };
            let mut trees = FinishTrees::default();
            trees.grow(count);
            let mut root = Root::EMPTY;
            let mut oracle: Vec<(u32, u64, u64)> = Vec::new();
            for _ in 0..3000 {
                let id = rng.below(count as u64) as u32;
                if let Some(at) = oracle.iter().position(|e| e.0 == id) {
                    trees.remove(&mut root, id);
                    oracle.remove(at);
                } else {
                    let start = base.wrapping_add(rng.below(40));
                    let finish = start.wrapping_add(rng.below(20));
                    trees.insert(&mut root, id, start, finish);
                    let at = oracle.iter().position(|e| later(e.2, finish)).unwrap_or(oracle.len());
                    oracle.insert(at, (id, start, finish));
                }
                assert!(trees.self_check(root).iter().eq(oracle.iter().map(|e| &e.0)));
                assert_eq!(trees.first(root), oracle.first().map(|e| e.0));
                assert_eq!(trees.last(root), oracle.last().map(|e| e.0));
                let time = base.wrapping_add(rng.below(45));
                let eligible = oracle.iter().find(|e| !later(e.1, time)).map(|e| e.0);
                assert_eq!(trees.first_eligible(root, time), eligible);
                let least = oracle.iter().map(|e| e.1.wrapping_sub(base)).min();
                assert_eq!(trees.min_start(root).map(|s| s.wrapping_sub(base)), least);
                assert_eq!(trees.contains(id), oracle.iter().any(|e| e.0 == id));
            }
        }
    }
}
