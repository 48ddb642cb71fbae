//! Parses one line of tracepoint text.

use std::sync::LazyLock;

use elevon_core::ioprio::IoPrio;
use elevon_core::op::Flags;
use memchr::memmem::{self, Finder};

use super::super::blkparse;
use super::super::cursor::{Cursor, Expected, seconds, whole_number, whole_signed};
use super::super::fields::{self, hexadecimal};
use super::super::hardware::{self, ScsiAddress};
use crate::event::{DeviceNumber, SECTOR_SIZE, TraceEvent, TraceKind};
use crate::mail::without_quotes;
use crate::op::{TraceOp, parse_rwbs};

/// An event, and values that must be looked up or stored elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The event, without its thread's name.
    pub event: TraceEvent,
    /// The thread's name.
    pub comm: Option<&'a [u8]>,
    /// Resolution of the time, from its number of decimals.
    pub resolution_ns: Option<u64>,
    /// The device, if the event names it instead of giving its numbers.
    pub named: Option<NamedDevice<'a>>,
    /// True for a line of the kernel's tracer `blk`, whose completions are of requests or bios.
    pub is_of_blk: bool,
}

/// A device that an event names instead of giving its numbers: the events of host controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedDevice<'a> {
    /// The device of a UFS command, as the trace names it: `1d84000.ufshc` or `0:0:0:4`.
    Ufs(&'a [u8]),
    /// The SCSI address of a command.
    Scsi(ScsiAddress),
}

/// Kind of a line of a trace.
// An event in a box would be an allocation per line.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A block event.
    Event(Record<'a>),
    /// A header or an empty line.
    Comment,
    /// Events were lost: a gap.
    Lost {
        /// CPU whose events were lost.
        cpu: Option<u32>,
        /// Number of lost events.
        events: Option<u64>,
    },
    /// An event other than of a request or bio, or no event.
    Other,
    /// A block event with an unknown name or form.
    Malformed {
        /// What was expected where parsing stopped.
        expected: &'static str,
    },
}

/// What is looked for in every line. Preparing a search takes longer than the search of a line.
static BLOCK: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b"block_"));
static COLON: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b": "));
static PERF_LOST: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b"PERF_RECORD_LOST"));

/// Reads one line. Never panics, whatever the line.
#[inline]
pub fn parse_line(line: &[u8]) -> Line<'_> {
    parse(line, false)
}

/// Reads a line that was on two lines; the name of the task in brackets may be missing there.
pub(super) fn parse_wrapped(line: &[u8]) -> Line<'_> {
    parse(line, true)
}

fn parse(line: &[u8], is_wrapped: bool) -> Line<'_> {
    let line = without_quotes(line).trim_ascii_end();
    // Old systrace pages have the trace as one string of JavaScript.
    let line = line.strip_suffix(b"\\n\\").unwrap_or(line);
    if line.is_empty() || line[0] == b'#' {
        return started(line).unwrap_or(Line::Comment);
    }
    let (mut bare, mut failed) = (None, None);
    let mut from = 0;
    while let Some(at) = BLOCK.find(&line[from..]).map(|at| from + at) {
        from = at + 1;
        // The event name is preceded by a blank or by perf's "block:". The task's name may contain
        // the word as well, so every place is tried.
        let before = &line[..at];
        let before = before.strip_suffix(b"block:").unwrap_or(before);
        if !matches!(before.last(), None | Some(b' ' | b'\t')) {
            continue;
        }
        let found = event_at(before, &line[at..], is_wrapped).or_else(|expected| {
            event_at(before, without_stack(&line[at..]).ok_or(expected)?, is_wrapped)
        });
        match found {
            // In a line without a prefix the task may be named like an event, so any other
            // interpretation has precedence.
            Ok(Some(record)) if record.event.time.is_none() => bare = Some(record),
            Ok(Some(record)) => return Line::Event(record),
            Ok(None) => {}
            Err(expected) => failed = Some(expected),
        }
    }
    match (bare, failed) {
        (Some(record), _) => Line::Event(record),
        (None, Some(expected)) => Line::Malformed { expected },
        (None, None) => command(line)
            .or_else(|| lost(line))
            .or_else(|| without_fields(line))
            .unwrap_or(Line::Other),
    }
}

/// Returns a line of which the kernel's options `raw`, `hex` or `bin` left out the event:
/// `6727 0 58437818122922 type: 2097`, in `hex` with hexadecimal numbers, in `bin` with bytes.
fn without_fields(line: &[u8]) -> Option<Line<'static>> {
    let (before, _) = last_number(line)?;
    let before = before.strip_suffix(b"type: ")?;
    let is_numbers = before.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b' ');
    let expected = "an event (with ftrace's options raw, hex and bin the kernel leaves it out; without them it prints it)";
    (is_numbers || before.contains(&0)).then_some(Line::Malformed { expected })
}

/// Returns an event without the call chain that perf prints behind it on the same line (`-F
/// ip,sym`): from an address of the kernel on, 16 hexadecimal digits of which the first four are f.
fn without_stack(event: &[u8]) -> Option<&[u8]> {
    let event = &event[..event.len().min(MAX_EVENT)];
    let is_address = |at: &usize| {
        let digits = event[at + 1..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        digits == 16 && matches!(event.get(at + 17), None | Some(b' '))
    };
    memmem::find_iter(event, b" ffff").find(is_address).map(|at| &event[..at])
}

/// Returns true if a line that is no event may be one with the next line: a mail wrapped it, or the
/// name in brackets at its end contains a line end. Every event ends with a bracket or a number.
pub(super) fn goes_on(line: &[u8]) -> bool {
    !line.trim_ascii_end().ends_with(b"]")
}

/// Returns the numbers of entries kept and of entries written, from the header's
/// `entries-in-buffer/entries-written: 685/685`.
pub(super) fn entries(line: &[u8]) -> Option<(u64, u64)> {
    let at = memmem::find(line, b"entries-written:")?;
    let mut counts = Cursor::new(line[at..].split(|&byte| byte == b':').nth(1)?);
    let counts = counts.word().ok()?;
    let slash = memchr::memchr(b'/', counts)?;
    Some((whole_number(&counts[..slash])?, whole_number(&counts[slash + 1..])?))
}

/// Begins the line of a time in which no events were recorded, on no CPU. `elevon watch` follows a
/// part of the time if events are many.
pub(crate) const NOT_FOLLOWED: &str = "# not followed: ";
/// Stands between the seconds in it.
pub(crate) const UNTIL: &str = " to ";

/// Returns the times of such a line in nanoseconds, `# not followed: 3.25 to 4.5`.
pub(super) fn not_followed(line: &[u8]) -> Option<(u64, u64)> {
    let times = line.strip_prefix(NOT_FOLLOWED.as_bytes())?.trim_ascii_end();
    let at = memmem::find(times, UNTIL.as_bytes())?;
    let time = |text: &[u8]| Some(seconds(text.trim_ascii())?.0);
    Some((time(&times[..at])?, time(&times[at + UNTIL.len()..])?))
}

/// Parses `##### CPU 1 buffer started ####`, which the kernel prints where the events of a CPU
/// begin whose buffer overwrote older ones: until there its events are lost.
fn started(line: &[u8]) -> Option<Line<'static>> {
    let mut cursor = Cursor::new(line.strip_prefix(b"##### CPU ")?);
    let cpu = u32::try_from(cursor.digits()?).ok();
    (cursor.rest() == b"buffer started ####").then_some(Line::Lost { cpu, events: None })
}

/// Parses `CPU:1 [LOST 42 EVENTS]` of the kernel, `CPU:1 [42 EVENTS DROPPED]` of trace-cmd, and
/// perf's record of lost events.
fn lost(line: &[u8]) -> Option<Line<'static>> {
    if let Some(rest) = line.trim_ascii_start().strip_prefix(b"CPU:") {
        let mut cursor = Cursor::new(rest);
        let cpu = u32::try_from(cursor.digits()?).ok();
        let inside = cursor.bracketed_to_end().ok()?;
        memmem::find(inside, b"LOST").or_else(|| memmem::find(inside, b"DROPPED"))?;
        let events = inside.split(|&byte| byte == b' ').find_map(whole_number);
        return Some(Line::Lost { cpu, events });
    }
    let at = PERF_LOST.find(line)?;
    let events = memmem::find(line, b" lost ").and_then(|at| Cursor::new(&line[at + 6..]).digits());
    Some(Line::Lost { cpu: parse_prefix(&line[..at]).ok().and_then(|prefix| prefix.cpu), events })
}

/// Returns true if a line has the prefix of an event: a task, a CPU and a time, and then a name.
pub(super) fn has_prefix(line: &[u8]) -> bool {
    COLON.find_iter(line).take(4).any(|at| {
        parse_prefix(&line[..=at]).is_ok_and(|prefix| prefix.cpu.is_some() && prefix.tid.is_some())
    })
}

/// Maximum length of an event name in bytes, longer than all known ones.
const MAX_NAME: usize = 40;

/// Maximum length of an event before its call chain in bytes, longer than any.
const MAX_EVENT: usize = 400;

/// Reads the event whose name is at the start of `rest`. Returns `None` for an event that is not of
/// a request or bio, and if the word is not an event name, for example a part of a task's name.
fn event_at<'a>(
    prefix: &'a [u8],
    rest: &'a [u8],
    is_wrapped: bool,
) -> Result<Option<Record<'a>>, Expected> {
    // Names are short; a malicious line may contain the word at every place.
    let Some(colon) = memchr::memchr(b':', &rest[..rest.len().min(MAX_NAME)]) else {
        return Ok(None);
    };
    let (name, tail) = (&rest[..colon], &rest[colon + 1..]);
    if !name.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'_') {
        return Ok(None);
    }
    let prefix = parse_prefix(prefix)?;
    let mut record = Record {
        event: TraceEvent::new(TraceKind::Plug),
        comm: prefix.comm,
        resolution_ns: prefix.resolution(),
        named: None,
        is_of_blk: false,
    };
    if fields::is_fields(tail) {
        let Some((event, comm)) = fields::parse(name, tail)? else { return Ok(None) };
        record.event = event;
        prefix.apply(&mut record.event);
        task(&mut record, comm.unwrap_or_default());
        return Ok(Some(record));
    }
    prefix.apply(&mut record.event);
    Ok(parse_tail(name, Cursor::new(tail), &mut record, is_wrapped)?.then_some(record))
}

#[derive(Default)]
struct Prefix<'a> {
    time: Option<u64>,
    decimals: Option<u32>,
    comm: Option<&'a [u8]>,
    tid: Option<u32>,
    process: Option<u32>,
    cpu: Option<u32>,
}

impl Prefix<'_> {
    fn resolution(&self) -> Option<u64> {
        self.decimals.map(|decimals| 10u64.pow(9u32.saturating_sub(decimals)))
    }

    #[inline]
    fn apply(&self, event: &mut TraceEvent) {
        (event.time, event.cpu) = (self.time, self.cpu);
        (event.tid, event.process) = (self.tid, self.process);
    }
}

/// Reads a line of the kernel's tracer `blk`, which prints events without names, as `blkparse`
/// does: `8,0 Q WS 2048 + 8 [dd]`.
fn blk<'a>(prefix: &'a [u8], rest: &'a [u8]) -> Option<Line<'a>> {
    let mut at = Cursor::new(rest);
    let (major, minor) = at.device().ok()?;
    let (mut event, comm) = blkparse::body(at, DeviceNumber::new(major, minor)).ok()??;
    let prefix = parse_prefix(prefix).ok().filter(|prefix| prefix.cpu.is_some())?;
    prefix.apply(&mut event);
    let (comm, resolution_ns) = (prefix.comm.or(comm), prefix.resolution());
    Some(Line::Event(Record { event, comm, resolution_ns, named: None, is_of_blk: true }))
}

/// Places of a line at which the name of a host controller's event is looked for: the name of a
/// task may hold a few colons.
const MAX_PLACES: usize = 6;

/// Reads a line with an event of a host controller; `None` if it has none. The name is at the start
/// of the line, or after the colon that ends the time.
fn command(line: &[u8]) -> Option<Line<'_>> {
    let after_colons = COLON.find_iter(line).take(MAX_PLACES).map(|at| at + 1);
    for at in std::iter::once(0).chain(after_colons) {
        let rest = line[at..].trim_ascii_start();
        match rest.first() {
            Some(b'u' | b's') => {}
            Some(b'0'..=b'9') if at > 0 => match blk(&line[..at], rest) {
                Some(found) => return Some(found),
                None => continue,
            },
            _ => continue,
        }
        // perf prints the group of an event before its name.
        let rest =
            rest.strip_prefix(b"ufs:").or_else(|| rest.strip_prefix(b"scsi:")).unwrap_or(rest);
        let Some(colon) = memchr::memchr(b':', &rest[..rest.len().min(MAX_NAME)]) else { continue };
        let (name, tail) = (&rest[..colon], &rest[colon + 1..]);
        let found = match name {
            b"ufshcd_command" => hardware::ufs(tail)
                .map(|found| found.map(|ufs| (ufs.event, NamedDevice::Ufs(ufs.device)))),
            b"scsi_dispatch_cmd_start" => hardware::scsi(TraceKind::Issue, tail)
                .map(|(event, address)| Some((event, NamedDevice::Scsi(address)))),
            b"scsi_dispatch_cmd_done" => hardware::scsi(TraceKind::Complete, tail)
                .map(|(event, address)| Some((event, NamedDevice::Scsi(address)))),
            _ => continue,
        };
        let Ok(prefix) = parse_prefix(&line[..at]) else { continue };
        return Some(match found {
            Err(expected) => Line::Malformed { expected },
            Ok(None) => Line::Other,
            Ok(Some((mut event, named))) => {
                prefix.apply(&mut event);
                let (comm, resolution_ns) = (prefix.comm, prefix.resolution());
                Line::Event(Record {
                    event,
                    comm,
                    resolution_ns,
                    named: Some(named),
                    is_of_blk: false,
                })
            }
        });
    }
    None
}

/// Parses `COMM-PID [(TGID)] [CPU] [FLAGS] TIME:` from the right, because only the name on the left
/// may contain any character. The CPU, and all before the time, may be missing, because `perf
/// script -F` prints the fields that it is asked for.
fn parse_prefix(prefix: &[u8]) -> Result<Prefix<'_>, Expected> {
    let prefix = prefix.trim_ascii();
    if prefix.is_empty() {
        return Ok(Prefix::default());
    }
    if let Some(found) = verbose(prefix) {
        return Ok(found);
    }
    let (left, time) = time_at_end(prefix)?;
    let (time, decimals) = time.unzip();
    let mut left = without_time_of_day(left);
    let mut cpu = None;
    let before_time = left;
    // There is at most one word of flags between the CPU and the time.
    for _ in 0..2 {
        let (rest, word) = last_word(left);
        if word.last() == Some(&b']')
            && let Some(open) = memchr::memrchr(b'[', left)
        {
            let number = whole_number(&left[open + 1..left.len() - 1])
                .and_then(|cpu| u32::try_from(cpu).ok());
            cpu = Some(number.ok_or("the number of a CPU")?);
            left = left[..open].trim_ascii_end();
            break;
        }
        left = rest;
    }
    if cpu.is_none() {
        return Ok(Prefix { time, decimals, ..task_alone(before_time) });
    }
    let mut process = None;
    if let Some(inside) = left.strip_suffix(b")")
        && let Some(open) = memchr::memrchr(b'(', inside)
        && let inside = inside[open + 1..].trim_ascii()
        && inside.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-')
    {
        process = whole_number(inside).and_then(|process| u32::try_from(process).ok());
        left = left[..open].trim_ascii_end();
    }
    let task = task_of(left);
    Ok(Prefix { time, decimals, cpu, process: task.process.or(process), ..task })
}

/// Parses `dd`, `dd 1234`, `dd-1234`, `dd 1230/1234` or nothing.
fn task_of(text: &[u8]) -> Prefix<'_> {
    let (mut left, mut tid, mut process) = (text, None, None);
    if let Some((before, number)) = last_number(text) {
        let pair = before.strip_suffix(b"/").and_then(last_number);
        if let Some((before, first)) = pair {
            (left, tid, process) = (before, Some(number), Some(first));
        } else if matches!(before.last(), None | Some(b' ' | b'\t' | b'-')) {
            (left, tid) = (before, Some(number));
        }
    }
    let comm = match tid {
        Some(_) => left.strip_suffix(b"-").unwrap_or(left),
        None => left,
    };
    Prefix { comm: known(without_buffer(comm.trim_ascii())), tid, process, ..Prefix::default() }
}

/// Maximum length of a task's name in a trace in bytes.
const MAX_COMM: usize = 15;

/// Returns the name of a task without `one:    `, the buffer that trace-cmd prints before it where
/// events were recorded in several (`-B one`).
fn without_buffer(comm: &[u8]) -> &[u8] {
    if comm.len() <= MAX_COMM {
        return comm;
    }
    let after = COLON.find(comm).map(|at| comm[at + 1..].trim_ascii_start());
    after.filter(|after| after.len() <= MAX_COMM).unwrap_or(comm)
}

/// Returns the text before the date and the time of day that perf prints before a time with `-F
/// +tod`: `2026-11-26 10:16:09.686313853`.
fn without_time_of_day(text: &[u8]) -> &[u8] {
    if !text.last().is_some_and(u8::is_ascii_digit) {
        return text;
    }
    let (left, time) = last_word(text);
    let (left, date) = last_word(left);
    let are = |text: &[u8], mark: u8| {
        text.iter().all(|byte| byte.is_ascii_digit() || *byte == mark || *byte == b'.')
    };
    let is_date = date.len() == 10 && date[4] == b'-' && are(date, b'-');
    if is_date && time.len() > 8 && time[2] == b':' && are(time, b':') { left } else { text }
}

/// Parses `dd    1234   0 0 00000000 00000019 [d8fe2a9bd] 47.244ms (+0.007ms):` of the kernel's
/// options `latency-format` and `verbose`: the task, the CPU, two kinds of flags, the number of the
/// event, the time in microseconds and the time since the first event. Other clocks than those of
/// nanoseconds have no `ms`, and their time is none.
fn verbose(prefix: &[u8]) -> Option<Prefix<'_>> {
    let text = prefix.strip_suffix(b"):")?;
    let (text, _) = split_at_last(text, b'(')?;
    let (text, since_first) = split_at_last(text, b']')?;
    let (mut left, time) = split_at_last(text, b'[')?;
    for _ in 0..3 {
        let (rest, word) = last_word(left);
        hexadecimal(word)?;
        left = rest;
    }
    let (left, cpu) = last_number(left)?;
    let (comm, tid) = last_number(left.trim_ascii_end())?;
    let time = hexadecimal(time)?.checked_mul(1000).filter(|_| since_first.ends_with(b"ms"));
    let comm = known(comm.trim_ascii());
    Some(Prefix {
        time,
        decimals: time.and(Some(6)),
        comm,
        tid: Some(tid),
        process: None,
        cpu: Some(cpu),
    })
}

/// Splits a text at the last of a byte, which is in neither part, without the blanks around it.
fn split_at_last(text: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memrchr(byte, text)?;
    Some((text[..at].trim_ascii_end(), text[at + 1..].trim_ascii()))
}

/// A time in nanoseconds and its number of decimals, if the clock has seconds.
type Time = Option<(u64, u32)>;

/// Splits off the time at the end of a prefix. Where the kernel's option `latency-format` is on, it
/// is microseconds since the first event, `121616us :` or `121616us#:`, with a mark of the delay.
///
/// The kernel's clocks `counter`, `uptime` and `x86-tsc` are whole numbers of units that nobody can
/// tell: they give an order, but no time. So does perf without its field `time`.
fn time_at_end(prefix: &[u8]) -> Result<(&[u8], Time), Expected> {
    const EXPECTED: Expected = "a time in seconds";
    let (left, word) = last_word(prefix);
    if let Some(time) = word.strip_suffix(b":").and_then(seconds) {
        return Ok((left, Some(time)));
    }
    let mut text = prefix;
    // perf can print a sample's period after the time, and trace-cmd the time since the last event.
    if whole_number(word).is_some() || word.starts_with(b"(+") {
        text = left;
    }
    if text.ends_with(b"]") {
        return Ok((text, None));
    }
    text = text.strip_suffix(b":").ok_or("a colon after the time")?.trim_ascii_end();
    let (mut left, mut word) = last_word(text);
    // A long time leaves no blank after the CPU.
    if let Some(at) = memchr::memrchr(b']', word) {
        (left, word) = (&text[..text.len() - (word.len() - at - 1)], &word[at + 1..]);
    }
    let unmarked = word.strip_suffix(b"us").or_else(|| word.split_last()?.1.strip_suffix(b"us"));
    if let Some(microseconds) = unmarked {
        let ns =
            whole_number(microseconds).and_then(|count| count.checked_mul(1000)).ok_or(EXPECTED)?;
        return Ok((left, Some((ns, 6))));
    }
    match seconds(word) {
        None if whole_number(word).is_some() => Ok((left, None)),
        time => Ok((left, Some(time.ok_or(EXPECTED)?))),
    }
}

/// Parses what is before the time of a line without a CPU in brackets: `dd`, `dd 1234`, `dd-1234`,
/// `dd 1230/1234` or nothing; in the kernel's latency format also `dd-1234 1d..2.`, where the CPU
/// stands before the flags, and in that of `trace-cmd report -l -R` `dd-1234 1-0x0`.
fn task_alone(text: &[u8]) -> Prefix<'_> {
    let (before, word) = last_word(text);
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (cpu, flags) = word.split_at(digits);
    let is_flag = |byte: &u8| matches!(byte, b'.' | b'#' | b'*') || byte.is_ascii_alphanumeric();
    let is_flags =
        (4..=8).contains(&flags.len()) && flags.contains(&b'.') && flags.iter().all(is_flag);
    if (is_flags || flags.strip_prefix(b"-0x").and_then(hexadecimal).is_some())
        && let Some(cpu) = whole_number(cpu).and_then(|cpu| u32::try_from(cpu).ok())
        && let Some((comm, tid)) = last_number(before)
        && let Some(comm) = comm.strip_suffix(b"-")
    {
        // A name of eight bytes may have been cut there; most events have it behind, too.
        let comm = known(comm.trim_ascii()).filter(|comm| comm.len() < 8);
        return Prefix { comm, tid: Some(tid), cpu: Some(cpu), ..Prefix::default() };
    }
    task_of(text)
}

/// Returns a task's name; `None` if there is none, and for the dots that the kernel prints for a
/// task whose name it no longer knows.
fn known(comm: &[u8]) -> Option<&[u8]> {
    (!comm.is_empty() && comm != b"<...>").then_some(comm)
}

/// Splits off the last word; the text before it has no trailing blanks.
#[inline]
fn last_word(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memrchr2(b' ', b'\t', text) {
        Some(at) => (text[..at].trim_ascii_end(), &text[at + 1..]),
        None => (b"", text),
    }
}

/// Splits off the digits at the end.
fn last_number(text: &[u8]) -> Option<(&[u8], u32)> {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (left, digits) = text.split_at(text.len() - digits);
    Some((left, u32::try_from(whole_number(digits)?).ok()?))
}

/// Parses the event-specific part of the line. Returns false for an event that is not of a request
/// or bio.
fn parse_tail<'a>(
    name: &[u8],
    mut at: Cursor<'a>,
    record: &mut Record<'a>,
    is_wrapped: bool,
) -> Result<bool, Expected> {
    let kind = match name {
        b"block_bio_queue" => TraceKind::Queue,
        b"block_getrq" => TraceKind::GetRequest,
        b"block_sleeprq" => TraceKind::SleepRequest,
        b"block_bio_backmerge" => TraceKind::BackMerge,
        b"block_bio_frontmerge" => TraceKind::FrontMerge,
        b"block_bio_bounce" => TraceKind::Bounce,
        b"block_rq_issue" => return request(TraceKind::Issue, at, record, is_wrapped),
        b"block_rq_insert" => return request(TraceKind::Insert, at, record, is_wrapped),
        b"block_rq_merge" => return request(TraceKind::RequestMerge, at, record, is_wrapped),
        b"block_io_start" => return request(TraceKind::IoStart, at, record, is_wrapped),
        b"block_io_done" => return request(TraceKind::IoDone, at, record, is_wrapped),
        b"block_rq_complete" => return request_end(TraceKind::Complete, at, record),
        b"block_rq_requeue" => return request_end(TraceKind::Requeue, at, record),
        b"block_rq_error" => return request_end(TraceKind::RequestError, at, record),
        b"block_bio_complete" => {
            record.event.kind = TraceKind::BioComplete;
            place(&mut at, &mut record.event)?;
            record.event.error = Some(error(at)?);
            return Ok(true);
        }
        b"block_split" => return split(at, record),
        b"block_bio_remap" => return remap(at, record, false),
        b"block_rq_remap" => return remap(at, record, true),
        b"block_plug" => {
            task(record, at.bracketed_to_end()?);
            return Ok(true);
        }
        b"block_unplug" => return unplug(at, record),
        b"block_rq_tag_wait" => return tag_wait(at, record),
        b"block_dirty_buffer" | b"block_touch_buffer" | b"block_rq_abort" => return Ok(false),
        _ => return Err("the name of a known block event"),
    };
    record.event.kind = kind;
    place(&mut at, &mut record.event)?;
    task_at_end(at, record, is_wrapped)?;
    Ok(true)
}

/// Parses `8,0 WS 4096 () 2048 + 8 [be,0,4] [dd]`.
fn request<'a>(
    kind: TraceKind,
    mut at: Cursor<'a>,
    record: &mut Record<'a>,
    is_wrapped: bool,
) -> Result<bool, Expected> {
    let event = &mut record.event;
    event.kind = kind;
    device_and_letters(&mut at, event)?;
    let bytes = at.number("a number of bytes")?;
    let command = at.parenthesised()?;
    range(&mut at, event)?;
    // Old kernels print 0 unless the request is passthrough.
    if bytes > 0 {
        if event.op == Some(TraceOp::Other) && (!command.is_empty() || event.bytes != Some(bytes)) {
            event.op = Some(TraceOp::Passthrough);
        }
        event.bytes = Some(bytes);
    }
    event.find_passthrough();
    priority(&mut at, event)?;
    write_hint(&mut at)?;
    task_at_end(at, record, is_wrapped)?;
    Ok(true)
}

/// Parses `8,0 WS () 2048 + 8 [be,0,4] [0]`.
fn request_end(
    kind: TraceKind,
    mut at: Cursor<'_>,
    record: &mut Record<'_>,
) -> Result<bool, Expected> {
    let event = &mut record.event;
    event.kind = kind;
    device_and_letters(&mut at, event)?;
    let command = at.parenthesised()?;
    if event.op == Some(TraceOp::Other) && !command.is_empty() {
        event.op = Some(TraceOp::Passthrough);
    }
    range(&mut at, event)?;
    event.find_passthrough();
    priority(&mut at, event)?;
    write_hint(&mut at)?;
    event.error = Some(error(at)?);
    Ok(true)
}

/// Parses `8,0 R 0 / 1024 [dd]`.
fn split<'a>(mut at: Cursor<'a>, record: &mut Record<'a>) -> Result<bool, Expected> {
    let event = &mut record.event;
    device_and_letters(&mut at, event)?;
    let sector = at.number("a sector")?;
    at.byte(b'/', "a slash between the sectors of the parts")?;
    // Kernels record the remainder's sector in 32 bits, which is enough for the length of the front
    // part.
    let front = (at.number("a sector")? as u32).wrapping_sub(sector as u32);
    event.kind = TraceKind::Split { new_sector: sector.wrapping_add(u64::from(front)) };
    event.sector = Some(sector);
    event.bytes = Some(u64::from(front) * SECTOR_SIZE);
    task(record, at.bracketed_to_end()?);
    Ok(true)
}

/// Parses `8,0 R 2056 + 8 <- (8,1) 8`, and for a request also the number of its bios.
fn remap(mut at: Cursor<'_>, record: &mut Record<'_>, is_request: bool) -> Result<bool, Expected> {
    place(&mut at, &mut record.event)?;
    at.text("<-")?;
    let mut inside = Cursor::new(at.parenthesised()?);
    let (major, minor) = inside.device()?;
    let (from, from_sector) = (DeviceNumber::new(major, minor), at.number("a sector")?);
    if !at.is_at_end() {
        at.number("a number of bios")?;
    }
    record.event.kind = if is_request {
        TraceKind::RequestRemap { from, from_sector }
    } else {
        TraceKind::Remap { from, from_sector }
    };
    Ok(true)
}

/// Parses `[dd] 4`.
fn unplug<'a>(at: Cursor<'a>, record: &mut Record<'a>) -> Result<bool, Expected> {
    let (comm, rest) = at.bracketed_last()?;
    let requests = whole_number(rest)
        .and_then(|count| u32::try_from(count).ok())
        .ok_or("a number of requests")?;
    record.event.kind = TraceKind::Unplug { requests, timer: None };
    task(record, comm);
    Ok(true)
}

/// Parses `8,0 hctx=1 starved on hardware tags (depth=32)`.
fn tag_wait(mut at: Cursor<'_>, record: &mut Record<'_>) -> Result<bool, Expected> {
    let event = &mut record.event;
    let (major, minor) = at.device()?;
    event.device = Some(DeviceNumber::new(major, minor));
    at.text("hctx=")?;
    event.queue = at.digits().and_then(|queue| u16::try_from(queue).ok());
    at.text("starved on")?;
    let is_driver_tag = match at.word()? {
        b"hardware" => true,
        b"scheduler" => false,
        _ => return Err("scheduler or hardware tags"),
    };
    at.text("tags")?;
    let depth = at.parenthesised().ok().and_then(|inside| inside.strip_prefix(b"depth="));
    let depth = depth.and_then(whole_number).and_then(|depth| u32::try_from(depth).ok());
    event.kind = TraceKind::TagWait { depth, is_driver_tag };
    Ok(true)
}

#[inline]
fn device_and_letters(at: &mut Cursor<'_>, event: &mut TraceEvent) -> Result<(), Expected> {
    let (major, minor) = at.device()?;
    event.device = Some(DeviceNumber::new(major, minor));
    let (op, flags): (TraceOp, Flags) =
        parse_rwbs(at.word()?).ok_or("letters of an operation such as WS")?;
    (event.op, event.flags) = (Some(op), Some(flags));
    Ok(())
}

#[inline]
fn range(at: &mut Cursor<'_>, event: &mut TraceEvent) -> Result<(), Expected> {
    let (sector, sectors) = at.range()?;
    // A flush has no sector, which the kernel prints as -1.
    event.sector = (sector != u64::MAX).then_some(sector);
    event.bytes = Some(sectors * SECTOR_SIZE);
    Ok(())
}

#[inline]
fn place(at: &mut Cursor<'_>, event: &mut TraceEvent) -> Result<(), Expected> {
    device_and_letters(at, event)?;
    range(at, event)
}

fn error(at: Cursor<'_>) -> Result<i32, Expected> {
    whole_signed(at.bracketed_to_end()?)
        .and_then(|error| i32::try_from(error).ok())
        .ok_or("an error number in brackets")
}

#[inline]
fn task_at_end<'a>(
    at: Cursor<'a>,
    record: &mut Record<'a>,
    is_wrapped: bool,
) -> Result<(), Expected> {
    if is_wrapped && at.is_at_end() {
        return Ok(());
    }
    task(record, at.bracketed_to_end()?);
    Ok(())
}

/// Uses the name in the event-specific part if the prefix has none.
#[inline]
fn task<'a>(record: &mut Record<'a>, comm: &'a [u8]) {
    if record.comm.is_none() && !comm.is_empty() {
        record.comm = Some(comm);
    }
}

/// Skips `|32768|`, the write hint that some kernels with patches print after the priority.
#[inline]
fn write_hint(at: &mut Cursor<'_>) -> Result<(), Expected> {
    if at.is_at(b'|') {
        at.word()?;
    }
    Ok(())
}

/// `be,0,4`, `be,4` in an early form, and `0x2,0,4` where perf knows no names of classes; absent
/// before 6.11.
#[inline]
fn priority(at: &mut Cursor<'_>, event: &mut TraceEvent) -> Result<(), Expected> {
    if at.is_at(b'[') || at.is_at_end() {
        return Ok(());
    }
    let word = at.word()?;
    if word == b"be,0,4" {
        event.ioprio = Some(IoPrio::DEFAULT);
        return Ok(());
    }
    let malformed = "a priority such as be,0,4";
    let mut parts = word.split(|&byte| byte == b',');
    let (class, first, second) = (parts.next(), parts.next(), parts.next());
    if parts.next().is_some() {
        return Err(malformed);
    }
    let number = |text: Option<&[u8]>| {
        text.and_then(whole_number).filter(|&number| number < 1024).ok_or(malformed)
    };
    let class = match class.unwrap_or_default() {
        b"none" | b"0x0" | b"0" => 0,
        b"rt" | b"0x1" | b"1" => 1,
        b"be" | b"0x2" | b"2" => 2,
        b"idle" | b"0x3" | b"3" => 3,
        b"invalid" => 7,
        other if other.starts_with(b"0x") => 7,
        _ => return Err(malformed),
    };
    let (hint, level) =
        if second.is_some() { (number(first)?, number(second)?) } else { (0, number(first)?) };
    // A priority of an invalid class is none that could be kept.
    event.ioprio = IoPrio::from_bits(class << 13 | (hint as u16) << 3 | level as u16 & 7);
    Ok(())
}
