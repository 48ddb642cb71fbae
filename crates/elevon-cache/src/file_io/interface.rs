//! What the caller of [`FileIo`](super::FileIo) hands to it, and what it tells the caller.

use crate::page_cache::CallDone;
use elevon_core::status::Status;
use elevon_core::units::{Bytes, DeviceOffset, PageCount, TaskId};

/// The kind of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOpKind {
    /// The I/O reads, or loads from a mapping.
    Read,
    /// The I/O writes, or stores to a mapping.
    Write,
    /// The I/O writes through a descriptor, and is durable when it has finished (RWF_DSYNC).
    DurableWrite,
    /// The I/O discards a range. It is always direct, and dirty pages of the range are dropped.
    Discard,
    /// The I/O fills a range with zeroes without data. It is always direct. The device may refuse
    /// it, so that dirty pages of the range are written first.
    Zeroes,
    /// The I/O makes all writes to its file durable.
    Sync,
    /// The I/O syncs the range of its file that the program wrote since the last such sync
    /// (sync_file_range).
    SyncRange,
}

/// An I/O of a program.
#[derive(Clone, Copy, Debug)]
pub struct FileOp {
    /// The program's task.
    pub task: TaskId,
    /// The program's token for the I/O, smaller than [`Program::depth`](super::Program::depth).
    pub token: u32,
    /// The kind of the I/O.
    pub kind: FileOpKind,
    /// The file of the I/O, by its index among the program's files: that of a sync, and of another
    /// I/O if `position` lies in its part.
    pub file: usize,
    /// The first byte on the device.
    pub position: DeviceOffset,
    /// Length in bytes.
    pub bytes: Bytes,
    /// The I/O is the first that reads back the program's writes: its files are written back and
    /// dropped from the cache before it.
    pub is_first_check: bool,
}

/// The result of the start of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The I/O goes to the device at once. When it has completed, call
    /// [`FileIo::on_device_done`](super::FileIo::on_device_done).
    Device,
    /// The I/O has finished.
    Finished(Status),
    /// The I/O waits; [`FileIo::poll`](super::FileIo::poll) returns its next event.
    Waits {
        /// True for direct I/O: its program sleeps in the submission.
        is_direct: bool,
    },
}

/// An event of an I/O, or of a call that belongs to no I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileIoEvent {
    /// The I/O has finished.
    Finished {
        /// The program's task.
        task: TaskId,
        /// The I/O's token.
        token: u32,
        /// The I/O's status.
        status: Status,
    },
    /// The direct I/O goes to the device now.
    Device {
        /// The program's task.
        task: TaskId,
        /// The I/O's token.
        token: u32,
    },
    /// The I/O sleeps or waits again. It may have made the cache build bios.
    Sleeps,
    /// A call of [`FileIo::call`](super::FileIo::call) that had slept has finished.
    Call(CallDone),
}

/// The class in which a call of an I/O is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallClass {
    /// A touch of a mapped page, which is no fault.
    Touch,
    /// A page fault.
    Fault,
    /// A read through a descriptor.
    Read,
    /// A write through a descriptor.
    Write,
    /// A call that waits for pages to be written.
    Sync,
}

/// Observes finished calls and I/Os, to count them and to charge their cost.
pub trait FileIoObserver {
    /// Called when a call of an I/O has finished.
    fn call_over(&mut self, end: &CallEnd<'_>);

    /// Called when an I/O has finished, which the caller learns from [`Begun::Finished`] at once or
    /// from [`FileIoEvent::Finished`] later.
    fn io_over(&mut self, task: TaskId, token: u32);
}

/// A finished call of an I/O.
#[derive(Clone, Copy, Debug)]
pub struct CallEnd<'a> {
    /// The program's task.
    pub task: TaskId,
    /// The I/O's token.
    pub token: u32,
    /// The class of the call.
    pub class: CallClass,
    /// The number of pages of the whole I/O.
    pub pages: PageCount,
    /// The result of the call.
    pub done: &'a CallDone,
}
