//! What can be wrong with a job once the device is known.

use std::fmt;

/// A job that cannot run here; prints as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadError {
    /// `file:line` of the job's section.
    pub origin: String,
    /// The option.
    pub key: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl WorkloadError {
    pub(crate) fn new(origin: &str, key: &str, message: String) -> Self {
        Self { origin: origin.to_owned(), key: key.to_owned(), message }
    }
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.origin, self.key, self.message)
    }
}

impl std::error::Error for WorkloadError {}
