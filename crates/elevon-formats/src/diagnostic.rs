//! What is wrong, or worth a word, in a text that a person wrote: one line that names the place and
//! says what would be right.

use std::fmt;

/// The kind of a complaint, for code; its message is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    /// A file cannot be read or written, or may not be.
    File,
    /// A line, or a whole file, does not have the form of its format.
    Syntax,
    /// There is no option, key, section or tenant of that name.
    Unknown,
    /// Nothing stands where something must.
    Missing,
    /// The value does not have the form that its option takes.
    Malformed,
    /// The value is no number.
    NotANumber,
    /// The number has a unit that its option does not take.
    UnknownUnit,
    /// The number is too small, too large or too fine.
    OutOfRange,
    /// The word is none of those that its option takes.
    NoChoice,
    /// There are more of something than fit.
    TooMany,
    /// fio has it, and Elevon does not.
    Unsupported,
    /// It does not go together with something else that was given.
    Conflict,
    /// The device cannot do I/O of that size or at that place.
    Unaligned,
    /// A warning: an option is accepted and changes nothing.
    NoEffect,
    /// A warning that holds only in a run without a page cache.
    WithoutCache,
    /// A warning: fio reads, or does, something else than its manual or Elevon.
    Differs,
}

impl Problem {
    /// A complaint of this kind.
    pub fn because(self, message: impl Into<String>) -> Complaint {
        Complaint { problem: self, message: message.into() }
    }
}

/// What is wrong with a value, without its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Complaint {
    /// The kind.
    pub problem: Problem,
    /// What is wrong, ending in what would be right.
    pub message: String,
}

impl Complaint {
    /// The same kind in other words.
    #[must_use]
    pub fn reworded(self, words: impl FnOnce(String) -> String) -> Self {
        Self { message: words(self.message), ..self }
    }
}

/// What a key is complained of for: words alone say that its value does not have the form that the
/// key takes.
pub(crate) trait IntoComplaint {
    /// The complaint without its place.
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
    /// The file as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1: the value where the value is at fault, else the key.
    pub column: u32,
    /// The option, or the section in brackets; empty where neither is meant.
    pub key: String,
    /// The kind.
    pub problem: Problem,
    /// What is wrong, ending in what would be right.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, key, problem: _, message } = self;
        match key.as_str() {
            "" => write!(f, "{file}:{line}:{column}: {message}"),
            _ => write!(f, "{file}:{line}:{column}: {key}: {message}"),
        }
    }
}

/// Where something stands in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The file as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Span {
    /// A complaint at this place.
    pub fn diagnostic(&self, key: &str, complaint: Complaint) -> Diagnostic {
        let Complaint { problem, message } = complaint;
        let Self { file, line, column } = self.clone();
        Diagnostic { file, line, column, key: key.to_owned(), problem, message }
    }
}
