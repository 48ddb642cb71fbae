//! `elevon run`.

use elevon_core::units::Nanos;
use elevon_host::interrupt::Interrupt;
use elevon_report::compare::Variant;
use elevon_report::json::JsonOptions;
use elevon_report::{html, json, text};

use crate::args::{OutputFormat, RunArgs};
use crate::console::Console;
use crate::execute::execute;
use crate::failure::{Failure, Outcome, emit};
use crate::output::NewFile;
use crate::plan::Plan;
use crate::trace::TraceFile;

pub(crate) fn run(args: &RunArgs) -> Result<Outcome, Failure> {
    let plan = Plan::new(&args.jobs, &args.stack)?;
    let json = args.output_format.is_json();
    let iostat = args.iostat.map(interval).transpose()?;
    let trace = args.trace.as_deref().map(|path| TraceFile::new(path, plan.kernel)).transpose()?;
    let page = args.html.as_deref().map(|path| NewFile::create("--html", path)).transpose()?;
    let interrupt = Interrupt::on_signals().map_err(|e| Failure::Machine(format!("cannot watch for signals: {e}")))?;
    let label = args.jobs.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    warn(&plan.warnings);
    let mut console = Console::new(&label, iostat, json, trace);
    let (result, outcome) = execute(&plan, &mut console, &interrupt)?;
    console.finish()?;
    warn(&result.warnings[plan.warnings.len()..]);
    emit(&match args.output_format {
        OutputFormat::Normal => text::report(&result),
        OutputFormat::Json => json::report(&result, JsonOptions::default()),
        OutputFormat::JsonPlus => json::report(&result, JsonOptions { bins: true, series: true }),
    })?;
    if let Some(file) = page {
        let variant = Variant { label: &label, result: &result };
        file.commit(html::page(&label, &[variant]).as_bytes())?;
    }
    Ok(outcome)
}

/// Warnings go to stderr, a line each.
pub(crate) fn warn(warnings: &[String]) {
    for warning in warnings {
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
