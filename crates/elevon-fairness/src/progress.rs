//! What the jobs of a mix get against their slices.
//!
//! The *slice* of a job is what it gets alone, times the part of the weights that it has. Its
//! *progress* is what it gets as a part of what it gets alone.

use crate::job_mix::JobMix;

/// The part of its slice that a job has at least where the promise holds.
pub const PROMISED: f64 = 0.9;

/// What a scheduler makes of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// What each job got, as a part of its slice.
    pub of_slice: Vec<f64>,
    /// The sum of all progress.
    pub total: f64,
}

impl Progress {
    /// Returns the progress of jobs that did so many I/Os.
    pub fn of(mix: &JobMix, alone: &[u64], got: &[u64]) -> Self {
        let progress =
            || got.iter().zip(alone).map(|(got, alone)| *got as f64 / (*alone).max(1) as f64);
        Self {
            of_slice: progress().enumerate().map(|(at, part)| part / mix.part(at)).collect(),
            total: progress().sum(),
        }
    }

    /// Returns the job that has the least part of its slice, and that part.
    pub fn worst(&self) -> (usize, f64) {
        let parts = self.of_slice.iter().copied().enumerate();
        parts.min_by(|a, b| a.1.total_cmp(&b.1)).expect("a mix has jobs")
    }

    /// Returns true if every job has its slice.
    pub fn is_kept(&self) -> bool {
        self.worst().1 >= PROMISED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_mix::MixJob;

    #[test]
    fn a_slice_is_of_what_a_job_gets_alone() {
        let job = |weight| MixJob {
            name: String::new(),
            section: String::new(),
            weight,
            lives: (0, 100),
            words: String::new(),
        };
        let mix = JobMix { seed: 0, device: "slots", varies: false, jobs: vec![job(30), job(10)] };
        let progress = Progress::of(&mix, &[1_000, 400], &[750, 80]);
        assert_eq!(progress.of_slice, [1.0, 0.8]);
        assert_eq!((progress.total, progress.worst(), progress.is_kept()), (0.95, (1, 0.8), false));
    }
}
