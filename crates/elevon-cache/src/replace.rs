//! Which page is evicted next: replacement policies behind one trait.
//!
//! `classic` is the kernel's active and inactive list, `mglru-6.1` its generations as in 6.1 to
//! 6.13, and `mglru-6.14` its generations as reworked in 6.14; `s3-fifo` and `sieve` are simple
//! policies from the literature. All model one lruvec (no memory cgroups, one node), and only file
//! pages are on their lists. Programs' memory is kept as counts, [`Anonymous`]: the kernel's
//! policies may reclaim it instead if there is zram, the other two never do.
//!
//! A policy owns lists of pages; the state of each page is in [`Pages`]. A policy is told of
//! insertions and uses, and is asked to evict.

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

pub(crate) use classic::Classic;
pub use config::{POLICIES, ReplacementConfig};
pub(crate) use mglru::{Mglru, Version};
pub(crate) use programs::{Anonymous, Swap};
pub(crate) use s3_fifo::S3Fifo;
pub(crate) use sieve::Sieve;

use super::pages::{Evicted, Flags, LeafEntry, Pages};
use super::shadow::Shadow;
use super::{Context, FrameId};
use elevon_core::units::Instant;

/// The priority with which reclaim begins: it scans a 4096th of the lists.
pub(crate) const DEFAULT_PRIORITY: u8 = 12;

/// The context in which reclaim runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaimer {
    /// The background thread.
    Kswapd,
    /// An allocation that found too little free memory.
    Direct,
}

/// A request for one round of reclaim.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The number of pages to free, files' or programs'; the round ends when it has freed as many.
    pub want: u64,
    /// A round scans at most the lists' length divided by 2 to the power of this:
    /// [`DEFAULT_PRIORITY`] to 0.
    pub priority: u8,
    /// The context of the request.
    pub by: Reclaimer,
}

/// The result of one round of reclaim, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanOutcome {
    /// Pages scanned.
    pub scanned: u64,
    /// File pages that were evicted.
    pub evicted: u64,
    /// Programs' pages that went to zram.
    pub swapped: u64,
    /// Pages skipped because they were dirty and not under writeback.
    pub dirty: u64,
    /// Pages skipped because they were under writeback.
    pub writeback: u64,
    /// True if nothing was scanned because the oldest generation is younger than `min_ttl`.
    pub is_too_young: bool,
}

/// Statistics of a policy, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Inserted as new pages.
    pub inserted: u64,
    /// Evicted by reclaim.
    pub evicted: u64,
    /// Programs' pages that went to zram.
    pub swapped: u64,
    /// Removed for other reasons: truncated or dropped.
    pub removed: u64,
    /// Scanned by reclaim.
    pub scanned: u64,
    /// Refaulted while their shadow was still recent (`classic`: with any shadow).
    pub refaulted: u64,
    /// Made active: by a refault or by use. In MGLRU, put in the youngest generation at insertion.
    pub activated: u64,
    /// Refaults that returned a page to the working set.
    pub restored: u64,
    /// Moved from the active to the inactive list.
    pub deactivated: u64,
    /// Moved to the youngest generation, or from the small to the main queue, because they were
    /// used.
    pub promoted: u64,
    /// Kept by reclaim because the accessed bit was set or the page was pinned.
    pub kept: u64,
    /// Skipped by reclaim because they were dirty, locked or under writeback.
    pub passed_on: u64,
    /// Moved to the end of the queue because their writeback had completed.
    pub rotated: u64,
    /// Generations created.
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
pub(crate) trait Replacement {
    /// Adds a new page. `shadow` is the shadow that was in its place, if it is to be checked for a
    /// refault.
    fn insert(
        &mut self,
        pages: &mut Pages,
        frame: FrameId,
        context: Context,
        shadow: Option<Shadow>,
    );
    /// Records a use of the page at a place. Every hit pays this cost, so it should read nothing
    /// but [`Pages::at`].
    #[inline]
    fn access_at(&mut self, pages: &mut Pages, place: LeafEntry, context: Context) {
        match context {
            Context::Fault => pages.set_accessed(pages.frame(place)),
            Context::Write | Context::Readahead => {}
            Context::Read => self.read_at(pages, place),
        }
    }
    /// Records a read of the page at a place through a descriptor.
    fn read_at(&mut self, pages: &mut Pages, place: LeafEntry);
    /// Records a use of a page.
    #[cfg(test)]
    fn access(&mut self, pages: &mut Pages, frame: FrameId, context: Context) {
        self.access_at(pages, pages.place_of(frame), context);
    }
    /// Runs one round of reclaim. Evicted pages are removed from `pages`, leave a shadow, and are
    /// appended to `out`.
    fn evict(
        &mut self,
        now: Instant,
        pages: &mut Pages,
        request: Request,
        out: &mut Vec<Evicted>,
    ) -> ScanOutcome;
    /// Begins a round of kswapd with ageing. Policies without ageing do nothing.
    fn age(&mut self, _now: Instant, _pages: &mut Pages) {}
    /// Makes a page the next to be evicted, because its writeback has completed and reclaim had
    /// marked it [`Flags::RECLAIM`].
    fn rotate(&mut self, pages: &mut Pages, frame: FrameId);
    /// Takes a page off its list, because it will be removed without a shadow.
    fn remove(&mut self, pages: &mut Pages, frame: FrameId);
    /// Sets the state of programs' memory. Policies that reclaim only file pages do nothing.
    fn on_anonymous(&mut self, _anonymous: Anonymous) {}
    /// Returns the state of programs' memory after reclaim.
    fn anonymous(&self) -> Anonymous {
        Anonymous::default()
    }
    /// Returns the next dirty page that kswapd's last round must write itself; the page stays on
    /// its list. Returns `None` if writing is left to the flusher.
    fn take_write(&mut self) -> Option<FrameId> {
        None
    }
    /// Tells the policy that kswapd has reached the high mark.
    fn on_balanced(&mut self) {}
    /// Returns the policy's statistics.
    fn stats(&self) -> &Stats;
    /// Panics if the policy's state is invalid. Costs O(pages); for tests.
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
    /// Returns the policy that a configuration names.
    pub fn new(config: &ReplacementConfig) -> Self {
        match *config {
            ReplacementConfig::Classic => Self::Classic(Classic::default()),
            ReplacementConfig::Mglru { version, min_ttl } => {
                Self::Mglru(Mglru::new(version, min_ttl))
            }
            ReplacementConfig::S3Fifo => Self::S3Fifo(S3Fifo::default()),
            ReplacementConfig::Sieve => Self::Sieve(Sieve::default()),
        }
    }
}

impl Replacement for AnyReplacement {
    fn insert(
        &mut self,
        pages: &mut Pages,
        frame: FrameId,
        context: Context,
        shadow: Option<Shadow>,
    ) {
        each!(self, policy => policy.insert(pages, frame, context, shadow));
    }
    #[inline]
    fn read_at(&mut self, pages: &mut Pages, place: LeafEntry) {
        each!(self, policy => policy.read_at(pages, place));
    }
    fn evict(
        &mut self,
        now: Instant,
        pages: &mut Pages,
        request: Request,
        out: &mut Vec<Evicted>,
    ) -> ScanOutcome {
        each!(self, policy => policy.evict(now, pages, request, out))
    }
    fn age(&mut self, now: Instant, pages: &mut Pages) {
        each!(self, policy => policy.age(now, pages));
    }
    fn rotate(&mut self, pages: &mut Pages, frame: FrameId) {
        each!(self, policy => policy.rotate(pages, frame));
    }
    fn remove(&mut self, pages: &mut Pages, frame: FrameId) {
        each!(self, policy => policy.remove(pages, frame));
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
    /// Returns the number of pages freed, files' and programs'.
    pub const fn reclaimed(&self) -> u64 {
        self.evicted + self.swapped
    }

    /// Counts a page that reclaim must skip, and marks it so that it is evicted soon after its
    /// writeback.
    fn pass_on(&mut self, pages: &mut Pages, frame: FrameId) {
        self.writeback += u64::from(pages.has(frame, Flags::WRITEBACK));
        self.dirty +=
            u64::from(pages.has(frame, Flags::DIRTY) && !pages.has(frame, Flags::WRITEBACK));
        pages.set(frame, Flags::RECLAIM);
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

/// Returns true if reclaim must skip a page whatever its uses.
fn is_busy(pages: &Pages, frame: FrameId) -> bool {
    pages.has(frame, Flags::LOCKED | Flags::DIRTY | Flags::WRITEBACK)
}
