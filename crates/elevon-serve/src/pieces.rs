//! A request while it is carried out, in parts that fit the buffers of the device.

use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::{Instant, TaskId};
use elevon_host::{Data, Outgoing, SlotBytes};
use elevon_nbd::{Command, NbdError, ReplyFormat, Request};

/// Bytes of a buffer. A longer request is carried out in parts, several at a time.
pub(crate) const PART: u64 = 128 << 10;

/// The longest READ or WRITE whose bytes stay in the buffers of the device from the socket to the
/// device, or back. Those of a longer one are gathered in memory of its own, so that it does not
/// need all buffers at once.
const IN_BUFFERS: u64 = 8 << 20;

/// What is done for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Read,
    Write,
    /// Zeroes are written as data, since the device cannot do it otherwise.
    WriteZeroData,
    /// One operation without data.
    Plain(Op),
    Flush,
}

/// A request of a client.
#[derive(Debug)]
pub(crate) struct Pieces {
    pub(crate) request: Request,
    /// When it reached the device's thread.
    pub(crate) arrived: Instant,
    work: Work,
    /// The bytes of a READ or a WRITE that is too long for the buffers.
    own: Option<Vec<u8>>,
    /// The buffers of the parts that have their bytes there, in order: of a WRITE all of them from
    /// the start, of a READ those that were submitted.
    slots: Vec<u32>,
    /// Bytes for which a part was submitted.
    submitted: u64,
    /// Parts in flight.
    parts: u32,
    status: Status,
    /// A flush follows the data, since the operation cannot be durable by itself.
    flush_follows: bool,
}

/// A part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) op: Op,
    /// First byte of the request that it covers.
    pub(crate) at: u64,
    /// Bytes; 0 for a flush.
    pub(crate) length: u64,
    pub(crate) fua: bool,
}

impl Pieces {
    /// Starts a request. `zero` is the operation that makes a range zero, if there is one; `slots`
    /// an empty list.
    pub(crate) fn new(arrived: Instant, request: Request, slots: Vec<u32>, zero: impl Fn(bool) -> Option<Op>) -> Self {
        let work = match request.command {
            Command::Read => Work::Read,
            Command::Write => Work::Write,
            Command::Trim => Work::Plain(Op::Discard),
            Command::WriteZeroes { no_hole, .. } => zero(no_hole).map_or(Work::WriteZeroData, Work::Plain),
            Command::Flush | Command::Cache | Command::BlockStatus { .. } => Work::Flush,
        };
        let own = (request.length > IN_BUFFERS).then(|| match work {
            Work::Read => Some(vec![0; request.length as usize]),
            Work::Write => Some(Vec::with_capacity(request.length as usize)),
            _ => None,
        });
        let flush_follows = request.fua && matches!(work, Work::Plain(_));
        let (submitted, parts, status) = (0, 0, Status::Ok);
        Self { request, arrived, work, own: own.flatten(), slots, submitted, parts, status, flush_follows }
    }

    /// Returns how many buffers the payload of a WRITE needs before it can be received.
    pub(crate) const fn payload_slots(request: &Request) -> usize {
        let is_in_buffers = matches!(request.command, Command::Write) && request.length <= IN_BUFFERS;
        if is_in_buffers { request.length.div_ceil(PART) as usize } else { 0 }
    }

    /// Adds a buffer for the next part of the bytes.
    pub(crate) fn add_slot(&mut self, slot: u32) {
        self.slots.push(slot);
    }

    /// Returns the list of buffers, to be emptied and used again.
    pub(crate) fn into_slots(self) -> Vec<u32> {
        self.slots
    }

    /// Returns the buffers that the request still has, if nothing is sent from them: those of parts
    /// of a WRITE that were not submitted, and those of a READ.
    pub(crate) fn unused_slots(&self) -> &[u32] {
        let submitted = if self.has_slots() { self.submitted.div_ceil(PART) as usize } else { 0 };
        &self.slots[submitted..]
    }

    /// Returns the memory of a payload that is too long for the buffers.
    pub(crate) const fn own_payload(&mut self) -> Option<&mut Vec<u8>> {
        self.own.as_mut()
    }

    /// Yields the buffers of the bytes from `from` on.
    pub(crate) fn slot_bytes(&self, task: TaskId, from: u64) -> impl Iterator<Item = SlotBytes> {
        let first = (from / PART) as usize;
        self.slots.iter().enumerate().skip(first).map(move |(index, &slot)| {
            let start = index as u64 * PART;
            let skip = from.saturating_sub(start);
            let length = (self.request.length - start).min(PART) - skip;
            SlotBytes { task, token: slot.into(), start: skip, length }
        })
    }

    /// Returns true if the bytes are in buffers from the start.
    pub(crate) fn has_slots(&self) -> bool {
        self.work == Work::Write && self.own.is_none()
    }

    /// Returns the buffer in which the bytes of a part are, if they are in one from the start.
    pub(crate) fn slot_of(&self, part: &Part) -> Option<u32> {
        self.has_slots().then(|| self.slots[(part.at / PART) as usize])
    }

    /// Returns true if the buffer of a part that has ended is needed for the reply.
    pub(crate) const fn keeps_slots(&self) -> bool {
        matches!(self.work, Work::Read) && self.own.is_none()
    }

    /// Returns the next part to submit.
    pub(crate) fn next(&mut self) -> Option<Part> {
        let left = self.request.length - self.submitted.min(self.request.length);
        let part = match self.work {
            Work::Flush if self.submitted == 0 => {
                // There is one flush.
                self.submitted = 1;
                Part { op: Op::Flush, at: 0, length: 0, fua: false }
            }
            Work::Flush => return None,
            _ if left == 0 || !self.status.is_ok() => return None,
            Work::Read => Part { op: Op::Read, at: self.submitted, length: left.min(PART), fua: false },
            Work::Write | Work::WriteZeroData => {
                Part { op: Op::Write, at: self.submitted, length: left.min(PART), fua: self.request.fua }
            }
            Work::Plain(op) => Part { op, at: self.submitted, length: left, fua: false },
        };
        self.submitted += part.length;
        self.parts += 1;
        Some(part)
    }

    /// Returns what a part writes that is not in its buffer yet; `None` for zeroes.
    pub(crate) fn data(&self, part: &Part) -> Option<&[u8]> {
        let own = self.own.as_ref().filter(|_| self.work == Work::Write)?;
        Some(&own[part.at as usize..(part.at + part.length) as usize])
    }

    /// Returns where the data of a part that reads belongs, if it does not stay in its buffer.
    pub(crate) fn place(&mut self, part: &Part) -> Option<&mut [u8]> {
        let own = self.own.as_mut().filter(|_| self.work == Work::Read)?;
        Some(&mut own[part.at as usize..(part.at + part.length) as usize])
    }

    /// Ends a part. Returns true if the whole request is over, and [`Self::reply`] can be sent.
    pub(crate) fn end(&mut self, status: Status) -> bool {
        self.parts -= 1;
        if self.status.is_ok() {
            self.status = status;
        }
        if self.parts > 0 || self.has_next() {
            return false;
        }
        if self.status == Status::NotSupported
            && let Work::Plain(op) = self.work
        {
            return self.instead(op);
        }
        if self.flush_follows && self.status.is_ok() {
            (self.flush_follows, self.work, self.submitted) = (false, Work::Flush, 0);
            return false;
        }
        true
    }

    /// Returns true if [`Self::next`] has another part.
    pub(crate) fn has_next(&self) -> bool {
        match self.work {
            Work::Flush => self.submitted == 0,
            _ => self.status.is_ok() && self.submitted < self.request.length,
        }
    }

    /// Does something else in place of what the device does not support. Returns true if nothing
    /// remains to be done.
    fn instead(&mut self, op: Op) -> bool {
        match (op, self.request.command) {
            // A trim is advice.
            (_, Command::Trim) => {
                self.status = Status::Ok;
                true
            }
            (_, Command::WriteZeroes { fast: true, .. }) => true,
            _ => {
                (self.work, self.status, self.submitted, self.flush_follows) =
                    (Work::WriteZeroData, Status::Ok, 0, false);
                false
            }
        }
    }

    /// Returns the bytes that the client's other requests have to wait for.
    pub(crate) const fn weight(request: &Request) -> u64 {
        match request.command {
            Command::Read | Command::Write => request.length,
            _ => 0,
        }
    }

    /// Returns how it ended, or has ended so far.
    pub(crate) const fn status(&self) -> Status {
        self.status
    }

    /// Appends the reply. Data in buffers is to be sent from there.
    pub(crate) fn reply(&mut self, format: ReplyFormat, task: TaskId, out: &mut Outgoing) {
        if self.status.is_ok() && self.work == Work::Read {
            format.data_follows(&mut out.heads, &self.request);
            match self.own.take() {
                Some(own) => out.push(Data::Own(own)),
                None => self.slot_bytes(task, 0).for_each(|slot| out.push(Data::Slot(slot))),
            }
            return;
        }
        match self.status.errno() {
            0 => format.done(&mut out.heads, &self.request),
            errno => format.error(&mut out.heads, &self.request, NbdError::from_errno(errno), ""),
        }
    }
}
