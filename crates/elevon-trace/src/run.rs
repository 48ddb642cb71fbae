//! Traces of Elevon's own runs: writes events of the stack, as they are drained, to a trace file
//! (`elevon run --trace`).

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use elevon_core::event::{Event, EventKind};
use elevon_core::kernel::Rules;
use elevon_core::status::Status;
use elevon_core::units::{SECTOR_SIZE, TaskId};

use crate::event::{DeviceNumber, TraceEvent, TraceKind};
use crate::names::{NameId, Names};
use crate::recorded::Recorded;
use crate::write::blktrace::BlktraceForm;
use crate::write::{
    self, EventWriter, WriteError, WriteFormat, WriteOptions, json, perfetto_timeline,
};

/// Length in bytes to which the kernel cuts a task's name.
const COMM_LEN: usize = 15;

/// Name and process id of a task in traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskName {
    comm: String,
    /// Process id.
    pub pid: u32,
}

impl TaskName {
    /// Creates the name of a task. It is cut to the 15 bytes that the kernel keeps; control
    /// characters become `?`, so that they cannot break a line.
    pub fn new(comm: &str, pid: u32) -> Self {
        let mut kept = String::new();
        for c in comm.chars().map(|c| if c.is_control() { '?' } else { c }) {
            if kept.len() + c.len_utf8() > COMM_LEN {
                break;
            }
            kept.push(c);
        }
        Self { comm: kept, pid }
    }
    /// Returns the name.
    pub fn comm(&self) -> &str {
        &self.comm
    }
}

/// Properties of a run that a trace contains and the stack's events do not.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// Major and minor number of the device.
    pub device: (u32, u32),
    /// Names by [`TaskId`].
    pub tasks: Vec<TaskName>,
    /// Number of CPUs of the machine.
    pub cpus: u16,
    /// The rules of the kernel version, which the forms of events follow.
    pub rules: Rules,
    /// The command, the kernel, and the settings of the device.
    pub recorded: Recorded,
    /// Form of the records in a blktrace.
    pub blktrace: BlktraceForm,
}

/// Converts events of the stack to events of a trace.
#[derive(Debug)]
pub struct Converter {
    device: DeviceNumber,
    names: Names,
    tasks: Vec<(Option<NameId>, u32)>,
}

impl Converter {
    /// Creates a converter for a run's tasks.
    pub fn new(context: &RunContext) -> Self {
        let mut names = Names::default();
        let tasks = context
            .tasks
            .iter()
            .map(|task| (names.intern(task.comm.as_bytes()), task.pid))
            .collect();
        Self { device: DeviceNumber::new(context.device.0, context.device.1), names, tasks }
    }

    /// Returns the names of the tasks.
    pub const fn names(&self) -> &Names {
        &self.names
    }

    /// Converts an event. A task that is not in the table gets its index as number, and no name.
    pub fn event(&self, event: &Event) -> TraceEvent {
        let kind = match event.kind {
            EventKind::BioQueue => TraceKind::Queue,
            EventKind::Split { new_sector } => TraceKind::Split { new_sector: new_sector.get() },
            EventKind::GetRequest => TraceKind::GetRequest,
            EventKind::IoStart => TraceKind::IoStart,
            EventKind::Plug => TraceKind::Plug,
            EventKind::Unplug { requests, from_schedule } => {
                TraceKind::Unplug { requests, timer: Some(from_schedule) }
            }
            EventKind::BackMerge => TraceKind::BackMerge,
            EventKind::FrontMerge => TraceKind::FrontMerge,
            EventKind::RequestMerge => TraceKind::RequestMerge,
            EventKind::Insert => TraceKind::Insert,
            EventKind::Issue => TraceKind::Issue,
            EventKind::Requeue => TraceKind::Requeue,
            EventKind::Complete { .. } => TraceKind::Complete,
            EventKind::BioAgain => TraceKind::BioComplete,
            EventKind::IoDone { .. } => TraceKind::IoDone,
            EventKind::TagWait { of_scheduler, depth } => {
                TraceKind::TagWait { depth: Some(depth), is_driver_tag: !of_scheduler }
            }
        };
        let sector = event.sector.get();
        let mut made = TraceEvent::new(kind);
        made.time = Some(event.time.get());
        made.device = Some(self.device);
        made.cpu = Some(u32::from(event.cpu));
        let (comm, tid) = match self.tasks.get(event.task.index()) {
            Some(&(comm, pid)) => (comm, pid),
            None if event.task == TaskId::IDLE => (None, 0),
            None => (None, event.task.0),
        };
        (made.comm, made.tid) = (comm, Some(tid));
        made.queue = Some(event.queue.0);
        made.tag = event.tag.map(|tag| tag.0);
        if matches!(kind, TraceKind::Plug | TraceKind::Unplug { .. }) {
            return made;
        }
        // A request that only flushes has no sector.
        made.sector = (sector != u64::MAX).then_some(sector);
        made.bytes = Some(match kind {
            TraceKind::Split { new_sector } => {
                new_sector.saturating_sub(sector).saturating_mul(SECTOR_SIZE)
            }
            _ => u64::from(event.sectors) * SECTOR_SIZE,
        });
        (made.op, made.flags, made.ioprio) =
            (Some(event.op.into()), Some(event.flags), Some(event.ioprio));
        made.error = match event.kind {
            EventKind::Complete { status } => Some(-status.errno()),
            EventKind::BioAgain => Some(-Status::Again.errno()),
            EventKind::Requeue => Some(0),
            _ => None,
        };
        made
    }
}

/// Writes the trace of a run.
pub struct RunTraceWriter {
    converter: Converter,
    writer: Box<dyn EventWriter>,
    /// Written before the first event.
    recorded: Option<Recorded>,
}

impl RunTraceWriter {
    /// Creates the file (for `NAME.blktrace`, the files `NAME.blktrace.CPU`) in the format of its
    /// extension.
    ///
    /// # Errors
    /// Returns an error for an extension without a format, and for a file that cannot be created.
    pub fn create(path: &Path, context: &RunContext) -> Result<Self, WriteError> {
        let format = WriteFormat::from_path(path)?;
        let device = Some(DeviceNumber::new(context.device.0, context.device.1));
        let options = WriteOptions {
            cpus: u32::from(context.cpus),
            ioprio_in_events: context.rules.ioprio_in_events,
            has_zone_letters: false,
            has_atomic_letter: context.rules.atomic_write_is_u,
            has_write_zeroes_letters: context.rules.write_zeroes_is_wz,
            blktrace: context.blktrace,
            ..WriteOptions::default()
        };
        let fail = |source| WriteError::Create { path: path.to_owned(), source };
        // A timeline of one device has no level for devices.
        let timeline = || -> io::Result<Box<dyn EventWriter>> {
            let file = File::create(path)?;
            Ok(match format {
                WriteFormat::Json => Box::new(json::JsonWriter::new(file, device)?),
                _ => {
                    Box::new(perfetto_timeline::TimelineWriter::new(BufWriter::new(file), device)?)
                }
            })
        };
        let writer = match format {
            WriteFormat::Json | WriteFormat::PerfettoTimeline => timeline().map_err(fail)?,
            _ => write::create(path, options)?,
        };
        Ok(Self {
            converter: Converter::new(context),
            writer,
            recorded: Some(context.recorded.clone()),
        })
    }

    /// Appends events, oldest first.
    ///
    /// # Errors
    /// Returns an error of the file.
    pub fn write(&mut self, events: &[Event]) -> io::Result<()> {
        for event in events {
            let event = self.converter.event(event);
            if let Some(recorded) = self.recorded.take() {
                self.writer.recorded(&recorded, &event)?;
            }
            self.writer.event(&event, self.converter.names())?;
        }
        Ok(())
    }

    /// Finishes the trace and writes what is buffered.
    ///
    /// # Errors
    /// Returns an error of the file.
    pub fn finish(self) -> io::Result<()> {
        self.writer.end()
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
