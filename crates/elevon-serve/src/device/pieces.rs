//! A request while it is carried out, in parts that fit the buffers of the device.

use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::{Instant, TaskId};
use elevon_host::{Outgoing, SlotBytes};

use super::byte_range::ByteRange;
use crate::net::protocol::{Answer, Protocol};
use crate::request::{DiskRequest, MAX_PAYLOAD, Operation};

/// Bytes of a buffer. A longer request is carried out in parts, several at a time.
pub(crate) const PART: u64 = 256 << 10;

/// The most buffers that a READ or WRITE of an export's longest payload needs: one more if it
/// begins within a block, and those of two blocks that it changes in part.
pub(crate) const MAX_BUFFERS: u32 = (MAX_PAYLOAD / PART) as u32 + 3;

/// Parts of zeroes that a request writes at a time where the device cannot make them otherwise.
const ZEROES: u32 = 8;

/// The most bytes of a part without data, and the parts of a request that are submitted at a time:
/// the stack cuts each to what the device takes, and others have their turn between them.
const PLAIN_PART: u64 = 1 << 30;
const PLAIN_PARTS: u32 = 8;

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

/// What is done with a request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The blocks that it changes in part are read.
    ReadEdges,
    /// They are written back, with its zeroes in them. The data of a WRITE is written with them.
    WriteEdges,
    /// The whole blocks of its range are read or changed.
    Blocks,
}

/// A request of a client.
#[derive(Debug)]
pub(crate) struct Pieces {
    pub(crate) request: DiskRequest,
    /// When it reached the device's thread.
    pub(crate) arrived: Instant,
    work: Work,
    stage: Stage,
    /// Bytes of a block of the device.
    block: u64,
    /// The blocks that are read or changed, without those in which zeroes are put; in bytes of the
    /// export.
    blocks: ByteRange,
    /// The buffers of the parts of `blocks`, in order: of a WRITE all of them from the start, of a
    /// READ those that were submitted. The bytes stay there from the socket to the device, or
    /// back.
    slots: Vec<u32>,
    /// The buffers of the blocks that are changed in part, as long as they are needed.
    edge_slots: [Option<u32>; 2],
    /// Of the stage: bytes for which a part was submitted, or blocks that are changed in part.
    submitted: u64,
    /// Parts in flight.
    parts: u32,
    status: Status,
    /// A flush follows the data, since the operation cannot be durable by itself.
    flush_follows: bool,
    /// Bytes of memory that were taken for it and are in no buffer yet.
    pub(crate) expected: u64,
}

/// A part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) op: Op,
    /// The first byte of the export that it covers.
    pub(crate) at: u64,
    /// Bytes; 0 for a flush.
    pub(crate) length: u64,
    pub(crate) fua: bool,
}

/// The data of a client that a part moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartData {
    pub(crate) request: DiskRequest,
    /// Its first byte in the data of the request.
    pub(crate) from: u64,
    pub(crate) bytes: u64,
    /// Its first byte in the buffer of the part.
    pub(crate) in_buffer: u64,
    /// It is all that is in the buffer.
    pub(crate) is_whole: bool,
}

impl Pieces {
    /// Starts a request to a device of blocks of `block` bytes. `zero` is the operation that makes
    /// a range zero, if there is one; `slots` an empty list.
    pub(crate) fn new(
        arrived: Instant,
        request: DiskRequest,
        block: u64,
        slots: Vec<u32>,
        zero: impl Fn(bool) -> Option<Op>,
    ) -> Self {
        let work = match request.operation {
            Operation::Read => Work::Read,
            Operation::Write => Work::Write,
            Operation::Trim => Work::Plain(Op::Discard),
            Operation::WriteZeroes { no_hole, .. } => {
                zero(no_hole).map_or(Work::WriteZeroData, Work::Plain)
            }
            Operation::Flush | Operation::Cache | Operation::BlockStatus { .. } => Work::Flush,
        };
        let span = ByteRange::of(&request);
        let blocks = if matches!(work, Work::Read | Work::Write) {
            span.outer(block)
        } else {
            span.inner(block)
        };
        let stage = if Self::edges_of(&request, block).next().is_some() {
            Stage::ReadEdges
        } else {
            Stage::Blocks
        };
        let flush_follows = request.fua && matches!(work, Work::Plain(_)) && !blocks.is_empty();
        let (edge_slots, submitted, parts, status) = ([None; 2], 0, 0, Status::Ok);
        let expected = Self::memory_needed(&request, block);
        Self {
            request,
            arrived,
            work,
            stage,
            block,
            blocks,
            slots,
            edge_slots,
            submitted,
            parts,
            status,
            flush_follows,
            expected,
        }
    }

    /// Returns how many bytes of buffers a request uses at most.
    pub(crate) fn memory_needed(request: &DiskRequest, block: u64) -> u64 {
        let of_edges = block * Self::edges_of(request, block).count() as u64;
        of_edges
            + match request.operation {
                Operation::Read | Operation::Write => ByteRange::of(request).outer(block).length(),
                Operation::WriteZeroes { .. } => request.length.min(u64::from(ZEROES) * PART),
                _ => 0,
            }
    }

    /// Yields the buffers that it was given at its start, and how many bytes of each it uses.
    pub(crate) fn given_slots(&self) -> impl Iterator<Item = (u32, u64)> {
        let of_edges = self.edge_slots.into_iter().flatten().map(|slot| (slot, self.block));
        let starts = (0..self.blocks.length()).step_by(PART as usize);
        of_edges.chain(
            self.slots
                .iter()
                .zip(starts)
                .map(|(&slot, start)| (slot, PART.min(self.blocks.length() - start))),
        )
    }

    /// Yields the blocks that a request changes in part. A trim leaves them as they are.
    fn edges_of(
        request: &DiskRequest,
        block: u64,
    ) -> impl Iterator<Item = ByteRange> + Clone + use<> {
        let has_some =
            matches!(request.operation, Operation::Write | Operation::WriteZeroes { .. });
        has_some.then(|| ByteRange::of(request).edges(block)).into_iter().flatten()
    }

    /// Returns true if a request changes blocks in part.
    pub(crate) fn changes_parts(request: &DiskRequest, block: u64) -> bool {
        Self::edges_of(request, block).next().is_some()
    }

    /// Yields the blocks that it changes in part, in bytes of the export.
    pub(crate) fn edges(&self) -> impl Iterator<Item = ByteRange> + Clone + use<> {
        Self::edges_of(&self.request, self.block)
    }

    /// Returns the blocks that it writes, those that it changes in part among them, in bytes of the
    /// export; `None` if it changes nothing.
    pub(crate) fn changed(&self) -> Option<ByteRange> {
        match self.request.operation {
            Operation::Write | Operation::WriteZeroes { .. } => {
                Some(ByteRange::of(&self.request).outer(self.block))
            }
            Operation::Trim => Some(self.blocks),
            _ => None,
        }
    }

    /// Returns how many buffers a request needs before it can begin: for the payload of a WRITE,
    /// and for blocks that it changes in part.
    pub(crate) fn slots_needed(request: &DiskRequest, block: u64) -> usize {
        let has_payload = request.operation == Operation::Write;
        let of_data = if has_payload {
            ByteRange::of(request).outer(block).length().div_ceil(PART) as usize
        } else {
            0
        };
        of_data + Self::edges_of(request, block).count()
    }

    /// Gives it the buffers that it needs.
    pub(crate) fn give_slots(&mut self, slots: impl Iterator<Item = u32>) {
        let mut slots = slots.fuse();
        for (_, of_edge) in self.edges().zip(&mut self.edge_slots) {
            *of_edge = slots.next();
        }
        self.slots.extend(slots);
    }

    /// Adds a buffer for the next part of the bytes of a READ.
    pub(crate) fn add_slot(&mut self, slot: u32) {
        self.slots.push(slot);
    }

    /// Returns the list of buffers, to be emptied and used again.
    pub(crate) fn into_slots(self) -> Vec<u32> {
        self.slots
    }

    /// Yields the buffers that the request still has, if nothing is sent from them: those of parts
    /// of a WRITE that were not submitted, and those of a READ.
    pub(crate) fn unused_slots(&self) -> impl Iterator<Item = u32> {
        let is_begun = self.has_slots() && self.stage == Stage::Blocks;
        let submitted = if is_begun { self.submitted.div_ceil(PART) as usize } else { 0 };
        self.slots[submitted..].iter().copied().chain(self.edge_slots.into_iter().flatten())
    }

    /// Yields the buffers of the bytes of the request from `from` on.
    pub(crate) fn slot_bytes(&self, task: TaskId, from: u64) -> impl Iterator<Item = SlotBytes> {
        let before = self.request.offset - self.blocks.start;
        let (from, end) = (before + from, before + self.request.length);
        let first = (from / PART) as usize;
        self.slots.iter().enumerate().skip(first).map(move |(index, &slot)| {
            let start = index as u64 * PART;
            let skip = from.saturating_sub(start);
            let length = (end - start).min(PART) - skip;
            SlotBytes { task, token: slot.into(), start: skip, length }
        })
    }

    /// Returns true if the bytes are in buffers from the start.
    pub(crate) fn has_slots(&self) -> bool {
        self.work == Work::Write
    }

    /// Returns true if the parts of the current stage have buffers from the start, and what they
    /// write is in them.
    pub(crate) fn has_part_slots(&self) -> bool {
        self.stage != Stage::Blocks || self.has_slots()
    }

    /// Returns the data of the client that a part moves; `None` if it moves none.
    pub(crate) fn data_of(&self, part: &Part) -> Option<PartData> {
        let moves = self.stage == Stage::Blocks && matches!(self.work, Work::Read | Work::Write);
        let blocks = ByteRange { start: part.at, end: part.at + part.length };
        let data = ByteRange::of(&self.request).within(blocks);
        moves.then(|| PartData {
            request: self.request,
            from: data.start - self.request.offset,
            bytes: data.length(),
            in_buffer: data.start - part.at,
            is_whole: data.length() == part.length,
        })
    }

    /// Returns the buffer of a part of the current stage, if it had one from the start.
    pub(crate) fn slot_of(&self, part: &Part) -> Option<u32> {
        match self.stage {
            Stage::Blocks => self
                .has_slots()
                .then(|| self.slots[((part.at - self.blocks.start) / PART) as usize]),
            _ => self
                .edges()
                .zip(self.edge_slots)
                .find(|(edge, _)| edge.start == part.at)
                .and_then(|(_, slot)| slot),
        }
    }

    /// Returns true if the data of a READ stays in its buffers, from which it is sent.
    pub(crate) const fn keeps_slots(&self) -> bool {
        matches!(self.work, Work::Read)
    }

    /// Takes the buffer of a part that has ended. Returns false if the request still needs it.
    pub(crate) fn frees(&mut self, slot: u32) -> bool {
        match self.stage {
            Stage::Blocks => !self.keeps_slots(),
            Stage::ReadEdges if self.work != Work::Write => false,
            Stage::ReadEdges | Stage::WriteEdges => {
                self.edge_slots
                    .iter_mut()
                    .filter(|of_edge| **of_edge == Some(slot))
                    .for_each(|of_edge| *of_edge = None);
                true
            }
        }
    }

    /// Returns the next part to submit.
    pub(crate) fn next(&mut self) -> Option<Part> {
        if !self.has_next() {
            return None;
        }
        if self.stage != Stage::Blocks {
            let edge = self.edges().nth(self.submitted as usize).expect("there is a next part");
            self.submitted += 1;
            self.parts += 1;
            let (op, fua) = if self.stage == Stage::ReadEdges {
                (Op::Read, false)
            } else {
                (Op::Write, self.request.fua)
            };
            return Some(Part { op, at: edge.start, length: edge.length(), fua });
        }
        let (at, left) =
            (self.blocks.start + self.submitted, self.blocks.length() - self.submitted);
        let part = match self.work {
            Work::Flush => Part { op: Op::Flush, at: 0, length: 0, fua: false },
            Work::Read => Part { op: Op::Read, at, length: left.min(PART), fua: false },
            Work::Write | Work::WriteZeroData => {
                Part { op: Op::Write, at, length: left.min(PART), fua: self.request.fua }
            }
            Work::Plain(op) => Part { op, at, length: left.min(PLAIN_PART), fua: false },
        };
        // There is one flush.
        self.submitted += part.length.max(1);
        self.parts += 1;
        Some(part)
    }

    /// Returns true if [`Self::next`] has another part.
    pub(crate) fn has_next(&self) -> bool {
        match (self.stage, self.work) {
            (Stage::Blocks, Work::Flush) => self.submitted == 0,
            (Stage::Blocks, Work::WriteZeroData) if self.parts >= ZEROES => false,
            (Stage::Blocks, Work::Plain(_)) if self.parts >= PLAIN_PARTS => false,
            (Stage::Blocks, _) => self.status.is_ok() && self.submitted < self.blocks.length(),
            _ => self.status.is_ok() && self.submitted < self.edges().count() as u64,
        }
    }

    /// Returns the buffer of a byte of `blocks` of a WRITE, and its place there.
    pub(crate) fn place_of(&self, byte: u64) -> (u32, u64) {
        let at = byte - self.blocks.start;
        (self.slots[(at / PART) as usize], at % PART)
    }

    /// Ends a part. Returns true if the whole request has finished, so that [`Self::reply`] can be
    /// sent.
    pub(crate) fn end(&mut self, status: Status) -> bool {
        self.parts -= 1;
        if self.status.is_ok() {
            self.status = status;
        }
        if self.parts > 0 || self.has_next() {
            return false;
        }
        if self.stage != Stage::Blocks {
            return !self.status.is_ok() || self.end_stage();
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

    /// Fails what is left of it with `status`. Returns true if nothing of it is in flight: then the
    /// whole request has finished.
    pub(crate) fn fail(&mut self, status: Status) -> bool {
        if self.status.is_ok() {
            self.status = status;
        }
        self.parts == 0
    }

    /// Goes on after the blocks that are changed in part were read, or written. Returns true if
    /// nothing remains to be done.
    fn end_stage(&mut self) -> bool {
        let writes_edges = self.stage == Stage::ReadEdges && self.work != Work::Write;
        (self.stage, self.submitted) =
            (if writes_edges { Stage::WriteEdges } else { Stage::Blocks }, 0);
        !self.has_next()
    }

    /// Does something else in place of what the device does not support. Returns true if nothing
    /// remains to be done.
    fn instead(&mut self, op: Op) -> bool {
        match (op, self.request.operation) {
            // A trim is advice.
            (_, Operation::Trim) => {
                self.status = Status::Ok;
                true
            }
            (_, Operation::WriteZeroes { fast: true, .. }) => true,
            _ => {
                (self.work, self.status, self.submitted, self.flush_follows) =
                    (Work::WriteZeroData, Status::Ok, 0, false);
                false
            }
        }
    }

    /// Returns the bytes that the client's other requests have to wait for.
    pub(crate) const fn weight(request: &DiskRequest) -> u64 {
        match request.operation {
            Operation::Read | Operation::Write => request.length,
            _ => 0,
        }
    }

    /// Returns how it ended, or has ended so far.
    pub(crate) const fn status(&self) -> Status {
        self.status
    }

    /// Appends the reply. Data in buffers is to be sent from there.
    pub(crate) fn reply(&self, protocol: &dyn Protocol, task: TaskId, out: &mut Outgoing) {
        let answer = match self.status {
            status if status.errno() != 0 => Answer::Failed(status),
            _ if self.work == Work::Read => Answer::DataFollows,
            _ => Answer::Done,
        };
        protocol.answer(&mut out.heads, &self.request, answer);
        if matches!(answer, Answer::DataFollows) {
            self.slot_bytes(task, 0).for_each(|slot| out.push(slot));
        }
    }
}
