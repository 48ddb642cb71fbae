//! `elevon compare`.

use elevon_host::interrupt::Interrupt;
use elevon_report::compare::{Variant, table};
use elevon_report::html;

use crate::args::CompareArgs;
use crate::console::Console;
use crate::execute::execute;
use crate::failure::{Failure, Outcome, emit, write_file};
use crate::plan::{Plan, Target};
use crate::run::warn;

pub(crate) fn compare(args: &CompareArgs) -> Result<Outcome, Failure> {
    let job = std::slice::from_ref(&args.job);
    // Every variant is checked before the first runs.
    let mut plans = vec![("baseline".to_owned(), Plan::new(job, &args.stack)?)];
    for vs in &args.vs {
        let stack = args.stack.with(vs).map_err(Failure::input)?;
        let plan = Plan::new(job, &stack).map_err(|failure| in_variant(vs, failure))?;
        plans.push((vs.clone(), plan));
    }
    let interrupt = Interrupt::on_signals().map_err(|e| Failure::Machine(format!("cannot watch for signals: {e}")))?;
    let (mut results, mut worst) = (Vec::new(), Outcome::Done);
    for (label, plan) in &plans {
        let mut console = Console::new(label, None, false, None);
        let (result, outcome) = execute(plan, &mut console, &interrupt)?;
        console.finish()?;
        if results.is_empty() || !result.warnings.is_empty() && matches!(plan.target, Target::Real(_)) {
            warn(&result);
        }
        results.push(result);
        if outcome != Outcome::Done {
            worst = outcome;
        }
        if outcome == Outcome::Interrupted {
            break;
        }
    }
    let variants: Vec<Variant<'_>> =
        plans.iter().zip(&results).map(|((label, _), result)| Variant { label, result }).collect();
    emit(&table(&variants))?;
    if let Some(path) = &args.html {
        write_file(path, html::page(&format!("{}, compared", args.job.display()), &variants).as_bytes())?;
    }
    Ok(worst)
}

fn in_variant(vs: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Input(lines) => Failure::Input(lines.into_iter().map(|l| format!("--vs '{vs}': {l}")).collect()),
        Failure::Output(_) | Failure::Machine(_) => failure,
    }
}
