//! The interface between the stack and a device: commands and completions.
//!
//! A driver is an argument of the stack's methods, and answers at once whether it accepted a
//! command; completions come back through `Stack::handle_completion`. Simulated devices in virtual
//! time and io_uring in real time use the same interface.

use crate::ioprio::IoPrio;
use crate::op::{Flags, Op};
use crate::status::Status;
use crate::units::{Bytes, HwQueue, Instant, Nanos, RequestId, Sector, Tag, TaskId};

/// One command for a device: a request as the driver sees it.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The request; hand it back in the completion.
    pub request: RequestId,
    /// Sequence number, which grows by one with every command of a stack; hand it back in the
    /// completion. It breaks ties and names the command in a fault log.
    pub sequence: u64,
    /// Hardware queue it is issued on.
    pub queue: HwQueue,
    /// Driver tag, unique among the commands in flight on the queue.
    pub tag: Tag,
    /// The operation.
    pub op: Op,
    /// Flags. A device looks only at FUA: if a flush is needed before a write, the stack sends a
    /// separate Flush.
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
    /// Length in bytes.
    pub len: u64,
    /// Its sector on the device: the ranges of a discard need not be contiguous.
    pub sector: Sector,
}

/// A driver's answer to a command (`queue_rq`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// The command was accepted; a completion will follow.
    Ok,
    /// No resource is free, and the driver does not know when one will be (RESOURCE): try again
    /// after a few milliseconds or a completion.
    Busy,
    /// No resource is free, but a completion will free one (DEV_RESOURCE).
    DeviceBusy,
    /// The command is refused for good.
    Error(Status),
}

/// What a driver does with a command that has passed its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutAction {
    /// The command was aborted: the stack completes it with [`Status::Timeout`]. If a completion
    /// follows later, the stack counts it and ignores it, even if the request carries another
    /// command by then.
    Aborted,
    /// The command gets another full timeout period.
    ResetTimer,
}

/// The completion of a command, as the device reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request of the [`Command`].
    pub request: RequestId,
    /// The sequence number of the [`Command`]: a request is used again, a sequence number never
    /// is.
    pub sequence: u64,
    /// The status of the command.
    pub status: Status,
    /// Bytes that were transferred before the end; all of them if the command succeeded. A short
    /// count with [`Status::Ok`] is a partial completion: the rest is still in flight and another
    /// completion follows.
    pub bytes: Bytes,
}

impl Completion {
    /// Returns the completion of `command` with `status`, after `bytes` were transferred.
    #[inline]
    pub const fn from_command(command: &Command, status: Status, bytes: Bytes) -> Self {
        Self { request: command.request, sequence: command.sequence, status, bytes }
    }

    /// Returns the completion of `command` with success for all bytes.
    #[inline]
    pub const fn success(command: &Command) -> Self {
        Self::from_command(command, Status::Ok, command.bytes)
    }
}

/// The pieces of buffers that a command moves, in order. A simulated device never asks for them.
pub trait Pieces {
    /// Calls `each` for every piece of the command, in device order.
    fn for_each(&self, each: &mut dyn FnMut(Piece));
}

/// Accepts commands.
pub trait Driver {
    /// Starts a command, or returns why it did not.
    fn queue_command(&mut self, now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept;

    /// Returns true if a failed command is issued to the device again when its status is retryable
    /// (see `Status::is_retryable`). `StackConfig::max_retries` says how often. True for a driver
    /// that talks to a device, as NVMe and SCSI drivers do for every command including flushes.
    /// False for a driver that uses a kernel, which has retried already: its answer is final. This
    /// matters most for a flush: a file system reports lost data once, and the next flush succeeds
    /// although the data is lost.
    fn retries(&self) -> bool {
        true
    }

    /// Returns the time from waking a kblockd worker to its run of a queue. Zero: the queue runs at
    /// once, as where the machine's own time passes.
    fn worker_delay(&mut self) -> Nanos {
        Nanos::ZERO
    }

    /// Returns the same for the run that follows a request without a plug.
    fn insert_delay(&self) -> Nanos {
        crate::stack::WORKER_DELAY
    }

    /// Returns the time from waking a process for a completion until it runs. Zero: it runs at
    /// once, as where the machine's own time passes.
    fn wake_delay(&mut self, _task: TaskId) -> Nanos {
        Nanos::ZERO
    }

    /// Returns the same for a process that waits for a tag or for a place of writeback throttling.
    fn tag_wake_delay(&mut self) -> Nanos {
        Nanos::ZERO
    }

    /// Returns true if a worker of the driver, which the command that was just accepted has woken,
    /// runs before the task that dispatches: it has that task's CPU and a higher priority.
    fn preempts(&mut self) -> bool {
        false
    }

    /// Tells the driver that no more commands follow for now: ring the doorbell.
    fn commit(&mut self, _now: Instant) {}

    /// Asks the driver what to do with a command that is older than the queue's timeout
    /// (`queue/io_timeout`, default 30 s).
    fn handle_timeout(&mut self, _now: Instant, _command: &Command) -> TimeoutAction {
        TimeoutAction::ResetTimer
    }
}

/// A driver that is lent.
impl<D: Driver> Driver for &mut D {
    #[inline(always)]
    fn queue_command(&mut self, now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept {
        (**self).queue_command(now, command, pieces)
    }
    #[inline]
    fn retries(&self) -> bool {
        (**self).retries()
    }
    fn worker_delay(&mut self) -> Nanos {
        (**self).worker_delay()
    }
    fn insert_delay(&self) -> Nanos {
        (**self).insert_delay()
    }
    fn wake_delay(&mut self, task: TaskId) -> Nanos {
        (**self).wake_delay(task)
    }
    fn tag_wake_delay(&mut self) -> Nanos {
        (**self).tag_wake_delay()
    }
    #[inline]
    fn preempts(&mut self) -> bool {
        (**self).preempts()
    }
    #[inline]
    fn commit(&mut self, now: Instant) {
        (**self).commit(now);
    }
    fn handle_timeout(&mut self, now: Instant, command: &Command) -> TimeoutAction {
        (**self).handle_timeout(now, command)
    }
}
