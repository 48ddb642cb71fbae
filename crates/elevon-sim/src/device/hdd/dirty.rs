//! The volatile write cache of a drive: dirty extents, writes that wait for room, and flushes that
//! wait for extents.
//!
//! Contiguous writes become one extent, so that a sequential writer reaches the media rate.
//! Overwrites are not detected: a block written twice goes to the medium twice.
//!
//! Cost: O(1) to add; O(window) to choose and remove the next extent.

use std::collections::VecDeque;

use elevon_core::driver::{Command, Completion};
use elevon_core::units::{Bytes, Sector};

use super::geometry::SectorPosition;

/// Maximum length of an extent of contiguous writes: a reader may have to wait for it.
const EXTENT_BYTES_MAX: Bytes = Bytes::new(1 << 20);

/// A run of dirty sectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) start: Sector,
    pub(super) end: Sector,
    pub(super) bytes: Bytes,
    pub(super) place: SectorPosition,
    number: u64,
}

/// A write or flush that waits for the cache, in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiting {
    Write(Command, SectorPosition),
    Flush(Command),
}

impl Waiting {
    const fn command(&self) -> &Command {
        match self {
            Self::Write(command, _) | Self::Flush(command) => command,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Flush {
    /// Extents with lower numbers must be on the medium first.
    barrier: u64,
    sequence: u64,
    completion: Completion,
}

/// The write cache.
#[derive(Clone, Debug)]
pub(super) struct Dirty {
    limit: Bytes,
    extents_max: usize,
    bytes: Bytes,
    extents: VecDeque<Extent>,
    /// The extent that is being written to the medium.
    draining: Option<Extent>,
    next_number: u64,
    /// Extents below this number are not extended any more: a flush waits for them.
    sealed: u64,
    waiting: VecDeque<Waiting>,
    flushes: VecDeque<Flush>,
}

impl Dirty {
    pub(super) fn new(limit: Bytes, extents_max: u32) -> Self {
        Self {
            limit,
            extents_max: extents_max as usize,
            bytes: Bytes::ZERO,
            extents: VecDeque::with_capacity(extents_max as usize),
            draining: None,
            next_number: 0,
            sealed: 0,
            waiting: VecDeque::new(),
            flushes: VecDeque::new(),
        }
    }

    /// Returns true if a write of `bytes` fits now, behind the writes that already wait.
    pub(super) fn has_room(&self, bytes: Bytes) -> bool {
        self.waiting.is_empty() && self.fits(bytes)
    }

    fn fits(&self, bytes: Bytes) -> bool {
        let extents = self.extents.len() + usize::from(self.draining.is_some());
        extents == 0 || (self.bytes + bytes <= self.limit && extents < self.extents_max)
    }

    /// Adds a write to the cache.
    pub(super) fn add(&mut self, command: &Command, place: SectorPosition) {
        let end = command.sector + command.bytes.sectors_ceil();
        self.bytes += command.bytes;
        if let Some(last) = self.extents.back_mut()
            && last.end == command.sector
            && last.number >= self.sealed
            && last.bytes + command.bytes <= EXTENT_BYTES_MAX
        {
            last.end = end;
            last.bytes += command.bytes;
            return;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.extents.push_back(Extent {
            start: command.sector,
            end,
            bytes: command.bytes,
            place,
            number,
        });
    }

    /// Appends a write or flush to the waiting list.
    pub(super) fn wait(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    /// Returns the first waiting entry if it does not have to wait any longer.
    pub(super) fn admit(&mut self) -> Option<Waiting> {
        match self.waiting.front()? {
            Waiting::Write(command, _) if !self.fits(command.bytes) => None,
            _ => self.waiting.pop_front(),
        }
    }

    /// Returns true if writes or flushes wait, so that draining cannot be delayed.
    pub(super) fn is_urgent(&self) -> bool {
        !self.waiting.is_empty() || !self.flushes.is_empty()
    }

    /// Returns true if nothing is dirty.
    pub(super) fn is_clean(&self) -> bool {
        self.extents.is_empty() && self.draining.is_none()
    }

    /// Returns true if writes wait for room, so that later commands have to wait behind them.
    pub(super) fn waits_in_order(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Adds a flush of everything accepted until now.
    pub(super) fn flush(&mut self, command: &Command, completion: Completion) {
        self.sealed = self.next_number;
        self.flushes.push_back(Flush {
            barrier: self.next_number,
            sequence: command.sequence,
            completion,
        });
    }

    /// Returns a flush whose extents are all on the medium.
    pub(super) fn flushed(&mut self) -> Option<(u64, Completion)> {
        let oldest = self.draining.iter().chain(&self.extents).map(|extent| extent.number).min();
        let first = self.flushes.front()?;
        if oldest.is_some_and(|number| number < first.barrier) {
            return None;
        }
        self.flushes.pop_front().map(|flush| (flush.sequence, flush.completion))
    }

    /// Iterates over the oldest `window` extents, from which the next is chosen; while a flush
    /// waits, only over extents that it waits for.
    pub(super) fn candidates(&self, window: usize) -> impl Iterator<Item = (usize, &Extent)> {
        let barrier = self.flushes.front().map_or(u64::MAX, |flush| flush.barrier);
        self.extents
            .iter()
            .enumerate()
            .take(window)
            .filter(move |(_, extent)| extent.number < barrier)
    }

    /// Starts writing extent `index` to the medium.
    pub(super) fn start(&mut self, index: usize) -> Option<Extent> {
        self.draining = self.extents.remove(index);
        self.draining
    }

    /// Ends the write of the current extent.
    pub(super) fn finish(&mut self) {
        if let Some(extent) = self.draining.take() {
            self.bytes -= extent.bytes;
        }
    }

    /// Removes a command that waits.
    pub(super) fn abort(&mut self, sequence: u64) -> bool {
        let before = self.waiting.len() + self.flushes.len();
        self.waiting.retain(|waiting| waiting.command().sequence != sequence);
        self.flushes.retain(|flush| flush.sequence != sequence);
        self.waiting.len() + self.flushes.len() < before
    }
}
