//! Events as the kernel's trace file shows them (`/sys/kernel/tracing/trace`, tracer `nop`), measured on 6.1 and 6.18.
//!
//! Cost: one formatted line per event, no state.

use std::fmt::{self, Write as _};
use std::io::{self, Seek, SeekFrom, Write};

use elevon_core::event::{Event, EventKind};
use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::op::Rwbs;
use elevon_core::units::{SECTOR_SIZE, TaskId};

use super::Context;

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
/// Width of the line that counts the entries: room for two numbers of 20 digits, so that it can be filled in at the
/// end.
const COUNTS_WIDTH: usize = 90;

/// Writes the text.
pub struct Writer<W: Write + Seek> {
    out: W,
    context: Context,
    entries: u64,
    /// The line being made; its memory is used again.
    line: String,
}

impl<W: Write + Seek> Writer<W> {
    /// Writes the header; its count of entries is filled in by [`Self::finish`] where the output can seek.
    ///
    /// # Errors
    /// Of the output.
    pub fn new(out: W, context: Context) -> io::Result<Self> {
        let mut writer = Self { out, context, entries: 0, line: String::new() };
        writer.out.write_all(HEAD.as_bytes())?;
        writer.counts()?;
        writer.out.write_all(COLUMNS.as_bytes())?;
        Ok(writer)
    }

    fn counts(&mut self) -> io::Result<()> {
        let counts = format!("# entries-in-buffer/entries-written: {0}/{0}   #P:{1}", self.entries, self.context.cpus);
        writeln!(self.out, "{counts:<COUNTS_WIDTH$}")
    }

    /// Appends one event.
    ///
    /// # Errors
    /// Of the output.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.line.clear();
        line(&mut self.line, &self.context, event).map_err(io::Error::other)?;
        self.entries += 1;
        self.out.write_all(self.line.as_bytes())
    }

    /// Fills in the header's count, and hands the output back.
    ///
    /// # Errors
    /// Of the output; one that cannot seek keeps the header as it is.
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

/// The tracepoint of an event.
pub const fn name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::BioQueue => "block_bio_queue",
        EventKind::Split { .. } => "block_split",
        EventKind::GetRequest => "block_getrq",
        EventKind::IoStart => "block_io_start",
        EventKind::Plug => "block_plug",
        EventKind::Unplug { .. } => "block_unplug",
        EventKind::BackMerge => "block_bio_backmerge",
        EventKind::FrontMerge => "block_bio_frontmerge",
        EventKind::RequestMerge => "block_rq_merge",
        EventKind::Insert => "block_rq_insert",
        EventKind::Issue => "block_rq_issue",
        EventKind::Requeue => "block_rq_requeue",
        EventKind::Complete { .. } => "block_rq_complete",
        EventKind::IoDone => "block_io_done",
    }
}

/// The name of a priority class in a trace.
pub(super) const fn class_name(class: PrioClass) -> &'static str {
    match class {
        PrioClass::None => "none",
        PrioClass::Rt => "rt",
        PrioClass::Be => "be",
        PrioClass::Idle => "idle",
    }
}

/// One line of the trace.
fn line(out: &mut String, context: &Context, event: &Event) -> fmt::Result {
    let (comm, pid) = context.task(event.task);
    // The kernel rounds to the nearest microsecond.
    let us = event.time.get().saturating_add(500) / 1000;
    // Tasks run with nothing held; completions come in soft interrupts on an idle CPU.
    let state = if event.task == TaskId::IDLE { "..s1." } else { "....." };
    let (seconds, us) = (us / 1_000_000, us % 1_000_000);
    write!(out, "{comm:>16}-{pid:<7} [{:03}] {state} {seconds:5}.{us:06}: {}:", event.cpu, name(event.kind))?;
    tail(out, context, event, comm)?;
    out.write_char('\n')
}

/// What follows the event's name, as the tracepoint prints it.
fn tail(out: &mut String, context: &Context, event: &Event, comm: &str) -> fmt::Result {
    let (major, minor) = context.device;
    let rwbs = Rwbs(event.op, event.flags);
    let (sector, sectors) = (event.sector.get(), event.sectors);
    match event.kind {
        EventKind::Plug => write!(out, " [{comm}]"),
        EventKind::Unplug { requests, from_schedule: _ } => write!(out, " [{comm}] {requests}"),
        EventKind::Split { new_sector } => {
            write!(out, " {major},{minor} {rwbs} {sector} / {} [{comm}]", new_sector.get())
        }
        EventKind::BioQueue | EventKind::GetRequest | EventKind::BackMerge | EventKind::FrontMerge => {
            write!(out, " {major},{minor} {rwbs} {sector} + {sectors} [{comm}]")
        }
        EventKind::IoStart | EventKind::RequestMerge | EventKind::Insert | EventKind::Issue | EventKind::IoDone => {
            let bytes = u64::from(sectors) * SECTOR_SIZE;
            write!(out, " {major},{minor} {rwbs} {bytes} () {sector} + {sectors}")?;
            priority(out, context, event.ioprio)?;
            write!(out, " [{comm}]")
        }
        EventKind::Complete { .. } | EventKind::Requeue => {
            let error = match event.kind {
                EventKind::Complete { status } => -status.errno(),
                _ => 0,
            };
            write!(out, " {major},{minor} {rwbs} () {sector} + {sectors}")?;
            priority(out, context, event.ioprio)?;
            write!(out, " [{error}]")
        }
    }
}

fn priority(out: &mut String, context: &Context, prio: IoPrio) -> fmt::Result {
    if context.ioprio_in_events {
        write!(out, " {},{},{}", class_name(prio.class()), prio.hint(), prio.level())?;
    }
    Ok(())
}
