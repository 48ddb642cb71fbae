//! `elevon compare --seeds N`: each stack under the same seeds, and whether they differ by more
//! than chance.

use std::collections::BTreeSet;

use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::execute;
use elevon_plan::failure::{Ending, Failure};
use elevon_plan::listener::Steps;
use elevon_plan::options::DEFAULT_SEED;
use elevon_plan::output::NewFile;
use elevon_plan::parallel::on_all_cores;
use elevon_plan::plan::Plan;
use elevon_report::figures;
use elevon_sweep::axis::Axis;
use elevon_sweep::error::SweepError;
use elevon_sweep::results::Collected;
use elevon_sweep::said::Said;
use elevon_sweep::summary::Results;
use elevon_whatif::interval::Parting;
use elevon_workload::run::NoObserver;

use super::say;
use crate::args::{CompareArgs, OutputFormat};
use crate::bar::Bar;
use crate::terminal::{all, emit, emit_text};

/// Compares the plans, of which the first is the baseline, over the seeds 1 to `count`.
pub(super) fn compare(
    args: &CompareArgs,
    plans: &[(String, Plan)],
    count: u64,
    page: Option<NewFile>,
    interrupt: &Interrupt,
) -> Result<Ending, Failure> {
    let mut said = BTreeSet::new();
    let mut warnings = check(plans, &mut said)?;
    let seeds: Vec<u64> = (1..=count).collect();
    let run = |number: usize| {
        let (at, seed) = (number / seeds.len(), seeds[number % seeds.len()]);
        let plan = plans[at].1.clone().with_seed(seed);
        let planned = plan.warnings.len();
        let (result, ending) = execute(&plan, &mut NoObserver, interrupt)?;
        Ok(match ending {
            Ending::Interrupted(_) => None,
            Ending::Done | Ending::Failed => {
                Some((figures::rows(&result), result.warnings[planned..].to_vec(), ending))
            }
        })
    };
    let mut of_runs: Vec<Vec<String>> = vec![Vec::new(); plans.len() * seeds.len()];
    let (mut collected, mut failed) = (Collected::new(plans.len(), seeds.len()), 0);
    let runs: Vec<usize> = (0..plans.len() * seeds.len()).collect();
    let bar = Bar::new("compare");
    bar.expect(runs.len() as u64);
    let mut ended = 0;
    on_all_cores(&runs, None, interrupt, run, |number, (rows, warnings, ending)| {
        bar.advance();
        ended += 1;
        of_runs[number] = warnings;
        match ending {
            Ending::Done => collected.add(number, &rows),
            Ending::Failed | Ending::Interrupted(_) => failed += 1,
        }
        Ok(())
    })?;
    drop(bar);
    if interrupt.signal().is_some() {
        warnings.push(format!(
            "interrupted: {ended} of {} runs were done; means are of those",
            runs.len()
        ));
    }
    for ((label, _), of_runs) in plans.iter().zip(of_runs.chunks(seeds.len())) {
        let mut found = Said::default();
        of_runs.iter().for_each(|of_run| found.add(of_run));
        warnings.extend(say(label, &found.lines(&Said::default()), &mut said));
    }
    warnings.extend(partings(plans, seeds[0], interrupt, &mut said)?);
    let (jobs, samples) = collected.finish();
    let names = plans.iter().map(|(label, _)| label.clone()).collect();
    let results = Results {
        title: format!("{}, compared", args.input.display()),
        noun: "variant",
        axes: &[Axis::of_names("variant", names)],
        points: &(0..plans.len()).map(|at| vec![at]).collect::<Vec<_>>(),
        seeds: &seeds,
        command: &plans[0].1.command_without_seed(),
        warnings: &warnings,
        jobs: &jobs,
        samples: &samples,
        compare: Some((0, 0)),
        failed,
    };
    print(&results, args.output_format, page)?;
    Ok(ending(interrupt, failed > 0))
}

/// Returns how the comparison ended.
fn ending(interrupt: &Interrupt, has_failed: bool) -> Ending {
    match interrupt.signal() {
        Some(signal) => Ending::Interrupted(signal),
        None if has_failed => Ending::Failed,
        None => Ending::Done,
    }
}

/// Runs each plan with one seed on all devices that explain what its device was fitted to. Returns
/// and tells what is not known.
fn partings(
    plans: &[(String, Plan)],
    seed: u64,
    interrupt: &Interrupt,
    said: &mut BTreeSet<String>,
) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for (label, plan) in plans {
        let plan = plan.clone().with_seed(seed);
        if plan.own.as_ref().is_some_and(|own| !own.file.ends.is_empty())
            && interrupt.signal().is_none()
        {
            let (result, _) = execute(&plan, &mut NoObserver, interrupt)?;
            let parting = Parting::from_plan(&plan, &result, interrupt)?;
            lines.extend(say(
                label,
                &parting.map_or_else(Vec::new, |parting| parting.lines()),
                said,
            ));
        }
    }
    Ok(lines)
}

/// Prints the results, and writes the page.
fn print(
    results: &Results<'_>,
    format: OutputFormat,
    page: Option<NewFile>,
) -> Result<(), Failure> {
    let document = results.document();
    let printed = match format {
        OutputFormat::Normal => emit_text(&document.text()),
        OutputFormat::Json | OutputFormat::JsonPlus => emit(&results.json()),
    };
    let page = page.map_or(Ok(()), |file| file.commit(document.html("simulated").as_bytes()));
    all([printed, page])
}

/// Refuses plans whose runs do not repeat. Returns the warnings that it tells.
fn check(plans: &[(String, Plan)], said: &mut BTreeSet<String>) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    for (label, plan) in plans {
        if plan.seed != DEFAULT_SEED {
            return Err(Failure::named(label, SweepError::SeedOfSeeds { seed: plan.seed }));
        }
        if plan.is_real() {
            return Err(Failure::named(label, SweepError::RealDevice));
        }
        if plan.log_folder.has_logs() {
            return Err(Failure::input(SweepError::Logs));
        }
        warnings.extend(say(label, &plan.warnings, said));
    }
    Ok(warnings)
}
