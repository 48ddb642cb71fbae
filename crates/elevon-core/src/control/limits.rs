//! What a tenant's `io.max` says.

use super::{Direction, Rule};

/// No limit.
pub const UNLIMITED: u64 = u64::MAX;

/// Limits of one tenant; [`UNLIMITED`] where there is none. Linux clamps I/Os a second to 2³² − 1, which means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes a second, by [`Direction`].
    pub bps: [u64; 2],
    /// I/Os a second, by [`Direction`].
    pub iops: [u64; 2],
    /// Bytes a second, both directions together (ours; only `exact` has it).
    pub total_bps: u64,
    /// I/Os a second, both directions together (ours; only `exact` has it).
    pub total_iops: u64,
    /// Bytes that may go at once beyond the rate (ours; only `exact` has it).
    pub burst_bytes: u64,
    /// I/Os that may go at once beyond the rate (ours; only `exact` has it).
    pub burst_ios: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bps: [UNLIMITED; 2],
            iops: [UNLIMITED; 2],
            total_bps: UNLIMITED,
            total_iops: UNLIMITED,
            burst_bytes: 0,
            burst_ios: 0,
        }
    }
}

impl Limits {
    /// Whether anything of a direction is limited in Linux's way.
    #[inline]
    pub const fn limits(&self, direction: Direction) -> bool {
        self.bps[direction as usize] != UNLIMITED || self.iops[direction as usize] != UNLIMITED
    }

    /// Whether anything is limited at all.
    pub const fn is_none(&self) -> bool {
        !self.limits(Direction::Read)
            && !self.limits(Direction::Write)
            && self.total_bps == UNLIMITED
            && self.total_iops == UNLIMITED
    }
}

/// The name under which a limit of bytes holds a bio back.
pub(super) const fn bytes_rule(direction: Direction) -> Rule {
    match direction {
        Direction::Read => Rule::ReadBps,
        Direction::Write => Rule::WriteBps,
    }
}

/// The name under which a limit of I/Os holds a bio back.
pub(super) const fn ios_rule(direction: Direction) -> Rule {
    match direction {
        Direction::Read => Rule::ReadIops,
        Direction::Write => Rule::WriteIops,
    }
}
