//! What is known of each request.

use super::cost::Direction;
use super::depth::Mark;
use super::ids::QueueId;
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
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    pub(super) place: Place,
    pub(super) queue: Option<QueueId>,
    pub(super) direction: Direction,
    pub(super) sector: Sector,
    pub(super) sectors: u64,
    /// It is one of a stream.
    pub(super) is_of_stream: bool,
    /// It begins where the one before it in a disk ends: known when it is dispatched.
    pub(super) is_next: bool,
    pub(super) dispatched: Instant,
    pub(super) mark: Mark,
}
