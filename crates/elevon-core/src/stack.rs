//! The stack: the path of a bio from submission to completion.
//!
//! Sans-IO: time comes in as `now`, the device as a [`Driver`]. The loop of a caller is
//!
//! 1. `handle_completion` for everything the device finished,
//! 2. `handle_timers` once `next_timer` has come,
//! 3. `submit` what the sources want (between `begin_batch` and `end_batch` where one system call carries several),
//! 4. drain `poll_done`, `poll_unblocked` and, with tracing on, `drain_events`,
//!
//! until none has work, then wait for the earliest of the device, the sources and `next_timer`.

extern crate alloc;
use alloc::vec::Vec;

use crate::driver::{Completion, Driver};
use crate::event::Event;
use crate::ioprio::IoPrio;
use crate::layout::Layout;
use crate::op::{Flags, Op};
use crate::status::Status;
use crate::units::{Bytes, Instant, LayoutId, Sector, TaskId, TenantId};

/// One call of a source: what becomes one or more bios. Completes as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// Who submits it.
    pub task: TaskId,
    /// The source's own name for it; comes back in [`Done`] and names its buffer in [`crate::driver::Piece`].
    pub token: u64,
    /// Read, Write, Discard, WriteZeroes or Flush (an fsync: an empty PREFLUSH).
    pub op: Op,
    /// SYNC, FUA, NOWAIT ... as the caller's engine sets them.
    pub flags: Flags,
    /// First sector.
    pub sector: Sector,
    /// Length; a multiple of the logical block size. 0 for Flush.
    pub bytes: Bytes,
    /// Priority; class NONE becomes the default of the task.
    pub ioprio: IoPrio,
    /// Write lifetime hint, 0 for none.
    pub write_hint: u8,
    /// Who is charged.
    pub tenant: TenantId,
    /// Layout of its buffer, from [`Stack::register_layout`]; ignored for operations without data.
    pub layout: LayoutId,
    /// Whether the submitter sleeps when no tag is free (a system call does; io_uring hands the I/O to a worker instead).
    pub may_block: bool,
}

/// How a submission went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// On its way (or already over: see [`Stack::poll_done`]).
    Accepted,
    /// The task sleeps until a tag is free; it must not submit before [`Stack::poll_unblocked`] names it.
    Blocked,
}

/// An I/O that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Who submitted it.
    pub task: TaskId,
    /// The source's name for it.
    pub token: u64,
    /// How it ended: the first error of its parts.
    pub status: Status,
}

/// A stack for one device. See the module's head for the order of calls.
pub struct Stack {
    _private: (),
}

/// What the stack is built from.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// Limits of the device as its driver reports them.
    pub limits: crate::limits::QueueLimits,
    /// Size of the device in sectors.
    pub size: crate::units::Sectors,
    /// Hardware queues.
    pub hw_queues: u16,
    /// Commands that each hardware queue holds.
    pub queue_depth: u32,
}

impl Stack {
    /// Makes a buffer's layout known.
    pub fn register_layout(&mut self, _layout: Layout) -> LayoutId {
        todo!()
    }
    /// Starts a batch: the task's submissions up to `end_batch` share a plug (one io_submit of several).
    pub fn begin_batch(&mut self, _now: Instant, _task: TaskId) {
        todo!()
    }
    /// Ends a batch and flushes its plug.
    pub fn end_batch<D: Driver>(&mut self, _now: Instant, _task: TaskId, _driver: &mut D) {
        todo!()
    }
    /// Takes an I/O.
    pub fn submit<D: Driver>(&mut self, _now: Instant, _io: Io, _driver: &mut D) -> Submitted {
        todo!()
    }
    /// Takes a device's report.
    pub fn handle_completion<D: Driver>(&mut self, _now: Instant, _completion: Completion, _driver: &mut D) {
        todo!()
    }
    /// When [`Self::handle_timers`] wants to be called.
    pub fn next_timer(&self) -> Option<Instant> {
        todo!()
    }
    /// Runs every timer that has come.
    pub fn handle_timers<D: Driver>(&mut self, _now: Instant, _driver: &mut D) {
        todo!()
    }
    /// The next I/O that is over, in order of completion.
    pub fn poll_done(&mut self) -> Option<Done> {
        todo!()
    }
    /// The next task that may submit again.
    pub fn poll_unblocked(&mut self) -> Option<TaskId> {
        todo!()
    }
    /// Turns the recording of events on or off (off at first).
    pub fn set_tracing(&mut self, _on: bool) {
        todo!()
    }
    /// Events since the last call, oldest first; the buffer is left empty but keeps its memory.
    pub fn drain_events(&mut self, _into: &mut Vec<Event>) {
        todo!()
    }
    /// I/Os taken and not yet over.
    pub fn ios_in_flight(&self) -> usize {
        todo!()
    }
}
