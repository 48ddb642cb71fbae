//! Detects the format of a trace from its content.

use crate::input::MAX_PIECE;
use crate::read::lines::BOM;
use crate::read::{self, Detect, Format};

/// Makes the list of formats: the type, and what the reader of each says of it.
macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident = $format:path,)+) => {
        /// A trace format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum TraceFormat {
            $($(#[$doc])* $name,)+
        }

        impl TraceFormat {
            /// Every format, in the order in which they are looked for in a line.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns what its reader says of it.
            pub(crate) const fn format(self) -> &'static Format {
                match self {
                    $(Self::$name => &$format,)+
                }
            }
        }
    };
}

formats! {
    /// Events of LTTng's kernel tracer as babeltrace prints them.
    Lttng = read::lttng::FORMAT,
    /// Tracepoints as text: the kernel's `trace` file, `trace-cmd report`, `perf script`, lines
    /// without prefix.
    Ftrace = read::ftrace::FORMAT,
    /// blktrace's binary records, versions 7 and 8.
    Blktrace = read::blktrace::FORMAT,
    /// Output of `blkparse`.
    Blkparse = read::blkparse::FORMAT,
    /// Perfetto's protobuf packets.
    Perfetto = read::perfetto::FORMAT,
    /// fio's iolog, versions 2 and 3.
    FioLog = read::fio_log::FORMAT,
    /// Output of `biosnoop` (bcc and bpftrace) and `iosnoop` (perf-tools and DTrace).
    Snoop = read::snoop::FORMAT,
    /// CSV of disk I/O of Windows: xperf's dumper, and tables with titles of xperf and WPA.
    Xperf = read::windows::XPERF,
    /// What Sysinternals DiskMon saves.
    DiskMon = read::windows::DISKMON,
    /// CSV of MSR Cambridge.
    Msr = read::csv::MSR,
    /// CSV of Alibaba's block traces.
    Alibaba = read::csv::ALIBABA,
    /// CSV of Tencent CBS.
    Tencent = read::csv::TENCENT,
    /// CSV of Systor '17.
    Systor = read::csv::SYSTOR,
    /// The UMass repository's SPC format.
    Spc = read::csv::SPC,
    /// Traces of FIU, with a process and the hash of the content in each line.
    Fiu = read::fiu::FORMAT,
    /// CSV with titles as libCacheSim reads it.
    CacheSim = read::cache_sim::CSV,
    /// libCacheSim's binary oracleGeneral.
    OracleGeneral = read::cache_sim::ORACLE,
    /// CSV of events, as [`crate::write::csv`] writes it.
    Csv = read::event_csv::FORMAT,
}

impl TraceFormat {
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
    pub const fn has_volumes(self) -> bool {
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
    if let Some(found) = formats().find(|f| matches!(f.format().detect, Detect::Head(is_head) if is_head(head))) {
        return Some(found);
    }
    let first = whole_lines(head).next()?;
    if let Some(found) = formats().find(|f| matches!(f.format().detect, Detect::First(is_first) if is_first(first))) {
        return Some(found);
    }
    // The first line may contain titles, and a text may start with other lines.
    whole_lines(head).find_map(format_of_line)
}

/// Returns the format of a line of a text.
pub(crate) fn format_of_line(line: &[u8]) -> Option<TraceFormat> {
    let is_of = |f: &TraceFormat| matches!(f.format().detect, Detect::Line(is_line) if is_line(line));
    TraceFormat::ALL.iter().copied().find(is_of)
}
