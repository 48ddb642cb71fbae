//! The queue of a process in one class: its requests, and what is known of its return.

use super::ids::MemberId;
use crate::sched::fifo::Fifo;
use crate::tree::Root;
use crate::units::{Instant, Nanos, Sector};

/// Requests that follow another in a row after which a queue is a stream. Two random requests
/// seldom do.
const STREAM: u32 = 2;

/// A queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// Its place in the hierarchy.
    pub(super) member: MemberId,
    /// Class, most urgent first.
    pub(super) class: usize,
    /// Requests by arrival.
    pub(super) fifo: Fifo,
    /// On a disk, the same by sector.
    pub(super) sorted: Root,
    pub(super) queued: u32,
    pub(super) in_device: u32,
    /// Which stretch of time with requests waiting this is, what was charged in it, and the
    /// largest charge so far.
    pub(super) stretch: u64,
    pub(super) charged: u64,
    pub(super) largest: u64,
    /// Where the request ends that arrived last, and how many in a row have begun where the one
    /// before ended.
    end: Sector,
    run: u32,
    /// Sectors of that request.
    pub(super) sectors: u64,
    /// The process has exited: the queue ends with its last request.
    pub(super) exited: bool,
    /// When its last request completed, if no other has arrived since.
    left: Option<Instant>,
    /// A moving average of the time from a completion to the next arrival.
    think: Option<u64>,
}

impl Queue {
    pub(super) const fn new(member: MemberId, class: usize) -> Self {
        Self {
            member,
            class,
            fifo: Fifo::EMPTY,
            sorted: Root::EMPTY,
            queued: 0,
            in_device: 0,
            stretch: 0,
            charged: 0,
            largest: 0,
            end: Sector::ZERO,
            run: 0,
            sectors: 0,
            exited: false,
            left: None,
            think: None,
        }
    }

    /// Notes the arrival of a request. Returns true if it continues a stream.
    pub(super) fn on_arrival(&mut self, now: Instant, sector: Sector, sectors: u64) -> bool {
        if let Some(left) = self.left.take() {
            let time = now.since(left).get();
            self.think = Some(self.think.map_or(time, |think| think - think / 8 + time / 8));
        }
        self.run = if sector == self.end { self.run.saturating_add(1) } else { 0 };
        (self.sectors, self.end) = (sectors, Sector::new(sector.get() + sectors));
        self.is_stream()
    }

    /// Returns true if its requests follow one another.
    pub(super) const fn is_stream(&self) -> bool {
        self.run >= STREAM
    }

    /// Notes that a request has grown from one end to another. If it is the request that arrived
    /// last, the next request of the stream begins at the new end.
    pub(super) fn grow(&mut self, from: Sector, to: Sector) {
        if from == self.end {
            self.end = to;
        }
    }

    /// Notes the end of a request.
    pub(super) const fn on_end(&mut self, now: Instant) {
        self.left = Some(now);
    }

    /// Returns true if the process usually takes so long until its next request at most, with a
    /// quarter of that to spare.
    pub(super) fn returns_within(&self, most: Nanos) -> bool {
        self.think.is_none_or(|think| think / 4 * 5 <= most.get())
    }
}
