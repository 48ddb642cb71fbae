//! `cargo xtask twin`: a real Linux in virtual time as a judge of ours.
//!
//! A user-mode Linux, built from a distribution's source package on this machine, runs random jobs
//! on a null_blk of N slots. Its clock is virtual, so CPU time costs nothing there and a run gives
//! the same bytes again. Elevon runs the same jobs on the same device, and the figures of both are
//! compared. Nothing of the kernel is in this repository: the two programs talk over files.

use clap::{Args, Subcommand};

pub mod both;
pub mod build;
pub mod case;
pub mod causes;
pub mod elevon;
pub mod events;
pub mod figures;
pub mod generate;
pub mod guest;
pub mod judge;
pub mod kernels;
pub mod shrink;

/// A real Linux in virtual time as a judge of ours
#[derive(Args, Clone, Debug)]
pub struct TwinArgs {
    #[command(subcommand)]
    task: TwinTask,
}

#[derive(Clone, Debug, Subcommand)]
enum TwinTask {
    Build(build::BuildArgs),
    Judge(judge::JudgeArgs),
}

/// Why a task of the twin failed.
#[derive(Clone, Debug)]
pub enum TwinFailure {
    /// A file of the guest is not built. The line says which command builds it.
    NotBuilt(String),
    /// It failed on the way.
    Failed(String),
}

impl From<String> for TwinFailure {
    fn from(line: String) -> Self {
        Self::Failed(line)
    }
}

/// Does what the arguments ask for.
///
/// # Errors
/// A kernel is not built, cannot be built or run, or a file cannot be written; one line says which.
pub fn twin(args: &TwinArgs) -> Result<(), TwinFailure> {
    match &args.task {
        TwinTask::Build(args) => Ok(build::build(args)?),
        TwinTask::Judge(args) => judge::judge(args),
    }
}
