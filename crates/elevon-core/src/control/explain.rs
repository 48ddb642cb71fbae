//! Why a tenant's I/O took as long as it did: every nanosecond from entry to completion, by cause.
//!
//! A bio carries a stamp of when it began to wait for what it waits for now; whoever lets it go on
//! charges the time since to a [`Cause`] and sets the stamp anew. So the causes of a tenant always
//! sum to the time its bios spent, to the nanosecond. Waiting for the scheduler is divided further,
//! by whom the device was given instead: [`SchedulerWaits`].
//!
//! Cost: O(log of the tenant's causes) to charge one; 24 bytes a tenant and 40 for each cause that
//! it met.

extern crate alloc;
use alloc::vec::Vec;

use crate::tenant::{ROOT, Tenants};
use crate::units::{Nanos, TenantId};

mod scheduler_waits;

pub use scheduler_waits::SchedulerWaits;

/// Which limit held an I/O back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// `io.max` rbps.
    ReadBps,
    /// `io.max` wbps.
    WriteBps,
    /// `io.max` riops.
    ReadIops,
    /// `io.max` wiops.
    WriteIops,
    /// Both directions together, bytes (ours).
    Bps,
    /// Both directions together, I/Os (ours).
    Iops,
    /// `blockio.bandwidth-max` of io-throttle.
    Bandwidth,
    /// `blockio.iops-max` of io-throttle.
    IopsMax,
}

impl Rule {
    /// The key that sets it: `rbps` and its like, or the file of io-throttle.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadBps => "rbps",
            Self::WriteBps => "wbps",
            Self::ReadIops => "riops",
            Self::WriteIops => "wiops",
            Self::Bps => "bps",
            Self::Iops => "iops",
            Self::Bandwidth => "blockio.bandwidth-max",
            Self::IopsMax => "blockio.iops-max",
        }
    }

    /// Whether it counts bytes rather than I/Os.
    pub const fn counts_bytes(self) -> bool {
        match self {
            Self::ReadBps | Self::WriteBps | Self::Bps | Self::Bandwidth => true,
            Self::ReadIops | Self::WriteIops | Self::Iops | Self::IopsMax => false,
        }
    }
}

/// What an I/O waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A limit, its own tenant's or an ancestor's, that held it or what stood before it in its
    /// queue.
    Limit {
        /// Whose limit.
        level: TenantId,
        /// Which.
        rule: Rule,
    },
    /// Its share of the device's time (io.cost).
    Cost,
    /// Debt of its tenant's I/O that had to be issued at once (io.cost).
    Debt,
    /// A neighbour's latency target (io.latency), by its depth at this level.
    Latency {
        /// Whose depth was cut.
        level: TenantId,
    },
    /// A free request (`nr_requests`), or what a scheduler lets be allocated.
    Tag,
    /// Its task's plug.
    Plug,
    /// The scheduler, which served this tenant meanwhile: another's I/O, or its own.
    Scheduler {
        /// Whom it served; `None` where it served nobody (idling, or a busy driver).
        served: Option<TenantId>,
    },
    /// The scheduler, while it served somebody of the many that [`SchedulerWaits`] does not tell
    /// apart.
    SchedulerOthers,
    /// Cache flushes before or after its data.
    Flush,
    /// The device.
    Device,
    /// The clock that calls limits: what a bio waited after its limits would have let it go. Zero
    /// in virtual time.
    LateTimer,
}

/// Why a policy held I/O back, as operators ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A limit on bytes a second.
    Bps,
    /// A limit on I/Os a second.
    Iops,
    /// Its share of the device, or debt (io.cost).
    Weight,
    /// A neighbour's latency target (io.latency).
    Latency,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::Bps, Self::Iops, Self::Weight, Self::Latency];

    /// Its name as a key: `bps`, `iops`, `weight`, `latency`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bps => "bps",
            Self::Iops => "iops",
            Self::Weight => "weight",
            Self::Latency => "latency",
        }
    }
}

impl Cause {
    /// Under which reason it counts as throttling; `None` where no policy held the I/O.
    pub const fn reason(self) -> Option<Reason> {
        match self {
            Self::Limit { rule, .. } if rule.counts_bytes() => Some(Reason::Bps),
            Self::Limit { .. } => Some(Reason::Iops),
            Self::Cost | Self::Debt => Some(Reason::Weight),
            Self::Latency { .. } => Some(Reason::Latency),
            Self::Tag
            | Self::Plug
            | Self::Scheduler { .. }
            | Self::SchedulerOthers
            | Self::Flush
            | Self::Device
            | Self::LateTimer => None,
        }
    }
}

/// What was waited for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Waits that took any time; not counted for the scheduler, whose waits are divided.
    pub count: u64,
    /// All of them together.
    pub time: Nanos,
}

impl Wait {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.time += other.time;
    }
}

/// Time by tenant and cause.
#[derive(Clone, Debug, Default)]
pub struct WaitBreakdown {
    /// By tenant; causes in order.
    rows: Vec<Vec<(Cause, Wait)>>,
}

impl WaitBreakdown {
    /// A tenant's I/O waited so long for this, once.
    pub fn add(&mut self, tenant: TenantId, cause: Cause, time: Nanos) {
        if !time.is_zero() {
            self.add_wait(tenant, cause, Wait { count: 1, time });
        }
    }

    fn add_wait(&mut self, tenant: TenantId, cause: Cause, wait: Wait) {
        if tenant.index() >= self.rows.len() {
            self.rows.resize(tenant.index() + 1, Vec::new());
        }
        let row = &mut self.rows[tenant.index()];
        match row.binary_search_by_key(&cause, |&(at, _)| at) {
            Ok(at) => row[at].1.add(wait),
            Err(at) => row.insert(at, (cause, wait)),
        }
    }

    /// Everything, by tenant and then by cause.
    pub fn iter(&self) -> impl Iterator<Item = (TenantId, Cause, Nanos)> + '_ {
        let rows = self.rows.iter().enumerate();
        rows.flat_map(|(at, row)| row.iter().map(move |&(cause, wait)| (TenantId(at as u32), cause, wait.time)))
    }

    /// What a tenant's own I/O waited for, by cause; of [`Self::rolled_up`], that of everybody
    /// below it too.
    pub fn of(&self, tenant: TenantId) -> &[(Cause, Wait)] {
        self.rows.get(tenant.index()).map_or(&[], Vec::as_slice)
    }

    /// What a policy held a tenant's own I/O back for.
    pub fn throttled(&self, tenant: TenantId, reason: Reason) -> Wait {
        let mut all = Wait::default();
        self.of(tenant).iter().filter(|(cause, _)| cause.reason() == Some(reason)).for_each(|&(_, wait)| all.add(wait));
        all
    }

    /// All the time that a tenant's own I/O took.
    pub fn total(&self, tenant: TenantId) -> Nanos {
        self.of(tenant).iter().fold(Nanos::ZERO, |sum, &(_, wait)| sum + wait.time)
    }

    /// With what lies below a tenant added to it, removed tenants included; nothing is added to the
    /// root. O(tenants).
    #[must_use]
    pub fn rolled_up(&self, tenants: &Tenants) -> Self {
        let mut all = self.clone();
        // A parent is always older than its children, so its id is smaller.
        for child in (1..all.rows.len()).rev().map(|id| TenantId(id as u32)) {
            let parent = tenants.parent(child).filter(|&parent| parent != ROOT);
            if let Some(parent) = parent {
                let row = core::mem::take(&mut all.rows[child.index()]);
                row.iter().for_each(|&(cause, wait)| all.add_wait(parent, cause, wait));
                all.rows[child.index()] = row;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests;
