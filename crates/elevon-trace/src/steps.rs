//! The skeleton of a trace, for comparing a simulated run with a real one: which event, where, how
//! much.

use crate::event::{TraceEvent, TraceKind};
use crate::read::ftrace::{Line, parse_line};

/// One event without time and task. The letter is blktrace's; `P` has no place, `U` has its
/// requests as `sectors`, and an `X` the front part's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// blktrace's letter.
    pub letter: char,
    /// First sector.
    pub sector: u64,
    /// Sectors.
    pub sectors: u64,
}

/// The step of an event; `None` if blktrace has no letter for it.
pub fn of_event(event: &TraceEvent) -> Option<Step> {
    let letter = event.kind.letter()?;
    let (sector, sectors) = match event.kind {
        TraceKind::Plug => (0, 0),
        TraceKind::Unplug { requests, .. } => (0, u64::from(requests)),
        _ => (event.sector.unwrap_or(u64::MAX), event.sectors().unwrap_or(0)),
    };
    Some(Step { letter, sector, sectors })
}

/// The steps of events. Those that blktrace has no letter for are left out.
pub fn of_events<'a>(events: impl IntoIterator<Item = &'a TraceEvent>) -> Vec<Step> {
    events.into_iter().filter_map(of_event).collect()
}

/// The steps of a trace in text, in the order of the file.
pub fn of_text(text: &str) -> Vec<Step> {
    text.lines()
        .filter_map(|line| match parse_line(line.as_bytes()) {
            Line::Event(record) => of_event(&record.event),
            Line::Comment | Line::Lost { .. } | Line::Other | Line::Malformed { .. } => None,
        })
        .collect()
}
