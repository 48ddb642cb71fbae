//! Trace files of block events: written as a run goes on, read back for comparison.
//!
//! | format | extension | what for |
//! |---|---|---|
//! | [`ftrace`] | `.ftrace` | text as `/sys/kernel/tracing/trace` shows it; read back by [`text`] |
//! | [`blktrace`] | `.blktrace` | binary, one file a CPU, for `blkparse` and `btt` |
//! | [`perfetto`] | `.perfetto` | protobuf timeline for ui.perfetto.dev |
//! | [`json`] | `.json` | trace events for any timeline viewer |
//!
//! Writers take events as the stack drains them, keep only what is in flight in memory, and write through a buffer.

pub mod blktrace;
pub mod ftrace;
pub mod json;
pub mod perfetto;
pub mod steps;
pub mod text;
mod timeline;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use elevon_core::event::Event;
use elevon_core::units::TaskId;

/// A format of trace files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// The kernel's text.
    Ftrace,
    /// blktrace's binary records.
    Blktrace,
    /// Perfetto's protobuf.
    Perfetto,
    /// Trace-event JSON.
    Json,
}

impl TraceFormat {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Ftrace, Self::Blktrace, Self::Perfetto, Self::Json];

    /// The extension that names it, without the dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Ftrace => "ftrace",
            Self::Blktrace => "blktrace",
            Self::Perfetto => "perfetto",
            Self::Json => "json",
        }
    }

    /// The format that a path's extension names.
    ///
    /// # Errors
    /// [`TraceError::UnknownFormat`] where it names none.
    pub fn from_path(path: &Path) -> Result<Self, TraceError> {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        Self::ALL
            .into_iter()
            .find(|format| format.extension() == extension)
            .ok_or_else(|| TraceError::UnknownFormat { path: path.to_owned() })
    }
}

/// Why a trace file could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The extension names no format.
    #[error("{}: a trace file ends in .ftrace, .blktrace, .perfetto or .json", path.display())]
    UnknownFormat {
        /// The path.
        path: PathBuf,
    },
    /// The file could not be made.
    #[error("{}: {source}", path.display())]
    Create {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Bytes of a task's name that the kernel keeps.
const COMM_LEN: usize = 15;

/// A task as traces name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskName {
    comm: String,
    /// Its process number.
    pub pid: u32,
}

impl TaskName {
    /// A name cut to the 15 bytes that the kernel keeps; control characters become `?`, so that a line stays a line.
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
    /// Its name.
    pub fn comm(&self) -> &str {
        &self.comm
    }
}

/// What a trace says that events do not carry.
#[derive(Clone, Debug)]
pub struct Context {
    /// Major and minor number of the device.
    pub device: (u32, u32),
    /// Names by [`TaskId`].
    pub tasks: Vec<TaskName>,
    /// CPUs of the machine.
    pub cpus: u16,
    /// Whether request events carry the priority ([`elevon_core::kernel::Rules::ioprio_in_events`]).
    pub ioprio_in_events: bool,
}

impl Context {
    /// Name and process number of a task: `<idle>` and 0 for none, `<...>` (as the kernel has it) for one not in the
    /// table.
    fn task(&self, id: TaskId) -> (&str, u32) {
        match self.tasks.get(id.index()) {
            Some(task) => (&task.comm, task.pid),
            None if id == TaskId::IDLE => ("<idle>", 0),
            None => ("<...>", id.0),
        }
    }
}

/// A trace file being written, in any format.
pub enum TraceWriter {
    /// The kernel's text.
    Ftrace(ftrace::Writer<BufWriter<File>>),
    /// blktrace's files.
    Blktrace(blktrace::Writer<BufWriter<File>, blktrace::FilesOf>),
    /// Perfetto's protobuf.
    Perfetto(perfetto::Writer<BufWriter<File>>),
    /// Trace-event JSON.
    Json(json::Writer<File>),
}

impl TraceWriter {
    /// Makes the file (for `NAME.blktrace`, the files `NAME.blktrace.CPU`), in the format that the extension names.
    ///
    /// # Errors
    /// An extension that names no format, or a file that cannot be made.
    pub fn create(path: &Path, context: Context) -> Result<Self, TraceError> {
        let format = TraceFormat::from_path(path)?;
        let create = || File::create(path);
        match format {
            TraceFormat::Ftrace => {
                create().and_then(|file| ftrace::Writer::new(BufWriter::new(file), context)).map(Self::Ftrace)
            }
            TraceFormat::Blktrace => blktrace::Writer::create(path, context).map(Self::Blktrace),
            TraceFormat::Perfetto => {
                create().and_then(|file| perfetto::Writer::new(BufWriter::new(file), context)).map(Self::Perfetto)
            }
            TraceFormat::Json => create().and_then(|file| json::Writer::new(file, context)).map(Self::Json),
        }
        .map_err(|source| TraceError::Create { path: path.to_owned(), source })
    }

    /// Appends events, oldest first.
    ///
    /// # Errors
    /// Of the file.
    pub fn write(&mut self, events: &[Event]) -> io::Result<()> {
        for event in events {
            match self {
                Self::Ftrace(writer) => writer.event(event),
                Self::Blktrace(writer) => writer.event(event),
                Self::Perfetto(writer) => writer.event(event),
                Self::Json(writer) => writer.event(event),
            }?;
        }
        Ok(())
    }

    /// Ends the trace and writes what is buffered.
    ///
    /// # Errors
    /// Of the file.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Ftrace(writer) => writer.finish().map(drop),
            Self::Blktrace(writer) => writer.finish().map(drop),
            Self::Perfetto(writer) => writer.finish().map(drop),
            Self::Json(writer) => writer.finish().map(drop),
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
