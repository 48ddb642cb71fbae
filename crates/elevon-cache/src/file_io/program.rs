//! Programs and the files that they have open.

use crate::FileId;
use crate::activity::Submitter;
use crate::page_cache::{OpenId, RangeSync};
use elevon_core::units::{Bytes, DeviceOffset, FileOffset, TenantId};

/// How a program accesses its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// I/O goes to the device (O_DIRECT).
    Direct,
    /// The program reads and writes through descriptors.
    Descriptor,
    /// The program loads from and stores to mappings.
    Mapping,
}

/// A program that does file I/O. Its number is its task's number.
#[derive(Clone, Debug)]
pub struct Program {
    /// How the program accesses its files.
    pub access: Access,
    /// True if its writes are durable when they have finished (O_SYNC, O_DSYNC).
    pub sync_writes: bool,
    /// The steps of its [`super::FileOpKind::SyncRange`].
    pub range_sync: Option<RangeSync>,
    /// The priority of its task.
    pub submitter: Submitter,
    /// The tenant that is charged.
    pub tenant: TenantId,
    /// The maximum number of its unfinished I/Os. Their tokens are smaller than this.
    pub depth: usize,
}

/// A file that a program has open, and the part of it that the program uses.
#[derive(Clone, Copy, Debug)]
pub struct OpenPart {
    /// The open file.
    pub open: OpenId,
    /// The file.
    pub file: FileId,
    /// The file's first byte on the device.
    pub file_start: DeviceOffset,
    /// The part's first byte on the device.
    pub start: DeviceOffset,
    /// Length of the part in bytes.
    pub len: Bytes,
}

impl OpenPart {
    /// Returns the part's first byte in the file.
    pub fn offset(&self) -> FileOffset {
        self.in_file(self.start)
    }

    /// Returns the position in the file of a byte of the device; that of the file's first byte for
    /// a byte before it.
    pub(super) fn in_file(&self, position: DeviceOffset) -> FileOffset {
        FileOffset::ZERO + Bytes::new(position.get().saturating_sub(self.file_start.get()))
    }

    /// Returns true if a byte of the device lies in the part.
    pub(super) fn holds(&self, position: DeviceOffset) -> bool {
        self.start <= position && position - self.start < self.len
    }
}
