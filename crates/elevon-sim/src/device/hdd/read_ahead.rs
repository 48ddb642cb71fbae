//! Read-ahead: after a miss the drive reads on into a segment of its cache until that is full or
//! the arm is wanted.
//!
//! Ranges are in track time (see [`super::geometry`]), so the front of a running fill is one
//! addition. A fill that has to pause because its segment is full goes on, when the reader has
//! caught up, from where it stood: a real drive hides the turn it waits for behind the data it
//! still holds.
//!
//! A fill starts in the segment that was used least recently.
//!
//! Cost: O(segments) per read or write, one look at each.

/// A range of the medium, in track time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// The segment that is being filled. Its `held.end` is the front at `since`.
#[derive(Clone, Copy, Debug)]
struct Fill {
    segment: usize,
    since: u64,
    limit: u64,
}

/// The read segments of a drive's cache.
#[derive(Clone, Debug)]
pub(super) struct ReadAhead {
    segments: Vec<Span>,
    /// Indices of the segments, the least recently used first.
    order: Vec<u32>,
    fill: Option<Fill>,
    /// Track time of the disk's end: nothing is read beyond it.
    total: u64,
}

impl ReadAhead {
    pub(super) fn new(segments: u32, total: u64) -> Self {
        Self { segments: vec![Span::default(); segments as usize], order: (0..segments).collect(), fill: None, total }
    }

    fn front(&self, fill: Fill, now: u64) -> u64 {
        (self.segments[fill.segment].end + (now - fill.since)).min(fill.limit)
    }

    /// Brings the filling segment's end up to `now`, then lets the fill run on to `limit`.
    fn advance(&mut self, now: u64, limit: u64) {
        if let Some(mut fill) = self.fill {
            self.segments[fill.segment].end = self.front(fill, now);
            fill.since = now;
            fill.limit = fill.limit.max(limit.min(self.total));
            self.fill = Some(fill);
        }
    }

    /// The segment counts as used just now.
    fn touch(&mut self, segment: usize) {
        if let Some(at) = self.order.iter().rposition(|&index| index as usize == segment) {
            self.order[at..].rotate_left(1);
        }
    }

    /// Returns true if the cache holds all of `read` at `now`; if so it counts as used, and a fill
    /// goes on to `ahead` past its end.
    pub(super) fn hit(&mut self, now: u64, read: Span, ahead: u64) -> bool {
        self.advance(now, 0);
        let holds = |segment: &Span| segment.start <= read.start && read.end <= segment.end;
        let Some(index) = self.segments.iter().position(holds) else { return false };
        self.touch(index);
        if self.fill.is_some_and(|fill| fill.segment == index) {
            self.segments[index].start = read.start;
            self.advance(now, read.end + ahead);
        }
        true
    }

    /// Where reads must start that the running fill holds or gets to within `reach`; empty where
    /// there is no fill.
    pub(super) fn window(&self, now: u64, reach: u64) -> Span {
        self.fill.map_or_else(Span::default, |fill| Span {
            start: self.segments[fill.segment].start,
            end: self.front(fill, now) + reach,
        })
    }

    /// Makes the running fill go through `read`, whose start is in its window; the time when the
    /// end will have been read.
    pub(super) fn attach(&mut self, now: u64, read: Span, ahead: u64) -> u64 {
        let Some(fill) = self.fill else { return now };
        let front = self.front(fill, now);
        self.advance(now, read.end + ahead);
        self.segments[fill.segment].start = read.start;
        self.touch(fill.segment);
        now + read.end.saturating_sub(front)
    }

    /// A read of the medium ended at `now`: the drive reads on, up to `ahead` past its end.
    pub(super) fn start(&mut self, now: u64, read: Span, ahead: u64) {
        let Some(&index) = self.order.first() else { return };
        let index = index as usize;
        self.segments[index] = read;
        self.touch(index);
        self.fill = Some(Fill { segment: index, since: now, limit: (read.end + ahead).min(self.total) });
    }

    /// The arm is wanted elsewhere: what has been read by `now` stays.
    pub(super) fn preempt(&mut self, now: u64) {
        self.advance(now, 0);
        self.fill = None;
    }

    /// When the running fill will be full, if there is one.
    pub(super) fn full_at(&self, now: u64) -> Option<u64> {
        self.fill.map(|fill| now + (fill.limit - self.front(fill, now)))
    }

    /// `written` changes on the medium: segments that hold any of it are dropped.
    pub(super) fn invalidate(&mut self, now: u64, written: Span) {
        self.advance(now, 0);
        for (index, segment) in self.segments.iter_mut().enumerate() {
            if segment.start < written.end && written.start < segment.end {
                *segment = Span::default();
                self.fill = self.fill.filter(|fill| fill.segment != index);
            }
        }
    }
}
