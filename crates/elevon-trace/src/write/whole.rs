//! Writes an I/O with a response time as two events, in formats that have one for each end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use super::EventWriter;
use crate::event::{TraceEvent, TraceKind};
use crate::names::Names;
use crate::recorded::Recorded;

/// Maximum number of I/Os whose completion is awaited: more than any device has at once. Of further
/// ones, which a damaged trace may have, only the queueing is written.
const MAX_IOS_AWAITED: usize = 1 << 17;

/// Passes events on, and for an I/O with a response time a bio that is queued, and that completes
/// when the response came.
pub(super) struct WholeIos<W> {
    inner: W,
    /// Completions to come: time, order of the I/Os, place in `events`.
    ends: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<TraceEvent>,
    free: Vec<usize>,
    count: u64,
}

impl<W: EventWriter> WholeIos<W> {
    pub(super) const fn new(inner: W) -> Self {
        Self { inner, ends: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), count: 0 }
    }

    /// Writes the completions up to a time.
    fn complete(&mut self, until: u64, names: &Names) -> io::Result<()> {
        while let Some(&Reverse((time, _, at))) = self.ends.peek()
            && time <= until
        {
            self.ends.pop();
            self.free.push(at);
            self.inner.event(&self.events[at], names)?;
        }
        Ok(())
    }

    fn complete_later(&mut self, event: TraceEvent, time: u64) {
        if self.ends.len() >= MAX_IOS_AWAITED {
            return;
        }
        let event =
            TraceEvent { kind: TraceKind::BioComplete, time: Some(time), error: Some(0), ..event };
        let at = self.free.pop().unwrap_or(self.events.len());
        if at == self.events.len() {
            self.events.push(event);
        } else {
            self.events[at] = event;
        }
        self.count += 1;
        self.ends.push(Reverse((time, self.count, at)));
    }
}

impl<W: EventWriter> EventWriter for WholeIos<W> {
    fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        if let Some(time) = event.time {
            self.complete(time, names)?;
            if let TraceKind::Io { response_ns: Some(response) } = event.kind {
                self.complete_later(*event, time.saturating_add(response));
            }
        }
        self.inner.event(event, names)
    }

    fn recorded(&mut self, recorded: &Recorded, first: &TraceEvent) -> io::Result<()> {
        self.inner.recorded(recorded, first)
    }

    fn end(mut self: Box<Self>) -> io::Result<()> {
        // Formats with response times have no names of tasks.
        self.complete(u64::MAX, &Names::default())?;
        Box::new(self.inner).end()
    }
}
