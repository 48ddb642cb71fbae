//! Where an event is, and the key by which bios and requests are found there.

use super::chains::Key;
use crate::event::TraceEvent;
use crate::op::TraceOp;

/// A class of [`Key`]s: the operation, and a bit for the end of a flush sequence, which has no
/// sectors.
pub(super) const EMPTY: u8 = 0x80;
/// The class of passthrough requests: the issue tells the bytes that they move and its completion
/// may not, and in formats without a command only the bytes tell that it is passthrough. Writes of
/// zeroes are in it, too: before Linux 6.19 they have the same letter, and the end of the
/// accounting of one has no length that would tell them apart.
pub(super) const COMMAND: u8 = TraceOp::Other as u8;

#[inline]
fn class(op: Option<TraceOp>) -> u8 {
    match op {
        Some(TraceOp::Passthrough | TraceOp::WriteZeroes) => COMMAND,
        Some(op) => op as u8,
        None => 0x7f,
    }
}

/// Sectors and operation of an event; absent values are 0.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) start: u64,
    pub(super) sectors: u64,
    pub(super) class: u8,
}

impl Place {
    #[inline]
    pub(super) fn from_event(event: &TraceEvent) -> Self {
        let sectors = event.sectors().unwrap_or(0);
        let is_flush = event.op == Some(TraceOp::Flush);
        let start =
            if is_flush { 0 } else { event.sector.filter(|&at| at != u64::MAX).unwrap_or(0) };
        let class = class(event.op);
        let empty = if sectors == 0 && class != COMMAND { EMPTY } else { 0 };
        Self { start, sectors, class: class | empty }
    }

    #[inline]
    pub(super) const fn key(self) -> Key {
        Key { sector: self.start, class: self.class }
    }

    #[inline]
    pub(super) const fn end(self) -> u64 {
        self.start.wrapping_add(self.sectors)
    }
}
