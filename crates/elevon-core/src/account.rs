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
pub struct Accounting {
    _private: (),
}

impl Accounting {
    /// Starts from zero. `hz` is the tick rate (100 to 1000) that the whole-jiffy forms count in; `in_flight_from_allocation` as
    /// in [`crate::kernel::Rules`].
    pub fn new(_form: IoTicksForm, _hz: u32, _hw_queues: u16, _in_flight_from_allocation: bool) -> Self {
        todo!()
    }
    /// A request was allocated and counts from now on. `tags_in_use` counts this one too (seed 003's test).
    pub fn on_start(&mut self, _now: Instant, _tags_in_use: u32) {
        todo!()
    }
    /// A request was given to the driver.
    pub fn on_issue(&mut self, _now: Instant) {
        todo!()
    }
    /// The driver gave a started request back.
    pub fn on_requeue(&mut self, _now: Instant) {
        todo!()
    }
    /// A bio was merged into a request.
    pub fn on_merge(&mut self, _group: StatGroup) {
        todo!()
    }
    /// A request that had been allocated was swallowed by another: it ends without a completion of its own.
    pub fn on_request_merged(&mut self, _now: Instant, _group: StatGroup) {
        todo!()
    }
    /// Part of a request completed.
    pub fn on_sectors(&mut self, _group: StatGroup, _sectors: Sectors) {
        todo!()
    }
    /// A request ended. `started`: it was in the driver.
    pub fn on_end(&mut self, _fact: &CompletionFact, _started: bool) {
        todo!()
    }
    /// A device flush ended.
    pub fn on_flush_end(&mut self, _start: Instant, _end: Instant) {
        todo!()
    }
    /// What the stat file shows when read now; reading moves io_ticks forward while something is in flight.
    pub fn read(&mut self, _now: Instant) -> DiskStats {
        todo!()
    }
    /// Latency from allocation to the driver, by group.
    pub fn queued_to_dispatched(&self, _group: StatGroup) -> &LatencyStat {
        todo!()
    }
    /// Latency from the driver to completion, by group.
    pub fn dispatched_to_completed(&self, _group: StatGroup) -> &LatencyStat {
        todo!()
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
