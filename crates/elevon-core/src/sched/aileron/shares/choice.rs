//! Which member goes next.

use super::super::kinds::{Kinds, Waits};
use super::{CLASSES, Group, Place, Shares, delta};
use crate::sched::aileron::ids::{GroupId, MemberId};
use crate::sched::finish_tree::later;
use crate::units::Instant;

impl Shares {
    /// Returns the class of a group that is served now, of those with requests of these kinds: the
    /// one that has waited for too long and the longest, or else the most urgent that waits.
    ///
    /// The most urgent one is among those that may have waited for too long: where a single request
    /// takes longer than that, the others would else be overdue whenever one may go.
    #[inline]
    pub(super) fn class_of(&self, now: Instant, group: &Group, kinds: Kinds) -> Option<usize> {
        let (first, others) = group.waits.first(kinds)?;
        let is_only = others == Waits::default();
        Some(if is_only { first } else { self.class_of_several(now, group, first, others) })
    }

    /// Returns the class to serve next if `first` and less urgent classes wait.
    #[inline(never)]
    pub(super) fn class_of_several(
        &self,
        now: Instant,
        group: &Group,
        first: usize,
        others: Waits,
    ) -> usize {
        let since = |class: usize| group.classes[class].waits_since;
        let waits = |class: usize| class == first || others.has(class);
        let is_overdue = |&class: &usize| waits(class) && now.since(since(class)) >= self.patience;
        (first..CLASSES).filter(is_overdue).min_by_key(|&class| since(class)).unwrap_or(first)
    }

    /// Returns the flow to serve next of those whose next request is of these kinds.
    pub(in crate::sched::aileron) fn choose(&self, now: Instant, kinds: Kinds) -> Option<MemberId> {
        self.choose_in(GroupId::ROOT, now, kinds)
    }

    /// Returns the flow of a group to serve next of those whose next request is of these kinds.
    #[inline]
    pub(in crate::sched::aileron) fn choose_in(
        &self,
        group: GroupId,
        now: Instant,
        kinds: Kinds,
    ) -> Option<MemberId> {
        let id = self.choose_member(group, now, kinds)?;
        match self.members[id.index()].own {
            Some(own) => self.choose_below(own, now, kinds),
            None => Some(id),
        }
    }

    /// Does as [`Self::choose_in`] for a group that is below another.
    #[inline(never)]
    pub(super) fn choose_below(
        &self,
        mut group: GroupId,
        now: Instant,
        kinds: Kinds,
    ) -> Option<MemberId> {
        loop {
            let id = self.choose_member(group, now, kinds)?;
            match self.members[id.index()].own {
                Some(own) => group = own,
                None => return Some(id),
            }
        }
    }

    /// Returns the member of a group to serve next.
    #[inline]
    pub(super) fn choose_member(
        &self,
        group: GroupId,
        now: Instant,
        kinds: Kinds,
    ) -> Option<MemberId> {
        let group = &self.groups[group.index()];
        let class = self.class_of(now, group, kinds)?;
        let tree = &group.classes[class];
        let overdue =
            self.first_overdue(tree).filter(|id| self.members[id.index()].kinds.has_any(kinds));
        overdue.or_else(|| tree.best(&self.places, kinds).map(|(_, id)| id))
    }

    /// Returns true if a request of `cost` of a flow that arrived now would be served before all
    /// that wait, once requests of the flow for `first` were served; where nobody else waits, if it
    /// would not be ahead of its share.
    pub(in crate::sched::aileron) fn would_be_next(
        &self,
        now: Instant,
        id: MemberId,
        cost: u64,
        first: u64,
    ) -> bool {
        let (mut at, mut cost) = (id, cost);
        loop {
            let member = &self.members[at.index()];
            let group = &self.groups[member.group.index()];
            let class = usize::from(member.class);
            let tree = &group.classes[class];
            if group.waits.has_above(class) {
                return false;
            }
            // A group in which others wait too has its place already.
            let (start, finish) = if member.place == Place::Active {
                (member.start, member.finish)
            } else {
                let start = self.start_on_return(now, at, cost);
                (start, start.wrapping_add(delta(cost, u64::from(member.weight_next))))
            };
            let own = delta(first, u64::from(member.weight_next));
            let (start, finish) = (start.wrapping_add(own), finish.wrapping_add(own));
            let best = tree.best(&self.places, Kinds::ALL);
            let is_first = match best {
                // Of others only the first is known: it is enough to be owed more.
                Some((_, best)) if best == at => first == 0 || !later(start, tree.time),
                Some((of_best, _)) => {
                    !later(start, tree.jump(&self.places, Kinds::ALL)) && !later(finish, of_best)
                }
                None => !tree.has_others(member) || !later(start, tree.time),
            };
            if !is_first {
                return false;
            }
            let Some(above) = group.member else { return true };
            (at, cost) = (above, self.members[above.index()].cost.max(1));
        }
    }
}
