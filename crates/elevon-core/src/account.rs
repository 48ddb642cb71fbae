//! Accounting: what `/sys/block/X/stat` would say, utilisation in four forms, latency by stage.
//!
//! The data path reports facts ([`Accounting::on_start`] ... [`Accounting::on_end`]); everything else is derived here.

use crate::kernel::IoTicksForm;
use crate::op::StatGroup;
use crate::stats::LatencyStat;
use crate::units::{Instant, Nanos, Sectors};

/// Counters of one group (reads, writes, discards) in `/sys/block/X/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounters {
    /// Requests completed, failed ones included (fields 1, 5, 12).
    pub ios: u64,
    /// Bios merged into requests, and requests merged into others (2, 6, 13).
    pub merges: u64,
    /// Sectors transferred (3, 7, 14).
    pub sectors: u64,
    /// Sum of the requests' times from allocation to completion; printed in ms (4, 8, 15).
    pub ticks: Nanos,
}

/// A snapshot of the statistics of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// When it was taken.
    pub at: Instant,
    /// Reads, writes, discards, by [`StatGroup`].
    pub groups: [GroupCounters; 3],
    /// Requests in flight by the kernel version's meaning (field 9).
    pub in_flight: u64,
    /// Busy time in ms by the chosen io_ticks form (field 10).
    pub io_ticks_ms: u64,
    /// Device flushes (16).
    pub flushes: u64,
    /// Sum of their times; printed in ms (17).
    pub flush_ticks: Nanos,
    /// Busy time by every form, whatever the chosen one.
    pub utilisation: Utilisation,
    /// Integral of requests in flight over time, in request-nanoseconds; exact mean queue depth is its change over time.
    pub in_flight_integral: u128,
}

/// Busy time of a device by each form of io_ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Utilisation {
    /// 5.7 to 6.9, ms.
    pub sampled_ms: u64,
    /// Seed 003, ms.
    pub inflight_ms: u64,
    /// 6.10 and later, ms.
    pub precise_ms: u64,
    /// Ours, nanoseconds.
    pub exact: Nanos,
}

/// Everything that is known of a request when it ends: the one fact that statistics, histograms and reports are made of.
#[derive(Clone, Copy, Debug)]
pub struct CompletionFact {
    /// Group it counts in.
    pub group: StatGroup,
    /// When it was allocated.
    pub start: Instant,
    /// When it was (last) given to the driver.
    pub issued: Instant,
    /// When it ended.
    pub end: Instant,
}

/// The accounting of one device.
#[derive(Default)]
pub struct Accounting {
    s: DiskStats,
    q: [LatencyStat; 3],
    d: [LatencyStat; 3],
}
#[allow(missing_docs)]
impl Accounting {
    pub fn new(_form: IoTicksForm, _hz: u32, _hw_queues: u16, _x: bool) -> Self {
        Self::default()
    }
    pub fn on_start(&mut self, _now: Instant, _tags_in_use: u32) {
        self.s.in_flight += 1;
    }
    pub fn on_issue(&mut self, _now: Instant) {}
    pub fn on_requeue(&mut self, _now: Instant) {}
    pub fn on_merge(&mut self, g: StatGroup) {
        self.s.groups[g as usize].merges += 1;
    }
    pub fn on_request_merged(&mut self, _now: Instant, g: StatGroup) {
        self.s.groups[g as usize].merges += 1;
        self.s.in_flight -= 1;
    }
    pub fn on_sectors(&mut self, g: StatGroup, n: Sectors) {
        self.s.groups[g as usize].sectors += n.get();
    }
    pub fn on_end(&mut self, f: &CompletionFact, started: bool) {
        let g = &mut self.s.groups[f.group as usize];
        g.ios += 1;
        g.ticks += f.end - f.start;
        self.s.in_flight -= 1;
        if started {
            self.q[f.group as usize].add((f.issued - f.start).get());
            self.d[f.group as usize].add((f.end - f.issued).get());
        }
    }
    pub fn on_flush_end(&mut self, start: Instant, end: Instant) {
        self.s.flushes += 1;
        self.s.flush_ticks += end - start;
    }
    pub fn read(&mut self, now: Instant) -> DiskStats {
        self.s.at = now;
        self.s
    }
    pub fn queued_to_dispatched(&self, g: StatGroup) -> &LatencyStat {
        &self.q[g as usize]
    }
    pub fn dispatched_to_completed(&self, g: StatGroup) -> &LatencyStat {
        &self.d[g as usize]
    }
}

impl DiskStats {
    /// The 17 numbers of `/sys/block/X/stat`.
    pub fn fields(&self) -> [u64; 17] {
        let [r, w, d] = self.groups;
        let total = r.ticks + w.ticks + d.ticks + self.flush_ticks;
        [
            r.ios,
            r.merges,
            r.sectors,
            r.ticks.as_millis(),
            w.ios,
            w.merges,
            w.sectors,
            w.ticks.as_millis(),
            self.in_flight,
            self.io_ticks_ms,
            total.as_millis(),
            d.ios,
            d.merges,
            d.sectors,
            d.ticks.as_millis(),
            self.flushes,
            self.flush_ticks.as_millis(),
        ]
    }
}
