//! A record of a tracepoint as an event.

use elevon_core::ioprio::IoPrio;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::layout::{EventLayout, Field};
use super::page::{long, word};
use crate::event::{DeviceNumber, SECTOR_SIZE, TraceEvent, TraceKind};
use crate::op::{TraceOp, parse_rwbs};

/// The layouts of the events that are recorded, by the number that begins a record.
#[derive(Clone, Debug, Default)]
pub(super) struct Decoder {
    layouts: HashMap<u16, EventLayout, FxBuildHasher>,
}

/// An event without time and CPU, and the name of its thread if the record has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decoded<'a> {
    pub(super) event: TraceEvent,
    pub(super) comm: Option<&'a [u8]>,
}

impl Decoder {
    pub(super) fn new(layouts: impl IntoIterator<Item = EventLayout>) -> Self {
        Self { layouts: layouts.into_iter().map(|layout| (layout.id, layout)).collect() }
    }

    /// The event of a record; `None` for a record of another event, or one that is too short.
    pub(super) fn decode<'a>(&self, record: &'a [u8]) -> Option<Decoded<'a>> {
        let id = u16::from_ne_bytes(*record.first_chunk()?);
        let layout = self.layouts.get(&id)?;
        let number = |field: Option<Field>| {
            field.map_or(Some(None), |field| number(record, field).map(Some))
        };
        let mut event = TraceEvent::new(layout.kind);
        event.tid = Some(word(record, layout.pid.offset)?);
        event.device = number(layout.device)?.map(|dev| DeviceNumber::from_kernel(dev as u32));
        // A flush has no place, which the kernel counts as the last one.
        event.sector = number(layout.sector)?.filter(|&sector| sector != u64::MAX);
        event.bytes = number(layout.sectors)?.map(|sectors| sectors * SECTOR_SIZE);
        if let Some(field) = layout.letters {
            let (op, flags) = parse_rwbs(text(record, field)?)?;
            (event.op, event.flags) = (Some(op), Some(flags));
        }
        let bytes = number(layout.bytes)?.filter(|&bytes| bytes > 0);
        let is_command = layout.command.is_some_and(|field| has_text(record, field));
        if event.op == Some(TraceOp::Other)
            && (is_command || bytes.is_some_and(|bytes| event.bytes != Some(bytes)))
        {
            event.op = Some(TraceOp::Passthrough);
        }
        event.bytes = bytes.or(event.bytes);
        event.ioprio = number(layout.priority)?.and_then(|bits| IoPrio::from_bits(bits as u16));
        event.error = number(layout.error)?.map(|error| error as u32 as i32);
        self.fill(layout, record, &mut event)?;
        let comm =
            layout.comm.and_then(|field| text(record, field)).filter(|comm| !comm.is_empty());
        Some(Decoded { event, comm })
    }

    /// Fills in what only some kinds have.
    fn fill(&self, layout: &EventLayout, record: &[u8], event: &mut TraceEvent) -> Option<()> {
        let number = |field: Option<Field>| number(record, field?);
        match &mut event.kind {
            TraceKind::Split { new_sector } => {
                let sector = event.sector.unwrap_or(u64::MAX);
                // Kernels may carry the remainder's sector in 32 bits; the front part's length
                // survives that.
                let front = (number(layout.new_sector)? as u32).wrapping_sub(sector as u32);
                *new_sector = sector.wrapping_add(u64::from(front));
                event.bytes = Some(u64::from(front) * SECTOR_SIZE);
            }
            TraceKind::Unplug { requests, .. } => *requests = number(layout.requests)? as u32,
            TraceKind::Remap { from, from_sector }
            | TraceKind::RequestRemap { from, from_sector } => {
                *from = DeviceNumber::from_kernel(number(layout.old_device)? as u32);
                *from_sector = number(layout.old_sector)?;
            }
            _ => {}
        }
        Some(())
    }
}

/// An unsigned number of 1, 2, 4 or 8 bytes.
fn number(record: &[u8], field: Field) -> Option<u64> {
    match field.size {
        1 => record.get(field.offset).map(|&byte| u64::from(byte)),
        2 => record
            .get(field.offset..)?
            .first_chunk()
            .map(|bytes| u64::from(u16::from_ne_bytes(*bytes))),
        4 => word(record, field.offset).map(u64::from),
        8 => long(record, field.offset),
        _ => None,
    }
}

/// A text in place, up to its first zero.
fn text(record: &[u8], field: Field) -> Option<&[u8]> {
    let bytes = record.get(field.offset..field.offset + field.size)?;
    Some(&bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())])
}

/// Whether a text that lies elsewhere in the record is more than the zero at its end: its field
/// holds the place in the lower and the length in the upper 16 bits.
fn has_text(record: &[u8], field: Field) -> bool {
    let Some(place) = word(record, field.offset) else { return false };
    let (offset, length) = (place as usize & 0xffff, place as usize >> 16);
    length > 0 && record.get(offset).is_some_and(|&byte| byte != 0)
}
