//! The active entities of a class in a group: which one has the smallest finish of those that have
//! started, and which of the others starts first.
//!
//! Each question is answered by a tournament: the entities have places, the winner of two
//! neighbours meets the winner of the next two, and so on up to one. Virtual time does not go back
//! while there are entities, so each of them moves once from the tournament of those that wait for
//! their start to the other.
//!
//! A search tree would need a way down for each insertion, in which each step depends on what the
//! last one read. Here the way up from a place is known at once, and ends where the winner stays
//! the same: an entity that was served comes back with a late start and loses early.
//!
//! Cost, with n entities: the winners O(1), insertion and removal O(log n), both in the largest
//! number that there was. The tables grow if no place is free, and never shrink.

extern crate alloc;
use alloc::vec::Vec;

use crate::sched::finish_tree::later;

/// The place of nobody, who loses to everybody.
const NOBODY: u32 = 0;
/// How far the times of nobody are ahead of virtual time: further than those of any entity.
const FAR: u64 = 1 << 62;

/// An entity, with what it is compared by.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u64,
    finish: u64,
    /// Number of the insertion: of equal times, the one inserted first wins.
    order: u64,
    /// The entity; in a free place the next free one.
    id: u32,
}

impl Place {
    /// Returns true if it goes before another of those that have started.
    #[inline(always)]
    const fn finishes_before(&self, other: &Self) -> bool {
        let ahead = other.finish.wrapping_sub(self.finish) as i64;
        (ahead > 0) | (ahead == 0) & (self.order < other.order)
    }

    /// Returns true if it goes before another of those that wait for their start.
    #[inline(always)]
    const fn starts_before(&self, other: &Self) -> bool {
        let ahead = other.start.wrapping_sub(self.start) as i64;
        (ahead > 0) | (ahead == 0) & self.finishes_before(other)
    }
}

/// The winners of both tournaments among the places below a node, or [`NOBODY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Winners {
    started: u32,
    waiting: u32,
}

/// The active entities of a class in a group.
#[derive(Clone, Debug)]
pub(super) struct ActiveTree {
    places: Vec<Place>,
    /// The first free place, or [`NOBODY`].
    free: u32,
    /// Entities.
    count: u32,
    /// Insertions so far.
    order: u64,
    /// From 1 on the nodes, the root first; those below node n are 2n and 2n + 1. The second half
    /// are the places.
    nodes: Vec<Winners>,
}

impl ActiveTree {
    pub(super) const EMPTY: Self = Self { places: Vec::new(), free: NOBODY, count: 0, order: 0, nodes: Vec::new() };

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Inserts an entity, behind those with the same times. `time`: virtual time. Returns its
    /// place, which is valid until it is removed.
    #[inline]
    pub(super) fn insert(&mut self, id: u32, start: u64, finish: u64, time: u64) -> u32 {
        let entity = Place { start, finish, order: self.order, id };
        let place = self.take_place(entity);
        self.order += 1;
        self.count += 1;
        self.follow(time);
        if later(start, time) {
            self.replay_waiting(place, place);
        } else {
            self.replay_started(place, place);
        }
        place
    }

    /// Removes an entity by its place.
    #[inline]
    pub(super) fn remove(&mut self, place: u32) {
        if self.nodes[self.leaf(place)].started == place {
            self.replay_started(place, NOBODY);
        } else {
            self.replay_waiting(place, NOBODY);
        }
        self.places[place as usize].id = core::mem::replace(&mut self.free, place);
        self.count -= 1;
    }

    /// Returns the entity with the smallest finish of those whose start is not after virtual time;
    /// of equal finishes the one inserted first.
    ///
    /// Exact; the kernel's walk can miss a node on the right of an ineligible one (named
    /// deviation).
    #[inline]
    pub(super) fn first_eligible(&mut self, time: u64) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        self.follow(time);
        loop {
            let Winners { started, waiting } = self.nodes[1];
            if waiting == NOBODY || later(self.places[waiting as usize].start, time) {
                return (started != NOBODY).then(|| self.places[started as usize].id);
            }
            self.replay_waiting(waiting, NOBODY);
            self.replay_started(waiting, waiting);
        }
    }

    /// Returns the first entity to start, if none is eligible, and its start: the one with the
    /// smallest finish of those that start first.
    pub(super) fn first_to_start(&self) -> Option<(u32, u64)> {
        let waiting = self.nodes.get(1)?.waiting;
        let Place { id, start, .. } = self.places[waiting as usize];
        (waiting != NOBODY).then_some((id, start))
    }

    /// Keeps the times of nobody ahead of all others.
    #[inline]
    fn follow(&mut self, time: u64) {
        let nobody = &mut self.places[NOBODY as usize];
        (nobody.start, nobody.finish) = (time.wrapping_add(FAR), time.wrapping_add(FAR));
    }

    /// Returns the node of a place.
    #[inline]
    const fn leaf(&self, place: u32) -> usize {
        self.nodes.len() / 2 + place as usize
    }

    fn take_place(&mut self, entity: Place) -> u32 {
        if self.free == NOBODY {
            self.add_places();
        }
        let place = self.free;
        self.free = core::mem::replace(&mut self.places[place as usize], entity).id;
        place
    }

    /// Doubles the number of places.
    #[cold]
    fn add_places(&mut self) {
        let before = self.places.len();
        let count = (2 * before).max(2);
        for place in before..count {
            // Linked so that the lowest is taken first; that of nobody is never taken.
            let next = if place + 1 == count { NOBODY } else { place as u32 + 1 };
            self.places.push(Place { start: 0, finish: 0, order: u64::MAX, id: next });
        }
        self.free = before.max(1) as u32;
        let mut nodes = alloc::vec![Winners::default(); 2 * count];
        nodes[count..count + before].copy_from_slice(&self.nodes[before..]);
        self.nodes = nodes;
        for n in (1..count).rev() {
            let (left, right) = (self.nodes[2 * n], self.nodes[2 * n + 1]);
            self.nodes[n] = Winners {
                started: self.winner(left.started, right.started, Place::finishes_before),
                waiting: self.winner(left.waiting, right.waiting, Place::starts_before),
            };
        }
    }

    #[inline(always)]
    fn winner(&self, a: u32, b: u32, is_before: impl Fn(&Place, &Place) -> bool) -> u32 {
        let b_wins = is_before(&self.places[b as usize], &self.places[a as usize]);
        // The branch is unpredictable.
        core::hint::select_unpredictable(b_wins, b, a)
    }

    /// Puts an entity, or nobody, at a place in the tournament of those that have started.
    fn replay_started(&mut self, place: u32, winner: u32) {
        self.replay(place, winner, |node| &mut node.started, Place::finishes_before);
    }

    /// Puts an entity, or nobody, at a place in the tournament of those that wait for their start.
    fn replay_waiting(&mut self, place: u32, winner: u32) {
        self.replay(place, winner, |node| &mut node.waiting, Place::starts_before);
    }

    /// Determines the winners above a place again.
    #[inline(always)]
    fn replay(
        &mut self,
        place: u32,
        mut winner: u32,
        of: impl Fn(&mut Winners) -> &mut u32,
        is_before: impl Fn(&Place, &Place) -> bool,
    ) {
        let mut n = self.leaf(place);
        // If a winner stays the same, all above do.
        while core::mem::replace(of(&mut self.nodes[n]), winner) != winner && n > 1 {
            let other = *of(&mut self.nodes[n ^ 1]);
            winner = self.winner(winner, other, &is_before);
            n /= 2;
        }
    }

    /// Checks places and winners, and returns the entities. For tests: O(n).
    pub(super) fn self_check(&self, time: u64) -> Vec<u32> {
        let mut ids = Vec::new();
        for place in 1..self.places.len() as u32 {
            let Winners { started, waiting } = self.nodes[self.leaf(place)];
            assert!([started, waiting].iter().all(|&at| at == NOBODY || at == place), "place {place} has another");
            assert!(started == NOBODY || waiting == NOBODY, "place {place} is in both tournaments");
            let Place { start, id, .. } = self.places[place as usize];
            assert!(started == NOBODY || !later(start, time), "place {place} has not started");
            ids.extend((started.max(waiting) != NOBODY).then_some(id));
        }
        for n in 1..self.nodes.len() / 2 {
            let (left, right) = (self.nodes[2 * n], self.nodes[2 * n + 1]);
            let winners = Winners {
                started: self.winner(left.started, right.started, Place::finishes_before),
                waiting: self.winner(left.waiting, right.waiting, Place::starts_before),
            };
            assert_eq!(self.nodes[n], winners, "the winners at node {n}");
        }
        assert_eq!(ids.len(), self.count as usize, "entities");
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::Rng;

    /// Compares with a list in order of insertion, with times that wrap.
    #[test]
    fn agrees_with_a_list_at_every_step() {
        for seed in 1..7 {
            let mut rng = Rng(seed);
            let mut time = if seed % 2 == 0 { u64::MAX - 400 } else { 7 };
            let mut tree = ActiveTree::EMPTY;
            let mut oracle: Vec<(u32, u64, u64, u32)> = Vec::new();
            for id in 0..3000 {
                if oracle.len() > rng.below(60) as usize {
                    let (.., place) = oracle.remove(rng.below(oracle.len() as u64) as usize);
                    tree.remove(place);
                } else {
                    let start = time.wrapping_add(rng.below(40)).wrapping_sub(10);
                    let finish = start.wrapping_add(rng.below(20));
                    oracle.push((id, start, finish, tree.insert(id, start, finish, time)));
                }
                let mut ids = tree.self_check(time);
                ids.sort_unstable();
                assert!(ids.iter().eq(oracle.iter().map(|e| &e.0)));
                // `min_by_key` returns the first of several.
                let since = |t: u64| t.wrapping_sub(time) as i64;
                let eligible = oracle.iter().filter(|e| since(e.1) <= 0).min_by_key(|e| since(e.2));
                assert_eq!(tree.first_eligible(time), eligible.map(|e| e.0));
                if eligible.is_none() {
                    let first = oracle.iter().min_by_key(|e| (since(e.1), since(e.2)));
                    assert_eq!(tree.first_to_start(), first.map(|e| (e.0, e.1)));
                }
                time = time.wrapping_add(rng.below(3));
            }
        }
    }
}
