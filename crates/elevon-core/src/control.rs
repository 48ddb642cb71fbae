//! Control: what a tenant may do on the path of a bio, and what is known of it afterwards.
//!
//! Two kinds of stage hold a bio back. A [`Limiter`] stands before the split (io-throttle, io.max): it counts bytes of bios as
//! built and never looks at completions. A [`Gate`] stands before a request is allocated (io.cost, io.latency), after a merge
//! was tried: it sees fragments and learns of completions. Both keep the [`BioId`]s that they hold, tell when they want to be
//! asked again, and charge to the [`Ledger`] what they made a bio wait.

extern crate alloc;
use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::ioprio::{IoPrio, PrioPolicy};
use crate::kernel::Rules;
use crate::op::Op;
use crate::tenant::{TenantError, Tenants};
use crate::units::{BioId, Instant, Nanos, Sector, TenantId};

pub mod exact;
pub mod explain;
pub mod io_cost;
pub mod io_latency;
pub mod io_max;
pub mod io_throttle;
pub mod limits;
pub mod pressure;
pub mod stat;

use io_throttle::IoThrottle;

pub use explain::{Cause, Ledger, Reason, Rule, Wait};

/// Bytes that a discard counts as, whatever its length: it moves none. As in Linux.
pub const DISCARD_BYTES: u64 = 512;

/// What limits and weights tell apart: everything that is not a read is a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Direction {
    /// Reads.
    Read = 0,
    /// Writes of any kind, discards and flushes among them.
    Write = 1,
}

/// A bio as those who may hold it see it.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    /// Who pays: a living tenant (see [`Tenants::charged`]).
    pub tenant: TenantId,
    /// What it does.
    pub op: Op,
    /// Its priority, tenant's policy applied.
    pub ioprio: IoPrio,
    /// First sector.
    pub sector: Sector,
    /// Length as it is charged: [`DISCARD_BYTES`] for a discard, 0 for an empty flush.
    pub bytes: u64,
    /// False for what is left of a split bio: its bytes were charged with the whole, it is one more I/O only.
    pub first: bool,
    /// Journal, metadata, memory release: goes at once and is charged later where a policy knows debt (META, SWAP flags).
    pub must_issue: bool,
    /// The submitter is a task that can be put to sleep; false for asynchronous submission and writeback.
    pub may_sleep: bool,
}

impl Charge {
    /// Which limits apply.
    #[inline]
    pub const fn direction(&self) -> Direction {
        if self.op.is_write() { Direction::Write } else { Direction::Read }
    }
}

/// What became of a bio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on, and was charged.
    Pass,
    /// It is kept; its submitter goes on (the kernel's io.max: the bio waits, the task only where it waits for the bio).
    Hold,
    /// It is kept, and its submitter sleeps until it is released (io-throttle's synchronous path, io.cost, io.latency). A
    /// submitter that may not sleep goes on in a worker.
    Sleep,
}

/// A stage before the split. Calls come with `now` never going back.
pub trait Limiter {
    /// Passes a bio and charges it, or keeps it.
    fn admit(&mut self, now: Instant, tenants: &Tenants, bio: BioId, charge: &Charge) -> Verdict;
    /// When [`Self::release`] wants to be called; a time that has passed where something is due already.
    fn next_wakeup(&self) -> Option<Instant>;
    /// Puts what may go on now into `out`, in the order in which it goes, and charges every nanosecond between `admit` and now to
    /// the ledger, to the tenant that the bio is charged to.
    fn release(&mut self, now: Instant, tenants: &Tenants, ledger: &mut Ledger, out: &mut Vec<BioId>);
    /// Rules in force, over all tenants.
    fn live_rules(&self) -> u32;
    /// Whether bios have to be shown to [`Self::admit`]: while there is no rule they are not.
    fn must_be_asked(&self) -> bool {
        self.live_rules() > 0
    }
    /// Bios kept.
    fn held(&self) -> usize;
    /// A tenant was removed: its rules are gone, what it held is due at once.
    fn on_tenant_removed(&mut self, now: Instant, tenants: &Tenants, tenant: TenantId);
    /// Costly invariants, for tests. Panics where one does not hold.
    fn self_check(&self, tenants: &Tenants);
}

/// An I/O that passed a [`Gate`] and is over.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// Who was charged.
    pub tenant: TenantId,
    /// What it did.
    pub op: Op,
    /// Length in bytes.
    pub bytes: u64,
    /// As in its [`Charge`].
    pub must_issue: bool,
    /// When it was issued to the stack: limits had let it go, no gate had seen it (io.latency's clock).
    pub issued: Instant,
    /// When its request was allocated (io.cost's clock).
    pub allocated: Instant,
    /// When it was over.
    pub end: Instant,
}

/// A stage before a request is allocated.
pub trait Gate {
    /// Passes a fragment and charges it, or keeps it: [`Verdict::Sleep`].
    fn admit(&mut self, now: Instant, tenants: &Tenants, bio: BioId, charge: &Charge) -> Verdict;
    /// A fragment joined a request that had passed: charged, never held.
    fn on_merge(&mut self, now: Instant, tenants: &Tenants, charge: &Charge);
    /// A fragment that passed (not one that merged) is over.
    fn on_finish(&mut self, now: Instant, tenants: &Tenants, io: &Finished);
    /// As [`Limiter::next_wakeup`].
    fn next_wakeup(&self) -> Option<Instant>;
    /// As [`Limiter::release`].
    fn release(&mut self, now: Instant, tenants: &Tenants, ledger: &mut Ledger, out: &mut Vec<BioId>);
    /// Whether it has to be asked at all.
    fn is_enabled(&self) -> bool;
    /// Fragments kept.
    fn held(&self) -> usize;
    /// A tenant was removed: what it held is due at once.
    fn on_tenant_removed(&mut self, now: Instant, tenants: &Tenants, tenant: TenantId);
    /// Costly invariants, for tests.
    fn self_check(&self, tenants: &Tenants);
}

/// A stage that may hold a bio, in the order in which a bio meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    Throttle,
    Max,
    Cost,
    Latency,
}

impl Stage {
    pub(crate) const ALL: [Self; 4] = [Self::Throttle, Self::Max, Self::Cost, Self::Latency];
    const LIMITERS: [Self; 2] = [Self::Throttle, Self::Max];
    pub(crate) const FIRST: Self = Self::Throttle;
    pub(crate) const FIRST_GATE: Self = Self::Cost;

    /// The next of its kind.
    pub(crate) const fn next(self) -> Option<Self> {
        match self {
            Self::Throttle => Some(Self::Max),
            Self::Cost => Some(Self::Latency),
            Self::Max | Self::Latency => None,
        }
    }

    pub(crate) const fn is_gate(self) -> bool {
        matches!(self, Self::Cost | Self::Latency)
    }
}

/// Off in builds of benches only: with the feature `without-control` the compiler takes everything for tenants out of the path of
/// a bio, with `without-throttle` the hook of the limits alone, so that it can be told what they cost.
const HOOKED: bool = !cfg!(feature = "without-control");
const LIMITED: bool = HOOKED && !cfg!(feature = "without-throttle");

/// Everything that a stack keeps per tenant.
#[derive(Default)]
pub struct Control {
    tenants: Tenants,
    /// Policy of priority by tenant; empty while nobody has one.
    prio: Vec<PrioPolicy>,
    throttle: Option<Box<IoThrottle>>,
    max: Option<Box<dyn Limiter>>,
    gates: [Option<Box<dyn Gate>>; 2],
    ledger: Ledger,
    /// Tenants are watched: statistics and the ledger are kept.
    watched: bool,
    /// Whether a bio has to look here at all; the one thing that a bio without tenants pays for.
    active: bool,
    /// Whether a fragment has to.
    gated: bool,
    /// Which stage has just said [`Verdict::Sleep`], and whether its bio is what a split left over.
    pub(crate) asleep: Option<(Stage, bool)>,
}

impl Control {
    /// The tree.
    pub fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    /// Adds a tenant.
    pub fn add_tenant(&mut self, parent: TenantId) -> Result<TenantId, TenantError> {
        self.tenants.add(parent)
    }

    /// How io-throttle works from now on. Its rules are gone, and nothing of them may be held any more.
    ///
    /// # Panics
    /// If it holds bios.
    pub fn configure_io_throttle(&mut self, config: io_throttle::Config) {
        assert!(self.throttle.as_ref().is_none_or(|throttle| throttle.held() == 0), "io-throttle holds bios");
        self.throttle = Some(Box::new(IoThrottle::new(config)));
        self.refresh();
    }

    /// Sets a limit of io-throttle, or takes it away: [`IoThrottle::set`].
    pub fn set_io_throttle(
        &mut self,
        now: Instant,
        tenant: TenantId,
        kind: io_throttle::Kind,
        limit: Option<io_throttle::Limit>,
    ) -> Result<io_throttle::Change, io_throttle::RuleError> {
        let throttle = self.throttle.get_or_insert_with(|| Box::new(IoThrottle::new(io_throttle::Config::default())));
        let change = throttle.set(now, &self.tenants, tenant, kind, limit);
        self.refresh();
        change
    }

    /// io-throttle, where it was ever set: limits, statistics.
    pub fn io_throttle(&self) -> Option<&IoThrottle> {
        self.throttle.as_deref()
    }

    /// What I/O waited for, by tenant and cause.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Turns statistics and the ledger on or off (off at first).
    pub fn set_watched(&mut self, on: bool) {
        self.watched = on;
        self.refresh();
    }

    /// Sets a tenant's policy of priority.
    pub fn set_prio_policy(&mut self, tenant: TenantId, policy: PrioPolicy) {
        if tenant.index() >= self.prio.len() {
            self.prio.resize(tenant.index() + 1, PrioPolicy::NoChange);
        }
        self.prio[tenant.index()] = policy;
        self.refresh();
    }

    pub(crate) fn remove_tenant(&mut self, now: Instant, tenant: TenantId) -> Result<(), TenantError> {
        self.tenants.remove(tenant)?;
        for stage in Stage::LIMITERS {
            if let (Some(limiter), tenants, _) = self.limiter_mut(stage) {
                limiter.on_tenant_removed(now, tenants, tenant);
            }
        }
        let Self { tenants, gates, .. } = self;
        for gate in gates.iter_mut().flatten() {
            gate.on_tenant_removed(now, tenants, tenant);
        }
        if let Some(policy) = self.prio.get_mut(tenant.index()) {
            *policy = PrioPolicy::NoChange;
        }
        self.refresh();
        Ok(())
    }

    /// Whether a bio has to be looked at.
    #[inline]
    pub(crate) const fn is_active(&self) -> bool {
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

    /// Whether what I/O waits for is written down.
    #[inline]
    pub(crate) const fn is_watched(&self) -> bool {
        HOOKED && self.watched
    }

    fn limiters(&self) -> impl Iterator<Item = &dyn Limiter> {
        let throttle = self.throttle.as_deref().map(|throttle| throttle as &dyn Limiter);
        [throttle, self.max.as_deref()].into_iter().flatten()
    }

    /// The limiter of a stage, with what its calls need.
    fn limiter_mut(&mut self, stage: Stage) -> (Option<&mut dyn Limiter>, &Tenants, &mut Ledger) {
        let limiter: Option<&mut dyn Limiter> = match stage {
            Stage::Throttle => self.throttle.as_deref_mut().map(|throttle| throttle as _),
            Stage::Max => self.max.as_deref_mut().map(|max| max as _),
            Stage::Cost | Stage::Latency => None,
        };
        (limiter, &self.tenants, &mut self.ledger)
    }

    /// After every change of rules: whether bios have to look here.
    fn refresh(&mut self) {
        self.gated = self.gates.iter().flatten().any(|gate| gate.is_enabled() || gate.held() > 0);
        let limited = self.limiters().any(|limiter| limiter.must_be_asked() || limiter.held() > 0);
        self.active =
            self.watched || self.gated || limited || self.prio.iter().any(|&policy| policy != PrioPolicy::NoChange);
    }

    /// A bio's priority under its tenant's policy.
    pub(crate) fn ioprio(&self, tenant: TenantId, ioprio: IoPrio, rules: &Rules) -> IoPrio {
        match self.prio.get(tenant.index()) {
            Some(policy) => policy.apply(ioprio, rules),
            None => ioprio,
        }
    }

    /// Asks the limits from a stage on; gives back the last one asked.
    pub(crate) fn admit(&mut self, now: Instant, from: Stage, bio: BioId, charge: &Charge) -> (Stage, Verdict) {
        let (mut stage, mut verdict) = (from, Verdict::Pass);
        loop {
            if let (Some(limiter), tenants, _) = self.limiter_mut(stage)
                && limiter.must_be_asked()
            {
                verdict = limiter.admit(now, tenants, bio, charge);
            }
            match stage.next() {
                Some(next) if verdict == Verdict::Pass => stage = next,
                _ => return (stage, verdict),
            }
        }
    }

    /// Asks the gates from a stage on; gives back the last one asked.
    pub(crate) fn pass_gates(&mut self, now: Instant, from: Stage, bio: BioId, charge: &Charge) -> (Stage, Verdict) {
        let (mut stage, mut verdict) = (from, Verdict::Pass);
        loop {
            if let Some(gate) = &mut self.gates[stage as usize - Stage::FIRST_GATE as usize]
                && gate.is_enabled()
            {
                verdict = gate.admit(now, &self.tenants, bio, charge);
            }
            match stage.next() {
                Some(next) if verdict == Verdict::Pass => stage = next,
                _ => return (stage, verdict),
            }
        }
    }

    /// A fragment joined a request.
    pub(crate) fn on_merge(&mut self, now: Instant, charge: &Charge) {
        let Self { tenants, gates, .. } = self;
        for gate in gates.iter_mut().flatten().filter(|gate| gate.is_enabled()) {
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
        let limits = self.limiters().filter_map(|limiter| limiter.next_wakeup());
        limits.chain(self.gates.iter().flatten().filter_map(|gate| gate.next_wakeup())).min()
    }

    /// What a stage lets go now.
    pub(crate) fn release(&mut self, now: Instant, stage: Stage, out: &mut Vec<BioId>) {
        if stage.is_gate() {
            let Self { tenants, gates, ledger, .. } = self;
            if let Some(gate) = &mut gates[stage as usize - Stage::FIRST_GATE as usize] {
                gate.release(now, tenants, ledger, out);
            }
        } else if let (Some(limiter), tenants, ledger) = self.limiter_mut(stage) {
            limiter.release(now, tenants, ledger, out);
        }
        self.refresh();
    }

    /// A bio passed its limits.
    pub(crate) fn on_issue(&mut self, _charge: &Charge) {}

    /// A tenant's bio waited for something.
    pub(crate) fn charge(&mut self, tenant: TenantId, cause: Cause, time: Nanos) {
        if self.watched {
            self.ledger.add(tenant, cause, time);
        }
    }

    /// A bio is over. `passed`: it passed the gates, and did not join a request that had.
    pub(crate) fn on_finish(&mut self, now: Instant, io: &Finished, passed: bool) {
        let Self { tenants, gates, .. } = self;
        for gate in gates.iter_mut().flatten().filter(|gate| passed && gate.is_enabled()) {
            gate.on_finish(now, tenants, io);
        }
    }

    /// Costly invariants, for tests.
    pub(crate) fn self_check(&self) {
        for limiter in self.limiters() {
            limiter.self_check(&self.tenants);
        }
        for gate in self.gates.iter().flatten() {
            gate.self_check(&self.tenants);
        }
    }
}
