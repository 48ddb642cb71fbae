//! Statistics of the page cache: waits by cause, and the results of reads and writes. Cost: O(1)
//! per call.

use super::CallKind;
use elevon_core::units::Nanos;

/// The reason why a task sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A page fault.
    Fault,
    /// A read.
    Read,
    /// A write, which may sleep to read a page that it fills only in part, or because it is written
    /// through.
    Write,
    /// fsync, fdatasync, sync_file_range, and other calls that wait for writes.
    Fsync,
    /// A pause because of the dirty limits. Each pause counts as one wait.
    DirtyPause,
    /// A sleep because no memory is free. Each sleep counts as one wait; like a pause, it is not
    /// part of the call's own wait for I/O.
    Memory,
}

impl Cause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Fault, Self::Read, Self::Write, Self::Fsync, Self::DirtyPause, Self::Memory];

    /// Returns the cause's name in reports.
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

    pub(super) const fn from_kind(kind: CallKind) -> Self {
        match kind {
            CallKind::Fault { .. } => Self::Fault,
            CallKind::Read => Self::Read,
            CallKind::Write => Self::Write,
            CallKind::Fsync
            | CallKind::Fdatasync
            | CallKind::SyncRange(_)
            | CallKind::Fadvise(_)
            | CallKind::Madvise(_)
            | CallKind::Truncate
            | CallKind::DropCaches
            | CallKind::Invalidate
            | CallKind::Discard
            | CallKind::FlushBuffers
            | CallKind::LastClose => Self::Fsync,
        }
    }
}

/// Waits of one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitStats {
    /// Calls; touches of mapped pages are not faults and not counted.
    pub count: u64,
    /// Major faults: the page was not cached, or not up to date.
    pub major: u64,
    /// Calls that slept for I/O.
    pub slept: u64,
    /// Total time slept. A sleep ends when the I/O completes; a caller that models the CPU
    /// scheduler adds the time until the task runs again.
    pub iowait: Nanos,
}

/// The number and total time of waits of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// As [`WaitStats::count`].
    pub count: u64,
    /// As [`WaitStats::major`].
    pub major: u64,
    /// As [`WaitStats::slept`].
    pub slept: u64,
    /// As [`WaitStats::iowait`].
    pub iowait: Nanos,
}

/// A cache's counters and levels at an instant. Counters are totals since the start; levels are in
/// pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Pages that reads found cached and up to date.
    pub hits: u64,
    /// Pages that reads waited for.
    pub misses: u64,
    /// Touches of mapped pages.
    pub touches: u64,
    /// Waits, by [`Cause`].
    pub waits: [Waits; Cause::ALL.len()],
    /// Bios that were submitted to the device. They are counted by the code that submits them, not
    /// by the cache.
    pub bios: u64,
    /// Bios whose class was raised to RT because of their content, or because of the rule that
    /// replaces it.
    pub promoted: u64,
    /// Pages that came back soon after their eviction.
    pub refaulted: u64,
    /// Refaulted pages that returned to the working set.
    pub restored: u64,
    /// Pages that kswapd freed.
    pub kswapd_reclaimed: u64,
    /// Pages that direct reclaim freed.
    pub direct_reclaimed: u64,
    /// Pages that became dirty.
    pub dirtied: u64,
    /// Pages that were written.
    pub written: u64,
    /// Level: pages in memory.
    pub cached: u64,
    /// Level: pages in memory that are mapped.
    pub mapped: u64,
    /// Level: dirty pages that are not under writeback.
    pub dirty: u64,
    /// Level: pages under writeback.
    pub writeback: u64,
    /// Level: free frames.
    pub free: u64,
    /// Level: the number of pages, dirty or under writeback, at which writers stop.
    pub dirty_limit: u64,
    /// Level: the number of dirty pages at which the flusher begins.
    pub dirty_background: u64,
}

impl Reading {
    /// Returns the change since an earlier reading: counters as differences, levels unchanged.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut waits = self.waits;
        for (mine, theirs) in waits.iter_mut().zip(&earlier.waits) {
            mine.count -= theirs.count;
            mine.major -= theirs.major;
            mine.slept -= theirs.slept;
            mine.iowait = mine.iowait.saturating_sub(theirs.iowait);
        }
        Self {
            waits,
            hits: self.hits - earlier.hits,
            misses: self.misses - earlier.misses,
            touches: self.touches - earlier.touches,
            bios: self.bios - earlier.bios,
            promoted: self.promoted - earlier.promoted,
            refaulted: self.refaulted - earlier.refaulted,
            restored: self.restored - earlier.restored,
            kswapd_reclaimed: self.kswapd_reclaimed - earlier.kswapd_reclaimed,
            direct_reclaimed: self.direct_reclaimed - earlier.direct_reclaimed,
            dirtied: self.dirtied - earlier.dirtied,
            written: self.written - earlier.written,
            ..*self
        }
    }
}

/// All statistics of a cache; see [`super::PageCache::resident`] for those of the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    waits: [WaitStats; Cause::ALL.len()],
    /// Pages that reads found cached and up to date.
    pub hits: u64,
    /// Pages that reads had to wait for or to read.
    pub misses: u64,
    /// Touches that needed no fault.
    pub touches: u64,
    /// Pages that became dirty.
    pub dirtied: u64,
    /// Pages that were written.
    pub written: u64,
    /// Pages mapped by fault-around, without the page that faulted.
    pub mapped_around: u64,
    /// Rounds of direct reclaim.
    pub direct_reclaims: u64,
    /// Pages that direct reclaim freed.
    pub direct_reclaimed: u64,
    /// Pages that direct reclaim scanned.
    pub direct_scanned: u64,
    /// Pages that kswapd freed.
    pub kswapd_reclaimed: u64,
    /// Pages that kswapd scanned.
    pub kswapd_scanned: u64,
    /// Dirty pages that kswapd wrote itself.
    pub kswapd_written: u64,
    /// Idle programs that were killed for their memory.
    pub oom_kills: u64,
    /// Calls that failed because no memory was found.
    pub out_of_memory: u64,
}

impl CacheStats {
    /// Returns the waits of a cause.
    pub const fn waits(&self, cause: Cause) -> &WaitStats {
        &self.waits[cause as usize]
    }

    #[inline]
    pub(super) fn call_ended(&mut self, cause: Cause, waited: Nanos, is_major: bool) {
        let waits = &mut self.waits[cause as usize];
        waits.count += 1;
        waits.major += u64::from(is_major);
        if !waited.is_zero() {
            waits.sleep(waited);
        }
    }

    /// Counts a read of one page that was a hit.
    #[inline]
    pub(super) const fn read_hit(&mut self) {
        self.waits[Cause::Read as usize].count += 1;
        self.hits += 1;
    }

    pub(super) fn slept(&mut self, cause: Cause, span: Nanos) {
        let waits = &mut self.waits[cause as usize];
        waits.count += 1;
        waits.sleep(span);
    }
}

impl WaitStats {
    pub(super) const fn reading(&self) -> Waits {
        let &Self { count, major, slept, iowait, .. } = self;
        Waits { count, major, slept, iowait }
    }

    fn sleep(&mut self, waited: Nanos) {
        self.slept += 1;
        self.iowait += waited;
    }
}
