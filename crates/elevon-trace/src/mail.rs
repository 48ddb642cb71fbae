//! Undoes what mails do to a text: takes off quotes (`> `) and the numbers and remarks that people
//! add to lines, and joins lines that were wrapped.
//!
//! A line is changed only if it is no line of the format as it is and one after the change, so the
//! change is unambiguous. Lines that go into the one before leave an empty line, so that places in
//! messages are those of the mail.

use std::io::{self, Read};

use crate::detect::{detect, format_of_line, whole_lines};
use crate::format::TraceFormat;
use crate::input::Input;
use crate::read::Detect;

/// Maximum number of lines that a wrapped line takes.
const MAX_PARTS: usize = 3;
/// Maximum length of a line that is joined with others.
const MAX_PART: usize = 4096;

/// What is said of a text that was changed.
pub(crate) const NOTE: &str = "its lines are quoted, numbered or wrapped, as in a mail: that was undone where the \
    result is a line of the format";

/// Returns a line without the marks of quoted mail.
pub(crate) fn without_quotes(line: &[u8]) -> &[u8] {
    if line.first() != Some(&b'>') {
        return line;
    }
    let end =
        line.iter().position(|byte| !matches!(byte, b'>' | b' ' | b'\t')).unwrap_or(line.len());
    &line[end..]
}

/// Returns a line without its number: `12:`, `12)` or `12|`, as editors and `grep -n` print it.
fn without_number(line: &[u8]) -> Option<&[u8]> {
    let start = line.trim_ascii_start();
    let digits = start.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = &start[digits..];
    let (mark, rest) = rest.split_first()?;
    (digits > 0 && matches!(mark, b':' | b')' | b'|' | b'\t')).then_some(rest)
}

/// Returns a line without a remark behind its last bracket: `[0]   <-- 200 us`.
fn without_remark(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memrchr(b']', line)? + 1;
    let remark = line[end..].trim_ascii();
    [&b"<"[..], b"#", b"//", b"--", b"=", "\u{2190}".as_bytes()]
        .iter()
        .any(|mark| remark.starts_with(mark))
        .then_some(&line[..end])
}

/// Returns the part of a line that `is_line` accepts, without quotes, number and remark as needed.
fn cleaned<'a>(line: &'a [u8], is_line: &dyn Fn(&[u8]) -> bool) -> Option<&'a [u8]> {
    let line = without_quotes(line);
    let number = without_number(line);
    let candidates = [Some(line), number, without_remark(line), number.and_then(without_remark)];
    candidates.into_iter().flatten().find(|candidate| is_line(candidate))
}

/// Returns true if a line of the format may be wrapped at its blanks.
const fn may_wrap(format: TraceFormat) -> bool {
    matches!(
        format,
        TraceFormat::Ftrace | TraceFormat::Blkparse | TraceFormat::Lttng | TraceFormat::Snoop
    )
}

/// Returns the format of a text whose lines are those of a mail; `None` if undoing that gives no
/// more lines of the format than there are.
pub(crate) fn format_of(head: &[u8]) -> Option<TraceFormat> {
    let found = detect(head);
    if found.is_some_and(|found| matches!(found.format().detect, Detect::Head(_))) {
        return None;
    }
    let is_quoted = head.first() == Some(&b'>') || memchr::memmem::find(head, b"\n>").is_some();
    // The reader of ftrace joins lines by itself.
    if found == Some(TraceFormat::Ftrace) && !is_quoted {
        return None;
    }
    let format = found.or_else(|| guessed(head))?;
    let is_line = |line: &&[u8]| format.is_line(line);
    let as_it_is = whole_lines(head).filter(is_line).count();
    let mut undone = Lines { format, parts: Vec::new(), out: Vec::new() };
    for line in whole_lines(head) {
        undone.add(line);
    }
    undone.flush();
    let after = undone.out.split(|&byte| byte == b'\n').filter(is_line).count();
    (after > as_it_is).then_some(format)
}

/// Returns the format that some line has after undoing, alone or with those after it.
fn guessed(head: &[u8]) -> Option<TraceFormat> {
    let is_any = |line: &[u8]| format_of_line(line).is_some();
    let is_wrapped = |line: &[u8]| format_of_line(line).is_some_and(may_wrap);
    let lines: Vec<&[u8]> = whole_lines(head).map(without_quotes).collect();
    if let Some(first) = lines.first()
        && let Some(format) = detect(&[first, &b"\n"[..]].concat())
    {
        return Some(format);
    }
    for (at, line) in lines.iter().enumerate() {
        if let Some(line) = cleaned(line, &is_any) {
            return format_of_line(line);
        }
        let mut joined = line.to_vec();
        for next in lines.iter().skip(at + 1).take(MAX_PARTS - 1) {
            if joined.len() > MAX_PART {
                break;
            }
            joined.push(b' ');
            joined.extend_from_slice(next.trim_ascii());
            if let Some(line) = cleaned(&joined, &is_wrapped) {
                return format_of_line(line);
            }
        }
    }
    None
}

/// Undoes what mails do, line by line.
struct Lines {
    format: TraceFormat,
    /// Lines that may begin a wrapped one, without quotes.
    parts: Vec<Vec<u8>>,
    out: Vec<u8>,
}

impl Lines {
    fn add(&mut self, line: &[u8]) {
        let format = self.format;
        let is_line = |text: &[u8]| format.is_line(text);
        let quoted = without_quotes(line);
        // A time and, on the next line, an event without one belong together.
        let ends_prefix =
            self.parts.last().is_some_and(|part| part.trim_ascii_end().ends_with(b":"));
        let joins = format == TraceFormat::Ftrace
            && ends_prefix
            && quoted.trim_ascii_start().starts_with(b"block");
        if !joins && let Some(whole) = cleaned(line, &is_line) {
            self.flush();
            self.put(whole, 0);
            return;
        }
        self.parts.push(quoted.trim_ascii_end().to_vec());
        if !may_wrap(format) || line.len() > MAX_PART {
            return self.flush();
        }
        for from in 0..self.parts.len() - 1 {
            let joined = self.parts[from..].join(&b' ');
            if let Some(whole) = cleaned(&joined, &is_line) {
                let count = self.parts.len() - from;
                self.parts.truncate(from);
                self.flush();
                self.put(whole, count - 1);
                return;
            }
        }
        if self.parts.len() == MAX_PARTS {
            let first = self.parts.remove(0);
            self.put(&first, 0);
        }
    }

    /// Writes lines that belong to no other as they are.
    fn flush(&mut self) {
        for part in std::mem::take(&mut self.parts) {
            self.put(&part, 0);
        }
    }

    fn put(&mut self, line: &[u8], empty: usize) {
        self.out.extend_from_slice(line);
        self.out.resize(self.out.len() + 1 + empty, b'\n');
    }
}

/// Reads a text as it was before it was put into a mail.
pub(crate) struct Mail {
    input: Input,
    lines: Lines,
    /// What was read of [`Lines::out`].
    taken: usize,
    at_end: bool,
}

impl Mail {
    pub(crate) const fn new(input: Input, format: TraceFormat) -> Self {
        Self {
            input,
            lines: Lines { format, parts: Vec::new(), out: Vec::new() },
            taken: 0,
            at_end: false,
        }
    }
}

impl Read for Mail {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.lines.out.len() && !self.at_end {
            self.lines.out.clear();
            self.taken = 0;
            match self.input.line()? {
                Some((length, consumed)) => {
                    self.lines.add(&self.input.buffered()[..length]);
                    self.input.consume(consumed);
                }
                None => {
                    self.at_end = true;
                    self.lines.flush();
                }
            }
        }
        let rest = &self.lines.out[self.taken..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{counts, read_bytes};
    use crate::{Position, TraceEvent};

    fn read(text: &str) -> (TraceFormat, Vec<TraceEvent>, u64) {
        let (events, reader) = read_bytes(text);
        assert!(reader.report().notes.contains(&NOTE), "{text}");
        (reader.format(), events, reader.report().skipped_count())
    }

    const QUOTED: &str = "\
On Monday Ann wrote:
> fio-1201 [000] ..... 12.000100: block_rq_issue: 8,0 R 4096 ()
> 2048 + 8 [fio]
> fio-1201 [000] ..... 12.000100: block_rq_issue: 8,0 R 4096 () 4096 + 8 [fio]
> <idle>-0 [000] ..s1. 12.000300: block_rq_complete: 8,0 R () 2048 + 8
> [0]
> <idle>-0 [000] ..s1.
> 12.000310: block_rq_complete: 8,0 R ()
> 4096 + 8 [0]

That is slow.
";

    #[test]
    fn lines_of_ftrace_are_unquoted_and_joined() {
        let (format, events, skipped) = read(QUOTED);
        assert_eq!((format, skipped), (TraceFormat::Ftrace, 0));
        assert_eq!(counts(&events), [("issue", 2), ("complete", 2)]);
        assert_eq!(
            events.iter().map(|event| event.sector).collect::<Vec<_>>(),
            [2048, 4096, 2048, 4096].map(Some)
        );
        assert_eq!(
            events.iter().map(|event| event.tid).collect::<Vec<_>>(),
            [1201, 1201, 0, 0].map(Some)
        );
        // With the ends of lines of Windows, and quoted twice.
        assert_eq!(read(&QUOTED.replace('\n', "\r\n")).1, events);
        assert_eq!(read(&QUOTED.replace("> ", "> > ")).1, events);
    }

    #[test]
    fn lines_of_blkparse_are_unquoted_numbered_and_remarked() {
        let quoted = "\
>   8,0    0        1     0.000000000  1201  Q   R 2048 + 8 [fio]
>   8,0    0        3     0.000002000  1201  D   R 2048 +
> 8 [fio]
>   8,0    0        4     0.000202000     0  C   R 2048 + 8 [0]
";
        let numbered = "\
  1:   8,0    0        1     0.000000000  1201  Q   R 2048 + 8 [fio]
  2:   8,0    0        3     0.000002000  1201  D   R 2048 + 8 [fio]
  3:   8,0    0        4     0.000202000     0  C   R 2048 + 8 [0]     <-- 200 us
";
        let (format, events, skipped) = read(quoted);
        assert_eq!((format, skipped), (TraceFormat::Blkparse, 0));
        assert_eq!(counts(&events), [("queue", 1), ("issue", 1), ("complete", 1)]);
        assert_eq!(read(numbered), (format, events.clone(), 0));
        // Only the last line is quoted.
        let some = quoted.replacen("> ", "", 3);
        assert_eq!(read(&some).1.len(), 3);
    }

    #[test]
    fn other_formats_are_unquoted() {
        let text = "> 7,W,65536,4096,1577808001000000\n> 7,R,0,4096,1577808001000001\n";
        assert_eq!(read(text).0, TraceFormat::Alibaba);
        let text = "> fio version 3 iolog\n> 0 /dev/vda add\n> 105 /dev/vda read 0 4096\n";
        let (format, events, skipped) = read(text);
        assert_eq!((format, events.len(), skipped), (TraceFormat::FioLog, 1, 0));
        let text = "\
> TIME(s)     COMM           PID     DISK      T SECTOR     BYTES   LAT(ms)
> 0.000310    postgres       4242    vdb       W 81920      8192       0.41
";
        assert_eq!(read(text).0, TraceFormat::Snoop);
    }

    /// Places in messages are those of the mail.
    #[test]
    fn a_line_that_stays_damaged_has_its_place() {
        let text = QUOTED.replace("4096 + 8 [0]", "4096 ? 8 [0]");
        let (_, reader) = read_bytes(text);
        let skipped = &reader.report().skipped;
        assert_eq!((skipped.len(), skipped[0].first.at), (1, Position::Line(8)));
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for text in [
            "> hello\n> 1,2,3,4,5\n",
            "1: a\n2: b [0] <-- c\n",
            ">\n>\n",
            "> 8,0 is a disk\n> R 2048\n",
        ] {
            assert_eq!(format_of(text.as_bytes()), None, "{text}");
            assert!(crate::from_bytes(text.into()).is_err(), "{text}");
        }
        let whole = "dd-1 [000] ..... 1.000100: block_rq_issue: 8,0 R 4096 () 2048 + 8 [dd]\n";
        assert_eq!(format_of(whole.as_bytes()), None);
    }
}
