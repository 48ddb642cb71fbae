//! Reads events of LTTng's kernel tracer as `babeltrace` and `babeltrace2` print them:
//!
//! ```text
//! [18:58:41.123456789] (+0.000001234) host block_rq_issue: { cpu_id = 0 }, { dev = 8388608, ... }
//! ```
//!
//! Times are of day, with `--clock-date` with the date before them, or seconds with
//! `--clock-seconds`. Cycles (`--clock-cycles`) have no unit and are no times. Cost: O(length of
//! the line).

#[cfg(test)]
mod tests;

use super::cursor::{Expected, seconds, whole_number};
use super::fields::Fields;
use super::lines::{LineFormat, TextLine};
use super::rows::{Midnights, time_of_day};
use super::{Detect, Format};
use crate::report::{Gap, Position};
use crate::sink::Sink;

/// What this reader says of its format.
pub(crate) const FORMAT: Format = Format {
    name: "lttng",
    description: "LTTng's kernel events as babeltrace and babeltrace2 print them",
    lacks: "priority, tag, hardware queue, cgroup",
    has_volumes: false,
    has_processes: true,
    detect: Detect::Line(|line| split(line).is_some()),
    open: |inputs| super::text(inputs, Lttng::default()),
};

/// What is said of a text whose times are cycles.
const CYCLES_NOTE: &str = "its times are cycles, which have no unit: there is the order of events, but no latency \
    (babeltrace without --clock-cycles prints times)";

/// Splits a line into the text of its time, the name of its event, and the groups in braces.
fn split(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let rest = line.trim_ascii().strip_prefix(b"[")?;
    let end = memchr::memchr(b']', rest)?;
    let (time, rest) = (&rest[..end], &rest[end + 1..]);
    let colon = memchr::memmem::find(rest, b": { ")?;
    let name = rest[..colon].rsplit(|byte| byte.is_ascii_whitespace()).next()?;
    let is_time =
        time.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b'-' | b' '));
    let is_name =
        name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'));
    (is_time && is_name && time.first().is_some_and(u8::is_ascii_digit) && !name.is_empty())
        .then_some((time, name, &rest[colon + 2..]))
}

/// Reads one text.
#[derive(Default)]
pub(crate) struct Lttng {
    midnights: Midnights,
}

impl LineFormat for Lttng {
    // babeltrace merges the CPUs' streams.
    const WINDOW: usize = 1024;

    fn line(&mut self, line: TextLine<'_>, sink: &mut Sink) {
        let Some((time, name, groups)) = split(line.text) else {
            if let Some(gap) = self.discarded(line.text) {
                sink.push_gap(gap);
            } else if is_cut(line.text) {
                return sink.skip(0, Position::Line(line.number), "fields of an event in braces");
            }
            sink.report.other += 1;
            return;
        };
        if !name.starts_with(b"block_") {
            sink.report.other += 1;
            return;
        }
        if let Err(expected) = self.event(time, name, groups, line.number, sink) {
            sink.skip(0, Position::Line(line.number), expected);
        }
    }
}

/// Returns true for a block event whose line is cut.
fn is_cut(text: &[u8]) -> bool {
    text.starts_with(b"[") && memchr::memmem::find(text, b" block_").is_some()
}

impl Lttng {
    /// Returns a time; `None` for one without a unit.
    fn time(&mut self, text: &[u8]) -> Result<Option<u64>, Expected> {
        const EXPECTED: Expected = "a time such as 18:58:41.123456789";
        // With a date, days count from it, and a midnight changes it.
        let (date, clock) = match memchr::memchr(b' ', text) {
            Some(at) => (Some(&text[..at]), &text[at + 1..]),
            None => (None, text),
        };
        if let Some((time, _)) = seconds(clock) {
            return Ok(Some(time));
        }
        if whole_number(clock).is_some() {
            return Ok(None);
        }
        let of_day = time_of_day(clock).ok_or(EXPECTED)?;
        if let Some(date) = date {
            let days = days_since_1970(date).ok_or(EXPECTED)?;
            return Ok(Some(days.saturating_mul(86_400_000_000_000).saturating_add(of_day)));
        }
        Ok(Some(self.midnights.time(of_day)))
    }

    fn event(
        &mut self,
        time: &[u8],
        name: &[u8],
        groups: &[u8],
        line: u64,
        sink: &mut Sink,
    ) -> Result<(), Expected> {
        if !groups.trim_ascii_end().ends_with(b"}") {
            return Err("fields of an event in braces");
        }
        let fields = Fields::of_groups(groups);
        let Some((mut event, comm)) = fields.event(name)? else {
            sink.report.other += 1;
            return Ok(());
        };
        event.time = self.time(time)?;
        if event.time.is_none() {
            sink.report.note(CYCLES_NOTE);
        }
        sink.report.resolution_ns.get_or_insert(1);
        let small =
            |text: Option<&[u8]>| text.and_then(whole_number).and_then(|n| u32::try_from(n).ok());
        (event.cpu, event.tid, event.process) =
            (small(fields.cpu), small(fields.tid), small(fields.pid));
        event.comm = comm.filter(|comm| !comm.is_empty()).and_then(|comm| sink.names.intern(comm));
        event.find_passthrough();
        sink.push(event, 0, Position::Line(line));
        Ok(())
    }

    /// Returns the gap of `Tracer discarded 42 events between [18:58:41.1] and [18:58:41.2] in`.
    fn discarded(&mut self, text: &[u8]) -> Option<Gap> {
        const MARK: &[u8] = b"racer discarded ";
        let rest = &text[memchr::memmem::find(text, MARK)? + MARK.len()..];
        let end = memchr::memmem::find(rest, b" event")?;
        let events = whole_number(&rest[..end]);
        let mut times = rest
            .split(|&byte| byte == b'[')
            .skip(1)
            .filter_map(|part| part.split(|&b| b == b']').next());
        let mut time = || times.next().and_then(|text| self.time(text).ok().flatten());
        let (from, until) = (time(), time());
        Some(Gap { cpu: None, events, from, until })
    }
}

/// Days from 1970 to a date `2026-11-29`.
fn days_since_1970(date: &[u8]) -> Option<u64> {
    let mut parts = date.split(|&byte| byte == b'-').map(whole_number);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..=9999).contains(&year)
        || !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || parts.next().is_some()
    {
        return None;
    }
    // The year begins in March, so that a leap day is its last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    Some(
        year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468,
    )
}
