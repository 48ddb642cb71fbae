//! The bound on waiting: a member that waits is served in time, whatever its charges say.
//!
//! Charges are learned, and what is learned may be wrong. So each member that waits also has a
//! *bound*, which follows from the clock alone: the time since it began to wait, or since it was
//! last served. After the part [`DUE_PART`] of its bound a member is *overdue*. Overdue members of
//! a class go before all others of the class, the earliest first. The rest of the bound is for the
//! overdue members before it, and for what the device still does.
//!
//! On flash the bound is the largest of three times, of which weights above the mean shorten the
//! first two:
//!
//! - 20 ms;
//! - the time of [`REQUESTS`] requests, as they leave the scheduler;
//! - [`TIMES`] the time in which the member's share comes to one request. Otherwise many members
//!   would all be overdue, and their order would be that of their bounds.
//!
//! On a disk it is [`TIMES`] the time in which the member's share comes to one turn: 800 ms for one
//! of two equal members. A member that is overdue in the turn of another costs two seeks, and the
//! other pays the second one. So turns have to come before members are overdue: at 250 ms three
//! streams of weights 4:2:1 got 3.24:2.29:1.46, and 0.74 of the throughput (`turn/tests.rs`).
//!
//! Cost: O(1) for each service, and O(log m) once in the bound of each of m members. A service
//! leaves the entry of a member where it is, and the entry is filed anew when its time has come.

use super::class_tree::ClassTree;
use super::{Kinds, Member, Place, Shares};
use crate::sched::aileron::ids::{GroupId, MemberId};
use crate::sched::finish_tree::Root;
use crate::units::{Instant, Nanos};

/// The time that a member waits at most on flash, if requests are short, in nanoseconds.
const MIN_BOUND: u64 = Nanos::from_millis(20).get();
/// The number of requests in whose time a member is served.
const REQUESTS: u64 = 50;
/// The number of its requests, or on a disk turns, by shares in whose time a member is served: on a
/// device that does not rotate, and on one that does.
const TIMES: [u64; 2] = [3, 2];
/// The part of its bound after which a member is overdue, on both kinds of device: 1.5 rounds of
/// turns on a disk, because a turn may come a little late.
const DUE_PART: [(u64, u64); 2] = [(1, 2), (3, 4)];
/// On a disk members are served by turns of this time: if turns were cut short more often than
/// shares let them come, seeks would take what is shared.
const TURN: u64 = Nanos::from_millis(200).get();
/// A longer time between two services does not count as it is.
const MAX_SERVICE: u64 = Nanos::from_secs(1).get();
/// The largest number of requests' times that the cost of a request counts for: what is learned of
/// costs may be wrong.
const MAX_REQUESTS: u64 = 8;

/// Where the entry of a member is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Filed {
    /// Nowhere.
    #[default]
    No,
    /// Among those that are not overdue yet, at the time at which they are or earlier.
    Pending,
    /// Among the overdue ones of its class.
    Overdue,
}

/// How long a member has waited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// When it began to wait or was last served.
    since: Instant,
    /// The time for which it waits at most.
    bound: Nanos,
    /// When it is overdue; [`Instant::MAX`] if it does not wait.
    due: Instant,
    filed: Filed,
}

impl Wait {
    pub(super) const NONE: Self =
        Self { since: Instant::ZERO, bound: Nanos::ZERO, due: Instant::MAX, filed: Filed::No };

    /// Returns true if the member has waited for so long that it goes before all others.
    pub(super) fn is_overdue(&self) -> bool {
        self.filed == Filed::Overdue
    }
}

/// How fast the members of a class are served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The members that are overdue.
    overdue: Root,
    /// Members that wait.
    waiting: u64,
    /// When one was served, if others have waited since then.
    served: Option<Instant>,
    /// A moving average of the time from one service to the next.
    each: u64,
}

impl Pace {
    pub(super) const NONE: Self = Self { overdue: Root::EMPTY, waiting: 0, served: None, each: 0 };

    /// Notes that a member is served.
    pub(super) fn note(&mut self, now: Instant) {
        if let Some(served) = self.served {
            let time = now.since(served).get().min(MAX_SERVICE);
            self.each = if self.each == 0 { time } else { self.each - self.each / 16 + time / 16 };
        }
        self.served = Some(now);
    }
}

impl ClassTree {
    /// Returns for how long a member that waits with a request of `cost` waits at most.
    fn bound(&self, weight: u32, cost: u64, is_disk: bool) -> Nanos {
        let each = self.pace.each;
        let (few, own) = if is_disk {
            (0, each.max(TURN))
        } else {
            (MIN_BOUND.max(REQUESTS * each), cost.clamp(each, each * MAX_REQUESTS))
        };
        let [few, own, weight, times] =
            [few, own, weight.into(), TIMES[usize::from(is_disk)]].map(u128::from);
        let (all, members) =
            (u128::from(self.weights).max(weight), u128::from(self.pace.waiting.max(1)));
        let shortened = few * all.min(weight * members) / (weight * members);
        let by_share = own * times * all / weight;
        Nanos::new(u64::try_from(shortened.max(by_share)).unwrap_or(u64::MAX))
    }
}

/// A member that waits, and for how long it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingMember {
    /// Its number.
    pub member: u32,
    /// The group that it is in; 0 for the root.
    pub group: u32,
    /// Its class there, most urgent first.
    pub class: usize,
    /// When it began to wait or was last served.
    pub since: Instant,
    /// The time for which it waits at most while the device serves requests.
    pub bound: Nanos,
    /// True if it goes before all others of its class that are not overdue.
    pub is_overdue: bool,
}

impl Shares {
    /// Lets a member wait from now on: one that had no request, or was just served.
    pub(super) fn begin_wait(&mut self, now: Instant, id: MemberId) {
        let member = &mut self.members[id.index()];
        let tree = &mut self.groups[member.group.index()].classes[usize::from(member.class)];
        if member.wait.due == Instant::MAX {
            tree.pace.waiting += 1;
        }
        let bound = tree.bound(member.weight, member.cost, self.has_turns);
        let (part, of) = DUE_PART[usize::from(self.has_turns)];
        let due = now.saturating_add(Nanos::new(bound.get() / of * part));
        (member.wait.since, member.wait.bound, member.wait.due) = (now, bound, due);
        match member.wait.filed {
            // Its entry comes up no later than it is to.
            Filed::Pending if self.due_times.finish(id.0) <= due.get() => return,
            Filed::Pending => self.due_times.remove(&mut self.pending, id.0),
            Filed::Overdue => {
                self.due_times.remove(&mut tree.pace.overdue, id.0);
                self.overdue -= 1;
            }
            Filed::No => {}
        }
        member.wait.filed = Filed::Pending;
        self.due_times.insert(&mut self.pending, id.0, due.get());
        self.next_due = self.next_due.min(due);
    }

    /// A member has no request waiting any more.
    pub(super) fn end_wait(&mut self, id: MemberId) {
        let member = &mut self.members[id.index()];
        let pace = &mut self.groups[member.group.index()].classes[usize::from(member.class)].pace;
        if member.wait.due != Instant::MAX {
            pace.waiting -= 1;
            member.wait.due = Instant::MAX;
        }
        if pace.waiting == 0 {
            pace.served = None;
        }
        if member.wait.is_overdue() {
            self.due_times.remove(&mut pace.overdue, id.0);
            member.wait.filed = Filed::No;
            self.overdue -= 1;
        }
    }

    /// Forgets a member that does not wait.
    pub(super) fn forget_wait(&mut self, id: MemberId) {
        self.end_wait(id);
        let wait = &mut self.members[id.index()].wait;
        if core::mem::take(&mut wait.filed) == Filed::Pending {
            self.due_times.remove(&mut self.pending, id.0);
        }
    }

    /// Finds out who is overdue by now. Returns true if a member is.
    #[inline]
    pub(in crate::sched::aileron) fn note_overdue(&mut self, now: Instant) -> bool {
        if now >= self.next_due {
            self.take_due(now);
        }
        self.overdue > 0
    }

    #[cold]
    fn take_due(&mut self, now: Instant) {
        self.next_due = Instant::MAX;
        while let Some(first) = self.due_times.first(self.pending) {
            let at = Instant::new(self.due_times.finish(first));
            if at > now {
                self.next_due = at;
                return;
            }
            self.due_times.remove(&mut self.pending, first);
            let member = &mut self.members[first as usize];
            let due = member.wait.due;
            if due == Instant::MAX {
                member.wait.filed = Filed::No;
            } else if due > now {
                self.due_times.insert(&mut self.pending, first, due.get());
            } else {
                member.wait.filed = Filed::Overdue;
                let tree =
                    &mut self.groups[member.group.index()].classes[usize::from(member.class)];
                self.due_times.insert(&mut tree.pace.overdue, first, due.get());
                self.overdue += 1;
            }
        }
    }

    /// Returns the member of a class that has been overdue for longest.
    #[inline]
    pub(super) fn first_overdue(&self, tree: &ClassTree) -> Option<MemberId> {
        self.due_times.first(tree.pace.overdue).map(MemberId)
    }

    /// Returns the flow that would be served next if no member were overdue.
    pub(in crate::sched::aileron) fn choose_by_shares(&self, now: Instant) -> Option<MemberId> {
        let mut group = GroupId::ROOT;
        loop {
            let of = &self.groups[group.index()];
            let (_, id) =
                of.classes[self.class_of(now, of, Kinds::ALL)?].best(&self.places, Kinds::ALL)?;
            match self.members[id.index()].own {
                Some(own) => group = own,
                None => return Some(id),
            }
        }
    }

    /// Returns the flow to serve next, if it or a group that it is below is overdue.
    pub(in crate::sched::aileron) fn choose_overdue(&self, now: Instant) -> Option<MemberId> {
        let (mut group, mut is_overdue) = (GroupId::ROOT, false);
        loop {
            let id = self.choose_member(group, now, Kinds::ALL)?;
            let member = &self.members[id.index()];
            is_overdue |= member.wait.is_overdue();
            match member.own {
                Some(own) => group = own,
                None => return Some(id).filter(|_| is_overdue),
            }
        }
    }

    /// Yields the members that wait.
    pub(in crate::sched::aileron) fn waiting_members(&self) -> impl Iterator<Item = WaitingMember> {
        let waiting = (0..).zip(&self.members).filter(|(_, member)| member.place == Place::Active);
        waiting.map(|(id, member)| WaitingMember {
            member: id,
            group: member.group.0,
            class: member.class.into(),
            since: member.wait.since,
            bound: member.wait.bound,
            is_overdue: member.wait.is_overdue(),
        })
    }

    /// Checks costly invariants, for tests.
    pub(super) fn check_waits(&self) {
        let pending = self.due_times.self_check(self.pending);
        let is_pending = |m: &&Member| m.wait.filed == Filed::Pending;
        assert_eq!(
            pending.len(),
            self.members.iter().filter(is_pending).count(),
            "entries that are pending"
        );
        let mut overdue = 0;
        for (index, group) in self.groups.iter().enumerate() {
            for (class, tree) in group.classes.iter().enumerate() {
                overdue += self.due_times.self_check(tree.pace.overdue).len();
                let is_here =
                    |m: &&Member| (m.group.index(), usize::from(m.class)) == (index, class);
                let waiting =
                    self.members.iter().filter(is_here).filter(|m| m.place == Place::Active);
                assert_eq!(
                    waiting.count() as u64,
                    tree.pace.waiting,
                    "members of {index} that wait in class {class}"
                );
            }
        }
        assert_eq!(overdue, self.overdue as usize, "members that are overdue");
        for member in &self.members {
            let waits = member.place == Place::Active;
            assert_eq!(waits, member.wait.due != Instant::MAX, "whether {member:?} waits");
            assert!(!waits || member.wait.filed != Filed::No, "{member:?} has no entry");
        }
    }
}
