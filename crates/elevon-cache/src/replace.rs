//! Which page goes next: replacement policies behind one trait.
//!
//! `classic` is the kernel's active and inactive list, `mglru-6.1` its generations as in 6.1 to
//! 6.13 and `mglru-6.14` as reworked there; `s3-fifo` and `sieve` are simple ones from the
//! literature. All follow one lruvec (no memory cgroups, one node), and only files' pages are on
//! their lists. Programs' memory is counts, [`Anonymous`]: the kernel's policies may choose it
//! instead where there is zram, the other two never do.
//!
//! A policy owns lists of pages, the page's own state is in [`Pages`]. It learns of insertions and
//! uses, and is asked to evict.

mod classic;
mod config;
mod control;
mod mglru;
mod programs;
mod s3_fifo;
mod sieve;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::ops::AddAssign;

pub use classic::Classic;
pub use config::{POLICIES, PolicyError, ReplacementConfig};
pub use control::{Position, TierControl};
pub use mglru::{Mglru, Version};
pub use programs::{Anonymous, Swap, ZRAM_RATIO};
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;

use super::pages::{Evicted, Flags, LeafEntry, Pages};
use super::shadow::Shadow;
use super::{Context, FrameId};
use elevon_core::units::Instant;

/// Reclaim begins with this: a 4096th of the lists at a time.
pub const DEFAULT_PRIORITY: u8 = 12;

/// Who reclaims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaimer {
    /// The background thread.
    Kswapd,
    /// An allocation that found too little free memory.
    Direct,
}

/// What is asked of one round of reclaim.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Pages that are wanted, files' or programs'; the round ends when it has as many.
    pub want: u64,
    /// A round looks at the lists' length divided by 2 to the power of this, at most:
    /// [`DEFAULT_PRIORITY`] to 0.
    pub priority: u8,
    /// Who asks.
    pub by: Reclaimer,
}

/// What one round of reclaim came to, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanOutcome {
    /// Looked at.
    pub scanned: u64,
    /// Files' pages that were evicted.
    pub evicted: u64,
    /// Programs' pages that went to zram.
    pub swapped: u64,
    /// Passed on because they were dirty and not under writeback.
    pub dirty: u64,
    /// Passed on because they were under writeback.
    pub writeback: u64,
    /// Nothing was looked at, because the oldest generation is younger than `min_ttl`.
    pub is_too_young: bool,
}

/// What a policy has done, counted in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Put on a list as new.
    pub inserted: u64,
    /// Evicted by reclaim.
    pub evicted: u64,
    /// Programs' pages that went to zram.
    pub swapped: u64,
    /// Taken off for other reasons: truncated, dropped.
    pub removed: u64,
    /// Looked at by reclaim.
    pub scanned: u64,
    /// Came back while their shadow still counted (`classic`: had a shadow).
    pub refaulted: u64,
    /// Made active: by a refault or by use. In MGLRU, put in the youngest generation at insertion.
    pub activated: u64,
    /// Refaults that put a page back in the working set.
    pub restored: u64,
    /// Moved from the active to the inactive list.
    pub deactivated: u64,
    /// Moved to the youngest generation, or from the small to the main queue, because they were
    /// used.
    pub promoted: u64,
    /// Kept by reclaim because the accessed bit was set or somebody held them.
    pub kept: u64,
    /// Passed on by reclaim because they were dirty, locked or under writeback.
    pub passed_on: u64,
    /// Moved to the end of the queue because their writeback was over.
    pub rotated: u64,
    /// Generations made.
    pub generations: u64,
    /// Evicted, by tier.
    pub evicted_by_tier: [u64; 4],
    /// Refaulted, by the tier in which they were evicted.
    pub refaulted_by_tier: [u64; 4],
    /// Protected from eviction, by tier; of tier 0 none.
    pub protected_by_tier: [u64; 4],
}

/// A replacement policy. It has every page of a [`Pages`] on exactly one of its lists, from
/// `insert` until `evict` or `remove`.
pub trait Replacement {
    /// A page came in; `shadow` is what stood in its place, unless that is not to be judged.
    fn insert(&mut self, pages: &mut Pages, slot: FrameId, context: Context, shadow: Option<Shadow>);
    /// The page at a place is used. This is what a hit costs: it should look at no more than
    /// [`Pages::at`].
    fn access_at(&mut self, pages: &mut Pages, place: LeafEntry, context: Context);
    /// A page is used.
    fn access(&mut self, pages: &mut Pages, slot: FrameId, context: Context) {
        self.access_at(pages, pages.place_of(slot), context);
    }
    /// One round of reclaim: what goes is removed from `pages`, leaves its shadow, and is appended
    /// to `out`.
    fn evict(&mut self, now: Instant, pages: &mut Pages, request: Request, out: &mut Vec<Evicted>) -> ScanOutcome;
    /// A round of kswapd begins. Policies without a notion of age have nothing to do.
    fn age(&mut self, _now: Instant, _pages: &mut Pages) {}
    /// The writeback of a page is over that reclaim had marked [`Flags::RECLAIM`]: make it the next
    /// to go.
    fn rotate(&mut self, pages: &mut Pages, slot: FrameId);
    /// Takes a page off its list, because it will be removed without a shadow.
    fn remove(&mut self, pages: &mut Pages, slot: FrameId);
    /// Programs' memory is this now. Policies that look at files only have nothing to do.
    fn on_anonymous(&mut self, _anonymous: Anonymous) {}
    /// Programs' memory, as it is after what was reclaimed of it.
    fn anonymous(&self) -> Anonymous {
        Anonymous::default()
    }
    /// A dirty page that kswapd's last round wants written by itself; it stays on its list. None
    /// where that is left to the flusher.
    fn take_write(&mut self) -> Option<FrameId> {
        None
    }
    /// kswapd has reached the high mark.
    fn on_balanced(&mut self) {}
    /// What it has done.
    fn stats(&self) -> &Stats;
    /// Panics where its state is wrong. Costs O(everything); for tests.
    fn self_check(&self, pages: &Pages);
}

/// One of the policies: the set is closed, so calls are not virtual.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum AnyReplacement {
    /// `classic`.
    Classic(Classic),
    /// `mglru-6.1` and `mglru-6.14`.
    Mglru(Mglru),
    /// `s3-fifo`.
    S3Fifo(S3Fifo),
    /// `sieve`.
    Sieve(Sieve),
}

macro_rules! each {
    ($any:expr, $policy:ident => $call:expr) => {
        match $any {
            AnyReplacement::Classic($policy) => $call,
            AnyReplacement::Mglru($policy) => $call,
            AnyReplacement::S3Fifo($policy) => $call,
            AnyReplacement::Sieve($policy) => $call,
        }
    };
}

impl AnyReplacement {
    /// The policy that a configuration names.
    pub fn new(config: &ReplacementConfig) -> Self {
        match *config {
            ReplacementConfig::Classic => Self::Classic(Classic::default()),
            ReplacementConfig::Mglru { version, min_ttl } => Self::Mglru(Mglru::new(version, min_ttl)),
            ReplacementConfig::S3Fifo => Self::S3Fifo(S3Fifo::default()),
            ReplacementConfig::Sieve => Self::Sieve(Sieve::default()),
        }
    }
}

impl Replacement for AnyReplacement {
    fn insert(&mut self, pages: &mut Pages, slot: FrameId, context: Context, shadow: Option<Shadow>) {
        each!(self, policy => policy.insert(pages, slot, context, shadow));
    }
    #[inline]
    fn access_at(&mut self, pages: &mut Pages, place: LeafEntry, context: Context) {
        each!(self, policy => policy.access_at(pages, place, context));
    }
    fn evict(&mut self, now: Instant, pages: &mut Pages, request: Request, out: &mut Vec<Evicted>) -> ScanOutcome {
        each!(self, policy => policy.evict(now, pages, request, out))
    }
    fn age(&mut self, now: Instant, pages: &mut Pages) {
        each!(self, policy => policy.age(now, pages));
    }
    fn rotate(&mut self, pages: &mut Pages, slot: FrameId) {
        each!(self, policy => policy.rotate(pages, slot));
    }
    fn remove(&mut self, pages: &mut Pages, slot: FrameId) {
        each!(self, policy => policy.remove(pages, slot));
    }
    fn on_anonymous(&mut self, anonymous: Anonymous) {
        each!(self, policy => policy.on_anonymous(anonymous));
    }
    fn anonymous(&self) -> Anonymous {
        each!(self, policy => policy.anonymous())
    }
    fn take_write(&mut self) -> Option<FrameId> {
        each!(self, policy => policy.take_write())
    }
    fn on_balanced(&mut self) {
        each!(self, policy => policy.on_balanced());
    }
    fn stats(&self) -> &Stats {
        each!(self, policy => policy.stats())
    }
    fn self_check(&self, pages: &Pages) {
        each!(self, policy => policy.self_check(pages));
    }
}

impl ScanOutcome {
    /// Pages that were freed, files' and programs'.
    pub const fn reclaimed(&self) -> u64 {
        self.evicted + self.swapped
    }

    /// Counts a page that reclaim may not take, and marks it to go soon after where it is being
    /// written or has to be.
    fn pass_on(&mut self, pages: &mut Pages, slot: FrameId) {
        self.writeback += u64::from(pages.has(slot, Flags::WRITEBACK));
        self.dirty += u64::from(pages.has(slot, Flags::DIRTY) && !pages.has(slot, Flags::WRITEBACK));
        pages.set(slot, Flags::RECLAIM);
    }
}

impl AddAssign for ScanOutcome {
    fn add_assign(&mut self, other: Self) {
        self.scanned += other.scanned;
        self.evicted += other.evicted;
        self.swapped += other.swapped;
        self.dirty += other.dirty;
        self.writeback += other.writeback;
        self.is_too_young |= other.is_too_young;
    }
}

/// Whether reclaim has to pass a page on before it looks at its uses.
fn is_busy(pages: &Pages, slot: FrameId) -> bool {
    pages.has(slot, Flags::LOCKED | Flags::DIRTY | Flags::WRITEBACK)
}
