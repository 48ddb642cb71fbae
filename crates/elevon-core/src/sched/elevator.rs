//! What every sorting scheduler shares: finding the queued request that a bio or a request may join.
//!
//! Order of the search, as in Linux: the one-hit cache (the request that merged last), then the request that ends where the
//! bio starts, then whatever the scheduler proposes for a front merge. `nomerges=1` stops after the cache. Only positions and
//! compatibility are looked at; limits are checked where the join happens.
//!
//! Cost: the cache O(1), the search by end O(log n) in the requests queued (a hash table in Linux).

use super::View;
use crate::bio::Bio;
use crate::kernel::Rules;
use crate::merge::{MergeKind, is_compatible, position, request_is_mergeable};
use crate::op::{Flags, Op};
use crate::request::Request;
use crate::tree::{Root, TreeLinks};
use crate::units::{RequestId, Sector};

/// Merge lookup over the requests of one queue.
#[derive(Clone, Debug)]
pub struct Elevator {
    links: TreeLinks,
    by_end: Root,
    last_merge: Option<RequestId>,
    discard_ranges: u16,
}

/// Whether two requests agree in everything but position and size.
pub fn requests_are_compatible(rules: &Rules, a: &Request, b: &Request) -> bool {
    request_is_mergeable(a)
        && request_is_mergeable(b)
        && a.op == b.op
        && a.tenant == b.tenant
        && a.ioprio == b.ioprio
        && (!rules.write_hint_blocks_merge || a.write_hint == b.write_hint)
        && a.flags.contains(Flags::ATOMIC) == b.flags.contains(Flags::ATOMIC)
}

impl Elevator {
    /// For the keys below `requests`.
    pub fn new(requests: usize) -> Self {
        Self { links: TreeLinks::new(requests), by_end: Root::EMPTY, last_merge: None, discard_ranges: 1 }
    }

    /// Makes room for the keys below `requests`.
    pub fn grow(&mut self, requests: usize) {
        self.links.grow(requests);
    }

    /// The queue's `max_discard_segments`: above 1, any two discards may merge whatever their positions.
    pub fn set_discard_ranges(&mut self, ranges: u16) {
        self.discard_ranges = ranges;
    }

    /// A request was queued, and bios may join it from now on.
    pub fn add(&mut self, view: View<'_>, id: RequestId) {
        let request = &view.requests[id];
        if request_is_mergeable(request) {
            self.links.insert(&mut self.by_end, request.end(), id);
            self.last_merge.get_or_insert(id);
        }
    }

    /// A request left the queue; without effect for one that was never added.
    pub fn remove(&mut self, id: RequestId) {
        if self.links.contains(id) {
            self.links.remove(&mut self.by_end, id);
        }
        if self.last_merge == Some(id) {
            self.last_merge = None;
        }
    }

    /// A queued request that the bio may join. `front` proposes the request that starts where the bio ends; it is asked only
    /// when nothing else was found.
    pub fn find_merge(
        &mut self,
        view: View<'_>,
        bio: &Bio,
        one_hit_only: bool,
        front: impl FnOnce() -> Option<RequestId>,
    ) -> Option<(RequestId, MergeKind)> {
        let fits = |id: &RequestId| is_compatible(view.rules, &view.requests[*id], bio);
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

    /// The queued request that a request about to be inserted may be appended to (insert-merge). The caller checks the limits,
    /// joins them, reports it, and asks again with the survivor, for as long as something is found.
    pub fn find_insert_merge(&mut self, view: View<'_>, id: RequestId, one_hit_only: bool) -> Option<RequestId> {
        let request = &view.requests[id];
        let fits = |other: &RequestId| {
            let candidate = &view.requests[*other];
            *other != id && candidate.end() == request.sector && requests_are_compatible(view.rules, candidate, request)
        };
        let cached = self.last_merge.filter(fits);
        if cached.is_some() || one_hit_only {
            return cached;
        }
        self.ending_at(view, request.sector).filter(fits)
    }

    /// The newest request that ends at `sector`. Requests that no longer merge are forgotten on the way.
    fn ending_at(&mut self, view: View<'_>, sector: Sector) -> Option<RequestId> {
        loop {
            let id = self.links.floor(self.by_end, sector).filter(|&id| self.links.key(id) == sector)?;
            if request_is_mergeable(&view.requests[id]) {
                return Some(id);
            }
            self.links.remove(&mut self.by_end, id);
        }
    }

    /// A bio joined a request, which has grown already.
    pub fn on_bio_merged(&mut self, view: View<'_>, id: RequestId) {
        self.move_end(id, view.requests[id].end());
        self.last_merge = Some(id);
    }

    /// `survivor` is about to grow by `swallowed`, which leaves.
    pub fn on_requests_merged(&mut self, view: View<'_>, survivor: RequestId, swallowed: RequestId) {
        self.remove(swallowed);
        self.move_end(survivor, view.requests[survivor].end() + view.requests[swallowed].sectors);
        self.last_merge = Some(survivor);
    }

    fn move_end(&mut self, id: RequestId, end: Sector) {
        if self.links.contains(id) && self.links.key(id) != end {
            self.links.remove(&mut self.by_end, id);
            self.links.insert(&mut self.by_end, end, id);
        }
    }

    /// Checks that what is filed ends where it is filed. `is_queued` says what the scheduler still sorts.
    pub fn self_check(&self, view: View<'_>, is_queued: impl Fn(RequestId) -> bool) {
        self.links.self_check(self.by_end);
        for id in self.links.iter(self.by_end) {
            assert_eq!(self.links.key(id), view.requests[id].end(), "request {} is filed under another end", id.0);
            assert!(is_queued(id), "request {} is filed but not queued", id.0);
        }
        assert!(self.last_merge.is_none_or(is_queued), "the one-hit cache names a request that is gone");
    }
}
