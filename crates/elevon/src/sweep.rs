//! `elevon sweep`: one job file under many options, settings and seeds, on all cores.

use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::{Ending, Failure, MachineError};
use elevon_sweep::folder::{FolderResults, FolderSweep, SweepReport, merge};
use elevon_sweep::request::SweepRequest;

use crate::args::{SweepArgs, SweepCommand, SweepRunArgs, TextOrJson};
use crate::bar::Terminal;
use crate::terminal::{emit, emit_text, tell};

pub(crate) fn sweep(args: &SweepArgs) -> Result<Ending, Failure> {
    match &args.command {
        Some(SweepCommand::Merge(args)) => {
            let report = merge(&args.folders, args.output.as_deref(), &Terminal)?;
            print(report, args.output_format)
        }
        None => {
            let sweep = FolderSweep::new(&request(&args.run))?;
            let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
            print(sweep.run(&interrupt, &Terminal)?, args.run.output_format)
        }
    }
}

fn request(args: &SweepRunArgs) -> SweepRequest {
    SweepRequest {
        // A subcommand alone has none.
        input: args.input.clone().unwrap_or_default(),
        over: args.over.clone(),
        seeds: args.seeds.clone(),
        sample: args.sample.clone(),
        compare: args.compare.clone(),
        shard: args.shard.clone(),
        threads: args.threads,
        output: args.output.clone(),
        stack: args.stack.options.clone(),
    }
}

/// Prints the summary, if the sweep has its results.
fn print(report: SweepReport, format: TextOrJson) -> Result<Ending, Failure> {
    if let Some(FolderResults { summary, json, folder }) = &report.results {
        match format {
            TextOrJson::Normal => emit_text(summary)?,
            TextOrJson::Json => emit(json)?,
        }
        let folder = folder.display();
        let tables = match cfg!(feature = "parquet") {
            true => "results.csv, .jsonl and .parquet",
            false => "results.csv and .jsonl",
        };
        tell(&format!("{tables}, summary.txt and index.html are in {folder}"));
    }
    Ok(report.ending)
}
