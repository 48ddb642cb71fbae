//! Opens traces: by a file, by the base name of per-CPU files, or from bytes.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::detect::{LOOK_AT, detect, whole_lines};
use crate::format::TraceFormat;
use crate::input::Input;
use crate::mail::{self, Mail};
use crate::page::{self, Page};
use crate::read::blkparse;
use crate::reader::Reader;
use crate::recorded::Recorded;
use crate::report::ReadReport;

/// Why a trace could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file could not be opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The content has no known format.
    #[error("{name}: {}", unknown(head))]
    UnknownFormat {
        /// Name of what was read.
        name: String,
        /// Start of the content.
        head: Vec<u8>,
    },
    /// The content is compressed and damaged before anything could be read.
    #[error("{name}: its compressed data is damaged near the start")]
    Damaged {
        /// Name of what was read.
        name: String,
    },
    /// The content is empty.
    #[error("{name}: the trace is empty")]
    Empty {
        /// Name of what was read.
        name: String,
    },
}

/// Files that people take for traces: how they start, and what to do with them.
const OTHERS: [(&[u8], &str); 8] = [
    (
        b"\x17\x08Dtracing",
        "it is trace-cmd's trace.dat, and elevon reads what `trace-cmd report -t` prints of it",
    ),
    (b"PERFILE2", "it is perf's perf.data, and elevon reads what `perf script --ns` prints of it"),
    (
        b"BZh",
        "it is compressed by bzip2, and elevon reads gzip, xz and zstd: `bzip2 -dc FILE | elevon inspect -`",
    ),
    (
        b"\x04\x22\x4d\x18",
        "it is compressed by lz4, and elevon reads gzip, xz and zstd: `lz4 -dc FILE | elevon inspect -`",
    ),
    (b"PK\x03\x04", "it is a zip archive: unpack it, and name the trace in it"),
    (
        b"PAR1",
        "it is Parquet, which elevon writes but does not read; of the other formats, CSV keeps as much",
    ),
    (
        b"\xff\xfe",
        "it is text in UTF-16, and elevon reads UTF-8: `iconv -f UTF-16 FILE | elevon inspect -`",
    ),
    (
        b"\xfe\xff",
        "it is text in UTF-16, and elevon reads UTF-8: `iconv -f UTF-16 FILE | elevon inspect -`",
    ),
];

/// Files of JSON that people take for traces: a key near their start, and what to do with them.
const JSON: [(&[u8], &str); 2] = [
    (
        b"\"systemTraceEvents\"",
        "it is Chrome's JSON, and elevon reads the text in it: `jq -r .systemTraceEvents FILE | elevon inspect -`",
    ),
    (
        b"\"linux-perf-json-version\"",
        "it is what `perf data convert` makes, and elevon reads what `perf script --ns` prints of the perf.data",
    ),
];

/// Number of bytes of content of an unknown format that are kept: the header of a tar.
const HEAD: usize = 512;

/// Returns true for the header of a tar.
fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}

/// Lines that must all look like those of `blkparse -f` before that is said of a text.
const MAY_BE_CUSTOM: usize = 4;

/// Returns true for a line that a mail quotes.
fn is_of_mail(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b">")
}

/// Returns the message for content of an unknown format.
fn unknown(head: &[u8]) -> String {
    if is_tar(head) {
        return "it is a tar archive: `tar -xOf FILE TRACE | elevon inspect -` reads a trace in it"
            .to_owned();
    }
    if let Some((_, advice)) = OTHERS.iter().find(|(start, _)| head.starts_with(start)) {
        return (*advice).to_owned();
    }
    if let Some((_, advice)) =
        JSON.iter().find(|(key, _)| memchr::memmem::find(head, key).is_some())
    {
        return (*advice).to_owned();
    }
    let formats: Vec<&str> = TraceFormat::ALL.iter().map(|format| format.name()).collect();
    let first = head
        .split(|&byte| byte == b'\n')
        .find(|line| !line.trim_ascii().is_empty())
        .unwrap_or_default();
    if is_of_mail(first) {
        return "its lines are quoted, numbered or wrapped, as in a mail, and no line of a trace is found in them: give \
            the lines as the tool printed them"
            .to_owned();
    }
    let mut lines = whole_lines(head).take(MAY_BE_CUSTOM).peekable();
    if lines.peek().is_some() && lines.all(blkparse::may_be_custom) {
        return "it may be what `blkparse -f` prints, which does not say what its columns are; elevon reads what \
            blkparse prints without -f, and the files of blktrace"
            .to_owned();
    }
    if memchr::memmem::find(first, b"(dev: ").is_some() {
        return "it is what `perf trace` prints, and elevon reads what `perf script --ns` prints of a `perf record`"
            .to_owned();
    }
    let first: String =
        String::from_utf8_lossy(first).chars().take(60).flat_map(char::escape_debug).collect();
    format!("no trace of a known format ({}): it begins with \"{first}\"", formats.join(", "))
}

/// Opens the trace that a path names: a file, or the base name of per-CPU files as in `blkparse -i`
/// (`NAME` for `NAME.blktrace.0`, `NAME.blktrace.1`, ...). Each of those files also stands for all
/// of them.
///
/// # Errors
/// Returns an error for a file that cannot be read, and for content of an unknown format.
pub fn open(path: &Path) -> Result<Reader, OpenError> {
    let paths = files_of(path);
    let mut inputs = Vec::new();
    for path in &paths {
        let at = |source| OpenError::Io { path: path.clone(), source };
        let file = File::open(path).map_err(at)?;
        if file.metadata().map_err(at)?.is_dir() {
            return Err(at(io::ErrorKind::IsADirectory.into()));
        }
        inputs.push((path.display().to_string(), Input::new(Box::new(file)).map_err(at)?));
    }
    start(inputs, settings_beside(path))
}

/// Bytes of a file of settings that are read.
const MAX_SETTINGS: u64 = 1 << 20;

/// What a file beside a trace says of how it was recorded: `TRACE.settings`, for per-CPU files also
/// with their base name.
fn settings_beside(path: &Path) -> Option<Box<Recorded>> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let names = [Some(name.as_str()), cpu_of(&name).map(|(base, _)| base)];
    // It is not named by the user. A pipe of this name must not be waited for.
    let open = |name| {
        let path = path.with_file_name(format!("{name}.settings"));
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
        file.metadata().is_ok_and(|found| found.is_file()).then_some(file)
    };
    let file = names.into_iter().flatten().find_map(open)?;
    let mut text = Vec::new();
    file.take(MAX_SETTINGS).read_to_end(&mut text).ok()?;
    Some(Box::new(Recorded::of_settings(&String::from_utf8_lossy(&text))))
}

/// Reads a trace from a stream, such as standard input; the name is used in messages.
///
/// # Errors
/// Returns the errors of [`open`].
pub fn from_read(name: &str, source: Box<dyn Read + Send>) -> Result<Reader, OpenError> {
    let input = Input::new(source).map_err(|source| OpenError::Io { path: name.into(), source })?;
    start(vec![(name.to_owned(), input)], None)
}

/// Reads a trace from memory.
///
/// # Errors
/// Returns the errors of [`open`].
pub fn from_bytes(bytes: Vec<u8>) -> Result<Reader, OpenError> {
    from_read("(bytes)", Box::new(Cursor::new(bytes)))
}

fn start(
    mut inputs: Vec<(String, Input)>,
    recorded: Option<Box<Recorded>>,
) -> Result<Reader, OpenError> {
    let mut found = None;
    let mut unknown = None;
    let mut notes = Vec::new();
    for (name, input) in &mut inputs {
        let taken = std::mem::replace(input, Input::empty());
        *input = prepared(taken, &mut notes)
            .map_err(|source| OpenError::Io { path: name.as_str().into(), source })?;
        // The first file of an archive would be taken for the trace, without its first line.
        let format = if is_tar(input.buffered()) { None } else { detect(input.buffered()) };
        if format.is_none() && input.is_damaged() {
            unknown.get_or_insert_with(|| OpenError::Damaged { name: name.clone() });
            continue;
        }
        // Files of CPUs without events are empty.
        if input.buffered().is_empty() {
            continue;
        }
        found = found.or(format);
        if format.is_none() || format != found {
            let head = input.buffered()[..input.buffered().len().min(HEAD)].to_vec();
            unknown.get_or_insert_with(|| OpenError::UnknownFormat { name: name.clone(), head });
        }
    }
    // The start of one CPU's file may be damaged: its reader skips that.
    if let Some(error) = unknown.filter(|_| found != Some(TraceFormat::Blktrace)) {
        return Err(error);
    }
    let Some(format) = found else {
        return Err(OpenError::Empty {
            name: inputs.first().map(|(name, _)| name.clone()).unwrap_or_default(),
        });
    };
    let mut report = ReadReport::new(format);
    report.recorded = recorded;
    notes.into_iter().for_each(|note| report.note(note));
    report.files = inputs.iter().map(|(name, _)| name.clone()).collect();
    if lacks_cpus(&report.files) {
        report.note(MISSING_CPU_NOTE);
    }
    if inputs.iter().any(|(_, input)| input.buffered().is_empty()) {
        report.note(EMPTY_CPU_NOTE);
    }
    let inputs = inputs.into_iter().map(|(_, input)| input).collect();
    Ok(Reader::new((format.format().open)(inputs), report))
}

/// Takes the trace out of a web page or a mail, if it is in one, and buffers its start.
fn prepared(mut input: Input, notes: &mut Vec<&'static str>) -> io::Result<Input> {
    input.fill_to(LOOK_AT)?;
    let head = input.buffered();
    if page::has_trace(head) || page::is_page(head) && detect(head).is_none() {
        input = Input::layered(Page::new(input))?;
        notes.push(page::NOTE);
        input.fill_to(LOOK_AT)?;
    }
    if let Some(format) = mail::format_of(input.buffered()) {
        input = Input::layered(Mail::new(input, format))?;
        notes.push(mail::NOTE);
        input.fill_to(LOOK_AT)?;
    }
    Ok(input)
}

/// What is said of per-CPU files of which one with a lower number is not there.
const MISSING_CPU_NOTE: &str = "there is no file of some CPU with a lower number: unless that CPU was offline, its \
    events are missing, and I/O that began or ended on it is incomplete";

/// What is said of per-CPU files of which one is empty.
const EMPTY_CPU_NOTE: &str = "the file of some CPU is empty: unless nothing happened on that CPU, its events are \
    missing, and I/O that began or ended on it is incomplete";

/// Returns true if the files are those of CPUs, and one is missing before the last.
fn lacks_cpus(files: &[String]) -> bool {
    let last = files.last().and_then(|name| cpu_of(name));
    last.is_some_and(|(_, cpu)| cpu as usize >= files.len())
}

/// Part of the name that all per-CPU files have.
const PER_CPU: &str = ".blktrace.";
/// Extensions of compressed files.
const COMPRESSED: [&str; 3] = [".gz", ".zst", ".xz"];

/// Returns the files that a path stands for, in order of their CPUs.
fn files_of(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let base = match cpu_of(&name) {
        Some((base, _)) => base.to_owned(),
        None if path.exists() => return vec![path.to_owned()],
        None => name.strip_suffix(".blktrace").unwrap_or(&name).to_owned(),
    };
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((other, cpu)) = cpu_of(&name)
            && other == base
        {
            found.push((
                cpu,
                if path.parent() == Some(Path::new("")) { name.into() } else { entry.path() },
            ));
        }
    }
    found.sort();
    // The folder may contain a file both compressed and uncompressed.
    found.dedup_by_key(|(cpu, _)| *cpu);
    if found.is_empty() {
        vec![path.to_owned()]
    } else {
        found.into_iter().map(|(_, path)| path).collect()
    }
}

/// Returns `NAME` and 3 for `NAME.blktrace.3`, also with the extension of a compressed file.
fn cpu_of(name: &str) -> Option<(&str, u32)> {
    let name = COMPRESSED.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    let at = name.rfind(PER_CPU)?;
    let digits = &name[at + PER_CPU.len()..];
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { Some((&name[..at], digits.parse().ok()?)) } else { None }
}
