//! Results of a command: how a run ended, or why it could not run.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;

use elevon_formats::fio::{Diagnostic, MAX_ERRORS};

mod input;
mod machine;
mod sweep;

pub(crate) use input::{
    AdviseError, Clash, ConflictError, FileError, InputError, Irreplaceable, UnknownName, UsageError, ValueError,
    VsError,
};
pub(crate) use machine::MachineError;
pub(crate) use sweep::SweepError;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Finished; exit status 0.
    Done,
    /// There were I/O errors that the job does not ignore, or the device stopped answering; exit
    /// status 1.
    Failed,
    /// A signal with this number stopped the run, which reported all the same. The exit status is
    /// 128 plus the number, as in a shell: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP.
    Interrupted(i32),
}

impl Ending {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Interrupted(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Bad input, one line for each error; exit status 2.
    Input(Vec<InputError>),
    /// Output could not be written; exit status 1.
    Output(std::io::Error),
    /// The machine failed to do something; exit status 1.
    Machine(MachineError),
    /// Something was already told; with its exit status.
    Told(u8),
}

impl Failure {
    /// Creates a failure for one error of the input.
    pub(crate) fn input(error: impl Into<InputError>) -> Self {
        Self::Input(vec![error.into()])
    }

    /// Creates a failure for one error of the input. `name` is the option with its value, the file
    /// or the command that the error belongs to.
    pub(crate) fn named(name: impl Into<String>, error: impl Into<InputError>) -> Self {
        Self::input(InputError::Named { name: name.into(), error: Box::new(error.into()) })
    }

    /// Creates a failure for all errors in a text.
    pub(crate) fn text(errors: Vec<Diagnostic>) -> Self {
        Self::Input(errors.into_iter().map(InputError::Text).collect())
    }

    /// Names in each error of the input what it belongs to; another failure stays as it is.
    pub(crate) fn within(self, name: impl Fn(Box<InputError>) -> InputError) -> Self {
        match self {
            Self::Input(errors) => Self::Input(errors.into_iter().map(|error| name(Box::new(error))).collect()),
            Self::Output(_) | Self::Machine(_) | Self::Told(_) => self,
        }
    }

    /// Returns true if the reader of stdout closed it before the end.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }

    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Output(_) | Self::Machine(_) => 1,
            Self::Told(code) => *code,
        }
    }
}

/// Maximum number of input errors that are printed; the others are counted.
const MAX_LINES: usize = 20;
/// A longer line is cut in its middle to about this many bytes: its start says where the error is,
/// its end what would be right.
const LONGEST_LINE: usize = 1200;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(errors) => {
                for error in errors.iter().take(MAX_LINES) {
                    writeln!(f, "elevon: {}", shown(&error.to_string()))?;
                }
                // No parser reports more errors than this.
                let others = if errors.len() >= MAX_ERRORS { "or more others" } else { "more" };
                match errors.len().saturating_sub(MAX_LINES) {
                    0 => Ok(()),
                    more => writeln!(f, "elevon: and {more} {others}"),
                }
            }
            Self::Output(error) => writeln!(f, "elevon: {}", shown(&format!("cannot write the report: {error}"))),
            Self::Machine(error) => writeln!(f, "elevon: {}", shown(&error.to_string())),
            Self::Told(_) => Ok(()),
        }
    }
}

/// Returns a line in a form that a terminal can show: not too long, without control characters, and
/// without the numbers of the system's errors, whose words it has.
pub(crate) fn shown(line: &str) -> Cow<'_, str> {
    match without_numbers(line) {
        Cow::Borrowed(line) => shortened(line),
        Cow::Owned(line) => Cow::Owned(shortened(&line).into_owned()),
    }
}

/// Leaves out what Rust adds to the system's words for an error: ` (os error 2)`.
pub(crate) fn without_numbers(text: &str) -> Cow<'_, str> {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default();
    if first.len() == text.len() {
        return Cow::Borrowed(text);
    }
    let mut out = first.to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<i32>().is_ok() => out.push_str(rest),
            _ => out.extend([" (os error ", part]),
        }
    }
    Cow::Owned(out)
}

fn shortened(line: &str) -> Cow<'_, str> {
    if line.len() <= LONGEST_LINE {
        return printable(line);
    }
    let half = LONGEST_LINE / 2;
    let at_char = |at: &usize| line.is_char_boundary(*at);
    let start = (0..=half).rev().find(at_char).unwrap_or(0);
    let end = (line.len() - half..line.len()).find(at_char).unwrap_or(line.len());
    let left_out = line[start..end].chars().count();
    Cow::Owned(format!("{} [{left_out} characters] {}", printable(&line[..start]), printable(&line[end..])))
}

/// Writes control characters other than line ends as `\x1b`, because a terminal would interpret
/// them.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| c.is_control() && c != '\n';
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if is_bad(c) { format!("\\x{:02x}", c as u32) } else { c.to_string() };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Writes a line to stderr. An error is ignored, because there is no other place for the line.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "elevon: {}", shown(line));
}

/// Writes warnings to stderr, one per line.
pub(crate) fn warn(warnings: &[String]) {
    for warning in warnings {
        tell(&format!("warning: {warning}"));
    }
}

/// Combines the results of several actions that were all tried. Returns the last failure and prints
/// the others.
pub(crate) fn all(results: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
    let mut failures: Vec<Failure> = results.into_iter().filter_map(Result::err).collect();
    // A closed stdout is only reported if nothing else failed.
    failures.sort_by_key(|failure| !failure.is_broken_pipe());
    let last = failures.pop();
    let told = last.as_ref().map(ToString::to_string);
    for text in failures.iter().filter(|failure| !failure.is_broken_pipe()).map(ToString::to_string) {
        if Some(&text) != told.as_ref() {
            let _ = write!(std::io::stderr(), "{text}");
        }
    }
    last.map_or(Ok(()), Err)
}

impl From<MachineError> for Failure {
    fn from(error: MachineError) -> Self {
        Self::Machine(error)
    }
}

impl From<elevon_serve::ServeError> for Failure {
    fn from(error: elevon_serve::ServeError) -> Self {
        Self::input(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

/// Writes a text report to stdout.
pub(crate) fn emit_text(text: &str) -> Result<(), Failure> {
    emit(&printable(text))
}

/// Writes text to stdout and flushes it.
pub(crate) fn emit(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_and_many_lines_are_cut() {
        let line = format!("a.fio:1:1: bs: `{}` is no number; use 4k", "ä".repeat(10_000_000));
        let usage = |line: &str| UsageError { kind: clap::error::ErrorKind::InvalidValue, line: line.to_owned() };
        let text = Failure::input(usage(&line)).to_string();
        assert!(text.len() < 2_000 && text.lines().count() == 1, "{text}");
        assert!(text.starts_with("elevon: a.fio:1:1: bs: `ä") && text.ends_with("is no number; use 4k\n"), "{text}");
        let many = Failure::Input((0..900).map(|i| usage(&format!("line {i}")).into()).collect()).to_string();
        assert_eq!((many.lines().count(), many.lines().last()), (21, Some("elevon: and 880 more")));
        let twenty = Failure::Input((0..20).map(|_| usage("x").into()).collect()).to_string();
        assert_eq!(twenty.lines().count(), 20);
    }

    #[test]
    fn errors_of_the_system_have_words_and_no_numbers() {
        let error = std::io::Error::from_raw_os_error(2);
        assert_eq!(shown(&format!("a: {error}; b")), "a: No such file or directory; b");
        assert_eq!(without_numbers("a (os error 2) (os error x) (os error -3)."), "a (os error x).");
    }

    #[test]
    fn a_terminal_is_sent_no_control_characters() {
        assert_eq!(printable("\u{1b}[31mred\u{7}: ü\n\u{9b}2J"), "\\x1b[31mred\\x07: ü\n\\x9b2J");
        assert!(matches!(printable("plain\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn of_several_failures_a_closed_pipe_is_the_last_to_matter() {
        let pipe = || Err(Failure::Output(std::io::ErrorKind::BrokenPipe.into()));
        let full = || Err(MachineError::StartIo(std::io::ErrorKind::StorageFull.into()).into());
        assert!(all([Ok(()), Ok(())]).is_ok());
        assert!(all([pipe(), Ok(())]).is_err_and(|failure| failure.is_broken_pipe()));
        assert!(all([full(), pipe()]).is_err_and(|failure| !failure.is_broken_pipe()));
    }
}
