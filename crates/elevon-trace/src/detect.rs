//! Finds a trace's format by its content.

use crate::input::MAX_PIECE;
use crate::read::{blktrace, ftrace};

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceFormat {
    /// Tracepoints as text: the kernel's `trace` file, `trace-cmd report`, `perf script`, bare lines.
    Ftrace,
    /// blktrace's binary records, versions 7 and 8.
    Blktrace,
}

impl TraceFormat {
    /// Every format.
    pub const ALL: [Self; 2] = [Self::Ftrace, Self::Blktrace];

    /// A short stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ftrace => "ftrace",
            Self::Blktrace => "blktrace",
        }
    }

    /// One line on what the format is.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Ftrace => "text of tracepoints: tracefs, trace-cmd report, perf script",
            Self::Blktrace => "blktrace's binary records, one file a CPU or one merged file",
        }
    }
}

/// Bytes of a trace that are looked at to find its format.
pub(crate) const LOOK_AT: usize = MAX_PIECE / 4;

/// The format of a (decompressed) trace that begins with these bytes.
pub(crate) fn detect(head: &[u8]) -> Option<TraceFormat> {
    if blktrace::is_blktrace(head) {
        return Some(TraceFormat::Blktrace);
    }
    // The last line may be cut.
    let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    let lines = || whole.split(|&byte| byte == b'\n');
    if lines().any(ftrace::is_line) {
        return Some(TraceFormat::Ftrace);
    }
    None
}
