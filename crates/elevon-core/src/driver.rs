//! The border between the stack and a device: commands down, answers up.
//!
//! A driver is handed to the stack's methods as an argument, and answers at once whether it took a
//! command; completions come back through `Stack::handle_completion`. The same border serves
//! simulated devices in virtual time and io_uring in real time.

use crate::ioprio::IoPrio;
use crate::op::{Flags, Op};
use crate::status::Status;
use crate::units::{Bytes, HwQueue, Instant, RequestId, Sector, Tag, TaskId};

/// One command for a device: a request as the driver sees it.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The request; hand it back in the completion.
    pub request: RequestId,
    /// Grows by one with every command of a stack; hand it back in the completion. Breaks ties and
    /// names the command in a fault log.
    pub sequence: u64,
    /// Hardware queue it is issued on.
    pub queue: HwQueue,
    /// Driver tag, unique among the commands in flight on the queue.
    pub tag: Tag,
    /// What to do.
    pub op: Op,
    /// Flags; FUA is the one a device heeds. What comes before a write, the stack asks for by a
    /// Flush of its own.
    pub flags: Flags,
    /// Priority.
    pub ioprio: IoPrio,
    /// First sector.
    pub sector: Sector,
    /// Length in bytes; 0 for a flush.
    pub bytes: Bytes,
}

/// A piece of a user's buffer that a command moves: the I/O it belongs to and the bytes of that
/// I/O's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The task that owns the buffer.
    pub task: TaskId,
    /// The source's own token of the I/O, as given to `Stack::submit`.
    pub token: u64,
    /// Byte offset in the I/O's buffer.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Where it lies on the device: pieces of a discard of several ranges need not follow one
    /// another.
    pub sector: Sector,
}

/// A driver's answer to a command (`queue_rq`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Taken; a completion will follow.
    Ok,
    /// No resource now and no promise of when (RESOURCE): try again after 3 ms or a completion.
    Busy,
    /// No resource now, a completion will free one (DEV_RESOURCE).
    DeviceBusy,
    /// Refused for good.
    Error(Status),
}

/// What a driver does with a command that has passed its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutAction {
    /// Aborted: the stack completes it with [`Status::Timeout`]. A completion that follows all the
    /// same is late: the stack counts it and ignores it, also if the request carries another
    /// command by then.
    Aborted,
    /// Give it another full period.
    ResetTimer,
}

/// What a device reports of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request of the [`Command`].
    pub request: RequestId,
    /// The sequence of the [`Command`]: a request is used again, a sequence never is.
    pub sequence: u64,
    /// How it ended.
    pub status: Status,
    /// Bytes that were transferred before the end; all of them where the status is OK. A short
    /// count with [`Status::Ok`] is a partial completion: the rest is still in flight and
    /// another completion follows.
    pub bytes: Bytes,
}

impl Completion {
    /// The report that `command` ended with `status` after `bytes` were transferred.
    #[inline]
    pub const fn of(command: &Command, status: Status, bytes: Bytes) -> Self {
        Self { request: command.request, sequence: command.sequence, status, bytes }
    }

    /// The report that all of `command` succeeded.
    #[inline]
    pub const fn success(command: &Command) -> Self {
        Self::of(command, Status::Ok, command.bytes)
    }
}

/// The pieces of buffers that a command moves, in order. A simulated device never asks for them.
pub trait Pieces {
    /// Calls `each` for every piece of the command, in device order.
    fn for_each(&self, each: &mut dyn FnMut(Piece));
}

/// Takes commands.
pub trait Driver {
    /// Starts a command, or says why not.
    fn queue_command(&mut self, now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept;

    /// Whether a command that failed is given to the device again, if its status is one that
    /// another try may cure (see [`Status::is_retryable`]); how often is
    /// `StackConfig::max_retries`. True for a driver that talks to a device, as those of
    /// NVMe and SCSI do it for every command, a flush too. False for one over a kernel that has
    /// tried already: there an answer is final. Of a flush above all: a file system reports
    /// lost data once, and the next flush succeeds without them.
    fn retries(&self) -> bool {
        true
    }

    /// The stack has no more commands for now: ring the doorbell.
    fn commit(&mut self, _now: Instant) {}

    /// A command is older than the queue's timeout (`queue/io_timeout`, default 30 s).
    fn handle_timeout(&mut self, _now: Instant, _command: &Command) -> TimeoutAction {
        TimeoutAction::ResetTimer
    }
}
