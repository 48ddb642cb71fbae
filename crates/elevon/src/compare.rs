//! `elevon compare`: runs a job file or a trace on several stacks.

mod seeds;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::execute;
use elevon_plan::failure::{Ending, Failure, InputError, MachineError};
use elevon_plan::files::Files;
use elevon_plan::options::StackOptions;
use elevon_plan::output::NewFile;
use elevon_plan::plan::Plan;
use elevon_plan::text_files::STDIN;
use elevon_report::compare::{RulesBetween, Variant, table};
use elevon_report::json::JsonOptions;
use elevon_report::{html, json};
use elevon_result::result::RunResult;
use elevon_whatif::interval::Parting;
use elevon_whatif::replay::{Replay, ReplayOptions};
use elevon_whatif::select;

use crate::ablation::{self, Compared};
use crate::args::{CompareArgs, OutputFormat};
use crate::bar::Terminal;
use crate::console::Console;
use crate::error::CommandError;
use crate::terminal::warn;
use crate::terminal::{all, emit, emit_text};

/// Name of the first stack.
const BASELINE: &str = "baseline";

pub(crate) fn compare(args: &CompareArgs) -> Result<Ending, Failure> {
    let subject = Subject::new(args)?;
    // Every variant is checked before the first runs.
    let base = StackOptions {
        ioprio: args.how.ioprio.options.ioprio.clone(),
        ..args.stack.options.clone()
    };
    let mut plans = vec![(BASELINE.to_owned(), subject.plan(&base)?)];
    for vs in &args.vs {
        let stack = base.with(vs).map_err(Failure::input)?;
        let plan = subject.plan(&stack).map_err(|failure| in_variant(vs, failure))?;
        plans.push((vs.clone(), plan));
    }
    add_not_in_linux(&mut plans);
    let mut files =
        plans.iter().try_fold(Files::default(), |files, (_, plan)| plan.add_files(files))?;
    files.add_stdout()?;
    if let Some(path) = &args.html {
        files.add_output(format!("--html {}", path.display()), path)?;
    }
    let page = args.html.as_deref().map(|path| NewFile::create("--html", path)).transpose()?;
    let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
    if let Some(count) = args.seeds {
        return seeds::compare(args, &plans, count, page, &interrupt);
    }
    let (mut results, mut said, mut worst) = (Vec::new(), BTreeSet::new(), Ending::Done);
    let mut partings = String::new();
    for (label, plan) in &plans {
        say(label, &plan.warnings, &mut said);
        let mut console = Console::new(label, None, args.output_format.is_json(), None)
            .with_status(plan, &interrupt, true);
        let (mut result, outcome) = execute(plan, &mut console, &interrupt)?;
        console.finish()?;
        if outcome == Ending::Done
            && let Some(parting) = Parting::from_plan(plan, &result, &interrupt)?
        {
            result.warnings.extend(parting.lines());
            partings.push_str(&parting.text(label));
        }
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
    let rules = if worst == Ending::Done {
        rules_between(&plans, &results, &interrupt)?
    } else {
        Vec::new()
    };
    let printed = report(args, &variants, &rules, &partings, &plans[results.len()..]);
    let page = page.map_or(Ok(()), |file| {
        file.commit(
            html::page(&format!("{}, compared", args.input.display()), &variants, &rules)
                .as_bytes(),
        )
    });
    all([printed, page])?;
    Ok(worst)
}

/// Adds a warning to plans whose scheduler Linux does not have.
fn add_not_in_linux(plans: &mut [(String, Plan)]) {
    for (_, plan) in plans {
        plan.warnings.extend(plan.not_in_linux());
    }
}

/// Returns which rules make the difference between the first variant and each of another kernel.
fn rules_between(
    plans: &[(String, Plan)],
    results: &[RunResult],
    interrupt: &Interrupt,
) -> Result<Vec<RulesBetween>, Failure> {
    let all = ('A'..='Z').zip(plans.iter().zip(results));
    let mut runs = all.map(|(letter, ((_, plan), result))| Compared { letter, plan, result });
    let Some(base) = runs.next() else { return Ok(Vec::new()) };
    runs.filter_map(|run| ablation::rules(base, run, interrupt).transpose()).collect()
}

/// The job file or trace that runs on every stack.
enum Subject<'a> {
    Job(&'a Path),
    /// A trace is read once; each variant maps it to its own device.
    Trace(Box<Replay>),
}

impl<'a> Subject<'a> {
    fn new(args: &'a CompareArgs) -> Result<Self, Failure> {
        let path = args.input.as_path();
        if is_trace(path) {
            return Ok(Self::Trace(Box::new(Replay::read(
                path,
                &args.how.options(),
                &args.stack.options,
                &Terminal,
            )?)));
        }
        match given(&args.how.options()) {
            Some(option) => Err(Failure::named(
                option,
                CommandError::ReplayOnly { input: path.display().to_string() },
            )),
            None => Ok(Self::Job(path)),
        }
    }

    fn plan(&self, stack: &StackOptions) -> Result<Plan, Failure> {
        match self {
            Self::Job(path) => Plan::new(&[path.to_path_buf()], stack),
            Self::Trace(replay) => replay.onto(stack)?.plan(stack),
        }
    }
}

/// Returns the first option of a replay that was given.
fn given(how: &ReplayOptions) -> Option<&'static str> {
    // A job is refused an --ioprio with what it has in its place.
    let ReplayOptions { dev, closed, time_based, once, speed, allow_writes, select } = how;
    let all = [
        (dev.is_some(), "--dev"),
        (*closed, "--closed"),
        (*time_based, "--time-based"),
        (*once, "--once"),
        (speed.is_some(), "--speed"),
        (*allow_writes, "--allow-writes"),
    ];
    let first = all.into_iter().find(|(is_given, _)| *is_given).map(|(_, option)| option);
    first.or_else(|| select::given(select))
}

/// Maximum bytes of comments before the first section of a file that is recognised as a job file.
const LONGEST_HEAD: u64 = 1 << 20;

/// Returns true if a path names a trace; any other file is read as a job file. Standard input and
/// pipes cannot be examined without being read, and are taken for traces.
fn is_trace(path: &Path) -> bool {
    let is_stream = || path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir());
    path == Path::new(STDIN)
        || is_stream()
        || (!begins_with_section(path) && elevon_trace::open(path).is_ok())
}

/// Returns true if the first line other than a comment is the head of a section. A comment of a job
/// file may quote lines of a trace.
fn begins_with_section(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let lines = BufReader::new(file.take(LONGEST_HEAD)).split(b'\n');
    let mut lines = lines.map_while(Result::ok).map(|line| line.trim_ascii().to_vec());
    lines
        .find(|line| !matches!(line.first(), None | Some(b'#' | b';')))
        .is_some_and(|line| line[0] == b'[')
}

/// Prints the comparison with the rules that made a difference. `partings` says which figures are
/// not known, as the device is not; `not_run` are the
/// variants that an interrupt kept from running.
fn report(
    args: &CompareArgs,
    variants: &[Variant<'_>],
    rules: &[RulesBetween],
    partings: &str,
    not_run: &[(String, Plan)],
) -> Result<(), Failure> {
    let options = match args.output_format {
        OutputFormat::Normal => {
            let notes = notes(variants);
            let rules = ablation::text(rules) + &not_kept(variants);
            return emit_text(&(table(variants) + partings + &notes + &rules + &missing(not_run)));
        }
        OutputFormat::Json => JsonOptions::default(),
        OutputFormat::JsonPlus => JsonOptions { bins: true, series: true },
    };
    let labels: Vec<&str> = not_run.iter().map(|(label, _)| label.as_str()).collect();
    emit(&json::comparison(&args.input.display().to_string(), variants, rules, &labels, options))
}

/// Lists what of a trace the replays do not keep.
fn not_kept(variants: &[Variant<'_>]) -> String {
    let mut lines: Vec<String> =
        variants.iter().flat_map(|one| &one.result.not_kept).map(ToString::to_string).collect();
    let mut said = BTreeSet::new();
    lines.retain(|line| said.insert(line.clone()));
    lines.iter().map(|line| format!("Not kept of the trace: {line}\n")).collect()
}

/// Returns a line for each scheduler that Linux does not have.
fn notes(variants: &[Variant<'_>]) -> String {
    let all: BTreeSet<&String> =
        variants.iter().filter_map(|variant| variant.result.scheduler.note.as_ref()).collect();
    all.into_iter().map(|note| format!("Note: {note}\n")).collect()
}

/// Lists the variants that an interrupt kept from running.
fn missing(plans: &[(String, Plan)]) -> String {
    plans.iter().map(|(label, _)| format!("Not run, because of the interrupt: {label}\n")).collect()
}

/// Prints warnings that no previous variant had, and returns them; after the first variant they
/// name the variant.
fn say(label: &str, warnings: &[String], said: &mut BTreeSet<String>) -> Vec<String> {
    let new = warnings.iter().filter(|warning| said.insert((*warning).clone()));
    let lines: Vec<String> = new.map(|warning| labelled(label, warning)).collect();
    warn(&lines);
    lines
}

/// Returns a warning with the variant that it is of. The first has no name, and a warning about an
/// option has that option already.
fn labelled(label: &str, warning: &str) -> String {
    let has_name =
        label == BASELINE || warning.strip_prefix(label).is_some_and(|rest| rest.starts_with(": "));
    if has_name { warning.to_owned() } else { format!("{label}: {warning}") }
}

fn in_variant(vs: &str, failure: Failure) -> Failure {
    failure.within(|error| InputError::InVariant { vs: vs.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_named_once() {
        let of_option = "--job-option iodepth=32: iodepth: ioengine=psync has one I/O at a time";
        assert_eq!(labelled("--job-option iodepth=32", of_option), of_option);
        assert_eq!(
            labelled("--job-option iodepth=3", of_option),
            format!("--job-option iodepth=3: {of_option}")
        );
        assert_eq!(
            (labelled(BASELINE, "a"), labelled("--set x=1", "a")),
            ("a".into(), "--set x=1: a".into())
        );
    }
}
