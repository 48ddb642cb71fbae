//! What the last seconds of disks were like, as plain values for screens and files.

use elevon_trace::DeviceNumber;

use crate::finding::Standing;
use crate::owner::UnitKind;

/// Rows of a heat map of latency.
pub const HEAT_ROWS: usize = 24;

/// Nanoseconds at which the second row begins: four microseconds.
const HEAT_FIRST: u64 = 1 << 12;

/// Returns the shortest latency of a row of a heat map, in nanoseconds: 0, 4.1 us, and twice the
/// one before. The last row has everything from 17 s on.
pub const fn heat_floor(row: usize) -> u64 {
    if row == 0 { 0 } else { HEAT_FIRST << (row - 1) }
}

/// Returns the row of a latency in nanoseconds.
pub(crate) const fn heat_row(ns: u64) -> usize {
    let row = (u64::BITS - (ns >> 12).leading_zeros()) as usize;
    if row < HEAT_ROWS { row } else { HEAT_ROWS - 1 }
}

/// Rates of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calls {
    /// Completed requests a second.
    pub requests: f64,
    /// Bytes a second.
    pub bytes: f64,
}

/// What a process, a service or a container did.
#[derive(Clone, Debug, PartialEq)]
pub struct RowNow {
    /// Its name: `fio (4242)`, `cron.service`, or the first digits of a container's number.
    pub name: String,
    /// The number, of a process.
    pub process: Option<u32>,
    /// What kind of cgroup it is in, and the name of that.
    pub unit: Option<(UnitKind, String)>,
    /// Reads.
    pub read: Calls,
    /// Writes.
    pub write: Calls,
    /// Discards, flushes and others: requests a second.
    pub others: f64,
    /// Median and 99th percentile of the time from queue to issue, in nanoseconds.
    pub waiting: [Option<u64>; 2],
    /// Likewise from issue to completion.
    pub in_device: [Option<u64>; 2],
    /// The mean number of its requests between queue and completion.
    pub depth: f64,
    /// The priority of most of its requests, as `ionice` names it: `none`, `rt/4`, `be/0`, `idle`.
    pub prio: String,
    /// Requests that failed.
    pub errors: u64,
}

impl RowNow {
    /// Returns all its requests a second.
    pub fn requests(&self) -> f64 {
        self.read.requests + self.write.requests + self.others
    }

    /// Returns all its bytes a second.
    pub fn bytes(&self) -> f64 {
        self.read.bytes + self.write.bytes
    }
}

/// What a disk did in the last seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskNow {
    /// Its name, such as `sda`.
    pub name: String,
    /// Its numbers.
    pub device: DeviceNumber,
    /// The scheduler in force.
    pub scheduler: Option<String>,
    /// Seconds that were followed; 0 at the very start.
    pub seconds: f64,
    /// Reads.
    pub read: Calls,
    /// Writes.
    pub write: Calls,
    /// Discards a second, and flushes a second.
    pub discards: f64,
    /// See [`Self::discards`].
    pub flushes: f64,
    /// Median and 99th percentile of the time from queue to issue, in nanoseconds.
    pub waiting: [Option<u64>; 2],
    /// Likewise from issue to completion.
    pub in_device: [Option<u64>; 2],
    /// The mean number of requests in the device.
    pub depth: f64,
    /// The share of the time with a request in the device, from 0 to 1.
    pub busy: f64,
    /// The kernel's `%util` of the same time, from 0 to 1, as `/sys/block/X/stat` gives it.
    pub kernel_util: Option<f64>,
    /// Splits of bios, merges, and requests that the driver gave back, a second.
    pub splits: f64,
    /// See [`Self::splits`].
    pub merges: f64,
    /// See [`Self::splits`].
    pub requeues: f64,
    /// Requests that failed.
    pub errors: u64,
    /// Who did it, the most bytes first.
    pub rows: Vec<RowNow>,
    /// Problems that hold, the most important first.
    pub findings: Vec<Standing>,
    /// Requests by second, the newest last, and by [`heat_floor`].
    pub heat: Vec<[u64; HEAT_ROWS]>,
}

/// What all watched disks did in the last seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Now {
    /// Time of the trace's clock in nanoseconds up to which it is told.
    pub at: u64,
    /// The disks, in the order in which they were named.
    pub disks: Vec<DiskNow>,
    /// Events that were lost in these seconds, on all disks together, if any were: every figure is
    /// too small then.
    pub lost: u64,
    /// The share of the time whose events were followed, from 0 to 1. Rates are those of this part.
    pub followed: f64,
}

impl Default for Now {
    fn default() -> Self {
        Self { at: 0, disks: Vec::new(), lost: 0, followed: 1.0 }
    }
}
