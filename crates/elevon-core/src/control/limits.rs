//! The limits of a tenant's `io.max`.

use super::{ReadOrWrite, Rule};

/// No limit.
pub const UNLIMITED: u64 = u64::MAX;

/// Limits of one tenant; [`UNLIMITED`] if there is none. Linux clamps I/Os a second to 2³² − 1,
/// which means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes a second, by [`ReadOrWrite`].
    pub bps: [u64; 2],
    /// I/Os a second, by [`ReadOrWrite`].
    pub iops: [u64; 2],
    /// Bytes a second, both directions together (not in Linux; only `exact` has it).
    pub total_bps: u64,
    /// I/Os a second, both directions together (not in Linux; only `exact` has it).
    pub total_iops: u64,
    /// Bytes that may go at once beyond the rate (not in Linux; only `exact` has it).
    pub burst_bytes: u64,
    /// I/Os that may go at once beyond the rate (not in Linux; only `exact` has it).
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
    /// Returns true if no rate is 0, which would never let a bio go.
    pub const fn is_valid(&self) -> bool {
        let Self { bps, iops, total_bps, total_iops, .. } = self;
        bps[0] > 0 && bps[1] > 0 && iops[0] > 0 && iops[1] > 0 && *total_bps > 0 && *total_iops > 0
    }

    /// Returns true if a direction has one of the limits that Linux has.
    #[inline]
    pub const fn limits(&self, direction: ReadOrWrite) -> bool {
        self.bps[direction as usize] != UNLIMITED || self.iops[direction as usize] != UNLIMITED
    }

    /// Returns true if nothing is limited.
    pub const fn is_none(&self) -> bool {
        !self.limits(ReadOrWrite::Read) && !self.limits(ReadOrWrite::Write) && !self.counts_both()
    }

    /// Returns true if a limit counts reads and writes together.
    #[inline]
    pub(crate) const fn counts_both(&self) -> bool {
        self.total_bps != UNLIMITED || self.total_iops != UNLIMITED
    }
}

/// Returns the rule under which a limit of bytes holds a bio.
pub(super) const fn bytes_rule(direction: ReadOrWrite) -> Rule {
    match direction {
        ReadOrWrite::Read => Rule::ReadBps,
        ReadOrWrite::Write => Rule::WriteBps,
    }
}

/// Returns the rule under which a limit of I/Os holds a bio.
pub(super) const fn ios_rule(direction: ReadOrWrite) -> Rule {
    match direction {
        ReadOrWrite::Read => Rule::ReadIops,
        ReadOrWrite::Write => Rule::WriteIops,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_nothing_is_none() {
        let one = Limits { total_iops: 1, ..Limits::default() };
        assert!(one.is_valid() && !Limits { total_iops: 0, ..one }.is_valid());
        assert!(Limits::default().is_none() && !one.is_none());
    }
}
