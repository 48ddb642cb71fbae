//! Shadow of a page cache with bytes: tracks by version what frames, buffers and the device hold.
//!
//! The content of a sector is the number of the write that it comes from. Versions are copied like
//! the bytes: by the copies that the cache requests, and by the commands that the device accepts
//! and completes. In addition the shadow keeps for each sector the versions that a reader may see:
//! the last one written through the cache, and those of direct writes in flight at the same time.
//! So every read is checked against every write of any program, and an fsync against the versions
//! at its start.
//!
//! A failed write may be on the device or not: its sectors are *loose*, which means unchecked,
//! until they are written again. The same holds for sectors that are discarded or that a truncation
//! cuts off, and for what a power cut takes back, except for data that an fsync has promised, which
//! must survive.
//!
//! A device may have silent faults: it loses a write, writes it elsewhere, or returns other data.
//! The shadow applies planned faults as the device does. A program that meets one finds it; this is
//! no violation, but a run must not miss it.
//!
//! Cost: O(log sectors) per sector moved. Used by the swarm only.

mod cell;
mod commands;
mod promises;

use cell::{Candidate, Cell};

use std::collections::{BTreeMap, BTreeSet};

use elevon_cache::FrameId;
use elevon_cache::page_cache::{ByteCopy, Way};
use elevon_core::driver::{Command, Completion, Piece};
use elevon_core::op::Op;
use elevon_core::stack::Io;
use elevon_core::status::Status;
use elevon_core::units::{Bytes, PAGE_SECTORS, SECTOR_SIZE, TaskId};
use elevon_engine::Token;
use elevon_sim::device::fault::Silent;
use elevon_sim::device::fault::content::Survivors;
use elevon_workload::region::Region;

use super::Sabotage;
use super::cache::OTHER_PROGRAMS_FILE;
use super::checkers::Issued;
use promises::LastError;

/// Version of a frame that was never filled.
const GARBAGE: u64 = u64::MAX;
/// Version that the device returns for a rotten sector.
const ROTTEN: u64 = u64::MAX - 1;
/// Time of what has not happened.
const NEVER: u64 = u64::MAX;
const SECTORS: usize = PAGE_SECTORS as usize;

/// Sectors with their versions.
type SectorVersions = Vec<(u64, u64)>;

/// How a program does an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Buffered, through a file descriptor.
    Buffered,
    /// Through a mapping.
    Mapped,
    /// Direct, without the page cache.
    Direct,
}

/// What is known of a program with open files.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) manner: Manner,
    /// Its writes finish only when they are durable (`sync=`).
    pub(super) sync_writes: bool,
    /// Regions that its fsync covers.
    pub(super) regions: Vec<Region>,
    /// Write errors of which the program has not been told: time of the first and of the last.
    untold: Option<(u64, u64)>,
    /// The program may have been told of the `untold` errors or not.
    unsure: bool,
    /// How often the program has opened its files.
    times_opened: u64,
}

impl User {
    pub(super) const fn new(manner: Manner, sync_writes: bool, regions: Vec<Region>) -> Self {
        Self { manner, sync_writes, regions, untold: None, unsure: false, times_opened: 0 }
    }
}

/// An I/O of a program in progress.
#[derive(Clone, Debug)]
struct Doing {
    op: Op,
    manner: Manner,
    /// First byte on the device, and length in bytes.
    place: Region,
    begun: u64,
    /// Version that a direct write writes.
    version: u64,
    moved: u64,
    /// Versions that it put into frames, by sector.
    landed: SectorVersions,
    /// Versions that the device must hold when the I/O finishes and, if `is_durable`, after a
    /// power cut.
    promises: SectorVersions,
    is_durable: bool,
    /// Bytes that it must move; `None` if that is unknown.
    expects: Option<Bytes>,
}

/// A bio of the page cache.
#[derive(Clone, Debug)]
struct CacheBio {
    io: Io,
    frames: Vec<FrameId>,
    /// Bytes of commands that succeeded.
    moved: u64,
}

/// A command in flight.
#[derive(Clone, Debug)]
struct Carried {
    command: Command,
    pieces: Vec<Piece>,
    /// Versions that it writes, by sector.
    carries: SectorVersions,
    silent: Option<Silent>,
}

impl Carried {
    /// Returns the versions that the medium receives, by the sector that it stores them at.
    fn landing(&self) -> SectorVersions {
        match self.silent {
            Some(Silent::Lost) => SectorVersions::new(),
            Some(Silent::Misdirected(to)) => {
                let first = self.command.sector.get();
                self.carries
                    .iter()
                    .map(|&(sector, version)| (sector - first + to.get(), version))
                    .collect()
            }
            Some(Silent::Rotten) | None => self.carries.clone(),
        }
    }
}

/// The shadow of one run, over both phases.
pub(super) struct Shadow {
    has_bytes: bool,
    writes_through: bool,
    sabotage: Option<Sabotage>,
    clock: u64,
    versions: u64,
    frames: Vec<[u64; SECTORS]>,
    /// First sector of the page in each frame.
    homes: Vec<Option<u64>>,
    device: BTreeMap<u64, u64>,
    cells: BTreeMap<u64, Cell>,
    users: BTreeMap<u32, User>,
    doing: BTreeMap<(u32, u64), Doing>,
    bios: BTreeMap<(u32, u64), CacheBio>,
    /// Commands in flight, by request.
    carried: BTreeMap<u32, Carried>,
    /// Sectors that may be wrong on the device because of a silent fault.
    damaged: BTreeSet<u64>,
    /// Versions that each write wrote, by sequence number, in order of sectors; recorded only if
    /// the power is cut.
    written: BTreeMap<u64, SectorVersions>,
    /// First sector that a truncation in progress cuts off, and the one after the last.
    truncating: Option<(u64, u64)>,
    last_failure: u64,
    /// The last write error of the file that the jobs use.
    last_error: LastError,
    /// When the last step ended.
    step_ended: u64,
    /// How often a program or a sync met an effect of a silent device fault.
    pub(super) found: u64,
    /// Copies, completions and ends so far; decides when a deliberate error is made.
    counted: u64,
    /// Violations: the property, and the message.
    pub(super) wrong: Vec<(&'static str, String)>,
}

impl Shadow {
    pub(super) fn new(
        frames: usize,
        has_bytes: bool,
        writes_through: bool,
        sabotage: Option<Sabotage>,
    ) -> Self {
        Self {
            has_bytes,
            writes_through,
            sabotage,
            clock: 1,
            versions: 0,
            frames: vec![[GARBAGE; SECTORS]; frames],
            homes: vec![None; frames],
            device: BTreeMap::new(),
            cells: BTreeMap::new(),
            users: BTreeMap::new(),
            doing: BTreeMap::new(),
            bios: BTreeMap::new(),
            carried: BTreeMap::new(),
            damaged: BTreeSet::new(),
            found: 0,
            written: BTreeMap::new(),
            truncating: None,
            last_failure: 0,
            last_error: LastError::default(),
            step_ended: 0,
            counted: 0,
            wrong: Vec::new(),
        }
    }

    /// Starts a phase with an empty cache over the contents of the device.
    pub(super) fn begin_phase(&mut self, users: BTreeMap<u32, User>) {
        self.frames.fill([GARBAGE; SECTORS]);
        self.homes.fill(None);
        self.cells.clear();
        self.doing.clear();
        self.bios.clear();
        self.carried.clear();
        self.damaged.clear();
        self.truncating = None;
        self.last_error = LastError::default();
        self.users = users;
    }

    fn accuse(&mut self, property: &'static str, message: String) {
        self.wrong.push((property, message));
    }

    /// Returns true if a wrong sector, read as version `seen`, is the effect of a planned fault,
    /// and counts it as found.
    fn is_planned(&mut self, sector: u64, seen: u64) -> bool {
        let is_planned = seen == ROTTEN || self.damaged.contains(&sector);
        self.found += u64::from(is_planned);
        is_planned && self.sabotage != Some(Sabotage::ForgetFaults)
    }

    /// Returns true if the deliberate error `sabotage` is due: from the third time on, always.
    fn spoils(&mut self, sabotage: Sabotage) -> bool {
        if self.sabotage != Some(sabotage) {
            return false;
        }
        self.counted += 1;
        self.counted > 2
    }

    fn on_device(&self, sector: u64) -> u64 {
        self.device.get(&sector).copied().unwrap_or(0)
    }

    fn cell(&mut self, sector: u64) -> &mut Cell {
        let held = self.device.get(&sector).copied().unwrap_or(0);
        self.cells.entry(sector).or_insert_with(|| Cell {
            candidates: vec![Candidate { version: held, ended: 0, gone: NEVER }],
            ..Cell::default()
        })
    }

    fn loosen(&mut self, sector: u64) {
        let clock = self.clock;
        self.cell(sector).loose = Some(clock);
    }

    /// Puts a version into the cache. It replaces all versions except those of direct writes in
    /// flight.
    fn land(&mut self, sector: u64, version: u64) {
        let clock = self.clock;
        let is_cut = self.truncating.is_some_and(|(first, end)| (first..end).contains(&sector));
        let oldest = self.doing.values().map(|doing| doing.begun).min().unwrap_or(clock);
        let cell = self.cell(sector);
        if cell.candidates.len() > 3 {
            cell.candidates.retain(|candidate| candidate.gone > oldest);
        }
        let live = cell.candidates.iter_mut().filter(|candidate| candidate.ended != NEVER);
        live.for_each(|candidate| candidate.gone = candidate.gone.min(clock));
        cell.candidates.push(Candidate { version, ended: clock, gone: NEVER });
        if cell.loose.is_some() {
            cell.loose_until = clock;
        }
        cell.loose = is_cut.then_some(clock);
    }

    /// Assigns a frame to another page. The content that it held must not be lost.
    fn settle_in(&mut self, frame: FrameId, home: u64) {
        let at = frame.0 as usize;
        if let Some(old) = self.homes[at].replace(home) {
            for k in 0..SECTORS {
                let (sector, held) = (old + k as u64, self.frames[at][k]);
                let is_last = self.cells.get(&sector).and_then(Cell::only) == Some(held);
                if is_last && self.on_device(sector) != held && !self.is_planned(sector, held) {
                    let there = self.on_device(sector);
                    self.accuse(
                        "freed",
                        format!(
                            "{frame:?} with version {held} of sector {sector} went; {there} is left"
                        ),
                    );
                }
            }
        }
        self.frames[at] = [GARBAGE; SECTORS];
    }

    /// Records an I/O of a program or a bio of the cache.
    pub(super) fn on_io(&mut self, io: &Io, frames: &[FrameId]) {
        self.clock += 1;
        if !Token::is_of_cache(io.token) {
            let place = Region { start: io.sector.byte_offset(), len: io.bytes };
            let expects = if io.op.has_data() { Some(place.len) } else { None };
            return self.begin(io.task, io.token, io.op, place, expects);
        }
        if self.has_bytes && io.op.has_data() {
            for (n, &frame) in frames.iter().enumerate() {
                let home = io.sector.get() + n as u64 * PAGE_SECTORS;
                if io.op == Op::Read {
                    self.settle_in(frame, home);
                } else if self.homes[frame.0 as usize] != Some(home) {
                    let held = self.homes[frame.0 as usize];
                    self.accuse(
                        "contents",
                        format!("{frame:?} of sector {held:?} is written to sector {home}"),
                    );
                }
            }
        }
        self.bios
            .insert((io.task.0, io.token), CacheBio { io: *io, frames: frames.to_vec(), moved: 0 });
    }

    /// Starts an I/O of a program at a place on the device.
    pub(super) fn begin(
        &mut self,
        task: TaskId,
        token: u64,
        op: Op,
        place: Region,
        expects: Option<Bytes>,
    ) {
        self.clock += 1;
        let manner = self.users.get(&task.0).map_or(Manner::Direct, |user| user.manner);
        // Discards bypass the cache.
        let manner = if op == Op::Discard { Manner::Direct } else { manner };
        let mut version = 0;
        if manner == Manner::Direct && op.is_write() && self.has_bytes {
            self.versions += 1;
            version = self.versions;
            for sector in sectors(place) {
                let cell = self.cell(sector);
                cell.candidates.push(Candidate { version, ended: NEVER, gone: NEVER });
                if op == Op::Discard {
                    cell.floor = 0;
                    // The dirty pages are dropped at once: until it ends, and if it fails, what the
                    // device has is older.
                    self.loosen(sector);
                }
            }
        }
        let (moved, landed, begun, promises) = (0, Vec::new(), self.clock, Vec::new());
        let doing = Doing {
            op,
            manner,
            place,
            begun,
            version,
            moved,
            landed,
            promises,
            is_durable: true,
            expects,
        };
        self.doing.insert((task.0, token), doing);
        if op == Op::Flush {
            // A sync is one of the file that begins there.
            let is_of_file = |region: &&Region| region.start.sector() == place.start.sector();
            let user = self.users.get(&task.0);
            let regions: Vec<Region> =
                user.iter().flat_map(|user| &user.regions).filter(is_of_file).copied().collect();
            self.promise(task, token, &regions, true);
        }
    }

    /// Marks a started call as one through a mapping.
    pub(super) fn mapped(&mut self, task: TaskId, token: u64) {
        if let Some(doing) = self.doing.get_mut(&(task.0, token)) {
            doing.manner = Manner::Mapped;
        }
    }

    /// Marks a started call as one that writes the current contents of `regions` and, if
    /// `is_durable`, flushes the device.
    pub(super) fn promise(
        &mut self,
        task: TaskId,
        token: u64,
        regions: &[Region],
        is_durable: bool,
    ) {
        let promises = self.promises_of(regions);
        if let Some(doing) = self.doing.get_mut(&(task.0, token)) {
            (doing.promises, doing.is_durable) = (promises, is_durable);
        }
    }

    /// Returns the versions that a sync that starts now must find on the device.
    fn promises_of(&self, regions: &[Region]) -> SectorVersions {
        let within = |region: &Region| self.cells.range(sectors(*region));
        // A rotten sector may be dropped from the cache at any time.
        let certain = |cell: &Cell| cell.only().filter(|&version| version != ROTTEN);
        regions
            .iter()
            .flat_map(within)
            .filter_map(|(&sector, cell)| Some((sector, certain(cell)?)))
            .collect()
    }

    /// Truncates a file. Its sectors from there on are loose until the call finishes and they are
    /// written again.
    pub(super) fn truncate(&mut self, cut: Option<(u64, u64)>) {
        self.clock += 1;
        for (first, end) in [self.truncating, cut].into_iter().flatten() {
            let known: Vec<u64> = self.cells.range(first..end).map(|(&sector, _)| sector).collect();
            known.into_iter().for_each(|sector| self.loosen(sector));
            for at in 0..self.homes.len() {
                if let Some(home) = self.homes[at].filter(|home| (first..end).contains(home)) {
                    (home..home + PAGE_SECTORS).for_each(|sector| self.loosen(sector));
                }
            }
        }
        self.truncating = cut;
    }

    /// Copies versions between a frame and a program's buffer.
    pub(super) fn on_copy(&mut self, copy: &ByteCopy) {
        self.clock += 1;
        let Some(doing) = self.doing.get_mut(&(copy.task.0, copy.token)) else { return };
        let byte = doing.place.start + copy.call_offset;
        let (begun, at, home) = (
            doing.begun,
            copy.frame.0 as usize,
            (byte.get() - u64::from(copy.frame_offset)) / SECTOR_SIZE,
        );
        if copy.way != Way::Zero {
            doing.moved += u64::from(copy.bytes);
        }
        let first = copy.frame_offset as usize / SECTOR_SIZE as usize;
        let count = copy.bytes as usize / SECTOR_SIZE as usize;
        match copy.way {
            Way::ToCall => {
                if self.homes[at] != Some(home) {
                    let held = self.homes[at];
                    self.accuse(
                        "contents",
                        format!("{copy:?} for sector {home} is of a frame with {held:?}"),
                    );
                }
                // A direct write that ended meanwhile may have reached the device after the page
                // was read.
                for k in first..first + count {
                    self.look(
                        home + k as u64,
                        self.frames[at][k],
                        begun,
                        &format!("{copy:?} begun at {begun}"),
                    );
                }
            }
            Way::ToFrame | Way::Zero => {
                if self.homes[at] != Some(home) {
                    self.settle_in(copy.frame, home);
                }
                let (first, count) =
                    if copy.way == Way::Zero { (0, SECTORS) } else { (first, count) };
                let is_lost = self.spoils(Sabotage::LoseCopy);
                for k in first..first + count {
                    self.versions += 1;
                    let version = self.versions;
                    if !is_lost {
                        self.frames[at][k] = version;
                    }
                    self.land(home + k as u64, version);
                    if let Some(doing) = self.doing.get_mut(&(copy.task.0, copy.token)) {
                        doing.landed.push((home + k as u64, version));
                    }
                }
                self.collide(home);
            }
        }
    }

    /// Handles a change of a page. If a direct write of one of its sectors is in flight, the sector
    /// may get either version, because the whole page is written back with what it held of the
    /// sector. (Linux does so too and warns of it: `docs/explanation/faithfulness.md`.)
    fn collide(&mut self, home: u64) {
        for sector in home..home + PAGE_SECTORS {
            let is_under_way =
                |cell: &Cell| cell.candidates.iter().any(|candidate| candidate.ended == NEVER);
            if self.cells.get(&sector).is_some_and(is_under_way) {
                self.loosen(sector);
            }
        }
    }

    /// Checks a version that a program sees.
    fn look(&mut self, sector: u64, seen: u64, since: u64, about: &str) {
        if seen == GARBAGE {
            return self
                .accuse("contents", format!("sector {sector}: {about} sees what was never read"));
        }
        if !self.cell(sector).allows(seen, since) && !self.is_planned(sector, seen) {
            let cell = self.cell(sector);
            let message = format!("sector {sector}: {about} sees version {seen}; {cell:?}");
            self.accuse("contents", message);
        }
    }

    /// Handles the end of a program's I/O or of a bio of the cache.
    pub(super) fn on_io_over(
        &mut self,
        task: TaskId,
        token: u64,
        status: Status,
        bytes: Option<u64>,
    ) {
        self.clock += 1;
        if Token::is_of_cache(token) {
            return self.bio_over(task, token, status);
        }
        let Some(doing) = self.doing.remove(&(task.0, token)) else { return };
        if doing.manner == Manner::Direct && doing.op.is_write() {
            self.end_direct(&doing, status);
        }
        let expects = bytes
            .or(doing.expects.map(Bytes::get))
            .filter(|_| self.has_bytes && doing.manner != Manner::Direct);
        if let Some(expects) = expects.filter(|&expects| status.is_ok() && expects != doing.moved) {
            self.accuse(
                "contents",
                format!("{task:?}/{token} went well, with {} of {expects} bytes", doing.moved),
            );
        }
        if self.has_bytes {
            let status = if self.spoils(Sabotage::SwallowError) { Status::Ok } else { status };
            let status = if self.spoils(Sabotage::InventError) { Status::IoError } else { status };
            self.hold(task, &doing, status);
            self.tell(task, &doing, status);
        }
    }

    fn end_direct(&mut self, doing: &Doing, status: Status) {
        let clock = self.clock;
        // The content after a discard and after a failed write is unknown.
        let is_certain = status.is_ok() && doing.op != Op::Discard;
        for sector in sectors(doing.place) {
            let Some(cell) = self.cells.get_mut(&sector) else { continue };
            for candidate in &mut cell.candidates {
                if candidate.version == doing.version {
                    candidate.ended = clock;
                } else if is_certain && candidate.ended < doing.begun {
                    candidate.gone = candidate.gone.min(clock);
                }
            }
            if is_certain && cell.loose.is_some_and(|since| since < doing.begun) {
                (cell.loose, cell.loose_until) = (None, clock);
            }
        }
    }

    fn bio_over(&mut self, task: TaskId, token: u64, status: Status) {
        let Some(CacheBio { io, moved, .. }) = self.bios.remove(&(task.0, token)) else { return };
        if status.is_ok() {
            let bytes = io.bytes.get();
            if io.op.has_data() && moved != bytes {
                self.accuse(
                    "moved",
                    format!("{io:?} went well, and its commands moved {moved} of {bytes} bytes"),
                );
            }
            return;
        }
        self.last_failure = self.clock;
        if io.op == Op::Write {
            let (clock, byte) = (self.clock, io.sector.byte_offset());
            for sector in sectors(Region { start: byte, len: io.bytes }) {
                self.cell(sector).failed = clock;
            }
            if byte < OTHER_PROGRAMS_FILE {
                self.last_error = LastError::new(clock);
            }
            for user in self.users.values_mut() {
                let is_of_file =
                    if byte >= OTHER_PROGRAMS_FILE { user.is_apart() } else { !user.is_apart() };
                if is_of_file {
                    user.untold = Some((user.untold.map_or(clock, |(since, _)| since), clock));
                }
            }
        }
    }

    /// Checks that nothing is in progress at the end of a phase.
    pub(super) fn on_idle(&mut self) {
        if let Some((key, bio)) = self.bios.first_key_value() {
            let message = format!("{key:?} never ended: {bio:?}");
            self.accuse("moved", message);
        }
        if let Some((key, doing)) = self.doing.first_key_value() {
            let message = format!("{key:?} never ended: {doing:?}");
            self.accuse("moved", message);
        }
    }
}

impl User {
    /// Returns true if the program has a file of its own; all others have opened the device.
    fn is_apart(&self) -> bool {
        matches!(self.regions[..], [region] if region.start >= OTHER_PROGRAMS_FILE)
    }
}

fn sectors(place: Region) -> std::ops::Range<u64> {
    place.start.sector().get()..(place.start + place.len).get().div_ceil(SECTOR_SIZE)
}

/// Returns the pieces that make up the first `bytes` of a command; the last one may be cut.
fn first_bytes(pieces: &[Piece], bytes: u64) -> Vec<Piece> {
    let mut left = bytes;
    let mut cut = |piece: &Piece| {
        let len = piece.len.min(left);
        left -= len;
        (len > 0).then_some(Piece { len, ..*piece })
    };
    pieces.iter().filter_map(&mut cut).collect()
}

fn sectors_of(piece: &Piece) -> std::ops::Range<u64> {
    piece.sector.get()..piece.sector.get() + piece.len / SECTOR_SIZE
}
