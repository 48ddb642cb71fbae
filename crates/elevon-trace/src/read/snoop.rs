//! Reads the output of `biosnoop` of bcc, libbpf-tools and bpftrace, and of `iosnoop` of perf-tools
//! and DTrace: a row for each I/O that ended, with its latency.
//!
//! The line of titles says what the columns are, and in which unit:
//!
//! ```text
//! TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)
//! 0.000310    postgres       4242    vdb       W 81920      8192      0.02    0.41
//! ```
//!
//! A request was issued its latency before it ended, and inserted its time in the queue before
//! that. Rows of bcc without titles are read too. Cost: O(length of the line).

#[cfg(test)]
mod tests;

use super::cursor::{Cursor, Expected, whole_number};
use super::lines::{LineFormat, TextLine};
use super::rows::{
    MICROSECOND, MILLISECOND, Midnights, Row, Rows, SECOND, WINDOW, decimal, time_of_day,
};
use super::{Detect, Format};
use crate::event::{DeviceNumber, TraceEvent, TraceKind};
use crate::op::parse_rwbs;
use crate::report::{Gap, Position};
use crate::sink::Sink;

/// What this reader says of its format.
pub(crate) const FORMAT: Format = Format {
    name: "snoop",
    description: "output of biosnoop (bcc, bpftrace) and iosnoop (perf-tools, DTrace)",
    lacks: "CPU, tag, priority, cgroup, error, bios; bpftrace's biosnoop: sector, size and operation too",
    // The disk of a row is a whole one.
    has_volumes: true,
    has_processes: true,
    detect: Detect::Line(|line| {
        Columns::of_titles(line).is_some() || Columns::of_row(line).is_some()
    }),
    open: |inputs| super::text(inputs, Snoop::default()),
};

/// What a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// A time at which the I/O began, in this unit.
    Start(u64),
    /// A time at which the I/O ended, in this unit.
    End(u64),
    /// A time at which it ended: of day, or in microseconds.
    Clock,
    /// From issue to end, in this unit.
    Latency(u64),
    /// From insertion to issue, in this unit.
    Queued(u64),
    /// Name of the task, which may have blanks.
    Comm,
    /// Number of the process.
    Pid,
    /// Number of the thread that issued it: that is what ftrace has as its PID.
    Tid,
    /// Name of the disk.
    Disk,
    /// Numbers of the disk, `202,16`.
    Device,
    Major,
    Minor,
    /// Letters of the operation.
    Op,
    Sector,
    Bytes,
    /// Whether the I/O is sequential; blank in some rows.
    Pattern,
    /// All words to the end of the line.
    Rest,
    /// A word of no interest.
    Other,
}

/// Returns the column of a title.
fn column_of(title: &[u8]) -> Option<Column> {
    Some(match title {
        b"TIME(s)" | b"ENDs" => Column::End(SECOND),
        b"TIME(ms)" => Column::End(MILLISECOND),
        b"TIME(us)" => Column::End(MICROSECOND),
        b"TIME" | b"TIMESTAMP" => Column::Clock,
        b"STARTs" => Column::Start(SECOND),
        b"STIME" | b"STIME(us)" => Column::Start(MICROSECOND),
        b"LAT(ms)" | b"LATms" => Column::Latency(MILLISECOND),
        b"LAT(us)" | b"DELTA" | b"DELTA(us)" => Column::Latency(MICROSECOND),
        b"QUE(ms)" => Column::Queued(MILLISECOND),
        b"QUE(us)" => Column::Queued(MICROSECOND),
        b"COMM" => Column::Comm,
        b"PID" => Column::Pid,
        b"TID" => Column::Tid,
        b"DISK" | b"DEVICE" => Column::Disk,
        b"DEV" => Column::Device,
        b"T" | b"TYPE" | b"D" => Column::Op,
        b"SECTOR" | b"BLOCK" => Column::Sector,
        b"BYTES" | b"SIZE" => Column::Bytes,
        b"P" => Column::Pattern,
        b"PATHNAME" | b"ARGS" | b"..." => Column::Rest,
        b"UID" | b"PPID" | b"DTIME" | b"DTIME(us)" | b"INS" | b"IOBYTES" => Column::Other,
        _ => return None,
    })
}

/// The columns of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Columns {
    all: Vec<Column>,
    /// True if the letters have flags, so that a `W` alone says that there are none.
    has_flags: bool,
}

/// Maximum length of a task's name in bytes.
const MAX_COMM: usize = 16;

/// Maximum number of columns.
const MAX_COLUMNS: usize = 20;

fn words(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

impl Columns {
    /// Returns the columns that a line of titles names. It has a latency, or both times, and at
    /// least three columns, and every title is known.
    fn of_titles(line: &[u8]) -> Option<Self> {
        let first = words(line).next()?;
        if !first.first().is_some_and(u8::is_ascii_uppercase) {
            return None;
        }
        let mut all: Vec<Column> = Vec::new();
        for title in words(line) {
            if title == b"ID" && all.last() == Some(&Column::Disk) {
                all.pop();
                all.extend([Column::Major, Column::Minor]);
            } else {
                all.push(column_of(title)?);
            }
            if all.len() > MAX_COLUMNS {
                return None;
            }
        }
        let has = |is: fn(&Column) -> bool| all.iter().any(is);
        let has_latency = has(|c| matches!(c, Column::Latency(_)))
            || has(|c| matches!(c, Column::Start(_))) && has(|c| matches!(c, Column::End(_)));
        // perf-tools has the letters of the kernel in TYPE, and libbpf-tools in a T of width 4.
        let has_flags = words(line).any(|title| title == b"TYPE")
            || memchr::memmem::find(line, b" T    ").is_some();
        // iosnoop's PID is what ftrace has before the dash: a thread.
        let is_of_ftrace =
            all.contains(&Column::Device) && has(|c| matches!(c, Column::Latency(MILLISECOND)));
        for column in &mut all {
            if is_of_ftrace && *column == Column::Pid {
                *column = Column::Tid;
            }
        }
        (has_latency && all.len() >= 3).then_some(Self { all, has_flags })
    }

    /// Returns the columns of a row of bcc's biosnoop, for a text without titles.
    fn of_row(line: &[u8]) -> Option<Self> {
        let has_fraction = |word: &[u8]| decimal(word, SECOND).is_some() && word.contains(&b'.');
        if !words(line).next().is_some_and(has_fraction) {
            return None;
        }
        let mut last = words(line).rev();
        if !last.next().is_some_and(has_fraction) {
            return None;
        }
        let is_queued = last.next().is_some_and(has_fraction);
        let mut all = vec![
            Column::End(SECOND),
            Column::Comm,
            Column::Pid,
            Column::Disk,
            Column::Op,
            Column::Sector,
            Column::Bytes,
            Column::Pattern,
        ];
        all.extend(is_queued.then_some(Column::Queued(MILLISECOND)));
        all.push(Column::Latency(MILLISECOND));
        let columns = Self { all, has_flags: false };
        let values = columns.values(line, &mut Midnights::default()).ok()?;
        let is_named = values.disk.is_some_and(|disk| !disk[0].is_ascii_digit());
        let comm = values.comm.unwrap_or_default();
        (is_named && (1..=MAX_COMM).contains(&comm.len())).then_some(columns)
    }

    /// Parses a row.
    fn values<'a>(
        &self,
        line: &'a [u8],
        midnights: &mut Midnights,
    ) -> Result<Values<'a>, Expected> {
        let mut values = Values { has_flags: self.has_flags, ..Values::default() };
        let mut rest = line.trim_ascii();
        let comm = self.all.iter().position(|column| *column == Column::Comm);
        // The words after a name that may have blanks are told from the right.
        let from_right = match comm {
            Some(at) if !self.all.contains(&Column::Rest) => &self.all[at + 1..],
            _ => &[],
        };
        let from_left = &self.all[..self.all.len() - from_right.len()];
        for column in from_right.iter().rev() {
            let (before, word) = last_word(rest);
            if *column == Column::Pattern && whole_number(word).is_some() {
                continue;
            }
            values.set(*column, word, midnights)?;
            rest = before;
        }
        for column in from_left {
            match column {
                Column::Rest => break,
                Column::Comm if !from_right.is_empty() => {
                    values.comm = Some(rest.trim_ascii());
                    rest = b"";
                }
                _ => {
                    let (word, after) = first_word(rest);
                    values.set(*column, word, midnights)?;
                    rest = after;
                }
            }
        }
        if !rest.is_empty()
            && !self.all.contains(&Column::Rest)
            && comm.is_none_or(|at| at + 1 < self.all.len())
        {
            return Err("as many words as the titles say");
        }
        Ok(values)
    }
}

/// Splits off the last word of a text without blanks at its end.
fn last_word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
    (text[..end].trim_ascii_end(), &text[end..])
}

/// Splits off the first word of a text without blanks at its start.
fn first_word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    (&text[..end], text[end..].trim_ascii_start())
}

/// The values of a row.
#[derive(Default)]
struct Values<'a> {
    event: Option<TraceEvent>,
    start: Option<u64>,
    end: Option<u64>,
    latency: Option<u64>,
    queued: Option<u64>,
    /// Resolution of the latency.
    resolution: Option<u64>,
    comm: Option<&'a [u8]>,
    disk: Option<&'a [u8]>,
    major: Option<u32>,
    has_flags: bool,
}

impl<'a> Values<'a> {
    fn set(
        &mut self,
        column: Column,
        word: &'a [u8],
        midnights: &mut Midnights,
    ) -> Result<(), Expected> {
        let event = self.event.get_or_insert(TraceEvent::new(TraceKind::Issue));
        let small =
            |expected| whole_number(word).and_then(|n| u32::try_from(n).ok()).ok_or(expected);
        let time =
            |unit| decimal(word, unit).map(|(ns, _)| ns).ok_or("a time in the unit of its title");
        match column {
            Column::Start(unit) => self.start = Some(time(unit)?),
            Column::End(unit) => self.end = Some(time(unit)?),
            Column::Clock => {
                let clock = match word.contains(&b':') {
                    true => time_of_day(word).map(|of_day| midnights.time(of_day)),
                    false => decimal(word, MICROSECOND).map(|(ns, _)| ns),
                };
                self.end = self.end.or(Some(clock.ok_or("a time")?));
            }
            Column::Latency(unit) => {
                let (latency, resolution) = decimal(word, unit).ok_or("a latency, not below 0")?;
                (self.latency, self.resolution) = (Some(latency), Some(resolution));
            }
            Column::Queued(unit) => {
                self.queued =
                    Some(decimal(word, unit).ok_or("a time in the queue, not below 0")?.0);
            }
            Column::Comm => self.comm = Some(word),
            Column::Pid => event.process = Some(small("the number of a process")?),
            Column::Tid => event.tid = Some(small("the number of a task")?),
            Column::Disk if word.is_empty() => return Err("the name of a disk"),
            Column::Disk => self.disk = Some(word),
            Column::Device => {
                let (major, minor) = Cursor::new(word).device()?;
                event.device = Some(DeviceNumber::new(major, minor));
            }
            Column::Major => self.major = Some(small("the major number of a disk")?),
            Column::Minor => {
                let minor = small("the minor number of a disk")?;
                event.device = self.major.map(|major| DeviceNumber::new(major, minor));
            }
            Column::Op => {
                let (op, flags) =
                    parse_rwbs(word).ok_or("letters of an operation such as R or WS")?;
                event.op = Some(op);
                event.flags = (self.has_flags || word.len() > 1).then_some(flags);
            }
            Column::Sector => {
                // A flush has no sector, which is -1.
                let is_none = word == b"-1" || word == b"18446744073709551615";
                event.sector =
                    if is_none { None } else { Some(whole_number(word).ok_or("a sector")?) };
            }
            Column::Bytes => event.bytes = Some(whole_number(word).ok_or("a number of bytes")?),
            Column::Pattern | Column::Rest | Column::Other => {}
        }
        Ok(())
    }
}

/// Reads one text.
#[derive(Default)]
pub(crate) struct Snoop {
    columns: Option<Columns>,
    rows: Rows,
    midnights: Midnights,
}

/// Name of the disk in a text that does not name it.
const NAMELESS: &[u8] = b"disk";

impl LineFormat for Snoop {
    const WINDOW: usize = WINDOW;

    fn line(&mut self, line: TextLine<'_>, sink: &mut Sink) {
        let text = line.text.trim_ascii();
        let is_row = text
            .first()
            .is_some_and(|&byte| byte.is_ascii_digit() || self.columns.is_some() && byte == b'<');
        if let Some(columns) = Columns::of_titles(text) {
            self.columns = Some(columns);
            sink.report.other += 1;
        } else if text.is_empty() || is_remark(text) {
            sink.report.other += 1;
            if let Some(gap) = lost(text) {
                sink.push_gap(gap);
            }
        } else if self.columns.is_some() || is_row && self.columns_of(text) {
            if let Err(expected) = self.row(text, line.number, sink) {
                sink.skip(0, Position::Line(line.number), expected);
            }
        } else if is_row {
            sink.skip(0, Position::Line(line.number), "a line of titles before the first row");
        } else {
            sink.report.other += 1;
        }
    }

    fn finish(&mut self, sink: &mut Sink) {
        self.rows.release(sink);
    }
}

/// Returns true for a line that a tool prints beside its rows.
fn is_remark(text: &[u8]) -> bool {
    [
        &b"Tracing "[..],
        b"Attaching ",
        b"Attached ",
        b"MAJOR",
        b"lost ",
        b"Possibly lost ",
        b"Ending tracing",
        b"^C",
        b"#",
    ]
    .iter()
    .any(|start| text.starts_with(start))
}

/// Returns the gap of `lost 42 events on CPU #1` or `Possibly lost 42 samples`.
fn lost(text: &[u8]) -> Option<Gap> {
    let rest = text.strip_prefix(b"Possibly ").unwrap_or(text).strip_prefix(b"lost ")?;
    let events = Cursor::new(rest).digits();
    let cpu = memchr::memrchr(b'#', rest).and_then(|at| Cursor::new(&rest[at + 1..]).digits());
    Some(Gap { cpu: cpu.and_then(|cpu| u32::try_from(cpu).ok()), events, from: None, until: None })
}

impl Snoop {
    /// Takes the columns of a row without titles. Returns false if it is none.
    fn columns_of(&mut self, text: &[u8]) -> bool {
        self.columns = Columns::of_row(text);
        self.columns.is_some()
    }

    fn row(&mut self, text: &[u8], line: u64, sink: &mut Sink) -> Result<(), Expected> {
        let Some(columns) = &self.columns else { return Ok(()) };
        let values = columns.values(text, &mut self.midnights)?;
        let mut event = values.event.ok_or("a row")?;
        if event.device.is_none() {
            event.device = sink.names.volume(values.disk.unwrap_or(NAMELESS));
        }
        event.comm = values.comm.and_then(|comm| sink.names.intern(comm));
        let latency = match (values.latency, values.start, values.end) {
            (Some(latency), _, _) => latency,
            (None, Some(start), Some(end)) => {
                end.checked_sub(start).ok_or("an end that is not before the start")?
            }
            _ => return Err("a latency"),
        };
        if let Some(resolution) = values.resolution {
            sink.report.resolution_ns.get_or_insert(resolution);
        }
        let end = values.end.or(values.start.map(|start| start.saturating_add(latency)));
        self.rows.push(Row { event, end, latency, queued: values.queued, line }, sink);
        Ok(())
    }
}
