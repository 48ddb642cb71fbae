//! Reads the output of `blkparse` in its default form, with or without the times that `-t` adds,
//! and the lines of the kernel's tracer `blk` with the option `blk_classic`.
//!
//! The text does not distinguish a bio's completion from a request's ([`Completions`] does), or a
//! merged bio from a merged request, which is read as a bio's merge. Cost: O(length of the line).

#[cfg(test)]
mod tests;

use elevon_core::op::Flags;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::cursor::{Cursor, Expected, seconds, whole_number, whole_signed};
use super::lines::{LineFormat, TextLine};
use super::{Detect, Format};
use crate::event::{DeviceNumber, SECTOR_SIZE, TraceEvent, TraceKind};
use crate::op::{TraceOp, parse_rwbs};
use crate::recorded::Recorded;
use crate::report::{Gap, Position, UnusableError};
use crate::sink::Sink;

/// What ends the line of a completion. Formats of `-f` often have the task there, in which case
/// their other columns are not known either.
const ERROR: Expected = "an error number in brackets (what blkparse prints with -f is not read)";

/// What this reader says of its format.
pub(crate) const FORMAT: Format = Format {
    name: "blkparse",
    description: "what blkparse prints",
    lacks: "priority, tag, cgroup, whether a C is of a bio or a request",
    has_volumes: false,
    has_processes: false,
    detect: Detect::Line(is_line),
    open: |inputs| super::text(inputs, Blkparse::default()),
};

/// Reads one text.
#[derive(Default)]
pub(crate) struct Blkparse {
    completions: Completions,
    /// Numbers of completions and requeues that were read, and of those that cannot be.
    ended: u64,
    unreadable: u64,
}

/// Minimum number of completions of which none can be read, in a text that is refused.
const MIN_UNREADABLE: u64 = 8;

/// Maximum number of devices that are remembered, because a malicious file may name any number.
const MAX_DEVICES: usize = 1 << 16;

/// Tells completions of bios from those of requests, which have the same letter.
#[derive(Default)]
pub(crate) struct Completions {
    /// Devices of which bios were queued, or requests seen: true if requests were.
    has_requests: HashMap<DeviceNumber, bool, FxBuildHasher>,
}

impl Completions {
    /// Makes a completion one of a bio if bios of its device were queued and no request was seen,
    /// as of devices of the device mapper. Must be called for every event. Cost: one hash.
    pub(crate) fn tell_apart(&mut self, event: &mut TraceEvent) {
        let Some(device) = event.device else { return };
        let is_of_request = match event.kind {
            TraceKind::Complete => {
                if self.has_requests.get(&device) == Some(&false) {
                    event.kind = TraceKind::BioComplete;
                }
                return;
            }
            TraceKind::Queue => false,
            TraceKind::GetRequest
            | TraceKind::BackMerge
            | TraceKind::FrontMerge
            | TraceKind::Insert
            | TraceKind::Issue
            | TraceKind::Requeue => true,
            _ => return,
        };
        if let Some(has_requests) = self.has_requests.get_mut(&device) {
            *has_requests |= is_of_request;
        } else if self.has_requests.len() < MAX_DEVICES {
            self.has_requests.insert(device, is_of_request);
        }
    }
}

/// Returns true if a line is an event of blkparse.
pub(crate) fn is_line(line: &[u8]) -> bool {
    matches!(parse(line), Ok(Some(_)))
}

impl LineFormat for Blkparse {
    // blkparse sorts the events of the CPUs.
    const WINDOW: usize = 1024;

    fn line(&mut self, line: TextLine<'_>, sink: &mut Sink) {
        match parse(line.text) {
            Ok(Some((mut event, comm))) => {
                event.comm = comm.and_then(|comm| sink.names.intern(comm));
                self.completions.tell_apart(&mut event);
                self.ended += u64::from(event.error.is_some());
                sink.report.resolution_ns.get_or_insert(1);
                sink.push(event, 0, Position::Line(line.number));
            }
            Ok(None) => {
                sink.report.other += 1;
                Recorded::read_message_line(&mut sink.report.recorded, line.text);
                if let Some(events) = skips(line.text) {
                    sink.report.gap(Gap {
                        cpu: None,
                        events: Some(events),
                        from: None,
                        until: None,
                    });
                    sink.report.note(
                        "blkparse reports lost events but not where: latencies may cross the gap",
                    );
                }
            }
            Err(expected) => {
                self.unreadable += u64::from(expected == ERROR);
                sink.skip(0, Position::Line(line.number), expected);
            }
        }
    }

    fn finish(&mut self, sink: &mut Sink) {
        if self.ended == 0 && self.unreadable >= MIN_UNREADABLE {
            sink.report.unusable = Some(UnusableError::NoCompletionReadable);
        }
    }
}

/// Returns the number of lost events in `Skips: 2 forward (17 - 0.1%)`, if there are any.
fn skips(line: &[u8]) -> Option<u64> {
    let rest = line.trim_ascii_start().strip_prefix(b"Skips:")?;
    let open = memchr::memchr(b'(', rest)?;
    Cursor::new(&rest[open + 1..]).digits().filter(|&events| events > 0)
}

/// Maximum number of words of a line at which the letters of an event are looked for.
const MAX_WORDS: usize = 16;

/// Returns true if a line may be what `blkparse -f` prints: words, or values separated by commas,
/// of which one is the letter of an action and the next has the letters of an operation.
pub(crate) fn may_be_custom(line: &[u8]) -> bool {
    let mut words = line
        .split(|byte| matches!(byte, b' ' | b'\t' | b',' | b';'))
        .filter(|word| !word.is_empty());
    let mut is_action = false;
    words.by_ref().take(MAX_WORDS).any(|word| {
        let is_after_action = std::mem::replace(&mut is_action, kind_of(word).is_some());
        is_after_action && parse_rwbs(word).is_some()
    })
}

/// An event, and the name of its thread.
pub(crate) type Parsed<'a> = (TraceEvent, Option<&'a [u8]>);

/// Parses a line; `None` if it is not an event, or is a message.
fn parse(line: &[u8]) -> Result<Option<Parsed<'_>>, Expected> {
    let mut at = Cursor::new(line);
    let Ok((major, minor)) = at.device() else { return Ok(None) };
    let cpu = at.number("a CPU")?;
    let word = at.word()?;
    // The kernel's option `blk_classic` prints no sequence number.
    let (time, _) = match seconds(word) {
        Some(time) => time,
        None => {
            whole_number(word).ok_or("a sequence number")?;
            seconds(at.word()?).ok_or("a time in seconds")?
        }
    };
    let tid = at.number("the number of a task")?;
    let Some((mut event, comm)) = body(at, DeviceNumber::new(major, minor))? else {
        return Ok(None);
    };
    event.time = Some(time);
    event.cpu = Some(u32::try_from(cpu).map_err(|_| "a CPU")?);
    event.tid = Some(u32::try_from(tid).map_err(|_| "the number of a task")?);
    Ok(Some((event, comm)))
}

/// Parses the part of a line from the action on, which the kernel's own tracer `blk` prints, too;
/// `None` if it is a message.
pub(crate) fn body(
    mut at: Cursor<'_>,
    device: DeviceNumber,
) -> Result<Option<Parsed<'_>>, Expected> {
    let action = at.word()?;
    if action == b"m" {
        return Ok(None);
    }
    let kind = kind_of(action).ok_or("a known action")?;
    let mut event = TraceEvent::new(kind);
    event.device = Some(device);
    let letters = at.word()?;
    let comm = match kind {
        TraceKind::Plug => Some(at.bracketed_to_end()?),
        TraceKind::Unplug { timer, .. } => {
            let (comm, rest) = at.bracketed_last()?;
            let requests = whole_number(rest).and_then(|count| u32::try_from(count).ok());
            event.kind =
                TraceKind::Unplug { requests: requests.ok_or("a number of requests")?, timer };
            Some(comm)
        }
        _ => {
            let (op, flags) = parse_rwbs(letters).ok_or("letters of an operation such as WS")?;
            (event.op, event.flags) = (Some(op), Some(flags));
            tail(at, &mut event)?
        }
    };
    // A request that only flushes has no operation and no sector.
    if event.op == Some(TraceOp::Other)
        && event.flags.is_some_and(|flags| flags.contains(Flags::PREFLUSH))
    {
        (event.op, event.sector) = (Some(TraceOp::Flush), None);
    }
    Ok(Some((event, comm.filter(|comm| !comm.is_empty()))))
}

/// Returns the kind of an action, without what the rest of its line says of it.
fn kind_of(action: &[u8]) -> Option<TraceKind> {
    Some(match action {
        b"Q" => TraceKind::Queue,
        b"M" => TraceKind::BackMerge,
        b"F" => TraceKind::FrontMerge,
        b"G" => TraceKind::GetRequest,
        b"S" => TraceKind::SleepRequest,
        b"R" => TraceKind::Requeue,
        b"D" => TraceKind::Issue,
        b"C" => TraceKind::Complete,
        b"P" => TraceKind::Plug,
        b"U" | b"UT" | b"T" => TraceKind::Unplug { requests: 0, timer: Some(action != b"U") },
        b"I" => TraceKind::Insert,
        b"X" => TraceKind::Split { new_sector: 0 },
        b"B" => TraceKind::Bounce,
        b"A" => TraceKind::Remap { from: DeviceNumber::new(0, 0), from_sector: 0 },
        _ => return None,
    })
}

/// Parses the text after the letters, and returns the thread's name.
fn tail<'a>(mut at: Cursor<'a>, event: &mut TraceEvent) -> Result<Option<&'a [u8]>, Expected> {
    event.bytes = Some(0);
    // A flush has no place and no command: behind it, parentheses are the time that -t adds.
    let is_flush = event.op == Some(TraceOp::Other)
        && event.flags.is_some_and(|flags| flags.contains(Flags::PREFLUSH));
    if at.is_at(b'(') && !is_flush {
        // The completion of a passthrough command has the bytes of the command, and no length.
        event.op = Some(TraceOp::Passthrough);
        event.bytes = None;
    } else if !at.is_at(b'[') && !at.is_at(b'(') {
        let number = at.number("a sector")?;
        if at.is_at(b'+') {
            at.byte(b'+', "a plus between sector and number of sectors")?;
            event.sector = Some(number);
            let sectors = at.number("a number of sectors")?;
            event.bytes = Some(sectors.checked_mul(SECTOR_SIZE).ok_or("a number of sectors")?);
        } else if at.is_at(b'/') {
            at.byte(b'/', "a slash between the sectors of the parts")?;
            let new_sector = at.number("a sector")?;
            event.sector = Some(number);
            event.bytes = Some(new_sector.saturating_sub(number).saturating_mul(SECTOR_SIZE));
            event.kind = TraceKind::Split { new_sector };
        } else if at.is_at(b'(') && !is_flush {
            event.op = Some(TraceOp::Passthrough);
            event.bytes = Some(number);
        } else {
            event.sector = Some(number);
        }
    }
    if let TraceKind::Remap { .. } = event.kind {
        at.text("<-")?;
        let (major, minor) = Cursor::new(at.parenthesised()?).device()?;
        event.kind = TraceKind::Remap {
            from: DeviceNumber::new(major, minor),
            from_sector: at.number("a sector")?,
        };
        return Ok(None);
    }
    if at.is_at(b'(') {
        // The bytes of a command, or the time that -t adds.
        at.parenthesised()?;
    }
    let inside = at.bracketed_to_end()?;
    if matches!(event.kind, TraceKind::Complete | TraceKind::Requeue) {
        let error = whole_signed(inside).ok_or(ERROR)?;
        // Negative numbers are printed as unsigned 16-bit numbers.
        let error = if (32768..65536).contains(&error) { error - 65536 } else { error };
        event.error = Some(-i32::try_from(error.unsigned_abs()).map_err(|_| ERROR)?);
        return Ok(None);
    }
    Ok(Some(inside))
}
