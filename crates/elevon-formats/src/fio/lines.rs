//! Splits a text into sections: comments, section heads, keys and values with their places,
//! includes and variables.
//!
//! The rules are fio's. A line is cut at its first `;`, then at its first `#`, quoted or not. A
//! section whose name starts with `global` (in lower case) sets defaults for the sections below it.
//! An `include FILE` line is allowed in a section. FILE is relative to the including file, holds
//! only options and may include further files.

use super::source::{Environment, JobSource, Machine, PatternFiles};
use crate::diagnostic::{Diagnostic, Problem, Span};

/// The number of errors after which parsing stops.
pub const MAX_ERRORS: usize = 1000;

/// The maximum depth of nested includes; more is a cycle.
const INCLUDE_DEPTH: u32 = 16;
/// The maximum number of includes of all job files of a command; a file counts as often as it is
/// included. Files that include two others each, sixteen deep, would be 65,536.
const MAX_INCLUDES: usize = 1024;
/// The maximum number of bytes of all included files and of all files of patterns, counted alike.
const MAX_BYTES: usize = 64 << 20;

/// One `key=value` or bare `key`.
#[derive(Clone, Debug)]
pub(crate) struct KeyValue {
    /// The place of the key.
    pub(crate) at: Span,
    /// Column of the value, from 1.
    pub(crate) value_column: u32,
    pub(crate) key: String,
    /// The value with variables expanded; `None` for a bare key.
    pub(crate) value: Option<String>,
    /// Variables in the value that are not set, and were therefore left out.
    pub(crate) unset: Vec<String>,
    /// The files that a pattern names.
    pub(crate) files: PatternFiles,
}

/// The options whose values may name files: `'NAME'`.
const PATTERNS: [&str; 2] = ["buffer_pattern", "verify_pattern"];

/// A section head and its entries.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) at: Span,
    pub(crate) entries: Vec<KeyValue>,
}

impl Section {
    pub(crate) fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }
}

/// Reads files into sections, and collects complaints.
pub(crate) struct Reader<'a> {
    pub(crate) source: &'a mut dyn JobSource,
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) warnings: Vec<Diagnostic>,
    /// The file that the command line names. It determines which files may be included.
    pub(crate) job_file: String,
    /// What was read of the environment.
    pub(crate) environment: Environment,
    /// What was read besides the job files.
    pub(crate) beside: Beside,
}

/// Includes, and bytes of the files that includes and patterns name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside {
    includes: usize,
    bytes: usize,
}

impl Beside {
    /// Returns what is too much of it.
    fn excess(self) -> Option<String> {
        if self.includes > MAX_INCLUDES {
            let message =
                format!("more than {MAX_INCLUDES} includes, counting those of included files");
            return Some(format!("{message}; put what they say into fewer files"));
        }
        let message =
            format!("more than {} MiB of included files and files of patterns", MAX_BYTES >> 20);
        (self.bytes > MAX_BYTES).then(|| format!("{message}; name smaller ones, or fewer times"))
    }
}

impl Reader<'_> {
    /// Returns the sections of a job file and of everything that it includes.
    pub(crate) fn sections(&mut self, name: &str) -> Vec<Section> {
        let mut sections = Vec::new();
        name.clone_into(&mut self.job_file);
        let at = Span { file: name.to_owned(), line: 1, column: 1 };
        match self.source.read(name) {
            Ok(text) => self.text(name, &text, &mut sections, 0),
            Err(why) => {
                self.errors.push(at.diagnostic(
                    "",
                    Problem::File.because(format!("cannot read the job file ({why})")),
                ));
            }
        }
        if self.errors.is_empty() && sections.iter().all(Section::is_global) {
            let message = "no job; a job is a section such as `[reader]` with options below it";
            self.errors.push(at.diagnostic("", Problem::Missing.because(message)));
        }
        sections
    }

    fn text(&mut self, file: &str, text: &str, sections: &mut Vec<Section>, depth: u32) {
        // The byte order mark that some editors put at the start of a text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, whole) in text.lines().enumerate() {
            let line = whole.split(';').next().unwrap_or("").split('#').next().unwrap_or("");
            let trimmed = line.trim();
            if trimmed.is_empty() {
                continue;
            }
            if self.errors.len() >= MAX_ERRORS {
                return;
            }
            let column = column(line, line.len() - line.trim_start().len());
            let at = Span { file: file.to_owned(), line: index as u32 + 1, column };
            match trimmed.strip_prefix('[') {
                Some(_) if depth > 0 => {
                    let message = "an included file holds options only; move this section to the including file";
                    self.errors.push(at.diagnostic(trimmed, Problem::Syntax.because(message)));
                }
                Some(rest) => self.head(at, trimmed, rest, sections),
                None => self.option(at, line, sections, depth),
            }
        }
    }

    fn head(&mut self, at: Span, whole: &str, rest: &str, sections: &mut Vec<Section>) {
        // As in fio, a name may have brackets: the last one ends it.
        let (name, tail) = match rest.rsplit_once(']') {
            Some((name, tail)) => (name.trim(), tail.trim()),
            None => {
                let message = format!("the section's name has no end; write `{whole}]`");
                self.errors.push(at.diagnostic(whole, Problem::Syntax.because(message)));
                (rest.trim(), "")
            }
        };
        if name.is_empty() {
            self.errors.push(at.diagnostic(
                whole,
                Problem::Missing.because("a section needs a name, such as `[reader]`"),
            ));
        }
        if !tail.is_empty() {
            let message = format!(
                "`{tail}` after the section's name is ignored; put it on a line of its own"
            );
            self.warnings
                .push(at.diagnostic(&format!("[{name}]"), Problem::NoEffect.because(message)));
        }
        sections.push(Section { name: name.to_owned(), at, entries: Vec::new() });
    }

    fn option(&mut self, at: Span, line: &str, sections: &mut Vec<Section>, depth: u32) {
        let trimmed = line.trim();
        if let Some(name) = include_name(trimmed) {
            return self.include(&at, name, sections, depth);
        }
        let Some(section) = sections.last_mut() else {
            let message =
                "an option before any section; put `[global]` or a job's name in brackets above it";
            self.errors.push(at.diagnostic(trimmed, Problem::Syntax.because(message)));
            return;
        };
        let (key, value, value_column) = match line.split_once('=') {
            None => (trimmed, None, at.column),
            Some((key, raw)) => {
                let value = raw.trim();
                let blanks =
                    key.ends_with(char::is_whitespace) || raw.starts_with(char::is_whitespace);
                if blanks
                    && value.starts_with(|c: char| c.is_ascii_digit())
                    && value.ends_with(char::is_alphabetic)
                {
                    let message = format!(
                        "read as `{value}`; fio 3.33 loses the unit after blanks around `=`: write \
                                           `{}={value}`",
                        key.trim()
                    );
                    self.warnings
                        .push(at.diagnostic(key.trim(), Problem::Differs.because(message)));
                }
                let start = key.len() + 1 + raw.len() - raw.trim_start().len();
                (key.trim(), Some(value), column(line, start.min(line.len())))
            }
        };
        if key.is_empty() {
            let message = "an option needs a name before `=`, such as `bs=4k`";
            self.errors.push(at.diagnostic(trimmed, Problem::Missing.because(message)));
            return;
        }
        let mut unset = Vec::new();
        let value = value.map(|text| expand(text, self.source, &mut self.environment, &mut unset));
        let pattern = value.as_deref().filter(|_| PATTERNS.contains(&key));
        let files = self.pattern_files(&at, key, pattern.unwrap_or_default());
        section.entries.push(KeyValue {
            at,
            value_column,
            key: key.to_owned(),
            value,
            unset,
            files,
        });
    }

    /// Reads the files that a pattern names between single quotes.
    fn pattern_files(&mut self, at: &Span, key: &str, pattern: &str) -> PatternFiles {
        let mut files = PatternFiles::new();
        for name in pattern.split('\'').skip(1).step_by(2) {
            if files.contains_key(name) || self.is_full() {
                continue;
            }
            let path = beside(&at.file, name);
            let bytes = self.source.read_pattern(&path, &self.job_file);
            self.count(at, key, Beside { includes: 0, bytes: bytes.as_ref().map_or(0, Vec::len) });
            files.insert(
                name.to_owned(),
                bytes.map_err(|why| format!("cannot read `{path}` ({why})")),
            );
        }
        files
    }

    /// Returns true if no further file may be read besides the job files.
    fn is_full(&self) -> bool {
        self.beside.excess().is_some()
    }

    /// Counts what is read besides the job files, and complains once if it becomes too much.
    fn count(&mut self, at: &Span, key: &str, more: Beside) {
        let was_full = self.is_full();
        self.beside.includes += more.includes;
        self.beside.bytes += more.bytes;
        if let Some(message) = self.beside.excess().filter(|_| !was_full) {
            self.errors.push(at.diagnostic(key, Problem::TooMany.because(message)));
        }
    }

    fn include(&mut self, at: &Span, name: &str, sections: &mut Vec<Section>, depth: u32) {
        if sections.is_empty() {
            let message = "an include before any section; put it below `[global]` or a job's name in brackets";
            return self.errors.push(at.diagnostic("include", Problem::Syntax.because(message)));
        }
        if name.is_empty() {
            let message = "names no file; write `include common.fio`";
            return self.errors.push(at.diagnostic("include", Problem::Missing.because(message)));
        }
        if depth >= INCLUDE_DEPTH {
            let message = format!(
                "more than {INCLUDE_DEPTH} includes inside one another; a file may not include itself"
            );
            return self.errors.push(at.diagnostic("include", Problem::TooMany.because(message)));
        }
        self.count(at, "include", Beside { includes: 1, bytes: 0 });
        if self.is_full() {
            return;
        }
        let path = beside(&at.file, name);
        let read = self.source.read_included(&path, &self.job_file);
        match read {
            Ok(text) => {
                self.count(at, "include", Beside { includes: 0, bytes: text.len() });
                self.text(&path, &text, sections, depth + 1);
            }
            Err(why) => {
                let message = format!(
                    "cannot read `{path}` ({why}); the name is relative to the including file"
                );
                self.errors.push(at.diagnostic("include", Problem::File.because(message)));
            }
        }
    }
}

/// Returns the path of a file that is named relative to another.
fn beside(file: &str, name: &str) -> String {
    match file.rsplit_once('/') {
        Some((directory, _)) if !name.starts_with('/') => format!("{directory}/{name}"),
        _ => name.to_owned(),
    }
}

/// Returns the file of an `include FILE` or `include=FILE` line.
fn include_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("include")?;
    (rest.is_empty() || rest.starts_with(['=', ' ', '\t']))
        .then(|| rest.trim_start_matches('=').trim())
}

/// Returns the column of a byte offset, counted in characters from 1.
fn column(line: &str, offset: usize) -> u32 {
    line.char_indices().take_while(|&(at, _)| at < offset).count() as u32 + 1
}

/// Replaces `${NAME}` and the reserved keywords, each once: the value of a variable is not expanded
/// again. Arithmetic on a keyword (`8*$mb_memory`) is evaluated here, since it needs no
/// parentheses. Unset variables expand to nothing, as in fio, and their names are added to `unset`.
fn expand(
    text: &str,
    source: &dyn JobSource,
    read: &mut Environment,
    unset: &mut Vec<String>,
) -> String {
    if !text.contains('$') {
        return text.to_owned();
    }
    let (mut out, mut rest, mut keyword) = (String::with_capacity(text.len()), text, false);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        let braced = tail.strip_prefix("${").and_then(|tail| tail.split_once('}'));
        if let Some((name, after)) = braced {
            let value = source.variable(name);
            match &value {
                Some(value) => out.push_str(value),
                None => unset.push(name.to_owned()),
            }
            read.insert(format!("${{{name}}}"), value);
            rest = after;
        } else if let Some((name, number, after)) = reserved(tail, source.machine()) {
            out.push_str(&number.to_string());
            read.insert(name.to_owned(), Some(number.to_string()));
            keyword = true;
            rest = after;
        } else {
            out.push('$');
            rest = &tail[1..];
        }
    }
    out.push_str(rest);
    match keyword.then(|| super::arithmetic::evaluate(&out, |_| None)) {
        Some(Ok(number)) if number >= 0 => number.to_string(),
        _ => out,
    }
}

/// Returns the reserved keyword at the start of a text, its number, and what follows it.
fn reserved(text: &str, machine: Machine) -> Option<(&'static str, u64, &str)> {
    [("$pagesize", machine.page_size), ("$mb_memory", machine.memory_mb), ("$ncpus", machine.cpus)]
        .into_iter()
        .find_map(|(keyword, number)| {
            text.strip_prefix(keyword).map(|rest| (keyword, number, rest))
        })
}
