//! Control of tenants: stages that hold bios, and statistics per tenant.
//!
//! There are two kinds of [`Stage`]s. A limiter comes before the split (io-throttle, io.max): it
//! counts bytes of bios as built and never looks at completions. A gate comes before a request is
//! allocated (io.cost, io.latency), after a merge was tried: it sees fragments and is told of
//! completions. Both keep the [`BioId`]s that they hold, say when they want to be asked again, and
//! add the bio's waiting time to the [`WaitBreakdown`].
//!
//! [`TenantControl`] contains all stages, the tree of tenants, and the statistics per tenant. If no
//! rule is set and no tenant is watched, a bio costs one comparison. Rules may change at any time;
//! bios that a change releases continue with the next release.

extern crate alloc;
use alloc::vec::Vec;

use crate::ioprio::{IoPrio, PrioPolicy};
use crate::jiffies::Hz;
use crate::kernel::Rules;
use crate::op::StatGroup;
use crate::sched::Reserve;
use crate::tenant::{TenantError, Tenants};
use crate::units::{BioId, Bytes, Instant, Nanos, TaskId, TenantId};

pub mod exact;
pub mod explain;
pub mod io_cost;
pub mod io_latency;
pub mod io_max;
pub mod io_throttle;
mod levels;
pub mod limits;
pub mod pressure;
mod stage;
pub mod stat;

pub use explain::{Cause, Reason, Rule, Wait, WaitBreakdown};
pub(crate) use stage::StageId;
pub use stage::{BioCost, DISCARD_BYTES, Finished, ReadOrWrite, Stage, StageVerdict};

use exact::Exact;
use explain::SchedulerWaits;
use io_cost::{IoCost, Preset};
use io_latency::IoLatency;
use io_max::IoMax;
use io_throttle::IoThrottle;
use limits::Limits;
use pressure::{ContextState, Pressure};
use stat::Statistics;

/// Parameters of the stages.
#[derive(Clone, Copy, Debug)]
pub struct ControlConfig {
    /// The kernel version's rules.
    pub rules: Rules,
    /// Ticks a second.
    pub hz: Hz,
    /// Whether the device rotates.
    pub rotational: bool,
    /// Commands that the device takes.
    pub queue_depth: u32,
    /// Requests that a queue has.
    pub nr_requests: u32,
    /// CPUs that tasks run on.
    pub cpus: u32,
    /// Variant of io-throttle: live-rule counter, quirks.
    pub io_throttle: io_throttle::Config,
    /// `io.max` is enforced to the nanosecond (see [`exact`]) instead of in slices.
    pub exact_io_max: bool,
}

/// False only in builds of benches: with the feature `without-control` the compiler removes all
/// tenant control from the path of a bio, with `without-throttle` only the hook of the limiters.
/// This measures what they cost.
const HOOKED: bool = !cfg!(feature = "without-control");
const LIMITED: bool = HOOKED && !cfg!(feature = "without-throttle");

/// Everything that a stack stores per tenant.
pub struct TenantControl {
    rules: Rules,
    exact_io_max: bool,
    tenants: Tenants,
    /// Priority policy by tenant; empty while no tenant has one.
    prio: Vec<PrioPolicy>,
    /// Number of tenants whose policy changes priorities, so that no scan is needed.
    classed: u32,
    throttle: IoThrottle,
    flat: IoMax,
    max: IoMax,
    exact: Exact,
    cost: IoCost,
    latency: IoLatency,
    breakdown: WaitBreakdown,
    waits_for_scheduler: SchedulerWaits,
    statistics: Statistics,
    pressure: Pressure,
    /// Tenant and state of every task.
    contexts: Vec<(TenantId, ContextState)>,
    /// Tenants are watched: statistics and the breakdown are kept.
    watched: bool,
    /// Whether bios must be checked here. Without tenants, this is all that a bio tests.
    active: bool,
    /// Whether fragments must be checked here.
    gated: bool,
    /// The stage that just returned [`StageVerdict::Sleep`], and whether its bio is the remainder
    /// of a split.
    pub(crate) asleep: Option<(StageId, bool)>,
}

impl TenantControl {
    /// Returns the state with no tenant but the root, and no rules.
    pub fn new(config: &ControlConfig) -> Self {
        let max = io_max::Config::from_rules(&config.rules, config.hz, config.rotational);
        let mut control = Self {
            rules: config.rules,
            exact_io_max: config.exact_io_max,
            tenants: Tenants::new(),
            prio: Vec::new(),
            classed: 0,
            throttle: IoThrottle::new(config.io_throttle),
            flat: IoMax::new(io_max::Config { flat: true, ..max }),
            max: IoMax::new(max),
            exact: Exact::new(),
            cost: IoCost::new(
                Preset::from_rotational(config.rotational, config.queue_depth),
                &config.rules,
                config.hz,
            ),
            latency: IoLatency::new(config.nr_requests, config.rotational),
            breakdown: WaitBreakdown::default(),
            waits_for_scheduler: SchedulerWaits::default(),
            statistics: Statistics::default(),
            pressure: Pressure::new(config.cpus),
            contexts: Vec::new(),
            watched: false,
            active: false,
            gated: false,
            asleep: None,
        };
        control.refresh();
        control
    }

    /// Returns the tree of tenants.
    pub const fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    /// Adds a tenant.
    ///
    /// # Errors
    /// The parent is unknown or removed, or the tenant would be too deep. Nothing is changed in
    /// this case.
    pub fn add_tenant(&mut self, parent: TenantId) -> Result<TenantId, TenantError> {
        self.tenants.add(parent)
    }

    pub(crate) fn remove_tenant(
        &mut self,
        now: Instant,
        tenant: TenantId,
    ) -> Result<(), TenantError> {
        self.tenants.remove(tenant)?;
        for id in StageId::ALL {
            let (tenants, stage) = self.stage(id);
            stage.on_tenant_removed(now, tenants, tenant);
        }
        self.put_prio_policy(tenant, PrioPolicy::NoChange);
        self.refresh();
        Ok(())
    }

    /// Applies a setting; does nothing if its tenant was removed.
    fn set_for(&mut self, tenant: TenantId, set: impl FnOnce(&mut Self)) {
        if self.tenants.is_alive(tenant) {
            set(self);
            self.refresh();
        }
    }

    /// Turns statistics and the breakdown on for good. Must be called before the first I/O.
    pub fn watch(&mut self) {
        self.watched = true;
        self.refresh();
    }

    /// Changes a tenant's `io.max`. This and every other setting has no effect if the tenant was
    /// removed.
    pub fn set_io_max(&mut self, now: Instant, tenant: TenantId, change: impl FnOnce(&mut Limits)) {
        if self.exact_io_max {
            return self.set_limit(now, tenant, change);
        }
        self.set_for(tenant, |control| {
            let mut limits = control.max.limits(tenant);
            change(&mut limits);
            control.max.set(now, tenant, limits);
        });
    }

    /// Changes a tenant's `blkio.throttle.*` limits (cgroup v1).
    pub fn set_flat(&mut self, now: Instant, tenant: TenantId, change: impl FnOnce(&mut Limits)) {
        self.set_for(tenant, |control| {
            let mut limits = control.flat.limits(tenant);
            change(&mut limits);
            control.flat.set(now, tenant, limits);
        });
    }

    /// Changes a tenant's limits that are enforced to the nanosecond (not in Linux).
    pub fn set_limit(&mut self, now: Instant, tenant: TenantId, change: impl FnOnce(&mut Limits)) {
        self.set_for(tenant, |control| {
            let mut limits = control.exact.limits(tenant);
            change(&mut limits);
            control.exact.set(now, &control.tenants, tenant, limits);
        });
    }

    /// Sets a tenant's reserve among those that wait for an exact limit of a tenant above it
    /// (not in Linux).
    pub fn set_reserve(&mut self, now: Instant, tenant: TenantId, reserve: Reserve) {
        self.set_for(tenant, |control| {
            control.exact.set_reserve(now, &control.tenants, tenant, reserve);
        });
    }

    /// Returns the time by which a tenant's reserve came short while it waited for an exact limit
    /// of a tenant above it: for each second of it, what the reserve is in a second.
    pub fn reserve_missed(&self, now: Instant, tenant: TenantId) -> Nanos {
        self.exact.reserve_missed(now, tenant)
    }

    /// Returns true if a tenant above this one has an exact limit, which those below it share by
    /// weight.
    pub fn shares_a_limit(&self, tenant: TenantId) -> bool {
        self.tenants.path(tenant).skip(1).any(|above| !self.exact.limits(above).is_none())
    }

    /// Replaces the variant of io-throttle. Its rules are removed, and it must not hold bios.
    ///
    /// # Panics
    /// If it holds bios.
    pub fn configure_io_throttle(&mut self, config: io_throttle::Config) {
        assert_eq!(self.throttle.held(), 0, "io-throttle holds bios");
        self.throttle = IoThrottle::new(config);
        self.refresh();
    }

    /// Sets or removes a rule of io-throttle.
    ///
    /// # Errors
    /// The tenant is the root, unknown or removed, or the limit is 0. Nothing is changed in this
    /// case.
    pub fn set_io_throttle(
        &mut self,
        now: Instant,
        tenant: TenantId,
        kind: io_throttle::LimitKind,
        limit: Option<io_throttle::Limit>,
    ) -> Result<io_throttle::Change, io_throttle::RuleError> {
        let change = self.throttle.set(now, &self.tenants, tenant, kind, limit);
        self.refresh();
        change
    }

    /// Sets a tenant's priority policy.
    pub fn set_prio_policy(&mut self, tenant: TenantId, policy: PrioPolicy) {
        self.set_for(tenant, |control| control.put_prio_policy(tenant, policy));
    }

    fn put_prio_policy(&mut self, tenant: TenantId, policy: PrioPolicy) {
        let old = self.prio_policy(tenant);
        if policy == old {
            return;
        }
        if tenant.index() >= self.prio.len() {
            self.prio.resize(tenant.index() + 1, PrioPolicy::NoChange);
        }
        self.prio[tenant.index()] = policy;
        self.classed += u32::from(policy != PrioPolicy::NoChange);
        self.classed -= u32::from(old != PrioPolicy::NoChange);
    }

    /// Sets a tenant's latency target; `None` removes it.
    pub fn set_latency(&mut self, now: Instant, tenant: TenantId, target: Option<Nanos>) {
        self.set_for(tenant, |control| control.latency.set(now, &control.tenants, tenant, target));
    }

    /// Sets a tenant's weight under io.cost, 1 to 10000, which is its weight among those that wait
    /// for one exact limit, too.
    ///
    /// # Errors
    /// The weight is out of its range. Nothing is changed in this case.
    pub fn set_weight(
        &mut self,
        now: Instant,
        tenant: TenantId,
        weight: u16,
    ) -> Result<(), io_cost::WeightError> {
        self.cost.set_weight(now, &self.tenants, tenant, weight)?;
        self.exact.set_weight(tenant, weight);
        Ok(())
    }

    /// Changes io.cost: its model, its quality of service, and whether it is enabled.
    pub fn change_cost<R>(&mut self, change: impl FnOnce(&mut IoCost) -> R) -> R {
        let answer = change(&mut self.cost);
        self.refresh();
        answer
    }

    /// Returns io-throttle for reading.
    pub const fn io_throttle(&self) -> &IoThrottle {
        &self.throttle
    }

    /// Returns io.cost for reading.
    pub const fn io_cost(&self) -> &IoCost {
        &self.cost
    }

    /// Returns io.latency for reading.
    pub const fn io_latency(&self) -> &IoLatency {
        &self.latency
    }

    /// Returns a tenant's limits: those of `io.max`, and those enforced to the nanosecond.
    pub fn limits(&self, tenant: TenantId) -> [Limits; 2] {
        [self.max.limits(tenant), self.exact.limits(tenant)]
    }

    /// Returns a tenant's `blkio.throttle.*` limits (cgroup v1).
    pub fn flat_limits(&self, tenant: TenantId) -> Limits {
        self.flat.limits(tenant)
    }

    /// Returns a tenant's priority policy.
    pub(crate) fn prio_policy(&self, tenant: TenantId) -> PrioPolicy {
        self.prio.get(tenant.index()).copied().unwrap_or(PrioPolicy::NoChange)
    }

    /// Returns the waiting times of I/O by tenant and cause. Waits for the scheduler are included
    /// up to the last [`Self::settle`].
    pub const fn breakdown(&self) -> &WaitBreakdown {
        &self.breakdown
    }

    /// Divides the waits for the scheduler until now by the tenants that it served. Call it before
    /// the breakdown is read.
    pub fn settle(&mut self, now: Instant) {
        self.waits_for_scheduler.count_up_to(now, &mut self.breakdown);
    }

    /// Adds what held bios have waited until now to the breakdown.
    pub(crate) fn settle_held(&mut self, now: Instant) {
        for id in StageId::ALL {
            let mut breakdown = core::mem::take(&mut self.breakdown);
            self.stage(id).1.settle_waits(now, &mut breakdown);
            self.breakdown = breakdown;
        }
    }

    /// Returns the statistics of tenants.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns how long tasks of tenants were stalled by I/O.
    pub const fn pressure(&self) -> &Pressure {
        &self.pressure
    }

    /// Sets the state of a task, for the pressure of its tenant.
    pub fn set_context(
        &mut self,
        now: Instant,
        task: TaskId,
        tenant: TenantId,
        state: ContextState,
    ) {
        if task.index() >= self.contexts.len() {
            self.contexts.resize(task.index() + 1, (tenant, ContextState::Idle));
        }
        let (of, from) = core::mem::replace(&mut self.contexts[task.index()], (tenant, state));
        if of != tenant {
            self.pressure.on_change(now, &self.tenants, of, from, ContextState::Idle);
            self.pressure.on_change(now, &self.tenants, tenant, ContextState::Idle, state);
        } else {
            self.pressure.on_change(now, &self.tenants, tenant, from, state);
        }
    }

    /// Returns how long a task of this tenant is delayed before it continues, because its tenant
    /// has debt in io.cost or disturbed its siblings under io.latency.
    pub fn delay_of(&mut self, now: Instant, tenant: TenantId) -> Nanos {
        if !self.gated {
            return Nanos::ZERO;
        }
        let tenant = self.tenants.charged(tenant);
        let Self { tenants, cost, latency, .. } = self;
        cost.delay_of(now, tenants, tenant).max(latency.delay_of(now, tenants, tenant))
    }

    /// Returns true if bios have to be checked.
    #[inline]
    pub const fn is_active(&self) -> bool {
        HOOKED && self.active
    }

    /// Returns true if bios have to be checked against limits before they are split.
    #[inline]
    pub(crate) const fn has_limits(&self) -> bool {
        LIMITED && self.active
    }

    /// Returns true if a call may be tried in vain. The bio of the try counts for its tenant, and
    /// pays to limits of Linux. Elevon's own limits count no tries.
    #[cold]
    pub(crate) fn takes_tries(&self) -> bool {
        !self.exact.is_enabled() && !self.throttle.is_enabled()
    }

    /// Returns true if fragments have to be checked.
    #[inline]
    pub(crate) const fn has_gates(&self) -> bool {
        HOOKED && self.gated
    }

    /// Returns true if io.cost is enabled.
    pub(crate) fn has_cost(&self) -> bool {
        self.has_gates() && self.cost.is_enabled()
    }

    /// Returns true if statistics and the breakdown are kept.
    #[inline]
    pub const fn is_watched(&self) -> bool {
        HOOKED && self.watched
    }

    fn stage(&mut self, id: StageId) -> (&Tenants, &mut dyn Stage) {
        let stage: &mut dyn Stage = match id {
            StageId::Throttle => &mut self.throttle,
            StageId::Flat => &mut self.flat,
            StageId::Max => &mut self.max,
            StageId::Exact => &mut self.exact,
            StageId::Cost => &mut self.cost,
            StageId::Latency => &mut self.latency,
        };
        (&self.tenants, stage)
    }

    fn stages(&self) -> [&dyn Stage; 6] {
        [&self.throttle, &self.flat, &self.max, &self.exact, &self.cost, &self.latency]
    }

    /// Updates whether bios have to be checked here. Called after every change of rules and after
    /// stages released bios.
    pub(crate) fn refresh(&mut self) {
        let in_use = self.stages().map(|stage| stage.is_enabled() || stage.held() > 0);
        self.gated = StageId::ALL.iter().zip(in_use).any(|(id, in_use)| in_use && id.is_gate());
        self.active = self.watched || in_use.contains(&true) || self.classed > 0;
    }

    /// Returns a bio's priority under its tenant's policy.
    pub(crate) fn ioprio(&self, tenant: TenantId, ioprio: IoPrio) -> IoPrio {
        self.prio_policy(tenant).apply(ioprio, &self.rules)
    }

    /// Asks the stages of one kind, starting at `from`. Returns the last stage asked and its
    /// verdict.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        from: StageId,
        bio: BioId,
        charge: &BioCost,
    ) -> (StageId, StageVerdict) {
        let mut id = from;
        loop {
            let verdict = match self.stage(id) {
                (tenants, stage) if stage.is_enabled() => stage.admit(now, tenants, bio, charge),
                _ => StageVerdict::Pass,
            };
            match id.next() {
                Some(next) if verdict == StageVerdict::Pass => id = next,
                _ => return (id, verdict),
            }
        }
    }

    /// Tells the gates that a fragment was merged into a request.
    pub(crate) fn on_merge(&mut self, now: Instant, charge: &BioCost) {
        let Self { tenants, cost, latency, .. } = self;
        for gate in [cost as &mut dyn Stage, latency].into_iter().filter(|gate| gate.is_enabled()) {
            gate.on_merge(now, tenants, charge);
        }
    }

    /// Returns when [`Self::release`] may have bios to release.
    #[inline]
    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        if self.is_active() { self.earliest() } else { None }
    }

    #[inline(never)]
    fn earliest(&self) -> Option<Instant> {
        self.stages().into_iter().filter_map(|stage| stage.next_wakeup()).min()
    }

    /// Appends the bios that a stage releases now to `out`.
    pub(crate) fn release(&mut self, now: Instant, id: StageId, out: &mut Vec<BioId>) {
        let mut breakdown = core::mem::take(&mut self.breakdown);
        let (tenants, stage) = self.stage(id);
        stage.release(now, tenants, &mut breakdown, out);
        self.breakdown = breakdown;
    }

    /// Returns the limit that holds I/O of a tenant itself now, if one does.
    pub fn holds(&self, tenant: TenantId) -> Option<Cause> {
        self.stages().iter().find_map(|stage| stage.holds(&self.tenants, tenant))
    }

    /// Removes the bios that `is_chosen` names from a stage, and appends them to `out`.
    pub(crate) fn withdraw(
        &mut self,
        now: Instant,
        id: StageId,
        is_chosen: &dyn Fn(BioId) -> bool,
        out: &mut Vec<BioId>,
    ) {
        let mut breakdown = core::mem::take(&mut self.breakdown);
        let (tenants, stage) = self.stage(id);
        stage.withdraw(now, tenants, is_chosen, &mut breakdown, out);
        self.breakdown = breakdown;
    }

    /// Counts a bio that its limiters released.
    pub(crate) fn on_issue(
        &mut self,
        tenant: TenantId,
        group: StatGroup,
        bytes: Bytes,
        first: bool,
    ) {
        if self.watched {
            self.statistics.on_issue(tenant, group, bytes, first);
        }
    }

    /// Moves a bio to another tenant, because its own was removed.
    pub(crate) fn on_move(&mut self, from: TenantId, to: TenantId) {
        if self.watched && from != to {
            self.statistics.on_move(from, to);
        }
    }

    /// Counts a bio that was tried in vain.
    pub(crate) fn on_try(&mut self, tenant: TenantId, group: StatGroup, bytes: Bytes) {
        if self.watched {
            self.statistics.on_try(tenant, group, bytes);
        }
    }

    /// Counts a bio that ended without becoming a request.
    pub(crate) fn on_drop(&mut self, tenant: TenantId) {
        if self.watched {
            self.statistics.on_drop(tenant);
        }
    }

    /// Adds the time that a tenant's bio waited for a cause.
    pub(crate) fn add_wait(&mut self, tenant: TenantId, cause: Cause, time: Nanos) {
        if self.watched {
            self.breakdown.add(tenant, cause, time);
        }
        if cause == Cause::Tag && self.gated {
            self.cost.on_alloc_wait(time);
        }
    }

    /// Records that a tenant's bio begins to wait for the scheduler.
    pub(crate) fn begin_scheduler_wait(&mut self, now: Instant, tenant: TenantId) {
        self.waits_for_scheduler.begin_wait(now, tenant);
    }

    /// Records that this wait has ended.
    pub(crate) fn end_scheduler_wait(&mut self, now: Instant, tenant: TenantId) {
        self.waits_for_scheduler.end_wait(now, tenant);
    }

    /// Records that a request of this tenant was issued to the device.
    pub(crate) fn on_dispatch(&mut self, now: Instant, tenant: TenantId) {
        self.waits_for_scheduler.on_dispatch(now, tenant, &mut self.breakdown);
    }

    /// Records that the device is idle.
    pub(crate) fn on_device_idle(&mut self, now: Instant) {
        self.waits_for_scheduler.on_idle(now);
    }

    /// Counts a completed bio. `passed`: it passed the gates itself, and was not merged into a
    /// request that had.
    pub(crate) fn on_finish(&mut self, now: Instant, io: &Finished, passed: bool) {
        if self.watched {
            self.statistics.on_finish(io.tenant, io.end.since(io.issued));
        }
        if passed && self.gated {
            let Self { tenants, cost, latency, .. } = self;
            for gate in
                [cost as &mut dyn Stage, latency].into_iter().filter(|gate| gate.is_enabled())
            {
                gate.on_finish(now, tenants, io);
            }
        }
    }

    /// Checks costly invariants, for tests.
    pub(crate) fn self_check(&self) {
        let classed = self.prio.iter().filter(|&&policy| policy != PrioPolicy::NoChange).count();
        assert_eq!(self.classed as usize, classed, "tenants with a policy of priority");
        self.stages().iter().for_each(|stage| stage.self_check(&self.tenants));
    }

    /// Returns the number of bios that the stages hold.
    pub fn held(&self) -> usize {
        self.stages().iter().map(|stage| stage.held()).sum()
    }
}
