//! Collects the events of a reader in a window, in which they are sorted by time.
//!
//! Cost: one comparison for an event that is not older than the previous one; otherwise the window
//! is sorted once per batch (O(n log n) comparisons, fewer if the events come in ordered runs, as
//! per-CPU data does).

use crate::event::{DeviceNumber, TraceEvent, TraceKind};
use crate::names::Names;
use crate::report::{Gap, Position, ReadReport};

/// Approximate number of events delivered at once.
pub(crate) const BATCH: usize = 4096;

/// What is expected of an event without a time.
const NO_TIME: &str = "a time, as the events before it have";

/// In which order events are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// No event was read yet.
    Unknown,
    /// Of time. An event without a time is damaged.
    Time,
    /// Of the file, because the first event has no time.
    File,
}

/// Events between a format's parser and the user of the trace.
pub(crate) struct Sink {
    pub(crate) names: Names,
    pub(crate) report: ReadReport,
    only: Option<DeviceNumber>,
    events: Vec<TraceEvent>,
    /// Number of delivered events at the front of `events`.
    delivered: usize,
    /// Latest time of any event.
    latest: u64,
    /// Time of the last event that was delivered.
    floor: u64,
    is_sorted: bool,
    order: Order,
}

impl Sink {
    pub(crate) fn new(report: ReadReport) -> Self {
        Self {
            names: Names::default(),
            report,
            only: None,
            events: Vec::new(),
            delivered: 0,
            latest: 0,
            floor: 0,
            is_sorted: true,
            order: Order::Unknown,
        }
    }

    /// Restricts delivery to events of this device, and events without a device.
    pub(crate) const fn set_only(&mut self, device: Option<DeviceNumber>) {
        self.only = device;
    }

    /// Returns the number of events that have not been delivered.
    pub(crate) const fn len(&self) -> usize {
        self.events.len() - self.delivered
    }

    /// Appends an event that was read at a position.
    #[inline]
    pub(crate) fn push(&mut self, mut event: TraceEvent, file: u32, at: Position) {
        event.find_zeroes();
        if let Some(device) = event.device {
            self.report.count_device(device);
            if let TraceKind::Remap { from, .. } = event.kind {
                self.report.remapped(from, device);
            }
            if self.only.is_some_and(|only| only != device) {
                return;
            }
        }
        match event.time {
            Some(time) if time >= self.latest => self.latest = time,
            Some(_) if self.order == Order::File => {}
            Some(time) if time < self.floor => {
                self.report.late(file, at, self.latest - time);
                return;
            }
            Some(_) => self.is_sorted = false,
            None if self.order == Order::Time => {
                self.report.skip(file, at, NO_TIME);
                return;
            }
            None => {}
        }
        if self.order == Order::Unknown {
            self.order = if event.time.is_some() { Order::Time } else { Order::File };
        }
        self.events.push(event);
    }

    /// Appends a gap of lost events. If it starts before events that were delivered, it starts at
    /// the last of these instead; if that is unknown, at the latest event.
    pub(crate) fn push_gap(&mut self, gap: Gap) {
        self.push_lost(gap, gap.until);
    }

    /// Appends a gap of lost events of a CPU from a time to the end of the trace.
    pub(crate) fn push_gap_to_end(&mut self, cpu: u32, from: u64) {
        self.push_lost(
            Gap { cpu: Some(cpu), events: None, from: Some(from), until: None },
            Some(u64::MAX),
        );
    }

    fn push_lost(&mut self, gap: Gap, until: Option<u64>) {
        self.report.gap(gap);
        let mut event = TraceEvent::new(TraceKind::Lost { events: gap.events, until });
        event.cpu = gap.cpu;
        let known = gap.from.or(gap.until).or((self.order == Order::Time).then_some(self.latest));
        event.time = known.map(|time| time.max(self.floor));
        match event.time {
            Some(time) if time >= self.latest => self.latest = time,
            Some(_) => self.is_sorted = false,
            None => {}
        }
        self.events.push(event);
    }

    /// Counts a damaged line or record.
    pub(crate) fn skip(&mut self, file: u32, at: Position, reason: &'static str) {
        self.report.skip(file, at, reason);
    }

    /// Returns the events that were last delivered.
    pub(crate) fn delivered(&self) -> &[TraceEvent] {
        &self.events[..self.delivered]
    }

    /// Removes the events that were last delivered.
    pub(crate) fn drop_delivered(&mut self) {
        self.events.drain(..self.delivered);
        self.delivered = 0;
    }

    /// Sorts the waiting events and delivers all of them except the `keep` latest.
    pub(crate) fn deliver(&mut self, keep: usize) -> &mut [TraceEvent] {
        self.sort();
        self.deliver_first(self.events.len().saturating_sub(keep))
    }

    /// Sorts the waiting events and delivers those of up to a time.
    pub(crate) fn deliver_until(&mut self, until: u64) -> &mut [TraceEvent] {
        self.sort();
        let count = self.events.partition_point(|event| event.time <= Some(until));
        self.floor = self.floor.max(until);
        self.deliver_first(count)
    }

    fn sort(&mut self) {
        if !self.is_sorted && self.order != Order::File {
            self.events.sort_by_key(|event| event.time);
        }
        self.is_sorted = true;
    }

    fn deliver_first(&mut self, count: usize) -> &mut [TraceEvent] {
        self.delivered = count;
        let batch = &mut self.events[..self.delivered];
        if let Some(time) = batch.last().and_then(|event| event.time) {
            self.floor = self.floor.max(time);
        }
        self.report.events += batch.len() as u64;
        batch
    }
}
