//! The messages: a header of three words in the host's byte order, and a payload.

/// Length of a header in bytes.
pub const HEADER_BYTES: usize = 12;
/// Length of the longest payload that is taken, in bytes.
pub const MAX_PAYLOAD: u32 = 4096;
/// Maximum number of regions of a memory table.
pub const MAX_REGIONS: usize = 8;
/// Maximum number of regions that are added one by one.
pub const MAX_MEMORY_SLOTS: usize = 64;
/// Number of the back end's message that the configuration space has changed.
const CONFIG_CHANGE: u32 = 2;
/// Number of the back end's message that a ring has used descriptors (VRING_CALL).
const CALL: u32 = 4;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// Numbers of a front end's messages.
pub(crate) mod request {
    pub(crate) const GET_FEATURES: u32 = 1;
    pub(crate) const SET_FEATURES: u32 = 2;
    pub(crate) const SET_OWNER: u32 = 3;
    pub(crate) const RESET_OWNER: u32 = 4;
    pub(crate) const SET_MEM_TABLE: u32 = 5;
    pub(crate) const SET_VRING_NUM: u32 = 8;
    pub(crate) const SET_VRING_ADDR: u32 = 9;
    pub(crate) const SET_VRING_BASE: u32 = 10;
    pub(crate) const GET_VRING_BASE: u32 = 11;
    pub(crate) const SET_VRING_KICK: u32 = 12;
    pub(crate) const SET_VRING_CALL: u32 = 13;
    pub(crate) const SET_VRING_ERR: u32 = 14;
    pub(crate) const GET_PROTOCOL_FEATURES: u32 = 15;
    pub(crate) const SET_PROTOCOL_FEATURES: u32 = 16;
    pub(crate) const GET_QUEUE_NUM: u32 = 17;
    pub(crate) const SET_VRING_ENABLE: u32 = 18;
    pub(crate) const SET_BACKEND_REQ_FD: u32 = 21;
    pub(crate) const GET_CONFIG: u32 = 24;
    pub(crate) const SET_CONFIG: u32 = 25;
    pub(crate) const GET_INFLIGHT_FD: u32 = 31;
    pub(crate) const SET_INFLIGHT_FD: u32 = 32;
    pub(crate) const RESET_DEVICE: u32 = 34;
    pub(crate) const VRING_KICK: u32 = 35;
    pub(crate) const GET_MAX_MEM_SLOTS: u32 = 36;
    pub(crate) const ADD_MEM_REG: u32 = 37;
    pub(crate) const REM_MEM_REG: u32 = 38;
}

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The version in the flags is not 1.
    #[error("message {request} has protocol version {version}, not 1")]
    Version {
        /// The message's number.
        request: u32,
        /// The version that it states.
        version: u32,
    },
    /// The payload is longer than [`MAX_PAYLOAD`].
    #[error("message {request} has {bytes} bytes of payload; 4096 are the most")]
    TooLong {
        /// The message's number.
        request: u32,
        /// The length that it states.
        bytes: u32,
    },
    /// The payload does not have the length that the message needs.
    #[error("message {request} needs {needed} bytes of payload, not {bytes}")]
    Length {
        /// The message's number.
        request: u32,
        /// The length that it needs.
        needed: usize,
        /// Its length.
        bytes: usize,
    },
    /// The number of file descriptors is not the one that the message needs.
    #[error("message {request} needs {needed} file descriptors, not {fds}")]
    Descriptors {
        /// The message's number.
        request: u32,
        /// The number that it needs.
        needed: usize,
        /// The number that came with it.
        fds: usize,
    },
    /// The message is not supported.
    #[error("message {request} is not supported")]
    Unsupported {
        /// The message's number.
        request: u32,
    },
    /// A value in the message is out of its range.
    #[error("message {request}: {what}")]
    Value {
        /// The message's number.
        request: u32,
        /// What is wrong.
        what: &'static str,
    },
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The message's number.
    pub request: u32,
    /// True if the front end waits for an acknowledgement.
    pub needs_reply: bool,
    /// True if the message is an answer.
    pub is_reply: bool,
    /// Length of the payload in bytes, at most [`MAX_PAYLOAD`].
    pub bytes: u32,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// The version is not 1, or the payload is too long.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, ProtocolError> {
        let word = |at: usize| u32_at(bytes, at);
        let (request, flags, bytes) = (word(0), word(4), word(8));
        let version = flags & VERSION_MASK;
        if version != VERSION {
            return Err(ProtocolError::Version { request, version });
        }
        if bytes > MAX_PAYLOAD {
            return Err(ProtocolError::TooLong { request, bytes });
        }
        let (needs_reply, is_reply) = (flags & NEED_REPLY != 0, flags & REPLY != 0);
        Ok(Self { request, needs_reply, is_reply, bytes })
    }
}

/// Returns the answer to a message.
pub(crate) fn reply(request: u32, payload: &[u8]) -> Vec<u8> {
    encode(request, VERSION | REPLY, payload)
}

/// Returns the back end's message that ring `index` has used descriptors. The front end
/// acknowledges it.
pub fn call_message(index: u32) -> Vec<u8> {
    let payload = [index.to_ne_bytes(), [0; 4]].concat();
    encode(CALL, VERSION | NEED_REPLY, &payload)
}

/// Returns the back end's message that the configuration space has changed.
pub fn config_change_message() -> Vec<u8> {
    encode(CONFIG_CHANGE, VERSION, &[])
}

fn encode(request: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    for word in [request, flags, payload.len() as u32] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns the word at `at`, which is inside `bytes`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Returns the double word at `at`, which is inside `bytes`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// A region of the guest's memory, which the front end shares by a file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The guest's physical address of its first byte.
    pub guest: u64,
    /// Length in bytes, at least 1.
    pub bytes: u64,
    /// The front end's virtual address of its first byte, in which rings are given.
    pub user: u64,
    /// Offset of its first byte in the file.
    pub offset: u64,
}

/// Length of a region in a memory table.
const REGION_BYTES: usize = 32;

/// Reads a memory table.
pub(crate) fn parse_regions(request: u32, payload: &[u8]) -> Result<Vec<Region>, ProtocolError> {
    let length = |needed| ProtocolError::Length { request, needed, bytes: payload.len() };
    if payload.len() < 8 {
        return Err(length(8));
    }
    let count = u32_at(payload, 0) as usize;
    if !(1..=MAX_REGIONS).contains(&count) {
        return Err(ProtocolError::Value { request, what: "a memory table has 1 to 8 regions" });
    }
    let needed = 8 + count * REGION_BYTES;
    // User-mode kernels before 7 always send room for two regions.
    if payload.len() < needed {
        return Err(length(needed));
    }
    let regions = payload[8..needed].chunks_exact(REGION_BYTES);
    regions.map(|bytes| parse_region(request, bytes)).collect()
}

/// Reads the one region of a message.
pub(crate) fn parse_slot(request: u32, payload: &[u8]) -> Result<Region, ProtocolError> {
    let needed = 8 + REGION_BYTES;
    if payload.len() != needed {
        return Err(ProtocolError::Length { request, needed, bytes: payload.len() });
    }
    parse_region(request, &payload[8..])
}

/// Reads a region, which has [`REGION_BYTES`].
fn parse_region(request: u32, bytes: &[u8]) -> Result<Region, ProtocolError> {
    let [guest, bytes, user, offset] = [0, 8, 16, 24].map(|at| u64_at(bytes, at));
    let ends = [guest, user, offset].map(|start| start.checked_add(bytes));
    if bytes == 0 || ends.contains(&None) {
        let what = "a region is empty or goes beyond the address space";
        return Err(ProtocolError::Value { request, what });
    }
    Ok(Region { guest, bytes, user, offset })
}
