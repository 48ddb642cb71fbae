//! Advice on the other devices that explain a trace: what is not known of a proposal.

use elevon_plan::failure::Failure;
use elevon_plan::own_device::OwnDevice;

use super::goal::Objective;
use super::trial::{Bench, Trial};
use crate::figures::Figures;
use crate::interval::{self, Disk};

/// An experiment that would show which device it is.
pub(super) struct Experiment {
    /// Lines of a shell.
    pub(super) lines: Vec<String>,
    /// The same with words for people.
    pub(super) text: String,
}

/// The other devices that explain a trace.
pub(super) struct Elsewhere<'a> {
    bench: &'a Bench<'a>,
    ends: Vec<OwnDevice>,
    known: [u64; 2],
}

impl<'a> Elsewhere<'a> {
    /// Finds them in the file of the device that everything is replayed on.
    pub(super) fn new(own: Option<&OwnDevice>, bench: &'a Bench<'a>) -> Self {
        let ends = own.map(OwnDevice::ends).unwrap_or_default();
        Self { bench, ends, known: own.map_or([0; 2], |own| own.file.known) }
    }

    /// Replays a configuration on each of them. Returns a line for each process whose figures part.
    /// A device on which it cannot be replayed says nothing.
    pub(super) fn not_known(
        &self,
        trial: &Trial,
        objective: &Objective,
    ) -> Result<Vec<String>, Failure> {
        let mut trials = Vec::new();
        for end in &self.ends {
            trials.extend(
                self.bench.on(end)?.run_all(std::slice::from_ref(&trial.setup)).unwrap_or_default(),
            );
        }
        let parted = objective.processes.iter().enumerate().filter_map(|(at, subject)| {
            let own = trials.iter().map(|trial| trial.processes[at]);
            let all: Vec<Figures> = own.chain([trial.processes[at]]).collect();
            Some(interval::parted_words(self.known, &subject.label, &interval::ranges(&all)?))
        });
        Ok(parted.collect())
    }

    /// Returns the depths between which they serve alike, and an experiment that would tell them;
    /// `None` if there are none.
    pub(super) fn experiment(&self, name: Option<&str>) -> Option<([u64; 2], Experiment)> {
        let workload = &self.bench.workload;
        let disk = Disk::from_number(workload.device, workload.recorded.as_ref(), name);
        let experiment = || Experiment {
            lines: disk.experiment(self.known),
            text: disk.experiment_text(self.known),
        };
        (!self.ends.is_empty()).then(|| (self.known, experiment()))
    }
}
