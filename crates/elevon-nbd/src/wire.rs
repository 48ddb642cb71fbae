//! The numbers of the protocol, and integers in its byte order (big-endian).

/// First word of the server.
pub(crate) const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second word of the server, and first word of each option.
pub(crate) const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
/// First word of an answer to an option.
pub(crate) const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
/// First word of a request.
pub(crate) const REQUEST: u32 = 0x2560_9513;
/// First word of a request with extended headers.
pub(crate) const EXTENDED_REQUEST: u32 = 0x21e4_1c71;
/// First word of a simple reply.
pub(crate) const SIMPLE_REPLY: u32 = 0x6744_6698;
/// First word of a chunk of a structured reply.
pub(crate) const CHUNK: u32 = 0x668e_33ef;
/// First word of a chunk with an extended header.
pub(crate) const EXTENDED_CHUNK: u32 = 0x6e8a_278c;

/// Flags of the handshake.
pub(crate) mod handshake {
    pub(crate) const FIXED_NEWSTYLE: u32 = 1;
    pub(crate) const NO_ZEROES: u32 = 1 << 1;
}

/// Options of the client.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const STARTTLS: u32 = 5;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
    pub(crate) const EXTENDED_HEADERS: u32 = 11;
}

/// Types of an answer to an option.
pub(crate) mod answer {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    /// The bit of every answer that refuses.
    pub(crate) const ERROR: u32 = 1 << 31;
    pub(crate) const UNSUPPORTED: u32 = ERROR | 1;
    pub(crate) const POLICY: u32 = ERROR | 2;
    pub(crate) const INVALID: u32 = ERROR | 3;
    pub(crate) const TLS_REQUIRED: u32 = ERROR | 5;
    pub(crate) const UNKNOWN: u32 = ERROR | 6;
    pub(crate) const SHUTDOWN: u32 = ERROR | 7;
    pub(crate) const BLOCK_SIZE_REQUIRED: u32 = ERROR | 8;
    pub(crate) const TOO_BIG: u32 = ERROR | 9;
}

/// Items of information about an export.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Commands of a request.
pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISC: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const CACHE: u16 = 5;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const BLOCK_STATUS: u16 = 7;
}

/// Flags of a request.
pub(crate) mod flag {
    pub(crate) const FUA: u16 = 1;
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    pub(crate) const DF: u16 = 1 << 2;
    pub(crate) const REQ_ONE: u16 = 1 << 3;
    pub(crate) const FAST_ZERO: u16 = 1 << 4;
    pub(crate) const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Types of a chunk, and its flag.
pub(crate) mod chunk {
    pub(crate) const DONE: u16 = 1;
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const OFFSET_HOLE: u16 = 2;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    pub(crate) const BLOCK_STATUS_EXT: u16 = 6;
    pub(crate) const ERROR: u16 = IS_ERROR | 1;
    pub(crate) const ERROR_OFFSET: u16 = IS_ERROR | 2;
    /// The bit of every type that tells an error.
    pub(crate) const IS_ERROR: u16 = 1 << 15;
}

/// An error of a request: the only ones that the protocol has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u32)]
pub enum NbdError {
    /// The export is read-only.
    #[error("operation not permitted")]
    Permission = 1,
    /// The device failed.
    #[error("input/output error")]
    Io = 5,
    /// The server has no memory left.
    #[error("cannot allocate memory")]
    NoMemory = 12,
    /// The request is not valid.
    #[error("invalid argument")]
    Invalid = 22,
    /// A write goes past the end, or the device is full.
    #[error("no space left on device")]
    NoSpace = 28,
    /// The request, or its answer, is too long.
    #[error("value too large")]
    Overflow = 75,
    /// The server cannot do this, or not fast.
    #[error("operation not supported")]
    Unsupported = 95,
    /// The server is ending.
    #[error("server is shutting down")]
    Shutdown = 108,
}

impl NbdError {
    /// Every error.
    pub const ALL: [Self; 8] = [
        Self::Permission,
        Self::Io,
        Self::NoMemory,
        Self::Invalid,
        Self::NoSpace,
        Self::Overflow,
        Self::Unsupported,
        Self::Shutdown,
    ];

    /// Returns the number on the wire.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// Returns the error of a number on the wire. One that the protocol does not have is
    /// [`Self::Io`].
    pub(crate) fn from_code(code: u32) -> Self {
        Self::ALL.into_iter().find(|error| error.code() == code).unwrap_or(Self::Io)
    }

    /// Returns the error that stands for an errno of Linux: EROFS is [`Self::Permission`], EDQUOT
    /// and EFBIG are [`Self::NoSpace`], and what the protocol has no number for is [`Self::Io`].
    pub fn from_errno(errno: i32) -> Self {
        const EACCES: i32 = 13;
        const EFBIG: i32 = 27;
        const EROFS: i32 = 30;
        const EDQUOT: i32 = 122;
        match errno {
            EACCES | EROFS => Self::Permission,
            EFBIG | EDQUOT => Self::NoSpace,
            _ => {
                Self::ALL.into_iter().find(|error| error.code() as i32 == errno).unwrap_or(Self::Io)
            }
        }
    }
}

/// Takes integers and bytes from the front of a slice. `None` if it is too short.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
    /// Takes a length and as many bytes.
    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.bytes(usize::try_from(length).ok()?)
    }
}

/// Appends integers to bytes that will be sent.
pub(crate) trait Put {
    fn u16(&mut self, value: u16);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    /// Appends a length and as many bytes.
    fn string(&mut self, text: &str);
}

impl Put for Vec<u8> {
    fn u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    fn string(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_becomes_what_the_protocol_has() {
        for error in NbdError::ALL {
            assert_eq!(NbdError::from_errno(error.code() as i32), error);
        }
        let of = |errno| NbdError::from_errno(errno);
        assert_eq!(
            (of(30), of(122), of(27), of(110)),
            (NbdError::Permission, NbdError::NoSpace, NbdError::NoSpace, NbdError::Io)
        );
    }

    #[test]
    fn fields_end_where_the_bytes_do() {
        let mut fields = Fields(&[0, 1, 0, 0, 0, 2, 7, 8, 9]);
        assert_eq!(
            (fields.u16(), fields.string(), fields.u16()),
            (Some(1), Some(&[7, 8][..]), None)
        );
        assert_eq!(Fields(&[255, 255, 255, 255, 0]).string(), None);
    }
}
