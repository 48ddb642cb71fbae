//! What each job got of its slice, which is what it gets alone, times the part of the weights that
//! it has.

/// The part of its slice that `aileron` promises to a job.
pub const PROMISED: f64 = 0.9;

/// The slice of a job, and what it got. Rates are in I/Os a second.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Index in [`RunResult::jobs`](crate::result::RunResult::jobs).
    pub job: usize,
    /// What the job gets alone on the device, without a scheduler and within its limits.
    pub alone: f64,
    /// Its part of the weights while it ran, 0 to 1.
    pub part: f64,
    /// What it got beside the others.
    pub got: f64,
    /// Why it has less than [`PROMISED`] of its slice; `None` if it has that.
    pub shortfall: Option<Shortfall>,
}

/// What a job lacks its slice for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacks {
    /// The reserve of another tenant goes first.
    Reserve,
    /// The device does not give it, even if each job is held to its slice.
    Device,
    /// The scheduler missed it: if each job is held to its slice, the device gives it.
    Scheduler,
}

impl Lacks {
    /// Returns the name in reports for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::Device => "device",
            Self::Scheduler => "scheduler",
        }
    }
}

/// Why a job has less of its slice than is promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The cause.
    pub cause: Lacks,
    /// The cause in words, with its figures, as sentences.
    pub words: String,
}

impl Slice {
    /// Returns the slice, in I/Os a second.
    pub fn size(&self) -> f64 {
        self.alone * self.part
    }

    /// Returns what the job got as a part of its slice; 1 if it is due nothing.
    pub fn of_slice(&self) -> f64 {
        if self.size() > 0.0 { self.got / self.size() } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_of_what_a_job_gets_alone() {
        let slice = Slice { job: 0, alone: 400.0, part: 0.25, got: 80.0, shortfall: None };
        assert_eq!((slice.size(), slice.of_slice()), (100.0, 0.8));
        let nothing = Slice { part: 0.0, ..slice };
        assert_eq!(nothing.of_slice(), 1.0);
    }
}
