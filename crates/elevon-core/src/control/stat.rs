//! Statistics per tenant: `io.stat` of a cgroup, latencies, I/O in flight.
//!
//! A bio counts when its limiters have released it, so a bio that fails later counts too: its bytes
//! once, and one I/O for every fragment that it is split into. As in Linux. Counters are those of a
//! tenant alone; those of tenants below it are added when they are read ([`Statistics::rolled_up`],
//! O(tenants)), so a bio costs O(1) at any depth. 64 bytes per tenant, and a [`Histogram`]
//! once it has completed a fragment.

extern crate alloc;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::histogram::Histogram;
use crate::op::StatGroup;
use crate::tenant::{ROOT, Tenants};
use crate::units::{Bytes, Nanos, TenantId};

/// The six counters of `io.stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounters {
    /// Bytes of bios as built, by [`StatGroup`].
    pub bytes: [u64; 3],
    /// Fragments, by [`StatGroup`]; flushes without data are writes.
    pub ios: [u64; 3],
}

/// Statistics of one tenant.
#[derive(Clone, Debug, Default)]
pub struct TenantStat {
    /// Bios that the limiters have released so far.
    pub counters: IoCounters,
    /// Of these, bios that were tried in vain: a worker of io_uring did their calls again.
    tries: IoCounters,
    /// Fragments issued and not completed.
    pub in_flight: u64,
    latency: Option<Box<Histogram>>,
}

/// Statistics of all tenants.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    tenants: Vec<TenantStat>,
}

/// A line of `io.stat`; see [`IoCounters::line`].
#[derive(Clone, Copy, Debug)]
pub struct IoStatLine {
    counters: IoCounters,
    major: u32,
    minor: u32,
}

impl IoCounters {
    /// Returns the line of a device in `io.stat`, without a newline. The counters are left out if
    /// there was neither a read nor a write, even if there were discards: as in Linux 6.1.
    pub const fn line(self, major: u32, minor: u32) -> IoStatLine {
        IoStatLine { counters: self, major, minor }
    }

    /// Returns the bytes of all three groups.
    pub const fn all_bytes(&self) -> u64 {
        self.bytes[0] + self.bytes[1] + self.bytes[2]
    }

    /// Returns the I/Os of all three groups.
    pub const fn all_ios(&self) -> u64 {
        self.ios[0] + self.ios[1] + self.ios[2]
    }

    fn add(&mut self, other: &Self) {
        for group in 0..3 {
            self.bytes[group] += other.bytes[group];
            self.ios[group] += other.ios[group];
        }
    }
}

impl fmt::Display for IoStatLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)?;
        let IoCounters { bytes: [rbytes, wbytes, dbytes], ios: [rios, wios, dios] } = self.counters;
        if rbytes | wbytes | rios | wios == 0 {
            return Ok(());
        }
        write!(
            f,
            " rbytes={rbytes} wbytes={wbytes} rios={rios} wios={wios} dbytes={dbytes} dios={dios}"
        )
    }
}

impl TenantStat {
    /// Returns how long completed fragments took since the limiters released them, in nanoseconds;
    /// `None` before the first has completed.
    pub fn latency(&self) -> Option<&Histogram> {
        self.latency.as_deref()
    }

    /// Returns the counters without bios that were tried in vain. So each I/O counts once.
    pub fn done(&self) -> IoCounters {
        // A try whose tenant was removed meanwhile is counted at two tenants.
        let less = |all: [u64; 3], tries: [u64; 3]| {
            core::array::from_fn(|at| all[at].saturating_sub(tries[at]))
        };
        IoCounters {
            bytes: less(self.counters.bytes, self.tries.bytes),
            ios: less(self.counters.ios, self.tries.ios),
        }
    }

    fn add(&mut self, other: &Self) {
        self.counters.add(&other.counters);
        self.tries.add(&other.tries);
        self.in_flight += other.in_flight;
        if let Some(theirs) = other.latency() {
            self.latency.get_or_insert_default().merge(theirs);
        }
    }
}

impl Statistics {
    fn entry(&mut self, tenant: TenantId) -> &mut TenantStat {
        if tenant.index() >= self.tenants.len() {
            self.tenants.resize_with(tenant.index() + 1, TenantStat::default);
        }
        &mut self.tenants[tenant.index()]
    }

    /// Counts a bio that the limiters released, or (`first` false) the remainder of a split, whose
    /// bytes were counted with the whole. `bytes` is its true length, also for a discard.
    #[inline]
    pub fn on_issue(&mut self, tenant: TenantId, group: StatGroup, bytes: Bytes, first: bool) {
        let stat = self.entry(tenant);
        if first {
            stat.counters.bytes[group as usize] += bytes.get();
        }
        stat.counters.ios[group as usize] += 1;
        stat.in_flight += 1;
    }

    /// Counts the completion of a fragment that was issued, with its latency.
    #[inline]
    pub fn on_finish(&mut self, tenant: TenantId, latency: Nanos) {
        self.on_drop(tenant);
        self.entry(tenant).latency.get_or_insert_default().add(latency.get());
    }

    /// Ends a fragment that was issued without becoming a request; its time is not counted.
    #[inline]
    pub(crate) fn on_drop(&mut self, tenant: TenantId) {
        let stat = self.entry(tenant);
        debug_assert!(stat.in_flight > 0, "a fragment ends that was not issued");
        stat.in_flight = stat.in_flight.saturating_sub(1);
    }

    /// Ends a bio that was issued and tried in vain.
    pub(crate) fn on_try(&mut self, tenant: TenantId, group: StatGroup, bytes: Bytes) {
        self.on_drop(tenant);
        let tries = &mut self.entry(tenant).tries;
        tries.bytes[group as usize] += bytes.get();
        tries.ios[group as usize] += 1;
    }

    /// Returns true if no tenant did I/O.
    pub const fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// Moves a fragment that was issued to another tenant, because its own was removed.
    pub(crate) fn on_move(&mut self, from: TenantId, to: TenantId) {
        self.on_drop(from);
        self.entry(to).in_flight += 1;
    }

    /// Returns [`TenantStat::done`] of a tenant's own I/O.
    pub fn done(&self, tenant: TenantId) -> IoCounters {
        self.tenants.get(tenant.index()).map_or_else(IoCounters::default, TenantStat::done)
    }

    /// Returns the statistics of a tenant's own I/O; in [`Self::rolled_up`] including all tenants
    /// below it.
    pub fn of(&self, tenant: TenantId) -> TenantStat {
        self.tenants.get(tenant.index()).cloned().unwrap_or_default()
    }

    /// Returns statistics in which each tenant includes all tenants below it, also removed ones.
    /// Nothing is added to the root, as in Linux.
    #[must_use]
    pub fn rolled_up(&self, tenants: &Tenants) -> Self {
        let mut all = self.clone();
        // A parent is always older than its children, so its id is smaller.
        for child in (1..all.tenants.len()).rev() {
            let parent = tenants.parent(TenantId(child as u32)).filter(|&parent| parent != ROOT);
            if let Some(parent) = parent {
                let (above, below) = all.tenants.split_at_mut(child);
                above[parent.index()].add(&below[0]);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests;
