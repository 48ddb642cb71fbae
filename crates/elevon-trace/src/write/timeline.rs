//! Converts events to time spans, which timeline formats show.
//!
//! A request waits from its allocation to its issue, and is then in service until it completes.
//! Spans of one track never overlap: a (queue, tag) has one request in service at a time, and a
//! waiting request uses the lowest free lane. Spans are passed on when they end, so memory is
//! bounded by the requests in progress. Cost: O(log n) in the requests in progress.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use elevon_core::ioprio::IoPrio;
use elevon_core::status::Status;

use super::WriteOptions;
use super::ftrace::letters;
use crate::event::{TraceEvent, TraceKind};
use crate::names::{NameId, Names};
use crate::op::{TraceOp, TraceRwbs};

/// Letters as kernels before 6.17 print them.
const OLD_LETTERS: WriteOptions = WriteOptions {
    cpus: 1,
    ioprio_in_events: true,
    has_zone_letters: false,
    has_atomic_letter: true,
    has_write_zeroes_letters: false,
    is_in_nanoseconds: false,
    blktrace: super::blktrace::BlktraceForm::Version7,
    has_processes: false,
};

/// Where a span is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Track {
    /// Requests in service: hardware queue and tag.
    Service(u16, u32),
    /// Waiting requests, by lane.
    Wait(u32),
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
    /// A span has ended.
    fn span(&mut self, track: Track, span: &Span, until: u64, end: End) -> io::Result<()>;
    /// A count changed.
    fn counter(&mut self, counter: Counter, at: u64, value: u64) -> io::Result<()>;
}

/// Requests in progress.
#[derive(Default)]
pub(super) struct Timeline {
    /// Requests in service, by track.
    service: BTreeMap<(u16, u32), Span>,
    /// Waiting requests by (first sector, order of arrival), with their lanes.
    waiting: BTreeMap<(u64, u64), (Span, u32)>,
    free_lanes: BTreeSet<u32>,
    lanes: u32,
    arrivals: u64,
    last: u64,
}

impl Timeline {
    /// Adds one event.
    pub(super) fn event(&mut self, event: &TraceEvent, sink: &mut impl Sink) -> io::Result<()> {
        self.last = time(event);
        let sector = sector(event);
        match event.kind {
            TraceKind::GetRequest => {
                self.begin_wait(event);
                self.count(Counter::Waiting, time(event), sink)
            }
            TraceKind::BackMerge => {
                // The bio starts where the request ends.
                let grown = self
                    .waiting
                    .range_mut(..(sector, 0))
                    .rev()
                    .take(8)
                    .find(|((first, _), (span, _))| first + span.sectors == sector && span.op == event.op);
                if let Some((_, (span, _))) = grown {
                    span.sectors = span.sectors.saturating_add(sectors(event));
                }
                Ok(())
            }
            TraceKind::FrontMerge => {
                if let Some((mut span, lane)) = self.take_waiting(sector + sectors(event), event.op) {
                    (span.sector, span.sectors) = (sector, span.sectors.saturating_add(sectors(event)));
                    self.arrivals += 1;
                    self.waiting.insert((sector, self.arrivals), (span, lane));
                }
                Ok(())
            }
            TraceKind::RequestMerge => self.end_wait(event, End::Merged, sink),
            TraceKind::Issue => {
                self.end_wait(event, End::Issued, sink)?;
                if let Some(key) = service_key(event) {
                    self.service.insert(key, span_of(event));
                }
                self.count(Counter::InFlight, time(event), sink)
            }
            TraceKind::Requeue => {
                if self.end_service(event, End::Requeued, sink)? {
                    self.begin_wait(event);
                    self.count(Counter::Waiting, time(event), sink)?;
                }
                Ok(())
            }
            TraceKind::Complete => self.complete(event, Status::from_errno(-event.error.unwrap_or(0)), sink),
            TraceKind::Queue
            | TraceKind::Split { .. }
            | TraceKind::IoStart
            | TraceKind::Plug
            | TraceKind::Unplug { .. }
            | TraceKind::Insert
            | TraceKind::IoDone
            | TraceKind::Io { .. }
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

    fn complete(&mut self, event: &TraceEvent, status: Status, sink: &mut impl Sink) -> io::Result<()> {
        match service_key(event).and_then(|key| self.service.get_mut(&key)) {
            // A part completed; the rest stays in service.
            Some(span) if status.is_ok() && sectors(event) > 0 && sectors(event) < span.sectors => {
                span.sector += sectors(event);
                span.sectors -= sectors(event);
                Ok(())
            }
            Some(_) => self.end_service(event, End::Completed(status), sink).map(drop),
            // The request completed without being issued: an empty flush, or a refused request.
            None => self.end_wait(event, End::Completed(status), sink),
        }
    }

    fn begin_wait(&mut self, event: &TraceEvent) {
        let lane = self.free_lanes.pop_first().unwrap_or_else(|| {
            self.lanes += 1;
            self.lanes - 1
        });
        self.arrivals += 1;
        self.waiting.insert((sector(event), self.arrivals), (span_of(event), lane));
    }

    fn take_waiting(&mut self, sector: u64, op: Option<TraceOp>) -> Option<(Span, u32)> {
        let mut at_sector = self.waiting.range((sector, 0)..=(sector, u64::MAX));
        let key = *at_sector.find(|(_, (span, _))| span.op == op)?.0;
        self.waiting.remove(&key)
    }

    fn end_wait(&mut self, event: &TraceEvent, end: End, sink: &mut impl Sink) -> io::Result<()> {
        let Some((span, lane)) = self.take_waiting(sector(event), event.op) else {
            return Ok(());
        };
        self.free_lanes.insert(lane);
        sink.span(Track::Wait(lane), &span, time(event), end)?;
        self.count(Counter::Waiting, time(event), sink)
    }

    /// Ends the span of a request in service. Returns true if there was one.
    fn end_service(&mut self, event: &TraceEvent, end: End, sink: &mut impl Sink) -> io::Result<bool> {
        let Some(key) = service_key(event) else {
            return Ok(false);
        };
        let Some(span) = self.service.remove(&key) else {
            return Ok(false);
        };
        sink.span(Track::Service(key.0, key.1), &span, time(event), end)?;
        self.count(Counter::InFlight, time(event), sink)?;
        Ok(true)
    }

    fn count(&self, counter: Counter, at: u64, sink: &mut impl Sink) -> io::Result<()> {
        let value = match counter {
            Counter::InFlight => self.service.len(),
            Counter::Waiting => self.waiting.len(),
        };
        sink.counter(counter, at, value as u64)
    }

    /// Ends all spans in progress at the time of the last event.
    pub(super) fn finish(&mut self, sink: &mut impl Sink) -> io::Result<()> {
        for ((queue, tag), span) in std::mem::take(&mut self.service) {
            sink.span(Track::Service(queue, tag), &span, self.last, End::Cut)?;
        }
        for (span, lane) in std::mem::take(&mut self.waiting).into_values() {
            sink.span(Track::Wait(lane), &span, self.last, End::Cut)?;
        }
        Ok(())
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

/// Returns the hardware queue and tag of a request in service.
fn service_key(event: &TraceEvent) -> Option<(u16, u32)> {
    event.tag.map(|tag| (event.queue.unwrap_or(0), tag))
}

fn span_of(event: &TraceEvent) -> Span {
    Span {
        start: time(event),
        op: event.op,
        rwbs: letters(event, &OLD_LETTERS),
        ioprio: event.ioprio.unwrap_or(IoPrio::NONE),
        sector: sector(event),
        sectors: sectors(event),
        tid: event.tid,
        comm: event.comm,
    }
}

#[cfg(test)]
mod tests;
