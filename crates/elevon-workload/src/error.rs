//! Errors in a job that are found once the device is known.

use elevon_formats::fio::{Complaint, Problem};

/// A job that cannot run on the device; prints as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {key}: {message}")]
pub struct WorkloadError {
    /// `file:line` of the job's section.
    pub origin: String,
    /// The option.
    pub key: String,
    /// The kind.
    pub problem: Problem,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl WorkloadError {
    pub(crate) fn new(origin: &str, key: &str, complaint: Complaint) -> Self {
        let Complaint { problem, message } = complaint;
        Self { origin: origin.to_owned(), key: key.to_owned(), problem, message }
    }
}
