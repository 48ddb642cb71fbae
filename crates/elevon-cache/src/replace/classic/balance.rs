//! Files' pages or programs': how much of each a round looks at, and programs' own two lists, as
//! counts. Cost: O(1).

use super::{Classic, inactive_ratio};
use crate::replace::programs::{Anonymous, Population};
use crate::replace::{Request, ScanOutcome};

/// Programs' pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Programs {
    pub(super) anonymous: Anonymous,
    inactive: Population,
    active: Population,
    /// What reclaim has cost each type, in pages: of files those that came back to the working set,
    /// of programs those that were swapped. Halved together when they come to a quarter of the
    /// lists.
    cost: u64,
    file_cost: u64,
}

/// Share of the lists of one type in a round: `part / of`.
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

    /// Pages of a list to look at.
    pub(super) fn amount(self, len: u64, part: u64, priority: u8) -> u64 {
        let scaled = u128::from(len >> priority) * u128::from(part);
        (scaled / u128::from(self.of)) as u64
    }
}

/// By what reclaim of either has cost, and swappiness. Each cost counts on top of the sum of both,
/// so that neither type gets more than about two thirds by costs alone.
pub(super) fn weigh(swappiness: u8, cost: u64, file_cost: u64) -> Shares {
    let sum = cost + file_cost;
    let (cost, file_cost) = (sum + cost, sum + file_cost);
    let total = cost + file_cost;
    let programs = u64::from(swappiness) * (total + 1) / (cost + 1);
    let files = (200 - u64::from(swappiness)) * (total + 1) / (file_cost + 1);
    Shares { programs, files, of: (programs + files).max(1) }
}

impl Programs {
    /// Those in use begin on the active list.
    pub(super) fn new(anonymous: Anonymous) -> Self {
        let inactive = Population { touched: 0, idle: anonymous.idle };
        Self { anonymous, inactive, active: Population { touched: anonymous.touched, idle: 0 }, ..Self::default() }
    }

    /// How many inactive and how many active ones a round looks at.
    pub(super) fn amounts(&self, shares: Shares, priority: u8) -> [u64; 2] {
        [self.inactive, self.active].map(|list| shares.amount(list.len(), shares.programs, priority))
    }

    /// All of them.
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

    /// Looks at the tail of the inactive list: pages in use become active, idle ones go to zram
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
        assert_eq!((inactive.touched + active.touched, inactive.idle + active.idle), (touched, idle));
    }
}

impl Classic {
    /// Which type this round is about, and how much.
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
        // Plenty of pages that were read once, and nothing of use has gone lately.
        let is_easy = !self.is_inactive_low() && self.refaults_seen == self.refaults;
        if is_easy && self.inactive.len() >> request.priority > 0 {
            return Shares::FILES;
        }
        weigh(swappiness, self.programs.cost, self.programs.file_cost)
    }

    /// The part of a batch that is about programs: up to so many inactive and active pages.
    pub(super) fn shrink_programs(&mut self, inactive: u64, active: u64, outcome: &mut ScanOutcome) {
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
