//! Reserves among those that wait for one limit: a tenant that is behind its reserve goes before
//! the turns by weight. The rules are those of `aileron` (`sched::aileron::floors`), by the time of
//! the clock.
//!
//! Cost, with n reserves: O(n · depth) for a bio below a limit, nothing where there is none. There
//! are few.

use super::bucket::Bucket;
use super::turns::first_below;
use super::{Exact, Kind, LOWER_CLASS_WAIT};
use crate::sched::Reserve;
use crate::tenant::Tenants;
use crate::units::{Instant, Nanos, TenantId};

/// The length of time over which a reserve holds, as under `aileron`.
const SPAN: u64 = Nanos::from_millis(100).get();

/// The reserve of a tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Floor {
    tenant: TenantId,
    reserve: Reserve,
    ios: Bucket,
    bytes: Bucket,
    /// Bios of the tenant and those below it that wait for limits.
    waiting: usize,
    /// Time by which it came short.
    missed: Nanos,
}

impl Floor {
    fn rates(&mut self) -> [(u64, &mut Bucket); 2] {
        [(self.reserve.iops, &mut self.ios), (self.reserve.bps, &mut self.bytes)]
    }

    /// Returns when the tenant's next bio is to go at the latest.
    fn due(&self) -> u64 {
        let of = |rate: u64, bucket: Bucket| if rate == 0 { u64::MAX } else { bucket.tat() };
        of(self.reserve.iops, self.ios).min(of(self.reserve.bps, self.bytes))
    }

    /// Counts a bio that goes. A tenant that got more than its reserve is owed it again after
    /// [`SPAN`].
    fn count(&mut self, now: u64, bytes: u64) {
        for ((rate, bucket), units) in self.rates().into_iter().zip([1, bytes]) {
            if rate > 0 {
                bucket.count(rate, units, now, SPAN);
            }
        }
    }

    /// Moves what is due to `at` if it was due before.
    fn not_before(&mut self, at: u64) {
        self.rates().into_iter().for_each(|(_, bucket)| bucket.not_before(at));
    }
}

impl Exact {
    /// Sets the reserve of a tenant among those that wait for a limit of a tenant above it.
    pub fn set_reserve(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        tenant: TenantId,
        reserve: Reserve,
    ) {
        let old = self
            .floors
            .iter()
            .position(|floor| floor.tenant == tenant)
            .map(|at| self.floors.swap_remove(at));
        if reserve == Reserve::default() {
            return;
        }
        let waiting = self.waiting_below(tenants, tenant);
        let missed = old.map_or(Nanos::ZERO, |old| old.missed);
        let bucket = Bucket::default();
        let mut floor = Floor { tenant, reserve, ios: bucket, bytes: bucket, waiting, missed };
        floor.not_before(now.get());
        self.floors.push(floor);
    }

    /// Returns the time by which a tenant's reserve came short while it waited for a limit of a
    /// tenant above it: for each second of it, what the reserve is in a second. What waits now is
    /// counted until now. Zero without a reserve.
    pub fn reserve_missed(&self, now: Instant, tenant: TenantId) -> Nanos {
        let missed = |floor: &Floor| {
            let late = if floor.waiting > 0 {
                now.get().saturating_sub(floor.due()).saturating_sub(SPAN)
            } else {
                0
            };
            floor.missed + Nanos::new(late)
        };
        self.floors.iter().find(|floor| floor.tenant == tenant).map_or(Nanos::ZERO, missed)
    }

    /// Panics unless every reserve counts what waits.
    pub(super) fn check_floors(&self, tenants: &Tenants) {
        for floor in &self.floors {
            assert_eq!(
                floor.waiting,
                self.waiting_below(tenants, floor.tenant),
                "what waits with a reserve"
            );
        }
    }

    /// Returns the number of bios of a tenant and those below it that wait.
    fn waiting_below(&self, tenants: &Tenants, tenant: TenantId) -> usize {
        let below = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(id, _)| tenants.is_below(TenantId(*id as u32), tenant));
        below.flat_map(|(_, node)| &node.queues).map(|queues| queues.waiting()).sum()
    }

    /// Notes that a bio of a tenant begins to wait. A tenant that had none waiting is owed nothing
    /// for that.
    pub(super) fn begin_for_floors(&mut self, now: Instant, tenants: &Tenants, tenant: TenantId) {
        for floor in self.floors.iter_mut().filter(|floor| tenants.is_below(tenant, floor.tenant)) {
            if floor.waiting == 0 {
                floor.not_before(now.get());
            }
            floor.waiting += 1;
        }
    }

    /// Notes that a bio of a tenant waits no longer.
    pub(super) fn end_for_floors(&mut self, tenants: &Tenants, tenant: TenantId) {
        for floor in self.floors.iter_mut().filter(|floor| tenants.is_below(tenant, floor.tenant)) {
            floor.waiting -= 1;
        }
    }

    /// Counts a bio of a tenant that goes.
    pub(super) fn count_for_floors(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        tenant: TenantId,
        bytes: u64,
    ) {
        for floor in self.floors.iter_mut().filter(|floor| tenants.is_below(tenant, floor.tenant)) {
            floor.count(now.get(), bytes);
        }
    }

    /// Returns the tenant that is owed the next bio of a level and has waited for it the longest.
    /// Every [`LOWER_CLASS_WAIT`] it is the turn of those that are owed nothing.
    pub(super) fn owed(
        &mut self,
        now: Instant,
        level: TenantId,
        kinds: [Option<Kind>; 2],
    ) -> Option<TenantId> {
        if self.floors.is_empty() {
            return None;
        }
        let queues = self.nodes[level.index()].queues.as_mut().expect("somebody waits");
        let lines = &queues.lines;
        let waits = |kind: &Kind, tenant| first_below(&lines[kind.index()].turns, tenant).is_some();
        let stands = |floor: &Floor| {
            floor.tenant != level && kinds.iter().flatten().any(|kind| waits(kind, floor.tenant))
        };
        let first =
            self.floors.iter().filter(|floor| stands(floor)).min_by_key(|floor| floor.due());
        let owed =
            first.map(|floor| (floor.tenant, floor.due())).filter(|&(_, due)| due <= now.get());
        if let Some((_, due)) = owed
            && let Some(late) = now.get().saturating_sub(due).checked_sub(SPAN)
        {
            // Reserves that the limit does not allow are late by so much, and shrink in proportion.
            for floor in self.floors.iter_mut().filter(|floor| stands(floor)) {
                floor.rates().into_iter().for_each(|(_, bucket)| bucket.delay(late));
                floor.missed += Nanos::new(late);
            }
        }
        let owed = owed.filter(|_| now.since(queues.by_weight) < LOWER_CLASS_WAIT);
        if owed.is_none() {
            queues.by_weight = now;
        }
        owed.map(|(tenant, _)| tenant)
    }
}
