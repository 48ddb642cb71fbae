//! The members of one class of a group: virtual time, and who is served next.

use super::overdue::Pace;
use super::{CREDIT, MEMORY, Member, Place, delta, key};
use crate::sched::aileron::ids::MemberId;
use crate::sched::aileron::kinds::{KINDS, Kinds, Waits};
use crate::sched::aileron::waiting::{Places, WaitingMembers, member_of_key};
use crate::sched::finish_tree::{Root, later};
use crate::units::Instant;

/// The members of one class of a group.
#[derive(Clone, Debug)]
pub(super) struct ClassTree {
    /// Members that have requests, by the kind of the next one; a group is in both if it has both.
    pub(super) active: [WaitingMembers; KINDS],
    pub(super) ahead: Root,
    /// Members, whether they wait or not.
    pub(super) members: usize,
    /// V.
    pub(super) time: u64,
    /// What is left of the last division of cost by weights.
    pub(super) rest: u64,
    /// Sum of the weights of members that are not away.
    pub(super) weights: u64,
    /// When the class was last served, or began to wait.
    pub(super) waits_since: Instant,
    /// Requests of it that were served, and those of them that are in the device.
    pub(super) served: u64,
    pub(super) in_device: u32,
    /// The largest costs that were served in this stretch of [`MEMORY`] and in the one before.
    pub(super) largest: [u64; 2],
    /// When this stretch began.
    pub(super) began: Instant,
    /// How fast its members are served, and which are overdue.
    pub(super) pace: Pace,
}

impl ClassTree {
    /// Files a member that was served by its new times, for the kinds of requests that it had and
    /// for those that it has now.
    pub(super) fn refile(
        &mut self,
        places: &mut Places,
        waits: &mut Waits,
        (id, class): (MemberId, usize),
        (had, has): (Kinds, Kinds),
        times: (u64, u64),
    ) {
        for (kind, waiting) in self.active.iter_mut().enumerate() {
            match (had.has(kind), has.has(kind)) {
                (true, true) => waiting.refile(places, key(id, kind), times, self.time),
                (true, false) => {
                    waiting.remove(places, key(id, kind), self.time);
                    if waiting.is_empty() {
                        waits.remove(class, kind);
                    }
                }
                (false, true) => {
                    waiting.insert(places, key(id, kind), times, self.time);
                    waits.insert(class, kind);
                }
                (false, false) => waiting.advance(places, self.time),
            }
        }
    }

    pub(super) const EMPTY: Self = Self {
        active: [WaitingMembers::EMPTY; KINDS],
        ahead: Root::EMPTY,
        members: 0,
        time: 0,
        rest: 0,
        weights: 0,
        waits_since: Instant::ZERO,
        served: 0,
        in_device: 0,
        largest: [0; 2],
        began: Instant::ZERO,
        pace: Pace::NONE,
    };

    /// Notes a cost that is served.
    pub(super) fn note(&mut self, now: Instant, cost: u64) {
        if now.since(self.began) > MEMORY {
            (self.largest, self.began) = ([0, self.largest[0]], now);
        }
        self.largest[0] = self.largest[0].max(cost);
    }

    /// Returns the oldest start of a member of this weight that is served, if V is `time`: it is
    /// owed [`CREDIT`] requests of `cost` at most, or what it lost when the largest request of
    /// another was served before its own.
    pub(super) fn oldest(&self, time: u64, cost: u64, weight: u32) -> u64 {
        let largest = self.largest[0].max(self.largest[1]);
        let weight = u64::from(weight);
        let lost = delta(cost, weight) + delta(largest, self.weights.max(weight));
        time.wrapping_sub(delta(CREDIT * cost, weight).max(lost))
    }

    /// Returns true if others than this member count in the sum of weights.
    pub(super) const fn has_others(&self, member: &Member) -> bool {
        let own = if matches!(member.place, Place::Away(_)) { 0 } else { member.weight };
        self.weights > own as u64
    }

    /// Returns the first by virtual time of what each of these kinds has; of equal ones the lower.
    #[inline]
    fn first<T>(
        &self,
        kinds: Kinds,
        of: impl Fn(&WaitingMembers) -> Option<T>,
        is_later: impl Fn(&T, &T) -> bool,
    ) -> Option<T> {
        let of = |kind: usize| if kinds.has(kind) { of(&self.active[kind]) } else { None };
        match (of(0), of(1)) {
            (Some(a), Some(b)) => Some(if is_later(&a, &b) { b } else { a }),
            (first, None) | (None, first) => first,
        }
    }

    /// Returns the virtual time at which somebody who waits with a request of these kinds is
    /// eligible.
    #[inline]
    pub(super) fn jump(&self, places: &Places, kinds: Kinds) -> u64 {
        let [reads, writes] = &self.active;
        let has_eligible =
            (kinds.has(0) && reads.has_eligible()) || (kinds.has(1) && writes.has_eligible());
        if has_eligible {
            self.time
        } else {
            self.first_early(places, kinds).map_or(self.time, |(start, _)| start)
        }
    }

    /// Returns the member that is served next of those whose next request is of these kinds, and
    /// its finish.
    #[inline]
    pub(super) fn best(&self, places: &Places, kinds: Kinds) -> Option<(u64, MemberId)> {
        let eligible = self.first(kinds, WaitingMembers::first_eligible, |a, b| later(a.0, b.0));
        let best = eligible.or_else(|| self.first_early(places, kinds).map(|(_, first)| first));
        best.map(|(finish, key)| (finish, member_of_key(key)))
    }

    /// Returns the smallest start, and of those with this start the smallest finish, with its key,
    /// if nobody is eligible yet.
    #[inline(never)]
    fn first_early(&self, places: &Places, kinds: Kinds) -> Option<(u64, (u64, u32))> {
        let is_later = |a: &(u64, (u64, u32)), b: &(u64, (u64, u32))| match a.0 == b.0 {
            true => later(a.1.0, b.1.0),
            false => later(a.0, b.0),
        };
        self.first(kinds, |of| of.first_early(places), is_later)
    }
}
