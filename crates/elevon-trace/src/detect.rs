//! Detects the format of a trace from its content.

use crate::format::TraceFormat;
use crate::input::MAX_PIECE;
use crate::read::lines::BOM;
use crate::read::{self, Detect, Format};

impl TraceFormat {
    /// Returns what its reader says of it.
    pub(crate) const fn format(self) -> &'static Format {
        match self {
            Self::Lttng => &read::lttng::FORMAT,
            Self::Ftrace => &read::ftrace::FORMAT,
            Self::Blktrace => &read::blktrace::FORMAT,
            Self::Blkparse => &read::blkparse::FORMAT,
            Self::Perfetto => &read::perfetto::FORMAT,
            Self::FioLog => &read::fio_log::FORMAT,
            Self::Snoop => &read::snoop::FORMAT,
            Self::Xperf => &read::windows::XPERF,
            Self::DiskMon => &read::windows::DISKMON,
            Self::Msr => &read::csv::MSR,
            Self::Alibaba => &read::csv::ALIBABA,
            Self::Tencent => &read::csv::TENCENT,
            Self::Systor => &read::csv::SYSTOR,
            Self::Spc => &read::csv::SPC,
            Self::Fiu => &read::fiu::FORMAT,
            Self::CacheSim => &read::cache_sim::CSV,
            Self::OracleGeneral => &read::cache_sim::ORACLE,
            Self::Csv => &read::event_csv::FORMAT,
        }
    }

    /// Returns a short stable name.
    pub const fn name(self) -> &'static str {
        self.format().name
    }

    /// Returns a description of one line.
    pub const fn description(self) -> &'static str {
        self.format().description
    }

    /// Returns what its events lack, in one line.
    pub const fn lacks(self) -> &'static str {
        self.format().lacks
    }

    /// Returns true if its events are whole I/Os of volumes, which are no partitions of each other.
    pub(crate) const fn has_volumes(self) -> bool {
        self.format().has_volumes
    }

    /// Returns true if its events may have the process of each thread.
    pub const fn has_processes(self) -> bool {
        self.format().has_processes
    }

    /// Returns true for a line by which the format is recognised.
    pub(crate) fn is_line(self, line: &[u8]) -> bool {
        match self.format().detect {
            Detect::Head(_) => false,
            Detect::First(is_line) | Detect::Line(is_line) => is_line(line),
        }
    }
}

/// Maximum number of bytes of a trace that are examined to detect its format.
pub(crate) const LOOK_AT: usize = MAX_PIECE / 4;

/// Returns the lines of the start of a text that are whole, without those that are empty. The last
/// one may be incomplete, except if it is the only one.
pub(crate) fn whole_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let head = head.strip_prefix(BOM).unwrap_or(head);
    let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    whole.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty())
}

/// Returns the format of a (decompressed) trace that starts with these bytes.
pub(crate) fn detect(head: &[u8]) -> Option<TraceFormat> {
    let formats = || TraceFormat::ALL.iter().copied();
    if let Some(found) =
        formats().find(|f| matches!(f.format().detect, Detect::Head(is_head) if is_head(head)))
    {
        return Some(found);
    }
    let first = whole_lines(head).next()?;
    if let Some(found) =
        formats().find(|f| matches!(f.format().detect, Detect::First(is_first) if is_first(first)))
    {
        return Some(found);
    }
    // The first line may contain titles, and a text may start with other lines.
    whole_lines(head).find_map(format_of_line)
}

/// Returns the format of a line of a text.
pub(crate) fn format_of_line(line: &[u8]) -> Option<TraceFormat> {
    let is_of =
        |f: &TraceFormat| matches!(f.format().detect, Detect::Line(is_line) if is_line(line));
    TraceFormat::ALL.iter().copied().find(is_of)
}
