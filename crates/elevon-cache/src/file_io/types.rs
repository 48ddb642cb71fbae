//! What file I/O takes and gives.

#[cfg(doc)]
use super::FileIo;
use crate::FileId;
use crate::activity::Submitter;
use crate::page_cache::{CallDone, OpenId, RangeSync};
use elevon_core::status::Status;
use elevon_core::units::{TaskId, TenantId};

/// The token of calls that belong to no I/O of their program: [`FileIo::call`].
pub const NO_IO: u64 = u64::MAX;

/// How a program gets at its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its I/O goes to the device (O_DIRECT).
    Direct,
    /// It reads and writes through descriptors.
    Descriptor,
    /// It loads from and stores to mappings.
    Mapping,
}

/// A program that does file I/O. Its number is that of its task.
#[derive(Clone, Debug)]
pub struct Program {
    /// How it gets at its files.
    pub access: Access,
    /// Its writes are durable when they are over (O_SYNC, O_DSYNC).
    pub sync_writes: bool,
    /// What its [`FileOpKind::SyncRange`] does.
    pub range_sync: Option<RangeSync>,
    /// The priority of its task.
    pub submitter: Submitter,
    /// The tenant that pays.
    pub tenant: TenantId,
    /// I/Os that it has under way at most. Their tokens are smaller than this.
    pub depth: usize,
}

/// A file that a program has open, and the part of it that the program uses.
#[derive(Clone, Copy, Debug)]
pub struct OpenPart {
    /// The open file.
    pub open: OpenId,
    /// The file.
    pub file: FileId,
    /// Where the file begins on the device, in bytes.
    pub file_start: u64,
    /// Where the part begins on the device, in bytes.
    pub start: u64,
    /// Bytes of the part.
    pub len: u64,
}

impl OpenPart {
    /// Where the part begins in the file.
    pub(super) const fn offset(&self) -> u64 {
        self.start - self.file_start
    }

    /// Whether a byte of the device lies in the part.
    pub(super) const fn holds(&self, position: u64) -> bool {
        self.start <= position && position - self.start < self.len
    }
}

/// What an I/O does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOpKind {
    /// Reads, or loads from a mapping.
    Read,
    /// Writes, or stores to a mapping.
    Write,
    /// Discards a range. Nothing of it is buffered.
    Discard,
    /// Makes durable what is written of all files that the program has open.
    Sync,
    /// Syncs what the program wrote since its last sync (sync_file_range).
    SyncRange,
}

/// An I/O of a program.
#[derive(Clone, Copy, Debug)]
pub struct FileOp {
    /// The program's task.
    pub task: TaskId,
    /// The program's number for it, below [`Program::depth`].
    pub token: u32,
    /// What it does.
    pub kind: FileOpKind,
    /// The file that it is of, by its place among the program's, if `position` lies in its part.
    pub file: usize,
    /// First byte, on the device.
    pub position: u64,
    /// Bytes.
    pub bytes: u64,
    /// It is the first that reads back what its program wrote: what is cached of the program's
    /// files is dropped before, and with bytes written back before that.
    pub begins_verify: bool,
}

/// How an I/O began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It goes to the device at once, and [`FileIo::on_device_done`] is to be told when it is back.
    Device,
    /// It is over.
    Over(Status),
    /// [`FileIo::poll`] will tell how it goes on.
    Waits {
        /// It is direct I/O: its program sleeps in the submission.
        is_direct: bool,
    },
}

/// What became of an I/O, or of a call that belongs to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileIoEvent {
    /// The I/O is over.
    Over {
        /// Its program.
        task: TaskId,
        /// Its name.
        token: u32,
        /// How it ended.
        status: Status,
    },
    /// The I/O is direct, and goes to the device now.
    Device {
        /// Its program.
        task: TaskId,
        /// Its name.
        token: u32,
    },
    /// The I/O sleeps again, or waits: it may have made the cache build bios.
    Sleeps,
    /// A call of [`FileIo::call`] that had slept is over.
    Call(CallDone),
}

/// What a call of an I/O is counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallClass {
    /// A touch of a page that was mapped: no fault.
    Touch,
    /// A page fault.
    Fault,
    /// A read through a descriptor.
    Read,
    /// A write through a descriptor.
    Write,
    /// Anything that waits for pages to be written.
    Sync,
}

/// Learns when the calls of an I/O are over, and the I/O: for counting, and for charging what they
/// cost.
pub trait FileIoObserver {
    /// A call of an I/O is over.
    fn call_over(&mut self, end: &CallEnd<'_>);

    /// An I/O is over. That is told by [`Begun::Over`] at once or later by [`FileIoEvent::Over`].
    fn io_over(&mut self, task: TaskId, token: u32);
}

/// A call that an I/O made is over.
#[derive(Clone, Copy, Debug)]
pub struct CallEnd<'a> {
    /// The program.
    pub task: TaskId,
    /// The I/O.
    pub token: u32,
    /// What the call is counted as.
    pub class: CallClass,
    /// Pages that the whole I/O lies in.
    pub pages: u64,
    /// The call.
    pub done: &'a CallDone,
}
