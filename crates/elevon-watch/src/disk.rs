//! A disk that is watched: its slices, and its problems.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use elevon_core::ioprio::IoPrio;
use elevon_core::stats::LatencyStat;
use elevon_trace::analysis::{
    Analysis, Finding, Group, ProcessStats, RequestRecord, RequestSink, SoFar,
};
use elevon_trace::{DeviceNumber, Recorded, TraceEvent, Traced};

use crate::finding::{Standing, Standings};
use crate::now::{Calls, DiskNow};
use crate::owner::{Owners, unit_of_cgroup};
use crate::problems::{self, Rates, Usual, Waiting};
use crate::settings::DiskKind;
use crate::slice::{KEPT, Process, Slice, Work, per_second};

/// Slices of a window in which problems are looked for. A problem is seen after one to two windows
/// and has to be seen within five seconds.
const WINDOW: u32 = 2;
/// Processes of an analysis, gone ones included, from which on it begins anew.
const MAX_PROCESSES: usize = 1 << 12;
/// The shares of percentiles, in millionths.
const PERCENTILES: [u64; 2] = [500_000, 990_000];

/// Some slices: how many, and how many have ended after them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) slices: usize,
    pub(crate) back: usize,
}

/// A disk that is watched.
pub(crate) struct Disk {
    pub(crate) name: String,
    pub(crate) device: DeviceNumber,
    settings: Recorded,
    analysis: Analysis,
    collected: Collected,
    /// What was counted in the window up to the last slice.
    counted: SoFar,
    /// When the window began, and its slices so far.
    begun: u64,
    in_window: u32,
    slices: VecDeque<Slice>,
    /// Times and the kernel's `io_ticks` in milliseconds, the newest last.
    ticks: VecDeque<(u64, u64)>,
    findings: Standings,
    /// Cgroups that their limits hold.
    limits: Standings,
    /// What the kernel has counted of cgroups with limits, and when.
    counts: BTreeMap<String, (u64, [u64; 4])>,
    usual: Usual,
    /// Priorities of processes of which the trace has none: Linux tells them since 6.11.
    prios: BTreeMap<u32, IoPrio>,
}

/// Completed requests of a slice.
#[derive(Default)]
struct Collected {
    /// By the index of the process in the analysis.
    work: Vec<Work>,
    processes: Vec<Process>,
    slice: Slice,
}

impl RequestSink for Collected {
    fn requests(&mut self, requests: &[RequestRecord], processes: &[ProcessStats]) {
        for row in &processes[self.processes.len()..] {
            self.processes.push(Process { id: row.id, thread: row.name.clone() });
        }
        self.work.resize_with(self.processes.len(), Work::default);
        for record in requests {
            self.slice.add(record);
            if let Some(work) = self.work.get_mut(record.process as usize) {
                work.add(record);
            } else {
                let unknown = Process { id: None, thread: None };
                self.slice.work.entry(unknown).or_default().add(record);
            }
        }
    }

    fn restart(&mut self) {
        *self = Self::default();
    }
}

impl Collected {
    /// Returns the process of an index of the analysis.
    fn process(&self, index: u32) -> Process {
        let unknown = Process { id: None, thread: None };
        self.processes.get(index as usize).cloned().unwrap_or(unknown)
    }

    /// Returns the slice, and begins the next one.
    fn take(&mut self) -> Slice {
        let mut slice = std::mem::take(&mut self.slice);
        for (work, process) in self.work.iter_mut().zip(&self.processes) {
            if work.requests.iter().any(|&count| count > 0) {
                slice.work.entry(process.clone()).or_default().merge(&std::mem::take(work));
            }
        }
        slice
    }
}

fn analysis(device: DeviceNumber, settings: &Recorded) -> Analysis {
    let mut analysis = Analysis::new(device);
    analysis.keep_requests();
    analysis.set_recorded(settings.clone());
    analysis
}

impl Disk {
    pub(crate) fn new(name: String, device: DeviceNumber, settings: Recorded, now: u64) -> Self {
        Self {
            name,
            device,
            analysis: analysis(device, &settings),
            settings,
            collected: Collected::default(),
            counted: SoFar::default(),
            begun: now,
            in_window: 0,
            slices: VecDeque::new(),
            ticks: VecDeque::new(),
            findings: Standings::default(),
            limits: Standings::default(),
            counts: BTreeMap::new(),
            usual: Usual::default(),
            prios: BTreeMap::new(),
        }
    }

    pub(crate) fn set_settings(&mut self, settings: Recorded) {
        self.analysis.set_recorded(settings.clone());
        self.settings = settings;
    }

    pub(crate) const fn settings(&self) -> &Recorded {
        &self.settings
    }

    pub(crate) fn set_ticks(&mut self, at: u64, milliseconds: u64) {
        self.ticks.push_back((at, milliseconds));
        if self.ticks.len() > KEPT + 1 {
            self.ticks.pop_front();
        }
    }

    pub(crate) fn add(&mut self, events: &[TraceEvent]) {
        self.analysis.add(events);
    }

    /// Ends a slice of a length at a time.
    pub(crate) fn end_slice(&mut self, at: u64, length: u64, trace: &dyn Traced) {
        self.analysis.hand_out(trace, &mut self.collected);
        let so_far = self.analysis.so_far(at);
        let (now, before) = (&so_far.counts, &self.counted.counts);
        let merges =
            |counts: &elevon_trace::analysis::Counts| counts.back_merges + counts.front_merges;
        let mut slice = Slice {
            length,
            busy: so_far.busy.saturating_sub(self.counted.busy),
            depth_time: so_far.depth_time.saturating_sub(self.counted.depth_time),
            splits: now.splits.saturating_sub(before.splits),
            merges: merges(now).saturating_sub(merges(before)),
            requeues: now.requeues.saturating_sub(before.requeues),
            ..self.collected.take()
        };
        for (process, work) in &mut slice.work {
            if let Some(prio) = process.id.and_then(|id| self.prios.get(&id)) {
                work.set_prio(*prio);
            }
        }
        self.slices.push_back(slice);
        if self.slices.len() > KEPT {
            self.slices.pop_front();
        }
        self.counted = so_far;
        self.in_window += 1;
        if self.in_window >= WINDOW {
            self.end_window(at, trace);
        }
    }

    fn end_window(&mut self, at: u64, trace: &dyn Traced) {
        let more = self.problems(at);
        let mut found = self.analysis.next_window(at, trace);
        found.findings.extend(more);
        let length = at.saturating_sub(self.begun).max(1);
        self.findings.take(self.begun, found.depths.busy() * 1000 / length, found.findings);
        if self.analysis.process_count() > MAX_PROCESSES {
            self.analysis = analysis(self.device, &self.settings);
            self.collected.restart();
        }
        (self.begun, self.in_window, self.counted) = (at, 0, SoFar::default());
    }

    /// Returns the problems of the window that ends which the analysis does not look for.
    fn problems(&mut self, at: u64) -> Vec<Finding> {
        let waiting: Vec<Waiting> = self.waiting(at).collect();
        let first = self.slices.len().saturating_sub(WINDOW as usize);
        let window: Vec<&Slice> = self.slices.range(first..).collect();
        let idle = problems::idle_class(&window, &waiting);
        let kind = DiskKind::of_settings(&self.settings);
        let has_seeks = self.settings.number("queue/rotational") == Some(1);
        let slow = self.usual.slow_device(&window, kind, has_seeks);
        idle.into_iter().chain(slow).collect()
    }

    /// Returns the requests that wait for their issue at a time.
    fn waiting(&self, at: u64) -> impl Iterator<Item = Waiting> {
        self.analysis.waiting().map(move |one| {
            let process = self.collected.process(one.process);
            let of_process = || self.prios.get(&process.id?).copied();
            let prio = one.prio.filter(|prio| *prio != IoPrio::NONE).or_else(of_process);
            Waiting { process, prio, waited: at.saturating_sub(one.since) }
        })
    }

    /// Asks for the priorities of processes with I/O now of which the trace has none.
    pub(crate) fn look_at_prios(&mut self, owners: &mut dyn Owners) {
        let lacking = |(process, work): (&Process, &Work)| {
            let is_known = process.id.is_some_and(|id| self.prios.contains_key(&id));
            process.id.filter(|_| is_known || work.lacks_prio())
        };
        let mut ids: BTreeSet<u32> =
            self.last(WINDOW as usize).flat_map(|slice| &slice.work).filter_map(lacking).collect();
        ids.extend(self.waiting(0).filter_map(|one| one.process.id));
        self.prios = ids.into_iter().filter_map(|id| Some((id, owners.prio(id)?))).collect();
    }

    /// Looks for cgroups that their limits hold, in the last slices.
    pub(crate) fn look_at_limits(&mut self, at: u64, owners: &mut dyn Owners) {
        let mut rates: BTreeMap<String, Rates> = BTreeMap::new();
        let nanos: u64 = self.last(WINDOW as usize).map(|slice| slice.length).sum();
        for (process, work) in self.work(Part { slices: WINDOW as usize, back: 0 }) {
            let owner = process.id.and_then(|id| owners.owner(id)).unwrap_or_default();
            // A limit holds all cgroups below its own.
            let mut cgroup = owner.cgroup.as_str();
            while !cgroup.is_empty() {
                let rates = rates.entry(cgroup.to_owned()).or_default();
                for (at, group) in [Group::Read, Group::Write].into_iter().enumerate() {
                    let of_group = calls(&work, group, nanos);
                    rates.bytes[at] += of_group.bytes;
                    rates.requests[at] += of_group.requests;
                }
                cgroup = cgroup.rsplit_once('/').map_or("", |(parent, _)| parent);
            }
        }
        let device = self.device;
        for cgroup in owners.limited(device) {
            rates.entry(cgroup).or_default();
        }
        let before = std::mem::take(&mut self.counts);
        let counts = &mut self.counts;
        let held = rates.into_iter().filter_map(|(cgroup, of_trace)| {
            let limits = owners.limits(&cgroup, device)?;
            let rates = owners.counted(&cgroup, device).map_or(of_trace, |now| {
                counts.insert(cgroup.clone(), (at, now));
                Rates::between(before.get(&cgroup), (at, now))
            });
            let (_, name) = unit_of_cgroup(&cgroup);
            problems::held_by_limit(&name, &device.to_string(), &limits, rates)
        });
        let held: Vec<Finding> = held.collect();
        self.limits.take(at, 0, held);
    }

    /// Returns the work of each process in some slices.
    pub(crate) fn work(&self, part: Part) -> BTreeMap<&Process, Work> {
        let mut all: BTreeMap<&Process, Work> = BTreeMap::new();
        for slice in self.part(part) {
            for (process, work) in &slice.work {
                all.entry(process).or_default().merge(work);
            }
        }
        all
    }

    /// Returns the last slices.
    pub(crate) fn last(&self, slices: usize) -> impl Iterator<Item = &Slice> {
        self.part(Part { slices, back: 0 })
    }

    fn part(&self, part: Part) -> impl Iterator<Item = &Slice> {
        let end = self.slices.len().saturating_sub(part.back);
        self.slices.range(end.saturating_sub(part.slices)..end)
    }

    /// Returns the problems that stand.
    pub(crate) fn findings(&self) -> impl Iterator<Item = &Standing> {
        self.findings.all().iter().chain(self.limits.all())
    }

    /// Returns the figures of the disk in some slices, without rows.
    pub(crate) fn now(&self, part: Part) -> DiskNow {
        let mut all = Work::default();
        let mut sum = Slice::default();
        for slice in self.part(part) {
            slice.work.values().for_each(|work| all.merge(work));
            sum.length += slice.length;
            sum.busy += slice.busy;
            sum.depth_time += slice.depth_time;
            sum.splits += slice.splits;
            sum.merges += slice.merges;
            sum.requeues += slice.requeues;
        }
        let rate = |count: u64| per_second(count, sum.length);
        let mean = |value: f64| value / sum.length.max(1) as f64;
        DiskNow {
            name: self.name.clone(),
            device: self.device,
            scheduler: self.settings.scheduler().map(str::to_owned),
            seconds: sum.length as f64 / 1e9,
            read: calls(&all, Group::Read, sum.length),
            write: calls(&all, Group::Write, sum.length),
            discards: rate(all.requests[Group::Discard as usize]),
            flushes: rate(all.requests[Group::Flush as usize]),
            waiting: percentiles(&all.waiting),
            in_device: percentiles(&all.in_device),
            depth: mean(sum.depth_time as f64),
            busy: mean(sum.busy as f64).min(1.0),
            kernel_util: self.kernel_util(part),
            splits: rate(sum.splits),
            merges: rate(sum.merges),
            requeues: rate(sum.requeues),
            errors: all.errors,
            rows: Vec::new(),
            findings: self.findings().cloned().collect(),
            heat: self.last(KEPT).map(|slice| slice.heat).collect(),
        }
    }

    /// Returns the kernel's `%util` of some slices, from 0 to 1.
    fn kernel_util(&self, part: Part) -> Option<f64> {
        let last = self.ticks.len().checked_sub(part.back + 1)?;
        let &(at, ticks) = self.ticks.get(last)?;
        let &(from, before) = self.ticks.get(last.saturating_sub(part.slices))?;
        let nanos = at.checked_sub(from).filter(|&nanos| nanos > 0)?;
        Some((ticks.saturating_sub(before) as f64 * 1e6 / nanos as f64).min(1.0))
    }
}

/// Returns the rates of a group in a time in nanoseconds.
pub(crate) fn calls(work: &Work, group: Group, nanos: u64) -> Calls {
    let at = group as usize;
    Calls {
        requests: per_second(work.requests[at], nanos),
        bytes: per_second(work.bytes[at], nanos),
    }
}

/// Returns the median and the 99th percentile.
pub(crate) fn percentiles(of: &LatencyStat) -> [Option<u64>; 2] {
    PERCENTILES.map(|share| of.percentile(share))
}

/// Returns the priority of most requests, as `ionice` names it.
pub(crate) fn prio(work: &Work) -> String {
    let most = work.prios.iter().max_by_key(|&(bits, count)| (count, std::cmp::Reverse(bits)));
    let prio = most.and_then(|(&bits, _)| IoPrio::from_bits(bits)).unwrap_or(IoPrio::NONE);
    match prio.class() {
        elevon_core::ioprio::PrioClass::Rt | elevon_core::ioprio::PrioClass::Be => {
            format!("{}/{}", prio.class().name(), prio.level())
        }
        class => class.name().to_owned(),
    }
}
