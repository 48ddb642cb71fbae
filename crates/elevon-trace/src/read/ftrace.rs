//! Reads tracepoints as text: ftrace's `trace` file, `trace-cmd report`, `perf script`, and lines
//! without prefix. Besides the block layer's events these are the commands of SCSI and UFS
//! (`hardware.rs`).
//!
//! An event is found by its name, not by column, because the columns before it vary in width and
//! number, and a task's name may contain spaces, dashes, colons and brackets. Lines quoted in a
//! mail (`> `) are read, also if the mail wrapped them after the `+`, and lines of a task whose
//! name contains a line end. Nothing is allocated per line. Cost: O(length of the line).

pub(crate) mod line;
#[cfg(test)]
mod tests;

use super::blkparse::Completions;
use super::lines::{LineFormat, TextLine};
use super::{Detect, Format, hardware, of_cpu};
use crate::input::MAX_PIECE;
use crate::mail::without_quotes;
use crate::recorded::Recorded;
use crate::report::{Gap, Position, UnusableError};
use crate::sink::Sink;

pub use super::hardware::ScsiAddress;
pub use line::{Line, NamedDevice, Record, parse_line};

/// What this reader says of its format.
pub(crate) const FORMAT: Format = Format {
    name: "ftrace",
    description: "text of tracepoints: tracefs, trace-cmd report, perf script, pages of systrace and atrace",
    lacks: "tag and hardware queue of block events, cgroup; before Linux 6.11 priorities",
    has_volumes: false,
    has_processes: true,
    detect: Detect::Line(is_line),
    open: |inputs| super::text(inputs, Ftrace::default()),
};

/// Returns true if a line may be from such a text: a block event, or another event with ftrace's or
/// perf's prefix.
pub(crate) fn is_line(line: &[u8]) -> bool {
    match parse_line(line) {
        Line::Event(_) | Line::Lost { .. } => true,
        Line::Other => line::has_prefix(line),
        // The tracer `blk` has two forms, of which one is read as blkparse's.
        Line::Comment | Line::Malformed { .. } => {
            line.starts_with(b"# tracer: ") && !line.starts_with(b"# tracer: blk")
        }
    }
}

/// What is said of a trace whose lines have a CPU, but no time that has a unit.
const NO_SECONDS_NOTE: &str = "its times have no unit (a clock such as counter, uptime or x86-tsc), or are missing: \
    there is the order of events, but no latency";

/// What is said of a trace with times in which events were not recorded.
const NOT_FOLLOWED_NOTE: &str =
    "events were many, so a part of the time was followed: the rest is in the gaps";

/// Minimum number of events with times of which more than a quarter go back, so that these are
/// taken for times since the event before.
const MIN_DELTAS: u64 = 16;

/// Lines that an event takes at most where they were wrapped.
const MAX_PARTS: usize = 3;

/// State of a CPU.
#[derive(Clone, Copy, Default)]
struct Cpu {
    /// Time of its last event.
    last: Option<u64>,
    /// Set if events were lost since then; the inner value is their number, if known.
    lost: Option<Option<u64>>,
}

/// State of the reader between lines.
#[derive(Default)]
pub(crate) struct Ftrace {
    /// Text of a line that may go on in the next one; empty if there is none.
    wrapped: Vec<u8>,
    /// Number of that line, how many lines there are of it, and what it lacks.
    wrapped_at: (u64, usize, &'static str),
    cpus: Vec<Cpu>,
    completions: Completions,
    /// Time of the last event, number of events with a time, and how many were before the last.
    last: u64,
    timed: u64,
    back: u64,
}

impl Ftrace {
    /// Appends an event, after a gap if there was one.
    fn push(&mut self, record: &Record<'_>, number: u64, sink: &mut Sink) {
        let Record { mut event, comm, resolution_ns, named, is_of_blk } = *record;
        if is_of_blk {
            self.completions.tell_apart(&mut event);
        }
        match named {
            None => {}
            Some(NamedDevice::Ufs(name)) => {
                event.device = sink.names.volume(hardware::ufs_device(name));
                sink.report.note(hardware::UFS_NOTE);
            }
            Some(NamedDevice::Scsi(address)) => {
                event.device = sink.names.volume(address.write(&mut [0; 44]));
                sink.report.note(hardware::SCSI_NOTE);
            }
        }
        if let Some(comm) = comm {
            event.comm = sink.names.intern(comm);
        }
        if let Some(ns) = resolution_ns {
            sink.report.resolution_ns.get_or_insert(ns);
        } else if event.cpu.is_some() {
            sink.report.note(NO_SECONDS_NOTE);
        }
        if let (Some(cpu), Some(time)) = (event.cpu, event.time)
            && let Some(cpu) = self.cpu(cpu)
        {
            let before = cpu.last.replace(time);
            if let Some(events) = cpu.lost.take() {
                sink.push_gap(Gap { cpu: event.cpu, events, from: before, until: event.time });
            }
        }
        if let Some(time) = event.time {
            self.timed += 1;
            self.back += u64::from(time < self.last);
            self.last = time;
        }
        sink.push(event, 0, Position::Line(number));
    }

    fn cpu(&mut self, cpu: u32) -> Option<&mut Cpu> {
        of_cpu(&mut self.cpus, cpu)
    }

    /// Joins a line with the one before that may go on in it. Returns false if that gives no event,
    /// nor the start of one that goes on again.
    fn joined(&mut self, text: &[u8], number: u64, sink: &mut Sink) -> bool {
        let mut joined = std::mem::take(&mut self.wrapped);
        let before = joined.len();
        joined.push(b' ');
        joined.extend_from_slice(without_quotes(text).trim_ascii_end());
        if let Line::Event(record) = line::parse_wrapped(&joined) {
            self.push(&record, number, sink);
            return true;
        }
        let goes_on =
            self.wrapped_at.1 < MAX_PARTS && line::goes_on(&joined) && joined.len() < MAX_PIECE / 2;
        self.wrapped_at.1 += 1;
        if !goes_on {
            joined.truncate(before);
        }
        self.wrapped = joined;
        goes_on
    }

    /// Skips a line that does not go on in the next one.
    fn give_up(&mut self, sink: &mut Sink) {
        if !self.wrapped.is_empty() {
            let (number, _, expected) = self.wrapped_at;
            sink.skip(0, Position::Line(number), expected);
            self.wrapped.clear();
        }
    }

    fn lost(&mut self, cpu: Option<u32>, events: Option<u64>, sink: &mut Sink) {
        match cpu.and_then(|cpu| self.cpu(cpu)) {
            Some(cpu) => {
                let before = cpu.lost.flatten();
                cpu.lost =
                    Some(before.map_or(events, |before| {
                        events.map(|events| before.saturating_add(events))
                    }));
            }
            None => sink.push_gap(Gap { cpu, events, from: None, until: None }),
        }
    }
}

impl LineFormat for Ftrace {
    // The kernel merges the CPUs' buffers, so few events are out of order.
    const WINDOW: usize = 4096;

    fn line(&mut self, line: TextLine<'_>, sink: &mut Sink) {
        let TextLine { text, number } = line;
        let found = parse_line(text);
        if !self.wrapped.is_empty() {
            // Other lines than these may be the rest of the line before.
            let is_rest = matches!(found, Line::Other | Line::Comment | Line::Malformed { .. });
            if is_rest && !is_line(text) && self.joined(text, number, sink) {
                return;
            }
            self.give_up(sink);
        }
        match found {
            Line::Event(record) => self.push(&record, number, sink),
            Line::Comment => {
                sink.report.other += 1;
                if let Some((from, until)) = line::not_followed(text) {
                    sink.report.note(NOT_FOLLOWED_NOTE);
                    let (from, until) = (Some(from), Some(until));
                    return sink.push_gap(Gap { cpu: None, events: None, from, until });
                }
                if Recorded::read_comment(&mut sink.report.recorded, text) {
                    sink.report.clock = sink
                        .report
                        .recorded
                        .as_ref()
                        .and_then(|notes| notes.get("clock"))
                        .map(str::to_owned);
                }
                if let Some((kept, written)) = line::entries(text) {
                    sink.report.overwritten = written.checked_sub(kept).filter(|&count| count > 0);
                }
            }
            Line::Other => {
                sink.report.other += 1;
                Recorded::read_message_line(&mut sink.report.recorded, text);
            }
            Line::Lost { cpu, events } => self.lost(cpu, events, sink),
            Line::Malformed { .. } if line::goes_on(text) && text.len() < MAX_PIECE / 2 => {
                let Line::Malformed { expected } = found else { return };
                self.wrapped_at = (number, 1, expected);
                self.wrapped.extend_from_slice(without_quotes(text).trim_ascii_end());
            }
            Line::Malformed { expected } => sink.skip(0, Position::Line(number), expected),
        }
    }

    fn finish(&mut self, sink: &mut Sink) {
        self.give_up(sink);
        if self.timed >= MIN_DELTAS && self.back > self.timed / 4 {
            sink.report.unusable = Some(UnusableError::TimesSinceEvent);
        }
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            if let Some(events) = cpu.lost.take() {
                sink.push_gap(Gap {
                    cpu: Some(number as u32),
                    events,
                    from: cpu.last,
                    until: None,
                });
            }
        }
    }
}
