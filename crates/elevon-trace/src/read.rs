//! Readers, one for each format. [`crate::open`] chooses one.

pub(crate) mod blkparse;
pub mod blktrace;
pub(crate) mod cache_sim;
pub(crate) mod csv;
pub(crate) mod cursor;
pub(crate) mod event_csv;
mod fields;
pub(crate) mod fio_log;
pub(crate) mod fiu;
pub mod ftrace;
mod hardware;
pub(crate) mod lines;
pub(crate) mod lttng;
pub mod perfetto;
mod rows;
pub(crate) mod snoop;
pub(crate) mod windows;

use crate::input::Input;
use crate::reader::EventSource;
use lines::{LineFormat, LineSource};

/// What the reader of a format says of it. A new format is a module with one of these, a variant
/// of [`crate::TraceFormat`], and a line of `detect` that joins them.
pub(crate) struct Format {
    /// A short stable name.
    pub(crate) name: &'static str,
    /// A description of one line.
    pub(crate) description: &'static str,
    /// What its events lack, in one line.
    pub(crate) lacks: &'static str,
    /// True if its events are whole I/Os of volumes, which are no partitions of each other.
    pub(crate) has_volumes: bool,
    /// True if its events may have the process of each thread.
    pub(crate) has_processes: bool,
    /// How it is recognised.
    pub(crate) detect: Detect,
    /// Starts to read the files of a trace: one, except if the format has a file for each CPU.
    pub(crate) open: fn(Vec<Input>) -> Box<dyn EventSource>,
}

/// How a format is recognised.
pub(crate) enum Detect {
    /// By the first bytes of the file.
    Head(fn(&[u8]) -> bool),
    /// By the first line of a text.
    First(fn(&[u8]) -> bool),
    /// By any line near the start of a text, which may begin with others.
    Line(fn(&[u8]) -> bool),
}

/// Reads the only file of a trace.
fn only(inputs: Vec<Input>) -> Input {
    inputs.into_iter().next().unwrap_or_else(Input::empty)
}

/// Reads a text with a parser of its lines.
fn text<F: LineFormat + 'static>(inputs: Vec<Input>, format: F) -> Box<dyn EventSource> {
    Box::new(LineSource::new(only(inputs), format))
}

/// Maximum number of CPUs whose gaps are tracked; the kernel's own limit.
const MAX_CPUS: usize = 8192;

/// Returns what is kept of a CPU; `None` beyond the maximum.
fn of_cpu<T: Clone + Default>(cpus: &mut Vec<T>, cpu: u32) -> Option<&mut T> {
    let cpu = cpu as usize;
    if cpu >= cpus.len() && cpu < MAX_CPUS {
        cpus.resize(cpu + 1, T::default());
    }
    cpus.get_mut(cpu)
}
