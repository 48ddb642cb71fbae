//! Read-ahead: after a miss the drive reads on into a segment of its cache until that is full or the arm is wanted.
//!
//! Ranges are in track time (see [`super::geometry`]), so the front of a running fill is one addition. A fill that has to
//! pause because its segment is full goes on, when the reader has caught up, from where it stood: a real drive hides the
//! turn it waits for behind the data it still holds.
//!
//! Cost: O(segments) per read or write.

/// A range of the medium, in track time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    held: Span,
    used: u64,
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
    segments: Vec<Segment>,
    fill: Option<Fill>,
    clock: u64,
    /// Track time of the disk's end: nothing is read beyond it.
    total: u64,
}

impl ReadAhead {
    pub(super) fn new(segments: u32, total: u64) -> Self {
        Self { segments: vec![Segment::default(); segments as usize], fill: None, clock: 0, total }
    }

    fn front(&self, fill: Fill, now: u64) -> u64 {
        (self.segments[fill.segment].held.end + (now - fill.since)).min(fill.limit)
    }

    /// Brings the filling segment's end up to `now`, then lets the fill run on to `limit`.
    fn advance(&mut self, now: u64, limit: u64) {
        if let Some(mut fill) = self.fill {
            self.segments[fill.segment].held.end = self.front(fill, now);
            fill.since = now;
            fill.limit = fill.limit.max(limit.min(self.total));
            self.fill = Some(fill);
        }
    }

    fn touch(&mut self, segment: usize) {
        self.clock += 1;
        self.segments[segment].used = self.clock;
    }

    /// Whether the cache holds all of `read` at `now`; if so it counts as used, and a fill goes on to `ahead` past its end.
    pub(super) fn hit(&mut self, now: u64, read: Span, ahead: u64) -> bool {
        let filling = self.fill.map(|fill| (fill.segment, self.front(fill, now)));
        let holds = |(index, segment): (usize, &Segment)| {
            let end = filling.filter(|f| f.0 == index).map_or(segment.held.end, |f| f.1);
            (segment.held.start <= read.start && read.end <= end).then_some(index)
        };
        let Some(index) = self.segments.iter().enumerate().find_map(holds) else { return false };
        self.touch(index);
        if filling.is_some_and(|f| f.0 == index) {
            self.segments[index].held.start = read.start;
            self.advance(now, read.end + ahead);
        }
        true
    }

    /// Whether the running fill gets to `read` by itself within `reach`: the time its end will have been read, if so.
    pub(super) fn attach(&mut self, now: u64, read: Span, reach: u64, ahead: u64) -> Option<u64> {
        let fill = self.fill?;
        let front = self.front(fill, now);
        if read.start < self.segments[fill.segment].held.start || read.start >= front + reach || read.end <= front {
            return None;
        }
        self.advance(now, read.end + ahead);
        self.segments[fill.segment].held.start = read.start;
        self.touch(fill.segment);
        Some(now + (read.end - front))
    }

    /// A read of the medium ended at `now`: the drive reads on, up to `ahead` past its end.
    pub(super) fn start(&mut self, now: u64, read: Span, ahead: u64) {
        let continued = |segment: &Segment| segment.held.start <= read.start && read.start <= segment.held.end;
        let index = match self.segments.iter().position(|s| s.used > 0 && continued(s)) {
            Some(index) => index,
            None => match self.segments.iter().enumerate().min_by_key(|(_, s)| s.used) {
                Some((index, _)) => index,
                None => return,
            },
        };
        self.segments[index].held = read;
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
            if segment.held.start < written.end && written.start < segment.held.end {
                *segment = Segment::default();
                self.fill = self.fill.filter(|fill| fill.segment != index);
            }
        }
    }
}
