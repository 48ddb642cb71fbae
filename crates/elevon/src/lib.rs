//! The command `elevon`: parses arguments, makes a checked plan, and runs it.
//!
//! [`command`] is the whole command. Programs call what it is made of: `elevon-plan` for a run,
//! `elevon-sweep` for sweeps, `elevon-whatif` for traces.
#![forbid(unsafe_code)]

mod ablation;
mod advise;
mod args;
mod attributes;
mod bar;
mod calibrate;
mod capture;
mod catalogue;
mod compare;
mod console;
mod convert;
mod ctl;
mod error;
mod inspect;
mod kernels;
#[cfg(feature = "terminal")]
mod keys;
mod manual;
mod reproduce;
mod run;
mod serve;
mod sweep;
mod tenant_lines;
mod terminal;
mod top;
mod trace;
mod tune;
mod twin;
mod watch;

use std::io::Write;

use clap::Parser;
use elevon_plan::failure::{Ending, Failure, InputError};

use args::{Cli, Command};

/// Runs the command with the arguments of this process. Reports go to stdout, errors and progress
/// to stderr; returns the exit status: 0 done, 1 a run failed, 2 bad input, 128 and more a signal.
pub fn command() -> std::process::ExitCode {
    match Cli::try_parse().map_or_else(|error| usage(&error), dispatch) {
        Ok(outcome) => std::process::ExitCode::from(outcome.code()),
        // The reader of stdout closed it before the end, which is not an error.
        Err(failure) if failure.is_broken_pipe() => std::process::ExitCode::SUCCESS,
        Err(failure) => {
            // The exit status also reports the failure, in case stderr cannot be read.
            let _ = write!(std::io::stderr(), "{failure}");
            std::process::ExitCode::from(failure.code())
        }
    }
}

fn dispatch(cli: Cli) -> Result<Ending, Failure> {
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Ctl(args) => ctl::ctl(&args),
        Command::Top(args) => top::top(&args),
        Command::Watch(args) => watch::watch(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Tune(args) => tune::tune(&args),
        Command::Calibrate(args) => calibrate::calibrate(&args),
        Command::Advise(args) => advise::advise(&args),
        Command::Capture(args) => capture::capture(&args),
        Command::Convert(args) => convert::convert(&args),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Replay(args) => run::replay(&args),
        Command::Reproduce(args) => reproduce::reproduce(&args),
        Command::Twin(args) => twin::twin(&args),
        Command::Devices(args) => catalogue::devices(&args),
        Command::Formats(args) => catalogue::formats(args.name.as_deref()),
        Command::Faults(args) => catalogue::faults(args.name.as_deref()),
        Command::Schedulers(args) => catalogue::schedulers(args.name.as_deref()),
        Command::Kernels(args) => kernels::kernels(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::pages(&args),
    }
}

/// Handles clap's answer. Help and version are printed to stdout; an error becomes a failure of one
/// line.
fn usage(error: &clap::Error) -> Result<Ending, Failure> {
    if !error.use_stderr() {
        terminal::emit(&error.to_string())?;
        return Ok(Ending::Done);
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = write!(std::io::stderr(), "{error}");
        return Err(Failure::Input(Vec::new()));
    }
    Err(Failure::input(InputError::Other(args::one_line(error).into())))
}
