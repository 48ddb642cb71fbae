//! `mglru-6.1` and `mglru-6.14`: the multi-generational LRU.
//!
//! Pages are in two to four generations, numbered `min_seq` to `max_seq`. New pages go near the
//! oldest generation, faulted pages into the youngest. Uses through descriptors are counted in the
//! page and determine its *tier*. Uses through page tables are found by the ageing walk, and by a
//! look around when eviction meets an accessed page; they move a page to the youngest generation.
//! Eviction takes the oldest generation from its tail, except for the tiers that the
//! [`TierControl`] protects: their pages go to the next generation, and their uses are reset. A
//! shadow holds `min_seq` at eviction and the number of uses. A refault is *recent* as long as
//! `min_seq` has not changed (`mglru-6.14`: as long as `max_seq` is less than four greater than the
//! shadow's number).
//!
//! | | `mglru-6.1` | `mglru-6.14` |
//! |---|---|---|
//! | uses 1, 2, 3 ... of a descriptor | Referenced, Workingset, field 1 to 3 | Referenced, field 1 to 3, Workingset |
//! | recent refault | Workingset if within a fault or after 4 uses | Workingset if the shadow says so, else the uses are restored |
//! | accessed bit | youngest generation, count afresh | first Referenced, then Workingset and youngest generation |
//! | moved to another generation | Workingset cleared | Workingset kept |
//! | ageing is due | by the sizes of the generations | when there are fewer than four |
//!
//! Simplifications: a promoted page changes lists at once, not when eviction meets it; the look
//! around covers the 64 aligned indexes of the file; the walk reads one accessed bit per frame (no
//! Bloom filters).
//!
//! Programs' memory has generations of its own, as counts ([`Anonymous`]), which are used only if
//! there is zram and swappiness is not 0. A batch is taken from programs' pages if their oldest
//! generation is older (`mglru-6.1`) or swappiness is 200, and from file pages if swappiness is 1.
//! Otherwise file pages are taken unless they refault more often than programs' pages do, each
//! weighted by swappiness. If a batch scans no page of its type, the other type is scanned. In
//! `mglru-6.1` the oldest generations of both types end together, in `mglru-6.14` each ends by
//! itself.
//!
//! Cost: insert and access O(1); eviction O(1) per page scanned (64 for a page whose accessed bit
//! is set); ageing O(frames / 64 + accessed pages), plus O(size of the oldest generation) if there
//! would be a fifth generation.

mod programs;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use super::control::{TIERS, TierControl};
use super::{
    Anonymous, DEFAULT_PRIORITY, Reclaimer, Replacement, Request, ScanOutcome, Stats, is_busy,
};
use crate::pages::{Evicted, FIELD_MAX, Flags, LeafEntry, List, Pages};
use crate::shadow::Shadow;
use crate::{Context, FrameId};
use elevon_core::units::{Instant, Nanos};
use programs::Programs;

/// The maximum number of generations.
const GENERATIONS: u64 = 4;
/// Pages of one type that are scanned before the type is chosen again.
const BATCH: u64 = 64;
/// A stamp keeps 28 bits of a sequence number, and two bits of the number of uses.
const SEQ_MASK: u64 = (1 << 28) - 1;

/// The kernel versions whose rules apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// 6.1 to 6.13.
    #[default]
    V6_1,
    /// 6.14 and later.
    V6_14,
}

/// The policy's state.
#[derive(Clone, Debug)]
pub struct Mglru {
    version: Version,
    min_ttl: Nanos,
    min_seq: u64,
    max_seq: u64,
    lists: [List; GENERATIONS as usize],
    births: [Instant; GENERATIONS as usize],
    control: TierControl,
    programs: Programs,
    stats: Stats,
}

impl Default for Mglru {
    fn default() -> Self {
        Self::new(Version::V6_1, Nanos::ZERO)
    }
}

impl Mglru {
    /// Returns a policy with four empty generations. The oldest generation is not evicted before it
    /// has the age `min_ttl`.
    pub fn new(version: Version, min_ttl: Nanos) -> Self {
        Self {
            version,
            min_ttl,
            min_seq: 0,
            max_seq: 3,
            lists: Default::default(),
            births: Default::default(),
            control: TierControl::default(),
            programs: Programs::default(),
            stats: Stats::default(),
        }
    }

    /// Returns the number of the oldest generation.
    pub const fn min_seq(&self) -> u64 {
        self.min_seq
    }

    /// Returns the number of the youngest generation.
    pub const fn max_seq(&self) -> u64 {
        self.max_seq
    }

    /// Returns the number of file pages in generation `seq`, which must exist.
    pub fn size(&self, seq: u64) -> u64 {
        self.lists[at(seq)].len()
    }

    /// Returns the controller of the tiers.
    pub const fn control(&self) -> &TierControl {
        &self.control
    }

    /// Returns the number of the generation that a page is in.
    pub fn seq(&self, pages: &Pages, frame: FrameId) -> u64 {
        (self.min_seq..=self.max_seq)
            .find(|&seq| tag(seq) == pages.list_tag(frame))
            .expect("a page is in a generation")
    }

    /// Returns the number of uses that count: `mglru-6.1` does not count the first.
    fn refs(&self, pages: &Pages, frame: FrameId) -> u32 {
        match self.version {
            Version::V6_1 => pages.field(frame) + u32::from(pages.has(frame, Flags::WORKINGSET)),
            Version::V6_14 if pages.has(frame, Flags::REFERENCED) => pages.field(frame) + 1,
            Version::V6_14 => 0,
        }
    }

    fn tier_of(&self, refs: u32, is_workingset: bool) -> usize {
        match self.version {
            Version::V6_1 => log2_ceil(refs + 1),
            Version::V6_14 if is_workingset => TIERS - 1,
            Version::V6_14 => log2_ceil(refs.max(1)),
        }
    }

    /// Returns the tier of a page, 0 to 3.
    pub(crate) fn tier(&self, pages: &Pages, frame: FrameId) -> usize {
        self.tier_of(self.refs(pages, frame), pages.has(frame, Flags::WORKINGSET))
    }

    /// Resets a page's uses, because it moves to another generation.
    fn count_afresh(&self, pages: &mut Pages, frame: FrameId) {
        pages.set_field(frame, 0);
        pages.clear(frame, Flags::REFERENCED);
        if self.version == Version::V6_1 {
            pages.clear(frame, Flags::WORKINGSET);
        }
    }

    fn add(&mut self, pages: &mut Pages, frame: FrameId, seq: u64) {
        pages.set_list_tag(frame, tag(seq));
        self.lists[at(seq)].push_head(pages, frame);
    }

    fn take(&mut self, pages: &mut Pages, frame: FrameId) {
        let list = pages.list_tag(frame) as usize - 1;
        self.lists[list].remove(pages, frame);
        pages.set_list_tag(frame, 0);
    }

    /// Moves a page of the oldest generation to the next, and resets its uses.
    fn pass_on(&mut self, pages: &mut Pages, frame: FrameId) {
        self.take(pages, frame);
        self.count_afresh(pages, frame);
        self.add(pages, frame, self.min_seq + 1);
    }

    /// Moves a page whose accessed bit was set to the youngest generation. In `mglru-6.14` the
    /// first accessed bit only marks the page. Returns whether the page moved.
    fn promote(&mut self, pages: &mut Pages, frame: FrameId) -> bool {
        let is_first = !pages.has(frame, Flags::REFERENCED | Flags::WORKINGSET);
        if self.version == Version::V6_14 {
            pages.set(frame, if is_first { Flags::REFERENCED } else { Flags::WORKINGSET });
            if is_first {
                return false;
            }
        }
        self.take(pages, frame);
        self.count_afresh(pages, frame);
        self.add(pages, frame, self.max_seq);
        self.stats.promoted += 1;
        true
    }

    fn refault(&mut self, pages: &mut Pages, frame: FrameId, context: Context, shadow: Shadow) {
        let (seq, low) = (shadow.stamp() >> 2, (shadow.stamp() & 3) as u32);
        let is_recent = match self.version {
            Version::V6_1 => self.min_seq & SEQ_MASK == seq,
            Version::V6_14 => self.max_seq.wrapping_sub(seq) & SEQ_MASK < GENERATIONS,
        };
        if !is_recent {
            return;
        }
        let is_workingset = shadow.is_workingset();
        let refs = match self.version {
            Version::V6_1 => low + u32::from(is_workingset),
            Version::V6_14 => low + 1,
        };
        let tier = self.tier_of(refs, is_workingset);
        self.control.refaulted[tier] += 1;
        self.stats.refaulted += 1;
        self.stats.refaulted_by_tier[tier] += 1;
        let restores = match self.version {
            Version::V6_1 => context == Context::Fault || refs >= 3,
            Version::V6_14 => is_workingset,
        };
        if restores {
            pages.set(frame, Flags::WORKINGSET);
            self.stats.restored += 1;
        }
        match self.version {
            Version::V6_1 if restores => pages.set_field(frame, FIELD_MAX),
            Version::V6_1 => {}
            Version::V6_14 => pages.set_field(frame, low),
        }
    }

    fn total(&self) -> u64 {
        self.lists.iter().map(List::len).sum()
    }

    /// Returns the number of pages that reclaim may take, in all generations or in one.
    fn evictable(&self, seq: Option<u64>) -> u64 {
        let programs = self.programs.anonymous.is_reclaimable();
        match seq {
            Some(seq) => self.size(seq) + if programs { self.programs.size(seq) } else { 0 },
            None => self.total() + if programs { self.programs.total() } else { 0 },
        }
    }

    /// Returns the oldest generation that decides whether ageing is due.
    fn oldest(&self) -> u64 {
        match self.version {
            _ if !self.programs.anonymous.is_reclaimable() => self.min_seq,
            Version::V6_1 => self.programs.min_seq,
            Version::V6_14 => self.programs.min_seq.min(self.min_seq),
        }
    }

    /// Ends the oldest generation, which must be empty.
    fn advance(&mut self) {
        debug_assert!(self.lists[at(self.min_seq)].is_empty());
        self.min_seq += 1;
        self.control.advance();
    }

    /// Ends oldest generations that are empty, as long as two remain.
    fn drop_empty(&mut self) {
        loop {
            let files = self.min_seq + 2 <= self.max_seq && self.size(self.min_seq) == 0;
            let (seq, reclaimable) =
                (self.programs.min_seq, self.programs.anonymous.is_reclaimable());
            let programs = reclaimable && seq + 2 <= self.max_seq && self.programs.size(seq) == 0;
            let (files, programs) = match self.version {
                Version::V6_1 if reclaimable && seq < self.min_seq => (false, programs),
                Version::V6_1 if reclaimable => (files && programs, files && programs),
                Version::V6_1 | Version::V6_14 => (files, programs),
            };
            if files {
                self.advance();
            }
            if programs {
                self.programs.advance();
            }
            if !files && !programs {
                return;
            }
        }
    }

    /// Returns true if a new generation is due.
    pub(crate) fn needs_ageing(&self) -> bool {
        let oldest = self.oldest();
        match self.version {
            Version::V6_14 => self.max_seq - oldest + 1 < GENERATIONS,
            Version::V6_1 if oldest + 2 != self.max_seq => oldest + 2 > self.max_seq,
            Version::V6_1 => {
                let of = |seq| self.evictable(seq);
                let (young, old, total) = (of(Some(self.max_seq)), of(Some(oldest)), of(None));
                2 * young > total || 4 * old < total
            }
        }
    }

    /// Promotes the pages that were accessed through page tables, and begins a new generation. If
    /// that would be the fifth, the oldest is merged into the next.
    fn new_generation(&mut self, now: Instant, pages: &mut Pages) {
        for word in 0.. {
            let Some(mut bits) = pages.take_accessed_word(word) else { break };
            while bits != 0 {
                let frame = FrameId((word * 64) as u32 + bits.trailing_zeros());
                bits &= bits - 1;
                self.promote(pages, frame);
            }
        }
        self.programs.walk(self.max_seq);
        if self.max_seq - self.programs.min_seq + 1 == GENERATIONS {
            self.programs.advance();
        }
        if self.max_seq - self.min_seq + 1 == GENERATIONS {
            let mut oldest = core::mem::take(&mut self.lists[at(self.min_seq)]);
            // The youngest page goes first, so that the pages stay in order behind the others.
            while let Some(frame) = oldest.head() {
                oldest.remove(pages, frame);
                self.count_afresh(pages, frame);
                pages.set_list_tag(frame, tag(self.min_seq + 1));
                self.lists[at(self.min_seq + 1)].push_tail(pages, frame);
            }
            self.advance();
        }
        self.max_seq += 1;
        self.births[at(self.max_seq)] = now;
        self.stats.generations += 1;
    }

    /// Scans a page at the tail of the oldest generation. Tiers above `protected` are not evicted.
    fn scan(
        &mut self,
        pages: &mut Pages,
        frame: FrameId,
        protected: u32,
        outcome: &mut ScanOutcome,
        out: &mut Vec<Evicted>,
    ) {
        outcome.scanned += 1;
        self.stats.scanned += 1;
        let (refs, tier) = (self.refs(pages, frame), self.tier(pages, frame));
        let is_full = refs == FIELD_MAX + 1
            && (self.version == Version::V6_1 || pages.has(frame, Flags::WORKINGSET));
        if tier as u32 > protected || is_full {
            self.control.protected[tier] += 1;
            self.stats.protected_by_tier[tier] += 1;
            return self.pass_on(pages, frame);
        }
        if is_busy(pages, frame) {
            outcome.pass_on(pages, frame);
            self.stats.passed_on += 1;
            return self.pass_on(pages, frame);
        }
        if !pages.has(frame, Flags::REFERENCED) {
            pages.set_field(frame, 0);
            if self.version == Version::V6_1 {
                pages.clear(frame, Flags::WORKINGSET);
            }
        }
        if pages.take_accessed(frame) {
            return self.look_around(pages, frame);
        }
        self.take(pages, frame);
        if !pages.is_evictable(frame) {
            self.stats.kept += 1;
            self.count_afresh(pages, frame);
            return self.add(pages, frame, self.max_seq);
        }
        let refs = self.refs(pages, frame);
        let is_workingset = pages.has(frame, Flags::WORKINGSET);
        let tier = self.tier_of(refs, is_workingset);
        let stamp = (self.min_seq & SEQ_MASK) << 2 | u64::from(refs.saturating_sub(1));
        self.control.evicted[tier] += 1;
        self.stats.evicted_by_tier[tier] += 1;
        self.stats.evicted += 1;
        outcome.evicted += 1;
        out.push(pages.remove(frame, Some(Shadow::new(stamp, is_workingset))));
    }

    /// Scans a batch of the oldest generation of file pages. Stops at `budget` pages scanned or
    /// `wanted` pages evicted in this round.
    fn scan_files(
        &mut self,
        pages: &mut Pages,
        budget: u64,
        wanted: u64,
        outcome: &mut ScanOutcome,
        out: &mut Vec<Evicted>,
    ) {
        if self.min_seq + 2 > self.max_seq {
            return;
        }
        let (protected, budget) = (self.control.tier(), budget.min(outcome.scanned + BATCH));
        while outcome.scanned < budget && outcome.evicted < wanted {
            let Some(frame) = self.lists[at(self.min_seq)].tail() else { return };
            self.scan(pages, frame, protected, outcome, out);
        }
    }

    /// Scans a batch of up to `count` pages of the oldest generation of programs' pages.
    fn scan_programs(&mut self, count: u64, outcome: &mut ScanOutcome) {
        if self.programs.min_seq + 2 > self.max_seq {
            return;
        }
        let (scanned, swapped) = self.programs.scan(count, self.max_seq);
        outcome.scanned += scanned;
        outcome.swapped += swapped;
        self.stats.scanned += scanned;
        self.stats.swapped += swapped;
    }

    /// Keeps an accessed page from eviction, and promotes those of its neighbours that were
    /// accessed.
    fn look_around(&mut self, pages: &mut Pages, frame: FrameId) {
        self.stats.kept += 1;
        if !self.promote(pages, frame) {
            // In mglru-6.14 the first accessed bit keeps the page, but does not make it young.
            self.take(pages, frame);
            self.add(pages, frame, self.min_seq + 1);
        }
        for offset in 0..64 {
            if let Some(near) = pages.neighbour(frame, offset)
                && pages.take_accessed(near)
            {
                self.promote(pages, near);
            }
        }
    }
}

#[inline]
const fn at(seq: u64) -> usize {
    (seq % GENERATIONS) as usize
}

#[inline]
const fn tag(seq: u64) -> u32 {
    at(seq) as u32 + 1
}

/// Returns the binary logarithm of `value`, which is at least 1, rounded up.
const fn log2_ceil(value: u32) -> usize {
    value.next_power_of_two().trailing_zeros() as usize
}

impl Replacement for Mglru {
    fn insert(
        &mut self,
        pages: &mut Pages,
        frame: FrameId,
        context: Context,
        shadow: Option<Shadow>,
    ) {
        self.stats.inserted += 1;
        if let Some(shadow) = shadow {
            self.refault(pages, frame, context, shadow);
        }
        let seq = if context == Context::Fault {
            self.stats.activated += 1;
            self.max_seq
        } else if self.min_seq + 2 >= self.max_seq {
            self.min_seq
        } else {
            self.min_seq + 1
        };
        self.add(pages, frame, seq);
    }

    #[inline]
    fn read_at(&mut self, pages: &mut Pages, place: LeafEntry) {
        let bits = pages.at_mut(place);
        let field = bits.field();
        match self.version {
            Version::V6_1 | Version::V6_14 if !bits.has(Flags::REFERENCED) => {
                bits.set(Flags::REFERENCED);
            }
            Version::V6_1 if !bits.has(Flags::WORKINGSET) => bits.set(Flags::WORKINGSET),
            Version::V6_14 if field == FIELD_MAX => bits.set(Flags::WORKINGSET),
            Version::V6_1 | Version::V6_14 => bits.set_field((field + 1).min(FIELD_MAX)),
        }
    }

    fn evict(
        &mut self,
        now: Instant,
        pages: &mut Pages,
        request: Request,
        out: &mut Vec<Evicted>,
    ) -> ScanOutcome {
        let mut outcome = ScanOutcome::default();
        self.drop_empty();
        if now.since(self.births[at(self.min_seq)]) < self.min_ttl {
            return ScanOutcome { is_too_young: true, ..outcome };
        }
        // Kswapd has aged when its round began (`age`). Direct reclaim does not age at the initial
        // priority.
        if self.needs_ageing()
            && request.by == Reclaimer::Direct
            && request.priority < DEFAULT_PRIORITY
        {
            self.new_generation(now, pages);
        }
        let budget = self.evictable(None) >> request.priority;
        while outcome.scanned < budget && outcome.reclaimed() < request.want {
            let count = BATCH.min(budget - outcome.scanned).min(request.want - outcome.reclaimed());
            self.drop_empty();
            let files =
                self.control.position(0, 200 - u64::from(self.programs.anonymous.swappiness));
            let before = outcome.scanned;
            let is_programs = self.programs.go_first(self.version, self.min_seq, files);
            if is_programs {
                self.scan_programs(count, &mut outcome);
            }
            if outcome.scanned == before {
                let wanted = outcome.evicted + (request.want - outcome.reclaimed());
                self.scan_files(pages, budget, wanted, &mut outcome, out);
            }
            if outcome.scanned == before && !is_programs && self.programs.anonymous.is_reclaimable()
            {
                self.scan_programs(count, &mut outcome);
            }
            if outcome.scanned == before {
                break;
            }
        }
        self.drop_empty();
        outcome
    }

    fn age(&mut self, now: Instant, pages: &mut Pages) {
        self.drop_empty();
        let is_too_young = now.since(self.births[at(self.min_seq)]) < self.min_ttl;
        if !is_too_young && self.needs_ageing() {
            self.new_generation(now, pages);
        }
    }

    fn rotate(&mut self, pages: &mut Pages, frame: FrameId) {
        self.take(pages, frame);
        pages.set_list_tag(frame, tag(self.min_seq));
        self.lists[at(self.min_seq)].push_tail(pages, frame);
        self.stats.rotated += 1;
    }

    fn remove(&mut self, pages: &mut Pages, frame: FrameId) {
        self.take(pages, frame);
        self.stats.removed += 1;
    }

    fn on_anonymous(&mut self, anonymous: Anonymous) {
        self.programs = Programs::new(anonymous, self.min_seq, self.max_seq);
    }

    fn anonymous(&self) -> Anonymous {
        self.programs.anonymous
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn self_check(&self, pages: &Pages) {
        assert!(self.min_seq < self.max_seq && self.max_seq - self.min_seq < GENERATIONS);
        for (index, list) in self.lists.iter().enumerate() {
            list.self_check(pages);
            let exists = (self.min_seq..=self.max_seq).any(|seq| at(seq) == index);
            assert!(exists || list.is_empty(), "a generation that has ended has pages");
            list.iter(pages)
                .for_each(|frame| assert_eq!(pages.list_tag(frame) as usize, index + 1));
        }
        assert_eq!(self.total(), pages.used());
        self.programs.self_check(self.max_seq);
        assert!(self.version == Version::V6_14 || self.programs.min_seq <= self.min_seq);
        let stats = &self.stats;
        assert_eq!(stats.inserted - stats.evicted - stats.removed, pages.used());
        assert_eq!(stats.evicted_by_tier.iter().sum::<u64>(), stats.evicted);
        assert!(stats.restored <= stats.refaulted);
    }
}
