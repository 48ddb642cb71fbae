//! How a command ends.

use std::fmt;
use std::io::Write;

use crate::output::NewFile;

/// How a run that could be made ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done; exit status 0.
    Done,
    /// I/O errors beyond what the job ignores, or a device that stopped answering; exit status 1.
    Failed,
    /// The user stopped it; it reported all the same. Exit status 130, as a shell has it for SIGINT.
    Interrupted,
}

/// Why a run could not be made.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Bad input: one clear line each; exit status 2.
    Input(Vec<String>),
    /// Output could not be written; exit status 1.
    Output(std::io::Error),
    /// Something of the machine failed; exit status 1.
    Machine(String),
}

impl Failure {
    /// One line of bad input.
    pub(crate) fn input(line: impl fmt::Display) -> Self {
        Self::Input(vec![line.to_string()])
    }

    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Output(_) | Self::Machine(_) => 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(lines) => lines.iter().try_for_each(|line| writeln!(f, "elevon: {line}")),
            Self::Output(error) => writeln!(f, "elevon: cannot write the report: {error}"),
            Self::Machine(line) => writeln!(f, "elevon: {line}"),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

/// Writes a report to stdout, whole or not at all.
pub(crate) fn emit(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes a file whole or not at all; see [`NewFile`].
pub(crate) fn write_file(path: &std::path::Path, content: &[u8]) -> Result<(), Failure> {
    NewFile::create("", path)?.commit(content)
}
