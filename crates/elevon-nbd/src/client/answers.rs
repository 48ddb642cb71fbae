//! Answers to requests, as simple replies and in chunks.

use std::collections::BTreeMap;

use super::{Client, ClientError, ClientStep, Phase};
use crate::reply::Extent;
use crate::request::Command;
use crate::wire::{CHUNK, Fields, NbdError, SIMPLE_REPLY, chunk};

/// The longest chunk without data: as many extents as other servers tell at once.
const CHUNK_MAX: u32 = 16 << 20;
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
        Self { command, offset, length, parts: BTreeMap::new(), has_extents: false, error: None, bad: None }
    }

    /// Returns where a byte is within the request.
    fn place(&self, offset: u64) -> Option<u32> {
        let at = offset.checked_sub(self.offset)?;
        u32::try_from(at).ok().filter(|at| *at < self.length)
    }

    /// Takes a part of a READ, and returns where it begins within the request.
    fn take(&mut self, offset: u64, length: u32) -> Result<u32, ClientError> {
        let wrong = ClientError::Broken("data that was not asked for");
        let at = self.place(offset).filter(|_| self.command == Command::Read).ok_or(wrong.clone())?;
        let end = at.checked_add(length).filter(|end| *end <= self.length && length > 0).ok_or(wrong)?;
        let before = self.parts.range(..end).next_back();
        if before.is_some_and(|(_, other)| *other > at) {
            return Err(ClientError::Broken("the same data twice"));
        }
        self.parts.insert(at, end);
        Ok(at)
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

    fn awaited(&mut self, cookie: u64) -> Result<&mut Awaited, ClientError> {
        self.in_flight.get_mut(&cookie).ok_or(ClientError::Broken("a reply to no request"))
    }

    fn simple(&mut self, input: &[u8]) -> Result<(usize, ClientStep), ClientError> {
        let mut fields = Fields(&input[4..]);
        let (Some(error), Some(cookie)) = (fields.u32(), fields.u64()) else { return Ok((0, ClientStep::More)) };
        let awaited = self.awaited(cookie)?;
        if !awaited.parts.is_empty() || awaited.has_extents {
            return Err(ClientError::Broken("a simple reply behind chunks"));
        }
        if error != 0 {
            awaited.error = Some(NbdError::from_code(error));
        } else if awaited.command == Command::Read && awaited.length > 0 {
            let (offset, length) = (awaited.offset, awaited.length);
            let at = awaited.take(offset, length)?;
            self.phase = Phase::Payload { left: length, ends: Some(cookie) };
            return Ok((16, ClientStep::Data { cookie, at, length }));
        }
        Ok((16, self.end(cookie)?))
    }

    /// Takes a chunk, as far as a caller has not to take its data.
    fn chunk(&mut self, input: &[u8]) -> Result<(usize, ClientStep), ClientError> {
        let mut fields = Fields(&input[4..]);
        let (Some(flags), Some(kind), Some(cookie), Some(length)) =
            (fields.u16(), fields.u16(), fields.u64(), fields.u32())
        else {
            return Ok((0, ClientStep::More));
        };
        let is_last = flags & chunk::DONE != 0;
        let awaited = self.awaited(cookie)?;
        if kind == chunk::OFFSET_DATA {
            let Some(offset) = fields.u64() else { return Ok((0, ClientStep::More)) };
            let length = length.checked_sub(8).ok_or(ClientError::Broken("a chunk of a wrong length"))?;
            let at = awaited.take(offset, length)?;
            self.phase = Phase::Payload { left: length, ends: is_last.then_some(cookie) };
            return Ok((28, ClientStep::Data { cookie, at, length }));
        }
        if length > CHUNK_MAX {
            return Err(ClientError::Broken("a chunk of a wrong length"));
        }
        let Some(payload) = fields.bytes(length as usize) else { return Ok((0, ClientStep::More)) };
        let mut fields = Fields(payload);
        let wrong = || ClientError::Broken("a chunk of a wrong length");
        let step = match kind {
            chunk::NONE if payload.is_empty() && is_last => return Ok((20, self.end(cookie)?)),
            chunk::OFFSET_HOLE => {
                let (offset, length) = fields.u64().zip(fields.u32()).ok_or_else(wrong)?;
                ClientStep::Zeroes { cookie, at: awaited.take(offset, length)?, length }
            }
            chunk::BLOCK_STATUS => {
                let is_asked = matches!(awaited.command, Command::BlockStatus { .. });
                if !is_asked || std::mem::replace(&mut awaited.has_extents, true) {
                    return Err(ClientError::Broken("extents that were not asked for"));
                }
                if fields.u32() != self.context {
                    return Err(ClientError::Broken("extents of a context that was not chosen"));
                }
                ClientStep::Extents { cookie, extents: extents(fields.0)? }
            }
            _ if kind & chunk::IS_ERROR != 0 => {
                let error = NbdError::from_code(fields.u32().ok_or_else(wrong)?);
                let text = fields.u16().ok_or_else(wrong)?;
                fields.bytes(text.into()).ok_or_else(wrong)?;
                if kind == chunk::ERROR_OFFSET {
                    let offset = fields.u64().ok_or_else(wrong)?;
                    let bad = awaited.place(offset).ok_or(ClientError::Broken("an error elsewhere"))?;
                    awaited.bad = Some(awaited.bad.map_or(bad, |other| other.min(bad)));
                } else {
                    // It may be about any byte.
                    awaited.bad = Some(0);
                }
                awaited.error.get_or_insert(error);
                ClientStep::Continue
            }
            _ => return Err(ClientError::Broken("a chunk of a kind that it must not send")),
        };
        if is_last {
            self.phase = Phase::End(cookie);
        }
        Ok((20 + payload.len(), step))
    }

    /// Ends a request.
    pub(super) fn end(&mut self, cookie: u64) -> Result<ClientStep, ClientError> {
        self.phase = Phase::Transmission;
        let awaited = self.in_flight.remove(&cookie).ok_or(ClientError::Broken("a reply to no request"))?;
        let Awaited { command, length, has_extents, error, bad, .. } = awaited;
        let good = bad.map_or(0, |bad| bad.min(awaited.came()));
        match command {
            _ if error.is_some() => {}
            Command::Read if awaited.came() < length => {
                return Err(ClientError::Broken("a READ has finished without all of its data"));
            }
            Command::BlockStatus { .. } if !has_extents => {
                return Err(ClientError::Broken("BLOCK_STATUS has finished without extents"));
            }
            _ => {}
        }
        Ok(ClientStep::Reply { cookie, error, good })
    }
}

/// Reads extents; at least one.
fn extents(bytes: &[u8]) -> Result<Vec<Extent>, ClientError> {
    let wrong = ClientError::Broken("extents of a wrong length");
    if bytes.is_empty() || !bytes.len().is_multiple_of(8) {
        return Err(wrong);
    }
    let read = |bytes: &[u8]| {
        let mut fields = Fields(bytes);
        let (length, flags) = fields.u32().zip(fields.u32()).filter(|(length, _)| *length > 0)?;
        Some(Extent { length: length.into(), hole: flags & 1 != 0, zero: flags & 2 != 0 })
    };
    bytes.chunks(8).take(EXTENTS_MAX).map(read).collect::<Option<_>>().ok_or(wrong)
}
