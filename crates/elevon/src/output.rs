//! Files that a command writes beside its report: whole, or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A file that will be written when a run is over. It is opened before the run starts, so that nobody waits for a run
/// whose page cannot be kept; until [`Self::commit`] it stands beside its final name, and it goes away when it is dropped.
///
/// What exists and is no regular file (a pipe, a terminal, `/dev/stdout`) is written in place.
#[derive(Debug)]
pub(crate) struct NewFile {
    name: String,
    file: File,
    /// The temporary name and the final one.
    part: Option<(PathBuf, PathBuf)>,
}

impl NewFile {
    /// Opens it. `option` is what named it, for messages.
    pub(crate) fn create(option: &str, path: &Path) -> Result<Self, Failure> {
        let name = format!("{option} {}", path.display()).trim_start().to_owned();
        let fail = |error: io::Error| Failure::input(format!("{name}: cannot write there: {error}"));
        if path.is_dir() {
            return Err(Failure::input(format!("{name}: is a directory; name a file")));
        }
        // A symbolic link stays one: what it points to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if target.exists() && !target.is_file() {
            let file = File::options().write(true).open(&target).map_err(fail)?;
            return Ok(Self { name, file, part: None });
        }
        let part = beside(&target);
        let file = File::create(&part).map_err(fail)?;
        Ok(Self { name, file, part: Some((part, target)) })
    }

    /// Writes the content and gives the file its name.
    pub(crate) fn commit(mut self, content: &[u8]) -> Result<(), Failure> {
        self.write(content).map_err(|error| Failure::Machine(format!("{}: cannot write: {error}", self.name)))
    }

    fn write(&mut self, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)?;
        if let Some((part, target)) = &self.part {
            fs::rename(part, target)?;
            self.part = None;
        }
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some((part, _)) = &self.part {
            // Nobody can be told any more; what would be left names this process and says that it is a part.
            let _ = fs::remove_file(part);
        }
    }
}

/// The temporary name of a file: beside it, for a rename to be one step.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".part-{}", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
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
        file.commit(b"new").expect("written");
        assert_eq!(
            (fs::read(&path).expect("the new one"), names(folder.path())),
            (b"new".to_vec(), vec!["page.html".into()])
        );
        drop(NewFile::create("--html", &folder.path().join("other")).expect("a place to write"));
        assert_eq!(names(folder.path()), ["page.html"], "a file never committed leaves nothing");
    }

    #[test]
    #[cfg(unix)]
    fn a_link_stays_and_a_device_is_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let (link, file) = (folder.path().join("link"), folder.path().join("file"));
        fs::write(&file, "old").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        NewFile::create("", &link).and_then(|f| f.commit(b"new")).expect("written");
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).expect("its target"), b"new");
        let null = folder.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &null).expect("a link");
        NewFile::create("", &null).and_then(|f| f.commit(b"gone")).expect("written");
        assert_eq!(fs::read(Path::new("/dev/null")).expect("still the device"), b"");
    }
}
