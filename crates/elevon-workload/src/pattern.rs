//! The order of a process's I/O: direction, file, offset and length, by `rw`, `bs` and
//! `random_distribution`.
//!
//! Without `norandommap`, random offsets visit every block once in each pass over a file, by a
//! permutation instead of a map (as fio's `random_generator=lfsr`, but not limited to one block
//! size). With several block sizes a map is used, and an I/O is as fio's. It starts at the first
//! block not yet visited at or after a random block, and ends early before a visited block. So
//! sizes become smaller than drawn as the map fills. With `zonemode=strided` all of this happens
//! within one zone at a time, and anew in each. Directions of mixed jobs and sizes are those that
//! fio draws (`taus`). Cost per I/O: O(1); O(files) when a file is finished, O(parts) for
//! `bssplit`, O(log blocks + blocks of the I/O) with a map.

use elevon_core::mix::mix64;
use elevon_core::stats::Direction;
use elevon_core::units::{Bytes, DeviceOffset};
use elevon_formats::fio::spec::{BlockSizes, Distribution, FileService, JobSpec, StridedZones};

use crate::chance::{Permutation, Purpose, Rng};
use crate::distribution::Sampler;
use crate::free_map::FreeMap;
use crate::region::{Extent, Region, directions, smallest, smallest_block};
use crate::taus::{self, Mix, Taus88, Use};

/// An I/O of the pattern, before it is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Read, write or trim.
    pub direction: Direction,
    /// Index of the file.
    pub file: u32,
    /// First byte on the device.
    pub offset: DeviceOffset,
    /// Bytes.
    pub len: Bytes,
}

/// The random seeds of a process's streams; see [`crate::chance::Purpose`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeds {
    run: u64,
    job: u32,
    clone: u32,
    /// Number of the process in the run, from 1.
    process: u32,
    randrepeat: bool,
    all: bool,
    own: Option<u64>,
}

/// The index of the sizes of random I/Os, if sizes go by order.
const RANDOM: usize = 1;

/// The seed of `randrepeat` in a run with the seed 1. A run repeats with its seed, so what
/// `randrepeat` repeats is repeated by runs of the same seed. Other seeds differ in it.
const REPEATED: u64 = 0x1234_5678;

impl Seeds {
    pub(crate) fn new(spec: &JobSpec, run: u64, job: u32, clone: u32, process: u32) -> Self {
        let (randrepeat, all, own) = (spec.random.repeat, spec.random.repeat_all, spec.random.seed);
        Self { run, job, clone, process, randrepeat, all, own }
    }
    /// Returns the seed of a purpose: `randseed` if given; otherwise one that depends on the run's
    /// seed alone.
    pub(crate) fn base(&self, purpose: Purpose) -> u64 {
        match self.own {
            Some(seed) => seed,
            None if self.all || (self.randrepeat && purpose == Purpose::Offset) => {
                REPEATED.wrapping_add(self.run.wrapping_sub(1))
            }
            None => self.run,
        }
    }
    pub(crate) fn stream(&self, purpose: Purpose) -> Rng {
        Rng::stream(self.base(purpose), self.job, self.clone, purpose)
    }
    /// Returns a sequence of fio's. A run with the first seed has fio's own, if the job gives none.
    fn as_fio(&self, usage: Use) -> Taus88 {
        let seed = match (self.own, self.run) {
            (None, 1) if self.all => None,
            (Some(seed), _) => Some(seed as u32),
            (None, 1) => Some(taus::DEFAULT),
            (None, run) => Some(mix64(run) as u32),
        };
        Taus88::new(taus::seed_of(seed, usage, self.process))
    }
    /// Returns the sequences of sizes by direction. With `verify` (even if nothing is read back)
    /// fio 3.33 draws sizes of writes from a sequence like that of reads.
    fn sizes_as_fio(&self, verifies: bool) -> [Taus88; 3] {
        let own = [Use::ReadSize, Use::WriteSize, Use::TrimSize];
        (if verifies { [Use::ReadSize; 3] } else { own }).map(|usage| self.as_fio(usage))
    }
}

#[derive(Clone, Debug)]
enum UnitOrder {
    /// Each unit occurs once per pass.
    Once { order: Permutation, next: u64 },
    /// Each unit occurs once per pass, in I/Os of several sizes.
    Map(FreeMap),
    /// Any unit may occur at any time.
    Any(Sampler),
}

/// The part of a file that I/O stays in: all of it, or one of its zones (`zonemode=strided`).
#[derive(Clone, Copy, Debug)]
struct Window {
    /// First byte, from the region's start.
    start: u64,
    /// Bytes.
    len: u64,
    /// Bytes that were requested since I/O came here.
    asked: u64,
}

#[derive(Clone, Debug)]
struct FilePosition {
    region: Region,
    window: Window,
    /// The end of the last I/O, from the window's start, by direction: where one that goes on
    /// goes.
    position: [u64; 3],
    /// The start of the last I/O, likewise.
    last: [u64; 3],
    /// Bytes requested in this pass.
    asked: u64,
    /// The file had no block left when an I/O was due in it.
    is_over: bool,
    /// By direction; a direction may use the source of another (`Pattern::source_of`).
    sources: [Option<UnitOrder>; 3],
}

/// The accesses of a process.
#[derive(Clone, Debug)]
pub struct Pattern {
    files: Vec<FilePosition>,
    /// See [`Self::passes`].
    passes: u32,
    current: usize,
    left_on_file: u32,
    /// No file had its turn in this pass.
    is_first_turn: bool,
    service: FileService,
    used: [bool; 3],
    only: Option<Direction>,
    mix_read: u8,
    random: bool,
    percentage_random: [u8; 3],
    skip: i64,
    zones: Option<StridedZones>,
    /// I/Os of all files and directions before the next random offset is due (`rw=randread:N`).
    per_offset: u32,
    /// How many of them are left in the present run.
    run_left: u32,
    /// The present run began at a random offset, and not behind the last I/O.
    run_is_random: bool,
    identical: bool,
    /// Each pass has the directions and sizes of the first.
    repeats_draws: bool,
    sizes: [BlockSizes; 3],
    /// `bs_is_seq_rand`: sizes depend on the order of an I/O (sequential, random) and not on its
    /// direction.
    sizes_by_order: bool,
    fixed: [Option<u64>; 3],
    smallest: [u64; 3],
    smallest_used: u64,
    align: [u64; 3],
    unaligned: bool,
    source_of: [usize; 3],
    /// The length of the I/Os of each direction of a job of one file, if each is of this length
    /// and its offset is drawn: all that happened before then decides nothing but which offset
    /// it is.
    uniform: [Option<u64>; 3],
    mix: Mix,
    direction: Taus88,
    /// By direction.
    size: [Taus88; 3],
    /// The sequences of directions and sizes as they begin.
    first_draws: (Taus88, [Taus88; 3]),
    file: Rng,
    sequential: Rng,
    offset: Rng,
}

impl Pattern {
    pub(crate) fn new(spec: &JobSpec, extent: &Extent, seeds: &Seeds) -> Self {
        let used = directions(spec);
        let by_order = spec.blocks.by_order;
        let only = match used {
            _ if spec.rw.trim_then_write => Some(Direction::Trim),
            [true, false, false] => Some(Direction::Read),
            [false, true, false] => Some(Direction::Write),
            [false, false, true] => Some(Direction::Trim),
            _ => None,
        };
        let smallest: [u64; 3] = std::array::from_fn(|d| smallest(&spec.blocks.sizes[d]).max(1));
        let align: [u64; 3] = std::array::from_fn(|d| match (spec.blocks.align[d], by_order) {
            (0, true) => smallest[RANDOM],
            (0, false) => smallest[d],
            (align, _) => align,
        });
        let fixed = std::array::from_fn(|d| match spec.blocks.sizes[d] {
            BlockSizes::Range(low, high) if low == high => Some(low),
            BlockSizes::Range(..) | BlockSizes::Split(_) => None,
        });
        let first = (0..3).find(|&d| used[d]).unwrap_or(0);
        let draws = (seeds.as_fio(Use::Mix), seeds.sizes_as_fio(spec.verify.method.is_some()));
        let alike = |d: usize| {
            align[d] == align[first]
                && spec.random.distribution[d] == spec.random.distribution[first]
        };
        let mut pattern = Self {
            files: Vec::with_capacity(extent.regions.len()),
            passes: 0,
            current: 0,
            left_on_file: 0,
            is_first_turn: true,
            service: spec.files.service,
            used,
            only,
            mix_read: spec.rw.mix_read,
            random: spec.rw.random,
            percentage_random: spec.random.percentage,
            skip: if spec.rw.random { 0 } else { spec.rw.sequential_skip },
            zones: spec.space.zones,
            per_offset: if spec.rw.random { spec.rw.ios_per_offset.max(1) } else { 1 },
            run_left: 0,
            run_is_random: false,
            identical: spec.rw.sequencer_identical,
            repeats_draws: !spec.timing.time_based || spec.timing.runtime.is_zero(),
            sizes: spec.blocks.sizes.clone().map(rarest_first),
            sizes_by_order: by_order,
            fixed,
            smallest,
            smallest_used: smallest_block(spec),
            align,
            unaligned: spec.blocks.unaligned,
            source_of: std::array::from_fn(|d| if alike(d) { first } else { d }),
            uniform: [None; 3],
            mix: Mix::default(),
            direction: draws.0.clone(),
            size: draws.1.clone(),
            first_draws: draws,
            file: seeds.stream(Purpose::File),
            sequential: seeds.stream(Purpose::Sequential),
            offset: seeds.stream(Purpose::Offset),
        };
        for &region in &extent.regions {
            let file = pattern.new_file(spec, region);
            pattern.files.push(file);
        }
        pattern.uniform = std::array::from_fn(|d| pattern.uniform_length(d));
        pattern.rewind();
        pattern
    }

    /// Returns what [`Self::uniform`] says of a direction.
    fn uniform_length(&self, d: usize) -> Option<u64> {
        let [file] = &self.files[..] else { return None };
        let source = self.source_of[d];
        let is_drawn =
            matches!(file.sources[source], Some(UnitOrder::Any(_) | UnitOrder::Once { .. }));
        let is_always_random = self.percentage_random[d] >= 100 && self.per_offset == 1;
        let len = self.fixed[self.size_index(d, true)]?;
        // A source leaves space for the I/Os of its own direction after each start.
        let fits = self.fixed[self.size_index(source, true)] == Some(len) && len <= file.window.len;
        (is_drawn && is_always_random && fits && self.zones.is_none()).then_some(len)
    }

    fn new_file(&mut self, spec: &JobSpec, region: Region) -> FilePosition {
        let window = first_window(self.zones, region);
        let mut sources = [None, None, None];
        // A run that visits its blocks one after another has one file and one direction.
        let is_alone =
            self.only.is_some() && spec.files.names.len().max(spec.files.count as usize) == 1;
        let are_runs_split = self.unit() > 1 && !is_alone;
        for d in (0..3).filter(|&d| self.random && self.used[d] && self.source_of[d] == d) {
            let align = self.align[d];
            // The last start must leave space for the smallest block of those that use the source.
            let users = (0..3).filter(|&user| self.used[user] && self.source_of[user] == d);
            let least =
                users.map(|user| self.smallest[self.size_index(user, true)]).max().unwrap_or(1);
            let starts = (window.len - least.min(window.len)) / align + 1;
            let mapped = spec.random.distribution[d] == Distribution::Random
                && !spec.random.norandommap
                && spec.blocks.align[d] == 0;
            sources[d] = Some(if mapped && (self.has_several_sizes(d) || are_runs_split) {
                UnitOrder::Map(FreeMap::new(starts))
            } else if mapped {
                let unit = self.unit();
                UnitOrder::Once {
                    order: Permutation::new(starts.div_ceil(unit), &mut self.offset),
                    next: 0,
                }
            } else {
                UnitOrder::Any(Sampler::new(
                    &spec.random.distribution[d],
                    starts,
                    align,
                    &mut self.offset,
                ))
            });
        }
        FilePosition {
            region,
            window,
            position: [0; 3],
            last: [0; 3],
            asked: 0,
            is_over: false,
            sources,
        }
    }

    /// Returns true if the directions that use this source have I/Os of more than one size.
    fn has_several_sizes(&self, source: usize) -> bool {
        let several = |d: usize| {
            self.used[d]
                && self.source_of[d] == source
                && self.fixed[self.size_index(d, true)].is_none()
        };
        !self.identical && (0..3).any(several)
    }

    /// Returns the index of an I/O's size.
    const fn size_index(&self, direction: usize, random: bool) -> usize {
        if self.sizes_by_order { random as usize } else { direction }
    }

    /// Starts again, as every loop does: sequential positions at the start, new random orders.
    pub fn rewind(&mut self) {
        self.passes += u32::from(!self.random || self.visits_each_block(0));
        for index in 0..self.files.len() {
            self.rewind_file(index);
        }
        self.current = 0;
        self.left_on_file = 0;
        self.is_first_turn = true;
        if !self.random || self.visits_each_block(0) {
            self.repeat_draws();
        }
    }

    /// Begins the directions and sizes again, as fio does in each pass over the files of a job that
    /// does not run by time.
    fn repeat_draws(&mut self) {
        if self.repeats_draws {
            self.mix = Mix::default();
            (self.direction, self.size) = self.first_draws.clone();
        }
    }

    /// Returns true if random I/O in a file visits each block once in a pass.
    fn visits_each_block(&self, index: usize) -> bool {
        self.files[index]
            .sources
            .iter()
            .flatten()
            .any(|source| !matches!(source, UnitOrder::Any(_)))
    }

    fn rewind_file(&mut self, index: usize) {
        let file = &mut self.files[index];
        (file.asked, file.is_over) = (0, false);
        file.window = first_window(self.zones, file.region);
        self.enter_window(index);
    }

    /// Starts at the first block of the window, with new random orders.
    fn enter_window(&mut self, index: usize) {
        let (skip, smallest) = (self.skip, self.smallest);
        let file = &mut self.files[index];
        let len = file.window.len;
        file.last = [0; 3];
        self.run_left = 0;
        // A job that goes backwards starts with the last block.
        let last = |d: usize| (len - smallest[d].min(len)) / smallest[d] * smallest[d];
        file.position = std::array::from_fn(|d| if skip < 0 { last(d) } else { 0 });
        for source in file.sources.iter_mut().flatten() {
            match source {
                UnitOrder::Once { order, next } => {
                    *order = Permutation::new(order.len(), &mut self.offset);
                    *next = 0;
                }
                UnitOrder::Map(map) => *map = FreeMap::new(map.len()),
                UnitOrder::Any(sampler) => sampler.rewind(),
            }
        }
    }

    /// Moves on to the next zone once `zonesize` bytes were requested in this one; after the last
    /// zone, to the first. A zone that the end of the region cuts short is for sequential I/O only.
    #[inline(never)]
    fn leave_zone(&mut self, index: usize, zones: StridedZones) {
        let file = &mut self.files[index];
        if file.window.asked < zones.size {
            return;
        }
        let start = file.window.start.saturating_add(zones.range).saturating_add(zones.skip);
        let need = if self.random {
            file.window.len
        } else {
            self.smallest.into_iter().max().unwrap_or(1)
        };
        let whole = file.region.len.get();
        file.window = match start.checked_add(need) {
            Some(end) if end <= whole => {
                Window { start, len: zones.range.min(whole - start), asked: 0 }
            }
            Some(_) | None => first_window(Some(zones), file.region),
        };
        self.enter_window(index);
    }

    /// Returns true if a sequential job with gaps (`rw=read:GAP`) has reached the end of its files
    /// in some direction. fio's loop ends there, although fewer bytes than the size were moved.
    pub(crate) fn is_past_gaps(&self) -> bool {
        let is_past = |file: &FilePosition, d: usize| {
            file.position[d].saturating_add(self.smallest[d]) > file.region.len.get()
        };
        self.skip > 0
            && (0..3).any(|d| self.used[d] && self.files.iter().all(|file| is_past(file, d)))
    }

    /// Returns the bytes of all files.
    pub fn bytes(&self) -> Bytes {
        Bytes::new(self.files.iter().map(|f| f.region.len.get()).sum())
    }

    /// Returns the number of passes over the files that were begun after the first: by a loop, by a
    /// sequential position at the end, or because every block was visited in random order.
    pub(crate) const fn passes(&self) -> u32 {
        self.passes
    }

    /// Returns the smallest block of all directions in use.
    pub const fn smallest_block(&self) -> Bytes {
        Bytes::new(self.smallest_used)
    }

    /// Returns the next access, of at most `limit` bytes; `limit` is at least the smallest block.
    #[inline(always)]
    pub fn next_access(&mut self, limit: Bytes) -> Access {
        self.begin_pass_if_due();
        let mut direction = self.next_direction();
        if !self.random && self.repeats_draws && self.is_at_end(direction) {
            self.passes += 1;
            self.enter_window(0);
            self.repeat_draws();
            direction = self.next_direction();
        }
        match self.uniform[direction as usize] {
            Some(len) if len <= limit.get() => self.uniform_access(direction, len),
            Some(_) | None => self.access_in(direction, limit),
        }
    }

    #[inline(always)]
    fn next_direction(&mut self) -> Direction {
        match self.only {
            Some(direction) => direction,
            None => self.draw_direction(),
        }
    }

    /// Begins the next pass over the file of a job that has one, if the last has ended.
    #[inline(always)]
    fn begin_pass_if_due(&mut self) {
        if self.files.len() == 1 && self.is_finished(0) {
            self.rewind_pass(0);
        }
    }

    /// Returns true if a sequential job of one file without zones has no space for one more I/O in
    /// a direction, so that fio begins the pass anew in all of them.
    #[inline(always)]
    fn is_at_end(&self, direction: Direction) -> bool {
        let (d, file) = (direction as usize, &self.files[0]);
        let need = self.smallest[self.size_index(d, false)];
        self.files.len() == 1
            && self.zones.is_none()
            && file.position[d].saturating_add(need) > file.window.len
    }

    /// Returns the next access in a direction whose I/Os have this length: as [`Self::access_in`],
    /// which has nothing else to decide.
    #[inline(always)]
    fn uniform_access(&mut self, direction: Direction, len: u64) -> Access {
        let d = direction as usize;
        let file = &mut self.files[0];
        let at =
            self.align[d] * next_start(&mut file.sources[self.source_of[d]], 1, &mut self.offset);
        file.asked += len;
        let offset = file.region.start + Bytes::new(file.window.start + at);
        Access { direction, file: 0, offset, len: Bytes::new(len) }
    }

    /// Returns the next access in a direction that the pattern has.
    #[inline(always)]
    pub fn access_in(&mut self, direction: Direction, limit: Bytes) -> Access {
        // A copy, so that an access of [`Self::uniform_access`] need not be in memory.
        let Access { direction, file, offset, len } = self.any_access(direction, limit);
        Access { direction, file, offset, len }
    }

    #[inline(never)]
    fn any_access(&mut self, direction: Direction, limit: Bytes) -> Access {
        let d = direction as usize;
        self.begin_pass_if_due();
        let index = if self.files.len() == 1 { 0 } else { self.draw_file() };
        if let Some(zones) = self.zones {
            self.leave_zone(index, zones);
        }
        let begins = self.run_left == 0;
        let random = self.is_next_random(d, index);
        let size = self.size_index(d, random);
        let mut len = match self.fixed[size] {
            Some(len) => len,
            None => self.draw_size(d, size),
        };
        let at = match random {
            true => self.random_offset(d, index),
            false if self.identical && self.random && !begins => self.files[index].last[d],
            false => self.sequential_offset(d, index, size),
        };
        let room = (self.files[index].window.len - at).min(limit.get());
        if len > room {
            len = if self.fixed[size].is_none() {
                self.draw_size_within(d, size, room)
            } else {
                self.smallest[size]
            };
        }
        let file = &mut self.files[index];
        file.last[d] = at;
        let marks = random || (self.run_is_random && !self.sizes_by_order);
        if marks && let Some(UnitOrder::Map(map)) = &mut file.sources[self.source_of[d]] {
            let align = self.align[d];
            len = len.min(map.take(at / align, len.div_ceil(align)) * align);
        }
        let next = at + len;
        file.position[d] = match self.skip {
            0 => next,
            skip => next.checked_add_signed(skip).unwrap_or(u64::MAX),
        };
        file.asked += len;
        file.window.asked += len;
        let at = file.window.start + at;
        Access {
            direction,
            file: index as u32,
            offset: file.region.start + Bytes::new(at),
            len: Bytes::new(len),
        }
    }

    fn draw_direction(&mut self) -> Direction {
        match self.used {
            [true, true, _] => {
                if self.mix.next_is_read(self.mix_read, &mut self.direction) {
                    Direction::Read
                } else {
                    Direction::Write
                }
            }
            [true, false, _] if self.direction.percent(self.mix_read) => Direction::Read,
            [_, true, _] => Direction::Write,
            [_, false, _] => Direction::Trim,
        }
    }

    /// Draws a size for an I/O in direction `d`, from those with index `size`.
    #[inline(never)]
    fn draw_size(&mut self, d: usize, size: usize) -> u64 {
        let rng = &mut self.size[d];
        match &self.sizes[size] {
            BlockSizes::Range(low, high) if self.unaligned => {
                ((low + rng.below(high - low + 1)) & !511).max(512)
            }
            // A multiple of the least, or the largest.
            BlockSizes::Range(low, high) => (low * (1 + rng.below(*high) / low)).min(*high),
            BlockSizes::Split(parts) => {
                let mut share = rng.below(100);
                for &(bytes, percent) in parts {
                    if share < u64::from(percent) {
                        return bytes;
                    }
                    share -= u64::from(percent);
                }
                parts.last().map_or(self.smallest[size], |p| p.0)
            }
        }
    }

    /// Draws sizes until one fits into `room` bytes, as fio does near the end of a file; if none of
    /// many does, returns the smallest.
    #[cold]
    fn draw_size_within(&mut self, d: usize, size: usize, room: u64) -> u64 {
        let drawn = (0..1000).map(|_| self.draw_size(d, size)).find(|&len| len <= room);
        drawn.unwrap_or(self.smallest[size])
    }

    fn is_finished(&self, index: usize) -> bool {
        let file = &self.files[index];
        file.asked + self.smallest_used > file.region.len.get()
    }

    /// Returns a file that is not finished in this pass. If all are, a new pass begins.
    #[inline(never)]
    fn draw_file(&mut self) -> usize {
        let goes_on = self.left_on_file > 0 && !self.is_finished(self.current);
        if !goes_on && (0..self.files.len()).all(|i| self.is_finished(i)) {
            self.rewind();
        }
        self.take_turn(true)
    }

    /// Returns the file of a sync: the one whose turn it is, as if an I/O followed. Of a file that
    /// is finished the job does not know until an I/O is due in it.
    pub(crate) fn sync_file(&mut self) -> u32 {
        if self.files.len() == 1 { 0 } else { self.take_turn(false) as u32 }
    }

    /// Returns the number of files.
    pub(crate) const fn files(&self) -> usize {
        self.files.len()
    }

    /// Returns the first byte on the device of a file's region.
    pub(crate) fn start_of(&self, file: u32) -> DeviceOffset {
        self.files[file as usize].region.start
    }

    /// Returns the file whose turn it is; `is_io`: for an I/O, which a finished file has no block
    /// for.
    fn take_turn(&mut self, is_io: bool) -> usize {
        if self.left_on_file > 0 && !self.is_over(self.current, is_io) {
            self.left_on_file -= 1;
            return self.current;
        }
        let count = self.files.len();
        let (from, ios) = match self.service {
            FileService::Random => (self.file.below(count as u64) as usize, 1),
            FileService::RoundRobin(ios) if self.is_first_turn => (0, ios.max(1)),
            FileService::RoundRobin(ios) => (self.current + 1, ios.max(1)),
            FileService::Sequential => (self.current, u32::MAX),
        };
        self.is_first_turn = false;
        self.current =
            (0..count).map(|i| (from + i) % count).find(|&i| !self.is_over(i, is_io)).unwrap_or(0);
        self.left_on_file = ios - 1;
        self.current
    }

    /// Returns true if the job has found no block left in a file, or `looks` and finds none.
    fn is_over(&mut self, index: usize, looks: bool) -> bool {
        let is_over = if looks { self.is_finished(index) } else { self.files[index].is_over };
        self.files[index].is_over = is_over;
        is_over
    }

    /// Begins a new pass over one file: resets the count and the random order. Sequential positions
    /// wrap by themselves.
    #[cold]
    fn rewind_pass(&mut self, index: usize) {
        if self.random && self.visits_each_block(index) {
            self.passes += 1;
            self.repeat_draws();
        }
        let file = &mut self.files[index];
        file.asked = 0;
        for source in file.sources.iter_mut().flatten() {
            if let UnitOrder::Once { next, order } = source
                && *next >= order.len()
            {
                *order = Permutation::new(order.len(), &mut self.offset);
                *next = 0;
            }
        }
    }

    /// Returns an offset in the window with space for the smallest block of this size.
    fn sequential_offset(&mut self, d: usize, index: usize, size: usize) -> u64 {
        let file = &self.files[index];
        let smallest = self.smallest[size];
        let at = file.position[d];
        if at.saturating_add(smallest) <= file.window.len {
            return at;
        }
        self.passes += u32::from(!self.random);
        if self.skip < 0 { (file.window.len - smallest) / smallest * smallest } else { 0 }
    }

    /// Returns whether the next I/O of a direction goes to a random offset, and not on behind the
    /// last one (or to it again). With `rw=randread:N` that is decided for N I/Os at a time.
    #[inline]
    fn is_next_random(&mut self, d: usize, index: usize) -> bool {
        if !self.random {
            return false;
        }
        if self.run_left > 0 {
            self.run_left -= 1;
            if !self.run_is_random || self.may_go_on(d, index) {
                return false;
            }
        } else {
            let percent = self.percentage_random[d];
            self.run_is_random = percent >= 100 || self.sequential.percent(percent);
        }
        self.run_left = self.per_offset - 1;
        self.run_is_random
    }

    /// Returns whether an I/O of a random run may go on where the last one of its direction ended:
    /// there is space, and in a pass that visits each block once it is not visited yet.
    fn may_go_on(&self, d: usize, index: usize) -> bool {
        let file = &self.files[index];
        let (at, align) = (file.position[d], self.align[d]);
        let is_visited = match &file.sources[self.source_of[d]] {
            Some(UnitOrder::Map(map)) if !self.sizes_by_order => {
                !at.is_multiple_of(align) || !map.is_free(at / align)
            }
            Some(_) | None => false,
        };
        let least = self.smallest[self.size_index(d, false)];
        self.identical || (at.saturating_add(least) <= file.window.len && !is_visited)
    }

    /// Returns the blocks that an order of random starts counts as one: those of a run.
    const fn unit(&self) -> u64 {
        if self.identical || self.sizes_by_order { 1 } else { self.per_offset as u64 }
    }

    #[inline]
    fn random_offset(&mut self, d: usize, index: usize) -> u64 {
        let unit = self.unit();
        let source = &mut self.files[index].sources[self.source_of[d]];
        self.align[d] * next_start(source, unit, &mut self.offset)
    }
}

/// Returns the next random start, counted in steps of the alignment; `unit` of them are one of an
/// order.
#[inline(always)]
fn next_start(source: &mut Option<UnitOrder>, unit: u64, rng: &mut Rng) -> u64 {
    // Asked before the others: most orders are these.
    if let Some(UnitOrder::Any(sampler)) = source
        && sampler.is_uniform()
    {
        return sampler.draw_evenly(rng);
    }
    match source {
        Some(UnitOrder::Any(sampler)) => sampler.draw(rng),
        Some(UnitOrder::Once { order, next }) => next_of_order(order, next, rng) * unit,
        Some(UnitOrder::Map(map)) => next_of_map(map, rng),
        None => 0,
    }
}

/// Returns the next unit of an order, which begins anew when all were visited.
#[inline(never)]
fn next_of_order(order: &mut Permutation, next: &mut u64, rng: &mut Rng) -> u64 {
    if *next >= order.len() {
        *order = Permutation::new(order.len(), rng);
        *next = 0;
    }
    *next += 1;
    order.at(*next - 1)
}

/// Returns a free unit of a map, which begins anew when all were visited.
#[inline(never)]
fn next_of_map(map: &mut FreeMap, rng: &mut Rng) -> u64 {
    if map.is_used_up() {
        *map = FreeMap::new(map.len());
    }
    map.next_free(rng.below(map.len())).unwrap_or(0)
}

/// Returns sizes as fio compares a draw with them: those with the smallest share first.
fn rarest_first(mut sizes: BlockSizes) -> BlockSizes {
    if let BlockSizes::Split(parts) = &mut sizes {
        parts.sort_by_key(|&(_, percent)| percent);
    }
    sizes
}

/// Returns the window that I/O starts in.
fn first_window(zones: Option<StridedZones>, region: Region) -> Window {
    let whole = region.len.get();
    Window { start: 0, len: zones.map_or(whole, |zones| zones.range.min(whole)), asked: 0 }
}

#[cfg(test)]
mod tests;
