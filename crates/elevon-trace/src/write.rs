//! Writers, one a format: events of any trace in, a file out.
//!
//! | format | extension | what for |
//! |---|---|---|
//! | [`WriteFormat::Ftrace`] | `.ftrace` | text as `/sys/kernel/tracing/trace` shows it |
//! | [`WriteFormat::Blktrace`] | `.blktrace` | binary, one file a CPU, for `blkparse` and `btt` |
//! | [`WriteFormat::Perfetto`] | `.perfetto-trace` | ftrace events as Perfetto records them, for its queries |
//! | [`WriteFormat::PerfettoTimeline`] | `.perfetto` | a timeline of requests by tag for ui.perfetto.dev; not read back |
//! | [`WriteFormat::Json`] | `.json` | the same timeline as trace-event JSON; not read back |
//! | [`WriteFormat::FioLog`] | `.iolog` | version 3, for `fio --read_iolog` |
//! | [`WriteFormat::Csv`] | `.csv` | every field of every event |
//! | [`WriteFormat::Parquet`] | `.parquet` | the same, in columns |
//!
//! A format that lacks a field leaves it out. Writers take events in order of time, keep only what
//! is in flight in memory, and write through a buffer.

pub mod blktrace;
pub mod csv;
pub mod fio_log;
pub mod ftrace;
pub mod json;
pub mod parquet;
pub mod perfetto;
pub mod perfetto_timeline;
mod proto;
mod timeline;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use crate::event::TraceEvent;
use crate::names::Names;

#[cfg(test)]
mod tests;

/// A format that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFormat {
    /// The kernel's text.
    Ftrace,
    /// blktrace's binary records.
    Blktrace,
    /// Perfetto's protobuf: ftrace events.
    Perfetto,
    /// Perfetto's protobuf: a timeline of requests.
    PerfettoTimeline,
    /// Trace-event JSON: a timeline of requests.
    Json,
    /// fio's iolog, version 3.
    FioLog,
    /// Comma-separated values, a line an event.
    Csv,
    /// Parquet, a row an event.
    Parquet,
}

impl WriteFormat {
    /// Every format.
    pub const ALL: [Self; 8] = [
        Self::Ftrace,
        Self::Blktrace,
        Self::Perfetto,
        Self::PerfettoTimeline,
        Self::Json,
        Self::FioLog,
        Self::Csv,
        Self::Parquet,
    ];

    /// The extension that names it, without the dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Ftrace => "ftrace",
            Self::Blktrace => "blktrace",
            Self::Perfetto => "perfetto-trace",
            Self::PerfettoTimeline => "perfetto",
            Self::Json => "json",
            Self::FioLog => "iolog",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        }
    }

    /// The format that a path's extension names.
    ///
    /// # Errors
    /// [`WriteError::UnknownFormat`] if it names none.
    pub fn from_path(path: &Path) -> Result<Self, WriteError> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        Self::ALL
            .into_iter()
            .find(|format| format.extension() == extension)
            .ok_or_else(|| WriteError::UnknownFormat { path: path.to_owned() })
    }
}

/// Why a trace file could not be made.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The extension names no format.
    #[error("{}: a trace that is written ends in {}", path.display(), extensions())]
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

fn extensions() -> String {
    let [before @ .., last] = WriteFormat::ALL.map(|format| format!(".{}", format.extension()));
    format!("{} or {last}", before.join(", "))
}

/// Takes the events of a trace, in order of time.
pub trait EventWriter {
    /// Appends one event; its names are of the table.
    ///
    /// # Errors
    /// Of the output.
    fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()>;

    /// Ends the trace and writes what is buffered.
    ///
    /// # Errors
    /// Of the output.
    fn end(self: Box<Self>) -> io::Result<()>;
}

/// What a trace's head and lines say that events do not carry.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// CPUs of the machine.
    pub cpus: u32,
    /// Whether ftrace's request events show the priority, as kernels from 6.11 on do.
    pub ioprio_in_events: bool,
    /// Whether ftrace has letters of its own for zone operations and write zeroes, as the newest
    /// kernels do.
    pub has_zone_letters: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { cpus: 1, ioprio_in_events: true, has_zone_letters: true }
    }
}

/// Makes a trace file in the format that its extension names; for `NAME.blktrace` the files
/// `NAME.blktrace.CPU`.
///
/// # Errors
/// An extension that names no format, or a file that cannot be made.
pub fn create(path: &Path, options: WriteOptions) -> Result<Box<dyn EventWriter>, WriteError> {
    let format = WriteFormat::from_path(path)?;
    let file = || File::create(path).map(BufWriter::new);
    let made = || -> io::Result<Box<dyn EventWriter>> {
        Ok(match format {
            WriteFormat::Ftrace => Box::new(ftrace::Writer::new(file()?, options)?),
            WriteFormat::Blktrace => Box::new(blktrace::Writer::create(path)?),
            WriteFormat::Perfetto => Box::new(perfetto::Writer::new(file()?)),
            WriteFormat::PerfettoTimeline => Box::new(perfetto_timeline::Writer::new(file()?, None)?),
            WriteFormat::Json => Box::new(json::Writer::new(File::create(path)?, None)?),
            WriteFormat::FioLog => Box::new(fio_log::Writer::new(file()?)?),
            WriteFormat::Csv => Box::new(csv::Writer::new(file()?)?),
            WriteFormat::Parquet => Box::new(parquet::Writer::new(File::create(path)?)?),
        })
    };
    made().map_err(|source| WriteError::Create { path: path.to_owned(), source })
}
