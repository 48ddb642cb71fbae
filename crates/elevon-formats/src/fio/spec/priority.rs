//! I/O priorities.

use elevon_core::ioprio::IoPrio;

/// The I/O priority of a job, and of single I/Os.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Priority {
    /// `prio`, `prioclass` and `priohint` together; class NONE if the job sets none.
    pub ioprio: IoPrio,
    /// `cmdprio_percentage` (read, write), with the priority of those I/Os.
    pub command: [Option<(u8, IoPrio)>; 2],
    /// `cmdprio_bssplit` (read, write); empty if the job has none.
    pub command_split: [Vec<SizePrio>; 2],
}

/// A part of `cmdprio_bssplit`: the priority of a share of the I/Os of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizePrio {
    /// The size of the I/O in bytes.
    pub bytes: u64,
    /// The share of the I/Os of that size, in percent; the shares of one size add up to at most
    /// 100.
    pub percent: u8,
    /// Their priority.
    pub prio: IoPrio,
}
