//! The event schema: one [`TraceEvent`] for every block event of every trace format.
//!
//! A field that a format lacks is `None`, never 0, because 0 is a valid sector, process and CPU. An
//! event is a plain value of about 170 bytes without heap memory; names are interned ([`NameId`],
//! resolved by [`Names`](crate::names::Names)).

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
/// In formats that name volumes instead of numbering them (MSR Cambridge, fio iolog, ...) the major
/// number is 0, and the minor number counts volumes in order of appearance or is the format's
/// volume number; [`crate::names::Names::device`] returns the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl DeviceNumber {
    /// Creates a device from its numbers.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Converts the kernel's internal number, which blktrace records: 12 bits of major, 20 bits of
    /// minor number.
    pub(crate) const fn from_kernel(dev: u32) -> Self {
        Self { major: dev >> 20, minor: dev & 0xf_ffff }
    }

    /// Returns the kernel's internal number; bits beyond 12 and 20 bits are lost.
    pub(crate) const fn to_kernel(self) -> u32 {
        self.major << 20 | self.minor & 0xf_ffff
    }

    /// Converts a user-space `dev_t` of 32 bits, which Perfetto records.
    pub const fn from_user(dev: u64) -> Self {
        Self { major: (dev >> 8 & 0xfff) as u32, minor: (dev & 0xff | (dev >> 20) << 8) as u32 }
    }

    /// Returns the user-space `dev_t`.
    pub(crate) const fn to_user(self) -> u64 {
        (self.minor as u64 & 0xff)
            | (self.major as u64 & 0xfff) << 8
            | (self.minor as u64 >> 8) << 20
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The text is not of the form `MAJ:MIN`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a device is MAJ:MIN, such as 8:0, not {0:?}")]
pub struct DeviceError(pub String);

impl FromStr for DeviceNumber {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let parts = text.split_once(':').or_else(|| text.split_once(','));
        parts
            .and_then(|(major, minor)| {
                Some(Self::new(major.trim().parse().ok()?, minor.trim().parse().ok()?))
            })
            .ok_or_else(|| DeviceError(text.to_owned()))
    }
}

/// Kind of an event, with the data that only this kind has. In brackets: blktrace's letter and the
/// tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// A bio entered the queue, before it is split (Q, `block_bio_queue`).
    Queue,
    /// A whole I/O as one record, at the time of its arrival; the only event in MSR Cambridge, SPC,
    /// fio's iolog and similar formats.
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
        /// record this.
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
    /// The driver returned a request that was not completed (R, `block_rq_requeue`).
    Requeue,
    /// A request, or the first part of it, completed (C of a request, `block_rq_complete`).
    Complete,
    /// A request ended with an error (`block_rq_error`); a [`Self::Complete`] follows.
    RequestError,
    /// A bio completed (C of a bio, `block_bio_complete`); bio-based devices such as device mapper
    /// have this event.
    BioComplete,
    /// A bio was copied to low memory (B, `block_bio_bounce`; kernels before 6.14).
    Bounce,
    /// A bio was mapped to the event's device and sector (A, `block_bio_remap`).
    Remap {
        /// Device it was mapped from: a partition, or a mapped device.
        from: DeviceNumber,
        /// First sector on that device.
        from_sector: u64,
    },
    /// A request was mapped to the event's device and sector (A, `block_rq_remap`).
    RequestRemap {
        /// Device it was mapped from.
        from: DeviceNumber,
        /// First sector on that device.
        from_sector: u64,
    },
    /// A task waited for a free tag (`block_rq_tag_wait`).
    TagWait {
        /// Number of tags in the set that had no free tag.
        depth: Option<u32>,
        /// True for a driver tag, false for a scheduler tag.
        is_driver_tag: bool,
    },
    /// Events were lost: a gap, which starts at the event's time (the last event before it) on the
    /// event's CPU.
    ///
    /// A latency must not be computed if it starts before `until` and ends with an event that was
    /// read after this one; [`Gaps`] does that test.
    Lost {
        /// Number of lost events, if the format records it.
        events: Option<u64>,
        /// Time of the first event after the gap on that CPU.
        until: Option<u64>,
    },
}

impl TraceKind {
    /// Every name that [`Self::name`] returns, in the order of the steps of a request.
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

    /// Returns the kind's index in [`Self::NAMES`], a dense index for tables of counts.
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

    /// Returns a short stable name, used in JSON, CSV and Parquet: `queue`, `split`, `getrq`,
    /// `insert`, `issue`, `complete`, ...
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }

    /// Returns blktrace's letter; `None` for kinds that blktrace does not have.
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

    /// Returns true if the event is the arrival of an I/O: a bio that is queued, or a whole I/O as
    /// one record.
    #[inline]
    pub(crate) const fn is_arrival(self) -> bool {
        matches!(self, Self::Queue | Self::Io { .. })
    }
}

/// One block event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Kind of the event.
    pub kind: TraceKind,
    /// Nanoseconds of the trace's own clock. `None` in traces that only have an order (lines of
    /// tracepoints without times).
    pub time: Option<u64>,
    /// Device or partition. Plug and unplug events of ftrace have none.
    pub device: Option<DeviceNumber>,
    /// First sector on the device. `None` for events without a sector, such as a plug or a flush.
    pub sector: Option<u64>,
    /// Length in bytes; 0 for a flush. [`Self::sectors`] gives sectors.
    pub bytes: Option<u64>,
    /// Operation of the bio or request.
    pub op: Option<TraceOp>,
    /// Flags of the bio or request. `None` in formats without flags; formats with some flags only
    /// have those.
    pub flags: Option<Flags>,
    /// Thread in whose context the event occurred; 0 is the idle task.
    pub tid: Option<u32>,
    /// Process (thread group) of that thread, in formats that record it.
    pub process: Option<u32>,
    /// Name of the thread.
    pub comm: Option<NameId>,
    /// CPU.
    pub cpu: Option<u32>,
    /// Priority of the request.
    pub ioprio: Option<IoPrio>,
    /// Id of the cgroup that is charged for the I/O.
    pub cgroup: Option<u64>,
    /// Hardware queue.
    pub queue: Option<u16>,
    /// Driver tag.
    pub tag: Option<u32>,
    /// Result of a completion: 0, or a negative errno.
    pub error: Option<i32>,
}

impl TraceEvent {
    /// Creates an event of a kind, with every other field absent.
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

    /// Returns the length in sectors, rounded up.
    #[inline]
    pub fn sectors(&self) -> Option<u64> {
        self.bytes.map(|bytes| bytes.div_ceil(SECTOR_SIZE))
    }

    /// Recognises a passthrough request among those of an unknown operation: it has no place. Its
    /// issue has sector 0 and a length in bytes alone, its completion mostly no sector.
    #[inline]
    pub(crate) fn find_passthrough(&mut self) {
        let has_no_place = self.sector.is_none() || self.sector == Some(0) && self.bytes == Some(0);
        if self.op == Some(TraceOp::Other) && has_no_place {
            self.op = Some(TraceOp::Passthrough);
        }
    }

    /// Recognises a write of zeroes among bios and requests of an unknown operation: it has a place
    /// and a length. Its letter is that of passthrough before Linux 6.19.
    #[inline]
    pub(crate) fn find_zeroes(&mut self) {
        if self.op == Some(TraceOp::Other)
            && self.sector.is_some()
            && self.bytes.is_some_and(|bytes| bytes > 0)
        {
            self.op = Some(TraceOp::WriteZeroes);
        }
    }

    /// Returns the first sector after the event's range.
    #[inline]
    pub fn end_sector(&self) -> Option<u64> {
        Some(self.sector?.saturating_add(self.sectors()?))
    }
}

/// Tests whether a latency crosses a gap of lost events.
///
/// Pass it every event as it is read. Cost: one number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gaps {
    until: Option<u64>,
}

impl Gaps {
    /// Records a gap; other events have no effect.
    #[inline]
    pub fn observe(&mut self, event: &TraceEvent) {
        if let TraceKind::Lost { until, .. } = event.kind {
            self.until = self.until.max(until.or(event.time));
        }
    }

    /// Returns true if a latency that started at `begin` and ends with the event just read crosses
    /// a gap. It must then not be counted.
    #[inline]
    pub(crate) fn crossed_since(&self, begin: u64) -> bool {
        self.until.is_some_and(|until| begin < until)
    }
}
