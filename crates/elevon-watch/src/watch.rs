//! All watched disks, by the second.

use std::collections::{BTreeMap, VecDeque};

use elevon_trace::analysis::Group;
use elevon_trace::{DeviceNumber, Recorded, TraceEvent, Traced};

use crate::disk::{Disk, calls, per_second, percentiles, prio};
use crate::now::{DiskNow, Now, RowNow};
use crate::owner::{Owners, UnitKind, unit_of_cgroup};
use crate::slice::{KEPT, Work};

/// Nanoseconds of a slice.
const SLICE: u64 = 1_000_000_000;
/// What a row of the result is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// A process, with its threads.
    #[default]
    Process,
    /// A container, a pod, a service, or another cgroup.
    Unit,
}

/// Watches disks.
pub struct Watch {
    disks: Vec<Disk>,
    index: BTreeMap<DeviceNumber, usize>,
    /// When the present slice began.
    begun: u64,
    /// Lost events up to the end of each kept slice, the oldest first.
    losses: VecDeque<u64>,
}

impl Watch {
    /// Begins to watch at a time of the trace's clock, in nanoseconds.
    pub fn new(now: u64) -> Self {
        Self { disks: Vec::new(), index: BTreeMap::new(), begun: now, losses: VecDeque::from([0]) }
    }

    /// Watches a disk, too. `settings` are those of its queue, as
    /// [`elevon_trace::capture::Disk::note_settings`] notes them.
    pub fn add_disk(&mut self, name: String, device: DeviceNumber, settings: Recorded) {
        self.index.insert(device, self.disks.len());
        self.disks.push(Disk::new(name, device, settings, self.begun));
    }

    /// Returns the disks that are watched, with their settings.
    pub fn disks(&self) -> impl Iterator<Item = (&str, DeviceNumber, &Recorded)> {
        self.disks.iter().map(|disk| (disk.name.as_str(), disk.device, disk.settings()))
    }

    /// Takes note of the settings of a disk as they are now.
    pub fn set_settings(&mut self, device: DeviceNumber, settings: Recorded) {
        if let Some(&at) = self.index.get(&device) {
            self.disks[at].set_settings(settings);
        }
    }

    /// Takes note of the kernel's `io_ticks` of a disk in milliseconds. Should be called once a
    /// second.
    pub fn set_ticks(&mut self, device: DeviceNumber, at: u64, milliseconds: u64) {
        if let Some(&at_disk) = self.index.get(&device) {
            self.disks[at_disk].set_ticks(at, milliseconds);
        }
    }

    /// Takes the events up to a time, in order. Returns true if a slice has ended, so that
    /// [`Self::now`] has something new.
    pub fn add(&mut self, until: u64, events: &[TraceEvent], trace: &dyn Traced) -> bool {
        let mut rest = events;
        let mut has_ended = false;
        while self.begun.saturating_add(SLICE) <= until {
            let end = self.begun + SLICE;
            let before = rest.partition_point(|event| event.time.is_some_and(|time| time < end));
            let (slice, after) = rest.split_at(before);
            self.feed(slice);
            for disk in &mut self.disks {
                disk.end_slice(end, SLICE, trace);
            }
            let report = trace.report();
            self.losses.push_back(report.lost + report.uncounted_gaps);
            if self.losses.len() > KEPT + 1 {
                self.losses.pop_front();
            }
            (self.begun, rest, has_ended) = (end, after, true);
        }
        self.feed(rest);
        has_ended
    }

    fn feed(&mut self, mut events: &[TraceEvent]) {
        while let Some(first) = events.first() {
            let count = events.iter().take_while(|event| event.device == first.device).count();
            let (run, rest) = events.split_at(count);
            match first.device {
                Some(device) => {
                    if let Some(&at) = self.index.get(&device) {
                        self.disks[at].add(run);
                    }
                }
                // A gap, or a plug, which names no device.
                None => self.disks.iter_mut().for_each(|disk| disk.add(run)),
            }
            events = rest;
        }
    }

    /// Returns what the last seconds were like, at most a minute.
    pub fn now(&self, seconds: usize, by: GroupBy, owners: &mut dyn Owners) -> Now {
        let seconds = seconds.clamp(1, KEPT);
        let first = self.losses.len().saturating_sub(seconds + 1);
        let lost = self.losses.back().copied().unwrap_or(0) - self.losses[first];
        let mut disks = Vec::with_capacity(self.disks.len());
        for disk in &self.disks {
            let mut now = disk.now(seconds);
            now.rows = rows(disk, &now, seconds, by, owners);
            disks.push(now);
        }
        Now { at: self.begun, disks, lost }
    }
}

/// By what requests are one row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Process(u32),
    /// A thread whose process the trace does not tell.
    Thread(Option<String>),
    Unit(UnitKind, String),
}

fn rows(
    disk: &Disk,
    now: &DiskNow,
    seconds: usize,
    by: GroupBy,
    owners: &mut dyn Owners,
) -> Vec<RowNow> {
    struct Found {
        name: String,
        unit: Option<(UnitKind, String)>,
        work: Work,
    }
    let mut found: BTreeMap<Key, Found> = BTreeMap::new();
    for (process, work) in disk.work(seconds) {
        let owner = process.id.and_then(|id| owners.owner(id)).unwrap_or_default();
        let unit = (!owner.cgroup.is_empty()).then(|| unit_of_cgroup(&owner.cgroup));
        let key = match (by, &unit, process.id) {
            (GroupBy::Unit, Some((kind, name)), _) => Key::Unit(*kind, name.clone()),
            (GroupBy::Unit, None, _) => Key::Unit(UnitKind::Cgroup, "unknown".to_owned()),
            (GroupBy::Process, _, Some(id)) => Key::Process(id),
            (GroupBy::Process, _, None) => Key::Thread(process.thread.clone()),
        };
        let name = || match (&key, process.id) {
            (Key::Unit(_, name), _) => name.clone(),
            (_, Some(id)) if !owner.name.is_empty() => format!("{} ({id})", owner.name),
            (_, Some(id)) => {
                format!("{} ({id})", process.thread.as_deref().unwrap_or("process"))
            }
            (_, None) => process.thread.clone().unwrap_or_else(|| "unknown".to_owned()),
        };
        let name = name();
        let row = found.entry(key).or_insert_with(|| Found { name, unit, work: Work::default() });
        row.work.merge(&work);
    }
    let nanos = (now.seconds * 1e9) as u64;
    let mut rows: Vec<RowNow> = found
        .into_iter()
        .map(|(key, Found { name, unit, work })| {
            let others = [Group::Discard, Group::Flush, Group::Other];
            RowNow {
                name,
                process: if let Key::Process(id) = key { Some(id) } else { None },
                unit,
                read: calls(&work, Group::Read, nanos),
                write: calls(&work, Group::Write, nanos),
                others: per_second(
                    others.iter().map(|&group| work.requests[group as usize]).sum(),
                    nanos,
                ),
                waiting: percentiles(&work.waiting),
                in_device: percentiles(&work.in_device),
                depth: work.under_way as f64 / (nanos.max(1)) as f64,
                prio: prio(&work),
                errors: work.errors,
            }
        })
        .collect();
    rows.sort_by(|a, b| b.bytes().total_cmp(&a.bytes()).then_with(|| a.name.cmp(&b.name)));
    rows
}
