//! `mglru-6.1` and `mglru-6.14`: the multi-generational LRU.
//!
//! Pages are in two to four generations, numbered `min_seq` to `max_seq`. New pages go near the
//! oldest, faulted ones into the youngest. Uses through descriptors are counted in the page and
//! make its *tier*; uses through page tables are found by the ageing walk, and by a look around
//! when eviction meets one, and move a page to the youngest generation. Eviction takes the oldest
//! generation from its tail, but for the tiers that the [`TierControl`] protects: those go to the
//! next generation and count afresh. A shadow holds `min_seq` at eviction and the uses counted; a
//! refault is *recent* while `min_seq` is still that (`mglru-6.14`: while `max_seq` is less than
//! four beyond).
//!
//! | | `mglru-6.1` | `mglru-6.14` |
//! |---|---|---|
//! | uses 1, 2, 3 ... of a descriptor | Referenced, Workingset, field 1 to 3 | Referenced, field 1 to 3, Workingset |
//! | recent refault | Workingset if within a fault or after 4 uses | Workingset if the shadow says so, else the uses are restored |
//! | accessed bit | youngest generation, count afresh | first Referenced, then Workingset and youngest generation |
//! | moved to another generation | Workingset cleared | Workingset kept |
//! | ageing is due | by the sizes of the generations | when there are fewer than four |
//!
//! Simpler than the kernel: a promoted page changes lists at once, not when eviction meets it; the
//! look around is at the 64 aligned indexes of the file; the walk reads one accessed bit a frame
//! (no Bloom filters).
//!
//! Programs' memory has generations of its own, as counts ([`Anonymous`]), which matter while there
//! is zram and swappiness is not 0. Which type a batch is taken from: programs', if their oldest
//! generation is older (`mglru-6.1`), or swappiness is 200; files', if it is 1; else files', unless
//! they come back more often than programs' pages do, each weighed by swappiness. A batch that
//! finds nothing of its type takes the other. In `mglru-6.1` the oldest generations of both types
//! end together, in `mglru-6.14` each by itself.
//!
//! Cost: insert and access O(1); eviction O(1) for each page it looks at (64 for one whose accessed
//! bit is set); ageing O(frames / 64 + accessed pages), and O(size of the oldest generation) where
//! a fifth would be made.

mod programs;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use super::control::{TIERS, TierControl};
use super::{Anonymous, DEFAULT_PRIORITY, Reclaimer, Replacement, Request, ScanOutcome, Stats, is_busy};
use crate::pages::{Evicted, FIELD_MAX, Flags, LeafEntry, List, Pages};
use crate::shadow::Shadow;
use crate::{Context, FrameId};
use elevon_core::units::{Instant, Nanos};
use programs::Programs;

/// Most generations.
const GENERATIONS: u64 = 4;
/// Pages of one type that are looked at before the type is chosen again.
const BATCH: u64 = 64;
/// Stamps keep so many of a sequence number's bits; two more are uses.
const SEQ_MASK: u64 = (1 << 28) - 1;

/// Which kernel's rules.
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
    /// Four empty generations. `min_ttl`: the oldest is not evicted before it is so old.
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

    /// Number of the oldest generation.
    pub const fn min_seq(&self) -> u64 {
        self.min_seq
    }

    /// Number of the youngest generation.
    pub const fn max_seq(&self) -> u64 {
        self.max_seq
    }

    /// Pages in generation `seq`, which exists.
    pub fn size(&self, seq: u64) -> u64 {
        self.lists[at(seq)].len()
    }

    /// The controller.
    pub const fn control(&self) -> &TierControl {
        &self.control
    }

    /// The generation of a page.
    pub fn seq(&self, pages: &Pages, slot: FrameId) -> u64 {
        (self.min_seq..=self.max_seq).find(|&seq| tag(seq) == pages.list_tag(slot)).expect("a page is in a generation")
    }

    /// Uses that count: `mglru-6.1` does not count the first.
    fn refs(&self, pages: &Pages, slot: FrameId) -> u32 {
        match self.version {
            Version::V6_1 => pages.field(slot) + u32::from(pages.has(slot, Flags::WORKINGSET)),
            Version::V6_14 if pages.has(slot, Flags::REFERENCED) => pages.field(slot) + 1,
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

    /// The tier of a page, 0 to 3.
    pub fn tier(&self, pages: &Pages, slot: FrameId) -> usize {
        self.tier_of(self.refs(pages, slot), pages.has(slot, Flags::WORKINGSET))
    }

    /// Forgets a page's uses, because it changes generations.
    fn count_afresh(&self, pages: &mut Pages, slot: FrameId) {
        pages.set_field(slot, 0);
        pages.clear(slot, Flags::REFERENCED);
        if self.version == Version::V6_1 {
            pages.clear(slot, Flags::WORKINGSET);
        }
    }

    fn add(&mut self, pages: &mut Pages, slot: FrameId, seq: u64) {
        pages.set_list_tag(slot, tag(seq));
        self.lists[at(seq)].push_head(pages, slot);
    }

    fn take(&mut self, pages: &mut Pages, slot: FrameId) {
        let list = pages.list_tag(slot) as usize - 1;
        self.lists[list].remove(pages, slot);
        pages.set_list_tag(slot, 0);
    }

    /// A page of the oldest generation goes to the next, and counts afresh.
    fn pass_on(&mut self, pages: &mut Pages, slot: FrameId) {
        self.take(pages, slot);
        self.count_afresh(pages, slot);
        self.add(pages, slot, self.min_seq + 1);
    }

    /// A page whose accessed bit was set is promoted, if that was not the first time; answers
    /// whether.
    fn promote(&mut self, pages: &mut Pages, slot: FrameId) -> bool {
        let is_first = !pages.has(slot, Flags::REFERENCED | Flags::WORKINGSET);
        if self.version == Version::V6_14 {
            pages.set(slot, if is_first { Flags::REFERENCED } else { Flags::WORKINGSET });
            if is_first {
                return false;
            }
        }
        self.take(pages, slot);
        self.count_afresh(pages, slot);
        self.add(pages, slot, self.max_seq);
        self.stats.promoted += 1;
        true
    }

    fn refault(&mut self, pages: &mut Pages, slot: FrameId, context: Context, shadow: Shadow) {
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
            pages.set(slot, Flags::WORKINGSET);
            self.stats.restored += 1;
        }
        match self.version {
            Version::V6_1 if restores => pages.set_field(slot, FIELD_MAX),
            Version::V6_1 => {}
            Version::V6_14 => pages.set_field(slot, low),
        }
    }

    fn total(&self) -> u64 {
        self.lists.iter().map(List::len).sum()
    }

    /// Pages that reclaim is about, in all generations or in one.
    fn evictable(&self, seq: Option<u64>) -> u64 {
        let programs = self.programs.anonymous.is_reclaimable();
        match seq {
            Some(seq) => self.size(seq) + if programs { self.programs.size(seq) } else { 0 },
            None => self.total() + if programs { self.programs.total() } else { 0 },
        }
    }

    /// The oldest generation that counts when ageing is asked for.
    fn oldest(&self) -> u64 {
        match self.version {
            _ if !self.programs.anonymous.is_reclaimable() => self.min_seq,
            Version::V6_1 => self.programs.min_seq,
            Version::V6_14 => self.programs.min_seq.min(self.min_seq),
        }
    }

    /// The oldest generation is over.
    fn advance(&mut self) {
        debug_assert!(self.lists[at(self.min_seq)].is_empty());
        self.min_seq += 1;
        self.control.advance();
    }

    /// Ends oldest generations that are empty, while more than two are left.
    fn drop_empty(&mut self) {
        loop {
            let files = self.min_seq + 2 <= self.max_seq && self.size(self.min_seq) == 0;
            let (seq, reclaimable) = (self.programs.min_seq, self.programs.anonymous.is_reclaimable());
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

    /// Whether a new generation is due.
    pub fn needs_ageing(&self) -> bool {
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

    /// Promotes what page tables have used, and opens a generation; a fifth one takes the oldest
    /// into the next.
    fn new_generation(&mut self, now: Instant, pages: &mut Pages) {
        for word in 0.. {
            let Some(mut bits) = pages.take_accessed_word(word) else { break };
            while bits != 0 {
                let slot = FrameId((word * 64) as u32 + bits.trailing_zeros());
                bits &= bits - 1;
                self.promote(pages, slot);
            }
        }
        self.programs.walk(self.max_seq);
        if self.max_seq - self.programs.min_seq + 1 == GENERATIONS {
            self.programs.advance();
        }
        if self.max_seq - self.min_seq + 1 == GENERATIONS {
            let mut oldest = core::mem::take(&mut self.lists[at(self.min_seq)]);
            // The youngest of them first, so that they stay in order behind the others.
            while let Some(slot) = oldest.head() {
                oldest.remove(pages, slot);
                self.count_afresh(pages, slot);
                pages.set_list_tag(slot, tag(self.min_seq + 1));
                self.lists[at(self.min_seq + 1)].push_tail(pages, slot);
            }
            self.advance();
        }
        self.max_seq += 1;
        self.births[at(self.max_seq)] = now;
        self.stats.generations += 1;
    }

    /// Looks at the tail of the oldest generation.
    fn scan(
        &mut self,
        pages: &mut Pages,
        slot: FrameId,
        protected: u32,
        outcome: &mut ScanOutcome,
        out: &mut Vec<Evicted>,
    ) {
        outcome.scanned += 1;
        self.stats.scanned += 1;
        let (refs, tier) = (self.refs(pages, slot), self.tier(pages, slot));
        let is_full = refs == FIELD_MAX + 1 && (self.version == Version::V6_1 || pages.has(slot, Flags::WORKINGSET));
        if tier as u32 > protected || is_full {
            self.control.protected[tier] += 1;
            self.stats.protected_by_tier[tier] += 1;
            return self.pass_on(pages, slot);
        }
        if is_busy(pages, slot) {
            outcome.pass_on(pages, slot);
            self.stats.passed_on += 1;
            return self.pass_on(pages, slot);
        }
        if !pages.has(slot, Flags::REFERENCED) {
            pages.set_field(slot, 0);
            if self.version == Version::V6_1 {
                pages.clear(slot, Flags::WORKINGSET);
            }
        }
        if pages.take_accessed(slot) {
            return self.look_around(pages, slot);
        }
        self.take(pages, slot);
        if !pages.is_evictable(slot) {
            self.stats.kept += 1;
            self.count_afresh(pages, slot);
            return self.add(pages, slot, self.max_seq);
        }
        let refs = self.refs(pages, slot);
        let is_workingset = pages.has(slot, Flags::WORKINGSET);
        let tier = self.tier_of(refs, is_workingset);
        let stamp = (self.min_seq & SEQ_MASK) << 2 | u64::from(refs.saturating_sub(1));
        self.control.evicted[tier] += 1;
        self.stats.evicted_by_tier[tier] += 1;
        self.stats.evicted += 1;
        outcome.evicted += 1;
        out.push(pages.remove(slot, Some(Shadow::new(stamp, is_workingset))));
    }

    /// A batch of the oldest generation of files' pages, up to `budget` looked at and `wanted`
    /// evicted in all.
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
            let Some(slot) = self.lists[at(self.min_seq)].tail() else { return };
            self.scan(pages, slot, protected, outcome, out);
        }
    }

    /// A batch of the oldest generation of programs' pages.
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

    /// A page that was to go has been used: it stays, and so do those of its neighbours that have.
    fn look_around(&mut self, pages: &mut Pages, slot: FrameId) {
        self.stats.kept += 1;
        if !self.promote(pages, slot) {
            // mglru-6.14, the first time: it is spared, and its uses with it.
            self.take(pages, slot);
            self.add(pages, slot, self.min_seq + 1);
        }
        for offset in 0..64 {
            if let Some(near) = pages.neighbour(slot, offset)
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

/// Of at least 1, the least power of two that is no less.
const fn log2_ceil(value: u32) -> usize {
    value.next_power_of_two().trailing_zeros() as usize
}

impl Replacement for Mglru {
    fn insert(&mut self, pages: &mut Pages, slot: FrameId, context: Context, shadow: Option<Shadow>) {
        self.stats.inserted += 1;
        if let Some(shadow) = shadow {
            self.refault(pages, slot, context, shadow);
        }
        let seq = if context == Context::Fault {
            self.stats.activated += 1;
            self.max_seq
        } else if self.min_seq + 2 >= self.max_seq {
            self.min_seq
        } else {
            self.min_seq + 1
        };
        self.add(pages, slot, seq);
    }

    #[inline]
    fn access_at(&mut self, pages: &mut Pages, place: LeafEntry, context: Context) {
        match context {
            Context::Fault => pages.set_accessed(pages.slot(place)),
            Context::Write | Context::Readahead => {}
            Context::Read => {
                let bits = pages.at_mut(place);
                let field = bits.field();
                match self.version {
                    Version::V6_1 | Version::V6_14 if !bits.has(Flags::REFERENCED) => bits.set(Flags::REFERENCED),
                    Version::V6_1 if !bits.has(Flags::WORKINGSET) => bits.set(Flags::WORKINGSET),
                    Version::V6_14 if field == FIELD_MAX => bits.set(Flags::WORKINGSET),
                    Version::V6_1 | Version::V6_14 => bits.set_field((field + 1).min(FIELD_MAX)),
                }
            }
        }
    }

    fn evict(&mut self, now: Instant, pages: &mut Pages, request: Request, out: &mut Vec<Evicted>) -> ScanOutcome {
        let mut outcome = ScanOutcome::default();
        self.drop_empty();
        if now.since(self.births[at(self.min_seq)]) < self.min_ttl {
            return ScanOutcome { is_too_young: true, ..outcome };
        }
        // The background thread has had its generation when its round began; others do not wait for
        // one at once.
        if self.needs_ageing() && request.by == Reclaimer::Direct && request.priority < DEFAULT_PRIORITY {
            self.new_generation(now, pages);
        }
        let budget = self.evictable(None) >> request.priority;
        while outcome.scanned < budget && outcome.reclaimed() < request.want {
            let count = BATCH.min(budget - outcome.scanned).min(request.want - outcome.reclaimed());
            self.drop_empty();
            let files = self.control.position(0, 200 - u64::from(self.programs.anonymous.swappiness));
            let before = outcome.scanned;
            let is_programs = self.programs.go_first(self.version, self.min_seq, files);
            if is_programs {
                self.scan_programs(count, &mut outcome);
            }
            if outcome.scanned == before {
                let wanted = outcome.evicted + (request.want - outcome.reclaimed());
                self.scan_files(pages, budget, wanted, &mut outcome, out);
            }
            if outcome.scanned == before && !is_programs && self.programs.anonymous.is_reclaimable() {
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

    fn rotate(&mut self, pages: &mut Pages, slot: FrameId) {
        self.take(pages, slot);
        pages.set_list_tag(slot, tag(self.min_seq));
        self.lists[at(self.min_seq)].push_tail(pages, slot);
        self.stats.rotated += 1;
    }

    fn remove(&mut self, pages: &mut Pages, slot: FrameId) {
        self.take(pages, slot);
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
            assert!(exists || list.is_empty(), "a generation that is over has pages");
            list.iter(pages).for_each(|slot| assert_eq!(pages.list_tag(slot) as usize, index + 1));
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
