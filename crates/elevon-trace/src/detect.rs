//! Detects the format of a trace from its content.

use crate::input::MAX_PIECE;
use crate::read::csv::CsvKind;
use crate::read::lines::BOM;
use crate::read::{blkparse, blktrace, csv, event_csv, fio_log, ftrace, perfetto};

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceFormat {
    /// Tracepoints as text: the kernel's `trace` file, `trace-cmd report`, `perf script`, lines
    /// without prefix.
    Ftrace,
    /// blktrace's binary records, versions 7 and 8.
    Blktrace,
    /// Output of `blkparse`.
    Blkparse,
    /// Perfetto's protobuf packets.
    Perfetto,
    /// fio's iolog, versions 2 and 3.
    FioLog,
    /// CSV of MSR Cambridge.
    Msr,
    /// CSV of Alibaba's block traces.
    Alibaba,
    /// CSV of Tencent CBS.
    Tencent,
    /// CSV of Systor '17.
    Systor,
    /// The UMass repository's SPC format.
    Spc,
    /// CSV of events, as [`crate::write::csv`] writes it.
    Csv,
}

impl TraceFormat {
    /// Every format.
    pub const ALL: [Self; 11] = [
        Self::Ftrace,
        Self::Blktrace,
        Self::Blkparse,
        Self::Perfetto,
        Self::FioLog,
        Self::Msr,
        Self::Alibaba,
        Self::Tencent,
        Self::Systor,
        Self::Spc,
        Self::Csv,
    ];

    /// Returns a short stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ftrace => "ftrace",
            Self::Blktrace => "blktrace",
            Self::Blkparse => "blkparse",
            Self::Perfetto => "perfetto",
            Self::FioLog => "fio-iolog",
            Self::Msr => "msr",
            Self::Alibaba => "alibaba",
            Self::Tencent => "tencent",
            Self::Systor => "systor",
            Self::Spc => "spc",
            Self::Csv => "csv",
        }
    }

    /// Returns true if its events are whole I/Os of volumes, which are no partitions of each other.
    pub const fn has_volumes(self) -> bool {
        matches!(self, Self::Msr | Self::Alibaba | Self::Tencent | Self::Systor | Self::Spc)
    }

    /// Returns true if its events may have the process of each thread.
    pub const fn has_processes(self) -> bool {
        matches!(self, Self::Ftrace | Self::Perfetto | Self::Csv)
    }

    /// Returns a description of one line.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Ftrace => "text of tracepoints: tracefs, trace-cmd report, perf script",
            Self::Blktrace => "blktrace's binary records, one file a CPU or one merged file",
            Self::Blkparse => "what blkparse prints",
            Self::Perfetto => "Perfetto's protobuf, plain or compressed, with ftrace events block/*",
            Self::FioLog => "fio's iolog (write_iolog=), version 2 or 3",
            Self::Msr => "MSR Cambridge CSV: time, host, disk, type, offset, bytes, response",
            Self::Alibaba => "Alibaba CSV: volume, type, offset, bytes, time",
            Self::Tencent => "Tencent CBS CSV: time, offset, size, type, volume",
            Self::Systor => "Systor '17 CSV: time, response, type, LUN, offset, bytes",
            Self::Spc => "SPC: ASU, sector, bytes, type, time",
            Self::Csv => "CSV of events, as Elevon writes it",
        }
    }
}

/// Maximum number of bytes of a trace that are examined to detect its format.
pub(crate) const LOOK_AT: usize = MAX_PIECE / 4;

/// Returns the format of a (decompressed) trace that starts with these bytes.
pub(crate) fn detect(head: &[u8]) -> Option<TraceFormat> {
    if blktrace::is_blktrace(head) {
        return Some(TraceFormat::Blktrace);
    }
    if perfetto::is_perfetto(head) {
        return Some(TraceFormat::Perfetto);
    }
    let head = head.strip_prefix(BOM).unwrap_or(head);
    // The last line may be incomplete, except if it is the only one.
    let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    let lines = || whole.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    if lines().next().is_some_and(|line| fio_log::version(line).is_some()) {
        return Some(TraceFormat::FioLog);
    }
    if lines().next().is_some_and(event_csv::is_header) {
        return Some(TraceFormat::Csv);
    }
    // The first line may contain titles, and a text may start with other lines.
    for line in lines() {
        if ftrace::is_line(line) {
            return Some(TraceFormat::Ftrace);
        }
        if blkparse::is_line(line) {
            return Some(TraceFormat::Blkparse);
        }
        match csv::kind_of(line) {
            Some(CsvKind::Msr) => return Some(TraceFormat::Msr),
            Some(CsvKind::Alibaba) => return Some(TraceFormat::Alibaba),
            Some(CsvKind::Tencent) => return Some(TraceFormat::Tencent),
            Some(CsvKind::Systor) => return Some(TraceFormat::Systor),
            Some(CsvKind::Spc) => return Some(TraceFormat::Spc),
            None => {}
        }
    }
    None
}
