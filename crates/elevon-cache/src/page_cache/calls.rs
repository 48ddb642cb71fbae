//! Calls to the page cache, their results, and the copies that they make.

use super::*;

/// An open file: the readahead state of one reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenId(pub u32);

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Read through the descriptor; the read is short at the end of the file.
    Read,
    /// Write through the descriptor; the file may grow up to its capacity on the device.
    Write,
    /// Touch the byte at `offset` through a mapping. If the page is not mapped, this is a page
    /// fault.
    Fault {
        /// The touch is a store.
        write: bool,
    },
    /// Write the dirty pages of the range (0 bytes: to the end of the file), wait for them, and
    /// flush the device. An O_SYNC write syncs its own range.
    Fsync,
    /// The same as [`Self::Fsync`], because metadata is not modelled.
    Fdatasync,
    /// Write the dirty pages of a range, wait for them, or both, without a flush (sync_file_range).
    SyncRange(RangeSync),
    /// Give advice on the file or a range of it (posix_fadvise).
    Fadvise(Advice),
    /// Give advice on the mapping of the file (madvise): NORMAL, SEQUENTIAL or RANDOM. It decides
    /// what a fault reads, and leaves the readahead of the file as it is.
    Madvise(Advice),
    /// Cut or extend the file to `offset` bytes.
    Truncate,
    /// Drop every clean page that is not mapped, of all files.
    DropCaches,
    /// Drop all pages of the range, before and after a direct write, even if they are mapped. Dirty
    /// pages are written first.
    Invalidate,
    /// Drop all pages of the range before it is discarded, even if they are mapped. Pages that lie
    /// in the range as a whole are dropped without being written.
    Discard,
    /// Write the dirty pages of the file and wait for them, then drop the pages that are clean and
    /// not mapped (BLKFLSBUF on a block device).
    FlushBuffers,
    /// Write the dirty pages of the file and wait for them, then drop all pages (the last close of
    /// a block device).
    LastClose,
}

/// The steps of a range sync, in this order. None of them flushes the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeSync {
    /// Wait for pages that are being written.
    pub wait_before: bool,
    /// Submit dirty pages that are not under writeback. The bios are not SYNC; without both waits
    /// the call gives no data integrity.
    pub write: bool,
    /// Wait for pages that are being written.
    pub wait_after: bool,
}

impl RangeSync {
    /// All three steps: pages that were dirty have been written when the call returns.
    pub const ALL: Self = Self { wait_before: true, write: true, wait_after: true };
}

/// A call of a program.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The calling task.
    pub task: TaskId,
    /// The caller's token; returned in [`CallDone`].
    pub token: u64,
    /// The task's priority.
    pub submitter: Submitter,
    /// The tenant that is charged.
    pub tenant: TenantId,
    /// The open file.
    pub open: OpenId,
    /// The kind of the call.
    pub kind: CallKind,
    /// First byte.
    pub offset: FileOffset,
    /// Number of bytes. For a call about a range, 0 means to the end of the file.
    pub bytes: Bytes,
    /// Offset of the call's first byte in the buffer of its [`ByteCopy`]s.
    pub buffer_offset: Bytes,
}

impl Call {
    /// Returns the result of a successful call that did not sleep.
    pub(super) const fn done(&self, bytes: Bytes) -> CallDone {
        let (task, token, zero) = (self.task, self.token, Nanos::ZERO);
        let (status, class) = (Status::Ok, PrioClass::None);
        CallDone {
            task,
            token,
            status,
            bytes,
            waited: zero,
            device: zero,
            paused: zero,
            starved: zero,
            class,
            is_major: false,
        }
    }

    /// Returns a call of a task with default priority, of the root tenant.
    pub const fn new(
        task: TaskId,
        token: u64,
        open: OpenId,
        kind: CallKind,
        offset: FileOffset,
        bytes: Bytes,
    ) -> Self {
        let submitter = Submitter::of_task(IoPrio::NONE, CpuPolicy::Normal, 0);
        Self {
            task,
            token,
            submitter,
            tenant: TenantId(0),
            open,
            kind,
            offset,
            bytes,
            buffer_offset: Bytes::ZERO,
        }
    }
}

/// The result of a finished call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallDone {
    /// The calling task.
    pub task: TaskId,
    /// The caller's token.
    pub token: u64,
    /// Its status.
    pub status: Status,
    /// Bytes read or written. For advice to read ahead, the bytes of its range, in whole pages, as
    /// far as they were looked at; it ended there for want of memory or of its tenant's part.
    pub bytes: Bytes,
    /// Time that the call slept for I/O (iowait).
    pub waited: Nanos,
    /// The part of `waited` that the device spent on the bios that ended the sleeps, as far as
    /// `complete` was told.
    pub device: Nanos,
    /// Time that the call slept because of the dirty limits.
    pub paused: Nanos,
    /// Time that the call slept because no memory was free, or because its tenant held its part of
    /// it.
    pub starved: Nanos,
    /// The priority class of the bio that ended the call's last sleep for I/O; NONE if it had
    /// none.
    pub class: PrioClass,
    /// A major fault: the page was not cached, or not up to date.
    pub is_major: bool,
}

/// The result of the start of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// The call has finished.
    Done(CallDone),
    /// The task sleeps; [`PageCache::poll_done`] will return the result.
    Wait,
}

/// A copy to make between a frame and a call's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteCopy {
    /// The task of the call.
    pub task: TaskId,
    /// The call's token.
    pub token: u64,
    /// The frame.
    pub frame: FrameId,
    /// Offset in the frame.
    pub frame_offset: u32,
    /// Bytes.
    pub bytes: u32,
    /// Offset in the caller's buffer.
    pub call_offset: Bytes,
    /// The direction of the copy.
    pub way: Way,
}

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the frame to the call.
    ToCall,
    /// From the call to the frame.
    ToFrame,
    /// The frame is filled with zeroes; the call's buffer is not touched.
    Zero,
}
