//! Completions of zone appends, which name the sector that was written: the bio and the request
//! name the start of the zone.

use super::{Life, Place, TraceEvent};
use crate::op::TraceOp;

/// Number of requests in the device that are looked at.
const MAX_COMPARED: usize = 1024;

impl Life {
    /// Returns the zone append that a completion ends: of those of its length in the device, the
    /// one whose zone begins the least before the sector written; of one zone the oldest.
    pub(super) fn append_completed_at(&self, event: &TraceEvent, place: Place) -> Option<u32> {
        if event.op != Some(TraceOp::ZoneAppend) {
            return None;
        }
        let mut found: Option<(u32, u64)> = None;
        for &(id, issued, _) in self.in_device.iter().rev().take(MAX_COMPARED) {
            let Some(request) =
                self.requests.get(id as usize).filter(|request| request.issued == issued)
            else {
                continue;
            };
            let is_like = request.class == place.class && request.sectors == place.sectors;
            let is_nearer = found.is_none_or(|(_, start)| request.start >= start);
            if is_like && request.start <= place.start && is_nearer {
                found = Some((id, request.start));
            }
        }
        found.map(|(id, _)| id)
    }
}
