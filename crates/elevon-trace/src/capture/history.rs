//! The last events, kept for a trace.

use std::collections::VecDeque;
use std::io::{self, Write};

use crate::event::{TraceEvent, TraceKind};
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
        // A rest that was prolonged is one gap.
        let mut rest: Option<TraceEvent> = None;
        for event in self.events.iter().filter(|event| is_wanted(event)) {
            rest = match rest.map(|before| (before, prolonged(&before, event))) {
                Some((_, Some(longer))) => Some(longer),
                Some((before, None)) => {
                    writer.event(&before, names)?;
                    Some(*event)
                }
                None => Some(*event),
            };
        }
        if let Some(last) = rest {
            writer.event(&last, names)?;
        }
        writer.into_inner()
    }
}

/// Returns a gap of all CPUs as it is with another one that begins no later than it ends.
fn prolonged(before: &TraceEvent, event: &TraceEvent) -> Option<TraceEvent> {
    let TraceKind::Lost { events: None, until } = before.kind else { return None };
    let TraceKind::Lost { events: None, until: later } = event.kind else { return None };
    let are_of_all = before.cpu.is_none() && event.cpu.is_none();
    (are_of_all && event.time <= until).then(|| TraceEvent {
        kind: TraceKind::Lost { events: None, until: until.max(later) },
        ..*before
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn times_that_were_not_followed_are_gaps_of_the_trace() {
        let text = "\
a-1 [001] .....  1.000001000: block_rq_issue: 8,0 R 4096 () 0 + 8 [a]\n\
a-1 [001] .....  1.000009000: block_rq_complete: 8,0 R () 0 + 8 [0]\n\
a-1 [001] .....  5.000001000: block_rq_issue: 8,0 R 4096 () 8 + 8 [a]\n\
a-1 [001] .....  5.000009000: block_rq_complete: 8,0 R () 8 + 8 [0]\n";
        let mut reader = crate::from_bytes(text.as_bytes().to_vec()).expect("a trace");
        let events = reader.read_all().expect("memory");
        let rest = |from, until| {
            let mut event = TraceEvent::new(TraceKind::Lost { events: None, until: Some(until) });
            event.time = Some(from);
            event
        };
        let mut history = History::new(100);
        history.add(&events[..2]);
        // Until the end of the second, until the next one's window, and until events began.
        history.add(&[
            rest(1_500_000_000, 2_000_000_000),
            rest(2_000_000_000, 2_800_000_000),
            rest(2_800_000_000, 2_900_000_000),
        ]);
        history.add(&events[2..]);
        let names = crate::reader::Traced::names(&reader);
        let written = history.write(Vec::new(), names, &Recorded::default(), |_| true);
        let mut reader = crate::from_bytes(written.expect("written")).expect("a trace");
        let read = reader.read_all().expect("memory");
        let gaps: Vec<_> =
            read.iter().filter(|event| matches!(event.kind, TraceKind::Lost { .. })).collect();
        assert_eq!(gaps.len(), 1, "{gaps:?}");
        assert_eq!(gaps[0].time, Some(1_500_000_000));
        assert_eq!(gaps[0].kind, TraceKind::Lost { events: None, until: Some(2_900_000_000) });
        let report = crate::reader::Traced::report(&reader);
        assert_eq!((report.gap_count, report.uncounted_gaps, report.skipped_count()), (1, 1, 0));
        assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
    }
}
