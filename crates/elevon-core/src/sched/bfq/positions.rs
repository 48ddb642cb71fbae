//! Queues by the position of their next request, to find one near a position.
//!
//! The position of a queue changes with most of its requests, but few requests look for another
//! queue: none of a seeky queue, and none of one that was served for a while. So a hash table says
//! where a queue is filed, and the sorted trees follow when something is looked for.
//!
//! Cost, with q queues: filing O(1), a search O(log q), and O(log q) for each queue that moved
//! since the last one.

extern crate alloc;
use alloc::vec::Vec;

use super::entity::{EntityId, GroupId};
use crate::sched::by_sector::BySector;
use crate::tree::{Root, TreeLinks};
use crate::units::{RequestId, Sector};

/// Where a queue is.
#[derive(Clone, Copy, Debug, Default)]
struct Filed {
    /// The group in which it is, or was, filed.
    group: Option<GroupId>,
    /// The group in whose tree it is.
    sorted: Option<GroupId>,
    /// The tree does not have it where it is filed.
    stale: bool,
}

/// The positions of all queues, by group.
#[derive(Clone, Debug)]
pub(super) struct Positions {
    table: BySector,
    queues: Vec<Filed>,
    /// The queues that the trees do not have where they are filed.
    stale: Vec<EntityId>,
    links: TreeLinks,
    /// By group.
    roots: Vec<Root>,
}

/// Returns the key of a queue in tables of requests.
const fn key(q: EntityId) -> RequestId {
    RequestId(q.0)
}

impl Positions {
    pub(super) fn new() -> Self {
        Self {
            table: BySector::new(0),
            queues: Vec::new(),
            stale: Vec::new(),
            links: TreeLinks::new(0),
            roots: Vec::new(),
        }
    }

    /// Returns the position of a queue, if it is filed.
    #[inline]
    pub(super) fn get(&self, q: EntityId) -> Option<Sector> {
        self.table.get(key(q))
    }

    /// Files a queue, which is not filed, unless another one of its group has this position.
    pub(super) fn insert(&mut self, q: EntityId, group: GroupId, sector: Sector) {
        if q.index() >= self.queues.len() {
            // At least doubled, because each growth of the table costs its size.
            let count = (q.index() + 1).next_power_of_two();
            self.queues.resize(count, Filed::default());
            self.table.grow(count);
            self.links.grow(count);
        }
        let is_alike = |other: RequestId| self.queues[other.index()].group == Some(group);
        if self.table.find(sector, is_alike).is_none() {
            self.table.insert(key(q), sector);
            self.queues[q.index()].group = Some(group);
            self.note(q);
        }
    }

    /// Removes a queue, which is filed.
    pub(super) fn remove(&mut self, q: EntityId) {
        self.table.remove(key(q));
        self.note(q);
    }

    fn note(&mut self, q: EntityId) {
        if !core::mem::replace(&mut self.queues[q.index()].stale, true) {
            self.stale.push(q);
        }
    }

    /// Returns the first queue of a group at or behind a sector, and the last one at or before it,
    /// with their positions.
    pub(super) fn around(
        &mut self,
        group: GroupId,
        sector: Sector,
    ) -> [Option<(EntityId, Sector)>; 2] {
        self.sort();
        let root = self.roots.get(group.index()).copied().unwrap_or(Root::EMPTY);
        let found = [self.links.lower_bound(root, sector), self.links.floor(root, sector)];
        found.map(|found| found.map(|key| (EntityId(key.0), self.links.key(key))))
    }

    /// Moves all queues in the trees to where they are filed.
    #[inline(never)]
    fn sort(&mut self) {
        for q in self.stale.drain(..) {
            let filed = &mut self.queues[q.index()];
            filed.stale = false;
            if let Some(group) = filed.sorted.take() {
                self.links.remove(&mut self.roots[group.index()], key(q));
            }
            if let (Some(sector), Some(group)) = (self.table.get(key(q)), filed.group) {
                filed.sorted = Some(group);
                if group.index() >= self.roots.len() {
                    self.roots.resize(group.index() + 1, Root::EMPTY);
                }
                self.links.insert(&mut self.roots[group.index()], sector, key(q));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::Rng;

    /// Compares with a list in order of filing.
    #[test]
    fn agrees_with_a_list() {
        let (mut positions, mut rng) = (Positions::new(), Rng(1));
        let mut oracle = Vec::<(EntityId, GroupId, u64)>::new();
        for step in 0..6000 {
            let q = EntityId(rng.below(100) as u32);
            match oracle.iter().position(|e| e.0 == q) {
                Some(at) => {
                    assert_eq!(positions.get(q), Some(Sector::new(oracle.remove(at).2)));
                    positions.remove(q);
                }
                None => {
                    let (group, sector) = (GroupId(rng.below(3) as u32), rng.below(150));
                    positions.insert(q, group, Sector::new(sector));
                    if !oracle.iter().any(|e| e.1 == group && e.2 == sector) {
                        oracle.push((q, group, sector));
                    }
                }
            }
            assert_eq!(positions.get(q).is_some(), oracle.iter().any(|e| e.0 == q));
            if step % 7 == 0 {
                let (group, sector) = (GroupId(rng.below(4) as u32), rng.below(170));
                let mine = || oracle.iter().filter(|e| e.1 == group);
                let behind = mine().filter(|e| e.2 >= sector).min_by_key(|e| e.2);
                let before = mine().filter(|e| e.2 <= sector).max_by_key(|e| e.2);
                let expected = [behind, before].map(|found| found.map(|e| (e.0, Sector::new(e.2))));
                assert_eq!(positions.around(group, Sector::new(sector)), expected);
            }
        }
    }
}
