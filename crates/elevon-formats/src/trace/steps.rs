//! The skeleton of a trace, for comparing a simulated run with a real one: which event, where, how much.

use elevon_core::event::{Event, EventKind};

use super::text::{self, TraceEvent};

/// One event without time and task. The letter is blktrace's; `P` carries no place, `U` carries its requests as
/// `sectors`, and an `X` the front part's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// blktrace's letter.
    pub letter: char,
    /// First sector.
    pub sector: u64,
    /// Sectors.
    pub sectors: u64,
}

/// The steps of a trace in text, in the order of the file. Events that blktrace has no letter for are left out.
pub fn of_text(text: &str) -> Vec<Step> {
    text::records(text)
        .filter_map(|record| {
            let letter = record.letter()?;
            let (sector, sectors) = match record.event {
                TraceEvent::Request { place, .. }
                | TraceEvent::RequestEnd { place, .. }
                | TraceEvent::Bio { place, .. }
                | TraceEvent::BioEnd { place, .. }
                | TraceEvent::Remap { place, .. } => (place.sector, u64::from(place.sectors)),
                // Kernels carry the remainder's sector in 32 bits; the front part's length survives that.
                TraceEvent::Split { sector, new_sector, .. } => (sector, front(sector, new_sector)),
                TraceEvent::Plug { .. } => (0, 0),
                TraceEvent::Unplug { requests, .. } => (0, u64::from(requests)),
            };
            Some(Step { letter, sector, sectors })
        })
        .collect()
}

/// The steps of a run's events; io_start and io_done, which blktrace does not have, are left out.
pub fn of_events(events: &[Event]) -> Vec<Step> {
    events
        .iter()
        .filter_map(|event| {
            let (sector, sectors) = match event.kind {
                EventKind::Plug => (0, 0),
                EventKind::Unplug { requests, .. } => (0, u64::from(requests)),
                EventKind::Split { new_sector } => (event.sector.get(), front(event.sector.get(), new_sector.get())),
                _ => (event.sector.get(), u64::from(event.sectors)),
            };
            Some(Step { letter: letter(event.kind)?, sector, sectors })
        })
        .collect()
}

fn front(sector: u64, new_sector: u64) -> u64 {
    u64::from((new_sector as u32).wrapping_sub(sector as u32))
}

/// blktrace's letter for an event; `None` where it has none.
pub const fn letter(kind: EventKind) -> Option<char> {
    Some(match kind {
        EventKind::BioQueue => 'Q',
        EventKind::Split { .. } => 'X',
        EventKind::GetRequest => 'G',
        EventKind::Plug => 'P',
        EventKind::Unplug { .. } => 'U',
        EventKind::BackMerge | EventKind::RequestMerge => 'M',
        EventKind::FrontMerge => 'F',
        EventKind::Insert => 'I',
        EventKind::Issue => 'D',
        EventKind::Requeue => 'R',
        EventKind::Complete { .. } => 'C',
        EventKind::IoStart | EventKind::IoDone => return None,
    })
}
