//! Events to spans of time: what timeline formats show.
//!
//! A request waits from its allocation to its issue, then is in service until it completes. Spans of one track never
//! overlap: a request in service has its (queue, tag) to itself, and one that waits gets the lowest free lane. Spans
//! are handed on when they end, so that memory is bounded by the requests alive. Cost: O(log n) in the requests alive.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use elevon_core::event::{Event, EventKind};
use elevon_core::ioprio::IoPrio;
use elevon_core::op::{Flags, Op, Rwbs};
use elevon_core::status::Status;
use elevon_core::units::{Instant, TaskId};

/// Where a span is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Track {
    /// Requests in service: hardware queue and tag.
    Service(u16, u32),
    /// Requests that wait.
    Wait(u32),
}

/// How a span ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A wait: the driver took it.
    Issued,
    /// It completed.
    Completed(Status),
    /// The driver gave it back.
    Requeued,
    /// Another request swallowed it.
    Merged,
    /// The trace ends.
    Cut,
}

/// A request for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: Instant,
    pub(super) op: Op,
    pub(super) flags: Flags,
    pub(super) ioprio: IoPrio,
    pub(super) sector: u64,
    pub(super) sectors: u32,
    pub(super) task: TaskId,
}

impl Span {
    /// A short name: letters and size.
    pub(super) fn name(&self) -> String {
        let rwbs = Rwbs(self.op, self.flags);
        match self.sectors {
            0 => rwbs.to_string(),
            n if n % 2 == 0 => format!("{rwbs} {}k", n / 2),
            n => format!("{rwbs} {n}s"),
        }
    }
}

impl End {
    /// A word for it.
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

/// What is counted over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Counter {
    /// Requests in the driver.
    InFlight,
    /// Requests allocated and not yet in the driver.
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

/// Takes what the timeline makes.
pub(super) trait Sink {
    /// A span is over.
    fn span(&mut self, track: Track, span: &Span, until: Instant, end: End) -> io::Result<()>;
    /// A count changed.
    fn counter(&mut self, counter: Counter, at: Instant, value: u64) -> io::Result<()>;
}

/// Requests alive.
#[derive(Default)]
pub(super) struct Timeline {
    /// In service, by track.
    service: BTreeMap<(u16, u32), Span>,
    /// Waiting, by (first sector, order of arrival), with their lanes.
    waiting: BTreeMap<(u64, u64), (Span, u32)>,
    free_lanes: BTreeSet<u32>,
    lanes: u32,
    arrivals: u64,
    last: Instant,
}

impl Timeline {
    /// Takes one event.
    pub(super) fn event(&mut self, event: &Event, sink: &mut impl Sink) -> io::Result<()> {
        self.last = event.time;
        let sector = event.sector.get();
        match event.kind {
            EventKind::GetRequest => {
                self.begin_wait(event);
                self.count(Counter::Waiting, event.time, sink)
            }
            EventKind::BackMerge => {
                // The bio begins where the request ends.
                let grown =
                    self.waiting.range_mut(..(sector, 0)).rev().take(8).find(|((first, _), (span, _))| {
                        first + u64::from(span.sectors) == sector && span.op == event.op
                    });
                if let Some((_, (span, _))) = grown {
                    span.sectors = span.sectors.saturating_add(event.sectors);
                }
                Ok(())
            }
            EventKind::FrontMerge => {
                if let Some((mut span, lane)) = self.take_waiting(sector + u64::from(event.sectors), event.op) {
                    (span.sector, span.sectors) = (sector, span.sectors.saturating_add(event.sectors));
                    self.arrivals += 1;
                    self.waiting.insert((sector, self.arrivals), (span, lane));
                }
                Ok(())
            }
            EventKind::RequestMerge => self.end_wait(event, End::Merged, sink),
            EventKind::Issue => {
                self.end_wait(event, End::Issued, sink)?;
                if let Some(tag) = event.tag {
                    let span = Span { task: event.task, ..span_of(event) };
                    self.service.insert((event.queue.0, tag.0), span);
                }
                self.count(Counter::InFlight, event.time, sink)
            }
            EventKind::Requeue => {
                if self.end_service(event, End::Requeued, sink)? {
                    self.begin_wait(event);
                    self.count(Counter::Waiting, event.time, sink)?;
                }
                Ok(())
            }
            EventKind::Complete { status } => self.complete(event, status, sink),
            EventKind::BioQueue
            | EventKind::Split { .. }
            | EventKind::IoStart
            | EventKind::Plug
            | EventKind::Unplug { .. }
            | EventKind::Insert
            | EventKind::IoDone => Ok(()),
        }
    }

    fn complete(&mut self, event: &Event, status: Status, sink: &mut impl Sink) -> io::Result<()> {
        let key = event.tag.map(|tag| (event.queue.0, tag.0));
        match key.and_then(|key| self.service.get_mut(&key)) {
            // A part; the rest stays in service.
            Some(span) if status.is_ok() && event.sectors > 0 && event.sectors < span.sectors => {
                span.sector += u64::from(event.sectors);
                span.sectors -= event.sectors;
                Ok(())
            }
            Some(_) => self.end_service(event, End::Completed(status), sink).map(drop),
            // It ended without the driver: an empty flush, a request refused.
            None => self.end_wait(event, End::Completed(status), sink),
        }
    }

    fn begin_wait(&mut self, event: &Event) {
        let lane = self.free_lanes.pop_first().unwrap_or_else(|| {
            self.lanes += 1;
            self.lanes - 1
        });
        self.arrivals += 1;
        self.waiting.insert((event.sector.get(), self.arrivals), (span_of(event), lane));
    }

    fn take_waiting(&mut self, sector: u64, op: Op) -> Option<(Span, u32)> {
        let mut at_sector = self.waiting.range((sector, 0)..=(sector, u64::MAX));
        let key = *at_sector.find(|(_, (span, _))| span.op == op)?.0;
        self.waiting.remove(&key)
    }

    fn end_wait(&mut self, event: &Event, end: End, sink: &mut impl Sink) -> io::Result<()> {
        let Some((span, lane)) = self.take_waiting(event.sector.get(), event.op) else {
            return Ok(());
        };
        self.free_lanes.insert(lane);
        sink.span(Track::Wait(lane), &span, event.time, end)?;
        self.count(Counter::Waiting, event.time, sink)
    }

    /// Whether there was one to end.
    fn end_service(&mut self, event: &Event, end: End, sink: &mut impl Sink) -> io::Result<bool> {
        let Some(tag) = event.tag else {
            return Ok(false);
        };
        let Some(span) = self.service.remove(&(event.queue.0, tag.0)) else {
            return Ok(false);
        };
        sink.span(Track::Service(event.queue.0, tag.0), &span, event.time, end)?;
        self.count(Counter::InFlight, event.time, sink)?;
        Ok(true)
    }

    fn count(&self, counter: Counter, at: Instant, sink: &mut impl Sink) -> io::Result<()> {
        let value = match counter {
            Counter::InFlight => self.service.len(),
            Counter::Waiting => self.waiting.len(),
        };
        sink.counter(counter, at, value as u64)
    }

    /// Ends what is alive at the last event.
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

fn span_of(event: &Event) -> Span {
    Span {
        start: event.time,
        op: event.op,
        flags: event.flags,
        ioprio: event.ioprio,
        sector: event.sector.get(),
        sectors: event.sectors,
        task: event.task,
    }
}

#[cfg(test)]
mod tests;
