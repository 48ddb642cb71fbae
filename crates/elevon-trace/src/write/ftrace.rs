//! Writes events in the form of the kernel's trace file (`/sys/kernel/tracing/trace`, tracer
//! `nop`), as measured on 6.1 and 6.18.
//!
//! Cost: one formatted line per event, no state.

use std::fmt::{self, Write as _};
use std::io::{self, Seek, SeekFrom, Write};

use elevon_core::op::Flags;

use super::{EventWriter, WriteOptions};
use crate::event::{TraceEvent, TraceKind};
use crate::names::Names;
use crate::op::{TraceOp, TraceRwbs};
use crate::read::ftrace::line::{NOT_FOLLOWED, UNTIL};
use crate::recorded::Recorded;

const HEAD: &str = "\
# tracer: nop
#
";
const COLUMNS: &str = "\
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
";
/// Heads of columns with the process of each thread, as the option `record-tgid` shows it.
const COLUMNS_WITH_PROCESS: &str = "\
#
#                                          _-----=> irqs-off/BH-disabled
#                                         / _----=> need-resched
#                                        | / _---=> hardirq/softirq
#                                        || / _--=> preempt-depth
#                                        ||| / _-=> migrate-disable
#                                        |||| /     delay
#           TASK-PID       TGID    CPU#  |||||  TIMESTAMP  FUNCTION
#              | |           |       |   |||||     |         |
";
/// Width of the line with the number of entries: space for two numbers of 20 digits, which are
/// filled in at the end.
const COUNTS_WIDTH: usize = 90;

/// Writes the text.
pub struct FtraceWriter<W: Write> {
    out: W,
    options: WriteOptions,
    entries: u64,
    /// The current line; its memory is reused.
    line: String,
}

impl<W: Write> FtraceWriter<W> {
    /// Writes a header with notes on how the events were recorded, and without a number of entries,
    /// so that the output need not seek.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub(crate) fn with_notes(
        mut out: W,
        options: WriteOptions,
        notes: &Recorded,
    ) -> io::Result<Self> {
        out.write_all(HEAD.as_bytes())?;
        for line in notes.lines() {
            writeln!(out, "# {line}")?;
        }
        out.write_all(columns(&options).as_bytes())?;
        Ok(Self { out, options, entries: 0, line: String::new() })
    }

    /// Writes what is buffered, and hands the output back.
    ///
    /// # Errors
    /// Of the output.
    pub fn into_inner(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// Appends one event. Events without a tracepoint are omitted.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        self.line.clear();
        if let TraceKind::Lost { events, .. } = event.kind {
            if let Some((from, until)) = not_followed(event) {
                self.line.push_str(NOT_FOLLOWED);
                time(&mut self.line, &self.options, from).map_err(io::Error::other)?;
                self.line.push_str(UNTIL);
                time(&mut self.line, &self.options, until).map_err(io::Error::other)?;
                return writeln!(self.out, "{}", self.line);
            }
            let cpu = event.cpu.unwrap_or(0);
            return match events {
                Some(events) => writeln!(self.out, "CPU:{cpu} [LOST {events} EVENTS]"),
                None => writeln!(self.out, "CPU:{cpu} [LOST EVENTS]"),
            };
        }
        let Some(name) = name(event.kind) else { return Ok(()) };
        line(&mut self.line, &self.options, event, name, names).map_err(io::Error::other)?;
        self.entries += 1;
        self.options.cpus = self.options.cpus.max(event.cpu.map_or(0, |cpu| cpu.saturating_add(1)));
        self.out.write_all(self.line.as_bytes())
    }
}

impl<W: Write + Seek> FtraceWriter<W> {
    /// Writes the header; its count of entries is filled in by [`Self::finish`] where the output
    /// can seek.
    ///
    /// # Errors
    /// Of the output.
    pub fn new(out: W, options: WriteOptions) -> io::Result<Self> {
        let mut writer = Self { out, options, entries: 0, line: String::new() };
        writer.out.write_all(HEAD.as_bytes())?;
        writer.counts()?;
        writer.out.write_all(columns(&options).as_bytes())?;
        Ok(writer)
    }

    fn counts(&mut self) -> io::Result<()> {
        let counts = format!(
            "# entries-in-buffer/entries-written: {0}/{0}   #P:{1}",
            self.entries, self.options.cpus
        );
        writeln!(self.out, "{counts:<COUNTS_WIDTH$}")
    }

    /// Fills in the number of entries in the header, and returns the output.
    ///
    /// # Errors
    /// Returns an error of the output. An output that cannot seek is no error and keeps the header
    /// unchanged.
    pub fn finish(mut self) -> io::Result<W> {
        match self.out.seek(SeekFrom::Start(HEAD.len() as u64)) {
            Ok(_) => {
                self.counts()?;
                self.out.seek(SeekFrom::End(0))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotSeekable => {}
            Err(error) => return Err(error),
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write + Seek> EventWriter for FtraceWriter<W> {
    fn recorded(&mut self, recorded: &Recorded, _first: &TraceEvent) -> io::Result<()> {
        recorded.lines().iter().try_for_each(|line| writeln!(self.out, "# {line}"))
    }

    fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        Self::event(self, event, names)
    }

    fn end(self: Box<Self>) -> io::Result<()> {
        self.finish().map(drop)
    }
}

/// Returns the tracepoint of an event; `None` for an event without one.
pub const fn name(kind: TraceKind) -> Option<&'static str> {
    Some(match kind {
        TraceKind::Queue | TraceKind::Io { .. } => "block_bio_queue",
        TraceKind::Split { .. } => "block_split",
        TraceKind::GetRequest => "block_getrq",
        TraceKind::SleepRequest => "block_sleeprq",
        TraceKind::IoStart => "block_io_start",
        TraceKind::IoDone => "block_io_done",
        TraceKind::Plug => "block_plug",
        TraceKind::Unplug { .. } => "block_unplug",
        TraceKind::BackMerge => "block_bio_backmerge",
        TraceKind::FrontMerge => "block_bio_frontmerge",
        TraceKind::RequestMerge => "block_rq_merge",
        TraceKind::Insert => "block_rq_insert",
        TraceKind::Issue => "block_rq_issue",
        TraceKind::Requeue => "block_rq_requeue",
        TraceKind::Complete => "block_rq_complete",
        TraceKind::RequestError => "block_rq_error",
        TraceKind::BioComplete => "block_bio_complete",
        TraceKind::Bounce => "block_bio_bounce",
        TraceKind::Remap { .. } => "block_bio_remap",
        TraceKind::RequestRemap { .. } => "block_rq_remap",
        TraceKind::TagWait { .. } => "block_rq_tag_wait",
        TraceKind::Lost { .. } => return None,
    })
}

/// Returns a thread's name as ftrace shows it: `<idle>` for the idle task, `<...>` for a thread
/// without a name.
pub(super) fn comm<'a>(event: &TraceEvent, names: &'a Names) -> &'a str {
    match (event.comm, event.tid) {
        (_, Some(0)) => "<idle>",
        (Some(comm), _) => names.name(comm),
        (None, _) => "<...>",
    }
}

/// The letters of an operation as a kernel prints them that may have no letters for zone operations
/// and for write-zeroes.
pub(super) fn letters(event: &TraceEvent, options: &WriteOptions) -> TraceRwbs {
    let op = event.op.map(|op| match op {
        TraceOp::WriteZeroes if !options.has_write_zeroes_letters => TraceOp::Other,
        _ if options.has_zone_letters => op,
        TraceOp::ZoneAppend
        | TraceOp::ZoneReset
        | TraceOp::ZoneResetAll
        | TraceOp::ZoneOpen
        | TraceOp::ZoneClose
        | TraceOp::ZoneFinish => TraceOp::Other,
        op => op,
    });
    let hidden = if options.has_atomic_letter { Flags::NONE } else { Flags::ATOMIC };
    TraceRwbs(op, event.flags.map(|flags| flags.without(hidden)))
}

/// Returns the titles of the columns.
const fn columns(options: &WriteOptions) -> &'static str {
    if options.has_processes { COLUMNS_WITH_PROCESS } else { COLUMNS }
}

/// Returns the times of a gap of all CPUs whose events were not counted.
fn not_followed(gap: &TraceEvent) -> Option<(u64, u64)> {
    match gap.kind {
        TraceKind::Lost { events: None, until } if gap.cpu.is_none() => gap.time.zip(until),
        _ => None,
    }
}

/// Writes seconds.
fn time(out: &mut String, options: &WriteOptions, time: u64) -> fmt::Result {
    if options.is_in_nanoseconds {
        write!(out, "{:5}.{:09}", time / 1_000_000_000, time % 1_000_000_000)
    } else {
        // The kernel rounds to the nearest microsecond.
        let us = time.saturating_add(500) / 1000;
        write!(out, "{:5}.{:06}", us / 1_000_000, us % 1_000_000)
    }
}

/// Writes one line of the trace.
fn line(
    out: &mut String,
    options: &WriteOptions,
    event: &TraceEvent,
    name: &str,
    names: &Names,
) -> fmt::Result {
    let (comm, tid) = (comm(event, names), event.tid.unwrap_or(0));
    // Tasks hold no locks; completions occur in soft interrupts on an idle CPU.
    let state = if tid == 0 { "..s1." } else { "....." };
    // Events without a time have no prefix, because only their order is known.
    if let Some(time) = event.time {
        let cpu = event.cpu.unwrap_or(0);
        write!(out, "{comm:>16}-{tid:<7} ")?;
        match event.process {
            Some(process) if options.has_processes => write!(out, "({process:7}) ")?,
            None if options.has_processes => out.write_str("(-------) ")?,
            Some(_) | None => {}
        }
        write!(out, "[{cpu:03}] {state} ")?;
        self::time(out, options, time)?;
        out.write_str(": ")?;
    }
    write!(out, "{name}:")?;
    match event.tid {
        // The idle task is <idle> in front, and has its name inside the event.
        Some(0) => tail(out, options, event, format_args!("swapper/{}", event.cpu.unwrap_or(0)))?,
        _ => tail(out, options, event, comm)?,
    }
    out.write_char('\n')
}

/// Writes the text after the event's name, as the tracepoint prints it.
fn tail(
    out: &mut String,
    options: &WriteOptions,
    event: &TraceEvent,
    comm: impl fmt::Display,
) -> fmt::Result {
    match event.kind {
        TraceKind::Plug => return write!(out, " [{comm}]"),
        TraceKind::Unplug { requests, timer: _ } => return write!(out, " [{comm}] {requests}"),
        _ => {}
    }
    let (major, minor) = event.device.map_or((0, 0), |device| (device.major, device.minor));
    let rwbs = letters(event, options);
    // The request that only flushes has no place, which the kernel prints as -1.
    let sector =
        event.sector.unwrap_or(if event.op == Some(TraceOp::Flush) { u64::MAX } else { 0 });
    let bytes = event.bytes.unwrap_or(0);
    let sectors =
        if event.op == Some(TraceOp::Passthrough) { bytes / 512 } else { bytes.div_ceil(512) };
    write!(out, " {major},{minor}")?;
    match event.kind {
        TraceKind::Split { new_sector } => write!(out, " {rwbs} {sector} / {new_sector} [{comm}]"),
        TraceKind::BioComplete => {
            write!(out, " {rwbs} {sector} + {sectors} [{}]", event.error.unwrap_or(0))
        }
        TraceKind::Remap { from, from_sector } | TraceKind::RequestRemap { from, from_sector } => {
            write!(
                out,
                " {rwbs} {sector} + {sectors} <- ({},{}) {from_sector}",
                from.major, from.minor
            )
        }
        TraceKind::TagWait { depth, is_driver_tag } => {
            let (queue, depth) = (event.queue.unwrap_or(0), depth.unwrap_or(0));
            let tags = if is_driver_tag { "hardware" } else { "scheduler" };
            write!(out, " hctx={queue} starved on {tags} tags (depth={depth})")
        }
        TraceKind::IoStart
        | TraceKind::IoDone
        | TraceKind::RequestMerge
        | TraceKind::Insert
        | TraceKind::Issue => {
            write!(out, " {rwbs} {bytes} () {sector} + {sectors}")?;
            priority(out, options, event)?;
            write!(out, " [{comm}]")
        }
        TraceKind::Complete | TraceKind::Requeue | TraceKind::RequestError => {
            write!(out, " {rwbs} () {sector} + {sectors}")?;
            priority(out, options, event)?;
            write!(out, " [{}]", event.error.unwrap_or(0))
        }
        _ => write!(out, " {rwbs} {sector} + {sectors} [{comm}]"),
    }
}

fn priority(out: &mut String, options: &WriteOptions, event: &TraceEvent) -> fmt::Result {
    if let (true, Some(prio)) = (options.ioprio_in_events, event.ioprio) {
        write!(out, " {},{},{}", prio.class().name(), prio.hint(), prio.level())?;
    }
    Ok(())
}
