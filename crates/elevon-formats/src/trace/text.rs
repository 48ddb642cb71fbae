//! Reads block tracepoints out of text: ftrace's trace file, `trace-cmd report`, `perf script`, and bare lines without
//! prefix.
//!
//! An event is found by its name, not by column: the columns before it vary in width and number, and a task's name may
//! hold spaces, dashes, colons and brackets. Nothing is allocated; records borrow from the line. Cost: O(length of the
//! line).

mod cursor;
#[cfg(test)]
mod tests;

use elevon_core::op::{Flags, Op};

use cursor::Cursor;

/// One event, with what its line says of when and where; `None` is what the line does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRecord<'a> {
    /// Time in nanoseconds of the trace's clock.
    pub time_ns: Option<u64>,
    /// Task in whose context it happened.
    pub comm: Option<&'a str>,
    /// Its number.
    pub pid: Option<u32>,
    /// CPU.
    pub cpu: Option<u16>,
    /// Name of the tracepoint.
    pub name: &'static str,
    /// What happened.
    pub event: TraceEvent<'a>,
}

/// Priority as request events print it from 6.11 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority<'a> {
    /// `none`, `rt`, `be`, `idle` or `invalid`.
    pub class: &'a str,
    /// Device hint; an early form of the event had none.
    pub hint: Option<u16>,
    /// Level.
    pub level: u16,
}

/// What nearly every event says: where, what, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// Major and minor number.
    pub device: (u32, u32),
    /// Operation and flags as letters; [`parse_rwbs`] takes them apart.
    pub rwbs: &'a str,
    /// First sector.
    pub sector: u64,
    /// Sectors.
    pub sectors: u32,
}

/// An event by the shape of its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent<'a> {
    /// A request on its way: issue, insert, merge, io_start, io_done.
    Request {
        /// Where and what.
        place: Place<'a>,
        /// Bytes; 0 on old kernels but for passthrough.
        bytes: u64,
        /// Bytes of a passthrough command, in hex.
        command: &'a str,
        /// Priority, where the kernel prints it.
        priority: Option<Priority<'a>>,
        /// Task.
        comm: &'a str,
    },
    /// A request that came back: complete, requeue, error.
    RequestEnd {
        /// Where and what.
        place: Place<'a>,
        /// Bytes of a passthrough command, in hex.
        command: &'a str,
        /// Priority, where the kernel prints it.
        priority: Option<Priority<'a>>,
        /// 0 or a negative errno.
        error: i32,
    },
    /// A bio: queue, getrq, back and front merge.
    Bio {
        /// Where and what.
        place: Place<'a>,
        /// Task.
        comm: &'a str,
    },
    /// A bio that is over.
    BioEnd {
        /// Where and what.
        place: Place<'a>,
        /// 0 or a negative errno.
        error: i32,
    },
    /// A bio was split.
    Split {
        /// Major and minor number.
        device: (u32, u32),
        /// Operation and flags as letters.
        rwbs: &'a str,
        /// First sector of the bio.
        sector: u64,
        /// First sector of the remainder; kernels carry it in 32 bits.
        new_sector: u64,
        /// Task.
        comm: &'a str,
    },
    /// A bio or request was mapped to another device.
    Remap {
        /// Where it goes.
        place: Place<'a>,
        /// Where it came from.
        from_device: (u32, u32),
        /// Sector there.
        from_sector: u64,
        /// Bios of a request.
        bios: Option<u32>,
    },
    /// A plug was opened.
    Plug {
        /// Task.
        comm: &'a str,
    },
    /// A plug was flushed.
    Unplug {
        /// Task.
        comm: &'a str,
        /// Requests in it.
        requests: u32,
    },
}

/// What a line of a trace is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A block event.
    Event(TraceRecord<'a>),
    /// A header or an empty line.
    Comment,
    /// The kernel dropped events here: a gap.
    Lost {
        /// How many.
        events: u64,
    },
    /// Something else than a block event.
    Other,
    /// A block event of a name or shape that is not known.
    Malformed {
        /// What was expected where reading stopped.
        expected: &'static str,
    },
}

/// How the rest of a line is laid out.
#[derive(Clone, Copy)]
enum Shape {
    Request,
    RequestEnd,
    Bio,
    BioEnd,
    Split,
    Remap,
    Plug,
    Unplug,
}

/// The tracepoints, with their letters in blktrace (`-` for those it does not have).
const EVENTS: [(&str, char, Shape); 19] = [
    ("block_bio_backmerge", 'M', Shape::Bio),
    ("block_bio_bounce", 'B', Shape::Bio),
    ("block_bio_complete", 'C', Shape::BioEnd),
    ("block_bio_frontmerge", 'F', Shape::Bio),
    ("block_bio_queue", 'Q', Shape::Bio),
    ("block_bio_remap", 'A', Shape::Remap),
    ("block_getrq", 'G', Shape::Bio),
    ("block_io_done", '-', Shape::Request),
    ("block_io_start", '-', Shape::Request),
    ("block_plug", 'P', Shape::Plug),
    ("block_rq_complete", 'C', Shape::RequestEnd),
    ("block_rq_error", '-', Shape::RequestEnd),
    ("block_rq_insert", 'I', Shape::Request),
    ("block_rq_issue", 'D', Shape::Request),
    ("block_rq_merge", 'M', Shape::Request),
    ("block_rq_remap", 'A', Shape::Remap),
    ("block_rq_requeue", 'R', Shape::RequestEnd),
    ("block_split", 'X', Shape::Split),
    ("block_unplug", 'U', Shape::Unplug),
];

impl TraceRecord<'_> {
    /// The letter that blktrace has for it; `None` for tracepoints it does not show.
    pub fn letter(&self) -> Option<char> {
        EVENTS.iter().find(|(name, ..)| *name == self.name).map(|&(_, letter, _)| letter).filter(|&l| l != '-')
    }
}

/// The lines of a trace, numbered from 1.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, Line<'_>)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, parse_line(line)))
}

/// The block events of a trace, in the order of the file. What is not understood is left out; [`lines`] shows it.
pub fn records(text: &str) -> impl Iterator<Item = TraceRecord<'_>> {
    lines(text).filter_map(|(_, line)| match line {
        Line::Event(record) => Some(record),
        Line::Comment | Line::Lost { .. } | Line::Other | Line::Malformed { .. } => None,
    })
}

/// Reads one line. Never panics, whatever the line.
pub fn parse_line(line: &str) -> Line<'_> {
    let line = line.trim_end();
    if line.is_empty() || line.starts_with('#') {
        return Line::Comment;
    }
    if let Some(events) = lost(line) {
        return Line::Lost { events };
    }
    let (mut bare, mut failed) = (None, None);
    for (at, _) in line.match_indices("block_") {
        // A name stands alone, or after perf's "block:"; a task's own name may hold the word too, so try every place.
        let before = &line[..at];
        let before = before.strip_suffix("block:").unwrap_or(before);
        if !(before.is_empty() || before.ends_with(char::is_whitespace)) {
            continue;
        }
        match event_at(before.trim(), &line[at..]) {
            // A line without prefix may be one whose task is named like an event; any other reading comes first.
            Ok(record) if record.comm.is_none() => bare = Some(record),
            Ok(record) => return Line::Event(record),
            Err(expected) => failed = Some(expected),
        }
    }
    match (bare, failed) {
        (Some(record), _) => Line::Event(record),
        (None, Some(expected)) => Line::Malformed { expected },
        (None, None) => Line::Other,
    }
}

/// `CPU:1 [LOST 42 EVENTS]`.
fn lost(line: &str) -> Option<u64> {
    let (before, rest) = line.split_once("[LOST ")?;
    let (count, after) = rest.split_once(' ')?;
    (before.starts_with("CPU:") && after == "EVENTS]").then(|| count.parse().ok())?
}

fn event_at<'a>(prefix: &'a str, rest: &'a str) -> Result<TraceRecord<'a>, &'static str> {
    let (name, tail) = rest.split_once(':').ok_or("a colon after the event's name")?;
    let &(name, _, shape) =
        EVENTS.iter().find(|(known, ..)| *known == name).ok_or("the name of a known block event")?;
    let prefix = parse_prefix(prefix)?;
    let event = parse_tail(shape, Cursor::new(tail))?;
    Ok(TraceRecord { time_ns: prefix.time_ns, comm: prefix.comm, pid: prefix.pid, cpu: prefix.cpu, name, event })
}

#[derive(Default)]
struct Prefix<'a> {
    time_ns: Option<u64>,
    comm: Option<&'a str>,
    pid: Option<u32>,
    cpu: Option<u16>,
}

/// `COMM-PID [(TGID)] [CPU] [FLAGS] TIME:`, read from the right because only the name on the left may hold anything.
fn parse_prefix(prefix: &str) -> Result<Prefix<'_>, &'static str> {
    if prefix.is_empty() {
        return Ok(Prefix::default());
    }
    let (rest, time) = last_word(prefix);
    let time = time.strip_suffix(':').ok_or("a colon after the time")?;
    let time_ns = Some(parse_time(time).ok_or("a time in seconds")?);
    let mut left = rest;
    let mut cpu = None;
    // The flags are at most one word between the CPU and the time.
    for _ in 0..2 {
        let (rest, word) = last_word(left);
        left = rest;
        if let Some(number) = word.strip_prefix('[').and_then(|w| w.strip_suffix(']')) {
            cpu = Some(number.parse().map_err(|_| "the number of a CPU")?);
            break;
        }
    }
    if cpu.is_none() {
        return Err("a CPU in brackets");
    }
    if let Some((before, inside)) = left.strip_suffix(')').and_then(|l| l.rsplit_once('('))
        && (inside.trim().bytes().all(|b| b.is_ascii_digit() || b == b'-'))
    {
        left = before.trim_end();
    }
    let digits = left.len() - left.bytes().rev().take_while(u8::is_ascii_digit).count();
    let pid = left[digits..].parse().map_err(|_| "the number of a task")?;
    let comm = &left[..digits];
    let comm = comm.strip_suffix('-').unwrap_or(comm).trim();
    Ok(Prefix { time_ns, comm: Some(comm), pid: Some(pid), cpu })
}

/// Splits the last word off.
fn last_word(text: &str) -> (&str, &str) {
    let text = text.trim_end();
    match text.rfind(char::is_whitespace) {
        Some(at) => {
            let word = text[at..].trim_start();
            (text[..at].trim_end(), word)
        }
        None => ("", text),
    }
}

/// Seconds with up to nine decimals, in nanoseconds.
fn parse_time(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let seconds: u64 = seconds.parse().ok()?;
    let fraction = fraction.parse::<u64>().ok()? * 10u64.pow(9 - fraction.len() as u32);
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
}

fn parse_tail<'a>(shape: Shape, mut at: Cursor<'a>) -> Result<TraceEvent<'a>, &'static str> {
    Ok(match shape {
        Shape::Plug => TraceEvent::Plug { comm: at.bracketed_to_end()? },
        Shape::Unplug => {
            let (comm, rest) = at.bracketed_last()?;
            TraceEvent::Unplug { comm, requests: rest.trim().parse().map_err(|_| "a number of requests")? }
        }
        Shape::Bio => {
            let place = place(&mut at)?;
            TraceEvent::Bio { place, comm: at.bracketed_to_end()? }
        }
        Shape::BioEnd => {
            let place = place(&mut at)?;
            TraceEvent::BioEnd { place, error: error(&mut at)? }
        }
        Shape::Split => {
            let (device, rwbs) = (at.device()?, at.word()?);
            let sector = at.number("a sector")?;
            at.expect("/")?;
            let new_sector = at.number("a sector")?;
            TraceEvent::Split { device, rwbs, sector, new_sector, comm: at.bracketed_to_end()? }
        }
        Shape::Remap => {
            let place = place(&mut at)?;
            at.expect("<-")?;
            let from_device = at.device_in_parentheses()?;
            let from_sector = at.number("a sector")?;
            let bios = if at.is_at_end() { None } else { Some(at.number("a number of bios")?) };
            TraceEvent::Remap { place, from_device, from_sector, bios }
        }
        Shape::Request => {
            let (device, rwbs, bytes) = (at.device()?, at.word()?, at.number("a number of bytes")?);
            let command = at.parenthesised()?;
            let (sector, sectors) = at.range()?;
            let priority = priority(&mut at)?;
            let place = Place { device, rwbs, sector, sectors };
            TraceEvent::Request { place, bytes, command, priority, comm: at.bracketed_to_end()? }
        }
        Shape::RequestEnd => {
            let (device, rwbs, command) = (at.device()?, at.word()?, at.parenthesised()?);
            let (sector, sectors) = at.range()?;
            let priority = priority(&mut at)?;
            let place = Place { device, rwbs, sector, sectors };
            TraceEvent::RequestEnd { place, command, priority, error: error(&mut at)? }
        }
    })
}

fn place<'a>(at: &mut Cursor<'a>) -> Result<Place<'a>, &'static str> {
    let (device, rwbs) = (at.device()?, at.word()?);
    let (sector, sectors) = at.range()?;
    Ok(Place { device, rwbs, sector, sectors })
}

fn error(at: &mut Cursor<'_>) -> Result<i32, &'static str> {
    at.bracketed_to_end()?.parse().map_err(|_| "an error number in brackets")
}

/// `be,0,4`, or `be,4` in an early form; absent before 6.11.
fn priority<'a>(at: &mut Cursor<'a>) -> Result<Option<Priority<'a>>, &'static str> {
    if at.is_at("[") {
        return Ok(None);
    }
    let malformed = "a priority such as be,0,4";
    let mut parts = at.word()?.split(',');
    let (class, first, second) = (parts.next(), parts.next(), parts.next());
    let number = |text: &str| text.parse::<u16>().map_err(|_| malformed);
    match (class, first, second, parts.next()) {
        (Some(class), Some(hint), Some(level), None) => {
            Ok(Some(Priority { class, hint: Some(number(hint)?), level: number(level)? }))
        }
        (Some(class), Some(level), None, _) => Ok(Some(Priority { class, hint: None, level: number(level)? })),
        _ => Err(malformed),
    }
}

/// Takes the letters of an operation apart: `[F]` operation `[F][A][S][M][U]`. `N` stands for every operation without
/// letters of its own and reads as write zeroes. `None` for letters that are not of this form (zone operations).
pub fn parse_rwbs(text: &str) -> Option<(Op, Flags)> {
    let mut flags = Flags::NONE;
    let mut rest = text;
    // An F before an operation is a preflush; an F alone is the operation.
    if let Some(after) = rest.strip_prefix('F').filter(|after| after.starts_with(['R', 'W', 'D', 'N', 'F'])) {
        flags |= Flags::PREFLUSH;
        rest = after;
    }
    let op = [
        ("DE", Op::SecureErase),
        ("D", Op::Discard),
        ("R", Op::Read),
        ("W", Op::Write),
        ("F", Op::Flush),
        ("N", Op::WriteZeroes),
    ];
    let (letters, op) = op.into_iter().find(|(letters, _)| rest.starts_with(letters))?;
    rest = &rest[letters.len()..];
    for (letter, flag) in
        [('F', Flags::FUA), ('A', Flags::RAHEAD), ('S', Flags::SYNC), ('M', Flags::META), ('U', Flags::ATOMIC)]
    {
        if let Some(after) = rest.strip_prefix(letter) {
            flags |= flag;
            rest = after;
        }
    }
    rest.is_empty().then_some((op, flags))
}
