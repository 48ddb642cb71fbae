//! The common part of ordered trees: nodes in one table, links between them, and rotations that
//! keep the trees shallow.
//!
//! A treap whose priorities are a fixed hash of the node's number: no randomness, no allocation per
//! operation. The owner of the nodes knows their order and walks down; [`Treap::insert_at`] and
//! [`Treap::take`] cost expected O(log n) in the size of the tree.

extern crate alloc;
use alloc::vec::Vec;

/// No node.
pub(crate) const NIL: u32 = u32::MAX;
/// Parent of a node that is in no tree.
const ABSENT: u32 = u32::MAX - 1;

/// A tree, by its topmost node. Empty at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root(pub(crate) u32);

impl Root {
    /// A tree without nodes.
    pub const EMPTY: Self = Self(NIL);
    /// Returns true if the tree has no node.
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
pub(crate) struct TreapNode<T> {
    pub(crate) item: T,
    pub(crate) left: u32,
    pub(crate) right: u32,
    pub(crate) parent: u32,
    priority: u32,
}

/// The nodes of any number of trees. Each node is in at most one of them at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Treap<T> {
    nodes: Vec<TreapNode<T>>,
}

/// A bijection of `u32` without visible order, so that priorities are all different and look
/// random.
const fn mix(id: u32) -> u32 {
    let mut x = id.wrapping_add(0x9e37_79b9);
    x = (x ^ x >> 16).wrapping_mul(0x85eb_ca6b);
    x = (x ^ x >> 13).wrapping_mul(0xc2b2_ae35);
    x ^ x >> 16
}

impl<T: Copy + Default> Treap<T> {
    /// Makes room for the nodes below `count`; never shrinks.
    pub(crate) fn grow(&mut self, count: usize) {
        for id in self.nodes.len() as u32..count as u32 {
            let priority = mix(id);
            self.nodes.push(TreapNode {
                item: T::default(),
                left: NIL,
                right: NIL,
                parent: ABSENT,
                priority,
            });
        }
    }

    #[inline]
    pub(crate) fn at(&self, n: u32) -> &TreapNode<T> {
        &self.nodes[n as usize]
    }
    #[inline]
    pub(crate) fn at_mut(&mut self, n: u32) -> &mut TreapNode<T> {
        &mut self.nodes[n as usize]
    }

    /// Returns true if a node is in a tree.
    #[inline]
    pub(crate) fn contains(&self, n: u32) -> bool {
        self.nodes.get(n as usize).is_some_and(|node| node.parent != ABSENT)
    }

    /// Inserts a node below `parent`, on the side that is free, or as the top of an empty tree if
    /// `parent` is [`NIL`], and rotates it up to its place.
    #[inline]
    pub(crate) fn insert_at(
        &mut self,
        root: &mut Root,
        n: u32,
        item: T,
        mut parent: u32,
        goes_left: bool,
    ) {
        let node = self.at_mut(n);
        (node.item, node.left, node.right, node.parent) = (item, NIL, NIL, parent);
        let priority = node.priority;
        match parent {
            NIL => root.0 = n,
            _ if goes_left => self.at_mut(parent).left = n,
            _ => self.at_mut(parent).right = n,
        }
        while parent != NIL && self.at(parent).priority < priority {
            self.rotate_up(root, n);
            parent = self.at(n).parent;
        }
    }

    /// Removes a node from its tree if it is the only one there. Returns false if it is not.
    #[inline]
    pub(crate) fn take_only(&mut self, root: &mut Root, n: u32) -> bool {
        let node = self.at_mut(n);
        let is_only = node.parent & node.left & node.right == NIL;
        if is_only {
            (root.0, node.parent) = (NIL, ABSENT);
        }
        is_only
    }

    /// Removes a node from its tree.
    #[inline]
    pub(crate) fn take(&mut self, root: &mut Root, n: u32) {
        loop {
            let TreapNode { left, right, parent, .. } = *self.at(n);
            if left != NIL && right != NIL {
                let up =
                    if self.at(left).priority > self.at(right).priority { left } else { right };
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

    /// Replaces the child `old` of `parent` by `new`.
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

    /// Exchanges a node with its parent; the order remains correct.
    fn rotate_up(&mut self, root: &mut Root, n: u32) {
        let TreapNode { left, right, parent, .. } = *self.at(n);
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

    /// Returns the first node of a subtree in order; [`NIL`] if it is empty.
    #[inline]
    pub(crate) fn leftmost(&self, mut n: u32) -> u32 {
        while n != NIL && self.at(n).left != NIL {
            n = self.at(n).left;
        }
        n
    }

    /// Returns the last node of a subtree in order; [`NIL`] if it is empty.
    #[inline]
    pub(crate) fn rightmost(&self, mut n: u32) -> u32 {
        while n != NIL && self.at(n).right != NIL {
            n = self.at(n).right;
        }
        n
    }

    /// Checks links and heights, and returns the nodes of a tree in order. For tests: O(n),
    /// panics if one is wrong.
    pub(crate) fn self_check(&self, root: Root) -> Vec<u32> {
        let mut order = Vec::new();
        if !root.is_empty() {
            assert_eq!(self.at(root.0).parent, NIL, "the root has a parent");
            self.check_below(root.0, &mut order);
        }
        order
    }

    fn check_below(&self, n: u32, order: &mut Vec<u32>) {
        let node = self.at(n);
        let below = |child: u32, order: &mut Vec<u32>| {
            if child != NIL {
                assert_eq!(self.at(child).parent, n, "a child of {n} has another parent");
                assert!(self.at(child).priority < node.priority, "heap order broken at {n}");
                self.check_below(child, order);
            }
        };
        below(node.left, order);
        order.push(n);
        below(node.right, order);
    }
}
