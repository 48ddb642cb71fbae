//! The stages that hold a bio back: what they see, what they answer, what is asked of them.

extern crate alloc;
use alloc::vec::Vec;

use super::WaitBreakdown;
use crate::ioprio::IoPrio;
use crate::op::Op;
use crate::tenant::Tenants;
use crate::units::{BioId, Instant, Sector, TenantId};

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
pub struct BioCost {
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
    /// False for what is left of a split bio: its bytes were charged with the whole, it is one more
    /// I/O only.
    pub first: bool,
    /// Journal, metadata, memory release: goes at once and is charged later where a policy knows
    /// debt (META, SWAP flags).
    pub must_issue: bool,
    /// The submitter is a task that can be put to sleep; false for asynchronous submission and
    /// writeback.
    pub may_sleep: bool,
}

impl BioCost {
    /// A whole bio of default priority at sector 0, of a task that can sleep.
    #[inline]
    pub const fn plain(tenant: TenantId, op: Op, bytes: u64) -> Self {
        let (ioprio, sector) = (IoPrio::DEFAULT, Sector::ZERO);
        Self { tenant, op, ioprio, sector, bytes, first: true, must_issue: false, may_sleep: true }
    }

    /// Which limits apply.
    #[inline]
    pub const fn direction(&self) -> Direction {
        if self.op.is_write() { Direction::Write } else { Direction::Read }
    }
}

/// What became of a bio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageVerdict {
    /// It goes on, and was charged.
    Pass,
    /// It is kept; its submitter goes on (the kernel's io.max: the bio waits, the task only where
    /// it waits for the bio).
    Hold,
    /// It is kept, and its submitter sleeps until it is released (io-throttle's synchronous path,
    /// io.cost, io.latency). A submitter that may not sleep goes on in a worker.
    Sleep,
}

/// A stage before the split. Calls come with `now` never going back.
pub trait Limiter {
    /// Passes a bio and charges it, or keeps it.
    fn admit(&mut self, now: Instant, tenants: &Tenants, bio: BioId, charge: &BioCost) -> StageVerdict;
    /// When [`Self::release`] wants to be called; a time that has passed where something is due
    /// already.
    fn next_wakeup(&self) -> Option<Instant>;
    /// Puts what may go on now into `out`, in the order in which it goes, and charges every
    /// nanosecond between `admit` and now to the breakdown, to the tenant that the bio is
    /// charged to.
    fn release(&mut self, now: Instant, tenants: &Tenants, breakdown: &mut WaitBreakdown, out: &mut Vec<BioId>);
    /// Rules in force, over all tenants.
    fn live_rules(&self) -> u32;
    /// Whether bios have to be shown to [`Self::admit`]: while there is no rule they are not.
    fn must_be_asked(&self) -> bool {
        self.live_rules() > 0
    }
    /// Bios kept. No stage has a bound of its own: each bio is of an I/O that a source has under
    /// way, and those bound it.
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
    /// As in its [`BioCost`].
    pub must_issue: bool,
    /// When it was issued to the stack: limits had let it go, no gate had seen it (io.latency's
    /// clock).
    pub issued: Instant,
    /// When its request was allocated (io.cost's clock).
    pub allocated: Instant,
    /// When it was over.
    pub end: Instant,
}

/// A stage before a request is allocated.
pub trait Gate {
    /// Passes a fragment and charges it, or keeps it: [`StageVerdict::Sleep`].
    fn admit(&mut self, now: Instant, tenants: &Tenants, bio: BioId, charge: &BioCost) -> StageVerdict;
    /// A fragment joined a request that had passed: charged, never held.
    fn on_merge(&mut self, now: Instant, tenants: &Tenants, charge: &BioCost);
    /// A fragment that passed (not one that merged) is over.
    fn on_finish(&mut self, now: Instant, tenants: &Tenants, io: &Finished);
    /// As [`Limiter::next_wakeup`].
    fn next_wakeup(&self) -> Option<Instant>;
    /// As [`Limiter::release`].
    fn release(&mut self, now: Instant, tenants: &Tenants, breakdown: &mut WaitBreakdown, out: &mut Vec<BioId>);
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
    /// io-throttle.
    Throttle,
    /// v1's limits, which look at no ancestor.
    Flat,
    /// io.max.
    Max,
    /// Our limits.
    Exact,
    /// io.cost.
    Cost,
    /// io.latency.
    Latency,
}

impl Stage {
    pub(crate) const ALL: [Self; 6] = [Self::Throttle, Self::Flat, Self::Max, Self::Exact, Self::Cost, Self::Latency];
    pub(crate) const FIRST: Self = Self::Throttle;
    pub(crate) const FIRST_GATE: Self = Self::Cost;

    /// The next of its kind.
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
