//! Converts events to time spans, which timeline formats show.
//!
//! A request waits from its allocation to its issue, and is then in service until it completes. An
//! I/O of a trace that has nothing else lasts for its response time. Bios are not drawn.
//!
//! Spans of one track never overlap: a (queue, tag) has one request in service at a time, and a
//! waiting request, a request without a tag and an I/O use the lowest free lane of their device.
//! Spans are passed on when they end, so memory is bounded by the requests in progress, of which
//! there are at most [`MAX_SPANS_IN_PROGRESS`] of each kind. Cost: O(log n) in the requests in
//! progress.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use elevon_core::ioprio::IoPrio;
use elevon_core::status::Status;

use crate::event::{DeviceNumber, TraceEvent, TraceKind};
use crate::names::{NameId, Names};
use crate::op::{TraceOp, TraceRwbs};

/// Maximum number of spans of one kind that are in progress on a device: more than any has. A trace
/// whose requests never end has more.
const MAX_SPANS_IN_PROGRESS: usize = 1 << 17;

/// Maximum number of devices.
pub(super) const MAX_DEVICES: usize = 1 << 12;

/// Where a span is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Track {
    /// Requests in service: hardware queue and tag.
    Service(u16, u32),
    /// Requests in service in a trace without tags, by lane.
    Untagged(u32),
    /// Waiting requests, by lane.
    Wait(u32),
    /// I/Os of a trace that has them whole, with their response times, by lane.
    Io(u32),
}

/// Why a span ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The waiting request was issued.
    Issued,
    /// The request completed.
    Completed(Status),
    /// The request was requeued.
    Requeued,
    /// The request was merged into another one.
    Merged,
    /// The trace ended.
    Cut,
}

/// The time in which a request waits or is in service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) op: Option<TraceOp>,
    pub(super) rwbs: TraceRwbs,
    pub(super) ioprio: IoPrio,
    pub(super) sector: u64,
    pub(super) sectors: u64,
    pub(super) tid: Option<u32>,
    pub(super) comm: Option<NameId>,
}

impl Span {
    /// Returns a short name: letters and size.
    pub(super) fn name(&self) -> String {
        let rwbs = self.rwbs;
        match self.sectors {
            0 => rwbs.to_string(),
            n if n % 2 == 0 => format!("{rwbs} {}k", n / 2),
            n => format!("{rwbs} {n}s"),
        }
    }
}

impl End {
    /// Returns a word for the reason.
    pub(super) fn name(self) -> String {
        match self {
            Self::Issued => "issued".into(),
            Self::Completed(status) if status.is_ok() => "ok".into(),
            Self::Completed(status) => status.log_words().into(),
            Self::Requeued => "requeued".into(),
            Self::Merged => "merged".into(),
            Self::Cut => "cut".into(),
        }
    }
}

/// A count over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Counter {
    /// Requests issued to the driver and not completed.
    InFlight,
    /// Requests allocated and not issued.
    Waiting,
}

impl Counter {
    pub(super) const ALL: [Self; 2] = [Self::InFlight, Self::Waiting];
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::InFlight => "in flight",
            Self::Waiting => "waiting",
        }
    }
}

/// Receives spans and counts.
pub(super) trait Sink {
    /// A device appears, which has this number from then on.
    fn device(&mut self, number: u32, device: DeviceNumber) -> io::Result<()>;
    /// A span of the device of this number has ended.
    fn span(
        &mut self,
        device: u32,
        track: Track,
        span: &Span,
        until: u64,
        end: End,
    ) -> io::Result<()>;
    /// A count changed.
    fn counter(&mut self, device: u32, counter: Counter, at: u64, value: u64) -> io::Result<()>;
}

/// Spans in progress that are found by where they begin, each on a lane of its own.
#[derive(Default)]
struct Lanes {
    /// Spans by (first sector, order of arrival), with their lanes.
    spans: BTreeMap<(u64, u64), (Span, u32)>,
    free: BTreeSet<u32>,
    lanes: u32,
    arrivals: u64,
}

impl Lanes {
    /// Adds a span on the lowest free lane. Of more than [`MAX_SPANS_IN_PROGRESS`] at once nothing
    /// is drawn.
    fn add(&mut self, span: Span) {
        if self.spans.len() < MAX_SPANS_IN_PROGRESS {
            let lane = self.free_lane();
            self.put(span, lane);
        }
    }

    fn free_lane(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.lanes += 1;
            self.lanes - 1
        })
    }

    fn put(&mut self, span: Span, lane: u32) {
        self.arrivals += 1;
        self.spans.insert((span.sector, self.arrivals), (span, lane));
    }

    /// Takes out the oldest span of a first sector and an operation; its lane stays taken.
    fn take(&mut self, sector: u64, op: Option<TraceOp>) -> Option<(Span, u32)> {
        let mut at_sector = self.spans.range((sector, 0)..=(sector, u64::MAX));
        let key = *at_sector.find(|(_, (span, _))| span.op == op)?.0;
        self.spans.remove(&key)
    }

    /// Takes out a span and frees its lane.
    fn end(&mut self, sector: u64, op: Option<TraceOp>) -> Option<(Span, u32)> {
        let (span, lane) = self.take(sector, op)?;
        self.free.insert(lane);
        Some((span, lane))
    }
}

/// Requests and I/Os of one device that are in progress.
#[derive(Default)]
struct Requests {
    /// The device's number in the order in which devices appear.
    device: u32,
    /// Requests in service, by hardware queue and tag.
    tagged: BTreeMap<(u16, u32), Span>,
    /// Requests in service in traces without tags.
    untagged: Lanes,
    waiting: Lanes,
    /// Lanes of I/Os; these have ended already where their lanes become free.
    ios: Lanes,
    /// When lanes of I/Os become free: (time, lane).
    io_ends: BTreeSet<(u64, u32)>,
}

impl Requests {
    /// Adds one event.
    fn event(&mut self, event: &TraceEvent, sink: &mut impl Sink) -> io::Result<()> {
        let sector = sector(event);
        match event.kind {
            TraceKind::GetRequest => {
                self.waiting.add(span_of(event));
                self.count(Counter::Waiting, time(event), sink)
            }
            TraceKind::BackMerge => {
                // The bio starts where the request ends.
                let grown = self.waiting.spans.range_mut(..(sector, 0)).rev().take(8).find(
                    |((first, _), (span, _))| first + span.sectors == sector && span.op == event.op,
                );
                if let Some((_, (span, _))) = grown {
                    span.sectors = span.sectors.saturating_add(sectors(event));
                }
                Ok(())
            }
            TraceKind::FrontMerge => {
                if let Some((mut span, lane)) =
                    self.waiting.take(sector.saturating_add(sectors(event)), event.op)
                {
                    (span.sector, span.sectors) =
                        (sector, span.sectors.saturating_add(sectors(event)));
                    self.waiting.put(span, lane);
                }
                Ok(())
            }
            TraceKind::RequestMerge => self.end_wait(event, End::Merged, sink),
            TraceKind::Issue => {
                self.end_wait(event, End::Issued, sink)?;
                self.begin_service(event, sink)?;
                self.count(Counter::InFlight, time(event), sink)
            }
            TraceKind::Requeue => {
                if self.end_service(event, End::Requeued, sink)? {
                    self.waiting.add(span_of(event));
                    self.count(Counter::Waiting, time(event), sink)?;
                }
                Ok(())
            }
            TraceKind::Complete => self.complete(
                event,
                Status::from_errno(event.error.unwrap_or(0).saturating_neg()),
                sink,
            ),
            TraceKind::Io { response_ns: Some(response) } => self.io(event, response, sink),
            TraceKind::Io { response_ns: None }
            | TraceKind::Queue
            | TraceKind::Split { .. }
            | TraceKind::IoStart
            | TraceKind::Plug
            | TraceKind::Unplug { .. }
            | TraceKind::Insert
            | TraceKind::IoDone
            | TraceKind::SleepRequest
            | TraceKind::RequestError
            | TraceKind::BioComplete
            | TraceKind::Bounce
            | TraceKind::Remap { .. }
            | TraceKind::RequestRemap { .. }
            | TraceKind::TagWait { .. }
            | TraceKind::Lost { .. } => Ok(()),
        }
    }

    /// Draws an I/O whose response time is known when it begins.
    fn io(&mut self, event: &TraceEvent, response: u64, sink: &mut impl Sink) -> io::Result<()> {
        while let Some(&(_, lane)) = self.io_ends.first().filter(|(end, _)| *end <= time(event)) {
            self.io_ends.pop_first();
            self.ios.free.insert(lane);
        }
        if self.io_ends.len() >= MAX_SPANS_IN_PROGRESS {
            return Ok(());
        }
        let (lane, end) = (self.ios.free_lane(), time(event).saturating_add(response));
        self.io_ends.insert((end, lane));
        sink.span(self.device, Track::Io(lane), &span_of(event), end, End::Completed(Status::Ok))
    }

    fn begin_service(&mut self, event: &TraceEvent, sink: &mut impl Sink) -> io::Result<()> {
        let span = span_of(event);
        let Some(key) = tag_of(event) else {
            self.untagged.add(span);
            return Ok(());
        };
        match self.tagged.insert(key, span) {
            // The completion is not in the trace, and the tag is used again.
            Some(lost) => {
                sink.span(self.device, Track::Service(key.0, key.1), &lost, time(event), End::Cut)
            }
            None => Ok(()),
        }
    }

    fn complete(
        &mut self,
        event: &TraceEvent,
        status: Status,
        sink: &mut impl Sink,
    ) -> io::Result<()> {
        let done = sectors(event);
        // A part completed; the rest stays in service.
        let is_part = |span: &Span| status.is_ok() && done > 0 && done < span.sectors;
        let less = |span: &mut Span| {
            (span.sector, span.sectors) = (span.sector + done, span.sectors - done);
        };
        if let Some(span) = tag_of(event).and_then(|key| self.tagged.get_mut(&key))
            && is_part(span)
        {
            less(span);
            return Ok(());
        }
        if tag_of(event).is_none()
            && let Some((mut span, lane)) = self.untagged.take(sector(event), event.op)
        {
            let is_part = is_part(&span);
            if is_part {
                less(&mut span);
            }
            self.untagged.put(span, lane);
            if is_part {
                return Ok(());
            }
        }
        if self.end_service(event, End::Completed(status), sink)? {
            return Ok(());
        }
        // The request completed without being issued: an empty flush, or a refused request.
        self.end_wait(event, End::Completed(status), sink)
    }

    fn end_wait(&mut self, event: &TraceEvent, end: End, sink: &mut impl Sink) -> io::Result<()> {
        let Some((span, lane)) = self.waiting.end(sector(event), event.op) else {
            return Ok(());
        };
        sink.span(self.device, Track::Wait(lane), &span, time(event), end)?;
        self.count(Counter::Waiting, time(event), sink)
    }

    /// Ends the span of a request in service. Returns true if there was one.
    fn end_service(
        &mut self,
        event: &TraceEvent,
        end: End,
        sink: &mut impl Sink,
    ) -> io::Result<bool> {
        let found = match tag_of(event) {
            Some(key) => self.tagged.remove(&key).map(|span| (span, Track::Service(key.0, key.1))),
            None => self
                .untagged
                .end(sector(event), event.op)
                .map(|(span, lane)| (span, Track::Untagged(lane))),
        };
        let Some((span, track)) = found else {
            return Ok(false);
        };
        sink.span(self.device, track, &span, time(event), end)?;
        self.count(Counter::InFlight, time(event), sink)?;
        Ok(true)
    }

    fn count(&self, counter: Counter, at: u64, sink: &mut impl Sink) -> io::Result<()> {
        let value = match counter {
            Counter::InFlight => self.tagged.len() + self.untagged.spans.len(),
            Counter::Waiting => self.waiting.spans.len(),
        };
        sink.counter(self.device, counter, at, value as u64)
    }

    /// Ends all spans in progress.
    fn finish(&mut self, at: u64, sink: &mut impl Sink) -> io::Result<()> {
        for ((queue, tag), span) in std::mem::take(&mut self.tagged) {
            sink.span(self.device, Track::Service(queue, tag), &span, at, End::Cut)?;
        }
        for (span, lane) in std::mem::take(&mut self.untagged.spans).into_values() {
            sink.span(self.device, Track::Untagged(lane), &span, at, End::Cut)?;
        }
        for (span, lane) in std::mem::take(&mut self.waiting.spans).into_values() {
            sink.span(self.device, Track::Wait(lane), &span, at, End::Cut)?;
        }
        Ok(())
    }
}

/// What is in progress on each device.
#[derive(Default)]
pub(super) struct Timeline {
    numbers: BTreeMap<Option<DeviceNumber>, usize>,
    devices: Vec<Requests>,
    last: u64,
}

impl Timeline {
    /// Returns the requests of a device, which a sink hears of first if it is new. Of more than
    /// [`MAX_DEVICES`] nothing is drawn.
    fn of(
        &mut self,
        device: Option<DeviceNumber>,
        sink: &mut impl Sink,
    ) -> io::Result<Option<&mut Requests>> {
        let at = match self.numbers.get(&device) {
            Some(&at) => at,
            None if self.devices.len() >= MAX_DEVICES => return Ok(None),
            None => {
                let at = self.devices.len();
                sink.device(at as u32, device.unwrap_or(DeviceNumber::new(0, 0)))?;
                self.numbers.insert(device, at);
                self.devices.push(Requests { device: at as u32, ..Requests::default() });
                at
            }
        };
        Ok(self.devices.get_mut(at))
    }

    /// Adds a device before its first event.
    pub(super) fn begin(
        &mut self,
        device: Option<DeviceNumber>,
        sink: &mut impl Sink,
    ) -> io::Result<()> {
        self.of(device, sink).map(drop)
    }

    /// Adds one event.
    pub(super) fn event(&mut self, event: &TraceEvent, sink: &mut impl Sink) -> io::Result<()> {
        self.last = time(event);
        match self.of(event.device, sink)? {
            Some(requests) => requests.event(event, sink),
            None => Ok(()),
        }
    }

    /// Ends all spans in progress at the time of the last event. A trace without events is of one
    /// device.
    pub(super) fn finish(&mut self, sink: &mut impl Sink) -> io::Result<()> {
        if self.devices.is_empty() {
            self.begin(None, sink)?;
        }
        self.devices.iter_mut().try_for_each(|requests| requests.finish(self.last, sink))
    }
}

/// Names of the threads seen so far, kept for spans that end after the last event.
#[derive(Default)]
pub(super) struct Tasks {
    names: Vec<String>,
}

impl Tasks {
    /// Copies new names.
    pub(super) fn learn(&mut self, event: &TraceEvent, names: &Names) {
        let Some(comm) = event.comm else { return };
        while self.names.len() <= comm.index() {
            let next = names.at(self.names.len());
            self.names.push(next.to_owned());
        }
    }

    /// Returns the name of a span's thread as ftrace shows it.
    pub(super) fn name(&self, span: &Span) -> &str {
        match (span.tid, span.comm) {
            (Some(0), _) => "<idle>",
            (_, Some(comm)) => &self.names[comm.index()],
            (_, None) => "<...>",
        }
    }
}

fn time(event: &TraceEvent) -> u64 {
    event.time.unwrap_or(0)
}

/// Returns the first sector; a flush has none, and sorts after all others.
fn sector(event: &TraceEvent) -> u64 {
    event.sector.unwrap_or(u64::MAX)
}

fn sectors(event: &TraceEvent) -> u64 {
    event.sectors().unwrap_or(0)
}

/// Returns the hardware queue and tag of a request in service; traces of real kernels have none.
fn tag_of(event: &TraceEvent) -> Option<(u16, u32)> {
    event.tag.map(|tag| (event.queue.unwrap_or(0), tag))
}

fn span_of(event: &TraceEvent) -> Span {
    Span {
        start: time(event),
        op: event.op,
        rwbs: TraceRwbs(event.op, event.flags),
        ioprio: event.ioprio.unwrap_or(IoPrio::NONE),
        sector: sector(event),
        sectors: sectors(event),
        tid: event.tid,
        comm: event.comm,
    }
}

#[cfg(test)]
mod tests;
