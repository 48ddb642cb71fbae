//! Ordered trees over request keys, in which sorting schedulers keep their requests.
//!
//! One table of links serves any number of trees; a request is in at most one of them at a time.
//! The tree itself is only a [`Root`]. The order is by sector; equal sectors keep the order of
//! insertion (later ones to the right).
//!
//! A treap whose priorities are a fixed hash of the request's key: no randomness, no allocation per
//! operation. Insert, remove and the searches cost expected O(log n) in the size of the tree;
//! `next` and `prev` cost O(1) amortised over a walk.

use crate::merge::MergeKind;
pub use crate::treap::Root;
use crate::treap::{NIL, Treap};
use crate::units::{RequestId, Sector};

/// The links of every tree over one request table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TreeLinks {
    nodes: Treap<Sector>,
}

impl TreeLinks {
    /// Returns links for the keys below `count`.
    pub(crate) fn new(count: usize) -> Self {
        let mut links = Self::default();
        links.grow(count);
        links
    }

    /// Makes room for the keys below `count`; never shrinks.
    pub(crate) fn grow(&mut self, count: usize) {
        self.nodes.grow(count);
    }

    #[inline]
    const fn key_of(n: u32) -> Option<RequestId> {
        if n == NIL { None } else { Some(RequestId(n)) }
    }

    /// Returns true if the request is in a tree.
    #[inline]
    pub(crate) fn contains(&self, id: RequestId) -> bool {
        self.nodes.contains(id.0)
    }

    /// Returns the sector under which a request is filed; valid while it is in a tree.
    #[inline]
    pub(crate) fn key(&self, id: RequestId) -> Sector {
        self.nodes.at(id.0).item
    }

    /// Inserts a request, to the right of requests with the same key. It must be in no tree.
    #[inline]
    pub(crate) fn insert(&mut self, root: &mut Root, key: Sector, id: RequestId) {
        debug_assert!(!self.contains(id), "request {} is filed twice", id.0);
        if root.0 == NIL {
            self.nodes.insert_at(root, id.0, key, NIL, false);
        } else {
            self.insert_among(root, key, id);
        }
    }

    #[inline(never)]
    fn insert_among(&mut self, root: &mut Root, key: Sector, id: RequestId) {
        let (mut parent, mut child, mut goes_left) = (NIL, root.0, false);
        while child != NIL {
            let node = self.nodes.at(child);
            goes_left = key < node.item;
            (parent, child) = (child, if goes_left { node.left } else { node.right });
        }
        self.nodes.insert_at(root, id.0, key, parent, goes_left);
    }

    /// Removes a request from its tree.
    #[inline]
    pub(crate) fn remove(&mut self, root: &mut Root, id: RequestId) {
        debug_assert!(self.contains(id), "request {} is in no tree", id.0);
        if !self.nodes.take_only(root, id.0) {
            self.remove_among(root, id);
        }
    }

    #[inline(never)]
    fn remove_among(&mut self, root: &mut Root, id: RequestId) {
        self.nodes.take(root, id.0);
    }

    /// Files a request, which is in this tree, under another key.
    pub(crate) fn refile(&mut self, root: &mut Root, key: Sector, id: RequestId) {
        self.remove(root, id);
        self.insert(root, key, id);
    }

    /// Returns the first request in order.
    pub(crate) fn first(&self, root: Root) -> Option<RequestId> {
        Self::key_of(self.nodes.leftmost(root.0))
    }
    /// Returns the last request in order.
    #[cfg(test)]
    pub(crate) fn last(&self, root: Root) -> Option<RequestId> {
        Self::key_of(self.nodes.rightmost(root.0))
    }

    /// Returns the first request with a key of at least `key`.
    pub(crate) fn lower_bound(&self, root: Root, key: Sector) -> Option<RequestId> {
        let (mut n, mut found) = (root.0, NIL);
        while n != NIL {
            let node = self.nodes.at(n);
            n = if node.item >= key {
                found = n;
                node.left
            } else {
                node.right
            };
        }
        Self::key_of(found)
    }

    /// Returns the first request with exactly this key: for a bio that ends there, the request in
    /// front of which it can be merged.
    pub(crate) fn first_at(&self, root: Root, key: Sector) -> Option<RequestId> {
        self.lower_bound(root, key).filter(|&id| self.key(id) == key)
    }

    /// Returns the last request with a key of at most `key`.
    pub(crate) fn floor(&self, root: Root, key: Sector) -> Option<RequestId> {
        let (mut n, mut found) = (root.0, NIL);
        while n != NIL {
            let node = self.nodes.at(n);
            n = if node.item <= key {
                found = n;
                node.right
            } else {
                node.left
            };
        }
        Self::key_of(found)
    }

    /// Returns the request after this one in its tree.
    pub(crate) fn next(&self, id: RequestId) -> Option<RequestId> {
        debug_assert!(self.contains(id));
        let right = self.nodes.at(id.0).right;
        if right != NIL {
            return Self::key_of(self.nodes.leftmost(right));
        }
        let (mut n, mut parent) = (id.0, self.nodes.at(id.0).parent);
        while parent != NIL && self.nodes.at(parent).right == n {
            (n, parent) = (parent, self.nodes.at(parent).parent);
        }
        Self::key_of(parent)
    }

    /// Returns the request before this one in its tree.
    pub(crate) fn prev(&self, id: RequestId) -> Option<RequestId> {
        debug_assert!(self.contains(id));
        let left = self.nodes.at(id.0).left;
        if left != NIL {
            return Self::key_of(self.nodes.rightmost(left));
        }
        let (mut n, mut parent) = (id.0, self.nodes.at(id.0).parent);
        while parent != NIL && self.nodes.at(parent).left == n {
            (n, parent) = (parent, self.nodes.at(parent).parent);
        }
        Self::key_of(parent)
    }

    /// Returns the request with which a request that has grown by a merge may now be contiguous:
    /// the one behind it if it grew at its end, the one before it if at its front. `None` if it is
    /// in no tree, or at that end of its tree.
    pub(crate) fn neighbour(&self, id: RequestId, grown_at: MergeKind) -> Option<RequestId> {
        match grown_at {
            _ if !self.contains(id) => None,
            MergeKind::Back | MergeKind::Discard => self.next(id),
            MergeKind::Front => self.prev(id),
        }
    }

    /// Iterates over a tree in order.
    pub(crate) fn iter(&self, root: Root) -> impl Iterator<Item = RequestId> {
        core::iter::successors(self.first(root), |&id| self.next(id))
    }

    /// Checks order, heap property and back links, and returns the number of nodes. For tests:
    /// O(n), panics if one is wrong.
    pub(crate) fn self_check(&self, root: Root) -> usize {
        let order = self.nodes.self_check(root);
        let key = |n: u32| self.nodes.at(n).item;
        assert!(order.windows(2).all(|pair| key(pair[0]) <= key(pair[1])), "keys out of order");
        assert!(self.iter(root).map(|id| id.0).eq(order.iter().copied()), "a walk goes astray");
        order.len()
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec;
    use alloc::vec::Vec;
    use elevon_testkit::Rng;

    /// Compares two trees over one table with two BTreeMaps keyed by (sector, sequence).
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
                    let floor = oracle
                        .range(..=(probe, u64::MAX))
                        .next_back()
                        .map(|(_, &id)| RequestId(id));
                    assert_eq!(links.floor(*root, Sector::new(probe)), floor);
                    assert_eq!(
                        links.last(*root),
                        oracle.values().next_back().map(|&id| RequestId(id))
                    );
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
                    (depth, n) = (depth + 1, links.nodes.at(n).parent);
                }
                depth
            };
            // A random treap of n nodes has a mean depth of about 2 ln n = 19.4, and hardly ever
            // one past 3 * log2 n + 8.
            let depths: Vec<u32> = (0..count as u32).map(depth_of).collect();
            assert!(depths.iter().all(|&d| d <= 50), "deepest {:?}", depths.iter().max());
            assert!(depths.iter().sum::<u32>() / (count as u32) < 25);
        }
    }
}
