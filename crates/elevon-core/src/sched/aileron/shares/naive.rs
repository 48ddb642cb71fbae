//! The shares by their definition, for tests: every question is answered by looking at all members,
//! and who counts in a sum of weights is asked anew each time. No trees, no lists, no wrapping.

use super::{BEST_EFFORT, CLASSES, CREDIT, Kinds, LINGER, MEMORY, SHIFT};
use crate::units::{Instant, Nanos};
use alloc::vec;
use alloc::vec::Vec;

/// A flow or a group in its group.
#[derive(Clone, Debug)]
struct NaiveMember {
    group: usize,
    own: Option<usize>,
    class: usize,
    weight: u64,
    weight_next: u64,
    start: i128,
    finish: i128,
    cost: u64,
    /// Kind of the next request of a flow that has one.
    waits: Option<usize>,
    in_device: u32,
    left: Instant,
    /// It is not counted any more, since then.
    away: Option<Instant>,
}

/// One class of a group.
#[derive(Clone, Copy, Debug, Default)]
struct NaiveClass {
    time: i128,
    rest: i128,
    waits_since: Instant,
    /// Largest costs served in this and in the last stretch of [`MEMORY`], and when this began.
    largest: [u64; 2],
    began: Instant,
}

/// All members and groups.
#[derive(Clone, Debug)]
pub(super) struct Naive {
    members: Vec<NaiveMember>,
    /// The classes of each group, and the member that it is.
    groups: Vec<([NaiveClass; CLASSES], Option<usize>)>,
    patience: Nanos,
    has_turns: bool,
}

fn virtual_time(cost: u64, weight: u64) -> i128 {
    (i128::from(cost) << SHIFT) / i128::from(weight)
}

impl Naive {
    pub(super) fn new(patience: Nanos, has_turns: bool) -> Self {
        Self {
            members: Vec::new(),
            groups: vec![([NaiveClass::default(); CLASSES], None)],
            patience,
            has_turns,
        }
    }

    pub(super) fn add(&mut self, now: Instant, group: usize, class: usize, weight: u64) -> usize {
        let start = self.groups[group].0[class].time;
        self.members.push(NaiveMember {
            group,
            own: None,
            class,
            weight,
            weight_next: weight,
            start,
            finish: start,
            cost: 0,
            waits: None,
            in_device: 0,
            left: now,
            away: Some(now),
        });
        self.members.len() - 1
    }

    pub(super) fn add_group(&mut self, now: Instant, parent: usize, weight: u64) -> usize {
        let member = self.add(now, parent, BEST_EFFORT, weight);
        self.groups.push(([NaiveClass::default(); CLASSES], Some(member)));
        self.members[member].own = Some(self.groups.len() - 1);
        self.groups.len() - 1
    }

    pub(super) fn set_weight(&mut self, id: usize, weight: u64) {
        self.members[id].weight_next = weight;
    }

    fn of(&self, group: usize, class: usize) -> impl Iterator<Item = usize> {
        (0..self.members.len())
            .filter(move |&id| self.members[id].group == group && self.members[id].class == class)
    }

    /// Returns true if a member, or one below it, waits with a request of these kinds.
    fn waits(&self, id: usize, kinds: Kinds) -> bool {
        match self.members[id].own {
            None => self.members[id].waits.is_some_and(|kind| kinds.has(kind)),
            Some(own) => {
                (0..CLASSES).any(|class| self.of(own, class).any(|below| self.waits(below, kinds)))
            }
        }
    }

    /// Returns true if a member counts in the sum of weights of its class.
    fn counts(&self, id: usize) -> bool {
        self.waits(id, Kinds::ALL) || self.members[id].away.is_none()
    }

    /// Returns the sum of the weights of the members that count.
    pub(super) fn weights(&self, group: usize, class: usize) -> i128 {
        self.of(group, class)
            .filter(|&id| self.counts(id))
            .map(|id| i128::from(self.members[id].weight))
            .sum()
    }

    /// Takes a member out of the sum of weights that has no reason to be in it.
    fn look_at(&mut self, now: Instant, id: usize, since: Instant) {
        let member = &self.members[id];
        let is_ahead = member.start > self.groups[member.group].0[member.class].time;
        let stays = is_ahead || member.in_device > 0 || now.since(member.left) < LINGER;
        if !self.waits(id, Kinds::ALL) && member.away.is_none() && !stays {
            self.members[id].away = Some(since);
        }
    }

    pub(super) fn sweep(&mut self, now: Instant) {
        for id in 0..self.members.len() {
            self.look_at(now, id, self.members[id].left);
        }
    }

    pub(super) fn largest(&self, group: usize, class: usize) -> u64 {
        self.groups[group].0[class].largest.into_iter().max().expect("two")
    }

    /// Returns the oldest start of a member of this weight that is served, if V is `time`.
    fn oldest(
        &self,
        (group, class): (usize, usize),
        weights: i128,
        time: i128,
        cost: u64,
        weight: u64,
    ) -> i128 {
        let largest =
            (i128::from(self.largest(group, class)) << SHIFT) / weights.max(weight.into());
        let owed = virtual_time(CREDIT * cost, weight).max(virtual_time(cost, weight) + largest);
        time - owed
    }

    pub(super) fn activate(&mut self, now: Instant, id: usize, cost: u64, kind: usize) {
        let (mut at, mut cost) = (Some(id), cost);
        // Upwards as far as nobody waited.
        let mut new = Vec::new();
        while let Some(id) = at {
            if self.waits(id, Kinds::ALL) {
                break;
            }
            new.push((id, cost));
            at = self.groups[self.members[id].group].1;
            cost = at.map_or(0, |above| self.members[above].cost.max(1));
        }
        for (id, cost) in new {
            let NaiveMember { group, class, start, away, weight_next, .. } = self.members[id];
            let state = self.groups[group].0[class];
            let forgotten = away.is_some_and(|since| now.since(since) > MEMORY);
            let weights = self.weights(group, class);
            let oldest = match self.has_turns {
                true => self.oldest((group, class), weights, state.time, cost, weight_next),
                false => state.time - virtual_time(CREDIT * cost, weight_next),
            };
            if !self.of(group, class).any(|other| self.waits(other, Kinds::ALL)) {
                self.groups[group].0[class].waits_since = now;
            }
            let member = &mut self.members[id];
            member.start = if forgotten { state.time } else { start.max(oldest) };
            (member.weight, member.cost, member.away) = (weight_next, cost, None);
            member.finish = member.start + virtual_time(cost, weight_next);
        }
        self.members[id].waits = Some(kind);
    }

    pub(super) fn set_kind(&mut self, id: usize, kind: usize) {
        self.members[id].waits = Some(kind);
    }

    pub(super) fn deactivate(&mut self, now: Instant, id: usize) {
        self.members[id].waits = None;
        let mut at = Some(id);
        while let Some(id) = at {
            self.look_at(now, id, now);
            at = self.groups[self.members[id].group].1;
        }
    }

    pub(super) fn enter_device(&mut self, id: usize) {
        let mut at = Some(id);
        while let Some(id) = at {
            self.members[id].in_device += 1;
            at = self.groups[self.members[id].group].1;
        }
    }

    pub(super) fn leave_device(&mut self, now: Instant, id: usize) {
        let mut at = Some(id);
        while let Some(id) = at {
            self.members[id].in_device -= 1;
            if self.members[id].in_device == 0 {
                self.members[id].left = now;
            }
            at = self.groups[self.members[id].group].1;
        }
    }

    /// Returns the virtual time at which somebody who waits with a request of these kinds is
    /// eligible.
    fn jump(&self, group: usize, class: usize, kinds: Kinds) -> i128 {
        let time = self.groups[group].0[class].time;
        let starts = self
            .of(group, class)
            .filter(|&id| self.waits(id, kinds))
            .map(|id| self.members[id].start);
        starts.min().map_or(time, |first| time.max(first))
    }

    /// Returns the class of a group that is served now.
    fn class_of(&self, now: Instant, group: usize, kinds: Kinds) -> Option<usize> {
        let is_waiting = |class: &usize| self.of(group, *class).any(|id| self.waits(id, kinds));
        let waiting: Vec<usize> = (0..CLASSES).filter(is_waiting).collect();
        let since = |class: &usize| self.groups[group].0[*class].waits_since;
        let overdue = waiting
            .iter()
            .filter(|class| now.since(since(class)) >= self.patience)
            .min_by_key(|c| since(c));
        overdue.or(waiting.first()).copied()
    }

    /// Returns true if a flow may be served next: at every level it is among those that are
    /// eligible and have the smallest finish. More than one may be.
    pub(super) fn may_be_next(&self, now: Instant, id: usize, kinds: Kinds) -> bool {
        let mut at = id;
        loop {
            let NaiveMember { group, class, .. } = self.members[at];
            if self.class_of(now, group, kinds) != Some(class) {
                return false;
            }
            let time = self.jump(group, class, kinds);
            let is_eligible =
                |id: &usize| self.waits(*id, kinds) && self.members[*id].start <= time;
            let finish = |id: usize| self.members[id].finish;
            let first = self.of(group, class).filter(is_eligible).map(finish).min();
            if !is_eligible(&at) || first != Some(finish(at)) {
                return false;
            }
            match self.groups[group].1 {
                Some(above) => at = above,
                None => return true,
            }
        }
    }

    pub(super) fn somebody_waits(&self, kinds: Kinds) -> bool {
        (0..CLASSES).any(|class| self.of(0, class).any(|id| self.waits(id, kinds)))
    }

    pub(super) fn serve(
        &mut self,
        now: Instant,
        id: usize,
        among: Kinds,
        cost: u64,
        next: Option<(u64, usize)>,
    ) {
        // Everything that depends on who waits is looked at before the request is taken.
        let mut chain = Vec::new();
        let mut at = Some(id);
        while let Some(id) = at {
            let NaiveMember { group, class, .. } = self.members[id];
            chain.push((id, self.jump(group, class, among), self.weights(group, class)));
            at = self.groups[group].1;
        }
        self.members[id].waits = next.map(|(_, kind)| kind);
        let mut next_cost = next.map_or(cost, |(cost, _)| cost);
        for (id, before, weights) in chain {
            let NaiveMember { group, class, weight, start, .. } = self.members[id];
            let state = &mut self.groups[group].0[class];
            let scaled = (i128::from(cost) << SHIFT) + state.rest;
            (state.time, state.rest) = (before + scaled / weights, scaled % weights);
            state.waits_since = now;
            if now.since(state.began) > MEMORY {
                (state.largest, state.began) = ([0, state.largest[0]], now);
            }
            state.largest[0] = state.largest[0].max(cost);
            let oldest = self.oldest((group, class), weights, before, cost, weight);
            let start = start.max(oldest) + virtual_time(cost, weight);
            let is_waiting = self.waits(id, Kinds::ALL);
            let member = &mut self.members[id];
            (member.start, member.cost) = (start, next_cost);
            if is_waiting {
                member.weight = member.weight_next;
                member.finish = start + virtual_time(next_cost, member.weight);
            }
            next_cost = cost;
            let class: Vec<usize> = self.of(group, class).collect();
            class.into_iter().for_each(|other| self.look_at(now, other, now));
        }
    }

    /// Returns V of a class, and S of a member.
    pub(super) fn time(&self, group: usize, class: usize) -> i128 {
        self.groups[group].0[class].time
    }

    pub(super) fn start(&self, id: usize) -> i128 {
        self.members[id].start
    }

    pub(super) fn is_waiting(&self, id: usize) -> bool {
        self.members[id].waits.is_some()
    }

    pub(super) fn in_device(&self, id: usize) -> u32 {
        self.members[id].in_device
    }
}
