//! What is counted: waits by cause, and what reads and writes found. Cost: O(1) a call.

use super::CallKind;
use crate::histogram::Histogram;
use crate::units::Nanos;

/// Why a task sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A page fault.
    Fault,
    /// A read.
    Read,
    /// A write: a page it fills in part is read first, or it writes through.
    Write,
    /// fsync, fdatasync, sync_file_range, and what else waits for writes.
    Fsync,
    /// Too much is dirty. Each pause is one.
    DirtyPause,
    /// No memory is free. Each sleep is one, and is part of the call's own wait too.
    Memory,
}

impl Cause {
    /// Every cause, in the order of their numbers.
    pub const ALL: [Self; 6] = [Self::Fault, Self::Read, Self::Write, Self::Fsync, Self::DirtyPause, Self::Memory];

    /// The word for it in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Read => "read",
            Self::Write => "write",
            Self::Fsync => "fsync",
            Self::DirtyPause => "dirty_pause",
            Self::Memory => "memory",
        }
    }

    pub(super) const fn of(kind: CallKind) -> Self {
        match kind {
            CallKind::Fault { .. } => Self::Fault,
            CallKind::Read => Self::Read,
            CallKind::Write => Self::Write,
            CallKind::Fsync
            | CallKind::Fdatasync
            | CallKind::SyncRange
            | CallKind::Fadvise(_)
            | CallKind::Truncate
            | CallKind::DropCaches
            | CallKind::Invalidate => Self::Fsync,
        }
    }
}

/// Waits of one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitStats {
    /// Calls; touches of mapped pages are not faults and not counted.
    pub count: u64,
    /// Faults that did not find their page ready.
    pub major: u64,
    /// Calls that slept.
    pub slept: u64,
    /// Time slept by all. Ends when the I/O ends: a caller that models the scheduler adds what it takes to run again.
    pub iowait: Nanos,
    /// Of that, the time the device worked on the bios that ended the sleeps; the rest is queueing.
    pub device: Nanos,
    /// Sleeps a call, of calls that slept; grown with the first.
    pub histogram: Option<Histogram>,
}

/// All statistics of a cache; see [`super::PageCache::resident`] for those of the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    waits: [WaitStats; Cause::ALL.len()],
    /// Sleeps ended by bios of each class: NONE, RT, BE, IDLE.
    pub woken_by: [u64; 4],
    /// Pages that reads found in memory and readable.
    pub hits: u64,
    /// Pages that reads had to wait for or to read.
    pub misses: u64,
    /// Touches that needed no fault.
    pub touches: u64,
    /// Pages that became dirty.
    pub dirtied: u64,
    /// Pages mapped by fault-around beside the one that faulted.
    pub mapped_around: u64,
    /// Rounds of direct reclaim, and pages they freed.
    pub direct_reclaims: u64,
    /// Pages that direct reclaim freed.
    pub direct_reclaimed: u64,
    /// Pages that kswapd freed.
    pub kswapd_reclaimed: u64,
    /// Calls that ended because no memory could be found.
    pub out_of_memory: u64,
}

impl CacheStats {
    /// Waits of a cause.
    pub const fn waits(&self, cause: Cause) -> &WaitStats {
        &self.waits[cause as usize]
    }

    #[inline]
    pub(super) fn call_ended(&mut self, cause: Cause, waited: Nanos, device: Nanos, is_major: bool) {
        let waits = &mut self.waits[cause as usize];
        waits.count += 1;
        waits.major += u64::from(is_major);
        if !waited.is_zero() {
            waits.sleep(waited, device);
        }
    }

    /// A read found its one page.
    #[inline]
    pub(super) const fn read_hit(&mut self) {
        self.waits[Cause::Read as usize].count += 1;
        self.hits += 1;
    }

    pub(super) fn slept(&mut self, cause: Cause, span: Nanos) {
        let waits = &mut self.waits[cause as usize];
        waits.count += 1;
        waits.sleep(span, Nanos::ZERO);
    }
}

impl WaitStats {
    fn sleep(&mut self, waited: Nanos, device: Nanos) {
        self.slept += 1;
        self.iowait += waited;
        self.device += device;
        self.histogram.get_or_insert_default().add(waited.get());
    }
}
