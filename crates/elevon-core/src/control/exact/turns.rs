//! Who is next of those that wait for a level: start-time fair queueing by weights (Goyal, Vin and
//! Cheng, 1996), at each node between the level and those that wait.
//!
//! What the level lets go is shared by its children in proportion to their weights, what a child
//! gets by its own children, and so on. Bios of an inner tenant itself count as one more child of
//! the default weight. An I/O costs the time that the level's limits take for it, by the limit that
//! takes longest: under a limit in bytes a large I/O counts for many small ones. Who did not wait
//! is not owed anything for it.
//!
//! Cost: O(depth · log those that wait at a level) for each bio that waits.

use alloc::collections::BTreeSet;

use super::{Exact, ExactNode, Kind, UNLIMITED};
use crate::tenant::Tenants;
use crate::units::{Nanos, TenantId};

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

/// Where a tenant stands, for one kind of bio.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tags {
    /// Its tag among the children of its parent.
    among_siblings: Tag,
    /// The tag of its own bios among its children.
    own: Tag,
    /// The virtual time of the child that was served last.
    clock: u64,
}

/// Those that wait at a level: a tenant with somebody below it that waits stands as
/// `(parent, tag, tenant)`, one that waits itself as `(tenant, tag, tenant)`.
pub(super) type Turns = BTreeSet<(TenantId, Tag, TenantId)>;

impl ExactNode {
    /// Returns what an I/O costs those that wait for this level, in nanoseconds.
    pub(super) fn cost(&self, kind: Kind, bytes: u64) -> u64 {
        let takes = |(rate, _, _, _, is_bytes): (u64, u64, usize, _, bool)| match rate {
            UNLIMITED => 0,
            _ => (if is_bytes { bytes } else { 1 }).saturating_mul(1_000_000_000) / rate,
        };
        self.keys(kind.direction).map(takes).into_iter().max().unwrap_or(0).clamp(1, COST_MAX)
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

    fn tags(&mut self, tenant: TenantId, kind: Kind) -> &mut Tags {
        &mut self.queues(tenant).tags[kind.index()]
    }

    /// A tenant waits for a level from now on.
    pub(super) fn enter(&mut self, tenants: &Tenants, tenant: TenantId, kind: Kind, level: TenantId) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        let tags = self.tags(tenant, kind);
        let own = (tags.own.0.max(tags.clock), arrival);
        tags.own = own;
        self.turns(level, kind).insert((tenant, own, tenant));
        let mut at = tenant;
        while at != level {
            let parent = above(tenants, at);
            let tag = self.tags(at, kind).among_siblings;
            if self.turns(level, kind).contains(&(parent, tag, at)) {
                break;
            }
            let tag = (tag.0.max(self.tags(parent, kind).clock), arrival);
            self.retag(tenants, at, kind, tag);
            self.turns(level, kind).insert((parent, tag, at));
            at = parent;
        }
    }

    /// A tenant waits for a level no longer.
    pub(super) fn leave(&mut self, tenants: &Tenants, tenant: TenantId, kind: Kind, level: TenantId) {
        let own = self.tags(tenant, kind).own;
        let was_there = self.turns(level, kind).remove(&(tenant, own, tenant));
        debug_assert!(was_there, "it waits at the level");
        let mut at = tenant;
        while at != level && first_below(self.turns(level, kind), at).is_none() {
            let (parent, tag) = (above(tenants, at), self.tags(at, kind).among_siblings);
            let was_there = self.turns(level, kind).remove(&(parent, tag, at));
            debug_assert!(was_there, "those above who waits stand there, too");
            at = parent;
        }
    }

    /// Returns the tenant whose turn it is at a level where somebody waits.
    pub(super) fn whose_turn(&self, level: TenantId, kind: Kind) -> TenantId {
        let queues = self.nodes[level.index()].queues.as_ref().expect("somebody waits");
        let mut at = level;
        loop {
            let next = first_below(&queues.lines[kind.index()].turns, at).expect("somebody below waits");
            if next == at {
                return at;
            }
            at = next;
        }
    }

    /// A tenant that waited for a level, and has left it, had its turn with a bio of that cost.
    pub(super) fn take_turn(&mut self, tenants: &Tenants, tenant: TenantId, kind: Kind, level: TenantId, cost: u64) {
        let tags = self.tags(tenant, kind);
        tags.clock = tags.clock.max(tags.own.0);
        tags.own.0 = tags.own.0.saturating_add(cost * SCALE / u64::from(WEIGHT));
        let mut at = tenant;
        while at != level {
            let parent = above(tenants, at);
            let (tag, weight) = (self.tags(at, kind).among_siblings, self.nodes[at.index()].weight);
            let clock = &mut self.tags(parent, kind).clock;
            *clock = tag.0.max(*clock);
            self.retag(tenants, at, kind, (tag.0.saturating_add(cost * SCALE / u64::from(weight)), tag.1));
            at = parent;
        }
    }

    /// Changes a tenant's tag among its siblings, wherever it stands.
    fn retag(&mut self, tenants: &Tenants, tenant: TenantId, kind: Kind, tag: Tag) {
        let old = core::mem::replace(&mut self.tags(tenant, kind).among_siblings, tag);
        let parent = above(tenants, tenant);
        for level in tenants.path(parent) {
            let turns = self.turns(level, kind);
            if turns.remove(&(parent, old, tenant)) {
                turns.insert((parent, tag, tenant));
            }
        }
    }

    /// Panics unless exactly those stand at a level who wait for it, and those between.
    pub(super) fn check_turns(&self, tenants: &Tenants, level: TenantId, kind: Kind) {
        let queues = |tenant: TenantId| self.nodes[tenant.index()].queues.as_deref();
        let at = |tenant| queues(tenant).and_then(|queues| queues.backlog[kind.index()].at).map(|(level, _)| level);
        let mut expected = Turns::new();
        for tenant in (0..self.nodes.len()).map(|index| TenantId(index as u32)).filter(|&one| at(one) == Some(level)) {
            assert!(tenants.is_below(tenant, level), "a tenant waits for a level above it");
            let tags = |tenant| &queues(tenant).expect("it stands somewhere").tags[kind.index()];
            expected.insert((tenant, tags(tenant).own, tenant));
            for between in tenants.path(tenant).take_while(|&at| at != level) {
                expected.insert((above(tenants, between), tags(between).among_siblings, between));
            }
        }
        let turns = queues(level).map(|queues| &queues.lines[kind.index()].turns);
        assert_eq!(turns.cloned().unwrap_or_default(), expected, "who stands at level {}", level.index());
    }
}

/// Returns the child of `parent` with the smallest tag; `parent` itself stands for its own bios.
fn first_below(turns: &Turns, parent: TenantId) -> Option<TenantId> {
    let &(of, _, child) = turns.range((parent, (0, 0), TenantId(0))..).next()?;
    (of == parent).then_some(child)
}

fn above(tenants: &Tenants, tenant: TenantId) -> TenantId {
    tenants.parent(tenant).expect("limits hold below the root")
}
