//! Reads job files and tenants files from paths, or from stdin for `-`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use elevon_formats::fio::{HostSource, JobSource, Machine, SourceError, read_text, read_text_file};

/// Name that stands for stdin.
pub(crate) const STDIN: &str = "-";

/// Files of the host, with the names of those that were read.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    host: HostSource,
    read: BTreeSet<String>,
}

impl Sources {
    /// Creates the source; job files may also include files from `include_folder`.
    pub(crate) fn new(include_folder: Option<&Path>) -> Self {
        Self { host: HostSource { include_folder: include_folder.map(Path::to_owned) }, read: BTreeSet::new() }
    }

    /// Yields the files that were read, with their names in options and messages.
    pub(crate) fn files(&self) -> impl Iterator<Item = (String, PathBuf)> {
        self.read.iter().map(|name| {
            let path = if name == STDIN { Path::new("/dev/stdin") } else { Path::new(name) };
            (name.clone(), path.to_owned())
        })
    }

    /// Reads a text by its name.
    pub(crate) fn text(&mut self, name: &str) -> Result<String, SourceError> {
        let is_new = self.read.insert(name.to_owned());
        match name {
            STDIN if !is_new => Err(SourceError::ReadTwice),
            STDIN => read_text(std::io::stdin().lock()),
            _ => read_text_file(Path::new(name)),
        }
    }
}

impl JobSource for Sources {
    fn read(&mut self, name: &str) -> Result<String, SourceError> {
        self.text(name)
    }
    fn read_included(&mut self, path: &str, job_file: &str) -> Result<String, SourceError> {
        self.read.insert(path.to_owned());
        self.host.read_included(path, job_file)
    }
    fn variable(&self, name: &str) -> Option<String> {
        self.host.variable(name)
    }
    fn machine(&self) -> Machine {
        self.host.machine()
    }
}

/// Joins the words of a command line, quoted for a shell.
pub(crate) fn quoted<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    // A process argument cannot contain a zero byte.
    shlex::try_join(words).unwrap_or_default()
}

/// Returns a path as text, because file names are text throughout; `None` if it is not UTF-8.
pub(crate) fn name_of(path: &Path) -> Option<&str> {
    let path: &OsStr = path.as_os_str();
    path.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_quoted_for_a_shell() {
        let words = ["elevon", "run", "a b.fio", "it's", "--fault", "error:sectors=1-2", "$HOME", ""];
        let line = quoted(words);
        assert_eq!(shlex::split(&line), Some(words.map(str::to_owned).to_vec()), "{line}");
        assert_eq!(quoted(["elevon", "run", "jobs/a.fio", "--seed", "1"]), "elevon run jobs/a.fio --seed 1");
    }
}
