//! The runs of a sweep that are done, in a file of JSON lines: what the sweep is, then a line for
//! each run, in the order in which they ended.
//!
//! A run that was written is not repeated. A line that an interrupt cut off is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use elevon_plan::failure::{Failure, FileError, MachineError};
use elevon_plan::listener::Listener;
use elevon_report::figures::FigureRow;
use serde_json::{Map, Value, json};

use crate::error::SweepError;

/// What a run gave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// Why it failed; empty if it did not.
    pub(crate) error: String,
    /// What the user should know of it.
    pub(crate) warnings: Vec<String>,
    pub(crate) rows: Vec<FigureRow>,
}

impl Outcome {
    /// Returns the outcome of a run as a line of a journal has it.
    pub(crate) fn to_json(&self, run: usize) -> Value {
        let row = |row: &FigureRow| {
            let figures: Map<String, Value> =
                row.figures.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            json!({"job": row.job, "figures": figures})
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        let mut line = json!({"run": run, "error": self.error, "rows": rows});
        if !self.warnings.is_empty() {
            line["warnings"] = json!(self.warnings);
        }
        line
    }

    /// Returns the number of a run, and its outcome: rows or an error.
    pub(crate) fn of_json(value: &Value) -> Option<(usize, Self)> {
        let row = |value: &Value| {
            let figures = value.get("figures")?.as_object()?.iter();
            let figures: Option<Vec<_>> =
                figures.map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect();
            Some(FigureRow { job: value.get("job")?.as_str()?.to_owned(), figures: figures? })
        };
        let rows: Option<Vec<FigureRow>> = value.get("rows")?.as_array()?.iter().map(row).collect();
        let run = usize::try_from(value.get("run")?.as_u64()?).ok()?;
        let warnings = value.get("warnings").and_then(Value::as_array).into_iter().flatten();
        let warnings =
            warnings.map(|text| text.as_str().map(str::to_owned)).collect::<Option<_>>()?;
        let outcome =
            Self { error: value.get("error")?.as_str()?.to_owned(), warnings, rows: rows? };
        (outcome.rows.is_empty() != outcome.error.is_empty()).then_some((run, outcome))
    }
}

/// A journal that is written.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Outcomes by number of the run.
    pub(crate) done: BTreeMap<usize, Outcome>,
}

impl Journal {
    /// Opens or creates the journal of a sweep of `runs` runs. `head` says what the sweep is; a
    /// file of another sweep is refused.
    pub(crate) fn open(
        path: &Path,
        head: &Value,
        runs: usize,
        listener: &dyn Listener,
    ) -> Result<Self, Failure> {
        let fail = |error: io::Error| {
            Failure::named(path.display().to_string(), FileError::CannotWrite(error))
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(fail)?;
        if let Some(error) = not_locked(path, file.try_lock())? {
            listener.tell(&format!(
                "warning: {}: cannot be locked ({error}), so nothing keeps another sweep from writing it",
                path.display()
            ));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(fail)?;
        let first = format!("{head}\n");
        let whole = whole_lines(&bytes);
        let mut done = BTreeMap::new();
        if whole.is_empty() {
            // A head that was cut off; anything else is no journal.
            if !first.as_bytes().starts_with(&bytes) {
                return Err(no_journal(path, 1));
            }
            file.set_len(0).map_err(fail)?;
            file.seek(SeekFrom::Start(0)).map_err(fail)?;
            file.write_all(first.as_bytes()).map_err(fail)?;
        } else {
            done = parse(path, whole, head, runs)?;
            file.set_len(whole.len() as u64).map_err(fail)?;
            file.seek(SeekFrom::End(0)).map_err(fail)?;
        }
        Ok(Self { path: path.to_owned(), file, done })
    }

    /// Adds a run.
    pub(crate) fn add(&mut self, run: usize, outcome: Outcome) -> Result<(), Failure> {
        let line = format!("{}\n", outcome.to_json(run));
        let output = self.path.display().to_string();
        self.file
            .write_all(line.as_bytes())
            .map_err(|error| MachineError::Write { output, error })?;
        self.done.insert(run, outcome);
        Ok(())
    }
}

/// Refuses a journal that another sweep has locked. Returns the error of a file system that has no
/// locks.
fn not_locked(path: &Path, locked: Result<(), TryLockError>) -> Result<Option<io::Error>, Failure> {
    match locked {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            Err(Failure::named(path.display().to_string(), SweepError::Running))
        }
        Err(TryLockError::Error(error)) => Ok(Some(error)),
    }
}

/// Returns the head of a journal.
pub(crate) fn head_of(path: &Path) -> Result<Value, Failure> {
    let bytes = bytes_of(path)?;
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    serde_json::from_slice(first).map_err(|_| no_journal(path, 1))
}

/// Reads a journal whose sweep has this head, and this number of runs.
pub(crate) fn read(
    path: &Path,
    head: &Value,
    runs: usize,
) -> Result<BTreeMap<usize, Outcome>, Failure> {
    let bytes = bytes_of(path)?;
    parse(path, whole_lines(&bytes), head, runs)
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::named(path.display().to_string(), error))
}

/// Returns what ends in a line end. What follows the last one was cut off, perhaps within a
/// character.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    &bytes[..end]
}

/// Parses lines, of which each has an end.
fn parse(
    path: &Path,
    lines: &[u8],
    head: &Value,
    runs: usize,
) -> Result<BTreeMap<usize, Outcome>, Failure> {
    let mut done = BTreeMap::new();
    for (at, line) in lines.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let value: Value = serde_json::from_slice(line).map_err(|_| no_journal(path, at + 1))?;
        if at == 0 {
            let (own, wanted) = (of_runs(&value), of_runs(head));
            if own != wanted {
                let differs = differing(&own, &wanted);
                return Err(Failure::named(
                    path.display().to_string(),
                    SweepError::AnotherSweep { differs },
                ));
            }
            continue;
        }
        let (run, outcome) = Outcome::of_json(&value).ok_or_else(|| no_journal(path, at + 1))?;
        if run >= runs {
            return Err(Failure::named(
                format!("{}:{}", path.display(), at + 1),
                SweepError::NoSuchRun { run, runs },
            ));
        }
        let place = || format!("{}:{}", path.display(), at + 1);
        add_to(&mut done, run, outcome).map_err(|error| Failure::named(place(), error))?;
    }
    Ok(done)
}

/// Adds a run to what is done. Refuses one that is there with another outcome: runs repeat.
pub(crate) fn add_to(
    done: &mut BTreeMap<usize, Outcome>,
    run: usize,
    outcome: Outcome,
) -> Result<(), SweepError> {
    match done.insert(run, outcome) {
        Some(before) if before != done[&run] => Err(SweepError::Disagrees { run }),
        _ => Ok(()),
    }
}

fn no_journal(path: &Path, line: usize) -> Failure {
    Failure::named(format!("{}:{line}", path.display()), SweepError::NoJournal)
}

/// The key of what is compared. Of it, only the axis changes the points, and only those of a
/// sample.
const COMPARE: &str = "compare";

/// Returns the fields of the head that determine the runs.
pub(crate) fn of_runs(head: &Value) -> Value {
    let mut head = head.clone();
    let is_sample = head.get("sample").is_some_and(|sample| sample != "grid");
    if let Some(keys) = head.as_object_mut() {
        let axis = keys
            .remove(COMPARE)
            .and_then(|text| Some(text.as_str()?.split_once('=')?.0.to_owned()));
        if let Some(axis) = axis.filter(|_| is_sample) {
            keys.insert(COMPARE.to_owned(), axis.into());
        }
    }
    head
}

/// Returns the keys whose values differ; of inputs each by its name.
fn differing(a: &Value, b: &Value) -> String {
    let empty = Map::new();
    let of = |value: &Value| value.as_object().cloned().unwrap_or_else(|| empty.clone());
    let (a, b) = (of(a), of(b));
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let named = |key: &String| match (a.get(key), b.get(key)) {
        (Some(a @ Value::Object(_)), Some(b @ Value::Object(_))) => {
            format!("{key} {}", differing(a, b))
        }
        _ => key.clone(),
    };
    let keys = keys.into_iter().filter(|key| a.get(*key) != b.get(*key)).map(named);
    keys.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use elevon_plan::listener::Silent;

    use super::*;

    fn outcome(value: f64) -> Outcome {
        let figures = vec![("iops".to_owned(), value), ("lat_p99_ns".to_owned(), 0.1 + 0.2)];
        Outcome {
            error: String::new(),
            warnings: vec!["slow".to_owned()],
            rows: vec![FigureRow { job: "a".to_owned(), figures }],
        }
    }

    #[test]
    fn what_is_done_is_read_back_and_a_cut_line_is_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, head) = (folder.path().join("runs.jsonl"), json!({"over": ["iodepth=1,2"]}));
        let mut journal = Journal::open(&path, &head, 4, &Silent).expect("a new journal");
        journal.add(3, outcome(1e9 / 3.0)).expect("space");
        journal.add(0, outcome(7.0)).expect("space");
        drop(journal);
        let text = std::fs::read(&path).expect("a journal");
        // Cut off within a character.
        std::fs::write(&path, [&text[..], b"{\"run\": 1, \"error\": \"\xc3"].concat())
            .expect("space");
        assert_eq!(read(&path, &head, 4).expect("a journal").len(), 2);
        let mut journal = Journal::open(&path, &head, 4, &Silent).expect("the same journal");
        let expected: BTreeMap<usize, Outcome> =
            [(0, outcome(7.0)), (3, outcome(1e9 / 3.0))].into();
        assert_eq!(journal.done, expected);
        journal.add(1, outcome(8.0)).expect("space");
        drop(journal);
        assert_eq!(read(&path, &head, 4).expect("a journal").len(), 3);
        let error = read(&path, &head, 3).expect_err("a run too many").to_string();
        assert!(error.contains("runs.jsonl:2: run 3 is not of this sweep"), "{error}");
        assert_eq!(head_of(&path).expect("a head"), head);
        let with_compare = json!({"over": ["iodepth=1,2"], "compare": "iodepth=1"});
        assert_eq!(
            read(&path, &with_compare, 4).expect("the same runs").len(),
            3,
            "what is compared is no other sweep"
        );

        let of_sample = |compare: &str| of_runs(&json!({"sample": "sobol:4", "compare": compare}));
        assert_eq!(of_sample("iodepth=1"), of_sample("iodepth=2"));
        assert_ne!(
            of_sample("iodepth=1"),
            of_sample("bs=4k"),
            "a sample has all values of the axis"
        );

        let line = outcome(9.0).to_json(1);
        std::fs::write(&path, format!("{}{line}\n", std::fs::read_to_string(&path).expect("text")))
            .expect("space");
        let error = read(&path, &head, 4).expect_err("a run with two outcomes").to_string();
        assert!(error.contains("runs.jsonl:5: run 1 is there twice"), "{error}");
        std::fs::write(&path, format!("{head}\n{{\"run\": 0, \"error\": \"\", \"rows\": []}}\n"))
            .expect("space");
        let error = read(&path, &head, 4).expect_err("a run without figures").to_string();
        assert!(error.contains("runs.jsonl:2: is no line of a sweep's journal"), "{error}");
    }

    #[test]
    fn another_sweep_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("runs.jsonl");
        let first =
            Journal::open(&path, &json!({"over": ["iodepth=1,2"], "seeds": [1]}), 2, &Silent)
                .expect("a new journal");
        assert!(Journal::open(&path, &json!({}), 2, &Silent).is_err(), "it is being written");
        drop(first);
        let error =
            Journal::open(&path, &json!({"over": ["iodepth=1,4"], "seeds": [1]}), 2, &Silent)
                .expect_err("another");
        assert!(error.to_string().contains("over"), "{error}");
        for text in [&b"no json\n"[..], b"\xff\xfe\n", b"no line"] {
            std::fs::write(&path, text).expect("space");
            let error =
                Journal::open(&path, &json!({}), 2, &Silent).expect_err("no journal").to_string();
            assert!(error.contains("runs.jsonl:1: is no line of a sweep's journal"), "{error}");
            assert_eq!(std::fs::read(&path).expect("it is left"), text);
        }
        // A head that was cut off is written again.
        std::fs::write(&path, "{\"ove").expect("space");
        Journal::open(&path, &json!({"over": []}), 2, &Silent).expect("a new journal");
        assert_eq!(std::fs::read_to_string(&path).expect("a head"), "{\"over\":[]}\n");
    }

    #[test]
    fn a_file_system_without_locks_is_no_other_sweep() {
        let path = Path::new("runs.jsonl");
        assert!(not_locked(path, Err(TryLockError::WouldBlock)).is_err());
        let none = not_locked(path, Err(TryLockError::Error(io::ErrorKind::Unsupported.into())));
        assert!(none.expect("it goes on").is_some());
        assert!(not_locked(path, Ok(())).expect("it goes on").is_none());
    }
}
