//! Completions of bios of devices that have no requests, such as those of the device mapper.

use super::issue::{is_longer, longest_likely};
use super::{Collector, Key, Life, Place, TraceEvent};

/// Number of bios at one sector that are looked at.
const MAX_COMPARED: usize = 8;

impl Life {
    /// Completes a bio of a device that has no requests.
    pub(super) fn complete_bio(
        &mut self,
        event: &TraceEvent,
        place: Place,
        now: u64,
        collect: &mut Collector,
    ) {
        if !self.is_bio_based {
            self.is_bio_based = true;
            self.index_ends();
        }
        let Some(id) = self.bio_completed_at(place, now, collect) else {
            return collect.on_unknown_bio_completed(event, now);
        };
        self.waiting.remove(id);
        self.ends.remove(id);
        let bio = &mut self.bios[id as usize];
        let (was, live) = (*bio, bio.live);
        // The bio no longer waits for anything.
        bio.cursor = bio.end;
        bio.left = u64::MAX;
        collect.on_bio_completed(&was, now);
        collect.on_bio_without_request(&was, event.error, now);
        if live == 0 {
            self.free_bios.push(id);
        }
    }

    /// Returns the bio that a completion ends. If a bio was split, its front parts are bios of
    /// their own, without events; the completion names the last part, so only its end is the bio's.
    /// Of several at one place, it is the oldest that is likely to have taken so long: the
    /// completion of an older one may be missing.
    fn bio_completed_at(&self, place: Place, now: u64, collect: &Collector) -> Option<u32> {
        let bio = |id: u32| &self.bios[id as usize];
        let at_start = || self.waiting.all(place.key()).take(MAX_COMPARED);
        let end = Key { sector: place.end(), class: place.class };
        let alike = at_start().filter(|&id| bio(id).end == end.sector);
        let is_unlikely = |&id: &u32| {
            let bound = longest_likely(Some(&collect.stages[bio(id).group as usize].bio_total));
            is_longer(bio(id).queued, now, bound)
        };
        let oldest = alike.clone().next();
        let has_several = alike.clone().nth(1).is_some();
        let whole =
            if has_several { alike.clone().find(|id| !is_unlikely(id)).or(oldest) } else { oldest };
        whole
            .or_else(|| {
                self.ends
                    .all(end)
                    .take(MAX_COMPARED)
                    .find(|&id| bio(id).start < place.start && self.waiting.has(id))
            })
            .or_else(|| at_start().next())
    }

    /// Finds the waiting bios by their end, too.
    fn index_ends(&mut self) {
        for (id, bio) in (0..).zip(&self.bios) {
            if let Some(key) = self.waiting.key(id) {
                self.ends.push(id, Key { sector: bio.end, ..key });
            }
        }
    }
}
