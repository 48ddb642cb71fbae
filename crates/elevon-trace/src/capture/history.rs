//! The last events, kept for a trace.

use std::collections::VecDeque;
use std::io::{self, Write};

use crate::event::TraceEvent;
use crate::names::Names;
use crate::recorded::Recorded;
use crate::write::{WriteOptions, ftrace};

/// The last events, at most so many: about 170 bytes each.
#[derive(Debug)]
pub struct History {
    events: VecDeque<TraceEvent>,
    limit: usize,
}

impl History {
    /// Keeps at most `limit` events.
    pub const fn new(limit: usize) -> Self {
        Self { events: VecDeque::new(), limit }
    }

    /// Adds events in order of time; the oldest go.
    pub fn add(&mut self, events: &[TraceEvent]) {
        let events = &events[events.len().saturating_sub(self.limit)..];
        let surplus = (self.events.len() + events.len()).saturating_sub(self.limit);
        self.events.drain(..surplus);
        self.events.extend(events);
    }

    /// Forgets the events of before a time.
    pub fn forget_before(&mut self, time: u64) {
        let old = self.events.partition_point(|event| event.time < Some(time));
        self.events.drain(..old);
    }

    /// Returns the events, the oldest first.
    pub fn events(&self) -> impl Iterator<Item = &TraceEvent> {
        self.events.iter()
    }

    /// Returns the times of the oldest and of the newest event.
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((self.events.front()?.time?, self.events.back()?.time?))
    }

    /// Writes the events that `is_wanted` as ftrace text, with the notes in its head.
    ///
    /// # Errors
    /// Of the output.
    pub fn write<W: Write>(
        &self,
        out: W,
        names: &Names,
        recorded: &Recorded,
        is_wanted: impl Fn(&TraceEvent) -> bool,
    ) -> io::Result<W> {
        let options = WriteOptions {
            is_in_nanoseconds: true,
            has_processes: self.events.iter().any(|event| event.process.is_some()),
            ioprio_in_events: self.events.iter().any(|event| event.ioprio.is_some()),
            ..WriteOptions::default()
        };
        let mut writer = ftrace::FtraceWriter::with_notes(out, options, recorded)?;
        for event in self.events.iter().filter(|event| is_wanted(event)) {
            writer.event(event, names)?;
        }
        writer.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TraceKind;

    #[test]
    fn the_newest_events_stay() {
        let event = |time| {
            let mut event = TraceEvent::new(TraceKind::Plug);
            event.time = Some(time);
            event
        };
        let mut history = History::new(3);
        history.add(&[event(1), event(2)]);
        history.add(&[event(3), event(4)]);
        assert_eq!(history.span(), Some((2, 4)));
        history.add(&[event(5), event(6), event(7), event(8)]);
        assert_eq!(history.span(), Some((6, 8)));
        history.forget_before(8);
        assert_eq!(history.span(), Some((8, 8)));
        history.forget_before(9);
        assert_eq!(history.span(), None);
    }
}
