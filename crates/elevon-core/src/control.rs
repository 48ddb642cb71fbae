//! Control: what a tenant may do on the path of a bio, and what is known of it afterwards.
//!
//! Two kinds of stage hold a bio back. A [`Limiter`] stands before the split (io-throttle, io.max):
//! it counts bytes of bios as built and never looks at completions. A [`Gate`] stands before a
//! request is allocated (io.cost, io.latency), after a merge was tried: it sees fragments and
//! learns of completions. Both keep the [`BioId`]s that they hold, tell when they want to be
//! asked again, and charge to the [`WaitBreakdown`] what they made a bio wait.
//!
//! [`Control`] has them all, with the tree, and what is counted per tenant. A bio that no rule and
//! no watcher concerns pays for one comparison: whether anything here is active at all. Rules
//! change at any time; what a change lets go goes with the next release.

extern crate alloc;
use alloc::vec::Vec;

use crate::ioprio::{IoPrio, PrioPolicy};
use crate::kernel::Rules;
use crate::op::StatGroup;
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
pub(crate) use stage::Stage;
pub use stage::{BioCost, DISCARD_BYTES, Direction, Finished, Gate, Limiter, StageVerdict};

use exact::Exact;
use explain::SchedulerWaits;
use io_cost::{IoCost, Preset};
use io_latency::IoLatency;
use io_max::IoMax;
use io_throttle::IoThrottle;
use limits::Limits;
use pressure::{ContextState, Pressure};
use stat::Statistics;

/// What the stages are made for.
#[derive(Clone, Copy, Debug)]
pub struct ControlConfig {
    /// The version whose rules are followed.
    pub rules: Rules,
    /// Ticks a second.
    pub hz: u32,
    /// Whether the device rotates.
    pub rotational: bool,
    /// Commands that the device takes.
    pub queue_depth: u32,
    /// Requests that a queue has.
    pub nr_requests: u32,
    /// CPUs that tasks run on.
    pub cpus: u32,
    /// io-throttle: its live-rule counter, its quirks.
    pub io_throttle: io_throttle::Config,
    /// `io.max` is met to the nanosecond (see [`exact`]) rather than in slices.
    pub exact_io_max: bool,
}

/// Off in builds of benches only: with the feature `without-control` the compiler takes everything
/// for tenants out of the path of a bio, with `without-throttle` the hook of the limits alone, so
/// that it can be told what they cost.
const HOOKED: bool = !cfg!(feature = "without-control");
const LIMITED: bool = HOOKED && !cfg!(feature = "without-throttle");

/// Everything that a stack keeps per tenant.
pub struct Control {
    rules: Rules,
    exact_io_max: bool,
    tenants: Tenants,
    /// Policy of priority by tenant; empty while nobody has one.
    prio: Vec<PrioPolicy>,
    /// How many have one that changes anything, so that nobody has to look through all.
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
    /// What every task does, and whose it is.
    contexts: Vec<(TenantId, ContextState)>,
    /// Tenants are watched: statistics and the breakdown are kept.
    watched: bool,
    /// Whether a bio has to look here at all; the one thing that a bio without tenants pays for.
    active: bool,
    /// Whether a fragment has to.
    gated: bool,
    /// Which stage has just said [`StageVerdict::Sleep`], and whether its bio is what a split left
    /// over.
    pub(crate) asleep: Option<(Stage, bool)>,
}

impl Control {
    /// Nobody but the root, and no rules.
    pub fn new(config: &ControlConfig) -> Self {
        let max = io_max::Config::of(&config.rules, config.hz, config.rotational);
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
            cost: IoCost::new(Preset::of(config.rotational, config.queue_depth)),
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

    /// The tree.
    pub const fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    /// Adds a tenant.
    pub fn add_tenant(&mut self, parent: TenantId) -> Result<TenantId, TenantError> {
        self.tenants.add(parent)
    }

    pub(crate) fn remove_tenant(&mut self, now: Instant, tenant: TenantId) -> Result<(), TenantError> {
        self.tenants.remove(tenant)?;
        for stage in Stage::ALL {
            let (tenants, stage) = self.stage(stage);
            match stage {
                AnyStage::Limiter(limiter) => limiter.on_tenant_removed(now, tenants, tenant),
                AnyStage::Gate(gate) => gate.on_tenant_removed(now, tenants, tenant),
            }
        }
        self.put_prio_policy(tenant, PrioPolicy::NoChange);
        self.refresh();
        Ok(())
    }

    /// Does what a setting asks for; nothing where its tenant was removed.
    fn set_for(&mut self, tenant: TenantId, set: impl FnOnce(&mut Self)) {
        if self.tenants.is_alive(tenant) {
            set(self);
            self.refresh();
        }
    }

    /// Turns statistics and the breakdown on, for good; before the first I/O.
    pub fn watch(&mut self) {
        self.watched = true;
        self.refresh();
    }

    /// Changes a tenant's `io.max`. Of this and of every other setting: nothing happens where the
    /// tenant was removed.
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

    /// Changes what v1's `blkio.throttle.*` say of a tenant.
    pub fn set_flat(&mut self, now: Instant, tenant: TenantId, change: impl FnOnce(&mut Limits)) {
        self.set_for(tenant, |control| {
            let mut limits = control.flat.limits(tenant);
            change(&mut limits);
            control.flat.set(now, tenant, limits);
        });
    }

    /// Changes a tenant's limits that are met to the nanosecond (ours).
    pub fn set_limit(&mut self, now: Instant, tenant: TenantId, change: impl FnOnce(&mut Limits)) {
        self.set_for(tenant, |control| {
            let mut limits = control.exact.limits(tenant);
            change(&mut limits);
            control.exact.set(now, tenant, limits);
        });
    }

    /// How io-throttle works from now on. Its rules are gone, and nothing of them may be held any
    /// more.
    ///
    /// # Panics
    /// If it holds bios.
    pub fn configure_io_throttle(&mut self, config: io_throttle::Config) {
        assert_eq!(self.throttle.held(), 0, "io-throttle holds bios");
        self.throttle = IoThrottle::new(config);
        self.refresh();
    }

    /// Sets or takes away a rule of io-throttle.
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

    /// Sets a tenant's policy of priority.
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

    /// Sets a tenant's target of latency; `None` for none.
    pub fn set_latency(&mut self, now: Instant, tenant: TenantId, target: Option<Nanos>) {
        self.set_for(tenant, |control| control.latency.set(now, &control.tenants, tenant, target));
    }

    /// Sets a tenant's weight under io.cost, 1 to 10000.
    pub fn set_weight(&mut self, now: Instant, tenant: TenantId, weight: u16) -> Result<(), io_cost::WeightError> {
        self.cost.set_weight(now, &self.tenants, tenant, weight)
    }

    /// Changes io.cost: its model, its quality of service, whether it controls the device.
    pub fn change_cost<R>(&mut self, change: impl FnOnce(&mut IoCost) -> R) -> R {
        let answer = change(&mut self.cost);
        self.refresh();
        answer
    }

    /// io-throttle, to be read.
    pub const fn io_throttle(&self) -> &IoThrottle {
        &self.throttle
    }

    /// io.cost, to be read.
    pub const fn io_cost(&self) -> &IoCost {
        &self.cost
    }

    /// io.latency, to be read.
    pub const fn io_latency(&self) -> &IoLatency {
        &self.latency
    }

    /// What a tenant is limited to, by `io.max` and by our limits.
    pub fn limits(&self, tenant: TenantId) -> [Limits; 2] {
        [self.max.limits(tenant), self.exact.limits(tenant)]
    }

    /// What v1's `blkio.throttle.*` say of a tenant.
    pub fn flat_limits(&self, tenant: TenantId) -> Limits {
        self.flat.limits(tenant)
    }

    /// A tenant's policy of priority.
    pub fn prio_policy(&self, tenant: TenantId) -> PrioPolicy {
        self.prio.get(tenant.index()).copied().unwrap_or(PrioPolicy::NoChange)
    }

    /// What I/O waited for, by tenant and cause; waits for the scheduler up to the last
    /// [`Self::settle`].
    pub const fn breakdown(&self) -> &WaitBreakdown {
        &self.breakdown
    }

    /// Divides what was waited for the scheduler up to now by whom it served; before the breakdown
    /// is read.
    pub fn settle(&mut self, now: Instant) {
        self.waits_for_scheduler.count_up_to(now, &mut self.breakdown);
    }

    /// What tenants did.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// How long their tasks stood still for I/O.
    pub const fn pressure(&self) -> &Pressure {
        &self.pressure
    }

    /// What a task does now, for the pressure of its tenant.
    pub fn set_context(&mut self, now: Instant, task: TaskId, tenant: TenantId, state: ContextState) {
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

    /// How long a task of this tenant is delayed before it goes on, for what its tenant owes
    /// (io.cost) or did to its neighbours (io.latency).
    pub fn delay_of(&mut self, now: Instant, tenant: TenantId) -> Nanos {
        if !self.gated {
            return Nanos::ZERO;
        }
        let tenant = self.tenants.charged(tenant);
        let Self { tenants, cost, latency, .. } = self;
        cost.delay_of(now, tenants, tenant).max(latency.delay_of(now, tenants, tenant))
    }

    /// Whether a bio has to be looked at.
    #[inline]
    pub const fn is_active(&self) -> bool {
        HOOKED && self.active
    }

    /// Whether it meets limits: the hook before it is cut.
    #[inline]
    pub(crate) const fn has_limits(&self) -> bool {
        LIMITED && self.active
    }

    /// Whether a fragment has to be.
    #[inline]
    pub(crate) const fn has_gates(&self) -> bool {
        HOOKED && self.gated
    }

    /// Whether statistics and the breakdown are kept.
    #[inline]
    pub const fn is_watched(&self) -> bool {
        HOOKED && self.watched
    }

    fn stage(&mut self, stage: Stage) -> (&Tenants, AnyStage<'_>) {
        let stage = match stage {
            Stage::Throttle => AnyStage::Limiter(&mut self.throttle),
            Stage::Flat => AnyStage::Limiter(&mut self.flat),
            Stage::Max => AnyStage::Limiter(&mut self.max),
            Stage::Exact => AnyStage::Limiter(&mut self.exact),
            Stage::Cost => AnyStage::Gate(&mut self.cost),
            Stage::Latency => AnyStage::Gate(&mut self.latency),
        };
        (&self.tenants, stage)
    }

    fn limiters(&self) -> [&dyn Limiter; 4] {
        [&self.throttle, &self.flat, &self.max, &self.exact]
    }

    fn gates(&self) -> [&dyn Gate; 2] {
        [&self.cost, &self.latency]
    }

    /// After every change of rules, and when stages have let go: whether bios have to look here.
    pub(crate) fn refresh(&mut self) {
        self.gated = self.gates().iter().any(|gate| gate.is_enabled() || gate.held() > 0);
        let limited = self.limiters().iter().any(|limiter| limiter.must_be_asked() || limiter.held() > 0);
        self.active = self.watched || self.gated || limited || self.classed > 0;
    }

    /// A bio's priority under its tenant's policy.
    pub(crate) fn ioprio(&self, tenant: TenantId, ioprio: IoPrio) -> IoPrio {
        self.prio_policy(tenant).apply(ioprio, &self.rules)
    }

    /// Asks the stages of a kind from one on; gives back the last one asked.
    pub(crate) fn admit(&mut self, now: Instant, from: Stage, bio: BioId, charge: &BioCost) -> (Stage, StageVerdict) {
        let mut stage = from;
        loop {
            let verdict = match self.stage(stage) {
                (tenants, AnyStage::Limiter(limiter)) if limiter.must_be_asked() => {
                    limiter.admit(now, tenants, bio, charge)
                }
                (tenants, AnyStage::Gate(gate)) if gate.is_enabled() => gate.admit(now, tenants, bio, charge),
                _ => StageVerdict::Pass,
            };
            match stage.next() {
                Some(next) if verdict == StageVerdict::Pass => stage = next,
                _ => return (stage, verdict),
            }
        }
    }

    /// A fragment joined a request.
    pub(crate) fn on_merge(&mut self, now: Instant, charge: &BioCost) {
        let Self { tenants, cost, latency, .. } = self;
        for gate in [cost as &mut dyn Gate, latency].into_iter().filter(|gate| gate.is_enabled()) {
            gate.on_merge(now, tenants, charge);
        }
    }

    /// When [`Self::release`] has something.
    #[inline]
    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        if self.is_active() { self.earliest() } else { None }
    }

    #[inline(never)]
    fn earliest(&self) -> Option<Instant> {
        let limits = self.limiters().into_iter().filter_map(|limiter| limiter.next_wakeup());
        limits.chain(self.gates().into_iter().filter_map(|gate| gate.next_wakeup())).min()
    }

    /// What a stage lets go now.
    pub(crate) fn release(&mut self, now: Instant, stage: Stage, out: &mut Vec<BioId>) {
        let mut breakdown = core::mem::take(&mut self.breakdown);
        match self.stage(stage) {
            (tenants, AnyStage::Limiter(limiter)) => limiter.release(now, tenants, &mut breakdown, out),
            (tenants, AnyStage::Gate(gate)) => gate.release(now, tenants, &mut breakdown, out),
        }
        self.breakdown = breakdown;
    }

    /// A bio passed its limits.
    pub(crate) fn on_issue(&mut self, tenant: TenantId, group: StatGroup, bytes: Bytes, first: bool) {
        if self.watched {
            self.statistics.on_issue(tenant, group, bytes, first);
        }
    }

    /// It is another tenant's now: its own was removed.
    pub(crate) fn on_move(&mut self, from: TenantId, to: TenantId) {
        if self.watched && from != to {
            self.statistics.on_move(from, to);
        }
    }

    /// It ended without having become a request.
    pub(crate) fn on_drop(&mut self, tenant: TenantId) {
        if self.watched {
            self.statistics.on_drop(tenant);
        }
    }

    /// A tenant's bio waited for something.
    pub(crate) fn add_wait(&mut self, tenant: TenantId, cause: Cause, time: Nanos) {
        if self.watched {
            self.breakdown.add(tenant, cause, time);
        }
        if cause == Cause::Tag && self.gated {
            self.cost.on_alloc_wait(Instant::ZERO, time);
        }
    }

    /// A tenant's bio begins to wait for the scheduler.
    pub(crate) fn begin_scheduler_wait(&mut self, now: Instant, tenant: TenantId) {
        self.waits_for_scheduler.begin_wait(now, tenant);
    }

    /// It waits no more.
    pub(crate) fn end_scheduler_wait(&mut self, now: Instant, tenant: TenantId) {
        self.waits_for_scheduler.end_wait(now, tenant);
    }

    /// The device was given a request of this tenant.
    pub(crate) fn on_dispatch(&mut self, now: Instant, tenant: TenantId) {
        self.waits_for_scheduler.on_dispatch(now, tenant, &mut self.breakdown);
    }

    /// The device has nothing to do.
    pub(crate) fn on_device_idle(&mut self, now: Instant) {
        self.waits_for_scheduler.on_idle(now);
    }

    /// A bio is over. `passed`: it passed the gates, and did not join a request that had.
    pub(crate) fn on_finish(&mut self, now: Instant, io: &Finished, passed: bool) {
        if self.watched {
            self.statistics.on_finish(io.tenant, io.end.since(io.issued));
        }
        if passed && self.gated {
            let Self { tenants, cost, latency, .. } = self;
            for gate in [cost as &mut dyn Gate, latency].into_iter().filter(|gate| gate.is_enabled()) {
                gate.on_finish(now, tenants, io);
            }
        }
    }

    /// Costly invariants, for tests.
    pub(crate) fn self_check(&self) {
        let classed = self.prio.iter().filter(|&&policy| policy != PrioPolicy::NoChange).count();
        assert_eq!(self.classed as usize, classed, "tenants with a policy of priority");
        self.limiters().iter().for_each(|limiter| limiter.self_check(&self.tenants));
        self.gates().iter().for_each(|gate| gate.self_check(&self.tenants));
    }

    /// Bios that stages keep.
    pub fn held(&self) -> usize {
        let limits: usize = self.limiters().iter().map(|limiter| limiter.held()).sum();
        limits + self.gates().iter().map(|gate| gate.held()).sum::<usize>()
    }
}

enum AnyStage<'a> {
    Limiter(&'a mut dyn Limiter),
    Gate(&'a mut dyn Gate),
}
