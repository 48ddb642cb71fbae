//! The buffers of a client, and the memory that they take.

use crate::device::pieces::{MAX_BUFFERS, Part};
use crate::device::request_memory::{Holding, RequestMemory};

/// Buffers of a client on a device, each of [`crate::device::pieces::PART`] bytes. They exist from
/// its first request on, and take memory once they are used. READs and payloads leave one of them
/// free, so that what changes something without a payload always finds one: others may wait for its
/// end. They are enough for the longest request, and for as many as may be in flight.
pub(crate) const BUFFERS: u32 = MAX_BUFFERS + 1;
const _: () = assert!(BUFFERS > crate::device::backpressure::IN_FLIGHT);

/// The buffers of a client.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// Their memory.
    pub(super) holding: Holding,
    /// The request and the part that each belongs to; empty while there are no buffers.
    parts: Vec<Option<(usize, Part)>>,
    pub(super) free: Vec<u32>,
    /// Lists of buffers to be used again.
    pub(super) spare_lists: Vec<Vec<u32>>,
    /// True if they were used since [`Self::take_use`] was called the last time.
    was_used: bool,
}

impl Buffers {
    /// `copies` is how often the data of a reply is in memory.
    pub(super) const fn new(memory: RequestMemory, copies: u64) -> Self {
        let holding = Holding::new(memory, copies);
        Self {
            holding,
            parts: Vec::new(),
            free: Vec::new(),
            spare_lists: Vec::new(),
            was_used: false,
        }
    }

    /// Returns true if they exist.
    pub(crate) const fn exist(&self) -> bool {
        !self.parts.is_empty()
    }

    /// They exist from now on.
    pub(crate) fn add(&mut self) {
        self.parts = vec![None; BUFFERS as usize];
        self.free = (0..BUFFERS).rev().collect();
    }

    /// They are gone.
    pub(super) fn remove(&mut self) {
        (self.parts, self.free, self.spare_lists) = (Vec::new(), Vec::new(), Vec::new());
        self.holding.empty_all();
    }

    /// Counts them as used.
    pub(crate) const fn set_used(&mut self) {
        self.was_used = true;
    }

    /// Returns true if they were used since this was called the last time.
    pub(super) const fn take_use(&mut self) -> bool {
        std::mem::replace(&mut self.was_used, false)
    }

    /// Gives a buffer to a part.
    pub(super) fn assign(&mut self, slot: u32, index: usize, part: Part) {
        self.parts[slot as usize] = Some((index, part));
    }

    /// Returns the request and the part of a buffer in use.
    pub(super) fn part(&self, slot: u32) -> (usize, Part) {
        self.parts[slot as usize].expect("a buffer in use")
    }

    /// Ends the part of a buffer. Returns the request that it belongs to.
    pub(super) fn end_part(&mut self, slot: u32) -> usize {
        self.parts[slot as usize].take().expect("a buffer in use").0
    }
}
