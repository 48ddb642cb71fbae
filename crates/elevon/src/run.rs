//! `elevon run`.

use elevon_core::units::Nanos;
use elevon_host::interrupt::Interrupt;
use elevon_report::compare::Variant;
use elevon_report::json::JsonOptions;
use elevon_report::result::RunResult;
use elevon_report::{html, json, text};

use crate::args::{OutputFormat, RunArgs};
use crate::console::Console;
use crate::execute::execute;
use crate::failure::{Failure, Outcome, emit, write_file};
use crate::plan::Plan;
use crate::trace::TraceFile;

pub(crate) fn run(args: &RunArgs) -> Result<Outcome, Failure> {
    let plan = Plan::new(&args.jobs, &args.stack)?;
    let json = args.output_format == OutputFormat::Json;
    let iostat = args.iostat.map(interval).transpose()?;
    let trace = args.trace.as_deref().map(|path| TraceFile::new(path, plan.kernel)).transpose()?;
    let interrupt = Interrupt::on_signals().map_err(|e| Failure::Machine(format!("cannot watch for signals: {e}")))?;
    let label = args.jobs.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    let mut console = Console::new(&label, iostat, json, trace);
    let (result, outcome) = execute(&plan, &mut console, &interrupt)?;
    console.finish()?;
    warn(&result);
    emit(&match args.output_format {
        OutputFormat::Normal => text::report(&result),
        OutputFormat::Json => json::report(&result, JsonOptions::default()),
    })?;
    if let Some(path) = &args.html {
        let variant = Variant { label: &label, result: &result };
        write_file(path, html::page(&label, &[variant]).as_bytes())?;
    }
    Ok(outcome)
}

/// Warnings go to stderr, a line each.
pub(crate) fn warn(result: &RunResult) {
    for warning in &result.warnings {
        eprintln!("elevon: warning: {warning}");
    }
}

fn interval(seconds: f64) -> Result<Nanos, Failure> {
    if (0.001..=86_400.0).contains(&seconds) {
        Ok(Nanos::new((seconds * 1e9) as u64))
    } else {
        Err(Failure::input(format!("--iostat {seconds}: expected seconds from 0.001 to 86400")))
    }
}
