//! Runs the jobs of experiments by the same code as `elevon run`.

use elevon_formats::fio::{MemorySource, parse};
use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::{Watch, execute};
use elevon_plan::failure::{Ending, Failure, MachineError};
use elevon_plan::listener::Steps;
use elevon_plan::options::StackOptions;
use elevon_plan::parallel::on_all_cores;
use elevon_plan::plan::Plan;
use elevon_result::result::RunResult;

use crate::bar::Bar;
use crate::error::CommandError;

/// A job file of an experiment: its path, for commands and complaints, and its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

/// Makes the runs of an experiment.
pub(super) struct Lab {
    interrupt: Interrupt,
    bar: Bar,
}

impl Lab {
    /// Creates a lab whose runs end on SIGINT.
    pub(super) fn on_signals(name: &str) -> Result<Self, Failure> {
        let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
        Ok(Self { interrupt, bar: Bar::with_lines(name) })
    }

    #[cfg(test)]
    pub(super) fn quiet() -> Self {
        Self { interrupt: Interrupt::new(), bar: Bar::new("") }
    }

    /// Returns the signal that ended the runs, if one did.
    pub(super) fn interrupted_by(&self) -> Option<i32> {
        self.interrupt.signal()
    }

    /// Sets the number of runs, for the progress bar.
    pub(super) fn expect(&self, runs: usize) {
        self.bar.expect(runs as u64);
    }

    /// Applies `work` to each item on as many threads as there are CPUs, and returns the results in
    /// order. Ends at the first failure.
    pub(super) fn map<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> Result<R, Failure> + Sync,
    ) -> Result<Vec<R>, Failure> {
        let all: Vec<usize> = (0..items.len()).collect();
        let mut done: Vec<Option<R>> = items.iter().map(|_| None).collect();
        // A run that was interrupted fails by itself.
        let never = Interrupt::new();
        on_all_cores(
            &all,
            None,
            &never,
            |at| work(&items[at]).map(Some),
            |at, result| {
                done[at] = Some(result);
                Ok(())
            },
        )?;
        Ok(done.into_iter().flatten().collect())
    }

    /// Runs a job with these variables in its environment, on the stack that the options describe.
    pub(super) fn watch(
        &self,
        job: Job<'_>,
        variables: &[(&str, &str)],
        options: &str,
        watch: &mut dyn Watch,
    ) -> Result<RunResult, Failure> {
        let mut source = MemorySource::one(job.path, job.text);
        source.variables =
            variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let jobs = parse(&mut source, job.path).map_err(Failure::text)?;
        let stack = StackOptions::of_text(options).map_err(Failure::input)?;
        let plan = Plan::of_jobs(jobs, job.path, &stack, None)?;
        if plan.is_real() {
            return Err(Failure::input(CommandError::SimulatedExperiment));
        }
        let (mut result, outcome) = execute(&plan, watch, &self.interrupt)?;
        self.bar.advance();
        let settings: String =
            variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        result.command = settings + &result.command;
        match outcome {
            Ending::Done => Ok(result),
            Ending::Failed | Ending::Interrupted(_) => Err(MachineError::RunNotEnded {
                command: result.command,
                warnings: result.warnings,
            }
            .into()),
        }
    }
}
