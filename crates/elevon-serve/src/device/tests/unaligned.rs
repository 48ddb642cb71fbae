//! Requests of any range of bytes, of clients that were not told the sizes of blocks, against plain
//! memory.

use std::collections::BTreeMap;

use elevon_cache::page_cache::WriteMode;
use elevon_core::units::{Nanos, TenantId};
use elevon_nbd::{Command, Request};
use elevon_testkit::Rng;

use super::lab::{Lab, Wire, cache};

/// Blocks of 512 bytes, and of 4,096.
const DISKS: [&str; 2] =
    ["slots:slots=8,latency=100us,bandwidth=2GB/s,size=64MiB,queue_depth=64", "ufs-3.1"];
/// The bytes of the disk that are used.
const AREA: u64 = 96 << 10;

const ZEROES: Command = Command::WriteZeroes { no_hole: false, fast: false };

/// A request that is not answered.
#[derive(Debug)]
struct Asked {
    request: Request,
    /// What it writes; of a READ nothing.
    byte: u8,
    /// Of a READ: the values that each of its bytes may have.
    allowed: Vec<Vec<u8>>,
}

impl Asked {
    fn range(&self) -> std::ops::Range<usize> {
        self.request.offset as usize..(self.request.offset + self.request.length) as usize
    }

    fn writes(&self) -> bool {
        matches!(self.request.command, Command::Write | Command::WriteZeroes { .. })
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.range().start.max(other.range().start) < self.range().end.min(other.range().end)
    }
}

struct Run {
    lab: Lab,
    wires: Vec<Wire>,
    rng: Rng,
    /// What was answered.
    model: Vec<u8>,
    asked: BTreeMap<u64, Asked>,
    cookie: u64,
    /// Writes that shared a block with one in flight.
    shared: u64,
    reads: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let scheduler = ["none", "mq-deadline", "bfq", "kyber", "aileron"][(seed % 5) as usize];
        let disk = DISKS[(seed / 5 % 2) as usize];
        let tenants =
            if seed % 7 == 6 { "[tenant.a]\nlimit = { iops = 2000 }\n" } else { "[tenant.a]\n" };
        let mut lab = match seed % 3 {
            0 => Lab::new(disk, &[], scheduler, tenants),
            1 => Lab::cached(disk, &[], scheduler, tenants, cache(64 << 10, WriteMode::Back)),
            _ => Lab::cached(disk, &[], scheduler, tenants, cache(64 << 10, WriteMode::Through)),
        };
        let base = 8192 * (seed % 4);
        let wires = (0..3).map(|client| lab.open_range(client, "a", base, AREA)).collect();
        let (rng, model, asked) = (Rng(seed + 1), vec![0; AREA as usize], BTreeMap::new());
        Self { lab, wires, rng, model, asked, cookie: 0, shared: 0, reads: 0 }
    }

    /// Asks for something that has no byte in common with a write in flight, if it writes.
    fn ask(&mut self) {
        self.cookie += 1;
        let (cookie, byte) = (self.cookie, self.cookie as u8 | 1);
        let most = [40, 3000, 40_000][self.rng.below(3) as usize];
        let offset = self.rng.below(AREA - 1);
        let length = (1 + self.rng.below(most)).min(AREA - offset);
        let command = match self.rng.below(8) {
            0..4 => Command::Write,
            4 => ZEROES,
            5 => Command::Flush,
            _ => Command::Read,
        };
        let is_flush = command == Command::Flush;
        let (offset, length) = if is_flush { (0, 0) } else { (offset, length) };
        // Some requests are of whole blocks.
        let is_whole = !is_flush && self.rng.below(4) == 0;
        let (offset, length) = if is_whole {
            (offset / 4096 * 4096, length.next_multiple_of(4096))
        } else {
            (offset, length)
        };
        let length = length.min(AREA - offset);
        let fua = self.rng.below(6) == 0;
        let request = Request { command, fua, df: false, cookie, offset, length };
        let byte = if command == ZEROES { 0 } else { byte };
        let mut new = Asked { request, byte, allowed: Vec::new() };
        if new.writes() && self.asked.values().any(|other| other.writes() && other.overlaps(&new)) {
            return;
        }
        let blocks = |asked: &Asked| (asked.range().start / 512, (asked.range().end - 1) / 512);
        if new.writes() {
            let (first, last) = blocks(&new);
            let others = self.asked.values().filter(|other| other.writes()).map(blocks);
            self.shared +=
                others.filter(|other| other.0.max(first) <= other.1.min(last)).count() as u64;
            for read in self.asked.values_mut().filter(|other| !other.allowed.is_empty()) {
                allow(read, &new);
            }
        }
        if command == Command::Read {
            new.allowed = self.model[new.range()].iter().map(|&byte| vec![byte]).collect();
            for other in self.asked.values().filter(|other| other.writes()) {
                allow(&mut new, other);
            }
        }
        let payload =
            if command == Command::Write { vec![byte; length as usize] } else { Vec::new() };
        let wire = self.rng.below(self.wires.len() as u64) as usize;
        self.asked.insert(cookie, new);
        self.wires[wire].ask(&request, &payload);
    }

    fn take_replies(&mut self, seed: u64) {
        for wire in &mut self.wires {
            while let Some((cookie, is_ok)) = wire.answer() {
                assert!(is_ok, "seed {seed}: the request succeeded");
                let asked = self.asked.remove(&cookie).expect("an answer to a question");
                if asked.writes() {
                    self.model[asked.range()].fill(asked.byte);
                }
                for (at, (byte, allowed)) in wire.read.iter().zip(&asked.allowed).enumerate() {
                    let place = asked.range().start + at;
                    assert!(
                        allowed.contains(byte),
                        "seed {seed}: byte {place} is {byte}, not of {allowed:?}"
                    );
                }
                self.reads += u64::from(!asked.allowed.is_empty());
            }
        }
    }
}

/// A READ may see what a write in flight writes.
fn allow(read: &mut Asked, write: &Asked) {
    let (start, range) = (read.range().start, write.range());
    for (at, allowed) in read.allowed.iter_mut().enumerate() {
        if range.contains(&(start + at)) {
            allowed.push(write.byte);
        }
    }
}

/// Several connections with requests in flight that share blocks and no bytes: each READ returns
/// bytes that were written there, and at the end the device has all of them.
#[test]
fn any_range_of_bytes_is_read_and_written() {
    let (mut shared, mut reads) = (0, 0);
    for seed in 0..105 {
        let mut run = Run::new(seed);
        for _ in 0..300 {
            for _ in 0..run.rng.below(4) {
                run.ask();
            }
            run.lab.step();
            run.take_replies(seed);
        }
        while !run.asked.is_empty() {
            assert!(run.lab.step(), "seed {seed}: {:?} are never answered", run.asked);
            run.take_replies(seed);
        }
        (shared, reads) = (shared + run.shared, reads + run.reads);
        let base = 8192 * (seed % 4);
        let (disk, _) = run.lab.end();
        assert!(disk.peek(base, AREA as usize) == run.model, "seed {seed}: the device at the end");
    }
    assert!(shared > 500 && reads > 500, "{shared} writes shared a block, {reads} reads");
}

fn request(command: Command, offset: u64, length: u64) -> Request {
    Request { command, fua: false, df: false, cookie: 1, offset, length }
}

/// Requests that need all buffers of a connection, one that changes the blocks of all of them and
/// has no buffer of its own among them, are all answered.
#[test]
fn requests_that_wait_for_each_other_are_answered() {
    for is_cached in [false, true] {
        let mut lab = if is_cached {
            Lab::cached(DISKS[0], &[], "none", "", cache(1 << 20, WriteMode::Back))
        } else {
            Lab::new(DISKS[0], &[], "none", "")
        };
        let mut wire = lab.open(0, "");
        let trim = Request { fua: true, ..request(Command::Trim, 0, 1 << 20) };
        wire.ask(&trim, &[]);
        for number in 0..200 {
            let write = Request { cookie: 2 + number, ..request(Command::Write, number * 700, 3) };
            wire.ask(&write, &[number as u8; 3]);
        }
        let mut answered = 0;
        while answered < 201 {
            match wire.answer() {
                Some((_, is_ok)) => answered += usize::from(is_ok),
                None => assert!(lab.step(), "{answered} of 201 are answered"),
            }
        }
        for number in 0..200_u64 {
            assert!(lab.ask(&mut wire, &request(Command::Read, number * 700, 4), &[]));
            assert_eq!(wire.read, [number as u8, number as u8, number as u8, 0]);
        }
    }
}

/// The longest requests need the most buffers.
#[test]
fn the_longest_requests_begin_and_end_at_any_byte() {
    const LENGTH: u64 = elevon_nbd::Export::PAYLOAD as u64;
    for (disk, offset) in [(DISKS[0], 1001), (DISKS[1], 4096), (DISKS[1], 5)] {
        let mut lab = Lab::new(disk, &[], "none", "");
        let mut wire = lab.open(0, "");
        let payload: Vec<u8> = (0..LENGTH).map(|at| ((at * 31) >> 3) as u8 | 1).collect();
        assert!(lab.ask(&mut wire, &request(Command::Write, offset, LENGTH), &payload));
        assert!(lab.ask(&mut wire, &request(Command::Read, offset + 1, LENGTH), &[]));
        assert!(
            wire.read[..payload.len() - 1] == payload[1..] && wire.read[payload.len() - 1] == 0
        );
        assert!(lab.ask(&mut wire, &request(ZEROES, offset + 3, LENGTH - 5), &[]));
        let (disk, _) = lab.end();
        let wanted = [
            &vec![0; offset as usize][..],
            &payload[..3],
            &vec![0; LENGTH as usize - 5],
            &payload[payload.len() - 2..],
        ];
        assert!(disk.peek(0, (offset + LENGTH) as usize) == wanted.concat());
    }
}

/// A block that cannot be read is not written, and its neighbours are as they were.
#[test]
fn an_error_of_a_block_that_is_changed_in_part_fails_the_request() {
    let faults = ["error:sectors=8-8,op=read,status=medium"];
    let mut lab = Lab::new(DISKS[0], &faults, "none", "");
    let mut wire = lab.open(0, "");
    assert!(
        lab.ask(&mut wire, &request(Command::Write, 4096, 512), &[1; 512]),
        "a whole block is not read"
    );
    for command in [Command::Write, ZEROES] {
        let length = 1024;
        let payload = if command == Command::Write { vec![2; length] } else { Vec::new() };
        assert!(!lab.ask(&mut wire, &request(command, 4096 - 600, length as u64), &payload));
    }
    assert!(
        lab.ask(&mut wire, &request(Command::Trim, 4096 - 600, 650), &[]),
        "a trim leaves parts of blocks"
    );
    assert!(lab.ask(&mut wire, &request(Command::Write, 4096 - 600, 88), &[3; 88]), "others go on");
    lab.wait_for(Nanos::from_millis(1));
    let (disk, _) = lab.end();
    assert_eq!(disk.peek(4096, 512), [1; 512]);
    assert_eq!(disk.peek(4096 - 700, 700), [&[0; 100][..], &[3; 88], &[0; 512]].concat());
}

/// The reads and writes of blocks are I/O of the tenant, under its limit.
#[test]
fn the_tenant_pays_for_the_blocks_that_are_read() {
    let mut lab = Lab::new(DISKS[0], &[], "none", "[tenant.a]\nlimit = { riops = 10 }\n");
    let mut wire = lab.open(0, "a");
    let began = lab.now();
    for number in 0..11 {
        assert!(lab.ask(&mut wire, &request(Command::Write, number * 1000 + 1, 400), &[1; 400]));
    }
    let took = lab.now().since(began);
    assert!(took > Nanos::from_secs(1), "22 reads of blocks and 10 a second took {took:?}");
}

/// A tenant floods a block with writes of parts, from many connections. Few of them are under way
/// at a time, all are answered, and a neighbour's requests do not wait for them.
#[test]
fn writes_of_parts_are_bounded_by_tenant() {
    let tenants = "[tenant.held]\nlimit = { wiops = 100 }\n[tenant.free]\n";
    let mut lab = Lab::new(DISKS[0], &[], "aileron", tenants);
    let mut wires: Vec<Wire> =
        (1..9).map(|client| lab.open_range(client, "held", 0, 1 << 20)).collect();
    for wire in &mut wires {
        for cookie in 0..32 {
            let offset = cookie * 8192 + 1;
            wire.ask(
                &Request {
                    command: Command::Write,
                    fua: false,
                    df: false,
                    cookie,
                    offset,
                    length: 5,
                },
                &[1; 5],
            );
        }
    }
    for _ in 0..20 {
        for wire in &mut wires {
            wire.transfer();
        }
        lab.wait_for(Nanos::from_micros(100));
    }
    assert!(!lab.device.exclusion.has_room(TenantId(1)), "the tenant has as many as it may");
    assert!(!lab.device.to_exclude.is_empty() && lab.device.exclusion.has_room(TenantId(2)));
    let (mut free, began) = (lab.open_range(0, "free", 1 << 20, 1 << 20), lab.now());
    let part =
        Request { command: Command::Write, fua: false, df: false, cookie: 1, offset: 3, length: 5 };
    assert!(lab.ask(&mut free, &part, &[2; 5]));
    assert!(lab.now().since(began) < Nanos::from_millis(10));
    let mut answered = 0;
    while answered < 8 * 32 {
        for wire in &mut wires {
            answered +=
                std::iter::from_fn(|| wire.answer()).inspect(|(_, is_ok)| assert!(is_ok)).count();
        }
        assert!(lab.step());
    }
    assert!(lab.device.exclusion.is_idle() && lab.device.exclusion.has_room(TenantId(1)));
}
