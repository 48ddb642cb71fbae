//! Reads the CSV of events that [`crate::write::csv`] writes. Cost: O(length of the line).

use super::cursor::Expected;
use super::lines::{LineFormat, TextLine};
use super::{Detect, Format};
use crate::columns::{self, COLUMNS, Cell, EventRow};
use crate::event::DeviceNumber;
use crate::report::Position;
use crate::sink::Sink;

/// What this reader says of its format.
pub(crate) const FORMAT: Format = Format {
    name: "csv",
    description: "CSV of events, as Elevon writes it",
    lacks: "nothing that the trace had from which it was made",
    has_volumes: false,
    has_processes: true,
    detect: Detect::First(is_header),
    open: |inputs| super::text(inputs, EventCsv::default()),
};

/// Returns true if a line is the line of titles.
pub(crate) fn is_header(line: &[u8]) -> bool {
    let mut titles = line.trim_ascii().split(|&byte| byte == b',');
    titles.next() == Some(b"time_ns") && titles.next() == Some(b"kind")
}

/// Reads one file.
#[derive(Default)]
pub(crate) struct EventCsv {
    /// The column of each field of a line. Fields with unknown titles are skipped.
    columns: Vec<Option<usize>>,
}

impl LineFormat for EventCsv {
    const WINDOW: usize = 1024;

    fn line(&mut self, line: TextLine<'_>, sink: &mut Sink) {
        if is_header(line.text) {
            let titles = line.text.trim_ascii().split(|&byte| byte == b',').take(COLUMNS.len() * 4);
            self.columns = titles
                .map(|title| COLUMNS.iter().position(|(name, _)| name.as_bytes() == title))
                .collect();
            sink.report.other += 1;
        } else if line.text.trim_ascii().is_empty() {
            sink.report.other += 1;
        } else if let Err(expected) = self.row(line, sink) {
            sink.skip(0, Position::Line(line.number), expected);
        }
    }
}

impl EventCsv {
    fn row(&self, line: TextLine<'_>, sink: &mut Sink) -> Result<(), Expected> {
        let text = std::str::from_utf8(line.text).map_err(|_| "UTF-8")?.trim_end_matches('\r');
        let mut row: EventRow = [const { None }; COLUMNS.len()];
        let mut rest = Some(text);
        for column in &self.columns {
            let Some(left) = rest else { return Err("a field for each title") };
            let (field, after) = field(left)?;
            rest = after;
            if let Some(at) = *column
                && !field.is_empty()
            {
                row[at] = Some(Cell::parse(&field, COLUMNS[at].1).ok_or(COLUMNS[at].0)?);
            }
        }
        if rest.is_some() {
            return Err("no more fields than titles");
        }
        let mut event = columns::event(&row)?;
        if let Some(Cell::Text(comm)) = &row[columns::COMM] {
            event.comm = sink.names.intern(comm.as_bytes());
        }
        if let (Some(Cell::Text(name)), Some(device)) = (&row[columns::DEVICE_NAME], event.device) {
            sink.names.name_device(DeviceNumber::new(device.major, device.minor), name.as_bytes());
        }
        if let crate::TraceKind::Lost { events, until } = event.kind {
            sink.push_gap(crate::Gap { cpu: event.cpu, events, from: event.time, until });
        } else {
            sink.push(event, 0, Position::Line(line.number));
        }
        Ok(())
    }
}

/// Returns the first field of a line, and the text after its comma if there is one.
fn field(text: &str) -> Result<(std::borrow::Cow<'_, str>, Option<&str>), Expected> {
    let Some(quoted) = text.strip_prefix('"') else {
        return Ok(match text.split_once(',') {
            Some((field, rest)) => (field.into(), Some(rest)),
            None => (text.into(), None),
        });
    };
    let mut from = 0;
    loop {
        let end = quoted[from..].find('"').map(|at| from + at).ok_or("a closing quote")?;
        let after = &quoted[end + 1..];
        if after.starts_with('"') {
            from = end + 2;
            continue;
        }
        let field = quoted[..end].replace("\"\"", "\"").into();
        return match after.strip_prefix(',') {
            Some(rest) => Ok((field, Some(rest))),
            None if after.is_empty() => Ok((field, None)),
            None => Err("a comma after a closing quote"),
        };
    }
}
