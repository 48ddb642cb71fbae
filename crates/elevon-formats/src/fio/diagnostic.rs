//! What is wrong, or worth a word, in a job file: one line that names the place and says what would be right.

use std::fmt;

/// A complaint about one option or line of a job file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1: the value where the value is at fault, else the key.
    pub column: u32,
    /// The option, or the section in brackets; empty where neither is meant.
    pub key: String,
    /// What is wrong, ending in what would be right.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, key, message } = self;
        match key.as_str() {
            "" => write!(f, "{file}:{line}:{column}: {message}"),
            _ => write!(f, "{file}:{line}:{column}: {key}: {message}"),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// Where something stands in a job file.
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
    pub fn diagnostic(&self, key: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            file: self.file.clone(),
            line: self.line,
            column: self.column,
            key: key.to_owned(),
            message: message.into(),
        }
    }
}
