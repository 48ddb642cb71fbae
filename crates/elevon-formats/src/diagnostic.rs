//! Errors and warnings about a text that a person wrote: one line that names the place and says
//! what would be right.

use std::fmt;

/// The kind of a complaint, for code; its message is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    /// A file cannot be read or written, or access to it is not allowed.
    File,
    /// A line, or a whole file, does not match the syntax of its format.
    Syntax,
    /// There is no option, key, section or tenant of that name.
    Unknown,
    /// A required value is missing.
    Missing,
    /// The value does not have the form that its option takes.
    Malformed,
    /// The value is not a number.
    NotANumber,
    /// The number has a unit that its option does not take.
    UnknownUnit,
    /// The number is too small, too large or too fine.
    OutOfRange,
    /// The word is not one that the option takes.
    NoChoice,
    /// There are too many of something.
    TooMany,
    /// fio supports it, and Elevon does not.
    Unsupported,
    /// It conflicts with something else that was given.
    Conflict,
    /// The device cannot do I/O of that size or at that place.
    Unaligned,
    /// A warning: the option is accepted and has no effect.
    NoEffect,
    /// A warning that applies only to a run without a page cache.
    WithoutCache,
    /// A warning: fio reads or does something different from its manual or from Elevon.
    Differs,
}

impl Problem {
    /// Returns a complaint of this kind.
    pub fn because(self, message: impl Into<String>) -> Complaint {
        Complaint { problem: self, message: message.into() }
    }
}

/// A complaint about a value, without its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Complaint {
    /// The kind.
    pub problem: Problem,
    /// What is wrong, ending in what would be right.
    pub message: String,
}

impl Complaint {
    /// Returns a complaint of the same kind with another message.
    #[must_use]
    pub(crate) fn reworded(self, words: impl FnOnce(String) -> String) -> Self {
        Self { message: words(self.message), ..self }
    }
}

/// Conversion to a complaint about a key. A plain text becomes a complaint that the value does not
/// have the form that the key takes.
pub(crate) trait IntoComplaint {
    /// Returns the complaint without its place.
    fn into_complaint(self) -> Complaint;
}

impl IntoComplaint for Complaint {
    fn into_complaint(self) -> Complaint {
        self
    }
}

impl IntoComplaint for &str {
    fn into_complaint(self) -> Complaint {
        Problem::Malformed.because(self)
    }
}

impl IntoComplaint for String {
    fn into_complaint(self) -> Complaint {
        Problem::Malformed.because(self)
    }
}

/// A complaint about one option, key or line of a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostic {
    /// The file name as the user gave it.
    pub file: String,
    /// Line, from 1; 0 for an option of the command line.
    pub line: u32,
    /// Column in characters, from 1: of the value if the value is wrong, else of the key.
    pub column: u32,
    /// The option, or the section in brackets; empty if the complaint is about neither.
    pub key: String,
    /// The kind.
    pub problem: Problem,
    /// What is wrong, ending in what would be right.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, key, problem: _, message } = self;
        write!(f, "{file}:")?;
        if *line > 0 {
            write!(f, "{line}:{column}:")?;
        }
        match key.as_str() {
            "" => write!(f, " {message}"),
            _ => write!(f, " {key}: {message}"),
        }
    }
}

/// A place in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The file name as the user gave it, or an option of the command line.
    pub file: String,
    /// Line, from 1; 0 for an option of the command line.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Span {
    /// Returns a complaint at this place.
    pub fn diagnostic(&self, key: &str, complaint: Complaint) -> Diagnostic {
        let Complaint { problem, message } = complaint;
        let Self { file, line, column } = self.clone();
        Diagnostic { file, line, column, key: key.to_owned(), problem, message }
    }
}
