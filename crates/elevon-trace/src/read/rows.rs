//! What readers of rows share: fields of a line, decimal times, and rows that tell of a request
//! when it has ended.

use super::cursor::{Cursor, Expected, whole_number};
use crate::event::{TraceEvent, TraceKind};
use crate::op::TraceOp;
use crate::report::Position;
use crate::sink::{BATCH, Sink};

/// Number of fields of a line that are parsed.
pub(super) const MAX_FIELDS: usize = 24;
/// Nanoseconds of a second.
pub(super) const SECOND: u64 = 1_000_000_000;
/// Nanoseconds of a millisecond.
pub(super) const MILLISECOND: u64 = 1_000_000;
/// Nanoseconds of a microsecond.
pub(super) const MICROSECOND: u64 = 1000;

/// A line's fields.
pub(super) struct Fields<'a> {
    pub(super) fields: [&'a [u8]; MAX_FIELDS],
    pub(super) count: usize,
}

impl<'a> Fields<'a> {
    /// Splits a line. A field in quotes, as spreadsheets write it, may contain the delimiter.
    pub(super) fn of(line: &'a [u8], delimiter: u8) -> Self {
        let (mut fields, mut count) = ([&b""[..]; MAX_FIELDS], 0);
        let mut rest = line;
        loop {
            let start = rest.trim_ascii_start();
            let quoted = start.strip_prefix(b"\"").and_then(|inside| {
                let end = memchr::memchr(b'"', inside)?;
                let after = inside[end + 1..].trim_ascii_start();
                (after.is_empty() || after[0] == delimiter).then_some((&inside[..end], after))
            });
            let (field, after) = quoted.unwrap_or_else(|| {
                let end = memchr::memchr(delimiter, rest).unwrap_or(rest.len());
                (rest[..end].trim_ascii(), &rest[end..])
            });
            if count < MAX_FIELDS {
                fields[count] = field;
            }
            count += 1;
            match after.split_first() {
                Some((_, next)) => rest = next,
                None => return Self { fields, count },
            }
        }
    }

    pub(super) fn number(&self, at: usize, expected: Expected) -> Result<u64, Expected> {
        whole_number(self.fields[at]).ok_or(expected)
    }

    /// The fields that are kept.
    pub(super) fn all(&self) -> &[&'a [u8]] {
        &self.fields[..self.count.min(MAX_FIELDS)]
    }
}

/// Parses a number of units with or without a fraction. Returns it in nanoseconds, cut below one,
/// and the nanoseconds of its last digit, at least 1.
pub(super) fn decimal(text: &[u8], unit: u64) -> Option<(u64, u64)> {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b"0"[..]),
    };
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let kept = &fraction[..fraction.len().min(9)];
    let scale = 10u64.pow(kept.len() as u32);
    let part =
        u128::from(Cursor::new(kept).digits().unwrap_or(0)) * u128::from(unit) / u128::from(scale);
    let is_whole = text.len() == whole.len();
    let whole_units =
        if whole.is_empty() && !is_whole && !kept.is_empty() { 0 } else { whole_number(whole)? };
    let resolution = if is_whole { unit } else { (unit / scale).max(1) };
    Some((whole_units.checked_mul(unit)?.checked_add(part as u64)?, resolution))
}

/// Parses a time of day with or without a fraction, `18:58:41.123456789`, to nanoseconds since
/// midnight.
pub(super) fn time_of_day(text: &[u8]) -> Option<u64> {
    let mut parts = text.split(|&byte| byte == b':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    let (hours, minutes) = (whole_number(hours)?, whole_number(minutes)?);
    let (seconds, _) = decimal(seconds, SECOND)?;
    // The sum is made lazily: parts of any size were read.
    (parts.next().is_none() && hours < 24 && minutes < 60 && seconds < 61 * SECOND)
        .then(|| (hours * 60 + minutes) * 60 * SECOND + seconds)
}

/// Makes times of day grow on beyond midnight.
#[derive(Default)]
pub(super) struct Midnights {
    last: u64,
    days: u64,
}

impl Midnights {
    /// Returns nanoseconds since the midnight before the first time.
    pub(super) fn time(&mut self, of_day: u64) -> u64 {
        const DAY: u64 = 86_400 * SECOND;
        if of_day + DAY / 2 < self.last {
            self.days += 1;
        }
        self.last = of_day;
        (self.days * DAY).saturating_add(of_day)
    }
}

/// A request that is told of when it has ended.
pub(super) struct Row {
    /// The event without its kind and time.
    pub(super) event: TraceEvent,
    /// When it ended; `None` in a text without times.
    pub(super) end: Option<u64>,
    /// From its issue to its end.
    pub(super) latency: u64,
    /// From its insertion to its issue, if that is told.
    pub(super) queued: Option<u64>,
    /// Number of the line.
    pub(super) line: u64,
}

impl Row {
    /// From its first event to its end.
    fn whole(&self) -> u64 {
        self.latency.saturating_add(self.queued.unwrap_or(0))
    }
}

/// Rows of a file that are looked at for those that began before its time 0.
const LOOK_AT: usize = 4096;

/// What is said of a file whose first requests began before its time 0.
const SHIFT_NOTE: &str = "its times are those of the end of each I/O, and the first I/Os began before time 0: all times \
    are later by what these took";

/// Number of events that are held back for sorting: rows stand in order of their ends.
pub(super) const WINDOW: usize = BATCH * 32;

/// Makes events of rows: an issue and a completion, and an insertion if the row tells of it; one
/// whole I/O if it has no place or no time.
#[derive(Default)]
pub(super) struct Rows {
    /// The first rows, until it is known by how much times are shifted.
    held: Vec<Row>,
    /// What is added to times so that none is below 0.
    shift: Option<u64>,
}

impl Rows {
    /// Appends a row.
    pub(super) fn push(&mut self, row: Row, sink: &mut Sink) {
        match self.shift {
            Some(shift) => emit(row, shift, sink),
            None => {
                self.held.push(row);
                if self.held.len() >= LOOK_AT {
                    self.release(sink);
                }
            }
        }
    }

    /// Appends the rows that are held; must be called at the end.
    pub(super) fn release(&mut self, sink: &mut Sink) {
        let before = |row: &Row| Some(row.whole().saturating_sub(row.end?));
        let shift = self.held.iter().filter_map(before).max().unwrap_or(0);
        // A latency of more than a day is damaged.
        let shift = if shift > 86_400 * SECOND { 0 } else { shift };
        if shift > 0 {
            sink.report.note(SHIFT_NOTE);
        }
        self.shift = Some(shift);
        for row in self.held.drain(..) {
            emit(row, shift, sink);
        }
    }
}

fn emit(row: Row, shift: u64, sink: &mut Sink) {
    let at = Position::Line(row.line);
    let end = row.end.map(|end| end.saturating_add(shift));
    let begin = match end {
        Some(end) => match end.checked_sub(row.whole()) {
            Some(begin) => Some(begin),
            None => {
                return sink.skip(0, at, "a latency no longer than the time since the trace began");
            }
        },
        None => None,
    };
    let has_place = row.event.op == Some(TraceOp::Flush)
        || row.event.sector.is_some() && row.event.bytes.is_some();
    let (Some(begin), Some(end), true) = (begin, end, has_place) else {
        let kind = TraceKind::Io { response_ns: Some(row.whole()) };
        return sink.push(TraceEvent { kind, time: begin, ..row.event }, 0, at);
    };
    if row.queued.is_some() {
        sink.push(TraceEvent { kind: TraceKind::Insert, time: Some(begin), ..row.event }, 0, at);
    }
    sink.push(
        TraceEvent { kind: TraceKind::Issue, time: Some(end - row.latency), ..row.event },
        0,
        at,
    );
    // What runs when a request ends is not the task that began it.
    let ended = TraceEvent {
        kind: TraceKind::Complete,
        time: Some(end),
        tid: None,
        process: None,
        comm: None,
        ..row.event
    };
    sink.push(ended, 0, at);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_the_unit_and_the_resolution() {
        for (text, unit, expected) in [
            ("0.41", MILLISECOND, Some((410_000, 10_000))),
            ("12", MILLISECOND, Some((12_000_000, MILLISECOND))),
            ("5982800.302061", SECOND, Some((5_982_800_302_061_000, 1000))),
            (".5", SECOND, Some((500_000_000, 100_000_000))),
            ("0.0000000001", SECOND, Some((0, 1))),
            ("18446744074", SECOND, None),
            ("-1", SECOND, None),
            ("1.2.3", SECOND, None),
            ("", SECOND, None),
            ("1e3", SECOND, None),
        ] {
            assert_eq!(decimal(text.as_bytes(), unit), expected, "{text}");
        }
    }

    #[test]
    fn times_of_day_go_on_after_midnight() {
        let mut midnights = Midnights::default();
        let mut time = |text: &str| midnights.time(time_of_day(text.as_bytes()).expect(text));
        let (first, second) = (time("23:59:59.5"), time("00:00:00.25"));
        assert_eq!(second - first, 750_000_000);
        // One that comes a little late is no new day.
        assert!(time("00:00:00.1") < second);
        for text in ["24:00:00", "1:2", "a:b:c", "1:2:3:4", "1:60:0"] {
            assert_eq!(time_of_day(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn fields_in_quotes_hold_the_delimiter() {
        let fields = |line: &'static str| Fields::of(line.as_bytes(), b',').all().to_vec();
        assert_eq!(fields("a, \"b, c\" ,d,"), [&b"a"[..], b"b, c", b"d", b""]);
        assert_eq!(fields("\"a\"b,c"), [&b"\"a\"b"[..], b"c"]);
        assert_eq!(fields(""), [b""]);
    }
}
