//! Totals since the beginning, by disk and by service or container, for counters that only grow.

use std::collections::BTreeMap;

use elevon_trace::DeviceNumber;
use elevon_trace::analysis::{FindingKind, Group};

use crate::owner::{Owners, UnitKind, unit_of_cgroup};
use crate::slice::{Slice, Work};
use crate::watch::Watch;

/// Services and containers of a disk that are told apart. The rest is one.
pub const MAX_UNITS: usize = 50;
/// The name of the rest.
const OTHERS: &str = "other";
/// Slices without I/O after which a service gives its place to another, if there are too many.
const IDLE: u64 = 60;

/// The distribution of a time. Where a part of the time was followed, counts are scaled to all of
/// it, so that they are no whole numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimesTotal {
    /// How many.
    pub count: f64,
    /// Their sum in seconds.
    pub seconds: f64,
    /// How many are of each upper bound that was asked for and, last, above these.
    pub buckets: Vec<f64>,
}

/// What a service or container did on a disk since the beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitTotal {
    /// Completed requests, and their bytes, by [`Group`].
    pub requests: [f64; Group::COUNT],
    /// See [`Self::requests`].
    pub bytes: [f64; Group::COUNT],
    /// From queue to issue.
    pub waiting: TimesTotal,
    /// From issue to completion.
    pub in_device: TimesTotal,
    /// Requests that failed.
    pub errors: f64,
    /// The last slice with I/O.
    last: u64,
}

/// A service, a container or another cgroup: its kind, and its name.
pub type Unit = (UnitKind, String);

/// What a disk did since the beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskTotal {
    /// Its name, such as `sda`.
    pub name: String,
    /// By service or container: at most [`MAX_UNITS`], and `other` for the rest.
    pub units: BTreeMap<Unit, UnitTotal>,
    /// Seconds with a request in the device.
    pub busy: f64,
    /// Requests in the device, integrated over time, in request-seconds.
    pub depth: f64,
    /// Merges, splits of bios, and requests that the driver gave back.
    pub merges: f64,
    /// See [`Self::merges`].
    pub splits: f64,
    /// See [`Self::merges`].
    pub requeues: f64,
    /// Problems that stood at some time, and whether they do now.
    pub findings: BTreeMap<FindingKind, bool>,
}

/// Totals of all disks since the beginning.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Upper bounds of the buckets of times, in nanoseconds.
    bounds: Vec<u64>,
    /// Slices that were counted.
    slices: u64,
    /// By disk.
    pub disks: BTreeMap<DeviceNumber, DiskTotal>,
    /// Lost events.
    pub lost: u64,
    /// The share of the last slice that was followed, from 0 to 1.
    pub followed: f64,
}

impl Totals {
    /// Begins at zero. `bounds` are the upper bounds of the buckets of times in nanoseconds, each
    /// above the one before.
    pub fn new(bounds: &[u64]) -> Self {
        Self { bounds: bounds.to_vec(), followed: 1.0, ..Self::default() }
    }

    /// Counts the slices that have ended since the last call, at most a minute.
    pub fn take(&mut self, watch: &Watch, owners: &mut dyn Owners) {
        let new = watch.slices_ended().saturating_sub(self.slices) as usize;
        self.slices = watch.slices_ended();
        self.lost = watch.lost_events();
        for (device, name, slices, findings) in watch.last_slices(new) {
            let disk = self.disks.entry(device).or_default();
            disk.name = name.to_owned();
            for slice in slices {
                self.followed = slice.length as f64 / Watch::SLICE as f64;
                disk.add(slice, self.slices, &self.bounds, owners);
            }
            disk.findings.values_mut().for_each(|stands| *stands = false);
            disk.findings.extend(findings.map(|kind| (kind, true)));
        }
    }
}

impl DiskTotal {
    fn add(&mut self, slice: &Slice, now: u64, bounds: &[u64], owners: &mut dyn Owners) {
        let Some(scale) = slice.scale() else { return };
        self.busy += slice.busy as f64 / 1e9 * scale;
        self.depth += slice.depth_time as f64 / 1e9 * scale;
        self.merges += slice.merges as f64 * scale;
        self.splits += slice.splits as f64 * scale;
        self.requeues += slice.requeues as f64 * scale;
        for (process, work) in &slice.work {
            let owner = process.id.and_then(|id| owners.owner(id)).unwrap_or_default();
            let unit = if owner.cgroup.is_empty() {
                (UnitKind::Cgroup, "unknown".to_owned())
            } else {
                unit_of_cgroup(&owner.cgroup)
            };
            let unit = self.place(unit, now);
            self.units.entry(unit).or_default().add(work, scale, bounds, now);
        }
    }

    /// Returns the place of a service or container: its own, one that is free, or that of the rest.
    fn place(&mut self, unit: Unit, now: u64) -> Unit {
        let rest = (UnitKind::Cgroup, OTHERS.to_owned());
        let own = self.units.keys().filter(|unit| **unit != rest).count();
        if self.units.contains_key(&unit) || own < MAX_UNITS {
            return unit;
        }
        let of_last = |(unit, total): (&Unit, &UnitTotal)| (total.last, unit.clone());
        let others = self.units.iter().filter(|(unit, _)| **unit != rest);
        match others.map(of_last).min() {
            // The counter of what was idle ends here, and begins anew if it comes back.
            Some((last, idle)) if last + IDLE < now => {
                self.units.remove(&idle);
                unit
            }
            _ => rest,
        }
    }
}

impl UnitTotal {
    fn add(&mut self, work: &Work, scale: f64, bounds: &[u64], now: u64) {
        for at in 0..Group::COUNT {
            self.requests[at] += work.requests[at] as f64 * scale;
            self.bytes[at] += work.bytes[at] as f64 * scale;
        }
        self.waiting.add(&work.waiting, scale, bounds);
        self.in_device.add(&work.in_device, scale, bounds);
        self.errors += work.errors as f64 * scale;
        self.last = now;
    }
}

impl TimesTotal {
    fn add(&mut self, times: &elevon_core::stats::LatencyStat, scale: f64, bounds: &[u64]) {
        self.count += times.count as f64 * scale;
        self.seconds += times.sum as f64 / 1e9 * scale;
        self.buckets.resize(bounds.len() + 1, 0.0);
        for (value, count) in times.histogram.iter() {
            let at = bounds.partition_point(|&bound| bound < value);
            self.buckets[at] += count as f64 * scale;
        }
    }
}
