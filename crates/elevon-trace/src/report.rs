//! What a reader found: the format, what it could not read and where, gaps, devices and clocks.

use std::fmt;
use std::time::Duration;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::event::DeviceNumber;
use crate::format::TraceFormat;
use crate::recorded::Recorded;

/// Maximum number of problems that are kept with their place; further ones are only counted.
const MAX_PROBLEMS: usize = 32;
/// Maximum number of devices that are counted separately, because a malicious file may name any
/// number.
const MAX_DEVICES: usize = 1 << 16;
/// Maximum number of pairs of devices of which one lies on the other.
const MAX_REMAPS: usize = 64;

/// What is expected of an event that comes too late to be sorted.
const TOO_LATE: &str = "a time near those before it, and not one older than the window in which events are put in order";

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the file in [`ReadReport::files`].
    pub file: u32,
    /// Position in the decompressed file.
    pub at: Position,
}

/// A position in a file's decompressed content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Number of the line, from 1.
    Line(u64),
    /// Offset of the byte, from 0.
    Byte(u64),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

/// Lines or records that were skipped for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The reason: what was expected, or what was found.
    pub reason: &'static str,
    /// Number of skipped lines or records.
    pub count: u64,
    /// Place of the first one.
    pub first: Place,
}

/// A gap of lost events, as [`crate::event::TraceKind::Lost`] reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// CPU that lost the events.
    pub cpu: Option<u32>,
    /// Number of lost events, if the trace contains it.
    pub events: Option<u64>,
    /// Time of the last event before the gap.
    pub from: Option<u64>,
    /// Time of the first event after the gap; absent if it lasts to the end of the trace.
    pub until: Option<u64>,
}

/// Why a trace that was read to its end tells nothing that could be relied on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableError {
    /// Many events come so late that they cannot be put in order.
    #[error(
        "{at}: times go back by {back:?}, and {late} of {all} events cannot be put in order: it has one CPU after the \
         other, or two captures; sort its events by time, or give the files of CPUs by their base name"
    )]
    TimesStartAgain {
        /// The first event that comes too late.
        at: Position,
        /// From its time to the latest time before it.
        back: Duration,
        /// Number of events that come too late.
        late: u64,
        /// Number of all events.
        all: u64,
    },
    /// Its times are those since the event before.
    #[error(
        "its times go back again and again, as times since the event before do (`perf script --deltatime`); `perf \
         script --ns` prints times that serve"
    )]
    TimesSinceEvent,
    /// No completion of blkparse's text can be read.
    #[error(
        "none of its completions can be read: it may be what `blkparse -f` prints, which does not say what its columns \
         are; elevon reads what blkparse prints without -f, and the files of blktrace"
    )]
    NoCompletionReadable,
}

/// Of so many events one may come too late in a trace that is of use.
const LATE_OF: u64 = 10;

/// What was read, and what was skipped.
#[derive(Clone, Debug)]
pub struct ReadReport {
    /// The detected format.
    pub format: TraceFormat,
    /// Names of the files that were read.
    pub files: Vec<String>,
    /// Number of events delivered; if a device was chosen, only events of that device.
    pub events: u64,
    /// Devices of the whole trace with the number of their events, in order of appearance, even if
    /// one device was chosen.
    pub devices: Vec<(DeviceNumber, u64)>,
    /// Devices and those on which they lie, such as a partition and its disk, from remaps of bios
    /// in order of appearance.
    pub remaps: Vec<(DeviceNumber, DeviceNumber)>,
    /// Lines or records that contain no block event: comments, other tracepoints, summaries.
    pub other: u64,
    /// Lines or records that were damaged, by reason.
    pub skipped: Vec<Skipped>,
    /// The first places of damaged lines or records, with the reason.
    pub problems: Vec<(Place, &'static str)>,
    /// The first gaps.
    pub gaps: Vec<Gap>,
    /// Number of all gaps.
    pub gap_count: u64,
    /// Number of events that were lost in all gaps together, as far as the trace contains it.
    pub lost: u64,
    /// Number of gaps of which the trace does not say how many events were lost.
    pub uncounted_gaps: u64,
    /// Events that the ring buffer overwrote before the first one, according to ftrace's header.
    pub overwritten: Option<u64>,
    /// Clock of the times, as the trace names it, such as `boot` or `mono_raw`.
    pub clock: Option<String>,
    /// A time of the trace's clock with the nanoseconds since 1970 at that moment.
    pub wall_clock: Option<(u64, u64)>,
    /// Resolution of the times in nanoseconds, if it is coarse (ftrace: 1000, Tencent: 1e9).
    pub resolution_ns: Option<u64>,
    /// How the trace was recorded, if its head or a file beside it says so.
    pub recorded: Option<Box<Recorded>>,
    /// Notes for users of the trace: assumptions that were made, figures that are missing.
    pub notes: Vec<&'static str>,
    /// The first event that came too late to be put in order, with what is from its time to the
    /// latest before it, and the number of all those.
    late: Option<(Position, Duration, u64)>,
    /// Why the reader of the format takes the trace to be of no use.
    pub(crate) unusable: Option<UnusableError>,
    last_device: usize,
    device_index: HashMap<DeviceNumber, usize, FxBuildHasher>,
}

impl ReadReport {
    pub(crate) const fn new(format: TraceFormat) -> Self {
        Self {
            format,
            files: Vec::new(),
            events: 0,
            devices: Vec::new(),
            remaps: Vec::new(),
            other: 0,
            skipped: Vec::new(),
            problems: Vec::new(),
            gaps: Vec::new(),
            gap_count: 0,
            lost: 0,
            uncounted_gaps: 0,
            overwritten: None,
            clock: None,
            wall_clock: None,
            resolution_ns: None,
            recorded: None,
            notes: Vec::new(),
            late: None,
            unusable: None,
            last_device: 0,
            device_index: HashMap::with_hasher(FxBuildHasher),
        }
    }

    /// Returns the number of all damaged lines or records.
    pub fn skipped_count(&self) -> u64 {
        self.skipped.iter().map(|skipped| skipped.count).sum()
    }

    /// Returns an error if the trace is of no use as a whole. Must be called at its end.
    ///
    /// # Errors
    /// Says what is wrong with the trace, and what to do.
    pub fn check(&self) -> Result<(), UnusableError> {
        self.unusable.clone().map_or(Ok(()), Err)?;
        let Some((at, back, late)) = self.late else { return Ok(()) };
        let all = self.events + late;
        if late * LATE_OF < all {
            Ok(())
        } else {
            Err(UnusableError::TimesStartAgain { at, back, late, all })
        }
    }

    /// Counts an event that comes too late to be put in order.
    pub(crate) fn late(&mut self, file: u32, at: Position, back_ns: u64) {
        self.skip(file, at, TOO_LATE);
        self.late.get_or_insert((at, Duration::from_nanos(back_ns), 0)).2 += 1;
    }

    /// Counts a damaged line or record.
    pub(crate) fn skip(&mut self, file: u32, at: Position, reason: &'static str) {
        let place = Place { file, at };
        match self.skipped.iter_mut().find(|skipped| skipped.reason == reason) {
            Some(skipped) => skipped.count += 1,
            None => self.skipped.push(Skipped { reason, count: 1, first: place }),
        }
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push((place, reason));
        }
    }

    /// Returns true if the trace is blktrace's files of CPUs, which have this name: that of the
    /// device that was recorded.
    pub(crate) fn is_of_files_named(&self, name: &str) -> bool {
        let name = name.strip_prefix("/dev/").unwrap_or(name);
        let is_named = |file: &String| {
            let file = file.rsplit('/').next().unwrap_or(file);
            file.split_once(".blktrace.").is_some_and(|(base, _)| base == name)
        };
        !self.files.is_empty() && self.files.iter().all(is_named)
    }

    /// Returns the devices on which a device lies.
    pub fn below(&self, device: DeviceNumber) -> impl Iterator<Item = DeviceNumber> + '_ {
        self.remaps.iter().filter(move |(upper, _)| *upper == device).map(|&(_, lower)| lower)
    }

    /// Records that bios of one device are remapped to another. Cost: the pairs that are known.
    pub(crate) fn remapped(&mut self, from: DeviceNumber, to: DeviceNumber) {
        if self.remaps.len() < MAX_REMAPS && !self.remaps.contains(&(from, to)) {
            self.remaps.push((from, to));
        }
    }

    /// Adds a note, unless it is already there.
    pub(crate) fn note(&mut self, note: &'static str) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(crate) fn gap(&mut self, gap: Gap) {
        self.gap_count += 1;
        self.lost = self.lost.saturating_add(gap.events.unwrap_or(0));
        self.uncounted_gaps += u64::from(gap.events.is_none());
        if self.gaps.len() < MAX_PROBLEMS {
            self.gaps.push(gap);
        }
    }

    /// Counts an event of a device. Cost: one comparison if the device is that of the previous
    /// event.
    #[inline]
    pub(crate) fn count_device(&mut self, device: DeviceNumber) {
        match self.devices.get_mut(self.last_device) {
            Some((known, count)) if *known == device => *count += 1,
            _ => self.count_other_device(device),
        }
    }

    fn count_other_device(&mut self, device: DeviceNumber) {
        match self.device_index.get(&device).copied() {
            Some(at) => {
                self.last_device = at;
                self.devices[at].1 += 1;
            }
            None if self.devices.len() < MAX_DEVICES => {
                self.last_device = self.devices.len();
                self.device_index.insert(device, self.last_device);
                self.devices.push((device, 1));
            }
            None => {}
        }
    }
}
