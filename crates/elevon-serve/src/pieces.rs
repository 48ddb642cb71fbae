//! A request while it is carried out, in parts that fit the buffers of the device.

use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::Instant;
use elevon_nbd::{Command, NbdError, ReplyFormat, Request};

/// Bytes of a buffer. A longer request is carried out in parts, several at a time.
pub(crate) const PART: u64 = 128 << 10;

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
    format: ReplyFormat,
    pub(crate) work: Work,
    /// The payload of a WRITE; for a READ the reply as it is built: header, then data.
    bytes: Vec<u8>,
    /// Where data begins in `bytes`.
    head: usize,
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
    /// Starts a request. `zero` is the operation that makes a range zero, if there is one.
    pub(crate) fn new(
        arrived: Instant,
        request: Request,
        format: ReplyFormat,
        payload: Vec<u8>,
        zero: impl Fn(bool) -> Option<Op>,
    ) -> Self {
        let work = match request.command {
            Command::Read => Work::Read,
            Command::Write => Work::Write,
            Command::Trim => Work::Plain(Op::Discard),
            Command::WriteZeroes { no_hole, .. } => zero(no_hole).map_or(Work::WriteZeroData, Work::Plain),
            Command::Flush | Command::Cache | Command::BlockStatus { .. } => Work::Flush,
        };
        let mut bytes = payload;
        if work == Work::Read {
            bytes = Vec::with_capacity(ReplyFormat::READ_HEADER_MAX + request.length as usize);
            format.data_follows(&mut bytes, &request);
        }
        let head = if work == Work::Read { bytes.len() } else { 0 };
        if work == Work::Read {
            bytes.resize(head + request.length as usize, 0);
        }
        let flush_follows = request.fua && matches!(work, Work::Plain(_));
        Self { request, arrived, format, work, bytes, head, submitted: 0, parts: 0, status: Status::Ok, flush_follows }
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

    /// Returns the data of a part that writes.
    pub(crate) fn data(&self, part: &Part) -> Option<&[u8]> {
        (self.work == Work::Write).then(|| &self.bytes[part.at as usize..(part.at + part.length) as usize])
    }

    /// Returns where the data of a part that reads belongs.
    pub(crate) fn place(&mut self, part: &Part) -> Option<&mut [u8]> {
        let at = self.head + part.at as usize;
        (self.work == Work::Read).then(|| &mut self.bytes[at..at + part.length as usize])
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

    /// Returns the reply.
    pub(crate) fn reply(self) -> Vec<u8> {
        if self.status.is_ok() && self.request.command == Command::Read {
            return self.bytes;
        }
        let mut out = Vec::new();
        match self.status.errno() {
            0 => self.format.done(&mut out, &self.request),
            errno => self.format.error(&mut out, &self.request, NbdError::from_errno(errno), ""),
        }
        out
    }
}
