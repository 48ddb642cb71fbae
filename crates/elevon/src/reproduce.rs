//! `elevon reproduce`: repeats published experiments and prints the published figures beside
//! Elevon's.
//!
//! An experiment is a TOML file with jobs (`definition.rs`). One runner, `runner.rs`, makes its
//! runs, and `write.rs` writes its report from them. What a file says of runs and figures it says
//! in expressions (`expression.rs`, `evaluate.rs`, `value.rs`). `docs/reference/reproduce.md`
//! describes the files.
//!
//! All figures of Elevon come from runs made at that moment. A note beside each says whether it was
//! fitted to a published figure ("calibrated", "by construction"), was chosen with one in view, or
//! is predicted.

mod definition;
mod evaluate;
mod expression;
mod hook;
mod lab;
mod part;
mod reader;
mod runner;
mod value;
mod write;

use std::path::Path;

use elevon_formats::fio::read_text_file;
use elevon_plan::failure::{Ending, Failure, UnknownName};
use elevon_plan::output::NewFile;

use crate::args::ReproduceArgs;
use crate::error::CommandError;
use crate::terminal::{all, emit, emit_text, tell};
use definition::Definition;
use lab::Lab;
use write::Report;

/// An experiment that is part of the binary.
struct Experiment {
    name: &'static str,
    /// The text of `experiment.toml`.
    text: &'static str,
    /// The job files of its folder, by their names.
    jobs: &'static [(&'static str, &'static str)],
}

/// Includes the folder of an experiment: `experiment.toml` and its job files.
macro_rules! experiment {
    ($name:literal, $($job:literal),+) => {
        Experiment {
            name: $name,
            text: experiment!(@text $name, "experiment.toml"),
            jobs: &[$(($job, experiment!(@text $name, $job))),+],
        }
    };
    (@text $name:literal, $file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/", $name, "/", $file))
    };
}

const EXPERIMENTS: &[Experiment] = &[
    experiment!(
        "aligned-bio",
        "read-1028k.fio",
        "read-512m.fio",
        "sequential.fio",
        "trace-dd.fio",
        "trace.fio"
    ),
    experiment!("bfq-injection", "depth.fio", "five-readers.fio", "four-readers.fio", "mix.fio"),
    experiment!(
        "content-ioprio",
        "faults.fio",
        "launch.fio",
        "randread.fio",
        "sqlite.fio",
        "storage.fio"
    ),
    experiment!("io-throttle", "limited.fio", "two-levels.fio", "two-readers.fio"),
    experiment!(
        "io-ticks",
        "fast.fio",
        "half-duty.fio",
        "independent.fio",
        "one-submitter.fio",
        "thinking-writer.fio",
        "timeline.fio",
        "two-submitters.fio"
    ),
];

/// Iterates over the names of the experiments.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    EXPERIMENTS.iter().map(|experiment| experiment.name)
}

pub(crate) fn reproduce(args: &ReproduceArgs) -> Result<Ending, Failure> {
    let Some(name) = &args.name else {
        if args.html.is_some() {
            return Err(Failure::named("reproduce --html", CommandError::NoExperiment));
        }
        emit(&list())?;
        return Ok(Ending::Done);
    };
    let path = Path::new(name);
    if path.extension().is_some_and(|extension| extension == "toml") {
        return of_file(args, name, path);
    }
    let Some(experiment) = EXPERIMENTS.iter().find(|experiment| experiment.name == name) else {
        let known: Vec<&str> = names().collect();
        let known = format!(
            "{}; an experiment of your own is a file whose name ends in .toml",
            known.join(", ")
        );
        let unknown =
            UnknownName { kind: "experiment", name: name.clone(), meant: String::new(), known };
        return Err(Failure::named("reproduce", unknown));
    };
    of_definition(args, name, experiment.definition(args.full), &|job| experiment.job(job))
}

impl Experiment {
    /// Returns what the experiment is. An error in its file is a bug and panics.
    fn definition(&self, full: bool) -> Definition {
        let name = format!("experiments/{}/experiment.toml", self.name);
        Definition::parse(&name, self.text, full).unwrap_or_else(|errors| panic!("{}", errors[0]))
    }

    /// Returns the path of a job file in the source tree, and its text.
    fn job(&self, job: &str) -> Result<(String, String), Failure> {
        let found = self.jobs.iter().find(|(name, _)| *name == job);
        let (name, text) =
            found.unwrap_or_else(|| panic!("{}: {job} is not part of the binary", self.name));
        Ok((format!("experiments/{}/{name}", self.name), (*text).to_owned()))
    }
}

fn page_of(args: &ReproduceArgs) -> Result<Option<NewFile>, Failure> {
    args.html.as_deref().map(|path| NewFile::create("--html", path)).transpose()
}

/// Runs the experiment of a file; its jobs are in the file's folder.
fn of_file(args: &ReproduceArgs, name: &str, path: &Path) -> Result<Ending, Failure> {
    let text = read_text_file(path).map_err(|error| Failure::named(name, error))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let read = |job: &str| {
        let job = folder.join(job);
        let name = job.display().to_string();
        let text = read_text_file(&job).map_err(|error| Failure::named(&name, error))?;
        Ok((name, text))
    };
    let label = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let definition = Definition::parse(name, &text, args.full).map_err(Failure::text)?;
    of_definition(args, &label, definition, &read)
}

/// Makes the runs, prints the report, and says what is not as the experiment expects.
fn of_definition(
    args: &ReproduceArgs,
    label: &str,
    mut definition: Definition,
    read: runner::ReadJob<'_>,
) -> Result<Ending, Failure> {
    let page = page_of(args)?;
    let lab = Lab::on_signals(label)?;
    let globals = match runner::run_all(&lab, &mut definition, read) {
        Ok(globals) => globals,
        Err(failure) => return lab.interrupted_by().map(Ending::Interrupted).ok_or(failure),
    };
    drop(lab);
    let Report { document, missed } = write::report(&definition, &globals)?;
    let printed = emit_text(&document.text());
    let page =
        page.map_or(Ok(()), |file| file.commit(document.html("simulated devices").as_bytes()));
    all([printed, page])?;
    missed.iter().for_each(|line| tell(&format!("{label}: {line}")));
    Ok(if missed.is_empty() { Ending::Done } else { Ending::Failed })
}

fn list() -> String {
    let line = |e: &Experiment| format!("  {:<14} {}\n", e.name, e.definition(false).summary);
    let lines: String = EXPERIMENTS.iter().map(line).collect();
    format!("Experiments (elevon reproduce NAME):\n\n{lines}")
}

#[cfg(test)]
mod tests;
