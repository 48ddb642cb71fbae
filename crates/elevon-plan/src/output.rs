//! Writes the files of a command, completely or not at all.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::{Failure, FileError, MachineError};

/// Mode of a new file before the umask is applied.
const NEW_FILE: u32 = 0o666;

/// Maximum length of a chain of symbolic links, as in the kernel.
const MAX_LINKS: usize = 40;

/// The name that stands for a standard stream where a file is read, and is refused where one is
/// written.
const STANDARD_STREAM: &str = "-";

/// A file that is written at the end of a run. It is opened before the run, so that a run does not
/// start if its report cannot be written. Until [`Self::commit`] it is a hidden file in the same
/// folder; if this is dropped, that file is removed.
///
/// What exists and is not a regular file (a pipe, a terminal, `/dev/stdout`) is written in place. A
/// symbolic link is kept, and a file that is replaced passes its mode and owner to the new one.
#[derive(Debug)]
pub struct NewFile {
    name: String,
    to: Destination,
}

#[derive(Debug)]
enum Destination {
    There(File),
    Beside { part: NamedTempFile, target: PathBuf },
}

// Writes go to the file in `part`, because errors of `part` itself name its hidden path.
impl Write for NewFile {
    /// Writes a part of the content. [`NewFile::commit`] gives the file its name.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            Destination::There(file) => file.write(bytes),
            Destination::Beside { part, .. } => part.as_file_mut().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            Destination::There(file) => file.flush(),
            Destination::Beside { part, .. } => part.as_file_mut().flush(),
        }
    }
}

impl NewFile {
    /// Returns the failure for an error while writing. `option` may be empty.
    pub fn failure(option: &str, path: &Path, error: io::Error) -> Failure {
        let output = format!("{option} {}", path.display()).trim_start().to_owned();
        MachineError::Write { output, error }.into()
    }

    /// Opens the file. `option` is the option that names it, for messages.
    ///
    /// # Errors
    /// The path cannot be written, or it is no place for a file.
    pub fn create(option: &str, path: &Path) -> Result<Self, Failure> {
        let name = format!("{option} {}", path.display()).trim_start().to_owned();
        let fail = |error| Failure::named(&name, FileError::CannotWrite(error));
        if path == Path::new(STANDARD_STREAM) {
            return Err(Failure::named(name, FileError::Dash));
        }
        if let Ok(metadata) = fs::metadata(path) {
            if metadata.is_dir() {
                return Err(Failure::named(name, FileError::Directory));
            }
            if metadata.file_type().is_block_device() {
                return Err(Failure::named(name, FileError::BlockDevice));
            }
            let file = File::options().write(true).open(path).map_err(fail)?;
            if !metadata.is_file() {
                return Ok(Self { name, to: Destination::There(file) });
            }
        }
        let target = target_of(path).map_err(fail)?;
        let part = part_of(&target).map_err(fail)?;
        Ok(Self { name, to: Destination::Beside { part, target } })
    }

    /// Writes the content and gives the file its name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn commit(self, content: &[u8]) -> Result<(), Failure> {
        let Self { name, to } = self;
        let written = match to {
            Destination::There(mut file) => file.write_all(content),
            Destination::Beside { mut part, target } => {
                part.as_file_mut().write_all(content).and_then(|()| {
                    durable(part.as_file())?;
                    part.persist(&target).map_err(|error| error.error)?;
                    durable_name(&target)
                })
            }
        };
        written.map_err(|error| MachineError::Write { output: name, error }.into())
    }
}

/// Moves a file to its place, with the mode of the file that it replaces. What it holds is durable
/// before it has the name, and the name before this returns: a power cut leaves the old file or the
/// new one, and never an empty one.
///
/// # Errors
/// As of the system.
pub fn replace(from: &Path, target: &Path) -> io::Result<()> {
    durable(&File::open(from)?)?;
    if let Ok(old) = fs::metadata(target) {
        inherit(from, &old)?;
    }
    fs::rename(from, target)?;
    durable_name(target)
}

/// Makes the name of a file durable. A folder that may be written and not read cannot be asked.
fn durable_name(file: &Path) -> io::Result<()> {
    File::open(folder_of(file)).map_or(Ok(()), |folder| durable(&folder))
}

/// Makes a file or a folder durable, if its file system can.
fn durable(file: &File) -> io::Result<()> {
    match file.sync_all() {
        // Some file systems have no fsync, of a folder above all.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        done => done,
    }
}

/// Creates a hidden file beside `target`, with its mode and owner if `target` exists.
fn part_of(target: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    let prefix = hidden(target);
    builder.prefix(&prefix).suffix(".part").permissions(Permissions::from_mode(NEW_FILE));
    let part = builder.tempfile_in(folder_of(target)).map_err(without_path)?;
    if let Ok(old) = fs::metadata(target) {
        inherit(part.path(), &old)?;
    }
    Ok(part)
}

/// Leaves the hidden name out of what is said about it: the user knows the file by another.
pub fn without_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    io::Error::new(error.kind(), text.split(" at path ").next().unwrap_or_default().to_owned())
}

/// Gives a file the mode of the file that it will replace and, if this process is allowed to, its
/// owner.
fn inherit(file: &Path, old: &fs::Metadata) -> io::Result<()> {
    // Only root may change the owner. For any other user, both files most likely have the same
    // owner already.
    let _ = std::os::unix::fs::chown(file, Some(old.uid()), Some(old.gid()));
    fs::set_permissions(file, old.permissions())
}

/// Returns the path to which a path's symbolic links lead, whether it exists or not.
///
/// # Errors
/// A link leads to itself.
pub fn target_of(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&target) {
            Ok(to) => target = folder_of(&target).join(to),
            Err(_) => return Ok(target),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Returns the prefix of the name of a hidden file beside `path`, which is used until the file is
/// complete.
pub fn hidden(path: &Path) -> OsString {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    name
}

/// Returns the folder of a path.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|e| e.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("page.html");
        fs::write(&path, "old").expect("written");
        let file = NewFile::create("--html", &path).expect("a place to write");
        assert_eq!(fs::read(&path).expect("the old one"), b"old");
        assert!(
            names(folder.path())
                .iter()
                .all(|name| name == "page.html" || name.starts_with(".page.html."))
        );
        file.commit(b"new").expect("written");
        assert_eq!(
            (fs::read(&path).expect("the new one"), names(folder.path())),
            (b"new".to_vec(), vec!["page.html".into()])
        );
        drop(NewFile::create("--html", &folder.path().join("other")).expect("a place to write"));
        assert_eq!(names(folder.path()), ["page.html"], "a file never committed leaves nothing");
    }

    #[test]
    fn a_link_stays_and_a_device_is_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).expect("a folder");
        fs::write(at("file"), "old").expect("written");
        symlink("file", at("link")).expect("a link");
        symlink("sub/new", at("dangling")).expect("a link");
        for (link, target) in [("link", "file"), ("dangling", "sub/new")] {
            NewFile::create("", &at(link)).and_then(|f| f.commit(b"new")).expect("written");
            assert!(at(link).is_symlink(), "{link}");
            assert_eq!(fs::read(at(target)).expect("its target"), b"new", "{link}");
        }
        symlink("round", at("round")).expect("a link");
        let error = NewFile::create("", &at("round")).expect_err("a link to itself");
        assert!(error.to_string().contains("symbolic links"), "{error}");
        symlink("/dev/null", at("null")).expect("a link");
        NewFile::create("", &at("null")).and_then(|f| f.commit(b"gone")).expect("written");
        assert_eq!(fs::read(Path::new("/dev/null")).expect("still the device"), b"");
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_mode() {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        let (old, plain, new) =
            (folder.path().join("old"), folder.path().join("plain"), folder.path().join("new"));
        fs::write(&old, "secret").expect("written");
        fs::set_permissions(&old, Permissions::from_mode(0o600)).expect("its owner");
        fs::write(&plain, "").expect("written");
        for path in [&old, &new] {
            NewFile::create("", path).and_then(|f| f.commit(b"new")).expect("written");
        }
        assert_eq!(
            (mode(&old), mode(&new)),
            (0o600, mode(&plain)),
            "a new one has what the umask leaves"
        );
    }
}
