//! What each message asks of the caller, and the answers.

#[cfg(test)]
mod tests;

use crate::message::{
    HEADER_BYTES, Header, MAX_MEMORY_SLOTS, ProtocolError, Region, parse_regions, parse_slot,
    reply, request, u32_at, u64_at,
};

/// Virtio feature: a descriptor may have a table of descriptors.
pub const FEATURE_INDIRECT: u64 = 1 << 28;
/// Virtio feature: both sides say by a number when they want to be told.
pub const FEATURE_EVENT_INDEX: u64 = 1 << 29;
/// Virtio feature: the device follows version 1 of the specification.
const FEATURE_VERSION_1: u64 = 1 << 32;
/// Feature of the transport: protocol features can be negotiated. Without it a ring is enabled
/// from its start on.
pub const FEATURE_PROTOCOL_FEATURES: u64 = 1 << 30;
/// Protocol feature: the device has several queues.
pub const PROTOCOL_QUEUES: u64 = 1 << 0;
/// Protocol feature: the front end may ask for an acknowledgement of any message.
pub const PROTOCOL_REPLY_ACK: u64 = 1 << 3;
/// Protocol feature: the back end has a channel for messages of its own.
pub const PROTOCOL_BACKEND_CHANNEL: u64 = 1 << 5;
/// Protocol feature: the back end has the configuration space.
pub const PROTOCOL_CONFIG: u64 = 1 << 9;
/// Protocol feature: the front end keeps memory in which requests in flight are recorded.
pub const PROTOCOL_INFLIGHT: u64 = 1 << 12;
/// Protocol feature: the front end can reset the device.
pub const PROTOCOL_RESET: u64 = 1 << 13;
/// Protocol feature: regions of memory come and go one by one.
pub const PROTOCOL_MEMORY_SLOTS: u64 = 1 << 15;
/// Protocol feature: kicks and calls are messages.
const PROTOCOL_INBAND: u64 = 1 << 14;

/// Maximum number of descriptors of a ring.
const MAX_RING: u32 = 32768;
/// The bits of a ring's number in the messages of its descriptors.
const RING_MASK: u64 = 0xff;
/// The bit of these messages that says that there is no descriptor.
const NO_DESCRIPTOR: u64 = 1 << 8;
/// Length of the head of a configuration message in bytes: offset, size, flags.
const CONFIG_HEAD: usize = 12;
/// Length of a message about requests in flight in bytes; some front ends pad it.
const INFLIGHT_BYTES: usize = 20;
const INFLIGHT_BYTES_PADDED: usize = 24;

/// What a back end offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Features of virtio and of the transport.
    pub features: u64,
    /// Protocol features.
    pub protocol_features: u64,
    /// Number of queues, 1 to 256.
    pub queues: u16,
    /// The configuration space of the device.
    pub config: Vec<u8>,
}

impl Default for Offer {
    /// One queue, whose kicks and calls may be in band, and an empty configuration space.
    fn default() -> Self {
        Self {
            features: FEATURE_VERSION_1 | FEATURE_PROTOCOL_FEATURES,
            protocol_features: PROTOCOL_REPLY_ACK
                | PROTOCOL_BACKEND_CHANNEL
                | PROTOCOL_CONFIG
                | PROTOCOL_INBAND,
            queues: 1,
            config: Vec::new(),
        }
    }
}

/// Where a ring lies, by the front end's virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingAddresses {
    /// The table of descriptors.
    pub descriptors: u64,
    /// The ring of used descriptors.
    pub used: u64,
    /// The ring of available descriptors.
    pub available: u64,
}

/// What a message asks of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    None,
    /// Maps the guest's memory in place of what was mapped: the descriptors of the message are the
    /// files of these regions, in order.
    Map(Vec<Region>),
    /// Sets the number of descriptors of a ring.
    Size(u16, u16),
    /// Sets where a ring lies.
    Place(u16, RingAddresses),
    /// Sets the next available descriptor of a ring.
    Base(u16, u16),
    /// Stops a ring. The caller answers by [`BackEnd::base_answer`] with the next available
    /// descriptor.
    Stop(u16),
    /// Starts a ring. The descriptor of the message, if there is one, tells of kicks.
    Start(u16),
    /// Takes a descriptor that the caller writes to when a ring has used descriptors; without one,
    /// nothing is to be told.
    Call(u16),
    /// Lets a ring be served, or not.
    Enable(u16, bool),
    /// A ring may have available descriptors. The acknowledgement may be sent when they have been
    /// taken.
    Kick(u16),
    /// Takes the channel for messages of the back end: the descriptor of the message.
    Channel,
    /// Writes a part of the configuration space, from this byte.
    WriteConfig(u32, Vec<u8>),
    /// Forgets all rings.
    Reset,
    /// Takes the features of virtio and of the transport that the front end chose.
    Features(u64),
    /// Maps one region of the guest's memory beside the others: the descriptor of the message is
    /// its file.
    AddRegion(Region),
    /// Unmaps a region.
    RemoveRegion(Region),
    /// Makes memory in which requests in flight are recorded, all zero. The caller answers by
    /// [`BackEnd::inflight_answer`], with the descriptor of the memory.
    MakeInflight(InflightPlace),
    /// Takes memory in which requests in flight are recorded: the descriptor of the message.
    TakeInflight(InflightPlace),
}

/// Memory in which requests in flight are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InflightPlace {
    /// Length in bytes.
    pub bytes: u64,
    /// Offset of its first byte in its file.
    pub offset: u64,
    /// Number of rings.
    pub queues: u16,
    /// Number of descriptors of each ring.
    pub size: u16,
    /// True if the front end pads messages about it.
    pub is_padded: bool,
}

/// The back end of a device: what it offers to each front end.
#[derive(Clone, Debug)]
pub struct BackEnd {
    offer: Offer,
}

impl BackEnd {
    /// Returns the back end of a device.
    pub const fn new(offer: Offer) -> Self {
        Self { offer }
    }

    /// Makes these bytes the configuration space.
    pub fn set_config(&mut self, config: Vec<u8>) {
        self.offer.config = config;
    }

    /// Returns the answer to the message that asked for memory of requests in flight.
    pub fn inflight_answer(&self, place: &InflightPlace) -> Vec<u8> {
        let mut payload = Vec::with_capacity(INFLIGHT_BYTES_PADDED);
        payload.extend_from_slice(&place.bytes.to_ne_bytes());
        payload.extend_from_slice(&place.offset.to_ne_bytes());
        payload.extend_from_slice(&place.queues.to_ne_bytes());
        payload.extend_from_slice(&place.size.to_ne_bytes());
        payload.resize(if place.is_padded { INFLIGHT_BYTES_PADDED } else { INFLIGHT_BYTES }, 0);
        reply(request::GET_INFLIGHT_FD, &payload)
    }

    /// Takes a message with so many file descriptors. Returns the bytes of the answer, which are
    /// empty if none is due, and what the message asks for.
    ///
    /// # Errors
    /// The message breaks the protocol, or is not supported: the connection is of no more use.
    pub fn handle(
        &self,
        header: &[u8; HEADER_BYTES],
        payload: &[u8],
        fds: usize,
    ) -> Result<(Vec<u8>, Action), ProtocolError> {
        let header = Header::parse(header)?;
        if payload.len() != header.bytes as usize {
            let needed = header.bytes as usize;
            return Err(ProtocolError::Length {
                request: header.request,
                needed,
                bytes: payload.len(),
            });
        }
        let message = Message { request: header.request, payload, fds };
        if let Some(answer) = self.answer(message)? {
            return Ok((reply(header.request, &answer), Action::None));
        }
        let action = self.action(message)?;
        let has_answer = matches!(action, Action::Stop(_) | Action::MakeInflight(_));
        let is_acknowledged = header.needs_reply && !has_answer;
        let answer = if is_acknowledged { reply(header.request, &[0; 8]) } else { Vec::new() };
        Ok((answer, action))
    }

    /// Returns the answer to the message that stopped a ring.
    pub fn base_answer(&self, ring: u16, next: u16) -> Vec<u8> {
        let words = [u32::from(ring), u32::from(next)].map(u32::to_ne_bytes);
        reply(request::GET_VRING_BASE, &words.concat())
    }

    /// Returns the answer to a message that asks for a value.
    fn answer(&self, message: Message<'_>) -> Result<Option<Vec<u8>>, ProtocolError> {
        let value = match message.request {
            request::GET_FEATURES => self.offer.features,
            request::GET_PROTOCOL_FEATURES => self.offer.protocol_features,
            request::GET_QUEUE_NUM => self.offer.queues.into(),
            request::GET_MAX_MEM_SLOTS => MAX_MEMORY_SLOTS as u64,
            request::GET_CONFIG => return self.read_config(message).map(Some),
            _ => return Ok(None),
        };
        message.expect(0, 0)?;
        Ok(Some(value.to_ne_bytes().to_vec()))
    }

    /// Returns the part of the configuration space that a message asks for. What lies beyond its
    /// end reads as zeroes.
    fn read_config(&self, message: Message<'_>) -> Result<Vec<u8>, ProtocolError> {
        let (offset, bytes) = message.config_range()?;
        let mut answer = message.payload.to_vec();
        for (at, byte) in answer[CONFIG_HEAD..].iter_mut().enumerate() {
            *byte = self.offer.config.get(offset + at).copied().unwrap_or(0);
        }
        debug_assert_eq!(answer.len(), CONFIG_HEAD + bytes);
        Ok(answer)
    }

    /// Returns what a message asks for that has no answer of its own.
    fn action(&self, message: Message<'_>) -> Result<Action, ProtocolError> {
        let needed = match message.request {
            request::ADD_MEM_REG | request::REM_MEM_REG => PROTOCOL_MEMORY_SLOTS,
            request::GET_INFLIGHT_FD | request::SET_INFLIGHT_FD => PROTOCOL_INFLIGHT,
            _ => 0,
        };
        if needed & !self.offer.protocol_features != 0 {
            return Err(ProtocolError::Unsupported { request: message.request });
        }
        Ok(match message.request {
            request::SET_OWNER | request::RESET_OWNER => {
                message.expect(0, 0)?;
                Action::None
            }
            request::SET_FEATURES => {
                message.expect_subset_of(self.offer.features)?;
                Action::Features(u64_at(message.payload, 0))
            }
            request::SET_PROTOCOL_FEATURES => {
                message.expect_subset_of(self.offer.protocol_features)?;
                Action::None
            }
            request::SET_MEM_TABLE => {
                let regions = parse_regions(message.request, message.payload)?;
                message.expect(message.payload.len(), regions.len())?;
                Action::Map(regions)
            }
            request::ADD_MEM_REG => {
                let region = parse_slot(message.request, message.payload)?;
                message.expect_fds(1)?;
                Action::AddRegion(region)
            }
            // Some front ends send the descriptor again.
            request::REM_MEM_REG => {
                Action::RemoveRegion(parse_slot(message.request, message.payload)?)
            }
            request::GET_INFLIGHT_FD => {
                message.expect_fds(0)?;
                Action::MakeInflight(message.inflight_place(self.offer.queues)?)
            }
            request::SET_INFLIGHT_FD => {
                message.expect_fds(1)?;
                Action::TakeInflight(message.inflight_place(self.offer.queues)?)
            }
            request::SET_BACKEND_REQ_FD => {
                message.expect_fds(1)?;
                Action::Channel
            }
            request::SET_CONFIG => {
                let (offset, _) = message.config_range()?;
                Action::WriteConfig(offset as u32, message.payload[CONFIG_HEAD..].to_vec())
            }
            request::RESET_DEVICE => {
                message.expect(0, 0)?;
                Action::Reset
            }
            _ => return self.ring_action(message),
        })
    }

    /// Returns what a message about a ring asks for.
    fn ring_action(&self, message: Message<'_>) -> Result<Action, ProtocolError> {
        let queues = self.offer.queues;
        Ok(match message.request {
            request::SET_VRING_NUM => {
                let (ring, size) = message.ring_and_value(queues)?;
                if !(1..=MAX_RING).contains(&size) || !size.is_power_of_two() {
                    return Err(message.bad("a ring has 1 to 32768 descriptors, a power of two"));
                }
                Action::Size(ring, size as u16)
            }
            request::SET_VRING_BASE => {
                let (ring, base) = message.ring_and_value(queues)?;
                Action::Base(ring, base as u16)
            }
            request::GET_VRING_BASE => Action::Stop(message.ring_and_value(queues)?.0),
            request::SET_VRING_ENABLE => {
                let (ring, value) = message.ring_and_value(queues)?;
                Action::Enable(ring, value != 0)
            }
            request::VRING_KICK => Action::Kick(message.ring_and_value(queues)?.0),
            request::SET_VRING_ADDR => {
                message.expect(40, 0)?;
                let ring = message.ring(u32_at(message.payload, 0), queues)?;
                let [descriptors, used, available] =
                    [8, 16, 24].map(|at| u64_at(message.payload, at));
                Action::Place(ring, RingAddresses { descriptors, used, available })
            }
            request::SET_VRING_KICK => Action::Start(message.ring_of_descriptor(queues)?),
            request::SET_VRING_CALL => Action::Call(message.ring_of_descriptor(queues)?),
            request::SET_VRING_ERR => {
                message.ring_of_descriptor(queues)?;
                Action::None
            }
            request => return Err(ProtocolError::Unsupported { request }),
        })
    }
}

/// A message whose header was checked.
#[derive(Clone, Copy)]
struct Message<'a> {
    request: u32,
    payload: &'a [u8],
    fds: usize,
}

impl Message<'_> {
    fn bad(&self, what: &'static str) -> ProtocolError {
        ProtocolError::Value { request: self.request, what }
    }

    fn expect_fds(&self, needed: usize) -> Result<(), ProtocolError> {
        if self.fds == needed {
            return Ok(());
        }
        Err(ProtocolError::Descriptors { request: self.request, needed, fds: self.fds })
    }

    fn expect(&self, needed: usize, fds: usize) -> Result<(), ProtocolError> {
        if self.payload.len() != needed {
            let bytes = self.payload.len();
            return Err(ProtocolError::Length { request: self.request, needed, bytes });
        }
        self.expect_fds(fds)
    }

    /// Checks that the features of the message are among those offered.
    fn expect_subset_of(&self, offered: u64) -> Result<(), ProtocolError> {
        self.expect(8, 0)?;
        if u64_at(self.payload, 0) & !offered != 0 {
            return Err(self.bad("the front end takes a feature that was not offered"));
        }
        Ok(())
    }

    fn ring(&self, index: u32, queues: u16) -> Result<u16, ProtocolError> {
        u16::try_from(index)
            .ok()
            .filter(|&ring| ring < queues)
            .ok_or_else(|| self.bad("there is no such ring"))
    }

    fn ring_and_value(&self, queues: u16) -> Result<(u16, u32), ProtocolError> {
        self.expect(8, 0)?;
        Ok((self.ring(u32_at(self.payload, 0), queues)?, u32_at(self.payload, 4)))
    }

    /// Returns the ring of a message that brings a descriptor of it, or says that there is none.
    fn ring_of_descriptor(&self, queues: u16) -> Result<u16, ProtocolError> {
        let needs_none = self.payload.len() == 8 && u64_at(self.payload, 0) & NO_DESCRIPTOR != 0;
        self.expect(8, usize::from(!needs_none))?;
        self.ring((u64_at(self.payload, 0) & RING_MASK) as u32, queues)
    }

    /// Returns the memory that a message about requests in flight means.
    fn inflight_place(&self, most: u16) -> Result<InflightPlace, ProtocolError> {
        let bytes = self.payload.len();
        if bytes != INFLIGHT_BYTES && bytes != INFLIGHT_BYTES_PADDED {
            let (request, needed) = (self.request, INFLIGHT_BYTES);
            return Err(ProtocolError::Length { request, needed, bytes });
        }
        let words = u32_at(self.payload, 16).to_ne_bytes();
        let [queues, size] = [[words[0], words[1]], [words[2], words[3]]].map(u16::from_ne_bytes);
        if !(1..=most).contains(&queues) || !(1..=MAX_RING).contains(&size.into()) {
            return Err(self.bad("requests in flight are those of 1 queue or more that there are"));
        }
        let is_padded = bytes == INFLIGHT_BYTES_PADDED;
        let (bytes, offset) = (u64_at(self.payload, 0), u64_at(self.payload, 8));
        Ok(InflightPlace { bytes, offset, queues, size, is_padded })
    }

    /// Returns the first byte and the length of a range of the configuration space.
    fn config_range(&self) -> Result<(usize, usize), ProtocolError> {
        if self.payload.len() < CONFIG_HEAD {
            let (needed, bytes) = (CONFIG_HEAD, self.payload.len());
            return Err(ProtocolError::Length { request: self.request, needed, bytes });
        }
        let bytes = u32_at(self.payload, 4) as usize;
        self.expect(CONFIG_HEAD + bytes, 0)?;
        Ok((u32_at(self.payload, 0) as usize, bytes))
    }
}
