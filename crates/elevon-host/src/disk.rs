//! The disk of a path, by its kernel name.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Returns the name of the disk that contains a block device, or the file system of a file: `sda`
/// for `/dev/sda1` and for a file on it. `None` if there is no single disk: a file on tmpfs, on a
/// network, or on a file system of several devices.
///
/// Only links of sysfs are read; the disk is not opened.
pub fn disk_of(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    let device = if meta.file_type().is_block_device() { meta.rdev() } else { meta.dev() };
    let link = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    let folder = std::fs::canonicalize(link).ok()?;
    // The directory of a partition is below that of its disk.
    let is_partition = folder.join("partition").exists();
    let disk = if is_partition { folder.parent()? } else { &folder };
    Some(disk.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_memory_lies_on_no_disk() {
        assert_eq!(disk_of(Path::new("/proc/self/stat")), None);
        assert_eq!(disk_of(Path::new("/no/such/file")), None);
    }
}
