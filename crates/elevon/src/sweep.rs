//! `elevon sweep`: one job file under many options, settings and seeds, on all cores.
//!
//! A sweep is a list of points, each a value for every axis, and a list of seeds; its runs are
//! numbered point by point. A run is what `elevon run` does with the options of its point, so its
//! row in the results has the command that repeats it. Runs are simulated and deterministic: the
//! results do not depend on the number of threads, on interrupts, or on shards.

mod amount;
mod axis;
mod definition;
mod drawing;
mod goal;
mod journal;
mod points;
mod results;
mod runs;
mod said;
mod summary;
mod table;
mod tune;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use elevon_host::interrupt::Interrupt;

use crate::args::{MergeArgs, SweepArgs, SweepCommand, SweepRunArgs};
use crate::bar::Bar;
use crate::execute::SIGINT;
use crate::failure::warn;
use crate::failure::{Ending, Failure, FileError, MachineError, SweepError, tell};
use crate::text_files::STDIN;
pub(crate) use axis::Axis;
pub(crate) use definition::Definition;
use journal::Journal;
pub(crate) use journal::{Outcome, add_to};
pub(crate) use results::{Collected, Rendered};
pub(crate) use runs::{Checked, check, one};
pub(crate) use said::Said;
pub(crate) use summary::Results;
pub(crate) use tune::tune;

pub(crate) fn sweep(args: &SweepArgs) -> Result<Ending, Failure> {
    match &args.command {
        Some(SweepCommand::Merge(merge)) => merge_shards(merge),
        None => run(&args.run),
    }
}

/// One of several parts of a sweep's runs: those whose number modulo `of` is `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shard {
    index: usize,
    of: usize,
}

impl Shard {
    const WHOLE: Self = Self { index: 0, of: 1 };

    /// Parses `I/N`, with I from 1 to N.
    fn parse(text: &str) -> Result<Self, SweepError> {
        let shard = text.split_once('/').and_then(|(index, of)| {
            let (index, of): (usize, usize) = (index.parse().ok()?, of.parse().ok()?);
            (1..=of).contains(&index).then(|| Self { index: index - 1, of })
        });
        shard.ok_or_else(|| SweepError::Shard { text: text.to_owned() })
    }

    const fn has(self, run: usize) -> bool {
        run % self.of == self.index
    }

    /// Returns the name of the shard's journal.
    fn journal(self) -> String {
        match self {
            Self::WHOLE => "runs.jsonl".to_owned(),
            Self { index, of } => format!("runs-{}-of-{of}.jsonl", index + 1),
        }
    }
}

fn run(args: &SweepRunArgs) -> Result<Ending, Failure> {
    let shard = args.shard.as_deref().map_or(Ok(Shard::WHOLE), Shard::parse).map_err(Failure::input)?;
    let mut definition = Definition::new(args)?;
    let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
    let bar = Bar::new("checking");
    bar.expect(definition.points.len() as u64);
    let Some(Checked { inputs, said }) = check(&definition, &interrupt, &mut || bar.advance())? else {
        return Ok(Ending::Interrupted(interrupt.signal().unwrap_or(SIGINT)));
    };
    drop(bar);
    warn(&said.lines(&Said::default()));
    definition.set_variables(&inputs);
    let folder = args.output.clone().unwrap_or_else(|| folder_of(&definition.job));
    make_folder(&folder, args.output.is_some())?;
    let mut journal = Journal::open(&folder.join(shard.journal()), &definition.head(&inputs), definition.runs())?;
    let before = journal.done.len();
    let wanted: Vec<usize> = (0..definition.runs()).filter(|&run| shard.has(run)).collect();
    let pending: Vec<usize> = wanted.iter().copied().filter(|run| !journal.done.contains_key(run)).collect();
    if before > 0 {
        tell(&format!("{before} of {} runs were done before", wanted.len()));
    }
    runs::run_all(&definition, &pending, args.threads, &interrupt, &mut journal)?;
    if let Some(signal) = interrupt.signal() {
        tell(&format!(
            "{} of {} runs are done and kept in {}; the same command goes on",
            journal.done.len(),
            wanted.len(),
            folder.display()
        ));
        return Ok(Ending::Interrupted(signal));
    }
    if shard != Shard::WHOLE {
        tell(&format!(
            "shard {} of {} is done; when all are: elevon sweep merge {}",
            shard.index + 1,
            shard.of,
            folder.display()
        ));
        return Ok(failed(&journal.done));
    }
    results::write(&definition, &journal.done, &folder, args.output_format, &said)?;
    Ok(failed(&journal.done))
}

fn merge_shards(args: &MergeArgs) -> Result<Ending, Failure> {
    let mut journals: Vec<PathBuf> = Vec::new();
    for folder in &args.folders {
        journals.extend(journals_in(folder)?);
    }
    let first = journals.first().ok_or_else(|| Failure::input(SweepError::NothingToMerge))?;
    let head = journal::head_of(first)?;
    let definition = Definition::of_head(first, &head)?;
    let mut done: BTreeMap<usize, Outcome> = BTreeMap::new();
    for path in &journals {
        for (run, outcome) in journal::read(path, &head, definition.runs())? {
            let place = || path.display().to_string();
            add_to(&mut done, run, outcome).map_err(|error| Failure::named(place(), error))?;
        }
    }
    let missing: Vec<usize> = (0..definition.runs()).filter(|run| !done.contains_key(run)).collect();
    if let Some(&first) = missing.first() {
        let (missing, of) = (missing.len(), definition.runs());
        return Err(Failure::input(SweepError::Missing { missing, of, first }));
    }
    let folder = args.output.as_ref().unwrap_or(&args.folders[0]);
    make_folder(folder, args.output.is_some())?;
    results::write(&definition, &done, folder, args.output_format, &Said::default())?;
    Ok(failed(&done))
}

/// Makes the folder of results, unless there is one. `is_named`: by `--output`. A folder is refused
/// that has some of the files that would be written, and is not a sweep's.
fn make_folder(folder: &Path, is_named: bool) -> Result<(), Failure> {
    let name = if is_named { format!("--output {}", folder.display()) } else { folder.display().to_string() };
    if folder.exists() && !folder.is_dir() {
        return Err(Failure::named(name, FileError::NotADirectory));
    }
    std::fs::create_dir_all(folder).map_err(|error| Failure::named(&name, error))?;
    let there: Vec<&str> = results::FILES.into_iter().filter(|file| folder.join(file).exists()).collect();
    match there.first() {
        Some(first) if there.len() < results::FILES.len() && journals_in(folder)?.is_empty() => {
            Err(Failure::named(name, SweepError::NoFolderOfSweep { file: (*first).to_owned() }))
        }
        _ => Ok(()),
    }
}

/// Returns the journals in a folder, in order of their names.
fn journals_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let fail = |error| Failure::named(folder.display().to_string(), error);
    if !folder.exists() {
        let right = "name the folders of `elevon sweep --shard`";
        return Err(Failure::named(folder.display().to_string(), FileError::NoFolder(right)));
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("runs") && name.ends_with(".jsonl") {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the folder of a sweep's results if none is named.
fn folder_of(job: &Path) -> PathBuf {
    let stem = job.file_stem().filter(|stem| *stem != STDIN);
    let name = stem.map_or_else(|| "job".into(), |stem| stem.to_string_lossy().into_owned());
    PathBuf::from(format!("{name}.sweep"))
}

fn failed(done: &BTreeMap<usize, Outcome>) -> Ending {
    if done.values().any(|outcome| !outcome.error.is_empty()) { Ending::Failed } else { Ending::Done }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_divide_the_runs() {
        let shards: Vec<Shard> = ["1/3", "2/3", "3/3"].map(|text| Shard::parse(text).expect("a shard")).into();
        for run in 0..10 {
            assert_eq!(shards.iter().filter(|shard| shard.has(run)).count(), 1, "{run}");
        }
        assert_eq!((shards[1].journal(), Shard::WHOLE.journal()), ("runs-2-of-3.jsonl".into(), "runs.jsonl".into()));
        for text in ["0/3", "4/3", "1", "a/b", "1/0"] {
            assert!(Shard::parse(text).is_err(), "{text}");
        }
    }
}
