//! Logs that jobs request (`write_bw_log=` etc.): writes them, and checks that a job's prefix does
//! not lead out of their folder.

use std::io;
use std::path::{Component, Path, PathBuf};

use elevon_formats::fio::spec::Logs;
use elevon_formats::fio::{Complaint, ParsedJobs, Problem};
use elevon_workload::run;

use crate::failure::{Failure, FileError};
use crate::output::NewFile;

/// Why a log was not written; prints as one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// The log's name is a symbolic link that leads out of the folder.
    #[error("log {}: a symbolic link that leads out of the folder of the logs", .0.display())]
    LeadsOut(PathBuf),
    /// The text of the log could not be produced.
    #[error("log {0}")]
    Text(#[source] io::Error),
    /// The file could not be created or written.
    #[error("log {}", line_of(.0))]
    File(Failure),
}

/// The folder below which all logs of a run are written: `--log-dir`, or the current folder.
#[derive(Clone, Debug)]
pub struct LogFolder {
    given: Option<PathBuf>,
    /// The folder without symbolic links; `None` if no job writes a log.
    real: Option<PathBuf>,
}

impl LogFolder {
    /// Checks every prefix of every job before the run.
    pub(crate) fn new(given: Option<&Path>, jobs: &ParsedJobs) -> Result<Self, Failure> {
        let mut folder = Self { given: given.map(Path::to_owned), real: None };
        if given.is_some() {
            folder.open()?;
        }
        let mut errors = Vec::new();
        for (index, job) in jobs.jobs.iter().enumerate() {
            for (key, prefix) in prefixes(&job.logs) {
                if folder.real.is_none() {
                    folder.real = Some(folder.open()?);
                }
                if let Err(why) = folder.check(prefix) {
                    errors.push(jobs.diagnostic(index, key, why));
                }
            }
        }
        errors.dedup();
        if errors.is_empty() { Ok(folder) } else { Err(Failure::text(errors)) }
    }

    /// Returns true if a job writes a log.
    pub const fn has_logs(&self) -> bool {
        self.real.is_some()
    }

    fn open(&self) -> Result<PathBuf, Failure> {
        let path = self.path();
        let name = || format!("--log-dir {}", path.display());
        if !path.exists() {
            return Err(Failure::named(
                name(),
                FileError::NoFolder("make it first, or name one that exists"),
            ));
        }
        let real = path.canonicalize().map_err(|error| Failure::named(name(), error))?;
        if real.is_dir() { Ok(real) } else { Err(Failure::named(name(), FileError::NotADirectory)) }
    }

    fn path(&self) -> &Path {
        self.given.as_deref().unwrap_or(Path::new("."))
    }

    /// Checks a prefix and explains why it cannot be used.
    fn check(&self, prefix: &str) -> Result<(), Complaint> {
        let outside = || {
            Problem::File
                .because(format!("`{prefix}` leads out of the folder of the logs; {RIGHT}"))
        };
        let is_plain = Path::new(prefix)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !is_plain {
            return Err(outside());
        }
        let name = self.path().join(format!("{prefix}_"));
        let folder = name.parent().unwrap_or(Path::new("."));
        let folder = if folder == Path::new("") { Path::new(".") } else { folder };
        let unreachable = |error| Problem::File.because(format!("{}: {error}", folder.display()));
        let real = folder.canonicalize().map_err(unreachable)?;
        if self.is_below(&real) { Ok(()) } else { Err(outside()) }
    }

    fn is_below(&self, real: &Path) -> bool {
        self.real.as_ref().is_some_and(|folder| real.starts_with(folder))
    }

    /// Writes the logs of all jobs under fio's names.
    pub(crate) fn write(&self, outcome: &run::RunOutcome) -> Result<(), LogError> {
        for (index, job) in outcome.jobs.iter().enumerate() {
            let Some(logger) = &job.logs else { continue };
            for log in &logger.logs {
                let name = format!("{}_{}.{}.log", log.prefix, log.kind.suffix(), index + 1);
                self.file(&name, |out| logger.write(log, out))?;
            }
            if let Some(prefix) = &logger.histogram_prefix {
                let name = format!("{prefix}_clat_hist.{}.log", index + 1);
                self.file(&name, |out| logger.write_histograms(out))?;
            }
        }
        Ok(())
    }

    fn file(
        &self,
        name: &str,
        write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
    ) -> Result<(), LogError> {
        let path = self.path().join(name);
        // A symbolic link of that name is only replaced if it leads to a place in the folder.
        if path.is_symlink() && !path.canonicalize().is_ok_and(|real| self.is_below(&real)) {
            return Err(LogError::LeadsOut(path));
        }
        let mut text = Vec::new();
        write(&mut text).map_err(LogError::Text)?;
        let file = NewFile::create("", &path).map_err(LogError::File)?;
        file.commit(&text).map_err(LogError::File)
    }
}

const RIGHT: &str = "must be a name, and --log-dir names the folder";

/// Returns the message of a failure without the program's name.
fn line_of(failure: &Failure) -> String {
    failure.to_string().trim_end().trim_start_matches("elevon: ").to_owned()
}

/// Yields the prefixes that a job sets, each with its option.
fn prefixes(logs: &Logs) -> impl Iterator<Item = (&'static str, &str)> {
    [
        ("write_bw_log", &logs.bandwidth),
        ("write_iops_log", &logs.iops),
        ("write_lat_log", &logs.latency),
        ("write_hist_log", &logs.histogram),
    ]
    .into_iter()
    .filter_map(|(key, prefix)| Some((key, prefix.as_deref()?)))
}
