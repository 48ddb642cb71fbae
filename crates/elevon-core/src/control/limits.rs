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

/// A change of limits: what it does not name keeps its value, as in a line written to `io.max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitsUpdate {
    /// As [`Limits::bps`].
    pub bps: [Option<u64>; 2],
    /// As [`Limits::iops`].
    pub iops: [Option<u64>; 2],
    /// As [`Limits::total_bps`].
    pub total_bps: Option<u64>,
    /// As [`Limits::total_iops`].
    pub total_iops: Option<u64>,
    /// As [`Limits::burst_bytes`].
    pub burst_bytes: Option<u64>,
    /// As [`Limits::burst_ios`].
    pub burst_ios: Option<u64>,
}

impl Limits {
    /// With what an update names. 2³² − 1 I/Os a second and more are no limit, as in Linux.
    #[must_use]
    pub fn updated(self, update: &LimitsUpdate) -> Self {
        let ios = |new: Option<u64>, old| match new {
            Some(rate) if rate >= u64::from(u32::MAX) => UNLIMITED,
            Some(rate) => rate,
            None => old,
        };
        Self {
            bps: [0, 1].map(|d| update.bps[d].unwrap_or(self.bps[d])),
            iops: [0, 1].map(|d| ios(update.iops[d], self.iops[d])),
            total_bps: update.total_bps.unwrap_or(self.total_bps),
            total_iops: ios(update.total_iops, self.total_iops),
            burst_bytes: update.burst_bytes.unwrap_or(self.burst_bytes),
            burst_ios: update.burst_ios.unwrap_or(self.burst_ios),
        }
    }

    /// Whether every rate lets something go: none is 0.
    pub const fn is_valid(&self) -> bool {
        let Self { bps, iops, total_bps, total_iops, .. } = self;
        bps[0] > 0 && bps[1] > 0 && iops[0] > 0 && iops[1] > 0 && *total_bps > 0 && *total_iops > 0
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_leaves_alone_what_it_does_not_name() {
        let old = Limits { bps: [1 << 20, UNLIMITED], burst_bytes: 4096, ..Limits::default() };
        let update = LimitsUpdate { iops: [Some(100), Some(u64::from(u32::MAX))], ..LimitsUpdate::default() };
        let new = old.updated(&update);
        assert_eq!(new, Limits { iops: [100, UNLIMITED], ..old });
        let cleared = new.updated(&LimitsUpdate { bps: [Some(UNLIMITED), None], ..LimitsUpdate::default() });
        assert_eq!(cleared, Limits { iops: [100, UNLIMITED], burst_bytes: 4096, ..Limits::default() });
        assert!(new.is_valid() && !Limits { total_iops: 0, ..new }.is_valid());
    }
}
