//! Requests, or other keys, by a sector: a hash table of chained buckets, linked by index.
//!
//! Cost: expected O(1) for everything but growth.

extern crate alloc;
use alloc::vec::Vec;

use crate::units::{RequestId, Sector};

const NIL: u32 = u32::MAX;

/// Keys by sector. Of several keys with the same sector the newest is found first.
#[derive(Clone, Debug)]
pub(super) struct BySector {
    /// First key of each bucket; the number of buckets is a power of two.
    buckets: Vec<u32>,
    /// Bits of a hash that do not count for the bucket.
    shift: u32,
    links: Vec<Link>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    sector: Sector,
    prev: u32,
    next: u32,
    filed: bool,
}

impl BySector {
    /// Returns an empty table for the keys below `count`.
    pub(super) fn new(count: usize) -> Self {
        let mut table = Self { buckets: Vec::new(), shift: 0, links: Vec::new() };
        table.grow(count.max(64));
        table
    }

    /// Makes room for the keys below `count`; never shrinks.
    pub(super) fn grow(&mut self, count: usize) {
        if count > self.links.len() {
            self.links
                .resize(count, Link { sector: Sector::ZERO, prev: NIL, next: NIL, filed: false });
        }
        if count > self.buckets.len() {
            self.add_buckets(count.next_power_of_two());
        }
    }

    #[cold]
    fn add_buckets(&mut self, count: usize) {
        self.shift = 64 - count.trailing_zeros();
        for first in core::mem::replace(&mut self.buckets, alloc::vec![NIL; count]) {
            let chain = core::iter::successors((first != NIL).then_some(first), |&n| {
                let next = self.links[n as usize].next;
                (next != NIL).then_some(next)
            });
            // The newest is at the front again if the oldest comes first.
            let chain: Vec<u32> = chain.collect();
            for &n in chain.iter().rev() {
                self.link(RequestId(n), self.links[n as usize].sector);
            }
        }
    }

    /// Multiplication by the golden ratio spreads any stride over the high bits.
    fn bucket(&self, sector: Sector) -> usize {
        let hash = sector.get().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> self.shift) as usize
    }

    /// Returns the sector under which a key is filed, if it is.
    #[inline]
    pub(super) fn get(&self, id: RequestId) -> Option<Sector> {
        self.links.get(id.index()).filter(|link| link.filed).map(|link| link.sector)
    }

    #[inline]
    pub(super) fn contains(&self, id: RequestId) -> bool {
        self.links.get(id.index()).is_some_and(|link| link.filed)
    }

    pub(super) fn insert(&mut self, id: RequestId, sector: Sector) {
        debug_assert!(!self.contains(id));
        self.link(id, sector);
    }

    fn link(&mut self, id: RequestId, sector: Sector) {
        let bucket = self.bucket(sector);
        let next = core::mem::replace(&mut self.buckets[bucket], id.0);
        self.links[id.index()] = Link { sector, prev: NIL, next, filed: true };
        if next != NIL {
            self.links[next as usize].prev = id.0;
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, id: RequestId) {
        debug_assert!(self.contains(id));
        let Link { sector, prev, next, .. } = self.links[id.index()];
        if prev == NIL {
            let bucket = self.bucket(sector);
            self.buckets[bucket] = next;
        } else {
            self.links[prev as usize].next = next;
        }
        if next != NIL {
            self.links[next as usize].prev = prev;
        }
        self.links[id.index()].filed = false;
    }

    /// Returns the newest key with a sector of those that `allows` accepts.
    pub(super) fn find(
        &self,
        sector: Sector,
        allows: impl Fn(RequestId) -> bool,
    ) -> Option<RequestId> {
        let mut n = self.buckets[self.bucket(sector)];
        while n != NIL && !(self.links[n as usize].sector == sector && allows(RequestId(n))) {
            n = self.links[n as usize].next;
        }
        (n != NIL).then_some(RequestId(n))
    }

    /// Iterates over the keys that are filed, with their sectors.
    pub(super) fn iter(&self) -> impl Iterator<Item = (RequestId, Sector)> + '_ {
        let filed = |(id, link): (u32, &Link)| link.filed.then_some((RequestId(id), link.sector));
        (0..).zip(&self.links).filter_map(filed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::Rng;

    /// Compares with a list in order of insertion, while the table grows.
    #[test]
    fn finds_the_newest_of_equal_sectors() {
        let (mut table, mut rng, mut oracle) = (BySector::new(0), Rng(1), Vec::<(u32, u64)>::new());
        for step in 0..4000 {
            let count = 64 + step / 10;
            table.grow(count as usize);
            let id = rng.below(count) as u32;
            match oracle.iter().position(|e| e.0 == id) {
                Some(at) => {
                    assert_eq!(table.get(RequestId(id)), Some(Sector::new(oracle.remove(at).1)));
                    table.remove(RequestId(id));
                }
                None => {
                    let sector = rng.below(60);
                    oracle.push((id, sector));
                    table.insert(RequestId(id), Sector::new(sector));
                }
            }
            let sector = rng.below(60);
            for modulus in [1, 2] {
                let allows = |id: u32| id.is_multiple_of(modulus);
                let newest = oracle.iter().rev().find(|e| e.1 == sector && allows(e.0));
                let found = table.find(Sector::new(sector), |id| allows(id.0));
                assert_eq!(found, newest.map(|e| RequestId(e.0)));
            }
            assert_eq!(table.iter().count(), oracle.len());
        }
    }
}
