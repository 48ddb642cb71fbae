//! Lists of pages, linked through the pages themselves. Cost: O(1) per operation.

use super::{NONE, Pages};
use crate::FrameId;

/// A list; a page is on at most one. New pages are added at the head, and reclaim scans from the
/// tail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: u64,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl List {
    /// Returns the number of pages on the list.
    #[inline]
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the list is empty.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the page that has been on the list longest.
    #[inline]
    pub(crate) fn tail(&self) -> Option<FrameId> {
        (self.tail != NONE).then_some(FrameId(self.tail))
    }

    /// Returns the page that was added last.
    #[inline]
    pub(crate) fn head(&self) -> Option<FrameId> {
        (self.head != NONE).then_some(FrameId(self.head))
    }

    /// Returns the neighbour of a page of this list towards the head.
    #[inline]
    pub(crate) fn newer(&self, pages: &Pages, frame: FrameId) -> Option<FrameId> {
        let next = pages[frame].prev;
        (next != NONE).then_some(FrameId(next))
    }

    /// Adds a page at the head.
    #[inline]
    pub(crate) fn push_head(&mut self, pages: &mut Pages, frame: FrameId) {
        let old = core::mem::replace(&mut self.head, frame.0);
        (pages[frame].prev, pages[frame].next) = (NONE, old);
        if old == NONE {
            self.tail = frame.0;
        } else {
            pages[FrameId(old)].prev = frame.0;
        }
        self.len += 1;
    }

    /// Adds a page at the tail.
    #[inline]
    pub(crate) fn push_tail(&mut self, pages: &mut Pages, frame: FrameId) {
        let old = core::mem::replace(&mut self.tail, frame.0);
        (pages[frame].prev, pages[frame].next) = (old, NONE);
        if old == NONE {
            self.head = frame.0;
        } else {
            pages[FrameId(old)].next = frame.0;
        }
        self.len += 1;
    }

    /// Removes a page of this list.
    #[inline]
    pub(crate) fn remove(&mut self, pages: &mut Pages, frame: FrameId) {
        let (prev, next) = (pages[frame].prev, pages[frame].next);
        if prev == NONE {
            self.head = next;
        } else {
            pages[FrameId(prev)].next = next;
        }
        if next == NONE {
            self.tail = prev;
        } else {
            pages[FrameId(next)].prev = prev;
        }
        self.len -= 1;
    }

    /// Returns the pages from tail to head.
    pub(crate) fn iter<'a>(&self, pages: &'a Pages) -> impl Iterator<Item = FrameId> + use<'a> {
        let list = *self;
        core::iter::successors(self.tail(), move |&frame| list.newer(pages, frame))
    }

    /// Panics if the links do not form one list of [`Self::len`] pages.
    pub(crate) fn self_check(&self, pages: &Pages) {
        let (mut count, mut last) = (0, NONE);
        for frame in self.iter(pages) {
            assert_eq!(pages[frame].next, last, "{frame:?} does not point back");
            assert!(pages.is_used(frame), "{frame:?} is listed and free");
            last = frame.0;
            count += 1;
            assert!(count <= self.len, "a list is longer than it says");
        }
        assert_eq!((self.head, count), (last, self.len));
    }
}
