//! Floors: rates that tenants get before anybody else, whatever their weights.
//!
//! A floor is *due* at the time at which the tenant's next request is to be dispatched at the
//! latest. Every request of the tenant moves that on by `1 / rate`, also one that its weight was
//! enough for: a tenant gets the larger of its floor and its share, not their sum. A tenant that
//! has requests waiting when its floor is due is *owed* service. Of several the one goes first that
//! was due first, so that floors which the device cannot keep shrink in proportion. These are the
//! reservation tags of mClock (Gulati, Merchant and Varman, OSDI 2010), except that there service
//! by weight does not count towards a reservation.
//!
//! - A tenant with nothing waiting builds up no claim, except while all that it has is in the
//!   device: others are in its way there, and the depth is to be smaller.
//! - One that got more than its floor is owed service again after [`SPAN`] at most: a floor holds
//!   over every span of that length.
//! - Floors that the device cannot keep are late by [`SPAN`] at most. Beyond that the clock by
//!   which they are due stands still for all of them, and what they lost is counted.
//! - Whoever has no floor is still served once in every `class_expire`.
//!
//! Cost, with n floors: O(n) for a dispatch, nothing where there is none. There are few.

extern crate alloc;
use super::ids::{GroupId, MemberId};
use alloc::vec::Vec;

use super::Aileron;
use crate::units::{Instant, Nanos, RequestId, Sectors};

/// The length of time over which a floor holds.
const SPAN: u64 = Nanos::from_millis(100).get();

/// A floor of a tenant: rates at which it is served whatever its weight and that of others is.
/// Where both are given, both hold. The default is no floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserve {
    /// Requests a second; 0 for none.
    pub iops: u64,
    /// Bytes a second; 0 for none.
    pub bps: u64,
}

/// One of the rates of a floor.
#[derive(Clone, Copy, Debug)]
struct Tag {
    /// Units a second; 0 for none.
    rate: u64,
    /// When it is due, by the clock of floors.
    due: u64,
    /// What is left of the last division by the rate.
    rest: u64,
}

impl Tag {
    const fn from_rate(rate: u64, due: u64) -> Self {
        Self { rate, due, rest: 0 }
    }

    /// Counts units that are dispatched. `clock` is the time by the clock of floors.
    fn count(&mut self, units: u64, clock: u64) {
        if self.rate == 0 {
            return;
        }
        let scaled =
            u128::from(units) * u128::from(Nanos::from_secs(1).get()) + u128::from(self.rest);
        let rate = u128::from(self.rate);
        self.rest = (scaled % rate) as u64;
        // One request of a tenant with a low rate takes longer than the span.
        let step = u64::try_from(scaled / rate).unwrap_or(u64::MAX);
        self.due = self.due.saturating_add(step).min(clock.saturating_add(step.max(SPAN)));
    }
}

#[derive(Clone, Copy, Debug)]
struct Floor {
    group: GroupId,
    ios: Tag,
    bytes: Tag,
    /// Time by which it came short.
    missed: Nanos,
}

impl Floor {
    /// Returns when the tenant is owed service.
    fn due(&self) -> u64 {
        let of = |tag: Tag| if tag.rate == 0 { u64::MAX } else { tag.due };
        of(self.ios).min(of(self.bytes))
    }
}

/// The floors of a device's tenants.
#[derive(Clone, Debug, Default)]
pub(super) struct Floors {
    all: Vec<Floor>,
    /// Time that the clock of floors has stood still.
    stood: u64,
    /// When somebody was last served that was not owed it.
    others_at: Instant,
}

impl Floors {
    /// Returns true if no tenant has a floor.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    const fn clock(&self, now: Instant) -> u64 {
        now.get().saturating_sub(self.stood)
    }

    /// Sets the floor of a group, or removes it.
    pub(super) fn set(&mut self, now: Instant, group: GroupId, reserve: Reserve) {
        let clock = self.clock(now);
        let old = self
            .all
            .iter()
            .position(|floor| floor.group == group)
            .map(|at| self.all.swap_remove(at));
        if reserve != Reserve::default() {
            let (ios, bytes) =
                (Tag::from_rate(reserve.iops, clock), Tag::from_rate(reserve.bps, clock));
            self.all.push(Floor {
                group,
                ios,
                bytes,
                missed: old.map_or(Nanos::ZERO, |old| old.missed),
            });
        }
    }

    /// Returns the time by which the floor of a group came short: of every second of it, a second's
    /// worth of the rate was not served although the tenant had requests waiting. `None` without a
    /// floor.
    /// What it comes short by now is a part of it if it `waits`.
    pub(super) fn missed(&self, now: Instant, group: GroupId, waits: bool) -> Option<Nanos> {
        let floor = self.all.iter().find(|floor| floor.group == group)?;
        let late = self.clock(now).saturating_sub(floor.due()).saturating_sub(SPAN);
        Some(if waits { floor.missed + Nanos::new(late) } else { floor.missed })
    }

    /// Notes that a group which had no requests waiting has one; until `until` it had some in the
    /// device. Returns true if its floor was due by then: others had too much there.
    pub(super) fn begin(&mut self, now: Instant, until: Instant, group: GroupId) -> bool {
        let (clock, until) = (self.clock(now), self.clock(until));
        let mut was_due = false;
        for floor in self.all.iter_mut().filter(|floor| floor.group == group) {
            let late = until.saturating_sub(floor.due());
            was_due |= late > 0;
            floor.missed += Nanos::new(late.saturating_sub(SPAN));
            for tag in [&mut floor.ios, &mut floor.bytes] {
                let late = until.saturating_sub(tag.due).min(SPAN);
                tag.due = tag.due.max(clock.saturating_sub(late));
            }
        }
        was_due
    }

    /// Returns true if a group is owed service.
    fn is_due(&self, now: Instant, group: GroupId) -> bool {
        let clock = self.clock(now);
        self.all.iter().any(|floor| floor.group == group && floor.due() <= clock)
    }

    /// Counts a request of a group that is dispatched.
    pub(super) fn count(&mut self, now: Instant, group: GroupId, bytes: u64) {
        let clock = self.clock(now);
        for floor in self.all.iter_mut().filter(|floor| floor.group == group) {
            floor.ios.count(1, clock);
            floor.bytes.count(bytes, clock);
        }
    }

    /// Returns the group that is owed service and has waited for it the longest; `waits` tells
    /// which have requests that may go. `patience` is how long those wait that are owed nothing.
    pub(super) fn owed(
        &mut self,
        now: Instant,
        patience: Nanos,
        waits: impl Fn(GroupId) -> bool,
    ) -> Option<GroupId> {
        let group = self.first_due(now, waits)?;
        (now.since(self.others_at) < patience).then_some(group)
    }

    /// Returns the group that is owed service and has waited for it the longest. What those that
    /// wait are late by beyond [`SPAN`] is counted.
    fn first_due(&mut self, now: Instant, waits: impl Fn(GroupId) -> bool) -> Option<GroupId> {
        let clock = self.clock(now);
        let first =
            self.all.iter().filter(|floor| waits(floor.group)).min_by_key(|floor| floor.due());
        let (group, due) =
            first.map(|floor| (floor.group, floor.due())).filter(|(_, due)| *due <= clock)?;
        if let Some(late) = (clock - due).checked_sub(SPAN) {
            self.stood += late;
            for floor in self.all.iter_mut().filter(|floor| waits(floor.group)) {
                floor.missed += Nanos::new(late);
            }
        }
        Some(group)
    }
}

impl Aileron {
    /// Notes that a flow which had no requests waiting has one. Returns true if a floor of its
    /// tenants was due while all that the tenant had was in the device.
    #[inline]
    pub(super) fn begin_to_owe(&mut self, member: MemberId) -> bool {
        if self.floors.is_empty() {
            return false;
        }
        let Self { floors, shares, now, .. } = self;
        let is_new = |group: &GroupId| !shares.waits(*group);
        let begin = |was_due, group| {
            floors.begin(*now, shares.in_device_until(*now, group), group) || was_due
        };
        shares.groups_above(member).filter(is_new).fold(false, begin)
    }

    /// Returns true if a floor would let a flow go before all others if it had a request now.
    #[inline]
    pub(super) fn would_be_owed(&self, member: MemberId) -> bool {
        let is_due = |group| self.floors.is_due(self.now, group);
        !self.floors.is_empty() && self.shares.groups_above(member).any(is_due)
    }

    /// Counts a request of a flow that is dispatched; `is_owed`: because a floor asks for it.
    #[inline]
    pub(super) fn count_for_floors(&mut self, member: MemberId, id: RequestId, is_owed: bool) {
        if self.floors.is_empty() {
            return;
        }
        if !is_owed {
            let Self { floors, shares, now, .. } = self;
            // Also what was not asked before this decision.
            floors.first_due(*now, |group| shares.waits(group));
            floors.others_at = *now;
        }
        let bytes = Sectors::new(self.slots[id.index()].sectors).bytes().get();
        self.shares
            .groups_above(member)
            .for_each(|group| self.floors.count(self.now, group, bytes));
    }

    /// Dispatches a request of the tenant that is owed service by its floor, if there is one.
    #[inline]
    pub(super) fn next_owed(&mut self) -> Option<RequestId> {
        if self.floors.is_empty() {
            return None;
        }
        let Self { floors, shares, now, .. } = self;
        let group = floors.owed(*now, shares.patience, |group| shares.waits(group))?;
        let member = shares.choose(*now, group)?;
        let q = self.of_member[member.index()];
        let id = self.queue(q).fifo.first().expect("an active flow has a request");
        Some(self.serve(q, id, Some(group)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: [GroupId; 2] = [GroupId(1), GroupId(2)];
    const PATIENCE_OF_TESTS: Nanos = Nanos::from_millis(250);

    fn at(micros: u64) -> Instant {
        Instant::new(micros * 1_000)
    }

    fn iops(rate: u64) -> Reserve {
        Reserve { iops: rate, bps: 0 }
    }

    /// Serves one request each `every` microseconds until `end`: of who is owed it, or of nobody
    /// here. Returns how many each group got.
    fn served(floors: &mut Floors, every: u64, end: u64) -> [u64; 2] {
        let mut got = [0; 2];
        for now in (0..end).step_by(every as usize).map(at) {
            match floors.owed(now, PATIENCE_OF_TESTS, |_| true) {
                Some(group) => {
                    floors.count(now, group, 4096);
                    got[group.0 as usize - 1] += 1;
                }
                None => floors.others_at = now,
            }
        }
        got
    }

    #[test]
    fn who_waits_gets_its_floor_and_no_more() {
        let mut floors = Floors::default();
        floors.set(at(0), GROUPS[0], iops(100));
        floors.set(at(0), GROUPS[1], Reserve { iops: 50, bps: 300 * 4096 });
        assert_eq!(
            served(&mut floors, 1_000, 10_000_000),
            [1_000, 3_000],
            "of both rates the higher holds"
        );
        assert_eq!(floors.missed(at(10_000_000), GROUPS[0], true), Some(Nanos::ZERO));
        floors.set(at(10_000_000), GROUPS[0], Reserve::default());
        assert_eq!(floors.missed(at(10_000_000), GROUPS[0], true), None);
    }

    #[test]
    fn floors_that_are_too_high_shrink_in_proportion_and_others_are_served_in_time() {
        let mut floors = Floors::default();
        floors.set(at(0), GROUPS[0], iops(1_000));
        floors.set(at(0), GROUPS[1], iops(3_000));
        // 400 a second for 4,000; every 250 ms one is left to others.
        let [a, b] = served(&mut floors, 2_500, 10_000_000);
        assert_eq!((a + b, 4_000 - a - b), (3_961, 39));
        assert!(b.abs_diff(3 * a) <= 6, "{a} and {b}");
        let missed = floors.missed(at(10_000_000), GROUPS[0], false).expect("a floor");
        assert!(
            missed.get().abs_diff(Nanos::from_millis(8_900).get()) < 50_000_000,
            "9/10 of the time: {missed:?}"
        );
    }

    #[test]
    fn nobody_saves_up_a_claim_and_nobody_loses_it_for_long() {
        let mut floors = Floors::default();
        floors.set(at(0), GROUPS[0], iops(1_000));
        // Nothing waits for a second.
        assert!(!floors.begin(at(1_000_000), at(0), GROUPS[0]), "it asked for nothing");
        assert_eq!(floors.owed(at(1_000_000), PATIENCE_OF_TESTS, |_| false), None);
        floors.others_at = at(1_000_000);
        assert!(floors.owed(at(1_000_000), PATIENCE_OF_TESTS, |_| true).is_some());
        floors.count(at(1_000_000), GROUPS[0], 4096);
        assert!(
            floors.owed(at(1_000_500), PATIENCE_OF_TESTS, |_| true).is_none(),
            "1 ms after the one before"
        );
        // By its weight it gets ten times its floor for a second: due again after 100 ms.
        for now in (1_000_000..2_000_000).step_by(100) {
            floors.count(at(now), GROUPS[0], 4096);
        }
        floors.others_at = at(2_000_000);
        assert!(floors.owed(at(2_099_000), PATIENCE_OF_TESTS, |_| true).is_none());
        assert!(floors.owed(at(2_100_000), PATIENCE_OF_TESTS, |_| true).is_some());
    }

    /// The time for which all that a tenant has is in the device is others' doing.
    #[test]
    fn who_is_kept_in_the_device_builds_up_a_claim_and_comes_short() {
        let mut floors = Floors::default();
        floors.set(at(0), GROUPS[0], iops(1_000));
        floors.count(at(0), GROUPS[0], 4096);
        // Due after 1 ms, in the device for 51 ms, and back after one more.
        assert!(floors.begin(at(52_000), at(51_000), GROUPS[0]));
        for n in 0..50 {
            let owed = floors.owed(at(52_000), Nanos::from_secs(1), |group| group == GROUPS[0]);
            assert_eq!(owed, Some(GROUPS[0]), "request {n}");
            floors.count(at(52_000), GROUPS[0], 4096);
        }
        assert!(floors.all[0].due() > at(52_000).get() - 1_000_000, "no more than it was late by");
        assert_eq!(floors.missed(at(52_000), GROUPS[0], true), Some(Nanos::ZERO));
        // No more than a span is kept.
        assert!(floors.begin(at(1_000_000), at(1_000_000), GROUPS[0]));
        assert_eq!(
            floors.missed(at(1_000_000), GROUPS[0], false),
            Some(Nanos::from_millis(1_000 - 52 - 100))
        );
    }

    /// Also while no decision is made, as if the device or another scheduler stood in the way.
    #[test]
    fn what_waits_comes_short_while_it_waits() {
        let mut floors = Floors::default();
        floors.set(at(0), GROUPS[0], iops(1_000));
        for ms in [50, 1_000, 25_000] {
            let missed = floors.missed(at(ms * 1_000), GROUPS[0], true).expect("a floor");
            assert_eq!(missed, Nanos::from_millis(ms.saturating_sub(100)), "after {ms} ms");
            assert_eq!(
                floors.missed(at(ms * 1_000), GROUPS[0], false),
                Some(Nanos::ZERO),
                "it asks for nothing"
            );
        }
        assert!(
            floors.owed(at(25_000_000), PATIENCE_OF_TESTS, |_| true).is_none(),
            "others are served once"
        );
        assert_eq!(
            floors.missed(at(25_000_000), GROUPS[0], true),
            Some(Nanos::from_millis(24_900)),
            "counted once"
        );
    }

    #[test]
    fn a_rate_below_one_in_the_span_holds() {
        let mut floors = Floors::default();
        floors.set(at(0), GROUPS[0], iops(3));
        assert_eq!(served(&mut floors, 1_000, 10_000_000), [30, 0]);
    }
}
