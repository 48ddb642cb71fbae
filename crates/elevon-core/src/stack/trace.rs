//! Events of bios and requests, if the caller wants them.

extern crate alloc;
use alloc::vec::Vec;

use super::Stack;
use crate::bio::Bio;
use crate::event::{Event, EventKind};
use crate::ioprio::IoPrio;
use crate::request::Request;
use crate::units::{HwQueue, Instant, RequestId, Sector, TaskId};

/// The recorded events.
#[derive(Default)]
pub(super) struct Trace {
    pub(super) is_on: bool,
    /// Not bounded: tracing is off unless the caller turns it on, and then the caller drains the
    /// events.
    events: Vec<Event>,
}

impl Stack {
    /// Turns the recording of events on or off. It is off at first.
    pub fn set_tracing(&mut self, on: bool) {
        self.trace.is_on = on;
    }

    /// Moves all events since the last call into `into`, oldest first. The buffer keeps its memory.
    pub fn drain_events(&mut self, into: &mut Vec<Event>) {
        into.append(&mut self.trace.events);
    }

    /// Returns true if [`Self::drain_events`] has events.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.trace.events.is_empty()
    }

    #[inline]
    pub(super) fn trace_bio(&mut self, now: Instant, kind: EventKind, bio: &Bio) {
        if self.trace.is_on {
            let (task, cpu) = (bio.task, self.cpu_of(bio.task));
            self.trace.events.push(Event {
                time: now,
                kind,
                task,
                cpu,
                op: bio.op,
                flags: bio.flags,
                ioprio: bio.ioprio,
                sector: bio.sector,
                sectors: bio.sectors().get() as u32,
                queue: HwQueue(0),
                tag: None,
            });
        }
    }

    #[inline]
    pub(super) fn trace_request(&mut self, now: Instant, kind: EventKind, id: RequestId) {
        if self.trace.is_on {
            let request = self.requests[id];
            self.record(now, kind, &request, request.sector, request.sectors.get() as u32);
        }
    }

    /// Records an event of a request with a sector and length that may differ from the request's
    /// own.
    #[inline]
    pub(super) fn trace_part(
        &mut self,
        now: Instant,
        kind: EventKind,
        id: RequestId,
        sector: Sector,
        sectors: u32,
    ) {
        if self.trace.is_on {
            let request = self.requests[id];
            self.record(now, kind, &request, sector, sectors);
        }
    }

    /// Records that accounting of a request, or of a step of its flush sequence, ended, where there
    /// is such an event: with its first sector, and without its bytes, which are counted by then.
    #[inline]
    pub(super) fn trace_done(
        &mut self,
        now: Instant,
        id: RequestId,
        sector: Sector,
        is_request: bool,
    ) {
        if self.rules.io_start_events {
            self.trace_part(now, EventKind::IoDone { is_request }, id, sector, 0);
        }
    }

    #[cold]
    fn record(
        &mut self,
        now: Instant,
        kind: EventKind,
        request: &Request,
        sector: Sector,
        sectors: u32,
    ) {
        let in_completion = matches!(kind, EventKind::Complete { .. } | EventKind::IoDone { .. });
        let task = if in_completion { TaskId::IDLE } else { request.task };
        self.trace.events.push(Event {
            time: now,
            kind,
            task,
            cpu: request.cpu,
            op: request.op,
            flags: request.flags,
            // The bios carry the priority, and they are freed by then.
            ioprio: if matches!(kind, EventKind::IoDone { .. }) {
                IoPrio::NONE
            } else {
                request.ioprio
            },
            sector,
            sectors,
            queue: request.queue,
            tag: request.tag,
        });
    }
}
