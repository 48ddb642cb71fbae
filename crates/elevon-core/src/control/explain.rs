//! Why a tenant's I/O took as long as it did: every nanosecond from entry to completion, by cause.
//!
//! A bio carries a stamp of when it began to wait for what it waits for now; whoever lets it go on charges the time since to a
//! [`Cause`] and sets the stamp anew. So the causes of a tenant always sum to the time its bios spent, to the nanosecond.

extern crate alloc;
use alloc::collections::BTreeMap;

use crate::units::{Nanos, TenantId};

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

/// What an I/O waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A limit: its own tenant's, or an ancestor's.
    Limit {
        /// Whose limit.
        level: TenantId,
        /// Which.
        rule: Rule,
    },
    /// Its turn behind its own tenant's I/O that a limit holds (FIFO order), at the level of that queue.
    LimitQueue {
        /// Whose queue.
        level: TenantId,
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
    /// Cache flushes before or after its data.
    Flush,
    /// The device.
    Device,
}

/// Time by tenant and cause.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    waits: BTreeMap<(TenantId, Cause), Nanos>,
}

impl Ledger {
    /// A tenant's I/O waited so long for this. O(log of what was ever written).
    pub fn add(&mut self, tenant: TenantId, cause: Cause, time: Nanos) {
        if !time.is_zero() {
            let entry = self.waits.entry((tenant, cause)).or_insert(Nanos::ZERO);
            *entry += time;
        }
    }

    /// Everything, by tenant and then by cause.
    pub fn iter(&self) -> impl Iterator<Item = (TenantId, Cause, Nanos)> + '_ {
        self.waits.iter().map(|(&(tenant, cause), &time)| (tenant, cause, time))
    }
}
