//! Power cuts in virtual time: what a client was told is durable is there afterwards, under every
//! way in which a volatile cache may lose the rest.

use std::collections::BTreeMap;

use elevon_nbd::{Command, Request};
use elevon_sim::device::fault::content::PowerCut;
use elevon_testkit::Rng;

use super::lab::{Lab, Wire};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 24;
/// Runs, each of another seed.
const SEEDS: u64 = 3_000;

/// What a client knows of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The write that was last sent; 0 for none.
    sent: u8,
    /// The last one that was answered.
    answered: u8,
    /// The last one that must survive.
    durable: u8,
    is_busy: bool,
}

/// What was asked for, by cookie.
#[derive(Clone, Debug)]
enum Asked {
    Write {
        block: u64,
        stamp: u8,
        fua: bool,
    },
    /// With what had been answered of each block when it was sent.
    Flush(Vec<u8>),
}

struct Run {
    lab: Lab,
    wire: Wire,
    rng: Rng,
    blocks: Vec<Known>,
    asked: BTreeMap<u64, Asked>,
    cookie: u64,
    failed_flushes: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let device = ["ufs-3.1", "sata-ssd-860evo", "hdd-7200"][(seed % 3) as usize];
        let faults: &[&str] = if seed.is_multiple_of(5) { &["flush_error:ppm=300000,status=medium"] } else { &[] };
        let scheduler = ["none", "mq-deadline", "flow"][(seed / 3 % 3) as usize];
        let mut lab = Lab::to_be_cut(device, faults, scheduler);
        let wire = lab.open(0, "");
        let blocks = vec![Known::default(); BLOCKS as usize];
        let (rng, asked) = (Rng(seed + 1), BTreeMap::new());
        Self { lab, wire, rng, blocks, asked, cookie: 0, failed_flushes: 0 }
    }

    /// Sends a request, most often a write of a block that has none in flight.
    fn ask(&mut self) {
        self.cookie += 1;
        let (cookie, block) = (self.cookie, self.rng.below(BLOCKS));
        let known = &mut self.blocks[block as usize];
        let fua = self.rng.below(8) == 0;
        if self.rng.below(6) == 0 {
            self.asked.insert(cookie, Asked::Flush(self.blocks.iter().map(|known| known.answered).collect()));
            let request = Request { command: Command::Flush, fua: false, df: false, cookie, offset: 0, length: 0 };
            self.wire.ask(&request, &[]);
        } else if !known.is_busy && known.sent < u8::MAX {
            (known.is_busy, known.sent) = (true, known.sent + 1);
            let stamp = known.sent;
            self.asked.insert(cookie, Asked::Write { block, stamp, fua });
            let (offset, length) = (block * BLOCK, BLOCK);
            let request = Request { command: Command::Write, fua, df: false, cookie, offset, length };
            self.wire.ask(&request, &[stamp; BLOCK as usize]);
        }
    }

    fn take_replies(&mut self) {
        while let Some((cookie, is_ok)) = self.wire.answer() {
            match self.asked.remove(&cookie).expect("an answer to a question") {
                Asked::Write { block, stamp, fua } => {
                    let known = &mut self.blocks[block as usize];
                    known.is_busy = false;
                    if is_ok {
                        known.answered = stamp;
                        known.durable = if fua { stamp } else { known.durable };
                    }
                }
                Asked::Flush(answered) if is_ok => {
                    for (known, stamp) in self.blocks.iter_mut().zip(answered) {
                        known.durable = known.durable.max(stamp);
                    }
                }
                Asked::Flush(_) => self.failed_flushes += 1,
            }
        }
    }

    /// Cuts the power, and returns the blocks that hold something else than they may.
    fn cut(&mut self, mode: PowerCut) -> Vec<(u64, u8, Known)> {
        let disk = &mut self.lab.device.disk;
        disk.cut_power(mode, 0);
        let mut wrong = Vec::new();
        for (block, known) in self.blocks.iter().enumerate() {
            // A sector is written whole or not at all; a block of several may be of two writes.
            for sector in disk.peek(block as u64 * BLOCK, BLOCK as usize).chunks(512) {
                let is_whole = sector.iter().all(|byte| *byte == sector[0]);
                if !is_whole || sector[0] < known.durable || sector[0] > known.sent {
                    wrong.push((block as u64, sector[0], *known));
                }
            }
        }
        wrong
    }
}

#[test]
fn what_is_durable_survives_a_power_cut() {
    let modes = PowerCut::ALL;
    let (mut durable, mut failed) = (0, 0);
    for seed in 0..SEEDS {
        let mut run = Run::new(seed);
        let steps = 50 + run.rng.below(250);
        for _ in 0..steps {
            for _ in 0..run.rng.below(3) {
                run.ask();
            }
            run.lab.step();
            run.take_replies();
        }
        let mode = modes[(seed % modes.len() as u64) as usize];
        let wrong = run.cut(mode);
        assert!(wrong.is_empty(), "seed {seed}, {mode:?}: {wrong:?}");
        durable += run.blocks.iter().filter(|known| known.durable > 0).count();
        failed += run.failed_flushes;
    }
    assert!(durable > SEEDS as usize && failed > 100, "{durable} durable blocks, {failed} failed flushes");
}

/// The check notices a device that forgets what it was told to keep.
#[test]
fn a_lost_block_is_noticed() {
    let mut run = Run::new(1);
    while run.blocks.iter().all(|known| known.durable == 0) {
        run.ask();
        run.lab.step();
        run.take_replies();
    }
    let block = run.blocks.iter().position(|known| known.durable > 0).expect("one is durable");
    run.blocks[block].durable = run.blocks[block].sent + 1;
    assert!(!run.cut(PowerCut::KeepAll).is_empty());
}
