//! Power cuts in virtual time: what a client was told is durable is there afterwards, under every
//! way in which a volatile cache may lose the rest.

use std::collections::BTreeMap;

use elevon_cache::page_cache::WriteMode;
use elevon_nbd::{Command, Request};
use elevon_sim::device::fault::content::PowerCut;
use elevon_testkit::Rng;

use super::lab::{Lab, Wire, cache};

const BLOCKS: u64 = 24;
/// Runs, each of another seed, without and with a page cache, and of parts of blocks.
const SEEDS: u64 = 3_000;
const CACHED_SEEDS: u64 = 3_000;
const PART_SEEDS: u64 = 600;
/// The bytes of a write of parts of blocks. Neighbours share a block of any device.
const PART: u64 = 1_000;

/// Returns the bytes that a write leaves: every fifth is a WRITE_ZEROES.
const fn byte_of(stamp: u8) -> u8 {
    if stamp.is_multiple_of(5) { 0 } else { stamp }
}

/// What a client knows of a block.
#[derive(Clone, Copy, Debug, Default)]
struct KnownBlock {
    /// The write that was last sent, of data or of zeroes; 0 for none.
    sent: u8,
    /// The last one that was answered.
    answered: u8,
    /// The last one that must survive.
    durable: u8,
    is_busy: bool,
}

impl KnownBlock {
    /// Returns true if the block may hold this byte, if it has to be of this write or a later one.
    fn may_hold(&self, byte: u8, from: u8) -> bool {
        (from..=self.sent).any(|stamp| byte_of(stamp) == byte)
    }
}

/// What was asked for, by cookie.
#[derive(Clone, Debug)]
enum Asked {
    Write {
        block: u64,
        stamp: u8,
        fua: bool,
    },
    /// With what had been answered of the block when it was sent.
    Read {
        block: u64,
        answered: u8,
    },
    /// With what had been answered of each block when it was sent.
    Flush(Vec<u8>),
}

struct Run {
    lab: Lab,
    /// A client may have several connections; a flush on one covers what was answered on all.
    wires: Vec<Wire>,
    block: u64,
    reads: u64,
    rng: Rng,
    blocks: Vec<KnownBlock>,
    asked: BTreeMap<u64, Asked>,
    cookie: u64,
    failed_flushes: u64,
}

impl Run {
    fn new(seed: u64, is_cached: bool, has_parts: bool) -> Self {
        let device = ["ufs-3.1", "sata-ssd-860evo", "hdd-7200"][(seed % 3) as usize];
        let faults: &[&str] =
            if seed.is_multiple_of(5) { &["flush_error:ppm=300000,status=medium"] } else { &[] };
        let scheduler = ["none", "mq-deadline", "aileron"][(seed / 3 % 3) as usize];
        let mode = if seed % 4 == 3 { WriteMode::Through } else { WriteMode::Back };
        // Less than the blocks have, so that dirty pages have to go.
        let cache = is_cached.then(|| cache(64 << 10, mode));
        let mut lab = Lab::with_power_cuts(device, faults, scheduler, cache);
        let wires =
            (0..1 + u32::from(is_cached || has_parts)).map(|client| lab.open(client, "")).collect();
        let blocks = vec![KnownBlock::default(); BLOCKS as usize];
        let (rng, asked) = (Rng(seed + 1), BTreeMap::new());
        // Of a page, too.
        let block = match has_parts {
            true => PART,
            false if is_cached && device != "ufs-3.1" && seed % 2 == 1 => 1024,
            false => 4096,
        };
        Self { lab, wires, block, reads: 0, rng, blocks, asked, cookie: 0, failed_flushes: 0 }
    }

    /// Returns the bytes that are written whole or not at all.
    fn atom(&self) -> usize {
        if self.block == PART { 1 } else { 512 }
    }

    /// Sends a request on one of the connections.
    fn send(&mut self, request: &Request, payload: &[u8]) {
        let wires = self.wires.len() as u64;
        let wire = if wires > 1 { self.rng.below(wires) } else { 0 };
        self.wires[wire as usize].ask(request, payload);
    }

    /// Sends a request, most often a write of a block that has none in flight.
    fn ask(&mut self) {
        self.cookie += 1;
        let (cookie, block) = (self.cookie, self.rng.below(BLOCKS));
        let known = &mut self.blocks[block as usize];
        let fua = self.rng.below(8) == 0;
        if self.rng.below(6) == 0 {
            self.asked.insert(
                cookie,
                Asked::Flush(self.blocks.iter().map(|known| known.answered).collect()),
            );
            let request = Request {
                command: Command::Flush,
                fua: false,
                df: false,
                cookie,
                offset: 0,
                length: 0,
            };
            self.send(&request, &[]);
        } else if self.wires.len() > 1 && self.rng.below(3) == 0 {
            let answered = known.answered;
            self.asked.insert(cookie, Asked::Read { block, answered });
            let (offset, length) = (block * self.block, self.block);
            self.send(
                &Request { command: Command::Read, fua: false, df: false, cookie, offset, length },
                &[],
            );
        } else if !known.is_busy && known.sent < u8::MAX {
            (known.is_busy, known.sent) = (true, known.sent + 1);
            let stamp = known.sent;
            self.asked.insert(cookie, Asked::Write { block, stamp, fua });
            let (offset, length) = (block * self.block, self.block);
            let (command, payload) = match byte_of(stamp) {
                0 => (Command::WriteZeroes { no_hole: false, fast: false }, Vec::new()),
                byte => (Command::Write, vec![byte; length as usize]),
            };
            self.send(&Request { command, fua, df: false, cookie, offset, length }, &payload);
        }
    }

    fn take_replies(&mut self) {
        for wire in 0..self.wires.len() {
            while let Some((cookie, is_ok)) = self.wires[wire].answer() {
                self.take_reply(wire, cookie, is_ok);
            }
        }
    }

    fn take_reply(&mut self, wire: usize, cookie: u64, is_ok: bool) {
        match self.asked.remove(&cookie).expect("an answer to a question") {
            Asked::Write { block, stamp, fua } => {
                let known = &mut self.blocks[block as usize];
                known.is_busy = false;
                if is_ok {
                    known.answered = stamp;
                    known.durable = if fua { stamp } else { known.durable };
                }
            }
            Asked::Read { block, answered } => {
                let (known, read, atom) =
                    (&self.blocks[block as usize], &self.wires[wire].read, self.atom());
                let sectors = || read.chunks(atom);
                assert!(
                    is_ok && sectors().all(|all| all.iter().all(|byte| *byte == all[0])),
                    "a torn sector"
                );
                assert!(
                    sectors().all(|all| known.may_hold(all[0], answered)),
                    "{read:?}, {known:?}"
                );
                self.reads += 1;
            }
            Asked::Flush(answered) if is_ok => {
                for (known, stamp) in self.blocks.iter_mut().zip(answered) {
                    known.durable = known.durable.max(stamp);
                }
            }
            Asked::Flush(_) => self.failed_flushes += 1,
        }
    }

    /// Cuts the power, and returns the blocks that hold something else than they may.
    fn cut_power(&mut self, mode: PowerCut) -> Vec<(u64, u8, KnownBlock)> {
        let atom = self.atom();
        let disk = self.lab.device.engine.backend_mut();
        disk.cut_power(mode, 0);
        let mut wrong = Vec::new();
        for (block, known) in self.blocks.iter().enumerate() {
            // A sector is written whole or not at all; a block of several may be of two writes.
            for sector in disk.peek(block as u64 * self.block, self.block as usize).chunks(atom) {
                let is_whole = sector.iter().all(|byte| *byte == sector[0]);
                if !is_whole || !known.may_hold(sector[0], known.durable) {
                    wrong.push((block as u64, sector[0], *known));
                }
            }
        }
        wrong
    }
}

/// Runs of all seeds, each with a cut. Returns how many blocks were durable, how many flushes had
/// failed, and how many reads were looked at.
fn runs(seeds: u64, is_cached: bool, has_parts: bool) -> (usize, u64, u64) {
    let modes = PowerCut::ALL;
    let (mut durable, mut failed, mut reads) = (0, 0, 0);
    for seed in 0..seeds {
        let mut run = Run::new(seed, is_cached, has_parts);
        // Parts are read before they are written.
        let steps = (50 + run.rng.below(250)) * if has_parts { 3 } else { 1 };
        for _ in 0..steps {
            for _ in 0..run.rng.below(3) {
                run.ask();
            }
            run.lab.step();
            run.take_replies();
        }
        let mode = modes[(seed % modes.len() as u64) as usize];
        let wrong = run.cut_power(mode);
        assert!(wrong.is_empty(), "seed {seed}, {mode:?}: {wrong:?}");
        durable += run.blocks.iter().filter(|known| known.durable > 0).count();
        failed += run.failed_flushes;
        reads += run.reads;
    }
    (durable, failed, reads)
}

#[test]
fn what_is_durable_survives_a_power_cut() {
    let (durable, failed, _) = runs(SEEDS, false, false);
    assert!(
        durable > SEEDS as usize && failed > 100,
        "{durable} durable blocks, {failed} failed flushes"
    );
}

#[test]
fn what_is_durable_survives_a_power_cut_with_a_page_cache() {
    let (durable, failed, reads) = runs(CACHED_SEEDS, true, false);
    assert!(
        durable > CACHED_SEEDS as usize && failed > 100,
        "{durable} durable blocks, {failed} failed flushes"
    );
    assert!(reads > 10 * CACHED_SEEDS, "{reads} reads");
}

/// The blocks that neighbours share are written again and again, which takes nothing from what is
/// durable of either.
#[test]
fn what_is_durable_of_parts_of_blocks_survives_a_power_cut() {
    for is_cached in [false, true] {
        let (durable, failed, _) = runs(PART_SEEDS, is_cached, true);
        assert!(
            durable > PART_SEEDS as usize && failed > 30,
            "{durable} durable parts, {failed} failed flushes"
        );
    }
}

/// The check notices a device that forgets what it was told to keep.
#[test]
fn a_lost_block_is_noticed() {
    for is_cached in [false, true] {
        let mut run = Run::new(1, is_cached, false);
        while run.blocks.iter().all(|known| known.durable == 0) {
            run.ask();
            run.lab.step();
            run.take_replies();
        }
        let block = run.blocks.iter().position(|known| known.durable > 0).expect("one is durable");
        run.blocks[block].durable = run.blocks[block].sent + 1;
        assert!(!run.cut_power(PowerCut::KeepAll).is_empty());
    }
}
