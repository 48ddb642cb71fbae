//! Tests power cuts: jobs through the page cache over a drive with a volatile write cache, all in
//! memory and in virtual time.
//!
//! The drive keeps data for certain if a flush was submitted after the write's completion, or with
//! FUA. Of other data, a power cut leaves any version of any sector. At random moments the test
//! takes a state that a power cut could leave, and checks every sector that the job was told is
//! durable. It also compares the bytes at the submission of a command with those at its end: a page
//! under write-back must not change.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crc32c::crc32c;
use elevon_cache::FrameId;
use elevon_cache::page_cache::{ByteCopy, CacheConfig, Way, WriteMode};
use elevon_core::account::DiskStats;
use elevon_core::driver::{Accept, Command, Completion, Driver, Piece, Pieces};
use elevon_core::limits::QueueLimits;
use elevon_core::op::{Flags, Op};
use elevon_core::stack::{Stack, StackConfig};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, Sectors, TaskId};
use elevon_engine::{Backend, Engine, Token};
use elevon_formats::fio::{MemorySource, parse};
use elevon_testkit::Rng;
use elevon_workload::buffered::{BufferedIo, CacheCost};
use elevon_workload::jobs::{Jobs, JobsOptions};
use elevon_workload::process::CpuCost;
use elevon_workload::run::{Observer, Progress, RunOutcome, run_cached};
use elevon_workload::verify::HEADER_BYTES;

const SECTOR: usize = 512;
const PAGE: usize = 4096;
const SIZE: u64 = 1 << 20;

/// A version of a sector that a power cut may leave, and when the drive received it.
struct Version {
    since: u64,
    bytes: Vec<u8>,
}

struct InFlight {
    due: u64,
    command: Command,
    pieces: Vec<Piece>,
    /// The bytes of a write at its submission.
    bytes: Vec<u8>,
    /// Number of completions before its submission.
    after: u64,
    fails: bool,
}

/// The job's knowledge, shared with the observer.
#[derive(Clone, Default)]
struct Told {
    /// Writes that have finished for the job.
    writes: Rc<Cell<u64>>,
}
impl Observer for Told {
    fn interval(&self) -> Option<Nanos> {
        Some(Nanos::from_micros(10))
    }
    fn on_interval(&mut self, _: Instant, _: &mut dyn FnMut() -> DiskStats, jobs: &[Progress]) {
        self.writes.set(jobs[0].ios[1]);
    }
}

/// Returns how many writes are durable if the given number of writes have finished for the job.
type Promise = fn(u64) -> u64;

struct Drive {
    now: u64,
    dice: Rng,
    durable: Vec<u8>,
    /// Versions by sector, oldest first.
    volatile: BTreeMap<usize, Vec<Version>>,
    in_flight: Vec<InFlight>,
    completed: u64,
    frames: Vec<u8>,
    bios: BTreeMap<u32, Vec<FrameId>>,
    buffers: BTreeMap<(u32, u64), Vec<u8>>,
    /// Numbers of the writes to each sector that the job made.
    made: RefCell<BTreeMap<usize, Vec<u64>>>,
    told: Told,
    promise: Promise,
    /// True with write-through: every acknowledged write is at the drive, durable or not.
    is_through: bool,
    cuts: u64,
    /// Fails the write command with this number.
    fails_at: Option<u64>,
    write_commands: u64,
}

impl Drive {
    fn new(seed: u64, frames: u64, told: Told, promise: Promise, is_through: bool) -> Self {
        Self {
            now: 0,
            dice: Rng(seed),
            durable: vec![0; SIZE as usize],
            volatile: BTreeMap::new(),
            in_flight: Vec::new(),
            completed: 0,
            frames: vec![0; frames as usize],
            bios: BTreeMap::new(),
            buffers: BTreeMap::new(),
            made: RefCell::default(),
            told,
            promise,
            is_through,
            cuts: 0,
            fails_at: None,
            write_commands: 0,
        }
    }

    /// Reads the bytes of pieces: from frames page by page, or from a buffer.
    fn read_memory(&self, pieces: &[Piece]) -> Vec<u8> {
        let mut all = Vec::new();
        for piece in pieces {
            for at in (piece.offset..piece.offset + piece.len).step_by(SECTOR) {
                let at = at as usize;
                all.extend_from_slice(match Token::decode(piece.token) {
                    Token::Job(_) => &self.buffers[&(piece.task.0, piece.token)][at..at + SECTOR],
                    Token::Cache(bio) => {
                        let frame = self.bios[&bio][at / PAGE].0 as usize;
                        &self.frames[frame * PAGE + at % PAGE..][..SECTOR]
                    }
                });
            }
        }
        all
    }

    fn write_memory(&mut self, pieces: &[Piece], bytes: &[u8]) {
        let mut sectors = bytes.chunks(SECTOR);
        for piece in pieces {
            for at in (piece.offset..piece.offset + piece.len).step_by(SECTOR) {
                let (at, from) =
                    (at as usize, sectors.next().expect("as many bytes as the pieces have"));
                match Token::decode(piece.token) {
                    Token::Job(_) => {
                        self.buffers.get_mut(&(piece.task.0, piece.token)).expect("prepared")
                            [at..at + SECTOR]
                            .copy_from_slice(from);
                    }
                    Token::Cache(bio) => {
                        let frame = self.bios[&bio][at / PAGE].0 as usize;
                        self.frames[frame * PAGE + at % PAGE..][..SECTOR].copy_from_slice(from);
                    }
                }
            }
        }
    }

    /// Returns a sector as the drive would read it.
    fn newest(&self, sector: usize) -> &[u8] {
        match self.volatile.get(&sector).and_then(|versions| versions.last()) {
            Some(version) => &version.bytes,
            None => &self.durable[sector * SECTOR..][..SECTOR],
        }
    }

    fn carry_out(&mut self, done: &InFlight) {
        self.completed += 1;
        let first = done.command.sector.byte_offset().get() as usize / SECTOR;
        match done.command.op {
            Op::Read => {
                let count = done.command.bytes.get() as usize / SECTOR;
                let bytes: Vec<u8> = (first..first + count)
                    .flat_map(|sector| self.newest(sector).to_vec())
                    .collect();
                self.write_memory(&done.pieces, &bytes);
            }
            Op::Write => {
                assert_eq!(
                    self.read_memory(&done.pieces),
                    done.bytes,
                    "a page changed while it was being written"
                );
                for (n, bytes) in done.bytes.chunks(SECTOR).enumerate() {
                    if done.command.flags.contains(Flags::FUA) {
                        self.volatile.remove(&(first + n));
                        self.durable[(first + n) * SECTOR..][..SECTOR].copy_from_slice(bytes);
                    } else {
                        let version = Version { since: self.completed, bytes: bytes.to_vec() };
                        self.volatile.entry(first + n).or_default().push(version);
                    }
                }
            }
            Op::Flush => {
                for (&sector, versions) in &mut self.volatile {
                    let old =
                        versions.iter().take_while(|version| version.since <= done.after).count();
                    if let Some(version) = versions.drain(..old).next_back() {
                        self.durable[sector * SECTOR..][..SECTOR].copy_from_slice(&version.bytes);
                    }
                }
                self.volatile.retain(|_, versions| !versions.is_empty());
            }
            op => panic!("{op:?} has no place here"),
        }
    }

    /// Cuts the power and checks that every promise holds for what is left.
    fn cut(&mut self) {
        self.cuts += 1;
        let told = self.told.writes.get();
        let durable = (self.promise)(told);
        let made = self.made.take();
        for (&sector, writes) in &made {
            let due = |number: u64| writes.iter().copied().filter(|&n| n <= number).max();
            if let Some(least) = due(durable) {
                let versions = self.volatile.get(&sector).map_or(0, Vec::len) as u64;
                let left = match self.dice.below(versions + 1) {
                    0 => &self.durable[sector * SECTOR..][..SECTOR],
                    n => &self.volatile[&sector][n as usize - 1].bytes,
                };
                check(left, sector, least, "durable");
            }
            if self.is_through
                && let Some(least) = due(told)
            {
                check(self.newest(sector), sector, least, "acknowledged");
            }
        }
        self.made.replace(made);
    }

    /// Records the writes in bytes that a job copies into a frame; the bytes contain their sector
    /// and number.
    fn note(&self, bytes: &[u8]) {
        let mut made = self.made.borrow_mut();
        for bytes in bytes.chunks(SECTOR) {
            made.entry(word(bytes, 8) as usize / SECTOR).or_default().push(word(bytes, 16));
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]).into()
}

/// Checks that a sector is of write `least` or a later one, at its place, and not torn.
fn check(bytes: &[u8], sector: usize, least: u64, promise: &str) {
    let number = word(bytes, 16);
    assert!(number >= least, "sector {sector} is of write {number}; write {least} was {promise}");
    assert_eq!(word(bytes, 8), (sector * SECTOR) as u64, "sector {sector} says where it belongs");
    assert_eq!(
        word(bytes, 20),
        u64::from(crc32c(&bytes[HEADER_BYTES..])),
        "sector {sector} is whole"
    );
}

impl Driver for Drive {
    fn queue_command(&mut self, _now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept {
        let mut all = Vec::new();
        if command.op.has_data() {
            pieces.for_each(&mut |piece| all.push(piece));
        }
        let bytes = if command.op == Op::Write { self.read_memory(&all) } else { Vec::new() };
        self.write_commands += u64::from(command.op == Op::Write);
        let fails = command.op == Op::Write && self.fails_at == Some(self.write_commands);
        let due = self.now + 1_000 + self.dice.below(200_000);
        let after = self.completed;
        self.in_flight.push(InFlight { due, command: *command, pieces: all, bytes, after, fails });
        Accept::Ok
    }
}

impl Backend for Drive {
    fn now(&mut self) -> Instant {
        Instant::new(self.now)
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        let at = self.in_flight.iter().position(|command| command.due <= self.now)?;
        if self.dice.below(8) == 0 {
            self.cut();
        }
        let done = self.in_flight.swap_remove(at);
        let InFlight { command, fails, .. } = done;
        if fails {
            return Some(Completion::from_command(&command, Status::Medium, Bytes::ZERO));
        }
        self.carry_out(&done);
        Some(Completion::success(&command))
    }

    fn wait(&mut self, until: Option<Instant>) -> bool {
        let done = self.in_flight.iter().map(|command| command.due).min();
        let Some(next) = [done, until.map(Instant::get)].into_iter().flatten().min() else {
            return false;
        };
        self.now = self.now.max(next);
        true
    }

    fn prepare_buffers(&mut self, task: TaskId, slots: u32, bytes: u64) {
        for slot in 0..u64::from(slots) {
            self.buffers.insert((task.0, slot), vec![0; bytes as usize]);
        }
    }

    fn buffer(&mut self, task: TaskId, token: u64) -> Option<&mut [u8]> {
        self.buffers.get_mut(&(task.0, token)).map(Vec::as_mut_slice)
    }

    fn bind_frames(&mut self, bio: u32, frames: &[FrameId]) {
        self.bios.insert(bio, frames.to_vec());
    }

    fn move_bytes(&mut self, copy: &ByteCopy) {
        let (at, len) =
            (copy.frame.0 as usize * PAGE + copy.frame_offset as usize, copy.bytes as usize);
        let from = copy.call_offset.get() as usize;
        match copy.way {
            Way::ToCall => {
                let buffer = self.buffers.get_mut(&(copy.task.0, copy.token)).expect("prepared");
                buffer[from..from + len].copy_from_slice(&self.frames[at..at + len]);
            }
            Way::ToFrame => {
                let buffer = &self.buffers[&(copy.task.0, copy.token)];
                self.frames[at..at + len].copy_from_slice(&buffer[from..from + len]);
                self.note(&buffer[from..from + len]);
            }
            Way::Zero => self.frames[at / PAGE * PAGE..][..PAGE].fill(0),
        }
    }
}

fn run(text: &str, config: CacheConfig, drive: &mut Drive) -> (RunOutcome, BufferedIo) {
    let mut parsed =
        parse(&mut MemorySource::one("job.fio", text), "job.fio").expect("a job of this file");
    assert!(parsed.with_cache().expect("no trims"));
    let limits = QueueLimits { write_cache: true, fua: true, ..QueueLimits::default() };
    let size = Sectors::new(SIZE / 512);
    let mut stack = Stack::new(StackConfig::new(limits, size, 1, 32)).expect("valid limits");
    let options = JobsOptions { logical_block: 512, ..JobsOptions::new(stack.config()) };
    let mut jobs = Jobs::new(&parsed.jobs, &options, &mut |_, _, bytes| {
        stack.register_layout(elevon_core::layout::Layout::contiguous(bytes.max(4096), 1 << 40))
    })
    .expect("the job fits");
    let mut cached =
        BufferedIo::new(config, CacheCost::default(), CpuCost::default(), &mut jobs, &stack);
    let mut told = drive.told.clone();
    let mut engine = Engine::new(stack, drive);
    let outcome = run_cached(&mut engine, &mut jobs, &mut cached, &mut told);
    assert_eq!(outcome.ended_early, None, "{text}");
    engine.stack().self_check();
    cached.cache().self_check();
    (outcome, cached)
}

const fn config(memory: u64, write_mode: WriteMode) -> (u64, WriteMode) {
    (memory, write_mode)
}

fn cache((memory, write_mode): (u64, WriteMode)) -> CacheConfig {
    CacheConfig { write_mode, copies: true, ..CacheConfig::new(Bytes::new(memory), TaskId(0)) }
}

/// Caches that hold everything, a part, and almost nothing.
const CACHES: [(u64, WriteMode); 6] = [
    config(8 << 20, WriteMode::Back),
    config(8 << 20, WriteMode::Through),
    config(640 << 10, WriteMode::Back),
    config(640 << 10, WriteMode::Through),
    config(256 << 10, WriteMode::Back),
    config(256 << 10, WriteMode::Through),
];

const JOB: &str = "[job]\nsize=1m\nverify=crc32c\nverify_interval=512\nnorandommap\ndo_verify=1\n";

/// Runs a job over each cache with some seeds, and checks that there were many power cuts.
fn survives(job: &str, promise: Promise) {
    let mut cuts = 0;
    for (n, at) in CACHES.into_iter().enumerate() {
        for seed in 0..2 {
            let text = format!("{JOB}{job}\nrandseed={}\n", seed + 1);
            let mut drive = Drive::new(
                seed * 31 + n as u64,
                at.0,
                Told::default(),
                promise,
                at.1 == WriteMode::Through,
            );
            let (outcome, cached) = run(&text, cache(at), &mut drive);
            let stats = &outcome.jobs[0].stats;
            assert_eq!((stats.error, stats.verify_errors), (0, 0), "{at:?}\n{text}");
            assert_eq!((cached.last_status(), cached.unwritten()), (Status::Ok, (0, 0)));
            // The run ends with a flush, after which everything is durable.
            assert!(drive.volatile.is_empty(), "{at:?}\n{text}");
            drive.promise = |told| told;
            drive.cut();
            cuts += drive.cuts;
        }
    }
    assert!(cuts > 200, "{cuts} cuts");
}

/// A flush is sent before the write that follows every eighth.
fn every_eighth(told: u64) -> u64 {
    told.saturating_sub(1) / 8 * 8
}

#[test]
fn what_an_fsync_was_told_of_outlives_a_cut() {
    survives(
        "ioengine=psync\nrw=randwrite\nbsrange=512-24k\nbs_unaligned\nblockalign=512\nfsync=8",
        every_eighth,
    );
    survives(
        "ioengine=psync\nrw=randrw\nbs=1536\nblockalign=512\nio_size=600k\nfdatasync=8",
        every_eighth,
    );
}

#[test]
fn what_a_sync_write_was_told_of_outlives_a_cut() {
    survives(
        "ioengine=psync\nrw=randwrite\nbsrange=512-8k\nblockalign=512\nbs_unaligned\nio_size=400k\nsync=dsync",
        |told| told,
    );
}

#[test]
fn stores_to_a_mapping_outlive_a_cut_once_synced() {
    survives(
        "ioengine=mmap\nrw=randwrite\nbs=2560\nblockalign=512\nio_size=600k\nfsync=8",
        every_eighth,
    );
}

#[test]
fn without_an_fsync_nothing_is_promised_and_through_means_at_the_drive() {
    for engine in ["psync", "mmap"] {
        survives(
            &format!("ioengine={engine}\nrw=randwrite\nbs=6k\nblockalign=1k\nio_size=700k"),
            |_| 0,
        );
    }
}

#[test]
fn the_promises_can_be_broken() {
    // A drive that forgets a flush is detected, which proves that the checks can fail.
    let job = format!("{JOB}ioengine=psync\nrw=randwrite\nbs=4k\nfsync=8\n");
    let at = CACHES[0];
    let result = std::panic::catch_unwind(|| {
        let mut drive = Drive::new(1, at.0, Told::default(), |told| told, false);
        run(&job, cache(at), &mut drive);
    });
    assert!(
        result.is_err(),
        "every write counted as durable at once, and no cut showed that it is not"
    );
}

#[test]
fn a_write_that_fails_is_told_of_wherever_it_happens() {
    let mut told_by_job = 0;
    for (n, at) in CACHES.into_iter().enumerate() {
        for fails_at in [1, 2, 5, 9, 14, 27, 40, 60] {
            let text = format!(
                "{JOB}ioengine=psync\nrw=randwrite\nbs=4k\nio_size=400k\nfsync=16\nend_fsync=1\ndo_verify=0\n"
            );
            let mut drive = Drive::new(n as u64, at.0, Told::default(), |_| 0, false);
            drive.fails_at = Some(fails_at);
            let (outcome, cached) = run(&text, cache(at), &mut drive);
            let failed = drive.write_commands >= fails_at;
            let (error, unwritten) = (outcome.jobs[0].stats.error, cached.unwritten());
            assert_eq!(
                (error != 0, unwritten.0 > 0, unwritten.1),
                (failed, failed, 0),
                "{at:?} command {fails_at}"
            );
            assert_eq!(cached.last_status().is_ok(), !failed);
            told_by_job += u64::from(error != 0);
        }
    }
    assert!(told_by_job > 40, "{told_by_job}");
}
