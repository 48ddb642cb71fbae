//! An event as a row of a table: the columns of CSV and Parquet files.
//!
//! A field that is absent in the event is empty in CSV and null in Parquet.

use elevon_core::ioprio::IoPrio;
use elevon_core::op::Flags;

use crate::event::{DeviceNumber, TraceEvent, TraceKind};
use crate::op::TraceOp;

/// Version of the meaning of the columns, which Parquet files contain.
#[cfg(feature = "parquet")]
pub(crate) const SCHEMA: u32 = 1;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// A 64-bit whole number.
    Number,
    /// A text with few different values.
    Text,
}

/// Names and types of the columns, in order.
pub(crate) const COLUMNS: [(&str, Type); 29] = [
    ("time_ns", Type::Number),
    ("kind", Type::Text),
    ("device", Type::Text),
    ("device_name", Type::Text),
    ("sector", Type::Number),
    ("bytes", Type::Number),
    ("op", Type::Text),
    ("flags", Type::Text),
    ("tid", Type::Number),
    ("process", Type::Number),
    ("comm", Type::Text),
    ("cpu", Type::Number),
    ("prio_class", Type::Number),
    ("prio_level", Type::Number),
    ("prio_hint", Type::Number),
    ("cgroup", Type::Number),
    ("queue", Type::Number),
    ("tag", Type::Number),
    ("error", Type::Number),
    ("response_ns", Type::Number),
    ("new_sector", Type::Number),
    ("requests", Type::Number),
    ("timer", Type::Number),
    ("from_device", Type::Text),
    ("from_sector", Type::Number),
    ("depth", Type::Number),
    ("is_driver_tag", Type::Number),
    ("lost", Type::Number),
    ("until_ns", Type::Number),
];

/// Names of the flags.
const FLAGS: [(&str, Flags); 6] = [
    ("sync", Flags::SYNC),
    ("meta", Flags::META),
    ("fua", Flags::FUA),
    ("preflush", Flags::PREFLUSH),
    ("ahead", Flags::RAHEAD),
    ("atomic", Flags::ATOMIC),
];

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// A number; a number from 2^63 on is the negative number with the same bits.
    Number(i64),
    /// A text.
    Text(String),
}

impl Cell {
    /// Parses a text of a column.
    pub(crate) fn parse(text: &str, column: Type) -> Option<Self> {
        match column {
            Type::Text => Some(Self::Text(text.to_owned())),
            Type::Number if text.starts_with('-') => text.parse().ok().map(Self::Number),
            Type::Number => text.parse::<u64>().ok().map(|number| Self::Number(number as i64)),
        }
    }
}

/// An event's values by column, without the names of its thread and device.
pub(crate) type EventRow = [Option<Cell>; COLUMNS.len()];

/// Column of the device's name.
pub(crate) const DEVICE_NAME: usize = 3;
/// Column of the thread's name.
pub(crate) const COMM: usize = 10;

/// Converts an event to a row.
pub(crate) fn row(event: &TraceEvent, comm: Option<&str>, device_name: Option<&str>) -> EventRow {
    let number = |value: Option<u64>| value.map(|value| Cell::Number(value as i64));
    let small = |value: Option<u32>| value.map(|value| Cell::Number(i64::from(value)));
    let text = |value: Option<String>| value.map(Cell::Text);
    let mut row: EventRow = [const { None }; COLUMNS.len()];
    row[0] = number(event.time);
    row[1] = text(Some(event.kind.name().to_owned()));
    row[2] = text(event.device.map(|device| device.to_string()));
    row[DEVICE_NAME] = text(device_name.map(str::to_owned));
    row[4] = number(event.sector);
    row[5] = number(event.bytes);
    row[6] = text(event.op.map(|op| op.name().to_owned()));
    row[7] = text(event.flags.map(flags_text));
    row[8] = small(event.tid);
    row[9] = small(event.process);
    row[COMM] = text(comm.map(str::to_owned));
    row[11] = small(event.cpu);
    row[12] = small(event.ioprio.map(|prio| prio.class() as u32));
    row[13] = small(event.ioprio.map(|prio| u32::from(prio.level())));
    row[14] = small(event.ioprio.map(|prio| u32::from(prio.hint())));
    row[15] = number(event.cgroup);
    row[16] = small(event.queue.map(u32::from));
    row[17] = small(event.tag);
    row[18] = event.error.map(|error| Cell::Number(i64::from(error)));
    match event.kind {
        TraceKind::Io { response_ns } => row[19] = number(response_ns),
        TraceKind::Split { new_sector } => row[20] = number(Some(new_sector)),
        TraceKind::Unplug { requests, timer } => {
            (row[21], row[22]) = (small(Some(requests)), small(timer.map(u32::from)));
        }
        TraceKind::Remap { from, from_sector } | TraceKind::RequestRemap { from, from_sector } => {
            (row[23], row[24]) = (text(Some(from.to_string())), number(Some(from_sector)));
        }
        TraceKind::TagWait { depth, is_driver_tag } => {
            (row[25], row[26]) = (small(depth), small(Some(u32::from(is_driver_tag))));
        }
        TraceKind::Lost { events, until } => (row[27], row[28]) = (number(events), number(until)),
        _ => {}
    }
    row
}

/// Returns the flags as words; `-` for no flags, because an empty text means absent flags.
fn flags_text(flags: Flags) -> String {
    let words: Vec<&str> =
        FLAGS.iter().filter(|(_, flag)| flags.contains(*flag)).map(|(word, _)| *word).collect();
    if words.is_empty() { "-".to_owned() } else { words.join("+") }
}

fn flags_of(text: &str) -> Option<Flags> {
    if text == "-" {
        return Some(Flags::NONE);
    }
    text.split('+').try_fold(Flags::NONE, |flags, word| {
        FLAGS.iter().find(|(known, _)| *known == word).map(|(_, flag)| flags | *flag)
    })
}

/// Returns the number in a column.
fn number(row: &EventRow, at: usize) -> Option<u64> {
    match &row[at] {
        Some(Cell::Number(number)) => Some(*number as u64),
        Some(Cell::Text(_)) | None => None,
    }
}

/// Returns the text in a column.
fn text(row: &EventRow, at: usize) -> Option<&str> {
    match &row[at] {
        Some(Cell::Text(text)) => Some(text),
        Some(Cell::Number(_)) | None => None,
    }
}

/// Returns the number of 32 bits in a column, as [`event`] does.
fn small(row: &EventRow, at: usize) -> Result<Option<u32>, &'static str> {
    number(row, at).map(|value| u32::try_from(value).map_err(|_| COLUMNS[at].0)).transpose()
}

/// Returns the device in a column, as [`event`] does.
fn device(row: &EventRow, at: usize) -> Result<Option<DeviceNumber>, &'static str> {
    text(row, at).map(|text| text.parse::<DeviceNumber>().map_err(|_| COLUMNS[at].0)).transpose()
}

/// Returns the number in a column that must have one, as [`event`] does.
fn needed(row: &EventRow, at: usize) -> Result<u64, &'static str> {
    number(row, at).ok_or(COLUMNS[at].0)
}

/// Returns the kind of the event in a row, as [`event`] does.
fn kind(row: &EventRow) -> Result<TraceKind, &'static str> {
    Ok(match text(row, 1).ok_or("kind")? {
        "queue" => TraceKind::Queue,
        "io" => TraceKind::Io { response_ns: number(row, 19) },
        "split" => TraceKind::Split { new_sector: needed(row, 20)? },
        "getrq" => TraceKind::GetRequest,
        "sleeprq" => TraceKind::SleepRequest,
        "io_start" => TraceKind::IoStart,
        "io_done" => TraceKind::IoDone,
        "plug" => TraceKind::Plug,
        "unplug" => TraceKind::Unplug {
            requests: small(row, 21)?.ok_or("requests")?,
            timer: number(row, 22).map(|timer| timer != 0),
        },
        "backmerge" => TraceKind::BackMerge,
        "frontmerge" => TraceKind::FrontMerge,
        "rq_merge" => TraceKind::RequestMerge,
        "insert" => TraceKind::Insert,
        "issue" => TraceKind::Issue,
        "requeue" => TraceKind::Requeue,
        "complete" => TraceKind::Complete,
        "rq_error" => TraceKind::RequestError,
        "bio_complete" => TraceKind::BioComplete,
        "bounce" => TraceKind::Bounce,
        "remap" => TraceKind::Remap {
            from: device(row, 23)?.ok_or("from_device")?,
            from_sector: needed(row, 24)?,
        },
        "rq_remap" => TraceKind::RequestRemap {
            from: device(row, 23)?.ok_or("from_device")?,
            from_sector: needed(row, 24)?,
        },
        "tag_wait" => {
            TraceKind::TagWait { depth: small(row, 25)?, is_driver_tag: needed(row, 26)? != 0 }
        }
        "lost" => TraceKind::Lost { events: number(row, 27), until: number(row, 28) },
        _ => return Err("kind"),
    })
}

/// Converts a row to an event, without the names of its thread and device.
///
/// # Errors
/// Returns the name of a column whose value is not valid.
pub(crate) fn event(row: &EventRow) -> Result<TraceEvent, &'static str> {
    let mut event = TraceEvent::new(kind(row)?);
    event.time = number(row, 0);
    event.device = device(row, 2)?;
    (event.sector, event.bytes) = (number(row, 4), number(row, 5));
    event.op = text(row, 6).map(|name| TraceOp::from_name(name).ok_or("op")).transpose()?;
    event.flags = text(row, 7).map(|words| flags_of(words).ok_or("flags")).transpose()?;
    (event.tid, event.process, event.cpu) = (small(row, 8)?, small(row, 9)?, small(row, 11)?);
    if let (Some(class), Some(level)) = (number(row, 12), number(row, 13)) {
        let hint = number(row, 14).unwrap_or(0);
        if class > 3 || level > 7 || hint > 1023 {
            return Err("prio_class");
        }
        event.ioprio = IoPrio::from_bits((class << 13 | hint << 3 | level) as u16);
    }
    event.cgroup = number(row, 15);
    event.queue =
        number(row, 16).map(|queue| u16::try_from(queue).map_err(|_| "queue")).transpose()?;
    event.tag = small(row, 17)?;
    event.error = number(row, 18)
        .map(|error| i32::try_from(error as i64).map_err(|_| "error"))
        .transpose()?;
    Ok(event)
}
