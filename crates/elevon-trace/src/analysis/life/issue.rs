//! Insertion and issue of requests, requests that are issued more than once, and which of several
//! requests at one sector an event is about.
//!
//! The issue of a request that is in the device already is either its second one, because the
//! driver gave it back, or that of another request, because the completion of the first is missing
//! in the trace. A bio or a request that waits at the sector tells that it is another one, and so
//! does another length. Otherwise it is the same one, if that can still be in the device.

use elevon_core::stats::LatencyStat;

use super::{ABSENT, Collector, EMPTY, Group, Life, Place, TraceEvent};
use crate::op::TraceOp;

/// Number of requests at one sector that are looked at.
const MAX_COMPARED: usize = 8;
/// Minimum number of requests that have completed before one is judged by their times.
const MIN_COMPLETED: u64 = 4;
/// A request cannot be in the device any more after this many times the longest time of a completed
/// request, if the device completed others meanwhile.
const LOST_TIMES: u64 = 2;
/// A completion is of a newer request at the same sector if the older one would have taken this
/// many times the 99th percentile.
const UNLIKELY_TIMES: u64 = 2;

impl Life {
    /// Returns the request of an event. Of several at one sector, it is the oldest that was issued,
    /// or not, as the event says; one of the event's length, if it is among the first.
    #[inline]
    pub(super) fn request_at(&self, place: Place, is_issued: bool) -> Option<u32> {
        let first = self.by_start.first(place.key())?;
        if place.class & EMPTY != 0 || self.by_start.next(first).is_none() {
            return Some(first);
        }
        let found = self.requests_at(place, is_issued);
        let is_alike = |&id: &u32| self.requests[id as usize].sectors == place.sectors;
        found.clone().find(is_alike).or(found.clone().next()).or(Some(first))
    }

    /// Returns the first requests at a sector that were issued, or not, oldest first.
    fn requests_at(&self, place: Place, is_issued: bool) -> impl Iterator<Item = u32> + Clone {
        let all = self.by_start.all(place.key()).take(MAX_COMPARED);
        all.filter(move |&id| (self.requests[id as usize].issued != ABSENT) == is_issued)
    }

    /// Returns the request that a completion ends. Of several of its length, it is the oldest,
    /// except if that would have taken much longer than others and a newer one would not: the
    /// completion of the oldest may be missing.
    #[inline]
    pub(super) fn completed_at(&self, place: Place, now: u64, collect: &Collector) -> Option<u32> {
        let oldest = self.request_at(place, true)?;
        if place.class & EMPTY != 0 || now == ABSENT || self.by_start.next(oldest).is_none() {
            return Some(oldest);
        }
        let request = |id: u32| &self.requests[id as usize];
        let is_issued = request(oldest).issued != ABSENT;
        let since = |id: u32| if is_issued { request(id).issued } else { request(id).earliest() };
        let group = request(oldest).group;
        let completed = if is_issued {
            served(collect, group)
        } else {
            Some(&collect.stages[group as usize].request_total)
        };
        let bound = longest_likely(completed);
        let mut alike = self
            .requests_at(place, is_issued)
            .filter(|&id| request(id).sectors == request(oldest).sectors);
        alike.find(|&id| !is_longer(since(id), now, bound)).or(Some(oldest))
    }

    /// Returns a request in the device at the place of an issue whose completion must be missing in
    /// the trace: it would have been there for much longer than any other of its kind, while the
    /// device completed others.
    fn lost_at(&self, place: Place, now: u64, collect: &Collector) -> Option<u32> {
        self.requests_at(place, true).find(|&id| {
            let request = &self.requests[id as usize];
            if request.is_overdue {
                return true;
            }
            let in_device = collect.in_device;
            let goes_on =
                in_device <= 1 || self.completions - request.completed_before >= in_device;
            let longest = served(collect, request.group).map_or(u64::MAX, |served| served.max);
            let most = longest.saturating_mul(LOST_TIMES);
            request.sectors == place.sectors && goes_on && is_longer(request.issued, now, most)
        })
    }

    /// Removes a request whose completion is missing, with bios that never complete.
    fn lose_request(&mut self, id: u32, now: u64, collect: &mut Collector) {
        let request = self.requests[id as usize];
        if !request.is_overdue {
            collect.on_overdue(&request, now);
        }
        let mut at = request.first_piece;
        while let Some(piece) = self.pieces.get(at as usize) {
            self.bios[piece.bio as usize].left = u64::MAX;
            at = piece.next;
        }
        self.drop_request(id, now, collect);
    }

    /// Returns the request of an insert or issue event, and adds it if it is not known.
    #[inline]
    fn find(
        &mut self,
        event: &TraceEvent,
        place: Place,
        now: u64,
        process: u32,
        collect: &mut Collector,
    ) -> u32 {
        let is_other = |&id: &u32| {
            let request = &self.requests[id as usize];
            let has_bio = || place.class & EMPTY == 0 && self.waiting.first(place.key()).is_some();
            request.issued != ABSENT && (request.sectors != place.sectors || has_bio())
        };
        let Some(id) = self.request_at(place, false).filter(|id| !is_other(id)) else {
            return self.begin(event, place, now, process, collect);
        };
        let request = &mut self.requests[id as usize];
        if event.ioprio.is_some() {
            request.prio = event.ioprio;
        }
        request.flags = event.flags.or(request.flags);
        if request.sectors < place.sectors {
            // The request has grown by merges that the trace does not show.
            let start = request.start.wrapping_add(request.sectors);
            let rest =
                Place { start, sectors: place.sectors - request.sectors, class: place.class };
            request.sectors = place.sectors;
            request.issued_sectors = place.sectors;
            self.by_end.remove(id);
            self.gather(id, rest, process);
            let key = self.requests[id as usize].end_key();
            self.by_end.push(id, key);
        }
        id
    }

    pub(super) fn insert(
        &mut self,
        event: &TraceEvent,
        place: Place,
        now: u64,
        process: u32,
        collect: &mut Collector,
    ) {
        while let Some(id) = self.lost_at(place, now, collect) {
            self.lose_request(id, now, collect);
        }
        let id = self.find(event, place, now, process, collect);
        let request = &mut self.requests[id as usize];
        // A request that was given back is inserted again. Its first insertion counts.
        if request.issued == ABSENT {
            request.inserted = now;
            collect.on_inserted(request, now);
        }
    }

    pub(super) fn issue(
        &mut self,
        event: &TraceEvent,
        place: Place,
        now: u64,
        process: u32,
        collect: &mut Collector,
    ) {
        while let Some(id) = self.lost_at(place, now, collect) {
            self.lose_request(id, now, collect);
        }
        let id = self.find(event, place, now, process, collect);
        let request = &mut self.requests[id as usize];
        if request.issued != ABSENT {
            // When the driver gave it back is not known. It counts as in the device.
            let was = *request;
            request.is_requeued = true;
            return collect.on_issued_again(&was, now);
        }
        self.by_end.remove(id);
        request.issued = now;
        request.first_issued = request.first_issued.min(now);
        request.completed_before = self.completions;
        request.is_overdue = false;
        collect.note_issue(request);
        collect.on_issued(request, now);
        if now != ABSENT {
            if request.op == Some(TraceOp::Flush) {
                self.sequences.flush_issued(now);
            }
            self.enter_device(id, now);
        }
    }

    pub(super) fn requeue(&mut self, place: Place, now: u64, collect: &mut Collector) {
        let Some(id) = self.request_at(place, true) else { return collect.on_requeued(None, now) };
        let request = &mut self.requests[id as usize];
        let before = *request;
        request.issued = ABSENT;
        request.is_requeued = true;
        collect.on_requeued(Some(&before), now);
        if before.issued != ABSENT {
            self.by_end.push(id, before.end_key());
        }
    }
}

/// Returns the times in the device of completed requests of a kind. If there are too few, reads and
/// writes stand in for each other.
fn served(collect: &Collector, group: Group) -> Option<&LatencyStat> {
    let of = |group: Group| Some(&collect.stages[group as usize].issued_to_completed);
    let is_enough = |served: &&LatencyStat| served.count >= MIN_COMPLETED;
    let other = match group {
        Group::Read => of(Group::Write),
        Group::Write => of(Group::Read),
        Group::Discard | Group::Flush | Group::Other => None,
    };
    of(group).filter(is_enough).or(other.filter(is_enough))
}

/// Returns the longest time that a request or bio is likely to take, by those that completed.
pub(super) fn longest_likely(completed: Option<&LatencyStat>) -> u64 {
    let p99 = completed
        .filter(|completed| completed.count >= MIN_COMPLETED)
        .and_then(|all| all.percentile(990_000));
    p99.map_or(u64::MAX, |p99| p99.saturating_mul(UNLIKELY_TIMES))
}

/// Returns true if the time since `since` is known and longer than `bound`.
pub(super) fn is_longer(since: u64, now: u64, bound: u64) -> bool {
    since != ABSENT && now != ABSENT && now.saturating_sub(since) > bound
}
