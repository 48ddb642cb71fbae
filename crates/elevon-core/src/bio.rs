//! The bio: a piece of I/O on its way to a request.

use crate::ioprio::IoPrio;
use crate::op::{Flags, Op};
use crate::units::{BioId, Bytes, Instant, LayoutId, Sector, Sectors, TaskId, TenantId};

/// Vectors that a bio holds at the most.
pub const BIO_MAX_VECS: usize = 256;

/// Where a bio's data lies: bytes of a registered layout. The vectors themselves are the layout's
/// runs cut to this range, so a split moves two numbers and copies nothing.
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
    /// It passed the gates of its tenant (see [`crate::control::Gate`]) on its own, and did not
    /// join another's request.
    pub gated: bool,
    /// First sector.
    pub sector: Sector,
    /// Bytes left; at most 4 GiB − 1 rounded down to the logical block size.
    pub bytes: Bytes,
    /// Its data; meaningless for operations without data.
    pub data: DataRange,
    /// Who submitted it.
    pub task: TaskId,
    /// Who is charged.
    pub tenant: TenantId,
    /// The I/O (one call of a source) that waits for it, a key of the stack's I/O table.
    pub io: u32,
    /// Next bio of the same request.
    pub next: Option<BioId>,
    /// When it was issued: it entered the queue, or a limit let it go.
    pub queued: Instant,
    /// It waits for the scheduler, and that is being counted.
    pub in_scheduler: bool,
    /// Since when it waits for what it waits for now (see [`crate::control::explain`]); kept only
    /// where tenants are watched.
    pub since: Instant,
}

impl Bio {
    /// Length in sectors.
    #[inline]
    pub const fn sectors(&self) -> Sectors {
        self.bytes.sectors_floor()
    }
    /// The sector after the last.
    #[inline]
    pub fn end(&self) -> Sector {
        self.sector + self.sectors()
    }
}
