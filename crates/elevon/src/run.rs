//! `elevon run` and `elevon replay`: plan, execute, report.

use elevon_core::units::Nanos;
use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::execute;
use elevon_plan::failure::{Ending, Failure, MachineError, ValueError};
use elevon_plan::options::StackOptions;
use elevon_plan::output::NewFile;
use elevon_plan::plan::Plan;
use elevon_report::compare::Variant;
use elevon_report::json::JsonOptions;
use elevon_report::{html, json, text};
use elevon_whatif::interval::Parting;
use elevon_whatif::replay::{Replay, refuse_options_of_jobs};
use elevon_whatif::slices::slices;

use crate::args::{OutputFormat, ReplayArgs, ReportArgs, RunArgs};
use crate::bar::Terminal;
use crate::console::Console;
use crate::terminal::{all, emit, emit_text, warn};
use crate::trace::{TraceFile, blktrace_form};

pub(crate) fn run(args: &RunArgs) -> Result<Ending, Failure> {
    let plan = Plan::new(&args.jobs, &args.stack.options)?;
    let label =
        args.jobs.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    run_plan(&plan, &label, &args.report)
}

pub(crate) fn replay(args: &ReplayArgs) -> Result<Ending, Failure> {
    let stack = StackOptions {
        ioprio: args.how.ioprio.options.ioprio.clone(),
        ..args.stack.options.clone()
    };
    refuse_options_of_jobs(&stack)?;
    let replay = Replay::read(&args.input, &args.how.options(), &stack, &Terminal)?;
    let plan = replay.plan(&stack)?;
    run_plan(&plan, &args.input.display().to_string(), &args.report)
}

/// Runs a plan and reports its result.
pub(crate) fn run_plan(plan: &Plan, label: &str, args: &ReportArgs) -> Result<Ending, Failure> {
    let json = args.output_format.is_json();
    let iostat = args.iostat.map(interval).transpose()?;
    let mut files = plan.files()?;
    files.add_stdout()?;
    if let Some(path) = &args.html {
        files.add_output(format!("--html {}", path.display()), path)?;
    }
    let form = blktrace_form(args, plan.kernel)?;
    let trace = args
        .trace
        .as_deref()
        .map(|path| TraceFile::new(path, form, &plan.command, &mut files))
        .transpose()?;
    let page = args.html.as_deref().map(|path| NewFile::create("--html", path)).transpose()?;
    let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
    warn(&plan.warnings);
    let mut console = Console::new(label, iostat, json, trace).with_status(plan, &interrupt, json);
    let (mut result, outcome) = execute(plan, &mut console, &interrupt)?;
    if outcome == Ending::Done {
        let parting = Parting::from_plan(plan, &result, &interrupt)?;
        result.warnings.extend(parting.iter().flat_map(Parting::lines));
        if !args.no_slices {
            result.slices = slices(plan, &result, &interrupt)?;
        }
    }
    // If one output cannot be written, the others still are.
    let watched = console.finish();
    warn(&result.warnings[plan.warnings.len()..]);
    let printed = match args.output_format {
        OutputFormat::Normal => emit_text(&text::report(&result)),
        OutputFormat::Json => emit(&json::report(&result, JsonOptions::default())),
        OutputFormat::JsonPlus => {
            emit(&json::report(&result, JsonOptions { bins: true, series: true }))
        }
    };
    let page = page.map_or(Ok(()), |file| {
        let variant = Variant { label, result: &result };
        file.commit(html::page(label, &[variant], &[]).as_bytes())
    });
    all([watched, printed, page])?;
    Ok(outcome)
}

fn interval(seconds: f64) -> Result<Nanos, Failure> {
    if (0.001..=86_400.0).contains(&seconds) {
        Ok(Nanos::new((seconds * 1e9) as u64))
    } else {
        Err(Failure::named(
            format!("--iostat {seconds}"),
            ValueError::expected("seconds from 0.001 to 86400"),
        ))
    }
}
