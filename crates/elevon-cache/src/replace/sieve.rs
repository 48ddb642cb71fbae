//! `sieve`: one queue, a visited bit, and a hand that moves (Zhang et al., NSDI 2024).
//!
//! New pages go to the head. The hand moves from the tail towards the head, clears the bit of
//! visited pages, and evicts the first page that was not visited; other pages keep their places.
//! Evicted pages leave no shadows, so no page is active content.
//!
//! Not in the paper: an accessed bit that is set counts as a visit, and busy pages are skipped.
//!
//! Cost: each operation O(1); eviction amortised O(1), because each page skipped was visited since
//! the hand last passed it.

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
    fn take(&mut self, pages: &mut Pages, frame: FrameId) {
        if self.hand == Some(frame) {
            self.hand = self.queue.newer(pages, frame);
        }
        self.queue.remove(pages, frame);
        pages.set_list_tag(frame, 0);
    }
}

impl Replacement for Sieve {
    fn insert(
        &mut self,
        pages: &mut Pages,
        frame: FrameId,
        _context: Context,
        _shadow: Option<Shadow>,
    ) {
        self.stats.inserted += 1;
        pages.set_list_tag(frame, QUEUE);
        self.queue.push_head(pages, frame);
    }

    #[inline]
    fn read_at(&mut self, pages: &mut Pages, place: LeafEntry) {
        pages.at_mut(place).set(Flags::REFERENCED);
    }

    fn evict(
        &mut self,
        _now: Instant,
        pages: &mut Pages,
        request: Request,
        out: &mut Vec<Evicted>,
    ) -> ScanOutcome {
        let mut outcome = ScanOutcome::default();
        // One round to clear the bits, and one to find the first page to evict.
        let budget = ((2 * pages.used()) >> request.priority).max(32);
        while outcome.scanned < budget && outcome.evicted < request.want {
            let Some(frame) = self.hand.or(self.queue.tail()) else { break };
            self.hand = Some(frame);
            outcome.scanned += 1;
            self.stats.scanned += 1;
            let was_visited = pages.has(frame, Flags::REFERENCED) | pages.take_accessed(frame);
            pages.clear(frame, Flags::REFERENCED);
            if !was_visited && pages.is_evictable(frame) {
                self.take(pages, frame);
                self.stats.evicted += 1;
                outcome.evicted += 1;
                out.push(pages.remove(frame, None));
                continue;
            }
            if is_busy(pages, frame) {
                outcome.pass_on(pages, frame);
                self.stats.passed_on += 1;
            } else {
                self.stats.kept += 1;
            }
            self.hand = self.queue.newer(pages, frame);
        }
        outcome
    }

    fn rotate(&mut self, _pages: &mut Pages, _frame: FrameId) {
        // The page keeps its place: pages ahead of the hand may have been used less.
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
        self.queue.self_check(pages);
        assert_eq!(self.queue.len(), pages.used());
        assert!(self.hand.is_none_or(|frame| pages.list_tag(frame) == QUEUE));
    }
}
