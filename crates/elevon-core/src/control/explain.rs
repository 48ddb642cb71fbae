//! Why a tenant's I/O took as long as it did: every nanosecond from entry to completion, by cause.
//!
//! A bio carries the time when its current wait began. The code that ends a wait adds the time
//! since then to a [`Cause`] and sets the stamp again. So the causes of a tenant always sum to the
//! time that its bios took, to the nanosecond. Waiting for the scheduler is divided further, by the
//! tenant whose I/O the device got instead: [`SchedulerWaits`].
//!
//! Cost: O(log of the tenant's causes) to add a wait; 24 bytes per tenant and 40 for each of its
//! causes.

extern crate alloc;
use alloc::vec::Vec;

use crate::tenant::{ROOT, Tenants};
use crate::units::{Nanos, TenantId};

mod scheduler_waits;

pub use scheduler_waits::SchedulerWaits;

/// The limit that held an I/O.
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
    /// Bytes of both directions together (not in Linux).
    Bps,
    /// I/Os of both directions together (not in Linux).
    Iops,
    /// `blockio.bandwidth-max` of io-throttle.
    Bandwidth,
    /// `blockio.iops-max` of io-throttle.
    IopsMax,
}

impl Rule {
    /// Returns the key that sets it: `rbps` and its like, or the file of io-throttle.
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

    /// Returns true if it counts bytes, false if it counts I/Os.
    pub(crate) const fn counts_bytes(self) -> bool {
        match self {
            Self::ReadBps | Self::WriteBps | Self::Bps | Self::Bandwidth => true,
            Self::ReadIops | Self::WriteIops | Self::Iops | Self::IopsMax => false,
        }
    }
}

/// The cause of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A limit of its own tenant or an ancestor, which held it or a bio before it in the queue.
    Limit {
        /// The tenant that has the limit.
        level: TenantId,
        /// The limit.
        rule: Rule,
    },
    /// Its tenant's share of the device's time was used up (io.cost).
    Cost,
    /// Its tenant had debt from I/O that had to be issued at once (io.cost).
    Debt,
    /// A sibling's latency target reduced the depth at this level (io.latency).
    Latency {
        /// The tenant whose depth was reduced.
        level: TenantId,
    },
    /// A free request (`nr_requests`), or the depth limit of the scheduler.
    Tag,
    /// Writeback throttling (wbt), which keeps the latency of reads.
    Writeback,
    /// Its task's plug.
    Plug,
    /// The scheduler, which served this tenant meanwhile: another tenant or its own.
    Scheduler {
        /// The tenant that was served; `None` if none was (idling, or a busy driver).
        served: Option<TenantId>,
    },
    /// The scheduler, while it served one of the tenants that [`SchedulerWaits`] does not record
    /// separately.
    SchedulerOthers,
    /// Cache flushes before or after its data.
    Flush,
    /// The device.
    Device,
    /// Late timer calls: the time that a bio waited after its limits would have let it go. Zero in
    /// virtual time.
    LateTimer,
}

/// Why a policy held I/O, in the terms of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A limit on bytes a second.
    Bps,
    /// A limit on I/Os a second.
    Iops,
    /// The tenant's share of the device, or its debt (io.cost).
    Weight,
    /// A sibling's latency target (io.latency).
    Latency,
    /// Writeback throttling.
    Wbt,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 5] = [Self::Bps, Self::Iops, Self::Weight, Self::Latency, Self::Wbt];

    /// Its name as a key: `bps`, `iops`, `weight`, `latency`, `wbt`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bps => "bps",
            Self::Iops => "iops",
            Self::Weight => "weight",
            Self::Latency => "latency",
            Self::Wbt => "wbt",
        }
    }
}

impl Cause {
    /// Returns its name as a key of JSON and a label of metrics, which never changes: `limit`,
    /// `cost`, `debt`, `latency`, `tag`, `wbt`, `plug`, `scheduler` (whomever it served), `flush`,
    /// `device`, `late_timer`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Limit { .. } => "limit",
            Self::Cost => "cost",
            Self::Debt => "debt",
            Self::Latency { .. } => "latency",
            Self::Tag => "tag",
            Self::Writeback => "wbt",
            Self::Plug => "plug",
            Self::Scheduler { .. } | Self::SchedulerOthers => "scheduler",
            Self::Flush => "flush",
            Self::Device => "device",
            Self::LateTimer => "late_timer",
        }
    }

    /// Returns the tenant at which a limit or a latency target held the I/O.
    pub const fn level(self) -> Option<TenantId> {
        match self {
            Self::Limit { level, .. } | Self::Latency { level } => Some(level),
            Self::Cost
            | Self::Debt
            | Self::Tag
            | Self::Writeback
            | Self::Plug
            | Self::Scheduler { .. }
            | Self::SchedulerOthers
            | Self::Flush
            | Self::Device
            | Self::LateTimer => None,
        }
    }

    /// Returns the reason under which the cause counts as throttling; `None` if no policy held the
    /// I/O.
    pub const fn reason(self) -> Option<Reason> {
        match self {
            Self::Limit { rule, .. } if rule.counts_bytes() => Some(Reason::Bps),
            Self::Limit { .. } => Some(Reason::Iops),
            Self::Cost | Self::Debt => Some(Reason::Weight),
            Self::Latency { .. } => Some(Reason::Latency),
            Self::Writeback => Some(Reason::Wbt),
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

/// The waits for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Waits longer than zero; not counted for the scheduler, whose waits are divided. One that
    /// [`Stack::settle_waits`](crate::stack::Stack::settle_waits) divided counts for each part.
    pub count: u64,
    /// Their total time.
    pub time: Nanos,
}

impl Wait {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.time += other.time;
    }
}

/// Waiting time by tenant and cause.
#[derive(Clone, Debug, Default)]
pub struct WaitBreakdown {
    /// Indexed by tenant; the causes are in order.
    rows: Vec<Vec<(Cause, Wait)>>,
}

impl WaitBreakdown {
    /// Adds one wait of a tenant's I/O for a cause.
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

    /// Iterates over all waiting times, by tenant and then by cause.
    pub fn iter(&self) -> impl Iterator<Item = (TenantId, Cause, Nanos)> + '_ {
        let rows = self.rows.iter().enumerate();
        rows.flat_map(|(at, row)| {
            row.iter().map(move |&(cause, wait)| (TenantId(at as u32), cause, wait.time))
        })
    }

    /// Returns the waits of a tenant's own I/O, by cause; in [`Self::rolled_up`] with those of all
    /// tenants below it.
    pub fn of(&self, tenant: TenantId) -> &[(Cause, Wait)] {
        self.rows.get(tenant.index()).map_or(&[], Vec::as_slice)
    }

    /// Returns how long policies held a tenant's own I/O, for one reason.
    pub fn throttled(&self, tenant: TenantId, reason: Reason) -> Wait {
        let mut all = Wait::default();
        self.of(tenant)
            .iter()
            .filter(|(cause, _)| cause.reason() == Some(reason))
            .for_each(|&(_, wait)| all.add(wait));
        all
    }

    /// Returns the total time of a tenant's own I/O.
    pub fn total(&self, tenant: TenantId) -> Nanos {
        self.of(tenant).iter().fold(Nanos::ZERO, |sum, &(_, wait)| sum + wait.time)
    }

    /// Returns a breakdown in which each tenant includes all tenants below it, also removed ones;
    /// nothing is added to the root. O(tenants).
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
