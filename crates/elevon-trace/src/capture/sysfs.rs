//! The disk to record, and its settings, as sysfs has them.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::event::DeviceNumber;
use crate::recorded::Recorded;

/// Folders of a disk in sysfs whose files are its settings.
const FOLDERS: [&str; 3] = ["queue", "queue/iosched", "mq"];
/// Bytes of a setting that are kept.
const MAX_VALUE: usize = 1024;

/// A disk to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The name that the kernel gives it, such as `sda`.
    pub name: String,
    /// Its numbers.
    pub device: DeviceNumber,
    /// The partition that was named, if one was: the kernel's events are of the disk.
    pub partition: Option<DeviceNumber>,
    folder: PathBuf,
}

/// Why a path names no disk.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// It does not exist, or may not be looked at.
    #[error("{}: {source}; name a block device, such as /dev/sda (lsblk lists them)", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is something else.
    #[error("{}: is no block device; name one, such as /dev/sda (lsblk lists them)", path.display())]
    NotABlockDevice {
        /// The path.
        path: PathBuf,
    },
    /// The kernel does not show it.
    #[error("{}: device {device} is not in {}; is sysfs mounted there?", path.display(), sysfs.display())]
    NotInSysfs {
        /// The path.
        path: PathBuf,
        /// Its numbers.
        device: DeviceNumber,
        /// Where sysfs was looked for.
        sysfs: PathBuf,
    },
}

impl Disk {
    /// The disk that a device node names, or that contains the partition that it names.
    ///
    /// # Errors
    /// A path that is no block device, or one that sysfs does not know.
    pub fn of_node(path: &Path, sysfs: &Path) -> Result<Self, DiskError> {
        let missing = |source| DiskError::Missing { path: path.to_owned(), source };
        let node = fs::metadata(path).map_err(missing)?;
        if !node.file_type().is_block_device() {
            return Err(DiskError::NotABlockDevice { path: path.to_owned() });
        }
        let device = DeviceNumber::from_user(node.rdev());
        let lost =
            || DiskError::NotInSysfs { path: path.to_owned(), device, sysfs: sysfs.to_owned() };
        Self::of_device(device, sysfs).ok_or_else(lost)
    }

    /// The disk of a number, or the one that contains the partition of that number.
    pub fn of_device(device: DeviceNumber, sysfs: &Path) -> Option<Self> {
        let link = sysfs.join(format!("dev/block/{device}"));
        let mut folder = fs::canonicalize(link).ok()?;
        let is_partition = folder.join("partition").exists();
        if is_partition {
            folder.pop();
        }
        let disk: DeviceNumber = read(&folder.join("dev"))?.parse().ok()?;
        let name = folder.file_name()?.to_string_lossy().into_owned();
        Some(Self { name, device: disk, partition: is_partition.then_some(device), folder })
    }

    /// Notes what sysfs says of it: `name`, `model`, `sectors`, and every file of `queue`, its
    /// scheduler's tunables and its hardware queues. Files that cannot be read are left out.
    pub fn note_settings(&self, recorded: &mut Recorded) {
        recorded.note("device", &self.device.to_string());
        recorded.note("name", &self.name);
        for (key, file) in [("model", "device/model"), ("sectors", "size")] {
            if let Some(value) = read(&self.folder.join(file)).filter(|value| !value.is_empty()) {
                recorded.note(key, &value);
            }
        }
        for folder in FOLDERS {
            for key in files_below(&self.folder, folder) {
                if let Some(value) = read(&self.folder.join(&key)) {
                    recorded.note(&key, &value);
                }
            }
        }
    }
}

/// The files of a folder, and for `mq` those of its folders: hardware queues. Sorted by name,
/// numbers by value.
fn files_below(root: &Path, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in root.join(folder).read_dir().into_iter().flatten().flatten() {
        let key = format!("{folder}/{}", entry.file_name().to_string_lossy());
        match entry.file_type() {
            Ok(kind) if kind.is_file() => found.push(key),
            Ok(kind) if kind.is_dir() && folder == "mq" => {
                let inside = entry.path().read_dir().into_iter().flatten().flatten();
                let files =
                    inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
                found.extend(
                    files.map(|entry| format!("{key}/{}", entry.file_name().to_string_lossy())),
                );
            }
            _ => {}
        }
    }
    found.sort_by_key(|key| (queue_of(key), key.clone()));
    found
}

/// The number of a hardware queue in `mq/3/nr_tags`.
fn queue_of(key: &str) -> Option<u32> {
    key.strip_prefix("mq/")?.split('/').next()?.parse().ok()
}

/// A file's text without the blanks around it.
fn read(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_VALUE)]).trim().to_owned();
    Some(text)
}
