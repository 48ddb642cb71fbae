//! `s3-fifo`: a small queue for new pages, a main queue for reused pages, and ghosts (Yang et al.,
//! SOSP 2023).
//!
//! The small queue is a tenth of the pages. A page that leaves it and was used more than once goes
//! to the main queue, others leave memory; their shadows are the ghosts: a page that comes back
//! before as many have left the small queue as the main one holds goes to the main queue, and
//! counts as active content. The main queue gives a page as many more turns as it was used, up to
//! three.
//!
//! Ours: a set accessed bit counts as one use when reclaim comes by; pages in use are passed on to
//! the head of their queue.
//!
//! Cost: each operation O(1); eviction amortised O(1), because each further turn requires a use.

use alloc::vec::Vec;

use super::{Replacement, Request, ScanOutcome, Stats, is_busy};
use crate::pages::{Evicted, FIELD_MAX, Flags, LeafEntry, List, Pages};
use crate::shadow::Shadow;
use crate::{Context, FrameId};
use elevon_core::units::Instant;

const SMALL: u32 = 1;
const MAIN: u32 = 2;
/// The small queue is one page in so many.
const SMALL_SHARE: u64 = 10;

/// The policy's state.
#[derive(Clone, Debug, Default)]
pub struct S3Fifo {
    small: List,
    main: List,
    /// Pages that have become ghosts.
    ghosts: u64,
    stats: Stats,
}

impl S3Fifo {
    fn add(&mut self, pages: &mut Pages, slot: FrameId, tag: u32) {
        pages.set_list_tag(slot, tag);
        let list = if tag == MAIN { &mut self.main } else { &mut self.small };
        list.push_head(pages, slot);
    }

    fn take(&mut self, pages: &mut Pages, slot: FrameId) -> u32 {
        let tag = pages.list_tag(slot);
        let list = if tag == MAIN { &mut self.main } else { &mut self.small };
        list.remove(pages, slot);
        pages.set_list_tag(slot, 0);
        tag
    }

    fn scan(&mut self, pages: &mut Pages, slot: FrameId, outcome: &mut ScanOutcome, out: &mut Vec<Evicted>) {
        outcome.scanned += 1;
        self.stats.scanned += 1;
        let tag = self.take(pages, slot);
        if !pages.is_evictable(slot) {
            if is_busy(pages, slot) {
                outcome.pass_on(pages, slot);
                self.stats.passed_on += 1;
            } else {
                self.stats.kept += 1;
            }
            return self.add(pages, slot, tag);
        }
        let uses = pages.field(slot) + u32::from(pages.take_accessed(slot));
        if tag == SMALL && uses > 1 {
            pages.set_field(slot, 0);
            self.stats.promoted += 1;
            return self.add(pages, slot, MAIN);
        }
        if tag == MAIN && uses > 0 {
            pages.set_field(slot, uses - 1);
            self.stats.kept += 1;
            return self.add(pages, slot, MAIN);
        }
        let ghost = (tag == SMALL).then(|| Shadow::new(self.ghosts, false));
        self.ghosts += u64::from(ghost.is_some());
        self.stats.evicted += 1;
        outcome.evicted += 1;
        out.push(pages.remove(slot, ghost));
    }
}

impl Replacement for S3Fifo {
    fn insert(&mut self, pages: &mut Pages, slot: FrameId, _context: Context, shadow: Option<Shadow>) {
        self.stats.inserted += 1;
        let is_ghost = shadow.is_some_and(|shadow| shadow.age(self.ghosts) <= self.main.len());
        if is_ghost {
            pages.set(slot, Flags::WORKINGSET);
            self.stats.refaulted += 1;
            self.stats.restored += 1;
        }
        self.add(pages, slot, if is_ghost { MAIN } else { SMALL });
    }

    #[inline]
    fn access_at(&mut self, pages: &mut Pages, place: LeafEntry, context: Context) {
        match context {
            Context::Fault => pages.set_accessed(pages.slot(place)),
            Context::Read => {
                let bits = pages.at_mut(place);
                bits.set_field((bits.field() + 1).min(FIELD_MAX));
            }
            Context::Write | Context::Readahead => {}
        }
    }

    fn evict(&mut self, _now: Instant, pages: &mut Pages, request: Request, out: &mut Vec<Evicted>) -> ScanOutcome {
        let mut outcome = ScanOutcome::default();
        // A page may have four turns before it is evicted.
        let budget = ((4 * pages.used()) >> request.priority).max(32);
        // Once round the small queue: where all of it is in use, the main one has to give.
        let mut small_turns = self.small.len();
        while outcome.scanned < budget && outcome.evicted < request.want {
            let is_large = self.small.len() * SMALL_SHARE >= pages.used();
            let is_small = (is_large && small_turns > 0) || self.main.is_empty();
            small_turns = small_turns.saturating_sub(u64::from(is_small));
            let Some(slot) = (if is_small { &self.small } else { &self.main }).tail() else { break };
            self.scan(pages, slot, &mut outcome, out);
        }
        outcome
    }

    fn rotate(&mut self, pages: &mut Pages, slot: FrameId) {
        let tag = self.take(pages, slot);
        pages.set_list_tag(slot, tag);
        let list = if tag == MAIN { &mut self.main } else { &mut self.small };
        list.push_tail(pages, slot);
        self.stats.rotated += 1;
    }

    fn remove(&mut self, pages: &mut Pages, slot: FrameId) {
        self.take(pages, slot);
        self.stats.removed += 1;
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn self_check(&self, pages: &Pages) {
        for (list, tag) in [(&self.small, SMALL), (&self.main, MAIN)] {
            list.self_check(pages);
            list.iter(pages).for_each(|slot| assert_eq!(pages.list_tag(slot), tag));
        }
        assert_eq!(self.small.len() + self.main.len(), pages.used());
    }
}
