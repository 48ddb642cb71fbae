//! tracefs, and a trace instance of one's own in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::CaptureError;

/// How the names of our instances begin; the process's number follows.
const PREFIX: &str = "elevon-capture-";

/// Bytes that are asked for at once. Some files of tracefs give a text to the first read only, and
/// no more of it than is asked for, so that [`fs::read`] with its small first read would cut them.
const READ_AT_ONCE: usize = 1 << 16;

/// Reads a file of tracefs.
pub(super) fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let mut text = Vec::new();
    let mut buffer = vec![0; READ_AT_ONCE];
    loop {
        match io::Read::read(&mut file, &mut buffer) {
            Ok(0) => return Ok(text),
            Ok(count) => text.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Makes and removes the folder of an instance. The kernel fills a new one with files and takes
/// them away again; what stands in for the kernel in a test must do the same.
pub(super) trait Folders {
    fn make(&self, path: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// The real tracefs.
pub(super) struct Kernel;

impl Folders for Kernel {
    fn make(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }
}

/// A mounted tracefs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracefs {
    root: PathBuf,
}

impl Tracefs {
    /// tracefs at a path.
    pub const fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// tracefs where this machine has it mounted.
    ///
    /// # Errors
    /// [`CaptureError::NoTracefs`] if it is not.
    pub fn find() -> Result<Self, CaptureError> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        tracefs_of(&mounts).map(Self::at).ok_or(CaptureError::NoTracefs)
    }

    /// A file's path.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Refuses a place that is no tracefs with block events that this process may use.
    pub(super) fn check(&self) -> Result<(), CaptureError> {
        let events = self.path("events/block");
        match fs::read_dir(&events) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(CaptureError::Denied { path: self.root.clone(), source: error });
            }
            Err(_) if !self.path("events").is_dir() => {
                return Err(CaptureError::NotTracefs { path: self.root.clone() });
            }
            Err(_) => return Err(CaptureError::NoBlockEvents { path: events }),
        }
        if self.path("instances").is_dir() {
            Ok(())
        } else {
            Err(CaptureError::NoInstances { path: self.root.clone() })
        }
    }

    /// Removes instances of ours whose process is gone: killed before it could do so itself.
    /// Returns their names.
    pub(super) fn remove_leftovers(
        &self,
        folders: &dyn Folders,
        is_alive: &dyn Fn(u32) -> bool,
    ) -> Vec<String> {
        let mut removed = Vec::new();
        for entry in self.path("instances").read_dir().into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let process = name.strip_prefix(PREFIX).and_then(|number| number.parse().ok());
            if process.is_some_and(|process| !is_alive(process))
                && folders.remove(&entry.path()).is_ok()
            {
                removed.push(name);
            }
        }
        removed
    }
}

/// The place of tracefs in the text of `/proc/self/mounts`: where it is mounted itself, or below
/// debugfs.
pub fn tracefs_of(mounts: &str) -> Option<PathBuf> {
    let of_kind = |kind: &str| {
        let mut lines = mounts.lines().map(|line| line.split(' ').skip(1));
        lines.find_map(|mut words| {
            Some((words.next()?, words.next()?)).filter(|(_, found)| *found == kind)
        })
    };
    let own = of_kind("tracefs").map(|(place, _)| unescaped(place));
    own.or_else(|| of_kind("debugfs").map(|(place, _)| unescaped(place).join("tracing")))
}

/// A path in which `mounts` writes blanks and backslashes as `\040`.
fn unescaped(text: &str) -> PathBuf {
    let mut parts = text.split('\\');
    let mut path = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|octal| u8::from_str_radix(octal, 8).ok()).filter(u8::is_ascii)
        {
            Some(byte) => {
                path.push(char::from(byte));
                path.push_str(&part[3..]);
            }
            None => {
                path.push('\\');
                path.push_str(part);
            }
        }
    }
    path.into()
}

/// A trace instance, removed when it is dropped.
pub(super) struct Instance {
    path: PathBuf,
    folders: Box<dyn Folders + Send>,
    is_removed: bool,
}

impl Instance {
    pub(super) fn make(
        tracefs: &Tracefs,
        folders: Box<dyn Folders + Send>,
        process: u32,
    ) -> Result<Self, CaptureError> {
        let path = tracefs.path(&format!("instances/{PREFIX}{process}"));
        folders.make(&path).map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                CaptureError::Denied { path: path.clone(), source }
            }
            _ => CaptureError::Io { path: path.clone(), action: "make it", source },
        })?;
        Ok(Self { path, folders, is_removed: false })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.path
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Sets a file.
    pub(super) fn set(&self, name: &str, value: &str) -> Result<(), CaptureError> {
        let path = self.path(name);
        // Not `fs::write`: a file that is not there must not be made.
        let written = fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()));
        written.map_err(|source| CaptureError::Io { path, action: "write to it", source })
    }

    /// Reads a file; an empty text if it cannot be read.
    pub(super) fn get(&self, name: &str) -> String {
        let text = read_whole(&self.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Removes it. Whatever was opened in it must have been closed.
    pub(super) fn remove(mut self) -> Result<(), CaptureError> {
        self.is_removed = true;
        let failed =
            |source| CaptureError::Io { path: self.path.clone(), action: "remove it", source };
        self.folders.remove(&self.path).map_err(failed)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if !self.is_removed {
            let _ = self.set("tracing_on", "0");
            let _ = self.folders.remove(&self.path);
        }
    }
}
