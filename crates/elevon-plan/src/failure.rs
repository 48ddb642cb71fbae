//! How a run ended, or why it could not run.

use std::borrow::Cow;
use std::fmt;

use elevon_formats::fio::{Diagnostic, MAX_ERRORS};

mod input;
mod machine;

pub use input::{
    Clash, ConflictError, FileError, InputError, Irreplaceable, OptionError, UnknownName,
    ValueError, VsError,
};
pub use machine::MachineError;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
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
    /// Returns the exit status.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Interrupted(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub enum Failure {
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
    pub fn input(error: impl Into<InputError>) -> Self {
        Self::Input(vec![error.into()])
    }

    /// Creates a failure for one error of the input. `name` is the option with its value, the file
    /// or the command that the error belongs to.
    pub fn named(name: impl Into<String>, error: impl Into<InputError>) -> Self {
        Self::input(InputError::Named { name: name.into(), error: Box::new(error.into()) })
    }

    /// Creates a failure for all errors in a text.
    pub fn text(errors: Vec<Diagnostic>) -> Self {
        Self::Input(errors.into_iter().map(InputError::Text).collect())
    }

    /// Names in each error of the input what it belongs to; another failure stays as it is.
    pub fn within(self, name: impl Fn(Box<InputError>) -> InputError) -> Self {
        match self {
            Self::Input(errors) => {
                Self::Input(errors.into_iter().map(|error| name(Box::new(error))).collect())
            }
            Self::Output(_) | Self::Machine(_) | Self::Told(_) => self,
        }
    }

    /// Returns true if the reader of stdout closed it before the end.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }

    /// Returns the exit status.
    pub const fn code(&self) -> u8 {
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
            Self::Output(error) => {
                writeln!(f, "elevon: {}", shown(&format!("cannot write the report: {error}")))
            }
            Self::Machine(error) => writeln!(f, "elevon: {}", shown(&error.to_string())),
            Self::Told(_) => Ok(()),
        }
    }
}

/// Returns a line in a form that a terminal can show: not too long, without control characters, and
/// without the numbers of the system's errors, whose words it has.
pub fn shown(line: &str) -> Cow<'_, str> {
    match without_numbers(line) {
        Cow::Borrowed(line) => shortened(line),
        Cow::Owned(line) => Cow::Owned(shortened(&line).into_owned()),
    }
}

/// Leaves out what Rust adds to the system's words for an error: ` (os error 2)`.
pub fn without_numbers(text: &str) -> Cow<'_, str> {
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
    Cow::Owned(format!(
        "{} [{left_out} characters] {}",
        printable(&line[..start]),
        printable(&line[end..])
    ))
}

/// Writes control characters other than line ends as `\x1b`, because a terminal would interpret
/// them.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| c.is_control() && c != '\n';
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if is_bad(c) { format!("\\x{:02x}", c as u32) } else { c.to_string() };
    Cow::Owned(text.chars().map(escape).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_and_many_lines_are_cut() {
        let line = format!("a.fio:1:1: bs: `{}` is no number; use 4k", "ä".repeat(10_000_000));
        let error = |line: &str| InputError::Other(line.into());
        let text = Failure::input(error(&line)).to_string();
        assert!(text.len() < 2_000 && text.lines().count() == 1, "{text}");
        assert!(
            text.starts_with("elevon: a.fio:1:1: bs: `ä")
                && text.ends_with("is no number; use 4k\n"),
            "{text}"
        );
        let many =
            Failure::Input((0..900).map(|i| error(&format!("line {i}"))).collect()).to_string();
        assert_eq!((many.lines().count(), many.lines().last()), (21, Some("elevon: and 880 more")));
        let twenty = Failure::Input((0..20).map(|_| error("x")).collect()).to_string();
        assert_eq!(twenty.lines().count(), 20);
    }

    #[test]
    fn errors_of_the_system_have_words_and_no_numbers() {
        let error = std::io::Error::from_raw_os_error(2);
        assert_eq!(shown(&format!("a: {error}; b")), "a: No such file or directory; b");
        assert_eq!(
            without_numbers("a (os error 2) (os error x) (os error -3)."),
            "a (os error x)."
        );
    }

    #[test]
    fn a_terminal_is_sent_no_control_characters() {
        assert_eq!(printable("\u{1b}[31mred\u{7}: ü\n\u{9b}2J"), "\\x1b[31mred\\x07: ü\n\\x9b2J");
        assert!(matches!(printable("plain\n"), Cow::Borrowed(_)));
    }
}
