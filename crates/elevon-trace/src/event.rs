//! The event schema: one [`TraceEvent`] for every block event of every trace format.
//!
//! A field that a format does not carry is `None`, never 0, because 0 is a valid sector, process
//! and CPU. An event is a plain value of about 170 bytes without heap memory; names are interned
//! ([`NameId`], resolved by [`Names`](crate::names::Names)).

use std::fmt;
use std::str::FromStr;

use elevon_core::ioprio::IoPrio;
use elevon_core::op::Flags;

use crate::names::NameId;
use crate::op::TraceOp;

/// Bytes of a sector in every trace format.
pub const SECTOR_SIZE: u64 = 512;

/// A block device or partition by its numbers, as `MAJ:MIN` in `lsblk`.
///
/// Formats that name volumes instead of numbering them (MSR Cambridge, fio iolog, ...) get major 0
/// and a minor that counts volumes in order of appearance, or is the format's own volume number;
/// [`crate::names::Names::device`] has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl Device {
    /// A device by its numbers.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// The device of the kernel's internal number, which blktrace records: 12 bits of major, 20
    /// bits of minor.
    pub const fn from_kernel(dev: u32) -> Self {
        Self { major: dev >> 20, minor: dev & 0xf_ffff }
    }

    /// The kernel's internal number; bits that do not fit into 12 and 20 bits are lost.
    pub const fn to_kernel(self) -> u32 {
        self.major << 20 | self.minor & 0xf_ffff
    }

    /// The device of a user-space `dev_t` of 32 bits, which Perfetto records.
    pub const fn from_user(dev: u64) -> Self {
        Self { major: (dev >> 8 & 0xfff) as u32, minor: (dev & 0xff | (dev >> 20) << 8) as u32 }
    }

    /// The user-space `dev_t`.
    pub const fn to_user(self) -> u64 {
        (self.minor as u64 & 0xff) | (self.major as u64 & 0xfff) << 8 | (self.minor as u64 >> 8) << 20
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The text is not of the form `MAJ:MIN`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a device is MAJ:MIN, such as 8:0, not {0:?}")]
pub struct DeviceError(pub String);

impl FromStr for Device {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let parts = text.split_once(':').or_else(|| text.split_once(','));
        parts
            .and_then(|(major, minor)| Some(Self::new(major.trim().parse().ok()?, minor.trim().parse().ok()?)))
            .ok_or_else(|| DeviceError(text.to_owned()))
    }
}

/// What happened, with the data that only this kind of event has. In brackets: blktrace's letter
/// and the tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// A bio entered the queue, before it is split (Q, `block_bio_queue`).
    Queue,
    /// A whole I/O as one record, at the time of its arrival: all that MSR Cambridge, SPC, fio's
    /// iolog and their like have.
    Io {
        /// Nanoseconds from arrival to completion, if the format has it.
        response_ns: Option<u64>,
    },
    /// A bio was split (X, `block_split`); the event's length is that of the front part.
    Split {
        /// First sector of the remainder.
        new_sector: u64,
    },
    /// A request was allocated (G, `block_getrq`).
    GetRequest,
    /// A task slept because no request was free (S, `block_sleeprq`).
    SleepRequest,
    /// Accounting of a request began (`block_io_start`).
    IoStart,
    /// Accounting of a request ended (`block_io_done`).
    IoDone,
    /// A task opened a plug (P, `block_plug`).
    Plug,
    /// A plug was flushed (U or UT, `block_unplug`).
    Unplug {
        /// Requests in the plug.
        requests: u32,
        /// True if it was flushed because the task slept or the timer fired (UT); ftrace does not
        /// tell.
        timer: Option<bool>,
    },
    /// A bio was appended to a request (M, `block_bio_backmerge`).
    BackMerge,
    /// A bio was put in front of a request (F, `block_bio_frontmerge`).
    FrontMerge,
    /// A request was merged into another (M of a request, `block_rq_merge`).
    RequestMerge,
    /// A request was inserted into the scheduler or a software queue (I, `block_rq_insert`).
    Insert,
    /// A request was issued to the driver (D, `block_rq_issue`).
    Issue,
    /// The driver gave a request back (R, `block_rq_requeue`).
    Requeue,
    /// A request, or the first part of it, completed (C of a request, `block_rq_complete`).
    Complete,
    /// A request ended with an error (`block_rq_error`); a [`Self::Complete`] follows.
    RequestError,
    /// A bio completed (C of a bio, `block_bio_complete`): what bio-based devices such as device
    /// mapper have.
    BioComplete,
    /// A bio was copied to low memory (B, `block_bio_bounce`; kernels before 6.14).
    Bounce,
    /// A bio was mapped to the event's device and sector (A, `block_bio_remap`).
    Remap {
        /// Device it was mapped from: a partition, or a mapped device.
        from: Device,
        /// First sector on that device.
        from_sector: u64,
    },
    /// A request was mapped to the event's device and sector (A, `block_rq_remap`).
    RequestRemap {
        /// Device it was mapped from.
        from: Device,
        /// First sector on that device.
        from_sector: u64,
    },
    /// A task waits for a free tag (`block_rq_tag_wait`).
    TagWait {
        /// Tags of the set in which none was free.
        depth: Option<u32>,
        /// True for a driver tag, false for a scheduler tag.
        is_driver_tag: bool,
    },
    /// Events were lost: a gap, which begins at the event's time (the last event before it) on the
    /// event's CPU.
    ///
    /// No latency may be computed whose first event lies before `until` and whose last one was read
    /// after this event; [`Gaps`] does that test.
    Lost {
        /// Number of events lost, if the format tells.
        events: Option<u64>,
        /// Time of the first event after the gap on that CPU.
        until: Option<u64>,
    },
}

impl TraceKind {
    /// Every name that [`Self::name`] returns, in the order of a request's life.
    pub const NAMES: [&'static str; 23] = [
        "queue",
        "io",
        "split",
        "getrq",
        "sleeprq",
        "io_start",
        "io_done",
        "plug",
        "unplug",
        "backmerge",
        "frontmerge",
        "rq_merge",
        "insert",
        "issue",
        "requeue",
        "complete",
        "rq_error",
        "bio_complete",
        "bounce",
        "remap",
        "rq_remap",
        "tag_wait",
        "lost",
    ];

    /// The kind's place in [`Self::NAMES`]: a dense index for tables of counts.
    #[inline]
    pub const fn index(self) -> usize {
        match self {
            Self::Queue => 0,
            Self::Io { .. } => 1,
            Self::Split { .. } => 2,
            Self::GetRequest => 3,
            Self::SleepRequest => 4,
            Self::IoStart => 5,
            Self::IoDone => 6,
            Self::Plug => 7,
            Self::Unplug { .. } => 8,
            Self::BackMerge => 9,
            Self::FrontMerge => 10,
            Self::RequestMerge => 11,
            Self::Insert => 12,
            Self::Issue => 13,
            Self::Requeue => 14,
            Self::Complete => 15,
            Self::RequestError => 16,
            Self::BioComplete => 17,
            Self::Bounce => 18,
            Self::Remap { .. } => 19,
            Self::RequestRemap { .. } => 20,
            Self::TagWait { .. } => 21,
            Self::Lost { .. } => 22,
        }
    }

    /// A short stable name, used in JSON, CSV and Parquet: `queue`, `split`, `getrq`, `insert`,
    /// `issue`, `complete`, ...
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }

    /// blktrace's letter; `None` for kinds that blktrace does not have.
    pub const fn letter(self) -> Option<char> {
        Some(match self {
            Self::Queue => 'Q',
            Self::Split { .. } => 'X',
            Self::GetRequest => 'G',
            Self::SleepRequest => 'S',
            Self::Plug => 'P',
            Self::Unplug { .. } => 'U',
            Self::BackMerge | Self::RequestMerge => 'M',
            Self::FrontMerge => 'F',
            Self::Insert => 'I',
            Self::Issue => 'D',
            Self::Requeue => 'R',
            Self::Complete | Self::BioComplete => 'C',
            Self::Bounce => 'B',
            Self::Remap { .. } | Self::RequestRemap { .. } => 'A',
            Self::Io { .. }
            | Self::IoStart
            | Self::IoDone
            | Self::RequestError
            | Self::TagWait { .. }
            | Self::Lost { .. } => return None,
        })
    }

    /// Returns true if the event is an I/O's arrival: a bio that is queued, or a whole I/O as one
    /// record.
    #[inline]
    pub const fn is_arrival(self) -> bool {
        matches!(self, Self::Queue | Self::Io { .. })
    }
}

/// One block event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// What happened.
    pub kind: TraceKind,
    /// Nanoseconds of the trace's own clock. `None` in traces that only have an order (bare lines
    /// of tracepoints).
    pub time: Option<u64>,
    /// Device or partition. ftrace's plug and unplug have none.
    pub device: Option<Device>,
    /// First sector on the device. `None` for events without a place, such as a plug or a flush.
    pub sector: Option<u64>,
    /// Length in bytes; 0 for a flush. [`Self::sectors`] gives sectors.
    pub bytes: Option<u64>,
    /// Operation of the bio or request.
    pub op: Option<TraceOp>,
    /// Flags of the bio or request. `None` in formats that have no flags; of formats that have
    /// some, those they have.
    pub flags: Option<Flags>,
    /// Thread in whose context it happened; 0 is the idle task.
    pub tid: Option<u32>,
    /// Process (thread group) of that thread, in formats that record it.
    pub process: Option<u32>,
    /// Name of the thread.
    pub comm: Option<NameId>,
    /// CPU.
    pub cpu: Option<u32>,
    /// Priority of the request.
    pub ioprio: Option<IoPrio>,
    /// Id of the cgroup that pays for the I/O.
    pub cgroup: Option<u64>,
    /// Hardware queue.
    pub queue: Option<u16>,
    /// Driver tag.
    pub tag: Option<u32>,
    /// How a completion ended: 0, or a negative errno.
    pub error: Option<i32>,
}

impl TraceEvent {
    /// An event of a kind, with every other field absent.
    pub const fn new(kind: TraceKind) -> Self {
        Self {
            kind,
            time: None,
            device: None,
            sector: None,
            bytes: None,
            op: None,
            flags: None,
            tid: None,
            process: None,
            comm: None,
            cpu: None,
            ioprio: None,
            cgroup: None,
            queue: None,
            tag: None,
            error: None,
        }
    }

    /// Length in sectors, rounded up.
    #[inline]
    pub fn sectors(&self) -> Option<u64> {
        self.bytes.map(|bytes| bytes.div_ceil(SECTOR_SIZE))
    }

    /// First sector after the event's range.
    #[inline]
    pub fn end_sector(&self) -> Option<u64> {
        Some(self.sector?.saturating_add(self.sectors()?))
    }
}

/// Tells whether a latency crosses a gap of lost events.
///
/// Give it every [`TraceKind::Lost`] as it is read. Cost: one number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gaps {
    until: Option<u64>,
}

impl Gaps {
    /// Notes a gap; other events change nothing.
    #[inline]
    pub fn observe(&mut self, event: &TraceEvent) {
        if let TraceKind::Lost { until, .. } = event.kind {
            self.until = self.until.max(until.or(event.time));
        }
    }

    /// Returns true if a latency that began at `begin` and ends with the event just read crosses a
    /// gap, so that it must not be counted.
    #[inline]
    pub fn crossed_since(&self, begin: u64) -> bool {
        self.until.is_some_and(|until| begin < until)
    }
}
