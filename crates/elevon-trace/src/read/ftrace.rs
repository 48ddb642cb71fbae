//! Reads tracepoints as text: ftrace's `trace` file, `trace-cmd report`, `perf script`, and bare lines without prefix.
//!
//! An event is found by its name, not by column: the columns before it vary in width and number, and a task's name may
//! hold spaces, dashes, colons and brackets. Lines quoted in a mail (`> `) are read, also where the mail wrapped them
//! after the `+`. Nothing is allocated per line. Cost: O(length of the line).

mod line;
#[cfg(test)]
mod tests;

use std::io;

use crate::input::{Input, MAX_PIECE};
use crate::reader::Source;
use crate::report::{Gap, Position};
use crate::sink::{BATCH, Sink};

pub use line::{Line, Record, parse_line};

/// CPUs whose gaps are tracked; the kernel's own limit is 8192.
const MAX_CPUS: usize = 8192;
/// The kernel merges the CPUs' buffers itself, so that little is out of order.
const WINDOW: usize = 4096;

/// Returns true if a line could be of such a text: a block event, or another event with ftrace's or perf's prefix.
pub(crate) fn is_line(line: &[u8]) -> bool {
    match parse_line(line) {
        Line::Event(_) | Line::Lost { .. } => true,
        Line::Other => line::has_prefix(line),
        Line::Comment | Line::Malformed { .. } => line.starts_with(b"# tracer: "),
    }
}

/// What is known of a CPU.
#[derive(Clone, Copy, Default)]
struct Cpu {
    /// Time of its last event.
    last: Option<u64>,
    /// Events were lost since; the inner number is how many, if that is known.
    lost: Option<Option<u64>>,
}

/// Reads one text.
pub(crate) struct FtraceSource {
    input: Input,
    state: State,
}

/// What is carried from line to line.
struct State {
    file: u32,
    line: u64,
    /// A line that a mail wrapped; empty if there is none.
    wrapped: Vec<u8>,
    cpus: Vec<Cpu>,
}

impl FtraceSource {
    pub(crate) const fn new(input: Input, file: u32) -> Self {
        Self { input, state: State { file, line: 0, wrapped: Vec::new(), cpus: Vec::new() } }
    }
}

impl State {
    /// Appends an event, and the gap before it.
    fn push(&mut self, record: &Record<'_>, sink: &mut Sink) {
        let Record { mut event, comm, resolution_ns } = *record;
        if let Some(comm) = comm {
            event.comm = sink.names.intern(comm);
        }
        if let Some(ns) = resolution_ns {
            sink.report.resolution_ns.get_or_insert(ns);
        }
        if let (Some(cpu), Some(time)) = (event.cpu, event.time)
            && let Some(cpu) = self.cpu(cpu)
        {
            let before = cpu.last.replace(time);
            if let Some(events) = cpu.lost.take() {
                sink.push_gap(Gap { cpu: event.cpu, events, from: before, until: event.time });
            }
        }
        sink.push(event, self.file, Position::Line(self.line));
    }

    fn cpu(&mut self, cpu: u32) -> Option<&mut Cpu> {
        let cpu = cpu as usize;
        if cpu >= self.cpus.len() {
            if cpu >= MAX_CPUS {
                return None;
            }
            self.cpus.resize(cpu + 1, Cpu::default());
        }
        self.cpus.get_mut(cpu)
    }

    fn lost(&mut self, cpu: Option<u32>, events: Option<u64>, sink: &mut Sink) {
        match cpu.and_then(|cpu| self.cpu(cpu)) {
            Some(cpu) => {
                let before = cpu.lost.flatten();
                cpu.lost = Some(before.map_or(events, |before| events.map(|events| before.saturating_add(events))));
            }
            None => sink.push_gap(Gap { cpu, events, from: None, until: None }),
        }
    }

    /// Handles one line.
    fn take(&mut self, line: &[u8], sink: &mut Sink) {
        self.line += 1;
        let at = Position::Line(self.line);
        if !self.wrapped.is_empty() {
            let mut joined = std::mem::take(&mut self.wrapped);
            joined.push(b' ');
            joined.extend_from_slice(line::without_quotes(line));
            if let Line::Event(record) = line::parse_wrapped(&joined) {
                return self.push(&record, sink);
            }
            sink.skip(self.file, Position::Line(self.line - 1), "the rest of the line");
        }
        match parse_line(line) {
            Line::Event(record) => self.push(&record, sink),
            Line::Comment => {
                sink.report.other += 1;
                if let Some((kept, written)) = line::entries(line) {
                    sink.report.overwritten = written.checked_sub(kept).filter(|&count| count > 0);
                }
            }
            Line::Other => sink.report.other += 1,
            Line::Lost { cpu, events } => self.lost(cpu, events, sink),
            Line::Malformed { .. } if line.trim_ascii_end().ends_with(b" +") && line.len() < MAX_PIECE / 2 => {
                self.wrapped.extend_from_slice(line::without_quotes(line).trim_ascii_end());
            }
            Line::Malformed { expected } => sink.skip(self.file, at, expected),
        }
    }

    /// What can only be said at the end.
    fn finish(&mut self, sink: &mut Sink) {
        if !self.wrapped.is_empty() {
            sink.skip(self.file, Position::Line(self.line), "the rest of the line");
        }
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            if let Some(events) = cpu.lost.take() {
                sink.push_gap(Gap { cpu: Some(number as u32), events, from: cpu.last, until: None });
            }
        }
    }
}

impl Source for FtraceSource {
    fn fill(&mut self, sink: &mut Sink) -> io::Result<bool> {
        let until = sink.len() + BATCH;
        let mut lines = 0;
        while sink.len() < until && lines < BATCH * 16 {
            let Some((length, consumed)) = self.input.line()? else {
                self.state.finish(sink);
                self.input.report_damage(self.state.file, sink);
                return Ok(false);
            };
            lines += 1;
            self.state.take(&self.input.buffered()[..length], sink);
            self.input.consume(consumed);
        }
        Ok(true)
    }

    fn window(&self) -> usize {
        WINDOW
    }
}
