//! `cargo xtask`: what developers run.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::fuzz::{self, FuzzArgs, WorkerArgs};
use xtask::hide_tools::{self, HideArgs};
use xtask::quick::{self, QuickArgs};
use xtask::twin::{self, TwinArgs, TwinFailure};

/// What developers of Elevon run.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Quick(QuickArgs),
    Fuzz(FuzzArgs),
    #[command(hide = true)]
    FuzzWorker(WorkerArgs),
    HideTools(HideArgs),
    Twin(TwinArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Quick(args) => quick::quick(&args),
        Task::Fuzz(args) => fuzz::fuzz(&args),
        Task::FuzzWorker(args) => fuzz::work(&args),
        Task::HideTools(args) => hide_tools::hide_tools(&args),
        Task::Twin(args) => match twin::twin(&args) {
            Err(TwinFailure::NotBuilt(line)) => {
                eprintln!("xtask: {line}");
                return ExitCode::from(2);
            }
            Err(TwinFailure::Failed(line)) => Err(line),
            Ok(()) => Ok(()),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
