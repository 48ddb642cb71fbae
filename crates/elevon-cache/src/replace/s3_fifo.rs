//! `s3-fifo`: a small queue for new pages, a main queue for reused pages, and ghosts (Yang et al.,
//! SOSP 2023).
//!
//! The small queue is a tenth of the pages. A page that leaves it goes to the main queue if it was
//! used more than once, and is evicted otherwise. The shadows of evicted pages are the ghosts: a
//! page that returns before as many pages have left the small queue as the main queue holds goes to
//! the main queue, and counts as active content. The main queue keeps a page for one more turn per
//! use, up to three.
//!
//! Not in the paper: an accessed bit that is set when reclaim scans the page counts as one use, and
//! busy pages move to the head of their queue.
//!
//! Cost: each operation O(1); eviction amortised O(1), because each further turn requires a use.

use alloc::vec::Vec;

use super::{Replacement, Request, ScanOutcome, Stats, is_busy};
use crate::pages::{Evicted, FIELD_MAX, Flags, LeafEntry, List, Pages};
use crate::shadow::Shadow;
use crate::{Context, FrameId};
use elevon_core::units::Instant;

const SMALL_LIST: u32 = 1;
const MAIN: u32 = 2;
/// The small queue holds one page in this number.
const SMALL_SHARE: u64 = 10;

/// The policy's state.
#[derive(Clone, Debug, Default)]
pub struct S3Fifo {
    small: List,
    main: List,
    /// The number of pages that have become ghosts.
    ghosts: u64,
    stats: Stats,
}

impl S3Fifo {
    fn add(&mut self, pages: &mut Pages, frame: FrameId, tag: u32) {
        pages.set_list_tag(frame, tag);
        let list = if tag == MAIN { &mut self.main } else { &mut self.small };
        list.push_head(pages, frame);
    }

    fn take(&mut self, pages: &mut Pages, frame: FrameId) -> u32 {
        let tag = pages.list_tag(frame);
        let list = if tag == MAIN { &mut self.main } else { &mut self.small };
        list.remove(pages, frame);
        pages.set_list_tag(frame, 0);
        tag
    }

    fn scan(
        &mut self,
        pages: &mut Pages,
        frame: FrameId,
        outcome: &mut ScanOutcome,
        out: &mut Vec<Evicted>,
    ) {
        outcome.scanned += 1;
        self.stats.scanned += 1;
        let tag = self.take(pages, frame);
        if !pages.is_evictable(frame) {
            if is_busy(pages, frame) {
                outcome.pass_on(pages, frame);
                self.stats.passed_on += 1;
            } else {
                self.stats.kept += 1;
            }
            return self.add(pages, frame, tag);
        }
        let uses = pages.field(frame) + u32::from(pages.take_accessed(frame));
        if tag == SMALL_LIST && uses > 1 {
            pages.set_field(frame, 0);
            self.stats.promoted += 1;
            return self.add(pages, frame, MAIN);
        }
        if tag == MAIN && uses > 0 {
            pages.set_field(frame, uses - 1);
            self.stats.kept += 1;
            return self.add(pages, frame, MAIN);
        }
        let ghost = (tag == SMALL_LIST).then(|| Shadow::new(self.ghosts, false));
        self.ghosts += u64::from(ghost.is_some());
        self.stats.evicted += 1;
        outcome.evicted += 1;
        out.push(pages.remove(frame, ghost));
    }
}

impl Replacement for S3Fifo {
    fn insert(
        &mut self,
        pages: &mut Pages,
        frame: FrameId,
        _context: Context,
        shadow: Option<Shadow>,
    ) {
        self.stats.inserted += 1;
        let is_ghost = shadow.is_some_and(|shadow| shadow.age(self.ghosts) <= self.main.len());
        if is_ghost {
            pages.set(frame, Flags::WORKINGSET);
            self.stats.refaulted += 1;
            self.stats.restored += 1;
        }
        self.add(pages, frame, if is_ghost { MAIN } else { SMALL_LIST });
    }

    #[inline]
    fn read_at(&mut self, pages: &mut Pages, place: LeafEntry) {
        let bits = pages.at_mut(place);
        bits.set_field((bits.field() + 1).min(FIELD_MAX));
    }

    fn evict(
        &mut self,
        _now: Instant,
        pages: &mut Pages,
        request: Request,
        out: &mut Vec<Evicted>,
    ) -> ScanOutcome {
        let mut outcome = ScanOutcome::default();
        // A page may have four turns before it is evicted.
        let budget = ((4 * pages.used()) >> request.priority).max(32);
        // One turn through the small queue: if all its pages are in use, the main queue is scanned.
        let mut small_turns = self.small.len();
        while outcome.scanned < budget && outcome.evicted < request.want {
            let is_large = self.small.len() * SMALL_SHARE >= pages.used();
            let is_small = (is_large && small_turns > 0) || self.main.is_empty();
            small_turns = small_turns.saturating_sub(u64::from(is_small));
            let Some(frame) = (if is_small { &self.small } else { &self.main }).tail() else {
                break;
            };
            self.scan(pages, frame, &mut outcome, out);
        }
        outcome
    }

    fn rotate(&mut self, pages: &mut Pages, frame: FrameId) {
        let tag = self.take(pages, frame);
        pages.set_list_tag(frame, tag);
        let list = if tag == MAIN { &mut self.main } else { &mut self.small };
        list.push_tail(pages, frame);
        self.stats.rotated += 1;
    }

    fn remove(&mut self, pages: &mut Pages, frame: FrameId) {
        self.take(pages, frame);
        self.stats.removed += 1;
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn self_check(&self, pages: &Pages) {
        for (list, tag) in [(&self.small, SMALL_LIST), (&self.main, MAIN)] {
            list.self_check(pages);
            list.iter(pages).for_each(|frame| assert_eq!(pages.list_tag(frame), tag));
        }
        assert_eq!(self.small.len() + self.main.len(), pages.used());
    }
}
