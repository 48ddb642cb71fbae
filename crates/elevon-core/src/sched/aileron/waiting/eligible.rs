//! The members that are eligible: a heap by finish. Of equal finishes the member that was filed
//! first goes first.

extern crate alloc;
use alloc::vec::Vec;

/// Children of an entry of the heap: with four, half as many levels as with two.
const CHILDREN: usize = 4;

/// A member, as a number of two words, the higher first, so that two are compared by one
/// subtraction: its finish, which wraps, and last when it was filed in the upper and its key in the
/// lower half.
pub(super) type Entry = [u64; 2];

pub(super) const fn key_of(entry: &Entry) -> u32 {
    entry[1] as u32
}

#[inline(always)]
pub(super) const fn is_before(a: &Entry, b: &Entry) -> bool {
    let [a, b] = [number(a), number(b)];
    (a.wrapping_sub(b) as i128) < 0
}

const fn number(entry: &Entry) -> u128 {
    (entry[0] as u128) << 64 | entry[1] as u128
}

/// The members that are eligible. No entry is before its parent. `places` says where each is, by
/// key.
#[derive(Clone, Debug)]
pub(super) struct Eligible {
    entries: Vec<Entry>,
}

impl Eligible {
    pub(super) const EMPTY: Self = Self { entries: Vec::new() };

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the member that goes first.
    #[inline]
    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.first()
    }

    /// Makes room for `count` members.
    pub(super) fn reserve(&mut self, count: usize) {
        self.entries.reserve(count.saturating_sub(self.entries.len()));
    }

    /// Puts an entry into the hole at `at` or, from there, nearer to the top.
    #[inline(always)]
    fn rise(&mut self, places: &mut [u32], mut at: usize, entry: Entry) {
        let entries = self.entries.as_mut_slice();
        while at > 0 {
            let above = (at - 1) / CHILDREN;
            let parent = entries[above];
            if !is_before(&entry, &parent) {
                break;
            }
            entries[at] = parent;
            places[key_of(&parent) as usize] = at as u32;
            at = above;
        }
        entries[at] = entry;
        places[key_of(&entry) as usize] = at as u32;
    }

    #[inline]
    pub(super) fn push(&mut self, places: &mut [u32], entry: Entry) {
        debug_assert!(self.entries.len() < self.entries.capacity(), "room was not made");
        self.entries.push(entry);
        self.rise(places, self.entries.len() - 1, entry);
    }

    /// Puts an entry into the heap in place of the one at `hole`. The hole sinks to the bottom, and
    /// the entry, which seldom belongs far above, rises from there.
    #[inline(always)]
    pub(super) fn replace(&mut self, places: &mut [u32], mut hole: usize, entry: Entry) {
        let entries = self.entries.as_mut_slice();
        loop {
            let first = hole * CHILDREN + 1;
            let Some(below) = entries.get(first..) else { break };
            let (child, moved) = if let Some(below) = below.first_chunk::<CHILDREN>() {
                let first_of =
                    |a: usize, b: usize| if is_before(&below[b], &below[a]) { b } else { a };
                let child = first_of(first_of(0, 1), first_of(2, 3));
                (child, below[child])
            } else {
                let first_of = |a, b| if is_before(&below[b], &below[a]) { b } else { a };
                let Some(child) = (0..below.len()).reduce(first_of) else { break };
                (child, below[child])
            };
            entries[hole] = moved;
            places[key_of(&moved) as usize] = hole as u32;
            hole = first + child;
        }
        self.rise(places, hole, entry);
    }

    /// Removes the entry at `at`.
    #[inline(always)]
    pub(super) fn remove(&mut self, places: &mut [u32], at: usize) {
        if let Some(last) = self.entries.pop()
            && at < self.entries.len()
        {
            self.replace(places, at, last);
        }
    }

    /// Checks order and places, and returns the keys. For tests: O(n).
    pub(super) fn self_check(&self, places: &[u32]) -> Vec<u32> {
        for (at, entry) in self.entries.iter().enumerate() {
            let above = self.entries[at.saturating_sub(1) / CHILDREN];
            assert!(
                at == 0 || is_before(&above, entry),
                "a parent of {} is after it",
                key_of(entry)
            );
            assert_eq!(
                places[key_of(entry) as usize] as usize,
                at,
                "the place of {}",
                key_of(entry)
            );
        }
        self.entries.iter().map(key_of).collect()
    }
}
