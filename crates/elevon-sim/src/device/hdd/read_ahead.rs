//! Read-ahead: after a miss the drive reads on into a segment of its cache until the segment is
//! full or the arm is needed.
//!
//! Ranges are in track time (see [`super::geometry`]), so the front of a running fill is one
//! addition. A fill that pauses because its segment is full continues from its position when the
//! reader has caught up: a real drive hides the turn that it waits for behind the data it still
//! holds.
//!
//! A fill starts in the segment that was used least recently.
//!
//! Cost: O(segments) per read or write, one check of each.

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
        Self {
            segments: vec![Span::default(); segments as usize],
            order: (0..segments).collect(),
            fill: None,
            total,
        }
    }

    fn front(&self, fill: Fill, now: u64) -> u64 {
        (self.segments[fill.segment].end + (now - fill.since)).min(fill.limit)
    }

    /// Updates the end of the segment being filled to `now`, then lets the fill continue to
    /// `limit`.
    fn advance(&mut self, now: u64, limit: u64) {
        if let Some(mut fill) = self.fill {
            self.segments[fill.segment].end = self.front(fill, now);
            fill.since = now;
            fill.limit = fill.limit.max(limit.min(self.total));
            self.fill = Some(fill);
        }
    }

    /// Marks a segment as used most recently.
    fn touch(&mut self, segment: usize) {
        if let Some(at) = self.order.iter().rposition(|&index| index as usize == segment) {
            self.order[at..].rotate_left(1);
        }
    }

    /// Returns true if the cache holds all of `read` at `now`. If so, its segment counts as used,
    /// and a fill continues to `ahead` past the end of the read.
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

    /// Returns the range in which reads must start that the running fill holds or reaches within
    /// `reach`; empty if there is no fill.
    pub(super) fn window(&self, now: u64, reach: u64) -> Span {
        self.fill.map_or_else(Span::default, |fill| Span {
            start: self.segments[fill.segment].start,
            end: self.front(fill, now) + reach,
        })
    }

    /// Makes the running fill continue through `read`, whose start is in its window. Returns when
    /// the end of `read` will have been read.
    pub(super) fn attach(&mut self, now: u64, read: Span, ahead: u64) -> u64 {
        let Some(fill) = self.fill else { return now };
        let front = self.front(fill, now);
        self.advance(now, read.end + ahead);
        self.segments[fill.segment].start = read.start;
        self.touch(fill.segment);
        now + read.end.saturating_sub(front)
    }

    /// Starts reading ahead after a read of the medium that ended at `now`, up to `ahead` past its
    /// end.
    pub(super) fn start(&mut self, now: u64, read: Span, ahead: u64) {
        let Some(&index) = self.order.first() else { return };
        let index = index as usize;
        self.segments[index] = read;
        self.touch(index);
        self.fill =
            Some(Fill { segment: index, since: now, limit: (read.end + ahead).min(self.total) });
    }

    /// Stops the fill because the arm is needed elsewhere: what was read by `now` stays.
    pub(super) fn preempt(&mut self, now: u64) {
        self.advance(now, 0);
        self.fill = None;
    }

    /// Returns when the running fill will be full, if there is one.
    pub(super) fn full_at(&self, now: u64) -> Option<u64> {
        self.fill.map(|fill| now + (fill.limit - self.front(fill, now)))
    }

    /// Drops segments that overlap `written`, which changes on the medium.
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
