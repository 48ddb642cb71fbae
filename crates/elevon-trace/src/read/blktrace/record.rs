//! One record of a blktrace file.

use elevon_core::op::Flags;
use memchr::memmem;

use super::super::cursor::Expected;
use crate::event::{DeviceNumber, SECTOR_SIZE, TraceEvent, TraceKind};
use crate::op::TraceOp;

/// Actions: the low 16 bits of a record's action word.
pub mod action {
    /// A task's name; in a record of [`super::category::NOTIFY`].
    pub(crate) const NOTIFY_PROCESS: u64 = 0;
    /// The wall clock; in a record of [`super::category::NOTIFY`].
    pub(crate) const NOTIFY_TIMESTAMP: u64 = 1;
    /// Free text; in a record of [`super::category::NOTIFY`].
    pub(crate) const NOTIFY_MESSAGE: u64 = 2;
    /// Q.
    pub const QUEUE: u64 = 1;
    /// M.
    pub(crate) const BACK_MERGE: u64 = 2;
    /// F.
    pub(crate) const FRONT_MERGE: u64 = 3;
    /// G.
    pub(crate) const GET_REQUEST: u64 = 4;
    /// S.
    pub(crate) const SLEEP_REQUEST: u64 = 5;
    /// R.
    pub(crate) const REQUEUE: u64 = 6;
    /// D.
    pub(crate) const ISSUE: u64 = 7;
    /// C.
    pub(crate) const COMPLETE: u64 = 8;
    /// P.
    pub(crate) const PLUG: u64 = 9;
    /// U.
    pub(crate) const UNPLUG: u64 = 10;
    /// UT: a plug flushed because its task slept.
    pub(crate) const UNPLUG_TIMER: u64 = 11;
    /// I.
    pub(crate) const INSERT: u64 = 12;
    /// X.
    pub(crate) const SPLIT: u64 = 13;
    /// B.
    pub(crate) const BOUNCE: u64 = 14;
    /// A.
    pub(crate) const REMAP: u64 = 15;
    /// Last action with a meaning here; later ones are aborts, data of drivers and plugs of zones.
    pub const LAST: u64 = 19;
}

/// Categories: the bits above the low 16 of a record's action word.
pub mod category {
    /// Transfer from the device.
    pub const READ: u64 = 0x1;
    /// Transfer to the device.
    pub const WRITE: u64 = 0x2;
    /// A flush, or flush first.
    pub const FLUSH: u64 = 0x4;
    /// A task waits for it.
    pub const SYNC: u64 = 0x8;
    /// Event of a bio or request before issue.
    pub const QUEUE: u64 = 0x10;
    /// Requeue.
    pub(crate) const REQUEUE: u64 = 0x20;
    /// Issue to the driver.
    pub(crate) const ISSUE: u64 = 0x40;
    /// Completion.
    pub(crate) const COMPLETE: u64 = 0x80;
    /// A request that is not passthrough.
    pub(crate) const FS: u64 = 0x100;
    /// A passthrough request.
    pub(crate) const PC: u64 = 0x200;
    /// A record about the trace itself.
    pub(crate) const NOTIFY: u64 = 0x400;
    /// Readahead.
    pub(crate) const AHEAD: u64 = 0x800;
    /// Metadata.
    pub const META: u64 = 0x1000;
    /// Discard.
    pub const DISCARD: u64 = 0x2000;
    /// Force unit access.
    pub const FUA: u64 = 0x8000;
    /// Zone append; this and the following exist in version 8 only.
    pub const ZONE_APPEND: u64 = 1 << 16;
    /// Zone reset.
    pub(crate) const ZONE_RESET: u64 = 1 << 17;
    /// Reset of all zones.
    pub(crate) const ZONE_RESET_ALL: u64 = 1 << 18;
    /// Zone finish.
    pub(crate) const ZONE_FINISH: u64 = 1 << 19;
    /// Zone open.
    pub(crate) const ZONE_OPEN: u64 = 1 << 20;
    /// Zone close.
    pub(crate) const ZONE_CLOSE: u64 = 1 << 21;
    /// Write zeroes.
    pub const WRITE_ZEROES: u64 = 1 << 22;
}

/// First word of a record, without its version.
const MAGIC: u32 = 0x6561_7400;
/// The constant bytes of the magic number in a file, after and before the version.
const LITTLE: [u8; 3] = [b't', b'a', b'e'];
const BIG: [u8; 3] = [b'e', b'a', b't'];
/// Flag of an action whose payload starts with a cgroup id.
const HAS_CGROUP: u64 = 1 << 8;
/// Length in bytes of the longest record without its payload.
pub(super) const MAX_HEADER: usize = 64;
/// Length in bytes of a version 8 record without the padding at its end, which early version 8
/// records lack.
const UNPADDED: usize = 52;

/// Returns version and byte order (true for big-endian) of the record at the front.
#[inline]
pub(super) fn version_at(bytes: &[u8]) -> Option<(u8, bool)> {
    let word = u32::from_le_bytes(bytes.first_chunk().copied()?);
    if word == MAGIC | 7 {
        return Some((7, false));
    }
    other_version(word)
}

fn other_version(word: u32) -> Option<(u8, bool)> {
    for (word, is_big_endian) in [(word, false), (word.swap_bytes(), true)] {
        if word & !0xff == MAGIC && matches!(word & 0xff, 7 | 8) {
            return Some((word as u8, is_big_endian));
        }
    }
    None
}

/// Returns the position of the next magic number of either byte order, or the number of bytes that
/// contain none.
pub(super) fn find_magic(bytes: &[u8]) -> Result<usize, usize> {
    // Only a small part is searched at a time, because a malicious file could cause repeated
    // searches of the same bytes.
    let part = &bytes[..bytes.len().min(4096)];
    let found = |needle: &[u8; 3], before: usize| {
        memmem::find_iter(part, needle).find_map(|at| {
            let at = at.checked_sub(before)?;
            version_at(&bytes[at..]).map(|_| at)
        })
    };
    match (found(&LITTLE, 1), found(&BIG, 0)) {
        (Some(little), Some(big)) => Ok(little.min(big)),
        (little, big) => little.or(big).ok_or_else(|| part.len().saturating_sub(3)),
    }
}

/// A record without its payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) time: u64,
    sector: u64,
    action: u64,
    bytes: u32,
    pub(super) sequence: u32,
    pub(super) pid: u32,
    pub(super) device: u32,
    pub(super) cpu: u32,
    error: i16,
    pub(super) payload: u16,
    /// Length in bytes without the payload.
    pub(super) length: usize,
    is_big_endian: bool,
}

/// A record about the trace itself.
pub(super) enum Notify<'a> {
    /// The name of the record's task.
    Task(&'a [u8]),
    /// The wall clock, in nanoseconds since 1970.
    WallClock(u64),
    /// Free text: of a program, a scheduler or the throttle.
    Message(&'a [u8]),
    /// Another record.
    Other,
}

impl Header {
    /// Reads the record at the front; `None` if there is none, or if it is incomplete.
    #[inline]
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        match version_at(bytes)? {
            (7, false) => Self::version_7::<false>(bytes),
            (7, true) => Self::version_7::<true>(bytes),
            (_, false) => Self::version_8::<false>(bytes),
            (_, true) => Self::version_8::<true>(bytes),
        }
    }

    /// Reads the record at the front if it is of version 7 and little-endian.
    #[inline]
    pub(super) fn parse_usual(bytes: &[u8]) -> Option<Self> {
        (u32::from_le_bytes(*bytes.first_chunk()?) == MAGIC | 7)
            .then(|| Self::version_7::<false>(bytes))?
    }

    #[inline]
    fn version_7<const BIG_ENDIAN: bool>(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 48] = bytes.first_chunk()?;
        Some(Self {
            sequence: u32_at::<BIG_ENDIAN>(bytes, 4),
            time: u64_at::<BIG_ENDIAN>(bytes, 8),
            sector: u64_at::<BIG_ENDIAN>(bytes, 16),
            bytes: u32_at::<BIG_ENDIAN>(bytes, 24),
            action: u64::from(u32_at::<BIG_ENDIAN>(bytes, 28)),
            pid: u32_at::<BIG_ENDIAN>(bytes, 32),
            device: u32_at::<BIG_ENDIAN>(bytes, 36),
            cpu: u32_at::<BIG_ENDIAN>(bytes, 40),
            error: u16_at::<BIG_ENDIAN>(bytes, 44) as i16,
            payload: u16_at::<BIG_ENDIAN>(bytes, 46),
            length: bytes.len(),
            is_big_endian: BIG_ENDIAN,
        })
    }

    fn version_8<const BIG_ENDIAN: bool>(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; UNPADDED] = bytes.first_chunk()?;
        Some(Self {
            sequence: u32_at::<BIG_ENDIAN>(bytes, 4),
            time: u64_at::<BIG_ENDIAN>(bytes, 8),
            sector: u64_at::<BIG_ENDIAN>(bytes, 16),
            bytes: u32_at::<BIG_ENDIAN>(bytes, 24),
            pid: u32_at::<BIG_ENDIAN>(bytes, 28),
            action: u64_at::<BIG_ENDIAN>(bytes, 32),
            device: u32_at::<BIG_ENDIAN>(bytes, 40),
            cpu: u32_at::<BIG_ENDIAN>(bytes, 44),
            error: u16_at::<BIG_ENDIAN>(bytes, 48) as i16,
            payload: u16_at::<BIG_ENDIAN>(bytes, 50),
            length: MAX_HEADER,
            is_big_endian: BIG_ENDIAN,
        })
    }

    /// Returns the length of the record in bytes, with its payload.
    #[inline]
    pub(super) fn size(&self) -> usize {
        self.length + usize::from(self.payload)
    }

    /// Returns the header with its real length: a version 8 record may lack the padding at its end,
    /// which the following bytes show.
    #[inline]
    pub(super) fn with_padding_of(mut self, bytes: &[u8]) -> Self {
        if self.length == MAX_HEADER {
            let ends_well = |size: usize| {
                bytes.len() == size
                    || bytes.get(size..).is_some_and(|rest| version_at(rest).is_some())
            };
            let unpadded = UNPADDED + usize::from(self.payload);
            if !ends_well(self.size()) && ends_well(unpadded) {
                self.length = UNPADDED;
            }
        }
        self
    }

    #[inline]
    pub(super) const fn device(&self) -> DeviceNumber {
        DeviceNumber::from_kernel(self.device)
    }

    #[inline]
    const fn categories(&self) -> u64 {
        self.action >> 16
    }

    #[inline]
    pub(super) const fn is_notify(&self) -> bool {
        self.categories() & category::NOTIFY != 0
    }

    /// Returns the cgroup id at the front of the payload, and the rest of the payload.
    #[inline]
    fn cgroup<'a>(&self, payload: &'a [u8]) -> (Option<u64>, &'a [u8]) {
        if self.action & HAS_CGROUP == 0 {
            return (None, payload);
        }
        match payload.split_first_chunk() {
            Some((id, rest)) => {
                let id = if self.is_big_endian {
                    u64::from_be_bytes(*id)
                } else {
                    u64::from_le_bytes(*id)
                };
                (Some(id), rest)
            }
            None => (None, payload),
        }
    }

    pub(super) fn notify<'a>(&self, payload: &'a [u8]) -> Notify<'a> {
        let (_, payload) = self.cgroup(payload);
        match self.action & 0xffff & !HAS_CGROUP {
            action::NOTIFY_PROCESS => {
                let end = memchr::memchr(0, payload).unwrap_or(payload.len());
                Notify::Task(&payload[..end])
            }
            action::NOTIFY_TIMESTAMP if payload.len() >= 8 => {
                let word = |at: usize| {
                    let bytes = [payload[at], payload[at + 1], payload[at + 2], payload[at + 3]];
                    u64::from(if self.is_big_endian {
                        u32::from_be_bytes(bytes)
                    } else {
                        u32::from_le_bytes(bytes)
                    })
                };
                Notify::WallClock(word(0) * 1_000_000_000 + word(4))
            }
            action::NOTIFY_MESSAGE => Notify::Message(payload),
            _ => Notify::Other,
        }
    }

    /// Returns the event of the record; `None` for an action without a bio or request.
    #[inline]
    pub(super) fn event(&self, payload: &[u8]) -> Result<Option<TraceEvent>, Expected> {
        let (cgroup, payload) = self.cgroup(payload);
        let action = self.action & 0xffff & !HAS_CGROUP;
        let Some(kind) = self.kind(action, payload)? else { return Ok(None) };
        let mut event = TraceEvent::new(kind);
        event.time = Some(self.time);
        event.device = Some(self.device());
        event.cpu = Some(self.cpu);
        event.tid = Some(self.pid);
        event.cgroup = cgroup;
        if matches!(kind, TraceKind::Plug | TraceKind::Unplug { .. }) {
            return Ok(Some(event));
        }
        let op = self.op();
        event.op = Some(op);
        event.flags = Some(self.flags());
        event.bytes = Some(u64::from(self.bytes));
        // A request that only flushes has no sector.
        event.sector = (op != TraceOp::Flush && self.sector != u64::MAX).then_some(self.sector);
        if matches!(kind, TraceKind::Complete | TraceKind::BioComplete | TraceKind::Requeue) {
            // The error number is positive or negative depending on the kernel version.
            event.error = Some(-i32::from(self.error).abs());
        }
        if let TraceKind::Split { new_sector } = kind {
            event.bytes = Some(new_sector.saturating_sub(self.sector).saturating_mul(SECTOR_SIZE));
        }
        Ok(Some(event))
    }

    #[inline]
    fn kind(&self, action: u64, payload: &[u8]) -> Result<Option<TraceKind>, Expected> {
        let is_request = self.categories() & (category::FS | category::PC) != 0;
        // Numbers in payloads are big-endian on every machine.
        let number = || payload.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        Ok(Some(match action {
            action::QUEUE => TraceKind::Queue,
            action::BACK_MERGE if is_request => TraceKind::RequestMerge,
            action::BACK_MERGE => TraceKind::BackMerge,
            action::FRONT_MERGE => TraceKind::FrontMerge,
            action::GET_REQUEST => TraceKind::GetRequest,
            action::SLEEP_REQUEST => TraceKind::SleepRequest,
            action::REQUEUE => TraceKind::Requeue,
            action::ISSUE => TraceKind::Issue,
            action::COMPLETE if is_request => TraceKind::Complete,
            action::COMPLETE => TraceKind::BioComplete,
            action::PLUG => TraceKind::Plug,
            action::UNPLUG | action::UNPLUG_TIMER => TraceKind::Unplug {
                requests: number().ok_or("the number of requests of an unplug")? as u32,
                timer: Some(action == action::UNPLUG_TIMER),
            },
            action::INSERT => TraceKind::Insert,
            action::SPLIT => TraceKind::Split {
                new_sector: number().ok_or("the sector of the remainder of a split")?,
            },
            action::BOUNCE => TraceKind::Bounce,
            action::REMAP => {
                let from = payload.first_chunk::<16>().ok_or("the origin of a remap")?;
                let dev = u32::from_be_bytes([from[0], from[1], from[2], from[3]]);
                let from_sector = u64::from_be_bytes(std::array::from_fn(|n| from[8 + n]));
                let from = DeviceNumber::from_kernel(dev);
                if is_request {
                    TraceKind::RequestRemap { from, from_sector }
                } else {
                    TraceKind::Remap { from, from_sector }
                }
            }
            0 => return Err("a known action"),
            _ if action <= action::LAST => return Ok(None),
            _ => return Err("a known action"),
        }))
    }

    #[inline]
    fn op(&self) -> TraceOp {
        let categories = self.categories();
        let has = |bit: u64| categories & bit != 0;
        if has(category::PC) {
            TraceOp::Passthrough
        } else if categories >> 16 != 0 {
            self.op_of_version_8()
        } else if has(category::DISCARD) {
            TraceOp::Discard
        } else if has(category::WRITE) {
            TraceOp::Write
        } else if self.bytes > 0 {
            TraceOp::Read
        } else if has(category::FLUSH) {
            TraceOp::Flush
        } else if has(category::READ) {
            TraceOp::Read
        } else {
            TraceOp::Other
        }
    }

    fn op_of_version_8(&self) -> TraceOp {
        let ops = [
            (category::ZONE_APPEND, TraceOp::ZoneAppend),
            (category::ZONE_RESET_ALL, TraceOp::ZoneResetAll),
            (category::ZONE_RESET, TraceOp::ZoneReset),
            (category::ZONE_FINISH, TraceOp::ZoneFinish),
            (category::ZONE_OPEN, TraceOp::ZoneOpen),
            (category::ZONE_CLOSE, TraceOp::ZoneClose),
            (category::WRITE_ZEROES, TraceOp::WriteZeroes),
        ];
        let found = ops.into_iter().find(|(bit, _)| self.categories() & bit != 0);
        found.map_or(TraceOp::Other, |(_, op)| op)
    }

    #[inline]
    fn flags(&self) -> Flags {
        let categories = self.categories();
        let mut flags = Flags::NONE;
        for (bit, flag) in [
            (category::SYNC, Flags::SYNC),
            (category::AHEAD, Flags::RAHEAD),
            (category::META, Flags::META),
            (category::FLUSH, Flags::PREFLUSH),
            (category::FUA, Flags::FUA),
        ] {
            if categories & bit != 0 {
                flags |= flag;
            }
        }
        flags
    }
}

#[inline]
fn u16_at<const BIG_ENDIAN: bool>(bytes: &[u8], at: usize) -> u16 {
    let raw = [bytes[at], bytes[at + 1]];
    if BIG_ENDIAN { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) }
}

#[inline]
fn u32_at<const BIG_ENDIAN: bool>(bytes: &[u8], at: usize) -> u32 {
    let raw = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    if BIG_ENDIAN { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) }
}

#[inline]
fn u64_at<const BIG_ENDIAN: bool>(bytes: &[u8], at: usize) -> u64 {
    // Not `std::array::from_fn`, which compilers do not turn into one load.
    let bytes = &bytes[at..at + 8];
    let raw = [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]];
    if BIG_ENDIAN { u64::from_be_bytes(raw) } else { u64::from_le_bytes(raw) }
}
