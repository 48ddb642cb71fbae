//! A second of a disk.

use std::collections::BTreeMap;

use elevon_core::ioprio::IoPrio;
use elevon_core::stats::LatencyStat;
use elevon_trace::analysis::{Group, RequestRecord};

use crate::now::{HEAT_ROWS, heat_row};

/// Nanoseconds of a slice.
pub(crate) const SLICE: u64 = 1_000_000_000;
/// Slices that are kept: a minute.
pub(crate) const KEPT: usize = 60;

/// Requests of one direction, of a size within a factor of two.
pub(crate) type SizeClass = (usize, u32);

/// Returns the class of a request; `None` for one without data.
pub(crate) fn size_class(group: Group, bytes: u64) -> Option<SizeClass> {
    let has_data = matches!(group, Group::Read | Group::Write) && bytes > 0;
    has_data.then(|| (group as usize, bytes.ilog2()))
}

/// Returns the rate of a count in a time in nanoseconds.
pub(crate) fn per_second(count: u64, nanos: u64) -> f64 {
    count as f64 * 1e9 / nanos.max(1) as f64
}

/// What a process did in a second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// Completed requests, and their bytes, by [`Group`].
    pub(crate) requests: [u64; Group::COUNT],
    pub(crate) bytes: [u64; Group::COUNT],
    /// From queue to issue, and from issue to completion, in nanoseconds.
    pub(crate) waiting: LatencyStat,
    pub(crate) in_device: LatencyStat,
    /// Sum of the times from queue to completion: the requests under way, integrated.
    pub(crate) under_way: u64,
    /// Requests by priority, as the bits of the kernel.
    pub(crate) prios: BTreeMap<u16, u64>,
    /// Requests that failed.
    pub(crate) errors: u64,
}

impl Work {
    pub(crate) fn add(&mut self, record: &RequestRecord) {
        let at = record.group as usize;
        self.requests[at] += 1;
        self.bytes[at] = self.bytes[at].saturating_add(record.bytes);
        let span = |from: Option<u64>, to: Option<u64>| Some(to?.saturating_sub(from?));
        let queued = record.queued.or(record.allocated).or(record.inserted).or(record.issued);
        if let Some(waited) = span(queued, record.issued) {
            self.waiting.add(waited);
        }
        if let Some(served) = span(record.issued, record.completed) {
            self.in_device.add(served);
        }
        self.under_way = self.under_way.saturating_add(span(queued, record.completed).unwrap_or(0));
        let prio = record.prio.unwrap_or(IoPrio::NONE).bits();
        *self.prios.entry(prio).or_default() += 1;
        self.errors += u64::from(record.error.is_some_and(|error| error != 0));
    }

    /// Returns true if the trace has no priority of some requests.
    pub(crate) fn lacks_prio(&self) -> bool {
        self.prios.contains_key(&IoPrio::NONE.bits())
    }

    /// Sets the priority of the requests of which the trace has none.
    pub(crate) fn set_prio(&mut self, prio: IoPrio) {
        if let Some(count) = self.prios.remove(&IoPrio::NONE.bits()) {
            *self.prios.entry(prio.bits()).or_default() += count;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for at in 0..Group::COUNT {
            self.requests[at] += other.requests[at];
            self.bytes[at] = self.bytes[at].saturating_add(other.bytes[at]);
        }
        self.waiting.merge(&other.waiting);
        self.in_device.merge(&other.in_device);
        self.under_way = self.under_way.saturating_add(other.under_way);
        for (&prio, count) in &other.prios {
            *self.prios.entry(prio).or_default() += count;
        }
        self.errors += other.errors;
    }
}

/// A process in a slice: its number and the name of the thread that was seen first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) id: Option<u32>,
    pub(crate) thread: Option<String>,
}

impl Process {
    /// Returns the process as findings name it.
    pub(crate) fn label(&self) -> String {
        let name = self.thread.as_deref().unwrap_or("a process");
        self.id.map_or_else(|| name.to_owned(), |id| format!("{name} ({id})"))
    }
}

/// A second of a disk, or the part of one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slice {
    /// How much of it was followed, in nanoseconds, and how much of that the device was busy.
    pub(crate) length: u64,
    pub(crate) busy: u64,
    /// Requests in the device, integrated over the time, in request-nanoseconds.
    pub(crate) depth_time: u128,
    pub(crate) splits: u64,
    pub(crate) merges: u64,
    pub(crate) requeues: u64,
    pub(crate) work: BTreeMap<Process, Work>,
    /// Times in the device by direction and size.
    pub(crate) classes: BTreeMap<SizeClass, LatencyStat>,
    /// Requests by the time from queue to completion.
    pub(crate) heat: [u64; HEAT_ROWS],
}

impl Slice {
    /// Returns by what its counts are multiplied to be those of all of its time; `None` if nothing
    /// of it was followed.
    pub(crate) fn scale(&self) -> Option<f64> {
        (self.length > 0).then(|| SLICE as f64 / self.length as f64)
    }

    /// Counts a completed request in the heat map, and in that of its size.
    pub(crate) fn add(&mut self, record: &RequestRecord) {
        if let (Some(class), Some((from, to))) =
            (size_class(record.group, record.bytes), record.issued.zip(record.completed))
        {
            self.classes.entry(class).or_default().add(to.saturating_sub(from));
        }
        let from = record.queued.or(record.issued);
        if let Some((from, to)) = from.zip(record.completed) {
            self.heat[heat_row(to.saturating_sub(from))] += 1;
        }
    }
}
