//! The members of one class that wait with a request of one kind: those that are eligible by their
//! finish, the others by their start.
//!
//! Virtual time only advances. So a member that is not eligible yet becomes so once, and two heaps
//! do what a tree with the smallest start of each subtree does, with less work: the first of each
//! is known without a search, and one that is served is taken from the top. Of equal finishes the
//! member that was filed first goes first.
//!
//! Cost, with m members: first O(1), insert and remove O(log m), advance O(log m) for each member
//! that becomes eligible. Only [`WaitingMembers::reserve`] and [`Places::grow`] allocate.

extern crate alloc;
use alloc::vec::Vec;

use crate::sched::finish_tree::later;

/// Children of an entry of a heap: with four, half as many levels as with two.
const CHILDREN: usize = 4;

/// Where each member that waits is in its heap, by key: one table for any number of
/// [`WaitingMembers`].
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    at: Vec<u32>,
    /// Members that were filed; it wraps.
    filed: u32,
}

impl Places {
    /// Makes room for the keys below `count`.
    pub(super) fn grow(&mut self, count: usize) {
        self.at.resize(count.max(self.at.len()), 0);
    }
}

/// A member in a heap.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Finish of those that are eligible, start of the others.
    order: u64,
    /// Finish of those that are not eligible; of the others [`Self::filed`], in the upper half so
    /// that it wraps as it does itself.
    second: u64,
    /// When it was filed, as a number that grows and wraps.
    filed: u32,
    key: u32,
}

impl Entry {
    #[inline]
    const fn is_before(&self, other: &Self) -> bool {
        let apart = self.order.wrapping_sub(other.order) as i64;
        if apart != 0 {
            return apart < 0;
        }
        let apart = self.second.wrapping_sub(other.second) as i64;
        if apart != 0 { apart < 0 } else { (self.filed.wrapping_sub(other.filed) as i32) < 0 }
    }
}

/// A heap: no entry is before its parent.
#[derive(Clone, Debug)]
struct Heap {
    entries: Vec<Entry>,
}

impl Heap {
    const EMPTY: Self = Self { entries: Vec::new() };

    /// Puts an entry into the hole at `at` or, from there, nearer to the top.
    #[inline]
    fn rise(&mut self, places: &mut Places, mut at: usize, entry: Entry) {
        let entries = self.entries.as_mut_slice();
        while at > 0 {
            let above = (at - 1) / CHILDREN;
            let parent = entries[above];
            if !entry.is_before(&parent) {
                break;
            }
            entries[at] = parent;
            places.at[parent.key as usize] = at as u32;
            at = above;
        }
        entries[at] = entry;
        places.at[entry.key as usize] = at as u32;
    }

    #[inline]
    fn push(&mut self, places: &mut Places, entry: Entry) {
        debug_assert!(self.entries.len() < self.entries.capacity(), "room was not made");
        self.entries.push(entry);
        self.rise(places, self.entries.len() - 1, entry);
    }

    /// Removes the entry at `at`. The hole sinks to the bottom, and the last entry, which seldom
    /// belongs far above, rises from there.
    fn remove(&mut self, places: &mut Places, at: usize) {
        let Some(last) = self.entries.pop() else { return };
        if at == self.entries.len() {
            return;
        }
        let entries = self.entries.as_mut_slice();
        let mut hole = at;
        loop {
            let first = hole * CHILDREN + 1;
            let Some(below) = entries.get(first..) else { break };
            let (child, entry) = match below.first_chunk::<CHILDREN>() {
                Some([a, b, c, d]) => first_of([(0, a), (1, b)], [(2, c), (3, d)]),
                None => match *below {
                    [] => break,
                    [ref a] => (0, *a),
                    [ref a, ref b] => first_of([(0, a), (1, b)], [(0, a), (1, b)]),
                    [ref a, ref b, ref c, ..] => first_of([(0, a), (1, b)], [(2, c), (2, c)]),
                },
            };
            entries[hole] = entry;
            places.at[entry.key as usize] = hole as u32;
            hole = first + child;
        }
        self.rise(places, hole, last);
    }
}

/// Returns the first of four entries, with its number.
#[inline(always)]
fn first_of(left: [(usize, &Entry); 2], right: [(usize, &Entry); 2]) -> (usize, Entry) {
    let [left, right] = [left, right].map(|[a, b]| if b.1.is_before(a.1) { b } else { a });
    let (at, entry) = if right.1.is_before(left.1) { right } else { left };
    (at, *entry)
}

/// The members of a class that wait with a request of one kind.
#[derive(Clone, Debug)]
pub(super) struct WaitingMembers {
    /// By finish.
    eligible: Heap,
    /// By start.
    early: Heap,
}

impl WaitingMembers {
    /// Nobody.
    pub(super) const EMPTY: Self = Self { eligible: Heap::EMPTY, early: Heap::EMPTY };

    /// Returns true if nobody waits.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.eligible.entries.is_empty() && self.early.entries.is_empty()
    }

    /// Makes room for `count` members.
    pub(super) fn reserve(&mut self, count: usize) {
        for heap in [&mut self.eligible, &mut self.early] {
            heap.entries.reserve(count.saturating_sub(heap.entries.len()));
        }
    }

    /// Files a member; virtual time is `time`.
    pub(super) fn insert(&mut self, places: &mut Places, key: u32, (start, finish): (u64, u64), time: u64) {
        places.filed = places.filed.wrapping_add(1);
        let filed = places.filed;
        if later(start, time) {
            self.early.push(places, Entry { order: start, second: finish, filed, key });
        } else {
            self.eligible.push(places, Entry { order: finish, second: u64::from(filed) << 32, filed, key });
        }
    }

    /// Takes a member out.
    pub(super) fn remove(&mut self, places: &mut Places, key: u32) {
        let at = places.at[key as usize] as usize;
        let is_eligible = self.eligible.entries.get(at).is_some_and(|entry| entry.key == key);
        let heap = if is_eligible { &mut self.eligible } else { &mut self.early };
        debug_assert_eq!(heap.entries[at].key, key, "a member that does not wait is taken out");
        heap.remove(places, at);
    }

    /// Virtual time has advanced.
    #[inline]
    pub(super) fn advance(&mut self, places: &mut Places, time: u64) {
        while let Some(&entry) = self.early.entries.first() {
            if later(entry.order, time) {
                return;
            }
            self.early.remove(places, 0);
            self.eligible.push(places, Entry { order: entry.second, second: u64::from(entry.filed) << 32, ..entry });
        }
    }

    /// Returns the finish and the key of the eligible member with the smallest finish.
    #[inline]
    pub(super) fn first_eligible(&self) -> Option<(u64, u32)> {
        self.eligible.entries.first().map(|entry| (entry.order, entry.key))
    }

    /// Returns the smallest start of those that are not eligible, and the smallest finish of those
    /// with this start, with its key.
    #[inline]
    pub(super) fn first_early(&self) -> Option<(u64, (u64, u32))> {
        self.early.entries.first().map(|entry| (entry.order, (entry.second, entry.key)))
    }

    /// Checks order and places, and returns the keys. For tests: O(n).
    pub(super) fn self_check(&self, places: &Places, time: u64) -> Vec<u32> {
        let mut keys = Vec::new();
        for heap in [&self.eligible, &self.early] {
            for (at, entry) in heap.entries.iter().enumerate() {
                let above = heap.entries[at.saturating_sub(1) / CHILDREN];
                assert!(at == 0 || above.is_before(entry), "a parent of {} is after it", entry.key);
                assert_eq!(places.at[entry.key as usize] as usize, at, "the place of {}", entry.key);
                keys.push(entry.key);
            }
        }
        assert!(self.early.entries.iter().all(|entry| later(entry.order, time)), "one that is eligible is not served");
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevon_testkit::Rng;

    /// Compares with a list that is searched, with times that wrap and many equal ones.
    #[test]
    fn agrees_with_a_list_at_every_step() {
        for seed in 1..9 {
            let mut rng = Rng(seed);
            let (count, mut time) = (60, if seed % 2 == 0 { u64::MAX - 300 } else { 7 });
            let mut places = Places::default();
            places.grow(count);
            let mut waiting = WaitingMembers::EMPTY;
            waiting.reserve(count);
            // Key, start and finish, in the order in which they were filed.
            let mut oracle: Vec<(u32, u64, u64)> = Vec::new();
            for _ in 0..4_000 {
                let key = rng.below(count as u64) as u32;
                match oracle.iter().position(|entry| entry.0 == key) {
                    Some(at) => {
                        waiting.remove(&mut places, key);
                        oracle.remove(at);
                    }
                    None => {
                        let start = time.wrapping_add(rng.below(30)).wrapping_sub(15);
                        let finish = start.wrapping_add(rng.below(20));
                        waiting.insert(&mut places, key, (start, finish), time);
                        oracle.push((key, start, finish));
                    }
                }
                if rng.one_in(3) {
                    time = time.wrapping_add(rng.below(3));
                    waiting.advance(&mut places, time);
                }
                let mut keys = waiting.self_check(&places, time);
                keys.sort_unstable();
                let mut due: Vec<u32> = oracle.iter().map(|entry| entry.0).collect();
                due.sort_unstable();
                assert_eq!(keys, due);
                assert_eq!(waiting.is_empty(), oracle.is_empty());
                let ahead = |t: u64| t.wrapping_sub(time) as i64;
                let first = |is_in: &dyn Fn(i64) -> bool| {
                    let among = oracle.iter().filter(|entry| is_in(ahead(entry.1)));
                    among.min_by_key(|entry| ahead(entry.2)).map(|entry| (entry.2, entry.0))
                };
                assert_eq!(waiting.first_eligible(), first(&|start| start <= 0));
                let next = oracle.iter().map(|entry| ahead(entry.1)).filter(|start| *start > 0).min();
                let early = next.and_then(|next| first(&|start| start == next).map(|first| (next, first)));
                assert_eq!(waiting.first_early().map(|(start, first)| (ahead(start), first)), early);
            }
        }
    }
}
