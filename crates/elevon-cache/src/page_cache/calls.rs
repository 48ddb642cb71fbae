//! Calls to the page cache, what each comes to, and the bytes that it moves.

use super::*;

/// An open file: the readahead state of one reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenId(pub u32);

/// What a call wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Read through the descriptor; ends short at the end of the file.
    Read,
    /// Write through the descriptor; the file grows up to what its place on the device holds.
    Write,
    /// Touch the byte at `offset` through a mapping: nothing where it is mapped, else a page fault.
    Fault {
        /// The touch is a store.
        write: bool,
    },
    /// Write what is dirty of the file (0 bytes: all of it), wait, and flush the device. A range is
    /// what an O_SYNC write asks for.
    Fsync,
    /// The same: no metadata is modelled.
    Fdatasync,
    /// Write what is dirty in a range, and wait, as far as asked for; no flush (sync_file_range).
    SyncRange(RangeSync),
    /// Advice on the file, or a range of it.
    Fadvise(Advice),
    /// Cut or extend the file to `offset` bytes.
    Truncate,
    /// Drop every clean page of every file that nobody maps.
    DropCaches,
    /// Before and after a direct write: no page of the range is left, whoever maps it. What is
    /// dirty is written first.
    Invalidate,
}

/// What a sync of a range does, in this order; nothing of it flushes the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeSync {
    /// Wait for pages that are being written.
    pub wait_before: bool,
    /// Submit dirty pages that are not being written. Without both waits this is for nobody's
    /// integrity: the bios are not SYNC.
    pub write: bool,
    /// Wait for pages that are being written.
    pub wait_after: bool,
}

impl RangeSync {
    /// All three: what was dirty is written when the call ends.
    pub const ALL: Self = Self { wait_before: true, write: true, wait_after: true };
}

/// A call of a program.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Who calls.
    pub task: TaskId,
    /// The caller's name for it; comes back in [`CallDone`].
    pub token: u64,
    /// The task's priority.
    pub submitter: Submitter,
    /// Who is charged.
    pub tenant: TenantId,
    /// The open file.
    pub open: OpenId,
    /// What is wanted.
    pub kind: CallKind,
    /// First byte.
    pub offset: u64,
    /// Bytes; 0 means to the end where a range is meant.
    pub bytes: u64,
    /// Where the call's first byte lies in the buffer that [`ByteCopy`] names.
    pub buffer_offset: u64,
}

impl Call {
    /// How a call ends that did not sleep.
    pub(super) const fn done(&self, bytes: u64) -> CallDone {
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

    /// A call of a plain task.
    pub const fn new(task: TaskId, token: u64, open: OpenId, kind: CallKind, offset: u64, bytes: u64) -> Self {
        let submitter = Submitter::of_task(IoPrio::NONE, CpuPolicy::Normal, 0);
        Self { task, token, submitter, tenant: TenantId(0), open, kind, offset, bytes, buffer_offset: 0 }
    }
}

/// A call that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallDone {
    /// Who called.
    pub task: TaskId,
    /// The caller's token.
    pub token: u64,
    /// How it ended.
    pub status: Status,
    /// Bytes read or written.
    pub bytes: u64,
    /// Time it slept for I/O: iowait.
    pub waited: Nanos,
    /// Of that, how long the device worked on the bios that ended the waits, as far as `complete`
    /// was told.
    pub device: Nanos,
    /// Time it slept because too much was dirty.
    pub paused: Nanos,
    /// Time it slept because no memory was free.
    pub starved: Nanos,
    /// The class that the bio was served in which ended its last sleep for I/O; NONE where it had
    /// none.
    pub class: PrioClass,
    /// A fault that did not find its page, or not yet readable.
    pub is_major: bool,
}

/// How a call began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// It is over.
    Done(CallDone),
    /// The task sleeps; [`PageCache::poll_done`] will tell.
    Wait,
}

/// Bytes to move between a frame and a call's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteCopy {
    /// The call.
    pub task: TaskId,
    /// Its name.
    pub token: u64,
    /// The frame.
    pub slot: FrameId,
    /// First byte in the frame.
    pub frame_offset: u32,
    /// Bytes.
    pub bytes: u32,
    /// First byte in the caller's buffer.
    pub call_offset: u64,
    /// Which way.
    pub way: Way,
}

/// Which way bytes move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the frame to the call.
    ToCall,
    /// From the call to the frame.
    ToFrame,
    /// The frame is filled with zeroes; the call's buffer is not touched.
    Zero,
}
