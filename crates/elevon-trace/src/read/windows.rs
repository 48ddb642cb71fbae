//! Reads disk I/O of Windows: CSV of xperf and of the Windows Performance Analyzer, and what
//! Sysinternals DiskMon saves.
//!
//! xperf's dumper prints a line of titles for each kind of row, and rows that end with the I/O:
//!
//! ```text
//! DiskRead, TimeStamp, Process Name ( PID), ThreadID, IrpPtr, ByteOffset, IOSize, ElapsedTime, ...
//! DiskRead, 8612, app.exe (3984), 11844, 0xffffe288b23f1b20, 0x018f0b8000, 0x00001000, 283, 0
//! ```
//!
//! Times are microseconds, offsets and sizes bytes. Other tables are read by their titles, which
//! may have a unit in parentheses. DiskMon's rows are number, time and duration in seconds, disk,
//! `Read` or `Write`, sector, sectors. Cost: O(length of the line).

#[cfg(test)]
mod tests;

use super::cursor::{Expected, whole_number};
use super::fields::hexadecimal;
use super::lines::{LineFormat, TextLine};
use super::rows::{
    Fields, MAX_FIELDS, MICROSECOND, MILLISECOND, Midnights, Row, Rows, SECOND, WINDOW, decimal,
    time_of_day,
};
use super::{Detect, Format};
use crate::event::{DeviceNumber, SECTOR_SIZE, TraceEvent, TraceKind};
use crate::op::TraceOp;
use crate::report::Position;
use crate::sink::Sink;

/// What this reader says of xperf's CSV.
pub(crate) const XPERF: Format = Format {
    name: "xperf",
    description: "disk I/O of Windows as CSV: xperf's dumper (DiskRead, DiskWrite), tables with titles of xperf and WPA",
    lacks: "flags, priority, error; CPU in older versions",
    has_volumes: true,
    has_processes: true,
    detect: Detect::Line(|line| Table::of_titles(line).is_some() || Table::of_row(line).is_some()),
    open: |inputs| super::text(inputs, Xperf::default()),
};

/// What this reader says of DiskMon.
pub(crate) const DISKMON: Format = Format {
    name: "diskmon",
    description: "Sysinternals DiskMon: number, time (s), duration (s), disk, Read or Write, sector, sectors",
    lacks: "process, CPU, flags, error",
    has_volumes: true,
    has_processes: false,
    detect: Detect::Line(|line| diskmon(line.trim_ascii(), &mut Midnights::default()).is_ok()),
    open: |inputs| super::text(inputs, DiskMon::default()),
};

/// What a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// `DiskRead`, `Write`, ...
    Kind,
    /// When the I/O began, in this unit.
    Start(u64),
    /// When it ended, in this unit.
    End(u64),
    /// From begin to end, in this unit.
    Elapsed(u64),
    /// `app.exe (3984)`.
    Process,
    Thread,
    Cpu,
    /// Offset in bytes.
    Offset,
    /// Size in bytes.
    Size,
    Disk,
    Other,
}

/// Returns the column of a title. A unit in parentheses counts only where a time stands.
fn column_of(title: &[u8]) -> Column {
    let open = memchr::memrchr(b'(', title);
    let unit = open
        .map(|at| title[at + 1..].trim_ascii())
        .map(|inside| inside.strip_suffix(b")").unwrap_or(inside));
    let unit = match unit {
        Some(b"s") => SECOND,
        Some(b"ms") => MILLISECOND,
        Some(b"ns") => 1,
        _ => MICROSECOND,
    };
    let words = open.map_or(title, |at| &title[..at]);
    let name: Vec<u8> =
        words.iter().filter(|b| b.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase).collect();
    match name.as_slice() {
        b"iotype" | b"type" | b"operation" => Column::Kind,
        b"starttime" | b"inittime" | b"start" => Column::Start(unit),
        b"timestamp" | b"endtime" | b"completetime" | b"end" => Column::End(unit),
        b"elapsedtime" | b"iotime" | b"elapsed" => Column::Elapsed(unit),
        b"processname" | b"process" => Column::Process,
        b"threadid" | b"thread" => Column::Thread,
        b"cpu" => Column::Cpu,
        b"byteoffset" | b"offset" | b"minoffset" => Column::Offset,
        b"iosize" | b"size" | b"bytes" => Column::Size,
        b"disknum" | b"disk" | b"disknumber" => Column::Disk,
        _ => Column::Other,
    }
}

/// The operation of a word: `DiskRead`, `Read`, ...
fn operation(word: &[u8]) -> Option<TraceOp> {
    match word.strip_prefix(b"Disk").unwrap_or(word) {
        b"Read" => Some(TraceOp::Read),
        b"Write" => Some(TraceOp::Write),
        b"Flush" | b"FlushBuffers" => Some(TraceOp::Flush),
        _ => None,
    }
}

/// The columns of rows of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Table {
    columns: Vec<Column>,
    delimiter: u8,
}

impl Table {
    /// Returns the columns that a line of titles names. They tell what was done, where and when.
    fn of_titles(line: &[u8]) -> Option<Self> {
        let line = line.trim_ascii();
        if !line.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'"') {
            return None;
        }
        let delimiter =
            [b',', b';', b'\t'].into_iter().find(|delimiter| line.contains(delimiter))?;
        let fields = Fields::of(line, delimiter);
        let mut columns: Vec<Column> = fields.all().iter().map(|title| column_of(title)).collect();
        let is_of_dumper =
            operation(fields.fields[0]).is_some_and(|_| fields.fields[0].starts_with(b"Disk"));
        if is_of_dumper {
            columns[0] = Column::Kind;
        }
        let has = |is: fn(&Column) -> bool| columns.iter().any(is);
        let is_flush = is_of_dumper && operation(fields.fields[0]) == Some(TraceOp::Flush);
        let is_whole = has(|c| *c == Column::Kind)
            && has(|c| matches!(c, Column::Start(_) | Column::End(_)))
            && (is_flush || has(|c| *c == Column::Offset) && has(|c| *c == Column::Size))
            // What MSR Cambridge has as titles is told by its own reader.
            && has(|c| matches!(c, Column::Elapsed(_) | Column::Start(_)));
        (is_whole && fields.count <= MAX_FIELDS).then_some(Self { columns, delimiter })
    }

    /// Returns the columns of a row of xperf's dumper, for a text without titles.
    fn of_row(line: &[u8]) -> Option<Self> {
        let fields = Fields::of(line.trim_ascii(), b',');
        let op = operation(fields.fields[0]).filter(|_| fields.fields[0].starts_with(b"Disk"))?;
        whole_number(fields.fields[1])?;
        let mut columns =
            vec![Column::Kind, Column::End(MICROSECOND), Column::Process, Column::Thread];
        // Newer versions have a CPU before the pointer of the request.
        columns.extend((!fields.fields[4].starts_with(b"0x")).then_some(Column::Cpu));
        columns.push(Column::Other);
        if op != TraceOp::Flush {
            columns.extend([Column::Offset, Column::Size]);
        }
        columns.extend([Column::Elapsed(MICROSECOND), Column::Disk]);
        (fields.count >= columns.len()).then_some(Self { columns, delimiter: b',' })
    }
}

/// Returns a number, which may be hexadecimal, or have commas between its thousands.
fn number(text: &[u8], expected: Expected) -> Result<u64, Expected> {
    if let Some(digits) = text.strip_prefix(b"0x") {
        return hexadecimal(digits).ok_or(expected);
    }
    if text.contains(&b',') {
        let digits: Vec<u8> = text.iter().copied().filter(|byte| *byte != b',').collect();
        return whole_number(&digits).ok_or(expected);
    }
    whole_number(text).ok_or(expected)
}

/// Splits `app.exe (3984)` into the name and the number of a process.
fn process(text: &[u8]) -> (&[u8], Option<u32>) {
    let Some(at) = memchr::memrchr(b'(', text) else { return (text, None) };
    let inside = text[at + 1..].trim_ascii();
    let id = inside.strip_suffix(b")").map(<[u8]>::trim_ascii).and_then(whole_number);
    match id.and_then(|id| u32::try_from(id).ok()) {
        Some(id) => (text[..at].trim_ascii(), Some(id)),
        None => (text, None),
    }
}

/// Returns a disk by its number, with a name.
fn disk(number: u64, sink: &mut Sink) -> Result<DeviceNumber, Expected> {
    let number = u32::try_from(number).map_err(|_| "the number of a disk")?;
    let device = DeviceNumber::new(0, number);
    sink.names.name_device(device, format!("disk{number}").as_bytes());
    Ok(device)
}

/// Reads one CSV of xperf.
#[derive(Default)]
pub(crate) struct Xperf {
    /// Columns of reads and writes, and of flushes, which have no place.
    moves: Option<Table>,
    flushes: Option<Table>,
    rows: Rows,
}

impl LineFormat for Xperf {
    const WINDOW: usize = WINDOW;

    fn line(&mut self, line: TextLine<'_>, sink: &mut Sink) {
        let text = line.text.trim_ascii();
        let is_flush = text.starts_with(b"DiskFlush");
        let known = if is_flush { &mut self.flushes } else { &mut self.moves };
        if let Some(table) = Table::of_titles(text) {
            *known = Some(table);
            sink.report.other += 1;
            return;
        }
        if known.is_none() || is_flush {
            *known = known.take().or_else(|| Table::of_row(text));
        }
        // The dumper prints every other event of Windows too.
        let is_row = |table: &Table| {
            let at = table.columns.iter().position(|column| *column == Column::Kind).unwrap_or(0);
            Fields::of(text, table.delimiter)
                .all()
                .get(at)
                .is_some_and(|kind| operation(kind).is_some())
        };
        let Some(table) = known.as_ref().filter(|table| is_row(table)) else {
            sink.report.other += 1;
            return;
        };
        match row(table, text, line.number, sink) {
            Ok(row) => self.rows.push(row, sink),
            Err(expected) => sink.skip(0, Position::Line(line.number), expected),
        }
    }

    fn finish(&mut self, sink: &mut Sink) {
        self.rows.release(sink);
    }
}

fn row(table: &Table, text: &[u8], line: u64, sink: &mut Sink) -> Result<Row, Expected> {
    let fields = Fields::of(text, table.delimiter);
    let mut event = TraceEvent::new(TraceKind::Issue);
    let (mut start, mut end, mut elapsed, mut offset) = (None, None, None, None);
    for (at, column) in table.columns.iter().enumerate() {
        let Some(&field) = fields.all().get(at) else { break };
        let time =
            |unit| decimal(field, unit).map(|(ns, _)| ns).ok_or("a time in the unit of its title");
        let small =
            |expected| number(field, expected).and_then(|n| u32::try_from(n).map_err(|_| expected));
        match column {
            Column::Kind => event.op = operation(field),
            Column::Start(unit) => start = Some(time(*unit)?),
            Column::End(unit) => end = Some(time(*unit)?),
            Column::Elapsed(unit) => elapsed = Some(time(*unit)?),
            Column::Process => {
                let (comm, id) = process(field);
                (event.comm, event.process) = (sink.names.intern(comm), id);
            }
            Column::Thread => event.tid = Some(small("the number of a thread")?),
            Column::Cpu => event.cpu = Some(small("the number of a CPU")?),
            Column::Offset => offset = Some(number(field, "an offset in bytes")?),
            Column::Size => event.bytes = Some(number(field, "a size in bytes")?),
            Column::Disk => {
                event.device = Some(disk(number(field, "the number of a disk")?, sink)?);
            }
            Column::Other => {}
        }
    }
    let latency = match (elapsed, start, end) {
        (Some(elapsed), _, _) => elapsed,
        (None, Some(start), Some(end)) => {
            end.checked_sub(start).ok_or("an end that is not before the start")?
        }
        _ => return Err("the time that the I/O took"),
    };
    if event.op == Some(TraceOp::Flush) {
        event.bytes = Some(0);
    } else {
        let offset = offset.ok_or("an offset in bytes")?;
        if !offset.is_multiple_of(SECTOR_SIZE) {
            sink.report.note(
                "some offsets are within a sector of 512 bytes: their I/Os begin with that sector",
            );
        }
        event.sector = Some(offset / SECTOR_SIZE);
        event.bytes.ok_or("a size in bytes")?;
    }
    if event.device.is_none() {
        event.device = Some(disk(0, sink)?);
    }
    sink.report.resolution_ns.get_or_insert(MICROSECOND);
    let end = end.or(start.map(|start| start.saturating_add(latency)));
    Ok(Row { event, end, latency, queued: None, line })
}

/// A row of DiskMon.
struct DiskMonRow {
    start: u64,
    duration: u64,
    disk: u64,
    op: TraceOp,
    sector: u64,
    bytes: u64,
}

/// Parses a row of DiskMon; fields are separated by tabs, commas or blanks.
fn diskmon(text: &[u8], midnights: &mut Midnights) -> Result<DiskMonRow, Expected> {
    const EXPECTED: Expected =
        "number, time, duration in seconds, disk, Read or Write, sector, sectors";
    let mut words: Vec<&[u8]> = text
        .split(|byte| matches!(byte, b'\t' | b' ' | b',' | b';'))
        .map(|word| {
            word.strip_prefix(b"\"").and_then(|word| word.strip_suffix(b"\"")).unwrap_or(word)
        })
        .filter(|word| !word.is_empty())
        .take(9)
        .collect();
    // A time of day may have `AM` or `PM` behind it.
    let afternoon = match words.get(2) {
        Some(&half @ (b"AM" | b"PM")) => {
            words.remove(2);
            Some(half == b"PM")
        }
        _ => None,
    };
    let &[count, time, duration, disk, op, sector, sectors] = words.as_slice() else {
        return Err(EXPECTED);
    };
    whole_number(count).ok_or(EXPECTED)?;
    let start = match (decimal(time, SECOND), time.contains(&b'.')) {
        (Some((ns, _)), true) => ns,
        _ => {
            let of_day = time_of_day(time).ok_or("a time in seconds or of day")?;
            let hour = of_day / (3600 * SECOND);
            let half_day = 12 * 3600 * SECOND;
            midnights.time(match afternoon {
                Some(true) if hour < 12 => of_day + half_day,
                Some(false) if hour == 12 => of_day - half_day,
                _ => of_day,
            })
        }
    };
    let (duration, _) = decimal(duration, SECOND).ok_or("a duration in seconds")?;
    let disk = whole_number(disk).ok_or("the number of a disk")?;
    let op = operation(op).filter(|op| *op != TraceOp::Flush).ok_or("Read or Write")?;
    let sector = whole_number(sector).ok_or("a sector")?;
    let sectors = whole_number(sectors).ok_or("a number of sectors")?;
    let bytes = sectors.checked_mul(SECTOR_SIZE).ok_or("a number of sectors")?;
    Ok(DiskMonRow { start, duration, disk, op, sector, bytes })
}

/// Reads what DiskMon saved.
#[derive(Default)]
pub(crate) struct DiskMon {
    midnights: Midnights,
    rows: Rows,
}

impl LineFormat for DiskMon {
    const WINDOW: usize = WINDOW;

    fn line(&mut self, line: TextLine<'_>, sink: &mut Sink) {
        let text = line.text.trim_ascii();
        if !text.first().is_some_and(u8::is_ascii_digit) && text.first() != Some(&b'"') {
            sink.report.other += 1;
            return;
        }
        let row =
            diskmon(text, &mut self.midnights).and_then(|row| Ok((disk(row.disk, sink)?, row)));
        match row {
            Ok((device, row)) => {
                let event = TraceEvent {
                    device: Some(device),
                    op: Some(row.op),
                    sector: Some(row.sector),
                    bytes: Some(row.bytes),
                    ..TraceEvent::new(TraceKind::Issue)
                };
                let end = Some(row.start.saturating_add(row.duration));
                let row =
                    Row { event, end, latency: row.duration, queued: None, line: line.number };
                self.rows.push(row, sink);
            }
            Err(expected) => sink.skip(0, Position::Line(line.number), expected),
        }
    }

    fn finish(&mut self, sink: &mut Sink) {
        self.rows.release(sink);
    }
}
