//! How a command ends.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;

use elevon_core::limits::LimitsError;
use elevon_core::stack::BuildError;
use elevon_formats::fio::{Diagnostic, MOST_ERRORS};
use elevon_sim::profiles::DeviceError;
use elevon_workload::WorkloadError;

/// How a run that could be made ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Done; exit status 0.
    Done,
    /// I/O errors beyond what the job ignores, or a device that stopped answering; exit status 1.
    Failed,
    /// This signal stopped it; it reported all the same. Exit status 128 and the signal's number,
    /// as a shell has it: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP.
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

/// One thing that is wrong with what the user gave; prints as one line.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// At a place in a file.
    #[error(transparent)]
    Text(#[from] Diagnostic),
    /// A job that cannot run on the device.
    #[error(transparent)]
    Job(#[from] WorkloadError),
    /// A device that there is not, or a parameter that it does not take.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Limits of a queue that contradict one another.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// Settings of the stack that do not go together.
    #[error(transparent)]
    Stack(#[from] BuildError),
    /// The text of a `--vs`.
    #[error(transparent)]
    Vs(#[from] VsError),
    /// An option or a word of the command line, which the line names.
    #[error("{0}")]
    Argument(String),
    /// Something of a variant.
    #[error("--vs '{vs}': {error}")]
    InVariant {
        /// The text that makes the variant.
        vs: String,
        /// What is wrong there.
        #[source]
        error: Box<Self>,
    },
}

impl From<String> for InputError {
    fn from(line: String) -> Self {
        Self::Argument(line)
    }
}

impl From<&str> for InputError {
    fn from(line: &str) -> Self {
        Self::Argument(line.to_owned())
    }
}

/// Why a run could not be made.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Bad input: one clear line each; exit status 2.
    Input(Vec<InputError>),
    /// Output could not be written; exit status 1.
    Output(std::io::Error),
    /// Something of the machine failed; exit status 1.
    Machine(String),
}

impl Failure {
    /// One line of bad input.
    pub(crate) fn input(error: impl Into<InputError>) -> Self {
        Self::Input(vec![error.into()])
    }

    /// Everything that is wrong in a text.
    pub(crate) fn text(errors: Vec<Diagnostic>) -> Self {
        Self::Input(errors.into_iter().map(InputError::Text).collect())
    }

    /// Whether stdout was closed before all was read.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }

    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Output(_) | Self::Machine(_) => 1,
        }
    }
}

/// Lines of bad input that are printed; the others are counted.
const MOST_LINES: usize = 20;
/// A line is cut in its middle to about this many characters: how it starts says where, how it ends
/// what would be right.
const LONGEST_LINE: usize = 1200;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(errors) => {
                for error in errors.iter().take(MOST_LINES) {
                    writeln!(f, "elevon: {}", shown(&error.to_string()))?;
                }
                // No parser looks for more than so many.
                let others = if errors.len() >= MOST_ERRORS { "or more others" } else { "more" };
                match errors.len().saturating_sub(MOST_LINES) {
                    0 => Ok(()),
                    more => writeln!(f, "elevon: and {more} {others}"),
                }
            }
            Self::Output(error) => writeln!(f, "elevon: cannot write the report: {error}"),
            Self::Machine(line) => writeln!(f, "elevon: {}", shown(line)),
        }
    }
}

/// A line as a terminal may have it: not too long, and without control characters.
fn shown(line: &str) -> Cow<'_, str> {
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

/// A text with its control characters, other than the ends of its lines, written as `\x1b`: a
/// terminal does as they say.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| c.is_control() && c != '\n';
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if is_bad(c) { format!("\\x{:02x}", c as u32) } else { c.to_string() };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Writes a line to stderr. If nobody can read it, it is lost: there is no other place for it.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "elevon: {}", shown(line));
}

/// One result of several things that were all tried: what failed first is told, but for the last.
pub(crate) fn all(results: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
    let mut failures: Vec<Failure> = results.into_iter().filter_map(Result::err).collect();
    // Whoever read our output has seen enough; that alone is no failure, and beside another it is
    // not the one to report.
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

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

/// Writes a report for people to stdout.
pub(crate) fn emit_text(text: &str) -> Result<(), Failure> {
    emit(&printable(text))
}

/// Writes to stdout, whole or not at all.
pub(crate) fn emit(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Why the text of a `--vs` makes no variant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VsError {
    /// A shell would read on for the rest of it.
    #[error("--vs '{0}': a quote is not closed, or nothing follows a backslash")]
    Quote(String),
    /// It has no words.
    #[error("--vs '{0}': expected options that make another stack, such as '--kernel 6.1'")]
    Empty(String),
    /// An option or its value is wrong.
    #[error("--vs '{text}': {line}")]
    Option {
        /// The text.
        text: String,
        /// What is wrong, from the parser of the command line.
        line: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_and_many_lines_are_cut() {
        let line = format!("a.fio:1:1: bs: `{}` is no number; use 4k", "ä".repeat(10_000_000));
        let text = Failure::input(line).to_string();
        assert!(text.len() < 2_000 && text.lines().count() == 1, "{text}");
        assert!(text.starts_with("elevon: a.fio:1:1: bs: `ä") && text.ends_with("is no number; use 4k\n"), "{text}");
        let many = Failure::Input((0..900).map(|i| format!("line {i}").into()).collect()).to_string();
        assert_eq!((many.lines().count(), many.lines().last()), (21, Some("elevon: and 880 more")));
        let twenty = Failure::Input(vec![InputError::from("x"); 20]).to_string();
        assert_eq!(twenty.lines().count(), 20);
    }

    #[test]
    fn a_terminal_is_sent_no_control_characters() {
        assert_eq!(printable("\u{1b}[31mred\u{7}: ü\n\u{9b}2J"), "\\x1b[31mred\\x07: ü\n\\x9b2J");
        assert!(matches!(printable("plain\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn of_several_failures_a_closed_pipe_is_the_last_to_matter() {
        let pipe = || Err(Failure::Output(std::io::ErrorKind::BrokenPipe.into()));
        let full = || Err(Failure::Machine("full".into()));
        assert!(all([Ok(()), Ok(())]).is_ok());
        assert!(all([pipe(), Ok(())]).is_err_and(|failure| failure.is_broken_pipe()));
        assert!(all([full(), pipe()]).is_err_and(|failure| !failure.is_broken_pipe()));
    }
}
