//! What is known of each request.

use super::cost::Direction;
use super::ids::{Mark, QueueId};
use crate::units::{Instant, Sector};

/// Where a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// Not here, or merged into another.
    #[default]
    Unknown,
    /// Given back by the driver, or of no process: goes before all others.
    AtHead,
    /// In its queue.
    Queued,
    /// Dispatched.
    InDevice,
}

/// What is known of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) place: Place,
    pub(super) queue: Option<QueueId>,
    pub(super) direction: Direction,
    pub(super) sector: Sector,
    pub(super) sectors: u64,
    /// It begins where the one before it ends, on a disk: expected when it arrives, known when it
    /// is dispatched.
    pub(super) is_next: bool,
    /// Its kind for [`Occupancy`].
    pub(super) cell: u8,
    pub(super) arrived: Instant,
    pub(super) dispatched: Instant,
    pub(super) mark: Mark,
    /// What it was marked with among writes at its dispatch.
    pub(super) write_mark: Mark,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            place: Place::Unknown,
            queue: None,
            direction: Direction::Read,
            sector: Sector::ZERO,
            sectors: 0,
            is_next: false,
            cell: 0,
            arrived: Instant::ZERO,
            dispatched: Instant::ZERO,
            mark: Mark::default(),
            write_mark: Mark::default(),
        }
    }
}
