//! Merge lookup shared by the sorting schedulers: finds the queued request that a bio or a request
//! may merge into.
//!
//! Order of the search, as in Linux: the one-hit cache (the request that merged last), then the
//! request that ends where the bio starts, then the request that the scheduler proposes for a front
//! merge. `nomerges=1` stops after the cache. Only positions and compatibility are checked here;
//! the code that merges checks the limits.
//!
//! Cost: expected O(1) for everything here; the search by end uses a hash table over the request
//! keys, as large as the table of requests. (A tree instead would cost as much again as the rest of
//! mq-deadline.) The request that was added last is entered at the next search: it is often
//! dispatched before one.

use super::View;
use super::by_sector::BySector;
use crate::bio::Bio;
use crate::merge::{
    MergeKind, is_compatible, position, request_is_mergeable, requests_are_compatible,
};
use crate::op::Op;
use crate::units::{RequestId, Sector};

/// Merge lookup over the requests of one queue.
#[derive(Clone, Debug)]
pub(crate) struct Elevator {
    by_end: BySector,
    /// The request that was added last, if it is still to be filed by its end.
    unfiled: Option<RequestId>,
    last_merge: Option<RequestId>,
    discard_ranges: u16,
}

impl Elevator {
    /// Returns an empty lookup for the keys below `requests`.
    pub(crate) fn new(requests: usize) -> Self {
        Self { by_end: BySector::new(requests), unfiled: None, last_merge: None, discard_ranges: 1 }
    }

    /// Makes room for the keys below `requests`.
    pub(crate) fn grow(&mut self, requests: usize) {
        self.by_end.grow(requests);
    }

    /// Sets the queue's `max_discard_segments`: above 1, any two discards may merge at any
    /// position.
    pub(crate) fn set_discard_ranges(&mut self, ranges: u16) {
        self.discard_ranges = ranges;
    }

    /// Adds a queued request: bios may merge into it from now on.
    pub(crate) fn add(&mut self, view: View<'_>, id: RequestId) {
        let request = &view.requests[id];
        if request_is_mergeable(request) {
            let before = self.unfiled.replace(id);
            self.file(view, before);
            self.last_merge.get_or_insert(id);
        }
    }

    /// Files a request that was to be filed.
    #[inline]
    fn file(&mut self, view: View<'_>, unfiled: Option<RequestId>) {
        if let Some(id) = unfiled {
            self.by_end.insert(id, view.requests[id].end());
        }
    }

    /// Files the request that was added last.
    #[inline]
    fn file_last(&mut self, view: View<'_>) {
        let last = self.unfiled.take();
        self.file(view, last);
    }

    /// Removes a request from the lookup. It has no effect if the request was never added.
    pub(crate) fn remove(&mut self, id: RequestId) {
        if self.unfiled == Some(id) {
            self.unfiled = None;
        } else if self.by_end.contains(id) {
            self.by_end.remove(id);
        }
        if self.last_merge == Some(id) {
            self.last_merge = None;
        }
    }

    /// Returns a queued request that the bio may merge into. `front` proposes the request that
    /// starts where the bio ends; it is called only if nothing else was found.
    pub(crate) fn find_merge(
        &mut self,
        view: View<'_>,
        bio: &Bio,
        one_hit_only: bool,
        front: impl FnOnce() -> Option<RequestId>,
    ) -> Option<(RequestId, MergeKind)> {
        self.find_merge_among(view, bio, one_hit_only, |_| true, front)
    }

    /// As [`Self::find_merge`], but only among the requests that the scheduler allows.
    pub(crate) fn find_merge_among(
        &mut self,
        view: View<'_>,
        bio: &Bio,
        one_hit_only: bool,
        allows: impl Fn(RequestId) -> bool,
        front: impl FnOnce() -> Option<RequestId>,
    ) -> Option<(RequestId, MergeKind)> {
        let fits =
            |id: &RequestId| allows(*id) && is_compatible(view.rules, &view.requests[*id], bio);
        if let Some(id) = self.last_merge.filter(fits)
            && let Some(kind) = position(&view.requests[id], bio, self.discard_ranges)
        {
            return Some((id, kind));
        }
        if one_hit_only {
            return None;
        }
        let of_ranges = bio.op == Op::Discard && self.discard_ranges > 1;
        let kind = |kind| if of_ranges { MergeKind::Discard } else { kind };
        if let Some(id) = self.ending_at(view, bio.sector).filter(fits) {
            return Some((id, kind(MergeKind::Back)));
        }
        front().filter(fits).map(|id| (id, kind(MergeKind::Front)))
    }

    /// Returns the queued request that a request may be appended to when it is inserted
    /// (insert-merge). The caller checks the limits, merges them, reports it, and asks again with
    /// the survivor while one is found.
    pub(crate) fn find_insert_merge(
        &mut self,
        view: View<'_>,
        id: RequestId,
        one_hit_only: bool,
    ) -> Option<RequestId> {
        let request = &view.requests[id];
        let fits = |other: &RequestId| {
            let candidate = &view.requests[*other];
            *other != id
                && candidate.end() == request.sector
                && requests_are_compatible(view.rules, candidate, request)
        };
        let cached = self.last_merge.filter(fits);
        if cached.is_some() || one_hit_only {
            return cached;
        }
        self.ending_at(view, request.sector).filter(fits)
    }

    /// Returns the newest request that ends at `sector`. Removes requests that no longer merge from
    /// the lookup.
    fn ending_at(&mut self, view: View<'_>, sector: Sector) -> Option<RequestId> {
        self.file_last(view);
        loop {
            let id = self.by_end.find(sector, |_| true)?;
            if request_is_mergeable(&view.requests[id]) {
                return Some(id);
            }
            self.by_end.remove(id);
        }
    }

    /// Called after a bio was merged into a request, which is already larger.
    pub(crate) fn on_bio_merged(&mut self, view: View<'_>, id: RequestId) {
        self.file_last(view);
        self.move_end(id, view.requests[id].end());
        self.last_merge = Some(id);
    }

    /// Called before `swallowed` is merged into `survivor` and leaves the queue.
    pub(crate) fn on_requests_merged(
        &mut self,
        view: View<'_>,
        survivor: RequestId,
        swallowed: RequestId,
    ) {
        self.remove(swallowed);
        self.file_last(view);
        self.move_end(survivor, view.requests[survivor].end() + view.requests[swallowed].sectors);
        self.last_merge = Some(survivor);
    }

    fn move_end(&mut self, id: RequestId, end: Sector) {
        if self.by_end.get(id).is_some_and(|before| before != end) {
            self.by_end.remove(id);
            self.by_end.insert(id, end);
        }
    }

    /// Checks that each entry is filed under its end sector. `is_queued` returns true for requests
    /// that the scheduler still sorts.
    pub(crate) fn self_check(&self, view: View<'_>, is_queued: impl Fn(RequestId) -> bool) {
        for (id, end) in self.by_end.iter() {
            assert_eq!(end, view.requests[id].end(), "request {} is filed under another end", id.0);
            assert!(is_queued(id), "request {} is filed but not queued", id.0);
            assert!(self.by_end.find(end, |_| true).is_some(), "request {} cannot be found", id.0);
        }
        assert!(self.unfiled.is_none_or(&is_queued), "a request is to be filed that is gone");
        assert!(
            self.last_merge.is_none_or(is_queued),
            "the one-hit cache names a request that is gone"
        );
    }
}
