//! The command: raw arguments, then a checked plan, then a run.
#![forbid(unsafe_code)]

mod args;
mod bar;
mod calibrate;
mod catalogue;
mod compare;
mod console;
#[cfg(test)]
#[path = "../../../fuzz/checks/corpus.rs"]
mod corpus;
mod cpu_cost;
mod execute;
mod failure;
mod files;
mod in_force;
mod inspect;
mod logs;
mod memory;
mod output;
mod own_device;
mod plan;
mod replay;
mod reproduce;
mod result;
mod run;
mod setting;
mod source;
mod tenant_lines;
mod trace;

use std::io::Write;

use clap::Parser;

use args::{Cli, Command};
use failure::{Ending, Failure};

fn main() -> std::process::ExitCode {
    match Cli::try_parse().map_or_else(|error| usage(&error), dispatch) {
        Ok(outcome) => std::process::ExitCode::from(outcome.code()),
        // Whoever read our output has seen enough.
        Err(failure) if failure.is_broken_pipe() => std::process::ExitCode::SUCCESS,
        Err(failure) => {
            // The exit status says it too, if nobody can read stderr.
            let _ = write!(std::io::stderr(), "{failure}");
            std::process::ExitCode::from(failure.code())
        }
    }
}

fn dispatch(cli: Cli) -> Result<Ending, Failure> {
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Calibrate(args) => calibrate::calibrate(&args),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Replay(args) => replay::replay(&args),
        Command::Reproduce(args) => reproduce::reproduce(&args),
        Command::Devices(args) => catalogue::devices(args.name.as_deref()),
        Command::Faults(args) => catalogue::faults(args.name.as_deref()),
        Command::Schedulers(args) => catalogue::schedulers(args.name.as_deref()),
    }
}

/// What clap has to say: help and version as they are, to stdout; anything wrong as one line.
fn usage(error: &clap::Error) -> Result<Ending, Failure> {
    if !error.use_stderr() {
        failure::emit(&error.to_string())?;
        return Ok(Ending::Done);
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = write!(std::io::stderr(), "{error}");
        return Err(Failure::Input(Vec::new()));
    }
    Err(Failure::input(args::one_line(error)))
}
