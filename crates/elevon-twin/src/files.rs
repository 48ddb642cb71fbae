//! The files of a disk, and what came to each.

use std::collections::BTreeMap;

use elevon_core::op::Op;

use crate::history::Event;

/// A file and where it lies on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// Its path in the kernel.
    pub path: String,
    /// Parts of the disk in bytes: the first byte, and the one after the last.
    pub extents: Vec<(u64, u64)>,
}

/// What came to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    /// Its path in the kernel; `None` for what is in no file: the file system's own blocks, and
    /// files that are gone.
    pub path: Option<String>,
    /// Read commands, and bytes that they read.
    pub reads: (u64, u64),
    /// Write commands, and bytes that they wrote.
    pub writes: (u64, u64),
}

/// Reads what `filefrag -v` prints.
pub(crate) fn parse(text: &str) -> Vec<FilePlace> {
    let mut files: Vec<FilePlace> = Vec::new();
    let mut block = 0;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("File size of ") {
            // PATH is N (N blocks of N bytes)
            let Some((path, size)) = rest.rsplit_once(" is ") else { continue };
            let of = size.rsplit_once(" of ").and_then(|(_, bytes)| bytes.split_once(' '));
            block = of.and_then(|(bytes, _)| bytes.parse().ok()).unwrap_or(0);
            files.push(FilePlace { path: path.to_owned(), extents: Vec::new() });
        } else if let (Some(file), Some(extent)) = (files.last_mut(), parse_extent(line, block)) {
            file.extents.push(extent);
        }
    }
    files
}

/// Reads `NUMBER: LOGICAL.. LOGICAL: FIRST.. LAST: LENGTH: ...`; the unit is a block.
fn parse_extent(line: &str, block: u64) -> Option<(u64, u64)> {
    let mut fields = line.split(':');
    fields.next()?.trim().parse::<u64>().ok()?;
    let (first, last) = fields.nth(1)?.split_once("..")?;
    // An extent that the file system has not placed yet lies nowhere.
    let is_placed = !line.contains("delalloc") && !line.contains("unknown_loc");
    let number = |text: &str| text.trim().parse::<u64>().ok();
    is_placed.then_some((number(first)? * block, (number(last)? + 1) * block))
}

/// Returns what came to each file in these steps, by the bytes of both directions, the most first.
/// A command of two files counts for both.
pub fn rows(events: &[Event], files: &[FilePlace]) -> Vec<FileRow> {
    let mut places: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    for (index, file) in files.iter().enumerate() {
        places.extend(file.extents.iter().map(|&(start, end)| (start, (end, index))));
    }
    let mut rows: BTreeMap<Option<usize>, FileRow> = BTreeMap::new();
    let issued = events.iter().filter(|event| event.end.is_none());
    for command in issued.map(|event| event.command) {
        let (start, length) = (command.sector.byte_offset().get(), command.bytes.get());
        let is_read = command.op == Op::Read;
        if length == 0 || !(is_read || command.op == Op::Write) {
            continue;
        }
        for (file, bytes) in split(&places, start, start + length) {
            let path = file.map(|file| files[file].path.clone());
            let row =
                rows.entry(file).or_insert_with(|| FileRow { path, reads: (0, 0), writes: (0, 0) });
            let count = if is_read { &mut row.reads } else { &mut row.writes };
            *count = (count.0 + 1, count.1 + bytes);
        }
    }
    let mut rows: Vec<FileRow> = rows.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.reads.1 + row.writes.1));
    rows
}

/// Returns the files that lie in the bytes from `start` to `end` of the disk.
pub fn at(files: &[FilePlace], start: u64, end: u64) -> Vec<&str> {
    let is_there = |file: &&FilePlace| file.extents.iter().any(|e| e.0 < end && start < e.1);
    files.iter().filter(is_there).map(|file| file.path.as_str()).collect()
}

/// Returns the bytes of a part of the disk by file; `None` for what is in no file.
fn split(
    places: &BTreeMap<u64, (u64, usize)>,
    start: u64,
    end: u64,
) -> BTreeMap<Option<usize>, u64> {
    let mut parts = BTreeMap::new();
    let before = places.range(..start).next_back();
    let mut at = start;
    for (&first, &(last, file)) in before.into_iter().chain(places.range(start..end)) {
        let (first, last) = (first.max(at), last.min(end));
        if first >= last {
            continue;
        }
        if first > at {
            *parts.entry(None).or_insert(0) += first - at;
        }
        *parts.entry(Some(file)).or_insert(0) += last - first;
        at = last;
    }
    if at < end {
        *parts.entry(None).or_insert(0) += end - at;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILEFRAG: &str = "\
Filesystem type is: ef53
File size of /mnt/is it (a).db is 12288 (3 blocks of 4096 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..       1:         10..        11:      2:
   1:        2..       2:         20..        20:      1:         12: last,eof
/mnt/is it (a).db: 2 extents found
File size of /mnt/new is 1 (1 block of 4096 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..       0:          0..         0:      0:             last,unknown_loc,delalloc,eof
/mnt/new: 1 extent found
";

    #[test]
    fn the_places_of_files_are_read() {
        let places = |path: &str, extents: &[(u64, u64)]| FilePlace {
            path: path.into(),
            extents: extents.to_vec(),
        };
        let expected = [
            places("/mnt/is it (a).db", &[(40960, 49152), (81920, 86016)]),
            places("/mnt/new", &[]),
        ];
        assert_eq!(parse(FILEFRAG), expected);
        assert_eq!(parse("File size of\n 0: 1\n: : : x..y\n"), []);
    }

    #[test]
    fn a_command_is_split_at_the_borders_of_files() {
        let places = BTreeMap::from([(10, (20, 0)), (20, (30, 1)), (40, (50, 0))]);
        let parts = |start, end| split(&places, start, end).into_iter().collect::<Vec<_>>();
        assert_eq!(parts(0, 60), [(None, 30), (Some(0), 20), (Some(1), 10)]);
        assert_eq!(parts(15, 18), [(Some(0), 3)]);
        assert_eq!(parts(30, 40), [(None, 10)]);
    }
}
