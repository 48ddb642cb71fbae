//! The members of one class that wait with a request of one kind: those that are eligible by their
//! finish, the others by their start.
//!
//! Cost, with m members that are eligible: the first O(1), insert, remove and what becomes eligible
//! O(log m). What it costs to find out who does, and who is first if nobody is, says [`early`].
//! Only [`WaitingMembers::reserve`] and [`Places::grow`] allocate.

extern crate alloc;
use super::ids::MemberId;
use alloc::vec::Vec;

mod early;
mod eligible;

use early::{Early, Link};
use eligible::{Eligible, Entry, key_of};

use super::kinds::KINDS;
use crate::sched::finish_tree::later;

/// Place of a member that is not eligible.
const EARLY: u32 = u32::MAX;

/// Returns the key of a member that waits with a request of a kind.
pub(super) const fn key(id: MemberId, kind: usize) -> u32 {
    id.0 * KINDS as u32 + kind as u32
}

/// Returns the member that a key is of.
pub(super) const fn member_of_key(key: u32) -> MemberId {
    MemberId(key / KINDS as u32)
}

/// Where each member that waits is, by key: one table for any number of [`WaitingMembers`].
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// Among those that are eligible, or [`EARLY`].
    at: Vec<u32>,
    /// Among those that are not.
    links: Vec<Link>,
    /// Members that were filed; it wraps.
    filed: u32,
}

impl Places {
    /// Makes room for the keys below `count`.
    pub(super) fn grow(&mut self, count: usize) {
        let count = count.max(self.at.len());
        self.at.resize(count, EARLY);
        self.links.resize(count, Link::NONE);
    }

    /// Returns the entry of a member that is filed now.
    #[inline]
    fn entry(&mut self, key: u32, finish: u64) -> Entry {
        self.filed = self.filed.wrapping_add(1);
        [finish, u64::from(self.filed) << 32 | u64::from(key)]
    }
}

/// The members of a class that wait with a request of one kind.
#[derive(Clone, Debug)]
pub(super) struct WaitingMembers {
    eligible: Eligible,
    early: Early,
}

impl WaitingMembers {
    /// Nobody.
    pub(super) const EMPTY: Self = Self { eligible: Eligible::EMPTY, early: Early::EMPTY };

    /// Returns true if nobody waits.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.eligible.is_empty() && self.early.is_empty()
    }

    /// Makes room for `count` members.
    pub(super) fn reserve(&mut self, count: usize) {
        self.eligible.reserve(count);
        self.early.reserve();
    }

    /// Advances to `time` and files a member.
    #[inline(never)]
    pub(super) fn insert(&mut self, places: &mut Places, key: u32, times: (u64, u64), time: u64) {
        self.advance(places, time);
        self.file(places, key, times, time);
    }

    #[inline(always)]
    fn file(&mut self, places: &mut Places, key: u32, (start, finish): (u64, u64), time: u64) {
        let entry = places.entry(key, finish);
        if later(start, time) {
            places.at[key as usize] = EARLY;
            self.early.push(&mut places.links, start, entry);
        } else {
            self.eligible.push(&mut places.at, entry);
        }
    }

    /// Takes a member out and advances to `time`.
    #[inline(never)]
    pub(super) fn remove(&mut self, places: &mut Places, key: u32, time: u64) {
        self.take(places, key);
        self.advance(places, time);
    }

    #[inline(always)]
    fn take(&mut self, places: &mut Places, key: u32) {
        match places.at[key as usize] {
            EARLY => self.early.remove(&mut places.links, key),
            at => self.eligible.remove(&mut places.at, at as usize),
        }
    }

    /// Takes a member out, advances to `time` and files the member with other times.
    #[inline(never)]
    pub(super) fn refile(&mut self, places: &mut Places, key: u32, times: (u64, u64), time: u64) {
        let (start, finish) = times;
        let at = places.at[key as usize];
        if at != EARLY && !later(start, time) {
            let entry = places.entry(key, finish);
            self.eligible.replace(&mut places.at, at as usize, entry);
            return self.advance(places, time);
        }
        self.take(places, key);
        self.advance(places, time);
        self.file(places, key, times, time);
    }

    /// Virtual time has advanced.
    #[inline(always)]
    pub(super) fn advance(&mut self, places: &mut Places, time: u64) {
        if self.early.may_be_due(time) {
            self.admit(places, time);
        }
    }

    /// Makes those eligible whose start has come.
    #[inline(never)]
    fn admit(&mut self, places: &mut Places, time: u64) {
        let Self { eligible, early } = self;
        early.take_due(&mut places.links, time, |entry| eligible.push(&mut places.at, entry));
    }

    /// Returns true if a member is eligible.
    #[inline]
    pub(super) const fn has_eligible(&self) -> bool {
        !self.eligible.is_empty()
    }

    /// Returns the finish and the key of the eligible member with the smallest finish.
    #[inline]
    pub(super) fn first_eligible(&self) -> Option<(u64, u32)> {
        self.eligible.first().map(|entry| (entry[0], key_of(entry)))
    }

    /// Returns the smallest start of those that are not eligible, and the smallest finish of those
    /// with this start, with its key.
    pub(super) fn first_early(&self, places: &Places) -> Option<(u64, (u64, u32))> {
        self.early.first(&places.links).map(|(start, entry)| (start, (entry[0], key_of(&entry))))
    }

    /// Checks order and places, and returns the keys. For tests: O(n).
    pub(super) fn self_check(&self, places: &Places, time: u64) -> Vec<u32> {
        let mut keys = self.eligible.self_check(&places.at);
        let early = self.early.self_check(&places.links, time);
        keys.extend(
            early.inspect(|key| assert_eq!(places.at[*key as usize], EARLY, "where {key} is")),
        );
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
                let next =
                    oracle.iter().map(|entry| ahead(entry.1)).filter(|start| *start > 0).min();
                let early =
                    next.and_then(|next| first(&|start| start == next).map(|first| (next, first)));
                assert_eq!(
                    waiting.first_early(&places).map(|(start, first)| (ahead(start), first)),
                    early
                );
            }
        }
    }
}
