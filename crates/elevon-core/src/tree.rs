//! Ordered trees over request keys: what sorting schedulers keep their requests in.
//!
//! One table of links serves any number of trees, provided that a request is in one of them at a time: the tree itself is
//! only a [`Root`]. Order is by sector; equal sectors keep the order of insertion (later ones to the right).
//!
//! A treap whose priorities are a fixed mix of the request's key: no chance, no allocation per operation. Insert, remove and
//! the searches cost O(log n) expected in the size of the tree; `next` and `prev` O(1) amortised over a walk.

extern crate alloc;
use alloc::vec::Vec;

use crate::units::{RequestId, Sector};

const NIL: u32 = u32::MAX;
/// Parent of a node that is in no tree.
const ABSENT: u32 = u32::MAX - 1;

/// A tree: its topmost node. Empty at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root(u32);

impl Root {
    /// A tree without nodes.
    pub const EMPTY: Self = Self(NIL);
    /// Whether the tree has no node.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == NIL
    }
}

impl Default for Root {
    fn default() -> Self {
        Self::EMPTY
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key: Sector,
    left: u32,
    right: u32,
    parent: u32,
    priority: u32,
}

/// The links of every tree over one request table.
#[derive(Clone, Debug, Default)]
pub struct TreeLinks {
    nodes: Vec<Node>,
}

/// A bijection of `u32` that leaves no visible order, so that priorities are all different and look random.
const fn mix(id: u32) -> u32 {
    let mut x = id.wrapping_add(0x9e37_79b9);
    x = (x ^ x >> 16).wrapping_mul(0x85eb_ca6b);
    x = (x ^ x >> 13).wrapping_mul(0xc2b2_ae35);
    x ^ x >> 16
}

impl TreeLinks {
    /// Links for the keys below `count`.
    pub fn new(count: usize) -> Self {
        let mut links = Self::default();
        links.grow(count);
        links
    }

    /// Makes room for the keys below `count`; never shrinks.
    pub fn grow(&mut self, count: usize) {
        for id in self.nodes.len() as u32..count as u32 {
            self.nodes.push(Node { key: Sector::ZERO, left: NIL, right: NIL, parent: ABSENT, priority: mix(id) });
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
    const fn key_of(n: u32) -> Option<RequestId> {
        if n == NIL { None } else { Some(RequestId(n)) }
    }

    /// Whether the request is in a tree.
    #[inline]
    pub fn contains(&self, id: RequestId) -> bool {
        self.nodes.get(id.index()).is_some_and(|node| node.parent != ABSENT)
    }

    /// The sector that a request is filed under; meaningful while it is in a tree.
    #[inline]
    pub fn key(&self, id: RequestId) -> Sector {
        self.at(id.0).key
    }

    /// Files a request, to the right of those with the same key. It must be in no tree.
    pub fn insert(&mut self, root: &mut Root, key: Sector, id: RequestId) {
        debug_assert!(!self.contains(id), "request {} is filed twice", id.0);
        let (mut parent, mut child, mut goes_left) = (NIL, root.0, false);
        while child != NIL {
            let node = self.at(child);
            goes_left = key < node.key;
            (parent, child) = (child, if goes_left { node.left } else { node.right });
        }
        let node = self.at_mut(id.0);
        (node.key, node.left, node.right, node.parent) = (key, NIL, NIL, parent);
        let priority = node.priority;
        match parent {
            NIL => root.0 = id.0,
            _ if goes_left => self.at_mut(parent).left = id.0,
            _ => self.at_mut(parent).right = id.0,
        }
        while parent != NIL && self.at(parent).priority < priority {
            self.rotate_up(root, id.0);
            parent = self.at(id.0).parent;
        }
    }

    /// Takes a request out of the tree it is in.
    pub fn remove(&mut self, root: &mut Root, id: RequestId) {
        debug_assert!(self.contains(id), "request {} is in no tree", id.0);
        let n = id.0;
        loop {
            let Node { left, right, parent, .. } = *self.at(n);
            if left != NIL && right != NIL {
                let up = if self.at(left).priority > self.at(right).priority { left } else { right };
                self.rotate_up(root, up);
                continue;
            }
            let child = if left == NIL { right } else { left };
            if child != NIL {
                self.at_mut(child).parent = parent;
            }
            self.replace_child(root, parent, n, child);
            self.at_mut(n).parent = ABSENT;
            return;
        }
    }

    /// Makes `new` the child of `parent` in the place of `old`.
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

    /// Exchanges a node with its parent, keeping the order.
    fn rotate_up(&mut self, root: &mut Root, n: u32) {
        let Node { left, right, parent, .. } = *self.at(n);
        let grandparent = self.at(parent).parent;
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
    }

    fn leftmost(&self, mut n: u32) -> u32 {
        while n != NIL && self.at(n).left != NIL {
            n = self.at(n).left;
        }
        n
    }
    fn rightmost(&self, mut n: u32) -> u32 {
        while n != NIL && self.at(n).right != NIL {
            n = self.at(n).right;
        }
        n
    }

    /// The first request in order.
    pub fn first(&self, root: Root) -> Option<RequestId> {
        Self::key_of(self.leftmost(root.0))
    }
    /// The last request in order.
    pub fn last(&self, root: Root) -> Option<RequestId> {
        Self::key_of(self.rightmost(root.0))
    }

    /// The first request with a key of at least `key`.
    pub fn lower_bound(&self, root: Root, key: Sector) -> Option<RequestId> {
        let (mut n, mut found) = (root.0, NIL);
        while n != NIL {
            let node = self.at(n);
            n = if node.key >= key {
                found = n;
                node.left
            } else {
                node.right
            };
        }
        Self::key_of(found)
    }

    /// The last request with a key of at most `key`.
    pub fn floor(&self, root: Root, key: Sector) -> Option<RequestId> {
        let (mut n, mut found) = (root.0, NIL);
        while n != NIL {
            let node = self.at(n);
            n = if node.key <= key {
                found = n;
                node.right
            } else {
                node.left
            };
        }
        Self::key_of(found)
    }

    /// The request after this one in its tree.
    pub fn next(&self, id: RequestId) -> Option<RequestId> {
        debug_assert!(self.contains(id));
        let right = self.at(id.0).right;
        if right != NIL {
            return Self::key_of(self.leftmost(right));
        }
        let (mut n, mut parent) = (id.0, self.at(id.0).parent);
        while parent != NIL && self.at(parent).right == n {
            (n, parent) = (parent, self.at(parent).parent);
        }
        Self::key_of(parent)
    }

    /// The request before this one in its tree.
    pub fn prev(&self, id: RequestId) -> Option<RequestId> {
        debug_assert!(self.contains(id));
        let left = self.at(id.0).left;
        if left != NIL {
            return Self::key_of(self.rightmost(left));
        }
        let (mut n, mut parent) = (id.0, self.at(id.0).parent);
        while parent != NIL && self.at(parent).left == n {
            (n, parent) = (parent, self.at(parent).parent);
        }
        Self::key_of(parent)
    }

    /// Walks a tree in order.
    pub fn iter(&self, root: Root) -> impl Iterator<Item = RequestId> {
        core::iter::successors(self.first(root), |&id| self.next(id))
    }

    /// Checks order, heap property and back links; returns the number of nodes. For tests: O(n), panics where one is broken.
    pub fn self_check(&self, root: Root) -> usize {
        assert!(root.is_empty() || self.at(root.0).parent == NIL, "the root has a parent");
        let (mut count, mut before) = (0, Sector::ZERO);
        for id in self.iter(root) {
            let node = self.at(id.0);
            assert!(before <= node.key, "keys out of order at request {}", id.0);
            for child in [node.left, node.right] {
                assert!(child == NIL || self.at(child).parent == id.0, "a child of {} has another parent", id.0);
                assert!(child == NIL || self.at(child).priority < node.priority, "heap order broken at {}", id.0);
            }
            before = node.key;
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec;

    struct Rng(u64);
    impl Rng {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) % n
        }
    }

    /// Two trees over one table against two BTreeMaps keyed by (sector, sequence).
    #[test]
    fn agrees_with_a_btree_at_every_step() {
        for seed in 1..9 {
            let mut rng = Rng(seed);
            let count = 60;
            let mut links = TreeLinks::new(count);
            let mut roots = [Root::EMPTY; 2];
            let mut oracles: [BTreeMap<(u64, u64), u32>; 2] = Default::default();
            let mut place: Vec<Option<(usize, u64, u64)>> = vec![None; count];
            for sequence in 0..3000 {
                let id = rng.below(count as u64) as u32;
                match place[id as usize].take() {
                    Some((tree, key, seq)) => {
                        links.remove(&mut roots[tree], RequestId(id));
                        assert_eq!(oracles[tree].remove(&(key, seq)), Some(id));
                    }
                    None => {
                        let (tree, key) = (rng.below(2) as usize, rng.below(40));
                        links.insert(&mut roots[tree], Sector::new(key), RequestId(id));
                        oracles[tree].insert((key, sequence), id);
                        place[id as usize] = Some((tree, key, sequence));
                    }
                }
                let probe = rng.below(42);
                for (root, oracle) in roots.iter().zip(&oracles) {
                    assert_eq!(links.self_check(*root), oracle.len());
                    assert!(links.iter(*root).map(|id| id.0).eq(oracle.values().copied()));
                    let lower = oracle.range((probe, 0)..).next().map(|(_, &id)| RequestId(id));
                    assert_eq!(links.lower_bound(*root, Sector::new(probe)), lower);
                    let floor = oracle.range(..=(probe, u64::MAX)).next_back().map(|(_, &id)| RequestId(id));
                    assert_eq!(links.floor(*root, Sector::new(probe)), floor);
                    assert_eq!(links.last(*root), oracle.values().next_back().map(|&id| RequestId(id)));
                    let backwards = core::iter::successors(links.last(*root), |&id| links.prev(id));
                    assert!(backwards.map(|id| id.0).eq(oracle.values().rev().copied()));
                }
                assert_eq!(links.contains(RequestId(id)), place[id as usize].is_some());
            }
        }
    }

    #[test]
    fn stays_shallow_for_sorted_and_equal_keys() {
        let count = 1 << 14;
        for step in [0, 1] {
            let mut links = TreeLinks::new(count);
            let mut root = Root::EMPTY;
            for id in 0..count as u32 {
                links.insert(&mut root, Sector::new(u64::from(id) * step), RequestId(id));
            }
            let depth_of = |mut n: u32| {
                let mut depth = 0;
                while n != NIL {
                    (depth, n) = (depth + 1, links.at(n).parent);
                }
                depth
            };
            // A random treap of n nodes has a mean depth of about 2 ln n = 19.4, and hardly ever one past 3 * log2 n + 8.
            let depths: Vec<u32> = (0..count as u32).map(depth_of).collect();
            assert!(depths.iter().all(|&d| d <= 50), "deepest {:?}", depths.iter().max());
            assert!(depths.iter().sum::<u32>() / (count as u32) < 25);
        }
    }
}
