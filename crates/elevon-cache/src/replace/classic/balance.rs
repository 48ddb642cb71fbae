//! The shares of file pages and programs' pages in a round of reclaim, and the two lists of
//! programs' pages, as counts. Cost: O(1).

use super::{Classic, inactive_ratio};
use crate::replace::programs::{Anonymous, Population};
use crate::replace::{Request, ScanOutcome};

/// Programs' pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Programs {
    pub(super) anonymous: Anonymous,
    inactive: Population,
    active: Population,
    /// Cost of reclaiming programs' pages so far: the number swapped. Both costs are halved when
    /// their sum exceeds a quarter of the lists.
    cost: u64,
    /// Cost of reclaiming file pages so far: the number that refaulted into the working set.
    file_cost: u64,
}

/// Shares of both types of pages in a round, as fractions with the denominator `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) programs: u64,
    pub(super) files: u64,
    pub(super) of: u64,
}

impl Shares {
    const FILES: Self = Self { programs: 0, files: 1, of: 1 };
    const PROGRAMS: Self = Self { programs: 1, files: 0, of: 1 };
    const EQUAL: Self = Self { programs: 1, files: 1, of: 1 };

    /// Returns the number of pages of a list of `len` pages to scan, at a share of `part` / `of`.
    pub(super) fn amount(self, len: u64, part: u64, priority: u8) -> u64 {
        let scaled = u128::from(len >> priority) * u128::from(part);
        (scaled / u128::from(self.of)) as u64
    }
}

/// Returns the shares that follow from swappiness (0 to 200) and from what reclaim of either type
/// has cost. Each cost counts on top of the sum of both, so that costs alone give neither type more
/// than about two thirds.
pub(super) fn weigh(swappiness: u8, cost: u64, file_cost: u64) -> Shares {
    let sum = cost + file_cost;
    let (cost, file_cost) = (sum + cost, sum + file_cost);
    let total = cost + file_cost;
    let programs = u64::from(swappiness) * (total + 1) / (cost + 1);
    let files = (200 - u64::from(swappiness)) * (total + 1) / (file_cost + 1);
    Shares { programs, files, of: (programs + files).max(1) }
}

impl Programs {
    /// Returns the state at the start: pages in use are active, idle pages inactive.
    pub(super) fn new(anonymous: Anonymous) -> Self {
        let inactive = Population { touched: 0, idle: anonymous.idle };
        Self {
            anonymous,
            inactive,
            active: Population { touched: anonymous.touched, idle: 0 },
            ..Self::default()
        }
    }

    /// Returns the numbers of inactive and active pages that a round scans.
    pub(super) fn amounts(&self, shares: Shares, priority: u8) -> [u64; 2] {
        [self.inactive, self.active]
            .map(|list| shares.amount(list.len(), shares.programs, priority))
    }

    /// Returns the number of programs' pages on both lists.
    pub(super) const fn len(&self) -> u64 {
        self.inactive.len() + self.active.len()
    }

    pub(super) fn note_restored(&mut self, lists: u64) {
        self.file_cost += 1;
        self.decay(lists);
    }

    fn decay(&mut self, lists: u64) {
        if self.cost + self.file_cost > lists / 4 {
            (self.cost, self.file_cost) = (self.cost / 2, self.file_cost / 2);
        }
    }

    fn is_inactive_low(&self) -> bool {
        self.inactive.len() * inactive_ratio(self.len()) < self.active.len()
    }

    /// Scans the tail of the inactive list: pages in use become active, and idle pages go to zram
    /// while it has room.
    fn shrink_inactive(&mut self, count: u64, outcome: &mut ScanOutcome) {
        let part = self.inactive.take(count);
        let swapped = self.anonymous.swap.take(part.idle);
        self.anonymous.idle -= swapped;
        self.active.touched += part.touched;
        self.inactive.idle += part.idle - swapped;
        self.cost += swapped;
        outcome.scanned += part.len();
        outcome.swapped += swapped;
    }

    pub(super) fn self_check(&self) {
        let Anonymous { touched, idle, .. } = self.anonymous;
        let (inactive, active) = (self.inactive, self.active);
        assert_eq!(
            (inactive.touched + active.touched, inactive.idle + active.idle),
            (touched, idle)
        );
    }
}

impl Classic {
    /// Returns the shares of both types in this round.
    pub(super) fn shares(&self, request: &Request, capacity: u64) -> Shares {
        let Anonymous { swappiness, .. } = self.programs.anonymous;
        if !self.programs.anonymous.is_reclaimable() {
            return Shares::FILES;
        }
        if request.priority == 0 {
            return Shares::EQUAL;
        }
        if self.programs.anonymous.leaves_little(capacity) {
            return Shares::PROGRAMS;
        }
        // There are plenty of inactive pages, and no page has refaulted since the last round.
        let is_easy = !self.is_inactive_low() && self.refaults_seen == self.refaults;
        if is_easy && self.inactive.len() >> request.priority > 0 {
            return Shares::FILES;
        }
        weigh(swappiness, self.programs.cost, self.programs.file_cost)
    }

    /// Scans a batch of programs' pages: up to `inactive` and `active` pages of the two lists.
    pub(super) fn shrink_programs(
        &mut self,
        inactive: u64,
        active: u64,
        outcome: &mut ScanOutcome,
    ) {
        let before = *outcome;
        self.programs.shrink_inactive(inactive, outcome);
        if self.programs.is_inactive_low() {
            let part = self.programs.active.take(active);
            self.programs.inactive.add(part);
            outcome.scanned += part.len();
        }
        self.stats.scanned += outcome.scanned - before.scanned;
        self.stats.swapped += outcome.swapped - before.swapped;
        let lists = self.inactive.len() + self.active.len() + self.programs.len();
        self.programs.decay(lists);
    }
}
