//! `elevon compare`.

use std::collections::BTreeSet;

use elevon_host::interrupt::Interrupt;
use elevon_report::compare::{Variant, table};
use elevon_report::html;

use crate::args::CompareArgs;
use crate::console::Console;
use crate::execute::execute;
use crate::failure::{Ending, Failure, InputError, all, emit_text};
use crate::files::Files;
use crate::output::NewFile;
use crate::plan::Plan;
use crate::run::warn;

/// What the first stack is called.
const BASELINE: &str = "baseline";

pub(crate) fn compare(args: &CompareArgs) -> Result<Ending, Failure> {
    let job = std::slice::from_ref(&args.job);
    // Every variant is checked before the first runs.
    let mut plans = vec![(BASELINE.to_owned(), Plan::new(job, &args.stack)?)];
    for vs in &args.vs {
        let stack = args.stack.with(vs).map_err(Failure::input)?;
        let plan = Plan::new(job, &stack).map_err(|failure| in_variant(vs, failure))?;
        plans.push((vs.clone(), plan));
    }
    let mut files = plans.iter().try_fold(Files::default(), |files, (_, plan)| plan.add_files(files))?;
    files.add_stdout()?;
    if let Some(path) = &args.html {
        files.add_output(format!("--html {}", path.display()), path)?;
    }
    let page = args.html.as_deref().map(|path| NewFile::create("--html", path)).transpose()?;
    let interrupt = Interrupt::on_signals().map_err(|e| Failure::Machine(format!("cannot watch for signals: {e}")))?;
    let (mut results, mut said, mut worst) = (Vec::new(), BTreeSet::new(), Ending::Done);
    for (label, plan) in &plans {
        say(label, &plan.warnings, &mut said);
        let mut console = Console::new(label, None, false, None).with_status(plan, &interrupt, true);
        let (result, outcome) = execute(plan, &mut console, &interrupt)?;
        console.finish()?;
        say(label, &result.warnings[plan.warnings.len()..], &mut said);
        results.push(result);
        if outcome != Ending::Done {
            worst = outcome;
        }
        if let Ending::Interrupted(_) = outcome {
            break;
        }
    }
    let variants: Vec<Variant<'_>> =
        plans.iter().zip(&results).map(|((label, _), result)| Variant { label, result }).collect();
    let printed = emit_text(&(table(&variants) + &missing(&plans[results.len()..])));
    let page = page.map_or(Ok(()), |file| {
        file.commit(html::page(&format!("{}, compared", args.job.display()), &variants).as_bytes())
    });
    all([printed, page])?;
    Ok(worst)
}

/// What an interrupt left out of the table.
fn missing(plans: &[(String, Plan)]) -> String {
    plans.iter().map(|(label, _)| format!("Not run, because of the interrupt: {label}\n")).collect()
}

/// Warnings that no variant before had; past the first variant they say whose they are.
fn say(label: &str, warnings: &[String], said: &mut BTreeSet<String>) {
    let is_first = label == BASELINE;
    let new = warnings.iter().filter(|warning| said.insert((*warning).clone()));
    let lines: Vec<String> =
        new.map(|warning| if is_first { warning.clone() } else { format!("{label}: {warning}") }).collect();
    warn(&lines);
}

fn in_variant(vs: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Input(errors) => {
            let named = |error| InputError::InVariant { vs: vs.to_owned(), error: Box::new(error) };
            Failure::Input(errors.into_iter().map(named).collect())
        }
        Failure::Output(_) | Failure::Machine(_) => failure,
    }
}
