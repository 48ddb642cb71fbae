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

use super::kinds::KINDS;
use super::shares::MemberId;
use crate::sched::finish_tree::later;

/// Children of an entry of a heap: with four, half as many levels as with two.
const CHILDREN: usize = 4;

/// Returns the key of a member that waits with a request of a kind.
pub(super) const fn key(id: MemberId, kind: usize) -> u32 {
    id.0 * KINDS as u32 + kind as u32
}

/// Returns the member that a key is of.
pub(super) const fn member_of_key(key: u32) -> MemberId {
    MemberId(key / KINDS as u32)
}

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

/// A member in a heap, as a number of several words, the highest first, so that two are compared
/// by one subtraction: a virtual time, which wraps, what decides between equal ones, and last when
/// the member was filed in the upper and its key in the lower half.
type Entry<const WORDS: usize> = [u64; WORDS];

const fn key_of<const WORDS: usize>(entry: &Entry<WORDS>) -> u32 {
    entry[WORDS - 1] as u32
}

/// A heap: no entry is before its parent.
#[derive(Clone, Debug)]
struct Heap<const WORDS: usize> {
    entries: Vec<Entry<WORDS>>,
}

impl<const WORDS: usize> Heap<WORDS> {
    const EMPTY: Self = Self { entries: Vec::new() };

    #[inline(always)]
    fn is_before(a: &Entry<WORDS>, b: &Entry<WORDS>) -> bool {
        let low = |entry: &Entry<WORDS>| u128::from(entry[WORDS - 2]) << 64 | u128::from(entry[WORDS - 1]);
        if WORDS == 2 {
            return (low(a).wrapping_sub(low(b)) as i128) < 0;
        }
        // Equal times are rare.
        let apart = a[0].wrapping_sub(b[0]) as i64;
        apart < 0 || (apart == 0 && low(a) < low(b))
    }

    /// Puts an entry into the hole at `at` or, from there, nearer to the top.
    #[inline(always)]
    fn rise(&mut self, places: &mut Places, mut at: usize, entry: Entry<WORDS>) {
        let entries = self.entries.as_mut_slice();
        while at > 0 {
            let above = (at - 1) / CHILDREN;
            let parent = entries[above];
            if !Self::is_before(&entry, &parent) {
                break;
            }
            entries[at] = parent;
            places.at[key_of(&parent) as usize] = at as u32;
            at = above;
        }
        entries[at] = entry;
        places.at[key_of(&entry) as usize] = at as u32;
    }

    #[inline]
    fn push(&mut self, places: &mut Places, entry: Entry<WORDS>) {
        debug_assert!(self.entries.len() < self.entries.capacity(), "room was not made");
        self.entries.push(entry);
        self.rise(places, self.entries.len() - 1, entry);
    }

    /// Replaces the entry at `at` by another.
    fn replace(&mut self, places: &mut Places, at: usize, entry: Entry<WORDS>) {
        self.fill(places, at, entry);
    }

    /// Puts an entry into the heap, which has a hole. The hole sinks to the bottom, and the entry,
    /// which seldom belongs far above, rises from there.
    #[inline(always)]
    fn fill(&mut self, places: &mut Places, mut hole: usize, entry: Entry<WORDS>) {
        let entries = self.entries.as_mut_slice();
        loop {
            let first = hole * CHILDREN + 1;
            let Some(below) = entries.get(first..) else { break };
            let (child, moved) = if let Some(below) = below.first_chunk::<CHILDREN>() {
                let first_of = |a: usize, b: usize| if Self::is_before(&below[b], &below[a]) { b } else { a };
                let child = first_of(first_of(0, 1), first_of(2, 3));
                (child, below[child])
            } else {
                let first_of = |a, b| if Self::is_before(&below[b], &below[a]) { b } else { a };
                let Some(child) = (0..below.len()).reduce(first_of) else { break };
                (child, below[child])
            };
            entries[hole] = moved;
            places.at[key_of(&moved) as usize] = hole as u32;
            hole = first + child;
        }
        self.rise(places, hole, entry);
    }

    /// Removes the entry at `at`.
    #[inline(always)]
    fn remove(&mut self, places: &mut Places, at: usize) {
        if let Some(last) = self.entries.pop()
            && at < self.entries.len()
        {
            self.fill(places, at, last);
        }
    }

    /// Checks order and places, and returns the keys. For tests: O(n).
    fn self_check(&self, places: &Places) -> Vec<u32> {
        for (at, entry) in self.entries.iter().enumerate() {
            let above = self.entries[at.saturating_sub(1) / CHILDREN];
            assert!(at == 0 || Self::is_before(&above, entry), "a parent of {} is after it", key_of(entry));
            assert_eq!(places.at[key_of(entry) as usize] as usize, at, "the place of {}", key_of(entry));
        }
        self.entries.iter().map(key_of).collect()
    }
}

/// The members of a class that wait with a request of one kind.
#[derive(Clone, Debug)]
pub(super) struct WaitingMembers {
    /// By finish.
    eligible: Heap<2>,
    /// By start, and of equal ones by the time from there to the finish.
    early: Heap<3>,
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
        self.eligible.entries.reserve(count.saturating_sub(self.eligible.entries.len()));
        self.early.entries.reserve(count.saturating_sub(self.early.entries.len()));
    }

    /// Returns the last word of the entry of a member that is filed now.
    #[inline]
    fn filed(places: &mut Places, key: u32) -> u64 {
        places.filed = places.filed.wrapping_add(1);
        u64::from(places.filed) << 32 | u64::from(key)
    }

    /// Advances to `time` and files a member. If the first of the others becomes eligible just
    /// then, a member that is not takes its place.
    #[inline(never)]
    pub(super) fn insert(&mut self, places: &mut Places, key: u32, (start, finish): (u64, u64), time: u64) {
        let filed = Self::filed(places, key);
        if !later(start, time) {
            self.eligible.push(places, [finish, filed]);
        } else {
            let early = [start, finish.wrapping_sub(start), filed];
            match self.first_due(time) {
                Some(due) => {
                    self.early.replace(places, 0, early);
                    self.eligible.push(places, due);
                }
                None => return self.early.push(places, early),
            }
        }
        self.advance(places, time);
    }

    /// Returns true if a member, which is at `at` in its heap, is eligible.
    #[inline]
    fn eligible_at(&self, at: usize, key: u32) -> bool {
        let is_eligible = self.eligible.entries.get(at).is_some_and(|entry| key_of(entry) == key);
        debug_assert!(is_eligible || key_of(&self.early.entries[at]) == key, "{key} does not wait");
        is_eligible
    }

    /// Takes a member out and advances to `time`. If the first of the others becomes eligible just
    /// then, it takes the place.
    #[inline(never)]
    pub(super) fn remove(&mut self, places: &mut Places, key: u32, time: u64) {
        let at = places.at[key as usize] as usize;
        match (self.eligible_at(at, key), self.first_due(time)) {
            (true, Some(due)) => {
                self.eligible.replace(places, at, due);
                self.early.remove(places, 0);
            }
            (true, None) => self.eligible.remove(places, at),
            (false, _) => self.early.remove(places, at),
        }
        self.advance(places, time);
    }

    /// Takes a member out, advances to `time` and files the member with other times. If the first
    /// of the others becomes eligible just then, the two change places.
    #[inline(never)]
    pub(super) fn refile(&mut self, places: &mut Places, key: u32, (start, finish): (u64, u64), time: u64) {
        let at = places.at[key as usize] as usize;
        let (was_eligible, filed) = (self.eligible_at(at, key), Self::filed(places, key));
        let (early, eligible) = ([start, finish.wrapping_sub(start), filed], [finish, filed]);
        match (was_eligible, !later(start, time)) {
            (true, true) => self.eligible.replace(places, at, eligible),
            (false, false) => self.early.replace(places, at, early),
            (false, true) => {
                self.early.remove(places, at);
                self.eligible.push(places, eligible);
            }
            (true, false) => match self.first_due(time) {
                Some(due) => {
                    self.early.replace(places, 0, early);
                    self.eligible.replace(places, at, due);
                }
                None => {
                    self.eligible.remove(places, at);
                    self.early.push(places, early);
                }
            },
        }
        self.advance(places, time);
    }

    /// Returns the member with the smallest start as an eligible one, if its start has come.
    #[inline]
    fn first_due(&self, time: u64) -> Option<Entry<2>> {
        let &[start, rest, filed] = self.early.entries.first()?;
        (!later(start, time)).then_some([start.wrapping_add(rest), filed])
    }

    /// Virtual time has advanced.
    #[inline(always)]
    pub(super) fn advance(&mut self, places: &mut Places, time: u64) {
        if self.first_due(time).is_some() {
            self.admit(places, time);
        }
    }

    /// Makes those eligible whose start has come.
    #[inline(never)]
    fn admit(&mut self, places: &mut Places, time: u64) {
        while let Some(due) = self.first_due(time) {
            self.early.remove(places, 0);
            self.eligible.push(places, due);
        }
    }

    /// Returns true if a member is eligible.
    #[inline]
    pub(super) const fn has_eligible(&self) -> bool {
        !self.eligible.entries.is_empty()
    }

    /// Returns the finish and the key of the eligible member with the smallest finish.
    #[inline]
    pub(super) fn first_eligible(&self) -> Option<(u64, u32)> {
        self.eligible.entries.first().map(|entry| (entry[0], key_of(entry)))
    }

    /// Returns the smallest start of those that are not eligible, and the smallest finish of those
    /// with this start, with its key.
    #[inline]
    pub(super) fn first_early(&self) -> Option<(u64, (u64, u32))> {
        self.early.entries.first().map(|entry| (entry[0], (entry[0].wrapping_add(entry[1]), key_of(entry))))
    }

    /// Checks order and places, and returns the keys. For tests: O(n).
    pub(super) fn self_check(&self, places: &Places, time: u64) -> Vec<u32> {
        let mut keys = self.eligible.self_check(places);
        keys.extend(self.early.self_check(places));
        assert!(self.early.entries.iter().all(|entry| later(entry[0], time)), "one that is eligible is not served");
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
                        oracle.remove(at);
                        if rng.one_in(2) {
                            time = time.wrapping_add(rng.below(4));
                            let start = time.wrapping_add(rng.below(40)).wrapping_sub(15);
                            let finish = start.wrapping_add(rng.below(20));
                            waiting.refile(&mut places, key, (start, finish), time);
                            oracle.push((key, start, finish));
                        } else {
                            time = time.wrapping_add(rng.below(3));
                            waiting.remove(&mut places, key, time);
                        }
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
