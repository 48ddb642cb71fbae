//! Checks and does the runs of a sweep.

use std::collections::BTreeMap;

use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::execute;
use elevon_plan::failure::{Ending, Failure};
use elevon_plan::listener::Listener;
use elevon_plan::parallel::on_all_cores;
use elevon_plan::text_files::Input;
use elevon_report::figures;
use elevon_result::result::RunResult;
use elevon_workload::run::NoObserver;

use crate::definition::Definition;
use crate::error::SweepError;
use crate::journal::{Journal, Outcome};
use crate::said::Said;

/// What the check of a sweep found.
pub(crate) struct Checked {
    /// The files that plans read, and what job files read of the environment.
    pub(crate) inputs: Vec<Input>,
    /// Warnings of the plans.
    pub(crate) said: Said,
}

/// Checks the plan of every point, and calls `checked` after each; `None` if an interrupt came.
pub(crate) fn check(
    definition: &Definition,
    interrupt: &Interrupt,
    checked: &mut dyn FnMut(),
) -> Result<Option<Checked>, Failure> {
    let mut inputs: BTreeMap<String, Input> = BTreeMap::new();
    let mut said = Said::from_noun("points");
    for point in 0..definition.points.len() {
        if interrupt.is_set() {
            return Ok(None);
        }
        let number = point * definition.seeds.len();
        let plan =
            definition.plan(number).map_err(|failure| at_point(definition, point, failure))?;
        if plan.is_real() {
            let device = definition.options(number)?.device;
            return Err(Failure::named(format!("--device {device}"), SweepError::RealDevice));
        }
        if plan.log_folder.has_logs() {
            return Err(Failure::input(SweepError::Logs));
        }
        said.add(&definition.at_no_point(point, &plan.warnings));
        inputs.extend(plan.inputs.into_iter().map(|input| (input.what.clone(), input)));
        checked();
    }
    Ok(Some(Checked { inputs: inputs.into_values().collect(), said }))
}

/// Names the point in the errors of its plan. Errors that every point has are returned as they are.
pub(crate) fn at_point(definition: &Definition, point: usize, failure: Failure) -> Failure {
    let of_all = definition
        .plan_without_point()
        .is_err_and(|other| other.to_string() == failure.to_string());
    if of_all {
        return failure;
    }
    let point = definition.in_words(point);
    failure.within(|error| SweepError::AtPoint { point: point.clone(), error }.into())
}

/// Does these runs, and writes each to the journal. Ends early at an interrupt.
pub(crate) fn run_all(
    definition: &Definition,
    pending: &[usize],
    threads: Option<u16>,
    (interrupt, listener): (&Interrupt, &dyn Listener),
    journal: &mut Journal,
) -> Result<(), Failure> {
    let work = |run| one(definition, run, interrupt);
    let bar = listener.begin("sweep");
    bar.expect(pending.len() as u64);
    on_all_cores(pending, threads, interrupt, work, |run, outcome| {
        bar.advance();
        journal.add(run, outcome)
    })
}

/// Does one run; `None` if an interrupt cut it off.
pub(crate) fn one(
    definition: &Definition,
    run: usize,
    interrupt: &Interrupt,
) -> Result<Option<Outcome>, Failure> {
    let plan = definition.plan(run)?;
    // A point that cannot run on its device is a result, too.
    let warnings = |all: &[String]| definition.at_no_point(definition.run(run).0, all);
    let (result, ending) = match execute(&plan, &mut NoObserver, interrupt) {
        Ok(done) => done,
        Err(failure) => {
            let text = failure.to_string();
            let line = text.lines().next().unwrap_or("failed");
            let error = line.strip_prefix("elevon: ").unwrap_or(line).to_owned();
            return Ok(Some(Outcome {
                error,
                warnings: warnings(&plan.warnings),
                rows: Vec::new(),
            }));
        }
    };
    let error = match ending {
        Ending::Interrupted(_) => return Ok(None),
        Ending::Failed => why(&result),
        Ending::Done => String::new(),
    };
    Ok(Some(Outcome { error, warnings: warnings(&result.warnings), rows: figures::rows(&result) }))
}

/// Returns why a run failed.
fn why(result: &RunResult) -> String {
    let jobs = result.jobs.iter().filter(|job| !job.error.is_empty());
    let words: Vec<String> = jobs.map(|job| format!("{}: {}", job.name, job.error)).collect();
    if words.is_empty() { "failed".to_owned() } else { words.join("; ") }
}
