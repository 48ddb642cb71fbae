//! Reads traces of FIU: `TIME PID PROCESS SECTOR SECTORS OPERATION MAJOR MINOR MD5`, separated by
//! blanks. Times are nanoseconds, places and sizes are sectors of 512 bytes.
//!
//! Each line is one [`TraceKind::Io`]. The hash of the content is not kept. Cost: O(length of the
//! line).

use super::cursor::{Expected, whole_number};
use super::lines::{LineFormat, TextLine};
use super::{Detect, Format};
use crate::event::{DeviceNumber, SECTOR_SIZE, TraceEvent, TraceKind};
use crate::op::TraceOp;
use crate::report::Position;
use crate::sink::{BATCH, Sink};

/// What this reader says of its format.
pub(crate) const FORMAT: Format = Format {
    name: "fiu",
    description: "FIU: time, process number and name, sector, sectors, R or W, major, minor, MD5",
    lacks: "CPU, flags, completion and response time; the MD5 is not kept",
    has_volumes: true,
    has_processes: false,
    detect: Detect::Line(|line| parse(line.trim_ascii()).is_ok_and(|(_, _, has_hash)| has_hash)),
    open: |inputs| super::text(inputs, Fiu),
};

/// Words of a line that are looked at.
const MAX_WORDS: usize = 24;

/// Digits of an MD5.
const HASH: usize = 32;

/// Parses a line: the event, the name of the process, and whether there is a hash.
fn parse(text: &[u8]) -> Result<(TraceEvent, &[u8], bool), Expected> {
    const EXPECTED: Expected = "time, PID, process, sector, sectors, R or W, major, minor, MD5";
    // Where each word is: the name of a process may have blanks.
    let mut places: [(usize, usize); MAX_WORDS] = [(0, 0); MAX_WORDS];
    let (mut count, mut from) = (0, 0);
    for word in text.split(|byte| matches!(byte, b' ' | b'\t')) {
        if !word.is_empty() && count < MAX_WORDS {
            places[count] = (from, from + word.len());
            count += 1;
        }
        from += word.len() + 1;
    }
    let word = |at: usize| &text[places[at].0..places[at].1];
    let number = |at: usize| whole_number(word(at));
    let is_op = |at: &usize| {
        let is_letter = matches!(word(*at), b"R" | b"W" | b"r" | b"w");
        is_letter && [*at - 2, *at - 1, *at + 1, *at + 2].into_iter().all(|at| number(at).is_some())
    };
    let op = (5..count.saturating_sub(2)).find(is_op).ok_or(EXPECTED)?;
    let (Some(time), Some(pid)) = (number(0), number(1).and_then(|pid| u32::try_from(pid).ok()))
    else {
        return Err(EXPECTED);
    };
    let small =
        |at| number(at).and_then(|number| u32::try_from(number).ok()).ok_or("a device number");
    let sectors = number(op - 1).unwrap_or(0);
    let event = TraceEvent {
        time: Some(time),
        device: Some(DeviceNumber::new(small(op + 1)?, small(op + 2)?)),
        sector: number(op - 2),
        bytes: Some(sectors.checked_mul(SECTOR_SIZE).ok_or("a size in sectors")?),
        op: Some(if word(op).eq_ignore_ascii_case(b"R") { TraceOp::Read } else { TraceOp::Write }),
        process: Some(pid),
        ..TraceEvent::new(TraceKind::Io { response_ns: None })
    };
    let is_hash = |word: &[u8]| word.len() == HASH && word.iter().all(u8::is_ascii_hexdigit);
    let has_hash = op + 3 < count && is_hash(word(op + 3));
    Ok((event, &text[places[2].0..places[op - 3].1], has_hash))
}

/// Reads one trace.
pub(crate) struct Fiu;

impl LineFormat for Fiu {
    const WINDOW: usize = BATCH;

    fn line(&mut self, line: TextLine<'_>, sink: &mut Sink) {
        let text = line.text.trim_ascii();
        if text.is_empty() || text[0] == b'#' {
            sink.report.other += 1;
            return;
        }
        match parse(text) {
            Ok((mut event, comm, _)) => {
                event.comm = sink.names.intern(comm);
                sink.push(event, 0, Position::Line(line.number));
            }
            Err(expected) => sink.skip(0, Position::Line(line.number), expected),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_ordered, data, read_bytes, read_file};
    use crate::{DeviceNumber, TraceFormat, TraceKind, TraceOp};

    const HASH: &str = "531e779dd8ba8a62a1a9f0cbd2a6d8b4";

    #[test]
    fn lines_are_ios_of_processes() {
        let (events, reader) = read_file(&data("formats/fiu.txt"));
        assert_eq!(
            (reader.format(), reader.report().skipped_count(), events.len()),
            (TraceFormat::Fiu, 0, 12)
        );
        assert_ordered(&events);
        let first = events[0];
        assert_eq!(
            (first.time, first.sector, first.bytes),
            (Some(329_131_208_190_249), Some(904_265_560), Some(4096))
        );
        assert_eq!(
            (first.op, first.process, first.device),
            (Some(TraceOp::Write), Some(4892), Some(DeviceNumber::new(6, 0)))
        );
        assert_eq!((first.kind, first.flags), (TraceKind::Io { response_ns: None }, None));
        assert_eq!(first.comm.map(|comm| reader.names().name(comm)), Some("syslogd"));
        assert!(
            events.iter().any(|event| event
                .comm
                .is_some_and(|comm| reader.names().name(comm) == "kworker 3"))
        );
    }

    #[test]
    fn a_damaged_line_is_skipped_at_its_place() {
        let text =
            format!("1 2 a 8 8 W 6 0 {HASH}\r\n1 2 a 8 x W 6 0 {HASH}\n\n5 2 a 16 8 R 6 0\n");
        let (events, reader) = read_bytes(text);
        assert_eq!(events.iter().map(|event| event.time).collect::<Vec<_>>(), [Some(1), Some(5)]);
        assert_eq!(reader.report().skipped[0].first.at, crate::Position::Line(2));
    }

    #[test]
    fn words_and_numbers_alone_are_no_such_trace() {
        for text in [
            "1 2 a 8 8 W 6 0\n",
            "1 2 3 4 5 6 7 8 9\n",
            "1 2 a 8 8 W 6 0 nothash\n",
            "W W W W W W W W\n",
        ] {
            assert!(crate::from_bytes(text.into()).is_err(), "{text}");
        }
    }
}
