//! Writers, one for each format: they write the events of any trace to a file.
//!
//! | format | extension | use |
//! |---|---|---|
//! | [`WriteFormat::Ftrace`] | `.ftrace` | text in the form of `/sys/kernel/tracing/trace` |
//! | [`WriteFormat::Blktrace`] | `.blktrace` | binary, one file per CPU, for `blkparse` and `btt` |
//! | [`WriteFormat::Perfetto`] | `.perfetto-trace` | ftrace events as Perfetto records them, for its queries |
//! | [`WriteFormat::PerfettoTimeline`] | `.perfetto` | a timeline of requests by tag for ui.perfetto.dev; not read back |
//! | [`WriteFormat::Json`] | `.json` | the same timeline as trace-event JSON; not read back |
//! | [`WriteFormat::FioLog`] | `.iolog` | version 3, for `fio --read_iolog` |
//! | [`WriteFormat::Csv`] | `.csv` | every field of every event |
//! | [`WriteFormat::Parquet`] | `.parquet` | the same, in columns |
//!
//! Fields that a format lacks are omitted. An I/O with a response time becomes a bio that is queued
//! and completes, where a format has events of both. Writers take events in order of time, keep in
//! memory only what is in flight, and buffer their output.

pub mod blktrace;
pub mod csv;
pub mod fio_log;
pub mod ftrace;
pub mod json;
mod packed;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod perfetto;
pub mod perfetto_timeline;
mod proto;
#[cfg(feature = "parquet")]
pub(crate) mod table;
mod timeline;
mod whole;

pub use packed::Packed;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use crate::event::TraceEvent;
use crate::names::Names;
use crate::recorded::Recorded;
use whole::WholeIos;

#[cfg(test)]
mod tests;

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFormat {
    /// Text as the kernel prints it.
    Ftrace,
    /// blktrace's binary records.
    Blktrace,
    /// Perfetto's protobuf with ftrace events.
    Perfetto,
    /// Perfetto's protobuf with a timeline of requests.
    PerfettoTimeline,
    /// Trace-event JSON with a timeline of requests.
    Json,
    /// fio's iolog, version 3.
    FioLog,
    /// Comma-separated values, one line per event.
    Csv,
    /// Parquet, one row per event.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl WriteFormat {
    /// Every format of this build.
    pub const ALL: [Self; 7 + cfg!(feature = "parquet") as usize] = [
        Self::Ftrace,
        Self::Blktrace,
        Self::Perfetto,
        Self::PerfettoTimeline,
        Self::Json,
        Self::FioLog,
        Self::Csv,
        #[cfg(feature = "parquet")]
        Self::Parquet,
    ];

    /// Returns the file extension of the format, without the dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Ftrace => "ftrace",
            Self::Blktrace => "blktrace",
            Self::Perfetto => "perfetto-trace",
            Self::PerfettoTimeline => "perfetto",
            Self::Json => "json",
            Self::FioLog => "iolog",
            Self::Csv => "csv",
            #[cfg(feature = "parquet")]
            Self::Parquet => "parquet",
        }
    }

    /// Returns true if lost events have a place in the format.
    pub const fn has_gaps(self) -> bool {
        !matches!(self, Self::FioLog | Self::PerfettoTimeline | Self::Json)
    }

    /// Returns the format of a path's extension.
    ///
    /// # Errors
    /// Returns [`WriteError::UnknownFormat`] if no format has the extension.
    pub fn from_path(path: &Path) -> Result<Self, WriteError> {
        let extension =
            path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        Self::ALL
            .into_iter()
            .find(|format| format.extension() == extension)
            .ok_or_else(|| WriteError::UnknownFormat { path: path.to_owned() })
    }
}

/// Why a trace file could not be created.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// No format has the file extension.
    #[error("{}: a trace that is written ends in {}", path.display(), extensions())]
    UnknownFormat {
        /// The path.
        path: PathBuf,
    },
    /// The file could not be created.
    #[error("{}: {source}", path.display())]
    Create {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

fn extensions() -> String {
    let [before @ .., last] = WriteFormat::ALL.map(|format| format!(".{}", format.extension()));
    let absent = match cfg!(feature = "parquet") {
        true => "",
        false => "; this build has no Parquet (`--features full` has it)",
    };
    format!("{} or {last}{absent}", before.join(", "))
}

/// Writes the events of a trace, in order of time.
pub trait EventWriter {
    /// Appends one event, whose names are in `names`.
    ///
    /// # Errors
    /// Returns an error of the output.
    fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()>;

    /// Writes how the events were recorded, before the first of them. A format that has no place
    /// for it (CSV, Parquet, fio's iolog, Perfetto's ftrace events) is left as it is.
    ///
    /// # Errors
    /// Returns an error of the output.
    fn recorded(&mut self, _recorded: &Recorded, _first: &TraceEvent) -> io::Result<()> {
        Ok(())
    }

    /// Finishes the trace and writes what is buffered.
    ///
    /// # Errors
    /// Returns an error of the output.
    fn end(self: Box<Self>) -> io::Result<()>;
}

/// Properties of a trace that its events do not contain.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// CPUs of the machine, if no event is of a later one.
    pub cpus: u32,
    /// True if ftrace's request events show the priority, as in kernels from 6.11 on.
    pub ioprio_in_events: bool,
    /// True if ftrace has separate letters for zone operations and write zeroes, as the newest
    /// kernels do.
    pub has_zone_letters: bool,
    /// Whether ftrace's times are whole nanoseconds; the kernel prints microseconds.
    pub is_in_nanoseconds: bool,
    /// Whether ftrace shows the process of each thread, as the kernel does with the option
    /// `record-tgid`.
    pub has_processes: bool,
    /// Whether an atomic write has the letter `U` (Linux 6.16 and later).
    pub has_atomic_letter: bool,
    /// Whether a write-zeroes is `WZ` (Linux 6.19 and later) instead of `N`.
    pub has_write_zeroes_letters: bool,
    /// Form of blktrace's records.
    pub blktrace: blktrace::BlktraceForm,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            cpus: 1,
            ioprio_in_events: true,
            has_zone_letters: true,
            has_atomic_letter: true,
            has_write_zeroes_letters: true,
            is_in_nanoseconds: false,
            has_processes: false,
            blktrace: blktrace::BlktraceForm::default(),
        }
    }
}

/// Creates a trace file in the format of its extension; for `NAME.blktrace` the files
/// `NAME.blktrace.CPU`.
///
/// # Errors
/// Returns an error for an extension without a format, and for a file that cannot be created.
pub fn create(path: &Path, options: WriteOptions) -> Result<Box<dyn EventWriter>, WriteError> {
    let format = WriteFormat::from_path(path)?;
    let file = || File::create(path).map(BufWriter::new);
    let made = || -> io::Result<Box<dyn EventWriter>> {
        Ok(match format {
            WriteFormat::Ftrace => {
                Box::new(WholeIos::new(ftrace::FtraceWriter::new(file()?, options)?))
            }
            WriteFormat::Blktrace => {
                Box::new(WholeIos::new(blktrace::BlktraceWriter::create(path, options.blktrace)?))
            }
            WriteFormat::Perfetto => {
                Box::new(WholeIos::new(perfetto::PerfettoWriter::new(file()?)))
            }
            WriteFormat::PerfettoTimeline => {
                Box::new(perfetto_timeline::TimelineWriter::new(file()?, None)?)
            }
            WriteFormat::Json => Box::new(json::JsonWriter::new(File::create(path)?, None)?),
            WriteFormat::FioLog => Box::new(fio_log::FioLogWriter::new(file()?)?),
            WriteFormat::Csv => Box::new(csv::CsvWriter::new(file()?)?),
            #[cfg(feature = "parquet")]
            WriteFormat::Parquet => Box::new(parquet::ParquetWriter::new(File::create(path)?)?),
        })
    };
    made().map_err(|source| WriteError::Create { path: path.to_owned(), source })
}
