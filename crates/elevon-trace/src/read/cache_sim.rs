//! Reads libCacheSim's traces: CSV whose titles name the columns, and the binary oracleGeneral.
//!
//! Both are traces of a cache: an object, its size and the second of the request. An object is a
//! place on a disk only if its title says so (`lbn`, `lba`, `sector`): the ids of others may be
//! hashes. oracleGeneral has no operation either, so no such trace can be replayed.
//!
//! oracleGeneral is records of 24 bytes in little-endian order: 32 bits of seconds, 64 of the
//! object, 32 of its size in bytes. The last 64 are the number of the object's next request, -1 for
//! none.

#[cfg(test)]
mod tests;

use std::io;

use super::cursor::{Expected, whole_number};
use super::lines::{LineFormat, TextLine};
use super::rows::{Fields, MAX_FIELDS, SECOND, decimal};
use super::{Detect, Format};
use crate::event::{TraceEvent, TraceKind};
use crate::input::Input;
use crate::op::TraceOp;
use crate::reader::EventSource;
use crate::report::Position;
use crate::sink::{BATCH, Sink};

/// What this reader says of the CSV.
pub(crate) const CSV: Format = Format {
    name: "cache-csv",
    description: "libCacheSim's CSV with titles: time (s), object or lbn, size (bytes), op",
    lacks: "process, CPU, completion; if the object is no lbn: sector, so that it cannot be replayed",
    has_volumes: true,
    has_processes: false,
    detect: Detect::Line(|line| Columns::of_titles(line).is_some()),
    open: |inputs| super::text(inputs, CacheCsv::default()),
};

/// What this reader says of oracleGeneral.
pub(crate) const ORACLE: Format = Format {
    name: "oracle-general",
    description: "libCacheSim's oracleGeneral: 24 bytes a request, with second, object and size",
    lacks: "operation, sector (the object is not kept), process, completion: it cannot be replayed",
    has_volumes: true,
    has_processes: false,
    detect: Detect::Head(is_oracle),
    open: |inputs| Box::new(OracleSource { input: super::only(inputs), number: 0 }),
};

/// What is said of a trace of a cache.
const OBJECTS_NOTE: &str = "a trace of a cache names objects, not places on a disk: there is no sector, and nothing \
    says when a request ended";
const NO_OP_NOTE: &str = "the trace does not say whether a request is a read or a write";
const SECONDS_NOTE: &str =
    "times are whole seconds: requests of a second are at its start, in order";
/// Name of the only volume.
const VOLUME: &[u8] = b"cache";

/// The columns of a CSV that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Columns {
    delimiter: u8,
    time: usize,
    id: usize,
    size: usize,
    op: Option<usize>,
    /// True if the object is a sector.
    is_place: bool,
}

impl Columns {
    fn of_titles(line: &[u8]) -> Option<Self> {
        let line = line.trim_ascii().strip_prefix(b"#").unwrap_or(line.trim_ascii());
        if !line
            .first()
            .is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b' ' | b'"'))
        {
            return None;
        }
        let delimiter =
            [b',', b';', b'\t', b'|'].into_iter().find(|delimiter| line.contains(delimiter))?;
        let fields = Fields::of(line, delimiter);
        if fields.count > MAX_FIELDS {
            return None;
        }
        let titles: Vec<Vec<u8>> = fields
            .all()
            .iter()
            .map(|title| {
                title
                    .to_ascii_lowercase()
                    .into_iter()
                    .filter(|b| *b != b'-' && *b != b'_')
                    .collect()
            })
            .collect();
        let find =
            |names: &[&[u8]]| titles.iter().position(|title| names.contains(&title.as_slice()));
        // SPC and its kin have titles of such names too, and columns of their own.
        if find(&[b"asu", b"lun", b"disk", b"disknum", b"disknumber", b"hostname", b"volume"])
            .is_some()
        {
            return None;
        }
        let place = find(&[b"lbn", b"lba", b"sector"]);
        let object = find(&[b"objid", b"obj", b"object", b"objectid", b"key", b"id"]);
        Some(Self {
            delimiter,
            time: find(&[b"time", b"timestamp", b"clocktime", b"realtime", b"ts"])?,
            id: place.or(object)?,
            size: find(&[b"size", b"objsize", b"objectsize", b"bytes"])?,
            op: find(&[b"op", b"operation", b"optype", b"cmd", b"type"]),
            is_place: place.is_some(),
        })
    }
}

/// The operation of a word: a name, a letter, or the hexadecimal code of a SCSI command.
fn operation(word: &[u8]) -> Result<Option<TraceOp>, Expected> {
    Ok(Some(match word.to_ascii_lowercase().as_slice() {
        b"r" | b"read" | b"get" | b"gets" | b"28" | b"88" | b"08" | b"a8" => TraceOp::Read,
        b"w" | b"write" | b"set" | b"put" | b"add" | b"replace" | b"2a" | b"8a" | b"0a" | b"aa" => {
            TraceOp::Write
        }
        b"" => return Ok(None),
        other
            if other.len() <= 16
                && other.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_') =>
        {
            return Ok(None);
        }
        _ => return Err("an operation such as read, write or 2a"),
    }))
}

/// Reads one CSV.
#[derive(Default)]
pub(crate) struct CacheCsv {
    columns: Option<Columns>,
}

impl LineFormat for CacheCsv {
    const WINDOW: usize = BATCH;

    fn line(&mut self, line: TextLine<'_>, sink: &mut Sink) {
        let text = line.text.trim_ascii();
        let titles = Columns::of_titles(text);
        match (titles, self.columns) {
            (Some(columns), _) => {
                self.columns = Some(columns);
                sink.report.other += 1;
            }
            (None, Some(columns)) if !text.is_empty() && text[0] != b'#' => {
                if let Err(expected) = row(columns, text, line.number, sink) {
                    sink.skip(0, Position::Line(line.number), expected);
                }
            }
            _ => sink.report.other += 1,
        }
    }
}

fn row(columns: Columns, text: &[u8], line: u64, sink: &mut Sink) -> Result<(), Expected> {
    let fields = Fields::of(text, columns.delimiter);
    let field = |at: usize| fields.all().get(at).copied().ok_or("as many fields as titles");
    let (time, resolution) = decimal(field(columns.time)?, SECOND).ok_or("a time in seconds")?;
    let bytes = whole_number(field(columns.size)?).ok_or("a size in bytes")?;
    let id = field(columns.id)?;
    if id.is_empty() {
        return Err("an object");
    }
    let sector = match columns.is_place {
        true => Some(whole_number(id).ok_or("the number of a block of 512 bytes")?),
        false => None,
    };
    let op = match columns.op {
        Some(at) => operation(field(at)?)?,
        None => None,
    };
    if sector.is_none() {
        sink.report.note(OBJECTS_NOTE);
    }
    if op.is_none() {
        sink.report.note(NO_OP_NOTE);
    }
    sink.report.resolution_ns.get_or_insert(resolution);
    if resolution >= SECOND {
        sink.report.note(SECONDS_NOTE);
    }
    push(time, sector, bytes, op, Position::Line(line), sink);
    Ok(())
}

fn push(
    time: u64,
    sector: Option<u64>,
    bytes: u64,
    op: Option<TraceOp>,
    at: Position,
    sink: &mut Sink,
) {
    let device = sink.names.volume(VOLUME);
    let kind = TraceKind::Io { response_ns: None };
    sink.push(
        TraceEvent {
            time: Some(time),
            device,
            sector,
            bytes: Some(bytes),
            op,
            ..TraceEvent::new(kind)
        },
        0,
        at,
    );
}

/// Length of a record.
const RECORD: usize = 24;
/// Records that are examined to recognise the format.
const EXAMINED: usize = 256;
/// Largest size of an object that is plausible: 1 GiB.
const MAX_SIZE: u32 = 1 << 30;
/// Largest number of a request that is plausible.
const MAX_NUMBER: i64 = 1 << 42;

/// A record of oracleGeneral.
struct Record {
    second: u32,
    size: u32,
    next: i64,
}

impl Record {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (second, rest) = bytes.split_first_chunk::<4>()?;
        let (_, rest) = rest.split_first_chunk::<8>()?;
        let (size, rest) = rest.split_first_chunk::<4>()?;
        let (next, _) = rest.split_first_chunk::<8>()?;
        Some(Self {
            second: u32::from_le_bytes(*second),
            size: u32::from_le_bytes(*size),
            next: i64::from_le_bytes(*next),
        })
    }

    /// Returns true if these may be the values of a request with this number. The next request of
    /// an object has a greater number; there is none for -1 and, in some files, -2 or the maximum.
    fn is_plausible(&self, number: u64) -> bool {
        let is_next = (number as i64 + 1..MAX_NUMBER).contains(&self.next);
        (is_next || matches!(self.next, -1 | -2 | i64::MAX)) && (1..=MAX_SIZE).contains(&self.size)
    }
}

/// Records at the start of a file that must all be plausible.
const SURE: usize = 4;

/// Returns true if the content starts with records of oracleGeneral. There is no magic number, so
/// the first records must be plausible and in order of time, and nearly all of those after them.
fn is_oracle(head: &[u8]) -> bool {
    let (mut count, mut good, mut last) = (0, 0, None);
    for record in head.chunks_exact(RECORD).filter_map(Record::from_bytes).take(EXAMINED) {
        // A day between two requests at the start of a trace is none.
        let is_next = last
            .is_none_or(|last: u32| (last..=last.saturating_add(86_400)).contains(&record.second));
        if is_next && record.is_plausible(count) {
            last = Some(record.second);
            good += 1;
        } else if count < SURE as u64 {
            return false;
        }
        count += 1;
    }
    count >= SURE as u64 && good * 4 >= count * 3
}

/// Reads one file of oracleGeneral.
struct OracleSource {
    input: Input,
    /// Number of the next request.
    number: u64,
}

impl EventSource for OracleSource {
    fn fill(&mut self, sink: &mut Sink) -> io::Result<bool> {
        sink.report.note(OBJECTS_NOTE);
        sink.report.note(NO_OP_NOTE);
        sink.report.note(SECONDS_NOTE);
        sink.report.resolution_ns.get_or_insert(SECOND);
        for _ in 0..BATCH {
            let is_whole = self.input.fill_to(RECORD)?;
            let at = Position::Byte(self.input.offset());
            let Some(record) = Record::from_bytes(self.input.buffered()).filter(|_| is_whole)
            else {
                if !self.input.buffered().is_empty() {
                    sink.skip(0, at, "a whole record of 24 bytes");
                    let rest = self.input.buffered().len();
                    self.input.consume(rest);
                }
                self.input.report_damage(0, sink);
                return Ok(false);
            };
            self.input.consume(RECORD);
            if record.is_plausible(self.number) {
                push(
                    u64::from(record.second) * SECOND,
                    None,
                    u64::from(record.size),
                    None,
                    at,
                    sink,
                );
            } else {
                sink.skip(0, at, "a size of at least a byte, and a next request after this one");
            }
            self.number += 1;
        }
        Ok(true)
    }

    fn window(&self) -> usize {
        BATCH
    }
}
