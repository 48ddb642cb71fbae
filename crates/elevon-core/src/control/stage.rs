//! The interface of the stages that hold bios: their input, their verdicts, their traits.

extern crate alloc;
use alloc::vec::Vec;

use super::{Cause, WaitBreakdown};
use crate::ioprio::IoPrio;
use crate::op::Op;
use crate::tenant::Tenants;
use crate::units::{BioId, Instant, Sector, TenantId};

/// Bytes charged for a discard of any length, as it moves no data. As in Linux.
pub const DISCARD_BYTES: u64 = 512;

/// The two directions of limits and weights: everything that is not a read is a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ReadOrWrite {
    /// Reads.
    Read = 0,
    /// Writes of any kind, including discards and flushes.
    Write = 1,
}

/// The attributes of a bio that a stage sees.
#[derive(Clone, Copy, Debug)]
pub struct BioCost {
    /// The tenant that is charged: a living one (see [`Tenants::charged`]).
    pub tenant: TenantId,
    /// Its operation.
    pub op: Op,
    /// Its priority, after the tenant's policy was applied.
    pub ioprio: IoPrio,
    /// First sector.
    pub sector: Sector,
    /// Length as it is charged: [`DISCARD_BYTES`] for a discard, 0 for an empty flush.
    pub bytes: u64,
    /// False for the remainder of a split bio: its bytes were charged with the whole bio, so it
    /// counts only as one more I/O.
    pub first: bool,
    /// Journal, metadata, memory release (META, SWAP flags): it is issued at once, and becomes
    /// debt if the policy has debt.
    pub must_issue: bool,
    /// The submitter is a task that can be put to sleep; false for asynchronous submission and
    /// writeback.
    pub may_sleep: bool,
}

impl BioCost {
    /// Returns a whole bio of default priority at sector 0, of a task that can sleep.
    #[inline]
    pub const fn plain(tenant: TenantId, op: Op, bytes: u64) -> Self {
        let (ioprio, sector) = (IoPrio::DEFAULT, Sector::ZERO);
        Self { tenant, op, ioprio, sector, bytes, first: true, must_issue: false, may_sleep: true }
    }

    /// Returns the direction whose limits apply.
    #[inline]
    pub const fn direction(&self) -> ReadOrWrite {
        if self.op.is_write() { ReadOrWrite::Write } else { ReadOrWrite::Read }
    }
}

/// A stage's decision about a bio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageVerdict {
    /// The bio goes on and was charged.
    Pass,
    /// The stage holds the bio; its submitter goes on (the kernel's io.max: the bio waits, and the
    /// task only if it waits for the bio).
    Hold,
    /// The stage holds the bio, and its submitter sleeps until it is released (io-throttle's
    /// synchronous path, io.cost, io.latency). If the submitter may not sleep, a worker waits in
    /// its place.
    Sleep,
}

/// A stage that may hold bios: a limiter, before the split, or a gate, before a request is
/// allocated (see [`crate::control`]). `now` never goes back between calls.
pub trait Stage {
    /// Passes a bio and charges it, or holds it.
    fn admit(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        bio: BioId,
        charge: &BioCost,
    ) -> StageVerdict;
    /// Returns when [`Self::release`] is to be called. The time may be in the past if a bio is due
    /// already.
    fn next_wakeup(&self) -> Option<Instant>;
    /// Appends the bios that may go on now to `out`, in the order in which they go. Adds every
    /// nanosecond between `admit` and now to the breakdown of the tenant that the bio is charged
    /// to.
    fn release(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        breakdown: &mut WaitBreakdown,
        out: &mut Vec<BioId>,
    );
    /// Returns true if bios have to be passed to [`Self::admit`]. Without rules this is not needed.
    fn is_enabled(&self) -> bool;
    /// Returns the number of bios held. No stage has its own limit: each bio belongs to an I/O of a
    /// source, and the number of those is limited.
    fn held(&self) -> usize;
    /// Called when a tenant was removed: its rules are removed, and the bios that it held are due
    /// at once.
    fn on_tenant_removed(&mut self, now: Instant, tenants: &Tenants, tenant: TenantId);
    /// Checks costly invariants, for tests. Panics if one does not hold.
    fn self_check(&self, tenants: &Tenants);
    /// Returns the limit that holds bios of a tenant now; `None` if none does, or the stage is no
    /// limit of a rate.
    fn holds(&self, _tenants: &Tenants, _tenant: TenantId) -> Option<Cause> {
        None
    }
    /// Removes the held bios that `is_chosen` names, appends them to `out`, and adds the time that
    /// they waited to the breakdown. They are not charged any further. A stage that is no limit of
    /// a rate removes none.
    fn withdraw(
        &mut self,
        _now: Instant,
        _tenants: &Tenants,
        _is_chosen: &dyn Fn(BioId) -> bool,
        _breakdown: &mut WaitBreakdown,
        _out: &mut Vec<BioId>,
    ) {
    }
    /// Adds the time that held bios have waited until now to the breakdown; what follows of it is
    /// added later. Stages that do not do that add all of it when they release a bio.
    fn settle_waits(&mut self, _now: Instant, _breakdown: &mut WaitBreakdown) {}
    /// Charges a fragment that was merged into a request that had passed. It is never held.
    /// Limiters are not told: they charged the bio before it was split.
    fn on_merge(&mut self, _now: Instant, _tenants: &Tenants, _charge: &BioCost) {}
    /// Called when a fragment that passed (not one that was merged) has completed. Limiters are not
    /// told.
    fn on_finish(&mut self, _now: Instant, _tenants: &Tenants, _io: &Finished) {}
}

/// A completed I/O that had passed the gates.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// The tenant that was charged.
    pub tenant: TenantId,
    /// Its operation.
    pub op: Op,
    /// Length in bytes.
    pub bytes: u64,
    /// As in its [`BioCost`].
    pub must_issue: bool,
    /// When it was issued to the stack: after the limiters, before the gates (used by io.latency).
    pub issued: Instant,
    /// When its request was allocated (used by io.cost).
    pub allocated: Instant,
    /// When it completed.
    pub end: Instant,
}

/// A stage that may hold a bio, in the order in which a bio reaches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum StageId {
    /// io-throttle.
    Throttle,
    /// The limits of cgroup v1, which ignore ancestors.
    Flat,
    /// io.max.
    Max,
    /// Limits to the nanosecond.
    Exact,
    /// io.cost.
    Cost,
    /// io.latency.
    Latency,
}

impl StageId {
    pub(crate) const ALL: [Self; 6] =
        [Self::Throttle, Self::Flat, Self::Max, Self::Exact, Self::Cost, Self::Latency];
    pub(crate) const FIRST: Self = Self::Throttle;
    pub(crate) const FIRST_GATE: Self = Self::Cost;

    /// Returns true if a worker submits what the stage held, as in the kernel.
    pub(crate) const fn has_worker(self) -> bool {
        matches!(self, Self::Flat | Self::Max)
    }

    /// Returns the next stage of the same kind.
    pub(crate) const fn next(self) -> Option<Self> {
        match self {
            Self::Throttle => Some(Self::Flat),
            Self::Flat => Some(Self::Max),
            Self::Max => Some(Self::Exact),
            Self::Cost => Some(Self::Latency),
            Self::Exact | Self::Latency => None,
        }
    }

    pub(crate) const fn is_gate(self) -> bool {
        matches!(self, Self::Cost | Self::Latency)
    }
}
