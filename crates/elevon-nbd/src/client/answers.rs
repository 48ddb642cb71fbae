//! Answers to requests, as simple replies and in chunks.

use std::collections::BTreeMap;

use super::{Client, ClientError, ClientStep, Phase};
use crate::reply::Extent;
use crate::request::Command;
use crate::wire::{CHUNK, Fields, NbdError, SIMPLE_REPLY, chunk};

/// The longest chunk whose payload is looked at: as many extents as other servers tell at once.
const CHUNK_MAX: u32 = 16 << 20;
/// The longest chunk that is skipped: no answer to a request has more. What claims to be longer is
/// no chunk.
const SKIPPED_MAX: u32 = 64 << 20;
/// Extents of an answer that are kept; of those behind them another request can ask.
const EXTENTS_MAX: usize = 64 << 10;

/// A request that was not answered, or not to its end.
#[derive(Clone, Debug)]
pub(super) struct Awaited {
    command: Command,
    offset: u64,
    length: u32,
    /// What came of a READ: the first byte within the request, and the end, of each part.
    parts: BTreeMap<u32, u32>,
    has_extents: bool,
    error: Option<NbdError>,
    /// The byte within the request that could not be read, if that was told.
    bad: Option<u32>,
}

impl Awaited {
    pub(super) const fn new(command: Command, offset: u64, length: u32) -> Self {
        Self {
            command,
            offset,
            length,
            parts: BTreeMap::new(),
            has_extents: false,
            error: None,
            bad: None,
        }
    }

    /// Returns where a byte is within the request.
    fn place(&self, offset: u64) -> Option<u32> {
        let at = offset.checked_sub(self.offset)?;
        u32::try_from(at).ok().filter(|at| *at < self.length)
    }

    /// Takes a part of a READ, and returns where it begins within the request; `None` if it was not
    /// asked for, or came before.
    fn take(&mut self, offset: u64, length: u32) -> Option<u32> {
        let at = self.place(offset).filter(|_| self.command == Command::Read)?;
        let end = at.checked_add(length).filter(|end| *end <= self.length && length > 0)?;
        let before = self.parts.range(..end).next_back();
        if before.is_some_and(|(_, other)| *other > at) {
            return None;
        }
        self.parts.insert(at, end);
        Some(at)
    }

    /// The answer contradicts the protocol. Where it ends is known all the same, so that its
    /// request alone fails. None of its bytes is good.
    fn spoil(&mut self) {
        self.error.get_or_insert(NbdError::Io);
        self.bad = Some(0);
    }

    /// Takes an error that the server tells in a chunk.
    fn fail(&mut self, kind: u16, payload: &[u8]) {
        let mut fields = Fields(payload);
        let Some(error) = fields.u32() else { return self.spoil() };
        self.error.get_or_insert(NbdError::from_code(error));
        let text = fields.u16().and_then(|text| fields.bytes(text.into()));
        let place = text.and_then(|_| fields.u64()).filter(|_| kind == chunk::ERROR_OFFSET);
        // Without a place it may be about any byte.
        let bad = place.and_then(|offset| self.place(offset)).unwrap_or(0);
        self.bad = Some(self.bad.map_or(bad, |other| other.min(bad)));
    }

    /// Returns how many bytes came from the first on.
    fn came(&self) -> u32 {
        let mut until = 0;
        for (&at, &end) in &self.parts {
            if at > until {
                break;
            }
            until = end;
        }
        until
    }
}

impl Client {
    pub(super) fn reply(&mut self, input: &[u8]) -> Result<(usize, ClientStep), ClientError> {
        match Fields(input).u32() {
            None => Ok((0, ClientStep::More)),
            Some(SIMPLE_REPLY) => self.simple(input),
            Some(CHUNK) if self.structured => self.chunk(input),
            Some(_) => Err(ClientError::Broken("what came is no reply")),
        }
    }

    fn simple(&mut self, input: &[u8]) -> Result<(usize, ClientStep), ClientError> {
        let mut fields = Fields(&input[4..]);
        let (Some(error), Some(cookie)) = (fields.u32(), fields.u64()) else {
            return Ok((0, ClientStep::More));
        };
        let Some(awaited) = self.in_flight.get_mut(&cookie) else {
            // Without chunks it may be that of a READ, whose data follows.
            return match error != 0 || self.structured {
                true => Ok((16, ClientStep::Continue)),
                false => Err(ClientError::Broken("a reply to no request")),
            };
        };
        if error != 0 {
            awaited.error = Some(NbdError::from_code(error));
        } else if awaited.command == Command::Read && awaited.length > 0 {
            let (offset, length) = (awaited.offset, awaited.length);
            let at = awaited
                .take(offset, length)
                .ok_or(ClientError::Broken("a simple reply behind chunks"))?;
            self.phase = Phase::Payload { left: length, ends: Some(cookie) };
            return Ok((16, ClientStep::Data { cookie, at, length }));
        }
        Ok((16, self.end(cookie)))
    }

    /// Takes a chunk, as far as a caller has not to take its data.
    fn chunk(&mut self, input: &[u8]) -> Result<(usize, ClientStep), ClientError> {
        let mut fields = Fields(&input[4..]);
        let (Some(flags), Some(kind), Some(cookie), Some(length)) =
            (fields.u16(), fields.u16(), fields.u64(), fields.u32())
        else {
            return Ok((0, ClientStep::More));
        };
        if length > SKIPPED_MAX {
            return Err(ClientError::Broken("a chunk of a wrong length"));
        }
        // What is said of no request, or of one whose answer came before, is of no use.
        let Some(awaited) = self.in_flight.get_mut(&cookie) else {
            return Ok((20, self.skip(length, None)));
        };
        let ends = (flags & chunk::DONE != 0).then_some(cookie);
        if kind == chunk::OFFSET_DATA && length >= 8 {
            let Some(offset) = fields.u64() else { return Ok((0, ClientStep::More)) };
            if let Some(at) = awaited.take(offset, length - 8) {
                self.phase = Phase::Payload { left: length - 8, ends };
                return Ok((28, ClientStep::Data { cookie, at, length: length - 8 }));
            }
        }
        if kind == chunk::OFFSET_DATA || length > CHUNK_MAX {
            awaited.spoil();
            return Ok((20, self.skip(length, ends)));
        }
        let Some(payload) = fields.bytes(length as usize) else { return Ok((0, ClientStep::More)) };
        let step = awaited.say(self.context, cookie, (kind, ends.is_some()), payload);
        self.phase = ends.map_or(Phase::Transmission, Phase::End);
        Ok((20 + payload.len(), step))
    }

    /// Lets the bytes of a chunk that is of no use be skipped.
    fn skip(&mut self, left: u32, ends: Option<u64>) -> ClientStep {
        self.phase = Phase::Skipped { left, ends };
        ClientStep::Continue
    }

    /// Skips what came of such a chunk.
    pub(super) fn skipped(
        &mut self,
        left: u32,
        ends: Option<u64>,
        input: &[u8],
    ) -> (usize, ClientStep) {
        let used = input.len().min(left as usize);
        let left = left - used as u32;
        self.phase = match left {
            0 => ends.map_or(Phase::Transmission, Phase::End),
            _ => Phase::Skipped { left, ends },
        };
        (used, if left == 0 { ClientStep::Continue } else { ClientStep::More })
    }

    /// Ends a request. One whose answer lacks something has failed.
    pub(super) fn end(&mut self, cookie: u64) -> ClientStep {
        self.phase = Phase::Transmission;
        let Some(awaited) = self.in_flight.remove(&cookie) else { return ClientStep::Continue };
        let came = awaited.came();
        let Awaited { command, length, has_extents, error, bad, .. } = awaited;
        let is_short = match command {
            Command::Read => came < length,
            Command::BlockStatus { .. } => !has_extents,
            _ => false,
        };
        match error {
            None if is_short => ClientStep::Reply { cookie, error: Some(NbdError::Io), good: came },
            error => ClientStep::Reply { cookie, error, good: bad.map_or(0, |bad| bad.min(came)) },
        }
    }
}

impl Awaited {
    /// Takes a chunk without data, of this kind, that is or is not the last.
    fn say(
        &mut self,
        context: Option<u32>,
        cookie: u64,
        (kind, is_last): (u16, bool),
        payload: &[u8],
    ) -> ClientStep {
        let mut fields = Fields(payload);
        match kind {
            chunk::NONE if payload.is_empty() && is_last => {}
            chunk::OFFSET_HOLE if payload.len() == 12 => {
                let (offset, length) = fields.u64().zip(fields.u32()).expect("12 bytes");
                match self.take(offset, length) {
                    Some(at) => return ClientStep::Zeroes { cookie, at, length },
                    None => self.spoil(),
                }
            }
            chunk::BLOCK_STATUS => {
                let is_asked =
                    matches!(self.command, Command::BlockStatus { .. }) && !self.has_extents;
                let number = fields.u32();
                match extents(fields.0)
                    .filter(|_| is_asked && number.is_some() && number == context)
                {
                    Some(extents) => {
                        self.has_extents = true;
                        return ClientStep::Extents { cookie, extents };
                    }
                    None => self.spoil(),
                }
            }
            _ if kind & chunk::IS_ERROR != 0 => self.fail(kind, payload),
            _ => self.spoil(),
        }
        ClientStep::Continue
    }
}

/// Reads extents; at least one. `None` if they are no such list.
fn extents(bytes: &[u8]) -> Option<Vec<Extent>> {
    if bytes.is_empty() || !bytes.len().is_multiple_of(8) {
        return None;
    }
    let read = |bytes: &[u8]| {
        let mut fields = Fields(bytes);
        let (length, flags) = fields.u32().zip(fields.u32()).filter(|(length, _)| *length > 0)?;
        Some(Extent { length: length.into(), hole: flags & 1 != 0, zero: flags & 2 != 0 })
    };
    bytes.chunks(8).take(EXTENTS_MAX).map(read).collect()
}
