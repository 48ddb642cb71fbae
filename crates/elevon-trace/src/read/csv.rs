//! Reads traces of whole I/Os in comma-separated values: MSR Cambridge, Alibaba, Tencent CBS,
//! Systor '17, SPC.
//!
//! | format | line | units |
//! |---|---|---|
//! | MSR Cambridge | time, host, disk, Read or Write, offset, bytes, response | 100 ns since 1601, bytes, 100 ns |
//! | Alibaba | volume, R or W, offset, bytes, time | bytes, µs since 1970 |
//! | Tencent CBS | time, offset, size, 0 (read) or 1 (write), volume | s since 1970, sectors |
//! | Systor '17 | time, response, type, LUN, offset, bytes | s since 1970 with fraction, s, bytes |
//! | SPC | ASU, sector, bytes, R or W, time | s with fraction |
//!
//! Each line is one [`TraceKind::Io`], with its response time if the format has it. Cost: O(length
//! of the line).

#[cfg(test)]
mod tests;

use super::cursor::{Expected, whole_number};
use super::lines::{LineFormat, TextLine};
use super::rows::{Fields, SECOND, decimal};
use super::{Detect, Format};
use crate::event::{DeviceNumber, SECTOR_SIZE, TraceEvent, TraceKind};
use crate::op::TraceOp;
use crate::report::Position;
use crate::sink::{BATCH, Sink};

/// What this reader says of the CSV of MSR Cambridge.
pub(crate) const MSR: Format = Format {
    name: "msr",
    description: "MSR Cambridge CSV: time, host, disk, type, offset, bytes, response",
    lacks: "process, CPU, flags",
    has_volumes: true,
    has_processes: false,
    detect: Detect::Line(|line| is_line(msr, line)),
    open: |inputs| super::text(inputs, Csv::new(msr)),
};

/// What this reader says of Alibaba's CSV.
pub(crate) const ALIBABA: Format = Format {
    name: "alibaba",
    description: "Alibaba CSV: volume, type, offset, bytes, time",
    lacks: "process, CPU, flags, response time",
    has_volumes: true,
    has_processes: false,
    detect: Detect::Line(|line| is_line(alibaba, line)),
    open: |inputs| super::text(inputs, Csv::new(alibaba)),
};

/// What this reader says of Tencent's CSV.
pub(crate) const TENCENT: Format = Format {
    name: "tencent",
    description: "Tencent CBS CSV: time, offset, size, type, volume",
    lacks: "process, CPU, flags, response time, times below a second",
    has_volumes: true,
    has_processes: false,
    detect: Detect::Line(|line| is_line(tencent, line)),
    open: |inputs| super::text(inputs, Csv { has_whole_seconds: true, ..Csv::new(tencent) }),
};

/// What this reader says of the CSV of Systor '17.
pub(crate) const SYSTOR: Format = Format {
    name: "systor",
    description: "Systor '17 CSV: time, response, type, LUN, offset, bytes",
    lacks: "process, CPU, flags",
    has_volumes: true,
    has_processes: false,
    detect: Detect::Line(|line| line.trim_ascii() == SYSTOR_HEADER || is_line(systor, line)),
    open: |inputs| super::text(inputs, Csv::new(systor)),
};

/// What this reader says of SPC.
pub(crate) const SPC: Format = Format {
    name: "spc",
    description: "SPC: ASU, sector, bytes, type, time",
    lacks: "process, CPU, flags, response time",
    has_volumes: true,
    has_processes: false,
    detect: Detect::Line(|line| is_line(spc, line)),
    open: |inputs| super::text(inputs, Csv::new(spc)),
};

/// Parses the fields of a line of one of these formats.
type Parse = for<'a> fn(&Fields<'a>) -> Result<Io<'a>, Expected>;

/// Returns true for a line of a format.
fn is_line(parse: Parse, line: &[u8]) -> bool {
    parse(&Fields::of(line, b',')).is_ok()
}

/// The first line of a Systor '17 trace.
const SYSTOR_HEADER: &[u8] = b"Timestamp,Response,IOType,LUN,Offset,Size";
/// Number of 100 ns units from 1601 to 1970.
const FILETIME_OF_1970: u64 = 116_444_736_000_000_000;
/// I/Os of one second that are spread over it; further ones are all at its end.
const MAX_SPREAD: usize = 1 << 16;
/// Reads one trace.
pub(crate) struct Csv {
    parse: Parse,
    /// True if times are whole seconds, whose I/Os are spread over each.
    has_whole_seconds: bool,
    /// The I/Os of the current second with their line numbers, in a format whose times are whole
    /// seconds.
    second: Vec<(TraceEvent, u64)>,
    /// A second that held more I/Os than are spread over it.
    full: Option<u64>,
}

impl Csv {
    const fn new(parse: Parse) -> Self {
        Self { parse, has_whole_seconds: false, second: Vec::new(), full: None }
    }

    /// Spreads the I/Os of a second evenly over it.
    fn end_second(&mut self, sink: &mut Sink) {
        let count = self.second.len() as u64;
        for (n, (mut event, number)) in self.second.drain(..).enumerate() {
            event.time =
                event.time.map(|time| time.saturating_add(n as u64 * 1_000_000_000 / count));
            sink.push(event, 0, Position::Line(number));
        }
    }

    fn second(&mut self, event: TraceEvent, number: u64, sink: &mut Sink) {
        sink.report.resolution_ns.get_or_insert(1_000_000_000);
        sink.report.note("times are whole seconds: the I/Os of a second are spread evenly over it");
        if self.second.first().is_some_and(|(first, _)| first.time != event.time) {
            self.end_second(sink);
        }
        if self.full.is_some() && self.full == event.time {
            let time = event.time.map(|time| time.saturating_add(999_999_999));
            return sink.push(TraceEvent { time, ..event }, 0, Position::Line(number));
        }
        self.second.push((event, number));
        if self.second.len() >= MAX_SPREAD {
            sink.report.note(
                "a second holds more I/Os than are spread over it: the others are at its end",
            );
            self.full = event.time;
            self.end_second(sink);
        }
    }
}

impl LineFormat for Csv {
    // Times of several servers and volumes may be far out of order.
    const WINDOW: usize = BATCH * 4;

    fn line(&mut self, line: TextLine<'_>, sink: &mut Sink) {
        let text = line.text.trim_ascii();
        if text.is_empty() || text == SYSTOR_HEADER || text[0] == b'#' {
            sink.report.other += 1;
            return;
        }
        match (self.parse)(&Fields::of(text, b',')) {
            Ok(Io { mut event, named, is_within_sector }) => {
                if let Some((host, disk)) = named {
                    event.device = sink.names.volume_of(host, disk);
                }
                if is_within_sector {
                    sink.report
                        .note("some offsets are within a sector of 512 bytes: their I/Os begin with that sector");
                }
                if self.has_whole_seconds {
                    self.second(event, line.number, sink);
                } else {
                    sink.push(event, 0, Position::Line(line.number));
                }
            }
            // Files in any of these formats may start with a line of titles.
            Err(_) if line.number == 1 && (text[0] == b'"' || text[0].is_ascii_alphabetic()) => {
                sink.report.other += 1;
            }
            Err(expected) => sink.skip(0, Position::Line(line.number), expected),
        }
    }

    fn finish(&mut self, sink: &mut Sink) {
        self.end_second(sink);
    }
}

/// The I/O of a line.
struct Io<'a> {
    /// The event, with its volume as the device if that has a number.
    event: TraceEvent,
    /// Host and disk of a volume that is named by these.
    named: Option<(&'a [u8], &'a [u8])>,
    /// True if the offset was within a sector.
    is_within_sector: bool,
}

fn msr<'a>(fields: &Fields<'a>) -> Result<Io<'a>, Expected> {
    if fields.count != 7 {
        return Err("seven fields: time, host, disk, Read or Write, offset, bytes, response");
    }
    let ticks = fields.number(0, "a time in units of 100 ns")?;
    let response = fields.number(6, "a response time in units of 100 ns")?.checked_mul(100);
    let op = match fields.fields[3] {
        word if word.eq_ignore_ascii_case(b"read") => TraceOp::Read,
        word if word.eq_ignore_ascii_case(b"write") => TraceOp::Write,
        _ => return Err("Read or Write"),
    };
    whole_number(fields.fields[2]).ok_or("the number of a disk")?;
    // A time before 1970 is one since the trace began.
    let since = ticks.checked_sub(FILETIME_OF_1970).unwrap_or(ticks);
    let time = since.checked_mul(100).ok_or("a time in units of 100 ns")?;
    let io = io(
        time,
        op,
        fields.number(4, "an offset in bytes")?,
        fields.number(5, "a length in bytes")?,
        response,
    );
    Ok(Io { named: Some((fields.fields[1], fields.fields[2])), ..io })
}

fn alibaba<'a>(fields: &Fields<'a>) -> Result<Io<'a>, Expected> {
    if fields.count != 5 {
        return Err("five fields: volume, R or W, offset, bytes, time");
    }
    let volume = volume(fields.fields[0])?;
    let op = letter(fields.fields[1])?;
    let time = fields
        .number(4, "a time in microseconds")?
        .checked_mul(1000)
        .ok_or("a time in microseconds")?;
    let mut io = io(
        time,
        op,
        fields.number(2, "an offset in bytes")?,
        fields.number(3, "a length in bytes")?,
        None,
    );
    io.event.device = Some(volume);
    Ok(io)
}

fn tencent<'a>(fields: &Fields<'a>) -> Result<Io<'a>, Expected> {
    if fields.count != 5 {
        return Err("five fields: time, offset, size, 0 or 1, volume");
    }
    let op = match fields.fields[3] {
        b"0" => TraceOp::Read,
        b"1" => TraceOp::Write,
        _ => return Err("0 for a read or 1 for a write"),
    };
    let time = fields
        .number(0, "a time in seconds")?
        .checked_mul(1_000_000_000)
        .ok_or("a time in seconds")?;
    let sector = fields.number(1, "an offset in sectors")?;
    let bytes = fields
        .number(2, "a size in sectors")?
        .checked_mul(SECTOR_SIZE)
        .ok_or("a size in sectors")?;
    let mut io = io(time, op, 0, bytes, None);
    (io.event.sector, io.event.device) = (Some(sector), Some(volume(fields.fields[4])?));
    Ok(io)
}

fn systor<'a>(fields: &Fields<'a>) -> Result<Io<'a>, Expected> {
    if fields.count != 6 {
        return Err("six fields: time, response, type, LUN, offset, bytes");
    }
    let time = decimal_seconds(fields.fields[0]).ok_or("a time in seconds")?;
    let response = match fields.fields[1] {
        b"" => None,
        text => Some(decimal_seconds(text).ok_or("a response time in seconds")?),
    };
    let op = match fields.fields[2] {
        b"" => None,
        text => Some(letter(text)?),
    };
    let (offset, bytes) =
        (fields.number(4, "an offset in bytes")?, fields.number(5, "a length in bytes")?);
    let mut io = io(time, TraceOp::Read, offset, bytes, response);
    (io.event.op, io.event.device) = (op, Some(volume(fields.fields[3])?));
    Ok(io)
}

fn spc<'a>(fields: &Fields<'a>) -> Result<Io<'a>, Expected> {
    if fields.count < 5 {
        return Err("five fields: ASU, sector, bytes, R or W, time");
    }
    let device = volume(fields.fields[0])?;
    let sector = fields.number(1, "a sector")?;
    let bytes = fields.number(2, "a length in bytes")?;
    let op = letter(fields.fields[3])?;
    let time = decimal_seconds(fields.fields[4]).ok_or("a time in seconds")?;
    let mut io = io(time, op, 0, bytes, None);
    (io.event.sector, io.event.device) = (Some(sector), Some(device));
    Ok(io)
}

fn io<'a>(time: u64, op: TraceOp, offset: u64, bytes: u64, response_ns: Option<u64>) -> Io<'a> {
    let event = TraceEvent {
        time: Some(time),
        op: Some(op),
        sector: Some(offset / SECTOR_SIZE),
        bytes: Some(bytes),
        ..TraceEvent::new(TraceKind::Io { response_ns })
    };
    Io { event, named: None, is_within_sector: !offset.is_multiple_of(SECTOR_SIZE) }
}

fn letter(text: &[u8]) -> Result<TraceOp, Expected> {
    match text {
        b"R" | b"r" => Ok(TraceOp::Read),
        b"W" | b"w" => Ok(TraceOp::Write),
        _ => Err("R or W"),
    }
}

fn volume(text: &[u8]) -> Result<DeviceNumber, Expected> {
    let number = whole_number(text).and_then(|number| u32::try_from(number).ok());
    Ok(DeviceNumber::new(0, number.ok_or("the number of a volume")?))
}

/// Parses seconds with or without a fraction, to nanoseconds.
fn decimal_seconds(text: &[u8]) -> Option<u64> {
    decimal(text, SECOND).map(|(nanoseconds, _)| nanoseconds)
}
