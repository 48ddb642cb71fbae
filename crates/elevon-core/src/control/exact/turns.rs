//! The next of those that wait for a level: start-time fair queueing by weights (Goyal, Vin and
//! Cheng, 1996), at each node between the level and those that wait.
//!
//! What the level lets go is shared by its children in proportion to their weights, what a child
//! gets by its own children, and so on. Bios of an inner tenant itself count as one more child of
//! the default weight. An I/O costs the time that the level's limits take for it, by the limit that
//! takes longest: under a limit in bytes a large I/O counts for many small ones. A tenant that did
//! not wait is not owed anything for it.
//!
//! Reads and writes are shared apart, unless a limit of the level counts both. Then they are shared
//! together, and an I/O costs the time that such limits take for it. A tenant's own reads and
//! writes take turns there, I/O by I/O, unless their classes differ.
//!
//! Cost: O(depth · log those that wait at a level) for each bio that waits.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Exact, ExactNode, Kind, UNLIMITED};
use crate::tenant::Tenants;
use crate::units::{Instant, Nanos, TenantId};

extern crate alloc;

/// The weight of a tenant without one.
pub(super) const WEIGHT: u16 = 100;
/// Tags count nanoseconds of the limits' time, multiplied by this over the weight.
const SCALE: u64 = 10_000;
/// An I/O costs at most as much as one that the limits let go in this time, so that tags cannot
/// overflow in a run of years.
const COST_MAX: u64 = Nanos::from_secs(1000).get();

/// Virtual time of the next turn; of equal ones who came first is first.
type Tag = (u64, u64);

/// Number of tags of a tenant: for reads, for writes, and for both at levels that limit both
/// together.
pub(super) const DOMAINS: usize = 3;
const BOTH: usize = 2;

/// Where a tenant stands, for one direction or for both.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tags {
    /// Its tag among the children of its parent.
    among_siblings: Tag,
    /// The tag of its own bios among its children.
    own: Tag,
    /// The virtual time of the child that was served last.
    clock: u64,
}

/// Those that wait at a level: a tenant with a waiting one below it stands as
/// `(parent, tag, tenant)`, one that waits itself as `(tenant, tag, tenant)`.
pub(super) type Turns = BTreeSet<(TenantId, Tag, TenantId)>;

impl ExactNode {
    /// Returns what an I/O costs those that wait for this level, in nanoseconds.
    fn cost(&self, kind: Kind, bytes: u64) -> u64 {
        let takes = |(rate, _, bucket, _, is_bytes): (u64, u64, usize, _, bool)| match rate {
            UNLIMITED => 0,
            _ if self.limits.counts_both() && bucket < 4 => 0,
            _ => (if is_bytes { bytes } else { 1 }).saturating_mul(1_000_000_000) / rate,
        };
        self.keys(kind.direction).map(takes).into_iter().max().unwrap_or(0).clamp(1, COST_MAX)
    }

    /// Returns the tags by which those stand that wait for this level.
    const fn domain(&self, kind: Kind) -> usize {
        if self.limits.counts_both() { BOTH } else { kind.direction as usize }
    }
}

impl Exact {
    /// Sets the weight of a tenant among those that wait for one limit.
    ///
    /// # Panics
    /// If it is 0.
    pub fn set_weight(&mut self, tenant: TenantId, weight: u16) {
        assert!(weight > 0, "a weight of 0 for tenant {}", tenant.index());
        self.nodes.of(tenant).weight = weight;
    }

    fn turns(&mut self, level: TenantId, kind: Kind) -> &mut Turns {
        &mut self.queues(level).lines[kind.index()].turns
    }

    fn tags(&mut self, tenant: TenantId, domain: usize) -> &mut Tags {
        &mut self.queues(tenant).tags[domain]
    }

    /// A tenant waits for a level from now on.
    pub(super) fn enter(
        &mut self,
        tenants: &Tenants,
        tenant: TenantId,
        kind: Kind,
        level: TenantId,
    ) {
        let domain = self.nodes[level.index()].domain(kind);
        let arrival = self.arrivals;
        self.arrivals += 1;
        let tags = *self.tags(tenant, domain);
        let own = (tags.own.0.max(tags.clock), arrival);
        self.retag(tenants, tenant, tenant, domain, own);
        self.turns(level, kind).insert((tenant, own, tenant));
        let mut at = tenant;
        while at != level {
            let parent = above(tenants, at);
            let tag = self.tags(at, domain).among_siblings;
            if self.turns(level, kind).contains(&(parent, tag, at)) {
                break;
            }
            let tag = (tag.0.max(self.tags(parent, domain).clock), arrival);
            self.retag(tenants, parent, at, domain, tag);
            self.turns(level, kind).insert((parent, tag, at));
            at = parent;
        }
    }

    /// A tenant waits for a level no longer.
    pub(super) fn leave(
        &mut self,
        tenants: &Tenants,
        tenant: TenantId,
        kind: Kind,
        level: TenantId,
    ) {
        let domain = self.nodes[level.index()].domain(kind);
        let own = self.tags(tenant, domain).own;
        let was_there = self.turns(level, kind).remove(&(tenant, own, tenant));
        debug_assert!(was_there, "it waits at the level");
        let mut at = tenant;
        while at != level && first_below(self.turns(level, kind), at).is_none() {
            let (parent, tag) = (above(tenants, at), self.tags(at, domain).among_siblings);
            let was_there = self.turns(level, kind).remove(&(parent, tag, at));
            debug_assert!(was_there, "those above who waits stand there, too");
            at = parent;
        }
    }

    /// Removes all that wait for a level from its lists, and returns them.
    pub(super) fn leave_all(
        &mut self,
        tenants: &Tenants,
        level: TenantId,
    ) -> Vec<(TenantId, Kind)> {
        let mut all = Vec::new();
        for kind in Kind::all() {
            let own = |&(parent, _, child): &(TenantId, Tag, TenantId)| {
                (parent == child).then_some((child, kind))
            };
            let queues = self.nodes[level.index()].queues.iter();
            all.extend(queues.flat_map(|queues| &queues.lines[kind.index()].turns).filter_map(own));
        }
        for &(tenant, kind) in &all {
            self.leave(tenants, tenant, kind, level);
        }
        all
    }

    /// Returns the tenant whose turn it is at a level among those below `from`, and the kind of its
    /// bio, if bios of `kinds` may go. They stand there by the same tags.
    pub(super) fn whose_turn(
        &self,
        now: Instant,
        level: TenantId,
        from: TenantId,
        kinds: [Option<Kind>; 2],
    ) -> (TenantId, Kind) {
        let queues = self.nodes[level.index()].queues.as_ref().expect("somebody waits");
        let next = |kind: Kind, at| first_below(&queues.lines[kind.index()].turns, at);
        let (mut kinds, mut at) = (kinds, from);
        loop {
            let (_, child) = kinds
                .iter()
                .flatten()
                .filter_map(|&kind| next(kind, at))
                .min()
                .expect("somebody waits");
            kinds = kinds.map(|kind| {
                kind.filter(|&kind| next(kind, at).is_some_and(|(_, first)| first == child))
            });
            if child == at {
                return (at, self.next_kind(now, at, kinds));
            }
            at = child;
        }
    }

    /// Returns which of its own bios is a tenant's next: the more urgent one, else one of the
    /// direction that it was not the turn of before.
    fn next_kind(&self, now: Instant, tenant: TenantId, kinds: [Option<Kind>; 2]) -> Kind {
        let queues = self.nodes[tenant.index()].queues.as_ref().expect("it waits");
        let urgency = |kind: &Kind| {
            let class = queues.backlog[kind.index()].turn(now).map(|(urgency, _)| urgency);
            (class, queues.last == Some(kind.direction))
        };
        kinds.into_iter().flatten().min_by_key(urgency).expect("it waits")
    }

    /// A tenant that waited for a level, and has left it, had its turn with a bio of that size. A
    /// bio that it got by its reserve (`owed`) moves it behind its siblings by the cost of one bio,
    /// but no further.
    pub(super) fn take_turn(
        &mut self,
        tenants: &Tenants,
        (tenant, kind, owed): (TenantId, Kind, Option<TenantId>),
        level: TenantId,
        bytes: u64,
    ) {
        let node = &self.nodes[level.index()];
        let (domain, cost) = (node.domain(kind), node.cost(kind, bytes));
        let tags = self.tags(tenant, domain);
        tags.clock = tags.clock.max(tags.own.0);
        let own = (tags.own.0.saturating_add(cost * SCALE / u64::from(WEIGHT)), tags.own.1);
        self.retag(tenants, tenant, tenant, domain, own);
        let (mut at, mut is_owed) = (tenant, false);
        while at != level {
            is_owed |= owed == Some(at);
            let parent = above(tenants, at);
            let (tag, weight) =
                (self.tags(at, domain).among_siblings, self.nodes[at.index()].weight);
            let clock = &mut self.tags(parent, domain).clock;
            let from = if is_owed { *clock } else { tag.0 };
            *clock = from.max(*clock);
            let next = from.saturating_add(cost * SCALE / u64::from(weight)).max(tag.0);
            self.retag(tenants, parent, at, domain, (next, tag.1));
            at = parent;
        }
    }

    /// Changes a tenant's tag among the children of `parent`, wherever it stands; as a child of its
    /// own it stands for its own bios.
    fn retag(
        &mut self,
        tenants: &Tenants,
        parent: TenantId,
        child: TenantId,
        domain: usize,
        tag: Tag,
    ) {
        let tags = self.tags(child, domain);
        let place = if parent == child { &mut tags.own } else { &mut tags.among_siblings };
        let old = core::mem::replace(place, tag);
        for level in tenants.path(parent) {
            for kind in Kind::all() {
                let Some(node) = self.nodes.get(level.index()) else { break };
                if node.has_line(kind) && node.domain(kind) == domain {
                    let turns = self.turns(level, kind);
                    if turns.remove(&(parent, old, child)) {
                        turns.insert((parent, tag, child));
                    }
                }
            }
        }
    }

    /// Panics unless exactly those stand at a level who wait for it, and those between.
    pub(super) fn check_turns(&self, tenants: &Tenants, level: TenantId, kind: Kind) {
        let queues = |tenant: TenantId| self.nodes[tenant.index()].queues.as_deref();
        let at = |tenant| {
            queues(tenant)
                .and_then(|queues| queues.backlog[kind.index()].at)
                .map(|(level, _)| level)
        };
        let domain = self.nodes[level.index()].domain(kind);
        let mut expected = Turns::new();
        for tenant in (0..self.nodes.len())
            .map(|index| TenantId(index as u32))
            .filter(|&one| at(one) == Some(level))
        {
            assert!(tenants.is_below(tenant, level), "a tenant waits for a level above it");
            let tags = |tenant| &queues(tenant).expect("it stands somewhere").tags[domain];
            expected.insert((tenant, tags(tenant).own, tenant));
            for between in tenants.path(tenant).take_while(|&at| at != level) {
                expected.insert((above(tenants, between), tags(between).among_siblings, between));
            }
        }
        let turns = queues(level).map(|queues| &queues.lines[kind.index()].turns);
        assert_eq!(
            turns.cloned().unwrap_or_default(),
            expected,
            "who stands at level {}",
            level.index()
        );
    }
}

/// Returns the child of `parent` with the smallest tag, and the tag; `parent` itself stands for its
/// own bios.
pub(super) fn first_below(turns: &Turns, parent: TenantId) -> Option<(Tag, TenantId)> {
    let &(of, tag, child) = turns.range((parent, (0, 0), TenantId(0))..).next()?;
    (of == parent).then_some((tag, child))
}

fn above(tenants: &Tenants, tenant: TenantId) -> TenantId {
    tenants.parent(tenant).expect("limits hold below the root")
}
