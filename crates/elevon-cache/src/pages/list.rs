//! Lists of pages, linked through the pages themselves. Cost: O(1) for each operation.

use super::{NONE, Pages};
use crate::FrameId;

/// One list; a page is on at most one. The head is where new pages go, the tail is where reclaim
/// looks first.
#[derive(Clone, Copy, Debug)]
pub struct List {
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
    /// Pages on the list.
    #[inline]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The page that has been here longest.
    #[inline]
    pub fn tail(&self) -> Option<FrameId> {
        (self.tail != NONE).then_some(FrameId(self.tail))
    }

    /// The page that came last.
    #[inline]
    pub fn head(&self) -> Option<FrameId> {
        (self.head != NONE).then_some(FrameId(self.head))
    }

    /// The neighbour of a page of this list towards the head.
    #[inline]
    pub fn newer(&self, pages: &Pages, slot: FrameId) -> Option<FrameId> {
        let next = pages[slot].prev;
        (next != NONE).then_some(FrameId(next))
    }

    /// Puts a page at the head.
    #[inline]
    pub fn push_head(&mut self, pages: &mut Pages, slot: FrameId) {
        let old = core::mem::replace(&mut self.head, slot.0);
        (pages[slot].prev, pages[slot].next) = (NONE, old);
        if old == NONE {
            self.tail = slot.0;
        } else {
            pages[FrameId(old)].prev = slot.0;
        }
        self.len += 1;
    }

    /// Puts a page at the tail.
    #[inline]
    pub fn push_tail(&mut self, pages: &mut Pages, slot: FrameId) {
        let old = core::mem::replace(&mut self.tail, slot.0);
        (pages[slot].prev, pages[slot].next) = (old, NONE);
        if old == NONE {
            self.head = slot.0;
        } else {
            pages[FrameId(old)].next = slot.0;
        }
        self.len += 1;
    }

    /// Takes a page of this list out.
    #[inline]
    pub fn remove(&mut self, pages: &mut Pages, slot: FrameId) {
        let (prev, next) = (pages[slot].prev, pages[slot].next);
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

    /// The pages from tail to head.
    pub fn iter<'a>(&self, pages: &'a Pages) -> impl Iterator<Item = FrameId> + use<'a> {
        let list = *self;
        core::iter::successors(self.tail(), move |&slot| list.newer(pages, slot))
    }

    /// Panics where the links do not make one list of [`Self::len`] pages.
    pub fn self_check(&self, pages: &Pages) {
        let (mut count, mut last) = (0, NONE);
        for slot in self.iter(pages) {
            assert_eq!(pages[slot].next, last, "{slot:?} does not point back");
            assert!(pages.is_used(slot), "{slot:?} is listed and free");
            last = slot.0;
            count += 1;
            assert!(count <= self.len, "a list is longer than it says");
        }
        assert_eq!((self.head, count), (last, self.len));
    }
}
