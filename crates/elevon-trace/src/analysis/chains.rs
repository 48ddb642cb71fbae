//! A map from sectors of a device to the bios or requests there, oldest first.
//!
//! Several I/Os may be in progress at the same sector: they form a chain in order of arrival. Cost:
//! O(1) per call, for any length of a chain; nothing is allocated once the tables have grown to the
//! number of I/Os in progress.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// No entry.
pub(super) const NIL: u32 = u32::MAX;

/// Key of an I/O: its sector, and a class that separates different operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) sector: u64,
    pub(super) class: u8,
}

impl Key {
    #[inline]
    fn hash(self) -> u64 {
        // Sectors are often multiples of a power of two; a folded multiplication distributes every
        // bit.
        let value = (self.sector ^ u64::from(self.class) << 56) ^ 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(value) * 0xd6e8_feb8_6659_fd93_u128;
        (product >> 64) as u64 ^ product as u64
    }
}

#[derive(Clone, Copy)]
struct Link {
    key: Key,
    prev: u32,
    next: u32,
    /// Last entry of the chain; only valid in the first one.
    tail: u32,
    is_in: bool,
}

const OUT: Link =
    Link { key: Key { sector: 0, class: 0 }, prev: NIL, next: NIL, tail: NIL, is_in: false };

/// The map. Its entries are small numbers, which index tables of the caller.
#[derive(Default)]
pub(super) struct Chains {
    table: HashTable<u32>,
    links: Vec<Link>,
}

impl Chains {
    /// Appends an entry to the chain of its key. It must not be in the map.
    #[inline]
    pub(super) fn push(&mut self, id: u32, key: Key) {
        let at = id as usize;
        if at >= self.links.len() {
            self.links.resize(at + 1, OUT);
        }
        debug_assert!(!self.links[at].is_in, "an entry is in one chain only");
        self.links[at] = Link { key, prev: NIL, next: NIL, tail: id, is_in: true };
        let links = &self.links;
        match self.table.entry(
            key.hash(),
            |&id| links[id as usize].key == key,
            |&id| links[id as usize].key.hash(),
        ) {
            Entry::Vacant(slot) => {
                slot.insert(id);
            }
            Entry::Occupied(slot) => {
                let head = *slot.get() as usize;
                let tail = self.links[head].tail;
                self.links[tail as usize].next = id;
                self.links[at].prev = tail;
                self.links[head].tail = id;
            }
        }
    }

    /// Returns the oldest entry of a key.
    #[inline]
    pub(super) fn first(&self, key: Key) -> Option<u32> {
        self.table.find(key.hash(), |&id| self.links[id as usize].key == key).copied()
    }

    /// Returns true if an entry is in the map.
    #[inline]
    pub(super) fn has(&self, id: u32) -> bool {
        self.key(id).is_some()
    }

    /// Returns the key of an entry, if it is in the map.
    #[inline]
    pub(super) fn key(&self, id: u32) -> Option<Key> {
        self.links.get(id as usize).filter(|link| link.is_in).map(|link| link.key)
    }

    /// Returns the entry after another one in the same chain.
    #[inline]
    pub(super) fn next(&self, id: u32) -> Option<u32> {
        let next = self.links[id as usize].next;
        (next != NIL).then_some(next)
    }

    /// Returns the entries of a key, oldest first.
    #[inline]
    pub(super) fn all(&self, key: Key) -> impl Iterator<Item = u32> + Clone {
        std::iter::successors(self.first(key), |&id| self.next(id))
    }

    /// Removes an entry, if it is in the map.
    #[inline]
    pub(super) fn remove(&mut self, id: u32) {
        let Some(link) = self.links.get(id as usize).copied().filter(|link| link.is_in) else {
            return;
        };
        self.links[id as usize] = OUT;
        if link.prev != NIL {
            self.links[link.prev as usize].next = link.next;
            if link.next != NIL {
                self.links[link.next as usize].prev = link.prev;
            } else if let Some(head) = self.first(link.key) {
                self.links[head as usize].tail = link.prev;
            }
            return;
        }
        let found = self.table.find_entry(link.key.hash(), |&other| other == id);
        debug_assert!(found.is_ok(), "the first of a chain is in the table");
        let Ok(mut slot) = found else { return };
        if link.next == NIL {
            slot.remove();
        } else {
            *slot.get_mut() = link.next;
            let next = &mut self.links[link.next as usize];
            next.prev = NIL;
            next.tail = link.tail;
        }
    }

    pub(super) fn clear(&mut self) {
        self.table.clear();
        self.links.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevon_testkit::Rng;

    /// Compares random calls with a list that is searched from its start.
    #[test]
    fn chains_are_lists_in_order() {
        let mut random = Rng(1);
        let mut chains = Chains::default();
        let mut naive: Vec<(u32, Key)> = Vec::new();
        for _ in 0..20_000 {
            let key = Key { sector: random.below(6) * 8, class: random.below(2) as u8 };
            if random.one_in(2) && naive.len() < 40 {
                let id = (0..).find(|id| naive.iter().all(|(other, _)| other != id)).unwrap();
                chains.push(id, key);
                naive.push((id, key));
            } else if !naive.is_empty() {
                let at = random.below(naive.len() as u64) as usize;
                chains.remove(naive.remove(at).0);
            }
            let mut expected = naive.iter().filter(|(_, other)| *other == key).map(|(id, _)| *id);
            let mut found = chains.first(key);
            assert_eq!(found, expected.next());
            while let Some(id) = found {
                found = chains.next(id);
                assert_eq!(found, expected.next());
            }
        }
    }
}
