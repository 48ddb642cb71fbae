//! All watched disks, by the second.

use std::collections::{BTreeMap, VecDeque};

use elevon_trace::analysis::{FindingKind, Group};
use elevon_trace::{DeviceNumber, Recorded, TraceEvent, TraceKind, Traced};

use crate::disk::{Disk, Part, calls, percentiles, prio};
use crate::now::{DiskNow, Now, RowNow};
use crate::owner::{Owners, UnitKind, unit_of_cgroup};
use crate::slice::{KEPT, SLICE, Slice, Work, per_second};

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
    /// The ends of the kept slices, the oldest first.
    ends: VecDeque<End>,
    /// Slices that have ended.
    ended: u64,
    /// Times in which no events were followed, in order, from the present slice on.
    skipped: VecDeque<(u64, u64)>,
}

impl Watch {
    /// Nanoseconds of a slice.
    pub const SLICE: u64 = SLICE;

    /// Begins to watch at a time of the trace's clock, in nanoseconds.
    pub fn new(now: u64) -> Self {
        Self {
            disks: Vec::new(),
            index: BTreeMap::new(),
            begun: now,
            ends: VecDeque::from([End::default()]),
            ended: 0,
            skipped: VecDeque::new(),
        }
    }

    /// Watches a disk, too. `settings` are those of its queue, as
    /// [`elevon_trace::capture::Disk::note_settings`] notes them.
    pub fn add_disk(&mut self, name: String, device: DeviceNumber, settings: Recorded) {
        self.index.insert(device, self.disks.len());
        self.disks.push(Disk::new(name, device, settings, self.begun));
    }

    /// Watches a disk no more: it is gone.
    pub fn remove_disk(&mut self, device: DeviceNumber) {
        self.disks.retain(|disk| disk.device != device);
        self.index = self.disks.iter().map(|disk| disk.device).zip(0..).collect();
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

    /// Returns the time up to which slices have ended, in nanoseconds of the trace's clock.
    pub const fn at(&self) -> u64 {
        self.begun
    }

    /// Returns the slices that have ended so far.
    pub(crate) const fn slices_ended(&self) -> u64 {
        self.ended
    }

    /// Returns the events that were lost so far.
    pub(crate) fn lost_events(&self) -> u64 {
        self.ends.back().map_or(0, |end| end.lost)
    }

    /// Returns for each disk its last slices, and the problems that stand.
    pub(crate) fn last_slices(
        &self,
        slices: usize,
    ) -> impl Iterator<
        Item = (
            DeviceNumber,
            &str,
            impl Iterator<Item = &Slice>,
            impl Iterator<Item = FindingKind>,
        ),
    > {
        self.disks.iter().map(move |disk| {
            let kinds = disk.findings().map(|standing| standing.finding.kind);
            (disk.device, disk.name.as_str(), disk.last(slices), kinds)
        })
    }

    /// Takes the events up to a time, in order. Time in which events were lost, as
    /// [`TraceKind::Lost`] has it, counts as not followed: rates are those of the rest. Returns
    /// true if a slice has ended, so that [`Self::now`] has something new.
    pub fn add(&mut self, until: u64, events: &[TraceEvent], trace: &dyn Traced) -> bool {
        let mut rest = events;
        let mut has_ended = false;
        while self.begun.saturating_add(Self::SLICE) <= until {
            let end = self.begun + Self::SLICE;
            let before = rest.partition_point(|event| event.time.is_some_and(|time| time < end));
            let (slice, after) = rest.split_at(before);
            self.feed(slice);
            let followed = Self::SLICE - self.pass_skipped(end);
            for disk in &mut self.disks {
                disk.end_slice(end, followed, trace);
            }
            self.ended += 1;
            let report = trace.report();
            let lost = report.lost + report.uncounted_gaps;
            let before = self.ends.back().map_or(0, |end| end.followed);
            self.ends.push_back(End { lost, followed: before + followed });
            if self.ends.len() > KEPT + 1 {
                self.ends.pop_front();
            }
            (self.begun, rest, has_ended) = (end, after, true);
        }
        self.feed(rest);
        has_ended
    }

    /// Returns how much of the slice that ends was not followed, and forgets what is over.
    fn pass_skipped(&mut self, end: u64) -> u64 {
        // Gaps of several CPUs may overlap.
        let (mut all, mut from) = (0, self.begun);
        for &(start, stop) in &self.skipped {
            let (start, stop) = (start.max(from), stop.min(end));
            if start < stop {
                all += stop - start;
                from = stop;
            }
        }
        self.skipped.retain(|&(_, stop)| stop > end);
        all
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
                None => {
                    for event in run {
                        if let (TraceKind::Lost { until: Some(until), .. }, Some(from)) =
                            (event.kind, event.time)
                        {
                            self.skipped.push_back((from, until));
                        }
                    }
                    self.disks.iter_mut().for_each(|disk| disk.add(run));
                }
            }
            events = rest;
        }
    }

    /// Looks at processes: which the limits of their cgroups hold, and the priorities of those of
    /// which the trace has none. Should be called when a slice has ended.
    pub fn look_at_processes(&mut self, owners: &mut dyn Owners) {
        let at = self.begun.saturating_sub(Self::SLICE);
        for disk in &mut self.disks {
            disk.look_at_limits(at, owners);
            disk.look_at_prios(owners);
        }
    }

    /// Returns what the last seconds were like, at most a minute.
    pub fn now(&self, seconds: usize, by: GroupBy, owners: &mut dyn Owners) -> Now {
        self.part(Part { slices: seconds.clamp(1, KEPT), back: 0 }, by, owners)
    }

    /// Returns what a second was like after which so many have ended, at most a minute ago. The
    /// problems are those that stand now.
    pub fn second(&self, back: usize, by: GroupBy, owners: &mut dyn Owners) -> Now {
        self.part(Part { slices: 1, back: back.min(KEPT - 1) }, by, owners)
    }

    fn part(&self, part: Part, by: GroupBy, owners: &mut dyn Owners) -> Now {
        let last = (self.ends.len() - 1).saturating_sub(part.back);
        let first = last.saturating_sub(part.slices);
        let (before, now) = (self.ends[first], self.ends[last]);
        let nanos = (last - first) as u64 * Self::SLICE;
        let followed =
            if nanos > 0 { (now.followed - before.followed) as f64 / nanos as f64 } else { 1.0 };
        let mut disks = Vec::with_capacity(self.disks.len());
        for disk in &self.disks {
            let mut of_disk = disk.now(part);
            of_disk.rows = rows(disk, &of_disk, part, by, owners);
            disks.push(of_disk);
        }
        Now { at: self.begun, disks, lost: now.lost - before.lost, followed }
    }
}

/// The end of a slice.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// Events that were lost until then.
    lost: u64,
    /// Nanoseconds that were followed until then.
    followed: u64,
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
    part: Part,
    by: GroupBy,
    owners: &mut dyn Owners,
) -> Vec<RowNow> {
    struct Found {
        name: String,
        unit: Option<(UnitKind, String)>,
        work: Work,
    }
    let mut found: BTreeMap<Key, Found> = BTreeMap::new();
    for (process, work) in disk.work(part) {
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
