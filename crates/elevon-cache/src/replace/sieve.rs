//! `sieve`: one queue, a visited bit, and a hand that moves (Zhang et al., NSDI 2024).
//!
//! New pages go to the head. The hand moves from the tail towards the head, clears the bit of pages
//! that were visited, and evicts the first that was not; what stays keeps its place. It leaves no
//! shadows, so no page is active content.
//!
//! Ours: a set accessed bit is a visit; pages in use are passed by.
//!
//! Cost: each operation O(1); eviction amortised O(1), as each page that is passed was visited
//! since the hand last came by.

use alloc::vec::Vec;

use super::{Replacement, Request, ScanOutcome, Stats, is_busy};
use crate::pages::{Evicted, Flags, LeafEntry, List, Pages};
use crate::shadow::Shadow;
use crate::{Context, FrameId};
use elevon_core::units::Instant;

const QUEUE: u32 = 1;

/// The policy's state.
#[derive(Clone, Debug, Default)]
pub struct Sieve {
    queue: List,
    /// The next page to scan; after the head, the hand continues at the tail.
    hand: Option<FrameId>,
    stats: Stats,
}

impl Sieve {
    fn take(&mut self, pages: &mut Pages, slot: FrameId) {
        if self.hand == Some(slot) {
            self.hand = self.queue.newer(pages, slot);
        }
        self.queue.remove(pages, slot);
        pages.set_list_tag(slot, 0);
    }
}

impl Replacement for Sieve {
    fn insert(&mut self, pages: &mut Pages, slot: FrameId, _context: Context, _shadow: Option<Shadow>) {
        self.stats.inserted += 1;
        pages.set_list_tag(slot, QUEUE);
        self.queue.push_head(pages, slot);
    }

    #[inline]
    fn access_at(&mut self, pages: &mut Pages, place: LeafEntry, context: Context) {
        match context {
            Context::Fault => pages.set_accessed(pages.slot(place)),
            Context::Read => pages.at_mut(place).set(Flags::REFERENCED),
            Context::Write | Context::Readahead => {}
        }
    }

    fn evict(&mut self, _now: Instant, pages: &mut Pages, request: Request, out: &mut Vec<Evicted>) -> ScanOutcome {
        let mut outcome = ScanOutcome::default();
        // One round to clear the bits, and one to find the first page to evict.
        let budget = ((2 * pages.used()) >> request.priority).max(32);
        while outcome.scanned < budget && outcome.evicted < request.want {
            let Some(slot) = self.hand.or(self.queue.tail()) else { break };
            self.hand = Some(slot);
            outcome.scanned += 1;
            self.stats.scanned += 1;
            let was_visited = pages.has(slot, Flags::REFERENCED) | pages.take_accessed(slot);
            pages.clear(slot, Flags::REFERENCED);
            if !was_visited && pages.is_evictable(slot) {
                self.take(pages, slot);
                self.stats.evicted += 1;
                outcome.evicted += 1;
                out.push(pages.remove(slot, None));
                continue;
            }
            if is_busy(pages, slot) {
                outcome.pass_on(pages, slot);
                self.stats.passed_on += 1;
            } else {
                self.stats.kept += 1;
            }
            self.hand = self.queue.newer(pages, slot);
        }
        outcome
    }

    fn rotate(&mut self, _pages: &mut Pages, _slot: FrameId) {
        // The page keeps its place: pages ahead of the hand may have been used less.
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
        self.queue.self_check(pages);
        assert_eq!(self.queue.len(), pages.used());
        assert!(self.hand.is_none_or(|slot| pages.list_tag(slot) == QUEUE));
    }
}
