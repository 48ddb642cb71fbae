//! A request of a client, whatever protocol it came by, and what is said of a disk in answers.

use elevon_core::ioprio::IoPrio;

/// The most bytes of data that a request moves.
pub(crate) const MAX_PAYLOAD: u64 = 32 << 20;

/// What a request asks of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Bytes are read.
    Read,
    /// Bytes are written, which follow the request.
    Write,
    /// Everything that was completed becomes durable.
    Flush,
    /// A range is no longer needed; its content is undefined afterwards.
    Trim,
    /// A range is likely to be read soon.
    Cache,
    /// A range becomes zero.
    WriteZeroes {
        /// The range stays allocated.
        no_hole: bool,
        /// The request fails rather than be as slow as a write.
        fast: bool,
    },
    /// The client asks which parts of a range are allocated and which are zero.
    BlockStatus {
        /// One extent is enough.
        one: bool,
    },
}

impl Operation {
    /// Returns its name in metrics and in the log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::WriteZeroes { .. } => "write_zeroes",
            Self::Cache => "cache",
            Self::BlockStatus { .. } => "block_status",
        }
    }
}

/// A valid request: its range lies in the export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskRequest {
    pub(crate) operation: Operation,
    /// First byte of the export; 0 for a flush.
    pub(crate) offset: u64,
    /// Bytes; 0 for a flush.
    pub(crate) length: u64,
    /// It is durable when it is answered.
    pub(crate) fua: bool,
    /// What the protocol knows it by, which the device does not look at.
    pub(crate) tag: u64,
    /// The priority that the client asks for.
    pub(crate) ioprio: IoPrio,
}

/// Why a protocol refuses a request, before a device has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RequestRefusal {
    /// The operation is not known, or not offered.
    Command,
    /// It has flags, or an offset, that the operation does not take.
    Malformed,
    /// The export is read-only.
    ReadOnly,
    /// Its offset or length is no multiple of the block size, which the client was told.
    Unaligned,
    /// It goes past the end of the export.
    OutOfRange,
    /// It moves more bytes than are allowed at once.
    TooLong,
}

impl RequestRefusal {
    /// Returns its name in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Malformed => "malformed",
            Self::ReadOnly => "read_only",
            Self::Unaligned => "unaligned",
            Self::OutOfRange => "out_of_range",
            Self::TooLong => "too_long",
        }
    }
}

/// A part of a disk with one allocation status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes, more than 0.
    pub length: u64,
    /// Nothing is allocated.
    pub hole: bool,
    /// It reads as zeroes.
    pub zero: bool,
}
