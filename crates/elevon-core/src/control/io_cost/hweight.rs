//! Hierarchical shares: the part of the device that a leaf may use, from the weights of the active
//! nodes on its path to the root.
//!
//! Every node has two weights in its parent: the *active* one, which was assigned, and the one *in
//! use*, which is lower while it lends part of its share. Both count only while the node, or a leaf
//! below it, is active. A share is the product, over the levels, of weight divided by the sum of
//! active siblings' weights. Shares are cached until any weight changes (a generation), and then
//! computed again when needed. Cost: a change and a stale share O(depth), a fresh share O(1).

extern crate alloc;
use alloc::vec::Vec;

/// The whole device.
pub(super) const WHOLE: u64 = 1 << 32;
/// Factor of weights, so that a part of weight 1 can be lent.
const WEIGHT_ONE: u64 = 1 << 16;
/// The root's slot.
pub(super) const ROOT_SLOT: u32 = 0;

#[derive(Clone, Copy, Debug)]
struct WeightNode {
    parent: u32,
    /// The assigned weight, whether active or not.
    weight: u64,
    /// The weight that counts in the parent now; 0 if not active.
    active: u64,
    in_use: u64,
    /// Sums over the active children.
    active_below: u64,
    in_use_below: u64,
    /// The generation in which the shares were computed.
    generation: u64,
    share: u64,
    share_in_use: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Shares {
    nodes: Vec<WeightNode>,
    generation: u64,
}

/// Returns `a * b / c` without overflow, rounded down.
#[inline]
pub(super) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX),
    }
}

/// Returns the virtual time of a cost at a share: `cost / share`, rounded up.
#[inline]
pub(super) fn stretch(cost: u64, share: u64) -> u64 {
    if cost < 1 << 32 {
        (cost << 32).div_ceil(share)
    } else {
        u64::try_from((u128::from(cost) << 32).div_ceil(u128::from(share))).unwrap_or(u64::MAX)
    }
}

/// Returns the virtual time that a cost takes at a share, as it is added to a tenant's: one that
/// no tenant can pay for stays one.
pub(super) fn virtual_cost(cost: u64, share: u64) -> i64 {
    i64::try_from(stretch(cost, share)).unwrap_or(i64::MAX)
}

impl Shares {
    pub(super) fn new() -> Self {
        let mut shares = Self { nodes: Vec::new(), generation: 1 };
        shares.set(ROOT_SLOT, ROOT_SLOT, 1);
        shares
    }

    /// Creates or resets a node; it is not active.
    pub(super) fn set(&mut self, slot: u32, parent: u32, weight: u16) {
        let node = WeightNode {
            parent,
            weight: u64::from(weight) * WEIGHT_ONE,
            active: 0,
            in_use: 0,
            active_below: 0,
            in_use_below: 0,
            generation: 0,
            share: WHOLE,
            share_in_use: WHOLE,
        };
        if slot as usize == self.nodes.len() {
            self.nodes.push(node);
        } else {
            self.nodes[slot as usize] = node;
        }
    }

    /// Returns true if the node may become an active leaf: no ancestor (except the root) is active
    /// as a leaf, and no node below it is active.
    pub(super) fn may_activate(&self, slot: u32) -> bool {
        let node = &self.nodes[slot as usize];
        let mut above = node.parent;
        while above != ROOT_SLOT {
            let ancestor = &self.nodes[above as usize];
            if ancestor.active > 0 && ancestor.active_below == 0 {
                return false;
            }
            above = ancestor.parent;
        }
        node.active_below == 0
    }

    /// Activates a leaf, with its full weight.
    pub(super) fn activate(&mut self, slot: u32) {
        let weight = self.nodes[slot as usize].weight;
        self.propagate(slot, weight, weight);
    }

    pub(super) fn deactivate(&mut self, slot: u32) {
        self.propagate(slot, 0, 0);
    }

    /// Changes the weight of a node; an active leaf uses all of it.
    pub(super) fn set_weight(&mut self, slot: u32, weight: u16) {
        let node = &mut self.nodes[slot as usize];
        node.weight = u64::from(weight) * WEIGHT_ONE;
        if node.active > 0 {
            let (weight, in_use) = (node.weight, node.in_use_of(node.weight));
            self.propagate(slot, weight, in_use);
        }
    }

    pub(super) fn weight(&self, slot: u32) -> u16 {
        (self.nodes[slot as usize].weight / WEIGHT_ONE) as u16
    }

    /// Returns an active leaf's weight, and the part of it in use.
    #[inline]
    pub(super) fn weights(&self, slot: u32) -> (u64, u64) {
        let node = &self.nodes[slot as usize];
        (node.active, node.in_use)
    }

    /// Sets how much of an active leaf's weight is in use, at least 1.
    pub(super) fn set_in_use(&mut self, slot: u32, in_use: u64) {
        let active = self.nodes[slot as usize].active;
        self.propagate(slot, active, in_use.clamp(1, active));
    }

    /// Sets the weights of a node and updates those of its ancestors.
    fn propagate(&mut self, slot: u32, mut active: u64, mut in_use: u64) {
        let mut at = slot;
        loop {
            let node = &mut self.nodes[at as usize];
            let (old_active, old_in_use) = (node.active, node.in_use);
            if (old_active, old_in_use) == (active, in_use) {
                break;
            }
            (node.active, node.in_use) = (active, in_use);
            self.generation += 1;
            at = node.parent;
            let parent = &mut self.nodes[at as usize];
            parent.active_below = parent.active_below + active - old_active;
            parent.in_use_below = parent.in_use_below + in_use - old_in_use;
            if at == ROOT_SLOT {
                break;
            }
            active = if parent.active_below > 0 { parent.weight } else { 0 };
            in_use = if parent.active_below > 0 { parent.in_use_of(active) } else { 0 };
        }
    }

    /// Returns the share of an active leaf and the part of it in use, in 2^-32 of the device; at
    /// least 1.
    #[inline]
    pub(super) fn of(&mut self, slot: u32) -> (u64, u64) {
        if self.nodes[slot as usize].generation != self.generation {
            self.compute(slot);
        }
        let node = &self.nodes[slot as usize];
        (node.share, node.share_in_use)
    }

    fn compute(&mut self, slot: u32) {
        let (mut share, mut in_use, mut at) = (WHOLE, WHOLE, slot);
        while at != ROOT_SLOT {
            let node = &self.nodes[at as usize];
            let parent = &self.nodes[node.parent as usize];
            share = mul_div(share, node.active, parent.active_below.max(1));
            in_use = mul_div(in_use, node.in_use, parent.in_use_below.max(1));
            at = node.parent;
        }
        let node = &mut self.nodes[slot as usize];
        (node.share, node.share_in_use, node.generation) =
            (share.max(1), in_use.max(1), self.generation);
    }

    /// Checks that sums match their parts.
    pub(super) fn self_check(&self, live: impl Iterator<Item = u32>) {
        let mut sums = alloc::vec![(0, 0); self.nodes.len()];
        for slot in live.filter(|&slot| slot != ROOT_SLOT) {
            let node = &self.nodes[slot as usize];
            let sum = &mut sums[node.parent as usize];
            *sum = (sum.0 + node.active, sum.1 + node.in_use);
            assert!(node.in_use <= node.active, "more weight in use than given");
            if node.active_below > 0 {
                assert_eq!(
                    node.active, node.weight,
                    "something is active below, yet the node does not count"
                );
                assert_eq!(
                    node.in_use,
                    node.in_use_of(node.weight),
                    "a node's weight in use against its children's"
                );
            }
        }
        for (node, sum) in self.nodes.iter().zip(sums) {
            assert_eq!(
                (node.active_below, node.in_use_below),
                sum,
                "sums of weights against the children"
            );
        }
    }
}

impl WeightNode {
    /// Returns the part of its weight that an active node uses: the same part as its children use
    /// of theirs.
    fn in_use_of(&self, active: u64) -> u64 {
        if self.active_below == 0 {
            return active;
        }
        let part = u128::from(active) * u128::from(self.in_use_below);
        part.div_ceil(u128::from(self.active_below)) as u64
    }
}
