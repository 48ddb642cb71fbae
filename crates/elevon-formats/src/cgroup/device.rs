//! The device that a line names.

use super::tokens::Token;
use super::{FileError, Refusal};

/// The device of the run, if its number is unknown: `elevon calibrate` prints it for a file or a
/// model.
pub(super) const PLACEHOLDER: &str = "MAJ:MIN";

/// Checks that a word names a whole device: `MAJ:MIN`, a path, or a name as in /sys/block.
pub(super) fn check(word: &Token<'_>) -> Result<(), FileError> {
    let text = word.text;
    if text == PLACEHOLDER {
        return Ok(());
    }
    if text.contains(':') && !text.starts_with('/') {
        let numbers =
            text.split_once(':').and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
        let Some((major, minor)) = numbers else {
            return Err(word.refused(Refusal::Invalid, "expected a device as MAJ:MIN, such as 8:0"));
        };
        if let Some(minors) = minors_per_disk(major)
            && minor % minors != 0
        {
            let disk = minor - minor % minors;
            let message = format!(
                "a partition has no limits of its own; write {major}:{disk} for the whole device"
            );
            return Err(word.refused(Refusal::NoDevice, message));
        }
        return Ok(());
    }
    let name = text.rsplit('/').next().unwrap_or_default();
    let is_bare_number = name == text && name.starts_with(|c: char| c.is_ascii_digit());
    if name.is_empty()
        || is_bare_number
        || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:+@".contains(&b))
    {
        return Err(
            word.refused(Refusal::Invalid, "expected a device as MAJ:MIN, a path or a name")
        );
    }
    match whole(name) {
        Some(disk) => {
            let disk = format!("{}{disk}", &text[..text.len() - name.len()]);
            let message =
                format!("a partition has no limits of its own; write {disk} for the whole device");
            Err(word.refused(Refusal::NoDevice, message))
        }
        None => Ok(()),
    }
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns the number of minors of one disk, for the majors of SCSI disks, for which the minor
/// tells disks and partitions apart.
const fn minors_per_disk(major: u32) -> Option<u32> {
    match major {
        8 | 65..=71 | 128..=135 => Some(16),
        _ => None,
    }
}

/// Returns the disk that a partition's name belongs to: `sda1`, `vdb2`, `nvme0n1p3`, `mmcblk0p1`.
fn whole(name: &str) -> Option<&str> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() == name.len() {
        return None;
    }
    let letters = |prefix: &str| {
        stem.strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_lowercase()))
    };
    if ["sd", "vd", "xvd", "hd"].into_iter().any(letters) {
        return Some(stem);
    }
    let disk = stem.strip_suffix('p')?;
    let is_numbered = disk.ends_with(|c: char| c.is_ascii_digit());
    (is_numbered
        && ["nvme", "mmcblk", "nbd", "loop"].into_iter().any(|prefix| disk.starts_with(prefix)))
    .then_some(disk)
}
