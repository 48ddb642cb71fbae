//! Events: one for every tracepoint of a request's life, in the kernel's order.
//!
//! The stack appends them to a buffer if tracing is on; the caller drains it after each step. The
//! formats of trace files are in `elevon-trace`.

use crate::ioprio::IoPrio;
use crate::op::{Flags, Op};
use crate::status::Status;
use crate::units::{HwQueue, Instant, Sector, Tag, TaskId};

/// Kind of an event, with the data that only this kind has.
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
    /// `block_rq_tag_wait`: no tag was free, and the submitter will sleep until one is (7.2+).
    TagWait {
        /// The tags are those of the scheduler, not of the hardware queue.
        of_scheduler: bool,
        /// Number of tags that the set was made with; `nr_requests` may be less.
        depth: u32,
    },
    /// `block_io_start`: accounting of a request began (6.5+).
    IoStart,
    /// P: the first request of a batch was plugged.
    Plug,
    /// U: a plug was flushed.
    Unplug {
        /// Requests in it.
        requests: u32,
        /// The plug was flushed because the task slept (`UT`), not at the plug's end or limit.
        from_schedule: bool,
    },
    /// M: a bio was appended to a request.
    BackMerge,
    /// F: a bio was put in front of a request.
    FrontMerge,
    /// M of a request that was merged into another.
    RequestMerge,
    /// I: a request was inserted into the scheduler or a software queue.
    Insert,
    /// D: a request was issued to the driver.
    Issue,
    /// R: the driver gave a request back.
    Requeue,
    /// C: a request, or part of it, completed.
    Complete {
        /// The status of the completion.
        status: Status,
    },
    /// `block_bio_complete`: a bio ended with EAGAIN before it had a request, because the try of
    /// its call failed.
    BioAgain,
    /// `block_io_done`: accounting of a request ended (6.5+), or of a step of a flush sequence.
    IoDone {
        /// False for a step: the flush itself, or the data of a request that goes on.
        is_request: bool,
    },
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time of the event.
    pub time: Instant,
    /// Kind of the event.
    pub kind: EventKind,
    /// The task in whose context it occurred; [`TaskId::IDLE`] for completions.
    pub task: TaskId,
    /// The CPU.
    pub cpu: u16,
    /// Operation of the bio or request.
    pub op: Op,
    /// Its flags.
    pub flags: Flags,
    /// Its priority; valid for request events.
    pub ioprio: IoPrio,
    /// First sector.
    pub sector: Sector,
    /// Length in sectors (of this part, for a completion).
    pub sectors: u32,
    /// Hardware queue; valid from Issue on.
    pub queue: HwQueue,
    /// Driver tag; valid from Issue to Complete, `None` elsewhere.
    pub tag: Option<Tag>,
}
