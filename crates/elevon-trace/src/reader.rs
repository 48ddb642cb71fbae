//! The reader of traces in any format.

use std::io;

use crate::event::{DeviceNumber, TraceEvent};
use crate::format::TraceFormat;
use crate::names::Names;
use crate::report::ReadReport;
use crate::sink::{BATCH, Sink};

/// The format-specific part of a reader: converts bytes to events.
pub(crate) trait EventSource: Send {
    /// Appends some events. Returns false at the end of the trace.
    fn fill(&mut self, sink: &mut Sink) -> io::Result<bool>;

    /// Returns the number of events that are held back for sorting.
    fn window(&self) -> usize;

    /// Adds to events that are delivered now what the trace said only after them.
    fn complete(&self, _events: &mut [TraceEvent]) {}
}

/// Where events come from, as an analysis asks it: a [`Reader`], or
/// [`Live`](crate::capture::Live) events.
pub trait Traced {
    /// Returns the names of threads and volumes so far.
    fn names(&self) -> &Names;

    /// Returns what was found so far.
    fn report(&self) -> &ReadReport;
}

impl Traced for Reader {
    fn names(&self) -> &Names {
        &self.sink.names
    }

    fn report(&self) -> &ReadReport {
        &self.sink.report
    }
}

/// Reads a trace event by event in order of time, in bounded memory.
///
/// Damaged lines and records are skipped and counted in [`Self::report`]; only errors of the file
/// system end a trace early.
pub struct Reader {
    source: Box<dyn EventSource>,
    sink: Sink,
    at_end: bool,
    /// Position of [`Self::next_event`] in the batch, and the length of the batch.
    next: (usize, usize),
}

impl Reader {
    pub(crate) fn new(source: Box<dyn EventSource>, report: ReadReport) -> Self {
        Self { source, sink: Sink::new(report), at_end: false, next: (0, 0) }
    }

    /// Restricts the reader to events of one device (or partition), and events without a device:
    /// gaps, and plugs in formats that do not name the device of a plug. Must be called before the
    /// first event is read.
    pub fn set_device(&mut self, device: Option<DeviceNumber>) {
        self.sink.set_only(device);
    }

    /// Returns the next events in order of time, never an empty slice; `None` at the end of the
    /// trace.
    ///
    /// # Errors
    /// Returns an error of the file system, which ends the trace.
    pub fn next_batch(&mut self) -> io::Result<Option<&[TraceEvent]>> {
        self.sink.drop_delivered();
        self.next = (0, 0);
        let window = self.source.window();
        while !self.at_end && self.sink.len() < window + window.max(BATCH) {
            match self.source.fill(&mut self.sink) {
                Ok(more) => self.at_end = !more,
                Err(error) => {
                    self.at_end = true;
                    self.sink.deliver(0);
                    self.sink.drop_delivered();
                    return Err(error);
                }
            }
        }
        self.source.complete(self.sink.deliver(if self.at_end { 0 } else { window }));
        let batch = self.sink.delivered();
        Ok((!batch.is_empty()).then_some(batch))
    }

    /// Returns the same as [`Self::next_batch`], with the names that the events may have.
    ///
    /// # Errors
    /// Returns the errors of [`Self::next_batch`].
    pub(crate) fn next_batch_and_names(&mut self) -> io::Result<Option<(&[TraceEvent], &Names)>> {
        let is_there = self.next_batch()?.is_some();
        Ok(is_there.then(|| (self.sink.delivered(), &self.sink.names)))
    }

    /// Returns the next event in order of time; `None` at the end. [`Self::next_batch`] is faster.
    ///
    /// # Errors
    /// Returns the errors of [`Self::next_batch`].
    pub fn next_event(&mut self) -> io::Result<Option<TraceEvent>> {
        if self.next.0 == self.next.1 {
            let Some(count) = self.next_batch()?.map(<[_]>::len) else { return Ok(None) };
            self.next = (0, count);
        }
        self.next.0 += 1;
        Ok(Some(self.sink.delivered()[self.next.0 - 1]))
    }

    /// Reads the whole trace into memory, for tests and small traces.
    ///
    /// # Errors
    /// Returns the errors of [`Self::next_batch`].
    pub fn read_all(&mut self) -> io::Result<Vec<TraceEvent>> {
        let mut all = Vec::new();
        while let Some(batch) = self.next_batch()? {
            all.extend_from_slice(batch);
        }
        Ok(all)
    }

    /// Returns the names of threads and volumes read so far.
    pub fn names(&self) -> &Names {
        &self.sink.names
    }

    /// Returns what was found so far: counts, devices, damaged lines, gaps. It is complete at the
    /// end of the trace.
    pub fn report(&self) -> &ReadReport {
        &self.sink.report
    }

    /// Returns the detected format.
    pub fn format(&self) -> TraceFormat {
        self.sink.report.format
    }
}
