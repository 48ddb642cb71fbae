//! Reads a workload from a trace: its I/Os by process, each with its sector, its time, and the
//! completions that it followed.
//!
//! I/Os are taken from `queue` events, before the kernel split and merged them; the bios that one
//! call built are joined. A trace without these events gives requests as they were issued
//! ([`Taken`] says which). The whole workload is kept in memory, about 100 bytes per I/O.
//!
//! [`Workload::infer`] finds the dependencies of a closed loop and documents its rule;
//! [`Workload::exclusions`] finds what processes do only one at a time;
//! [`Workload::ended_by_time`] finds processes that a closed loop lets run for their time.

use elevon_core::ioprio::IoPrio;
use elevon_core::op::{Flags, Op};

use crate::analysis::{
    Analysis, BioRecord, InspectError, ProcessStats, RequestRecord, RequestSink, analyse,
};
use crate::event::DeviceNumber;
use crate::op::TraceOp;
use crate::open::OpenError;
use crate::reader::Reader;
use crate::recorded::Recorded;
use crate::report::{Gap, ReadReport};
use crate::select::process_label;

mod after;
mod completions;
mod crop;
mod ended;
mod exclusion;
mod follow;
mod infer;
mod join;
mod lacking;
mod own_time;
mod pace;
mod select;
mod writeback;

pub use after::{After, Follows, Milestone};
use completions::Completions;
pub use exclusion::{Exclusion, Section};
use join::Joined;
pub use lacking::{Lost, Property};
pub use pace::Pace;
pub use writeback::Crowds;

/// Marks an unknown time.
const ABSENT: u64 = u64::MAX;

/// A year, in nanoseconds.
const YEAR: u64 = 365 * 24 * 3600 * 1_000_000_000;
/// Maximum time of a replay in nanoseconds: a hundred years. The clock of a simulation holds nearly
/// six times as many.
pub const MAX_REPLAY_NS: u64 = 100 * YEAR;

/// The events of a trace from which I/Os are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Bios as they were queued, before splits and merges.
    Queued,
    /// Whole I/Os as the format records them.
    Records,
    /// Requests as they were issued to the driver, because the trace has no `queue` events. Splits
    /// and merges of the kernel are kept.
    Issued,
}

impl Taken {
    /// Returns a name for readers: `queue events`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queue events",
            Self::Records => "records of whole I/Os",
            Self::Issued => "issue events",
        }
    }
}

/// An I/O of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadIo {
    /// When it was queued, in nanoseconds since the first I/O of the workload.
    pub at: u64,
    /// When it completed, from the same start; `None` if the trace does not show it.
    pub completed: Option<u64>,
    /// Nanoseconds for which its process slept before it had a request, for a tag or under
    /// writeback throttling; 0 if the trace does not show it.
    pub slept: u32,
    /// Nanoseconds until its process had the last of its requests, likewise: one that the kernel
    /// split has several.
    pub entered: u32,
    /// First sector.
    pub sector: u64,
    /// Length in bytes; 0 for a flush.
    pub bytes: u64,
    /// Operation.
    pub op: Op,
    /// Flags as traced, and IDLE of a write that is taken for a direct one, which writeback
    /// throttling lets pass.
    pub flags: Flags,
    /// Priority, if the trace has it.
    pub prio: Option<IoPrio>,
    /// The cgroup that is charged for it, if the trace has it.
    pub cgroup: Option<u64>,
    /// True if it was in the same plug as the previous I/O of the process.
    pub joins: bool,
    /// Index in [`Workload::bio_ends`] of the offsets at which its bios ended.
    pub bio_ends: u32,
}

/// The I/O of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadProcess {
    /// Id of the process or, if the trace does not have it, of the thread; `None` if the trace has
    /// neither.
    pub id: Option<u32>,
    /// Name, if the trace has one.
    pub name: Option<String>,
    /// The cgroup of most of its I/O, if the trace has it.
    pub cgroup: Option<u64>,
    /// True if one thread queued all its I/Os, as far as the trace tells threads apart.
    pub is_one_thread: bool,
    /// Its I/Os, in order of time.
    pub ios: Vec<WorkloadIo>,
}

impl WorkloadProcess {
    /// Returns name and id in one word, as ftrace prints a task: `fio-4242`.
    pub fn label(&self) -> String {
        process_label(self.name.as_deref(), self.id)
    }

    /// Returns the nanoseconds from its first I/O to its last I/O or completion.
    pub fn duration(&self) -> u64 {
        let first = self.ios.first().map_or(0, |io| io.at);
        self.ios
            .iter()
            .map(|io| io.completed.unwrap_or(0).max(io.at))
            .max()
            .map_or(0, |last| last - first)
    }

    /// Returns the maximum number of I/Os in flight, counting those whose completion the trace
    /// shows; at least 1.
    pub fn depth(&self) -> u64 {
        depth_of(&self.ios)
    }
}

/// Returns the maximum number of these I/Os of one process in flight; see
/// [`WorkloadProcess::depth`].
fn depth_of(ios: &[WorkloadIo]) -> u64 {
    others_in_flight(ios).max().unwrap_or(0) + 1
}

/// Returns for each of these I/Os of one process how many others were in flight when it began. I/Os
/// whose completion is not known are left out.
fn others_in_flight(ios: &[WorkloadIo]) -> impl Iterator<Item = u64> {
    let completions = Completions::new(ios.iter().filter_map(|io| io.completed));
    let mut seen = 0;
    ios.iter().filter(|io| io.completed.is_some()).enumerate().map(move |(begun, io)| {
        seen = completions.seen_until(seen, io.at);
        (begun - seen.min(begun)) as u64
    })
}

/// The workload of one device in a trace.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The device.
    pub device: DeviceNumber,
    /// The events from which the I/Os were taken.
    pub taken: Taken,
    /// Processes in order of appearance; each has at least one I/O.
    pub processes: Vec<WorkloadProcess>,
    /// Lists of the offsets in bytes at which the bios of an I/O ended, without the last of them.
    /// The first list is empty and stands for an I/O of one bio.
    pub bio_ends: Vec<Vec<u64>>,
    /// Nanoseconds from the first event of the device to the first I/O.
    pub start: u64,
    /// Nanoseconds from the first I/O to the last event of the device.
    pub duration: u64,
    /// Number of I/Os of no bytes, and of operations that the stack does not have (zone
    /// management, passthrough); they are omitted.
    pub left_out: u64,
    /// Gaps of lost events: start and end, in nanoseconds since the first I/O.
    pub gaps: Vec<(u64, u64)>,
    /// How many writes the kernel let in at once.
    pub crowds: Crowds,
    /// What happened to requests that a replay does not repeat.
    pub lost: Lost,
    /// How the device was recorded, if the trace or a file beside it tells.
    pub recorded: Option<Recorded>,
    /// The report of the reader.
    pub report: ReadReport,
}

impl Workload {
    /// Returns the number of I/Os that were joined from several bios of one call.
    pub fn joined(&self) -> u64 {
        let ios = self.processes.iter().flat_map(|process| &process.ios);
        ios.filter(|io| io.bio_ends != 0).count() as u64
    }
}

/// Why a workload could not be read from a trace.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadReadError {
    /// The trace cannot be read, or no device can be chosen.
    #[error(transparent)]
    Trace(#[from] InspectError),
    /// The events of the device have no times.
    #[error("device {0}: the events have no times, so nothing says when an I/O is to go")]
    Untimed(DeviceNumber),
    /// The I/Os span more than [`MAX_REPLAY_NS`].
    #[error(
        "device {0}: its I/Os span {1} years, and a replay takes at most {years}: a time of the trace is damaged",
        years = MAX_REPLAY_NS / YEAR
    )]
    TooLong(DeviceNumber, u64),
    /// No I/O of the device can be replayed.
    #[error("device {0}: there is no queue or issue event of a read, write, flush or discard")]
    Empty(DeviceNumber),
}

/// Collects requests as they complete.
#[derive(Default)]
struct Requests(Vec<RequestRecord>);

impl RequestSink for Requests {
    fn requests(&mut self, requests: &[RequestRecord], _processes: &[ProcessStats]) {
        self.0.extend_from_slice(requests);
    }

    fn restart(&mut self) {
        self.0.clear();
    }
}

/// Reads the workload of a device in a trace; if `device` is `None`, of the device that has nearly
/// all events.
///
/// `open` and `progress` are as in [`crate::analysis::inspect`].
///
/// # Errors
/// Returns an error for a trace that cannot be read, for a device without I/O, for several devices
/// of which none was chosen, for events without times, and for I/Os that span more than
/// [`MAX_REPLAY_NS`].
pub fn read(
    open: &mut dyn FnMut() -> Result<Reader, OpenError>,
    device: Option<DeviceNumber>,
    progress: &mut dyn FnMut(u64),
) -> Result<Workload, WorkloadReadError> {
    let mut requests = Requests::default();
    let (mut analysis, reader) = analyse(open, device, true, Some(&mut requests), progress)?;
    let mut bios = std::mem::take(analysis.bios());
    let mut taken = match analysis.has_whole_ios() {
        true => Taken::Records,
        false => Taken::Queued,
    };
    if bios.is_empty() {
        taken = Taken::Issued;
        bios = requests.0.iter().filter_map(of_request).collect();
        bios.sort_by_key(|bio| bio.queued);
    }
    build(&analysis, &reader, bios, &requests.0, taken)
}

/// Converts a request to the bio that replaces it; `None` if it was not issued.
fn of_request(request: &RequestRecord) -> Option<BioRecord> {
    Some(BioRecord {
        queued: request.issued?,
        completed: request.completed.unwrap_or(ABSENT),
        slept: 0,
        entered: 0,
        sector: request.sector,
        bytes: request.bytes,
        op: request.op,
        flags: Some(request.flags),
        process: request.process,
        tid: None,
        cgroup: None,
        prio: request.prio,
        plug: 0,
        continues: None,
    })
}

/// Returns the I/O of a bio alone. `first` is the time of the first I/O.
fn io_of(bio: &BioRecord, op: Op, bytes: u64, first: u64) -> WorkloadIo {
    WorkloadIo {
        at: bio.queued - first,
        completed: (bio.completed != ABSENT).then(|| bio.completed.saturating_sub(first)),
        slept: bio.slept,
        entered: bio.entered,
        sector: if op == Op::Flush { 0 } else { bio.sector },
        bytes,
        op,
        flags: flags_of(op, bio.flags),
        prio: bio.prio,
        cgroup: bio.cgroup,
        joins: false,
        bio_ends: 0,
    }
}

fn build(
    analysis: &Analysis,
    reader: &Reader,
    bios: Vec<BioRecord>,
    requests: &[RequestRecord],
    taken: Taken,
) -> Result<Workload, WorkloadReadError> {
    let (device, span) = analysis.device_and_span();
    let recorded = analysis.recorded(reader).cloned();
    let mut processes: Vec<_> =
        analysis.processes().iter().map(|row| process(row, reader)).collect();
    let mut plugs: Vec<u32> = vec![0; processes.len()];
    let mut threads: Vec<Option<u32>> = vec![None; processes.len()];
    let (mut first, mut left_out, mut untimed) = (None, 0, false);
    let mut joined = Joined::new(&bios);
    for number in 0..bios.len() {
        let Some((bio, bio_ends)) = joined.io(&bios, number) else { continue };
        if bio.queued == ABSENT {
            untimed = true;
            continue;
        }
        let Some((op, bytes)) = operation(&bio) else {
            left_out += 1;
            continue;
        };
        let (first, at) = (*first.get_or_insert(bio.queued), bio.process as usize);
        processes[at].cgroup = processes[at].cgroup.or(bio.cgroup);
        let joins = bio.plug != 0 && bio.plug == plugs[at];
        plugs[at] = bio.plug;
        processes[at].is_one_thread &=
            bio.tid.is_some_and(|tid| *threads[at].get_or_insert(tid) == tid);
        processes[at].ios.push(WorkloadIo { joins, bio_ends, ..io_of(&bio, op, bytes, first) });
    }
    let Some(first) = first else {
        return Err(if untimed {
            WorkloadReadError::Untimed(device)
        } else {
            WorkloadReadError::Empty(device)
        });
    };
    let last_io = processes.iter().flat_map(|p| p.ios.iter().map(|io| io.at)).max().unwrap_or(0);
    let ends = processes.iter().flat_map(|p| p.ios.iter().filter_map(|io| io.completed));
    let last = ends.max().unwrap_or(0).max(last_io);
    if last > MAX_REPLAY_NS {
        return Err(WorkloadReadError::TooLong(device, last / YEAR));
    }
    processes.retain(|process| !process.ios.is_empty());
    writeback::find_buffered(&mut processes);
    Ok(Workload {
        device,
        taken,
        processes,
        bio_ends: joined.bio_ends,
        start: span.map_or(0, |(begin, _)| first.saturating_sub(begin)),
        duration: span.map_or(0, |(_, last)| last.saturating_sub(first)).max(last_io),
        left_out,
        gaps: gaps_since(reader.report(), first),
        crowds: Crowds::from_requests(requests, first),
        lost: Lost::from_analysis(analysis, recorded.as_ref(), requests),
        recorded,
        report: reader.report().clone(),
    })
}

/// Returns the gaps of lost events, timed from the first I/O.
fn gaps_since(report: &ReadReport, first: u64) -> Vec<(u64, u64)> {
    let since = |time: u64| time.saturating_sub(first);
    let gap = |gap: &Gap| Some((since(gap.from?), since(gap.until.unwrap_or(u64::MAX))));
    report.gaps.iter().filter_map(gap).collect()
}

fn process(row: &ProcessStats, reader: &Reader) -> WorkloadProcess {
    let names = reader.names();
    let name =
        row.comm.map(|comm| names.name(comm)).or_else(|| row.id.and_then(|id| names.process(id)));
    WorkloadProcess {
        id: row.id,
        name: name.map(str::to_owned),
        cgroup: None,
        is_one_thread: true,
        ios: Vec::new(),
    }
}

/// Returns the flags of an I/O as it was submitted. No format tells a direct write from another.
/// One that a task waited for, or of which nothing is known, is taken for direct at first, so that
/// writeback throttling lets it pass.
fn flags_of(op: Op, traced: Option<Flags>) -> Flags {
    let flags = traced.unwrap_or(Flags::NONE);
    let is_waited = traced.is_none_or(|flags| flags.contains(Flags::SYNC));
    if op == Op::Write && is_waited { flags | Flags::IDLE } else { flags }
}

/// Returns operation and length for the stack. A write without sectors that empties the device
/// write cache is a flush; one of a format that has no flags is an I/O of no bytes.
fn operation(bio: &BioRecord) -> Option<(Op, u64)> {
    let op = bio.op?;
    let is_preflush = bio.flags.is_some_and(|flags| flags.contains(Flags::PREFLUSH));
    match op.to_core() {
        Some(Op::Flush) => Some((Op::Flush, 0)),
        Some(_)
            if bio.bytes == 0 && (is_preflush || (op == TraceOp::Write && bio.flags.is_some())) =>
        {
            Some((Op::Flush, 0))
        }
        Some(_) if bio.bytes == 0 => None,
        Some(op) => Some((op, bio.bytes)),
        None => None,
    }
}

#[cfg(test)]
mod tests;
