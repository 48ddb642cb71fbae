//! Start and end of the accounting of requests: all that some traces have of them.

use super::{ABSENT, Collector, EMPTY, Life, Place, Request, TraceEvent};

/// Number of requests at one sector that are looked at.
const MAX_COMPARED: usize = 8;

impl Life {
    /// Records when the accounting of a request began, which tells its priority.
    pub(super) fn account_start(
        &mut self,
        event: &TraceEvent,
        place: Place,
        now: u64,
        process: u32,
        collect: &mut Collector,
    ) {
        let is_new = |&id: &u32| {
            let request = &self.requests[id as usize];
            request.accounted == ABSENT && request.issued == ABSENT
        };
        let found = self.by_start.all(place.key()).take(MAX_COMPARED).find(is_new);
        let id = found.unwrap_or_else(|| self.begin(event, place, now, process, collect));
        let request = &mut self.requests[id as usize];
        request.prio = event.ioprio;
        request.accounted = now;
    }

    /// Ends the request whose accounting ends, in a trace without completions. The event has the
    /// sector at which the request began, and no length any more.
    pub(super) fn account_done(
        &mut self,
        event: &TraceEvent,
        place: Place,
        now: u64,
        collect: &mut Collector,
    ) {
        let with_data = Place { class: place.class & !EMPTY, ..place };
        let Some(id) = self.request_at(with_data, true).or_else(|| self.request_at(place, true))
        else {
            // A flush has no start of accounting, and the data of a flush sequence ends twice.
            return;
        };
        let Request { sectors, class, .. } = self.requests[id as usize];
        self.complete(event, Place { sectors, class, ..place }, now, collect);
    }
}
