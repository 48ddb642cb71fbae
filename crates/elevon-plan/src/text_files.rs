//! Reads job files and tenants files from paths, or from stdin for `-`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use elevon_formats::fio::{HostSource, JobSource, Machine, SourceError, read_text, read_text_file};

/// Name that stands for stdin.
pub const STDIN: &str = "-";

/// A file or a value of the environment that the command read.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name in options and messages: `${NAME}` is a variable.
    pub what: String,
    /// `None` for a value of the environment.
    pub path: Option<PathBuf>,
    /// What it said; `None` for a trace, which is not text for people, and for a variable that is
    /// not set.
    pub text: Option<String>,
}

/// Files that the caller has in memory, by the names under which they are read; they hide files of
/// the host.
pub type Texts = Arc<BTreeMap<String, String>>;

/// Files of the host, with the names and texts of those that were read.
#[derive(Debug, Default)]
pub(crate) struct TextFiles {
    host: HostSource,
    texts: Texts,
    /// `None` if a file could not be read, and for that of a pattern.
    read: BTreeMap<String, Option<String>>,
}

impl TextFiles {
    /// Creates the source; job files may also include files from `include_folder`.
    pub(crate) fn new(include_folder: Option<&Path>, texts: Texts) -> Self {
        Self {
            host: HostSource { include_folder: include_folder.map(Path::to_owned) },
            texts,
            read: BTreeMap::new(),
        }
    }

    /// Returns the files that were read, by name.
    pub(crate) fn files(self) -> impl Iterator<Item = Input> {
        self.read.into_iter().map(|(what, text)| {
            let path = PathBuf::from(if what == STDIN { "/dev/stdin" } else { what.as_str() });
            Input { what, path: Some(path), text }
        })
    }

    /// Reads a text by its name.
    pub(crate) fn text(&mut self, name: &str) -> Result<String, SourceError> {
        let text = match name {
            _ if self.texts.contains_key(name) => Ok(self.texts[name].clone()),
            STDIN if self.read.contains_key(name) => Err(SourceError::ReadTwice),
            STDIN => read_text(std::io::stdin().lock()),
            _ => read_text_file(Path::new(name)),
        };
        self.read.insert(name.to_owned(), text.as_ref().ok().cloned());
        text
    }
}

impl JobSource for TextFiles {
    fn read(&mut self, name: &str) -> Result<String, SourceError> {
        self.text(name)
    }
    fn read_included(&mut self, path: &str, job_file: &str) -> Result<String, SourceError> {
        let text = self.host.read_included(path, job_file);
        self.read.insert(path.to_owned(), text.as_ref().ok().cloned());
        text
    }
    fn read_pattern(&mut self, path: &str, job_file: &str) -> Result<Vec<u8>, SourceError> {
        self.read.insert(path.to_owned(), None);
        self.host.read_pattern(path, job_file)
    }
    fn variable(&self, name: &str) -> Option<String> {
        self.host.variable(name)
    }
    fn machine(&self) -> Machine {
        self.host.machine()
    }
}

/// Returns the texts with that of stdin, where one of these names stands for it, so that many plans
/// can be made of it. Two names are left to the plan, which refuses them.
///
/// # Errors
/// The standard input cannot be read, or is no text.
pub fn with_stdin(texts: Texts, names: &[Option<&Path>]) -> Result<Texts, SourceError> {
    let uses = names.iter().flatten().filter(|name| name.as_os_str() == STDIN).count();
    if uses != 1 || texts.contains_key(STDIN) {
        return Ok(texts);
    }
    let mut texts = Arc::unwrap_or_clone(texts);
    texts.insert(STDIN.to_owned(), read_text(std::io::stdin().lock())?);
    Ok(Arc::new(texts))
}

/// Returns the variables among inputs as a shell sets them before a command: `NAME=value `.
pub fn assignments<'a>(inputs: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> String {
    let variable = |(what, value): (&'a str, Option<&'a str>)| {
        let name = what.strip_prefix("${")?.strip_suffix('}')?;
        Some(format!("{name}={} ", quoted([value?])))
    };
    inputs.into_iter().filter_map(variable).collect()
}

/// Joins the words of a command line, quoted for a shell.
pub fn quoted<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    // A process argument cannot contain a zero byte.
    shlex::try_join(words).unwrap_or_default()
}

/// Returns a path as text, because file names are text throughout; `None` if it is not UTF-8.
pub fn name_of(path: &Path) -> Option<&str> {
    let path: &OsStr = path.as_os_str();
    path.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_quoted_for_a_shell() {
        let words =
            ["elevon", "run", "a b.fio", "it's", "--fault", "error:sectors=1-2", "$HOME", ""];
        let line = quoted(words);
        assert_eq!(shlex::split(&line), Some(words.map(str::to_owned).to_vec()), "{line}");
        assert_eq!(
            quoted(["elevon", "run", "jobs/a.fio", "--seed", "1"]),
            "elevon run jobs/a.fio --seed 1"
        );
    }

    #[test]
    fn only_variables_that_are_set_stand_before_a_command() {
        let inputs = [
            ("a.fio", Some("[a]")),
            ("${A}", Some("8")),
            ("${B}", Some("x y")),
            ("${C}", None),
            ("$ncpus", Some("2")),
        ];
        assert_eq!(assignments(inputs), "A=8 B='x y' ");
    }
}
