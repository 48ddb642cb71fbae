//! A sweep in a folder: a journal of the runs that are done, and the results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::SIGINT;
use elevon_plan::failure::{Ending, Failure, FileError};
use elevon_plan::listener::Listener;
use elevon_plan::text_files::STDIN;

use crate::definition::Definition;
use crate::error::SweepError;
use crate::journal::{self, Journal, Outcome, add_to};
use crate::request::SweepRequest;
use crate::results::{self, Rendered};
use crate::runs::{self, Checked, check};
use crate::said::Said;

/// A sweep whose runs are kept in a folder.
#[derive(Clone, Debug)]
pub struct FolderSweep {
    definition: Definition,
    shard: Shard,
    threads: Option<u16>,
    output: Option<PathBuf>,
}

/// What a sweep came to.
#[derive(Clone, Debug)]
pub struct SweepReport {
    /// How it ended.
    pub ending: Ending,
    /// The results; `None` if runs are still to be done.
    pub results: Option<FolderResults>,
}

/// Results that were written into a folder.
#[derive(Clone, Debug)]
pub struct FolderResults {
    /// The summary as text.
    pub summary: String,
    /// The summary as JSON.
    pub json: String,
    /// The folder.
    pub folder: PathBuf,
}

impl SweepReport {
    const fn without_results(ending: Ending) -> Self {
        Self { ending, results: None }
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

impl FolderSweep {
    /// Checks a sweep, except for the plans of its points.
    ///
    /// # Errors
    /// An axis, the sample, the seeds or the shard are wrong.
    pub fn new(request: &SweepRequest) -> Result<Self, Failure> {
        let shard = request
            .shard
            .as_deref()
            .map_or(Ok(Shard::WHOLE), Shard::parse)
            .map_err(Failure::input)?;
        let definition = Definition::new(request)?;
        Ok(Self { definition, shard, threads: request.threads, output: request.output.clone() })
    }

    /// Does the runs that the folder does not have yet and, if these were all, writes the results.
    ///
    /// # Errors
    /// A point is wrong, the folder is another sweep's, or a file cannot be written.
    pub fn run(
        mut self,
        interrupt: &Interrupt,
        listener: &dyn Listener,
    ) -> Result<SweepReport, Failure> {
        let checking = listener.begin("checking");
        checking.expect(self.definition.points.len() as u64);
        let Some(Checked { inputs, said }) =
            check(&self.definition, interrupt, &mut || checking.advance())?
        else {
            let signal = interrupt.signal().unwrap_or(SIGINT);
            return Ok(SweepReport::without_results(Ending::Interrupted(signal)));
        };
        drop(checking);
        listener.warn(&said.lines(&Said::default()));
        self.definition.set_variables(&inputs);
        let Self { definition, shard, threads, output } = self;
        let folder = output.clone().unwrap_or_else(|| folder_of(&definition.job));
        make_folder(&folder, output.is_some())?;
        let path = folder.join(shard.journal());
        let mut journal =
            Journal::open(&path, &definition.head(&inputs), definition.runs(), listener)?;
        let before = journal.done.len();
        let wanted: Vec<usize> = (0..definition.runs()).filter(|&run| shard.has(run)).collect();
        let pending: Vec<usize> =
            wanted.iter().copied().filter(|run| !journal.done.contains_key(run)).collect();
        if before > 0 {
            listener.tell(&format!("{before} of {} runs were done before", wanted.len()));
        }
        runs::run_all(&definition, &pending, threads, (interrupt, listener), &mut journal)?;
        if let Some(signal) = interrupt.signal() {
            listener.tell(&format!(
                "{} of {} runs are done and kept in {}; the same command goes on",
                journal.done.len(),
                wanted.len(),
                folder.display()
            ));
            return Ok(SweepReport::without_results(Ending::Interrupted(signal)));
        }
        if shard != Shard::WHOLE {
            listener.tell(&format!(
                "shard {} of {} is done; when all are: elevon sweep merge {}",
                shard.index + 1,
                shard.of,
                folder.display()
            ));
            return Ok(SweepReport::without_results(failed(&journal.done)));
        }
        let results = written(&definition, &journal.done, folder, &said, listener)?;
        Ok(SweepReport { ending: failed(&journal.done), results: Some(results) })
    }
}

/// Puts the shards of a sweep together, and writes its results into `output` or the first of the
/// folders.
///
/// # Errors
/// The folders are not those of all shards of one sweep, or a file cannot be written.
pub fn merge(
    folders: &[PathBuf],
    output: Option<&Path>,
    listener: &dyn Listener,
) -> Result<SweepReport, Failure> {
    let mut journals: Vec<PathBuf> = Vec::new();
    for folder in folders {
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
    let missing: Vec<usize> =
        (0..definition.runs()).filter(|run| !done.contains_key(run)).collect();
    if let Some(&first) = missing.first() {
        let (missing, of) = (missing.len(), definition.runs());
        return Err(Failure::input(SweepError::Missing { missing, of, first }));
    }
    let folder = output.unwrap_or(&folders[0]);
    make_folder(folder, output.is_some())?;
    let results = written(&definition, &done, folder.to_owned(), &Said::default(), listener)?;
    Ok(SweepReport { ending: failed(&done), results: Some(results) })
}

/// Writes the results into a folder.
fn written(
    definition: &Definition,
    done: &BTreeMap<usize, Outcome>,
    folder: PathBuf,
    before: &Said,
    listener: &dyn Listener,
) -> Result<FolderResults, Failure> {
    let Rendered { summary, json, .. } =
        results::write(definition, done, &folder, before, listener)?;
    Ok(FolderResults { summary, json, folder })
}

/// Makes the folder of results, unless there is one. `is_named`: by `--output`. A folder is refused
/// that has some of the files that would be written, and is not a sweep's.
fn make_folder(folder: &Path, is_named: bool) -> Result<(), Failure> {
    let name = if is_named {
        format!("--output {}", folder.display())
    } else {
        folder.display().to_string()
    };
    if folder.exists() && !folder.is_dir() {
        return Err(Failure::named(name, FileError::NotADirectory));
    }
    std::fs::create_dir_all(folder).map_err(|error| Failure::named(&name, error))?;
    let there: Vec<&str> =
        results::FILES.into_iter().filter(|file| folder.join(file).exists()).collect();
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
    if done.values().any(|outcome| !outcome.error.is_empty()) {
        Ending::Failed
    } else {
        Ending::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_divide_the_runs() {
        let shards: Vec<Shard> =
            ["1/3", "2/3", "3/3"].map(|text| Shard::parse(text).expect("a shard")).into();
        for run in 0..10 {
            assert_eq!(shards.iter().filter(|shard| shard.has(run)).count(), 1, "{run}");
        }
        assert_eq!(
            (shards[1].journal(), Shard::WHOLE.journal()),
            ("runs-2-of-3.jsonl".into(), "runs.jsonl".into())
        );
        for text in ["0/3", "4/3", "1", "a/b", "1/0"] {
            assert!(Shard::parse(text).is_err(), "{text}");
        }
    }
}
