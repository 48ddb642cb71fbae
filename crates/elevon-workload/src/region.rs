//! The places of jobs' files on the device.
//!
//! fio works on files. Here there is one device, so every file becomes a region of it:
//!
//! - A `filename=` that is the device given on the command line, or any path under `/dev/` but
//!   `/dev/shm/`, whose files are in memory, is the whole device. Several such names in one job
//!   (`/dev/sda:/dev/sdb`) are equal, consecutive parts of it.
//! - Any other file gets a region as large as its jobs need (`filesize`, or `offset` + `size` over
//!   the number of files), in order of first mention, one after the other from the start, each
//!   aligned to 1 MiB. Files of the same name are the same region; files in two directories
//!   (`directory=`) are two. Without `filename=` every clone has its own files, as in fio
//!   (`job.clone.file`).
//! - A file that no longer fits after the others starts again at 0; regions then overlap, and all
//!   of them lie on the device. A file larger than the device is an error.
//! - A job without any size has the whole device, or, with several files, equal parts of it; with
//!   `fill_device` its files have what other files leave at the end of the device.

use std::collections::BTreeMap;

use elevon_core::units::{Bytes, DeviceOffset};
use elevon_formats::fio::Problem;
use elevon_formats::fio::spec::{Amount, BlockSizes, Distribution, JobSpec};

use crate::WorkloadError;
use crate::chance::{Purpose, Rng};

/// Files start at multiples of this number of bytes.
const FILE_ALIGN: u64 = 1 << 20;

/// A range of the device that one file of a process uses, in bytes from the device's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub start: DeviceOffset,
    /// Bytes.
    pub len: Bytes,
}

/// A file, or the device itself, as a place on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobFile {
    /// The place of the file. Another job may use the same file with another length. The start is
    /// then the same, unless the greater length does not fit there.
    pub place: Region,
    /// It is the device, or a part of it, not a file.
    pub is_device: bool,
}

/// The regions of a process, and the number of bytes that it moves in one loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// One region for each file.
    pub regions: Vec<Region>,
    /// The files that the regions are parts of.
    pub files: Vec<JobFile>,
    /// `io_size`, or the bytes of all regions: of each its whole blocks if a pass visits them
    /// once.
    pub bytes: Bytes,
}

/// Returns true if the file of a job is a block device by its name, or because the job has no size.
pub fn uses_device(spec: &JobSpec) -> bool {
    let sized = spec.space.size.is_some() || spec.files.size.is_some();
    let names = &spec.files.names;
    !(sized || spec.space.fill_device)
        || !names.is_empty() && names.iter().all(|name| is_device_name(name))
}

fn is_device_name(name: &str) -> bool {
    name.starts_with("/dev/") && !name.starts_with("/dev/shm/")
}

/// Assigns regions of a device; one for all jobs of a run.
#[derive(Clone, Debug)]
pub struct Placement {
    device_bytes: Bytes,
    device_path: Option<String>,
    logical_block: u64,
    cached: bool,
    next: DeviceOffset,
    files: BTreeMap<String, Region>,
}

/// Returns the smallest size of one direction.
pub(crate) fn smallest(sizes: &BlockSizes) -> u64 {
    match sizes {
        BlockSizes::Range(min, _) => *min,
        BlockSizes::Split(parts) => parts.iter().map(|p| p.0).min().unwrap_or(0),
    }
}

/// Returns the largest size of one direction.
pub(crate) fn largest(sizes: &BlockSizes) -> u64 {
    match sizes {
        BlockSizes::Range(_, max) => *max,
        BlockSizes::Split(parts) => parts.iter().map(|p| p.0).max().unwrap_or(0),
    }
}

/// Returns the directions that a job uses.
pub(crate) fn directions(spec: &JobSpec) -> [bool; 3] {
    [spec.rw.read, spec.rw.write, spec.rw.trim]
}

/// Returns which of the block sizes a job uses: by direction, or, with `bs_is_seq_rand`, those of
/// sequential and of random I/Os.
fn sizes_used(spec: &JobSpec) -> [bool; 3] {
    if spec.blocks.by_order { [true, true, false] } else { directions(spec) }
}

/// Returns the smallest block that the job uses, in bytes.
pub(crate) fn smallest_block(spec: &JobSpec) -> u64 {
    let used = sizes_used(spec);
    (0..3)
        .filter(|&d| used[d])
        .map(|d| smallest(&spec.blocks.sizes[d]))
        .min()
        .unwrap_or(4096)
        .max(1)
}

/// Returns the largest block that the job uses, in bytes.
pub fn largest_block(spec: &JobSpec) -> u64 {
    let used = sizes_used(spec);
    (0..3).filter(|&d| used[d]).map(|d| largest(&spec.blocks.sizes[d])).max().unwrap_or(4096)
}

/// Returns the alignment of random offsets (`ba`); 0 if the job has none.
fn align_used(spec: &JobSpec) -> u64 {
    (0..3)
        .filter(|&d| spec.rw.random && directions(spec)[d])
        .map(|d| spec.blocks.align[d])
        .find(|&a| a > 0)
        .unwrap_or(0)
}

/// Returns the directory of a clone's files. If there are several, separated by colons, clones
/// whose files have generated names use them in turn; files named by `filename=` are in the first.
fn directory_of(spec: &JobSpec, clone: u32) -> Option<&str> {
    let all: Vec<&str> =
        spec.files.directory.as_deref()?.split(':').filter(|one| !one.is_empty()).collect();
    let at = if spec.files.names.is_empty() { clone as usize % all.len().max(1) } else { 0 };
    all.get(at).map(|one| one.trim_end_matches('/'))
}

/// Returns true if a pass ends when each block of the files was visited: in random I/O with the
/// map, and in sequential I/O of one direction. Other jobs go on until they have moved their size.
fn visits_blocks_once(spec: &JobSpec) -> bool {
    let used = directions(spec);
    let is_mapped =
        |d: usize| spec.random.distribution[d] == Distribution::Random && spec.blocks.align[d] == 0;
    match spec.rw.random {
        true => !spec.random.norandommap && (0..3).filter(|&d| used[d]).all(is_mapped),
        // A trim and the write after it are of one block.
        false => spec.rw.trim_then_write || used.into_iter().filter(|&used| used).count() == 1,
    }
}

/// Returns the bytes that a job moves in a loop. What a file has beyond its last whole block does
/// not count if blocks are visited once; otherwise the I/O that reaches the size is done whole. As
/// measured with fio 3.33.
fn loop_bytes(spec: &JobSpec, regions: &[Region]) -> u64 {
    let block = smallest_block(spec);
    let all: u64 = regions.iter().map(|region| region.len.get()).sum();
    let whole: u64 = regions.iter().map(|region| whole_blocks(region.len.get(), block)).sum();
    // Beside `filesize`, `size` is what is moved of it.
    let most =
        spec.space.size.filter(|_| spec.files.size.is_some()).map_or(0, |amount| of(amount, all));
    let bytes = if most == 0 { all } else { all.min(most) };
    match spec.space.io_size {
        Some(amount) => of(amount, bytes),
        None if visits_blocks_once(spec) => whole.min(bytes.next_multiple_of(block)),
        None => bytes.next_multiple_of(block),
    }
}

/// Rounds down to whole blocks; what is less than one stays as it is, and is refused later.
fn whole_blocks(bytes: u64, block: u64) -> u64 {
    if bytes < block { bytes } else { bytes / block * block }
}

fn of(amount: Amount, whole: u64) -> u64 {
    match amount {
        Amount::Bytes(bytes) => bytes,
        Amount::Percent(percent) => (u128::from(whole) * u128::from(percent) / 100) as u64,
    }
}

impl Placement {
    /// Returns the placement for a device of this size, without files. `device_path` is its name on
    /// the command line, if it has one.
    pub fn new(device_bytes: Bytes, device_path: Option<String>, logical_block: u64) -> Self {
        Self {
            device_bytes,
            device_path,
            logical_block,
            cached: false,
            next: DeviceOffset::ZERO,
            files: BTreeMap::new(),
        }
    }

    /// Sets whether buffered jobs go through a page cache (`cached`), and may begin and end at any
    /// byte.
    #[must_use]
    pub fn with_cache(self, cached: bool) -> Self {
        Self { cached, ..self }
    }

    fn is_device(&self, name: &str) -> bool {
        is_device_name(name) || self.device_path.as_deref() == Some(name)
    }

    /// Returns the regions of one clone.
    ///
    /// # Errors
    /// A file does not fit on the device, or a job does not fit in its file: the job, the key, and
    /// what would be right.
    pub fn place(
        &mut self,
        spec: &JobSpec,
        clone: u32,
        rng_base: u64,
    ) -> Result<Extent, WorkloadError> {
        let names: Vec<String> = match spec.files.names.is_empty() {
            false => spec.files.names.clone(),
            true => (0..spec.files.count.max(1))
                .map(|file| format!("{}.{clone}.{file}", spec.name))
                .collect(),
        };
        let names: Vec<String> = match directory_of(spec, clone) {
            Some(directory) => names.iter().map(|name| format!("{directory}/{name}")).collect(),
            None => names,
        };
        let count = names.len() as u64;
        let all_device = names.iter().all(|name| self.is_device(name));
        let share = self.share(count);
        let sized = spec.space.size.is_some() || spec.files.size.is_some();
        let mut sizes = Rng::stream(rng_base, 0, clone, Purpose::FileSize);
        let mut regions = Vec::with_capacity(names.len());
        let mut files = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let is_device = all_device || !(sized || spec.space.fill_device);
            let file = if is_device {
                match count {
                    1 => Region { start: DeviceOffset::ZERO, len: self.device_bytes },
                    _ => {
                        Region { start: DeviceOffset::new(share.get() * index as u64), len: share }
                    }
                }
            } else {
                let need = match sized {
                    true => self.file_bytes(spec, clone, count, &mut sizes),
                    false => self.rest(name, count - index as u64),
                };
                if need > self.device_bytes {
                    let key = if spec.files.size.is_some() { "filesize" } else { "size" };
                    let message = format!(
                        "a file of {} bytes does not fit on a device of {} bytes",
                        need.get(),
                        self.device_bytes.get()
                    );
                    return Err(WorkloadError::new(
                        &spec.origin,
                        key,
                        Problem::OutOfRange.because(message),
                    ));
                }
                self.file(name, need)
            };
            regions.push(self.window(spec, clone, count, file)?);
            files.push(JobFile { place: file, is_device });
        }
        let bytes = Bytes::new(loop_bytes(spec, &regions));
        Ok(Extent { regions, files, bytes })
    }

    /// Returns the share of a file, one of `files` that are left, in what lies behind the other
    /// files; of a known file, in what lies behind its start.
    fn rest(&self, name: &str, files: u64) -> Bytes {
        let start = self.files.get(name).map_or(self.next, |region| region.start).get();
        // As with other files, the first one that has no room behind the others starts at 0.
        let rest = match self.device_bytes.get().saturating_sub(start) {
            0 => self.device_bytes.get(),
            rest => rest,
        };
        Bytes::new(rest / files.max(1) / self.logical_block * self.logical_block)
    }

    /// Returns the number of bytes that a file of the job must have.
    fn file_bytes(&self, spec: &JobSpec, clone: u32, count: u64, sizes: &mut Rng) -> Bytes {
        let block = self.logical_block;
        if let Some((low, high)) = spec.files.size {
            return Bytes::new((low + sizes.below(high.saturating_sub(low) + 1)) / block * block);
        }
        let size = spec.space.size.unwrap_or(Amount::Percent(100));
        let bytes = of(size, self.device_bytes.get()) / count;
        let need =
            Bytes::new(bytes.max(block).saturating_add(self.skip(spec, clone, self.share(count))));
        match size {
            Amount::Percent(_) => need.min(self.share(count)),
            Amount::Bytes(_) => need,
        }
    }

    /// Returns the size in bytes of each of `count` equal parts of the device.
    fn share(&self, count: u64) -> Bytes {
        Bytes::new(self.device_bytes.get() / count / self.logical_block * self.logical_block)
    }

    /// Returns the number of bytes before the job's part of a file, in which `whole` bytes are
    /// 100 %.
    fn skip(&self, spec: &JobSpec, clone: u32, whole: Bytes) -> u64 {
        let align = if spec.space.offset_align > 0 {
            spec.space.offset_align
        } else {
            smallest_block(spec)
        };
        let part = |amount| match amount {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(_) => of(amount, whole.get()).next_multiple_of(align),
        };
        part(spec.space.offset)
            .saturating_add(part(spec.space.offset_increment).saturating_mul(u64::from(clone)))
    }

    /// Returns the region of a named file. A known file grows if `need` is greater than its length.
    fn file(&mut self, name: &str, need: Bytes) -> Region {
        let end = DeviceOffset::ZERO + self.device_bytes;
        let known = self.files.get(name).copied();
        if let Some(region) = known.filter(|region| region.len >= need) {
            return region;
        }
        if self.next.saturating_add(need) > end {
            self.next = DeviceOffset::ZERO;
        }
        let start = known.map_or(self.next, |region| region.start);
        let start = if start.saturating_add(need) > end { DeviceOffset::ZERO } else { start };
        let region = Region { start, len: need };
        let after = (start + need).get().next_multiple_of(FILE_ALIGN);
        self.next = self.next.max(DeviceOffset::new(after));
        self.files.insert(name.to_owned(), region);
        region
    }

    /// Returns the part of a file that `offset` and `size` select.
    fn window(
        &self,
        spec: &JobSpec,
        clone: u32,
        count: u64,
        file: Region,
    ) -> Result<Region, WorkloadError> {
        let (block, whole) = (smallest_block(spec), file.len.get());
        // A file that is as long as its jobs' `size` says has shares of the device.
        let is_as_long_as_needed = spec.space.size.is_some() && spec.files.size.is_none();
        let base = if is_as_long_as_needed { self.share(count) } else { file.len };
        let skip = self.skip(spec, clone, base);
        let left = whole.saturating_sub(skip);
        if left < block && skip > 0 {
            let message =
                format!("offset {skip} leaves no block of {block} bytes of {whole} bytes");
            return Err(WorkloadError::new(
                &spec.origin,
                "offset",
                Problem::OutOfRange.because(message),
            ));
        }
        let size = match (spec.space.size, spec.files.size) {
            (Some(Amount::Bytes(bytes)), None) => bytes / count,
            // As in fio, a share is one of whole blocks, of which `io_size` may be a share, too.
            (Some(share), None) => whole_blocks(of(share, self.device_bytes.get()) / count, block),
            _ => left,
        };
        let len = if size == 0 { left } else { size.min(left) };
        if len < block {
            let key = if count > 1 { "nrfiles" } else { "size" };
            let message = format!("{len} bytes of a file are less than one block of {block} bytes");
            return Err(WorkloadError::new(
                &spec.origin,
                key,
                Problem::OutOfRange.because(message),
            ));
        }
        let start = file.start + Bytes::new(skip);
        let (range, gap) = spec.space.zones.map_or((0, 0), |zones| (zones.range, zones.skip));
        let zones = [("zonerange", range), ("zoneskip", gap)];
        let between = if spec.rw.random { 0 } else { spec.rw.sequential_skip.unsigned_abs() };
        let own =
            [("offset", start.get()), ("bs", block), ("ba", align_used(spec)), ("rw", between)];
        for (key, value) in own.into_iter().chain(zones) {
            let in_bytes = self.cached && spec.goes_in_bytes();
            if value % self.logical_block != 0 && !in_bytes {
                let message = format!(
                    "{value} is not a multiple of the device's logical block, {}",
                    self.logical_block
                );
                return Err(WorkloadError::new(
                    &spec.origin,
                    key,
                    Problem::Unaligned.because(message),
                ));
            }
        }
        Ok(Region { start, len: Bytes::new(len) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn extent(spec: &JobSpec, clone: u32) -> Extent {
        Placement::new(Bytes::new(1024 * MIB), None, 512).place(spec, clone, 1).expect("fits")
    }
    fn region(start: u64, len: u64) -> Region {
        Region { start: DeviceOffset::new(start), len: Bytes::new(len) }
    }
    fn job() -> JobSpec {
        JobSpec::default_job("j")
    }

    #[test]
    fn files_of_one_name_in_two_directories_are_two() {
        let mut placement = Placement::new(Bytes::new(1024 * MIB), None, 512);
        let mut start = |directory: Option<&str>, clone| {
            let mut spec = job();
            spec.files.names = vec!["x".to_owned()];
            spec.files.directory = directory.map(str::to_owned);
            spec.space.size = Some(Amount::Bytes(4 * MIB));
            placement.place(&spec, clone, 1).expect("fits").regions[0].start
        };
        assert_eq!(start(Some("/a"), 0), DeviceOffset::ZERO);
        assert_eq!(start(Some("/b"), 0), DeviceOffset::new(4 * MIB));
        assert_eq!(start(None, 0), DeviceOffset::new(8 * MIB));
        assert_eq!(
            start(Some("/a/"), 0),
            DeviceOffset::ZERO,
            "a slash at the end is no other directory"
        );
        assert_eq!(
            start(Some("/b:/a"), 1),
            DeviceOffset::new(4 * MIB),
            "a named file is in the first of several"
        );
    }

    #[test]
    fn clones_with_files_of_their_own_take_turns_in_directories() {
        let mut spec = job();
        spec.files.directory = Some("/a:/b".to_owned());
        let of = |clone| directory_of(&spec, clone);
        assert_eq!((of(0), of(1), of(2)), (Some("/a"), Some("/b"), Some("/a")));
    }

    #[test]
    fn a_device_named_by_directory_and_name_is_the_device() {
        let mut spec = job();
        (spec.files.directory, spec.files.names) =
            (Some("/dev".to_owned()), vec!["sda".to_owned()]);
        spec.space.size = Some(Amount::Bytes(4 * MIB));
        assert!(extent(&spec, 0).files[0].is_device);
        spec.files.directory = Some("/dev/shm".to_owned());
        assert!(!extent(&spec, 0).files[0].is_device, "a file of a tmpfs");
    }

    #[test]
    fn the_device_itself() {
        let whole = extent(&job(), 0);
        assert_eq!(
            whole,
            Extent {
                regions: vec![region(0, 1024 * MIB)],
                files: vec![JobFile { place: region(0, 1024 * MIB), is_device: true }],
                bytes: Bytes::new(1024 * MIB)
            }
        );
        let mut spec = job();
        spec.files.names = vec!["/dev/sda".into()];
        spec.space.size = Some(Amount::Bytes(512 * MIB));
        spec.space.offset = Amount::Bytes(512 * MIB);
        assert_eq!(extent(&spec, 3).regions, [region(512 * MIB, 512 * MIB)]);
        spec.files.names.push("/dev/sdb".into());
        spec.space.offset = Amount::Bytes(0);
        assert_eq!(extent(&spec, 0).regions, [region(0, 256 * MIB), region(512 * MIB, 256 * MIB)]);
    }

    #[test]
    fn offsets_and_percents() {
        let mut spec = job();
        spec.space.size = Some(Amount::Percent(10));
        spec.files.names = vec!["/dev/sda".into()];
        spec.space.offset = Amount::Percent(33);
        let r = extent(&spec, 0).regions[0];
        let tenth = 1024 * MIB / 10 / 4096 * 4096;
        assert_eq!(r, region((1024 * MIB * 33 / 100).next_multiple_of(4096), tenth));
        spec.space.offset = Amount::Bytes(4096);
        spec.space.offset_increment = Amount::Bytes(MIB);
        assert_eq!(extent(&spec, 5).regions[0].start, DeviceOffset::new(4096 + 5 * MIB));
        spec.space.io_size = Some(Amount::Percent(50));
        assert_eq!(extent(&spec, 5).bytes, Bytes::new(tenth / 2));
        // The region ends at the end of the device.
        spec.space.offset = Amount::Bytes(1000 * MIB);
        assert_eq!(extent(&spec, 0).regions[0].len, Bytes::new(24 * MIB));
    }

    /// As fio 3.33 counts bytes of such jobs.
    #[test]
    fn what_a_file_has_beyond_its_last_block_counts_only_where_blocks_are_not_visited_once() {
        let moved = |edit: &dyn Fn(&mut JobSpec)| {
            let mut spec = job();
            spec.blocks.sizes = [const { BlockSizes::Range(64 << 10, 64 << 10) }; 3];
            (spec.files.count, spec.files.size) = (10, Some((100 << 10, 100 << 10)));
            edit(&mut spec);
            extent(&spec, 0).bytes.get() >> 10
        };
        let random = |spec: &mut JobSpec| spec.rw.random = true;
        assert_eq!(moved(&|_| {}), 640);
        assert_eq!(moved(&random), 640);
        assert_eq!(
            moved(&|s| (s.files.size, s.space.size) = (None, Some(Amount::Bytes(1000 << 10)))),
            640,
            "of `size` too"
        );
        assert_eq!(
            moved(&|s| (s.rw.write, s.rw.random) = (true, true)),
            640,
            "one map for both directions"
        );
        assert_eq!(moved(&|s| s.rw.write = true), 1024, "each direction from the start");
        assert_eq!(moved(&|s| (s.rw.random, s.random.norandommap) = (true, true)), 1024);
        assert_eq!(moved(&|s| (s.rw.random, s.blocks.align) = (true, [4096; 3])), 1024);
        assert_eq!(
            moved(&|s| s.space.size = Some(Amount::Bytes(500 << 10))),
            512,
            "the I/O that reaches `size` is whole"
        );
        assert_eq!(moved(&|s| s.blocks.sizes[0] = BlockSizes::Range(4096, 64 << 10)), 1000);
        assert_eq!(moved(&|s| s.space.io_size = Some(Amount::Bytes(500 << 10))), 500);
    }

    #[test]
    fn percents_of_a_named_file_are_of_the_device() {
        let mut spec = job();
        spec.files.names = vec!["data".into()];
        (spec.space.size, spec.space.offset) = (Some(Amount::Percent(50)), Amount::Bytes(0));
        assert_eq!(extent(&spec, 0).regions, [region(0, 512 * MIB)]);
        spec.space.offset = Amount::Percent(25);
        assert_eq!(extent(&spec, 0).regions, [region(256 * MIB, 512 * MIB)]);
        spec.space.offset = Amount::Percent(75);
        assert_eq!(extent(&spec, 0).regions, [region(768 * MIB, 256 * MIB)]);
        (spec.space.size, spec.space.offset_increment) =
            (Some(Amount::Bytes(8 * MIB)), Amount::Percent(10));
        spec.space.offset = Amount::Bytes(0);
        let tenth = (1024 * MIB / 10).next_multiple_of(4096);
        assert_eq!(extent(&spec, 3).regions, [region(3 * tenth, 8 * MIB)]);
    }

    #[test]
    fn size_beside_filesize_is_what_is_moved() {
        let mut spec = job();
        (spec.files.size, spec.space.size) =
            (Some((4 * MIB, 4 * MIB)), Some(Amount::Bytes(2 * MIB)));
        let found = extent(&spec, 0);
        assert_eq!((found.regions, found.bytes), (vec![region(0, 4 * MIB)], Bytes::new(2 * MIB)));
        spec.space.size = Some(Amount::Percent(25));
        assert_eq!(extent(&spec, 0).bytes, Bytes::new(MIB));
        spec.space.size = Some(Amount::Bytes(64 * MIB));
        assert_eq!(extent(&spec, 0).bytes, Bytes::new(4 * MIB), "no more than the files have");
    }

    #[test]
    fn files_of_their_own_do_not_overlap() {
        let mut spec = job();
        spec.space.size = Some(Amount::Bytes(9 * MIB + 4096));
        spec.files.count = 3;
        let mut placement = Placement::new(Bytes::new(1024 * MIB), None, 4096);
        let mut all: Vec<Region> = Vec::new();
        for clone in 0..4 {
            let extent = placement.place(&spec, clone, 1);
            all.extend(extent.expect("fits").regions);
        }
        assert_eq!(all.len(), 12);
        for pair in all.windows(2) {
            assert!(pair[0].start + pair[0].len <= pair[1].start);
        }
        // One name is one file, for all jobs.
        spec.files.names = vec!["data".into()];
        let a = placement.place(&spec, 0, 1).expect("fits");
        assert_eq!(a, placement.place(&spec, 1, 1).expect("fits"));
    }

    #[test]
    fn a_job_that_fills_the_device_has_what_other_files_leave() {
        let mut placement = Placement::new(Bytes::new(1024 * MIB), None, 512);
        let mut spec = job();
        (spec.files.names, spec.space.size) = (vec!["a".into()], Some(Amount::Bytes(24 * MIB)));
        placement.place(&spec, 0, 1).expect("fits");
        (spec.space.fill_device, spec.space.size) = (true, None);
        spec.files.names = vec!["b".into(), "c".into()];
        let extent = placement.place(&spec, 0, 1).expect("fits");
        assert_eq!(extent.regions, [region(24 * MIB, 500 * MIB), region(524 * MIB, 500 * MIB)]);
        assert_eq!(placement.place(&spec, 1, 1).expect("known files").regions, extent.regions);
        // A size counts, as in fio; the device itself is filled from the offset on.
        spec.space.size = Some(Amount::Bytes(2 * MIB));
        assert_eq!(placement.place(&spec, 0, 1).expect("fits").regions[0], region(24 * MIB, MIB));
        (spec.space.size, spec.files.names, spec.space.offset) =
            (None, vec!["/dev/sda".into()], Amount::Bytes(24 * MIB));
        assert_eq!(
            placement.place(&spec, 0, 1).expect("fits").regions,
            [region(24 * MIB, 1000 * MIB)]
        );
    }

    #[test]
    fn files_wrap_when_the_device_is_full() {
        let mut spec = job();
        spec.space.size = Some(Amount::Bytes(600 * MIB));
        let mut placement = Placement::new(Bytes::new(1024 * MIB), None, 512);
        let starts: Vec<u64> = (0..3)
            .map(|c| placement.place(&spec, c, 1).expect("fits").regions[0].start.get())
            .collect();
        assert_eq!(starts, [0, 0, 0]);
        spec.space.size = Some(Amount::Bytes(2048 * MIB));
        let error = placement.place(&spec, 9, 1).expect_err("too large");
        assert_eq!(error.key, "size");
    }

    #[test]
    fn unusable_regions_are_errors() {
        let mut spec = job();
        spec.space.offset = Amount::Bytes(1024 * MIB);
        let mut placement = Placement::new(Bytes::new(1024 * MIB), None, 4096);
        assert_eq!(placement.place(&spec, 0, 1).expect_err("nothing left").key, "offset");
        spec.space.offset = Amount::Bytes(512);
        assert_eq!(placement.place(&spec, 0, 1).expect_err("unaligned").key, "offset");
        spec.space.offset = Amount::Bytes(0);
        spec.blocks.sizes[0] = BlockSizes::Range(512, 512);
        assert_eq!(placement.place(&spec, 0, 1).expect_err("below the logical block").key, "bs");
        let mut spec = job();
        spec.rw.sequential_skip = -1000;
        assert_eq!(placement.place(&spec, 0, 1).expect_err("an unaligned gap").key, "rw");
        spec.rw.random = true;
        assert!(placement.place(&spec, 0, 1).is_ok(), "random I/O has no gap");
        let mut spec = job();
        spec.space.size = Some(Amount::Bytes(MIB));
        spec.files.count = 1000;
        assert_eq!(
            placement.place(&spec, 0, 1).expect_err("a file is below a block").key,
            "nrfiles"
        );
    }
}
