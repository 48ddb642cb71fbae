//! MGLRU's controller: which tiers of the oldest generation are protected.
//!
//! Pages of the oldest generation are in tiers by the number of their uses through descriptors. For
//! each tier, the controller knows the share of pages that refaulted after eviction; tiers that
//! refault clearly more often than tier 0 are protected. Cost: O(tiers) per decision.

/// Number of tiers.
pub(super) const TIERS: usize = 4;
/// The number of refaults below which a tier is not protected.
const REFAULTS_MIN: u64 = 64;

/// Refaults and evictions of a tier, and the gain with which they are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Pages that refaulted.
    pub refaulted: u64,
    /// Pages that were evicted or protected.
    pub total: u64,
    /// Weight.
    pub gain: u64,
}

impl Position {
    /// Returns true if refaults here are no worse than at the set point.
    pub fn passes(self, set: Self) -> bool {
        self.refaulted < REFAULTS_MIN
            || u128::from(self.refaulted)
                * u128::from(set.total + REFAULTS_MIN)
                * u128::from(set.gain)
                <= u128::from(set.refaulted + 1) * u128::from(self.total) * u128::from(self.gain)
    }
}

/// Counts of a type of pages, by tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierControl {
    pub(super) avg_refaulted: [u64; TIERS],
    pub(super) avg_total: [u64; TIERS],
    pub(super) evicted: [u64; TIERS],
    pub(super) refaulted: [u64; TIERS],
    pub(super) protected: [u64; TIERS],
}

impl TierControl {
    /// Returns the position of a tier.
    pub fn position(&self, tier: usize, gain: u64) -> Position {
        Position {
            refaulted: self.avg_refaulted[tier] + self.refaulted[tier],
            total: self.avg_total[tier] + self.evicted[tier] + self.protected[tier],
            gain,
        }
    }

    /// Returns the last tier that is evicted; higher tiers are protected.
    pub(crate) fn tier(&self) -> u32 {
        let set = self.position(0, 1);
        (1..TIERS).take_while(|&tier| self.position(tier, 2).passes(set)).count() as u32
    }

    /// Ends the oldest generation: half of the counts carry over.
    pub(super) fn advance(&mut self) {
        for tier in 0..TIERS {
            let total = self.evicted[tier] + self.protected[tier];
            self.avg_refaulted[tier] = (self.avg_refaulted[tier] + self.refaulted[tier]) / 2;
            self.avg_total[tier] = (self.avg_total[tier] + total) / 2;
        }
        (self.evicted, self.refaulted, self.protected) = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(refaulted: u64, total: u64, gain: u64) -> Position {
        Position { refaulted, total, gain }
    }

    /// `positive_ctrl_err` of `mm/vmscan.c`.
    #[test]
    fn tiers_against_tier_0() {
        let set = at(100, 1000, 1);
        assert!(at(70, 400, 2).passes(set));
        assert!(!at(80, 400, 2).passes(set));
        assert!(at(63, 63, 2).passes(set));
        assert!(!at(64, 64, 2).passes(set));
    }

    /// `get_type_to_scan` of `mm/vmscan.c`.
    #[test]
    fn file_against_anonymous_by_swappiness() {
        assert!(at(100, 2000, 140).passes(at(200, 1000, 60)), "file goes");
        assert!(!at(1000, 1000, 140).passes(at(100, 1000, 60)), "anonymous goes");
    }

    /// `reset_ctrl_pos` of `mm/vmscan.c`.
    #[test]
    fn half_carries_over() {
        let mut control = TierControl {
            avg_total: [100; 4],
            evicted: [60, 40, 60, 60],
            ..TierControl::default()
        };
        control.protected[1] = 20;
        control.refaulted[2] = 9;
        control.advance();
        assert_eq!((control.avg_total, control.avg_refaulted), ([80; 4], [0, 0, 4, 0]));
        assert_eq!(control.position(0, 1), at(0, 80, 1));
    }

    #[test]
    fn the_first_tier_that_fails_ends_it() {
        let mut control = TierControl {
            evicted: [1000, 400, 400, 400],
            refaulted: [100, 70, 80, 0],
            ..TierControl::default()
        };
        assert_eq!(control.tier(), 1);
        control.refaulted[2] = 70;
        assert_eq!(control.tier(), 3);
    }
}
