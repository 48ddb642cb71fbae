//! What frames, buffers and the device hold, by version: the shadow of a page cache with bytes.
//!
//! A sector's content is the number of the write that it comes from. Versions move where bytes
//! would: with the copies that the cache orders, and with the commands that the device takes and
//! completes. Beside that the shadow keeps, for each sector, which versions a reader may see: the
//! last one written through the cache, and whatever direct writes have that were under way with it.
//! So every read is held against every write, whoever made them, and an fsync against what was
//! there when it began.
//!
//! A write that fails may be there or not: from then on nothing is said of its sectors until they
//! are written again (they are *loose*). The same holds for what a truncation cuts off, and for
//! what a cut of power takes back, but for what an fsync has promised: that must survive.
//!
//! A device may do wrong without a word: lose a write, send it elsewhere, bring something else of a
//! sector. What is planned so the shadow does as well, and whoever meets it finds it; it is no
//! violation then, but a run must not miss it.
//!
//! Cost: O(log sectors) a sector moved. For the swarm.

mod promises;

use std::collections::{BTreeMap, BTreeSet};

use elevon_cache::FrameId;
use elevon_cache::page_cache::{ByteCopy, Way};
use elevon_core::driver::{Command, Completion, Piece};
use elevon_core::op::Op;
use elevon_core::stack::Io;
use elevon_core::status::Status;
use elevon_core::units::{PAGE_SECTORS, SECTOR_SIZE, TaskId};
use elevon_sim::device::fault::Silent;
use elevon_sim::device::fault::content::Survivors;
use elevon_workload::region::Region;
use elevon_workload::token::Token;

use super::Sabotage;
use super::cache::OTHER_PROGRAMS_FILE;
use super::checkers::Issued;

/// What a frame holds that was never filled.
const GARBAGE: u64 = u64::MAX;
/// What a device brought of a sector that has rotted.
const ROTTEN: u64 = u64::MAX - 1;
/// Not over.
const NEVER: u64 = u64::MAX;
const SECTORS: usize = PAGE_SECTORS as usize;

/// Sectors with their versions.
type SectorVersions = Vec<(u64, u64)>;

/// A version that a sector may have.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    version: u64,
    /// When its write was over; [`NEVER`] while a direct write is under way.
    ended: u64,
    /// When a later write took its place.
    gone: u64,
}

#[derive(Clone, Debug, Default)]
struct Cell {
    candidates: Vec<Candidate>,
    /// Since when nothing can be said.
    loose: Option<u64>,
    /// Until when nothing could be said, the last time: who began to read before may have seen
    /// anything.
    loose_until: u64,
    /// When a bio that was to write it failed last.
    failed: u64,
    /// What a cut of power must leave, or something newer.
    floor: u64,
}

impl Cell {
    /// The version that it has for certain.
    fn only(&self) -> Option<u64> {
        let mut live = self.candidates.iter().filter(|candidate| candidate.gone == NEVER);
        match (live.next(), live.next(), self.loose) {
            (Some(one), None, None) if one.ended != NEVER => Some(one.version),
            _ => None,
        }
    }

    /// Whether who began to read at `since` may see `version`.
    fn allows(&self, version: u64, since: u64) -> bool {
        let candidates = &mut self.candidates.iter();
        self.loose.is_some()
            || since < self.loose_until
            || candidates.any(|candidate| candidate.version == version && candidate.gone > since)
    }
}

/// How an I/O of a program goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Through a descriptor.
    Buffered,
    /// Through a mapping.
    Mapped,
    /// Past the cache.
    Direct,
}

/// What is known of a program that has files open.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) manner: Manner,
    /// Its writes are over when they are durable (`sync=`).
    pub(super) sync_writes: bool,
    /// What its fsync covers.
    pub(super) regions: Vec<Region>,
    /// A write error that it has not been told of: since when, and of late.
    untold: Option<(u64, u64)>,
    /// It may have been told of what is untold, or not.
    unsure: bool,
}

impl User {
    pub(super) const fn new(manner: Manner, sync_writes: bool, regions: Vec<Region>) -> Self {
        Self { manner, sync_writes, regions, untold: None, unsure: false }
    }
}

/// An I/O of a program.
#[derive(Clone, Debug)]
struct Doing {
    op: Op,
    manner: Manner,
    /// First byte on the device, and bytes.
    place: Region,
    begun: u64,
    /// What a direct write writes.
    version: u64,
    moved: u64,
    /// What it put into frames, by sector.
    landed: SectorVersions,
    /// What the device must hold when it is over, and after a cut of power as well.
    promises: SectorVersions,
    is_durable: bool,
    /// How many bytes it must move; `None` where nobody knows.
    expects: Option<u64>,
}

/// A bio of the cache.
#[derive(Clone, Debug)]
struct CacheBio {
    io: Io,
    frames: Vec<FrameId>,
    /// Bytes of commands that went well.
    moved: u64,
}

/// A command in the device.
#[derive(Clone, Debug)]
struct Carried {
    command: Command,
    pieces: Vec<Piece>,
    /// What it writes, by sector.
    carries: SectorVersions,
    silent: Option<Silent>,
}

impl Carried {
    /// What the medium gets, and where.
    fn landing(&self) -> SectorVersions {
        match self.silent {
            Some(Silent::Lost) => SectorVersions::new(),
            Some(Silent::Misdirected(to)) => {
                let first = self.command.sector.get();
                self.carries.iter().map(|&(sector, version)| (sector - first + to.get(), version)).collect()
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
    /// The first sector of the page in each frame.
    homes: Vec<Option<u64>>,
    device: BTreeMap<u64, u64>,
    cells: BTreeMap<u64, Cell>,
    users: BTreeMap<u32, User>,
    doing: BTreeMap<(u32, u64), Doing>,
    bios: BTreeMap<(u32, u64), CacheBio>,
    /// By request.
    carried: BTreeMap<u32, Carried>,
    /// Sectors that the device may hold wrongly, because it lost writes or sent them elsewhere
    /// without a word.
    damaged: BTreeSet<u64>,
    /// What every write wrote, by sequence and in order of sectors; only where the power is cut.
    written: BTreeMap<u64, SectorVersions>,
    /// First sector that a truncation under way cuts off, and the one after the last.
    truncating: Option<(u64, u64)>,
    last_failure: u64,
    /// How often somebody met what the device did wrong without a word.
    pub(super) found: u64,
    /// Copies, completions, ends so far, for what is made wrong on purpose.
    counted: u64,
    /// What is wrong: the property, and how.
    pub(super) wrong: Vec<(&'static str, String)>,
}

impl Shadow {
    pub(super) fn new(frames: usize, has_bytes: bool, writes_through: bool, sabotage: Option<Sabotage>) -> Self {
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
            counted: 0,
            wrong: Vec::new(),
        }
    }

    /// A phase begins with an empty cache, over what the device holds.
    pub(super) fn begin_phase(&mut self, users: BTreeMap<u32, User>) {
        self.frames.fill([GARBAGE; SECTORS]);
        self.homes.fill(None);
        self.cells.clear();
        self.doing.clear();
        self.bios.clear();
        self.carried.clear();
        self.damaged.clear();
        self.truncating = None;
        self.users = users;
    }

    fn accuse(&mut self, property: &'static str, message: String) {
        self.wrong.push((property, message));
    }

    /// Whether what is wrong with a sector, of which `seen` was seen, is a fault of the device that
    /// was planned. It is found then.
    fn is_planned(&mut self, sector: u64, seen: u64) -> bool {
        let is_planned = seen == ROTTEN || self.damaged.contains(&sector);
        self.found += u64::from(is_planned);
        is_planned && self.sabotage != Some(Sabotage::ForgetFaults)
    }

    /// Whether the thing that is made wrong on purpose is due now: every one from the third on.
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

    /// A version gets into the cache: it takes the place of all but direct writes under way.
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

    /// The page of a frame changes: what it held must not be lost.
    fn settle_in(&mut self, slot: FrameId, home: u64) {
        let at = slot.0 as usize;
        if let Some(old) = self.homes[at].replace(home) {
            for k in 0..SECTORS {
                let (sector, held) = (old + k as u64, self.frames[at][k]);
                let is_last = self.cells.get(&sector).and_then(Cell::only) == Some(held);
                if is_last && self.on_device(sector) != held && !self.is_planned(sector, held) {
                    let there = self.on_device(sector);
                    self.accuse(
                        "freed",
                        format!("{slot:?} with version {held} of sector {sector} went; {there} is left"),
                    );
                }
            }
        }
        self.frames[at] = [GARBAGE; SECTORS];
    }

    /// A program gives an I/O, or the cache a bio.
    pub(super) fn on_io(&mut self, io: &Io, frames: &[FrameId]) {
        self.clock += 1;
        if !Token::is_of_cache(io.token) {
            let place = Region { start: io.sector.byte_offset(), len: io.bytes.get() };
            let expects = if io.op.has_data() { Some(place.len) } else { None };
            return self.begin(io.task, io.token, io.op, place, expects);
        }
        if self.has_bytes && io.op.has_data() {
            for (n, &slot) in frames.iter().enumerate() {
                let home = io.sector.get() + n as u64 * PAGE_SECTORS;
                if io.op == Op::Read {
                    self.settle_in(slot, home);
                } else if self.homes[slot.0 as usize] != Some(home) {
                    let held = self.homes[slot.0 as usize];
                    self.accuse("contents", format!("{slot:?} of sector {held:?} is written to sector {home}"));
                }
            }
        }
        self.bios.insert((io.task.0, io.token), CacheBio { io: *io, frames: frames.to_vec(), moved: 0 });
    }

    /// A program begins with an I/O at a place on the device.
    pub(super) fn begin(&mut self, task: TaskId, token: u64, op: Op, place: Region, expects: Option<u64>) {
        self.clock += 1;
        let manner = self.users.get(&task.0).map_or(Manner::Direct, |user| user.manner);
        // Discards go past the cache.
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
                }
            }
        }
        let (moved, landed, begun, promises) = (0, Vec::new(), self.clock, Vec::new());
        let doing = Doing { op, manner, place, begun, version, moved, landed, promises, is_durable: true, expects };
        self.doing.insert((task.0, token), doing);
        if op == Op::Flush {
            let regions = self.users.get(&task.0).map_or_else(Vec::new, |user| user.regions.clone());
            self.promise(task, token, &regions, true);
        }
    }

    /// A call that has begun touches a mapping.
    pub(super) fn mapped(&mut self, task: TaskId, token: u64) {
        if let Some(doing) = self.doing.get_mut(&(task.0, token)) {
            doing.manner = Manner::Mapped;
        }
    }

    /// A call that has begun is to write what is there now. `is_durable`: and to flush the device.
    pub(super) fn promise(&mut self, task: TaskId, token: u64, regions: &[Region], is_durable: bool) {
        let promises = self.promises_of(regions);
        if let Some(doing) = self.doing.get_mut(&(task.0, token)) {
            (doing.promises, doing.is_durable) = (promises, is_durable);
        }
    }

    /// What a sync that begins now must find on the device.
    fn promises_of(&self, regions: &[Region]) -> SectorVersions {
        let within = |region: &Region| self.cells.range(region.start / SECTOR_SIZE..region_end(*region));
        // What is rotten may be gone at any time.
        let certain = |cell: &Cell| cell.only().filter(|&version| version != ROTTEN);
        regions.iter().flat_map(within).filter_map(|(&sector, cell)| Some((sector, certain(cell)?))).collect()
    }

    /// A file is cut: nothing is said of what lies behind, until the call is over and it is written
    /// again.
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

    /// Bytes move between a frame and a program's buffer.
    pub(super) fn on_copy(&mut self, copy: &ByteCopy) {
        self.clock += 1;
        let Some(doing) = self.doing.get_mut(&(copy.task.0, copy.token)) else { return };
        let byte = doing.place.start + copy.call_offset;
        let (begun, at, home) =
            (doing.begun, copy.slot.0 as usize, (byte - u64::from(copy.frame_offset)) / SECTOR_SIZE);
        if copy.way != Way::Zero {
            doing.moved += u64::from(copy.bytes);
        }
        let first = copy.frame_offset as usize / SECTOR_SIZE as usize;
        let count = copy.bytes as usize / SECTOR_SIZE as usize;
        match copy.way {
            Way::ToCall => {
                if self.homes[at] != Some(home) {
                    let held = self.homes[at];
                    self.accuse("contents", format!("{copy:?} for sector {home} is of a frame with {held:?}"));
                }
                for k in first..first + count {
                    self.look(home + k as u64, self.frames[at][k], self.clock, &format!("{copy:?} begun at {begun}"));
                }
            }
            Way::ToFrame | Way::Zero => {
                if self.homes[at] != Some(home) {
                    self.settle_in(copy.slot, home);
                }
                let (first, count) = if copy.way == Way::Zero { (0, SECTORS) } else { (first, count) };
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

    /// A page is changed. Sectors of it that a direct write under way writes may come from either,
    /// whoever wrote them: the page goes back whole, with what it held of them. (So it does in
    /// Linux, which warns of it: `docs/faithfulness.md`.)
    fn collide(&mut self, home: u64) {
        for sector in home..home + PAGE_SECTORS {
            let is_under_way = |cell: &Cell| cell.candidates.iter().any(|candidate| candidate.ended == NEVER);
            if self.cells.get(&sector).is_some_and(is_under_way) {
                self.loosen(sector);
            }
        }
    }

    /// A program sees a version.
    fn look(&mut self, sector: u64, seen: u64, since: u64, about: &str) {
        if seen == GARBAGE {
            return self.accuse("contents", format!("sector {sector}: {about} sees what was never read"));
        }
        if !self.cell(sector).allows(seen, since) && !self.is_planned(sector, seen) {
            let cell = self.cell(sector);
            let message = format!("sector {sector}: {about} sees version {seen}; {cell:?}");
            self.accuse("contents", message);
        }
    }

    /// The device took a command.
    pub(super) fn on_command(&mut self, issued: &Issued) {
        self.clock += 1;
        let Issued { command, pieces, silent, .. } = issued;
        let mut carries = Vec::new();
        if self.has_bytes && command.op.is_write() {
            for piece in pieces {
                for (n, sector) in sectors_of(piece).enumerate() {
                    carries.push((sector, self.source(piece, n)));
                }
            }
            if carries.iter().any(|&(_, version)| version == GARBAGE) {
                self.accuse("contents", format!("{command:?} writes what was never read"));
            }
        }
        let carried = Carried { command: *command, pieces: pieces.clone(), carries, silent: *silent };
        if self.has_bytes && command.op.is_write() {
            let mut landing = carried.landing();
            if silent.is_some() {
                self.damaged.extend(carried.carries.iter().chain(&landing).map(|&(sector, _)| sector));
            }
            // A page that was read rotten is written back with what was not overwritten.
            self.damaged.extend(landing.iter().filter(|&&(_, version)| version == ROTTEN).map(|&(sector, _)| sector));
            landing.sort_unstable();
            self.written.insert(command.sequence, landing);
        }
        self.carried.insert(command.request.0, carried);
    }

    /// The version that sector `n` of a piece has in memory.
    fn source(&self, piece: &Piece, n: usize) -> u64 {
        let key = (piece.task.0, piece.token);
        if !Token::is_of_cache(piece.token) {
            return self.doing.get(&key).map_or(GARBAGE, |doing| doing.version);
        }
        let at = piece.offset as usize / SECTOR_SIZE as usize + n;
        self.bios.get(&key).map_or(GARBAGE, |bio| self.frames[bio.frames[at / SECTORS].0 as usize][at % SECTORS])
    }

    /// The device answers.
    pub(super) fn on_completion(&mut self, completion: &Completion) {
        self.clock += 1;
        let Some(mut carried) = self.carried.remove(&completion.request.0) else { return };
        let command = carried.command;
        let is_whole = completion.status.is_ok() && completion.bytes >= command.bytes;
        if !is_whole {
            // What comes before the place of an error has moved: bios that lie in it wholly end
            // well.
            carried.pieces = first_bytes(&carried.pieces, completion.bytes.get());
        }
        for piece in &carried.pieces {
            let is_missed = self.spoils(Sabotage::MissPiece);
            if let Some(bio) = self.bios.get_mut(&(piece.task.0, piece.token)) {
                bio.moved += if is_missed { 0 } else { piece.len };
            }
        }
        if !is_whole && command.op != Op::Read {
            return carried.carries.into_iter().for_each(|(sector, _)| self.loosen(sector));
        }
        if !self.has_bytes {
            return;
        }
        let is_rotten = carried.silent == Some(Silent::Rotten);
        match command.op {
            Op::Read if self.spoils(Sabotage::GarbleRead) => {}
            Op::Read => carried.pieces.iter().for_each(|piece| self.fill(piece, is_rotten)),
            _ => self.store(&carried),
        }
    }

    /// The device has given the sectors of a piece.
    fn fill(&mut self, piece: &Piece, is_rotten: bool) {
        let key = (piece.task.0, piece.token);
        for (n, sector) in sectors_of(piece).enumerate() {
            let held = if is_rotten { ROTTEN } else { self.on_device(sector) };
            if let Some(bio) = self.bios.get(&key) {
                let at = piece.offset as usize / SECTOR_SIZE as usize + n;
                self.frames[bio.frames[at / SECTORS].0 as usize][at % SECTORS] = held;
            } else if let Some(doing) = self.doing.get(&key) {
                let since = doing.begun;
                self.look(
                    sector,
                    held,
                    since,
                    &format!("direct read {}/{} begun at {since}", piece.task.0, piece.token),
                );
            }
        }
    }

    /// The device has the sectors of a command.
    fn store(&mut self, carried: &Carried) {
        let Carried { command, pieces, carries, .. } = carried;
        let mut at = 0;
        if self.spoils(Sabotage::ChangeFrame) {
            self.frames.iter_mut().flatten().for_each(|version| *version ^= 1 << 62);
        }
        for piece in pieces {
            for n in 0..sectors_of(piece).count() {
                if command.op == Op::Write && self.source(piece, n) != carries[at].1 {
                    let now = self.source(piece, n);
                    self.accuse("stable", format!("{command:?} wrote {:?}, which is {now} now", carries[at]));
                }
                at += 1;
            }
        }
        if self.spoils(Sabotage::ForgetWrite) {
            return;
        }
        self.device.extend(carried.landing());
    }

    /// The device gave a command up.
    pub(super) fn on_abort(&mut self, command: &Command) {
        self.clock += 1;
        if let Some(Carried { carries, .. }) = self.carried.remove(&command.request.0) {
            carries.into_iter().for_each(|(sector, _)| self.loosen(sector));
        }
    }

    /// The power was cut: what the device holds now, by block.
    pub(super) fn on_cut(&mut self, left: &Survivors, block_size: u64) {
        self.clock += 1;
        let mut device = BTreeMap::new();
        for (&block, &generation) in left {
            let Some(list) = generation.checked_sub(1).and_then(|sequence| self.written.get(&sequence)) else {
                continue;
            };
            let per_block = block_size / SECTOR_SIZE;
            for sector in block * per_block..(block + 1) * per_block {
                if let Ok(at) = list.binary_search_by_key(&sector, |&(sector, _)| sector) {
                    device.insert(sector, list[at].1);
                }
            }
        }
        let old = std::mem::replace(&mut self.device, device);
        let known: BTreeSet<u64> = old.keys().chain(self.device.keys()).copied().collect();
        let mut lost = BTreeSet::new();
        for sector in known {
            let (before, now) = (old.get(&sector).copied().unwrap_or(0), self.on_device(sector));
            let floor = self.cells.get(&sector).map_or(0, |cell| cell.floor);
            if now < floor && !self.is_planned(sector, now) {
                let message = format!("sector {sector} holds {now} after a cut of power, {floor} was synced");
                self.accuse("synced", message);
            }
            if before != now {
                self.loosen(sector);
                lost.insert(sector);
            }
        }
        // A sync under way had found these written, and cannot know: it promises nothing of them,
        // even if they are written again.
        for doing in self.doing.values_mut() {
            doing.promises.retain(|(sector, _)| !lost.contains(sector));
            doing.landed.retain(|(sector, _)| !lost.contains(sector));
        }
    }

    /// A program has its I/O back, or the cache a bio.
    pub(super) fn on_io_over(&mut self, task: TaskId, token: u64, status: Status, bytes: Option<u64>) {
        self.clock += 1;
        if Token::is_of_cache(token) {
            return self.bio_over(task, token, status);
        }
        let Some(doing) = self.doing.remove(&(task.0, token)) else { return };
        if doing.manner == Manner::Direct && doing.op.is_write() {
            self.end_direct(&doing, status);
        }
        let expects = bytes.or(doing.expects).filter(|_| self.has_bytes && doing.manner != Manner::Direct);
        if let Some(expects) = expects.filter(|&expects| status.is_ok() && expects != doing.moved) {
            self.accuse("contents", format!("{task:?}/{token} went well, with {} of {expects} bytes", doing.moved));
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
        // What a discard leaves behind is not said; nor what a write that failed has done.
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
                self.accuse("moved", format!("{io:?} went well, and its commands moved {moved} of {bytes} bytes"));
            }
            return;
        }
        self.last_failure = self.clock;
        if io.op == Op::Write {
            let (clock, byte) = (self.clock, io.sector.byte_offset());
            for sector in sectors(Region { start: byte, len: io.bytes.get() }) {
                self.cell(sector).failed = clock;
            }
            for user in self.users.values_mut() {
                let is_of_file = if byte >= OTHER_PROGRAMS_FILE { user.is_apart() } else { !user.is_apart() };
                if is_of_file {
                    user.untold = Some((user.untold.map_or(clock, |(since, _)| since), clock));
                }
            }
        }
    }

    /// Nothing is under way any more.
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
    /// It has a file of its own; all others have the device open.
    fn is_apart(&self) -> bool {
        matches!(self.regions[..], [region] if region.start >= OTHER_PROGRAMS_FILE)
    }
}

fn region_end(region: Region) -> u64 {
    (region.start + region.len).div_ceil(SECTOR_SIZE)
}

fn sectors(place: Region) -> std::ops::Range<u64> {
    place.start / SECTOR_SIZE..region_end(place)
}

/// The pieces that make up the first `bytes` of a command; the last may be a part of one.
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
