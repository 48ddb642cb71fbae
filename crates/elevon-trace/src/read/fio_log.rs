//! Reads fio's iologs (`write_iolog=`), versions 2 and 3.
//!
//! Every read, write, trim and sync is one [`TraceKind::Io`] at its time. In version 3 each line
//! has the time in microseconds; version 2 has `wait` lines, in microseconds after the previous
//! I/O, as fio documents. Each file that the log names is a device. Cost: O(length of the line).

use super::cursor::{Cursor, Expected};
use super::lines::{LineFormat, TextLine};
use super::{Detect, Format};
use crate::event::{SECTOR_SIZE, TraceEvent, TraceKind};
use crate::op::TraceOp;
use crate::report::Position;
use crate::sink::Sink;

/// What this reader says of its format.
pub(crate) const FORMAT: Format = Format {
    name: "fio-iolog",
    description: "fio's iolog (write_iolog=), version 2 or 3",
    lacks: "process, CPU, completion",
    has_volumes: false,
    has_processes: false,
    detect: Detect::First(|line| version(line).is_some()),
    open: |inputs| super::text(inputs, FioLog::default()),
};

/// Reads one log.
#[derive(Default)]
pub(crate) struct FioLog {
    version: u8,
    /// Nanoseconds since the start, in version 2.
    now: u64,
}

/// Returns the version in the first line of a log.
pub(crate) fn version(line: &[u8]) -> Option<u8> {
    match line.trim_ascii() {
        b"fio version 2 iolog" => Some(2),
        b"fio version 3 iolog" => Some(3),
        _ => None,
    }
}

impl LineFormat for FioLog {
    // fio writes a job's lines in order; several jobs may share a log.
    const WINDOW: usize = 1024;

    fn line(&mut self, line: TextLine<'_>, sink: &mut Sink) {
        let text = line.text.trim_ascii();
        if text.is_empty() {
            sink.report.other += 1;
        } else if let Some(version) = version(text) {
            self.version = version;
            sink.report.resolution_ns.get_or_insert(1000);
        } else if let Err(expected) = self.entry(text, line.number, sink) {
            sink.skip(0, Position::Line(line.number), expected);
        }
    }
}

impl FioLog {
    fn entry(&mut self, text: &[u8], number: u64, sink: &mut Sink) -> Result<(), Expected> {
        let mut at = Cursor::new(text);
        let mut time = self.now;
        if self.version >= 3 {
            time = at
                .number("a time in microseconds")?
                .checked_mul(1000)
                .ok_or("a time in microseconds")?;
        }
        let name = at.word()?;
        let action = at.word()?;
        let op = match action {
            b"read" => TraceOp::Read,
            b"write" => TraceOp::Write,
            b"trim" => TraceOp::Discard,
            b"sync" | b"datasync" => TraceOp::Flush,
            b"add" | b"open" | b"close" => {
                sink.report.other += 1;
                return Ok(());
            }
            b"wait" => {
                let wait = at
                    .number("microseconds to wait")?
                    .checked_mul(1000)
                    .ok_or("microseconds to wait")?;
                self.now = self.now.saturating_add(wait);
                sink.report.other += 1;
                return Ok(());
            }
            _ => return Err("read, write, trim, sync, datasync, wait, add, open or close"),
        };
        let offset = at.number("an offset in bytes")?;
        let bytes = at.number("a length in bytes")?;
        if !at.is_at_end() {
            return Err("the end of the line after the length");
        }
        let mut event = TraceEvent::new(TraceKind::Io { response_ns: None });
        event.time = Some(time);
        event.device = sink.names.volume(name);
        event.op = Some(op);
        event.bytes = Some(bytes);
        if op != TraceOp::Flush {
            event.sector = Some(offset / SECTOR_SIZE);
            if !offset.is_multiple_of(SECTOR_SIZE) {
                sink.report.note("offsets that are no multiple of 512 bytes were rounded down");
            }
        }
        sink.push(event, 0, Position::Line(number));
        Ok(())
    }
}
