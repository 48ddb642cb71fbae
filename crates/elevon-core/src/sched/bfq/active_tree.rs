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
//! the same: an entity that was served comes back with a late start and loses early. A node has
//! what its winner is compared by, so that a step reads nothing but the neighbour.
//!
//! Cost, with n entities: the winners O(1), insertion and removal O(log n), both in the largest
//! number that there was. The tables grow if no place is free, and never shrink.

extern crate alloc;
use alloc::vec::Vec;

use crate::sched::finish_tree::later;

/// The end of the list of free places.
const NIL: u32 = u32::MAX;
/// The largest number of an insertion.
const ORDERS: u64 = u32::MAX as u64;
/// How far virtual time is ahead of the origin at first: further than it is of any start. Virtual
/// times wrap; counted from the origin they do not.
const BEHIND: u64 = 1 << 62;

/// The tournament of those that have started: the smallest finish wins.
const STARTED: usize = 0;
/// The tournament of those that wait for their start: the smallest start wins, of equal ones the
/// smallest finish.
const WAITING: usize = 1;
/// The tournament of free places.
const NONE: usize = 2;

/// A place, and the entity that has it.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Finish and start, counted from the origin: what it is compared by in each tournament.
    times: [u64; 2],
    /// Number of the insertion, and in the lower half this place: of equal times, the one inserted
    /// first wins.
    order: u64,
    /// The entity; in a free place the next free one, or [`NIL`].
    id: u32,
    /// The tournament in which it takes part.
    tournament: u8,
}

impl Place {
    #[inline(always)]
    const fn takes_part(&self, tournament: usize) -> bool {
        self.tournament as usize == tournament
    }
}

/// What an entity is compared by, or [`Contender::NOBODY`], which loses to every other. Of equal
/// ones, the one inserted first wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Contender {
    time: u64,
    finish: u64,
    order: u64,
}

impl Contender {
    const NOBODY: Self = Self { time: u64::MAX, finish: u64::MAX, order: u64::MAX };

    /// Returns one of two.
    #[inline(always)]
    fn choose(second: bool, a: Self, b: Self) -> Self {
        // The branch is unpredictable.
        Self {
            time: core::hint::select_unpredictable(second, b.time, a.time),
            finish: core::hint::select_unpredictable(second, b.finish, a.finish),
            order: core::hint::select_unpredictable(second, b.order, a.order),
        }
    }

    /// Returns the one of two that wins.
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        let rest = |c: Self| u128::from(c.finish) << 64 | u128::from(c.order);
        let other_wins =
            (other.time < self.time) | (other.time == self.time) & (rest(other) < rest(self));
        Self::choose(other_wins, self, other)
    }

    #[inline]
    const fn place(self) -> usize {
        self.order as u32 as usize
    }
}

/// A tournament, by its nodes in pairs: from 1 on, the root first. Those below node n are 2n and
/// 2n + 1; behind the nodes the places are counted.
#[derive(Clone, Debug)]
struct Tournament(Vec<[Contender; 2]>);

impl Tournament {
    #[inline]
    fn winner(&self) -> Option<Contender> {
        self.0.first().map(|pair| pair[1]).filter(|&winner| winner != Contender::NOBODY)
    }

    /// Determines the winners above a place again, among which and its neighbour `winner` has won.
    #[inline(always)]
    fn replay(&mut self, place: u32, mut winner: Contender) {
        let mut n = self.0.len() + place as usize / 2;
        loop {
            let pair = &mut self.0[n / 2];
            let before = core::mem::replace(&mut pair[n % 2], winner);
            // If a winner stays the same, all above do.
            if before.order == winner.order || n == 1 {
                return;
            }
            winner = winner.or(pair[(n ^ 1) % 2]);
            n /= 2;
        }
    }
}

/// The active entities of a class in a group.
#[derive(Clone, Debug)]
pub(super) struct ActiveTree {
    /// An even number.
    places: Vec<Place>,
    /// The first free place, or [`NIL`].
    free: u32,
    /// Entities.
    count: u32,
    /// Insertions since they were numbered anew.
    order: u64,
    /// What times are counted from.
    origin: u64,
    tournaments: [Tournament; 2],
}

impl ActiveTree {
    pub(super) const EMPTY: Self = Self {
        places: Vec::new(),
        free: NIL,
        count: 0,
        order: 0,
        origin: 0u64.wrapping_sub(BEHIND),
        tournaments: [const { Tournament(Vec::new()) }; 2],
    };

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns a virtual time counted from the origin.
    #[inline]
    const fn since_origin(&self, time: u64) -> u64 {
        time.wrapping_sub(self.origin)
    }

    /// Inserts an entity, behind those with the same times. `time`: virtual time. Returns its
    /// place, which is valid until it is removed.
    #[inline]
    pub(super) fn insert(&mut self, id: u32, start: u64, finish: u64, time: u64) -> u32 {
        if self.free == NIL || self.order > ORDERS || self.since_origin(time) >= 3 * BEHIND {
            self.prepare(time);
        }
        let (place, order) = (self.free, self.order);
        let times = [self.since_origin(finish), self.since_origin(start)];
        let waits = later(start, time);
        let order = order << 32 | u64::from(place);
        let entity = Place { times, order, id, tournament: waits as u8 };
        self.free = core::mem::replace(&mut self.places[place as usize], entity).id;
        self.order += 1;
        self.count += 1;
        if waits {
            self.replay::<WAITING>(place);
        } else {
            self.replay::<STARTED>(place);
        }
        place
    }

    /// Removes an entity by its place.
    #[inline]
    pub(super) fn remove(&mut self, place: u32) {
        let free = core::mem::replace(&mut self.free, place);
        let entity = &mut self.places[place as usize];
        entity.id = free;
        self.count -= 1;
        if core::mem::replace(&mut entity.tournament, NONE as u8) == STARTED as u8 {
            self.replay::<STARTED>(place);
        } else {
            self.replay::<WAITING>(place);
        }
    }

    /// Returns the entity with the smallest finish of those whose start is not after virtual time;
    /// of equal finishes the one inserted first.
    ///
    /// Exact; the kernel's walk can miss a node on the right of an ineligible one (named
    /// deviation).
    #[inline]
    pub(super) fn first_eligible(&mut self, time: u64) -> Option<u32> {
        while let Some(first) = self.tournaments[WAITING].winner()
            && first.time <= self.since_origin(time)
        {
            self.places[first.place()].tournament = STARTED as u8;
            self.replay::<WAITING>(first.place() as u32);
            self.replay::<STARTED>(first.place() as u32);
        }
        self.tournaments[STARTED].winner().map(|first| self.places[first.place()].id)
    }

    /// Returns the first entity to start, if none is eligible, and its start: the one with the
    /// smallest finish of those that start first.
    pub(super) fn first_to_start(&self) -> Option<(u32, u64)> {
        let first = self.tournaments[WAITING].winner()?;
        Some((self.places[first.place()].id, self.origin.wrapping_add(first.time)))
    }

    /// Returns who takes part from a place.
    #[inline(always)]
    fn contender<const T: usize>(&self, place: u32) -> Contender {
        let entity = &self.places[place as usize];
        let contender =
            Contender { time: entity.times[T], finish: entity.times[STARTED], order: entity.order };
        Contender::choose(entity.takes_part(T), Contender::NOBODY, contender)
    }

    /// Determines the winners of a tournament above a place again.
    #[inline(never)]
    fn replay<const T: usize>(&mut self, place: u32) {
        let winner = self.contender::<T>(place).or(self.contender::<T>(place ^ 1));
        self.tournaments[T].replay(place, winner);
    }

    /// Makes room for an insertion: a free place, a higher order, an origin not so far behind
    /// virtual time that times counted from it could wrap.
    #[cold]
    fn prepare(&mut self, time: u64) {
        if self.free == NIL {
            self.add_places();
        }
        let passed = self.since_origin(time).wrapping_sub(BEHIND);
        self.origin = self.origin.wrapping_add(passed);
        let mut entities: Vec<&mut Place> =
            self.places.iter_mut().filter(|place| !place.takes_part(NONE)).collect();
        entities.sort_unstable_by_key(|entity| entity.order);
        for (order, entity) in (0..).zip(&mut entities) {
            entity.order = order << 32 | entity.order & u64::from(u32::MAX);
            entity.times = entity.times.map(|time| time.wrapping_sub(passed));
        }
        self.order = entities.len() as u64;
        self.tournaments = [const { Tournament(Vec::new()) }; 2]
            .map(|_| Tournament(alloc::vec![[Contender::NOBODY; 2]; self.places.len() / 2]));
        for place in 0..self.places.len() as u32 {
            self.replay::<STARTED>(place);
            self.replay::<WAITING>(place);
        }
    }

    /// Doubles the number of places.
    fn add_places(&mut self) {
        let before = self.places.len();
        let count = (2 * before).max(2);
        for place in before..count {
            // Linked so that the lowest is taken first.
            let next = if place + 1 == count { NIL } else { place as u32 + 1 };
            self.places.push(Place { times: [0; 2], order: 0, id: next, tournament: NONE as u8 });
        }
        self.free = before as u32;
    }

    /// Checks places and winners, and returns the entities. For tests: O(n).
    pub(super) fn self_check(&self, time: u64) -> Vec<u32> {
        self.check_winners::<STARTED>();
        self.check_winners::<WAITING>();
        let entities: Vec<&Place> =
            self.places.iter().filter(|place| !place.takes_part(NONE)).collect();
        assert_eq!(entities.len(), self.count as usize, "entities");
        for Place { times, id, .. } in self.places.iter().filter(|place| place.takes_part(STARTED))
        {
            assert!(times[WAITING] <= self.since_origin(time), "entity {id} has not started");
        }
        entities.iter().map(|place| place.id).collect()
    }

    fn check_winners<const T: usize>(&self) {
        let (count, nodes) = (self.places.len(), &self.tournaments[T].0);
        let at = |n: usize| match n.checked_sub(count) {
            Some(place) => self.contender::<T>(place as u32),
            None => nodes[n / 2][n % 2],
        };
        for n in 1..count {
            assert_eq!(at(n), at(2 * n).or(at(2 * n + 1)), "the winner at node {n}");
        }
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
            // Orders are numbered anew on the way, and the origin moves.
            let mut tree = ActiveTree { order: ORDERS - 1000, ..ActiveTree::EMPTY };
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
                time = time.wrapping_add(rng.below(3) + if id % 40 == 0 { 1 << 57 } else { 0 });
            }
            assert!(tree.order < ORDERS / 2 && tree.since_origin(time) < 3 * BEHIND);
        }
    }
}
