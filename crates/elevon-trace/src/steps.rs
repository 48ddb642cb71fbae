//! Reduces a trace to its steps, to compare a simulated run with a real one: event, sector, length.

use crate::event::{TraceEvent, TraceKind};
use crate::read::ftrace::{Line, parse_line};

/// One event without time and task. The letter is blktrace's. `P` has no sector, `U` has its number
/// of requests in `sectors`, and `X` the length of the front part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Letter of blktrace.
    pub letter: char,
    /// First sector.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u64,
}

/// Returns the step of an event; `None` if blktrace has no letter for it.
pub(crate) fn of_event(event: &TraceEvent) -> Option<Step> {
    let letter = event.kind.letter()?;
    let (sector, sectors) = match event.kind {
        TraceKind::Plug => (0, 0),
        TraceKind::Unplug { requests, .. } => (0, u64::from(requests)),
        _ => (event.sector.unwrap_or(u64::MAX), event.sectors().unwrap_or(0)),
    };
    Some(Step { letter, sector, sectors })
}

/// Returns the steps of events. Events without a letter in blktrace are omitted.
pub fn of_events<'a>(events: impl IntoIterator<Item = &'a TraceEvent>) -> Vec<Step> {
    events.into_iter().filter_map(of_event).collect()
}

/// Returns the steps of a trace in text form, in the order of the file.
pub fn of_text(text: &str) -> Vec<Step> {
    text.lines()
        .filter_map(|line| match parse_line(line.as_bytes()) {
            Line::Event(record) => of_event(&record.event),
            Line::Comment | Line::Lost { .. } | Line::Other | Line::Malformed { .. } => None,
        })
        .collect()
}
