//! Analyses a device's I/O in a trace: one streaming pass over the events, in memory that does not
//! grow with the trace.
//!
//! [`Analysis`] takes every event of a trace and follows bios and requests of one device from queue
//! to completion, through splits, merges, requeues and flush sequences. [`Analysis::finish`] gives
//! an [`Inspection`]: counts, sizes, latency by stage, depth, utilisation, figures by process, and
//! [`Finding`]s, the problems that an engineer should examine first.
//!
//! No latency is computed across a gap of lost events. Figures for which a trace lacks data are
//! absent in the result.
//!
//! ```
//! use elevon_trace::analysis::{Analysis, Group};
//!
//! let trace = "dd-1 [000] 1.000100: block_rq_issue: 8,0 R 4096 () 2048 + 8 [dd]\n\
//!              dd-1 [000] 1.000300: block_rq_complete: 8,0 R () 2048 + 8 [0]\n";
//! let mut reader = elevon_trace::from_bytes(trace.into())?;
//! let mut analysis = Analysis::new("8:0".parse()?);
//! while let Some(events) = reader.next_batch()? {
//!     analysis.add(events);
//! }
//! let inspection = analysis.finish(&reader);
//! assert_eq!(inspection.stages[Group::Read as usize].issued_to_completed.max, 200_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bios;
mod calls;
mod chains;
mod chosen;
mod collect;
mod depth;
mod device;
mod findings;
mod life;
mod mix;
mod partition;
mod place;
mod process;
mod request_rows;
mod run;
mod seek;
mod sizes;
mod sum;
mod timeline;
mod utilisation;
mod window;
mod words;

#[cfg(test)]
mod tests;

use elevon_core::account::Utilisation;
use elevon_core::ioprio::IoPrio;
use elevon_core::jiffies::Hz;
use elevon_core::op::Flags;

pub(crate) use bios::BioRecord;
pub use collect::{Counts, Stages};
pub use depth::{DepthRow, Depths, ROWS as DEPTH_ROWS, row_name as depth_row_name};
pub use device::{Choice, ChooseError, DeviceEvents, MOSTLY_PERCENT};
pub use findings::{Finding, FindingKind};
pub use mix::{Mix, PrioRow};
pub use process::ProcessStats;
pub use request_rows::RequestWriter;
pub(crate) use run::analyse;
pub use run::{InspectError, device_named, inspect, inspect_part};
pub use seek::Seeks;
pub use sizes::{SIZE_ROWS, SizeStat, Sizes};
pub use timeline::{SLOTS as TIMELINE_SLOTS, Slot, Timeline};
pub use words::percent;

use crate::event::{DeviceNumber, TraceEvent, TraceKind};
use crate::op::TraceOp;
use crate::reader::{Reader, Traced};
use crate::recorded::Recorded;
use crate::report::ReadReport;
use crate::select::{SelectError, Selection};
use chosen::Collector;
use findings::Context;
use life::Life;
use partition::Partitions;
use window::{Place, Window};

/// Marks a time that the trace does not have.
const ABSENT: u64 = u64::MAX;
/// The process of an event that is attributed to none.
const NOBODY: u32 = u32::MAX;

/// Tick rate that the whole-jiffy forms of utilisation assume, because a trace does not contain it.
/// The kernels of Debian and most distributions have 250.
pub const HZ: Hz = Hz(250);

/// Five groups of operations with separate figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Group {
    /// Reads.
    Read = 0,
    /// Writes, zone appends and writes of zeroes.
    Write = 1,
    /// Discards and secure erases.
    Discard = 2,
    /// Flushes of the device's volatile cache, and bios that only ask for one.
    Flush = 3,
    /// Passthrough commands, zone management, and events without an operation.
    Other = 4,
}

impl Group {
    /// Number of groups.
    pub const COUNT: usize = 5;
    /// Every group.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Read, Self::Write, Self::Discard, Self::Flush, Self::Other];

    /// Returns a short stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Discard => "discard",
            Self::Flush => "flush",
            Self::Other => "other",
        }
    }

    /// Returns the group of an operation.
    #[inline]
    pub const fn from_op(op: Option<TraceOp>) -> Self {
        match op {
            Some(TraceOp::Read) => Self::Read,
            Some(TraceOp::Write | TraceOp::ZoneAppend | TraceOp::WriteZeroes) => Self::Write,
            Some(TraceOp::Discard | TraceOp::SecureErase) => Self::Discard,
            Some(TraceOp::Flush) => Self::Flush,
            Some(
                TraceOp::ZoneReset
                | TraceOp::ZoneResetAll
                | TraceOp::ZoneOpen
                | TraceOp::ZoneClose
                | TraceOp::ZoneFinish
                | TraceOp::Passthrough
                | TraceOp::Other,
            )
            | None => Self::Other,
        }
    }

    /// Returns the group of a bio or request of so many sectors: one without any that asks for a
    /// flush of the cache is a flush, whatever its operation.
    #[inline]
    fn of_sectors(event: &TraceEvent, sectors: u64) -> Self {
        let is_flush =
            sectors == 0 && event.flags.is_some_and(|flags| flags.contains(Flags::PREFLUSH));
        if is_flush { Self::Flush } else { Self::from_op(event.op) }
    }
}

/// One completed request (or whole I/O) for a [`RequestSink`]. Times are nanoseconds of the trace's
/// clock; a value that the trace does not have is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// When its first bio was queued.
    pub queued: Option<u64>,
    /// When it was allocated.
    pub allocated: Option<u64>,
    /// When it was inserted.
    pub inserted: Option<u64>,
    /// When it was issued: last, as far as the trace shows that the driver gave it back before.
    pub issued: Option<u64>,
    /// When it completed.
    pub completed: Option<u64>,
    /// First sector.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Group of the operation.
    pub group: Group,
    /// Operation.
    pub op: Option<TraceOp>,
    /// Flags at issue.
    pub flags: Flags,
    /// Index of the process in order of appearance, which is the order of
    /// [`Inspection::processes`] before it is sorted.
    pub process: u32,
    /// Number of its bios; 0 if the trace shows none.
    pub bios: u32,
    /// Priority.
    pub prio: Option<IoPrio>,
    /// Error: 0, or a negative errno.
    pub error: Option<i32>,
}

impl RequestRecord {
    fn from_request(request: &life::Request, bytes: u64, error: Option<i32>, now: u64) -> Self {
        let known = |time: u64| (time != ABSENT).then_some(time);
        Self {
            queued: known(request.queued),
            allocated: known(request.allocated),
            inserted: known(request.inserted),
            issued: known(request.issued),
            completed: known(now),
            sector: request
                .start
                .wrapping_add(request.sectors)
                .wrapping_sub(request.issued_sectors),
            bytes,
            group: request.group,
            op: request.op,
            flags: request.flags.unwrap_or_default(),
            process: request.process,
            bios: request.bios,
            prio: request.prio,
            error,
        }
    }
}

/// Receives every completed request.
pub trait RequestSink {
    /// Receives completed requests in order of completion. `processes` is in order of appearance,
    /// with names.
    fn requests(&mut self, requests: &[RequestRecord], processes: &[ProcessStats]);

    /// Discards the requests received so far, which are of another device: the trace is read again.
    fn restart(&mut self);
}

/// A request that the device does not have yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingRequest {
    /// Index of the process.
    pub process: u32,
    /// Its priority, if the trace tells it.
    pub prio: Option<IoPrio>,
    /// Since when it is there, in nanoseconds of the trace's clock.
    pub since: u64,
}

/// A pass over the events of a trace, for one device or partition.
pub struct Analysis {
    device: DeviceNumber,
    partitions: Partitions,
    life: Life,
    collect: Collector,
    events: [u64; TraceKind::NAMES.len()],
    /// Events without a device: gaps, and plugs in formats that do not name the device of a plug.
    without_device: [u64; TraceKind::NAMES.len()],
    span: Option<(u64, u64)>,
    gap: Option<OpenGap>,
    untimed: u64,
    selection: Selection,
    /// The window of the selection, if it has one.
    window: Option<Window>,
    /// How the device is set up, if a caller tells.
    recorded: Option<Box<Recorded>>,
    /// The pass for the whole disk, if the device is a partition of it: what the device does is
    /// told by all its requests.
    whole_disk: Option<Box<Self>>,
}

/// A gap of lost events that has not ended. What is in flight when it begins, and what begins in
/// it, is forgotten.
#[derive(Clone, Copy)]
struct OpenGap {
    from: u64,
    until: u64,
    is_entered: bool,
}

impl Analysis {
    /// Creates a pass for one device. A device from which others are remapped is a partition; only
    /// its I/O is followed.
    pub fn new(device: DeviceNumber) -> Self {
        Self::of_part(device, &Selection::default())
    }

    /// Creates a pass for what is selected of one device. [`Self::learn`] must be given the names
    /// of its processes.
    pub(crate) fn of_part(device: DeviceNumber, selection: &Selection) -> Self {
        Self {
            device,
            partitions: Partitions::default(),
            life: Life::default(),
            collect: Collector::new(selection),
            events: [0; TraceKind::NAMES.len()],
            without_device: [0; TraceKind::NAMES.len()],
            span: None,
            gap: None,
            untimed: 0,
            selection: selection.clone(),
            window: selection.has_window().then(|| Window::new(selection)),
            recorded: None,
            whole_disk: None,
        }
    }

    /// Keeps every completed request for [`Self::hand_out`].
    pub fn keep_requests(&mut self) {
        self.collect.shown().records = Some(Vec::new());
    }

    /// Passes the requests that completed since the last call to `sink`, with the names of the
    /// reader of the events.
    pub fn hand_out(&mut self, trace: &dyn Traced, sink: &mut dyn RequestSink) {
        let is_ahead = self.is_at(Place::Ahead);
        let shown = self.collect.shown();
        let Some(records) = shown.records.as_mut().filter(|records| !records.is_empty()) else {
            return;
        };
        if !is_ahead {
            shown.processes.resolve(trace.names());
            sink.requests(records, &shown.processes.all);
        }
        records.clear();
    }

    /// Takes note of the names that the next events may have: processes are selected by name.
    pub(crate) fn learn(&mut self, names: &crate::names::Names) {
        self.collect.learn(names);
    }

    /// Completes whole I/Os whose response comes after the last event of the trace.
    pub fn end(&mut self) {
        if !self.is_at(Place::Over) {
            self.collect.finish_responses();
        }
    }

    /// Returns true if there is a window, and the last event was at this place of it.
    fn is_at(&self, place: Place) -> bool {
        self.window.as_ref().is_some_and(|window| window.place() == place)
    }

    /// Returns true if the device has had no event, in a window or outside.
    fn is_without_events(&self) -> bool {
        let is_seen = self.window.as_ref().is_some_and(|window| window.start().is_some());
        !is_seen && self.events.iter().all(|&count| count == 0)
    }

    /// Checks that there is what is selected.
    fn check_selection(&self, reader: &Reader) -> Result<(), SelectError> {
        let names = reader.names();
        let rows = self.collect.processes.all.iter();
        let processes = rows.map(|row| (row.comm.map(|comm| names.name(comm)), row.id));
        self.selection.check(processes, &self.collect.cgroups())?;
        if self.window.as_ref().is_some_and(|window| window.start().is_none()) {
            return Err(SelectError::Untimed);
        }
        let is_there =
            self.selection.is_all() || !self.is_at(Place::Ahead) && self.collect.has_some();
        let (before, after) =
            self.window.as_ref().map_or((None, None), |window| (window.before, window.after));
        if is_there { Ok(()) } else { Err(self.selection.nothing(before, after)) }
    }

    /// Keeps every bio, for a replay.
    pub(crate) fn keep_bios(&mut self) {
        self.collect.bios = Some(bios::BioLog::default());
    }

    /// Returns the bios that were kept.
    pub(crate) fn bios(&mut self) -> &mut Vec<bios::BioRecord> {
        &mut self.collect.bios.get_or_insert_default().all
    }

    /// Returns how many bios were split after so many sectors, if bios are kept.
    pub(crate) fn fronts(&self) -> &std::collections::BTreeMap<u64, u64> {
        static NONE: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
        self.collect.bios.as_ref().map_or(&NONE, |log| &log.fronts)
    }

    /// Returns the number of the device's events of a kind.
    pub(crate) const fn count(&self, kind: TraceKind) -> u64 {
        self.events[kind.index()]
    }

    /// Returns true if the trace has whole I/Os as single records.
    pub(crate) const fn has_whole_ios(&self) -> bool {
        self.events[TraceKind::Io { response_ns: None }.index()] > 0
    }

    /// Tells how the device is set up, in place of what the trace tells.
    pub fn set_recorded(&mut self, recorded: Recorded) {
        self.recorded = Some(Box::new(recorded));
    }

    /// Returns how the device was recorded, if the trace tells it of this device or of its disk.
    pub(crate) fn recorded<'a>(&'a self, trace: &'a dyn Traced) -> Option<&'a Recorded> {
        let is_ours = |device| device == self.device || Some(device) == self.partitions.disk();
        let of_trace = || trace.report().recorded.as_deref();
        self.recorded
            .as_deref()
            .or_else(|| of_trace().filter(|recorded| recorded.device().is_none_or(is_ours)))
    }

    /// Returns the disk, if the device is a partition.
    pub(crate) const fn disk(&self) -> Option<DeviceNumber> {
        self.partitions.disk()
    }

    /// Returns the device, and the times of its first and last event.
    pub(crate) const fn device_and_span(&self) -> (DeviceNumber, Option<(u64, u64)>) {
        (self.device, self.span)
    }

    /// Returns the processes so far, in order of appearance and without names.
    pub(crate) fn processes(&self) -> &[ProcessStats] {
        &self.collect.processes.all
    }

    /// Processes events in the order in which the reader delivers them, and ignores those of other
    /// devices.
    pub fn add(&mut self, events: &[TraceEvent]) {
        for event in events {
            self.add_event(event);
        }
    }

    #[inline]
    fn add_event(&mut self, event: &TraceEvent) {
        match event.device {
            Some(device) if device == self.device => self.partitions.set_own(),
            None => return self.add_without_device(event),
            Some(device) => {
                let is_ours = self.partitions.is_ours(self.device, event);
                if self.partitions.disk() == Some(device) && self.collect.bios.is_none() {
                    let gap = self.gap.map(|gap| OpenGap { is_entered: false, ..gap });
                    let window = self.window.as_ref().map(Window::of_disk);
                    let new = || Box::new(Self { gap, window, ..Self::new(device) });
                    let disk = self.whole_disk.get_or_insert_with(new);
                    disk.add_event(event);
                }
                if !is_ours {
                    return;
                }
            }
        }
        // A completion is noted in whatever task it interrupts, and a plug is of no device.
        let process = match event.kind {
            TraceKind::Complete
            | TraceKind::IoDone
            | TraceKind::Plug
            | TraceKind::Unplug { .. } => NOBODY,
            _ => self.collect.process_of(event),
        };
        if self.window.is_some() && self.pass_window(event, process) == Place::Over {
            return;
        }
        self.events[event.kind.index()] += 1;
        let now = self.time(event);
        if let Some(log) = &mut self.collect.bios {
            log.observe(event);
        }
        if let TraceKind::Io { .. } = event.kind {
            return self.collect.on_whole_io(event, now, process);
        }
        self.life.handle(event, now, process, &mut self.collect);
    }

    /// Moves to the place of an event in the window: begins the window, or ends it.
    fn pass_window(&mut self, event: &TraceEvent, process: u32) -> Place {
        let Some(window) = &mut self.window else { return Place::Inside };
        let Some(now) = event.time else { return window.place() };
        let (begins, ends) = window.pass(now);
        let place = window.place();
        if chosen::is_beginning(event) && self.collect.selects(event, process) {
            window.saw(now);
        }
        if let Some(begin) = begins {
            self.move_to(begin);
            self.collect.begin_window(begin, &self.life.requests());
            self.events = [0; TraceKind::NAMES.len()];
            self.without_device = [0; TraceKind::NAMES.len()];
            self.untimed = 0;
            self.span = Some((begin, begin));
        }
        if let Some(end) = ends {
            self.move_to(end);
            self.collect.busy.pass(end);
        }
        place
    }

    /// Advances time to a moment without an event.
    fn move_to(&mut self, now: u64) {
        let (first, last) = self.span.unwrap_or((now, now));
        let now = now.max(last);
        self.span = Some((first, now));
        if self.gap.is_some() {
            self.pass_gap(now);
        }
        self.collect.advance(now);
    }

    /// Advances time to an event and returns it; [`ABSENT`] if the event has no time.
    #[inline]
    fn time(&mut self, event: &TraceEvent) -> u64 {
        let Some(now) = event.time else {
            self.untimed += 1;
            return ABSENT;
        };
        let now = now.min(ABSENT - 1);
        let (first, last) = self.span.unwrap_or((now, now));
        // Readers deliver events in order, except if a trace mixes events with and without times.
        let now = now.max(last);
        self.span = Some((first, now));
        if self.gap.is_some() {
            self.pass_gap(now);
        }
        self.collect.advance(now);
        now
    }

    /// Leaves out the time up to `now` that is in the current gap.
    fn pass_gap(&mut self, now: u64) {
        let (Some(mut gap), Some((first, _))) = (self.gap, self.span) else { return };
        if now < gap.from {
            return;
        }
        if !gap.is_entered {
            gap.is_entered = true;
            let from = gap.from.max(first);
            self.collect.advance(from);
            self.forget(from);
            self.collect.set_in_gap(true);
        }
        self.collect.skip_to(now.min(gap.until));
        self.gap = Some(gap);
        if now >= gap.until {
            self.gap = None;
            self.forget(gap.until.max(first));
            self.collect.set_in_gap(false);
        }
    }

    /// Forgets everything in flight, because events were lost and it is unknown what has ended.
    fn forget(&mut self, now: u64) {
        self.collect.on_forgotten(now);
        self.life.forget();
        if let Some(log) = &mut self.collect.bios {
            log.forget();
        }
    }

    fn add_without_device(&mut self, event: &TraceEvent) {
        if let Some(disk) = &mut self.whole_disk {
            disk.add_without_device(event);
        }
        if self.is_at(Place::Over) {
            return;
        }
        self.without_device[event.kind.index()] += 1;
        if let Some(log) = &mut self.collect.bios {
            log.observe(event);
        }
        self.collect.observe_gap(event);
        let TraceKind::Lost { until, .. } = event.kind else { return };
        let Some(from) = event.time.or(until) else {
            return self.forget(self.span.map_or(ABSENT, |(_, last)| last));
        };
        let until = until.unwrap_or(from).max(from);
        match &mut self.gap {
            // The gaps of several CPUs are one gap.
            Some(gap) if from <= gap.until => gap.until = gap.until.max(until),
            _ => {
                self.pass_gap(from);
                self.gap = Some(OpenGap { from, until, is_entered: false });
            }
        }
    }

    /// Returns what has happened since the analysis, or its last window, began, and begins a window
    /// at `now`. What is under way stays so. Completed requests must have been handed out. This is
    /// for a whole disk whose events do not end.
    pub fn next_window(&mut self, now: u64, trace: &dyn Traced) -> Inspection {
        self.move_to(now);
        self.collect.busy.pass(now);
        let under_way = self.life.selected_under_way();
        let mut ended = std::mem::replace(self, Self::of_part(self.device, &self.selection));
        std::mem::swap(&mut self.life, &mut ended.life);
        std::mem::swap(&mut self.partitions, &mut ended.partitions);
        self.gap = ended.gap;
        self.recorded.clone_from(&ended.recorded);
        self.collect.continue_from(&mut ended.collect, now, &self.life.requests());
        self.span = Some((now, now));
        ended.result(under_way, trace, "these seconds")
    }

    /// Passes the time up to `now`, and returns what was counted in the present window.
    pub fn so_far(&mut self, now: u64) -> SoFar {
        self.move_to(now);
        let depths = &self.collect.depths;
        SoFar {
            counts: self.collect.counts.clone(),
            busy: depths.busy(),
            depth_time: depths.integral,
        }
    }

    /// Returns the requests that the device does not have yet.
    pub fn waiting(&self) -> impl Iterator<Item = WaitingRequest> {
        let waits = |request: &&life::Request| request.issued == ABSENT;
        let requests = self.life.requests().into_iter().filter(waits);
        requests.filter_map(|request| {
            let since = [request.queued, request.allocated].into_iter().min()?;
            let life::Request { process, prio, .. } = *request;
            (since != ABSENT).then_some(WaitingRequest { process, prio, since })
        })
    }

    /// Returns the number of processes that have been seen, in all windows together.
    pub fn process_count(&self) -> usize {
        self.collect.processes.all.len()
    }

    /// Returns the result, with the names of the trace.
    pub fn finish(mut self, trace: &dyn Traced) -> Inspection {
        self.end();
        let under_way = self.life.selected_under_way();
        self.result(under_way, trace, "the trace")
    }

    /// `whole` is what a finding calls the time that was looked at.
    fn result(
        mut self,
        under_way: (usize, usize),
        trace: &dyn Traced,
        whole: &'static str,
    ) -> Inspection {
        self.collect.processes.resolve(trace.names());
        let whole_disk = self.whole_disk.take().map(|disk| disk.finish(trace));
        let observed =
            self.collect.depths.time().min(self.span.map_or(0, |(first, last)| last - first));
        let is_in_gap = self.collect.watch.is_in_gap;
        let utilisation = self.collect.busy.read(is_in_gap, observed);
        let recorded = self.recorded(trace).cloned();
        self.collect.finish_figures();
        let context = Context {
            processes: &self.collect.processes.all,
            counts: &self.collect.counts,
            depths: &self.collect.depths,
            span: self.span,
            observed,
            recorded: recorded.as_ref(),
            whole,
        };
        let mut findings = self.collect.watch.findings(&context);
        let device_times = self.collect.processes.all.iter().map(|row| row.device_time);
        let device_time = device_times.fold(0, u64::saturating_add);
        let (mut shown, all) = self.collect.into_parts();
        shown.processes.resolve(trace.names());
        let (mut processes, mut depths) =
            (shown.processes.all, all.map_or(shown.depths, |all| all.depths));
        if let Some(disk) = whole_disk {
            findings::take_those_of_device(&mut findings, disk.findings, disk.device);
            depths = disk.depths;
        }
        processes.retain(|row| row.all_bios() + row.all_requests() > 0);
        processes.sort_by_key(|row| std::cmp::Reverse(row.all_bytes()));
        Inspection {
            device: self.device,
            name: trace.names().device(self.device).map(str::to_owned),
            disk: self.partitions.disk(),
            events: self.events,
            events_without_device: self.without_device,
            span: self.span,
            observed,
            untimed: self.untimed,
            findings,
            processes,
            device_time,
            selection: self.selection,
            start: self
                .window
                .as_ref()
                .and_then(Window::start)
                .or(self.span.map(|(first, _)| first)),
            stages: shown.stages,
            counts: shown.counts,
            bio_sizes: shown.bio_sizes,
            request_sizes: shown.request_sizes,
            queue_seeks: shown.queue_seeks,
            issue_seeks: shown.issue_seeks,
            depths,
            timeline: shown.timeline,
            utilisation,
            mix: shown.mix,
            bios_under_way: under_way.0 as u64,
            requests_under_way: under_way.1 as u64,
            recorded,
            report: trace.report().clone(),
        }
    }
}

/// What was counted in a window that has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoFar {
    /// Counts of bios, requests and other things.
    pub counts: Counts,
    /// Nanoseconds with a request in the device.
    pub busy: u64,
    /// Integral of the requests in the device over time, in request-nanoseconds.
    pub depth_time: u128,
}

/// The result of analysing a device's I/O in a trace.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The device.
    pub device: DeviceNumber,
    /// The name that the trace gives the device, if it gives one.
    pub name: Option<String>,
    /// The whole disk, if the device is a partition.
    pub disk: Option<DeviceNumber>,
    /// Events of the device by kind, in the order of [`TraceKind::NAMES`].
    pub events: [u64; TraceKind::NAMES.len()],
    /// Events without a device: gaps, and plugs in formats that do not name the device of a plug.
    pub events_without_device: [u64; TraceKind::NAMES.len()],
    /// What is selected of the device: a window of time, processes, cgroups. Depths, utilisation,
    /// events, findings and what the timeline says of the device are of all I/O in the window.
    pub selection: Selection,
    /// Time of the device's first event in the trace, from which windows are counted.
    pub start: Option<u64>,
    /// Time of the device's first and last event, or of the start and end of the window.
    pub span: Option<(u64, u64)>,
    /// Nanoseconds of it in which no events were lost.
    pub observed: u64,
    /// Events without a time.
    pub untimed: u64,
    /// Problems, the most important first.
    pub findings: Vec<Finding>,
    /// Processes, sorted by bytes in descending order.
    pub processes: Vec<ProcessStats>,
    /// Nanoseconds that requests of all processes spent in the device, summed over requests.
    pub device_time: u64,
    /// Latency by stage, by [`Group`].
    pub stages: [Stages; Group::COUNT],
    /// Counts of bios, requests and other things.
    pub counts: Counts,
    /// Sizes of bios.
    pub bio_sizes: Sizes,
    /// Sizes of completed requests.
    pub request_sizes: Sizes,
    /// Distances between bios in the order in which they were queued.
    pub queue_seeks: Seeks,
    /// Distances between requests in the order in which they were issued.
    pub issue_seeks: Seeks,
    /// Depth of the device's queue; of the whole disk if the device is a partition.
    pub depths: Depths,
    /// The trace over time.
    pub timeline: Timeline,
    /// Busy time of the device in four forms; the whole-jiffy forms assume [`HZ`].
    pub utilisation: Utilisation,
    /// Flags and priorities.
    pub mix: Mix,
    /// Bios that had not completed when the trace ended.
    pub bios_under_way: u64,
    /// Requests that had not completed when the trace ended.
    pub requests_under_way: u64,
    /// How the device was recorded, if the trace or a file beside it tells.
    pub recorded: Option<Recorded>,
    /// What was read, and what was skipped.
    pub report: ReadReport,
}

impl Inspection {
    /// Returns the length of the trace in nanoseconds, gaps of lost events included.
    pub fn duration(&self) -> u64 {
        self.span.map_or(0, |(first, last)| last - first)
    }
}
