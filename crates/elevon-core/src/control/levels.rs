//! State per tenant of the limiters `io.max` and `exact`, and the order in which tenants that hold
//! bios are checked.
//!
//! *Cost.* A tenant's level is found by its index. Whether a rule on a tenant's path limits it is
//! cached: the path is walked again only after a rule has changed anywhere. An update of the order
//! costs O(log n) of the levels that hold something.

extern crate alloc;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use super::ReadOrWrite;
use crate::tenant::{ROOT, Tenants};
use crate::units::TenantId;

pub(super) const DIRECTIONS: [ReadOrWrite; 2] = [ReadOrWrite::Read, ReadOrWrite::Write];

/// Whether a level or one above it limits a direction, valid for one count of rule changes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct PathRules {
    by_direction: [bool; 2],
    generation: u32,
}

/// State of a limiter for one tenant.
pub(super) trait Level: Default {
    /// Returns true if the tenant's own rules limit a direction.
    fn limits_direction(&self, direction: ReadOrWrite) -> bool;
    /// Returns the cached state of its path.
    fn path_rules(&mut self) -> &mut PathRules;
}

/// The levels of a limiter, by the index of their tenant.
#[derive(Clone, Debug)]
pub(super) struct Levels<L> {
    all: Vec<L>,
    /// Counts changes of rules. It is never 0, which is the value of a new level.
    generation: u32,
}

impl<L> Default for Levels<L> {
    fn default() -> Self {
        Self { all: Vec::new(), generation: 1 }
    }
}

impl<L: Level> Levels<L> {
    /// Returns the level of a tenant, created if it is new.
    pub(super) fn of(&mut self, tenant: TenantId) -> &mut L {
        if tenant.index() >= self.all.len() {
            self.all.resize_with(tenant.index() + 1, L::default);
        }
        &mut self.all[tenant.index()]
    }

    /// Invalidates the cached state of all paths after a rule has changed.
    pub(super) const fn rules_changed(&mut self) {
        self.generation += 1;
    }

    /// Returns true if a tenant's own rules, or with `ancestors` those of a tenant above it, limit
    /// a direction.
    pub(super) fn is_ruled(
        &mut self,
        tenants: &Tenants,
        tenant: TenantId,
        direction: ReadOrWrite,
        ancestors: bool,
    ) -> bool {
        if tenant == ROOT {
            return false;
        }
        let generation = self.generation;
        if self.of(tenant).path_rules().generation != generation {
            let by_direction = DIRECTIONS.map(|direction| {
                let limits = |at: TenantId| {
                    self.all.get(at.index()).is_some_and(|level| level.limits_direction(direction))
                };
                if ancestors { tenants.path(tenant).any(limits) } else { limits(tenant) }
            });
            *self.all[tenant.index()].path_rules() = PathRules { by_direction, generation };
        }
        self.all[tenant.index()].path_rules().by_direction[direction as usize]
    }
}

impl<L> Deref for Levels<L> {
    type Target = [L];
    fn deref(&self) -> &[L] {
        &self.all
    }
}

impl<L> DerefMut for Levels<L> {
    fn deref_mut(&mut self) -> &mut [L] {
        &mut self.all
    }
}

/// Entries that hold bios, by the time when they are to be checked; entries with the same time are
/// in order of insertion.
#[derive(Clone, Debug)]
pub(super) struct DueOrder<T> {
    tree: BTreeSet<(u64, u64, T)>,
    sequence: u64,
}

/// A key in a [`DueOrder`]: the time, and the order among entries of that time.
pub(super) type Due = (u64, u64);

impl<T> Default for DueOrder<T> {
    fn default() -> Self {
        Self { tree: BTreeSet::new(), sequence: 0 }
    }
}

impl<T: Copy + Ord> DueOrder<T> {
    /// Moves `what` to the time `at`, behind all entries of that time; `None` removes it. `due`
    /// stores its key.
    pub(super) fn set(&mut self, what: T, due: &mut Option<Due>, at: Option<u64>) {
        if let Some((at, sequence)) = due.take() {
            let was_there = self.tree.remove(&(at, sequence, what));
            debug_assert!(was_there, "a place that nothing stands at");
        }
        if let Some(at) = at {
            *due = Some((at, self.sequence));
            self.tree.insert((at, self.sequence, what));
            self.sequence += 1;
        }
    }

    /// Returns the first entry, and when it is to be checked.
    pub(super) fn first(&self) -> Option<(u64, T)> {
        self.tree.first().map(|&(at, _, what)| (at, what))
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.tree.len()
    }

    /// Returns true if `what` has this key.
    pub(super) fn has(&self, what: T, due: Due) -> bool {
        self.tree.contains(&(due.0, due.1, what))
    }
}
