//! A client of a device: its requests, and the buffers that their parts use.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;

use elevon_core::ioprio::IoPrio;
use elevon_core::units::{Instant, TaskId, TenantId};

use crate::pieces::{Part, Pieces};

/// Buffers of a client on a device, each of [`crate::pieces::PART`] bytes. They exist from its
/// first request on.
pub(crate) const BUFFERS: u32 = 64;

/// A reply on its way to a client.
pub(crate) struct Reply {
    pub(crate) bytes: Vec<u8>,
    /// What the gate counted for the request; `None` for an answer to an option, or to a request
    /// that never passed the gate.
    pub(crate) weight: Option<u64>,
}

/// How a client's requests become I/O of the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charged {
    pub(crate) tenant: TenantId,
    pub(crate) ioprio: IoPrio,
    /// Byte of the device at which the export begins.
    pub(crate) base: u64,
}

/// A client.
pub(crate) struct Client {
    pub(crate) task: TaskId,
    /// The name of the export that it has open.
    pub(crate) export: String,
    pub(crate) charged: Charged,
    pub(crate) replies: Sender<Reply>,
    /// True if its buffers exist.
    pub(crate) has_buffers: bool,
    /// True if no request follows.
    pub(crate) is_closing: bool,
    /// The device does not take its I/O before this instant: its tenant owes.
    pub(crate) delayed: Instant,
    requests: Vec<Option<Pieces>>,
    /// Requests with parts to submit, in order of arrival.
    waiting: VecDeque<usize>,
    /// The part that each buffer belongs to.
    parts: Vec<Option<(usize, Part)>>,
    free: Vec<u32>,
}

impl Client {
    pub(crate) fn new(task: TaskId, export: String, charged: Charged, replies: Sender<Reply>) -> Self {
        Self {
            task,
            export,
            charged,
            replies,
            has_buffers: false,
            is_closing: false,
            delayed: Instant::ZERO,
            requests: Vec::new(),
            waiting: VecDeque::new(),
            parts: vec![None; BUFFERS as usize],
            free: (0..BUFFERS).rev().collect(),
        }
    }

    /// Adds a request.
    pub(crate) fn add(&mut self, pieces: Pieces) {
        let index = self.requests.iter().position(Option::is_none).unwrap_or_else(|| {
            self.requests.push(None);
            self.requests.len() - 1
        });
        self.requests[index] = Some(pieces);
        self.waiting.push_back(index);
    }

    /// Returns the next part and its buffer; `None` if there is no part, or no buffer for it.
    pub(crate) fn next(&mut self) -> Option<(u32, Part, &Pieces)> {
        loop {
            let &index = self.waiting.front()?;
            let &slot = self.free.last()?;
            let pieces = self.requests[index].as_mut().expect("a request that waits");
            let part = pieces.next();
            if !pieces.has_next() {
                self.waiting.pop_front();
            }
            let Some(part) = part else { continue };
            self.free.pop();
            self.parts[slot as usize] = Some((index, part));
            return self.requests[index].as_ref().map(|pieces| (slot, part, pieces));
        }
    }

    /// Returns true if a part can be submitted.
    pub(crate) fn has_next(&self) -> bool {
        !self.waiting.is_empty() && !self.free.is_empty()
    }

    /// Returns the request and the part of a buffer in use.
    pub(crate) fn part(&mut self, slot: u32) -> (&mut Pieces, Part) {
        let (index, part) = self.parts[slot as usize].expect("a buffer in use");
        (self.requests[index].as_mut().expect("a request in flight"), part)
    }

    /// Ends the part of a buffer. Returns the request if it is over.
    pub(crate) fn end(&mut self, slot: u32, status: elevon_core::status::Status) -> Option<Pieces> {
        let (index, _) = self.parts[slot as usize].take().expect("a buffer in use");
        self.free.push(slot);
        let pieces = self.requests[index].as_mut().expect("a request in flight");
        let had_next = pieces.has_next();
        if pieces.end(status) {
            // A request that failed may still wait for buffers.
            self.waiting.retain(|&waiting| waiting != index);
            return self.requests[index].take();
        }
        if !had_next && pieces.has_next() {
            self.waiting.push_back(index);
        }
        None
    }

    /// Returns the number of requests that are not answered.
    pub(crate) fn requests(&self) -> usize {
        self.requests.iter().flatten().count()
    }

    /// Returns true if it can be forgotten.
    pub(crate) fn is_over(&self) -> bool {
        self.is_closing && self.requests.iter().all(Option::is_none)
    }
}
