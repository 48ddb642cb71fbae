//! The bio: a contiguous range of an I/O that becomes a request or part of one.

use crate::ioprio::IoPrio;
use crate::op::{Flags, Op};
use crate::units::{BioId, Bytes, Instant, LayoutId, Sector, Sectors, TaskId, TenantId};

/// The maximum number of vectors of a bio.
pub const BIO_MAX_VECS: usize = 256;

/// The data of a bio: a byte range of a registered layout. The vectors are the layout's runs cut to
/// this range, so a split changes two numbers and copies nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataRange {
    /// The layout.
    pub layout: LayoutId,
    /// First byte in the layout.
    pub offset: u64,
}

/// A bio. Its vector array is never changed; only `sector`, `bytes` and `data.offset` move.
#[derive(Clone, Copy, Debug)]
pub struct Bio {
    /// Operation.
    pub op: Op,
    /// Flags.
    pub flags: Flags,
    /// Priority.
    pub ioprio: IoPrio,
    /// Write lifetime hint, 0 for none; bios with different hints do not merge (6.9+).
    pub write_hint: u8,
    /// Physical segments, known after the split.
    pub segments: u16,
    /// The bio passed the gates of its tenant (see [`crate::control`]) itself, and was not
    /// merged into another's request.
    pub gated: bool,
    /// The bio has a place of writeback throttling, which its request gives back.
    pub has_place: bool,
    /// First sector.
    pub sector: Sector,
    /// Remaining bytes; at most 4 GiB − 1 rounded down to the logical block size.
    pub bytes: Bytes,
    /// Its data; not used for operations without data.
    pub data: DataRange,
    /// The task that submitted it.
    pub task: TaskId,
    /// The tenant that is charged.
    pub tenant: TenantId,
    /// Key of its I/O (one call of a source) in the stack's table of calls.
    pub io: u32,
    /// The source's own token of its I/O.
    pub token: u64,
    /// Next bio of the same request.
    pub next: Option<BioId>,
    /// When it was issued: when it entered the queue, or when a limiter released it.
    pub queued: Instant,
    /// The bio waits for the scheduler, and this wait is being counted.
    pub in_scheduler: bool,
    /// When its current wait began (see [`crate::control::explain`]); kept only if tenants are
    /// watched.
    pub since: Instant,
}

impl Bio {
    /// Length in sectors.
    #[inline]
    pub const fn sectors(&self) -> Sectors {
        self.bytes.sectors_floor()
    }
    /// The sector after the last one.
    #[inline]
    pub fn end(&self) -> Sector {
        self.sector + self.sectors()
    }
}
