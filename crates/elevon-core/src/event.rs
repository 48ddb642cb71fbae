//! Events: one for every tracepoint of a request's life, in the kernel's order.
//!
//! The stack appends them to a buffer when tracing is on; a driver drains it after each step. What
//! a trace file looks like is `elevon-formats`' business.

use crate::ioprio::IoPrio;
use crate::op::{Flags, Op};
use crate::status::Status;
use crate::units::{HwQueue, Instant, Sector, Tag, TaskId};

/// What happened, with what only this kind of event carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Q: a bio entered the queue.
    BioQueue,
    /// X: a bio was split; the remainder starts at `new_sector`.
    Split {
        /// First sector of the remainder.
        new_sector: Sector,
    },
    /// G: a request was allocated.
    GetRequest,
    /// `block_io_start`: accounting of a request began (6.5+).
    IoStart,
    /// P: the first request of a batch was plugged.
    Plug,
    /// U: a plug was flushed.
    Unplug {
        /// Requests in it.
        requests: u32,
        /// Flushed because the task slept (`UT`) rather than at the plug's end or limit.
        from_schedule: bool,
    },
    /// M: a bio was appended to a request.
    BackMerge,
    /// F: a bio was put in front of a request.
    FrontMerge,
    /// M of a whole request that another swallowed.
    RequestMerge,
    /// I: a request went into the scheduler or a software queue.
    Insert,
    /// D: a request was given to the driver.
    Issue,
    /// R: the driver gave it back.
    Requeue,
    /// C: (part of) a request completed.
    Complete {
        /// How it ended.
        status: Status,
    },
    /// `block_io_done`: accounting of a request ended (6.5+).
    IoDone,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub time: Instant,
    /// What.
    pub kind: EventKind,
    /// The task in whose context it happened; [`TaskId::IDLE`] for completions.
    pub task: TaskId,
    /// The CPU.
    pub cpu: u16,
    /// Operation of the bio or request.
    pub op: Op,
    /// Its flags.
    pub flags: Flags,
    /// Its priority; meaningful for request events.
    pub ioprio: IoPrio,
    /// First sector.
    pub sector: Sector,
    /// Length in sectors (of this part, for a completion).
    pub sectors: u32,
    /// Hardware queue; meaningful from Issue on.
    pub queue: HwQueue,
    /// Driver tag; meaningful from Issue to Complete, `None` elsewhere.
    pub tag: Option<Tag>,
}
