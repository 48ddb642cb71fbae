//! What a job file may read from its environment. The parser itself reads nothing, so a test, a
//! fuzzer or a server can provide its own environment.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// Bytes of the files that a pattern names, by those names; `Err` says why one cannot be read.
pub(crate) type PatternFiles = BTreeMap<String, Result<Vec<u8>, String>>;

/// The numbers that `$pagesize`, `$mb_memory` and `$ncpus` are replaced by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Bytes in a page of memory.
    pub page_size: u64,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// CPUs online.
    pub cpus: u64,
}

/// What a job file read of its environment: the value of each `${NAME}`, `$pagesize`, `$mb_memory`
/// and `$ncpus`, by its name as written; `None` is a variable that is not set.
pub type Environment = BTreeMap<String, Option<String>>;

/// The reason why a text cannot be read, in a few words without its name.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There is no file of that name.
    #[error("No such file or directory")]
    NotFound,
    /// Opening or reading it failed.
    #[error("{0}")]
    Io(#[source] std::io::Error),
    /// It is larger than 16 MiB, or endless.
    #[error("larger than {} MiB", LARGEST_TEXT >> 20)]
    TooLarge,
    /// It is not UTF-8.
    #[error("not UTF-8 text")]
    NotText,
    /// It is no file that holds a text.
    #[error("{0}, not a regular file")]
    NotRegular(&'static str),
    /// Stdin was named a second time.
    #[error("stdin can be read once only")]
    ReadTwice,
    /// It lies outside the folders from which a job file may include.
    #[error("not below {}, the job file's folder; --include-dir names another", .folder.display())]
    Outside {
        /// The job file's folder.
        folder: PathBuf,
    },
}

impl From<std::io::Error> for SourceError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::NotFound,
            _ => Self::Io(error),
        }
    }
}

/// Files and environment of a job file.
pub trait JobSource {
    /// Returns the text of a job file or of a file that it includes.
    ///
    /// # Errors
    /// The reason why it cannot be read, in a few words ("No such file or directory").
    fn read(&mut self, name: &str) -> Result<String, SourceError>;
    /// Returns the text of a file that `include` names. `job_file` is the file that the command
    /// line names.
    ///
    /// # Errors
    /// The reason why it cannot be read, in a few words. A file outside the folders that may be
    /// included from is not opened.
    fn read_included(&mut self, path: &str, job_file: &str) -> Result<String, SourceError>;
    /// Returns the bytes of a file that a pattern names, under the same rules.
    ///
    /// # Errors
    /// As of [`read_included`](Self::read_included); it need not be text.
    fn read_pattern(&mut self, path: &str, job_file: &str) -> Result<Vec<u8>, SourceError>;
    /// Returns the environment variable `name`, for `${name}`; an unset variable expands to
    /// nothing.
    fn variable(&self, name: &str) -> Option<String>;
    /// Returns the machine, for `$pagesize`, `$mb_memory` and `$ncpus`.
    fn machine(&self) -> Machine;
}

/// An environment in memory.
#[derive(Clone, Debug)]
pub struct MemorySource {
    /// Text by file name.
    pub files: BTreeMap<String, String>,
    /// Value by variable.
    pub variables: BTreeMap<String, String>,
    /// The machine: 4096-byte pages, 16 GiB and 8 CPUs unless changed.
    pub machine: Machine,
}

impl MemorySource {
    /// Returns an environment with one file.
    pub fn one(name: &str, text: &str) -> Self {
        Self {
            files: BTreeMap::from([(name.to_owned(), text.to_owned())]),
            variables: BTreeMap::new(),
            machine: Machine { page_size: 4096, memory_mb: 16384, cpus: 8 },
        }
    }
}

impl JobSource for MemorySource {
    fn read(&mut self, name: &str) -> Result<String, SourceError> {
        self.files.get(name).cloned().ok_or(SourceError::NotFound)
    }
    fn read_included(&mut self, path: &str, job_file: &str) -> Result<String, SourceError> {
        if !is_below(Path::new(path), folder_of(job_file), Path::new("/")) {
            return Err(outside(folder_of(job_file)));
        }
        self.read(path)
    }
    fn read_pattern(&mut self, path: &str, job_file: &str) -> Result<Vec<u8>, SourceError> {
        self.read_included(path, job_file).map(String::into_bytes)
    }
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }
    fn machine(&self) -> Machine {
        self.machine
    }
}

/// The maximum size of a job file, in bytes.
const LARGEST_TEXT: u64 = 16 << 20;

/// Reads a text that a person wrote: UTF-8, and not larger than 16 MiB.
///
/// # Errors
/// The reason why it cannot be read, in a few words.
pub fn read_text(from: impl Read) -> Result<String, SourceError> {
    String::from_utf8(read_bytes(from)?).map_err(|_| SourceError::NotText)
}

fn read_bytes(from: impl Read) -> Result<Vec<u8>, SourceError> {
    let mut bytes = Vec::new();
    from.take(LARGEST_TEXT + 1).read_to_end(&mut bytes).map_err(SourceError::Io)?;
    if bytes.len() as u64 > LARGEST_TEXT { Err(SourceError::TooLarge) } else { Ok(bytes) }
}

/// Reads a file that a user names as [`read_text`] does. Besides a regular file it may be a pipe of
/// the shell, `<(COMMAND)`, or a terminal.
///
/// # Errors
/// The reason why it cannot be read, in a few words ("No such file or directory"). A named pipe is
/// refused, because reading it may wait for ever for a writer.
pub fn read_text_file(path: &Path) -> Result<String, SourceError> {
    // Without O_NONBLOCK, opening a named pipe waits for its writer.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match irregular(&file)? {
        None => read_text(file),
        // A pipe of the shell has no name in the file system.
        Some(PIPE) if fs::canonicalize(path).is_ok() => Err(SourceError::NotRegular(PIPE)),
        Some(what @ (PIPE | TERMINAL)) => {
            // The same file, but reading it waits for what comes.
            let waiting = File::open(own_path(&file)).map_err(|_| SourceError::NotRegular(what))?;
            read_text(waiting)
        }
        Some(what) => Err(SourceError::NotRegular(what)),
    }
}

/// What [`irregular`] calls a pipe.
const PIPE: &str = "a pipe";
/// What [`irregular`] calls a terminal and the like.
const TERMINAL: &str = "a character device";

/// Returns what an open file is if it is neither regular nor a folder, of which reading says so.
fn irregular(file: &File) -> Result<Option<&'static str>, SourceError> {
    let kind = file.metadata()?.file_type();
    Ok(match kind {
        _ if kind.is_file() || kind.is_dir() => None,
        _ if kind.is_fifo() => Some(PIPE),
        _ if kind.is_block_device() => Some("a block device"),
        _ if kind.is_char_device() => Some(TERMINAL),
        _ => Some("a socket"),
    })
}

/// Returns the path by which this process can open a file that it has open again, whatever happened
/// to the file's name.
fn own_path(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// The host's environment: its files, and the variables of the process.
#[derive(Clone, Debug, Default)]
pub struct HostSource {
    /// The folder from which job files may include, besides their own.
    pub include_folder: Option<PathBuf>,
}

impl HostSource {
    /// Opens a file that a job file names. What is checked is what is opened: nothing that happens
    /// to the path meanwhile leads elsewhere.
    fn open_permitted(&self, path: &str, job_file: &str) -> Result<File, SourceError> {
        let own = folder_of(job_file);
        let folders: Vec<&Path> =
            [Some(own), self.include_folder.as_deref()].into_iter().flatten().collect();
        let base = std::env::current_dir()?;
        if !folders.iter().any(|folder| is_below(Path::new(path), folder, &base)) {
            return Err(outside(own));
        }
        // O_PATH finds a file without opening it: no pipe waits, and no device notices.
        let found = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
        // The target of a symbolic link decides, not its name.
        let real = fs::read_link(own_path(&found))?;
        let real_folders = folders.iter().filter_map(|folder| fs::canonicalize(folder).ok());
        if !real_folders.into_iter().any(|folder| real.starts_with(folder)) {
            return Err(outside(own));
        }
        match irregular(&found)? {
            None => Ok(File::open(own_path(&found))?),
            Some(what) => Err(SourceError::NotRegular(what)),
        }
    }
}

/// Returns the folder of a file, `.` for a plain name.
fn folder_of(file: &str) -> &Path {
    match Path::new(file).parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Returns true if `path`, as text, does not lead out of `folder`. Relative paths start at `base`.
/// Symbolic links are not followed.
fn is_below(path: &Path, folder: &Path, base: &Path) -> bool {
    plain(&base.join(path)).starts_with(plain(&base.join(folder)))
}

/// Returns an absolute path without `.` and `..`; the parent of the root is the root.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            _ => out.push(part),
        }
    }
    out
}

fn outside(folder: &Path) -> SourceError {
    SourceError::Outside { folder: folder.to_owned() }
}

impl JobSource for HostSource {
    fn read(&mut self, name: &str) -> Result<String, SourceError> {
        read_text_file(Path::new(name))
    }
    fn read_included(&mut self, path: &str, job_file: &str) -> Result<String, SourceError> {
        read_text(self.open_permitted(path, job_file)?)
    }
    fn read_pattern(&mut self, path: &str, job_file: &str) -> Result<Vec<u8>, SourceError> {
        read_bytes(self.open_permitted(path, job_file)?)
    }
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
    fn machine(&self) -> Machine {
        let memory_kb = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
            text.lines().find_map(|line| {
                line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok()
            })
        });
        let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        Machine { page_size: 4096, memory_mb: memory_kb.unwrap_or(0u64) / 1024, cpus }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::parse_all;

    #[test]
    fn what_is_read_of_the_environment_is_kept() {
        let mut source = MemorySource::one(
            "j",
            "[a]\nbs=${A}4k\nsize=8*$mb_memory\niodepth=$ncpus\ndescription=${B} $HOME",
        );
        source.variables.insert("B".into(), "b".into());
        let jobs = parse_all(&mut source, &["j"]).expect("a job");
        let read = jobs.environment.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
        let expected = [
            ("$mb_memory", Some("16384")),
            ("$ncpus", Some("8")),
            ("${A}", None),
            ("${B}", Some("b")),
        ];
        assert_eq!(read.collect::<Vec<_>>(), expected);
    }

    /// A folder with a job file, a pipe and links.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("jobs")).expect("a folder");
        fs::write(at("jobs/options"), "bs=8k\n").expect("written");
        fs::write(at("outside"), "bs=8k\n").expect("written");
        for (name, target) in
            [("link", "options"), ("out", "../outside"), ("null", "/dev/null"), ("gone", "nothing")]
        {
            std::os::unix::fs::symlink(target, at("jobs").join(name)).expect("a link");
        }
        let made = std::process::Command::new("mkfifo").arg(at("jobs/pipe")).status();
        assert!(made.expect("mkfifo ran").success());
        folder
    }

    #[test]
    fn only_a_regular_file_below_the_folder_is_included() {
        let folder = folder();
        let job_file = folder.path().join("jobs/job.fio");
        let (job_file, mut source) = (job_file.to_str().expect("UTF-8"), HostSource::default());
        let mut said = |name: &str| {
            let path = folder.path().join("jobs").join(name);
            let path = path.to_str().expect("UTF-8");
            let text = source.read_included(path, job_file).map_err(|error| error.to_string());
            let bytes = source.read_pattern(path, job_file).map_err(|error| error.to_string());
            assert_eq!(text.clone().map(String::into_bytes), bytes, "{name}");
            text.unwrap_or_else(|error| error)
        };
        assert_eq!(
            (said("options"), said("link"), said("../jobs/options")),
            ("bs=8k\n".into(), "bs=8k\n".into(), "bs=8k\n".into())
        );
        assert_eq!(
            said("pipe"),
            "a pipe, not a regular file",
            "nobody writes it, and nothing waits"
        );
        assert_eq!(said("gone"), "No such file or directory");
        for outside in ["out", "null", "../outside"] {
            assert!(said(outside).starts_with("not below "), "{outside}: {}", said(outside));
        }
        assert!(said(".").contains("directory"), "{}", said("."));
    }

    #[test]
    fn a_file_that_a_user_names_may_be_a_pipe_of_the_shell_but_has_no_name_for_it() {
        let folder = folder();
        let at = |name: &str| folder.path().join("jobs").join(name);
        assert_eq!(read_text_file(&at("link")).expect("a text"), "bs=8k\n");
        let error = read_text_file(&at("pipe")).expect_err("nobody writes it, and nothing waits");
        assert_eq!(error.to_string(), "a pipe, not a regular file");
        assert_eq!(read_text_file(Path::new("/dev/null")).expect("an empty text"), "");
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let thread = std::thread::spawn(move || {
            let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
            let text = read_text_file(Path::new(&path));
            (reader, text)
        });
        // The reader waits for what comes, and for the end.
        std::io::Write::write_all(&mut writer, b"[a]\n").expect("a reader");
        drop(writer);
        assert_eq!(thread.join().expect("it ended").1.expect("a text"), "[a]\n");
    }

    #[test]
    fn a_path_below_a_folder_does_not_lead_out_of_it() {
        let below = |path: &str, folder: &str| {
            is_below(Path::new(path), Path::new(folder), Path::new("/home/me"))
        };
        for (path, folder) in [
            ("a.fio", "."),
            ("./sub/../a.fio", "."),
            ("jobs/a", "./jobs"),
            ("../x/a", "../x"),
            ("/a/b", "/a"),
            ("/home/me/a", "."),
            ("../../opt/a", "/opt"),
        ] {
            assert!(below(path, folder), "{path} in {folder}");
        }
        for (path, folder) in [
            ("../a.fio", "."),
            ("/etc/passwd", "."),
            ("jobs/../a", "jobs"),
            ("sub/../../a", "."),
            ("../../a", ".."),
            ("/ab", "/a"),
        ] {
            assert!(!below(path, folder), "{path} in {folder}");
        }
    }
}
